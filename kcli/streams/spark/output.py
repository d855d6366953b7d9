"""The records that a task sends, as batches of its transaction: columns of Arrow, of which a kernel makes batches."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from kcli.client.log_appending import LogAppender
from kcli.client.producing_transaction import ProducingTransaction
from kcli.pipelines.encoding import PARTITION_KEY, TIMESTAMP_MS, Encoder
from kcli.pipelines.sink import append
from kcli.protocol.topic_partition import TopicPartition
from kcli.streams.records import Headers, ProducerRecord

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class Output:
    """Sends records in a transaction that has begun. ends: of each partition, the first offset of the last batch."""

    def __init__(self, transaction: ProducingTransaction, appender: LogAppender) -> None:
        self._transaction, self._appender = transaction, appender
        producer = transaction.producer_id, transaction.producer_epoch
        self._encoder = Encoder(appender.partitions, producer=producer)
        self.ends: dict[TopicPartition, int] = {}

    def send(self, records: Sequence[ProducerRecord]) -> None:
        """Send records; return when they are in the logs. Raises UsageError, ErrorAnswer, NobodyAnswers, KcliError."""
        if not records:
            return
        self.ends |= append(_table(records), self._encoder, self._appender, self._transaction)


def _table(records: Sequence[ProducerRecord]) -> pa.Table:
    topics, keys, values, timestamps, headers, partitions, hashed = zip(*records, strict=True)
    columns = {
        "topic": pa.array(topics, pa.string()),
        "key": pa.array(keys, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "partition": pa.array(partitions, pa.int32()),
        PARTITION_KEY: pa.array(hashed, pa.binary()),
        TIMESTAMP_MS: pa.array(timestamps, pa.int64()),
    }
    if any(headers):
        columns["headers"] = pa.array(map(_shown, headers), HEADERS)
    return pa.table(columns)


def _shown(headers: Headers) -> list[dict[str, object]] | None:
    return [{"key": name, "value": value} for name, value in headers] or None
