from collections.abc import Callable
from typing import Final

from formats.kernels.batches import BatchTable
from formats.kernels.buffer import TextBuffer
from formats.kernels.records import RecordTable

class KafkaPrinter:
    gaps: Final[list[tuple[int, int]]]
    gap_count: Final[int]
    first_offset: Final[int]
    last_offset: Final[int]
    def __init__(
        self,
        *,
        contents: bool = False,
        metadata: bool = True,
        sparse: bool = False,
        control_text: Callable[[bytes | None, bytes | None], str] | None = None,
        decode: Callable[[int, bytes | None, bytes | None], tuple[str | None, str | None]] | None = None,
    ) -> None: ...
    def batches(self, table: BatchTable, first: int, last: int, out: TextBuffer) -> None: ...
    def begin(self, first: int) -> None: ...
    def records(self, records: RecordTable, out: TextBuffer) -> None: ...
