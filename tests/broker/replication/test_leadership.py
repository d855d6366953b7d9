"""The decisions of a leader: the high watermark, and the followers that join or leave the ISR."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from uuid import UUID

import pytest

from kcli.broker.partition.leadership import Follower, Leadership
from kcli.metadata.partition import Partition
from kcli.protocol.error_code import ErrorCode

LAG_MS = 1000
STATE = Partition(
    replicas=(1, 2, 3), directories=(UUID(int=1),) * 3, isr=(1, 2, 3), leader=1, leader_epoch=4, partition_epoch=7
)


class World:
    """The leadership of broker 1 over two followers, and which of them are eligible."""

    def __init__(self, state: Partition = STATE, log_end: int = 100) -> None:
        self.refused: set[int] = set()
        self.led = Leadership(1, lambda: LAG_MS, lambda each, epoch: each not in self.refused and epoch == 50 + each)
        self.led.update(state, log_end, 0)

    def fetched(self, broker_id: int, offset: int, now_ms: int, log_end: int) -> Follower:
        follower = self.led.followers[broker_id]
        follower.fetched(offset, 0, now_ms, log_end, 50 + broker_id)
        return follower

    def high_watermark(self, log_end: int, min_isr: int = 1, now_ms: int = 0) -> int | None:
        return self.led.high_watermark(log_end, min_isr, now_ms)


def test_the_high_watermark_is_the_smallest_log_end_in_sync() -> None:
    world = World()
    assert world.high_watermark(110) == -1  # nobody has fetched
    world.fetched(2, 105, 0, 110)
    assert world.high_watermark(110) == -1
    world.fetched(3, 103, 0, 110)
    assert world.high_watermark(110) == 103
    world.fetched(3, 110, 0, 110)
    assert world.high_watermark(110) == 105


def test_it_stays_while_fewer_are_in_sync_than_must_be() -> None:
    world = World(replace(STATE, isr=(1,)))
    assert world.led.is_alone
    assert world.high_watermark(110, min_isr=2) is None
    assert world.led.lacks_replicas(2)
    assert not world.led.lacks_replicas(1)
    assert world.high_watermark(110) == 110
    assert World(replace(STATE, replicas=(1, 2), isr=(1, 2))).led.min_isr(3) == 2


def test_it_waits_for_who_is_about_to_join() -> None:
    world = World(replace(STATE, isr=(1, 2)))
    world.fetched(2, 110, 0, 110)
    assert world.high_watermark(110) == 110
    world.fetched(3, 100, 0, 100)
    assert world.high_watermark(110) == 100
    assert world.high_watermark(110, now_ms=LAG_MS + 1) == 110  # it is not caught up any more
    world.refused.add(3)
    assert world.high_watermark(110) == 110


def test_a_follower_joins_with_the_high_watermark_and_the_epochs_start() -> None:
    world = World(replace(STATE, isr=(1, 2)))
    assert world.led.expansion(world.fetched(3, 99, 0, 110), 90, 51) is None  # the epoch began at 100
    assert world.led.expansion(world.fetched(3, 104, 0, 110), 105, 51) is None
    world.refused.add(3)
    assert world.led.expansion(world.fetched(3, 105, 0, 110), 105, 51) is None
    world.refused.clear()
    change = world.led.expansion(world.fetched(3, 105, 0, 110), 105, 51)
    assert change is not None
    assert change.isr == ((1, 51), (2, -1), (3, 53))  # 2 has not fetched from this leader
    assert (change.leader_epoch, change.partition_epoch) == (4, 7)
    assert (world.led.isr, world.led.maximal_isr) == ((1, 2), (1, 2, 3))
    world.fetched(2, 110, 0, 110)
    assert world.high_watermark(110, now_ms=9 * LAG_MS) == 105  # it counts already
    assert world.led.expansion(world.fetched(3, 110, 0, 110), 105, 51) is None  # one change at a time
    assert world.led.accepted(change, 4, 8, (1, 2, 3))
    assert (world.led.isr, world.led.partition_epoch, world.led.pending) == ((1, 2, 3), 8, None)
    assert not world.led.accepted(change, 4, 8, (1, 2, 3))
    assert not world.led.update(replace(STATE, isr=(1, 2)), 110, 0)  # older than the controller's answer
    assert world.led.isr == (1, 2, 3)


def test_who_lags_leaves_once_the_controller_says_so() -> None:
    world = World()
    assert world.led.shrinking(100, LAG_MS, 51) is None
    world.fetched(2, 100, 10, 100)
    world.fetched(3, 50, 10, 100)
    change = world.led.shrinking(100, LAG_MS + 1, 51)
    assert change is not None
    assert change.ids == (1, 2)
    assert world.led.maximal_isr == (1, 2, 3)
    assert world.high_watermark(100, now_ms=LAG_MS + 1) == 50
    assert world.led.shrinking(100, 5 * LAG_MS, 51) is None
    world.led.accepted(change, 4, 8, (1, 2))
    assert world.high_watermark(100, now_ms=LAG_MS + 20) == 100
    # follower 2 has all records: it does not lag, however long it sends no Fetch
    assert world.led.shrinking(100, 5 * LAG_MS, 51) is None
    assert world.led.shrinking(101, 5 * LAG_MS, 51) is not None


def test_caught_up_is_who_reads_what_was_the_end_when_it_last_asked() -> None:
    follower = Follower(2)
    follower.fetched(100, 0, 10, 120, 1)
    assert follower.last_caught_up_ms == 0
    follower.fetched(120, 0, 500, 140, 1)
    assert follower.last_caught_up_ms == 10
    follower.fetched(130, 0, 900, 160, 1)
    assert follower.last_caught_up_ms == 10
    follower.fetched(160, 0, 990, 160, 1)
    assert follower.last_caught_up_ms == 990


def test_who_rests_had_all_at_its_sessions_last_fetch() -> None:
    follower, clock = Follower(2), SimpleNamespace(fetched_ms=10)
    follower.fetched(100, 0, 10, 100, 1)
    follower.rest(clock)
    clock.fetched_ms = 90_000
    follower.rouse()
    clock.fetched_ms = 95_000
    follower.rouse()
    assert (follower.last_caught_up_ms, follower.last_fetch_ms) == (90_000, 90_000)
    assert follower.is_caught_up(101, 90_000 + LAG_MS, LAG_MS)
    assert not follower.is_caught_up(101, 90_001 + LAG_MS, LAG_MS)


@pytest.mark.parametrize(
    ("code", "again", "pending", "maximal"),
    [
        (ErrorCode.INELIGIBLE_REPLICA, False, False, (1, 2)),
        (ErrorCode.OPERATION_NOT_ATTEMPTED, False, False, (1, 2)),
        (ErrorCode.INVALID_UPDATE_VERSION, False, True, (1, 2, 3)),
        (ErrorCode.FENCED_LEADER_EPOCH, False, True, (1, 2, 3)),
        (ErrorCode.UNKNOWN_TOPIC_ID, False, True, (1, 2, 3)),
        (ErrorCode.NEW_LEADER_ELECTED, False, True, (1, 2, 3)),
        (ErrorCode.UNKNOWN_SERVER_ERROR, True, True, (1, 2, 3)),
    ],
)
def test_a_refusal_leaves_what_is_safe(code: ErrorCode, again: bool, pending: bool, maximal: tuple[int, ...]) -> None:
    world = World(replace(STATE, isr=(1, 2)))
    change = world.led.expansion(world.fetched(3, 110, 0, 110), 105, 51)
    assert change is not None
    assert world.led.refused(change, code) is again
    assert (world.led.pending is not None) is pending
    assert world.led.maximal_isr == maximal
    world.led.update(replace(STATE, isr=(1, 2), partition_epoch=9), 110, 0)
    assert (world.led.pending, world.led.maximal_isr) == (None, (1, 2))
    assert not world.led.refused(change, ErrorCode.INELIGIBLE_REPLICA)


def test_a_new_epoch_forgets_what_followers_had() -> None:
    world = World()
    world.fetched(2, 100, 10, 100)
    world.led.update(replace(STATE, leader_epoch=5, partition_epoch=8), 120, 500)
    assert world.led.epoch_start_offset == 120
    assert world.led.followers[2].log_end_offset == 100  # the leader is the same one, so its log has all that it had
    assert world.led.followers[2].last_caught_up_ms == 500
    world.led.update(replace(STATE, replicas=(1, 2), isr=(1, 2), leader_epoch=5, partition_epoch=9), 120, 600)
    assert set(world.led.followers) == {2}
