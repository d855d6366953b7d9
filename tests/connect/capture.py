"""The PostgreSQL source without a cluster: turns of its task, what they have committed, and the state of tables that a
reader of the topics makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcli.connect.connectors.postgres.source import PostgresSource
from kcli.connect.data.records import SourceRecord
from kcli.connect.data.struct import Struct
from kcli.connect.engine.offsets import partition_key
from kcli.connect.engine.tasks import SourceContext, SourceTask
from kcli.connect.plugins import Offset
from tests.connect.postgres import Database

UNAVAILABLE = "__debezium_unavailable_value"


def config_of(database: Database, **more: str) -> dict[str, str]:
    """A connector's configuration."""
    given = {name.replace("_", "."): text for name, text in more.items()}
    return {
        "database.hostname": "127.0.0.1",
        "database.port": str(database.server.port),
        "database.user": "kcli",
        "database.dbname": database.name,
        "topic.prefix": "p",
        "slot.name": f"slot_{database.name}",
        "skipped.operations": "none",
        **given,
    }


class Capture:
    """A source's task, stopped and started again. records: what was committed, with the offsets of the last one."""

    def __init__(self, database: Database, **more: str) -> None:
        self.config = config_of(database, **more)
        self.records: list[SourceRecord] = []
        self.offsets: dict[str, Offset] = {}
        self._task: SourceTask | None = None

    def turn(self, polls: int = 1_000_000, *, loses: int = 0, idle: int = 3) -> list[SourceRecord]:
        """Run a turn until `idle` polls give nothing, or for some polls; return what was committed. loses: how many of
        its last polls are lost, as by a kill."""
        found: list[list[SourceRecord]] = []
        (config,) = PostgresSource(self.config).task_configs(1)
        task = PostgresSource.TASK()
        begun: dict[str, Offset] = {}
        task.start(config, SourceContext(self.offsets, begun=begun))
        try:
            rests = 0
            while rests < idle and len(found) < polls:
                polled = task.poll()
                rests = 0 if polled else rests + 1
                if polled:
                    found.append([*polled])
        finally:
            task.stop()
        self.offsets |= begun
        kept = [each for batch in found[: len(found) - loses] for each in batch]
        for each in kept:
            assert each.source_partition is not None
            assert each.source_offset is not None
            self.offsets[partition_key(each.source_partition)] = each.source_offset
        self.records += kept
        return kept

    def state(self, topic: str) -> dict[tuple[Any, ...], dict[str, Any]]:
        """Return the rows that the records of a topic leave, by key."""
        return replayed([each for each in self.records if each.topic == topic])


def replayed(records: list[SourceRecord]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return the rows that records leave, by key; a value that was not sent is the one before."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    moved: dict[str, Any] = {}
    for each in records:
        if each.value is None:
            continue
        value = fields(each.value)
        if value["op"] == "t":
            rows.clear()
            continue
        key = tuple(each.key.values)
        if value["op"] == "d":
            moved = rows.pop(key, {})
            continue
        before = moved if each.headers else rows.get(key, {})
        after = fields(value["after"])
        rows[key] = {name: before[name] if text == UNAVAILABLE else text for name, text in after.items()}
    return rows


def fields(value: Struct) -> Mapping[str, Any]:
    """Return a struct's fields."""
    return {field.name: value.values[field.index] for field in value.schema.fields}
