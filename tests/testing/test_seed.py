"""Seeds: their contents, the files that may have them, and the partitions of their keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import murmur2
from hypothesis import given
from hypothesis import strategies as st

from kcli.testing.seed import BadSeed, SeedRecord, SeedTopic, load, parse, partition_of

FULL = {
    "topics": {
        "orders": {
            "partitions": 3,
            "config": {"cleanup.policy": "compact", "preallocate": True},
            "records": [
                "plain",
                {"key": "k", "value": {"id": 1}, "partition": 2, "timestamp_ms": 5, "headers": {"trace": "abc"}},
                {"key": "gone", "partition": 1},
            ],
        }
    }
}
TOPIC = SeedTopic(
    "orders",
    3,
    {"cleanup.policy": "compact", "preallocate": "true"},
    (
        SeedRecord(None, b"plain", 0),
        SeedRecord(b"k", b'{"id":1}', 2, 5, {"trace": b"abc"}),
        SeedRecord(b"gone", None, 1),
    ),
)


@pytest.mark.parametrize(
    ("seed", "topics"),
    [
        (None, []),
        ({}, []),
        (["a", "b"], [SeedTopic("a"), SeedTopic("b")]),
        ({"a": None, "b": 2}, [SeedTopic("a"), SeedTopic("b", 2)]),
        (
            {"a": ["x", b"\xff", 7]},
            [SeedTopic("a", records=tuple(SeedRecord(None, v, 0) for v in (b"x", b"\xff", b"7")))],
        ),
        ({"topics": None}, []),
        (FULL, [TOPIC]),
    ],
)
def test_what_a_seed_may_say(seed: Any, topics: list[SeedTopic]) -> None:
    assert parse(seed) == topics


@pytest.mark.parametrize(
    ("seed", "reason"),
    [
        (7, "a seed is a mapping of topics, not 7"),
        ({1: None}, "a topic's name is a string, not 1"),
        ({"a": "x"}, "topic a: a mapping of config, partitions, records, a list of records or a count of partitions"),
        ({"a": {"partition": 3}}, "topic a: partition: it has config, partitions, records"),
        ({"a": 0}, "topic a: partitions is a count from 1 on, not 0"),
        ({"a": [{"valeu": 1}]}, "topic a, record 0: valeu: it has headers, key, partition, timestamp_ms, value"),
        ({"a": ["x", {"partition": 1}]}, "topic a, record 1: partition 1 of 1"),
        ({"a": [{"timestamp_ms": "now"}]}, "topic a, record 0: timestamp_ms is a whole number of 64 bits, not 'now'"),
        ({"a": [{"value": {1, 2}}]}, "{1, 2} is neither bytes nor text nor JSON: Object of type set is not JSON"),
    ],
)
def test_what_it_may_not_say(seed: Any, reason: str) -> None:
    with pytest.raises(BadSeed) as error:
        parse(seed)
    assert str(error.value).startswith(reason)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("seed.yaml", "topics:\n  a:\n    partitions: 2\n    records: [x, {key: k, value: null}]\n"),
        ("seed.json", '{"a": {"partitions": 2, "records": ["x", {"key": "k", "value": null}]}}'),
        ("seed.toml", '[a]\npartitions = 2\nrecords = ["x", {key = "k"}]\n'),
    ],
)
def test_files(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert parse(load(path)) == [SeedTopic("a", 2, {}, (SeedRecord(None, b"x", 0), SeedRecord(b"k", None, 0)))]


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("seed.yaml", "a: [", "while parsing"),
        ("seed.json", "{", "Expecting property name"),
        ("seed.toml", "=", "Invalid statement"),
        ("seed.txt", "", "a seed file is .yaml, .yml, .json or .toml"),
    ],
)
def test_bad_files(tmp_path: Path, name: str, text: str, reason: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(BadSeed, match=f"{name}: .*{reason}"):
        load(path)
    with pytest.raises(BadSeed, match="No such file"):
        load(tmp_path / "none.json")


@given(st.binary(max_size=40), st.integers(1, 50))
def test_a_key_goes_where_kafkas_clients_send_it(key: bytes, partitions: int) -> None:
    assert partition_of(key, partitions) == murmur2(key, partitions)
