"""Streaming queries on live brokers, without Spark: offsets, limits, new partitions, data loss, restarts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Producer

from kcli.errors import UsageError
from kcli.export.splits import DataLoss
from kcli.pipelines.stream import FetchPartition
from kcli.testing.kafka import Kafka
from tests.export.micro_batches import Crashed, Query
from tests.pipelines.test_live_batch import delete_records, delete_topic

EARLIEST = {"startingOffsets": "earliest"}


@contextmanager
def stream(kafka: Kafka, **options: str) -> Iterator[Query]:
    query = Query(None, **{"kafka.bootstrap.servers": kafka.bootstrap_servers, **options})
    try:
        yield query
    finally:
        query.reader.stop()


def add_partitions(kafka: Kafka, topic: str, count: int) -> None:
    wanted = {"name": topic, "count": count, "assignments": None}
    kafka.call("CreatePartitions", topics=[wanted], timeout=10_000, validate_only=False)


def test_every_record_once(kafka: Kafka) -> None:
    kafka.create_topic("t", 2)
    kafka.produce("t", *({"value": f"{i}", "partition": i % 2} for i in range(20)))
    with stream(kafka, **EARLIEST, maxOffsetsPerTrigger="6") as query:
        assert query.run() == 6
        assert query.at() == {"t": {"0": 3, "1": 3}}
        with pytest.raises(Crashed):
            query.run(dies=True)
        query.reader.stop()
        query.start()
        assert query.drain() == 14
        kafka.produce("t", {"value": "late", "partition": 1})
        kafka.produce("u", "other")
        assert query.drain() == 2
        assert query.offsets("t", 0) == [*range(10)]
        assert query.offsets("t", 1) == [*range(11)]
        assert query.reader.reportLatestOffset() == query.at() == {"t": {"0": 10, "1": 11}, "u": {"0": 1}}


def test_from_the_latest(kafka: Kafka) -> None:
    """The first batch is empty, so that the checkpoint has where the query begins."""
    kafka.produce("t", "old")
    with stream(kafka, subscribe="t") as query:
        assert query.run() == 0
        assert query.at() == {"t": {"0": 1}}
        kafka.produce("t", "new")
        assert query.drain() == 1
        assert query.offsets() == [1]


def test_from_a_time(kafka: Kafka) -> None:
    kafka.produce("t", *({"value": f"{i}", "timestamp_ms": 1_000 * (i + 1)} for i in range(5)))
    with stream(kafka, startingTimestamp="3000") as query:
        query.drain()
        assert query.offsets() == [2, 3, 4]


def test_partitions_that_come_later(kafka: Kafka) -> None:
    kafka.produce("t", "x")
    with stream(kafka, subscribe="t") as query:
        query.drain()
        add_partitions(kafka, "t", 3)
        kafka.produce("t", *({"value": "y", "partition": i} for i in range(3)))
        query.drain()
        assert query.at() == {"t": {"0": 2, "1": 1, "2": 1}}
        assert [query.offsets("t", i) for i in range(3)] == [[1], [0], [0]]


def test_available_now(kafka: Kafka) -> None:
    kafka.produce("t", *map(str, range(10)))
    with stream(kafka, **EARLIEST, maxOffsetsPerTrigger="4") as query:
        query.reader.stop()
        query.start()
        query.reader.prepareForTriggerAvailableNow()
        kafka.produce("t", "later")
        assert query.drain() == 10
        assert query.done == 3


def test_a_batch_waits_for_offsets(kafka: Kafka) -> None:
    kafka.produce("t", "x")
    with stream(kafka, **EARLIEST, minOffsetsPerTrigger="3", maxTriggerDelay="1s") as query:
        assert query.run() == 1  # the first one of a run does not wait
        kafka.produce("t", "x", "y")
        assert query.run() == 0
        kafka.produce("t", "z")
        assert query.run() == 3
        kafka.produce("t", "late")
        assert query.run() == 0
        time.sleep(1.1)
        assert query.run() == 1


def test_committed_records(kafka: Kafka) -> None:
    """The stream stays below an open transaction."""
    kafka.create_topic("t")
    producer = Producer({**kafka.client_config("confluent"), "transactional.id": "x"})
    producer.init_transactions()
    with stream(kafka, **EARLIEST, isolation="read_committed") as query:
        for commits in (True, False):
            producer.begin_transaction()
            producer.produce("t", str(commits))
            producer.flush()
            kafka.produce("t", "plain")
            assert query.drain() == 0
            (producer.commit_transaction if commits else producer.abort_transaction)()
            assert query.drain() == 1 + commits
        assert [value for *_, value in query.rows] == [b"True", b"plain", b"plain"]


@pytest.mark.parametrize("fails", [True, False])
def test_offsets_that_are_gone(kafka: Kafka, fails: bool) -> None:
    kafka.produce("t", *map(str, range(4)))
    with stream(kafka, **EARLIEST, failOnDataLoss=str(fails).lower()) as query:
        query.drain()
        kafka.produce("t", *map(str, range(6)))
        delete_records(kafka, "t", 7)
        if fails:
            with pytest.raises(DataLoss, match="t-0: offset 4 is gone, the log starts at 7"):
                query.drain()
        else:
            query.drain()
            assert query.offsets() == [0, 1, 2, 3, 7, 8, 9]


@pytest.mark.parametrize("fails", [True, False])
def test_a_topic_that_is_deleted(kafka: Kafka, fails: bool) -> None:
    kafka.produce("t", "x")
    kafka.produce("u", "x")
    with stream(kafka, subscribe="t,u", failOnDataLoss=str(fails).lower(), **EARLIEST) as query:
        query.drain()
        delete_topic(kafka, "t")
        kafka.produce("u", "y")
        if fails:
            with pytest.raises(DataLoss, match="t-0 is not there any more"):
                query.drain()
        else:
            query.drain()
            assert query.offsets("u") == [0, 1]
            assert query.at() == {"u": {"0": 2}}


@pytest.mark.parametrize("fails", [True, False])
def test_a_topic_that_was_made_anew(kafka: Kafka, fails: bool) -> None:
    kafka.produce("t", *"abc")
    with stream(kafka, subscribe="t", failOnDataLoss=str(fails).lower(), **EARLIEST) as query:
        query.drain()
        delete_topic(kafka, "t")
        kafka.produce("t", *"uvwxyz")
        if fails:
            with pytest.raises(DataLoss, match="the topic t was deleted and made anew: its id was"):
                query.run()
        else:
            query.drain()
            kafka.produce("t", "!")
            query.drain()
            assert [value for *_, value in query.rows] == [each.encode() for each in "abcuvwxyz!"]


def test_a_broker_that_comes_back(kafka: Kafka) -> None:
    kafka.produce("t", "x")
    with stream(kafka, **EARLIEST) as query:
        query.drain()
        kafka.restart()
        kafka.produce("t", "y")
        assert query.drain() == 1


def test_a_stream_has_no_end(kafka: Kafka) -> None:
    with pytest.raises(UsageError, match="a stream has no end"), stream(kafka, endingTimestamp="5"):
        pass


def test_other_checkpoints(kafka: Kafka) -> None:
    kafka.produce("t", "x")
    with stream(kafka, **EARLIEST) as query:
        start: Any = {"t": {"0": "x"}}
        with pytest.raises(UsageError, match="the checkpoint is not of a kafka-log stream"):
            query.reader.partitions(start, {"t": {"0": 1}})


@pytest.mark.parametrize("least", ["1", "6"])
def test_tasks_stay_where_retention_removed_offsets(kafka: Kafka, least: str) -> None:
    """A batch that was interrupted runs again: the sink has some of its tasks already, which it knows by number."""
    kafka.create_topic("t", 3)
    kafka.produce("t", *({"value": f"{i}", "partition": i % 3} for i in range(30)))
    more = {"subscribe": "t", "failOnDataLoss": "false", "minPartitions": least}
    with stream(kafka, **EARLIEST, **more) as query:
        with pytest.raises(Crashed):
            query.run(dies=True)
        before = [each.fetch_range for each in tasks_of(query)]
        delete_records(kafka, "t", 10)  # all of t-0
        delete_records(kafka, "t", 7, partition=1)
        after = [each.fetch_range for each in tasks_of(query)]
        assert [(each.partition, each.end) for each in after] == [(each.partition, each.end) for each in before]
        firsts = {0: 10, 1: 7, 2: 0}
        assert all(each.start >= min(each.end, firsts[each.partition.partition]) for each in after)
        assert query.run() == 13
        assert [query.offsets("t", i) for i in range(3)] == [[], [7, 8, 9], [*range(10)]]


@pytest.mark.parametrize("fails", [True, False])
def test_the_first_batch_begins_where_it_did(kafka: Kafka, fails: bool) -> None:
    """Retention comes before it runs again in a new process, to which "earliest" is another offset."""
    kafka.produce("t", *map(str, range(12)))
    more = {"subscribe": "t", "failOnDataLoss": str(fails).lower(), "minPartitions": "4"}
    with stream(kafka, **EARLIEST, **more) as query:
        with pytest.raises(Crashed):
            query.run(dies=True)
        before = [(each.fetch_range.start, each.fetch_range.end) for each in tasks_of(query)]
        assert before == [(0, 3), (3, 6), (6, 9), (9, 12)]
        delete_records(kafka, "t", 5)
        query.reader.stop()
        query.start()
        if fails:
            with pytest.raises(DataLoss, match="t-0: offset 0 is gone, the log starts at 5"):
                query.run()
        else:
            assert [each.fetch_range.end for each in tasks_of(query)] == [end for _, end in before]
            assert query.run() == 7
            kafka.produce("t", "12")
            assert query.drain() == 1
            assert query.offsets() == [*range(5, 13)]


def tasks_of(query: Query) -> list[FetchPartition]:
    return [each for each in query.plan() if isinstance(each, FetchPartition)]
