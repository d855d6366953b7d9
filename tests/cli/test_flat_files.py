"""The files of a partition that lie flat in the log directory, as after a zip made on Windows or an export of an object
store: verify tells how to make the directory, and salvage makes it."""

import json
import subprocess
from pathlib import Path

import pytest

from kcli.log.flat_files import flat_files, flat_partitions
from kcli.protocol.topic_partition import TopicPartition
from tests.cli.run import kcli
from tests.inspector.test_verify_causes import PARTITION, directory, loud

__all__ = ["directory"]  # a fixture
SEPARATORS = ["\\", "%2F", "%5C", "_", ":"]


def content(path: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in sorted(path.iterdir())}


def flatten(path: Path, separator: str) -> dict[str, bytes]:
    """Move the files of a partition's directory into the log directory, and return them by their names before."""
    before = content(path)
    for each in sorted(path.iterdir()):
        each.rename(path.with_name(f"{path.name}{separator}{each.name}"))
    path.rmdir()
    return before


@pytest.mark.parametrize("separator", SEPARATORS)
def test_the_next_step_of_verify_makes_the_directory(directory: Path, separator: str) -> None:
    before = flatten(directory / PARTITION, separator)
    (finding,) = loud(directory)
    assert (finding.kind, finding.path, finding.severity) == ("partition-missing", str(directory / PARTITION), "error")
    assert f"its {len(before):,} files lie flat in the log directory, as {PARTITION}{separator}" in str(finding.found)
    assert finding.lost_last_offset is None
    for shell in ("sh", "bash"):
        subprocess.run([shell, "-n", "-c", str(finding.command)], check=True)
    subprocess.run(["sh", "-c", str(finding.command)], check=True)
    assert content(directory / PARTITION) == before
    assert loud(directory) == []


@pytest.mark.parametrize("separator", SEPARATORS)
def test_salvage_makes_the_directory(directory: Path, tmp_path: Path, separator: str) -> None:
    before = flatten(directory / PARTITION, separator)
    shown = kcli("recover", "--salvage", "--out", tmp_path / "new", "--format", "jsonl", directory)
    assert shown.status == 0
    found = [json.loads(line) for line in shown.stdout.splitlines()]
    (row,) = (each for each in found if each.get("partition") == PARTITION and each["kind"] == "restored")
    assert row["flat"] == sorted(f"{PARTITION}{separator}{name}" for name in before)
    made = content(tmp_path / "new" / PARTITION)
    logs = {name for name in before if name.endswith((".log", ".metadata"))}
    assert {name: made[name] for name in logs} == {name: before[name] for name in logs}
    assert [path.name for path in (tmp_path / "new").glob(f"{PARTITION}?*")] == []
    assert loud(tmp_path / "new") == []


def test_a_dry_run_tells_that_kafka_makes_an_empty_directory(directory: Path) -> None:
    flatten(directory / PARTITION, "\\")
    shown = kcli("recover", directory)
    assert shown.status == 1
    words = "Kafka makes an empty one, and does not see the partition's files that lie flat in the log directory"
    assert f"{words}: {PARTITION}\\" in shown.stdout
    assert "\nnext             kcli recover --salvage --out NEW" in shown.stdout


def test_a_recovery_in_place_leaves_them(directory: Path) -> None:
    flatten(directory / PARTITION, "\\")
    before = sorted(path.name for path in directory.glob(f"{PARTITION}*"))
    shown = kcli("recover", "--salvage", "--in-place", directory)
    assert "does not see the partition's files" in shown.stdout
    assert sorted(path.name for path in directory.glob(f"{PARTITION}*")) == before


def test_those_of_an_older_topic_are_not_the_partitions(directory: Path) -> None:
    """The id in partition.metadata decides."""
    flatten(directory / PARTITION, "\\")
    metadata = directory / f"{PARTITION}\\partition.metadata"
    text = metadata.read_text()
    metadata.write_text(text.replace(text.rpartition(": ")[2].strip(), "AAAAAAAAAAAAAAAAAAAAAQ"))
    (finding,) = (each for each in loud(directory) if each.kind == "partition-missing")
    assert "flat" not in str(finding.found)


def test_files_beside_a_directory_are_no_partition(directory: Path) -> None:
    (directory / f"{PARTITION}\\00000000000000000000.log").write_bytes(b"")
    (directory / "notes_1").write_bytes(b"")
    (directory / "java-none-7_notes.log").write_bytes(b"")
    assert flat_partitions(directory) == {}
    assert flat_files(directory / PARTITION) == {}
    (directory / "java-none-7_00000000000000000000.log").write_bytes(b"")
    assert flat_partitions(directory) == {TopicPartition("java-none", 7): directory / "java-none-7"}
