"""Which groups or transactional ids lose records when a start cuts a coordinator's partition, by the keys in the sound
batches that are lost. The coordinator then loads an older state of these groups or transactional ids, or none. A record
does not count if the start keeps a later one of its key.

Group ids and transactional ids in batches that cannot be read, or in missing files, are not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

from formats.kernels.batches import FAULT_BAD_CRC
from formats.kernels.columns import BatchRow, RecordRow
from formats.kernels.records import RecordTable
from kcli.log.batch_records import UNREADABLE, decode
from kcli.log.partition_view import Content, ContentSource, offset_of
from kcli.log.recovery.coordinator_keys import KEYS_OF, hashed_keys
from kcli.log.recovery.loader import Event
from kcli.log.recovery.misdirected import Home, Run, lost_within
from kcli.log.recovery.salvage import Misdirected, is_log
from kcli.log.recovery.segment import OFFSET_MAX
from kcli.log.segment_reader import Damage, read_segment
from kcli.log.source import FileSource, Source

KEYS_MAX = 100_000
"""Once so many keys of records are collected, no further batches are decoded to find more."""
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


def lost_state(
    topic: str, events: Iterable[Event], home: Home | None = None, kept: Mapping[str, Content] | None = None
) -> LostState | None:
    """Return the groups or transactional ids of which a broker's start deletes records. Returns None if no such record
    is deleted, or if `topic` is not the internal topic of a coordinator.

    topic: the topic of the partition. events: the changes of the start to the partition's log. home: the partition, if
    the number of its topic's partitions is known: names that belong to other partitions are left out. kept: the files
    after the start. Raises UnreadableInput.
    """
    if topic not in KEYS_OF:
        return None
    lost: dict[bytes, int] = {}
    for event in events:
        if event.content is not None:
            source = ContentSource(event.file, event.content)
            _add(lost, source, partial(_is_lost, event), start=event.position or 0)
    _leave_out_older(lost, kept or {})
    names = _names(lost, home or Home(topic))
    return LostState(KEYS_OF[topic], names) if names else None


def hidden_state(home: Home, logs: Iterable[Path], start: int, kept: Mapping[str, Content]) -> LostState | None:
    """Return the groups or transactional ids that have records below the log start offset, which the coordinator does
    not load; None if there are none.

    home: the partition. start: the log start offset. logs: the .log files with offsets below it. kept: the files after
    Kafka's start. Raises UnreadableInput.
    """
    lost: dict[bytes, int] = {}
    for path in logs:
        _add(lost, FileSource(path), lambda offset: offset < start)
    _leave_out_older(lost, kept, start)
    names = _names(lost, home)
    return LostState(KEYS_OF[home.topic], names) if names else None


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
    keys: dict[bytes, int] = {}
    runs: list[Run] = []
    for each in misdirected:
        runs += each.runs
        _add(keys, FileSource(directory / each.file))
    offsets, names = lost_within(runs, reached), _names(keys, home)
    return None if offsets is None or not names else LostState(KEYS_OF[home.topic], names, offsets)


def _names(keys: Iterable[bytes], home: Home) -> tuple[str, ...]:
    """Return the group ids or transactional ids in the keys of records, sorted, except the ids that belong to another
    partition of the coordinator's topic than `home`."""
    return tuple(sorted({name for key in keys for name, text in hashed_keys(key, home.topic) if home.has(text)}))


def _leave_out_older(lost: dict[bytes, int], kept: Mapping[str, Content], start: int = 0) -> None:
    """Remove the keys from `lost` that have a later record, at the offset `start` or above, in the .log files among
    `kept`, the files after Kafka's start. lost: by key, the offset of its last lost record."""
    logs = sorted(name for name in kept if is_log(name))
    for name, following in pairwise([*logs, None]):
        first = min(lost.values(), default=OFFSET_MAX)
        if name is not None and (following is None or offset_of(following) > first):
            with closing(ContentSource(name, kept[name])) as source:
                for key, offset in _keys(source):
                    if lost.get(key, offset) < offset and offset >= start:
                        del lost[key]


def _add(
    keys: dict[bytes, int], source: Source, counts: Callable[[int], bool] = lambda _: True, start: int = 0
) -> None:
    """Add to `keys` the keys of the records in a .log file from byte `start` on, each with the offset of its last
    record; then close the source. counts(offset): whether the record at this offset counts."""
    with closing(source):
        for key, offset in _keys(source, start):
            if counts(offset):
                keys[key] = offset
            if len(keys) >= KEYS_MAX:
                return


def _keys(source: Source, start: int = 0) -> Iterator[tuple[bytes, int]]:
    """Yield key and offset of each record of a .log file from byte `start` on."""
    records = RecordTable(RECORDS_AT_ONCE)
    for part in read_segment(source, start=start):
        if isinstance(part, Damage):
            continue
        for buffer in decode(part, records):
            for i in range(records.count):
                row = RecordRow._make(records.row(i))
                batch = BatchRow._make(part.batches.row(row.batch))
                key = None if batch.is_control or batch.faults & (UNREADABLE | FAULT_BAD_CRC) else row.key(buffer)
                if key is not None:
                    yield bytes(key), row.offset
        part.release()


def _is_lost(event: Event, offset: int) -> bool:
    """Return whether the event loses the record at an offset of its file."""
    return offset >= event.from_offset and (event.offsets is None or event.offsets.has(offset))
