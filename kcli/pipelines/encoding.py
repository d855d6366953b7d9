"""Rows of a query to record batches of partitions: the columns of Spark's Kafka sink.

    key, value     string or binary; value must be a column. A null value is a tombstone
    headers        array<struct<key: string, value: binary>>
    topic          string; the option `topic` overrides it
    partition      int; null or no column: murmur2 of the key, as Java's producer has it, and for a null key one
                   partition for the rows that are encoded together, another the next time
    others         left out

The runner of kcli.streams has two more, which queries cannot give:

    partition key  binary: what decides the partition instead of the key
    timestamp ms   int64; without it all rows that are encoded together get the present time

A kernel (formats.kernels.arrow.builder) makes batches of the columns. Source: KafkaWriter, KafkaRowWriter.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from formats.compression import CODEC_NAMES, compress
from formats.kernels.arrow.builder import (
    BUILD_COLUMNS,
    BUILD_COMPRESS,
    BUILD_FAULT,
    BUILD_FAULTS,
    BUILD_ROWS_DONE,
    BUILD_UNKNOWN_TIMESTAMP,
    BatchBuilder,
)
from formats.kernels.arrow.key_partitions import key_partitions
from kcli.errors import UsageError
from kcli.export.restore_columns import BUILD_SCHEMA, TRANSACTIONAL
from kcli.protocol.topic_partition import TopicPartition

BATCH_BYTES = 256 << 10
LOG_OVERHEAD_BYTES = 12
CODECS = CODEC_NAMES[:5]
BYTES = ("string", "binary")
TYPES = {
    "key": BYTES,
    "value": BYTES,
    "headers": ("array<struct<key:string,value:binary>>",),
    "topic": ("string",),
    "partition": ("int",),
}
"""The columns that are written, each with the names of the Spark types that it may have."""
PARTITION_KEY, TIMESTAMP_MS = "partition key", "timestamp ms"


def check_columns(types: dict[str, str], topic: str | None) -> None:
    """Raise UsageError for columns that cannot be written. types: Spark's type of each column of the query, by name.
    topic: the option."""
    for name, allowed in TYPES.items():
        if name in types and types[name] not in allowed:
            raise UsageError(f"column {name} is {types[name]}: it must be {' or '.join(allowed)}")
    if "value" not in types:
        raise UsageError(f"there is no column value to write; there are {', '.join(types)}")
    if topic is None and "topic" not in types:
        raise UsageError("no topic to write to: give the option topic, or a column topic")


@dataclass
class Encoder:
    """Encodes rows as batches. partitions: returns the number of partitions of a topic. topic: the topic of all rows;
    None if the column `topic` names it. codec: the codec of the batches, one of CODECS. producer: producer id and epoch
    of transactional batches, None for batches without a producer. batch_bytes:
    about how many bytes of records a batch has, before compression."""

    partitions: Callable[[str], int]
    topic: str | None = None
    codec: str = "none"
    producer: tuple[int, int] | None = None
    batch_bytes: int = BATCH_BYTES
    _sequences: dict[TopicPartition, int] = field(default_factory=dict)

    def encode(self, rows: pa.Table) -> dict[TopicPartition, list[bytes]]:
        """Return the batches of each partition, in the order of the rows. Raises UsageError for a null topic, a topic
        that does not exist, or a partition that it does not have, and for a row that no batch can hold."""
        now_ms = time.time_ns() // 1_000_000
        found: dict[TopicPartition, list[bytes]] = {}
        for topic, of_topic in self._by_topic(rows):
            numbers = self._numbers(topic, of_topic)
            order = np.argsort(numbers, kind="stable")
            chosen, starts = np.unique(numbers[order], return_index=True)
            for i, number in enumerate(chosen.tolist()):
                end = starts[i + 1] if i + 1 < len(starts) else len(order)
                part = of_topic if len(chosen) == 1 else of_topic.take(pa.array(order[starts[i] : end]))
                partition = TopicPartition(topic, number)
                found[partition] = list(self._batches(partition, part, now_ms))
        return found

    def _by_topic(self, rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
        if self.topic is not None:
            yield self.topic, rows
            return
        topics = rows.column("topic")
        if topics.null_count:
            raise UsageError("a row has the topic null, and there is no option topic")
        names = topics.unique().to_pylist()
        for name in names:
            yield name, rows if len(names) == 1 else rows.filter(pc.equal(topics, name))

    def _numbers(self, topic: str, rows: pa.Table) -> np.ndarray[Any, Any]:
        """Return the partition of each row."""
        count = self.partitions(topic)
        keys = _bytes(rows, PARTITION_KEY if PARTITION_KEY in rows.column_names else "key")
        if "partition" not in rows.column_names:
            return _by_keys(keys, count)
        given = _whole(rows.column("partition"))
        numbers: np.ndarray[Any, Any] = given.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        if given.null_count:
            without = given.is_null()
            numbers[without.to_numpy(zero_copy_only=False)] = _by_keys(keys.filter(without), count)
        wrong = numbers[(numbers < 0) | (numbers >= count)].tolist()
        if wrong:
            told = f"a row is for partition {wrong[0]} of {topic!r}, which has {count}"
            more = f": kcli topics alter {topic} --partitions {max(wrong) + 1} adds what is missing"
            raise UsageError(told + (more if min(wrong) >= 0 else ""))
        return numbers

    def _batches(self, partition: TopicPartition, rows: pa.Table, now_ms: int) -> Iterator[bytes]:
        count = rows.num_rows
        attributes = CODECS.index(self.codec)
        numbers = {
            "offset": np.arange(count),
            "timestamp": (
                _whole(rows.column(TIMESTAMP_MS)).to_numpy()
                if TIMESTAMP_MS in rows.column_names
                else np.full(count, now_ms)
            ),
            "batch_id": np.zeros(count, np.int64),
            "base_timestamp": np.full(count, BUILD_UNKNOWN_TIMESTAMP),
        }
        if self.producer is not None:
            attributes |= TRANSACTIONAL
            first = self._sequences.get(partition, 0)
            self._sequences[partition] = first + count
            numbers["sequence"] = first + np.arange(count)
            numbers["producer_id"], numbers["producer_epoch"] = (np.full(count, each) for each in self.producer)
        numbers["attributes"] = np.full(count, attributes)
        columns: list[pa.Array] = []
        for name in BUILD_COLUMNS:
            if name in ("key", "value"):
                columns.append(_bytes(rows, name))
            elif name == "headers":
                columns.append(_headers(rows))
            else:
                columns.append(pa.array(numbers.get(name, np.full(count, -1)).astype(np.int64)))
        yield from self._build(partition, pa.RecordBatch.from_arrays(columns, schema=BUILD_SCHEMA))

    def _build(self, partition: TopicPartition, rows: pa.RecordBatch) -> Iterator[bytes]:
        builder = BatchBuilder(codec=CODECS.index(self.codec), batch_bytes=self.batch_bytes)
        builder.start(*rows.__arrow_c_array__())
        while (how := builder.run()) != BUILD_ROWS_DONE:
            if how == BUILD_FAULT:
                raise UsageError(f"a row for {partition} is no record: {BUILD_FAULTS[builder.fault]}")
            if how == BUILD_COMPRESS:
                _compress(builder)
            else:
                yield from _cut(bytes(builder.out))
                builder.out.clear()
        if builder.end():
            _compress(builder)
        yield from _cut(bytes(builder.out))


def _by_keys(keys: pa.Array, count: int) -> np.ndarray[Any, Any]:
    """Return the partition of each key. All null keys get the same partition, which is chosen at random."""
    _, offsets, data = keys.buffers()
    numbers = np.empty(len(keys), np.int64)
    if len(keys):
        starts = np.frombuffer(offsets, np.int64)[keys.offset : keys.offset + len(keys) + 1]
        key_partitions(starts, np.frombuffer(data or b"", np.uint8), count, numbers)
    if keys.null_count:
        numbers[keys.is_null().to_numpy(zero_copy_only=False)] = random.randrange(count)  # noqa: S311 (no secret)
    return numbers


def _compress(builder: BatchBuilder) -> None:
    with memoryview(builder.records) as records:
        builder.compressed(compress(builder.codec, records))


def _cut(data: bytes) -> Iterator[bytes]:
    """Split bytes in which batches follow each other; yield each batch with the base offset 0, as producers send it."""
    at = 0
    while at < len(data):
        size = LOG_OVERHEAD_BYTES + int.from_bytes(data[at + 8 : at + 12], "big")
        yield bytes(8) + data[at + 8 : at + size]
        at += size


def _bytes(rows: pa.Table, name: str) -> pa.Array:
    if name not in rows.column_names:
        return pa.nulls(rows.num_rows, pa.large_binary())
    return _whole(rows.column(name).cast(pa.large_binary()))


def _headers(rows: pa.Table) -> pa.Array:
    kind = BUILD_SCHEMA.field("headers").type
    if "headers" not in rows.column_names:
        return pa.nulls(rows.num_rows, kind)
    return _whole(rows.column("headers").cast(kind))


def _whole(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


def wanted(names: Sequence[str]) -> list[str]:
    """Return the names of the query's columns that the sink writes."""
    return [name for name in names if name in TYPES]
