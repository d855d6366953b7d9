from collections.abc import Callable, Iterable
from typing import Final

from typing_extensions import Buffer

from formats.kernels.batches import BatchTable

CLEAN_DISCARD: Final[int]
CLEAN_RETAIN_EMPTY: Final[int]
CLEAN_EMPTY_TXN: Final[int]
CLEAN_MARKER: Final[int]

class CleanedTransactions:
    cleaned_index: list[tuple[int, ...]]
    def __init__(self) -> None: ...
    def add_aborted(self, transactions: Iterable[tuple[int, ...]]) -> None: ...
    def judge(
        self,
        buf: Buffer,
        batches: BatchTable,
        payload: Callable[[int], bytes],
        *,
        producers: dict[int, tuple[int, int]] | None = None,
        end_offset: int = -1,
        now_ms: int = 0,
    ) -> bytearray: ...
