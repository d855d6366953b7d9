"""A finding's prediction of the next start is true above and below the recovery point, with the marker and without."""

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kcli.inspector.verify import Verification
from kcli.inspector.verify.next_start import UNREAD, NextStart
from kcli.log.recovery.run import Recovery
from tests.cli.run import KCLI, kcli
from tests.conftest import GOLDEN
from tests.inspector.test_verify_causes import OTHER, PARTITION, directory, flip, logs, loud, nexts, run

__all__ = ["directory"]  # a fixture


def tear(log: Path) -> None:
    """Its last batch ends too early."""
    os.truncate(log, log.stat().st_size - 5)


def next_of(directory: Path) -> None:
    """Do what the only finding says."""
    (command,) = nexts(run(directory.name, cwd=directory.parent).stdout)
    subprocess.run(["sh", "-c", command], check=True, cwd=directory.parent)


def test_below_the_recovery_point_nothing_is_cut(directory: Path) -> None:
    """This holds with the marker and without: the salvage of the log directory shows what it can keep."""
    tear(logs(directory)[1])
    (torn,) = loud(directory)
    assert (torn.kind, torn.action) == ("truncated", NextStart.PASSES_OVER.value)
    (directory / ".kafka_cleanshutdown").unlink()
    (finding,) = loud(directory)
    assert finding.action == NextStart.PASSES_OVER.value
    arguments = [*KCLI, *shlex.split(str(finding.command))[1:], "--format", "jsonl"]
    shown = subprocess.run(arguments, check=False, capture_output=True, text=True)
    assert any(json.loads(line).get("position") == torn.position for line in shown.stdout.splitlines()), shown


def test_the_copies_of_two_partitions_have_two_names(directory: Path, tmp_path: Path) -> None:
    """The commands to which verify's next steps lead can be pasted one after the other."""
    for partition in (PARTITION, OTHER):
        (directory / partition / "leader-epoch-checkpoint").write_bytes(bytes(8))
    steps = nexts(run(directory.name, cwd=tmp_path).stdout)
    shown = [kcli(*shlex.split(each)[1:], cwd=tmp_path).stdout.splitlines() for each in steps]
    salvages = [line.removeprefix("next").strip() for lines in shown for line in lines if line.startswith("next")]
    assert len(salvages) == 2
    for each in salvages:
        ended = kcli(*shlex.split(each)[1:], cwd=tmp_path)
        assert (ended.status, ended.stderr) == (0, "")
    for partition in (PARTITION, OTHER):
        assert loud(tmp_path / f"NEW-{partition}") == []


def test_a_piece_of_a_batch_behind_all_batches_of_a_segment(directory: Path) -> None:
    """A disk was full at a roll: consumers read all offsets. It is damage only where a start reads the segment."""
    log, following = logs(directory)[1:3]
    log.write_bytes(log.read_bytes() + following.read_bytes()[:100])
    (finding,) = loud(directory)
    assert (finding.kind, finding.severity, finding.command) == ("truncated", "warning", None)
    assert "consumers go on with the next segment" in finding.action
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (directory / name).unlink()
    (finding,) = loud(directory)
    assert (finding.kind, finding.severity) == ("truncated", "error")


def test_a_clean_start_does_not_cut_a_torn_tail(directory: Path) -> None:
    tear(logs(directory)[-1])
    (finding,) = loud(directory)
    assert finding.kind == "truncated"
    assert finding.action.startswith("a clean start takes the end of the log from the offset index, which leads to no")
    assert finding.action.endswith("; without .kafka_cleanshutdown Kafka cuts the file here when it starts")
    next_of(directory)
    (finding,) = loud(directory)
    assert (finding.kind, finding.action) == ("truncated", "Kafka cuts the file here when it starts")


@pytest.mark.parametrize("number", [1, -1])
def test_kafka_appends_nothing_to_a_stray(directory: Path, number: int) -> None:
    stray = directory / f"{PARTITION}.{'0' * 32}-stray"
    (directory / PARTITION).rename(stray)
    tear(logs(directory, stray.name)[number])
    (finding,) = [each for each in loud(directory) if each.kind == "truncated"]
    assert finding.action == f"{UNREAD}, and consumers meet it once the directory has its name back"


@pytest.mark.parametrize(
    ("number", "outcome"), [(1, "consumers skip records"), (-1, "finds the end of the log with it")]
)
def test_a_wrong_index_is_moved_away_where_no_start_rebuilds_it(directory: Path, number: int, outcome: str) -> None:
    index = logs(directory)[number].with_suffix(".index")
    flip(index, 7, 0)
    found = loud(directory)
    assert {finding.path for finding in found} == {str(index)}
    assert outcome in found[0].action
    subprocess.run(["sh", "-c", str(found[0].command)], check=True)
    assert {each.action for each in loud(directory)} == {"nothing to do: Kafka rebuilds it when it next opens the log"}


