"""The configuration of a metadata log. Source: MetadataLogConfig, KafkaRaftLog.createLog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kcli.log.config import LogConfig
from kcli.metadata_log.records import BATCH_BYTES_MAX

DELETE_DELAY_MS: Final = 60_000
"""How long files with the suffix .deleted are kept, in ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataLogConfig:
    """The configuration of the metadata log. The fields have Kafka's names, without the prefix `metadata.log.` or
    `metadata.`, and Kafka's defaults. Sizes are in bytes.

    min_insync_replicas: the default of min.insync.replicas for all brokers, which the controller writes to a new
    metadata log (activation.py). batch_bytes_max: internal.metadata.max.batch.size.in.bytes. segment_bytes may be below
    the 8 MiB that Kafka requires, because tests need small segments.
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    max_record_bytes_between_snapshots: int = 20 << 20
    max_snapshot_interval_ms: int = 3_600_000
    max_retention_bytes: int = 100 << 20
    max_retention_ms: int = 604_800_000
    max_idle_interval_ms: int = 500
    batch_bytes_max: int = BATCH_BYTES_MAX
    min_insync_replicas: int = 1

    @property
    def log_config(self) -> LogConfig:
        """The log configuration of the metadata log. It has no retention, as segments are deleted together with
        snapshots."""
        return LogConfig(
            {
                "max.message.bytes": str(self.batch_bytes_max),
                "internal.segment.bytes": str(self.segment_bytes),
                "segment.ms": str(self.segment_ms),
                "file.delete.delay.ms": str(DELETE_DELAY_MS),
                "retention.ms": "-1",
                "retention.bytes": "-1",
            }
        )
