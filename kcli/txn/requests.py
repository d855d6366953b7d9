"""The requests to a TransactionMachine, their answers, and its messages to the broker, as plain values.

A request may need a new producer id. The answer to a request that has none is then NEEDS_PRODUCER_ID, and nothing has
changed; the broker repeats the request with `new_producer_id`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicPartition
from kcli.txn.transaction import NONE


class NeedsProducerId:
    """The answer to a request that must be repeated with a new producer id. Its only instance: NEEDS_PRODUCER_ID."""


NEEDS_PRODUCER_ID: Final = NeedsProducerId()


@dataclass(frozen=True, slots=True)
class InitProducerId:
    """InitProducerId of a transactional producer. producer_id, producer_epoch: those that the producer had before, NONE
    if it had none (KIP-360). TransactionMachine answers with a Producer."""

    transactional_id: str
    timeout_ms: int
    producer_id: int = NONE
    producer_epoch: int = NONE
    two_phase_commit: bool = False
    keep_prepared: bool = False
    new_producer_id: int = NONE


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """Add partitions to a transaction. client_version: the transaction version that the client uses. The answer is an
    ErrorCode."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    client_version: int


@dataclass(frozen=True, slots=True)
class VerifyPartitions:
    """Verify that partitions are part of a transaction. The answer is an ErrorCode by partition."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """Commit or abort a transaction. client_version: the transaction version that the client uses. TransactionMachine
    answers with a Producer: the producer id and epoch for the next transaction, or an error."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    client_version: int
    new_producer_id: int = NONE


@dataclass(frozen=True, slots=True)
class Producer:
    """The answer to InitProducerId and EndTransaction: the producer id and epoch for the next transaction, or an
    error."""

    code: ErrorCode
    producer_id: int = NONE
    producer_epoch: int = NONE


@dataclass(frozen=True, slots=True)
class WriteMarkers:
    """A message to the broker: write the transaction's markers to its partitions, then send MarkersWritten back."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    partitions: tuple[TopicPartition, ...]
    transaction_version: int


@dataclass(frozen=True, slots=True)
class MarkersWritten:
    """All markers of a WriteMarkers are written. The answer is None."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class AbortTimedOut:
    """A transaction has exceeded its timeout, and its abort needs a new producer id. The TransactionMachine sends this
    message to the broker, which sends it back as a request, with a new producer id. The answer is None."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    new_producer_id: int = NONE


@dataclass(frozen=True, slots=True)
class DescribeTransaction:
    """Describe a transactional id. The answer is a TransactionDescription."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """The answer to DescribeTransaction. topics: the numbers of the transaction's partitions, by topic name."""

    code: ErrorCode = ErrorCode.NONE
    state: str = ""
    timeout_ms: int = 0
    start_ms: int = 0
    producer_id: int = 0
    producer_epoch: int = 0
    topics: Mapping[str, list[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ListTransactions:
    """List the transactional ids that pass all filters; an empty filter passes all. The answer is a list of
    ListedTransaction.

    states: labels of states; an unknown one passes none. longer_than_ms: the minimum time since the transaction began,
    in ms; negative for none.
    """

    states: frozenset[str] = frozenset()
    producer_ids: frozenset[int] = frozenset()
    longer_than_ms: int = NONE


@dataclass(frozen=True, slots=True)
class ListedTransaction:
    """A transactional id in the answer to ListTransactions. state: the label of its state."""

    transactional_id: str
    producer_id: int
    state: str
