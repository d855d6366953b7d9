"""A directory with the topic id of another topic: what Kafka does with it, and how the directory is restored."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from kcli.inspector.verify import Finding, next_steps
from kcli.log.partition_directory import topic_id_of
from tests.cli.run import kcli
from tests.inspector.test_verify_causes import OTHER, PARTITION, SOURCE, directory, loud, swap
from tests.inspector.test_verify_misplaced import contents
from tests.metadata_damage import LOG, NEW_ID, batch_around, byte_of, created_again, flip, rows_of
from tests.two_directories import two_directories

__all__ = ["directory"]

FAULT, STRAY = "metadata publishing fault", "renames the partition to -stray"


def mended(directory: Path, finding: Finding) -> None:
    """Run the command: everything is as real Kafka left it."""
    assert finding.command is not None
    subprocess.run(["bash", "-c", finding.command], check=True)
    assert contents(directory) == contents(SOURCE)


@pytest.mark.parametrize(("name", "other"), [(PARTITION, OTHER), ("java-none-1", "java-snappy-1")])
def test_the_file_is_anothers(directory: Path, name: str, other: str) -> None:
    """Kafka 4.3 neither renames the directory nor serves it: it stops in the middle of the topics' delta."""
    shutil.copyfile(directory / other / "partition.metadata", directory / name / "partition.metadata")
    (finding,) = loud(directory)
    assert finding.kind == "partition-metadata-topic"
    assert FAULT in str(finding.found)
    assert STRAY not in str(finding.found)
    mended(directory, finding)


def test_the_other_topic_has_no_such_partition(directory: Path) -> None:
    """The directory counts as one of an unknown topic."""
    shutil.copyfile(directory / OTHER / "partition.metadata", directory / "java-none-1" / "partition.metadata")
    (finding,) = loud(directory)
    assert STRAY in str(finding.found)
    mended(directory, finding)


@pytest.mark.parametrize(("name", "other"), [("crafted-0", "mixed-0"), (PARTITION, "recompress-zstd-0")])
def test_two_directories_have_each_others_names(directory: Path, name: str, other: str) -> None:
    """Each log ends at the high watermark of the other."""
    swap(directory / name, directory / other)
    (finding,) = loud(directory)
    assert finding.kind == "partition-swapped"
    assert FAULT in str(finding.found)
    mended(directory, finding)


def test_three_directories_have_changed_names(directory: Path) -> None:
    swap(directory / PARTITION, directory / "crafted-0")
    swap(directory / "crafted-0", directory / "recompress-none-0")
    (finding,) = loud(directory)
    mended(directory, finding)


@pytest.mark.parametrize("lost", ["crafted-0", "mixed-0"])
def test_one_of_two_directories_with_each_others_names_has_no_topic_id(directory: Path, lost: str) -> None:
    """The other one's topic id and the high watermarks tell: the advice must not write the ids by the names."""
    swap(directory / "crafted-0", directory / "mixed-0")
    (directory / lost / "partition.metadata").unlink()
    (finding,) = loud(directory)
    assert finding.kind == "partition-swapped"
    assert "have each other's names" in str(finding.found)
    assert f"{lost} has no topic id" in str(finding.found)
    mended(directory, finding)


def test_the_topic_id_of_a_directory_with_anothers_name_cannot_be_read(directory: Path) -> None:
    """The advice must not write the topic id by the name."""
    swap(directory / "crafted-0", directory / "mixed-0")
    (directory / "mixed-0" / "partition.metadata").write_text("version: 0\ntopic_id: ?\n")
    (finding,) = loud(directory)
    assert (finding.kind, finding.refuses_start) == ("partition-swapped", True)
    mended(directory, finding)


def test_one_of_three_directories_with_changed_names_has_no_topic_id(directory: Path) -> None:
    swap(directory / PARTITION, directory / "crafted-0")
    swap(directory / "crafted-0", directory / "recompress-none-0")
    (directory / "crafted-0" / "partition.metadata").unlink()
    (finding,) = loud(directory)
    assert finding.kind == "partition-swapped"
    mended(directory, finding)


def test_one_of_two_directories_with_logs_of_one_length_has_no_topic_id(directory: Path) -> None:
    """Either the names were exchanged, or a partition.metadata was moved over another one."""
    (directory / PARTITION / "partition.metadata").rename(directory / OTHER / "partition.metadata")
    (finding,) = loud(directory)
    assert finding.kind == "partition-swapped"
    assert finding.command == next_steps.dump(finding.path)
    files, _, names = finding.action.partition("; if they are of topic")
    assert names.endswith("partition.metadata'") or "mv -nT" in names
    _, _, command = files.partition("write the files anew: ")
    mended(directory, replace(finding, command=command))


