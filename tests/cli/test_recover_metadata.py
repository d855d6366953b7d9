"""kcli recover on a damaged metadata log: what the cut means, and what --salvage brings back."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from formats.file_name import FileKind
from formats.producer_snapshot import ProducerEntry, ProducerSnapshot
from formats.producer_snapshot import build as build_producers
from formats.properties import parse
from kcli.inspector.cluster_metadata import read_image
from kcli.log.disk import Disk
from kcli.log.log_directory import LogDirectory
from kcli.log.partition_directory import topic_id_of
from kcli.metadata.difference import differences
from kcli.metadata.image import MetadataImage, Record
from kcli.metadata.partition import from_uuid
from kcli.metadata_log.snapshot_file import SnapshotId, image_bytes
from kcli.protocol.topic_partition import TopicPartition
from tests.broker.metadata_dirs import open_metadata
from tests.broker.running import served_node
from tests.cli.run import kcli
from tests.conftest import GOLDEN, files_below
from tests.damage import frames
from tests.log.batches import keyed
from tests.metadata_damage import (
    LOG,
    NEW_ID,
    SET,
    batch_around,
    batches,
    byte_of,
    copied,
    created_again,
    flip,
    partitions,
    strays,
)
from tests.two_directories import two_directories

DAMAGED_TOPIC = "java-zstd"


def rows(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


def names(found: list[dict[str, Any]], kind: str, what: str | None = None) -> set[str]:
    key = "partition" if what is None else "name"
    return {row[key] for row in found if row["kind"] == kind and (what is None or row["what"] == what)}


def image_of(directory: Path) -> MetadataImage:
    image = read_image(directory)
    assert image is not None
    return image


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Flip one bit in the batch that creates a topic."""
    directory = copied(tmp_path)
    flip(directory / LOG, byte_of(directory, "TopicRecord", DAMAGED_TOPIC))
    return directory


def recover_reports(directory: Path, *findings: str) -> None:
    """kcli recover finds something, and says this."""
    ended = kcli("recover", directory)
    assert ended.status == 1
    for finding in findings:
        assert finding in ended.stdout


def emptied(directory: Path) -> None:
    (directory / LOG).write_bytes(b"")


def test_prediction_is_what_a_start_does(damaged: Path) -> None:
    before = files_below(damaged)
    ended = kcli("recover", "--format", "jsonl", damaged)
    assert ended.status == 1
    assert files_below(damaged) == before
    found = rows(ended.stdout)
    predicted = names(found, "stray")
    assert predicted
    assert f"{DAMAGED_TOPIC}-0" in predicted
    kept = image_of(damaged)  # up to the damage
    lost = names(found, "metadata-lost", "topic")
    assert lost == image_of(GOLDEN / SET).topics.keys() - kept.topics.keys()
    with served_node(damaged, "--allow-strays"):
        pass
    assert strays(damaged) == predicted


def test_for_people_the_list_is_bounded_and_the_next_command_is_named(damaged: Path) -> None:
    ended = kcli("recover", damaged)
    assert "Kafka then no longer knows:" in ended.stdout
    assert "are renamed to -stray at the start" in ended.stdout
    assert f"kcli recover --salvage --out NEW {damaged}" in ended.stdout
    assert max(map(len, ended.stdout.splitlines())) < 600


@pytest.mark.parametrize("message", ["TopicRecord", "FeatureLevelRecord", "RegisterBrokerRecord", None])
def test_salvage_brings_everything_back(message: str | None, tmp_path: Path) -> None:
    """This also holds where later records contradict the gap: changes of partitions, of the broker, no
    metadata.version."""
    directory = copied(tmp_path)
    value: dict[str, object] = {
        "TopicRecord": DAMAGED_TOPIC,
        "FeatureLevelRecord": "metadata.version",
        "RegisterBrokerRecord": 1,
    }
    if message is None:
        emptied(directory)
    else:
        flip(directory / LOG, byte_of(directory, message, value[message]))
    whole = image_of(GOLDEN / SET)
    new = tmp_path / "new"
    ended = kcli("recover", "--salvage", "--out", new, directory)
    assert ended.status == 0
    assert "kept in a snapshot" in ended.stdout
    saved = image_of(new)
    assert {name: from_uuid(topic.id) for name, topic in saved.topics.items()} == {
        name: from_uuid(topic.id) for name, topic in whole.topics.items()
    }
    assert {name: topic.partitions.keys() for name, topic in saved.topics.items()} == {
        name: topic.partitions.keys() for name, topic in whole.topics.items()
    }
    assert saved.metadata_version == whole.metadata_version
    before = partitions(directory)
    with served_node(new):
        pass
    assert partitions(new) >= before


def test_salvage_in_place_keeps_what_was_there(damaged: Path) -> None:
    log = (damaged / LOG).read_bytes()
    ended = kcli("recover", "--salvage", "--in-place", damaged)
    assert ended.status == 0
    (backup,) = damaged.glob("kcli-recover-*.tar")
    shutil.unpack_archive(backup, damaged.parent / "backup")
    assert (damaged.parent / "backup" / LOG).read_bytes() == log
    assert kcli("recover", damaged).status == 0
    assert image_of(damaged).topics.keys() == image_of(GOLDEN / SET).topics.keys()


def test_rebuilt_topics_are_kept_by_retention(damaged: Path, tmp_path: Path) -> None:
    kcli("recover", "--salvage", "--out", tmp_path / "new", damaged)
    assert image_of(tmp_path / "new").topic_configs(DAMAGED_TOPIC) == {"retention.ms": "-1", "retention.bytes": "-1"}


@pytest.mark.parametrize("damage", ["empty", "missing", "epochs"])
def test_log_that_ends_too_early(damage: str, tmp_path: Path) -> None:
    """Recovery cuts nothing, and yet other files prove that records are lost."""
    directory = copied(tmp_path)
    config = tmp_path / "server.properties"
    config.write_text(f"node.id=1\nlog.dirs={directory}\n")
    if damage == "empty":
        emptied(directory)
    elif damage == "missing":
        shutil.rmtree(directory / "__cluster_metadata-0")
    else:  # cut where a batch ends
        log = directory / LOG
        kcli("recover", "--in-place", directory)
        epochs = (directory / "__cluster_metadata-0/leader-epoch-checkpoint").read_bytes()
        flip(log, byte_of(directory, "TopicRecord", DAMAGED_TOPIC))
        kcli("recover", "--in-place", directory)
        (directory / "__cluster_metadata-0/leader-epoch-checkpoint").write_bytes(epochs)
    ended = kcli("recover", "--format", "jsonl", "--config", config, directory)
    found = rows(ended.stdout)
    assert names(found, "stray")
    if damage != "epochs":
        assert ended.status == 1
        assert names(found, "stray") == partitions(directory)
        assert names(found, "metadata-damaged")


def without_signs(directory: Path) -> None:
    """Remove what tells the end of the metadata log: the broker's epoch in the marker, and the leader epochs."""
    (directory / FileKind.CLEAN_SHUTDOWN).unlink()
    (directory / "__cluster_metadata-0" / FileKind.LEADER_EPOCHS).write_text("0\n0\n")


@pytest.mark.parametrize("damage", ["empty", "missing", "zeros", "cut", "all"])
def test_nothing_is_left_of_the_log(damage: str, tmp_path: Path) -> None:
    """Of a snapshot with offset 0 and epoch 0, Kafka 4.3.0 reads no record: it renamed all partitions to -stray."""
    directory = copied(tmp_path)
    without_signs(directory)
    log = directory / LOG
    data = log.read_bytes()
    if damage == "missing":
        log.unlink()
    elif damage == "all":
        shutil.rmtree(log.parent)
        log.parent.mkdir()
    else:
        log.write_bytes({"empty": b"", "zeros": bytes(len(data)), "cut": data[:50]}[damage])
    new = tmp_path / "new"
    assert kcli("recover", "--salvage", "--out", new, directory).status == 0
    assert [each.name for each in new.glob("*/*.checkpoint")] == ["00000000000000000001-0000000001.checkpoint"]
    before = partitions(directory)
    with served_node(new):
        pass
    assert not strays(new)
    assert partitions(new) >= before


