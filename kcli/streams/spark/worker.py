"""A task in a Python worker of Spark, for one micro-batch.

    begin a transaction -> where the group stands -> the stores up to there -> fetch, process, send -> commit

Spark gives a task to any worker. Each worker keeps the tasks that it has had: a task whose last commit was made here
goes on at once; otherwise its stores first take what their changelogs have had since. The transactional id is that of
the task, so that a new attempt ends the transaction of the one before, and fences it.

Beside offsets a commit has the times that processors have seen (Task.times), so that results do not depend on which
worker has a task.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import TYPE_CHECKING

from kcli.client.log_appending import LogAppender
from kcli.client.producing_transaction import ProducingTransaction
from kcli.errors import KcliError
from kcli.export.options import Isolation, SourceOptions
from kcli.pipelines.cluster import Cluster
from kcli.pipelines.fetching import read
from kcli.pipelines.planning import FetchRange, ends, log_starts
from kcli.pipelines.sink import TRANSACTION_TIMEOUT_MS
from kcli.protocol.topic_partition import TopicPartition
from kcli.streams.errors import ProcessingError, StreamsError
from kcli.streams.local.active_task import active_task
from kcli.streams.local.plan import Plan, TaskId
from kcli.streams.records import Headers
from kcli.streams.spark.inputs import ROW_COLUMNS
from kcli.streams.spark.output import Output
from kcli.streams.topology.error_handlers import DEFAULT, ErrorHandlers
from kcli.streams.topology.input_queues import RawRecord
from kcli.streams.topology.offset_metadata import OffsetMetadata
from kcli.streams.topology.task import Task
from kcli.streams.topology.topology import Topology

if TYPE_CHECKING:
    import pyarrow as pa

SENT_MAX = 20_000
BATCH = 1000
"""After so many records it is looked whether SENT_MAX is reached."""
KEPT_S = 3600.0
"""How long a worker keeps a task that others have: a compacted changelog keeps tombstones for a day by default."""
OPTIONS = SourceOptions(paths=(), columns=ROW_COLUMNS, isolation=Isolation.READ_COMMITTED)
Committed = dict[TopicPartition, tuple[int, str]]


@dataclass(frozen=True)
class Application:
    """What workers know of an application. run_id: distinguishes its starts."""

    topology: Topology
    application_id: str
    run_id: str
    cluster: Cluster
    plan: Plan
    emit_interval_ms: int
    handlers: ErrorHandlers = DEFAULT

    def task_of(self, place: TopicPartition) -> TaskId:
        """Return the task that reads a partition."""
        number = next(part.number for part in self.plan.sub_topologies if place.topic in part.topics)
        return TaskId(number, place.partition)


def run(application: Application, ranges: Sequence[FetchRange]) -> None:
    """Run a task on the ranges of its Spark partition. Raises ProcessingError, StreamsError, ErrorAnswer,
    NobodyAnswers, KcliError."""
    if ranges:
        _worker_of(application).run(application.task_of(ranges[0].partition), ranges)


class Worker:
    """The tasks that this process keeps between micro-batches."""

    def __init__(self, application: Application) -> None:
        self.application = application
        self.globals = GlobalTask(application)
        self._kept: dict[TaskId, KeptTask] = {}

    def run(self, task_id: TaskId, ranges: Sequence[FetchRange]) -> None:
        """Run a task. A task that fails is not kept."""
        self.globals.update()
        kept = self._kept.pop(task_id, None)
        if kept is None or time.monotonic() - kept.used_s > KEPT_S:
            kept = KeptTask(self, task_id)
        kept.run(ranges)
        self._kept[task_id] = kept


_worker: list[Worker] = []


def _worker_of(application: Application) -> Worker:
    """Return what this process keeps of the application; tasks of others are dropped."""
    if not _worker or _worker[0].application.run_id != application.run_id:
        _worker[:] = [Worker(application)]
    return _worker[0]


class KeptTask:
    """A task between micro-batches. used_s: the monotonic time of its last use here."""

    def __init__(self, worker: Worker, task_id: TaskId) -> None:
        self._application = application = worker.application
        task = Task(
            application.topology,
            application.application_id,
            _now_ms(),
            application.emit_interval_ms,
            names=application.plan.sub_topologies[task_id.sub_topology].names,
            global_stores=worker.globals.stores,
            partition=task_id.partition,
            handlers=application.handlers,
        )
        self._active = active_task(application.plan, task_id, task)
        self._restored = Positions(application.cluster, self._active.changelogs)
        self._stands: Committed | None = None
        self.used_s = time.monotonic()

    def run(self, ranges: Sequence[FetchRange]) -> None:
        """Process the records of a micro-batch that no earlier attempt has committed, and commit."""
        application = self._application
        brokers, name = application.cluster.brokers(), f"{application.application_id}-{self._active.id}"
        transaction = ProducingTransaction(brokers, name, application.application_id, TRANSACTION_TIMEOUT_MS)
        transaction.begin()
        committed = {place: at for place, at in transaction.committed().items() if place in self._active.inputs}
        if committed != self._stands:
            self._go_to(committed)
        self._stands = committed
        try:
            with LogAppender(brokers, name) as appender:
                output = Output(transaction, appender)
                until = self._process(ranges, committed, output)
        except BaseException:
            with suppress(KcliError):  # if the abort fails, the next attempt or the timeout aborts the transaction
                transaction.abort()
            raise
        if until:
            self._active.note_ends({place: at + 1 for place, at in output.ends.items()})
            self._stands = self._offsets({place: at for place, (at, _) in committed.items()} | until)
            transaction.commit(self._stands)
        self._restored.offsets |= {place: at for place, at in output.ends.items() if place in self._active.changelogs}
        self.used_s = time.monotonic()

    def _go_to(self, committed: Committed) -> None:
        """Have the task stand where the group does."""
        self._active.task.begin_anew()
        for place, offset, timestamp, key, value in self._restored.news():
            self._active.restore(place, offset, key, value, timestamp)
        self._active.committed = committed
        self._active.start()

    def _process(self, ranges: Sequence[FetchRange], committed: Committed, output: Output) -> dict[TopicPartition, int]:
        """Process all records behind the committed offsets. Returns where the group is to stand then."""
        task, name = self._active.task, self._application.application_id
        until: dict[TopicPartition, int] = {}
        for each in ranges:
            place = each.partition
            done = committed[place][0] if place in committed else 0
            if place in committed and place not in until and each.start > done:
                raise StreamsError(
                    f"{place}: the checkpoint has come to offset {each.start:,}, and the group {name} has committed "
                    f"{done:,}: begin with a new checkpoint"
                )
            if each.end <= done:
                continue
            until[place] = each.end
            new = replace(each, start=max(each.start, done))
            for rows in read(new, ROW_COLUMNS, OPTIONS, self._application.cluster):
                self._add(place, rows, output)
        while task.process():
            self._send_if_many(output)
        task.commit()
        self._send(output)
        _refuse_clock(task)
        return until

    def _offsets(self, until: Mapping[TopicPartition, int]) -> Committed:
        """Return all offsets of the task with their metadata, so that the times in all of them are of now."""
        task = self._active.task
        known = task.metadata_of_processors | task.times()
        return {
            place: (offset, OffsetMetadata(task.queues.by_topic[place.topic].partition_time, known).encode())
            for place, offset in until.items()
        }

    def _add(self, place: TopicPartition, rows: pa.RecordBatch, output: Output) -> None:
        """Give rows of one partition to the task, and process what no earlier record can precede."""
        task = self._active.task
        task.now_ms = _now_ms()
        for raw in _raw_records(place, rows):
            task.add(raw)
        while task.process_ready(BATCH):
            self._send_if_many(output)

    def _send_if_many(self, output: Output) -> None:
        if len(self._active.task.sent) >= SENT_MAX:
            self._send(output)

    def _send(self, output: Output) -> None:
        sent, self._active.task.sent = self._active.task.sent, []
        output.send(sent)


class GlobalTask:
    """The stores that every task can read, with all committed records of their topics."""

    def __init__(self, application: Application) -> None:
        parts = [part for part in application.plan.sub_topologies if part.is_global]
        names = {name for part in parts for name in part.names}
        self._task = Task(
            application.topology, application.application_id, _now_ms(), names=names, handlers=application.handlers
        )
        self._task.start()
        self.stores = self._task.stores
        counts = application.plan.partitions
        self._read = Positions(
            application.cluster,
            [TopicPartition(topic, n) for part in parts for topic in part.topics for n in range(counts[topic])],
        )

    def update(self) -> None:
        """Take the new records of the topics."""
        for place, offset, timestamp, key, value in self._read.news():
            self._task.add(RawRecord(*place, offset, timestamp, key, value))


@dataclass
class Positions:
    """How far partitions have been read here. offsets: the next offset of each, without those that are at their
    beginning."""

    cluster: Cluster
    places: Iterable[TopicPartition]
    offsets: dict[TopicPartition, int] = field(default_factory=dict)

    def news(self) -> Iterator[tuple[TopicPartition, int, int, bytes | None, bytes | None]]:
        """Yield the committed records that came since the last call: partition, offset, timestamp in milliseconds, key,
        value."""
        places = list(self.places)
        if not places:
            return
        with self.cluster.reader({place.topic for place in places}) as reader:
            ids = reader.describe().topic_ids
            starts, stops = log_starts(reader, places), ends(reader, places, committed=True)
        for place in places:
            if place not in stops:
                raise StreamsError(f"{place} is not there any more")
            begin = max(self.offsets.get(place, 0), starts[place])
            if begin < stops[place]:
                for batch in read(
                    FetchRange(place, ids[place.topic], begin, stops[place]), ROW_COLUMNS, OPTIONS, self.cluster
                ):
                    columns = (batch.column(name).to_pylist() for name in ("offset", "timestampMs", "key", "value"))
                    yield from zip(repeat(place), *columns)
            self.offsets[place] = stops[place]


def _raw_records(place: TopicPartition, rows: pa.RecordBatch) -> Iterator[RawRecord]:
    offsets, times, keys, values = (rows.column(name).to_pylist() for name in ("offset", "timestampMs", "key", "value"))
    column = rows.column("headers")
    headers: Iterable[Headers] = repeat(()) if column.null_count == len(column) else map(_headers, column.to_pylist())
    return map(RawRecord, repeat(place.topic), repeat(place.partition), offsets, times, keys, values, headers)


def _headers(shown: list[Mapping[str, str | bytes]] | None) -> Headers:
    return tuple((each["key"], each["value"]) for each in shown or ())  # type: ignore[misc]


def _refuse_clock(task: Task) -> None:
    if task.processors_with_clock:
        raise ProcessingError(refusal_of_clock(task.processors_with_clock))


def refusal_of_clock(names: Iterable[str]) -> str:
    """Return why processors with these names do not run on Spark."""
    return (
        f"{', '.join(names)} schedules punctuations by the clock, which has no part in a micro-batch: "
        "the local runner runs the program"
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
