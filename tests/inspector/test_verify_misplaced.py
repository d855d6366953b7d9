"""Logs in the directory of another partition: verify reports them once, with commands that restore the directory."""

import json
import shutil
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from kcli.inspector.verify import Finding
from kcli.log.log_directory import LogDirectory
from kcli.log.recovery.exchanged import exchanged_logs
from kcli.log.segment_reader import sound_batches
from kcli.log.source import FileSource
from tests.cli.run import kcli
from tests.conftest import GOLDEN
from tests.inspector.test_verify_causes import OTHER, PARTITION, SOURCE, directory, files_of, logs, loud, swap

__all__ = ["directory"]

SHORT = "recompress-none-0"  # its log ends at 150


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def only(directory: Path) -> Finding:
    found = loud(directory)
    assert [each.kind for each in found] == ["log-foreign"], found
    assert found[0].command is not None
    return found[0]


def mended(directory: Path, finding: Finding) -> None:
    """Run the command: everything is as real Kafka left it, except for what the command moved away."""
    assert finding.command is not None
    subprocess.run(["bash", "-c", finding.command], check=True)
    left = contents(directory)
    assert {name: data for name, data in left.items() if not name.endswith(".copy")} == contents(SOURCE)
    for name in left:
        if name.endswith(".copy"):
            (directory / name).unlink()
    assert not loud(directory)


def swap_logs(one: Path, other: Path) -> None:
    swap(one, other)


def swap_segments(one: Path, other: Path) -> None:
    """Swap two segments with their indexes, which are renamed to the other segment."""
    for path in files_of(one):
        twin = other.with_name(f"{other.stem}{path.suffix}")
        if path.suffix != ".snapshot" and twin.exists():
            swap(path, twin)


@pytest.mark.parametrize("exchange", [swap_logs, swap_segments])
@pytest.mark.parametrize(("number", "other"), [(0, 0), (1, 1), (1, 2), (2, 0), (-1, -1), (-1, 1)])
def test_swapped_with_another_partition(
    directory: Path, exchange: Callable[[Path, Path], None], number: int, other: int
) -> None:
    one, two = logs(directory)[number], logs(directory, OTHER)[other]
    exchange(one, two)
    if contents(directory) == contents(SOURCE):
        pytest.skip("the two are alike")
    finding = only(directory)
    assert "each other's place" in str(finding.found)
    mended(directory, finding)


@pytest.mark.parametrize("at", ["begin", "middle", "end"])
@pytest.mark.parametrize("number", [0, 1])
def test_damage_does_not_hide_whose_the_other_batches_are(directory: Path, number: int, at: str) -> None:
    """Most index entries show it; salvage first moves the logs to their places, and then keeps the gap."""
    one, other = logs(directory)[number], logs(directory, OTHER)[number]
    swap_logs(one, other)
    damaged = bytearray(one.read_bytes())
    first = {"begin": 0, "middle": len(damaged) // 2, "end": len(damaged) - 512}[at]
    damaged[first : first + 512] = bytes(512)
    one.write_bytes(damaged)
    foreign = [each for each in loud(directory) if each.kind == "log-foreign"]
    assert [each.path for each in foreign] == [str(min(one, other))]
    assert "each other's place, and what is damaged in them is lost" in str(foreign[0].found)
    assert exchanged_logs(LogDirectory(directory).partitions()) == {one: other, other: one}
    assert foreign[0].command is not None
    subprocess.run(["bash", "-c", foreign[0].command], check=True)
    assert one.read_bytes() == (SOURCE / one.relative_to(directory)).read_bytes()
    assert other.read_bytes() == damaged
    assert not [each for each in loud(directory) if each.kind == "log-foreign"]
    assert not exchanged_logs(LogDirectory(directory).partitions())


@pytest.mark.parametrize("number", [0, 1])
def test_damage_alone_makes_no_log_another_ones(directory: Path, number: int) -> None:
    for log in (logs(directory)[number], logs(directory, OTHER)[number]):
        log.write_bytes(bytes(512) + log.read_bytes()[512:])
    assert not [each for each in loud(directory) if each.kind == "log-foreign"]
    assert not exchanged_logs(LogDirectory(directory).partitions())


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("__consumer_offsets-2", "__consumer_offsets-3"),
        ("__share_group_state-1", "__transaction_state-1"),
        ("g-a-0", "g-a-1"),
        ("g-a-3", "g-b-2"),
    ],
)
def test_small_logs_are_told_apart_by_the_timestamps_in_their_time_indexes(
    tmp_path: Path, name: str, other: str
) -> None:
    """The logs begin at the same offset, have the offset of each other's entry, and their offset indexes are empty."""
    source = GOLDEN / "groups/data"
    data = Path(shutil.copytree(source, tmp_path / "data", copy_function=shutil.copyfile))
    swap_logs(logs(data, name)[0], logs(data, other)[0])
    finding = only(data)
    assert finding.command is not None
    subprocess.run(["bash", "-c", finding.command], check=True)
    assert contents(data) == contents(source)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_partition_alone_tells_of_it_too(directory: Path, number: int) -> None:
    swap_logs(logs(directory)[number], logs(directory, OTHER)[number])
    for name in (PARTITION, OTHER):
        assert [each.kind for each in loud(directory / name)] == ["log-foreign"]


