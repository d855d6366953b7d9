"""Log start offsets that no broker has written into log-start-offset-checkpoint, for example because the file was
overwritten with another checkpoint of the same directory. Kafka starts each log at its offset in the file, and deletes
the segments below.

DeleteRecords and retention raise a log start offset; DeleteRecords is refused for topics that are only compacted, and a
broker deletes the segments below soon after. So these are signs of wrong entries:

    impossible   the entry of a coordinator's partition is above the base offset of its first segment; the same of
                 another topic that is only compacted, if the entry is above a whole segment, or if another checkpoint
                 has the same offset
    whole        most logs with several segments, in several topics, have segments below their log start offset
    copied       the file has all entries of another checkpoint, and hides records of several topics
    exchanged    the same, and the file has an entry for each log, as a broker writes recovery points, while
                 recovery-point-offset-checkpoint lacks some: each is the other
    foreign      another broker wrote the file (kcli.log.recovery.others_checkpoints)
    raised       the log's first leader epoch begins below the log start offset: DeleteRecords moves both

If a single impossible entry or raised entries are the only signs, only these are wrong; otherwise the whole file is. As
DeleteRecords also removes the leader epochs below the log start offset, the first leader epoch begins at the right log
start offset.

Source: LogManager.checkpointLogStartOffsetsInDir, ReplicaManager.deleteRecordsOnLocalLog, UnifiedLog
(maybeIncrementLogStartOffset, deleteLogStartOffsetBreachedSegments).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from formats.file_name import METADATA_TOPIC, FileKind
from kcli.log.config import InvalidConfig, LogConfig
from kcli.log.log_directory import LogDirectory
from kcli.log.partition_directory import files_of_kind
from kcli.log.recovery.epoch_starts import first_epoch_start
from kcli.log.recovery.exchanged_names import exchanged_names
from kcli.log.recovery.others_checkpoints import OthersCheckpoint
from kcli.printable import names_text
from kcli.protocol.topic_partition import TopicPartition

SOURCES = (FileKind.REPLICATION_OFFSETS, FileKind.RECOVERY_POINTS, FileKind.CLEANER_OFFSETS)
"""The checkpoints of which log-start-offset-checkpoint may be a copy."""
ONLY_COMPACTED = ("__consumer_offsets", "__transaction_state")
"""The internal topics that brokers create with cleanup.policy=compact. DeleteRecords is refused for them whatever the
policy; __share_group_state is not one of them, as its coordinator deletes records."""
PARTITIONS_LEAST = 3
TOPICS_LEAST = 2
SAME_LEAST = 2
"""The least number of partitions and topics with segments below the log start offset, and of equal entries in another
checkpoint, for the whole file to be called wrong, or a copy."""


class HiddenOffsets(NamedTuple):
    """The part of a log that a log start offset hides: the offsets from the first segment's base offset (first) to
    below the log start offset (start). segments: the number of segments that Kafka deletes, as they end at or below
    `start`. has_records: whether a segment that begins below `start` has batches. below: the base offsets of all
    segments that begin below `start`."""

    first: int
    start: int
    segments: int
    has_records: bool
    below: Collection[int]


class WrongLogStarts(NamedTuple):
    """The wrong entries of a log-start-offset-checkpoint.

    source: the kind of the checkpoint in the same directory of which this checkpoint is a copy; None if it is no copy.
    is_exchanged: whether this checkpoint and recovery-point-offset-checkpoint have each other's names. of_other: the
    checkpoint, if another broker wrote it; else None. entries: the wrong entries that hide offsets. is_whole: whether
    all entries of the checkpoint are wrong. impossible: the partitions in `entries` whose topics are only compacted.
    raised: the partitions in `entries` whose leader epochs begin below their log start offsets.
    """

    source: FileKind | None
    of_other: OthersCheckpoint | None
    entries: Mapping[TopicPartition, HiddenOffsets]
    is_whole: bool
    impossible: Collection[TopicPartition]
    raised: Collection[TopicPartition] = ()
    is_exchanged: bool = False

    @property
    def is_certain(self) -> bool:
        """Whether no broker can have written these entries. If False, they may be right, and a leader-epoch-checkpoint
        older than they are."""
        return self.is_whole or bool(self.impossible)

    @property
    def reason(self) -> str:
        """The fault of the checkpoint, and Kafka's reaction to it, in words."""
        offsets = sum(each.start - each.first for each in self.entries.values())
        segments = sum(each.segments for each in self.entries.values())
        if self.of_other is not None:
            found = self.of_other.why
        elif self.is_exchanged:
            found = f"{FileKind.RECOVERY_POINTS}, and that is this file: the two have each other's names"
        elif self.source is not None:
            found = f"a copy of {self.source}"
        elif self.impossible:
            shown = names_text(sorted(map(str, self.impossible)), 2)
            found = f"log start offsets in topics that are only compacted ({shown}), which nothing raises there"
        elif self.raised:
            shown = names_text(sorted(map(str, self.raised)), 2)
            found = (
                f"log start offsets above the start of the first leader epoch ({shown}), which DeleteRecords moves, too"
            )
        else:
            found = "most logs have whole segments below their log start offsets, which a broker soon deletes"
        logs = f"{len(self.entries):,} log{'s' if len(self.entries) != 1 else ''}"
        lost = f"{offsets:,} offsets of {logs} are not served"
        gone = f", and {segments:,} segment{'s' if segments != 1 else ''} below deleted" if segments else ""
        return f"{found}: Kafka starts each log at its offset here, so that {lost}{gone}"

    def is_wrong(self, partition: TopicPartition) -> bool:
        """Whether the entry of a partition is wrong."""
        return self.is_whole or partition in self.entries


