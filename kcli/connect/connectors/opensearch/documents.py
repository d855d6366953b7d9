"""What becomes of a record: an action of a _bulk request.

    index    the topic in lower case, at most 255 characters, without a first - or _
    id       the key, of an integer type or a string; with key.ignore topic+partition+offset
    version  with the key as id, the record's offset, as an external version: the server refuses an older one, so that
             a record that comes again changes nothing
    JSON     as JsonConverter has it without schemas; with schema.ignore=false decimals are numbers, and maps whose keys
             are no strings arrays of {"key": .., "value": ..}

Source: Confluent's DataConverter and Mapping, Aiven's RecordConverter.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from kcli.connect.connectors.opensearch.options import Settings
from kcli.connect.converters.json import JsonConverter
from kcli.connect.data.builder import array_schema, map_schema, struct_schema
from kcli.connect.data.errors import DataError
from kcli.connect.data.records import SinkRecord
from kcli.connect.data.schema import Schema, Type, remembered
from kcli.connect.data.struct import Struct
from kcli.connect.data.values import LOGICAL_DATE, LOGICAL_DECIMAL, LOGICAL_TIME, LOGICAL_TIMESTAMP, type_of

INDEX_CHARACTERS: Final = 255
RETRY_ON_CONFLICT: Final = 5
IDS: Final = (Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.STRING)
DATES: Final = (LOGICAL_DATE, LOGICAL_TIME, LOGICAL_TIMESTAMP)
MAPPED: Final = {
    Type.INT8: "byte", Type.INT16: "short", Type.INT32: "integer", Type.INT64: "long", Type.FLOAT32: "float",
    Type.FLOAT64: "double", Type.BOOLEAN: "boolean", Type.BYTES: "binary",
}  # fmt: skip
TEXT: Final = {"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 256}}}
Convert = Callable[[Any], Any]


class Action(NamedTuple):
    """A line or two of a _bulk request, and the record that it is for."""

    record: SinkRecord
    lines: bytes


def index_of(topic: str) -> str:
    """Return the name of a topic's index."""
    name = topic.lower()[:INDEX_CHARACTERS]
    if name[:1] in ("-", "_"):
        name = name[1:]
    return name.replace(".", "dot") if name in (".", "..") else name


class Documents:
    """Makes actions of records."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        options = {"schemas.enable": "false", "converter.type": "value"}
        self._plain = JsonConverter(options)
        self._numeric = JsonConverter({**options, "decimal.format": "NUMERIC"})
        self._prepared = remembered(lambda schema: _prepared(schema, is_compact=settings.is_compact), 1000)

    def action(self, record: SinkRecord) -> Action | None:
        """Return the action of a record; None if there is none. Raises DataError."""
        settings = self._settings
        topic = record.topic or ""
        if record.value is None:
            if settings.nulls == "ignore" or (settings.nulls == "delete" and record.key is None):
                return None
            if settings.nulls != "delete":
                raise DataError("the record has no value, and behavior.on.null.values is fail")
        ignores_key = settings.ignores_keys or topic in settings.keyless
        head: dict[str, Any] = {"_index": index_of(topic)}
        place = f"{topic}+{record.partition}+{record.offset}"
        if not ignores_key or settings.ids == "record.key":
            head["_id"] = _id(record)
        elif settings.ids != "none" or settings.is_upsert or record.value is None:
            head["_id"] = place
        if not ignores_key and not (settings.is_upsert and record.value is not None):
            head |= {"version": self._version(record), "version_type": "external"}
        if record.value is None:
            return Action(record, _line({"delete": head}))
        document = self._document(record, ignores_schema=settings.ignores_schemas or topic in settings.schemaless)
        if settings.is_upsert:
            head["retry_on_conflict"] = RETRY_ON_CONFLICT
            return Action(record, _line({"update": head}) + b'{"doc":%b,"doc_as_upsert":true}\n' % document)
        return Action(record, _line({"index": head}) + document + b"\n")

    def mapping(self, record: SinkRecord) -> dict[str, Any] | None:
        """Return the mapping of a record's index; None if the server is to find it. Raises DataError."""
        settings = self._settings
        if settings.ignores_schemas or record.topic in settings.schemaless:
            return None
        if record.value_schema is None:
            raise DataError("Cannot infer mapping without schema: the value has none, and schema.ignore is false")
        return _mapping(record.value_schema, is_compact=settings.is_compact)

    def _document(self, record: SinkRecord, *, ignores_schema: bool) -> bytes:
        schema, value, converter = record.value_schema, record.value, self._plain
        if schema is not None and not ignores_schema:
            schema, convert = self._prepared(schema)
            value, converter = convert(value), self._numeric
        found = converter.from_connect(record.topic or "", schema, value)
        assert found is not None, "the record has a value"
        return found

    def _version(self, record: SinkRecord) -> int:
        name = self._settings.version_header
        if not name:
            return record.offset
        found = [each.value for each in record.headers if each.key == name]
        try:
            return int(found[-1])
        except (IndexError, TypeError, ValueError):
            raise DataError(f"the header {name} is no version: {found[-1:] or 'there is none'}") from None