@pytest.mark.parametrize("is_cut", [False, True])
def test_the_log_is_beside_under_another_name(tmp_path: Path, is_cut: bool) -> None:
    """logrotate renamed it and made an empty one: salvage reads it, with the configurations of all topics."""
    directory = copied(tmp_path)
    without_signs(directory)
    log = directory / LOG
    image = image_of(directory)
    other = log.rename(log.with_name(f"{log.name}-20261129"))
    log.write_bytes(other.read_bytes()[:50] if is_cut else b"")
    recover_reports(directory, f"keeps all that can be read of {other.name}")
    new = tmp_path / "new"
    assert kcli("recover", "--salvage", "--out", new, directory).status == 0
    assert {each.what for each in differences(image, image_of(new))} <= {"block of producer ids"}
    assert kcli("verify", new).status == 0


def test_a_snapshot_of_which_kafka_reads_no_record(tmp_path: Path) -> None:
    """Kafka 4.3.0 took no topic of it, and renamed all partitions to -stray."""
    directory = copied(tmp_path)
    without_signs(directory)
    image = image_of(directory)
    emptied(directory)
    snapshot = (directory / LOG).with_name("00000000000000000000-0000000000.checkpoint")
    snapshot.write_bytes(image_bytes(image, SnapshotId(0, 0), 0, []))
    recover_reports(directory, "Kafka reads no record", "topics: ", "are renamed to -stray at the start")
    ended = kcli("verify", directory)
    assert ended.stdout.startswith(f"error   snapshot-records  {snapshot}  Kafka reads no record")
    new = tmp_path / "new"
    assert kcli("recover", "--salvage", "--out", new, directory).status == 0
    assert image_of(new).topics.keys() == image.topics.keys()
    assert kcli("verify", new).status == 0


def test_the_snapshot_with_which_a_quorum_begins(tmp_path: Path) -> None:
    """kafka-storage writes it for a first voter: nothing is lost before the first start."""
    properties = tmp_path / "server.properties"
    listeners = "listeners=CONTROLLER://localhost:9093\ncontroller.listener.names=CONTROLLER\n"
    quorum = "controller.quorum.bootstrap.servers=localhost:9093\n"
    directory = tmp_path / "logs"
    properties.write_text(f"process.roles=controller\nnode.id=1\n{listeners}{quorum}log.dirs={directory}\n")
    assert kcli("format", "--standalone", "-t", "AAECAwQFBgcICQoLDA0ODw", "-c", properties).status == 0
    assert [*directory.glob("*/00000000000000000000-0000000000.checkpoint")]
    for command in ("recover", "verify"):
        assert kcli(command, "--config", properties, directory).status == 0


def test_missing_where_nobody_says_where_it_is(tmp_path: Path) -> None:
    directory = copied(tmp_path)
    shutil.rmtree(directory / "__cluster_metadata-0")
    ended = kcli("recover", directory)
    assert ended.status == 1
    assert "unless metadata.log.dir is elsewhere" in ended.stdout
    assert kcli("recover", "--out", tmp_path / "new", directory).status == 0


def test_in_another_log_directory_of_the_node(tmp_path: Path) -> None:
    """Without --config nothing says what the metadata log of the other directory decides: that is no 0."""
    one, two, server = two_directories(tmp_path)
    ended = kcli("recover", two)
    assert ended.status == 1
    assert "it is unknown which partitions Kafka renames to -stray" in ended.stdout
    assert (
        f"--config FILE with metadata.log.dir or log.dirs names its place: {one} has one of this node" in ended.stdout
    )
    (row,) = (
        row for row in rows(kcli("recover", "--format", "jsonl", two).stdout) if row["kind"] == "metadata-missing"
    )
    assert row["beside"] == [str(one)]
    assert kcli("recover", "--config", server, two).status == 0
    assert kcli("recover", two / "mixed-0").status == 0


def test_other_voters_have_what_is_cut(tmp_path: Path) -> None:
    directory = copied(tmp_path, "kraft/broker-1")
    log = max((directory / "__cluster_metadata-0").glob("*.log"), key=lambda path: path.stat().st_size)
    flip(log, log.stat().st_size // 2)
    found = rows(kcli("recover", "--format", "jsonl", directory).stdout)
    assert names(found, "cut") == {"__cluster_metadata-0"}
    assert {tuple(row["voters"]) for row in found if row["kind"] == "metadata-in-quorum"} == {(100, 101, 102)}
    assert not names(found, "stray")


def test_sound_log_forgets_nothing() -> None:
    for name in (SET, "txn/data", "groups/data", "compact/before", "kraft/dynamic-quorum", "kraft/controller-100"):
        found = rows(kcli("recover", "--format", "jsonl", GOLDEN / name).stdout)
        assert {row["kind"] for row in found} & {"stray", "metadata-lost", "metadata-damaged"} == set(), name


def test_meta_properties_that_is_missing(tmp_path: Path) -> None:
    directory = copied(tmp_path)
    assert parse((directory / "meta.properties").read_bytes()).entries
    (directory / "meta.properties").unlink()
    recover_reports(directory, "meta.properties", "is missing: nothing says whose log directory this is")


def test_unclean_shutdown_is_stated(tmp_path: Path) -> None:
    directory = copied(tmp_path)
    assert "was not shut down in order" not in kcli("recover", directory).stdout
    (directory / ".kafka_cleanshutdown").unlink()
    assert "the broker was not shut down in order" in kcli("recover", directory).stdout
    found = rows(kcli("recover", "--format", "jsonl", directory).stdout)
    assert [row["file"] for row in found if row["kind"] == "unclean-shutdown"] == [".kafka_cleanshutdown"]


CHECKPOINTS = {
    "recovery-point-offset-checkpoint": "recovers logs from their beginning",
    "log-start-offset-checkpoint": "logs begin with their first segment",
    "cleaner-offset-checkpoint": "its log cleaner ends at once",
    "replication-offset-checkpoint": "serves no partition of this directory",
}
"""What Kafka 4.3.0 did with text in place of a number in a checkpoint."""


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_checkpoints_with_text_for_a_number(tmp_path: Path, name: str) -> None:
    directory = copied(tmp_path)
    (directory / name).write_text("0\n1\nmixed 0 x\n")
    ended = kcli("recover", directory)
    assert ended.status == 1
    assert CHECKPOINTS[name] in ended.stdout
    assert "keep Kafka from starting" not in ended.stdout


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("replication-offset-checkpoint", "garbage\n"),
        ("replication-offset-checkpoint", "0\n3\nmixed 0 1\n"),
        ("meta.properties", "version=1\nnode.id=1\ncluster.id=c\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n"),
        ("bootstrap.checkpoint", "xxxx"),
        ("mixed-0/partition.metadata", "garbage\n"),
        ("mixed-0/leader-epoch-checkpoint", "0\n1\n0 x\n"),
        ("__cluster_metadata-0/quorum-state", "garbage"),
        (
            "__cluster_metadata-0/quorum-state",
            (
                '{"leaderId":1,"leaderEpoch":2147483647,"votedId":-1,'
                '"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
            ),
        ),
        ("__cluster_metadata-0/00000000000000000005-0000000001.checkpoint", "xxxx"),
        ("__cluster_metadata-0/00000000000000000005-0000000001.checkpoint", ""),
    ],
)
def test_files_that_keep_kafka_from_starting(tmp_path: Path, file: str, content: str) -> None:
    """Kafka 4.3.0 ended at its start with each of these files."""
    directory = copied(tmp_path)
    (directory / file).write_text(content)
    ended = kcli("recover", "--format", "jsonl", directory)
    assert ended.status == 1
    refused = [row for row in rows(ended.stdout) if row["kind"] == "refused"]
    assert ["/".join(filter(None, (row["partition"], row["file"]))) for row in refused] == [file]
    assert not names(rows(ended.stdout), "stray")
    if file.startswith("__cluster"):
        assert kcli("recover", "--salvage", "--out", tmp_path / "new", directory).status == 0
        assert image_of(tmp_path / "new").topics.keys() == image_of(GOLDEN / SET).topics.keys()
        with served_node(tmp_path / "new"):
            pass


