"""Converts a serialized FileDescriptorProto in base64 to elements, and elements to a FileDescriptorProto.

Clients other than Java's register the descriptor that protoc has made; a request for the form "serialized" gets one. Of
custom options, a descriptor keeps only Confluent's (confluent.*_meta), as others need the files that declare them.
Imports google.protobuf: 0.1 s once. Source: google/protobuf/descriptor.proto; Confluent's ProtobufSchema for the parts
that are converted, and their order.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as BadBase64
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from kcli.schemas.protobuf import elements as el
from kcli.schemas.protobuf.elements import SCALARS, Kind, Option, Span, Value, Word, map_of
from kcli.schemas.protobuf.names import Names, Scope, known_files
from kcli.schemas.protobuf.options import as_map, merged
from kcli.schemas.protobuf.reader import NESTING_MAX
from kcli.schemas.schema import InvalidSchema

if TYPE_CHECKING:
    from google.protobuf.descriptor import FieldDescriptor

# The classes are made at run time, in a pool that knows Confluent's extensions.
_Proto: TypeAlias = Any

_META_NUMBER = 1088
_FILE_OPTIONS = [
    "java_package",
    "java_outer_classname",
    "java_multiple_files",
    "java_generate_equals_and_hash",
    "java_string_check_utf8",
    "optimize_for",
    "go_package",
    "cc_generic_services",
    "java_generic_services",
    "py_generic_services",
    "deprecated",
    "cc_enable_arenas",
    "objc_class_prefix",
    "csharp_namespace",
    "swift_prefix",
    "php_class_prefix",
    "php_namespace",
    "php_metadata_namespace",
    "ruby_package",
    "features",
]
_MESSAGE_OPTIONS = ["no_standard_descriptor_accessor", "deprecated", "map_entry", "features"]
_FIELD_OPTIONS = [
    "ctype",
    "packed",
    "jstype",
    "deprecated",
    "debug_redact",
    "retention",
    "targets",
    "edition_defaults",
    "features",
    "feature_support",
]
_ENUM_OPTIONS = ["allow_alias", "deprecated", "features"]
_CONSTANT_OPTIONS = ["deprecated", "debug_redact", "features", "feature_support"]
_SERVICE_OPTIONS = ["deprecated", "features"]
_RPC_OPTIONS = ["deprecated", "idempotency_level", "features"]
_ONEOF_OPTIONS = ["features"]
_RANGE_OPTIONS = ["declaration", "features", "verification"]
_PARTS = {
    "features": [
        "field_presence",
        "enum_type",
        "repeated_field_encoding",
        "utf8_validation",
        "message_encoding",
        "json_format",
    ],
    "feature_support": ["edition_introduced", "edition_deprecated", "deprecation_warning", "edition_removed"],
    "edition_defaults": ["edition", "value"],
    "declaration": ["number", "full_name", "type", "reserved", "repeated"],
}
"""The options whose values are messages, each with the fields of its message."""
_UNKNOWN_IF_ABSENT = {"retention", *_PARTS["features"], *_PARTS["feature_support"], *_PARTS["edition_defaults"]}
"""Fields of an enum's type that get the value 0 for a symbol that the enum does not have."""
_VALUE_FIRST = ("precision", "scale")
_LABELS = {1: "optional", 2: "required", 3: "repeated"}
_LABEL_NUMBERS = {name: number for number, name in _LABELS.items()}
_TYPES = {
    number: name.removeprefix("TYPE_").lower() for name, number in descriptor_pb2.FieldDescriptorProto.Type.items()
}
_TYPE_NUMBERS = {name: number for number, name in _TYPES.items() if name in SCALARS}
_TYPE_MESSAGE, _TYPE_ENUM = 11, 14
_META_KINDS = ("file", "message", "field", "enum", "enum_value")


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    """Return a pool of descriptor.proto and of Confluent's options.

    In this pool the map of parameters in Confluent's options is a list of entries, because their order counts.
    """
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(descriptor_pb2.DESCRIPTOR.serialized_pb)
    file = descriptor_pb2.FileDescriptorProto(
        name="confluent/meta.proto",
        package="confluent",
        syntax="proto3",
        dependency=["google/protobuf/descriptor.proto"],
    )
    for name, fields in {
        "Entry": "key value",
        "Rule": "name doc expr sql",
    }.items():
        message = file.message_type.add(name=name)
        for number, field in enumerate(fields.split(), 1):
            message.field.add(name=field, number=number, label="LABEL_OPTIONAL", type="TYPE_STRING")
    meta = file.message_type.add(name="Meta").field
    meta.add(name="doc", number=1, label="LABEL_OPTIONAL", type="TYPE_STRING")
    meta.add(name="params", number=2, label="LABEL_REPEATED", type="TYPE_MESSAGE", type_name=".confluent.Entry")
    meta.add(name="tags", number=3, label="LABEL_REPEATED", type="TYPE_STRING")
    meta.add(name="rules", number=4, label="LABEL_REPEATED", type="TYPE_MESSAGE", type_name=".confluent.Rule")
    for kind in _META_KINDS:
        file.extension.add(
            name=f"{kind}_meta",
            number=_META_NUMBER,
            label="LABEL_OPTIONAL",
            type="TYPE_MESSAGE",
            type_name=".confluent.Meta",
            extendee=f".google.protobuf.{kind.title().replace('_', '')}Options",
        )
    pool.AddSerializedFile(file.SerializeToString())
    return pool


