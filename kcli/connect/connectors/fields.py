"""Fields of records, by a path with dots: of a struct, or of a map without a schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcli.connect.data.errors import DataError
from kcli.connect.data.struct import Struct


def field_of(value: Any, path: str) -> Any:
    """Return the value of a field. Raises DataError if there is none."""
    found = value
    for name in path.split("."):
        if isinstance(found, Struct):
            found = found.get(name)
        elif isinstance(found, Mapping) and name in found:
            found = found[name]
        else:
            raise DataError(f"the value has no field {path}")
    return found