def test_a_topic_id_was_moved_over_another_one(directory: Path) -> None:
    """The high watermarks show that the logs lie under their names."""
    (directory / "crafted-0" / "partition.metadata").rename(directory / "mixed-0" / "partition.metadata")
    (finding,) = loud(directory)
    assert "have exchanged their partition.metadata" in str(finding.found)
    mended(directory, finding)


@pytest.mark.parametrize(("name", "other"), [(PARTITION, OTHER), (OTHER, "mixed-0"), ("java-none-1", "java-snappy-1")])
def test_two_directories_with_logs_of_one_length_have_each_others_names(directory: Path, name: str, other: str) -> None:
    """The partition.metadata files may be exchanged instead: the finding shows both ways out."""
    swap(directory / name, directory / other)
    (finding,) = loud(directory)
    assert finding.kind == "partition-swapped"
    assert FAULT in str(finding.found)
    assert finding.command == next_steps.dump(finding.path)
    _, _, command = finding.action.partition("give the directories their names back: ")
    mended(directory, replace(finding, command=command))


def test_a_directory_has_the_name_of_one_that_is_gone(directory: Path) -> None:
    shutil.rmtree(directory / OTHER)
    (directory / PARTITION).rename(directory / OTHER)
    (finding, *more) = loud(directory)
    assert finding.path == str(directory / OTHER / "partition.metadata")
    assert f"no directory {PARTITION} is here" in str(finding.found)
    assert not more
    assert finding.command is not None
    subprocess.run(["bash", "-c", finding.command], check=True)
    assert [each.kind for each in loud(directory)] == ["partition-missing"]


def test_a_directory_of_a_deleted_topic_never_gets_the_id_of_the_new_one(directory: Path) -> None:
    """Kafka would serve the deleted records as those of the new topic."""
    created_again(directory, "java-gzip")
    (finding,) = loud(directory)
    assert (finding.kind, finding.path) == ("partition-stray", str(directory / OTHER))
    assert "of a topic that was deleted: Kafka renames the directory to -stray" in str(finding.found)
    assert finding.lost_last_offset is not None
    assert finding.command is not None
    subprocess.run(["bash", "-c", finding.command], check=True)
    assert [each.kind for each in loud(directory)] == ["partition-missing"]


def test_an_id_that_no_topic_has(directory: Path) -> None:
    """partition.metadata is wrong where the log was closed at the recovery point of the directory's name; otherwise the
    records may belong to a topic that the metadata log lacks."""
    file = directory / PARTITION / "partition.metadata"
    file.write_text(f"version: 0\ntopic_id: {NEW_ID}")
    (finding,) = loud(directory)
    assert finding.kind == "partition-metadata-topic"
    (directory / ".kafka_cleanshutdown").unlink()
    (finding,) = loud(directory)
    assert finding.kind == "partition-stray"
    assert "which no topic has" in str(finding.found)
    assert "dump-segment" in str(finding.command)


