"""Checkpoints that another broker wrote, for example because the wrong file was restored into a log directory.

In a sound directory neither a recovery point (recovery-point-offset-checkpoint) nor a high watermark (replication-) nor
a log start offset (log-start-) is above the end of its log. In another broker's file some offsets are, because its logs
are longer: it looks as if records were lost here. A file is another broker's if all of these are true:

    strange       it names partitions without a directory here (with any suffix), and without a replica on this node
                  in the metadata log, which has not deleted their topics. A broker that deletes a partition keeps its
                  directory for file.delete.delay.ms (1 minute), and writes the recovery points at once, the high
                  watermarks within 5 s: a sound checkpoint hardly ever names a partition whose directory is gone
    contradicted  it has offsets above the ends of logs of several topics, while another checkpoint (WITNESSES) has
                  offsets up to these ends. If a log has lost its end, both checkpoints usually have higher offsets
    left out      only for high watermarks: the file lacks partitions of several topics that have a directory and a
                  replica here, and a recovery point. This must be so because after a power loss high watermarks are
                  above the ends of many logs, and recovery points are not: Kafka syncs high watermarks every 5 s, and
                  the logs more rarely

No single fact is enough: a topic may have been deleted a moment ago, or before the snapshot with which the metadata log
begins; a log may have lost its end. Source: LogManager (checkpointRecoveryOffsetsInDir, asyncDelete),
ReplicaManager.checkpointHighWatermarks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from formats.file_name import METADATA_TOPIC, FileKind
from kcli.log.log_directory import LogDirectory, PartitionDirectory
from kcli.log.recovery.identity import end_offset
from kcli.printable import names_text
from kcli.protocol.topic_partition import TopicPartition

WITNESSES = {
    FileKind.RECOVERY_POINTS: FileKind.REPLICATION_OFFSETS,
    FileKind.REPLICATION_OFFSETS: FileKind.RECOVERY_POINTS,
    FileKind.LOG_START_OFFSETS: FileKind.REPLICATION_OFFSETS,
}
"""The checkpoints that are checked, each with the one that contradicts it."""
STRANGE_LEAST = 2
PARTITIONS_LEAST = 3
TOPICS_LEAST = 2
"""The least numbers of strange partitions, and of partitions and topics with a contradicted offset (or left out)."""
STARTS_LEAST = 2
"""The same for log start offsets, of which there are few: only those of partitions whose first records were deleted."""
NAMES_SHOWN = 2

HasReplica = Callable[[TopicPartition], bool | None]
"""Returns whether a partition has a replica on this node; None if its topic was deleted, or if no metadata log is
known."""


class OthersCheckpoint(NamedTuple):
    """A checkpoint of another broker. kind: which checkpoint it is. entries: the number of its entries. strange: the
    partitions in it that are not this node's. beyond: the partitions of this log directory whose offset in it is above
    the end of their log, while their offset in another checkpoint (WITNESSES) is not."""

    kind: FileKind
    entries: int
    strange: Sequence[TopicPartition]
    beyond: Sequence[TopicPartition]

    @property
    def why(self) -> str:
        """The evidence that the file is another broker's, in words."""
        strange = names_text(self.strange, NAMES_SHOWN)
        return (
            f"the file of another broker: {len(self.strange):,} of its {self.entries:,} entries are of partitions that "
            f"this node does not have ({strange}), and {len(self.beyond):,} offsets are above the ends of their logs, "
            f"where {WITNESSES[self.kind]} has offsets up to these ends"
        )

    def is_harmful(self, *, is_clean: bool) -> bool:
        """Whether the file does harm at Kafka's start, which then recovers logs only from the recovery points in it.
        is_clean: whether the start follows a clean shutdown, after which it recovers no log."""
        return self.kind is FileKind.RECOVERY_POINTS and not is_clean

    def reason(self, *, is_clean: bool) -> str:
        """The fault of the file, and the reaction of Kafka's start to it, in words. is_clean: as in `is_harmful`."""
        if self.is_harmful(is_clean=is_clean):
            return f"{self.why}; below these offsets Kafka looks at no segment but the last: it does not find damage"
        return f"{self.why}; Kafka lowers them to the ends of the logs, and nothing is lost"


def others_checkpoints(home: Path, has_replica: HasReplica) -> Mapping[FileKind, OthersCheckpoint]:
    """Return the checkpoints in the log directory `home` that another broker wrote. Raises UnreadableInput."""
    directories = LogDirectory(home).partitions()
    logs = {each.partition: each for each in directories if not each.name.state and each.name.topic != METADATA_TOPIC}
    found = {}
    for kind, other in WITNESSES.items():
        offsets = LogDirectory(home).legible_offsets(kind)
        strange = strange_partitions(offsets, directories, has_replica)
        if len(strange) < STRANGE_LEAST:
            continue
        witness = LogDirectory(home).legible_offsets(other)
        beyond = [
            each
            for each in sorted(logs.keys() & offsets.keys() & witness.keys())
            if witness[each] < offsets[each] and _is_between(logs[each], witness[each], offsets[each])
        ]
        is_short = kind is FileKind.LOG_START_OFFSETS
        is_other = len(beyond) >= STARTS_LEAST if is_short else _are_many(beyond)
        if kind is FileKind.REPLICATION_OFFSETS:
            left_out = (logs.keys() & witness.keys()) - offsets.keys()
            is_other = is_other and _are_many([each for each in left_out if has_replica(each)])
        if is_other:
            found[kind] = OthersCheckpoint(kind, len(offsets), strange, beyond)
    return found


def names_absent_partitions(home: Path) -> bool:
    """Whether a checkpoint in a log directory names STRANGE_LEAST or more partitions that have no directory there: only
    then must the metadata log be read. Raises UnreadableInput."""
    here = {each.partition for each in LogDirectory(home).partitions()}
    return any(len(LogDirectory(home).legible_offsets(kind).keys() - here) >= STRANGE_LEAST for kind in WITNESSES)


def strange_partitions(
    named: Collection[TopicPartition], directories: Collection[PartitionDirectory], has_replica: HasReplica
) -> list[TopicPartition]:
    """Return the partitions `named` in a checkpoint that are not this node's: none of the log directory's `directories`
    has their name, with or without a suffix, and they have no replica on this node."""
    here = {each.partition for each in directories}
    absent = sorted(set(named) - here)
    if len(absent) < STRANGE_LEAST:  # so few prove nothing: the metadata log need not be read
        return []
    return [each for each in absent if has_replica(each) is False]


def _is_between(directory: PartitionDirectory, low: int, high: int) -> bool:
    """Whether a log ends at or above the offset `low`, and below `high`."""
    end = end_offset(directory.path)
    return end is not None and low <= end < high


def _are_many(partitions: Collection[TopicPartition]) -> bool:
    return len(partitions) >= PARTITIONS_LEAST and len({each.topic for each in partitions}) >= TOPICS_LEAST
