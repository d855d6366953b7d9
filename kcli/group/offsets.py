"""OffsetCommit, TxnOffsetCommit, OffsetFetch, OffsetDelete, DeleteGroups, and the expiration of offsets.

A committed offset stays until it is overwritten, deleted by a request or expired, or until its topic is deleted. A
group without members is deleted when the last of its offsets expires.

Source: OffsetMetadataManager, GroupCoordinatorShard.cleanupGroupMetadata; KIP-211 (retention), KIP-447 (stable
offsets), KIP-848 (topic ids).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kcli.coordinator.machine import Batch, Pair, Repetition, Token
from kcli.group.classic.group import ClassicGroup, State
from kcli.group.classic.rebalance import extend_session
from kcli.group.committed import NONE, CommittedOffset
from kcli.group.consumer.group import ConsumerGroup
from kcli.group.consumer.records import group_tombstones
from kcli.group.errors import GroupError
from kcli.group.group import Group
from kcli.group.records import classic_group_tombstone, offset_record, offset_tombstone
from kcli.group.requests import (
    ZERO_ID,
    CommitAnswer,
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    FetchAnswer,
    FetchedOffset,
    FetchOffsets,
    FetchTopic,
    OffsetsAnswer,
    OffsetToCommit,
    TopicsDeleted,
)
from kcli.group.turn import Shard, TimerKey, Turn
from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicPartition

GROUP_ID_NOT_FOUND_SINCE = 9
"""The first version of OffsetCommit whose clients know the error GROUP_ID_NOT_FOUND."""
EXPIRE: TimerKey = ("expire",)


# OffsetCommit and TxnOffsetCommit


class Commits(NamedTuple):
    """The records of an OffsetCommit, and the same offsets as arguments of `Committed.replay`, to apply them once the
    records are appended."""

    records: list[Pair]
    group_id: str
    offsets: list[tuple[TopicPartition, CommittedOffset]]


def commit(turn: Turn, token: Token, request: CommitOffsets) -> None:
    """Append the offsets of an OffsetCommit or TxnOffsetCommit in one batch.

    Errors of the request: GROUP_ID_NOT_FOUND, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID,
    REBALANCE_IN_PROGRESS, STALE_MEMBER_EPOCH and UNSUPPORTED_VERSION (consumer groups), UNKNOWN_SERVER_ERROR if the
    records do not fit into one batch. Error of a partition: OFFSET_METADATA_TOO_LARGE.
    """
    try:
        _check_commit(turn, request)
    except GroupError as refused:
        turn.answer(token, CommitAnswer(error=refused.code, errors={}))
        return
    metadata_max = turn.shard.config.offset_metadata_max_size
    records: list[Pair] = []
    errors: dict[int, ErrorCode] = {}
    for place, each in enumerate(request.offsets):
        if each.metadata is not None and utf16_length(each.metadata) > metadata_max:
            errors[place] = ErrorCode.OFFSET_METADATA_TOO_LARGE
        else:
            offset = _committed(each, request, turn.now_ms)
            records.append(offset_record(request.group_id, each.topic, each.partition, offset))
    if not turn.fits(records):
        turn.answer(token, CommitAnswer(error=ErrorCode.UNKNOWN_SERVER_ERROR, errors={}))
        return
    if records:
        turn.outcome.batches.append(Batch(records, request.producer_id, request.producer_epoch))
    turn.answer(token, CommitAnswer(errors=errors))


def commit_at_once(turn: Turn, request: CommitOffsets, log_end_offset: int) -> Commits | None:
    """Return the records of an OffsetCommit, which the caller must append, and the offsets to apply after that.
    log_end_offset: the offset that the first of the records will have.

    Return None if the request or any of its partitions has an error, the group does not exist, or the records do not
    fit into one batch; nothing has changed then, except that the member's session may have been extended.
    """
    if request.group_id not in turn.shard.groups:
        return None
    try:
        _check_commit(turn, request)
    except GroupError:
        return None
    metadata_max = turn.shard.config.offset_metadata_max_size
    records: list[Pair] = []
    offsets: list[tuple[TopicPartition, CommittedOffset]] = []
    for each in request.offsets:
        if each.metadata is not None and utf16_length(each.metadata) > metadata_max:
            return None
        offset = _committed(each, request, turn.now_ms, log_end_offset + len(records))
        records.append(offset_record(request.group_id, each.topic, each.partition, offset))
        offsets.append((TopicPartition(each.topic, each.partition), offset))
    return Commits(records, request.group_id, offsets) if turn.fits(records) else None


def repetition(shard: Shard, request: CommitOffsets, commits: Commits) -> Repetition:
    """Return the function that applies a repetition of an accepted commit: the same partitions with other offsets and
    leader epochs. It may be called as long as the group has not changed."""
    group_id, replay = request.group_id, shard.committed.replay
    group = shard.groups[group_id]

    def apply(now_ms: int, record_offset: int, numbers: Sequence[tuple[int, int]]) -> None:
        if request.member_id:
            _extend_session(Turn(shard, now_ms), group, request)
        for (partition, before), (offset, leader_epoch) in zip(commits.offsets, numbers, strict=True):
            replay(
                group_id,
                partition,
                CommittedOffset(offset, now_ms, leader_epoch, before.metadata, NONE, before.topic_id, record_offset),
                NONE,
            )
            record_offset += 1

    return apply


def _check_commit(turn: Turn, request: CommitOffsets) -> None:
    group = turn.shard.groups.get(request.group_id)
    if group is None:
        if request.generation >= 0:
            is_known = request.producer_id < 0 and request.version >= GROUP_ID_NOT_FOUND_SINCE
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND if is_known else ErrorCode.ILLEGAL_GENERATION)
        group = turn.shard.classic_or_new(request.group_id, turn.now_ms)
    group.check_commit(request)
    _extend_session(turn, group, request)


def _extend_session(turn: Turn, group: Group, request: CommitOffsets) -> None:
    """Extend the session of the classic group's member that commits outside a transaction."""
    if request.producer_id < 0 and isinstance(group, ClassicGroup):
        member = group.members.get(request.member_id)
        if member is not None and group.state in (State.STABLE, State.PREPARING_REBALANCE):
            extend_session(turn, group, member)


