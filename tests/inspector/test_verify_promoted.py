"""A move between two log directories stopped after the controller had placed the partition in the second one: verify
and recover foretell what real Kafka does at its start with the future log and the current one. Kafka does not look at
what they have; it serves the future log, and deletes the current one."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from kcli.inspector.verify import Finding, Verification
from kcli.metadata_log.promotion import Comparison, Promotion
from kcli.protocol.topic_partition import TopicPartition
from tests.cli.run import kcli
from tests.damage import frames
from tests.two_directories import MOVED, two_directories

NAME = MOVED[0]
FUTURE = f"{NAME}.{'0123456789abcdef' * 2}-future"
Directories = tuple[Path, Path, Path]


@pytest.fixture
def directories(tmp_path: Path) -> Directories:
    """The current log in the first directory, a complete future log in the second one, where the metadata log places
    the partition; and a server.properties of both."""
    one, two, server = two_directories(tmp_path)
    shutil.copytree(two / NAME, one / NAME)
    (two / NAME).rename(two / FUTURE)
    return one, two, server


def logs(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.log"))


def end_of(directory: Path) -> int:
    """The log end offset of a partition's directory."""
    return Comparison(0).compare(Promotion(TopicPartition("", 0), directory, None)).end


def without_last_segment(directory: Path) -> int:
    """Remove the last segment. Returns the offset at which the log then ends."""
    *_, last = logs(directory)
    for path in directory.glob(f"{last.stem}.*"):
        path.unlink()
    for path in directory.glob("*.snapshot"):
        if int(path.stem) > int(last.stem):
            path.unlink()
    return int(last.stem)


def damaged(directory: Path) -> tuple[int, int]:
    """Flip a bit in the second batch of the first log. Returns the first and the last offset of the batch."""
    log = logs(directory)[0]
    data = bytearray(log.read_bytes())
    begin, size = frames(bytes(data))[1]
    data[begin + size - 1] ^= 1
    log.write_bytes(data)
    base = int.from_bytes(data[begin : begin + 8])
    return base, base + int.from_bytes(data[begin + 23 : begin + 27])


def found(directories: Directories) -> list[Finding]:
    """The findings in both directories, but for notes about other things."""
    findings = Verification([*directories[:2]]).findings()
    return [each for each in findings if each.severity != "info" or NAME in each.path]


def rows(directories: Directories, number: int, *options: str | Path) -> list[dict[str, object]]:
    """The rows of `kcli recover` about the partition, for one directory."""
    ended = kcli("recover", "--config", directories[2], "--format", "jsonl", *options, directories[number])
    shown = map(json.loads, ended.stdout.splitlines())
    return [row for row in shown if str(row["partition"]).startswith(NAME) or str(row.get("file")).startswith(NAME)]


def ends(directories: Directories, number: int) -> list[tuple[object, object]]:
    """The partitions whose offsets `kcli recover` foretells, each with its log end offset."""
    shown = rows(directories, number)
    return [(row["partition"], row["log_end_offset"]) for row in shown if row["kind"] == "partition"]


def test_a_complete_future_log_is_a_note(directories: Directories) -> None:
    one, two, _ = directories
    (note,) = found(directories)
    assert (note.kind, note.severity, note.path) == ("log-promoted", "info", str(two / FUTURE))
    assert f"deletes {one / NAME}, of which it has all offsets" in str(note.found)
    for number, kind in ((0, "current-deleted"), (1, "promoted")):
        row = rows(directories, number)[0]
        assert (row["kind"], row["partition"], row["lost"]) == (kind, NAME, [])
        assert ends(directories, number) == [(NAME, end_of(one / NAME))]
        assert kcli("recover", "--config", directories[2], directories[number]).status == 0


def test_a_future_log_that_ends_too_early(directories: Directories) -> None:
    one, two, config = directories
    end, other_end = without_last_segment(two / FUTURE), end_of(one / NAME)
    (error,) = found(directories)
    assert (error.kind, error.severity, error.path) == ("log-promoted", "error", str(two / FUTURE))
    assert (error.lost_first_offset, error.lost_last_offset) == (end, other_end - 1)
    assert f"which alone has offsets {end}..{other_end - 1}" in str(error.found)
    for number in (0, 1):
        assert rows(directories, number)[0]["lost"] == [[end, other_end - 1]]
        assert ends(directories, number) == [(NAME, end)]
        shown = kcli("recover", "--config", config, directories[number])
        assert shown.status == 1
        assert f"lost: offsets {end:,}..{other_end - 1:,}, which the deleted log alone has" in shown.stdout
    subprocess.run(["sh", "-c", str(error.command)], check=True)
    assert [each.kind for each in found(directories)] == ["partition-elsewhere"]  # Kafka serves the current log


