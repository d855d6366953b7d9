"""The exception of a group coordinator that refuses a request."""

from __future__ import annotations

from kcli.protocol.error_code import ErrorCode


class GroupError(Exception):
    """The coordinator refuses the whole request with this error code. message: the error message for the answer, None
    if the answer has none."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or code.name)
        self.code, self.message = code, message


def not_found(group_id: str) -> GroupError:
    """Return the error GROUP_ID_NOT_FOUND for a group that does not exist."""
    return GroupError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
