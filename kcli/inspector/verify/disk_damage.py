"""Damage in a log of which the disk is the cause: sectors of zeros, and sectors that repeat others nearby.

Both cover whole sectors of 512 bytes, or a multiple of them such as a page. Zeros that a producer sent seldom begin and
end at sectors. Only the bytes around the damage are read, and only for the first findings of a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from kcli.inspector.verify.findings import Finding
from kcli.inspector.verify.zeros import zeros_of
from kcli.log.source import FileSource, Source

SECTOR_BYTES = 512
DAMAGE_BYTES_MAX = 1 << 20
AROUND_BYTES = 128 << 10
FINDINGS_MAX = 16
NEIGHBOUR_BYTES_MAX = 32
"""The maximum number of zero bytes beside a sector of zeros that may belong to batches."""
SECTOR_OF_ZEROS = bytes(SECTOR_BYTES)
DISTINCT_MIN = 16
"""The minimum number of different bytes in a sector whose repetition is evidence of damage."""
KINDS = (
    "batch-crc",
    "batch-length",
    "batch-magic",
    "truncated",
    "foreign-bytes",
    "record-structure",
    "decompression",
)


def with_causes(path: Path, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the findings of a log. If the damaged bytes contain sectors of zeros or repeated sectors, the text `found`
    begins with that cause. Raises UnreadableInput."""
    left = FINDINGS_MAX
    source: Source | None = None
    try:
        for each in findings:
            if each.kind not in KINDS or each.severity != "error" or each.position is None or not left:
                yield each
                continue
            left -= 1
            source = source or FileSource(path)
            cause = _cause(source, each.position, each.position + (each.length or 0))
            yield each if cause is None else replace(each, found=f"{cause}: {each.found}")
    finally:
        if source is not None:
            source.close()


def _cause(source: Source, start: int, stop: int) -> str | None:
    """Return, in words, how the disk damaged bytes [start, stop) of a log; None if it did not."""
    if start == 0 and (whole := zeros_of(source)) is not None:
        return whole
    stop = min(stop, start + DAMAGE_BYTES_MAX)
    first = max(0, start - AROUND_BYTES) // SECTOR_BYTES * SECTOR_BYTES
    data = bytearray(stop + AROUND_BYTES - first)
    del data[source.read_at(first, memoryview(data)) :]
    is_to_end = first + len(data) == source.size()
    zeros = _zeros(bytes(data), start - first, stop - first, is_to_end=is_to_end)
    if zeros is not None:
        return f"{zeros[1] - zeros[0]:,} bytes of zeros at byte {first + zeros[0]:,}"
    repeated = _repeated(bytes(data), start - first, stop - first)
    if repeated is None:
        return None
    begin, end, other = (first + each for each in repeated)
    return f"bytes {begin:,}..{end - 1:,} repeat bytes {other:,}..{other + end - begin - 1:,}"


def _zeros(data: bytes, start: int, stop: int, *, is_to_end: bool) -> tuple[int, int] | None:
    """Return the first run of zeros in data[start:stop] that fills sectors, as [begin, end); None if there is none.

    At each end at most NEIGHBOUR_BYTES_MAX more bytes may be zero, in sectors that the run does not fill; but a run may
    also begin at `start`, and one that continues to the end of the file may begin anywhere. is_to_end: whether the end
    of `data` is the end of the file.
    """
    at = start // SECTOR_BYTES * SECTOR_BYTES
    while at < stop:
        if data[at : at + SECTOR_BYTES] != SECTOR_OF_ZEROS:
            at += SECTOR_BYTES
            continue
        begin, end = at, at + SECTOR_BYTES
        while data[end : end + SECTOR_BYTES] == SECTOR_OF_ZEROS:
            end += SECTOR_BYTES
        first = len(data[:begin].rstrip(b"\0"))
        last = len(data) - len(data[end:].lstrip(b"\0"))
        if is_to_end and last == len(data):
            return max(first, start), last
        is_begin = begin - first <= NEIGHBOUR_BYTES_MAX
        if (is_begin or first <= start) and last - end <= NEIGHBOUR_BYTES_MAX:
            return (begin if is_begin else start), end
        at = end
    return None


def _repeated(data: bytes, start: int, stop: int) -> tuple[int, int, int] | None:
    """Return where the first sectors of data[start:stop] that repeat other sectors of `data` begin and end (exclusive),
    and where the others begin; None if there are none."""
    ends = range(SECTOR_BYTES, len(data) + 1, SECTOR_BYTES)
    sectors = [data[end - SECTOR_BYTES : end] for end in ends]
    places: dict[bytes, list[int]] = {}
    for number, sector in enumerate(sectors):
        places.setdefault(sector, []).append(number)
    first, behind = start // SECTOR_BYTES, min(-(-stop // SECTOR_BYTES), len(sectors))
    for number in range(first, behind):
        same = places[sectors[number]]
        if len(same) != 2 or len(set(sectors[number])) < DISTINCT_MIN:  # records that are alike repeat more often
            continue
        original, copy = same if same[1] < behind else reversed(same)
        count = 1
        while sectors[copy + count : copy + count + 1] == sectors[original + count : original + count + 1] != []:
            count += 1
        count = min(count, abs(copy - original))
        return copy * SECTOR_BYTES, (copy + count) * SECTOR_BYTES, original * SECTOR_BYTES
    return None
