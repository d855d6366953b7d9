"""Log start offsets that no broker has written: log-start-offset-checkpoint overwritten with another checkpoint.

With such a file Kafka 4.3 started each log at its offset there (898 of 7,231 records were served, and four groups were
gone); with what salvage writes it served all records, from the log start offsets before the damage on.
"""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from formats.checkpoint import parse_leader_epochs
from formats.file_name import FileKind
from kcli.cli.options import Format
from kcli.inspector.verify import Verification
from kcli.log.config import LogConfig
from kcli.log.log_directory import LogDirectory
from kcli.log.recovery.epoch_starts import start_by_epochs
from kcli.log.recovery.wrong_log_starts import wrong_log_starts
from tests.cli.run import kcli
from tests.conftest import GOLDEN
from tests.inspector.test_verify_causes import loud

STARTS, HIGH, POINTS = (f"{each}-offset-checkpoint" for each in ("log-start", "replication", "recovery-point"))
GROUPS = "groups/data"
"""A log directory with coordinators' partitions, and logs of one segment."""
SEGMENTS = "codecs/data"
"""A log directory without internal topics, with logs of several segments."""
COMPACTED = "compact/before"


def copied(tmp_path: Path, name: str) -> Path:
    return Path(shutil.copytree(GOLDEN / name, tmp_path / "data", copy_function=shutil.copyfile))


def write(home: Path, entries: dict[str, int]) -> None:
    lines = [f"{each.rpartition('-')[0]} {each.rpartition('-')[2]} {offset}" for each, offset in entries.items()]
    (home / STARTS).write_text("\n".join(["0", str(len(lines)), *lines, ""]))


def delete_records(home: Path, entries: dict[str, int]) -> None:
    """Write what Kafka's DeleteRecords leaves: the log start offsets, at which the first leader epochs begin, too."""
    write(home, entries)
    for partition, start in entries.items():
        path = home / partition / "leader-epoch-checkpoint"
        kept = [(epoch, max(begin, start)) for epoch, begin in parse_leader_epochs(path.read_bytes())]
        lines = [f"{epoch} {begin}" for epoch, begin in kept if begin > start] or []
        first = max((epoch for epoch, begin in kept if begin == start), default=None)
        lines = lines if first is None else [f"{first} {start}", *lines]
        path.write_text("\n".join(["0", str(len(lines)), *lines, ""]))


def rows(*arguments: str | Path) -> list[dict[str, Any]]:
    return [json.loads(each) for each in kcli("recover", "--format", Format.JSONL, *arguments).stdout.splitlines()]


@pytest.mark.parametrize("name", [GROUPS, SEGMENTS, COMPACTED])
@pytest.mark.parametrize("kind", [HIGH, POINTS])
def test_a_copy_of_another_checkpoint(tmp_path: Path, name: str, kind: str) -> None:
    """It is told first, and once; what only follows from it is not told."""
    home = copied(tmp_path, name)
    known = loud(home)
    shutil.copyfile(home / kind, home / STARTS)
    first, *others = loud(home)
    assert (first.kind, first.severity, Path(first.path).name) == ("checkpoint-copied", "error", STARTS)
    assert str(first.found).startswith("a copy of ")
    assert str(first.command).startswith("kcli recover --salvage --dry-run")
    assert others == known


def test_an_older_copy_of_another_checkpoint(tmp_path: Path) -> None:
    """Some entries differ, as both files change over time."""
    home = copied(tmp_path, GROUPS)
    offsets = LogDirectory(home).offsets(FileKind.REPLICATION_OFFSETS)
    write(home, {str(each): offset - number % 2 for number, (each, offset) in enumerate(offsets.items()) if offset})
    assert [each.kind for each in loud(home)] == ["checkpoint-copied"]
    write(home, {str(each): max(0, offset - 2) for each, offset in offsets.items()})
    (finding,) = loud(home)
    assert finding.kind == "checkpoint-copied"
    assert "in topics that are only compacted" in str(finding.found)


def test_whole_segments_below_most_log_starts(tmp_path: Path) -> None:
    """A broker deletes them soon after a log start offset is raised."""
    home = copied(tmp_path, SEGMENTS)
    offsets = LogDirectory(home).offsets(FileKind.REPLICATION_OFFSETS)
    write(home, {str(each): offset - 1 for each, offset in offsets.items()})
    (finding,) = loud(home)
    assert finding.kind == "checkpoint-copied"
    assert "whole segments below" in str(finding.found)


