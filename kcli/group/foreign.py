"""Share groups and streams groups, whose protocols this coordinator does not serve. It leaves them unchanged.

No other group can have their ids. ListGroups lists them and OffsetFetch reads their offsets; JoinGroup, OffsetCommit,
OffsetDelete and DeleteGroups are refused, and their offsets do not expire. Such a group exists from its first group
record or member record in the log until the tombstone of its group record.
"""

from __future__ import annotations

from typing import Any, Final

from kcli.group.committed import CommittedOffset
from kcli.group.errors import GroupError
from kcli.group.requests import CommitOffsets
from kcli.protocol.error_code import ErrorCode

GROUP_RECORDS: Final = {f"{name}GroupMetadataKey": name.lower() for name in ("Share", "Streams")}
MEMBER_RECORDS: Final = {f"{name}GroupMemberMetadataKey": name.lower() for name in ("Share", "Streams")}
"""Group type by the name of the record key: GROUP_RECORDS of groups, MEMBER_RECORDS of their members."""


class ForeignGroup:
    """A share group or a streams group. type_name: "share" or "streams"."""

    def __init__(self, group_id: str, type_name: str) -> None:
        self.id = group_id
        self.type_name = type_name
        self.members: set[str] = set()

    def replay_member(self, member_id: str, value: dict[str, Any] | None) -> None:
        """Apply a member's record. value: None for a tombstone."""
        if value is None:
            self.members.discard(member_id)
        else:
            self.members.add(member_id)

    @property
    def state_name(self) -> str:
        """The group's state in ListGroups."""
        return "Stable" if self.members else "Empty"

    @property
    def listed_protocol_type(self) -> str:
        """The group's protocol type in ListGroups."""
        return self.type_name

    @property
    def is_empty(self) -> bool:
        """Always False: the coordinator treats these groups as having members, so that it never deletes them."""
        return False

    def check_commit(self, request: CommitOffsets) -> None:  # noqa: ARG002 (the signature of the other groups)
        """Raise GroupError UNKNOWN_MEMBER_ID: only members may commit, and this broker has no members of such a
        group."""
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)

    def check_delete_offsets(self) -> None:
        """Raise GroupError NON_EMPTY_GROUP."""
        raise GroupError(ErrorCode.NON_EMPTY_GROUP)

    def check_delete(self) -> None:
        """Raise GroupError NON_EMPTY_GROUP."""
        raise GroupError(ErrorCode.NON_EMPTY_GROUP)

    def is_subscribed_to(self, topic: str) -> bool:  # noqa: ARG002 (the signature of the other groups)
        """Always True: the members' subscriptions are unknown, so any topic may be subscribed to."""
        return True

    def retention_begins_ms(self, offset: CommittedOffset) -> int | None:  # noqa: ARG002 (the signature of the other groups)
        """Return None: offsets of these groups do not expire."""
        return None
