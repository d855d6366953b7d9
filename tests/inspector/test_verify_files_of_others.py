"""Files that a copy of a log directory adds: those of macOS, hard links between partitions, other files."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kcli.inspector.verify import Finding
from tests.cli.run import kcli
from tests.inspector.test_verify_causes import OTHER, PARTITION, directory, files_of, flip, logs, loud

__all__ = ["directory"]  # a fixture

APPLE_DOUBLE = bytes.fromhex("0005160700020000") + b"Mac OS X".ljust(16) + bytes(4072)


def of_kind(directory: Path, kind: str) -> list[Finding]:
    return [each for each in loud(directory) if each.kind == kind]


def run(finding: Finding) -> None:
    subprocess.run(["sh", "-c", str(finding.command)], check=True)


@pytest.fixture
def from_a_mac(directory: Path) -> Path:
    for partition in (PARTITION, OTHER):
        for path in sorted((directory / partition).iterdir()):
            path.with_name(f"._{path.name}").write_bytes(APPLE_DOUBLE)
    (directory / f"._{PARTITION}").write_bytes(APPLE_DOUBLE)
    return directory


def test_the_files_of_macos_are_one_finding(from_a_mac: Path) -> None:
    before = loud(from_a_mac)
    (finding,) = (each for each in before if each.kind == "file-name")
    assert finding.refuses_start
    assert "AppleDouble" in str(finding.found)
    other = from_a_mac / PARTITION / "._notes"
    other.write_bytes(b"mine")
    run(finding)
    assert list(from_a_mac.rglob("._*")) == [other]
    assert [each for each in before if each is not finding] == loud(from_a_mac)


def test_in_a_partition_alone(from_a_mac: Path) -> None:
    (finding,) = of_kind(from_a_mac / PARTITION, "file-name")
    run(finding)
    assert of_kind(from_a_mac / PARTITION, "file-name") == []
    assert list((from_a_mac / OTHER).glob("._*"))


def test_a_log_of_that_name_that_macos_did_not_make(directory: Path) -> None:
    log = logs(directory)[0]
    log.with_name(f"._{log.name}").write_bytes(b"mine")
    (finding,) = of_kind(directory, "file-name")
    assert finding.path == str(log.with_name(f"._{log.name}"))


def test_kafka_passes_over_a_plain_file_in_the_log_directory(directory: Path) -> None:
    before = kcli("recover", "--format", "jsonl", directory)
    (directory / f"._{PARTITION}").write_bytes(APPLE_DOUBLE)
    after = kcli("recover", "--format", "jsonl", directory)
    assert (after.stdout, after.status) == (before.stdout, before.status)


def test_a_plain_file_with_the_name_of_a_partition_of_the_checkpoints(directory: Path) -> None:
    (directory / PARTITION).rename(directory / "aside")
    (directory / PARTITION).write_bytes(b"")
    assert "not a directory" in kcli("recover", directory).stdout


def link_indexes(directory: Path) -> None:
    """Link equal indexes to one file, as deduplicating programs do."""
    one, two = (files_of(logs(directory, partition)[-1]) for partition in (PARTITION, OTHER))
    for suffix in (".index", ".timeindex"):
        path, other = (next(each for each in files if each.suffix == suffix) for files in (one, two))
        other.unlink()
        os.link(path, other)


def test_hard_links_are_one_finding(directory: Path) -> None:
    link_indexes(directory)
    (finding,) = of_kind(directory, "file-shared")
    assert finding.severity == "error"
    assert str(finding.found).startswith("4 files of segments are hard links of each other: ")
    shown = kcli("recover", directory)
    assert "4 files of segments are hard links of each other" in shown.stdout
    assert shown.status == 1
    assert "\nnext             kcli " in shown.stdout
    run(finding)
    assert of_kind(directory, "file-shared") == []
    assert all(path.stat().st_nlink == 1 for path in directory.rglob("*") if path.is_file())
    assert "hard links" not in kcli("recover", directory).stdout


def test_what_follows_from_a_shared_log_is_counted(directory: Path) -> None:
    """A program has linked the logs of two partitions to one file, and the second one's records are gone."""
    one, two = (logs(directory, partition)[-1] for partition in (PARTITION, OTHER))
    two.unlink()
    os.link(one, two)
    with one.open("ab") as file:
        file.write(b"no batch")
    first = next(each for each in kcli("verify", directory).stdout.splitlines() if not each.startswith("warning"))
    assert first.startswith("error   file-shared ")
    for path in (one, two):
        assert str(path.relative_to(directory)) in first
    assert all(str(path.relative_to(directory)) in kcli("recover", directory).stdout for path in (one, two))
    (finding,) = of_kind(directory, "file-shared")
    assert sum(finding.consequences.values()) >= 1
    told = [each.kind for each in loud(directory) if each.path in (str(one), str(two))]
    assert told == ["file-shared", "log-foreign"], "what is lost is told by itself"
    run(finding)
    assert not of_kind(directory, "file-shared")
    assert {each.path for each in loud(directory)} >= {str(one), str(two)}


