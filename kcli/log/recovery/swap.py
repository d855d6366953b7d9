"""Swap files that lack records of the .log files that they replace: compaction removes records, but never a key's last
value. In a topic that was never compacted, a swap file comes from the split of a segment, and has all batches.

    at fault      in a topic that was never compacted: swap files that lack a batch of the replaced .log files; in any
                  other topic: swap files because of which a key loses its last value. A key loses it if the key's last
                  record in the replaced .log files has a value, and after the start no .log file has a record of the
                  key at that offset or after it
    lost          if they are at fault: the batches of the replaced .log files that no other .log file has
    not judged    records without a key, control records, records of transactions (which may be aborted)

A start puts a .swap file into place without checking it, and deletes the .log files that it replaces. Source:
LogLoader.loadSegmentFiles, Cleaner.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing

from formats.kernels.columns import BatchRow, RecordRow
from formats.kernels.records import RecordTable
from kcli.log.batch_records import UNREADABLE, decode
from kcli.log.partition_view import Content, ContentSource
from kcli.log.recovery.salvage import Lost
from kcli.log.segment_reader import UNSOUND, Damage, Window, read_segment

ROWS = 4096
Files = Mapping[str, Content]


def lost_with_swap(replaced: Files, kept: Files, *, keeps_all: bool = False) -> dict[str, Lost]:
    """Return, by name, the batches that are lost with each of the replaced .log files; files without a loss are left
    out.

    kept: the .log files after the start, which has put the swap files into place. keeps_all: whether the topic was
    never compacted. Raises UnreadableInput.
    """
    if not keeps_all and not lost_last_values(replaced, kept):
        return {}
    bases = {batch.base_offset for name, content in kept.items() for batch in _batches(name, content)}
    lost = {name: _lost_of(name, content, bases) for name, content in replaced.items()}
    return {name: one for name, one in lost.items() if one.batches}


def is_sound(name: str, content: Content) -> bool:
    """Return whether all bytes of a .log file are batches without a fault. Raises UnreadableInput."""
    with closing(ContentSource(name, content)) as source:
        return all(isinstance(part, Window) and part.batches.first_fault() < 0 for part in read_segment(source))


def lost_last_values(replaced: Files, kept: Files) -> list[tuple[int, int]]:
    """Return the offset, and the base offset of the batch, of each record with a value that is a key's last one in the
    replaced .log files, if after the start no .log file (`kept`) has that record or a later one of the key. Lost
    tombstones do not count. Raises UnreadableInput."""
    last: dict[bytes, tuple[int, int, bool]] = {}
    for row, key, has_value, base_offset in _keyed_records(replaced):
        last[key] = row.offset, base_offset, has_value
    for row, key, _, _ in _keyed_records(kept):
        found = last.get(key)
        if found is not None and row.offset >= found[0]:
            del last[key]
    return sorted((offset, base_offset) for offset, base_offset, has_value in last.values() if has_value)


def _lost_of(name: str, content: Content, bases: set[int]) -> Lost:
    """Count the sound batches of a .log file, without batches that have one of the base offsets in `bases`."""
    lost = Lost()
    for batch in _batches(name, content):
        if batch.base_offset in bases or batch.faults & UNSOUND:
            continue
        lost.batches += 1
        lost.records += batch.count
        lost.first_offset = batch.base_offset if lost.first_offset is None else lost.first_offset
        lost.last_offset = batch.last_offset
    return lost


def has_all_batches_of(replaced: Iterable[Content], swap: Content) -> bool:
    """Whether each batch of a swap file has the base offset of a batch in the replaced .log files (compaction keeps
    base offsets).

    Raises UnreadableInput.
    """
    bases = {batch.base_offset for content in replaced for batch in _batches("", content)}
    return all(batch.base_offset in bases for batch in _batches("", swap))


def _batches(name: str, content: Content) -> Iterator[BatchRow]:
    source = ContentSource(name, content)
    try:
        for part in read_segment(source):
            if not isinstance(part, Damage):
                yield from (BatchRow._make(part.batches.row(i)) for i in range(part.batches.count))
    finally:
        source.close()


def _keyed_records(files: Files) -> Iterator[tuple[RecordRow, bytes, bool, int]]:
    """Yield row and key of each record, whether the record has a value, and the base offset of its batch; records that
    are "not judged" (see the module) are left out."""
    table = RecordTable(ROWS)
    for name in sorted(files):
        source = ContentSource(name, files[name])
        try:
            for part in read_segment(source):
                if isinstance(part, Damage):
                    continue
                batches = [BatchRow._make(part.batches.row(i)) for i in range(part.batches.count)]
                for buffer in decode(part, table):
                    for i in range(table.count):
                        row = RecordRow._make(table.row(i))
                        batch = batches[row.batch]
                        key = row.key(buffer)
                        is_judged = not (batch.is_control or batch.is_transactional or batch.faults & UNSOUND)
                        if is_judged and key is not None and not batch.faults & UNREADABLE:
                            yield row, bytes(key), row.value(buffer) is not None, batch.base_offset
                part.release()
        finally:
            source.close()
