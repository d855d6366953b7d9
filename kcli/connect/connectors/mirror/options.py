"""The options of the three connectors, and the clusters that they name."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import Final

from kcli.connect.config import common, validators
from kcli.connect.config.client_security import TLS_AND_SASL
from kcli.connect.config.clients import Client, is_connecting, refusal
from kcli.connect.config.config_def import (
    REQUIRED,
    ConfigDef,
    ConfigError,
    ConfigKey,
    ConfigValue,
    Importance,
    Type,
    Validator,
    Value,
)
from kcli.connect.connectors.mirror.policies import DEFAULT, POLICIES, Filter, ReplicationPolicy, any_of, policy_of
from kcli.connect.engine.clients import cluster_of
from kcli.java.linear_regex import PatternError
from kcli.pipelines.cluster import Cluster

HIGH, MEDIUM, LOW = Importance
PACKAGE: Final = "org.apache.kafka.connect.mirror"
CLUSTERS: Final = ("source", "target")
OVERRIDE: Final = ".override."
"""What the properties of the clients of all connectors have in their names."""
FORWARDING_ADMIN: Final = "org.apache.kafka.clients.admin.ForwardingAdmin"
REPORTER: Final = "org.apache.kafka.common.metrics.JmxReporter"
CLASSES: Final = frozenset(
    {
        *POLICIES,
        *(f"{PACKAGE}.Default{each}" for each in ("TopicFilter", "GroupFilter", "ConfigPropertyFilter")),
        FORWARDING_ADMIN,
        *(str(each.default) for each in TLS_AND_SASL if each.type is Type.CLASS and each.default),
    }
)
"""The classes, besides plug-ins, that options may name."""
TOPICS_EXCLUDE: Final = "mm2.*\\.internal, .*\\.replica, __.*"
GROUPS_EXCLUDE: Final = "console-consumer-.*, connect-.*, __.*"
PATTERNS: Final = ("topics", "topics.exclude", "groups", "groups.exclude", "config.properties.exclude")
CONFIGS_EXCLUDE: Final = (
    "follower.replication.throttled.replicas, leader.replication.throttled.replicas, "
    "message.timestamp.difference.max.ms, log.message.timestamp.before.max.ms, log.message.timestamp.after.max.ms, "
    "message.timestamp.type, unclean.leader.election.enable, min.insync.replicas"
)


def _key(
    name: str,
    kind: Type,
    default: object,
    documentation: str,
    importance: Importance = LOW,
    validator: Validator | None = None,
) -> ConfigKey:
    return ConfigKey(name, kind, default, importance, documentation, validator)


def _location() -> ConfigKey:
    where = validators.one_of("source", "target")
    return _key(
        "offset-syncs.topic.location", Type.STRING, "source", "The cluster that has the offset syncs.", LOW, where
    )


def _topic_filter() -> ConfigKey:
    name = f"{PACKAGE}.DefaultTopicFilter"
    return _key("topic.filter.class", Type.CLASS, name, "The class that chooses topics.")


class _Hidden:
    """Keeps an option out of forms."""

    def values(self, name: str, parsed: Mapping[str, Value]) -> Sequence[Value]:  # noqa: ARG002
        """Return the values to choose from."""
        return ()

    def is_visible(self, name: str, parsed: Mapping[str, Value]) -> bool:  # noqa: ARG002
        """Return whether a form shows the option."""
        return False


BASE: Final = ConfigDef(
    *(
        replace(key, recommender=_Hidden()) if key.name.endswith("converter.plugin.version") else key
        for key in common.CONNECTOR
    ),
    _key("enabled", Type.BOOLEAN, "true", "Whether the source is mirrored."),
    _key("source.cluster.alias", Type.STRING, REQUIRED, "The alias of the source cluster.", HIGH),
    _key("target.cluster.alias", Type.STRING, "target", "The alias of the target cluster.", HIGH),
    _key("admin.timeout.ms", Type.LONG, 60_000, "How long an administrative request may take."),
    _key("replication.policy.class", Type.CLASS, DEFAULT, "The class that names topics of another cluster."),
    _key("replication.policy.separator", Type.STRING, ".", "What stands between the alias and the topic."),
    _key(
        "replication.policy.internal.topic.separator.enabled",
        Type.BOOLEAN,
        "true",
        "Whether this separator is also in the names of topics of checkpoints and offset syncs; false: a dot.",
    ),
    _key("forwarding.admin.class", Type.CLASS, FORWARDING_ADMIN, "The class of the admin clients."),
    _key("metric.reporters", Type.LIST, REPORTER, "The classes that get metrics."),
    _key(
        "security.protocol", Type.STRING, "PLAINTEXT",
        "The protocol of connections; that of a cluster is behind source.cluster. or target.cluster.", MEDIUM,
        validators.one_of_ignoring_case("SASL_SSL", "PLAINTEXT", "SSL", "SASL_PLAINTEXT"),
    ),
    _key("config.providers", Type.LIST, "", "The names of config providers, which are the worker's."),
    *TLS_AND_SASL,
)  # fmt: skip
"""The options of all three: also those of every connector, as Kafka's have them, and of clients without a cluster,
which nothing reads."""

SOURCE: Final = BASE + ConfigDef(
    _key("topics", Type.LIST, ".*", "Names and regular expressions of the topics to mirror.", HIGH),
    _key("topics.exclude", Type.LIST, TOPICS_EXCLUDE, "Those of topics that are left out.", HIGH),
    _key("config.properties.exclude", Type.LIST, CONFIGS_EXCLUDE, "Configurations that topics do not take over.", HIGH),
    _topic_filter(),
    _key(
        "config.property.filter.class",
        Type.CLASS,
        f"{PACKAGE}.DefaultConfigPropertyFilter",
        "The class that chooses configurations.",
    ),
    _key("consumer.poll.timeout.ms", Type.LONG, 1000, "How long a poll of the source waits."),
    _key("refresh.topics.enabled", Type.BOOLEAN, "true", "Whether new topics and partitions are looked for."),
    _key("refresh.topics.interval.seconds", Type.LONG, 600, "How often topics are looked for."),
    _key("sync.topic.configs.enabled", Type.BOOLEAN, "true", "Whether configurations of topics are taken over."),
    _key("sync.topic.configs.interval.seconds", Type.LONG, 600, "How often configurations are taken over."),
    _key("sync.topic.acls.enabled", Type.BOOLEAN, "true", "Whether ACLs of topics are taken over."),
    _key("sync.topic.acls.interval.seconds", Type.LONG, 600, "How often ACLs are taken over."),
    _key("replication.factor", Type.INT, 2, "The replication factor of new topics of the target."),
    _key("offset-syncs.topic.replication.factor", Type.SHORT, 3, "That of the topic with the offset syncs."),
    _key("offset.lag.max", Type.LONG, 100, "How many records there are from one offset sync to the next."),
    _location(),
    _key("emit.offset-syncs.enabled", Type.BOOLEAN, "true", "Whether offset syncs are written."),
    _key("heartbeats.replication.enabled", Type.BOOLEAN, "true", "Whether topics of heartbeats are always mirrored."),
    _key(
        "metric.names.formats", Type.LIST, "legacy", "How metrics are named.", LOW,
        validators.distinct(("legacy", "new"), empty=False),
    ),
)  # fmt: skip
"""The options of MirrorSourceConnector."""

CHECKPOINT: Final = BASE + ConfigDef(
    _key("consumer.poll.timeout.ms", Type.LONG, 1000, "How long a poll of the offset syncs waits."),
    _key("groups", Type.LIST, ".*", "Names and regular expressions of the groups to mirror.", HIGH),
    _key("groups.exclude", Type.LIST, GROUPS_EXCLUDE, "Those of groups that are left out.", HIGH),
    _key("group.filter.class", Type.CLASS, f"{PACKAGE}.DefaultGroupFilter", "The class that chooses groups."),
    _key("refresh.groups.enabled", Type.BOOLEAN, "true", "Whether new groups are looked for."),
    _key("refresh.groups.interval.seconds", Type.LONG, 600, "How often groups are looked for."),
    _key("emit.checkpoints.enabled", Type.BOOLEAN, "true", "Whether checkpoints are written."),
    _key("emit.checkpoints.interval.seconds", Type.LONG, 60, "How often checkpoints are written."),
    _key(
        "sync.group.offsets.enabled",
        Type.BOOLEAN,
        "false",
        "Whether the translated offsets are committed in the target, for groups that have no members there.",
    ),
    _key("sync.group.offsets.interval.seconds", Type.LONG, 60, "How often offsets are committed in the target."),
    _key("checkpoints.topic.replication.factor", Type.SHORT, 3, "The replication factor of the topic of checkpoints."),
    _location(),
    _topic_filter(),
    _key(
        "metric.names.formats", Type.LIST, "legacy", "How metrics are named.", LOW,
        validators.distinct(("legacy", "new"), empty=False),
    ),
)  # fmt: skip
"""The options of MirrorCheckpointConnector."""

HEARTBEAT: Final = BASE + ConfigDef(
    _key("emit.heartbeats.enabled", Type.BOOLEAN, "true", "Whether heartbeats are written."),
    _key("emit.heartbeats.interval.seconds", Type.LONG, 1, "How often heartbeats are written."),
    _key("heartbeats.topic.replication.factor", Type.SHORT, 3, "The replication factor of the topic of heartbeats."),
)
"""The options of MirrorHeartbeatConnector."""


def client_of(config: Mapping[str, str | None], which: str, client: Client) -> dict[str, str]:
    """Return the properties of a client of the source or the target: those of the cluster, of all clients of the kind,
    and of the kind for this cluster, of which the last counts."""
    given = {name: text for name, text in config.items() if text is not None and OVERRIDE not in name}
    found = {name: text for name, text in _behind(f"{which}.cluster.", given).items() if is_connecting(name)}
    return found | _behind(f"{client}.", given) | _behind(f"{which}.{client}.", given)


def check_clients(properties: Mapping[str, str | None], values: MutableMapping[str, ConfigValue]) -> None:
    """Add to the values what the connector's own clients do not honour. They are not those of the overrides."""
    reporters = values["metric.reporters"]
    if not reporters.errors and reporters.value not in ([], [REPORTER]):
        reporters.errors.append("kcli has no reporters of metrics")
    kinds = {
        **{f"{client}.": client for client in Client},
        **{f"{which}.{client}.": client for which in CLUSTERS for client in Client},
        **{f"{which}.cluster.": Client.ADMIN for which in CLUSTERS},
    }
    for name, text in properties.items():
        if name in values or text is None:
            continue
        for prefix, client in kinds.items():
            own = name.removeprefix(prefix)
            if own == name or OVERRIDE in name:
                continue
            reason = refusal(client, own, text)
            if reason is not None:
                values[name] = ConfigValue(name, text, errors=[str(ConfigError.of(name, text, reason))])


