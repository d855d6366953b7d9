"""Records of sources and sinks.

Source: org.apache.kafka.connect.connector.ConnectRecord, SourceRecord, SinkRecord, ConnectHeaders.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from kcli.connect.data.errors import DataError
from kcli.connect.data.schema import Schema
from kcli.connect.data.texts import java_text


class SchemaAndValue(NamedTuple):
    """A value and its schema; both are None for what is missing."""

    schema: Schema | None
    value: Any


class Header(NamedTuple):
    """A header of a record."""

    key: str
    value: Any
    schema: Schema | None = None


def checked_header(key: str, value: Any, schema: Schema | None) -> Header:
    """Return a header. Raises DataError if the value is missing though its schema requires it."""
    if value is None and schema is not None and not schema.optional:
        raise DataError(f"A null value requires an optional schema but was {schema!r}")
    return Header(key, value, schema)


@dataclass(kw_only=True)
class ConnectRecord:
    """A record between a connector and Kafka. A record is not changed; `changed` makes another one.

    topic: None if a transform has to choose it. timestamp: milliseconds since 1970.
    """

    topic: str | None = None
    partition: int | None = None
    key_schema: Schema | None = None
    key: Any = None
    value_schema: Schema | None = None
    value: Any = None
    timestamp: int | None = None
    headers: tuple[Header, ...] = ()

    def changed(self, **changes: Any) -> Self:
        """Return the record with other values of these fields."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, **changes)
        return made

    def __str__(self) -> str:
        headers = ", ".join(
            f"ConnectHeader(key={each.key}, value={java_text(each.value, each.schema)}, schema={_schema(each.schema)})"
            for each in self.headers
        )
        return (
            f"ConnectRecord{{topic='{_text(self.topic)}', kafkaPartition={_text(self.partition)}, "
            f"key={java_text(self.key, self.key_schema)}, keySchema={_schema(self.key_schema)}, "
            f"value={java_text(self.value, self.value_schema)}, valueSchema={_schema(self.value_schema)}, "
            f"timestamp={_text(self.timestamp)}, headers=ConnectHeaders(headers={headers and f'[{headers}]'})}}"
        )


@dataclass(kw_only=True)
class SourceRecord(ConnectRecord):
    """A record of a source. source_partition, source_offset: the place in the source from which to go on after it."""

    source_partition: Mapping[str, Any] | None = None
    source_offset: Mapping[str, Any] | None = None

    def __str__(self) -> str:
        return (
            f"SourceRecord{{sourcePartition={java_text(self.source_partition)}, "
            f"sourceOffset={java_text(self.source_offset)}}} {ConnectRecord.__str__(self)}"
        )


@dataclass(kw_only=True)
class SinkRecord(ConnectRecord):
    """A record for a sink.

    offset: its offset in Kafka. timestamp_type: CreateTime, LogAppendTime or NoTimestampType. original_topic,
    original_partition: where it is in Kafka, whatever transforms make of topic and partition.
    """

    offset: int = 0
    timestamp_type: str = "NoTimestampType"
    original_topic: str | None = None
    original_partition: int | None = None

    def __post_init__(self) -> None:
        if self.original_topic is None:
            self.original_topic, self.original_partition = self.topic, self.partition

    def __str__(self) -> str:
        return (
            f"SinkRecord{{kafkaOffset={self.offset}, timestampType={self.timestamp_type}, "
            f"originalTopic={_text(self.original_topic)}, originalKafkaPartition={_text(self.original_partition)}, "
            f"originalKafkaOffset={self.offset}}} {ConnectRecord.__str__(self)}"
        )


def _schema(schema: Schema | None) -> str:
    return "null" if schema is None else repr(schema)


def _text(value: object) -> str:
    return "null" if value is None else str(value)
