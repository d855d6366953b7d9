"""A task of a live source: fetches a range of offsets from the partition's leader, as Arrow record batches.

    Fetch          the response begins with the batch that has the offset; a batch cut off at the end is fetched again
    aborted        with read_committed the response lists the aborted transactions among them: producer id and first
                   offset. A transaction ends at the producer's next abort marker, or after the response
    damage         a batch with a wrong CRC, or that cannot be decoded, ends the query; with onCorruption=skip it is
                   passed over with a warning, and the records before the damage are delivered
    data loss      offsets below the log start offset or above the log's end, a partition that was deleted: an error, or
                   with failOnDataLoss=false a warning

Kernels make record batches of the batches, as they do of a segment's on disk; no Python object is made of a record. A
task receives the next response while it decodes one: memory holds two responses at most. Source: KafkaDataConsumer,
CompletedFetch.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING

from formats.errors import BadValue, FormatError, Truncated
from formats.kernels.batches import drop_batches, odd_offsets
from formats.kernels.columns import BASE_OFFSET, FAULTS, LAST_OFFSET
from formats.kernels.records import RecordTable, drop_invalid
from kcli.client.aborted import aborted_ranges
from kcli.client.fetch_ahead import FetchAhead
from kcli.client.leaders import Leaderless
from kcli.client.log_reading import EARLIEST, LATEST, Fetched, LogReader, OffsetOutOfRange
from kcli.errors import KcliError
from kcli.export.options import Isolation, OnCorruption, SourceOptions
from kcli.export.reading import CORRUPT, MISPLACED, SLICE_RECORDS, next_unsound
from kcli.export.record_batches import RecordBatches
from kcli.export.splits import MAX_OFFSET, lost
from kcli.log.batch_records import decode, faults_of
from kcli.log.read_only.survey import UNSOUND
from kcli.log.segment_reader import Window, read_segment
from kcli.log.source import BytesSource
from kcli.pipelines.cluster import Cluster
from kcli.pipelines.planning import FetchRange

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("kcli.pipelines")
PAUSE_S = 0.1


class CorruptBatch(KcliError):
    """The leader has sent bytes that are no valid batch, and onCorruption=fail; or no sound batch follows them."""


def read(
    fetch_range: FetchRange, columns: Sequence[str], options: SourceOptions, cluster: Cluster
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a range of offsets as Arrow record batches with these columns, in the order of the log.
    Raises CorruptBatch, DataLoss, NobodyAnswers, ErrorAnswer; KcliError if the leader does not send all records of the
    range."""
    place, committed = fetch_range.partition, options.isolation is Isolation.READ_COMMITTED
    with (
        cluster.reader({place.topic}) as reader,
        FetchAhead(reader, place, cluster.fetch_bytes, committed=committed) as fetches,
    ):
        yield from _Task(fetch_range, columns, options, cluster, reader, fetches).batches()


