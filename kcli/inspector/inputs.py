"""The files that the paths of a command line stand for: a path is a file, a partition's directory, a log directory, a
tier, `-` (standard input), or the URL of one of these in a bucket."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from formats.file_name import METADATA_TOPIC, FileKind, parse, parse_directory
from kcli.errors import UnreadableInput
from kcli.inspector.file_type import FileType
from kcli.log.source import STDIN, AnyPath
from kcli.tier.address import INSIDE, parse_address

if TYPE_CHECKING:
    from kcli.tier.bucket_path import BucketPath

_TYPES = {
    FileKind.LOG: FileType.LOG,
    FileKind.OFFSET_INDEX: FileType.INDEX,
    FileKind.TIME_INDEX: FileType.TIMEINDEX,
    FileKind.TXN_INDEX: FileType.TXNINDEX,
    FileKind.PRODUCER_SNAPSHOT: FileType.SNAPSHOT,
    FileKind.KRAFT_SNAPSHOT: FileType.KRAFT_SNAPSHOT,
    FileKind.BOOTSTRAP: FileType.KRAFT_SNAPSHOT,
    FileKind.LEADER_EPOCHS: FileType.LEADER_EPOCH_CHECKPOINT,
    FileKind.REMOTE_LEADER_EPOCHS: FileType.LEADER_EPOCH_CHECKPOINT,
    FileKind.RECOVERY_POINTS: FileType.OFFSET_CHECKPOINT,
    FileKind.REPLICATION_OFFSETS: FileType.OFFSET_CHECKPOINT,
    FileKind.LOG_START_OFFSETS: FileType.OFFSET_CHECKPOINT,
    FileKind.CLEANER_OFFSETS: FileType.OFFSET_CHECKPOINT,
    FileKind.META_PROPERTIES: FileType.META_PROPERTIES,
    FileKind.PARTITION_METADATA: FileType.PARTITION_METADATA,
    FileKind.QUORUM_STATE: FileType.QUORUM_STATE,
}
LOGS = (FileType.LOG, FileType.KRAFT_SNAPSHOT)


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file to read, its type, and its partition. topic and partition are None if the file is not in a directory
    with a partition's name."""

    path: AnyPath
    type: FileType
    topic: str | None
    partition: int | None

    @property
    def is_stdin(self) -> bool:
        """Whether this is standard input, named `-`."""
        return self.path == STDIN


def path_of(text: str) -> Path | BucketPath:
    """Return the path on this machine that an argument names, or a BucketPath for a bucket's URL. Raises UsageError."""
    address = parse_address(text, "dump-segment")
    if isinstance(address, str):
        return Path(address)
    from kcli.tier.bucket_path import BucketPath  # imported late, as few dumps need it

    return BucketPath(address)


def input_files(path: Path | BucketPath, file_type: FileType | None) -> Iterator[InputFile]:
    """Yield the files that a path stands for; those of a directory in the order of partition and base offset.

    A directory stands for its files of `file_type` (None: log segments) and for those of the partition directories in
    it, without files and directories that Kafka is about to delete or move. So does a URL below which a bucket has
    objects. Raises UnreadableInput if the path does not exist, if a directory has no file of that type, or if
    `file_type` is None and a file's name has no type.
    """
    if not isinstance(path, Path):
        yield from [_file(path, file_type)] if path.is_file() else _below(path, file_type or FileType.LOG)
    elif path == STDIN:
        yield InputFile(path, file_type or FileType.LOG, None, None)
    elif path.is_dir():
        found = list(_in_directory(path, file_type or FileType.LOG))
        if not found:
            raise UnreadableInput(str(path), f"no {file_type or FileType.LOG} file in this directory")
        yield from found
    elif not path.exists():
        raise UnreadableInput(str(path), "no such file or directory")
    else:
        yield _file(path, file_type)


def _file(path: Path | BucketPath, file_type: FileType | None) -> InputFile:
    name = parse(path.name)
    found = file_type or (_TYPES.get(name.kind) if name else None)
    if found is None:
        types = ", ".join(FileType)
        raise UnreadableInput(str(path), f"the name does not say what the file holds; give --type ({types})")
    if found is FileType.KRAFT_SNAPSHOT:
        return InputFile(path, found, METADATA_TOPIC, 0)
    parent = path.absolute().parent.name
    is_text = parent.isprintable()  # a name with bytes that are not UTF-8 is not a topic's
    directory = parse_directory(parent) if is_text else None
    return InputFile(path, found, directory.topic if directory else None, directory.partition if directory else None)


def _below(path: BucketPath, file_type: FileType) -> Iterator[InputFile]:
    """Yield the objects of a type below a URL."""
    found = []
    for each in path.files():
        name, directory = parse(each.name), parse_directory(each.parent.name)
        if name is None or name.state or directory is None or directory.state not in ("", "remote"):
            continue
        if _TYPES.get(name.kind) is file_type:
            place = directory.topic, directory.partition, each.parent.name, name.base_offset or 0, each.name
            found.append((place, each))
    if not found:
        raise UnreadableInput(str(path), f"no {file_type} object below this URL")
    for _, each in sorted(found, key=lambda pair: pair[0]):
        yield _file(each, None)


def _in_directory(path: Path, file_type: FileType) -> Iterator[InputFile]:
    try:
        entries = list(path.iterdir())
    except OSError as error:
        raise UnreadableInput.of(path, error) from error
    named = [(name, each) for each in entries if (name := parse(each.name)) and not name.state and each.is_file()]
    for name, each in sorted(named, key=lambda pair: (pair[0].base_offset or 0, pair[1].name)):
        if _TYPES.get(name.kind) is file_type:
            yield _file(each, None)
    partitions = [
        (directory, each)
        for each in entries
        if (directory := parse_directory(each.name)) and directory.state in ("", "remote") and each.is_dir()
    ]
    inside = path / INSIDE
    if not partitions and inside.is_dir():
        yield from _in_directory(inside, file_type)
    for _, each in sorted(partitions, key=lambda pair: (pair[0].topic, pair[0].partition, pair[1].name)):
        yield from _in_directory(each, file_type)
