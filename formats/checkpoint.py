"""Checkpoint files: numbers in lines of text.

    leader-epoch-checkpoint            per partition       leader epochs with their start offsets
    recovery-point-offset-checkpoint   per log directory   recovery points: each log is flushed below its offset
    replication-offset-checkpoint      per log directory   high watermarks
    log-start-offset-checkpoint        per log directory   log start offsets beyond the first segment's base offset
    cleaner-offset-checkpoint          per log directory   each log is cleaned below its offset

    line 1     version, 0
    line 2     number of entries
    line 3..   `epoch start-offset`, or `topic partition offset`; separated by white space

An empty file (Kafka creates one before its first write) and a file of only the version hold no entries. Any other
malformed file keeps a broker from starting, with one exception: a broker reads an offset checkpoint that has text in
place of a number, or a negative count, as one without entries; with such a replication-offset-checkpoint it serves no
partition.
Source: CheckpointFile, LeaderEpochCheckpointFile, OffsetCheckpointFile.
"""

import codecs
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from formats.errors import BadCount, BadNumber, BadValue, UnknownVersion

VERSION = 0
NULS_SHOWN = 4
"""The least length, in characters, of a run of NULs at which an error message cuts off the line that it shows."""

_INTEGER = re.compile(r"[+-]?\d+")
_WHITE = re.compile(r"[ \t\v\f]+")
_END_OF_LINE = re.compile(rb"\r\n|\r|\n")

T = TypeVar("T")


class EpochEntry(NamedTuple):
    """A leader epoch and the offset of the first record that its leader appended."""

    epoch: int
    start_offset: int


class OffsetEntry(NamedTuple):
    """A partition and its offset."""

    topic: str
    partition: int
    offset: int


def parse_leader_epochs(data: bytes) -> tuple[EpochEntry, ...]:
    """Return the entries of a leader-epoch-checkpoint file in its order. Raises BadValue, BadCount, UnknownVersion."""

    def entry(words: Sequence[str]) -> EpochEntry:
        epoch, offset = words
        return EpochEntry(_integer(epoch, 32), _integer(offset, 64))

    return _parse(data, entry)


def build_leader_epochs(entries: Sequence[EpochEntry]) -> bytes:
    """Return the bytes of a leader-epoch-checkpoint file."""
    return _build(entries)


def parse_offsets(data: bytes) -> tuple[OffsetEntry, ...]:
    """Return the entries of an offset checkpoint file in its order. Raises BadValue, BadCount, UnknownVersion."""

    def entry(words: Sequence[str]) -> OffsetEntry:
        topic, partition, offset = words
        return OffsetEntry(topic, _integer(partition, 32), _integer(offset, 64))

    return _parse(data, entry)


def build_offsets(entries: Sequence[OffsetEntry]) -> bytes:
    """Return the bytes of an offset checkpoint file."""
    return _build(entries)


class _NotANumberError(ValueError):
    """The error for text that is not an integer, or out of the range of its type. `_parse` raises BadValue for it in
    lines 1 and 2, BadNumber in later lines."""


def is_utf16(data: bytes) -> bool:
    """Whether a file begins with the byte order mark of UTF-16, as one that PowerShell has written."""
    return data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


def _lines(data: bytes) -> Iterator[tuple[int, str]]:
    """Yield position and text of each line; lines end as for Java's BufferedReader.readLine."""
    position = 0
    while position < len(data):
        end = _END_OF_LINE.search(data, position)
        stop, behind = end.span() if end else (len(data), len(data))
        try:
            yield position, data[position:stop].decode()
        except UnicodeDecodeError as error:
            raise BadValue("UTF-16, not UTF-8" if is_utf16(data) else "not UTF-8", position + error.start) from None
        position = behind


def _parse(data: bytes, entry: Callable[[Sequence[str]], T]) -> tuple[T, ...]:
    entries: list[T] = []
    expected = count_at = 0
    for number, (position, line) in enumerate(_lines(data), 1):
        try:
            if number == 1 and (version := _integer(line, 32)) != VERSION:
                raise UnknownVersion(f"line 1: version {version}, not {VERSION}", position)
            if number == 2:
                expected, count_at = _integer(line, 32), position
                if expected < 0:
                    raise BadNumber(f"line 2: a count of {expected:,}", position)
            if number > 2:
                entries.append(entry(_WHITE.split(line.rstrip(" \t\v\f"))))
        except _NotANumberError:
            kind = BadNumber if number > 2 else BadValue
            raise kind(f"line {number} is malformed: {shown_line(line)}", position) from None
        except ValueError:
            raise BadValue(f"line {number} is malformed: {shown_line(line)}", position) from None
    if len(entries) != expected:
        raise BadCount(f"line 2: a count of {expected:,}, but {len(entries):,} entries", count_at)
    return tuple(entries)


def _integer(text: str, bits: int) -> int:
    if not _INTEGER.fullmatch(text) or len(text) > 100 or not -(1 << bits - 1) <= int(text) < 1 << bits - 1:
        raise _NotANumberError(text)
    return int(text)


def _build(entries: Sequence[EpochEntry] | Sequence[OffsetEntry]) -> bytes:
    lines = [str(VERSION), str(len(entries)), *(" ".join(map(str, entry)) for entry in entries)]
    return "".join(f"{line}\n" for line in lines).encode()


def shown_line(line: str) -> str:
    """Return a line of a small text file in the form that error messages use: its first 100 characters, but at most
    those before the first run of NULs (left by a crash or a full disk). The bytes from it on are only counted."""
    if line and not line.strip("\0"):
        return f"{len(line):,} NUL {'byte' if len(line) == 1 else 'bytes'}"
    begin, _, _ = line.partition("\0" * NULS_SHOWN)
    rest = f", then {len(line) - len(begin):,} bytes from a NUL on" if len(begin) < len(line) else ""
    return f"{begin[:100]!r}{rest}"
