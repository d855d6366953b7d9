"""TopologyTestDriver: what a test can pipe in, read out and look at."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from kcli.streams import (
    JSON,
    LONG,
    STRING,
    KeyValueStoreBuilder,
    Processor,
    PunctuationType,
    Record,
    StreamsBuilder,
    TimeWindows,
    Topology,
    TopologyTestDriver,
    ValueAndTimestamp,
    Windowed,
)
from kcli.streams.topology.operators.stateless import filtered
from kcli.streams.windows import Window


def strings() -> StreamsBuilder:
    return StreamsBuilder(key_serde=STRING, value_serde=STRING)


def test_input_topics_have_a_time_of_their_own() -> None:
    builder = strings()
    builder.stream("in").to("out")
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.create_input_topic("in", STRING, STRING, start_ms=100, auto_advance_ms=10)
        sink = driver.create_output_topic("out", STRING, STRING)
        source.pipe_input("a", "1")
        source.pipe_input("a", "2")
        source.advance_time(1000)
        source.pipe_input("a", "3")
        source.pipe_records([Record("b", "4", 7, (("h", b"1"),))])
        assert not sink.is_empty()
        assert sink.read_records() == [
            Record("a", "1", 100),
            Record("a", "2", 110),
            Record("a", "3", 1120),
            Record("b", "4", 7, (("h", b"1"),)),
        ]
        assert sink.is_empty()
        assert driver.stream_time_ms == 1120


def test_output_as_a_map_has_the_last_values() -> None:
    builder = strings()
    builder.stream("in").group_by_key().count().to_stream().to("out", value_serde=LONG)
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.create_input_topic("in", STRING, STRING)
        for key in "abaa":
            source.pipe_input(key, "x")
        assert driver.create_output_topic("out", STRING, LONG).read_key_values_to_map() == {"a": 3, "b": 1}


def test_each_record_can_name_its_topic() -> None:
    builder = strings()
    builder.stream("in").to(lambda key, value, metadata: f"{key}-{value}-{metadata.offset}" if metadata else "none")
    topology = builder.build()
    assert "Sink: KSTREAM-SINK-0000000001 (extractor class: a function)" in topology.describe()
    with TopologyTestDriver(topology) as driver:
        driver.create_input_topic("in", STRING, STRING).pipe_input("a", "b")
        assert driver.produced_topic_names() == {"a-b-0"}


def test_a_value_in_a_store_does_not_change_with_the_programs() -> None:
    kept: list[list[str]] = []

    def add(_key: str, value: str, found: list[str]) -> list[str]:
        found.append(value)
        kept.append(found)
        return found

    builder = strings()
    builder.stream("in").group_by_key().aggregate(list[str], add, store_name="lists", value_serde=JSON)
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.create_input_topic("in", STRING, STRING)
        source.pipe_input("a", "1", 5)
        kept[0].append("changed")
        source.pipe_input("a", "2", 3)
        store = driver.get_key_value_store("lists")
        assert store.get("a") == ValueAndTimestamp(["1", "2"], 5)
        assert store.approximate_num_entries() == 1


def test_window_and_session_stores_can_be_read() -> None:
    builder = strings()
    grouped = builder.stream("in").group_by_key()
    grouped.windowed_by(TimeWindows(size_ms=10)).count(store_name="counts")
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.create_input_topic("in", STRING, STRING)
        source.pipe_input("a", "x", 3)
        source.pipe_input("a", "y", 4)
        store = driver.get_window_store("counts")
        assert store.fetch("a", 0) == ValueAndTimestamp(2, 4)
        assert list(store.fetch_range("a", 0, 9)) == [(0, ValueAndTimestamp(2, 4))]
        assert list(store.all()) == [(Windowed("a", Window(0, 10)), ValueAndTimestamp(2, 4))]
        assert str(Windowed("a", Window(0, 10))) == "[a@0/10]"


class Twice(Processor[str, str, str, str]):
    """Calls itself twice, then no more; and says what its store had."""

    closed: ClassVar[list[str]] = []

    def init(self, context: Any) -> None:
        super().init(context)
        self.calls = 0
        self.punctuation = context.schedule(100, PunctuationType.WALL_CLOCK_TIME, self.tick)
        self.store = context.get_state_store("firsts")

    def tick(self, time_ms: int) -> None:
        assert self.context.record_metadata is None
        self.calls += 1
        self.context.forward(Record("tick", str(time_ms), time_ms))
        if self.calls == 2:
            self.punctuation.cancel()

    def process(self, record: Record[str, str]) -> None:
        before = self.store.put_if_absent(record.key, record.value)
        self.context.forward(record.with_value(str(before)).with_headers((("by", b"Twice"),)))

    def close(self) -> None:
        self.closed.append(self.context.application_id)


def test_processors_punctuate_until_they_cancel_and_are_closed() -> None:
    builder = strings()
    builder.add_state_store(KeyValueStoreBuilder(name="firsts", key_serde=STRING, value_serde=STRING))
    builder.stream("in").process(Twice, "firsts").to("out")
    Twice.closed.clear()
    with TopologyTestDriver(builder.build(), application_id="app", now_ms=1000) as driver:
        source = driver.create_input_topic("in", STRING, STRING)
        source.pipe_input("a", "1", 5)
        source.pipe_input("a", "2", 6)
        for _ in range(5):
            driver.advance_wall_clock_time(250)
        sink = driver.create_output_topic("out", STRING, STRING)
        assert sink.read_record() == Record("a", "None", 5, (("by", b"Twice"),))
        assert sink.read_key_values() == [("a", "1"), ("tick", "1250"), ("tick", "1500")]
        assert not Twice.closed
    assert Twice.closed == ["app"]


def test_a_topology_can_be_made_of_nodes() -> None:
    topology = Topology(key_serde=STRING, value_serde=STRING)
    topology.add_source("source", "in")
    topology.add_processor("long", filtered(lambda _key, value: len(value) > 1, keep=True), "source")
    topology.add_sink("sink", "out", "long")
    assert topology.sub_topologies() == [["source", "long", "sink"]]
    with TopologyTestDriver(topology) as driver:
        source = driver.create_input_topic("in", STRING, STRING)
        source.pipe_input("a", "b")
        source.pipe_input("a", "bc")
        assert driver.create_output_topic("out", STRING, STRING).read_key_values() == [("a", "bc")]


@pytest.mark.parametrize("reverse", [False, True])
def test_key_value_stores_iterate_in_the_order_of_keys(reverse: bool) -> None:
    builder = strings()
    builder.table("in", store_name="rows")
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.create_input_topic("in", STRING, STRING)
        for key in ("b", "ab", "a", "c"):
            source.pipe_input(key, key)
        store = driver.get_key_value_store("rows")
        keys = ["a", "ab", "b", "c"]
        found = [key for key, _ in store.all(reverse=reverse)]
        assert found == (keys[::-1] if reverse else keys)
        assert [key for key, _ in store.range("ab", "b", reverse=reverse)] == (["b", "ab"] if reverse else ["ab", "b"])
        assert store.delete("b") == ValueAndTimestamp("b", 0)
        assert store.get("b") is None
