"""What stops a decoder from being made. What stops one record from being decoded is a text beside that record."""

from __future__ import annotations

from kcli.errors import KcliError


class SchemaError(KcliError):
    """A schema that cannot be read, is not well formed, or does not fit another one."""

    exit_status = 2


class RegistryError(KcliError):
    """A schema registry that does not answer, or answers with an error.

    status: of HTTP; None where there was no answer.
    """

    exit_status = 2

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
