"""Checkpoints of one log directory in another of the same broker: Kafka ignores their entries.

A checkpoint is foreign if none of its entries is of a partition in the log directory. With foreign checkpoints a start
recovers all logs from their beginning, and forgets log start offsets: deleted records are served again. Kafka does not
ignore the entries of cleaner-offset-checkpoint: see entries_elsewhere.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from formats.file_name import FileKind
from kcli.errors import UnreadableInput
from kcli.log.log_directory import LogDirectory
from kcli.log.recovery.entries_elsewhere import ENDS, entries_elsewhere
from kcli.protocol.topic_partition import TopicPartition

KINDS = (
    FileKind.LOG_START_OFFSETS,
    FileKind.RECOVERY_POINTS,
    FileKind.REPLICATION_OFFSETS,
    FileKind.CLEANER_OFFSETS,
)
ENTRIES_LEAST = 2
"""The least number of existing partitions that a checkpoint without a partition of its log directory must list to be
called foreign."""


class ForeignCheckpoints(NamedTuple):
    """Foreign checkpoints in a log directory.

    kinds: the foreign checkpoints; after an exchange, also those that are foreign in `owner`. owner: the other log
    directory that has most of the partitions that these checkpoints list; None if it is not known. is_exchanged:
    whether `owner` has the checkpoints of this directory. forgets_start: whether Kafka's start forgets a log start
    offset. entries: the number of entries in this directory's foreign checkpoints.
    """

    kinds: Sequence[FileKind]
    owner: Path | None
    is_exchanged: bool
    forgets_start: bool
    entries: int

    @property
    def reason(self) -> str:
        """The fault of the checkpoints, and Kafka's reaction to them, in words."""
        found = f"none of the {self.entries:,} entries of {', '.join(self.kinds)} is of a partition in this directory"
        if self.owner is not None:
            found = f"{', '.join(self.kinds)} {'is' if len(self.kinds) == 1 else 'are'} of {self.owner}"
            found += ", which has those of this directory" if self.is_exchanged else ", or a copy"
        lost = []
        if FileKind.RECOVERY_POINTS in self.kinds:
            lost.append("takes all of each log for not flushed")
        if self.forgets_start:
            lost.append("forgets log start offsets, and serves deleted records again")
        if self.is_exchanged and FileKind.CLEANER_OFFSETS in self.kinds:
            lost.append(f"cleans logs anew; once it has, {ENDS}")
        return f"{found}: Kafka {', '.join(lost) or 'passes over the entries'}"


def foreign_checkpoints(
    home: Path, others: Sequence[Path], exists: Callable[[TopicPartition], bool]
) -> ForeignCheckpoints | None:
    """Return the foreign checkpoints in the log directory `home`: those without an entry for any partition in `home`;
    None if there are none, or if the longest of them lists fewer than ENTRIES_LEAST partitions that exist. A
    cleaner-offset-checkpoint that is not exchanged is left to `entries_elsewhere`, if that reports it. others: the
    other log directories of the broker. exists: returns False for a partition that is known to be deleted. Raises
    UnreadableInput."""
    own = _partitions(home)
    found = {
        kind: names for kind in KINDS if (names := set(LogDirectory(home).legible_offsets(kind))) and not own & names
    }
    most = max(found.values(), key=len, default=set[TopicPartition]())
    if not own or sum(map(exists, most)) < ENTRIES_LEAST:
        return None
    owner = next((each for each in others if _are_most(most, _partitions(each))), None)
    there = set[TopicPartition]() if owner is None else _partitions(owner)
    theirs = {} if owner is None else {kind: set(LogDirectory(owner).legible_offsets(kind)) for kind in KINDS}
    is_exchanged = any(names and not there & names and _are_most(names, own) for names in theirs.values())
    is_own_there = bool(there & theirs.get(FileKind.CLEANER_OFFSETS, set()))
    if (is_own_there or not is_exchanged) and entries_elsewhere(home, others) is not None:
        found.pop(FileKind.CLEANER_OFFSETS, None)
    entries = sum(map(len, found.values()))
    if not entries:
        return None
    if not is_exchanged:
        return ForeignCheckpoints(list(found), owner, is_exchanged=False, forgets_start=False, entries=entries)
    kinds = [kind for kind in KINDS if kind in found or (theirs[kind] and not there & theirs[kind])]
    starts = found.get(FileKind.LOG_START_OFFSETS, ()), theirs[FileKind.LOG_START_OFFSETS] - there
    return ForeignCheckpoints(kinds, owner, is_exchanged=True, forgets_start=any(starts), entries=entries)


def _are_most(names: set[TopicPartition], there: set[TopicPartition]) -> bool:
    """Whether `there` has more than half of the partitions `names`; the rest may have been deleted since."""
    return 2 * len(names & there) > len(names)


def _partitions(home: Path) -> set[TopicPartition]:
    """Return the partitions in a log directory, strays too, as a start may have left them aside since; none if it is
    missing or cannot be read, which another check reports."""
    try:
        return {each.partition for each in LogDirectory(home).partitions() if each.name.state in ("", "stray")}
    except UnreadableInput:
        return set()
