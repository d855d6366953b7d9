"""A file that cannot be read is named, the rest is shown nevertheless, and the exit status is 2.

Root can read files without permission; but nobody can read a link to itself or to nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from kcli.inspector.groups import GroupFiles
from tests.cli.run import kcli
from tests.conftest import GOLDEN, SAMPLES
from tests.metadata_damage import copied

LOG = "00000000000000000000.log"
CIRCLE, MISSING = "Too many levels of symbolic links", "No such file or directory"


def loop(path: Path) -> None:
    """Replace a file by a link to itself."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    path.symlink_to(path.name)


def dangle(path: Path) -> None:
    """Replace a file by a link to nothing."""
    loop(path)
    path.unlink()
    path.symlink_to("nowhere")


def held(directory: Path, topic: str) -> Path:
    """Return a partition of the topic, which has records."""
    return max(directory.glob(f"{topic}-*/{LOG}"), key=lambda log: log.stat().st_size).parent


@pytest.mark.parametrize("how", ["file", "directory", "nowhere"])
def test_groups(tmp_path: Path, how: str) -> None:
    directory = copied(tmp_path, "groups/data")
    whole = {each.group for each in GroupFiles([directory]).all()}
    partition = held(directory, "__consumer_offsets")
    if how == "nowhere":
        dangle(partition)
    else:
        loop(partition / LOG if how == "file" else partition)
    for command in ("list", "describe", "members"):
        ended = kcli("groups", command, "--data-dir", directory, "--format", "jsonl")
        assert ended.status == 2, ended.stderr
        assert partition.name in ended.complaint
        assert (MISSING if how == "nowhere" else CIRCLE) in ended.complaint
    ended = kcli("groups", "list", "--data-dir", directory, "--format", "jsonl")
    told = {json.loads(line)["group"] for line in ended.stdout.splitlines()}
    assert told
    assert told < whole


def test_an_index_that_is_a_link_to_itself_is_not_missing(tmp_path: Path) -> None:
    """Kafka does not start with it, so that nothing rebuilds it."""
    directory = copied(tmp_path, "groups/data")
    partition = held(directory, "__consumer_offsets")
    loop((partition / LOG).with_suffix(".index"))
    ended = kcli("verify", "--format", "jsonl", directory)
    assert CIRCLE in ended.complaint
    assert "index-missing" not in {json.loads(line).get("kind") for line in ended.stdout.splitlines()}


def test_ends_that_cannot_be_read(tmp_path: Path) -> None:
    directory = copied(tmp_path, "groups/data")
    before = kcli("groups", "describe", "--data-dir", directory, "--format", "jsonl")
    topics = [json.loads(line)["offsets"] for line in before.stdout.splitlines()]
    topic, number = next((row["topic"], row["partition"]) for rows in topics for row in rows if row["lag"] is not None)
    for log in (directory / f"{topic}-{number}").glob("*.log"):
        loop(log)
    ended = kcli("groups", "describe", "--data-dir", directory, "--format", "jsonl")
    assert ended.status == 2
    assert f"{topic}-{number}" in ended.complaint
    assert len(ended.stdout.splitlines()) == len(before.stdout.splitlines())


def test_all_of_a_topic(tmp_path: Path) -> None:
    directory = copied(tmp_path, "groups/data")
    for partition in list(directory.glob("__consumer_offsets-*")):
        loop(partition)
    ended = kcli("groups", "list", "--data-dir", directory)
    assert ended.status == 2
    assert CIRCLE in ended.complaint
    assert "no partition" not in ended.complaint


def test_metadata_log(tmp_path: Path) -> None:
    directory = copied(tmp_path, "groups/data")
    (directory / "t-9").mkdir()
    (directory / "t-9/partition.metadata").write_text("garbage")
    for log in (directory / "__cluster_metadata-0").glob("*.log"):
        loop(log)
    ended = kcli("groups", "list", "--data-dir", directory)
    assert ended.status == 2
    assert {line.partition(": ")[2].split(": ")[0] for line in ended.stderr.splitlines()} == {
        str(directory / "t-9"),
        str(directory / "__cluster_metadata-0" / LOG),
    }
    assert ended.stdout


@pytest.mark.parametrize("how", ["file", "directory"])
def test_transactions(tmp_path: Path, how: str) -> None:
    directory = copied(tmp_path, "txn/data")
    whole = kcli("transactions", "list", "--data-dir", directory).stdout.splitlines()
    partition = held(directory, "__transaction_state")
    loop(partition / LOG if how == "file" else partition)
    for command in ("list", "describe"):
        ended = kcli("transactions", command, "--data-dir", directory)
        assert ended.status == 2
        assert partition.name in ended.complaint
        assert "partitions of __transaction_state are there" not in ended.complaint
        assert 1 < len(ended.stdout.splitlines()) < len(whole)


