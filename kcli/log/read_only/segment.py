"""A segment that is only read: nothing is written, no index is needed, damage is skipped.

The first survey reads and decompresses the whole file (`Survey`), later ones only the bytes appended since. A read
returns adjacent sound batches as a region of the file, and checks them again. The file may grow, be truncated, be
replaced or be deleted at any time.
"""

from __future__ import annotations

import logging
import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import compress
from operator import add
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from formats.kernels.batches import BatchTable
from formats.kernels.columns import BatchRow, RecordRow
from formats.kernels.records import RecordTable
from formats.kernels.scan import scan
from kcli.errors import UnreadableInput
from kcli.log.batch_records import decode
from kcli.log.live.segment import FoundRecord
from kcli.log.live.segments import FileRegion
from kcli.log.read_only.survey import BEGIN, CONTROL, TRANSACTIONAL, Columns, Piece, Survey, runs
from kcli.log.segment_reader import Damage, Window, read_segment
from kcli.log.source import FileSource

log = logging.getLogger("kcli.log")
WINDOW_BYTES_MIN, WINDOW_BYTES_MAX = 64 << 10, 4 << 20


class FileState(NamedTuple):
    """The inode, size and modification time (ns) of a file: if they differ, the file has changed."""

    inode: int
    size: int
    modified_ns: int


@dataclass(slots=True)
class Found:
    """Adjacent sound batches. region: None if the first batch alone is larger than the limit. transactions: for each
    transaction of the batches, the id of its producer and its first offset among them."""

    region: FileRegion | None
    transactions: list[tuple[int, int]]


class Place(NamedTuple):
    """A batch's first byte in the file, its size in bytes, and its base offset."""

    position: int
    size: int
    base_offset: int


