"""Keys and values of records to JSON, each by the schema that it was written with.

The registry gets one request for each schema id, even if it does not have the schema. Keys and values that were not
written by a schema may look as if they had an id: after UNKNOWN_MAX unknown ids no further schema is requested.
"""

from __future__ import annotations

import json
import threading
from importlib import import_module
from typing import Any, TypeVar, cast

from kcli.printable import printable_json
from kcli.schema_client.codec import BadPayload, Codec, Language
from kcli.schema_client.decoded import NULL, Decoded
from kcli.schema_client.errors import SchemaError
from kcli.schema_client.sources import RegisteredSchema, Registry, UnknownSchema, source_of
from kcli.schema_client.wire import message_indexes, schema_id

CODECS_MAX = 500
"""The number of codecs that are kept."""
UNKNOWN_MAX = 1000

K = TypeVar("K")
V = TypeVar("V")

_MODULES = {"AVRO": "avro", "PROTOBUF": "protobuf", "JSON": "json_schema"}


class PayloadReader:
    """Decodes keys and values with the schemas of a registry. It may be used by several threads."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._lock = threading.Lock()
        self._schemas: dict[int | str, RegisteredSchema | str] = {}
        self._codecs: dict[tuple[int | str, tuple[int, ...]], Codec | str] = {}
        self._unknown = 0

    def read(self, data: bytes | None, header: bytes | None = None) -> Decoded:
        """Return a key or value as JSON. header: the value of the record's header with the schema's GUID or id; None if
        the bytes begin with the id. Raises RegistryError if the registry does not answer, NotInstalled."""
        if data is None:
            return NULL
        found: int | str | None = None
        try:
            found, at = schema_id(data if header is None else header)
            text = json.dumps(self._value(data, header, found, at), ensure_ascii=False, separators=(",", ":"))
        except BadPayload as error:
            return Decoded(None, found, str(error))
        except RecursionError:
            return Decoded(None, found, "the value is nested too deep")
        return Decoded(printable_json(text), found, None)

    def value(self, data: bytes) -> Any:
        """Return a key or value that begins with its schema's id, as json.loads would. Raises BadPayload, RegistryError
        if the registry does not answer, NotInstalled."""
        found, at = schema_id(data)
        return self._value(data, None, found, at)

    def _value(self, data: bytes, header: bytes | None, found: int | str, at: int) -> Any:
        registered = self._schema(found)
        indexes: tuple[int, ...] = ()
        if registered.language == "PROTOBUF":
            indexes, at = message_indexes(data if header is None else header, at)
        return self._codec(found, registered, indexes).decode(data[at:] if header is None else data)

    def _schema(self, found: int | str) -> RegisteredSchema:
        """Return the schema with this id or GUID. Raises BadPayload if the registry does not have it."""
        with self._lock:
            if found not in self._schemas:
                if self._unknown >= UNKNOWN_MAX:
                    raise BadPayload(
                        f"schema {found}: the registry does not have {UNKNOWN_MAX:,} others: not asked for"
                    )
                try:
                    _keep(self._schemas, found, self._asked(found))
                except UnknownSchema as error:
                    self._unknown += 1
                    _keep(self._schemas, found, str(error))
            registered = self._schemas[found]
        if isinstance(registered, str):
            raise BadPayload(registered)
        return registered

    def _asked(self, found: int | str) -> RegisteredSchema:
        return self._registry.schema(found) if isinstance(found, int) else self._registry.schema_of_guid(found)

    def _codec(self, found: int | str, registered: RegisteredSchema, indexes: tuple[int, ...]) -> Codec:
        """Return the codec of a schema. Raises BadPayload if none can be made."""
        key = found, indexes
        with self._lock:
            if key not in self._codecs:
                try:
                    made: Codec | str = codec_of(self._registry, registered, indexes)
                except SchemaError as error:
                    made = f"schema {found}: {error}"
                _keep(self._codecs, key, made)
            codec = self._codecs[key]
        if isinstance(codec, str):
            raise BadPayload(codec)
        return codec


def _keep(kept: dict[K, V], key: K, value: V) -> None:
    """Add an entry; it replaces the oldest one if there are CODECS_MAX entries."""
    if len(kept) >= CODECS_MAX:
        del kept[next(iter(kept))]
    kept[key] = value


def language_of(name: str) -> Language:
    """Return the module for a registry's schema type. Raises SchemaError."""
    if name not in _MODULES:
        raise SchemaError(f"schema type {name!r} is none of {', '.join(_MODULES)}")
    return cast("Language", import_module(f"kcli.schema_client.{_MODULES[name]}"))


def codec_of(registry: Registry, registered: RegisteredSchema, indexes: tuple[int, ...] = ()) -> Codec:
    """Return the codec of a schema in a registry. indexes: as Language.codec. Raises SchemaError, RegistryError,
    NotInstalled."""
    return language_of(registered.language).codec(source_of(registry, registered), indexes)
