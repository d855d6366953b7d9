"""Salvage reads logs under other names, and reports a row for each; offsets that no file has get a row, too."""

import bz2
import gzip
import json
import lzma
import shutil
import subprocess
from collections.abc import Callable, Collection
from itertools import pairwise
from pathlib import Path
from typing import Any

import lz4.frame  # type: ignore[import-untyped]
import pytest
import zstandard

from formats.file_name import METADATA_DIRECTORY, FileKind, FileName, build
from kcli.inspector.verify.segment_names import log_name
from tests.cli.run import kcli
from tests.conftest import GOLDEN
from tests.inspector.test_verify_causes import OTHER, PARTITION, directory, files_of, logs, loud
from tests.inspector.test_verify_renamed_logs import (
    keep_as,
    to_lost_and_found,
    to_lost_and_found_of_the_disk,
    without_indexes,
)

__all__ = ["directory"]  # a fixture


def batches(directory: Path) -> bytes:
    """All bytes of the logs, in order."""
    return b"".join(path.read_bytes() for path in logs(directory))


def rows(directory: Path, *options: str | Path, of: Collection[str] = (PARTITION,)) -> list[dict[str, Any]]:
    ended = kcli("recover", "--salvage", "--format", "jsonl", *options, directory)
    return [row for row in map(json.loads, ended.stdout.splitlines()) if row["partition"] in of]


def kinds(found: list[dict[str, Any]]) -> list[str]:
    return [row["kind"] for row in found if row["kind"] in ("restored", "gap", "left-out")]


def beside_an_older_one(log: Path) -> Path:
    whole = log.rename(log.with_name(f"{log.stem}.sync-conflict-20261123-ABC.log"))
    log.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    return whole


def beside_an_empty_one(log: Path) -> Path:
    whole = log.rename(log.with_name(f"{log.name}.bak"))
    log.touch()
    return whole


@pytest.mark.parametrize("damage", [keep_as, beside_an_empty_one], ids=lambda damage: damage.__name__)
@pytest.mark.parametrize(
    ("partition", "number"), [("v0-none-0", -1), ("v0-gzip-0", 0), ("v1-none-0", 0), ("v1-gzip-0", -1)]
)
def test_salvage_takes_a_log_of_magic_0_or_1(
    tmp_path: Path, damage: Callable[[Path], Path], number: int, partition: str
) -> None:
    directory = Path(shutil.copytree(GOLDEN / "legacy/data", tmp_path / "data", copy_function=shutil.copyfile))
    log = logs(directory, partition)[number]
    before = log.read_bytes()
    away = damage(log)
    found = rows(directory, "--out", tmp_path / "new", of=[partition])
    assert [(row["kind"], row["file"]) for row in found if row["kind"] in kinds(found)] == [("restored", away.name)]
    assert (tmp_path / "new" / partition / log.name).read_bytes() == before


HERE = [keep_as, beside_an_older_one, beside_an_empty_one]


@pytest.mark.parametrize("number", [0, 1, -1], ids=["first", "middle", "last"])
@pytest.mark.parametrize(
    "damage",
    [keep_as, beside_an_older_one, beside_an_empty_one, to_lost_and_found, to_lost_and_found_of_the_disk],
    ids=lambda damage: damage.__name__,
)
def test_salvage_takes_a_log_under_another_name(
    directory: Path, tmp_path: Path, damage: Callable[[Path], Path], number: int
) -> None:
    before = batches(directory)
    log = logs(directory)[number]
    away = damage(log)
    found = rows(directory, "--out", tmp_path / "new")
    assert kinds(found) == ["restored"]
    (row,) = (row for row in found if row["kind"] == "restored")
    assert ((directory / PARTITION / row["file"]).resolve(), row["name"]) == (away.resolve(), log.name)
    assert batches(tmp_path / "new") == before
    assert [each for each in loud(tmp_path / "new") if each.severity == "error" and "log" in each.kind] == []


