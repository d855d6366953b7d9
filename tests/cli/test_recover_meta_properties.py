"""meta.properties is missing or damaged: `kcli recover --salvage` and `verify` take its ids from other files."""

from __future__ import annotations

import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from formats.file_name import FileKind
from kcli.log.log_directory import read_properties
from tests.cli.run import kcli
from tests.metadata_damage import copied
from tests.two_directories import two_directories

META = FileKind.META_PROPERTIES
DAMAGE = {
    "missing": None,
    "empty": b"",
    "zeros": bytes(122),
    "cut": b"#\n#Fri Nov 21 11:00:00 UTC 2026\nnode.id=1\nversion=1\n",
}


def damaged(directory: Path, damage: str) -> None:
    data = DAMAGE[damage]
    if data is None:
        (directory / META).unlink()
    else:
        (directory / META).write_bytes(data)


@pytest.mark.parametrize("damage", DAMAGE)
def test_salvage_writes_it_where_the_node_is_alone(tmp_path: Path, damage: str) -> None:
    """No other node has the cluster.id, so any will do. node.id and directory.id are those of the metadata log."""
    directory = copied(tmp_path)
    before = read_properties(directory / META)
    damaged(directory, damage)
    assert re.search("^next +kcli recover --salvage", kcli("recover", directory).stdout, re.MULTILINE)
    ended = kcli("recover", "--salvage", "--out", tmp_path / "new", directory)
    assert ended.status == 0
    assert "keep Kafka from starting" not in ended.stdout
    assert "written anew, with a new cluster.id" in ended.stdout
    after = read_properties(tmp_path / "new" / META)
    assert {**after, "cluster.id": ""} == {**before, "cluster.id": ""}
    assert re.fullmatch("[A-Za-z0-9_-]{22}", after["cluster.id"])
    assert kcli("verify", tmp_path / "new").status == 0


def test_in_place(tmp_path: Path) -> None:
    directory = copied(tmp_path)
    before = read_properties(directory / META)
    damaged(directory, "zeros")
    assert kcli("recover", "--salvage", "--in-place", directory).status == 0
    assert read_properties(directory / META)["directory.id"] == before["directory.id"]


@pytest.mark.parametrize("how", ["--out", "--in-place"])
def test_a_directory_of_that_name_counts_as_missing(tmp_path: Path, how: str) -> None:
    """As after `docker run -v` of a file that was not there. Kafka 4.3.0 does not start with it."""
    directory = copied(tmp_path)
    before = read_properties(directory / META)
    (directory / META).unlink()
    (directory / META).mkdir()
    (directory / META / "inside").write_bytes(b"kept")
    ended = kcli("recover", directory)
    assert not ended.stderr
    assert ended.status == 1
    assert "Kafka would not start: cannot be read: Is a directory" in ended.stdout
    assert re.search("^next +kcli recover --salvage --out NEW", ended.stdout, re.MULTILINE)
    shown = kcli("verify", directory).stdout.splitlines()
    assert "a directory: Kafka does not start with it (Is a directory); expected a file" in shown[0]
    new = tmp_path / "new"
    assert kcli("recover", "--salvage", how, *([new] if how == "--out" else []), directory).status == 0
    after = read_properties((new if how == "--out" else directory) / META)
    assert {**after, "cluster.id": ""} == {**before, "cluster.id": ""}
    if how == "--in-place":
        (backup,) = directory.glob("*.tar")
        with tarfile.open(backup) as tar:
            assert f"{META}/inside" in tar.getnames()


@pytest.mark.parametrize("damage", DAMAGE)
def test_the_next_step_of_verify_writes_it(tmp_path: Path, damage: str) -> None:
    directory = copied(tmp_path)
    before = read_properties(directory / META)
    damaged(directory, damage)
    shown = kcli("verify", directory).stdout.splitlines()
    assert re.match(f"error +meta-properties-[a-z]+ +{re.escape(str(directory / META))} ", shown[0])
    command = next(line for line in shown if "Next: " in line).split("Next: ")[1]
    subprocess.run(["bash", "-c", command], check=True)
    after = read_properties(directory / META)
    assert {**after, "cluster.id": ""} == {**before, "cluster.id": ""}
    assert len(after["cluster.id"]) == 22
    assert kcli("verify", directory).status == 0


