"""Stores restored from their changelogs have what the stores had that wrote the changelogs: each case of
tests/streams/cases."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.streams import TopologyTestDriver
from kcli.streams.topology.stores.join_buffer import JoinBuffer
from kcli.streams.topology.stores.outer_join import OuterJoinStore
from kcli.streams.topology.stores.suppress_buffer import SuppressBuffer
from kcli.streams.topology.stores.versioned import VersionedKeyValueStore
from kcli.streams.topology.task import Task
from kcli.streams.topology.topology import changelog_topic
from tests.streams.programs import CASES, SAMPLE, Case, Interpreter, cases, question, raw

FILES = sorted(CASES.glob("*.txt"))
ALL = [case for path in FILES for case in cases(path)]


def contents(store: Any) -> Any:
    match store:
        case SuppressBuffer():
            packed = {place: buffered.pack(place[0]) for place, buffered in store._buffered.range()}
            return store._times, packed, store.bytes_held
        case JoinBuffer():
            return {place: buffered.pack(0) for place, buffered in store._waiting.range()}, store._sequence
        case VersionedKeyValueStore():
            return store._versions
        case OuterJoinStore():
            return list(store.all())
    return list(store.all()), getattr(store, "_sequence", None)


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_stores_are_restored_from_their_changelogs(case: Case) -> None:
    asked = question(case, *SAMPLE)
    interpreter = Interpreter()
    interpreter.run(asked["steps"])
    topology = interpreter.builder.build()
    with TopologyTestDriver(topology, application_id="app", config=interpreter.config) as driver:
        for each in asked["inputs"]:
            if "wall" in each:
                driver.advance_wall_clock_time(each["wall"])
            else:
                headers = tuple((name, raw(value)) for name, value in each["headers"])
                driver.pipe(each["topic"], raw(each["key"]), raw(each["value"]), each["timestamp"], headers)
        restored = Task(topology, "app", 0)
        for name, store in driver.get_all_state_stores().items():
            if not topology.stores[name].logging or name in topology.global_stores:
                continue
            for record in driver.outputs(changelog_topic("app", name)):
                assert record.key is not None
                restored.stores[name].restore(record.key, record.value, record.timestamp)
            assert contents(restored.stores[name]) == contents(store), name
