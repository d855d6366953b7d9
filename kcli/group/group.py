"""What all kinds of groups have in common: committed offsets, and a place in lists. Source: Group."""

from __future__ import annotations

from typing import Protocol

from kcli.group.committed import CommittedOffset
from kcli.group.requests import CommitOffsets


class Group(Protocol):
    """A group of consumers, or a name under which offsets are committed."""

    id: str
    type_name: str

    @property
    def state_name(self) -> str:
        """As lists show it."""

    @property
    def listed_protocol_type(self) -> str:
        """As lists show it, "" for none."""

    @property
    def is_empty(self) -> bool:
        """Has it no members?"""

    def check_commit(self, request: CommitOffsets) -> None:
        """May this member commit now? Raises GroupError."""

    def check_delete_offsets(self) -> None:
        """May offsets be deleted? Raises GroupError."""

    def check_delete(self) -> None:
        """May the group be deleted? Raises GroupError."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Does a member read that topic, or may it?"""

    def retention_begins_ms(self, offset: CommittedOffset) -> int | None:
        """From when on an offset's retention counts; None while it does not."""