@pytest.mark.parametrize("damage", HERE, ids=lambda damage: damage.__name__)
def test_in_place(directory: Path, damage: Callable[[Path], Path]) -> None:
    before = batches(directory)
    away = damage(logs(directory)[1])
    assert kinds(rows(directory, "--in-place")) == ["restored"]
    assert batches(directory) == before
    assert not away.exists()


@pytest.mark.parametrize("suffix", ["~1~", "bak"])
@pytest.mark.parametrize("number", [0, 1, -1], ids=["first", "middle", "last"])
@pytest.mark.parametrize("target", ["--out", "--in-place"])
def test_a_copy_of_another_log_gives_way_to_the_own(
    directory: Path, tmp_path: Path, target: str, number: int, suffix: str
) -> None:
    before = batches(directory)
    log, other = logs(directory)[number], logs(directory, OTHER)[number]
    whole = log.rename(log.with_name(f"{log.name}.{suffix}"))
    shutil.copyfile(other, log)
    (finding,) = (each for each in loud(directory) if each.path.startswith(str(directory / PARTITION)))
    assert (finding.kind, finding.lost_first_offset) == ("log-foreign", None)
    assert str(whole) in str(finding.found)
    shown = kcli("recover", directory)
    assert f"{PARTITION}/{log.name}\n" in shown.stdout
    assert f"a copy of {OTHER}/{other.name}, another partition's log: Kafka starts, and serves" in shown.stdout
    assert "\nnext             kcli " in shown.stdout
    found = rows(directory, *([target, tmp_path / "new"] if target == "--out" else [target]))
    assert sorted(kinds(found)) == ["left-out", "restored"]
    assert next(row["file"] for row in found if row["kind"] == "left-out") == log.name
    new = tmp_path / "new" if target == "--out" else directory
    assert batches(new) == before
    assert [each for each in loud(new) if each.path.startswith(str(new / PARTITION))] == []


def test_the_next_step_of_verify_moves_a_copy_away_and_the_own_log_back(directory: Path) -> None:
    before = batches(directory)
    log = logs(directory)[1]
    log.rename(log.with_name(f"{log.name}.~1~"))
    shutil.copyfile(logs(directory, OTHER)[1], log)
    (finding,) = (each for each in loud(directory) if each.kind == "log-foreign")
    subprocess.run(["sh", "-c", str(finding.command)], check=True)
    assert batches(directory) == before


def test_a_copy_of_another_log_alone_is_left_out(directory: Path, tmp_path: Path) -> None:
    log = logs(directory)[1]
    shutil.copyfile(logs(directory, OTHER)[1], log)
    assert sorted(kinds(rows(directory, "--out", tmp_path / "new"))) == ["gap", "left-out"]
    assert log.name not in {each.name for each in logs(tmp_path / "new")}


def test_the_end_of_a_log_under_another_name_has_a_next_step(directory: Path) -> None:
    log = logs(directory)[-1]
    log.rename(log.with_name(f".{log.name}.Q3xVbT"))
    shown = kcli("recover", directory)
    assert "end-missing" in shown.stdout
    assert "next             kcli recover --salvage --out NEW" in shown.stdout


def without_leading_zeros(directory: Path) -> None:
    """Rename files as a store does that keeps neither empty files nor leading zeros."""
    for path in sorted((directory / PARTITION).iterdir()):
        if not path.stat().st_size:
            path.unlink()
        elif path.name[:20].isdecimal():
            path.rename(path.with_name(f"{int(path.name[:20])}{path.name[20:]}"))


def started(directory: Path) -> None:
    """Change the directory as a start of Kafka does: it makes empty logs with names of 20 digits, and indexes."""
    names = (path.name.partition(".") for path in sorted((directory / PARTITION).glob("*.log")))
    for base in {int(stem) for stem, _, _ in names}:
        for kind in (FileKind.LOG, FileKind.OFFSET_INDEX):
            (directory / PARTITION / build(FileName(kind, base))).touch()
        (directory / PARTITION / build(FileName(FileKind.TIME_INDEX, base))).write_bytes(bytes(12))
        (directory / PARTITION / f"{base}.index").unlink(missing_ok=True)


