"""The last leader epoch and producer id that the files of a partition use.

A metadata log that lacks its last records has lower values of both than the partitions (`newer_than`). A leader with a
lower epoch than that of batches in its log removes entries from the leader-epoch-checkpoint; a new producer with the id
of an older one gets OUT_OF_ORDER_SEQUENCE_NUMBER, or its batches count as duplicates. Source:
LeaderEpochFileCache.assign, ProducerAppendInfo."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from formats.checkpoint import parse_leader_epochs
from formats.errors import FormatError
from formats.file_name import METADATA_TOPIC, FileKind, FileName
from formats.file_name import parse as parse_name
from formats.kernels.batches import BATCH_COLUMNS
from formats.producer_snapshot import parse as parse_snapshot
from kcli.errors import KcliError, UnreadableInput
from kcli.log.leader_epochs import FILE_NAME as LEADER_EPOCHS
from kcli.log.log_directory import LogDirectory, PartitionDirectory
from kcli.log.partition_directory import topic_id_of
from kcli.log.recovery.identity import end_offset
from kcli.log.segment_reader import Damage, read_segment
from kcli.log.source import FileSource, read_whole
from kcli.metadata.image import MetadataImage
from kcli.metadata.partition import to_uuid

PRODUCER_ID: Final = BATCH_COLUMNS.index("producer_id")
LEADER_EPOCH: Final = BATCH_COLUMNS.index("leader_epoch")


class LastBatches(NamedTuple):
    """The highest producer id of the sound batches, and the leader epoch of the last sound batch, in the last segment
    of the partition that has a sound batch; both -1 if no segment has one."""

    producer_id: int = -1
    leader_epoch: int = -1


def newer_than(image: MetadataImage, partitions: Iterable[PartitionDirectory], node_id: int | None) -> Iterator[str]:
    """Yield a line of text if partitions use a producer id that the metadata log has not given out yet, and one if a
    partition uses a leader epoch that the metadata log does not have.

    An intact log is never older: the controller appends a block of producer ids before it allocates the block to a
    broker, and a leader epoch before the leader appends with it. Only partitions of which the image has a replica on
    this node are compared. A leader epoch counts only under three conditions: the last batch and the
    leader-epoch-checkpoint agree on it, as no CRC covers either of them; the topic id and the name of the directory
    agree; and no partition of the topic has this epoch or a higher one in the image, as directories of one topic may
    have exchanged their names.

    image: of a metadata log that has no other voter. node_id: None if it is not known: all partitions are compared.
    """
    following = max(image.next_producer_id, 0)
    used, user = -1, ""
    newer: list[str] = []
    for each in partitions:
        if each.name.topic == METADATA_TOPIC or each.name.state:
            continue
        try:
            topic_id = topic_id_of(each.path)
            topic = None if topic_id is None else image.topic_by_id(to_uuid(topic_id))
        except (KcliError, OSError):  # other checks report this error
            continue
        state = None if topic is None else topic.partitions.get(each.name.partition)
        if topic is None or state is None or (node_id is not None and node_id not in state.replicas):
            continue
        last = last_batches(each.path)
        producer_id = max(last.producer_id, last_producer_id(each.path))
        if producer_id > used:
            used, user = producer_id, each.path.name
        if topic.name != each.name.topic:  # the name or the topic id is wrong: whose log it is, is not known
            continue
        known = max(state.leader_epoch for state in topic.partitions.values())
        if last.leader_epoch > known and last.leader_epoch == last_leader_epoch(each.path):
            newer.append(f"leader epoch {last.leader_epoch:,} is in use in {each.path.name}, not {known:,} or below")
    if used >= following:
        yield f"producer id {used:,} is in use in {user}, and the metadata log gives out {following:,} next"
    yield from newer[:1]


RESTORED_PART = 4
"""If partitions alone are newer than all else in a log directory, they are at most one in so many."""


def restored_alone(home: Path) -> str:
    """Return, in words, which partition is newer than all else in a log directory, the metadata log among it: after a
    clean stop, its log goes on behind its recovery point, and those of most others do not. "" if there is none. Raises
    UnreadableInput."""
    directory = LogDirectory(home)
    points = directory.legible_offsets(FileKind.RECOVERY_POINTS)
    if not directory.was_shut_down_cleanly or not points:
        return ""
    logs = [each for each in directory.partitions() if not each.name.state and each.partition in points]
    ends = {each.partition: end_offset(each.path) or 0 for each in logs}
    ahead = sorted(each for each, end in ends.items() if end > points[each])
    if not ahead or RESTORED_PART * len(ahead) > len(ends):
        return ""
    where = f"its log goes on to {ends[ahead[0]]:,}, and its recovery point is {points[ahead[0]]:,}"
    return f"; or {ahead[0]} alone is newer than all else here: after a clean stop {where}"


def last_batches(partition: Path) -> LastBatches:
    """Return the LastBatches of a partition. Segments are read from the last one back, until one has a sound batch. The
    earlier ones need not be read, as the producer snapshots have their producer ids."""
    try:
        logs = [(name.base_offset or 0, path) for path, name in _parsed(partition) if name.kind is FileKind.LOG]
    except OSError:  # recovery reports this error when it plans this partition
        return LastBatches()
    found = (_of_log(path) for _, path in sorted(logs, reverse=True))
    return next((each for each in found if each != LastBatches()), LastBatches())


def _of_log(log: Path) -> LastBatches:
    producer_id = leader_epoch = -1
    try:
        source = FileSource(log)
    except UnreadableInput:
        return LastBatches()
    try:
        for part in read_segment(source):
            if isinstance(part, Damage):
                continue
            table = part.batches
            if table.first_fault() >= 0:  # a damaged batch may have any id and epoch
                rows = [row for row in map(table.row, range(table.count)) if not row[-1]]
                ids, epochs = [row[PRODUCER_ID] for row in rows], [row[LEADER_EPOCH] for row in rows]
            else:
                with memoryview(table).cast("B").cast("q") as cells:
                    width = len(BATCH_COLUMNS)
                    ids = list(cells[PRODUCER_ID::width])
                    epochs = list(cells[LEADER_EPOCH::width][-1:])
            producer_id = max([producer_id, *ids])
            leader_epoch = epochs[-1] if epochs else leader_epoch
            part.release()
    except UnreadableInput:
        pass
    finally:
        source.close()
    return LastBatches(producer_id, leader_epoch)


def _parsed(partition: Path) -> Iterator[tuple[Path, FileName]]:
    """Yield the files of a partition that have names of Kafka's, without .deleted, .cleaned or .swap at the end. Raises
    OSError."""
    for path in partition.iterdir():
        name = parse_name(path.name)
        if name is not None and not name.state and path.is_file():
            yield path, name


def last_leader_epoch(partition: Path) -> int:
    """The last leader epoch in a partition's leader-epoch-checkpoint; 0 if it has none or cannot be read."""
    try:
        entries = parse_leader_epochs(read_whole(partition / LEADER_EPOCHS))
    except (FormatError, UnreadableInput):
        return 0
    return entries[-1].epoch if entries else 0


def used_leader_epoch(partition: Path) -> int:
    """The higher one of the last leader epoch in a partition's leader-epoch-checkpoint and that of its last batch; 0 if
    neither can be read.

    A backup may lack the checkpoint, or have an older one."""
    return max(last_leader_epoch(partition), last_batches(partition).leader_epoch)


def last_producer_id(partition: Path) -> int:
    """The highest producer id in a partition's producer snapshots that can be read; -1 if there is none."""
    last = -1
    try:
        paths = [path for path, name in _parsed(partition) if name.kind is FileKind.PRODUCER_SNAPSHOT]
    except OSError:  # recovery reports this error when it plans this partition
        return last
    for path in paths:
        try:
            entries = parse_snapshot(read_whole(path)).entries
        except (FormatError, UnreadableInput):
            continue
        last = max([last, *(each.producer_id for each in entries)])
    return last
