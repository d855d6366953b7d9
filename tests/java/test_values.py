"""Numbers, lists and patterns of configurations: read as Java reads them, in time linear in what a client sends.

values.jsonl is what Java 17 says of each text: Double.parseDouble, Integer.parseInt and Long.parseLong of the
trimmed text ("-" where they refuse it), String.split("\\s*,\\s*", -1) and String.split(",") as Arrays.toString shows
them.
"""

from __future__ import annotations

import ast
import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kcli.broker.config.client_metrics import validate_client_metrics
from kcli.broker.config.group_config import auto_offset_reset
from kcli.broker.config.listeners import parse_bootstrap_server, parse_listeners, parse_map, parse_voter
from kcli.broker.replication.throttle import named
from kcli.java.linear_regex import LENGTH_MAX, REPEATED_LENGTH_MAX, UNICODE_CLASSES_MAX, PatternError, compile_linear
from kcli.java.values import comma_list, double_text, java_double, java_integer, java_split, java_trim
from kcli.log.config import InvalidConfig, Type, parse_value, throttled_replicas
from kcli.metadata.config_control import Operation, combined
from kcli.metadata.topic_names import fault

ROOT = Path(__file__).parents[2]
ENGINES = ("re", "re2")
LONG = 1 << 20
SECONDS_MAX = 20
"""The time limit for a megabyte, which takes milliseconds in linear time and otherwise hours."""


@pytest.mark.parametrize("case", Path(__file__).with_name("values.jsonl").read_text().splitlines())
def test_as_java(case: str) -> None:
    text, double, integer, long, words, split = json.loads(case)
    assert repr(java_double(text)) == ("None" if double == "-" else repr(float(double.replace("Infinity", "inf"))))
    assert java_integer(java_trim(text)) == (None if integer == "-" else int(integer))
    assert java_integer(java_trim(text), 64) == (None if long == "-" else int(long))
    assert f"[{', '.join(comma_list(text))}]" == words
    assert f"[{', '.join(java_split(text))}]" == split


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (100.0, "100.0"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (-2.5e8, "-2.5E8"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("inf"), "Infinity"),
        (float("nan"), "NaN"),
        (0.0, "0.0"),
    ],
)
def test_doubles_are_written_as_java_writes_them(value: float, text: str) -> None:
    assert double_text(value) == text


@pytest.mark.parametrize(
    "read",
    [
        lambda: parse_value("a.ratio", "1" * LONG + "x", Type.DOUBLE),
        lambda: parse_value("a.ratio", "0x" + "1" * LONG + "px", Type.DOUBLE),
        lambda: parse_value("a.ratio", "1" * LONG, Type.DOUBLE),
        lambda: parse_value("a.number", "1" * LONG, Type.LONG),
        lambda: parse_value("a.number", "9" * 5000, Type.INT),
        lambda: parse_value("a.list", " " * LONG + "x" + " " * LONG + "x", Type.LIST),
        lambda: parse_map("a.map", " " * LONG + "x"),
        lambda: java_split("," * LONG + "x"),
        lambda: combined(Operation.APPEND, [f"{i}" for i in range(LONG // 8)], [f"{-i}" for i in range(LONG // 8)]),
        lambda: combined(Operation.SUBTRACT, [f"{i}" for i in range(LONG // 8)], [f"{-i}" for i in range(LONG // 8)]),
        lambda: validate_client_metrics("a", {"match": "client_id=" + "(a*)*" * (LONG // 5)}),
        lambda: validate_client_metrics("a", {"match": "client_id=" + r"\pL" * (LONG // 3)}),
        lambda: auto_offset_reset("a", "by_duration:P" + "1" * LONG + "X"),
        lambda: parse_listeners(["A://" * (LONG // 4) + "x:1y"], {}),
        lambda: parse_voter("1@" + ":1" * (LONG // 2) + "y"),
        lambda: parse_bootstrap_server("a:" + "9" * LONG),
        lambda: throttled_replicas("a", ("1" * LONG + ":" + "1" * LONG + "x",)),
        lambda: fault("a" * LONG + "!"),
    ],
)
def test_linear(read: Callable[[], object]) -> None:
    began = time.perf_counter()
    with contextlib.suppress(InvalidConfig):
        read()
    assert time.perf_counter() - began < SECONDS_MAX


def test_throttled_replicas_of_absurd_numbers() -> None:
    """A number that no partition can have selects none; it once ended the broker that received it."""
    assert named(f"{'9' * 5000}:1,²:1,7:1,8:2", 1) == frozenset({7})


@pytest.mark.parametrize(
    "duration", ["P1D", "PT1H", "PT1M", "PT1.5S", "PT.5S", "P1DT2H3M4.000000001S", "pt1h2s", "PT1.S", "PT0S"]
)
def test_durations(duration: str) -> None:
    if duration == "PT.5S":
        with pytest.raises(InvalidConfig):
            auto_offset_reset("a", f"by_duration:{duration}")
    else:
        auto_offset_reset("a", f"by_duration:{duration}")


@pytest.mark.parametrize(
    "duration", ["", "P", "PT", "1D", "P1", "PD", "P1DT", "PT1S2M", "PT1.0000000001S", "PT1.5M", "P1DX", "PTS", "-PT1S"]
)
def test_no_durations(duration: str) -> None:
    with pytest.raises(InvalidConfig):
        auto_offset_reset("a", f"by_duration:{duration}")


@pytest.mark.parametrize(
    "pattern",
    [
        "a" * (LENGTH_MAX + 1),
        "a" * REPEATED_LENGTH_MAX + "a{9}",
        r"\pL" * (UNICODE_CLASSES_MAX + 1),
        r"(\pL{1000})",
        "(?=a)",
        "(a",
    ],
)
def test_patterns_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        compile_linear(pattern)


def test_patterns_of_many_repetitions() -> None:
    """Such a pattern once took seconds for each topic's name."""
    began = time.perf_counter()
    with contextlib.suppress(PatternError):
        compile_linear("(a?){1000}" * 25).fullmatch("a" * 249)
    compile_linear("((a?){30}){30}").fullmatch("a" * 249)
    assert time.perf_counter() - began < SECONDS_MAX


def test_no_backtracking_expressions() -> None:
    """Python's own engine matches no expression to which a client's text may come."""
    rooms = (ROOT / "kcli/broker", ROOT / "kcli/metadata")
    paths = [ROOT / "kcli/log/config.py", *(path for room in rooms for path in room.rglob("*.py"))]
    assert len(paths) > 100
    found = []
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [getattr(node, "module", None) or each.name for each in node.names]
                found += [f"{path.relative_to(ROOT)}:{node.lineno}" for name in names if name.split(".")[0] in ENGINES]
    assert not found