def hidden_offsets(directory: Path, start: int) -> HiddenOffsets | None:
    """Return the part of the log in a partition's directory that a log start offset hides; None if it hides none, or if
    the directory cannot be read."""
    if start <= 0:
        return None
    try:
        sizes = {base: path.stat().st_size for base, path in files_of_kind(directory, FileKind.LOG)}
    except OSError:  # the plan of the partition reports this error
        return None
    bases = sorted(sizes)
    if not bases or start <= bases[0]:
        return None
    whole = sum(following <= start for _, following in pairwise(bases))
    below = [each for each in bases if each < start]
    return HiddenOffsets(bases[0], start, whole, any(sizes[each] for each in below), below)


def _is_above_epochs(directory: Path, start: int) -> bool:
    """Whether the first leader epoch begins below the log start offset `start`; False without leader epochs."""
    first = first_epoch_start(directory)
    return first is not None and first < start


def _is_within(
    found: HiddenOffsets, partition: TopicPartition, others: Mapping[FileKind, Mapping[TopicPartition, int]]
) -> bool:
    """Whether the log has reached its log start offset, as far as its segments and the other checkpoints tell. found,
    others: as in `_is_impossible`."""
    known = (offsets.get(partition, 0) for offsets in others.values())
    return found.start <= max(*known, *found.below)


