from collections.abc import Callable

from typing_extensions import Buffer

from formats.kernels.records import RecordTable

def refused_schema(
    records: RecordTable, data: Buffer, of_key: bool, known: Callable[[int], bool]
) -> tuple[int, int] | None: ...
