from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

class _Aborted(Protocol):
    @property
    def producer_id(self) -> int: ...
    @property
    def first_offset(self) -> int: ...

class _Answer(Protocol):
    @property
    def index(self) -> int: ...
    @property
    def error_code(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...
    @property
    def last_stable_offset(self) -> int: ...
    @property
    def log_start_offset(self) -> int: ...
    @property
    def aborted(self) -> Sequence[_Aborted] | None: ...
    @property
    def preferred_replica(self) -> int: ...
    @property
    def region(self) -> Any: ...
    @property
    def size(self) -> int: ...
    @property
    def diverging(self) -> tuple[int, int] | None: ...
    @property
    def leader(self) -> bytes: ...

_A = TypeVar("_A", bound=_Answer)

def lay_out(
    version: int,
    correlation_id: int,
    session_id: int,
    answers: list[tuple[str | bytes, _A]],
    endpoints: bytes,
    *,
    error_code: int = 0,
    throttle_ms: int = 0,
) -> tuple[int, list[Any]]:
    """Return the position of the throttle time in the first part, and the parts of the frame of a Fetch response,
    version 4 to 18: a bytearray, then for each partition with records these and the bytes behind them.

    answers: pairs of a topic, by name or by the bytes of its id, and the answer about one of its partitions;
    consecutive answers about a topic become one topic of the response. size: that of the records in `region`; no
    records are None. endpoints: the encoded tagged fields at the end. Source: FetchResponse.json."""
