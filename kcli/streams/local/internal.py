"""Internal topics are made before the first record is read, or the application does not begin."""

from __future__ import annotations

from kcli.client.admin import Admin
from kcli.client.connection import Connection
from kcli.client.groups import Groups
from kcli.errors import KcliError
from kcli.streams.config import DEAD_LETTER_TOPIC, StreamsConfig
from kcli.streams.errors import StreamsError
from kcli.streams.local.plan import Plan, plan
from kcli.streams.topology.topology import Topology


def set_up(connection: Connection, topology: Topology, application_id: str, config: StreamsConfig) -> Plan:
    """Make the internal topics that are missing; return the application's plan. Raises TopologyError, StreamsError for
    topics that the program cannot work with, and KcliError."""
    existing = partition_counts(connection)
    if config.dead_letter_topic is not None and config.dead_letter_topic not in existing:
        raise StreamsError(f"{DEAD_LETTER_TOPIC}: there is no topic {config.dead_letter_topic}")
    made = plan(topology, application_id, existing)
    missing = [topic for topic in made.internal_topics if topic.name not in existing]
    if missing:
        _check_not_lost(connection, application_id, made, {topic.name for topic in missing})
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
    return made


def partition_counts(connection: Connection) -> dict[str, int]:
    """Return the number of partitions of each topic. Raises Unreachable, Refused."""
    found = connection.metadata(connection.admin()).topics.values()
    return {str(topic.topic): len(topic.partitions) for topic in found if topic.error is None}


def _check_not_lost(connection: Connection, application_id: str, made: Plan, missing: set[str]) -> None:
    groups = Groups(connection)
    groups.group(application_id)
    begun = {place.topic for place in groups.committed(application_id)}
    for part in made.sub_topologies:
        lost = missing & {*part.changelogs.values(), *part.topics}
        if lost and begun & set(part.topics):
            raise StreamsError(
                f"{application_id} has read {', '.join(sorted(begun & set(part.topics)))}, but its internal topic "
                f"{', '.join(sorted(lost))} is not there: restore the topic, or begin anew with kcli streams reset"
            )
