"""Delta tables, with deltalake: a directory with Parquet files, and a log in `_delta_log`.

    add        one for each file, with its partition values and the statistics of flat columns
    txn        one for each partition of Kafka: appId `kcli/TOPIC/PARTITION`, version: the first offset that is not in
               the table; for each topic of a known id also appId `kcli/TOPIC/id/0` and `kcli/TOPIC/id/1`, version:
               the first and the last 8 bytes of the id. Delta keeps the last one of each appId, in checkpoints too
    commitInfo kcli.offsets: the same, for people (`history()`)

Creating a table is one commit, and so is each append. New columns are added in a commit before the append: a kill
between the two leaves a column without values. A table of the latest record of each key is changed by a MERGE, which
rewrites the files that have these keys. A commit is tried once: if another writer has committed since the table was
loaded, it fails. Rules that each writer has to check (constraints, generated columns) are refused: nobody looks at the
rows of added files. Source: Delta's protocol, "Transaction Identifiers", "Writer Requirements".
"""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pyarrow.types as pt

from formats.message import uuid_bytes, uuid_text
from kcli.errors import KcliError, UsageError, needing
from kcli.pipelines.tables.evolution import evolved, refuse_required, storable
from kcli.pipelines.tables.table import ChangedMeanwhile, Commit, NotCommitted, PlacedFile, Position
from kcli.protocol.topic_partition import TopicPartition

with needing("tables"):
    from deltalake import DeltaTable, Field, Schema
    from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
    from deltalake.transaction import AddAction, CommitProperties, Transaction, create_table_with_add_actions

PARTITION_COLUMNS = {"topic": pa.string(), "partition": pa.int32(), "date": pa.date32(), "hour": pa.int32()}
BY_KEY = "The latest record of each key of a Kafka topic's partitions, by kcli"
"""The description of a table with by_key: it has only the latest record of each key."""
SAME_KEY = " and ".join(f'old."{name}" = new."{name}"' for name in ("topic", "partition", "key"))
HALVES = struct.Struct(">qq")
CONSTRAINT = "delta.constraints."
RULES = ("delta.invariants", "delta.generationExpression", "delta.identity.start")
"""The keys in a column's metadata that are rules for writers."""
REFUSED = ("Unsupported table features", "append-only")
"""Parts of deltalake's messages for commits that the table's protocol or properties do not allow."""
STRING_CHARACTERS = 32
"""A column with longer strings gets no statistics: Delta's upper bound may be a shorter string, but must not be below
any value."""


