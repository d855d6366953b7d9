"""Why a record is still in the log: what the cleaner would do now with every record of one key.

    superseded by N   a later record of the key is at offset N, and not in an aborted transaction: removed
    tombstone         the latest record, without a value: removed delete.retention.ms after its first cleaning
    aborted           a record of an aborted transaction: removed
    latest            kept

A record that would be removed may still be kept: if it is not in the cleanable part, if the dirty ratio is too
low, or if the offset map got full before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from formats.kernels.cleaner.key_map import KeyMap
from formats.kernels.cleaner.transactions import CLEAN_DISCARD, CLEAN_MARKER, CleanedTransactions
from formats.kernels.columns import BatchRow, RecordRow
from formats.kernels.records import RecordTable
from kcli.log.batch_records import UNREADABLE, decode
from kcli.log.cleaner.offset_map import Judged, build_offset_map, new_map, payload_of
from kcli.log.cleaner.partition import CleanerLog, StoredSegment
from kcli.log.cleaner.progress import Progress, silent
from kcli.log.cleaner.selection import Bound, Selection, select
from kcli.log.config import CleanerConfig, LogConfig
from kcli.log.threads import thread_count

ROWS = 1024


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """A record of the key that `explain_key` explains. segment: the base offset of its segment. delete_horizon_ms: that
    of its batch (KIP-534), None if the batch has none."""

    offset: int
    timestamp: int
    segment: int
    is_tombstone: bool
    is_aborted: bool
    delete_horizon_ms: int | None


@dataclass(frozen=True, slots=True)
class Fate:
    """The effect that the cleaner would have on a record now. is_dropped: whether it would remove the record. outcome:
    the record's state in words, see the module docstring. held_by, until_ms: what keeps in the log a record that would
    otherwise be removed, and until when (ms since 1970), if that is known."""

    record: KeyRecord
    is_dropped: bool
    outcome: str
    held_by: str | None = None
    until_ms: int | None = None


def explain_key(
    log: CleanerLog,
    config: LogConfig,
    broker: CleanerConfig,
    key: bytes,
    *,
    checkpoint: int | None,
    now_ms: int,
    progress: Progress = silent,
) -> tuple[Selection, list[Fate]]:
    """Return the part of the partition that may be cleaned, and for each record of the key, by offset, what the cleaner
    would do with it. checkpoint: the partition's entry in cleaner-offset-checkpoint, None if it has none. broker: the
    configuration of the broker's cleaner. Raises Uncleanable."""
    selection = select(log, config, checkpoint, now_ms)
    records = list(_records(log, key, progress))
    offset_map: KeyMap | None = None
    if config.compact and selection.worth_it and records:
        offset_map = new_map(broker.map_bytes, broker.dedupe_load_factor)
        start, stop = selection.first_dirty_offset, selection.first_uncleanable_offset
        build_offset_map(log, start, stop, offset_map, threads=thread_count(), progress=progress)
    latest = max((each.offset for each in records if not each.is_aborted), default=-1)
    judge = _Judge(log, config, selection, offset_map, key, latest, now_ms)
    return selection, [judge.fate(record) for record in records]


def _records(log: CleanerLog, key: bytes, progress: Progress) -> Iterator[KeyRecord]:
    transactions = CleanedTransactions()
    rows = RecordTable(ROWS)
    for segment in log.segments:
        transactions.add_aborted(log.aborted(segment.base_offset, log.next_base_offset(segment)))
        for window in segment.windows():
            flags = transactions.judge(window.data, window.batches, partial(payload_of, window))
            judged = Judged(segment, window, flags)
            for _ in decode(window, rows):
                rows.select(key=key)
                yield from _rows(rows, judged)
            judged.check(UNREADABLE)
            progress(window.stop)


