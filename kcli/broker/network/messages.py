"""Requests and responses by API key and version, through kio.

kio has one class a message and version. Here a request becomes that class, and an answer is built for the version that
the client speaks: `Call.new` leaves out the fields which that version has not got. Each version's modules are imported
when a client first uses them: all at once they would take a second.

    frame      int32 size, request header (api key int16, version int16, correlation id int32, client id), request
    answer     int32 size, response header (correlation id; tagged fields where flexible, except ApiVersions), response

Source: Kafka's protocol guide, RequestHeader.json, ResponseHeader.json; KIP-482 (flexible versions), KIP-511.
"""

from __future__ import annotations

import gc
import io
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.kio_serial import SerialError, entity_reader, entity_writer

# isort: split
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType

from formats.errors import FormatError
from kcli.broker.network.produce_request import read as read_produce
from kcli.broker.network.request_check import has_unknown_tags
from kcli.broker.network.tagged_fields import without_unknown
from kcli.metadata.result import RECORDS_PER_REQUEST_MAX

if TYPE_CHECKING:
    from kcli.broker.broker import Broker

HEADER = struct.Struct(">hhih")  # api key, version, correlation id, length of the client id
PRODUCE, API_VERSIONS = 0, 18
NO_THROTTLE = timedelta(0)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class BadRequest(FormatError):
    """Bytes that are no request this broker can read: the connection is closed."""


class HangUp(Exception):
    """A handler's answer where the protocol has none but to close the connection."""


__all__ = [
    "API_VERSIONS",
    "PRODUCE",
    "BadRequest",
    "Call",
    "Entity",
    "ErrorCode",
    "HangUp",
    "Messages",
    "RequestHeader",
    "entity_reader",
    "entity_writer",
    "messages",
    "read_header",
    "read_request",
    "with_throttle",
]

Entity = Any  # one of kio's message classes


class RequestHeader(NamedTuple):
    """Who asks, and for what; `position`: where in the frame the request itself begins."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str
    position: int


class Messages:
    """The classes of one API key at one version."""

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
        self._classes: dict[str, tuple[type | None, frozenset[str], set[str]]] = {}  # class, fields, those it lacks

    def new(self, name: str, values: dict[str, Any]) -> Entity:
        """An object of the response's class `name`, of those values that this version has. None where it has no such
        class: what would hold the object has no field for it either.

        Raises TypeError for a class or a field that no version has.
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
        if "throttle_time" in names and "throttle_time" not in values:
            values["throttle_time"] = NO_THROTTLE
        return cls(**values)

    def _check_other_versions(self, name: str, wanted: Iterable[str]) -> None:
        """Raises TypeError unless some version has the response's class `name`, and some version each of those fields.
        The newest version has almost all that there ever was, so that one import answers almost always."""
        left: set[str] | None = None
        for version in sorted(self._versions, reverse=True):
            cls = getattr(import_module(self._versions[version][EntityType.response].split(":")[0]), name, None)
            if cls is not None:
                left = (set(wanted) if left is None else left) - _field_names(cls)
                if not left:
                    return
        lacks = name if left is None else f"{name}.{', '.join(sorted(left))}"
        raise TypeError(f"{self.response_name}: no version has {lacks}")

    def has(self, name: str, field: str) -> bool:
        """Has the response's class `name` that field in this version? Not where there is no such class."""
        return field in _field_names(getattr(self._module, name, None))

    def encode(self, correlation_id: int, response: Entity) -> bytes:
        """The answer's frame."""
        buffer = io.BytesIO()
        buffer.write(bytes(4))
        buffer.write(self.response_header(correlation_id))
        self._write(buffer, response)
        frame = buffer.getbuffer()
        struct.pack_into(">i", frame, 0, len(frame) - 4)
        del frame
        return buffer.getvalue()

    def response_header(self, correlation_id: int) -> bytes:
        """The answer's header, without the size in front of it."""
        header = correlation_id.to_bytes(4, signed=True)
        return header + b"\0" if self.header_is_flexible else header


def _field_names(cls: Any) -> frozenset[str]:
    return frozenset() if cls is None else frozenset(field.name for field in fields(cls))


