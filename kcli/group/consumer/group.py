"""A consumer group: its members, three kinds of epochs, and in which of these states it is.

    group epoch        grows when a member, a subscription or a topic has changed
    assignment epoch   the group epoch that the target assignment was made for
    member epoch       the assignment epoch that the member is at

    state         when
    Empty         there are no members
    Assigning     the target assignment is older than the group
    Reconciling   a member has not its target assignment yet
    Stable        all members have theirs

Kafka's fifth state, Dead, is what a group is called that is not there. Only records change a group
(`kcli.group.consumer.records.replay`), but for when it looks at topics again.

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
from kcli.group.errors import ErrorCode, GroupError
from kcli.group.requests import CommitOffsets
from kcli.java import hash_map_order

CONSUMER = "consumer"
MEMBER_EPOCHS_SINCE = 9
"""The version of OffsetCommit that has them."""
FOREVER_MS = 2**31 - 1


class ConsumerGroup:
    """See above. target: what each member shall have. static: members by instance id. has_partition_metadata: a record
    of versions before 4.1 is in the log, and has to go."""

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
        self._owned: dict[tuple[UUID, int], int] = {}
        self._refresh_ms, self._refresh_epoch = 0, 0

    # as other kinds of groups

    @property
    def state_name(self) -> str:
        """As lists show it."""
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.is_reconciled(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def listed_protocol_type(self) -> str:
        """As lists show it."""
        return CONSUMER

    @property
    def is_empty(self) -> bool:
        """Has it no members?"""
        return not self.members

    def check_commit(self, request: CommitOffsets) -> None:
        """Members commit at their epoch, or at an older one for partitions that they had then already; anyone commits
        to an empty group, and a transaction that names no member to any (KIP-447, KIP-1251)."""
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
        """May this member read offsets? Who names none, may. Raises GroupError."""
        if member_id is None and epoch < 0:
            return
        member = self.member(member_id or "")
        if epoch != member.epoch:
            is_classic = member.classic is not None
            raise GroupError(ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH)

    def check_delete_offsets(self) -> None:
        """Always: it is known which topics are read."""

    def check_delete(self) -> None:
        """Only without members."""
        if not self.is_empty:
            raise GroupError(ErrorCode.NON_EMPTY_GROUP)

    def is_subscribed_to(self, topic: str) -> bool:
        """Does a member read that topic?"""
        return topic in self.subscriptions

    def retention_begins_ms(self, offset: CommittedOffset) -> int | None:
        """Since the commit, of topics that nobody reads."""
        return offset.commit_timestamp_ms

    # what there is

    def member(self, member_id: str) -> ConsumerMember:
        """Raises GroupError: UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            message = f"Member {member_id} is not a member of group {self.id}."
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, message)
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """The member that has this instance id."""
        member_id = None if instance_id is None else self.static.get(instance_id)
        return None if member_id is None else self.member(member_id)

    def target_of(self, member: ConsumerMember) -> Partitions:
        """What it shall have; a static one, whatever its id was when that was made."""
        member_id = member.id if member.instance_id is None else self.static.get(member.instance_id)
        return NO_PARTITIONS if member_id is None else self.target.get(member_id, NO_PARTITIONS)

    def is_owned(self, topic_id: UUID, partition: int) -> bool:
        """Has a member this partition, or is about to give it away?"""
        return (topic_id, partition) in self._owned

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Does it lack partitions of its target that others own still?"""
        return member.state is MemberState.UNRELEASED_PARTITIONS and any(
            number not in member.assigned.get(topic_id, {}) and self.is_owned(topic_id, number)
            for topic_id, numbers in self.target.get(member.id, NO_PARTITIONS).items()
            for number in numbers
        )

    def preferred_assignor(self, old: ConsumerMember | None, new: ConsumerMember | None) -> str | None:
        """The one that most members want, once a member has become another; among equals Java's hash map decides."""
        votes = self._assignors.copy()
        if old is not None and old.assignor is not None:
            subtract(votes, old.assignor)
        if new is not None and new.assignor is not None:
            votes[new.assignor] += 1
        return max(hash_map_order(votes), key=votes.__getitem__, default=None)

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Has a classic member a protocol with all other classic ones in common?"""
        if protocol_type != CONSUMER:
            return False
        if self.is_empty:
            return any(True for _ in names)
        return any(self._protocols[name] == self.classic_members for name in names)

    def are_others_classic(self, gone: Iterable[ConsumerMember]) -> bool:
        """Do all but these speak the classic protocol?"""
        left = list(gone)
        return self.classic_members - sum(each.classic is not None for each in left) == len(self.members) - len(left)

    # when topics are looked at again: kept in memory only

    def needs_refresh(self, now_ms: int) -> bool:
        """Have topics changed since the group looked at them, as far as it knows?"""
        return now_ms >= self._refresh_ms or self.epoch < self._refresh_epoch

    def request_refresh(self) -> None:
        """Topics have changed."""
        self._refresh_ms, self._refresh_epoch = 0, 0

    def refreshed(self, now_ms: int, epoch: int) -> None:
        """They were looked at, for an epoch that its record has still to begin."""
        self._refresh_ms, self._refresh_epoch = now_ms + FOREVER_MS, epoch

    # what the log says

    def set_member(self, member: ConsumerMember) -> None:
        """A new member, or a new state of one. Raises BadValue where a partition has another owner of no older
        epoch."""
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
        """A member is gone."""
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
        """A regular expression was resolved, or is not needed any more."""
        old = self.resolved.pop(regex, None)
        if old is not None:
            self.subscriptions.unmatch(old.topics)
        if resolved is not None:
            self.resolved[regex] = resolved
            self.subscriptions.match(resolved.topics)


def _is_before(member: ConsumerMember, epoch: int, topic_id: str, partition: int) -> bool:
    """Has it not the partition, or got it after that epoch?"""
    since = member.epoch_of(UUID(bytes=uuid_bytes(topic_id)), partition)
    return since is None or epoch < since
