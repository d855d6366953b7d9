"""The findings in a .log file, made of the events of LogCheck (compiled code), faulty batches and damage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from formats.errors import (
    BadChecksum,
    BadCodec,
    BadCompression,
    BadCount,
    BadMagic,
    BytesBehind,
    FormatError,
    LimitExceeded,
    Truncated,
)
from formats.kernels.batches import (
    FAULT_BAD_CRC,
    FAULT_CONTROL_KEY,
    FAULT_COUNT_TOO_HIGH,
    FAULT_COUNT_TOO_LOW,
    FAULT_HEADER_NOT_UTF8,
    FAULT_MAX_TIMESTAMP,
    FAULT_NEGATIVE_COUNT,
    FAULT_NEGATIVE_LENGTH,
    FAULT_OFFSET_OUT_OF_RANGE,
    FAULT_OFFSETS_NOT_INCREASING,
    FAULT_SHORT_HEADER,
)
from formats.kernels.columns import POSITION, BatchRow
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import STOPS, Finding, Severity, offsets_text
from kcli.inspector.verify.lost_offsets import NO_LOSS
from kcli.log.segment_reader import Damage, Window

if TYPE_CHECKING:
    from kcli.log.recovery.batch_epochs import RightEpoch

RECOVER = "Kafka would cut the file here at its next unclean start"
SALVAGE = "Kafka keeps this batch as it is: read what there is, or fetch it from another replica"
AHEAD = (
    "Kafka keeps this batch as it is, and consumers skip the batches behind it: salvage puts its base offset right, in "
    "a copy, where the batches beside it leave one place for it"
)
PUTS_BACK = "; salvage puts the base offset right, in a copy"
"""The end of the advice for a batch whose right base offset is known."""
SETS_LAST_OFFSET = "; salvage puts the last offset right, in a copy"
"""The end of the advice for a batch whose right last offset is known."""
REORDER = "consumers skip batches behind others with higher offsets: salvage puts them in order, in a copy"
REORDER_TORN = "consumers do not get past a torn batch: salvage puts the others in order, in a copy"
LOADS_BOTH = (
    "Kafka keeps them, and the coordinator of this partition loads them as its own, or ignores those of another topic: "
    "salvage leaves them out, in a copy"
)
SERVES_BOTH = "Kafka keeps them, and serves them as this partition's: salvage leaves them out, in a copy"
LIES_ELSEWHERE = "Kafka keeps what lies here instead: salvage takes these bytes from there, in a copy"
RENAME = "Kafka does not start with it: rename the segment's files to their true base offset in a copy"
COMPARE = "compare with the other replicas"
EPOCH = (
    "Kafka keeps this batch as it is, and its recovery after a crash enters a higher epoch than the last one in the "
    "leader-epoch-checkpoint, by which followers truncate: salvage puts a flipped bit right, in a copy"
)
APPENDED = "Kafka appends such a batch of a producer as it is: nothing is damaged, see what the producer wrote"
MAGIC = 2
TAIL_DAMAGE = (
    "log-compressed",
    "log-text-mode",
    "truncated",
    "foreign-bytes",
    "batch-crc",
    "batch-length",
    "batch-magic",
    "file-name",
    "offset-range",
    "offsets-order",
    "offsets-overlap",
)

FindingTexts = tuple[str, str, str, str]  # kind, expected, found, action
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
        AHEAD,
    ),
    "back": _Wording("offsets-order", "error", "{expected:,} or above", "base offset {found:,}", SALVAGE),
    "ahead": _Wording(
        "offsets-order", "error", "{expected:,}, where the batches behind it go on", "base offset {found:,}", AHEAD
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
        EPOCH,
    ),
    "no-producer": _Wording(
        "transactional-without-producer", "warning", "a producer id", "producer id {found:,}", APPENDED
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


def flipped_epoch(path: Path, wrong: RightEpoch, offset: int, known: int | None) -> Finding:
    """Return the finding of a log's last batch with a flipped bit in its leader epoch. offset: the batch's. known: the
    partition's leader epoch in the metadata log; None if it is not known."""
    metadata = "" if known is None else f"; the metadata log has {known:,}"
    return Finding(
        path=str(path),
        kind="leader-epoch",
        severity="warning",
        position=wrong.position,
        offset=offset,
        expected=f"{wrong.leader_epoch:,}, the last one in the leader-epoch-checkpoint{metadata}",
        found=f"leader epoch {wrong.before:,}, one flipped bit",
        action=EPOCH,
        command=next_steps.salvage(path.parent),
    )


