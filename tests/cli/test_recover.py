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

from formats import producer_snapshot
from formats.record_batch import parse_batch
from kcli.cli.error_report import DiskFailed
from kcli.cli.output import count_text
from kcli.cli.recover import recover
from kcli.log.disk import Disk, DiskFile
from tests.cli.run import kcli
from tests.conftest import GOLDEN, SAMPLES, files_below
from tests.damage import frames
from tests.log.batches import batch, marker

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


def told(directory: Path) -> set[object]:
    """The kinds of what a dry run says of a log directory, but for the offsets of its partitions."""
    return {row["kind"] for row in rows(kcli("recover", "--format", "jsonl", directory).stdout)} - {"partition"}


def test_dry_run_names_the_byte_and_the_reason_and_writes_nothing(partition: Path) -> None:
    before = files_below(partition.parent)
    ended = kcli("recover", partition)
    assert ended.status == 1
    assert "byte 6,059" in ended.stdout
    assert "batch length 0 is below 14" in ended.stdout
    assert "offsets 38..46" in ended.stdout
    assert kcli("recover", "--dry-run", partition).status == 1
    assert files_below(partition.parent) == before


def test_leftovers_are_summed_up(partition: Path) -> None:
    """For people; JSON lines have them all."""
    for base in range(3):
        (partition / f"{base:020}.log.deleted").write_bytes(b"gone")
    shown = kcli("recover", partition).stdout
    assert shown.count("leftover-removed") == 1
    assert f"{LOG}.deleted and 2 more" in shown
    assert "was to be deleted (12 bytes)" in shown
    found = rows(kcli("recover", "--format", "jsonl", partition).stdout)
    assert len([row for row in found if row["kind"] == "leftover-removed"]) == 3


def test_a_transaction_whose_end_marker_is_damaged(tmp_path: Path) -> None:
    """The cut leaves the transaction open, and so do the bytes that salvage leaves out."""
    path = tmp_path / "t-0" / LOG
    path.parent.mkdir()
    data = bytearray(batch(b"v", producer=(7, 0), sequence=0, transactional=True))
    at = len(data)
    data += marker((7, 0), commit=True, base_offset=1)
    data[at + 66] ^= 1
    path.write_bytes(data)
    for options in ([], ["--salvage"]):
        found = rows(kcli("recover", "--format", "jsonl", *options, path.parent).stdout)
        open_then = [(row["producer_id"], row["first_offset"]) for row in found if row["kind"] == "transaction-open"]
        assert open_then == [(7, 0)]
    assert "has a transaction open from offset 0 on" in kcli("recover", path.parent).stdout


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


def test_a_start_is_clean_or_not() -> None:
    ended = kcli("recover", "--clean", "--unclean", GOLDEN / "unclean/crashed/u-plain-1")
    assert ended.status == 2
    assert "give one of --clean and --unclean" in ended.stderr


def test_clean_start_is_refused() -> None:
    case = GOLDEN / "corrupt/cases/zero-tail-61"
    ended = kcli("recover", "--clean", "--format", "jsonl", case)
    assert ended.status == 1  # without an index every start recovers the segment; with one:
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
    assert not told(tmp_path / "logs") & {"refused", "passed-over", "cut"}


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


def test_a_directory_of_log_directories_is_no_partition(tmp_path: Path) -> None:
    """Its name is that of partition 20261127 of the topic backup."""
    container = tmp_path / "backup-20261127"
    container.mkdir()
    shutil.copytree(GOLDEN / "unclean" / "crashed", container / "disk1")
    ended = kcli("recover", container)
    assert (ended.stdout, ended.status) == ("", 2)
    assert f"neither a partition's directory nor a broker's; {container / 'disk1'} is a broker's" in ended.complaint


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
    """The killed broker had the log directory at another path: every file except leader-epoch-checkpoint is then as
    Kafka left it."""
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


