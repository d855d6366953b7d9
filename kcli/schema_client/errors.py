"""Errors of schemas and registries. A key or value that does not decode raises none of these."""

from __future__ import annotations

from kcli.errors import KcliError


class SchemaError(KcliError):
    """A schema cannot be read, is not well formed, or does not fit another schema of the same column."""

    exit_status = 2


class RegistryError(KcliError):
    """A schema registry does not answer, or answers with an error.

    status: the HTTP status, None without an answer. code, reason: the `error_code` and the `message` of the answer; 0
    and "" if it has none.
    """

    exit_status = 2

    def __init__(self, message: str, status: int | None = None, code: int = 0, reason: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.reason = reason
