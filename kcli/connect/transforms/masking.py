"""MaskField: fields whose values are replaced by the empty value of their class, or by a value of the operator's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from kcli.connect.config.config_def import REQUIRED, ConfigDef, ConfigKey, Importance, Type
from kcli.connect.config.validators import distinct, non_empty
from kcli.connect.data.errors import DataError
from kcli.connect.data.maps import copy_size, hash_map
from kcli.connect.data.numbers import decimal_text, double_of, integer_of, single_of
from kcli.connect.data.records import ConnectRecord
from kcli.connect.data.schema import Schema
from kcli.connect.data.struct import Struct
from kcli.connect.data.values import Date, Float32, Int8, Int16, Int32, class_name, wrapped
from kcli.connect.transforms.requirements import require_map, require_struct
from kcli.connect.transforms.transform import PACKAGE, REPLACE_NULL, OfKey, OfValue, Side
from kcli.java.hashing import hash_order, java_hash, set_size

_PURPOSE: Final = "mask fields"
_EMPTY: Final[dict[str, Callable[[], Any]]] = {
    "java.lang.Boolean": bool,
    "java.lang.Byte": Int8,
    "java.lang.Short": Int16,
    "java.lang.Integer": Int32,
    "java.lang.Long": int,
    "java.lang.Float": Float32,
    "java.lang.Double": float,
    "java.math.BigDecimal": Decimal,
    "java.util.Date": lambda: Date(0),
    "java.lang.String": str,
    "java.util.ArrayList": list,
    "java.util.HashMap": dict,
}


class MaskField(Side):
    """The transform. See the module."""

    CONFIG = ConfigDef(
        ConfigKey("fields", Type.LIST, REQUIRED, Importance.HIGH, "The fields.", distinct(empty=False)),
        ConfigKey(
            "replacement", Type.STRING, None, Importance.LOW,
            "The value that numbers and strings get, as a text that is converted to their types.", non_empty,
        ),
        REPLACE_NULL,
    )  # fmt: skip

    def __init__(self, properties: Mapping[str, str | None]) -> None:
        super().__init__(properties)
        names = self.words("fields")
        self._fields = hash_order(names, java_hash, set_size(len(names)))
        self._replacement = self.options["replacement"] and self.text("replacement")

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """Return the record with the masked fields."""
        schema, value = self.schema_of(record), self.value_of(record)
        if schema is None:
            values = require_map(value, _PURPOSE)
            masked = {name: self._masked(values.get(name), None) for name in self._fields}
            return self.made(record, None, hash_map(values | masked, size=copy_size(len(values))))
        struct = require_struct(value, _PURPOSE, schema)
        made = Struct(struct.schema)
        for field in struct.schema.fields:
            each = struct.value_of(field, with_default=self.replaces_null)
            made.put(field.name, self._masked(each, field.schema) if field.name in self._fields else each)
        return self.made(record, schema, made)

    def _masked(self, value: Any, schema: Schema | None) -> Any:
        if value is None:
            return None
        kind = class_name(value, schema)
        if self._replacement:
            return _converted(str(self._replacement), kind)
        if kind not in _EMPTY:
            raise DataError(f"Cannot mask value of type: class {kind}")
        return _EMPTY[kind]()


def _converted(text: str, kind: str) -> Any:
    """Return a text as a value of a class of Java's. Raises DataError."""
    match kind:
        case "java.lang.String":
            return text
        case "java.lang.Byte":
            return Int8(wrapped(_integer(text), 8))
        case "java.lang.Short":
            return Int16(wrapped(_integer(text), 16))
        case "java.lang.Integer":
            return Int32(wrapped(_integer(text), 32))
        case "java.lang.Long":
            return _integer(text)
        case "java.lang.Float":
            return Float32(single_of(double_of(_decimal(text))))
        case "java.lang.Double":
            return double_of(_decimal(text))
        case "java.math.BigDecimal":
            found = decimal_text(text)
            if found is None:
                raise DataError(f"Unable to convert {text} (class java.lang.String) to number")
            return found
    raise DataError(f"Cannot mask value of type class {kind} with custom replacement.")


def _integer(text: str) -> int:
    return integer_of(_decimal(text))


def _decimal(text: str) -> Decimal:
    found = decimal_text(text)
    if found is None:
        raise DataError(f"Unable to convert {text} (class java.lang.String) to a number")
    return found


class MaskFieldKey(OfKey, MaskField):
    """Of the key."""

    CLASS = f"{PACKAGE}.MaskField$Key"


class MaskFieldValue(OfValue, MaskField):
    """Of the value."""

    CLASS = f"{PACKAGE}.MaskField$Value"
