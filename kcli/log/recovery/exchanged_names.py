"""Directories of partitions of one topic that have exchanged their names.

They have the same topic id. Two kinds of evidence show of which partition their records are:

    keys            in a coordinator's topic the hash of each key gives the number of its partition
    log ends        after a clean shutdown each log ends at the recovery point of its partition; this is no evidence if
                    one of the logs is shorter than another checkpoint says, or than the files in its directory say

Without the clean-shutdown marker a recovery point is the base offset of a segment, or a lower bound of the log's end:
then the exchange is one of two explanations (`is_certain` is False), and the other one is that a log lost its end. The
log start offsets may exclude the second explanation: if DeleteRecords has raised one of them, the names were exchanged
if the first leader epoch of each log begins at the log start offset of that partition at whose recovery point the log
ends.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from formats.checkpoint import parse_leader_epochs
from formats.errors import FormatError
from formats.file_name import METADATA_TOPIC, FileKind, FileName, build, build_directory, parse_directory
from kcli.errors import StartRefused, UnreadableInput
from kcli.log.log_directory import LogDirectory
from kcli.log.partition_directory import files_of_kind
from kcli.log.recovery.coordinator_keys import KEYS_OF, owners
from kcli.log.recovery.epoch_starts import start_by_epochs
from kcli.log.recovery.exchanged import HEADER, LENGTH_EXTRA_BYTES, MAGIC, batch_at, indexes_fit, last_entry
from kcli.log.source import read_whole
from kcli.protocol.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class ExchangedNames:
    """Directories that have exchanged their names. Each of `paths` has the records of the partition in the name of the
    next path, and the last one has those of the partition in the first name. expected, found: which records or which
    log end the first directory should have and which it has, in words. is_certain: whether no other explanation is
    possible."""

    paths: tuple[Path, ...]
    expected: str
    found: str
    is_certain: bool = True

    @property
    def owners(self) -> dict[Path, TopicPartition]:
        """By directory, the partition whose records the directory has."""
        names = [parse_directory(path.name) for path in [*self.paths[1:], self.paths[0]]]
        return {
            path: TopicPartition(name.topic, name.partition)
            for path, name in zip(self.paths, names, strict=True)
            if name is not None
        }


def exchanged_names(home: LogDirectory, counts: Mapping[str, int]) -> list[ExchangedNames]:
    """Return the exchanges of names among the directories in a log directory. counts: the numbers of partitions of
    coordinators' topics, by topic, as far as they are known. Raises UnreadableInput."""
    topics = _by_topic(home)
    ends = _LogEnds(home)
    found: list[ExchangedNames] = []
    for topic, paths in topics.items():
        if len(paths) == 1:
            continue
        owned = _owned(topic, paths, counts)
        found += ends.exchanged(topic, paths) if owned is None else _by_keys(topic, paths, owned)
    return found


def exchanged_by_keys(home: LogDirectory, counts: Mapping[str, int]) -> dict[Path, Path]:
    """Return the .log files of coordinators' partitions that were exchanged without their indexes, as the keys in the
    files show: path at which a file belongs -> path at which it is now. The indexes cannot show this exchange: if the
    batches of two partitions have equal sizes, they fit the indexes of both. counts: as in exchanged_names. Raises
    UnreadableInput."""
    found: dict[Path, Path] = {}
    for paths, _, cycle in _cycles_by_keys(home, counts):
        logs = [dict(files_of_kind(paths[each], FileKind.LOG)) for each in cycle]
        is_alike = all(each.keys() == logs[0].keys() for each in logs)
        if is_alike and not all(_is_of_one_partition(paths[each]) for each in cycle):
            for mine, following in zip(logs, [*logs[1:], logs[0]], strict=True):
                found |= {following[base]: log for base, log in mine.items()}
    return found


def moved_by_keys(home: LogDirectory, counts: Mapping[str, int]) -> dict[Path, Path]:
    """Return the .log files of coordinators' partitions that were moved to another partition's directory, which leaves
    their own without a .log file, as the keys in the files show: path at which a file belongs -> path at which it is
    now. counts: as in exchanged_names. Raises UnreadableInput."""
    found: dict[Path, Path] = {}
    for paths, owned, cycle in _cycles_by_keys(home, counts):
        if not _have_logs(paths, cycle):
            for each in filter(owned.get, cycle):
                owner = paths[next(iter(owned[each]))]
                found |= {owner / log.name: log for _, log in files_of_kind(paths[each], FileKind.LOG)}
    return found


def _cycles_by_keys(
    home: LogDirectory, counts: Mapping[str, int]
) -> Iterator[tuple[Mapping[int, Path], Mapping[int, Mapping[int, str]], Sequence[int]]]:
    """Yield each cycle of `_key_cycles`, with the directories of its topic by partition number, and what `_owned`
    returns for the topic."""
    for topic, paths in _by_topic(home).items():
        owned = _owned(topic, paths, counts) or {}
        for cycle in _key_cycles(owned):
            yield paths, owned, cycle


