"""Small logs that grow, for tests of exports."""

from collections.abc import Sequence
from pathlib import Path

from formats.properties import PartitionMetadata, build_partition_metadata
from formats.record_batch import BatchHeader, Record, RecordBatch, build_batch

TIME_MS = 1_700_000_000_000
TOPIC_IDS = "D8rbBvmFTlmGBMQUcSoJpA", "mNNzqxTNQ1-0OeQR6zSGXQ"


def append(
    directory: Path,
    offsets: Sequence[int],
    values: Sequence[bytes | None] | None = None,
    keys: Sequence[bytes | None] = (),
    *,
    segment: int = 0,
    time_ms: int = TIME_MS,
) -> None:
    """Append a batch to a partition's segment, by default its only one: values v<offset>, keys k<offset % 4>."""
    values = values or [b"v%d" % offset for offset in offsets]
    keys = keys or [b"k%d" % (offset % 4) for offset in offsets]
    records = tuple(
        Record(0, offset, offset - offsets[0], key, value, ())
        for offset, key, value in zip(offsets, keys, values, strict=True)
    )
    last = offsets[-1]
    header = BatchHeader(
        base_offset=offsets[0],
        batch_length=0,
        partition_leader_epoch=0,
        magic=2,
        crc=0,
        attributes=0,
        last_offset_delta=last - offsets[0],
        base_timestamp=time_ms,
        max_timestamp=time_ms + last,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=0,
    )
    with (directory / f"{segment:020}.log").open("ab") as file:
        file.write(build_batch(RecordBatch(header, records)))


def make_anew(directory: Path, topic_id: str, offsets: Sequence[int] = ()) -> None:
    """Empty a partition's directory, as if its topic had been deleted and made anew with this id, and append a batch of
    the offsets, if there are any."""
    for each in directory.iterdir():
        each.unlink()
    (directory / "partition.metadata").write_bytes(build_partition_metadata(PartitionMetadata(0, topic_id)))
    if offsets:
        append(directory, offsets)
