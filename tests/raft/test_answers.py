"""The answers of a node in each state: those of KafkaRaftClient 4.3.

A state is one of `in_state`: node 1, epoch 5 (6 as candidate and leader), log to 10 in epoch 4 (leader: 11, epoch 6).
"""

from __future__ import annotations

import pytest

from kcli.protocol.error_code import ErrorCode
from kcli.raft.messages import (
    Answer,
    FetchAnswer,
    FetchSnapshot,
    FetchSnapshotAnswer,
    OffsetAndEpoch,
    Request,
    VoteAnswer,
)
from tests.raft.driver import CLUSTER, begin, end, fetch, in_state, key, vote

YES, NO = True, False
NONE, INVALID, FENCED = ErrorCode.NONE, ErrorCode.INVALID_REQUEST, ErrorCode.FENCED_LEADER_EPOCH
UNKNOWN, NOT_LEADER = ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(
    ("state", "request_", "error", "granted", "then", "epoch", "leader"),
    [
        # the epoch, and what is illegal
        ("unattached", vote(epoch=4, last=(9, 3)), FENCED, NO, "Unattached", 5, -1),
        ("leader", vote(epoch=5), FENCED, NO, "Leader", 6, 1),
        ("unattached", vote(last=(10, 5)), INVALID, NO, "Unattached", 5, -1),
        ("unattached", vote(last=(10, 5), pre_vote=True), NONE, YES, "Unattached", 5, -1),
        ("unattached", vote(last=(10, 6), pre_vote=True), INVALID, NO, "Unattached", 5, -1),
        ("unattached", vote(last=(-1, 4)), INVALID, NO, "Unattached", 5, -1),
        ("unattached", vote(last=(10, -1)), INVALID, NO, "Unattached", 5, -1),
        ("unattached", vote(source=-1), INVALID, NO, "Unattached", 5, -1),
        ("unattached", vote(epoch=6, voter=key(3)), ErrorCode.INVALID_VOTER_KEY, NO, "Unattached", 6, -1),
        ("unattached", vote(voter=None), NONE, YES, "Unattached", 5, -1),
        # who is behind
        ("unattached", vote(last=(9, 4)), NONE, NO, "Unattached", 5, -1),
        ("unattached", vote(last=(99, 3)), NONE, NO, "Unattached", 5, -1),
        ("unattached", vote(last=(11, 4)), NONE, YES, "Unattached", 5, -1),
        ("unattached", vote(last=(9, 4), pre_vote=True), NONE, NO, "Unattached", 5, -1),
        ("unattached", vote(epoch=7, last=(9, 4)), NONE, NO, "Unattached", 7, -1),
        # one vote an epoch
        ("voted for 2", vote(), NONE, YES, "Unattached", 5, -1),
        ("voted for 2", vote(last=(1, 1)), NONE, YES, "Unattached", 5, -1),
        ("voted for 2", vote(source=3), NONE, NO, "Unattached", 5, -1),
        ("voted for 2", vote(source=3, pre_vote=True), NONE, YES, "Unattached", 5, -1),
        ("voted for 2", vote(source=3, epoch=6), NONE, YES, "Unattached", 6, -1),
        # there is a leader
        ("follower of 2", vote(source=3), NONE, NO, "Follower", 5, 2),
        ("follower of 2", vote(source=3, pre_vote=True), NONE, YES, "Follower", 5, 2),
        ("fetched from 2", vote(source=3, pre_vote=True), NONE, NO, "Follower", 5, 2),
        ("fetched from 2", vote(source=3, epoch=6), NONE, YES, "Unattached", 6, -1),
        ("fetched from 2", vote(source=3, epoch=6, pre_vote=True), NONE, YES, "Unattached", 6, -1),
        # elections
        ("prospective", vote(), NONE, YES, "Prospective", 5, -1),
        ("prospective after 2", vote(source=3), NONE, NO, "Prospective", 5, 2),
        ("prospective after 2", vote(source=3, pre_vote=True), NONE, YES, "Prospective", 5, 2),
        ("candidate", vote(epoch=6), NONE, NO, "Candidate", 6, -1),
        ("candidate", vote(epoch=6, pre_vote=True), NONE, YES, "Candidate", 6, -1),
        ("candidate", vote(epoch=7), NONE, YES, "Unattached", 7, -1),
        ("leader", vote(epoch=6), NONE, NO, "Leader", 6, 1),
        ("leader", vote(epoch=6, last=(99, 6), pre_vote=True), NONE, NO, "Leader", 6, 1),
        ("leader", vote(epoch=7), NONE, NO, "Unattached", 7, -1),
        ("leader", vote(epoch=7, last=(11, 6)), NONE, YES, "Unattached", 7, -1),
        ("resigned", vote(), NONE, NO, "Resigned", 5, 1),
        ("resigned", vote(pre_vote=True), NONE, YES, "Resigned", 5, 1),
        ("resigned", vote(epoch=6), NONE, YES, "Unattached", 6, -1),
        # an observer votes too: it may be a voter without knowing it
        ("observer", vote(voter=key(4)), NONE, YES, "Unattached", 5, -1),
    ],
)
def test_vote(
    state: str, request_: Request, error: ErrorCode, granted: bool, then: str, epoch: int, leader: int
) -> None:
    driven = in_state(state)
    answer = driven.answer_to(request_)
    assert isinstance(answer, VoteAnswer)
    assert (answer.error, answer.granted, driven.state, answer.epoch, answer.leader_id) == (
        error,
        granted,
        then,
        epoch,
        leader,
    )


