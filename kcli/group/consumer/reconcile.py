"""One member's next step from its assigned partitions to its target assignment.

    1. The member revokes partitions that are not in its target; its member epoch stays the same until one of its
       heartbeats confirms the revocation.
    2. Then the member moves to the assignment epoch, and gets the partitions of its target that no member owns.
    3. While other members own further partitions of its target, the member waits; it gets them once they are revoked.

So no partition ever has two owners. Source: CurrentAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from kcli.group.consumer.member import ConsumerMember, Epochs, MemberState, Partitions
from kcli.group.errors import GroupError
from kcli.protocol.error_code import ErrorCode

Owned = Mapping[UUID, Collection[int]] | None
"""The partitions, by topic id, that a member reports as owned in its request; None if the request has no such
field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The conditions that decide a member's next step, which `take` returns.

    epoch, target: the assignment epoch and the member's target assignment. reads(topic_id): whether the member
    subscribes to the topic. reads_any: whether it subscribes to any topic. has_changed: whether its subscription has
    changed. is_owned(topic_id, partition): whether any member owns the partition. owned: the partitions that the member
    reports as its own; None if its request does not have the field.
    """

    epoch: int
    target: Partitions
    reads: Callable[[UUID], bool]
    reads_any: bool
    has_changed: bool
    is_owned: Callable[[UUID, int], bool]
    owned: Owned

    def take(self, member: ConsumerMember) -> ConsumerMember:
        """Return the member after the step. Raises GroupError FENCED_MEMBER_EPOCH if the member is in state UNKNOWN,
        unless its request says that it owns no partitions."""
        if member.state is MemberState.STABLE:
            if member.epoch != self.epoch:
                return self._next(member, member.epoch)
            return self._drop_unread(member) if self.has_changed else member
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            if not self._still_has(member.revoking):
                return self._next(member, member.epoch)
            return self._drop_unread(member) if self.has_changed else member
        if member.state is MemberState.UNRELEASED_PARTITIONS:
            return self._next(member, member.epoch)
        if self.owned is not None and not self.owned:
            return self._next(member, self.epoch)
        raise GroupError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin.",
        )

    def _still_has(self, revoking: Epochs) -> bool:
        """Return whether the member may still own one of these partitions: its request lists one of them as owned, or
        does not have the field of owned partitions."""
        if self.owned is None:
            return True
        return any(
            number in revoking.get(topic_id, {}) for topic_id, numbers in self.owned.items() for number in numbers
        )

    def _drop_unread(self, member: ConsumerMember) -> ConsumerMember:
        """Return the member with only those assigned partitions whose topics it still subscribes to, although there is
        no new target assignment yet. The member must revoke the other partitions, unless its request shows that it no
        longer has them."""
        if not self.reads_any and not member.revoking:
            kept: Epochs = {}
            dropped = member.assigned
        else:
            kept = {topic_id: numbers for topic_id, numbers in member.assigned.items() if self.reads(topic_id)}
            dropped = {topic_id: numbers for topic_id, numbers in member.assigned.items() if topic_id not in kept}
            if not dropped:
                return member
        revoking = _joined(member.revoking, dropped)
        if revoking and self._still_has(revoking):
            return _at(member, member.epoch, assigned=kept, state=MemberState.UNREVOKED_PARTITIONS, revoking=revoking)
        return _at(member, member.epoch, assigned=kept, state=member.state, revoking=member.revoking)

    def _next(self, member: ConsumerMember, epoch: int) -> ConsumerMember:
        kept: dict[UUID, Mapping[int, int]] = {}
        gained: dict[UUID, Mapping[int, int]] = {}
        revoking: dict[UUID, Mapping[int, int]] = {}
        must_wait = False
        for topic_id in dict.fromkeys((*self.target, *member.assigned)):
            target = self.target.get(topic_id, frozenset()) if self.reads(topic_id) else frozenset()
            has = member.assigned.get(topic_id, {})
            lacks = [number for number in target if number not in has]
            free = [number for number in lacks if self._is_free(member, topic_id, number)]
            must_wait |= len(free) < len(lacks)
            kept[topic_id] = {number: since for number, since in has.items() if number in target}
            gained[topic_id] = dict.fromkeys(free, self.epoch)
            revoking[topic_id] = {number: since for number, since in has.items() if number not in target}
        kept, gained, revoking = _joined(kept), _joined(gained), _joined(revoking)
        if revoking and self._still_has(revoking):
            return _at(member, epoch, assigned=kept, state=MemberState.UNREVOKED_PARTITIONS, revoking=revoking)
        state = MemberState.UNRELEASED_PARTITIONS if must_wait else MemberState.STABLE
        return _at(member, self.epoch, assigned=_joined(kept, gained), state=state, revoking={})

    def _is_free(self, member: ConsumerMember, topic_id: UUID, number: int) -> bool:
        return not self.is_owned(topic_id, number) or number in member.revoking.get(topic_id, {})


def _joined(*parts: Epochs) -> dict[UUID, Mapping[int, int]]:
    """Return the union of `parts`, without topics that have no partitions."""
    joined: dict[UUID, Mapping[int, int]] = {}
    for part in parts:
        for topic_id, numbers in part.items():
            if numbers:
                joined[topic_id] = {**joined.get(topic_id, {}), **numbers}
    return joined


def _at(
    member: ConsumerMember, epoch: int, *, assigned: Epochs, state: MemberState, revoking: Epochs
) -> ConsumerMember:
    return replace(member, epoch=epoch, previous_epoch=member.epoch, assigned=assigned, state=state, revoking=revoking)
