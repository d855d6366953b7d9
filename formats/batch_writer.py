"""Write one record batch of magic 2 from keys and values: the records that a broker itself appends.

    write_batch(records, timestamp_ms, ...)   a batch of at least one record, at consecutive offsets

All records have the timestamp timestamp_ms and no headers; the batch is not compressed. attributes: 0, or bits of the
batch header: TRANSACTIONAL and CONTROL of formats.record_batch, which describes the bytes.
"""

from formats.kernels.write import write_batch

__all__ = ["Pair", "write_batch"]

Pair = tuple[bytes | None, bytes | None]
"""Key and value of a record."""
