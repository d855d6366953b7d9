"""Logs with the suffix .deleted whose offsets no other log has."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from kcli.log.recovery.coordinator_losses import lost_state
from kcli.log.recovery.loader import EventKind
from kcli.log.recovery.plan import plan
from tests.cli.run import kcli
from tests.conftest import GOLDEN
from tests.log.batches import NOW_MS, keyed
from tests.log.live.test_partition_log import open_log
from tests.log.live.test_partition_log_crash import batches_of
from tests.log.live.test_partition_log_lifecycle import SMALL
from tests.log.recovery.test_recover_salvage import OPTIONS, leaves_after_any_crash

PARTITION = "t-txn-0"
EMPTIED = "c-txn-default-0"
"""A partition of which the cleaner of Kafka has left two empty segments."""


def made(directory: Path) -> list[tuple[int, bytes]]:
    """Make a log of seven segments, in which each record has another key. Returns its batches."""
    log = open_log(directory, SMALL)
    for i in range(21):
        log.append_as_leader(bytearray(keyed(b"%d" % i, bytes(200))), 0, NOW_MS)
    log.update_high_watermark(log.log_end_offset)
    found = batches_of(log)
    log.close(0)
    return found


def emptied(target: Path) -> tuple[Path, Path]:
    """Return a log directory and its partition EMPTIED, whose empty files were removed. The versions before the
    compaction of the two empty segments are .deleted files, as Kafka leaves them for a minute."""
    shutil.copytree(GOLDEN / "compact/after", target, copy_function=shutil.copyfile)
    directory = target / EMPTIED
    for log in directory.glob("*.log"):
        if not log.stat().st_size:
            for path in directory.glob(f"{log.stem}.*"):
                path.unlink()
            for path in (GOLDEN / "compact/before" / EMPTIED).glob(f"{log.stem}.*"):
                if path.suffix in (".log", ".index", ".timeindex"):
                    shutil.copyfile(path, directory / f"{path.name}.deleted")
    return target, directory


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


def test_a_cleaned_segment_is_gone_and_its_version_before_the_cleaning_is_there(tmp_path: Path) -> None:
    """The segment before it was cleaned, too, so that the cleaner may have merged the two. That no other log has these
    keys shows that it has not."""
    directory = tmp_path / "p-0"
    batches = dict(made(directory))
    first, second, *_ = bases(directory)
    log = directory / f"{first:020}.log"
    shutil.copyfile(log, f"{log}.deleted")
    log.write_bytes(log.read_bytes().removesuffix(batches[second - 1]))
    delete(directory, second)
    assert deleted_by(directory, is_compacted=True) == [f"{second:020}.log.deleted"]
    done = plan(directory, replace(OPTIONS, is_compacted=True), with_salvage=True)
    assert f"{second:020}.log" in [each.name for each in done.saved.restored]


def test_a_cleaning_that_has_merged_two_segments_and_left_nothing_of_the_second(tmp_path: Path) -> None:
    directory = tmp_path / "p-0"
    directory.mkdir()
    first, second = (keyed(b"%d" % i, b"x", base_offset=i) for i in range(2))
    (directory / f"{0:020}.log").write_bytes(first)
    (directory / f"{0:020}.log.deleted").write_bytes(first)
    (directory / f"{1:020}.log.deleted").write_bytes(second)
    (directory / f"{2:020}.log").write_bytes(keyed(b"1", b"y", base_offset=2))
    assert deleted_by(directory, is_compacted=True) == []


@pytest.mark.parametrize("is_compacted", [False, True])
@pytest.mark.parametrize("number", [0, 2])
def test_a_cleaned_segment_that_was_emptied(tmp_path: Path, number: int, is_compacted: bool) -> None:
    """Its version before the cleaning has its offsets. Without an entry in its indexes, the cleaner has left nothing
    of it."""
    directory = tmp_path / "p-0"
    batches = made(directory)
    base = bases(directory)[number]
    log = directory / f"{base:020}.log"
    shutil.copyfile(log, f"{log}.deleted")
    log.write_bytes(b"")
    assert deleted_by(directory, is_compacted=is_compacted) == [f"{log.name}.deleted"]
    copy = shutil.copytree(directory, tmp_path / "copy")
    for kind in (".index", ".timeindex"):
        (copy / f"{base:020}{kind}").write_bytes(bytes(24))
    assert deleted_by(copy, is_compacted=is_compacted) == []
    leaves_after_any_crash(directory, batches)


def test_commands_for_an_emptied_segment(tmp_path: Path) -> None:
    directory = shutil.copytree(GOLDEN / "txn/data", tmp_path / "logs")
    log = directory / PARTITION / f"{bases(directory / PARTITION)[0]:020}.log"
    whole, known = log.read_bytes(), [each["kind"] for each in errors(directory)]
    shutil.copyfile(log, f"{log}.deleted")
    log.write_bytes(b"")
    (found,) = [each for each in errors(directory) if each["kind"] not in known]
    assert found["kind"] == "log-deleted"
    assert f"0 bytes: its batches are in {log.name}.deleted" in str(found["found"])
    new = tmp_path / "new"
    assert kcli("recover", "--salvage", "--out", new, directory).status == 0
    assert (new / PARTITION / log.name).read_bytes() == whole
    subprocess.run(["bash", "-c", str(found["command"])], check=True)
    assert log.read_bytes() == whole
    assert [each["kind"] for each in errors(directory)] == known


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


@pytest.mark.parametrize("has_deleted", [False, True])
@pytest.mark.parametrize("is_compacted", [False, True])
def test_a_cleaned_log_whose_input_is_gone(tmp_path: Path, *, is_compacted: bool, has_deleted: bool) -> None:
    """A start deletes it, and with it the last trace of its records. A .log.deleted file of the segment has more."""
    directory = tmp_path / "p-0"
    made(directory)
    base = bases(directory)[1]
    log = directory / f"{base:020}.log"
    if has_deleted:
        shutil.copyfile(log, f"{log}.deleted")
    shutil.copyfile(log, f"{log}.cleaned")
    assert deleted_by(directory, is_compacted=is_compacted) == [], "its input is there"
    log.unlink()
    kept = f"{log.name}.deleted" if has_deleted else f"{log.name}.cleaned"
    assert deleted_by(directory, is_compacted=is_compacted) == [kept]
    done = plan(directory, replace(OPTIONS, is_compacted=is_compacted), with_salvage=True)
    assert log.name in [each.name for each in done.saved.restored]


def test_a_swap_log_whose_offsets_the_log_has(tmp_path: Path) -> None:
    """A crash between the renames of the cleaner's output leaves such a file; deleting it loses nothing."""
    directory = tmp_path / "p-0"
    made(directory)
    first, second, *_ = bases(directory)
    shutil.copyfile(directory / f"{second:020}.log", directory / f"{second:020}.log.swap")
    (directory / f"{first:020}.log.cleaned").touch()
    assert deleted_by(directory) == deleted_by(directory, is_compacted=True) == []


