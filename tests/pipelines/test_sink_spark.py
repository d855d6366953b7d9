"""The sink in Spark: a batch query writes, and a stream copies a topic exactly once while its workers are killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import BinaryType

from kcli.testing.kafka import Kafka
from tests.pipelines.test_sink import consumed


def test_a_batch_query_writes(spark: SparkSession, kafka: Kafka) -> None:
    """The example of Spark's integration guide, with the mode that Python's data sources need."""
    kafka.seed({"t": 2, "u": 1})
    headers = "array(named_struct('key', 'h', 'value', binary('x'))) AS headers"
    columns = "'t' AS topic", "CAST(id AS STRING) AS key", "CAST(id * 2 AS STRING) AS value", headers
    df = spark.range(100).selectExpr(*columns)
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    df.write.format("kafka-log").options(**options).mode("append").save()
    found = consumed(kafka, "t", 2)
    assert sorted((int(each.key()), int(each.value())) for each in found) == [(i, 2 * i) for i in range(100)]
    assert all(each.headers() == [("h", b"x")] for each in found)
    df.write.format("kafka-log").options(**options).option("topic", "u").mode("append").save()
    assert len(consumed(kafka, "u")) == 100
    with pytest.raises(PySparkException, match="there is no topic 'nope' to write to"):
        df.write.format("kafka-log").options(**options).option("topic", "nope").mode("append").save()


def test_a_stream_writes_exactly_once(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    """Workers are killed between rows, and the query is started again from its checkpoint, as if it knew of nothing
    that its last batch has written."""
    kafka.seed({"t": 2, "u": 2})
    kafka.produce("t", *({"key": str(i), "value": str(i), "partition": i % 2} for i in range(2_000)))
    marks = tmp_path / "marks"
    marks.mkdir()

    @udf(returnType=BinaryType(), useArrow=False)
    def killing(value: bytes) -> bytes:
        """Kill the worker once, at each of these rows."""
        mark = marks / bytes(value).decode()
        if int(value) % 500 == 321 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return value

    def start(**more: str) -> StreamingQuery:
        options = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
        source = spark.readStream.format("kafka-log").options(**options, **more)
        rows = source.option("subscribe", "t").option("startingOffsets", "earliest").load()
        rows = rows.select("key", killing("value").alias("value"))
        writer = rows.writeStream.format("kafka-log").options(**options).option("topic", "u")
        return writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()

    start(maxOffsetsPerTrigger="700").awaitTermination()
    assert len(list(marks.iterdir())) == 4
    values = sorted(int(each.value()) for each in consumed(kafka, "u", 2))
    assert values == [*range(2_000)]
    commits = sorted((tmp_path / "checkpoint/commits").glob("[0-9]*"), key=lambda path: int(path.name))
    for path in (commits[-1], commits[-1].with_name(f".{commits[-1].name}.crc")):
        path.unlink()
    kafka.produce("t", *({"value": str(i)} for i in range(2_000, 2_010)))
    start().awaitTermination()
    values = sorted(int(each.value()) for each in consumed(kafka, "u", 2))
    assert values == [*range(2_010)]
