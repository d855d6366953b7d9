"""Metadata logs that are whole but wrong: their records contradict earlier ones, at which Kafka ends, or the log is
older than the partitions. Salvage makes a snapshot with which Kafka starts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from formats.batch_writer import write_batch
from formats.file_name import METADATA_DIRECTORY
from kcli.inspector.cluster_metadata import read_image
from kcli.log.log_directory import LogDirectory
from kcli.log.partition_view import PartitionView
from kcli.metadata.difference import differences
from kcli.metadata.image import MetadataImage, Record
from kcli.metadata.partition import from_uuid
from kcli.metadata_log.last_used import newer_than
from kcli.metadata_log.replay import start_refusal
from kcli.metadata_log.snapshot_file import SnapshotId, image_bytes
from tests.broker.running import served_node
from tests.cli.run import kcli
from tests.conftest import GOLDEN
from tests.metadata_damage import (
    LOG,
    NEW_ID,
    SET,
    appended,
    batches,
    byte_of,
    copied,
    flip,
    partitions,
    rows_of,
    strays,
)

TOPIC = "java-zstd"


def image_of(directory: Path) -> MetadataImage:
    image = read_image(directory)
    assert image is not None
    return image


def second_topic(image: MetadataImage) -> list[Record]:
    return [("TopicRecord", 0, {"name": TOPIC, "topicId": NEW_ID})]


def second_topic_with_partition(image: MetadataImage) -> list[Record]:
    node = {"replicas": [1], "isr": [1], "leader": 1, "leaderEpoch": 0, "partitionEpoch": 0}
    where = {"partitionId": 0, "topicId": NEW_ID, "directories": [NEW_ID]}
    return [*second_topic(image), ("PartitionRecord", 1, {**where, **node, "leaderRecoveryState": 0})]


def topic_twice(image: MetadataImage) -> list[Record]:
    return [("TopicRecord", 0, {"name": TOPIC, "topicId": from_uuid(image.topics[TOPIC].id)})]


def producer_ids(image: MetadataImage) -> list[Record]:
    first = {"brokerId": 1, "brokerEpoch": 1, "nextProducerId": max(image.next_producer_id, 0) + 2000}
    return [("ProducerIdsRecord", 0, first), ("ProducerIdsRecord", 0, first)]


def broker(image: MetadataImage) -> list[Record]:
    return [("UnregisterBrokerRecord", 0, {"brokerId": 77, "brokerEpoch": 1})]


def broker_of_another_epoch(image: MetadataImage) -> list[Record]:
    return [("UnregisterBrokerRecord", 0, {"brokerId": 1, "brokerEpoch": 12345})]


def credential(image: MetadataImage) -> list[Record]:
    return [("RemoveUserScramCredentialRecord", 0, {"name": "alice", "mechanism": 1})]


@pytest.mark.parametrize(
    "contradiction",
    [
        second_topic,
        second_topic_with_partition,
        topic_twice,
        producer_ids,
        broker,
        broker_of_another_epoch,
        credential,
    ],
)
def test_a_record_at_which_kafka_ends(tmp_path: Path, contradiction: object) -> None:
    directory = copied(tmp_path)
    whole = image_of(directory)
    assert callable(contradiction)
    appended(directory, *contradiction(whole))
    found = [json.loads(line) for line in kcli("recover", "--format", "jsonl", directory).stdout.splitlines()]
    assert [row["file"] for row in found if row["kind"] == "refused"] == [LOG]
    first = kcli("verify", directory).stdout.splitlines()[0]
    assert first.startswith(f"error   metadata-record  {directory / LOG}")
    assert kcli("serve", "--data-dir", directory, "--listen", "127.0.0.1:0").status != 0
    new = tmp_path / "new"
    assert kcli("recover", "--salvage", "--out", new, directory).status == 0
    log = new / "__cluster_metadata-0"
    assert start_refusal(log, PartitionView(log).original) is None
    saved = image_of(new)
    assert saved.topics.keys() == whole.topics.keys()
    assert len(saved.topics_by_id) == len(saved.topics)
    assert {each.id for each in saved.topics.values()} == {each.id for each in whole.topics.values()}
    assert saved.configured == whole.configured
    before = partitions(directory)
    with served_node(new):
        pass
    assert not strays(new)
    assert partitions(new) >= before


PARTITION = "java-none-0"


def use(directory: Path, *, producer_id: int = -1, leader_epoch: int | None = None) -> None:
    """Append a batch to a partition, as a broker does before a crash."""
    partition = directory / PARTITION
    log = max(partition.glob("*.log"))
    last = rows_of(log)[-1]
    epoch = last.leader_epoch if leader_epoch is None else leader_epoch
    producer = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0} if producer_id >= 0 else {}
    batch = write_batch(
        [(None, b"value")], last.max_timestamp, base_offset=last.last_offset + 1, leader_epoch=epoch, **producer
    )
    with log.open("ab") as file:
        file.write(batch)
    (directory / ".kafka_cleanshutdown").unlink()


def with_epoch(directory: Path, epoch: int) -> None:
    """Add an entry to the leader-epoch-checkpoint of the partition."""
    path = directory / PARTITION / "leader-epoch-checkpoint"
    version, count, *entries = path.read_text().split("\n")
    path.write_text("\n".join([version, str(int(count) + 1), *filter(None, entries), f"{epoch} 298", ""]))


def is_called_old(directory: Path) -> bool:
    """Return whether verify reports the metadata log first, and recover its loss; assert that both do or neither."""
    first = kcli("verify", directory).stdout.splitlines()[0]
    ended = kcli("recover", directory)
    is_old = first.startswith(f"error   metadata-log-end  {directory / LOG}")
    assert is_old == ("metadata-damaged" in ended.stdout) == (ended.status == 1)
    assert is_old == (f"kcli recover --salvage --out NEW {directory}" in ended.stdout)
    return is_old


def test_a_metadata_log_that_gives_out_a_producer_id_again(tmp_path: Path) -> None:
    directory = copied(tmp_path)
    following = image_of(directory).next_producer_id
    use(directory, producer_id=following + 7)
    assert is_called_old(directory)
    new = tmp_path / "new"
    assert kcli("recover", "--salvage", "--out", new, directory).status == 0
    assert image_of(new).next_producer_id > following + 7
    assert image_of(new).topics_by_id == image_of(directory).topics_by_id
    assert not is_called_old(new)


def test_a_producer_id_that_the_metadata_log_has_given_out(tmp_path: Path) -> None:
    directory = copied(tmp_path)
    use(directory, producer_id=image_of(directory).next_producer_id - 1)
    assert not is_called_old(directory)


@pytest.mark.parametrize("is_of_batch", [False, True])
@pytest.mark.parametrize("is_of_checkpoint", [False, True])
def test_a_leader_epoch_that_the_metadata_log_does_not_know(
    tmp_path: Path, is_of_batch: bool, is_of_checkpoint: bool
) -> None:
    """No CRC covers a leader epoch: if only a batch or only a checkpoint has it, that is more likely damaged."""
    directory = copied(tmp_path)
    use(directory, leader_epoch=9 if is_of_batch else None)
    if is_of_checkpoint:
        with_epoch(directory, 9)
    assert is_called_old(directory) == (is_of_batch and is_of_checkpoint)
    if is_of_batch and is_of_checkpoint:
        assert kcli("recover", "--salvage", "--out", tmp_path / "new", directory).status == 0
        assert image_of(tmp_path / "new").topics["java-none"].partitions[0].leader_epoch == 9
        assert not is_called_old(tmp_path / "new")


def test_other_voters_have_a_newer_metadata_log(tmp_path: Path) -> None:
    directory = copied(tmp_path)
    use(directory, producer_id=987_654)
    state = {"clusterId": "", "leaderId": -1, "leaderEpoch": 1, "votedId": -1, "appliedOffset": 0, "data_version": 0}
    voters = [{"voterId": 1}, {"voterId": 2}]
    (directory / "__cluster_metadata-0/quorum-state").write_text(json.dumps({**state, "currentVoters": voters}))
    assert not is_called_old(directory)


def test_a_partition_without_a_topic_id_is_a_stray_whoever_the_voters_are(tmp_path: Path) -> None:
    """No record that another voter may have gives the directory its topic id."""
    directory, partition = copied(tmp_path), "java-none-0"
    (directory / partition / "partition.metadata").unlink()
    state = {"clusterId": "", "leaderId": 3, "leaderEpoch": 7, "votedId": -1, "appliedOffset": 0, "data_version": 0}
    voters = [{"voterId": 2}, {"voterId": 3}, {"voterId": 4}]
    (directory / "__cluster_metadata-0/quorum-state").write_text(json.dumps({**state, "currentVoters": voters}))
    ended = kcli("recover", "--format", "jsonl", directory)
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [row["partition"] for row in rows if row["kind"] == "stray"] == [partition]
    assert ended.status == 1


def test_configured_voters_count_not_those_of_quorum_state(tmp_path: Path) -> None:
    """As in Kafka with controller.quorum.voters: a cut of the metadata log is a loss for the only voter."""
    directory = copied(tmp_path)
    state = {"clusterId": "", "leaderId": 3, "leaderEpoch": 7, "votedId": -1, "appliedOffset": 0, "data_version": 0}
    (directory / "__cluster_metadata-0/quorum-state").write_text(
        json.dumps({**state, "currentVoters": [{"voterId": 1}, {"voterId": 3}]})
    )
    flip(directory / LOG, byte_of(directory, "TopicRecord", "java-none"))
    config = tmp_path / "server.properties"
    config.write_text("node.id=1\nprocess.roles=broker,controller\ncontroller.quorum.voters=1@localhost:9093\n")
    ended = kcli("recover", "--config", config, directory)
    assert "metadata-lost" in ended.stdout
    assert "other voters" not in ended.stdout
    assert "other voters (3)" in kcli("recover", directory).stdout


@pytest.mark.parametrize(
    ("file", "content"), [("bootstrap.checkpoint", ""), ("__cluster_metadata-0/quorum-state", '{"a":1,}')]
)
@pytest.mark.parametrize("is_log_damaged", [False, True])
def test_a_file_is_moved_away_only_where_kafka_then_keeps_the_metadata(
    tmp_path: Path, file: str, content: str, is_log_damaged: bool
) -> None:
    directory = copied(tmp_path)
    (directory / file).write_text(content)
    if is_log_damaged:
        flip(directory / LOG, byte_of(directory, "TopicRecord", TOPIC))
    lines = kcli("verify", directory).stdout.splitlines()
    command = next(line.strip() for line in lines if "Next:" in line)
    moved = f"Next: mv -nT -- {directory / file} {directory / file}.moved"
    assert f"  {directory / file}  " in lines[0]
    assert command == (f"Next: kcli recover --salvage --dry-run {directory}" if is_log_damaged else moved)
    dry_run = kcli("recover", "--salvage", directory).stdout
    assert f"next             kcli recover --salvage --out NEW {directory}\n" in dry_run
    assert "does not mend" not in dry_run
    new = tmp_path / "new"
    assert kcli("recover", "--salvage", "--out", new, directory).status == 0
    assert image_of(new).topics.keys() == image_of(GOLDEN / SET).topics.keys()
    assert kcli("recover", new).status == 0


@pytest.mark.parametrize("number", [1127, 20261127])
def test_a_dated_copy_of_the_metadata_log_is_no_lost_topic(tmp_path: Path, number: int) -> None:
    """It looks like partition 20261127 of a topic __cluster_metadata-0; nothing is lost, and salvage makes no topic."""
    directory = copied(tmp_path)
    shutil.copytree(directory / "__cluster_metadata-0", directory / f"__cluster_metadata-0-{number}")
    ended = kcli("recover", "--format", "jsonl", directory)
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [row["partition"] for row in rows if row["kind"] == "stray"] == [f"__cluster_metadata-0-{number}"]
    assert not [row for row in rows if row["kind"].startswith("metadata-")]
    kcli("recover", "--salvage", "--out", tmp_path / "new", directory)
    assert image_of(tmp_path / "new").topics.keys() == image_of(directory).topics.keys()


def test_a_dated_copy_of_the_directory_of_a_lost_topic_is_no_partition(tmp_path: Path) -> None:
    """Salvage of a metadata log that lost its topics would add millions of empty partitions below that number."""
    directory = copied(tmp_path)
    shutil.copytree(directory / "java-none-0", directory / "java-none-0-20261127")
    flip(directory / LOG, byte_of(directory, "TopicRecord", "java-none"))
    ended = kcli("recover", "--salvage", "--out", tmp_path / "new", directory)
    assert "java-none-0-20261127" in ended.stdout
    assert image_of(tmp_path / "new").topics.keys() == image_of(GOLDEN / "codecs/data").topics.keys()


def test_exchanged_topic_ids_do_not_make_the_metadata_log_old(tmp_path: Path) -> None:
    """Whose leader epoch it is, that of the topic of the name or of the id, is not known."""
    directory = copied(tmp_path)
    use(directory, leader_epoch=9)
    with_epoch(directory, 9)
    image, found = image_of(directory), LogDirectory(directory).partitions()
    assert len(list(newer_than(image, found, 1))) == 1
    one, other = (directory / each / "partition.metadata" for each in (PARTITION, "mixed-0"))
    ids = one.read_bytes(), other.read_bytes()
    one.write_bytes(ids[1])
    other.write_bytes(ids[0])
    assert list(newer_than(image, found, 1)) == []


def test_a_missing_partition_is_told_beside_a_damaged_metadata_log(tmp_path: Path) -> None:
    """Whoever mends the metadata log first would start Kafka with an empty partition."""
    directory = copied(tmp_path)
    flip(directory / LOG, byte_of(directory, "ProducerIdsRecord", 1))
    (directory / PARTITION).rename(directory / "mixed-0" / PARTITION)
    found = map(json.loads, kcli("verify", "--format", "jsonl", directory).stdout.splitlines())
    (missing,) = (each for each in found if each["kind"] == "partition-missing")
    assert missing["command"] == f"mv -nT -- {directory / 'mixed-0' / PARTITION} {directory / PARTITION}"


ABOVE_2 = (3, 6, 127)
CUT = (0, 1, -1)
"""Magics with which Kafka computes another CRC than that of a batch of magic 2: its start cuts the log."""


def with_magic(log: Path, number: int, magic: int) -> None:
    """Write a magic into a batch of a .log file or snapshot."""
    data = bytearray(log.read_bytes())
    data[rows_of(log)[number].position + 16] = magic & 0xFF
    log.write_bytes(data)


def recovered(directory: Path, *options: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in kcli("recover", "--format", "jsonl", *options, directory).stdout.splitlines()]


def kinds(rows: list[dict[str, Any]]) -> set[str]:
    return {row["kind"] for row in rows}


@pytest.mark.parametrize("magic", [*ABOVE_2, *CUT])
@pytest.mark.parametrize(("number", "is_clean"), [(0, True), (20, True), (20, False), (-1, False)])
def test_a_wrong_magic_in_the_metadata_log(tmp_path: Path, number: int, magic: int, *, is_clean: bool) -> None:
    """Kafka 4.3 reads the metadata log's batches only after it has recovered the log, also after a clean shutdown. It
    ends at a magic above 2 (CorruptRecordException: Invalid magic found in record), and cuts the log at another."""
    directory = copied(tmp_path)
    marker = directory / ".kafka_cleanshutdown"
    if not is_clean:
        marker.unlink()
    whole, offset = image_of(directory), batches(directory)[number].base_offset
    sound = (directory / LOG).read_bytes()
    with_magic(directory / LOG, number, magic)
    found, first = recovered(directory), kcli("verify", directory).stdout
    assert first.startswith(f"error   batch-magic  {directory / LOG}")
    assert f"magic {magic}, which no CRC covers" in first
    assert "expected magic 2, with which the CRC is right" in first
    if magic in ABOVE_2:
        (row,) = (row for row in found if row["kind"] == "refused")
        reason = f"offset {offset}: magic {magic} is none that Kafka has (Invalid magic found in record)"
        assert (row["file"], row["reason"]) == (LOG, reason)
        assert f"Kafka does not start with it: {reason}; salvage puts the magic right, in a copy" in first
        assert f"Next: kcli recover --salvage --dry-run {directory}" in first
    else:
        assert "refused" not in kinds(found)
        assert "Kafka cuts the file here when it starts" in first
    new = tmp_path / "new"
    saved = recovered(directory, "--salvage", "--out", new)
    if magic in ABOVE_2 or number != -1:  # the last batch has a NoOpRecord, which is not missed where it is cut
        assert [(row["before"], row["magic"]) for row in saved if row["kind"] == "magic"] == [(magic, 2)]
    if magic in ABOVE_2:
        assert (new / LOG).read_bytes() == sound
    else:  # in a snapshot; the next block of producer ids is skipped
        assert {each.what for each in differences(whole, image_of(new))} <= {"block of producer ids"}
    assert not any(line.startswith("error") for line in kcli("verify", new).stdout.splitlines())
    assert not {"refused", "metadata-lost", "stray"} & kinds(recovered(new))


@pytest.mark.parametrize("magic", ABOVE_2)
def test_a_magic_above_2_and_another_wrong_byte_in_the_metadata_log(tmp_path: Path, magic: int) -> None:
    """Kafka cuts the log, since the CRC is wrong."""
    directory = copied(tmp_path)
    row = batches(directory)[20]
    last_byte = row.position + row.size - 1
    with_magic(directory / LOG, 20, magic)
    flip(directory / LOG, last_byte)
    assert "cut" in kinds(recovered(directory))
    assert "refused" not in kinds(recovered(directory))


@pytest.mark.parametrize("number", [1, -1])
def test_a_magic_above_2_below_the_latest_snapshot(tmp_path: Path, number: int) -> None:
    """Kafka reads the snapshot and the log behind it, and starts. Salvage puts the magic right."""
    directory = copied(tmp_path)
    image, last = image_of(directory), batches(directory)[-1]
    which = SnapshotId(last.last_offset + 1, last.leader_epoch)
    snapshot = directory / METADATA_DIRECTORY / f"{which.offset:020}-{which.epoch:010}.checkpoint"
    snapshot.write_bytes(image_bytes(image, which, last.max_timestamp, ()))
    whole = (directory / LOG).read_bytes()
    assert not {"refused", "snapshot-wrong"} & kinds(recovered(directory))
    with_magic(directory / LOG, number, 3)
    assert "refused" not in kinds(recovered(directory))
    first = kcli("verify", directory).stdout
    assert (
        f"Kafka starts, and does not read this batch: the latest snapshot has all below offset {which.offset}" in first
    )
    new = tmp_path / "new"
    assert {row["kind"] for row in recovered(directory, "--salvage", "--out", new)} == {"magic", "partition"}
    assert (new / LOG).read_bytes() == whole
    for magic in (3, -1, 0):
        damaged = Path(shutil.copytree(directory, tmp_path / f"snapshot{magic}"))
        with_magic(damaged / METADATA_DIRECTORY / snapshot.name, 1, magic)
        (row,) = (row for row in recovered(damaged) if row["kind"] == "refused")
        assert row["file"] == f"{METADATA_DIRECTORY}/{snapshot.name}"
        recovered(damaged, "--salvage", "--out", tmp_path / f"new{magic}")
        left = differences(image, image_of(tmp_path / f"new{magic}"))
        assert {each.what for each in left} <= {"block of producer ids"}


def test_a_magic_above_2_where_other_voters_have_the_records(tmp_path: Path) -> None:
    """Kafka reads its own log before it asks other voters, and ends. Salvage changes nothing but the magic."""
    directory = copied(tmp_path, "kraft/controller-100")
    log = max((directory / METADATA_DIRECTORY).glob("*.log"))
    whole = log.read_bytes()
    with_magic(log, -1, 3)
    (row,) = (row for row in recovered(directory) if row["kind"] == "refused")
    assert row["file"] == f"{METADATA_DIRECTORY}/{log.name}"
    assert "Kafka does not start with it: " in kcli("verify", directory).stdout
    new = tmp_path / "new"
    saved = recovered(directory, "--salvage", "--out", new)
    assert "magic" in kinds(saved)
    assert "refused" not in kinds(saved)
    assert (new / METADATA_DIRECTORY / log.name).read_bytes() == whole
    with_magic(log, -1, 0)
    assert "refused" not in kinds(recovered(directory))


@pytest.mark.parametrize(("level", "is_known"), [(6, False), (7, True), (31, True), (32, False)])
def test_a_metadata_version_of_another_release(tmp_path: Path, level: int, is_known: bool) -> None:
    directory = copied(tmp_path)
    appended(directory, ("FeatureLevelRecord", 0, {"name": "metadata.version", "featureLevel": level}))
    verified = [json.loads(line) for line in kcli("verify", "--format", "jsonl", directory).stdout.splitlines()]
    found = [each["found"] for each in verified if each.get("kind") == "metadata-version"]
    ended = kcli("recover", "--salvage", "--dry-run", "--format", "jsonl", directory)
    refused = [row for line in ended.stdout.splitlines() if (row := json.loads(line))["kind"] == "refused"]
    if is_known:
        assert (found, refused) == ([], [])
        return
    reason = f"metadata.version {level} is of another release: Kafka 4.3 knows the levels 7 to 31"
    assert found == [f"{reason}: it does not start"]
    assert [(row["file"], row["reason"]) for row in refused] == [(METADATA_DIRECTORY, reason)]
    assert ended.status == 1
