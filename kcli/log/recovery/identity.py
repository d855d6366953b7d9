"""The partition of a directory: its name and the topic id in partition.metadata must agree, or Kafka does not serve it.

    partition.metadata            Kafka's start                        salvage
    is missing                    makes the directory a stray          writes the topic id of the directory's name
    cannot be read                fails                                writes the topic id of the directory's name
    has the id of another topic   serves neither this partition nor
                                  some of the node's others:
      whose directory exists                                           writes the topic id of the directory's name
      whose directory is missing                                       gives the directory the name of the id's topic
    has the id of another topic,  leaves the directory as it is, and
      under a name that is not    serves nothing of it:
      placed on this node
      whose directory exists                                           leaves it
      whose directory is missing                                       gives the directory the name of the id's topic
    has the id of a deleted       makes the directory a stray          makes it a stray if another topic has its
      topic                                                            name and a partition here, else leaves it
    has an id that no topic has   makes the directory a stray          leaves it: its topic is not known; but if the id
                                                                       differs from that of the directory's name in
                                                                       letter case or a few characters only, writes
                                                                       the right one

If two directories have each other's ids, they have exchanged either their names or their partition.metadata files
(`Exchanged`): the ids alone do not show which. If the logs end at different offsets, the checkpoints of high watermarks
and recovery points may show it: salvage then renames the directories, or writes the files anew. If the checkpoints do
not show it either, salvage does neither. The partition.metadata of one such directory may be missing or damaged
(`unidentified_moves`): then the checkpoints must also show that its log is that of the partition whose topic id no
directory has. Directories of one topic have one id: see exchanged_names.py. Source: LogManager.loadLog,
Partition.makeLeader (KIP-516).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from formats.file_name import METADATA_TOPIC, DirectoryName, FileKind, build_directory, parse
from formats.kernels.columns import BatchRow
from kcli.errors import UnreadableInput
from kcli.log.log_directory import PartitionDirectory
from kcli.log.partition_directory import is_garbled, legible_topic_id
from kcli.log.segment_reader import Damage, read_segment
from kcli.log.source import FileSource
from kcli.protocol.topic_partition import TopicPartition


class Exchanged(Enum):
    """The things that directories with each other's topic ids may have exchanged."""

    NAMES = "their names"
    FILES = "their partition.metadata"
    UNKNOWN = "either their names or their partition.metadata"


Checkpoint = Mapping[TopicPartition, int]


def unidentified_moves(
    moves: Mapping[TopicPartition, TopicPartition], unidentified: Collection[TopicPartition]
) -> dict[TopicPartition, TopicPartition]:
    """Return which partition's records the directories without a topic id have if directories have exchanged their
    names: each of these directories is the last of a chain, in which each other directory has the topic id of the next
    one. No directory has the topic id of the chain's first: so the last one has its records.

    moves: by the partition in each directory's name, the partition that has the directory's topic id, if it is another
    one. unidentified: the partitions in the names of the directories without a topic id that can be read."""
    counts = Counter(moves.values())
    found: dict[TopicPartition, TopicPartition] = {}
    for first in moves.keys() - counts.keys():
        last, seen = first, {first}
        while last in moves and counts[moves[last]] == 1 and moves[last] not in seen:
            last = moves[last]
            seen.add(last)
        if last in unidentified and last != first:
            found[last] = first
    return found


def what_was_exchanged(
    cycle: Mapping[TopicPartition, TopicPartition],
    ends: Mapping[TopicPartition, int | None],
    *checkpoints: Checkpoint,
    is_clean: bool,
    unidentified: Collection[TopicPartition] = (),
) -> Exchanged:
    """Return what the directories with each other's topic ids have exchanged: their names or their partition.metadata.
    cycle: by the partition in each directory's name, the partition that has the directory's topic id. unidentified: the
    partitions in the names of directories without a topic id, for which `cycle` has those of `unidentified_moves`.

    ends: the log end offset of each directory, by the partition in its name. checkpoints: offsets that the partitions'
    logs had reached, the most certain checkpoint first. is_clean: whether the broker was shut down cleanly: the logs
    then end at exactly these offsets. After a crash they may continue after these offsets, and only a log that is too
    short for a partition is evidence.
    """
    supposed = [name for name in cycle if name in unidentified]
    is_shown = all(_is_end_of(ends[name], cycle[name], checkpoints, is_clean=is_clean) for name in supposed)
    names = Exchanged.NAMES if is_shown else Exchanged.UNKNOWN
    if not is_clean:
        own = all(_reaches(ends[name], name, checkpoints) for name in cycle)
        others = all(_reaches(ends[name], other, checkpoints) for name, other in cycle.items())
        return Exchanged.UNKNOWN if own == others else Exchanged.FILES if own else names
    for checkpoint in checkpoints:
        known = [(ends[name], checkpoint.get(name), checkpoint.get(other)) for name, other in cycle.items()]
        by_name = any(end == own != other for end, own, other in known if end is not None)
        by_id = any(end == other != own for end, own, other in known if end is not None)
        if by_name != by_id:
            return Exchanged.FILES if by_name else names
    return Exchanged.UNKNOWN


def _reaches(end: int | None, partition: TopicPartition, checkpoints: Iterable[Checkpoint]) -> bool:
    """Return whether a log with the end offset `end` reaches the offsets that the checkpoints have for `partition`;
    True if `end` is None."""
    return end is None or all(end >= each.get(partition, 0) for each in checkpoints)


