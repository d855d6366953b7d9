from typing import TypeAlias

from formats.kernels.payload.columns import FinishedColumn

NO_HEADER: int
SCHEMA_ID: int
SCHEMA_MESSAGE: int

Decoded: TypeAlias = tuple[list[FinishedColumn], list[tuple[int, int, int]]]

class Payloads:
    """A column of payloads: count + 1 offsets (int32) into the data, and a byte for each payload, 0 for null.

    The offsets must lie within the data and not decrease. Raises ValueError.
    """

    count: int
    def __init__(self, offsets: memoryview, data: bytes | memoryview, valid: bytes | memoryview) -> None: ...
    def headers(self, header: int) -> set[bytes]:
        """Return the different headers of the payloads; payloads without a whole header are skipped."""
