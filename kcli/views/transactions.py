"""Transactions as commands show them, read from a cluster or from the files of log directories.

    transactional id   its state at the coordinator: producer, state, timeout, the partitions of its transaction
    producer           its state in a partition: epoch, last batch, the first offset of its open transaction

A transaction hangs in a partition if it is open in the partition's log, and no coordinator will end it: its producer
id belongs to no transactional id, or the coordinator's state of that transactional id lacks the partition. Only
transactions older than transaction.max.timeout.ms can hang: the producer of a younger one may still add the partition
at its coordinator.
Names of states are Kafka's own, times are epoch ms. Source: TransactionsCommand in Kafka's tools; KIP-664.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from kcli.errors import KcliError
from kcli.protocol.topic_partition import TopicPartition
from kcli.txn.transaction import BY_LABEL

STATES = tuple(BY_LABEL)

Found = TypeVar("Found")


class NoSuchTransactionalId(KcliError):
    """There is no such transactional id."""

    def __init__(self, transactional_id: str) -> None:
        super().__init__(f"{transactional_id}: TRANSACTIONAL_ID_NOT_FOUND: there is no such transactional id")


@dataclass(frozen=True, slots=True)
class TransactionFilter:
    """Which transactional ids to list; empty sets and None select all. longer_than_ms: list only ids whose transaction
    began more than this many ms ago."""

    states: frozenset[str] = frozenset()
    producer_ids: frozenset[int] = frozenset()
    longer_than_ms: int | None = None


class Listing(NamedTuple):
    """A transactional id in a list. coordinator: the broker id of its coordinator; None if it is not known."""

    transactional_id: str
    coordinator: int | None
    producer_id: int
    state: str


class Transaction(NamedTuple):
    """A transactional id and its transaction. coordinator: the broker id of the coordinator; None if it is not known.
    start_ms: when the latest transaction began, epoch ms; None if no transaction has begun since InitProducerId."""

    transactional_id: str
    coordinator: int | None
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: int | None
    partitions: tuple[TopicPartition, ...]


class Producer(NamedTuple):
    """A producer's state in one partition.

    coordinator_epoch: that of the producer's last transaction marker; last_sequence: that of its last batch;
    start_offset: the first offset of its open transaction. Each is None if the producer has none.
    """

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int | None
    last_sequence: int | None
    last_timestamp_ms: int
    start_offset: int | None


def known(number: int) -> int | None:
    """Return the number; None for -1, Kafka's value for "none" in the fields of a producer."""
    return None if number == -1 else number


class Open(NamedTuple):
    """A transaction that is open in a partition."""

    place: TopicPartition
    producer: Producer


class Source(Protocol):
    """A source of transactions: a cluster or files. What cannot be read is yielded as a KcliError or is in
    `trouble`."""

    @property
    def trouble(self) -> Sequence[str | KcliError]:
        """What could not be read: a text or an error for each damaged record, missing partition and unreadable file."""
        ...

    def unserved(self) -> Sequence[str]:
        """Return a line of text if Kafka does not find some of the transactional ids. Raises KcliError."""
        ...

    def all(self, selection: TransactionFilter) -> Iterator[Listing | KcliError]:
        """Yield the transactional ids that `selection` selects."""
        ...

    def describe(self, transactional_ids: Iterable[str]) -> Iterator[Transaction | KcliError]:
        """Yield the state of each of these transactional ids, in the order given; for an unknown id a
        NoSuchTransactionalId."""
        ...

    def places(self, topic: str | None, broker: int | None) -> list[TopicPartition]:
        """Return the partitions of a topic, or with None of all topics. broker: only partitions with a replica on the
        broker with this id; None for all. Raises KcliError."""
        ...

    def producers(
        self, places: Iterable[TopicPartition], broker: int | None
    ) -> Iterator[tuple[TopicPartition, list[Producer]] | KcliError]:
        """Yield each of these partitions with the producers that its leader knows, or, if `broker` is given, those that
        the replica on this broker knows."""
        ...


def hanging(source: Source, open_for_long: Sequence[Open]) -> Iterator[Open]:
    """Yield the transactions in `open_for_long` that hang, by the definition in the module docstring. Raises
    KcliError if a coordinator does not answer."""
    if not open_for_long:
        return
    producer_ids = frozenset(each.producer.producer_id for each in open_for_long)
    listed = [good(each) for each in source.all(TransactionFilter(producer_ids=producer_ids))]
    owners = {each.producer_id: each.transactional_id for each in listed}
    in_transaction: dict[str, tuple[TopicPartition, ...]] = {}
    for found in source.describe(sorted(owners.values())):
        if not isinstance(found, NoSuchTransactionalId):
            transaction = good(found)
            in_transaction[transaction.transactional_id] = transaction.partitions
    for each in open_for_long:
        owner = owners.get(each.producer.producer_id)
        if owner is None or each.place not in in_transaction.get(owner, ()):
            yield each


def open_for(place: TopicPartition, producers: Iterable[Producer], longer_than_ms: int, now_ms: int) -> Iterator[Open]:
    """Yield the open transactions of a partition whose producer's last batch is older than `longer_than_ms`."""
    for each in producers:
        if each.start_offset is not None and now_ms - each.last_timestamp_ms > longer_than_ms:
            yield Open(place, each)


def good(found: Found | KcliError) -> Found:
    """Return `found`, or raise it if it is an error."""
    if isinstance(found, KcliError):
        raise found
    return found
