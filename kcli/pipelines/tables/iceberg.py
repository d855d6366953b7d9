"""Iceberg tables, with pyiceberg: of a SQL or REST catalog, of one that pyiceberg's configuration names, or of none.

    field ids     workers write the Parquet files with the ids of the table's columns, as Iceberg's own writers do, so
                  that no name mapping is needed and columns may be renamed
    snapshot      one for each export, by a fast append; its summary has `kcli.offsets`: topic -> partition -> the first
                  offset that is not in the table, and `kcli.topic-ids`: topic -> its id. The youngest snapshot that
                  has offsets counts, so that other writers and compaction may come between, and a rollback takes the
                  offsets back with the rows
    by key        a snapshot that replaces files: those with rows of the new keys are written anew, without these rows
    compaction    a snapshot with the same rows and offsets, of the operation `overwrite`: pyiceberg has no `replace`
    commit        new columns and the snapshot in one; a new table with both. It is tried once: if anybody else has
                  committed since the table was loaded, it fails, because offsets may have changed with the rows

Source: Iceberg's specification, "Snapshots", "Column Projection", "Partition Transforms".
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from kcli.errors import KcliError, UsageError, needing
from kcli.export.commit import reason_of
from kcli.export.conform import conform_rows
from kcli.pipelines.tables.evolution import evolved, refuse_required, storable
from kcli.pipelines.tables.table import JOINED, ChangedMeanwhile, Commit, NotCommitted, PlacedFile, Position
from kcli.protocol.topic_partition import TopicPartition

with needing("tables"):
    import requests
    from pyiceberg import expressions
    from pyiceberg.catalog import Catalog, load_catalog
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.exceptions import (
        BadRequestError,
        CommitFailedException,
        CommitStateUnknownException,
        ForbiddenError,
        NoSuchNamespaceError,
        NoSuchTableError,
        OAuthError,
        RESTError,
        TableAlreadyExistsError,
        UnauthorizedError,
        ValidationError,
        ValidationException,
    )
    from pyiceberg.io.pyarrow import (
        DataFileStatistics,
        compute_statistics_plan,
        data_file_statistics_from_parquet_metadata,
        parquet_path_to_id_mapping,
        schema_to_pyarrow,
    )
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table, Transaction
    from pyiceberg.table.snapshots import ancestors_of
    from pyiceberg.table.update import AddSnapshotUpdate, AssertTableUUID, TableUpdate
    from pyiceberg.typedef import Properties, Record
    from pyiceberg.utils.config import Config
    from sqlalchemy.exc import SQLAlchemyError

    from kcli.pipelines.tables.directory import DirectoryCatalog

OFFSETS = "kcli.offsets"
TOPIC_IDS = "kcli.topic-ids"
BY_KEY = "kcli.latest-by-key"
KEY = ("topic", "partition", "key")
CATALOG = "default"
TIMEOUT_S = 60
ROW_GROUP_ROWS = 1 << 17
SMALL = 0.75
"""A file with at least this fraction of the wanted size is not joined with others."""
FORMAT_VERSION = "2"
TERM = re.compile(r"(?P<transform>\w+)\((?:(?P<argument>\d+),)?(?P<column>\w+)\)")
LOST_ANSWER = (CommitStateUnknownException, requests.RequestException, RESTError)


class IcebergTable:
    """An Iceberg table whose files are in a directory of this machine.

    directory: where a new table is made; an existing table must lie there. layout: its partition fields, terms of
    kcli.pipelines.tables.table. catalog: a URL (http, https: REST; any other: SQL, as SQLAlchemy has it), the name of a
    catalog of pyiceberg's configuration, or None for a table without one. identifier: NAMESPACE.NAME in a catalog.
    by_key: whether the table has only the latest record of each key.
    """

    is_whole = True

    def __init__(
        self,
        directory: Path,
        layout: Sequence[str],
        catalog: str | None,
        identifier: str | None,
        *,
        by_key: bool = False,
    ) -> None:
        if by_key and any("timestamp" in term for term in layout):
            raise UsageError(
                "--partition-by: a table of --latest-by-key has partitions by topic, partition and key only"
            )
        self.by_key = by_key
        self._directory = directory.resolve()
        self._layout = list(layout)
        self._place = catalog
        self._identifier = identifier or self._directory.name
        self.name = f"the Iceberg table {self._identifier if catalog else self._directory}"
        self.data = self._directory / "data"
        self._opened: Catalog | None = None
        self._table: Table | None = None
        self._transaction: Transaction | None = None

    @property
    def exists(self) -> bool:
        """Whether the last `load` has found a table."""
        return self._table is not None

    def load(self) -> None:
        """Read the table's metadata. Raises KcliError if the catalog does not answer, UsageError if the table's files
        lie elsewhere or its partition fields are others."""
        self._table = None
        with self._reading():
            if self._opened is None:
                self._opened = _catalog(self._place, self._directory)
            try:
                self._table = self._opened.load_table(self._identifier)
            except (NoSuchTableError, NoSuchNamespaceError):
                return
            except FileNotFoundError:
                if self._place is None:
                    raise
                raise UsageError(
                    f"{self.name} is in its catalog, and its metadata is not in {self._directory}: drop it there first"
                ) from None
        where = self._table.location().removeprefix("file://").rstrip("/")
        if where != str(self._directory):
            raise UsageError(f"{self.name} has its files in {where}: --out names that directory")
        fields = [_term(each, self._table) for each in self._table.spec().fields]
        if fields != self._layout:
            theirs, ours = (", ".join(names) or "nothing" for names in (fields, self._layout))
            raise UsageError(f"{self.name} is partitioned by {theirs}, not by {ours}")
        if (BY_KEY in self._table.properties) != self.by_key:
            raise UsageError(f"{self.name} was made {'without' if self.by_key else 'with'} --latest-by-key")

    def opened(self) -> Table:
        """Return pyiceberg's table; its partition fields and offsets are not checked. Raises UsageError if there is no
        table, KcliError if the catalog does not answer."""
        with self._reading():
            try:
                return _catalog(self._place, self._directory).load_table(self._identifier)
            except (NoSuchTableError, NoSuchNamespaceError):
                raise UsageError(f"there is no {self.name.removeprefix('the ')}") from None

    def next_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offsets in the latest snapshot that has offsets. Raises UsageError if no snapshot has."""
        known = self._position().offsets
        return {each: known[each] for each in partitions if each in known}

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        """Return the ids in the snapshot that has the offsets. Raises as `next_offsets`."""
        known = self._position().topic_ids
        return {each: known[each] for each in topics if each in known}

    def _position(self) -> Position:
        if self._table is None or self._table.current_snapshot() is None:
            return Position({})
        for snapshot in ancestors_of(self._table.current_snapshot(), self._table.metadata):
            summary = snapshot.summary
            if summary is not None and (text := summary[OFFSETS]) is not None:
                try:
                    found, ids = json.loads(text), json.loads(summary[TOPIC_IDS] or "{}")
                    offsets = {TopicPartition(t, int(p)): int(o) for t, each in found.items() for p, o in each.items()}
                    return Position(offsets, {topic: str(each) for topic, each in ids.items()})
                except (ValueError, AttributeError, TypeError) as error:
                    where = f"snapshot {snapshot.snapshot_id} of {self.name}"
                    raise KcliError(f"{where} has no offsets of kcli in {OFFSETS}: {error!r}") from None
        raise UsageError(
            f"no snapshot of {self.name} tells of offsets: others made its rows, or the snapshots of kcli have expired"
        )

    def fit(self, rows: pa.Schema) -> pa.Schema:
        """Return the schema of the files to write: all columns of the table, with their field ids. Raises SchemaError,
        UsageError."""
        assert self._opened is not None
        new = storable(rows, self.name, has_times=True)
        self._refuse_partitioning(new)
        if self.by_key and not {*KEY, "value"} <= set(rows.names):
            raise UsageError("--latest-by-key needs the columns topic, partition, key and value")
        if self.by_key and pt.is_nested(rows.field("key").type):
            raise UsageError(f"--latest-by-key: keys of the type {rows.field('key').type} cannot be compared")
        with self._reading():
            if self._table is None:
                if self._place is not None:
                    space = self._identifier.rpartition(".")[0]
                    if not self._opened.namespace_exists(space):
                        self._opened.create_namespace_if_not_exists(space)
                properties = {"format-version": FORMAT_VERSION, **({BY_KEY: "true"} if self.by_key else {})}
                self._transaction = self._opened.create_table_transaction(
                    self._identifier,
                    evolved(None, new, self.name, can_widen),
                    f"file://{self._directory}",
                    properties=properties,
                )
                with self._transaction.update_spec() as spec:
                    for term in self._layout:
                        spec.add_field(*_field(term))
            else:
                self._transaction = Once(self._table)
                refuse_required(schema_to_pyarrow(self._table.schema()), self.name)
                known = storable(small_schema(self._table.schema()), self.name, has_times=True)
                wanted = evolved(known, new, self.name, can_widen)
                if wanted != known:
                    with self._transaction.update_schema() as update:
                        update.union_by_name(wanted)
        return small_schema(self._transaction.table_metadata.schema())

    def _refuse_partitioning(self, rows: pa.Schema) -> None:
        for term in self._layout:
            column, transform, _ = _field(term)
            if column not in rows.names:
                raise UsageError(f"--partition-by {term}: --columns leaves out {column}")
            kind = rows.field(column).type
            if transform.startswith("bucket") and not (pt.is_binary(kind) or pt.is_string(kind) or pt.is_null(kind)):
                raise UsageError(f"--partition-by {term}: only keys of bytes or text have a bucket, not {kind}")

    def append(self, files: Sequence[PlacedFile], reached: Position) -> None:
        """Commit files and position. Raises NotCommitted; KcliError if the answer of the catalog is lost."""
        transaction = self._transaction
        assert transaction is not None
        with (
            self._committing(transaction),
            transaction.update_snapshot(snapshot_properties=self._summary(reached)).fast_append() as snapshot,
        ):
            for each in files:
                snapshot.append_data_file(self._placed(each, transaction))

    def upsert(self, files: Mapping[Path, PlacedFile], reached: Position) -> None:
        """Commit new rows and position. Files that have rows with the same keys are rewritten without those rows.
        Raises as `append`."""
        transaction = self._transaction
        assert transaction is not None
        assert self._table is not None
        with self._committing(transaction):
            schema = small_schema(transaction.table_metadata.schema())
            keys = pa.concat_tables([pq.read_table(path, columns=list(KEY)) for path in files])
            topics = expressions.In("topic", pc.unique(keys["topic"]).to_pylist())  # type: ignore[call-arg, arg-type]
            run = next(iter(files.values())).path.stem
            with transaction.update_snapshot(snapshot_properties=self._summary(reached)).overwrite() as snapshot:
                for number, task in enumerate(self._table.scan(row_filter=topics).plan_files()):
                    old = _path(task.file)
                    rows = _without(old, keys, schema, is_whole=not task.delete_files)
                    if rows is not None:
                        snapshot.delete_data_file(task.file)
                        if rows.num_rows:
                            kept = old.with_name(f"{run}-kept-{number:06}.parquet")
                            _write(rows, kept)
                            snapshot.append_data_file(_described(kept, task.file.partition, transaction))
                for path, placed in files.items():
                    rows = pq.read_table(path, schema=schema)
                    rows = rows.filter(pc.is_valid(rows["value"]))
                    if rows.num_rows:
                        placed.path.parent.mkdir(parents=True, exist_ok=True)
                        _write(rows, placed.path)
                        snapshot.append_data_file(self._placed(placed, transaction))

    def _summary(self, reached: Position) -> dict[str, str]:
        known = self._position()
        merged: dict[str, dict[str, int]] = {}
        for (topic, partition), offset in sorted({**known.offsets, **reached.offsets}.items()):
            merged.setdefault(topic, {})[str(partition)] = offset
        ids = dict(sorted({**known.topic_ids, **reached.topic_ids}.items()))
        return {OFFSETS: json.dumps(merged), **({TOPIC_IDS: json.dumps(ids)} if ids else {})}

    def _placed(self, placed: PlacedFile, transaction: Transaction) -> DataFile:
        values = [_value(term, label) for term, label in zip(self._layout, placed.labels, strict=True)]
        return _described(placed.path, Record(*values), transaction)

    @contextmanager
    def _committing(self, transaction: Transaction, undone: str = "nothing was added") -> Iterator[None]:
        """A context that commits the transaction at its end. Any error in its body is raised as NotCommitted. undone:
        the consequence of such an error, for its message."""
        try:
            yield
        except Exception as error:
            if isinstance(error, OSError) and not isinstance(error, requests.RequestException):
                raise NotCommitted(f"{self.name}: {reason_of(error)}: {undone}") from error
            raise NotCommitted(f"{self.name}: {line_of(error)}: {undone}") from error
        try:
            transaction.commit_transaction()
        except (CommitFailedException, TableAlreadyExistsError, ValidationException) as error:
            raise ChangedMeanwhile(f"{self.name} has changed meanwhile, and {undone}: export again") from error
        except NoSuchTableError as error:
            raise NotCommitted(f"{self.name} has been dropped meanwhile: {undone}") from error
        except (BadRequestError, ForbiddenError, OAuthError, UnauthorizedError) as error:
            raise NotCommitted(f"{self._catalog_name}: {line_of(error)}: {undone}") from error
        except (*LOST_ANSWER, SQLAlchemyError) as error:
            reason = f"{self._catalog_name}: {line_of(error)}"
            raise KcliError(f"{reason}; the next export finds out whether the rows are in {self.name}") from error
        except OSError as error:  # while the metadata file is written, before the catalog is updated
            raise NotCommitted(f"{self.name}: {reason_of(error)}: {undone}") from error

    def names(self, places: Collection[str]) -> bool:
        """Whether a snapshot names one of these files. Raises KcliError."""
        if self._table is None:
            return False
        with self._reading():
            known = self._table.inspect.all_data_files()["file_path"].to_pylist()
        return not {path.removeprefix("file://") for path in known}.isdisjoint(places)

    def compact(self, file_bytes: int, scratch: Path, commit: Commit) -> int:
        """Join small files of a partition in a snapshot of its own; return how many were joined. Files are left alone
        if another program has deleted some of their rows by delete files, or has renamed columns. Raises KcliError."""
        self.load()
        if self._table is None:
            return 0
        transaction = Once(self._table)
        schema = small_schema(self._table.schema())
        with self._reading():
            bins = _bins(self._small_files(schema, file_bytes), file_bytes)
            staged = [_joined(files, schema, scratch / f"{JOINED}-{i:06}.parquet") for i, files in enumerate(bins)]
        if not bins:
            return 0
        names = [f"part-{scratch.name}-{path.name}" for path in staged]
        places = [_path(files[0]).with_name(name) for files, name in zip(bins, names, strict=True)]

        def replace_files() -> None:
            summary = self._summary(Position({}))
            with (
                self._committing(transaction, "no files were joined"),
                transaction.update_snapshot(snapshot_properties=summary).overwrite() as snapshot,
            ):
                for files, place in zip(bins, places, strict=True):
                    for each in files:
                        snapshot.delete_data_file(each)
                    snapshot.append_data_file(_described(place, files[0].partition, transaction))

        commit(dict(zip(staged, places, strict=True)), replace_files)
        return sum(map(len, bins))

    def _small_files(self, schema: pa.Schema, file_bytes: int) -> Iterator[DataFile]:
        """Yield the files to be joined, the oldest first."""
        assert self._table is not None
        names = _names(schema).items()
        for task in reversed([*self._table.scan().plan_files()]):
            file = task.file
            if (
                file.file_size_in_bytes < SMALL * file_bytes
                and file.spec_id == self._table.spec().spec_id
                and not task.delete_files
                and _names(pq.read_schema(_path(file))).items() <= names
            ):
                yield file

    @property
    def _catalog_name(self) -> str:
        return re.sub(r"//[^/@]*@", "//", self._place or str(self._directory))

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except KcliError:
            raise
        except Exception as error:  # of pyiceberg, requests, SQLAlchemy, a driver, a file system
            raise KcliError(f"{self._catalog_name}: {line_of(error)}") from error


