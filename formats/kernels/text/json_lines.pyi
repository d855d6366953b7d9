from collections.abc import Callable

from formats.kernels.buffer import TextBuffer
from formats.kernels.records import RecordTable

class JsonPrinter:
    def __init__(
        self,
        lead: bytes,
        decode: Callable[[int, bytes | None, bytes | None, bool], str | None] | None = None,
    ) -> None: ...
    def records(self, records: RecordTable, out: TextBuffer) -> None: ...
