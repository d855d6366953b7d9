"""A flipped bit in the leader epoch of a log's last batch, or of a batch of the metadata log: verify names the batch,
and salvage puts the bit right."""

import shutil
from pathlib import Path

import pytest

from formats.checkpoint import parse_leader_epochs
from formats.file_name import METADATA_DIRECTORY
from kcli.inspector.verify import Verification
from tests.cli.test_recover_renamed_logs import rows
from tests.inspector.test_verify_causes import PARTITION, directory, logs, loud
from tests.metadata_damage import LOG, copied, rows_of

__all__ = ["directory"]  # a fixture

CHECKPOINT = "leader-epoch-checkpoint"
EPOCH = 2
"""The leader epoch of the last batches in the partition and in the metadata log."""


def flip_epoch(log: Path, number: int, bit: int) -> tuple[int, int]:
    """Flip a bit of a batch's leader epoch. Return the position of the batch and the wrong epoch."""
    row = rows_of(log)[number]
    data = bytearray(log.read_bytes())
    wrong = row.leader_epoch ^ 1 << bit
    data[row.position + 12 : row.position + 16] = wrong.to_bytes(4)
    log.write_bytes(data)
    return row.position, wrong


def epochs_in(path: Path) -> list[int]:
    return [each.epoch for each in parse_leader_epochs((path / CHECKPOINT).read_bytes())]


@pytest.mark.parametrize("bit", [1, 5, 8, 30])
def test_the_last_batch_of_a_partition(directory: Path, tmp_path: Path, bit: int) -> None:
    log, checkpoint = logs(directory)[-1], directory / PARTITION / CHECKPOINT
    whole, before = log.read_bytes(), checkpoint.read_bytes()
    position, wrong = flip_epoch(log, -1, bit)
    (finding,) = loud(directory)
    assert (finding.kind, finding.path, finding.position) == ("leader-epoch", str(log), position)
    assert str(finding.found).startswith(f"leader epoch {wrong:,}")
    assert str(finding.expected).startswith(f"{EPOCH}")
    saved = [row for row in rows(directory, "--out", tmp_path / "new") if row["kind"] in ("leader-epoch", "rebuilt")]
    assert [(row["position"], row["before"], row["leader_epoch"]) for row in saved] == [(position, wrong, EPOCH)]
    new = tmp_path / "new" / PARTITION
    assert ((new / log.name).read_bytes(), (new / CHECKPOINT).read_bytes()) == (whole, before)
    assert loud(tmp_path / "new") == []


@pytest.mark.parametrize("number", [-1, 1])
def test_a_negative_epoch(directory: Path, tmp_path: Path, number: int) -> None:
    """The sign is a bit like the others, but Kafka never takes a negative epoch for a new one."""
    log = logs(directory)[-1]
    whole = log.read_bytes()
    position, wrong = flip_epoch(log, number, 31)
    (finding,) = loud(directory)
    assert (finding.kind, finding.path, finding.position) == ("leader-epoch", str(log), position)
    assert str(finding.found).startswith(f"leader epoch {wrong - 2**32:,}")
    assert [row["kind"] for row in rows(directory, "--out", tmp_path / "new") if row["kind"] == "leader-epoch"]
    assert (tmp_path / "new" / PARTITION / log.name).read_bytes() == whole
    assert loud(tmp_path / "new") == []


def test_the_metadata_log_is_not_needed(directory: Path, tmp_path: Path) -> None:
    log = logs(directory)[-1]
    whole = log.read_bytes()
    flip_epoch(log, -1, 30)
    alone = Path(shutil.copytree(log.parent, tmp_path / "alone" / PARTITION))
    (finding,) = loud(alone)
    assert (finding.kind, "metadata" in str(finding.expected)) == ("leader-epoch", False)
    assert [row["kind"] for row in rows(alone, "--unclean", "--in-place") if row["kind"] != "partition"] == [
        "leader-epoch"
    ]
    assert (alone / log.name).read_bytes() == whole


@pytest.mark.parametrize("bit", [0, 2, 3])
def test_an_epoch_little_above_the_known_ones_may_be_a_newer_one(directory: Path, bit: int) -> None:
    """A crash may have lost it from the checkpoint and from the metadata log."""
    flip_epoch(logs(directory)[-1], -1, bit)
    assert [each.kind for each in loud(directory) if each.severity == "warning"] == ["checkpoint-epoch"]
    assert [row["kind"] for row in rows(directory) if row["kind"] == "leader-epoch"] == []


def test_an_epoch_that_the_checkpoint_has_is_one(directory: Path) -> None:
    log = logs(directory)[-1]
    _, epoch = flip_epoch(log, -1, 8)
    path = log.with_name(CHECKPOINT)
    entries = path.read_text().splitlines()[2:]
    path.write_text("\n".join(["0", str(len(entries) + 1), *entries, f"{epoch} {rows_of(log)[-1].base_offset}", ""]))
    assert "leader-epoch" not in [each.kind for each in loud(directory)]
    assert [row["kind"] for row in rows(directory) if row["kind"] == "leader-epoch"] == []


def test_two_batches_are_no_flipped_bit(directory: Path) -> None:
    for number in (-1, -2):
        flip_epoch(logs(directory)[-1], number, 8)
    assert "leader-epoch" not in [each.kind for each in loud(directory)]


@pytest.mark.parametrize(
    ("number", "bit", "is_in_checkpoint"),
    [(10, 8, False), (10, 8, True), (10, 30, False), (10, 30, True), (-1, 8, False)],
)
def test_a_batch_of_the_metadata_log(tmp_path: Path, number: int, bit: int, *, is_in_checkpoint: bool) -> None:
    """Each start recovers this log, and enters the epoch in the checkpoint. Of the last batch the checkpoint alone
    tells that the epoch is wrong."""
    data = copied(tmp_path)
    checkpoint = data / METADATA_DIRECTORY / CHECKPOINT
    whole, before, row = (data / LOG).read_bytes(), checkpoint.read_bytes(), rows_of(data / LOG)[number]
    position, wrong = flip_epoch(data / LOG, number, bit)
    if is_in_checkpoint:
        entries = checkpoint.read_text().splitlines()[2:]
        entries = [entries[0], f"{wrong} {row.base_offset}"]
        checkpoint.write_text("\n".join(["0", str(len(entries)), *entries, ""]))
    (finding,) = loud(data)
    assert (finding.kind, finding.path, finding.position) == ("leader-epoch", str(data / LOG), position)
    new = tmp_path / "new"
    saved = [each for each in rows(data, "--out", new, of=[METADATA_DIRECTORY]) if each["kind"] == "leader-epoch"]
    assert [(each["before"], each["leader_epoch"]) for each in saved] == [(wrong, row.leader_epoch)]
    assert (new / LOG).read_bytes() == whole
    assert (new / METADATA_DIRECTORY / CHECKPOINT).read_bytes() == before
    assert [each for each in Verification([new]).findings() if each.severity == "error"] == []