def test_producers(tmp_path: Path) -> None:
    directory = copied(tmp_path, "txn/data")
    partition = next(each for each in sorted(directory.glob("*-0")) if not each.name.startswith("__"))
    loop(partition)
    topic = partition.name.removesuffix("-0")
    ended = kcli("transactions", "describe-producers", "--topic", topic, "--partition", "0", "--data-dir", directory)
    assert ended.status == 2
    assert CIRCLE in ended.complaint
    ended = kcli("transactions", "find-hanging", "--data-dir", directory)
    assert ended.status == 2
    assert CIRCLE in ended.stderr


@pytest.mark.parametrize("what", ["java-lz4-0", "java-lz4-0/leader-epoch-checkpoint", "java-lz4-0/partition.metadata"])
@pytest.mark.parametrize("arguments", [[], ["--out", "new"], ["--in-place"], ["--salvage", "--in-place"]])
def test_recover(tmp_path: Path, what: str, arguments: list[str]) -> None:
    directory = copied(tmp_path)
    (directory / ".kafka_cleanshutdown").unlink()
    loop(directory / what)
    ended = kcli("recover", *arguments, directory, cwd=tmp_path)
    assert (ended.status, ended.stderr) == (2, "")
    assert [line.split()[1] for line in ended.stdout.splitlines() if line.startswith("unreadable")] == [what]
    assert CIRCLE in ended.stdout
    assert "1 could not be read" in ended.stdout
    count = len([each for each in directory.iterdir() if each.is_dir()]) - (what != "java-lz4-0")
    assert f"{count} partitions" in ended.stdout
    if "--out" in arguments:
        assert (tmp_path / "new/java-zstd-0").is_dir()
        assert not (tmp_path / "new/java-lz4-0").exists()


@pytest.mark.parametrize("arguments", [[], ["--out", "new"], ["--in-place"]])
def test_recover_without_a_circular_log(tmp_path: Path, arguments: list[str]) -> None:
    """As real Kafka 4.3 does: it takes the link for no file, removes the indexes, and starts at the next segment."""
    directory = tmp_path / "java-none-0"
    shutil.copytree(SAMPLES / "good/java-none-0", directory)
    first, second = sorted(path.name for path in directory.glob("*.log"))[:2]
    loop(directory / first)
    ended = kcli("recover", "--unclean", "--format", "jsonl", *arguments, directory, cwd=tmp_path)
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    (passed,) = [row for row in rows if row["kind"] == "passed-over"]
    assert (ended.status, passed["file"]) == (0 if arguments else 1, first)
    assert f"a circular symbolic link: Kafka starts without offsets 0..{int(second[:20]) - 1:,}" in passed["reason"]
    assert {row["file"] for row in rows if row["kind"] == "index-removed"} == {
        f"{first[:20]}.index",
        f"{first[:20]}.timeindex",
    }
    (end,) = [row for row in rows if row["kind"] == "partition"]
    assert end["log_start_offset"] == int(second[:20])
    assert (directory / first).is_symlink()


@pytest.mark.parametrize("name", ["00000000000000000000.index", "00000000000000000000.timeindex"])
def test_recover_says_that_kafka_cannot_write_a_circular_index(tmp_path: Path, name: str) -> None:
    directory = copied(tmp_path)
    loop(directory / "java-lz4-0" / name)
    ended = kcli("recover", directory, cwd=tmp_path)
    assert ended.status == 2
    assert f"Kafka would not start: cannot be read: {CIRCLE}" in ended.stdout


def pipe(path: Path) -> None:
    """Replace a file by a named pipe."""
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def enlarge(path: Path) -> None:
    """Extend a file beyond the memory's size, as a sparse file."""
    with path.open("ab") as file:
        file.truncate(50 << 30)


INDEX, TXN_INDEX = "00000000000000000000.index", "00000000000000000000.txnindex"


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *(
            (name, damage)
            for name in (INDEX, "leader-epoch-checkpoint", "partition.metadata")
            for damage in (loop, pipe)
        ),
        (TXN_INDEX, enlarge),
    ],
)
def test_salvage_does_without_a_file_that_a_start_rebuilds(
    tmp_path: Path, name: str, damage: Callable[[Path], None]
) -> None:
    directory = copied(tmp_path, "groups/data")
    partition = held(directory, "__consumer_offsets")
    log = (partition / LOG).read_bytes()
    damage(partition / name)
    ended = kcli("recover", "--salvage", "--format", "jsonl", "--out", "new", directory, cwd=tmp_path)
    assert (ended.status, ended.stderr) == (2, "")
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    (row,) = [row for row in rows if row["kind"] in ("unreadable", "refused")]
    assert (row["partition"], row["file"], row["readable_bytes"]) == (partition.name, name, 0)
    assert (row["kind"] == "refused") == (name == INDEX and damage is loop), "Kafka rebuilds the index in its place"
    assert not [row for row in rows if row["kind"] == "gap"]
    assert {path.name for path in (tmp_path / "new").iterdir() if path.is_dir()} == {
        path.name for path in directory.iterdir() if path.is_dir()
    }
    assert (tmp_path / "new" / partition.name / LOG).read_bytes() == log
    assert kcli("verify", "new", cwd=tmp_path).status == 0


