from array import array

FIXED: int
SIZED: int
STRUCT: int
ARRAY_FIXED: int
ARRAY_SIZED: int
ARRAY_STRUCT: int

def check(schema: array[int], data: bytes | memoryview, position: int, items_max: int) -> bool:
    """Walk over the struct at the schema's begin, from byte `position` of the data on. items_max: of all arrays.

    Returns whether there are tagged fields that the schema does not know. Raises Truncated, BadCount, BadValue (null
    where there must be a value), BadVarint, LimitExceeded."""
