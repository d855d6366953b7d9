"""The image of a broker that only reads: what the metadata log says, as far as it can be read, and what is there.

    metadata log   the latest snapshot that is whole, then each record behind it that can be read; damage is passed over
    brokers        this one, which leads all that it has; the others of the cluster are not spoken for
    topic ids      of the metadata log, else of partition.metadata, else made from the name: clients need one

Source: KRaftMetadataCache; KIP-516.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import NAMESPACE_URL, uuid5

from formats.errors import FormatError
from formats.file_name import FileKind, parse
from formats.kernels.columns import BatchRow, RecordRow
from formats.kernels.log import FAULT_BAD_CRC, RecordTable
from kcli.broker.read_only.directory import FoundPartition, Key
from kcli.errors import KcliError, UnreadableInput
from kcli.log.batch_records import UNREADABLE, decode
from kcli.log.segment_reader import Damage, read_segment
from kcli.log.source import FileSource
from kcli.metadata.image import MetadataImage, Record
from kcli.metadata.partition import NO_LEADER, from_uuid, to_uuid

if TYPE_CHECKING:
    from kcli.metadata.partition import Topic

log = logging.getLogger("kcli.broker")
GAP_MAX = 10_000  # partitions that are missing between others are told as such, unless a name is absurd


def replay(directory: Path) -> MetadataImage:
    """What the metadata log in a directory says."""
    image, from_offset = _snapshot(directory)
    for _, path in sorted(_named(directory, FileKind.LOG)):
        for offset, record in _records(path):
            if offset >= from_offset:
                _apply(image, record, offset, path)
    return image


def _snapshot(directory: Path) -> tuple[MetadataImage, int]:
    """The image of the latest snapshot that is whole, and the offset behind it."""
    from kcli.broker.metadata.snapshots import read_snapshot

    for (offset, _), path in sorted(_named(directory, FileKind.KRAFT_SNAPSHOT), reverse=True):
        image = MetadataImage(lenient=True)
        try:
            for batch in read_snapshot(path):
                for name, _, value in batch.records:
                    image.apply(name, value, offset - 1)
        except (KcliError, FormatError) as error:
            log.warning("%s: %s: an earlier one, or the log alone, is read instead", path, error)
            continue
        return image, offset
    return MetadataImage(lenient=True), 0


def _named(directory: Path, kind: FileKind) -> Iterator[tuple[tuple[int, int], Path]]:
    """Offset and epoch, and the path, of each file of a kind."""
    for path in directory.iterdir():
        name = parse(path.name)
        if name is not None and name.kind is kind and not name.state:
            yield (name.base_offset or 0, name.epoch or 0), path


def _records(path: Path) -> Iterator[tuple[int, Record]]:
    """Offset and message of each record of a segment that can be read."""
    from kcli.broker.metadata.records import decode_value

    table = RecordTable(4096)
    try:
        source = FileSource(path)
    except UnreadableInput as error:
        log.warning("%s", error)
        return
    try:
        for part in read_segment(source):
            if isinstance(part, Damage):
                log.warning("%s: %d bytes @%d: %s", path, part.length, part.position, part.error.reason)
                continue
            batches = [BatchRow._make(part.batches.row(i)) for i in range(part.batches.count)]
            for buffer in decode(part, table):
                for i in range(table.count):
                    row = RecordRow._make(table.row(i))
                    batch = batches[row.batch]
                    if batch.is_control or batch.faults & (UNREADABLE | FAULT_BAD_CRC):
                        continue
                    value = row.value(buffer) or b""
                    try:
                        yield row.offset, decode_value(value)
                    except FormatError as error:
                        log.warning("%s: offset %d: %s", path, row.offset, error)
    except UnreadableInput as error:
        log.warning("%s", error)
    finally:
        source.close()


def _apply(image: MetadataImage, record: Record, offset: int, path: Path) -> None:
    name, _, value = record
    try:
        image.apply(name, value, offset)
    except (KcliError, FormatError) as error:
        log.warning("%s: offset %d: %s", path, offset, error)


def show_what_is_there(image: MetadataImage, found: Mapping[Key, FoundPartition], node_id: int) -> None:
    """Make the image say that this node leads the partitions that it has, and nobody the others."""
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
        said = each.topic_id()
        if said is not None and to_uuid(said) not in image.topics_by_id:
            return said
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
