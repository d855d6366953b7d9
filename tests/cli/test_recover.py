"""kcli recover as a process: what it prints, what it writes, how it ends."""

import errno
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from kcli.cli.recover import recover
from kcli.cli.told import DiskFailed
from kcli.log.disk import Disk, DiskFile
from tests.cli.run import kcli
from tests.conftest import GOLDEN, SAMPLES, files_below

LOG = "00000000000000000000.log"
DAMAGED = SAMPLES / "broken/zero-page-in-middle-0"
CUT_AT, LENGTH = 6059, 7595


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """A damaged partition in a log directory of its own."""
    shutil.copytree(DAMAGED, tmp_path / "logs/zero-page-in-middle-0")
    return tmp_path / "logs/zero-page-in-middle-0"


def rows(output: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in output.splitlines()]


def test_dry_run_names_the_byte_and_the_reason_and_writes_nothing(partition: Path) -> None:
    before = files_below(partition.parent)
    ended = kcli("recover", partition)
    assert ended.status == 1
    assert "byte 6,059" in ended.stdout
    assert "batch length 0 is below 14" in ended.stdout
    assert "offsets 38..46" in ended.stdout
    assert kcli("recover", "--dry-run", partition).status == 1
    assert files_below(partition.parent) == before


def test_json_lines(partition: Path) -> None:
    found = rows(kcli("recover", "--format", "jsonl", partition).stdout)
    cut = next(row for row in found if row["kind"] == "cut")
    assert (cut["position"], cut["bytes"], cut["fault"], cut["log_end_offset"]) == (
        CUT_AT,
        LENGTH - CUT_AT,
        "length",
        38,
    )
    assert found[-1]["kind"] == "partition"


def test_clean_start_is_refused() -> None:
    case = GOLDEN / "corrupt/cases/zero-tail-61"
    ended = kcli("recover", "--clean", "--format", "jsonl", case)
    assert ended.status == 1  # without an index the segment is recovered in any start; with one:
    assert not [row for row in rows(ended.stdout) if row["kind"] == "refused"]


def test_clean_start_with_index_is_refused(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "corrupt/cases/zero-tail-61", tmp_path / "t-0")
    (tmp_path / "t-0/00000000000000000000.index").touch()
    ended = kcli("recover", "--clean", tmp_path / "t-0")
    assert ended.status == 1
    assert "Kafka would not start: batch length 0" in ended.stdout


def test_marker_decides(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "unclean/recovered", tmp_path / "logs")
    assert "as in a clean start" in kcli("recover", tmp_path / "logs").stdout
    assert "as in a start after a crash" in kcli("recover", "--unclean", tmp_path / "logs").stdout


def test_copy(partition: Path, tmp_path: Path) -> None:
    before = files_below(partition)
    assert kcli("recover", "--out", tmp_path / "new", partition).status == 0
    assert (tmp_path / "new" / LOG).read_bytes() == (DAMAGED / LOG).read_bytes()[:CUT_AT]
    assert files_below(partition) == before
    assert kcli("recover", tmp_path / "new").status == 0


