"""The interface of all types of groups: checks for offsets, and what ListGroups shows. Source: Group."""

from __future__ import annotations

from typing import Protocol

from kcli.group.committed import CommittedOffset
from kcli.group.requests import CommitOffsets


class Group(Protocol):
    """A group of members, or a simple group: a group id with committed offsets and without members."""

    id: str
    type_name: str

    @property
    def state_name(self) -> str:
        """The group's state in ListGroups."""

    @property
    def listed_protocol_type(self) -> str:
        """The group's protocol type in ListGroups, "" for none."""

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""

    def check_commit(self, request: CommitOffsets) -> None:
        """Raises GroupError if the member may not commit these offsets now."""

    def check_delete_offsets(self) -> None:
        """Raises GroupError if OffsetDelete is refused for the whole group."""

    def check_delete(self) -> None:
        """Raises GroupError if DeleteGroups is refused."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member subscribes to the topic, or may subscribe to it because the members' subscriptions are
        unknown."""

    def retention_begins_ms(self, offset: CommittedOffset) -> int | None:
        """Return the time from which the offset's retention is counted, in ms since 1970; None while the offset must
        not expire."""
