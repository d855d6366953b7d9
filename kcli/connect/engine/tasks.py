"""What a connector's author writes: a SourceTask that is polled for records, or a SinkTask that is given records.

A task runs for some seconds in a Python worker of Spark (a turn), is stopped, and is made anew for the next turn, maybe
on another machine: what it has to remember is in its offsets. Between turns nothing of it runs: `rest` says what the
engine waits for. Source: SourceTask, SinkTask of Kafka Connect.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.connect.data.schema import Type
from kcli.connect.engine.offsets import partition_key
from kcli.connect.plugins import Offset, Partition
from kcli.pipelines.cluster import Cluster
from kcli.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from kcli.connect.data.records import SinkRecord, SourceRecord

Config = Mapping[str, str]
RETRY_S = 0.5


class FileMark(NamedTuple):
    """How a file looked when it was last read to its end."""

    inode: int
    size: int
    modified_ns: int


@dataclass(frozen=True)
class Rest:
    """What ends the time between two turns of a task: whatever comes first.

    until_s: a time (epoch s). files: paths with their marks, None for a file that was not there; a turn begins when one
    looks otherwise. ends: partitions of `cluster` with the offset up to which they were read; a turn begins when one
    has more. not_before_s: a time before which the ends are not looked at.
    """

    until_s: float | None = None
    not_before_s: float = 0.0
    files: Mapping[str, FileMark | None] = field(default_factory=dict)
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    cluster: Cluster | None = None


class SourceContext:
    """What a source task knows of its connector. plain: the type of all values, if the connector has no
    transformations and its converter takes strings or bytes as they are; then `poll` may return Columns. interruption:
    why the source gives nothing at present; None if it does."""

    def __init__(
        self,
        offsets: Mapping[str, Offset],
        plain: Type | None = None,
        begun: dict[str, Offset] | None = None,
        interruption: str | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """begun: takes the offsets of `begin`. tell: is given the reason of an interruption, once."""
        self._offsets = offsets
        self._begun = {} if begun is None else begun
        self._tell = tell
        self.plain, self.interruption = plain, interruption

    def offset(self, partition: Partition) -> Offset | None:
        """Return the offset that was committed last for a source partition, else that of `begin`; None if there is
        none."""
        return self._offsets.get(partition_key(partition))

    def begin(self, partition: Partition, offset: Offset) -> None:
        """Say that a source partition without an offset begins at this one: the task's later turns are given it until
        a record is committed, however late that is."""
        self._begun[partition_key(partition)] = offset

    def interrupted(self, reason: str) -> None:
        """Say that the task tries again what the source could not give, as when its server is away, and why. The
        worker's log has the reason once, however often it is said, until `goes_on`."""
        if reason != self.interruption:
            self._tell(reason)
        self.interruption = reason

    def goes_on(self) -> None:
        """Say that the source has given what it was asked for."""
        self.interruption = None


@dataclass(frozen=True)
class Columns:
    """Records of one source partition as columns. table: columns as kcli.pipelines.encoding takes them. offset: where
    the partition is read on after the last one."""

    table: pa.Table
    partition: Partition
    offset: Offset


class Written(NamedTuple):
    """Records one behind the other in a partition of Kafka. base: the first offset; None if it is not known. size: how
    many they are."""

    base: int | None
    size: int


class SourceTask(ABC):
    """Reads records from elsewhere. A subclass sets what it needs in `start`; the constructor takes no argument."""

    def start(self, config: Config, context: SourceContext) -> None:  # noqa: B027 (most tasks have something to do)
        """Begin. config: the task's configuration. context: has the offsets from which to read on."""

    @abstractmethod
    def poll(self) -> Sequence[SourceRecord] | Columns:
        """Return the next records; an empty list if there are none at present."""

    def rest(self) -> Rest:
        """Return what the engine waits for once `poll` has returned nothing for a while. By default: a second."""
        return Rest(until_s=time.time() + 1.0)

    def is_midway(self) -> bool:
        """Return whether the next turn could not go on from here, so that this one must not end by its time. It ends
        nevertheless when the connector is paused or stopped. By default: no."""
        return False

    def commit(self, written: Mapping[TopicPartition, Sequence[Written]]) -> None:  # noqa: B027
        """The records that `poll` has returned, and their offsets, are committed. written: where they are in Kafka."""

    def stop(self) -> None:  # noqa: B027 (most tasks have nothing to do)
        """End; also called if `start` or `poll` has raised an error."""


class SinkContext:
    """What a sink task knows of its connector. rewound: offsets from which the task wants to read on, in place of the
    group's. retry_s: how long the engine waits after a RetriableError. retries: how often in a row `put` has raised
    one, in earlier turns, too. state: what the task has kept in it in its last turn, empty after a start of the task;
    it is pickled. group: the sink's. topic_ids: of the topics that there are. is_ending: whether the turn ends with
    this flush."""

    def __init__(
        self,
        connector: str,
        group: str = "",
        topic_ids: Mapping[str, str] | None = None,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        self.connector, self.group, self.topic_ids = connector, group, topic_ids or {}
        self.state = dict(state or {})
        self.is_ending = False
        self.retry_s = RETRY_S
        self.retries = 0
        self.rewound: dict[TopicPartition, int] = {}

    def offset(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Read on from these offsets."""
        self.rewound |= offsets


class SinkTask(ABC):
    """Writes records elsewhere. A subclass sets what it needs in `start`; the constructor takes no argument."""

    def start(self, config: Config, context: SinkContext) -> None:  # noqa: B027 (most tasks have something to do)
        """Begin. config: the task's configuration."""

    def open(self, partitions: Sequence[TopicPartition]) -> None:  # noqa: B027 (most tasks have nothing to do)
        """The partitions that the task reads in this turn; it may call the context's `offset` for them."""

    @abstractmethod
    def put(self, records: Sequence[SinkRecord]) -> None:
        """Write records, or keep them until `flush`. Raises RetriableError (kcli.connect.data.errors) to be given
        the same records again."""

    def flush(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Write what `put` has kept. offsets: of each partition, the next offset after those that were put. Return the
        offsets that the group may commit: the next turn reads on from there. Called also without new records."""
        return offsets

    def is_midway(self) -> bool:
        """Return whether the next turn would have to read again what this one has read, so that this one must not end
        by its time. It ends nevertheless when there is no more to read, or the connector is paused or stopped. By
        default: no."""
        return False

    def rest(self, ends: Mapping[TopicPartition, int]) -> Rest:
        """Return what the engine waits for until the next turn, the cluster left out. ends: up to where the
        partitions were read. By default: records."""
        return Rest(ends=ends)

    def stop(self) -> None:  # noqa: B027 (most tasks have nothing to do)
        """End; also called if another method has raised an error."""


class ColumnSinkTask(SinkTask):
    """A sink task that also takes records as Arrow record batches. PLAIN: the type of values with which it does, if the
    connector has no transformations and its converter takes them as they are."""

    PLAIN: Type

    @abstractmethod
    def put_columns(self, rows: pa.RecordBatch) -> None:
        """Write records with the columns topic, partition, offset, timestampMs, key, value and headers, all of one
        partition."""


def config_int(config: Config, name: str, default: int) -> int:
    """Return a number of a configuration that has been validated."""
    return int(config.get(name, default))


def nothing(polled: Any) -> bool:
    """Whether `poll` has returned no record."""
    return not polled if not isinstance(polled, Columns) else polled.table.num_rows == 0
