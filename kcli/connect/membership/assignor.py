"""Who gets which connectors and tasks.

Eager: each rebalance deals all of them out anew, in turn over the members. Cooperative: members keep what they have;

    deleted, doubled   are revoked at once
    new                go to the members with the least
    lost               (a member has gone) wait for it up to scheduled.rebalance.max.delay.ms; then the members that
                       came empty meanwhile get them, else those with the least. They go out at once if all members are
                       still there: one did not get the last assignment
    uneven             what a member has above its share is revoked, and dealt out by the rebalance that follows. Two
                       such rebalances in a row have a delay between them, which grows, so that work does not wander

Only the leader has this state; one that is newly elected begins with what the members say. Source: EagerAssignor,
IncrementalCooperativeAssignor; KIP-415.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from itertools import cycle
from typing import Final, NamedTuple, TypeVar

from kcli.connect.membership.protocol import Share, Shares, union
from kcli.connect.plugins import TaskId

T = TypeVar("T", str, TaskId)
BACKOFF_BASE: Final = 40


def assign_eagerly(configured: Share, members: Collection[str]) -> dict[str, Share]:
    """Return what each member gets: connectors, then tasks, in turn over the members."""
    connectors: dict[str, set[str]] = {each: set() for each in members}
    tasks: dict[str, set[TaskId]] = {each: set() for each in members}
    turns = cycle(sorted(members))
    for name in sorted(configured.connectors):
        connectors[next(turns)].add(name)
    for task in sorted(configured.tasks):
        tasks[next(turns)].add(task)
    return {each: Share(frozenset(connectors[each]), frozenset(tasks[each])) for each in members}


class Decision(NamedTuple):
    """What each member gets anew, what is revoked from it, and what it has afterwards. delay_ms: until the next
    rebalance is due; 0 for none."""

    assigned: Shares
    revoked: Shares
    held: Shares
    delay_ms: int


@dataclass
class _Load:
    """What a member has after this rebalance, so far."""

    member: str
    connectors: set[str]
    tasks: set[TaskId]

    @property
    def is_empty(self) -> bool:
        return not self.connectors and not self.tasks

    def drop(self, share: Share) -> None:
        self.connectors -= share.connectors
        self.tasks -= share.tasks


@dataclass
class CooperativeAssignor:
    """The leader's state between rebalances. delay_ms_max: scheduled.rebalance.max.delay.ms."""

    delay_ms_max: int
    _previous: Share = field(default_factory=Share)
    _previous_revoked: Share = field(default_factory=Share)
    _previous_members: frozenset[str] = frozenset()
    _previous_generation: int = -1
    _has_revoked: bool = False
    _revoking_in_a_row: int = 0
    _due_ms: int = 0
    _delay_ms: int = 0
    _candidates: dict[str, None] = field(default_factory=dict)

    def assign(self, configured: Share, members: Shares, generation: int, completed: int, now_ms: int) -> Decision:
        """Return the assignment. members: what each has. generation: this rebalance's. completed: the generation of the
        last rebalance that this member has completed."""
        if self._previous_generation != completed:
            self._previous = Share()
        active = union(members.values())
        if self._previous_revoked & active:
            self._previous = active
        self._previous_revoked = Share()
        deleted = self._previous - configured
        lost = self._previous - active - deleted
        created = configured - self._previous - active
        gone = deleted | _doubled(members)
        revoked = {member: share & gone for member, share in members.items()}
        loads = [
            _Load(member, set(kept.connectors), set(kept.tasks))
            for member, share in sorted(members.items())
            for kept in [share - gone]
        ]
        reassigned = self._lost(lost, loads, now_ms)
        self._balance(configured, loads, revoked, now_ms)
        _deal(loads, sorted((created | reassigned).connectors), lambda each: each.connectors)
        _deal(loads, sorted((created | reassigned).tasks), lambda each: each.tasks)
        held = {each.member: Share(frozenset(each.connectors), frozenset(each.tasks)) for each in loads}
        self._previous = union(held.values()) | lost
        self._previous_revoked = union(revoked.values())
        self._previous_members = frozenset(members)
        self._previous_generation = generation
        assigned = {member: held[member] - (share - gone) for member, share in members.items()}
        return Decision(assigned, revoked, held, self._delay_ms)

    def _lost(self, lost: Share, loads: Collection[_Load], now_ms: int) -> Share:
        """Return what is dealt out of what was lost."""
        if not lost and not self._has_revoked:
            self._forget_delay()
            return Share()
        is_everybody_there = self._previous_members <= {each.member for each in loads}
        if (self._due_ms <= 0 and is_everybody_there) or not self.delay_ms_max:
            return lost
        if 0 < self._due_ms <= now_ms:
            candidates = [each for each in loads if each.member in self._candidates]
            turns = cycle(candidates)
            for name in sorted(lost.connectors) if candidates else ():
                next(turns).connectors.add(name)
            turns = cycle(candidates)
            for task in sorted(lost.tasks) if candidates else ():
                next(turns).tasks.add(task)
            self._forget_delay()
            self._has_revoked = False
            return Share() if candidates else lost
        self._candidates.update(dict.fromkeys(each.member for each in loads if each.is_empty))
        waits = now_ms < self._due_ms
        self._delay_ms = min(self._due_ms - now_ms, self.delay_ms_max) if waits else self.delay_ms_max
        self._due_ms = now_ms + self._delay_ms
        return Share()

    def _forget_delay(self) -> None:
        self._candidates.clear()
        self._due_ms = self._delay_ms = 0

    def _balance(self, configured: Share, loads: Collection[_Load], revoked: dict[str, Share], now_ms: int) -> None:
        """Revoke what members have above their shares, unless a delay is running."""
        if self._delay_ms:
            self._has_revoked = False
            return
        uneven = _uneven(configured, loads)
        if not uneven:
            self._has_revoked, self._revoking_in_a_row = False, 0
            return
        if self._has_revoked:
            self._revoking_in_a_row += 1
            self._delay_ms = self._backoff_ms()
            if self._delay_ms:
                self._due_ms = now_ms + self._delay_ms
                return
        self._has_revoked = True
        for each in loads:
            share = uneven.get(each.member, Share())
            revoked[each.member] |= share
            each.drop(share)

    def _backoff_ms(self) -> int:
        delay_ms: int = BACKOFF_BASE ** min(self._revoking_in_a_row, 8)
        return min(delay_ms, self.delay_ms_max)


