"""The live source of `kafka-log` on real Kafka, plain and over SASL_SSL: it is the disk source, and confluent-kafka's
consumer, topic by topic, at both isolation levels, while producers write; a query goes over from the disk to the
brokers. The sink writes a micro-batch once."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from kcli.export.source import SplitsPartition
from kcli.pipelines import sink
from kcli.pipelines.source import KafkaDataSource
from kcli.pipelines.stream import ON_DISK
from tests.cli.run import kcli
from tests.conftest import examples
from tests.export.micro_batches import Query
from tests.interop.kit import SCRIPT
from tests.interop.test_security_kafka import PLAIN, PLAIN_PASSWORD, certificate
from tests.interop.test_tools_kafka import free_port, kafka
from tests.pipelines.queries import LIVE_COLUMNS, Planned, live, named, on_disk
from tests.pipelines.tables.places import Place
from tests.pipelines.test_sink import Killed, dying, rows, spark_schema

NODE = f"kcli-live-{os.getpid()}"
ISOLATIONS = ("read_committed", "read_uncommitted")
PARTITIONS = 3
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TOPICS = (*CODECS, "txn", "moving", "sunk")


@dataclass
class Served:
    """A real Kafka: the address of its plain listener, its log directory, and the options for its listener with TLS and
    logins."""

    address: str
    directory: Path
    secured: dict[str, str]


@pytest.fixture(scope="module")
def served(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    ca, store = certificate(tmp_path_factory.mktemp("security"))
    plain = free_port()
    controller, sasl = (f"127.0.0.1:{free_port()}" for _ in range(2))
    for_clients = f"PLAINTEXT://127.0.0.1:{plain},BOTH://{sasl}"
    properties = [
        f"listeners={for_clients},CONTROLLER://{controller}",
        f"controller.quorum.voters=1@{controller}",
        f"advertised.listeners={for_clients}",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,BOTH:SASL_SSL",
        "listener.name.both.sasl.enabled.mechanisms=PLAIN",
        f"listener.name.both.plain.sasl.jaas.config={PLAIN}",
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={store}",
        "transaction.state.log.num.partitions=1",
        "log.segment.bytes=1048576",
    ]
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    secured = {
        "kafka.bootstrap.servers": sasl,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f'{module} required username="bob" password="{PLAIN_PASSWORD}";',
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(ca),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KAFKA_KIT_PORT", str(plain))  # of the script's own listener, which ours take the place of
        try:
            kafka("start", NODE, *properties)
            found = Served(f"127.0.0.1:{plain}", Path(kafka("dir", NODE).strip()), secured)
            write(found.address)
            yield found
        finally:
            subprocess.run([SCRIPT, "kill", NODE], capture_output=True, check=False)
            kafka("rm", NODE)


def write(address: str) -> None:
    """Write a topic of each codec, and one with transactions that are committed, aborted and open."""
    admin = AdminClient({"bootstrap.servers": address})
    for made in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in TOPICS]).values():
        made.result()
    for codec in CODECS:
        producer = Producer({"bootstrap.servers": address, "compression.type": codec, "linger.ms": 5})
        for i in range(3_000):
            headers: list[tuple[str, str | bytes | None]] | None = None
            if i % 7 == 0:
                headers = [("h", str(i).encode()), ("empty", None)]
            value = None if i % 11 == 0 else f"value {i} ".encode() * (i % 50)
            producer.produce(codec, value, str(i % 100), partition=i % PARTITIONS, headers=headers)
            producer.poll(0)
        producer.flush()
    lasting = {"transaction.timeout.ms": 900_000}  # what is open is so for all tests
    producers = [Producer({"bootstrap.servers": address, "transactional.id": name, **lasting}) for name in "abc"]
    for producer in producers:
        producer.init_transactions()
    plain = Producer({"bootstrap.servers": address})
    for i in range(30):
        producer = producers[i % 3]
        producer.begin_transaction()
        for j in range(40):
            producer.produce("txn", f"{i}-{j}", partition=j % PARTITIONS)
            plain.produce("txn", f"plain {i}-{j}", partition=j % PARTITIONS)
            if j % 10 == 0:
                producer.flush()
                plain.flush()
        producer.flush()
        plain.flush()
        if i < 29:
            (producer.abort_transaction if i % 2 else producer.commit_transaction)()


def ends_of(planned: Planned) -> dict[str, dict[str, int]]:
    """The end offset of each partition that a query reads."""
    ends: dict[str, dict[str, int]] = {}
    for task in planned.tasks:
        each: Any = task
        topic, number = each.fetch_range.partition
        of_topic = ends.setdefault(topic, {})
        of_topic[str(number)] = max(of_topic.get(str(number), 0), each.fetch_range.end)
    return ends


def consumed(address: str, ends: dict[str, dict[str, int]], isolation: str) -> list[tuple[Any, ...]]:
    """What confluent-kafka's consumer reads up to these offsets."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "none",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    left = {(topic, int(number)): end for topic, each in ends.items() for number, end in each.items()}
    consumer.assign([TopicPartition(*each, 0) for each in left])
    rows = []
    while left:
        message: Any = consumer.poll(60)
        assert message is not None, left
        place = message.topic(), message.partition()
        if place in left and message.offset() < left[place] and message.error() is None:
            headers = message.headers()
            pairs = None if headers is None else [{"key": name, "value": value} for name, value in headers]
            rows.append((*place, message.offset(), message.timestamp()[1], message.key(), message.value(), pairs))
        elif place in left:
            del left[place]
    consumer.close()
    return sorted(rows, key=lambda row: row[:3])


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    names = ("topic", "partition", "offset", "timestampMs", "key", "value", "headers")
    return list(zip(*(table.column(name).to_pylist() for name in names), strict=True))


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_the_live_source_is_the_disk_source_and_the_consumer(served: Served, isolation: str) -> None:
    options = {"isolation": isolation, "columns": LIVE_COLUMNS, "subscribe": ",".join((*CODECS, "txn"))}
    planned = Planned(**named(options, "kafka.bootstrap.servers", served.address))
    table = planned.table()
    assert table.num_rows > 15_000
    ends = ends_of(planned)
    assert table.equals(
        on_disk(served.directory, **options, endingOffsets=json.dumps(ends), beyondHighWatermark="true")
    )
    assert rows_of(table) == consumed(served.address, ends, isolation)
    assert live(served.address, **options, minPartitions="50").equals(table)
    assert Planned(**options, **served.secured).table().equals(table)


