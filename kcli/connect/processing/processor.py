"""Records to messages and back: a connector's converters and transforms, under its options for errors.

A Failure is a record that is passed over; the engine logs it and sends a sink's message to the dead letter queue, as
the options say. ToleranceExceeded ends the task; its failure is reported all the same.

Source: WorkerSinkTask.convertAndTransformRecord, AbstractWorkerSourceTask.convertTransformedRecord.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from kcli.connect.config.config_def import ConfigError
from kcli.connect.converters.converter import CONVERTER_TYPE, HEADER, KEY, VALUE, Converter, HeaderConverter
from kcli.connect.data.errors import ConnectError
from kcli.connect.data.records import ConnectRecord, Header, SinkRecord, SourceRecord
from kcli.connect.plugins import Plugins, PluginType
from kcli.connect.processing.failures import ErrorHandling, Failure, Message, Stage, Waiting
from kcli.connect.transforms.chain import chain_of

DEFAULTS: Final = {
    KEY: "org.apache.kafka.connect.json.JsonConverter",
    VALUE: "org.apache.kafka.connect.json.JsonConverter",
    HEADER: "org.apache.kafka.connect.storage.SimpleHeaderConverter",
}
"""The converters of a worker that names none."""
NO_TIMESTAMP: Final = -1


class Processor:
    """The way of a connector's records. properties: the connector's, with the worker's converters where it has none of
    its own. Raises ConfigError."""

    def __init__(self, properties: Mapping[str, str], plugins: Plugins, waiting: Waiting) -> None:
        self.handling = ErrorHandling.of(properties)
        self.chain = chain_of(properties, plugins)
        self.key: Converter = _converter(properties, plugins, KEY)
        self.value: Converter = _converter(properties, plugins, VALUE)
        self.header: HeaderConverter = _converter(properties, plugins, HEADER)
        self._waiting = waiting

    def to_sink(self, message: Message) -> SinkRecord | Failure | None:
        """Return the record for a sink of a message; None if a transform drops it. Raises ToleranceExceeded."""
        topic = message.topic
        key = self._run(Stage.KEY_CONVERTER, self.key, partial(self.key.to_connect, topic, message.key))
        if isinstance(key, Failure):
            return key
        value = self._run(Stage.VALUE_CONVERTER, self.value, partial(self.value.to_connect, topic, message.value))
        if isinstance(value, Failure):
            return value
        headers = self._run(Stage.HEADER_CONVERTER, self.header, partial(self._headers, message))
        if isinstance(headers, Failure):
            return headers
        made = self._transformed(
            SinkRecord(
                topic=topic,
                partition=message.partition,
                key_schema=key.schema,
                key=key.value,
                value_schema=value.schema,
                value=value.value,
                timestamp=_checked(message.timestamp),
                headers=headers,
                offset=message.offset,
                timestamp_type=message.timestamp_type,
            )
        )
        assert made is None or isinstance(made, SinkRecord | Failure), "a transform keeps the kind of a record"
        return made

    def as_record(self, message: Message) -> SourceRecord:
        """Return the record of a source that becomes a message if no transform changes it."""
        key, value = (
            self.key.to_connect(message.topic, message.key),
            self.value.to_connect(message.topic, message.value),
        )
        return SourceRecord(
            topic=message.topic,
            partition=message.partition,
            key_schema=key.schema,
            key=key.value,
            value_schema=value.schema,
            value=value.value,
            timestamp=message.timestamp,
            headers=self._headers(message),
        )

    def from_source(self, record: SourceRecord) -> Message | Failure | None:
        """Return the message of a source's record; None if a transform drops it. Raises ToleranceExceeded."""
        made = self._transformed(record)
        if made is None or isinstance(made, Failure):
            return made
        topic = made.topic or ""
        headers = self._run(Stage.HEADER_CONVERTER, self.header, partial(self._header_bytes, made))
        if isinstance(headers, Failure):
            return headers
        key = self._run(Stage.KEY_CONVERTER, self.key, partial(self.key.from_connect, topic, made.key_schema, made.key))
        if isinstance(key, Failure):
            return key
        value = self._run(
            Stage.VALUE_CONVERTER, self.value, partial(self.value.from_connect, topic, made.value_schema, made.value)
        )
        if isinstance(value, Failure):
            return value
        return Message(topic, key, value, made.partition, _checked(made.timestamp), headers)

    def _run(self, stage: Stage, converter: Converter | HeaderConverter, operation: Callable[[], Any]) -> Any:
        return self.handling.run(operation, stage, converter.CLASS, self._waiting)

    def _transformed(self, record: ConnectRecord) -> ConnectRecord | Failure | None:
        made: ConnectRecord | Failure | None = record
        for link in self.chain:
            if made is None or isinstance(made, Failure):
                return made
            made = self.handling.run(partial(link.apply, made), Stage.TRANSFORMATION, link.java_class, self._waiting)
        return made

    def _headers(self, message: Message) -> tuple[Header, ...]:
        made = []
        for key, data in message.headers:
            schema, value = self.header.to_connect_header(message.topic, key, data)
            made.append(Header(key, value, schema))
        return tuple(made)

    def _header_bytes(self, record: ConnectRecord) -> tuple[tuple[str, bytes | None], ...]:
        convert = self.header.from_connect_header
        return tuple(
            (each.key, convert(record.topic or "", each.key, each.schema, each.value)) for each in record.headers
        )


def _checked(timestamp: int | None) -> int | None:
    """Return a timestamp, None for none. Raises ConnectError for one before 1970."""
    if timestamp is None or timestamp >= 0:
        return timestamp
    if timestamp == NO_TIMESTAMP:
        return None
    raise InvalidRecord(f"Invalid record timestamp {timestamp}")


class InvalidRecord(ConnectError):
    """A record that Kafka does not take."""

    java_class = "org.apache.kafka.common.InvalidRecordException"


def _converter(properties: Mapping[str, str], plugins: Plugins, what: str) -> Any:
    option = f"{what}.converter"
    name = properties.get(option) or DEFAULTS[what]
    found = plugins.named(name.strip(), PluginType.HEADER_CONVERTER if what == HEADER else PluginType.CONVERTER)
    if len(found) != 1:
        raise ConfigError.of(option, name, f"Class {name} could not be found.")
    own = {each.removeprefix(f"{option}."): text for each, text in properties.items() if each.startswith(f"{option}.")}
    return found[0].load()({CONVERTER_TYPE: what} | own)
