"""Names in a log directory that Kafka would not give: it opens what they mean, or fails at them."""

import os
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from formats.file_name import FileKind
from kcli.inspector.verify import Verification
from kcli.inspector.verify.segment_names import SegmentFiles, place
from tests.cli.run import kcli
from tests.conftest import GOLDEN
from tests.damage import frames
from tests.inspector.test_verify_causes import OTHER, PARTITION, directory, logs, loud, nexts, run, swap
from tests.log.batches import batch

__all__ = ["directory"]  # a fixture


def next_of(directory: Path) -> None:
    """Do what the only finding says."""
    (command,) = nexts(run(directory.name, cwd=directory.parent).stdout)
    subprocess.run(["sh", "-c", command], check=True, cwd=directory.parent)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("-0000000000000000001.log", "Kafka reads offset -1 in it and opens -00000000000000000001.log"),
        ("0000.copy.log", "Kafka reads offset 0 in it and opens 00000000000000000000.log"),
        ("99999999999999999999.log", "no offset that Kafka can read: it does not start (NumberFormatException)"),
        ("copy.log", "no offset that Kafka can read: it does not start (NumberFormatException)"),
        ("copy.timeindex", "no offset that Kafka can read: it does not start (NumberFormatException)"),
    ],
)
def test_files_that_kafka_would_open_or_choke_on(directory: Path, name: str, found: str) -> None:
    (directory / PARTITION / name).touch()
    (finding,) = loud(directory)
    assert (finding.kind, finding.severity, finding.path) == (
        "file-name",
        "error",
        str(directory / PARTITION / name),
    )
    assert str(finding.found).startswith(found)
    next_of(directory)
    assert loud(directory) == []


@pytest.mark.parametrize("name", ["{offset}.log", "segment.log", "-{offset:020}.log"])
def test_a_segment_under_an_odd_name_gets_its_own_back(directory: Path, name: str) -> None:
    log = logs(directory)[1]
    odd = log.rename(log.with_name(name.format(offset=int(log.stem))))
    (finding,) = loud(directory)
    assert (finding.kind, finding.path) == ("file-name", str(odd))
    next_of(directory)
    assert loud(directory) == []
    assert log.is_file()


@pytest.mark.parametrize("name", ["it's-0", "sp ace-0", "été-0", "#-0"])
def test_directories_of_topics_that_cannot_be_become_strays(directory: Path, name: str) -> None:
    (directory / name).mkdir()
    (finding,) = loud(directory)
    assert (finding.kind, finding.severity, finding.path) == ("partition-stray", "warning", str(directory / name))
    next_of(directory)
    assert loud(directory) == []


def test_two_directories_of_one_partition(directory: Path) -> None:
    """Kafka says: Duplicate log directories found."""
    twin = Path(shutil.copytree(directory / PARTITION, directory / PARTITION.replace("-0", "-00")))
    (finding,) = loud(directory)
    assert (finding.kind, finding.severity, finding.path) == ("directory-duplicate", "error", str(twin))
    assert PARTITION in str(finding.found)
    next_of(directory)
    assert loud(directory) == []


def test_the_directory_may_be_the_one_that_one_is_in(directory: Path) -> None:
    """No name stands before the `.`, so no place for the directory can be suggested."""
    (directory / "foo").mkdir()
    (command,) = nexts(run(".", cwd=directory).stdout)
    subprocess.run(["sh", "-c", command], check=True, cwd=directory)
    assert loud(directory) == []


def a_directory(path: Path) -> None:
    path.mkdir()


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def a_broken_link(path: Path) -> None:
    path.symlink_to("nowhere")


@pytest.mark.parametrize(
    ("name", "make", "found"),
    [
        ("leader-epoch-checkpoint", a_directory, "a directory; "),
        ("{stem}.index", a_directory, "a directory; "),
        ("{stem}.log", a_pipe, "a named pipe; "),
        ("{stem}.log", a_broken_link, "a symbolic link to nowhere: nothing; "),
        ("{stem}.snapshot", a_device, "a symbolic link to /dev/zero: a character device; "),
    ],
)
def test_what_is_no_file_is_named(directory: Path, name: str, make: Callable[[Path], None], found: str) -> None:
    log = logs(directory)[1]
    path = log.with_name(name.format(stem=log.stem))
    path.unlink()
    make(path)
    (finding,) = loud(directory)
    assert (finding.kind, finding.severity, finding.path) == ("file-type", "error", str(path))
    assert str(finding.found).startswith(found)


def test_a_link_to_a_file_on_a_disk_that_is_not_mounted(directory: Path, tmp_path: Path) -> None:
    """The link is right once the disk is mounted: with the link moved away, the log would lack the segment for good."""
    log = logs(directory)[1]
    away = tmp_path / "disk2" / log.name
    content = log.read_bytes()
    log.unlink()
    log.symlink_to(away)
    (finding,) = loud(directory)
    assert f"mount the disk with {away}, or put that file back; only if it is lost, move the link" in finding.action
    next_of(directory)
    assert log.is_symlink()
    away.parent.mkdir()
    away.write_bytes(content)
    assert loud(directory) == []


