"""The metadata image of a read-only broker: the readable part of the metadata log, and the partitions on disk.

    metadata log   the latest complete snapshot, then each readable record after it; damage is skipped
    brokers        this broker, which leads all partitions on its disks; no other broker of the cluster
    topic ids      from the metadata log, else from partition.metadata, else derived from the topic's name

Source: KRaftMetadataCache; KIP-516.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import NAMESPACE_URL, uuid5

from kcli.broker.read_only.directory import FoundPartition
from kcli.log.partition_view import PartitionView
from kcli.metadata.image import MetadataImage
from kcli.metadata.partition import NO_LEADER, from_uuid, to_uuid
from kcli.metadata_log.replay import replay as replay_files
from kcli.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kcli.metadata.partition import Topic

log = logging.getLogger("kcli.broker")
# The missing partition numbers below a topic's largest number on disk are added to the image, without a leader, unless
# the largest number is GAP_MAX or above.
GAP_MAX = 10_000


def replay(directory: Path) -> MetadataImage:
    """Return the metadata image that results from the metadata log in a directory. Damage in the log is logged, and
    skipped. Raises UnreadableInput."""
    files = PartitionView(directory).original
    return replay_files(directory, files, lambda error: log.warning("%s", error), around_damage=True)


def show_what_is_there(image: MetadataImage, found: Mapping[TopicPartition, FoundPartition], node_id: int) -> None:
    """Change the image so that this node leads the partitions in `found`, those on its disks. A partition that this
    node leads according to the metadata log, but that is not on its disks, gets no leader."""
    by_topic: dict[str, dict[int, FoundPartition]] = {}
    for (name, number), each in found.items():
        by_topic.setdefault(name, {})[number] = each
    for name, partitions in by_topic.items():
        topic = image.topics.get(name)
        if topic is None:
            record = {"name": name, "topicId": _topic_id(image, name, partitions.values())}
            image.apply("TopicRecord", record, image.offset)
            topic = image.topics[name]
        _lead(image, topic, partitions, node_id)
    for topic in list(image.topics.values()):
        for number, state in list(topic.partitions.items()):
            if (topic.name, number) not in found and state.leader == node_id:
                _set(image, topic, number, state.replicas, (), NO_LEADER, state.leader_epoch)


def _topic_id(image: MetadataImage, name: str, partitions: Iterable[FoundPartition]) -> str:
    for each in partitions:
        topic_id = each.topic_id()
        if topic_id is not None and to_uuid(topic_id) not in image.topics_by_id:
            return topic_id
    return from_uuid(uuid5(NAMESPACE_URL, f"kafka-topic:{name}"))


def _lead(image: MetadataImage, topic: Topic, partitions: Mapping[int, FoundPartition], node_id: int) -> None:
    last = max(partitions)
    for number in sorted({*partitions, *(range(last) if last < GAP_MAX else ())}):
        state = topic.partitions.get(number)
        replicas = (node_id,) if state is None or node_id not in state.replicas else state.replicas
        epoch = 0 if state is None else state.leader_epoch
        if number in partitions:
            _set(image, topic, number, replicas, (node_id,), node_id, epoch)
        elif state is None:
            _set(image, topic, number, replicas, (), NO_LEADER, epoch)


def _set(
    image: MetadataImage,
    topic: Topic,
    number: int,
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    leader: int,
    epoch: int,
) -> None:
    record = {
        "partitionId": number,
        "topicId": from_uuid(topic.id),
        "replicas": replicas,
        "isr": isr,
        "leader": leader,
        "leaderEpoch": epoch,
        "partitionEpoch": 0,
    }
    image.apply("PartitionRecord", record, image.offset)
