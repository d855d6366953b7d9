from typing import Any

from numpy import int64, uint8
from numpy.typing import NDArray

def key_partitions(offsets: NDArray[int64], data: NDArray[uint8], partitions: int, into: NDArray[Any]) -> None: ...
