"""Error answers: a valid response of every version of every API, with the error where Kafka tells it."""

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools
import uuid
from collections.abc import Iterator
from enum import IntEnum
from typing import Any

import pytest
from kio.schema.index import api_key_map, schema_name_map

from kcli.broker.wire.messages import EPOCH, entity_reader, messages
from kcli.protocol.error_code import ErrorCode
from kcli.testing.answers import error_answer, error_code
from kcli.testing.wire import hints, item_of, message, plain, without_none

ERROR = ErrorCode.NOT_LEADER_OR_FOLLOWER
TOPIC_ID = uuid.UUID(int=7)
VERSIONS = [(key, version) for key, name in api_key_map.items() for version in schema_name_map[name]]


def sample(cls: Any, count: Iterator[int]) -> Any:
    """A request with two of each array's items, and no two values the same."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        hint = hints(cls)[field.name]
        kind, item, inner = field.metadata.get("kafka_type", ""), item_of(hint), without_none(hint)
        if item is not None:
            values[field.name] = tuple(
                sample(item, count) if dataclasses.is_dataclass(item) else scalar(kind, count) for _ in range(2)
            )
        else:
            values[field.name] = sample(inner, count) if dataclasses.is_dataclass(inner) else scalar(kind, count)
    return cls(**values)


def scalar(kind: str, count: Iterator[int]) -> Any:
    """A value of a type of Kafka's."""
    number = next(count) % 100
    values = {"string": f"s{number}", "bytes": b"x", "records": b"x", "uuid": uuid.UUID(int=number + 1)}
    values |= {"bool": False, "float64": 1.0, "error_code": ErrorCode.NONE}
    if kind.startswith("timedelta"):
        return dt.timedelta(milliseconds=number)
    return EPOCH if kind.startswith("datetime") else values.get(kind, number)


def codes(value: Any) -> Iterator[IntEnum]:
    """All error codes in a response."""
    if isinstance(value, IntEnum):  # kio has its own type
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from codes(each)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from codes(getattr(value, field.name))


@pytest.mark.parametrize("key", sorted(api_key_map))
def test_every_version_has_a_valid_answer_with_the_error(key: int) -> None:
    for version in schema_name_map[api_key_map[key]]:
        kind = messages(key, version)
        request = sample(kind.request_type, itertools.count(1))
        answer = error_answer(kind, api_key_map[key], request, ERROR)
        frame = kind.encode(7, answer)
        begin = 8 + kind.header_is_flexible
        read, size = entity_reader(kind.response_type)(frame, begin)
        assert (read, begin + size) == (answer, len(frame))
        if (key, version) not in {(35, 1), (35, 2)}:  # DescribeLogDirs has no error before version 3 but of directories
            assert ERROR in codes(answer), f"{api_key_map[key]} {version} tells no error"


def answer_to(key: int, version: int, **fields: Any) -> Any:
    """The plain answer to a request."""
    kind = messages(key, version)
    return plain(error_answer(kind, api_key_map[key], message(kind.request_type, fields), ERROR))


def test_produce_tells_each_partition() -> None:
    answer = answer_to(
        0,
        9,
        acks=-1,
        timeout=1,
        topic_data=[
            {"name": "a", "partition_data": [{"index": 0, "records": b""}, {"index": 2, "records": b""}]},
            {"name": "b", "partition_data": [{"index": 1, "records": b""}]},
        ],
    )
    told = [
        (topic["name"], each["index"], each["error_code"], each["base_offset"], each["log_start_offset"])
        for topic in answer["responses"]
        for each in topic["partition_responses"]
    ]
    assert told == [("a", 0, 6, -1, -1), ("a", 2, 6, -1, -1), ("b", 1, 6, -1, -1)]


def test_fetch_tells_each_partition_but_no_forgotten_one() -> None:
    asked = {"partition": 3, "fetch_offset": 0, "partition_max_bytes": 1}
    answer = answer_to(
        1,
        12,
        max_wait=1,
        min_bytes=1,
        topics=[{"topic": "a", "partitions": [asked]}],
        forgotten_topics_data=[{"topic": "b", "partitions": [0]}],
    )
    assert (answer["error_code"], answer["session_id"]) == (0, 0)
    assert [each["topic"] for each in answer["responses"]] == ["a"]
    told = answer["responses"][0]["partitions"][0]
    assert (told["partition_index"], told["error_code"], told["high_watermark"], told["records"]) == (3, ERROR, -1, "")


@pytest.mark.parametrize(
    ("key", "version", "fields", "path", "expected"),
    [
        (3, 12, {"topics": [{"name": "a", "topic_id": None}]}, "topics", [{"name": "a", "error_code": ERROR}]),
        (10, 4, {"key_type": 0, "coordinator_keys": ["g"]}, "coordinators", [{"key": "g", "node_id": -1, "port": -1}]),
        (15, 5, {"groups": ["g", "h"]}, "groups", [{"group_id": "g", "error_code": ERROR}, {"group_id": "h"}]),
        (42, 2, {"groups_names": ["g"]}, "results", [{"group_id": "g", "error_code": ERROR}]),
        (9, 8, {"groups": [{"group_id": "g", "topics": None}]}, "groups", [{"group_id": "g", "error_code": ERROR}]),
        (20, 6, {"topics": [{"name": "a", "topic_id": None}], "timeout": 1}, "responses", [{"name": "a"}]),
        (
            32,
            4,
            {"resources": [{"resource_type": 2, "resource_name": "a", "configuration_keys": None}]},
            "results",
            [{"resource_type": 2, "resource_name": "a", "error_code": ERROR, "configs": []}],
        ),
    ],
)
def test_an_item_is_known_by_what_the_request_calls_it(
    key: int, version: int, fields: dict[str, Any], path: str, expected: list[dict[str, Any]]
) -> None:
    told = answer_to(key, version, **fields)[path]
    assert len(told) == len(expected)
    for each, wanted in zip(told, expected, strict=True):
        assert wanted.items() <= each.items()


def test_leaving_a_group_fails_at_the_top() -> None:
    answer = answer_to(13, 4, group_id="g", members=[{"member_id": "m"}])
    assert (answer["error_code"], answer["members"]) == (6, [])


def test_errors_go_by_kafkas_names() -> None:
    assert error_code("NOT_LEADER_OR_FOLLOWER") is ERROR
    with pytest.raises(ValueError, match="NOT_A_LEADER: no error of Kafka"):
        error_code("NOT_A_LEADER")