def test_a_segment_of_which_the_cleaner_left_nothing(tmp_path: Path) -> None:
    target, directory = emptied(tmp_path / "logs")
    assert [path.name[:20].lstrip("0") for path in sorted(directory.glob("*.log.deleted"))] == ["", "64"]
    assert errors(target) == []
    notes = kcli("verify", "--format", "jsonl", "--severity", "info", target).stdout.splitlines()
    told = [each for each in map(json.loads, notes) if each["path"] == str(directory) and each["kind"] == "offset-gap"]
    assert [each["found"] for each in told] == [
        "offsets 0..2 are only in logs that a start deletes, with superseded records"
    ]
    ended = kcli("recover", target)
    assert ended.status == 0
    assert f"deleted          {EMPTIED}" not in ended.stdout
    assert kcli("recover", "--salvage", "--out", tmp_path / "new", target).status == 0
    assert bases(tmp_path / "new" / EMPTIED) == bases(directory)


def test_a_deleted_log_with_the_last_records_of_some_keys(tmp_path: Path) -> None:
    """Only these records count as lost. That the segment has no index follows from the suffix of its log."""
    target, directory = emptied(tmp_path / "logs")
    for path in directory.glob(f"{73:020}.*"):
        path.unlink()
    log = f"{73:020}.log"
    shutil.copyfile(GOLDEN / "compact/before" / EMPTIED / log, directory / f"{log}.deleted")
    (told,) = errors(target)
    assert (told["kind"], told["offset"]) == ("log-deleted", 73)
    assert "20 of its records, at offsets 74..141, are in no other log" in str(told["found"])
    assert told["consequences"] == {"index-missing": 1, "timeindex-missing": 1}
    notes = kcli("verify", "--format", "jsonl", "--severity", "info", target).stdout.splitlines()
    assert not [each for each in map(json.loads, notes) if each["kind"].endswith("index-missing")]
    done = plan(directory, replace(OPTIONS, is_compacted=True), with_salvage=True)
    (lost,) = [lost for event, lost in zip(done.events, done.lost, strict=True) if event.kind is EventKind.DELETED]
    assert (lost.records, lost.first_offset, lost.last_offset, done.saved.records) == (20, 74, 141, 20)
    assert [each.name for each in done.saved.restored] == [log]


