"""Records of connect-status: states of connectors and tasks, and the topics that connectors use.

    status-connector-NAME              {"state":S,"trace":T,"worker_id":W,"generation":G,"version":V}
    status-task-NAME-N                 the same of a task
    status-topic-TOPIC:connector-NAME  {"topic":{"name":TOPIC,"connector":NAME,"task":N,"discoverTimestamp":ms}}

A tombstone removes the status. A worker that stops a task after another one has started it must not hide that:
UNASSIGNED of an older generation than RUNNING is passed over, also of a connector, where Kafka does not. Source:
KafkaStatusBackingStore, KIP-558.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from kcli.connect.plugins import TaskId
from kcli.connect.topics.json_values import Record, object_of, record
from kcli.java.values import java_integer


class State(StrEnum):
    """The state of a connector or of a task."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"
    STOPPED = "STOPPED"
    DESTROYED = "DESTROYED"


class Status(NamedTuple):
    """A state, the worker that says so, as host:port, and the generation of its group then. trace: of a failure.
    version: of the connector's or the task's class; None if the worker does not know it."""

    state: State
    worker_id: str
    generation: int
    trace: str | None = None
    version: str | None = None


class UsedTopic(NamedTuple):
    """A topic that a task of a connector has used. found_ms: since when, in ms since 1970."""

    topic: str
    task: TaskId
    found_ms: int


def _value(status: Status) -> dict[str, object] | None:
    if status.state is State.DESTROYED:
        return None
    return {
        "state": status.state,
        "trace": status.trace,
        "worker_id": status.worker_id,
        "generation": status.generation,
        "version": status.version,
    }


def connector_status_record(connector: str, status: Status) -> Record:
    """Return the record of a connector's status; DESTROYED removes it."""
    return record(f"status-connector-{connector}", _value(status))


def task_status_record(task: TaskId, status: Status) -> Record:
    """Return the record of a task's status; DESTROYED removes it."""
    return record(f"status-task-{task}", _value(status))


def topic_record(used: UsedTopic) -> Record:
    """Return the record of a topic that a connector uses."""
    return record(
        f"status-topic-{used.topic}:connector-{used.task.connector}",
        {
            "topic": {
                "name": used.topic,
                "connector": used.task.connector,
                "task": used.task.task,
                "discoverTimestamp": used.found_ms,
            }
        },
    )


def topic_tombstone(connector: str, topic: str) -> Record:
    """Return the record that a connector uses a topic no longer."""
    return record(f"status-topic-{topic}:connector-{connector}", None)


class StatusState:
    """The statuses of a Connect cluster. Only `replay` changes them."""

    def __init__(self) -> None:
        self.connectors: dict[str, Status] = {}
        self.tasks: dict[str, dict[int, Status]] = {}
        self.topics: dict[str, dict[str, UsedTopic]] = {}

    def may_replace(self, what: str | TaskId, worker_id: str, generation: int) -> bool:
        """Return whether a worker that had a connector or a task in a generation may write over its status: it is of
        the same worker, or of a generation that is not newer. A worker that was paused for longer than its session
        must not hide what the next owner says. Source: CacheEntry.canWriteSafely."""
        tasks = self.tasks.get(what.connector, {}) if isinstance(what, TaskId) else {}
        known = tasks.get(what.task) if isinstance(what, TaskId) else self.connectors.get(what)
        return known is None or known.worker_id == worker_id or known.generation <= generation

    def replay(self, key: bytes | None, value: bytes | None) -> None:
        """Apply a record. One that cannot be read is passed over."""
        name = (key or b"").decode("utf-8", "replace")
        if name.startswith("status-connector-"):
            self._connector(name.removeprefix("status-connector-"), value)
        elif name.startswith("status-task-"):
            self._task(name.removeprefix("status-task-"), value)
        elif name.startswith("status-topic-"):
            self._topic(name.removeprefix("status-topic-"), value)

    def _connector(self, connector: str, value: bytes | None) -> None:
        if value is None:
            self.connectors.pop(connector, None)
            self.tasks.pop(connector, None)
            return
        status = _status(value)
        if status is None or not connector:
            return
        known = self.connectors.get(connector)
        if known is None or known.worker_id == status.worker_id or not _is_late(status, known):
            self.connectors[connector] = status

    def _task(self, name: str, value: bytes | None) -> None:
        connector, _, number = name.rpartition("-")
        task = java_integer(number)
        if task is None or not connector:
            return
        tasks = self.tasks.setdefault(connector, {})
        status = None if value is None else _status(value)
        known = tasks.get(task)
        if value is None:
            tasks.pop(task, None)
        elif status is not None and not (known is not None and _is_late(status, known)):
            tasks[task] = status

    def _topic(self, name: str, value: bytes | None) -> None:
        topic, _, connector = name.partition(":connector-")
        if not topic or not connector:
            return
        topics = self.topics.setdefault(connector, {})
        fields = (object_of(value) or {}).get("topic")
        if value is None:
            topics.pop(topic, None)
        elif isinstance(fields, dict):
            task, found_ms = fields.get("task"), fields.get("discoverTimestamp")
            if isinstance(task, int) and isinstance(found_ms, int):
                topics[topic] = UsedTopic(topic, TaskId(connector, task), found_ms)


def _is_late(status: Status, known: Status) -> bool:
    return status.state is State.UNASSIGNED and known.state is State.RUNNING and known.generation >= status.generation


def _status(value: bytes) -> Status | None:
    fields = object_of(value) or {}
    state, worker_id, generation = fields.get("state"), fields.get("worker_id"), fields.get("generation")
    texts = [text if isinstance(text := fields.get(name), str) else None for name in ("trace", "version")]
    if not isinstance(state, str) or not isinstance(worker_id, str) or not isinstance(generation, int):
        return None
    if state not in set(State):
        return None
    return Status(State(state), worker_id, generation, *texts)