def _have_logs(paths: Mapping[int, Path], cycle: Sequence[int]) -> bool:
    """Whether each directory of a cycle has a .log file: otherwise a file was moved, and no names were exchanged."""
    return all(files_of_kind(paths[each], FileKind.LOG) for each in cycle)


def _by_topic(home: LogDirectory) -> dict[str, dict[int, Path]]:
    """Return the directories of partitions, by topic and partition number. Raises UnreadableInput."""
    topics: dict[str, dict[int, Path]] = {}
    for each in home.partitions():
        if not each.name.state and each.name.topic != METADATA_TOPIC and build_directory(each.name) == each.path.name:
            topics.setdefault(each.name.topic, {})[each.name.partition] = each.path
    return topics


def _owned(topic: str, paths: Mapping[int, Path], counts: Mapping[str, int]) -> dict[int, dict[int, str]] | None:
    """Return, for each partition number, the partitions to which the keys in its directory belong (see owners). Returns
    None if no directory has keys, if the topic is not one of a coordinator, or if its number of partitions is not
    known. paths: the directories, by partition number."""
    if topic not in KEYS_OF or topic not in counts:
        return None
    owned = {number: owners(path, topic, counts[topic]) for number, path in paths.items()}
    return owned if any(owned.values()) else None


def _by_keys(topic: str, paths: Mapping[int, Path], owned: Mapping[int, Mapping[int, str]]) -> Iterator[ExchangedNames]:
    """Yield the exchanges of names among the directories of a coordinator's topic that the keys in them show. owned:
    what `_owned` returned. paths: the directories, by partition number."""
    for cycle in _key_cycles(owned):
        if not (_have_logs(paths, cycle) and all(_is_of_one_partition(paths[each]) for each in cycle)):
            continue
        first, second = next(each for each in zip(cycle, [*cycle[1:], cycle[0]], strict=True) if owned[each[0]])
        at = cycle.index(first)
        yield ExchangedNames(
            tuple(paths[each] for each in [*cycle[at:], *cycle[:at]]),
            f"records of which the hash of the {KEYS_OF[topic]} is {first}",
            f"records of {KEYS_OF[topic]} {owned[first][second]}, which belong to {paths[second].name}",
        )


def _key_cycles(owned: Mapping[int, Mapping[int, str]]) -> Iterator[list[int]]:
    """Yield the cycles of partition numbers in which each directory has the records of the next one's partition;
    nothing if a directory has keys of two partitions."""
    if all(len(each) <= 1 for each in owned.values()):
        targets = {number: next(iter(each)) for number, each in owned.items() if each}
        yield from _cycles(targets, {number for number, each in owned.items() if not each})


def _cycles(targets: Mapping[int, int], free: set[int]) -> Iterator[list[int]]:
    """Yield the cycles of partition numbers in which each directory has the records of the next one's partition.
    targets: by the number in a directory's name, the number of the partition whose records the directory has. free: the
    numbers of the directories without records; a chain that ends at such a directory counts as a cycle, because that
    directory may belong to the chain's first partition."""
    if len(set(targets.values())) != len(targets):
        return
    starts = [each for each in targets if each not in targets.values()] + sorted(targets)
    done: set[int] = set()
    for start in starts:
        chain = [start]
        while (following := targets.get(chain[-1])) is not None and following not in chain:
            chain.append(following)
        is_closed = following == start or (following is None and chain[-1] in free)
        if done.isdisjoint(chain) and len(chain) > 1 and is_closed:
            yield chain
        done.update(chain)