@pytest.mark.parametrize("is_log_alone", [True, False])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_copied_over_another(directory: Path, number: int, is_log_alone: bool) -> None:
    one, two = logs(directory)[number], logs(directory, OTHER)[number]
    for path in [one] if is_log_alone else [one, one.with_suffix(".index"), one.with_suffix(".timeindex")]:
        shutil.copyfile(path, two.with_suffix(path.suffix))
    first = loud(directory)[0]
    assert (first.kind, first.path) == ("log-foreign", str(two))
    assert f"a copy of {PARTITION}/{one.name}" in str(first.found)
    assert first.lost_first_offset == int(two.stem)


@pytest.mark.parametrize("number", [1, 2])
def test_moved_to_another_partition(directory: Path, number: int) -> None:
    log = logs(directory)[number]
    for path in files_of(log):
        if path.suffix != ".snapshot" and not (directory / OTHER / path.name).exists():
            path.rename(directory / OTHER / path.name)
    if log.exists():
        pytest.skip("the other has a segment of the name")
    mended(directory, only(directory))


@pytest.mark.parametrize("number", [1, 2])
def test_copied_into_another_partition(directory: Path, number: int) -> None:
    log = logs(directory)[number]
    if (directory / OTHER / log.name).exists():
        pytest.skip("the other has a segment of the name")
    for path in files_of(log):
        shutil.copyfile(path, directory / OTHER / path.name)
    finding = only(directory)
    assert f"a copy of {PARTITION}/{log.name}" in str(finding.found)
    mended(directory, finding)


@pytest.mark.parametrize("name", [PARTITION, "java-snappy-0"])
def test_moved_behind_the_end_of_another_partition(directory: Path, name: str) -> None:
    """The place fits, as nothing follows there; the indexes where the log was are its own."""
    log = logs(directory, name)[-2]
    log.rename(directory / SHORT / log.name)
    finding = only(directory)
    assert finding.path == str(directory / SHORT / log.name)
    assert f"the batches of {name}/{log.name}, where no log is: it was moved" in str(finding.found)
    mended(directory, finding)


def crcs(log: Path) -> list[int]:
    """Return the CRCs of the sound batches."""
    with closing(FileSource(log)) as source:
        return [row.crc for row in sound_batches(source)]