@pytest.mark.parametrize("damage", [loop, pipe])
def test_salvage_does_without_a_log(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    directory = copied(tmp_path, "compact/before")
    partition = next(each for each in sorted(directory.iterdir()) if len(list(each.glob("*.log"))) > 2)
    first, middle, *more = sorted(partition.glob("*.log"))
    whole = {path.name: path.read_bytes() for path in (first, *more)}
    damage(middle)
    ended = kcli("recover", "--salvage", "--out", "new", directory, cwd=tmp_path)
    assert ended.status == 2
    assert "1 partition could be read in part" in ended.stdout
    kept = {path.name: path.read_bytes() for path in (tmp_path / "new" / partition.name).glob("*.log")}
    assert kept == whole


@pytest.mark.parametrize(
    "name", ["log-start-offset-checkpoint", "recovery-point-offset-checkpoint", "replication-offset-checkpoint"]
)
def test_a_checkpoint_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    """Kafka would wait for ever at the pipe; salvage replaces the file."""
    directory = copied(tmp_path, "groups/data")
    pipe(directory / name)
    ended = kcli("recover", directory)
    assert (ended.status, ended.stderr) == (1, "")
    assert [line.split()[1] for line in ended.stdout.splitlines() if line.startswith("refused")] == [name]
    count = len([each for each in directory.iterdir() if each.is_dir()])
    assert f"{count} partitions" in ended.stdout
    ended = kcli("recover", "--salvage", "--out", "new", directory, cwd=tmp_path)
    assert ended.status == 0
    assert f"{count} partitions" in ended.stdout
    assert (tmp_path / "new" / name).is_file() or not (tmp_path / "new" / name).exists()


AS_SOMEBODY = """
import os, sys
from kcli.cli.app import app

def run(directory):
    try:
        app([*sys.argv[3:], directory], prog_name="kcli")
    except SystemExit as end:
        return end.code

shown = os.dup(1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
assert run(sys.argv[1]) == 0  # all that is imported later may not be for others to read
os.dup2(shown, 1)
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
os._exit(run(sys.argv[2]))
"""


def test_nothing_is_derived_from_a_log_that_cannot_be_read() -> None:
    with TemporaryDirectory(prefix="kcli-test-") as home:
        directory = copied(Path(home))
        Path(home).chmod(0o755)
        log = directory / "java-lz4-0" / LOG
        log.chmod(0)
        child = [sys.executable, "-c", AS_SOMEBODY, str(GOLDEN / "groups/data"), str(directory), "verify"]
        ended = subprocess.run(child, capture_output=True, text=True, check=False, timeout=60)
        log.chmod(0o644)
    assert ended.returncode == 2, ended.stderr
    assert not ended.stderr
    assert "lost" not in ended.stdout
    lines = ended.stdout.splitlines()
    assert f"error   unread-file  {log}  Permission denied" in lines[0]
    assert f"        Next: chmod u+rw -- {log}" in lines


@pytest.mark.parametrize("arguments", [["--clean"], ["--unclean"], ["--salvage"]])
def test_a_log_that_may_not_be_read_is_one_row(arguments: list[str]) -> None:
    """Kafka opens all logs when it starts, also those below the recovery point."""
    with TemporaryDirectory(prefix="kcli-test-") as home:
        directory = copied(Path(home), "groups/data")
        Path(home).chmod(0o755)
        partition = held(directory, "__consumer_offsets")
        (partition / LOG).chmod(0)
        child = [sys.executable, "-c", AS_SOMEBODY, str(GOLDEN / "groups/data"), str(directory), "recover", *arguments]
        ended = subprocess.run(child, capture_output=True, text=True, check=False, timeout=60)
        (partition / LOG).chmod(0o644)
    assert (ended.returncode, ended.stderr) == (2, "")
    refused = [line for line in ended.stdout.splitlines() if line.startswith("refused")]
    assert refused == [f"refused          {partition.name}/{LOG}"]
    assert "cannot be read: Permission denied" in ended.stdout


@pytest.mark.parametrize("command", [["groups", "list", "--data-dir"], ["recover"]])
def test_permissions(tmp_path: Path, command: list[str]) -> None:
    """The command runs as user nobody, whom permissions bind."""
    with TemporaryDirectory(prefix="kcli-test-") as home:
        directory = copied(Path(home), "groups/data")
        Path(home).chmod(0o755)
        partition = held(directory, "__consumer_offsets")
        partition.chmod(0)
        child = [sys.executable, "-c", AS_SOMEBODY, str(GOLDEN / "groups/data"), str(directory), *command]
        ended = subprocess.run(child, capture_output=True, text=True, check=False, timeout=60)
        partition.chmod(0o755)
    assert ended.returncode == 2, ended.stderr
    lines = ended.stderr.splitlines() if "groups" in command else ended.stdout.splitlines()
    (complaint,) = [each for each, line in enumerate(lines) if partition.name in line]
    assert "Permission denied" in "".join(lines[complaint : complaint + 2])
    assert ended.stdout