def _committed(
    offset: OffsetToCommit, request: CommitOffsets, now_ms: int, record_offset: int = NONE
) -> CommittedOffset:
    return CommittedOffset(
        offset.offset,
        now_ms,
        offset.leader_epoch,
        offset.metadata or "",
        NONE if request.retention_ms == NONE else now_ms + request.retention_ms,
        offset.topic_id if request.producer_id < 0 else ZERO_ID,
        record_offset,
    )


def utf16_length(text: str) -> int:
    """Return the length of the text as Java's String.length counts it: in UTF-16 code units."""
    return len(text) if text.isascii() else len(text) + sum(character > "\uffff" for character in text)


# OffsetFetch


def fetch(turn: Turn, token: Token, request: FetchOffsets) -> None:
    """Answer an OffsetFetch; a group that does not exist has no offsets.

    Errors of the request: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, ILLEGAL_GENERATION. Error of a partition:
    UNSTABLE_OFFSET_COMMIT, if the request requires stable offsets and an open transaction has an offset pending.
    """
    shard, group_id = turn.shard, request.group_id
    group = shard.consumer(group_id)
    if group is not None:
        try:
            group.check_fetch(request.member_id, request.epoch)
        except GroupError as refused:
            turn.answer(token, FetchAnswer(error=refused.code, topics=()))
            return
    offsets = shard.committed.of_group(group_id)
    topics = request.topics
    if topics is None:
        numbers: dict[str, list[int]] = {}
        for name, number in offsets:
            numbers.setdefault(name, []).append(number)
        topics = tuple(
            FetchTopic(name=name, topic_id=ZERO_ID, partitions=tuple(found)) for name, found in numbers.items()
        )
    turn.answer(
        token,
        FetchAnswer(
            topics=tuple(
                (topic, tuple(_fetched(shard, request, topic, number) for number in topic.partitions))
                for topic in topics
            )
        ),
    )


