"""The errors that a raft node raises; the error codes of its answers are in kcli.protocol.error_code."""

from __future__ import annotations

from kcli.errors import KcliError


class RaftFault(KcliError):
    """Another node, or the disk of this node, contradicts what raft guarantees: the node must stop, as Kafka's does."""


class NoEpochLeft(RaftFault):
    """The largest epoch is reached: no election is possible any more."""

    def __init__(self, epoch: int) -> None:
        super().__init__(f"leader epoch {epoch:,} is the largest there is: no election is possible any more")


class NotLeader(KcliError):
    """An operation that only the leader of the epoch can carry out; this node is not the leader."""


class InvalidUpdateVersion(KcliError):
    """kraft.version cannot be changed to that level."""
