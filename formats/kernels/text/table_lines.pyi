from collections.abc import Callable

from formats.kernels.buffer import TextBuffer
from formats.kernels.records import RecordTable

def iso_time(ms: int) -> str: ...

class TablePrinter:
    def __init__(
        self,
        *,
        styles: list[tuple[bytes, bytes]] | None = None,
        fold: int = -1,
        raw_time: bool = False,
        batches_only: bool = False,
        sparse: bool = False,
        control_text: Callable[[bytes | None, bytes | None], str] | None = None,
        decode: Callable[[int, bytes | None, bytes | None], tuple[str | None, str | None]] | None = None,
        explain: Callable[[int], list[str]] | None = None,
    ) -> None: ...
    def begin(self, first: int) -> None: ...
    def records(self, records: RecordTable, out: TextBuffer) -> None: ...
