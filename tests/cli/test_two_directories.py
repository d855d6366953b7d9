"""Two log directories of one broker: verify, recover and salvage of one directory with the other beside it. Each result
is that of Kafka 4.3.0 with the same damage in two directories."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from formats.file_name import METADATA_DIRECTORY
from kcli.inspector.cluster_metadata import read_image
from kcli.inspector.verify import Finding, Verification
from kcli.log.log_directory import read_properties
from kcli.log.recovery.identity import end_offset
from kcli.metadata.image import Record
from kcli.metadata.partition import from_uuid
from kcli.metadata_log.directory_ids import directory_ids
from tests.broker.metadata_dirs import open_metadata
from tests.cli.run import kcli
from tests.log.batches import batch
from tests.metadata_damage import LOG, byte_of, flip
from tests.two_directories import MOVED, SECOND_ID, two_directories

PAIR = ("meta.properties", "recovery-point-offset-checkpoint")
Directories = tuple[Path, Path, Path]


@pytest.fixture
def directories(tmp_path: Path) -> Directories:
    return two_directories(tmp_path)


def found(directories: Directories, *, with_config: bool = True, quietest: str = "warning") -> list[Finding]:
    """Return the findings in both, with server.properties or by the directories alone."""
    *both, config = directories
    server = read_properties(config) if with_config else {}
    findings = Verification(both, server=server, config=config if with_config else None).findings()
    return [each for each in findings if quietest == "info" or each.severity != "info"]


def recovered(directories: Directories, number: int, *options: str) -> list[dict[str, object]]:
    """Return the rows of `kcli recover` for one directory, without the offsets of partitions."""
    ended = kcli("recover", "--config", directories[2], "--format", "jsonl", *options, directories[number])
    assert not ended.stderr
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    return [row for row in rows if row["kind"] not in ("partition", "leftover-removed")]


def shortened(directory: Path) -> None:
    """Cut the log to its first half, as in an older copy."""
    log = max(directory.glob("*.log"))
    os.truncate(log, log.stat().st_size // 2)


@pytest.mark.parametrize("with_config", [True, False])
def test_two_sound_directories(directories: Directories, *, with_config: bool) -> None:
    assert found(directories, with_config=with_config) == []


def test_recovery_of_two_sound_directories(directories: Directories) -> None:
    assert recovered(directories, 0) == recovered(directories, 1) == []


@pytest.mark.parametrize("with_config", [True, False])
def test_one_partition_in_both(directories: Directories, *, with_config: bool) -> None:
    one, two, _ = directories
    shutil.copytree(two / MOVED[0], one / MOVED[0])
    shortened(one / MOVED[0])
    first = [each for each in found(directories, with_config=with_config) if each.kind == "directory-duplicate"]
    assert [(each.path, each.refuses_start) for each in first] == [(str(one / MOVED[0]), True)]


def test_what_a_copy_that_broke_off_lacks_follows_from_it(directories: Directories) -> None:
    one, two, _ = directories
    shutil.copytree(two / MOVED[0], one / MOVED[0])
    shortened(one / MOVED[0])
    (one / MOVED[0] / "leader-epoch-checkpoint").unlink()
    (finding,) = found(directories)
    assert (finding.kind, finding.path) == ("directory-duplicate", str(one / MOVED[0]))
    assert finding.consequences["checkpoint-missing"] == 1


def test_salvage_sets_the_shorter_copy_of_a_partition_aside(directories: Directories, tmp_path: Path) -> None:
    one, two, config = directories
    shutil.copytree(two / MOVED[0], one / MOVED[0])
    shortened(one / MOVED[0])
    for number in (0, 1):
        refused = [row for row in recovered(directories, number) if row["kind"] == "refused"]
        assert [row["file"] for row in refused] == [MOVED[0]]
        assert "Duplicate log directories" in str(refused[0]["reason"])
        out = tmp_path / f"out{number}"
        assert kcli("recover", "--salvage", "--config", config, "--out", out, directories[number]).status == 0
    assert not (tmp_path / "out0" / MOVED[0]).exists()
    assert list((tmp_path / "out0").glob(f"{MOVED[0]}.*-stray"))
    assert (tmp_path / "out1" / MOVED[0]).is_dir()


def test_a_stray_is_no_second_copy_of_a_partition(directories: Directories) -> None:
    one, two, _ = directories
    shutil.copytree(two / MOVED[0], one / MOVED[0])
    (one / MOVED[0] / "partition.metadata").unlink()
    assert "directory-duplicate" not in [each.kind for each in found(directories)]
    assert "refused" not in [row["kind"] for row in recovered(directories, 0)]


@pytest.mark.parametrize("damaged", [0, 1])
def test_no_duplicate_is_moved_away_where_the_start_then_loses_records(directories: Directories, damaged: int) -> None:
    """The damage may lie in the other log directory: Kafka starts with both."""
    one, two, _ = directories
    shutil.copytree(two / MOVED[0], one / MOVED[0])
    shortened(one / MOVED[0])
    for file in ("recovery-point-offset-checkpoint", ".kafka_cleanshutdown"):
        (directories[damaged] / file).unlink(missing_ok=True)
    name = ("java-none-0", MOVED[1])[damaged]
    log = min((directories[damaged] / name).glob("*.log"))
    flip(log, log.stat().st_size // 2)
    (duplicate,) = (each for each in found(directories, with_config=False) if each.kind == "directory-duplicate")
    assert f"; but that start would lose sound records of {name}" in duplicate.action
    assert duplicate.command == f"kcli recover --salvage --dry-run {directories[damaged]}"


@pytest.mark.parametrize("with_config", [True, False])
def test_a_deleted_directory_in_the_other_log_directory_fills_damage(
    directories: Directories, tmp_path: Path, *, with_config: bool
) -> None:
    """A crash soon after a move between the two: the start deletes the old directory, which alone is sound."""
    one, two, config = directories
    left = shutil.copytree(two / MOVED[0], one / f"{MOVED[0]}.{'a' * 32}-delete")
    log = min((two / MOVED[0]).glob("*.log"))
    whole = log.read_bytes()
    flip(log, len(whole) // 2)
    (damage,) = (each for each in found(directories, with_config=with_config) if each.kind == "batch-crc")
    assert f"{left / log.name}, a copy of the file, which a start deletes, has what it lacks" in str(damage.found)
    assert damage.lost_first_offset is None
    assert ("if --config FILE names both" in damage.action) is not with_config
    (row,) = (row for row in recovered(directories, 1, "--salvage") if row["kind"] == "refilled")
    assert row["source"] == str(left / log.name)
    assert kcli("recover", "--salvage", "--config", config, "--out", tmp_path / "out", two).status == 0
    assert (tmp_path / "out" / MOVED[0] / log.name).read_bytes() == whole


def test_a_deleted_directory_in_the_other_log_directory_has_a_missing_log(
    directories: Directories, tmp_path: Path
) -> None:
    one, two, config = directories
    left = shutil.copytree(two / MOVED[0], one / f"{MOVED[0]}.{'a' * 32}-delete")
    log = min((two / MOVED[0]).glob("*.log"))
    whole = log.read_bytes()
    for path in log.parent.glob(f"{log.stem}.*"):
        path.unlink()
    (missing,) = (each for each in found(directories) if each.kind == "log-missing")
    assert f"its batches are in {left / log.name}" in str(missing.found)
    assert missing.lost_first_offset is None
    assert kcli("recover", "--salvage", "--config", config, "--out", tmp_path / "out", two).status == 0
    assert (tmp_path / "out" / MOVED[0] / log.name).read_bytes() == whole


def half_copied(directories: Directories) -> Path:
    """Copy a partition of the second directory to the first, as a copy that broke off. Returns the copy."""
    copy = directories[0] / MOVED[0]
    shutil.copytree(directories[1] / MOVED[0], copy)
    shortened(copy)
    (copy / "partition.metadata").unlink()
    return copy


@pytest.mark.parametrize("with_config", [True, False])
def test_a_half_copy_is_moved_and_gets_no_topic_id(directories: Directories, *, with_config: bool) -> None:
    """The advice was to write its partition.metadata, with which Kafka does not start."""
    copy = half_copied(directories)
    (finding,) = found(directories, with_config=with_config)
    assert (finding.kind, finding.path, finding.lost_first_offset) == ("copy-incomplete", str(copy), None)
    assert finding.consequences["partition-metadata-missing"] == 1
    subprocess.run(["sh", "-c", str(finding.command)], check=True)
    assert found(directories, with_config=with_config) == []


def test_recovery_of_a_half_copy_loses_nothing(directories: Directories, tmp_path: Path) -> None:
    copy = half_copied(directories)
    (row,) = recovered(directories, 0)
    assert (row["kind"], row["served"], row["offsets"]) == ("stray", str(directories[1] / MOVED[0]), 0)
    assert kcli("recover", "--config", directories[2], directories[0]).status == 0
    assert recovered(directories, 1) == []
    shown = kcli("recover", "--salvage", "--config", directories[2], "--out", tmp_path / "out", directories[0]).stdout
    assert "keeps this one as a -stray" in shown
    (stray,) = (tmp_path / "out").glob(f"{copy.name}*")
    assert stray.name.endswith("-stray")
    assert not (stray / "partition.metadata").exists()


@pytest.mark.parametrize("backup_of", [0, 1, None])
def test_a_half_copy_is_told_without_a_configuration(
    directories: Directories, tmp_path: Path, backup_of: int | None
) -> None:
    """The original lies in the log directory beside it with the directory.id in which the partition is placed."""
    one, two, _ = directories
    copy = half_copied(directories)
    if backup_of is not None:
        shutil.copytree(directories[backup_of], tmp_path / "backup")
    kinds = {each.kind for each in Verification([one]).findings() if Path(each.path).is_relative_to(copy)}
    shown = kcli("recover", "--salvage", "--format", "jsonl", "--out", tmp_path / "out", one).stdout
    (row,) = [row for row in map(json.loads, shown.splitlines()) if row["kind"] == "stray"]
    if backup_of == 1:  # two directories may be the other one
        assert ("copy-incomplete" in kinds, row["served"]) == (False, None)
    else:
        assert (kinds & {"copy-incomplete", "partition-metadata-missing"}, row["served"]) == (
            {"copy-incomplete"},
            str(two / copy.name),
        )
        assert not (tmp_path / "out" / copy.name).exists()


@pytest.mark.parametrize("given", [[0], [1], [0, 1]])
def test_a_copy_that_ends_later_takes_the_place_of_the_other(directories: Directories, given: list[int]) -> None:
    one, two, config = directories
    shutil.copytree(two / MOVED[0], one / MOVED[0])
    (one / MOVED[0] / "partition.metadata").unlink()
    shortened(two / MOVED[0])
    paths = [directories[each] for each in given]
    findings = Verification(paths, server=read_properties(config), config=config).findings()
    (finding,) = [each for each in findings if each.kind in ("copy-incomplete", "partition-metadata-missing")]
    assert finding.path == str(one / MOVED[0])
    assert finding.lost_first_offset is not None
    subprocess.run(["sh", "-c", str(finding.command)], check=True)
    assert found(directories) == []


def test_salvage_sets_the_other_aside_for_a_copy_that_ends_later(directories: Directories, tmp_path: Path) -> None:
    one, two, config = directories
    shutil.copytree(two / MOVED[0], one / MOVED[0])
    (one / MOVED[0] / "partition.metadata").unlink()
    shortened(two / MOVED[0])
    assert [row["kept"] for row in recovered(directories, 0, "--salvage") if row["kind"] == "stray"] == [True]
    assert "passed-over" in [row["kind"] for row in recovered(directories, 1)]
    for number in (0, 1):
        assert kcli("recover", "--config", config, directories[number]).status == 1
        kcli("recover", "--salvage", "--config", config, "--out", tmp_path / f"out{number}", directories[number])
    assert (tmp_path / "out0" / MOVED[0] / "partition.metadata").exists()
    assert not (tmp_path / "out1" / MOVED[0]).exists()


def test_a_directory_of_another_topic_is_no_original(directories: Directories) -> None:
    """Kafka does not serve the partition from a directory with the id of another topic."""
    half_copied(directories)
    two = directories[1]
    shutil.copy(two / MOVED[1] / "partition.metadata", two / MOVED[0])
    assert "copy-incomplete" not in [each.kind for each in found(directories)]
    assert [row["served"] for row in recovered(directories, 0) if row["kind"] == "stray"] == [None]


@pytest.mark.parametrize("with_config", [True, False])
def test_one_directory_id_in_both(directories: Directories, *, with_config: bool) -> None:
    one, two, _ = directories
    shutil.copy(one / PAIR[0], two / PAIR[0])
    (finding,) = found(directories, with_config=with_config)
    assert (finding.path, finding.kind, finding.refuses_start) == (str(two / PAIR[0]), "meta-properties-node", True)
    assert SECOND_ID in str(finding.command)


def doubled(directories: Directories) -> None:
    """Mount the first directory in the place of the second, too."""
    one, two, _ = directories
    shutil.rmtree(two)
    shutil.copytree(one, two)


def test_one_directory_at_both_places(directories: Directories) -> None:
    """None of its partitions is there twice for that: the finding of the directories stands for all."""
    doubled(directories)
    one, two, config = directories
    first, *others = found(directories)
    assert (first.path, first.kind, first.refuses_start) == (str(two / PAIR[0]), "meta-properties-node", True)
    assert f"take {two} out of log.dirs, and change nothing in {one}" in first.action
    assert {each.kind for each in others} <= {"log-directory-missing", "directory-name"}
    server = read_properties(config)
    alone = [each for each in Verification([one], server=server, config=config).findings() if each.severity == "error"]
    assert alone[0].path == first.path


def test_one_directory_at_both_places_without_a_configuration(directories: Directories) -> None:
    """It may be a backup: a warning, once."""
    doubled(directories)
    (told,) = (each for each in found(directories, with_config=False) if each.kind == "meta-properties-node")
    assert (told.path, told.severity) == (str(directories[1] / PAIR[0]), "warning")


def test_salvage_makes_no_strays_of_one_directory_at_both_places(directories: Directories, tmp_path: Path) -> None:
    doubled(directories)
    for number in (0, 1):
        out = tmp_path / f"new{number}"
        kcli("recover", "--salvage", "--config", directories[2], "--out", out, directories[number])
        assert list(out.glob("java-*/partition.metadata"))
        assert not list(out.glob("*-stray"))


def test_salvage_gives_a_directory_its_own_id(directories: Directories, tmp_path: Path) -> None:
    one, two, config = directories
    shutil.copy(one / PAIR[0], two / PAIR[0])
    for number in (0, 1):
        (row,) = recovered(directories, number)
        assert (row["kind"], row["file"]) == ("refused", PAIR[0])
        assert "Duplicate directory ID" in str(row["reason"])
    assert kcli("recover", "--salvage", "--config", config, "--out", tmp_path / "out", two).status == 0
    assert f"directory.id={SECOND_ID}" in (tmp_path / "out" / PAIR[0]).read_text()


def with_a_copy_and_one_id(directories: Directories, number: int) -> str:
    """Copy a partition of the second directory, and the meta.properties of the other than `number` over its own.
    Returns the id that was there."""
    one, two, _ = directories
    shutil.copytree(two / MOVED[0], one / MOVED[0])
    path = directories[number] / PAIR[0]
    own = path.read_text().split("directory.id=")[1].split()[0]
    shutil.copy(directories[1 - number] / PAIR[0], path)
    return own


@pytest.mark.parametrize("copies", [1, 3])
def test_a_directory_is_no_copy_of_another_for_copies_of_partitions(directories: Directories, copies: int) -> None:
    """The partitions of the first directory counted as missing in the second, and neither obstacle was named."""
    one, two, _ = directories
    for name in MOVED[:copies]:
        shutil.copytree(two / name, one / name)
    shutil.copy(one / PAIR[0], two / PAIR[0])
    kinds = {each.kind for each in found(directories, with_config=False)}
    assert kinds == {"meta-properties-node", "directory-duplicate"}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_an_empty_directory_beside_a_log_directory_is_lost(directories: Directories, order: Sequence[int]) -> None:
    """Without server.properties no finding named it: only that it could not be read."""
    two = directories[1]
    shutil.rmtree(two)
    two.mkdir()
    ended = kcli("verify", *(directories[each] for each in order))
    assert (ended.status, ended.stderr) == (1, "")
    first = ended.stdout.splitlines()[0]
    assert first.startswith(f"error   meta-properties-missing  {two / PAIR[0]}  it is empty: Kafka does not start")
    (finding,) = found(directories, with_config=False)
    subprocess.run(["sh", "-c", str(finding.command)], check=True)
    assert "meta-properties-missing" not in [each.kind for each in found(directories)]


def test_an_empty_directory_beside_the_only_log_directory_is_none_of_the_node(
    directories: Directories, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    ended = kcli("verify", *directories[:2], tmp_path / "empty")
    assert (ended.status, ended.stdout.startswith("1 not readable")) == (2, True)


def test_partitions_in_a_directory_that_is_not_given(directories: Directories) -> None:
    line = "the metadata log places partitions in another log directory, which is not given (--config names all)"
    shown = kcli("verify", directories[0])
    assert (shown.status, line in shown.stdout.splitlines()) == (0, True)
    (note,) = [each for each in Verification([directories[0]]).findings() if each.kind == "log-directory-elsewhere"]
    assert (note.severity, f"{len(MOVED)} partitions are placed" in str(note.found)) == ("info", True)
    for others in ([*directories[:2]], ["--config", directories[2], directories[0]]):
        assert line not in kcli("verify", *others).stdout


@pytest.mark.parametrize("count", [1, 2])
def test_lost_and_found_on_an_empty_disk_is_named_at_once(directories: Directories, count: int) -> None:
    """It was named only when meta.properties was there again."""
    two = directories[1]
    shutil.rmtree(two)
    (two / "lost+found").mkdir(parents=True)
    findings = list(Verification([*directories[:count]], server=read_properties(directories[2])).findings())
    refusing = [each for each in findings if each.refuses_start]
    assert [Path(each.path).name for each in refusing] == ["meta.properties", "lost+found"]
    for each in refusing:
        subprocess.run(["sh", "-c", str(each.command)], check=True)
    assert not [each for each in found(directories) if each.refuses_start]


@pytest.mark.parametrize("is_linked", [False, True])
def test_the_spelling_of_a_path_changes_no_finding(
    directories: Directories, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_linked: bool
) -> None:
    """log.dirs has other spellings than the command. Nothing but the path tells which of the equal copies is moved."""
    one, two, config = directories
    shutil.copytree(two / MOVED[0], one / MOVED[0])
    shutil.copy(one / PAIR[0], two / PAIR[0])
    shutil.rmtree(one / "__cluster_metadata-0")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "links").symlink_to(tmp_path)
    spelt = [Path("links" if is_linked else "") / each.name for each in (one, two)]
    kinds = [
        sorted((each.kind, Path(each.path).resolve()) for each in found((*both, config)) if each.refuses_start)
        for both in ((one, two), (spelt[0], spelt[1]))
    ]
    assert kinds[0] == kinds[1] == [("directory-duplicate", one / MOVED[0]), ("meta-properties-node", two / PAIR[0])]


@pytest.mark.parametrize("number", [0, 1])
def test_one_directory_id_beside_a_copy_of_a_partition(directories: Directories, number: int, tmp_path: Path) -> None:
    """Most partitions of each directory tell its id; the copy alone took it from the first directory."""
    own = with_a_copy_and_one_id(directories, number)
    (finding,) = [each for each in found(directories) if each.kind == "meta-properties-node"]
    assert (finding.path, own in str(finding.command)) == (str(directories[number] / PAIR[0]), True)
    for each in (0, 1):
        out = tmp_path / f"out{each}"
        kcli("recover", "--salvage", "--config", directories[2], "--out", out, directories[each])
    texts = [(tmp_path / f"out{each}" / PAIR[0]).read_text() for each in (0, 1)]
    assert [f"directory.id={own}" in text for text in texts] == [number == 0, number == 1]


def test_of_equal_copies_that_where_the_partition_is_placed_is_kept(directories: Directories) -> None:
    one, two, _ = directories
    name = next(path.parent.name for path in sorted(one.glob("java-*/partition.metadata")))
    shutil.copytree(one / name, two / name)
    shutil.copy(two / PAIR[0], one / PAIR[0])
    assert [each.path for each in found(directories) if each.kind == "directory-duplicate"] == [str(two / name)]


def test_no_directory_gets_an_id_where_two_have_most_partitions_of_one(directories: Directories) -> None:
    one, two, _ = directories
    shutil.copy(one / PAIR[0], two / PAIR[0])
    for path in [each.parent for each in one.glob("*/partition.metadata") if "__cluster" not in str(each)]:
        shutil.rmtree(path)
    for name in MOVED[1:]:
        shutil.move(two / name, one / name)
    image = read_image(one)
    assert image is not None
    assert directory_ids(image, min(image.brokers), [one, two]) == {}
    twins = [each for each in found(directories) if "Duplicate directory ID" in str(each.found)]
    assert [("sed" in str(each.command), SECOND_ID in str(each.expected)) for each in twins] == [(False, False)]
    for number in (0, 1):
        assert "directory-id" not in [row["kind"] for row in recovered(directories, number, "--salvage", "--dry-run")]


def test_no_directory_gets_the_id_that_another_one_keeps(directories: Directories, tmp_path: Path) -> None:
    """A third directory lacks its id, and has only partitions of the first one, whose id it would get; the first and
    the second have one id, of which the first has no partition left to tell that it is its own."""
    one, two, _ = directories
    shutil.copy(one / PAIR[0], two / PAIR[0])
    third = tmp_path / "third"
    third.mkdir()
    for path in [each.parent for each in one.glob("*/partition.metadata") if "__cluster" not in str(each)]:
        shutil.move(path, third / path.name)
    image = read_image(one)
    assert image is not None
    assert directory_ids(image, min(image.brokers), [one, two, third]) == {two: SECOND_ID}


def test_two_copies_of_one_directory_are_no_two_directories(directories: Directories, tmp_path: Path) -> None:
    """A copy may be in the place of the directory that is not given."""
    shutil.copytree(directories[0], tmp_path / "copy")
    (told,) = found((directories[0], tmp_path / "copy", directories[2]), with_config=False)
    assert (told.kind, told.severity) == ("meta-properties-node", "warning")


@pytest.mark.parametrize(("name", "other"), [("node.id", "7"), ("cluster.id", "AAECAwQFBgcICQoLDA0ODg")])
def test_the_directory_of_another_node(directories: Directories, name: str, other: str) -> None:
    path = directories[1] / PAIR[0]
    lines = [f"{name}={other}" if line.startswith(name) else line for line in path.read_text().splitlines()]
    path.write_text("\n".join(lines))
    assert [each.refuses_start for each in found(directories) if each.path == str(path)][:1] == [True]
    assert "refused" in [row["kind"] for row in recovered(directories, 0)]


def test_one_within_the_other_gets_a_place_of_its_own(directories: Directories) -> None:
    """The commands that are printed do not make it again where it was."""
    one, two, config = directories
    inner = one / "second"
    two.rename(inner)
    config.write_text(config.read_text().replace(str(two), str(inner)))
    (finding,) = (each for each in found((one, inner, config)) if each.refuses_start)
    assert (finding.kind, finding.path) == ("directory-name", str(inner))
    assert "put its new place into log.dirs" in finding.action
    subprocess.run(["sh", "-c", str(finding.command)], check=True)
    moved = one.parent / f"{one.name}-second"
    (missing,) = (each for each in found((one, one, config)) if each.kind == "meta-properties-missing")
    assert "put the place of the directory into log.dirs" in missing.action
    assert str(moved) in str(missing.command)
    assert "mkdir" not in str(missing.command)
    config.write_text(config.read_text().replace(str(inner), str(moved)))
    assert found((one, moved, config)) == []


def test_a_second_metadata_log(directories: Directories) -> None:
    one, two, _ = directories
    shutil.copytree(one / "__cluster_metadata-0", two / "__cluster_metadata-0")
    assert str(two / "__cluster_metadata-0") in [each.path for each in found(directories) if each.refuses_start]
    refused = [row for row in recovered(directories, 1) if row["kind"] == "refused"]
    assert [row["file"] for row in refused] == ["__cluster_metadata-0"]


def test_the_only_metadata_log_in_the_wrong_directory(directories: Directories) -> None:
    """Without the metadata log Kafka makes a new one, and renames all partitions to -stray."""
    one, two, _ = directories
    shutil.move(one / "__cluster_metadata-0", two / "__cluster_metadata-0")
    for file in ("recovery-point-offset-checkpoint", ".kafka_cleanshutdown"):
        (one / file).unlink(missing_ok=True)
    log = min((one / "java-none-0").glob("*.log"))
    whole = log.read_bytes()
    flip(log, len(whole) // 2)
    (finding,) = [each for each in found(directories) if each.path == str(two / "__cluster_metadata-0")]
    assert finding.refuses_start
    assert "set metadata.log.dir" in finding.action
    assert "salvage" not in finding.action, "it needs the metadata log in its place, too"
    assert finding.command is not None
    subprocess.run(["bash", "-c", finding.command], check=True)
    log.write_bytes(whole)
    assert found(directories) == []


def as_controller(config: Path) -> None:
    """Make the node its quorum's only voter, for which salvage can make a metadata log anew."""
    roles = "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@localhost:9093\n"
    config.write_text(f"{config.read_text()}{roles}")


