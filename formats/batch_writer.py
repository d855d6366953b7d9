"""One record batch of magic 2 from keys and values, quickly: what a broker writes by itself.

    write_batch(records, timestamp_ms, ...)   a batch with these records, at least one, at consecutive offsets

All records have the same time and no headers; nothing is compressed. attributes: formats.record_batch.TRANSACTIONAL and
CONTROL. What the bytes are is in formats.record_batch.
"""

from formats.kernels.log import write_batch

__all__ = ["Pair", "write_batch"]

Pair = tuple[bytes | None, bytes | None]
"""Key and value of a record."""
