"""Producer snapshots against the log: whether the entries of a snapshot can be the state of the log's producers.

A snapshot of another partition, or of an older log, is sound in itself. Kafka loads it at a clean start, and does not
compare it with the log: transactions that are open in the snapshot hold the last stable offset back, and producers
whose epochs and sequences do not match the snapshot are refused. A snapshot contradicts the batches below its offset if
it has

    a producer that has no batch in the log, though no batch is missing that the producer may have sent
    an entry with another epoch, sequence, offset or timestamp than the producer's last batch
    an entry with an epoch or offset below that of a batch of the producer; this counts even if batches are missing
    an open transaction that, by the log, has ended or never began; or none although the log has an open one
    an offset that is not below the snapshot's
    no entry for a producer whose last batch is later than that of a producer with an entry, by offset and timestamp

Kafka forgets a producer producer.id.expiration.ms after the timestamp of its last batch; producers whose timestamps are
lower are then forgotten, too, except those with an open transaction. Source: ProducerStateManager, ProducerStateEntry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from formats.kernels.log_check import LogCheck
from formats.producer_snapshot import ProducerEntry


class Contradiction(NamedTuple):
    """What the log says (expected) and what the snapshot says (found), in words. number: the index of the snapshot's
    entry; None if the snapshot lacks an entry."""

    number: int | None
    expected: str
    found: str


def contradictions(
    entries: Sequence[ProducerEntry],
    offset: int,
    check: LogCheck,
    first_base: int = 0,
    is_missing: Callable[[int], bool] = lambda _: False,
) -> Iterator[Contradiction]:
    """Yield the contradictions between a snapshot and the batches below its offset.

    offset: the one in the snapshot's name. check: has checked the log up to that offset. first_base: the base offset of
    the log's first segment. is_missing(offset): whether no batch of the log has the offset. An entry that is newer than
    its producer's last batch in the log is no contradiction if the batch that the entry describes is missing, and the
    entry has no open transaction.
    """
    is_reached = check.next_offset == offset  # if not, batches are missing below the snapshot's offset
    transactions = dict(check.open_transactions()) if is_reached else {}
    for number, entry in enumerate(entries):
        begun = transactions.pop(entry.producer_id, None)
        wrong = _beyond(entry, offset) or _fallen(entry, check, offset)
        if wrong is None and is_reached:
            wrong = _unknown(entry, check, first_base) or _different(entry, check, begun)
            if wrong is not None and begun is None and _is_newer(entry, check) and is_missing(entry.last_offset):
                wrong = None
        if wrong is not None:
            yield Contradiction(number, *wrong)
    for producer_id, first in transactions.items():
        expected = f"producer {producer_id:,}, whose transaction is open from offset {first:,} on in the log"
        yield Contradiction(None, expected, "no entry")
    if is_reached:
        for producer_id in sorted(_not_forgotten(entries, check) - transactions.keys()):
            expected = f"producer {producer_id:,}, with later batches in the log than a producer that has an entry"
            yield Contradiction(None, expected, "no entry")


def lacking_transactions(
    known: Iterable[tuple[int, int]], transactions: Iterable[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return those of `transactions`, open in a log, that are not open in a producer state, or only from a later offset
    on. known: the transactions that are open in the producer state; each is (producer id, first offset)."""
    opened = dict(known)
    return [(producer_id, first) for producer_id, first in transactions if _lacks(opened.get(producer_id, -1), first)]


def _lacks(first_offset: int, begun: int) -> bool:
    """Return whether a producer state lacks a transaction that is open in the log from `begun` on. first_offset: that
    of the producer's open transaction in the state; -1 if none is open."""
    return not 0 <= first_offset <= begun


def reached_by(entries: Sequence[ProducerEntry], offset: int) -> int:
    """Return the end offset that the log had at least when Kafka wrote a producer snapshot: the highest offset in the
    entries plus 1; without entries, `offset`. Return 0 if an entry has an offset that is not below `offset`.

    offset: the one in the snapshot's name.
    """
    if any(_beyond(entry, offset) for entry in entries):
        return 0
    return max((max(each.last_offset, each.current_txn_first_offset) + 1 for each in entries), default=offset)


