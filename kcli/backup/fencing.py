"""Fences the brokers in a restored metadata log, so that a restored node sends nothing to running brokers of the
original.

The metadata log has the addresses at which the brokers were registered. A restored node, before its own broker is
registered again, would send transaction markers there: to the cluster of which the backup was made, if it still runs.
Fenced brokers are sent no markers. A broker is unfenced after it has registered again, as after any start.

This appends BrokerRegistrationChangeRecords to the log, but only if the node is the only voter: another voter would
have other records at these offsets. Source: BrokerRegistrationChangeRecord, TransactionMarkerChannelManager; KIP-631.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from formats import quorum_state
from formats.errors import FormatError
from formats.file_name import FileKind
from formats.kernels.write import write_batch
from kcli.errors import UnreadableInput
from kcli.log.disk import Disk
from kcli.log.partition_directory import files_of_kind
from kcli.log.source import read_whole
from kcli.metadata.image import MetadataImage
from kcli.metadata_log.quorum_records import QuorumRecords
from kcli.metadata_log.records import Replayed, encode, read_batches


def fence(disk: Disk, directory: Path, image: MetadataImage) -> int:
    """Append the records that fence all brokers. Returns their number: 0 if no broker is unfenced, if the log has no
    batch, or if the quorum has several or unknown voters. directory: that of the metadata log. image: the metadata
    after its last record. Raises UnreadableInput, OSError."""
    brokers = [each for each in image.brokers.values() if not each.fenced]
    logs = [path for _, path in sorted(files_of_kind(directory, FileKind.LOG))]
    snapshots = sorted(path for path in directory.iterdir() if path.name.endswith(FileKind.KRAFT_SNAPSHOT))
    quorum, last = QuorumRecords(), None
    for path in [*snapshots[-1:], *logs]:
        for batch in read_batches(path):
            quorum.follow(batch.controls, batch.base_offset)
            last = batch if path in logs else last
    if not brokers or last is None or len(set(_voters(quorum, directory))) != 1:
        return 0
    values = [
        encode(("BrokerRegistrationChangeRecord", 0, {"brokerId": each.id, "brokerEpoch": each.epoch, "fenced": 1}))
        for each in brokers
    ]
    _append(disk, logs[-1], last, values)
    return len(values)


def _voters(quorum: QuorumRecords, directory: Path) -> Iterable[int]:
    if quorum.kraft_version:
        return [each["voterId"] for each in quorum.voters]
    try:
        return quorum_state.parse(read_whole(directory / FileKind.QUORUM_STATE)).current_voters or ()
    except (FormatError, UnreadableInput):
        return ()


def _append(disk: Disk, log: Path, last: Replayed, values: Iterable[bytes]) -> None:
    records = ((None, each) for each in values)
    batch = write_batch(records, last.timestamp_ms, base_offset=last.last_offset + 1, leader_epoch=last.epoch)
    with disk.open(log) as file:
        file.write([batch], file.size())
        file.sync()
