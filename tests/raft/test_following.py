"""A follower's log: it appends, truncates, continues behind a snapshot, and acknowledges only what is on disk."""

from __future__ import annotations

import pytest

from kcli.protocol.error_code import ErrorCode
from kcli.raft import controls
from kcli.raft.errors import RaftFault
from kcli.raft.log import truncation_offset, validate
from kcli.raft.messages import Fetch, FetchAnswer, FetchSnapshot, FetchSnapshotAnswer, OffsetAndEpoch
from kcli.raft.raft import Raft
from kcli.raft.states.follower import Follower
from tests.raft.driver import EPOCH, Driven, batch, begin, config, disk_with, fetch, in_state, quorum_state, voters
from tests.raft.memory import Disk, MemoryLog


def leaders_log(*epochs: tuple[int, int]) -> MemoryLog:
    """Return a log with that many records in each epoch, one a batch."""
    log = MemoryLog(Disk())
    for epoch, records in epochs:
        for _ in range(records):
            log.append_as_leader(batch(), epoch)
    return log


def told(**fields: object) -> FetchAnswer:
    """By the leader, node 2."""
    return FetchAnswer(leader_id=2, epoch=EPOCH, **fields)  # type: ignore[arg-type]


def test_records_are_appended_and_committed_as_far_as_they_are_here() -> None:
    driven = in_state("follower of 2")
    leader = leaders_log((4, 10), (5, 5))
    driven.reply(told(records=leader.read(10, 200), high_watermark=14), kind=Fetch)
    assert (driven.log.end_offset, driven.raft.committed_offset) == (12, 12)
    request = driven.sent[-1].request
    assert isinstance(request, Fetch)
    assert (request.offset, request.last_fetched_epoch, request.high_watermark) == (12, 5, 12)
    driven.reply(told(records=leader.read(12, 1000), high_watermark=14), kind=Fetch)
    assert (driven.log.end_offset, driven.raft.committed_offset) == (15, 14)


@pytest.mark.parametrize("cut", [0, 1, 30, 60, 68])
def test_a_batch_that_is_cut_off_is_left_out(cut: int) -> None:
    driven = in_state("follower of 2")
    records = leaders_log((4, 10), (5, 2)).read(10, 1000)
    one = len(records) // 2
    driven.reply(told(records=records[: one + cut], high_watermark=12), kind=Fetch)
    assert (driven.log.end_offset, driven.raft.committed_offset) == (11, 11)


def test_a_damaged_batch_is_left_out() -> None:
    """This also holds for a batch with the control record that begins an epoch."""
    driven = in_state("follower of 2")
    leader = leaders_log((4, 10), (5, 1))
    leader.append_as_leader(controls.batch([controls.kraft_voters(voters(1))], 0), 5)
    records = bytearray(leader.read(10, 1000))
    records[-20] ^= 0xFF
    driven.reply(told(records=records), kind=Fetch)
    assert (driven.log.end_offset, driven.raft.voters.ids) == (11, (1, 2, 3))


def test_a_voter_does_not_fetch_from_where_its_disk_is_not_yet() -> None:
    driven = in_state("follower of 2")
    records = leaders_log((4, 10), (5, 2)).read(10, 1000)
    driven.raft.answered(driven.sent.pop(), told(records=records), driven.now_ms)
    assert driven.log.end_offset == 12
    out = driven.raft.tick(driven.now_ms)
    assert not out.messages
    assert not driven.raft.flushed(11, driven.now_ms).messages
    [send] = driven.raft.flushed(12, driven.now_ms).messages
    assert isinstance(send.request, Fetch)
    assert send.request.offset == 12


def test_an_observer_need_not_flush() -> None:
    observer = Driven(config(4, can_become_voter=False), disk_with(state=quorum_state()))
    observer.ask(begin(voter=None))
    records = leaders_log((4, 10), (5, 2)).read(10, 1000)
    found = next(each for each in observer.sent if each.to.id == 2)
    [send] = observer.raft.answered(found, told(records=records), observer.now_ms).messages
    assert isinstance(send.request, Fetch)
    assert send.request.offset == 12