def test_record_that_contradicts_those_before_it(tmp_path: Path) -> None:
    """Whole batches are missing in the middle: recovery cuts nothing, and Kafka ends where a record changes a missing
    topic."""
    directory = copied(tmp_path)
    log = (directory / LOG).read_bytes()
    at = byte_of(directory, "TopicRecord", DAMAGED_TOPIC)
    begin, end = batch_around(directory, at)
    (directory / LOG).write_bytes(log[:begin] + log[end:])
    recover_reports(directory, "Kafka would not start: offset", "kcli recover --salvage")


def test_an_offset_that_jumps(tmp_path: Path) -> None:
    """No CRC covers the base offset of a batch: recovery cuts nothing, and Kafka's controller cannot append below that
    offset."""
    directory = copied(tmp_path)
    begin, _ = batch_around(directory, byte_of(directory, "TopicRecord", DAMAGED_TOPIC))
    flip(directory / LOG, begin + 4)
    recover_reports(directory, "is beyond the log's end")
    new = tmp_path / "new"
    assert kcli("recover", "--salvage", "--out", new, directory).status == 0
    assert image_of(new).topics.keys() == image_of(GOLDEN / SET).topics.keys()
    assert image_of(new).offset == image_of(GOLDEN / SET).offset
    with (
        pytest.raises(AssertionError, match="is beyond the log's end"),
        served_node(directory, "--allow-strays"),
    ):
        pass
    with served_node(new):
        pass


@pytest.mark.parametrize("place", ["middle", "end"])
def test_a_batch_that_is_there_twice(tmp_path: Path, place: str) -> None:
    """Kafka 4.3 starts with the repeated batch, and knows all topics."""
    directory = copied(tmp_path)
    log = (directory / LOG).read_bytes()
    at = byte_of(directory, "TopicRecord", DAMAGED_TOPIC)
    begin, end = batch_around(directory, at)
    if place == "end":
        begin, end = batches(directory)[-1].position, len(log)
    (directory / LOG).write_bytes(log[:end] + log[begin:end] + log[end:])
    ended = kcli("recover", directory)
    assert "would not start" not in ended.stdout, ended.stdout
    assert ended.status == 0, ended.stdout


def test_an_old_batch_at_the_end(tmp_path: Path) -> None:
    """The log ends behind its last batch, below offsets that the controller has seen: Kafka 4.3 does not become
    ready."""
    directory = copied(tmp_path)
    log = (directory / LOG).read_bytes()
    old = batches(directory)[-4]
    (directory / LOG).write_bytes(log + log[old.position : old.position + old.size])
    ended = kcli("recover", directory)
    assert ended.status == 1
    assert "is beyond the log's end" in ended.stdout


def test_meta_properties_of_another_node(tmp_path: Path) -> None:
    directory = copied(tmp_path)
    meta = directory / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=7"))
    ended = kcli("recover", "--format", "jsonl", directory)
    assert ended.status == 1
    (found,) = [row for row in rows(ended.stdout) if row["kind"] == "passed-over"]
    assert found["file"] == "meta.properties"
    assert "node.id is 7, and the metadata log knows replicas of node 1 only" in found["reason"]


@pytest.mark.parametrize("is_configured", [True, False])
def test_kafka_does_not_start_with_the_id_of_another_node(tmp_path: Path, *, is_configured: bool) -> None:
    """With node.id=1 in server.properties Kafka 4.3.0 ends: Stored node id 7 doesn't match previous node id 1."""
    directory, config = copied(tmp_path), tmp_path / "server.properties"
    meta = directory / "meta.properties"
    before = meta.read_text()
    meta.write_text(before.replace("node.id=1", "node.id=7"))
    config.write_text(f"node.id=1\nlog.dirs={directory}\n")
    options: list[str | Path] = ["--config", config] if is_configured else []
    ended = kcli("verify", "--format", "jsonl", *options, directory)
    (finding,) = [row for row in rows(ended.stdout) if row["severity"] == "error"]
    assert (finding["kind"], finding["path"], finding["refuses_start"]) == ("meta-properties-node", str(meta), True)
    ended = kcli("recover", "--format", "jsonl", *options, directory)
    assert ended.status == 1
    (found,) = [row for row in rows(ended.stdout) if row["kind"] in ("refused", "passed-over")]
    assert (found["kind"], found["file"]) == ("refused" if is_configured else "passed-over", "meta.properties")
    says = "doesn't match previous node id 1" if is_configured else "to -stray, then ends"
    assert says in found["reason"]
    ended = kcli("recover", "--salvage", *options, "--out", tmp_path / "new", directory)
    assert ended.status == 0
    subprocess.run(str(finding["command"]), shell=True, check=True)
    for each in (meta, tmp_path / "new" / meta.name):
        assert parse(each.read_bytes()).entries == parse(before.encode()).entries


@pytest.mark.parametrize("quorum_state", [None, ""])
def test_salvage_with_the_id_of_another_node(tmp_path: Path, quorum_state: str | None) -> None:
    """This also holds where quorum-state keeps Kafka from starting; the metadata log has the directory.id of node 1."""
    directory = copied(tmp_path)
    meta = directory / "meta.properties"
    before = meta.read_text()
    meta.write_text(before.replace("node.id=1", "node.id=7"))
    if quorum_state is not None:
        (directory / "__cluster_metadata-0/quorum-state").write_text(quorum_state)
    ended = kcli("recover", directory)
    assert ended.status == 1
    assert "node.id is 7, and the metadata log knows replicas of node 1 only; node 1 has registered" in ended.stdout
    assert "kcli recover --salvage" in ended.stdout
    assert kcli("recover", "--salvage", "--out", tmp_path / "new", directory).status == 0
    assert kcli("recover", "--salvage", "--in-place", directory).status == 0
    for each in (directory, tmp_path / "new"):
        assert parse((each / "meta.properties").read_bytes()).entries == parse(before.encode()).entries
        assert kcli("recover", each).status == 0
    with served_node(tmp_path / "new"):
        pass


def test_a_directory_id_that_is_not_registered(tmp_path: Path) -> None:
    """Kafka 4.3.0 started with such an id, and left all partitions offline."""
    directory = copied(tmp_path)
    meta = directory / "meta.properties"
    before = parse(meta.read_bytes()).entries
    meta.write_text(meta.read_text().replace(before["directory.id"], "AAECAwQFBgcICQoLDA0ODw"))
    recover_reports(directory, f"places the partitions in {before['directory.id']}: Kafka starts, and leaves the")
    assert "kcli recover --salvage" in kcli("recover", directory).stdout
    (told,) = rows(kcli("verify", "--format", "jsonl", "--severity", "error", directory).stdout)
    assert "leaves the partitions offline" in told["found"]
    shutil.copytree(directory, tmp_path / "by-hand")
    subprocess.run(["bash", "-c", told["command"].replace(str(directory), str(tmp_path / "by-hand"))], check=True)
    assert kcli("recover", "--salvage", "--out", tmp_path / "new", directory).status == 0
    ended = kcli("recover", "--salvage", "--in-place", directory)
    assert f"directory.id is {before['directory.id']} again" in ended.stdout
    assert ended.status == 0
    for each in (directory, tmp_path / "new", tmp_path / "by-hand"):
        assert parse((each / "meta.properties").read_bytes()).entries == before
        assert kcli("recover", each).status == 0


