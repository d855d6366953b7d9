"""Plug-ins: what a connector is to the worker and to the engine, and which classes there are.

A connector is a class that says how it is configured and how its work is divided into tasks; an engine runs the tasks.
The worker decides which tasks run where, and when; it calls the engine from threads of its own, one call for a
connector at a time. The engine says what becomes of the tasks through a Listener, from any thread.

    worker              engine                                 listener
    Engine.start    ->  reads offsets, runs the tasks     ->   is_current, running, used_topic, logged, failed
    Engine.pause    ->  commits, stays ready              ->   paused
    Engine.resume   ->  goes on                           ->   running
    Engine.stop     ->  commits, ends; returns then

Offsets belong to Connect's topic or file, never to the engine: a task goes on where OffsetStore says.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from enum import StrEnum
from importlib import import_module
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

from kcli.connect.config.config_def import ConfigDef, ConfigValue
from kcli.errors import needing

KAFKA_VERSION: Final = "4.3.0"
"""The version of Kafka's own plug-ins."""

Partition = Mapping[str, Any]
"""A source's partition, as JSON: {"filename": "/tmp/a"}."""
Offset = Mapping[str, Any]
"""A position within a partition, as JSON: {"position": 12}."""


class PluginType(StrEnum):
    """The kind of a plug-in, by the name that the REST API has for it."""

    SINK = "sink"
    SOURCE = "source"
    CONVERTER = "converter"
    HEADER_CONVERTER = "header_converter"
    TRANSFORMATION = "transformation"
    PREDICATE = "predicate"


class TaskId(NamedTuple):
    """A task of a connector."""

    connector: str
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"


@runtime_checkable
class Connector(Protocol):
    """A connector's class. An instance is one connector with its configuration.

    `check` finds what is wrong with several options together, and is given the values of `config()`; a connector
    without such rules returns at once.
    """

    CLASS: str
    TYPE: PluginType
    VERSION: str

    def __init__(self, properties: Mapping[str, str]) -> None: ...

    @classmethod
    def config(cls) -> ConfigDef:
        """Return the connector's own options, without those that every connector has."""

    @classmethod
    def check(cls, properties: Mapping[str, str | None], values: MutableMapping[str, ConfigValue]) -> None:
        """Append to the errors of the values, and add those of options that have no definition."""

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        """Return the configuration of each task, at most `tasks_max`. Raises ConnectError, ConfigError."""


def task_class(connector: Connector) -> str:
    """Return the class of a connector's tasks by Kafka's name, which a task's configuration has as task.class: its
    TASK_CLASS, if it has one."""
    named: str | None = getattr(connector, "TASK_CLASS", None)
    return named or connector.CLASS.removesuffix("Connector") + "Task"


@runtime_checkable
class AltersOffsets(Protocol):
    """A connector that checks offsets before they are written."""

    def alter_offsets(self, offsets: Sequence[tuple[Partition, Offset | None]]) -> bool:
        """Return whether the connector has altered its offsets wherever else it keeps them. None: the partition's
        offset is reset. Raises ConnectError if an offset is not one of this connector's."""


@runtime_checkable
class Monitors(Protocol):
    """A connector that has work of its own besides its tasks, such as topics to create, or whose tasks change with what
    it finds. The worker that has the connector calls `monitor` in a thread, first before `task_configs`, and then
    again each time after the seconds that it has returned; then it asks for the tasks' configurations, and restarts the
    tasks if they are others."""

    def monitor(self) -> float | None:
        """Do the work, and return the seconds until the next time; None if there is none. Raises ConnectError."""


class Limits(NamedTuple):
    """What a worker's configuration says of all tasks. flush_s: how often offsets are committed at least
    (offset.flush.interval.ms). stop_s: how long tasks may take to stop (task.shutdown.graceful.timeout.ms).
    creates_topics: whether sources create topics (topic.creation.enable)."""

    flush_s: float = 60.0
    stop_s: float = 5.0
    creates_topics: bool = True


class TaskStart(NamedTuple):
    """A task to run.

    count: how many tasks the connector has, on all workers: a sink's share its partitions. connector: its whole
    configuration with the worker's converters where it names none, config providers resolved. task: what `task_configs`
    gave it. producer, consumer, admin: the properties of its clients, the worker's and the connector's overrides. A
    transactional.id among those of a source's producer, GROUP-CONNECTOR-TASK, has the engine write records and offsets
    in transactions (KIP-618); a sink's group is the consumer's group.id, connect-NAME without one. limits: the worker's
    options for all tasks.
    """

    id: TaskId
    count: int  # type: ignore[assignment]  # (tuple.count is hidden)
    type: PluginType
    connector: Mapping[str, str]
    task: Mapping[str, str]
    producer: Mapping[str, str]
    consumer: Mapping[str, str]
    admin: Mapping[str, str]
    limits: Limits = Limits()


