"""What a table format does for an export, and how its tables are partitioned.

topic, partition            the column itself
date, day(timestamp)        the day of the record's timestamp, in UTC
hour                        Delta: the hour of the day, 0 to 23
hour(timestamp)             Iceberg: the hour since 1970, in UTC
bucket(N, key)              Iceberg: a hash of the key, modulo N
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from kcli.errors import KcliError
from kcli.export.manifest import DataFile
from kcli.export.table_writer import NULL_LABEL
from kcli.protocol.topic_partition import TopicPartition

JOINED = "joined"
"""The suffix of the run's name in the names of files that a compaction writes."""
Commit = Callable[[Mapping[Path, Path], Callable[[], None]], None]
"""A function that puts files in place (staged path -> final path), then calls its second argument, which commits them
to the table: all or nothing."""


class NotCommitted(KcliError):
    """A commit was certainly not made: the table is unchanged, and does not name the files."""


class ChangedMeanwhile(NotCommitted):
    """Another writer has committed since the table was loaded: a commit of the present table may be made."""


@dataclass(frozen=True, slots=True)
class Position:
    """How far a table is. offsets: the first offset that is not in the table, by partition. topic_ids: the ids of the
    topics, as far as they are known."""

    offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlacedFile:
    """A Parquet file that is to be part of the table. path: its absolute path. file: its entry in the outcome of the
    export."""

    path: Path
    file: DataFile

    @property
    def labels(self) -> list[str | None]:
        """The values of the file's partition as text, in the order of the table's terms; None for no value.

        The directories between the table's directory and the file are named after them.
        """
        found = [part.partition("=")[2] for part in Path(self.file.path).parts if "=" in part]
        return [None if label == NULL_LABEL else label for label in found]


class Table(Protocol):
    """A table to which an export adds records. It need not exist before the first commit.

    name: for messages. data: the directory below which its new files lie. by_key: whether it has only the latest record
    of each key.
    """

    name: str
    data: Path
    by_key: bool

    @property
    def is_whole(self) -> bool:
        """Whether the files have the columns by which the table is partitioned. The answer is that of the last
        `load`."""
        ...

    @property
    def exists(self) -> bool:
        """Whether there is a table. The answer is that of the last `load`."""
        ...

    def load(self) -> None:
        """Read the table's current state. Raises KcliError if the catalog does not answer, or if the table is of
        another kind or is partitioned in another way."""
        ...

    def next_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset that is not in the table, for each partition that has offsets in it."""
        ...

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        """Return the ids of the topics whose records the table has, as far as its commits tell them."""
        ...

    def fit(self, rows: pa.Schema) -> pa.Schema:
        """Return the schema of the files to write for rows with this schema; it has all columns of the table. `append`
        changes the table itself. Raises SchemaError if the table can have no schema for these rows."""
        ...

    def append(self, files: Sequence[PlacedFile], reached: Position) -> None:
        """Commit files and position, both or neither, to the table as `load` has found it.

        Raises NotCommitted if the commit was not made, any other error if it is not known whether it was.
        """
        ...

    def upsert(self, files: Mapping[Path, PlacedFile], reached: Position) -> None:
        """Commit the latest rows of keys and a position: a row takes the place of the one with its key, a tombstone (no
        value) removes it. files: staged Parquet files with these rows, one row for a key, with all columns of the
        table; each with the file that it would be in the table. Files that this method writes are named in the same
        way, so that a later run can remove them.

        Raises as `append`.
        """
        ...

    def names(self, places: Collection[str]) -> bool:
        """Whether the table names one of these files (absolute paths). The answer is that of the last `load`."""
        ...

    def compact(self, file_bytes: int, scratch: Path, commit: Commit) -> int:
        """Join the files that are smaller than `file_bytes` to files of about this size, in a commit of its own; return
        how many were joined. Rows and offsets stay the same. scratch: a directory of this run, for the files that
        `commit` puts in place. Raises KcliError."""
        ...