def _without(path: Path, keys: pa.Table, schema: pa.Schema, *, is_whole: bool) -> pa.Table | None:
    """Return the rows of a file that have none of the keys, in the order of the file and with the schema of the table;
    None if no row has any of the keys. is_whole: False if delete files have removed rows of the file. Raises UsageError
    if rows were removed in this way, or if the table's columns were renamed since the file was written."""
    with pq.ParquetFile(path) as file:
        numbered = file.read(columns=list(KEY)).append_column("row", pa.array(np.arange(file.metadata.num_rows)))
        left = numbered.join(keys, list(KEY), join_type="left anti")["row"].combine_chunks().sort()
        if len(left) == file.metadata.num_rows:
            return None
        if not is_whole or not _names(file.schema_arrow).items() <= _names(schema).items():
            raise UsageError(f"{path}: others have renamed columns, or deleted rows, since this file was written")
        batches = (conform_rows(batch, schema, ()) for batch in file.iter_batches())
        return pa.Table.from_batches(batches, schema).take(left)


def _bins(files: Iterable[DataFile], file_bytes: int) -> list[list[DataFile]]:
    """Group files of the same partition, which are to be joined; return groups of two files or more, of about
    `file_bytes` each."""
    found: list[list[DataFile]] = []
    last: dict[Record, tuple[list[DataFile], int]] = {}
    for each in files:
        joined, size = last.get(each.partition, ([], 0))
        if not joined or size + each.file_size_in_bytes > file_bytes:
            joined, size = [], 0
            found.append(joined)
        joined.append(each)
        last[each.partition] = joined, size + each.file_size_in_bytes
    return [joined for joined in found if len(joined) > 1]


