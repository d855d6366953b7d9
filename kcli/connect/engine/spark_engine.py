"""SparkEngine: the tasks of all connectors of a worker, in one Spark session.

    waiting -> turn (a query of the connector, with each of its tasks that has work) -> outcomes -> waiting

Each connector has a thread, which looks for work every LOOK_S, and starts the query when there is some. Spark starts
with the first task. A task's state is RUNNING, PAUSED or FAILED; a task that has failed waits for `start`.

stop    the running turn ends at its next poll, by a file that appears; Spark ends it after the worker's
        task.shutdown.graceful.timeout.ms
driver  what turns bring back is stored here: offsets of sources whose worker has no exactly-once support, and the
        group's offsets of sinks. A turn that is lost with its worker begins again where these are
claim   before its first turn a source's task with a transactional id becomes its only producer here, and has its turn
        if it is still to run then
again   an error that passes, as when no broker answers, interrupts a task for AGAIN_S; what was not stored is stored
        before its next turn. A JVM that has ended is replaced, also if that takes several tries
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kcli.client.groups import Groups
from kcli.connect.data.errors import ConnectError, RetriableError
from kcli.connect.engine.clients import become_producer, cluster_of, connection_to
from kcli.connect.engine.offsets import partition_key
from kcli.connect.engine.passing import is_passing
from kcli.connect.engine.query import start_query
from kcli.connect.engine.sink_turn import Topics
from kcli.connect.engine.tasks import Rest
from kcli.connect.engine.turn import AGAIN_S, LOGGER, Outcome, Turn, interruption_line, trace_of
from kcli.connect.engine.watching import Watch
from kcli.connect.plugins import (
    Line,
    Listener,
    Offset,
    OffsetStore,
    Partition,
    Plugin,
    Plugins,
    PluginType,
    TaskId,
    TaskStart,
)
from kcli.errors import KcliError
from kcli.export.session import JVM_ENDED, QUICK_START, SparkFailed, SparkSettings, cause, spark_session
from kcli.pipelines.cluster import Cluster
from kcli.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LOOK_S = 0.5
STOP_S = 8.0
START_ATTEMPTS = 3
"""How often Spark is started for the first time before tasks fail: its JVM may be killed before it is ready."""
SLOTS = 16
"""How many tasks of a local Spark run at the same time: they wait more than they work."""
NEVER = Rest(until_s=float("inf"))
"""The rest of a task that the worker is about to stop."""
MEMORY = {"spark.driver.memory": "512m"}
"""Spark starts with no less, and takes no -Xmx among the options of its JVM."""
SMALL = "-XX:MaxNewSize=48m -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=20 -XX:ReservedCodeCacheSize=96m"
"""The JVM only schedules: its heap is to shrink when it has nothing to do."""


def local_settings(settings: SparkSettings) -> SparkSettings:
    """Return settings with more slots than cores for a local master, and with a small, quickly started JVM."""
    if not settings.is_one_process:
        return settings
    java = {name: f"{text} {SMALL}" for name, text in QUICK_START.items()}
    return SparkSettings(f"local[{SLOTS}]", {**java, **MEMORY, **settings.conf}, settings.environment, settings.warn)


class SparkEngine:
    """Runs tasks of connectors (kcli.connect.plugins.Engine). plugins: the connectors that there are."""

    def __init__(self, plugins: Plugins, settings: SparkSettings | None = None, *, session: SparkSession | None = None):
        """settings: how to start Spark. session: a session that is there already, and is not stopped."""
        self.plugins, self._settings = plugins, local_settings(settings or SparkSettings())
        self._session, self._is_own = session, session is None
        self._has_started, self._starts_left = False, START_ATTEMPTS
        self._stack = ExitStack()
        self._lock, self._starting = threading.Lock(), threading.Lock()
        self._runs: dict[str, _Run] = {}
        self.scratch = Path(tempfile.mkdtemp(prefix="kcli-connect-"))

    def start(self, tasks: Sequence[TaskStart], offsets: OffsetStore, listener: Listener, *, paused: bool) -> None:
        """Start tasks of one connector. A task that cannot start is told to the listener."""
        if not tasks:
            return
        with self._lock:
            name = tasks[0].id.connector
            run = self._runs.get(name)
            if run is None:
                run = self._runs[name] = _Run(self, name, offsets)
        run.start(tasks, listener, paused=paused)

    def pause(self, tasks: Sequence[TaskId]) -> None:
        """Pause tasks of one connector; what they have done is committed when this returns."""
        for run in self._of(tasks):
            run.pause({each.task for each in tasks})

    def resume(self, tasks: Sequence[TaskId]) -> None:
        """Resume tasks of one connector."""
        for run in self._of(tasks):
            run.resume({each.task for each in tasks})

    def stop(self, tasks: Sequence[TaskId]) -> None:
        """Stop tasks of one connector, started or not; nothing of them runs when this returns."""
        for run in self._of(tasks):
            run.stop({each.task for each in tasks})
            with self._lock:
                if run.is_empty:
                    run.close()
                    self._runs.pop(run.name, None)

    def close(self) -> None:
        """Stop all tasks, and Spark."""
        with self._lock:
            runs, self._runs = list(self._runs.values()), {}
        for run in runs:
            run.close()
        self._stack.close()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def spark(self) -> SparkSession:
        """Return the session, which is started now if it is not there. Raises SparkFailed, UsageError, NotInstalled;
        RetriableError if Spark does not start, but has started before or is tried fewer than START_ATTEMPTS times."""
        with self._starting:
            if self._session is None:
                logging.getLogger("py4j").setLevel(logging.WARNING)  # it tells of each call
                try:
                    self._session = self._stack.enter_context(spark_session(self._settings))
                except SparkFailed as error:
                    self._starts_left -= 1
                    if self._has_started or self._starts_left > 0:
                        raise RetriableError(str(error)) from error
                    raise
                self._has_started = True
            return self._session

    def forget(self, session: SparkSession | None) -> None:
        """Have the next turn start Spark anew: the JVM of this session has ended."""
        with self._starting:
            if self._is_own and session is self._session:
                self._session = None
                self._stack.close()

    def has_left(self, session: SparkSession | None) -> bool:
        """Return whether a session is no longer used, as another connector has found that its JVM has ended. PySpark
        may raise anything there."""
        with self._starting:
            return self._is_own and session is not None and session is not self._session

    def plugin(self, start: TaskStart) -> Plugin:
        """Return the class of a task's connector. Raises ConnectError."""
        name = start.connector.get("connector.class", "")
        found = self.plugins.named(name, start.type)
        if len(found) != 1:
            raise ConnectError(f"Failed to find any class that implements Connector and which name matches {name}")
        return found[0]

    def _of(self, tasks: Sequence[TaskId]) -> list[_Run]:
        with self._lock:
            return [self._runs[name] for name in {each.connector for each in tasks} if name in self._runs]


