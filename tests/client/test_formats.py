"""A record as text: as dump-segment shows it, and as kcat does."""

import base64
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.client.consuming import Record
from kcli.client.formats import json_field, jsonl, percent, table, unescaped
from kcli.errors import UsageError
from kcli.printable import shown
from tests.cli.run import kcli
from tests.formats.kernels import twins

RECORD = Record("t", 3, 42, 1700000000000, "CreateTime", b"k", "vé".encode(), [("a", b"1"), ("b", None), ("a", b"")], 7)
NULLS = Record("t", 0, 0, None, "NoTimestampType", None, None, [], None)


@given(
    st.binary() | (st.text() | st.text("a\x85\u061c\u200d\u200f\u2028\u202e\u202f\u2069")).map(str.encode),
    st.integers(-1, 12),
)
def test_fields_are_shown_as_the_kernel_shows_them(data: bytes, fold: int) -> None:
    assert shown(data, fold) == twins.shown(data, fold)


def test_lines_are_those_of_dump_segment() -> None:
    """dump-segment's kernels and these formats print the same of a record, except for fields that only one of them
    has."""
    rows = [json.loads(line) for line in kcli("dump-segment", "--format", "jsonl", "good/mixed-0").stdout.splitlines()]
    lines = kcli("dump-segment", "good/mixed-0").stdout.splitlines()
    printer = table(-1, None)
    expected = [f"mixed-0{line}" for line in lines if re.match(r"  \d", line)]
    for row, line in zip(rows, expected, strict=True):
        names = [name for name, _ in row["headers"]]
        if all(isinstance(name, str) for name in names):
            headers = [(name, _bytes(value)) for name, value in row["headers"]]
            place = row["topic"], row["partition"], row["offset"], row["timestamp"], row["timestamp_type"]
            record = Record(*place, _bytes(row["key"]), _bytes(row["value"]), headers, row["leader_epoch"])
            assert printer(record).decode() == line + "\n"
            mine = json.loads(jsonl(record))
            assert mine == {name: row[name] for name in mine}
    assert len(rows) > 20


def _bytes(field: str | dict[str, str] | None) -> bytes | None:
    if isinstance(field, dict):
        return base64.b64decode(field["base64"])
    return None if field is None else field.encode()


@given(st.none() | st.binary())
def test_json_fields(data: bytes | None) -> None:
    assert _bytes(json.loads(json_field(data))) == data


def test_colours() -> None:
    styles = [(f"<{name}>".encode(), b">") for name in "potlv"]
    line = table(4, styles)(RECORD._replace(value=b"a long one")).decode()
    assert line == (
        '<p>t-3>  <o>42>  <t>2023-11-14T22:13:20.000Z>  <l>key> <v>k>  <l>value> <v>"a lo... (10 B)">'
        '  <l>headers> <v>a=1 b=null a="">\n'
    ).replace('"a lo... (10 B)"', "a lo... (10 B)")


def test_nulls_in_a_table() -> None:
    assert table(-1, None)(NULLS) == b"t-0  0  no time  key null  value null\n"


@pytest.mark.parametrize(
    ("template", "expected", "nulls"),
    [
        ("%t/%p/%o", "t/3/42", "t/0/0"),
        ("%T %k %K %s %S", "1700000000000 k 1 vé 3", "-1 NULL -1 NULL -1"),
        ("%R|", "\0\0\0\3|", None),
        ("%h;", "a=1,b=NULL,a=;", ";"),
        ("100%%\\n\\r\\t\\x41\\\\\\q é", "100%\n\r\tA\\q é", "100%\n\r\tA\\q é"),
        ("", "", ""),
    ],
)
def test_tokens(template: str, expected: str, nulls: str | None) -> None:
    assert percent(template, b"NULL")(RECORD) == expected.encode()
    if nulls is not None:
        assert percent(template, b"NULL")(NULLS) == nulls.encode()


def test_the_length_of_null_in_four_bytes() -> None:
    assert percent("%R", b"")(NULLS) == b"\xff\xff\xff\xff"


@pytest.mark.parametrize("template", ["%x", "a %", "%é"])
def test_unknown_tokens(template: str) -> None:
    with pytest.raises(UsageError, match="no token"):
        percent(template, b"")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("\\n", b"\n"), ("a\\tb", b"a\tb"), ("\\x00\\xff", b"\0\xff"), ("%", b"%"), ("\\", b"\\"), ("%s", b"%s")],
)
def test_delimiters(text: str, expected: bytes) -> None:
    assert unescaped(text) == expected
