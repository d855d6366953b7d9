"""The topics of the target: made with the partitions and configurations of those of the source, and kept like them.

    new        as many partitions as in the source, replication.factor, the configurations that differ from defaults
    partitions are added where the source has more; never removed
    configs    set to what the source has set itself, and deleted where it has the default (use.defaults.from=target);
               not those of config.properties.exclude
    ACLs       of mirrored topics, by literal names: added, never removed. Permissions to write are the mirror's
               alone; those for all become permissions to read. None from a source without an authorizer
    not done   what the source's brokers have in their files for all topics

Source: MirrorSourceConnector, DefaultConfigPropertyFilter.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Final

from kcli.client.acls import Acls
from kcli.client.admin import Admin, Topic
from kcli.client.wire import ErrorAnswer
from kcli.connect.config.clients import Client
from kcli.connect.connectors.mirror.options import CONFIGS_EXCLUDE, MirrorOptions
from kcli.connect.connectors.mirror.policies import Filter
from kcli.connect.data.errors import ConnectError
from kcli.connect.engine.clients import connection_to, create_topic
from kcli.errors import KcliError
from kcli.pipelines.cluster import Cluster
from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicPartition
from kcli.security.acl_filter import AclFilter
from kcli.security.acls import Acl, Operation, PatternType, Permission, ResourceType

log = logging.getLogger("kcli.connect")
OF_TOPICS: Final = AclFilter(ResourceType.TOPIC, None, PatternType.ANY, None, None, Operation.ANY, Permission.ANY)


class MirroredTopics:
    """The topics of a source cluster that are mirrored, and those of the target, as they are when they are asked for
    first."""

    def __init__(self, options: MirrorOptions) -> None:
        self._options = options
        self._target = options.cluster("target", Client.ADMIN)
        self._excluded = Filter(".*", options.config.get("config.properties.exclude", CONFIGS_EXCLUDE))

    def refresh(self) -> list[TopicPartition]:
        """Make the topics and partitions that the target lacks; return the partitions of the source that have one in
        the target. Raises ConnectError, KcliError."""
        for topic in self._source.values():
            self._make(topic)
        return [TopicPartition(name, each.number) for name, topic in self._source.items() for each in topic.partitions]

    def sync_configs(self) -> None:
        """Make the configurations of the topics of the target what those of the source are. Raises ConnectError,
        KcliError."""
        for topic in self._source.values():
            remote = self._options.remote_topic(topic.name)
            there = self._there.get(remote)
            if there is None:
                continue  # it was made with them
            wanted = self._wanted(topic)
            gone = {name: None for name in there.configs if name not in wanted and self._excluded.takes(name)}
            news = {name: text for name, text in wanted.items() if there.configs.get(name) != text}
            if gone or news:
                _checked(self._admin.alter_configs([remote], {**gone, **news}, validate_only=False, if_exists=False))

    def sync_acls(self) -> bool:
        """Add the ACLs of the source's topics to those of the target. One that is refused has a line in the log. Return
        False if the source has no authorizer, and so no ACLs. Raises UsageError, NobodyAnswers, ErrorAnswer."""
        try:
            found = Acls(self._options.cluster("source", Client.ADMIN).brokers()).matching(OF_TOPICS)
        except ErrorAnswer as error:
            if error.code is ErrorCode.SECURITY_DISABLED:
                return False
            raise
        wanted = list(self._mirrored(found))
        for each in Acls(self._target.brokers()).add(wanted) if wanted else ():
            if isinstance(each, KcliError):
                log.warning("an ACL of a topic is not mirrored: %s", each)
        return True

    def create_syncs_topic(self) -> None:
        """Create the topic with the offset syncs. Raises KcliError."""
        factor = str(self._options.number("offset-syncs.topic.replication.factor", 3))
        settings = {"partitions": "1", "replication.factor": factor, "cleanup.policy": "compact"}
        create_topic(self._options.syncs_cluster(Client.ADMIN), self._options.syncs_topic, settings)

    @cached_property
    def _admin(self) -> Admin:
        return Admin(connection_to(self._target))

    @cached_property
    def _source(self) -> dict[str, Topic]:
        """The topics of the source that are mirrored, in the order of their names."""
        return _described(self._options.cluster("source", Client.ADMIN), self._options.takes_topic)

    @cached_property
    def _there(self) -> dict[str, Topic]:
        """The topics of the target that there were."""
        return _described(self._target, {*map(self._options.remote_topic, self._source)}.__contains__)

    def _wanted(self, topic: Topic) -> dict[str, str]:
        return {name: text for name, text in topic.configs.items() if text is not None and self._excluded.takes(name)}

    def _make(self, topic: Topic) -> None:
        remote, count = self._options.remote_topic(topic.name), len(topic.partitions)
        there = self._there.get(remote)
        if there is None:
            factor = str(self._options.number("replication.factor", 2))
            settings = {"partitions": str(count), "replication.factor": factor, **self._wanted(topic)}
            create_topic(self._target, remote, settings)
        elif len(there.partitions) < count:
            _checked(self._admin.add_partitions([remote], count, None, validate_only=False, if_exists=False))

    def _mirrored(self, acls: Iterable[Acl]) -> Iterator[Acl]:
        for each in acls:
            is_allowed = each.permission is Permission.ALLOW
            if each.pattern_type is not PatternType.LITERAL or not self._options.takes_topic(each.resource_name):
                continue
            if is_allowed and each.operation is Operation.WRITE:
                continue
            operation = Operation.READ if is_allowed and each.operation is Operation.ALL else each.operation
            yield replace(each, resource_name=self._options.remote_topic(each.resource_name), operation=operation)


def _described(cluster: Cluster, takes: Callable[[str], bool]) -> dict[str, Topic]:
    admin = Admin(connection_to(cluster))
    found: list[Topic] = []
    for each in admin.describe([name for name in admin.names() if takes(name)]):
        if isinstance(each, KcliError):
            raise ConnectError(f"{cluster.bootstrap}: {each}")
        found.append(each)
    return {each.name: each for each in admin.with_configs(found, of_files=False)}


def _checked(answers: Iterable[str | KcliError]) -> None:
    for each in answers:
        if isinstance(each, KcliError):
            raise each
