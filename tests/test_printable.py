"""Hidden characters in text for people: none reaches a terminal or a file, and what is JSON keeps its value."""

import json
import logging
import sys
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from kcli.broker.process.log_lines import TextLines
from kcli.client.formats import json_field
from kcli.printable import has_hidden, printable, printable_json, shown

HOSTILE = "cm\x1b[31mRED\x1b]0;pwned\x07\x9b1m\x85\u2028\u2029\u202e\u2066\u200f\u061c\x7f\r\n2026-11-23 forged"


def test_what_is_hidden() -> None:
    characters = map(chr, range(sys.maxunicode + 1))
    controls = {char for char in characters if unicodedata.category(char) in {"Cc", "Zl", "Zp"}}
    bidirectional = {"\u061c", "\u200e", "\u200f", *map(chr, range(0x202A, 0x202F)), *map(chr, range(0x2066, 0x206A))}
    assert {char for char in map(chr, range(sys.maxunicode + 1)) if has_hidden(char)} == controls | bidirectional


def test_one_line() -> None:
    assert printable("a\x1b[31m\n\u202eb\x9b") == r"a\x1b[31m\n\u202eb\x9b"
    assert printable("Größe \\ \udcff \udc9b") == "Größe \\ \udcff \\udc9b", "a raw C1 byte of a file's name is one too"
    assert not has_hidden(printable(HOSTILE))


@given(st.text() | st.just(HOSTILE))
def test_json_keeps_its_value(text: str) -> None:
    line = printable_json(json.dumps([text], ensure_ascii=False))
    assert not has_hidden(line)
    assert json.loads(line) == [text]


@given(st.text(st.sampled_from(HOSTILE + 'é€"\\\u00a0\u2030\u2065\u206a\U0001f600')))
def test_fields_of_records(text: str) -> None:
    data = text.encode()
    assert not has_hidden(shown(data))
    assert not has_hidden(json_field(data))
    assert json.loads(json_field(data)) == text


def test_log_lines() -> None:
    record = logging.LogRecord("kcli", logging.WARNING, __file__, 1, "no topic %s", (HOSTILE,), None)
    line = TextLines().format(record)
    assert not has_hidden(line)
    assert "WARNING no topic cm\\x1b[31mRED" in line


def test_the_trace_below_a_log_line() -> None:
    try:
        int(HOSTILE)
    except ValueError:
        record = logging.LogRecord("kcli", logging.ERROR, __file__, 1, "it failed", (), sys.exc_info())
    lines = TextLines().format(record).split("\n")
    assert "Traceback" in lines[1]
    assert "invalid literal" in lines[-1]
    assert not any(map(has_hidden, lines))
