"""Bytes inserted into batches of a .log file, or lost from them: verify says how many and where, salvage takes them out
or puts them back where the CRC tells which."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from formats.kernels.crc import crc32c
from kcli.inspector.verify import Verification
from kcli.inspector.verify.findings import Finding, rank
from kcli.log.recovery.shifted_batches import shifts_in
from kcli.log.segment_reader import Damage, read_segment, sound_batches
from kcli.log.source import FileSource
from tests.cli.run import kcli
from tests.inspector.test_verify_causes import PARTITION, directory, logs

__all__ = ["directory"]  # a fixture

TEXT = re.compile(rb"gamma|delta|alpha")


def log_of(directory: Path) -> Path:
    return max(logs(directory), key=lambda each: each.stat().st_size)


def batches(log: Path) -> list[tuple[int, int]]:
    with closing(FileSource(log)) as source:
        return [(row.position, row.size) for row in sound_batches(source)]


def worst(directory: Path, log: Path) -> Finding:
    found = [each for each in Verification([directory]).findings() if each.path == str(log)]
    return min(found, key=rank)


def salvaged(directory: Path, new: Path) -> list[dict[str, object]]:
    ended = kcli("recover", "--salvage", "--unclean", "--out", new, "--format", "jsonl", directory)
    return [json.loads(line) for line in ended.stdout.splitlines()]


@pytest.mark.parametrize("count", [1, 13, 4096])
@pytest.mark.parametrize("number", [0, 2, -1])
def test_inserted_bytes_are_taken_out(directory: Path, tmp_path: Path, count: int, number: int) -> None:
    log = log_of(directory)
    whole = log.read_bytes()
    position, size = batches(log)[number]
    at = position + size - 5
    log.write_bytes(whole[:at] + random.Random(count).randbytes(count) + whole[at:])
    found = worst(directory, log)
    assert (found.position or 0) == position
    assert f"{count:,} too many bytes here: without byte" in str(found.found)
    rows = salvaged(directory, tmp_path / "new")
    (row,) = [row for row in rows if row["kind"] == "shifted"]
    assert (row["batches"], row["inserted_bytes"], row["lost_crs"]) == (1, count, 0)
    assert not [row for row in rows if row["kind"] == "gap"]
    assert (tmp_path / "new" / PARTITION / log.name).read_bytes() == whole


def test_lost_crs_are_put_back(directory: Path, tmp_path: Path) -> None:
    log = log_of(directory)
    data = bytearray(log.read_bytes())
    with_text = [(at, size) for at, size in batches(log)[1:] if TEXT.search(data, at + 61, at + size)][:2]
    for number, (position, length) in enumerate(with_text, 1):
        for found in list(TEXT.finditer(data, position + 61, position + length))[:number]:
            data[found.start() + 2 : found.start() + 4] = b"\r\n"
        data[position + 17 : position + 21] = crc32c(data[position + 21 : position + length]).to_bytes(4)
    whole = bytes(data)
    log.write_bytes(whole)
    before = batches(log)
    assert b"\r\n" in whole
    log.write_bytes(whole[: before[1][0]] + whole[before[1][0] :].replace(b"\r\n", b"\n"))
    rows = salvaged(directory, tmp_path / "new")
    (row,) = [row for row in rows if row["kind"] == "shifted"]
    assert (row["inserted_bytes"], row["lost_crs"]) == (0, whole.count(b"\r\n"))
    assert (tmp_path / "new" / PARTITION / log.name).read_bytes() == whole


def test_a_cr_that_stood_before_no_lf(directory: Path, tmp_path: Path) -> None:
    """As after tr -d: no CR is left in the batch."""
    log = log_of(directory)
    data = bytearray(log.read_bytes())
    with_text = ((at, size) for at, size in batches(log)[1:] if TEXT.search(data, at + 61, at + size))
    position, size = next((at, size) for at, size in with_text if 13 not in data[at + 21 : at + size])
    at = TEXT.search(data, position + 61).start() + 2  # type: ignore[union-attr]
    data[at] = 13
    data[position + 17 : position + 21] = crc32c(data[position + 21 : position + size]).to_bytes(4)
    assert data[position + 21 : position + size].count(13) == 1
    log.write_bytes(data[:at] + data[at + 1 :])
    assert "a missing CR here" in str(worst(directory, log).found)
    salvaged(directory, tmp_path / "new")
    assert (tmp_path / "new" / PARTITION / log.name).read_bytes() == data


def replaced_text(data: bytes, position: int, size: int) -> bytes:
    at, other = position + 70, position + size - 10
    return data[:at] + b"xy" + data[at:other] + b"zz" + data[other:]


def lost_bytes(data: bytes, position: int, size: int) -> bytes:
    return data[: position + 70] + data[position + size - 5 :]


@pytest.mark.parametrize(
    ("change", "words"),
    [(replaced_text, "4 too many bytes here, as where"), (lost_bytes, "missing bytes here, as where ")],
)
def test_what_the_crc_does_not_tell(
    directory: Path, tmp_path: Path, change: Callable[[bytes, int, int], bytes], words: str
) -> None:
    """The batch is lost, and those behind it are kept."""
    log = log_of(directory)
    position, size = batches(log)[1]
    kept = len(batches(log)) - 1
    log.write_bytes(change(log.read_bytes(), position, size))
    assert words in str(worst(directory, log).found)
    assert "the batches behind are whole" in str(worst(directory, log).found)
    rows = salvaged(directory, tmp_path / "new")
    assert len([row for row in rows if row["kind"] == "gap"]) == 1
    assert len(batches(tmp_path / "new" / PARTITION / log.name)) == kept


def test_a_lost_block_over_several_batches(directory: Path) -> None:
    log = log_of(directory)
    (first, _), *_, (last, size) = batches(log)[1:4]
    data = log.read_bytes()
    log.write_bytes(data[: first + 70] + data[last + size - 5 :])
    assert "75 bytes are left of the batches of offsets" in str(worst(directory, log).found)


def test_random_damage_raises_nothing(directory: Path) -> None:
    log = log_of(directory)
    whole = log.read_bytes()
    for seed in range(60):
        chance = random.Random(seed)
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            at, size = chance.randrange(len(data)), chance.randrange(200)
            data[at : at + size * chance.randrange(2)] = chance.randbytes(chance.randrange(200))
        log.write_bytes(data)
        with closing(FileSource(log)) as source:
            for part in read_segment(source):
                if isinstance(part, Damage):
                    shifts_in(source, part.position, part.position + part.length)