@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize("content", [f"version: 0\ntopic_id: {NEW_ID}", "damaged", None])
def test_topic_ids_follow_from_a_damaged_or_old_metadata_log(
    directory: Path, is_old: bool, content: str | None
) -> None:
    """The metadata log has outdated ids: no command writes them."""
    if is_old:
        (directory / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":100000}')
    else:
        flip(directory / LOG, byte_of(directory, "TopicRecord", "recompress-zstd"))
    file = directory / PARTITION / "partition.metadata"
    file.unlink() if content is None else file.write_text(content)
    has_id = content is not None and NEW_ID in content
    found = loud(directory)
    first = next(each for each in found if each.path == str(directory / LOG))
    others = [each for each in found if each is not first]
    assert first.kind == ("metadata-log-end" if is_old else "batch-crc")
    assert (first.consequences.get("partition-stray", 0) > 0) == (has_id or not is_old)
    kind = "partition-metadata-missing" if content is None else "partition-metadata-content"
    assert [each.kind for each in others] == ([] if has_id else [kind])
    steps = ("kcli recover --dry-run", "kcli recover --salvage --dry-run")  # the latter where a start loses records
    assert all(any(step in str(each.command) for step in steps) for each in others)
    if content == "damaged":
        (finding,) = loud(file.parent)
        assert any(step in str(finding.command) for step in steps)


@pytest.mark.parametrize("name", ["JAVA-GZIP-0", "java-gzip-1"])
@pytest.mark.parametrize("is_copied", [False, True])
def test_a_directory_with_a_name_that_is_not_placed_here(directory: Path, name: str, is_copied: bool) -> None:
    """Kafka 4.3 leaves it: java-gzip has partition 0 only, and the directory's number must be one of the topic's."""
    source = "java-none-1" if name.endswith("1") else OTHER
    (shutil.copytree if is_copied else shutil.move)(directory / source, directory / name)
    (finding,) = loud(directory)
    if is_copied:
        assert (finding.kind, finding.severity) == ("partition-stray", "warning")
        assert "Kafka leaves this one as it is" in str(finding.found)
    else:
        assert finding.kind == "partition-missing"
    assert finding.command is not None
    subprocess.run(["bash", "-c", finding.command], check=True)
    assert contents(directory) == contents(SOURCE)
    assert topic_id_of(directory / source) == topic_id_of(SOURCE / source)


def test_a_metadata_log_older_than_the_leaders_of_partitions(directory: Path) -> None:
    """Without the clean-shutdown marker the leader epochs in the batches show that the metadata log is older."""
    (directory / ".kafka_cleanshutdown").unlink()
    topic = byte_of(directory, "TopicRecord", "mixed")
    with (directory / LOG).open("r+b") as log:
        log.truncate(batch_around(directory, topic)[0])
    for path in (directory / LOG).parent.iterdir():
        if path.suffix in (".index", ".timeindex", ".snapshot"):
            path.unlink()
    (directory / LOG).with_name("leader-epoch-checkpoint").write_text("0\n1\n1 0\n")
    first, *others = loud(directory)
    assert (first.kind, first.path) == ("metadata-log-end", str(directory / LOG))
    assert "leader epoch 2 of append-time-0" in str(first.expected)
    assert first.consequences["partition-stray"] == 4
    assert not [each for each in others if "__cluster_metadata" not in each.path]


def test_a_directory_of_a_deleted_topic_in_the_place_of_another(directory: Path) -> None:
    created_again(directory, "java-gzip")
    other = shutil.copytree(directory / OTHER, directory / f"{OTHER}.{'0' * 32}-stray")
    (other / "partition.metadata").write_text(f"version: 0\ntopic_id: {NEW_ID}")
    (finding,) = loud(directory)
    assert (finding.kind, finding.path) == ("partition-stray", str(directory / OTHER))
    assert f"which {other.name} has" in str(finding.expected)
    assert finding.command is not None
    subprocess.run(["bash", "-c", finding.command], check=True)
    assert not loud(directory)
    assert topic_id_of(directory / OTHER) == NEW_ID


def test_the_other_topic_has_its_directory_on_another_disk(tmp_path: Path) -> None:
    """Only partition.metadata is wrong: with the name of the other topic there would be two directories of it."""
    one, two, server = two_directories(tmp_path)
    file = two / "mixed-0" / "partition.metadata"
    before = file.read_text()
    shutil.copyfile(one / PARTITION / file.name, file)
    for arguments in ([one, two], ["--config", server, two]):
        ended = kcli("verify", "--format", "jsonl", *arguments)
        (row,) = [row for row in map(json.loads, ended.stdout.splitlines()) if row["severity"] == "error"]
        assert (row["kind"], row["path"]) == ("partition-metadata-topic", str(file))
        assert f"which has its own directory in {one}: " in row["found"]
        assert FAULT in row["found"]
    subprocess.run(["bash", "-c", row["command"]], check=True)
    assert file.read_text() == before


@pytest.mark.parametrize("is_alone", [True, False])
def test_a_partition_that_is_newer_than_the_metadata_log_and_all_else(directory: Path, *, is_alone: bool) -> None:
    """Not the metadata log is older: somebody has restored one partition from a later backup, after a clean stop."""
    log = max((directory / PARTITION).glob("*.log"))
    last = rows_of(log)[-1]
    data = log.read_bytes()
    batch = bytearray(data[last.position : last.position + last.size])
    batch[:8] = (last.last_offset + 1).to_bytes(8)
    batch[12:16] = (last.leader_epoch + 5).to_bytes(4)
    log.write_bytes(data + batch)
    epochs = directory / PARTITION / "leader-epoch-checkpoint"
    _, count, *entries = epochs.read_text().split("\n")
    new = f"{last.leader_epoch + 5} {last.last_offset + 1}"
    epochs.write_text("\n".join(["0", str(int(count) + 1), *entries[: int(count)], new, ""]))
    if not is_alone:
        points = directory / "recovery-point-offset-checkpoint"
        version, count, *lines = points.read_text().split("\n")
        points.write_text("\n".join([version, count, *(re.sub(r"\d+$", "0", line) for line in lines)]))
    (first,) = [each for each in loud(directory) if each.kind == "metadata-log-end"]
    what = f"or {PARTITION} alone is newer than all else here: after a clean stop its log goes on to "
    assert (what in str(first.found)) == is_alone
    assert (what in kcli("recover", directory).stdout) == is_alone
