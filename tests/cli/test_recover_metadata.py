"""kcli recover on a damaged metadata log: what the cut means, and what --salvage brings back."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from formats.properties import parse
from kcli.inspector.cluster_metadata import read_image
from kcli.metadata.image import MetadataImage
from kcli.metadata.partition import from_uuid
from tests.broker.running import served_node
from tests.cli.run import kcli
from tests.conftest import GOLDEN, files_below
from tests.metadata_damage import LOG, SET, batch_around, byte_of, copied, flip, partitions, strays

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
    """One bit is flipped in the batch that creates a topic."""
    directory = copied(tmp_path)
    flip(directory / LOG, byte_of(directory, "TopicRecord", DAMAGED_TOPIC))
    return directory


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
    """Also where later records contradict the gap: changes of partitions, of the broker, no metadata.version."""
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
    """Nothing is cut, and yet records are known to be lost."""
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


def test_missing_where_nobody_says_where_it_is(tmp_path: Path) -> None:
    directory = copied(tmp_path)
    shutil.rmtree(directory / "__cluster_metadata-0")
    ended = kcli("recover", directory)
    assert ended.status == 0
    assert "unless metadata.log.dir is elsewhere" in ended.stdout


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
    ended = kcli("recover", directory)
    assert ended.status == 1
    assert "meta.properties" in ended.stdout
    assert "is missing: nothing says whose log directory this is" in ended.stdout


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
"""What Kafka 4.3.0 did where a checkpoint had text for a number."""


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
        ("__cluster_metadata-0/00000000000000000005-0000000001.checkpoint", "xxxx"),
        ("__cluster_metadata-0/00000000000000000005-0000000001.checkpoint", ""),
    ],
)
def test_files_that_keep_kafka_from_starting(tmp_path: Path, file: str, content: str) -> None:
    """Each was tried with Kafka 4.3.0, which ended."""
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
    """Whole batches are gone in the middle: nothing is to be cut, and Kafka ends where a topic is changed."""
    directory = copied(tmp_path)
    log = (directory / LOG).read_bytes()
    at = byte_of(directory, "TopicRecord", DAMAGED_TOPIC)
    begin, end = batch_around(directory, at)
    (directory / LOG).write_bytes(log[:begin] + log[end:])
    ended = kcli("recover", directory)
    assert ended.status == 1
    assert "Kafka would not start: offset" in ended.stdout
    assert "kcli recover --salvage" in ended.stdout


def test_an_offset_that_jumps(tmp_path: Path) -> None:
    """No CRC covers the base offset of a batch: nothing is cut, and Kafka waits for the offsets between."""
    directory = copied(tmp_path)
    begin, _ = batch_around(directory, byte_of(directory, "TopicRecord", DAMAGED_TOPIC))
    flip(directory / LOG, begin + 4)
    ended = kcli("recover", directory)
    assert ended.status == 1
    assert "follows on" in ended.stdout
    new = tmp_path / "new"
    assert kcli("recover", "--salvage", "--out", new, directory).status == 0
    assert image_of(new).topics.keys() == image_of(GOLDEN / SET).topics.keys()
    assert image_of(new).offset == image_of(GOLDEN / SET).offset
    with pytest.raises(AssertionError, match="follows on"), served_node(directory, "--allow-strays"):
        pass
    with served_node(new):
        pass


def test_meta_properties_of_another_node(tmp_path: Path) -> None:
    directory = copied(tmp_path)
    meta = directory / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=7"))
    ended = kcli("recover", "--format", "jsonl", directory)
    assert ended.status == 1
    (found,) = [row for row in rows(ended.stdout) if row["kind"] == "passed-over"]
    assert found["file"] == "meta.properties"
    assert "node.id is 7, and the metadata log knows replicas of node 1 only" in found["reason"]


def test_meta_properties_without_version(tmp_path: Path) -> None:
    directory = copied(tmp_path)
    meta = directory / "meta.properties"
    meta.write_text(meta.read_text().replace("version=1", ""))
    found = rows(kcli("recover", "--format", "jsonl", directory).stdout)
    assert [row["file"] for row in found if row["kind"] == "refused"] == ["meta.properties"]


@pytest.mark.parametrize("name", ["00000000000000000000.log", "00000000000000016409.snapshot", "partition.metadata"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_is_no_regular_file(tmp_path: Path, name: str, kind: str) -> None:
    directory = copied(tmp_path)
    path = directory / f"{DAMAGED_TOPIC}-0" / name
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    ended = kcli("recover", directory)
    assert ended.status == 2
    assert f"{path}: not a regular file" in ended.complaint


def test_a_topic_of_the_name_with_another_id(tmp_path: Path) -> None:
    directory = copied(tmp_path)
    path = directory / f"{DAMAGED_TOPIC}-0/partition.metadata"
    path.write_text(f"version: 0\ntopic_id: {'A' * 20}BQ")
    ended = kcli("recover", directory)
    assert "is renamed to -stray at the start: the metadata has topics of their names with other ids" in ended.stdout
    found = rows(kcli("recover", "--format", "jsonl", directory).stdout)
    (row,) = [row for row in found if row["kind"] == "stray"]
    assert row["renewed"]


def test_snapshot_without_its_end(tmp_path: Path) -> None:
    """Kafka takes what is there of it, and starts."""
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
    assert "the id of topic java-lz4: Kafka starts, and does not serve the partition" in ended.stdout


def test_something_in_the_way_of_a_segment(tmp_path: Path) -> None:
    directory = copied(tmp_path)
    for file in (directory / "mixed-0").glob("0*"):
        file.unlink()
    (directory / "mixed-0/00000000000000000000.log").mkdir()
    ended = kcli("recover", directory)
    assert ended.status == 1
    assert "something that is no file has its name" in ended.stdout


def test_two_log_directories(tmp_path: Path) -> None:
    """A topic whose partitions all lie in the other directory is stray there, and rebuilt from there."""
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
    assert f"kcli recover --salvage --config {config} --out NEW {directory}" in ended.stdout
    new = tmp_path / "new"
    assert kcli("recover", "--salvage", "--config", config, "--out", new, directory).status == 0
    assert {from_uuid(each) for each in image_of(new).topics[DAMAGED_TOPIC].partitions[0].directories} == {
        "abcdefghijklmnopqrstuw"
    }
    config.write_text(f"node.id=1\nlog.dirs={new},{other}\n")
    assert not names(rows(kcli("recover", "--format", "jsonl", "--config", config, other).stdout), "stray")


def test_two_directories_of_one_partition(tmp_path: Path) -> None:
    """Kafka does not start with them; salvage keeps the second as a stray."""
    directory = copied(tmp_path)
    shutil.copytree(directory / f"{DAMAGED_TOPIC}-0", directory / f"{DAMAGED_TOPIC}-00")
    ended = kcli("recover", "--format", "jsonl", directory)
    assert ended.status == 1
    assert [row["file"] for row in rows(ended.stdout) if row["kind"] == "refused"] == [f"{DAMAGED_TOPIC}-00"]
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
    found = rows(kcli("recover", "--format", "jsonl", directory).stdout)
    assert [row["file"] for row in found if row["kind"] == "refused"] == [name]
