"""Strays of a deleted topic whose name a newer topic has, in the same log directory.

The directories of a topic that the metadata log does not know become strays when Kafka starts:
`<topic>-<partition>.<unique>-stray`. recovery-point-offset-checkpoint and replication-offset-checkpoint keep the
entries of their partitions. If a topic of the same name is created then, it has another topic id, and such an entry may
lie beyond the end of its log, which never had these offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from kcli.errors import KcliError
from kcli.log.log_directory import LogDirectory, PartitionDirectory
from kcli.log.partition_directory import topic_id_of
from kcli.log.recovery.identity import end_offset
from kcli.protocol.topic_partition import TopicPartition


def strays_by_partition(directories: Iterable[PartitionDirectory]) -> Mapping[TopicPartition, list[Path]]:
    """Return the strays among the directories of partitions, by the partition in their names."""
    found: dict[TopicPartition, list[Path]] = {}
    for each in directories:
        if each.name.state == "stray":
            found.setdefault(each.partition, []).append(each.path)
    return found


def strays_in(home: Path) -> Mapping[TopicPartition, list[Path]]:
    """Return the strays in a log directory, by the partition in their names; none if it cannot be read, which other
    checks report."""
    with suppress(KcliError):
        return strays_by_partition(LogDirectory(home).partitions())
    return {}


def of_older_topic(directory: Path, strays: Iterable[Path], offset: int) -> Path | None:
    """Return the stray whose log has reached `offset`, and whose topic id is another than that of a partition's
    directory; None if there is none, or the files cannot be read, which other checks report. strays: those of the
    partition."""
    with suppress(KcliError, OSError):
        own = topic_id_of(directory)
        for each in strays if own is not None else ():
            if topic_id_of(each) not in (None, own) and (end_offset(each) or 0) >= offset:
                return each
    return None