def test_damage_of_the_future_log_is_that_of_the_served_log(directories: Directories) -> None:
    one, two, config = directories
    first, last = damaged(two / FUTURE)
    (error,) = found(directories)
    assert (error.kind, error.lost_first_offset, error.lost_last_offset) == ("log-promoted", first, last)
    assert error.consequences["batch-crc"] == 1
    both = {"log.dirs": f"{one},{two}"}
    (alone,) = (each for each in Verification([one], server=both).findings() if each.kind == "log-promoted")
    assert alone.path == str(two / FUTURE)
    shutil.rmtree(one / NAME)
    shown = kcli("verify", "--config", config, one, two).stdout
    assert "batch-crc" in shown
    assert "no consumer meets it" not in shown


def test_damage_of_the_current_log_is_met_by_no_consumer(directories: Directories) -> None:
    damaged(directories[0] / NAME)
    error, note = found(directories)
    assert "no consumer meets it" in error.action
    assert (note.kind, note.severity) == ("log-promoted", "info")


def test_without_a_current_log_the_future_log_gets_the_name(directories: Directories) -> None:
    one, two, _ = directories
    shutil.rmtree(one / NAME)
    (note,) = found(directories)
    assert (note.kind, note.severity) == ("log-promoted", "info")
    assert ends(directories, 0) == []
    assert ends(directories, 1) == [(NAME, end_of(two / FUTURE))]
    checkpoint = two / "recovery-point-offset-checkpoint"
    topic, number = NAME.rsplit("-", 1)
    reached = end_of(two / FUTURE)
    checkpoint.write_text(f"0\n1\n{topic} {number} {reached}\n")
    end = without_last_segment(two / FUTURE)
    error = next(each for each in found(directories) if each.kind == "log-promoted")
    assert (error.severity, error.lost_first_offset, error.lost_last_offset) == ("error", end, reached - 1)
    assert not [each for each in found(directories) if each.kind in ("log-end", "checkpoint-offset")]
    assert rows(directories, 1)[0]["lost"] == [[end, reached - 1]]


def test_where_the_metadata_log_places_it_with_the_current_log_the_move_goes_on(directories: Directories) -> None:
    one, two, _ = directories
    (one / NAME).rename(one / FUTURE)
    (two / FUTURE).rename(two / NAME)
    without_last_segment(one / FUTURE)
    assert [each.kind for each in found(directories)] == ["leftover-directory"]
    assert [row["kind"] for number in (0, 1) for row in rows(directories, number)] == ["partition"] * 2


def test_a_move_that_goes_on_ends_with_the_damage_of_the_future_log(directories: Directories, tmp_path: Path) -> None:
    """Kafka appends what is behind its end, and then deletes the current log, which alone has the damaged batch."""
    one, two, config = directories
    (one / NAME).rename(one / FUTURE)
    (two / FUTURE).rename(two / NAME)
    without_last_segment(one / FUTURE)
    first, last = damaged(one / FUTURE)
    (error,) = found(directories)
    assert (error.kind, error.lost_first_offset, error.lost_last_offset) == ("log-promoted", first, last)
    assert f"goes on with the move, gives it the name {NAME}, and deletes {two / NAME}" in str(error.found)
    for number, kind in ((0, "promoted"), (1, "current-deleted")):
        row = rows(directories, number)[0]
        assert (row["kind"], row["resumed"], row["lost"]) == (kind, True, [[first, last]])
    assert ends(directories, 1) == [(NAME, end_of(two / NAME))]
    new = tmp_path / "new"
    assert kcli("recover", "--salvage", "--config", config, "--out", new, one).status == 0
    assert [each.name[-6:] for each in new.glob(f"{NAME}*")] == ["-stray"]


def test_what_a_crash_cuts_off_a_move_that_goes_on_is_copied_again(directories: Directories) -> None:
    one, two, _ = directories
    (one / NAME).rename(one / FUTURE)
    (two / FUTURE).rename(two / NAME)
    damaged(one / FUTURE)
    (one / ".kafka_cleanshutdown").unlink(missing_ok=True)
    assert not [each for each in found(directories) if each.kind == "log-promoted" or "are lost" in each.action]
    # what salvage keeps of the future log has a gap, and no damage at which a start would cut
    assert "set-aside" in [row["kind"] for row in rows(directories, 0, "--salvage")]


