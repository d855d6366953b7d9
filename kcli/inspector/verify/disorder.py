"""Sound batches of a .log file that are not in the order of their offsets: exchanged, moved, or repeated.

The check of the file reports each place at which offsets decrease or leave a gap, and so reports several findings for
one cause. This module compares the batches with their order by offset, and returns the one cause in words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from formats.kernels.columns import BatchRow
from kcli.log.partition_view import Content, FileRange

BATCHES_MAX = 1 << 18
"""A log with more batches than this is not compared."""


class Place(NamedTuple):
    """A batch: the byte where it begins, its first and last offset, and the byte where it ends (exclusive)."""

    position: int
    first: int
    last: int
    end: int


@dataclass(frozen=True, slots=True)
class Disorder:
    """The fault in the order of the batches, in words.

    missing: the ranges (first, last) of offsets that no batch has, between the first and the last offset of the file.
    lost: the one of these ranges that was overwritten with copies of other batches; None if none was. edges: the bytes
    at which copies begin or end: if a copied page has overwritten part of a batch, the rest of that batch lies at one
    of these bytes, as damage.
    """

    text: str
    missing: frozenset[tuple[int, int]]
    lost: tuple[int, int] | None = None
    edges: frozenset[int] = frozenset()


def disorder(log: Path, size: int) -> Disorder | None:
    """Return the fault in the order of a .log file's readable batches. Returns None if they are in order, if only the
    base offset of a single batch is wrong, or if batches only overlap. Raises UnreadableInput."""
    places = _places(log, size)
    if _is_ordered(places):
        return None
    missing = frozenset(_missing(places))
    copies = _copies(places)
    if not copies:
        words = _rearranged(places)
        return None if words is None else Disorder(words, missing)
    copy, original = copies[0]
    repeated = f"{_batches(len(copies), copy)} repeat{'s the one' if len(copies) == 1 else ' those'}"
    lost = next((each for each in missing if each in _written_over(places, copies)), None)
    return Disorder(f"{repeated} at byte {original.position:,}", missing, lost, _edges(copies))


def _places(log: Path, size: int) -> list[Place]:
    """Return the readable batches of a .log file in the order of the file, those that occur twice included, but not the
    batches in which only the base offset is wrong. Empty for a file of more than BATCHES_MAX batches."""
    from kcli.log.recovery.misdirected import Home
    from kcli.log.recovery.readable import in_place  # imported only if a log is out of order
    from kcli.log.recovery.salvage import topic_of

    left_out: list[BatchRow] = []
    found: list[BatchRow] = []
    for row in in_place(log.name, Content((FileRange(log, 0, size),)), Home(topic_of(log.parent)), left_out.append):
        if len(found) + len(left_out) >= BATCHES_MAX:
            return []
        found.append(row)
    known = {(row.base_offset, row.crc) for row in found}
    found += [row for row in left_out if (row.base_offset, row.crc) in known]
    return sorted(Place(row.position, row.base_offset, row.last_offset, row.position + row.size) for row in found)


def _is_ordered(places: Sequence[Place]) -> bool:
    return all(one.last < other.first for one, other in pairwise(places))


def _missing(places: Iterable[Place]) -> Iterator[tuple[int, int]]:
    end: int | None = None
    for each in sorted(places, key=lambda place: place.first):
        if end is not None and each.first > end + 1:
            yield end + 1, each.first - 1
        end = each.last if end is None else max(end, each.last)


def _copies(places: Sequence[Place]) -> list[tuple[Place, Place]]:
    """Return the batches that are in the .log file twice, each copy with its original, if the file is in order without
    the copies; else an empty list. If the file is in order without the earlier one of each two equal batches, and also
    without the later one, the copies are taken to be the batches that border on damaged bytes more often: a copy has
    overwritten what was there, and so leaves torn batches beside it."""
    possible = []
    for direction in (1, -1):
        originals: dict[int, Place] = {}
        copies: list[tuple[Place, Place]] = []
        for each in places[::direction]:
            original = originals.setdefault(each.first, each)
            if original is not each:
                copies.append((each, original))
        if copies and _is_ordered([*originals.values()][::direction]):
            possible.append(copies[::direction])
    damaged = {
        byte for one, other in pairwise(places) if one.end < other.position for byte in (one.end, other.position)
    }
    return max(possible, key=lambda copies: len(damaged & _edges(copies)), default=[])


def _edges(copies: Iterable[tuple[Place, Place]]) -> frozenset[int]:
    return frozenset(byte for place, _ in copies for byte in (place.position, place.end))


def _written_over(places: Sequence[Place], copies: Sequence[tuple[Place, Place]]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of offsets (first, last) that copies have overwritten: the offsets between the batch before each
    run of copies and the batch after that run."""
    copied = {copy.position for copy, _ in copies}
    before: Place | None = None
    for one, other in pairwise(places):
        before = before if one.position in copied else one
        if before is not None and one.position in copied and other.position not in copied:
            yield before.last + 1, other.first - 1


def _rearranged(places: Sequence[Place]) -> str | None:
    """Return, in words, which batches are not in the order of their first offsets; None if all batches are in that
    order."""
    order = sorted(range(len(places)), key=lambda i: places[i].first)
    rank = [0] * len(places)
    for number, i in enumerate(order):
        rank[i] = number
    wrong = [i for i, number in enumerate(rank) if number != i]
    if not wrong:
        return None
    first, last = wrong[0], wrong[-1]
    here = rank[first : last + 1]
    ahead, behind = last - rank[first] + 1, rank[last] - first + 1  # numbers of batches in the first and the last block
    middle = range(first + behind, last - ahead + 1)
    if here != [*range(rank[first], last + 1), *middle, *range(first, first + behind)]:
        start = places[first].position
        return f"{len(wrong):,} batches are not in the order of their offsets, the first at byte {start:,}"
    one, other = places[first], places[last - behind + 1]
    if ahead == behind == 1:
        return f"the batches at byte {one.position:,} and byte {other.position:,} are exchanged"
    if middle:
        return f"{_batches(ahead, one)} and {_batches(behind, other)} are exchanged"
    if ahead < behind:
        return f"{_batches(ahead, one)} belong{_s(ahead)} behind the {behind:,} that follow"
    return f"{_batches(behind, other)} belong{_s(behind)} in front of the {ahead:,} from byte {one.position:,} on"


def _s(number: int) -> str:
    return "s" if number == 1 else ""


def _batches(number: int, place: Place) -> str:
    return (
        f"the batch at byte {place.position:,}" if number == 1 else f"the {number:,} batches at byte {place.position:,}"
    )
