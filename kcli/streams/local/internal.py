"""Internal topics are made before the first record is read, or the application does not begin."""

from __future__ import annotations

from dataclasses import replace

from kcli.client.admin import Admin
from kcli.client.connection import Connection
from kcli.errors import KcliError
from kcli.streams.config import DEAD_LETTER_TOPIC, StreamsConfig
from kcli.streams.errors import StreamsError
from kcli.streams.local.checks import check, ids_of
from kcli.streams.local.plan import Plan, plan
from kcli.streams.topology.topology import Topology


def set_up(connection: Connection, topology: Topology, application_id: str, config: StreamsConfig) -> Plan:
    """Make the internal topics that are missing; return the application's plan. Raises TopologyError, StreamsError for
    topics that the program cannot work with, and KcliError."""
    existing = partition_counts(connection)
    if config.dead_letter_topic is not None and config.dead_letter_topic not in existing:
        raise StreamsError(f"{DEAD_LETTER_TOPIC}: there is no topic {config.dead_letter_topic}")
    made = plan(topology, application_id, existing)
    check(connection, application_id, made, existing)
    missing = [topic for topic in made.internal_topics if topic.name not in existing]
    admin = Admin(connection)
    for topic in missing:
        for result in admin.create(
            [topic.name],
            partitions=topic.partitions,
            replication_factor=None,
            assignment=None,
            configs=topic.configs,
            validate_only=False,
            if_not_exists=True,
        ):
            if isinstance(result, KcliError):
                raise result
    changelogs = [topic for part in made.sub_topologies for topic in part.changelogs.values()]
    return replace(made, changelog_ids=ids_of(connection, changelogs))


def partition_counts(connection: Connection) -> dict[str, int]:
    """Return the number of partitions of each topic. Raises Unreachable, Refused."""
    found = connection.metadata(connection.admin()).topics.values()
    return {str(topic.topic): len(topic.partitions) for topic in found if topic.error is None}
