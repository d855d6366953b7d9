"""The live source in Spark: Spark's own examples with another format, TLS and a login, a stream while producers
write."""

from __future__ import annotations

import re
import shutil
import sys
import threading
from collections import Counter
from itertools import count
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import explode, split

from kcli.export.columns import STANDARD
from kcli.testing.kafka import Kafka
from tests.export.test_stream_spark import Copy, written
from tests.pipelines.test_live_batch import delete_records

GUIDE = Path(__file__).parents[2] / "docs/pipelines.md"


def test_a_batch_query(spark: SparkSession, kafka: Kafka) -> None:
    """The example of Spark's integration guide."""
    kafka.seed({"topic1": 3, "topic2": 1})
    kafka.produce("topic1", *({"key": f"k{i}", "value": f"v{i}", "partition": i % 3} for i in range(30)))
    kafka.produce("topic2", {"value": "x", "headers": {"h": "y"}})
    df = (
        spark.read.format("kafka-log")
        .option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        .option("subscribe", "topic1,topic2")
        .option("startingOffsets", """{"topic1":{"0":3,"1":-2,"2":-2},"topic2":{"0":-2}}""")
        .option("endingOffsets", """{"topic1":{"0":5,"1":-1,"2":-1},"topic2":{"0":-1}}""")
        .option("includeHeaders", "true")
        .load()
    )
    assert df.columns == [*STANDARD, "headers"]
    assert df.rdd.getNumPartitions() == 4
    rows = df.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)", "headers").collect()
    wanted = {(f"k{i}", f"v{i}") for i in range(30) if i % 3 or i in (9, 12)}
    assert {(row.key, row.value) for row in rows if row.key} == wanted
    assert [(row.value, row.headers) for row in rows if not row.key] == [("x", [("h", b"y")])]


@pytest.mark.usefixtures("spark")
def test_the_guide(
    kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The programs of docs/pipelines.md, in the session of these tests: a session of their own takes a minute of CPU
    time, beside others three."""
    kafka.seed({"orders": 2, "large-orders": 1})
    kafka.produce("orders", *({"key": key, "value": value} for key, value in (("a", "1"), ("b", "2"), ("a", "3"))))
    monkeypatch.setenv("KCLI_BOOTSTRAP_SERVER", kafka.bootstrap_servers)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    # The JVM's working directory is not this test's: its checkpoint would be there for the next run.
    guide = GUIDE.read_text().replace("large-orders.checkpoint", str(tmp_path / "checkpoint"))
    programs = re.findall(r"^```python\n(# \w+\.py\n.*?)^```$", guide, re.DOTALL | re.MULTILINE)
    totals, large_orders = programs
    exec(totals, {})
    assert capsys.readouterr().out == "a 4\nb 2\n"
    exec(large_orders, {})
    found = {(each.key, each.value) for each in kafka.records("large-orders")}
    assert found == {(b"a", b"3"), (b"b", b"2")}
    assert (tmp_path / "checkpoint/commits/0").is_file()


def test_the_word_count(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    """Spark's structured_kafka_wordcount.py."""
    kafka.produce("lines", "one fish two fish", "red fish blue fish")
    lines = (
        spark.readStream.format("kafka-log")
        .option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        .option("subscribe", "lines")
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("CAST(value AS STRING)")
    )
    words = lines.select(explode(split(lines.value, " ")).alias("word"))
    counts = words.groupBy("word").count()
    query = (
        counts.writeStream.outputMode("complete")
        .format("memory")
        .queryName("counts")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    found = {row["word"]: row["count"] for row in spark.table("counts").collect()}
    assert found == {"one": 1, "two": 1, "red": 1, "blue": 1, "fish": 4}


def test_tails_brokers(spark: SparkSession, tmp_path: Path) -> None:
    """The query is stopped in the middle, and continued while the broker still writes, and a topic is created."""
    with Kafka.started(seed={"orders": ["first"]}) as kafka:
        done = threading.Event()

        def produce() -> None:
            for i in count():
                kafka.produce("orders" if i % 2 else "late", *(f"{i}-{j}" for j in range(20)))
                if done.wait(0.05):
                    break

        options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "startingOffsets": "earliest"}
        copy = Copy(spark, tmp_path, None, **options, minPartitions="3")
        thread = threading.Thread(target=produce)
        thread.start()
        try:
            copy.tail(2).stop()
            copy.tail(1).stop()
        finally:
            done.set()
            thread.join()
        copy.run()
        assert copy.rows() == written(kafka)
        assert max(copy.rows().values()) == 1


def test_from_a_disk(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    """The query is stopped while it reads the disk; the disk goes once the query has changed over to the brokers."""
    kafka.produce("t", *map(str, range(20)))
    kafka.restart()
    shutil.copytree(kafka.data_dir, tmp_path / "disk")
    expected = written(kafka)
    delete_records(kafka, "t", 15)
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "startingOffsets": "earliest"}
    copy = Copy(
        spark, tmp_path, None, **options, bootstrapFrom=str(tmp_path / "disk"), subscribe="t", maxOffsetsPerTrigger="6"
    )
    copy.tail(1).stop()
    kafka.produce("t", *map(str, range(20, 25)))
    copy.run()
    shutil.rmtree(tmp_path / "disk")
    kafka.produce("t", "25")
    copy.run()
    assert copy.rows() == expected + written(kafka) - Counter({each: 1 for each in expected if each[2] >= 15})


@pytest.mark.kafka_broker(security="scram")
def test_sasl_ssl(spark: SparkSession, kafka: Kafka) -> None:
    kafka.produce("t", *map(str, range(10)))
    config = kafka.client_config("confluent", "alice")
    login = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    options = {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": f'{login} username="alice" password="{config["sasl.password"]}";',
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": config["ssl.ca.location"],
    }
    assert spark.read.format("kafka-log").options(**options).load().count() == 10
    options["kafka.sasl.jaas.config"] = f'{login} username="alice" password="wrong";'
    with pytest.raises(PySparkException, match="the login failed"):
        spark.read.format("kafka-log").options(**options).load().count()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"kafka.bootstrap.servers": "127.0.0.1:1"}, "127.0.0.1:1: no broker answers"),
        ({"subscribe": "nope"}, "no topic 'nope' in "),
    ],
)
def test_errors(spark: SparkSession, kafka: Kafka, options: dict[str, str], reason: str) -> None:
    kafka.produce("t", "x")
    with pytest.raises(PySparkException, match=reason):
        spark.read.format("kafka-log").options(
            **{"kafka.bootstrap.servers": kafka.bootstrap_servers, **options}
        ).load().collect()