@pytest.mark.parametrize("number", [0, 1])
def test_recovery_with_the_metadata_log_in_the_wrong_directory(
    directories: Directories, tmp_path: Path, number: int
) -> None:
    one, two, config = directories
    as_controller(config)
    shutil.move(one / "__cluster_metadata-0", two / "__cluster_metadata-0")
    rows = recovered(directories, number)
    assert [row["kind"] for row in rows] == ["refused"]
    assert "Found unexpected metadata location" in str(rows[0]["reason"])
    move = f"mv -nT -- {two}/__cluster_metadata-0 {one}/__cluster_metadata-0"
    shown = kcli("recover", "--config", config, directories[number])
    assert (shown.status, "-stray" in shown.stdout, shown.stdout.count("\nnext ")) == (1, False, 1)
    assert f"\nnext             {move}\n" in shown.stdout
    for options in (["--salvage"], ["--salvage", "--out", tmp_path / "out"], ["--in-place"]):
        ended = kcli("recover", *options, "--config", config, directories[number])
        assert (ended.status, move in ended.stderr) == (2, True)
    assert not (tmp_path / "out").exists()
    subprocess.run(["bash", "-c", move], check=True)
    assert recovered(directories, number) == []


def test_the_directory_that_should_have_the_metadata_log(directories: Directories) -> None:
    one, two, config = directories
    as_controller(config)
    shutil.move(one / "__cluster_metadata-0", two / "__cluster_metadata-0")
    shown = kcli("verify", "--config", config, one)
    assert f"Next: mv -nT -- {two}/__cluster_metadata-0 {one}/__cluster_metadata-0\n" in shown.stdout
    assert "salvage" not in shown.stdout
    both = kcli("verify", "--config", config, one, two)
    assert both.stdout.count("Found unexpected metadata location") == 1
    assert "salvage" not in both.stdout


