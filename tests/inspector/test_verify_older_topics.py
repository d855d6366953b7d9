"""A topic created anew beside the strays of an older topic with its name: its logs never had the older offsets."""

import json
import shutil
from pathlib import Path

from formats.file_name import FileKind
from kcli.inspector.verify import Verification
from kcli.log.disk import Disk
from kcli.log.log_directory import LogDirectory
from kcli.log.partition_directory import make_partition_directory, topic_id_of
from kcli.log.recovery.older_topics import of_older_topic, strays_in
from kcli.protocol.topic_partition import TopicPartition
from tests.cli.run import kcli
from tests.inspector.test_verify_causes import PARTITION, directory

__all__ = ["directory"]  # a fixture

OLDER_ID, UNIQUE = "A" * 20 + "BQ", "0" * 31 + "1"


def renew(directory: Path, older_id: str = OLDER_ID) -> Path:
    """Make the partition's directory a stray of an older topic, and a new one with an empty log. Returns the stray."""
    path = directory / PARTITION
    topic_id = topic_id_of(path)
    assert topic_id is not None
    stray = path.rename(path.with_name(f"{PARTITION}.{UNIQUE}-stray"))
    (stray / FileKind.PARTITION_METADATA).write_text(f"version: 0\ntopic_id: {older_id}")
    make_partition_directory(Disk(), path, topic_id)
    (directory / FileKind.CLEAN_SHUTDOWN).unlink(missing_ok=True)
    return stray


def point_of(directory: Path, name: str = PARTITION) -> int:
    topic, _, number = name.rpartition("-")
    return LogDirectory(directory).offsets(FileKind.RECOVERY_POINTS)[TopicPartition(topic, int(number))]


def about(directory: Path, *kinds: str) -> list[tuple[str, str]]:
    """Return the kind of each finding about the partition, with its path and what is expected."""
    found = [each for each in Verification([directory]).findings() if each.kind in kinds]
    told = [(each.kind, f"{each.path} {each.expected}") for each in found]
    return [each for each in told if PARTITION in each[1]]


def end_missing(directory: Path) -> list[str]:
    ended = kcli("recover", "--format", "jsonl", directory)
    found = [json.loads(line) for line in ended.stdout.splitlines()]
    return [each["partition"] for each in found if each["kind"] == "end-missing"]


def test_the_offsets_of_an_older_topic_are_not_lost(directory: Path) -> None:
    stray, offset = renew(directory), point_of(directory)
    assert offset > 0
    assert about(directory, "log-end", "checkpoint-offset") == []
    assert {kind for kind, _ in about(directory, "checkpoint-older")} == {"checkpoint-older"}
    (finding, *_) = [each for each in Verification([directory]).findings() if each.kind == "checkpoint-older"]
    assert f"{offset:,}: that of another topic of this name, whose records are in {stray.name}" in str(finding.found)
    assert (finding.severity, finding.command) == ("warning", None)
    assert end_missing(directory) == []


def test_offsets_that_the_older_topic_has_not_reached_are_lost(directory: Path) -> None:
    for path in renew(directory).glob("*.log"):
        path.write_bytes(b"")
    assert about(directory, "log-end") != []
    assert about(directory, "checkpoint-older") == []
    assert end_missing(directory) == [PARTITION]


def test_a_stray_of_the_topic_itself_explains_nothing(directory: Path) -> None:
    own = topic_id_of(directory / PARTITION)
    assert own is not None
    stray, offset = renew(directory), point_of(directory)
    topic, _, number = PARTITION.rpartition("-")
    strays = strays_in(directory)[TopicPartition(topic, int(number))]
    assert of_older_topic(directory / PARTITION, strays, offset) == stray
    assert of_older_topic(directory / PARTITION, strays, 1 << 40) is None
    (stray / FileKind.PARTITION_METADATA).write_text(f"version: 0\ntopic_id: {own}")
    assert of_older_topic(directory / PARTITION, strays, offset) is None


def test_a_copy_from_before_the_strays_is_no_second_directory(directory: Path) -> None:
    copy = directory.with_name("data.bak")
    shutil.copytree(directory, copy, copy_function=shutil.copyfile)
    for number, each in enumerate(LogDirectory(directory).partitions()):
        if each.path.name != "__cluster_metadata-0":
            each.path.rename(each.path.with_name(f"{each.path.name}.{number:032x}-stray"))
    assert all(each.kind != "meta-properties-node" for each in Verification([directory]).findings())
    ended = kcli("recover", "--format", "jsonl", directory)
    refused = [row for row in map(json.loads, ended.stdout.splitlines()) if row["kind"] == "refused"]
    assert all(row["file"] != "meta.properties" for row in refused)
