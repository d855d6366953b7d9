"""A .proto file's elements as text: the canonical text of a schema, and its normalized text.

The canonical text has the declarations of the file in their order, without comments and weak imports, in this layout:

    syntax, package
    imports, public imports
    options
    messages, enums
    extends
    services

and within a message: reserved, options, fields, oneofs, groups, extensions, extends, messages, enums. An empty line
separates two parts; within a message it is indented like other lines.

The normalized text is the same for files with the same meaning: types have their full names with a leading dot; fields,
oneofs, groups, constants of enums and reserved numbers are sorted by number, imports and options by name; an option
that is set by several statements is one map; numbers are decimal; maps are `map<K, V>`; `syntax = "proto2"` is left
out. Messages, enums, services and rpcs keep their order, as the message indexes before a payload count them. Source:
canonicalString and normalize of Confluent's ProtobufSchema.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kcli.schemas.protobuf import elements as el
from kcli.schemas.protobuf.elements import NUMBER_MAX, SCALARS, WORDS, Kind, Option, Span, Value, Word
from kcli.schemas.protobuf.names import Names, Scope, is_map_entry
from kcli.schemas.protobuf.numbers import normalized_number
from kcli.schemas.protobuf.options import normalized_options
from kcli.schemas.protobuf.reader import shortened
from kcli.schemas.schema import SIZE_MAX, InvalidSchema

_INDENT = "  "
_INT_MAX = (1 << 31) - 1
_ESCAPES = str.maketrans(
    {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        "\\": "\\\\",
        "'": "\\'",
        '"': '\\"',
    }
)
_KINDS = {"bool": Kind.BOOLEAN, "string": Kind.STRING} | dict.fromkeys(SCALARS - {"bool", "string"}, Kind.NUMBER)


def canonical_text(file: el.File, *, has_extensions: bool = True) -> str:
    """Return the canonical text of a file. has_extensions: if False, extends, extensions and custom options other than
    Confluent's are left out. Raises InvalidSchema if the text is too large."""
    return _Printer(None, has_extensions=has_extensions).file(file)


def normalized_text(file: el.File, names: Names) -> str:
    """Return the normalized text of a file. Raises InvalidSchema if a type is not found, or if the text is too
    large."""
    return _Printer(names, has_extensions=True).file(file)