@pytest.mark.parametrize("number", [1, -1])
def test_a_start_after_a_crash_rebuilds_indexes_from_the_recovery_point_on(directory: Path, number: int) -> None:
    (directory / ".kafka_cleanshutdown").unlink()
    flip(logs(directory)[number].with_suffix(".index"), 7, 0)
    is_rebuilt = (
        loud(directory)[0].action
        == "stop the broker; recovery rebuilds the index from the log, with --in-place for --dry-run"
    )
    assert is_rebuilt == (number == -1)


REBUILT = "nothing to do: Kafka rebuilds it when it next opens the log"


def cut(path: Path) -> None:
    """It ends within an entry."""
    os.truncate(path, path.stat().st_size - 5)


@pytest.mark.parametrize("damage", [cut, Path.unlink])
@pytest.mark.parametrize("kind", [".txnindex", ".timeindex"])
def test_a_segment_without_its_offset_index_gets_all_indexes_anew(
    tmp_path: Path, kind: str, damage: Callable[[Path], None]
) -> None:
    """Kafka rebuilds no other index below the recovery point."""
    directory = Path(shutil.copytree(GOLDEN / "txn/data", tmp_path / "data", copy_function=shutil.copyfile))
    index = directory / f"t-txn-0/{4:020}{kind}"
    whole = index.read_bytes()
    damage(index)
    found = loud(directory)
    assert {finding.path for finding in found} == {str(index)}
    assert found[0].action.startswith("Kafka does not rebuild it when it starts")
    list(Recovery(directory, 0).in_place("before"))
    assert loud(directory) == found or kind == ".timeindex"  # Kafka treats a missing index as an empty one
    subprocess.run(["sh", "-c", str(found[0].command)], check=True)
    assert {each.action for each in loud(directory)} == {REBUILT}
    list(Recovery(directory, 0).in_place("after"))
    assert index.read_bytes() == whole or kind == ".timeindex"  # the entries depend on how batches were appended
    assert loud(directory) == []


def test_a_cut_offset_index_hides_no_record(directory: Path) -> None:
    """Kafka uses the whole entries of the last segment's index, and reads the log behind the last one to its end."""
    index = logs(directory)[-1].with_suffix(".index")
    end = {row["partition"]: row["log_end_offset"] for row in rows_of(directory)}[PARTITION]
    index.write_bytes(index.read_bytes() + bytes(4) if index.stat().st_size < 8 else index.read_bytes()[:-4])
    (finding,) = loud(directory)
    assert (finding.kind, finding.path) == ("index-length", str(index))
    assert "with which it finds every record" in finding.action
    assert {row["partition"]: row["log_end_offset"] for row in rows_of(directory)}[PARTITION] == end
    next_of(directory)
    assert "nothing to do" in " ".join(each.action for each in loud(directory))


def rows_of(directory: Path) -> list[dict[str, Any]]:
    lines = map(json.loads, kcli("recover", "--format", "jsonl", directory).stdout.splitlines())
    return [row for row in lines if row.get("kind") == "partition"]


def test_an_index_beside_a_log_with_damage_is_left_to_salvage(directory: Path) -> None:
    """Without the log's offset index Kafka would cut the log, also below the recovery point."""
    log = logs(directory)[1]
    flip(log, 100)
    cut(log.with_suffix(".timeindex"))
    of_index = [finding for finding in loud(directory) if finding.path.endswith(".timeindex")]
    assert [finding.kind for finding in of_index] == ["timeindex-length"]
    assert "salvage rebuilds the indexes" in of_index[0].action
    assert "kcli recover --unclean --salvage" in str(of_index[0].command)


@pytest.mark.parametrize("epochs", ["0\n1\n7 0\n", "0\n2\n0 0\n2 150\n", "0\n0\n", "", "broken", None])
def test_salvage_rebuilds_leader_epochs(directory: Path, epochs: str | None) -> None:
    path = directory / PARTITION / "leader-epoch-checkpoint"
    whole = path.read_text()
    path.unlink() if epochs is None else path.write_text(epochs)
    (finding,) = loud(directory)
    assert finding.path == str(path)
    command = shlex.split(str(finding.command).replace("--dry-run", "--in-place"))
    assert subprocess.run([*KCLI, *command[1:]], check=False).returncode == 0
    assert path.read_text() == whole
    assert loud(directory) == []


