"""The results of the controller's functions: records with an answer, or an error."""

from __future__ import annotations

from typing import Final, Generic, NamedTuple, TypeVar

from kcli.metadata.image import Record
from kcli.protocol.error_code import ErrorCode

RECORDS_PER_REQUEST_MAX: Final = 10_000
"""The largest number of records that one client request may append to the metadata log."""
TOO_MANY_RECORDS: Final = "Unable to perform excessively large batch operation."

T = TypeVar("T")


class Error(NamedTuple):
    """An error in an answer. message: None if Kafka sends none."""

    code: ErrorCode
    message: str | None = None


NO_ERROR = Error(ErrorCode.NONE)


class Refused(Exception):
    """The controller refuses a request, or one item of it, with this error."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message)
        self.error = Error(code, message)


class Result(NamedTuple, Generic[T]):
    """The records to commit as one batch, and the answer to send once they are committed."""

    records: list[Record]
    response: T