class LogFindings:
    """The findings of one .log file. They are kept until the whole file is checked, because only then the number of
    sound batches after each finding is known.

    At most `limit` findings are kept, and the others are only counted, so that no file can fill the memory.
    """

    def __init__(self, path: str, limit: int = 10_000) -> None:
        self._path = path
        self._limit = limit
        self._open: list[tuple[Finding, bool]] = []
        self._next: list[int | None] = []
        self._more = 0
        self.epochs: list[tuple[int, int]] = []  # (leader epoch, first offset with it)

    def event(self, event: Event, window: Window | None, explain: Callable[[Window, int], list[FormatError]]) -> None:
        """Add the finding of an event of LogCheck. window: the part of the .log file with the event's batch; None at
        the end of the file. explain: returns the errors in batch i of a window."""
        name, position, size, offset, expected, found, batches, size_before = event
        if name == "sound":
            self._next += [position] * (len(self._open) - len(self._next))
        elif name == "new-epoch":
            if len(self.epochs) < self._limit:
                self.epochs.append((int(found), offset))
        elif name in ("faults", "magic"):
            assert window is not None, "faults come with the batches of a window"
            place = position, size, offset, batches, size_before
            fault = _fault(window, position, explain)
            self._add(fault, "warning" if fault[-1] == APPENDED else "error", place, is_sound=False)
        else:
            wording = _EVENTS[name]
            values: dict[str, int | str | None] = {"expected": expected, "found": found}
            lost = None
            if name == "gap":
                lost = int(expected or 0), int(found) - 1
                values["lost"] = offsets_text(*lost)
            texts = wording.expected.format(**values), wording.found.format(**values)
            place = position, size, offset, batches, size_before
            is_sound = wording.severity != "error"
            self._add((wording.kind, *texts, wording.action), wording.severity, place, lost, is_sound=is_sound)

    def damage(self, damage: Damage, batches: int, size_before: int) -> None:
        """Add the finding of bytes that are no batch. batches, size_before: the number and the bytes of the sound
        batches before the damage."""
        place = damage.position, damage.length, None, batches, size_before
        texts = _damage_kind(damage.error), "a batch", damage.error.reason, RECOVER
        self._add(texts, "error", place, is_sound=False)
        if not damage.at_end:
            self._next += [damage.position + damage.length] * (len(self._open) - len(self._next))

    def _add(
        self,
        texts: FindingTexts,
        severity: Severity,
        place: tuple[int, int, int | None, int, int],
        lost: tuple[int, int] | None = None,
        *,
        is_sound: bool,
    ) -> None:
        """Add a finding. place: position, length, offset, and the number and bytes of the sound batches before the
        position. lost: first and last lost offset. is_sound: whether the batch at the position is itself sound."""
        if len(self._open) >= self._limit:
            self._more += 1
            return
        kind, expected, found, action = texts
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
        self._open.append((finding, is_sound))

    def close(self, batches: int, size: int) -> list[Finding]:
        """Return the findings in the order of the file, each with the number of sound batches after it. batches, size:
        the number and bytes of all sound batches in the file."""
        from dataclasses import replace

        self._next += [None] * (len(self._open) - len(self._next))
        closed: list[Finding] = []
        for (finding, is_sound), following in zip(self._open, self._next, strict=True):
            before = finding.valid_batches_before or 0, finding.valid_bytes_before or 0
            own = (1, finding.length or 0) if is_sound else (0, 0)
            keeps_more = finding.action == RECOVER and not is_sound and following is not None
            closed.append(
                replace(
                    finding,
                    valid_batches_behind=max(0, batches - before[0] - own[0]),
                    valid_bytes_behind=max(0, size - before[1] - own[1]),
                    next_valid_position=finding.position if is_sound else following,
                    command=next_steps.salvage(Path(self._path).parent) if keeps_more else finding.command,
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
    """Return the shell command for the advice of a finding; None if there is no command."""
    if action in (RECOVER, RENAME):
        return next_steps.recover(Path(path).parent)
    if action in (AHEAD, EPOCH) or action.startswith(STOPS):
        return next_steps.salvage(Path(path).parent)
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
    (FAULT_NEGATIVE_LENGTH, "record-length"),
    (FAULT_CONTROL_KEY, "control-record"),
    (FAULT_MAX_TIMESTAMP, "max-timestamp"),
)


def _fault(window: Window, position: int, explain: Callable[[Window, int], list[FormatError]]) -> FindingTexts:
    """Return kind, expected, found and advice of the finding for the faulty batch at byte `position` of the file."""
    i = _row_at(window, position)
    row = BatchRow._make(window.batches.row(i))
    if row.magic < 0 or row.magic > 2:
        return "batch-magic", "magic 0, 1 or 2", f"magic {row.magic}", RECOVER if row.magic < 0 else _stops(row)
    if row.faults & FAULT_BAD_CRC:
        return "batch-crc", f"CRC {row.crc:#010x}, as stored", f"the bytes give {row.crc_computed:#010x}", RECOVER
    errors = explain(window, i)
    reason = errors[0].reason if errors else "unreadable"
    if row.faults & FAULT_SHORT_HEADER:
        return "batch-length", "room for the header", reason, RECOVER
    if errors and isinstance(errors[0], BadCodec):
        return "codec", "codec 0 to 4", reason, _stops(row)
    if errors and isinstance(errors[0], BadCompression | LimitExceeded):
        action = SALVAGE if isinstance(errors[0], LimitExceeded) else _stops(row)
        if isinstance(errors[0], BytesBehind):
            action = APPENDED
        return "decompression", "a payload that its codec decompresses", reason, action
    if errors and isinstance(errors[0], BadCount):
        return "record-count", f"{row.count:,} records", reason, _stops(row)
    for bit, kind in _RECORD_KINDS:
        if row.faults & bit and (not errors or not _is_structure(errors[0])):
            is_appended = _may_be_appended(row) if kind == "record-offsets" else kind in ("header-key", "record-length")
            return kind, "records as the batch says", reason, APPENDED if is_appended else SALVAGE
    return "record-structure", "a record", reason, _stops(row)


def _may_be_appended(row: BatchRow) -> bool:
    """Whether a leader may have appended a batch with wrong record offsets: it checks those of a producer only if the
    batch is compressed, but refuses one that has not as many offsets as records. The cleaner may remove records."""
    return row.magic == MAGIC and not row.codec and row.last_offset - row.base_offset + 1 >= row.count


def _stops(row: BatchRow) -> str:
    outcome = f"{STOPS}{row.base_offset:,} for good"
    return f"{outcome}: fetch the partition from another replica, or salvage what is sound, in a copy"


def _is_structure(error: FormatError) -> bool:
    from formats.errors import BadLength

    return isinstance(error, BadLength | BadMagic)


def _row_at(window: Window, position: int) -> int:
    """Return the index in a window of the batch that begins at byte `position` of the file."""
    low, high = 0, window.batches.count
    while low < high:
        middle = (low + high) // 2
        if window.batches.field(middle, POSITION) < position:
            low = middle + 1
        else:
            high = middle
    return low
