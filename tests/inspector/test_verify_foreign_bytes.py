"""Foreign bytes in a log are not reported as a batch that the end of the file cuts off."""

import io
import os
import tarfile
from pathlib import Path

import pytest

from kcli.inspector.verify import Finding, Verification
from tests.damage import frames
from tests.inspector.test_verify_causes import directory, logs, loud

__all__ = ["directory"]  # a fixture

NOTE = b"This file has been quarantined.\r\nContact your administrator.\r\n"


def errors_of(directory: Path, log: Path) -> list[Finding]:
    return [each for each in loud(directory) if each.path == str(log)]


def test_a_note_in_the_place_of_a_log(directory: Path) -> None:
    log = logs(directory)[1]
    log.write_bytes(NOTE)
    (finding,) = errors_of(directory, log)
    assert (finding.kind, finding.position, finding.next_valid_position) == ("foreign-bytes", 0, None)
    assert str(finding.found).startswith(f"{len(NOTE)} bytes at byte 0 are no batch: they begin with 'This file has")


@pytest.mark.parametrize("pattern", [b"BADSECT ", b"\x1f\x8b\x08\x00", b"\xff\xee\xdd\xcc", b"\x7f\x00\x00\x01"])
@pytest.mark.parametrize("number", [0, 2])
def test_a_fill_pattern_over_a_batch(directory: Path, pattern: bytes, number: int) -> None:
    log = logs(directory)[0]
    data = bytearray(log.read_bytes())
    position, size = frames(data)[number]
    data[position : position + 128] = (pattern * 128)[:128]
    log.write_bytes(data)
    finding = errors_of(directory, log)[0]
    assert (finding.kind, finding.position, finding.next_valid_position) == (
        "foreign-bytes",
        position,
        position + size,
    )
    assert str(finding.found).startswith(f"{size:,} bytes at byte {position:,} are no batch")
    assert "ends" not in str(finding.found)


def test_a_log_in_an_archive(directory: Path) -> None:
    log = logs(directory)[0]
    whole, archive = log.read_bytes(), io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        entry = tarfile.TarInfo(log.name)
        entry.size = len(whole)
        tar.addfile(entry, io.BytesIO(whole))
    log.write_bytes(archive.getvalue())
    finding = errors_of(directory, log)[0]
    assert (finding.kind, finding.next_valid_position) == ("foreign-bytes", 512)
    assert str(finding.found).startswith("512 bytes at byte 0 are no batch: they are those of a tar")


def test_a_length_that_leads_behind_the_file(directory: Path) -> None:
    log = logs(directory)[0]
    data = bytearray(log.read_bytes())
    position, size = frames(data)[1]
    data[position + 8] = 0x01
    data[position + size - 1] ^= 1
    log.write_bytes(data)
    finding = errors_of(directory, log)[0]
    assert (finding.kind, finding.position) == ("batch-length", position)
    assert finding.next_valid_position == position + size
    assert f"{size:,} bytes at byte {position:,} are no batch: by its length" in str(finding.found)


@pytest.mark.parametrize("bit", [0, 1, 5, 9, 20, 30, 31])
@pytest.mark.parametrize("number", [0, 1, -1])
def test_a_batch_of_which_only_the_length_is_wrong(directory: Path, number: int, bit: int) -> None:
    log = logs(directory)[0]
    data = bytearray(log.read_bytes())
    position, size = frames(data)[number]
    length = int.from_bytes(data[position + 8 : position + 12]) ^ 1 << bit
    data[position + 8 : position + 12] = length.to_bytes(4)
    log.write_bytes(data)
    finding = errors_of(directory, log)[0]
    assert (finding.kind, finding.position, finding.length) == ("batch-length", position, size)
    assert str(finding.found).startswith(f"length {length - (length >> 31 << 32):,}, which no CRC covers")
    assert finding.expected == f"{size - 12:,}, with which the CRC is right"


@pytest.mark.parametrize("magic", [0, 1, 3, 6, 127, -128, -1])
@pytest.mark.parametrize("number", [0, 1, -1])
def test_a_batch_of_which_only_the_magic_is_wrong(directory: Path, number: int, magic: int) -> None:
    log = logs(directory)[0]
    data = bytearray(log.read_bytes())
    position, size = frames(data)[number]
    data[position + 16] = magic & 0xFF
    log.write_bytes(data)
    finding = errors_of(directory, log)[0]
    assert (finding.kind, finding.position, finding.length) == ("batch-magic", position, size)
    assert str(finding.found).startswith(f"magic {magic}, which no CRC covers")
    assert finding.expected == "magic 2, with which the CRC is right"
    if magic > 2:
        assert str(finding.action).endswith("for good; salvage puts the magic right, in a copy")
    data[position + size - 1] ^= 1
    log.write_bytes(data)
    finding = errors_of(directory, log)[0]
    assert finding.kind == ("batch-crc" if magic in {0, 1} else "batch-magic")
    assert "which no CRC covers" not in str(finding.found)


@pytest.mark.parametrize("left", [1, 7, 8, 11, 16, 17, 40, 200])
def test_a_torn_batch_stays_one(directory: Path, left: int) -> None:
    log = logs(directory)[-1]
    position, _ = frames(log.read_bytes())[-1]
    os.truncate(log, position + left)
    (finding,) = [each for each in Verification([log]).findings() if each.severity == "error"]
    assert (finding.kind, finding.position) == ("truncated", position)


def test_a_text_in_the_place_of_a_log_is_no_older_version_of_it(directory: Path) -> None:
    log = logs(directory)[1]
    whole = log.rename(log.with_name(f"{log.name}.quarantine"))
    log.write_bytes(NOTE)
    (finding,) = loud(directory)
    assert (finding.kind, finding.path, finding.position) == ("foreign-bytes", str(log), 0)
    assert f"{len(NOTE)} bytes, which begin with no batch: they begin with 'This file has" in str(finding.found)
    assert f"; all batches are in {whole}" in str(finding.found)
    assert finding.lost_first_offset is None
