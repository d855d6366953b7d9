"""A partition's directory that was copied to the name of a partition which the topic does not have."""

import gzip
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kcli.inspector.verify import Finding
from kcli.log.recovery.stray_copies import lacking_in_file
from tests.cli.run import kcli
from tests.cli.test_recover_renamed_logs import rows
from tests.inspector.test_verify_causes import OTHER, PARTITION, directory, files_of, logs, loud
from tests.inspector.test_verify_split_logs import ends_of

__all__ = ["directory"]  # a fixture

COPY = "java-none-7"


def copied(directory: Path) -> Path:
    return Path(shutil.copytree(directory / PARTITION, directory / COPY))


def zero(log: Path, begin: int, size: int) -> None:
    data = bytearray(log.read_bytes())
    data[begin : begin + size] = bytes(size)
    log.write_bytes(data)


def zero_batches(log: Path, first: int, last: int) -> tuple[int, int]:
    """Overwrite the batches with the numbers `first` to `last` with zeros. Returns their first and last offset."""
    ends = [(0, int(log.stem)), *ends_of(log)]
    zero(log, ends[first][0], ends[last + 1][0] - ends[first][0])
    return ends[first][1], ends[last + 1][1] - 1


def of(directory: Path, kind: str) -> Finding:
    (finding,) = (each for each in loud(directory) if each.kind == kind)
    return finding


def test_the_damage_comes_before_the_copy_that_can_fill_it(directory: Path, tmp_path: Path) -> None:
    log = logs(directory)[0]
    whole = log.read_bytes()
    copy = copied(directory)
    first, last = zero_batches(log, 2, 3)
    damage, stray = loud(directory)[:2]
    offsets = f"offsets {first:,}..{last:,}" if last > first else f"offset {first:,}"
    assert (damage.path, damage.severity) == (str(log), "error")
    assert str(damage.found).endswith(f"{copy / log.name}, a copy of the file, has what it lacks: {offsets}")
    assert damage.command == f"kcli recover --salvage --dry-run '{directory}'"
    assert "fetch the partition" not in damage.action
    assert (stray.kind, stray.path, stray.severity) == ("partition-stray", str(copy), "warning")
    assert f"it is a copy of {PARTITION}, and has what that lacks: {offsets}" in str(stray.found)
    assert stray.command == damage.command
    out = tmp_path / "out"
    (row,) = (row for row in rows(directory, "--out", out) if row["kind"] == "refilled")
    assert (row["source"], row["first_offset"], row["last_offset"]) == (f"{COPY}/{log.name}", first, last)
    assert (out / PARTITION / log.name).read_bytes() == whole
    assert "a copy of the log" in kcli("recover", "--salvage", directory).stdout
    assert of(out, "partition-stray").action == "nothing is lost with it: move it out of the log directory"


def test_a_snapshot_of_the_log_directory_inside_it_fills_damage(directory: Path, tmp_path: Path) -> None:
    """Such as a file server makes it, in .snapshot; of another topic's directory nothing is taken."""
    log = logs(directory)[0]
    whole = log.read_bytes()
    inside = Path(shutil.copytree(directory, tmp_path / "hourly.0"))
    (directory / ".snapshot").mkdir()
    inside = inside.rename(directory / ".snapshot/hourly.0")
    first, last = zero_batches(log, 2, 3)
    (damage,) = (each for each in loud(directory) if each.path == str(log))
    assert f"{inside / PARTITION / log.name}, a copy of the file, has what it lacks" in str(damage.found)
    assert damage.command == f"kcli recover --salvage --dry-run '{directory}'"
    out = tmp_path / "out"
    (row,) = (row for row in rows(directory, "--out", out) if row["kind"] == "refilled")
    source = f".snapshot/hourly.0/{PARTITION}/{log.name}"
    assert (row["source"], row["first_offset"], row["last_offset"]) == (source, first, last)
    assert (out / PARTITION / log.name).read_bytes() == whole
    assert not (out / ".snapshot").exists()
    (inside / PARTITION / "partition.metadata").write_text(f"version: 0\ntopic_id: {'A' * 20}BQ")
    assert "refilled" not in {row["kind"] for row in rows(directory, "--out", tmp_path / "other")}


def test_a_copy_of_a_sound_partition_is_a_warning(directory: Path) -> None:
    copy = copied(directory)
    finding = of(directory, "partition-stray")
    assert (finding.path, finding.severity) == (str(copy), "warning")
    assert str(finding.found).endswith(f"it is a copy of {PARTITION}")
    assert str(finding.command).startswith("mv ")


def test_a_partition_that_is_no_copy_is_an_error(directory: Path) -> None:
    """Its records are in no other directory: they leave service."""
    copy = copied(directory)
    for log in logs(directory, COPY):
        log.unlink()
    for log in logs(directory, OTHER):
        shutil.copyfile(log, copy / log.name)
    found = [each for each in loud(directory) if each.kind == "partition-stray"]
    assert [each.severity for each in found] == ["error"]


