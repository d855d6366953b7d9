"""Finding the parts of a .log file that was cut into several files, as split(1) does.

    <offset>.log.partaa .partab    also .aa .ab, .part1 .part2, .00 .01, .001 .002
    xaa xab                        split without a prefix

The parts lie in one directory, and their names differ only in the digits or lower-case letters at the end, which give
their order. The first part begins with a batch. The parts are read joined, batch by batch: the offsets must rise, and
wherever a part ends, a sound batch must begin in it and end in the next part. If the parts' names contain the name of a
.log file, no batch has to span two parts: a part may end with a batch, or the part after it may be lost.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from itertools import accumulate, takewhile
from pathlib import Path

from formats.errors import FormatError
from kcli.errors import UnreadableInput
from kcli.inspector.verify.segment_names import read_any_headers
from kcli.log.partition_view import Content, ContentSource, FileRange
from kcli.log.segment_reader import sound_batches
from kcli.log.source import FileSource

PARTS_MAX = 200
"""The maximum number of parts that are joined: all are open while they are read."""

_PART = re.compile(r"(.*?)([a-z]+|[0-9]+)", re.DOTALL)
_OF_LOG = re.compile(r"\.?[0-9]{20}\.log\..*", re.DOTALL)


def with_parts(files: Sequence[Path]) -> list[tuple[Path, ...]]:
    """Return each of the files by itself; the parts of one .log file together, in their order. The order of the files
    is kept, by the first part."""
    groups: dict[tuple[Path, str, int], list[tuple[int, str, Path]]] = {}
    for path in files:
        name = _PART.fullmatch(path.name)
        stem, end = (path.name, "") if name is None else name.groups()
        groups.setdefault((path.parent, stem, 0 if end.isdecimal() else len(end)), []).append((len(end), end, path))
    joined = (parts for group in groups.values() for parts in _joined([path for *_, path in sorted(group)]))
    order = {path: number for number, path in enumerate(files)}
    return sorted(joined, key=lambda parts: order[parts[0]])


def content_of(parts: Sequence[Path]) -> Content:
    """Return the joined content of files. Raises UnreadableInput."""
    try:
        return Content(tuple(FileRange(path, 0, path.stat().st_size) for path in parts))
    except OSError as error:
        raise UnreadableInput.of(parts[0], error) from error


def _joined(files: Sequence[Path]) -> Iterator[tuple[Path, ...]]:
    """Yield the files of a group in its order: each file alone, except that the first part of a .log file is yielded
    together with the parts after it."""
    while files:
        count = 1
        if len(files) > 1 and _begins_with_a_batch(files[0]):
            with suppress(UnreadableInput, FormatError):  # a file that cannot be read is joined with none
                count = _count(files[:PARTS_MAX])
        yield tuple(files[:count])
        files = files[count:]


def _count(files: Sequence[Path]) -> int:
    """Return the number of files, from the first on, that are the parts of one .log file. Raises UnreadableInput,
    FormatError."""
    is_named = _OF_LOG.fullmatch(files[0].name) is not None
    if not is_named:
        files = [files[0], *takewhile(lambda path: not _begins_with_a_batch(path), files[1:])]
    content = content_of(files)
    ends = list(accumulate(part.length for part in content.parts if isinstance(part, FileRange)))
    count, next_offset = 1, 0
    with closing(ContentSource(str(files[0]), content)) as source:
        for row in sound_batches(source):
            begin, end = (bisect_right(ends, at) for at in (row.position, row.position + row.size - 1))
            if row.base_offset < next_offset or (begin >= count and not is_named):
                return max(1, min(begin, count))
            count, next_offset = max(count, end + 1), row.last_offset + 1
    return count


def _begins_with_a_batch(path: Path) -> bool:
    try:
        with closing(FileSource(path)) as source:
            return next(read_any_headers(source, 0), None) is not None
    except (UnreadableInput, FormatError):
        return False
