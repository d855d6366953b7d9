"""Committed offsets: who may commit, offsets of transactions, and expiration."""

from __future__ import annotations

import pytest

from kcli.group.records import OFFSET
from kcli.group.requests import CommitAnswer, DeleteGroup, DeleteOffsets, FetchedOffset, OffsetsAnswer, TopicsDeleted
from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicPartition
from tests.group.group_log import GROUP, SESSION_MS, Running

MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS
ID, OTHER_ID = "B" * 21 + "A", "C" * 21 + "A"
SMALL = {"offsets_retention_ms": DAY_MS, "offsets_retention_check_interval_ms": MINUTE_MS}


def error(answer: CommitAnswer | OffsetsAnswer) -> ErrorCode:
    """Return the error of the response, or of its only partition."""
    return answer.error or next(iter(answer.errors.values()), ErrorCode.NONE)


def delete(running: Running, *partitions: TopicPartition) -> OffsetsAnswer:
    answer: OffsetsAnswer = running.ask(DeleteOffsets(group_id=GROUP, partitions=partitions))
    return answer


# commit


def test_simple_group() -> None:
    running = Running()
    assert error(running.commit(5)) == ErrorCode.NONE
    assert running.fetch() == FetchedOffset(partition=0, offset=5, metadata="m")
    assert running.fetch(partition=1) == FetchedOffset(partition=1)
    assert running.fetch(topic="other") == FetchedOffset(partition=0)
    listed = running.state()
    assert (listed.state, listed.protocol_type, listed.members) == ("Empty", "", ())
    (record,) = running.records()
    assert record.type == OFFSET
    assert record.value == {
        "offset": 5,
        "leaderEpoch": -1,
        "metadata": "m",
        "commitTimestamp": running.now_ms,
        "topicId": "A" * 22,
    }
    assert running.log[0][0][1][:2] == b"\0\4"  # type: ignore[index]
    running.restart()
    assert running.committed() == {("t", 0): 5}


def test_retention_of_old_requests_is_stored() -> None:
    running = Running(**SMALL)
    running.commit(5, retention_ms=1000)
    value = running.records()[0].value
    assert value is not None
    assert value["expireTimestamp"] == running.now_ms + 1000
    assert running.log[0][0][1][:2] == b"\0\1"  # type: ignore[index]
    running.restart()
    running.pass_time(MINUTE_MS)
    assert running.committed() == {}


