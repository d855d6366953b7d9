"""The sink without Spark: what it writes is what Kafka's clients read, and each row of a micro-batch is there once,
wherever an attempt ends."""

from __future__ import annotations

import pickle
import random
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, Literal

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter
from pyspark.sql.types import StructType

from formats.record_batch import parse_batch
from kcli.client.log_appending import cut
from kcli.client.wire import ErrorAnswer
from kcli.errors import KcliError, UsageError
from kcli.export.columns import HEADERS
from kcli.pipelines import sink
from kcli.pipelines.encoding import CODECS, Encoder
from kcli.pipelines.source import KafkaDataSource
from kcli.testing.kafka import Kafka

SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("value", pa.binary()),
        ("headers", HEADERS),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("more", pa.int64()),
    ]
)


DROPS: tuple[Literal["request", "answer"], ...] = ("request", "answer")


class Killed(Exception):
    """The attempt ends here."""


def spark_schema(*names: str) -> StructType:
    """Spark's schema of these columns, of all without a name."""
    from pyspark.sql.types import LongType, StringType, StructField

    from kcli.export.columns import spark_schema as of_source

    known = {field.name: field for field in of_source(["value", "headers", "topic", "partition"]).fields}
    known |= {"key": StructField("key", StringType()), "more": StructField("more", LongType())}
    return StructType([known[name] for name in (names or SCHEMA.names)])


def writer(kafka: Kafka, options: dict[str, str] | None = None, *, stream: bool = False) -> Any:
    """A writer as a task has it."""
    source = KafkaDataSource({"kafka.bootstrap.servers": kafka.bootstrap_servers, **(options or {})})
    made = (
        source.streamWriter(spark_schema(), overwrite=False)
        if stream
        else source.writer(spark_schema(), overwrite=False)
    )
    assert isinstance(made, DataSourceStreamArrowWriter if stream else DataSourceArrowWriter)
    return pickle.loads(pickle.dumps(made))


