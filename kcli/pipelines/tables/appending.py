"""Rows of a stream, appended to an Iceberg table of any catalog, with the stream's offsets in the commit.

    connect  the catalog, by the properties that Iceberg's own programs take: type rest, jdbc (or sql), hadoop
    create   a table, with the columns of rows, keys and partition fields
    evolve   the columns that rows have and the table lacks, wider numbers, columns that may be null
    write    Parquet files, one for each partition; no reader sees them yet
    commit   a snapshot with all files that were written, and in its summary `kcli.offsets.STREAM`:
             {"offsets": {topic: {partition: first offset that is not in the table}}, "ids": {topic: id}}

The youngest snapshot of the branch that has the stream's offsets counts. A commit is made on the snapshot that has been
looked at: if its partitions' offsets are no longer those that this writer has begun with, another writer of the stream
has come before, and nothing is committed. An answer that is lost is found out in the same way. So rows and offsets
change together, and each row is in the table once. A topic that was made anew begins at 0: its id is another.
"""

from __future__ import annotations

import json
import random
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pt

from kcli.errors import KcliError, needing
from kcli.export.conform import conform_rows
from kcli.pipelines.tables.iceberg import LOST_ANSWER, Once, Rest, can_widen, line_of, small_schema
from kcli.pipelines.tables.table import Position
from kcli.protocol.topic_partition import TopicPartition

with needing("tables"):
    import requests
    from pyiceberg.catalog import Catalog, load_catalog
    from pyiceberg.exceptions import (
        CommitFailedException,
        CommitStateUnknownException,
        NoSuchNamespaceError,
        NoSuchTableError,
        ServerError,
        ServiceUnavailableError,
        TooManyRequestsError,
    )
    from pyiceberg.io.pyarrow import write_file
    from pyiceberg.manifest import DataFile
    from pyiceberg.partitioning import PartitionFieldValue, PartitionKey
    from pyiceberg.table import Table, WriteTask
    from pyiceberg.table.refs import MAIN_BRANCH
    from sqlalchemy.exc import OperationalError, SQLAlchemyError

    from kcli.pipelines.tables.directory import DirectoryCatalog

OFFSETS: Final = "kcli.offsets."
TERM: Final = re.compile(r"(\w+)\(\s*([^,()]+?)\s*(?:,\s*(\d+)\s*)?\)")
TRANSFORMS: Final = ("year", "month", "day", "hour", "bucket", "truncate")
SIZED: Final = ("bucket", "truncate")
TRIES: Final = 20
PAUSE_S: Final = 0.05
PASSING: Final = (
    requests.ConnectionError, requests.Timeout, CommitStateUnknownException, ServerError, ServiceUnavailableError,
    TooManyRequestsError, OperationalError,
)  # fmt: skip
JDBC: Final = "jdbc:"
IMPLEMENTATIONS: Final = {
    "org.apache.iceberg.rest.RESTCatalog": "rest",
    "org.apache.iceberg.jdbc.JdbcCatalog": "jdbc",
    "org.apache.iceberg.hadoop.HadoopCatalog": "hadoop",
}


class Away(KcliError):
    """The catalog or the table's store does not answer now, but may answer later."""


class Overtaken(KcliError):
    """Another writer of the same stream has committed rows of the same partitions."""


def catalog_type(properties: Mapping[str, str]) -> str:
    """Return the type of the catalog that properties describe. Raises ValueError for one that kcli does not have."""
    own = properties.get("catalog-impl")
    kind = IMPLEMENTATIONS.get(own, own) if own else properties.get("type", "")
    if kind not in ("rest", "jdbc", "sql", "hadoop"):
        raise ValueError(f"there are catalogs of the types rest, jdbc (or sql) and hadoop, not {kind or 'of none'}")
    if kind != "hadoop" and not properties.get("uri"):
        raise ValueError(f"a catalog of the type {kind} needs its uri")
    if kind == "hadoop" and not _local(properties.get("warehouse", "")).startswith("/"):
        raise ValueError("a catalog of the type hadoop needs its warehouse, a directory of this machine")
    return kind


def partition_field(term: str) -> tuple[str, str, str | None]:
    """Return the column, the transform and the name of a partition field. term: a column, or year, month, day, hour,
    bucket(column, N), truncate(column, N) of one. Raises ValueError."""
    found = TERM.fullmatch(term.strip())
    if found is None:
        if not re.fullmatch(r"[\w.]+", term.strip()):
            raise ValueError(f"{term!r} is no column, and no transform of one")
        return term.strip(), "identity", None
    transform, column, size = found[1].lower().removesuffix("s"), found[2], found[3]
    if transform not in TRANSFORMS or (size is not None) != (transform in SIZED):
        raise ValueError(
            f"{term!r}: there are a column, year, month, day, hour, bucket(column, N), truncate(column, N)"
        )
    full = f"{transform}[{size}]" if size else transform
    return column, full, f"{column}_{'trunc' if transform == 'truncate' else transform}"


