"""A partition's life under several leaders, with what each of them copied to the tier: made of a seed.

A new leader's log is that of the leader before it up to some batch; what that one had behind it is lost, though it may
be in the tier. Each leader has segments of its own, and copies those that reach behind what its lineage has in the
tier.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from formats.checkpoint import build_leader_epochs
from formats.file_name import FileKind
from formats.kernels.indexes import SegmentIndexes
from formats.properties import PartitionMetadata, build_partition_metadata
from kcli.log.leader_epochs import LeaderEpochCache
from kcli.tier.layout import object_name
from kcli.tier.local import LocalStore
from tests.log.batches import batch, keyed
from tests.tier.records import PARTITION, started, updated, uuid


@dataclass(frozen=True)
class Batch:
    """A batch: offsets first..last of one epoch, and its bytes."""

    first: int
    last: int
    epoch: int
    data: bytes


@dataclass
class World:
    """log: the batches of the last leader. tiered: those that the tier alone tells of: the log of the last leader that
    copied records of its own epoch. local: the base offset of the local log. copies: the number of segments."""

    log: list[Batch] = field(default_factory=list)
    tiered: list[Batch] = field(default_factory=list)
    local: int = 0
    copies: int = 0


def values(log: list[Batch]) -> list[tuple[int, int]]:
    """Offset and leader epoch of each record."""
    return [(offset, each.epoch) for each in log for offset in range(each.first, each.last + 1)]


def make(home: Path, seed: int, *, leaders: int = 4) -> World:
    """Write the store (home/tier) and the log directory (home/data) of a life."""
    dice, world = random.Random(seed), World()
    (home / "tier").mkdir(parents=True)
    store = LocalStore(home / "tier")
    records: list[bytes] = []
    tiered: dict[int, int] = {}  # epoch -> the highest offset in the tier
    epoch = 0
    for leader in range(leaders):
        if leader:
            epoch += dice.randrange(1, 3)
            world.log = world.log[: max(1, len(world.log) - dice.choice((0, 0, 1, 3, 8)))]
        for _ in range(dice.randrange(3, 25)):
            _append(world.log, epoch, dice)
        bases = _bases(world.log, dice)
        closed = list(pairwise(bases))
        highest = _highest(world.log, tiered)
        for base, following in closed[: len(closed) if leader + 1 == leaders else dice.randrange(len(closed) + 1)]:
            if following - 1 <= highest:
                continue
            world.copies += 1
            mine = [each for each in world.log if base <= each.first < following]
            if not world.tiered or (mine[-1].epoch, mine[-1].last) >= (world.tiered[-1].epoch, world.tiered[-1].last):
                world.tiered = [each for each in world.log if each.last < following]
            records += _copy(store, uuid(world.copies), mine, _epochs(world.log))
            for each in mine:
                tiered[each.epoch] = max(tiered.get(each.epoch, -1), each.last)
        world.local = bases[-1] if dice.random() < 0.7 else dice.choice([each.first for each in world.log])
    world.local = min(world.local, _highest(world.log, tiered) + 1)
    _write_local(home / "data", world, records)
    return world


def _append(log: list[Batch], epoch: int, dice: random.Random) -> None:
    first = log[-1].last + 1 if log else 0
    values = [f"{epoch}:{first + i}".encode() for i in range(dice.randrange(1, 6))]
    data = bytes(batch(*values, base_offset=first, leader_epoch=epoch))
    log.append(Batch(first, first + len(values) - 1, epoch, data))


def _bases(log: list[Batch], dice: random.Random) -> list[int]:
    """The base offsets of a leader's segments; the last one is active."""
    firsts = [each.first for each in log[1:]]
    return [0, *sorted(dice.sample(firsts, min(len(firsts), dice.randrange(1, 6))))]


def _epochs(log: list[Batch]) -> LeaderEpochCache:
    cache = LeaderEpochCache()
    for each in log:
        cache.assign(each.epoch, each.first)
    return cache


def _highest(log: list[Batch], tiered: dict[int, int]) -> int:
    """The highest offset of a log's lineage that is in the tier, as the leader looks for it."""
    entries = _epochs(log).entries
    for number in range(len(entries) - 1, -1, -1):
        until = entries[number + 1].start_offset - 1 if number + 1 < len(entries) else log[-1].last
        found = tiered.get(entries[number].epoch)
        if found is not None:
            return min(found, until)
    return -1


def _indexes(base: int, batches: list[Batch]) -> SegmentIndexes:
    indexes = SegmentIndexes(base, 100)
    for each in batches:
        indexes.add(each.data)
    indexes.finish()
    return indexes


def _copy(store: LocalStore, segment_id: str, batches: list[Batch], epochs: LeaderEpochCache) -> list[bytes]:
    first, last = batches[0].first, batches[-1].last
    data = b"".join(each.data for each in batches)
    indexes = _indexes(first, batches)
    upto = LeaderEpochCache(epochs.entries)
    upto.truncate_from_end(last + 1)
    own = LeaderEpochCache(upto.entries)
    own.truncate_from_start(first)
    for kind, content in {
        FileKind.LOG: data,
        FileKind.OFFSET_INDEX: bytes(indexes.offsets),
        FileKind.TIME_INDEX: bytes(indexes.times),
        FileKind.REMOTE_LEADER_EPOCHS: build_leader_epochs(upto.entries),
        FileKind.PRODUCER_SNAPSHOT: bytes.fromhex("0001" + "48674bc7" + "00000000"),
    }.items():
        store.write(object_name(PARTITION, first, segment_id, kind), [content])
    return [
        started(segment_id, first, last, [(each.epoch, each.start_offset) for each in own.entries], size=len(data)),
        updated(segment_id, 1),
    ]


def _write_local(data: Path, world: World, records: list[bytes]) -> None:
    log = data / str(PARTITION)
    log.mkdir(parents=True)
    local = [each for each in world.log if each.first >= world.local]
    if local:
        (log / f"{world.local:020}.log").write_bytes(b"".join(each.data for each in local))
    (log / "leader-epoch-checkpoint").write_bytes(_epochs(world.log).to_bytes())
    (log / "partition.metadata").write_bytes(build_partition_metadata(PartitionMetadata(0, PARTITION.topic_id)))
    write_metadata(data, records)
    assert bisect_left([each.first for each in world.log], world.local) < len(world.log), "there is a local log"


def write_metadata(data: Path, records: list[bytes]) -> None:
    """Write `__remote_log_metadata-0`."""
    directory = data / "__remote_log_metadata-0"
    directory.mkdir(parents=True)
    batches = (keyed(None, value, base_offset=i) for i, value in enumerate(records))
    (directory / f"{0:020}.log").write_bytes(b"".join(batches))