def damaged(log: Path, at: str) -> None:
    """Overwrite a sector of the file."""
    data = bytearray(log.read_bytes())
    position = {"begin": 0, "middle": len(data) // 1024 * 512, "end": len(data) - 512}[at]
    data[position : position + 512] = bytes(512)
    log.write_bytes(data)


@pytest.mark.parametrize("with_indexes", [True, False])
@pytest.mark.parametrize("at", ["begin", "middle", "end"])
def test_a_bad_sector_does_not_hide_whose_a_moved_log_is(
    directory: Path, tmp_path: Path, at: str, *, with_indexes: bool
) -> None:
    """No record of another partition is kept here, and the partition gets all that is sound."""
    log = logs(directory)[-2]
    files = [each for each in files_of(log) if each.suffix != ".snapshot"] if with_indexes else [log]
    moved = directory / SHORT / log.name
    for each in files:
        each.rename(moved.with_name(each.name))
    damaged(moved, at)
    found = [each for each in loud(directory) if each.kind == "log-foreign"]
    assert [each.path for each in found] == [str(moved)]
    assert f"the batches of {PARTITION}/{log.name}, where no log is: it was moved" in str(found[0].found)
    new = tmp_path / "new"
    kcli("recover", "--salvage", "--out", new, directory)
    assert not (new / SHORT / log.name).exists()
    assert len(crcs(moved)) > 1
    assert crcs(new / PARTITION / log.name) == crcs(moved)


@pytest.mark.parametrize("at", ["begin", "middle", "end"])
def test_a_bad_sector_does_not_hide_a_copy(directory: Path, tmp_path: Path, at: str) -> None:
    log = logs(directory)[-2]
    copy = Path(shutil.copyfile(log, directory / SHORT / log.name))
    damaged(copy, at)
    found = [each for each in loud(directory) if each.kind == "log-foreign"]
    assert [each.path for each in found] == [str(copy)]
    assert f"a copy of {PARTITION}/{log.name}" in str(found[0].found)
    new = tmp_path / "new"
    kcli("recover", "--salvage", "--out", new, directory)
    assert not (new / SHORT / log.name).exists()


@pytest.mark.parametrize("salvage", [True, False])
def test_what_retention_deleted_is_not_lost_behind_a_foreign_log(
    directory: Path, tmp_path: Path, *, salvage: bool
) -> None:
    """The foreign log begins below the deleted one, which then lies between two logs, but not of one partition."""
    one, two, three, _ = logs(directory)
    for path in (*files_of(one), *files_of(two)):
        path.rename(path.with_name(f"{path.name}.deleted"))
    (directory / PARTITION / "leader-epoch-checkpoint").write_text(f"0\n1\n0 {int(three.stem)}\n")
    foreign = logs(directory, "java-zstd-0")[1]
    assert int(one.stem) < int(foreign.stem) < int(two.stem)
    foreign.rename(directory / PARTITION / foreign.name)
    how = ("--salvage", "--out", tmp_path / "new") if salvage else ()
    ended = kcli("recover", "--format", "jsonl", *how, directory)
    lines = [json.loads(each) for each in ended.stdout.splitlines()]
    rows = [each for each in lines if each.get("partition") == PARTITION and each["kind"] in ("deleted", "restored")]
    assert rows == []


def test_recover_calls_no_offsets_of_a_moved_log_lost(directory: Path) -> None:
    """The active log: the log that is left ends where it began, and the checkpoints say that it had gone on."""
    log = logs(directory)[-1]
    log.rename(directory / SHORT / log.name)
    (directory / ".kafka_cleanshutdown").unlink(missing_ok=True)
    ended = kcli("recover", "--format", "jsonl", directory)
    lines = [json.loads(each) for each in ended.stdout.splitlines()]
    (row,) = (each for each in lines if each["kind"] == "end-missing" and each["partition"] == PARTITION)
    assert row["moved"] == [f"{SHORT}/{log.name}"]
    shown = kcli("recover", directory).stdout
    assert f"its offsets from there on are in {SHORT}/{log.name}, which belongs here" in shown
    assert "lost at the end" not in shown


def test_a_time_index_tells_logs_with_batches_of_equal_sizes_apart(directory: Path) -> None:
    """The offset index where a log is missing fits a log of another partition, and the time index does not."""
    log = logs(directory)[-2]
    moved = log.rename(directory / SHORT / log.name)
    index = log.with_suffix(".timeindex")
    entries = bytearray(index.read_bytes())
    entries[-12:-4] = (int.from_bytes(entries[-12:-4]) + 1).to_bytes(8)
    index.write_bytes(entries)
    assert "log-foreign" not in [each.kind for each in loud(directory)]
    assert str(moved.name) in {Path(each.path).name for each in loud(directory)}


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize(
    ("source", "target"),
    [("java-none-0", "rdk-none-0"), ("java-none-0", "mixed-0"), ("java-none-1", "java-none-0"), ("rdk-none-0", OTHER)],
)
def test_a_last_segment_moved_with_its_indexes(directory: Path, source: str, target: str, *, is_clean: bool) -> None:
    """It fits the indexes beside it, and overlaps what is there; the checkpoints tell whose end is lost."""
    if not is_clean:
        (directory / ".kafka_cleanshutdown").unlink()
    log = logs(directory, source)[-1]
    moved = [each.rename(directory / target / each.name) for each in files_of(log) if each.suffix != ".snapshot"]
    foreign = directory / target / log.name
    (finding,) = (each for each in loud(directory) if each.kind != "unclean-shutdown")
    assert (finding.kind, finding.path) == ("log-foreign", str(foreign))
    assert f"which are the batches of {source}/{log.name}, where no log is: it was moved" in str(finding.found)
    new = directory.parent / "new"
    assert kcli("recover", "--salvage", "--out", new, directory).status == 0
    assert (new / source / log.name).read_bytes() == foreign.read_bytes()
    assert not (new / target / log.name).exists()
    subprocess.run(["sh", "-c", str(finding.command)], check=True)
    assert not any(each.exists() for each in moved)
    assert [each for each in loud(directory) if each.kind != "unclean-shutdown"] == []