class Tables:
    """The catalog of some properties, which is connected when it is first needed. name: the catalog's."""

    def __init__(self, name: str, properties: Mapping[str, str]) -> None:
        """Raises ValueError."""
        self._name, self._properties = name, dict(properties)
        self._kind = catalog_type(properties)
        self._known: Catalog | None = None

    def of(self, identifier: str) -> Catalog:
        """Return the catalog that has a table. Raises Away, KcliError."""
        if self._kind == "hadoop":
            return DirectoryCatalog(Path(_local(self._properties["warehouse"]), *identifier.split(".")))
        if self._known is None:
            with _reading(f"catalog {self._name}"):
                self._known = self._connected()
        return self._known

    @property
    def has_namespaces(self) -> bool:
        """Whether a table needs a namespace to be created."""
        return self._kind != "hadoop"

    def _connected(self) -> Catalog:
        left = {
            name: text for name, text in self._properties.items() if name not in ("type", "catalog-impl", "io-impl")
        }
        if self._kind == "rest":
            return Rest(self._name, **left)
        uri = left.pop("uri")
        if uri.startswith(JDBC):
            uri = re.sub(r"^jdbc:sqlite:(?:file:)?", "sqlite:///", uri).removeprefix(JDBC)
        return load_catalog(self._name, **{**left, "type": "sql", "uri": uri})


