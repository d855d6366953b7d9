"""End markers of transactions that a damaged log has lost. They are written again if other files are evidence of them.

Without its marker a transaction stays open, and read_committed consumers stop at its first record for ever; or the
marker of the producer's next transaction ends both, and aborted records are read as committed.

abort    a transaction index has the offset of the marker, and no batch of the log has that offset
commit   a producer snapshot, or the beginning of the producer's next aborted transaction, shows that the transaction
         had ended; and the missing offsets are of segments whose transaction indexes do not list it as aborted

A marker is written at a missing offset; all batches stay as they are. Without such evidence a transaction stays open.
Source: TransactionIndex, ProducerStateManager, KIP-98.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from formats.control_record import ControlRecord, ControlType
from formats.control_record import build as build_control
from formats.errors import FormatError
from formats.file_name import FileKind, FileName, build, parse
from formats.kernels.columns import BatchRow
from formats.kernels.log_check import LogCheck
from formats.producer_snapshot import parse as parse_snapshot
from formats.record_batch import BatchHeader, Record, RecordBatch, build_batch
from formats.txn_index import AbortedTxn
from formats.txn_index import parse as parse_txn_index
from kcli.log.partition_view import Content, Part, PartitionView, offset_of
from kcli.log.producer_state import check_control
from kcli.log.recovery.segment import INT_MAX, LONG_MAX, OFFSET_MAX, RecoverySegment
from kcli.log.segment_reader import UNSOUND, Damage, read_segment

EPOCH_MAX = 2**15 - 1
GAPS_MAX = 1 << 16
MARKER = 1 << 5 | 1 << 4
"""The attributes of a batch that is a marker: control and transactional."""


@dataclass(frozen=True, slots=True)
class EndMarker:
    """A transaction marker that salvage writes at a missing offset. file: the .log file that gets the marker; source:
    the file that is the evidence for the marker; first_offset: the first offset of the transaction."""

    file: str
    offset: int
    producer_id: int
    type: ControlType
    first_offset: int
    source: str


class _Ended(NamedTuple):
    """Evidence in a file (source) that a producer's transaction that began below `offset` had ended by then.

    last: if the file is a producer snapshot, the producer's last offset and epoch in the snapshot; None if it is a
    transaction index. In the latter case the index says that the producer's next transaction begins at `offset`, and
    a batch of the log must confirm this.
    """

    offset: int
    producer_id: int
    source: str
    last: tuple[int, int] | None

    def is_told(self, begun: _Open, row: BatchRow | None) -> bool:
        """Whether this evidence shows that the transaction `begun` had ended. row: the batch that begins at `offset`.

        In a snapshot taken after a marker with a higher epoch (KIP-890), the producer has no last offset.
        """
        if self.last is None:
            return row is not None and (row.base_offset, row.producer_id) == (self.offset, self.producer_id)
        offset, epoch = self.last
        return offset >= begun.last.last_offset or (offset < 0 and epoch > begun.last.producer_epoch)


@dataclass(slots=True)
class _Known:
    """The evidence in transaction indexes and producer snapshots. aborted: the aborted transactions in the indexes;
    ended: the evidence of ended transactions; each with the file's name. coordinator_epochs: by producer id, the
    largest coordinator epoch in a snapshot. indexed: the base offsets of segments with a sound transaction index;
    bases: the offsets in the names of all files. cut: the .log files that have fewer bytes in the view than on disk."""

    aborted: list[tuple[AbortedTxn, str]] = field(default_factory=list)
    ended: list[_Ended] = field(default_factory=list)
    coordinator_epochs: dict[int, int] = field(default_factory=dict)
    indexed: set[int] = field(default_factory=set)
    bases: list[int] = field(default_factory=list)
    cut: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Open:
    """An open transaction: its first offset, and its last batch so far."""

    first_offset: int
    last: BatchRow


@dataclass(slots=True)
class _Missing:
    """Offsets `first` to `last`, both inclusive, that no batch has. log, position: the .log file, and the byte in it,
    where the missing batches belong.

    before: the batch before the missing ones. taken: those of the offsets at which a marker was written. is_known:
    whether it is known to which segments these offsets belonged: the .log file continues after them or has lost bytes
    at its end, or a file has `first` in its name.
    """

    first: int
    last: int
    log: str
    position: int
    before: BatchRow
    is_known: bool
    taken: set[int] = field(default_factory=set)


def write_end_markers(view: PartitionView) -> list[EndMarker]:
    """Write the lost end markers of transactions into the .log files of a view. Returns the markers. The indexes of the
    changed segments are removed: a start rebuilds them. The names of the .log files must be in the order of their
    offsets. Raises UnreadableInput, StartRefused."""
    known = _known(view)
    if not _logs(view) or not (known.aborted or known.ended) or not _lacks_offsets(view, known):
        return []
    search = _Search(known)
    for name in _logs(view):
        search.read(view, name)
    search.end()
    for name in {missing.log for missing, _, _ in search.found}:
        written = [
            (missing.position, marker.offset, data) for missing, marker, data in search.found if missing.log == name
        ]
        view.put(name, _with(view.files[name], written))
        for each in RecoverySegment(view, offset_of(name)).names:
            if each != name:
                view.remove(each)
    return [marker for _, marker, _ in search.found]


def _known(view: PartitionView) -> _Known:
    """Return the evidence about transactions in the transaction indexes on disk and the producer snapshots in the
    view."""
    known = _Known()
    before = view.unchanged()
    for name in before.names():
        parsed = parse(name)
        if parsed is None or parsed.base_offset is None or parsed.state:
            continue
        known.bases.append(parsed.base_offset)
        if parsed.kind is FileKind.LOG and name in view and view.size(name) < before.size(name):
            known.cut.add(name)
        try:
            if parsed.kind is FileKind.TXN_INDEX:
                entries = parse_txn_index(before.read(name))
                known.aborted += [(each, name) for each in entries if 0 <= each.first_offset < each.last_offset]
                known.ended += [_Ended(each.first_offset, each.producer_id, name, None) for each in entries]
                known.indexed.add(parsed.base_offset)
            elif parsed.kind is FileKind.PRODUCER_SNAPSHOT and name in view:
                for entry in parse_snapshot(view.read(name)).entries:
                    begun = entry.current_txn_first_offset
                    ended = parsed.base_offset if begun < 0 else begun
                    known.ended.append(
                        _Ended(ended, entry.producer_id, name, (entry.last_offset, entry.producer_epoch))
                    )
                    epoch = known.coordinator_epochs.get(entry.producer_id, 0)
                    known.coordinator_epochs[entry.producer_id] = max(epoch, entry.coordinator_epoch)
        except FormatError:
            continue
    known.bases = sorted({*known.bases, *map(offset_of, _logs(view))})
    known.aborted.sort(key=lambda each: each[0].last_offset)
    known.ended.sort(key=lambda each: each.offset)
    return known


def _lacks_offsets(view: PartitionView, known: _Known) -> bool:
    """Return whether offsets are missing between the batches of the log, or after its last batch up to a transaction
    end that is in `known`. The view must have a .log file."""
    check = LogCheck(check_control, sequences=False)
    logs = _logs(view)
    for name, following in zip(logs, [*logs[1:], None], strict=True):
        check.begin(offset_of(name), LONG_MAX if following is None else offset_of(following))
        source = view.source(name)
        try:
            for part in read_segment(source):
                if isinstance(part, Damage):
                    return True
                check.batches(part.batches, part.data)
                check.events()
                check.aborted()
                part.release()
        finally:
            source.close()
        check.end()
        check.events()
    reached = max((each.last_offset + 1 for each, _ in known.aborted), default=0)
    return bool(check.breaks) or max([reached, *(each.offset for each in known.ended)]) > check.next_offset


def _logs(view: PartitionView) -> list[str]:
    """Return the names of the .log files that Kafka opens, in the order of their offsets."""
    names = ((name, parse(name)) for name in view.names())
    bases = ((name, None if parsed is None else parsed.base_offset) for name, parsed in names)
    return [name for name, base in bases if base is not None and name == build(FileName(FileKind.LOG, base))]


class _Search:
    """Reads the batches of a partition in order, and finds the offsets at which markers are missing.

    found: for each lost marker, the range of missing offsets in which it was, the marker, and the batch of the marker.
    """

    def __init__(self, known: _Known) -> None:
        self._known = known
        self._producers = {each.producer_id for each in known.ended}
        self._open: dict[int, _Open] = {}
        self._gaps: list[_Missing] = []
        self._before: BatchRow | None = None
        self._log = ""
        self._end_position = 0
        self._next_aborted = self._next_ended = 0
        self._raises_epoch = False
        self.found: list[tuple[_Missing, EndMarker, bytes]] = []

    def read(self, view: PartitionView, name: str) -> None:
        """Read the batches of the next .log file. Raises UnreadableInput."""
        source = view.source(name)
        is_first = True
        try:
            for part in read_segment(source):
                if isinstance(part, Damage):
                    continue
                for i in range(part.batches.count):
                    row = BatchRow._make(part.batches.row(i))
                    if not row.faults & UNSOUND and row.last_offset >= row.base_offset >= 0:
                        self._take(name, row, is_first=is_first)
                        is_first = False
                part.release()
        finally:
            source.close()

    def _take(self, name: str, row: BatchRow, *, is_first: bool) -> None:
        before = self._before
        if before is not None and row.base_offset > before.last_offset + 1:
            self._miss(before, name, row, is_first=is_first)
        self._settle_ended(row.base_offset, row)
        self._skip_aborted(row.last_offset)
        if row.producer_id in self._producers and row.is_transactional:
            if row.is_control:
                ended = self._open.pop(row.producer_id, None)
                if ended is not None:
                    self._raises_epoch = row.producer_epoch > ended.last.producer_epoch
            elif row.producer_id in self._open:
                self._open[row.producer_id].last = row
            else:
                self._open[row.producer_id] = _Open(row.base_offset, row)
        if before is None or row.last_offset > before.last_offset:
            self._before = row
        self._log, self._end_position = name, row.position + row.size

    def _miss(self, before: BatchRow, name: str, row: BatchRow, *, is_first: bool) -> None:
        """Note the offsets that are missing between the batches `before` and `row`, and write the abort markers among
        them. Offsets from the base offset of the .log file `name` on were in this file, those below it at the end of
        the file before. is_first: whether `row` is the first batch of the file `name`."""
        first, last = before.last_offset + 1, row.base_offset - 1
        if not is_first:
            self._gap(_Missing(first, last, name, row.position, before, is_known=True))
            return
        base = offset_of(name)
        if first < base:
            self._gap(self._behind(before, min(last, base - 1)))
        if last >= base:
            self._gap(_Missing(max(first, base), last, name, row.position, before, is_known=True))

    def end(self) -> None:
        """Note all offsets after the last batch of the log as missing, and write the markers of which there is
        evidence (see the module's docstring) at these offsets. To be called after the last `read`."""
        before = self._before
        if before is not None and before.last_offset < OFFSET_MAX:
            self._settle_ended(before.last_offset + 1)
            self._gap(self._behind(before, OFFSET_MAX))
            self._settle_ended(OFFSET_MAX)

    def _behind(self, before: BatchRow, last: int) -> _Missing:
        """Return the missing offsets from after the batch `before`, the last of its .log file, up to and including
        `last`."""
        first = before.last_offset + 1
        is_known = self._log in self._known.cut or first in self._known.bases
        return _Missing(first, last, self._log, self._end_position, before, is_known)

    def _gap(self, gap: _Missing) -> None:
        """Note a range of missing offsets, and write the abort markers that were among them according to the
        transaction indexes."""
        self._gaps.append(gap)
        if len(self._gaps) > GAPS_MAX:
            del self._gaps[: GAPS_MAX // 2]
        aborted = self._known.aborted
        self._skip_aborted(gap.first - 1)
        while self._next_aborted < len(aborted) and aborted[self._next_aborted][0].last_offset <= gap.last:
            entry, source = aborted[self._next_aborted]
            self._next_aborted += 1
            begun = self._open.get(entry.producer_id)
            if begun is not None and self._is_of(entry, begun) and entry.last_offset not in gap.taken:
                self._write(gap, entry.last_offset, begun, ControlType.ABORT, source)

    def _is_of(self, entry: AbortedTxn, begun: _Open) -> bool:
        """Return whether the open transaction `begun` is the aborted one in `entry`: it begins at the entry's first
        offset, or after that offset if that offset is missing from the log."""
        if begun.first_offset <= entry.first_offset:
            return begun.first_offset == entry.first_offset
        at = bisect_right(self._gaps, entry.first_offset, key=lambda gap: gap.first) - 1
        return at >= 0 and entry.first_offset <= self._gaps[at].last

    def _skip_aborted(self, offset: int) -> None:
        """Skip the aborted transactions whose marker is at or below `offset`: no marker has to be written for them,
        because the log has batches at these offsets."""
        aborted = self._known.aborted
        while self._next_aborted < len(aborted) and aborted[self._next_aborted][0].last_offset <= offset:
            self._next_aborted += 1

    def _settle_ended(self, offset: int, row: BatchRow | None = None) -> None:
        """Write commit markers for the open transactions that the evidence shows to have ended at or below `offset`.
        row: the batch that begins at `offset`."""
        ended = self._known.ended
        while self._next_ended < len(ended) and ended[self._next_ended].offset <= offset:
            each = ended[self._next_ended]
            self._next_ended += 1
            begun = self._open.get(each.producer_id)
            if begun is not None and begun.first_offset < each.offset and each.is_told(begun, row):
                self._commit(each, begun)

    def _commit(self, ended: _Ended, begun: _Open) -> None:
        """Write a commit marker for the open transaction `begun`, which has ended according to `ended`, at a missing
        offset after its last batch, unless the transaction may have been aborted: that is so if a segment to which
        missing offsets belong is not known, or has no sound transaction index."""
        at = bisect_right(self._gaps, begun.last.last_offset, key=lambda gap: gap.first)
        gaps = [gap for gap in self._gaps[at:] if gap.first < ended.offset]
        if not gaps or not all(gap.is_known and self._is_indexed(gap, ended.offset) for gap in gaps):
            return
        for gap in reversed(gaps):
            highest = gap.first + len(gap.taken) if gap.last == OFFSET_MAX else min(gap.last, ended.offset - 1)
            for offset in range(highest, max(gap.first - 1, highest - len(gap.taken) - 1), -1):
                if offset not in gap.taken:
                    self._write(gap, offset, begun, ControlType.COMMIT, ended.source)
                    return

    def _is_indexed(self, gap: _Missing, end: int) -> bool:
        """Whether each segment that had missing offsets of `gap` below `end` has a sound transaction index."""
        bases = self._known.bases
        low = max(0, bisect_right(bases, gap.first) - 1)
        high = bisect_left(bases, min(gap.last + 1, end))
        return all(base in self._known.indexed for base in bases[low : max(high, low + 1)])

    def _write(self, gap: _Missing, offset: int, begun: _Open, kind: ControlType, source: str) -> None:
        if offset - offset_of(gap.log) > INT_MAX:
            return
        producer_id = begun.last.producer_id
        gap.taken.add(offset)
        epoch = self._known.coordinator_epochs.get(producer_id, 0)
        marker = EndMarker(gap.log, offset, producer_id, kind, begun.first_offset, source)
        producer_epoch = begun.last.producer_epoch
        if self._raises_epoch and producer_epoch < EPOCH_MAX:  # like the log's last marker, raise the epoch (KIP-890)
            producer_epoch += 1
        self.found.append((gap, marker, _batch(marker, begun.last, producer_epoch, gap.before, epoch)))
        del self._open[producer_id]


def _batch(marker: EndMarker, last: BatchRow, producer_epoch: int, before: BatchRow, coordinator_epoch: int) -> bytes:
    """Return the batch of a marker. last: the last batch of the transaction; before: the batch before the marker in the
    log. producer_epoch, coordinator_epoch: those of the marker."""
    key, value = build_control(ControlRecord(marker.type, 0, {"coordinatorEpoch": coordinator_epoch}))
    timestamp = max(last.max_timestamp, before.max_timestamp)
    header = BatchHeader(
        base_offset=marker.offset,
        batch_length=0,
        partition_leader_epoch=before.leader_epoch,
        magic=2,
        crc=0,
        attributes=MARKER,
        last_offset_delta=0,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=last.producer_id,
        producer_epoch=producer_epoch,
        base_sequence=-1,
        record_count=1,
    )
    return build_batch(RecordBatch(header, (Record(0, 0, 0, key, value, ()),)))


def _with(content: Content, written: Iterable[tuple[int, int, bytes]]) -> Content:
    """Return the content of a .log file with batches inserted. written: for each batch its position in `content`, its
    offset, and its bytes."""
    parts: tuple[Part, ...] = ()
    end = 0
    for position, _, data in sorted(written):
        parts += (*content.between(end, position).parts, data)
        end = position
    return Content((*parts, *content.between(end, content.size).parts))
