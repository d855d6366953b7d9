"""Gaps inside a log: their meaning depends on whether the topic was ever compacted."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from formats import producer_snapshot
from formats.producer_snapshot import ProducerSnapshot
from kcli.inspector.verify import Finding, Verification
from kcli.inspector.verify.gaps import Gaps
from kcli.inspector.verify.surroundings import Surroundings
from kcli.protocol.topic_partition import TopicPartition
from tests.cli.run import kcli
from tests.conftest import GOLDEN
from tests.damage import frames
from tests.inspector.test_verify_causes import PARTITION, directory, files_of, logs
from tests.inspector.test_verify_variations import batches_of
from tests.metadata_damage import copied

__all__ = ["directory"]

CLEANER = "cleaner-offset-checkpoint"
SERVER = {"node.id": "1"}


@pytest.fixture
def hole(directory: Path) -> tuple[int, int]:
    """Cut a batch out of a log and remove its indexes; return the batch's offsets. A start reads neither."""
    log = logs(directory)[0]
    data = log.read_bytes()
    batch = batches_of(data)[3]
    log.write_bytes(data[: batch.position] + data[batch.position + batch.size :])
    for suffix in (".index", ".timeindex"):
        log.with_suffix(suffix).unlink()
    return batch.base_offset, batch.last_offset


def gap_in(directory: Path, server: dict[str, str] | None = None) -> Finding:
    found = Verification([directory], server=server).findings()
    (gap,) = [each for each in found if each.kind == "offset-gap"]
    return gap


def clean(directory: Path) -> None:
    topic, _, number = PARTITION.rpartition("-")
    (directory / CLEANER).write_text(f"0\n1\n{topic} {number} 200\n")


def test_a_topic_that_was_never_compacted(directory: Path, hole: tuple[int, int]) -> None:
    gap = gap_in(directory)
    assert (gap.severity, gap.lost_first_offset, gap.lost_last_offset) == ("error", *hole)


def test_a_line_of_the_log_cleaner_that_the_metadata_log_contradicts(directory: Path, hole: tuple[int, int]) -> None:
    """The metadata log has the topic from its creation on. It does not have log.cleanup.policy of server.properties."""
    clean(directory)
    gap = gap_in(directory)
    assert (gap.severity, gap.lost_first_offset, gap.lost_last_offset) == ("warning", *hole)
    assert "cleaner-offset-checkpoint says that the topic was compacted" in gap.action
    assert gap_in(directory, SERVER).severity == "error"
    assert gap_in(directory, {**SERVER, "log.cleanup.policy": "compact"}).severity == "info"


def test_a_line_of_the_log_cleaner_that_the_metadata_log_cannot_contradict(directory: Path) -> None:
    """A topic of a snapshot may have been compacted before it; the topic's present policy is evidence, too."""
    clean(directory)
    topic, _, number = PARTITION.rpartition("-")
    partition, around = TopicPartition(topic, int(number)), Surroundings(directory, {})
    assert around.gaps(partition) is Gaps.DOUBTED
    assert around.metadata is not None
    around.metadata.with_policy.add(topic)
    assert around.gaps(partition) is Gaps.LOSS
    around.metadata.created.clear()
    assert around.gaps(partition) is Gaps.NORMAL


def test_an_older_version_of_a_log_before_a_gap(directory: Path) -> None:
    """A backup of a broker that was stopped while the log was active: the log, its indexes, and the snapshot of the
    shutdown at its end."""
    log, following = logs(directory)[:2]
    end = batches_of(log.read_bytes())[3]
    log.write_bytes(log.read_bytes()[: end.position])
    for suffix in (".index", ".timeindex"):
        log.with_suffix(suffix).unlink()
    log.with_name(f"{end.base_offset:020}.snapshot").write_bytes(producer_snapshot.build(ProducerSnapshot(())))
    (gap,) = [each for each in Verification([directory]).findings() if each.kind == "log-missing"]
    assert (gap.lost_first_offset, gap.lost_last_offset) == (end.base_offset, int(following.stem) - 1)
    assert str(gap.expected).endswith(f", or these at the end of {log.name}")
    assert f"look for the file, and for a longer version of {log.name};" in gap.action


def cut(log: Path) -> tuple[int, int]:
    """Cut a log at its fourth batch, and remove its indexes. Returns the first and the last offset that are lost."""
    end = batches_of(log.read_bytes())[3]
    os.truncate(log, end.position)
    for suffix in (".index", ".timeindex"):
        log.with_suffix(suffix).unlink()
    return end.base_offset, min(int(each.stem) for each in log.parent.glob("*.log") if each.stem > log.stem) - 1


def test_an_index_shows_that_the_log_is_an_older_version(directory: Path) -> None:
    log = logs(directory)[1]
    entry = log.with_suffix(".index").read_bytes()[:8]
    lost = cut(log)
    log.with_suffix(".index").write_bytes(entry + bytes(1 << 10))
    (found,) = [each for each in Verification([directory]).findings() if each.severity == "error"]
    assert (found.kind, found.path, found.lost_first_offset, found.lost_last_offset) == ("log-cut", str(log), *lost)
    assert f"{log.stem}.index still has the zeros" in str(found.found)


