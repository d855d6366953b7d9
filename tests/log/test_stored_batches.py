"""Batches are read with their records, and damage is reported with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.errors import UnreadableInput
from kcli.log.stored_batches import StoredRecord, read_batches
from tests.conftest import GOLDEN
from tests.log.batches import batch


def test_records_of_every_batch(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(batch(b"a", b"b") + batch(b"c", base_offset=2, codec=4))
    found = list(read_batches(path))
    assert [row.base_offset for row, _ in found] == [0, 2]
    assert [records for _, records in found] == [
        [StoredRecord(0, b"key", b"a"), StoredRecord(1, b"key", b"b")],
        [StoredRecord(2, b"key", b"c")],
    ]
    assert [records for _, records in read_batches(path, 1)] == [[StoredRecord(2, b"key", b"c")]]


def test_damage_is_told_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    first, second = batch(b"a", b"b"), batch(b"c", base_offset=2, codec=1)
    for at, changed in ((70, first), (70, second), (20, second)):
        whole = bytearray(first + second)
        whole[at + (len(first) if changed is second else 0)] ^= 0xFF
        path.write_bytes(whole)
        with pytest.raises(UnreadableInput, match=f"byte {len(first) if changed is second else 0}: "):
            list(read_batches(path))
    path.write_bytes((first + second)[:-1])
    with pytest.raises(UnreadableInput, match="byte"):
        list(read_batches(path))


def test_every_group_log_of_kafka() -> None:
    paths = sorted((GOLDEN / "groups/data").glob("__consumer_offsets-*/*.log"))
    assert sum(len(records) for path in paths for _, records in read_batches(path)) > 100
