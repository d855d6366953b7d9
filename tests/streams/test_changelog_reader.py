"""Partitions read as brokers send them, beside librdkafka's consumer, and stores restored from them."""

from __future__ import annotations

import random
from typing import Any

import pytest
from confluent_kafka import Producer

from kcli.client.bulk_reading import BulkReader
from kcli.client.connection import Connection
from kcli.client.processing import PartitionReader
from kcli.protocol.topic_partition import TopicPartition
from kcli.streams.local import changelog_reader
from kcli.streams.local.active_task import ActiveTask
from kcli.testing.kafka import Kafka
from tests.streams.applications import PROGRAMS, START_MS, Input, inputs, produce, running, wait_until

PLACE = TopicPartition("a", 0)
Row = tuple[int, int, bytes | None, bytes | None]


def consumed(kafka: Kafka, *, committed_only: bool, begin: int | None = None) -> list[Row]:
    reader = PartitionReader(Connection(kafka.bootstrap_servers), committed_only=committed_only)
    reader.add([PLACE], begin)
    found: list[Row] = []
    while not reader.is_done(PLACE):
        found += [record[2:6] for record in reader.poll(1)]
    reader.close()
    return found


def fetched(kafka: Kafka, *, committed_only: bool) -> tuple[list[Row], int]:
    reader = BulkReader(Connection(kafka.bootstrap_servers), PLACE, committed_only=committed_only)
    found: list[Row] = []
    for records, data in reader.slices():
        for offset, timestamp, key_start, key_length, value_start, value_length, *_ in map(
            records.row, range(len(records))
        ):
            key = None if key_length < 0 else bytes(data[key_start : key_start + key_length])
            value = None if value_length < 0 else bytes(data[value_start : value_start + value_length])
            found.append((offset, timestamp, key, value))
    return found, reader.position


@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
@pytest.mark.parametrize("committed_only", [False, True])
def test_both_readers_have_the_same_records(kafka: Kafka, codec: str, committed_only: bool) -> None:
    """Committed, aborted and open transactions, and records of none between them."""
    kafka.seed({"a": 1})
    chance = random.Random(codec)
    settings: dict[str, Any] = {"bootstrap.servers": kafka.bootstrap_servers, "compression.type": codec}
    plain = Producer(settings)
    for number in range(12):
        producer = plain
        if number % 3:
            producer = Producer({**settings, "transactional.id": f"t{number}"})
            producer.init_transactions()
            producer.begin_transaction()
        for _ in range(chance.randrange(1, 200)):
            value = chance.choice((None, b"", chance.randbytes(20)))
            producer.produce("a", value, b"%d" % chance.randrange(50), timestamp=START_MS + number)
        assert producer.flush(10) == 0
        if number % 3 == 1:
            producer.commit_transaction()
        elif number % 3 == 2 and number < 11:
            producer.abort_transaction()
    found, position = fetched(kafka, committed_only=committed_only)
    producer.abort_transaction()
    assert found == consumed(kafka, committed_only=committed_only)
    assert len(found) > 300
    assert found[-1][0] < position
    assert consumed(kafka, committed_only=committed_only, begin=position) == []
    assert consumed(kafka, committed_only=committed_only, begin=found[-1][0]) == found[-1:]


def test_a_partition_without_records_and_one_that_is_not_there(kafka: Kafka) -> None:
    kafka.seed({"b": 1})
    assert fetched(kafka, committed_only=True) == ([], 0)
    kafka.seed({"a": 1})
    assert fetched(kafka, committed_only=True) == ([], 0)


def test_a_store_goes_on_record_by_record_where_it_does_not_take_many(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changelog_reader, "LONG", 1)
    kafka.seed({"a": 1, "b": 1, "out": 1})
    records = [Input("b", each.key, each.value, each.timestamp) for each in inputs(200, seed=3)]
    produce(kafka.bootstrap_servers, records)
    wanted: dict[str, str] = {}
    for each in records:
        if each.value is None:
            wanted.pop(each.key, None)
        else:
            wanted[each.key] = each.value
    restored: list[str] = []

    def noting(name: str, keeps: bool) -> None:
        before = getattr(ActiveTask, name)

        def restore(self: ActiveTask, *given: Any) -> Any:
            restored.append(name)
            return before(self, *given) if keeps else False

        monkeypatch.setattr(ActiveTask, name, restore)

    with running(kafka, PROGRAMS["stream_table_join"]()) as app:
        wait_until(lambda: len(table_of(app)) == len(wanted) and table_of(app) == wanted)
    noting("restore", keeps=True)
    noting("restore_all", keeps=True)
    with running(kafka, PROGRAMS["stream_table_join"]()) as app:
        wait_until(lambda: app.running_tasks == ["0_0"])
        assert table_of(app) == wanted
    assert set(restored) == {"restore_all"}
    restored.clear()
    noting("restore_all", keeps=False)
    with running(kafka, PROGRAMS["stream_table_join"]()) as app:
        wait_until(lambda: app.running_tasks == ["0_0"])
        assert table_of(app) == wanted
    assert restored.count("restore_all") == 1
    assert restored.count("restore") == 200


def table_of(app: Any) -> dict[str, str]:
    tasks = list(app._tasks.values())
    return {key: found.value for task in tasks for key, found in task.task.stores["table"].all()}