def test_a_start_rebuilds_the_leader_epochs_of_the_metadata_log(directory: Path) -> None:
    path = directory / "__cluster_metadata-0/leader-epoch-checkpoint"
    path.write_text("0\n1\n9 10\n")
    next_of(directory)
    assert [(finding.kind, finding.action) for finding in loud(directory)] == [("checkpoint-missing", REBUILT)]


def test_a_log_that_is_to_be_deleted_has_no_leader_epochs(directory: Path) -> None:
    """Kafka empties the file when it renames the directory to -delete."""
    deleted = (directory / PARTITION).rename(directory / f"{PARTITION}.{7:032x}-delete")
    (deleted / "leader-epoch-checkpoint").write_text("0\n0\n")
    assert not [finding for finding in loud(directory) if deleted.name in finding.path]


def test_a_start_offset_behind_the_end_deletes_the_partition(directory: Path) -> None:
    path = directory / "log-start-offset-checkpoint"
    path.write_text(f"0\n2\n{OTHER[:-2]} 0 1\n{PARTITION[:-2]} 0 99999999\n")
    (directory / OTHER / "leader-epoch-checkpoint").write_text("0\n2\n0 1\n2 120\n")
    (finding,) = loud(directory)
    assert (finding.kind, finding.severity) == ("log-start-offset", "error")
    assert f"Kafka deletes all of {PARTITION}" in str(finding.found)
    next_of(directory)
    assert loud(directory) == []
    assert path.read_text() == f"0\n2\n{OTHER[:-2]} 0 1\n{PARTITION[:-2]} 0 {int(logs(directory)[0].stem)}\n"


def test_a_log_start_offset_in_the_end_that_the_log_has_lost(directory: Path) -> None:
    """The entry is right: the rest of the log was deleted before, and no command must restore it."""
    (directory / "log-start-offset-checkpoint").write_text(f"0\n1\n{PARTITION[:-2]} 0 290\n")
    (directory / PARTITION / "leader-epoch-checkpoint").write_text("0\n1\n0 290\n")
    log = logs(directory)[-1]
    log.write_bytes(log.read_bytes()[:-2000])
    first, *more = loud(directory)
    assert (first.kind, first.severity, first.path) == ("truncated", "error", str(log))
    (entry,) = [each for each in more if each.kind == "log-start-offset"]
    assert (entry.severity, entry.command) == ("warning", None)
    assert "290: the log had reached 298, and lost its end" in str(entry.found)


def test_meta_properties_without_a_version(directory: Path) -> None:
    path = directory / "meta.properties"
    path.write_text("".join(line for line in path.read_text().splitlines(keepends=True) if "version" not in line))
    (finding,) = loud(directory)
    assert (finding.kind, finding.severity, finding.expected) == ("meta-properties-version", "error", "version=1")
    assert "no version line" in str(finding.found)


def test_a_bad_swap_file_is_moved_away(directory: Path) -> None:
    """Kafka replaces the sound segment by the swap file, whatever that has."""
    log, following = logs(directory)[1:3]
    data = log.read_bytes()
    swap = log.with_name(f"{log.name}.swap")
    first_batch = 12 + int.from_bytes(data[8:12])
    for size in (first_batch, len(data) - 5, 0):
        swap.write_bytes(data[:size])
        (finding,) = loud(directory)
        assert (finding.kind, finding.severity, finding.path) == ("swap-log", "error", str(swap))
        assert finding.lost_last_offset == int(following.stem) - 1
        assert finding.consequences == {"leftover-file": 1, "swap-index": 1}
        next_of(directory)
        assert loud(directory) == []
        swap.with_name(f"{swap.name}.moved").unlink()


def test_a_swap_file_without_the_first_batches(directory: Path) -> None:
    """The topic was never compacted: verify and recover report the loss, by the metadata log's policy."""
    log = logs(directory)[1]
    data = log.read_bytes()
    first_batch = 12 + int.from_bytes(data[8:12])
    swap = log.with_name(f"{log.name}.swap")
    swap.write_bytes(data[first_batch:])
    (finding,) = loud(directory)
    assert (finding.kind, finding.severity, finding.path) == ("swap-log", "error", str(swap))
    assert "the topic was never compacted" in str(finding.found)
    assert finding.lost_first_offset == int(log.stem)
    ended = kcli("recover", directory)
    assert ended.status == 1
    assert "which lacks batches, in a topic that was never compacted" in ended.stdout
    next_of(directory)
    assert loud(directory) == []
    assert kcli("recover", directory).status == 0