@cache
def _extensions() -> Mapping[str, FieldDescriptor]:
    return {f"{kind}_meta": _pool().FindExtensionByName(f"confluent.{kind}_meta") for kind in _META_KINDS}


def _new_file() -> _Proto:
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName("google.protobuf.FileDescriptorProto"))()


def file_of(text: str) -> el.File:
    """Return the elements of a FileDescriptorProto in base64. Raises InvalidSchema for any other text."""
    try:
        data = b64decode(text + "=" * (-len(text) % 4) if "=" not in text else text, validate=True)
        file = _new_file()
        file.ParseFromString(data)
        _check_text(file)
        return _file(file)
    except (BadBase64, DecodeError, UnicodeError, ValueError) as error:
        raise InvalidSchema(f"not a FileDescriptorProto: {error}") from None


def _check_text(message: _Proto) -> None:
    """Raise InvalidSchema if a string of the message is not UTF-8; google.protobuf returns such a string as bytes."""
    for field, value in message.ListFields():
        for each in value if field.is_repeated else [value]:
            if field.message_type is not None:
                _check_text(each)
            elif field.type == field.TYPE_STRING and not isinstance(each, str):
                raise InvalidSchema(f"{field.full_name} is not UTF-8")


def _file(file: _Proto) -> el.File:
    public, weak = set(file.public_dependency), set(file.weak_dependency)
    imports = list(enumerate(file.dependency))
    is_proto3 = file.syntax == "proto3"
    return el.File(
        file.syntax if file.syntax in ("proto2", "proto3") else None,
        file.package or None,
        [name for i, name in imports if i not in public and i not in weak],
        [name for i, name in imports if i in public],
        [name for i, name in imports if i in weak and i not in public],
        [*(_message(each, is_proto3, 1) for each in file.message_type), *(_enum(each) for each in file.enum_type)],
        [_service(each) for each in file.service],
        _extends(file.extension, is_proto3),
        _options(file.options, _FILE_OPTIONS, "file_meta"),
    )


def _message(message: _Proto, is_proto3: bool, depth: int) -> el.Message:
    if depth > NESTING_MAX:
        raise InvalidSchema(f"more than {NESTING_MAX} levels are nested")
    fields: list[el.Field] = []
    of_oneofs: list[list[el.Field]] = [[] for _ in message.oneof_decl]
    for each in message.field:
        if each.HasField("oneof_index") and not each.proto3_optional:
            if not 0 <= each.oneof_index < len(of_oneofs):
                raise InvalidSchema(f"field {each.name} is in a oneof that does not exist")
            of_oneofs[each.oneof_index].append(_field(each, is_proto3)._replace(label=None))
        else:
            fields.append(_field(each, is_proto3))
    return el.Message(
        message.name,
        [
            *(_message(each, is_proto3, depth + 1) for each in message.nested_type),
            *(_enum(each) for each in message.enum_type),
        ],
        _options(message.options, _MESSAGE_OPTIONS, "message_meta"),
        _reserved(message, 1),
        fields,
        [
            el.OneOf(oneof.name, of_oneof, [], _options(oneof.options, _ONEOF_OPTIONS))
            for oneof, of_oneof in zip(message.oneof_decl, of_oneofs, strict=True)
            if of_oneof
        ],
        [
            el.Extensions([_span(each.start, each.end - 1)], _options(each.options, _RANGE_OPTIONS))
            for each in message.extension_range
        ],
        [],
        _extends(message.extension, is_proto3),
    )


def _span(first: int, last: int) -> int | Span:
    return first if first == last else Span(first, last)


