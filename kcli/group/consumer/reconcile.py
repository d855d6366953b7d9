"""One member's next step from the partitions that it has to those that it shall have.

    1. What it shall not have any more it must give away: until it says that it has, it stays at its epoch.
    2. Then it is at the epoch of the target, and gets what nobody else owns.
    3. As long as others own some of the rest, it waits for them; it gets that when they have given it away.

So no partition ever has two owners. Source: CurrentAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from kcli.group.consumer.member import ConsumerMember, Epochs, MemberState, Partitions
from kcli.group.errors import ErrorCode, GroupError

Owned = Mapping[UUID, Collection[int]] | None
"""The partitions that a member says it has; None where it says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What decides about the step.

    epoch, target: the group's target assignment. reads: does the member subscribe to a topic? reads_any: does it
    subscribe at all? has_changed: is its subscription another than before? is_owned: has anybody this partition?
    """

    epoch: int
    target: Partitions
    reads: Callable[[UUID], bool]
    reads_any: bool
    has_changed: bool
    is_owned: Callable[[UUID, int], bool]
    owned: Owned

    def take(self, member: ConsumerMember) -> ConsumerMember:
        """The member after it. Raises GroupError: FENCED_MEMBER_EPOCH, for a member in a state that is not known."""
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
        """Does it own some of these, as far as is known?"""
        if self.owned is None:
            return True
        return any(
            number in revoking.get(topic_id, {}) for topic_id, numbers in self.owned.items() for number in numbers
        )

    def _drop_unread(self, member: ConsumerMember) -> ConsumerMember:
        """It has to give away at once what it does not subscribe to any more, before there is a new target."""
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
    """All of them, without topics of no partition."""
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
