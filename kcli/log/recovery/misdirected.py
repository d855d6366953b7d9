"""Batches of another partition in a coordinator's log (bytes that were written into the wrong file), found by the keys
of their records. A coordinator writes only records of its own partition into a batch, so that the first record of a
batch shows to which partition the batch belongs, or to which other coordinator's topic.

Kafka's start reads no keys: the coordinator loads such records together with its own, and ignores those of another
topic, whose place in the log they have taken. Transaction markers have no such key, and count as batches of the
partition whose log has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from formats.errors import FormatError
from formats.file_name import FileKind, parse
from formats.internal_topic import decode as decode_record
from formats.internal_topic import record_types
from formats.kernels.columns import BatchRow, RecordRow
from formats.kernels.records import RecordTable
from kcli.java.hashing import partition_of
from kcli.log.batch_records import ENDS_CONSUMERS, decode
from kcli.log.partition_view import Content, ContentSource
from kcli.log.recovery.coordinator_keys import HEAD, KEYS_OF, SHARE_TOPIC, hashed_keys
from kcli.log.segment_reader import Damage, Window, read_segment
from kcli.log.source import FileSource, Source

RECORDS_AT_ONCE = 4096
RUNS_MAX = 10_000
"""The largest number of runs of one .log file that are distinguished; all later batches are added to the last of
them."""
PREFIXES_KEPT = 1 << 16
WIDTH = len(RecordRow._fields)
KEY_START, KEY_LENGTH, BATCH = map(RecordRow._fields.index, ("key_start", "key_length", "batch"))


@dataclass(frozen=True, slots=True)
class Home:
    """The partition of a log. count: the number of partitions of its topic; 0 if the number is not known, or if the
    topic is not a coordinator's: then no batch counts as another partition's by its keys. mixed: the names of the .log
    files that have batches of this partition and of others; only in these are batches told apart. copied: by file name,
    base offset and CRC of the batches that are another partition's, by that partition's log (see foreign_blocks)."""

    topic: str
    number: int = -1
    count: int = 0
    mixed: frozenset[str] = frozenset()
    copied: Mapping[str, frozenset[tuple[int, int]]] = field(default_factory=dict)

    @property
    def has_keys(self) -> bool:
        """Whether the keys of the partition's records show to which partition they belong."""
        return self.count > 0 and self.topic in KEYS_OF

    @property
    def name(self) -> str:
        """The name of the partition's directory."""
        return f"{self.topic}-{self.number}"

    def has(self, hashed: str) -> bool:
        """Whether a record belongs to this partition. hashed: the text of its key that is hashed (see
        kcli.log.recovery.coordinator_keys)."""
        return not self.count or partition_of(hashed, self.count) == self.number


@dataclass(frozen=True, slots=True)
class Run:
    """Adjacent batches of another partition: bytes [position, end) of a .log file. owner: the name of that partition's
    directory; only of its topic, if that is another coordinator's. batches: their number. first_offset: the base offset
    of the first batch. last_offset: the last offset of the last. own_end: the offset after the last batch of the log's
    own partition before them. own_next: the base offset of the own partition's next batch after them. own_end and
    own_next are None if there is no such batch; own_end is the base offset in the file's name in a run by log. log: in
    a run by log, that partition's .log file. lacks: whether that file lacks these batches at the same byte."""

    position: int
    end: int
    first_offset: int
    last_offset: int
    owner: str
    batches: int = 1
    own_end: int | None = None
    own_next: int | None = None
    log: str = ""
    lacks: bool = False


def owners_of(
    home: Home, window: Window, records: RecordTable, buffer: memoryview, from_batch: int = -1
) -> Iterator[tuple[int, str]]:
    """Yield the row number of each sound batch after row `from_batch` whose first record is in this slice, with the
    partition to which that record's key belongs, as `Run.owner` has it; nothing for a control batch, and for a key that
    cannot be read.

    records: a slice of the window's records. buffer: the buffer to which their positions refer.
    """
    if not records.count:
        return
    with memoryview(records) as table, table.cast("B") as raw, raw.cast("q") as cells:
        rows = zip(
            cells[BATCH::WIDTH].tolist(),
            cells[KEY_START::WIDTH].tolist(),
            cells[KEY_LENGTH::WIDTH].tolist(),
            strict=True,
        )
    topic, own, count, is_short = home.topic, home.name, home.count, home.topic != SHARE_TOPIC
    known = record_types(topic)
    last = from_batch
    for batch, start, length in rows:
        if batch == last:
            continue
        last = batch
        if length < HEAD.size:
            continue
        end = start + length
        if int.from_bytes(buffer[start : start + 2], signed=True) not in known:
            owner = _other_topic(topic, bytes(buffer[start:end]))
        else:
            if is_short:  # the rest of the key, such as a topic's name, is not hashed
                end = min(end, start + HEAD.size + (buffer[start + 2] << 8 | buffer[start + 3]))
            owner = _owner(topic, count, bytes(buffer[start:end]))
        if owner is None:
            continue
        if owner != own:
            row = BatchRow._make(window.batches.row(batch))
            if row.is_control or row.faults & ENDS_CONSUMERS:
                continue
        yield batch, owner


