"""Avro values to JSON and back, as the Avro specification encodes JSON ("JSON Encoding").

    null, boolean, int, long    null, true or false, a number
    float, double               a number; "NaN", "Infinity", "-Infinity", as Avro's Java library writes them
    string, enum                a string
    bytes, fixed                a string, one character U+0000 to U+00FF a byte
    array, map, record          an array, an object, an object
    union                       null, or {NAME OF THE BRANCH: value}
    logical types               the JSON of the type that they annotate

`encode` also accepts a union's value without the name of a branch, and takes the first branch that the value fits. A
field that is left out gets its default.

fastavro parses schemas. This module decodes values itself: for a deeply nested payload fastavro recurses until the
process dies, and from a few bytes it makes any number of nulls. Source: the Avro 1.12 specification.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from math import isfinite, isnan
from typing import Any, TypeAlias

from kcli.errors import needing
from kcli.schema_client.codec import BadPayload, BadValue
from kcli.schema_client.errors import SchemaError
from kcli.schema_client.sources import SchemaSource

ITEMS_SPARE = 10_000
"""How many items of arrays and maps a payload may have beyond one for each of its bytes. More items than bytes are
possible only if items have no bytes, such as nulls."""

JsonSchema: TypeAlias = dict[str, Any] | list[Any] | str
Named: TypeAlias = dict[str, dict[str, Any]]
Read: TypeAlias = "Callable[[_Payload], Any]"
Write: TypeAlias = Callable[[Any, bytearray, str], None]

_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_NOT_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_BITS = {"int": 32, "long": 64}


def parse(source: SchemaSource) -> tuple[JsonSchema, Named]:
    """Parse a schema. Return it with full names, and the named types of the schema and its imports. Raises SchemaError,
    NotInstalled."""
    with needing("registry"):
        from fastavro.schema import SchemaParseException, UnknownType, parse_schema

    named: Named = {}
    try:
        for _, text in source.imports:
            parse_schema(json.loads(text), named)
        return parse_schema(json.loads(source.text), named), named
    except (SchemaParseException, UnknownType) as error:
        raise SchemaError(f"not an Avro schema: {error}") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise SchemaError(f"not an Avro schema: {type(error).__name__}: {error}") from error


def look_up(schema: JsonSchema, named: Named) -> tuple[str, dict[str, Any]]:
    """Return the kind of a parsed schema (such as "record", "array" or "long") and the schema itself as a dict.

    A name is replaced by the named type. The dict is {"members": the union's schemas} for a union, and empty for the
    name of a primitive type.
    """
    while True:
        if isinstance(schema, str):
            if schema in PRIMITIVE:
                return schema, {}
            schema = named[schema]
        if isinstance(schema, list):
            return "union", {"members": schema}
        kind = schema["type"]
        if isinstance(kind, str):
            return ("record" if kind == "error" else kind), schema
        schema = kind


PRIMITIVE = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


def codec(source: SchemaSource, indexes: tuple[int, ...] = ()) -> AvroCodec:  # noqa: ARG001 (one signature for all)
    """Return the codec of a schema. indexes: not used. Raises SchemaError, NotInstalled."""
    return AvroCodec(*parse(source))


class AvroCodec:
    """The codec of one Avro schema."""

    message_indexes = b""

    def __init__(self, schema: JsonSchema, named: Named) -> None:
        """schema: as `parse` returns it. Raises SchemaError if it is nested too deep."""
        try:
            self._read = _Readers(named).of(schema)
            self._write = _Writers(named).of(schema)
        except RecursionError:
            raise SchemaError("an Avro schema that is nested too deep") from None

    def decode(self, data: bytes) -> Any:
        """Return a value, as Codec.decode. Raises BadPayload."""
        payload = _Payload(data)
        try:
            value = self._read(payload)
        except (IndexError, struct.error):
            raise BadPayload("the payload ends inside a value") from None
        except RecursionError:
            raise BadPayload("the value is nested too deep") from None
        except UnicodeDecodeError:
            raise BadPayload("a string is not UTF-8") from None
        if payload.at != len(data):
            raise BadPayload(f"{len(data) - payload.at:,} bytes follow the value")
        return value

    def encode(self, value: Any) -> bytes:
        """Return the encoding of a value, as Codec.encode. Raises BadValue."""
        out = bytearray()
        try:
            self._write(value, out, "$")
        except RecursionError:
            raise BadValue("$: the value is nested too deep") from None
        return bytes(out)


class _Payload:
    """A payload, and the position up to which it was read. at: the next byte. items: how many items of arrays and maps
    were read."""

    __slots__ = ("at", "data", "items")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = self.items = 0

    def number(self) -> int:
        """Read a variable-length, zigzag-encoded integer of up to 64 bits."""
        data, at = self.data, self.at
        byte = data[at]
        value, shift = byte & 0x7F, 7
        while byte & 0x80:
            at += 1
            byte = data[at]
            value |= (byte & 0x7F) << shift
            shift += 7
            if shift > 70:
                raise BadPayload("an integer has more than 10 bytes")
        self.at = at + 1
        return value >> 1 ^ -(value & 1)

    def take(self, size: int) -> bytes:
        """Read `size` bytes."""
        at = self.at
        if not 0 <= size <= len(self.data) - at:
            raise BadPayload("a length is negative" if size < 0 else "the payload ends inside a value")
        self.at = at + size
        return self.data[at : self.at]

    def block(self) -> int:
        """Read the number of items in the next block of an array or a map; 0 ends the array or map."""
        count = self.number()
        if count < 0:
            count = -count
            self.number()  # the size of the block in bytes, for readers that skip it
        self.items += count
        if self.items > len(self.data) + ITEMS_SPARE:
            raise BadPayload(f"{self.items:,} items of arrays and maps in {len(self.data):,} bytes")
        return count


def _number_of(value: float) -> float | str:
    if isfinite(value):
        return value
    return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _read_null(_: _Payload) -> None:
    return None


def _read_boolean(payload: _Payload) -> bool:
    byte = payload.take(1)[0]
    if byte > 1:
        raise BadPayload(f"a boolean is {byte}")
    return byte == 1


def _read_float(payload: _Payload) -> float | str:
    return _number_of(_FLOAT.unpack(payload.take(4))[0])


def _read_double(payload: _Payload) -> float | str:
    return _number_of(_DOUBLE.unpack(payload.take(8))[0])


def _read_bytes(payload: _Payload) -> str:
    return payload.take(payload.number()).decode("latin-1")


def _read_string(payload: _Payload) -> str:
    return payload.take(payload.number()).decode()


_READ: dict[str, Read] = {
    "null": _read_null,
    "boolean": _read_boolean,
    "int": _Payload.number,
    "long": _Payload.number,
    "float": _read_float,
    "double": _read_double,
    "bytes": _read_bytes,
    "string": _read_string,
}


class _Readers:
    """Makes the functions that read values of schemas. The functions of records are kept by name, as a record may
    contain itself."""

    def __init__(self, named: Named) -> None:
        self._named = named
        self._records: dict[str, Read] = {}

    def of(self, schema: JsonSchema) -> Read:
        kind, parts = look_up(schema, self._named)
        if kind in _READ:
            return _READ[kind]
        made: Read = getattr(self, f"_{kind}")(parts)
        return made

    def _fixed(self, parts: dict[str, Any]) -> Read:
        size = parts["size"]
        return lambda payload: payload.take(size).decode("latin-1")

    def _enum(self, parts: dict[str, Any]) -> Read:
        symbols = parts["symbols"]

        def read(payload: _Payload) -> Any:
            return _chosen(symbols, payload.number(), "symbol of an enum")

        return read

    def _array(self, parts: dict[str, Any]) -> Read:
        item = self.of(parts["items"])

        def read(payload: _Payload) -> list[Any]:
            found: list[Any] = []
            while count := payload.block():
                found += [item(payload) for _ in range(count)]
            return found

        return read

    def _map(self, parts: dict[str, Any]) -> Read:
        value = self.of(parts["values"])

        def read(payload: _Payload) -> dict[str, Any]:
            found: dict[str, Any] = {}
            while count := payload.block():
                for _ in range(count):
                    key = _read_string(payload)
                    found[key] = value(payload)
            return found

        return read

    def _union(self, parts: dict[str, Any]) -> Read:
        branches = [(name, self.of(branch)) for name, branch in _branches(parts["members"], self._named)]

        def read(payload: _Payload) -> Any:
            name, branch = _chosen(branches, payload.number(), "branch of a union")
            value = branch(payload)
            return None if name == "null" else {name: value}

        return read

    def _record(self, parts: dict[str, Any]) -> Read:
        name = parts["name"]
        if name not in self._records:
            fields: list[tuple[str, Read]] = []
            self._records[name] = lambda payload: {field: read(payload) for field, read in fields}
            fields += [(field["name"], self.of(field["type"])) for field in parts["fields"]]
        return self._records[name]


def _chosen(choices: list[Any], number: int, what: str) -> Any:
    if not 0 <= number < len(choices):
        raise BadPayload(f"there is no {what} {number}: there are {len(choices)}")
    return choices[number]


def _branches(members: list[Any], named: Named) -> list[tuple[str, JsonSchema]]:
    """Return name and schema of a union's branches. A named type's name is its full name."""
    found = []
    for member in members:
        kind, parts = look_up(member, named)
        found.append((parts["name"] if kind in {"record", "enum", "fixed"} else kind, member))
    return found


def _put_number(value: int, out: bytearray) -> None:
    rest = value << 1 ^ value >> 63
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)


def _refuse(value: Any, path: str, wanted: str) -> BadValue:
    shown = json.dumps(value, ensure_ascii=False)
    return BadValue(f"{path}: {shown if len(shown) <= 40 else shown[:40] + '...'} is no {wanted}")


class _Writers:
    """Makes the functions that write values of schemas. The functions of records are kept by name."""

    def __init__(self, named: Named) -> None:
        self._named = named
        self._records: dict[str, Write] = {}

    def of(self, schema: JsonSchema) -> Write:
        kind, parts = look_up(schema, self._named)
        if kind in _BITS:
            return _integer(kind)
        if kind in _WRITE:
            return _WRITE[kind]
        made: Write = getattr(self, f"_{kind}")(parts)
        return made

    def _fixed(self, parts: dict[str, Any]) -> Write:
        size = parts["size"]

        def write(value: Any, out: bytearray, path: str) -> None:
            data = _latin(value, path)
            if len(data) != size:
                raise _refuse(value, path, f"fixed of {size:,} bytes")
            out += data

        return write

    def _enum(self, parts: dict[str, Any]) -> Write:
        symbols = {symbol: number for number, symbol in enumerate(parts["symbols"])}

        def write(value: Any, out: bytearray, path: str) -> None:
            if not isinstance(value, str) or value not in symbols:
                raise _refuse(value, path, f"symbol of {parts['name']}")
            _put_number(symbols[value], out)

        return write

    def _array(self, parts: dict[str, Any]) -> Write:
        item = self.of(parts["items"])

        def write(value: Any, out: bytearray, path: str) -> None:
            if not isinstance(value, list):
                raise _refuse(value, path, "array")
            if value:
                _put_number(len(value), out)
                for i, each in enumerate(value):
                    item(each, out, f"{path}[{i}]")
            out.append(0)

        return write

    def _map(self, parts: dict[str, Any]) -> Write:
        write_value = self.of(parts["values"])

        def write(value: Any, out: bytearray, path: str) -> None:
            if not isinstance(value, dict):
                raise _refuse(value, path, "map")
            if value:
                _put_number(len(value), out)
                for key, each in value.items():
                    _write_string(key, out, path)
                    write_value(each, out, f"{path}.{key}")
            out.append(0)

        return write

    def _union(self, parts: dict[str, Any]) -> Write:
        branches = [(name, self.of(branch)) for name, branch in _branches(parts["members"], self._named)]
        numbers = {name: number for number, (name, _) in enumerate(branches)}

        def write(value: Any, out: bytearray, path: str) -> None:
            inner: BadValue | None = None
            if isinstance(value, dict) and len(value) == 1:
                name, content = next(iter(value.items()))
                if name in numbers and name != "null":
                    try:
                        _write_branch(numbers[name], branches[numbers[name]][1], content, out, f"{path}.{name}")
                    except BadValue as error:
                        inner = error
                    else:
                        return
            for number, (name, branch) in enumerate(branches):
                try:
                    _write_branch(number, branch, value, out, path)
                except BadValue as error:
                    if inner is None and isinstance(value, dict) and name not in PRIMITIVE:
                        inner = error
                else:
                    return
            raise inner or _refuse(value, path, f"union of {', '.join(name for name, _ in branches)}")

        return write

    def _record(self, parts: dict[str, Any]) -> Write:
        name = parts["name"]
        if name not in self._records:
            fields: list[tuple[str, Write, bool, Any]] = []
            known = {field["name"] for field in parts["fields"]}

            def write(value: Any, out: bytearray, path: str) -> None:
                if not isinstance(value, dict):
                    raise _refuse(value, path, f"record {name}")
                if unknown := value.keys() - known:
                    raise BadValue(f"{path}: {name} has no field {min(unknown)!r}")
                for field, write_field, has_default, default in fields:
                    if field not in value and not has_default:
                        raise BadValue(f"{path}: the field {field!r} is missing, and has no default")
                    write_field(value.get(field, default), out, f"{path}.{field}")

            self._records[name] = write
            fields += [
                (each["name"], self.of(each["type"]), "default" in each, each.get("default"))
                for each in parts["fields"]
            ]
        return self._records[name]


def _write_branch(number: int, branch: Write, value: Any, out: bytearray, path: str) -> None:
    """Write a value as a branch of a union. Raises BadValue if it does not fit the branch; nothing is written then."""
    start = len(out)
    _put_number(number, out)
    try:
        branch(value, out, path)
    except BadValue:
        del out[start:]
        raise


def _write_null(value: Any, _: bytearray, path: str) -> None:
    if value is not None:
        raise _refuse(value, path, "null")


def _write_boolean(value: Any, out: bytearray, path: str) -> None:
    if not isinstance(value, bool):
        raise _refuse(value, path, "boolean")
    out.append(value)


def _integer(kind: str) -> Write:
    top = 1 << _BITS[kind] - 1

    def write(value: Any, out: bytearray, path: str) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or not -top <= value < top:
            raise _refuse(value, path, kind)
        _put_number(value, out)

    return write


def _float(value: Any, path: str, kind: str) -> float:
    if isinstance(value, str) and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _refuse(value, path, kind)
    try:
        return float(value)
    except OverflowError:
        raise _refuse(value, path, kind) from None


def _write_float(value: Any, out: bytearray, path: str) -> None:
    number = _float(value, path, "float")
    try:
        out += _FLOAT.pack(number)
    except OverflowError:
        raise _refuse(value, path, "float") from None


def _write_double(value: Any, out: bytearray, path: str) -> None:
    out += _DOUBLE.pack(_float(value, path, "double"))


def _latin(value: Any, path: str) -> bytes:
    try:
        if isinstance(value, str):
            return value.encode("latin-1")
    except UnicodeEncodeError:
        pass
    raise _refuse(value, path, "text of bytes, U+0000 to U+00FF")


def _write_bytes(value: Any, out: bytearray, path: str) -> None:
    data = _latin(value, path)
    _put_number(len(data), out)
    out += data


def _write_string(value: Any, out: bytearray, path: str) -> None:
    if not isinstance(value, str):
        raise _refuse(value, path, "string")
    try:
        data = value.encode()
    except UnicodeEncodeError:
        raise _refuse(value, path, "string: half of a surrogate pair") from None
    _put_number(len(data), out)
    out += data


_WRITE: dict[str, Write] = {
    "null": _write_null,
    "boolean": _write_boolean,
    "float": _write_float,
    "double": _write_double,
    "bytes": _write_bytes,
    "string": _write_string,
}
