"""MirrorSourceConnector: the records of partitions of the source cluster, to the same partitions in the target.

    record     key, value, headers and timestamp as they are
    partition  {"cluster": ALIAS, "partition": N, "topic": TOPIC}, the topic's name in the source
    offset     {"offset": N}, that of the last record
    syncs      to partition 0 of the topic with the offset syncs, once the records are committed
    jobs       the connector looks for topics, and takes over configurations and ACLs, each at its own interval

A task without an offset begins where auto.offset.reset of the source's consumer says, else at the first record. Source:
MirrorSourceConnector, MirrorSourceTask.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kcli.client.log_appending import LogAppender
from kcli.client.log_reading import LogReader
from kcli.connect.config.clients import Client
from kcli.connect.config.config_def import ConfigDef, ConfigValue
from kcli.connect.connectors.mirror.offset_syncs import SYNC_S, Offsets, SyncRule
from kcli.connect.connectors.mirror.options import (
    CLASSES,
    PACKAGE,
    SOURCE,
    MirrorOptions,
    check_clients,
    check_patterns,
    client_of,
)
from kcli.connect.connectors.mirror.records import OffsetSync
from kcli.connect.connectors.mirror.topics import MirroredTopics
from kcli.connect.data.errors import ConnectError
from kcli.connect.data.records import Header, SourceRecord
from kcli.connect.data.schema import BYTES, OPTIONAL_BYTES, Type
from kcli.connect.engine.tasks import Columns, Rest, SourceContext, SourceTask, Written
from kcli.connect.plugins import KAFKA_VERSION, Offset, Partition, PluginType
from kcli.errors import KcliError
from kcli.export.options import Isolation, SourceOptions
from kcli.pipelines.encoding import TIMESTAMP_MS, Encoder
from kcli.pipelines.fetching import read
from kcli.pipelines.planning import FetchRange, ends, log_starts
from kcli.pipelines.sink import append
from kcli.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kcli.pipelines.cluster import Cluster

log = logging.getLogger("kcli.connect")
CLUSTER, TOPIC, PARTITION, OFFSET = "cluster", "topic", "partition", "offset"
ASSIGNED: Final = "task.assigned.partitions"
ROW_COLUMNS: Final = ("offset", "timestampMs", "key", "value", "headers")
RANGE_MAX: Final = 200_000
SYNCS: Final = "emit.offset-syncs.enabled"
EXACTLY_ONCE: Final = "exactly.once.support"
COMMITTED_ONLY: Final = (
    "MirrorSourceConnector can only provide exactly-once guarantees when its source consumer is configured with "
    "isolation.level set to 'read_committed'; otherwise, records from aborted and uncommitted transactions will be "
    "replicated from the source cluster to the target cluster."
)
NO_SYNCS: Final = "MirrorSourceConnector can't setup offset-syncs feature while emit.offset-syncs.enabled set to false"
NO_ACLS: Final = (
    "No ACL authorizer is configured on the source Kafka cluster, so no topic ACL syncing will take place. Consider "
    "disabling topic ACL syncing by setting sync.topic.acls.enabled to 'false'."
)
"""MirrorMaker's words."""


