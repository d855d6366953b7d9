"""Transactions as people are shown them, whoever tells of them: a cluster, or the files of log directories.

    transactional id   what its coordinator knows: producer, state, timeout, the partitions of its transaction
    producer           what a partition knows of it: epoch, last batch, where its open transaction begins

A transaction hangs in a partition where it is open and no coordinator will end it there: its producer id belongs to no
transactional id, or the partition is not in the transaction of that id. Only those are looked at whose last record is
older than any transaction may be: younger ones may be about to be told to their coordinator. Names of states are
Kafka's own, times milliseconds since 1970. Source: TransactionsCommand in Kafka's tools; KIP-664.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from kcli.errors import KcliError
from kcli.group_view import Place
from kcli.txn.transaction import BY_LABEL

STATES = tuple(BY_LABEL)

Found = TypeVar("Found")


class NoSuchTransactionalId(KcliError):
    """There is no such transactional id."""

    def __init__(self, transactional_id: str) -> None:
        super().__init__(f"{transactional_id}: TRANSACTIONAL_ID_NOT_FOUND: there is no such transactional id")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which transactional ids are to be listed: empty and None stand for all. longer_than_ms: open for so long."""

    states: frozenset[str] = frozenset()
    producer_ids: frozenset[int] = frozenset()
    longer_than_ms: int | None = None


class Listing(NamedTuple):
    """A transactional id in a list. coordinator: a broker's id, None where it is not known."""

    transactional_id: str
    coordinator: int | None
    producer_id: int
    state: str


class Transaction(NamedTuple):
    """A transactional id. start_ms: of its last transaction, None where there was none since its producer began."""

    transactional_id: str
    coordinator: int | None
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: int | None
    partitions: tuple[Place, ...]


class Producer(NamedTuple):
    """A producer in one partition. None: there was no marker, no batch, no transaction is open."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int | None
    last_sequence: int | None
    last_timestamp_ms: int
    start_offset: int | None


def known(number: int) -> int | None:
    """A field of a Producer from Kafka's, which has -1 for what there is not."""
    return None if number == -1 else number


class Open(NamedTuple):
    """A transaction that is open in a partition."""

    place: Place
    producer: Producer


class Source(Protocol):
    """Who tells of transactions. What could not be told is yielded as KcliError, or is a line of `trouble`."""

    @property
    def trouble(self) -> Sequence[str | KcliError]:
        """What could not be read, a line each."""
        ...

    def all(self, wanted: Wanted) -> Iterator[Listing | KcliError]:
        """Transactional ids, by name."""
        ...

    def describe(self, transactional_ids: Iterable[str]) -> Iterator[Transaction | KcliError]:
        """Transactional ids, in the order given."""
        ...

    def places(self, topic: str | None, broker: int | None) -> list[Place]:
        """The partitions of a topic, or all; with a broker, those that it has replicas of. Raises KcliError."""
        ...

    def producers(
        self, places: Iterable[Place], broker: int | None
    ) -> Iterator[tuple[Place, list[Producer]] | KcliError]:
        """The producers that partitions know: their leaders, or a broker's replicas."""
        ...


def hanging(source: Source, open_for_long: Sequence[Open]) -> Iterator[Open]:
    """Which of these transactions hang. Raises KcliError where a coordinator does not tell: nobody knows then."""
    if not open_for_long:
        return
    producer_ids = frozenset(each.producer.producer_id for each in open_for_long)
    listed = [good(each) for each in source.all(Wanted(producer_ids=producer_ids))]
    owners = {each.producer_id: each.transactional_id for each in listed}
    in_transaction: dict[str, tuple[Place, ...]] = {}
    for found in source.describe(sorted(owners.values())):
        if not isinstance(found, NoSuchTransactionalId):
            told = good(found)
            in_transaction[told.transactional_id] = told.partitions
    for each in open_for_long:
        owner = owners.get(each.producer.producer_id)
        if owner is None or each.place not in in_transaction.get(owner, ()):
            yield each


def open_for(place: Place, producers: Iterable[Producer], longer_than_ms: int, now_ms: int) -> Iterator[Open]:
    """The open transactions of a partition that have not grown for so long."""
    for each in producers:
        if each.start_offset is not None and now_ms - each.last_timestamp_ms > longer_than_ms:
            yield Open(place, each)


def good(found: Found | KcliError) -> Found:
    """What was found. Raises what was not."""
    if isinstance(found, KcliError):
        raise found
    return found
