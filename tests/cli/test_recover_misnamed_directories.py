"""Partition directories that were moved aside by hand, under names with which Kafka does not start: salvage restores
their names where partition.metadata and the name prove the partition."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kcli.inspector.cluster_metadata import read_image
from kcli.log.log_directory import LogDirectory
from tests.cli.run import kcli
from tests.inspector.test_verify_causes import OTHER, PARTITION, directory, logs, loud

__all__ = ["directory"]  # a fixture


def batches(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in logs(directory))


def recovered(directory: Path, *options: str | Path) -> list[dict[str, Any]]:
    ended = kcli("recover", "--salvage", "--format", "jsonl", *options, directory)
    return [json.loads(line) for line in ended.stdout.splitlines()]


def make_empty(directory: Path) -> None:
    """Make an empty directory with the topic's id, as an operator does in place of one moved aside."""
    (directory / PARTITION).mkdir()
    away = next(each for each in directory.iterdir() if each.name.startswith(PARTITION) and each.name != PARTITION)
    shutil.copyfile(away / "partition.metadata", directory / PARTITION / "partition.metadata")


@pytest.mark.parametrize("suffix", [".bak", "_old", " (copy)", ".20261123", "~"])
@pytest.mark.parametrize("is_emptied", [False, True])
@pytest.mark.parametrize("is_in_place", [False, True])
def test_a_directory_moved_aside(
    directory: Path, tmp_path: Path, suffix: str, is_emptied: bool, is_in_place: bool
) -> None:
    before = batches(directory)
    away = (directory / PARTITION).rename(directory / f"{PARTITION}{suffix}")
    if is_emptied:
        make_empty(directory)
    (finding,) = (each for each in loud(directory) if each.severity == "error")
    assert (finding.kind, finding.path) == ("partition-missing", str(directory / PARTITION))
    assert away.name in str(finding.found)
    done = directory if is_in_place else tmp_path / "new"
    rows = recovered(directory, *(["--in-place"] if is_in_place else ["--out", done]))
    assert [(row["partition"], row["name"]) for row in rows if row["kind"] == "renamed"] == [(away.name, PARTITION)]
    assert [row["kind"] for row in rows if row["kind"] in ("gap", "end-missing", "partition-missing")] == []
    assert batches(done) == before
    assert [each for each in loud(done) if each.severity == "error"] == []
    assert LogDirectory(done).refusals() == []


@pytest.mark.parametrize("is_missing", [False, True])
@pytest.mark.parametrize("is_in_place", [False, True])
def test_a_stray_with_a_lost_topic_id_beside_the_empty_directory_that_the_start_made(
    directory: Path, tmp_path: Path, is_missing: bool, is_in_place: bool
) -> None:
    before, right = batches(directory), (directory / PARTITION / "partition.metadata").read_bytes()
    away = (directory / PARTITION).rename(directory / f"{PARTITION}.8e3e070afda343fabb78d968b7b93ccd-stray")
    make_empty(directory)
    own = away / "partition.metadata"
    if is_missing:
        own.unlink()
    else:
        at = right.index(b"topic_id: ") + len(b"topic_id: ") + 4
        own.write_bytes(right[:at] + (b"B" if right[at : at + 1] == b"A" else b"A") + right[at + 1 :])
    (finding,) = (each for each in loud(directory) if each.severity == "error")
    assert (finding.kind, finding.path) == ("partition-missing", str(directory / PARTITION))
    assert away.name in str(finding.found)
    (row,) = (json.loads(line) for line in kcli("recover", "--format", "jsonl", directory).stdout.splitlines()[:1])
    assert (row["kind"], row["partition"]) == ("partition-missing", PARTITION)
    done = directory if is_in_place else tmp_path / "new"
    rows = recovered(directory, *(["--in-place"] if is_in_place else ["--out", done]))
    assert [(row["partition"], row["name"]) for row in rows if row["kind"] == "renamed"] == [(away.name, PARTITION)]
    assert batches(done) == before
    assert (done / PARTITION / "partition.metadata").read_bytes().split() == right.split()
    assert [each for each in loud(done) if each.severity == "error"] == []


@pytest.mark.parametrize("is_in_place", [False, True])
def test_a_directory_moved_into_that_of_another_partition(directory: Path, tmp_path: Path, is_in_place: bool) -> None:
    """As by `mv ONE OTHER`, where OTHER is there."""
    before = batches(directory)
    away = (directory / PARTITION).rename(directory / OTHER / PARTITION)
    (finding,) = (each for each in loud(directory) if each.severity == "error")
    assert (finding.kind, finding.path) == ("partition-missing", str(directory / PARTITION))
    assert str(away) in str(finding.found)
    done = directory if is_in_place else tmp_path / "new"
    rows = recovered(directory, *(["--in-place"] if is_in_place else ["--out", done]))
    assert [row["kind"] for row in rows if row["kind"] in ("gap", "end-missing", "partition-missing")] == []
    assert batches(done) == before
    assert [each for each in loud(done) if each.severity == "error"] == []