@pytest.mark.parametrize(("version", "code"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_generation_of_no_group(version: int, code: ErrorCode) -> None:
    assert error(Running().commit(5, "member", 1, version=version)) == code


def test_members_commit_in_their_generation() -> None:
    running = Running()
    leader, follower = running.stable(2)
    assert error(running.commit(5, leader, 1)) == ErrorCode.NONE
    assert error(running.commit(6, leader, 0)) == ErrorCode.ILLEGAL_GENERATION
    assert error(running.commit(6, "nobody", 1)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert error(running.commit(6)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert error(running.commit(6, leader, 1, instance_id="i")) == ErrorCode.UNKNOWN_MEMBER_ID
    running.join(follower, protocols=(("range", b"\0\1other"),))
    assert error(running.commit(6, leader, 1)) == ErrorCode.NONE  # before it joins again
    running.join(leader)
    assert error(running.commit(7, leader, 2)) == ErrorCode.REBALANCE_IN_PROGRESS
    running.assign(leader, [follower], 2)
    assert error(running.commit(7, leader, 1)) == ErrorCode.ILLEGAL_GENERATION
    assert running.committed() == {("t", 0): 6}


def test_a_commit_is_a_heartbeat() -> None:
    running = Running()
    (leader,) = running.stable(1)
    for _ in range(4):
        running.pass_time(SESSION_MS - 1)
        assert error(running.commit(5, leader, 1)) == ErrorCode.NONE


def test_metadata_that_is_too_large() -> None:
    running = Running(offset_metadata_max_size=4)
    assert error(running.commit(5, metadata="\U0001f600\U0001f600")) == ErrorCode.NONE
    assert error(running.commit(6, metadata="\U0001f600\U0001f600x")) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert error(running.commit(7, metadata=None)) == ErrorCode.NONE
    assert running.fetch().metadata == ""


def test_too_much_for_a_batch() -> None:
    running = Running(batch_bytes_max=200)
    assert error(running.commit(5, metadata="x" * 200)) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert running.log == []


def test_topic_ids() -> None:
    running = Running()
    running.commit(5, topic_id=ID)
    assert running.fetch(topic_id=ID).offset == running.fetch().offset == 5
    assert running.fetch(topic_id=OTHER_ID).offset == -1
    running.commit(6)
    assert running.fetch(topic_id=OTHER_ID).offset == 6


# transactions


def test_offsets_of_a_transaction_count_when_it_commits() -> None:
    running = Running()
    running.commit(5)
    assert error(running.commit(9, producer_id=7, producer_epoch=1)) == ErrorCode.NONE
    assert running.log[-1][1:] == (7, 1)
    assert running.fetch().offset == 5
    assert running.fetch(require_stable=True) == FetchedOffset(partition=0, error=ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert running.fetch(partition=1, require_stable=True).error == ErrorCode.NONE
    running.restart()
    assert running.fetch(require_stable=True).error == ErrorCode.UNSTABLE_OFFSET_COMMIT
    running.end_transaction(7, commit=True)
    assert running.fetch(require_stable=True).offset == 9
    running.restart()
    assert running.fetch(require_stable=True).offset == 9


def test_offsets_of_a_transaction_go_when_it_aborts() -> None:
    running = Running()
    running.commit(5)
    running.commit(9, producer_id=7)
    running.commit(8, producer_id=8)
    running.end_transaction(7, commit=False)
    assert running.fetch(require_stable=True).error == ErrorCode.UNSTABLE_OFFSET_COMMIT
    running.end_transaction(8, commit=False)
    running.end_transaction(99, commit=True)
    assert running.fetch(require_stable=True).offset == 5


def test_a_later_commit_is_not_overtaken() -> None:
    """Neither a transaction with an earlier offset replaces it, nor one that commits before another with a later
    offset."""
    running = Running()
    running.commit(9, producer_id=7)
    running.commit(10)
    running.end_transaction(7, commit=True)
    assert running.fetch().offset == 10
    running.commit(11, producer_id=7)
    running.commit(12, producer_id=8)
    running.end_transaction(8, commit=True)
    running.end_transaction(7, commit=True)
    assert running.fetch(require_stable=True).offset == 12


def test_checks_of_transactional_commits() -> None:
    running = Running()
    assert error(running.commit(5, "member", 1, producer_id=7)) == ErrorCode.ILLEGAL_GENERATION
    leader, _ = running.stable(2)
    assert error(running.commit(5, producer_id=7)) == ErrorCode.NONE  # no member named: the producer was checked
    assert error(running.commit(5, leader, 2, producer_id=7)) == ErrorCode.ILLEGAL_GENERATION
    assert error(running.commit(5, "nobody", 1, producer_id=7)) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_tombstone_takes_pending_offsets_too() -> None:
    running = Running()
    running.commit(9, producer_id=7)
    assert error(delete(running, TopicPartition("t", 0))) == ErrorCode.NONE
    assert running.fetch(require_stable=True) == FetchedOffset(partition=0)
    running.end_transaction(7, commit=True)
    assert running.committed() == {}


# deletion


def test_delete_offsets() -> None:
    running = Running()
    assert delete(running, TopicPartition("t", 0)).error == ErrorCode.GROUP_ID_NOT_FOUND
    running.commit(5)
    running.commit(6, topic="u")
    leader, *_ = running.stable(1)
    answer = delete(running, TopicPartition("t", 0), TopicPartition("u", 0), TopicPartition("u", 1))
    assert answer.errors == {("t", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}
    assert running.committed() == {("t", 0): 5}
    running.leave((leader, None))
    assert delete(running, TopicPartition("t", 0)).errors == {}
    assert running.committed() == {}


def test_delete_offsets_of_members_that_are_no_consumers() -> None:
    running = Running()
    running.commit(5)
    _, waits = running.join_new(protocol_type="connect")
    running.pass_time(3000)
    assert waits in running.answers
    assert delete(running, TopicPartition("t", 0)).error == ErrorCode.NON_EMPTY_GROUP


def test_delete_group() -> None:
    running = Running(batch_bytes_max=300)
    assert running.ask(DeleteGroup(group_id=GROUP)) == ErrorCode.GROUP_ID_NOT_FOUND
    for partition in range(20):
        running.commit(5, partition=partition)
    running.commit(5, topic="u", producer_id=7)
    (leader,) = running.stable(1)
    assert running.ask(DeleteGroup(group_id=GROUP)) == ErrorCode.NON_EMPTY_GROUP
    running.leave((leader, None))
    assert running.ask(DeleteGroup(group_id=GROUP)) == ErrorCode.NONE
    assert running.state().error == ErrorCode.GROUP_ID_NOT_FOUND
    assert [record.value for record in running.records()[-22:]] == [None] * 22
    running.restart()
    assert running.state().error == ErrorCode.GROUP_ID_NOT_FOUND
    running.end_transaction(7, commit=True)
    assert running.committed() == {}


def test_offsets_go_with_their_topic() -> None:
    running = Running()
    running.commit(5, topic_id=ID)
    running.commit(5, partition=1, topic_id=OTHER_ID)
    running.commit(5, partition=2)
    running.commit(5, topic="u")
    running.commit(5, partition=3, producer_id=7)
    running.ask(TopicsDeleted(topics=(("t", ID),)))
    assert running.committed() == {("t", 1): 5, ("u", 0): 5}
    running.end_transaction(7, commit=True)
    assert running.committed() == {("t", 1): 5, ("u", 0): 5}


# expiration


def test_offsets_of_no_members_expire_after_their_commit() -> None:
    running = Running(**SMALL)
    running.commit(5)
    running.pass_time(DAY_MS // 2)
    running.commit(5, partition=1)
    running.pass_time(DAY_MS // 2)
    assert running.committed() == {("t", 1): 5}
    running.pass_time(DAY_MS)
    assert running.state().error == ErrorCode.GROUP_ID_NOT_FOUND
    running.restart()
    assert running.state().error == ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_expire_after_the_last_member_has_gone() -> None:
    running = Running(**SMALL)
    (leader,) = running.stable(1, session_timeout_ms=DAY_MS * 3)
    running.commit(5, leader, 1)
    running.pass_time(DAY_MS * 2)
    assert running.committed() == {("t", 0): 5}
    running.leave((leader, None))
    running.pass_time(DAY_MS - 2 * MINUTE_MS)
    running.restart()
    assert running.committed() == {("t", 0): 5}
    running.pass_time(3 * MINUTE_MS)
    assert running.state().error == ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_of_topics_that_nobody_reads_expire() -> None:
    running = Running(**SMALL)
    (leader,) = running.stable(1, session_timeout_ms=DAY_MS * 3)
    running.commit(5, leader, 1)
    running.commit(5, leader, 1, topic="u")
    running.pass_time(DAY_MS + MINUTE_MS)
    assert running.committed() == {("t", 0): 5}
    assert running.state().state == "Stable"


@pytest.mark.parametrize("values", [{"protocols": (("range", b"not a subscription"),)}, {"protocol_type": "connect"}])
def test_offsets_do_not_expire_where_it_is_not_known_who_reads(values: dict[str, object]) -> None:
    running = Running(**SMALL)
    (leader,) = running.stable(1, session_timeout_ms=DAY_MS * 3, **values)
    running.commit(5, leader, 1)
    running.pass_time(DAY_MS * 2)
    assert running.committed() == {("t", 0): 5}


def test_pending_offsets_do_not_expire() -> None:
    running = Running(**SMALL)
    running.commit(5)
    running.commit(6, producer_id=7)
    running.pass_time(DAY_MS * 2)
    assert running.committed() == {("t", 0): 5}
    running.end_transaction(7, commit=False)
    running.pass_time(MINUTE_MS)
    assert running.state().error == ErrorCode.GROUP_ID_NOT_FOUND