def test_one_entry_that_nothing_raises(tmp_path: Path) -> None:
    """The other entries stay."""
    home = copied(tmp_path, GROUPS)
    delete_records(home, {"__consumer_offsets-0": 40, "g-a-0": 10})
    (finding,) = loud(home)
    assert (finding.kind, finding.severity) == ("log-start-offset", "error")
    assert "__consumer_offsets-0" in str(finding.found)
    assert kcli("recover", "--salvage", "--out", tmp_path / "new", home).status == 0
    assert (tmp_path / "new" / STARTS).read_text() == "0\n1\ng-a 0 10\n"


@pytest.mark.parametrize(
    ("name", "entries"),
    [
        (SEGMENTS, {"java-none-0": 150}),  # before retention has deleted the segments below
        (SEGMENTS, {"java-none-0": 298, "java-none-1": 298}),  # all records of a topic deleted
        (GROUPS, {"g-a-0": 32, "g-a-1": 32, "g-a-2": 32, "g-a-3": 31}),
        (GROUPS, {"__share_group_state-0": 5, "__share_group_state-1": 11}),  # its coordinator deletes records
    ],
)
def test_records_that_were_deleted(tmp_path: Path, name: str, entries: dict[str, int]) -> None:
    home = copied(tmp_path, name)
    known = loud(home)
    delete_records(home, entries)
    assert loud(home) == known
    assert kcli("recover", home).status == 0


def test_recover_tells_what_leaves_service(tmp_path: Path) -> None:
    home = copied(tmp_path, GROUPS)
    shutil.copyfile(home / HIGH, home / STARTS)
    ended = kcli("recover", home)
    assert ended.status == 1
    assert "a copy of replication-offset-checkpoint" in ended.stdout
    hidden = [each for each in rows(home) if each["kind"] in {"start-hidden", "state-lost"}]
    offsets = [each for each in hidden if each["partition"] == "__consumer_offsets-0"]
    assert [(each["kind"], each.get("offsets")) for each in offsets] == [("start-hidden", 71), ("state-lost", None)]
    assert offsets[1]["names"]
    rows_of_one = [each for each in hidden if each["partition"].startswith("g-")]
    assert [each["segments"] for each in rows_of_one] == [0] * 7  # one segment each, which Kafka keeps
    assert sum(each.get("offsets", 0) for each in hidden) == int(
        ended.stdout.split(" offsets of ")[0].rpartition(" ")[2].replace(",", "")
    )


def test_log_starts_and_recovery_points_with_each_others_names(tmp_path: Path) -> None:
    home = copied(tmp_path, GROUPS)
    points = (home / FileKind.RECOVERY_POINTS).read_bytes()
    shutil.copyfile(home / STARTS, home / FileKind.RECOVERY_POINTS)
    (home / STARTS).write_bytes(points)
    first = loud(home)[0]
    assert (first.kind, Path(first.path).name) == ("checkpoint-copied", STARTS)
    assert str(first.found).startswith("recovery-point-offset-checkpoint, and that is this file")
    assert "the two have each other's names" in kcli("recover", home).stdout


@pytest.mark.parametrize("start", [150, 298])
def test_a_log_start_that_was_set_by_hand(tmp_path: Path, start: int) -> None:
    """The leader epochs begin at 0. Kafka serves the log from the entry on, and deletes the segments below."""
    home = copied(tmp_path, SEGMENTS)
    known = loud(home)
    delete_records(home, {"java-none-1": 120, "java-none-0": start})
    shutil.copyfile(
        GOLDEN / SEGMENTS / "java-none-0/leader-epoch-checkpoint", home / "java-none-0/leader-epoch-checkpoint"
    )
    first, *others = loud(home)
    assert (first.kind, first.severity, Path(first.path).name) == ("log-start-offset", "warning", STARTS)
    assert "above the start of the first leader epoch (java-none-0)" in str(first.found)
    assert str(first.command).startswith("kcli recover --salvage --dry-run")
    assert others == known
    ended = kcli("recover", home)
    assert ended.status == 1
    assert f"{start} offsets of 1 log are not served" in ended.stdout
    assert kcli("recover", "--salvage", "--out", tmp_path / "new", home).status == 0
    assert (tmp_path / "new" / STARTS).read_text() == "0\n1\njava-none 1 120\n"
    assert LogDirectory(tmp_path / "new").offsets(FileKind.LOG_START_OFFSETS)
    assert loud(tmp_path / "new") == []


