"""Write one record batch of magic 2 from keys and values: the records that a broker itself appends.

    write_batch(records, timestamp_ms, ...)   a batch of at least one record, at consecutive offsets

All records have the same time and no headers; nothing is compressed. attributes: formats.record_batch.TRANSACTIONAL and
CONTROL. formats.record_batch describes the bytes.
"""

from formats.kernels.write import write_batch

__all__ = ["Pair", "write_batch"]

Pair = tuple[bytes | None, bytes | None]
"""Key and value of a record."""
