"""The connectors and tasks that run on this worker: made to agree with the configurations and with the group.

    wanted    what the group has given to this worker, as it is configured, in its target state
    running   what was started, and with which configuration

A connector that may differ is marked as stale; one turn at a time for a connector stops what is not wanted any longer
or has another configuration, starts what is missing, pauses and resumes. The leader writes the configurations of tasks,
and fences the producers of earlier ones. States are told to Connect's status topic. Source: Worker, WorkerConnector,
AbstractHerder.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from kcli.connect.config import common
from kcli.connect.config.config_def import ConfigError
from kcli.connect.data.errors import ConnectError, class_of
from kcli.connect.engine.turn import trace_of
from kcli.connect.plugins import (
    Connector,
    Engine,
    Line,
    Monitors,
    OffsetStore,
    Plugins,
    PluginType,
    TaskId,
    TaskStart,
    task_class,
)
from kcli.connect.topics.configs import Properties, TargetState
from kcli.connect.topics.statuses import (
    State,
    Status,
    UsedTopic,
    connector_status_record,
    task_status_record,
    topic_record,
)
from kcli.connect.worker.validation import CONNECTORS, connector_named, made
from kcli.errors import KcliError
from kcli.java.hashing import hash_map_order, hash_order, java_hash, map_size, size_for

if TYPE_CHECKING:
    from kcli.connect.worker.group import Group, Leader
    from kcli.connect.worker.settings import Clients
    from kcli.connect.worker.stores import Stores
    from kcli.connect.worker.variables import Variables

log = logging.getLogger("kcli.connect")
T = TypeVar("T")
AGAIN_S: Final = 1.0
AGAIN_S_MAX: Final = 60.0
TRACE_MAX: Final = 1 << 16
"""Characters of an error's trace in a status, so that its record is small enough for any topic."""
CLOSE_S: Final = 20.0
ENDED: Final = frozenset({State.UNASSIGNED, State.FAILED})
"""States that a worker writes only if no other one has what has ended, as Kafka's AbstractHerder puts them safely."""
MONITOR_AGAIN_S: Final = 10.0
MONITOR_MARGIN_S: Final = 0.01


class Parts(NamedTuple):
    """What a worker is made of. executor: for what takes long."""

    stores: Stores
    plugins: Plugins
    clients: Clients
    resolve: Variables
    executor: Executor


@dataclass(slots=True)
class _Running:
    """A connector that was started. connector: None if it failed. target: its state since then. due_s: when the
    connector has work of its own again, by the event loop's clock. failures: how often in a row it gave no
    configurations of tasks; has_failed: whether its state says so. since: the group's generation when it started."""

    properties: Properties
    connector: Connector | None
    target: TargetState
    since: int
    due_s: float = 0.0
    failures: int = 0
    has_failed: bool = False


@dataclass(slots=True)
class _Started:
    """A task that was started, with the configurations of this generation. since: the group's generation then."""

    target: TargetState
    generation: int
    since: int