class TableWriter:
    """A table to which one writer of a stream appends rows. stream: a name, whose offsets the commits have. topic_ids:
    of the topics that there are. properties: those of the table that this writer sees otherwise.

    columns: those of the table. expected: the first offset of each partition that is not in the table.
    """

    def __init__(
        self,
        tables: Tables,
        identifier: str,
        stream: str,
        topic_ids: Mapping[str, str],
        branch: str = MAIN_BRANCH,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.name = identifier
        self._tables, self._stream, self._ids, self._branch = tables, stream, topic_ids, branch
        self._properties = dict(properties or {})
        self._table: Table | None = None
        self._files: list[DataFile] = []
        self._run, self._numbers = uuid.uuid4(), count()
        self.expected: dict[TopicPartition, int] = {}

    def load(self) -> bool:
        """Read the table and the stream's offsets; return whether there is a table. Raises Away, KcliError."""
        with _reading(self.name):
            try:
                self._table = self._tables.of(self.name).load_table(self.name)
            except (NoSuchTableError, NoSuchNamespaceError):
                return False
        self.expected = dict(self._position().offsets)
        return True

    def create(
        self, rows: pa.Schema, keys: Sequence[str], layout: Sequence[str], properties: Mapping[str, str]
    ) -> None:
        """Create the table, if nobody has done so meanwhile, and load it. rows: its columns. keys: those that identify
        a row. layout: terms of `partition_field`. Raises Away, KcliError."""
        try:
            with _reading(self.name):
                self._create(rows, keys, layout, properties)
        except KcliError:
            if not self.load():  # nobody else has created it
                raise
        else:
            self.load()

    def _create(
        self, rows: pa.Schema, keys: Sequence[str], layout: Sequence[str], properties: Mapping[str, str]
    ) -> None:
        fields = [_strict(each) if each.name in keys else each for each in stored(rows)]
        catalog = self._tables.of(self.name)
        space = self.name.rpartition(".")[0]
        if self._tables.has_namespaces and not catalog.namespace_exists(space):
            try:
                catalog.create_namespace(space)
            except Exception:
                if not catalog.namespace_exists(space):  # another task has created it
                    raise
        made = catalog.create_table_transaction(self.name, pa.schema(fields), properties=dict(properties))
        if keys:
            with made.update_schema() as update:
                update.set_identifier_fields(*keys)
        if layout:
            with made.update_spec() as spec:
                for term in layout:
                    spec.add_field(*partition_field(term))
        made.commit_transaction()

    @property
    def columns(self) -> pa.Schema:
        """The columns of the table."""
        assert self._table is not None, "the table is loaded"
        return small_schema(self._table.schema())

    def evolve(self, rows: pa.Schema) -> None:
        """Give the table what rows need: columns, wider numbers, columns that take null. Raises Away, KcliError."""
        assert self._table is not None, "the table is loaded"
        for _ in range(TRIES):
            keys = self._table.schema().identifier_field_names()
            changes = _changes(self.columns, [_strict(each) if each.name in keys else each for each in stored(rows)])
            if not changes:
                return
            with _reading(self.name):
                transaction = Once(self._table)
                with transaction.update_schema() as update:
                    update.union_by_name(pa.schema(changes))
                try:
                    transaction.commit_transaction()
                except CommitFailedException:
                    _pause(1)
                self._table.refresh()
        raise Away(f"{self.name}: other writers commit all the time")

    def fit(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows with the columns of the table; those that it lacks are left out. Raises ValueError for a value
        that a column cannot have (ArrowInvalid is one)."""
        columns = self.columns
        fitted = conform_rows(rows, columns, ())
        for each in columns:
            if not each.nullable and fitted.column(each.name).null_count:
                raise ValueError(f"column {each.name} of the table takes no null")
        return fitted

    def write(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Write rows that `fit` has returned to files. Raises Away, KcliError."""
        assert self._table is not None, "the table is loaded"
        columns, metadata = self.columns, self._table.metadata
        if self._properties:
            metadata = metadata.model_copy(update={"properties": {**metadata.properties, **self._properties}})
        with _reading(self.name):
            parts = self._parts(pa.Table.from_batches([conform_rows(each, columns, ()) for each in batches]))
            tasks = (
                WriteTask(self._run, next(self._numbers), metadata.schema(), part.to_batches(), partition_key=key)
                for key, part in parts
            )
            self._files += write_file(self._table.io, metadata, tasks)

    def _parts(self, rows: pa.Table) -> Iterator[tuple[PartitionKey | None, pa.Table]]:
        """Yield the rows of each partition."""
        assert self._table is not None, "the table is loaded"
        spec, schema = self._table.spec(), self._table.schema()
        if spec.is_unpartitioned():
            yield None, rows
            return
        values = []
        for field in spec.fields:
            transform = field.transform.transform(schema.find_type(field.source_id))
            values.append(list(map(transform, _plain(_column(rows, str(schema.find_column_name(field.source_id)))))))
        places: dict[tuple[Any, ...], list[int]] = {}
        for row, key in enumerate(zip(*values, strict=True)):
            places.setdefault(key, []).append(row)
        for key, chosen in places.items():
            fields = [PartitionFieldValue(field, value) for field, value in zip(spec.fields, key, strict=True)]
            yield PartitionKey(fields, spec, schema), rows.take(chosen)

    @property
    def has_files(self) -> bool:
        """Whether files were written that no snapshot has."""
        return bool(self._files)

    def commit(self, reached: Mapping[TopicPartition, int]) -> None:
        """Commit the files. reached: of each partition, the first offset that is in none of them. Raises Overtaken,
        Away; KcliError if the catalog refuses it."""
        reached = {place: max(at, self.expected.get(place, 0)) for place, at in reached.items()}
        assert self._table is not None, "the table is loaded"
        reason = "other writers commit all the time"
        for attempt in range(TRIES):
            if attempt:
                _pause(attempt)
            with _reading(self.name):
                self._table.refresh()
            known = self._position()
            if any(known.offsets.get(place) != self.expected.get(place) for place in reached):
                if any(known.offsets.get(place) != at for place, at in reached.items()):
                    raise Overtaken(f"{self.name}: another task has written rows of the same partitions")
                break
            summary = {f"{OFFSETS}{self._stream}": _text(known, reached, self._ids)}
            try:
                with _reading(self.name):
                    self._begin_branch()
                    transaction = Once(self._table)
                    producer = transaction.update_snapshot(snapshot_properties=summary, branch=self._branch)
                    with producer.fast_append() as snapshot:
                        for each in self._files:
                            snapshot.append_data_file(each)
                    transaction.commit_transaction()
            except _Conflict:
                continue
            except Away as error:  # the next look tells whether it was committed
                reason = str(error)
            else:
                break
        else:
            raise Away(f"{self.name}: {reason}")
        self.expected |= reached
        self._files = []

    def _begin_branch(self) -> None:
        """Make the branch of the main one's snapshot if it is not there, as Iceberg's own writers do."""
        assert self._table is not None, "the table is loaded"
        if self._table.metadata.snapshot_by_name(self._branch) is not None or self._branch == MAIN_BRANCH:
            return
        if self._table.current_snapshot() is None:  # pyiceberg writes the first snapshot to the main branch only
            transaction = Once(self._table)
            with transaction.update_snapshot().fast_append():
                pass
            transaction.commit_transaction()
            self._table.refresh()
        snapshot = self._table.current_snapshot()
        assert snapshot is not None, "it was made"
        self._table.manage_snapshots().create_branch(snapshot.snapshot_id, self._branch).commit()
        self._table.refresh()

    def _position(self) -> Position:
        """Return the offsets of the stream in the table, those of topics that were made anew left out."""
        assert self._table is not None, "the table is loaded"
        name = f"{OFFSETS}{self._stream}"
        snapshot = self._table.metadata.snapshot_by_name(self._branch)
        while snapshot is not None:
            text = None if snapshot.summary is None else snapshot.summary[name]
            if text is not None:
                return _read(text, self._ids, f"{self.name}: snapshot {snapshot.snapshot_id}: {name}")
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else self._table.metadata.snapshot_by_id(parent)
        return Position({})


class _Conflict(KcliError):
    """Another writer has committed first."""


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """A context whose errors are one line. Raises Away, _Conflict, KcliError."""
    try:
        yield
    except KcliError:
        raise
    except CommitFailedException as error:
        raise _Conflict(f"{name}: {line_of(error)}") from error
    except PASSING as error:
        raise Away(f"{name}: {line_of(error)}") from error
    except (*LOST_ANSWER, SQLAlchemyError) as error:
        raise KcliError(f"{name}: {line_of(error)}") from error
    except Exception as error:  # of pyiceberg, a driver, a file system
        raise KcliError(f"{name}: {line_of(error)}") from error


def _read(text: str, ids: Mapping[str, str], where: str) -> Position:
    try:
        found = json.loads(text)
        known: dict[str, str] = {topic: str(each) for topic, each in found["ids"].items()}
        offsets = {
            TopicPartition(topic, int(number)): int(at)
            for topic, each in found["offsets"].items()
            if known.get(topic) == ids.get(topic, known.get(topic))
            for number, at in each.items()
        }
    except (ValueError, AttributeError, TypeError, KeyError) as error:
        raise KcliError(f"{where} are no offsets: {error!r}") from None
    return Position(offsets, known)


def _text(known: Position, reached: Mapping[TopicPartition, int], ids: Mapping[str, str]) -> str:
    merged: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted({**known.offsets, **reached}.items()):
        merged.setdefault(topic, {})[str(partition)] = offset
    topics = {topic: ids.get(topic, known.topic_ids.get(topic, "")) for topic in merged}
    return json.dumps({"offsets": merged, "ids": topics}, separators=(",", ":"))


def stored(rows: pa.Schema) -> list[pa.Field]:
    """Return the columns of rows with the types of a table; those of an unknown type are left out."""
    return [each.with_type(_stored(each.type)) for each in rows if not pt.is_null(each.type)]


def _stored(kind: pa.DataType) -> pa.DataType:
    if pt.is_struct(kind):
        return pa.struct(stored(pa.schema(list(kind))))
    if pt.is_map(kind):
        return pa.map_(_stored(kind.key_type), kind.item_field.with_type(_stored(kind.item_type)))
    if pt.is_list(kind) or pt.is_large_list(kind):
        return pa.list_(kind.value_field.with_name("element").with_type(_stored(kind.value_type)))
    if pt.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return pa.time64("us") if pt.is_time(kind) else kind


def _strict(field: pa.Field) -> pa.Field:
    return pa.field(field.name, field.type, nullable=False)


def _changes(table: Iterable[pa.Field], rows: Iterable[pa.Field]) -> list[pa.Field]:
    """Return the fields of rows that the table has not, or otherwise than the rows need."""
    known = {each.name: each for each in table}
    found = []
    for each in rows:
        old = known.get(each.name)
        if old is None:
            found.append(pa.field(each.name, each.type))
            continue
        kind = _change(old.type, each.type)
        is_less_strict = each.nullable and not old.nullable
        if kind is not None or is_less_strict:
            found.append(pa.field(each.name, old.type if kind is None else kind, old.nullable or each.nullable))
    return found


def _change(old: pa.DataType, new: pa.DataType) -> pa.DataType | None:
    """Return the type that a column needs, of a struct the fields that change; None if it stays as it is."""
    if pt.is_struct(old) and pt.is_struct(new):
        changes = _changes(old, new)
        return pa.struct(changes) if changes else None
    if pt.is_list(old) and pt.is_list(new):
        kind = _change(old.value_type, new.value_type)
        return None if kind is None else pa.list_(old.value_field.with_type(kind))
    if pt.is_map(old) and pt.is_map(new):
        kind = _change(old.item_type, new.item_type)
        return None if kind is None else pa.map_(old.key_type, old.item_field.with_type(kind))
    return new if old != new and not pt.is_decimal(new) and can_widen(old, new) else None


def _column(rows: pa.Table, path: str) -> pa.ChunkedArray:
    names = path.split(".")
    found = rows.column(names[0])
    for name in names[1:]:
        found = pa.chunked_array([each.field(name) for each in found.chunks])
    return found


def _plain(column: pa.ChunkedArray) -> list[Any]:
    """Return the values as partition transforms take them: of dates and times their numbers."""
    if pt.is_date(column.type):
        column = column.cast(pa.int32())
    elif pt.is_timestamp(column.type) or pt.is_time(column.type):
        column = column.cast(pa.int64())
    found: list[Any] = column.to_pylist()
    return found


def _pause(attempt: int) -> None:
    time.sleep(random.uniform(0, PAUSE_S * attempt))  # noqa: S311 (no secret: two writers are to wait unequally)


def _local(place: str) -> str:
    return re.sub(r"^file:/+", "/", place)
