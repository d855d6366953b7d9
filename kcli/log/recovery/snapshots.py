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
from kcli.log.snapshot_check import contradictions, reached_by
from kcli.log.source import read_whole
from kcli.log.text_mode import BeforeTextMode, TextMode, size_before


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
    bases = sorted(segments)
    first = min((offset for offset, _ in ongoing), default=None)
    if first is None or not bases or first < bases[0]:
        return []
    check = LogCheck(check_control, sequences=False)
    begin = max(base for base in bases if base <= first)
    for base, following in zip(bases, [*bases[1:], LONG_MAX], strict=True):
        if base < begin:
            continue
        start = segments[base].translate(first) if base == begin else 0
        check.begin(max(base, first), following)
        for part in segments[base].windows(start or 0) if start is not None else ():
            if isinstance(part, Damage):
                return []
            if not check.batch_count and base == begin and part.batches.field(0, BASE_OFFSET) > first:
                return []  # the index is wrong: reading began after the first transaction
            check.batches(part.batches, part.data)
            check.events()
            check.aborted()
        check.end()
        check.events()
    if check.breaks:
        return []
    known = {(offset, producer_id) for producer_id, offset in check.open_transactions()}
    return [each for each in ongoing if each not in known]


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
