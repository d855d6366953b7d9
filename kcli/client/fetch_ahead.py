"""Fetches of one partition, one response ahead: while one is used, a thread receives the next. Memory holds two."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Self

from formats.kernels.batches import BatchTable
from formats.kernels.columns import LAST_OFFSET
from formats.kernels.scan import scan
from kcli.client.log_reading import Fetched, LogReader
from kcli.protocol.topic_partition import TopicPartition


class FetchAhead:
    """Fetches a partition; a context that ends with its thread. size: of a response, about. committed: as for
    LogReader.fetch_from."""

    def __init__(self, reader: LogReader, place: TopicPartition, size: int, *, committed: bool) -> None:
        self._fetching = partial(reader.fetch_from, place, max_bytes=size, committed=committed)
        self._ahead: tuple[int, Future[Fetched | None]] | None = None  # an offset, and the response to a Fetch at it
        self._thread = ThreadPoolExecutor(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown()

    def fetch(self, at: int, end: int) -> Fetched | None:
        """Return what LogReader.fetch_from returns for offset `at`, and send the next Fetch, if that is one below
        `end`; the next call waits for its response. Raises what fetch_from raises."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[0] != at:  # damage has moved the position elsewhere
            wait([ahead[1]])
            ahead = None
        fetched = (self._thread.submit(self._fetching, at) if ahead is None else ahead[1]).result()
        following = end_of(fetched.records) if fetched is not None else at
        if at < following < end:
            self._ahead = following, self._thread.submit(self._fetching, following)
        return fetched


def end_of(records: bytes) -> int:
    """Return the offset after the last whole batch of a Fetch response, by the batch's header; -1 without a batch."""
    batches = BatchTable()
    scan(records, 0, len(records), 0, batches, check_crc=False)
    return batches.field(batches.count - 1, LAST_OFFSET) + 1 if batches.count else -1