def test_the_groups_whose_records_are_superseded_are_not_lost(tmp_path: Path) -> None:
    def offset_of(group: str) -> bytes:
        return b"".join([bytes([0, 1]), len(group).to_bytes(2), group.encode(), b"\0\1t", bytes(4)])

    directory = tmp_path / "__consumer_offsets-0"
    directory.mkdir()
    (directory / f"{0:020}.log").write_bytes(keyed(offset_of("old"), b"x"))
    batches = [keyed(offset_of(group), b"x", base_offset=1 + i) for i, group in enumerate(("kept", "lost"))]
    (directory / f"{1:020}.log.deleted").write_bytes(b"".join(batches))
    (directory / f"{3:020}.log").write_bytes(keyed(offset_of("kept"), b"y", base_offset=3))
    done = plan(directory, replace(OPTIONS, is_compacted=True))
    found = lost_state("__consumer_offsets", done.events)
    assert found is not None
    assert found.names == ("lost",)


def test_a_group_whose_lost_record_has_a_later_one_behind_the_cut_is_not_lost(tmp_path: Path) -> None:
    """A clean start cuts a segment without an index, and keeps those behind it."""

    def commit(group: str, base_offset: int) -> bytes:
        key = b"".join([bytes([0, 1]), len(group).to_bytes(2), group.encode(), b"\0\1t", bytes(4)])
        return keyed(key, b"x", base_offset=base_offset)

    directory = tmp_path / "__consumer_offsets-0"
    directory.mkdir()
    damaged = bytearray(commit("gone", 0) + commit("kept", 1) + commit("lost", 2))
    damaged[len(commit("gone", 0)) - 1] ^= 1
    (directory / f"{0:020}.log").write_bytes(damaged)
    (directory / f"{3:020}.log").write_bytes(commit("kept", 3))
    for kind in ("index", "timeindex"):
        (directory / f"{3:020}.{kind}").touch()
    done = plan(directory, replace(OPTIONS, is_compacted=True, clean=True))
    (cut,) = [each for each in done.events if each.kind is EventKind.CUT]
    assert done.segments_behind(cut.file) == 1
    found = lost_state("__consumer_offsets", done.events, kept=done.view.files)
    assert found is not None
    assert found.names == ("lost",)
    told = map(json.loads, kcli("recover", "--clean", "--format", "jsonl", directory).stdout.splitlines())
    (row,) = (row for row in told if row["kind"] == "cut")
    assert (row["log_end_offset"], row["segments_behind"]) == (0, 1)
    assert "the segment then ends at offset 0" in kcli("recover", "--clean", directory).stdout
    (directory / f"{3:020}.log").unlink()
    assert "the log then ends at offset 0" in kcli("recover", "--clean", directory).stdout