def test_a_circle_of_links_does_not_hide_the_rest(directory: Path) -> None:
    for one, other in (("loop1", "loop2"), ("loop2", "loop1")):
        (directory / one).symlink_to(other)
    verification = Verification([directory])
    assert all(finding.severity == "info" for finding in verification.findings())
    assert verification.files > 0
    assert sorted(error.path for error in verification.unreadable) == [
        str(directory / "loop1"),
        str(directory / "loop2"),
    ]
    assert run(directory).returncode == 2


def test_two_directories_with_each_others_names(tmp_path: Path) -> None:
    """Nothing is lost: between two partitions of one topic only the recovery points differ."""
    data = Path(shutil.copytree(GOLDEN / "groups" / "data", tmp_path / "data", copy_function=shutil.copyfile))
    before = loud(data)
    swap(data / "other-0", data / "other-1")
    first, *more = loud(data)
    assert (first.kind, first.severity, first.path) == ("partition-swapped", "error", str(data / "other-0"))
    assert [each.kind for each in more] == [each.kind for each in before]
    subprocess.run(["sh", "-c", str(first.command)], check=True)
    assert loud(data) == before


def test_a_foreign_log_is_not_called_a_copy(directory: Path) -> None:
    """A copy has equal batches, not only equal offsets; and the log with that name is lost."""
    last = logs(directory)[-1]
    last.write_bytes(logs(directory, OTHER)[0].read_bytes())
    (finding,) = loud(directory)
    assert (finding.kind, finding.path) == ("log-foreign", str(last))
    assert f"a copy of {OTHER}/{logs(directory, OTHER)[0].name}" in str(finding.found)
    assert finding.lost_first_offset == int(last.stem)
    last.write_bytes(logs(directory)[0].read_bytes())
    (finding,) = loud(directory)
    assert f"a copy of {logs(directory)[0].name}" in str(finding.found)


def test_a_log_that_ends_with_the_next_one(directory: Path) -> None:
    """The log is the damaged one: the next file is sound."""
    log, following = logs(directory)[1:3]
    size = log.stat().st_size
    with log.open("ab") as file:
        file.write(following.read_bytes())
    (finding,) = loud(directory)
    assert (finding.kind, finding.path, finding.position) == ("offsets-overlap", str(log), size)
    assert f"a copy of {following.name}" in str(finding.found)
    next_of(directory)
    assert loud(directory) == []


def test_two_logs_with_each_others_names_beside_one_without_its_begin(directory: Path) -> None:
    """The third log has its own name, although it begins at a later offset: it was not exchanged."""
    first, second, third = logs(directory)[:3]
    swap(first, second)
    data = third.read_bytes()
    size = 12 + int.from_bytes(data[8:12])
    begin = int.from_bytes(data[size : size + 8])
    third.write_bytes(data[size:])
    third.with_suffix(".snapshot").rename(third.with_name(f"{begin:020}.snapshot"))
    found = [each for each in loud(directory) if each.kind == "file-name"]
    assert [each.path for each in found] == [str(first)]
    assert "the two files are swapped" in str(found[0].found)


@pytest.mark.parametrize(("partition", "base"), [("c-ooo-0", 2), ("c-txn-0", 3), ("c-txn-open-0", 24)])
def test_a_segment_that_came_back_after_the_cleaner_replaced_it(tmp_path: Path, partition: str, base: int) -> None:
    """The segment in front of it is sound: it has the batches of both."""
    after = Path(shutil.copytree(GOLDEN / "compact/after", tmp_path / "after", copy_function=shutil.copyfile))
    assert loud(after) == []
    for path in (GOLDEN / "compact/before" / partition).glob(f"{base:020}.*"):
        shutil.copyfile(path, after / partition / path.name)
    (finding,) = loud(after)
    assert (finding.kind, finding.path) == ("log-replaced", str(after / partition / f"{base:020}.log"))
    assert "has replaced by 0000000000000000000" in str(finding.found)
    assert finding.action.startswith(f"a Fetch at offset {base} or above does not read 0000000000000000000")
    next_of(after)
    assert loud(after) == []


@pytest.mark.parametrize(("partition", "base"), [("c-ooo-0", 2), ("c-txn-0", 3)])
def test_a_segment_that_came_back_where_no_index_tells_which_one_is_right(
    tmp_path: Path, partition: str, base: int
) -> None:
    """What the cleaner has left of its batches is in the segment in front of it, whose name is right: salvage leaves
    the replaced segment out."""
    after = Path(shutil.copytree(GOLDEN / "compact/after", tmp_path / "after", copy_function=shutil.copyfile))
    for path in (GOLDEN / "compact/before" / partition).glob(f"{base:020}.*"):
        shutil.copyfile(path, after / partition / path.name)
    for index in (after / partition).glob("*index"):
        index.unlink()
    (finding,) = loud(after)
    assert (finding.kind, finding.path) == ("log-replaced", str(after / partition / f"{base:020}.log"))
    shown = kcli("recover", "--salvage", "--out", tmp_path / "salvaged", after)
    assert f"left-out         {partition}/{base:020}.log" in shown.stdout
    assert loud(tmp_path / "salvaged") == []
    next_of(after)
    assert loud(after) == []


