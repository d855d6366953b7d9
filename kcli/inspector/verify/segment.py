"""Checks a .log file in parts (windows): threads decode the records, and LogCheck receives the batches in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from formats.kernels.log_check import LogCheck
from formats.kernels.records import RecordTable
from kcli.inspector.verify.log_findings import LogFindings
from kcli.log.batch_records import decode, faults_of
from kcli.log.segment_reader import WINDOW_BYTES, Damage, Window, read_segment
from kcli.log.threads import in_order, thread_count

if TYPE_CHECKING:
    from kcli.log.source import Source

RECORDS_AT_ONCE = 4096  # records are decoded in tables of this number of rows, which fit into the processor's cache

Advance = Callable[[int], None]
Look = Callable[[Window, RecordTable, memoryview], None]


def check_log(
    source: Source,
    check: LogCheck,
    findings: LogFindings,
    *,
    advance: Advance,
    until: Callable[[], int | None],
    reached: Callable[[], None],
    after_window: Callable[[], None],
    look: Look | None = None,
) -> None:
    """Pass all batches of a segment to `check`, on which begin() was called, and call its end().

    findings: collects events and damage. advance: called with the number of bytes read. until: returns an offset at
    which to call `reached`, None for no more; reached: called before the first batch that has this offset or a higher
    one is passed to `check`. after_window: called after the batches of each window. look: called, by several threads,
    with each slice of a window's records, and the buffer that has their bytes.
    """
    sound = 0, 0
    for part in _decoded(source, look):
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


def _decode(part: Window | Damage, look: Look | None) -> Window | Damage:
    """Return the part of a .log file; in a window, the faults of the records are marked. look: see `check_log`."""
    if isinstance(part, Window):
        records = RecordTable(RECORDS_AT_ONCE)
        for buffer in decode(part, records):
            if look is not None:
                look(part, records, buffer)
    return part


def _decoded(source: Source, look: Look | None) -> Iterator[Window | Damage]:
    """Yield the parts of a .log file in order, with all records decoded; threads decode a few windows of a large file
    at once. look: see `check_log`."""
    return in_order(
        partial(_decode, look=look), read_segment(source), thread_count() if source.size() > WINDOW_BYTES else 1
    )
