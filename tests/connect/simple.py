"""FileStream connectors and an engine without Spark, for tests of the worker alone: tasks read a file to its end, keep
their offsets, and send their lines nowhere."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from kcli.connect.builtin import records
from kcli.connect.config import validators
from kcli.connect.config.config_def import REQUIRED, ConfigDef, ConfigKey, ConfigValue, Importance, Type
from kcli.connect.data.errors import ConnectError
from kcli.connect.plugins import (
    KAFKA_VERSION,
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
from tests.connect.calls import SINK, SOURCE

LOOK_S = 0.05


class Source:
    """A source of lines."""

    CLASS, TYPE, VERSION = SOURCE, PluginType.SOURCE, KAFKA_VERSION

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties

    @classmethod
    def config(cls) -> ConfigDef:
        return ConfigDef(
            ConfigKey("file", Type.STRING, None, Importance.HIGH, "The file."),
            ConfigKey("topic", Type.STRING, REQUIRED, Importance.HIGH, "The topic.", validators.non_empty),
            ConfigKey("batch.size", Type.INT, "2000", Importance.LOW, "Lines of a batch."),
        )

    @classmethod
    def check(cls, properties: Mapping[str, str | None], values: Mapping[str, ConfigValue]) -> None:
        """There is nothing to check."""

    @classmethod
    def exactly_once(cls, properties: Mapping[str, str]) -> bool:
        return "file" in properties

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:  # noqa: ARG002
        return [self._properties]

    def alter_offsets(self, offsets: Sequence[tuple[Partition, Offset | None]]) -> bool:
        for partition, offset in offsets:
            if offset is None:
                continue
            if "position" not in offset:
                raise ConnectError("Offset objects should either be null or contain the key 'position'")
            if type(offset["position"]) is not int:
                raise ConnectError("The value for the 'position' key in the offset is expected to be a Long value")
            if offset["position"] < 0:
                raise ConnectError("The value for the 'position' key in the offset should be a non-negative value")
            if partition is None:
                raise ConnectError("Partition objects cannot be null")
            if "filename" not in partition:
                raise ConnectError("Partition objects should contain the key 'filename'")
        return True


class Sink(Source):
    """A sink of lines."""

    CLASS, TYPE = SINK, PluginType.SINK

    @classmethod
    def config(cls) -> ConfigDef:
        return ConfigDef(ConfigKey("file", Type.STRING, None, Importance.HIGH, "The file."))

    def alter_offsets(self, offsets: Sequence[tuple[Partition, Offset | None]]) -> bool:  # noqa: ARG002
        return True


PLUGINS = Plugins(
    [
        Plugin(SOURCE, PluginType.SOURCE, KAFKA_VERSION, "tests.connect.simple:Source"),
        Plugin(SINK, PluginType.SINK, KAFKA_VERSION, "tests.connect.simple:Sink"),
        *(each for each in records() if each.name.startswith("org.apache.")),
    ]
)


class SimpleEngine:
    """Runs each task on a thread."""

    def __init__(self) -> None:
        self.started: list[TaskId] = []
        self.running: dict[TaskId, _Task] = {}

    def start(self, tasks: Sequence[TaskStart], offsets: OffsetStore, listener: Listener, *, paused: bool) -> None:
        for each in tasks:
            self.started.append(each.id)
            self.running[each.id] = _Task(each, offsets, listener, paused)

    def pause(self, tasks: Sequence[TaskId]) -> None:
        for each in tasks:
            self.running[each].set_paused(True)

    def resume(self, tasks: Sequence[TaskId]) -> None:
        for each in tasks:
            self.running[each].set_paused(False)

    def stop(self, tasks: Sequence[TaskId]) -> None:
        for each in tasks:
            if each in self.running:
                self.running.pop(each).stop()

    def close(self) -> None:
        self.stop(list(self.running))


class _Task:
    def __init__(self, start: TaskStart, offsets: OffsetStore, listener: Listener, paused: bool) -> None:
        self._start, self._offsets, self._listener = start, offsets, listener
        self._ends = threading.Event()
        self._paused = paused
        self.set_paused(paused)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def set_paused(self, paused: bool) -> None:
        self._paused = paused
        (self._listener.paused if paused else self._listener.running)(self._start.id)

    def fail(self, trace: str) -> None:
        """Say that the task has failed."""
        self._listener.failed(self._start.id, trace)

    def _run(self) -> None:
        path = Path(self._start.task.get("file", ""))
        if self._start.type is PluginType.SINK:
            if not path.parent.is_dir():
                self._listener.failed(self._start.id, f"ConnectException: no {path}")
            return
        while not self._ends.wait(LOOK_S):
            if not self._paused and path.exists():
                self._read(path)

    def _read(self, path: Path) -> None:
        known = {str(found["filename"]): offset for found, offset in self._offsets.read(self._start.id.connector)}
        size = path.stat().st_size
        self._listener.used_topic(self._start.id, self._start.task["topic"])
        if known.get(str(path), {}).get("position") != size:
            self.write(size)

    def write(self, position: int) -> None:
        """Store an offset."""
        partition = {"filename": self._start.task.get("file", "")}
        self._offsets.write(self._start.id.connector, [(partition, {"position": position})])

    def stop(self) -> None:
        self._ends.set()
        self._thread.join()
