"""The log of a missing segment under a name that Kafka does not read: the finding's command restores the name."""

import gzip
import os
import shutil
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from kcli.inspector.verify import Finding, Verification
from kcli.log.segment_reader import sound_batches
from kcli.log.source import FileSource
from tests.cli.run import kcli
from tests.conftest import GOLDEN
from tests.inspector.test_verify_causes import OTHER, PARTITION, directory, files_of, logs, loud
from tests.log.live.test_partition_log_lifecycle import SMALL, filled

__all__ = ["directory"]  # a fixture


def to_lost_and_found(log: Path) -> Path:
    return move(log, log.parent.parent / "lost+found" / "#131077")


def to_lost_and_found_of_the_disk(log: Path) -> Path:
    return move(log, log.parent.parent.parent / "lost+found" / "orphans" / "#131078")


def into_upper_case(log: Path) -> Path:
    for path in files_of(log):
        path.rename(path.with_name(path.name.upper()))
    return log.with_name(log.name.upper())


def compress(log: Path) -> Path:
    packed = log.with_name(f"{log.name}.gz")
    packed.write_bytes(gzip.compress(log.read_bytes()))
    log.unlink()
    return packed


def keep_as(log: Path) -> Path:
    return move(log, log.with_name(f"{log.name}.bak"))


def without_indexes(log: Path) -> Path:
    for path in files_of(log):
        if path != log:
            path.unlink()
    return to_lost_and_found(log)


