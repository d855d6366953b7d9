"""An Iceberg catalog of one table, in the table's own directory. Iceberg calls such a table a Hadoop table.

    metadata/vN.metadata.json   the table's N-th version, N from 1 on
    metadata/version-hint.text  N, for readers; it may be behind

A commit makes the file of the next version by a link, which fails if another writer has made it. The current version is
the last that can be reached from the hint's version without a gap. Source: Iceberg's specification, "File System
Tables".
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, ValidationError
from pyiceberg.io import load_file_io
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.serializers import FromInputFile, ToOutputFile
from pyiceberg.table import CommitTableResponse, CreateTableTransaction, StagedTable, Table
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties

from kcli.errors import UnreadableInput
from kcli.log.disk import Disk

HINT = "version-hint.text"


class DirectoryCatalog(NoopCatalog):
    """The catalog of the table in a directory. The table is found under any identifier."""

    def __init__(self, directory: Path) -> None:
        super().__init__("directory")
        self._location = f"file://{directory}"
        self._metadata = directory / "metadata"

    def load_table(self, identifier: str | Identifier) -> Table:  # noqa: ARG002 (of any catalog)
        """Return the table in its current version. Raises NoSuchTableError, OSError, UnreadableInput."""
        version = self._version()
        if version == 0:
            raise NoSuchTableError(f"{self._metadata} has no version of a table")
        location = str(self._path(version))
        io = load_file_io(self.properties, location)
        try:
            metadata = FromInputFile.table_metadata(io.new_input(location))
        except (ValidationError, ValueError) as error:
            raise UnreadableInput(location, "not the metadata of an Iceberg table") from error
        return Table(("directory", self._metadata.parent.name), metadata, location, io, self)

    def create_table_transaction(
        self,
        identifier: str | Identifier,  # noqa: ARG002 (of any catalog)
        schema: Schema | object,
        location: str | None = None,  # noqa: ARG002 (of any catalog)
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> CreateTableTransaction:
        """Return the transaction that creates the table. location: ignored, the table lies in the catalog's
        directory."""
        metadata = new_table_metadata(
            location=self._location,
            schema=self._convert_schema_if_needed(schema),
            partition_spec=partition_spec,
            sort_order=sort_order,
            properties=properties,
        )
        path = str(self._path(1))
        io = load_file_io(self.properties, path)
        return CreateTableTransaction(StagedTable(("directory", self._metadata.parent.name), metadata, path, io, self))

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Make the next version. Raises CommitFailedException if a requirement is not met or another writer has made
        the version first, OSError if the version was not made."""
        version = self._version()
        current = self.load_table(table.name()) if version else None
        for requirement in requirements:
            requirement.validate(current.metadata if current else None)
        metadata = update_table_metadata(
            base_metadata=current.metadata if current else MetastoreCatalog._empty_table_metadata(),  # noqa: SLF001 (there is no other way to begin)
            updates=updates,
            enforce_validation=current is None,
            metadata_location=current.metadata_location if current else None,
        )
        path = self._path(version + 1)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        disk = Disk()
        disk.make_directory(self._metadata)
        try:
            ToOutputFile.table_metadata(metadata, table.io.new_output(str(temporary)), overwrite=True)
            with disk.open(temporary) as file:
                file.sync()
            try:
                os.link(temporary, path)
            except FileExistsError:
                raise CommitFailedException(f"{path} has been made by somebody else") from None
        finally:
            temporary.unlink(missing_ok=True)
        with suppress(OSError):  # the version is committed; a later commit writes the hint
            disk.sync_directory(self._metadata)
            disk.write_file(self._metadata / HINT, str(version + 1).encode())
        return CommitTableResponse.model_validate({"metadata": metadata, "metadata-location": str(path)})

    def _path(self, version: int) -> Path:
        return self._metadata / f"v{version}.metadata.json"

    def _version(self) -> int:
        """Return the number of the current version, 0 without one. Raises OSError, UnreadableInput."""
        hint = self._metadata / HINT
        try:
            version = int(hint.read_text())
        except ValueError:
            raise UnreadableInput(str(hint), "not the number of a table's version") from None
        except (FileNotFoundError, NotADirectoryError):
            version = 0
        while self._path(version + 1).exists():
            version += 1
        return version