@pytest.mark.parametrize(
    ("state", "request_", "error", "then", "epoch", "leader"),
    [
        ("unattached", begin(), NONE, "Follower", 5, 2),
        ("unattached", begin(epoch=4), FENCED, "Unattached", 5, -1),
        ("unattached", begin(source=-1), INVALID, "Unattached", 5, -1),
        ("unattached", begin(voter=key(3)), ErrorCode.INVALID_VOTER_KEY, "Follower", 5, 2),
        ("unattached", begin(endpoints=()), NONE, "Follower", 5, 2),
        ("voted for 2", begin(source=3), NONE, "Follower", 5, 3),
        ("prospective", begin(), NONE, "Follower", 5, 2),
        ("candidate", begin(epoch=6), NONE, "Follower", 6, 2),
        ("candidate", begin(), FENCED, "Candidate", 6, -1),
        ("follower of 2", begin(), NONE, "Follower", 5, 2),
        ("follower of 2", begin(source=3, epoch=6), NONE, "Follower", 6, 3),
        ("leader", begin(epoch=7), NONE, "Follower", 7, 2),
        ("resigned", begin(epoch=6), NONE, "Follower", 6, 2),
        ("observer", begin(voter=key(4)), NONE, "Follower", 5, 2),
        ("unattached", end(successors=(2,)), NONE, "Follower", 5, 2),
        ("unattached", end(epoch=4), FENCED, "Unattached", 5, -1),
        ("follower of 2", end(), NONE, "Prospective", 5, 2),
        ("follower of 2", end(successors=(1, 3)), NONE, "Prospective", 5, 2),
        ("follower of 2", end(successors=(3, 1)), NONE, "Follower", 5, 2),
        ("leader", end(epoch=7, successors=(3, 1)), NONE, "Follower", 7, 2),
        ("leader", end(epoch=5), FENCED, "Leader", 6, 1),
    ],
)
def test_begin_and_end_of_an_epoch(
    state: str, request_: Request, error: ErrorCode, then: str, epoch: int, leader: int
) -> None:
    driven = in_state(state)
    answer = driven.answer_to(request_)
    assert (answer.error, driven.state, answer.epoch, answer.leader_id) == (error, then, epoch, leader)