@pytest.mark.parametrize("with_config", [True, False])
def test_a_partition_that_was_moved_by_hand(directories: Directories, *, with_config: bool) -> None:
    one, two, _ = directories
    shutil.move(two / MOVED[0], one / MOVED[0])
    assert found(directories, with_config=with_config) == []
    notes = found(directories, with_config=with_config, quietest="info")
    (note,) = [each for each in notes if each.kind == "partition-elsewhere"]
    assert (note.path, note.found) == (str(two / MOVED[0]), f"it lies in {one}")


def test_recovery_of_a_partition_that_was_moved_by_hand(directories: Directories) -> None:
    shutil.move(directories[1] / MOVED[0], directories[0] / MOVED[0])
    assert recovered(directories, 0) == recovered(directories, 1) == []


def formatted_anew(directory: Path) -> None:
    """Leave what kafka-storage format writes: a meta.properties with a new directory.id."""
    text = (directory / PAIR[0]).read_text().replace(SECOND_ID, "DwECAwQFBgcICQoLDA0OAA")
    shutil.rmtree(directory)
    directory.mkdir()
    (directory / PAIR[0]).write_text(text)


@pytest.mark.parametrize("with_config", [True, False])
def test_a_disk_formatted_in_place_of_a_lost_one(directories: Directories, *, with_config: bool) -> None:
    formatted_anew(directories[1])
    (finding,) = found(directories, with_config=with_config)
    assert (finding.kind, finding.severity, finding.path) == ("log-directory-missing", "error", str(directories[1]))
    assert SECOND_ID in str(finding.expected)
    assert "3 partitions" in str(finding.expected)
    assert all(name in str(finding.found) for name in MOVED)
    assert f"directory.id={SECOND_ID}" in str(finding.command)


