"""The dead letter queue of a sink: a topic for the messages that could not be converted or transformed.

It is created with one partition and errors.deadletterqueue.topic.replication.factor, unless it is there, by the task's
admin client. Letters are sent by its producer before the offsets of their messages are committed. Source:
DeadLetterQueueReporter.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from kcli.client.log_appending import LogAppender
from kcli.connect.engine.clients import cluster_of, create_topic
from kcli.connect.engine.records import table_of
from kcli.connect.plugins import TaskStart
from kcli.connect.processing.failures import ErrorHandling, Message
from kcli.errors import UsageError
from kcli.pipelines.encoding import Encoder
from kcli.pipelines.sink import append


class DeadLetters:
    """Sends messages to a sink's dead letter queue."""

    def __init__(self, start: TaskStart, handling: ErrorHandling) -> None:
        self._start, self._handling = start, handling
        self._appender: LogAppender | None = None

    def send(self, messages: Sequence[Message]) -> None:
        """Send messages; return when they are in the log. Raises Refused, ErrorAnswer, NobodyAnswers, KcliError."""
        if not messages:
            return
        topic = self._handling.dead_letter_topic
        if self._appender is None:
            self._appender = LogAppender(cluster_of(self._start.producer).brokers())
            with suppress(UsageError):
                self._appender.partitions(topic)
            settings = {"partitions": "1", "replication.factor": str(self._handling.replication_factor)}
            create_topic(cluster_of(self._start.admin), topic, settings)
            self._appender.describe_patiently()
        codec = self._start.producer.get("compression.type", "none").strip().lower()
        append(table_of(messages), Encoder(self._appender.partitions, None, codec), self._appender, None)

    def close(self) -> None:
        """Close the connections."""
        if self._appender is not None:
            self._appender.__exit__()
