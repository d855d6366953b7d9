"""Segments are read in windows: any window gives the same batches; damage is reported at its first byte; hostile
bytes."""

import os
import struct
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from formats.errors import BadChecksum, BadLength, LimitExceeded, Truncated
from formats.kernels.batches import FAULT_BAD_CRC
from formats.kernels.columns import BatchRow
from formats.kernels.records import RecordTable
from kcli.log.batch_records import decode, faults_of
from kcli.log.segment_reader import Damage, Window, read_segment
from kcli.log.source import FileSource, PipeSource
from tests.conftest import GOLDEN, Json, read_jsonl

LOG = GOLDEN / "codecs/data/mixed-0/00000000000000000000.log"
CASES = GOLDEN / "corrupt/cases"
LOG_CASES = [case for case in read_jsonl(GOLDEN / "corrupt/cases.jsonl") if "batch_position" in case["damaged"]]


class Bytes:
    """A source in memory, which records the reads."""

    name = "bytes"

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.read = 0

    def read_at(self, position: int, buffer: memoryview) -> int:
        part = self.data[position : position + len(buffer)]
        buffer[: len(part)] = part
        self.read += len(part)
        return len(part)

    def size(self) -> int:
        return len(self.data)

    def close(self) -> None:
        """Nothing is open."""


def rows(window: Window) -> Iterator[BatchRow]:
    for i in range(len(window.batches)):
        yield BatchRow._make(window.batches.row(i))


def parts(data: bytes, **options: int) -> list[BatchRow | Damage]:
    """Return batches (without their place in a window) and damage, in order."""
    found: list[BatchRow | Damage] = []
    for part in read_segment(Bytes(data), **options):  # type: ignore[arg-type]
        if isinstance(part, Damage):
            found.append(part)
        else:
            assert part.batches.count
            for row in rows(part):
                assert part.data[row.start : row.start + row.size] == data[row.position : row.position + row.size]
                assert row.position == part.position + row.start
                found.append(row._replace(start=0))
    return found


@pytest.mark.parametrize("window", [18, 19, 60, 61, 62, 100, 1000, 4096, 65_537, 1 << 20])
def test_windows_of_any_size_give_the_same_batches(window: int) -> None:
    data = LOG.read_bytes()
    whole = parts(data)
    assert all(isinstance(each, BatchRow) and not each.faults for each in whole)
    assert parts(data, window_bytes=window) == whole


@pytest.mark.parametrize("window", [18, 100, 5000])
def test_windows_of_any_size_give_the_same_damage(window: int) -> None:
    for case in LOG_CASES:
        data = (CASES / case["id"] / case["damaged"]["file"]).read_bytes()
        assert repr(parts(data, window_bytes=window)) == repr(parts(data)), case["id"]


@pytest.mark.parametrize("start", [1, 5, 9])
def test_start_and_stop(start: int) -> None:
    data = LOG.read_bytes()
    whole = [each for each in parts(data) if isinstance(each, BatchRow)]
    first, last = whole[start], whole[start + 3]
    stop = last.position + last.size
    assert parts(data, start=first.position, stop=stop) == whole[start : start + 4]
    cut = parts(data, start=first.position, stop=stop - 1)
    assert cut[:-1] == whole[start : start + 3]
    assert isinstance(cut[-1], Damage)
    assert isinstance(cut[-1].error, Truncated)
    assert (cut[-1].position, cut[-1].length, cut[-1].at_end) == (last.position, last.size - 1, True)
    assert parts(data, stop=0) == []
    assert parts(data, start=len(data)) == []


@pytest.mark.parametrize("case", LOG_CASES, ids=[case["id"] for case in LOG_CASES])
def test_damage_is_told_at_its_batch(case: Json) -> None:
    """The first fault, if any, is at the damage of the case; everything before it is sound."""
    position = case["damaged"]["batch_position"]
    source = FileSource(CASES / case["id"] / case["damaged"]["file"])
    sound = sound_bytes = 0
    where: int | None = None
    for part in read_segment(source):
        if isinstance(part, Damage):
            where = part.position if where is None else where
            continue
        for _ in decode(part, RecordTable(100)):
            pass
        for i, row in enumerate(rows(part)):
            faults = faults_of(part, i)
            assert bool(faults) == bool(row.faults)
            if faults and where is None:
                where = row.position
            elif where is None:
                sound, sound_bytes = sound + 1, sound_bytes + row.size
    source.close()
    if where is None:
        assert not seen_in_one_batch(case), case
        return
    assert where == position
    assert (sound, sound_bytes) == (case["expect"]["valid_batches_before"], case["expect"]["valid_bytes_before"])


def seen_in_one_batch(case: Json) -> bool:
    """Return whether the batch alone shows the damage, without the batches and files around it."""
    return str(case["expect"]["detectable_by"]) in {
        "crc",
        "structure",
        "magic",
        "codec id",
        "record",
        "varint",
        "decompression",
    }


def test_what_is_behind_damage_is_read_on() -> None:
    data = LOG.read_bytes()
    whole = [each for each in parts(data) if isinstance(each, BatchRow)]
    third = whole[3]
    lost = bytearray(data)
    struct.pack_into(">i", lost, third.position + 8, 7)
    found = parts(bytes(lost))
    assert found[:3] == whole[:3]
    assert isinstance(found[3], Damage)
    assert (found[3].position, found[3].length, found[3].at_end) == (third.position, third.size, False)
    assert isinstance(found[3].error, BadLength)
    assert found[4:] == whole[4:]
    first_only = parts(bytes(lost), resync=False)
    assert first_only[:-1] == whole[:3]
    assert isinstance(first_only[3], Damage)
    assert (first_only[3].position, first_only[3].at_end) == (third.position, True)


