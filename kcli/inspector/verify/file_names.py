"""Files in a partition's directory that Kafka never creates with such a name or type, and that affect Kafka's start.

Kafka parses the name of a segment's file up to the first dot with Long.parseLong, and then opens the file whose name
has that offset in 20 digits. It does not see a file with a suffix in another case (.LOG), as a copy by way of FAT makes
it. A directory or a pipe with such a name is an error, too. Source: LogLoader (loadSegmentFiles), LogFileUtils,
ProducerStateManager.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from shlex import quote
from types import MappingProxyType
from typing import NamedTuple

from formats.errors import FormatError
from formats.file_name import FileKind, FileName, build, parse
from kcli.errors import UnreadableInput
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding
from kcli.inspector.verify.lost_offsets import RENAMED_SHOWN
from kcli.inspector.verify.segment_names import (
    INDEX_KINDS,
    Header,
    first_any_header,
    log_name,
    other_case,
    read_any_headers,
)
from kcli.log.linked_files import is_link_to_batches
from kcli.log.recovery.special_files import is_foretold, outcome_of
from kcli.log.source import FileSource
from kcli.printable import names_text

_KINDS = (FileKind.LOG, *INDEX_KINDS, FileKind.PRODUCER_SNAPSHOT)
_APPLE_DOUBLE = b"\x00\x05\x16\x07"
_CANONICAL = re.compile(r"[0-9]{20}")
_JAVA_LONG = re.compile(r"[+-]?[0-9]+")
_NAMED = re.compile(r"(?<![0-9])[0-9]{20}(?![0-9])")
"""The base offset in a name that a program has made of that of a .log file, as "Copy of <offset>.log"."""


class OddFiles(NamedTuple):
    """The files of one directory whose names Kafka would not have given.

    names: the names of these files. findings: one for each file; a .log file and the index files that are renamed with
    it share one, and so do all files with suffixes in another case. right_names: for each odd name of a .log file, and
    of the files of the same segment, the name that Kafka would give the file, which follows from the digits of the name
    or from the first batch of the .log file. outdated: the files of an empty segment that Kafka's start has made under
    such a right name; the finding's command moves them away first.
    apple_doubles: the names of AppleDouble files (macOS), for which `apple_doubles` makes one finding over all
    directories.
    """

    names: frozenset[str] = frozenset()
    findings: Sequence[Finding] = ()
    right_names: Mapping[str, FileName] = MappingProxyType({})
    outdated: frozenset[str] = frozenset()
    apple_doubles: frozenset[str] = frozenset()


def odd_files(directory: Path, names: Sequence[str]) -> OddFiles:
    """Return the files of segments and snapshots whose names Kafka would not have given. names: all names in the
    directory."""
    odd = {name: kind for name in names if (kind := _kind(name)) is not None and not _is_canonical(name, kind)}
    apple = frozenset(name for name in odd if name.startswith("._") and _is_apple_double(directory / name))
    odd = {name: kind for name, kind in odd.items() if name not in apple}
    taken, outdated = set(names), set[str]()
    right_names, in_the_way = _in_other_case(directory, names)
    findings = [_renamed_case(directory, in_the_way, right_names)] if right_names else []
    is_any_odd = any(kind is FileKind.LOG for kind in odd.values())
    headers = _first_headers(directory, names) if is_any_odd else {}
    taken.update(map(build, right_names.values()))
    outdated.update(in_the_way)
    odd |= {name: right.kind for name, right in right_names.items()}
    for name in (each for each, kind in odd.items() if kind is FileKind.LOG and each not in right_names):
        path, base = directory / name, _base_of(name, headers, directory)
        in_the_way = [] if base is None else _of_empty_log(directory, base, taken)
        if base is None or log_name(base) in taken - set(in_the_way):
            findings.append(_odd_file(path, FileKind.LOG))
            continue
        taken -= set(in_the_way)
        outdated.update(in_the_way)
        renamed = {name: FileName(FileKind.LOG, base)}
        for kind in (*INDEX_KINDS, FileKind.PRODUCER_SNAPSHOT):
            beside, target = f"{name.removesuffix(FileKind.LOG)}{kind}", FileName(kind, base)
            if beside in odd and build(target) not in taken:
                renamed[beside] = target
        right_names |= renamed
        taken.update(map(build, renamed.values()))
        findings.append(_renamed_log(path, base, headers[name].first, in_the_way, renamed))
    findings += (
        _odd_file(directory / name, kind)
        for name, kind in odd.items()
        if kind is not FileKind.LOG and name not in right_names
    )
    return OddFiles(apple | odd.keys(), findings, right_names, frozenset(outdated), apple)


def _in_other_case(directory: Path, names: Sequence[str]) -> tuple[dict[str, FileName], list[str]]:
    """Return the right names of the files of segments whose suffixes are in another case than Kafka's, by their present
    names; and the names of the files of empty segments that have such right names already.

    A file whose right name another file with content has is left out. If no .log file is among them, the result is
    empty, as a start makes the files that are missing beside a .log file.
    """
    taken = {name for name in names if name == name.lower()}
    parsed = ((name, parse(name.lower())) for name in sorted(set(names) - taken))
    found = [(name, right) for name, right in parsed if right is not None and build(right) == name.lower()]
    found = [each for each in found if each[1].kind in _KINDS and not (each[1].state or each[1].remote_id)]
    found.sort(key=lambda each: each[1].kind is not FileKind.LOG)
    right_names, in_the_way, logs = dict[str, FileName](), list[str](), set[str]()
    for name, right in found:
        base = right.base_offset or 0
        is_log, is_snapshot = right.kind is FileKind.LOG, right.kind is FileKind.PRODUCER_SNAPSHOT
        if is_log and _size(directory / name):
            empty = _of_empty_log(directory, base, taken)
            in_the_way += empty
            taken -= set(empty)
        is_wanted = is_log or log_name(base) in logs or (is_snapshot and log_name(base) not in taken)
        if is_wanted and build(right) not in taken and (directory / name).is_file():
            right_names[name] = right
            taken.add(build(right))
            logs |= {log_name(base)} if is_log else set()
    return (right_names, in_the_way) if logs else ({}, [])


def apple_doubles(directory: Path, paths: Sequence[Path]) -> Finding:
    """Return the finding of files that macOS has made beside those of segments, with a command that deletes them all.

    directory: contains all of them. paths: the files."""
    first = paths[0].relative_to(directory)
    more = f" and {len(paths) - 1:,} more" if len(paths) > 1 else ""
    is_one = f'test "$(head -c 4 -- "$1" | od -An -tx1)" = "{" ".join(["", *map("{:02x}".format, _APPLE_DOUBLE)])}"'
    command = f"find {next_steps.quoted(directory)} -type f -name '._*' -exec sh -c {quote(is_one)} - {{}} ';' -delete"
    return Finding(
        path=str(directory),
        kind="file-name",
        severity="error",
        expected="no files of macOS",
        found=f"{first}{more}: AppleDouble files, which macOS makes beside each file that it copies to another file "
        "system; their names have no offset that Kafka can read: it does not start (NumberFormatException)",
        refuses_start=True,
        action="stop the broker, and delete these files: they have nothing of Kafka's",
        command=command,
    )


def _is_apple_double(path: Path) -> bool:
    """Return whether, by its first bytes, the file is an AppleDouble file, in which macOS keeps the attributes of
    another file (RFC 1740)."""
    if not path.is_file():
        return False
    try:
        source = FileSource(path)
    except UnreadableInput:
        return False
    try:
        head = bytearray(len(_APPLE_DOUBLE))
        return source.read_at(0, memoryview(head)) == len(head) and head == _APPLE_DOUBLE
    except UnreadableInput:
        return False
    finally:
        source.close()


def _is_canonical(name: str, kind: FileKind) -> bool:
    return _CANONICAL.fullmatch(name.removesuffix(kind)) is not None and _offset(name) is not None


def _of_empty_log(directory: Path, base: int, names: Container[str]) -> list[str]:
    """Return the names of the files of a segment whose .log file is empty (0 bytes); none if the .log file has bytes,
    or if there is none."""
    log = directory / log_name(base)
    try:
        if log.name not in names or not log.is_file() or log.stat().st_size:
            return []
    except OSError:  # the check of the file itself reports this error
        return []
    return [name for kind in _KINDS if (name := build(FileName(kind, base))) in names]


def _renamed_log(
    path: Path, base: int, first: int, in_the_way: Sequence[str], renamed: Mapping[str, FileName]
) -> Finding:
    """Return the finding of a segment whose .log file is not named after its base offset, and can be renamed.

    base: its base offset. first: the offset of its first batch. in_the_way: the files of an empty segment that have the
    right names already. renamed: the right names of the .log file and of the segment's other files, by the names that
    these files have.
    """
    home = path.parent
    away = [(home / name, home / f"{name}.moved") for name in in_the_way]
    moves = [*away, *((home / name, home / build(target)) for name, target in renamed.items())]
    words = "rename the file" if len(renamed) == 1 else "rename the file and those beside it"
    replaced = f", in place of the empty {log_name(base)}" if in_the_way else ""
    why = f"its first batch is that of offset {base:,}" if first == base else f"its base offset is {base:,}"
    action = f"stop the broker, and {words}: {why}{replaced}"
    return replace(_odd_file(path, FileKind.LOG), action=action, command=next_steps.move(moves))


def _renamed_case(directory: Path, in_the_way: Sequence[str], renamed: Mapping[str, FileName]) -> Finding:
    """Return the finding of all files of segments whose suffixes are in another case than Kafka's.

    in_the_way: the files of empty segments that have the right names already. renamed: the right names, by the names
    that the files have.
    """
    logs = sorted(name for name, right in renamed.items() if right.kind is FileKind.LOG)
    right = build(renamed[logs[0]])
    moves = [(directory / name, directory / f"{name}.moved") for name in in_the_way]
    moves += [(directory / name, directory / build(each)) for name, each in renamed.items()]
    action, command = "stop the broker, and give the files their names", next_steps.move(moves)
    if len(logs) > RENAMED_SHOWN:
        action, command = "salvage gives the files their names, in a copy", next_steps.salvage(directory)
    paths = names_text([str(directory / name) for name in logs], RENAMED_SHOWN)
    state = "only an empty file" if log_name(renamed[logs[0]].base_offset or 0) in in_the_way else "no such file"
    return Finding(
        path=str(directory / right),
        kind="log-missing",
        severity="error",
        expected="suffixes in lower case: Kafka reads no others",
        found=f"{state}: its batches are in {paths}{other_case(logs[0], right)}",
        action=action,
        command=command,
    )


def _odd_file(path: Path, kind: FileKind) -> Finding:
    """The finding of a file whose right name is not known, or is that of another file with content."""
    offset = _offset(path.name)
    return Finding(
        path=str(path),
        kind="file-name",
        severity="error" if offset is None or kind is FileKind.LOG else "warning",
        expected=f"an offset in 20 digits, and {kind}",
        found=_outcome(kind, offset),
        refuses_start=offset is None,
        action="stop the broker, and move the file away",
        command=next_steps.move([(path, path.with_name(f"{path.name}.moved"))]),
    )


def _outcome(kind: FileKind, offset: int | None) -> str:
    """Return the words of the finding that say what Kafka does with the file."""
    if offset is None:
        return "no offset that Kafka can read: it does not start (NumberFormatException)"
    opened = f"{'-' if offset < 0 else ''}{abs(offset):020}{kind}"
    reading = f"Kafka reads offset {offset:,} in it"
    if kind is FileKind.LOG:
        return f"{reading} and opens {opened}, not this file: consumers do not see what is in it"
    return f"{reading}, whose file is {opened}"


def _kind(name: str) -> FileKind | None:
    return next((kind for kind in _KINDS if name.endswith(kind)), None)


def _offset(name: str) -> int | None:
    """The offset that Kafka parses from a name; None if that fails."""
    stem = name.split(".", 1)[0]
    if not _JAVA_LONG.fullmatch(stem) or not -(2**63) <= int(stem) < 2**63:
        return None
    return int(stem)


def _base_of(name: str, headers: Mapping[str, Header], directory: Path) -> int | None:
    """Return the base offset of a .log file with an odd name; None if the file has no batch.

    It is the offset that the digits of the name say, perhaps with too few or too many zeros before it, or with other
    text around 20 digits, if the file can be the segment of that base offset: the first batch is at or above it, as in
    a compacted topic, and the .log file before ends at or below it. Otherwise it is the offset of the first batch.
    headers: the headers of the first batches of the directory's .log files, by name.
    """
    if name not in headers:
        return None
    first, offset = headers[name].first, _offset(name)
    stem = name.removesuffix(FileKind.LOG)
    if not stem.isdecimal():
        named = _NAMED.search(stem)
        offset = None if named is None else int(named[0])
    if offset is None or offset >= first:
        return first
    before = max(
        (each for each in headers if headers[each].first < first), key=lambda each: headers[each].first, default=None
    )
    return offset if before is None or _end_of(directory / before) <= offset else first


def _first_headers(directory: Path, names: Iterable[str]) -> dict[str, Header]:
    """Return the headers of the first batches of .log files, by name, of a file that begins with damage that of the
    first sound batch; without those that have no batch."""
    headers = {}
    for name in names:
        if name.endswith(FileKind.LOG) and (directory / name).is_file():
            with suppress(UnreadableInput), closing(FileSource(directory / name)) as source:
                header = first_any_header(source)
                if header is not None:
                    headers[name] = header
    return headers


def _end_of(log: Path) -> int:
    """Return the offset behind the last batch of a .log file, up to the first damage; 0 if there is no batch."""
    end = 0
    with suppress(UnreadableInput, FormatError), closing(FileSource(log)) as source:
        for header in read_any_headers(source, 0):
            end = header.last + 1
    return end


def _size(path: Path) -> int:
    """Return the size of a file in bytes; 0 if it cannot be looked up."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def odd_type(path: Path, name: FileName, bases: Sequence[int], recovered_from: int) -> Finding | None:
    """Return a finding for a directory, a pipe, a broken link and so on with the name of one of Kafka's files; None for
    a regular file. bases: the base offsets of the partition's .log files that are regular files. recovered_from: the
    offset from which on a start recovers segments."""
    try:
        mode = path.stat().st_mode
        file_type = next((text for test, text in _TYPES if test(mode)), None)
    except FileNotFoundError:
        file_type = "nothing"
    except OSError:
        return None  # the check of the file itself reports this error
    if file_type is None:
        return None
    link = f"a symbolic link to {path.readlink()}: " if path.is_symlink() else ""
    action = "stop the broker, look for the file itself, and move this away"
    command = next_steps.move([(path, path.with_name(f"{path.name}.moved"))])
    if link and file_type == "nothing" and not name.state:
        target = path.readlink()
        action = f"stop the broker, and mount the disk with {target}, or put that file back; only if it is lost, move "
        action += "the link away"
        command = next_steps.list_file(path)
    outcome, refuses = "the log directory goes offline when Kafka opens it", False
    if name.state:
        outcome = "Kafka passes it over"
    elif name.kind in _READ_WHOLE and file_type == _PIPE:
        outcome, refuses = "Kafka's start waits at it for ever", True
    elif name.kind is FileKind.PRODUCER_SNAPSHOT and file_type == _PIPE:
        outcome = "Kafka passes it over; a start that is to write one of this name waits at it for ever"
    elif file_type not in ("nothing", "a directory") and is_foretold(path):
        # where no .log file is left, Kafka creates one with the offset 0
        told = outcome_of(path, (bases or [0]) if name.kind is FileKind.LOG else bases, recovered_from)
        outcome, refuses = told.outcome, told.fails
    elif name.kind is FileKind.LOG:
        outcome = "Kafka passes it over, and with it the segment"
    elif name.kind is FileKind.PRODUCER_SNAPSHOT:
        outcome = "a start that is to write it empties the segment that it recovers, or takes the log directory offline"
    return Finding(
        path=str(path),
        kind="file-type",
        severity="error",
        expected="a file",
        found=f"{link}{file_type}; {outcome}",
        refuses_start=refuses,
        action=action,
        command=command,
    )


def foreign_link(path: Path) -> Finding | None:
    """Return the finding that a .log file is a symbolic link to a .log file with batches in another partition's
    directory; None for any other .log file."""
    if not path.is_symlink() or not is_link_to_batches(path):
        return None
    target = path.resolve()
    return Finding(
        path=str(path),
        kind="log-link",
        severity="error",
        expected="a file of its own",
        found=f"a symbolic link to {path.readlink()}: the batches are those of {target.parent.name}",
        action="stop the broker, look for the file itself, and move this away: consumers read the records of the other "
        "partition",
        command=next_steps.move([(path, path.with_name(f"{path.name}.moved"))]),
    )


_READ_WHOLE = (FileKind.LEADER_EPOCHS, FileKind.PARTITION_METADATA)
_PIPE = "a named pipe"
_TYPES = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, _PIPE),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
)
