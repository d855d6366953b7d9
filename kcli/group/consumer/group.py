"""A consumer group: its members, its epochs, and its state.

    group epoch        grows when a member, a subscription or a topic has changed
    assignment epoch   the group epoch for which the target assignment was made
    member epoch       the assignment epoch that the member has reconciled to

    state         when
    Empty         there are no members
    Assigning     the group epoch is newer than the assignment epoch
    Reconciling   a member does not have its target assignment yet
    Stable        all members have their target assignments

Kafka's fifth state, Dead, is the state that describes a group which does not exist. Only records change a group
(`kcli.group.consumer.records.replay`), except for the time of its next metadata refresh, which is kept in memory only.

Source: ConsumerGroup, ModernGroup; KIP-848.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from uuid import UUID

from formats.errors import BadValue
from formats.message import uuid_bytes
from kcli.group.committed import CommittedOffset
from kcli.group.consumer.member import NO_PARTITIONS, ConsumerMember, MemberState, Partitions
from kcli.group.consumer.subscriptions import ResolvedRegex, Subscriptions, subtract
from kcli.group.errors import GroupError
from kcli.group.requests import CommitOffsets
from kcli.java.hashing import hash_map_order
from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicIdPartition

CONSUMER = "consumer"
MEMBER_EPOCHS_SINCE = 9
"""The first version of OffsetCommit that carries member epochs."""
FOREVER_MS = 2**31 - 1


class ConsumerGroup:
    """A consumer group.

    target: the target assignment, by member id. static: member ids by instance id. resolved: the topics that each
    regular expression matches. classic_members: the number of members that speak the classic protocol.
    has_partition_metadata: whether the log has a ConsumerGroupPartitionMetadata record, which Kafka before 4.1 wrote
    and which needs a tombstone.
    """

    type_name = CONSUMER

    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self.epoch = 1
        self.metadata_hash = 0
        self.assignment_epoch = 1
        self.assignment_timestamp_ms = 0
        self.target: dict[str, Partitions] = {}
        self.members: dict[str, ConsumerMember] = {}
        self.static: dict[str, str] = {}
        self.resolved: dict[str, ResolvedRegex] = {}
        self.subscriptions = Subscriptions()
        self.has_partition_metadata = False
        self.classic_members = 0
        self._assignors: Counter[str] = Counter()
        self._protocols: Counter[str] = Counter()
        self._owned: dict[TopicIdPartition, int] = {}
        self._refresh_ms, self._refresh_epoch = 0, 0

    # the interface of all types of groups: kcli.group.group.Group

    @property
    def state_name(self) -> str:
        """The group's state in ListGroups."""
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.is_reconciled(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def listed_protocol_type(self) -> str:
        """The group's protocol type in ListGroups."""
        return CONSUMER

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""
        return not self.members

    def check_commit(self, request: CommitOffsets) -> None:
        """Raises GroupError if the request may not commit offsets to the group.

        A member commits with its member epoch, or with an older epoch for partitions that were assigned to it at that
        epoch or before. A client without membership commits to an empty group only. A transactional commit need not
        name a member (KIP-447, KIP-1251).
        """
        is_transactional = request.producer_id >= 0
        epoch = request.generation
        if epoch < 0 and self.is_empty:
            return
        if is_transactional and epoch == -1 and not request.member_id and request.instance_id is None:
            return
        member = self.member(request.member_id)
        if not is_transactional and member.classic is None and request.version < MEMBER_EPOCHS_SINCE:
            raise GroupError(ErrorCode.UNSUPPORTED_VERSION)
        is_stale = epoch > member.epoch
        if epoch < member.epoch:
            is_stale = any(_is_before(member, epoch, each.topic_id, each.partition) for each in request.offsets)
        if is_stale:
            is_old = is_transactional or member.classic is not None
            raise GroupError(ErrorCode.ILLEGAL_GENERATION if is_old else ErrorCode.STALE_MEMBER_EPOCH)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Raises GroupError if the group does not have the member, or if `epoch` is not its member epoch. A client
        that is no member (member_id None, epoch -1) is always allowed."""
        if member_id is None and epoch < 0:
            return
        member = self.member(member_id or "")
        if epoch != member.epoch:
            is_classic = member.classic is not None
            raise GroupError(ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH)

    def check_delete_offsets(self) -> None:
        """Never raises: the subscribed topics are known, so OffsetDelete is checked by topic."""

    def check_delete(self) -> None:
        """Raises GroupError NON_EMPTY_GROUP if the group has members."""
        if not self.is_empty:
            raise GroupError(ErrorCode.NON_EMPTY_GROUP)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member subscribes to the topic, by name or by regular expression."""
        return topic in self.subscriptions

    def retention_begins_ms(self, offset: CommittedOffset) -> int | None:
        """Return the time from which the offset's retention is counted: that of its commit, in ms since 1970; never
        None. The caller keeps the offsets of topics that a member subscribes to."""
        return offset.commit_timestamp_ms

    # reading the group's state

    def member(self, member_id: str) -> ConsumerMember:
        """The member of that id. Raises GroupError UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            message = f"Member {member_id} is not a member of group {self.id}."
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, message)
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """The member with this instance id; None if there is none."""
        member_id = None if instance_id is None else self.static.get(instance_id)
        return None if member_id is None else self.member(member_id)

    def target_of(self, member: ConsumerMember) -> Partitions:
        """Return the member's target assignment; for a static member, the target assignment of the member id that now
        has its instance id in the group."""
        member_id = member.id if member.instance_id is None else self.static.get(member.instance_id)
        return NO_PARTITIONS if member_id is None else self.target.get(member_id, NO_PARTITIONS)

    def is_owned(self, topic_id: UUID, partition: int) -> bool:
        """Whether a member owns the partition, or must revoke it and has not confirmed that yet."""
        return (topic_id, partition) in self._owned

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether the member waits for partitions of its target assignment that other members have not released yet."""
        return member.state is MemberState.UNRELEASED_PARTITIONS and any(
            number not in member.assigned.get(topic_id, {}) and self.is_owned(topic_id, number)
            for topic_id, numbers in self.target.get(member.id, NO_PARTITIONS).items()
            for number in numbers
        )

    def preferred_assignor(self, old: ConsumerMember | None, new: ConsumerMember | None) -> str | None:
        """Return the assignor that most members prefer, once member `old` is replaced by `new`; None if no member
        names one.

        Of several assignors with equal votes, the first in the order of Java's HashMap is returned, as in Kafka.
        """
        votes = self._assignors.copy()
        if old is not None and old.assignor is not None:
            subtract(votes, old.assignor)
        if new is not None and new.assignor is not None:
            votes[new.assignor] += 1
        return max(hash_map_order(votes), key=votes.__getitem__, default=None)

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a classic member with these protocols can join: its protocol type is "consumer", and all classic
        members of the group support one of its protocols; in an empty group any protocol will do."""
        if protocol_type != CONSUMER:
            return False
        if self.is_empty:
            return any(True for _ in names)
        return any(self._protocols[name] == self.classic_members for name in names)

    def are_others_classic(self, leaving: Iterable[ConsumerMember]) -> bool:
        """Whether all members except `leaving` speak the classic protocol."""
        excepted = list(leaving)
        classic = self.classic_members - sum(each.classic is not None for each in excepted)
        return classic == len(self.members) - len(excepted)

    # the time of the next metadata refresh: kept in memory only

    def needs_refresh(self, now_ms: int) -> bool:
        """Whether the metadata of the group's topics must be hashed again: `request_refresh` was called after the last
        refresh, or that refresh was FOREVER_MS ago, or the group has not reached the epoch that the refresh gave it,
        because the record of this epoch was not written."""
        return now_ms >= self._refresh_ms or self.epoch < self._refresh_epoch

    def request_refresh(self) -> None:
        """Have the next heartbeat refresh the metadata, as topics have changed."""
        self._refresh_ms, self._refresh_epoch = 0, 0

    def refreshed(self, now_ms: int, epoch: int) -> None:
        """Note a metadata refresh at `now_ms`. epoch: the group epoch after the refresh, whose record may still be
        unwritten."""
        self._refresh_ms, self._refresh_epoch = now_ms + FOREVER_MS, epoch

    # replaying the log

    def set_member(self, member: ConsumerMember) -> None:
        """Add a member, or replace its earlier state. Raises BadValue if a partition of the member has another owner
        at the same or a newer epoch."""
        old = self.members.get(member.id)
        if old is not None:
            self._forget(old)
        self.members[member.id] = member
        self.subscriptions.add(member)
        if member.assignor is not None:
            self._assignors[member.assignor] += 1
        self._protocols.update(member.protocol_names)
        self.classic_members += member.classic is not None
        if member.instance_id is not None:
            self.static[member.instance_id] = member.id
        for epochs in (member.assigned, member.revoking):
            for topic_id, numbers in epochs.items():
                for number in numbers:
                    if self._owned.get((topic_id, number), -1) >= member.epoch and self.is_owned(topic_id, number):
                        raise BadValue(f"group {self.id}: partition {topic_id}-{number} has two owners")
                    self._owned[topic_id, number] = member.epoch

    def remove_member(self, member_id: str) -> None:
        """Remove a member."""
        member = self.members.pop(member_id)
        self._forget(member)
        if member.instance_id is not None:
            self.static.pop(member.instance_id, None)

    def _forget(self, member: ConsumerMember) -> None:
        self.subscriptions.remove(member)
        if member.assignor is not None:
            subtract(self._assignors, member.assignor)
        for name in member.protocol_names:
            subtract(self._protocols, name)
        self.classic_members -= member.classic is not None
        for epochs in (member.assigned, member.revoking):
            for topic_id, numbers in epochs.items():
                for number in numbers:
                    if self._owned.get((topic_id, number)) == member.epoch:
                        del self._owned[topic_id, number]

    def set_regex(self, regex: str, resolved: ResolvedRegex | None) -> None:
        """Set the topics that a regular expression matches. resolved: None if no member subscribes to it any
        more."""
        old = self.resolved.pop(regex, None)
        if old is not None:
            self.subscriptions.unmatch(old.topics)
        if resolved is not None:
            self.resolved[regex] = resolved
            self.subscriptions.match(resolved.topics)


def _is_before(member: ConsumerMember, epoch: int, topic_id: str, partition: int) -> bool:
    """Return whether `epoch` is too old to commit the partition's offset: the member does not own the partition, or the
    partition was assigned to it at a later epoch."""
    since = member.epoch_of(UUID(bytes=uuid_bytes(topic_id)), partition)
    return since is None or epoch < since
