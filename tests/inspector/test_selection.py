"""Filters, compared with a slow filter over all records: with an index, without, and with a wrong one."""

import json
import shutil
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.compression import CODEC_NAMES
from kcli.inspector.kafka_options import KafkaDumpOptions, KafkaTextOptions, Notes
from kcli.inspector.kafka_text import dump_file
from kcli.inspector.log_records import print_jsonl
from kcli.inspector.seek import start_position
from kcli.inspector.selection import ALL, Selection
from kcli.log.source import FileSource
from tests.conftest import GOLDEN, Json
from tests.inspector.jsonl import field_bytes

LOGS = [
    GOLDEN / "codecs/data" / path
    for path in (
        "mixed-0/00000000000000000000.log",
        "java-none-0/00000000000000000108.log",
        "append-time-0/00000000000000000000.log",
        "rdk-lz4-0/00000000000000000000.log",
    )
]
LOGS += [
    GOLDEN / "txn/data/t-txn-0/00000000000000000004.log",
    GOLDEN / "compact/after/c-txn-0/00000000000000000000.log",
]
LOGS += [
    GOLDEN / "legacy/data/v0-v1-v2-mixed-0" / name for name in ("00000000000000000000.log", "00000000000000000058.log")
]
LOGS += [GOLDEN / "legacy/data/v1-gzip-0/00000000000000000000.log"]


def wanted(selection: Selection) -> Callable[[Json], bool]:
    """Return whether a record is selected, by its JSON line."""

    def check(record: Json) -> bool:
        return (
            selection.from_offset <= record["offset"] < selection.to_offset
            and selection.from_time_ms <= record["timestamp"] < selection.to_time_ms
            and (selection.key is None or field_bytes(record["key"]) == selection.key)
            and (selection.producer_id is None or record["producer_id"] == selection.producer_id)
            and (selection.codec is None or record["codec"] == CODEC_NAMES[selection.codec])
        )

    return check


def dumped(path: Path, selection: Selection = ALL) -> list[str]:
    """The JSON lines of what is selected."""
    out: list[bytes] = []
    source = FileSource(path)
    print_jsonl(
        source, "t", 0, lambda part: out.append(bytes(part)), selection=selection, start=start_position(path, selection)
    )
    source.close()
    return b"".join(out).decode().split("\n")[:-1]


WHOLE = {path: dumped(path) for path in LOGS}
RECORDS = {path: [json.loads(line) for line in lines] for path, lines in WHOLE.items()}


def expected(path: Path, selection: Selection) -> list[str]:
    check = wanted(selection)
    found = [line for line, record in zip(WHOLE[path], RECORDS[path], strict=True) if check(record)]
    return found[: selection.limit]


@st.composite
def selections(draw: st.DrawFn, records: list[Json]) -> Selection:
    """Return up to three conditions, with values that occur and neighbouring ones."""
    record, other = draw(st.sampled_from(records)), draw(st.sampled_from(records))
    near = draw(st.sampled_from([0, 1, -1, 1000]))
    values: dict[str, Any] = {
        "from_offset": record["offset"] + near,
        "to_offset": other["offset"] - near,
        "from_time_ms": record["timestamp"] + near,
        "to_time_ms": other["timestamp"] - near,
        "key": draw(st.sampled_from([field_bytes(record["key"]), b"", b"no such key"])),
        "producer_id": draw(st.sampled_from([record["producer_id"], -1])),
        "codec": draw(st.integers(0, 4)),
        "limit": draw(st.integers(0, 50)),
    }
    assert set(values) == {field.name for field in fields(Selection)}
    names = draw(st.sets(st.sampled_from(sorted(values)), max_size=3))
    return ALL.narrowed(**{name: values[name] for name in names})


@given(st.sampled_from(LOGS), st.data())
def test_filters_give_what_a_slow_one_gives(path: Path, data: st.DataObject) -> None:
    selection = data.draw(selections(RECORDS[path]))
    assert dumped(path, selection) == expected(path, selection)


