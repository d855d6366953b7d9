"""The plug-ins that kcli has, by the class names of Kafka's."""

from __future__ import annotations

from collections.abc import Iterable

from kcli.connect.converters.plugins import CONVERTERS, HEADER_CONVERTERS
from kcli.connect.plugins import KAFKA_VERSION, Plugin, Plugins, PluginType
from kcli.connect.transforms.plugins import PREDICATES, TRANSFORMS

_JDBC = "kcli.connect.connectors.jdbc"
_FILE = "kcli.connect.connectors.file"
_MIRROR = "kcli.connect.connectors.mirror"
_POSTGRES = "kcli.connect.connectors.postgres"
_MIRRORS = "org.apache.kafka.connect.mirror"
_SEARCH = "kcli.connect.connectors.opensearch.sink"
_CONNECTORS = (
    ("io.aiven.connect.jdbc.JdbcSinkConnector", PluginType.SINK, f"{_JDBC}.sink:JdbcSink"),
    ("io.aiven.connect.jdbc.JdbcSourceConnector", PluginType.SOURCE, f"{_JDBC}.source:JdbcSource"),
    ("io.aiven.connect.opensearch.OpensearchSinkConnector", PluginType.SINK, f"{_SEARCH}:OpensearchSink"),
    ("io.aiven.kafka.connect.opensearch.OpensearchSinkConnector", PluginType.SINK, f"{_SEARCH}:OpensearchSink"),
    (
        "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector",
        PluginType.SINK,
        f"{_SEARCH}:ElasticsearchSink",
    ),
    ("io.confluent.connect.jdbc.JdbcSinkConnector", PluginType.SINK, f"{_JDBC}.sink:JdbcSink"),
    ("io.confluent.connect.jdbc.JdbcSourceConnector", PluginType.SOURCE, f"{_JDBC}.source:JdbcSource"),
    ("io.confluent.connect.s3.S3SinkConnector", PluginType.SINK, "kcli.connect.connectors.s3.sink:S3Sink"),
    ("io.debezium.connector.postgresql.PostgresConnector", PluginType.SOURCE, f"{_POSTGRES}.source:PostgresSource"),
    ("org.apache.kafka.connect.file.FileStreamSinkConnector", PluginType.SINK, f"{_FILE}:FileStreamSink"),
    ("org.apache.kafka.connect.file.FileStreamSourceConnector", PluginType.SOURCE, f"{_FILE}:FileStreamSource"),
    (
        "org.apache.iceberg.connect.IcebergSinkConnector",
        PluginType.SINK,
        "kcli.connect.connectors.iceberg.sink:IcebergSink",
    ),
    (f"{_MIRRORS}.MirrorCheckpointConnector", PluginType.SOURCE, f"{_MIRROR}.checkpoint:MirrorCheckpoint"),
    (f"{_MIRRORS}.MirrorHeartbeatConnector", PluginType.SOURCE, f"{_MIRROR}.heartbeat:MirrorHeartbeat"),
    (f"{_MIRRORS}.MirrorSourceConnector", PluginType.SOURCE, f"{_MIRROR}.source:MirrorSource"),
)


def built_in(more: Iterable[Plugin] = ()) -> Plugins:
    """Return kcli's plug-ins, and those of the user."""
    connectors = [Plugin(name, kind, KAFKA_VERSION, where) for name, kind, where in _CONNECTORS]
    return Plugins([*connectors, *records(), *more])


def records() -> list[Plugin]:
    """Return the plug-ins that change records: converters, transforms and predicates."""
    return [plugin for each in (CONVERTERS, HEADER_CONVERTERS, TRANSFORMS, PREDICATES) for plugin in each.values()]
