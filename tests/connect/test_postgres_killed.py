"""A database becomes topics becomes another database: `kcli connect run` and the server are killed in between. With
exactly-once support each change is in its topic once."""

from __future__ import annotations

import json
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from kcli.connect.connectors.postgres.source import PostgresSource
from kcli.testing.kafka import Kafka
from tests.connect.capture import config_of
from tests.connect.kills import Worker
from tests.connect.postgres import Database, Server
from tests.connect.test_worker_killed import worker
from tests.pipelines.test_sink import consumed

TABLE = "CREATE TABLE t (id int PRIMARY KEY, what text, price numeric(9, 2), at timestamptz NOT NULL)"
COUNT = "SELECT count(*), sum(price) FROM t"
WAIT_S = 120.0
ALL = "SELECT * FROM t ORDER BY id"


def wait_until(is_true: Callable[[], bool]) -> None:
    """Wait, without more connections to the server than it needs."""
    deadline = time.monotonic() + WAIT_S
    while not is_true():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.5)


def changes(source: Database, first: int) -> None:
    """Rows that come, change and go."""
    rows = f"generate_series({first}, {first + 999}) i"
    at = "'2020-01-01 00:00:00+00'::timestamptz + i * '1 s'::interval"
    source.run(f"INSERT INTO t SELECT i, 'row ' || i, i / 8.0, {at} FROM {rows}")
    source.run(f"UPDATE t SET what = NULL, price = -price WHERE id % 3 = 0 AND id >= {first}")
    source.run("DELETE FROM t WHERE id % 5 = 0")
    source.run(f"UPDATE t SET id = id + 1000000 WHERE id % 7 = 0 AND id BETWEEN {first} AND 999999")


def test_a_database_becomes_another(postgres_server: Server, kafka: Kafka, tmp_path: Path) -> None:
    source, target = postgres_server.new_database(), postgres_server.new_database()
    source.run(TABLE)
    target.run(TABLE)
    changes(source, 0)
    after = {"transforms": "after", "transforms.after.type": "org.apache.kafka.connect.transforms.ExtractField$Value"}
    after |= {"transforms.after.field": "after"}
    converters = {f"{each}.converter": "org.apache.kafka.connect.json.JsonConverter" for each in ("key", "value")}
    sink = {"topics": "p.public.t", "connection.url": target.url, "table.name.format": "t", "insert.mode": "upsert"}
    sink |= {"pk.mode": "record_key", "delete.enabled": "true", "retry.backoff.ms": "200", "max.retries": "1000"}
    configurations = {
        "worker": {
            "bootstrap.servers": kafka.bootstrap_servers,
            "listeners": "http://127.0.0.1:0",
            "offset.storage.file.filename": str(tmp_path / "offsets"),
            **converters,
        },
        "source": {"name": "in", "connector.class": "PostgresConnector", **config_of(source)},
        "sink": {"name": "out", "connector.class": "io.aiven.connect.jdbc.JdbcSinkConnector", **after, **sink},
    }
    for which, options in configurations.items():
        text = "".join(f"{name}={value}\n" for name, value in options.items())
        (tmp_path / f"{which}.properties").write_text(text)
    with worker(tmp_path) as process:
        wait_until(lambda: target.run(COUNT)[0][0] > 0)
        changes(source, 1000)
        process.send_signal(signal.SIGKILL)
        process.wait()
    postgres_server.kill()
    postgres_server.start()
    changes(source, 2000)
    with worker(tmp_path) as process:
        wait_until(lambda: target.run(COUNT) == source.run(COUNT))
        assert target.run(ALL) == source.run(ALL)
        process.terminate()
        assert process.wait(60) == 0


ROWS, ROUNDS = 5_000, 3


@pytest.mark.timeout(600)
def test_each_change_is_there_once(postgres_server: Server, kafka: Kafka, tmp_path: Path) -> None:
    """The worker is killed while transactions are read that are much larger than a batch."""
    source, topic = postgres_server.new_database(), "p.public.t"
    source.run("CREATE TABLE t (id int PRIMARY KEY, round int)")
    kafka.create_topic(topic)
    consumer = Consumer({**kafka.client_config("confluent"), "group.id": "size"})

    def size() -> int:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), 10.0)[1])

    with closing(consumer), closing(Worker(tmp_path, kafka.bootstrap_servers, "local[2]")) as killed:
        killed.create("in", {"connector.class": PostgresSource.CLASS, **config_of(source, max_batch_size="100")})
        source.run("INSERT INTO t VALUES (-1, 0)")
        wait_until(lambda: size() > 0)
        source.run(f"INSERT INTO t SELECT i, 0 FROM generate_series(0, {ROWS - 1}) i")
        for number in range(1, ROUNDS):
            before = size()
            source.run("UPDATE t SET round = round + 1 WHERE id >= 0")
            while size() == before:
                time.sleep(0.02)
            killed.kill("worker", random.Random(number))
        wait_until(lambda: size() >= ROWS * ROUNDS)
        _settle(size)
        killed.check()
    found = [_row(json.loads(each.value())) for each in consumed(kafka, topic)]
    assert Counter(each for each in found if each[0] >= 0) == Counter(
        (number, each) for number in range(ROWS) for each in range(ROUNDS)
    )
    rounds: dict[int, int] = {}
    for number, each in found:
        assert each == rounds.get(number, -1) + 1
        rounds[number] = each


def _settle(size: Callable[[], int]) -> None:
    """Return once nothing more comes."""
    before = -1
    while (now := size()) != before:
        before = now
        time.sleep(5)


def _row(value: Any) -> tuple[int, int]:
    after = value["payload"]["after"]
    return after["id"], after["round"]
