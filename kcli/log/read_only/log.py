"""One partition's log, read without being opened for writes, also while a running Kafka writes it.

    log start        the offset in the checkpoint, if that lies within the log; else the first segment's first offset
    log end          after the last sound batch of the last segment, whether flushed or not
    high watermark   the log end offset, as the offset in the checkpoint lags behind the real high watermark
    last stable      the first offset of the first transaction without a marker, from the latest sound `.snapshot` and
                     the log after it
    aborted          from the markers in the log, without `.txnindex`
    leader epochs    leader-epoch-checkpoint, if it is sound and fits the log; else the batches

Segments are read when they are needed: the last one for the log end offset, others when a Fetch reaches them. `refresh`
finds changes. If `is_ready` is false, methods read whole files and take long; any thread may then call them.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from threading import Lock

from formats.checkpoint import parse_leader_epochs
from formats.errors import FormatError
from formats.file_name import FileKind, parse
from formats.kernels.producers import ProducerTable, follow_producers
from formats.producer_snapshot import ProducerEntry
from formats.producer_snapshot import parse as parse_snapshot
from formats.txn_index import AbortedTxn
from kcli.errors import UnreadableInput
from kcli.log.config import LogConfig
from kcli.log.leader_epochs import FILE_NAME as LEADER_EPOCHS
from kcli.log.leader_epochs import LeaderEpochCache
from kcli.log.live.partition_log import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    NONE,
    Isolation,
    LogFailed,
    OffsetOutOfRange,
)
from kcli.log.live.segment import FoundRecord
from kcli.log.live.segments import LogRead
from kcli.log.producer_state import read_control
from kcli.log.read_only.segment import ReadOnlySegment
from kcli.log.read_only.survey import ABORT, BEGIN, Survey
from kcli.log.source import read_whole

log = logging.getLogger("kcli.log")
TRUSTED_AGE_NS = 2_000_000_000  # a directory changed more recently may change again without a new modification time


class Producers:
    """The producer state of the log (`table`), which DescribeProducers reads."""

    def __init__(self, table: ProducerTable) -> None:
        self.table = table


class _OpenTransactions:
    """The first offset of each producer's open transaction (first_offsets), by producer id. survey: the Survey of the
    active segment, whose events are the begins and ends of transactions. applied: how many of the survey's events, from
    the first one on, first_offsets includes."""

    def __init__(self, survey: Survey, first_offsets: dict[int, int]) -> None:
        self.survey = survey
        self.applied = 0
        self.first_offsets = first_offsets

    def follow(self, survey: Survey, from_offset: int) -> None:
        """Apply the events of a survey that were not applied yet and are at from_offset or after it."""
        begin = self.applied if survey is self.survey else 0
        for offset, producer, kind in survey.events(begin):
            if survey is self.survey:
                self.applied += 1
            if offset < from_offset:
                continue
            if kind == BEGIN:
                self.first_offsets.setdefault(producer, offset)
            else:
                self.first_offsets.pop(producer, None)


class ReadOnlyLog:
    """The log of one partition: the methods of PartitionLog that only read."""

    def __init__(
        self,
        directory: Path,
        config: LogConfig,
        log_start_offset: int | None = None,
        *,
        warn: Callable[[str], None] = log.warning,
    ) -> None:
        """log_start_offset: the partition's entry in log-start-offset-checkpoint; None if it has none. warn: called
        with a line of text for each file that cannot be read."""
        self._warn = warn
        self.directory = directory
        self.config = config
        self._checkpoint_start_offset = log_start_offset
        self._guard = Lock()
        self._segments: list[ReadOnlySegment] = []
        # the directory's modification time (ns) when it was listed; and 1 if a change after the listing would certainly
        # have changed that time, so that an equal time means an unchanged directory; else 0
        self._listed: tuple[int, int] | None = None
        self._open: _OpenTransactions | None = None
        self._peeked: tuple[ReadOnlySegment, int] | None = None
        self._epochs: tuple[object, LeaderEpochCache] | None = None
        self.refresh()

    # listing the segments' files

    def refresh(self) -> bool:
        """List the directory again. Returns whether segments have come, gone or grown since the last time."""
        try:
            return self._list() | self._has_grown()
        except OSError as error:
            log.warning("%s: %s", self.directory, error)
            return False

    def _list(self) -> bool:
        stat = self.directory.stat()
        changed_ns = stat.st_mtime_ns
        if self._listed is not None:
            listed_ns, trusted = self._listed
            if listed_ns == changed_ns and trusted:
                return False
        now_ns = time.time_ns()
        trusted = now_ns - changed_ns > TRUSTED_AGE_NS
        with self._guard:
            known = {segment.path.name: segment for segment in self._segments}
            found = [
                known.get(name) or ReadOnlySegment(self.directory / name, base, self._warn)
                for base, name in sorted(segment_names(self.directory).items())
            ]
            has_changed = found != self._segments
            for segment, following in pairwise(found):
                segment.next_base = following.base_offset
            for segment in self._segments:
                if segment not in found:
                    segment.release()
            self._segments = found
            self._listed = changed_ns, int(trusted)
        return has_changed

    def _has_grown(self) -> bool:
        if not self._segments:
            return False
        active = self._segments[-1]
        return active.is_surveyed and not active.is_current()

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self._segments)

    def is_ready(self, offset: int | None = None, timestamp: int | None = None) -> bool:
        """Whether all segments that a read at `offset` (None: at the log end) or a search for `timestamp` needs have
        been surveyed, so that it need not read whole files."""
        segments = self._segments
        if not segments:
            return True
        if timestamp is not None and (timestamp >= 0 or timestamp == MAX_TIMESTAMP):
            return all(segment.is_surveyed for segment in segments)
        at_offset = segments[-1 if offset is None else self._index_of(offset)]
        return segments[-1].is_surveyed and at_offset.is_surveyed and self._open is not None

    def prepare(self, offset: int | None = None, timestamp: int | None = None) -> None:
        """Survey the segments that `is_ready` checks. Errors do not show here: the read or search that follows raises
        them."""
        if self.last_stable_offset and offset is not None:
            for segment in self._segments[self._index_of(offset) :]:
                if segment.survey().last_offset >= offset:
                    break
        if timestamp is not None:
            with suppress(OSError):
                self.offset_for_timestamp(timestamp)

    def release_handles(self) -> None:
        """Close the descriptors of the log's files; each is opened again at its next use."""
        for segment in self._segments:
            segment.release()

    def _index_of(self, offset: int) -> int:
        segments = self._segments
        for i in range(len(segments) - 1, 0, -1):
            if segments[i].base_offset <= offset:
                return i
        return 0

    # the log's offsets

    @property
    def log_end_offset(self) -> int:
        """The offset after the last sound batch."""
        segments = self._segments
        if not segments:
            return max(self._checkpoint_start_offset or 0, 0)
        survey = segments[-1].survey()
        if len(segments) == 1 and survey.last_offset >= 0:
            return survey.last_offset + 1
        return max(segments[-1].base_offset, survey.last_offset + 1)

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read: the entry of log-start-offset-checkpoint if it lies within the log, else
        the first segment's first offset."""
        end = self.log_end_offset
        first = min(self._first_offset(), end)
        stated = self._checkpoint_start_offset
        return first if stated is None or not first <= stated <= end else stated

    def _first_offset(self) -> int:
        """Return the base offset in the first segment's name, or that of its first batch if it is lower."""
        if not self._segments:
            return self.log_end_offset
        first = self._segments[0]
        if self._peeked is None or self._peeked[0] is not first:
            offset = first.peek()
            if offset is None:
                return first.base_offset
            self._peeked = first, offset
        return min(first.base_offset, self._peeked[1])

    @property
    def high_watermark(self) -> int:
        """The offset below which consumers read: the log end offset."""
        return self.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        """The offset below which read_committed consumers read: the first offset of the first open transaction, else
        the high watermark."""
        end = self.log_end_offset
        unstable = min(self._open_transactions(end).values(), default=end)
        return min(max(unstable, self.log_start_offset), end)

    def _open_transactions(self, end: int) -> dict[int, int]:
        if not self._segments:
            return {}
        active = self._segments[-1]
        survey = active.survey()
        with self._guard:
            known = self._open
            if known is None or known.survey is not survey:
                snapshot_offset, entries = self._latest_snapshot(end)
                first_offsets = {
                    each.producer_id: each.current_txn_first_offset
                    for each in entries
                    if each.current_txn_first_offset >= 0
                }
                known = self._open = _OpenTransactions(survey, first_offsets)
                for segment in self._segments[self._index_of(snapshot_offset) : -1]:
                    known.follow(segment.survey(), snapshot_offset)
                known.follow(survey, snapshot_offset)
            else:
                known.follow(survey, 0)
            return dict(known.first_offsets)

    def _latest_snapshot(self, offset: int) -> tuple[int, list[ProducerEntry]]:
        """Return offset and entries of the latest sound snapshot whose offset is not above `offset`; 0 and no entries
        if there is none."""
        try:
            names = [path.name for path in self.directory.iterdir()]
        except OSError as error:
            self._warn(f"{self.directory}: {error}")
            return 0, []
        parsed = [(name, parse(name)) for name in names]
        found = [
            (each.base_offset or 0, name)
            for name, each in parsed
            if each is not None and each.kind is FileKind.PRODUCER_SNAPSHOT and not each.state
        ]
        for at, file in sorted(found, reverse=True):
            if at > offset:
                continue
            try:
                return at, list(parse_snapshot(read_whole(self.directory / file)).entries)
            except (FormatError, UnreadableInput) as error:
                self._warn(f"{self.directory}/{file}: {error}: the log itself is read instead")
        return 0, []

    @property
    def producers(self) -> Producers:
        """The producers and their open transactions. None of them counts as expired, as it is not known when a broker
        last used the log. Raises LogFailed."""
        end = self.log_end_offset
        from_offset, entries = self._latest_snapshot(end)
        table = ProducerTable(read_control)
        for entry in entries:
            table.load(entry)
        try:
            for segment in self._segments[self._index_of(from_offset) :]:
                for batches, data in segment.sound_runs(from_offset):
                    follow_producers(table, batches, data)
                    if table.reason:
                        log.info("%s: %s", segment.path, table.reason)
        except (OSError, UnreadableInput) as error:
            raise LogFailed(str(error)) from error
        return Producers(table)

    def producer_entries(self) -> tuple[ProducerEntry, ...]:
        """Return the state of each producer, by producer id. Raises LogFailed."""
        return tuple(ProducerEntry._make(each) for each in self.producers.table.entries())

    # leader epochs

    def _leader_epochs(self) -> LeaderEpochCache:
        end = self.log_end_offset
        path = self.directory / LEADER_EPOCHS
        try:
            stat = path.stat()
            key: object = (stat.st_ino, stat.st_mtime_ns, end)
        except OSError:
            key = end
        if self._epochs is None or self._epochs[0] != key:
            self._epochs = key, self._read_epochs(path, end)
        return self._epochs[1]

    def _read_epochs(self, path: Path, end: int) -> LeaderEpochCache:
        try:
            entries = parse_leader_epochs(read_whole(path))
            cache = LeaderEpochCache(entries)
            if entries and len(cache.entries) == len(entries) and entries[0].start_offset <= end:
                cache.truncate_from_end(end)
                cache.truncate_from_start(self.log_start_offset)
                return cache
        except (FormatError, UnreadableInput, ValueError) as error:
            log.info("%s: %s: leader epochs are those of the batches", path, error)
        cache = LeaderEpochCache()
        for segment in self._segments:
            for epoch, offset in segment.survey().epochs:
                if cache.latest_epoch is None or epoch > cache.latest_epoch:
                    cache.assign(epoch, offset)
        cache.truncate_from_start(self.log_start_offset)
        return cache

    @property
    def latest_epoch(self) -> int | None:
        """The last leader epoch; None if there is none."""
        return self._leader_epochs().latest_epoch

    def offset_for_leader_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the largest known epoch not above `epoch`, and its end offset; for the other cases see
        LeaderEpochCache.end_offset_for."""
        return self._leader_epochs().end_offset_for(epoch, self.log_end_offset)

    # reading batches

    def read(
        self,
        offset: int,
        max_bytes: int,
        isolation: Isolation = Isolation.HIGH_WATERMARK,
        *,
        min_one_batch: bool = True,
    ) -> LogRead:
        """Return whole sound batches, from the batch with `offset` on, or from the first one after `offset`. The other
        arguments are those of PartitionLog.read.

        Raises OffsetOutOfRange, LogFailed.
        """
        start, end = self.log_start_offset, self.log_end_offset
        if not start <= offset <= end:
            raise OffsetOutOfRange(f"offset {offset:,} is not within {start:,} to {end:,}")
        limit = self.last_stable_offset if isolation is Isolation.TXN_COMMITTED else end
        if offset >= limit:
            return LogRead(None)
        try:
            for i in range(self._index_of(offset), len(self._segments)):
                segment = self._segments[i]
                found = segment.read(offset, limit, max_bytes, min_one_batch=min_one_batch)
                if found is None:
                    continue
                if found.region is None:
                    return LogRead(None, cut_short=True)
                with_aborted = isolation is Isolation.TXN_COMMITTED
                aborted = tuple(self._aborted(i, found.transactions)) if with_aborted else ()
                return LogRead(found.region, aborted=aborted)
        except (OSError, UnreadableInput) as error:
            self._listed = None
            raise LogFailed(str(error)) from error
        return LogRead(None)

    def _aborted(self, i: int, transactions: list[tuple[int, int]]) -> Iterator[AbortedTxn]:
        """Yield those of `transactions` that were aborted. transactions: the (producer id, first offset) of each. i:
        the index of the segment that has the transactions' batches; end markers are looked for in this segment and the
        later ones."""
        for producer, first in transactions:
            for segment in self._segments[i:]:
                end = segment.end_of_transaction(producer, first)
                if end is not None:
                    offset, kind = end
                    if kind == ABORT:
                        yield AbortedTxn(0, producer, first, offset, offset + 1)
                    break

    def offset_for_timestamp(self, timestamp: int) -> FoundRecord | None:
        """Return the same as PartitionLog.offset_for_timestamp. All segments up to and including the one with the
        record are read. Raises OSError."""
        if timestamp in (EARLIEST, EARLIEST_LOCAL):
            start = self.log_start_offset
            first = self._leader_epochs().entries[:1]
            return FoundRecord(NONE, start, first[0].epoch if first and first[0].start_offset <= start else NONE)
        if timestamp == LATEST:
            latest = self.latest_epoch
            return FoundRecord(NONE, self.log_end_offset, NONE if latest is None else latest)
        if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
            return FoundRecord(NONE, NONE, NONE)
        try:
            return self._find_largest() if timestamp == MAX_TIMESTAMP else self._find_time(timestamp)
        except UnreadableInput as error:
            raise OSError(str(error)) from error

    def _find_time(self, timestamp: int) -> FoundRecord | None:
        start = self.log_start_offset
        found = (segment.find_time(timestamp, start) for segment in self._segments)
        return next((each for each in found if each is not None), None)

    def _find_largest(self) -> FoundRecord | None:
        largest = max(self._segments, key=lambda segment: segment.max_timestamp, default=None)
        if largest is None or largest.max_timestamp < 0:
            return None
        return largest.find_time(largest.max_timestamp, self.log_start_offset)


def segment_names(directory: Path) -> dict[int, str]:
    """Return the file name of each segment's .log file, by base offset; that of the `.swap` file if the cleaner has
    not renamed it yet. Raises OSError."""
    whole: dict[int, str] = {}
    swapped: dict[int, str] = {}
    with os.scandir(directory) as entries:
        for entry in entries:
            name = parse(entry.name)
            if name is None or name.kind is not FileKind.LOG or name.remote_id is not None or not entry.is_file():
                continue
            assert name.base_offset is not None, "these names have an offset"
            if name.state in ("", "swap"):
                (swapped if name.state else whole)[name.base_offset] = entry.name
    return {**swapped, **whole}
