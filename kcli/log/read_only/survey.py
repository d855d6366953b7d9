"""The survey of one segment: where its sound batches lie, in pieces of the file, and where its transactions end.

    piece         some 16 KiB of the file: its bytes, its least and largest offset, its largest timestamp
    transactions  each begin and end of a producer's transaction: offset, producer id, kind

Only the `.log` file is read: indexes may be missing, wrong or damaged. In a damaged file, batches may be out of the
order of their offsets; pieces are found by offset nevertheless. Memory: 40 bytes a piece, 17 a marker.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate, islice
from operator import ge, gt
from typing import Final, NamedTuple

from formats.kernels.batches import FAULT_BAD_CRC, FAULT_BAD_MAGIC, FAULT_SHORT_HEADER, BatchTable
from formats.kernels.columns import FAULTS, POSITION, BatchRow
from formats.kernels.records import RecordTable
from kcli.log.batch_records import decode, is_readable
from kcli.log.producer_state import read_control
from kcli.log.segment_reader import Window

RECORDS_AT_ONCE: Final = 4096
PIECE_BYTES: Final = 16 << 10
BREAKS_MAX: Final = 1 << 16
UNREADABLE_MAX: Final = 1 << 16
UNSOUND: Final = FAULT_BAD_CRC | FAULT_BAD_MAGIC | FAULT_SHORT_HEADER
"""The faults with which no client accepts a batch, and at which most clients stop."""

ABORT, COMMIT, BEGIN, LOST = range(4)
"""The kinds of events in a producer's transactions. LOST: the producer's next batch has another epoch, or is not
transactional, which shows that the marker of its transaction is missing."""

CONTROL, TRANSACTIONAL = 0x20, 0x10
INT64_MAX = (1 << 63) - 1
_WIDTH = len(BatchRow._fields)
_COLUMNS = {name: i for i, name in enumerate(BatchRow._fields)}


class Piece(NamedTuple):
    """Bytes [start, stop) of the file and what is in them; offsets and timestamps of batches, not of single records."""

    start: int
    stop: int
    first_offset: int
    last_offset: int
    max_timestamp: int


class Columns:
    """The columns of a window's batches as lists. sound: whether each batch is served to clients. lasts: the last
    offset of each batch, or its base offset if that is higher.

    next_base: the base offset of the next segment; batches from there on are not served. unreadable: the positions of
    batches that no client can read, though their CRC is right.
    """

    def __init__(
        self, table: BatchTable, next_base: int | None, unreadable: set[int] | frozenset[int] = frozenset()
    ) -> None:
        self._cells = memoryview(table).cast("B").cast("q")
        self.bases, self.lasts = self["base_offset"], self["last_offset"]
        if not all(map(ge, self.lasts, self.bases)):
            self.lasts = list(map(max, self.lasts, self.bases))
        self.is_ordered = all(map(gt, islice(self.bases, 1, None), self.lasts))
        self.sound = self._sound(INT64_MAX if next_base is None else next_base)
        if unreadable:
            self.sound = [each and at not in unreadable for each, at in zip(self.sound, self["position"], strict=True)]

    def __getitem__(self, name: str) -> list[int]:
        return self._cells[_COLUMNS[name] :: _WIDTH].tolist()

    def _sound(self, limit: int) -> list[bool]:
        bases, faults = self.bases, self["faults"]
        if self.is_ordered and not any(faults) and bases[0] >= 0 and bases[-1] < limit:
            return [True] * len(bases)
        return [not fault & UNSOUND and 0 <= base < limit for base, fault in zip(bases, faults, strict=True)]


class Survey:
    """The batches that are known in the first `end` bytes of a segment's .log file. One thread adds to it while others
    read it."""

    def __init__(self) -> None:
        self.end = 0
        self.first_offset = self.last_offset = -1
        self.damaged_bytes = 0
        self.unreadable: set[int] = set()
        self.epochs: list[tuple[int, int]] = []  # each leader epoch with the first offset that has it
        self.event_offsets, self.event_producers, self.event_kinds = array("q"), array("q"), array("b")
        self._starts, self._stops, self._firsts, self._lasts, self._times = (array("q") for _ in range(5))
        self._open: dict[int, int] = {}  # producer epoch of each open transaction, by producer id
        self._breaks = 0
        # The numbers of the pieces in the order of their first offsets; and for each of these pieces the largest offset
        # in it and in all pieces before it in this order.
        self._order: tuple[list[int], list[int]] = [], []

    @property
    def is_ordered(self) -> bool:
        """Whether the batches lie in the file in the order of their offsets."""
        return self._breaks == 0

    def piece(self, i: int) -> Piece:
        """The i-th piece of the file."""
        return Piece(self._starts[i], self._stops[i], self._firsts[i], self._lasts[i], self._times[i])

    def judge(self, window: Window) -> None:
        """Decode all records of the next window. Add the positions of the batches that no client can read to
        `unreadable`, until it has UNREADABLE_MAX. To be called before `add`, which leaves these batches out."""
        records = RecordTable(RECORDS_AT_ONCE)
        for _ in decode(window, records):
            pass
        table = window.batches
        for i in range(table.count):
            faults = table.field(i, FAULTS)
            if not faults or faults & UNSOUND or len(self.unreadable) >= UNREADABLE_MAX:
                continue
            if not is_readable(window, i):
                self.unreadable.add(table.field(i, POSITION))

    def add(self, window: Window, next_base: int | None) -> None:
        """Add the batches of the next window. next_base: the base offset of the next segment; batches from there on are
        left out."""
        columns = Columns(window.batches, next_base, self.unreadable)
        bases, lasts = columns.bases, columns.lasts
        positions, sizes, times = columns["position"], columns["size"], columns["max_timestamp"]
        for first, stop in runs(columns.sound):
            for i, k in [(first, stop)] if columns.is_ordered else _growing(bases, lasts, first, stop):
                at = i
                while at < k:
                    to = max(at + 1, bisect_left(positions, positions[at] + PIECE_BYTES, at, k))
                    self._piece(
                        positions[at],
                        positions[to - 1] + sizes[to - 1],
                        bases[at],
                        lasts[to - 1],
                        max(times[at:to]),
                    )
                    at = to
        self._follow_epochs(columns["leader_epoch"], bases, columns.sound)
        self._follow_transactions(window, columns)
        self.end = window.position + window.stop

    def _piece(self, start: int, stop: int, first: int, last: int, timestamp: int) -> None:
        if self.first_offset < 0 or first < self.first_offset:
            self.first_offset = max(first, 0)
        follows = first > self.last_offset
        self.last_offset = max(self.last_offset, last)
        if not follows:
            self._breaks += 1
        if self._lasts and (stop - self._starts[-1] <= PIECE_BYTES if follows else self._breaks > BREAKS_MAX):
            self._stops[-1] = stop
            self._firsts[-1] = min(self._firsts[-1], first)
            self._times[-1] = max(self._times[-1], timestamp)
            self._lasts[-1] = max(self._lasts[-1], last)
            return
        self._starts.append(start)
        self._stops.append(stop)
        self._firsts.append(first)
        self._times.append(timestamp)
        self._lasts.append(last)  # appended last: another thread that counts _lasts finds the other fields complete

    # finding pieces by offset

    def pieces_from(self, offset: int) -> Iterator[Piece]:
        """Yield the pieces that have `offset` or offsets after it, in the order of their first offsets."""
        if self.is_ordered:
            for i in range(bisect_left(self._lasts, offset), len(self._lasts)):
                yield self.piece(i)
            return
        order, reach = self._in_order()
        for i in order[bisect_left(reach, offset) :]:
            if self._lasts[i] >= offset:
                yield self.piece(i)

    def _in_order(self) -> tuple[list[int], list[int]]:
        if len(self._order[0]) != len(self._lasts):
            order = sorted(range(len(self._lasts)), key=lambda i: (self._firsts[i], i))
            self._order = order, list(accumulate((self._lasts[i] for i in order), max))
        return self._order

    # leader epochs and transactions

    def _follow_epochs(self, epochs: list[int], bases: list[int], sound: Sequence[bool]) -> None:
        known = self.epochs[-1][0] if self.epochs else -1
        if max(epochs) <= known:
            return
        for epoch, base, is_sound in zip(epochs, bases, sound, strict=True):
            if is_sound and epoch > known:
                self.epochs.append((epoch, base))
                known = epoch

    def _follow_transactions(self, window: Window, columns: Columns) -> None:
        attributes = columns["attributes"]
        if not self._open and not any(each & TRANSACTIONAL for each in set(attributes)):
            return
        rows = zip(
            attributes,
            columns["producer_id"],
            columns["producer_epoch"],
            columns["magic"],
            columns.bases,
            columns["start"],
            columns["size"],
            columns.sound,
            strict=True,
        )
        for attribute, producer, epoch, magic, offset, start, size, is_sound in rows:
            if not is_sound or magic < 2 or producer < 0:
                continue
            if attribute & CONTROL:
                self._open.pop(producer, None)
                kind = read_control(bytes(window.data[start : start + size]))[1]
                if kind in (ABORT, COMMIT):
                    self._event(offset, producer, kind)
                continue
            known = self._open.get(producer)
            if known is not None and (known != epoch or not attribute & TRANSACTIONAL):
                del self._open[producer]
                self._event(offset, producer, LOST)
                known = None
            if known is None and attribute & TRANSACTIONAL:
                self._open[producer] = epoch
                self._event(offset, producer, BEGIN)

    def _event(self, offset: int, producer: int, kind: int) -> None:
        self.event_kinds.append(kind)
        self.event_producers.append(producer)
        self.event_offsets.append(offset)

    def events(self, begin: int = 0) -> Iterator[tuple[int, int, int]]:
        """Yield offset, producer id and kind (ABORT, COMMIT, BEGIN or LOST) of the transactions' events, in the order
        of the file, from the event numbered `begin` on."""
        for i in range(begin, len(self.event_offsets)):
            yield self.event_offsets[i], self.event_producers[i], self.event_kinds[i]


def _growing(bases: list[int], lasts: list[int], first: int, stop: int) -> Iterator[tuple[int, int]]:
    """Split the rows [first, stop) into runs in which offsets grow. Yields each run as [first, stop). bases, lasts: the
    first and last offset of each row."""
    begin = first
    for i in range(first + 1, stop):
        if bases[i] <= lasts[i - 1]:
            yield begin, i
            begin = i
    yield begin, stop


def runs(sound: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """Yield the runs of sound rows, each as [first, stop)."""
    if all(sound):
        yield 0, len(sound)
        return
    begin = -1
    for i, is_sound in enumerate(sound):
        if is_sound and begin < 0:
            begin = i
        elif not is_sound and begin >= 0:
            yield begin, i
            begin = -1
    if begin >= 0:
        yield begin, len(sound)
