"""kcli compact as a process: what it prints, what it writes, how it ends."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from formats.checkpoint import parse_offsets
from tests.cli.run import KCLI, kcli
from tests.conftest import GOLDEN, SAMPLES, files_below

BEFORE = GOLDEN / "compact/before"
NOW = "1795262006000"
COMPACT = ("-o", "cleanup.policy=compact")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A log directory that may be written to."""
    target = tmp_path / "logs"
    target.mkdir()
    for name in ("c-plain-0", "c-lag-0", "c-txn-open-0", "c-ooo-0", "__cluster_metadata-0"):
        shutil.copytree(BEFORE / name, target / name)
    for path in BEFORE.iterdir():
        if path.is_file():
            shutil.copyfile(path, target / path.name)
    for path in (target, *target.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return target


def rows(output: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in output.splitlines()]


def test_a_dry_run_tells_and_writes_nothing(directory: Path) -> None:
    before = files_below(directory)
    ended = kcli("compact", directory, "--now", NOW)
    assert (ended.status, ended.stderr) == (0, "")
    assert "c-plain-0  dirty 0..51, dirty ratio 1.00; active segment from 52 on" in ended.stdout
    assert "bytes        8,560 -> 3,165" in ended.stdout
    assert "__cluster_metadata" not in ended.stdout
    assert "min.compaction.lag.ms from 94 on for another 1,137 d" in ended.stdout
    assert files_below(directory) == before
    assert (
        kcli("compact", directory, "--now", NOW, "--dry-run").stdout.splitlines()[:-1]
        == (ended.stdout.splitlines()[:-1])
    )


def test_json_lines_add_up(directory: Path) -> None:
    (row,) = rows(kcli("compact", directory / "c-plain-0", "--now", NOW, "--format", "jsonl").stdout)
    gone = row["gone"]
    assert isinstance(gone, dict)
    read, kept = row["records_read"], row["records_kept"]
    assert isinstance(read, int)
    assert isinstance(kept, int)
    assert read - kept == sum(each["records"] for each in gone.values())
    assert row["bound"] == "active segment"
    assert (row["first_dirty_offset"], row["first_uncleanable_offset"], row["cleaned_to"]) == (0, 52, 52)


def test_in_place_moves_the_checkpoint_and_leaves_nothing_to_do(directory: Path) -> None:
    ended = kcli("compact", directory, "--in-place", "--now", NOW)
    assert (ended.status, ended.stderr) == (0, "")
    entries = parse_offsets((directory / "cleaner-offset-checkpoint").read_bytes())
    assert {(entry.topic, entry.offset) for entry in entries} == {
        ("c-plain", 52),
        ("c-lag", 94),
        ("c-txn-open", 173),
        ("c-ooo", 170),
    }
    assert not [path for path in directory.rglob("*") if path.suffix in (".cleaned", ".swap", ".deleted")]
    expected = GOLDEN / "compact/after/c-plain-0/00000000000000000000.log"
    assert (directory / "c-plain-0/00000000000000000000.log").stat().st_size == expected.stat().st_size
    before = files_below(directory)
    assert "0 partitions cleaned" in kcli("compact", directory, "--in-place", "--now", NOW).stdout
    assert {name: size for name, (size, _) in files_below(directory).items()} == {
        name: size for name, (size, _) in before.items()
    }


def test_a_partition_moves_the_checkpoint_of_its_log_directory(directory: Path) -> None:
    assert kcli("compact", directory / "c-ooo-0", "--in-place", "--now", NOW).status == 0
    entries = parse_offsets((directory / "cleaner-offset-checkpoint").read_bytes())
    assert [tuple(entry) for entry in entries] == [("c-ooo", 0, 170)]


def test_out_leaves_the_source_alone(directory: Path, tmp_path: Path) -> None:
    before = files_below(directory)
    ended = kcli("compact", directory, "--out", tmp_path / "new", "--now", NOW)
    assert ended.status == 0
    assert files_below(directory) == before
    assert (tmp_path / "new/meta.properties").read_bytes() == (directory / "meta.properties").read_bytes()
    partitions = sorted((tmp_path / "new").glob("*-0"))  # not the directory: the fixture leaves most of its topics out
    assert len(partitions) == 5
    assert kcli("verify", "--format", "jsonl", *partitions).status == 0
    assert not list(tmp_path.glob("*.part"))


def test_why(directory: Path) -> None:
    ended = kcli("compact", directory / "c-lag-0", "--why", "k-022", "--now", NOW)
    assert ended.status == 0
    lines = ended.stdout.splitlines()
    assert [line.split()[1] for line in lines[1:]] == ["41", "83", "131"]
    assert lines[1].endswith("goes")
    assert "superseded by 83" in lines[1]
    assert "latest" in lines[3]
    assert lines[3].endswith("stays")


def test_why_names_what_holds_back(directory: Path) -> None:
    held = kcli("compact", directory / "c-txn-open-0", "--why", "k-022", "--now", NOW, "--format", "jsonl")
    fates = rows(held.stdout)
    assert [fate["goes"] for fate in fates] == [True, True, False]
    assert fates[-1]["held_by"] == "the transaction that is open from 200 on"
    lag = rows(
        kcli(
            "compact", directory / "c-ooo-0", "--why", "k-022", "--now", NOW, "--format", "jsonl",
            "-o", "min.cleanable.dirty.ratio=1",
        ).stdout
    )  # fmt: skip
    assert {fate["held_by"] for fate in lag if fate["what"] != "latest"} <= {
        "a dirty ratio of 1.00, not above min.cleanable.dirty.ratio 1.0",
        "the active segment",
    }
    nobody = kcli("compact", directory / "c-ooo-0", "--why", "nobody", "--now", NOW)
    assert (nobody.status, nobody.stdout, nobody.complaint) == (0, "", "kcli: no record has this key")


def test_a_small_map_is_told(directory: Path) -> None:
    small = ("-o", "log.cleaner.dedupe.buffer.size=240")
    ended = kcli("compact", directory / "c-plain-0", "--now", NOW, *small)
    assert "map          full with 9 keys" in ended.stdout
    ended = kcli("compact", directory / "c-plain-0", "--now", NOW, *small, "--in-place")
    assert ended.status == 0
    assert "passes" in ended.stdout


def test_configuration_from_server_properties(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_text("log.cleanup.policy=compact\nlog.cleaner.min.cleanable.ratio=0.1\n")
    alone = tmp_path / "alone-0"
    shutil.copytree(directory / "c-plain-0", alone)
    assert "1 without cleanup.policy=compact" in kcli("compact", alone, "--now", NOW).stdout
    ended = kcli("compact", alone, "--config", tmp_path / "server.properties", "--now", NOW)
    assert "1 partition to clean" in ended.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nowhere"], "nowhere: no such directory"),
        (["."], ".: neither a partition's directory nor a broker's"),
        ([".", "--in-place"], ".: neither a partition's directory nor a broker's"),
        ([".", "--out", "x"], ".: neither a partition's directory nor a broker's"),
        (["good/c-plain-0", "--in-place", "--out", "x"], "exclude each other"),
        (["good/c-plain-0", "--in-place", "--why", "k"], "exclude each other"),
        (["good/c-plain-0", "--out", "good"], "good: is there already; --out makes a new directory"),
        (["good/c-plain-0", "-o", "cleanup.policy"], "is not NAME=VALUE"),
        (["good/c-plain-0", "-o", "colour=red"], "no configuration of a topic or of a broker's logs has that name"),
        (["good/c-plain-0", "-o", "segment.bytes=1"], "Value must be at least 1048576"),
        (["good/c-plain-0", "-o", "log.cleaner.dedupe.buffer.size=1"], "no room for a single key"),
        (["good/c-plain-0", "--now", "soon"], "is no time"),
        (["good/c-plain-0", "--config", "nowhere"], "nowhere: No such file"),
    ],
)
def test_usage(arguments: list[str], complaint: str) -> None:
    ended = kcli("compact", *arguments, *(COMPACT if "-o" not in arguments else ()))
    assert ended.status == 2
    assert complaint in ended.complaint
    assert ended.stdout == ""


