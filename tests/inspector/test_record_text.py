"""Records printed as kafka-dump-log prints them: every golden dump with a decoder, and odd records."""

import base64
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formats.errors import FormatError
from kcli.inspector.record_text import DECODERS, control_text, decoder
from tests.conftest import read_jsonl
from tests.formats.internal_records import decoded_runs, raw_records
from tests.inspector.record_text_cases import DATA


def shown(name: str, offset: int, key: bytes | None, value: bytes | None) -> str | None:
    """Return what is printed behind the header keys, None where the tool would end."""
    try:
        if name == "control":
            return control_text(key, value)
        key_text, payload = decoder(name)(offset, key, value)
    except FormatError:
        return None
    return ("" if key_text is None else f" key: {key_text}") + ("" if payload is None else f" payload: {payload}")


def test_every_record_of_the_golden_dumps() -> None:
    compared: Counter[str] = Counter()
    for path, name, stdout in decoded_runs():
        lines = [line for line in stdout.split("\n") if line.startswith("| offset: ")]
        records = list(raw_records(path))
        assert len(lines) == len(records), path
        for line, record in zip(lines, records, strict=True):
            kind = "control" if record.is_control else name
            printed = line.partition(" headerKeys: []")[2]
            assert shown(kind, record.offset, record.key, record.value) == printed, (path, record.offset)
            compared[kind] += 1
    print(f"golden records compared and equal: {dict(compared)}")
    assert set(compared) == {*DECODERS, "control"}


def unpacked(text: str | None) -> bytes | None:
    """A byte field of the saved cases."""
    return None if text is None else base64.b64decode(text)


@pytest.mark.parametrize("path", sorted(DATA.glob("*.jsonl.gz")), ids=lambda path: path.name)
def test_odd_records_as_kafka_prints_them(path: Path) -> None:
    name = path.name.partition(".")[0]
    compared = ended = 0
    for case in read_jsonl(path):
        text = shown(name, case["offset"], unpacked(case["key"]), unpacked(case["value"]))
        assert text == case["printed"], case
        compared += 1
        ended += text is None
    print(f"{name}: {compared} odd records compared and equal, {ended} of which end Kafka's tool")
    assert compared


@settings(deadline=None, max_examples=300)
@given(st.sampled_from([*DECODERS, "control"]), st.binary(max_size=24), st.binary(max_size=60))
def test_no_bytes_break_it(name: str, key: bytes, value: bytes) -> None:
    shown(name, 0, key, value)
    shown(name, 0, b"\x00" + key[:1] + key, b"\x01" + value)


@pytest.mark.parametrize("name", ["offsets", "transaction-log", "share-group-state"])
def test_a_missing_key_ends_the_tool(name: str) -> None:
    with pytest.raises(FormatError, match="Failed to decode message at offset 7 using the specified decoder"):
        decoder(name)(7, None, b"\x00\x00")
