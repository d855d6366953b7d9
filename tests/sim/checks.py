"""The promises of the coordinators, one class for each. The checks see a response when the broker sends it, not when
the network delivers it, since a lost response may still have reached its client.

    Commits       an acknowledged offset stays committed until another one replaces it
    Generations   in one generation no partition has two owners; nothing is assigned or committed in a generation that
                  is over
    Owners        the same for groups with members of the consumer protocol: no member is assigned a partition that
                  another one has not revoked yet, or commits for a partition of another one
    Ledger        the records and offsets of a transaction are visible together or not at all; its markers are of one
                  kind; it is committed only if its producer sent EndTxn before it was fenced; each input has its output
                  exactly once, in order
    (stuck)       the world checks that groups become stable and transactions end once the faults are over
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field

from kcli.broker.coordinators.log import LoggedBatch, read_log
from kcli.log.live.partition_log import PartitionLog

Input = tuple[str, int]
"""A group, and a partition that it reads."""

Owner = str
"""The instance id of a static member, or the member id of a dynamic one."""


class Broken(AssertionError):
    """A promise is broken."""


def must(holds: bool, promise: str) -> None:
    """Raise Broken unless `holds`."""
    if not holds:
        raise Broken(promise)


class Commits:
    """Offsets that members commit outside of transactions, each offset a different one. Requests are numbered in the
    order in which they reach the broker, which handles and answers them in this order."""

    def __init__(self) -> None:
        self._last: dict[Input, int] = {}
        self._perhaps: dict[Input, dict[int, int]] = defaultdict(dict)
        self._begun = 0
        self.count = 0

    def now(self) -> int:
        """Return the number of the next request."""
        self._begun += 1
        return self._begun

    def begins(self, place: Input, offset: int) -> int:
        """Note that the log may have the offset from now on. Returns the number of the commit."""
        begun = self.now()
        self._perhaps[place][begun] = offset
        return begun

    def acknowledged(self, place: Input, begun: int) -> None:
        """Note that the commit was acknowledged."""
        offset = self._perhaps[place].get(begun)
        if offset is not None:
            self._is(place, offset, begun)
            self.count += 1

    def refused(self, place: Input, begun: int) -> None:
        """Note that the commit was refused."""
        self._perhaps[place].pop(begun, None)

    def read(self, place: Input, offset: int, begun: int) -> None:
        """Check an offset that OffsetFetch returned. begun: the number of the OffsetFetch."""
        last = self._last.get(place, -1)
        perhaps = self._perhaps[place].values()
        must(offset == last or offset in perhaps, f"{place} has offset {offset}, {last} was acknowledged")
        self._is(place, offset, begun)

    def _is(self, place: Input, offset: int, begun: int) -> None:
        """Note that `offset` is committed: an attempt numbered up to `begun` can no longer change it."""
        self._last[place] = offset
        for each in [each for each in self._perhaps[place] if each <= begun]:
            del self._perhaps[place][each]

    @property
    def places(self) -> Iterable[Input]:
        """Return the partitions with a committed offset."""
        return list(self._last)


class Generations:
    """The generations of classic groups, as JoinGroup and SyncGroup answer them. After a crash a generation may begin
    again if no member had its assignment."""

    def __init__(self) -> None:
        self._current: dict[str, int] = {}
        self._assigned: dict[str, int] = {}
        self._owners: dict[tuple[str, int], dict[int, Owner]] = defaultdict(dict)
        self.count = 0

    def joined(self, group: str, generation: int) -> None:
        """Note that a JoinGroup was answered with this generation."""
        self._current[group] = max(generation, self._current.get(group, 0))

    def assigned(self, group: str, generation: int, owner: Owner, partitions: Iterable[int]) -> None:
        """Check the assignment that a SyncGroup was answered with."""
        self._check(group, generation, f"{owner} is assigned {list(partitions)}")
        owners = self._owners[group, generation]
        for number in partitions:
            known = owners.setdefault(number, owner)
            must(known == owner, f"{group}, generation {generation}: partition {number} is {known}'s and {owner}'s")
        self._assigned[group] = max(generation, self._assigned.get(group, 0))
        self.count += 1

    def committed(self, group: str, generation: int, owner: Owner) -> None:
        """Check that the member may commit: its OffsetCommit was acknowledged."""
        self._check(group, generation, f"{owner} commits")

    def _check(self, group: str, generation: int, what: str) -> None:
        current = self._current.get(group, 0)
        must(generation >= current, f"{group}: {what} in generation {generation}, it is {current}")

    def reloaded(self) -> None:
        """Note that the groups were loaded from their logs again."""
        self._current = dict(self._assigned)


@dataclass(slots=True)
class _Held:
    """The partitions that a member may have, as far as the coordinator can know, and the member epoch in which they
    were assigned."""

    epoch: int = -1
    partitions: set[int] = field(default_factory=set)


class Owners:
    """The partitions that members of the consumer protocol (KIP-848) have been assigned and have not revoked, also in
    groups with members of both protocols.

    mixed: groups that change between the classic and the consumer protocol. A member whose epoch is from before such a
    change owns nothing there: the coordinator refuses its requests.
    """

    def __init__(self, mixed: Container[str]) -> None:
        self._mixed = mixed
        self._held: dict[str, dict[str, _Held]] = defaultdict(dict)

    def said(self, group: str, member: str, owned: set[int]) -> None:
        """Note the partitions that a member's heartbeat says it owns."""
        self._held[group].setdefault(member, _Held()).partitions &= owned

    def told(self, group: str, member: str, epoch: int, partitions: set[int], epochs: Mapping[str, int]) -> None:
        """Check the assignment that a heartbeat was answered with. epochs: those of all members of the group."""
        must(epochs.get(member, epoch) == epoch, f"{group}: {member} is served in epoch {epoch}, others: {epochs}")
        held = self._held[group] = {each: had for each, had in self._held[group].items() if each in epochs}
        own = held.setdefault(member, _Held())
        new = partitions - own.partitions
        others = self._others(group, member, epochs)
        for other, has in others.items():
            must(not new & has, f"{group}: {member} is given {new}, {other} has {has}")
        for other, had in held.items():
            if other not in others:
                had.partitions -= new
        own.epoch, own.partitions = epoch, own.partitions | partitions

    def committed(self, group: str, member: str, partition: int, epochs: Mapping[str, int]) -> None:
        """Check that the member owns the partition: its OffsetCommit was acknowledged."""
        others = [other for other, has in self._others(group, member, epochs).items() if partition in has]
        must(not others, f"{group}: {member} commits for partition {partition}, which {others} has")

    def _others(self, group: str, member: str, epochs: Mapping[str, int]) -> dict[str, set[int]]:
        """Return the partitions that other members have."""
        return {
            other: had.partitions
            for other, had in self._held[group].items()
            if other != member and other in epochs and (group not in self._mixed or had.epoch == epochs[other])
        }


