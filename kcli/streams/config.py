"""The configuration of an application, by Kafka Streams' names.

    deserialization.exception.handler          LogAndFailExceptionHandler (the default), LogAndContinueExceptionHandler
    processing.exception.handler               LogAndFailProcessingExceptionHandler (the default),
                                               LogAndContinueProcessingExceptionHandler
    production.exception.handler               DefaultProductionExceptionHandler, which fails
    processing.exception.handler.global.enabled
                                               true or false (the default)
    errors.dead.letter.queue.topic.name        the topic to which these handlers send dead letters
    num.standby.replicas                       how many other instances keep the stores of a task up to date, too

A handler may also be a function of the program (see kcli.streams.topology.error_handlers); it sends its own dead
letters. Source: StreamsConfig of Kafka Streams.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kcli.streams.errors import TopologyError
from kcli.streams.topology.error_handlers import ErrorHandlers, Handler, log_and_continue, log_and_fail

PACKAGE = "org.apache.kafka.streams.errors."
DESERIALIZATION = "deserialization.exception.handler"
PROCESSING = "processing.exception.handler"
PRODUCTION = "production.exception.handler"
GLOBAL_PROCESSING = "processing.exception.handler.global.enabled"
DEAD_LETTER_TOPIC = "errors.dead.letter.queue.topic.name"
STANDBYS = "num.standby.replicas"

HANDLERS: dict[str, dict[str, Callable[[str | None], Handler]]] = {
    DESERIALIZATION: {
        "LogAndFailExceptionHandler": log_and_fail,
        "LogAndContinueExceptionHandler": log_and_continue,
    },
    PROCESSING: {
        "LogAndFailProcessingExceptionHandler": log_and_fail,
        "LogAndContinueProcessingExceptionHandler": log_and_continue,
    },
    PRODUCTION: {"DefaultProductionExceptionHandler": log_and_fail},
}
NAMES = (*HANDLERS, GLOBAL_PROCESSING, DEAD_LETTER_TOPIC, STANDBYS)


@dataclass(frozen=True)
class StreamsConfig:
    """The configuration of an application. dead_letter_topic: None for no dead letters. standbys: how many other
    instances keep the stores of a task up to date."""

    handlers: ErrorHandlers
    dead_letter_topic: str | None
    standbys: int


def streams_config(given: Mapping[str, Any] | None) -> StreamsConfig:
    """Return the configuration that is given by Kafka Streams' names, with defaults for the rest. Raises TopologyError
    for a name or a value that is unknown."""
    values = dict(given or {})
    for name in values:
        if name not in NAMES:
            raise TopologyError(f"{name} is no configuration of streams; those are {', '.join(NAMES)}")
    topic = values.get(DEAD_LETTER_TOPIC)
    handlers = ErrorHandlers(
        _handler(DESERIALIZATION, values, topic),
        _handler(PROCESSING, values, topic),
        _handler(PRODUCTION, values, topic),
        _flag(values, GLOBAL_PROCESSING),
    )
    standbys = str(values.get(STANDBYS, 0))
    if not standbys.isdecimal():
        raise TopologyError(f"{STANDBYS} is a number, not {standbys!r}")
    return StreamsConfig(handlers, topic, int(standbys))


def _handler(name: str, values: Mapping[str, Any], dead_letter_topic: str | None) -> Handler:
    known, value = HANDLERS[name], values.get(name)
    if value is None:
        return next(iter(known.values()))(dead_letter_topic)
    if callable(value):
        handler: Handler = value
        return handler
    found = known.get(str(value).removeprefix(PACKAGE))
    if found is None:
        raise TopologyError(f"{name} is a function or one of {', '.join(known)}, not {value!r}")
    return found(dead_letter_topic)


def _flag(values: Mapping[str, Any], name: str) -> bool:
    text = str(values.get(name, False)).lower()
    if text not in ("true", "false"):
        raise TopologyError(f"{name} is true or false, not {values[name]!r}")
    return text == "true"