def test_recovery_in_place_takes_nothing_from_another_directory(directory: Path) -> None:
    log = logs(directory)[0]
    copied(directory)
    zero_batches(log, 2, 3)
    assert "refilled" not in [row["kind"] for row in rows(directory, "--in-place")]


def of_another_log(copy: Path) -> None:
    """The batch behind the damage is another one."""
    ends = ends_of(copy)
    data = bytearray(copy.read_bytes())
    data[ends[4][0] - 1] ^= 1
    copy.write_bytes(data)


def with_same_damage(copy: Path) -> None:
    zero_batches(copy, 2, 3)


@pytest.mark.parametrize("change", [of_another_log, with_same_damage], ids=lambda change: change.__name__)
def test_a_copy_without_proof_fills_nothing(directory: Path, tmp_path: Path, change: Callable[[Path], None]) -> None:
    log = logs(directory)[0]
    copy = copied(directory)
    zero_batches(log, 2, 3)
    change(copy / log.name)
    assert "has what it lacks" not in "".join(str(each.found) for each in loud(directory))
    assert "refilled" not in [row["kind"] for row in rows(directory, "--out", tmp_path / "out")]


def test_the_begin_and_the_end_of_a_file(directory: Path) -> None:
    log = logs(directory)[0]
    copy = copied(directory) / log.name
    ends = ends_of(log)
    last = zero_batches(log, len(ends) - 2, len(ends) - 1)
    assert [*lacking_in_file(log, copy)] == [last]
    first = zero_batches(log, 0, 0)
    assert [*lacking_in_file(log, copy)] == [first, last]
    zero(log, 0, log.stat().st_size)
    assert [*lacking_in_file(log, copy)] == [], "no batch is in both"


def test_offsets_without_damage_are_not_lacking(directory: Path) -> None:
    """As after a compaction, and where the log was cut at the end."""
    log = logs(directory)[0]
    copy = copied(directory) / log.name
    ends, data = ends_of(log), log.read_bytes()
    log.write_bytes(data[: ends[1][0]] + data[ends[2][0] : ends[-2][0]])
    assert [*lacking_in_file(log, copy)] == []


DATED = f"{PARTITION}-20261128"
"""The name under which an operator keeps a copy with `cp -a`: to Kafka that of a partition of a topic `java-none-0`."""


def dated(directory: Path) -> Path:
    return Path(shutil.copytree(directory / PARTITION, directory / DATED))


def cut_in_a_batch(log: Path) -> None:
    os.truncate(log, ends_of(log)[1][0] + 20)


def cut_behind_a_batch(log: Path) -> None:
    os.truncate(log, ends_of(log)[1][0])


def emptied(log: Path) -> None:
    os.truncate(log, 0)


