"""Records of connect-configs, and the state that replay makes of them.

    connector-NAME         {"properties":{...}}               the connector's configuration; a tombstone removes it
    task-NAME-N            {"properties":{...}}               waits for the commit
    commit-NAME            {"tasks":N}                        tasks 0 to N-1 have the configurations before it
    target-state-NAME      {"state":S,"state.v2":S}           STARTED, PAUSED, STOPPED; the first is PAUSED for STOPPED
    tasks-fencing-NAME     {"task-count":N}                   producers of N tasks are fenced (KIP-618)
    session-key            {"key":base64,"algorithm":A,"creation-timestamp":ms}     signs internal requests (KIP-507)
    restart-connector-NAME {"include-tasks":B,"only-failed":B}                      a request (KIP-745)
    logger-cluster-NAME    {"level":L}                        a logger's level on all workers (KIP-976)

Compaction may remove a task's record of an earlier commit: then the tasks are inconsistent until the leader writes them
again. Source: KafkaConfigBackingStore, ClusterConfigState.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from kcli.connect.plugins import TaskId
from kcli.connect.topics.json_values import Record, object_of, record, texts_of
from kcli.java.values import java_integer

Properties = Mapping[str, str | None]


class TargetState(StrEnum):
    """What a connector is told to be."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


class SessionKey(NamedTuple):
    """The key with which a worker signs its internal requests. created_ms: in ms since 1970."""

    key: bytes
    algorithm: str
    created_ms: int


class Restart(NamedTuple):
    """A request to restart a connector, its tasks, or those of them that have failed."""

    connector: str
    only_failed: bool
    include_tasks: bool


class ConnectorChanged(NamedTuple):
    """A connector's configuration was written."""

    connector: str


class ConnectorRemoved(NamedTuple):
    """A connector was deleted."""

    connector: str


class TasksChanged(NamedTuple):
    """The tasks of a connector have new configurations, or are gone."""

    connector: str


class TargetStateChanged(NamedTuple):
    """A connector has another target state."""

    connector: str


class SessionKeyChanged(NamedTuple):
    """There is a new session key."""


class LoggerLevel(NamedTuple):
    """A logger's level on all workers."""

    logger: str
    level: str


Event = (
    ConnectorChanged | ConnectorRemoved | TasksChanged | TargetStateChanged | SessionKeyChanged | LoggerLevel | Restart
)
"""What a worker does something about when a record is replayed."""


def connector_record(name: str, properties: Properties | None) -> Record:
    """Return the record of a connector's configuration; None removes the connector."""
    return record(f"connector-{name}", None if properties is None else {"properties": dict(properties)})


def task_records(name: str, tasks: Sequence[Properties]) -> list[Record]:
    """Return the records of the configurations of a connector's tasks, without the commit."""
    return [record(f"task-{name}-{number}", {"properties": dict(task)}) for number, task in enumerate(tasks)]


def commit_record(name: str, tasks: int) -> Record:
    """Return the record that commits the configurations of `tasks` tasks."""
    return record(f"commit-{name}", {"tasks": tasks})


def target_state_record(name: str, state: TargetState | None) -> Record:
    """Return the record of a connector's target state; None removes it. Workers before 3.5, which do not know STOPPED,
    see PAUSED."""
    first = TargetState.PAUSED if state is TargetState.STOPPED else state
    return record(f"target-state-{name}", None if state is None else {"state": first, "state.v2": state})


def fencing_record(name: str, tasks: int) -> Record:
    """Return the record that the producers of `tasks` tasks are fenced."""
    return record(f"tasks-fencing-{name}", {"task-count": tasks})


def session_key_record(key: SessionKey) -> Record:
    """Return the record of a session key."""
    text = base64.b64encode(key.key).decode()
    return record("session-key", {"key": text, "algorithm": key.algorithm, "creation-timestamp": key.created_ms})


def restart_record(restart: Restart) -> Record:
    """Return the record of a request to restart."""
    value = {"include-tasks": restart.include_tasks, "only-failed": restart.only_failed}
    return record(f"restart-connector-{restart.connector}", value)


def logger_record(logger: str, level: str) -> Record:
    """Return the record of a logger's level on all workers."""
    return record(f"logger-cluster-{logger}", {"level": level})


