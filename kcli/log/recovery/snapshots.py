"""Producer snapshots that contradict the log of their partition or are missing, and the transactions that a start takes
from them.

Kafka loads a snapshot as it is, if its CRC is right: at a clean start the latest, after a crash the one at the base
offset of the segment that is recovered. So a snapshot of another partition is not noticed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path

from formats.errors import FormatError
from formats.file_name import FileKind, parse
from formats.kernels.columns import BASE_OFFSET
from formats.kernels.log_check import LogCheck
from formats.producer_snapshot import ProducerEntry
from formats.producer_snapshot import parse as parse_snapshot
from formats.txn_index import parse as parse_txn_index
from kcli.errors import StartRefused, UnreadableInput
from kcli.log.partition_directory import files_of_kind
from kcli.log.partition_view import PartitionView, offset_of
from kcli.log.producer_state import ProducerStateManager, check_control
from kcli.log.recovery.offset_ranges import OffsetRanges
from kcli.log.recovery.salvage import is_log, known_offsets
from kcli.log.recovery.segment import LONG_MAX, RecoverySegment
from kcli.log.segment_reader import Damage, read_segment
from kcli.log.snapshot_check import contradictions, lacking_transactions, reached_by
from kcli.log.source import read_whole
from kcli.log.text_mode import BeforeTextMode, TextMode, size_before

READ_BYTES = 16 << 20
"""How much of a log's end is read for open transactions, in bytes, if the snapshots tell of no producer."""


def wrong_snapshots(view: PartitionView) -> dict[str, str]:
    """Return, by name, the producer snapshots of a view that the log contradicts, each with its first contradiction in
    words.

    If there are snapshots, the whole log is read. Raises UnreadableInput.
    """
    snapshots = list(_snapshots(view))
    logs = [name for name in view.names() if is_log(name)]
    if not snapshots or not logs:
        return {}
    check = LogCheck(check_control, sequences=False)
    first_base = offset_of(logs[0])
    found: dict[str, str] = {}
    known: list[OffsetRanges] = []

    def is_missing(offset: int) -> bool:
        if not known:
            known.append(known_offsets(view))
        return any(known[0].lacking(offset, offset))

    def compare() -> None:
        offset, name, entries = snapshots.pop(0)
        wrong = next(contradictions(entries, offset, check, first_base, is_missing), None)
        if wrong is not None:
            found[name] = f"{wrong.found}; expected {wrong.expected}"

    for name, following in zip(logs, [*logs[1:], None], strict=True):
        check.begin(offset_of(name), LONG_MAX if following is None else offset_of(following))
        source = view.source(name)
        try:
            for part in read_segment(source):
                if isinstance(part, Damage):
                    check.damage(part.position, part.length)
                    continue
                row = 0
                while row < part.batches.count:
                    row = check.batches(part.batches, part.data, row, snapshots[0][0] if snapshots else None)
                    if row < part.batches.count:
                        compare()
                check.events()
                check.aborted()
                part.release()
        finally:
            source.close()
        check.end()
        check.events()
    while snapshots and snapshots[0][0] <= check.next_offset:  # a start deletes snapshots after the log's end
        compare()
    return found


def damaged_snapshots(view: PartitionView) -> dict[str, str]:
    """Return, by name, the producer snapshots of a view that cannot be parsed, each with the reason in words. Kafka
    removes such a snapshot only where it loads it. Raises UnreadableInput."""
    found: dict[str, str] = {}
    for name in _names(view):
        try:
            parse_snapshot(view.read(name))
        except FormatError as error:
            found[name] = error.reason
    return found


def snapshot_before_transfer(view: PartitionView, name: str) -> tuple[bytes, TextMode] | None:
    """Return the bytes that a damaged producer snapshot had before a transfer in text mode, and what that has done;
    None if there was no such transfer, as its CRC shows. Raises UnreadableInput."""
    for mode in TextMode:
        with closing(view.source(name)) as source:
            size = size_before(source, mode)
        if size is None:
            continue
        with closing(BeforeTextMode(view.source(name), mode)) as before:
            data = bytearray(size)
            before.read_at(0, memoryview(data))
        with suppress(FormatError):
            parse_snapshot(bytes(data))
            return bytes(data), mode
    return None