def test_producers_write_meanwhile(served: Served) -> None:
    """Partitions are added, too."""
    admin = AdminClient({"bootstrap.servers": served.address})
    topic = f"busy-{uuid4()}"  # another one each time that this runs
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result()
    done = threading.Event()

    def produce() -> None:
        settings = {"transactional.id": topic, "linger.ms": 1, "topic.metadata.refresh.interval.ms": 100}
        producer = Producer({"bootstrap.servers": served.address, **settings})
        producer.init_transactions()
        for i in count():
            producer.begin_transaction()
            for j in range(300):
                producer.produce(topic, f"{i}-{j}", f"{i}-{j}")
            producer.flush()
            (producer.abort_transaction if i % 3 == 0 else producer.commit_transaction)()
            if done.is_set():
                break

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        for i in range(6):
            isolation = ISOLATIONS[i % 2]
            options = {"isolation": isolation, "columns": LIVE_COLUMNS, "subscribe": topic}
            planned = Planned(**named(options, "kafka.bootstrap.servers", served.address))
            table, ends = planned.table(), ends_of(planned)
            if ends:
                ends = {topic: {str(number): ends[topic].get(str(number), 0) for number in range(PARTITIONS + i)}}
                limits = {"endingOffsets": json.dumps(ends), "beyondHighWatermark": "true"}
                assert table.equals(on_disk(served.directory, **options, **limits))
                assert rows_of(table) == consumed(served.address, ends, isolation)
            admin.create_partitions([NewPartitions(topic, PARTITIONS + 1 + i)])[topic].result()
            done.wait(0.5)
    finally:
        done.set()
        thread.join()
    found = live(served.address, subscribe=topic, isolation="read_committed", columns=LIVE_COLUMNS)
    assert {*found.column("partition").to_pylist()} == {*range(PARTITIONS + 6)}


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_from_the_disk_to_the_brokers(served: Served, isolation: str) -> None:
    """The disk is that of the broker, which goes on writing it; over SASL_SSL, too."""
    options = {"isolation": isolation, "columns": LIVE_COLUMNS, "subscribe": ",".join((*CODECS, "txn"))}
    disk = {"bootstrapFrom": str(served.directory)}
    table = live(served.address, **options)
    kinds = {type(task) for task in Planned(**options, **served.secured, **disk).tasks}
    assert SplitsPartition in kinds
    assert live(served.address, **options, **disk).equals(table)
    assert Planned(**options, **served.secured, **disk).table().equals(table)
    producer = Producer({"bootstrap.servers": served.address, "transactional.id": "moving"})
    producer.init_transactions()
    given = named(disk, "kafka.bootstrap.servers", served.address)
    query = Query(
        None, **given, subscribe="moving", isolation=isolation, startingOffsets="earliest", maxOffsetsPerTrigger="700"
    )
    for i in range(40):
        producer.begin_transaction()
        for j in range(100):
            producer.produce("moving", f"{i}-{j}", partition=j % PARTITIONS)
        producer.flush()
        (producer.abort_transaction if i % 3 == 0 else producer.commit_transaction)()
        if i == 20:
            time.sleep(6)  # the broker writes its high watermark to the file every 5 s
        if i > 20 and i % 3 == 0:
            query.reader.stop()
            query.start()
            query.run()
            if i == 21:
                assert ON_DISK in query.at()
    query.drain()
    query.reader.stop()
    assert ON_DISK not in query.at()
    found = sorted(query.rows)
    places = {"isolation": isolation, "columns": LIVE_COLUMNS, "subscribe": "moving"}
    planned = Planned(**named(places, "kafka.bootstrap.servers", served.address))
    expected = [(*row[:3], row[5]) for row in consumed(served.address, ends_of(planned), isolation)]
    assert found == expected
    assert len(found) > 2_000