@lru_cache(maxsize=PREFIXES_KEPT)
def _owner(topic: str, count: int, key: bytes) -> str | None:
    """Return the partition to which a key belongs, as `Run.owner` has it; None if the key cannot be parsed. count: the
    topic's number of partitions."""
    hashed = next((text for _, text in hashed_keys(key, topic)), None)
    return None if hashed is None else f"{topic}-{partition_of(hashed, count)}"


def _other_topic(topic: str, key: bytes) -> str | None:
    """Return the other coordinator's topic of whose records this is a whole key; None if there is none."""
    for other in KEYS_OF:
        if other != topic:
            with suppress(FormatError):
                if not decode_record(other, key, None).key_rest:
                    return other
    return None


def lost_within(found: Iterable[Run], reached: int) -> tuple[int, int] | None:
    """Return the first and the last offset that a log's own partition lacks around the batches of other partitions in
    the log; None if it lacks no offset there. found: these batches. reached: the log end offset that the checkpoints
    state, 0 if they have no entry: if none of the partition's own batches follows, the offsets below it are missing."""
    lost = [
        (run.first_offset if run.own_end is None else run.own_end, reached if run.own_next is None else run.own_next)
        for run in found
    ]
    lost = [(first, until) for first, until in lost if first < until]
    return (min(first for first, _ in lost), max(until for _, until in lost) - 1) if lost else None


def has_both(home: Home, window: Window, records: RecordTable, buffer: memoryview) -> tuple[bool, bool]:
    """Return whether batches of the home partition, and whether batches of others, begin in this slice of records; see
    `owners_of`."""
    owners = {owner for _, owner in owners_of(home, window, records, buffer)}
    return home.name in owners, bool(owners - {home.name})


def runs(name: str, content: Content, home: Home) -> list[Run]:
    """Return the runs of batches of other partitions in a .log file, in the order of the file.

    name: of the file, for messages. content: the file's bytes. home: the partition in whose directory the file is.
    Raises UnreadableInput.
    """
    return _runs(name, content, home)[0]


def _runs(name: str, content: Content, home: Home) -> tuple[list[Run], bool]:
    """Return the runs, and whether the file has a batch of `home`. Raises UnreadableInput."""
    found: list[Run] = []
    own_end: int | None = None
    has_own = False
    for row, owner in _rows(name, content, home):
        if owner is None or owner == home.name:
            has_own = has_own or owner is not None
            own_end = row.last_offset + 1
            _close(found, row.base_offset)
            continue
        last = found[-1] if found else None
        end = row.position + row.size
        if last is not None and (len(found) >= RUNS_MAX or (last.owner == owner and last.end == row.position)):
            found[-1] = replace(last, end=end, last_offset=row.last_offset, batches=last.batches + 1, own_next=None)
        else:
            found.append(Run(row.position, end, row.base_offset, row.last_offset, owner, own_end=own_end))
    return found, has_own


def has_only_others(source: Source, home: Home) -> bool:
    """Return whether the keys of a .log file's records belong to other partitions than `home`, and none to `home`.
    Raises UnreadableInput."""
    owners = {owner for _, owner in _rows_of(source, home) if owner is not None}
    return bool(owners) and home.name not in owners


def has_own_beside(log: Path, home: Home) -> bool:
    """Return whether another .log file in the directory of `log` has a batch of `home`. If none has, the whole
    directory may be another partition's. Raises UnreadableInput."""
    for path in sorted(log.parent.glob(f"*{FileKind.LOG}")):
        if path != log and parse(path.name) is not None:
            with closing(FileSource(path)) as source:
                if any(owner == home.name for _, owner in _rows_of(source, home)):
                    return True
    return False


def _close(found: list[Run], own_next: int) -> None:
    """Set `own_next`, the base offset of the own partition's next batch, in the runs that have none yet."""
    for at in range(len(found) - 1, -1, -1):
        if found[at].own_next is not None:
            break
        found[at] = replace(found[at], own_next=own_next)


def _rows(name: str, content: Content, home: Home) -> Iterator[tuple[BatchRow, str | None]]:
    """Yield the readable batches of a .log file, each with the partition of its first key; None if the key does not
    show it. Raises UnreadableInput."""
    with closing(ContentSource(name, content)) as source:
        yield from _rows_of(source, home)


def _rows_of(source: Source, home: Home) -> Iterator[tuple[BatchRow, str | None]]:
    records = RecordTable(RECORDS_AT_ONCE)
    for part in read_segment(source):
        if isinstance(part, Damage):
            continue
        owners: dict[int, str] = {}
        last = -1
        for buffer in decode(part, records):
            owners.update(owners_of(home, part, records, buffer, last))
            last = RecordRow._make(records.row(records.count - 1)).batch if records.count else last
        for i in range(part.batches.count):
            row = BatchRow._make(part.batches.row(i))
            if not row.faults & ENDS_CONSUMERS:
                yield row, owners.get(i)
        part.release()


def found_in(logs: Iterable[tuple[str, Content]], home: Home) -> dict[str, list[Run]]:
    """Return, by the name of the .log file, the runs of batches of other partitions in each file that has some; none if
    no file has a batch of `home`: then the whole directory may be another partition's. logs: names and contents of the
    files. home: the partition in whose directory the files are. Raises UnreadableInput."""
    found = {name: _runs(name, content, home) for name, content in logs} if home.has_keys else {}
    is_own = any(has_own for _, has_own in found.values())
    return {name: each for name, (each, _) in found.items() if each and is_own}
