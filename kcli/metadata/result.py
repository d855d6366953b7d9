"""What a controller's function gives back, and how it refuses."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, Generic, NamedTuple, TypeVar

from kcli.metadata.image import Record

RECORDS_PER_REQUEST_MAX: Final = 10_000
"""What one request of a client may write to the metadata log."""
TOO_MANY_RECORDS: Final = "Unable to perform excessively large batch operation."

T = TypeVar("T")


class ErrorCode(IntEnum):
    """The codes of Kafka's protocol that a controller answers with."""

    NONE = 0
    UNKNOWN_TOPIC_OR_PARTITION = 3
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    INVALID_TOPIC_EXCEPTION = 17
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    POLICY_VIOLATION = 44
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    STALE_BROKER_EPOCH = 77
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    THROTTLING_QUOTA_EXCEEDED = 89
    INVALID_UPDATE_VERSION = 95
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_CLUSTER_ID = 104
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    INVALID_REGISTRATION = 119
    UNKNOWN_SERVER_ERROR = -1


class Error(NamedTuple):
    """An error as it is answered; no message where Kafka sends none."""

    code: ErrorCode
    message: str | None = None


NO_ERROR = Error(ErrorCode.NONE)


class Refused(Exception):
    """A request, or the part of it at hand, is refused."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message)
        self.error = Error(code, message)


class Result(NamedTuple, Generic[T]):
    """The records to commit as one batch, and what to answer once they are committed."""

    records: list[Record]
    response: T
