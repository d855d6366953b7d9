"""Groups whose members speak another protocol: share, streams. They are left as they are.

Their names are taken, they are listed, and their offsets can be fetched; nobody joins, commits or deletes, and nothing
expires. A group is one of these from its first record, its own or a member's, until the tombstone of its own.
"""

from __future__ import annotations

from typing import Any, Final

from kcli.group.committed import CommittedOffset
from kcli.group.errors import ErrorCode, GroupError
from kcli.group.requests import CommitOffsets

GROUP_RECORDS: Final = {f"{name}GroupMetadataKey": name.lower() for name in ("Share", "Streams")}
MEMBER_RECORDS: Final = {f"{name}GroupMemberMetadataKey": name.lower() for name in ("Share", "Streams")}
"""Keys of the records that make a group, and its type."""


class ForeignGroup:
    """See above."""

    def __init__(self, group_id: str, type_name: str) -> None:
        self.id = group_id
        self.type_name = type_name
        self.members: set[str] = set()

    def replay_member(self, member_id: str, value: dict[str, Any] | None) -> None:
        """A member's record, or its tombstone."""
        if value is None:
            self.members.discard(member_id)
        else:
            self.members.add(member_id)

    @property
    def state_name(self) -> str:
        """As lists show it."""
        return "Stable" if self.members else "Empty"

    @property
    def listed_protocol_type(self) -> str:
        """As lists show it."""
        return self.type_name

    @property
    def is_empty(self) -> bool:
        """Never, as far as others are concerned."""
        return False

    def check_commit(self, request: CommitOffsets) -> None:  # noqa: ARG002
        """Only members commit, and they have to join first."""
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)

    def check_delete_offsets(self) -> None:
        """Never."""
        raise GroupError(ErrorCode.NON_EMPTY_GROUP)

    def check_delete(self) -> None:
        """Never."""
        raise GroupError(ErrorCode.NON_EMPTY_GROUP)

    def is_subscribed_to(self, topic: str) -> bool:  # noqa: ARG002
        """Any topic may be read."""
        return True

    def retention_begins_ms(self, offset: CommittedOffset) -> int | None:  # noqa: ARG002
        """Never."""
        return None
