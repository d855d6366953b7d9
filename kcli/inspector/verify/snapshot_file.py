"""Checks a producer snapshot: the file by itself, and its entries against the state of the producers in the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from formats import producer_snapshot
from formats.errors import BadChecksum, FormatError, Truncated
from formats.kernels.log_check import LogCheck
from formats.producer_snapshot import ENTRY, HEADER, ProducerEntry
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding
from kcli.inspector.verify.index_files import read_file
from kcli.inspector.verify.zeros import zeros_text
from kcli.log.snapshot_check import Contradiction, contradictions, lacking_transactions, reached_by

DELETE = "stop the broker; recovery makes the snapshot anew from the log, with --in-place for --dry-run"
LEAVE_OUT = "stop the broker; recovery with --salvage makes it anew from the log"
MAX_SNAPSHOT_BYTES = 64 << 20


class SnapshotFile:
    """A `.snapshot` file. entries: in the order of the file, even if the file's CRC is wrong."""

    def __init__(self, path: Path) -> None:
        self._path = path
        data, self._size = read_file(path, MAX_SNAPSHOT_BYTES)
        self._zeros = zeros_text(data)
        self._error: FormatError | None = None
        self.entries: tuple[ProducerEntry, ...] = ()
        try:
            self.entries = producer_snapshot.parse(data).entries
        except FormatError as error:
            self._error = error
            if isinstance(error, BadChecksum):
                self.entries = tuple(ENTRY.unpack_all(data[HEADER.size :]))

    def reached(self, offset: int) -> int:
        """Return the end offset that the log had at least when Kafka wrote this file (see `reached_by`); 0 if the file
        is damaged. offset: the one in the file's name."""
        return 0 if self._error is not None else reached_by(self.entries, offset)

    def alone(self) -> Iterator[Finding]:
        """Yield the findings for which the log is not needed."""
        error = self._error
        if error is None:
            return
        position, entries = 0, (self._size - HEADER.size) / ENTRY.size
        if isinstance(error, Truncated) and entries > 0 and not entries.is_integer():
            position = HEADER.size + int(entries) * ENTRY.size
        kind = _KINDS.get(type(error).__name__, "content")
        found = self._zeros or error.reason
        yield self._finding(f"snapshot-{kind}", position, "a sound snapshot", found)

    def beyond(self, offset: int, log_end: int) -> Finding:
        """Return the finding that the offset in the file's name is beyond the log end offset."""
        expected = f"an offset up to {log_end:,}, where the log ends"
        return self._finding("snapshot-offset", None, expected, f"offset {offset:,}", offset=offset)

    def against(self, offset: int, check: LogCheck, first_base: int) -> Iterator[Finding]:
        """Yield a finding for each contradiction between the snapshot and the log below its offset (see
        kcli.log.snapshot_check). offset: the one in the file's name. first_base: the base offset of the log's first
        segment."""
        wrong = list(contradictions(self.entries, offset, check, first_base))
        if not wrong:
            return
        action = f"a clean start takes the file as it is: {self._outcome(wrong, offset, check)}; {LEAVE_OUT}"
        for number, expected, found in wrong:
            finding = self._finding("snapshot-state", None, expected, found)
            if number is not None:
                finding = replace(finding, position=HEADER.size + number * ENTRY.size, length=ENTRY.size)
            yield replace(finding, action=action, command=next_steps.salvage(self._path.parent))

    def _outcome(self, wrong: Sequence[Contradiction], offset: int, check: LogCheck) -> str:
        """Return, in words, what follows from the contradictions between the snapshot and the log."""
        transactions = dict(check.open_transactions())
        entries = [self.entries[number] for number, *_ in wrong if number is not None]
        opened = [each for each in entries if each.current_txn_first_offset >= 0]
        known = ((each.producer_id, each.current_txn_first_offset) for each in self.entries)
        outcomes = ["producers may be refused"] if entries else []
        if any(each.producer_id not in transactions for each in opened):
            outcomes.append("read_committed consumers stop at transactions that are open in it alone")
        if check.next_offset == offset and lacking_transactions(known, transactions.items()):
            outcomes.append(
                "read_committed consumers get the records of transactions that are open in the log and not in it, "
                "committed or not"
            )
        return ", and ".join(outcomes or ["records that a producer sends again are written twice"])

    def _finding(
        self,
        kind: str,
        position: int | None,
        expected: str,
        found: str,
        *,
        offset: int | None = None,
    ) -> Finding:
        return Finding(
            path=str(self._path),
            kind=kind,
            severity="error",
            position=position,
            offset=offset,
            expected=expected,
            found=found,
            action=DELETE,
            command=next_steps.recover(self._path.parent),
        )


_KINDS = {"UnknownVersion": "version", "BadChecksum": "crc", "BadCount": "count", "Truncated": "truncated"}
