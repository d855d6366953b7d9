"""`kcli connect run` as a process that is killed, with sinks to S3, Iceberg and OpenSearch: each record is there once.

What the tasks keep between turns is tried without Spark.
"""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from confluent_kafka import Producer
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

from kcli.client.connection import Connection
from kcli.client.groups import Groups
from kcli.connect.builtin import built_in
from kcli.connect.connectors.iceberg.sink import IcebergSink
from kcli.connect.connectors.opensearch.sink import ElasticsearchSink
from kcli.connect.connectors.s3 import sink
from kcli.connect.connectors.s3.sink import S3Sink
from kcli.connect.engine.spark_engine import SparkEngine
from kcli.connect.engine.tasks import Rest
from kcli.connect.engine.watching import Watch
from kcli.pipelines.cluster import Cluster
from kcli.protocol.topic_partition import TopicPartition
from kcli.testing.kafka import Kafka
from tests.connect.engines import Here, MemoryOffsets, States, wait_until
from tests.connect.search_server import Store, Stub
from tests.connect.test_s3 import Bucket
from tests.connect.test_worker_killed import worker
from tests.connect.turns import task_start
from tests.tier.s3 import s3_server

RECORDS = 20_000
HOUR_MS = 3_600_000
PLACE = TopicPartition("orders", 0)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with s3_server() as url:
        yield url


def produce(kafka: Kafka, first: int, end: int) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(first, end):
        producer.produce("orders", json.dumps({"n": number}), key=str(number))
        producer.poll(0)
    producer.flush()


def in_bucket(bucket: Bucket) -> Counter[int]:
    return Counter(json.loads(line)["n"] for data in bucket.objects().values() for line in data.splitlines())


def in_table(directory: Path) -> Counter[int]:
    catalog = load_catalog("iceberg", type="sql", uri=f"sqlite:///{directory}/catalog.db")
    try:
        return Counter(catalog.load_table("db.orders").scan().to_arrow()["n"].to_pylist())
    except (NoSuchTableError, NoSuchNamespaceError):
        return Counter()


@pytest.mark.timeout(600)
def test_a_worker_is_killed(kafka: Kafka, server: str, tmp_path: Path) -> None:
    bucket, stub, store = Bucket(server), Stub(), Store()
    stub.answer = store.answer
    sinks = {
        "source": {"connector.class": S3Sink.CLASS, **bucket.config, "flush.size": "1000"},
        "sink": {
            "connector.class": IcebergSink.CLASS,
            "iceberg.tables": "db.orders",
            "iceberg.tables.auto-create-enabled": "true",
            "iceberg.control.commit.interval-ms": "500",
            "iceberg.catalog.type": "sql",
            "iceberg.catalog.uri": f"sqlite:///{tmp_path}/catalog.db",
            "iceberg.catalog.warehouse": f"file://{tmp_path}/warehouse",
        },
        "third": {"connector.class": ElasticsearchSink.CLASS, "connection.url": stub.url, "schema.ignore": "true"},
    }
    json_values = {f"{each}.converter": "org.apache.kafka.connect.storage.StringConverter" for each in ("key", "value")}
    json_values["value.converter"] = "org.apache.kafka.connect.json.JsonConverter"
    json_values["value.converter.schemas.enable"] = "false"
    own = {"bootstrap.servers": kafka.bootstrap_servers, "listeners": "http://127.0.0.1:0", **json_values}
    files = {"worker": {**own, "offset.storage.file.filename": str(tmp_path / "offsets")}}
    files |= {
        name: {"name": name, "topics": "orders", "tasks.max": "1" if name == "third" else "2", **each}
        for name, each in sinks.items()
    }
    for name, options in files.items():
        text = "".join(f"{option}={value}\n" for option, value in options.items())
        (tmp_path / f"{name}.properties").write_text(text)
    kafka.seed({"orders": 2})
    produce(kafka, 0, RECORDS // 2)
    with closing(stub):
        with worker(tmp_path, "third") as process:
            wait_until(lambda: in_bucket(bucket) and in_table(tmp_path) and store.documents, 240)
            process.send_signal(signal.SIGKILL)
            process.wait()
        produce(kafka, RECORDS // 2, RECORDS)
        with worker(tmp_path, "third") as process:
            wait_until(lambda: len(in_table(tmp_path)) == len(store.documents) == RECORDS, 240)
            wait_until(lambda: in_bucket(bucket).total() >= RECORDS - 2 * 999, 60)
            process.terminate()
            assert process.wait(60) == 0
    assert in_table(tmp_path) == Counter(range(RECORDS))
    assert set(in_bucket(bucket).values()) == {1}
    assert all(len(data.splitlines()) == 1000 for data in bucket.objects().values())


def test_what_is_open_is_kept_for_its_time(kafka: Kafka, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is open begins no turn for each record; its time begins one, and closes it with all that was read."""
    here, bucket, states = Here(monkeypatch), Bucket(server), States()
    now_ms = 1_000 * HOUR_MS + 1
    monkeypatch.setattr(sink, "_now_ms", lambda: now_ms)
    clock = SimpleNamespace(time=lambda: now_ms / 1000, monotonic=time.monotonic)
    monkeypatch.setattr("kcli.connect.engine.watching.time", clock)
    kafka.seed({"orders": 1})
    config = {"name": "out", "connector.class": S3Sink.CLASS, "topics": "orders", **bucket.config}
    config |= {"flush.size": "100", "rotate.schedule.interval.ms": str(HOUR_MS)}
    start = task_start(kafka.bootstrap_servers, config)
    with closing(SparkEngine(built_in())) as engine:
        engine.start([start], MemoryOffsets(), states, paused=False)
        wait_until(lambda: here.turns == 1)
        produce(kafka, 0, 1)
        wait_until(lambda: here.turns == 2)
        produce(kafka, 1, 3)
        time.sleep(1)
        assert here.turns == 2
        assert bucket.objects() == {}
        now_ms = 1_001 * HOUR_MS
        wait_until(bucket.objects)
        wait_until(lambda: Groups(Connection(kafka.bootstrap_servers)).committed("connect-out")[PLACE].offset == 1)
    assert not states.traces
    assert [*map(len, map(bytes.splitlines, bucket.objects().values()))] == [1]


def test_a_time_before_which_no_turn_begins(kafka: Kafka) -> None:
    kafka.seed({"orders": 1})
    produce(kafka, 0, 1)
    watch, cluster = Watch(None), Cluster(kafka.bootstrap_servers)
    rest = Rest(ends={PLACE: 0}, cluster=cluster, not_before_s=time.time() + 0.5)
    assert not watch.has_work(rest, committed=False)
    wait_until(lambda: watch.has_work(rest, committed=False), 5)
    assert time.time() >= rest.not_before_s
    watch.close()
