"""A connector's records between Kafka and its task: transforms with predicates, converters, and failures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from kcli.connect.builtin import built_in
from kcli.connect.config.config_def import ConfigError
from kcli.connect.data.errors import DataError, RetriableError
from kcli.connect.data.records import Header, SinkRecord, SourceRecord
from kcli.connect.data.schema import STRING
from kcli.connect.processing.failures import ErrorHandling, Failure, Message, Stage, ToleranceExceeded, Waiting
from kcli.connect.processing.processor import Processor

STRINGS = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
NONE: Mapping[str, str] = {}
TIMEOUT, DELAY = "errors.retry.timeout", "errors.retry.delay.max.ms"
ROOM = "org.apache.kafka.connect.transforms"


class Stopped(Exception):
    """The task stops."""


class Time:
    """A clock that waits turn. stops_after: the wait that raises Stopped."""

    def __init__(self, stops_after: int | None = None) -> None:
        self.now = 1000
        self.waits: list[int] = []
        self._stops_after = stops_after

    @property
    def waiting(self) -> Waiting:
        return Waiting(lambda: self.now, self._wait, lambda below: below - 1)

    def _wait(self, millis: int) -> None:
        self.now += millis
        self.waits.append(millis)
        if len(self.waits) == self._stops_after:
            raise Stopped


def processor(more: Mapping[str, str] = NONE) -> Processor:
    return Processor({**STRINGS, **more}, built_in(), Time().waiting)


def failing(error: Callable[[], Exception], times: int) -> Callable[[], str]:
    left = [times]

    def operation() -> str:
        left[0] -= 1
        if left[0] >= 0:
            raise error()
        return "done"

    return operation


def run(
    operation: Callable[[], Any], time: Time, options: Mapping[str, str], stage: Stage = Stage.TRANSFORMATION
) -> Any:
    return ErrorHandling.of(options).run(operation, stage, "some.Class", time.waiting)


def test_a_sink_gets_what_the_transforms_make_of_a_message() -> None:
    made = processor(
        {
            "transforms": "mask, route",
            "transforms.mask.type": f"{ROOM}.MaskField$Value",
            "transforms.mask.fields": "secret",
            "transforms.route.type": f"{ROOM}.RegexRouter",
            "transforms.route.regex": "db-(.*)",
            "transforms.route.replacement": "$1",
        },
    ).to_sink(Message("db-t", b"k", b'{"secret":"x","id":1}', 2, 5, (("h", b"7"),), 9))
    assert isinstance(made, SinkRecord)
    assert (made.topic, made.key, made.value, made.offset) == ("t", "k", {"secret": "", "id": 1}, 9)
    assert made.original_topic == "db-t"
    assert [(each.key, each.value) for each in made.headers] == [("h", 7)]


def test_a_predicate_says_which_records_a_transform_is_for() -> None:
    options = {
        "transforms": "drop",
        "transforms.drop.type": f"{ROOM}.Filter",
        "transforms.drop.predicate": "dead",
        "predicates": "dead",
        "predicates.dead.type": f"{ROOM}.predicates.RecordIsTombstone",
    }
    assert processor(options).to_sink(Message("t", b"k", None, 0)) is None
    assert processor(options).to_sink(Message("t", b"k", b"1", 0)) is not None
    options["transforms.drop.negate"] = "true"
    assert processor(options).to_sink(Message("t", b"k", None, 0)) is not None
    assert processor(options).to_sink(Message("t", b"k", b"1", 0)) is None


def test_a_source_s_record_becomes_a_message() -> None:
    record = SourceRecord(topic="t", key=5, value={"a": 1.5}, timestamp=7, headers=(Header("h", "x", STRING),))
    assert processor().from_source(record) == Message("t", b"5", b'{"a":1.5}', None, 7, (("h", b"x"),))


def test_a_timestamp_before_1970_is_refused() -> None:
    with pytest.raises(Exception, match="Invalid record timestamp -2"):
        processor().from_source(SourceRecord(topic="t", value="x", timestamp=-2))
    made = processor().from_source(SourceRecord(topic="t", value="x", timestamp=-1))
    assert isinstance(made, Message)
    assert made.timestamp is None


def test_a_bad_message_ends_the_task_or_is_passed_over() -> None:
    bad = Message("t", b"k", b"{", 0, offset=3)
    with pytest.raises(ToleranceExceeded, match="Tolerance exceeded in error handler") as raised:
        processor().to_sink(bad)
    assert raised.value.failure.stage is Stage.VALUE_CONVERTER
    failure = processor({"errors.tolerance": "all"}).to_sink(bad)
    assert isinstance(failure, Failure)
    assert failure.java_class == "org.apache.kafka.connect.json.JsonConverter"
    assert str(failure.error).startswith("Converting byte[] to Kafka Connect data failed")


def test_a_transform_s_failure_is_told_with_its_class() -> None:
    options = {"transforms": "x", "transforms.x.type": f"{ROOM}.ValueToKey", "transforms.x.fields": "id"}
    failure = processor({"errors.tolerance": "all"} | options).to_sink(Message("t", None, b"5", 0))
    assert isinstance(failure, Failure)
    assert (failure.stage, failure.java_class) == (Stage.TRANSFORMATION, f"{ROOM}.ValueToKey")


def test_a_class_that_is_not_there_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match=r"Invalid value x\.Y for configuration transforms\.a\.type"):
        processor({"transforms": "a", "transforms.a.type": "x.Y"})
    with pytest.raises(ConfigError, match=r"Missing required configuration \"transforms\.a\.type\""):
        processor({"transforms": "a"})
    with pytest.raises(ConfigError, match=r"configuration value\.converter: Class x\.Y could not be found"):
        processor({"value.converter": "x.Y"})


def test_retriable_errors_are_tried_again_with_longer_waits() -> None:
    time = Time()
    assert run(failing(RetriableError, 4), time, {TIMEOUT: "100000"}) == "done"
    assert time.waits == [300, 600, 1200, 2400]
    time = Time()
    assert run(failing(RetriableError, 3), time, {TIMEOUT: "-1", DELAY: "500"}) == "done"
    assert time.waits == [300, 499, 499]


def test_the_last_wait_ends_with_the_timeout() -> None:
    time = Time()
    failure = run(failing(RetriableError, 99), time, {TIMEOUT: "1000"})
    assert time.waits == [300, 600, 100]
    assert isinstance(failure, Failure)
    assert failure.attempts == 4


def test_a_task_that_stops_tries_no_more() -> None:
    """The record is not passed over: nothing is returned for it."""
    time = Time(stops_after=2)
    with pytest.raises(Stopped):
        run(failing(RetriableError, 99), time, {"errors.tolerance": "all", TIMEOUT: "-1"})
    assert len(time.waits) == 2


def test_other_errors_are_not_tried_again() -> None:
    time = Time()
    tolerant = {"errors.tolerance": "ALL", TIMEOUT: "-1"}
    failure = run(failing(lambda: DataError("x"), 1), time, tolerant)
    assert isinstance(failure, Failure)
    assert not time.waits
    with pytest.raises(ToleranceExceeded, match="Unhandled exception in error handler"):
        run(failing(lambda: DataError("x"), 1), time, tolerant, Stage.TASK_PUT)
