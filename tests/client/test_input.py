"""Records from bytes: in any chunks, and from all that consume prints; a line that is no record is reported with its
number."""

import json
from collections.abc import Callable, Iterator
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.client import input as input_module
from kcli.client.consuming import Record
from kcli.client.formats import jsonl
from kcli.client.input import BadInput, NewRecord, json_records, pieces, text_records
from tests.cli.run import kcli


def reader(chunks: list[bytes]) -> Callable[[int], bytes]:
    """A `read` that gives these chunks, and then the end."""
    left = iter([chunk for chunk in chunks if chunk])
    return lambda _: next(left, b"")


@given(st.lists(st.text("ab|-").map(str.encode)), st.sampled_from([b"|", b"--", b"|-|"]))
def test_pieces_do_not_depend_on_chunks(chunks: list[bytes], delimiter: bytes) -> None:
    expected = b"".join(chunks).split(delimiter)
    assert list(pieces(reader(chunks), delimiter)) == (expected if expected[-1] else expected[:-1])


def test_a_piece_comes_as_soon_as_it_ends() -> None:
    asked: Iterator[int] = count()
    chunks = iter([b"one\ntw", b"o\n", b""])

    def read(_: int) -> bytes:
        next(asked)
        return next(chunks)

    assert next(pieces(read, b"\n")) == b"one"
    assert next(asked) == 1


def test_a_piece_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_module, "MAX_PIECE_BYTES", 1 << 20)
    with pytest.raises(BadInput, match="no delimiter within 1 MiB"):
        list(pieces(lambda size: b"x" * size, b"\n"))


def test_text() -> None:
    lines = [b"k:v:w", b":v", b"k:", b"v", b""]
    assert list(text_records(iter(lines), b":", empty_is_null=False)) == [
        NewRecord(b"k", b"v:w"),
        NewRecord(b"", b"v"),
        NewRecord(b"k", b""),
        NewRecord(None, b"v"),
        NewRecord(None, b""),
    ]
    nulls = list(text_records(iter(lines), b":", empty_is_null=True))
    assert nulls[1:3] == [NewRecord(None, b"v"), NewRecord(b"k", None)]
    assert nulls[4] == NewRecord(None, None)
    assert list(text_records(iter([b"k:v"]), None, empty_is_null=False)) == [NewRecord(None, b"k:v")]


FIELDS = st.none() | st.binary() | st.text().map(str.encode)
NAMES = st.text(st.characters(exclude_categories=["Cs"]))


@given(FIELDS, FIELDS, st.lists(st.tuples(NAMES, FIELDS)), st.integers(0, 2**31), st.none() | st.integers(-1, 2**62))
def test_what_consume_prints_comes_back(
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes | None]],
    partition: int,
    timestamp: int | None,
) -> None:
    line = jsonl(Record("t", partition, 5, timestamp, "CreateTime", key, value, headers, 0))
    assert list(json_records(iter([line, b"  "]))) == [NewRecord(key, value, headers, partition, timestamp, "t")]


def test_what_dump_segment_prints_comes_in_without_markers() -> None:
    printed = kcli("dump-segment", "--format", "jsonl", "good/t-txn-0").stdout.splitlines()
    records = [json.loads(line) for line in printed]
    markers = sum(record["is_control"] for record in records)
    assert markers
    assert len(list(json_records(line.encode() for line in printed))) == len(records) - markers


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("7", "is not an object"),
        ("{}", 'has no "value"'),
        ('{"value": 7}', 'has for "value" neither null'),
        ('{"value": {"base64": "?"}}', 'has for "value" neither null'),
        ('{"value": {"base64": "AA==", "x": 1}}', 'has for "value" neither null'),
        ('{"value": "\\ud800"}', 'has for "value" neither null'),
        ('{"value": null, "key": []}', 'has for "key" neither null'),
        ('{"value": null, "headers": {"a": "b"}}', "has no list"),
        ('{"value": null, "headers": [["a"]]}', "has a header that is not"),
        ('{"value": null, "headers": [[{"base64": "/w=="}, null]]}', "has a header that is not"),
        ('{"value": null, "headers": [["a", 1]]}', 'has for "header a" neither null'),
        ('{"value": null, "partition": "1"}', "has '1' for \"partition\""),
        ('{"value": null, "timestamp": true}', 'has True for "timestamp"'),
        ('{"value": null, "timestamp": 9223372036854775808}', "has 9223372036854775808"),
        ('{"value": null, "topic": 1}', 'has 1 for "topic"'),
        ("\udcff", "is not JSON"),
    ],
)
def test_what_is_no_record(line: str, reason: str) -> None:
    lines = [b'{"value": "good"}', line.encode("utf-8", "surrogateescape")]
    with pytest.raises(BadInput) as caught:
        list(json_records(iter(lines)))
    assert str(caught.value).startswith(f"line 2 {reason}")
