"""A member of a classic group. Source: ClassicGroupMember."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from kcli.coordinator import Token
from kcli.group.requests import DescribedMember, Protocols


@dataclass(slots=True, kw_only=True)
class Member:
    """join_token, sync_token: the request that waits for an answer. is_new: it has never been in a generation."""

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

    def metadata(self, protocol: str) -> bytes:
        """What it said under that protocol, one of its own."""
        return next(metadata for name, metadata in self.protocols if name == protocol)

    def vote(self, candidates: Container[str]) -> str:
        """The one that it likes best of protocols that all members have."""
        return next(name for name, _ in self.protocols if name in candidates)

    def describe(self, protocol: str | None) -> DescribedMember:
        """The member as tools show it. protocol: None leaves out its metadata."""
        return DescribedMember(
            member_id=self.id,
            instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            metadata=b"" if protocol is None else self.metadata(protocol),
            assignment=self.assignment,
        )
