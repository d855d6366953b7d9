"""Events of the check kernel, faulty batches and damage, told as findings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from formats.errors import (
    BadChecksum,
    BadCodec,
    BadCompression,
    BadCount,
    BadMagic,
    FormatError,
    LimitExceeded,
    Truncated,
)
from formats.kernels.columns import POSITION, BatchRow
from formats.kernels.log import (
    FAULT_BAD_CRC,
    FAULT_CONTROL_KEY,
    FAULT_COUNT_TOO_HIGH,
    FAULT_COUNT_TOO_LOW,
    FAULT_HEADER_NOT_UTF8,
    FAULT_MAX_TIMESTAMP,
    FAULT_NEGATIVE_COUNT,
    FAULT_OFFSET_OUT_OF_RANGE,
    FAULT_OFFSETS_NOT_INCREASING,
    FAULT_SHORT_HEADER,
)
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding, Severity, offsets_text
from kcli.inspector.verify.lost_offsets import NO_LOSS
from kcli.log.segment_reader import Damage, Window

RECOVER = "Kafka would cut the file here at its next unclean start"
SALVAGE = "Kafka keeps this batch as it is: read what there is, or fetch it from another replica"
RENAME = "Kafka does not start with it: rename the segment's files to their true base offset in a copy"
COMPARE = "compare with the other replicas"
TAIL_DAMAGE = (
    "truncated",
    "batch-crc",
    "batch-length",
    "batch-magic",
    "file-name",
    "offset-range",
    "offsets-order",
    "offsets-overlap",
)

Told = tuple[str, str, str, str]  # kind, expected, found, action
Event = tuple[str, int, int, int, int | None, int | str, int, int]


class _Wording(NamedTuple):
    kind: str
    severity: Severity
    expected: str
    found: str
    action: str


_EVENTS = {
    "negative-offset": _Wording("offset-range", "error", "0 or more", "base offset {found:,}", RECOVER),
    "below-name": _Wording(
        "file-name",
        "error",
        "a first offset of {expected:,} or above, as the file's name says",
        "base offset {found:,}",
        RENAME,
    ),
    "below-base": _Wording("offset-range", "error", "{expected:,} or above", "base offset {found:,}", SALVAGE),
    "beyond-int": _Wording("offset-range", "error", "{expected:,} or below", "last offset {found:,}", RECOVER),
    "into-next-segment": _Wording(
        "offsets-overlap",
        "error",
        "{expected:,} or below: the next segment begins there",
        "last offset {found:,}",
        SALVAGE,
    ),
    "back": _Wording("offsets-order", "error", "{expected:,} or above", "base offset {found:,}", SALVAGE),
    "ahead": _Wording(
        "offsets-order", "error", "{expected:,}, where the batches behind it go on", "base offset {found:,}", SALVAGE
    ),
    "runs-into-next": _Wording(
        "offsets-overlap",
        "error",
        "{expected:,} or below: the next batch begins there",
        "last offset {found:,}",
        SALVAGE,
    ),
    "gap": _Wording(
        "offset-gap",
        "info",
        "{expected:,}",
        "{lost} in no batch",
        NO_LOSS,
    ),
    "more-gaps": _Wording("offset-gap", "info", "no gap", "{found:,} more gaps in this file", NO_LOSS),
    "leader-epoch": _Wording(
        "leader-epoch",
        "warning",
        "{expected:,}",
        "leader epoch {found:,}",
        COMPARE,
    ),
    "no-producer": _Wording(
        "transactional-without-producer", "error", "a producer id", "producer id {found:,}", SALVAGE
    ),
    "no-sequence": _Wording("producer-sequence", "error", "0 or more", "base sequence {found:,}", SALVAGE),
    "sequence-back": _Wording("producer-sequence", "error", "{expected:,}", "base sequence {found:,}", SALVAGE),
    "sequence-gap": _Wording(
        "producer-sequence",
        "warning",
        "{expected:,}",
        "base sequence {found:,}",
        COMPARE,
    ),
    "producer-epoch": _Wording(
        "producer-epoch",
        "warning",
        "{expected:,} or above",
        "producer epoch {found:,}",
        COMPARE,
    ),
    "control": _Wording("control-record", "error", "a control record", "{found}", SALVAGE),
}


class LogFindings:
    """The findings of one log file, kept until its end tells what is sound behind each.

    What lies beyond `limit` findings is counted only, so that no file can fill the memory.
    """

    def __init__(self, path: str, limit: int = 10_000) -> None:
        self._path = path
        self._limit = limit
        self._open: list[tuple[Finding, bool]] = []
        self._next: list[int | None] = []
        self._more = 0
        self.epochs: list[tuple[int, int]] = []  # leader epoch, first offset that has it

    def event(self, event: Event, window: Window | None, explain: Callable[[Window, int], list[FormatError]]) -> None:
        """Take an event of the kernel; explain: what is wrong with batch i of the window (None at the end)."""
        name, position, size, offset, expected, found, batches, size_before = event
        if name == "sound":
            self._next += [position] * (len(self._open) - len(self._next))
        elif name == "new-epoch":
            if len(self.epochs) < self._limit:
                self.epochs.append((int(found), offset))
        elif name in ("faults", "magic"):
            assert window is not None, "faults come with the batches of a window"
            place = position, size, offset, batches, size_before
            self._add(_fault(window, position, explain), "error", place)
        else:
            wording = _EVENTS[name]
            values: dict[str, int | str | None] = {"expected": expected, "found": found}
            lost = None
            if name == "gap":
                lost = int(expected or 0), int(found) - 1
                values["lost"] = offsets_text(*lost)
            texts = wording.expected.format(**values), wording.found.format(**values)
            place = position, size, offset, batches, size_before
            self._add((wording.kind, *texts, wording.action), wording.severity, place, lost)

    def damage(self, damage: Damage, batches: int, size_before: int) -> None:
        """Take bytes that are no batches, behind so many sound ones."""
        place = damage.position, damage.length, None, batches, size_before
        self._add((_damage_kind(damage.error), "a batch", damage.error.reason, RECOVER), "error", place)
        if not damage.at_end:
            self._next += [damage.position + damage.length] * (len(self._open) - len(self._next))

    def _add(
        self,
        told: Told,
        severity: Severity,
        place: tuple[int, int, int | None, int, int],
        lost: tuple[int, int] | None = None,
    ) -> None:
        """place: position, length, offset, sound batches and bytes before it. lost: first and last offset."""
        if len(self._open) >= self._limit:
            self._more += 1
            return
        kind, expected, found, action = told
        position, length, offset, batches, size_before = place
        finding = Finding(
            path=self._path,
            kind=kind,
            severity=severity,
            position=position,
            offset=offset,
            length=length,
            expected=expected,
            found=found,
            lost_first_offset=lost and lost[0],
            lost_last_offset=lost and lost[1],
            action=action,
            command=_command(self._path, action, offset),
            valid_batches_before=batches,
            valid_bytes_before=size_before,
        )
        self._open.append((finding, severity != "error"))

    def close(self, batches: int, size: int) -> list[Finding]:
        """The findings, in the order of the file: it has so many sound batches, and bytes of them."""
        from dataclasses import replace

        self._next += [None] * (len(self._open) - len(self._next))
        closed: list[Finding] = []
        for (finding, is_sound), following in zip(self._open, self._next, strict=True):
            before = finding.valid_batches_before or 0, finding.valid_bytes_before or 0
            own = (1, finding.length or 0) if is_sound else (0, 0)
            closed.append(
                replace(
                    finding,
                    valid_batches_behind=max(0, batches - before[0] - own[0]),
                    valid_bytes_behind=max(0, size - before[1] - own[1]),
                    next_valid_position=finding.position if is_sound else following,
                )
            )
        closed.sort(key=lambda finding: finding.position or 0)
        if self._more:
            found = f"{self._more:,} more findings in this file"
            closed.append(
                Finding(
                    path=self._path,
                    kind="more-findings",
                    severity="error",
                    found=found,
                    action="repair or replace the file",
                    command=_command(self._path, RECOVER, None),
                )
            )
        return closed


def _command(path: str, action: str, offset: int | None) -> str | None:
    """The command for a next step in words."""
    if action in (RECOVER, RENAME):
        return next_steps.recover(Path(path).parent)
    return None if action == NO_LOSS else next_steps.dump(path, offset)


def _damage_kind(error: FormatError) -> str:
    if isinstance(error, Truncated):
        return "truncated"
    if isinstance(error, BadChecksum):
        return "batch-crc"
    return "batch-length"


_RECORD_KINDS = (
    (FAULT_COUNT_TOO_HIGH | FAULT_COUNT_TOO_LOW | FAULT_NEGATIVE_COUNT, "record-count"),
    (FAULT_OFFSETS_NOT_INCREASING, "record-offsets"),
    (FAULT_OFFSET_OUT_OF_RANGE, "record-offsets"),
    (FAULT_HEADER_NOT_UTF8, "header-key"),
    (FAULT_CONTROL_KEY, "control-record"),
    (FAULT_MAX_TIMESTAMP, "max-timestamp"),
)


def _fault(window: Window, position: int, explain: Callable[[Window, int], list[FormatError]]) -> Told:
    """The faulty batch at a byte of the file."""
    i = _row_at(window, position)
    row = BatchRow._make(window.batches.row(i))
    if row.magic < 0 or row.magic > 2:
        return "batch-magic", "magic 0, 1 or 2", f"magic {row.magic}", RECOVER if row.magic < 0 else SALVAGE
    if row.faults & FAULT_BAD_CRC:
        return "batch-crc", f"CRC {row.crc:#010x}, as stored", f"the bytes give {row.crc_computed:#010x}", RECOVER
    errors = explain(window, i)
    reason = errors[0].reason if errors else "unreadable"
    if row.faults & FAULT_SHORT_HEADER:
        return "batch-length", "room for the header", reason, RECOVER
    if errors and isinstance(errors[0], BadCodec):
        return "codec", "codec 0 to 4", reason, SALVAGE
    if errors and isinstance(errors[0], BadCompression | LimitExceeded):
        return "decompression", "a payload that its codec decompresses", reason, SALVAGE
    if errors and isinstance(errors[0], BadCount):
        return "record-count", f"{row.count:,} records", reason, SALVAGE
    for bit, kind in _RECORD_KINDS:
        if row.faults & bit and (not errors or not _is_structure(errors[0])):
            return kind, "records as the batch says", reason, SALVAGE
    return "record-structure", "a record", reason, SALVAGE


def _is_structure(error: FormatError) -> bool:
    from formats.errors import BadLength

    return isinstance(error, BadLength | BadMagic)


def _row_at(window: Window, position: int) -> int:
    """The row of the window whose batch begins at that byte of the file."""
    low, high = 0, window.batches.count
    while low < high:
        middle = (low + high) // 2
        if window.batches.field(middle, POSITION) < position:
            low = middle + 1
        else:
            high = middle
    return low
