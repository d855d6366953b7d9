from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

from formats.kernels.append import Runway

class _Partition(Protocol):
    @property
    def failed(self) -> Callable[[Exception], object]: ...
    @property
    def plain_appended(self) -> Callable[[], int]: ...
    @property
    def lacks_replicas(self) -> bool: ...

_P = TypeVar("_P", bound=_Partition)

class _Log(Protocol):
    runway: Runway | None

class Lane:
    def close(self) -> None: ...

class ProduceLanes(Generic[_P]):
    has_failed: Final[bool]
    @property
    def waits(self) -> list[tuple[_P, int, int]]: ...
    timeout_ms: Final[int]
    def __init__(self, at_once_bytes: int) -> None: ...
    def __len__(self) -> int: ...
    def add(self, name: bytes, topic_id: bytes, index: int, partition: _P, log: _Log, *, alone: bool) -> Lane: ...
    def answer(
        self, frame: memoryview, now_ms: int, may_write: Callable[[str], bool] | None = None
    ) -> bytes | None: ...
