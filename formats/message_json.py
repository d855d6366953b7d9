"""A message's value as Kafka's JSON converters print it: a tree of what JSON has.

    string   text, with Java's replacement characters for what is not UTF-8      bytes   base64      uuid   as it is
    tagged   left out where the field has its default                            unknown tagged fields are left out

Source: the generated `*JsonConverter` classes (`JsonConverterGenerator`).
"""

from binascii import b2a_base64
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from formats.java_text import java_utf8
from formats.message_schema import Layout, Slot, schema

_Convert = Callable[[Any], Any]


def to_json(name: str, version: int, value: dict[str, Any]) -> dict[str, Any]:
    """Turn a value of `parse` into the JSON tree of that version; a field that the value lacks has its default."""
    message = schema(name)
    return _converter(name, message.layout(version).version)(value)


@cache
def _converter(name: str, version: int) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return _struct(schema(name).layout(version))


def _struct(layout: Layout) -> Callable[[dict[str, Any]], dict[str, Any]]:
    slots = {slot.name: slot for slot in (*layout.slots, *layout.tagged)}
    plan = [(name, slots[name].default, slots[name].tag is not None, _convert(slots[name])) for name in layout.names]

    def convert(value: dict[str, Any]) -> dict[str, Any]:
        node = {}
        for name, default, is_tagged, convert_field in plan:
            field = value.get(name, default)
            if is_tagged and field == default:
                continue
            node[name] = field if convert_field is None or field is None else convert_field(field)
        return node

    return convert


def _convert(slot: Slot) -> _Convert | None:
    one: _Convert | None = _PRINTED.get(slot.type)
    if slot.element is not None:
        one = _struct(slot.element)
    if one is None or not slot.is_array:
        return one
    each = one
    return lambda values: [each(value) for value in values]


def printable(text: str) -> str:
    """A string of a value as Java prints it: what was not UTF-8 becomes replacement characters."""
    if text.isascii():
        return text
    return java_utf8(text.encode("utf-8", "surrogateescape"))


def _base64(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode("ascii")


_PRINTED: Final[dict[str, _Convert]] = {"string": printable, "bytes": _base64}
