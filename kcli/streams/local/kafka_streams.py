"""KafkaStreams: runs a topology as a member of the consumer group named by the application's id.

    group assigns -> read committed offsets -> restore stores -> poll, process, commit -> group revokes: commit, close

An instance that is to have standbys restores all stores before it joins a group that has members.

The group assigns partitions of one topic of each sub-topology, that with the most partitions; a task reads the
partitions of its number of all topics of its sub-topology. With exactly_once_v2 a commit is one transaction of all
outputs, changelogs and offsets; what is undone brings all tasks back to the last commit, by their changelogs. Source:
StreamThread, TaskManager, TaskExecutor of Kafka Streams; KIP-447.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from enum import StrEnum
from itertools import groupby
from operator import itemgetter
from typing import Any
from uuid import uuid4

from kcli.client.connection import Connection
from kcli.client.groups import Groups
from kcli.client.processing import (
    EndsView,
    GroupView,
    OutOfRange,
    Output,
    PartitionReader,
    ProcessingMember,
    RecordRefused,
    Undone,
    delete_before,
)
from kcli.errors import KcliError
from kcli.protocol.topic_partition import TopicPartition
from kcli.streams.config import streams_config
from kcli.streams.errors import FailedProcessing, StreamsError
from kcli.streams.local.active_task import ActiveTask, active_task
from kcli.streams.local.changelog_reader import ChangelogReader
from kcli.streams.local.checks import check
from kcli.streams.local.internal import partition_counts, set_up
from kcli.streams.local.plan import Plan, TaskId
from kcli.streams.local.standbys import placed
from kcli.streams.records import NO_TIMESTAMP
from kcli.streams.topology.error_handlers import ErrorContext, ErrorHandlers
from kcli.streams.topology.input_queues import RawRecord
from kcli.streams.topology.task import Task
from kcli.streams.topology.topology import Topology, internal_topic

logger = logging.getLogger(__name__)

WAIT_S = 0.1
TASKLESS_WAIT_S = 0.02
"""A poll ends with a record or after its time: a task that it has brought waits for that."""
POLL_INTERVAL_S = 1.0
"""The member is polled at least so often, so that the group's decisions reach it."""
BATCH = 500
PURGE_INTERVAL_S = 30.0
STANDBY_INTERVAL_S = 2.0
"""How often an instance looks which standbys it is to have; also after each change of its own tasks."""
ENDS_INTERVAL_S = 1.0
"""How often an instance takes note of the ends of its changelogs, if it writes to them."""


class ProcessingGuarantee(StrEnum):
    """Whether each record takes effect exactly once, or possibly again after a failure."""

    EXACTLY_ONCE_V2 = "exactly_once_v2"
    AT_LEAST_ONCE = "at_least_once"


COMMIT_INTERVAL_MS = {ProcessingGuarantee.EXACTLY_ONCE_V2: 100, ProcessingGuarantee.AT_LEAST_ONCE: 30_000}


