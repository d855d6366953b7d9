"""Damage that the disk has caused in a .log file: sectors of zeros, and sectors that repeat others nearby.

Both cover whole sectors of 512 bytes, or a multiple of them such as a page. Zeros inside a producer's records rarely
begin and end at the edges of sectors. Only the bytes around the damage are read, and only for the first findings of a
file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from kcli.inspector.verify.findings import Finding
from kcli.inspector.verify.zeros import zeros_of
from kcli.log.source import FileSource, Source, ends_in_zeros

SECTOR_BYTES = 512
DAMAGE_BYTES_MAX = 1 << 20
AROUND_BYTES = 128 << 10
ZEROS_BYTES_MAX = 1 << 30
"""The most bytes at the end of a file that are read once more, to see whether they are all zeros."""
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
    """Yield the findings in a .log file. If the damaged bytes contain sectors of zeros or repeated sectors, the text
    `found` begins with that cause. Raises UnreadableInput."""
    findings = list(findings)
    damaged = [bytes_of(each) for each in findings if is_damage(each)]
    left = FINDINGS_MAX
    source: Source | None = None
    try:
        for each in findings:
            if not is_damage(each) or not left:
                yield each
                continue
            left -= 1
            source = source or FileSource(path)
            cause = _cause(source, *bytes_of(each), damaged)
            yield each if cause is None else replace(each, found=f"{cause}: {each.found}")
    finally:
        if source is not None:
            source.close()


def as_preallocated(path: Path, size: int, findings: list[Finding], preallocated_bytes: int) -> list[Finding]:
    """Return the findings in the .log file of an active segment. With preallocate=true the file has its full size from
    the beginning: the zeros behind its last batch are no damage. size: that of the file, in bytes. preallocated_bytes:
    the size with which a segment begins, 0 if it is not known to begin with any. Raises UnreadableInput."""

    def judged(finding: Finding) -> Finding:
        if finding.kind != "batch-length" or not is_damage(finding) or not _is_unused(path, finding.position or 0):
            return finding
        return replace(
            finding,
            kind="log-slack",
            severity="info",
            expected="no zeros in a closed segment",
            found=f"{finding.length or 0:,} bytes of zeros behind the last batch, as preallocate=true makes them",
            action="nothing to do: Kafka trims them when it rolls or closes the segment, or starts",
            command=None,
        )

    return findings if size != preallocated_bytes else [judged(each) for each in findings]


def _is_unused(path: Path, start: int) -> bool:
    source = FileSource(path)
    try:
        return ends_in_zeros(source, start)
    finally:
        source.close()


def is_damage(finding: Finding) -> bool:
    """Whether the finding is about damaged bytes of a .log file."""
    return finding.kind in KINDS and finding.severity == "error" and finding.position is not None


def bytes_of(finding: Finding) -> tuple[int, int]:
    """Return the bytes that a finding is about, as [start, stop)."""
    start = finding.position or 0
    return start, start + (finding.length or 0)


def repeated_bytes(findings: Iterable[Finding]) -> str | None:
    """Return the words "bytes A..B repeat bytes C..D" from the first of these findings in which `with_causes` has put
    such words; None if there is none."""
    causes = (str(each.found).partition(": ")[0] for each in findings if is_damage(each))
    return next((each for each in causes if " repeat bytes " in each), None)


def _cause(source: Source, start: int, stop: int, damaged: Sequence[tuple[int, int]]) -> str | None:
    """Return, in words, how the disk damaged bytes [start, stop) of a .log file; None if it did not. damaged: all
    damaged ranges of the file."""
    if start == 0 and (whole := zeros_of(source)) is not None:
        return whole
    size = source.size()
    is_to_end = DAMAGE_BYTES_MAX < stop - start <= ZEROS_BYTES_MAX and stop >= size
    if is_to_end and ends_in_zeros(source, start):
        return f"{size - start:,} bytes of zeros at byte {start:,}"
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
    one, other, end = (first + each for each in repeated)
    return _repeated_text(one, other, end, damaged)


def _repeated_text(one: int, other: int, end: int, damaged: Sequence[tuple[int, int]]) -> str:
    """Return, in words, which of two equal runs of bytes is a copy of the other: bytes [one, end), or as many bytes
    from `other` on. A copy has damage at both of its ends, the original at one end at most, unless the damage covers
    both runs."""

    def ends_in_damage(begin: int) -> int:
        places = begin, begin + end - one
        return sum(any(start <= place <= stop for start, stop in damaged) for place in places)

    copy, original = sorted((one, other), key=lambda begin: (ends_in_damage(begin), begin), reverse=True)
    reverse = ", or the reverse" if ends_in_damage(copy) == ends_in_damage(original) else ""
    last = end - one - 1
    return f"bytes {copy:,}..{copy + last:,} repeat bytes {original:,}..{original + last:,}{reverse}"


def _zeros(data: bytes, start: int, stop: int, *, is_to_end: bool) -> tuple[int, int] | None:
    """Return the first run of zeros in data[start:stop] that fills sectors, as [begin, end); None if there is none.

    A run counts if at most NEIGHBOUR_BYTES_MAX further zeros precede its first sector, and at most as many follow its
    last one. There are two exceptions: if the zeros begin at or before `start`, any number may precede, and the run
    begins at `start`; if the zeros continue to the end of the file, they all count, from `start` on. is_to_end: whether
    the end of `data` is the end of the file.
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
    """Look for the first sector of data[start:stop] that occurs exactly twice in `data`, and for the longest two equal
    runs of sectors around the two occurrences. Return the byte where the run in data[start:stop] begins, the byte where
    the other run begins, and the byte where the former run ends (exclusive). Returns None if there is no such
    sector."""
    ends = range(SECTOR_BYTES, len(data) + 1, SECTOR_BYTES)
    sectors = [data[end - SECTOR_BYTES : end] for end in ends]
    places: dict[bytes, list[int]] = {}
    for number, sector in enumerate(sectors):
        places.setdefault(sector, []).append(number)
    first, behind = start // SECTOR_BYTES, min(-(-stop // SECTOR_BYTES), len(sectors))
    for number in range(first, behind):
        same = places[sectors[number]]
        if len(same) != 2 or len(set(sectors[number])) < DISTINCT_MIN:  # several equal records make equal sectors
            continue
        low, high = same
        begin, end = 0, 1
        while high + end < len(sectors) and low + end < high + begin and sectors[low + end] == sectors[high + end]:
            end += 1
        while low + begin > 0 and low + end < high + begin and sectors[low + begin - 1] == sectors[high + begin - 1]:
            begin -= 1
        one, other = (low, high) if number == low else (high, low)
        return (one + begin) * SECTOR_BYTES, (other + begin) * SECTOR_BYTES, (one + end) * SECTOR_BYTES
    return None