@pytest.mark.parametrize("is_started", [False, True])
@pytest.mark.parametrize("target", ["--out", "--in-place"])
def test_logs_without_leading_zeros(directory: Path, tmp_path: Path, target: str, *, is_started: bool) -> None:
    before, names = batches(directory), [log.name for log in logs(directory)]
    without_leading_zeros(directory)
    if is_started:
        started(directory)
    options = [target, tmp_path / "new"] if target == "--out" else [target]
    found = rows(directory, "-o", "segment.index.bytes=1048576", *options)
    new = tmp_path / "new" if target == "--out" else directory
    assert {row["name"] for row in found if row["kind"] == "restored"} >= set(names)
    assert [row for row in found if row["kind"] in ("gap", "left-out")] == []
    assert batches(new) == before
    assert [log.name for log in logs(new)] == names
    assert [each for each in loud(new) if each.path.startswith(str(new / PARTITION))] == []


def test_a_log_with_a_batch_outweighs_one_without_leading_zeros(directory: Path) -> None:
    log = logs(directory)[1]
    log.with_name(f"{int(log.stem)}.log").write_bytes(log.read_bytes())
    assert kinds(rows(directory)) == []


@pytest.mark.parametrize("is_started", [False, True])
def test_the_next_steps_of_verify_give_logs_their_leading_zeros(directory: Path, *, is_started: bool) -> None:
    before = batches(directory)
    without_leading_zeros(directory)
    if is_started:
        started(directory)
    odd = [each for each in loud(directory) if each.kind == "file-name" and each.severity == "error"]
    assert len(odd) == len([path for path in (directory / PARTITION).glob("*.log") if path.stat().st_size])
    for each in odd:
        subprocess.run(["sh", "-c", str(each.command)], check=True)
    assert batches(directory) == before


def renamed_in_case(directory: Path, new_suffix: Callable[[str], str]) -> None:
    """Rename all files of a partition's segments as a file system does that does not keep upper and lower case."""
    for path in sorted((directory / PARTITION).iterdir()):
        if path.name[:20].isdecimal():
            path.rename(path.with_name(f"{path.stem}{new_suffix(path.suffix)}"))


def with_end(directory: Path, offset: int) -> None:
    """Write another recovery point and high watermark of the partition."""
    topic, _, number = PARTITION.rpartition("-")
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        lines = (directory / name).read_text().splitlines()
        lines = [f"{topic} {number} {offset}" if line.startswith(f"{topic} {number} ") else line for line in lines]
        (directory / name).write_text("\n".join([*lines, ""]))


CASES = [str.upper, str.title, str.swapcase]


@pytest.mark.parametrize("is_started", [False, True])
@pytest.mark.parametrize("new_suffix", CASES)
@pytest.mark.parametrize("target", ["--out", "--in-place"])
def test_suffixes_in_another_case(
    directory: Path, tmp_path: Path, target: str, new_suffix: Callable[[str], str], *, is_started: bool
) -> None:
    """After a crash, the logs go on behind the recovery points."""
    (directory / ".kafka_cleanshutdown").unlink(missing_ok=True)
    before, names = batches(directory), [log.name for log in logs(directory)]
    with_end(directory, int(Path(names[-1]).stem) + 2)
    renamed_in_case(directory, new_suffix)
    if is_started:
        (directory / PARTITION / names[0]).touch()
        (directory / PARTITION / names[0]).with_suffix(".index").touch()
    options = [target, tmp_path / "new"] if target == "--out" else [target]
    found = rows(directory, *options)
    new = tmp_path / "new" if target == "--out" else directory
    assert {row["name"] for row in found if row["kind"] == "restored"} >= set(names)
    assert [row for row in found if row["kind"] in ("gap", "left-out", "end-missing")] == []
    assert batches(new) == before
    assert [log.name for log in logs(new)] == names
    assert [each for each in loud(new) if each.path.startswith(str(new / PARTITION))] == []