class _Text:
    """The text written so far, and the depth of blocks around the next line. Raises InvalidSchema if the text becomes
    too large."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.depth = 0
        self._size = 0

    def write(self, text: str) -> None:
        self._size += len(text)
        if self._size > SIZE_MAX:
            raise InvalidSchema(f"the canonical text has more than {SIZE_MAX:,} characters")
        self.pieces.append(text)

    def start(self, text: str) -> None:
        """Begin a line with this text, after the indentation."""
        self.write(_INDENT * self.depth + text)

    def line(self, text: str) -> None:
        """Write a line; within a block, every line of the text is indented."""
        indent = _INDENT * self.depth
        self.write(indent + text.replace("\n", "\n" + indent) + "\n")

    def block(self) -> _Block:
        """Begin a block, after its opening brace."""
        self.depth += 1
        return _Block(self)


class _Block:
    """The parts between two braces."""

    def __init__(self, text: _Text) -> None:
        self._text = text
        self._is_empty = True

    def part(self) -> None:
        """Begin a part: after the brace on a new line, after another part with an empty line."""
        text = self._text
        text.write("\n" if self._is_empty else _INDENT * (text.depth - 1) + "\n")
        self._is_empty = False

    def end(self) -> None:
        """Write the closing brace."""
        text = self._text
        text.depth -= 1
        text.write("}\n" if self._is_empty else _INDENT * text.depth + "}\n")


class _Printer:
    def __init__(self, names: Names | None, *, has_extensions: bool) -> None:
        self._names = names
        self._has_extensions = has_extensions
        self._text = _Text()

    def file(self, file: el.File) -> str:
        scope = self._names.package if self._names else None
        if file.syntax is not None and (self._names is None or file.syntax == "proto3"):
            self._text.line(f'syntax = "{file.syntax}";')
        if file.package is not None:
            self._text.line(f"package {file.package};")
        if file.imports or file.public_imports:
            self._text.line("")
            for each in self._distinct(file.imports):
                self._text.line(f'import "{each}";')
            for each in self._distinct(file.public_imports):
                self._text.line(f'import public "{each}";')
        if options := self._options(file.options, scope):
            self._text.line("")
            self._statements(options, scope)
        if types := self._types(file.types):
            self._text.line("")
            self._print_types(types, scope)
        if self._has_extensions and file.extends:
            self._text.line("")
            self._extends(file.extends, scope)
        if file.services:
            self._text.line("")
            for service in file.services:
                self._service(service, scope)
        return "".join(self._text.pieces)

    def _distinct(self, names: Sequence[str]) -> Sequence[str]:
        return sorted(set(names)) if self._names else names

    def _types(self, types: Sequence[el.Message | el.Enum]) -> list[el.Message | el.Enum]:
        """Return the types without the entries of maps, which the normalized text does not name."""
        return [each for each in types if self._names is None or not is_map_entry(each)]

    def _print_types(self, types: Sequence[el.Message | el.Enum], scope: Scope | None) -> None:
        for each in types:
            if isinstance(each, el.Message):
                self._message(each, scope and scope.child(each.name))
        for each in types:
            if isinstance(each, el.Enum):
                self._enum(each, scope and scope.child(each.name))

    def _message(self, message: el.Message, scope: Scope | None) -> None:
        self._text.start(f"message {message.name} {{")
        block = self._text.block()
        if message.reserved:
            block.part()
            self._reserved(message.reserved)
        if options := self._options(message.options, scope):
            block.part()
            self._statements(options, scope)
        if message.fields:
            block.part()
            self._fields(message.fields, scope)
        if message.oneofs:
            block.part()
            for oneof in self._oneofs(message.oneofs):
                self._oneof(oneof, scope)
        if message.groups:
            block.part()
            self._groups(message.groups, scope)
        if self._has_extensions and message.extensions:
            block.part()
            for extensions in self._extensions(message.extensions):
                self._text.start("extensions " + ", ".join(self._number(each) for each in extensions.values))
                self._brackets(extensions.options, scope)
        if self._has_extensions and message.extends:
            block.part()
            self._extends(message.extends, scope)
        if types := self._types(message.types):
            block.part()
            self._print_types(types, scope)
        block.end()

    def _enum(self, enum: el.Enum, scope: Scope | None) -> None:
        self._text.start(f"enum {enum.name} {{")
        block = self._text.block()
        if enum.reserved:
            block.part()
            self._reserved(enum.reserved)
        elif enum.options or enum.constants:
            block.part()
        self._statements(self._options(enum.options, scope), scope)
        constants = enum.constants
        if self._names:
            constants = sorted(constants, key=lambda each: (each.number, each.name))
        for constant in constants:
            self._text.start(f"{constant.name} = {constant.number}")
            self._brackets(constant.options, scope)
        block.end()

    def _oneofs(self, oneofs: Sequence[el.OneOf]) -> Sequence[el.OneOf]:
        if not self._names:
            return oneofs
        sorted_fields = [each._replace(fields=self._by_number(each.fields)) for each in oneofs if each.fields]
        return sorted(sorted_fields, key=lambda each: each.fields[0].number)

    def _oneof(self, oneof: el.OneOf, scope: Scope | None) -> None:
        self._text.start(f"oneof {oneof.name} {{")
        block = self._text.block()
        if options := self._options(oneof.options, scope):
            block.part()
            self._statements(options, scope)
        if oneof.fields:
            block.part()
            for field in oneof.fields:
                self._field(field, scope)
        if oneof.groups:
            block.part()
            self._groups(oneof.groups, scope)
        block.end()

    def _groups(self, groups: Sequence[el.Group], scope: Scope | None) -> None:
        for group in sorted(groups, key=lambda each: each.number) if self._names else groups:
            label = f"{group.label} " if group.label else ""
            self._text.start(f"{label}group {group.name} = {group.number} {{")
            block = self._text.block()
            if group.fields:
                block.part()
                self._fields(group.fields, scope)
            block.end()

    def _extends(self, extends: Sequence[el.Extend], scope: Scope | None) -> None:
        if self._names and scope:
            merged: dict[str, list[el.Field]] = {}
            for extend in extends:
                if extend.fields:
                    merged.setdefault(self._resolved(extend.name, scope), []).extend(extend.fields)
            extends = [el.Extend(name, fields) for name, fields in merged.items()]
        for extend in extends:
            self._text.start(f"extend {extend.name} {{")
            block = self._text.block()
            if extend.fields:
                block.part()
                self._fields(extend.fields, scope)
            block.end()

    def _service(self, service: el.Service, scope: Scope | None) -> None:
        self._text.start(f"service {service.name} {{")
        block = self._text.block()
        if options := self._options(service.options, scope):
            block.part()
            self._statements(options, scope)
        if service.rpcs:
            block.part()
            for rpc in service.rpcs:
                self._rpc(rpc, scope)
        block.end()

    def _rpc(self, rpc: el.Rpc, scope: Scope | None) -> None:
        request = "stream " * rpc.streams_request + self._resolved(rpc.request, scope)
        response = "stream " * rpc.streams_response + self._resolved(rpc.response, scope)
        self._text.start(f"rpc {rpc.name} ({request}) returns ({response})")
        if options := self._options(rpc.options, scope):
            self._text.write(" {\n")
            self._text.depth += 1
            self._statements(options, scope)
            self._text.depth -= 1
            self._text.start("}")
        self._text.write(";\n")

    def _reserved(self, reserved: Iterable[el.Reserved]) -> None:
        if self._names:
            values = sorted((value for each in reserved for value in each.values), key=_reserved_order)
            reserved = [el.Reserved([value]) for value in values]
        for each in reserved:
            self._text.line("reserved " + ", ".join(self._number(value) for value in each.values) + ";")

    def _extensions(self, extensions: Sequence[el.Extensions]) -> Sequence[el.Extensions]:
        if not self._names:
            return extensions
        single = [el.Extensions([value], each.options) for each in extensions for value in each.values]
        return sorted(single, key=lambda each: _first(each.values[0]))

    def _number(self, value: int | str | Span) -> str:
        if isinstance(value, str):
            return f'"{value}"'
        if isinstance(value, int):
            return str(value)
        if self._names and value.first == value.last:
            return str(value.first)
        return f"{value.first} to {value.last if value.last < NUMBER_MAX else 'max'}"

    def _by_number(self, fields: Sequence[el.Field]) -> Sequence[el.Field]:
        return sorted(fields, key=lambda field: field.number) if self._names else fields

    def _fields(self, fields: Sequence[el.Field], scope: Scope | None) -> None:
        for field in self._by_number(fields):
            self._field(field, scope)

    def _field(self, field: el.Field, scope: Scope | None) -> None:
        label, type_name = field.label, field.type
        if self._names and scope and type_name not in SCALARS:
            type_name = self._field_type(type_name, scope)
            label = None if type_name.startswith("map<") else label
        self._text.start(f"{label + ' ' if label else ''}{type_name} {field.name} = {field.number}")
        options = field.options
        if field.default is not None:
            kind = _KINDS.get(type_name.rpartition(".")[2], Kind.ENUM)
            options = [*options, Option("default", kind, field.default)]
        if field.json_name is not None:
            options = [*options, Option("json_name", Kind.STRING, field.json_name)]
        self._brackets(options, scope)

    def _field_type(self, type_name: str, scope: Scope) -> str:
        """Return the full name of a field's type; `map<K, V>` if the type is the entry of a map."""
        assert self._names is not None
        if not type_name.startswith("map<"):
            found = self._names.type(scope, type_name)
            if found is None or found.type is None:
                raise InvalidSchema(shortened(f"Could not resolve type: {type_name}"))
            if found.type.map_type is None:
                return "." + found.full_name
            type_name = found.type.map_type
        types = el.map_of(type_name)
        if types and types[1] not in SCALARS and (found := self._names.type(scope, types[1])):
            return f"map<{types[0]}, .{found.full_name}>"
        return type_name

    def _resolved(self, type_name: str, scope: Scope | None) -> str:
        if self._names is None or scope is None:
            return type_name
        found = self._names.type(scope, type_name)
        if found is None:
            raise InvalidSchema(shortened(f"Could not resolve type: {type_name}"))
        return "." + found.full_name

    def _options(self, options: Sequence[Option], scope: Scope | None) -> Sequence[Option]:
        if not options:
            return options
        if not self._has_extensions:
            options = [each for each in options if not each.is_extension or each.name.startswith("confluent.")]
        return normalized_options(options, self._names, scope) if self._names and scope else options

    def _statements(self, options: Sequence[Option], scope: Scope | None) -> None:
        for option in options:
            self._text.start("option ")
            self._option(option, self._text.depth, scope)
            self._text.write(";\n")

    def _brackets(self, options: Sequence[Option], scope: Scope | None) -> None:
        """Write the options of a declaration in brackets, if it has any, and end the declaration."""
        if options := self._options(options, scope):
            self._text.write(" ")
            self._items(options, self._text.depth, scope, is_inline=True)
        self._text.write(";\n")

    def _option(self, option: Option, depth: int, scope: Scope | None) -> None:
        self._text.write(f"({option.name})" if option.is_extension else option.name)
        value = option.value
        if isinstance(value, Option):
            self._text.write(".")
            self._option(value, depth, scope)
            return
        self._text.write(" = ")
        if isinstance(value, list):
            self._items(value, depth, scope, is_inline=True)
        elif isinstance(value, str) and option.kind in WORDS:
            self._value(Word(option.kind, value), depth, scope)
        else:
            self._value(value, depth, scope)

    def _value(self, value: Value, depth: int, scope: Scope | None) -> None:
        if isinstance(value, Option):
            self._option(value, depth, scope)
        elif isinstance(value, Word):
            self._text.write(normalized_number(value.text) if self._names and value.kind is Kind.NUMBER else value.text)
        elif isinstance(value, str):
            self._text.write(f'"{value.translate(_ESCAPES)}"')
        elif isinstance(value, dict):
            self._map(value, depth, scope)
        elif self._names and len(value) == 1:
            self._value(value[0], depth, scope)
        else:
            self._items(value, depth, scope, is_inline=False)

    def _items(self, values: Sequence[Value], depth: int, scope: Scope | None, *, is_inline: bool) -> None:
        """Write values in brackets, each on a line. is_inline: whether a single value has no line breaks around it."""
        if is_inline and len(values) == 1:
            self._text.write("[")
            self._value(values[0], depth, scope)
            self._text.write("]")
            return
        self._text.write("[\n")
        for i, value in enumerate(values, 1):
            self._text.write(_INDENT * (depth + 1))
            self._value(value, depth + 1, scope)
            self._text.write(",\n" if i < len(values) else "\n")
        self._text.write(_INDENT * depth + "]")

    def _map(self, entries: dict[str, Value], depth: int, scope: Scope | None) -> None:
        if self._names and scope:
            entries = self._sorted(entries, scope)
        self._text.write("{\n")
        for i, (key, value) in enumerate(entries.items(), 1):
            self._text.write(f"{_INDENT * (depth + 1)}{key}: ")
            self._value(value, depth + 1, scope)
            self._text.write(",\n" if i < len(entries) else "\n")
        self._text.write(_INDENT * depth + "}")

    def _sorted(self, entries: dict[str, Value], scope: Scope) -> dict[str, Value]:
        """Return a map without empty lists, sorted by name; extensions have their full names."""
        assert self._names is not None
        result: dict[str, Value] = {}
        for key, value in entries.items():
            if value == []:
                continue
            found = self._names.extension(scope, key[1:-1]) if key.startswith("[") and key.endswith("]") else None
            result.setdefault(f"[{found.full_name}]" if found else key, value)
        return dict(sorted(result.items()))


def _first(value: int | str | Span) -> int:
    return value if isinstance(value, int) else value.first if isinstance(value, Span) else _INT_MAX


def _reserved_order(value: int | str | Span) -> tuple[int, str]:
    text = f"{value.first}..{value.last}" if isinstance(value, Span) else str(value)
    return _first(value), text
