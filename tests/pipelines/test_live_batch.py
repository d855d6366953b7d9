"""Batch queries on live brokers: what they read is what the disk has, and what Kafka's clients read."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from kcli.errors import UsageError
from kcli.export.columns import COLUMNS
from kcli.export.options import Narrowed, SourceOptions
from kcli.export.splits import DataLoss
from kcli.pipelines import fetching
from kcli.pipelines.cluster import BOOTSTRAP, Cluster
from kcli.pipelines.planning import plan
from kcli.testing.kafka import Kafka
from tests.broker.running import running_node
from tests.conftest import GOLDEN
from tests.pipelines.queries import LIVE_COLUMNS, ONLY_ON_DISK, Planned, live, named, offsets_of, on_disk

ISOLATIONS = ("read_committed", "read_uncommitted")
SMALL_FETCHES = {"kafka.max.partition.fetch.bytes": "1"}
"""A Fetch answer has one batch."""


@pytest.fixture(scope="module", params=["codecs", "txn"])
def golden(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A broker on a copy of what Kafka wrote: its address, and the directory."""
    directory = tmp_path_factory.mktemp("golden") / "data"
    shutil.copytree(GOLDEN / request.param / "data", directory)
    with running_node(directory, log_retention_ms="-1") as node:
        yield node.bootstrap, directory


@pytest.fixture(scope="module")
def transactions() -> Iterator[Kafka]:
    """A broker with topic t: committed, aborted and open transactions of three producers among plain records, each
    longer than a window of an answer."""
    with Kafka.started(seed={"t": 1}) as kafka:
        producers = []
        for name in "abc":
            producer = Producer({**kafka.client_config("confluent"), "transactional.id": name, "linger.ms": 0})
            producer.init_transactions()
            producers.append(producer)
        for i in range(12):
            producer = producers[i % 3]
            producer.begin_transaction()
            for j in range(3):
                producer.produce("t", f"{i}-{j} {'x' * 400_000}")
                producer.flush()
                if j == 1:
                    kafka.produce("t", f"plain-{i}")
            if i < 11:
                (producer.abort_transaction if i % 2 else producer.commit_transaction)()
        yield kafka
        producers[-1].abort_transaction()


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("more", [{}, SMALL_FETCHES, {"minPartitions": "40"}], ids=["whole", "small", "cut"])
def test_the_live_source_is_the_disk_source(golden: tuple[str, Path], isolation: str, more: dict[str, str]) -> None:
    bootstrap, directory = golden
    options = {"columns": LIVE_COLUMNS, "isolation": isolation, "includeControl": "true"}
    table = live(bootstrap, **options, **more)
    assert table.num_rows > 300
    assert table.equals(on_disk(directory, **options, beyondHighWatermark="true"))


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("more", [{}, SMALL_FETCHES, {"maxRecordsPerPartition": "2"}], ids=["whole", "small", "cut"])
def test_transactions(transactions: Kafka, isolation: str, more: dict[str, str]) -> None:
    options = {"columns": LIVE_COLUMNS, "isolation": isolation}
    table = live(transactions.bootstrap_servers, **options, **more)
    assert table.equals(on_disk(transactions.data_dir, **options, beyondHighWatermark="true"))
    values = {value.decode().partition(" ")[0] for value in table.column("value").to_pylist()}
    assert ("1-0" in values) is (isolation == "read_uncommitted")
    assert "0-0" in values


