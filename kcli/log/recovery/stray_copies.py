"""Directories that have, or had, the log of a partition beside the one that Kafka serves: strays in the same log
directory, as `cp -r orders-0 orders-2` or `cp -a orders-0 orders-0-20261128` make them; and what a move between two log
directories of a broker leaves (-delete, -future), or an operator who has copied a directory to the other one.

A copy of the whole log directory inside that log directory, such as a file server's snapshot (.snapshot/hourly.0), has
such copies, too: the directories of the same names.

Such a directory has the topic id of the partition, and it is a stray, or becomes one at the start: its number is not
that of a partition of the topic, or its name begins with that of the partition's directory, so that Kafka takes it for
a partition of a topic `orders-0`. Where a .log file of the partition is damaged, the .log file of the same name in the
copy may have the batches. A batch of the copy counts only if the bytes prove that both files were one: the last sound
batch before the damage and the first one behind it are also in the copy, with the same offset, CRC and size. The same
holds for a .log file that was cut behind a batch, where another segment follows. If no sound batch of a .log file is
left, the batches of the copy have to end where the next segment begins.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain, islice
from pathlib import Path

from formats.file_name import METADATA_TOPIC, FileKind, parse
from formats.kernels.columns import BatchRow
from kcli.errors import UnreadableInput
from kcli.log.log_directory import LogDirectory, PartitionDirectory, partition_named
from kcli.log.partition_directory import legible_topic_id
from kcli.log.recovery.offset_ranges import OffsetRanges
from kcli.log.segment_reader import sound_batches
from kcli.log.source import FileSource, Source
from kcli.protocol.topic_partition import TopicPartition

BATCHES_COMPARED = 1_000
"""The maximum number of batches of a .log file that are compared to recognize a copy."""


def stray_copies(
    home: LogDirectory, count: Callable[[str], int], others: Iterable[Path] = ()
) -> Mapping[TopicPartition, Sequence[Path]]:
    """Return, for each partition of a log directory, the directories that may be copies of its directory: the strays
    with its topic id; with the same partition and topic id, those with -delete or -future, and all directories in the
    `others`, the other log directories of the broker; and the directories of its name and topic id that lie deeper than
    Kafka looks. count: returns a topic's number of partitions; 0 if that is not known. Raises UnreadableInput."""
    strays: dict[tuple[str, str], list[Path]] = {}
    served = {}
    partitions = home.partitions()
    for each in partitions:
        topic, number = each.partition
        if topic == METADATA_TOPIC or each.name.state not in ("", "stray"):
            continue
        if each.name.state or 0 < count(topic) <= number:
            topic_id = legible_topic_id(each.path)
            if topic_id is not None:
                strays.setdefault((topic, topic_id), []).append(each.path)
        else:
            served[each.path.name] = each
    found: dict[TopicPartition, list[Path]] = {}
    for name, each in served.items():
        original = next((served[begin] for begin in _names_before(name) if begin in served), None)
        if original is not None and not count(each.name.topic) and _is_same_topic(each.path, original.path):
            found.setdefault(original.partition, []).append(each.path)
    moved = [each for each in partitions if each.name.state in ("delete", "future")]
    for each in chain(moved, *map(_partitions, others)):
        own = served.get(str(each.partition))
        if own is not None and _is_same_topic(each.path, own.path):
            found.setdefault(own.partition, []).append(each.path)
    for path in home.adrift():
        parsed = partition_named(path.name)
        own = None if parsed is None or parsed.state else served.get(path.name)
        if own is not None and _is_same_topic(path, own.path):
            found.setdefault(own.partition, []).append(path)
    if strays:
        ids = {each.partition: legible_topic_id(each.path) for each in served.values()}
        for partition, topic_id in ids.items():
            if topic_id and (partition.topic, topic_id) in strays:
                found.setdefault(partition, []).extend(strays[partition.topic, topic_id])
    return found