def _reserved(declared: _Proto, excluded: int) -> list[el.Reserved]:
    """Return the reserved numbers and names of a message or enum. excluded: 1 if the end of a range is exclusive, else
    0."""
    numbers = [el.Reserved([_span(each.start, each.end - excluded)]) for each in declared.reserved_range]
    return [*numbers, *(el.Reserved([name]) for name in declared.reserved_name)]


def _extends(fields: Iterable[_Proto], is_proto3: bool) -> list[el.Extend]:
    extended: dict[str, list[el.Field]] = {}
    for each in fields:
        extended.setdefault(each.extendee, []).append(_field(each, is_proto3))
    return [el.Extend(name, of_name) for name, of_name in extended.items()]


def _field(field: _Proto, is_proto3: bool) -> el.Field:
    label = _LABELS[field.label]
    if field.proto3_optional:
        label = "optional"
    return el.Field(
        None if is_proto3 and label != "repeated" and not field.proto3_optional else label,
        field.type_name if field.HasField("type_name") else _TYPES[field.type],
        field.name,
        field.default_value if field.HasField("default_value") and not is_proto3 else None,
        field.json_name if field.HasField("json_name") else None,
        field.number,
        _options(field.options, _FIELD_OPTIONS, "field_meta"),
    )


def _enum(enum: _Proto) -> el.Enum:
    return el.Enum(
        enum.name,
        _options(enum.options, _ENUM_OPTIONS, "enum_meta"),
        [
            el.Constant(each.name, each.number, _options(each.options, _CONSTANT_OPTIONS, "enum_value_meta"))
            for each in enum.value
        ],
        _reserved(enum, 0),
    )


def _service(service: _Proto) -> el.Service:
    rpcs = [
        el.Rpc(
            each.name,
            each.input_type,
            each.output_type,
            each.client_streaming,
            each.server_streaming,
            _options(each.options, _RPC_OPTIONS),
        )
        for each in service.method
    ]
    return el.Service(service.name, rpcs, _options(service.options, _SERVICE_OPTIONS))


def _options(options: _Proto, names: Sequence[str], meta: str | None = None) -> list[Option]:
    """Return the options of a declaration that are set, in the order of `names`; Confluent's come last."""
    result: list[Option] = []
    for name in names:
        field = options.DESCRIPTOR.fields_by_name[name]
        values = getattr(options, name) if field.is_repeated else [getattr(options, name)] * options.HasField(name)
        for value in values:
            if name in _PARTS:
                parts = {part: _word(value, part) for part in _PARTS[name] if value.HasField(part)}
                result.append(Option(name, Kind.MAP, parts))
            else:
                result.append(Option(name, *_text(field, value)))
    extension = _extensions()[meta] if meta else None
    if extension and options.HasExtension(extension):
        entries = _meta(options.Extensions[extension])
        if entries:
            result.append(Option(f"confluent.{meta}", Kind.MAP, entries, is_extension=True))
    return result


def _text(field: FieldDescriptor, value: Any) -> tuple[Kind, str]:
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return Kind.ENUM, known.name if known else str(value)
    if isinstance(value, bool):
        return Kind.BOOLEAN, str(value).lower()
    return (Kind.STRING if isinstance(value, str) else Kind.NUMBER), str(value)


def _word(message: _Proto, name: str) -> Value:
    kind, text = _text(message.DESCRIPTOR.fields_by_name[name], getattr(message, name))
    return text if kind is Kind.STRING else Word(kind, text)


def _meta(meta: _Proto) -> dict[str, Value]:
    result: dict[str, Value] = {}
    if meta.doc:
        result["doc"] = meta.doc
    params: dict[str, str] = {each.key: each.value for each in meta.params}
    if params:
        result["params"] = [
            {"value": value, "key": key} if key in _VALUE_FIRST else {"key": key, "value": value}
            for key, value in params.items()
        ]
    if meta.tags:
        result["tags"] = list(meta.tags)
    rules: list[Value] = []
    for rule in meta.rules:
        entry: dict[str, Value] = {
            name: getattr(rule, name) for name in ("name", "doc", "expr", "sql") if getattr(rule, name)
        }
        if entry:
            rules.append(entry)
    if rules:
        result["rules"] = rules
    return result


def serialized(file: el.File, names: Names, references: Mapping[str, el.File]) -> str:
    """Return a file as a FileDescriptorProto in base64; its name is "default". Raises InvalidSchema."""
    proto = _new_file()
    proto.name = "default"
    try:
        _Builder(names, file.syntax).file(proto, file, references.keys() | known_files().keys())
        return b64encode(proto.SerializeToString()).decode()
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidSchema(f"Invalid protobuf schema definition: {error}") from None