@pytest.mark.parametrize(
    ("timestamp", "offset", "kind"), [(1_007, 7, "log-replaced"), (1_006, 7, "file-name"), (1_007, 6, "file-name")]
)
def test_a_cleaned_segment_with_one_entry_in_its_time_index(
    tmp_path: Path, timestamp: int, offset: int, kind: str
) -> None:
    """It is that of the batch with the max timestamp, which need not be the first."""
    logs = {base: tmp_path / f"{base:020}.log" for base in (0, 5, 9)}
    for base, log in logs.items():
        offsets = (3, 5, 7) if base == 0 else (base,)
        log.write_bytes(b"".join(batch(b"%d" % base, base_offset=each, timestamp_ms=1_000 + each) for each in offsets))
    logs[0].with_suffix(".timeindex").write_bytes(struct.pack(">qi", timestamp, offset))
    segments = [SegmentFiles(base, {FileKind.LOG: log}) for base, log in logs.items()]
    segments[0].files[FileKind.TIME_INDEX] = logs[0].with_suffix(".timeindex")
    ((finding, _),) = place(segments, {}, (), is_compacted=True).wrong
    assert finding.kind == kind


@pytest.mark.parametrize(
    ("offsets", "gone"),
    [
        ((3, 5, 9), {5, 9}),  # an empty batch, which a cleaning keeps, is there before and after the next one
        ((3, 7, 9), {5, 9}),
        ((3, 5, 7), set()),  # the next file was appended
        ((3, 5, 7, 9), set()),
        ((3, 9), set()),
    ],
)
def test_a_cleaned_segment_that_ends_as_one_that_it_replaced(
    tmp_path: Path, offsets: tuple[int, ...], gone: set[int]
) -> None:
    """It is no copy where it lacks batches between those that it has. Salvage leaves out only replaced segments."""
    held = {0: offsets, 5: (5, 7), 9: (9,), 12: (12,)}
    segments = [SegmentFiles(base, {FileKind.LOG: tmp_path / f"{base:020}.log"}) for base in held]
    for each in segments:
        batches = [batch(b"", base_offset=at, timestamp_ms=1_000 + at) for at in held[each.base]]
        each.files[FileKind.LOG].write_bytes(b"".join(batches))
    segments[0].files[FileKind.TIME_INDEX] = index = tmp_path / f"{0:020}.timeindex"
    index.write_bytes(struct.pack(">qi", 1_000 + offsets[-1], offsets[-1]))
    placed = place(segments, {}, (), is_compacted=True)
    assert [finding.kind for finding, _ in placed.wrong] == ["log-replaced"]
    assert {int(name.removesuffix(".log")) for name in placed.replaced} == gone


def test_a_wrong_base_offset_replaces_no_segment(tmp_path: Path) -> None:
    """A flipped bit of a base offset reaches beyond all segments behind: none of them is called replaced."""
    after = Path(shutil.copytree(GOLDEN / "compact/after", tmp_path / "after", copy_function=shutil.copyfile))
    log = after / "c-ooo-0" / f"{49:020}.log"
    data = bytearray(log.read_bytes())
    position, _ = frames(data)[-1]
    data[position + 5] ^= 8
    log.write_bytes(data)
    found = loud(after)
    assert [each.path for each in found if each.kind == "log-replaced"] == []
    assert str(log) in {each.path for each in found}


def test_a_log_directory_that_was_restored_a_level_too_deep(directory: Path) -> None:
    """Only meta.properties is where it belongs. The advice puts all the rest there."""
    before = {each.name for each in directory.iterdir()}
    inner = directory / "restored"
    inner.mkdir()
    for each in list(directory.iterdir()):
        if each != inner:
            each.rename(inner / each.name)
    shutil.copy(inner / FileKind.META_PROPERTIES, directory)
    (finding,) = loud(directory)
    assert (finding.kind, finding.path) == ("directory-name", str(inner))
    assert "the partitions of the log directory that it lies in" in str(finding.found)
    next_of(directory)
    assert {each.name for each in directory.iterdir()} == before
    assert loud(directory) == []


def test_a_directory_that_takes_the_name_of_the_one_around_it(directory: Path) -> None:
    """The command renames the outer one, and then finds the inner one where that has put it."""
    inner = directory / PARTITION / PARTITION
    before = sorted(each.name for each in logs(directory))
    shutil.copytree(directory / PARTITION, inner)
    for each in list((directory / PARTITION).iterdir()):
        if each.suffix in (".log", ".index", ".timeindex", ".snapshot"):
            each.unlink()
    first = loud(directory)[0]
    assert (first.kind, first.path) == ("partition-missing", str(directory / PARTITION))
    subprocess.run(["sh", "-c", str(first.command)], check=True)
    assert sorted(each.name for each in logs(directory)) == before
