"""A .proto file's text as elements.

    file     = { syntax | package | import | option | message | enum | service | extend | ";" }
    message  = "message" name "{" { field | group | oneof | message | enum | extend | extensions | reserved | option }
               "}"
    field    = [ "required" | "optional" | "repeated" ] type name "=" number [ "[" option { "," option } "]" ] ";"
    enum     = "enum" name "{" { name "=" number [ options ] ";" | reserved | option } "}"
    service  = "service" name "{" { rpc | option } "}"

Source: protobuf.dev, "Protocol Buffers Language Specification" (proto2, proto3). Editions are refused, as Confluent's
registry refuses them; like it, the parser does not check what a compiler checks: numbers used twice, for example.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from enum import Enum as PythonEnum
from enum import auto
from typing import TypeAlias, TypeVar, cast

from kcli.schemas.protobuf import elements as el
from kcli.schemas.protobuf.elements import NUMBER_MAX, WORDS, Kind, Option, Span, Value, Word, map_of
from kcli.schemas.protobuf.reader import NESTING_MAX, BadSyntax, Reader, shortened
from kcli.schemas.schema import InvalidSchema


class _Place(PythonEnum):
    """The place of a declaration, which decides how its first word is read."""

    FILE = auto()
    MESSAGE = auto()
    ENUM = auto()
    RPC = auto()
    EXTEND = auto()
    SERVICE = auto()


_Declaration: TypeAlias = (
    el.Message
    | el.Enum
    | el.Service
    | el.Extend
    | el.Rpc
    | el.OneOf
    | el.Extensions
    | el.Reserved
    | el.Field
    | el.Group
    | el.Constant
    | Option
)
_D = TypeVar("_D", bound=_Declaration)
_KEYS = el.SCALARS - {"bytes", "double", "float"}


def parse_file(text: str) -> el.File:
    """Return the elements of a .proto file. Raises BadSyntax, and InvalidSchema for a type that cannot be the key of a
    map."""
    parser = _Parser(text)
    file = parser.file()
    for each in parser.maps:
        _check_map(each)
    return file


class _Parser:
    def __init__(self, text: str) -> None:
        self._reader = Reader(text)
        self._syntax: str | None = None
        self._package: str | None = None
        self._imports: list[str] = []
        self._public: list[str] = []
        self._weak: list[str] = []
        self._is_first = True
        self.maps: list[str] = []
        """The types of all fields that are maps."""
        anywhere: dict[str, Callable[[], _Declaration]] = {"reserved": self._reserved}
        types = anywhere | {"message": self._message, "enum": self._enum, "extend": self._extend}
        self._readers: Mapping[_Place, Mapping[str, Callable[[], _Declaration]]] = {
            _Place.FILE: types | {"service": self._service},
            _Place.MESSAGE: types | {"oneof": self._oneof, "extensions": self._extensions},
            _Place.ENUM: anywhere,
            _Place.RPC: anywhere,
            _Place.EXTEND: anywhere,
            _Place.SERVICE: anywhere | {"rpc": self._rpc},
        }

    def file(self) -> el.File:
        types: dict[str, tuple[el.Message | el.Enum, int]] = {}
        services: dict[str, tuple[el.Service, int]] = {}
        extends: list[el.Extend] = []
        options: list[Option] = []
        while not self._reader.is_at_end():
            at = self._reader.at
            declared = self._declaration(_Place.FILE)
            if isinstance(declared, el.Message | el.Enum):
                self._check_new(declared.name, at, types)
                types[declared.name] = declared, at
            elif isinstance(declared, el.Service):
                self._check_new(declared.name, at, services)
                services[declared.name] = declared, at
            elif isinstance(declared, el.Extend):
                extends.append(declared)
            elif isinstance(declared, Option):
                options.append(declared)
        return el.File(
            self._syntax,
            self._package,
            [_path(each) for each in self._imports],
            [_path(each) for each in self._public],
            [_path(each) for each in self._weak],
            [each for each, _ in types.values()],
            [each for each, _ in services.values()],
            extends,
            options,
        )

    def _check_new(
        self, name: str, at: int, known: dict[str, tuple[el.Message | el.Enum, int]] | dict[str, tuple[el.Service, int]]
    ) -> None:
        if name in known:
            here, there = self._reader.location(at), self._reader.location(known[name][1])
            raise BadSyntax(f"{shortened(name)} ({here}) is already defined at {there}")

    def _declaration(self, place: _Place) -> _Declaration | None:
        """Read one declaration. Return None for a statement about the file (syntax, package, import), and for a lone
        semicolon."""
        reader = self._reader
        is_first, self._is_first = self._is_first, False
        if reader.take(";"):
            return None
        at = reader.at
        word = reader.word(may_start_with_digit=place is not _Place.ENUM)
        if word == "option":
            option = self._option("=")
            reader.require(";")
            return option
        read = self._readers[place].get(word)
        if read is not None:
            return read()
        if place in (_Place.MESSAGE, _Place.EXTEND):
            return self._field_or_group(at, word)
        if place is _Place.ENUM:
            return self._constant(word)
        if place is _Place.FILE:
            self._of_file(at, word, is_first=is_first)
            return None
        raise reader.error(f"unexpected label: {word}", at)

    def _of_file(self, at: int, word: str, *, is_first: bool) -> None:
        reader = self._reader
        if word == "package":
            self._package = reader.name()
        elif word == "import":
            self._import()
        elif word == "syntax":
            self._read_syntax(at, is_first=is_first)
        elif word == "edition":
            raise reader.error("edition is not currently supported")
        else:
            raise reader.error(f"unexpected label: {word}", at)
        reader.require(";")

    def _import(self) -> None:
        name = self._reader.string_or_word()
        kinds = {"public": self._public, "weak": self._weak}
        if name in kinds:
            kinds[name].append(self._reader.string_or_word())
        else:
            self._imports.append(name)

    def _read_syntax(self, at: int, *, is_first: bool) -> None:
        reader = self._reader
        if self._syntax is not None:
            raise reader.error("too many syntax definitions", at)
        reader.require("=")
        if not is_first:
            raise reader.error("'syntax' element must be the first declaration in a file", at)
        syntax = reader.string()
        if syntax not in ("proto2", "proto3"):
            raise reader.error(f"unexpected syntax: {syntax}", at)
        self._syntax = syntax

    def _message(self) -> el.Message:
        reader = self._reader
        name = reader.name()
        found: dict[type, list[_Declaration]] = defaultdict(list)
        reader.enter()
        reader.require("{")
        while not reader.take("}"):
            declared = self._declaration(_Place.MESSAGE)
            if declared is not None:
                found[type(declared)].append(declared)
        reader.leave()
        return el.Message(
            name,
            (*_of(found, el.Message), *_of(found, el.Enum)),
            _of(found, Option),
            _of(found, el.Reserved),
            _of(found, el.Field),
            _of(found, el.OneOf),
            _of(found, el.Extensions),
            _of(found, el.Group),
            _of(found, el.Extend),
        )

    def _extend(self) -> el.Extend:
        reader = self._reader
        name = reader.name()
        fields: list[el.Field] = []
        reader.require("{")
        while not reader.take("}"):
            declared = self._declaration(_Place.EXTEND)
            if isinstance(declared, el.Field):
                fields.append(declared)
        return el.Extend(name, fields)

    def _enum(self) -> el.Enum:
        reader = self._reader
        enum = el.Enum(reader.name(), options := [], constants := [], reserved := [])
        reader.require("{")
        while not reader.take("}"):
            declared = self._declaration(_Place.ENUM)
            if isinstance(declared, el.Constant):
                constants.append(declared)
            elif isinstance(declared, Option):
                options.append(declared)
            elif isinstance(declared, el.Reserved):
                reserved.append(declared)
        return enum

    def _constant(self, name: str) -> el.Constant:
        reader = self._reader
        reader.require("=")
        number = reader.integer()
        options = self._options()
        reader.require(";")
        reader.end_declaration()
        return el.Constant(name, number, options)

    def _field_or_group(self, at: int, word: str) -> el.Field | el.Group:
        reader = self._reader
        label = None
        if word in ("required", "optional", "repeated"):
            if word == "required" and self._syntax == "proto3":
                raise reader.error("'required' label forbidden in proto3 field declarations", at)
            label, type_name = word, reader.type()
        elif self._syntax == "proto3" or (word == "map" and reader.peek() == "<"):
            type_name = reader.type(word)
        else:
            raise reader.error(f"unexpected label: {word}", at)
        if label is not None and type_name.startswith("map<"):
            raise reader.error("'map' type cannot have label", at)
        return self._group(label) if type_name == "group" else self._field(label, type_name)

    def _field(self, label: str | None, type_name: str) -> el.Field:
        reader = self._reader
        name = reader.name(may_start_with_digit=False)
        reader.require("=")
        number = reader.integer()
        default = json_name = None
        options = self._options()
        if options:
            default, json_name = _text_of("default", options), _text_of("json_name", options)
            options = [option for option in options if option.name not in ("default", "json_name")]
        reader.require(";")
        reader.end_declaration()
        if type_name.startswith("map<"):
            self.maps.append(type_name)
        return el.Field(label, type_name, name, default, json_name, number, options)

    def _oneof(self) -> el.OneOf:
        reader = self._reader
        oneof = el.OneOf(reader.name(), fields := [], groups := [], options := [])
        reader.require("{")
        while not reader.take("}"):
            type_name = reader.type()
            if type_name == "group":
                groups.append(self._group(None))
            elif type_name == "option":
                options.append(self._option("="))
                reader.require(";")
            else:
                fields.append(self._field(None, type_name))
        return oneof

    def _group(self, label: str | None) -> el.Group:
        reader = self._reader
        name = reader.word()
        reader.require("=")
        group = el.Group(label, name, reader.integer(), fields := [])
        reader.enter()
        reader.require("{")
        while not reader.take("}"):
            at = reader.at
            field = self._field_or_group(at, reader.word())
            if not isinstance(field, el.Field):
                raise reader.error(f"expected field declaration, was group {field.name}")
            fields.append(field)
        reader.leave()
        return group

    def _reserved(self) -> el.Reserved:
        reader = self._reader
        at = reader.at
        values: list[int | str | Span] = []
        while True:
            if reader.peek() in "\"'":
                values.append(reader.string())
            else:
                first = reader.integer()
                if reader.peek() in ",;":
                    values.append(first)
                elif reader.word() == "to":
                    values.append(Span(first, reader.last_number(NUMBER_MAX)))
                else:
                    raise reader.error("expected ',', ';', or 'to'", at - len("reserved"))
            if self._ends_list():
                reader.end_declaration()
                return el.Reserved(values)

    def _extensions(self) -> el.Extensions:
        reader = self._reader
        at = reader.at
        values: list[int | Span] = []
        while True:
            first = reader.integer()
            if reader.peek() in ",;[":
                values.append(first)
            elif reader.word() == "to":
                values.append(Span(first, reader.last_number(NUMBER_MAX)))
            else:
                raise reader.error("expected ',', ';', '[' or 'to'", at - len("extensions"))
            if reader.peek() == "[":
                options = self._options()
                reader.require(";")
                return el.Extensions(values, options)
            if self._ends_list():
                return el.Extensions(values, [])

    def _ends_list(self) -> bool:
        char = self._reader.next()
        if char not in ",;":
            raise self._reader.error("expected ',' or ';'")
        return char == ";"

    def _service(self) -> el.Service:
        reader = self._reader
        service = el.Service(reader.name(), rpcs := [], options := [])
        reader.require("{")
        while not reader.take("}"):
            declared = self._declaration(_Place.SERVICE)
            if isinstance(declared, el.Rpc):
                rpcs.append(declared)
            elif isinstance(declared, Option):
                options.append(declared)
        return service

    def _rpc(self) -> el.Rpc:
        reader = self._reader
        name = reader.name()
        request, streams_request = self._message_type()
        if reader.word() != "returns":
            raise reader.error("expected 'returns'")
        response, streams_response = self._message_type()
        options: list[Option] = []
        if reader.take("{"):
            while not reader.take("}"):
                declared = self._declaration(_Place.RPC)
                if isinstance(declared, Option):
                    options.append(declared)
        else:
            reader.require(";")
        return el.Rpc(name, request, response, streams_request, streams_response, options)

    def _message_type(self) -> tuple[str, bool]:
        """Read the type of an rpc's request or response; return the type, and whether it is a stream."""
        reader = self._reader
        reader.require("(")
        word = reader.word()
        is_stream = word == "stream"
        type_name = reader.type() if is_stream else reader.type(word)
        reader.require(")")
        return type_name, is_stream

    def _options(self) -> Sequence[Option]:
        """Read the options in brackets after a declaration, if there are any."""
        reader = self._reader
        if not reader.take("["):
            return ()
        options: list[Option] = []
        while True:
            options.append(self._option("="))
            if reader.take("]"):
                return options
            if not reader.take(","):
                raise reader.error("Expected ',' or ']")

    def _option(self, separator: str) -> Option:
        """Read an option, or an entry of a map, whose separator is ":"."""
        reader = self._reader
        opening = reader.peek()
        name = reader.name()
        name = f"[{name}]" if opening == "[" else name
        parts: list[str] = []
        char = reader.next()
        while char == ".":
            part = reader.name(keeps_brackets=True)
            parts += [part] if part.startswith("(") else part.split(".")
            if len(parts) > NESTING_MAX:
                raise reader.error("the option's name has too many parts")
            char = reader.next()
        if separator == ":" and char == "{":
            reader.at -= 1
        elif char != separator:
            raise reader.error(f"expected '{separator}' in option")
        kind, value = self._value()
        for part in reversed(parts):
            is_extension = part.startswith("(")
            value = Option(part[1:-1] if is_extension else part, kind, value, is_extension)
            kind = Kind.OPTION
        return Option(name, kind, value, opening == "(")

    def _value(self) -> tuple[Kind, Value]:
        reader = self._reader
        char = reader.peek()
        if char == "{":
            return Kind.MAP, self._map()
        if char == "[":
            return Kind.LIST, self._list()
        if char in "\"'":
            return Kind.STRING, reader.string()
        word = reader.word()
        if char.isdigit() or char == "-":
            return Kind.NUMBER, word
        return (Kind.BOOLEAN if word in ("true", "false") else Kind.ENUM), word

    def _map(self) -> dict[str, Value]:
        reader = self._reader
        reader.enter()
        reader.require("{")
        result: dict[str, Value] = {}
        while not reader.take("}"):
            option = self._option(":")
            name, value = option.name, option.value
            if isinstance(value, Option):
                inner = result.get(name)
                if not isinstance(inner, dict):
                    inner = result[name] = {}
                inner[value.name] = value.value
            else:
                _put(result, name, Word(option.kind, str(value)) if option.kind in WORDS else value)
            if not reader.take(","):
                reader.take(";")
        reader.leave()
        return result

    def _list(self) -> list[Value]:
        reader = self._reader
        reader.enter()
        reader.require("[")
        result: list[Value] = []
        while not reader.take("]"):
            kind, value = self._value()
            result.append(Word(kind, str(value)) if kind in WORDS else value)
            if not reader.take(",") and reader.peek() != "]":
                raise reader.error("expected ',' or ']'")
        reader.leave()
        return result