@pytest.mark.parametrize("is_started", [False, True])
@pytest.mark.parametrize("new_suffix", CASES)
def test_the_first_line_of_verify_names_the_case(
    directory: Path, new_suffix: Callable[[str], str], *, is_started: bool
) -> None:
    (directory / ".kafka_cleanshutdown").unlink(missing_ok=True)
    before, names = batches(directory), [log.name for log in logs(directory)]
    with_end(directory, int(Path(names[-1]).stem) + 2)
    renamed_in_case(directory, new_suffix)
    if is_started:
        (directory / PARTITION / names[0]).touch()
    (finding,) = loud(directory)
    assert (finding.kind, finding.path) == ("log-missing", str(directory / PARTITION / names[0]))
    assert (finding.lost_first_offset, "ignores case" in str(finding.found)) == (None, True)
    subprocess.run(["sh", "-c", str(finding.command)], check=True)
    assert batches(directory) == before
    assert loud(directory) == []


def test_recover_says_where_the_offsets_are(directory: Path) -> None:
    (directory / ".kafka_cleanshutdown").unlink(missing_ok=True)
    names = [log.name.upper() for log in logs(directory)]
    renamed_in_case(directory, str.upper)
    found = [json.loads(line) for line in kcli("recover", "--format", "jsonl", directory).stdout.splitlines()]
    found = [row for row in found if row["partition"] == PARTITION]
    assert [row["file"] for row in found if row["kind"] == "passed-over"] == names
    (end,) = [row for row in found if row["kind"] == "end-missing"]
    assert (end["log_end_offset"], end["unread"]) == (0, [f"{PARTITION}/{name}" for name in names])
    shown = kcli("recover", directory).stdout
    assert f"its offsets from there on are in {PARTITION}/{names[0]}" in shown
    assert "lost: offsets" not in shown


def test_a_deleted_segment_beside_logs_in_upper_case_stays_deleted(directory: Path) -> None:
    """Retention had deleted the first segment; the others are there."""
    (directory / ".kafka_cleanshutdown").unlink(missing_ok=True)
    log, *others = logs(directory)
    log.rename(log.with_name(f"{log.name}.deleted"))
    for path in files_of(log):
        path.unlink()
    (directory / PARTITION / "leader-epoch-checkpoint").write_text(f"0\n1\n0 {others[0].stem.lstrip('0')}\n")
    before = {each.kind for each in loud(directory)}
    renamed_in_case(directory, str.upper)
    (directory / PARTITION / f"{log.name}.DELETED").rename(directory / PARTITION / f"{log.name}.deleted")
    assert {each.kind for each in loud(directory)} - before == {"log-missing"}
    found = rows(directory)
    assert [row["name"] for row in found if row["kind"] == "restored" and row["name"].startswith(log.stem)] == []
    assert [row for row in found if row["kind"] == "deleted"] == []


def test_the_metadata_log_in_upper_case_makes_strays(directory: Path) -> None:
    log = directory / METADATA_DIRECTORY / log_name(0)
    for path in files_of(log):
        path.rename(path.with_suffix(path.suffix.upper()))
    (finding,) = loud(directory)
    assert (finding.kind, finding.path, set(finding.consequences)) == ("log-missing", str(log), {"partition-stray"})
    subprocess.run(["sh", "-c", str(finding.command)], check=True)
    assert loud(directory) == []


def test_a_log_with_batches_outweighs_one_in_upper_case(directory: Path) -> None:
    log = logs(directory)[1]
    shutil.copyfile(log, log.with_suffix(".LOG"))
    assert loud(directory) == []
    assert kinds(rows(directory)) == []