def wrong_log_starts(
    home: Path, config: Callable[[str], LogConfig], of_other: OthersCheckpoint | None = None
) -> WrongLogStarts | None:
    """Return the wrong entries of the log-start-offset-checkpoint in the log directory `home`; None if there are
    none. config: the configuration of a topic's log. of_other: describes this checkpoint if another broker wrote it;
    else None. Raises UnreadableInput."""
    starts = LogDirectory(home).legible_offsets(FileKind.LOG_START_OFFSETS)
    if not any(starts.values()):
        return None
    logs = {
        each.partition: each.path
        for each in LogDirectory(home).partitions()
        if not each.name.state and each.name.topic != METADATA_TOPIC
    }
    hidden = {
        partition: found
        for partition, path in logs.items()
        if (found := hidden_offsets(path, starts.get(partition, 0))) is not None and found.has_records
    }
    if not hidden:
        return None
    others = {kind: LogDirectory(home).legible_offsets(kind) for kind in SOURCES}
    sources = [kind for kind, offsets in others.items() if _is_copy(starts, hidden, offsets)]
    source = max(sources, key=lambda kind: starts == others[kind], default=None)
    impossible = {each for each, found in hidden.items() if _is_impossible(each, found, others, config)}
    is_whole = len(impossible) >= SAME_LEAST or _hides_segments(logs, hidden)
    if source is not None:
        same = {each for each, offset in others[source].items() if each in logs and starts.get(each) != offset}
        is_all = not same and len(hidden) >= PARTITIONS_LEAST and len({each.topic for each in hidden}) >= TOPICS_LEAST
        is_whole = is_whole or is_all
    if is_whole or of_other is not None:
        is_exchanged = source is not None and _has_recovery_points(home, logs, starts)
        return WrongLogStarts(source, of_other, hidden, is_whole=True, impossible=impossible, is_exchanged=is_exchanged)
    raised = {
        each
        for each, found in hidden.items()
        if each not in impossible and _is_within(found, each, others) and _is_above_epochs(logs[each], found.start)
    }
    if raised:  # else a log under another name, or its end that is lost, may contradict an entry that is right
        exchanged = {path for each in exchanged_names(LogDirectory(home), {}) for path in each.paths}
        raised = {each for each in raised if logs[each] not in exchanged}
    if impossible or raised:
        wrong = {each: hidden[each] for each in sorted(impossible | raised)}
        return WrongLogStarts(None, None, wrong, is_whole=False, impossible=impossible, raised=raised)
    return None


def _has_recovery_points(home: Path, logs: Collection[TopicPartition], starts: Mapping[TopicPartition, int]) -> bool:
    """Whether log-start-offset-checkpoint, whose entries are `starts`, has an entry for each log, as a broker writes
    them for recovery points alone, and recovery-point-offset-checkpoint is there, but lacks some."""
    points = LogDirectory(home).legible_offsets(FileKind.RECOVERY_POINTS)
    is_there = (home / FileKind.RECOVERY_POINTS).is_file()
    return is_there and starts.keys() >= set(logs) and not points.keys() >= set(logs)


def _is_copy(
    starts: Mapping[TopicPartition, int],
    hidden: Mapping[TopicPartition, HiddenOffsets],
    other: Mapping[TopicPartition, int],
) -> bool:
    """Whether another checkpoint (`other`) has the same offset as `starts` for at least SAME_LEAST, and at least half,
    of the partitions in `hidden`, whose log start offsets hide offsets of the log."""
    same = sum(starts[each] == other.get(each) for each in hidden)
    return same >= SAME_LEAST and 2 * same >= len(hidden)


def _is_impossible(
    partition: TopicPartition,
    found: HiddenOffsets,
    others: Mapping[FileKind, Mapping[TopicPartition, int]],
    config: Callable[[str], LogConfig],
) -> bool:
    """Whether no broker can have raised the log start offset of the partition ("impossible" in the module's docstring).
    found: what the log start offset hides. others: the entries of the other checkpoints. config: the configuration of a
    topic's log."""
    try:
        own = config(partition.topic)
    except InvalidConfig:  # the plan of the partition reports this error
        return False
    if partition.topic in ONLY_COMPACTED:
        return not (own.compact and own.delete)
    is_elsewhere = any(offsets.get(partition) == found.start for offsets in others.values())
    return own.only_compact and (found.segments > 0 or is_elsewhere)


def _hides_segments(logs: Mapping[TopicPartition, Path], hidden: Mapping[TopicPartition, HiddenOffsets]) -> bool:
    """Whether most logs of several segments have whole segments below their log start offset. hidden: by partition, the
    part that its log start offset hides."""
    whole = {each for each, found in hidden.items() if found.segments}
    if len(whole) < PARTITIONS_LEAST or len({each.topic for each in whole}) < TOPICS_LEAST:
        return False
    several = sum(_has_segments(path) for path in logs.values())
    return 2 * len(whole) > several


def _has_segments(directory: Path) -> bool:
    return len(files_of_kind(directory, FileKind.LOG)) > 1