@dataclass(slots=True)
class Transaction:
    """A producer's transaction. writes: partition and value of each acknowledged record. asked: EndTxn with
    committed=true was sent and not refused; committed, aborted: EndTxn was acknowledged; fenced: its producer was
    fenced before EndTxn."""

    number: int
    name: str
    producer: tuple[int, int]
    writes: list[tuple[int, bytes]] = field(default_factory=list)
    offsets: dict[Input, int] = field(default_factory=dict)
    asked: bool = False
    committed: bool = False
    aborted: bool = False
    fenced: bool = False


class Ledger:
    """All transactions, to be compared with the logs at the end of the simulation."""

    def __init__(self) -> None:
        self.transactions: list[Transaction] = []
        self._open: dict[str, list[Transaction]] = defaultdict(list)
        self._floor: dict[Input, int] = defaultdict(int)

    def begin(self, name: str, producer: tuple[int, int]) -> Transaction:
        """Note that a producer begins a transaction."""
        begun = Transaction(len(self.transactions), name, producer)
        self.transactions.append(begun)
        self._open[name].append(begun)
        return begun

    def initialized(self, name: str, producer: tuple[int, int]) -> None:
        """Note InitProducerId: from now on the former producer of this transactional id commits nothing."""
        for each in self._open[name]:
            if not each.asked and each.producer != producer:
                each.fenced = True
        self._open[name] = [each for each in self._open[name] if each.producer == producer]

    def ended(self, transaction: Transaction, *, commit: bool) -> None:
        """Note that EndTxn was acknowledged."""
        if not commit:
            transaction.aborted = True
            return
        transaction.committed = True
        for place, offset in transaction.offsets.items():
            self._floor[place] = max(self._floor[place], offset)

    def read(self, place: Input, offset: int) -> None:
        """Note that OffsetFetch, with require_stable, returned this offset."""
        must(max(offset, 0) >= self._floor[place], f"{place} has offset {offset}, {self._floor[place]} was committed")

    @property
    def commits(self) -> int:
        """Return the number of transactions whose commit was acknowledged."""
        return sum(each.committed for each in self.transactions)

    # at the end of the simulation

    def check(self, outputs: dict[int, PartitionLog], committed: dict[Input, int]) -> None:
        """Check the transactions. outputs: the logs of the output's partitions; committed: the offsets of the
        groups."""
        outcomes: dict[int, set[bool]] = defaultdict(set)
        visible: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
        done: dict[Input, list[int]] = defaultdict(list)
        for number, log in outputs.items():
            batches = list(read_log(log))
            for transaction, outcome in _outcomes(batches):
                outcomes[transaction].add(outcome)
            seen = _read_committed(log, batches)
            for value in seen:
                visible[_transaction(value)].append((number, value))
            for place, offsets in _inputs(seen).items():
                must(offsets == sorted(offsets), f"{place} in output {number} is not in order: {offsets}")
                done[place] += offsets
        for each in self.transactions:
            _check_transaction(each, outcomes[each.number], visible[each.number])
        for place in {**done, **committed}:
            count = max(committed.get(place, 0), 0)
            must(sorted(done[place]) == list(range(count)), f"{place}: outputs {done[place]} of {count} inputs")


