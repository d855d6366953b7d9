"""Whether the transaction coordinator's records agree with the producers of the partitions in the same log directories.

    transaction-open        a transaction is open in a partition, but the coordinator has no open transaction in it: the
                            transaction hangs (KIP-664)
    transaction-state-end   a partition has a producer epoch or a producer id that no record of the coordinator has yet:
                            __transaction_state is an older copy, or its end is lost

A producer's epoch in a partition is never above the coordinator's, since the coordinator writes each epoch before the
producer uses it. Source: TransactionCoordinator, ProducerStateManager.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from kcli.errors import KcliError
from kcli.inspector.transactions import StatePartition, TransactionFiles
from kcli.log.log_directory import LogDirectory
from kcli.log.partition_view import PartitionView
from kcli.log.recovery.snapshots import wrong_snapshots
from kcli.protocol.topic_partition import TopicPartition
from kcli.txn.records import TOPIC
from kcli.txn.transaction import Transaction
from kcli.views.transactions import Open, Producer, hanging


@dataclass(frozen=True, slots=True)
class Unfit:
    """A contradiction between the coordinator's records and a partition.

    kind: transaction-open or transaction-state-end (see the module). partition: for an open transaction, the partition
    that has it; else the partition of __transaction_state whose records are too old or, if the transactional id is not
    known, the partition with the producer's batches. offset: the first offset of the open transaction; None if the
    coordinator's records are too old. expected, found: what should be there, and what is there, as texts. outcome: what
    Kafka does about it.
    """

    kind: str
    partition: TopicPartition
    producer_id: int
    offset: int | None
    expected: str
    found: str
    outcome: str


def unfit(homes: Sequence[Path], after_start: Mapping[int, StatePartition] | None = None) -> Iterator[Unfit]:
    """Yield the contradictions between the transaction coordinator's records and the partitions in the log directories
    of a broker; none if the directories have no partition of __transaction_state.

    homes: the log directories. after_start: by number, the partitions of __transaction_state that a start changes. If
    some partition is missing or cannot be read, no hanging transaction is yielded, because the records that are missing
    may explain the difference.
    """
    if not after_start and not any(
        each.name.topic == TOPIC and not each.name.state for at in homes for each in LogDirectory(at).partitions()
    ):
        return
    files = TransactionFiles(homes, now_ms=0, warn=lambda _: None, after_start=after_start)
    try:
        found = [each for each in files.producers(files.places(None, None), None) if not isinstance(each, KcliError)]
        known = files.transactions()
        is_whole = not files.trouble
        ongoing = [Open(place, each) for place, producers in found for each in _open(place, producers)]
        hangs = list(hanging(files, ongoing)) if is_whole else []
    except KcliError:
        return
    has_wrong = cache(partial(_has_wrong_snapshot, homes))
    older = _older(
        [each for each in found if _is_odd(each[1], known) and not has_wrong(each[0])],
        known,
        files.state_partitions,
        is_whole=is_whole,
    )
    yield from older
    for place, producer in hangs:
        if has_wrong(place):
            continue
        yield Unfit(
            "transaction-open",
            place,
            producer.producer_id,
            producer.start_offset,
            f"a transaction of producer {producer.producer_id:,} that its coordinator knows, or its end marker",
            f"the transaction is open from offset {producer.start_offset:,} on, and its coordinator has none open here",
            "Kafka starts, nobody ends the transaction, and read_committed consumers stop at that offset",
        )


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
    *,
    is_whole: bool,
) -> Iterator[Unfit]:
    """Yield the contradictions that show that the coordinator's records are older than the partitions: one for each
    transactional id that has a higher epoch in a partition; and, if `is_whole`, at most one for a producer id that no
    record has, whose last batch in a partition is later than every record.

    found: the producers of each partition. known: the transactions by transactional id. partitions: the partition of
    __transaction_state by transactional id. is_whole: whether all of the coordinator's records are known.
    """
    owners = {each.producer_id: (name, each) for name, each in known.items()}
    others = {number for each in known.values() for number in (each.previous_producer_id, each.next_producer_id)}
    newest_ms = max((each.last_update_ms for each in known.values()), default=None)
    told: set[str] = set()
    for place, producers in found:
        for each in producers:
            name, transaction = owners.get(each.producer_id, ("", None))
            is_other = transaction is None and each.producer_id in others
            if each.coordinator_epoch is None or is_other or name in told:
                continue
            if transaction is not None and each.producer_epoch > transaction.producer_epoch:
                told.add(name)
                has = f"the last record of {name} has epoch {transaction.producer_epoch:,}"
                state = TopicPartition(TOPIC, partitions[name])
                yield _of_state(state, each.producer_id, f", epoch {each.producer_epoch:,}", place, has)
            elif transaction is None and is_whole and newest_ms is not None and each.last_timestamp_ms > newest_ms:
                told.add(name)
                has = "no record has that producer, nor is any as new"
                yield _of_state(place, each.producer_id, "", place, has)


def _of_state(state: TopicPartition, producer_id: int, epoch: str, place: TopicPartition, has: str) -> Unfit:
    return Unfit(
        "transaction-state-end",
        state,
        producer_id,
        None,
        f"a record of producer {producer_id:,}{epoch}, which {place} has",
        f"{has}: {TOPIC} is older than the partitions, or its end is lost",
        "Kafka starts, gives out producer epochs again that partitions have, and refuses what these producers send "
        "(OUT_OF_ORDER_SEQUENCE_NUMBER)",
    )