def _not_forgotten(entries: Sequence[ProducerEntry], check: LogCheck) -> set[int]:
    """Return the producers of the log that have no entry, although a producer that Kafka would expire before them has
    an entry."""
    closed = [each for each in entries if each.current_txn_first_offset < 0 and each.last_offset >= 0]
    if not closed:
        return set()
    earliest = min(closed, key=lambda each: (each.timestamp, each.last_offset))
    first = min(closed, key=lambda each: (each.last_offset, each.timestamp))
    later = {each for one in (earliest, first) for each in check.later_producers(one.timestamp, one.last_offset)}
    return later - {each.producer_id for each in entries}


def _beyond(entry: ProducerEntry, offset: int) -> tuple[str, str] | None:
    """Return the texts of a Contradiction (expected, found) for an entry with an offset that is not below the
    snapshot's; None for any other entry."""
    highest = max(entry.last_offset, entry.current_txn_first_offset)
    if highest < offset:
        return None
    expected = f"offsets below {offset:,}, that of the snapshot"
    return expected, f"offset {highest:,} of producer {entry.producer_id:,}"


def _fallen(entry: ProducerEntry, check: LogCheck, offset: int) -> tuple[str, str] | None:
    """Return the texts of a Contradiction (expected, found) for an entry whose epoch is below that of its producer's
    last batch in the log, or which has the same epoch and a lower last offset than this batch; None for any other
    entry.

    offset: that of the snapshot. If the last batch ends at or after it, the last offset is not compared.
    """
    least = check.least(entry.producer_id)
    if least is None:
        return None
    epoch, last_offset = least
    if entry.producer_epoch < epoch:
        return _named(entry, "epoch", epoch, entry.producer_epoch)
    if entry.producer_epoch == epoch and entry.last_offset < last_offset < offset:
        return _named(entry, "last offset", last_offset, entry.last_offset)
    return None


def _unknown(entry: ProducerEntry, check: LogCheck, first_base: int) -> tuple[str, str] | None:
    """Return the texts of a Contradiction (expected, found) for an entry whose producer has no batch in the log,
    although the log has all batches that the producer may have sent; None for any other entry."""
    if check.least(entry.producer_id) is not None:
        return None
    is_within = max(entry.last_offset, entry.current_txn_first_offset) >= first_base
    if not check.complete and (check.breaks or not is_within):
        return None
    return "a producer with batches in the log", f"producer {entry.producer_id:,}, which has none"


def _different(entry: ProducerEntry, check: LogCheck, begun: int | None) -> tuple[str, str] | None:
    """Return the texts of a Contradiction (expected, found) for an entry that differs from the state of its producer in
    the log; None for an entry that does not differ.

    begun: the first offset that the log has of the producer's open transaction, which may have begun before; None if
    none is open.
    """
    state = check.producer(entry.producer_id)
    if state is None:
        return None
    epoch, sequence, last_offset, delta, timestamp, coordinator, first, is_certain = state
    pairs = [("epoch", epoch, entry.producer_epoch)]
    if sequence >= -1:
        pairs += [
            ("last sequence", sequence, entry.last_sequence),
            ("last offset", last_offset, entry.last_offset),
            ("offset delta", delta, entry.offset_delta),
        ]
    if timestamp >= 0:
        pairs.append(("timestamp", timestamp, entry.timestamp))
    # The coordinator epoch in a snapshot is -1 for a producer that had expired, until the producer's next marker.
    if coordinator >= 0 and entry.coordinator_epoch >= 0:
        pairs.append(("coordinator epoch", coordinator, entry.coordinator_epoch))
    if is_certain or (begun is not None and _lacks(entry.current_txn_first_offset, begun)):
        pairs.append(("open transaction's first offset", first, entry.current_txn_first_offset))
    wrong = next((each for each in pairs if each[1] != each[2]), None)
    return None if wrong is None else _named(entry, *wrong)


def _is_newer(entry: ProducerEntry, check: LogCheck) -> bool:
    """Whether an entry without an open transaction describes a later batch than its producer's last one in the log."""
    state = check.producer(entry.producer_id)
    if state is None or entry.current_txn_first_offset >= 0:
        return False
    epoch, _, last_offset, *_ = state
    return entry.producer_epoch >= epoch and entry.last_offset > last_offset


def _named(entry: ProducerEntry, name: str, expected: int, found: int) -> tuple[str, str]:
    return f"{name} {expected:,} of producer {entry.producer_id:,}, as in the log", f"{name} {found:,}"
