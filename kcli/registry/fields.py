"""Converts the fields of a JSON object as Jackson converts them to Java's types: a number or boolean becomes a text if
the field is a text, and a text of digits becomes a number. Other values are refused with Jackson's message."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from kcli.registry.errors import RestError, bad_request
from kcli.service.json_text import Json

INT_MAX = (1 << 31) - 1
T = TypeVar("T")


def _token(value: Json) -> str:
    return (
        "Array value (token `JsonToken.START_ARRAY`)"
        if isinstance(value, list)
        else "Object value (token `JsonToken.START_OBJECT`)"
    )


def _misfit(java_type: str, value: Json) -> RestError:
    return bad_request(f"Cannot deserialize value of type `{java_type}` from {_token(value)}")


def as_object(value: Json, java_type: str) -> Mapping[str, Json] | None:
    """Return a JSON object; None for null. java_type: the name of its type in the refusal. Raises RestError."""
    if value is None or isinstance(value, dict):
        return value
    if isinstance(value, list):
        raise bad_request(f"Cannot deserialize value of type `{java_type}` from {_token(value)}")
    kind, shown = ("String", f"('{value}')") if isinstance(value, str) else _scalar_kind(value)
    raise bad_request(
        f"Cannot construct instance of `{java_type}` (although at least one Creator exists): "
        f"no {kind}-argument constructor/factory method to deserialize from {_from(kind)} value {shown}"
    )


def _scalar_kind(value: Json) -> tuple[str, str]:
    if isinstance(value, bool):
        return "boolean/Boolean", f"({str(value).lower()})"
    return ("int/Int" if isinstance(value, int) else "double/Double"), f"({value})"


def _from(kind: str) -> str:
    return {"String": "String", "boolean/Boolean": "boolean", "int/Int": "Number"}.get(kind, "Number")


def as_list(value: Json, java_type: str, element: Callable[[Json], T]) -> list[T] | None:
    """Return a JSON array, with each element converted by `element`; None for null. Raises RestError."""
    if value is None:
        return None
    if not isinstance(value, list):
        if isinstance(value, dict):
            raise _misfit(java_type, value)
        kind = "String" if isinstance(value, str) else "Integer" if isinstance(value, int) else "Floating-point"
        raise bad_request(
            f"Cannot deserialize value of type `{java_type}` from {kind} value (token `JsonToken.VALUE_STRING`)"
        )
    return [element(each) for each in value]


def as_text(value: Json) -> str | None:
    """Return a text; None for null. Raises RestError for an array or an object."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, dict)):
        raise _misfit("String", value)
    return str(value)


def as_integer(value: Json) -> int | None:
    """Return an integer of 32 bits; None for null and an empty text. Raises RestError."""
    if value is None or value == "":
        return None
    if isinstance(value, (list, dict)):
        raise _misfit("Integer", value)
    if isinstance(value, bool):
        raise bad_request(
            "Cannot deserialize value of type `Integer` from Boolean value (token `JsonToken.VALUE_TRUE`)"
        )
    if isinstance(value, str):
        try:
            number = int(value)
        except ValueError:
            raise bad_request(
                f'Cannot deserialize value of type `Integer` from String "{value}": '
                "not a valid `java.lang.Integer` value"
            ) from None
    else:
        try:
            number = int(value)
        except (OverflowError, ValueError):
            raise bad_request(f"Numeric value ({value}) out of range of int (-2147483648 - 2147483647)") from None
    if not -INT_MAX - 1 <= number <= INT_MAX:
        raise bad_request(f"Numeric value ({value}) out of range of int (-2147483648 - 2147483647)")
    return number


def as_boolean(value: Json) -> bool | None:
    """Return a boolean; None for null and an empty text. Raises RestError."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return value
    if isinstance(value, (list, dict)):
        raise _misfit("Boolean", value)
    if isinstance(value, str):
        if value in ("true", "True", "TRUE", "false", "False", "FALSE"):
            return value.lower() == "true"
        raise bad_request(
            f'Cannot deserialize value of type `Boolean` from String "{value}": only "true" or "false" recognized'
        )
    return value != 0


def as_enum(value: Json, java_type: str, names: Collection[str]) -> str | None:
    """Return one of the names; None for null. Raises RestError."""
    text = as_text(value)
    if text is None or text in names:
        return text
    listed = ", ".join(sorted(names))
    raise bad_request(
        f'Cannot deserialize value of type `{java_type}` from String "{text}": '
        f"not one of the values accepted for Enum class: [{listed}]"
    )
