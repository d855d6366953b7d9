"""How a topic is called in the target cluster, and which topics, groups and configurations are mirrored.

    DefaultReplicationPolicy    orders of the cluster A is A.orders
    IdentityReplicationPolicy   orders is orders; heartbeats only are A.heartbeats
    internal topics             mm2-offset-syncs.TARGET.internal, SOURCE.checkpoints.internal

Source: DefaultReplicationPolicy, IdentityReplicationPolicy, ReplicationPolicy, DefaultTopicFilter, DefaultGroupFilter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kcli.java.regex import JavaRegex
from kcli.java.values import comma_list

DEFAULT: Final = "org.apache.kafka.connect.mirror.DefaultReplicationPolicy"
IDENTITY: Final = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
HEARTBEATS: Final = "heartbeats"


class ReplicationPolicy:
    """The names of topics that come from another cluster."""

    def __init__(self, config: Mapping[str, str]) -> None:
        self._separator = config.get("replication.policy.separator", ".")
        is_used = config.get("replication.policy.internal.topic.separator.enabled", "true").lower() == "true"
        self._internal = self._separator if is_used else "."

    def remote_topic(self, alias: str, topic: str) -> str:
        """Return the name of a topic of the cluster `alias`."""
        return f"{alias}{self._separator}{topic}"

    def source_of(self, topic: str) -> str | None:
        """Return the alias of the cluster that a topic comes from; None for a topic of this cluster's own."""
        alias, separator, _ = topic.partition(self._separator)
        return alias if separator else None

    def upstream_topic(self, topic: str) -> str | None:
        """Return the name that a topic has in the cluster that it comes from; None for one of this cluster's own."""
        return topic.partition(self._separator)[2] if self.source_of(topic) is not None else None

    def original_topic(self, topic: str) -> str:
        """Return the name that a topic has in the cluster where it began."""
        while (upstream := self.upstream_topic(topic)) is not None and upstream != topic:
            topic = upstream
        return topic

    def offset_syncs_topic(self, alias: str) -> str:
        """Return the topic with the offset syncs for the cluster `alias`."""
        return self._internal.join(("mm2-offset-syncs", alias, "internal"))

    def checkpoints_topic(self, alias: str) -> str:
        """Return the topic with the checkpoints of the cluster `alias`."""
        return self._internal.join((alias, "checkpoints", "internal"))

    def is_heartbeats_topic(self, topic: str) -> bool:
        """Return whether a topic has heartbeats, of whatever cluster."""
        return self.original_topic(topic) == HEARTBEATS

    def is_internal(self, topic: str) -> bool:
        """Return whether a topic is one of Kafka's or Connect's own."""
        suffix = f"{self._internal}internal"
        return (
            topic.startswith(("__", "."))
            or topic.endswith(("-internal", ".internal", f"{self._internal}checkpoints{suffix}"))
            or (topic.startswith("mm2") and topic.endswith(suffix))
        )

    def is_cycle(self, topic: str, target: str) -> bool:
        """Return whether a topic has come from the cluster `target` before."""
        while (source := self.source_of(topic)) is not None:
            if source == target:
                return True
            upstream = self.upstream_topic(topic)
            if upstream is None or upstream == topic:
                return False
            topic = upstream
        return False


class IdentityPolicy(ReplicationPolicy):
    """Topics keep their names; heartbeats do not."""

    def __init__(self, config: Mapping[str, str]) -> None:
        super().__init__(config)
        self._alias = config.get("source.cluster.alias")

    def remote_topic(self, alias: str, topic: str) -> str:
        """Return the name of a topic of the cluster `alias`."""
        return super().remote_topic(alias, topic) if _is_heartbeat(topic) else topic

    def source_of(self, topic: str) -> str | None:
        """Return the alias of the source cluster; a topic does not tell."""
        return super().source_of(topic) if _is_heartbeat(topic) else self._alias

    def upstream_topic(self, topic: str) -> str | None:
        """Return the topic's name."""
        return super().upstream_topic(topic) if _is_heartbeat(topic) else topic


POLICIES: Final = {DEFAULT: ReplicationPolicy, IDENTITY: IdentityPolicy}


def policy_of(config: Mapping[str, str]) -> ReplicationPolicy:
    """Return the policy of a configuration that has been validated."""
    return POLICIES[config.get("replication.policy.class", DEFAULT)](config)


class Filter:
    """Names that are included and not excluded. include, exclude: names and Java's regular expressions between commas.
    Raises PatternError."""

    def __init__(self, include: str, exclude: str) -> None:
        self._include, self._exclude = any_of(include), any_of(exclude)

    def takes(self, name: str) -> bool:
        """Return whether a name is included."""
        return self._include.matches(name) and not self._exclude.matches(name)


def any_of(patterns: str) -> JavaRegex:
    """Return the pattern of what one of several matches. patterns: those between commas. Raises PatternError."""
    return JavaRegex("|".join(each for each in comma_list(patterns) if each))


def _is_heartbeat(topic: str) -> bool:
    return topic.endswith(HEARTBEATS)
