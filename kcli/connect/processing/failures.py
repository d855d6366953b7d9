"""What becomes of a record that cannot be converted or transformed: the options errors.*.

    errors.tolerance          none: the task fails; all: the record is passed over
    errors.retry.timeout      how long, in milliseconds, RetriableErrors are tried again; -1 for ever
    errors.log.enable         a line in the log; errors.log.include.messages: with the record's place
    errors.deadletterqueue.*  a sink's record is sent to a topic, with headers that say what happened

The waits between two tries double from RETRY_DELAY_MS up to errors.retry.delay.max.ms, then they are random.

Source: KIP-298; RetryWithToleranceOperator, DeadLetterQueueReporter and LogReporter of Kafka's connect-runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple, Self

from kcli.connect.config.common import DLQ_TOPIC
from kcli.connect.config.config_def import ConfigDef, ConfigKey, Importance, Type, Value
from kcli.connect.data.errors import ConnectError, RetriableError, class_of
from kcli.connect.data.records import SourceRecord

RETRY_DELAY_MS: Final = 300
HEADER_PREFIX: Final = "__connect.errors."
_OPTIONS: Final = ConfigDef(
    *(
        ConfigKey(name, kind, default, Importance.MEDIUM, "")
        for name, kind, default in (
            ("errors.tolerance", Type.STRING, "none"),
            ("errors.retry.timeout", Type.LONG, "0"),
            ("errors.retry.delay.max.ms", Type.LONG, "60000"),
            ("errors.log.enable", Type.BOOLEAN, "false"),
            ("errors.log.include.messages", Type.BOOLEAN, "false"),
            (DLQ_TOPIC, Type.STRING, ""),
            ("errors.deadletterqueue.topic.replication.factor", Type.SHORT, "3"),
            ("errors.deadletterqueue.context.headers.enable", Type.BOOLEAN, "false"),
        )
    )
)
"""The options as the common ones state them for connectors; their texts and checks are there."""


class Stage(Enum):
    """Where a record was."""

    TASK_POLL = "TASK_POLL"
    TASK_PUT = "TASK_PUT"
    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    KAFKA_PRODUCE = "KAFKA_PRODUCE"
    KAFKA_CONSUME = "KAFKA_CONSUME"


TOLERABLE: Final = frozenset({Stage.TRANSFORMATION, Stage.KEY_CONVERTER, Stage.VALUE_CONVERTER, Stage.HEADER_CONVERTER})
"""The stages at which every exception may be tolerated; at the others only a RetriableError."""


class Message(NamedTuple):
    """A record as Kafka has it. partition: None lets the producer choose. timestamp: milliseconds; None if there is
    none. offset, timestamp_type: of one that was read."""

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int | None = None
    timestamp: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    offset: int = 0
    timestamp_type: str = "CreateTime"


class Failure(NamedTuple):
    """Why a record failed. java_class: of the converter or transform. attempts: how often it was tried."""

    stage: Stage
    java_class: str
    error: Exception
    attempts: int = 1


class ToleranceExceeded(ConnectError):
    """A failure that is not tolerated: the task fails. failure: which; it is reported nevertheless."""

    def __init__(self, failure: Failure, reason: str = "Tolerance exceeded in error handler") -> None:
        super().__init__(reason)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class ErrorHandling:
    """The options of a connector."""

    tolerates_all: bool
    retry_timeout_ms: int
    retry_delay_max_ms: int
    logs: bool
    logs_records: bool
    dead_letter_topic: str
    replication_factor: int
    with_headers: bool

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Self:
        """Return the options of a configuration. Raises ConfigError."""
        return cls(*_typed(_OPTIONS.parse({name: text for name, text in properties.items() if name in _OPTIONS.keys})))

    def run(self, operation: Callable[[], Any], stage: Stage, java_class: str, waiting: Waiting) -> Any:
        """Return what an operation returns, or a Failure. Raises ToleranceExceeded, and what `waiting` raises."""
        attempts = 0
        deadline = waiting.now_ms() + self.retry_timeout_ms if self.retry_timeout_ms >= 0 else None
        while True:
            attempts += 1
            try:
                return operation()
            except RetriableError as error:
                now = waiting.now_ms()
                if deadline is not None and now >= deadline:
                    return Failure(stage, java_class, error, attempts)
                waiting.wait_ms(self._delay_ms(attempts, now, deadline, waiting))
            except Exception as error:
                failure = Failure(stage, java_class, error, attempts)
                if stage not in TOLERABLE:
                    raise ToleranceExceeded(failure, "Unhandled exception in error handler") from error
                if not self.tolerates_all:
                    raise ToleranceExceeded(failure) from error
                return failure

    def _delay_ms(self, attempts: int, now: int, deadline: int | None, waiting: Waiting) -> int:
        delay = RETRY_DELAY_MS << min(attempts - 1, 32)
        if delay > self.retry_delay_max_ms:
            delay = waiting.random_below(self.retry_delay_max_ms)
        return delay if deadline is None else max(0, min(delay, deadline - now))


class Waiting(NamedTuple):
    """The time, as the engine has it. wait_ms: waits, or raises an error that ends the turn. random_below: an integer
    from 0."""

    now_ms: Callable[[], int]
    wait_ms: Callable[[int], None]
    random_below: Callable[[int], int]


def _typed(options: Mapping[str, Value]) -> tuple[Any, ...]:
    tolerance, *rest = options.values()
    return (str(tolerance).lower() == "all", *rest)


def log_line(task: str, failure: Failure, record: Message | SourceRecord | None = None) -> str:
    """Return the line of a failure for the log. task: its id, `name-0`. record: with errors.log.include.messages, the
    message that a sink has read, or the record of a source."""
    what = ""
    if isinstance(record, Message):
        stamp = (
            "" if record.timestamp is None else f", timestamp={record.timestamp}, timestampType={record.timestamp_type}"
        )
        what = (
            f", where consumed record is {{topic='{record.topic}', partition={record.partition}, "
            f"offset={record.offset}{stamp}}}"
        )
    elif record is not None:
        what = f", where source record is = {record}"
    where = f"Executing stage '{failure.stage.name}' with class '{failure.java_class}'{what}."
    return f"Error encountered in task {task}. {where}"


def dead_letter(handling: ErrorHandling, connector: str, task: int, message: Message, failure: Failure) -> Message:
    """Return what is sent to the dead letter queue for a message that a sink's task could not convert or transform."""
    headers = message.headers
    if handling.with_headers:
        headers += error_headers(connector, task, message, failure)
    return Message(handling.dead_letter_topic, message.key, message.value, None, message.timestamp, headers)


def error_headers(
    connector: str, task: int, message: Message, failure: Failure
) -> tuple[tuple[str, bytes | None], ...]:
    """Return the headers that say what happened to a message."""
    text = str(failure.error)
    told = {
        "topic": message.topic,
        "partition": str(message.partition),
        "offset": str(message.offset),
        "connector.name": connector,
        "task.id": str(task),
        "stage": failure.stage.name,
        "class.name": failure.java_class,
        "exception.class.name": class_of(failure.error),
        "exception.message": text or None,
        "exception.stacktrace": stack_trace(failure.error),
    }
    return tuple((HEADER_PREFIX + name, None if each is None else each.encode()) for name, each in told.items())


def stack_trace(error: BaseException) -> str:
    """Return what Java prints of an exception and its causes, without the places in Java's code."""
    lines: list[str] = []
    cause: BaseException | None = error
    while cause is not None:
        text = str(cause)
        lines.append(f"{'Caused by: ' if lines else ''}{class_of(cause)}{text and f': {text}'}\n")
        cause = cause.__cause__
    return "".join(lines)
