"""Checkpoints of another broker in a log directory.

Real Kafka 4.3 started with such recovery points, after a crash and after a clean stop, and served all records; zeros in
a closed segment below the foreign recovery point were not found. Without the file it cut that log at the zeros (700
offsets were lost), and nothing else. With foreign log start offsets it deleted two logs, and hid the begin of a third;
with what salvage writes it served all records, from the log start offsets before the damage on.
"""

import asyncio
import json
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from formats.file_name import METADATA_DIRECTORY, FileKind
from kcli.cli.options import Format
from kcli.inspector.verify import Finding, Verification
from kcli.log.log_directory import LogDirectory
from kcli.metadata.partition import from_uuid
from kcli.protocol.topic_partition import TopicPartition
from tests.broker.metadata_dirs import open_metadata
from tests.cli.run import kcli
from tests.inspector.test_verify_causes import loud
from tests.inspector.test_verify_wrong_log_starts import COMPACTED, GROUPS, SEGMENTS
from tests.metadata_damage import copied

POINTS, HIGH, STARTS = FileKind.RECOVERY_POINTS, FileKind.REPLICATION_OFFSETS, FileKind.LOG_START_OFFSETS
FOREIGN = "checkpoint-foreign"
LONGER = ("java-none-0", "java-none-1", "mixed-0", "rdk-zstd-0")
"""The partitions whose logs are longer on the other broker."""
LACKING = ("append-time-0", "append-time-1", "crafted-0")
"""The partitions that the other broker does not have."""
OTHERS = {"shop-0": 500, "shop-1": 600, "carts-0": 700}
"""The partitions that only the other broker has."""
ZEROS = 4096


def named(partition: str) -> TopicPartition:
    topic, _, number = partition.rpartition("-")
    return TopicPartition(topic, int(number))


def write(home: Path, kind: FileKind, offsets: Mapping[TopicPartition, int]) -> None:
    lines = [f"{topic} {number} {offset}" for (topic, number), offset in offsets.items()]
    (home / kind).write_text("\n".join(["0", str(len(lines)), *lines, ""]))


def change(
    home: Path,
    kind: FileKind = POINTS,
    *,
    logs: Sequence[str] = LONGER,
    longer: int = 1000,
    others: Mapping[str, int] = OTHERS,
    lacking: tuple[str, ...] = (),
) -> None:
    """Make a checkpoint one of another broker, whose `logs` have `longer` more offsets."""
    offsets = LogDirectory(home).offsets(kind)
    offsets |= {named(each): offsets[named(each)] + longer for each in logs}
    offsets |= {named(each): offset for each, offset in others.items()}
    write(home, kind, {each: offset for each, offset in offsets.items() if f"{each}" not in lacking})


def crash(home: Path) -> None:
    """Remove the marker, and give the logs in LONGER older offsets in both checkpoints, as Kafka writes these now and
    then."""
    (home / FileKind.CLEAN_SHUTDOWN).unlink()
    for kind, by in ((HIGH, 8), (POINTS, 20)):
        offsets = LogDirectory(home).offsets(kind)
        write(home, kind, {each: offset - by * (f"{each}" in LONGER) for each, offset in offsets.items()})


def damage(home: Path) -> Path:
    """Overwrite the begin of a closed segment with zeros."""
    log = home / LONGER[0] / "00000000000000000108.log"
    with log.open("r+b") as file:
        file.write(bytes(100))
    return log


def foreign(*homes: Path) -> list[Finding]:
    return [each for each in loud(*homes) if each.kind == FOREIGN]


def rows(*arguments: str | Path) -> list[dict[str, Any]]:
    return [json.loads(each) for each in kcli("recover", "--format", Format.JSONL, *arguments).stdout.splitlines()]


