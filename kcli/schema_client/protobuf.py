"""Protobuf schemas: compiled by protoc, and their messages to JSON and back, as Protobuf maps JSON ("ProtoJSON").

Fields have their names in the schema. Fields without presence are shown even if they are zero or empty. `encode` also
takes names in lowerCamelCase. protoc of grpcio-tools compiles .proto files; protobuf's runtime does the rest. Source:
protobuf.dev, "ProtoJSON Format"; Confluent's wire format for the message's indexes.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from kcli.errors import needing
from kcli.schema_client.codec import BadPayload, BadValue
from kcli.schema_client.errors import SchemaError
from kcli.schema_client.sources import SchemaSource

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FileDescriptor

PROTOC_TIMEOUT_S = 60
MAIN = "payload.proto"

# The files that a schema made by Confluent's serializers imports but does not list as references. They have only the
# fields that are needed, with names and numbers.
CONFLUENT = {
    "confluent/meta.proto": 'syntax = "proto3"; package confluent; import "google/protobuf/descriptor.proto";'
    "message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }"
    + "".join(
        f"extend google.protobuf.{kind}Options {{ Meta {name}_meta = 1088; }}"
        for kind, name in (
            ("File", "file"),
            ("Message", "message"),
            ("Field", "field"),
            ("Enum", "enum"),
            ("EnumValue", "enum_value"),
        )
    ),
    "confluent/type/decimal.proto": 'syntax = "proto3"; package confluent.type;'
    "message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }",
}


def prepare(source: SchemaSource) -> SchemaSource:
    """Return the source with its compiled descriptors, so that workers need no protoc. Raises SchemaError."""
    if source.compiled is not None:
        return source
    return replace(source, compiled=_compile(source), folder=None)


@lru_cache(maxsize=256)
def _compile(source: SchemaSource) -> bytes:
    """Compile a schema and its imports with protoc; return a serialized FileDescriptorSet whose last file is the
    schema.

    Raises SchemaError.
    """
    with TemporaryDirectory(prefix="kcli-proto-") as folder:
        main = _write(folder, MAIN, source.text)
        for name, text in CONFLUENT.items():
            _write(folder, name, text)
        for name, text in source.imports:
            if ".." in PurePosixPath(name).parts or name.startswith("/"):
                raise SchemaError(f"a Protobuf schema imports {name!r}, which is no path within it")
            _write(folder, name, text)
        result = Path(folder, "descriptors")
        # protoc has google/protobuf/*.proto of its own; a schema file's other imports are beside that file
        places = [f"-I{folder}", *([f"-I{source.folder}"] if source.folder else [])]
        command = [sys.executable, "-m", "grpc_tools.protoc", *places, "--include_imports"]
        try:
            ran = subprocess.run(  # noqa: S603 (this interpreter, without a shell)
                [*command, f"--descriptor_set_out={result}", str(main)],
                capture_output=True,
                text=True,
                check=False,
                timeout=PROTOC_TIMEOUT_S,
            )
        except subprocess.TimeoutExpired:
            raise SchemaError("protoc takes too long for a Protobuf schema") from None
        if ran.returncode:
            raise SchemaError(f"not a Protobuf schema: {_complaint(ran.stderr)}")
        return result.read_bytes()


def _write(folder: str, name: str, text: str) -> Path:
    path = Path(folder, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def _complaint(stderr: str) -> str:
    lines = [line for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if "warning" not in line]
    return (errors or lines or ["protoc gives no reason"])[0].removeprefix(f"{MAIN}:")


@lru_cache(maxsize=256)
def _main_file(compiled: bytes) -> FileDescriptor:
    """Return the last file of a FileDescriptorSet. Raises SchemaError."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import DecodeError

    pool = DescriptorPool()
    try:
        files = FileDescriptorSet.FromString(compiled).file
        for file in files:
            pool.Add(file)
        return pool.FindFileByName(files[-1].name)
    except (DecodeError, TypeError, KeyError, IndexError) as error:
        raise SchemaError(f"not a set of Protobuf descriptors: {error}") from error