def _joined(files: Sequence[DataFile], schema: pa.Schema, path: Path) -> Path:
    """Write the rows of several files to one file, row group by row group; return its path."""
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for rows in _row_groups(map(_path, files), schema):
            writer.write_table(rows, ROW_GROUP_ROWS)
    _sync(path)
    return path


def _row_groups(files: Iterable[Path], schema: pa.Schema) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    for path in files:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches():
                held.append(conform_rows(batch, schema, ()))
                if sum(each.num_rows for each in held) >= ROW_GROUP_ROWS:
                    yield pa.Table.from_batches(held, schema)
                    held = []
    if held:
        yield pa.Table.from_batches(held, schema)


def _path(file: DataFile) -> Path:
    return Path(file.file_path.removeprefix("file://"))


def _names(schema: pa.Schema) -> dict[bytes, str]:
    """Return the name of each field of a schema, at any depth, by its id."""
    found = {}
    due = list(schema)
    while due:
        field = due.pop()
        if field.metadata and b"PARQUET:field_id" in field.metadata:
            found[field.metadata[b"PARQUET:field_id"]] = field.name
        due += [field.type.field(i) for i in range(field.type.num_fields)]
    return found


def _write(rows: pa.Table, path: Path) -> None:
    """Write a Parquet file, and sync it."""
    pq.write_table(rows, path, compression="zstd", row_group_size=ROW_GROUP_ROWS)
    _sync(path)


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _described(path: Path, partition: Record, transaction: Transaction) -> DataFile:
    table = transaction.table_metadata
    metadata = pq.read_metadata(path)
    try:
        statistics = _statistics(metadata, table.schema(), table.properties)
    except (OverflowError, ValueError):  # a time beyond Python's calendar: no bounds, of any column
        statistics = _statistics(metadata, table.schema(), {"write.metadata.metrics.default": "counts"})
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"file://{path}",
        file_format=FileFormat.PARQUET,
        partition=partition,
        file_size_in_bytes=path.stat().st_size,
        sort_order_id=None,
        spec_id=table.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **statistics.to_serialized_dict(),
    )


