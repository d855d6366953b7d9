from typing import Final

from typing_extensions import Buffer

from formats.kernels.batches import BatchTable
from formats.kernels.buffer import TextBuffer
from formats.kernels.producers import ProducerTable

class SegmentRecovery:
    valid_bytes: Final[int]
    batch_count: Final[int]
    next_offset: Final[int]
    map_end: Final[int]
    max_timestamp: Final[int]
    fault_position: Final[int]
    reason: Final[str | None]
    aborted: Final[list[tuple[int, int, int, int]]]
    epochs: Final[list[tuple[int, int]]]
    offset_index: Final[TextBuffer]
    time_index: Final[TextBuffer]
    def __init__(
        self,
        producers: ProducerTable,
        base: int,
        latest_epoch: int = -1,
        *,
        index_interval_bytes: int = 4096,
        max_index_bytes: int = 10485760,
    ) -> None: ...
    def batches(self, table: BatchTable, data: Buffer) -> int: ...
    def end(self) -> int: ...
