"""A member of a classic group. Source: ClassicGroupMember."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field

from kcli.coordinator.machine import Token
from kcli.group.requests import DescribedMember, Protocols


@dataclass(slots=True, kw_only=True)
class Member:
    """A member of a classic group. join_token, sync_token: the tokens of the member's pending JoinGroup and SyncGroup;
    None if no such request is pending. is_new: whether the member has not yet been part of a generation."""

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    join_token: Token | None = None
    sync_token: Token | None = None
    is_new: bool = False
    names: frozenset[str] = field(init=False, repr=False)
    """The names of the member's protocols."""

    def __post_init__(self) -> None:
        self.support(self.protocols)

    def support(self, protocols: Protocols) -> None:
        """Replace the member's protocols."""
        self.protocols = protocols
        self.names = frozenset(name for name, _ in protocols)

    def metadata(self, protocol: str) -> bytes:
        """The member's metadata for one of its protocols."""
        return next(metadata for name, metadata in self.protocols if name == protocol)

    def vote(self, candidates: Container[str]) -> str:
        """Return the candidate that the member prefers most. candidates: protocols that all members support."""
        return next(name for name, _ in self.protocols if name in candidates)

    def describe(self, protocol: str | None) -> DescribedMember:
        """Return the member as DescribeGroups shows it. protocol: the protocol whose metadata to include, None for no
        metadata."""
        return DescribedMember(
            member_id=self.id,
            instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            metadata=b"" if protocol is None else self.metadata(protocol),
            assignment=self.assignment,
        )
