"""Missed logs: .log.deleted, .log.swap and .log.cleaned files that Kafka deletes when it starts, although the
partition's log lacks their offsets.

Kafka renames the files of a segment to .deleted in three cases, after which the remaining log still has the segment's
offsets, or no longer needs them: retention (they are below the first segment), compaction and splits of segments
(another segment has replaced this one), truncation (they are at or above the log end offset). A .log.deleted file that
none of these cases explains is a missed log. The offsets of a missed log lie

    between two segments            if the .log.deleted file of the segment before it shows no cleaning that may have
                                    merged the two; in a compacted topic also then, see below
    after the last segment          below an offset that, by the checkpoints, the log had reached
    directly below the first one    if the first leader epoch begins at or below its batches: retention would have
                                    raised the log start offset, and with it the start of the first leader epoch. This
                                    entry alone may be wrong: the log is not missed if by its size or its timestamps
                                    retention can have deleted it (kcli.log.recovery.retention)

A .log.deleted file is also a missed log if the .log file of its own name is empty, though the indexes of that one have
entries: the .log file was emptied afterwards.

In a compacted topic gaps are normal, and the cleaner may have left nothing of a segment. There the records decide: a
missed log is lost only if the topic needs some of its records (kcli.log.recovery.superseded).

If .cleaned files exist, the cleaner had not yet renamed all of its output to .swap. Kafka then deletes, when it starts,
the .log.swap files whose base offset is at or above the lowest one of a .cleaned file, because the segments that they
were to replace still exist. If these segments are gone, only the .log.swap file has their batches: it is a missed log
by the same rules. All other .log.swap files replace their segments at the start, and are not missed. A .log.cleaned
file, too, is a missed log if neither the segment that it was to replace nor a .log.deleted file has its offsets.

A .log.swap file that was lost as a whole (`lost_swaps`) replaces nothing: the .log.deleted files from which it was made
are missed logs by the same rules. Kafka's start deletes them first, and then perhaps fails at the .log.swap file.

Source: LogLoader.removeTempFilesAndCollectSwapFiles, LocalLog.replaceSegments.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace

from formats.checkpoint import parse_leader_epochs
from formats.errors import FormatError
from formats.file_name import FileKind, FileName, parse
from formats.kernels.columns import BatchRow
from kcli.log.leader_epochs import FILE_NAME as LEADER_EPOCHS
from kcli.log.partition_view import SMALL_FILE_BYTES, Content, ContentSource
from kcli.log.recovery.retention import Retention, largest_timestamp
from kcli.log.recovery.superseded import Needed, needed_records
from kcli.log.recovery.swap import has_all_batches_of
from kcli.log.segment_reader import Damage, Window, read_segment

SUFFIX = ".deleted"
INDEXES = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)
ENTRY_BYTES = 8
"""The bytes at the beginning of an index of which one is not 0 if the index has an entry."""
NEVER = 2**63
"""An offset above all others."""


@dataclass(frozen=True, slots=True)
class MissedLog:
    """The files of a segment whose .log file is a missed log, and the first and last offset of its batches. suffix:
    .deleted, .swap or .cleaned; the restored files have names without it. replaced: the files that give way to the
    restored ones: an emptied .log file and its indexes. needed: for a compacted topic, those records of the missed log
    that the topic needs, perhaps none; None for any other topic, which needs all records."""

    base_offset: int
    last_offset: int
    names: tuple[str, ...]
    suffix: str = SUFFIX
    replaced: tuple[str, ...] = ()
    needed: Needed | None = None

    @property
    def is_lost(self) -> bool:
        """Whether records are lost if the missed log is not restored."""
        return self.needed is None or self.needed.records > 0

    @property
    def right_names(self) -> dict[str, str]:
        """The names that the files get when they are restored, without `suffix`, by their present names."""
        return {name: name.removesuffix(self.suffix) for name in self.names}


def first_cleaned(names: Iterable[FileName]) -> int:
    """Return the lowest base offset of a .cleaned file: a start deletes the .swap files at or above this offset.
    Returns NEVER if there is no .cleaned file."""
    return min((name.base_offset or 0 for name in names if name.state == "cleaned"), default=NEVER)


def lost_swaps(files: Mapping[str, Content]) -> set[str]:
    """Return the .swap files of each segment whose .log.swap file is empty, or has no batch at its beginning, and has
    no batch that the .log and .log.deleted files lack. files: as in `missed_logs`. Raises UnreadableInput."""
    suffixes = FileKind.LOG, f"{FileKind.LOG}{SUFFIX}"
    logs = [content for name, content in files.items() if name.endswith(suffixes)]
    swaps = (each for each in files.items() if each[0][:20].isdecimal() and each[0].endswith(f"{FileKind.LOG}.swap"))
    lost = {name[:20] for name, content in swaps if _lacks_begin(name, content) and has_all_batches_of(logs, content)}
    return {name for name in files if name.endswith(".swap") and name[:20] in lost}


def _lacks_begin(name: str, content: Content) -> bool:
    with closing(ContentSource(name, content)) as source:
        return not isinstance(next(read_segment(source), None), Window)


def missed_logs(
    files: Mapping[str, Content],
    *,
    reached: int,
    is_compacted: bool,
    log_start_offset: int = 0,
    is_tiered: bool = False,
    retention: Retention | None = None,
) -> list[MissedLog]:
    """Return the missed logs (see the module) in a partition's directory, by offset.

    files: the content of the directory's files by name. reached: the offset that, by the checkpoints, the log had
    reached. log_start_offset: the partition's entry in log-start-offset-checkpoint, 0 if there is none. is_compacted:
    whether the topic is compacted. is_tiered: whether the topic has tiered storage, so that retention of the local log
    changes neither the log start offset nor the leader epochs. retention: the topic's; None if it has none, or if its
    configuration is not known. Raises UnreadableInput.
    """
    lost = lost_swaps(files)
    files = {name: content for name, content in files.items() if name not in lost}
    parsed = {name: found for name in files if (found := _parsed(name)) is not None and found.base_offset is not None}
    logs = {name: found for name, found in parsed.items() if found.kind is FileKind.LOG}
    lowest = first_cleaned(parsed.values())
    swaps = {found.base_offset or 0: name for name, found in logs.items() if found.state == "swap"}
    if min(swaps, default=lowest) < lowest:
        return []  # the start puts the .swap log into place
    cleaned = {found.base_offset or 0: name for name, found in logs.items() if found.state == "cleaned"}
    deleted = {found.base_offset or 0: name for name, found in logs.items() if found.state == "deleted"}
    deleted = swaps or {**cleaned, **deleted}
    if not deleted:
        return []
    live = {found.base_offset or 0: name for name, found in logs.items() if not found.state}
    live |= {found.base_offset or 0: name for name, found in logs.items() if not found.state and files[name].size}
    emptied = {base for base, name in live.items() if base in deleted and _was_emptied(files, base, name)}
    live = {base: name for base, name in live.items() if base not in emptied}
    emptied |= {int(name[:20]) for name in lost} - live.keys()
    bounds = _Bounds(files, live)
    missed = []
    first_epoch = None if is_tiered else next(iter(epoch_starts(files)), None)
    for base, name in _in_order(deleted, live):
        before = max((each for each in live if each < base), default=None)
        behind = min((each for each in live if each > base), default=None)
        if base in live:
            continue  # the cleaner has replaced this segment
        if not is_compacted and before is not None and live[before] != deleted.get(before, live[before]):
            continue  # the cleaner may have merged this segment into the one before it
        own, state = bounds.of(name), logs[name].state
        if own is None or own[0] < base:
            continue
        if before is None and own[1] < log_start_offset:
            continue
        is_begin = before is None and not any(each <= base for each in emptied)
        if (
            is_begin
            and behind is not None
            and (first_epoch is None or own[0] < first_epoch or (own[1] + 1 < behind and not is_compacted))
        ):
            continue  # retention deleted the segment
        if is_begin and behind is not None and state == "deleted" and _can_expire(files, name, live, retention):
            continue  # retention may have deleted the segment
        end = None if before is None else bounds.end(before)
        if (end is not None and end > base) or ((behind or reached) <= base and base not in emptied):
            continue
        if behind is not None and own[1] >= behind:
            continue
        if any(each < base < bounds.end(each) for each in list(live)):
            continue  # the cleaner has merged this segment into the one that has these offsets
        if state == "cleaned" and any(bounds.overlaps(each, own) for each in live.values()):
            continue  # the segment that the cleaner read, or the file that salvage in place replaces, still exists
        replaced = _files_of_segment(base, parsed) if base in emptied else ()
        missed.append(MissedLog(base, own[1], _files_of(base, parsed, state, replaced), f".{state}", replaced))
        live[base] = name
    missed.sort(key=lambda each: each.base_offset)
    return _with_needed(files, live, logs, missed) if is_compacted and missed else missed


def _parsed(name: str) -> FileName | None:
    """Return the parts of a file's name. A suffix in another case than Kafka's (.LOG) counts, too: Kafka does not read
    the file, and the offsets in it are not lost."""
    found = parse(name)
    other = parse(name.lower()) if found is None else None
    return other if other is not None and not other.state else found


def _with_needed(
    files: Mapping[str, Content], live: Mapping[int, str], logs: Mapping[str, FileName], missed: Iterable[MissedLog]
) -> list[MissedLog]:
    """Return the missed logs of a compacted topic, each with the records that the topic needs of it. logs: the parsed
    names of all .log files. live: the names of the segments' and the missed logs' .log files by base offset."""
    found = needed_records(
        files,
        {base: name for base, name in live.items() if not logs[name].state},
        {base: name for base, name in live.items() if logs[name].state},
    )
    return [replace(each, needed=found[each.base_offset]) for each in missed]


def _can_expire(files: Mapping[str, Content], name: str, live: Mapping[int, str], retention: Retention | None) -> bool:
    """Whether retention can have deleted the .log file `name`, which lies before all files of `live`."""
    if retention is None:
        return False
    if retention.by_size(sum(files[each].size for each in live.values())):
        return True
    return bool(retention.by_time(_timestamp(files, name), _timestamp(files, live[min(live)])))


def _timestamp(files: Mapping[str, Content], name: str) -> int:
    """Return the largest timestamp of the batches in a .log file."""
    source = ContentSource(name, files[name])
    try:
        return largest_timestamp(source)
    finally:
        source.close()


def _in_order(deleted: Mapping[int, str], live: Mapping[int, str]) -> list[tuple[int, str]]:
    """Return base offset and name of the .deleted files in the order in which they are examined: first those below all
    segments (`live`), the highest first, because each of these must end where the one above it begins; then the others,
    the lowest first."""
    first = min(live, default=0)
    below = sorted((each for each in deleted.items() if each[0] < first), reverse=True)
    return below + sorted(each for each in deleted.items() if each[0] >= first)


def epoch_starts(files: Mapping[str, Content]) -> list[int]:
    """Return the start offsets of the leader epochs, in the order of leader-epoch-checkpoint; none if it is missing,
    empty, or cannot be read."""
    content = files.get(LEADER_EPOCHS)
    if content is None or content.size > SMALL_FILE_BYTES:
        return []
    source = ContentSource(LEADER_EPOCHS, content)
    try:
        data = bytearray(content.size)
        return [each.start_offset for each in parse_leader_epochs(bytes(data[: source.read_at(0, memoryview(data))]))]
    except (FormatError, ValueError):
        return []
    finally:
        source.close()


def _was_emptied(files: Mapping[str, Content], base: int, log: str) -> bool:
    """Whether a .log file is empty, and an index of its segment has an entry. The cleaner may leave an empty .log file,
    but no entry beside it."""
    return not files[log].size and any(has_entry(files, f"{base:020}{kind}") for kind in INDEXES)


def has_entry(files: Mapping[str, Content], index: str) -> bool:
    """Whether an index has an entry: behind the last one, Kafka fills an index with zeros."""
    if index not in files:
        return False
    head = bytearray(ENTRY_BYTES)
    with closing(ContentSource(index, files[index])) as source:
        source.read_at(0, memoryview(head))
    return any(head)


def _files_of_segment(base: int, parsed: Mapping[str, FileName]) -> tuple[str, ...]:
    """Return the names of the .log file and the indexes of the segment with base offset `base`."""
    return tuple(
        name
        for name, found in sorted(parsed.items())
        if found.base_offset == base and not found.state and found.kind in (FileKind.LOG, *INDEXES, FileKind.TXN_INDEX)
    )


def _files_of(base: int, parsed: Mapping[str, FileName], state: str, replaced: Collection[str]) -> tuple[str, ...]:
    """Return the names of the files of the segment with base offset `base` that have the suffix `state`, except those
    whose name without the suffix exists, too, and is not among the `replaced`."""
    taken = parsed.keys() - {*replaced}
    return tuple(
        name
        for name, found in sorted(parsed.items())
        if found.base_offset == base and found.state == state and name.removesuffix(f".{state}") not in taken
    )


class _Bounds:
    """Reads the offsets of the batches in .log files. live: the names of the segments' .log files by base offset; the
    caller may add names later."""

    def __init__(self, files: Mapping[str, Content], live: Mapping[int, str]) -> None:
        self._files, self._live = files, live
        self._known: dict[str, tuple[int, int] | None] = {}

    def end(self, base: int) -> int:
        """Return the offset after the last batch of the segment with the base offset `base`; `base` if the segment has
        no batch."""
        found = self.of(self._live[base])
        return base if found is None else found[1] + 1

    def overlaps(self, name: str, bounds: tuple[int, int]) -> bool:
        """Whether batches in a .log file have offsets from the first to the last of `bounds`."""
        own = self.of(name)
        return own is not None and own[0] <= bounds[1] and bounds[0] <= own[1]

    def of(self, name: str) -> tuple[int, int] | None:
        """Return the first and last offset of the batches in a .log file; None if it has no batch."""
        if name not in self._known:
            self._known[name] = self._read(name)
        return self._known[name]

    def _read(self, name: str) -> tuple[int, int] | None:
        source = ContentSource(name, self._files[name])
        first, last = None, 0
        try:
            for part in read_segment(source):
                if not isinstance(part, Damage) and part.batches.count:
                    rows = [BatchRow._make(part.batches.row(at)) for at in (0, part.batches.count - 1)]
                    first = rows[0].base_offset if first is None else first
                    last = rows[-1].last_offset
        finally:
            source.close()
        return None if first is None else (first, last)
