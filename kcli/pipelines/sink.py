"""The sink of the data source `kafka-log`: rows of batch and streaming queries into topics.

    df.write                    at least once, as Spark's Kafka sink: a task that Spark repeats writes its rows again
    df.writeStream              exactly once, or with deliveryGuarantee=at_least_once as df.write

Exactly once: each task of a micro-batch writes its rows in one transaction, and the transaction commits the number of
the micro-batch (Spark's batchId) with them, as an offset of a group. Transactional id and group are those of the query
and the task: kcli-<query id>-<partition of the task>. A task first becomes the only producer of its transactional id:
InitProducerId fences the attempt before it, and aborts a transaction that it has left open. Then the task reads the
number that the group has committed. If that is the number of its own micro-batch, an earlier attempt has committed the
rows, and the task has nothing to write. So it does not matter where a driver, an executor or a broker dies: a
micro-batch that Spark runs again writes what is missing, and only that.

This is true only if a micro-batch that runs again has the same rows in the same tasks. Spark's sources and shuffles
guarantee that as long as the checkpoint and the number of tasks stay the same; a query with random numbers does not.
Consumers need isolation.level=read_committed; they see the rows of each task when its transaction commits, not those of
a micro-batch at once.

Source: KIP-98, KIP-447; KafkaStreamWriter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from kcli.client.log_appending import LogAppender
from kcli.client.producing_transaction import ProducingTransaction
from kcli.errors import KcliError, UsageError
from kcli.export.options import refuse_options
from kcli.pipelines.cluster import Cluster, number, refuse, split
from kcli.pipelines.encoding import CODECS, Encoder, check_columns, wanted
from kcli.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK_BYTES = 8 << 20
"""The approximate size, in bytes, of the rows that are encoded together."""
BATCH_BYTES_MIN = 4096
"""To this size batches are made smaller where a topic takes no larger ones."""
EXACTLY_ONCE, AT_LEAST_ONCE = "exactly_once", "at_least_once"
TRANSACTION_TIMEOUT_MS = 600_000
QUERY, EPOCH = "sql.streaming.queryId", "streaming.sql.batchId"
"""Spark's names of the local properties with the query's id and the micro-batch's number."""
_ACCEPTED: Final = frozenset(
    {
        "acks",
        "batch.size",
        "buffer.memory",
        "enable.idempotence",
        "linger.ms",
        "max.in.flight.requests.per.connection",
    }
)
_INSTEAD: Final = {
    "key.serializer": "keys are string or binary columns",
    "transactional.id": "a stream's transactional ids are made of the query's id",
    "value.serializer": "values are string or binary columns",
}
_OWN: Final = ("topic", "deliveryGuarantee", "checkpointLocation", "queryName")
_OF_SPARK: Final = ("checkpointlocation", "queryname", "includeheaders")


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options of a sink. topic: the topic of all rows; None if the column `topic` names it. codec: of the batches,
    kafka.compression.type. is_exactly_once: whether each task of a stream writes in a transaction, which the
    coordinator aborts after transaction_timeout_ms."""

    cluster: Cluster
    topic: str | None
    codec: str
    is_exactly_once: bool
    transaction_timeout_ms: int

    @staticmethod
    def parse(options: Mapping[str, str], *, stream: bool) -> SinkOptions:
        """Return the options of a sink from Spark's option strings by name. Raises UsageError."""
        settings, others = split({name.lower(): text for name, text in options.items()})
        cluster = Cluster.taken(settings)
        codec = settings.pop("compression.type", "none").lower()
        if codec not in CODECS:
            raise UsageError(f"kafka.compression.type={codec!r}: not one of {', '.join(CODECS)}")
        if settings.get("acks", "all") not in ("all", "-1"):
            raise UsageError("kafka.acks: only all is honoured: a record is written when no failover loses it")
        timeout_ms = number(settings, "transaction.timeout.ms", TRANSACTION_TIMEOUT_MS)
        refuse(settings, _ACCEPTED, _INSTEAD)
        guarantee = others.pop("deliveryguarantee", EXACTLY_ONCE if stream else AT_LEAST_ONCE).lower()
        if guarantee not in (EXACTLY_ONCE, AT_LEAST_ONCE):
            raise UsageError(f"deliveryGuarantee={guarantee!r}: not one of {EXACTLY_ONCE}, {AT_LEAST_ONCE}")
        if guarantee == EXACTLY_ONCE and not stream:
            raise UsageError(
                "deliveryGuarantee=exactly_once: only of a stream, whose checkpoint numbers what it writes"
            )
        topic = others.pop("topic", None)
        unknown = [name for name in others if name not in _OF_SPARK and not name.startswith("__")]
        refuse_options("kafka-log's sink", unknown, _OWN)
        return SinkOptions(cluster, topic, codec, guarantee == EXACTLY_ONCE, timeout_ms)


