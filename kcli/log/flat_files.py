"""The files of a partition that lie flat in the log directory, where no directory has the partition's name.

    orders-1\\00000000000000000000.log    an archive made on Windows, unpacked by a program that takes a backslash for a
                                         part of the name
    orders-1%2F00000000000000000000.log  objects of a store whose names were escaped for a file system; also %5C
    orders-1_00000000000000000000.log    the same, with another character in place of the slash; also a colon

Kafka does not see these files: it makes an empty directory for the partition.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from formats.file_name import FileKind, parse, parse_directory
from kcli.protocol.topic_partition import TopicPartition

_FLAT = re.compile(r"(.+?-[0-9]+)(\\|:|_|%2F|%2f|%5C|%5c)([0-9]{20}\..+|[a-z-]+|partition\.metadata)")
_WITHOUT_OFFSET = (FileKind.LEADER_EPOCHS, FileKind.PARTITION_METADATA)


def flat_partitions(home: Path) -> Mapping[TopicPartition, Path]:
    """Return the partitions whose files lie flat in a log directory, each with the path that its directory should have:
    nothing has that path. Partitions without a .log file are left out."""
    found: dict[TopicPartition, Path] = {}
    for directory, _, name, _ in _flat(home):
        parsed, kafkas = parse_directory(directory), parse(name)
        if parsed is None or parsed.state or kafkas is None or kafkas.kind is not FileKind.LOG or kafkas.state:
            continue
        if not _exists(home / directory):
            found[TopicPartition(parsed.topic, parsed.partition)] = home / directory
    return found


def flat_files(directory: Path) -> Mapping[str, Path]:
    """Return the files of a partition that lie flat beside the path that its directory should have, by the names that
    they have without the name of the directory; none if something has that path. Of files with several separators,
    those of the separator with the most files are returned."""
    if _exists(directory):
        return {}
    by_separator: dict[str, dict[str, Path]] = {}
    for name, separator, file, path in _flat(directory.parent):
        if name == directory.name:
            by_separator.setdefault(separator, {})[file] = path
    return max(by_separator.values(), key=len, default={})


def _flat(home: Path) -> Iterator[tuple[str, str, str, Path]]:
    """Yield, for each file that lies flat in a log directory, the name of the partition's directory, the separator,
    the file's own name, and its path."""
    try:
        paths = sorted(home.iterdir())
    except OSError:  # the checks of the log directory report this error
        return
    for path in paths:
        match = _FLAT.fullmatch(path.name)
        kafkas = None if match is None else parse(match[3])
        if match is None or kafkas is None or not path.is_file() or path.is_symlink():
            continue
        if kafkas.base_offset is not None or kafkas.kind in _WITHOUT_OFFSET:
            yield match[1], match[2], match[3], path


def _exists(path: Path) -> bool:
    return path.is_symlink() or path.exists()
