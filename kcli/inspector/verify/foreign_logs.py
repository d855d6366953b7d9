"""A .log file of another broker or of an older log, with a name and offsets that fit the partition.

The time index contradicts the .log file, but that alone does not show which of the two files is the foreign one. The
.log file is, if the time index agrees with a third file: the producer snapshot at the segment's end, or the segments
before and after.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from formats.producer_snapshot import ProducerEntry
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding
from kcli.inspector.verify.index_files import OFFSET_ENTRY_BYTES, IndexFile, load
from kcli.inspector.verify.lost_offsets import REFETCH
from kcli.inspector.verify.segment_names import log_name, read_header
from kcli.log.source import FileSource


def snapshot_agrees(times: IndexFile, entries: Sequence[ProducerEntry], max_timestamp: int) -> bool:
    """Return whether a producer snapshot at the end of a segment has the last timestamp of the segment's time index,
    and not the largest timestamp of its .log file (`max_timestamp`). entries: the producers in the snapshot."""
    timestamps = {entry.timestamp for entry in entries}
    return times.fields(times.count - 1)[0] in timestamps and max_timestamp not in timestamps


def neighbour_agrees(times: IndexFile, log: Path, before: Path | None, after: Path, max_timestamp: int) -> str | None:
    """Return, in words, how the timestamps of a .log file contradict those of the .log file before or after it, while
    those of its time index lie between them; None if they do not. max_timestamp: the largest timestamp in `log`. Raises
    UnreadableInput."""
    first, last = times.fields(0)[0], times.fields(times.count - 1)[0]
    lower = -1 if before is None else _first_timestamp(before)
    upper = _first_timestamp(after)
    if not lower <= first <= last <= upper:
        return None
    if _first_timestamp(log) > upper:
        return f"all its timestamps are later than the first of {after.name}"
    if before is not None and max_timestamp < lower:
        return f"all its timestamps are earlier than the first of {before.name}"
    return None


def fits_former_index(log: Path, base: int, former: Path) -> bool:
    """Return whether a .log file fits each entry of `former`, the offset index of a segment that Kafka has replaced, as
    the cleaner does, and was about to delete. Raises UnreadableInput."""
    if not former.is_file():
        return False
    index, _ = load(former, OFFSET_ENTRY_BYTES)
    source = FileSource(log)
    try:
        headers = ((relative, read_header(source, position)) for relative, position in index.all_fields())
        return index.count > 0 and all(each and each.last == base + relative for relative, each in headers)
    finally:
        source.close()


def foreign_log(log: Path, base: int, until: int, wrong: Sequence[str], agreeing: str) -> Finding:
    """Return the finding of a foreign .log file. base, until: the base offsets of its segment and of the next one.
    wrong: the entries of the indexes that do not fit it, in words. agreeing: what else contradicts the file."""
    return Finding(
        path=str(log),
        kind="log-foreign",
        severity="error",
        position=0,
        offset=base,
        expected=f"the log of {log_name(base)[: -len('.log')]}.timeindex",
        found=f"the log is sound in itself, but {', '.join(wrong)} fit none of its batches, and {agreeing}: offsets "
        f"{base:,}..{until - 1:,} have the records of another log",
        action=f"leave the indexes and snapshots, which are those of the lost log; {REFETCH.partition(' Without')[0]} "
        "Without either, consumers read the other log's records",
        command=next_steps.dump(log, base),
    )


def _first_timestamp(log: Path) -> int:
    """Return the largest timestamp of a .log file's first batch; -1 if it has none."""
    source = FileSource(log)
    try:
        header = read_header(source, 0)
    finally:
        source.close()
    return -1 if header is None else header.max_timestamp