def test_a_pipe(served: Served, tmp_path: Path) -> None:
    """From the plain listener to that with TLS and logins; a second run finds nothing."""
    name = f"piped-{uuid4()}"  # another one each time that this runs
    admin = AdminClient({"bootstrap.servers": served.address})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result()
    config = tmp_path / "client.properties"
    config.write_text("".join(f"{name.removeprefix('kafka.')}={value}\n" for name, value in served.secured.items()))
    target = f"kafka://{served.secured['kafka.bootstrap.servers']}/{name}"
    arguments = f"kafka://{served.address}/txn", target, "--checkpoint", tmp_path / "checkpoint"
    more = "--target-config", config, "--max-offsets", "500", "--keep-partitions", "--format", "jsonl"
    done = kcli("pipe", *arguments, *more, "--master", "local[2]", timeout=600)
    assert done.status == 0, done
    places = {"isolation": "read_committed", "columns": LIVE_COLUMNS}
    given, found = (live(served.address, subscribe=each, **places) for each in ("txn", name))
    assert json.loads(done.stdout.splitlines()[-1])["records"] == given.num_rows > 500
    deadline = time.monotonic() + 60
    while found.num_rows < given.num_rows and time.monotonic() < deadline:  # the last markers are still to come
        found = live(served.address, subscribe=name, **places)
    for column in ("key", "value", "partition", "headers"):
        assert found.column(column).to_pylist() == given.column(column).to_pylist()
    assert json.loads(kcli("pipe", *arguments, *more).stdout)["records"] == 0