def check_patterns(properties: Mapping[str, str | None], values: MutableMapping[str, ConfigValue]) -> None:
    """Add to the values what is wrong with names and regular expressions. Kafka's connectors fail with them. Those of
    topics are read by all three connectors."""
    for name in PATTERNS:
        text = properties.get(name)
        if text is None or (name not in values and not name.startswith("topics")):
            continue
        try:
            any_of(text)
        except PatternError as error:
            found = values.setdefault(name, ConfigValue(name, text))
            found.errors.append(str(ConfigError.of(name, text, f"Invalid regex: {error}")))


def _behind(prefix: str, given: Mapping[str, str]) -> dict[str, str]:
    return {name.removeprefix(prefix): text for name, text in given.items() if name.startswith(prefix)}


class MirrorOptions:
    """A configuration that has been validated."""

    def __init__(self, config: Mapping[str, str]) -> None:
        self.config = config
        self.source_alias = config["source.cluster.alias"]
        self.target_alias = config.get("target.cluster.alias", "target")
        self.policy: ReplicationPolicy = policy_of(config)
        self._topics = Filter(config.get("topics", ".*"), config.get("topics.exclude", TOPICS_EXCLUDE))

    def is_on(self, name: str, *, default: bool = True) -> bool:
        """Return a boolean option."""
        return self.config.get(name, str(default)).strip().lower() == "true"

    def number(self, name: str, default: int) -> int:
        """Return a number."""
        return int(self.config.get(name, default))

    def cluster(self, which: str, client: Client) -> Cluster:
        """Return the source or the target cluster, as a kind of client reaches it. which: `source` or `target`. Raises
        UsageError."""
        found = cluster_of(client_of(self.config, which, client))
        if client is Client.ADMIN:
            return replace(found, timeout_s=self.number("admin.timeout.ms", 60_000) / 1000)
        return found

    @property
    def syncs_location(self) -> str:
        """Which cluster has the offset syncs: `source` or `target`."""
        return self.config.get("offset-syncs.topic.location", "source")

    def syncs_cluster(self, client: Client) -> Cluster:
        """Return the cluster that has the offset syncs. Raises UsageError."""
        return self.cluster(self.syncs_location, client)

    @property
    def syncs_topic(self) -> str:
        """The topic of the offset syncs, which is named after the other cluster."""
        is_source = self.syncs_location == "source"
        return self.policy.offset_syncs_topic(self.target_alias if is_source else self.source_alias)

    def remote_topic(self, topic: str) -> str:
        """Return the name of a topic of the source in the target."""
        return self.policy.remote_topic(self.source_alias, topic)

    def takes_topic(self, topic: str) -> bool:
        """Return whether a topic of the source is mirrored."""
        is_heartbeats = self.is_on("heartbeats.replication.enabled") and self.policy.is_heartbeats_topic(topic)
        return (
            (self._topics.takes(topic) or is_heartbeats)
            and not self.policy.is_internal(topic)
            and not self.policy.is_cycle(topic, self.target_alias)
        )

    def wants_offsets_of(self, topic: str) -> bool:
        """Return whether checkpoints have offsets of a topic of the source."""
        return self._topics.takes(topic)
