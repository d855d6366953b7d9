"""The group coordinator of one partition of __consumer_offsets, as `kcli.coordinator.Machine` has it.

    requests   kcli.group.requests; which function answers which is in the table below
    records    offsets, and classic groups as their leaders have assigned them (kcli.group.records); consumer groups,
               with each step of their members (kcli.group.consumer.records)
    kept in memory only   sessions, who waits, rebalances: after a restart classic groups are as at their last
               assignment, consumer groups as they were

A record of a classic group that this machine knows already is its own, just appended: the group is ahead of it (its
members have sessions, and wait), so only the log that is loaded makes groups. Consumer groups only follow their
records. What cannot be appended is not undone here: the
machine is thrown away. Source: GroupCoordinatorShard, GroupMetadataManager.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from formats.errors import BadValue
from kcli.coordinator import Outcome, Pair, Token
from kcli.group import listing, members, offsets, requests
from kcli.group.classic.group import ClassicGroup
from kcli.group.classic.rebalance import extend_session, prepare
from kcli.group.committed import CommittedOffset
from kcli.group.config import GroupConfig
from kcli.group.consumer import describe, fence
from kcli.group.consumer import heartbeat as consumer_heartbeat
from kcli.group.consumer import records as consumer_records
from kcli.group.consumer.group import ConsumerGroup
from kcli.group.errors import GroupError
from kcli.group.foreign import GROUP_RECORDS, MEMBER_RECORDS, ForeignGroup
from kcli.group.metadata import Metadata, NoMetadata
from kcli.group.records import (
    CLASSIC_GROUP,
    LEGACY_OFFSET,
    OFFSET,
    Record,
    classic_group,
    committed_offset,
    parse,
    read_commit,
)
from kcli.group.requests import Partition
from kcli.group.turn import Shard, Turn

RETRY_MS = 500
_HANDLERS: dict[type, Callable[[Turn, Token, Any], None]] = {
    requests.JoinGroup: members.join,
    requests.SyncGroup: members.sync,
    requests.Heartbeat: members.heartbeat,
    requests.LeaveGroup: members.leave,
    requests.ConsumerHeartbeat: consumer_heartbeat.heartbeat,
    requests.TopicsChanged: consumer_heartbeat.topics_changed,
    requests.CommitOffsets: offsets.commit,
    requests.FetchOffsets: offsets.fetch,
    requests.DeleteOffsets: offsets.delete_offsets,
    requests.DeleteGroup: offsets.delete_group,
    requests.TopicsDeleted: offsets.topics_deleted,
    requests.ListGroups: listing.list_groups,
    requests.DescribeGroup: listing.describe_group,
    requests.DescribeConsumerGroup: describe.describe,
}


class GroupMachine:
    """See above."""

    def __init__(
        self,
        config: GroupConfig,
        new_id: Callable[[], str],
        metadata: Metadata | None = None,
        new_consumer_id: Callable[[], str] | None = None,
    ) -> None:
        self._shard = Shard(config, new_id, new_consumer_id or new_id, metadata or NoMetadata())
        self._is_loaded = False

    def handle(self, token: Token, request: Any, now_ms: int) -> Outcome:
        """A request has come."""
        turn = Turn(self._shard, now_ms)
        _HANDLERS[type(request)](turn, token, request)
        return turn.outcome

    def tick(self, now_ms: int) -> Outcome:
        """Do one thing that is due: what it wants written is replayed before the next. What cannot be written is tried
        again."""
        turn = Turn(self._shard, now_ms)
        due = self._shard.timers.take(now_ms)
        if due is not None:
            key, action = due
            try:
                action(turn)
            except GroupError:
                turn = Turn(self._shard, now_ms)
                turn.after(key, RETRY_MS, action)
        return turn.outcome

    def deadline_ms(self) -> int | None:
        """When `tick` is wanted next."""
        return self._shard.timers.deadline_ms()

    def replay(self, record: Pair, offset: int, producer_id: int, producer_epoch: int) -> None:  # noqa: ARG002
        """A record of the log. Raises FormatError."""
        commit = read_commit(record, offset)
        if commit is not None:
            self._replay_commit(*commit, producer_id)
            return
        parsed = parse(record)
        if parsed is None:
            return
        if parsed.type in (LEGACY_OFFSET, OFFSET):
            self._replay_offset(parsed, offset, producer_id)
        elif parsed.type == CLASSIC_GROUP:
            self._replay_group(parsed)
        elif parsed.type in consumer_records.KEYS:
            self._replay_consumer(parsed)
        elif parsed.key_name in GROUP_RECORDS:
            self._replay_foreign_group(parsed)
        elif parsed.key_name in MEMBER_RECORDS:
            self._replay_foreign_member(parsed)

    def _replay_offset(self, record: Record, record_offset: int, producer_id: int) -> None:
        group_id, partition = record.key["group"], (record.key["topic"], record.key["partition"])
        if record.value is None:
            self._shard.committed.replay(group_id, partition, None, producer_id)
        else:
            self._replay_commit(group_id, partition, committed_offset(record.value, record_offset), producer_id)

    def _replay_commit(self, group_id: str, partition: Partition, offset: CommittedOffset, producer_id: int) -> None:
        self._shard.classic_or_new(group_id, None)
        self._shard.committed.replay(group_id, partition, offset, producer_id)

    def _replay_group(self, record: Record) -> None:
        group_id, groups = record.key["group"], self._shard.groups
        if record.value is None:
            groups.pop(group_id, None)
        elif not self._is_loaded:
            groups[group_id] = classic_group(group_id, record.value)

    def _replay_consumer(self, record: Record) -> None:
        """A group begins with any of its records; tombstones of one that is not there, or is of another kind by now,
        change nothing."""
        group_id, groups = record.key["groupId"], self._shard.groups
        group = groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            is_own = self._is_loaded and group is not None
            if record.value is None or is_own:
                return
            if isinstance(group, ForeignGroup) or (isinstance(group, ClassicGroup) and not group.is_simple):
                raise BadValue(f"group {group_id} is {group.type_name}, and has records of a consumer group")
            group = groups[group_id] = ConsumerGroup(group_id)
        if not consumer_records.replay(group, record):
            del groups[group_id]

    def _replay_foreign_group(self, record: Record) -> None:
        group_id = record.key["groupId"]
        if record.value is None:
            self._shard.groups.pop(group_id, None)
        else:
            self._foreign(group_id, GROUP_RECORDS[record.key_name])

    def _replay_foreign_member(self, record: Record) -> None:
        group_id, member_id = record.key["groupId"], record.key["memberId"]
        if record.value is not None or isinstance(self._shard.groups.get(group_id), ForeignGroup):
            self._foreign(group_id, MEMBER_RECORDS[record.key_name]).replay_member(member_id, record.value)

    def _foreign(self, group_id: str, type_name: str) -> ForeignGroup:
        """Made once; a simple group that its offsets made before gives way."""
        group = self._shard.groups.get(group_id)
        if not isinstance(group, ForeignGroup):
            group = self._shard.groups[group_id] = ForeignGroup(group_id, type_name)
        return group

    def replay_marker(self, producer_id: int, producer_epoch: int, *, commit: bool) -> None:  # noqa: ARG002
        """A producer's transaction has ended."""
        self._shard.committed.end_transaction(producer_id, commit=commit)

    def loaded(self, now_ms: int) -> Outcome:
        """The log's end was reached: members have a session from now on, and groups that are too large rebalance."""
        self._is_loaded = True
        turn = Turn(self._shard, now_ms)
        self._shard.new_topics_version = self._shard.metadata.version
        for group in self._shard.groups.values():
            if isinstance(group, ConsumerGroup):
                for consumer in group.members.values():
                    fence.load(turn, group.id, consumer)
            if isinstance(group, ClassicGroup):
                for member in group.members.values():
                    extend_session(turn, group, member)
                if len(group.members) > self._shard.config.classic_group_max_size:
                    prepare(turn, group)
        offsets.expire_later(turn)
        return turn.outcome
