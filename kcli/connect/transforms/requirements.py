"""What a transform requires of a key or value, in Kafka's words.

Source: org.apache.kafka.connect.transforms.util.Requirements.
"""

from __future__ import annotations

from typing import Any

from kcli.connect.data.errors import CLASS_CAST, DataError, JavaError
from kcli.connect.data.records import ConnectRecord, SinkRecord
from kcli.connect.data.schema import Schema
from kcli.connect.data.struct import Struct
from kcli.connect.data.values import class_name


def require_map(value: Any, purpose: str) -> dict[Any, Any]:
    """Return a value without a schema, which must be a map. Raises DataError."""
    if not isinstance(value, dict):
        raise DataError(f"Only Map objects supported in absence of schema for [{purpose}], found: {class_name(value)}")
    return value


def require_struct(value: Any, purpose: str, schema: Schema | None = None) -> Struct:
    """Return a value, which must be a struct. schema: of the value. Raises DataError."""
    if not isinstance(value, Struct):
        raise DataError(f"Only Struct objects supported for [{purpose}], found: {class_name(value, schema)}")
    return value


def require_sink_record(record: ConnectRecord, purpose: str) -> SinkRecord:
    """Return a record, which must be a sink's. Raises DataError."""
    if not isinstance(record, SinkRecord):
        raise DataError(
            f"Only SinkRecord supported for [{purpose}], found: org.apache.kafka.connect.source.{type(record).__name__}"
        )
    return record


def require_text(key: Any) -> Any:
    """Return a key of a map, which Java casts to String. Raises JavaError."""
    if key is None or isinstance(key, str):
        return key
    kind = class_name(key)
    raise JavaError(
        CLASS_CAST,
        f"class {kind} cannot be cast to class java.lang.String ({kind} and java.lang.String are in module java.base "
        "of loader 'bootstrap')",
    )
