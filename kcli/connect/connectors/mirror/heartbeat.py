"""MirrorHeartbeatConnector: a record a second to the topic `heartbeats` of the target.

    partition  {"sourceClusterAlias": ALIAS, "targetClusterAlias": ALIAS}
    offset     {"offset": 0}

Source: MirrorHeartbeatConnector, MirrorHeartbeatTask.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, MutableMapping, Sequence

from kcli.connect.config.clients import Client
from kcli.connect.config.config_def import ConfigDef, ConfigValue
from kcli.connect.connectors.mirror.options import (
    CLASSES,
    HEARTBEAT,
    PACKAGE,
    MirrorOptions,
    check_clients,
    check_patterns,
)
from kcli.connect.connectors.mirror.policies import HEARTBEATS
from kcli.connect.connectors.mirror.records import Heartbeat
from kcli.connect.data.errors import ConnectError
from kcli.connect.data.records import SourceRecord
from kcli.connect.data.schema import BYTES
from kcli.connect.engine.clients import create_topic
from kcli.connect.engine.tasks import Rest, SourceContext, SourceTask
from kcli.connect.plugins import KAFKA_VERSION, Offset, Partition, PluginType

SOURCE_ALIAS, TARGET_ALIAS, OFFSET = "sourceClusterAlias", "targetClusterAlias", "offset"
WAIT_S = 1.0
"""How long a poll waits for the time of the next heartbeat; a turn that waits longer ends."""


class MirrorHeartbeat:
    """The connector."""

    CLASS = f"{PACKAGE}.MirrorHeartbeatConnector"
    TASK_CLASS = f"{PACKAGE}.MirrorHeartbeatTask"
    TYPE = PluginType.SOURCE
    VERSION = KAFKA_VERSION
    CLASSES = CLASSES

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties

    @classmethod
    def config(cls) -> ConfigDef:
        """Return the connector's options."""
        return HEARTBEAT

    @classmethod
    def check(cls, properties: Mapping[str, str | None], values: MutableMapping[str, ConfigValue]) -> None:
        """Refuse patterns that are none, and what the clients do not honour."""
        check_patterns(properties, values)
        check_clients(properties, values)

    def monitor(self) -> float | None:
        """Create the topic. Raises KcliError."""
        options = MirrorOptions(self._properties)
        factor = str(options.number("heartbeats.topic.replication.factor", 3))
        settings = {"partitions": "1", "replication.factor": factor, "cleanup.policy": "compact"}
        create_topic(options.cluster("target", Client.ADMIN), HEARTBEATS, settings)
        return None

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:  # noqa: ARG002 (one is enough)
        """Return the configuration of the one task; there is none if heartbeats are off."""
        options = MirrorOptions(self._properties)
        is_on = options.is_on("enabled") and options.is_on("emit.heartbeats.enabled")
        return [dict(self._properties)] if is_on and options.number("emit.heartbeats.interval.seconds", 1) > 0 else []

    def alter_offsets(self, offsets: Sequence[tuple[Partition, Offset | None]]) -> bool:
        """Check offsets that a user has given, which change nothing. Raises ConnectError for those of others."""
        for partition, offset in offsets:
            if offset is not None and (set(partition) != {SOURCE_ALIAS, TARGET_ALIAS} or OFFSET not in offset):
                raise ConnectError(f"{dict(partition)}: {dict(offset)} is no offset of heartbeats")
        return True

    class TASK(SourceTask):
        """Returns a heartbeat when it is time."""

        def start(self, config: Mapping[str, str], context: SourceContext) -> None:  # noqa: ARG002 (each is the next)
            """Begin with a heartbeat at once."""
            options = MirrorOptions(config)
            self._aliases = options.source_alias, options.target_alias
            self._interval_s = options.number("emit.heartbeats.interval.seconds", 1)
            self._next_s = time.time()

        def poll(self) -> Sequence[SourceRecord]:
            """Return a heartbeat when it is time; nothing if that is later than WAIT_S."""
            wait_s = self._next_s - time.time()
            if wait_s > WAIT_S:
                return []
            time.sleep(max(wait_s, 0))
            self._next_s += self._interval_s
            beat = Heartbeat(*self._aliases, time.time_ns() // 1_000_000)
            return [
                SourceRecord(
                    topic=HEARTBEATS,
                    partition=0,
                    key_schema=BYTES,
                    key=beat.key(),
                    value_schema=BYTES,
                    value=beat.value(),
                    timestamp=beat.timestamp_ms,
                    source_partition=dict(zip((SOURCE_ALIAS, TARGET_ALIAS), self._aliases, strict=True)),
                    source_offset={OFFSET: 0},
                )
            ]

        def rest(self) -> Rest:
            """Wait for the time of the next heartbeat."""
            return Rest(until_s=self._next_s)
