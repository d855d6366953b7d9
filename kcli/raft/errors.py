"""How a raft node refuses, and how it fails."""

from __future__ import annotations

from enum import IntEnum

from kcli.errors import KcliError


class ErrorCode(IntEnum):
    """The codes of Kafka's protocol that raft answers with; any other code counts as UNKNOWN_SERVER_ERROR."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    CLUSTER_AUTHORIZATION_FAILED = 31
    UNSUPPORTED_VERSION = 35
    INVALID_REQUEST = 42
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    INVALID_UPDATE_VERSION = 95
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    INCONSISTENT_CLUSTER_ID = 104
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127

    @classmethod
    def _missing_(cls, value: object) -> ErrorCode:  # noqa: ARG003
        return cls.UNKNOWN_SERVER_ERROR


class RaftFault(KcliError):
    """Another node, or this one's disk, contradicts what raft promises: the node must stop, as Kafka's does."""


class NoEpochLeft(RaftFault):
    """The largest epoch is used up: there is no election any more."""

    def __init__(self, epoch: int) -> None:
        super().__init__(f"leader epoch {epoch:,} is the largest there is: no election is possible any more")


class NotLeader(KcliError):
    """Only the leader of the epoch may do that."""


class InvalidUpdateVersion(KcliError):
    """kraft.version cannot be brought to the level wanted."""
