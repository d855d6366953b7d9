"""Logs that end at the largest offset, or whose offsets pass it: a start deletes them, as Kafka 4.3 did these.

Its log: "Deleting all segments because logEndOffset (-9223372036854775808) is smaller than logStartOffset 0", and
(-9223372036854775807) for the one whose last record's offset passes 2^63 - 1.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from formats.batch_writer import write_batch
from kcli.inspector.verify import Verification
from kcli.log.recovery.loader import EventKind
from kcli.log.recovery.run import Recovery
from kcli.log.recovery.segment import offset_behind
from tests.sanitize.directories import COMMANDS, run

LAST = 2**63 - 1
BASE = LAST - 10
TIME_MS = 1_700_000_000_000


@pytest.fixture(params=[2, 3], ids=["reaches the last offset", "passes it"])
def partition(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Nine records from BASE on, then some from the last offset but one on."""
    directory = tmp_path / "t-0"
    directory.mkdir()
    log = write_batch([(b"a", b"b")] * 9, TIME_MS, base_offset=BASE)
    log += write_batch([(b"a", b"b")] * request.param, TIME_MS, base_offset=LAST - 1)
    (directory / f"{BASE:020}.log").write_bytes(log)
    (directory / f"{BASE:020}.index").touch()
    (directory / f"{BASE:020}.timeindex").touch()
    (directory / "leader-epoch-checkpoint").write_text(f"0\n1\n0 {BASE}\n")
    return directory


@pytest.mark.parametrize("clean", [True, False])
def test_a_start_deletes_the_log(partition: Path, clean: bool) -> None:
    (plan,) = Recovery(partition, TIME_MS, clean=clean, threads=1).plans()
    assert plan.refused is None
    assert [event.kind for event in plan.events] == [EventKind.SEGMENT_REMOVED]
    assert "below its log start offset 0" in plan.events[0].reason


def test_every_command_ends(partition: Path) -> None:
    for command in COMMANDS:
        run(command, partition)
    assert not Verification([partition]).unreadable


def test_what_follows_the_largest_offset() -> None:
    assert offset_behind(LAST) == -(2**63)
    assert offset_behind(LAST - 1) == LAST