def rows(count: int, **columns: Any) -> pa.RecordBatch:
    """Rows whose values are their numbers; a column is a list or one value for all rows."""
    given = {"value": [str(i).encode() for i in range(count)], "topic": "t", **columns}
    arrays = []
    for field in SCHEMA:
        value = given.get(field.name)
        arrays.append(pa.array(value if isinstance(value, list) else [value] * count, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def consumed(kafka: Kafka, topic: str = "t", partitions: int = 1) -> list[Any]:
    """What a consumer of confluent-kafka reads with read_committed."""
    consumer = Consumer(
        {
            **kafka.client_config("confluent"),
            "group.id": "x",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, i, 0) for i in range(partitions)])
    found, left = [], partitions
    while left:
        message = consumer.poll(60)
        assert message is not None
        if message.error() is None:
            found.append(message)
        else:
            left -= 1
    consumer.close()
    return found


@pytest.mark.parametrize("codec", CODECS)
def test_columns(kafka: Kafka, codec: str) -> None:
    kafka.seed({"t": 3, "u": 1})
    count = 1_000
    keys = [f"k{i % 50}" if i % 3 else None for i in range(count)]
    headers = [[("h", str(i).encode()), ("n", None)] if i % 2 else None for i in range(count)]
    values = [None if i % 10 == 0 else f"value {i} ".encode() * (i % 30) for i in range(count)]
    topics = ["u" if i % 4 == 0 else "t" for i in range(count)]
    written = rows(count, key=keys, value=values, headers=headers, topic=topics)
    writer(kafka, {"kafka.compression.type": codec}).write(iter([written.slice(0, 300), written.slice(300)]))
    found = consumed(kafka, "t", 3) + consumed(kafka, "u")
    wanted = Counter(
        (topic, None if key is None else key.encode(), value, None if pairs is None else tuple(pairs))
        for topic, key, value, pairs in zip(topics, keys, values, headers, strict=True)
    )
    assert wanted == Counter(
        (each.topic(), each.key(), each.value(), None if each.headers() is None else tuple(each.headers()))
        for each in found
    )
    # a key is in one partition, that of Java's producer, and its records are in order
    kafka.seed({"same": {"partitions": 3, "records": [{"key": f"k{i}", "value": ""} for i in range(50)]}})
    partition_of = {each.key(): each.partition() for each in consumed(kafka, "same", 3)}
    for each in found:
        if each.topic() == "t" and each.key() is not None:
            assert each.partition() == partition_of[each.key()]


def test_partitions_that_rows_name(kafka: Kafka) -> None:
    kafka.create_topic("t", 3)
    writer(kafka).write(iter([rows(30, partition=[i % 2 for i in range(30)])]))
    found = consumed(kafka, "t", 3)
    assert {(each.partition(), int(each.value()) % 2) for each in found} == {(0, 0), (1, 1)}
    for number in (0, 1):
        values = [int(each.value()) for each in found if each.partition() == number]
        assert values == sorted(values)
        assert len(values) == 15


def test_large_rows(kafka: Kafka) -> None:
    kafka.create_topic("t", 2)
    value = random.Random(1).randbytes(200_000)
    writer(kafka, {"topic": "t"}).write(rows(10, value=[value] * 10, topic=None) for _ in range(10))
    assert [each.value() for each in consumed(kafka, "t", 2)] == [value] * 100


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"partition": 3}, "a row is for partition 3 of 't', which has 1: kcli topics alter t --partitions 4"),
        ({"partition": [0, None, -1]}, "a row is for partition -1 of 't', which has 1$"),
        ({"topic": ["t", None, "t"]}, "a row has the topic null"),
        ({"topic": "nope"}, "there is no topic 'nope' to write to"),
        ({"headers": [[(None, b"x")]] * 3}, "a row for t-0 is no record: a header without a key"),
    ],
)
def test_rows_that_cannot_be_written(kafka: Kafka, columns: dict[str, Any], reason: str) -> None:
    kafka.create_topic("t")
    with pytest.raises(UsageError, match=reason):
        writer(kafka).write(iter([rows(3, **columns)]))


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_a_topic_of_small_batches(kafka: Kafka, codec: str, stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches that are too large for it are cut, and the next ones are smaller."""
    monkeypatch.setattr(sink, "CHUNK_BYTES", 1)
    monkeypatch.setattr(sink, "_place", lambda: ("query", 0, 0))
    kafka.create_topic("t", config={"max.message.bytes": "20000"})
    values = [random.Random(i).randbytes(300) for i in range(4_000)]
    parts = [rows(1_000, value=values[i : i + 1_000], key=["k"] * 1_000) for i in range(0, 4_000, 1_000)]
    kafka.clear_requests()
    writer(kafka, {"topic": "t", "kafka.compression.type": codec}, stream=stream).write(iter(parts))
    assert [each.value() for each in consumed(kafka, "t")] == values
    refused = [each for each in kafka.requests() if each.api == "Produce"]
    assert len(refused) < 3 * 4_000 * 300 / 20_000, "most batches are not cut"


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_halves_of_a_batch(count: int) -> None:
    """They have the records of the whole, with their sequences, times and headers."""
    columns = {"key": [str(i) for i in range(count)], "headers": [[("h", b"x")]] * count}
    encoder = Encoder(lambda _: 1, "t", "zstd", (7, 1))
    encoder.encode(pa.Table.from_batches([rows(2, **columns | {"key": None, "headers": None})]))
    ((batch,),) = encoder.encode(pa.Table.from_batches([rows(count, **columns)])).values()
    whole, halves = parse_batch(batch), [parse_batch(each) for each in cut(batch)]
    if count == 1:
        assert not halves
        return
    assert [each.header.base_sequence for each in halves] == [2, 2 + count // 2]
    assert sum(each.header.record_count for each in halves) == count
    for half in halves:
        assert [half.offset(each) for each in half.records] == [*range(half.header.record_count)]
        assert half.header.last_offset_delta == half.header.record_count - 1
        assert (half.header.producer_id, half.header.producer_epoch) == (7, 1)
        assert half.header.attributes == whole.header.attributes
        assert half.header.max_timestamp == max(map(half.timestamp_ms, half.records))
    told = [(each.key, each.value, each.headers, each.timestamp_delta) for half in halves for each in half.records]
    assert told == [(each.key, each.value, each.headers, each.timestamp_delta) for each in whole.records]


def test_a_row_that_is_too_large(kafka: Kafka) -> None:
    """The error has the limit with which the topic takes it."""
    kafka.create_topic("t", config={"max.message.bytes": "1000"})
    large = rows(1, value=[b"x" * 2000])
    with pytest.raises(ErrorAnswer) as raised:
        writer(kafka).write(iter([large]))
    found = re.fullmatch(
        r"t-0: MESSAGE_TOO_LARGE: one record makes a batch of (\d,\d+) bytes; after kcli topics alter t "
        r"--config max.message.bytes=(\d+) the topic takes it",
        str(raised.value),
    )
    assert found is not None
    assert int(found[1].replace(",", "")) == int(found[2])
    for topic, less in (("least", 0), ("less", 1)):
        kafka.create_topic(topic, config={"max.message.bytes": str(int(found[2]) - less)})
    writer(kafka, {"topic": "least"}).write(iter([large]))
    with pytest.raises(ErrorAnswer, match="less-0: MESSAGE_TOO_LARGE"):
        writer(kafka, {"topic": "less"}).write(iter([large]))


@pytest.mark.parametrize(
    ("options", "columns", "reason"),
    [
        ({"topics": "t"}, (), "kafka-log's sink has no option topics; there is topic$"),
        (
            {"deliverGuarante": "at_least_once", "tpic": "t", "colour": "red"},
            (),
            "kafka-log's sink has no option colour, deliverguarante, tpic; there is deliveryGuarantee, topic$",
        ),
        ({"kafka.acks": "1"}, (), "kafka.acks: only all is honoured"),
        ({"kafka.compression.type": "brotli"}, (), "kafka.compression.type='brotli': not one of none, gzip"),
        ({"kafka.transactional.id": "x"}, (), "kafka.transactional.id: a stream's transactional ids"),
        ({"kafka.retries": "x"}, (), "kafka.retries: not honoured"),
        ({"deliveryGuarantee": "exactly_once"}, (), "deliveryGuarantee=exactly_once: only of a stream"),
        ({"deliveryGuarantee": "twice"}, (), "deliveryGuarantee='twice': not one of exactly_once, at_least_once"),
        ({}, ("value",), "no topic to write to: give the option topic"),
        ({"topic": "t"}, ("key",), "there is no column value to write; there are key"),
        ({"topic": "t"}, ("value", "partition"), None),
    ],
)
def test_options(options: dict[str, str], columns: tuple[str, ...], reason: str | None) -> None:
    source = KafkaDataSource({"kafka.bootstrap.servers": "127.0.0.1:1", **options})
    if reason is None:
        source.writer(spark_schema(*columns), overwrite=False)
        return
    with pytest.raises(UsageError, match=reason):
        source.writer(spark_schema(*columns), overwrite=False)


# exactly once


class Epochs:
    """Micro-batches of a query, of one task."""

    def __init__(self, kafka: Kafka, patch: pytest.MonkeyPatch) -> None:
        self._kafka, self._patch = kafka, patch

    def run(self, epoch: int, batches: Iterator[pa.RecordBatch], task: int = 0) -> None:
        """Run an attempt of a task."""
        self._patch.setattr(sink, "_place", lambda: ("query", epoch, task))
        options = {"kafka.request.timeout.ms": "5000"}
        writer(self._kafka, options, stream=True).write(batches)

    def values(self) -> list[str]:
        """What readers see."""
        return [each.value().decode() for each in consumed(self._kafka)]


@pytest.fixture
def epochs(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> Epochs:
    kafka.create_topic("t")
    monkeypatch.setattr(sink, "CHUNK_BYTES", 1)
    return Epochs(kafka, monkeypatch)


def named(epoch: int, count: int = 3) -> pa.RecordBatch:
    return rows(count, value=[f"{epoch}-{i}".encode() for i in range(count)])


def dying(*batches: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    yield from batches
    raise Killed


def test_an_epoch_that_runs_again(epochs: Epochs) -> None:
    """The driver died after the task had committed."""
    epochs.run(0, iter([named(0)]))
    epochs.run(0, iter([named(0)]))
    epochs.run(1, iter([named(1)]))
    epochs.run(1, iter([named(1)]))
    assert epochs.values() == ["0-0", "0-1", "0-2", "1-0", "1-1", "1-2"]
    with pytest.raises(KcliError, match="the topics have batch 1 of this query, whose checkpoint is at 0"):
        epochs.run(0, iter([named(0)]))


@pytest.mark.parametrize("tidy", [True, False])
def test_an_attempt_that_dies(epochs: Epochs, monkeypatch: pytest.MonkeyPatch, tidy: bool) -> None:
    """It has written a part; if it is killed, it does not even abort."""
    if not tidy:
        monkeypatch.setattr("kcli.client.producing_transaction.ProducingTransaction.abort", lambda _: None)
    with pytest.raises(Killed):
        epochs.run(0, dying(named(0, 2), named(0, 3)))
    epochs.run(0, iter([named(0)]))
    assert epochs.values() == ["0-0", "0-1", "0-2"]


def test_two_attempts_at_a_time(epochs: Epochs) -> None:
    """The second one fences the first."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield named(0, 1)
        epochs.run(0, iter([named(0)]))
        yield named(0, 2)

    with pytest.raises(ErrorAnswer, match=r"FENCED|INVALID_PRODUCER_EPOCH"):
        epochs.run(0, batches())
    assert epochs.values() == ["0-0", "0-1", "0-2"]


@pytest.mark.kafka_broker(process="child")
def test_a_broker_that_is_killed(epochs: Epochs, kafka: Kafka) -> None:
    """An attempt goes on where it can: it finds what it has sent before."""

    def batches(epoch: int) -> Iterator[pa.RecordBatch]:
        made = named(epoch)
        yield made.slice(0, 2)
        kafka.kill()
        kafka.start()
        yield made.slice(2)

    for epoch in range(3):
        epochs.run(epoch, batches(epoch))
        epochs.run(epoch, iter([named(epoch)]))
    assert epochs.values() == [f"{epoch}-{i}" for epoch in range(3) for i in range(3)]


@pytest.mark.parametrize("seed", range(4))
def test_connections_that_break(epochs: Epochs, kafka: Kafka, seed: int) -> None:
    """A request or its answer is lost, anywhere; attempts die, and run again."""
    pick = random.Random(seed)
    apis = ("Produce", "EndTxn", "TxnOffsetCommit", "AddPartitionsToTxn", "AddOffsetsToTxn", "InitProducerId")
    count = 12
    for epoch in range(count):
        for _ in range(2):
            kafka.faults.add(api=pick.choice(apis), drop=pick.choice(DROPS), skip=pick.randrange(4), count=1)
        while True:
            made = [named(epoch)]
            try:
                epochs.run(epoch, dying(*made) if pick.random() < 0.3 else iter(made))
            except Killed:
                continue
            if pick.random() < 0.7:  # otherwise the driver dies before it knows
                break
    kafka.faults.clear()
    assert epochs.values() == [f"{epoch}-{i}" for epoch in range(count) for i in range(3)]
