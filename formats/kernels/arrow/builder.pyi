from typing import Final

from typing_extensions import Buffer

from formats.kernels.buffer import TextBuffer

BUILD_COLUMNS: Final[tuple[str, ...]]
BUILD_UNKNOWN_TIMESTAMP: Final[int]
BUILD_ROWS_DONE: Final[int]
BUILD_COMPRESS: Final[int]
BUILD_FULL: Final[int]
BUILD_FAULT: Final[int]
BUILD_FAULTS: Final[tuple[str, ...]]

class BatchBuilder:
    out: Final[TextBuffer]
    records: Final[TextBuffer]
    fault: Final[int]
    row: Final[int]
    batches: Final[int]
    control_records: Final[int]
    def __init__(self, *, codec: int = -1, batch_bytes: int = 65536, full_bytes: int = 4194304) -> None: ...
    @property
    def codec(self) -> int: ...
    def start(self, schema: object, array: object) -> None: ...
    def run(self) -> int: ...
    def end(self) -> bool: ...
    def compressed(self, data: Buffer) -> None: ...
