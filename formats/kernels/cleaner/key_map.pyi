from typing import Final

from typing_extensions import Buffer

from formats.kernels.batches import BatchTable, RowTable
from formats.kernels.records import RecordTable

OFFSET_MAP_ENTRY_BYTES: Final[int]

class KeyMap:
    slots: Final[int]
    limit: Final[int]
    count: Final[int]
    reach: int
    def __init__(self, memory_bytes: int, load_factor: float, secret: Buffer) -> None: ...
    def __len__(self) -> int: ...
    @property
    def memory_bytes(self) -> int: ...
    def put(self, keys: KeyHashes) -> bool: ...
    def mark(self, first_offset: int) -> bool: ...
    def all_superseded(self, first: int, last: int) -> bool: ...
    def get(self, key: Buffer) -> int: ...

class KeyHashes(RowTable):
    plain_records: Final[int]
    plain_bytes: Final[int]
    def run(
        self,
        offset_map: KeyMap,
        buf: Buffer,
        batches: BatchTable,
        discarded: Buffer,
        first: int,
        last: int,
        from_offset: int,
    ) -> int: ...
    def add(self, offset_map: KeyMap, records: RecordTable, discarded: Buffer, from_offset: int) -> None: ...
    def finish(self, batches: BatchTable, from_offset: int) -> None: ...