def _statistics(metadata: pq.FileMetaData, schema: Schema, properties: Properties) -> DataFileStatistics:
    return data_file_statistics_from_parquet_metadata(
        parquet_metadata=metadata,
        stats_columns=compute_statistics_plan(schema, properties),
        parquet_column_mapping=parquet_path_to_id_mapping(schema),
    )


class Once(Transaction):
    """A transaction that is tried once, as a second try would not compare the offsets again. Its snapshot is not older
    than the table's last change, whatever the clock says: readers in Java refuse a table whose snapshots are not in the
    order of their times."""

    def commit_transaction(self) -> Table:
        metadata = self._table.metadata
        requirements = (*self._requirements, AssertTableUUID(uuid=metadata.table_uuid))
        updates = tuple(_not_before(metadata.last_updated_ms, each) for each in self._updates)
        self._table.catalog.commit_table(self._table, requirements, updates)
        return self._table


def _not_before(time_ms: int, update: TableUpdate) -> TableUpdate:
    """Return an update whose snapshot, if it adds one, has no earlier time than `time_ms`."""
    if not isinstance(update, AddSnapshotUpdate):
        return update
    snapshot = update.snapshot
    later = snapshot.model_copy(update={"timestamp_ms": max(snapshot.timestamp_ms, time_ms)})
    return update.model_copy(update={"snapshot": later})