class MirrorSource:
    """The connector."""

    CLASS = f"{PACKAGE}.MirrorSourceConnector"
    TASK_CLASS = f"{PACKAGE}.MirrorSourceTask"
    TYPE = PluginType.SOURCE
    VERSION = KAFKA_VERSION
    CLASSES = CLASSES

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties
        self._partitions: list[TopicPartition] | None = None
        self._due_s: dict[str, int] = {}
        self._has_told_of_acls = False

    @classmethod
    def config(cls) -> ConfigDef:
        """Return the connector's options."""
        return SOURCE

    @classmethod
    def check(cls, properties: Mapping[str, str | None], values: MutableMapping[str, ConfigValue]) -> None:
        """Refuse exactly-once support without a consumer that reads committed records, options of offset syncs where
        there are none, patterns that are none, and what the clients do not honour."""
        if properties.get(EXACTLY_ONCE) == "required" and _isolation(properties) is not Isolation.READ_COMMITTED:
            values[EXACTLY_ONCE] = ConfigValue(EXACTLY_ONCE, errors=[COMMITTED_ONLY])
        has_own = any(each.startswith(("offset-syncs-", "offset-syncs.topic.")) for each in properties)
        if has_own and properties.get(SYNCS) == "false":
            values[SYNCS].errors.append(NO_SYNCS)
        check_patterns(properties, values)
        check_clients(properties, values)

    @classmethod
    def exactly_once(cls, properties: Mapping[str, str]) -> bool:
        """Return whether a task gives each record exactly once: if the source's consumer reads committed ones."""
        return _isolation(properties) is Isolation.READ_COMMITTED

    def monitor(self) -> float | None:
        """Create topics and partitions of the target, and take over configurations and ACLs, each when it is due.
        Raises ConnectError, KcliError."""
        options = MirrorOptions(self._properties)
        if not options.is_on("enabled"):
            self._partitions = []
            return None
        topics = MirroredTopics(options)
        if self._partitions is None and options.is_on(SYNCS):
            topics.create_syncs_topic()
        now_s = int(time.monotonic())
        if self._is_due(options, "refresh.topics", now_s) or self._partitions is None:
            self._partitions = topics.refresh()
        jobs: dict[str, Callable[[], None]] = {
            "sync.topic.configs": topics.sync_configs,
            "sync.topic.acls": lambda: self._sync_acls(topics),
        }
        for name, job in jobs.items():
            if self._is_due(options, name, now_s):
                job()
        return min(self._due_s.values()) - now_s if self._due_s else None

    def _sync_acls(self, topics: MirroredTopics) -> None:
        has_authorizer = topics.sync_acls()
        if not has_authorizer and not self._has_told_of_acls:
            self._has_told_of_acls = True
            log.info(NO_ACLS)

    def _is_due(self, options: MirrorOptions, job: str, now_s: int) -> bool:
        """Return whether it is time for a job, which is due again after its interval then."""
        if not options.is_on(f"{job}.enabled") or now_s < self._due_s.get(job, 0):
            return False
        self._due_s[job] = now_s + options.number(f"{job}.interval.seconds", 600)
        return True

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        """Return the configuration of each task: the partitions are dealt out one after the other. Raises ConnectError,
        KcliError."""
        if self._partitions is None:
            self.monitor()
        places = self._partitions or []
        count = min(tasks_max, len(places))
        return [
            {**self._properties, "task.index": str(number), ASSIGNED: ",".join(map(str, places[number::count]))}
            for number in range(count)
        ]

    def alter_offsets(self, offsets: Sequence[tuple[Partition, Offset | None]]) -> bool:
        """Check offsets that a user has given. Raises ConnectError for one that no task of this connector has."""
        for partition, offset in offsets:
            _check_partition(partition)
            if offset is not None and (type(offset.get(OFFSET)) is not int or offset[OFFSET] < 0):
                raise ConnectError(f"The offset {dict(offset)} has no whole number 'offset' from 0 on")
        return True

    class TASK(SourceTask):
        """Reads its partitions, one range after the other."""

        def start(self, config: Mapping[str, str], context: SourceContext) -> None:
            """Find where to go on. Raises KcliError."""
            self._options = MirrorOptions(config)
            self._is_columnar = context.plain is Type.BYTES
            self._cluster: Cluster = self._options.cluster("source", Client.CONSUMER)
            self._places = [_place_of(each) for each in config[ASSIGNED].split(",")]
            self._reader: LogReader = self._cluster.reader({each.topic for each in self._places})
            self._isolation = _isolation(config)
            self._source = SourceOptions(paths=(), columns=ROW_COLUMNS, isolation=self._isolation)
            self._rows: Iterator[pa.RecordBatch] = iter(())
            self._at_place = self._places[0]
            self._next = 0
            self._sent: dict[TopicPartition, list[Offsets]] = {}
            lag_max = self._options.number("offset.lag.max", 100)
            self._rules = {each: SyncRule(lag_max) for each in self._places}
            self._promoted_s = time.monotonic()
            self._appender: LogAppender | None = None
            self._ids = self._reader.describe_patiently().topic_ids
            self._positions = self._starts(context)

        def poll(self) -> Sequence[SourceRecord] | Columns:
            """Return the next records of a partition. Raises KcliError."""
            batch = next(self._rows, None)
            while batch is None or not batch.num_rows:  # a range of aborted records: nothing is committed of it
                if batch is None and not self._begin():
                    self._write(self._promoted())
                    return []
                batch = next(self._rows, None)
            place = self._at_place
            offsets = batch.column("offset").to_numpy()
            self._positions[place] = int(offsets[-1]) + 1
            remote = TopicPartition(self._options.remote_topic(place.topic), place.partition)
            self._sent.setdefault(remote, []).append(offsets)
            return self._columns(batch, place, remote) if self._is_columnar else self._records(batch, place, remote)

        def rest(self) -> Rest:
            """Wait until a partition of the source has more."""
            return Rest(ends=self._positions, cluster=self._cluster)

        def commit(self, written: Mapping[TopicPartition, Sequence[Written]]) -> None:
            """Write the offset syncs that are due."""
            sent, self._sent = self._sent, {}
            if not self._options.is_on(SYNCS):
                return
            syncs = [
                OffsetSync(place, upstream, downstream)
                for place in self._places
                for upstream, downstream in self._due(place, sent, written)
            ]
            if time.monotonic() - self._promoted_s >= SYNC_S:
                syncs += self._promoted()
            self._write(syncs)

        def stop(self) -> None:
            """Write the offset syncs that are delayed, and close the connections."""
            if hasattr(self, "_rules"):
                with suppress(KcliError):  # groups stand a little further behind until the next ones
                    self._write(self._promoted())
            for each in ("_reader", "_appender"):
                open_one = getattr(self, each, None)
                if open_one is not None:
                    open_one.__exit__()
            with suppress(AttributeError):
                self._rows.close()  # type: ignore[attr-defined]  # a generator with a connection of its own

        def _starts(self, context: SourceContext) -> dict[TopicPartition, int]:
            firsts, lasts = log_starts(self._reader, self._places), self._ends()
            reset = client_of(self._options.config, "source", Client.CONSUMER).get("auto.offset.reset", "earliest")
            found: dict[TopicPartition, int] = {}
            for place in firsts.keys() & lasts.keys():
                known = (context.offset(self._key(place)) or {}).get(OFFSET)
                if known is not None and firsts[place] <= known + 1 <= lasts[place]:
                    found[place] = known + 1
                elif reset == "none":
                    raise ConnectError(f"Undefined offset with no reset policy for partitions: [{place}]")
                else:
                    found[place] = lasts[place] if reset == "latest" else firsts[place]
                    context.begin(self._key(place), {OFFSET: found[place] - 1})
            return found

        def _ends(self) -> dict[TopicPartition, int]:
            return ends(self._reader, self._places, committed=self._isolation is Isolation.READ_COMMITTED)

        def _begin(self) -> bool:
            """Begin to read the next partition that has more; return whether there is one."""
            now = self._ends()
            for _ in self._places:
                place = self._places[self._next]
                self._next = (self._next + 1) % len(self._places)
                at = self._positions.get(place)
                if at is not None and at < now.get(place, 0):
                    to = min(now[place], at + RANGE_MAX)
                    self._at_place = place
                    self._rows = self._range(FetchRange(place, self._ids[place.topic], at, to))
                    return True
            return False

        def _range(self, part: FetchRange) -> Iterator[pa.RecordBatch]:
            yield from read(part, ROW_COLUMNS, self._source, self._cluster)
            self._positions[part.partition] = part.end

        def _key(self, place: TopicPartition) -> Partition:
            return {CLUSTER: self._options.source_alias, PARTITION: place.partition, TOPIC: place.topic}

        def _columns(self, batch: pa.RecordBatch, place: TopicPartition, remote: TopicPartition) -> Columns:
            count = batch.num_rows
            times = batch.column("timestampMs")
            if (pc.min(times).as_py() or 0) < 0:
                times = pc.if_else(pc.less(times, 0), time.time_ns() // 1_000_000, times)
            table = {
                "topic": pa.repeat(pa.scalar(remote.topic), count),
                "partition": pa.repeat(pa.scalar(remote.partition, pa.int32()), count),
                TIMESTAMP_MS: times,
                **{name: batch.column(name) for name in ("key", "value", "headers")},
            }
            return Columns(pa.table(table), self._key(place), {OFFSET: batch.column("offset")[-1].as_py()})

        def _records(self, batch: pa.RecordBatch, place: TopicPartition, remote: TopicPartition) -> list[SourceRecord]:
            return [
                SourceRecord(
                    topic=remote.topic,
                    partition=remote.partition,
                    key_schema=OPTIONAL_BYTES,
                    key=key,
                    value_schema=BYTES,
                    value=value,
                    timestamp=timestamp if timestamp >= 0 else None,
                    headers=tuple(Header(each["key"], each["value"], BYTES) for each in headers or ()),
                    source_partition=self._key(place),
                    source_offset={OFFSET: offset},
                )
                for offset, timestamp, key, value, headers in zip(
                    *(batch.column(name).to_pylist() for name in ROW_COLUMNS), strict=True
                )
            ]

        def _due(
            self,
            place: TopicPartition,
            sent: Mapping[TopicPartition, Sequence[Offsets]],
            written: Mapping[TopicPartition, Sequence[Written]],
        ) -> Iterator[tuple[int, int]]:
            """Yield the offsets of a partition in source and target for which syncs are due. Transformations that leave
            records out, or choose other topics, make them unknown."""
            remote = TopicPartition(self._options.remote_topic(place.topic), place.partition)
            parts, where = sent.get(remote, ()), written.get(remote, ())
            upstream = np.concatenate(parts) if parts else np.empty(0, np.int64)
            if sum(each.size for each in where) != len(upstream):
                return
            at = 0
            for each in where:
                if each.base is not None:
                    yield from self._rules[place].due(upstream[at : at + each.size], each.base)
                at += each.size

        def _promoted(self) -> list[OffsetSync]:
            """Return the delayed syncs, which are to be written now."""
            self._promoted_s = time.monotonic()
            return [OffsetSync(place, *each) for place, rule in self._rules.items() for each in rule.promoted()]

        def _write(self, syncs: Sequence[OffsetSync]) -> None:
            if not syncs:
                return
            if self._appender is None:
                self._appender = LogAppender(self._options.syncs_cluster(Client.PRODUCER).brokers())
            options = self._options
            codec = client_of(options.config, options.syncs_location, Client.PRODUCER).get("compression.type", "none")
            encoder = Encoder(self._appender.partitions, options.syncs_topic, codec.strip().lower())
            rows = {
                "key": pa.array([each.key() for each in syncs], pa.binary()),
                "value": pa.array([each.value() for each in syncs], pa.binary()),
                "partition": pa.array([0] * len(syncs), pa.int32()),
            }
            append(pa.table(rows), encoder, self._appender, None)


def _isolation(config: Mapping[str, str | None]) -> Isolation:
    text = client_of(config, "source", Client.CONSUMER).get("isolation.level")
    return Isolation.READ_COMMITTED if text == "read_committed" else Isolation.READ_UNCOMMITTED


def _place_of(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


def _check_partition(partition: Partition | None) -> None:
    if partition is None:
        raise ConnectError("Source partition may not be null")
    for name in (CLUSTER, TOPIC):
        if not isinstance(partition.get(name), str):
            raise ConnectError(f"The partition {dict(partition)} has no text {name!r}")
    if type(partition.get(PARTITION)) is not int or partition[PARTITION] < 0:
        raise ConnectError(f"The partition {dict(partition)} has no whole number 'partition' from 0 on")