@pytest.mark.hypothesis  # make soak runs both; tests/cli/test_pipe.py has the other kind on kcli's broker
@pytest.mark.parametrize("kind", ["iceberg", "delta"][: examples(1, soak=2).max_examples])
def test_a_pipe_into_a_table(served: Served, kind: str, tmp_path: Path) -> None:
    """From the listener with TLS and logins, with executors of their own; a second run adds what is new."""
    topic, out = f"lake-{uuid4()}", tmp_path / "out"
    admin = AdminClient({"bootstrap.servers": served.address})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result()
    config = tmp_path / "client.properties"
    config.write_text("".join(f"{name.removeprefix('kafka.')}={value}\n" for name, value in served.secured.items()))
    source = f"kafka://{served.secured['kafka.bootstrap.servers']}/{topic}"
    more = "--source-config", config, "--format", "jsonl", "--master", "local-cluster[2,1,1024]"
    producer = Producer({"bootstrap.servers": served.address, "transactional.id": topic})
    producer.init_transactions()
    for run in range(2):
        for commits in (True, False):
            producer.begin_transaction()
            for i in range(300):
                producer.produce(topic, f"{run}-{i}", f"{i}", partition=i % PARTITIONS)
            (producer.commit_transaction if commits else producer.abort_transaction)()
        done = kcli("pipe", source, f"{kind}:{out}", *more, timeout=600)
        assert done.status == 0, done
        assert json.loads(done.stdout.splitlines()[-1])["records"] == 300
        rows = Place("delta" if kind == "delta" else "directory", out).read()
        keys = ("partition", "offset", "key", "value")
        found = sorted(zip(*(rows[name].to_pylist() for name in keys), strict=True))
        planned = Planned(
            **named({"isolation": "read_committed"}, "kafka.bootstrap.servers", served.address),
            subscribe=topic,
        )
        read = consumed(served.address, ends_of(planned), "read_committed")
        assert found == [(number, offset, key, value) for _, number, offset, _, key, value, _ in read]
        assert len(found) == 300 * (run + 1)


def test_the_sink_writes_a_micro_batch_once(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts die half-way, without an abort, or run again after they have committed; over SASL_SSL, too."""
    monkeypatch.setattr("kcli.client.producing_transaction.ProducingTransaction.abort", lambda _: None)
    monkeypatch.setattr(sink, "CHUNK_BYTES", 1)
    query = str(uuid4())  # another one each time that this runs
    for epoch in range(4):
        monkeypatch.setattr(sink, "_place", lambda epoch=epoch: (query, epoch, 0))
        secured = served.secured if epoch % 2 else {"kafka.bootstrap.servers": served.address}
        options = {**secured, "kafka.compression.type": CODECS[epoch], "topic": "sunk"}
        writer: Any = KafkaDataSource(options).streamWriter(spark_schema(), overwrite=False)
        chunks = [
            rows(500, key=[str(i) for i in range(500)], value=[f"{query} {epoch} {j}".encode()] * 500) for j in range(2)
        ]
        with pytest.raises(Killed):
            writer.write(dying(*chunks))
        writer.write(iter(chunks))
        writer.write(iter(chunks))
    planned = Planned(
        **named({"isolation": "read_committed"}, "kafka.bootstrap.servers", served.address),
        subscribe="sunk",
        columns=LIVE_COLUMNS,
    )
    table = planned.table()
    written = ((row["value"].decode(), int(row["key"])) for row in table.to_pylist())
    found = sorted(each for each in written if each[0].startswith(query))
    assert found == sorted((f"{query} {epoch} {j}", i) for epoch in range(4) for j in range(2) for i in range(500))
    assert rows_of(table) == consumed(served.address, ends_of(planned), "read_committed")