@pytest.mark.parametrize(
    ("diverging", "end"),
    [((8, 4), 8), ((12, 4), 10), ((7, 3), 0), ((3, 0), 3), ((30, 0), 10), ((9, 9), 10), ((0, 2), 0)],
)
def test_truncation(diverging: tuple[int, int], end: int) -> None:
    driven = in_state("follower of 2")
    driven.reply(told(diverging=OffsetAndEpoch(*diverging)), kind=Fetch)
    assert driven.log.end_offset == end
    assert truncation_offset(driven.log, OffsetAndEpoch(99, 99)) == end


def test_what_is_committed_is_not_truncated() -> None:
    driven = in_state("fetched from 2")
    with pytest.raises(RaftFault, match="wants the log cut at 9, but all before 10 is committed"):
        driven.reply(told(diverging=OffsetAndEpoch(9, 4)), kind=Fetch)


def test_a_snapshot_is_fetched_piece_by_piece() -> None:
    leader = leaders_log((4, 20), (5, 5))
    snapshot = leader.write_snapshot([controls.kraft_version(1), controls.kraft_voters(voters(1, 2))], 22)
    assert snapshot == (22, 5)
    size = leader.snapshot_size(snapshot)
    assert size is not None
    driven = Driven(config(fetch_snapshot_max_bytes=100), disk_with(state=quorum_state(leader=2)))
    driven.reply(told(snapshot=snapshot), kind=Fetch)
    position = 0
    while position < size:
        request = driven.sent[-1].request
        assert isinstance(request, FetchSnapshot)
        assert (request.snapshot, request.position, request.epoch) == (snapshot, position, EPOCH)
        data = leader.read_snapshot(snapshot, position, request.max_bytes)
        answer = FetchSnapshotAnswer(
            leader_id=2, epoch=EPOCH, snapshot=snapshot, position=position, size=size, data=data
        )
        driven.reply(answer, kind=FetchSnapshot)
        position += len(data)
    assert (driven.log.start_offset, driven.log.end_offset, driven.raft.committed_offset) == (22, 22, 22)
    assert (driven.raft.voters, driven.raft.kraft_version) == (voters(1, 2), 1)
    request = driven.sent[-1].request
    assert isinstance(request, Fetch)
    assert (request.offset, request.last_fetched_epoch) == (22, 5)


def test_errors_of_the_leader() -> None:
    """The follower waits before it asks that leader again; meanwhile it asks any node for the leader."""
    driven = in_state("follower of 2")
    driven.reply(told(error=ErrorCode.UNKNOWN_SERVER_ERROR), kind=Fetch)
    assert driven.kinds() == ["Fetch 3"]
    driven.reply(FetchAnswer(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, epoch=EPOCH, leader_id=2), kind=Fetch)
    driven.wait(20)
    driven.reply(told(snapshot=OffsetAndEpoch(22, 5)), kind=Fetch, source=2)
    answer = FetchSnapshotAnswer(leader_id=2, epoch=EPOCH, error=ErrorCode.UNKNOWN_SERVER_ERROR)
    driven.reply(answer, kind=FetchSnapshot)
    assert not any(isinstance(each.request, FetchSnapshot) for each in driven.sent)


def test_a_snapshot_that_the_leader_has_no_more() -> None:
    driven = in_state("follower of 2")
    driven.reply(told(snapshot=OffsetAndEpoch(22, 5)), kind=Fetch)
    driven.reply(FetchSnapshotAnswer(leader_id=2, epoch=EPOCH, error=ErrorCode.SNAPSHOT_NOT_FOUND), kind=FetchSnapshot)
    assert driven.kinds() == ["Fetch 2"]
    assert isinstance(driven.raft.state, Follower)
    assert driven.raft.state.snapshot is None


