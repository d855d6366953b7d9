"""The directory of one partition: creating it, renaming it before it is deleted or set aside, and its topic id.

    <topic>-<partition>                     new: partition.metadata with the topic's id first, then empty files
    <topic>-<partition>.<unique>-delete     to be deleted: renamed at once, deleted after file.delete.delay.ms
    <topic>-<partition>.<unique>-stray      of a topic that the cluster does not know: kept, and not loaded

A topic's name is cut if the directory's name would be longer than 255 bytes. Source: LocalLog (logDeleteDirName and
its like), PartitionMetadataFile; KIP-516.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Final
from uuid import uuid4

from formats.errors import FormatError
from formats.file_name import DirectoryName, FileKind, FileName, build, build_directory, parse
from formats.properties import PartitionMetadata, build_partition_metadata, parse_partition_metadata
from kcli.errors import StartRefused, UnreadableInput
from kcli.log.disk import Disk
from kcli.log.leader_epochs import FILE_NAME as LEADER_EPOCHS

GARBLED_MAX = 3
"""The maximum number of the 22 characters of a topic id that damage has changed, if the id is to be recognized."""
METADATA_TOPIC_ID: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
NAME_LENGTH_MAX = 255
SMALL_BYTES = 64 << 10  # more bytes than a valid partition.metadata has


def make_partition_directory(disk: Disk, path: Path, topic_id: str) -> None:
    """Create the directory with the files of an empty log, so that opening the log changes nothing. Raises OSError.

    Only partition.metadata is made durable, as in Kafka: opening the log creates the other files again if a crash has
    lost them.
    """
    disk.make_directory(path)
    disk.write_file(path / FileKind.PARTITION_METADATA, build_partition_metadata(PartitionMetadata(0, topic_id)))
    kinds = (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)
    for name in (LEADER_EPOCHS, *(build(FileName(kind, 0)) for kind in kinds)):
        disk.open(path / name, create=True).close()


def topic_id_of(path: Path) -> str | None:
    """Return the topic id in partition.metadata; None if there is no such file. Raises StartRefused, OSError."""
    file = path / FileKind.PARTITION_METADATA
    if file.exists() and not (file.is_file() or file.is_dir()):  # reading a named pipe would block
        raise OSError(errno.EINVAL, "not a regular file", str(file))
    try:
        with file.open("rb") as opened:
            return parse_partition_metadata(opened.read(SMALL_BYTES)).topic_id
    except FileNotFoundError:
        return None
    except IsADirectoryError:
        raise StartRefused(f"{path.name}/{file.name}", "a directory") from None
    except FormatError as error:
        raise StartRefused(f"{path.name}/{file.name}", error.reason, error.position) from None


def legible_topic_id(path: Path) -> str | None:
    """Return the topic id in partition.metadata; None if there is none that can be read, which other checks report."""
    try:
        return topic_id_of(path)
    except (StartRefused, OSError):
        return None


def is_other_case(topic_id: str, right: str) -> bool:
    """Whether a topic id from partition.metadata differs from `right` in letter case only, as where a tool has changed
    the case of the whole file. The last character does not count: of its six bits, an id has two."""
    one, other = topic_id[:-1], right[:-1]
    return one != other and one.lower() == other.lower()


def is_garbled(topic_id: str, right: str) -> bool:
    """Whether a topic id from partition.metadata is `right` after damage to the file: in another letter case, or with
    at most GARBLED_MAX other characters. Ids are random: those of two topics differ in nearly all characters."""
    changed = sum(one != other for one, other in zip(topic_id, right, strict=False))
    return is_other_case(topic_id, right) or 0 < changed <= GARBLED_MAX


def is_filled_directory(path: Path) -> bool:
    """Whether the path is a directory that is not empty, and no symbolic link: Java's Files.deleteIfExists fails for
    it."""
    return path.is_dir() and not path.is_symlink() and any(path.iterdir())


def metadata_topic_id_refusal(path: Path) -> StartRefused | None:
    """Return the reason why Kafka does not start with partition.metadata in the directory of the metadata log; None
    if Kafka starts, as it does if there is no such file. Raises UnreadableInput."""
    try:
        topic_id = topic_id_of(path)
    except StartRefused as refused:
        return refused
    except OSError as error:
        raise UnreadableInput(str(path / FileKind.PARTITION_METADATA), error.strerror or str(error)) from None
    if topic_id in (None, METADATA_TOPIC_ID):
        return None
    return StartRefused(f"{path.name}/{FileKind.PARTITION_METADATA}", f"topic id {topic_id} is not {METADATA_TOPIC_ID}")


def name_for_end(topic: str, partition: int, state: str) -> str:
    """Return a new unique name for a directory that is to be deleted, or is a stray. state: `delete` or `stray`."""
    unique = uuid4().hex
    behind = len(build_directory(DirectoryName("", partition, state, unique)))
    return build_directory(DirectoryName(topic[: NAME_LENGTH_MAX - behind], partition, state, unique))


def rename_for_end(disk: Disk, path: Path, topic: str, partition: int, state: str) -> Path:
    """Rename the directory of a log that is not open to a name from `name_for_end`. Returns the new path. Raises
    OSError."""
    target = path.with_name(name_for_end(topic, partition, state))
    disk.rename(path, target)
    disk.sync_directory(path.parent)
    return target


def files_of_kind(directory: Path, kind: FileKind) -> list[tuple[int, Path]]:
    """Return the files of a kind in a partition's directory, each with the offset in its name, without those that have
    a suffix such as .deleted; an empty list if the directory cannot be read."""
    try:
        named = [(parse(path.name), path) for path in directory.iterdir()]
    except OSError:
        return []
    return [
        (name.base_offset or 0, path)
        for name, path in named
        if name is not None and name.kind is kind and not name.state and not name.remote_id
    ]
