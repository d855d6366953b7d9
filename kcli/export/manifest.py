"""The manifest of an export, `_kcli_manifest.json` in the table's directory: its files, and the sources of its rows.

    kcli_manifest   1, the version of this layout
    id              of this export; the STATE file of an incremental export (state.py) names this id
    options         the options of the export (columns, formats, isolation, layout...), with which --check reads the
                    sources again
    columns         [name, Arrow type] of each column of the files; the columns of option `layout` are instead in
                    the names of the directories that contain the files
    files           path, increment, bytes, crc32c, records, and per partition its records and first and last offset
    sources         for each part of a segment that was read: path, bytes [start, stop), crc32c, records, first and last
                    offset
    partitions      per partition: the exported offsets from start to end (exclusive), records, gaps (ranges of offsets
                    without a record)
    dead_letters    files of the dead-letter table (records that did not decode), in the form of `files`
    damage          damaged bytes that were skipped: topic, partition, segment, position, length, reason

Readers of Parquet directories (pyarrow, Spark) skip names that begin with an underscore; for DuckDB the path is
`*.parquet`. A file is part of the export if the manifest names it. Only an interrupted commit leaves other files,
and the next run finishes that commit (commit.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from kcli.errors import UnreadableInput

MANIFEST = "_kcli_manifest.json"
VERSION = 1
GAPS_LISTED = 1000
"""The maximum number of gaps that a manifest lists per partition; `missing` counts the offsets of all gaps."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The records of one partition in a file: their number, and their lowest and highest offset."""

    topic: str
    partition: int
    records: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file. path: relative to the table's directory; bytes, crc32c: size and checksum of the whole file;
    ranges: its records by partition."""

    path: str
    bytes: int
    crc32c: int
    records: int
    ranges: tuple[OffsetRange, ...]
    increment: int = 0

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Self:
        """Return the file that a JSON object of the manifest describes."""
        ranges = tuple(OffsetRange(**each) for each in value["ranges"])
        return cls(**{**value, "ranges": ranges})


@dataclass(frozen=True, slots=True)
class SourcePart:
    """Bytes [start, stop) of a segment that were read, and the records in them.

    crc32c: of the bytes, None for a segment in an object store. first, last: offsets, None without a record.
    """

    topic: str
    partition: int
    path: str
    start: int
    stop: int
    crc32c: int | None
    records: int
    first: int | None
    last: int | None
    increment: int = 0


@dataclass(frozen=True, slots=True)
class Extent:
    """The exported offsets [start, end) of a partition, and the number of their records.

    missing: the number of offsets without a record (compacted away, control records, aborted, filtered). gaps: the
    ranges [first, last] of these offsets, in order, at most GAPS_LISTED.
    """

    topic: str
    partition: int
    start: int
    end: int
    records: int
    missing: int
    gaps: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Self:
        """Return the extent that a JSON object of an export's manifest describes."""
        return cls(**{**value, "gaps": tuple((first, last) for first, last in value["gaps"])})

    def then(self, later: Extent) -> Extent:
        """Return this extent and a later extent of the same partition as one; the offsets between them are a gap."""
        between = [(self.end, later.start - 1)] if later.start > self.end else []
        gaps = joined([*self.gaps, *between, *later.gaps])
        missing = self.missing + later.missing + sum(last - first + 1 for first, last in between)
        return Extent(
            self.topic, self.partition, self.start, later.end, self.records + later.records, missing, gaps[:GAPS_LISTED]
        )


def joined(gaps: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return ranges [first, last], given in order, with ranges that touch or overlap joined into one."""
    found: list[tuple[int, int]] = []
    for first, last in gaps:
        if found and found[-1][1] + 1 >= first:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Damage:
    """Damaged bytes of a segment, which were skipped. path: that of the segment; position, length: in bytes."""

    topic: str
    partition: int
    path: str
    position: int
    length: int
    reason: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of a manifest, for all increments of an export. increments: the number of its commits."""

    id: str
    created_ms: int
    options: Mapping[str, Any]
    columns: tuple[tuple[str, str], ...]
    files: tuple[DataFile, ...] = ()
    sources: tuple[SourcePart, ...] = ()
    partitions: tuple[Extent, ...] = ()
    dead_letters: tuple[DataFile, ...] = ()
    damage: tuple[Damage, ...] = ()
    increments: int = 1
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def records(self) -> int:
        """The number of records in the table."""
        return sum(file.records for file in self.files)

    def to_json(self) -> bytes:
        """Return the content of the manifest file."""
        return json.dumps({"kcli_manifest": VERSION, **asdict(self)}, indent=1, ensure_ascii=False).encode()


def read_manifest(directory: Path) -> Manifest:
    """Read the manifest of an export. Raises UnreadableInput if there is none, or one of another version."""
    path = directory / MANIFEST
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        reason = "no such directory" if not directory.is_dir() else f"no export of kcli: it has no {MANIFEST}"
        raise UnreadableInput(str(directory), reason) from None
    except OSError as error:
        raise UnreadableInput.of(path, error) from error
    return parse_manifest(data, str(path))


def parse_manifest(data: bytes, name: str) -> Manifest:
    """Return the manifest in the bytes of its file. name: the file's name, for errors. Raises UnreadableInput."""
    try:
        value = json.loads(data)
        if value.pop("kcli_manifest") != VERSION:
            raise UnreadableInput(name, "a manifest of another version of kcli")
        return Manifest(
            **{
                **value,
                "columns": tuple((column, kind) for column, kind in value["columns"]),
                "files": tuple(map(DataFile.of, value["files"])),
                "sources": tuple(SourcePart(**each) for each in value["sources"]),
                "partitions": tuple(map(Extent.of, value["partitions"])),
                "dead_letters": tuple(map(DataFile.of, value["dead_letters"])),
                "damage": tuple(Damage(**each) for each in value["damage"]),
            }
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UnreadableInput(name, f"not a manifest: {type(error).__name__}: {error}") from error