def test_columns(kafka: Kafka) -> None:
    kafka.produce("t", {"key": "k", "value": "v", "headers": {"h": "x"}})
    assert Planned(**named({}, "kafka.bootstrap.servers", kafka.bootstrap_servers)).schema.names == [
        *("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
    ]
    (row,) = live(kafka.bootstrap_servers, columns="*").to_pylist()
    assert row.keys() == COLUMNS.keys()
    assert (row["key"], row["value"], row["headers"]) == (b"k", b"v", [{"key": "h", "value": b"x"}])
    assert [row[name] for name in ONLY_ON_DISK] == [None, None]


def test_a_query_ends_where_it_was_planned_to(kafka: Kafka) -> None:
    """Producers go on while its tasks run."""
    kafka.create_topic("t", 3)
    done = threading.Event()

    def produce() -> None:
        for i in count():
            kafka.produce("t", *({"value": f"{i}-{j}", "partition": j % 3} for j in range(30)))
            if done.wait(0.01):
                break

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        for _ in range(5):
            planned = Planned(
                **named({"minPartitions": "7"}, "kafka.bootstrap.servers", kafka.bootstrap_servers), subscribe="t"
            )
            table = planned.table()
            until = {"0": 0, "1": 0, "2": 0}
            for task in planned.tasks:
                each: Any = task
                until[str(each.fetch_range.partition.partition)] = each.fetch_range.end
            options = {"endingOffsets": json.dumps({"t": until}), "subscribe": "t"}
            assert table.equals(on_disk(kafka.data_dir, **options, beyondHighWatermark="true"))
    finally:
        done.set()
        thread.join()


def test_offsets_and_times(kafka: Kafka) -> None:
    kafka.produce("t", *({"value": f"{i}", "timestamp_ms": 1_000_000 * (i + 1)} for i in range(10)))
    kafka.produce("u", "x")
    at = kafka.bootstrap_servers

    def read(**options: str) -> list[int]:
        return offsets_of(live(at, subscribe="t", **options))

    assert read(startingOffsets='{"t": {"0": 3}}', endingOffsets='{"t": {"0": 5}}') == [3, 4]
    assert read(startingOffsets='{"t": {"0": -2}}', endingOffsets='{"t": {"0": -1}}') == [*range(10)]
    assert read(startingOffsets="latest") == []
    assert read(startingTimestamp="8000000") == [7, 8, 9]
    assert read(startingTimestamp="7999999", endingTimestamp="9000000") == [7]
    assert read(startingOffsetsByTimestamp='{"t": {"0": 9500000}}') == [9]
    assert read(endingOffsetsByTimestamp='{"t": {"0": 1500000}}') == [0]
    with pytest.raises(UsageError, match="t-0: no record at or after the starting time 99000000"):
        read(startingTimestamp="99000000")
    assert read(startingTimestamp="99000000", startingOffsetsByTimestampStrategy="latest") == []
    assert offsets_of(live(at, assign='{"t": [0]}', maxRecordsPerPartition="3")) == [*range(10)]
    assert live(at, subscribePattern="[tu]").num_rows == 11
    assert live(at, subscribePattern="nope").num_rows == 0
    assert live(at).num_rows == 11


def test_offsets_of_other_partitions(kafka: Kafka) -> None:
    """As with Spark's Kafka source: those of all partitions that are read, and no others. Filters of the query select
    fewer partitions, and do not count."""
    kafka.create_topic("t", 2)
    kafka.produce("t", *({"value": f"{i}", "partition": i % 2} for i in range(8)))
    kafka.produce("u", "x")
    at = kafka.bootstrap_servers
    for bound in ("startingOffsets", "endingOffsets", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp"):
        for given, reason in (
            ('{"t": {"0": 1, "1": 1, "2": 1}}', f"{bound}: the query reads no t-2 in {at}"),
            ('{"t": {"0": 1, "1": 1}, "u": {"0": 1}}', f"{bound}: the query reads no u-0 in {at}"),
            ('{"t": {"1": 1}}', f"{bound} lacks t-0, which the query reads too"),
        ):
            with pytest.raises(UsageError, match=reason):
                live(at, subscribe="t", **{bound: given})
    options = SourceOptions.parse({"startingOffsets": '{"t": {"0": 1, "1": 2}}', "subscribe": "t"}, live=True)
    filtered = replace(options, narrowed=Narrowed(partitions=frozenset({1})))
    assert [(each.partition.partition, each.start) for each in plan(filtered, Cluster(at))[1]] == [(1, 2)]


@pytest.mark.parametrize("fails", [True, False])
def test_offsets_beyond_the_end(kafka: Kafka, fails: bool, caplog: pytest.LogCaptureFixture) -> None:
    kafka.produce("t", *map(str, range(3)))
    options = {"startingOffsets": '{"t": {"0": 9}}', "failOnDataLoss": str(fails).lower()}
    reason = "t-0: the log ends at 3, before 9"
    if fails:
        with pytest.raises(DataLoss, match=reason):
            live(kafka.bootstrap_servers, **options)
    else:
        assert live(kafka.bootstrap_servers, **options).num_rows == 0
        assert caplog.messages == [reason]
    assert live(kafka.bootstrap_servers, startingOffsets='{"t": {"0": 3}}').num_rows == 0


@pytest.mark.parametrize("fails", [True, False])
def test_an_end_beyond_that_of_the_log(kafka: Kafka, fails: bool, caplog: pytest.LogCaptureFixture) -> None:
    """As with Spark's source, which gets no record there."""
    kafka.produce("t", *map(str, range(3)))
    options = {"endingOffsets": '{"t": {"0": 9}}', "failOnDataLoss": str(fails).lower()}
    reason = "t-0: the log ends at 3, before endingOffsets 9"
    if fails:
        with pytest.raises(DataLoss, match=reason):
            live(kafka.bootstrap_servers, **options)
    else:
        assert live(kafka.bootstrap_servers, **options).num_rows == 3
        assert caplog.messages == [reason]
    assert live(kafka.bootstrap_servers, endingOffsets='{"t": {"0": 3}}').num_rows == 3


def test_tasks_without_number(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    kafka.produce("t", *map(str, range(10)))
    assert len(Planned(**named({"minPartitions": "100000"}, BOOTSTRAP, kafka.bootstrap_servers)).tasks) == 10
    monkeypatch.setattr("kcli.export.splits.TASKS_MAX", 4)
    with pytest.raises(UsageError, match="maxRecordsPerPartition=2 makes more than 4 tasks"):
        live(kafka.bootstrap_servers, maxRecordsPerPartition="2")
    assert live(kafka.bootstrap_servers, maxRecordsPerPartition="3").num_rows == 10


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"minPartitions": "1000000000"}, "minPartitions='1000000000': above 100,000, the tasks"),
        ({"subscribe": "t,orders"}, "no topic 'orders' in 127.0.0.1:.*; did you mean 'order'"),
        ({"assign": '{"t": [0, 7]}'}, "no partition 7 of 't' in 127.0.0.1:.*, which has 0"),
        ({"kafka.max.poll.record": "1"}, "kafka.max.poll.record: not honoured by kafka-log"),
        ({"kafka.enable.auto.commit": "true"}, "kafka.enable.auto.commit: no offsets are committed"),
        ({"kafka.auto.offset.reset": "earliest"}, "kafka.auto.offset.reset: startingOffsets says"),
        ({"kafka.ssl.protocol": "TLSv1.3"}, "kafka.ssl.protocol: not honoured by kcli's clients"),
        ({"kafka.sasl.mechanism": "GSSAPI", "kafka.security.protocol": "SASL_SSL"}, "kafka.sasl.mechanism: GSSAPI"),
        ({"kafka.request.timeout.ms": "soon"}, "kafka.request.timeout.ms='soon': not a whole number"),
        ({"kafkaConsumer.pollTimeoutMs": "0"}, "kafkaConsumer.pollTimeoutMs='0': not above 0"),
        ({"kafka.client.id": "x" * 40_000}, "kafka.client.id='x{200}'...: not UTF-8 of at most 32,767 bytes"),
        ({"fetchOffset.numRetries": "3"}, "fetchOffset.numRetries: kafka.request.timeout.ms says how long"),
        ({"fetchOffset.retryIntervalMs": "3"}, "fetchOffset.retryIntervalMs: kafka.request.timeout.ms says"),
        ({"minOffsetsPerTrigger": "3", "maxOffsetsPerTrigger": "2"}, "minOffsetsPerTrigger is above"),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay='soon': not a time such as 15m"),
        ({"beyondHighWatermark": "true"}, "beyondHighWatermark: brokers show no consumer"),
        ({"onCorruption": "report", "corruptionReport": "x"}, "onCorruption=report"),
    ],
)
def test_options_that_make_no_sense(kafka: Kafka, options: dict[str, str], reason: str) -> None:
    kafka.seed({"t": 1, "order": 1})
    with pytest.raises(UsageError, match=reason):
        live(kafka.bootstrap_servers, **options)


