"""Damaged segments: FAIL names the place, SKIP loses no sound record, REPORT lists the skipped bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow import parquet

from formats.crc32c import crc32c
from kcli.export.corruption import CorruptLog
from tests.conftest import GOLDEN, Json, read_jsonl
from tests.export.tables import load

CASES = {case["id"]: case for case in read_jsonl(GOLDEN / "corrupt/cases.jsonl")}
HEADER_BYTES = 61
UNTOLD = ("compressed-flip-snappy", "compressed-flip-zstd")
"""The position of a bit of the payload, changed under a CRC that fits: no check can find it."""


def sound_batches(data: bytes) -> list[tuple[int, int, int, int]]:
    """Position, size, first and last offset of every batch of magic 2 whose CRC holds, wherever it begins."""
    found, position = [], 0
    while position + HEADER_BYTES <= len(data):
        size = 12 + int.from_bytes(data[position + 8 : position + 12], "big", signed=True)
        crc = int.from_bytes(data[position + 17 : position + 21], "big")
        if (
            HEADER_BYTES <= size <= len(data) - position
            and data[position + 16] == 2
            and crc32c(data[position + 21 : position + size]) == crc
        ):
            first = int.from_bytes(data[position : position + 8], "big", signed=True)
            delta = int.from_bytes(data[position + 23 : position + 27], "big", signed=True)
            found.append((position, size, first, first + delta))
            position += size
        else:
            position += 1
    return found


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_is_sound_is_read_and_what_is_not_is_told(case: Json, tmp_path: Path) -> None:
    directory = GOLDEN / "corrupt/cases" / case["id"]
    report = tmp_path / "report"
    columns = "offset,key,value,segment,batchPosition"
    kept = load(directory, columns=columns, onCorruption="report", corruptionReport=str(report))
    assert load(directory, columns=columns, onCorruption="skip") == kept

    rows = [row for file in sorted(report.glob("*.parquet")) for row in parquet.read_table(file).to_pylist()]
    if rows:
        with pytest.raises(CorruptLog) as raised:
            load(directory, columns=columns)
        first = next(row for row in rows if row["segment"] == raised.value.segment)
        assert raised.value.error.reason == first["reason"]
    else:
        assert load(directory, columns=columns) == kept
    assert rows or case["kind"] not in ("crc", "length", "truncated", "tail", "compression") or case["id"] in UNTOLD

    damaged_at = case["expect"].get("valid_bytes_before", 0) if case["files"] else 0
    assert all(row["position"] >= damaged_at for row in rows)
    read_from = {(row["segment"], row["batchPosition"]) for row in kept.to_pylist()}
    for log in sorted(directory.glob("*.log")):
        ranges = [(row["position"], row["position"] + row["length"]) for row in rows if row["segment"] == str(log)]
        for position, size, first_offset, last_offset in sound_batches(log.read_bytes()):
            if last_offset >= first_offset and not any(
                begin < position + size and end >= position for begin, end in ranges
            ):
                assert (log.name, position) in read_from or _is_control(log, position)


def _is_control(log: Path, position: int) -> bool:
    return bool(log.read_bytes()[position + 22] & 0x20)
