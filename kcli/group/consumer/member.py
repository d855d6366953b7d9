"""A member of a consumer group: what it subscribes to, and where it is on its way to its target assignment.

    state                   its epoch is     and it
    STABLE                  the target's     has its target assignment
    UNREVOKED_PARTITIONS    an older one     still owns partitions that it must give away, and has not confirmed it
    UNRELEASED_PARTITIONS   the target's     waits for partitions that others have not given away yet
    UNKNOWN                                  was written by a newer version

Source: ConsumerGroupMember, MemberState.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Final
from uuid import UUID

from kcli.group.requests import Protocols

JOINING, LEAVING, LEAVING_STATIC = 0, -1, -2
"""Epochs that say what a member wants: to join, to leave, to leave and come back under its instance id."""

Partitions = Mapping[UUID, frozenset[int]]
"""Partitions by topic."""
Epochs = Mapping[UUID, Mapping[int, int]]
"""Partitions by topic, with the epoch at which the member got each: offsets of older epochs are refused there."""

NO_PARTITIONS: Final[Partitions] = MappingProxyType({})


class MemberState(IntEnum):
    """See above."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


@dataclass(frozen=True, slots=True)
class ClassicProtocol:
    """What a member that speaks the classic protocol has said in JoinGroup."""

    session_timeout_ms: int
    protocols: Protocols


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """See above. regex, assignor: None, or "", for none. assigned: what it has. revoking: what it must give away first.
    classic: only of one that speaks the classic protocol."""

    id: str
    epoch: int = JOINING
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str | None = ""
    assignor: str | None = None
    assigned: Epochs = field(default_factory=dict)
    revoking: Epochs = field(default_factory=dict)
    classic: ClassicProtocol | None = None

    def is_reconciled(self, epoch: int) -> bool:
        """Has it the target assignment of that epoch?"""
        return self.state is MemberState.STABLE and self.epoch == epoch

    def epoch_of(self, topic_id: UUID, partition: int) -> int | None:
        """At which epoch it got the partition, which it still has; None where it has not."""
        for epochs in (self.assigned, self.revoking):
            epoch = epochs.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None

    @property
    def protocol_names(self) -> tuple[str, ...]:
        """The classic protocols that it supports."""
        return () if self.classic is None else tuple(name for name, _ in self.classic.protocols)


def with_epoch(partitions: Mapping[UUID, Iterable[int]], epoch: int) -> Epochs:
    """Partitions that a member got at that epoch."""
    return {topic_id: dict.fromkeys(numbers, epoch) for topic_id, numbers in partitions.items()}


def without_epochs(epochs: Epochs) -> Partitions:
    """The partitions alone."""
    return {topic_id: frozenset(numbers) for topic_id, numbers in epochs.items()}
