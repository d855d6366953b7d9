from array import array

FIXED: int
SIZED: int
STRUCT: int
ARRAY_FIXED: int
ARRAY_SIZED: int
ARRAY_STRUCT: int

def room(size_bytes: int) -> bytearray:
    """Bytes to read into, with anything in them: nothing is spent on zeros."""

def check(schema: array[int], data: bytes | memoryview, position: int, items_max: int) -> bool:
    """Walk over the struct at the schema's begin, from byte `position` of the data on. items_max: of all arrays.

    Returns whether there are tagged fields that the schema does not know. Raises Truncated, BadCount, BadValue (null
    where there must be a value), BadVarint, LimitExceeded."""

def read_produce(
    frame: memoryview, position: int, version: int, items_max: int
) -> tuple[str | None, int, int, list[tuple[str | bytes, list[tuple[int, memoryview | None]]]]]:
    """The fields of the Produce request, version 3 to 13, at byte `position` of the frame:
    (transactional id or None, acks, timeout in ms, [(topic, [(index, records), ...]), ...]).

    topic: its name, or from version 13 on the 16 bytes of its id. records: a view of the frame, or None. Source:
    ProduceRequest.json. Raises what `check` does, UnicodeDecodeError."""
