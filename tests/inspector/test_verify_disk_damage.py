"""Damage by a disk is reported with its cause: pages of zeros, and repeated sectors."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from kcli.inspector.verify import Verification
from tests.conftest import GOLDEN
from tests.log.live.test_partition_log_lifecycle import filled

SECTOR_BYTES, PAGE_BYTES = 512, 4096
SMALL_BATCHES = GOLDEN / "unclean/crashed/u-gzip-0/00000000000000000197.log"
LOG = max((GOLDEN / "compact/before").glob("*/*.log"), key=lambda each: each.stat().st_size)


def found(path: Path) -> list[str]:
    """What the errors in a log say."""
    findings = Verification([path]).findings()
    return [str(each.found) for each in findings if each.severity == "error" and each.kind != "offset-gap"]


def place(random: Random, size: int, block_bytes: int) -> int:
    """Return the begin of a block in the middle of a file."""
    return random.randrange(1, size // block_bytes - 1) * block_bytes


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("block_bytes", [SECTOR_BYTES, PAGE_BYTES])
def test_blocks_of_zeros(tmp_path: Path, block_bytes: int, seed: int) -> None:
    data = bytearray(LOG.read_bytes())
    at = place(Random(seed), len(data), block_bytes)
    data[at : at + block_bytes] = bytes(block_bytes)
    path = tmp_path / LOG.name
    path.write_bytes(data)
    assert any(f"{block_bytes:,} bytes of zeros at byte {at:,}: " in each for each in found(path))


def inserted(data: bytearray, at: int, size: int) -> tuple[int, int]:
    data[at:at] = data[at : at + size]
    return at + size, at


def written_elsewhere(data: bytearray, at: int, size: int) -> tuple[int, int]:
    to = at + 4 * size if at + 5 * size < len(data) else at - 4 * size
    data[to : to + size] = data[at : at + size]
    return to, at


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("damage", [inserted, written_elsewhere])
def test_repeated_sectors(tmp_path: Path, damage: Callable[[bytearray, int, int], tuple[int, int]], seed: int) -> None:
    data = bytearray(LOG.read_bytes())
    random = Random(seed)
    size = random.choice([1, 2, 8]) * SECTOR_BYTES
    at = place(random, len(data), size)
    copy, original = damage(data, at, size)
    path = tmp_path / LOG.name
    path.write_bytes(data)
    expected = f"bytes {copy:,}..{copy + size - 1:,} repeat bytes {original:,}..{original + size - 1:,}"
    assert any(f"{expected}: " in each or f"{expected}, or the reverse: " in each for each in found(path)), found(path)


@pytest.mark.parametrize("pages", [-3, -2, -1, 1, 2, 3])
def test_a_page_written_over_another_is_one_finding(tmp_path: Path, pages: int) -> None:
    """Its small batches are sound, those at its ends are torn, and the batches that it covers are lost."""
    data = bytearray(SMALL_BATCHES.read_bytes())
    original, copy = 3 * PAGE_BYTES, (3 + pages) * PAGE_BYTES
    data[copy : copy + PAGE_BYTES] = data[original : original + PAGE_BYTES]
    path = tmp_path / SMALL_BATCHES.name
    path.write_bytes(data)
    (finding,) = [each for each in Verification([path]).findings() if each.severity == "error"]
    assert finding.consequences["batch-crc"] == 2
    assert re.search(r"; the batch at byte [\d,]+ is torn", str(finding.found))
    assert finding.lost_first_offset is not None or copy == 0
    pages_text = f"bytes {copy:,}..{copy + 4095:,} repeat bytes {original:,}..{original + 4095:,}: "
    assert str(finding.found).startswith(pages_text)
    of_batches = str(finding.found).removeprefix(pages_text)
    batches = re.match(r"the \d+ batches at byte ([\d,]+) repeat those at byte ([\d,]+)", of_batches)
    assert batches is not None, finding.found
    of_copy, of_original = (int(each.replace(",", "")) for each in batches.groups())
    assert copy <= of_copy < copy + PAGE_BYTES
    assert of_original - of_copy == original - copy


@pytest.mark.parametrize("seed", range(20))
def test_other_damage_has_another_cause(tmp_path: Path, seed: int) -> None:
    data = bytearray(LOG.read_bytes())
    random = Random(seed)
    for _ in range(3):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    path = tmp_path / LOG.name
    path.write_bytes(data)
    assert not [each for each in found(path) if "zeros" in each or "repeat" in each]


def test_alike_records_are_no_repeated_sectors(tmp_path: Path) -> None:
    """The same value again and again."""
    filled(tmp_path, {}, count=500).close(0)
    path = max(tmp_path.glob("*.log"), key=lambda each: each.stat().st_size)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert found(path)
    assert not [each for each in found(path) if "zeros" in each or "repeat" in each]