def test_salvage_sets_a_log_start_offset_beyond_the_end_back(tmp_path: Path) -> None:
    directory = tmp_path / "logs"
    shutil.copytree(GOLDEN / "unclean/recovered", directory)
    name = next(path.parent.name for path in sorted(directory.glob("*-*/*.log")) if path.stat().st_size)
    topic, _, number = name.rpartition("-")
    (directory / "log-start-offset-checkpoint").write_text(f"0\n1\n{topic} {number} 1000000000\n")
    before = {path.name: path.read_bytes() for path in (directory / name).glob("*.log")}
    dry = kcli("recover", "--salvage", directory)
    assert "1,000,000,000 is beyond it" in dry.stdout
    assert kcli("recover", "--salvage", "--out", tmp_path / "new", directory).status == 0
    assert {path.name: path.read_bytes() for path in (tmp_path / "new" / name).glob("*.log")} == before
    assert "1000000000" not in (tmp_path / "new/log-start-offset-checkpoint").read_text()
    assert kcli("recover", "--salvage", "--in-place", directory).status == 0
    assert "1000000000" not in (directory / "log-start-offset-checkpoint").read_text()
    assert not told(directory) & {"refused", "passed-over", "cut"}


@pytest.mark.parametrize("name", [b"\xff\xfe-0", b"a b-0", b"a\nFORGED-0"], ids=["not-utf8", "space", "line-end"])
@pytest.mark.parametrize("place", ["--out", "--in-place"])
def test_a_name_that_no_checkpoint_can_hold(tmp_path: Path, name: bytes, place: str) -> None:
    """The partition is recovered, and the checkpoints stay readable without its name."""
    home = tmp_path / "data"
    shutil.copytree(SAMPLES / "good" / "java-zstd-0", home / "orders-0")
    shutil.copytree(SAMPLES / "good" / "java-zstd-0", home / os.fsdecode(name))
    (home / "meta.properties").write_text(f"version=1\ncluster.id={'A' * 22}\nnode.id=1\n")
    target = [place, tmp_path / "new"] if place == "--out" else [place]
    ended = kcli("recover", "--unclean", *target, home)
    assert (ended.status, ended.stderr) == (0, "")
    assert ("its name is not UTF-8" in ended.stdout) is (name[0] == 0xFF)
    made = tmp_path / "new" if place == "--out" else home
    assert (made / os.fsdecode(name) / "00000000000000000000.log").stat().st_size > 0
    lines = (made / "recovery-point-offset-checkpoint").read_text().splitlines()
    assert [line.rpartition(" ")[0] for line in lines] == ["", "", "orders 0"]


