"""The directory of one partition: made, named for its end, and whose it is.

    <topic>-<partition>                     new: partition.metadata with the topic's id first, then empty files
    <topic>-<partition>.<unique>-delete     to be removed: renamed at once, gone after file.delete.delay.ms
    <topic>-<partition>.<unique>-stray      of a topic that the cluster does not know: kept for people to look at

A topic's name is cut where the directory's would be longer than 255. Source: LocalLog (logDeleteDirName and its like),
PartitionMetadataFile; KIP-516.
"""

from __future__ import annotations

import errno
from pathlib import Path
from uuid import uuid4

from formats.errors import FormatError
from formats.file_name import DirectoryName, FileKind, FileName, build, build_directory
from formats.properties import PartitionMetadata, build_partition_metadata, parse_partition_metadata
from kcli.log.disk import Disk
from kcli.log.leader_epochs import FILE_NAME as LEADER_EPOCHS
from kcli.log.recovery_view import StartRefused

NAME_LENGTH_MAX = 255
SMALL_BYTES = 64 << 10  # more than partition.metadata has


def make_partition_directory(disk: Disk, path: Path, topic_id: str) -> None:
    """Make the directory with the files of an empty log, so that opening it changes nothing. Raises OSError.

    Only partition.metadata is made durable, as in Kafka: what else a crash leaves out is made again.
    """
    disk.make_directory(path)
    disk.write_file(path / FileKind.PARTITION_METADATA, build_partition_metadata(PartitionMetadata(0, topic_id)))
    kinds = (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)
    for name in (LEADER_EPOCHS, *(build(FileName(kind, 0)) for kind in kinds)):
        disk.open(path / name, create=True).close()


def topic_id_of(path: Path) -> str | None:
    """The topic's id in partition.metadata; None where there is no such file. Raises StartRefused, OSError."""
    file = path / FileKind.PARTITION_METADATA
    if file.exists() and not (file.is_file() or file.is_dir()):  # a pipe would wait
        raise OSError(errno.EINVAL, "not a regular file", str(file))
    try:
        with file.open("rb") as opened:
            return parse_partition_metadata(opened.read(SMALL_BYTES)).topic_id
    except FileNotFoundError:
        return None
    except FormatError as error:
        raise StartRefused(f"{path.name}/{file.name}", error.reason, error.position) from None


def name_for_end(topic: str, partition: int, state: str) -> str:
    """A new name for the directory; state: `delete` or `stray`."""
    unique = uuid4().hex
    behind = len(build_directory(DirectoryName("", partition, state, unique)))
    return build_directory(DirectoryName(topic[: NAME_LENGTH_MAX - behind], partition, state, unique))


def rename_for_end(disk: Disk, path: Path, topic: str, partition: int, state: str) -> Path:
    """Give the directory of a log that is not open such a name. Raises OSError."""
    target = path.with_name(name_for_end(topic, partition, state))
    disk.rename(path, target)
    disk.sync_directory(path.parent)
    return target
