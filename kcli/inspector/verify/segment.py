"""A log file, window by window: records decoded in threads, what spans batches in order behind them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from formats.errors import FormatError
from formats.kernels.log import LogCheck, RecordTable
from kcli.inspector.verify.log_findings import LogFindings
from kcli.log.batch_records import decode, faults_of
from kcli.log.segment_reader import WINDOW_BYTES, Damage, Window, read_segment

if TYPE_CHECKING:
    from kcli.log.source import Source

RECORDS_AT_ONCE = 4096  # rows that stay in the processor's cache; nobody looks at them
MAX_THREADS = 4

Advance = Callable[[int], None]


def check_control(batch: bytes) -> tuple[int, int, str | None]:
    """Type and coordinator epoch of the last record of a control batch that the kernel does not know by heart, and what
    is wrong with it."""
    from formats import control_record, record_batch

    kind, epoch = -1, -1
    try:
        for record in record_batch.parse_batch(batch).records:
            control = control_record.parse(record.key, record.value)
            kind = int(control.type)
            epoch = int(control.value["coordinatorEpoch"]) if control.type.is_marker else -1
    except FormatError as error:
        return -1, -1, error.reason
    return kind, epoch, None


def check_log(
    source: Source,
    check: LogCheck,
    findings: LogFindings,
    *,
    advance: Advance,
    until: Callable[[], int | None],
    reached: Callable[[], None],
    after_window: Callable[[], None],
) -> None:
    """Run the whole file through `check`, which has begun the segment, and end it there.

    until() is an offset, or None; reached() is called when the next batch lies at or behind it, after_window() once the
    kernel has taken a window.
    """
    sound = 0, 0
    for part in _decoded(source):
        if isinstance(part, Damage):
            check.damage(part.position, part.length)
            findings.damage(part, *sound)
            advance(part.length)
            continue
        row = 0
        while row < part.batches.count:
            row = check.batches(part.batches, part.data, row, until())
            if row < part.batches.count:
                reached()
        for event in check.events():
            findings.event(event, part, faults_of)
        after_window()
        sound = check.sound_batches, check.sound_bytes
        advance(part.stop)
        part.release()
    check.end()
    for event in check.events():
        findings.event(event, None, faults_of)


def _decode(window: Window) -> Window:
    records = RecordTable(RECORDS_AT_ONCE)
    for _ in decode(window, records):
        pass
    return window


def _decoded(source: Source) -> Iterator[Window | Damage]:
    """The parts of a log whose batches' record faults are known, in order; a few windows are under way at once."""
    parts = read_segment(source)
    if source.size() <= WINDOW_BYTES:
        for part in parts:
            yield _decode(part) if isinstance(part, Window) else part
        return
    from concurrent.futures import Future, ThreadPoolExecutor

    threads = min(MAX_THREADS, os.cpu_count() or 1)
    pending: deque[Future[Window] | Damage] = deque()

    def taken() -> Window | Damage:
        first = pending.popleft()
        return first if isinstance(first, Damage) else first.result()

    with ThreadPoolExecutor(threads) as pool:
        for part in parts:
            pending.append(part if isinstance(part, Damage) else pool.submit(_decode, part))
            if len(pending) > threads:
                yield taken()
        while pending:
            yield taken()
