"""Blocks of two logs in each other's file, and of one log in another: salvage takes them from there, and nothing is
lost; verify names the file that has them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kcli.log.recovery.partition_copies import sound_offsets
from tests.cli.run import kcli
from tests.conftest import GOLDEN
from tests.damage import frames
from tests.inspector.test_verify_causes import loud, swap

OWN, OTHER = "t-txn-2", "t-txn-1"
CLOSED, ACTIVE = f"{OWN}/{5:020}.log", f"{OWN}/{76:020}.log"
OF_OTHER = f"{OTHER}/{69:020}.log"
PAGE = slice(4096, 8192)
ATTRIBUTES_AT, CONTROL = 22, 0x20
PAGES = [  # two .log files, and bytes that lie in each other's
    (CLOSED, ACTIVE, slice(0, 4096)),
    (CLOSED, ACTIVE, slice(4096, 8192)),
    (ACTIVE, OF_OTHER, slice(4096, 8192)),
    (CLOSED, OF_OTHER, slice(0, 4096)),
]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a log directory of real Kafka, after a crash."""
    home = Path(shutil.copytree(GOLDEN / "txn" / "data", tmp_path / "data", copy_function=shutil.copyfile))
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (home / name).unlink(missing_ok=True)
    return home


def exchange(directory: Path, one: str, other: str, page: slice) -> None:
    logs = [directory / each for each in (one, other)]
    first, second = (bytearray(each.read_bytes()) for each in logs)
    first[page], second[page] = second[page], first[page]
    for log, data in zip(logs, (first, second), strict=True):
        log.write_bytes(data)


def rows(*args: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in kcli("recover", "--format", "jsonl", *args).stdout.splitlines()]


def logs_of(directory: Path) -> dict[str, bytes]:
    return {str(each.relative_to(directory)): each.read_bytes() for each in sorted(directory.glob("t-*/*.log"))}


@pytest.mark.parametrize(("one", "other", "page"), PAGES)
@pytest.mark.parametrize("mode", ["--out", "--in-place"])
def test_exchanged_blocks_are_put_back(
    directory: Path, tmp_path: Path, one: str, other: str, page: slice, mode: str
) -> None:
    before = logs_of(directory)
    exchange(directory, one, other, page)
    new = tmp_path / "new"
    told = rows("--salvage", *(["--out", new] if mode == "--out" else [mode]), directory)
    assert not [row for row in told if row["kind"] in ("gap", "renamed", "records-foreign", "end-missing")]
    filled = {f"{row['partition']}/{row['file']}": row for row in told if row["kind"] == "refilled"}
    assert filled.keys() == {one, other}
    assert {row["block_position"] for row in filled.values()} == {page.start}
    home = new if mode == "--out" else directory
    assert logs_of(home) == before
    assert not [each for each in loud(home) if each.severity == "error"]


def misdirect(directory: Path) -> None:
    """Write a page of ACTIVE to OF_OTHER, and zeros in its place."""
    log, wrong = directory / ACTIVE, directory / OF_OTHER
    data, other = bytearray(log.read_bytes()), bytearray(wrong.read_bytes())
    other[PAGE], data[PAGE] = data[PAGE], bytes(PAGE.stop - PAGE.start)
    log.write_bytes(data)
    wrong.write_bytes(other)


def _has_its_own_alone(log: Path, before: bytes) -> None:
    """A .log file that had a page of another one has only its own batches, and all outside of the page. Salvage writes
    lost end markers anew."""
    data = log.read_bytes()
    kept = {data[start : start + size] for start, size in frames(data)}
    own = {before[start : start + size]: (start, start + size) for start, size in frames(before)}
    assert all(batch in own or batch[ATTRIBUTES_AT] & CONTROL for batch in kept)
    outside = {batch for batch, (start, end) in own.items() if end <= PAGE.start or start >= PAGE.stop}
    assert outside
    assert outside <= kept


@pytest.mark.parametrize("mode", ["--out", "--in-place"])
def test_a_block_that_went_to_the_wrong_file_alone(directory: Path, tmp_path: Path, mode: str) -> None:
    before = logs_of(directory)
    misdirect(directory)
    told = rows("--salvage", *(["--out", tmp_path / "new"] if mode == "--out" else [mode]), directory)
    (filled,) = [row for row in told if row["kind"] == "refilled"]
    assert (f"{filled['partition']}/{filled['file']}", filled["source"]) == (ACTIVE, OF_OTHER)
    home = tmp_path / "new" if mode == "--out" else directory
    assert logs_of(home)[ACTIVE] == before[ACTIVE]
    _has_its_own_alone(home / OF_OTHER, before[OF_OTHER])
    epochs = (home / OTHER / "leader-epoch-checkpoint").read_text()
    assert epochs == (GOLDEN / "txn" / "data" / OTHER / "leader-epoch-checkpoint").read_text()


def test_a_log_that_has_anothers_block_is_salvaged_alone(directory: Path, tmp_path: Path) -> None:
    before = logs_of(directory)
    misdirect(directory)
    told = rows("--salvage", "--out", tmp_path / "new", directory / OTHER)
    (foreign,) = [row for row in told if row["kind"] == "records-foreign"]
    assert foreign["file"] == Path(OF_OTHER).name
    _has_its_own_alone(tmp_path / "new" / Path(OF_OTHER).name, before[OF_OTHER])


