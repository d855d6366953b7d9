"""The offset that a follower fetches next, and the offset to which it truncates its log."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.broker.partition.truncation import truncation
from kcli.broker.replication.following import FetchPlan, Followed, Request
from kcli.broker.replication.throttle import UNLIMITED, ReplicationThrottle, named
from kcli.log.leader_epochs import LeaderEpochCache
from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicIdPartition

T, U = UUID(int=7), UUID(int=8)


def followed(number: int = 0, topic: UUID = T, offset: int = 5) -> Followed:
    partition: Any = SimpleNamespace(topic_id=topic, number=number)
    return Followed(partition, 3, offset, 2, 0)


def offsets(request: Request | None) -> dict[TopicIdPartition, int] | None:
    """What a request asks for."""
    if request is None:
        return None
    return {(topic, number): wish.offset for topic, wishes in request.wishes.items() for number, wish in wishes}


def session(request: Request | None) -> tuple[int, int]:
    assert request is not None
    return request.session_id, request.session_epoch


def test_a_session_tells_only_what_changes() -> None:
    plan = FetchPlan(1000)
    assert plan.request(0) is None
    a, b, c = followed(0), followed(1), followed(0, U)
    for each in (a, b, c):
        plan.add(each)
    first = plan.request(0)
    assert session(first) == (0, 0)
    assert offsets(first) == {(T, 0): 5, (T, 1): 5, (U, 0): 5}
    assert plan.is_current(a)
    assert plan.answered(ErrorCode.NONE, 77)
    plan.moved(a, 9, 2, 0)
    plan.moved(b, 5, 2, 0)
    second = plan.request(0)
    assert session(second) == (77, 1)
    assert offsets(second) == {(T, 0): 9}
    assert plan.answered(ErrorCode.NONE, 77)
    plan.remove(b.key)
    plan.moved(c, 5, 2, 1)  # the log start is news too
    third = plan.request(0)
    assert third is not None
    assert session(third) == (77, 2)
    assert offsets(third) == {(U, 0): 5}
    assert third.forgotten == {T: [1]}
    assert plan.answered(ErrorCode.NONE, 77)
    assert offsets(plan.request(0)) == {}


def test_a_session_that_is_lost_begins_again() -> None:
    plan = FetchPlan(1000)
    plan.add(followed())
    plan.request(0)
    plan.answered(ErrorCode.NONE, 77)
    plan.request(0)
    plan.lost()
    again = plan.request(0)
    assert (session(again), offsets(again)) == ((77, 0), {(T, 0): 5})  # it ends the old one
    plan.answered(ErrorCode.NONE, 78)
    assert session(plan.request(0)) == (78, 1)
    assert not plan.answered(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
    assert session(plan.request(0)) == (0, 0)
    plan.answered(ErrorCode.NONE, 0)  # no room for one
    again = plan.request(0)
    assert (session(again), offsets(again)) == ((0, 0), {(T, 0): 5})


def test_errors_delay_a_partition_longer_each_time() -> None:
    plan = FetchPlan(100)
    a, b = followed(0), followed(1)
    plan.add(a)
    plan.add(b)
    plan.request(0)
    plan.answered(ErrorCode.NONE, 77)
    waited = []
    now_ms = 0
    for _ in range(5):
        plan.delay(a, now_ms)
        request = plan.request(now_ms)
        assert request is not None
        assert request.forgotten in ({T: [0]}, {})
        due_ms = plan.next_due_ms()
        assert due_ms is not None
        waited.append(due_ms - now_ms)
        now_ms = due_ms
        plan.answered(ErrorCode.NONE, 77)
        assert offsets(plan.request(now_ms)) == {(T, 0): 5}
        plan.answered(ErrorCode.NONE, 77)
    assert waited == [20, 40, 80, 100, 100]
    plan.moved(a, 6, 2, 0)
    plan.delay(a, now_ms)
    assert plan.next_due_ms() == now_ms + 20


def test_an_answer_is_for_what_was_asked() -> None:
    plan = FetchPlan(1000)
    old = followed()
    plan.add(old)
    plan.request(0)
    new = followed(offset=3)
    new.leader_epoch = 4
    plan.add(new)  # a new leader epoch begins while the response is on its way
    plan.answered(ErrorCode.NONE, 77)
    assert not plan.is_current(old)
    assert not plan.is_current(new)
    request = plan.request(0)
    assert request is not None
    assert [wish.leader_epoch for _, wish in request.wishes[T]] == [4]


def test_who_is_held_by_a_quota_is_asked_for_later() -> None:
    held = {1}
    plan = FetchPlan(1000, lambda each: each.partition.number in held)
    plan.add(followed(0))
    plan.add(followed(1))
    assert offsets(plan.request(0)) == {(T, 0): 5}
    plan.answered(ErrorCode.NONE, 77)
    held.clear()
    assert offsets(plan.request(30)) == {(T, 1): 5}


@pytest.mark.parametrize(
    ("leader", "own", "end", "at"),
    [
        ((3, 80), (3, 90), 100, 80),  # both have the epoch: the leader's ends first
        ((3, 95), (3, 90), 100, 90),  # ... or this log's
        ((3, 80), (2, 60), 100, 60),  # this log does not have it: cut what is later, ask again
        ((3, 80), (-1, -1), 100, 80),
        ((3, 120), (-1, -1), 100, 100),
    ],
)
def test_where_a_log_is_cut(leader: tuple[int, int], own: tuple[int, int], end: int, at: int) -> None:
    assert truncation(leader, own, end) == at


history = st.lists(st.integers(1, 3), min_size=1, max_size=12)
"""The leader epochs of a log's records, as steps from one to the next."""


