"""The offsets that a query with bootstrapFrom reads from a disk, before it reads the others from the brokers.

    the same topic   the topic id in partition.metadata, or that of the tier, or that in the log directory's metadata
                     log, is the brokers' id of the topic; likewise the cluster id of meta.properties, if there is one
    start            the log start offset on the disk. Offsets below it are fetched from the brokers, if they have them
    end              the switch offset, from which on the brokers are asked: one above the last whole batch on the disk,
                     but not above the high watermark of the checkpoint file, below which no leader removes a record;
                     with read_committed the last stable offset there

The disk may belong to a running broker of the cluster, or be a copy of such a disk. With the option `tier`, tiered
storage has the offsets below those on the disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from formats import properties
from formats.errors import FormatError
from formats.file_name import FileKind
from kcli.errors import UnreadableInput, UsageError
from kcli.export import offsets, splits
from kcli.export.discovery import PartitionFiles
from kcli.export.files import is_remote, join, parent_of, read_file, stat
from kcli.export.options import EARLIEST, LATEST, Bound, SourceOptions
from kcli.export.tiered import discover
from kcli.export.topic_ids import topic_id as of_files
from kcli.inspector.cluster_metadata import read_image
from kcli.metadata.partition import from_uuid
from kcli.protocol.topic_partition import TopicPartition


class Span(NamedTuple):
    """The offsets of a partition from `start` up to, not including, `end`; no offsets if `end` is not above `start`."""

    start: int
    end: int


NOTHING = Span(0, 0)


@dataclass(frozen=True, slots=True)
class DiskLog:
    """A partition on the disk. copies: its replicas there, the preferred one first. part: the offsets that can be read
    from them."""

    copies: list[PartitionFiles]
    part: Span

    def offset_for_time(self, time_ms: int) -> int | None:
        """Return the offset of the first record in `part` whose timestamp is `time_ms` (epoch ms) or later; None if no
        record is so late. Raises UnreadableInput."""
        found = offsets.offset_for_time(self.copies[0], time_ms)
        return found if found is not None and found < self.part.end else None


def disk_logs(
    options: SourceOptions, topic_ids: Mapping[TopicPartition, UUID], cluster_id: str
) -> dict[TopicPartition, DiskLog]:
    """Return the partitions of the cluster that are on the disk. Arguments and errors are those of `replicas`."""
    whole = replace(options, start=Bound(EARLIEST), end=Bound(LATEST), beyond_high_watermark=False)
    found: dict[TopicPartition, DiskLog] = {}
    for partition, copies in replicas(options, topic_ids, cluster_id).items():
        start, end = splits.bounds(copies, whole)
        found[partition] = DiskLog(copies, Span(start, min(end, offsets.log_end(copies[0]))))
    return found


def replicas(
    options: SourceOptions, topic_ids: Mapping[TopicPartition, UUID], cluster_id: str
) -> dict[TopicPartition, list[PartitionFiles]]:
    """Return the replicas on the disk of the cluster's partitions. topic_ids, cluster_id: those of the brokers'
    metadata.

    Raises UsageError if a partition on the disk is of another topic or another cluster, or if the disk has none of the
    partitions; UnreadableInput.
    """
    found: dict[TopicPartition, list[PartitionFiles]] = {}
    homes: dict[str, _Home] = {}
    for copies in splits.partitions(options, discover(options)):
        partition = TopicPartition(copies[0].topic, copies[0].partition)
        if partition not in topic_ids:
            continue
        for each in copies:
            home = parent_of(each.directory)
            homes.setdefault(home, _Home(home)).check(each, topic_ids[partition], cluster_id)
        found[partition] = copies
    if not found:
        where = ", ".join(filter(None, (*options.paths, options.tier)))
        raise UsageError(f"bootstrapFrom: none of the partitions to be read is in {where}")
    return found


class _Home:
    """A log directory, or another directory that has directories of partitions."""

    def __init__(self, address: str) -> None:
        self._address = address

    def check(self, files: PartitionFiles, topic_id: UUID, cluster_id: str) -> None:
        """Check a partition in this directory. Raises UsageError unless it belongs to the topic with this id and to
        this cluster; UnreadableInput."""
        if self._cluster_id not in (None, cluster_id):
            raise UsageError(
                f"{self._address} is of the cluster {self._cluster_id}, the brokers are of the cluster {cluster_id}"
            )
        found, expected = of_files(files) or self._topic_ids.get(files.topic), from_uuid(topic_id)
        if found is None:
            raise UsageError(
                f"{files.directory}: no {FileKind.PARTITION_METADATA} and no metadata log tells the topic's id: "
                f"it may be another topic than the brokers' {files.topic}"
            )
        if found != expected:
            raise UsageError(
                f"{files.directory}: the topic has the id {found}, and that of the brokers {expected}: "
                "it is another topic of the same name"
            )

    @cached_property
    def _topic_ids(self) -> Mapping[str, str]:
        """The ids of the topics in the metadata log, by name."""
        image = None if is_remote(self._address) else read_image(Path(self._address))
        return {} if image is None else {each.name: from_uuid(each.id) for each in image.topics.values()}

    @cached_property
    def _cluster_id(self) -> str | None:
        address = join(self._address, FileKind.META_PROPERTIES)
        if stat(address) is None:
            return None
        try:
            return properties.meta_properties(properties.parse(read_file(address))).cluster_id
        except FormatError as error:
            raise UnreadableInput(address, error.reason) from None