def test_recover_tells_segments_below_the_log_start(tmp_path: Path) -> None:
    """Of DeleteRecords, too, which is no loss."""
    home = copied(tmp_path, SEGMENTS)
    delete_records(home, {"java-none-0": 298})
    ended = kcli("recover", home)
    assert ended.status == 0
    (row,) = (each for each in rows(home) if each["kind"] == "start-hidden")
    assert (row["partition"], row["first_offset"], row["offsets"]) == ("java-none-0", 0, 298)
    assert row["segments"] == len(list((home / "java-none-0").glob("*.log"))) - 1
    assert f"offsets 0..297 leave service, and Kafka deletes {row['segments']} segments below" in ended.stdout


@pytest.mark.parametrize("how", ["copy", "in place"])
def test_salvage_leaves_the_entries_out(tmp_path: Path, how: str) -> None:
    home = copied(tmp_path, GROUPS)
    shutil.copyfile(home / HIGH, home / STARTS)
    new = tmp_path / "new" if how == "copy" else home
    ended = kcli("recover", "--salvage", *(["--out", new] if how == "copy" else ["--in-place"]), home)
    assert ended.status == 0
    assert "the log start offset is 0 again, where the first segment begins: 71 is not the log's own" in ended.stdout
    assert (new / STARTS).read_text() == "0\n0\n"
    assert loud(new) == []
    ends = {each["partition"]: each["log_start_offset"] for each in rows(new) if each["kind"] == "partition"}
    assert set(ends.values()) == {0}


def test_leader_epochs_tell_the_log_start(tmp_path: Path) -> None:
    """DeleteRecords takes what is below the log start offset from them."""
    home = copied(tmp_path, GROUPS)
    shutil.copyfile(home / HIGH, home / STARTS)
    epochs = home / "g-a-0" / "leader-epoch-checkpoint"
    epoch = epochs.read_text().split()[2]
    epochs.write_text(f"0\n1\n{epoch} 10\n")
    assert start_by_epochs(home / "g-a-0") == 10
    assert start_by_epochs(home / "g-a-1") == 0
    ended = kcli("recover", "--salvage", "--out", tmp_path / "new", home)
    assert "the log start offset is 10 again, where the leader epochs begin: 32 is not the log's own" in ended.stdout
    assert (tmp_path / "new" / STARTS).read_text() == "0\n1\ng-a 0 10\n"


@pytest.mark.parametrize("home", sorted({each.parent for each in GOLDEN.glob(f"*/*/{STARTS}")}), ids=str)
def test_checkpoints_of_kafka(home: Path) -> None:
    assert wrong_log_starts(home, lambda _: LogConfig()) is None
    assert not any(each.kind == "checkpoint-copied" for each in Verification([home]).findings())


def test_no_bytes_where_records_were_deleted(tmp_path: Path) -> None:
    """Kafka 4.3 served 15 deleted records again; with the file written anew it did not."""
    home = copied(tmp_path, SEGMENTS)
    known = loud(home)
    written = (home / STARTS).read_text()
    (home / STARTS).write_bytes(b"")
    assert loud(home) == known  # nothing was deleted
    partition = next(
        each.parent for each in sorted(home.glob("*/leader-epoch-checkpoint")) if "\n0 0\n" in each.read_text()
    )
    epochs = partition / "leader-epoch-checkpoint"
    epochs.write_text(epochs.read_text().replace("\n0 0\n", "\n0 5\n"))
    (finding,) = [each for each in loud(home) if each not in known]
    assert (finding.kind, finding.severity) == ("checkpoint-empty", "warning")
    assert f"{partition.name} from 5 on" in str(finding.expected)
    assert finding.command is not None
    subprocess.run(["bash", "-c", finding.command], check=True)
    topic, number = partition.name.rsplit("-", 1)
    assert (home / STARTS).read_text() == f"0\n1\n{topic} {number} 5\n" != written
    assert loud(home) == known