class _Task:
    def __init__(
        self,
        fetch_range: FetchRange,
        columns: Sequence[str],
        options: SourceOptions,
        cluster: Cluster,
        reader: LogReader,
        fetches: FetchAhead,
    ) -> None:
        self._range, self._reader, self._cluster = fetch_range, reader, cluster
        self._fetches = fetches
        self._partition = fetch_range.partition
        self._options = options
        self._skips = options.on_corruption is not OnCorruption.FAIL
        self._rows = RecordBatches(self._partition, columns, include_control=options.include_control)
        self._records = RecordTable(SLICE_RECORDS)
        self._told = -1  # the offset of the damage in the last warning

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the range's record batches."""
        at, deadline = self._range.start, self._deadline()
        is_there = self._is_there()
        while is_there and at < self._range.end:
            try:
                fetched = self._fetches.fetch(at, self._range.end)
            except OffsetOutOfRange:
                following = self._in_range(at)
                if following > at:
                    at, deadline = following, self._deadline()
                elif time.monotonic() < deadline:
                    time.sleep(PAUSE_S)
                else:
                    raise
                continue
            if fetched is not None and fetched.records:
                at, deadline = (yield from self._answer(fetched, at)), self._deadline()
            elif time.monotonic() < deadline:
                time.sleep(PAUSE_S)
                is_there = self._is_there()
            else:
                self._give_up(fetched, at)
                break
        yield from self._rows.rest()

    def _deadline(self) -> float:
        return time.monotonic() + self._cluster.poll_timeout_s

    def _lost(self, what: str) -> None:
        lost(f"{self._partition}: {what}", fails=self._options.fail_on_data_loss)

    def _is_there(self) -> bool:
        """Whether the partition exists and its topic still has the id that it had when the query was planned; if not,
        report the loss."""
        described = self._reader.describe_patiently()
        if self._partition not in described.leaders:
            self._lost("it is not there any more")
        elif described.topic_ids[self._partition.topic] != self._range.topic_id:
            self._lost("its topic was deleted, and one of the same name was created")
        else:
            return True
        return False

    def _in_range(self, at: int) -> int:
        """After an OFFSET_OUT_OF_RANGE at offset `at`, return the next offset of the range that the log has: `at`
        itself if the log has this offset now; the end of the range if the log has no further offset of it."""
        start = self._reader.offsets([self._partition], EARLIEST).get(self._partition, at)
        if start > at:
            self._lost(f"offset {at:,} is gone, the log starts at {start:,}")
            return min(start, self._range.end)
        end = self._reader.offsets([self._partition], LATEST).get(self._partition)
        if end is None or end > at:
            return at
        self._lost(f"offset {at:,} is gone, the log ends at {end:,}")
        return self._range.end

    def _give_up(self, fetched: Fetched | None, at: int) -> None:
        """Raise the error for a range whose last records the leader does not send, or warn if the log ends before
        them."""
        if fetched is None:
            raise Leaderless(self._partition)
        if fetched.end < self._range.end:
            self._lost(f"offset {self._range.end - 1:,} is gone, the log ends at {fetched.end:,}")
            return
        raise KcliError(
            f"{self._partition}: the leader has sent no record from offset {at:,} on "
            f"for {self._cluster.poll_timeout_s:g} s (kafkaConsumer.pollTimeoutMs)"
        )

    # batches to records

    def _answer(self, fetched: Fetched, begin: int) -> Generator[pa.RecordBatch, None, int]:
        """Yield the record batches that a Fetch response completes; return the offset to fetch next."""
        at = begin
        aborted = list(fetched.aborted)
        for part in read_segment(BytesSource(fetched.records, str(self._partition)), resync=self._skips):
            if isinstance(part, Window):
                at = yield from self._window(part, aborted, at)
                part.release()
            elif at > begin and part.at_end and (self._skips or isinstance(part.error, Truncated)):
                break  # the batch is cut off, or is read again with the batch after it, from the next response
            else:
                self._damage(part.error, at)
            if at >= self._range.end:
                break
        if at == begin:
            raise CorruptBatch(f"{self._partition} at offset {at:,}: no sound batch is in the leader's answer")
        return at

    def _window(self, window: Window, aborted: list[tuple[int, int]], at: int) -> Generator[pa.RecordBatch, None, int]:
        batches, end = window.batches, self._range.end
        following = self._drop_unsound(window, at)
        ranges = aborted_ranges(window, aborted) if aborted else None
        batches.select(from_offset=at, to_offset=end)
        drop_batches(batches, control=not self._options.include_control, aborted=ranges)
        self._rows.begin(batches)
        for buffer in decode(window, self._records):
            self._records.select(from_offset=at, to_offset=end)
            if batches.first_fault() >= 0:
                drop_invalid(self._records)
            yield from self._rows.add(self._records, buffer)
        i = batches.first_fault()
        while i >= 0:
            if batches.field(i, FAULTS) & CORRUPT:
                self._damage(faults_of(window, i)[0], batches.field(i, BASE_OFFSET))
            i = batches.first_fault(i + 1)
        return following

    def _drop_unsound(self, window: Window, at: int) -> int:
        """Report and remove the batches of a window that a consumer refuses, and those that repeat offsets of earlier
        batches. Return the offset after the window; `at` if no batch of it can be read."""
        batches, following = window.batches, at
        if next_unsound(batches, 0) >= 0:
            following = self._report_unsound(window, at)
            drop_batches(batches, faults=UNSOUND)
        row, last = odd_offsets(batches, -1, 0, MAX_OFFSET)
        while row >= 0:
            shown = f"{batches.field(row, BASE_OFFSET):,} to {batches.field(row, LAST_OFFSET):,}"
            self._damage(BadValue(f"offsets {shown} come behind {last:,}"), at)
            batches.add_fault(row, MISPLACED)
            row, last = odd_offsets(batches, last, 0, MAX_OFFSET, row + 1)
        drop_batches(batches, faults=MISPLACED)
        return max(following, batches.field(batches.count - 1, LAST_OFFSET) + 1) if batches.count else following

    def _report_unsound(self, window: Window, begin: int) -> int:
        """Report the unsound batches of the range. Return the offset after the last batch of the window if no batch is
        sound but the last one's header may be right; otherwise `begin`. Where an unsound batch ends is known only from
        the batch after it, in this response or in the next one."""
        batches, at = window.batches, begin
        for i in range(batches.count):
            last = batches.field(i, LAST_OFFSET)
            if not batches.field(i, FAULTS) & UNSOUND:
                at = max(at, last + 1)
                if at >= self._range.end:
                    break
                continue
            self._damage(faults_of(window, i)[0], at)
            if i == batches.count - 1 and at == begin and at <= last < self._range.end:
                return last + 1
        return begin

    def _damage(self, error: FormatError, offset: int) -> None:
        """Raise CorruptBatch for damage at an offset; with onCorruption=skip log a warning, once for each offset."""
        if offset == self._told:
            return
        self._told = offset
        where = f"{self._partition} at offset {offset:,}"
        if not self._skips:
            raise CorruptBatch(f"{where}: {error.reason}; onCorruption=skip reads on behind it")
        log.warning("%s: %s; passed over", where, error.reason)
