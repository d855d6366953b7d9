"""A message's value as Kafka's JSON converters print it.

    string         text, with Java's replacement characters for invalid UTF-8
    bytes          base64
    uuid           22 characters of url-safe base64, as `formats.message.parse` returns them
    tagged fields  left out if the field has its default, or if the schema does not know the tag

`to_json` returns a tree of dicts and lists; `json_text` returns the same JSON as compact text, by functions compiled
from the schema, since an internal topic can hold millions of records. Source: the generated
`*JsonConverter` classes (`JsonConverterGenerator`).
"""

from binascii import b2a_base64
from collections.abc import Callable
from functools import cache
from itertools import groupby
from typing import Any, Final

from formats.java_text import jackson, java_utf8, quoted
from formats.message_schema import Layout, Slot, schema

_Convert = Callable[[Any], Any]


def to_json(name: str, version: int, value: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON tree of a value of `formats.message.parse`; a field that the value lacks has its default."""
    message = schema(name)
    return _converter(name, message.layout(version).version)(value)


def json_text(name: str, version: int, value: dict[str, Any]) -> str:
    """Return the JSON text of a value of `formats.message.parse`, as Jackson prints it.

    A str in a bytes field is JSON text already and is inserted as it is.
    """
    return _text_writer(name, version)(value)


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


@cache
def _text_writer(name: str, version: int) -> Callable[[dict[str, Any]], str]:
    layout = schema(name).layout(version)
    if layout.version != version:
        return _text_writer(name, layout.version)
    return _compile(layout)


def _compile(layout: Layout) -> Callable[[dict[str, Any]], str]:
    """Return a function that returns the JSON text of one struct. Its compiled code fills the untagged fields into one
    format string, and adds a tagged field only if the struct has it."""
    slots = {slot.name: slot for slot in (*layout.slots, *layout.tagged)}
    names: dict[str, Any] = {"quoted": _quoted, "encoded": _encoded, "jackson": jackson}
    body: list[str] = ["parts = []"]
    for is_tagged, group in groupby(layout.names, lambda name: slots[name].tag is not None):
        run = [(name, _expression(slots[name], f"v[{name!r}]", names)) for name in group]
        for part in [[each] for each in run] if is_tagged else [run]:
            template = ",".join(f'"{name}":%s' for name, _ in part)
            values = ", ".join(expression for _, expression in part)
            append = f"parts.append({template!r} % ({values},))"
            body.append(f"if v[{part[0][0]!r}] != {slots[part[0][0]].default!r}: {append}" if is_tagged else append)
    body.append("return '{' + ','.join(parts) + '}'")
    source = "\n".join(("def write(v):", *(f"    {line}" for line in body)))
    exec(compile(source, f"<text of {layout.name} v{layout.version}>", "exec"), names)  # noqa: S102 (source made from Kafka's field tables alone)
    return names["write"]  # type: ignore[no-any-return]


def _expression(slot: Slot, variable: str, names: dict[str, Any]) -> str:
    if slot.is_array:
        each = _one_expression(slot, "x", names)
        text = f"'[' + ','.join([{each} for x in {variable}]) + ']'"
    else:
        text = _one_expression(slot, variable, names)
    return f"'null' if {variable} is None else {text}" if slot.nullable else text


def _one_expression(slot: Slot, variable: str, names: dict[str, Any]) -> str:
    if slot.element is not None:
        name = f"write{len(names)}"
        names[name] = _compile(slot.element)
        return f"{name}({variable})"
    return _EXPRESSIONS.get(slot.type, "str({})").format(variable)


def _quoted(text: str) -> str:
    return quoted(text if text.isascii() else printable(text))


def _encoded(data: bytes | str) -> str:
    return data if isinstance(data, str) else f'"{_base64(data)}"'


def printable(text: str) -> str:
    """Return a string of a value as Java prints it: bytes that were not UTF-8 become replacement characters."""
    if text.isascii():
        return text
    return java_utf8(text.encode("utf-8", "surrogateescape"))


def _base64(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode("ascii")


_EXPRESSIONS: Final = {
    "bool": "('true' if {} else 'false')",
    "float64": "jackson({})",
    "string": "quoted({})",
    "bytes": "encoded({})",
    "uuid": """('"' + {} + '"')""",
}
_PRINTED: Final[dict[str, _Convert]] = {"string": printable, "bytes": _base64}
