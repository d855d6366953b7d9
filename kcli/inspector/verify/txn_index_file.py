"""Checks the transaction index of a segment against the abort markers in its log, in the order of the markers.

The last stable offset of an entry is the first offset of a transaction of another producer that is open at the marker;
without one, the offset behind the marker. A follower appends all batches of a Fetch response before it writes entries:
if no transaction is open at the marker, its entry has the first offset of the next transaction behind the marker, if
that came in the same response. Source: UnifiedLog.append, ProducerStateManager.lastStableOffset.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from formats.kernels.columns import BatchRow
from formats.txn_index import ENTRY, VERSION, AbortedTxn
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding
from kcli.inspector.verify.index_files import MAX_INDEX_BYTES, REBUILD, read_file
from kcli.inspector.verify.zeros import zeros_text
from kcli.log.source import SEGMENT_BYTES_MAX

Aborted = tuple[int, int, int, int, bool, bool]
MARKER_BYTES = 78  # the batch of an abort marker: 61 of its header, 17 of its record
MOST_BYTES = SEGMENT_BYTES_MAX // MARKER_BYTES * ENTRY.size
"""The size in bytes of an index with an entry for every marker that fits into a segment of the maximum size."""
MINOR_VERSION_MAX = 0xFF
"""The largest version with which Kafka reads an entry: it looks only at the first of the two bytes of the version,
which has to be 0."""


class TxnIndexCheck:
    """Compares the entries of a transaction index with the aborted transactions from LogCheck.aborted().

    path: the file's path, None if the segment has no transaction index. named: the path that the findings name. breaks:
    LogCheck.breaks, the number of gaps and faults in the log so far, at the beginning of the segment. A file larger
    than MOST_BYTES gives a single finding.
    """

    def __init__(self, path: Path | None, named: Path, breaks: int) -> None:
        self._path = path
        self._named = str(named)
        self._data, self._size = (b"", 0) if path is None else read_file(path, MAX_INDEX_BYTES)
        self._count = len(self._data) // ENTRY.size
        self._zeros = zeros_text(self._data)
        self._at = 0
        self._breaks = breaks
        self._missing: list[tuple[int, Aborted]] = []
        self._extra: list[int] = []
        self._followers: deque[tuple[int, int, int, Finding]] = deque()

    def alone(self) -> Iterator[Finding]:
        """Yield the findings for which the log is not needed: wrong length, wrong versions, offsets that contradict
        each other."""
        if self._size > MOST_BYTES:
            yield self._too_large()
            return
        if self._zeros is not None:
            yield self._finding("txnindex-order", 0, self._size, "entries of aborted transactions", self._zeros)
            return
        whole = self._count * ENTRY.size
        if whole < self._size:
            yield self._finding(
                "txnindex-length",
                whole,
                self._size - whole,
                f"a multiple of {ENTRY.size} bytes",
                f"{self._size:,} bytes",
            )
        last = -1
        run: Finding | None = None  # adjacent entries with contradictions of one kind make one finding
        for number in range(self._count):
            entry = self._entry(number)
            wrong = _contradiction(entry, last)
            if run is not None and (wrong is None or wrong[0] != run.kind):
                yield _run(run, number)
                run = None
            if wrong is not None and run is None:
                run = self._finding(wrong[0], number * ENTRY.size, ENTRY.size, *wrong[1:], offset=entry.last_offset)
            last = max(last, entry.last_offset)
        if run is not None:
            yield _run(run, self._count)

    def _too_large(self) -> Finding:
        expected, found = f"{MOST_BYTES:,} bytes or less", f"{self._size:,} bytes"
        return self._finding("txnindex-length", MOST_BYTES, self._size - MOST_BYTES, expected, found)

    def _entry(self, number: int) -> AbortedTxn:
        return ENTRY.unpack(self._data, number * ENTRY.size)

    def take(self, aborted: list[Aborted]) -> Iterator[Finding]:
        """Compare the next aborted transactions of the log with entries; yield findings."""
        if self._size > MOST_BYTES or self._zeros is not None:
            return
        for transaction in aborted:
            producer, first, last, stable, indexed, certain = transaction
            while self._at < self._count and self._entry(self._at).last_offset < last:
                self._extra.append(self._at)
                self._at += 1
            entry = self._entry(self._at) if self._at < self._count else None
            if entry is None or entry.last_offset != last or entry.producer_id != producer:
                if indexed:
                    yield from self._is_missing(transaction)
                continue
            self._at += 1
            if entry.version != VERSION or entry.first_offset > entry.last_offset:
                continue
            place = (self._at - 1) * ENTRY.size, ENTRY.size
            if first >= 0 and (entry.first_offset != first if certain else entry.first_offset > first):
                most = "" if certain else " or below"
                found = f"first offset {entry.first_offset:,}"
                yield self._finding("txnindex-offset", *place, f"first offset {first:,}{most}", found, offset=last)
            if entry.last_stable_offset != stable if certain else entry.last_stable_offset > stable:
                most = "" if certain else " or below"
                found = f"last stable offset {entry.last_stable_offset:,}"
                finding = self._finding("txnindex-stable-offset", *place, f"{stable:,}{most}", found, offset=last)
                if certain and last + 1 == stable < entry.last_stable_offset:
                    self._followers.append((last, producer, entry.last_stable_offset, finding))
                else:
                    yield finding

    def _not_of_followers(self, batches: Iterable[BatchRow]) -> Iterator[Finding]:
        """Yield the findings of last stable offsets that no follower writes either: see the module. batches: those of
        the segment."""
        behind: list[tuple[int, int, int, Finding]] = []
        for batch in batches:
            if batch.is_control or not batch.is_transactional:
                continue
            while self._followers and self._followers[0][0] < batch.base_offset:
                behind.append(self._followers.popleft())
            for each in [each for each in behind if each[1] != batch.producer_id]:
                behind.remove(each)
                if each[2] != batch.base_offset:
                    yield each[3]
            if not behind and not self._followers:
                break
        yield from (each[3] for each in (*behind, *self._followers))
        self._followers.clear()

    def _is_missing(self, transaction: Aborted) -> Iterator[Finding]:
        """Note that a transaction has no entry. If entries are noted already that are missing at another place of the
        index, yield the finding about them first: only adjacent missing entries share a finding."""
        if self._missing and self._missing[0][0] != self._at:
            yield from self._flush()
        self._missing.append((self._at, transaction))

    def _flush(self) -> Iterator[Finding]:
        if not self._missing:
            return
        (at, (producer, first, last, *_)), more = self._missing[0], len(self._missing) - 1
        self._missing = []
        expected = f"the transaction of producer {producer:,}, offsets {first:,}..{last:,}"
        expected += f", and {more:,} more" if more else ""
        found = "no such entry" if self._path else "no such file"
        kind = "txnindex-missing-entry" if self._path else "txnindex-missing"
        yield self._finding(kind, at * ENTRY.size, 0, expected, found, offset=last)

    def end(self, *, breaks: int, reaches: int, batches: Callable[[], Iterable[BatchRow]]) -> Iterator[Finding]:
        """Yield findings for the remaining entries, which have no marker in the log.

        breaks: LogCheck.breaks at the end of the segment; if it has risen within the segment, markers may be lost
        there, and only entries that end at or above `reaches` make findings. reaches: the last offset of the segment's
        last batch plus 1. batches: returns the sound batches of the segment.
        """
        yield from self._flush()
        if self._followers:
            yield from self._not_of_followers(batches())
        if self._size > MOST_BYTES or self._zeros is not None:
            return
        self._extra += range(self._at, self._count)
        run: Finding | None = None  # adjacent entries without a marker make one finding
        behind = -1
        for number in self._extra:
            entry = self._entry(number)
            if entry.version != VERSION or entry.first_offset > entry.last_offset:
                continue
            if breaks == self._breaks or entry.last_offset >= reaches:
                if run is not None and number != behind:
                    yield _run(run, behind)
                    run = None
                if run is None:
                    expected = f"an abort marker at offset {entry.last_offset:,}"
                    place = number * ENTRY.size, ENTRY.size
                    found = f"none of producer {entry.producer_id:,} there"
                    run = self._finding("txnindex-extra-entry", *place, expected, found, offset=entry.last_offset)
                behind = number + 1
        if run is not None:
            yield _run(run, behind)

    def lost_marker(self, ongoing: Collection[tuple[int, int]], end: int) -> AbortedTxn | None:
        """Return the last entry whose transaction is open in the log because the offset of its abort marker is `end` or
        higher: the log has lost its end, and the marker with it. Returns None if there is no such entry.

        end: the log end offset. ongoing: producer id and first offset of each open transaction. A flipped bit makes no
        such entry: both the producer id and the first offset have to match.
        """
        entries = map(self._entry, range(self._count)) if ongoing and self._size <= MOST_BYTES else ()
        lost = [
            each
            for each in entries
            if each.version == VERSION and each.last_offset >= end and (each.producer_id, each.first_offset) in ongoing
        ]
        return max(lost, key=lambda each: each.last_offset, default=None)

    def is_rebuilt(self, base: int) -> bool:
        """Whether Kafka's start finds an aborted transaction that ends below the base offset of the segment, and
        rebuilds all of its indexes. Source: TransactionIndex.sanityCheck."""
        for number in range(self._count):
            entry = self._entry(number)
            if entry.version > MINOR_VERSION_MAX:  # Kafka's start fails here, and rebuilds nothing
                return False
            if entry.last_offset < base:
                return True
        return False

    def _finding(
        self, kind: str, position: int, length: int, expected: str, found: str, *, offset: int | None = None
    ) -> Finding:
        return Finding(
            path=self._named,
            kind=kind,
            severity="error",
            position=position if self._path else None,
            length=length,
            offset=offset,
            expected=expected,
            found=found,
            action=REBUILD,
            command=next_steps.recover(Path(self._named).parent),
        )


def _run(first: Finding, behind: int) -> Finding:
    """Return the finding of the first of several adjacent entries, extended to all of them. behind: the index of the
    entry after the last of them."""
    assert first.position is not None, "there is a file"
    length = behind * ENTRY.size - first.position
    more = length // ENTRY.size - 1
    return replace(first, length=length, found=f"{first.found}, and {more:,} more in a row") if more else first


def _contradiction(entry: AbortedTxn, last: int) -> tuple[str, str, str] | None:
    if entry.version != VERSION:
        return "txnindex-version", f"version {VERSION}", f"version {entry.version}"
    if entry.first_offset > entry.last_offset or entry.first_offset < 0:
        return "txnindex-offset", f"0 to {entry.last_offset:,}", f"first offset {entry.first_offset:,}"
    if entry.last_offset <= last:
        return "txnindex-order", f"a last offset above {last:,}", f"{entry.last_offset:,}"
    return None