class Rest(RestCatalog):
    """A REST catalog whose requests have a timeout; pyiceberg sets none."""

    def _create_session(self) -> requests.Session:
        session = super()._create_session()
        session.request = partial(session.request, timeout=TIMEOUT_S)  # type: ignore[method-assign]
        return session


def _catalog(place: str | None, directory: Path) -> Catalog:
    if place is None:
        return DirectoryCatalog(directory)
    if place.startswith(("http://", "https://")):
        return Rest(CATALOG, uri=place)
    if "://" in place:
        return load_catalog(CATALOG, type="sql", uri=place)
    settings: dict[str, Any] | None = Config().get_catalog_config(place)
    if settings is None:
        raise UsageError(f"--catalog {place!r} is no URL, and no catalog that pyiceberg's configuration names")
    if settings.get("type", "rest") == "rest" and str(settings.get("uri", "")).startswith("http"):
        return Rest(place, **settings)
    return load_catalog(place)


def can_widen(old: pa.DataType, new: pa.DataType) -> bool:
    """Whether Iceberg can promote a type: int to long, float to double, a decimal to more digits."""
    if pt.is_decimal(old) and pt.is_decimal(new):
        return bool(old.scale == new.scale and old.precision <= new.precision)
    return (old, new) in ((pa.int32(), pa.int64()), (pa.float32(), pa.float64()))


