"""MirrorCheckpointConnector: where groups of the source cluster stand in the target.

    record     to partition 0 of SOURCE.checkpoints.internal, for each group and partition whose place has changed
    partition  {"partition": N, "topic": TOPIC of the target, "group": GROUP}
    offset     {"offset": 0}
    again      a checkpoint is written if the group has gone back in the source, or forward in the target; what was
               written is read from the topic when a task begins
    commits    with sync.group.offsets.enabled the offsets of the target are committed there, too, for groups that have
               no members in the target and do not stand further already
    time       the multiples of each interval since 1970: a task need not know when it has done something last

Source: MirrorCheckpointConnector, MirrorCheckpointTask, CheckpointStore.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Final

from kcli.client.groups import Groups
from kcli.connect.config.clients import Client
from kcli.connect.config.config_def import ConfigDef, ConfigValue
from kcli.connect.connectors.mirror.offset_syncs import SyncStore
from kcli.connect.connectors.mirror.options import (
    CHECKPOINT,
    CLASSES,
    GROUPS_EXCLUDE,
    PACKAGE,
    MirrorOptions,
    check_clients,
    check_patterns,
)
from kcli.connect.connectors.mirror.policies import Filter
from kcli.connect.connectors.mirror.records import BadRecord, Checkpoint, OffsetSync
from kcli.connect.data.errors import ConnectError
from kcli.connect.data.records import SourceRecord
from kcli.connect.data.schema import BYTES
from kcli.connect.engine.clients import committed_offsets, committed_records, connection_to, create_topic
from kcli.connect.engine.tasks import Rest, SourceContext, SourceTask
from kcli.connect.plugins import KAFKA_VERSION, Offset, Partition, PluginType
from kcli.errors import KcliError
from kcli.protocol.topic_partition import TopicPartition
from kcli.views.groups import Listing

if TYPE_CHECKING:
    from kcli.client.processing import Fetched

ASSIGNED: Final = "task.assigned.groups"
OFFSET: Final = "offset"
IDLE: Final = ("Empty", "Dead")
NEEDED: Final = {
    "emit.checkpoints.enabled": "MirrorCheckpointConnector can't run with emit.checkpoints.enabled set to false",
    "emit.offset-syncs.enabled": "MirrorCheckpointConnector can't run without offset syncs",
}
"""Options that must not be false, with the errors."""


class MirrorCheckpoint:
    """The connector."""

    CLASS = f"{PACKAGE}.MirrorCheckpointConnector"
    TASK_CLASS = f"{PACKAGE}.MirrorCheckpointTask"
    TYPE = PluginType.SOURCE
    VERSION = KAFKA_VERSION
    CLASSES = CLASSES

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties
        self._groups: list[str] | None = None

    @classmethod
    def config(cls) -> ConfigDef:
        """Return the connector's options."""
        return CHECKPOINT

    @classmethod
    def check(cls, properties: Mapping[str, str | None], values: MutableMapping[str, ConfigValue]) -> None:
        """Refuse a connector that has nothing to do, patterns that are none, and what the clients do not honour."""
        if properties.get("enabled", "true") != "false":
            for name, error in NEEDED.items():
                if properties.get(name) == "false":
                    values.setdefault(name, ConfigValue(name)).errors.append(error)
        check_patterns(properties, values)
        check_clients(properties, values)

    def monitor(self) -> float | None:
        """Create the topic of checkpoints, and look for groups. Raises KcliError."""
        options = MirrorOptions(self._properties)
        if not (options.is_on("enabled") and options.is_on("emit.checkpoints.enabled")):
            self._groups = []
            return None
        factor = str(options.number("checkpoints.topic.replication.factor", 3))
        settings = {"partitions": "1", "replication.factor": factor, "cleanup.policy": "compact"}
        create_topic(
            options.cluster("target", Client.ADMIN), options.policy.checkpoints_topic(options.source_alias), settings
        )
        self._groups = _groups(options)
        every = options.number("refresh.groups.interval.seconds", 600)
        return every if options.is_on("refresh.groups.enabled") else None

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        """Return the configuration of each task, with its groups. Raises KcliError."""
        if self._groups is None:
            self.monitor()
        groups = self._groups or []
        count = min(tasks_max, len(groups))
        return [
            {**self._properties, "task.index": str(number), ASSIGNED: ",".join(groups[number::count])}
            for number in range(count)
        ]

    def alter_offsets(self, offsets: Sequence[tuple[Partition, Offset | None]]) -> bool:
        """Check offsets that a user has given, which change nothing. Raises ConnectError for those of others."""
        for partition, offset in offsets:
            if offset is not None and (set(partition) != {"partition", "topic", "group"} or OFFSET not in offset):
                raise ConnectError(f"{dict(partition)}: {dict(offset)} is no offset of checkpoints")
        return True

    class TASK(SourceTask):
        """Looks at its groups once, and rests until the next time."""

        def start(self, config: Mapping[str, str], context: SourceContext) -> None:  # noqa: ARG002 (topics tell)
            """Read the offset syncs and the checkpoints that there are. Raises KcliError."""
            self._options = options = MirrorOptions(config)
            self._names = [each for each in config[ASSIGNED].split(",") if each]
            self._topic = options.policy.checkpoints_topic(options.source_alias)
            self._syncs = SyncStore()
            for record in committed_records(
                connection_to(options.syncs_cluster(Client.CONSUMER)), options.syncs_topic, 0
            ):
                self._take_sync(record)
            self._known: dict[tuple[str, TopicPartition], Checkpoint] = {}
            for record in committed_records(connection_to(options.cluster("target", Client.CONSUMER)), self._topic, 0):
                self._take_checkpoint(record)
            self._emit_s = float(max(options.number("emit.checkpoints.interval.seconds", 60), 1))
            is_synced = options.is_on("sync.group.offsets.enabled", default=False)
            sync_s = max(options.number("sync.group.offsets.interval.seconds", 60), 1)
            self._sync_s = float(sync_s) if is_synced else math.inf
            self._every_s = min(self._emit_s, self._sync_s)
            self._is_done = False

        def poll(self) -> Sequence[SourceRecord]:
            """Return the checkpoints that are new. Raises KcliError."""
            if self._is_done:
                return []
            self._is_done = True
            now_s = time.time()
            new: list[Checkpoint] = []
            if self._is_due(self._emit_s, now_s):
                groups = Groups(connection_to(self._options.cluster("source", Client.ADMIN)))
                new = [each for name in self._names for each in self._checkpoints(name, groups)]
                self._known |= {(each.group, each.place): each for each in new}
            if self._is_due(self._sync_s, now_s):
                self._commit_in_target()
            return [self._record(each, int(now_s * 1000)) for each in new]

        def rest(self) -> Rest:
            """Wait for the next time."""
            return Rest(until_s=(time.time() // self._every_s + 1) * self._every_s)

        def _is_due(self, interval_s: float, now_s: float) -> bool:
            """Return whether a multiple of an interval lies in the time since the last turn, of all intervals the
            shortest."""
            return (now_s - self._every_s) // interval_s < now_s // interval_s

        def _checkpoints(self, group: str, groups: Groups) -> Iterator[Checkpoint]:
            for place, committed in sorted(committed_offsets(groups, group).items()):
                if not self._options.wants_offsets_of(place.topic):
                    continue
                downstream = self._syncs.translate(place, committed.offset)
                if downstream is None or downstream < 0:
                    continue
                remote = TopicPartition(self._renamed(place.topic), place.partition)
                known = self._known.get((group, remote))
                if known is None or committed.offset < known.upstream or downstream > known.downstream:
                    yield Checkpoint(group, remote, committed.offset, downstream, committed.metadata)

        def _renamed(self, topic: str) -> str:
            """Return the name of a topic of the source in the target; one that came from there has its own name."""
            policy = self._options.policy
            if policy.source_of(topic) == self._options.target_alias:
                return policy.original_topic(topic)
            return self._options.remote_topic(topic)

        def _commit_in_target(self) -> None:
            groups = Groups(connection_to(self._options.cluster("target", Client.ADMIN)))
            for name in self._names:
                wanted = {place: each.downstream for (group, place), each in self._known.items() if group == name}
                if not wanted or groups.group(name).state not in IDLE:
                    continue
                there = groups.committed(name)
                behind = {
                    place: offset
                    for place, offset in wanted.items()
                    if place not in there or there[place].offset < offset
                }
                for each in groups.commit(name, behind) if behind else ():
                    if isinstance(each, KcliError):
                        raise each

        def _record(self, checkpoint: Checkpoint, now_ms: int) -> SourceRecord:
            place = checkpoint.place
            return SourceRecord(
                topic=self._topic,
                partition=0,
                key_schema=BYTES,
                key=checkpoint.key(),
                value_schema=BYTES,
                value=checkpoint.value(),
                timestamp=now_ms,
                source_partition={"partition": place.partition, "topic": place.topic, "group": checkpoint.group},
                source_offset={OFFSET: 0},
            )

        def _take_sync(self, record: Fetched) -> None:
            try:
                self._syncs.add(OffsetSync.read(record[4], record[5]))
            except BadRecord:
                return  # as a consumer that does not understand a record

        def _take_checkpoint(self, record: Fetched) -> None:
            try:
                found = Checkpoint.read(record[4], record[5])
            except BadRecord:
                return
            self._known[found.group, found.place] = found


def _groups(options: MirrorOptions) -> list[str]:
    """Return the groups of the source that are mirrored: those with offsets of topics that are."""
    wanted = Filter(options.config.get("groups", ".*"), options.config.get("groups.exclude", GROUPS_EXCLUDE))
    groups = Groups(connection_to(options.cluster("source", Client.ADMIN)))
    names = sorted(each.group for each in groups.all() if isinstance(each, Listing) and wanted.takes(each.group))
    return [
        name for name in names if any(options.wants_offsets_of(each.topic) for each in committed_offsets(groups, name))
    ]