@pytest.mark.parametrize("zeros", ["{}", "{:019}", "{:022}"])
@pytest.mark.parametrize("partition", ["c-gzip-0", "c-idem-0", "c-snappy-0", "c-zstd-0"])
def test_the_digits_of_a_compacted_log_are_its_base_offset(tmp_path: Path, partition: str, zeros: str) -> None:
    """The cleaner has removed the first records of its segments."""
    directory = Path(shutil.copytree(GOLDEN / "compact/after", tmp_path / "data", copy_function=shutil.copyfile))
    before = {path.name: path.read_bytes() for path in (directory / partition).iterdir()}
    for path in sorted((directory / partition).iterdir()):
        if path.name[:20].isdecimal():
            path.rename(path.with_name(f"{zeros.format(int(path.name[:20]))}{path.name[20:]}"))
    new = tmp_path / "new"
    rows(directory, "--out", new)
    saved = {path.name: path.read_bytes() for path in (new / partition).glob("*.log")}
    assert saved == {name: data for name, data in before.items() if name.endswith(".log")}
    assert [each for each in loud(new) if partition in each.path] == []
    odd = [each for each in loud(directory) if each.severity == "error"]
    assert {each.kind for each in odd} == {"file-name"}
    for each in odd:
        subprocess.run(["sh", "-c", str(each.command)], check=True)
    kept = {path.name: path.read_bytes() for path in (directory / partition).iterdir()}
    assert before.items() >= {name: data for name, data in kept.items() if name.endswith((".log", "index"))}.items()
    assert [each for each in loud(directory) if partition in each.path and each.severity == "error"] == []


def test_a_number_that_is_no_base_offset(directory: Path) -> None:
    """The .log files are numbered: 1.log is below the end of the one before."""
    for number, log in enumerate(logs(directory)):
        for path in files_of(log):
            path.rename(path.with_name(f"{number}{path.suffix}"))
    commands = [str(each.command) for each in loud(directory) if each.kind == "file-name"]
    before = [log.read_bytes() for log in logs(directory)]
    for command in commands:
        subprocess.run(["sh", "-c", command], check=True)
    assert [log.read_bytes() for log in logs(directory)] == before
    assert [int.from_bytes(log.read_bytes()[:8]) for log in logs(directory)] == [
        int(log.stem) for log in logs(directory)
    ]


def test_a_file_outside_is_named_and_not_moved(directory: Path) -> None:
    away = to_lost_and_found(logs(directory)[1])
    assert kinds(rows(directory, "--in-place")) == ["left-out", "gap"]
    assert away.exists()


def as_gzip(log: Path) -> Path:
    packed = log.with_name(f"{log.name}.1.gz")
    data = log.read_bytes()
    packed.write_bytes(gzip.compress(data[:5000]) + gzip.compress(data[5000:]))
    log.unlink()
    return packed


def as_zstd(log: Path) -> Path:
    packed = log.with_name(f"{log.name}.zst")
    packed.write_bytes(zstandard.compress(log.read_bytes()))
    log.unlink()
    return packed


def beside_its_emptied_self(log: Path) -> Path:
    packed = as_gzip(log)
    log.touch()
    return packed


def gzip_in_its_place(log: Path) -> Path:
    return as_gzip(log).rename(log)


def zstd_in_its_place(log: Path) -> Path:
    return as_zstd(log).rename(log)


def packed_by(program: Callable[[bytes], bytes], suffix: str) -> Callable[[Path], Path]:
    def as_packed(log: Path) -> Path:
        packed = log.with_name(f"{log.name}{suffix}")
        packed.write_bytes(program(log.read_bytes()))
        log.unlink()
        return packed

    return as_packed


as_xz, as_bzip2 = packed_by(lzma.compress, ".xz"), packed_by(bz2.compress, ".bz2")
as_lz4 = packed_by(lz4.frame.compress, ".lz4")
COMPRESSED = [as_gzip, as_zstd, as_xz, as_bzip2, as_lz4, beside_its_emptied_self, gzip_in_its_place, zstd_in_its_place]


@pytest.mark.parametrize("target", ["--out", "--in-place"])
@pytest.mark.parametrize("number", [0, 1, -1], ids=["first", "middle", "last"])
@pytest.mark.parametrize("damage", COMPRESSED, ids=lambda damage: damage.__name__)
def test_a_compressed_log_is_inflated(
    directory: Path, tmp_path: Path, damage: Callable[[Path], Path], number: int, target: str
) -> None:
    before = batches(directory)
    log = logs(directory)[number]
    packed = damage(log)
    found = rows(directory, *([target, tmp_path / "new"] if target == "--out" else [target]))
    assert kinds(found) == ["restored"]
    (row,) = (row for row in found if row["kind"] == "restored")
    assert (row["file"], row["name"]) == (packed.name, log.name)
    new = tmp_path / "new" if target == "--out" else directory
    assert batches(new) == before
    assert packed == log or not (new / PARTITION / packed.name).exists()
    assert [each for each in loud(new) if each.path.startswith(str(new / PARTITION))] == []


