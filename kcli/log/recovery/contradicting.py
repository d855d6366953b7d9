"""Runs of batches that are not the log's own, although their offsets have room in it: other batches of the .log file
have some of the same offsets, and go on with their neighbours.

A run is a stretch of adjacent sound batches without damage or missing offsets between them. Of two runs that have
different batches at the same offsets, one is the log's own if it is in sequence with a batch next to it in another run:
a batch of the same producer and epoch, and as many sequence numbers away as offsets. If only one of the two is in
sequence, the other is another partition's, as where a write went to the wrong file and the right one has lost it, or
that of a log that was cut here.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from formats.kernels.columns import BatchRow
from kcli.log.recovery.readable import in_sequence

RUNS_MAX = 1024
"""The maximum number of runs of one .log file that are compared."""


@dataclass(frozen=True, slots=True)
class _Run:
    """Batches number [start, stop) of a .log file, and the first and the last of them."""

    start: int
    stop: int
    first: BatchRow
    last: BatchRow


def contradicting(count: int, row: Callable[[int], BatchRow]) -> Iterator[int]:
    """Yield the numbers of the batches that are in runs which are not the log's own. count: the number of sound batches
    of the .log file. row: returns the batch with a number, in the order of the file."""
    runs = sorted(_runs(count, row), key=lambda run: run.first.base_offset)
    if len(runs) > RUNS_MAX:
        return
    dropped: set[int] = set()
    for number, one in enumerate(runs):
        for other in runs[number + 1 :]:
            if other.first.base_offset > one.last.last_offset or {one.start, other.start} & dropped:
                break
            if not _differ(one, other, row):
                continue
            rest = [run for run in runs if run not in (one, other) and run.start not in dropped]
            are_own = [_is_in_sequence(run, rest) for run in (one, other)]
            if are_own[0] != are_own[1]:
                dropped.add((other if are_own[0] else one).start)
    for run in runs:
        if run.start in dropped:
            yield from range(run.start, run.stop)


def _runs(count: int, row: Callable[[int], BatchRow]) -> Iterator[_Run]:
    start, first, last = 0, None, None
    for number in range(count):
        each = row(number)
        if last is not None and (each.position, each.base_offset) != (last.position + last.size, last.last_offset + 1):
            assert first is not None, "it is set with `last`"
            yield _Run(start, number, first, last)
            first = None
        if first is None:
            start, first = number, each
        last = each
    if first is not None and last is not None:
        yield _Run(start, count, first, last)


def _differ(one: _Run, other: _Run, row: Callable[[int], BatchRow]) -> bool:
    """Return whether two runs have different batches at the first offset that both have."""
    offset = max(one.first.base_offset, other.first.base_offset)
    if offset > min(one.last.last_offset, other.last.last_offset):
        return False
    batches = (row(_number_at(run, offset, row)) for run in (one, other))
    return len({(each.base_offset, each.crc, each.size) for each in batches}) > 1


def _number_at(run: _Run, offset: int, row: Callable[[int], BatchRow]) -> int:
    numbers = range(run.start, run.stop)
    return numbers[bisect_right(numbers, offset, key=lambda each: row(each).base_offset) - 1]


def _is_in_sequence(run: _Run, rest: list[_Run]) -> bool:
    """Return whether a run is in sequence with the last batch of a run before it, or with the first one of a run behind
    it. rest: the other runs, by their first offsets."""
    at = bisect_left(rest, run.first.base_offset, key=lambda each: each.first.base_offset)
    before = max((each.last for each in rest[:at]), key=lambda each: each.last_offset, default=None)
    behind = rest[at].first if at < len(rest) else None
    is_behind = before is not None and before.last_offset < run.first.base_offset and in_sequence(before, run.first)
    return is_behind or (
        behind is not None and behind.base_offset > run.last.last_offset and in_sequence(run.last, behind)
    )
