"""Where a follower begins that finds the leader's start in tiered storage alone: what is asked of the leader, and what
is read from the tier, beside golden/tiered, where Kafka has copied the state of its logs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from formats.checkpoint import EpochEntry
from formats.producer_snapshot import parse as parse_snapshot
from kcli.broker.replication.tier_state import NotInTier, Start, TierState, find_start
from kcli.broker.tiering.following import StatesInTier
from kcli.broker.tiering.pool import ThreadPool
from kcli.log.live.partition_log import EARLIEST, EARLIEST_LOCAL, EARLIEST_PENDING_UPLOAD
from kcli.tier.local import LocalStore
from tests.broker.tiering.tier_reader import Known, replica, running
from tests.tier.stores import Copy

STATE = TierState(100, (EpochEntry(0, 0),), b"snapshot")
PARTITION: Any = SimpleNamespace(log=SimpleNamespace(is_tiered=True))
NOT_TIERED: Any = SimpleNamespace(log=SimpleNamespace(is_tiered=False))


@dataclass
class Leader:
    """A leader with these offsets: timestamp -> offset and epoch. ends: epoch -> the epoch found, and its end."""

    offsets: dict[int, tuple[int, int]]
    ends: dict[int, tuple[int, int]] = field(default_factory=dict)

    async def offset(self, timestamp: int) -> tuple[int, int]:
        return self.offsets[timestamp]

    async def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        return self.ends[epoch]


@dataclass
class States:
    """A tier that notes what is asked of it."""

    asked: list[tuple[int, int]] = field(default_factory=list)

    async def state_behind(self, _: object, epoch: int, offset: int) -> TierState:
        self.asked.append((epoch, offset))
        return STATE


@pytest.mark.parametrize(
    ("offsets", "ends", "behind_last", "asked"),
    [
        pytest.param({EARLIEST: (0, 0), EARLIEST_LOCAL: (90, 0)}, {}, False, (0, 89), id="epoch 0"),
        pytest.param(
            {EARLIEST: (0, 0), EARLIEST_LOCAL: (90, 3)}, {2: (1, 90)}, False, (1, 89), id="the epoch before ends there"
        ),
        pytest.param(
            {EARLIEST: (0, 0), EARLIEST_LOCAL: (90, 3)}, {2: (1, 80)}, False, (3, 89), id="the epoch before ends below"
        ),
        pytest.param(
            {EARLIEST: (0, 0), EARLIEST_LOCAL: (90, 0), EARLIEST_PENDING_UPLOAD: (200, 0)},
            {},
            True,
            (0, 199),
            id="behind the last tiered offset",
        ),
        pytest.param({EARLIEST: (90, 0), EARLIEST_LOCAL: (90, 0)}, {}, False, None, id="nothing in the tier"),
        pytest.param(
            {EARLIEST: (7, 0), EARLIEST_LOCAL: (7, 0), EARLIEST_PENDING_UPLOAD: (-1, -1)},
            {},
            True,
            None,
            id="nothing is uploaded",
        ),
    ],
)
def test_where_a_follower_begins(
    offsets: dict[int, tuple[int, int]],
    ends: dict[int, tuple[int, int]],
    behind_last: bool,
    asked: tuple[int, int] | None,
) -> None:
    states = States()

    async def find() -> Start:
        return await find_start(Leader(offsets, ends), states, PARTITION, behind_last_tiered=behind_last)

    found = running(find)
    assert found == Start(offsets[EARLIEST][0], None if asked is None else STATE)
    assert states.asked == ([] if asked is None else [asked])


@pytest.mark.parametrize(
    ("offsets", "partition", "tier", "reason"),
    [
        ({}, PARTITION, None, "this broker has no tiered storage for it"),
        ({}, NOT_TIERED, States(), "this broker has no tiered storage for it"),
        (
            {EARLIEST: (0, 0), EARLIEST_LOCAL: (90, 0), EARLIEST_PENDING_UPLOAD: (-1, -1)},
            PARTITION,
            States(),
            "the leader does not know yet what is in the tier",
        ),
    ],
)
def test_a_follower_that_has_to_try_again(
    offsets: dict[int, tuple[int, int]], partition: Any, tier: States | None, reason: str
) -> None:
    async def find() -> Start:
        return await find_start(Leader(offsets), tier, partition, behind_last_tiered=True)

    with pytest.raises(NotInTier, match=reason):
        running(find)


def test_golden(tmp_path: Path) -> None:
    """The state is that of the log that Kafka had: the snapshot at the end of the segment, and its leader epochs."""
    golden = Copy.of_golden(tmp_path)
    partitions = [each for each in golden.tier().partitions if each.local is not None]
    compared = 0

    async def read_all() -> None:
        nonlocal compared
        pool = ThreadPool("test", lambda: 1, lambda: 1)
        segments = Known({each.partition: each.cache for each in partitions})
        tier = StatesInTier(LocalStore(golden.remote), segments, pool)
        for partition in partitions:
            assert partition.local is not None
            for segment in partition.copied():
                state = await tier.state_behind(replica(partition.partition), 0, segment.end_offset)
                assert state.next_offset == segment.end_offset + 1
                assert state.epochs == (EpochEntry(0, 0),)
                assert state.snapshot is not None
                assert parse_snapshot(state.snapshot) is not None
                kept = partition.local.directory / f"{state.next_offset:020}.snapshot"
                if kept.exists():
                    assert state.snapshot == kept.read_bytes()
                    compared += 1
        with pytest.raises(NotInTier, match="no segment in the tier has offset 9,999 of leader epoch 0"):
            await tier.state_behind(replica(partitions[0].partition), 0, 9_999)
        (path,) = golden.remote.rglob(f"*{partitions[0].copied()[0].id}.snapshot")
        path.unlink()
        first = partitions[0].copied()[0]
        state = await tier.state_behind(replica(partitions[0].partition), 0, first.start_offset)
        assert state.snapshot is None
        pool.close()

    running(read_all)
    assert compared > 5