@pytest.mark.parametrize(
    ("encoding", "told"),
    [("utf-8-sig", "begins with a UTF-8 byte order mark"), ("utf-16", "UTF-16, not ISO-8859-1")],
)
def test_behind_a_byte_order_mark_the_ids_are_legible(tmp_path: Path, encoding: str, told: str) -> None:
    """Windows Notepad or PowerShell has saved the file: Kafka finds no key "version"."""
    directory = copied(tmp_path)
    before = read_properties(directory / META)
    lines = [f"{name}={before[name]}" for name in ("version", "cluster.id", "node.id", "directory.id")]
    (directory / META).write_bytes("\r\n".join([*lines, ""]).encode(encoding))
    shown = kcli("verify", directory).stdout.splitlines()
    assert told in shown[0]
    assert kcli("recover", "--salvage", "--out", tmp_path / "new", directory).status == 0
    assert read_properties(tmp_path / "new" / META) == before
    command = next(line for line in shown if "Next: " in line).split("Next: ")[1]
    subprocess.run(["bash", "-c", command], check=True)
    assert read_properties(directory / META) == before


@pytest.mark.parametrize("which", [0, 1])
def test_the_ids_of_the_other_log_directory(tmp_path: Path, which: int) -> None:
    *directories, server = two_directories(tmp_path)
    before = read_properties(directories[which] / META)
    (directories[which] / META).unlink()
    assert kcli("recover", "--salvage", "--config", server, "--out", tmp_path / "new", directories[which]).status == 0
    assert read_properties(tmp_path / "new" / META) == before


def test_not_where_other_voters_know_the_cluster(tmp_path: Path) -> None:
    """With a cluster.id of its own a node cannot join the others."""
    directory = copied(tmp_path, "kraft/controller-100")
    (directory / META).write_bytes(b"")
    ended = kcli("recover", "--salvage", "--out", tmp_path / "new", directory)
    assert ended.status == 1
    assert "1 would keep Kafka from starting" in ended.stdout
    shutil.rmtree(tmp_path / "new")


@pytest.mark.parametrize("which", [0, 1])
def test_the_ids_of_another_node_in_a_registered_directory(tmp_path: Path, which: int) -> None:
    """The file comes from another node's backup: the metadata log has the directory's node."""
    *directories, server = two_directories(tmp_path)
    path = directories[which] / META
    before = read_properties(path)
    text = path.read_text().replace(f"cluster.id={before['cluster.id']}", "cluster.id=BBECAwQFBgcICQoLDA0ODw")
    path.write_text(text.replace(f"node.id={before['node.id']}", "node.id=7"))
    shown = kcli("verify", "--config", server, *directories).stdout.splitlines()
    assert re.match(f"error +meta-properties-node +{re.escape(str(path))} ", shown[0])
    ended = kcli("recover", "--salvage", "--config", server, "--out", tmp_path / "new", directories[which])
    assert ended.status == 0
    assert read_properties(tmp_path / "new" / META) == before
    command = next(line for line in shown if "Next: " in line).split("Next: ")[1]
    subprocess.run(["bash", "-c", command], check=True)
    assert read_properties(path) == before
    assert kcli("verify", "--config", server, *directories).status == 0


def test_a_directory_beside_with_the_same_directory_id(tmp_path: Path) -> None:
    """Without --config, too; a directory with the same partitions is a copy, such as a backup, and no finding."""
    one, two, _ = two_directories(tmp_path)
    shutil.copy(one / META, two / META)
    for directory, other in ((one, two), (two, one)):
        ended = kcli("recover", directory)
        assert ended.status == 1
        assert f"that of {other / META}, too, if log.dirs names both (Duplicate directory ID)" in ended.stdout
        shown = kcli("verify", directory)
        assert shown.status == 1
        assert f"Next: kcli verify {directory} {other}" in shown.stdout
    shutil.rmtree(two)
    shutil.copytree(one, two)
    for command in ("recover", "verify"):
        assert "Duplicate directory ID" not in kcli(command, one).stdout


def test_the_file_of_a_broker_with_zookeeper(tmp_path: Path) -> None:
    """Kafka 4.3 starts with version 0, and gives the directory another id."""
    directory = copied(tmp_path)
    cluster_id = read_properties(directory / META)["cluster.id"]
    (directory / META).write_text(f"version=0\nbroker.id=1\ncluster.id={cluster_id}\n")
    first = kcli("verify", directory).stdout.splitlines()[0]
    assert first.startswith(f"error   meta-properties-node  {directory / META}")
    assert "no directory.id, and version 0, as brokers with ZooKeeper wrote it: Kafka gives it a new one" in first