def test_a_wrong_node_id_is_no_lost_disk(directories: Directories) -> None:
    """The other log directory is then another node's, and nothing says that it is gone."""
    path = directories[0] / PAIR[0]
    path.write_text(path.read_text().replace("node.id=1", "node.id=2"))
    first, *others = found(directories, with_config=False)
    assert (first.kind, first.path) == ("meta-properties-node", str(path))
    assert "log-directory-missing" not in {each.kind for each in others}


@pytest.mark.parametrize("number", [0, 1])
def test_recovery_beside_a_disk_formatted_in_place_of_a_lost_one(directories: Directories, number: int) -> None:
    formatted_anew(directories[1])
    (row,) = recovered(directories, number)
    assert row["kind"] == "passed-over"
    assert f"directory.id {SECOND_ID}, in which the metadata log places 3 partitions" in str(row["reason"])


def test_a_new_disk_beside_all_others_is_sound(directories: Directories, tmp_path: Path) -> None:
    shutil.copytree(directories[1], tmp_path / "third")
    formatted_anew(tmp_path / "third")
    config = directories[2]
    config.write_text(config.read_text().replace("second\n", f"second,{tmp_path / 'third'}\n"))
    assert found(directories) == []
    assert recovered(directories, 0) == []


@pytest.mark.parametrize("with_config", [True, False])
def test_exchanged_meta_properties_are_one_finding(directories: Directories, *, with_config: bool) -> None:
    one, two = (each / PAIR[0] for each in directories[:2])
    texts = one.read_text(), two.read_text()
    one.write_text(texts[1])
    two.write_text(texts[0])
    (finding,) = found(directories, with_config=with_config)
    assert (finding.kind, finding.severity, finding.refuses_start) == ("meta-properties-node", "warning", False)
    assert recovered(directories, 0) == recovered(directories, 1) == []