def test_hard_links_of_a_backup_are_none_of_them(directory: Path, tmp_path: Path) -> None:
    subprocess.run(["cp", "-al", directory, tmp_path / "backup"], check=True)
    assert of_kind(directory, "file-shared") == []


def replace_by_link(path: Path, target: Path) -> None:
    path.unlink()
    path.symlink_to(os.path.relpath(target, path.parent))


@pytest.fixture
def deduplicated(directory: Path) -> Path:
    """The log directory after a program has put links in place of files that are equal to an earlier one."""
    seen: dict[bytes, Path] = {}
    (directory / "cleaner-offset-checkpoint").touch()
    empty = logs(directory)[-1].with_suffix(".index")
    empty.write_bytes(b"")
    for path in sorted(directory.rglob("*")):
        if path.is_file() and not path.is_symlink() and "__cluster_metadata-0" not in path.parts:
            first = seen.setdefault(path.read_bytes(), path)
            if first != path:
                replace_by_link(path, first)
    assert empty.resolve() == directory / "cleaner-offset-checkpoint"
    return directory


def test_links_of_a_program_that_keeps_equal_files_once(deduplicated: Path, tmp_path: Path) -> None:
    links = [path for path in deduplicated.rglob("*") if path.is_symlink()]
    (finding,) = (each for each in loud(deduplicated) if each.severity == "error")
    assert (finding.kind, finding.severity, finding.refuses_start) == ("file-link", "error", True)
    assert f"{len(links)} files are symbolic links" in str(finding.found)
    assert "with NULs, and ends as it reads them in cleaner-offset-checkpoint" in str(finding.found)
    shown = kcli("recover", deduplicated)
    assert shown.stdout.startswith("refused ")
    assert "with NULs, and ends as it reads them in cleaner-offset-checkpoint" in shown.stdout
    assert shown.status == 1
    copy = tmp_path / "copy"
    assert kcli("recover", "--salvage", "--out", copy, deduplicated).status == 0
    contents = {path: path.read_bytes() for path in links}
    run(finding)
    for home in (copy, deduplicated):
        assert of_kind(home, "file-link") == []
        assert not [path for path in home.rglob("*") if path.is_symlink()]
        assert "refused " not in kcli("recover", home).stdout
    assert {path: path.read_bytes() for path in links} == contents


