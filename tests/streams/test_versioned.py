"""Versioned stores beside a list of all puts; their errors, changelogs and restored state."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from kcli.streams import (
    STRING,
    StreamsBuilder,
    Suppressed,
    TopologyError,
    TopologyTestDriver,
    VersionedKeyValueStoreBuilder,
    VersionedRecord,
)
from kcli.streams.local.plan import plan
from kcli.streams.records import Record, RecordMetadata
from kcli.streams.topology.stores.join_buffer import JoinBufferBuilder
from kcli.streams.topology.stores.versioned import NOT_PUT, VALID_TO_UNDEFINED, VersionedKeyValueStore

Logged = tuple[bytes, bytes | None, int | None]


def strings() -> StreamsBuilder:
    return StreamsBuilder(key_serde=STRING, value_serde=STRING)


def versioned(history_retention_ms: int, logged: list[Logged] | None = None) -> VersionedKeyValueStore[str, str]:
    """Return a store. logged: gets what it writes to its changelog."""
    builder = VersionedKeyValueStoreBuilder(
        name="s", key_serde=STRING, value_serde=STRING, history_retention_ms=history_retention_ms
    )
    return builder.build(
        lambda key, value, timestamp, *_: None if logged is None else logged.append((key, value, timestamp))
    )


class AllPuts:
    """What a versioned store is to answer, found in all of its puts. Values are put but once at a time."""

    def __init__(self, history_retention_ms: int) -> None:
        self._retention_ms = history_retention_ms
        self._puts: dict[str, dict[int, str | None]] = {}
        self._stream_time = -1

    def put(self, key: str, value: str | None, timestamp: int) -> int:
        if timestamp < self._stream_time - self._retention_ms:
            return NOT_PUT
        self._stream_time = max(self._stream_time, timestamp)
        self._puts.setdefault(key, {})[timestamp] = value
        return min((time for time in self._puts[key] if time > timestamp), default=VALID_TO_UNDEFINED)

    def get(self, key: str, as_of: int | None) -> VersionedRecord | None:
        puts = self._puts.get(key, {})
        start = max((time for time in puts if as_of is None or time <= as_of), default=None)
        if start is None or (value := puts[start]) is None:
            return None
        end = min((time for time in puts if time > start), default=None)
        if as_of is not None and end is not None and as_of < self._stream_time - self._retention_ms:
            return None
        return VersionedRecord(value, start, end)


@pytest.mark.parametrize("seed", range(30))
def test_a_store_answers_by_all_puts(seed: int) -> None:
    chance = random.Random(seed)
    retention_ms = chance.choice([0, 5, 40, 1000])
    store, puts = versioned(retention_ms), AllPuts(retention_ms)
    free = random.Random(seed).sample(range(400), 300)
    free.sort(key=lambda time: time + chance.randrange(60))
    for step, time in enumerate(free):
        key, value = chance.choice("abc"), None if chance.random() < 0.25 else str(step)
        assert store.put(key, value, time) == puts.put(key, value, time)
        for asked in (None, time, time - chance.randrange(50), time + 3):
            assert store.get(key, asked) == puts.get(key, asked)
    assert dict(store.all()) == {key: found for key in "abc" if (found := puts.get(key, None)) is not None}


def test_what_has_ended_is_forgotten() -> None:
    store = versioned(10)
    for time in range(1000):
        store.put(str(time), "x", time)
        store.put(str(time), None, time + 1)
    assert len(store._versions) < 40


def test_a_deletion_at_the_time_of_the_only_value_leaves_nothing_as_in_kafka_streams() -> None:
    store = versioned(100)
    store.put("a", "x", 10)
    assert store.put("a", None, 10) == VALID_TO_UNDEFINED
    assert store.put("a", "y", 5) == VALID_TO_UNDEFINED
    assert store.get("a") == VersionedRecord("y", 5)
    store.put("b", None, 10)
    store.put("b", "x", 10)
    store.put("b", None, 10)
    assert store.put("b", "y", 5) == 10
    assert store.get("b") is None


def test_deletions_return_what_was_there() -> None:
    store = versioned(100)
    store.put("a", "x", 10)
    store.put("a", "y", 20)
    assert store.delete("a", 15) == VersionedRecord("x", 10, 20)
    assert store.get("a", 17) is None
    assert store.get("a") == VersionedRecord("y", 20)
    store.put("b", "z", 500)
    assert store.delete("a", 30) is None


def test_a_changelog_restores_a_store() -> None:
    logged: list[Logged] = []
    store, restored = versioned(20, logged), versioned(20)
    chance = random.Random(5)
    for step in range(200):
        store.put(chance.choice("ab"), None if chance.random() < 0.2 else str(step), step + chance.randrange(-30, 5))
    assert len(logged) == 200
    for key, value, timestamp in logged:
        assert timestamp is not None
        restored.restore(key, value, timestamp)
    for time in range(170, 205):
        assert [restored.get(key, time) for key in "ab"] == [store.get(key, time) for key in "ab"]


def test_a_changelog_restores_the_records_that_wait_for_a_join() -> None:
    logged: list[Logged] = []
    builder = JoinBufferBuilder(name="b", key_serde=STRING, value_serde=STRING, grace_ms=10)
    buffer = builder.build(lambda key, value, timestamp, *_: logged.append((key, value, timestamp)))
    place = RecordMetadata("in", 2, 7)
    joined: list[tuple[Any, ...]] = []
    for key, time in (("b", 20), ("a", 12), ("a", 20), ("a", 25)):
        assert buffer.put(Record(key, f"{key}{time}", time, (("h", b"1"),)), place)
        buffer.join_ready(lambda *each: joined.append(each))
    assert [(record.key, record.timestamp) for record, _ in joined] == [("a", 12)]
    restored = builder.build(lambda *_: None)
    for key_bytes, value, _ in logged:
        restored.restore(key_bytes, value, 0)
    assert not restored.put(Record("a", "late", 14), place)
    assert restored.put(Record("c", "c40", 40), place)
    joined.clear()
    restored.join_ready(lambda *each: joined.append(each))
    assert joined == [
        (Record(key, f"{key}{time}", time, (("h", b"1"),)), place) for key, time in (("a", 20), ("b", 20), ("a", 25))
    ]


def test_a_join_looks_up_the_value_at_the_time_of_a_record() -> None:
    builder = strings()
    prices = builder.table("prices", store_name="prices", history_retention_ms=1000)
    builder.stream("orders").join(prices, lambda order, price: f"{order}:{price}", grace_ms=50).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        orders = driver.create_input_topic("orders", STRING, STRING)
        changes = driver.create_input_topic("prices", STRING, STRING)
        sink = driver.create_output_topic("out", STRING, STRING)
        changes.pipe_input("a", "5", 100)
        orders.pipe_input("a", "first", 120)
        assert sink.is_empty()
        changes.pipe_input("a", "6", 110)
        orders.pipe_input("a", "second", 170)
        orders.pipe_input("a", "late", 105)
        assert sink.read_records() == [Record("a", "first:6", 120), Record("a", "late:5", 105)]
        store = driver.get_versioned_key_value_store("prices")
        assert [store.get("a", time) for time in (99, 105, 110)] == [
            None,
            VersionedRecord("5", 100, 110),
            VersionedRecord("6", 110),
        ]


def test_changelogs_are_compacted_a_day_after_the_history() -> None:
    builder = strings()
    builder.table("a", store_name="rows", history_retention_ms=1000)
    builder.table("b", store_name="long", history_retention_ms=2**63 - 1)
    made = plan(builder.build(), "app", {"a": 1, "b": 1})
    assert {topic.name: topic.configs["min.compaction.lag.ms"] for topic in made.internal_topics} == {
        "app-rows-changelog": str(1000 + 86_400_000),
        "app-long-changelog": str(2**63 - 1),
    }
    assert {topic.configs["cleanup.policy"] for topic in made.internal_topics} == {"compact"}


def nameless() -> None:
    strings().table("a", history_retention_ms=5)


def negative() -> None:
    strings().table("a", store_name="s", history_retention_ms=-1)


def suppressed() -> None:
    table = strings().table("a", store_name="s", history_retention_ms=5).map_values(str.upper)
    table.suppress(Suppressed.until_time_limit(5, emits_early=True))


def grace_without_versions() -> None:
    builder = strings()
    builder.stream("a").join(builder.table("b"), lambda one, _: one, grace_ms=5)


def grace_of_a_join_of_versions() -> None:
    builder = strings()
    one = builder.table("b", store_name="s", history_retention_ms=5)
    two = builder.table("c", store_name="t", history_retention_ms=5)
    builder.stream("a").join(one.join(two, lambda one, _: one), lambda one, _: one, grace_ms=5)


def long_grace() -> None:
    builder = strings()
    builder.stream("a").join(builder.table("b", store_name="s", history_retention_ms=5), lambda one, _: one, grace_ms=6)
    builder.build()


@pytest.mark.parametrize(
    ("declare", "says"),
    [
        (nameless, "history_retention_ms makes a versioned store, which needs a store_name"),
        (negative, "the store s: history_retention_ms is -1, below 0"),
        (suppressed, "suppress is only for tables without versions; KTABLE-MAPVALUES-0000000002 is versioned"),
        (grace_without_versions, "needs a versioned table; KTABLE-SOURCE-0000000003 is none"),
        (grace_of_a_join_of_versions, "needs a versioned table; KTABLE-MERGE-"),
        (long_grace, "the store s has a history of 5 ms, and a join with it a grace period of 6 ms, which is longer"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_what_versions_do_not_do_is_refused(declare: Callable[[], None], says: str) -> None:
    with pytest.raises(TopologyError, match=says):
        declare()