def message_of(source: SchemaSource, indexes: Sequence[int] = ()) -> Descriptor:
    """Return the descriptor of the payloads' message. indexes: the message indexes, outermost message first; () for
    payloads without a Schema Registry prefix, whose message is the one that the spec names, else the only one of the
    schema. Raises SchemaError."""
    assert source.compiled is not None
    file = _main_file(source.compiled)
    if indexes:
        found: Any = file
        for index in indexes:
            inner = found.message_types_by_name if found is file else found.nested_types_by_name
            # protoc adds an entry message for each map; message indexes do not count these
            messages = [message for message in inner.values() if not message.GetOptions().map_entry]
            if not 0 <= index < len(messages):
                raise SchemaError(f"the schema has no message {index}")
            found = messages[index]
        return found
    if source.message is None:
        if len(file.message_types_by_name) == 1:
            return next(iter(file.message_types_by_name.values()))
        names = ", ".join(file.message_types_by_name) or "none"
        raise SchemaError(f"which message are the payloads? protobuf:FILE#MESSAGE, of: {names}")
    for name in (source.message, f"{file.package}.{source.message}"):
        try:
            return file.pool.FindMessageTypeByName(name)
        except KeyError:
            continue
    names = ", ".join(file.message_types_by_name) or "none"
    raise SchemaError(f"no message {source.message!r} in the Protobuf schema; there are: {names}")


def codec(source: SchemaSource, indexes: tuple[int, ...] = ()) -> ProtobufCodec:
    """Return the codec of a schema's message. indexes: the message indexes; () for the message that the source names,
    else the first one. Raises SchemaError, NotInstalled."""
    with needing("registry"):
        import_module("google.protobuf")
        import_module("grpc_tools")

    prepared = prepare(source)
    return ProtobufCodec(message_of(prepared, indexes or ((0,) if source.message is None else ())))


class ProtobufCodec:
    """The codec of one message type."""

    def __init__(self, message: Descriptor) -> None:
        from google.protobuf.message_factory import GetMessageClass

        self._class: Any = GetMessageClass(message)
        self.message_indexes = index_bytes(_place(message))

    def decode(self, data: bytes) -> Any:
        """Return a message, as Codec.decode. Raises BadPayload."""
        from google.protobuf.json_format import MessageToDict, SerializeToJsonError
        from google.protobuf.message import DecodeError

        try:
            message = self._class.FromString(data)
            return MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
        except DecodeError as error:
            raise BadPayload(str(error) or "not in the encoding of Protobuf") from None
        except (SerializeToJsonError, ValueError, TypeError, RecursionError) as error:
            raise BadPayload(f"no JSON for it: {error}") from None

    def encode(self, value: Any) -> bytes:
        """Return the encoding of a message, as Codec.encode. Raises BadValue."""
        from google.protobuf.json_format import ParseDict, ParseError
        from google.protobuf.message import EncodeError

        if not isinstance(value, dict):
            raise BadValue(f"$: {self._class.DESCRIPTOR.full_name} is an object")
        try:
            encoded: bytes = ParseDict(value, self._class()).SerializeToString(deterministic=True)
        except (ParseError, EncodeError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise BadValue(f"$: {' '.join(str(error).split())[:300]}") from None
        return encoded


def _place(message: Descriptor) -> tuple[int, ...]:
    """Return the message indexes of a message, outermost message first; entries of maps are not counted."""
    found: list[int] = []
    inner: Descriptor | None = message
    while inner is not None:
        outer = inner.containing_type
        beside = outer.nested_types if outer is not None else inner.file.message_types_by_name.values()
        names = [each.name for each in beside if not each.GetOptions().map_entry]
        found.insert(0, names.index(inner.name))
        inner = outer
    return tuple(found)


def index_bytes(indexes: Sequence[int]) -> bytes:
    """Encode message indexes for Confluent's wire format: their number and each of them, zigzag-encoded; one zero byte
    if the message is the first one of the schema."""
    if tuple(indexes) == (0,):
        return b"\0"
    out = bytearray()
    for number in (len(indexes), *indexes):
        rest = number << 1
        while rest > 0x7F:
            out.append(rest & 0x7F | 0x80)
            rest >>= 7
        out.append(rest)
    return bytes(out)
