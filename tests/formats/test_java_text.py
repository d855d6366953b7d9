"""Text as Java writes it, against what Java made of the same bytes: `java_text/cases.txt`, by JavaText.java there."""

import struct
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from formats.java_text import jackson, java_double, java_utf8

CASES = Path(__file__).parent / "java_text" / "cases.txt"


def test_what_java_made_of_the_same_bytes() -> None:
    compared: Counter[str] = Counter()
    for line in CASES.read_text(encoding="utf-8").splitlines():
        kind, given, *printed = line.split(" ")
        raw = bytes.fromhex(given)
        if kind == "utf8":
            assert java_utf8(raw).encode("utf-16-be").hex() == printed[0], given
        else:
            assert java_double(struct.unpack(">d", raw)[0]) == printed[0], given
        compared[kind] += 1
    print(f"compared with Java: {dict(compared)}")
    assert compared["utf8"] > 3000


def test_a_surrogate_is_one_replacement_character() -> None:
    assert java_utf8(b"\xed\xa0\x80|\xed\xa0|\xed") == "\ufffd|\ufffd|\ufffd"
    assert java_utf8(memoryview(b"\xc0\x80")) == "\ufffd\ufffd"


@pytest.mark.parametrize(
    ("node", "text"),
    [
        ({"a": 1, "b": [True, False, None]}, '{"a":1,"b":[true,false,null]}'),
        ({"quote": '"\\/'}, '{"quote":"\\"\\\\/"}'),
        (["\b\f\n\r\t\x00\x1f\x7f\u2028\u00e9"], '["\\b\\f\\n\\r\\t\\u0000\\u001F\x7f\u2028\u00e9"]'),
        (["\\u001f"], '["\\\\u001f"]'),
        (["\\\x1b"], '["\\\\\\u001B"]'),
        ([1.0, -0.5, 1e100], "[1.0,-0.5,1.0E100]"),
        ([float("nan"), float("inf")], '["NaN","Infinity"]'),
        ({}, "{}"),
        ([], "[]"),
    ],
)
def test_jackson(node: Any, text: str) -> None:
    assert jackson(node) == text
