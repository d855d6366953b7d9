"""Log directories: the lock, names, checkpoints."""

from pathlib import Path

import pytest

from formats.file_name import FileKind
from kcli.log.disk import Disk
from kcli.log.log_directory import DirectoryLock, DirectoryLocked, LogDirectory, holds_segments, is_log_directory
from kcli.log.recovery.run import Recovery
from kcli.protocol.topic_partition import TopicPartition
from tests.conftest import GOLDEN, SAMPLES


def test_lock_excludes_within_a_process(tmp_path: Path) -> None:
    with DirectoryLock(Disk(), tmp_path):
        with pytest.raises(DirectoryLocked, match="in use"):
            DirectoryLock(Disk(), tmp_path)
        with DirectoryLock(Disk(), tmp_path.parent):  # another directory
            pass
    with DirectoryLock(Disk(), tmp_path):
        pass
    (tmp_path.parent / ".lock").unlink()


def test_what_a_directory_is(tmp_path: Path) -> None:
    assert holds_segments(SAMPLES / "good/mixed-0")
    assert not holds_segments(GOLDEN / "unclean/crashed")
    assert is_log_directory(GOLDEN / "unclean/crashed")
    assert not is_log_directory(SAMPLES / "good/mixed-0")
    assert not is_log_directory(tmp_path)
    (tmp_path / "empty-3").mkdir()
    assert holds_segments(tmp_path / "empty-3")


def test_partitions_and_odd_directories(tmp_path: Path) -> None:
    unique = "0123456789abcdef0123456789abcdef"
    names = ["b-1", "b-0", "a-10", "a-9", f"a-1.{unique}-delete", f"a-2.{unique}-future", f"a-3.{unique}-stray"]
    for name in [*names, "remote-log-index-cache", "lost+found", "a-x"]:
        (tmp_path / name).mkdir()
    directory = LogDirectory(tmp_path)
    found = [(each.name.topic, each.name.partition, each.name.state) for each in directory.partitions()]
    assert found == [
        ("a", 1, "delete"),
        ("a", 2, "future"),
        ("a", 3, "stray"),
        ("a", 9, ""),
        ("a", 10, ""),
        ("b", 0, ""),
        ("b", 1, ""),
    ]
    assert [each.file for each in directory.refusals()] == ["a-x", "lost+found"]


def test_checkpoints(tmp_path: Path) -> None:
    directory = LogDirectory(tmp_path)
    assert directory.offsets(FileKind.RECOVERY_POINTS) == {}
    directory.write_offsets(Disk(), FileKind.RECOVERY_POINTS, {TopicPartition("t", 1): 5, TopicPartition("a", 0): 7})
    assert (tmp_path / FileKind.RECOVERY_POINTS).read_text() == "0\n2\na 0 7\nt 1 5\n"
    assert directory.offsets(FileKind.RECOVERY_POINTS) == {("t", 1): 5, ("a", 0): 7}


def test_recovery_keeps_high_watermarks_within_the_log(tmp_path: Path) -> None:
    """Recovery keeps the high watermarks of existing partitions; it removes the marker with its first change, and keeps
    log start offsets within a segment."""
    partition = tmp_path / "in/mixed-0"
    partition.mkdir(parents=True)
    for path in (SAMPLES / "good/mixed-0").iterdir():
        (partition / path.name).write_bytes(path.read_bytes())
    log = max(partition.glob("*.log"))
    log.write_bytes(log.read_bytes()[:-1])
    (tmp_path / "in/replication-offset-checkpoint").write_text("0\n2\nmixed 0 999999\nother 0 5\n")
    (tmp_path / "in/log-start-offset-checkpoint").write_text("0\n1\nmixed 0 1\n")
    (tmp_path / "in/.kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":5}')
    (done,) = Recovery(tmp_path / "in", 0, clean=False).in_place("backup")
    assert done.offsets is not None
    directory = LogDirectory(tmp_path / "in")
    end = done.offsets.log_end_offset
    assert directory.offsets(FileKind.REPLICATION_OFFSETS) == {("mixed", 0): end, ("other", 0): 5}
    assert directory.offsets(FileKind.RECOVERY_POINTS) == {("mixed", 0): end}
    assert directory.offsets(FileKind.LOG_START_OFFSETS) == {("mixed", 0): 1}
    assert not directory.was_shut_down_cleanly