def _partitions(log_directory: Path) -> Sequence[PartitionDirectory]:
    try:
        return LogDirectory(log_directory).partitions()
    except UnreadableInput:  # the checks of that directory report this error
        return []


def is_named_copy(path: Path, directory: Path) -> bool:
    """Whether a directory is, by name and topic id, a copy of a partition's directory beside it: its name begins with
    that of the partition's directory, as orders-0-20261128 begins with orders-0."""
    return directory.absolute().name in _names_before(path.name) and _is_same_topic(path, directory)


def _names_before(name: str) -> Iterator[str]:
    """Yield each beginning of a name that has the form of a partition's name and is not followed by a digit: `orders-0`
    for orders-0-20261128."""
    return (name[: each.end()] for each in re.finditer(r"-[0-9]+(?=[^0-9])", name))


def _is_same_topic(one: Path, other: Path) -> bool:
    """Whether two directories have one topic id; False if one of the ids cannot be read, which other checks report."""
    topic_id = legible_topic_id(one)
    return topic_id is not None and legible_topic_id(other) == topic_id


def is_copy(stray: Path, directory: Path) -> bool:
    """Return whether two directories have a .log file of the same name, and all sound batches of one of the two files
    are also in the other one, up to the offset at which the first of the two ends. Raises UnreadableInput."""
    for one, two in ((_identities(log), _identities(other)) for log, other in logs_in_both(directory, stray)):
        if one and two:
            end = min(max(one), max(two))
            mine, its = ({each for each in batches if each <= end} for batches in (one, two))
            return bool(mine & its) and (mine <= its or its <= mine)
    return False


def lacking_in(log: Source, copy: Source, until: int | None = None) -> OffsetRanges:
    """Return the offsets that damaged bytes of a .log file had, by the batches that a copy of the file has between the
    same two batches; at the end of the file, behind the same batch. until: the base offset of the next segment, if the
    log was never compacted: then offsets below it count even if the bytes at the end of the file are not damaged, but
    missing; else None. Raises UnreadableInput."""
    found = OffsetRanges()
    run: tuple[int, int] | None = None  # offsets of the copy behind the last batch that both files have
    rows = sound_batches(log)
    own, end = next(rows, None), 0
    is_same, has_same = True, False  # before the first batch both are at the beginning of the file
    for row in sound_batches(copy):
        while own is not None and own.last_offset < row.base_offset:
            end = own.position + own.size
            own, is_same, run = next(rows, None), False, None
        if own is None or row.last_offset < own.base_offset:
            run = row.base_offset if run is None else run[0], row.last_offset
        elif _identity(own) == _identity(row):
            if run is not None and is_same and own.position > end:
                found.add(*run)
            end = own.position + own.size
            own, is_same, has_same, run = next(rows, None), True, True, None
        else:
            is_same, run = False, None
    if own is None and run is not None and is_same and (has_same or (until is not None and run[1] + 1 == until)):
        if end < log.size():
            found.add(*run)
        elif until is not None and run[0] < until:
            found.add(run[0], min(run[1], until - 1))
    return found


def lacking_in_file(log: Path, copy: Path, until: int | None = None) -> OffsetRanges:
    """As `lacking_in`, for two files. Raises UnreadableInput."""
    with closing(FileSource(log)) as one, closing(FileSource(copy)) as other:
        return lacking_in(one, other, until)


def logs_in_both(directory: Path, copy: Path) -> Iterator[tuple[Path, Path]]:
    """Yield the .log files of a directory for which a copy of it has a file of the same name, and that file."""
    for path in sorted(directory.glob(f"*{FileKind.LOG}")):
        name = parse(path.name)
        if name is not None and not name.state and (copy / path.name).is_file():
            yield path, copy / path.name


def _identities(path: Path) -> set[tuple[int, int, int]]:
    with closing(FileSource(path)) as source:
        return {_identity(row) for row in islice(sound_batches(source), BATCHES_COMPARED)}


def _identity(row: BatchRow) -> tuple[int, int, int]:
    return row.base_offset, row.crc, row.size
