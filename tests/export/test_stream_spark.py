"""readStream on a real Spark, from the directory of a broker that writes: every record once, over restarts."""

from __future__ import annotations

import threading
import time
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kcli.testing.kafka import Kafka
from tests.export.logs import append

DEADLINE_S = 300.0
BUSY = "Python worker failed to connect back"
"""On a busy machine Python does not start within Spark's ten seconds; the test then starts the query again."""


class Copy:
    """A query that copies a stream to Parquet."""

    def __init__(self, spark: SparkSession, home: Path, path: Path | str | None, **options: str) -> None:
        self._spark, self._home, self._path, self._options = spark, home, path, options

    def start(self, **trigger: Any) -> StreamingQuery:
        """Start the query, from its checkpoint where it has one."""
        source = self._spark.readStream.format("kafka-log").options(**self._options)
        rows = source.load() if self._path is None else source.load(str(self._path))
        writer = rows.writeStream.format("parquet").trigger(**trigger)
        writer = writer.option("checkpointLocation", str(self._home / "checkpoint"))
        return writer.start(str(self._home / "out"))

    def run(self) -> list[int]:
        """Copy the available records. Returns the rows of each batch."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            query = self.start(availableNow=True)
            try:
                query.awaitTermination()
            except StreamingQueryException as error:
                if BUSY not in str(error) or time.monotonic() > deadline:
                    raise
            else:
                return [progress["numInputRows"] for progress in query.recentProgress]

    def tail(self, batches: int) -> StreamingQuery:
        """Start the query, and wait until that many batches have had rows."""
        deadline = time.monotonic() + DEADLINE_S
        query = self.start(processingTime="100 milliseconds")
        while sum(progress["numInputRows"] > 0 for progress in query.recentProgress) < batches:
            assert time.monotonic() < deadline, query.status
            if (error := query.exception()) is not None:
                assert BUSY in str(error)
                query = self.start(processingTime="100 milliseconds")
            time.sleep(0.05)
        return query

    def rows(self) -> Counter[tuple[str, int, int, bytes]]:
        """Return the copied rows: topic, partition, offset and value."""
        table = self._spark.read.parquet(str(self._home / "out"))
        return Counter((row.topic, row.partition, row.offset, bytes(row.value)) for row in table.collect())


def written(kafka: Kafka) -> Counter[tuple[str, int, int, bytes]]:
    """What the broker has."""
    return Counter(
        (topic, record.partition, record.offset, record.value or b"")
        for topic in kafka.topics()
        if not topic.startswith("__")
        for record in kafka.records(topic)
    )


def test_available_now_over_restarts(spark: SparkSession, tmp_path: Path) -> None:
    with Kafka.started(seed={"orders": 2}) as kafka:
        kafka.produce("orders", *({"value": f"a{i}", "partition": i % 2} for i in range(50)))
        copy = Copy(spark, tmp_path, kafka.data_dir, startingOffsets="earliest", maxOffsetsPerTrigger="30")
        assert copy.run() == [30, 20]
        kafka.produce("orders", *({"value": f"b{i}", "partition": i % 2} for i in range(10)))
        kafka.produce("late", "x", "y")
        assert sum(copy.run()) == 12
        assert copy.rows() == written(kafka)
        assert max(copy.rows().values()) == 1


def test_tails_a_broker(spark: SparkSession, tmp_path: Path) -> None:
    """The query is stopped in the middle, and continued while the broker still writes."""
    with Kafka.started(config={"log.segment.bytes": str(1 << 20)}, seed={"orders": ["first"]}) as kafka:
        done = threading.Event()

        def produce() -> None:
            for i in count():
                kafka.produce("orders", *(f"{i}-{j}-" + "x" * 10_000 for j in range(2)))
                if done.wait(0.05):
                    break

        copy = Copy(spark, tmp_path, kafka.data_dir, startingOffsets="earliest")
        thread = threading.Thread(target=produce)
        thread.start()
        try:
            copy.tail(3).stop()
            copy.tail(1).stop()
        finally:
            done.set()
            thread.join()
        copy.run()
        assert copy.rows() == written(kafka)
        assert max(copy.rows().values()) == 1
        assert len(list((kafka.data_dir / "orders-0").glob("*.log"))) > 1


def test_data_loss_ends_the_query(spark: SparkSession, tmp_path: Path) -> None:
    log = tmp_path / "logs/t-0"
    log.mkdir(parents=True)
    append(log, range(5))
    copy = Copy(spark, tmp_path, log.parent, startingOffsets="earliest")
    assert copy.run() == [5]
    append(log, range(10, 15), segment=10)
    (log / f"{0:020}.log").unlink()
    with pytest.raises(StreamingQueryException, match="t-0: offset 5 is gone, the log starts at 10"):
        copy.run()
