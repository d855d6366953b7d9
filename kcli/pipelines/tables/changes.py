"""The files that commits add to a table, for a pipe from the table into a topic.

    before the first commit   NO_VERSION
    version                   Delta: its number; Iceberg: the id of the snapshot
    first                     all files of the version
    afterwards                the files that commits have added since. Commits that only rewrite files (compaction) add
                              none. A commit that changes or removes rows is an error, as records of a topic stay

The order of files is that of their paths, so that it is the same each time. Source: Delta's protocol, "Add File and
Remove File"; Iceberg's specification, "Snapshots".
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import unquote

import pyarrow as pa

from kcli.errors import KcliError, UsageError, needing

with needing("tables"):
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError
    from pyiceberg.manifest import DataFileContent, ManifestContent, ManifestEntryStatus
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Operation, Snapshot, ancestors_of

    from kcli.pipelines.tables.iceberg import IcebergTable, small_schema

NO_VERSION: Final = -1


class RowsChanged(KcliError):
    """A commit has changed or removed rows that a pipe may have written to a topic."""

    def __init__(self, name: str, version: int, what: str) -> None:
        super().__init__(
            f"{name}: version {version} {what}, and a topic takes nothing back: another --checkpoint pipes all rows"
        )


class CommitsGone(KcliError):
    """The table's log no longer has the commits after a version, or the table was rolled back."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name}: commits since the last run are gone, or were rolled back: another --checkpoint pipes all rows"
        )


class Changes(Protocol):
    """A table that other programs write, as a pipe reads it. name: for messages."""

    name: str

    @property
    def id(self) -> str:
        """The table's id; a table that is created later in its place has another one."""
        ...

    @property
    def version(self) -> int:
        """The current version."""
        ...

    @property
    def columns(self) -> pa.Schema:
        """The columns. Columns of Iceberg have their field ids in the metadata, as those of the table's files have."""
        ...

    def added(self, since: int, to: int) -> list[str]:
        """Return the paths of the files that were added after one version up to another. Raises RowsChanged,
        CommitsGone, UsageError (files of deletes), KcliError."""
        ...


def changes_of(kind: str, directory: Path, catalog: str | None, name: str | None) -> Changes:
    """Return the table in a directory, as it is now. kind: iceberg or delta. catalog, name: the catalog and the name of
    an Iceberg table in a catalog. Raises UsageError if there is no such table, KcliError if the catalog does not
    answer."""
    return _Delta(directory) if kind == "delta" else _Iceberg(IcebergTable(directory, (), catalog, name))


class _Delta:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.name = f"the Delta table {directory}"
        with self._reading():
            try:
                self._table = DeltaTable(str(directory))
            except TableNotFoundError:
                raise UsageError(f"{directory} is no Delta table") from None
            self.id = str(self._table.metadata().id)
            self.version = self._table.version()
            self.columns: pa.Schema = pa.schema(self._table.schema().to_arrow())
            features = {*(self._table.protocol().reader_features or ())} & {"deletionVectors", "columnMapping"}
        if features:
            raise UsageError(f"{self.name} has {' and '.join(sorted(features))}, which kcli does not read")

    def added(self, since: int, to: int) -> list[str]:
        if since == NO_VERSION:
            with self._reading():
                table = DeltaTable(str(self._directory), version=to)
                return sorted(unquote(each.removeprefix("file://")) for each in table.file_uris())
        return sorted(path for version in range(since + 1, to + 1) for path in self._of_commit(version))

    def _of_commit(self, version: int) -> Iterator[str]:
        path = self._directory / "_delta_log" / f"{version:020}.json"
        try:
            actions: list[dict[str, Any]] = [json.loads(line) for line in path.read_text().splitlines() if line]
        except FileNotFoundError:
            raise CommitsGone(self.name) from None
        except (OSError, ValueError) as error:
            raise KcliError(f"{path}: {getattr(error, 'strerror', None) or 'not a commit of a Delta table'}") from None
        for action in actions:
            if action.get("remove", {}).get("dataChange"):
                raise RowsChanged(self.name, version, "removes files with rows")
            add = action.get("add", {})
            if add.get("dataChange"):
                yield str(self._directory / unquote(add["path"].removeprefix("file://")))

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (DeltaError, OSError) as error:
            raise KcliError(f"{self.name}: {str(error).splitlines()[0]}") from error


class _Iceberg:
    def __init__(self, table: IcebergTable) -> None:
        self.name = table.name
        self._table: Table = table.opened()
        snapshot = self._table.current_snapshot()
        self.id = str(self._table.metadata.table_uuid)
        self.version = NO_VERSION if snapshot is None else snapshot.snapshot_id
        self.columns = small_schema(self._table.schema())

    def added(self, since: int, to: int) -> list[str]:
        if to in (NO_VERSION, since):
            return []
        if since == NO_VERSION:
            tasks = [*self._table.scan(snapshot_id=to).plan_files()]
            if any(each.delete_files for each in tasks):
                raise UsageError(f"{self.name} has files of deletes, which kcli does not read")
            return sorted(_path(each.file.file_path) for each in tasks)
        return sorted(path for snapshot in self._between(since, to) for path in self._of_snapshot(snapshot))

    def _between(self, since: int, to: int) -> list[Snapshot]:
        found: list[Snapshot] = []
        for each in ancestors_of(self._table.snapshot_by_id(to), self._table.metadata):
            if each.snapshot_id == since:
                return found
            found.append(each)
        raise CommitsGone(self.name)

    def _of_snapshot(self, snapshot: Snapshot) -> Iterator[str]:
        operation = None if snapshot.summary is None else snapshot.summary.operation
        if operation is Operation.REPLACE:
            return
        if operation is not Operation.APPEND:
            shown = "has no operation" if operation is None else f"is of the operation {operation.value}"
            raise RowsChanged(self.name, snapshot.snapshot_id, shown)
        for manifest in snapshot.manifests(self._table.io):
            if manifest.added_snapshot_id != snapshot.snapshot_id or manifest.content is not ManifestContent.DATA:
                continue
            for entry in manifest.fetch_manifest_entry(self._table.io):
                if entry.status is ManifestEntryStatus.ADDED and entry.data_file.content is DataFileContent.DATA:
                    yield _path(entry.data_file.file_path)


def _path(address: str) -> str:
    return address.removeprefix("file://")