def kinds(*arguments: str | Path) -> set[str]:
    return {row["kind"] for row in rows(*arguments)} - {"partition", "unclean-shutdown"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    directory = copied(tmp_path)
    assert loud(directory) == []
    return directory


def test_recovery_points_after_a_crash(home: Path) -> None:
    """The only finding is that of the file; no offset is called lost. Kafka would not start without the file: it cannot
    recover some of these logs from their beginning."""
    crash(home)
    change(home)
    (finding,) = loud(home)
    assert (finding.kind, finding.severity, Path(finding.path).name) == (FOREIGN, "error", POINTS)
    assert "3 of its 21 entries are of partitions that this node does not have" in str(finding.found)
    assert "4 offsets are above the ends of their logs" in str(finding.found)
    assert finding.consequences == {"checkpoint-offset": 4}
    found = rows(home)
    assert [row["file"] for row in found if row["kind"] == "passed-over"] == [POINTS]
    assert "end-missing" not in kinds(home)
    assert finding.command == f"kcli recover --salvage --dry-run {home}"
    assert "or not start: java-none-0" in finding.action


def test_the_file_is_set_aside(tmp_path: Path) -> None:
    """That is the next step where Kafka loses nothing when it then recovers all logs from their beginning."""
    home = copied(tmp_path, COMPACTED)
    (home / FileKind.CLEAN_SHUTDOWN).unlink()
    before = loud(home)
    change(home, logs=("c-gzip-0", "c-lz4-0", "c-idem-0"))
    finding, *others = loud(home)
    assert (finding.kind, others) == (FOREIGN, before)
    assert finding.command is not None
    subprocess.run(["bash", "-c", finding.command], check=True)
    assert loud(home) == before
    assert "end-missing" not in kinds(home)


def test_damage_below_them(home: Path) -> None:
    """Without the file Kafka would cut the log at the damage, so the next step is salvage, which finds it."""
    crash(home)
    change(home)
    log = damage(home)
    first, other = loud(home)
    assert first.kind == FOREIGN
    assert first.command == f"kcli recover --salvage --dry-run {home}"
    assert other.path == str(log)
    assert "below the recovery point Kafka does not look at it" in other.action
    assert kinds(home) == {"passed-over"}
    assert "gap" in kinds("--salvage", "--dry-run", home)


def test_salvage_writes_them_anew(home: Path, tmp_path: Path) -> None:
    expected = LogDirectory(home).offsets(POINTS)
    crash(home)
    change(home)
    out = tmp_path / "out"
    assert "end-missing" not in kinds("--salvage", "--out", out, home)
    assert LogDirectory(out).offsets(POINTS) == expected
    assert loud(out) == []
    kcli("recover", "--salvage", "--in-place", home)
    assert LogDirectory(home).offsets(POINTS) == expected


def test_in_place_in_one_partition(home: Path) -> None:
    """The entries of other partitions stay: without them Kafka would check, and perhaps cut, these logs."""
    crash(home)
    change(home)
    before = LogDirectory(home).offsets(POINTS)
    assert "end-missing" not in kinds(home / LONGER[0])
    kcli("recover", "--in-place", home / LONGER[0])
    after = LogDirectory(home).offsets(POINTS)
    assert after == before | {named(LONGER[0]): before[named(LONGER[0])] - 980}


def test_recovery_points_after_a_clean_stop(home: Path) -> None:
    """Kafka does not go by them."""
    change(home)
    (finding,) = loud(home)
    assert (finding.kind, finding.severity) == (FOREIGN, "warning")
    assert "nothing is lost" in str(finding.found)
    assert kinds(home) == set()
    assert kinds("--unclean", home) == {"passed-over"}


@pytest.mark.parametrize("is_clean", [True, False])
def test_high_watermarks(home: Path, *, is_clean: bool) -> None:
    if not is_clean:
        crash(home)
    change(home, HIGH, lacking=LACKING)
    (finding,) = loud(home)
    assert (finding.kind, finding.severity, Path(finding.path).name) == (FOREIGN, "warning", HIGH)
    assert kinds(home) == set()


def test_log_start_offsets(home: Path, tmp_path: Path) -> None:
    """The whole file is wrong: also the entry that is below the end of its log."""
    crash(home)
    starts = {"rdk-zstd-0": 5000, "mixed-0": 6000, "java-none-0": 150, **OTHERS}
    write(home, STARTS, {named(each): offset for each, offset in starts.items()})
    (finding,) = loud(home)
    assert (finding.kind, finding.severity, Path(finding.path).name) == (FOREIGN, "error", STARTS)
    assert "the file of another broker" in str(finding.found)
    assert finding.consequences["log-start-offset"] == 2
    assert [row["file"] for row in rows(home) if row["kind"] == "passed-over"] == [STARTS]
    kcli("recover", "--salvage", "--out", tmp_path / "out", home)
    assert LogDirectory(tmp_path / "out").offsets(STARTS) == {}
    assert loud(tmp_path / "out") == []


def test_lost_ends_are_told_still(home: Path) -> None:
    """Where the high watermark is above the end of a log, too, that rests on more than the foreign file."""
    crash(home)
    change(home)
    high = LogDirectory(home).offsets(HIGH)
    lost = named("rdk-zstd-0")
    write(home, HIGH, high | {lost: high[lost] + 40})
    found = loud(home)
    assert [each.kind for each in found] == [FOREIGN, "log-end"]
    assert "the high watermark is" in str(found[1].expected)
    assert "the recovery point" not in str(found[1].expected)
    (row,) = (row for row in rows(home) if row["kind"] == "end-missing")
    assert (row["partition"], row["lost_offsets"]) == ("rdk-zstd-0", 32)


# Sound directories, and those in which records are lost


def deleted(home: Path) -> None:
    """Delete the topics of OTHERS, which the metadata log has had."""

    async def append() -> None:
        metadata = open_metadata(home)
        topics = [("shop", "AAECAwQFBgcICQoLDA0ODw"), ("carts", "AQECAwQFBgcICQoLDA0ODw")]
        await metadata.append([("TopicRecord", 0, {"name": name, "topicId": each}) for name, each in topics])
        await metadata.append([("RemoveTopicRecord", 0, {"topicId": each}) for _, each in topics])
        await metadata.close()

    asyncio.run(append())


def elsewhere(home: Path) -> None:
    """Place all partitions of the metadata log on another node: they were moved there a moment ago."""

    async def append() -> None:
        metadata = open_metadata(home)
        await metadata.append(
            [
                ("PartitionChangeRecord", 1, {"partitionId": number, "topicId": from_uuid(topic.id), "replicas": [9]})
                for topic in metadata.image.topics.values()
                for number in topic.partitions
                if topic.name == "crafted"
            ]
        )
        await metadata.close()

    asyncio.run(append())
    shutil.rmtree(home / "crafted-0")


def left_over(home: Path) -> None:
    """Kafka has yet to remove the directories of deleted partitions."""
    for number, each in enumerate(OTHERS):
        shutil.copytree(home / "crafted-0", home / f"{each}.{number:032x}-delete")


def without_metadata_log(home: Path) -> None:
    shutil.rmtree(home / METADATA_DIRECTORY)


def with_cut_metadata_log(home: Path) -> None:
    log = home / METADATA_DIRECTORY / "00000000000000000000.log"
    with log.open("r+b") as file:
        file.seek(log.stat().st_size - 30)
        file.write(bytes(10))


@pytest.mark.parametrize("kind", [POINTS, HIGH, STARTS])
@pytest.mark.parametrize("name", [SEGMENTS, GROUPS, COMPACTED])
@pytest.mark.parametrize("is_clean", [True, False])
def test_deleted_topics_alone(tmp_path: Path, name: str, kind: FileKind, *, is_clean: bool) -> None:
    """Topics that the metadata log does not know, as it begins with a later snapshot, are no evidence."""
    directory = copied(tmp_path, name)
    if not is_clean:
        (directory / FileKind.CLEAN_SHUTDOWN).unlink(missing_ok=True)
    before = loud(directory)
    offsets = LogDirectory(directory).offsets(kind)
    write(directory, kind, offsets | {named(each): offset for each, offset in OTHERS.items()})
    assert loud(directory) == before


def test_a_partition_that_was_moved_away(home: Path) -> None:
    crash(home)
    before = loud(home)
    elsewhere(home)
    assert loud(home) == before
    change(home, longer=0)
    assert loud(home) == before


@pytest.mark.parametrize("doubt", [deleted, left_over, without_metadata_log, with_cut_metadata_log])
def test_names_that_are_no_evidence(home: Path, doubt: Callable[[Path], None]) -> None:
    """The names may be those of this broker's own partitions: then the offsets count."""
    crash(home)
    doubt(home)
    change(home)
    found = loud(home)
    assert not any(each.kind == FOREIGN for each in found)
    assert sum(each.kind == "log-end" for each in found) == len(LONGER)


def test_offsets_without_names(home: Path) -> None:
    crash(home)
    change(home, others={"shop-0": 500})
    assert {each.kind for each in loud(home)} == {"log-end"}


def test_lost_ends_and_deleted_topics(home: Path) -> None:
    """Both checkpoints are above the ends."""
    crash(home)
    change(home)
    change(home, HIGH)
    assert foreign(home) == []
    assert sum(each.kind == "log-end" for each in loud(home)) == len(LONGER)


def test_a_power_loss(home: Path) -> None:
    """High watermarks are synced every 5 s, logs are not: many are above the ends. The file has all partitions."""
    crash(home)
    change(home, HIGH)
    assert foreign(home) == []
    assert sum(each.kind == "log-end" for each in loud(home)) == len(LONGER)


def test_partitions_made_a_moment_ago(home: Path) -> None:
    """The file lacks them, and names deleted topics."""
    crash(home)
    change(home, HIGH, longer=0, lacking=LACKING)
    assert loud(home) == []


def test_one_short_log(home: Path) -> None:
    """One log has lost its end, which was not committed yet."""
    crash(home)
    offsets = LogDirectory(home).offsets(POINTS)
    longer = {named(each): offsets[named(each)] + 30 for each in LONGER[:2]}
    write(home, POINTS, offsets | longer | {named(each): offset for each, offset in OTHERS.items()})
    assert {each.kind for each in loud(home)} == {"log-end"}


def test_a_directory_without_logs(tmp_path: Path) -> None:
    write(tmp_path, POINTS, {named(each): offset for each, offset in OTHERS.items()})
    assert not any(each.kind == FOREIGN for each in Verification([tmp_path]).findings())