@cache
def messages(api_key: int, version: int) -> Messages:
    """The classes of an API key and version that kio has. Raises KeyError."""
    found = Messages(api_key, version)
    gc.freeze()  # they stay: no collection is to look at them again and again
    return found


def read_header(frame: memoryview, flexible: Callable[[int, int], bool]) -> RequestHeader:
    """The header of a request. flexible(api key, version): is it of a flexible version? Raises BadRequest."""
    if len(frame) < HEADER.size:
        raise BadRequest("a request shorter than its header", len(frame))
    api_key, version, correlation_id, length = HEADER.unpack_from(frame)
    position = HEADER.size + max(length, 0)
    if length < -1 or position > len(frame):
        raise BadRequest(f"a client id of {length:,} bytes", 8)
    try:
        client_id = str(frame[HEADER.size : position], "utf-8")
    except UnicodeDecodeError:
        raise BadRequest("the client id is not UTF-8", 10) from None
    if flexible(api_key, version):
        has_none = position < len(frame) and not frame[position]
        position = position + 1 if has_none else _skip_tagged_fields(frame, position)
    return RequestHeader(api_key, version, correlation_id, client_id, position)


def _skip_tagged_fields(frame: memoryview, position: int) -> int:
    count, position = _unsigned_varint(frame, position)
    for _ in range(count):
        _, position = _unsigned_varint(frame, position)
        size, position = _unsigned_varint(frame, position)
        position += size
        if position > len(frame):
            raise BadRequest("a tagged field longer than the request", position)
    return position


def _unsigned_varint(frame: memoryview, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 35, 7):
        if position >= len(frame):
            raise BadRequest("the request ends in its header", position)
        byte = frame[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise BadRequest("a varint of more than 5 bytes", position)


def read_request(kind: Messages, frame: memoryview, position: int) -> Entity:
    """The request behind its header. Raises BadRequest."""
    try:
        if kind.api_key == PRODUCE:
            return read_produce(kind.version, frame, position)
        if has_unknown_tags(kind.request_type, frame, position):
            request, _ = kind.read(without_unknown(kind.request_type, bytes(frame), position), 0)
        else:
            request, _ = kind.read(frame.toreadonly(), position)
    except FormatError as error:
        reason = f"{kind.request_type.__name__} version {kind.version}: {error.reason}"
        raise BadRequest(reason, error.position) from error
    except (SerialError, ValueError, OverflowError, TypeError) as error:
        raise BadRequest(f"{kind.request_type.__name__} version {kind.version}: {error}", position) from error
    return request


@dataclass(slots=True)
class Call:
    """One request, as its handler gets it. now_ms: when it was read."""

    broker: Broker
    messages: Messages
    header: RequestHeader
    request: Entity
    now_ms: int
    client_host: str = ""
    listener: str = ""
    throttle_ms: int = 0  # a quota's handler says so
    is_exempt: bool = False  # from quotas: another broker asks
    refusal: str | None = None  # of the long request that this one is a part of
    records_left: int = RECORDS_PER_REQUEST_MAX  # of what a request may write

    @property
    def version(self) -> int:
        """The version that the client speaks."""
        return self.messages.version

    @property
    def client_id(self) -> str:
        """What the client calls itself, "" where it does not."""
        return self.header.client_id

    def get(self, name: str, default: Any) -> Any:
        """A field of the request that older versions have not got."""
        return getattr(self.request, name, default)

    def new(self, name: str, /, **values: Any) -> Entity:
        """An object of the response's class `name`; fields that only other versions have are left out.

        Fields not given take the protocol's default; throttle_time none. Raises TypeError: see Messages.new.
        """
        return self.messages.new(name, values)

    def has(self, name: str, field: str) -> bool:
        """Has the response's class `name` that field in this version?"""
        return self.messages.has(name, field)

    def respond(self, **values: Any) -> Entity:
        """The response itself: `new` of the response's own class."""
        return self.messages.new(self.messages.response_name, values)


def with_throttle(response: Entity, throttle_ms: int) -> Entity:
    """The response, telling the client for how long it is throttled."""
    if not throttle_ms or "throttle_time" not in response.__slots__:
        return response
    return replace(response, throttle_time=timedelta(milliseconds=throttle_ms))
