"""Paths of fields: field.syntax.version V1, a field's name, and V2, names between dots for fields within each other.

In V2 a name with dots stands between backticks; a backtick in it before a dot has a backslash.

    a.b       b of a
    `a.b`.c   c of a.b

Source: KIP-821; org.apache.kafka.connect.transforms.field.SingleFieldPath.
"""

from __future__ import annotations

from typing import Any, Final

from kcli.connect.config.config_def import ConfigError, ConfigKey, Importance, Type
from kcli.connect.config.validators import one_of_ignoring_case
from kcli.connect.data.errors import ILLEGAL_ARGUMENT, JavaError
from kcli.connect.data.schema import Field, Schema
from kcli.connect.data.struct import Struct
from kcli.connect.transforms.requirements import require_map, require_struct

_PURPOSE: Final = "nested field access"
FIELD_SYNTAX: Final = ConfigKey(
    "field.syntax.version",
    Type.STRING,
    "V1",
    Importance.HIGH,
    "How fields are named: V1, by their names at the top; V2, with dots for fields within fields, and a name that has "
    "dots itself between backticks.",
    one_of_ignoring_case("V1", "V2"),
)


class FieldPath:
    """A path. syntax: V1 or V2, in any case. Raises ConfigError."""

    def __init__(self, text: str, syntax: str) -> None:
        self._steps = _steps(text) if syntax.upper() == "V2" else [text]

    def field(self, schema: Schema) -> Field | None:
        """Return the field of a struct's schema; None if there is none. Raises DataError if a step leads into a value
        that is no struct."""
        *within, last = self._checked()
        for step in within:
            found = schema.field(step)
            if found is None:
                return None
            schema = found.schema
        return schema.field(last)

    def of_struct(self, struct: Struct, *, with_default: bool) -> Any:
        """Return the field's value in a struct; None if there is none. Raises DataError."""
        *within, last = self._checked()
        for step in within:
            found = struct.schema.field(step)
            value = None if found is None else struct.value_of(found)
            if found is None or value is None:
                return None
            struct = require_struct(value, _PURPOSE, found.schema)
        found = struct.schema.field(last)
        return None if found is None else struct.value_of(found, with_default=with_default)

    def of_map(self, values: dict[Any, Any]) -> Any:
        """Return the field's value in a map; None if there is none. Raises DataError."""
        *within, last = self._checked()
        for step in within:
            value = values.get(step)
            if value is None:
                return None
            values = require_map(value, _PURPOSE)
        return values.get(last)

    def _checked(self) -> list[str]:
        if not self._steps:
            raise JavaError(ILLEGAL_ARGUMENT, "fromIndex(0) > toIndex(-1)")
        return self._steps


def _steps(text: str) -> list[str]:
    steps = []
    at = 0
    while at < len(text):
        if text[at] == "`":
            step, at = _quoted(text, at)
        else:
            step, _, _ = text[at:].partition(".")
            at += len(step) + 1
        steps.append(step)
    if text.endswith("."):
        steps.append("")
    return steps


def _quoted(text: str, begin: int) -> tuple[str, int]:
    """Return the name between backticks, and the index after it and its dot."""
    parts = []
    start = at = begin + 1
    while True:
        at = text.find("`", at)
        escaped = at > 0 and text[at - 1] == "\\"
        if at < 0 or (at == len(text) - 1 and escaped):
            raise ConfigError(
                f"Incomplete backtick pair in path: [{text}], consider adding a backslash before backtick at position "
                f"{begin} to escape it"
            )
        if at < len(text) - 1 and text[at + 1] != ".":
            at += 1
        elif escaped:
            parts += [text[start : at - 1], "`"]
            at += 1
            start = at
        else:
            return "".join([*parts, text[start:at]]), at + 2