def _rows(rows: RecordTable, judged: Judged) -> Iterator[KeyRecord]:
    for i in range(rows.count):
        row = RecordRow._make(rows.row(i))
        if judged.flags[row.batch] & CLEAN_MARKER:
            continue
        yield KeyRecord(
            offset=row.offset,
            timestamp=row.timestamp,
            segment=judged.segment.base_offset,
            is_tombstone=row.value_length < 0,
            is_aborted=bool(judged.flags[row.batch] & CLEAN_DISCARD),
            delete_horizon_ms=BatchRow._make(judged.window.batches.row(row.batch)).delete_horizon_ms,
        )


Held = tuple[str, int | None]  # what keeps a record in the log, and until when (ms) if that is known


def _stays(record: KeyRecord, outcome: str, held: Held) -> Fate:
    return Fate(record, is_dropped=False, outcome=outcome, held_by=held[0], until_ms=held[1])


class _Judge:
    def __init__(
        self,
        log: CleanerLog,
        config: LogConfig,
        selection: Selection,
        offset_map: KeyMap | None,
        key: bytes,
        latest: int,
        now_ms: int,
    ) -> None:
        self._active: StoredSegment = log.active
        self._config = config
        self._selection = selection
        self._reach = -1 if offset_map is None else offset_map.reach
        self._in_map = -1 if offset_map is None else offset_map.get(key)
        self._latest = latest
        self._now_ms = now_ms

    def fate(self, record: KeyRecord) -> Fate:
        """Return the effect that the cleaner would have on the record."""
        if record.is_aborted:
            return self._unless_held(record, "aborted")
        if record.offset < self._latest:
            return self._superseded(record)
        if not record.is_tombstone:
            return Fate(record, is_dropped=False, outcome="latest")
        return self._tombstone(record)

    def _superseded(self, record: KeyRecord) -> Fate:
        outcome = f"superseded by {self._latest:,}"
        fate = self._unless_held(record, outcome)
        if fate.is_dropped and self._in_map <= record.offset:
            return _stays(record, outcome, self._why_uncleanable(self._latest))
        return Fate(record, is_dropped=True, outcome=f"superseded by {self._in_map:,}") if fate.is_dropped else fate

    def _tombstone(self, record: KeyRecord) -> Fate:
        outcome = "latest, a tombstone"
        horizon = record.delete_horizon_ms
        if horizon is None:
            held = self._held(record.offset)
            return _stays(record, outcome, held or ("delete.retention.ms, which a first cleaning starts", None))
        if self._now_ms < horizon:
            return _stays(record, outcome, ("delete.retention.ms", horizon))
        return self._unless_held(record, outcome)

    def _unless_held(self, record: KeyRecord, outcome: str) -> Fate:
        held = self._held(record.offset)
        return Fate(record, is_dropped=True, outcome=outcome) if held is None else _stays(record, outcome, held)

    def _held(self, offset: int) -> Held | None:
        """Return what keeps the cleaner from cleaning this offset, and until when (ms; None: not known); None if
        nothing does."""
        selection = self._selection
        if not self._config.compact:
            return "cleanup.policy, which is not compact", None
        if offset >= selection.first_uncleanable_offset:
            return self._why_uncleanable(offset)
        if not selection.worth_it:
            if selection.cleanable_bytes == 0:
                return "nothing new: all of it up to here has been cleaned", None
            least = f"min.cleanable.dirty.ratio {selection.min_ratio}"
            return f"a dirty ratio of {selection.ratio:.2f}, not above {least}", None
        if offset > self._reach:
            return f"an offset map that is full at {self._reach + 1:,}: another pass", None
        return None

    def _why_uncleanable(self, offset: int) -> Held:
        selection = self._selection
        if offset >= self._active.base_offset:
            return "the active segment", None
        if offset < selection.first_uncleanable_offset:
            return "a segment that has not been cleaned since", None
        match selection.bound:
            case Bound.TRANSACTION:
                return f"the transaction that is open from {selection.bound_offset:,} on", None
            case Bound.HIGH_WATERMARK:
                return f"the high watermark {selection.bound_offset:,}", None
            case Bound.LAG:
                return "min.compaction.lag.ms", selection.bound_until_ms
        return "the active segment", None