class _LogEnds:
    """Compares the log ends of the directories in one log directory with its checkpoints."""

    def __init__(self, home: LogDirectory) -> None:
        self._is_clean = home.was_shut_down_cleanly
        self._points = _offsets(home, FileKind.RECOVERY_POINTS)
        self._reached = _offsets(home, FileKind.REPLICATION_OFFSETS), _offsets(home, FileKind.CLEANER_OFFSETS)
        self._starts = _offsets(home, FileKind.LOG_START_OFFSETS)

    def exchanged(self, topic: str, paths: Mapping[int, Path]) -> Iterator[ExchangedNames]:
        """Yield the exchanges of names among the directories of a topic that the log ends show. paths: the directories,
        by partition number."""
        points = {number: self._points.get(TopicPartition(topic, number)) for number in paths}
        if len(set(points.values())) == 1:
            return
        bounds = {number: log_bounds(path) for number, path in paths.items()}
        ends = {number: log[1] for number, log in bounds.items() if log is not None}
        own = {number: {end} | self._flushed(paths[number]) for number, end in ends.items()}
        odd = {number for number in ends if points[number] not in (None, *own[number])}
        targets = {}
        for number in odd:
            fitting = [each for each in odd if points[each] in own[number]]
            if len(fitting) == 1:
                targets[number] = fitting[0]
        for cycle in _cycles(targets, set()):
            following = dict(zip(cycle, [*cycle[1:], cycle[0]], strict=True))
            contradicted = (self._contradicts(TopicPartition(topic, following[each]), paths[each]) for each in cycle)
            if any(contradicted) or not all(_is_of_one_partition(paths[each]) for each in cycle):
                continue
            one, two = paths[cycle[0]].name, paths[cycle[1]].name
            is_end = all(points[following[each]] == ends[each] for each in cycle)
            yield ExchangedNames(
                tuple(paths[each] for each in cycle),
                f"a {'log up to' if is_end else 'segment'} {points[cycle[0]]:,}, the recovery point of {one}",
                f"one {'up to' if is_end else 'named'} {points[cycle[1]]:,}, the recovery point of {two}",
                self._is_clean or self._starts_agree(topic, paths, following),
            )

    def _starts_agree(self, topic: str, paths: Mapping[int, Path], following: Mapping[int, int]) -> bool:
        """Whether each log in a cycle begins, by its leader epochs, at another log start offset than that of its name,
        and at that of the partition to which the cycle assigns it. A partition without records deleted by DeleteRecords
        has the log start offset 0 here, as start_by_epochs returns it. following: by the number in a directory's name,
        the number of that partition."""
        own = {number: self._starts.get(TopicPartition(topic, number), 0) for number in following}
        found = {number: start_by_epochs(paths[number]) for number in following}
        return all(found[number] != own[number] and found[number] == own[following[number]] for number in own)

    def _flushed(self, directory: Path) -> set[int]:
        """Return the offsets of a log, other than its end, that may be its recovery point. After a crash these are the
        base offsets of its segments, since Kafka flushes a segment when the next one begins, and the offsets of its
        producer snapshots: an earlier stop has written one at the end of the log."""
        kinds = () if self._is_clean else (FileKind.LOG, FileKind.PRODUCER_SNAPSHOT)
        return {offset for kind in kinds for offset, _ in files_of_kind(directory, kind) if offset}

    def _contradicts(self, partition: TopicPartition, path: Path) -> bool:
        """Return whether a checkpoint, or a file in the directory `path`, contradicts the assumption that this is the
        directory of `partition` and that its log is complete."""
        bounds = log_bounds(path)
        assert bounds is not None, "its end is that of the partition"
        first, end = bounds
        reached = max((each.get(partition, 0) for each in self._reached), default=0)
        start = self._starts.get(partition, first)
        return reached > end or not first <= start <= end or _stated_end(path) > end


def log_bounds(directory: Path) -> tuple[int, int] | None:
    """Return the base offset of a log's first segment and the offset after its last batch, found by the batch headers
    from the last index entry on; None if there is no log or the log cannot be read."""
    logs = [(base, path) for base, path in files_of_kind(directory, FileKind.LOG) if path.is_file()]
    if not logs:
        return None
    base, log = max(logs)
    entry = last_entry(log.with_name(build(FileName(FileKind.OFFSET_INDEX, base))))
    batch = None if entry is None else batch_at(log, entry[1])
    position = entry[1] if entry is not None and batch is not None and batch[1] == base + entry[0] else 0
    end = base
    try:
        with log.open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            while len(data := os.pread(file.fileno(), HEADER.size, position)) == HEADER.size:
                base_offset, length, _, magic, _, _, last_offset_delta = HEADER.unpack(data)
                position += length + LENGTH_EXTRA_BYTES
                if magic != MAGIC or length < HEADER.size or position > size:
                    break
                end = base_offset + last_offset_delta + 1
    except OSError:
        return None
    return min(logs)[0], end


def _is_of_one_partition(directory: Path) -> bool:
    """Whether each .log file in a directory fits its indexes. Otherwise only the .log files were exchanged, not the
    directories' names."""
    return all(indexes_fit(log, log, base) is not False for base, log in files_of_kind(directory, FileKind.LOG))


def _stated_end(directory: Path) -> int:
    """Return the largest offset of a producer snapshot or of a leader epoch's start in the directory's files, which the
    log must have reached; 0 if there is no such file."""
    snapshots = [offset for offset, _ in files_of_kind(directory, FileKind.PRODUCER_SNAPSHOT)]
    try:
        epochs = parse_leader_epochs(read_whole(directory / FileKind.LEADER_EPOCHS))
    except (FormatError, UnreadableInput, OSError):
        epochs = ()
    return max([0, *snapshots, *(start for _, start in epochs)])


def _offsets(home: LogDirectory, kind: FileKind) -> Mapping[TopicPartition, int]:
    """Return the entries of a checkpoint; an empty mapping if the checkpoint cannot be read."""
    try:
        return home.offsets(kind)
    except (StartRefused, UnreadableInput):
        return {}