def kafka_record_lines(path: Path, selection: Selection) -> list[str]:
    out: list[bytes] = []
    options = KafkaDumpOptions(KafkaTextOptions(deep_iteration=True), selection=selection)
    dump_file(path, options, lambda part: out.append(bytes(part)), Notes(), start=start_position(path, selection))
    return [line for line in b"".join(out).decode(errors="replace").split("\n") if line.startswith("| offset: ")]


@given(st.sampled_from(LOGS), st.data())
def test_filters_of_kafkas_format_are_the_same(path: Path, data: st.DataObject) -> None:
    selection = data.draw(selections(RECORDS[path]))
    offsets = [int(line.split()[2]) for line in kafka_record_lines(path, selection)]
    assert offsets == [json.loads(line)["offset"] for line in expected(path, selection)]


BAD_INDEXES = {
    "none": None,
    "empty": b"",
    "zeros": bytes(800),
    "random": bytes(range(7, 255)) * 3,
    "past the end": b"\0\0\0\x05\x7f\xff\xff\xff" * 3,
    "inside a batch": b"\0\0\0\x05\0\0\0\x11" * 3,
    "negative": b"\xff\xff\xff\xff\xff\xff\xff\xf0" * 2,
    "cut": b"\0\0\0\x05\0\0\0",
}


@pytest.mark.parametrize("content", BAD_INDEXES.values(), ids=list(BAD_INDEXES))
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_damaged_index_loses_no_records(suffix: str, content: bytes | None, tmp_path: Path) -> None:
    for path in LOGS[:3]:
        copy = tmp_path / path.name
        for name in (path, path.with_suffix(".index"), path.with_suffix(".timeindex")):
            shutil.copy(name, tmp_path)
        if content is None:
            copy.with_suffix(suffix).unlink()
        else:
            copy.with_suffix(suffix).write_bytes(content)
        for record in RECORDS[path][:: max(1, len(RECORDS[path]) // 20)]:
            for selection in (
                ALL.narrowed(from_offset=record["offset"]),
                ALL.narrowed(from_time_ms=record["timestamp"]),
                ALL.narrowed(from_offset=record["offset"] - 3, from_time_ms=record["timestamp"] - 3),
            ):
                assert dumped(copy, selection) == expected(path, selection), (suffix, selection)


def test_an_index_of_another_segment_loses_no_records(tmp_path: Path) -> None:
    path = LOGS[0]
    other = sorted(path.parent.glob("*.log"))[1]
    shutil.copy(path, tmp_path)
    for suffix in (".index", ".timeindex"):
        shutil.copy(other.with_suffix(suffix), tmp_path / path.with_suffix(suffix).name)
    for record in RECORDS[path][::5]:
        for selection in (ALL.narrowed(from_offset=record["offset"]), ALL.narrowed(from_time_ms=record["timestamp"])):
            assert dumped(tmp_path / path.name, selection) == expected(path, selection)


def test_a_good_index_is_used() -> None:
    """The later the offset, the later in the file reading begins."""
    path = GOLDEN / "codecs/data/java-none-0/00000000000000000000.log"
    starts = [start_position(path, ALL.narrowed(from_offset=offset)) for offset in range(0, 108, 9)]
    assert starts == sorted(starts)
    assert starts[0] == 0
    assert starts[-1] > path.stat().st_size // 2
    latest = max(record["timestamp"] for record in map(json.loads, dumped(path)))
    assert start_position(path, ALL.narrowed(from_time_ms=latest)) > path.stat().st_size // 4


def test_filters_on_damaged_logs_keep_what_is_sound() -> None:
    """Records of other batches than the damaged one are found, also behind it."""
    path = GOLDEN / "corrupt/cases/payload-flip-none/00000000000000000000.log"
    records = [json.loads(line) for line in dumped(path)]
    last = records[-1]["offset"]
    selection = ALL.narrowed(from_offset=last)
    assert [json.loads(line)["offset"] for line in dumped(path, selection)] == [last]
