"""What the transaction coordinator is asked, what it answers, and what it wants done.

Some requests may need a producer id that there is not yet. Then the answer is NEEDS_PRODUCER_ID, nothing has changed,
and the request comes again with one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kcli.txn.errors import ErrorCode
from kcli.txn.transaction import NONE, Partition


class NeedsProducerId:
    """See above."""


NEEDS_PRODUCER_ID: Final = NeedsProducerId()


@dataclass(frozen=True, slots=True)
class InitProducerId:
    """A producer begins. producer_id, producer_epoch: what it had, where it knows (KIP-360)."""

    transactional_id: str
    timeout_ms: int
    producer_id: int = NONE
    producer_epoch: int = NONE
    two_phase_commit: bool = False
    keep_prepared: bool = False
    new_producer_id: int = NONE


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """Partitions become part of the transaction. Answer: an error code. client_version: of transactions."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[Partition]
    client_version: int


@dataclass(frozen=True, slots=True)
class VerifyPartitions:
    """Are they part of the transaction? Answer: an error code by partition."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[Partition]


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """Commit it, or abort it. client_version: of transactions."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    client_version: int
    new_producer_id: int = NONE


@dataclass(frozen=True, slots=True)
class Producer:
    """Answers InitProducerId and EndTransaction: what the producer goes on with."""

    code: ErrorCode
    producer_id: int = NONE
    producer_epoch: int = NONE


@dataclass(frozen=True, slots=True)
class WriteMarkers:
    """A message: end the transaction in its partitions, then send MarkersWritten."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    partitions: tuple[Partition, ...]
    transaction_version: int


@dataclass(frozen=True, slots=True)
class MarkersWritten:
    """All markers of a WriteMarkers are in the logs."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class AbortTimedOut:
    """A message, and the request that follows it: a transaction has taken too long, and a new producer id is needed."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    new_producer_id: int = NONE


@dataclass(frozen=True, slots=True)
class DescribeTransaction:
    """How far has it come?"""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """Answers DescribeTransaction. topics: numbers of partitions."""

    code: ErrorCode = ErrorCode.NONE
    state: str = ""
    timeout_ms: int = 0
    start_ms: int = 0
    producer_id: int = 0
    producer_epoch: int = 0
    topics: Mapping[str, list[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ListTransactions:
    """All transactional ids, or those that all filters let pass; each filter that is empty does. states: as labels,
    those that are not known let nothing pass."""

    states: frozenset[str] = frozenset()
    producer_ids: frozenset[int] = frozenset()
    longer_than_ms: int = NONE


@dataclass(frozen=True, slots=True)
class ListedTransaction:
    """One of the answers to ListTransactions."""

    transactional_id: str
    producer_id: int
    state: str