def test_a_reserved_directory_id(tmp_path: Path) -> None:
    """Kafka 4.3.0 did not start with it."""
    directory = copied(tmp_path)
    meta = directory / "meta.properties"
    before = parse(meta.read_bytes()).entries
    meta.write_text(meta.read_text().replace(before["directory.id"], "AAAAAAAAAAAAAAAAAAAABQ"))
    ended = kcli("recover", directory)
    assert "is reserved" in ended.stdout
    assert "kcli recover --salvage --out NEW" in ended.stdout
    (told,) = rows(kcli("verify", "--format", "jsonl", "--severity", "error", directory).stdout)
    assert "Kafka does not start with it" in told["found"]
    assert "Kafka starts, and" not in told["found"] + ended.stdout
    ended = kcli("recover", "--salvage", "--out", tmp_path / "new", directory)
    assert ended.status == 0
    assert "refused" not in ended.stdout
    assert parse((tmp_path / "new/meta.properties").read_bytes()).entries == before
    assert kcli("recover", tmp_path / "new").status == 0


def test_a_directory_id_of_a_new_disk(tmp_path: Path) -> None:
    """A formatted log directory without partitions has an id that is not registered yet."""
    directory = copied(tmp_path)
    for name in partitions(directory):
        shutil.rmtree(directory / name)
    meta = directory / "meta.properties"
    meta.write_text(re.sub("directory.id=.*", "directory.id=AAECAwQFBgcICQoLDA0ODw", meta.read_text()))
    assert "places the partitions in" not in kcli("recover", directory).stdout


async def with_leaders(directory: Path) -> None:
    """Append to the metadata log that node 1 leads all partitions, as a broker that crashes leaves it."""
    metadata = open_metadata(directory)
    records: list[Record] = [
        ("PartitionChangeRecord", 1, {"partitionId": number, "topicId": from_uuid(topic.id), "isr": [1], "leader": 1})
        for topic in metadata.image.topics.values()
        for number in topic.partitions
    ]
    await metadata.append(records)
    await metadata.close()


@pytest.mark.parametrize("replacement", ["", "directory.id=AAECAwQFBgcICQoLDA0ODw"])
def test_a_wrong_directory_id_after_a_crash(tmp_path: Path, replacement: str) -> None:
    """Kafka 4.3 assigned the partitions to the new id, and served them; the text said that they stay offline."""
    directory = copied(tmp_path)
    asyncio.run(with_leaders(directory))
    meta = directory / "meta.properties"
    meta.write_text(re.sub("directory.id=.*", replacement, meta.read_text()))
    outcome = "assigns the partitions to the new id and serves them (unclean election of the last known leader)"
    assert outcome in kcli("recover", directory).stdout
    told = rows(kcli("verify", "--format", "jsonl", "--severity", "error", directory).stdout)
    assert outcome in next(each["found"] for each in told if each["kind"] == "meta-properties-node")


def test_a_partition_without_directory(tmp_path: Path) -> None:
    directory = copied(tmp_path)
    shutil.rmtree(directory / "java-gzip-0")
    ended = kcli("recover", "--format", "jsonl", directory)
    assert ended.status == 1
    (row,) = [row for row in rows(ended.stdout) if row["kind"] == "partition-missing"]
    assert (row["partition"], row["directory"], row["reached_offset"] > 0) == ("java-gzip-0", None, True)
    recover_reports(directory, "Kafka makes an empty one; lost: offsets up to")


@pytest.mark.parametrize("state", ["delete", "stray"])
def test_a_directory_named_for_its_end(tmp_path: Path, state: str) -> None:
    """The metadata log has the partition, so no client deleted it."""
    directory = copied(tmp_path)
    before = logs_and_id(directory / "java-gzip-0")
    named = directory / f"java-gzip-0.0123456789abcdef0123456789abcdef-{state}"
    (directory / "java-gzip-0").rename(named)
    recover_reports(directory, "and deletes java-gzip-0." if state == "delete" else "does not serve java-gzip-0.")
    (told,) = rows(kcli("verify", "--format", "jsonl", "--severity", "error", directory).stdout)
    assert (told["kind"], told["lost_last_offset"]) == ("partition-missing", None)
    shutil.copytree(directory, tmp_path / "by-hand")
    subprocess.run(["bash", "-c", told["command"].replace(str(directory), str(tmp_path / "by-hand"))], check=True)
    assert kcli("recover", "--salvage", "--out", tmp_path / "new", directory).status == 0
    assert kcli("recover", "--salvage", "--in-place", directory).status == 0
    for each in (directory, tmp_path / "new", tmp_path / "by-hand"):
        assert logs_and_id(each / "java-gzip-0") == before
        assert not (each / named.name).exists()
        assert kcli("recover", each).status == 0


def test_a_directory_to_be_deleted_of_an_older_topic(tmp_path: Path) -> None:
    """The topic was deleted and created again, or the partition was moved back to this node."""
    directory = copied(tmp_path)
    old = directory / "java-gzip-0.0123456789abcdef0123456789abcdef-delete"
    shutil.copytree(directory / "java-gzip-0", old)
    assert kcli("recover", directory).status == 0
    assert kcli("verify", directory).status == 0
    shutil.rmtree(directory / "java-gzip-0")
    (old / "partition.metadata").write_text("version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw")
    recover_reports(directory, "Kafka makes an empty one; lost: offsets up to")


def test_meta_properties_without_version(tmp_path: Path) -> None:
    directory = copied(tmp_path)
    meta = directory / "meta.properties"
    meta.write_text(meta.read_text().replace("version=1", ""))
    found = rows(kcli("recover", "--format", "jsonl", directory).stdout)
    assert [row["file"] for row in found if row["kind"] == "refused"] == ["meta.properties"]