def test_verify_names_the_batches_of_a_block_alone(directory: Path) -> None:
    misdirect(directory)
    found = {each.kind: each for each in loud(directory) if each.severity in ("error", "warning")}
    assert found.keys() == {"block-displaced", "records-foreign"}
    assert found["block-displaced"].path == str(directory / ACTIVE)
    assert found["records-foreign"].path == str(directory / OF_OTHER)
    assert f"of {OWN}, which {ACTIVE} lacks at the same place" in str(found["records-foreign"].found)
    assert {each.command for each in found.values()} == {f"kcli recover --salvage --dry-run {directory}"}


@pytest.mark.parametrize("page", [slice(0, 4096), slice(4096, 8192)])
def test_a_log_with_a_copy_of_another_block_keeps_its_place(directory: Path, tmp_path: Path, page: slice) -> None:
    log, other = directory / CLOSED, directory / ACTIVE
    whole, data = log.read_bytes(), bytearray(log.read_bytes())
    data[page] = other.read_bytes()[page]
    log.write_bytes(data)
    own = {
        int.from_bytes(whole[start : start + 8])
        for start, size in frames(whole)
        if start + size <= page.start or start >= page.stop
    }
    told = rows("--salvage", "--out", tmp_path / "new", directory)
    assert not [row for row in told if row["kind"] == "renamed"]
    kept = sound_offsets(tmp_path / "new" / OWN)
    assert not [offset for offset in own if not kept.has(offset)]
    assert kept.has(76)
    assert kept.has(142)


@pytest.mark.parametrize("damaged", [CLOSED, ACTIVE])
def test_exchanged_logs_with_a_damaged_begin_get_their_names(directory: Path, tmp_path: Path, damaged: str) -> None:
    swap(directory / CLOSED, directory / ACTIVE)
    path = directory / damaged
    path.write_bytes(bytes(512) + path.read_bytes()[512:])
    told = rows("--salvage", "--out", tmp_path / "new", directory)
    (renamed, other) = [row for row in told if row["kind"] == "renamed"]
    assert {renamed["name"], other["name"]} == {Path(CLOSED).name, Path(ACTIVE).name}
    lost = 143 - sum(last - first + 1 for first, last in sound_offsets(tmp_path / "new" / OWN))
    assert lost < 10


@pytest.mark.parametrize(("one", "other", "page"), PAGES)
def test_verify_names_the_file_that_has_the_block(directory: Path, one: str, other: str, page: slice) -> None:
    exchange(directory, one, other, page)
    errors = [each for each in loud(directory) if each.severity == "error"]
    is_of_one = Path(one).parent == Path(other).parent
    assert [each.kind for each in errors] == ["block-displaced"] * (1 if is_of_one else 2)
    for finding in errors:
        there = other if finding.path == str(directory / one) else one
        name = Path(there).name if is_of_one else there
        assert f"bytes {page.start:,}..{page.stop - 1:,} of this file are in {name}" in str(finding.found)
        assert "and those of that file are here; no offset is lost" in str(finding.found)
        assert finding.action.endswith("salvage takes these bytes from there, in a copy")
        assert finding.command == f"kcli recover --unclean --salvage --dry-run {Path(finding.path).parent}"


def test_a_start_with_another_segments_batches_is_named(directory: Path) -> None:
    (directory / "recovery-point-offset-checkpoint").write_text("0\n1\nt-txn 2 143\n")
    swap(directory / CLOSED, directory / OWN / f"{73:020}.log")
    named = {row["file"]: row["reason"] for row in rows(directory) if row["kind"] == "passed-over"}
    assert named[Path(CLOSED).name].startswith("it begins with offset 73, which is another segment's")
    assert named[f"{73:020}.log"].startswith("it begins with offset 5, which is another segment's")


def test_a_copy_of_another_segment_is_left_out(directory: Path, tmp_path: Path) -> None:
    copy = directory / OWN / f"{73:020}.log"
    shutil.copyfile(directory / CLOSED, copy)
    told = rows("--salvage", "--out", tmp_path / "new", directory)
    (left,) = [row for row in told if row["kind"] == "left-out" and row["file"].endswith(".log")]
    assert (left["file"], left["reason"]) == (copy.name, f"its batches are those of {Path(CLOSED).name}")
    assert [row["first_offset"] for row in told if row["kind"] == "gap"] == [73]
    kept = sound_offsets(tmp_path / "new" / OWN)
    assert [*kept.lacking(0, 142)] == [(73, 75)]
    assert not [each for each in loud(tmp_path / "new") if each.kind == "file-name"]


@pytest.mark.parametrize("damaged", [CLOSED, ACTIVE])
def test_exchanged_logs_with_a_damaged_begin_are_named_as_such(directory: Path, damaged: str) -> None:
    swap(directory / CLOSED, directory / ACTIVE)
    path = directory / damaged
    path.write_bytes(bytes(512) + path.read_bytes()[512:])
    (finding,) = [each for each in loud(directory) if each.kind == "file-name"]
    assert "the two files are swapped" in str(finding.found)
