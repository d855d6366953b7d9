"""A start with a damaged metadata log stops before partitions would become strays, unless an option tells it to go
on."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from kcli.broker.log_dirs.directories import LogDirsRefused
from kcli.metadata.partition import from_uuid
from tests.broker.metadata_dirs import open_metadata
from tests.broker.running import RunningNode, served_node
from tests.broker.test_serve import refused
from tests.conftest import files_below
from tests.metadata_damage import LOG, batches, byte_of, copied, flip, partitions, strays

DAMAGED_TOPIC = "java-zstd"


def damage(directory: Path, how: str) -> None:
    log = directory / LOG
    if how == "flipped":
        flip(log, byte_of(directory, "TopicRecord", DAMAGED_TOPIC))
    elif how == "emptied":
        log.write_bytes(b"")
    elif how == "missing":
        shutil.rmtree(directory / "__cluster_metadata-0")
    else:  # the log ends in front of the topic's batch, after an unclean shutdown
        log.write_bytes(log.read_bytes()[: byte_of(directory, "TopicRecord", DAMAGED_TOPIC)])
        (directory / "__cluster_metadata-0/leader-epoch-checkpoint").unlink()
        (directory / ".kafka_cleanshutdown").unlink()


@pytest.mark.parametrize("how", ["flipped", "emptied", "missing", "cut off"])
def test_a_start_stops_before_it_changes_anything(tmp_path: Path, how: str) -> None:
    directory = copied(tmp_path)
    damage(directory, how)
    before = files_below(directory)
    said = refused("--data-dir", str(directory), "--listen", "127.0.0.1:0")
    assert f"{DAMAGED_TOPIC}-0" in said
    assert f"kcli recover --dry-run {directory}" in said
    assert "--allow-strays" in said
    assert {name: found for name, found in files_below(directory).items() if name != ".lock"} == before
    with served_node(directory, "--allow-strays"):
        pass
    assert f"{DAMAGED_TOPIC}-0" in strays(directory)


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_start_stops_at_records_without_partition_metadata(tmp_path: Path, is_clean: bool) -> None:
    """This holds whatever the metadata log has. Kafka would treat a partition without partition.metadata as an empty
    one."""
    directory = copied(tmp_path)
    (directory / "mixed-0/partition.metadata").unlink()
    (directory / "new-0").mkdir()
    if not is_clean:
        (directory / ".kafka_cleanshutdown").unlink()
    before = files_below(directory)
    said = refused("--data-dir", str(directory), "--listen", "127.0.0.1:0")
    assert f"1 partition in {directory} without partition.metadata, and with records" in said
    assert "mixed-0" in said
    assert f"Next: kcli verify {directory}; or --allow-strays" in said
    assert {name: found for name, found in files_below(directory).items() if name != ".lock"} == before
    with served_node(directory, "--allow-strays"):
        pass
    assert strays(directory) == {"mixed-0", "new-0"}


async def remove(directory: Path, topic: str) -> None:
    metadata = open_metadata(directory)
    await metadata.append([("RemoveTopicRecord", 0, {"topicId": from_uuid(metadata.image.topics[topic].id)})])
    await metadata.close()


@pytest.mark.parametrize("is_clean", [True, False])
def test_deleted_topics_do_not_hinder(tmp_path: Path, is_clean: bool) -> None:
    """The broker died after a topic's deletion and before it renamed the directories, also with a clean shutdown
    marker; or after it created a partition's directory and before it wrote partition.metadata."""
    directory = copied(tmp_path)
    asyncio.run(remove(directory, DAMAGED_TOPIC))
    if not is_clean:
        (directory / ".kafka_cleanshutdown").unlink()
        with (directory / LOG).open("ab") as log:
            log.write(bytes(17))  # a torn append
        (directory / "new-0").mkdir()
    node = RunningNode(directory, {})
    node.stop()
    assert f"{DAMAGED_TOPIC}-0" in strays(directory)


def test_what_a_sound_log_never_named_is_a_stray_after_a_clean_shutdown(tmp_path: Path) -> None:
    directory = copied(tmp_path)
    shutil.copytree(directory / "mixed-0", directory / "other-0")
    id_file = directory / "other-0/partition.metadata"
    id_file.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg\n")
    RunningNode(directory, {}).stop()
    assert strays(directory) == {"other-0"}


def test_a_directory_with_the_id_of_another_topic_stops_a_start(tmp_path: Path) -> None:
    """Kafka starts with such a directory, and serves only some partitions."""
    directory = copied(tmp_path)
    foreign, owner = directory / "mixed-0", directory / f"{DAMAGED_TOPIC}-0"
    shutil.copyfile(owner / "partition.metadata", foreign / "partition.metadata")
    before = {name: found for name, found in files_below(directory).items() if "__cluster" not in name}
    said = refused("--data-dir", str(directory), "--listen", "127.0.0.1:0", "--allow-strays")
    assert f"{foreign}/partition.metadata has the id of topic {DAMAGED_TOPIC}, and the directory the name" in said
    assert f"kcli verify {directory}" in said
    left = {name: found for name, found in files_below(directory).items() if "__cluster" not in name}
    assert {name: found for name, found in left.items() if name != ".lock"} == before


@pytest.mark.parametrize("which", [3, -1])
def test_a_batch_that_the_metadata_log_has_twice_is_replayed_twice(tmp_path: Path, which: int) -> None:
    directory = copied(tmp_path)
    before = partitions(directory)
    log = directory / LOG
    row, data = batches(directory)[which], log.read_bytes()
    end = row.position + row.size
    log.write_bytes(data[:end] + data[row.position :])
    RunningNode(directory, {}).stop()
    assert partitions(directory) == before


def test_a_new_node_and_a_sound_one_start(tmp_path: Path) -> None:
    RunningNode(tmp_path / "new", {}).stop()
    directory = copied(tmp_path)
    before = partitions(directory)
    (directory / ".kafka_cleanshutdown").unlink()
    RunningNode(directory, {}).stop()
    assert partitions(directory) == before


def test_message_is_one_line(tmp_path: Path) -> None:
    directory = copied(tmp_path)
    damage(directory, "emptied")
    with pytest.raises(LogDirsRefused, match=r"and [0-9]+ more") as raised:
        RunningNode(directory, {})
    assert "\n" not in str(raised.value)