def move(log: Path, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    return log.rename(target)


def missing(directory: Path) -> Finding:
    (finding,) = (each for each in loud(directory) if each.kind in ("log-missing", "log-end"))
    return finding


def by_nfs(log: Path) -> Path:
    """Removed while it was open, its indexes too."""
    for path in files_of(log):
        if path != log:
            path.unlink()
    return move(log, log.with_name(".nfs00000000012a3f4b00000c01"))


DAMAGE = [
    to_lost_and_found,
    to_lost_and_found_of_the_disk,
    into_upper_case,
    compress,
    keep_as,
    without_indexes,
    by_nfs,
]


@pytest.mark.parametrize("number", [0, 1, -1], ids=["first", "middle", "last"])
@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_the_log_gets_its_name_back(directory: Path, damage: Callable[[Path], Path], number: int) -> None:
    log = logs(directory)[number]
    before = log.read_bytes()
    away = damage(log)
    finding = missing(directory)
    assert finding.path == str(log)
    assert str(finding.found).startswith(f"no such file: its batches are in {away}")
    assert ("ignores case" in str(finding.found)) == (away.suffix == ".LOG")
    assert (finding.lost_first_offset, finding.lost_last_offset) == (None, None)
    assert finding.command is not None
    subprocess.run(["sh", "-c", finding.command], check=True)
    assert log.read_bytes() == before
    assert [each.kind for each in loud(directory) if each.severity == "error" and each.kind != "directory-name"] == []


@pytest.mark.parametrize("damage", [into_upper_case, without_indexes, keep_as], ids=lambda damage: damage.__name__)
def test_all_logs_of_a_partition_that_does_not_begin_at_0_get_their_names_back(
    directory: Path, damage: Callable[[Path], Path]
) -> None:
    """The log begins in the middle of its first segment, as after kafka-delete-records."""
    before = logs(directory)
    before[0].rename(before[0].with_name(f".{before[0].name}.deleted.Xy12"))  # it was no part of the log any more
    for path in files_of(before[0]):
        path.unlink()
    kept = {log.name: log.read_bytes() for log in before[1:]}
    start = int(before[1].stem) + 3
    (directory / PARTITION / "leader-epoch-checkpoint").write_text(f"0\n1\n0 {start}\n")
    topic, _, number = PARTITION.rpartition("-")
    (directory / "log-start-offset-checkpoint").write_text(f"0\n1\n{topic} {number} {start}\n")
    for number_of_file, log in enumerate(before[1:]):
        away = damage(log)
        if away.parent.name == "lost+found":
            away.rename(away.with_name(f"#{number_of_file}"))
    finding = missing(directory)
    assert (finding.lost_first_offset, finding.path) == (None, str(before[1]))
    subprocess.run(["sh", "-c", str(finding.command)], check=True)
    assert {log.name: log.read_bytes() for log in logs(directory)} == kept


def test_many_logs_under_other_names_are_for_salvage(tmp_path: Path) -> None:
    """The finding names the first of them; salvage gives all their names."""
    directory = tmp_path / "p-0"
    filled(directory, SMALL).close(0)
    kept = {log.name: log.read_bytes() for log in logs(tmp_path, "p-0")}
    for log in logs(tmp_path, "p-0")[1:]:
        keep_as(log)
    finding = missing(tmp_path)
    assert "and 2 more" in str(finding.found)
    assert finding.command is not None
    assert "--salvage" in finding.command
    assert kcli("recover", "--salvage", "--unclean", "--out", tmp_path / "new", directory).status == 0
    assert {log.name: log.read_bytes() for log in (tmp_path / "new").glob("*.log")} == kept


def with_a_carriage_return(log: Path) -> Path:
    return move(log, log.with_name(f"{log.name}\r"))


def empty(log: Path) -> Path:
    away = keep_as(log)
    log.touch()
    return away


@pytest.mark.parametrize("damage", [keep_as, with_a_carriage_return, empty, compress], ids=lambda each: each.__name__)
@pytest.mark.parametrize(
    ("partition", "number"),
    [("v0-none-0", -1), ("v0-gzip-0", 0), ("v0-lz4-0", -1), ("v1-none-0", 0), ("v1-gzip-0", -1), ("v1-snappy-0", 0)],
)
def test_a_log_of_magic_0_or_1_gets_its_name_back(
    tmp_path: Path, damage: Callable[[Path], Path], number: int, partition: str
) -> None:
    """Others in this log directory have logs with the same offsets: none of them is taken for it."""
    directory = Path(shutil.copytree(GOLDEN / "legacy/data", tmp_path / "data", copy_function=shutil.copyfile))
    log = logs(directory, partition)[number]
    before = log.read_bytes()
    away = damage(log)
    (finding,) = (each for each in loud(directory) if each.severity == "error")
    assert (finding.path, finding.lost_first_offset) == (str(log), None)
    assert str(away).removesuffix("\r") in str(finding.found)
    subprocess.run(["bash", "-c", str(finding.command)], check=True)
    assert log.read_bytes() == before
    assert loud(directory) == []


@pytest.mark.parametrize("partition", ["v0-none-0", "v0-gzip-0", "v1-none-0", "v1-gzip-0"])
def test_a_log_of_magic_0_or_1_without_indexes(tmp_path: Path, partition: str) -> None:
    """It ends where the log has to; its first offset is in the first compressed message alone."""
    directory = Path(shutil.copytree(GOLDEN / "legacy/data", tmp_path / "data", copy_function=shutil.copyfile))
    log = logs(directory, partition)[-1]
    away = without_indexes(log)
    finding = missing(directory)
    assert (finding.path, finding.lost_first_offset) == (str(log), None)
    assert str(finding.found) == f"no such file: its batches are in {away}"
    data = bytearray(away.read_bytes())
    data[-1] ^= 1
    away.write_bytes(data)
    assert missing(directory).lost_first_offset is not None


@pytest.mark.parametrize(
    "name",
    ["{}.part", "{}.partial", "{}.crdownload", "{}.tmp", "{}.filepart", ".{}.Xa3bQ1", ".rsync-partial/{}", ".~tmp~/{}"],
)
def test_a_log_as_a_program_names_it_until_it_is_whole(directory: Path, name: str) -> None:
    log = logs(directory)[1]
    before = log.read_bytes()
    away = move(log, log.parent / name.format(log.name))
    finding = missing(directory)
    assert str(finding.found).startswith(f"no such file: its batches are in {away}")
    assert finding.command is not None
    subprocess.run(["sh", "-c", finding.command], check=True)
    assert log.read_bytes() == before


def test_the_first_half_of_a_log_is_kept(directory: Path, tmp_path: Path) -> None:
    log = logs(directory)[1]
    whole = log.read_bytes()
    away = move(log, log.parent / f".{log.name}.Xa3bQ1")
    away.write_bytes(whole[: len(whole) * 2 // 3])
    finding = missing(directory)
    end = finding.lost_first_offset
    assert end is not None
    assert end > int(log.stem)
    assert str(finding.found).startswith(f"no such file: a part of it, up to offset {end - 1:,}, is {away}")
    assert finding.command == f"kcli recover --unclean --salvage --dry-run '{log.parent}'"
    out = tmp_path / "out"
    assert kcli("recover", "--salvage", "--out", out, directory).status == 0
    kept = (out / log.parent.name / log.name).read_bytes()
    assert kept
    assert whole.startswith(kept)


def test_a_copy_of_another_partitions_log_is_no_part_of_this_one(directory: Path) -> None:
    """As where a copy that was put in the place of a log by mistake has been moved away."""
    log, other = logs(directory)[0], logs(directory, OTHER)[0]
    log.unlink()
    assert int(log.stem) == int(other.stem)
    data = other.read_bytes()
    log.with_name(f"{log.name}.copy").write_bytes(data[: len(data) // 2])
    assert f"{log.name}.copy" not in str(missing(directory).found)


def test_what_is_left_of_a_copy_within_the_directory_lacks_nothing(directory: Path) -> None:
    log = logs(directory)[-1]
    before = log.read_bytes()
    inner = Path(shutil.copytree(log.parent, directory / "copy")).rename(log.parent / log.parent.name)
    for path in files_of(log):
        path.unlink()
    finding = missing(directory)
    assert str(finding.found) == f"no such file: its batches are in {inner / log.name}"
    subprocess.run(["sh", "-c", str(finding.command)], check=True)
    assert log.read_bytes() == before
    assert [each.kind for each in loud(directory) if each.severity == "error"] == []
    (note,) = (each for each in Verification([directory]).findings() if each.kind == "log-missing")
    assert (note.path, note.severity, note.lost_first_offset) == (str(inner / log.name), "info", None)
    assert f"remove it when {PARTITION} has all records" in str(note.action)
    log.unlink()
    assert missing(directory).lost_first_offset == int(log.stem)


def test_a_log_of_a_compacted_topic_is_known_by_its_indexes(tmp_path: Path) -> None:
    directory = Path(shutil.copytree(GOLDEN / "compact/after", tmp_path / "data", copy_function=shutil.copyfile))
    log = max(logs(directory, "c-snappy-0")[1:-1], key=lambda each: each.stat().st_size)
    away = to_lost_and_found(log)
    finding = missing(directory)
    assert (finding.path, finding.found) == (str(log), f"no such file: its batches are in {away}")
    away.unlink()
    finding = missing(directory)
    assert (finding.path, finding.lost_first_offset) == (str(log), int(log.stem))


@pytest.mark.parametrize("damage", [to_lost_and_found, without_indexes])
def test_the_log_of_another_partition_is_not_the_one(directory: Path, damage: Callable[[Path], Path]) -> None:
    log = logs(directory)[1]
    away = damage(log)
    other = next(each for each in logs(directory, OTHER) if each.stem != log.stem)
    shutil.copyfile(other, away)
    finding = missing(directory)
    assert finding.lost_first_offset == int(log.stem)
    assert str(finding.command).startswith("find ")


def test_two_files_are_none(directory: Path) -> None:
    away = to_lost_and_found(logs(directory)[1])
    shutil.copyfile(away, away.with_name("#2"))
    assert str(missing(directory).command).startswith("find ")


@pytest.mark.parametrize("content", [b"\x1f\x8b", b"\x1f\x8b\x08\x00" + b"\xff" * 100, b"", b"\0" * 61])
def test_other_files_are_no_logs(directory: Path, content: bytes) -> None:
    away = to_lost_and_found(logs(directory)[1])
    away.write_bytes(content)
    os.mkfifo(away.with_name("pipe"))
    assert missing(directory).lost_first_offset is not None


def test_an_emptied_log_is_not_called_missing(directory: Path) -> None:
    """No log has an offset as its name at which one must have begun."""
    log = logs(directory)[1]
    for path in files_of(log):
        path.write_bytes(b"")
    finding = next(each for each in loud(directory) if each.kind == "log-missing")
    assert finding.path == str(directory / PARTITION)
    assert f"or these at the end of {log.name}" in str(finding.expected)
    names = subprocess.run(["sh", "-c", str(finding.command)], check=True, capture_output=True, text=True).stdout
    assert str(log) in names


@pytest.mark.parametrize("number", [0, 1, -1])
def test_a_log_compressed_under_its_own_name_is_inflated(directory: Path, number: int) -> None:
    log = logs(directory)[number]
    whole = log.read_bytes()
    log.write_bytes(gzip.compress(whole))
    (finding,) = loud(directory)
    assert (finding.kind, finding.path) == ("log-compressed", str(log))
    assert f"batches from offset {int(log.stem):,} on" in str(finding.found)
    subprocess.run(["sh", "-c", str(finding.command)], check=True)
    assert log.read_bytes() == whole
    assert loud(directory) == []


def test_a_gzip_file_of_something_else_is_no_log(directory: Path) -> None:
    """The file's batches are of another segment, and do not fit the name."""
    one, other = logs(directory)[:2]
    for content in (other.read_bytes(), b"no batch at all", b""):
        one.write_bytes(gzip.compress(content))
        assert "log-compressed" not in {each.kind for each in loud(directory)}


@pytest.mark.parametrize("number", [0, -1])
def test_a_link_to_the_log_of_another_partition_is_one_finding(directory: Path, number: int) -> None:
    log, other = logs(directory)[number], logs(directory, OTHER)[number]
    log.unlink()
    log.symlink_to(Path("..", OTHER, other.name))
    (finding,) = (each for each in loud(directory) if Path(each.path).parent == log.parent)
    assert (finding.kind, finding.path) == ("log-link", str(log))
    assert f"the batches are those of {OTHER}" in str(finding.found)


def test_a_link_to_a_file_on_another_disk_is_calm(directory: Path, tmp_path: Path) -> None:
    log = logs(directory)[0]
    target = log.rename(tmp_path / "elsewhere.log")
    log.symlink_to(target)
    assert loud(directory) == []


def test_an_encrypted_log_beside_the_place_of_the_missing_one_is_named(directory: Path) -> None:
    log = logs(directory)[-1]
    data = bytes(each ^ 0x5A for each in log.read_bytes())
    log.with_name(f"{log.name}.locked").write_bytes(data)
    log.unlink()
    what = f"{log.name}.locked ({len(data):,} bytes), beside it, does not begin with a batch"
    assert f"; {what}: it may be encrypted or damaged" in str(missing(directory).found)


@pytest.mark.parametrize("at", ["begin", "middle"])
@pytest.mark.parametrize("with_indexes", [True, False])
@pytest.mark.parametrize("name", ["{}.log.1", "Copy of {}.log", "{} (1).log", ".nfs00000000012a3f4b00000c01"])
def test_a_bad_sector_does_not_hide_what_a_log_under_another_name_has(
    directory: Path, tmp_path: Path, name: str, at: str, *, with_indexes: bool
) -> None:
    """Every sound batch says its offsets."""
    log = logs(directory)[1]
    if not with_indexes:
        for path in files_of(log):
            if path.suffix in (".index", ".timeindex"):
                path.unlink()
    data = bytearray(log.read_bytes())
    position = 0 if at == "begin" else len(data) // 1024 * 512
    data[position : position + 512] = bytes(512)
    log.unlink()
    away = log.with_name(name.format(log.stem))
    away.write_bytes(data)
    with closing(FileSource(away)) as source:
        sound = [(row.base_offset, row.crc) for row in sound_batches(source)]
    told = [each for each in loud(directory) if each.kind in ("log-missing", "file-name")]
    assert any(away.name in f"{each.path} {each.found}" for each in told)
    new = tmp_path / "new"
    kcli("recover", "--salvage", "--out", new, directory)
    with closing(FileSource(new / PARTITION / log.name)) as source:
        assert [(row.base_offset, row.crc) for row in sound_batches(source)] == sound
