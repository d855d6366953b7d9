"""What a source task sends: records and their offsets, in one transaction or, without a transactional id, one after the
other.

With exactly-once support the engine becomes the only producer of a task's transactional id, GROUP-CONNECTOR-N, before
its first turn, and looks whether the task is still to run. A turn begins with the producer id and epoch of before, and
fails if another instance has come meanwhile; then it reads the offsets: what an earlier instance has committed is in
them, and it commits no more (KIP-618).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

import pyarrow as pa

from kcli.client.log_appending import LogAppender
from kcli.client.producing_transaction import ProducingTransaction
from kcli.connect.config.config_def import words
from kcli.connect.data.errors import ConnectError, JavaError
from kcli.connect.engine.clients import cluster_of, create_topic, transaction_timeout_ms
from kcli.connect.engine.tasks import Written
from kcli.connect.plugins import Offset, Partition, TaskStart
from kcli.connect.topics.offsets import records_of
from kcli.errors import KcliError, UsageError
from kcli.java.regex import JavaRegex
from kcli.metadata import topic_names
from kcli.pipelines.cluster import Cluster
from kcli.pipelines.encoding import CODECS, Encoder
from kcli.pipelines.sink import append
from kcli.protocol.topic_partition import TopicPartition

INHERITED = ("partitions", "replication.factor")
INVALID_TOPIC = "org.apache.kafka.common.errors.InvalidTopicException"
LAST_OFFSET_DELTA = slice(23, 27)
"""Where a batch has the offset of its last record, less the base offset."""


class Sending:
    """The producer of a source task, for one turn. cluster: of the task's producer."""

    def __init__(self, cluster: Cluster, start: TaskStart) -> None:
        properties = start.producer
        self._admin, self._creates_topics = cluster_of(start.admin), start.limits.creates_topics
        self._id = properties.get("transactional.id")
        self._codec = properties.get("compression.type", "none").strip().lower()
        if self._codec not in CODECS:
            raise UsageError(f"compression.type={self._codec!r}: not one of {', '.join(CODECS)}")
        brokers = cluster.brokers()
        self._appender = LogAppender(brokers, self._id)
        self._transaction = (
            None
            if self._id is None
            else ProducingTransaction(brokers, self._id, "", transaction_timeout_ms(properties))
        )
        self._config = start.connector
        self._encoder: Encoder | None = None
        self._written: dict[TopicPartition, list[Written]] = {}

    @property
    def has_transactions(self) -> bool:
        """Whether offsets are committed in the transactions of their records."""
        return self._transaction is not None

    def begin(self, known: tuple[int, int] | None) -> tuple[int, int] | None:
        """Become the producer of the transactional id, if there is one; return producer id and epoch. known: those of
        the turn before. Raises ErrorAnswer, NobodyAnswers, KcliError."""
        producer = None
        if self._transaction is not None:
            self._transaction.begin(known)
            producer = self._transaction.producer_id, self._transaction.producer_epoch
        self._encoder = Encoder(self._partitions, None, self._codec, producer)
        return producer

    def send(self, tables: Iterable[pa.Table]) -> None:
        """Append records. tables: with the columns of kcli.pipelines.encoding, topic among them. Raises UsageError,
        ErrorAnswer, NobodyAnswers, KcliError."""
        assert self._encoder is not None, "begin comes first"
        for table in tables:
            if table.num_rows:
                append(table, self._encoder, self._appender, self._transaction, self._note)

    def commit(self, connector: str, topic: str | None, offsets: Mapping[str, tuple[Partition, Offset]]) -> None:
        """Commit what was sent, with the offsets in their topic if there is a transaction. Raises as `send`."""
        if self._transaction is None:
            return
        if topic is not None and offsets:
            keys, values = zip(*records_of(connector, offsets.values()), strict=True)
            self.send([pa.table({"topic": [topic] * len(keys), "key": keys, "value": values})])
        self._transaction.commit({})

    def written(self) -> dict[TopicPartition, list[Written]]:
        """Return where the records are that were sent since the last call, in their order."""
        found, self._written = self._written, {}
        return found

    def abort(self) -> None:
        """Abort what was sent since the last commit."""
        if self._transaction is not None:
            with suppress(KcliError):  # the next turn or the timeout aborts it
                self._transaction.abort()

    def close(self) -> None:
        """Close the connections."""
        self._appender.__exit__()

    def _note(self, place: TopicPartition, batch: bytes, base: int) -> None:
        refused = self._appender.refused_bytes
        is_known = base >= 0 and (refused is None or len(batch) < refused)
        count = int.from_bytes(batch[LAST_OFFSET_DELTA], "big") + 1
        self._written.setdefault(place, []).append(Written(base if is_known else None, count))

    def _partitions(self, topic: str) -> int:
        """Return the number of partitions of a topic, which is created if it is not there and may be. Raises
        ConnectError for a name that no topic has, as a transform may make one."""
        if topic_names.fault(topic):
            cause = JavaError(INVALID_TOPIC, f"Invalid topics: [{topic}]")
            raise ConnectError("Unrecoverable exception from producer send callback") from cause
        try:
            return self._appender.partitions(topic)
        except UsageError:
            if not self._creates_topics:
                raise
            create_topic(self._admin, topic, creation_settings(self._config, topic))
            self._appender.describe_patiently()
            return self._appender.partitions(topic)


def creation_settings(config: Mapping[str, str], topic: str) -> dict[str, str]:
    """Return the settings with which a connector's configuration has a topic created (KIP-158): those of the first
    group that takes it, with partitions and replicas of the group `default` where it has none, and else those of
    `default`."""
    groups = words(config.get("topic.creation.groups", ""))
    default = _settings_of("default", config)
    for group in groups:
        found = _settings_of(group, config)
        include, exclude = found.pop("include", ""), found.pop("exclude", "")
        if _takes(include, topic) and not _takes(exclude, topic):
            return {name: default[name] for name in INHERITED if name in default} | found
    return {name: text for name, text in default.items() if name not in ("include", "exclude")}


def _settings_of(group: str, config: Mapping[str, str]) -> dict[str, str]:
    prefix = f"topic.creation.{group}."
    return {name.removeprefix(prefix): text for name, text in config.items() if name.startswith(prefix)}


def _takes(patterns: str, topic: str) -> bool:
    return any(JavaRegex(each).matches(topic) for each in words(patterns))
