"""What sinks have in common: a connector whose tasks share the topics' partitions, and where a record is from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kcli.connect.config.config_def import ConfigValue
from kcli.connect.data.records import SinkRecord
from kcli.connect.plugins import Offset, Partition, PluginType
from kcli.protocol.topic_partition import TopicPartition


class SinkConnector:
    """A sink whose tasks all have the connector's configuration, and whose offsets are its group's alone."""

    TYPE = PluginType.SINK

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties

    @classmethod
    def check(cls, properties: Mapping[str, str | None], values: Mapping[str, ConfigValue]) -> None:
        """By default there are no rules for several options."""

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        """Return the same configuration for each task."""
        return [dict(self._properties)] * tasks_max

    def alter_offsets(self, offsets: Sequence[tuple[Partition, Offset | None]]) -> bool:  # noqa: ARG002 (any will do)
        """Take any offsets: the sink has none of its own."""
        return True


def place_of(record: SinkRecord) -> TopicPartition:
    """Return the partition from which a record was read, whatever transformations have made of its topic."""
    assert record.original_topic is not None, "a record of Kafka"
    assert record.original_partition is not None, "a record of Kafka"
    return TopicPartition(record.original_topic, record.original_partition)
