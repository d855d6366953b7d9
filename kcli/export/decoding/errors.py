"""The errors raised if no decoder can be made. A payload that does not decode raises no error, but has a reason
(text)."""

from __future__ import annotations

from kcli.errors import KcliError


class SchemaError(KcliError):
    """A schema cannot be read, is not well formed, or does not fit another schema of the same column."""

    exit_status = 2


class RegistryError(KcliError):
    """A schema registry does not answer, or answers with an error.

    status: the HTTP status, None without an answer.
    """

    exit_status = 2

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