def test_its_size_shows_that_the_log_is_an_older_version(tmp_path: Path) -> None:
    """All closed segments of the topic have about 30 KB, segment.bytes."""
    shutil.copytree(GOLDEN / "unclean/recovered/u-lz4-0", tmp_path / "u-lz4-0", copy_function=shutil.copyfile)
    log = logs(tmp_path, "u-lz4-0")[1]
    lost = cut(log)
    (found,) = [each for each in Verification([tmp_path]).findings() if each.kind.startswith("log-")]
    assert (found.kind, found.path, found.lost_first_offset, found.lost_last_offset) == ("log-cut", str(log), *lost)
    assert "and the other closed segments 29,746 to 29,876" in str(found.found)


def test_an_older_version_has_the_name_that_it_has(tmp_path: Path) -> None:
    """The files of the segment before the gap are named above all offsets."""
    partition = tmp_path / "t-0"
    partition.mkdir()
    source = GOLDEN / "unclean/crashed/u-plain-1"
    for each in source.glob("00000000000000000124.*"):
        shutil.copyfile(each, partition / f"09223372036854775807{each.suffix}")
    (partition / f"{10**6:020}.log").touch()
    (found,) = [each for each in Verification([partition]).findings() if each.kind == "log-cut"]
    assert (found.path, found.position) == (str(partition / "09223372036854775807.log"), 4840)


def test_an_older_log_behind_a_newer_one(directory: Path) -> None:
    """An old directory was copied over a new one: what has the later leader epoch was not deleted before the rest."""
    new, gone, first = logs(directory)[:3]
    data = bytearray(new.read_bytes())
    for at, _ in frames(data):
        data[at + 12 : at + 16] = (9).to_bytes(4)
    new.write_bytes(data)
    for path in files_of(gone):
        path.unlink()
    (new.parent / "leader-epoch-checkpoint").write_text(f"0\n1\n2 {int(first.stem)}\n")
    (finding,) = (each for each in Verification([directory]).findings() if each.severity == "error")
    assert (finding.kind, finding.path, finding.lost_first_offset) == ("log-returned", str(first), None)
    assert "batches of leader epoch 9 or a later one" in str(finding.expected)
    assert str(finding.command).startswith("kcli dump-segment")


@pytest.mark.parametrize("begin", [0, 3], ids=["at the segment", "within it"])
def test_segments_that_retention_had_deleted_are_back(directory: Path, begin: int) -> None:
    """Old files from a backup: the segments between them and the log's first one were deleted after it."""
    old, gone, first = logs(directory)[:3]
    for path in files_of(gone):
        path.unlink()
    (old.parent / "leader-epoch-checkpoint").write_text(f"0\n1\n2 {int(first.stem) + begin}\n")
    if begin:
        topic, _, number = old.parent.name.rpartition("-")
        entry = f"{topic} {number} {int(first.stem) + begin}"
        (directory / "log-start-offset-checkpoint").write_text(f"0\n1\n{entry}\n")
    (finding,) = [each for each in Verification([directory]).findings() if each.severity != "info"]
    assert (finding.kind, finding.path, finding.lost_first_offset) == ("log-returned", str(old), None)
    subprocess.run(["sh", "-c", str(finding.command)], check=True)
    assert old.with_name(f"{old.name}.moved").exists()
    assert [each for each in Verification([directory]).findings() if each.severity != "info"] == []


@pytest.mark.parametrize(("is_clean", "severity"), [(True, "info"), (False, "warning")])
def test_a_missing_log_that_had_no_batch(tmp_path: Path, severity: str, *, is_clean: bool) -> None:
    """After a crash the high watermark says so, too: it is at most some seconds old."""
    home = copied(tmp_path, "groups/data")
    marker = home / ".kafka_cleanshutdown"
    assert marker.exists()
    if not is_clean:
        marker.unlink()
    log = home / "__transaction_state-0" / f"{0:020}.log"
    log.unlink()
    (finding,) = (each for each in Verification([home]).findings() if each.path == str(log))
    assert (finding.kind, finding.severity, finding.lost_first_offset) == ("log-missing", severity, None)
    assert "no such file: it had no batch, by its indexes and " in str(finding.found)


def test_a_leader_epoch_that_begins_in_a_gap(directory: Path, tmp_path: Path) -> None:
    """The batches behind the gap have a lower epoch: they contradict the entry as well as a batch in the gap would."""
    log = logs(directory)[2]
    data = log.read_bytes()
    log.write_bytes(data[: len(data) // 2])
    path = directory / PARTITION / "leader-epoch-checkpoint"
    before = path.read_text()
    assert before == "0\n2\n0 0\n2 166\n"
    path.write_text("0\n3\n0 0\n2 166\n3 264\n")
    (finding,) = [each for each in Verification([directory]).findings() if each.path == str(path)]
    assert (finding.kind, finding.expected) == ("checkpoint-epoch", "epoch 2 at offset 297, as its batch says")
    kcli("recover", "--salvage", "--out", tmp_path / "new", directory)
    assert (tmp_path / "new" / PARTITION / "leader-epoch-checkpoint").read_text() == before
