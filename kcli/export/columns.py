"""The columns of a table: those of Spark's Kafka source, in its order, and further fields of records and batches.

STANDARD   key value topic partition offset timestamp timestampType, as in spark.read.format("kafka")
headers    present with the option includeHeaders; null for a record without headers
others     present if the option `columns` names them; a number that a record lacks is -1, as in Kafka
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from kcli.errors import UsageError
from kcli.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name, Arrow type, type in Spark's DDL and meaning (`about`).

    kernel: the column's name in formats.kernels.arrow.rows.ARROW_COLUMNS; "" for a column that formats.kernels.arrow
    does not fill.
    """

    name: str
    arrow: pa.DataType
    ddl: str
    about: str
    kernel: str = ""


TIMESTAMP = pa.timestamp("us", "UTC")
HEADERS = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]), nullable=True)
)

COLUMNS: dict[str, Column] = {
    column.name: column
    for column in (
        Column("key", pa.binary(), "binary", "the key", "key"),
        Column("value", pa.binary(), "binary", "the value; null: a tombstone", "value"),
        Column("topic", pa.string(), "string", "the topic"),
        Column("partition", pa.int32(), "int", "the partition"),
        Column("offset", pa.int64(), "bigint", "the offset", "offset"),
        Column("timestamp", TIMESTAMP, "timestamp", "Kafka's timestamp; -1 ms: none", "timestamp_us"),
        Column(
            "timestampType", pa.int32(), "int", "-1 none (magic 0), 0 CreateTime, 1 LogAppendTime", "timestamp_type"
        ),
        Column(
            "headers", HEADERS, "array<struct<key:string,value:binary>>", "the headers in order; null: none", "headers"
        ),
        Column("timestampMs", pa.int64(), "bigint", "the timestamp in ms, however large it is", "timestamp_ms"),
        Column("leaderEpoch", pa.int32(), "int", "leader epoch of its batch", "leader_epoch"),
        Column("producerId", pa.int64(), "bigint", "producer id of its batch", "producer_id"),
        Column("producerEpoch", pa.int16(), "smallint", "producer epoch of its batch", "producer_epoch"),
        Column("sequence", pa.int32(), "int", "the record's sequence number", "sequence"),
        Column("attributes", pa.int32(), "int", "attribute bits of its batch", "attributes"),
        Column("magic", pa.int32(), "int", "format of its batch: 0, 1 or 2", "magic"),
        Column("codec", pa.string(), "string", "how its batch is compressed", "codec"),
        Column("segment", pa.string(), "string", "name of the segment's file"),
        Column("batchPosition", pa.int64(), "bigint", "byte of the segment where its batch begins", "position"),
        Column("batchOffset", pa.int64(), "bigint", "base offset of its batch", "base_offset"),
        Column("batchLastOffset", pa.int64(), "bigint", "last offset of its batch", "last_offset"),
        Column(
            "batchTimestamp",
            pa.int64(),
            "bigint",
            "base timestamp of its batch, or delete horizon",
            "base_timestamp",
        ),
        Column("batchMaxTimestamp", pa.int64(), "bigint", "largest timestamp of its batch in ms", "max_timestamp"),
        Column("isControl", pa.bool_(), "boolean", "a control record: with includeControl", "is_control"),
        Column("decoded", pa.string(), "string", "control and internal topics' records as JSON; null: another"),
    )
}
STANDARD = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")


def resolve(names: str | None, *, include_headers: bool = False) -> tuple[str, ...]:
    """Return the column names that the options `columns` and `includeHeaders` select. Raises UsageError.

    names: separated by commas, in any case; `*` for all columns. None: the standard columns.
    """
    if names is None:
        chosen = list(STANDARD)
    else:
        known = {name.lower(): name for name in COLUMNS}
        chosen = []
        for word in filter(None, map(str.strip, names.split(","))):
            if word != "*" and word.lower() not in known:
                raise UsageError(f"columns: there is no column {word!r}; there are {', '.join(COLUMNS)}")
            chosen += COLUMNS if word == "*" else [known[word.lower()]]
        if not chosen:
            raise UsageError("columns: names none")
    if include_headers:
        chosen.append("headers")
    return tuple(dict.fromkeys(chosen))


def arrow_schema(names: Sequence[str]) -> pa.Schema:
    """Return the Arrow schema of a table with these columns: that of the record batches which kcli.export.reading.read
    yields, in types that Spark accepts."""
    return pa.schema([pa.field(name, COLUMNS[name].arrow) for name in names])


def spans(keys: pa.Table) -> Iterator[tuple[TopicPartition, int, int, int]]:
    """Yield each partition of a table with columns topic, partition and offset, in any order: (topic, partition), the
    number of its rows, its lowest and its highest offset."""
    groups = keys.group_by(["topic", "partition"])
    sums = groups.aggregate([("offset", "count"), ("offset", "min"), ("offset", "max")])
    for row in sums.to_pylist():
        yield TopicPartition(row["topic"], row["partition"]), row["offset_count"], row["offset_min"], row["offset_max"]


def spark_schema(names: Sequence[str]) -> StructType:
    """Return the Spark schema of these columns, built from types, because parsing a DDL string needs a running JVM."""
    from pyspark.sql.types import (
        ArrayType,
        BinaryType,
        BooleanType,
        DataType,
        IntegerType,
        LongType,
        ShortType,
        StringType,
        StructField,
        StructType,
        TimestampType,
    )

    types: dict[str, DataType] = {
        "binary": BinaryType(),
        "string": StringType(),
        "int": IntegerType(),
        "bigint": LongType(),
        "smallint": ShortType(),
        "boolean": BooleanType(),
        "timestamp": TimestampType(),
        COLUMNS["headers"].ddl: ArrayType(
            StructType([StructField("key", StringType()), StructField("value", BinaryType())])
        ),
    }
    return StructType([StructField(name, types[COLUMNS[name].ddl]) for name in names])
