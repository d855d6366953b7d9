from collections.abc import Callable
from typing import Any, Final, Generic, Protocol, TypeVar

from formats.kernels.append import LogState

class _Partition(Protocol):
    @property
    def failed(self) -> Callable[[Exception], object]: ...
    @property
    def appended_aside(self) -> Callable[[], object]: ...
    @property
    def plain_appended(self) -> Callable[[], int]: ...
    @property
    def lacks_replicas(self) -> bool: ...

_P = TypeVar("_P", bound=_Partition)

class PlainRequests: ...

class Lane:
    def close(self) -> None: ...
    def tell(self) -> None: ...

class ProduceLanes(Generic[_P]):
    has_failed: Final[bool]
    hangs_up: Final[bool]
    @property
    def waits(self) -> list[tuple[_P, int, int]]: ...
    timeout_ms: Final[int]
    told: Final[list[Lane]]
    @property
    def failures(self) -> list[tuple[_P, Exception]]: ...
    def __init__(self, at_once_bytes: int) -> None: ...
    def __len__(self) -> int: ...
    def beside(self) -> ProduceLanes[_P]: ...
    def add(
        self,
        name: bytes,
        topic_id: bytes,
        index: int,
        partition: _P,
        log: LogState,
        *,
        alone: bool,
        watchers: tuple[dict[Any, Any], dict[Any, Any]],
    ) -> Lane: ...
    def answer(
        self, frame: memoryview, now_ms: int, may_write: Callable[[str], bool] | None = None
    ) -> bytes | None: ...
    def serve(
        self,
        fd: int,
        buffer: memoryview,
        kept_bytes: int,
        request_max_bytes: int,
        turn_ns: int,
        now_ms: int,
        may_write: Callable[[str], bool] | None = None,
        others: PlainRequests | None = None,
    ) -> tuple[int, int, bytes]: ...
