"""Serdes: the bytes of Kafka's, and back; None stays None."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.streams import (
    BYTES,
    DOUBLE,
    INTEGER,
    JSON,
    LONG,
    STRING,
    Serde,
    SerializationError,
    session_windowed,
    time_windowed,
)
from kcli.streams.records import Change
from kcli.streams.topology.operators.foreign_key import Response, response_serde, subscription_serde
from kcli.streams.topology.operators.table_aggregate import change_serde
from kcli.streams.windows import Window, Windowed

ALL: list[Serde[Any]] = [BYTES, STRING, INTEGER, LONG, DOUBLE, JSON]


@pytest.mark.parametrize(
    ("serde", "value", "data"),
    [
        (BYTES, b"\0\xff", "00ff"),
        (STRING, "aä", "61c3a4"),
        (INTEGER, -2, "fffffffe"),
        (LONG, 258, "0000000000000102"),
        (DOUBLE, 1.5, "3ff8000000000000"),
        (JSON, {"a": [1, None, "ä"]}, b'{"a":[1,null,"\xc3\xa4"]}'.hex()),
        (time_windowed(STRING, 10), Windowed("k", Window(5, 15)), "6b0000000000000005"),
        (session_windowed(STRING), Windowed("k", Window(5, 9)), "6b00000000000000090000000000000005"),
        (change_serde(STRING), Change("new", None), b"new\1".hex()),
        (change_serde(STRING), Change(None, "old"), b"old\0".hex()),
        (change_serde(STRING), Change("n" * 70, "old"), (b"\x8c\1" + b"n" * 70 + b"old\2").hex()),
    ],
)
def test_bytes_are_kafkas(serde: Serde[Any], value: Any, data: str) -> None:
    made = serde.to_bytes(value)
    assert made is not None
    assert made.hex() == data
    assert serde.from_bytes(made) == value


@pytest.mark.parametrize("serde", ALL, ids=lambda serde: serde.name)
def test_none_is_none(serde: Serde[Any]) -> None:
    assert serde.to_bytes(None) is None
    assert serde.from_bytes(None) is None


@pytest.mark.parametrize(
    ("serde", "value"),
    [(BYTES, 5), (STRING, 5), (INTEGER, "a"), (INTEGER, 1 << 31), (LONG, 1 << 63), (DOUBLE, "a"), (JSON, {1, 2})],
)
def test_values_that_a_serde_does_not_take(serde: Serde[Any], value: Any) -> None:
    with pytest.raises(SerializationError, match=f"is no {serde.name}"):
        serde.to_bytes(value)


@given(st.binary(max_size=40))
def test_any_bytes_are_a_value_or_an_error(data: bytes) -> None:
    more: list[Serde[Any]] = [time_windowed(LONG, 5), session_windowed(STRING), change_serde(STRING)]
    for serde in [*ALL, *more, subscription_serde(STRING), response_serde(LONG)]:
        with suppress(SerializationError):
            serde.from_bytes(data)


def test_a_response_without_a_hash() -> None:
    serde = response_serde(STRING)
    assert serde.from_bytes(serde.to_bytes(Response(None, "v"))) == Response(None, "v")
