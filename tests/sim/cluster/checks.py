"""What must hold of a cluster, one class a promise or a few that look at the same thing.

Logs           every replica's appends: one leader an epoch (of the quorum and of partitions: election safety); an
               offset is used once in an epoch; what a follower has at an epoch and offset is what the leader wrote
               there (log matching); nobody writes below what was committed; a high watermark never goes back
Acknowledged   at acks=all: it is there in the end, at its offset, on all replicas; nothing is there twice
Transactions   all of it is seen by readers of committed data, or nothing; aborted data never, not even meanwhile
Commits        of offsets, Assignments of groups: an acknowledged offset stays until another replaces it; in one
               generation no partition has two owners; in the log of groups generations only grow
(stuck)        the world looks whether all get on once the faults are over
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from kcli.protocol.topic_partition import TopicPartition
from tests.sim.checks import must
from tests.sim.cluster.batches import Batch, batches


class Logs:
    """See above. leads: who wrote in which epoch."""

    def __init__(self) -> None:
        self.leads: dict[tuple[str, int], int] = {}
        self._written: dict[tuple[str, int, int], tuple[int, int]] = {}
        self._begins: dict[str, dict[int, int]] = defaultdict(dict)
        self._committed: dict[str, dict[int, int]] = defaultdict(dict)

    def led(self, node: int, log: str, epoch: int) -> None:
        """A node acts as a leader."""
        leader = self.leads.setdefault((log, epoch), node)
        must(leader == node, f"{log} has two leaders in epoch {epoch}: {leader} and {node}")

    def written(self, node: int, log: str, epoch: int, first: int, last: int, crc: int) -> None:
        """A leader has appended a batch."""
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
        """A follower has appended batches, those below `behind`."""
        for batch in batches(data):
            if batch.last_offset >= behind:
                return
            found = (batch.last_offset, batch.crc)
            known = self._written.setdefault((log, batch.epoch, batch.base_offset), found)  # its leader died writing it
            must(
                known == found,
                f"{log}: node {node} has {found} at offset {batch.base_offset} of epoch {batch.epoch}, "
                f"its leader wrote {known}",
            )

    def moved(self, node: int, log: str, epoch: int | None, before: int, after: int) -> None:
        """A replica's high watermark is another. epoch: the latest that its log knows, a leader's own; None where it
        has a snapshot. A follower hears of what its leader has committed, in an epoch that may have no batch yet."""
        must(after >= before, f"{log}: the high watermark of node {node} goes back from {before} to {after}")
        committed = self._committed[log]
        if epoch is not None and after > max(committed.values(), default=0):
            committed[epoch] = after
            for later, begin in self._begins[log].items():
                self._look(log, epoch, after, later, begin)


class Acknowledged:
    """What producers were told is written."""

    def __init__(self) -> None:
        self._values: dict[TopicPartition, dict[int, bytes]] = defaultdict(dict)
        self.count = 0

    def told(self, place: TopicPartition, offset: int, values: list[bytes]) -> None:
        """The answer said so. offset -1: a batch known from before."""
        for i, value in enumerate(values):
            if offset >= 0:
                known = self._values[place].setdefault(offset + i, value)
                must(known == value, f"{place}: offset {offset + i} was acknowledged for {known!r} and {value!r}")
            self.count += 1

    def check(self, place: TopicPartition, log: Iterable[Batch]) -> None:
        """In the end."""
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
    """One of a producer. writes: acknowledged; tried: perhaps written. asked: to be committed."""

    name: str
    writes: list[tuple[TopicPartition, bytes]] = field(default_factory=list)
    tried: list[tuple[TopicPartition, bytes]] = field(default_factory=list)
    asked: bool = False
    committed: bool = False
    aborted: bool = False


class Transactions:
    """All of them, and what readers of committed data have seen."""

    def __init__(self) -> None:
        self._all: list[Transaction] = []
        self._of: dict[bytes, Transaction] = {}
        self._seen: dict[TopicPartition, dict[int, bytes]] = defaultdict(dict)
        self.count = 0

    def begin(self, name: str) -> Transaction:
        """A producer begins one."""
        one = Transaction(name)
        self._all.append(one)
        return one

    def tries(self, one: Transaction, place: TopicPartition, value: bytes) -> None:
        """It is about to be written."""
        one.tried.append((place, value))
        self._of[value] = one

    def seen(self, place: TopicPartition, offset: int, value: bytes) -> None:
        """A reader of committed data is given it."""
        known = self._seen[place].setdefault(offset, value)
        must(known == value, f"{place}: offset {offset} was read as {known!r}, and now as {value!r}")
        one = self._of.get(value)
        if one is not None:
            must(one.asked and not one.aborted, f"{place}: {value!r} at {offset} is seen, {one.name} did not commit it")

    def check(self) -> None:
        """In the end, when all has been read."""
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
    """Who owns what in which generation, as members are told."""

    def __init__(self) -> None:
        self._owners: dict[tuple[str, int, int], str] = {}
        self._last: dict[tuple[str, str], int] = {}
        self.count = 0

    def told(self, group: str, member: str, generation: int, partitions: Iterable[int]) -> None:
        """A member's assignment."""
        for number in partitions:
            owner = self._owners.setdefault((group, generation, number), member)
            must(owner == member, f"{group}, generation {generation}: {number} is {owner}'s and {member}'s")
        last = self._last.get((group, member), 0)
        must(generation >= last, f"{group}: {member} goes back from generation {last} to {generation}")
        self._last[group, member] = generation
        self.count += 1

    @staticmethod
    def check(place: TopicPartition, generations: Iterable[tuple[str, int]]) -> None:
        """In the log of groups: group and generation, in order; -1: the group is gone."""
        last: dict[str, int] = {}
        for group, generation in generations:
            before = last.get(group, 0)
            must(
                generation < 0 or generation >= before,
                f"{place}: {group} goes from generation {before} to {generation}",
            )
            last[group] = max(generation, 0)
