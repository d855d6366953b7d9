"""The aborted transactions among the batches of a Fetch response."""

from __future__ import annotations

from array import array

from formats.kernels.columns import ATTRIBUTES, BASE_OFFSET, MAGIC, PRODUCER_ID, SIZE, START
from kcli.log.producer_state import marker_kind
from kcli.log.read_only.survey import ABORT, CONTROL
from kcli.log.segment_reader import Window

KNOWN_MAGIC = 2
MAX_OFFSET = (1 << 63) - 1


def aborted_ranges(window: Window, aborted: list[tuple[int, int]]) -> array[int]:
    """Return the aborted transactions in a window as an array for drop_batches: producer id, first and last offset of
    each, sorted by producer id and offset.

    aborted: producer ids and first offsets of the aborted transactions that have not ended before the window, from the
    Fetch response. The transactions that end in the window are removed from this list.
    """
    batches = window.batches
    producers = {producer for producer, _ in aborted}
    markers: dict[int, list[int]] = {}
    for i in range(batches.count):
        if not batches.field(i, ATTRIBUTES) & CONTROL or batches.field(i, MAGIC) < KNOWN_MAGIC:
            continue
        producer, start = batches.field(i, PRODUCER_ID), batches.field(i, START)
        if producer in producers and marker_kind(bytes(window.data[start : start + batches.field(i, SIZE)])) == ABORT:
            markers.setdefault(producer, []).append(batches.field(i, BASE_OFFSET))
    flat: array[int] = array("q")
    left: list[tuple[int, int]] = []
    for producer, first in sorted(set(aborted)):
        end = next((at for at in markers.get(producer, ()) if at >= first), None)
        flat.extend((producer, first, MAX_OFFSET if end is None else end))
        if end is None:
            left.append((producer, first))
    aborted[:] = left
    return flat
