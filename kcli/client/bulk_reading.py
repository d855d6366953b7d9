"""A partition from its first record to the end that it has, as brokers send it: for what takes many records at once.

    Fetch -> windows of whole batches -> slices: tables of where records are in the bytes

Control batches are left out, and with `committed_only` the batches of aborted transactions. The reading ends before a
window with damage, and where brokers do not answer: a client that reads record by record goes on there, which can wait
and say what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from formats.kernels.batches import drop_batches, odd_offsets
from formats.kernels.columns import LAST_OFFSET
from formats.kernels.records import RecordTable
from kcli.client.aborted import MAX_OFFSET, aborted_ranges
from kcli.client.connection import Connection
from kcli.client.fetch_ahead import FetchAhead
from kcli.client.log_reading import EARLIEST, LATEST, Fetched, LogReader
from kcli.client.wire import AnyBroker
from kcli.errors import KcliError
from kcli.log.batch_records import decode
from kcli.log.segment_reader import Window, read_segment
from kcli.log.source import BytesSource
from kcli.protocol.topic_partition import TopicPartition

FETCH_BYTES = 8 << 20
SLICE_RECORDS = 1 << 14
TIMEOUT_S = 3.0


class Slice(NamedTuple):
    """Records that follow each other: where they are in `data`. Both are of use until the next slice."""

    records: RecordTable
    data: memoryview


class BulkReader:
    """Reads a partition. position: the offset from which another reader goes on; all before it has been yielded."""

    def __init__(self, connection: Connection, place: TopicPartition, *, committed_only: bool) -> None:
        self._brokers = AnyBroker(connection.bootstrap, TIMEOUT_S, connection.security())
        self._place, self._committed_only = place, committed_only
        self._records = RecordTable(SLICE_RECORDS)
        self.position = 0

    def slices(self) -> Iterator[Slice]:
        """Yield the records from the partition's first one to the end that it has now."""
        places, committed_only = [self._place], self._committed_only
        with LogReader(self._brokers, {self._place.topic}) as reader, suppress(KcliError):
            self.position = reader.offsets(places, EARLIEST).get(self._place, 0)
            end = reader.offsets(places, LATEST, committed=committed_only).get(self._place, 0)
            begin = -1
            with FetchAhead(reader, self._place, FETCH_BYTES, committed=committed_only) as fetches:
                while begin < self.position < end:
                    begin = self.position
                    fetched = fetches.fetch(begin, end)
                    if fetched is not None:
                        yield from self._slices_of(fetched)

    def _slices_of(self, fetched: Fetched) -> Iterator[Slice]:
        """Yield the records of a response, and move the position behind each window."""
        aborted = list(fetched.aborted)
        for window in read_segment(BytesSource(fetched.records, str(self._place))):
            if not isinstance(window, Window):
                return
            batches = window.batches
            following = batches.field(batches.count - 1, LAST_OFFSET) + 1
            if batches.first_fault() >= 0 or odd_offsets(batches, -1, 0, MAX_OFFSET)[0] >= 0:
                return
            ranges = aborted_ranges(window, aborted) if aborted else None
            batches.select(from_offset=self.position)
            drop_batches(batches, control=True, aborted=ranges)
            for data in decode(window, self._records):
                self._records.select(from_offset=self.position)
                if batches.first_fault() >= 0:
                    return
                yield Slice(self._records, data)
            if batches.first_fault() >= 0:
                return
            self.position = following
            window.release()