def test_more_links_than_a_command_names(deduplicated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = deduplicated.parent / "elsewhere.log"
    log = logs(deduplicated)[0]
    log.rename(elsewhere)
    log.symlink_to(elsewhere)
    monkeypatch.setattr("kcli.inspector.verify.next_steps.LINKS_NAMED", 0)
    (finding,) = of_kind(deduplicated, "file-link")
    assert "find " in str(finding.command)
    run(finding)
    assert [path for path in deduplicated.rglob("*") if path.is_symlink()] == [log]


def test_an_empty_log_that_is_a_link_to_an_index(directory: Path) -> None:
    log, index = logs(directory)[-1], logs(directory, OTHER)[-1].with_suffix(".index")
    index.write_bytes(b"")
    replace_by_link(log, index)
    (finding,) = (each for each in loud(directory) if each.kind.endswith("-link"))
    assert (finding.kind, finding.path, finding.refuses_start) == ("file-link", str(log), True)
    assert "batches" not in str(finding.found)
    shown = kcli("recover", directory)
    assert f"refused          {PARTITION}/{log.name}\n" in shown.stdout
    assert "CorruptRecordException" in shown.stdout
    assert shown.status == 1


def test_indexes_that_are_links_harm_each_other(directory: Path) -> None:
    index, other = (logs(directory, each)[-1].with_suffix(".index") for each in (PARTITION, OTHER))
    other.write_bytes(b"")
    replace_by_link(index, other)
    (finding,) = of_kind(directory, "file-link")
    assert not finding.refuses_start
    shown = kcli("recover", directory)
    assert "Kafka starts, and what it writes to one changes all" in shown.stdout
    assert shown.status == 1


def test_links_of_small_files_are_a_warning(directory: Path) -> None:
    path, other = (directory / each / "leader-epoch-checkpoint" for each in (PARTITION, OTHER))
    path.write_bytes(other.read_bytes())
    replace_by_link(path, other)
    (finding,) = of_kind(directory, "file-link")
    assert finding.severity == "warning"
    assert "link" not in kcli("recover", directory).stdout


def test_a_link_to_a_file_of_another_disk(directory: Path, tmp_path: Path) -> None:
    index = logs(directory)[-1].with_suffix(".index")
    target = index.rename(tmp_path / "elsewhere.index")
    index.symlink_to(target)
    assert loud(directory) == []


def link_directory(directory: Path, other: str) -> Path:
    """Link a partition's directory to another partition's, as a wrong migration script does. Returns the link."""
    link = directory / "java-none-1"
    shutil.rmtree(link)
    link.symlink_to(other)
    return link


def test_a_partition_that_is_a_link_to_another_one(directory: Path, tmp_path: Path) -> None:
    whole = kcli("recover", "--format", "jsonl", directory).stdout.count('"kind":"partition"')
    link = link_directory(directory, PARTITION)
    log = logs(directory)[1]
    flip(log, log.stat().st_size // 2)
    first, *others = loud(directory)
    assert (first.kind, first.path, first.severity) == ("directory-shared", str(link), "error")
    assert "both serve the records of java-none-0, and write into the same files" in str(first.found)
    assert str(log) in {each.path for each in others}
    assert not [each for each in others if each.path.startswith(str(link))]
    foretold = kcli("recover", directory)
    assert f"passed-over      {link.name}\n                 a symbolic link to {PARTITION}: " in foretold.stdout
    assert foretold.status == 1
    assert kcli("recover", "--format", "jsonl", directory).stdout.count('"kind":"partition"') == whole
    target = tmp_path / "new"
    shown = kcli("recover", "--salvage", "--out", target, directory)
    assert f"passed-over      {link.name}\n" in shown.stdout
    assert not (target / link.name).exists()
    assert (target / PARTITION / log.name).exists()
    run(first)
    assert not link.is_symlink()
    assert of_kind(directory, "directory-shared") == []


def test_a_link_to_the_partition_of_another_topic(directory: Path) -> None:
    link_directory(directory, OTHER)
    (finding,) = of_kind(directory, "directory-shared")
    assert str(finding.found).endswith(
        f"the directory of {OTHER}, whose topic id it has: Kafka starts, and does not serve java-none-1"
    )


def test_a_link_to_another_partition_in_another_log_directory(directory: Path, tmp_path: Path) -> None:
    other = tmp_path / "data2"
    other.mkdir()
    shutil.copyfile(directory / "meta.properties", other / "meta.properties")
    (directory / PARTITION).rename(other / PARTITION)
    link = link_directory(directory, f"../{other.name}/{PARTITION}")
    (finding,) = of_kind(directory, "directory-shared")
    assert finding.path == str(link)
    assert f"the directory of {other / PARTITION}: " in str(finding.found)


def test_recover_in_place_changes_the_files_of_both_once(directory: Path) -> None:
    link = link_directory(directory, PARTITION)
    log = logs(directory)[1]
    flip(log, log.stat().st_size // 2)
    shown = kcli("recover", "--salvage", "--in-place", directory)
    assert shown.stderr == ""
    assert link.is_symlink()
    assert [each.kind for each in loud(directory) if str(each.path).startswith(str(directory / PARTITION))] == [
        "offset-gap"
    ]


def test_a_partition_of_which_the_directory_is_on_another_disk(directory: Path, tmp_path: Path) -> None:
    """The link leads to a directory that is no other partition's."""
    for name in ("elsewhere", PARTITION):
        (directory / PARTITION).rename(tmp_path / name)
        (directory / PARTITION).symlink_to(tmp_path / name)
        assert of_kind(directory, "directory-shared") == []
        (directory / PARTITION).unlink()
        (tmp_path / name).rename(directory / PARTITION)


def test_a_partition_that_is_a_link_to_a_disk_that_is_not_mounted(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "mount").mkdir()
    (directory / PARTITION).rename(tmp_path / "moved")
    (directory / PARTITION).symlink_to(tmp_path / "mount")
    (finding,) = of_kind(directory, "log-missing")
    assert str(finding.found).startswith(f"a symbolic link to {tmp_path / 'mount'}, which has no log: ")
    assert str(finding.command) == f"ls -la {tmp_path / 'mount'}"