def small_schema(schema: Any) -> pa.Schema:
    """Return the Arrow schema of an Iceberg schema, with field ids; texts, bytes and lists have 32-bit offsets."""

    def small(field: pa.Field) -> pa.Field:
        kind = field.type
        if pt.is_struct(kind):
            kind = pa.struct([small(kind.field(i)) for i in range(kind.num_fields)])
        elif pt.is_map(kind):
            kind = pa.map_(small(kind.key_field), small(kind.item_field))
        elif pt.is_large_list(kind) or pt.is_list(kind):
            kind = pa.list_(small(kind.value_field))
        elif pt.is_large_string(kind):
            kind = pa.string()
        elif pt.is_large_binary(kind):
            kind = pa.binary()
        return field.with_type(kind)

    return pa.schema([small(each) for each in schema_to_pyarrow(schema)])


def _field(term: str) -> tuple[str, str, str | None]:
    """Return the column, the transform and the name of the partition field that a term describes."""
    found = TERM.fullmatch(term)
    if found is None:
        return term, "identity", None
    transform = found["transform"]
    full = f"{transform}[{found['argument']}]" if found["argument"] else transform
    return found["column"], full, f"{found['column']}_{transform}"


def _term(field: Any, table: Table) -> str:
    """Return the term that describes a partition field of a table; if no term has its transform, the transform's
    text."""
    column = table.schema().find_column_name(field.source_id)
    found = re.fullmatch(r"(\w+?)(?:\[(\d+)\])?", str(field.transform))
    if found is None or found[1] == "identity":
        return str(column)
    return f"{found[1]}({found[2]},{column})" if found[2] else f"{found[1]}({column})"


VALUES: dict[str, Callable[[str], Any]] = {
    "topic": str,
    "day(timestamp)": lambda label: int(np.datetime64(label, "D").astype(int)),
    "hour(timestamp)": lambda label: int(np.datetime64(label, "h").astype(int)),
}


def _value(term: str, label: str | None) -> Any:
    return None if label is None else VALUES.get(term, int)(label)


def line_of(error: BaseException) -> str:
    """Return the cause of an error in one line: the innermost message, without the messages that wrap and repeat it."""
    reason = getattr(error, "orig", None) or error
    if isinstance(reason, requests.ConnectionError):
        found = re.search(r"(\[Errno -?\d+\] [^'\")]+|Name or service not known)", str(reason))
        return f"no answer: {found[1] if found else 'the connection failed'}"
    if isinstance(reason, (ValidationError, UnicodeDecodeError)):
        return "what it has of the table is not the metadata of an Iceberg table"
    if isinstance(reason, requests.Timeout):
        return f"no answer within {TIMEOUT_S} s"
    return str(reason).strip().partition("\n")[0] or type(reason).__name__