def test_a_damaged_batch_is_not_cleaned(directory: Path, tmp_path: Path) -> None:
    log = directory / "c-plain-0/00000000000000000000.log"
    data = bytearray(log.read_bytes())
    data[500] ^= 1
    log.write_bytes(data)
    before = {name: size for name, (size, _) in files_below(directory / "c-plain-0").items()}
    ended = kcli("compact", directory, "--in-place", "--now", NOW)
    assert ended.status == 1
    assert "c-plain-0/00000000000000000000.log: byte" in ended.complaint
    assert "CRC" in ended.complaint
    assert "3 partitions cleaned" in ended.stdout
    assert {name: size for name, (size, _) in files_below(directory / "c-plain-0").items()} == before
    assert kcli("compact", directory, "--out", tmp_path / "new", "--now", NOW).status == 1
    assert (tmp_path / "new/c-plain-0/00000000000000000000.log").read_bytes() == data


def test_an_interrupted_cleaning_is_left_to_recovery(directory: Path) -> None:
    (directory / "c-plain-0/00000000000000000000.log").rename(directory / "c-plain-0/00000000000000000000.log.swap")
    ended = kcli("compact", directory / "c-plain-0", "--in-place", "--now", NOW)
    assert ended.status == 1
    assert "kcli recover first" in ended.complaint


def test_a_corrupt_checkpoint_changes_nothing(directory: Path) -> None:
    (directory / "cleaner-offset-checkpoint").write_bytes(b"0\nmany\n")
    before = files_below(directory)
    ended = kcli("compact", directory, "--in-place", "--now", NOW)
    assert ended.status != 0
    assert "cleaner-offset-checkpoint" in ended.complaint
    assert files_below(directory) == before


LOCKER = (
    "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print('locked', flush=True); input()"
)


def test_a_running_broker_keeps_its_directory(directory: Path) -> None:
    command = [sys.executable, "-c", LOCKER, str(directory / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as locker:
        assert locker.stdout is not None
        assert locker.stdout.readline() == b"locked\n"
        before = files_below(directory)
        ended = kcli("compact", directory, "--in-place", "--now", NOW)
        assert ended.status == 1
        assert "in use by a running Kafka or kcli" in ended.complaint
        assert files_below(directory) == before
        assert kcli("compact", directory, "--now", NOW).status == 0
        locker.communicate(b"\n")


def test_a_full_disk_is_one_line(directory: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        command = [*KCLI, "compact", str(directory), "--now", NOW]
        done = subprocess.run(command, cwd=SAMPLES, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1


def test_what_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "t-0/00000000000000000000.log").mkdir(parents=True)
    ended = kcli("compact", tmp_path, "-o", "cleanup.policy=compact")
    assert ended.complaint.endswith("/t-0/00000000000000000000.log: Is a directory")
    assert ended.status == 2
