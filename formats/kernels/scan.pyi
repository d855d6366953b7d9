from typing import Final

from typing_extensions import Buffer

from formats.kernels.batches import BatchTable

SCAN_END: Final[int]
SCAN_INCOMPLETE: Final[int]
SCAN_BAD_LENGTH: Final[int]
SCAN_STOPPED: Final[int]

def scan(
    buf: Buffer,
    start: int,
    stop: int,
    file_position: int,
    table: BatchTable,
    *,
    check_crc: bool = True,
    stop_at_bad_crc: bool = False,
) -> tuple[int, int, int]: ...
def find_batch(buf: Buffer, start: int, stop: int, file_left: int, work: int = 0) -> tuple[int, bool, int]: ...
def batches_within(batches: Buffer, room: int, last_offset_max: int) -> int: ...
