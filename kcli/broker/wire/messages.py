"""Requests and responses by API key and version, through kio.

kio has one class for each message and version. This module decodes a request into its class, and builds the response
for the version of the request: `Messages.new` leaves out the fields that this version does not have. Each version's
modules are imported when a client first uses that version, as importing all of them takes a second; the modules of the
newest versions are also imported in the background, see dispatch/preload.py.

    request    int32 size, request header (api key int16, version int16, correlation id int32, client id), body
    response   int32 size, response header (correlation id; tagged fields if flexible, except ApiVersions), body

Source: Kafka's protocol guide, RequestHeader.json, ResponseHeader.json; KIP-482 (flexible versions), KIP-511.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import Field, fields, replace
from datetime import UTC, datetime, timedelta
from importlib import import_module
from types import ModuleType
from typing import Any, ClassVar, Final, NamedTuple, Protocol

from kcli.protocol.kio_serial import SerialError, entity_reader, entity_writer

# isort: split
from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType

from formats.errors import FormatError, LimitExceeded
from formats.java_text import java_utf8
from formats.kernels.wire import behind_tags
from kcli.broker.wire.kio_readable import readable
from kcli.broker.wire.produce_request import ProduceRequest
from kcli.broker.wire.produce_request import read as read_produce
from kcli.broker.wire.request_check import ITEMS_MAX, has_unknown_tags

HEADER = struct.Struct(">hhih")  # api key, version, correlation id, length of the client id
PRODUCE, API_VERSIONS = 0, 18
SIZE_BYTES = 4
PRODUCE_ITEMS_AT_ONCE: Final = 1000
"""The greatest number of topics and partitions of a Produce request that the event loop decodes, in a millisecond or
two."""
NO_THROTTLE = timedelta(0)
# a response encoded with this throttle time differs from one with NO_THROTTLE only in the bytes of the throttle time
OTHER_THROTTLE = timedelta(milliseconds=0x01010101)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class BadRequest(FormatError):
    """The bytes are no request that this broker can decode, so that the connection is closed."""


__all__ = [
    "API_VERSIONS",
    "PRODUCE",
    "BadRequest",
    "Message",
    "Messages",
    "RequestHeader",
    "entity_reader",
    "entity_writer",
    "imported",
    "messages",
    "read_body",
    "read_header",
    "read_request",
]


STRING_BYTES_MAX: Final = (1 << 15) - 1
"""The longest string of the protocol, in bytes."""
SHORT_MESSAGE: Final = STRING_BYTES_MAX // 4
"""The greatest number of characters of an error message that surely has at most STRING_BYTES_MAX bytes."""


class Message(Protocol):
    """A request, a response or a struct within one, of any API and version: the type for code that serves every API.
    The stubs in kcli/broker/wire/types have the messages of each API."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


class RequestHeader(NamedTuple):
    """The header of a request. position: the position in the frame at which the client id ends."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str
    position: int


class Messages:
    """The classes of kio for one API key and version, with the function that decodes the request and the function that
    encodes the response."""

    def __init__(self, api_key: int, version: int) -> None:
        self.api_key, self.version = api_key, version
        self._versions = schema_name_map[api_key_map[api_key]]
        request_module, request_name = self._versions[version][EntityType.request].split(":")
        response_module, response_name = self._versions[version][EntityType.response].split(":")
        self.request_type = getattr(import_module(request_module), request_name)
        self._module: ModuleType = import_module(response_module)
        self.response_name = response_name
        self.response_type = getattr(self._module, response_name)
        self.flexible: bool = self.request_type.__flexible__
        self.header_is_flexible = self.flexible and api_key != API_VERSIONS
        self.read = entity_reader(self.request_type)
        self._write = entity_writer(self.response_type)
        # class name -> the class (None if this version does not have it), its field names, and those names of other
        # versions' fields that `new` was called with
        self._classes: dict[str, tuple[type | None, frozenset[str], set[str]]] = {}

    def new(self, name: str, values: dict[str, Any]) -> Any:
        """Return an object of the class `name`, which is the response or a struct in it, made of those values for which
        this version has a field.

        Returns None if this version has no such class: the response has no field for the object either. Raises
        TypeError for a class or a field that no version has.
        """
        known = self._classes.get(name)
        if known is None:
            cls = getattr(self._module, name, None)
            if cls is None:
                self._check_other_versions(name, values.keys())
            known = self._classes[name] = cls, _field_names(cls), set()
        cls, names, lacking = known
        if not values.keys() <= names:
            unknown = values.keys() - names
            if not unknown <= lacking:
                self._check_other_versions(name, unknown)
                lacking |= unknown
            values = {key: value for key, value in values.items() if key in names}
        if cls is None:
            return None
        message = values.get("error_message")
        if message is not None and len(message) > SHORT_MESSAGE:
            values["error_message"] = cut_message(message)
        if "throttle_time" in names and "throttle_time" not in values:
            values["throttle_time"] = NO_THROTTLE
        return cls(**values)

    def _check_other_versions(self, name: str, required: Iterable[str]) -> None:
        """Raise TypeError unless at least one version has the response's class `name`, and each field in `required` is
        in at least one version.

        The newest version is checked first: it has almost every class and field, so that usually one import is enough.
        """
        left: set[str] | None = None
        for version in sorted(self._versions, reverse=True):
            cls = getattr(import_module(self._versions[version][EntityType.response].split(":")[0]), name, None)
            if cls is not None:
                left = (set(required) if left is None else left) - _field_names(cls)
                if not left:
                    return
        lacks = name if left is None else f"{name}.{', '.join(sorted(left))}"
        raise TypeError(f"{self.response_name}: no version has {lacks}")

    def has(self, name: str, field: str) -> bool:
        """Whether the class `name`, which is the response or a struct in it, exists in this version and has that
        field."""
        return field in _field_names(getattr(self._module, name, None))

    def encode(self, correlation_id: int, response: Message) -> bytes:
        """Return the frame of a response, which begins with its length."""
        buffer = io.BytesIO()
        buffer.write(bytes(4))
        buffer.write(self.response_header(correlation_id))
        self._write(buffer, response)
        frame = buffer.getbuffer()
        struct.pack_into(">i", frame, 0, len(frame) - 4)
        del frame
        return buffer.getvalue()

    def encode_with_throttle_at(self, response: Message) -> tuple[bytes, int | None]:
        """Return the frame of a response with correlation id 0 and throttle time 0, and the position of the throttle
        time in the frame; None in place of the position if the version has no throttle time."""
        frame = self.encode(0, response)
        names = [field.name for field in fields(self.response_type)]
        if "throttle_time" not in names:
            return frame, None
        if names[0] == "throttle_time":
            return frame, SIZE_BYTES + len(self.response_header(0))
        other = self.encode(0, replace(response, throttle_time=OTHER_THROTTLE))
        return frame, next(i for i, (byte, changed) in enumerate(zip(frame, other, strict=True)) if byte != changed)

    def response_header(self, correlation_id: int) -> bytes:
        """Return the header of a response, without the frame's length."""
        header = correlation_id.to_bytes(4, signed=True)
        return header + b"\0" if self.header_is_flexible else header


