"""bootstrap.checkpoint: the records with which a new metadata log begins. Every node of Kafka reads it at each start.
If the file

    is missing                           Kafka uses only metadata.version, at its latest level
    has no record of metadata.version    Kafka does not start
    has an unreadable batch or record    Kafka does not start
    has a wrong CRC, an incomplete batch at the end, or no header or footer: Kafka reads the records all the same

The records are used only if the metadata log has no metadata.version. Source: BootstrapDirectory, BatchFileReader,
FileLogInputStream, BootstrapMetadata.
"""

from __future__ import annotations

from pathlib import Path

from formats.file_name import FileKind
from kcli.errors import StartRefused, UnreadableInput
from kcli.log.source import read_whole
from kcli.metadata.image import METADATA_VERSION, Record
from kcli.metadata.metadata_version import LATEST
from kcli.metadata_log.records import batches_in


def read_bootstrap(log_directory: Path) -> list[Record]:
    """Return the records of bootstrap.checkpoint in `log_directory`, as Kafka reads them.

    Raises StartRefused if Kafka does not start with the file, UnreadableInput.
    """
    path = log_directory / FileKind.BOOTSTRAP
    if not path.exists():
        return [("FeatureLevelRecord", 0, {"name": METADATA_VERSION, "featureLevel": LATEST})]
    if path.is_dir():
        raise StartRefused(FileKind.BOOTSTRAP, "a directory")
    records = _records(read_whole(path), path)
    if not any(name == "FeatureLevelRecord" and value["name"] == METADATA_VERSION for name, _, value in records):
        raise StartRefused(FileKind.BOOTSTRAP, "has no metadata.version")
    return records


def bootstrap_refusal(log_directory: Path) -> StartRefused | None:
    """Return why Kafka does not start with bootstrap.checkpoint; None if it does. Raises UnreadableInput."""
    try:
        read_bootstrap(log_directory)
    except StartRefused as refused:
        return refused
    return None


def _records(data: bytes, path: Path) -> list[Record]:
    try:
        return [record for batch in batches_in(data, str(path)) for record in batch.records]
    except UnreadableInput:  # imported only for a damaged file: the module loads Construct, a tenth of a start's time
        from kcli.metadata_log.damaged_bootstrap import records_of

        return list(records_of(data))
