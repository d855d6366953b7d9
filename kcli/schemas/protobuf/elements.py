"""The declarations of a .proto file as they are written: names are not resolved, and order is kept.

    File        syntax, package, imports, types (Message, Enum), services, extends, options
    Message     nested types, options, reserved, fields, oneofs, extensions, groups, extends
    Enum        options, constants, reserved
    Service     rpcs, options

Labels and types are the words of the file: `repeated`, `int32`, `map<string, Money>`, `.shop.Order`. Source:
protobuf.dev, "Protocol Buffers Language Specification".
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum as PythonEnum
from enum import auto
from typing import NamedTuple, TypeAlias

NUMBER_MAX = (1 << 29) - 1
"""The largest number of a field, which `max` stands for."""

SCALARS = frozenset(
    [
        "bool",
        "bytes",
        "double",
        "float",
        "fixed32",
        "fixed64",
        "int32",
        "int64",
        "sfixed32",
        "sfixed64",
        "sint32",
        "sint64",
        "string",
        "uint32",
        "uint64",
    ]
)


class Kind(PythonEnum):
    """The kind of an option's value."""

    STRING = auto()
    BOOLEAN = auto()
    ENUM = auto()
    NUMBER = auto()
    MAP = auto()
    LIST = auto()
    OPTION = auto()


WORDS = frozenset((Kind.BOOLEAN, Kind.ENUM, Kind.NUMBER))
"""The kinds of values that are written without quotes."""


class Word(NamedTuple):
    """A value without quotes in a map or list: a number, true, or the symbol of an enum."""

    kind: Kind
    text: str


class Option(NamedTuple):
    """An option. value: text for STRING, BOOLEAN, ENUM and NUMBER; an Option for OPTION, which is `name.value`.

    is_extension: whether its name stands in parentheses.
    """

    name: str
    kind: Kind
    value: Value
    is_extension: bool = False


Value: TypeAlias = "str | Word | Option | dict[str, Value] | list[Value]"


class Span(NamedTuple):
    """Numbers from `first` to `last`, both included."""

    first: int
    last: int


class Reserved(NamedTuple):
    values: Sequence[int | str | Span]


class Extensions(NamedTuple):
    values: Sequence[int | Span]
    options: Sequence[Option]


class Field(NamedTuple):
    """A field of a message, oneof, group or extension. label: required, optional, repeated or None."""

    label: str | None
    type: str
    name: str
    default: str | None
    json_name: str | None
    number: int
    options: Sequence[Option]


class Group(NamedTuple):
    label: str | None
    name: str
    number: int
    fields: Sequence[Field]


class OneOf(NamedTuple):
    name: str
    fields: Sequence[Field]
    groups: Sequence[Group]
    options: Sequence[Option]


class Extend(NamedTuple):
    name: str
    fields: Sequence[Field]


class Constant(NamedTuple):
    name: str
    number: int
    options: Sequence[Option]


class Enum(NamedTuple):
    name: str
    options: Sequence[Option]
    constants: Sequence[Constant]
    reserved: Sequence[Reserved]


class Message(NamedTuple):
    name: str
    types: Sequence[Message | Enum]
    options: Sequence[Option]
    reserved: Sequence[Reserved]
    fields: Sequence[Field]
    oneofs: Sequence[OneOf]
    extensions: Sequence[Extensions]
    groups: Sequence[Group]
    extends: Sequence[Extend]


class Rpc(NamedTuple):
    name: str
    request: str
    response: str
    streams_request: bool
    streams_response: bool
    options: Sequence[Option]


class Service(NamedTuple):
    name: str
    rpcs: Sequence[Rpc]
    options: Sequence[Option]


class File(NamedTuple):
    """syntax: proto2, proto3, or None if the file does not say it (which is proto2)."""

    syntax: str | None
    package: str | None
    imports: Sequence[str]
    public_imports: Sequence[str]
    weak_imports: Sequence[str]
    types: Sequence[Message | Enum]
    services: Sequence[Service]
    extends: Sequence[Extend]
    options: Sequence[Option]


def map_of(type_name: str) -> tuple[str, str] | None:
    """Return the types of keys and values of a `map<K, V>`, or None for another type."""
    if not type_name.startswith("map<"):
        return None
    key, _, value = type_name[4:-1].partition(",")
    return key.strip(), value.strip()
