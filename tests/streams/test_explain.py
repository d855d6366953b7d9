"""Which input records have made a key's value: of programs that are processed again, without a broker."""

from __future__ import annotations

import pytest

from kcli.streams import LONG, STRING, SessionWindows, StreamsBuilder, StreamsError, Suppressed, TimeWindows, Topology
from kcli.streams.local.explain import Cause, Replay, causes_of, store_of
from kcli.streams.local.plan import plan
from kcli.streams.topology.input_queues import RawRecord

SIZES = {"a": 3, "b": 3}


def strings() -> StreamsBuilder:
    return StreamsBuilder(key_serde=STRING, value_serde=STRING)


def record(topic: str, partition: int, offset: int, value: str | None, key: str = "k") -> RawRecord:
    data = None if value is None else value.encode()
    return RawRecord(topic, partition, offset, 1000 * offset + partition, key.encode(), data)


def causes(topology: Topology, store: str, key: bytes, records: list[RawRecord], **about: bool) -> list[Cause]:
    replay = Replay(topology, "app", plan(topology, "app", SIZES))
    return causes_of(replay, records, f"app-{store}-changelog", lambda found: found.startswith(key), **about)


def told(found: list[Cause]) -> list[tuple[str, int, int, bytes | None]]:
    return [(each.record.topic, each.record.partition, each.record.offset, each.value) for each in found]


def test_records_are_followed_through_repartition_topics() -> None:
    builder = strings()
    words = builder.stream("a").flat_map_values(str.split).group_by(lambda _, word: word)
    words.count(store_name="counts")
    records = [
        record("a", 0, 0, "x y"),
        record("a", 2, 0, "z x x"),
        record("a", 1, 0, "y"),
        record("a", 0, 1, "x"),
    ]
    found = causes(builder.build(), "counts", b"x", records)
    assert told(found) == [
        ("a", 0, 0, LONG.serialize(1)),
        ("a", 2, 0, LONG.serialize(2)),
        ("a", 2, 0, LONG.serialize(3)),
        ("a", 0, 1, LONG.serialize(4)),
    ]
    assert len({each.place for each in found}) == 1


def test_a_deleted_key_begins_anew() -> None:
    builder = strings()
    builder.table("a", store_name="rows")
    records = [record("a", 1, offset, value) for offset, value in enumerate(("x", "y", None, "z", "u"))]
    assert told(causes(builder.build(), "rows", b"k", records)) == [("a", 1, 3, b"z"), ("a", 1, 4, b"u")]
    assert len(causes(builder.build(), "rows", b"k", records, all_versions=True)) == 5


def test_both_sides_of_a_join_are_causes() -> None:
    builder = strings()
    one, other = builder.table("a", store_name="one"), builder.table("b", store_name="other")
    one.join(other, lambda left, right: f"{left}+{right}", store_name="joined")
    records = [record("a", 0, 0, "x"), record("b", 0, 0, "y"), record("b", 1, 0, "z"), record("a", 0, 1, "u")]
    assert told(causes(builder.build(), "joined", b"k", records)) == [("b", 0, 0, b"x+y"), ("a", 0, 1, b"u+y")]


def test_each_window_has_its_causes() -> None:
    builder = strings()
    grouped = builder.stream("a").group_by_key()
    grouped.windowed_by(TimeWindows(size_ms=2000)).count(store_name="windows")
    grouped.windowed_by(SessionWindows(inactivity_gap_ms=1500)).count(store_name="sessions")
    records = [record("a", 0, offset, "x") for offset in (0, 1, 2, 6)]
    found = causes(builder.build(), "windows", b"k", records)
    assert [(each.record.offset, each.value) for each in found] == [
        (0, LONG.serialize(1)),
        (1, LONG.serialize(2)),
        (2, LONG.serialize(1)),
        (6, LONG.serialize(1)),
    ]
    assert len({each.place for each in found}) == 3
    sessions = causes(builder.build(), "sessions", b"k", records)
    assert [(each.record.offset, each.value) for each in sessions] == [(2, LONG.serialize(3)), (6, LONG.serialize(1))]


def test_records_that_fail_and_global_tables() -> None:
    builder = strings()
    names = builder.global_table("b")
    joined = builder.stream("a").join(names, lambda one, name: one + name, key_selector=lambda _, value: value)
    joined.map_values(lambda value: 1 // (len(value) - 2)).group_by_key(value_serde=LONG).reduce(
        lambda one, two: one + two, store_name="sums"
    )
    records = [
        record("b", 2, 0, "xyz", "n"),
        record("a", 0, 0, "n"),
        record("b", 0, 0, "y", "n"),
        record("a", 0, 1, "n"),
    ]
    assert told(causes(builder.build(), "sums", b"k", records)) == [("a", 0, 0, LONG.serialize(0))]


def test_stores_that_cannot_be_explained() -> None:
    builder = strings()
    builder.table("a", store_name="rows", logging=False)
    counts = builder.stream("b").group_by_key().count(store_name="counts")
    counts.suppress(Suppressed.until_time_limit(5, emits_early=True), name="late")
    topology = builder.build()
    for name, says in (
        ("x", "the program has no store x; it has counts, late-store, rows"),
        ("rows", "the store rows has no changelog"),
        ("late-store", "the store late-store is a buffer"),
    ):
        with pytest.raises(StreamsError, match=says):
            store_of(topology, name)