class ConfigState:
    """The configurations of a Connect cluster. Only `replay` changes them."""

    def __init__(self) -> None:
        self.end_offset = 0
        self.session_key: SessionKey | None = None
        self.connectors: dict[str, Properties] = {}
        self.applied: dict[str, Properties] = {}
        """The configurations of connectors when the configurations of their tasks were committed."""
        self.target_states: dict[str, TargetState] = {}
        self.task_counts: dict[str, int] = {}
        self.tasks: dict[TaskId, Properties] = {}
        self.generations: dict[str, int] = {}
        """How often the configurations of a connector's tasks were committed."""
        self.fenced_counts: dict[str, int] = {}
        """How many tasks a connector had when those before them were fenced: they may have producers."""
        self.pending_fencing: set[str] = set()
        """The connectors whose tasks have had new configurations since then."""
        self.inconsistent: set[str] = set()
        self._deferred: dict[str, dict[int, Properties]] = {}
        self._by_prefix: Sequence[tuple[str, Callable[[str, dict[str, Any] | None], Event | None]]] = (
            ("target-state-", self._target_state),
            ("connector-", self._connector),
            ("task-", self._task),
            ("commit-", self._commit),
            ("restart-connector-", self._restart),
            ("tasks-fencing-", self._fencing),
            ("logger-cluster-", self._logger),
        )

    def task_ids(self, connector: str) -> list[TaskId]:
        """Return the tasks of a connector; none while their configurations are inconsistent."""
        if connector in self.inconsistent:
            return []
        return [TaskId(connector, number) for number in range(self.task_counts.get(connector, 0))]

    def replay(self, offset: int, key: bytes | None, value: bytes | None) -> Event | None:
        """Apply a record, and return what a worker does something about. A record that cannot be read is passed over,
        as Kafka's worker does."""
        self.end_offset = offset + 1
        text = b"" if key is None else key
        try:
            name = text.decode()
        except UnicodeDecodeError:
            return None
        fields = object_of(value)
        if value is not None and fields is None:
            return None
        if name == "session-key":
            return self._session_key(fields)
        for prefix, apply in self._by_prefix:
            if name.startswith(prefix):
                return apply(name.removeprefix(prefix), fields)
        return None

    def _target_state(self, name: str, fields: dict[str, Any] | None) -> Event | None:
        before = self.target_states.get(name)
        if fields is None:
            if name in self.connectors:
                self.target_states[name] = TargetState.STARTED
            else:
                self.target_states.pop(name, None)
            return None
        text = fields.get("state.v2")
        text = text if isinstance(text, str) else fields.get("state")
        if not isinstance(text, str) or text not in set(TargetState):
            return None
        self.target_states[name] = TargetState(text)
        is_changed = self.target_states[name] is not before
        return TargetStateChanged(name) if is_changed and name in self.connectors else None

    def _connector(self, name: str, fields: dict[str, Any] | None) -> Event | None:
        if fields is None:
            self._remove(name)
            return ConnectorRemoved(name)
        properties = texts_of(fields.get("properties"))
        if properties is None:
            return None
        self.connectors[name] = properties
        self.target_states.setdefault(name, TargetState.STARTED)
        return ConnectorChanged(name)

    def _remove(self, name: str) -> None:
        self._drop_tasks(name, 0)
        for each in (self.connectors, self.applied, self.task_counts, self._deferred):
            each.pop(name, None)
        self.inconsistent.discard(name)

    def _drop_tasks(self, name: str, first: int) -> None:
        for task in [each for each in self.tasks if each.connector == name and each.task >= first]:
            del self.tasks[task]

    def _task(self, name: str, fields: dict[str, Any] | None) -> None:
        connector, _, number = name.rpartition("-")
        index = java_integer(number)
        properties = None if fields is None else texts_of(fields.get("properties"))
        if connector and index is not None and properties is not None:
            self._deferred.setdefault(connector, {})[index] = properties

    def _commit(self, name: str, fields: dict[str, Any] | None) -> Event | None:
        if name not in self.connectors:
            self._remove(name)
            return None
        count = None if fields is None else fields.get("tasks")
        if not isinstance(count, int):
            return None
        deferred = self._deferred.pop(name, {})
        if all(number in deferred for number in range(count)):
            self._drop_tasks(name, count)
            self.tasks.update({TaskId(name, number): each for number, each in deferred.items()})
            self.inconsistent.discard(name)
            self.applied[name] = self.connectors[name]
        else:
            self.inconsistent.add(name)
        self.task_counts[name] = count
        self.generations[name] = self.generations.get(name, 0) + 1
        self.pending_fencing.add(name)
        return TasksChanged(name)

    def _fencing(self, name: str, fields: dict[str, Any] | None) -> None:
        count = None if fields is None else fields.get("task-count")
        if isinstance(count, int):
            self.fenced_counts[name] = count
            self.pending_fencing.discard(name)

    def _session_key(self, fields: dict[str, Any] | None) -> Event | None:
        found = fields or {}
        text, algorithm, created = found.get("key"), found.get("algorithm"), found.get("creation-timestamp")
        if not (isinstance(text, str) and isinstance(algorithm, str) and isinstance(created, int)):
            return None
        try:
            self.session_key = SessionKey(base64.b64decode(text, validate=True), algorithm, created)
        except binascii.Error:
            return None
        return SessionKeyChanged()

    def _restart(self, name: str, fields: dict[str, Any] | None) -> Event | None:
        if fields is None:
            return None
        return Restart(name, fields.get("only-failed") is True, fields.get("include-tasks") is True)

    def _logger(self, name: str, fields: dict[str, Any] | None) -> Event | None:
        level = (fields or {}).get("level")
        return LoggerLevel(name, level) if isinstance(level, str) else None
