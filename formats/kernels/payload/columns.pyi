from typing import TypeAlias

BOOLEAN: int
INT8: int
INT16: int
INT32: int
INT64: int
FLOAT: int
DOUBLE: int
DECIMAL: int
BINARY: int
LIST: int
STRUCT: int
PLAIN: int
TEXT: int
DATE: int
TIMESTAMP: int
LOCAL_TIMESTAMP: int
MAP: int
REASONS: tuple[str, ...]
HEADER_NOT_KNOWN: int
ABOUT_TEXT: frozenset[int]

ShapeRow: TypeAlias = tuple[int, int, int, int, int]

FinishedColumn: TypeAlias = tuple[int, int, bytes | None, bytes | None, bytes | None]

class Shape:
    """A type as a tree of columns, in rows (kind, meaning, count of children, precision, scale). Raises ValueError."""

    def __init__(self, rows: list[ShapeRow]) -> None: ...
