"""What exports are measured beside, each in a process that stays: python -m tests.bench.export_sides SIDE ARG CODEC.

    kcli MASTER         kcli's job, in one Spark session
    iceberg MASTER      the same to an Iceberg table of a SQL catalog
    delta MASTER        the same to a Delta table
    spark MASTER        df.write.parquet of Spark's, from the data source kafka-log, in one Spark session
    live MASTER@ADDRESS the same from a running Kafka
    tasks MASTER[@ADDRESS]  the data source kafka-log in Spark's tasks, which write Parquet with pyarrow: from a running
                        Kafka, or without an address from a disk
    sink MASTER@ADDRESS rows of the data source kafka-log from a disk to a topic of a running Kafka
    consumer ADDRESS    a confluent-kafka consumer: messages to columns, pyarrow writes them
    pyarrow -           pyarrow alone: columns that are in memory already

A side reads lines [topic, records, bytes of a value, file or directory to write] as JSON from stdin, and answers each
with its seconds. With those four as further arguments it does that once, and ends.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from kcli.export.columns import STANDARD, arrow_schema
from kcli.export.export_options import ExportOptions
from kcli.export.job import Job
from kcli.export.options import SourceOptions
from kcli.export.reading import read
from kcli.export.session import QUICK_START, SparkSettings, spark_context, spark_session
from kcli.export.splits import plan
from kcli.export.table_writer import TableFormat
from kcli.pipelines.source import KafkaDataSource
from kcli.pipelines.tables.table import Table
from tests.bench.export_logs import Log
from tests.bench.measure import BenchError

MESSAGES, ROW_GROUP = 20_000, 200_000
FEW_VALUES = ["topic", "partition", "timestampType"]
WAIT_S = 10
Side: TypeAlias = Callable[[Log, Path], float]


def writer(out: Path, codec: str) -> pq.ParquetWriter:
    """Return pyarrow's writer for the columns, without dictionaries for keys and values, which would be slower."""
    return pq.ParquetWriter(out, arrow_schema(STANDARD), compression=codec, use_dictionary=FEW_VALUES)


# sides


@contextmanager
def kcli(master: str, codec: str) -> Iterator[Side]:
    """kcli's job."""
    with spark_context(SparkSettings(master, QUICK_START)) as spark:

        def export(log: Log, out: Path) -> float:
            began = time.perf_counter()
            Job(ExportOptions(_source(log), out, TableFormat(codec=codec)), spark).run()
            return time.perf_counter() - began

        yield export


@contextmanager
def iceberg(master: str, codec: str) -> Iterator[Side]:
    """kcli's job, to an Iceberg table of a SQL catalog."""
    from kcli.pipelines.tables.iceberg import IcebergTable

    def table(out: Path) -> Table:
        database = out.with_name(f"{out.name}.db")
        database.unlink(missing_ok=True)
        return IcebergTable(out, (), f"sqlite:///{database}", "bench.records")

    yield from _to_table(master, codec, table)


@contextmanager
def delta(master: str, codec: str) -> Iterator[Side]:
    """kcli's job, to a Delta table."""
    from kcli.pipelines.tables.delta import DeltaLakeTable

    yield from _to_table(master, codec, lambda out: DeltaLakeTable(out, ()))


def _to_table(master: str, codec: str, table: Callable[[Path], Table]) -> Iterator[Side]:
    from kcli.pipelines.tables.job import TableJob

    with spark_context(SparkSettings(master, QUICK_START)) as spark:

        def export(log: Log, out: Path) -> float:
            began = time.perf_counter()
            TableJob(ExportOptions(_source(log), out, TableFormat(codec=codec)), table(out), spark).run()
            return time.perf_counter() - began

        yield export


@contextmanager
def by_spark(master: str, codec: str) -> Iterator[Side]:
    """Spark's own writer."""
    with spark_session(SparkSettings(master)) as spark:

        def export(log: Log, out: Path) -> float:
            began = time.perf_counter()
            rows = spark.read.format("kafka-log").option("columns", ",".join(STANDARD)).load(str(log.path))
            rows.write.option("compression", codec).parquet(str(out))
            return time.perf_counter() - began

        yield export


@contextmanager
def live(where: str, codec: str) -> Iterator[Side]:
    """Spark's own writer, from the brokers."""
    master, _, address = where.partition("@")
    with spark_session(SparkSettings(master)) as spark:

        def export(log: Log, out: Path) -> float:
            began = time.perf_counter()
            source = spark.read.format("kafka-log").option("columns", ",".join(STANDARD))
            rows = source.option("kafka.bootstrap.servers", address).option("subscribe", log.topic).load()
            rows.write.option("compression", codec).parquet(str(out))
            return time.perf_counter() - began

        yield export


@contextmanager
def tasks(where: str, codec: str) -> Iterator[Side]:
    """The reader of the data source in tasks of Spark, without the rows of Spark's JVM."""
    master, _, address = where.partition("@")
    with spark_context(SparkSettings(master, QUICK_START)) as spark:

        def export(log: Log, out: Path) -> float:
            began = time.perf_counter()
            options = {"columns": ",".join(STANDARD), "minPartitions": "4"}
            options |= {"path": str(log.path)} if not address else {"subscribe": log.topic}
            options |= {"kafka.bootstrap.servers": address} if address else {}
            source = KafkaDataSource(options)
            reader = source.reader(source.schema())
            out.mkdir(parents=True)

            def write(numbered: tuple[int, Any]) -> int:
                number, partition = numbered
                with writer(out / f"{number}.parquet", codec) as file:
                    table = pa.Table.from_batches(reader.read(partition), arrow_schema(STANDARD))
                    file.write_table(table, ROW_GROUP)
                return int(table.num_rows)

            planned = list(enumerate(reader.partitions()))
            written = spark.parallelize(planned, len(planned)).map(write).sum()
            took = time.perf_counter() - began
            if written != log.records:
                raise BenchError(f"{written:,} of {log.records:,} records")
            return took

        yield export


