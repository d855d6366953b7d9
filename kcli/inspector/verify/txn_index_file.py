"""The transaction index of a segment beside the abort markers of its log, both in the order of the markers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from formats.txn_index import ENTRY, VERSION, AbortedTxn
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding
from kcli.inspector.verify.index_files import MAX_INDEX_BYTES, REBUILD, read_file

Aborted = tuple[int, int, int, int, bool, bool]


class TxnIndexCheck:
    """Entries against aborted transactions, as LogCheck.aborted() gives them. `path` None: there is no such file."""

    def __init__(self, path: Path | None, named: Path, breaks: int) -> None:
        self._path = path
        self._named = str(named)
        self._data, self._size = (b"", 0) if path is None else read_file(path, MAX_INDEX_BYTES)
        self._count = len(self._data) // ENTRY.size
        self._at = 0
        self._breaks = breaks
        self._missing: list[tuple[int, Aborted]] = []
        self._extra: list[int] = []

    def alone(self) -> Iterator[Finding]:
        """What shows without the log: length, versions, offsets that contradict each other."""
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
        for number in range(self._count):
            entry = self._entry(number)
            wrong = _contradiction(entry, last)
            if wrong is not None:
                yield self._finding(wrong[0], number * ENTRY.size, ENTRY.size, *wrong[1:], offset=entry.last_offset)
            last = max(last, entry.last_offset)

    def _entry(self, number: int) -> AbortedTxn:
        return ENTRY.unpack(self._data, number * ENTRY.size)

    def take(self, aborted: list[Aborted]) -> Iterator[Finding]:
        """The next aborted transactions of the log."""
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
                yield self._finding("txnindex-stable-offset", *place, f"{stable:,}{most}", found, offset=last)

    def _is_missing(self, transaction: Aborted) -> Iterator[Finding]:
        """Missing entries in a row make one finding."""
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

    def end(self, *, breaks: int, reaches: int) -> Iterator[Finding]:
        """What is left has no marker. breaks: LogCheck.breaks now; reaches: the offset behind the segment's last."""
        yield from self._flush()
        self._extra += range(self._at, self._count)
        for number in self._extra:
            entry = self._entry(number)
            if entry.version != VERSION or entry.first_offset > entry.last_offset:
                continue
            if breaks == self._breaks or entry.last_offset >= reaches:
                expected = f"an abort marker at offset {entry.last_offset:,}"
                place = number * ENTRY.size, ENTRY.size
                found = f"none of producer {entry.producer_id:,} there"
                yield self._finding("txnindex-extra-entry", *place, expected, found, offset=entry.last_offset)

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


def _contradiction(entry: AbortedTxn, last: int) -> tuple[str, str, str] | None:
    if entry.version != VERSION:
        return "txnindex-version", f"version {VERSION}", f"version {entry.version}"
    if entry.first_offset > entry.last_offset or entry.first_offset < 0:
        return "txnindex-offset", f"0 to {entry.last_offset:,}", f"first offset {entry.first_offset:,}"
    if entry.last_offset <= last:
        return "txnindex-order", f"a last offset above {last:,}", f"{entry.last_offset:,}"
    return None
