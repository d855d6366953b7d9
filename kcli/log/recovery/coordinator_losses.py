"""Which groups or transactional ids lose records when a start cuts a coordinator's partition, by the keys in the sound
batches that are lost. The coordinator then loads an older state of these groups or transactional ids, or none.

Group ids and transactional ids in batches that cannot be read, or in missing files, are not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from formats.kernels.batches import FAULT_BAD_CRC
from formats.kernels.columns import BatchRow, RecordRow
from formats.kernels.records import RecordTable
from kcli.log.batch_records import UNREADABLE, decode
from kcli.log.partition_view import ContentSource
from kcli.log.recovery.coordinator_keys import KEYS_OF, hashed_keys
from kcli.log.recovery.loader import Event
from kcli.log.recovery.misdirected import Home, Run, lost_within
from kcli.log.recovery.salvage import Misdirected
from kcli.log.segment_reader import Damage, Window, read_segment
from kcli.log.source import FileSource

NAMES_MAX = 10_000
"""Once so many group ids or transactional ids are collected, no further batches are decoded to find more."""
RECORDS_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class LostState:
    """The groups or transactional ids of which a coordinator loses records. what: "group", "transactional id" or "share
    group"; names: the group ids or transactional ids, sorted.

    offsets: None if the lost records can be read, and have these names. Otherwise the first and the last offset of lost
    records that cannot be read: each of the names may have lost some of them.
    """

    what: str
    names: tuple[str, ...]
    offsets: tuple[int, int] | None = None


def lost_state(topic: str, events: Iterable[Event], home: Home | None = None) -> LostState | None:
    """Return the groups or transactional ids of which a broker's start deletes records. Returns None if no such record
    is deleted, or if `topic` is not the internal topic of a coordinator.

    topic: the topic of the partition. events: the changes of the start to the partition's log. home: the partition, if
    the number of its topic's partitions is known: names that belong to other partitions are left out. Raises
    UnreadableInput.
    """
    if topic not in KEYS_OF:
        return None
    names: set[str] = set()
    for event in events:
        if event.content is None:
            continue
        source = ContentSource(event.file, event.content)
        try:
            for part in read_segment(source, start=event.position or 0):
                if not isinstance(part, Damage) and len(names) < NAMES_MAX:
                    _add(home or Home(topic), part, names, partial(_is_lost, event))
                    part.release()
        finally:
            source.close()
    return LostState(KEYS_OF[topic], tuple(sorted(names))) if names else None


def hidden_state(home: Home, logs: Iterable[Path], start: int) -> LostState | None:
    """Return the groups or transactional ids that have records below the log start offset, which the coordinator does
    not load; None if there are none.

    home: the partition. start: the log start offset. logs: the .log files with offsets below it. Raises
    UnreadableInput.
    """
    names: set[str] = set()
    for path in logs:
        source = FileSource(path)
        try:
            for part in read_segment(source):
                if not isinstance(part, Damage) and len(names) < NAMES_MAX:
                    _add(home, part, names, lambda offset: offset < start)
                    part.release()
        finally:
            source.close()
    return LostState(KEYS_OF[home.topic], tuple(sorted(names))) if names else None


def overwritten_state(
    home: Home, directory: Path, misdirected: Iterable[Misdirected], reached: int
) -> LostState | None:
    """Return the groups or transactional ids that may have lost records because batches of other partitions were
    written over them: all those that have other records in the same .log file. Returns None if the partition lacks no
    offset around the batches of other partitions, or if the file has no group or transactional id.

    home: the partition. misdirected: the batches of other partitions in its .log files. directory: that of the
    partition, as it is before salvage. reached: the offset that the log had reached according to the checkpoints.
    Raises UnreadableInput.
    """
    names: set[str] = set()
    runs: list[Run] = []
    for each in misdirected:
        runs += each.runs
        source = FileSource(directory / each.file)
        try:
            for part in read_segment(source):
                if not isinstance(part, Damage) and len(names) < NAMES_MAX:
                    _add(home, part, names)
                    part.release()
        finally:
            source.close()
    offsets = lost_within(runs, reached)
    if offsets is None or not names:
        return None
    return LostState(KEYS_OF[home.topic], tuple(sorted(names)), offsets)


def _add(home: Home, window: Window, names: set[str], counts: Callable[[int], bool] = lambda _: True) -> None:
    """Add to `names` the group ids or transactional ids in the keys of the window's records, except the ids that belong
    to another partition of the coordinator's topic than `home`. counts(offset): whether the record at this offset
    counts."""
    records = RecordTable(RECORDS_AT_ONCE)
    for buffer in decode(window, records):
        for i in range(records.count):
            row = RecordRow._make(records.row(i))
            batch = BatchRow._make(window.batches.row(row.batch))
            if batch.is_control or batch.faults & (UNREADABLE | FAULT_BAD_CRC):
                continue
            if not counts(row.offset):
                continue
            key = row.key(buffer)
            if key is not None:
                found = hashed_keys(bytes(key), home.topic)
                names.update(name for name, text in found if home.has(text))


def _is_lost(event: Event, offset: int) -> bool:
    """Return whether the event loses the record at an offset of its file."""
    return offset >= event.from_offset and (event.offsets is None or event.offsets.has(offset))