def test_a_sound_swap_file_is_calm(directory: Path) -> None:
    as_swap_beside(logs(directory)[1])
    assert {(each.kind, each.severity) for each in loud(directory)} == {("leftover-file", "warning")}


@pytest.mark.parametrize("partition", ["c-plain-0", "c-append-time-0"])
def test_a_swap_file_of_a_compacted_topic_that_lacks_records(tmp_path: Path, partition: str) -> None:
    """The swap file has the next segment's records: its swap would lose records that no later record supersedes."""
    directory = Path(shutil.copytree(GOLDEN / "compact/after", tmp_path / "data", copy_function=shutil.copyfile))
    held = [log for log in logs(directory, partition) if log.stat().st_size]
    swap = as_swap_beside(held[0])
    assert {each.kind for each in loud(directory)} == {"leftover-file"}
    swap.write_bytes(held[1].read_bytes())
    finding = loud(directory)[0]
    assert (finding.kind, finding.path) == ("swap-log", str(swap))
    assert "no later one of the same key supersedes" in str(finding.found)
    next_of(directory)
    assert loud(directory) == []


def as_swap_beside(log: Path) -> Path:
    """Copy the log and its indexes as a crash of the cleaner before its last renames leaves them. Returns the log."""
    for path in log.parent.glob(f"{log.stem}.*"):
        if path.suffix in (".log", ".index", ".timeindex"):
            path.with_name(f"{path.name}.swap").write_bytes(path.read_bytes())
    return log.with_name(f"{log.name}.swap")


def as_swap(log: Path) -> Path:
    """Rename the log as a crash of the cleaner between its last renames leaves it: the replaced segment is deleted."""
    for path in log.parent.glob(f"{log.stem}.*"):
        if path.suffix in (".log", ".index", ".timeindex"):
            path.rename(path.with_name(f"{path.name}.swap"))
    return log.with_name(f"{log.name}.swap")


@pytest.mark.parametrize("number", [0, 1, -1])
def test_a_swap_file_that_is_the_only_one_with_its_records(directory: Path, number: int) -> None:
    """The next start completes the swap, and nothing is lost."""
    as_swap(logs(directory)[number])
    assert {(each.kind, each.severity) for each in loud(directory)} == {("leftover-file", "warning")}


BOTH = {".index", ".timeindex"}


@pytest.mark.parametrize(
    ("swapped", "beside", "gets"),
    [
        (set(), BOTH, "Kafka then reads the indexes beside it"),  # a hand has renamed the log alone
        (set(), {".index"}, "Kafka then rebuilds the indexes"),  # which it does not beside an index without the other
        (set(), set(), "Kafka then rebuilds the indexes"),
        ({".index"}, set(), "Kafka then rebuilds the indexes"),
        ({".timeindex"}, BOTH, "Kafka then reads the indexes beside it"),
    ],
)
def test_a_swap_file_without_its_indexes(directory: Path, swapped: set[str], beside: set[str], gets: str) -> None:
    """Below the recovery point Kafka deletes the indexes beside it, and rebuilds none: no advice says otherwise."""
    log = logs(directory, OTHER)[1]
    log.rename(log.with_name(f"{log.name}.swap"))
    for suffix in BOTH:
        index = log.with_suffix(suffix)
        if suffix in swapped:
            shutil.copyfile(index, index.with_name(f"{index.name}.swap"))
        if suffix not in beside:
            index.unlink()
    (finding,) = loud(directory)
    assert (finding.kind, finding.path) == ("swap-index", f"{log}.swap")
    assert finding.consequences["leftover-file"] == 1 + len(swapped)
    assert all((f"{log.stem}{suffix}.swap" in str(finding.found)) == (suffix not in swapped) for suffix in BOTH)
    assert finding.action.endswith(gets)
    started, new = directory.parent / "started", directory.parent / "new"
    assert kcli("recover", "--out", started, directory).status == 0
    made = [(started / OTHER / f"{log.stem}{suffix}").read_bytes().rstrip(b"\0") for suffix in sorted(BOTH)]
    assert [suffix for suffix, data in zip(sorted(BOTH), made, strict=True) if data] == sorted(swapped)
    salvaged = kcli("recover", "--salvage", "--out", new, directory)
    assert "rebuilt from the batches" in salvaged.stdout
    assert loud(new) == []
    assert all((new / OTHER / f"{log.stem}{suffix}").read_bytes().rstrip(b"\0") for suffix in BOTH)
    next_of(directory)
    assert {each.action for each in loud(directory)} <= {REBUILT}
    list(Recovery(directory, 0).in_place("after"))
    assert loud(directory) == []


