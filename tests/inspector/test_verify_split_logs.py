"""A log that was cut into parts, as split(1) does: the finding's command and salvage join them."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from kcli.inspector.verify.segment_names import headers
from kcli.inspector.verify.split_logs import with_parts
from tests.cli.run import kcli
from tests.cli.test_recover_renamed_logs import rows
from tests.conftest import GOLDEN
from tests.inspector.test_verify_causes import PARTITION, directory, files_of, logs, loud
from tests.inspector.test_verify_renamed_logs import missing

__all__ = ["directory"]  # a fixture

SUFFIXES = [
    ("partaa", "partab", "partac"),
    ("aa", "ab", "ac"),
    ("part1", "part2", "part3"),
    ("part8", "part9", "part10"),
    ("00", "01", "02"),
    ("001", "002", "003"),
]


def cut(log: Path, names: Sequence[str], at: Sequence[int] = ()) -> list[Path]:
    """Cut a log at these bytes, or into parts of one size, in the middle of batches; the parts get these names."""
    data = log.read_bytes()
    size = len(data) // len(names) + 1
    places = [0, *(at or range(size, len(data), size)), len(data)]
    parts = [log.with_name(name) for name in names]
    for number, part in enumerate(parts):
        part.write_bytes(data[places[number] : places[number + 1]])
    log.unlink()
    return parts


def named(log: Path, suffixes: Sequence[str]) -> list[str]:
    return [f"{log.name}.{each}" for each in suffixes]


def ends_of(log: Path) -> list[tuple[int, int]]:
    """The byte and the offset behind each batch."""
    ends, position = [], 0
    for header in headers(log):
        position += header.size
        ends.append((position, header.last + 1))
    return ends


def without_indexes(log: Path) -> None:
    for path in files_of(log):
        if path != log:
            path.unlink()


@pytest.mark.parametrize("number", [0, -1], ids=["first", "last"])
@pytest.mark.parametrize("suffixes", SUFFIXES, ids=lambda suffixes: suffixes[-1])
def test_the_command_joins_the_parts(directory: Path, suffixes: Sequence[str], number: int) -> None:
    log = logs(directory)[number]
    before = log.read_bytes()
    parts = cut(log, named(log, suffixes))
    finding = missing(directory)
    words = f"its batches are in 3 parts, whose join has all of them: {', '.join(map(str, parts))}"
    assert (finding.path, finding.found) == (str(log), f"no such file: {words}")
    assert (finding.lost_first_offset, finding.lost_last_offset) == (None, None)
    subprocess.run(["sh", "-c", str(finding.command)], check=True)
    assert log.read_bytes() == before
    assert [each.kind for each in loud(directory) if each.severity == "error"] == []


def test_salvage_joins_the_parts(directory: Path, tmp_path: Path) -> None:
    log = logs(directory)[0]
    before = log.read_bytes()
    first, second = cut(log, named(log, ["partaa", "partab"]))
    out = tmp_path / "out"
    (row,) = (row for row in rows(directory, "--out", out) if row["kind"] == "restored")
    assert (row["file"], row["name"], row["parts"]) == (first.name, log.name, [first.name, second.name])
    assert (out / PARTITION / log.name).read_bytes() == before
    assert not list((out / PARTITION).glob("*.part*"))
    assert kcli("verify", out).status == 0
    assert f"joined with the parts after it, up to {second.name}" in kcli("recover", "--salvage", directory).stdout
    assert not log.exists(), "that was a dry run"
    assert kcli("recover", "--salvage", "--in-place", directory).status == 0
    assert log.read_bytes() == before
    assert not first.exists()


def test_an_emptied_log_beside_the_parts_is_replaced(directory: Path, tmp_path: Path) -> None:
    """As after a start of Kafka, which makes an empty log."""
    log = logs(directory)[-1]
    before = log.read_bytes()
    parts = cut(log, named(log, ["aa", "ab"]))
    log.touch()
    (finding,) = (each for each in loud(directory) if each.path == str(log))
    assert f"all batches are in 2 parts, whose join has all of them: {parts[0]}, {parts[1]}" in str(finding.found)
    assert kcli("recover", "--salvage", "--out", tmp_path / "out", directory).status == 0
    assert (tmp_path / "out" / PARTITION / log.name).read_bytes() == before
    subprocess.run(["sh", "-c", str(finding.command)], check=True)
    assert log.read_bytes() == before


def test_the_names_that_split_gives_without_a_prefix(directory: Path) -> None:
    log = logs(directory)[0]
    before = log.read_bytes()
    cut(log, ["xaa", "xab", "xac"])
    subprocess.run(["sh", "-c", str(missing(directory).command)], check=True)
    assert log.read_bytes() == before


def test_a_part_that_ends_with_a_batch(directory: Path) -> None:
    log = logs(directory)[0]
    without_indexes(log)
    before, ends = log.read_bytes(), ends_of(log)
    cut(log, named(log, ["aa", "ab"]), [ends[len(ends) // 2][0]])
    subprocess.run(["sh", "-c", str(missing(directory).command)], check=True)
    assert log.read_bytes() == before


def test_a_last_part_behind_all_entries_of_the_index(directory: Path) -> None:
    """By the offset index, the parts before it would be the whole log."""
    log = logs(directory)[0]
    before = log.read_bytes()
    cut(log, named(log, ["aa", "ab"]), [len(before) - 10])
    subprocess.run(["sh", "-c", str(missing(directory).command)], check=True)
    assert log.read_bytes() == before


def test_the_offsets_of_a_part_that_is_gone_are_lost(directory: Path, tmp_path: Path) -> None:
    log = logs(directory)[0]
    ends = ends_of(log)
    begin, end = ends[len(ends) // 3], ends[len(ends) * 2 // 3]
    first, second, third = cut(log, named(log, ["aa", "ab", "ac"]), [begin[0], end[0]])
    second.unlink()
    finding = missing(directory)
    words = f"is the join of 2 parts: {first}, {third}; offsets {begin[1]:,}..{end[1] - 1:,} are lost"
    assert str(finding.found).endswith(words)
    assert (finding.lost_first_offset, finding.lost_last_offset) == (begin[1], end[1] - 1)
    assert finding.command == f"kcli recover --unclean --salvage --dry-run '{log.parent}'"
    wanted = first.read_bytes() + third.read_bytes()
    (gap,) = (row for row in rows(directory, "--out", tmp_path / "out") if row["kind"] == "gap")
    assert (gap["first_offset"], gap["last_offset"]) == (begin[1], end[1] - 1)
    assert (tmp_path / "out" / PARTITION / log.name).read_bytes() == wanted


def test_copies_and_segments_are_not_joined(directory: Path) -> None:
    one, two = logs(directory)[:2]
    copies = [shutil.copyfile(one, one.with_name(f"{one.name}.{number}")) for number in (1, 2)]
    assert with_parts(copies) == [(each,) for each in copies], "as of a log rotation"
    found = [shutil.copyfile(log, one.with_name(f"#{number}")) for number, log in enumerate((one, two), 131077)]
    assert with_parts(found) == [(each,) for each in found], "as in a lost+found"


def test_the_parts_of_a_compacted_log(tmp_path: Path) -> None:
    """It lacks offsets without any loss; bytes between its parts are lost all the same."""
    directory = Path(shutil.copytree(GOLDEN / "compact/after", tmp_path / "data", copy_function=shutil.copyfile))
    log = max(logs(directory, "c-snappy-0")[1:-1], key=lambda each: each.stat().st_size)
    before, begin = log.read_bytes(), ends_of(log)[0][0]
    cut(log, named(log, ["aa", "ab", "ac"]), [begin + 10, begin + 20])
    subprocess.run(["sh", "-c", str(missing(directory).command)], check=True)
    assert log.read_bytes() == before
    log.unlink()
    log.with_name(f"{log.name}.ab").unlink()
    assert "whose join has all of them" not in str(missing(directory).found)
