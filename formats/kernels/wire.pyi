from array import array

FIXED: int
SIZED: int
STRUCT: int
ARRAY_FIXED: int
ARRAY_SIZED: int
ARRAY_STRUCT: int

def room(size_bytes: int) -> bytearray:
    """Return a bytearray to read into. Its bytes are uninitialized, which saves the time of zeroing them."""

def check(schema: array[int], data: bytes | memoryview, position: int, items_max: int) -> bool:
    """Check the bytes of a struct, the first of the schema, that begins at byte `position` of the data.

    items_max: the most items of all arrays together. Return whether there are unknown tagged fields. Raises Truncated,
    BadCount, BadValue (null in a field that is not nullable), BadVarint, LimitExceeded."""

def behind_tags(data: bytes | memoryview, position: int) -> int:
    """The position behind the tagged fields, all of them unknown, that begin at byte `position` of the data.

    Raises Truncated, BadVarint."""

def read_produce(
    frame: memoryview, position: int, version: int, items_max: int
) -> tuple[str | None, int, int, list[tuple[str | bytes, list[tuple[int, memoryview | None]]]]]:
    """Return the fields of the Produce request, version 3 to 13, at byte `position` of the frame:
    (transactional id or None, acks, timeout in ms, [(topic, [(index, records), ...]), ...]).

    topic: its name, or from version 13 on the 16 bytes of its id. records: a view of the frame, or None. Source:
    ProduceRequest.json. Raises UnicodeDecodeError, and the errors of `check`."""
