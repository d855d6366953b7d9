"""The group coordinator of one partition of __consumer_offsets, a `kcli.coordinator.machine.Machine`.

    requests   kcli.group.requests; _HANDLERS names the function that answers each
    records    offset commits; classic groups, with each assignment of their leaders (kcli.group.records); consumer
               groups, with each change of their members (kcli.group.consumer.records)
    kept in memory only   sessions, pending JoinGroup and SyncGroup requests, rebalances: after a restart a classic
               group has the state of its last assignment, a consumer group the state of its last record

After the log is loaded, every record of a classic group that is replayed was just appended by this GroupMachine. The
group in memory is already newer than the record (its members have sessions and pending requests), so the record is not
applied: only loading makes classic groups from records. A consumer group, in contrast, changes only by replaying its
records. Nothing here undoes a change whose records cannot be appended: the broker drops the GroupMachine and loads a
new one. Source: GroupCoordinatorShard, GroupMetadataManager.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from formats.errors import BadValue
from kcli.coordinator.machine import Outcome, Pair, Repetition, Token
from kcli.group import listing, members, offsets, requests
from kcli.group.classic.group import ClassicGroup
from kcli.group.classic.rebalance import extend_session, prepare
from kcli.group.committed import NONE, CommittedOffset
from kcli.group.config import GroupConfig
from kcli.group.consumer import describe, fence
from kcli.group.consumer import heartbeat as consumer_heartbeat
from kcli.group.consumer import records as consumer_records
from kcli.group.consumer.group import ConsumerGroup
from kcli.group.errors import GroupError
from kcli.group.foreign import GROUP_RECORDS, MEMBER_RECORDS, ForeignGroup
from kcli.group.metadata import Metadata, NoMetadata
from kcli.group.offsets import Commits
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
from kcli.group.turn import Shard, Turn
from kcli.protocol.topic_partition import TopicPartition

RETRY_MS = 500
HEARD = Commits([], "", [])
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
    """The group coordinator of one partition of __consumer_offsets.

    new_id, new_consumer_id: functions that return a random id for a member of a classic group and of a consumer group;
    without new_consumer_id, new_id is called for both.
    """

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
        """Handle a request of kcli.group.requests; its answer is in this outcome or in a later one."""
        turn = Turn(self._shard, now_ms)
        _HANDLERS[type(request)](turn, token, request)
        return turn.outcome

    def at_once(self, request: Any, log_end_offset: int, now_ms: int) -> Commits | None:
        """Handle a Heartbeat or CommitOffsets, if it succeeds. Return the Commits, which the caller must append at
        `log_end_offset` and then pass to `committed`; those of a Heartbeat have no records. Return None if the
        caller must pass the request to `handle` instead; nothing has changed then, except that the member's session may
        have been extended."""
        turn = Turn(self._shard, now_ms)
        if isinstance(request, requests.CommitOffsets):
            return offsets.commit_at_once(turn, request, log_end_offset)
        return HEARD if members.heartbeat_at_once(turn, request) else None

    def committed(self, commits: Commits) -> None:
        """Apply the records of the Commits once they are appended, as `replay` would."""
        replay = self._shard.committed.replay
        for partition, offset in commits.offsets:
            replay(commits.group_id, partition, offset, NONE)

    def repetition(self, request: requests.CommitOffsets, commits: Commits) -> Repetition:
        """Return the function that applies further commits like this one, which `at_once` has accepted (see
        AtOnce.repetition)."""
        return offsets.repetition(self._shard, request, commits)

    def tick(self, now_ms: int) -> Outcome:
        """Run the earliest timer that is due, if there is one. The broker replays the timer's records before it calls
        `tick` for the next timer.

        If the records of a timer do not fit into one batch, the timer is set again, for RETRY_MS later.
        """
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
        """Return when `tick` must be called next, in ms since 1970; None if no timer is set."""
        return self._shard.timers.deadline_ms()

    def replay(self, record: Pair, offset: int, producer_id: int, producer_epoch: int) -> None:  # noqa: ARG002 (the signature in Machine)
        """Apply a record of the log. offset: the record's offset. producer_id: that of its transaction, -1 for none.
        Raises FormatError."""
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
        group_id = record.key["group"]
        partition = TopicPartition(record.key["topic"], record.key["partition"])
        if record.value is None:
            self._shard.committed.replay(group_id, partition, None, producer_id)
        else:
            self._replay_commit(group_id, partition, committed_offset(record.value, record_offset), producer_id)

    def _replay_commit(
        self, group_id: str, partition: TopicPartition, offset: CommittedOffset, producer_id: int
    ) -> None:
        self._shard.classic_or_new(group_id, None)
        self._shard.committed.replay(group_id, partition, offset, producer_id)

    def _replay_group(self, record: Record) -> None:
        group_id, groups = record.key["group"], self._shard.groups
        if record.value is None:
            groups.pop(group_id, None)
        elif not self._is_loaded:
            groups[group_id] = classic_group(group_id, record.value)

    def _replay_consumer(self, record: Record) -> None:
        """Apply a record of a consumer group. The first record that is not a tombstone creates the group. A
        tombstone for a group that does not exist, or that is no consumer group any more, changes nothing."""
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
        """Return the share or streams group of that id. If there is none, it is created, and replaces a group of
        another type, such as the simple group that earlier offset commits created."""
        group = self._shard.groups.get(group_id)
        if not isinstance(group, ForeignGroup):
            group = self._shard.groups[group_id] = ForeignGroup(group_id, type_name)
        return group

    def replay_marker(self, producer_id: int, producer_epoch: int, *, commit: bool) -> None:  # noqa: ARG002 (the signature in Machine)
        """Apply a transaction marker: commit or drop the offsets that are pending in the producer's transaction."""
        self._shard.committed.end_transaction(producer_id, commit=commit)

    def loaded(self, now_ms: int) -> Outcome:
        """Begin to work, after the whole log has been replayed: members' sessions start, and classic groups of more
        than group.max.size members rebalance."""
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