@pytest.mark.parametrize(
    ("state", "request_", "error", "high_watermark", "diverging"),
    [
        ("leader", fetch(), NONE, 11, None),
        ("leader", fetch(epoch=5, at=(11, 5)), FENCED, -1, None),
        ("leader", fetch(epoch=7), UNKNOWN, -1, None),
        ("leader", fetch(at=(-1, 6)), INVALID, -1, None),
        ("leader", fetch(at=(11, 7)), INVALID, -1, None),
        ("leader", fetch(at=(11, -1)), INVALID, -1, None),
        ("leader", fetch(max_wait_ms=-1), INVALID, -1, None),
        ("leader", fetch(source=1), ErrorCode.UNKNOWN_SERVER_ERROR, -1, None),
        ("leader", fetch(at=(12, 4)), NONE, -1, (10, 4)),
        ("leader", fetch(at=(11, 5)), NONE, -1, (10, 4)),
        ("leader", fetch(at=(10, 4)), NONE, -1, None),
        ("leader", fetch(at=(0, 0)), NONE, -1, None),
        ("leader", fetch(at=(3, 2)), NONE, -1, (0, 2)),
        ("leader", fetch(at=(12, 6)), NONE, -1, (11, 6)),
        ("follower of 2", fetch(epoch=5, at=(10, 4)), NOT_LEADER, -1, None),
        ("unattached", fetch(epoch=5, at=(10, 4)), NOT_LEADER, -1, None),
        ("unattached", fetch(epoch=6), UNKNOWN, -1, None),
        ("candidate", fetch(epoch=6, at=(10, 4)), NOT_LEADER, -1, None),
        ("resigned", fetch(epoch=5, at=(10, 4)), NOT_LEADER, -1, None),
    ],
)
def test_fetch(
    state: str, request_: Request, error: ErrorCode, high_watermark: int, diverging: tuple[int, int] | None
) -> None:
    answer = in_state(state).answer_to(request_)
    assert isinstance(answer, FetchAnswer)
    assert (answer.error, answer.high_watermark, answer.diverging) == (error, high_watermark, diverging)
    assert answer.top_error is NONE


@pytest.mark.parametrize("state", ["unattached", "follower of 2", "candidate", "leader", "observer"])
@pytest.mark.parametrize("request_", [vote(), begin(), end(), fetch()], ids=lambda each: type(each).__name__)
def test_another_cluster(state: str, request_: Request) -> None:
    driven = in_state(state)
    before = driven.state
    fields = {name: getattr(request_, name) for name in request_.__dataclass_fields__}
    answer = driven.answer_to(type(request_)(**{**fields, "cluster_id": "another"}))
    assert (answer.top_error, driven.state) == (ErrorCode.INCONSISTENT_CLUSTER_ID, before)
    assert in_state(state).answer_to(type(request_)(**{**fields, "cluster_id": CLUSTER})).top_error is NONE


@pytest.mark.parametrize(
    ("snapshot", "position", "epoch", "error"),
    [
        (OffsetAndEpoch(5, 4), 0, 6, NONE),
        (OffsetAndEpoch(5, 4), 7, 6, NONE),
        (OffsetAndEpoch(5, 4), -1, 6, ErrorCode.POSITION_OUT_OF_RANGE),
        (OffsetAndEpoch(5, 4), 1 << 20, 6, ErrorCode.POSITION_OUT_OF_RANGE),
        (OffsetAndEpoch(6, 4), 0, 6, ErrorCode.SNAPSHOT_NOT_FOUND),
        (OffsetAndEpoch(5, 4), 0, 5, FENCED),
        (OffsetAndEpoch(5, 4), 0, 7, UNKNOWN),
    ],
)
def test_fetch_snapshot(snapshot: OffsetAndEpoch, position: int, epoch: int, error: ErrorCode) -> None:
    driven = in_state("leader")
    driven.log.write_snapshot([], 5)
    request = FetchSnapshot(replica=key(2), epoch=epoch, snapshot=snapshot, position=position, max_bytes=10)
    answer = driven.answer_to(request)
    assert isinstance(answer, FetchSnapshotAnswer)
    assert (answer.error, answer.leader_id, answer.epoch) == (error, 1, 6)
    if error is NONE:
        size = driven.log.snapshot_size(snapshot)
        assert (answer.snapshot, answer.position, answer.size, len(answer.data)) == (snapshot, position, size, 10)


def test_an_answer_names_all_endpoints_of_the_leader() -> None:
    answer: Answer = in_state("leader").answer_to(vote(epoch=6))
    assert [each.host for each in answer.endpoints] == ["host1"]
    assert [each.host for each in in_state("follower of 2").answer_to(vote()).endpoints] == ["host2"]
