"""What the REST API does: reads of configurations, statuses and offsets, and changes of them.

    reads                 of the replayed state, by every worker
    pause, resume         a target state, written by every worker
    create, alter, delete, stop, restart with tasks, offsets    by the leader; another worker forwards the request to it
    restart of one        by the worker that has it; the leader knows which

A change is written to Connect's topics and acted upon when it is replayed, by all workers alike. Source:
AbstractHerder, StandaloneHerder, DistributedHerder.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kcli.connect.config.config_def import ConfigError
from kcli.connect.data.errors import ConnectError
from kcli.connect.plugins import Connector, PluginType, TaskId
from kcli.connect.topics.configs import (
    ConnectorChanged,
    ConnectorRemoved,
    Event,
    LoggerLevel,
    Properties,
    Restart,
    SessionKeyChanged,
    TargetState,
    TargetStateChanged,
    TasksChanged,
    connector_record,
    logger_record,
    restart_record,
    target_state_record,
)
from kcli.connect.topics.statuses import (
    State,
    Status,
    connector_status_record,
    task_status_record,
    topic_tombstone,
)
from kcli.connect.worker.errors import BadRequest, Conflict, NotFound, connector_not_found
from kcli.connect.worker.loggers import LEVELS, Loggers
from kcli.connect.worker.offsets import Offsets, SinkOffsets, alter_source, offsets_json
from kcli.connect.worker.validation import ConfigInfos, UnknownConnector, connector_named, made, validate
from kcli.connect.worker.work import copied_map_order
from kcli.errors import KcliError

if TYPE_CHECKING:
    from kcli.connect.worker.group import Group
    from kcli.connect.worker.leading import Leading
    from kcli.connect.worker.work import Parts, Work

log = logging.getLogger("kcli.connect")
T = TypeVar("T")
NAME_BYTES_MAX: Final = (1 << 15) - 1


class NotHere(Exception):
    """Another worker must do this. url: its REST address; None if it is not known now."""

    def __init__(self, url: str | None) -> None:
        super().__init__(url)
        self.url = url


class Herder:
    """The operations of the REST API."""

    def __init__(
        self,
        parts: Parts,
        group: Group,
        work: Work,
        leading: Leading,
    ) -> None:
        self.loggers = Loggers()
        self.waits_for_tasks = False
        """Whether a connector's tasks are configured before its creation is answered, as a standalone worker does."""
        self._stores, self._plugins, self._clients, self._resolve, self._executor = parts
        self._group, self._work, self._leading = group, work, leading
        self._writing = asyncio.Lock()

    def replayed(self, event: Event) -> None:
        """Act upon a replayed change."""
        match event:
            case ConnectorChanged(name) | TargetStateChanged(name):
                self._work.mark_stale(name)
                self._group.work_changed()
            case ConnectorRemoved(name) | TasksChanged(name):
                self._group.work_changed()
                self.forget()
                self._work.mark_stale(name)
            case Restart():
                self._restart_own(event)
            case LoggerLevel(logger, level) if level.upper() in LEVELS:
                self.loggers.set(logger, level.upper(), _now_ms())
            case LoggerLevel() | SessionKeyChanged():
                pass

    def forget(self) -> None:
        """As the leader, remove the statuses of connectors and tasks that are no more."""
        if not self._group.is_leader:
            return
        configs, statuses = self._stores.configs, self._stores.statuses
        gone = Status(State.DESTROYED, "", self._group.generation)
        for name, tasks in list(statuses.tasks.items()):
            known = {each.task for each in configs.task_ids(name)} if name in configs.connectors else set()
            if name in configs.inconsistent:
                continue
            for number in [each for each in tasks if each not in known]:
                self._stores.write_status(task_status_record(TaskId(name, number), gone))
        for name in [each for each in statuses.connectors if each not in configs.connectors]:
            self._stores.write_status(connector_status_record(name, gone))

    def hidden(self, text: str) -> str:
        """Return a text with [hidden] in place of every value that a config provider has given."""
        return self._resolve.hide(text)

    # reads

    def names(self) -> list[str]:
        """Return the names of all connectors."""
        return list(self._stores.configs.connectors)

    def config(self, name: str) -> Properties:
        """Return a connector's configuration. Raises NotFound."""
        found = self._stores.configs.connectors.get(name)
        if found is None:
            raise connector_not_found(name)
        return found

    def info(self, name: str) -> dict[str, Any]:
        """Return a connector with its configuration and tasks. Raises NotFound."""
        properties = self.config(name)
        return {
            "name": name,
            "config": properties,
            "tasks": [_task_json(each) for each in self._stores.configs.task_ids(name)],
            "type": self._type(properties),
        }

    def _type(self, properties: Properties | None) -> str:
        try:
            return connector_named(self._plugins, (properties or {}).get("connector.class") or "").type
        except ConnectError:
            return "unknown"

    def status(self, name: str, restarting: Restart | None = None) -> dict[str, Any]:
        """Return the states of a connector and of its tasks; as they will be while they restart. Raises NotFound."""
        statuses = self._stores.statuses
        status = statuses.connectors.get(name)
        if status is None:
            raise NotFound(f"No status found for connector {name}")
        tasks = sorted(statuses.tasks.get(name, {}).items())
        own = _restarting(status, restarting, is_task=False)
        return {
            "name": name,
            "connector": _state_json(own),
            "tasks": [
                {"id": number, **_state_json(_restarting(each, restarting, is_task=True))} for number, each in tasks
            ],
            "type": self._type(self._stores.configs.connectors.get(name)),
        }

    def task_status(self, task: TaskId) -> dict[str, Any]:
        """Return the state of a task. Raises NotFound."""
        status = self._stores.statuses.tasks.get(task.connector, {}).get(task.task)
        if status is None:
            raise NotFound(f"No status found for task {task}")
        return {"id": task.task, **_state_json(status)}

    def tasks(self, name: str) -> list[dict[str, Any]]:
        """Return the configurations of a connector's tasks. Raises NotFound."""
        self.config(name)
        configs = self._stores.configs
        return [{"id": _task_json(each), "config": configs.tasks[each]} for each in configs.task_ids(name)]

    def topics(self, name: str) -> dict[str, Any]:
        """Return the topics that a connector has used."""
        return {name: {"topics": list(self._stores.statuses.topics.get(name, {}))}}

    async def offsets(self, name: str) -> dict[str, Any]:
        """Return a connector's offsets. Raises KcliError."""
        properties = self.config(name)
        if self._type(properties) == PluginType.SINK:
            return offsets_json(await self._call(SinkOffsets().read, self._consumer(name, properties)))
        return offsets_json(await self._call(self._stores.read_offsets, name))

    def _consumer(self, name: str, properties: Properties) -> dict[str, str]:
        return self._clients.of_task(TaskId(name, 0), PluginType.SINK, self._resolve(properties))[1]

    # changes

    async def validate(self, properties: Properties) -> ConfigInfos:
        """Return what is wrong with a configuration. Raises KcliError."""

        def validated() -> ConfigInfos:
            resolved = self._resolved(properties)
            found = validate(self._plugins, resolved, self._clients.defaults)
            return found.hidden(self._resolve.hide, properties, resolved)

        return await self._call(validated)

    def _resolved(self, properties: Properties) -> Properties:
        nulls = {key: None for key, value in properties.items() if value is None}
        return {**properties, **self._resolve(properties), **nulls}

    async def put(
        self, name: str, properties: Properties, state: TargetState | None = None, *, replaces: bool
    ) -> tuple[bool, dict[str, Any]]:
        """Create a connector, or give it another configuration. Returns whether it is new, and its info. Raises
        KcliError, NotHere."""
        if len(name.encode()) > NAME_BYTES_MAX:
            raise BadRequest(f"A connector's name has at most {NAME_BYTES_MAX:,} bytes, as the group's protocol holds")
        try:
            infos = await self.validate(properties)
        except UnknownConnector as error:
            raise BadRequest(f"org.apache.kafka.connect.errors.ConnectException: {error}") from None
        if infos.error_count:
            raise BadRequest(infos.refusal())
        await self._lead()
        first = [] if state is None else [target_state_record(name, state)]
        async with self._writing:  # of two requests that create the same connector the second one finds it
            is_new = name not in self._stores.configs.connectors
            if not is_new and not replaces:
                raise Conflict(f"Connector {name} already exists")
            await self._stores.write_configs([*first, connector_record(name, properties)])
        if self.waits_for_tasks:
            await self._work.settled(name)
        return is_new, self.info(name)

    async def patch(self, name: str, changes: Properties) -> dict[str, Any]:
        """Change some options of a connector; None removes one. Raises KcliError, NotHere."""
        await self._lead()
        changed = {**self.config(name), **changes}
        kept = [key for key in changed if changes.get(key, "") is not None]
        properties = {key: changed[key] for key in copied_map_order(list(self.config(name)), kept)}
        return (await self.put(name, properties, replaces=True))[1]

    async def delete(self, name: str) -> None:
        """Delete a connector. Raises KcliError, NotHere."""
        await self._lead()
        self.config(name)
        await self._stores.write_configs([connector_record(name, None), target_state_record(name, None)])
        if self.waits_for_tasks:
            await self._work.settled(name)

    async def set_target(self, name: str, state: TargetState) -> None:
        """Pause or resume a connector. Raises KcliError."""
        self._known(name)
        await self._stores.write_configs([target_state_record(name, state)], by_leader=False)

    async def stop(self, name: str) -> None:
        """Stop a connector; it has no tasks then. Raises KcliError, NotHere."""
        self._known(name)
        await self._lead()
        await self._stores.write_configs([target_state_record(name, TargetState.STOPPED)], by_leader=False)
        await self._leading.put_tasks(name, [])

    async def put_tasks(self, name: str, tasks: Sequence[Properties]) -> None:
        """Write the configurations of a connector's tasks. Raises KcliError, NotHere."""
        await self._lead()
        self.config(name)
        await self._leading.put_tasks(name, tasks)

    async def fence(self, name: str) -> None:
        """Fence the producers of a source's earlier tasks. Raises KcliError, NotHere."""
        await self._lead()
        if self._type(self.config(name)) != PluginType.SOURCE:
            raise BadRequest(f"Connector {name} is not a source connector")
        await self._leading.fence(name)

    async def restart_connector(self, name: str) -> None:
        """Restart a connector without its tasks. Raises KcliError, NotHere."""
        if name not in self._stores.configs.connectors:
            raise NotFound(f"Unknown connector: {name}")
        await self._group.settled()
        if name not in self._group.connectors():
            raise NotHere(self._owner_url(name))
        self._work.restart(name, whole=True)
        await self._work.settled(name)

    async def restart_task(self, task: TaskId) -> None:
        """Restart a task. Raises KcliError, NotHere."""
        configs = self._stores.configs
        if task.connector not in configs.connectors:
            raise NotFound(f"Unknown connector: {task.connector}")
        if task not in configs.tasks:
            raise NotFound(f"Unknown task: {task}")
        await self._group.settled()
        if task not in self._group.tasks():
            raise NotHere(self._owner_url(task))
        self._work.restart(task.connector, whole=False, tasks=[task])
        await self._work.settled(task.connector)

    async def restart(self, request: Restart) -> dict[str, Any]:
        """Restart a connector and its tasks, or those that have failed; returns the states while they restart. Raises
        KcliError, NotHere."""
        if request.connector not in self._stores.configs.connectors:
            raise NotFound(f"Unknown connector: {request.connector}")
        await self._lead()
        if request.connector not in self._stores.statuses.connectors:
            raise NotFound(f"Status for connector {request.connector} not found")
        plan = self.status(request.connector, request)
        await self._stores.write_configs([restart_record(request)])
        return plan

    def _restart_own(self, request: Restart) -> None:
        name, statuses = request.connector, self._stores.statuses
        status = statuses.connectors.get(name)
        whole = status is not None and _restarts(status, request, is_task=False) and name in self._group.connectors()
        tasks = [
            task
            for task in self._group.tasks()
            if task.connector == name
            and (each := statuses.tasks.get(name, {}).get(task.task)) is not None
            and _restarts(each, request, is_task=True)
        ]
        if whole and status is not None:
            self._stores.write_status(connector_status_record(name, _restarted(status)))
        for task in tasks:
            self._stores.write_status(task_status_record(task, _restarted(statuses.tasks[name][task.task])))
        if whole or tasks:
            self._work.restart(name, whole=whole, tasks=tasks)

    async def alter_offsets(self, name: str, offsets: Offsets | None) -> dict[str, str]:
        """Alter a connector's offsets, or reset them if there are none. Raises KcliError, NotHere."""
        await self._lead()
        await self._stores.refresh()
        self._stopped(name)
        await self._work.settled(name)  # what the last turns of its tasks have done is stored by then
        if not await self._group.released(name) or self._work.has_tasks(name):
            raise ConnectError(
                f"The offsets of connector {name} are not modified: its tasks haven't stopped completely yet. This "
                "operation can be safely retried."
            )
        if self._clients.has_exactly_once_sources and self._type(self.config(name)) == PluginType.SOURCE:
            try:
                await self._leading.fence(name)
            except KcliError as error:
                reason = "Failed to perform zombie fencing for source connector prior to modifying offsets"
                raise ConnectError(f"{reason}: {error}") from None
        properties = self._stopped(name)
        connector: Connector = await self._call(made, self._plugins, self._resolve, properties)
        if connector.TYPE is PluginType.SINK:
            return await self._call(
                lambda: SinkOffsets().alter(name, connector, self._consumer(name, properties), offsets)
            )
        return await self._call(lambda: alter_source(self._stores, name, connector, offsets))

    def _stopped(self, name: str) -> Properties:
        """Return the configuration of a connector that is stopped. Raises NotFound, BadRequest."""
        properties, configs = self.config(name), self._stores.configs
        if configs.target_states.get(name) is not TargetState.STOPPED or configs.task_counts.get(name, 0):
            raise BadRequest(
                "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for "
                f"the specified connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint"
            )
        return properties

    def reset_topics(self, name: str) -> None:
        """Forget the topics that a connector has used."""
        for topic in list(self._stores.statuses.topics.get(name, {})):
            self._stores.write_status(topic_tombstone(name, topic))

    def set_level(self, logger: str, level: str) -> list[str]:
        """Set the level of a logger of this worker, and return the loggers whose level it is now."""
        return self.loggers.set(logger, level, _now_ms())

    async def set_level_of_all(self, logger: str, level: str) -> None:
        """Set the level of a logger of all workers. Raises KcliError."""
        await self._stores.write_configs([logger_record(logger, level)], by_leader=False)

    def _known(self, name: str) -> None:
        if name not in self._stores.configs.connectors:
            raise NotFound(f"Unknown connector {name}")

    async def _lead(self) -> None:
        """Wait for the end of a rebalance. Raises NotHere if this worker does not lead then."""
        await self._group.settled()
        if not self._group.is_leader:
            raise NotHere(self._group.leader_url)

    def _owner_url(self, what: str | TaskId) -> str | None:
        return self._group.owner_url(what) if self._group.is_leader else self._group.leader_url

    async def _call(self, work: Callable[..., T], *args: object) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, work, *args)
        except ConfigError as error:
            raise BadRequest(str(error)) from None


def _now_ms() -> int:
    return int(time.time() * 1000)


def _task_json(task: TaskId) -> dict[str, Any]:
    return {"connector": task.connector, "task": task.task}


def _state_json(status: Status) -> dict[str, Any]:
    known = {"version": status.version, "trace": status.trace}
    return {
        "state": status.state,
        "worker_id": status.worker_id,
        **{name: text for name, text in known.items() if text is not None},
    }


def _restarted(status: Status) -> Status:
    return status._replace(state=State.RESTARTING, trace=None, version=None)


def _restarts(status: Status, request: Restart, *, is_task: bool) -> bool:
    return (request.include_tasks or not is_task) and (not request.only_failed or status.state is State.FAILED)


def _restarting(status: Status, request: Restart | None, *, is_task: bool) -> Status:
    restarts = request is not None and _restarts(status, request, is_task=is_task)
    return status._replace(state=State.RESTARTING) if restarts else status