class _Sink:
    """The base of both writers, which Spark pickles and calls in tasks."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_columns({each.name: each.dataType.simpleString() for each in schema.fields}, options.topic)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task. Raises UsageError, ErrorAnswer, NobodyAnswers, KcliError."""
        chunks = _chunks(iterator)
        first = next(chunks, None)
        if first is not None:
            if self._options.is_exactly_once:
                self._in_transaction(first, chunks)
            else:
                with LogAppender(self._options.cluster.brokers()) as appender:
                    self._append(appender, None, first, chunks)
        return WriterCommitMessage()

    def _append(
        self, appender: LogAppender, transaction: ProducingTransaction | None, first: pa.Table, rest: Iterator[pa.Table]
    ) -> TopicPartition:
        """Write the rows; return a partition to which some of them were written."""
        producer = None if transaction is None else (transaction.producer_id, transaction.producer_epoch)
        encoder = Encoder(appender.partitions, self._options.topic, self._options.codec, producer)
        written: TopicPartition | None = None
        chunk: pa.Table | None = first
        while chunk is not None:
            ends = append(chunk, encoder, appender, transaction)
            written = written or min(ends)
            chunk = next(rest, None)
        assert written is not None, "a chunk has rows"
        return written

    def _in_transaction(self, first: pa.Table, rest: Iterator[pa.Table]) -> None:
        query, epoch, task = _place()
        name = f"kcli-{query}-{task}"
        brokers = self._options.cluster.brokers()
        transaction = ProducingTransaction(brokers, name, name, self._options.transaction_timeout_ms)
        transaction.begin()
        committed = max((offset for offset, _ in transaction.committed().values()), default=None)
        if committed is not None and committed > epoch:
            raise KcliError(f"the topics have batch {committed:,} of this query, whose checkpoint is at {epoch:,}")
        if committed == epoch:
            for _ in rest:
                pass
            return
        try:
            with LogAppender(brokers, name) as appender:
                written = self._append(appender, transaction, first, rest)
        except BaseException:
            with suppress(KcliError):  # if the abort fails, the next attempt or the timeout aborts the transaction
                transaction.abort()
            raise
        transaction.commit({TopicPartition(written.topic, 0): (epoch, "")})


def append(
    rows: pa.Table,
    encoder: Encoder,
    appender: LogAppender,
    transaction: ProducingTransaction | None,
    written: Callable[[TopicPartition, bytes, int], None] | None = None,
) -> dict[TopicPartition, int]:
    """Append rows, as a part of a transaction. Return, of each partition, the base offset of its last batch, -1 if it
    was there already. written: called with each batch and its base offset; that of its last part, if it was cut. Raises
    UsageError, ErrorAnswer, NobodyAnswers, KcliError."""
    batches = encoder.encode(rows)
    if transaction is not None:
        transaction.add(batches)
    found: dict[TopicPartition, int] = {}
    for i in range(max(map(len, batches.values()))):
        sent = {each: made[i] for each, made in batches.items() if i < len(made)}
        found |= appender.append(sent)
        if written is not None:
            for each, batch in sent.items():
                written(each, batch, found[each])
    if appender.refused_bytes is not None:
        encoder.batch_bytes = min(encoder.batch_bytes, max(BATCH_BYTES_MIN, appender.refused_bytes // 2))
    return found


class BatchSink(_Sink, DataSourceArrowWriter):
    """Writes the rows of a batch query."""


class StreamSink(_Sink, DataSourceStreamArrowWriter):
    """Writes the rows of a streaming query."""


def _place() -> tuple[str, int, int]:
    """Return the id of the query, the number of the micro-batch, and the partition of the task. Raises KcliError if the
    task's properties lack them."""
    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty(QUERY)
    epoch = None if context is None else context.getLocalProperty(EPOCH)
    if context is None or query is None or epoch is None:
        raise KcliError(
            "Spark does not tell a task its query and micro-batch: deliveryGuarantee=at_least_once does without"
        )
    return query, int(epoch), context.partitionId()


def _chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the rows in tables of some MB, with the columns that are written."""
    import pyarrow as pa

    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            held.append(batch.select(wanted(batch.schema.names)))
            size += held[-1].nbytes
        if size >= CHUNK_BYTES:
            yield pa.Table.from_batches(held)
            held, size = [], 0
    if held:
        yield pa.Table.from_batches(held)
