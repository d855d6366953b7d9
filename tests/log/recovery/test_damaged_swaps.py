"""A .log.swap file that is damaged takes the place of a segment that the cleaner has renamed to .log.deleted: the dry
run names the last values of keys that go with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kcli.inspector.verify import Verification
from kcli.log.recovery.loader import EventKind, LoadOptions
from kcli.log.recovery.plan import PartitionPlan, plan
from kcli.log.recovery.salvage import Lost
from tests.log.batches import NOW_MS, keyed

SWAP, DELETED = f"{0:020}.log.swap", f"{0:020}.log.deleted"


def written(directory: Path, *, cut: int) -> None:
    """Keys a (0), b (1, later at 4), c (2), d (3, later deleted at 5); the cleaner kept a and c."""
    directory.mkdir()
    values = [b"a", b"b", b"c", b"d"]
    whole = [keyed(key, b"value", base_offset=at) for at, key in enumerate(values)]
    (directory / DELETED).write_bytes(b"".join(whole))
    swap = whole[0] + whole[2]
    (directory / SWAP).write_bytes(swap[: len(swap) - cut])
    later = [keyed(b"b", b"new", base_offset=4), keyed(b"d", None, base_offset=5)]
    (directory / f"{4:020}.log").write_bytes(b"".join(later))


def planned(directory: Path, *, is_compacted: bool = True) -> PartitionPlan:
    return plan(directory, LoadOptions(NOW_MS, recovery_point=4, is_compacted=is_compacted))


@pytest.mark.parametrize("cut", [1, 40])
def test_the_last_values_that_go(tmp_path: Path, cut: int) -> None:
    written(tmp_path / "p-0", cut=cut)
    done = planned(tmp_path / "p-0")
    ((event, lost),) = [each for each in zip(done.events, done.lost, strict=True) if each[0].file == DELETED]
    assert event.kind is EventKind.DELETED
    assert "the swap file in its place is damaged" in event.reason
    assert lost == Lost(1, 1, 2, 2)
    assert done.has_losses


def test_a_sound_swap_file_loses_nothing(tmp_path: Path) -> None:
    written(tmp_path / "p-0", cut=0)
    done = planned(tmp_path / "p-0")
    assert [each.kind for each in done.events if each.file == DELETED] == [EventKind.LEFTOVER_REMOVED]
    assert not done.has_losses


def test_what_later_segments_have_is_not_lost(tmp_path: Path) -> None:
    written(tmp_path / "p-0", cut=1)
    log = tmp_path / f"p-0/{4:020}.log"
    log.write_bytes(log.read_bytes() + keyed(b"c", b"new", base_offset=6))
    assert not planned(tmp_path / "p-0").has_losses


def zeros(swap: bytes) -> bytes:
    return bytes(len(swap))


def zeros_at_begin(swap: bytes) -> bytes:
    return bytes(30) + swap[30:]


def nothing(_: bytes) -> bytes:
    return b""


@pytest.mark.parametrize("damage", [zeros, zeros_at_begin, nothing], ids=lambda each: each.__name__)
def test_a_swap_file_that_begins_with_no_batch_gives_way(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    """Kafka's start deletes the .log.deleted file, and then fails at the swap file unless that is empty."""
    written(tmp_path / "p-0", cut=0)
    swap, deleted = tmp_path / "p-0" / SWAP, (tmp_path / "p-0" / DELETED).read_bytes()
    swap.write_bytes(damage(swap.read_bytes()))
    done = planned(tmp_path / "p-0")
    assert (done.refused is None) == (damage is nothing)
    ((event, lost),) = [each for each in zip(done.events, done.lost, strict=True) if each[0].file == DELETED]
    assert (event.kind, lost) == (EventKind.DELETED, Lost(2, 2, 0, 2))
    saved = plan(tmp_path / "p-0", LoadOptions(NOW_MS, recovery_point=4, is_compacted=True), with_salvage=True)
    assert saved.refused is None
    assert saved.view.read(f"{0:020}.log") == deleted
    assert [each.file for each in saved.saved.left_out] == [SWAP]
    assert saved.saved.gaps == []


def test_a_swap_file_of_zeros_keeps_kafka_from_starting(tmp_path: Path) -> None:
    written(tmp_path / "p-0", cut=0)
    swap = tmp_path / "p-0" / SWAP
    swap.write_bytes(zeros(swap.read_bytes()))
    in_order = sorted(Verification([tmp_path / "p-0"]).findings(), key=lambda each: not each.refuses_start)
    assert (in_order[0].path, in_order[0].kind, in_order[0].refuses_start) == (str(swap), "swap-log", True)
    assert "Kafka does not start" in f"{in_order[0].found} {in_order[0].action}"
