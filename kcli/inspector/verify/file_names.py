"""Files in a partition's directory that Kafka opens or chokes on, though it never makes them so.

Kafka reads the offset of a segment's files up to the first dot with Long.parseLong, and opens the segment under the
name that it builds of that offset, in 20 digits. What has a file's name must be a file. Source: LogLoader
(loadSegmentFiles), LogFileUtils, ProducerStateManager.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Container, Sequence
from pathlib import Path

from formats.file_name import FileKind, FileName, build
from kcli.errors import UnreadableInput
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding
from kcli.inspector.verify.segment_names import INDEX_KINDS, log_name, read_header
from kcli.log.source import FileSource

_KINDS = (FileKind.LOG, *INDEX_KINDS, FileKind.PRODUCER_SNAPSHOT)
_CANONICAL = re.compile(r"[0-9]{20}")
_JAVA_LONG = re.compile(r"[+-]?[0-9]+")


def odd_files(directory: Path, names: Sequence[str]) -> dict[str, tuple[Finding, FileName | None]]:
    """Of the names in a partition's directory those that Kafka takes for a segment's file or for a snapshot and would
    not have given: the finding, and what the file is by its first batch, where it is a log that no other file is."""
    taken = set(names)
    found = {}
    for name in names:
        kind = _kind(name)
        if kind is not None and not (_CANONICAL.fullmatch(name.removesuffix(kind)) and _offset(name) is not None):
            finding, target = _odd_file(directory / name, kind, taken)
            found[name] = finding, target
            taken |= set() if target is None else {build(target)}
    return found


def _odd_file(path: Path, kind: FileKind, taken: Container[str]) -> tuple[Finding, FileName | None]:
    offset = _offset(path.name)
    held = _first_offset(path) if kind is FileKind.LOG else None
    target = None if held is None or log_name(held) in taken else FileName(FileKind.LOG, held)
    action = "stop the broker, and move the file away"
    if target is not None:
        action = f"stop the broker, and rename the file: its first batch is that of offset {held:,}"
    finding = Finding(
        path=str(path),
        kind="file-name",
        severity="error" if offset is None or kind is FileKind.LOG else "warning",
        expected=f"an offset in 20 digits, and {kind}",
        found=_outcome(kind, offset),
        action=action,
        command=next_steps.move([(path, path.with_name(f"{path.name}.moved" if target is None else build(target)))]),
    )
    return finding, target


def _outcome(kind: FileKind, offset: int | None) -> str:
    """What Kafka does with it."""
    if offset is None:
        return "no offset that Kafka can read: it does not start (NumberFormatException)"
    opened = f"{'-' if offset < 0 else ''}{abs(offset):020}{kind}"
    told = f"Kafka reads offset {offset:,} in it"
    if kind is FileKind.LOG:
        return f"{told} and opens {opened}, not this file: consumers do not see what is in it"
    return f"{told}, whose file is {opened}"


def _kind(name: str) -> FileKind | None:
    return next((kind for kind in _KINDS if name.endswith(kind)), None)


def _offset(name: str) -> int | None:
    """The offset as Kafka reads it; None where it cannot."""
    stem = name.split(".", 1)[0]
    if not _JAVA_LONG.fullmatch(stem) or not -(2**63) <= int(stem) < 2**63:
        return None
    return int(stem)


def _first_offset(log: Path) -> int | None:
    if not log.is_file():
        return None
    try:
        source = FileSource(log)
    except UnreadableInput:
        return None
    try:
        header = read_header(source, 0)
    finally:
        source.close()
    return None if header is None else header.first


def odd_type(path: Path, kind: FileKind) -> Finding | None:
    """Something that has a file's name, and is none."""
    try:
        mode = path.stat().st_mode
        what = next((text for test, text in _TYPES if test(mode)), None)
    except FileNotFoundError:
        what = "nothing"
    except OSError:
        return None  # it cannot be looked at, which is told
    if what is None:
        return None
    link = f"a symbolic link to {path.readlink()}: " if path.is_symlink() else ""
    outcome = "the log directory goes offline when Kafka opens it"
    if kind is FileKind.LOG:
        outcome = "Kafka passes it over, and with it the segment"
    return Finding(
        path=str(path),
        kind="file-type",
        severity="error",
        expected="a file",
        found=f"{link}{what}; {outcome}",
        action="stop the broker, look for the file itself, and move this away",
        command=next_steps.move([(path, path.with_name(f"{path.name}.moved"))]),
    )


_TYPES = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
)