def test_a_swap_file_without_its_indexes_that_replaces_a_log(directory: Path) -> None:
    swap = as_swap_beside(logs(directory)[1])
    swap.with_name(swap.name.replace(".log", ".timeindex")).unlink()
    (finding,) = loud(directory)
    assert (finding.kind, finding.path) == ("swap-index", str(swap))
    assert "recover --unclean --salvage" in str(finding.command)


def test_a_swap_file_whose_indexes_a_start_rebuilds(directory: Path) -> None:
    """After a crash, at or above the recovery point, the start recovers the segment."""
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (directory / name).unlink()
    log = logs(directory)[1]
    log.rename(log.with_name(f"{log.name}.swap"))
    assert [each.kind for each in loud(directory)] == ["leftover-file"]
    list(Recovery(directory, 0).in_place("before"))
    assert loud(directory) == []


@pytest.mark.parametrize("number", [0, 1])
def test_damage_in_a_swap_file_that_is_the_only_one_with_its_records(directory: Path, number: int) -> None:
    """The next start cuts the swap file at the damage, and deletes the segments behind it; salvage keeps these."""
    log = logs(directory)[number]
    flip(log, log.stat().st_size // 2)
    (directory / ".kafka_cleanshutdown").unlink()
    (directory / "recovery-point-offset-checkpoint").unlink()
    swap = as_swap(log)
    finding, *more = loud(directory)
    assert (finding.kind, finding.severity, finding.path, more) == ("swap-log", "error", str(swap), [])
    assert finding.consequences == {"leftover-file": 3}
    assert "deletes the segments behind it: offsets" in finding.action
    assert finding.command is not None
    assert "recover --unclean --salvage" in finding.command


def test_a_swap_file_above_the_output_of_an_unfinished_cleaning(directory: Path) -> None:
    """The next start deletes the swap file: its offsets are lost, unless it is renamed back."""
    log = logs(directory)[1]
    swap = as_swap(log)
    log.with_name(f"{log.name}.cleaned").touch()
    finding = loud(directory)[0]
    assert (finding.kind, finding.offset, finding.path) == ("log-deleted", int(log.stem), str(log))
    assert swap.name in str(finding.found)
    assert "as a .cleaned file is at or below it" in finding.action
    next_of(directory)
    assert {each.kind for each in loud(directory)} == {"leftover-file"}
    assert kcli("recover", directory).status == 0


@pytest.mark.parametrize("number", [0, 1])
def test_a_bad_swap_file_that_the_next_start_deletes(directory: Path, number: int) -> None:
    """A .cleaned file at or below its offset lets the next start delete it: it replaces nothing, whatever it has."""
    earlier, log = logs(directory)[:2]
    swap = log.with_name(f"{log.name}.swap")
    swap.write_bytes(log.read_bytes()[:1000])
    cleaned = (earlier, log)[number]
    cleaned.with_name(f"{cleaned.name}.cleaned").touch()
    found = {each.path: each for each in loud(directory)}
    assert {each.kind for each in found.values()} == {"leftover-file"}
    assert "a broker deletes it at its start" in found[str(swap)].action
    assert kcli("recover", directory).status == 0


def test_positions_of_an_index_follow_from_a_log_without_its_begin(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    shutil.copytree(GOLDEN / "codecs/data/java-none-0", directory)
    log = min(directory.glob("*.log"))
    log.write_bytes(log.read_bytes()[1000:])
    found = [each for each in Verification([directory]).findings() if each.path == str(log.with_suffix(".index"))]
    assert found == []
    (cause,) = [each for each in Verification([directory]).findings() if each.path == str(log)]
    assert cause.consequences["index-position"]


def test_a_start_rebuilds_a_transaction_index_of_an_earlier_segment(tmp_path: Path) -> None:
    """Its entries end below the base offset, which Kafka checks at each start (seen with Kafka 4.3)."""
    home = Path(shutil.copytree(GOLDEN / "txn/data", tmp_path / "data", copy_function=shutil.copyfile))
    first, *_, later = sorted(path for path in home.glob("t-mix-0/*.txnindex") if path.stat().st_size)
    shutil.copyfile(first, later)
    findings = [each for each in loud(home) if each.path == str(later)]
    assert {(each.action, each.command) for each in findings} == {(REBUILT, None)}
    rebuilt = [each for each in kcli("recover", home).stdout.splitlines() if each.startswith("index-rebuilt")]
    assert rebuilt == [f"index-rebuilt    t-mix-0/{later.name}"]
