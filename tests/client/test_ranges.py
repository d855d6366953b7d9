"""Offsets and times as they are typed."""

import time

import pytest

from kcli.cli.options import time_ms
from kcli.client.ranges import BEGINNING, END, Start, Times, parse_start, parse_times
from kcli.errors import UsageError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("beginning", (None, BEGINNING)),
        ("earliest", (None, BEGINNING)),
        ("end", (None, END)),
        ("latest", (None, END)),
        ("0", (None, Start(0))),
        ("17", (None, Start(17))),
        ("-5", (None, Start(-5))),
        ("-0", (None, END)),
        ("2:17", (2, Start(17))),
        ("2:-5", (2, Start(-5))),
        ("2:end", (2, END)),
    ],
)
def test_starts(text: str, expected: tuple[int | None, Start]) -> None:
    assert parse_start(text) == expected


@pytest.mark.parametrize("text", ["", "x", "1:", ":1", "--5", "1:2:3", "-1:5", "9" * 30])
def test_what_is_no_start(text: str) -> None:
    with pytest.raises(UsageError, match="is no offset"):
        parse_start(text)


def times(text: str) -> Times:
    return parse_times(text, lambda side: time_ms(side, "--time"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1:2", Times(1, 2)),
        (":2", Times(None, 2)),
        ("1:", Times(1, None)),
        (":", Times(None, None)),
        ("1970-01-01T00:00:01Z:1970-01-01T00:00:02Z", Times(1000, 2000)),
        ("1970-01-01T00:00:01:1970-01-01T00:00:02", Times(1000, 2000)),
        ("1970-01-01:1970-01-02", Times(0, 86_400_000)),
        ("1970-01-01T00:01:", Times(60_000, None)),
        (":1970-01-01T00:01", Times(None, 60_000)),
        ("1970-01-01T02:00:00+01:00:1970-01-01T02:00:00+00:00", Times(3_600_000, 7_200_000)),
    ],
)
def test_times(text: str, expected: Times) -> None:
    assert times(text) == expected


def test_times_ago() -> None:
    now = time.time() * 1000
    found = times("-2h:-1h")
    assert found.first == pytest.approx(now - 7_200_000, abs=5000)
    assert found.stop == pytest.approx(now - 3_600_000, abs=5000)


@pytest.mark.parametrize("text", ["", "1", "2:1", "x:y", "-1h:-2h", "1970-01-01T00:00:01Z"])
def test_what_is_no_range(text: str) -> None:
    with pytest.raises(UsageError, match="is no range"):
        times(text)