def test_exchanged_meta_properties_are_the_cause_of_a_promotion(directories: Directories) -> None:
    """A partition was being moved: by the wrong ids Kafka's start takes its future log for the current one."""
    current = directories[0] / "java-none-0"
    future = directories[1] / f"{current.name}.{'0' * 32}-future"
    shutil.copytree(current, future)
    for each in future.iterdir():
        if each.stem.isdecimal() and int(each.stem):
            each.unlink()
    one, two = (each / PAIR[0] for each in directories[:2])
    texts = one.read_text(), two.read_text()
    one.write_text(texts[1])
    two.write_text(texts[0])
    (finding,) = [each for each in found(directories) if each.severity == "error"]
    assert (finding.kind, finding.path) == ("meta-properties-node", str(one))
    assert f"makes {future} the log of {current.name}, and deletes {current}" in str(finding.found)
    assert finding.action == "do not start the broker before the files are exchanged again: records would be lost"


@pytest.mark.parametrize("name", [*PAIR, "log-start-offset-checkpoint", "replication-offset-checkpoint"])
def test_a_broken_directory_goes_offline(directories: Directories, name: str) -> None:
    """Kafka starts without the second directory. With the same damage in the directory of the metadata log it does not
    start."""
    two = directories[1] / name
    two.write_text("version=7\n" if name == PAIR[0] else "0\n7\n")
    broken = [each for each in found(directories) if each.path == str(two)]
    assert [each.refuses_start for each in broken] == [False]
    assert "Kafka starts without this log directory" in str(broken[0].found)
    assert "refused" not in [row["kind"] for row in recovered(directories, 1)]
    shutil.copy(two, directories[0] / name)
    assert "refused" in [row["kind"] for row in recovered(directories, 0)]


def test_illegible_leader_epochs_take_a_directory_offline(directories: Directories, tmp_path: Path) -> None:
    """Real Kafka 4.3 starts without the directory, and does not get to the same partition's partition.metadata."""
    partition = directories[1] / "mixed-0"
    for name in ("leader-epoch-checkpoint", "partition.metadata"):
        with (partition / name).open("ab") as file:
            file.write(bytes(4000))
    path = partition / "leader-epoch-checkpoint"
    (finding,) = [each for each in found(directories) if each.path == str(path)]
    assert (finding.severity, finding.refuses_start) == ("error", False)
    assert "4,000 NUL bytes" in str(finding.found)
    assert "Kafka starts without this log directory" in str(finding.found)
    (row,) = [row for row in recovered(directories, 1) if row["kind"] in ("passed-over", "refused")]
    assert (row["kind"], row["file"]) == ("passed-over", f"mixed-0/{path.name}")
    assert "Kafka starts without this log directory" in str(row["reason"])
    new = tmp_path / "new"
    assert kcli("recover", "--config", directories[2], "--salvage", "--out", new, directories[1]).status == 0
    assert kcli("verify", new / "mixed-0").status == 0