def test_options_without_effect(kafka: Kafka) -> None:
    """A job of Spark's Kafka source may have them. No group is made."""
    kafka.produce("t", "x")
    options = {"kafka.group.id": "g", "groupIdPrefix": "p", "kafka.session.timeout.ms": "9", "kafka.client.id": "me"}
    kafka.clear_requests()
    assert live(kafka.bootstrap_servers, **options).num_rows == 1
    requests = kafka.requests()
    assert {each.client_id for each in requests} == {"me"}
    assert {each.api for each in requests} <= {"Metadata", "ListOffsets", "Fetch"}


def test_a_path_is_read_from_disk(kafka: Kafka) -> None:
    kafka.produce("t", "x")
    options = named({"path": str(kafka.data_dir)}, "kafka.bootstrap.servers", "127.0.0.1:1")
    (row,) = Planned(**options, columns="*").table().to_pylist()
    assert row["segment"] == f"{0:020}.log"


def test_no_broker() -> None:
    with pytest.raises(Exception, match=r"127\.0\.0\.1:1: no broker answers .*refused"):
        live("127.0.0.1:1")


def test_a_broker_that_comes_back(kafka: Kafka) -> None:
    """A task that finds no broker asks again."""
    kafka.produce("t", *map(str, range(10)))
    planned = Planned(**named({}, "kafka.bootstrap.servers", kafka.bootstrap_servers))
    kafka.stop()
    thread = threading.Timer(0.5, kafka.start)
    thread.start()
    try:
        assert offsets_of(planned.table()) == [*range(10)]
    finally:
        thread.join()


