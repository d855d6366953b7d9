"""A member of a consumer group: its subscription, and its progress towards its target assignment.

    state                   member epoch              the member
    STABLE                  the assignment epoch      has its target assignment
    UNREVOKED_PARTITIONS    an older one              has not confirmed yet that it has revoked partitions
    UNRELEASED_PARTITIONS   the assignment epoch      waits for partitions that other members have not revoked yet
    UNKNOWN                                           has a state that a newer version of Kafka wrote

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
"""Epochs in a heartbeat that are no member epochs. JOINING: the member joins. LEAVING: the member leaves.
LEAVING_STATIC: the member leaves, but will rejoin under its instance id."""

Partitions = Mapping[UUID, frozenset[int]]
"""Partitions by topic id."""
Epochs = Mapping[UUID, Mapping[int, int]]
"""Partitions by topic id, each with the member epoch at which it was assigned: commits with older epochs are
refused."""

NO_PARTITIONS: Final[Partitions] = MappingProxyType({})


class MemberState(IntEnum):
    """A member's state, by its number in records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


@dataclass(frozen=True, slots=True)
class ClassicProtocol:
    """The session timeout and the protocols from the JoinGroup of a member that speaks the classic protocol."""

    session_timeout_ms: int
    protocols: Protocols


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """A member of a consumer group.

    topics: names of the topics subscribed to. regex, assignor: None or "" for none. assigned: the partitions that the
    member may own. revoking: the partitions that it must revoke before it gets others. classic: None unless the member
    speaks the classic protocol.
    """

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
        """Whether the member has the target assignment that was made for that assignment epoch."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    def epoch_of(self, topic_id: UUID, partition: int) -> int | None:
        """Return the member epoch at which the partition was assigned to the member; None if the member does not own
        it."""
        for epochs in (self.assigned, self.revoking):
            epoch = epochs.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None

    @property
    def protocol_names(self) -> tuple[str, ...]:
        """The names of the classic protocols that the member supports."""
        return () if self.classic is None else tuple(name for name, _ in self.classic.protocols)


def with_epoch(partitions: Mapping[UUID, Iterable[int]], epoch: int) -> Epochs:
    """Return the partitions, each as assigned at that member epoch."""
    return {topic_id: dict.fromkeys(numbers, epoch) for topic_id, numbers in partitions.items()}


def without_epochs(epochs: Epochs) -> Partitions:
    """Return the partitions without the epochs of their assignment."""
    return {topic_id: frozenset(numbers) for topic_id, numbers in epochs.items()}