@pytest.mark.parametrize("is_in_place", [False, True])
def test_a_directory_in_a_directory_of_its_own_name(directory: Path, tmp_path: Path, is_in_place: bool) -> None:
    """As by `tar x` one level too deep: the outer one has no file, not even partition.metadata."""
    before = batches(directory)
    away = (directory / PARTITION).rename(tmp_path / "away")
    (directory / PARTITION).mkdir()
    inner = away.rename(directory / PARTITION / PARTITION)
    (finding,) = (each for each in loud(directory) if each.severity == "error")
    assert (finding.kind, finding.path) == ("partition-missing", str(directory / PARTITION))
    assert str(inner) in str(finding.found)
    told = kcli("recover", directory).stdout
    assert f"does not serve {PARTITION}/{PARTITION}, which has the records; --salvage --out gives it the name" in told
    assert "\nstray" not in told
    done = directory if is_in_place else tmp_path / "new"
    rows = recovered(directory, *(["--in-place"] if is_in_place else ["--out", done]))
    (row,) = (row for row in rows if row["kind"] == "renamed")
    assert (row["partition"], row["inside"], row["name"]) == (PARTITION, PARTITION, PARTITION)
    assert {row["kind"] for row in rows} & {"gap", "end-missing", "partition-missing", "stray", "topic-id"} == set()
    assert batches(done) == before
    assert [each for each in loud(done) if each.severity == "error"] == []


def test_a_copy_beside_the_directory_is_left_out(directory: Path, tmp_path: Path) -> None:
    """No offset is there twice."""
    shutil.copytree(directory / PARTITION, directory / f"{PARTITION} (copy)")
    rows = recovered(directory, "--out", tmp_path / "new")
    assert [row for row in rows if row["kind"] == "renamed"] == []
    assert not (tmp_path / "new" / f"{PARTITION} (copy)").exists()


def test_the_directory_of_another_topic_is_left_out(directory: Path, tmp_path: Path) -> None:
    shutil.rmtree(directory / PARTITION)
    shutil.copytree(directory / OTHER, directory / f"{PARTITION}.bak")
    rows = recovered(directory, "--out", tmp_path / "new")
    assert [row for row in rows if row["kind"] == "renamed"] == []
    assert PARTITION in [row["partition"] for row in rows if row["kind"] == "partition-missing"]


def test_a_copy_under_the_number_of_no_partition_is_a_stray(directory: Path, tmp_path: Path) -> None:
    """The metadata log is whole: salvage adds no partition to the checkpoints that it does not have."""
    (directory / ".kafka_cleanshutdown").unlink(missing_ok=True)
    copy = shutil.copytree(directory / PARTITION, directory / f"{PARTITION.rpartition('-')[0]}-7")
    rows = recovered(directory, "--out", tmp_path / "new")
    assert [row for row in rows if row["kind"].startswith("metadata-")] == []
    (row,) = (row for row in rows if row["kind"] == "stray")
    assert (row["partition"], row["kept"]) == (copy.name, False)


@pytest.mark.parametrize("is_clean", [False, True])
@pytest.mark.parametrize("is_stray", [False, True])
def test_a_directory_with_a_wrong_number(directory: Path, tmp_path: Path, is_clean: bool, is_stray: bool) -> None:
    """It has the topic's id, and reaches the only missing partition's log end offset in the checkpoints: it is no
    partition that the metadata log lacks."""
    if not is_clean:
        (directory / ".kafka_cleanshutdown").unlink(missing_ok=True)
    before, topic = batches(directory), PARTITION.rpartition("-")[0]
    whole = read_image(directory)
    suffix = ".8e3e070afda343fabb78d968b7b93ccd-stray" if is_stray else ""
    away = (directory / PARTITION).rename(directory / f"{topic}-7{suffix}")
    (finding,) = (each for each in loud(directory) if each.severity == "error")
    assert (finding.kind, finding.path) == ("partition-missing", str(directory / PARTITION))
    assert away.name in str(finding.found)
    assert finding.command == f"mv -nT -- '{away}' '{directory / PARTITION}'"
    told = [json.loads(line) for line in kcli("recover", "--format", "jsonl", directory).stdout.splitlines()]
    assert [row for row in told if row["kind"].startswith("metadata-")] == []
    new = tmp_path / "new"
    rows = recovered(directory, "--out", new)
    assert [(row["partition"], row["name"]) for row in rows if row["kind"] == "renamed"] == [(away.name, PARTITION)]
    assert batches(new) == before
    saved = read_image(new)
    assert whole is not None
    assert saved is not None
    assert saved.topics[topic].partitions.keys() == whole.topics[topic].partitions.keys()


def test_a_copy_with_a_wrong_number_is_not_the_missing_partition(directory: Path, tmp_path: Path) -> None:
    """It has the records of a partition that is there."""
    topic = PARTITION.rpartition("-")[0]
    other = next(each for each in directory.glob(f"{topic}-[0-9]*") if each.name != PARTITION)
    shutil.rmtree(directory / PARTITION)
    shutil.copytree(other, directory / f"{topic}-7")
    rows = recovered(directory, "--out", tmp_path / "new")
    assert [row for row in rows if row["kind"] == "renamed"] == []