def test_a_piece_that_was_not_asked_for() -> None:
    driven = in_state("follower of 2")
    snapshot = OffsetAndEpoch(22, 5)
    driven.reply(told(snapshot=snapshot), kind=Fetch)
    answer = FetchSnapshotAnswer(leader_id=2, epoch=EPOCH, snapshot=snapshot, position=5, size=10, data=b"x")
    with pytest.raises(RaftFault, match="was not requested"):
        driven.reply(answer, kind=FetchSnapshot)


def test_a_snapshot_is_forgotten_with_its_leader() -> None:
    driven = in_state("follower of 2")
    driven.reply(told(snapshot=OffsetAndEpoch(22, 5)), kind=Fetch)
    driven.ask(begin(source=3, epoch=6))
    assert driven.kinds()[0] == "Fetch 3"


@pytest.mark.parametrize(
    ("at", "what"),
    [
        ((0, 0), "SNAPSHOT"),
        ((3, 4), "SNAPSHOT"),
        ((5, 3), "SNAPSHOT"),
        ((5, 4), "VALID"),
        ((7, 4), "VALID"),
        ((10, 4), "VALID"),
        ((11, 4), "DIVERGING"),
        ((12, 6), "VALID"),
        ((13, 6), "DIVERGING"),
        ((12, 5), "DIVERGING"),
        ((12, 7), "DIVERGING"),
    ],
)
def test_what_a_log_that_was_cleaned_says(at: tuple[int, int], what: str) -> None:
    log = leaders_log((4, 10), (6, 2))
    log.write_snapshot([], 5)
    log.clean()
    assert validate(log, *at)[0].name == what


def test_who_begins_at_the_beginning_gets_the_snapshot() -> None:
    driven = in_state("leader")
    driven.log.write_snapshot([], 5)
    answer = driven.answer_to(fetch(at=(0, 0)))
    assert isinstance(answer, FetchAnswer)
    assert (answer.snapshot, answer.log_start_offset) == ((5, 4), 0)


def test_a_fetch_waits() -> None:
    """A Fetch waits for a record, for a higher high watermark, for its timeout, or for another leader."""
    driven = in_state("leader")
    driven.ask(fetch(source=2))
    waiting = fetch(source=2, high_watermark=11, max_wait_ms=500)
    token = driven.ask(waiting)
    driven.wait(499)
    assert token not in driven.answers
    driven.wait(1)
    assert driven.answers[token].error is ErrorCode.NONE
    token = driven.ask(waiting)
    driven.take(driven.raft.append([batch()], driven.now_ms))
    answer = driven.answers[token]
    assert isinstance(answer, FetchAnswer)
    assert (len(answer.records) > 0, answer.high_watermark) == (True, 11)
    token = driven.ask(fetch(source=2, at=(12, 6), high_watermark=12, max_wait_ms=500))
    other = driven.ask(fetch(source=3, at=(12, 6), high_watermark=11, max_wait_ms=500))
    assert (token in driven.answers, other in driven.answers) == (False, True)
    driven.ask(begin(epoch=9))
    assert driven.answers[token].error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (driven.answers[token].epoch, driven.answers[token].leader_id) == (9, 2)


def test_a_leader_counts_what_it_has_on_disk() -> None:
    driven = in_state("leader")
    driven.ask(fetch(source=2))
    raft: Raft = driven.raft
    raft.append([batch()], driven.now_ms)
    raft.handle(99, fetch(source=2, at=(12, 6)), driven.now_ms)
    assert (raft.committed_offset, driven.log.end_offset) == (11, 12)
    raft.flushed(12, driven.now_ms)
    assert raft.committed_offset == 12


def test_a_majority_counts() -> None:
    driven = in_state("leader")
    assert driven.raft.high_watermark is None
    driven.ask(fetch(source=4))
    assert driven.raft.high_watermark is None
    driven.ask(fetch(source=3, at=(10, 4)))
    assert driven.raft.high_watermark is None
    driven.ask(fetch(source=3))
    assert driven.raft.high_watermark == 11