@pytest.fixture
def moved(tmp_path: Path) -> Path:
    """Return a log directory with a partition whose records below offset 5 were deleted, and whose log start offset is
    in no checkpoint, as after a move from another log directory by hand."""
    home = copied(tmp_path, GROUPS)
    epochs = home / "g-a-0" / "leader-epoch-checkpoint"
    epochs.write_text(f"0\n1\n{epochs.read_text().split()[2]} 5\n")
    return home


def test_a_log_start_offset_that_was_left_behind(moved: Path) -> None:
    """Kafka 4.3 served 228 deleted records of such a partition again; with the command of the finding it did not."""
    write(moved, {"g-b-0": 0, "g-a-0": 3})
    (finding,) = [each for each in loud(moved) if each.kind == "log-start-offset"]
    assert (finding.severity, Path(finding.path).name) == ("warning", STARTS)
    assert str(finding.found).startswith("3 for g-a-0, as where it was moved here from another log directory")
    assert finding.command is not None
    subprocess.run(["bash", "-c", finding.command], check=True)
    assert (moved / STARTS).read_text() == "0\n2\ng-b 0 0\ng-a 0 5\n"
    assert not [each for each in loud(moved) if each.kind == "log-start-offset"]


def test_recover_tells_of_deleted_records_and_salvage_sets_the_log_start(moved: Path, tmp_path: Path) -> None:
    write(moved, {"g-b-0": 0})
    (row,) = [each for each in rows(moved) if each["kind"] == "start-forgotten"]
    assert (row["partition"], row["log_start_offset"], row["deleted_below"], row["offsets"]) == ("g-a-0", 0, 5, 5)
    assert "Kafka serves offsets 0..4 again" in kcli("recover", moved).stdout
    ended = kcli("recover", "--salvage", "--out", tmp_path / "new", moved)
    assert "the log start offset is 5 again, where the leader epochs begin: the records below were" in ended.stdout
    assert (tmp_path / "new" / STARTS).read_text() == "0\n1\ng-a 0 5\n"
    assert not [each for each in rows(tmp_path / "new") if each["kind"] == "start-forgotten"]


@pytest.mark.parametrize("entries", [{"g-b-0": 0}, {"g-a-0": 5}])
def test_a_directory_that_kafka_leaves_aside_counts_for_its_partition(moved: Path, entries: dict[str, int]) -> None:
    """Its name lost its case. Kafka 4.3 made an empty g-a-0, and served nothing of G-A-0."""
    write(moved, entries)
    (moved / "g-a-0").rename(moved / "G-A-0")
    assert not [each for each in rows(moved) if each["kind"] == "start-forgotten"]
    found = [each for each in loud(moved) if each.kind == "log-start-offset"]
    if "g-a-0" in entries:
        assert not found
        return
    (finding,) = found
    assert str(finding.found).startswith("no entry for g-a-0,")
    assert finding.command is not None
    subprocess.run(["bash", "-c", finding.command], check=True)
    assert (moved / STARTS).read_text() == "0\n2\ng-b 0 0\ng-a 0 5\n"


def test_a_topic_that_the_metadata_log_does_not_have_has_no_log_start(moved: Path) -> None:
    """Its directory becomes a stray."""
    write(moved, {"g-a-0": 5})
    shutil.copytree(moved / "g-a-0", moved / "unknown-0")
    assert not [each for each in loud(moved) if each.kind == "log-start-offset"]
    assert not [each for each in rows(moved) if each["kind"] == "start-forgotten"]