class DeltaLakeTable:
    """The Delta table in a directory. layout: its partition columns, names of PARTITION_COLUMNS. by_key: whether the
    table has only the latest record of each key."""

    def __init__(self, directory: Path, layout: Sequence[str], *, by_key: bool = False) -> None:
        if by_key and {"date", "hour"} & set(layout):
            raise UsageError(
                "--partition-by date: a table of --latest-by-key is partitioned by topic and partition only"
            )
        self.by_key = by_key
        self.data = directory.resolve()
        self.name = f"the Delta table {self.data}"
        self._layout = list(layout)
        self._table: DeltaTable | None = None
        self._schema = pa.schema([])

    @property
    def exists(self) -> bool:
        """Whether the last `load` has found a table."""
        return self._table is not None

    @property
    def is_whole(self) -> bool:
        """Whether the files of an export have the partition columns. Those that a MERGE reads have; those that become
        files of the table do not."""
        return self.by_key and self.exists

    def load(self) -> None:
        """Read the log. Raises KcliError, UsageError (other partition columns, other rows)."""
        self._table = None
        with self._reading():
            try:
                self._table = DeltaTable(str(self.data))
            except TableNotFoundError:
                return
            columns = self._table.metadata().partition_columns
            by_key = self._table.metadata().description == BY_KEY
        if columns != self._layout:
            theirs, ours = (", ".join(names) or "nothing" for names in (columns, self._layout))
            raise UsageError(f"{self.name} is partitioned by {theirs}, not by {ours}")
        if by_key != self.by_key:
            raise UsageError(f"{self.name} was made {'with' if by_key else 'without'} --latest-by-key")

    def next_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset that is not in the table, by partition: the version of its txn action."""
        if self._table is None:
            return {}
        found = {each: self._table.transaction_version(_app_id(each)) for each in partitions}
        return {each: offset for each, offset in found.items() if offset is not None}

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        """Return the ids of topics, from the versions of two txn actions for each."""
        if self._table is None:
            return {}
        found: dict[str, str] = {}
        for topic in topics:
            halves = [self._table.transaction_version(app_id) for app_id in _id_apps(topic)]
            if None not in halves:
                found[topic] = uuid_text(HALVES.pack(*halves))
        return found

    def fit(self, rows: pa.Schema) -> pa.Schema:
        """Return the schema of files: that of the table without its partition columns. Raises SchemaError."""
        if self.by_key and not {"topic", "partition", "key", "value"} <= set(rows.names):
            raise UsageError("--latest-by-key needs the columns topic, partition, key and value")
        columns = [pa.field(name, PARTITION_COLUMNS[name]) for name in self._layout if name not in rows.names]
        new = storable(pa.schema([*rows, *columns]), self.name, has_times=False)
        if self._table is not None:
            self._refuse_rules(self._table)
        known = None if self._table is None else self._known()
        self._schema = evolved(known, new, self.name, lambda *_: False)
        return pa.schema([each for each in self._schema if self.is_whole or each.name not in self._layout])

    def _refuse_rules(self, table: DeltaTable) -> None:
        refuse_required(pa.schema(table.schema().to_arrow()), self.name)
        rules = [each for each in table.metadata().configuration if each.startswith(CONSTRAINT)]
        rules += [f"{rule} of {each.name}" for each in table.schema().fields for rule in RULES if rule in each.metadata]
        if rules:
            raise UsageError(f"{self.name} has {rules[0]}, a rule that kcli does not check: drop it")

    def _known(self) -> pa.Schema:
        assert self._table is not None
        return storable(pa.schema(self._table.schema().to_arrow()), self.name, has_times=False)

    def append(self, files: Sequence[PlacedFile], reached: Position) -> None:
        """Commit files and position. Raises NotCommitted; KcliError if it is not known whether the commit was made."""
        now = int(time.time() * 1000)
        actions = [self._add(each, now) for each in files]
        schema = Schema.from_arrow(self._schema)
        properties = _properties(reached, now)
        with self._committing():
            if self._table is None:
                create_table_with_add_actions(
                    str(self.data),
                    schema,
                    actions,
                    partition_by=self._layout,
                    description=BY_KEY if self.by_key else None,
                    commit_properties=properties,
                )
            else:
                self._evolve(self._table)
                self._table.create_write_transaction(
                    actions, "append", schema, self._layout, commit_properties=properties
                )

    def upsert(self, files: Mapping[Path, PlacedFile], reached: Position) -> None:
        """Merge rows into the table, and commit the position. Raises NotCommitted; KcliError if it is not known whether
        the commit was made."""
        table = self._table
        assert table is not None
        rows = ds.dataset([str(each) for each in files], schema=self._schema).scanner().to_reader()
        with self._committing():
            self._evolve(table)
            merge = table.merge(
                rows,
                SAME_KEY,
                source_alias="new",
                target_alias="old",
                commit_properties=_properties(reached, int(time.time() * 1000)),
            )
            merge = merge.when_matched_delete('new."value" is null').when_matched_update_all()
            merge.when_not_matched_insert_all('new."value" is not null').execute()
        if self.next_offsets(reached.offsets) != reached.offsets:  # no row has changed: Delta has committed nothing
            self.append([], reached)

    def names(self, places: Collection[str]) -> bool:
        """Whether the current version names one of these files."""
        if self._table is None:
            return False
        # Only file names are compared: they are unique, and the directories in the log are percent-encoded.
        known = {uri.rpartition("/")[2] for uri in self._table.file_uris()}
        return not known.isdisjoint(Path(place).name for place in places)

    def compact(self, file_bytes: int, scratch: Path, commit: Commit) -> int:  # noqa: ARG002 (deltalake does both)
        """Join small files in a commit of its own; return how many were joined. Raises KcliError."""
        self.load()
        if self._table is None:
            return 0
        with self._reading():
            return int(self._table.optimize.compact(target_size=file_bytes)["numFilesRemoved"])

    def _evolve(self, table: DeltaTable) -> None:
        """Add the columns that the table lacks. Raises NotCommitted if the table is gone, DeltaError."""
        if not (self.data / "_delta_log" / f"{table.version():020}.json").exists():
            raise NotCommitted(f"{self.name} is gone")
        known = list(self._known())
        if new := [each for each in self._schema if each not in known]:
            table.alter.add_columns([Field.from_arrow(each) for each in new])

    @contextmanager
    def _committing(self) -> Iterator[None]:
        try:
            yield
        except CommitFailedError as error:
            if any(each in str(error) for each in REFUSED):
                raise NotCommitted(f"{self.name}: {_line(error)}: nothing was added") from error
            raise ChangedMeanwhile(f"{self.name} has changed meanwhile, and nothing was added: export again") from error
        except DeltaError as error:
            reason = f"{self.name}: {_line(error)}"
            raise KcliError(f"{reason}; the next export finds out whether the rows are in it") from error

    def _add(self, placed: PlacedFile, now: int) -> Any:
        return AddAction(
            path=placed.path.relative_to(self.data).as_posix(),
            size=placed.file.bytes,
            partition_values=dict(zip(self._layout, placed.labels, strict=True)),
            modification_time=now,
            data_change=True,
            stats=json.dumps(_statistics(pq.read_metadata(placed.path))),
        )

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (DeltaError, OSError) as error:
            raise KcliError(f"{self.name}: {_line(error)}") from error


def _properties(reached: Position, now: int) -> CommitProperties:
    versions = {_app_id(each): offset for each, offset in reached.offsets.items()}
    for topic, topic_id in reached.topic_ids.items():
        versions |= zip(_id_apps(topic), HALVES.unpack(uuid_bytes(topic_id)), strict=True)
    return CommitProperties(
        custom_metadata={"kcli.offsets": _as_json(reached.offsets)},
        max_commit_retries=0,
        app_transactions=[Transaction(app_id, version, now) for app_id, version in versions.items()],
    )


def _app_id(partition: TopicPartition) -> str:
    return f"kcli/{partition.topic}/{partition.partition}"


def _id_apps(topic: str) -> tuple[str, str]:
    return f"kcli/{topic}/id/0", f"kcli/{topic}/id/1"


def _as_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def _line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _statistics(metadata: pq.FileMetaData) -> dict[str, Any]:
    """Return Delta's statistics of a file: the number of rows, and for flat columns lowest, highest and number of
    nulls."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    arrow = metadata.schema.to_arrow_schema()
    for column in range(metadata.num_columns):
        name = metadata.schema.column(column).path
        groups = [metadata.row_group(group).column(column).statistics for group in range(metadata.num_row_groups)]
        if "." in name or not all(each is not None and each.has_null_count for each in groups):
            continue
        nulls[name] = sum(each.null_count for each in groups)
        kind = arrow.field(name).type
        bounded = [each for each in groups if each.has_min_max]
        if len(bounded) < len(groups) or not bounded:
            continue
        try:
            first, last = min(each.min for each in bounded), max(each.max for each in bounded)
        except (OverflowError, ValueError):  # a time beyond Python's calendar
            continue
        if pt.is_integer(kind):
            low[name], high[name] = first, last
        elif pt.is_timestamp(kind):
            # Delta cuts times of statistics to ms, and reads the highest as up to 1 ms later.
            texts = (each.isoformat(timespec="milliseconds").replace("+00:00", "Z") for each in (first, last))
            low[name], high[name] = texts
        elif pt.is_string(kind) and len(last) <= STRING_CHARACTERS:
            low[name], high[name] = first[:STRING_CHARACTERS], last
    return {"numRecords": metadata.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls}
