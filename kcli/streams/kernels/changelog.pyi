from collections.abc import Callable
from typing import Any

from typing_extensions import Buffer

from formats.kernels.records import RecordTable

Records = RecordTable

def restore(
    records: RecordTable,
    data: Buffer,
    values: dict[Any, Any],
    new: list[Any],
    pop: Callable[[Any], object],
    *,
    timestamped: bool,
) -> int: ...