def test_a_bad_crc_whose_length_leads_on_stays_a_batch() -> None:
    data = bytearray(LOG.read_bytes())
    whole = [each for each in parts(bytes(data)) if isinstance(each, BatchRow)]
    for i in (2, 3, len(whole) - 1):
        data[whole[i].position + 17] ^= 1
    found = parts(bytes(data))
    bad = {i for i, each in enumerate(found) if isinstance(each, BatchRow) and each.faults & FAULT_BAD_CRC}
    assert (len(found), bad) == (len(whole), {2, 3, len(whole) - 1})


def test_a_bad_length_with_a_bad_crc_is_not_believed() -> None:
    data = bytearray(LOG.read_bytes())
    whole = [each for each in parts(bytes(data)) if isinstance(each, BatchRow)]
    struct.pack_into(">i", data, whole[2].position + 8, whole[2].size + whole[3].size - 20)
    found = parts(bytes(data))
    assert isinstance(found[2], Damage)
    assert isinstance(found[2].error, BadChecksum)
    assert found[3:] == whole[3:]


def test_a_batch_above_the_limit_is_passed_over() -> None:
    data = LOG.read_bytes()
    whole = [each for each in parts(data) if isinstance(each, BatchRow)]
    largest = max(whole, key=lambda row: row.size)
    found = parts(data, max_batch_bytes=largest.size - 1, window_bytes=100)
    damaged = [each for each in found if isinstance(each, Damage)]
    assert [(each.position, each.length) for each in damaged] == [(largest.position, largest.size)]
    assert isinstance(damaged[0].error, LimitExceeded)
    assert [each for each in found if isinstance(each, BatchRow)] == [each for each in whole if each != largest]


@pytest.mark.parametrize("resync", [False, True])
def test_a_length_of_2_gib_takes_no_memory(tmp_path: Path, resync: bool) -> None:
    path = tmp_path / "00000000000000000000.log"
    sound = LOG.read_bytes()[: 12 + int.from_bytes(LOG.read_bytes()[8:12])]
    size = 2**31 - 1 if not resync else (3 << 26)
    with path.open("wb") as file:
        file.write(sound + struct.pack(">qiib", 999, min(2**31 - 1, size // 2), 0, 2))
        file.truncate(size)
    source = FileSource(path)
    tracemalloc.start()
    found = list(read_segment(source, resync=resync, max_batch_bytes=16 << 20))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    source.close()
    assert isinstance(found[0], Window)
    assert isinstance(found[1], Damage)
    assert (len(found), found[1].position) == (2, len(sound))
    assert isinstance(found[1].error, LimitExceeded)
    assert peak < 32 << 20


def fake_header(size: int) -> bytes:
    """Return a header that all checks except for that of the CRC accept."""
    return struct.pack(">qiibIhiqqqhii", 5, size - 12, 0, 2, 0, 1, 3, 0, 0, -1, -1, -1, 4)


@pytest.mark.parametrize("claim", [1 << 20, 40 << 20, 130 << 20])
def test_a_file_full_of_fake_headers_comes_to_an_end(tmp_path: Path, claim: int) -> None:
    path = tmp_path / "fake.log"
    size = 48 << 20
    with path.open("wb") as file:
        file.write(b"\0" * 19)
        file.write(fake_header(min(claim, size // 2)) * (size // 61))
        file.truncate(max(size, claim + (8 << 20)))
    began = time.process_time()
    source = FileSource(path)
    found = list(read_segment(source))
    source.close()
    assert len(found) == 1
    assert isinstance(found[0], Damage)
    assert time.process_time() - began < 8


def test_many_damaged_places_are_not_read_again_and_again() -> None:
    """Sound batches lie between headers that claim far more bytes: each is found, with few reads."""
    sound = LOG.read_bytes()[: 12 + int.from_bytes(LOG.read_bytes()[8:12])]
    unit = b"\0" * 13 + fake_header(3 << 20) + sound
    count = (4 << 20) // len(unit)
    source = Bytes(unit * count + b"\0" * (4 << 20))
    found = list(read_segment(source))
    batches = sum(part.batches.count for part in found if isinstance(part, Window))
    assert batches > count // 3
    assert source.read < 1500 << 20


def test_a_pipe_is_read_as_a_file(tmp_path: Path) -> None:
    data = LOG.read_bytes()
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(out)
        with os.fdopen(into, "wb") as pipe:
            pipe.write(data)
        os._exit(0)
    os.close(into)
    source = PipeSource(out, "-")
    found = [row for part in read_segment(source, window_bytes=4096) if isinstance(part, Window) for row in rows(part)]
    assert [row._replace(start=0) for row in found] == parts(data)
    assert source.size() == len(data)
    again = bytearray(100)
    assert source.read_at(len(data) - 50, memoryview(again)) == 50
    assert again[:50] == data[-50:]
    source.close()
    os.close(out)
    os.waitpid(child, 0)


@pytest.mark.parametrize("zeros", [*range(1000, 1060), 5 * 1024 + 3, (1 << 20) + 7])
def test_a_batch_is_found_behind_zeros(zeros: int) -> None:
    """The batch is found wherever the windows end: a batch at offset 0 begins with ten zeros itself."""
    batch = LOG.read_bytes()
    size = 12 + int.from_bytes(batch[8:12])
    batch = bytes(8) + batch[8:size]
    damage, found = parts(bytes(zeros) + batch)
    assert isinstance(damage, Damage)
    assert (damage.position, damage.length, damage.at_end) == (0, zeros, False)
    assert isinstance(found, BatchRow)
    assert (found.position, found.size) == (zeros, size)