def test_illegible_leader_epochs_beside_the_metadata_log_keep_kafka_from_starting(directories: Directories) -> None:
    partition = next(each for each in sorted(directories[0].glob("java-*-0")))
    (partition / "leader-epoch-checkpoint").write_bytes(bytes(100))
    assert [row["kind"] for row in recovered(directories, 0) if row["kind"] != "partition"] == ["refused"]


@pytest.mark.parametrize("change", [("node.id=1", "node.id=1 "), ("version=1", "version=7"), (SECOND_ID, "xx")])
def test_what_goes_offline_without_the_configuration(directories: Directories, change: tuple[str, str]) -> None:
    """The legible ids say that both directories are of one node, and the next step writes the file anew."""
    path = directories[1] / PAIR[0]
    before = read_properties(path)
    path.write_text(path.read_text().replace(*change))
    (finding,) = found(directories, with_config=False)
    assert (finding.path, finding.refuses_start) == (str(path), False)
    assert "Kafka starts without this log directory" in str(finding.found)
    assert "metadata-log-absent" not in [each.kind for each in found(directories, with_config=False, quietest="info")]
    subprocess.run(["sh", "-c", str(finding.command)], check=True)
    assert read_properties(path) == before


def test_alone_it_is_not_known_to_go_offline(directories: Directories) -> None:
    """Nothing says that there is another log directory; in the one with the metadata log it keeps Kafka from
    starting."""
    for each, are_others_known in ((directories[0], True), (directories[1], False)):
        path = each / PAIR[0]
        path.write_text(path.read_text().replace("node.id=1", "node.id=1 "))
        (finding,) = [one for one in Verification([each]).findings() if one.path == str(path)]
        assert finding.refuses_start
        rows = map(json.loads, kcli("recover", "--format", "jsonl", each).stdout.splitlines())
        reason = next(row["reason"] for row in rows if row["kind"] == "refused")
        for text in (str(finding.found), reason):
            assert text.endswith("it starts without this one") is not are_others_known


@pytest.mark.parametrize("text", ["", "node.id=1\n", "\ufeffversion=1\nnode.id=1\n"])
def test_version_0_without_a_node_never_goes_offline(directories: Directories, text: str) -> None:
    """Kafka reads such a file without an error, and then ends: "node ID not found"."""
    path = directories[1] / PAIR[0]
    path.write_text(text)
    (finding,) = found(directories)
    assert (finding.path, finding.refuses_start) == (str(path), True)
    assert "refused" in [row["kind"] for row in recovered(directories, 1)]


def test_next_steps_keep_the_configuration(directories: Directories) -> None:
    (directories[1] / PAIR[1]).write_text("0\n7\n")
    (finding,) = found(directories)
    assert finding.command == f"kcli recover --config {directories[2]} --dry-run {directories[1]}"
    ended = kcli("recover", "--config", directories[2], directories[1])
    assert f"kcli recover --salvage --config {directories[2]} --out NEW-second {directories[1]}" in ended.stdout


@pytest.mark.parametrize("with_config", [True, False])
@pytest.mark.parametrize("order", [1, -1])
def test_strays_in_both_directories_follow_from_one_metadata_log(
    directories: Directories, order: int, *, with_config: bool
) -> None:
    """The finding of the damage counts them, in whatever order the directories are given."""
    holder = next(each for each in directories[:2] if (each / LOG).is_file())
    other = next(each for each in directories[:2] if each != holder)
    flip(holder / LOG, byte_of(holder, "TopicRecord", MOVED[0].rpartition("-")[0]))
    config = directories[2] if with_config else None
    server = read_properties(config) if config else {}
    verification = Verification([*directories[:2]][::order], server=server, config=config)
    told = [each for each in verification.findings() if each.severity != "info"]
    assert not {"partition-stray", "metadata-log-end"} & {each.kind for each in told}
    by_holder = sum(each.consequences.get("partition-stray", 0) for each in Verification([holder]).findings())
    of_other = list(Verification([other], server=read_properties(directories[2])).findings())
    in_other = sum(each.kind == "partition-stray" for each in of_other)
    in_other += sum(each.consequences.get("partition-stray", 0) for each in of_other)
    assert in_other > 0
    damage = next(each for each in told if each.path == str(holder / LOG))
    assert damage.consequences["partition-stray"] == by_holder + in_other


@pytest.mark.parametrize("number", [0, 1])
def test_a_directory_without_its_id(directories: Directories, number: int, tmp_path: Path) -> None:
    """Kafka gives the directory a new id, and leaves its partitions offline, for which the metadata log has the old
    id."""
    path = directories[number] / PAIR[0]
    before = path.read_text()
    path.write_text("".join(line for line in before.splitlines(keepends=True) if not line.startswith("directory.id")))
    registered = before.split("directory.id=")[1].split()[0]
    (finding,) = found(directories)
    assert (finding.path, finding.kind, finding.refuses_start) == (str(path), "meta-properties-node", False)
    (row,) = recovered(directories, number)
    assert (row["kind"], registered in str(row["reason"])) == ("passed-over", True)
    out = tmp_path / "out"
    assert kcli("recover", "--salvage", "--config", directories[2], "--out", out, directories[number]).status == 0
    assert f"directory.id={registered}" in (out / PAIR[0]).read_text()
    subprocess.run(["sh", "-c", str(finding.command)], check=True)
    assert found(directories) == []


def test_of_a_link_and_the_directory_that_it_leads_to_the_link_is_moved(directories: Directories) -> None:
    one, two, _ = directories
    (one / MOVED[0]).symlink_to(two / MOVED[0])
    first = [each for each in found(directories) if each.kind == "directory-duplicate"]
    assert [each.path for each in first] == [str(one / MOVED[0])]


