"""A producer snapshot: its own soundness, and its entries beside what the log says of the same producers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from formats import producer_snapshot
from formats.errors import BadChecksum, FormatError, Truncated
from formats.producer_snapshot import ENTRY, HEADER, ProducerEntry
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding
from kcli.inspector.verify.index_files import read_file

DELETE = "stop the broker; recovery makes the snapshot anew from the log"
MAX_SNAPSHOT_BYTES = 64 << 20

State = tuple[int, int, int, int, int, int, int, bool]


class SnapshotFile:
    """One `.snapshot` file: entries in the order of the file, even where its CRC does not hold."""

    def __init__(self, path: Path) -> None:
        self._path = path
        data, self._size = read_file(path, MAX_SNAPSHOT_BYTES)
        self._error: FormatError | None = None
        self.entries: tuple[ProducerEntry, ...] = ()
        try:
            self.entries = producer_snapshot.parse(data).entries
        except FormatError as error:
            self._error = error
            if isinstance(error, BadChecksum):
                self.entries = tuple(ENTRY.unpack_all(data[HEADER.size :]))

    def alone(self) -> Iterator[Finding]:
        """What shows without the log."""
        error = self._error
        if error is None:
            return
        position, entries = 0, (self._size - HEADER.size) / ENTRY.size
        if isinstance(error, Truncated) and entries > 0 and not entries.is_integer():
            position = HEADER.size + int(entries) * ENTRY.size
        kind = _KINDS.get(type(error).__name__, "content")
        yield self._finding(f"snapshot-{kind}", position, "a sound snapshot", error.reason)

    def beyond(self, offset: int, log_end: int) -> Finding:
        """It is named for an offset that the log does not reach."""
        expected = f"an offset up to {log_end:,}, where the log ends"
        return self._finding("snapshot-offset", None, expected, f"offset {offset:,}", offset=offset)

    def against(self, state_of: Callable[[int], State | None]) -> Iterator[Finding]:
        """Its entries beside the log: state_of(producer id) as LogCheck.producer() at the snapshot's offset."""
        for number, entry in enumerate(self.entries):
            state = state_of(entry.producer_id)
            if state is None:
                continue
            wrong = _difference(entry, state)
            if wrong is not None:
                position = HEADER.size + number * ENTRY.size
                name, expected, found = wrong
                texts = f"{name} {expected:,} of producer {entry.producer_id:,}, as in the log", f"{name} {found:,}"
                yield self._finding("snapshot-state", position, *texts, length=ENTRY.size)

    def _finding(
        self,
        kind: str,
        position: int | None,
        expected: str,
        found: str,
        *,
        offset: int | None = None,
        length: int | None = None,
    ) -> Finding:
        return Finding(
            path=str(self._path),
            kind=kind,
            severity="error",
            position=position,
            length=length,
            offset=offset,
            expected=expected,
            found=found,
            action=DELETE,
            command=next_steps.recover(self._path.parent),
        )


_KINDS = {"UnknownVersion": "version", "BadChecksum": "crc", "BadCount": "count", "Truncated": "truncated"}


def _difference(entry: ProducerEntry, state: State) -> tuple[str, int, int] | None:
    """The first field in which the log contradicts the entry: (name, as in the log, as in the entry)."""
    epoch, sequence, last_offset, delta, timestamp, coordinator, first, certain = state
    pairs = [("epoch", epoch, entry.producer_epoch)]
    if sequence >= -1:
        pairs += [
            ("last sequence", sequence, entry.last_sequence),
            ("last offset", last_offset, entry.last_offset),
            ("offset delta", delta, entry.offset_delta),
        ]
    if timestamp >= 0:
        pairs.append(("timestamp", timestamp, entry.timestamp))
    if coordinator >= 0:
        pairs.append(("coordinator epoch", coordinator, entry.coordinator_epoch))
    if certain:
        pairs.append(("open transaction's first offset", first, entry.current_txn_first_offset))
    for name, expected, found in pairs:
        if expected != found:
            return name, expected, found
    return None