def test_a_broker_that_stays_away(kafka: Kafka) -> None:
    kafka.produce("t", "x")
    options = {"kafka.request.timeout.ms": "300"}
    planned = Planned(**named(options, "kafka.bootstrap.servers", kafka.bootstrap_servers))
    kafka.stop()
    with pytest.raises(Exception, match="no broker answers"):
        planned.table()


# data loss, and damage


def delete_records(kafka: Kafka, topic: str, before: int, partition: int = 0) -> None:
    partitions = [{"partition_index": partition, "offset": before}]
    kafka.call("DeleteRecords", topics=[{"name": topic, "partitions": partitions}], timeout=10_000)


def delete_topic(kafka: Kafka, topic: str) -> None:
    kafka.call("DeleteTopics", topics=[{"name": topic, "topic_id": None}], timeout=10_000)


@pytest.mark.parametrize("fails", [True, False])
def test_offsets_that_are_gone(kafka: Kafka, fails: bool, caplog: pytest.LogCaptureFixture) -> None:
    kafka.produce("t", *map(str, range(10)))
    options = {"failOnDataLoss": str(fails).lower(), "startingOffsets": '{"t": {"0": 2}}'}
    planned = Planned(**named(options, "kafka.bootstrap.servers", kafka.bootstrap_servers))
    delete_records(kafka, "t", 5)
    gone = "t-0: offset 2 is gone, the log starts at 5"
    if fails:
        with pytest.raises(DataLoss, match=gone):
            planned.table()
        with pytest.raises(DataLoss, match=gone):
            live(kafka.bootstrap_servers, **options)
    else:
        assert offsets_of(planned.table()) == [*range(5, 10)]
        assert caplog.messages == [gone]
        assert offsets_of(live(kafka.bootstrap_servers, **options)) == [*range(5, 10)]
        assert caplog.messages == [gone, gone]


@pytest.mark.parametrize("fails", [True, False])
@pytest.mark.parametrize("again", [True, False])
def test_a_topic_that_is_deleted(kafka: Kafka, fails: bool, again: bool, caplog: pytest.LogCaptureFixture) -> None:
    kafka.produce("t", *map(str, range(10)))
    options = {"failOnDataLoss": str(fails).lower()}
    planned = Planned(**named(options, "kafka.bootstrap.servers", kafka.bootstrap_servers))
    delete_topic(kafka, "t")
    reason = "t-0: it is not there any more"
    if again:
        kafka.produce("t", *map(str, range(20)))
        reason = "t-0: its topic was deleted, and one of the same name was created"
    if fails:
        with pytest.raises(DataLoss, match=reason):
            planned.table()
    else:
        assert planned.table().num_rows == 0
        assert caplog.messages == [reason]


def batches(kafka: Kafka, count: int) -> Path:
    """Append one batch a record, and return the segment."""
    for i in range(count):
        kafka.produce("t", f"value-{i}")
    return kafka.data_dir / "t-0" / f"{0:020}.log"


def flip(path: Path, text: bytes, *, last: bool = False) -> None:
    """Change a byte of a value under the running broker. last: of the last such value, not the first."""
    data = path.read_bytes()
    at = data.rindex(text) if last else data.index(text)
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"V")


@pytest.mark.parametrize("more", [{}, SMALL_FETCHES], ids=["whole", "small"])
@pytest.mark.parametrize("which", [0, 4, 9])
def test_a_poisoned_batch(kafka: Kafka, which: int, more: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    flip(batches(kafka, 10), f"value-{which}".encode())
    reason = f"t-0 at offset {which}: CRC is "
    with pytest.raises(fetching.CorruptBatch, match=f"{reason}.*; onCorruption=skip reads on behind it"):
        live(kafka.bootstrap_servers, **more)
    kept = [i for i in range(10) if i != which]
    assert offsets_of(live(kafka.bootstrap_servers, onCorruption="skip", **more)) == kept
    assert [text.startswith(reason) and text.endswith("; passed over") for text in caplog.messages] == [True]
    between = {"startingOffsets": f'{{"t": {{"0": {which + 1}}}}}'}
    assert offsets_of(live(kafka.bootstrap_servers, **between, **more)) == [*range(which + 1, 10)]


def test_a_log_that_ends_early(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unclean election has truncated it."""
    kafka.produce("t", *map(str, range(5)))
    options = {"kafkaConsumer.pollTimeoutMs": "200"}
    planned = Planned(**named(options, "kafka.bootstrap.servers", kafka.bootstrap_servers))
    (task,) = planned.tasks
    each: Any = task
    monkeypatch.setattr(each, "fetch_range", replace_end(each.fetch_range, 9))
    with pytest.raises(DataLoss, match="t-0: offset 8 is gone, the log ends at 5"):
        planned.table()


def replace_end(fetch_range: Any, end: int) -> Any:
    return replace(fetch_range, end=end)
