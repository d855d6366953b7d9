"""Whether the transaction coordinator's records agree with the producers of the partitions in the same log directories.

    transaction-open        a transaction is open in a partition, but the coordinator has no open transaction in it: the
                            transaction hangs (KIP-664)
    transaction-state-end   a partition has a producer epoch or a producer id that no record of the coordinator has yet:
                            __transaction_state is an older copy, or its end is lost

A producer's epoch in a partition is never above the coordinator's, since the coordinator writes each epoch before the
producer uses it. If the coordinator has lost epochs, InitProducerId gives out an epoch for the second time: the one
after the last that the coordinator still has. What then happens depends on the producer's last epoch in the partition:

    above the given epoch   Produce is refused with INVALID_PRODUCER_EPOCH. So is the end marker of a transaction that
                            the coordinator has open or prepared: InitProducerId is answered CONCURRENT_TRANSACTIONS
                            for ever. Kafka sends the marker of a prepared transaction when it loads the record, and
                            skips it if the partition has no leader at that moment: on a node that is started after a
                            crash, its former session's end takes the leaders away. Which comes first is a race
    the given epoch, in     Produce is refused with OUT_OF_ORDER_SEQUENCE_NUMBER; or the new batch has the sequences of
    a batch                 an earlier one, and is answered as its duplicate, without an append: the records are lost
    the given epoch, in an  Produce succeeds: no batch of that epoch has a sequence
    end marker (KIP-890)

A partition forgets a producer that has no transaction open, producer.id.expiration.ms (a day) after its last batch or
marker. It then accepts every epoch, and nothing is refused, although the coordinator's records are lost.

A coordinator's record with the partition's epoch repairs this (`Unfit.mended`): InitProducerId then gives out an epoch
above all that partitions have.
Source: TransactionCoordinator, ProducerStateManager, ProducerAppendInfo.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import NamedTuple

from kcli.errors import KcliError
from kcli.inspector.transactions import StatePartition, TransactionFiles
from kcli.log.log_directory import LogDirectory
from kcli.log.partition_view import PartitionView
from kcli.log.producer_state import DEFAULT_EXPIRATION_MS
from kcli.log.recovery.snapshots import wrong_snapshots
from kcli.printable import names_text
from kcli.protocol.topic_partition import TopicPartition
from kcli.txn.records import TOPIC
from kcli.txn.transaction import NONE, State, Transaction, bumps_epoch
from kcli.views.transactions import Open, Producer, hanging

PLACES_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Unfit:
    """A contradiction between the coordinator's records and a partition.

    kind: transaction-open or transaction-state-end (see the module). partition: for an open transaction, the partition
    that has it; else the partition of __transaction_state whose records are too old or, if the transactional id is not
    known, the partition with the producer's batches. offset: the first offset of the open transaction; None if the
    coordinator's records are too old. expected, found: what should be there, and what is there, as texts. outcome: what
    Kafka does about it.

    place: the partition with the producer's batches. The rest is known if the coordinator has a record of the producer
    that is too old. transactional_id: that of the producer. coordinator_epoch, producer_epoch: its epoch in the record
    and in `place`. error: Kafka's name of the error that the producer gets; empty if partitions have forgotten the
    producer, so that it goes on. mended: the state with which the
    transactional id goes on; None if the decision about an open transaction is lost.
    """

    kind: str
    partition: TopicPartition
    producer_id: int
    offset: int | None
    expected: str
    found: str
    outcome: str
    place: TopicPartition
    transactional_id: str = ""
    coordinator_epoch: int = NONE
    producer_epoch: int = NONE
    error: str = ""
    mended: Transaction | None = None


class EndedAgain(NamedTuple):
    """A transaction that has ended, and that the coordinator ends again after a start, as its last records are lost.
    partition: that of __transaction_state. state: that in the last record. places: the partitions that get a second
    end marker."""

    partition: TopicPartition
    transactional_id: str
    producer_id: int
    state: State
    places: Sequence[TopicPartition]


class _Read(NamedTuple):
    """The content of a broker's log directories. files: the transactions in them. producers: the producers of each
    partition. known: the coordinator's transactions by transactional id."""

    files: TransactionFiles
    producers: list[tuple[TopicPartition, list[Producer]]]
    known: Mapping[str, Transaction]


