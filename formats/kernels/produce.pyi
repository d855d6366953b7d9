from collections.abc import Callable
from typing import Final, Protocol

from formats.kernels.append import Runway

class _Partition(Protocol):
    @property
    def failed(self) -> Callable[[Exception], object]: ...
    @property
    def plain_appended(self) -> Callable[[], int]: ...

class _Log(Protocol):
    runway: Runway | None

class Lane:
    def close(self) -> None: ...

class ProduceLanes:
    has_failed: Final[bool]
    def __init__(self, at_once_bytes: int) -> None: ...
    def __len__(self) -> int: ...
    def add(
        self, name: bytes, topic_id: bytes, index: int, partition: _Partition, log: _Log, *, alone: bool
    ) -> Lane: ...
    def answer(
        self, frame: memoryview, now_ms: int, may_write: Callable[[str], bool] | None = None
    ) -> bytes | None: ...