def test_copy_does_not_overwrite(partition: Path, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    ended = kcli("recover", "--out", tmp_path / "new", partition)
    assert ended.status == 2
    assert "is there already" in ended.complaint
    assert not list((tmp_path / "new").iterdir())


def test_in_place_keeps_what_it_cuts(partition: Path) -> None:
    ended = kcli("recover", "--in-place", partition)
    assert ended.status == 0
    backup = next(partition.parent.glob("kcli-recover-*.tar"))
    assert str(backup) in ended.stdout
    with tarfile.open(backup) as tar:
        member = tar.getmember(f"{partition.name}/{LOG}.bytes-{CUT_AT}-{LENGTH}")
        file = tar.extractfile(member)
        assert file is not None
        assert (partition / LOG).read_bytes() + file.read() == (DAMAGED / LOG).read_bytes()
    assert kcli("recover", partition).status == 0
    before = files_below(partition.parent)
    assert kcli("recover", "--in-place", partition).status == 0
    assert files_below(partition.parent) == before


def test_in_place_says_what_the_dry_run_said(partition: Path) -> None:
    told = rows(kcli("recover", "--format", "jsonl", partition).stdout)
    done = rows(kcli("recover", "--in-place", "--format", "jsonl", partition).stdout)
    assert [row for row in done if row["kind"] == "cut"] == [row for row in told if row["kind"] == "cut"]


def test_backup_in_json(partition: Path) -> None:
    found = rows(kcli("recover", "--in-place", "--format", "jsonl", partition).stdout)
    assert Path(str(found[-1]["file"])).exists()
    assert found[-1]["kind"] == "backup"


def test_salvage_keeps_sound_batches(partition: Path, tmp_path: Path) -> None:
    ended = kcli("recover", "--salvage", "--format", "jsonl", "--out", tmp_path / "new", partition)
    gap = next(row for row in rows(ended.stdout) if row["kind"] == "gap")
    assert (gap["position"], gap["first_offset"], gap["last_offset"]) == (CUT_AT, 38, 41)
    data = (DAMAGED / LOG).read_bytes()
    at, length = gap["position"], gap["bytes"]
    assert isinstance(at, int)
    assert isinstance(length, int)
    assert (tmp_path / "new" / LOG).read_bytes() == data[:at] + data[at + length :]
    ended = kcli("recover", tmp_path / "new")
    assert ended.status == 0


def test_salvage_of_an_unreadable_checkpoint(tmp_path: Path) -> None:
    source = SAMPLES / "broken/epoch-checkpoint-garbage-0"
    assert kcli("recover", "--out", tmp_path / "as-it-was-0", source).status == 1
    assert kcli("recover", "--salvage", "--out", tmp_path / "new-0", source).status == 0
    assert (tmp_path / "new-0/leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"


HOLD = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); input()"


def test_locked_directory(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "unclean/crashed", tmp_path / "logs")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "logs/.lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        before = files_below(tmp_path)
        for directory in (tmp_path / "logs", tmp_path / "logs/u-txn-0"):
            ended = kcli("recover", "--in-place", directory)
            assert ended.status == 1
            assert "in use by a running Kafka or kcli" in ended.complaint
        assert files_below(tmp_path) == before
    finally:
        holder.communicate(b"\n")
    assert kcli("recover", "--in-place", tmp_path / "logs").status == 0


def test_checkpoints_that_stop_a_broker(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "unclean/crashed", tmp_path / "logs")
    (tmp_path / "logs/recovery-point-offset-checkpoint").write_text("garbage\n")
    ended = kcli("recover", tmp_path / "logs")
    assert ended.status == 1
    assert "recovery-point-offset-checkpoint" in ended.stdout
    assert kcli("recover", "--in-place", tmp_path / "logs").status == 0  # it is written anew
    assert kcli("recover", tmp_path / "logs").status == 0


@pytest.mark.parametrize("error", [errno.EROFS, errno.ENOSPC])
def test_disk_that_refuses(error: int, partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Disk, path: Path, **options: bool) -> DiskFile:
        raise OSError(error, os.strerror(error), str(path))

    before = files_below(partition.parent)
    monkeypatch.setattr(Disk, "open", refuse)
    with pytest.raises(DiskFailed, match=os.strerror(error)):
        recover(partition, in_place=True)
    assert files_below(partition.parent) == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--in-place", "--dry-run", str(DAMAGED)], "one of --out, --in-place and --dry-run"),
        (["no-such-directory"], "no such directory"),
        ([str(SAMPLES)], "neither a partition's directory nor a broker's"),
        (["-o", "index.interval.bytes", str(DAMAGED)], "is not NAME=VALUE"),
        (["-o", "index.interval.bytes=x", str(DAMAGED)], "index.interval.bytes"),
        (["-o", "producer.id.expiration.ms=x", str(DAMAGED)], "producer.id.expiration.ms"),
        (["--now", "soon", str(DAMAGED)], "is no time"),
        (["--config", "no-such-file", str(DAMAGED)], "No such file"),
    ],
)
def test_wrong_usage(arguments: list[str], words: str) -> None:
    ended = kcli("recover", *arguments)
    assert ended.status == 2
    assert words in ended.complaint


def test_index_interval_is_that_of_the_options(tmp_path: Path) -> None:
    case = GOLDEN / "unclean/crashed/u-plain-1"
    config = tmp_path / "server.properties"
    config.write_text("log.index.interval.bytes=1024\n")
    kcli("recover", "--unclean", "-o", "index.interval.bytes=1024", "--out", tmp_path / "a-0", case)
    kcli("recover", "--unclean", "--config", config, "--out", tmp_path / "b-0", case)
    for copy in ("a-0", "b-0"):
        name = "00000000000000000124.index"
        assert (tmp_path / copy / name).read_bytes() == (GOLDEN / "unclean/recovered/u-plain-1" / name).read_bytes()


def test_topics_are_configured_as_the_metadata_log_says(tmp_path: Path) -> None:
    """The killed broker had it in another directory: every file but the leader epochs is then as Kafka left it."""
    with tarfile.open(GOLDEN / "unclean/metadata-log-dir.tar.gz") as tar:
        tar.extractall(tmp_path, filter="data")
    config = tmp_path / "server.properties"
    config.write_text(f"node.id=1\nmetadata.log.dir={tmp_path}/metadata\n")
    new = tmp_path / "new"
    now = "2026-11-21T11:50:00Z"
    assert kcli("recover", "--out", new, "--config", config, "--now", now, GOLDEN / "unclean/crashed").status == 0
    for file in (GOLDEN / "unclean/recovered").rglob("0*"):
        assert (new / file.parent.name / file.name).read_bytes() == file.read_bytes(), file


def test_unreadable_metadata_log_is_passed_over(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "unclean/crashed/u-gzip-0", tmp_path / "logs/u-gzip-0")
    (tmp_path / "logs/meta.properties").write_text("version=1\nnode.id=\\uXYZ1\n")
    ended = kcli("recover", tmp_path / "logs")
    assert "Kafka's defaults" in ended.complaint
    assert ended.status == 1  # meta.properties


def test_tiered_log_begins_below_its_first_segment(tmp_path: Path) -> None:
    source = GOLDEN / "tiered/data"
    now = "2026-11-21T11:50:00Z"
    assert kcli("recover", "--unclean", "--now", now, "--out", tmp_path / "new", source).status == 0
    for name in ("log-start-offset-checkpoint", "recovery-point-offset-checkpoint"):
        lines = [(each / name).read_text().splitlines() for each in (source, tmp_path / "new")]
        assert sorted(lines[0]) == sorted(lines[1])
    for file in source.glob("r-*/0*"):
        assert (tmp_path / "new" / file.parent.name / file.name).read_bytes() == file.read_bytes(), file


def test_copy_into_the_log_directory_is_refused(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "unclean/crashed", tmp_path / "logs")
    ended = kcli("recover", "--out", tmp_path / "logs/new", tmp_path / "logs")
    assert ended.status == 2
    assert "keep Kafka from starting" in ended.complaint
    assert not (tmp_path / "logs/new").exists()