def _names(view: PartitionView) -> Iterator[str]:
    """Yield the names of the producer snapshots of a view, in order."""
    for name in view.names():
        parsed = parse(name)
        if parsed is not None and parsed.kind is FileKind.PRODUCER_SNAPSHOT and not parsed.state:
            yield name


def _snapshots(view: PartitionView) -> Iterator[tuple[int, str, Sequence[ProducerEntry]]]:
    """Yield offset, name and entries of each producer snapshot, in order. Snapshots that cannot be parsed are left out,
    because a start deletes them."""
    for name in _names(view):
        try:
            yield offset_of(name), name, parse_snapshot(view.read(name)).entries
        except FormatError:
            continue


def reached_by_snapshots(directory: Path, known: int, foreign: Collection[str] = ()) -> int:
    """Return the offset that a partition's log had reached according to its producer snapshots, or `known` if that is
    higher. known: an offset that the log had reached in any case. foreign: the names of files that are not the
    partition's own. A file that cannot be read is no evidence."""
    reached = known
    for offset, path in sorted(files_of_kind(directory, FileKind.PRODUCER_SNAPSHOT), reverse=True):
        if offset <= reached:
            break
        if path.name in foreign:
            continue
        try:
            entries = parse_snapshot(read_whole(path)).entries
        except (FormatError, UnreadableInput):
            continue
        reached = max(reached, reached_by(entries, offset))
    return reached


def latest_with(view: PartitionView, producer_id: int, first_offset: int) -> str | None:
    """Return the name of the latest snapshot in which the producer has a transaction open from `first_offset` on; None
    if there is no such snapshot. Raises UnreadableInput."""
    found = None
    for _, name, entries in _snapshots(view):
        if any((each.producer_id, each.current_txn_first_offset) == (producer_id, first_offset) for each in entries):
            found = name
    return found


def lost_markers(view: PartitionView, ongoing: Sequence[tuple[int, int]], end: int) -> dict[tuple[int, int], int]:
    """Return, by (first offset, producer id), the offsets of the abort markers that open transactions have in the
    transaction indexes of the view, at or after the log end offset: the log has lost these markers with its end.

    ongoing: the open transactions. end: the log end offset. Raises UnreadableInput, StartRefused.
    """
    found: dict[tuple[int, int], int] = {}
    for name in view.names() if ongoing else ():
        if not name.endswith(FileKind.TXN_INDEX):
            continue
        try:
            entries = parse_txn_index(view.read(name))
        except FormatError:
            continue  # a start deletes an index that cannot be parsed
        for each in entries:
            if each.last_offset >= end and (each.first_offset, each.producer_id) in ongoing:
                found[each.first_offset, each.producer_id] = each.last_offset
    return found