@pytest.mark.parametrize("damage", [cut_in_a_batch, cut_behind_a_batch, emptied], ids=lambda each: each.__name__)
def test_a_copy_with_a_date_behind_its_name_fills_a_log(
    directory: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    log = logs(directory)[0]
    whole = log.read_bytes()
    copy = dated(directory)
    damage(log)
    first, stray = loud(directory)[:2]
    assert (first.path, first.severity, first.lost_first_offset) == (str(log), "error", None)
    assert f"{copy / log.name}, a copy of the file, has what it lacks" in str(first.found)
    assert first.command == f"kcli recover --salvage --dry-run '{directory}'"
    assert (stray.kind, stray.path, stray.severity) == ("partition-stray", str(copy), "warning")
    assert f"it is a copy of {PARTITION}, and has what that lacks" in str(stray.found)
    assert stray.action.startswith("keep it until salvage")
    out = tmp_path / "out"
    (row,) = (row for row in rows(directory, "--out", out) if row["kind"] == "refilled")
    assert row["source"] == f"{DATED}/{log.name}"
    assert (out / PARTITION / log.name).read_bytes() == whole
    assert (out / DATED / log.name).read_bytes() == whole
    assert of(out, "partition-stray").action == "nothing is lost with it: move it out of the log directory"


@pytest.mark.parametrize(("number", "kind"), [(0, "log-missing"), (-1, "log-end")])
def test_a_log_that_only_the_copy_has(directory: Path, tmp_path: Path, number: int, kind: str) -> None:
    log = logs(directory)[number]
    whole = log.read_bytes()
    copy = dated(directory)
    for path in files_of(log) if number else [log]:
        path.unlink()
    missing = of(directory, kind)
    assert f"its batches are in {copy / log.name}" in str(missing.found)
    assert missing.lost_first_offset is None
    assert of(directory, "partition-stray").action.startswith("keep it until salvage")
    out = tmp_path / "out"
    assert [row["name"] for row in rows(directory, "--out", out) if row["kind"] == "restored"] == [log.name]
    assert (out / PARTITION / log.name).read_bytes() == (out / DATED / log.name).read_bytes() == whole


def test_a_directory_that_got_a_date_behind_its_name(directory: Path, tmp_path: Path) -> None:
    before = [log.read_bytes() for log in logs(directory)]
    away = (directory / PARTITION).rename(directory / DATED)
    missing = of(directory, "partition-missing")
    assert f"it has the name {DATED}" in str(missing.found)
    assert missing.command == f"mv -nT -- '{away}' '{directory / PARTITION}'"
    assert [each.kind for each in loud(directory)] == ["partition-missing"]
    out = tmp_path / "out"
    found = rows(directory, "--out", out, of=[DATED])
    assert [row["name"] for row in found if row["kind"] == "renamed"] == [PARTITION]
    assert [log.read_bytes() for log in logs(out)] == before


def test_a_directory_of_another_topic_is_no_copy_for_its_name(directory: Path) -> None:
    copy = dated(directory)
    shutil.copyfile(directory / OTHER / "partition.metadata", copy / "partition.metadata")
    log = logs(directory)[0]
    cut_in_a_batch(log)
    assert "has what" not in "".join(str(each.found) for each in loud(directory))


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("{}.bak", bytes),
        ("{}.gz", gzip.compress),
        ("{}-20261129", bytes),
        (".{}.hK3b9Z", bytes),
        (".nfs00000000012a3f4b00000c01", bytes),
        (".rsync-partial/{}", bytes),
    ],
    ids=["bak", "gz", "date", "rsync", "nfs", "partial"],
)
def test_a_file_beside_a_damaged_log_fills_it(
    directory: Path, tmp_path: Path, name: str, pack: Callable[[bytes], bytes]
) -> None:
    log = logs(directory)[0]
    whole = log.read_bytes()
    beside = log.parent / name.format(log.name)
    beside.parent.mkdir(exist_ok=True)
    beside.write_bytes(pack(whole))
    first, last = zero_batches(log, 2, 3)
    (damage,) = (each for each in loud(directory) if each.path == str(log))
    assert f"{beside} beside it has what it lacks: offset" in str(damage.found)
    assert damage.command == f"kcli recover --salvage --dry-run '{directory}'"
    out = tmp_path / "out"
    (row,) = (row for row in rows(directory, "--out", out) if row["kind"] == "refilled")
    source = str(beside.relative_to(log.parent))
    told = kcli("recover", "--salvage", directory).stdout
    assert f"{source}, {'a copy of the log' if '/' in source else 'a file beside the log'}: offsets" in told
    assert (row["source"], row["first_offset"], row["last_offset"]) == (source, first, last)
    assert (out / PARTITION / log.name).read_bytes() == whole


@pytest.mark.parametrize("name", ["{}.bak", ".nfs00000000012a3f4b00000c01"])
def test_a_file_beside_with_a_bad_first_sector_fills_what_it_has(directory: Path, tmp_path: Path, name: str) -> None:
    log = logs(directory)[0]
    data = log.read_bytes()
    (log.parent / name.format(log.name)).write_bytes(b"\xff" * 512 + data[512:])
    zero_batches(log, 4, 5)
    out = tmp_path / "out"
    rows(directory, "--out", out)
    assert (out / PARTITION / log.name).read_bytes() == data


def test_what_a_rotation_has_copied_and_cut_is_joined_again(directory: Path, tmp_path: Path) -> None:
    """copytruncate twice, while Kafka writes on behind the holes: no two of the files have a batch in common."""
    log = logs(directory)[0]
    whole = log.read_bytes()
    (one, _), (two, _) = ends_of(log)[1], ends_of(log)[3]
    log.with_name(f"{log.name}.2").write_bytes(whole[:one])
    log.with_name(f"{log.name}.1").write_bytes(bytes(one) + whole[one:two])
    log.write_bytes(bytes(two) + whole[two:])
    (damage,) = (each for each in loud(directory) if each.path == str(log))
    assert f"{log.name}.1 beside it has what it lacks" in str(damage.found)
    out = tmp_path / "out"
    sources = [row["source"] for row in rows(directory, "--out", out) if row["kind"] == "refilled"]
    assert sources == [f"{log.name}.2", f"{log.name}.1"]
    assert (out / PARTITION / log.name).read_bytes() == whole


@pytest.mark.parametrize("what", ["another partition", "no log"])
def test_a_file_beside_that_is_no_version_of_a_damaged_log_fills_nothing(directory: Path, what: str) -> None:
    log = logs(directory)[0]
    data = logs(directory, OTHER)[0].read_bytes() if what == "another partition" else b"\x7fELF" * 4096
    log.with_name(f"{log.name}.bak").write_bytes(data)
    zero_batches(log, 2, 3)
    (damage,) = (each for each in loud(directory) if each.path == str(log))
    assert ".bak" not in str(damage.found)