@pytest.mark.parametrize("place", ["--out", "--in-place"])
def test_a_clean_start_leaves_the_marker(tmp_path: Path, place: str) -> None:
    """A start after a clean shutdown does not read the damage in an active segment; without the marker the next start
    would cut it."""
    directory = tmp_path / "logs"
    shutil.copytree(GOLDEN / "codecs/data", directory)
    log = max((directory / "java-zstd-0").glob("*.log"))
    data = bytearray(log.read_bytes())
    data[100] ^= 1
    log.write_bytes(data)
    (directory / "java-gzip-0/00000000000000000000.timeindex.deleted").write_bytes(b"x")
    told = rows(kcli("recover", "--format", "jsonl", directory).stdout)
    assert [row["kind"] for row in told if row["kind"] != "partition"] == ["leftover-removed"]
    made = tmp_path / "new" if place == "--out" else directory
    assert kcli("recover", place, *([made] if place == "--out" else []), directory).status == 0
    assert (made / ".kafka_cleanshutdown").exists()
    again = rows(kcli("recover", "--format", "jsonl", made).stdout)
    ends = ("partition", "log_start_offset", "log_end_offset")
    assert [[row.get(each) for each in ends] for row in again] == [
        [row.get(each) for each in ends] for row in told if row["kind"] == "partition"
    ]
    assert kcli("recover", "--unclean", place, *([tmp_path / "cut"] if place == "--out" else []), directory).status == 0
    assert not ((tmp_path / "cut" if place == "--out" else directory) / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("place", ["--out", "--in-place"])
def test_salvage_looks_below_the_recovery_point(tmp_path: Path, place: str) -> None:
    """A start does not read below the recovery point, and serves the damage."""
    directory = tmp_path / "logs"
    shutil.copytree(GOLDEN / "txn/data", directory)
    log = directory / "t-txn-0/00000000000000000004.log"
    data = bytearray(log.read_bytes())
    data[100] ^= 1
    log.write_bytes(data)
    assert kcli("recover", "--unclean", directory).status == 0
    ended = kcli("recover", "--salvage", directory)
    assert ended.status == 1
    assert "no batch that consumers read at byte 78: a start" in ended.stdout
    assert "1 gap would be left out" in ended.stdout
    assert "\nnext  " in ended.stdout
    made = tmp_path / "new" if place == "--out" else directory
    assert kcli("recover", "--salvage", place, *([made] if place == "--out" else []), directory).status == 0
    assert "batch-crc" not in kcli("verify", made).stdout
    assert kcli("recover", "--salvage", made).status == 0


@pytest.mark.parametrize("place", ["--out", "--in-place"])
def test_salvage_rebuilds_files_that_contradict_the_batches(tmp_path: Path, place: str) -> None:
    """This holds below the recovery point, too, where a start does not check them: consumers would read aborted
    records."""
    directory = tmp_path / "logs"
    shutil.copytree(GOLDEN / "txn/data", directory, copy_function=shutil.copyfile)
    aborted = f"t-txn-0/{4:020}.txnindex"
    times, no_times = f"t-txn-1/{2:020}.timeindex", f"t-txn-2/{5:020}.timeindex"
    epochs = "t-mix-0/leader-epoch-checkpoint"
    before = {name: (directory / name).read_bytes() for name in (aborted, epochs)}
    os.truncate(directory / aborted, 5)
    os.truncate(directory / times, 5)
    (directory / no_times).unlink()
    (directory / epochs).write_text("0\n1\n7 0\n")
    assert kcli("recover", "--unclean", directory).status == 0
    ended = kcli("recover", "--salvage", "--format", "jsonl", directory)
    assert ended.status == 1
    rebuilt = {f"{row['partition']}/{row['file']}" for row in rows(ended.stdout) if row["kind"] == "rebuilt"}
    assert rebuilt == {aborted, times, no_times, epochs}
    made = tmp_path / "new" if place == "--out" else directory
    ended = kcli("recover", "--salvage", place, *([made] if place == "--out" else []), directory)
    assert ended.status == 0
    assert "4 files rebuilt" in ended.stdout
    assert {name: (made / name).read_bytes() for name in before} == before
    assert kcli("verify", made).status == 0  # rebuilt snapshots lack expired producers


@pytest.mark.parametrize("place", ["--out", "--in-place"])
def test_salvage_rebuilds_the_indexes_of_a_log_that_was_cut(tmp_path: Path, place: str) -> None:
    """verify reports the cut alone, with its indexes as consequences."""
    directory = tmp_path / "logs"
    shutil.copytree(GOLDEN / "txn/data", directory, copy_function=shutil.copyfile)
    partition = directory / "t-txn-0"
    batches = list(frames((partition / f"{4:020}.log").read_bytes()))
    at = batches[len(batches) // 3][0]
    first = int.from_bytes((partition / f"{4:020}.log").read_bytes()[at : at + 8])
    os.truncate(partition / f"{4:020}.log", at)
    ended = kcli("recover", "--salvage", "--format", "jsonl", directory)
    assert ended.status == 1
    told = [row for row in rows(ended.stdout) if row["partition"] == "t-txn-0"]
    assert {row["file"] for row in told if row["kind"] == "rebuilt"} >= {f"{4:020}.index", f"{4:020}.txnindex"}
    (gap,) = (row for row in told if row["kind"] == "gap")
    assert [gap[each] for each in ("file", "position", "bytes")] == [f"{4:020}.log", at, 0]
    assert [gap["first_offset"], gap["last_offset"]] == [first, 71]
    assert f"no batch for offsets {first}..71" in kcli("recover", "--salvage", directory).stdout
    made = tmp_path / "new" if place == "--out" else directory
    assert kcli("recover", "--salvage", place, *([made] if place == "--out" else []), directory).status == 0
    left = [
        str(row["kind"]) for row in rows(kcli("verify", "--format", "jsonl", made).stdout) if row["severity"] != "info"
    ]
    assert "log-missing" in left
    assert not [kind for kind in left if kind.startswith(("index", "timeindex", "txnindex", "log-cut"))]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "a clean start, which reads only the ends of the logs (kcli verify reads all)"),
        (["--unclean"], "a start after a crash, which reads nothing below the recovery points (kcli verify does)"),
        (["--salvage"], "a start after a crash; nothing was written"),
    ],
)
def test_the_sum_says_what_was_not_read(options: list[str], words: str) -> None:
    assert words in kcli("recover", *options, GOLDEN / "txn/data").stdout