def _line(action: Mapping[str, Any]) -> bytes:
    return json.dumps(action, separators=(",", ":")).encode() + b"\n"


def _id(record: SinkRecord) -> str:
    if record.key is None:
        raise DataError("Key is used as document id and can not be null.")
    kind = type_of(record.key) if record.key_schema is None else record.key_schema.type
    if kind not in IDS:
        raise DataError(f"{kind.name if kind else type(record.key)} is not supported as the document id.")
    text = str(record.key)
    if not text:
        raise DataError("Key is used as document id and can not be empty.")
    return text


def _prepared(schema: Schema, *, is_compact: bool) -> tuple[Schema, Convert]:
    """Return the schema in which maps that are no objects are arrays of entries, and what makes its values."""
    match schema.type:
        case Type.STRUCT:
            parts = [(each.name, *_prepared(each.schema, is_compact=is_compact)) for each in schema.fields]
            made = struct_schema([(name, own) for name, own, _ in parts], name=schema.name, optional=schema.optional)
            return made, lambda value: None if value is None else _struct(made, value, parts)
        case Type.ARRAY:
            items, convert = _prepared(_known(schema.value_schema), is_compact=is_compact)
            made = array_schema(items, optional=schema.optional)
            return made, lambda value: None if value is None else [convert(each) for each in value]
        case Type.MAP:
            keys, of_keys = _prepared(_known(schema.key_schema), is_compact=is_compact)
            values, of_values = _prepared(_known(schema.value_schema), is_compact=is_compact)
            if is_compact and keys.type is Type.STRING:
                made = map_schema(keys, values, optional=schema.optional)
                return made, lambda value: value and {of_keys(key): of_values(each) for key, each in value.items()}
            entry = struct_schema([("key", keys), ("value", values)])
            made = array_schema(entry, optional=schema.optional)
            return (
                made,
                lambda value: (
                    None
                    if value is None
                    else [
                        Struct(entry).put("key", of_keys(key)).put("value", of_values(each))
                        for key, each in value.items()
                    ]
                ),
            )
    return schema, lambda value: value


def _struct(schema: Schema, value: Struct, parts: list[tuple[str, Schema, Convert]]) -> Struct:
    made = Struct(schema)
    for name, _, convert in parts:
        made.put(name, convert(value.get(name)))
    return made


def _mapping(schema: Schema, *, is_compact: bool) -> dict[str, Any]:
    if schema.name in DATES:
        return {"type": "date"}
    if schema.name == LOGICAL_DECIMAL:
        return {"type": "double"}
    match schema.type:
        case Type.STRING:
            return dict(TEXT)
        case Type.ARRAY:
            return _mapping(_known(schema.value_schema), is_compact=is_compact)
        case Type.STRUCT:
            return {"properties": {each.name: _mapping(each.schema, is_compact=is_compact) for each in schema.fields}}
        case Type.MAP:
            keys, values = _known(schema.key_schema), _known(schema.value_schema)
            if is_compact and keys.type is Type.STRING:
                return {"type": "object"}
            parts = {"key": keys, "value": values}
            return {"properties": {name: _mapping(each, is_compact=is_compact) for name, each in parts.items()}}
    return {"type": MAPPED[schema.type]}


def _known(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("an array or a map without a schema for its elements")
    return schema
