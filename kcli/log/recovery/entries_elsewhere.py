"""Entries of cleaner-offset-checkpoint for partitions that lie in another log directory of the same broker.

Kafka's log cleaner reads the files of all log directories before each pass. If two of them have an entry of one
partition, its thread ends (IllegalStateException: Duplicate key), and does so after each start: no compacted topic of
the broker is cleaned any more. Kafka drops an entry only if the broker does not have the partition, so that of a
partition which was moved by hand (`mv`) stays, and is doubled once the partition is cleaned where it lies.

A partition's entry belongs in the file of the directory in which the partition lies. If it lies in none, the file of
the directory whose path sorts first keeps it. A partition with directories in both is left alone: Kafka does not start.
Source: LogCleanerManager (allCleanerCheckpoints, updateCheckpoints, alterCheckpointDir).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from formats.file_name import FileKind
from kcli.errors import UnreadableInput
from kcli.log.log_directory import LogDirectory
from kcli.printable import names_text
from kcli.protocol.topic_partition import TopicPartition

ENDS = (
    "its log cleaner ends (IllegalStateException: Duplicate key), at each start: no compacted topic is cleaned any more"
)
NAMES_SHOWN = 3


class EntriesElsewhere(NamedTuple):
    """Entries in the cleaner-offset-checkpoint of one log directory that do not belong there.

    entries: their offsets, by partition; those that another file has, too, come first. kept: the other entries of the
    file. file: the cleaner-offset-checkpoint that has the first of `entries`, too; None if none has it. place: the log
    directory in which the first of `entries` lies; None if it lies in none.
    """

    entries: Mapping[TopicPartition, int]
    kept: Mapping[TopicPartition, int]
    file: Path | None
    place: Path | None

    @property
    def reason(self) -> str:
        """Which entries these are, and Kafka's reaction to them, in words."""
        first, count = next(iter(self.entries)), len(self.entries)
        names = names_text(list(self.entries), NAMES_SHOWN)
        found = f"an entry of {first}, which" if count == 1 else f"{count:,} entries of {names}; {first}"
        if self.file is not None:
            return f"{found} has one in {self.file}, too: Kafka starts, and {ENDS}"
        return f"{found} lies in {self.place}: once Kafka has cleaned it there, {ENDS}"


def entries_elsewhere(home: Path, others: Sequence[Path], aside: Collection[Path] = ()) -> EntriesElsewhere | None:
    """Return the entries in the cleaner-offset-checkpoint of the log directory `home` that do not belong there; None if
    there are none. others: the other log directories of the broker. aside: the directories of partitions that salvage
    makes strays."""
    offsets = LogDirectory(home).legible_offsets(FileKind.CLEANER_OFFSETS)
    absent = offsets.keys() - (_partitions(home, aside) if offsets and others else offsets.keys())
    if not absent:
        return None
    places = {name: each for each in others for name in _partitions(each) & absent}
    files = {
        name: each / FileKind.CLEANER_OFFSETS
        for each in others
        for name in LogDirectory(each).legible_offsets(FileKind.CLEANER_OFFSETS).keys() & absent
        if name in places or str(each.resolve()) < str(home.resolve())
    }
    found = sorted(places.keys() | files.keys(), key=lambda name: (name not in files, name))
    if not found:
        return None
    kept = {name: offset for name, offset in offsets.items() if name not in found}
    return EntriesElsewhere({each: offsets[each] for each in found}, kept, files.get(found[0]), places.get(found[0]))


def _partitions(home: Path, aside: Collection[Path] = ()) -> set[TopicPartition]:
    """Return the partitions that Kafka's start opens in a log directory: those with partition.metadata. Returns none if
    the directory cannot be read, which another check reports."""
    try:
        found = [each for each in LogDirectory(home).partitions() if not each.name.state and each.path not in aside]
        return {each.partition for each in found if (each.path / FileKind.PARTITION_METADATA).exists()}
    except (UnreadableInput, OSError):
        return set()