@pytest.mark.parametrize("place", ["--out", "--in-place"])
def test_salvage_looks_at_active_segments_after_a_clean_stop(tmp_path: Path, place: str) -> None:
    """Salvage leaves no clean-shutdown marker: the next start would cut the damage that one with the marker does not
    read."""
    directory = tmp_path / "logs"
    shutil.copytree(GOLDEN / "codecs/data", directory)
    assert (directory / ".kafka_cleanshutdown").exists()
    log = max((directory / "java-zstd-0").glob("*.log"))
    data = bytearray(log.read_bytes())
    data[100] ^= 1
    log.write_bytes(data)
    made = tmp_path / "new" if place == "--out" else directory
    ended = kcli("recover", "--salvage", place, *([made] if place == "--out" else []), directory)
    assert ended.status == 0
    assert "left out" in ended.stdout
    assert kcli("recover", "--unclean", made).status == 0


def with_the_snapshot_of_another(tmp_path: Path, snapshots: tuple[str, ...]) -> Path:
    """Return a log directory where one partition has another one's last producer snapshot, with two open
    transactions."""
    directory = Path(shutil.copytree(GOLDEN / "txn/data", tmp_path / "data", copy_function=shutil.copyfile))
    for name in snapshots:
        shutil.copyfile(directory / "t-hang-0" / f"{23:020}.snapshot", directory / "t-txn-0" / name)
    return directory


LAST, BASE = f"{156:020}.snapshot", f"{146:020}.snapshot"


@pytest.mark.parametrize(
    ("is_clean", "snapshots"),
    [(True, (LAST,)), (True, (BASE, LAST)), (False, (BASE,)), (False, (BASE, LAST))],
)
def test_the_producer_snapshot_of_another_partition(tmp_path: Path, is_clean: bool, snapshots: tuple[str, ...]) -> None:
    """Kafka loads the snapshot: its last stable offset stays at the transaction that is open only there."""
    directory = with_the_snapshot_of_another(tmp_path, snapshots)
    if not is_clean:
        (directory / ".kafka_cleanshutdown").unlink()
    ended = kcli("recover", "--format", "jsonl", directory)
    (wrong,) = (row for row in rows(ended.stdout) if row["kind"] == "snapshot-wrong")
    assert (ended.status, wrong["partition"], wrong["file"]) == (1, "t-txn-0", snapshots[-1])
    assert "producer 8 has a transaction open from offset 6 on" in str(wrong["reason"])
    assert "kcli recover --salvage" in kcli("recover", directory).stdout
    salvaged = tmp_path / "salvaged"
    shown = rows(kcli("recover", "--salvage", "--format", "jsonl", "--out", salvaged, directory).stdout)
    assert {row["file"] for row in shown if row["kind"] == "left-out"} == set(snapshots)
    anew, kafkas = (
        set(producer_snapshot.parse((each / "t-txn-0" / LAST).read_bytes()).entries)
        for each in (salvaged, GOLDEN / "txn/data")
    )
    assert anew < kafkas  # a start drops producers without a batch for a day
    assert not any(
        row["kind"] == "snapshot-wrong" for row in rows(kcli("recover", "--format", "jsonl", salvaged).stdout)
    )