def value_of(transaction: Transaction, place: Input, offset: int) -> bytes:
    """Return the value that a transaction writes for one input."""
    return f"{transaction.number} {place[0]} {place[1]} {offset}".encode()


def _transaction(value: bytes) -> int:
    return int(value.split()[0])


def _inputs(values: list[bytes]) -> dict[Input, list[int]]:
    """Return the inputs whose outputs these values are."""
    found: dict[Input, list[int]] = defaultdict(list)
    for value in values:
        _, group, number, offset = value.decode().split()
        found[group, int(number)].append(int(offset))
    return found


def _outcomes(batches: Iterable[LoggedBatch]) -> list[tuple[int, bool]]:
    """Return the transactions of a partition, each with whether its marker there commits it."""
    open_: dict[int, set[int]] = defaultdict(set)
    found = []
    for batch in batches:
        if batch.commits is None:
            open_[batch.producer_id] |= {_transaction(value or b"") for _, (_, value) in batch.records}
        else:
            ended = open_.pop(batch.producer_id, set())
            must(len(ended) <= 1, f"one marker ends the transactions {sorted(ended)}")
            found += [(each, batch.commits) for each in ended]
    must(not any(open_.values()), f"transactions {sorted(set().union(*open_.values()))} are open for ever")
    return found


def _read_committed(log: PartitionLog, batches: Iterable[LoggedBatch]) -> list[bytes]:
    """Return the values that a consumer with read_committed sees, which skips the aborted transactions that Fetch
    lists."""
    must(log.last_stable_offset == log.log_end_offset, "the last stable offset is behind the end")
    aborted = sorted(log.aborted_transactions(0, log.log_end_offset), key=lambda each: each.first_offset)
    active: set[int] = set()
    seen: list[bytes] = []
    for batch in batches:
        if batch.commits is not None:
            active.discard(batch.producer_id)
            continue
        while aborted and aborted[0].first_offset <= batch.records[0][0]:
            active.add(aborted.pop(0).producer_id)
        if batch.producer_id not in active:
            seen += [value or b"" for _, (_, value) in batch.records]
    return seen


def _check_transaction(each: Transaction, outcomes: set[bool], visible: list[tuple[int, bytes]]) -> None:
    name = f"transaction {each.number} of {each.name}"
    must(len(outcomes) <= 1, f"{name} is committed and aborted")
    is_committed = True in outcomes
    must(is_committed or not visible, f"{name} was aborted and is visible")
    must(each.asked or not is_committed, f"{name} is committed, its producer did not ask for it")
    must(not (each.fenced and is_committed), f"{name} is committed, its producer was fenced before")
    must(not (each.aborted and is_committed), f"{name} is committed, it was said to be aborted")
    if is_committed or each.committed:
        for number in {place for place, _ in (*visible, *each.writes)}:
            seen, sent = ([value for place, value in part if place == number] for part in (visible, each.writes))
            must(seen == sent, f"{name} is committed, of {sent} in output {number} there is {seen}")
