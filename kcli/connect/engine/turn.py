"""A turn: a task runs in a Python worker of Spark until it has been idle for LINGER_S, or for TURN_S at most; for the
worker's offset.flush.interval.ms if that is less, as offsets are committed after a turn.

    Turn      what the engine sends to the worker, pickled
    Outcome   what comes back: records, offsets, what the task waits for, and its error

An error of a task ends its own turn only, never the query: it comes back in the outcome. One that passes by itself
interrupts the turn, and its task goes on in another one.
"""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kcli.connect.data.errors import class_of
from kcli.connect.engine.passing import is_passing
from kcli.connect.engine.tasks import Rest
from kcli.connect.plugins import Line, Offset, Partition, Plugin, Plugins, TaskId, TaskStart
from kcli.pipelines.cluster import Cluster
from kcli.protocol.topic_partition import TopicPartition

LOGGER = "kcli.connect"
TURN_S, TURN_MIN_S = 5.0, 0.1
LINGER_S = 0.5
POLL_S = 0.02
AGAIN_S = 1.0
"""How long a task waits after an interruption."""
LINES_MAX = 1000
"""How many lines of a turn come to the worker's log."""


@dataclass(frozen=True)
class Turn:
    """A task, and where it goes on.

    plugin: the connector's class. plugins: those that its configuration may name. offsets: a source's, by
    partition_key; None to read them from `offsets_topic`, as they may have changed. producer: the producer id and epoch
    of the task's last turn. positions: where a sink goes on in the partitions of its last turn. begun: where
    a source's partitions without offsets have begun (SourceContext.begin). state: a sink's (SinkContext.state).
    retries: how often a sink has refused the records at its positions. waits: why a source gave nothing at
    the end of its last turn (SourceContext.interrupted). stop_file: a path that appears when the turn is to end.
    """

    start: TaskStart
    plugin: Plugin
    plugins: Plugins
    cluster: Cluster
    stop_file: str
    offsets: Mapping[str, Offset] | None = None
    offsets_topic: str | None = None
    producer: tuple[int, int] | None = None
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)
    begun: Mapping[str, Offset] = field(default_factory=dict)
    retries: int = 0
    state: Mapping[str, Any] = field(default_factory=dict)
    waits: str | None = None

    @property
    def config(self) -> dict[str, str]:
        """The task's configuration: the connector's with what it gave to the task."""
        return {**self.start.connector, **self.start.task}


@dataclass
class Outcome:
    """What a turn has done.

    offsets: those of a source that were committed, by partition_key, with the partition as the task named it. stored:
    whether they are in the offsets topic already. starts: where a sink began in each of its partitions. positions:
    offsets of a sink's partitions up to which all is flushed. retries, state, waits: as the next turn's. interruption:
    an error that passes, with which the turn has ended. trace: the error with which the task has failed. lines: for the
    worker's log.
    """

    id: TaskId
    records: int = 0
    bytes: int = 0
    topics: set[str] = field(default_factory=set)
    offsets: dict[str, tuple[Partition, Offset]] = field(default_factory=dict)
    known: dict[str, Offset] | None = None
    begun: dict[str, Offset] = field(default_factory=dict)
    stored: bool = False
    producer: tuple[int, int] | None = None
    starts: dict[TopicPartition, int] = field(default_factory=dict)
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    retries: int = 0
    state: dict[str, Any] = field(default_factory=dict)
    rest: Rest = field(default_factory=Rest)
    interruption: str | None = None
    waits: str | None = None
    trace: str | None = None
    lines: list[Line] = field(default_factory=list)


def interruption_line(task: TaskId, reason: str) -> Line:
    """Return the line of the worker's log about a task that goes on later."""
    return Line(LOGGER, logging.WARNING, f"{task} is interrupted: {reason}")


class Interrupted(Exception):
    """The turn ends before its task is done with some records: they are the next turn's. The message is the reason;
    there is none if the turn was stopped."""


class Clock:
    """When a turn ends. Its time runs from `begin` on: however long a task takes to start, it then has its turn.
    most_s: how long it may take, if that is less than TURN_S."""

    def __init__(self, stop_file: str, most_s: float = TURN_S) -> None:
        self._deadline = 0.0
        self._most_s = most_s
        self._stop = Path(stop_file)
        self._idle_since: float | None = None

    def begin(self) -> None:
        """The task has started."""
        self._deadline = time.monotonic() + min(TURN_S, max(self._most_s, TURN_MIN_S))

    def is_stopped(self) -> bool:
        """Whether the turn is to end at once."""
        return self._stop.exists()

    def check(self) -> None:
        """Raise Interrupted if the turn is to end at once."""
        if self.is_stopped():
            raise Interrupted

    def has_time(self) -> bool:
        """Whether the turn goes on."""
        return time.monotonic() < self._deadline and not self.is_stopped()

    def note_work(self) -> None:
        """The task has had work."""
        self._idle_since = None

    def has_rested(self) -> bool:
        """The task has nothing to do; wait a moment, and return whether it has had nothing for LINGER_S."""
        now = time.monotonic()
        self._idle_since = self._idle_since or now
        if now - self._idle_since >= LINGER_S:
            return True
        time.sleep(POLL_S)
        return False


def outcome_of(turn: Turn, run: Callable[[Turn, Outcome], None]) -> Outcome:
    """Run a turn, and return what comes of it, an error included."""
    outcome = Outcome(turn.start.id, retries=turn.retries, state=dict(turn.state), waits=turn.waits)
    with _logged(outcome.lines):
        try:
            run(turn, outcome)
        except Interrupted as error:
            outcome.interruption = str(error)
        except Exception as error:  # noqa: BLE001 (whatever a connector raises is the task's state)
            if is_passing(error):
                outcome.interruption = str(error)
            else:
                outcome.trace = trace_of(error)
    return outcome


@contextmanager
def _logged(lines: list[Line]) -> Iterator[None]:
    """A context in which lines that kcli's loggers take are kept, too."""
    handler, root = _Keep(lines), logging.getLogger("kcli")
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        if handler.left:
            lines.append(Line(LOGGER, logging.WARNING, f"{handler.left:,} more lines are left out"))


class _Keep(logging.Handler):
    """Keeps LINES_MAX lines. left: how many came after them."""

    def __init__(self, lines: list[Line]) -> None:
        super().__init__()
        self._lines, self.left = lines, 0

    def emit(self, record: logging.LogRecord) -> None:
        if len(self._lines) < LINES_MAX:
            self._lines.append(Line(record.name, record.levelno, self.format(record)))
        else:
            self.left += 1


def trace_of(error: BaseException) -> str:
    """Return the text of an error as a status shows it: its kind and reason, then where it was raised."""
    places = traceback.extract_tb(error.__traceback__)
    lines = [f"{class_of(error)}: {error}"]
    lines += (f"\tat {each.name}({Path(each.filename).name}:{each.lineno})" for each in reversed(places))
    cause = error.__cause__
    return "\n".join(lines) + (f"\nCaused by: {trace_of(cause)}" if cause is not None else "")
