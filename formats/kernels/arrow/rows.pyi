from collections.abc import Iterable
from typing import Final

from formats.kernels.buffer import TextBuffer
from formats.kernels.records import RecordTable

ARROW_COLUMNS: Final[tuple[str, ...]]

class ArrowRows:
    count: Final[int]
    size: Final[int]
    def __init__(self, names: Iterable[str], byte_limit: int, row_limit: int = ...) -> None: ...
    @property
    def is_full(self) -> bool: ...
    def add(self, records: RecordTable, at: int = 0) -> int: ...
    def take(self) -> list[tuple[TextBuffer | None, ...]]: ...
