"""The first records that a controller writes when it becomes active.

    the log has no metadata.version   the records of bootstrap.checkpoint as one transaction, and if eligible leader
                                      replicas are on, min.insync.replicas as the default of all brokers (KIP-966)
    a transaction is left open        an AbortTransactionRecord (KIP-868)

Source: ActivationRecordsGenerator, BootstrapDirectory, BootstrapMetadata.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kcli.metadata.image import BROKER_RESOURCE, METADATA_VERSION, MetadataImage, Record
from kcli.metadata.snapshot import ELR_VERSION

TRANSACTIONS: Final = 13
"""The first level of metadata.version with transactions of metadata records."""

BEGIN: Final[Record] = ("BeginTransactionRecord", 0, {"name": "Bootstrap records"})
END: Final[Record] = ("EndTransactionRecord", 0, {})
ABORT: Final[Record] = ("AbortTransactionRecord", 0, {"reason": "Controller failover"})


def activation(image: MetadataImage, bootstrap: Sequence[Record], min_insync_replicas: int) -> list[Record]:
    """Return the records that a controller writes in one append when it becomes active; empty if it needs none.

    bootstrap: the records of bootstrap.checkpoint, among them one of metadata.version. min_insync_replicas: the value
    in server.properties.
    """
    abort = [ABORT] if image.in_transaction else []
    if image.metadata_version:
        return abort
    levels = {value["name"]: value["featureLevel"] for name, _, value in bootstrap if name == "FeatureLevelRecord"}
    records = list(bootstrap)
    if levels.get(ELR_VERSION, 0) > 0:
        default = {"resourceType": BROKER_RESOURCE, "resourceName": "", "name": "min.insync.replicas"}
        records.append(("ConfigRecord", 0, {**default, "value": str(min_insync_replicas)}))
    return [*abort, BEGIN, *records, END] if levels[METADATA_VERSION] >= TRANSACTIONS else records
