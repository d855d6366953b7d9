"""The records of a damaged bootstrap.checkpoint, as Kafka reads them. Kafka accepts two kinds of damage: a wrong
CRC, and an incomplete batch at the end.

Source: BatchFileReader, FileLogInputStream.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from formats import compression, control_record, internal_topic, record_batch
from formats.errors import FormatError
from formats.file_name import METADATA_TOPIC, FileKind
from formats.record_batch import HEADER, MAGIC, MAGIC_AT, BatchHeader
from kcli.errors import StartRefused
from kcli.metadata.image import Record

OVERHEAD_BYTES: Final = 12
"""The bytes of a batch that its length does not count: base offset and batch length."""
BATCH_LENGTH_MIN: Final = 14
"""The smallest batch length that Kafka accepts, in bytes: that of a message of magic 0."""


def records_of(data: bytes) -> Iterator[Record]:
    """Yield the metadata records of a bootstrap.checkpoint. The records of control batches are checked, but not
    yielded. data: the content of the file. Raises StartRefused for damage with which Kafka does not start."""
    for position, header in _batches(data):
        try:
            payload = data[position + HEADER.size : position + header.size]
            plain = compression.decompress(header.codec, payload) if header.codec else payload
            for each in record_batch.parse_records(plain, header.record_count):
                if header.is_control:
                    control_record.parse(each.key, each.value)
                    continue
                found = internal_topic.decode(METADATA_TOPIC, None, each.value or b"")
                assert found.value is not None, "a metadata record is its value"
                yield found.value_name, found.value_version or 0, found.value
        except FormatError as error:
            raise StartRefused(FileKind.BOOTSTRAP, f"byte {position:,}: {error.reason}", position) from None


def _batches(data: bytes) -> Iterator[tuple[int, BatchHeader]]:
    """Yield the byte position and the header of each batch; an incomplete batch at the end is left out. Raises
    StartRefused."""
    position = 0
    while position + MAGIC_AT < len(data):
        length = int.from_bytes(data[position + 8 : position + OVERHEAD_BYTES], signed=True)
        if length < BATCH_LENGTH_MIN:
            reason = f"byte {position:,}: batch length {length:,} is below {BATCH_LENGTH_MIN}, the smallest there is"
            raise StartRefused(FileKind.BOOTSTRAP, reason, position)
        if position + OVERHEAD_BYTES + length > len(data):
            return
        if data[position + MAGIC_AT] < MAGIC or OVERHEAD_BYTES + length < HEADER.size:
            raise StartRefused(FileKind.BOOTSTRAP, f"byte {position:,}: no batch of magic {MAGIC}", position)
        header = HEADER.unpack(data, position)
        yield position, header
        position += header.size
