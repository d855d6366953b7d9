"""What a controller writes first when it becomes active.

    the log has no metadata.version   the records of bootstrap.checkpoint as one transaction, and where eligible leader
                                      replicas are on, min.insync.replicas as the default of all brokers (KIP-966)
    a transaction was left open       Abort of it (KIP-868)

Source: ActivationRecordsGenerator, BootstrapDirectory, BootstrapMetadata.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from formats.file_name import FileKind
from kcli.broker.metadata.records import read_batches
from kcli.log.recovery_view import StartRefused
from kcli.metadata.image import BROKER_RESOURCE, METADATA_VERSION, MetadataImage, Record
from kcli.metadata.metadata_version import LATEST
from kcli.metadata.snapshot import ELR_VERSION

TRANSACTIONS: Final = 13
"""The level of metadata.version from which on there are transactions."""

BEGIN: Final[Record] = ("BeginTransactionRecord", 0, {"name": "Bootstrap records"})
END: Final[Record] = ("EndTransactionRecord", 0, {})
ABORT: Final[Record] = ("AbortTransactionRecord", 0, {"reason": "Controller failover"})


def read_bootstrap(log_directory: Path) -> list[Record]:
    """The records that a new metadata log begins with. Raises UnreadableInput."""
    path = log_directory / FileKind.BOOTSTRAP
    if not path.exists():
        return [("FeatureLevelRecord", 0, {"name": METADATA_VERSION, "featureLevel": LATEST})]
    return [record for batch in read_batches(path) for record in batch.records]


def activation(image: MetadataImage, bootstrap: Sequence[Record], min_insync_replicas: int) -> list[Record]:
    """The records to write, all at once. min_insync_replicas: as server.properties has it. Raises StartRefused."""
    abort = [ABORT] if image.in_transaction else []
    if image.metadata_version:
        return abort
    levels = {value["name"]: value["featureLevel"] for name, _, value in bootstrap if name == "FeatureLevelRecord"}
    if METADATA_VERSION not in levels:
        raise StartRefused(FileKind.BOOTSTRAP, "has no metadata.version")
    records = list(bootstrap)
    if levels.get(ELR_VERSION, 0) > 0:
        default = {"resourceType": BROKER_RESOURCE, "resourceName": "", "name": "min.insync.replicas"}
        records.append(("ConfigRecord", 0, {**default, "value": str(min_insync_replicas)}))
    return [*abort, BEGIN, *records, END] if levels[METADATA_VERSION] >= TRANSACTIONS else records
