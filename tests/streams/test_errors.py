"""Programs that make no sense, and records that a topology cannot process: one clear error each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kcli.errors import KcliError
from kcli.streams import (
    INTEGER,
    JSON,
    LONG,
    STRING,
    JoinWindows,
    KeyValueStoreBuilder,
    ProcessingError,
    Processor,
    Record,
    SerializationError,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    TopologyError,
    TopologyTestDriver,
)
from kcli.streams.topology.operators.stateless import pass_through
from kcli.streams.topology.timestamps import (
    skip_on_invalid_timestamp,
    use_partition_time_on_invalid_timestamp,
)


def strings() -> StreamsBuilder:
    return StreamsBuilder(key_serde=STRING, value_serde=STRING)


def no_serde() -> None:
    builder = StreamsBuilder()
    builder.stream("in", key_serde=STRING).to("out")
    builder.build()


def no_store_serde() -> None:
    builder = StreamsBuilder()
    serdes: dict[str, Any] = {"key_serde": STRING, "value_serde": STRING}
    builder.stream("in", **serdes).group_by_key().aggregate(dict, lambda _key, _value, total: total)
    builder.build()


def two_stores() -> None:
    builder = strings()
    builder.table("a", store_name="s")
    builder.table("b", store_name="s")
    builder.build()


def two_nodes() -> None:
    builder = strings()
    builder.stream("a", name="same").to("out", name="same")
    builder.build()


def unknown_store() -> None:
    builder = strings()
    builder.stream("a").process(Silent, "missing")
    builder.build()


def overlapping_streams() -> None:
    builder = strings()
    builder.stream("a", "b").to("x")
    builder.stream("a").to("y")
    builder.build()


def two_tables_of_a_topic() -> None:
    builder = strings()
    builder.table("a")
    builder.table("a")
    builder.build()


def cycle() -> None:
    topology = Topology(key_serde=STRING, value_serde=STRING)
    topology.add_processor("first", pass_through(), "second")


def no_window_to_close() -> None:
    strings().table("a").suppress(Suppressed.until_window_closes())


def no_join_windows() -> None:
    builder = strings()
    builder.stream("a").join(builder.stream("b"), lambda one, _: one, None)  # type: ignore[call-overload]


def short_retention() -> None:
    strings().stream("a").group_by_key().windowed_by(TimeWindows(size_ms=10, grace_ms=5)).count(retention_ms=12)


NO_WINDOWS: Any = 5


def last(_key: object, value: object, _total: object) -> object:
    return value


class Silent(Processor[Any, Any, Any, Any]):
    def process(self, record: Record[Any, Any]) -> None:
        pass


@pytest.mark.parametrize(
    ("declare", "says"),
    [
        (no_serde, "KSTREAM-SOURCE-0000000000 has no value_serde"),
        (no_store_serde, "KSTREAM-AGGREGATE-STATE-STORE-0000000001 has no value_serde"),
        (two_stores, "there already is another store s"),
        (two_nodes, "there already is a node same"),
        (unknown_store, "uses a store missing that the topology does not have"),
        (overlapping_streams, "two streams have the topic a, but not all topics in common: a, b and a"),
        (two_tables_of_a_topic, "the topic a is already that of the source KSTREAM-SOURCE-0000000001"),
        (cycle, "first has a predecessor second that the topology does not have"),
        (no_window_to_close, "needs a table of windows"),
        (no_join_windows, "needs windows"),
        (short_retention, "must keep windows for 15 ms"),
        (lambda: strings().stream(), "a stream needs a topic"),
        (lambda: strings().stream("a").repartition(number_of_partitions=0), "must be positive, not 0"),
        (lambda: strings().stream("a").group_by_key().cogroup(last).windowed_by(NO_WINDOWS), "not 5"),
        (lambda: TimeWindows(size_ms=0), "size_ms must be positive"),
        (lambda: TimeWindows(size_ms=5, advance_ms=6), "advance_ms must be from 1 to"),
        (lambda: SessionWindows(inactivity_gap_ms=0), "inactivity_gap_ms must be positive"),
        (lambda: SlidingWindows(time_difference_ms=-1), "must not be negative"),
        (lambda: JoinWindows(before_ms=-5, after_ms=2), "ends before it starts"),
        (lambda: JoinWindows.of(5, grace_ms=-1), "grace_ms must not be negative"),
        (lambda: Suppressed.until_time_limit(-1), "wait_ms must not be negative"),
    ],
)
def test_programs_that_make_no_sense(declare: Callable[[], object], says: str) -> None:
    with pytest.raises(TopologyError, match=says):
        declare()


def test_names_have_the_characters_of_topics() -> None:
    builder = strings()
    builder.stream("a").to("b", name="sink ä")
    with pytest.raises(TopologyError, match="'sink ä' is no name for a node"):
        builder.build()
    builder = strings()
    builder.table("a", store_name="rows/1")
    with pytest.raises(TopologyError, match="'rows/1' is no name for a store"):
        builder.build()


def test_a_record_that_cannot_be_read() -> None:
    builder = StreamsBuilder()
    builder.stream("in", key_serde=STRING, value_serde=INTEGER).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", b"a", b"\0\0\0\1", 0)
        with pytest.raises(
            ProcessingError,
            match=r"in, partition 0, offset 1: the record's value cannot be read: 3 bytes are no INTEGER",
        ):
            driver.pipe("in", b"a", b"abc", 0)
        with pytest.raises(ProcessingError, match=r"offset 2: the record's key cannot be read: 1 bytes are no STRING"):
            driver.pipe("in", b"\xff", b"\0\0\0\1", 0)


def test_a_value_that_the_sinks_serde_does_not_take() -> None:
    builder = strings()
    builder.stream("in").map_values(len).to("out")
    says = "in, partition 0, offset 0: KSTREAM-SINK-0000000002: 3 is no STRING"
    with TopologyTestDriver(builder.build()) as driver, pytest.raises(ProcessingError, match=says):
        driver.pipe("in", b"a", b"abc", 0)


def test_a_global_table_reports_bad_records_too() -> None:
    builder = strings()
    names = builder.global_table("names", key_serde=STRING, value_serde=LONG)
    builder.stream("in").join(names, lambda one, _: one, key_selector=lambda key, _: key).to("out")
    says = "names, partition 0, offset 0: the record's value cannot be read: 5 bytes are no LONG"
    with TopologyTestDriver(builder.build()) as driver, pytest.raises(ProcessingError, match=says):
        driver.pipe("names", b"a", b"short", 0)


def test_stores_and_topics_that_are_not_there() -> None:
    builder = strings()
    builder.add_state_store(KeyValueStoreBuilder(name="counts", key_serde=STRING, value_serde=LONG))
    builder.stream("in").process(Peeking)
    with pytest.raises(ProcessingError, match="uses the store counts, which is not connected to it"):
        TopologyTestDriver(builder.build())
    builder = strings()
    builder.table("in", store_name="rows")
    with TopologyTestDriver(builder.build()) as driver:
        with pytest.raises(ProcessingError, match="does not read the topic other"):
            driver.pipe("other", b"a", b"b", 0)
        with pytest.raises(ProcessingError, match="no WindowStore rows: the topology has a KeyValueStore"):
            driver.get_window_store("rows")
        with pytest.raises(ProcessingError, match="no SessionStore x: the topology does not have it"):
            driver.get_session_store("x")
        with pytest.raises(ProcessingError, match="no more records to the topic out"):
            driver.create_output_topic("out", STRING, STRING).read_record()
        with pytest.raises(SerializationError, match="the store rows takes no key None"):
            driver.get_key_value_store("rows").get(None)


class Peeking(Processor[Any, Any, Any, Any]):
    def init(self, context: Any) -> None:
        context.get_state_store("counts")

    def process(self, record: Record[Any, Any]) -> None:
        pass


class Rekeying(Processor[Any, Any, Any, Any]):
    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record.with_key("other"))


class Lost(Processor[Any, Any, Any, Any]):
    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record, "nobody")


@pytest.mark.parametrize(
    ("method", "supplier", "says"),
    [("process_values", Rekeying, "must not change the key 'a' to 'other'"), ("process", Lost, "forwards to nobody")],
)
def test_processors_that_break_a_rule(method: str, supplier: Any, says: str) -> None:
    builder = strings()
    getattr(builder.stream("in"), method)(supplier).to("out")
    with TopologyTestDriver(builder.build()) as driver, pytest.raises(ProcessingError, match=says):
        driver.pipe("in", b"a", b"b", 0)


def test_a_strict_suppress_is_full() -> None:
    builder = strings()
    builder.table("in").suppress(Suppressed.until_time_limit(100, records_max=1)).to_stream().to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", b"a", b"1", 0)
        with pytest.raises(ProcessingError, match=r"has 2 records with \d+ bytes, more than it may"):
            driver.pipe("in", b"b", b"2", 0)


def test_timestamps_that_are_none() -> None:
    builder = strings()
    builder.stream("fails").to("out")
    builder.stream("skips", timestamp_extractor=skip_on_invalid_timestamp).to("skipped")
    builder.stream("takes", timestamp_extractor=use_partition_time_on_invalid_timestamp).to("taken")
    with TopologyTestDriver(builder.build()) as driver:
        with pytest.raises(ProcessingError, match="fails, partition 0, offset 0: the record's timestamp is -1"):
            driver.pipe("fails", b"a", b"1", -1)
        driver.pipe("skips", b"a", b"1", -1)
        assert not driver.outputs("skipped")
        with pytest.raises(ProcessingError, match="there is none before it"):
            driver.pipe("takes", b"a", b"1", -1)
        driver.pipe("takes", b"a", b"1", 7)
        driver.pipe("takes", b"a", b"2", -1)
        assert [record.timestamp for record in driver.outputs("taken")] == [7, 7]


@pytest.mark.parametrize("data", [b"{", b"\xff", b"[" * 100_000])
def test_json_that_is_none(data: bytes) -> None:
    with pytest.raises(SerializationError, match="are no JSON"):
        JSON.from_bytes(data)


def test_all_errors_are_one_line_of_kcli() -> None:
    assert issubclass(TopologyError, KcliError)
    assert issubclass(ProcessingError, KcliError)
    assert issubclass(SerializationError, KcliError)
    assert TopologyError.exit_status == 2
