from collections.abc import Iterable

from formats.kernels.buffer import TextBuffer
from formats.kernels.records import RecordTable

def write_records(
    records: RecordTable, out: TextBuffer, first_delta: int, base_timestamp: int, *, keep_timestamps: bool = True
) -> None: ...
def write_batch(
    records: Iterable[tuple[bytes | None, bytes | None]],
    timestamp_ms: int,
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    attributes: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytearray: ...
