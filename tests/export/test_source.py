"""The data source in Spark: found by its name, with the columns and options of Spark's Kafka source."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from kcli.export.columns import COLUMNS, STANDARD
from tests.conftest import GOLDEN
from tests.export.tables import TRUTH_COLUMNS, as_truth
from tests.export.test_reading_golden import told

CODECS = GOLDEN / "codecs/data"
TXN = GOLDEN / "txn/data"


def offsets(frame: DataFrame) -> list[tuple[str, int, int]]:
    return sorted(
        (row.topic, row.partition, row.offset) for row in frame.select("topic", "partition", "offset").collect()
    )


def test_a_job_for_kafka_moves_over(spark: SparkSession) -> None:
    frame = (
        spark.read.format("kafka-log")
        .option("kafka.security.protocol", "SSL")
        .option("subscribe", "java-none,mixed")
        .option("startingOffsets", '{"java-none":{"0":10,"1":-2},"mixed":{"0":290}}')
        .option("endingOffsets", '{"java-none":{"0":20,"1":3},"mixed":{"0":-1}}')
        .option("includeHeaders", "true")
        .load(str(CODECS))
    )
    assert frame.columns == [*STANDARD, "headers"]
    wanted = [("java-none", 0, each) for each in range(10, 20)] + [("java-none", 1, each) for each in range(3)]
    assert offsets(frame) == wanted + [("mixed", 0, each) for each in range(290, 298)]


def test_every_column_reaches_spark(spark: SparkSession) -> None:
    files = sorted((GOLDEN / "txn/expected/data").glob("*.read_committed.jsonl.gz"))
    frame = (
        spark.read.format("kafka-log")
        .options(columns="*", isolation="read_committed", includeControl="true")
        .load(str(TXN))
    )
    assert frame.columns == list(COLUMNS)
    records = frame.where("not isControl").select(*TRUTH_COLUMNS.split(",")).toArrow()
    assert as_truth(records) == told(*files)
    markers = frame.where("isControl").select("decoded").distinct().collect()
    assert markers
    assert all('"control_type":"COMMIT"' in row.decoded or '"control_type":"ABORT"' in row.decoded for row in markers)


def test_a_narrower_schema(spark: SparkSession) -> None:
    frame = spark.read.format("kafka-log").schema("offset long, codec string").load(str(CODECS / "java-gzip-0"))
    assert frame.distinct().count() == 298
    assert {row.codec for row in frame.collect()} == {"gzip"}


def test_pushed_filters(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = spark.read.format("kafka-log").option("pushFilters", "true").load(str(CODECS))
        narrow = frame.where("topic = 'java-none' and partition in (1) and offset >= 290 and offset != 293")
        assert offsets(narrow) == [("java-none", 1, each) for each in range(290, 298) if each != 293]
        assert narrow.rdd.getNumPartitions() == 1
        late = frame.where("topic = 'java-none' and timestamp >= timestamp_millis(1700012363726)")
        assert offsets(late) == [("java-none", 0, 296)]
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"startingOffset": "earliest"}, "kafka-log has no option startingoffset; there is startingOffsets"),
        (
            {"isolation": "read_committed", "kafka.isolation.level": "read_uncommitted"},
            "isolation=read_committed and kafka.isolation.level=read_uncommitted contradict each other",
        ),
        ({"columns": "offset,size"}, "there is no column 'size'"),
        ({"subscribe": "a", "subscribePattern": "b"}, "give one of subscribe, subscribePattern and assign"),
        ({"subscribe": "mixed,nope"}, "no topic 'nope' in "),
    ],
)
def test_options_that_make_no_sense(spark: SparkSession, options: dict[str, str], reason: str) -> None:
    with pytest.raises(PySparkException, match=reason):
        spark.read.format("kafka-log").options(**options).load(str(CODECS)).collect()


def test_corruption_ends_the_query(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match=r"00000000000000000000\.log, byte 6,059: CRC is 0xa4c2ed08"):
        spark.read.format("kafka-log").load(str(GOLDEN / "corrupt/cases/crc-field-flip")).collect()
