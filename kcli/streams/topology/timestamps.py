"""Timestamp extractors: the timestamp in milliseconds that a topology uses for an input record.

An extractor gets the record and the highest timestamp of its partition so far (-1 before the first). The topology
skips a record for which it returns a negative one. Source: TimestampExtractor and its classes in Kafka Streams.
"""

from __future__ import annotations

from collections.abc import Callable

from kcli.streams.errors import ProcessingError
from kcli.streams.records import ConsumerRecord

TimestampExtractor = Callable[[ConsumerRecord, int], int]


def fail_on_invalid_timestamp(record: ConsumerRecord, partition_time_ms: int) -> int:  # noqa: ARG001
    """Return the record's timestamp. Raises ProcessingError if it is negative."""
    if record.timestamp < 0:
        place = f"{record.topic}, partition {record.partition}, offset {record.offset}"
        raise ProcessingError(
            f"{place}: the record's timestamp is {record.timestamp}; another timestamp extractor can skip it"
        )
    return record.timestamp


def skip_on_invalid_timestamp(record: ConsumerRecord, partition_time_ms: int) -> int:  # noqa: ARG001
    """Return the record's timestamp, so that records with a negative one are skipped."""
    return record.timestamp


def use_partition_time_on_invalid_timestamp(record: ConsumerRecord, partition_time_ms: int) -> int:
    """Return the record's timestamp, or for a negative one that of the partition. Raises ProcessingError if the
    partition has none yet."""
    if record.timestamp < 0 and partition_time_ms < 0:
        place = f"{record.topic}, partition {record.partition}, offset {record.offset}"
        raise ProcessingError(f"{place}: the record's timestamp is {record.timestamp}, and there is none before it")
    return record.timestamp if record.timestamp >= 0 else partition_time_ms
