"""A node with several log directories: one backup of all, and as many new directories."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from formats.file_name import FileKind
from kcli.backup.backup import InTwoDirectories, back_up
from kcli.backup.runs import read, runs
from kcli.log.disk import Disk
from kcli.log.log_directory import LogDirectory
from kcli.protocol.topic_partition import TopicPartition
from kcli.tier.local import LocalStore
from kcli.tier.store import ObjectPart
from tests.cli.run import kcli
from tests.conftest import GOLDEN, files_below

MOVED = ("t-mix-0", "t-txn-0", "__consumer_offsets-1")
OTHER_ID = "b" * 22


@pytest.fixture
def disks(tmp_path: Path) -> list[Path]:
    """The log directories of a node: some partitions are in the second one."""
    one, two = tmp_path / "disk1", tmp_path / "disk2"
    shutil.copytree(GOLDEN / "txn/data", one)
    two.mkdir()
    for name in MOVED:
        if (one / name).exists():
            (one / name).rename(two / name)
    meta = (one / FileKind.META_PROPERTIES).read_text()
    own = next(line for line in meta.splitlines() if line.startswith("directory.id="))
    (two / FileKind.META_PROPERTIES).write_text(meta.replace(own, f"directory.id={OTHER_ID}"))
    for kind in (FileKind.LOG_START_OFFSETS, FileKind.REPLICATION_OFFSETS, FileKind.RECOVERY_POINTS):
        offsets = LogDirectory(one).legible_offsets(kind)
        for directory in (one, two):
            here = {each: offset for each, offset in offsets.items() if (directory / str(each)).exists()}
            write_offsets(directory, kind, here)
    return [one, two]


def write_offsets(directory: Path, kind: FileKind, offsets: Mapping[TopicPartition, int]) -> None:
    LogDirectory(directory).write_offsets(Disk(), kind, offsets)


def logs(directory: Path) -> dict[str, bytes]:
    found = {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*.log")}
    return {name: data for name, data in found.items() if "__cluster_metadata" not in name}


def test_each_directory_comes_back(disks: list[Path], tmp_path: Path) -> None:
    store, new = tmp_path / "store", [tmp_path / "new1", tmp_path / "new2"]
    before = [files_below(each) for each in disks]
    ended = kcli("backup", *disks, "--to", store, "--format", "jsonl")
    assert (ended.stderr, ended.status) == ("", 0)
    assert json.loads(ended.stdout)["partitions"] == 10
    assert [files_below(each) for each in disks] == before
    assert "new: 0 objects" in kcli("backup", *disks, "--to", store).stdout
    config = tmp_path / "server.properties"
    config.write_text(f"log.dirs={disks[1]}\nmetadata.log.dir={disks[0]}\n")
    counted = kcli("backup", "--config", config, "--to", tmp_path / "other", "--format", "jsonl").stdout
    assert json.loads(counted)["partitions"] == json.loads(ended.stdout)["partitions"]
    ended = kcli("restore", store, "--out", new[0], "--out", new[1])
    assert (ended.stderr, ended.status) == ("", 0)
    assert ended.stdout.splitlines()[-1] == f"Next: kcli verify {new[0]} {new[1]}"
    for old, restored in zip(disks, new, strict=True):
        assert logs(restored) == logs(old) != {}
        for name in (FileKind.META_PROPERTIES, FileKind.LOG_START_OFFSETS, FileKind.REPLICATION_OFFSETS):
            assert (restored / name).read_bytes() == (old / name).read_bytes(), name
        points = LogDirectory(restored).legible_offsets(FileKind.RECOVERY_POINTS)
        assert {str(each) for each in points} == {each.name for each in restored.iterdir() if each.is_dir()}
    ended = kcli("verify", *new)  # the id of disk2 is this test's own
    assert "meta-properties-node" in ended.stdout
    assert "1 error in" in ended.stdout


def test_topics_of_all_directories_come_back_in_one(disks: list[Path], tmp_path: Path) -> None:
    store = tmp_path / "store"
    kcli("backup", *disks, "--to", store)
    ended = kcli("restore", store, "--topic", "t-mix", "--topic", "t-txn", "--out", tmp_path / "new")
    assert (ended.stderr, ended.status) == ("", 0)
    both = {name: data for each in disks for name, data in logs(each).items()}
    assert logs(tmp_path / "new") == {name: both[name] for name in both if name.startswith(("t-mix", "t-txn"))}
    assert kcli("verify", tmp_path / "new").status == 0


def test_future_deleted_and_stray_replicas_are_left_out(disks: list[Path], tmp_path: Path) -> None:
    for state in ("future", "delete", "stray"):
        shutil.copytree(disks[0] / "t-quiet-0", disks[1] / f"t-quiet-0.{'a' * 32}-{state}")
    ended = kcli("backup", *disks, "--to", tmp_path / "store", "--format", "jsonl")
    assert (ended.stderr, ended.status) == ("", 0)
    store = LocalStore(tmp_path / "store")
    found = [(str(each.partition), each.directory) for each in read(store, runs(store)[-1]).partitions]
    assert len(found) == 10
    assert ("t-quiet-0", 0) in found


def test_a_partition_in_two_directories_is_refused(disks: list[Path], tmp_path: Path) -> None:
    shutil.copytree(disks[0] / "t-quiet-0", disks[1] / "t-quiet-0")
    ended = kcli("backup", *disks, "--to", tmp_path / "store")
    both = f"{disks[0] / 't-quiet-0'} and {disks[1] / 't-quiet-0'}"
    assert ended.complaint == f"kcli: {both}: one partition, and Kafka does not start with both"
    assert ended.status == 1


class MovesReplica(LocalStore):
    """A store at whose first object a broker ends the move of a replica: for a moment it is in both directories."""

    def __init__(self, home: Path, disks: list[Path], *, is_left: bool) -> None:
        super().__init__(home)
        self._disks, self._is_left, self.is_done = disks, is_left, False

    def write(self, name: str, parts: Iterable[ObjectPart]) -> None:
        if not self.is_done:
            self.is_done = True
            source, target = (each / "t-quiet-0" for each in self._disks)
            shutil.copytree(source, target)
            if not self._is_left:
                source.rename(source.with_name(f"t-quiet-0.{'a' * 32}-delete"))
        super().write(name, parts)


def test_a_replica_that_is_moved_meanwhile_is_in_the_run(disks: list[Path], tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    store = MovesReplica(tmp_path / "store", disks, is_left=False)
    result = back_up(disks, store, lambda: 1000)
    assert store.is_done
    assert {str(each.partition): each.directory for each in result.manifest.partitions}["t-quiet-0"] == 1
    assert len(result.manifest.partitions) == 10


def test_a_move_that_does_not_end_is_told(disks: list[Path], tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    shutil.copytree(disks[0] / "t-quiet-0", disks[1] / "t-quiet-0")
    with pytest.raises(InTwoDirectories):
        back_up(disks, LocalStore(tmp_path / "store"), lambda: 1000, tries=1)
    assert list((tmp_path / "store").iterdir()) == []


def test_the_store_of_a_node_keeps_all_its_directories(disks: list[Path], tmp_path: Path) -> None:
    """One may be added. One that is left out would be missing in all later runs."""
    store = tmp_path / "store"
    assert kcli("backup", disks[0], "--to", store).status == 0
    assert kcli("backup", *disks, "--to", store).status == 0
    ended = kcli("backup", disks[0], "--to", store)
    assert ended.status == 2
    assert f"directory.id={OTHER_ID}): give another --to" in ended.complaint
    assert kcli("restore", store, "--at", "now", "--out", tmp_path / "x").status == 2
    ended = kcli("restore", store, "--out", tmp_path / "new")
    assert ended.complaint == (
        f"kcli: the run has 2 log directories: give one --out for each in this order: {disks[0]}, {disks[1]}"
    )
    assert ended.status == 2
    ended = kcli("restore", store, "--topic", "t-mix", "--out", tmp_path / "a", "--out", tmp_path / "b")
    assert ended.complaint == "kcli: --topic restores to one directory: give one --out"


def test_directories_of_different_nodes(disks: list[Path], tmp_path: Path) -> None:
    meta = disks[1] / FileKind.META_PROPERTIES
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=7"))
    ended = kcli("backup", *disks, "--to", tmp_path / "store")
    assert ended.complaint.endswith("are of different nodes: give each a --to of its own")
    ended = kcli("backup", disks[0], disks[0], "--to", tmp_path / "store")
    assert ended.complaint == "kcli: a log directory is given twice"