def test_a_crash_makes_the_snapshot_at_the_end_of_the_log_anew(tmp_path: Path) -> None:
    """Kafka recovers the last segment, with the producers at its base offset."""
    directory = with_the_snapshot_of_another(tmp_path, (LAST,))
    (directory / ".kafka_cleanshutdown").unlink()
    assert kcli("recover", directory).status == 0


def test_a_leader_epoch_checkpoint_that_salvage_writes_anew_is_told_after_a_crash_too(tmp_path: Path) -> None:
    """The start after a crash rebuilds the checkpoint as well, and does not log it."""
    directory = tmp_path / "data"
    shutil.copytree(GOLDEN / "txn/data", directory)
    partition = directory / "t-mix-0"
    checkpoint = partition / "leader-epoch-checkpoint"
    sound = checkpoint.read_bytes()
    checkpoint.write_text("0\n2\n3 0\n2 40\n")
    ended = kcli("recover", "--unclean", "--salvage", "--format", "jsonl", "--out", tmp_path / "new", partition)
    assert [row["file"] for row in rows(ended.stdout) if row["kind"] == "rebuilt"] == [checkpoint.name]
    assert (tmp_path / "new" / checkpoint.name).read_bytes() == sound
    assert kcli("recover", "--unclean", "--salvage", "--dry-run", partition).status == 1


def keys_in(batches: bytes) -> set[str]:
    """Return the keys of a coordinator's records, decoded by Construct."""
    found = set()
    for start, size in frames(batches):
        batch = parse_batch(batches[start : start + size])
        if not batch.header.is_control:
            keys = [record.key for record in batch.records if record.key is not None]
            found |= {key[4 : 4 + int.from_bytes(key[2:4])].decode() for key in keys}
    return found


@pytest.mark.parametrize(
    ("partition", "what"),
    [
        ("__transaction_state-1", "transactional id"),
        ("__consumer_offsets-0", "group"),
        ("__consumer_offsets-3", "group"),
        ("__share_group_state-0", "share group"),
    ],
)
def test_what_a_coordinator_loses_is_named(tmp_path: Path, partition: str, what: str) -> None:
    directory = tmp_path / "data"
    shutil.copytree(GOLDEN / "groups/data", directory)
    sound = kcli("recover", "--unclean", "--format", "jsonl", directory)
    assert [row for row in rows(sound.stdout) if row["kind"] == "state-lost"] == []
    log = directory / partition / f"{0:020}.log"
    log.chmod(0o644)
    data = bytearray(log.read_bytes())
    at, size = frames(data)[1]
    data[at + size - 1] ^= 1
    log.write_bytes(data)
    for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint"):
        (directory / name).unlink(missing_ok=True)
    told = kcli("recover", "--unclean", "--format", "jsonl", directory)
    (row,) = [row for row in rows(told.stdout) if row["kind"] == "state-lost"]
    expected = sorted(keys_in(bytes(data[at + size :])))
    assert expected, "the case is not made"
    assert row == {
        "partition": partition,
        "kind": "state-lost",
        "file": "",
        "what": what,
        "count": len(expected),
        "names": expected,
    }
    shown = kcli("recover", "--unclean", directory).stdout
    assert f"{count_text(len(expected), what)} are lost: {', '.join(expected[:5])}" in shown
    salvaged = kcli("recover", "--unclean", "--salvage", "--format", "jsonl", directory)
    assert [row for row in rows(salvaged.stdout) if row["kind"] == "state-lost"] == []