def test_a_damaged_compressed_log_is_named(directory: Path) -> None:
    packed = as_gzip(logs(directory)[1])
    packed.write_bytes(packed.read_bytes()[:-9])
    found = rows(directory)
    assert kinds(found) == ["left-out", "gap"]
    row = next(row for row in found if row["kind"] == "left-out")
    assert row["file"] == packed.name
    assert "compressed: the file ends inside" in row["reason"]


WITHOUT_INDEXES = pytest.mark.parametrize("damage", [without_indexes], ids=lambda each: each.__name__)


@WITHOUT_INDEXES
def test_a_start_makes_the_indexes_anew(directory: Path, tmp_path: Path, damage: Callable[[Path], Path]) -> None:
    before = batches(directory)
    damage(logs(directory)[2])
    assert kinds(rows(directory, "--out", tmp_path / "new")) == ["restored"]
    assert batches(tmp_path / "new") == before


@WITHOUT_INDEXES
def test_a_log_at_whose_new_index_a_start_fails_is_named(directory: Path, damage: Callable[[Path], Path]) -> None:
    damage(logs(directory)[1])
    found = rows(directory)
    assert kinds(found) == ["left-out", "gap"]
    assert any("time index is full" in row["reason"] for row in found if row["kind"] == "left-out")


def test_two_logs_of_one_gap(directory: Path, tmp_path: Path) -> None:
    before = batches(directory)
    for log in logs(directory)[2:4]:
        without_indexes(log).rename(log.with_suffix(".old"))
    assert kinds(rows(directory, "--out", tmp_path / "new")) == ["restored", "restored"]
    assert batches(tmp_path / "new") == before


@pytest.mark.parametrize("with_indexes", [False, True])
def test_offsets_that_no_file_has(directory: Path, with_indexes: bool) -> None:
    log, following = logs(directory)[1:3]
    for path in [log] if with_indexes else files_of(log):
        path.unlink()
    (gap,) = (row for row in rows(directory) if row["kind"] == "gap")
    assert (gap["first_offset"], gap["last_offset"]) == (int(log.stem), int(following.stem) - 1)
    if with_indexes:
        shown = kcli("recover", directory)
        assert f"its indexes are here and it is not: Kafka starts without offsets {int(log.stem):,}.." in shown.stdout
        assert shown.status == 1


def test_indexes_of_another_partition_are_no_sign_of_a_lost_log(directory: Path) -> None:
    """Their offsets are in a log that is there."""
    log, following = logs(directory)[1:3]
    between = (int(log.stem) + int(following.stem)) // 2
    shutil.copyfile(log.with_suffix(".index"), log.with_name(f"{between:020}.index"))
    ended = kcli("recover", directory)
    assert f"{between:020}.index" in ended.stdout
    assert "starts without offsets" not in ended.stdout
    assert ended.status == 0


def test_a_lost_log_below_the_log_start_offset_is_no_loss(directory: Path) -> None:
    """A start deletes such a segment in any case; the one behind it is told."""
    below, lost = logs(directory)[1:3]
    below.unlink()
    lost.unlink()
    topic, _, number = PARTITION.rpartition("-")
    (directory / "log-start-offset-checkpoint").write_text(f"0\n1\n{topic} {number} {int(lost.stem)}\n")
    shown = kcli("recover", directory).stdout
    assert f"starts without offsets {int(below.stem):,}.." not in shown
    assert f"starts without offsets {int(lost.stem):,}.." in shown


def test_the_first_logs_are_gone_and_their_indexes_are_not(directory: Path) -> None:
    """A start deletes these indexes, and the log then begins at the next log."""
    *gone, following = logs(directory)[:3]
    for path in gone:
        path.unlink()
    shown = kcli("recover", directory)
    for log, behind in pairwise([*gone, following]):
        assert f"Kafka starts without offsets {int(log.stem):,}..{int(behind.stem) - 1:,}\n" in shown.stdout
    assert shown.status == 1
    home = directory.parent
    (home / FileKind.LOG_START_OFFSETS).write_text(f"0\n1\n{directory.name[:-2]} 0 {int(following.stem)}\n")
    assert "Kafka starts without offsets" not in kcli("recover", home).stdout


