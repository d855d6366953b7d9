"""Options as Spark gives them, and the columns they choose."""

from __future__ import annotations

import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from kcli.errors import UsageError
from kcli.export.columns import COLUMNS, STANDARD, arrow_schema, spark_schema
from kcli.export.options import EARLIEST, LATEST, Isolation, OnCorruption, SourceOptions
from kcli.protocol.topic_partition import TopicPartition


def test_arrow_types_are_those_that_spark_makes_of_its_own() -> None:
    names = tuple(COLUMNS)
    assert arrow_schema(names) == to_arrow_schema(spark_schema(names), timezone="UTC")


def test_what_is_not_said() -> None:
    options = SourceOptions.parse({"path": "/logs"})
    assert options == SourceOptions(("/logs",))
    assert options.columns == STANDARD
    assert (options.start.default, options.end.default) == (EARLIEST, LATEST)
    assert SourceOptions.parse({"path": "/logs"}, stream=True).start.default == LATEST
    assert options.wants("orders", 0)
    assert not options.wants("__consumer_offsets", 0)


def test_what_is_said() -> None:
    options = SourceOptions.parse(
        {
            "PATHS": '["/a", "s3://b/c"]',
            "subscribePattern": "ord.*",
            "startingoffsets": '{"orders": {"0": 5, "1": -1}}',
            "endingOffsetsByTimestamp": '{"orders": {"0": 1700000000000}}',
            "startingTimestamp": "1600000000000",
            "columns": "offset, KEY",
            "includeHeaders": "True",
            "kafka.isolation.level": "read_committed",
            "onCorruption": "report",
            "corruptionReport": "/report",
            "kafka.ssl.truststore.location": "/nowhere",
            "groupIdPrefix": "x",
        }
    )
    assert options.paths == ("/a", "s3://b/c")
    assert options.columns == ("offset", "key", "headers")
    assert options.isolation is Isolation.READ_COMMITTED
    assert options.on_corruption is OnCorruption.REPORT
    assert options.start.offset_of(TopicPartition("orders", 0)) == 5
    assert options.start.offset_of(TopicPartition("orders", 1)) == LATEST
    assert options.start.time_of(TopicPartition("any", 0)) == 1_600_000_000_000
    assert options.end.time_of(TopicPartition("orders", 0)) == 1_700_000_000_000
    assert options.end.time_of(TopicPartition("orders", 1)) is None
    assert options.wants("orders", 3)
    assert not options.wants("my-orders", 3)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, "give the path"),
        ({"path": "/a", "startingOffset": "earliest"}, "no option startingoffset"),
        ({"path": "/a", "startingOffsets": "first"}, "startingOffsets='first'"),
        ({"path": "/a", "startingOffsets": '{"t": {"0": -3}}'}, "below -2"),
        ({"path": "/a", "startingOffsets": '{"t": {"0": 1.5}}'}, "no int64"),
        (
            {"path": "/a", "startingOffsets": '{"t": 7}'},
            r"""startingOffsets='{"t": 7}': neither a name nor of the form""",
        ),
        ({"path": "/a", "startingOffsets": '{"t": {"x": 7}}'}, "neither a name nor of the form"),
        (
            {"path": "/a", "startingOffsets": '{"t": {"0": 7, "1": 0, "0": 2}}'},
            "startingOffsets=.*: t-0 is there twice",
        ),
        ({"path": "/a", "endingOffsets": '{"t": {"0": 7, "00": 2}}'}, "endingOffsets=.*: t-0 is there twice"),
        ({"path": "/a", "startingOffsets": '{"t": {"0": 7}, "t": {"1": 7}}'}, "startingOffsets=.*: t is there twice"),
        ({"path": "/a", "startingOffsetsByTimestamp": '{"t": {"0": 7, "0": 7}}'}, "Timestamp=.*: t-0 is there twice"),
        ({"path": "/a", "assign": '{"t": [0], "t": [1]}'}, "assign=.*: t is there twice"),
        ({"path": "/a", "minPartitions": "x" * 300}, r"minPartitions='x{200}'\.\.\.: not a whole number"),
        ({"path": "/a", "startingOffsets": "[" * 100_000}, "startingOffsets"),
        ({"path": "/a", "endingOffsets": "earliest"}, "endingOffsets cannot be the earliest"),
        ({"path": "/a", "assign": '{"t": ["0"]}'}, "assign"),
        ({"path": "/a", "subscribe": " , "}, "names no topic"),
        ({"path": "/a", "subscribePattern": "("}, "no regular expression"),
        ({"path": "/a", "subscribe": "a", "assign": '{"t": [0]}'}, "give one of"),
        ({"path": "/a", "includeHeaders": "yes"}, "not true or false"),
        ({"path": "/a", "minPartitions": "0"}, "not above 0"),
        ({"path": "/a", "minPartitions": "1000000000"}, "'1000000000': above 100,000, the tasks that a query can have"),
        (
            {"path": "/a", "startingOffsets": '{"t": {"0": 7}}', "endingOffsets": '{"t": {"0": 6}}'},
            "t-0: startingOffsets has 7, and endingOffsets 6",
        ),
        ({"path": "/a", "columns": "offset,size"}, "no column 'size'"),
        ({"path": "/a", "columns": ","}, "names none"),
        ({"path": "/a", "isolation": "serializable"}, "not one of"),
        ({"path": "/a", "onCorruption": "report"}, "go together"),
        ({"path": "/a", "corruptionReport": "/r"}, "go together"),
        ({"path": "/a", "paths": "{}"}, "no JSON list"),
        ({"path": "/a", "startingTimestamp": "-5"}, "not a time"),
    ],
)
def test_what_makes_no_sense(given: dict[str, str], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        SourceOptions.parse(given)
