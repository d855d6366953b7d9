"""The reaction of Kafka's start to a pipe, a socket or a device that has the name of a .log file or an index.

    .log                 Kafka ignores it, and removes the indexes of its name. If no other .log file is left, Kafka
                         creates one: if that is to have this name, Kafka opens a device as an empty log, and fails at a
                         pipe
    .index, .timeindex   of the active segment, or of one that the start recovers: Kafka cannot make it as long as such
                         an index is to be, and fails; of another segment it takes it for an empty index
    .txnindex            Kafka asks for its size, and fails at a pipe

A socket cannot be opened: Kafka fails as soon as it is to open it. Source: LogLoader.loadSegmentFiles, FileRecords,
AbstractIndex, TransactionIndex.
"""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from formats.file_name import FileKind, parse
from kcli.log.partition_view import MAPPED


class Outcome(NamedTuple):
    """The reaction of a start to the file, in words. fails: whether it fails at the file: the log directory is offline,
    or Kafka does not start without another one."""

    outcome: str
    fails: bool


def is_foretold(name: str) -> bool:
    """Whether `outcome_of` knows the reaction of a start to a file of this name."""
    parsed = parse(name)
    return parsed is not None and not parsed.state and parsed.kind in (FileKind.LOG, FileKind.TXN_INDEX, *MAPPED)


def type_of(path: Path) -> str:
    """Return the word for the type of a pipe, socket or device."""
    mode = path.stat().st_mode
    return "a named pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"


def outcome_of(path: Path, bases: Sequence[int], recovered_from: int) -> Outcome:
    """Return the reaction of a start to a pipe, socket or device that has the name of a .log file or index.

    bases: the base offsets of the .log files that are there when it starts, without this one unless Kafka creates it.
    recovered_from: the offset from which on a start recovers segments.
    """
    name = parse(path.name)
    assert name is not None, "is_foretold is asked before"
    mode, base = path.stat().st_mode, name.base_offset or 0
    is_device = not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode))
    if name.kind is FileKind.LOG:
        if base not in bases:
            return Outcome("Kafka passes it over, and with it the segment", fails=False)
        if is_device:
            return Outcome("Kafka opens it as an empty log", fails=False)
        return Outcome("Kafka does not start: it opens it as the log that it creates, and fails", fails=True)
    if name.kind is FileKind.TXN_INDEX:
        return Outcome("Kafka does not start: it fails as it opens it", fails=True)
    following = min((each for each in bases if each > base), default=None)
    if following is None or following > recovered_from:
        return Outcome("Kafka does not start: it cannot make it as long as such an index is to be", fails=True)
    if stat.S_ISSOCK(mode):
        return Outcome("Kafka starts, and the log directory goes offline when it opens it", fails=False)
    return Outcome("Kafka takes it for an empty index: it starts, and reads may be slow", fails=False)