class Work:
    """What runs on this worker. leader: of its group. worker_id: host:port of its REST API."""

    def __init__(
        self,
        parts: Parts,
        group: Group,
        engine: Engine,
        leader: Leader,
        worker_id: str,
    ) -> None:
        self.tracks_topics = True
        self._stores, self._plugins, self._clients, self._resolve, self._executor = parts
        self._group, self._engine, self._leader, self._worker_id = group, engine, leader, worker_id
        self._loop = asyncio.get_running_loop()
        self._connectors: dict[str, _Running] = {}
        self._tasks: dict[TaskId, _Started] = {}
        self._restart: set[str | TaskId] = set()
        self._dirty: set[str] = set()
        self._is_closing = False
        self._turns: dict[str, asyncio.Task[None]] = {}
        self._later: dict[str, asyncio.TimerHandle] = {}
        self._offsets: OffsetStore = _Offsets(parts.stores)

    # what differs

    def mark_stale(self, connector: str) -> None:
        """A connector may not run as it should: look, and mend that."""
        if self._is_closing:
            return
        self._dirty.add(connector)
        if connector not in self._turns:
            self._turns[connector] = self._loop.create_task(self._turn(connector))

    def mark_all_stale(self) -> None:
        """Look at all connectors."""
        for name in {*self._stores.configs.connectors, *self._connectors, *(each.connector for each in self._tasks)}:
            self.mark_stale(name)

    def restart(self, connector: str, *, whole: bool, tasks: Iterable[TaskId] = ()) -> None:
        """Restart a connector if `whole`, and tasks of it."""
        if whole:
            self._restart.add(connector)
        self._restart.update(tasks)
        self.mark_stale(connector)

    async def settled(self, connector: str) -> None:
        """Wait until a connector runs as it should, or an error has kept it from that; then it is tried again later."""
        while turn := self._turns.get(connector):
            await asyncio.shield(turn)

    async def close(self) -> None:
        """Stop all tasks, and say that they are nobody's."""
        self._is_closing = True
        self._dirty.clear()
        turns = list(self._turns.values())
        if turns:
            await asyncio.wait(turns, timeout=CLOSE_S)  # what a turn has the engine do would go on if it was cancelled
        for turn in turns:
            turn.cancel()
        await asyncio.gather(*turns, return_exceptions=True)
        for name in {each.connector for each in self._tasks}:
            await self._stop_tasks([each for each in self._tasks if each.connector == name])
        for name in self._connectors:
            self._write_state(name, State.UNASSIGNED)
        await self._call(self._engine.close)

    async def _turn(self, connector: str) -> None:
        while connector in self._dirty:
            self._dirty.discard(connector)
            try:
                await self._reconcile(connector)
            except KcliError as error:
                log.warning("connector %s: %s", connector, self._resolve.hide(str(error)))
                self._mark_later(connector, AGAIN_S)
            except Exception as error:  # noqa: BLE001 (a bug of ours ends no worker)
                # not log.exception: a traceback may have values of config providers
                log.error("connector %s: %s", connector, self._resolve.hide(trace_of(error)))  # noqa: TRY400
                self._mark_later(connector, AGAIN_S)
        del self._turns[connector]

    def _mark_later(self, connector: str, delay_s: float) -> None:
        known = self._later.pop(connector, None)
        if known is not None:
            known.cancel()
        self._later[connector] = self._loop.call_later(delay_s, self.mark_stale, connector)

    def has_tasks(self, connector: str) -> bool:
        """Return whether tasks of a connector are started here."""
        return any(each.connector == connector for each in self._tasks)

    # how that is mended

    async def _reconcile(self, name: str) -> None:
        configs = self._stores.configs
        properties = configs.connectors.get(name)
        target = configs.target_states.get(name, TargetState.STARTED)
        is_mine = properties is not None and name in self._group.connectors()
        restart = name in self._restart
        self._restart.discard(name)
        await self._stop_stale(name, target)
        running = self._connectors.get(name)
        if running is not None and (not is_mine or restart or running.properties != properties):
            del self._connectors[name]
            if not is_mine and properties is not None:
                self._write_state(name, State.UNASSIGNED, since=running.since)
            running = None
        if is_mine and properties is not None:
            if running is None or running.target is not target:
                running = await self._start(name, properties, target)
            if target is TargetState.STARTED and running.connector is not None:
                await self._monitor(name, running, running.connector)
            if target is TargetState.STARTED and running.connector is not None:
                await self._configure_tasks(name, running, running.connector)
        await self._start_tasks(name, target)

    async def _start(self, name: str, properties: Properties, target: TargetState) -> _Running:
        known = self._connectors.get(name)
        running = _Running(properties, None if known is None else known.connector, target, self._group.generation)
        self._connectors[name] = running
        try:
            if running.connector is None:
                running.connector = await self._call(self._made, properties)
        except Exception as error:  # noqa: BLE001 (whatever a connector raises is its state)
            self._write_state(name, State.FAILED, _trace(error))
        else:
            states = {TargetState.PAUSED: State.PAUSED, TargetState.STOPPED: State.STOPPED}
            self._write_state(name, states.get(target, State.RUNNING))
        return running

    def _made(self, properties: Properties) -> Connector:
        connector = made(self._plugins, self._resolve, properties)
        if connector.TYPE is PluginType.SOURCE and self._clients.limits.creates_topics:
            common.check_topic_creation(self._resolve(properties))
        return connector

    async def _monitor(self, name: str, running: _Running, connector: Connector) -> None:
        """Have a connector do its own work, if it has any and it is due. One that cannot do it at first has failed."""
        now_s = self._loop.time()
        if not isinstance(connector, Monitors) or now_s < running.due_s:
            return
        is_first = not running.due_s
        try:
            interval_s = await self._call(connector.monitor)
        except Exception as error:  # noqa: BLE001 (whatever a connector raises is its state)
            if is_first:
                running.connector = None
                self._write_state(name, State.FAILED, _trace(error))
                return
            log.warning("connector %s: %s", name, self._resolve.hide(str(error)))
            interval_s = MONITOR_AGAIN_S
        running.due_s = float("inf") if interval_s is None else now_s + interval_s
        if interval_s is not None:
            self._loop.call_later(interval_s + MONITOR_MARGIN_S, self.mark_stale, name)

    async def _configure_tasks(self, name: str, running: _Running, connector: Connector) -> None:
        """Have the leader write the configurations of the tasks, if they differ from those that there are. A connector
        that gives none is asked again; until it has tasks it has failed."""
        properties, configs = running.properties, self._stores.configs
        try:
            tasks = await self._call(self._task_configs, name, connector, properties)
        except Exception as error:  # noqa: BLE001 (whatever a connector raises is its state)
            again_s = min(AGAIN_S * 2**running.failures, AGAIN_S_MAX)
            running.failures += 1
            self._mark_later(name, again_s)
            if not configs.task_ids(name):
                running.has_failed = True
                self._write_state(name, State.FAILED, _trace(error))
            else:
                log.warning("connector %s keeps its tasks: %s", name, self._resolve.hide(str(error)))
            return
        running.failures = 0
        if running.has_failed:
            running.has_failed = False
            self._write_state(name, State.RUNNING)
        if configs.connectors.get(name) != properties or configs.target_states.get(name) is not TargetState.STARTED:
            return  # it was changed, stopped or deleted meanwhile: another turn is due
        known = [configs.tasks.get(each, {}) for each in configs.task_ids(name)]
        if name not in configs.inconsistent and known == tasks and configs.applied.get(name) == properties:
            return
        await self._leader.put_tasks(name, tasks)

    def _task_configs(self, name: str, connector: Connector, properties: Properties) -> list[Properties]:
        options = common.CONNECTOR.parse(properties)
        tasks_max = options["tasks.max"]
        assert isinstance(tasks_max, int), tasks_max
        tasks = [dict(each) for each in connector.task_configs(tasks_max)]
        if len(tasks) > tasks_max and options["tasks.max.enforce"]:
            raise ConnectError(
                f"The connector {name} has generated {len(tasks)} tasks, which is greater than {tasks_max}, the "
                "maximum number of tasks it is configured to create. This behaviour should be considered a bug and is "
                "disallowed. If necessary, it can be permitted by reconfiguring the connector with "
                "'tasks.max.enforce' set to false; however, this option will be removed in a future release of Kafka "
                "Connect."
            )
        secret = [key for key, value in properties.items() if value is not None and "${" in value]
        for task in tasks:
            task["task.class"] = task_class(connector)
            if connector.TYPE is PluginType.SINK:
                task.update({key: value for key in ("topics", "topics.regex") if (value := properties.get(key))})
            task.update({key: properties[key] or "" for key in secret if key in task})
        own = [key for key in properties if key != "task.class"]
        return [{key: task[key] for key in copied_map_order(own, list(task))} for task in tasks]

    async def _stop_stale(self, name: str, target: TargetState) -> None:
        wanted = set() if target is TargetState.STOPPED else self._wanted(name)
        stale = [
            task
            for task, started in self._tasks.items()
            if task.connector == name
            and (task not in wanted or task in self._restart or not self._has_same_configs(task, started))
        ]
        await self._stop_tasks(stale)
        self._restart.difference_update(stale)

    def _wanted(self, name: str) -> set[TaskId]:
        configs = self._stores.configs
        if name not in configs.connectors:
            return set()
        mine = set(self._group.tasks())
        return {each for each in configs.task_ids(name) if each in mine}

    def _has_same_configs(self, task: TaskId, started: _Started) -> bool:
        return self._stores.configs.generations.get(task.connector) == started.generation

    async def _stop_tasks(self, tasks: Sequence[TaskId]) -> None:
        if not tasks:
            return
        await self._call(self._engine.stop, tasks)
        for task in tasks:
            started = self._tasks.pop(task)
            if task in self._stores.configs.tasks:
                self._write_state(task, State.UNASSIGNED, since=started.since)

    async def _start_tasks(self, name: str, target: TargetState) -> None:
        if target is TargetState.STOPPED:
            return
        configs = self._stores.configs
        changed = [each for each, started in self._tasks.items() if each.connector == name and started.target != target]
        for task in changed:
            self._tasks[task].target = target
        if changed:
            await self._call(self._engine.pause if target is TargetState.PAUSED else self._engine.resume, changed)
        starts = []
        for task in await self._new_tasks(name, target):
            properties = configs.applied.get(name, configs.connectors[name])
            self._tasks[task] = _Started(target, configs.generations[name], self._group.generation)
            self._restart.discard(task)
            try:
                starts.append(self._task_start(task, properties, configs.tasks[task], configs.task_counts[name]))
            except Exception as error:  # noqa: BLE001 (whatever a connector raises is its state)
                self._write_state(task, State.FAILED, _trace(error))
        if starts:
            is_paused = target is TargetState.PAUSED
            await self._call(lambda: self._engine.start(starts, self._offsets, _Listener(self), paused=is_paused))

    async def _new_tasks(self, name: str, target: TargetState) -> list[TaskId]:
        """Return the tasks to start, once no task of earlier configurations runs or writes."""
        while True:
            await self._stop_stale(name, target)
            new = sorted(self._wanted(name) - self._tasks.keys())
            if not new or not self._may_be_written_by_others(name):
                return new
            await self._leader.fence(name)

    def _may_be_written_by_others(self, name: str) -> bool:
        """Return whether tasks of earlier configurations may still write in transactions for a connector."""
        configs = self._stores.configs
        if not self._clients.has_exactly_once_sources or name not in configs.pending_fencing:
            return False
        try:
            whole = self._resolve(configs.applied.get(name, configs.connectors[name]))
            return connector_named(self._plugins, whole.get("connector.class", "")).type is PluginType.SOURCE
        except ConnectError:
            return False  # its tasks cannot start

    async def is_current(self, task: TaskId) -> bool:
        """Return whether a task is still to run with the configurations with which it was started, among all that were
        written before. Raises KcliError."""
        await self._stores.refresh()
        started = self._tasks.get(task)
        return started is not None and self._has_same_configs(task, started) and task in self._group.tasks()

    def _task_start(self, task: TaskId, properties: Properties, own: Properties, count: int) -> TaskStart:
        whole = self._resolve(properties)
        kind = connector_named(self._plugins, whole.get("connector.class", "")).type
        return TaskStart(
            task,
            count,
            kind,
            self._clients.with_converters(whole),
            self._resolve(own),
            *self._clients.of_task(task, kind, whole),
            self._clients.limits,
        )

    async def _call(self, work: Callable[..., T], *args: object) -> T:
        return await self._loop.run_in_executor(self._executor, work, *args)

    # what is told

    def _write_state(
        self, what: str | TaskId, state: State, trace: str | None = None, since: int | None = None
    ) -> None:
        """Write a state. since: the generation in which what has stopped was started. One that ends something is not
        written over what another worker says that has it since then."""
        has_version = state is not State.RESTARTING and (isinstance(what, str) or state is not State.UNASSIGNED)
        version = self._version(what if isinstance(what, str) else what.connector) if has_version else None
        shown = None if trace is None else self._resolve.hide(trace)[:TRACE_MAX]
        status = Status(state, self._worker_id, self._group.generation, shown, version)
        make = connector_status_record if isinstance(what, str) else task_status_record
        is_lost = since is not None and since <= self._group.lost_generation
        held = self._group.lost_generation if is_lost else status.generation
        is_due = partial(self._stores.statuses.may_replace, what, self._worker_id, held) if state in ENDED else None
        refreshes = is_lost or state is State.FAILED  # what is revoked is nobody's until it is stopped here
        self._stores.write_status(make(what, status), is_due, refreshes=refreshes)  # type: ignore[arg-type]

    def _version(self, connector: str) -> str | None:
        name = self._stores.configs.connectors.get(connector, {}).get("connector.class") or ""
        found = self._plugins.named(name, *CONNECTORS)
        return found[0].version if len(found) == 1 else None

    def note_state(self, task: TaskId, state: State, trace: str | None = None) -> None:
        """Note what the engine says about a task that is still this worker's, and not about to be restarted: that one
        may have been fenced."""
        if (started := self._tasks.get(task)) is not None and self._has_same_configs(task, started):
            self._write_state(task, state, trace, started.since)

    def note_topic(self, task: TaskId, topic: str) -> None:
        """Note a topic that a connector uses."""
        known = self._stores.statuses.topics.get(task.connector, {})
        if self.tracks_topics and topic not in known and task in self._tasks:
            self._stores.write_status(topic_record(UsedTopic(topic, task, int(time.time() * 1000))))

    def log(self, line: Line) -> None:
        """Write a line about a task to the worker's log. Callable from any thread."""
        logging.getLogger(line.logger).log(line.level, "%s", self._resolve.hide(line.text))

    def call_soon(self, work: Callable[..., None], *args: object) -> None:
        """Call a function in the worker's event loop, from any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(work, *args)

    def result_of(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of a coroutine in the worker's event loop, from any other thread. Raises what it raises."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


class _Listener:
    """The listener that an engine calls from its threads."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def running(self, task: TaskId) -> None:
        self._work.call_soon(self._work.note_state, task, State.RUNNING)

    def paused(self, task: TaskId) -> None:
        self._work.call_soon(self._work.note_state, task, State.PAUSED)

    def failed(self, task: TaskId, trace: str) -> None:
        self._work.call_soon(self._work.note_state, task, State.FAILED, trace)

    def used_topic(self, task: TaskId, topic: str) -> None:
        self._work.call_soon(self._work.note_topic, task, topic)

    def logged(self, task: TaskId, line: Line) -> None:  # noqa: ARG002 (the line names it where that matters)
        self._work.log(line)

    def is_current(self, task: TaskId) -> bool:
        return self._work.result_of(self._work.is_current(task))


class _Offsets:
    """The offsets of sources, as an engine sees them."""

    def __init__(self, stores: Stores) -> None:
        self.topic = stores.offsets_topic
        self.read, self.write = stores.read_offsets, stores.write_offsets


def _trace(error: Exception) -> str:
    if isinstance(error, ConfigError):
        return f"org.apache.kafka.common.config.ConfigException: {error}\n"
    return f"{ConnectError.java_class if isinstance(error, KcliError) else class_of(error)}: {error}\n"


def copied_map_order(copied: Sequence[str], keys: Sequence[str]) -> list[str]:
    """Return keys in the order of a Java HashMap that was made as a copy of one with the keys `copied`."""
    size = map_size(len(keys), size_for(int(len(copied) / 0.75 + 1)))
    return hash_order(
        list(dict.fromkeys([*hash_map_order([each for each in copied if each in keys]), *keys])), java_hash, size
    )