class CoordinatorCheck:
    """Compares the transaction coordinator's records with the partitions in the log directories of a broker; the files
    are read at the first use.

    homes: the log directories. after_start: by number, the partitions of __transaction_state that a start changes.
    now_ms: the time of the start; None: now. expiration_ms: producer.id.expiration.ms.
    """

    def __init__(
        self,
        homes: Sequence[Path],
        after_start: Mapping[int, StatePartition] | None = None,
        now_ms: int | None = None,
        expiration_ms: int = DEFAULT_EXPIRATION_MS,
    ) -> None:
        self._homes, self._after_start = homes, after_start
        self._expired_ms = (time.time_ns() // 1_000_000 if now_ms is None else now_ms) - expiration_ms

    @cached_property
    def _read(self) -> _Read | None:
        """The content of the directories; None if they have no partition of __transaction_state, or if it cannot be
        read."""
        if not self._after_start and not any(
            each.name.topic == TOPIC and not each.name.state
            for at in self._homes
            for each in LogDirectory(at).partitions()
        ):
            return None
        files = TransactionFiles(self._homes, now_ms=0, warn=lambda _: None, after_start=self._after_start)
        try:
            found = files.producers(files.places(None, None), None)
            return _Read(files, [each for each in found if not isinstance(each, KcliError)], files.transactions())
        except KcliError:
            return None

    def unfit(self, left_out: Collection[str] = ()) -> Iterator[Unfit]:
        """Yield the contradictions between the records and the partitions.

        left_out: the partitions, by directory name, whose batches are no evidence, since the start removes some of
        them. If some partition is missing or cannot be read, no hanging transaction is yielded, because the records
        that are missing may explain the difference.
        """
        if self._read is None:
            return
        files, found, known = self._read
        is_whole = not files.trouble
        ongoing = [Open(place, each) for place, producers in found for each in _open(place, producers)]
        try:
            hangs = list(hanging(files, ongoing)) if is_whole else []
        except KcliError:
            return
        has_wrong = cache(partial(_has_wrong_snapshot, self._homes))
        sound = [
            (place, producers)
            for place, producers in found
            if str(place) not in left_out and not (_is_odd(producers, known) and has_wrong(place))
        ]
        yield from _older(sound, known, files.state_partitions, self._expired_ms)
        if is_whole:
            yield from _unknown(sound, known)
        for place, producer in hangs:
            if has_wrong(place):
                continue
            yield Unfit(
                "transaction-open",
                place,
                producer.producer_id,
                producer.start_offset,
                f"a transaction of producer {producer.producer_id:,} that its coordinator knows, or its end marker",
                f"the transaction is open from offset {producer.start_offset:,} on, and its coordinator has none open "
                "here",
                "Kafka starts, nobody ends the transaction, and read_committed consumers stop at that offset",
                place,
            )

    def ended(self) -> dict[tuple[int, str], dict[str, str]]:
        """Return the transactions that the coordinator has open, and therefore ends after a start: the transactional id
        and the name of the state, by producer id and name of a partition's directory. Where the coordinator has lost
        epochs, the partitions that refuse the end marker are left out."""
        if self._read is None:
            return {}
        return {
            (each.producer_id, str(place)): {"transactional_id": name, "state": each.state.label}
            for name, each in self._read.known.items()
            for place in each.partitions
            if each.state.is_open and (each.producer_id, str(place)) not in self._refusing
        }

    def ended_again(self) -> Iterator[EndedAgain]:
        """Yield the transactions that the coordinator has open, by a record in one of `after_start`, and that have
        ended in partitions: after a start the coordinator ends them there for the second time."""
        if self._read is None:
            return
        files, found, known = self._read
        open_in = {(each.producer_id, str(place)) for place, producers in found for each in _open(place, producers)}
        for name, each in sorted(known.items()):
            number = files.state_partitions[name]
            if not each.state.is_open or number not in (self._after_start or ()):
                continue
            places = [place for place in each.partitions if (each.producer_id, str(place)) not in open_in]
            places = sorted(place for place in places if (each.producer_id, str(place)) not in self._refusing)
            if places:
                yield EndedAgain(TopicPartition(TOPIC, number), name, each.producer_id, each.state, places)

    @cached_property
    def _refusing(self) -> Collection[tuple[int, str]]:
        """The producer ids, each with the name of a partition's directory, of which the partition refuses the end
        marker, as the coordinator has lost epochs."""
        if self._read is None:
            return ()
        _, found, known = self._read
        epochs = {each.producer_id: _marker_epoch(each) for each in known.values()}
        return {
            (each.producer_id, str(place))
            for place, producers in found
            for each in producers
            if each.coordinator_epoch is not None
            and each.producer_epoch > epochs.get(each.producer_id, each.producer_epoch)
            and (each.start_offset is not None or each.last_timestamp_ms > self._expired_ms)
        }


def unfit(
    homes: Sequence[Path],
    after_start: Mapping[int, StatePartition] | None = None,
    now_ms: int | None = None,
    expiration_ms: int = DEFAULT_EXPIRATION_MS,
) -> Iterator[Unfit]:
    """Yield the contradictions that CoordinatorCheck.unfit yields."""
    return CoordinatorCheck(homes, after_start, now_ms, expiration_ms).unfit()


def _has_wrong_snapshot(homes: Iterable[Path], place: TopicPartition) -> bool:
    """Whether a partition's log contradicts one of its producer snapshots, so that the producers taken from the
    snapshot may be wrong; True if the files cannot be read. homes: the log directories."""
    directories = [each / str(place) for each in homes if (each / str(place)).is_dir()]
    try:
        return any(wrong_snapshots(PartitionView(each)) for each in directories)
    except KcliError:
        return True


def _is_odd(producers: Iterable[Producer], known: Mapping[str, Transaction]) -> bool:
    """Whether one of a partition's transactional producers has an id or epoch that none of the transactions `known` to
    the coordinator has."""
    epochs = {(each.producer_id, each.producer_epoch) for each in known.values()}
    return any(
        each.coordinator_epoch is not None and (each.producer_id, each.producer_epoch) not in epochs
        for each in producers
    )


def _open(place: TopicPartition, producers: Iterable[Producer]) -> Iterator[Producer]:
    return (each for each in producers if each.start_offset is not None and place.topic != TOPIC)


def _older(
    found: Iterable[tuple[TopicPartition, list[Producer]]],
    known: Mapping[str, Transaction],
    partitions: Mapping[str, int],
    expired_ms: int,
) -> Iterator[Unfit]:
    """Yield a contradiction for each transactional id that has a higher epoch in a partition than in its record.

    found: the producers of each partition. known: the transactions by transactional id. partitions: the partition of
    __transaction_state by transactional id. expired_ms: the time up to which the producers' last batches have expired.
    """
    owners = {each.producer_id: name for name, each in known.items()}
    of_name: dict[str, list[tuple[TopicPartition, Producer]]] = {}
    for place, producers in found:
        for each in producers:
            if each.coordinator_epoch is not None and each.producer_id in owners:
                of_name.setdefault(owners[each.producer_id], []).append((place, each))
    for name, batches in of_name.items():
        transaction = known[name]
        place, newest = _newest(batches)
        if newest.producer_epoch <= transaction.producer_epoch or transaction.epochs_are_used_up:
            continue
        told = _outcome(transaction, batches)
        if told is None:
            continue
        remembered = [
            (place, each)
            for place, each in batches
            if each.start_offset is not None or each.last_timestamp_ms > expired_ms
        ]
        error, outcome = _outcome(transaction, remembered) or ("", GOES_ON)
        yield Unfit(
            "transaction-state-end",
            TopicPartition(TOPIC, partitions[name]),
            newest.producer_id,
            None,
            f"a record of producer {newest.producer_id:,}, epoch {newest.producer_epoch:,}, which {place} has",
            f"the last record of {name} has epoch {transaction.producer_epoch:,}: {TOPIC} is older than the "
            "partitions, or its end is lost",
            outcome,
            place,
            name,
            transaction.producer_epoch,
            newest.producer_epoch,
            error,
            _mended(transaction, newest, batches) if error else None,
        )


GOES_ON = (
    "Kafka starts, and the producer goes on, as its last batch is so old (producer.id.expiration.ms) that partitions "
    "have forgotten its epochs"
)


def _newest(batches: Iterable[tuple[TopicPartition, Producer]]) -> tuple[TopicPartition, Producer]:
    """Return the producer with the highest epoch, and its partition; of equal ones, one that has a sequence."""
    return max(batches, key=lambda each: (each[1].producer_epoch, each[1].last_sequence is not None))


def _outcome(transaction: Transaction, batches: Sequence[tuple[TopicPartition, Producer]]) -> tuple[str, str] | None:
    """Return the error that the producer of a transactional id gets after a start, and what Kafka does, in words; None
    if the producer can continue. transaction: the state in its last record. batches: the producer in the partitions
    that have its epochs."""
    if not batches:
        return None
    place, newest = _newest(batches)
    epoch = _marker_epoch(transaction)
    ahead = (other for other, each in batches if other in transaction.partitions and each.producer_epoch > epoch)
    refusing = next(ahead, None)  # its end marker has this epoch
    if transaction.state.is_open and refusing is not None:
        hangs = (
            f"Kafka starts, and {refusing} refuses the end marker of the transaction that the record has open: "
            "initTransactions fails with TimeoutException (CONCURRENT_TRANSACTIONS) for ever"
        )
        if transaction.state is State.ONGOING:
            return "CONCURRENT_TRANSACTIONS", hangs
        return "CONCURRENT_TRANSACTIONS", (
            f"{hangs}; or Kafka skips the marker (the partition has no leader when the broker's former session ends), "
            f"gives the producer epoch {epoch + 1:,}, and refuses what it sends: InvalidProducerEpochException"
        )
    epoch += 1
    gets = f"Kafka starts, gives the producer epoch {epoch:,}"
    if epoch < newest.producer_epoch:
        places = names_text(sorted(str(other) for other, each in batches if each.producer_epoch > epoch), PLACES_SHOWN)
        refused = f"{gets}, and refuses what it sends to {places}: InvalidProducerEpochException"
        if bumps_epoch(transaction.client_version):
            return "INVALID_PRODUCER_EPOCH", f"{refused}, until its epoch is {newest.producer_epoch:,} again"
        return "INVALID_PRODUCER_EPOCH", f"{refused}, and then TimeoutException of initTransactions for ever"
    if epoch > newest.producer_epoch or newest.last_sequence is None:
        return None
    return "OUT_OF_ORDER_SEQUENCE_NUMBER", (
        f"{gets} again, and refuses what it sends to {place} (OutOfOrderSequenceException), or takes it for a batch "
        "that it has, and loses it without an error"
    )


def _marker_epoch(transaction: Transaction) -> int:
    """Return the epoch of the markers with which the coordinator ends a transaction. To end an ongoing one, it first
    writes a record with the next epoch."""
    return transaction.producer_epoch + (transaction.state is State.ONGOING)


def _mended(
    transaction: Transaction, newest: Producer, batches: Iterable[tuple[TopicPartition, Producer]]
) -> Transaction | None:
    """Return the state that replaces the lost last records of a transactional id, so that its producer can continue. It
    has the producer's highest epoch in the partitions, and is Ongoing if they have an open transaction, which the
    coordinator then aborts; else Empty. Return None if the open transaction has a lower epoch: its end was decided, but
    no file says how. Return None also if the last record announces another producer id (next_producer_id).

    newest: the producer with the highest epoch. batches: the producer in all partitions.
    """
    ongoing = [(place, each) for place, each in batches if each.start_offset is not None]
    if transaction.next_producer_id != NONE or any(each.producer_epoch < newest.producer_epoch for _, each in ongoing):
        return None
    updated_ms = max(transaction.last_update_ms, newest.last_timestamp_ms)
    return transaction._replace(
        producer_epoch=newest.producer_epoch,
        last_producer_epoch=NONE,
        state=State.ONGOING if ongoing else State.EMPTY,
        partitions=frozenset(place for place, _ in ongoing),
        start_ms=updated_ms if ongoing else NONE,
        last_update_ms=updated_ms,
    )


def _unknown(
    found: Iterable[tuple[TopicPartition, list[Producer]]], known: Mapping[str, Transaction]
) -> Iterator[Unfit]:
    """Yield at most one contradiction: a producer id that no record has, whose last batch in a partition is later than
    every record. Call this only if all records of the coordinator are known. found, known: see `_older`."""
    ids = {each.producer_id for each in known.values()}
    ids |= {number for each in known.values() for number in (each.previous_producer_id, each.next_producer_id)}
    newest_ms = max((each.last_update_ms for each in known.values()), default=2**63 - 1)
    for place, producers in found:
        for each in producers:
            is_unknown = each.coordinator_epoch is not None and each.producer_id not in ids
            if is_unknown and each.last_timestamp_ms > newest_ms:
                yield Unfit(
                    "transaction-state-end",
                    place,
                    each.producer_id,
                    None,
                    f"a record of producer {each.producer_id:,}, which {place} has",
                    f"no record has that producer, nor is any as new: {TOPIC} is older than the partitions, or its end "
                    "is lost",
                    "Kafka starts, and refuses this producer (INVALID_PRODUCER_ID_MAPPING) until it calls "
                    "initTransactions, which gives it a new producer id",
                    place,
                )
                return
