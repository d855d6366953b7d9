"""The form of a snapshot of the metadata log (`<offset>-<epoch>.checkpoint`): the whole image, in place of the log
below the offset.

    header   control batch with the time of the last record below the offset; with kraft.version 1, also that level and
             the voters
    records  the records of the image, in batches of at most 8 MiB
    footer   control batch; a snapshot without a footer is incomplete

Offsets in a snapshot count from 0; the epoch of its batches is that of its name. Kafka's tool writes the snapshot with
offset 0 and epoch 0 when it formats a first voter: Kafka reads kraft.version and the voters of it, and no record.
Source: RecordsSnapshotWriter, RecordsSnapshotReader, Snapshots, RaftClient.Listener.handleLoadBootstrap; KIP-630.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from formats.batch_writer import Pair, write_batch
from formats.control_record import ControlType
from formats.file_name import FileKind, FileName, build
from kcli.errors import UnreadableInput
from kcli.metadata.image import MetadataImage, Record
from kcli.metadata.snapshot import snapshot
from kcli.metadata_log.records import Replayed, control_batch, encode, encode_control, read_batches, split


class SnapshotId(NamedTuple):
    """The id of a snapshot: the offset after its last record, and the epoch of that record."""

    offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        """The snapshot's file name."""
        return build(FileName(FileKind.KRAFT_SNAPSHOT, self.offset, self.epoch))


BOOTSTRAP_SNAPSHOT: Final = SnapshotId(0, 0)
"""The id of the snapshot with which a quorum begins."""


def snapshot_batches(
    records: Sequence[Record], epoch: int, now_ms: int, last_timestamp_ms: int, controls: Sequence[Pair] = ()
) -> Iterator[bytearray]:
    """Yield the bytes of a snapshot, batch by batch.

    epoch: the one in the snapshot's name. now_ms: the timestamp of its batches. last_timestamp_ms: the time of the last
    record of the log below the snapshot's offset. controls: the control records that follow SnapshotHeader. Raises
    FormatError for a record that its schema does not allow.
    """
    header = encode_control(ControlType.SNAPSHOT_HEADER, {"lastContainedLogTimestamp": last_timestamp_ms})
    yield control_batch([header, *controls], now_ms, base_offset=0, epoch=epoch)
    offset = 1 + len(controls)
    for values in split([encode(record) for record in records]):
        yield write_batch(((None, each) for each in values), now_ms, base_offset=offset, leader_epoch=epoch)
        offset += len(values)
    footer = encode_control(ControlType.SNAPSHOT_FOOTER, {})
    yield control_batch([footer], now_ms, base_offset=offset, epoch=epoch)


def image_bytes(image: MetadataImage, which: SnapshotId, now_ms: int, controls: Sequence[Pair]) -> bytes:
    """Return the bytes of the snapshot `which` of an image. now_ms: the time of its batches, and of the last record
    below its offset. controls: as in `snapshot_batches`."""
    return b"".join(map(bytes, snapshot_batches(list(snapshot(image)), which.epoch, now_ms, now_ms, controls)))


def read_snapshot(path: Path) -> Iterator[Replayed]:
    """Yield the batches of a snapshot, which must have its header and its footer. Raises UnreadableInput."""
    kinds: list[ControlType] = []
    is_first, last_is_footer = True, False
    for batch in read_batches(path):
        kinds = [control.type for control in batch.controls]
        if is_first and kinds[:1] != [ControlType.SNAPSHOT_HEADER]:
            raise UnreadableInput(str(path), "does not begin with a snapshot header")
        is_first, last_is_footer = False, kinds[-1:] == [ControlType.SNAPSHOT_FOOTER]
        yield batch
    if not last_is_footer:
        raise UnreadableInput(str(path), "does not end with a snapshot footer")