def cut_message(message: str) -> str:
    """Return an error message, cut to STRING_BYTES_MAX bytes: a message may quote a name from the request, which may
    have that length itself."""
    return message.encode()[:STRING_BYTES_MAX].decode(errors="ignore")


def _field_names(cls: Any) -> frozenset[str]:
    return frozenset() if cls is None else frozenset(field.name for field in fields(cls))


_IMPORTED: dict[tuple[int, int], Messages] = {}


def messages(api_key: int, version: int) -> Messages:
    """Return the classes of an API key and version. They are imported at the first call, which takes milliseconds.
    Raises KeyError if kio has no such key or version."""
    found = _IMPORTED.get((api_key, version))
    if found is None:
        found = _IMPORTED[api_key, version] = Messages(api_key, version)
    return found


def imported(api_key: int, version: int) -> Messages | None:
    """Return the classes of an API key and version, None if `messages` has not imported them yet."""
    return _IMPORTED.get((api_key, version))


def read_header(frame: memoryview) -> RequestHeader:
    """Decode the header of a request, without its tagged fields. Raises BadRequest.

    Like Kafka, which does so for every string, decode a client id that is not UTF-8 with replacement characters.
    """
    if len(frame) < HEADER.size:
        raise BadRequest("a request shorter than its header", len(frame))
    api_key, version, correlation_id, length = HEADER.unpack_from(frame)
    position = HEADER.size + max(length, 0)
    if length < -1 or position > len(frame):
        raise BadRequest(f"a client id of {length:,} bytes", 8)
    client_id = java_utf8(frame[HEADER.size : position])
    return RequestHeader(api_key, version, correlation_id, client_id, position)


def read_body(kind: Messages, frame: memoryview, header: RequestHeader) -> Any:
    """Decode the body of a request, which follows the tagged fields of a flexible header. Raises BadRequest."""
    return read_request(kind, frame, _body_at(kind, frame, header))


def read_short_produce(kind: Messages, frame: memoryview, header: RequestHeader) -> ProduceRequest | None:
    """Decode a Produce request. Return None if it has more than PRODUCE_ITEMS_AT_ONCE topics and partitions: then it
    takes long to decode, whatever the size of its batches. Raises BadRequest."""
    position = _body_at(kind, frame, header)
    with suppress(LimitExceeded):
        return _read_produce(kind, frame, position, PRODUCE_ITEMS_AT_ONCE)
    return None


def _body_at(kind: Messages, frame: memoryview, header: RequestHeader) -> int:
    """Return the position in the frame at which the request's body begins. Raises BadRequest."""
    if not kind.flexible:
        return header.position
    try:
        return behind_tags(frame, header.position)
    except FormatError as error:
        raise BadRequest(f"the tagged fields of the header: {error.reason}", error.position) from error


def _read_produce(kind: Messages, frame: memoryview, position: int, items_max: int) -> ProduceRequest:
    """Decode the body of a Produce request. Raises BadRequest, LimitExceeded."""
    try:
        return read_produce(kind.version, frame, position, items_max)
    except LimitExceeded:
        raise
    except FormatError as error:
        raise _bad(kind, error) from error


def read_request(kind: Messages, frame: memoryview, position: int) -> Any:
    """Decode the body of a request. position: the position in the frame at which the body begins. Raises BadRequest.

    As in Kafka, a boolean is true for every byte but 0, and bytes that are not UTF-8 become replacement characters in a
    string. A duration that is too long for kio is cut to the longest that kio reads.
    """
    try:
        if kind.api_key == PRODUCE:
            return _read_produce(kind, frame, position, ITEMS_MAX)
        if not has_unknown_tags(kind.request_type, frame, position):
            with suppress(SerialError, ValueError, OverflowError):
                return kind.read(frame.toreadonly(), position)[0]
        request, _ = kind.read(readable(kind.request_type, bytes(frame), position), 0)
    except BadRequest:
        raise
    except FormatError as error:
        raise _bad(kind, error) from error
    except (SerialError, ValueError, OverflowError, TypeError) as error:
        raise BadRequest(f"{kind.request_type.__name__} version {kind.version}: {error}", position) from error
    return request


def _bad(kind: Messages, error: FormatError) -> BadRequest:
    return BadRequest(f"{kind.request_type.__name__} version {kind.version}: {error.reason}", error.position)