class Line(NamedTuple):
    """What a task has logged, or an engine about it. logger: its name. level: of the module logging."""

    logger: str
    level: int
    text: str


class Listener(Protocol):
    """Learns what becomes of tasks. May be called from any thread."""

    def running(self, task: TaskId) -> None:
        """The task runs."""

    def paused(self, task: TaskId) -> None:
        """The task is paused, and has committed what it had done."""

    def failed(self, task: TaskId, trace: str) -> None:
        """The task has ended with an error; trace: its text, with more than one line perhaps."""

    def used_topic(self, task: TaskId, topic: str) -> None:
        """The task has read from or written to a topic."""

    def logged(self, task: TaskId, line: Line) -> None:
        """A line for the worker's log. An engine writes nothing there itself that a task or its clients have said: it
        may have values of config providers, which the worker hides."""

    def is_current(self, task: TaskId) -> bool:
        """Return whether the task is still this worker's, with the configurations with which it was started, among all
        that were written before. An engine asks once it has become the only producer of the task's transactional id,
        each time: else it may have fenced its successor. Raises KcliError."""


class OffsetStore(Protocol):
    """The offsets of sources. A sink's are those that its group has committed."""

    topic: str | None
    """The topic that has them; None for a file. With exactly-once sources the engine appends a task's offsets in the
    transaction of its records, as kcli.connect.topics.offsets lays them out."""

    def read(self, connector: str) -> Sequence[tuple[Partition, Offset]]:
        """Return the offset of each partition of a connector, up to date."""

    def write(self, connector: str, offsets: Iterable[tuple[Partition, Offset | None]]) -> None:
        """Write offsets; returns once they are stored. None removes a partition's."""


class Engine(Protocol):
    """Runs tasks. Its calls may take long; the worker makes them outside of its event loop."""

    def start(self, tasks: Sequence[TaskStart], offsets: OffsetStore, listener: Listener, *, paused: bool) -> None:
        """Start tasks of one connector. A task that cannot start is told to the listener."""

    def pause(self, tasks: Sequence[TaskId]) -> None:
        """Pause tasks of one connector."""

    def resume(self, tasks: Sequence[TaskId]) -> None:
        """Resume tasks of one connector."""

    def stop(self, tasks: Sequence[TaskId]) -> None:
        """Stop tasks of one connector, started or not; nothing of them runs when it returns."""

    def close(self) -> None:
        """Stop all tasks, and what the engine has of its own."""


class Plugin(NamedTuple):
    """A plug-in's class. where: the Python class, as `module:name`, which is imported when it is first needed.
    directory: of the worker's plugin.path, which has the module; None for one that Python finds by itself."""

    name: str
    type: PluginType
    version: str
    where: str
    directory: str | None = None

    @property
    def simple_name(self) -> str:
        """The class without its package: `FileStreamSinkConnector`."""
        return self.name.rpartition(".")[2]

    @property
    def aliases(self) -> tuple[str, str]:
        """What a configuration may call the class besides its full name: the simple name, also without its ending."""
        ending = {"sink": "Connector", "source": "Connector", "header_converter": "HeaderConverter"}
        return self.simple_name, self.simple_name.removesuffix(ending.get(self.type, self.type.capitalize()))

    def load(self) -> Any:
        """Return the Python class. Raises NotInstalled if its module needs a package that is missing."""
        module, _, name = self.where.partition(":")
        if self.directory is not None and self.directory not in sys.path:
            sys.path.append(self.directory)  # in a Python worker of Spark
        with needing("spark"):
            return getattr(import_module(module), name)


class Plugins:
    """The plug-ins of a worker."""

    def __init__(self, plugins: Iterable[Plugin]) -> None:
        self._all = sorted(plugins, key=lambda each: (each.name, each.version, list(PluginType).index(each.type)))

    def __iter__(self) -> Iterator[Plugin]:
        return iter(self._all)

    def of(self, *types: PluginType) -> list[Plugin]:
        """Return the plug-ins of some types, by type and then by name."""
        return [each for kind in types for each in self._all if each.type is kind]

    def named(self, name: str, *types: PluginType) -> list[Plugin]:
        """Return the plug-ins that a class name or an alias stands for: none, one, or several with the same alias."""
        among = self.of(*types)
        exact = [each for each in among if each.name == name]
        return exact[:1] or [each for each in among if name in each.aliases]

    def versions(self, name: str) -> list[str]:
        """Return the versions of the plug-ins with a class of this full name."""
        return [each.version for each in self._all if each.name == name]

    def has_class(self, name: str) -> bool:
        """Return whether there is a class of this full name."""
        return any(each.name == name for each in self._all)