class ReadOnlySegment:
    """One `.log` file. next_base: the base offset of the next segment; None for the last one."""

    def __init__(self, path: Path, base_offset: int, warn: Callable[[str], None] = log.warning) -> None:
        """warn: called with a line of text if the file cannot be read."""
        self._warn = warn
        self.path = path
        self.base_offset = base_offset
        self.next_base: int | None = None
        self._fd = -1
        self._fd_inode = 0
        self._survey = Survey()
        self._surveyed_state: FileState | None = None  # the state of the file when it was surveyed
        self._guard = Lock()

    def state(self) -> FileState | None:
        """The present state of the file; None if the file no longer exists."""
        try:
            stat = self.path.stat()
        except OSError:
            return None
        return FileState(stat.st_ino, stat.st_size, stat.st_mtime_ns)

    @property
    def size(self) -> int:
        """Bytes of the file."""
        state = self.state()
        return 0 if state is None else state.size

    @property
    def is_surveyed(self) -> bool:
        """Whether the file has been surveyed before, so that the next survey reads only the bytes appended since."""
        return self._surveyed_state is not None

    def is_current(self) -> bool:
        """Whether the file has not changed since it was surveyed."""
        return self.state() == self._surveyed_state

    def peek(self) -> int | None:
        """Return the base offset of the first sound batch, if that lies in the first WINDOW_BYTES_MIN bytes of the
        file, else None. Reads no more than these bytes."""
        if self.is_surveyed:
            return None if self._survey.first_offset < 0 else self._survey.first_offset
        try:
            source = FileSource(self.path)
            try:
                for part in read_segment(source, stop=WINDOW_BYTES_MIN, window_bytes=WINDOW_BYTES_MIN):
                    if isinstance(part, Window):
                        columns = self._columns(part)
                        return next(compress(columns.bases, columns.sound), None)
            finally:
                source.close()
        except (OSError, UnreadableInput) as error:
            self._warn(f"{self.path}: {error}")
        return None

    def survey(self) -> Survey:
        """Return the survey of the file's present content. The first call reads the whole file, later ones only what
        was appended."""
        state = self.state()
        if state is None or state == self._surveyed_state:
            return self._survey
        with self._guard:
            if state == self._surveyed_state:
                return self._survey
            surveyed = self._surveyed_state
            if surveyed is not None and (state.inode != surveyed.inode or state.size < self._survey.end):
                self._survey = Survey()
            try:
                self._extend(self._survey)
            except (OSError, UnreadableInput) as error:
                self._warn(f"{self.path}: {error}")
            self._surveyed_state = state
        return self._survey

    def _extend(self, survey: Survey) -> None:
        source = FileSource(self.path)
        try:
            for part in read_segment(source, start=survey.end):
                if isinstance(part, Window):
                    survey.judge(part)
                    survey.add(part, self.next_base)
                    part.release()
                    continue
                outcome = "nothing sound follows" if part.at_end else "passed over"
                log.info("%s: %d bytes @%d: %s (%s)", self.path, part.length, part.position, part.error.reason, outcome)
                if not part.at_end:  # damage at the end may be a batch that is being written: it is read again later
                    survey.damaged_bytes += part.length
                    survey.end = part.position + part.length
        finally:
            source.close()

    @property
    def fd(self) -> int:
        """A descriptor of the surveyed file, open for reading. Only one thread may use it. Raises OSError."""
        inode = self._surveyed_state.inode if self._surveyed_state is not None else 0
        if self._fd < 0 or self._fd_inode != inode:
            self.release()
            self._fd, self._fd_inode = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC), inode
        return self._fd

    def release(self) -> None:
        """Close the descriptor until its next use."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    # reading batches

    def windows(
        self, start: int, stop: int | None = None, window_bytes: int = WINDOW_BYTES_MIN
    ) -> Iterator[Window | Damage]:
        """Yield the batches in bytes [start, stop) of the file, as windows, and the damaged byte ranges between them.

        start: where a batch begins. stop: None for the end of the bytes surveyed so far. window_bytes: how many bytes
        to read at a time, more if a batch is larger. Raises UnreadableInput, OSError.
        """
        source = FileSource(self.path)
        stop = self._survey.end if stop is None else stop
        try:
            yield from read_segment(source, start=start, stop=stop, window_bytes=window_bytes)
        finally:
            source.close()

    def _columns(self, window: Window) -> Columns:
        return Columns(window.batches, self.next_base, self._survey.unreadable)

    def read(self, offset: int, limit: int, max_bytes: int, *, min_one_batch: bool) -> Found | None:
        """Return whole sound batches below offset `limit`, from the batch with `offset` on, or from the first one after
        `offset`; None if there is no such batch.

        max_bytes: of all batches; with min_one_batch the first batch may be larger. Raises UnreadableInput, OSError.
        """
        survey = self.survey()
        first = self._locate(survey, offset)
        if first is None or first.base_offset >= limit:
            return None
        if first.size > max_bytes and not min_one_batch:
            return Found(None, [])
        window_bytes = min(max(max_bytes, first.size, WINDOW_BYTES_MIN), WINDOW_BYTES_MAX)
        part = next(self.windows(first.position, window_bytes=window_bytes), None)
        if not isinstance(part, Window):
            return None
        columns = self._columns(part)
        count = columns.sound.index(False) if False in columns.sound else len(columns.sound)
        positions, sizes = columns["position"], columns["size"]
        ends = list(map(add, positions, sizes))
        count = min(count, max(1, bisect_right(ends, first.position + max_bytes)))
        if survey.is_ordered:
            count = bisect_left(columns.bases, limit, 0, count)
        else:
            count = self._count_in_turn(survey, columns, positions, limit, count)
        if count == 0:
            return None
        region = FileRegion(self.path, self.fd, first.position, ends[count - 1] - first.position)
        return Found(region, _transactions(columns, count))

    def _locate(self, survey: Survey, offset: int) -> Place | None:
        """Return the place of the batch with `offset`, else of the batch with the smallest offset above it; None if
        there is no such batch."""
        best: Place | None = None
        for piece in survey.pieces_from(offset):
            if best is not None and piece.first_offset >= best.base_offset:
                break
            place = self._first_in(piece, offset)
            if place is not None and (best is None or place.base_offset < best.base_offset):
                best = place
            if best is not None and (survey.is_ordered or best.base_offset <= offset):
                break
        return best

    def _first_in(self, piece: Piece, offset: int) -> Place | None:
        for part in self.windows(piece.start, piece.stop):
            if isinstance(part, Window):
                columns = self._columns(part)
                for i, (last, is_sound) in enumerate(zip(columns.lasts, columns.sound, strict=True)):
                    if last >= offset and is_sound:
                        return Place(columns["position"][i], columns["size"][i], columns.bases[i])
        return None

    def _count_in_turn(self, survey: Survey, columns: Columns, positions: list[int], limit: int, count: int) -> int:
        """Return how many of the first `count` batches to send to a client, for a file whose batches may be out of
        order: the count ends before a batch that must wait until batches of lower offsets, elsewhere in the file, are
        sent. positions: the bytes at which the batches begin. limit: the count also ends before a batch that begins at
        this offset or above."""
        bases, lasts = columns.bases, columns.lasts
        for i in range(count):
            if bases[i] >= limit:
                return i
            behind = lasts[i - 1] + 1
            if i == 0 or bases[i] == behind:
                continue
            found = self._locate(survey, min(behind, bases[i]))
            is_here = found is not None and found.position == positions[i]
            if is_here != (bases[i] > lasts[i - 1]):
                return i
        return count

    def end_of_transaction(self, producer: int, offset: int) -> tuple[int, int] | None:
        """Return how the producer's transaction with a record at `offset` ends: the offset and kind of the event, which
        is a marker (ABORT, COMMIT), or a batch that shows that the marker is missing (LOST). Return None if the
        transaction does not end in this segment."""
        survey = self.survey()
        begin = bisect_right(survey.event_offsets, offset) if survey.is_ordered else 0
        for at, producer_id, kind in survey.events(begin):
            if producer_id == producer and at > offset and kind != BEGIN:  # BEGIN is the first batch of a transaction
                return at, kind
        return None

    def sound_runs(self, from_offset: int) -> Iterator[tuple[BatchTable, bytearray]]:
        """Yield adjacent sound batches from `from_offset` on, with the buffer of their bytes. Raises UnreadableInput,
        OSError."""
        piece = next(self.survey().pieces_from(from_offset), None)
        if piece is None:
            return
        for part in self.windows(piece.start, window_bytes=WINDOW_BYTES_MAX):
            if isinstance(part, Damage):
                continue
            columns = self._columns(part)
            selected = [
                is_sound and base >= from_offset for base, is_sound in zip(columns.bases, columns.sound, strict=True)
            ]
            positions, sizes = columns["position"], columns["size"]
            for first, stop in runs(selected):
                table = BatchTable()
                begin, end = positions[first], positions[stop - 1] + sizes[stop - 1]
                scan(part.data, begin - part.position, end - part.position, begin, table, check_crc=False)
                yield table, part.data

    # finding records by timestamp

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp of a batch; -1: none."""
        return max((piece.max_timestamp for piece in self.survey().pieces_from(0)), default=-1)

    def find_time(self, timestamp: int, from_offset: int) -> FoundRecord | None:
        """Return the first record with an offset of at least `from_offset` and a timestamp of at least `timestamp`
        (ms); None if there is none. Raises UnreadableInput, OSError."""
        for piece in self.survey().pieces_from(from_offset):
            if piece.max_timestamp < timestamp:
                continue
            for part in self.windows(piece.start, piece.stop):
                if isinstance(part, Window):
                    found = self._find_time(part, timestamp, from_offset)
                    if found is not None:
                        return found
        return None

    def _find_time(self, window: Window, timestamp: int, from_offset: int) -> FoundRecord | None:
        records = RecordTable(256)
        columns = self._columns(window)
        for i, (latest, is_sound) in enumerate(zip(columns["max_timestamp"], columns.sound, strict=True)):
            if latest < timestamp or not is_sound:
                continue
            batch = BatchRow._make(window.batches.row(i))
            for _ in decode(window, records, first=i, last=i + 1):
                for k in range(records.count):
                    record = RecordRow._make(records.row(k))
                    if record.timestamp >= timestamp and record.offset >= from_offset:
                        return FoundRecord(record.timestamp, record.offset, batch.leader_epoch)
        return None


def _transactions(columns: Columns, count: int) -> list[tuple[int, int]]:
    """Return the transactions of the first `count` batches: the producer id and first offset of each among them."""
    attributes = columns["attributes"][:count]
    if not any(each & TRANSACTIONAL for each in set(attributes)):
        return []
    begun: set[int] = set()
    found: list[tuple[int, int]] = []
    for attribute, producer, base in zip(attributes, columns["producer_id"], columns.bases, strict=False):
        if not attribute & TRANSACTIONAL or producer < 0:
            continue
        if attribute & CONTROL:
            begun.discard(producer)
        elif producer not in begun:
            begun.add(producer)
            found.append((producer, base))
    return found
