"""What happens to a record that cannot be read, processed or sent: the handler of that kind of error decides.

    deserialization  bytes of an input record that a serde of its source does not take
    processing       whatever a processor or a punctuation raises
    production       a key or value that a sink's serde does not take, or a record that the brokers refuse

A handler gets an ErrorContext and the error, and answers with a Response: the program fails, or goes on without the
record; either way it may send records to a topic for dead letters. A dead letter has the bytes of the input record that
was in process, its headers, and in further headers what went wrong:

    __streams.errors.exception   the name of the error's class        __streams.errors.topic      of the input record
    __streams.errors.message     its text                             __streams.errors.partition  in decimal
    __streams.errors.stacktrace  where it was raised                  __streams.errors.offset     in decimal

Source: DeserializationExceptionHandler, ProcessingExceptionHandler, ProductionExceptionHandler, ExceptionHandlerUtils
of Kafka Streams; KIP-1033, KIP-1034.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from kcli.streams.records import Headers, ProducerRecord, RecordMetadata

logger = logging.getLogger(__name__)

HEADER = "__streams.errors."


class ErrorContext(NamedTuple):
    """Where an error came up. node: the name of the node. timestamp: of the record that the node got, in milliseconds,
    with its headers. metadata: topic, partition and offset of the input record in process, with the bytes of its key
    and value; None in a punctuation."""

    node: str
    timestamp: int
    headers: Headers
    metadata: RecordMetadata | None
    source_raw_key: bytes | None = None
    source_raw_value: bytes | None = None


class Response(NamedTuple):
    """What a handler has decided. resumes: the program goes on without the record, else it fails. dead_letters: records
    to send."""

    resumes: bool
    dead_letters: tuple[ProducerRecord, ...] = ()


Handler = Callable[[ErrorContext, Exception], Response]


def log_and_fail(dead_letter_topic: str | None = None) -> Handler:
    """Return the handler that has the program fail. dead_letter_topic: None for no dead letters."""

    def handle(context: ErrorContext, error: Exception) -> Response:
        return Response(resumes=False, dead_letters=_dead_letters(dead_letter_topic, context, error))

    return handle


def log_and_continue(dead_letter_topic: str | None = None) -> Handler:
    """Return the handler that leaves the record out, with a warning. dead_letter_topic: None for no dead letters."""

    def handle(context: ErrorContext, error: Exception) -> Response:
        logger.warning("%s%s: the record is left out: %s", place(context.metadata), context.node, error)
        return Response(resumes=True, dead_letters=_dead_letters(dead_letter_topic, context, error))

    return handle


FAILS = log_and_fail()


@dataclass(frozen=True)
class ErrorHandlers:
    """The handlers of an application. global_processing: whether `processing` is asked for global stores too; else an
    error there has the program fail."""

    deserialization: Handler = FAILS
    processing: Handler = FAILS
    production: Handler = FAILS
    global_processing: bool = False


DEFAULT = ErrorHandlers()


def place(metadata: RecordMetadata | None) -> str:
    """Return the beginning of a message about an input record; nothing for None."""
    return "" if metadata is None else f"{metadata.topic}, partition {metadata.partition}, offset {metadata.offset}: "


def dead_letter(topic: str, context: ErrorContext, error: Exception) -> ProducerRecord:
    """Return the dead letter of a record."""
    source_topic, partition, offset = context.metadata or (None, -1, -1)
    about = {
        "exception": f"{type(error).__module__}.{type(error).__qualname__}",
        "message": str(error),
        "stacktrace": "".join(traceback.format_exception(error)),
        "topic": source_topic,
        "partition": str(partition),
        "offset": str(offset),
    }
    headers = tuple(
        (HEADER + name, None if text is None else text.encode(errors="backslashreplace"))
        for name, text in about.items()
    )
    key, value = context.source_raw_key, context.source_raw_value
    return ProducerRecord(topic, key, value, max(context.timestamp, 0), context.headers + headers, None, key)


def _dead_letters(topic: str | None, context: ErrorContext, error: Exception) -> tuple[ProducerRecord, ...]:
    return () if topic is None else (dead_letter(topic, context, error),)