@pytest.mark.parametrize(
    ("policy", "start", "is_told"),
    [
        ("delete", 265, True),
        ("compact,delete", 265, True),
        ("compact", 265, False),  # nobody deletes records
        ("delete", 166, False),  # the batch before has another leader epoch: the checkpoint lacks its first line
    ],
)
def test_segments_that_retention_had_deleted_are_there_again(
    tmp_path: Path, policy: str, start: int, is_told: bool
) -> None:
    """Kafka 4.3 served them, although the first of them are of older leader epochs. Retention writes no entry."""
    home = copied(tmp_path, SEGMENTS)
    (home / "java-none-0/leader-epoch-checkpoint").write_text(f"0\n1\n2 {start}\n")
    config = tmp_path / "server.properties"
    config.write_text(f"node.id=1\nlog.dirs={home}\nlog.cleanup.policy={policy}\n")
    server = {"node.id": "1", "log.cleanup.policy": policy}
    found = [each for each in Verification([home], server=server).findings() if each.kind == "log-start-offset"]
    told = [each for each in rows("--config", config, home) if each["kind"] == "start-forgotten"]
    assert [str(each.expected).split(",")[0] for each in found] == (
        [f"the log start offsets of java-none-0 from {start} on"] if is_told else []
    )
    assert [(each["partition"], each["deleted_below"]) for each in told] == (
        [("java-none-0", start)] if is_told else []
    )


def test_leader_epochs_that_a_start_may_have_made_anew_delete_nothing(tmp_path: Path) -> None:
    """They begin with a segment: after a crash Kafka makes a lost file anew from what it recovers."""
    home = copied(tmp_path, SEGMENTS)
    partition = home / "java-none-0"
    (partition / "leader-epoch-checkpoint").write_text("0\n1\n2 265\n")
    write(home, {"java-none-1": 0})
    (finding,) = [each for each in loud(home) if each.kind == "log-start-offset"]
    assert finding.command is None
    assert finding.action.startswith("or a start after a crash has made a lost leader-epoch-checkpoint anew")
    (row,) = [each for each in rows(home) if each["kind"] == "start-forgotten"]
    assert row["doubtful"]
    kcli("recover", "--salvage", "--out", tmp_path / "new", home)
    assert {log.name for log in (tmp_path / "new/java-none-0").glob("*.log")} == {
        log.name for log in partition.glob("*.log")
    }
    assert "java-none 0" not in (tmp_path / "new" / STARTS).read_text()


def test_a_compacted_log_may_begin_below_its_leader_epochs(tmp_path: Path) -> None:
    """The log cleaner keeps the first batch of an epoch or not, and nobody deletes records of these topics."""
    home = copied(tmp_path, GROUPS)
    logs = [each for each in home.glob("__consumer_offsets-*") if (each / "leader-epoch-checkpoint").stat().st_size > 4]
    epochs = logs[0] / "leader-epoch-checkpoint"
    epochs.write_text(f"0\n1\n{epochs.read_text().split()[2]} 5\n")
    write(home, {"g-b-0": 0})
    assert start_by_epochs(logs[0]) == 5
    assert not [each for each in loud(home) if each.kind == "log-start-offset"]
    assert not [each for each in rows(home) if each["kind"] == "start-forgotten"]


@pytest.mark.parametrize(
    ("own", "others", "start", "findings"),
    [
        ("java-none-0", "java-none-1", 120, [("checkpoint-epoch", "java-none-1")]),  # epoch 2 begins elsewhere there
        ("java-lz4-0", "java-snappy-0", 140, []),  # their epochs begin at equal offsets
    ],
)
def test_leader_epochs_of_a_partition_with_deleted_records(
    tmp_path: Path, own: str, others: str, start: int, findings: list[tuple[str, str]]
) -> None:
    """Copied over those of another partition, which has all its records: Kafka 4.3 served them."""
    home = copied(tmp_path, SEGMENTS)
    known = loud(home)
    delete_records(home, {others: start})
    shutil.copyfile(home / others / "leader-epoch-checkpoint", home / own / "leader-epoch-checkpoint")
    found = [each for each in loud(home) if each not in known]
    assert [each.kind for each in found] == [kind for kind, _ in findings]
    for each, (_, name) in zip(found, findings, strict=True):
        assert each.path == str(home / own / "leader-epoch-checkpoint")
        assert f": the file is that of {name}, byte for byte" in str(each.found)
    assert not [each for each in rows(home) if each["kind"] == "start-forgotten"]
    ended = kcli("recover", "--salvage", "--out", tmp_path / "new", home)
    assert f"log-start        {own}" not in ended.stdout
    topic, number = others.rsplit("-", 1)
    assert (tmp_path / "new" / STARTS).read_text() == f"0\n1\n{topic} {number} {start}\n"
    (row,) = [each for each in rows(tmp_path / "new") if (each["kind"], each["partition"]) == ("partition", own)]
    assert row["log_start_offset"] == 0
