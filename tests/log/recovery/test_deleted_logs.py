"""Logs with the suffix .deleted whose offsets no other log has."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from kcli.log.recovery.loader import EventKind
from kcli.log.recovery.plan import plan
from tests.cli.run import kcli
from tests.conftest import GOLDEN
from tests.log.recovery.test_recover_salvage import OPTIONS, leaves_after_any_crash, made

PARTITION = "t-txn-0"


def delete(directory: Path, base: int) -> None:
    """Rename the files of a segment as Kafka does before it deletes them."""
    for path in directory.glob(f"{base:020}.*"):
        path.rename(path.with_name(f"{path.name}.deleted"))


def bases(directory: Path) -> list[int]:
    return sorted(int(path.stem) for path in directory.glob("*.log"))


def deleted_by(directory: Path, **options: int | bool) -> list[str]:
    """Return the logs that a start deletes although no other log has their offsets."""
    done = plan(directory, replace(OPTIONS, **options))  # type: ignore[arg-type]
    return [event.file for event in done.events if event.kind is EventKind.DELETED]


@pytest.mark.parametrize("is_compacted", [False, True])
def test_a_segment_between_others(tmp_path: Path, is_compacted: bool) -> None:
    directory = tmp_path / "p-0"
    batches = made(directory)
    base = bases(directory)[1]
    delete(directory, base)
    assert deleted_by(directory, is_compacted=is_compacted) == [f"{base:020}.log.deleted"]
    done = plan(directory, OPTIONS, with_salvage=True)
    assert f"{base:020}.log" in [each.name for each in done.saved.restored]
    leaves_after_any_crash(directory, batches)


def test_the_last_segments(tmp_path: Path) -> None:
    """Behind the log end only checkpoints show that these segments were not truncated."""
    directory = tmp_path / "p-0"
    made(directory)
    *_, one, two = bases(directory)
    delete(directory, one)
    delete(directory, two)
    assert deleted_by(directory) == []
    assert deleted_by(directory, reached=one) == []
    assert deleted_by(directory, reached=one + 1) == [f"{one:020}.log.deleted"]
    assert deleted_by(directory, reached=two + 1) == [f"{each:020}.log.deleted" for each in (one, two)]


def test_every_segment(tmp_path: Path) -> None:
    directory = tmp_path / "p-0"
    made(directory)
    names = [f"{each:020}.log.deleted" for each in bases(directory)]
    for each in bases(directory):
        delete(directory, each)
    assert deleted_by(directory, reached=10**6) == names
    assert len(deleted_by(directory, reached=10**6, log_start_offset=int(names[1][:20]))) == len(names) - 1


def test_what_retention_and_compaction_leave(tmp_path: Path) -> None:
    directory = tmp_path / "p-0"
    made(directory)
    first, second, _third, *_ = bases(directory)
    delete(directory, first)
    epochs = directory / "leader-epoch-checkpoint"
    before = epochs.read_text()
    epochs.write_text(f"0\n1\n0 {second}\n")  # as retention leaves them
    assert deleted_by(directory, reached=10**6) == []  # retention
    epochs.write_text(before)
    shutil.copyfile(directory / f"{first:020}.log.deleted", directory / f"{first:020}.log")
    delete(directory, second)
    assert deleted_by(directory, reached=10**6) == []  # the cleaner made one log of two
    (directory / f"{first:020}.log.deleted").unlink()
    assert deleted_by(directory, reached=10**6) == [f"{second:020}.log.deleted"]
    shutil.copyfile(directory / f"{second:020}.log.deleted", directory / f"{second:020}.log.swap")
    assert deleted_by(directory, reached=10**6) == []  # the swap file takes its place


def test_below_the_first_segment(tmp_path: Path) -> None:
    """Retention raises the log start offset, and removes leader epochs below it: epochs that begin lower show that it
    was not retention."""
    directory = tmp_path / "p-0"
    batches = made(directory)
    first, second, third, *_ = bases(directory)
    delete(directory, first)
    delete(directory, second)
    names = [f"{first:020}.log.deleted", f"{second:020}.log.deleted"]
    epochs = directory / "leader-epoch-checkpoint"
    for start, missed in ((third, []), (second, names[1:]), (first, names)):
        epochs.write_text(f"0\n1\n0 {start}\n")
        assert deleted_by(directory) == missed
        assert deleted_by(directory, is_compacted=True) == missed
        assert deleted_by(directory, is_tiered=True) == []
        assert deleted_by(directory, log_start_offset=second) == [each for each in missed if each != names[0]]
    leaves_after_any_crash(directory, batches)
    (directory / names[1]).unlink()  # more is missing than what lies below it
    assert deleted_by(directory) == []


def test_a_log_of_several_segments_has_replaced_it(tmp_path: Path) -> None:
    """This also holds where one of these segments is back under its own name."""
    directory = tmp_path / "p-0"
    made(directory)
    first, second, third, *_ = bases(directory)
    merged = b"".join((directory / f"{each:020}.log").read_bytes() for each in (first, second, third))
    delete(directory, third)
    (directory / f"{first:020}.log").write_bytes(merged)
    assert deleted_by(directory, is_compacted=True) == []


def test_commands_for_people(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "txn/data", tmp_path / "logs")
    directory = tmp_path / "logs"
    *_, base, last = bases(directory / PARTITION)
    before = {path.name: path.read_bytes() for path in (directory / PARTITION).iterdir()}
    known = [each["kind"] for each in errors(directory)]
    delete(directory / PARTITION, base)
    delete(directory / PARTITION, last)
    ended = kcli("recover", directory)
    assert ended.status == 1
    assert f"deleted          {PARTITION}/{base:020}.log.deleted" in ended.stdout
    assert "the log lacks its offsets, and Kafka deletes it" in ended.stdout
    assert kcli("recover", "--salvage", "--out", tmp_path / "new", directory).status == 0
    assert bases(tmp_path / "new" / PARTITION) == bases(GOLDEN / "txn/data" / PARTITION)
    told = [each for each in errors(directory) if each["kind"] not in known]
    assert [each["kind"] for each in told] == ["log-deleted", "log-deleted"]
    for each in told:
        subprocess.run(["bash", "-c", str(each["command"])], check=True)
    assert {path.name: path.read_bytes() for path in (directory / PARTITION).iterdir()} == before
    assert [each["kind"] for each in errors(directory)] == known


def errors(directory: Path) -> list[dict[str, object]]:
    output = kcli("verify", "--format", "jsonl", "--severity", "error", directory).stdout
    return [json.loads(line) for line in output.splitlines()]


@pytest.mark.parametrize("is_compacted", [False, True])
@pytest.mark.parametrize("number", [0, 1])
def test_a_swap_log_that_a_start_deletes(tmp_path: Path, number: int, is_compacted: bool) -> None:
    """A .cleaned file at or below it shows an interrupted cleaning, whose input is gone."""
    directory = tmp_path / "p-0"
    batches = made(directory)
    base = bases(directory)[1]
    for path in directory.glob(f"{base:020}.*"):
        if path.suffix in (".log", ".index", ".timeindex"):
            path.rename(path.with_name(f"{path.name}.swap"))
    assert deleted_by(directory, is_compacted=is_compacted) == []  # the start puts it into its place
    cleaned = directory / f"{bases(directory)[0] if not number else base:020}.log.cleaned"
    cleaned.touch()
    options = replace(OPTIONS, is_compacted=is_compacted)
    (event,) = [each for each in plan(directory, options).events if each.is_loss]
    assert (event.kind, event.file) == (EventKind.DELETED, f"{base:020}.log.swap")
    done = plan(directory, options, with_salvage=True)
    assert f"{base:020}.log" in [each.name for each in done.saved.restored]
    leaves_after_any_crash(directory, batches)


def test_a_swap_log_whose_offsets_the_log_has(tmp_path: Path) -> None:
    """A crash between the renames of the cleaner's output leaves such a file; deleting it loses nothing."""
    directory = tmp_path / "p-0"
    made(directory)
    first, second, *_ = bases(directory)
    shutil.copyfile(directory / f"{second:020}.log", directory / f"{second:020}.log.swap")
    (directory / f"{first:020}.log.cleaned").touch()
    assert deleted_by(directory) == deleted_by(directory, is_compacted=True) == []