@pytest.mark.parametrize("with_config", [True, False])
def test_a_link_to_the_other_log_directory(directories: Directories, *, with_config: bool) -> None:
    """As where a disk was taken away: Kafka does not start, and each finding is told once."""
    one, two, _ = directories
    two.rename(two.with_name("away"))
    two.symlink_to(one)
    log = one / "java-none-0" / f"{0:020}.log"
    flip(log, 500)
    linked, *others = sorted(found(directories, with_config=with_config), key=lambda each: not each.refuses_start)
    assert (linked.kind, linked.path, linked.refuses_start) == ("meta-properties-node", str(two), True)
    text = f"{two} is a symbolic link to {one}: it and {one} are one directory"
    assert linked.found == f"{text}: Kafka does not start with both (Duplicate directory ID)"
    assert [each.path for each in others if each.kind == "batch-crc"] == [str(log)]
    assert "Kafka starts" not in "".join(str(each.found) for each in others)
    for number in (0, 1):
        refused, *rows = recovered(directories, number)
        assert (refused["kind"], refused["reason"]) == ("refused", f"{text} (Duplicate directory ID)")
        assert not [row for row in rows if "Kafka starts" in str(row.get("reason"))]


def test_another_spelling_of_a_path_is_no_second_directory(directories: Directories) -> None:
    one = directories[0]
    spelled = [one, one.parent / "second" / ".." / one.name]
    assert not [each for each in Verification(spelled).findings() if each.kind == "meta-properties-node"]
    link = one.with_name("link")
    link.symlink_to(one)
    assert not [row for row in recovered((link, *directories[1:]), 0) if row["kind"] == "refused"]


def test_a_move_that_only_lacks_its_last_rename(directories: Directories) -> None:
    """Kafka gives a -future directory the plain name where the metadata log places the partition."""
    (directories[1] / MOVED[0]).rename(directories[1] / f"{MOVED[0]}.{'0' * 32}-future")
    assert found(directories) == []
    assert recovered(directories, 0) == []
    assert [(row["kind"], row["lost"]) for row in recovered(directories, 1)] == [("promoted", [])]


def with_a_later_topic(directories: Directories) -> None:
    """Add a topic to the second directory that the metadata log in the first one, an older copy, does not have."""
    two = directories[1]
    shutil.copytree(two / MOVED[0], two / "later-0")
    (two / "later-0/partition.metadata").write_text("version: 0\ntopic_id: BBECAwQFBgcICQoLDA0ODw\n")
    (two / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1000000}')


@pytest.mark.parametrize("number", [0, 1])
def test_a_metadata_log_older_than_the_other_directory(directories: Directories, tmp_path: Path, number: int) -> None:
    """The broker has registered behind the end of the log before it closed the second directory."""
    one, _, config = directories
    with_a_later_topic(directories)
    (finding,) = [each for each in found(directories) if each.severity == "error"]
    assert (finding.kind, finding.consequences) == ("metadata-log-end", {"partition-stray": 1})
    assert Path(finding.path).parent == one / "__cluster_metadata-0"
    alone = Verification([directories[number]], server=read_properties(config)).findings()
    assert [each.kind for each in alone if each.severity == "error"] == ["metadata-log-end"]
    rows = recovered(directories, number)
    assert [row["name"] for row in rows if row["kind"] == "metadata-lost"] == ["later"]
    assert kcli("recover", "--salvage", "--config", config, "--out", tmp_path / "new", one).status == 0
    image = read_image(tmp_path / "new")
    assert image is not None
    topic = image.topic("later")
    assert topic is not None
    assert from_uuid(topic.id) == "BBECAwQFBgcICQoLDA0ODw"
    assert [from_uuid(each) for each in topic.partitions[0].directories] == [SECOND_ID]


@pytest.mark.parametrize("number", [0, 1])
def test_an_id_that_an_old_metadata_log_does_not_have_is_not_wrong(directories: Directories, number: int) -> None:
    """The healthy meta.properties was blamed, and the id of the first directory was to be written into it."""
    with_a_later_topic(directories)
    meta = directories[1] / PAIR[0]
    meta.write_text(meta.read_text().replace(SECOND_ID, "CCECAwQFBgcICQoLDA0ODw"))
    paths = [directories[0], directories[1]][number:]
    kinds = [each.kind for each in Verification(paths, server=read_properties(directories[2])).findings()]
    assert "metadata-log-end" in kinds
    assert "meta-properties-node" not in kinds


def test_a_second_metadata_log_does_not_say_what_is_lost(directories: Directories) -> None:
    """An rsync of one directory to the other broke off: an older, cut copy of the metadata log lies in the second,
    where Kafka wants none. The broker's own knows all topics."""
    one, two, _ = directories
    shutil.copytree(one / METADATA_DIRECTORY, two / METADATA_DIRECTORY)
    shortened(two / METADATA_DIRECTORY)
    rows = [(row["kind"], row["file"]) for row in recovered(directories, 1)]
    assert rows == [("refused", METADATA_DIRECTORY), ("cut", f"{0:020}.log")]


@pytest.mark.parametrize("is_cut", [True, False])
@pytest.mark.parametrize("with_config", [True, False])
def test_two_metadata_logs(directories: Directories, tmp_path: Path, *, with_config: bool, is_cut: bool) -> None:
    """Without server.properties the log that ends last is the broker's, of two equal ones the first. A recovered copy
    of the other log directory has none, so that Kafka starts with it."""
    one, two, config = directories
    shutil.copytree(one / METADATA_DIRECTORY, two / METADATA_DIRECTORY)
    if is_cut:
        shortened(two / METADATA_DIRECTORY)
    (finding,) = found(directories, with_config=with_config)
    assert (finding.path, finding.kind, finding.refuses_start) == (
        str(two / METADATA_DIRECTORY),
        "directory-name",
        True,
    )
    assert bool(finding.consequences) == is_cut
    options: list[str | Path] = ["--config", config] if with_config else []
    out = tmp_path / "copies" / "out"
    out.parent.mkdir()
    shown = kcli("recover", *options, "--salvage", "--out", out, two)
    assert (shown.status, "left out of the copy" in shown.stdout) == (0, True)
    assert not (out / METADATA_DIRECTORY).exists()
    shown = kcli("recover", *options, two)
    assert (shown.status, "Found unexpected metadata location" in shown.stdout) == (1, True)
    assert kcli("recover", *options, one).status == 0


@pytest.mark.parametrize("with_config", [True, False])
def test_one_directory_copied_over_the_other(directories: Directories, *, with_config: bool) -> None:
    """As by `rsync -a second/ first/`, meta.properties and checkpoints too."""
    one, two, _ = directories
    shutil.copytree(two, one, dirs_exist_ok=True)
    shutil.rmtree(two)
    two.mkdir()
    if with_config:
        (finding,) = [each for each in found(directories) if each.kind == "meta-properties-missing"]
        assert "partitions that the metadata log places in it lie in" in str(finding.found)
        assert "Kafka serves the partitions from there" in finding.action
        assert finding.command is not None
        subprocess.run(finding.command, shell=True, check=True)
        assert not [each for each in found(directories) if each.severity == "error"]
    else:
        findings = [each for each in Verification([one]).findings() if each.severity != "info"]
        (finding,) = [each for each in findings if each.kind == "log-directory-missing"]
        assert (finding.severity, finding.path) == ("warning", str(one))
        assert "the files of one were copied over those of the other" in str(finding.found)