def test_kafka_does_not_start_with_both_in_one_directory(directories: Directories, tmp_path: Path) -> None:
    one, two, config = directories
    shutil.move(one / NAME, two / NAME)
    without_last_segment(two / FUTURE)
    (error,) = found(directories)
    assert (error.kind, error.path, error.refuses_start) == ("log-promoted", str(two / FUTURE), True)
    assert error.lost_first_offset is None
    (refused,) = (row for row in rows(directories, 1) if row["kind"] == "refused")
    assert (refused["file"], refused["mended"]) == (FUTURE, False)
    new = tmp_path / "new"
    assert kcli("recover", "--salvage", "--config", config, "--out", new, two).status == 0
    assert (new / NAME).is_dir()
    assert not (new / FUTURE).exists()
    assert len(list(new.glob(f"{NAME}.*-stray"))) == 1
    subprocess.run(["sh", "-c", str(error.command)], check=True)
    assert found(directories) == []


def test_salvage_sets_the_worse_future_log_aside(directories: Directories, tmp_path: Path) -> None:
    one, two, config = directories
    without_last_segment(two / FUTURE)
    assert rows(directories, 0, "--salvage")[0]["kind"] == "kept"
    assert "set-aside" in [row["kind"] for row in rows(directories, 1, "--salvage")]
    new = tmp_path / "new"
    for home in (one, two):
        assert kcli("recover", "--salvage", "--config", config, "--out", new / home.name, home).status == 0
    assert end_of(new / one.name / NAME) == end_of(one / NAME)
    assert [each.name[-6:] for each in (new / two.name).glob(f"{NAME}*")] == ["-stray"]
    for home in (one, two):
        kcli("recover", "--salvage", "--config", config, "--in-place", home)
    assert (one / NAME).is_dir()
    assert [each.name[-6:] for each in two.glob(f"{NAME}*")] == ["-stray"]


def test_salvage_keeps_what_only_the_worse_current_log_has(directories: Directories, tmp_path: Path) -> None:
    """The future log has more, and Kafka puts it in its place; the current log stays as a stray."""
    one, two, config = directories
    damaged(two / FUTURE)
    without_last_segment(one / NAME)
    assert "cp -rT" in str(next(each for each in found(directories) if each.kind == "log-promoted").command)
    new = tmp_path / "new"
    for home in (one, two):
        assert kcli("recover", "--salvage", "--config", config, "--out", new / home.name, home).status == 0
    assert [each.name[-6:] for each in (new / one.name).glob(f"{NAME}*")] == ["-stray"]
    assert (new / two.name / FUTURE).is_dir()


def test_of_equal_logs_salvage_leaves_the_move_to_kafka(directories: Directories, tmp_path: Path) -> None:
    one, two, config = directories
    new = tmp_path / "new"
    for home in (one, two):
        assert kcli("recover", "--salvage", "--config", config, "--out", new / home.name, home).status == 0
    assert (new / one.name / NAME).is_dir()
    assert (new / two.name / FUTURE).is_dir()


def test_damage_in_both_logs_alike(directories: Directories) -> None:
    """A crash, and the start cuts the future log: salvage keeps what is behind the damage, and needs no other log."""
    one, two, _ = directories
    (two / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    (two / ".kafka_cleanshutdown").unlink(missing_ok=True)
    assert damaged(one / NAME) == damaged(two / FUTURE)
    error = next(each for each in found(directories) if each.kind == "log-promoted")
    assert "salvage keeps the sound batches" in error.action
    assert not [row for row in rows(directories, 0, "--salvage") if row["kind"] in ("set-aside", "kept")]


def test_one_of_another_topic_stays(directories: Directories) -> None:
    """Kafka renames it to -stray, and serves the current log."""
    metadata = directories[1] / FUTURE / "partition.metadata"
    metadata.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    assert "log-promoted" not in [each.kind for each in found(directories)]


def test_what_a_crash_cuts_off_the_future_log_is_lost(directories: Directories) -> None:
    """Behind damage above the recovery point the start cuts the future log, and the current one has the records."""
    one, two, _ = directories
    (two / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    first, _ = damaged(two / FUTURE)
    promotion = Promotion(TopicPartition("mixed", 0), two / FUTURE, one / NAME)
    compared = Comparison(0, clean=False).compare(promotion)
    assert (compared.end, compared.lost) == (first, [(first, end_of(one / NAME) - 1)])
    assert compared.set_aside == two / FUTURE
