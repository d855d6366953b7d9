"""The promises of a cluster. Each class checks one promise, or a few that concern the same data.

Logs           the appends of every replica: an epoch has one leader, in the quorum and in partitions (election
               safety); an epoch uses an offset once; a follower's batch at an epoch and offset is the leader's
               (log matching); no leader writes below a committed offset; a high watermark never decreases
Acknowledged   a record acknowledged with acks=all is in all replicas in the end, once, at the acknowledged offset
Transactions   read_committed consumers see all records of a transaction or none, and aborted records never
Commits        an acknowledged offset stays committed until another one replaces it
Assignments    in one generation no partition has two owners; generations in the log of groups only grow
(stuck)        the world checks that all clients make progress once the faults are over
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from kcli.protocol.topic_partition import TopicPartition
from tests.sim.checks import must
from tests.sim.cluster.batches import Batch, batches


class Logs:
    """Checks the appends of all replicas. leads: the leader of each epoch, by log."""

    def __init__(self) -> None:
        self.leads: dict[tuple[str, int], int] = {}
        self._written: dict[tuple[str, int, int], tuple[int, int]] = {}
        self._begins: dict[str, dict[int, int]] = defaultdict(dict)
        self._committed: dict[str, dict[int, int]] = defaultdict(dict)

    def led(self, node: int, log: str, epoch: int) -> None:
        """Note that a node acts as the leader of an epoch."""
        leader = self.leads.setdefault((log, epoch), node)
        must(leader == node, f"{log} has two leaders in epoch {epoch}: {leader} and {node}")

    def written(self, node: int, log: str, epoch: int, first: int, last: int, crc: int) -> None:
        """Check a batch that a leader has appended."""
        self.led(node, log, epoch)
        known = self._written.setdefault((log, epoch, first), (last, crc))
        must(known == (last, crc), f"{log}: offset {first} is used twice in epoch {epoch}, by node {node}")
        if epoch not in self._begins[log]:
            self._begins[log][epoch] = first
            for known_epoch, end in self._committed[log].items():
                self._look(log, known_epoch, end, epoch, first)

    @staticmethod
    def _look(log: str, epoch: int, end: int, later: int, begin: int) -> None:
        must(
            later <= epoch or begin >= end,
            f"{log}: all below {end} was committed in epoch {epoch}, epoch {later} begins at {begin}",
        )

    def copied(self, node: int, log: str, data: bytes | bytearray | memoryview, behind: int) -> None:
        """Check the batches that a follower has appended. Those from `behind` on are ignored."""
        for batch in batches(data):
            if batch.last_offset >= behind:
                return
            found = (batch.last_offset, batch.crc)
            # the leader may have died while it wrote the batch
            known = self._written.setdefault((log, batch.epoch, batch.base_offset), found)
            must(
                known == found,
                f"{log}: node {node} has {found} at offset {batch.base_offset} of epoch {batch.epoch}, "
                f"its leader wrote {known}",
            )

    def moved(self, node: int, log: str, epoch: int | None, before: int, after: int) -> None:
        """Check a replica's new high watermark. epoch: a leader's own epoch, or a follower's latest epoch in its log;
        None for a replica that begins with a snapshot. A follower may learn the high watermark of an epoch of which it
        has no batch yet."""
        must(after >= before, f"{log}: the high watermark of node {node} goes back from {before} to {after}")
        committed = self._committed[log]
        if epoch is not None and after > max(committed.values(), default=0):
            committed[epoch] = after
            for later, begin in self._begins[log].items():
                self._look(log, epoch, after, later, begin)


class Acknowledged:
    """The records that were acknowledged to producers."""

    def __init__(self) -> None:
        self._values: dict[TopicPartition, dict[int, bytes]] = defaultdict(dict)
        self.count = 0

    def told(self, place: TopicPartition, offset: int, values: list[bytes]) -> None:
        """Note that Produce was acknowledged. offset: -1 for a batch that the leader found to be a duplicate."""
        for i, value in enumerate(values):
            if offset >= 0:
                known = self._values[place].setdefault(offset + i, value)
                must(known == value, f"{place}: offset {offset + i} was acknowledged for {known!r} and {value!r}")
            self.count += 1

    def check(self, place: TopicPartition, log: Iterable[Batch]) -> None:
        """Compare the acknowledged records with the final log of a partition."""
        found: dict[int, bytes] = {}
        for batch in log:
            if not batch.is_control:
                found |= dict(enumerate(batch.values(), batch.base_offset))
        for offset, value in self._values[place].items():
            must(
                found.get(offset) == value,
                f"{place}: {value!r} was acknowledged at offset {offset}, there is {found.get(offset)!r}",
            )
        where: dict[bytes, int] = {}
        for offset, value in found.items():
            must(value not in where, f"{place}: {value!r} is at offsets {where.get(value)} and {offset}")
            where[value] = offset


@dataclass(slots=True)
class Transaction:
    """A producer's transaction. writes: acknowledged records; tried: records that may have been written. asked: whether
    EndTxn commits it."""

    name: str
    writes: list[tuple[TopicPartition, bytes]] = field(default_factory=list)
    tried: list[tuple[TopicPartition, bytes]] = field(default_factory=list)
    asked: bool = False
    committed: bool = False
    aborted: bool = False


class Transactions:
    """All transactions, and the records that read_committed consumers have seen."""

    def __init__(self) -> None:
        self._all: list[Transaction] = []
        self._of: dict[bytes, Transaction] = {}
        self._seen: dict[TopicPartition, dict[int, bytes]] = defaultdict(dict)
        self.count = 0

    def begin(self, name: str) -> Transaction:
        """Note that a producer begins a transaction."""
        one = Transaction(name)
        self._all.append(one)
        return one

    def tries(self, one: Transaction, place: TopicPartition, value: bytes) -> None:
        """Note that a record of the transaction is about to be sent."""
        one.tried.append((place, value))
        self._of[value] = one

    def seen(self, place: TopicPartition, offset: int, value: bytes) -> None:
        """Check a record that a read_committed consumer has received."""
        known = self._seen[place].setdefault(offset, value)
        must(known == value, f"{place}: offset {offset} was read as {known!r}, and now as {value!r}")
        one = self._of.get(value)
        if one is not None:
            must(one.asked and not one.aborted, f"{place}: {value!r} at {offset} is seen, {one.name} did not commit it")

    def check(self) -> None:
        """Check that each transaction was seen whole or not at all, once consumers have read all records."""
        seen = {(place, value) for place, values in self._seen.items() for value in values.values()}
        for one in self._all:
            visible = [write for write in one.tried if write in seen]
            if one.committed or visible:
                missing = [write for write in one.writes if write not in seen]
                must(not missing, f"{one.name} is committed, and of it {missing} are not seen, {visible} are")
            if one.aborted:
                must(not visible, f"{one.name} is aborted, and of it {visible} are seen")
            self.count += one.committed


class Assignments:
    """The owners of partitions in each generation, as SyncGroup answers them."""

    def __init__(self) -> None:
        self._owners: dict[tuple[str, int, int], str] = {}
        self._last: dict[tuple[str, str], int] = {}
        self.count = 0

    def told(self, group: str, member: str, generation: int, partitions: Iterable[int]) -> None:
        """Check the assignment of a member."""
        for number in partitions:
            owner = self._owners.setdefault((group, generation, number), member)
            must(owner == member, f"{group}, generation {generation}: {number} is {owner}'s and {member}'s")
        last = self._last.get((group, member), 0)
        must(generation >= last, f"{group}: {member} goes back from generation {last} to {generation}")
        self._last[group, member] = generation
        self.count += 1

    @staticmethod
    def check(place: TopicPartition, generations: Iterable[tuple[str, int]]) -> None:
        """Check that the generations of each group only grow in a partition of __consumer_offsets. generations: group
        and generation in the order of the log; generation -1 for a tombstone."""
        last: dict[str, int] = {}
        for group, generation in generations:
            before = last.get(group, 0)
            must(
                generation < 0 or generation >= before,
                f"{place}: {group} goes from generation {before} to {generation}",
            )
            last[group] = max(generation, 0)