def _of(found: Mapping[type, list[_Declaration]], kind: type[_D]) -> Sequence[_D]:
    return cast("Sequence[_D]", found.get(kind, ()))


def _put(entries: dict[str, Value], name: str, value: Value) -> None:
    """Put a value into a map; if the map has the name already, its value becomes a list."""
    if name not in entries:
        entries[name] = value
        return
    known = entries[name]
    if not isinstance(known, list):
        known = entries[name] = [known]
    if isinstance(value, list):
        known.extend(value)
    else:
        known.append(value)


def _text_of(name: str, options: Sequence[Option]) -> str | None:
    """Return the value of the last option with a name, or None. Raises InvalidSchema if it is a map or list."""
    values = [option.value for option in options if option.name == name]
    if not values:
        return None
    if not isinstance(values[-1], str):
        raise InvalidSchema(f"the option {name} of a field is no single value")
    return values[-1]


def _path(name: str) -> str:
    """Return an import's path without empty parts and `.`."""
    root = "/" if name[:1] in ("/", "\\") else ""
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]
    return root + "/".join(parts) if parts or root else "."


def _check_map(type_name: str) -> None:
    """Raise InvalidSchema if the type of a map's key cannot be a key."""
    keys: list[str] = []
    rest: str = type_name
    while rest.endswith(">") and (types := map_of(rest)) is not None:
        keys.append(types[0])
        rest = types[1]
    for key in reversed(keys):
        if key not in _KEYS:
            raise InvalidSchema(shortened(f"map key must be non-byte, non-floating point scalar: {key}"))
