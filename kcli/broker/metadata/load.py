"""Opens the metadata log when a node starts: the recovery of `__cluster_metadata-0`, and the replay into the image.

    the log       all of it is recovered at every start, even after a clean shutdown, as in Kafka
    a snapshot    if the latest one is ahead of the log end, by epoch, then by offset, the log is dropped, and begins
                  anew at the snapshot's offset
    the image     is built from the latest snapshot, then the log after it; with one voter all records are committed

Source: KafkaRaftLog.createLog and truncateToLatestSnapshot, KRaftControlRecordStateMachine, MetadataLoader.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from formats.file_name import FileKind, FileName, build
from formats.properties import PartitionMetadata, build_partition_metadata
from kcli.broker.metadata.config import MetadataLogConfig
from kcli.broker.metadata.quorum import Quorum
from kcli.broker.metadata.snapshots import Snapshots
from kcli.errors import KcliError, UnreadableInput
from kcli.log.disk import Disk
from kcli.log.live.partition_log import OpenOptions, PartitionLog
from kcli.log.partition_directory import METADATA_TOPIC_ID, metadata_topic_id_refusal
from kcli.metadata.image import MetadataImage
from kcli.metadata_log.records import Replayed, read_batches
from kcli.metadata_log.snapshot_file import read_snapshot


@dataclass(slots=True)
class Replay:
    """Replays the batches of a snapshot and of a log into images and the quorum.

    last_timestamp_ms: the timestamp of the last record. bytes_since_snapshot: the size of the batches after the latest
    snapshot.
    """

    images: Sequence[MetadataImage]
    quorum: Quorum
    last_timestamp_ms: int = 0
    bytes_since_snapshot: int = 0

    def run(self, log: PartitionLog, snapshots: Snapshots) -> None:
        """Replay the latest snapshot and the log from the snapshot's offset on. Raises UnreadableInput, which names the
        file, for damage and for records that contradict each other."""
        latest = snapshots.latest
        if latest is not None:
            path = snapshots.path(latest)
            for batch in read_snapshot(path):
                for control in batch.controls:
                    self.last_timestamp_ms = control.value.get("lastContainedLogTimestamp", self.last_timestamp_ms)
                self._take(path, batch, [latest.offset - 1] * len(batch.records), latest.offset - 1)
        from_offset = 0 if latest is None else latest.offset
        highest, highest_path = -1, log.directory
        bases = log.base_offsets
        for base_offset, behind in zip(bases, [*bases[1:], log.log_end_offset], strict=True):
            path = log.directory / build(FileName(FileKind.LOG, base_offset))
            for batch in read_batches(path, from_offset) if behind > from_offset else ():
                if batch.last_offset > highest:
                    highest, highest_path = batch.last_offset, path
                self._take(path, batch, range(batch.base_offset, batch.last_offset + 1), batch.base_offset)
                self.last_timestamp_ms = batch.timestamp_ms
                self.bytes_since_snapshot += batch.size_bytes
        # Kafka starts despite repeated batches and missing offsets, but not if an offset is beyond the log end offset
        if highest > log.log_end_offset + 1:
            reason = f"offset {highest:,} is beyond the log's end, {log.log_end_offset:,}"
            raise UnreadableInput(str(highest_path), reason)

    def _take(self, path: Path, batch: Replayed, offsets: Sequence[int], controls_offset: int) -> None:
        self.quorum.follow(batch.controls, controls_offset)
        for offset, (name, _, value) in zip(offsets, batch.records, strict=False):
            try:
                for image in self.images:
                    image.apply(name, value, offset)
            except KcliError as error:
                raise UnreadableInput(str(path), f"offset {offset:,}: {error}") from None


def open_log(directory: Path, disk: Disk, config: MetadataLogConfig, now_ms: int) -> tuple[PartitionLog, Snapshots]:
    """Return the recovered log and its snapshots. The log is created if it does not exist. Raises StartRefused,
    UnreadableInput, OSError."""
    disk.make_directory(directory)
    refused = metadata_topic_id_refusal(directory)
    if refused is not None:
        raise refused
    topic_id = directory / FileKind.PARTITION_METADATA
    if not topic_id.exists():
        disk.write_file(topic_id, build_partition_metadata(PartitionMetadata(0, METADATA_TOPIC_ID)))
    log = PartitionLog(directory, disk, config.log_config, now_ms, OpenOptions(clean=False))
    snapshots = Snapshots(disk, directory)
    snapshots.load(log.log_start_offset)
    latest = snapshots.latest
    if latest is not None and (latest.epoch, latest.offset) > (log.latest_epoch or 0, log.log_end_offset):
        for removal in log.truncate_fully_and_start_at(latest.offset, now_ms):
            removal.run()
        for path in snapshots.forget_before(latest):
            disk.remove(path)
    return log, snapshots