@given(st.data())
def test_cutting_until_the_leader_agrees_leaves_a_common_prefix(data: st.DataObject) -> None:
    def log(label: str, base: list[int]) -> list[int]:
        epochs = list(base)
        for _ in range(data.draw(st.integers(0, 8), label)):
            epochs.append(max(epochs[-1] if epochs else 0, data.draw(st.integers(0, 6))))
        return epochs

    common = sorted(data.draw(st.lists(st.integers(0, 3), max_size=6)))
    # one leader alone writes an epoch: two logs have an epoch at different offsets only as copies of one log
    leader = [2 * each for each in log("leader", common)]
    own = [2 * each for each in common] + [2 * each + 1 for each in log("own", common)[len(common) :]]
    own.sort()
    leader.append(99)

    def cache(epochs: list[int]) -> LeaderEpochCache:
        found = LeaderEpochCache()
        for offset, epoch in enumerate(epochs):
            found.assign(epoch, offset)
        return found

    for _ in range(20):
        if not own:
            break
        of_leader = cache(leader)
        epoch, end = of_leader.end_offset_for(own[-1], len(leader))
        if epoch == own[-1] and end >= len(own):
            break
        if -1 in (epoch, end):
            return  # out of range: the follower asks for the leader's log end offset
        cut = truncation((epoch, end), cache(own).end_offset_for(epoch, len(own)), len(own))
        assert cut < len(own) or own[-1] != epoch
        if cut == len(own):
            break
        own = own[:cut]
    assert own == leader[: len(own)]


def test_a_throttle_counts_who_is_named() -> None:
    assert named("*", 1) is None
    assert named("0:1, 1:2,2:1", 1) == frozenset({0, 2})
    now, rate = [0], [UNLIMITED]
    throttle = ReplicationThrottle(1, lambda: rate[0], lambda _: "0:1", lambda: now[0], (11, 1000))
    zero: Any = SimpleNamespace(topic="t", number=0)
    one: Any = SimpleNamespace(topic="t", number=1)
    throttle.sent(zero, 1 << 30)
    assert not throttle.holds(zero)
    rate[0] = 1000
    throttle.reconfigured()
    throttle.sent(one, 1 << 30)
    assert not throttle.holds(zero)
    throttle.sent(zero, 20_000)
    assert throttle.holds(zero)
    assert not throttle.holds(one)
    now[0] += 25_000
    assert not throttle.holds(zero)