class _Builder:
    """Fills descriptors with the declarations of a file."""

    def __init__(self, names: Names, syntax: str | None) -> None:
        self._names = names
        self._is_proto3 = syntax == "proto3"

    def file(self, proto: _Proto, file: el.File, known: Iterable[str]) -> None:
        scope, known = self._names.package, set(known)
        if file.syntax is not None:
            proto.syntax = file.syntax
        if file.package is not None:
            proto.package = file.package
        self._types(proto.message_type, proto.enum_type, file.types, scope)
        for service in file.services:
            self._service(proto.service.add(name=service.name), service)
        for extend in file.extends:
            for field in extend.fields:
                self._field(proto.extension.add(extendee=extend.name), field, field.type, field.label, scope)
        for name in dict.fromkeys(file.imports):
            if name in known:
                proto.dependency.append(name)
        for name in file.public_imports:
            if name in known:
                if name not in proto.dependency:
                    proto.dependency.append(name)
                proto.public_dependency.append(list(proto.dependency).index(name))
        _set_options(proto, file.options, _FILE_OPTIONS, "file_meta")

    def _types(self, messages: _Proto, enums: _Proto, types: Sequence[el.Message | el.Enum], scope: Scope) -> None:
        for each in types:
            if isinstance(each, el.Message):
                self._message(messages.add(name=each.name), each, scope.child(each.name))
            else:
                _build_enum(enums.add(name=each.name), each)

    def _message(self, proto: _Proto, message: el.Message, scope: Scope) -> None:
        self._types(proto.nested_type, proto.enum_type, message.types, scope)
        of_oneofs: set[str] = set()
        for i, oneof in enumerate(message.oneofs):
            declared = proto.oneof_decl.add(name=oneof.name)
            declared.options.SetInParent()
            _set_options(declared, oneof.options, _ONEOF_OPTIONS)
            for field in oneof.fields:
                built = self._field(proto.field.add(), field, field.type, "optional", scope)
                built.oneof_index = i
                of_oneofs.add(field.name)
        for field in message.fields:
            if field.name not in of_oneofs:
                self._message_field(proto, field, scope)
        for reserved in message.reserved:
            _build_reserved(proto, reserved, 1)
        for extensions in message.extensions:
            for value in extensions.values:
                first, last = (value, value) if isinstance(value, int) else value
                built = proto.extension_range.add(start=first, end=last + 1)
                built.options.SetInParent()
                _set_options(built, extensions.options, _RANGE_OPTIONS)
        for extend in message.extends:
            for field in extend.fields:
                self._field(proto.extension.add(extendee=extend.name), field, field.type, field.label, scope)
        _set_options(proto, message.options, _MESSAGE_OPTIONS, "message_meta")

    def _message_field(self, proto: _Proto, field: el.Field, scope: Scope) -> None:
        types = map_of(field.type)
        type_name, label = field.type, field.label
        if types:
            type_name, label = _entry_name(field.name), "repeated"
            entry = proto.nested_type.add(name=type_name)
            entry.options.map_entry = True
            for number, name in enumerate(("key", "value"), 1):
                part = el.Field(None, types[number - 1], name, None, None, number, [])
                self._field(entry.field.add(), part, part.type, None, scope)
        if label == "optional" and self._is_proto3:
            declared = proto.oneof_decl.add(name="_" + field.name)
            declared.options.SetInParent()
            built = self._field(proto.field.add(), field, type_name, label, scope)
            built.oneof_index = len(proto.oneof_decl) - 1
            built.proto3_optional = True
        else:
            self._field(proto.field.add(), field, type_name, label, scope, is_map=types is not None)

    def _field(
        self, proto: _Proto, field: el.Field, type_name: str, label: str | None, scope: Scope, *, is_map: bool = False
    ) -> _Proto:
        proto.name = field.name
        proto.number = field.number
        if label is not None:
            proto.label = _LABEL_NUMBERS[label]
        if type_name in _TYPE_NUMBERS:
            proto.type = _TYPE_NUMBERS[type_name]
        else:
            found = None if is_map else self._names.type(scope, type_name)
            if found and found.type:
                proto.type = _TYPE_ENUM if isinstance(found.type.element, el.Enum) else _TYPE_MESSAGE
            elif not is_map:
                raise InvalidSchema(f'Invalid protobuf schema definition: "{type_name}" is not defined.')
            proto.type_name = type_name
        if field.default is not None:
            proto.default_value = field.default
        if field.json_name is not None:
            proto.json_name = field.json_name
        _set_options(proto, field.options, _FIELD_OPTIONS, "field_meta")
        return proto

    def _service(self, proto: _Proto, service: el.Service) -> None:
        for rpc in service.rpcs:
            method = proto.method.add(
                name=rpc.name,
                input_type=rpc.request,
                output_type=rpc.response,
                client_streaming=rpc.streams_request,
                server_streaming=rpc.streams_response,
            )
            _set_options(method, rpc.options, _RPC_OPTIONS)
        _set_options(proto, service.options, _SERVICE_OPTIONS)