def _doubled(members: Shares) -> Share:
    """Return what more than one member has."""
    seen, doubled = Share(), Share()
    for each in members.values():
        doubled |= seen & each
        seen |= each
    return doubled


def _uneven(configured: Share, loads: Collection[_Load]) -> Mapping[str, Share]:
    """Return what each member has above its share."""
    if all(each.is_empty for each in loads) or not configured:
        return {}
    connectors = _above(len(configured.connectors), loads, lambda each: each.connectors)
    tasks = _above(len(configured.tasks), loads, lambda each: each.tasks)
    return {
        member: Share(frozenset(connectors.get(member, ())), frozenset(tasks.get(member, ())))
        for member in {*connectors, *tasks}
    }


def _above(total: int, loads: Collection[_Load], of: Callable[[_Load], set[T]]) -> dict[str, list[T]]:
    least, extras = divmod(total, len(loads))
    found: dict[str, list[T]] = {}
    for each in loads:
        count = len(of(each))
        if count <= least:
            continue
        allowed = least
        if extras:
            extras -= 1
            allowed += 1
        if count > allowed:
            found[each.member] = sorted(of(each))[: count - allowed]
    return found


def _deal(loads: list[_Load], what: Collection[T], of: Callable[[_Load], set[T]]) -> None:
    """Give each to the member that has the least."""
    for each in what:
        of(min(loads, key=lambda load: (len(of(load)), load.member))).add(each)