@pytest.mark.parametrize("name", ["00000000000000016409.snapshot", "partition.metadata"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_is_no_regular_file(tmp_path: Path, name: str, kind: str) -> None:
    """Kafka reads partition.metadata whatever it is, and passes over a snapshot that is no regular file."""
    directory = copied(tmp_path)
    path = directory / f"{DAMAGED_TOPIC}-0" / name
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    ended = kcli("recover", directory)
    lines = ended.stdout.splitlines()
    if name.endswith(".snapshot"):
        assert (ended.status, ended.stderr) == (1, "")
        at = lines.index(f"passed-over      {path.parent.name}/{name}")
        assert "Kafka passes it over" in lines[at + 1]
        return
    assert (ended.status, ended.stderr) == (2, "")
    at = lines.index(f"unreadable       {path.parent.name}/{name}")
    assert lines[at + 1].endswith("cannot be read: not a regular file")


def test_a_topic_of_the_name_with_another_id(tmp_path: Path) -> None:
    directory = copied(tmp_path)
    path = directory / f"{DAMAGED_TOPIC}-0/partition.metadata"
    path.write_text(f"version: 0\ntopic_id: {'A' * 20}BQ")
    ended = kcli("recover", directory)
    assert "is renamed to -stray at the start: the metadata has topics of their names with other ids" in ended.stdout
    found = rows(kcli("recover", "--format", "jsonl", directory).stdout)
    (row,) = [row for row in found if row["kind"] == "stray"]
    assert row["renewed"]


def test_a_directory_of_a_deleted_topic(tmp_path: Path) -> None:
    """The topic was created again: salvage gives neither the deleted records to the new topic, nor their end offset to
    its recovery point."""
    directory = copied(tmp_path)
    whole = logs_and_id(directory / f"{DAMAGED_TOPIC}-0")
    partition = TopicPartition(DAMAGED_TOPIC, 0)
    recovery_points = LogDirectory(directory).offsets(FileKind.RECOVERY_POINTS)
    recovery_points[partition] -= 1
    LogDirectory(directory).write_offsets(Disk(), FileKind.RECOVERY_POINTS, recovery_points)
    created_again(directory, DAMAGED_TOPIC)
    recover_reports(
        directory, "the directory of its name is of a deleted topic: Kafka makes an empty one; lost: offsets"
    )
    found = rows(kcli("recover", "--format", "jsonl", directory).stdout)
    (row,) = [row for row in found if row["kind"] == "partition-missing"]
    assert (row["partition"], row["deleted"], row["reached_offset"] > 0) == (f"{DAMAGED_TOPIC}-0", True, True)
    kcli("recover", "--salvage", "--out", tmp_path / "new", directory)
    (stray,) = (tmp_path / "new").glob("*-stray")
    assert logs_and_id(stray) == whole
    assert LogDirectory(tmp_path / "new").offsets(FileKind.RECOVERY_POINTS)[partition] == recovery_points[partition]
    with served_node(tmp_path / "new"):
        pass
    assert strays(tmp_path / "new") == {f"{DAMAGED_TOPIC}-0"}
    assert topic_id_of(tmp_path / "new" / f"{DAMAGED_TOPIC}-0") == NEW_ID


def test_a_directory_of_a_deleted_topic_in_the_place_of_another(tmp_path: Path) -> None:
    """Salvage gives the name to the directory with the topic's id."""
    directory = copied(tmp_path)
    created_again(directory, DAMAGED_TOPIC)
    place = directory / f"{DAMAGED_TOPIC}-0"
    other = shutil.copytree(place, directory / f"{place.name}.{'0' * 32}-stray")
    (other / "partition.metadata").write_text(f"version: 0\ntopic_id: {NEW_ID}")
    recover_reports(directory, f"Kafka makes an empty one, and does not serve {other.name}, which has the records")
    assert kcli("recover", "--salvage", "--in-place", directory).status == 0
    assert topic_id_of(place) == NEW_ID
    (stray,) = directory.glob("*-stray")
    assert topic_id_of(stray) != NEW_ID
    assert kcli("recover", directory).status == 0


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_metadata_log_older_than_the_partitions(tmp_path: Path, is_clean: bool) -> None:
    """The log's topic was created again after the last record of this metadata log: salvage gives the topic the id that
    its directories have."""
    directory = copied(tmp_path)
    before = logs_and_id(directory / f"{DAMAGED_TOPIC}-0")["partition.metadata"]
    (directory / f"{DAMAGED_TOPIC}-0/partition.metadata").write_text(f"version: 0\ntopic_id: {NEW_ID}")
    marker = directory / ".kafka_cleanshutdown"
    marker.write_text('{"version":0,"brokerEpoch":100000}') if is_clean else marker.unlink()
    changes = "Kafka then has an older state of:" if is_clean else "if records are lost, Kafka has an older state of:"
    recover_reports(directory, changes, f"kcli recover --salvage --out NEW {directory}")
    found = rows(kcli("recover", "--format", "jsonl", directory).stdout)
    (changed,) = [row for row in found if row["kind"] == "metadata-changed"]
    assert (changed["name"], changed["before"], changed["after"] in before.decode()) == (DAMAGED_TOPIC, NEW_ID, True)
    (sign,) = [row for row in found if row["kind"] == ("metadata-damaged" if is_clean else "metadata-doubtful")]
    assert ("registration begins at offset 100,000" if is_clean else "no record has the ids") in sign["reason"]
    assert kcli("recover", "--salvage", "--out", tmp_path / "new", directory).status == 0
    saved, whole = image_of(tmp_path / "new"), image_of(GOLDEN / SET)
    assert from_uuid(saved.topics[DAMAGED_TOPIC].id) == NEW_ID
    assert saved.topic_configs(DAMAGED_TOPIC) == whole.topic_configs(DAMAGED_TOPIC)
    with served_node(tmp_path / "new"):
        pass
    assert not strays(tmp_path / "new")


def test_a_topic_with_directories_of_both_ids_keeps_its_own(tmp_path: Path) -> None:
    directory = copied(tmp_path)
    (directory / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":100000}')
    (directory / "java-none-1/partition.metadata").write_text(f"version: 0\ntopic_id: {NEW_ID}")
    kcli("recover", "--salvage", "--out", tmp_path / "new", directory)
    assert image_of(tmp_path / "new").topics["java-none"].id == image_of(GOLDEN / SET).topics["java-none"].id
    assert "1 partition is renamed to -stray" in kcli("recover", tmp_path / "new").stdout


@pytest.mark.parametrize("is_copied", [False, True])
def test_a_name_that_the_metadata_log_does_not_place_here(tmp_path: Path, is_copied: bool) -> None:
    """The directory has the id of an existing topic: Kafka leaves it as it is."""
    directory = copied(tmp_path)
    other, whole = directory / "JAVA-LZ4-0", logs_and_id(directory / "java-lz4-0")
    shutil.copytree(directory / "java-lz4-0", other)
    if is_copied:
        recover_reports(directory, "the id of topic java-lz4", "Kafka leaves the directory as it is")
    else:
        shutil.rmtree(directory / "java-lz4-0")
        recover_reports(directory, "Kafka makes an empty one, and does not serve JAVA-LZ4-0, which has the records")
        found = rows(kcli("recover", "--format", "jsonl", directory).stdout)
        (row,) = [row for row in found if row["kind"] == "partition" and row["partition"] == "java-lz4-0"]
        assert (row["log_start_offset"], row["log_end_offset"], row["missing"]) == (0, 0, True)
        assert kcli("recover", "--salvage", "--out", tmp_path / "new", directory).status == 0
        assert logs_and_id(tmp_path / "new/java-lz4-0") == whole
    with served_node(directory):
        pass
    assert not strays(directory)
    assert logs_and_id(other) == whole
    assert (logs_and_id(directory / "java-lz4-0") == whole) == is_copied


@pytest.mark.parametrize("is_cut", [False, True])
def test_salvage_begins_beyond_the_leader_epochs_and_producer_ids_in_use(tmp_path: Path, is_cut: bool) -> None:
    """A new producer with the id of an older one would get OUT_OF_ORDER_SEQUENCE_NUMBER."""
    directory = copied(tmp_path)
    partition = directory / f"{DAMAGED_TOPIC}-0"
    (partition / "leader-epoch-checkpoint").write_text("0\n1\n7 0\n")
    entry = ProducerEntry(4_321, 0, 5, 5, 0, 0, -1, -1)
    (partition / "00000000000000000006.snapshot").write_bytes(build_producers(ProducerSnapshot((entry,))))
    if is_cut:
        flip(directory / LOG, byte_of(directory, "TopicRecord", "java-none"))
    else:
        (directory / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":100000}')
        (directory / "java-none-0/partition.metadata").write_text(f"version: 0\ntopic_id: {NEW_ID}")
    assert kcli("recover", "--salvage", "--out", tmp_path / "new", directory).status == 0
    saved = image_of(tmp_path / "new")
    assert saved.topics[DAMAGED_TOPIC].partitions[0].leader_epoch == 7
    assert saved.topics["java-gzip"].partitions == image_of(GOLDEN / SET).topics["java-gzip"].partitions
    assert saved.next_producer_id > 4_321
    assert saved.next_producer_id % 1000 == 0


def test_salvage_begins_beyond_the_leader_epoch_of_the_batches_where_the_checkpoint_is_lost(tmp_path: Path) -> None:
    """Kafka cuts the leader-epoch-checkpoint that it rebuilds, and would use the epoch again."""
    directory = copied(tmp_path)
    partition = directory / f"{DAMAGED_TOPIC}-0"
    (partition / "leader-epoch-checkpoint").unlink()
    log = max(partition.glob("*.log"))
    data = bytearray(log.read_bytes())
    at, _ = frames(data)[-1]
    data[at + 12 : at + 16] = (7).to_bytes(4)
    log.write_bytes(data)
    flip(directory / LOG, byte_of(directory, "TopicRecord", "java-none"))
    assert kcli("recover", "--salvage", "--out", tmp_path / "new", directory).status == 0
    assert image_of(tmp_path / "new").topics[DAMAGED_TOPIC].partitions[0].leader_epoch == 7


@pytest.mark.parametrize("is_copy", [False, True])
def test_a_partition_that_was_added_right_before_a_crash(tmp_path: Path, is_copy: bool) -> None:
    """No checkpoint has it yet, nor one that is a copy of another partition's directory, which stays a stray."""
    directory = copied(tmp_path)
    number = len(image_of(directory).topics["java-none"].partitions)
    added = Path(shutil.copytree(directory / "java-none-0", directory / f"java-none-{number}"))
    if not is_copy:
        for path in added.glob("0*"):
            path.unlink()
        (added / f"{0:020}.log").write_bytes(keyed(b"key", b"value"))
    flip(directory / LOG, byte_of(directory, "TopicRecord", "java-gzip"))
    new = tmp_path / "new"
    kcli("recover", "--salvage", "--out", new, directory)
    assert (number in image_of(new).topics["java-none"].partitions) is not is_copy
    assert ("stray" in kcli("recover", new).stdout) is is_copy


@pytest.mark.parametrize("content", [None, ""])
def test_a_rebuilt_topic_gets_partitions_that_lack_their_topic_id(tmp_path: Path, content: str | None) -> None:
    """The directory of another partition of the topic has the id."""
    directory = copied(tmp_path)
    before = image_of(directory).topics["java-none"]
    assert len(before.partitions) > 1
    file = directory / "java-none-1/partition.metadata"
    if content is None:
        file.unlink()
    else:
        file.write_text(content)
    flip(directory / LOG, byte_of(directory, "TopicRecord", "java-none"))
    new = tmp_path / "new"
    found = rows(kcli("recover", "--salvage", "--format", "jsonl", "--out", new, directory).stdout)
    assert [row["partition"] for row in found if row["kind"] == "topic-id"] == ["java-none-1"]
    saved = image_of(new).topics["java-none"]
    assert (saved.id, saved.partitions.keys()) == (before.id, before.partitions.keys())
    assert topic_id_of(new / "java-none-1") == from_uuid(before.id)
    assert "stray" not in kcli("recover", new).stdout


def test_salvage_goes_on_where_the_topic_id_of_an_unknown_topic_is_illegible(tmp_path: Path) -> None:
    directory = copied(tmp_path)
    shutil.copytree(directory / "java-none-1", directory / "unknown-0")
    (directory / "unknown-0/partition.metadata").write_text("")
    ended = kcli("recover", "--salvage", "--out", tmp_path / "new", directory)
    assert (ended.status, ended.stderr) == (1, "")
    assert "refused          unknown-0/partition.metadata" in ended.stdout


def test_a_metadata_log_that_begins_behind_all_snapshots(tmp_path: Path) -> None:
    """Kafka fails there before it reads any record; verify and recover report it first."""
    directory = copied(tmp_path)
    log = directory / LOG
    data = log.read_bytes()
    at = frames(data)[3][0]
    first = int.from_bytes(data[at : at + 8])
    for path in log.parent.iterdir():
        if path.suffix in (".log", ".index", ".timeindex", ".checkpoint", ".snapshot"):
            path.unlink()
    log.with_name(f"{first:020}.log").write_bytes(data[at:])
    lines = kcli("verify", "--format", "jsonl", directory).stdout.splitlines()
    found = [each for each in map(json.loads, lines) if each.get("severity") == "error"]
    assert (found[0]["kind"], found[0]["refuses_start"]) == ("metadata-log-start", True)
    reason = f"the metadata log begins at {first:,} and no snapshot reaches that far"
    assert reason in found[0]["found"]
    assert reason in kcli("recover", directory).stdout


def test_the_snapshot_at_which_the_log_begins_has_another_name(tmp_path: Path) -> None:
    """A crash of the file system after a broker had renamed the snapshot, and deleted the log below it."""
    directory = copied(tmp_path)
    log = directory / LOG
    data, whole = log.read_bytes(), image_of(directory)
    at = frames(data)[-1][0]
    which = SnapshotId(int.from_bytes(data[at : at + 8]), int.from_bytes(data[at + 12 : at + 16]))
    for path in log.parent.iterdir():
        if path.suffix in (".log", ".index", ".timeindex", ".checkpoint", ".snapshot"):
            path.unlink()
    log.with_name(f"{which.offset:020}.log").write_bytes(data[at:])
    part = log.with_name(f"{which.file_name}.part")
    snapshot = image_bytes(whole, which, 0, [])
    part.write_bytes(snapshot[:-1])
    assert "look for the snapshot" in kcli("verify", directory).stdout
    part.write_bytes(snapshot)
    new = tmp_path / "new"
    assert f"all that can be read of {part.name}" in kcli("recover", "--salvage", "--out", new, directory).stdout
    assert list(differences(image_of(new), whole)) == []
    (move,) = re.findall(r"Next: (mv .*)", kcli("verify", directory).stdout)
    subprocess.run(["bash", "-c", move], check=True)
    assert "refused" not in kcli("recover", directory).stdout
    assert list(differences(image_of(directory), whole)) == []


def test_snapshot_without_its_end(tmp_path: Path) -> None:
    """Kafka uses the part of the snapshot that is there, and starts."""
    directory = copied(tmp_path)
    metadata = directory / "__cluster_metadata-0"
    new = tmp_path / "new"
    flip(directory / LOG, byte_of(directory, "TopicRecord", DAMAGED_TOPIC))
    kcli("recover", "--salvage", "--out", new, directory)
    (snapshot,) = (new / "__cluster_metadata-0").glob("*.checkpoint")
    data = snapshot.read_bytes()
    shutil.rmtree(metadata)
    shutil.copytree(new / "__cluster_metadata-0", metadata)
    (metadata / snapshot.name).write_bytes(data[:-80])
    found = rows(kcli("recover", "--format", "jsonl", directory).stdout)
    assert not names(found, "refused")
    assert [row["reason"] for row in found if row["kind"] == "metadata-damaged"]


def test_partition_with_the_id_of_another_topic(tmp_path: Path) -> None:
    directory = copied(tmp_path)
    shutil.copy(directory / "java-lz4-0/partition.metadata", directory / "mixed-0/partition.metadata")
    ended = kcli("recover", directory)
    assert ended.status == 1
    assert "mixed-0/partition.metadata" in ended.stdout
    assert "the id of topic java-lz4: Kafka starts, and fails to apply the topics of the metadata log" in ended.stdout
    assert "kcli recover --salvage" in ended.stdout
    ids = topic_ids(directory)
    assert kcli("recover", "--salvage", "--out", tmp_path / "new", directory).status == 0
    assert kcli("recover", "--salvage", "--in-place", directory).status == 0
    for each in (directory, tmp_path / "new"):
        assert topic_ids(each) == {**ids, "mixed-0": topic_ids(GOLDEN / SET)["mixed-0"]}
        assert kcli("recover", each).status == 0


def logs_and_id(partition: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in [*partition.glob("*.log"), partition / "partition.metadata"]}


def topic_ids(directory: Path) -> dict[str, str | None]:
    """By the names of directories."""
    return {each.name: topic_id_of(each) for each in directory.iterdir() if each.is_dir()}


@pytest.mark.parametrize("is_the_files", [False, True])
def test_two_directories_with_the_names_of_each_other(tmp_path: Path, is_the_files: bool) -> None:
    """Salvage renames the directories back. Where only the partition.metadata files were exchanged, which the high
    watermarks show, it corrects the topic ids."""
    directory = copied(tmp_path)
    one, other, aside = directory / "mixed-0", directory / "recompress-none-0", directory / "aside"
    sound = {each.name: logs_and_id(each) for each in (one, other)}
    if is_the_files:
        one, other = (each / "partition.metadata" for each in (one, other))
    one.rename(aside)
    other.rename(one)
    aside.rename(other)
    found = rows(kcli("recover", "--salvage", "--format", "jsonl", directory).stdout)
    told = rows(kcli("verify", "--format", "jsonl", "--severity", "error", directory).stdout)
    (command,) = [each["command"] for each in told if each["kind"] == "partition-swapped"]
    shutil.copytree(directory, tmp_path / "by-hand")
    subprocess.run(["bash", "-c", command.replace(str(directory), str(tmp_path / "by-hand"))], check=True)
    kind = "topic-id" if is_the_files else "renamed"
    assert {row["partition"] for row in found if row["kind"] == kind} == {"mixed-0", "recompress-none-0"}
    assert kcli("recover", "--salvage", "--out", tmp_path / "new", directory).status == 0
    assert kcli("recover", "--salvage", "--in-place", directory).status == 0
    for each in (directory, tmp_path / "new", tmp_path / "by-hand"):
        assert {name: logs_and_id(each / name) for name in sound} == sound
        assert kcli("recover", each).status == 0


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("lost", ["mixed-0", "recompress-none-0"])
def test_one_of_two_directories_with_the_names_of_each_other_has_no_topic_id(
    tmp_path: Path, lost: str, is_clean: bool
) -> None:
    """The other one's topic id and the log ends tell; a topic id that is written by the name would give each topic the
    other's records. After a crash a log that is too short tells."""
    directory = copied(tmp_path)
    one, other, aside = directory / "mixed-0", directory / "recompress-none-0", directory / "aside"
    sound = {each.name: logs_and_id(each) for each in (one, other)}
    one.rename(aside)
    other.rename(one)
    aside.rename(other)
    (directory / lost / "partition.metadata").unlink()
    if not is_clean:
        (directory / ".kafka_cleanshutdown").unlink()
    assert {row["kind"] for row in rows(kcli("recover", "--format", "jsonl", directory).stdout)} >= {"exchanged"}
    assert kcli("recover", "--salvage", "--out", tmp_path / "new", directory).status == 0
    assert kcli("recover", "--salvage", "--in-place", directory).status == 0
    for each in (directory, tmp_path / "new"):
        assert {name: logs_and_id(each / name) for name in sound} == sound


def test_nothing_tells_whose_records_a_directory_without_topic_id_has(tmp_path: Path) -> None:
    """The logs end at one offset: salvage leaves both directories as they are."""
    directory = copied(tmp_path)
    names = "java-none-0", "java-gzip-0"
    (directory / names[0] / "partition.metadata").rename(directory / names[1] / "partition.metadata")
    before = [{path.name: path.read_bytes() for path in (directory / name).glob("*.*")} for name in names]
    ended = kcli("recover", "--salvage", "--out", tmp_path / "new", directory)
    assert ended.status == 1
    assert "salvage leaves them as they are" in ended.stdout
    assert "keeps them in service" not in ended.stdout
    for name, files in zip(names, before, strict=True):
        found = {path.name: path.read_bytes() for path in (tmp_path / "new" / name).glob("*.*")}
        kept = ("partition.metadata", f"{0:020}.log")
        assert [found.get(each) for each in kept] == [files.get(each) for each in kept]


@pytest.mark.parametrize("is_the_files", [False, True])
def test_directories_of_which_nothing_tells_what_they_have_exchanged(tmp_path: Path, is_the_files: bool) -> None:
    """Salvage could give records to the wrong topic: it leaves both directories, and verify shows both ways out."""
    directory = copied(tmp_path)
    one, other, aside = directory / "mixed-0", directory / "recompress-none-0", directory / "aside"
    sound = {each.name: logs_and_id(each) for each in (one, other)}
    for name in ("replication-offset-checkpoint", "recovery-point-offset-checkpoint"):
        version, _, *entries = (directory / name).read_text().splitlines()
        kept = [each for each in entries if not each.startswith(("mixed 0 ", "recompress-none 0 "))]
        (directory / name).write_text("\n".join([version, str(len(kept)), *kept, ""]))
    if is_the_files:
        one, other = (each / "partition.metadata" for each in (one, other))
    one.rename(aside)
    other.rename(one)
    aside.rename(other)
    before = {name: logs_and_id(directory / name) for name in sound}
    ended = kcli("recover", "--salvage", "--out", tmp_path / "new", directory)
    assert ended.status == 1
    assert "salvage leaves them as they are" in ended.stdout
    assert {name: logs_and_id(tmp_path / "new" / name) for name in sound} == before
    found = rows(kcli("verify", "--format", "jsonl", "--severity", "error", directory).stdout)
    (told,) = [each for each in found if each["kind"] == "partition-swapped"]
    assert "either their names or their partition.metadata" in told["found"]
    ways = re.fullmatch(".*write the files anew: (.*); if they are .* their names back: (.*)", told["action"])
    assert ways is not None
    subprocess.run(["bash", "-c", ways[1 if is_the_files else 2]], check=True)
    assert {name: logs_and_id(directory / name) for name in sound} == sound


@pytest.mark.parametrize("content", [None, "version: 0\ntopic_id: ?\n"])
def test_partition_metadata_that_is_missing_or_cannot_be_read(tmp_path: Path, content: str | None) -> None:
    """Kafka begins the partition anew beside a stray, or does not start; salvage writes the id that the metadata log
    has."""
    directory = copied(tmp_path)
    ids = topic_ids(directory)
    path = directory / "mixed-0/partition.metadata"
    path.unlink() if content is None else path.write_text(content)
    ended = kcli("recover", directory)
    assert ended.status == 1
    assert "kcli recover --salvage" in ended.stdout
    found = rows(kcli("recover", "--format", "jsonl", directory).stdout)
    if content is None:
        (stray,) = [row for row in found if row["kind"] == "stray"]
        (partition,) = [row for row in found if row["kind"] == "partition" and row["partition"] == "mixed-0"]
        assert stray["offsets"] > 0
        assert (partition["log_start_offset"], partition["log_end_offset"], partition["stray"]) == (0, 0, True)
    assert kcli("recover", "--salvage", "--out", tmp_path / "new", directory).status == 0
    assert kcli("recover", "--salvage", "--in-place", directory).status == 0
    for each in (directory, tmp_path / "new"):
        assert topic_ids(each) == ids
        assert kcli("recover", each).status == 0


@pytest.mark.parametrize("bases", [(137, 71), (0, 0), (261, 160)])
def test_logs_of_two_partitions_that_have_the_places_of_each_other(tmp_path: Path, bases: tuple[int, int]) -> None:
    """Kafka starts, and serves the records of one partition as those of the other; nothing is lost yet."""
    directory = copied(tmp_path)
    one, other = directory / f"mixed-0/{bases[0]:020}.log", directory / f"java-lz4-0/{bases[1]:020}.log"
    sound = {each: each.read_bytes() for each in (one, other)}
    one.write_bytes(sound[other])
    other.write_bytes(sound[one])
    ended = kcli("recover", "--format", "jsonl", directory)
    assert ended.status == 1
    found = [(row["partition"], row["owner"]) for row in rows(ended.stdout) if row["kind"] == "exchanged"]
    assert sorted(found) == [("java-lz4-0", f"mixed-0/{one.name}"), ("mixed-0", f"java-lz4-0/{other.name}")]
    assert "it was moved" not in ended.stdout  # no other log belongs behind the end of one of the two
    assert "kcli recover --salvage --out NEW" in kcli("recover", directory).stdout
    assert kcli("recover", "--salvage", "--out", tmp_path / "new", directory).status == 0
    assert kcli("recover", "--salvage", "--in-place", directory).status == 0
    for each in (directory, tmp_path / "new"):
        assert {log: (each / log.relative_to(directory)).read_bytes() for log in sound} == sound
        assert kcli("recover", "--unclean", each).status == 0


def test_something_in_the_way_of_a_segment(tmp_path: Path) -> None:
    directory = copied(tmp_path)
    for file in (directory / "mixed-0").glob("0*"):
        file.unlink()
    (directory / "mixed-0/00000000000000000000.log").mkdir()
    recover_reports(directory, "something that is no file has its name")


def test_two_log_directories(tmp_path: Path) -> None:
    """A topic whose partitions all lie in the other directory is stray there, and is restored from there."""
    directory = copied(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    for each in list(directory.glob(f"{DAMAGED_TOPIC}-*")):
        each.rename(other / each.name)
    (other / "meta.properties").write_text(
        "\n".join(
            "directory.id=abcdefghijklmnopqrstuw" if line.startswith("directory.id") else line
            for line in (directory / "meta.properties").read_text().splitlines()
        )
    )
    flip(directory / LOG, byte_of(directory, "TopicRecord", DAMAGED_TOPIC))
    config = tmp_path / "server.properties"
    config.write_text(f"node.id=1\nlog.dirs={directory},{other}\n")
    found = rows(kcli("recover", "--format", "jsonl", "--config", config, other).stdout)
    assert names(found, "stray") == partitions(other)
    ended = kcli("recover", "--salvage", "--config", config, other)
    assert "kept" not in ended.stdout
    assert f"kcli recover --salvage --config {config} --out NEW-{directory.name} {directory}" in ended.stdout
    assert "when the copy has its place, recover this directory anew" in ended.stdout
    new = tmp_path / "new"
    assert kcli("recover", "--salvage", "--config", config, "--out", new, directory).status == 0
    assert {from_uuid(each) for each in image_of(new).topics[DAMAGED_TOPIC].partitions[0].directories} == {
        "abcdefghijklmnopqrstuw"
    }
    config.write_text(f"node.id=1\nlog.dirs={new},{other}\n")
    assert not names(rows(kcli("recover", "--format", "jsonl", "--config", config, other).stdout), "stray")


def test_two_directories_of_one_partition(tmp_path: Path) -> None:
    """Kafka does not start with two directories of one partition; salvage keeps the second as a stray."""
    directory = copied(tmp_path)
    shutil.copytree(directory / f"{DAMAGED_TOPIC}-0", directory / f"{DAMAGED_TOPIC}-00")
    ended = kcli("recover", "--format", "jsonl", directory)
    assert ended.status == 1
    assert [row["file"] for row in rows(ended.stdout) if row["kind"] == "refused"] == [f"{DAMAGED_TOPIC}-00"]
    assert "kcli recover --salvage --out NEW" in kcli("recover", directory).stdout
    found = rows(kcli("recover", "--salvage", "--format", "jsonl", directory).stdout)
    assert [(row["file"], row["mended"]) for row in found if row["kind"] == "refused"] == [
        (f"{DAMAGED_TOPIC}-00", True)
    ]
    assert kcli("recover", "--salvage", "--out", tmp_path / "new", directory).status == 0
    assert kcli("recover", "--salvage", "--in-place", directory).status == 0
    for each in (directory, tmp_path / "new"):
        assert not (each / f"{DAMAGED_TOPIC}-00").exists()
        (stray,) = each.glob(f"{DAMAGED_TOPIC}-0.*-stray")
        logs = [(path.name, path.read_bytes()) for path in sorted(stray.glob("*.log"))]
        assert logs == [(path.name, path.read_bytes()) for path in sorted((each / f"{DAMAGED_TOPIC}-0").glob("*.log"))]
        assert kcli("recover", each).status == 0


@pytest.mark.parametrize("name", ["it's-0", "sp ace-0", "#-0", "été-0", "x-+1"])
def test_a_directory_whose_name_is_no_topics(tmp_path: Path, name: str) -> None:
    """Kafka starts, and renames it."""
    directory = copied(tmp_path)
    (directory / name).mkdir()
    found = rows(kcli("recover", "--format", "jsonl", directory).stdout)
    assert names(found, "refused") == set()
    assert names(found, "stray") == {name}
    assert kcli("recover", "--out", tmp_path / "new", directory).status == 0
    with served_node(directory, "--allow-strays"):
        pass
    assert not (directory / name).exists()
    assert len(list(directory.glob("*-stray"))) == 1


@pytest.mark.parametrize("name", ["-0", "x-", "x", "x-1y", "x-2147483648"])
def test_a_directory_that_is_no_partitions(tmp_path: Path, name: str) -> None:
    directory = copied(tmp_path)
    (directory / name).mkdir()
    ended = kcli("recover", "--format", "jsonl", directory)
    assert ended.status == 1
    assert [(row["file"], row["mended"]) for row in rows(ended.stdout) if row["kind"] == "refused"] == [(name, False)]
    assert kcli("recover", directory).stdout.count("\nnext  ") == 1
    ended = kcli("recover", "--salvage", "--out", tmp_path / "new", directory)
    assert ended.status == 0
    assert (
        f"mended           {name}\n                 left out of the copy: Kafka would not start with it" in ended.stdout
    )
    assert "1 obstacle to a start of Kafka is mended" in ended.stdout
    assert not (tmp_path / "new" / name).exists()
    assert kcli("recover", tmp_path / "new").status == 0
    assert kcli("recover", "--salvage", "--in-place", directory).status == 1  # there it stays


def test_three_directories_that_have_changed_names_lose_nothing(tmp_path: Path) -> None:
    directory = copied(tmp_path)
    cycle = ["mixed-0", "crafted-0", "java-none-0"]
    first, *rest = (directory / name for name in cycle)
    first.rename(directory / "away")
    for place, path in zip([first, *rest], rest, strict=False):
        path.rename(place)
    (directory / "away").rename(rest[-1])
    found = rows(kcli("recover", "--format", "jsonl", directory).stdout)
    owners = {row["partition"]: row["owner"] for row in found if row["kind"] == "exchanged"}
    assert owners == {"crafted-0": "mixed-0", "java-none-0": "crafted-0", "mixed-0": "java-none-0"}
    assert not names(found, "end-missing")


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_flipped_bit_in_a_topic_id(tmp_path: Path, is_clean: bool) -> None:
    directory = copied(tmp_path)
    path = directory / f"{DAMAGED_TOPIC}-0/partition.metadata"
    before = path.read_bytes()
    at = before.index(b"topic_id: ") + len(b"topic_id: ") + 4
    other = next(before[at] ^ 1 << bit for bit in range(7) if chr(before[at] ^ 1 << bit).isalnum())
    path.write_bytes(before[:at] + bytes([other]) + before[at + 1 :])
    if not is_clean:
        (directory / ".kafka_cleanshutdown").unlink()
    found = rows(kcli("recover", "--format", "jsonl", directory).stdout)
    (stray,) = [row for row in found if row["kind"] == "stray"]
    assert (stray["partition"], stray["garbled"]) == (f"{DAMAGED_TOPIC}-0", True)
    kcli("recover", "--salvage", "--out", tmp_path / "new", directory)
    assert (tmp_path / "new" / f"{DAMAGED_TOPIC}-0/partition.metadata").read_bytes() == before
    assert image_of(tmp_path / "new").topics == image_of(GOLDEN / SET).topics
    told = [json.loads(line) for line in kcli("verify", "--format", "jsonl", directory).stdout.splitlines()]
    (wrong,) = [each for each in told if each["kind"] == "partition-metadata-topic"]
    assert "few characters differ" in wrong["found"]
    subprocess.run(["bash", "-c", wrong["command"]], check=True)
    assert path.read_bytes() == before


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_topic_id_in_another_letter_case(tmp_path: Path, is_clean: bool) -> None:
    """A tool has changed partition.metadata as text. Salvage writes this file anew, and gives the topic no other id."""
    directory = copied(tmp_path)
    path = directory / f"{DAMAGED_TOPIC}-0/partition.metadata"
    before = path.read_bytes()
    path.write_bytes(before.lower())
    if not is_clean:
        (directory / ".kafka_cleanshutdown").unlink()
    recover_reports(directory, "is that of the topic but for letter case", f"recover --salvage --out NEW {directory}")
    found = rows(kcli("recover", "--format", "jsonl", directory).stdout)
    (stray,) = [row for row in found if row["kind"] == "stray"]
    assert (stray["partition"], stray["garbled"]) == (f"{DAMAGED_TOPIC}-0", True)
    assert not [row for row in found if row["kind"].startswith("metadata-")]
    kcli("recover", "--salvage", "--out", tmp_path / "new", directory)
    assert (tmp_path / "new" / f"{DAMAGED_TOPIC}-0/partition.metadata").read_bytes() == before
    assert image_of(tmp_path / "new").topics == image_of(GOLDEN / SET).topics
    told = [json.loads(line) for line in kcli("verify", "--format", "jsonl", directory).stdout.splitlines()]
    (wrong,) = [each for each in told if each["kind"] == "partition-metadata-topic"]
    assert "in another letter case" in wrong["found"]
    subprocess.run(["bash", "-c", wrong["command"]], check=True)
    assert path.read_bytes() == before