def _is_end_of(
    end: int | None, partition: TopicPartition, checkpoints: Iterable[Checkpoint], *, is_clean: bool
) -> bool:
    """Return whether the checkpoints show that a log with the end offset `end` may be that of `partition`: it ends at
    the partition's offset in one of them; after a crash it reaches the offsets in all that have one."""
    stated = [each[partition] for each in checkpoints if partition in each]
    if is_clean:
        return end in stated
    return bool(stated) and end is not None and end >= max(stated)


@dataclass(frozen=True, slots=True)
class Identity:
    """The partition that salvage gives to a directory. topic_id: the topic id to write into partition.metadata; None if
    the id in the file is right, and only the directory's name is changed."""

    partition: TopicPartition
    topic_id: str | None

    @property
    def directory_name(self) -> str:
        """The name that the directory should have."""
        return build_directory(DirectoryName(*self.partition))


def mended_identities(
    directories: Sequence[PartitionDirectory],
    topic_ids: Mapping[TopicPartition, str],
    high_watermarks: Checkpoint,
    recovery_points: Checkpoint,
    *,
    is_clean: bool,
) -> tuple[dict[Path, Identity], set[Path]]:
    """Return, by path, the identities that `kcli recover --salvage` gives to directories whose name and topic id do not
    agree; and the paths of the directories that have each other's topic ids, if the checkpoints do not show whether
    these directories have exchanged their names or their partition.metadata files.

    topic_ids: the topic ids of the partitions with a replica on this node. high_watermarks, recovery_points: the
    entries of these checkpoints. is_clean: whether the broker was shut down cleanly. Raises UnreadableInput.
    """
    topics = {topic_id: topic for (topic, _), topic_id in topic_ids.items()}
    found: dict[Path, Identity] = {}
    moves: dict[Path, TopicPartition] = {}
    unidentified: set[TopicPartition] = set()
    partitions = [each for each in directories if not each.name.state and each.name.topic != METADATA_TOPIC]
    for each in partitions:
        own = topic_ids.get(each.partition)
        topic_id = legible_topic_id(each.path)
        if topic_id == own:
            continue
        if topic_id is None:
            unidentified.add(each.partition)
        topic = topics.get(topic_id or "")
        if topic is not None and (topic, each.name.partition) in topic_ids:
            moves[each.path] = TopicPartition(topic, each.name.partition)
        is_damaged = topic_id is not None and own is not None and is_garbled(topic_id, own)
        if own is not None and (topic_id is None or topic is not None or is_damaged):
            found[each.path] = Identity(each.partition, own)
    unknown: set[Path] = set()
    paths = {each.partition: each.path for each in partitions}
    by_name = {each.partition: moves[each.path] for each in partitions if each.path in moves}
    by_name = {name: target for name, target in by_name.items() if name in topic_ids}
    moves |= {paths[last]: first for last, first in unidentified_moves(by_name, unidentified).items()}
    for cycle in _cycles(moves, paths):
        names = {each.partition: moves[each.path] for each in partitions if each.path in cycle}
        ends = {each.partition: end_offset(each.path) for each in partitions if each.path in cycle}
        exchanged = what_was_exchanged(
            names, ends, high_watermarks, recovery_points, is_clean=is_clean, unidentified=unidentified
        )
        if exchanged is Exchanged.UNKNOWN:
            unknown |= cycle
        if exchanged is not Exchanged.NAMES:
            moves = {path: target for path, target in moves.items() if path not in cycle}
    for each in partitions:
        if each.path in moves and _is_at_home(each, moves[each.path], high_watermarks):
            del moves[each.path]
    while True:
        occupied = {each.partition for each in partitions if each.path not in moves}
        targets = list(moves.values())
        bad = [path for path, target in moves.items() if target in occupied or targets.count(target) > 1]
        if not bad:
            break
        for path in bad:
            del moves[path]
    kept = {path: identity for path, identity in found.items() if path not in unknown}
    lacking = {paths[each] for each in unidentified}
    renamed = {path: Identity(target, topic_ids[target] if path in lacking else None) for path, target in moves.items()}
    return kept | renamed, unknown


def _cycles(moves: Mapping[Path, TopicPartition], paths: Mapping[TopicPartition, Path]) -> Iterator[set[Path]]:
    """Yield the sets of directories that have each other's topic ids. moves: by directory, the partition that has the
    directory's topic id. paths: the directories by the partition in their names."""
    done: set[Path] = set()
    for first in moves:
        chain: list[Path] = []
        path: Path | None = first
        while path is not None and path in moves and path not in done:
            done.add(path)
            chain.append(path)
            path = paths.get(moves[path])
        if path is not None and path in chain:
            yield set(chain[chain.index(path) :])


def _is_at_home(each: PartitionDirectory, other: TopicPartition, high_watermarks: Checkpoint) -> bool:
    """Return whether the directory's log ends at the high watermark of the partition in the directory's name, and not
    at the high watermark of `other`."""
    end = end_offset(each.path)
    return high_watermarks.get(each.partition) == end != high_watermarks.get(other)


def end_offset(directory: Path) -> int | None:
    """Return the offset after the last batch of a partition's log; None if there is no log, or if its last file cannot
    be opened. Raises UnreadableInput."""
    names = [
        (name.base_offset, path)
        for path in directory.iterdir()
        if (name := parse(path.name)) is not None
        and name.kind is FileKind.LOG
        and not name.state
        and name.base_offset is not None
    ]
    if not names:
        return None
    end, path = max(names)
    try:
        source = FileSource(path)
    except UnreadableInput:  # the plan of the partition reports this error
        return None
    try:
        for part in read_segment(source):
            if not isinstance(part, Damage) and part.batches.count:
                end = BatchRow._make(part.batches.row(part.batches.count - 1)).last_offset + 1
    finally:
        source.close()
    return end