def led(home: Path) -> None:
    """Make the node the leader of each partition in the metadata log, as a crash leaves it; an orderly stop leaves
    none."""

    async def lead() -> None:
        metadata = open_metadata(home)
        node = next(iter(metadata.image.brokers))
        records: list[Record] = [
            ("PartitionChangeRecord", 1, {"partitionId": number, "topicId": from_uuid(topic.id), "leader": node})
            for topic in metadata.image.topics.values()
            for number in topic.partitions
        ]
        await metadata.append(records)
        await metadata.close()

    asyncio.run(lead())


def merged(directories: Directories) -> Path:
    """Copy the second directory over the first, which log.dirs then names alone; return the first."""
    one, two, config = directories
    shutil.copytree(two, one, dirs_exist_ok=True)
    shutil.rmtree(two)
    config.write_text(f"log.dirs={one}\n")
    return one


def test_no_leader_where_one_directory_was_copied_over_the_other(directories: Directories) -> None:
    """Real Kafka 4.3 starts after an orderly stop, and `kafka-topics --describe` shows no leader for what the metadata
    log places in the directory.id that is gone. With an empty log directory of that id it serves all."""
    one = merged(directories)
    shown = kcli("recover", "--config", directories[2], "--format", "jsonl", one)
    (row,) = [each for each in map(json.loads, shown.stdout.splitlines()) if each["kind"] == "passed-over"]
    assert (shown.status, "Kafka starts, and has no leader for " in row["reason"]) == (1, True)
    text = kcli("recover", "--config", directories[2], one).stdout
    assert f"kcli verify --config {directories[2]} {one}" in text.split("next ")[1]
    server = read_properties(directories[2])
    errors = [each for each in Verification([one], server=server).findings() if each.severity == "error"]
    (finding,) = errors
    assert (finding.kind, finding.refuses_start) == ("log-directory-missing", False)
    assert "Kafka starts, and has no leader for " in str(finding.found)
    assert finding.command is not None
    subprocess.run(finding.command, shell=True, check=True)
    (new,) = [each for each in one.parent.iterdir() if each.name.startswith(f"{one.name}-")]
    assert f"add {new} to log.dirs" in finding.action
    directories[2].write_text(f"log.dirs={one},{new}\n")
    assert found((one, new, directories[2])) == []
    assert recovered(directories, 0) == []


def test_a_leader_in_the_metadata_log_outlives_its_directory(directories: Directories) -> None:
    """A crash leaves it: real Kafka 4.3 assigns the partitions to the directory in which they lie, and serves them."""
    led(directories[0])
    one = merged(directories)
    server = read_properties(directories[2])
    (finding,) = [each for each in Verification([one], server=server).findings() if each.severity != "info"]
    assert (finding.kind, finding.severity) == ("log-directory-missing", "warning")
    assert finding.action.startswith("Kafka serves them from here")
    assert recovered(directories, 0) == []


def test_no_leader_for_one_partition_of_a_lost_directory(directories: Directories) -> None:
    """It was moved here by hand before the other directory left log.dirs."""
    one, two, config = directories
    shutil.move(two / MOVED[0], one / MOVED[0])
    shutil.rmtree(two)
    config.write_text(f"log.dirs={one}\n")
    errors = [
        each for each in Verification([one], server=read_properties(config)).findings() if each.severity == "error"
    ]
    leaderless = [each for each in errors if "has no leader for mixed-0" in str(each.found)]
    assert [each.action for each in leaderless] == ["do not start the broker: look for the other log directory"]


def with_open_transaction(partition: Path) -> None:
    """Append a record of a transaction that does not end."""
    log = max(partition.glob("*.log"))
    end = end_offset(partition)
    assert end is not None
    with log.open("ab") as file:
        file.write(batch(b"v", base_offset=end, producer=(7, 0), sequence=0, transactional=True))


@pytest.mark.parametrize("with_config", [True, False])
@pytest.mark.parametrize("is_stray", [True, False])
@pytest.mark.parametrize("name", [PAIR[1], "log-start-offset-checkpoint"])
def test_a_broken_checkpoint_beside_a_log_that_kafka_reads(
    directories: Directories, name: str, *, is_stray: bool, with_config: bool
) -> None:
    """Real Kafka 4.3 takes the second directory offline, and ends when it reads the first record of an open
    transaction, or renames a stray (The log dir is already offline); without such a log it starts."""
    two = directories[1]
    if is_stray:
        (two / MOVED[1] / "partition.metadata").unlink()
    else:
        with_open_transaction(two / MOVED[1])
    (two / name).write_bytes(b"\xef\xbb\xbf0\r\n0\r\n")
    (finding,) = [each for each in found(directories, with_config=with_config) if each.path == str(two / name)]
    assert (finding.severity, finding.refuses_start) == ("error", True)
    assert f"loads {MOVED[1]}, which {'becomes a stray' if is_stray else 'has an open transaction'}" in str(
        finding.found
    )
    (row,) = [row for row in recovered(directories, 1) if row["file"] == name]
    assert (row["kind"], "The log dir is already offline" in str(row["reason"])) == ("refused", True)


@pytest.mark.parametrize("name", ["cleaner-offset-checkpoint", "replication-offset-checkpoint", PAIR[0]])
def test_what_kafka_reads_after_the_logs_or_without_them(directories: Directories, name: str) -> None:
    """Real Kafka 4.3 starts without the second directory, whose logs it has loaded before, or never loads."""
    two = directories[1]
    with_open_transaction(two / MOVED[1])
    (two / name).write_text("version=7\n" if name == PAIR[0] else "0\n7\n")
    (finding,) = [each for each in found(directories) if each.path == str(two / name)]
    assert finding.refuses_start is False
    assert str(finding.found).endswith("leaves its partitions offline")


def test_illegible_leader_epochs_beside_an_open_transaction(directories: Directories) -> None:
    """The order in which Kafka loads the logs decides, and nothing on the disk tells it."""
    with_open_transaction(directories[1] / MOVED[1])
    (directories[1] / "mixed-0" / "leader-epoch-checkpoint").write_bytes(bytes(100))
    (row,) = [row for row in recovered(directories, 1) if row["kind"] == "passed-over"]
    assert f"if it loads {MOVED[1]}, which has an open transaction, later than this" in str(row["reason"])
    path = directories[1] / "mixed-0" / "leader-epoch-checkpoint"
    (finding,) = [each for each in found(directories) if each.path == str(path)]
    assert str(finding.found).endswith("later than this, it does not start (The log dir is already offline)")
