"""What happened to connectors and tasks, from the records of a topic of statuses."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from kcli.client.connection import Connection
from kcli.client.consuming import RecordSelection, consume
from kcli.client.ranges import BEGINNING
from kcli.connect.topics.statuses import StatusState


class Happened(NamedTuple):
    """A state that a connector or a task came to. what: its name. time_ms: in ms since 1970."""

    time_ms: int
    connector: str
    what: str
    state: str
    worker_id: str
    trace: str | None


def history(connection: Connection, topic: str, names: Collection[str]) -> Iterator[Happened]:
    """Yield the states in the topic, in their order. names: of connectors; all if it is empty. Raises KcliError."""
    found: list[Happened] = []
    selection = RecordSelection(topic=topic, starts={None: BEGINNING}, to_end=True)
    for records in consume(connection, selection):
        for record in records:
            state = StatusState()
            state.replay(record.key, record.value)
            rows = [(name, name, each) for name, each in state.connectors.items()]
            rows += [
                (name, f"{name}-{number}", each)
                for name, tasks in state.tasks.items()
                for number, each in tasks.items()
            ]
            found += [
                Happened(record.timestamp or 0, name, what, each.state, each.worker_id, each.trace)
                for name, what, each in rows
                if not names or name in names
            ]
    yield from sorted(found, key=lambda each: each.time_ms)