def unfounded_transactions(
    segments: Mapping[int, RecoverySegment], ongoing: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return those transactions of `ongoing` that are not open in the log.

    segments: the segments of the log, by base offset. ongoing: the transactions that are open in the producer state of
    a start, which comes in part from a producer snapshot; each is (first offset, producer id), as in the result.

    The log is read only from the lowest of these first offsets on. The result is empty if that part of the log is
    damaged or has gaps, or if the log begins above that offset. Raises UnreadableInput, StartRefused.
    """
    first = min((offset for offset, _ in ongoing), default=None)
    check = None if first is None else _checked_from(segments, first)
    if check is None:
        return []
    known = {(offset, producer_id) for producer_id, offset in check.open_transactions()}
    return [each for each in ongoing if each not in known]


def transactions_lacking_in(
    view: PartitionView, name: str, segments: Mapping[int, RecoverySegment], ongoing: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return the transactions that are open in the log and not after a start, as the producer snapshot that the start
    loads lacks them; each is (first offset, producer id).

    view: the directory before the start. name: the snapshot. segments: those of the log after the start, by base
    offset. ongoing: the transactions that are open after the start, as in the result.

    The log is read up to the snapshot, from the last batch on that the snapshot tells of. If the log has another one
    there, it is read from the snapshot before it on; but if neither has a producer, only if no more than READ_BYTES are
    to be read. Only if the snapshot lacks a transaction, the log is read to its end. The result is empty if what is
    read is damaged or has gaps. Raises UnreadableInput, StartRefused.
    """
    entries, end = parse_snapshot(view.read(name)).entries, offset_of(name)
    last = max(entries, key=lambda each: each.last_offset, default=None)
    check = None if last is None else _checked_from(segments, last.last_offset - last.offset_delta, end)
    if last is None or check is None or check.least(last.producer_id) != (last.producer_epoch, last.last_offset):
        first, before = _first_before(view, end, min(segments))
        may_read = entries or before or _bytes_from(segments, first) <= READ_BYTES
        check = _checked_from(segments, first, end) if may_read else None
    opened = [(each.producer_id, each.current_txn_first_offset) for each in entries]
    lacking = [] if check is None else lacking_transactions(opened, check.open_transactions())
    check = _checked_from(segments, min(first for _, first in lacking)) if lacking else None
    if check is None:
        return []
    known = [(producer_id, first) for first, producer_id in ongoing]
    return sorted((first, each) for each, first in lacking_transactions(known, check.open_transactions()))


def _first_before(view: PartitionView, offset: int, start: int) -> tuple[int, Sequence[ProducerEntry]]:
    """Return the first offset of the batches that show which transactions are open at a producer snapshot, and the
    entries of the snapshot before it. The offset is that of this other snapshot, or of a transaction that is open in
    it; `start`, the log's first offset, if there is no such snapshot. offset: that of the snapshot."""
    first: int = start
    before: Sequence[ProducerEntry] = ()
    for base, _, entries in _snapshots(view):
        if start <= base < offset:
            begun = (each.current_txn_first_offset for each in entries if each.current_txn_first_offset >= 0)
            first, before = max(start, min([base, *begun])), entries
    return first, before


def _bytes_from(segments: Mapping[int, RecoverySegment], first: int) -> int:
    """Return the size of the segment with offset `first`, and of those behind it."""
    begin = max((base for base in segments if base <= first), default=first)
    return sum(each.size for base, each in segments.items() if base >= begin)


def _checked_from(segments: Mapping[int, RecoverySegment], first: int, end: int = LONG_MAX) -> LogCheck | None:
    """Return the check of a log's batches from offset `first` on, and below `end`; None if that part of the log is
    damaged or has gaps, or if the log begins above `first`. segments: those of the log, by base offset. Raises
    UnreadableInput, StartRefused."""
    bases = sorted(segments)
    if not bases or first < bases[0]:
        return None
    check = LogCheck(check_control, sequences=False)
    begin = max(base for base in bases if base <= first)
    for base, following in zip(bases, [*bases[1:], LONG_MAX], strict=True):
        if base < begin or base >= end:
            continue
        start = segments[base].translate(first) if base == begin else 0
        check.begin(max(base, first), following)
        for part in segments[base].windows(start or 0) if start is not None else ():
            if isinstance(part, Damage):
                return None
            if not check.batch_count and base == begin and part.batches.field(0, BASE_OFFSET) > first:
                return None  # the index is wrong: reading began after the first transaction
            has_all = check.batches(part.batches, part.data, 0, end) == part.batches.count
            check.events()
            check.aborted()
            if not has_all:
                return None if check.breaks else check
        check.end()
        check.events()
    return None if check.breaks else check


def producers_of(
    view: PartitionView, segments: Mapping[int, RecoverySegment], start: int, now_ms: int, expiration_ms: int
) -> list[ProducerEntry]:
    """Return the producers that a log has batches of, as a start after a crash finds them, without those that have
    expired and have no transaction open; an empty list if the log contradicts itself, or cannot be read.

    segments: those of the log, by base offset. start: the log start offset. expiration_ms: producer.id.expiration.ms.
    """
    producers = ProducerStateManager(view, now_ms)
    try:
        for base in sorted(segments):
            segments[base].load_producers(producers, max(base, start), None)
    except (StartRefused, UnreadableInput):  # a clean start reads no batches, and so does not fail at these
        return []
    entries = map(ProducerEntry._make, producers.table.entries())
    return [each for each in entries if each.current_txn_first_offset >= 0 or now_ms - each.timestamp < expiration_ms]