def _build_enum(proto: _Proto, enum: el.Enum) -> None:
    for reserved in enum.reserved:
        _build_reserved(proto, reserved, 0)
    for constant in enum.constants:
        value = proto.value.add(name=constant.name, number=constant.number)
        _set_options(value, constant.options, _CONSTANT_OPTIONS, "enum_value_meta")
    _set_options(proto, enum.options, _ENUM_OPTIONS, "enum_meta")


def _build_reserved(proto: _Proto, reserved: el.Reserved, excluded: int) -> None:
    for value in reserved.values:
        if isinstance(value, str):
            proto.reserved_name.append(value)
        else:
            first, last = (value, value) if isinstance(value, int) else value
            proto.reserved_range.add(start=first, end=last + excluded)


def _entry_name(field: str) -> str:
    """Return the name of the entry message of a field that is a map."""
    words = field.split("_")
    return ("".join(word[:1].upper() + word[1:].lower() for word in words) if len(words) > 1 else field) + "Entry"


def _set_options(proto: _Proto, options: Sequence[Option], names: Sequence[str], meta: str | None = None) -> None:
    """Set the options that a descriptor keeps; if an option occurs several times, the last one counts."""
    if not options:
        return
    by_name: dict[str, list[Option]] = {}
    for option in map(as_map, options):
        by_name.setdefault(option.name.removeprefix("."), []).append(option)
    for name in names:
        for option in by_name.get(name, []):
            field = proto.options.DESCRIPTOR.fields_by_name[name]
            if isinstance(option.value, dict) and name in _PARTS:
                built = getattr(proto.options, name)
                built = built.add() if field.is_repeated else built
                built.SetInParent()
                for part, value in option.value.items():
                    if part in _PARTS[name]:
                        setattr(built, part, _value(built.DESCRIPTOR.fields_by_name[part], value))
            elif field.is_repeated:
                getattr(proto.options, name).append(_value(field, option.value))
            else:
                setattr(proto.options, name, _value(field, option.value))
    of_confluent = by_name.get(f"confluent.{meta}")
    entries = merged(of_confluent).value if of_confluent else None
    if meta and isinstance(entries, dict):
        _set_meta(proto.options, entries, _extensions()[meta])


def _value(field: FieldDescriptor, value: Value) -> Any:
    """Convert an option's value to the type of a descriptor's field. Raises ValueError, TypeError."""
    text = value.text if isinstance(value, Word) else value
    if not isinstance(text, str):
        raise TypeError(f"{field.name} has no such value")
    if field.enum_type is not None:
        names = field.enum_type.values_by_name
        if text in names:
            return names[text].number
        if field.name == "edition" and f"EDITION_{text}" in names:
            return names[f"EDITION_{text}"].number
        if field.name in _UNKNOWN_IF_ABSENT:
            return 0
        raise ValueError(f"{field.enum_type.full_name} has no {text}")
    if field.cpp_type == field.CPPTYPE_BOOL:
        return text.lower() == "true"
    return text if field.cpp_type == field.CPPTYPE_STRING else int(text)


def _set_meta(options: _Proto, entries: Mapping[str, Value], extension: FieldDescriptor) -> None:
    meta = message_factory.GetMessageClass(extension.message_type)()
    doc = entries.get("doc")
    if isinstance(doc, str):
        meta.doc = doc
    params: dict[str, str] = {}
    for each in _each(entries.get("params")):
        if isinstance(each, dict):
            params[str(each.get("key", ""))] = str(each.get("value", ""))
    for key, value in params.items():
        meta.params.add(key=key, value=value)
    meta.tags.extend(each for each in _each(entries.get("tags")) if isinstance(each, str))
    for each in _each(entries.get("rules")):
        if isinstance(each, dict):
            rule = {name: str(each[name]) for name in ("name", "doc", "expr", "sql") if each.get(name)}
            if rule:
                meta.rules.add(**rule)
    if meta.ByteSize():
        options.Extensions[extension].CopyFrom(meta)


def _each(value: Value | None) -> Iterable[Value]:
    return value if isinstance(value, list) else [] if value is None else [value]
