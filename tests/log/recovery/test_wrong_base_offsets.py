"""The offsets of lost batches of which one has a damaged base offset, which no CRC covers."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.log.partition_view import Content, FileRange
from kcli.log.recovery.salvage import behind_damage
from tests.conftest import SAMPLES
from tests.damage import frames


def lost(log: Path, position: int, end_offset: int) -> tuple[int | None, int | None]:
    content = Content((FileRange(log, 0, log.stat().st_size),))
    found = behind_damage(log.name, content, position, end_offset=end_offset)
    return found.first_offset, found.last_offset


@pytest.mark.parametrize("number", [1, 2, 4])
def test_a_base_offset_too_high(tmp_path: Path, number: int) -> None:
    """Whether the batch before it is sound (2, 4), or damaged (1)."""
    data = bytearray((SAMPLES / "good/java-none-0/00000000000000000000.log").read_bytes())
    starts = [at for at, _ in frames(bytes(data))]
    assert len(starts) > 6
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(data)
    whole = lost(log, starts[1], 0)
    data[starts[number] + 5] ^= 1
    log.write_bytes(data)
    assert lost(log, starts[1], 0) == whole


def test_a_log_with_a_repeated_begin(tmp_path: Path) -> None:
    """Each of the offsets is right."""
    data = (SAMPLES / "good/java-none-0/00000000000000000000.log").read_bytes()
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(data)
    whole = lost(log, 0, 0)
    log.write_bytes(data * 2)
    assert lost(log, 0, 0) == whole