@dataclass
class _Task:
    """A task, and where it stands. failed: it has ended with an error. unstored, uncommitted: what turns have done of
    a source and of a sink. interruption: why its last turn was interrupted. waits: why a source gives nothing."""

    start: TaskStart
    plugin: Plugin
    listener: Listener
    cluster: Cluster
    is_paused: bool
    failed: bool = False
    rest: Rest = field(default_factory=Rest)
    offsets: dict[str, Offset] | None = None
    producer: tuple[int, int] | None = None
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    begun: dict[str, Offset] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)
    topics: set[str] = field(default_factory=set)
    unstored: dict[str, tuple[Partition, Offset]] = field(default_factory=dict)
    uncommitted: dict[TopicPartition, int] = field(default_factory=dict)
    retries: int = 0
    interruption: str | None = None
    waits: str | None = None

    @property
    def is_source(self) -> bool:
        return self.start.type is PluginType.SOURCE


class _Run:
    """The tasks of one connector that this worker has. lock: held while a turn runs, so that a task is changed between
    its turns only."""

    def __init__(self, engine: SparkEngine, name: str, offsets: OffsetStore) -> None:
        self._engine, self.name, self._store = engine, name, offsets
        self._tasks: dict[int, _Task] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._closed = threading.Event()
        self._stop_file = engine.scratch / f"stop-{id(self):x}"
        self._query: StreamingQuery | None = None
        self._watch: Watch | None = None
        self._turns = 0
        self._between_turns = _Interruption(self._lock, self._stop_file, self._wake, self._interrupt)
        self._thread = threading.Thread(target=self._loop, name=f"connect-{name}", daemon=True)

    @property
    def is_empty(self) -> bool:
        return not self._tasks

    def start(self, tasks: Sequence[TaskStart], listener: Listener, *, paused: bool) -> None:
        self._between_turns.patience_s = tasks[0].limits.stop_s
        with self._between_turns:
            for start in tasks:
                try:
                    self._tasks[start.id.task] = self._made(start, listener, is_paused=paused)
                except Exception as error:  # noqa: BLE001 (a task that cannot start is told to the listener)
                    listener.failed(start.id, trace_of(error))
                else:
                    (listener.paused if paused else listener.running)(start.id)
        if not self._thread.ident:
            self._thread.start()

    def pause(self, numbers: set[int]) -> None:
        with self._between_turns:
            for task in self._of(numbers):
                if not task.failed:
                    task.is_paused = True
                    task.listener.paused(task.start.id)

    def resume(self, numbers: set[int]) -> None:
        with self._between_turns:
            for task in self._of(numbers):
                if not task.failed:
                    task.is_paused, task.rest, task.offsets = False, Rest(), None
                    task.listener.running(task.start.id)

    def stop(self, numbers: set[int]) -> None:
        with self._between_turns:
            for number in numbers:
                self._tasks.pop(number, None)

    def close(self) -> None:
        self._closed.set()
        with self._between_turns:
            self._tasks.clear()
        if self._thread.ident and self._thread is not threading.current_thread():
            self._thread.join(STOP_S)

    def _made(self, start: TaskStart, listener: Listener, *, is_paused: bool) -> _Task:
        plugin = self._engine.plugin(start)
        client = start.producer if start.type is PluginType.SOURCE else start.consumer
        return _Task(start, plugin, listener, cluster_of(client), is_paused)

    def _of(self, numbers: Iterable[int]) -> list[_Task]:
        return [self._tasks[number] for number in numbers if number in self._tasks]

    def _interrupt(self) -> None:
        query = self._query
        if query is not None:
            with suppress(Exception):  # a query that has ended meanwhile
                query.stop()

    # the connector's thread

    def _loop(self) -> None:
        while not self._closed.is_set():
            self._wake.clear()
            with self._lock:
                try:
                    ready = [] if self._stop_file.exists() else self._ready()
                    if ready and not self._closed.is_set():
                        self._turn(ready)
                except Exception as error:  # noqa: BLE001 (the thread goes on; tasks that do not run do not say RUNNING)
                    ready = []
                    for task in self._tasks.values():
                        self._log(task, logging.ERROR, trace_of(error))
                    for task in self._able():
                        self._fail(task, trace_of(error))
            if not ready:
                self._wake.wait(LOOK_S)
            elif self._stop_file.exists():
                time.sleep(0.01)  # a thread that waits for the lock gets it
        if self._watch is not None:
            self._watch.close()

    def _able(self) -> list[_Task]:
        return [each for each in self._tasks.values() if not (each.is_paused or each.failed)]

    def _ready(self) -> list[_Task]:
        able = self._able()
        if not able:
            return []
        if self._watch is None:
            first = able[0]
            is_source = first.is_source
            self._watch = Watch(None if is_source else Topics.of(first.start.connector).partitions)
        if self._watch.has_new_partitions(able[0].cluster):
            return able
        return [each for each in able if self._watch.has_work(each.rest, committed=_is_committed(each))]

    def _turn(self, tasks: Sequence[_Task]) -> None:
        """Run a turn of tasks, and note what comes of it."""
        tasks = [each for each in tasks if self._is_prepared(each)]
        if not tasks:
            return
        outcomes: list[Outcome] = []
        session: SparkSession | None = None
        try:
            turns = [self._turn_of(each) for each in tasks]
            self._turns += 1
            session = self._engine.spark()
            self._query = start_query(session, f"{self.name} {self._turns}", turns, outcomes.extend)
            try:
                self._query.awaitTermination()
            finally:
                self._query = None
        except Exception as error:  # noqa: BLE001 (whatever Spark raises: the tasks that have no outcome have failed)
            if self._stop_file.exists():
                for task in tasks:
                    self._log(task, logging.INFO, f"a turn was ended: {cause(error) or error}")
            else:
                done = {each.id for each in outcomes}
                reason = cause(error) or str(error)
                if self._engine.has_left(session):
                    reason = JVM_ENDED
                elif reason == JVM_ENDED:
                    self._engine.forget(session)
                for task in tasks:
                    if task.start.id not in done:
                        self._end_turn(task, error, reason)
        for outcome in outcomes:
            self._note_outcome(self._tasks[outcome.id.task], outcome)
        for task in tasks:
            if task.start.id not in {each.id for each in outcomes}:
                task.offsets, task.producer = None, None

    def _is_prepared(self, task: _Task) -> bool:
        """Store what the task's earlier turns have done, and become the only producer of its transactional id; return
        whether it may have a turn."""
        try:
            self._store_all(task)
            if not task.is_source or task.producer is not None or "transactional.id" not in task.start.producer:
                return True
            producer = become_producer(task.start.producer)
            if task.listener.is_current(task.start.id):
                task.producer = producer
                return True
            task.rest = NEVER
        except Exception as error:  # noqa: BLE001 (an error of one task is not the others')
            self._end_turn(task, error)
        return False

    def _end_turn(self, task: _Task, error: Exception, reason: str | None = None) -> None:
        """Have a task go on later after an error that passes, and fail after another one. reason: of an error that is
        not kcli's own."""
        if is_passing(error) or reason == JVM_ENDED:
            self._again(task, reason or str(error))
        else:
            self._fail(task, trace_of(error) if reason is None or isinstance(error, KcliError) else reason)

    def _again(self, task: _Task, reason: str) -> None:
        """Have a task go on later, where its stored offsets are."""
        if reason and reason != task.interruption:
            task.listener.logged(task.start.id, interruption_line(task.start.id, reason))
        task.interruption, task.offsets = reason, None
        if task.rest.until_s is None or task.rest.until_s < time.time():
            task.rest = Rest(until_s=time.time() + AGAIN_S)

    def _turn_of(self, task: _Task) -> Turn:
        if task.is_source and self._store.topic is None and task.offsets is None:
            task.offsets = {partition_key(each): offset for each, offset in self._store.read(self.name)}
        return Turn(
            task.start,
            task.plugin,
            self._engine.plugins,
            task.cluster,
            str(self._stop_file),
            task.offsets,
            self._store.topic if task.is_source else None,
            task.producer,
            task.positions,
            task.begun,
            task.retries,
            task.state,
            task.waits,
        )

    def _note_outcome(self, task: _Task, outcome: Outcome) -> None:
        """Store the offsets of a turn, log its lines, and tell the listener of its topics and its error."""
        for line in outcome.lines:
            task.listener.logged(task.start.id, line)
        if outcome.known is not None:
            task.offsets = outcome.known
        if task.offsets is not None:
            task.offsets |= {name: offset for name, (_, offset) in outcome.offsets.items()}
        if outcome.starts:
            task.positions = {**outcome.starts, **outcome.positions}
        if not outcome.stored:
            task.unstored |= outcome.offsets
        task.uncommitted |= outcome.positions
        task.begun |= outcome.begun
        task.producer, task.rest = outcome.producer, outcome.rest
        task.retries, task.state, task.waits = outcome.retries, outcome.state, outcome.waits
        if outcome.interruption is not None:
            self._again(task, outcome.interruption)
        else:
            task.interruption = None
        try:
            self._store_all(task)
        except Exception as error:  # noqa: BLE001 (an error of one task is not the others')
            self._end_turn(task, error)
        for topic in sorted(outcome.topics - task.topics):
            task.listener.used_topic(task.start.id, topic)
        task.topics |= outcome.topics
        if outcome.trace is not None:
            self._fail(task, outcome.trace)

    def _store_all(self, task: _Task) -> None:
        """Store what turns have done, and is not stored yet. Raises KcliError."""
        if task.unstored:
            self._store.write(self.name, task.unstored.values())
            task.unstored = {}
        if task.uncommitted:
            for each in Groups(connection_to(task.cluster)).commit(task.start.consumer["group.id"], task.uncommitted):
                if isinstance(each, KcliError):
                    raise each
            task.uncommitted = {}

    def _log(self, task: _Task, level: int, text: str) -> None:
        """Have the worker log a line about a task."""
        task.listener.logged(task.start.id, Line(LOGGER, level, f"{task.start.id} {text}"))

    def _fail(self, task: _Task, trace: str) -> None:
        task.failed = True
        task.listener.failed(task.start.id, trace)


class _Interruption:
    """A context between two turns of a connector: has the running turn end, and holds the next one off until the last
    of several threads has left it. patience_s: how long the turn may take to end, before Spark ends it."""

    def __init__(
        self, lock: threading.Lock, stop_file: Path, wake: threading.Event, interrupt: Callable[[], None]
    ) -> None:
        self._lock, self._stop_file, self._wake, self._interrupt = lock, stop_file, wake, interrupt
        self._counting, self._count = threading.Lock(), 0
        self.patience_s = STOP_S

    def __enter__(self) -> None:
        with self._counting:
            self._count += 1
            self._stop_file.touch()
        if not self._lock.acquire(timeout=self.patience_s):
            self._interrupt()
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        with self._counting:
            self._count -= 1
            if not self._count:
                self._stop_file.unlink(missing_ok=True)
        self._lock.release()
        self._wake.set()


def _is_committed(task: _Task) -> bool:
    return task.start.consumer.get("isolation.level") == "read_committed"
