"""The reaction of Kafka's start to a pipe, a socket or a device that has the name of a .log file, an index or a
producer snapshot.

    .log                 Kafka ignores it, and removes the indexes of its name. If no other .log file is left, Kafka
                         creates one: if that is to have this name, Kafka opens a device as an empty log, and fails at a
                         pipe
    .index, .timeindex   of the active segment, or of one that the start recovers: Kafka cannot make it as long as such
                         an index is to be, and fails; of another segment it takes it for an empty index
    .txnindex            Kafka asks for its size, and fails at a pipe
    .snapshot            Kafka ignores it, and fails where it is to write one of its name: at a pipe, it waits

A socket and a whiteout (kcli.log.whiteouts) cannot be opened: Kafka fails as soon as it is to open one. Source:
LogLoader.loadSegmentFiles, FileRecords, AbstractIndex, TransactionIndex, ProducerStateManager.listSnapshotFiles.
"""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from formats.file_name import FileKind, parse
from kcli.log.partition_view import MAPPED
from kcli.log.whiteouts import WHITEOUT, is_whiteout


class Outcome(NamedTuple):
    """The reaction of a start to the file, in words. fails: whether it fails at the file: the log directory is offline,
    or Kafka does not start without another one."""

    outcome: str
    fails: bool


def is_foretold(path: Path) -> bool:
    """Whether `outcome_of` knows the reaction of a start to a file of this name."""
    parsed = parse(path.name)
    known = (FileKind.LOG, FileKind.TXN_INDEX, FileKind.PRODUCER_SNAPSHOT, *MAPPED)
    return parsed is not None and not parsed.state and parsed.kind in known


def is_opened(path: Path) -> bool:
    """Whether a start opens the file, which is an index of a .log file: it passes over other files that `is_foretold`
    knows."""
    parsed = parse(path.name)
    is_index = parsed is not None and parsed.kind in (FileKind.TXN_INDEX, *MAPPED)
    return is_index and path.with_suffix(FileKind.LOG).is_file()


def is_snapshot(name: str) -> bool:
    """Whether this is the name of a producer snapshot."""
    parsed = parse(name)
    return parsed is not None and parsed.kind is FileKind.PRODUCER_SNAPSHOT and not parsed.state


def type_of(path: Path) -> str:
    """Return the word for the type of a pipe, socket or device."""
    if is_whiteout(path):
        return WHITEOUT
    mode = path.stat().st_mode
    return "a named pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"


def outcome_of(path: Path, bases: Sequence[int], recovered_from: int) -> Outcome:
    """Return the reaction of a start to a pipe, socket or device that has the name of a .log file, an index or
    a producer snapshot.

    bases: the base offsets of the .log files that are there when it starts, without this one unless Kafka creates it.
    recovered_from: the offset from which on a start recovers segments.
    """
    name = parse(path.name)
    assert name is not None, "is_foretold is asked before"
    mode, base = path.stat().st_mode, name.base_offset or 0
    is_openable = not (stat.S_ISSOCK(mode) or is_whiteout(path))
    if name.kind is FileKind.LOG:
        if base not in bases:
            return Outcome("Kafka passes it over, and with it the segment", fails=False)
        if is_openable and not stat.S_ISFIFO(mode):
            return Outcome("Kafka opens it as an empty log", fails=False)
        return Outcome("Kafka does not start: it opens it as the log that it creates, and fails", fails=True)
    if name.kind is FileKind.PRODUCER_SNAPSHOT:
        return Outcome("Kafka passes it over, unless it is to write one of this name", fails=False)
    if base not in bases:
        return Outcome("Kafka passes it over", fails=False)
    if name.kind is FileKind.TXN_INDEX:
        return Outcome("Kafka does not start: it fails as it opens it", fails=True)
    following = min((each for each in bases if each > base), default=None)
    if following is None or following > recovered_from:
        return Outcome("Kafka does not start: it cannot make it as long as such an index is to be", fails=True)
    if not is_openable:
        return Outcome("Kafka starts, and the log directory goes offline when it opens it", fails=False)
    return Outcome("Kafka takes it for an empty index: it starts, and reads may be slow", fails=False)
