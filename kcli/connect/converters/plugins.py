"""The converters by the names of Kafka's classes."""

from __future__ import annotations

from typing import Final

from kcli.connect.plugins import KAFKA_VERSION, Plugin, PluginType

_ROOM: Final = "kcli.connect.converters"
_NUMBERS: Final = "org.apache.kafka.connect.converters"
_PLACES: Final = {
    f"{_NUMBERS}.BooleanConverter": "plain:BooleanConverter",
    f"{_NUMBERS}.ByteArrayConverter": "plain:ByteArrayConverter",
    f"{_NUMBERS}.DoubleConverter": "plain:DoubleConverter",
    f"{_NUMBERS}.FloatConverter": "plain:FloatConverter",
    f"{_NUMBERS}.IntegerConverter": "plain:IntegerConverter",
    f"{_NUMBERS}.LongConverter": "plain:LongConverter",
    f"{_NUMBERS}.ShortConverter": "plain:ShortConverter",
    "org.apache.kafka.connect.json.JsonConverter": "json:JsonConverter",
    "org.apache.kafka.connect.storage.StringConverter": "strings:StringConverter",
}
_SIMPLE: Final = {"org.apache.kafka.connect.storage.SimpleHeaderConverter": "headers:SimpleHeaderConverter"}


def _plugins(kind: PluginType, places: dict[str, str]) -> dict[str, Plugin]:
    return {name: Plugin(name, kind, KAFKA_VERSION, f"{_ROOM}.{where}") for name, where in places.items()}


_REGISTERED: Final = {
    "io.confluent.connect.avro.AvroConverter": "avro:AvroConverter",
    "io.confluent.connect.json.JsonSchemaConverter": "json_schema:JsonSchemaConverter",
    "io.confluent.connect.protobuf.ProtobufConverter": "protobuf:ProtobufConverter",
}
CONVERTERS: Final = _plugins(PluginType.CONVERTER, _PLACES | _REGISTERED)
"""The converters of keys and values."""
HEADER_CONVERTERS: Final = _plugins(PluginType.HEADER_CONVERTER, _PLACES | _SIMPLE)
"""The converters of headers."""