@contextmanager
def sink(where: str, _: str) -> Iterator[Side]:
    """The sink, from a disk to a new topic of one partition."""
    from confluent_kafka.admin import AdminClient, NewTopic

    master, _, address = where.partition("@")
    admin = AdminClient({"bootstrap.servers": address})
    with spark_session(SparkSettings(master)) as spark:

        def export(log: Log, out: Path) -> float:
            topic = f"sink-{time.time_ns()}"
            admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()
            began = time.perf_counter()
            rows = spark.read.format("kafka-log").load(str(log.path)).select("key", "value")
            writer = rows.write.format("kafka-log").option("kafka.bootstrap.servers", address)
            writer.option("topic", topic).mode("append").save()
            took = time.perf_counter() - began
            admin.delete_topics([topic])[topic].result()
            return took

        yield export


@contextmanager
def consumer(address: str, codec: str) -> Iterator[Side]:
    """Return a consumer that reads one partition from its beginning."""
    from confluent_kafka import Consumer, TopicPartition

    settings = {"bootstrap.servers": address, "group.id": "bench", "enable.auto.commit": False}
    settings |= {"fetch.message.max.bytes": 10_000_000}

    def export(log: Log, out: Path) -> float:
        began = time.perf_counter()
        client = Consumer(settings)
        client.assign([TopicPartition(log.topic, 0, 0)])
        with writer(out, codec) as file:
            left, batches = log.records, []
            while left:
                messages = client.consume(min(MESSAGES, left), WAIT_S)
                if not messages:
                    raise BenchError(f"no message in {WAIT_S} s")
                batches.append(_columns(messages))
                left -= len(messages)
                if left == 0 or sum(batch.num_rows for batch in batches) >= ROW_GROUP:
                    file.write_table(pa.Table.from_batches(batches))
                    batches.clear()
        client.close()
        return time.perf_counter() - began

    yield export


def _columns(messages: Sequence[Any]) -> pa.RecordBatch:
    for message in messages:
        if message.error() is not None:
            raise BenchError(str(message.error()))
    times = [message.timestamp() for message in messages]
    values = [
        [message.key() for message in messages],
        [message.value() for message in messages],
        [message.topic() for message in messages],
        [message.partition() for message in messages],
        [message.offset() for message in messages],
        [time_ms * 1000 for _, time_ms in times],
        [kind - 1 for kind, _ in times],
    ]
    schema = arrow_schema(STANDARD)
    arrays = [pa.array(column, field.type) for column, field in zip(values, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


@contextmanager
def pyarrow(_: str, codec: str) -> Iterator[Side]:
    """Columns of kcli's reader, read before the clock starts."""

    def export(log: Log, out: Path) -> float:
        table = pa.Table.from_batches(
            (batch for split in plan(_source(log)) for batch in read(split, STANDARD)), arrow_schema(STANDARD)
        )
        began = time.perf_counter()
        with writer(out, codec) as file:
            file.write_table(table, ROW_GROUP)
        return time.perf_counter() - began

    yield export


def _source(log: Log) -> SourceOptions:
    return SourceOptions.parse({"path": str(log.path), "columns": ",".join(STANDARD)})


SIDES = {
    "kcli": kcli,
    "iceberg": iceberg,
    "delta": delta,
    "spark": by_spark,
    "live": live,
    "sink": sink,
    "tasks": tasks,
    "consumer": consumer,
    "pyarrow": pyarrow,
}


# processes


def command(side: str, argument: str, codec: str, log: Log | None = None, out: Path | None = None) -> list[str]:
    """Return the command that runs a side; with `log`, the command exports it once and ends."""
    once = [] if log is None else [log.topic, str(log.records), str(log.value_bytes), str(out)]
    return [sys.executable, "-m", "tests.bench.export_sides", side, argument, codec, *once]


@contextmanager
def warm(side: str, argument: str, codec: str) -> Iterator[Side]:
    """A side in a process of its own."""
    process = subprocess.Popen(command(side, argument, codec), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    ask, answers = process.stdin, process.stdout

    def export(log: Log, out: Path) -> float:
        remove(out)
        os.sync()  # what the side before has left to be written
        ask.write(json.dumps([log.topic, log.records, log.value_bytes, str(out)]) + "\n")
        ask.flush()
        seconds = answers.readline()
        if not seconds:
            raise BenchError(f"{side} ended")
        return float(seconds)

    try:
        yield export
    finally:
        ask.close()
        process.wait()


def remove(out: Path) -> None:
    """Take away what an export wrote."""
    if out.is_dir():
        shutil.rmtree(out)
    else:
        out.unlink(missing_ok=True)


def main() -> None:
    """Be a side."""
    side, argument, codec, *once = sys.argv[1:]
    with SIDES[side](argument, codec) as export:
        for words in [once] if once else map(json.loads, sys.stdin):
            topic, records, value_bytes, out = words
            print(export(Log(topic, int(records), int(value_bytes)), Path(out)), flush=True)


if __name__ == "__main__":
    main()