def _fetched(shard: Shard, request: FetchOffsets, topic: FetchTopic, number: int) -> FetchedOffset:
    partition = TopicPartition(topic.name, number)
    if request.require_stable and shard.committed.is_open(request.group_id, partition):
        return FetchedOffset(partition=number, error=ErrorCode.UNSTABLE_OFFSET_COMMIT)
    offset = shard.committed.of_group(request.group_id).get(partition)
    if offset is None or (topic.topic_id != offset.topic_id and ZERO_ID not in (topic.topic_id, offset.topic_id)):
        return FetchedOffset(partition=number)
    return FetchedOffset(
        partition=number, offset=offset.offset, leader_epoch=offset.leader_epoch, metadata=offset.metadata
    )


# OffsetDelete, DeleteGroups, and offsets of deleted topics


def delete_offsets(turn: Turn, token: Token, request: DeleteOffsets) -> None:
    """Append tombstones for the offsets of an OffsetDelete; a partition without an offset is no error. Errors of the
    request: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP; of a partition: GROUP_SUBSCRIBED_TO_TOPIC."""
    shard, group_id = turn.shard, request.group_id
    try:
        group = shard.group(group_id)
        group.check_delete_offsets()
    except GroupError as refused:
        turn.answer(token, OffsetsAnswer(error=refused.code, errors={}))
        return
    known = set(shard.committed.partitions(group_id))
    errors: dict[TopicPartition, ErrorCode] = {}
    records: list[Pair] = []
    for partition in request.partitions:
        if group.is_subscribed_to(partition.topic):
            errors[partition] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        elif partition in known:
            records.append(offset_tombstone(group_id, partition))
    turn.append_all(records)
    turn.answer(token, OffsetsAnswer(errors=errors))


def delete_group(turn: Turn, token: Token, request: DeleteGroup) -> None:
    """Append the tombstones of a group and of its offsets. Errors: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP."""
    try:
        group = turn.shard.group(request.group_id)
        group.check_delete()
    except GroupError as refused:
        turn.answer(token, refused.code)
        return
    partitions = turn.shard.committed.partitions(request.group_id)
    tombstones = [offset_tombstone(request.group_id, partition) for partition in partitions]
    turn.append_all([*tombstones, *_tombstones(group)])
    turn.answer(token, ErrorCode.NONE)


def _tombstones(group: Group) -> list[Pair]:
    """Return the tombstones of the group's own records, without those of its offsets."""
    return group_tombstones(group) if isinstance(group, ConsumerGroup) else [classic_group_tombstone(group.id)]


def topics_deleted(turn: Turn, token: Token, request: TopicsDeleted) -> None:
    """Append tombstones for all groups' offsets of the deleted topics."""
    deleted = [each for name, topic_id in request.topics for each in turn.shard.committed.of_topic(name, topic_id)]
    turn.append_all(offset_tombstone(group_id, partition) for group_id, partition in dict.fromkeys(deleted))
    turn.answer(token, None)


# the expiration of offsets


def expire_later(turn: Turn) -> None:
    """Schedule the next search for expired offsets, after offsets.retention.check.interval.ms."""
    turn.after(EXPIRE, turn.shard.config.offsets_retention_check_interval_ms, _expire)


def _expire(turn: Turn) -> None:
    """Append tombstones for expired offsets, and for empty groups all of whose offsets have expired."""
    expire_later(turn)
    tombstones: list[Pair] = []
    for group_id in list(turn.shard.groups):
        records, all_deleted = _expired(turn, group_id)
        if all_deleted and turn.shard.groups[group_id].is_empty:
            records += _tombstones(turn.shard.groups[group_id])
        tombstones += records
    turn.append_all(tombstones)


def _expired(turn: Turn, group_id: str) -> tuple[list[Pair], bool]:
    """Return the tombstones of a group's expired offsets, and whether the group then has no offset left, committed or
    pending."""
    shard = turn.shard
    group, committed = shard.groups[group_id], shard.committed
    offsets = committed.of_group(group_id)
    records = []
    for partition, offset in offsets.items():
        is_kept = group.is_subscribed_to(partition.topic) or committed.is_open(group_id, partition)
        begins_ms = group.retention_begins_ms(offset)
        if begins_ms is None:
            return [], False
        expires_ms = offset.expire_timestamp_ms
        if expires_ms == NONE:
            expires_ms = begins_ms + shard.config.offsets_retention_ms
        if not is_kept and turn.now_ms >= expires_ms:
            records.append(offset_tombstone(group_id, partition))
    return records, len(records) == len(offsets) and not committed.has_open(group_id)