class KafkaStreams:
    """An instance of an application.

    application_id: names the consumer group, and begins the names of internal topics. bootstrap_servers:
    HOST:PORT,...; instance_id: names the instance's transactions; an instance that is started again with the same one
    need not wait until the transaction of the one before has timed out. commit_interval_ms: None for Kafka Streams'
    default, 100 ms with exactly_once_v2 and 30 s otherwise. config: by Kafka Streams' names, see kcli.streams.config.
    client_config: properties of librdkafka.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        application_id: str,
        bootstrap_servers: str,
        instance_id: str | None = None,
        processing_guarantee: ProcessingGuarantee | str = ProcessingGuarantee.EXACTLY_ONCE_V2,
        commit_interval_ms: int | None = None,
        config: Mapping[str, Any] | None = None,
        client_config: Mapping[str, str] | None = None,
    ) -> None:
        guarantee = ProcessingGuarantee(processing_guarantee)
        interval_ms = COMMIT_INTERVAL_MS[guarantee] if commit_interval_ms is None else commit_interval_ms
        self._commit_interval_s = interval_ms / 1000
        self._exactly_once = guarantee is ProcessingGuarantee.EXACTLY_ONCE_V2
        self._config = streams_config(config)
        self._topology, self._application_id = topology, application_id
        self._instance_id = instance_id or str(uuid4())
        self._connection = Connection(bootstrap_servers, dict(client_config or {}))
        self._tasks: dict[TaskId, ActiveTask] = {}
        self._standbys: dict[TaskId, ActiveTask] = {}
        self._inputs: dict[tuple[str, int], ActiveTask] = {}
        self._written: set[TopicPartition] = set()
        self._members: dict[str, frozenset[TopicPartition]] | None = None
        self._next_poll = self._next_commit = self._next_purge = self._next_ends = 0.0
        self._stop = threading.Event()

    def close(self) -> None:
        """Have `run` end after a last commit. Any thread or signal handler may call this."""
        self._stop.set()

    @property
    def running_tasks(self) -> list[str]:
        """The ids of the tasks that process records."""
        return sorted(str(each.id) for each in list(self._tasks.values()) if each.is_running)

    def run(self) -> None:
        """Run until `close` is called. Raises ProcessingError for a record that the topology cannot process,
        StreamsError and TopologyError for topics that it cannot work with, KcliError; what was not committed then is
        undone."""
        self._plan: Plan = set_up(self._connection, self._topology, self._application_id, self._config)
        self._admin = self._connection.admin()
        self._leaders = self._plan.leaders()
        self._view = GroupView(
            self._admin,
            self._application_id,
            interval_s=STANDBY_INTERVAL_S,
            timeout_s=self._connection.timeout_s,
        )
        self._ends = EndsView(self._admin, timeout_s=self._connection.timeout_s)
        self._restoring = ChangelogReader(self._connection, committed_only=self._exactly_once)
        handlers = self._config.handlers
        self._global = _GlobalTask(self._topology, self._application_id, self._plan, self._connection, handlers)
        try:
            self._output = Output(
                self._connection,
                f"{self._application_id}-{self._instance_id}-1" if self._exactly_once else None,
            )
        except Undone as error:
            raise StreamsError(f"{self._application_id}: no transactions: {error}") from None
        if self._config.standbys:
            self._warm_up()
        self._member = ProcessingMember(
            self._connection,
            self._application_id,
            list(self._leaders),
            committed_only=self._exactly_once,
            assigned=self._assigned,
            revoked=self._revoked,
            lost=self._lost,
        )
        try:
            while not self._stop.is_set():
                self._turn()
            self._commit_or_undo()
            self._note_last_ends()
        except FailedProcessing:
            self._send_last_words()
            raise
        finally:
            self._output.close()
            self._close_tasks()
            self._member.close()
            self._restoring.close()
            self._global.close()

    def _turn(self) -> None:
        ready = [each for each in self._running() if each.task.queues.is_ready]
        if time.monotonic() >= self._next_poll or not any(each.is_full for each in ready):
            self._poll(0 if ready else self._wait_s())
        self._global.update()
        self._place_standbys()
        self._note_ends()
        try:
            self._restore()
            self._process()
            if time.monotonic() >= self._next_commit:
                self._commit()
        except Undone as undone:
            self._begin_anew(undone)

    def _poll(self, timeout_s: float) -> None:
        records, ends = self._member.poll(timeout_s)
        self._next_poll = time.monotonic() + POLL_INTERVAL_S
        for place, of_place in groupby(records, itemgetter(0, 1)):
            task = self._inputs.get(place)
            if task is not None:
                task.task.queues.add_all(list(of_place))
        for end, offset in ends:
            task = self._inputs.get(end)
            if task is not None:
                task.has_news |= task.task.queues.by_topic[end.topic].reach_end(offset)
        for each in self._running():
            self._pause(each)

    def _pause(self, active: ActiveTask) -> None:
        """Pause the inputs that have enough records while another input has none, and resume those that have not. A
        pause costs the records that librdkafka has fetched ahead, so a task that can go on has no paused inputs."""
        waits = active.is_full and not active.task.queues.is_ready
        for place in active.inputs:
            if waits and not active.wants(place) and place not in active.paused:
                self._member.pause(place)
                active.paused.add(place)
            elif place in active.paused and active.wants(place):
                self._member.resume(place)
                active.paused.discard(place)

    def _wait_s(self) -> float:
        if not self._tasks:
            return TASKLESS_WAIT_S
        if any(not each.is_running for each in self._tasks.values()):
            return 0
        return min(WAIT_S, max(0, self._next_commit - time.monotonic())) if self._has_news() else WAIT_S

    def _has_news(self) -> bool:
        return any(each.has_news for each in self._running())

    def _running(self) -> Iterator[ActiveTask]:
        return (each for each in self._tasks.values() if each.is_running)

    # processing

    def _process(self) -> None:
        now_ms = time.time_ns() // 1_000_000
        for each in list(self._running()):
            task = each.task
            task.now_ms = now_ms
            each.has_news |= each.has_skipped()
            each.has_news |= task.process_ready(BATCH) > 0
            task.punctuate_wall_clock()
            self._send(each)

    def _send(self, active: ActiveTask) -> None:
        while active.task.sent:
            sent, active.task.sent = active.task.sent, []
            active.has_news = True
            self._output.send(sent, active.task.refused)

    def _send_last_words(self) -> None:
        """Send the dead letters of the record with which the program fails; a transaction undoes them."""
        if not self._exactly_once:
            with suppress(KcliError):
                for each in self._running():
                    self._send(each)
                self._output.flush()

    def _commit(self) -> None:
        self._next_commit = time.monotonic() + self._commit_interval_s
        offsets: dict[TopicPartition, tuple[int, str]] = {}
        changed = [each for each in self._running() if each.has_news]
        if not changed:
            return
        for each in changed:
            each.task.commit()
            self._send(each)
            offsets |= each.offsets()
        self._commit_output(offsets)
        for each in changed:
            each.has_news = False
            self._written.update(each.changelogs)
        self._purge(offsets)

    def _commit_output(self, offsets: Mapping[TopicPartition, tuple[int, str]]) -> None:
        while True:
            try:
                self._output.commit(offsets, self._member)
            except RecordRefused as refused:
                self._drop(refused)
            else:
                return

    def _drop(self, refused: RecordRefused) -> None:
        """Have the handler decide on a record that was sent and not taken; a transaction with such a record cannot be
        committed. Raises FailedProcessing."""
        context = ErrorContext(refused.topic, NO_TIMESTAMP, (), None)
        if self._exactly_once or not self._config.handlers.production(context, refused).resumes:
            raise FailedProcessing(str(refused)) from refused

    def _commit_or_undo(self) -> None:
        try:
            self._commit()
        except Undone as undone:
            self._begin_anew(undone)

    def _purge(self, offsets: Mapping[TopicPartition, tuple[int, str]]) -> None:
        """Delete what the application has read of repartition topics."""
        if time.monotonic() < self._next_purge:
            return
        self._next_purge = time.monotonic() + PURGE_INTERVAL_S
        own = {internal_topic(self._application_id, topic) for topic in self._topology.internal_topics}
        delete_before(self._admin, {place: offset for place, (offset, _) in offsets.items() if place.topic in own})

    def _note_ends(self) -> None:
        """Have the ends of changelogs that were written committed, so that a loss is noticed at the next start."""
        if self._ends.is_asking:
            answers = self._ends.answers()
            for each in self._running():
                each.has_news |= each.note_ends(answers)
        elif self._written and time.monotonic() >= self._next_ends:
            self._next_ends = time.monotonic() + ENDS_INTERVAL_S
            self._ends.ask(self._written)
            self._written.clear()

    def _note_last_ends(self) -> None:
        """Commit where the changelogs end, behind the last commit of records."""
        if self._written:
            self._ends.ask(self._written)
        answers = self._ends.answers(wait=True)
        for each in self._running():
            each.has_news |= each.note_ends(answers)
        self._commit_or_undo()

    # tasks

    def _assigned(self, given: list[TopicPartition]) -> None:
        self._view.ask_soon()
        for topic, partition in given:
            task_id = TaskId(self._leaders[topic].number, partition)
            standby = self._standbys.pop(task_id, None)
            self._tasks[task_id] = self._new_task(task_id) if standby is None else standby

    def _revoked(self, taken: list[TopicPartition]) -> None:
        self._commit_or_undo()
        self._close_of(taken)

    def _lost(self, taken: list[TopicPartition]) -> None:
        self._close_of(taken)
        self._begin_anew(Undone("the group has taken partitions back"))

    def _place_standbys(self) -> None:
        """Have the standbys that are due to this instance, by what the group has assigned."""
        members = self._view.look() if self._config.standbys else None
        if members is None or (member_id := self._member.id) not in members:  # librdkafka's threads answer the latter
            return
        is_settled, self._members = members == self._members, members
        owners = {
            TaskId(self._leaders[topic].number, partition): member
            for member, places in members.items()
            for topic, partition in places
            if topic in self._leaders and self._leaders[topic].changelogs
        }
        due = placed(owners, members.keys(), self._config.standbys)
        wanted = {task_id for task_id, keepers in due.items() if member_id in keepers}
        for task_id in wanted - self._standbys.keys() - self._tasks.keys():
            self._open_standby(task_id)
        for task_id in self._standbys.keys() - wanted if is_settled else ():
            if owners.get(task_id, member_id) != member_id:
                self._restoring.remove(self._standbys.pop(task_id).changelogs)

    def _open_standby(self, task_id: TaskId) -> None:
        self._standbys[task_id] = self._new_task(task_id)
        self._restoring.add(self._standbys[task_id])

    def _warm_up(self) -> None:
        """Restore the stores of all tasks before this instance joins others: it goes on at once with those that the
        group gives it, and drops the others when it has its standbys."""
        (group,) = Groups(self._connection).describe([self._application_id])
        if isinstance(group, KcliError) or not group.members:
            return
        for topic, part in self._leaders.items():
            for number in range(self._plan.partitions[topic]) if part.changelogs else ():
                self._open_standby(TaskId(part.number, number))
        places = [place for each in self._standbys.values() for place in each.changelogs]
        while not self._stop.is_set() and not all(map(self._restoring.is_done, places)):
            self._read_changelogs(self._standbys.values(), WAIT_S)

    def _new_task(self, task_id: TaskId) -> ActiveTask:
        task = Task(
            self._topology,
            self._application_id,
            time.time_ns() // 1_000_000,
            names=self._plan.sub_topologies[task_id.sub_topology].names,
            global_stores=self._global.stores,
            partition=task_id.partition,
            handlers=self._config.handlers,
        )
        return active_task(self._plan, task_id, task)

    def _close_of(self, taken: list[TopicPartition]) -> None:
        self._view.ask_soon()
        for topic, partition in taken:
            active = self._tasks.pop(TaskId(self._leaders[topic].number, partition), None)
            if active is not None:
                self._close_task(active)

    def _close_task(self, active: ActiveTask) -> None:
        self._restoring.remove(active.changelogs)
        if active.is_running:
            active.task.close()
            for place in active.paused:
                self._member.resume(place)
            self._member.leave(active.inputs)
            for place in active.inputs:
                del self._inputs[place]

    def _close_tasks(self) -> None:
        for active in self._tasks.values():
            self._close_task(active)
        self._tasks.clear()

    def _begin_anew(self, undone: Undone) -> None:
        """Undo what was not committed, and bring all tasks back to the last commit."""
        logger.warning("%s goes back to its last commit: %s", self._application_id, undone)
        self._output.abort()
        ids = list(self._tasks)
        self._close_tasks()
        self._tasks = {task_id: self._new_task(task_id) for task_id in ids}

    # restoring

    def _restore(self) -> None:
        waiting = [each for each in self._tasks.values() if not each.is_running]
        if not waiting and not self._standbys:
            return
        for each in waiting:
            if each.committed is None:
                each.committed = self._member.committed(each.inputs)
                if each.committed is not None:
                    self._restoring.add(each)
        restores = any(each.changelogs for each in waiting)
        if not self._read_changelogs((*waiting, *self._standbys.values()), WAIT_S if restores else 0):
            return
        for each in waiting:
            if each.committed is not None and all(map(self._restoring.is_done, each.changelogs)):
                self._restoring.remove(each.changelogs)
                each.task.now_ms = time.time_ns() // 1_000_000
                self._member.read(each.start())
                self._inputs |= dict.fromkeys(each.inputs, each)

    def _read_changelogs(self, tasks: Iterable[ActiveTask], timeout_s: float) -> bool:
        """Take new records of the tasks' changelogs into their stores. Return False if one of them had to begin again.
        Raises StreamsError."""
        by_place: dict[tuple[str, int], tuple[ActiveTask, TopicPartition]] = {
            place: (each, place) for each in tasks for place in each.changelogs
        }
        try:
            records = self._restoring.poll(timeout_s)
        except OutOfRange as lost:
            self._restore_anew(by_place[lost.place][0], lost)
            return False
        for topic, partition, offset, timestamp, key, value, _ in records:
            if (found := by_place.get((topic, partition))) is not None:
                found[0].restore(found[1], offset, key, value, timestamp)
        return True

    def _restore_anew(self, active: ActiveTask, lost: OutOfRange) -> None:
        """Begin again with the stores of a task whose changelog has lost records that were not read yet. Raises
        StreamsError if the stores need them."""
        check(self._connection, self._application_id, self._plan, partition_counts(self._connection))
        logger.warning("%s restores the stores of task %s again: %s", self._application_id, active.id, lost)
        self._restoring.remove(active.changelogs)
        if active.id in self._tasks:
            self._tasks[active.id] = self._new_task(active.id)
        else:
            self._open_standby(active.id)


class _GlobalTask:
    """The stores that every task can read, filled from all partitions of their topics."""

    def __init__(
        self, topology: Topology, application_id: str, plan: Plan, connection: Connection, handlers: ErrorHandlers
    ) -> None:
        parts = [part for part in plan.sub_topologies if part.is_global]
        names = {name for part in parts for name in part.names}
        self._task = Task(topology, application_id, time.time_ns() // 1_000_000, names=names, handlers=handlers)
        self._task.start()
        self.stores = self._task.stores
        self._places = [
            TopicPartition(topic, number)
            for part in parts
            for topic in part.topics
            for number in range(plan.partitions[topic])
        ]
        if self._places:
            self._reader = PartitionReader(connection, committed_only=True)
            self._reader.add(self._places)
            while not all(map(self._reader.is_done, self._places)):
                self.update(WAIT_S)

    def update(self, timeout_s: float = 0) -> None:
        """Take the new records of the topics."""
        if self._places:
            for record in self._reader.poll(timeout_s):
                self._task.add(RawRecord._make(record))

    def close(self) -> None:
        """End."""
        self._task.close()
        if self._places:
            self._reader.close()