def test_an_older_version_is_not_taken(directory: Path) -> None:
    log = logs(directory)[1]
    log.with_name(f"{log.name}.bak").write_bytes(log.read_bytes()[: log.stat().st_size // 2])
    log.with_name(f"{log.name}.same").write_bytes(log.read_bytes())
    other = logs(directory)[0]
    log.with_name(f"{log.stem}.other").write_bytes(log.read_bytes() + other.read_bytes())
    assert kinds(rows(directory)) == []
    assert [each.path for each in loud(directory) if each.path.endswith(str(FileKind.LOG))] == []


@pytest.mark.parametrize("name", [".{}.Xa8d2k", ".{}.000001", "{}.part-2"])
def test_the_whole_log_beside_a_transfer_that_ended_early(directory: Path, name: str) -> None:
    """rsync writes to a file with such a name, and renames it when it is complete."""
    log = logs(directory)[1]
    whole = log.read_bytes()
    (log.parent / name.format(log.name)).write_bytes(whole)
    log.write_bytes(whole[: len(whole) // 2])
    (found,) = (each for each in loud(directory) if each.kind == "log-cut")
    assert name.format(log.name) in str(found.command)
    assert [row["name"] for row in rows(directory) if row["kind"] == "restored"] == [log.name]


@pytest.mark.parametrize("name", [OTHER, "recompress-none-0"])
def test_a_log_moved_to_another_partition_is_taken_back(directory: Path, tmp_path: Path, name: str) -> None:
    before = batches(directory)
    log = logs(directory)[2]
    moved = log.rename(directory / name / log.name)
    found = rows(directory, "--out", tmp_path / "new", of=(PARTITION, name))
    told = [(row["kind"], row["partition"]) for row in found if row["kind"] in ("gap", "left-out", "restored")]
    assert sorted(told) == [("left-out", name), ("restored", PARTITION)]
    assert batches(tmp_path / "new") == before
    assert not (tmp_path / "new" / name / log.name).exists()
    assert [each for each in loud(tmp_path / "new") if each.severity == "error"] == []
    assert moved.exists()


def test_in_place_a_log_moved_to_another_partition_stays_there(directory: Path) -> None:
    log = logs(directory)[2]
    moved = log.rename(directory / OTHER / log.name)
    data = moved.read_bytes()
    found = [
        row for row in rows(directory, "--in-place", of=(PARTITION, OTHER)) if row["kind"] in ("left-out", "restored")
    ]
    assert {row["kind"] for row in found} == {"left-out"}
    assert all("salvage with --out" in row["reason"] for row in found)
    assert moved.read_bytes() == data


def test_a_log_moved_over_that_of_another_partition(directory: Path, tmp_path: Path) -> None:
    """The other one's own log is lost, and verify tells so in the finding of the one that lies in its place."""
    log, other = logs(directory)[2], logs(directory, OTHER)[2]
    data, first, end = log.read_bytes(), int(other.stem), int(logs(directory, OTHER)[3].stem)
    log.rename(other)
    for path in (directory, directory / OTHER):
        (finding,) = loud(path)
        assert (finding.kind, finding.lost_first_offset, finding.lost_last_offset) == ("log-foreign", first, end - 1)
        assert f"over {OTHER}'s own log; offsets {first}..{end - 1} are lost" in str(finding.found)
        assert "nothing is lost" not in str(finding.found)
    found = rows(directory, "--out", tmp_path / "new", of=(PARTITION, OTHER))
    (gap,) = (row for row in found if row["kind"] == "gap")
    assert (gap["partition"], gap["first_offset"], gap["last_offset"]) == (OTHER, first, end - 1)
    assert (tmp_path / "new" / PARTITION / log.name).read_bytes() == data
    assert not (tmp_path / "new" / OTHER / other.name).exists()
