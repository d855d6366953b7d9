"""The manifest of an export, `_kcli_manifest.json` beside the data: what is there, and what it was made from.

    kcli_manifest   1, the version of this layout
    id              of this export; an incremental STATE names it
    options         what the export was told (columns, formats, isolation, layout...), so that --check can do it again
    columns         [name, Arrow type] of each column of the files; those of `layout` are in their paths instead
    files           path, increment, bytes, crc32c, records, and per partition its records and first and last offset
    sources         per read part of a segment: path, bytes [start, stop), crc32c, records, first and last offset
    partitions      start and end offset (exclusive) of what was asked, records, gaps
    dead_letters    the same as `files`, of the table of records that did not decode
    damage          what was skipped because it was damaged: topic, partition, segment, position, length, reason

Readers of Parquet directories (pyarrow, Spark) pass over names that begin with an underscore, and DuckDB is asked for
`*.parquet`. A file is part of the export once the manifest names it; only a commit that was interrupted leaves others,
and the next run finishes it: see commit.py.
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
"""Gaps of a partition that are listed; all are counted."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Records of a partition in a file: how many, and the lowest and highest offset among them."""

    topic: str
    partition: int
    records: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file. `path` is relative to the directory of its table."""

    path: str
    bytes: int
    crc32c: int
    records: int
    ranges: tuple[OffsetRange, ...]
    increment: int = 0

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Self:
        """From JSON."""
        ranges = tuple(OffsetRange(**each) for each in value["ranges"])
        return cls(**{**value, "ranges": ranges})


@dataclass(frozen=True, slots=True)
class SourcePart:
    """Bytes [start, stop) of a segment that were read, and the records they gave; crc32c is None where only the file
    system of an object store has the bytes. first and last are None where there was no record."""

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
    """What was exported of a partition: offsets [start, end), the records among them, and the gaps: offsets without a
    record (compacted away, control records, aborted, filtered), as [first, last] ranges in order."""

    topic: str
    partition: int
    start: int
    end: int
    records: int
    missing: int
    gaps: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Self:
        """From JSON."""
        return cls(**{**value, "gaps": tuple((first, last) for first, last in value["gaps"])})

    def then(self, later: Extent) -> Extent:
        """This and what was exported behind it."""
        between = [(self.end, later.start - 1)] if later.start > self.end else []
        gaps = joined([*self.gaps, *between, *later.gaps])
        missing = self.missing + later.missing + sum(last - first + 1 for first, last in between)
        return Extent(
            self.topic, self.partition, self.start, later.end, self.records + later.records, missing, gaps[:GAPS_LISTED]
        )


def joined(gaps: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Ranges in order, those that touch made one."""
    found: list[tuple[int, int]] = []
    for first, last in gaps:
        if found and found[-1][1] + 1 >= first:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes of a segment that no record could be had from."""

    topic: str
    partition: int
    path: str
    position: int
    length: int
    reason: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """All of it. `increments` counts the commits that made the directory."""

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
        """Records in the table."""
        return sum(file.records for file in self.files)

    def to_json(self) -> bytes:
        """The file."""
        return json.dumps({"kcli_manifest": VERSION, **asdict(self)}, indent=1, ensure_ascii=False).encode()


def read_manifest(directory: Path) -> Manifest:
    """The manifest of an export. Raises UnreadableInput: no export, or one of another version."""
    path = directory / MANIFEST
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        reason = "no such directory" if not directory.is_dir() else f"no export of kcli: it has no {MANIFEST}"
        raise UnreadableInput(str(directory), reason) from None
    except OSError as error:
        raise UnreadableInput(str(path), error.strerror or str(error)) from error
    return parse_manifest(data, str(path))


def parse_manifest(data: bytes, name: str) -> Manifest:
    """A manifest from its bytes. Raises UnreadableInput."""
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
