"""Directories of partitions that are copies of another partition's directory.

Two partitions have logs of their own, so that their batches differ in timestamps, producers and CRCs. If the first
batches of two partitions are equal, one partition may be a copy of the other. Each of these is evidence of a copy:

    coordinator's keys    their hash is the number of one of the two partitions: the other is the copy
    partition.metadata    two topics with one id
    times of the files    each file and its copy have the same modification time in ns, as after cp -a or rsync -a; also
                          of two topics, if the copy's partition.metadata was then written anew

A producer may also have written the same records to two partitions in the same milliseconds: without such evidence,
equal batches make a warning if they have several different timestamps. The empty batches that the cleaner leaves of
producers are no evidence: those of a producer that writes to partitions in turn are equal in all of them.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, islice
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from formats.file_name import FileKind, parse
from kcli.errors import KcliError, UnreadableInput
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding
from kcli.inspector.verify.segment_names import INDEX_KINDS, Header, ends_with, headers
from kcli.java.hashing import partition_of
from kcli.log.coordinator_records import read_records
from kcli.log.partition_directory import topic_id_of
from kcli.log.partition_view import Content, FileRange
from kcli.log.recovery.foreign_blocks import runs_of_others
from kcli.protocol.topic_partition import TopicPartition

BATCHES_COMPARED = 1_000
"""The maximum number of batches of a log that are compared."""
KEYS_COMPARED = 100
"""The maximum number of a coordinator's records whose keys are hashed."""
LEAST_TIMESTAMPS = 3
"""The minimum number of different timestamps in equal batches with records for a warning without other evidence."""
LEAST_FILES = 3
"""The minimum number of files whose equal times of modification are evidence of a copy."""
GROUPS, TRANSACTIONS, SHARES = "__consumer_offsets", "__transaction_state", "__share_group_state"
TIME_SLACK_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class StoredLog:
    """The .log files of a partition's directory, by base offset, and the header of the first batch."""

    partition: TopicPartition
    directory: Path
    logs: Mapping[int, Path]
    first: Header


class CopiedPartition(NamedTuple):
    """A directory that is a copy of another partition's. finding: its finding. names: the names of the directories that
    the finding is about. directory: the name of the directory that is the copy, None if it is not known which one is.
    files: by name, its files whose batches the other directory has, each with words that name that directory; all files
    of the log, if the other directory has all of them. is_whole: whether the other directory has all of them."""

    finding: Finding
    names: set[str]
    directory: str | None = None
    files: Mapping[str, str] = MappingProxyType({})
    is_whole: bool = False


def copied_partitions(
    stored: Iterable[StoredLog], topic_id: Callable[[str], str | None], count: Callable[[str], int]
) -> Iterator[CopiedPartition]:
    """Yield the directories that are copies of another partition's.

    topic_id: returns the id of a topic in the metadata log. count: returns a topic's number of partitions; 0 if the
    number is not known.
    """
    alike: dict[tuple[int, Header], list[StoredLog]] = defaultdict(list)
    for each in stored:
        alike[min(each.logs), each.first].append(each)
    for group in alike.values():
        reported: set[TopicPartition] = set()
        for one, other in combinations(group, 2):
            if not {one.partition, other.partition} & reported:
                found = _compared(one, other, topic_id, count)
                if found is not None:
                    reported.add(other.partition if found[1] is None else found[1].partition)
                    yield _finding(one, other, *found)


def _compared(
    one: StoredLog, other: StoredLog, topic_id: Callable[[str], str | None], count: Callable[[str], int]
) -> tuple[list[Header], StoredLog | None, bool] | None:
    """Decide whether one of two directories with the same first batch is a copy of the other.

    Returns the equal batches; the directory that is the copy, None if it is not known which of the two is; and whether
    a copy is certain. Returns None without evidence, if a file cannot be read, if both names are links to one file or
    directory, and if only blocks are another partition's: other checks report the latter three. topic_id: returns the
    id of a topic in the metadata log. count: returns a topic's number of partitions; 0 if the number is not known.
    """
    try:
        if one.logs[min(one.logs)].samefile(other.logs[min(other.logs)]):
            return None
        equal = _equal_batches(one, other)
        if any(map(_has_blocks_of_others, (one, other))):
            return None
        if one.partition.topic != other.partition.topic:
            ids = topic_id_of(one.directory), topic_id_of(other.directory)
            if ids[0] is not None and ids[0] == ids[1]:
                wrong = [each for each in (one, other) if topic_id(each.partition.topic) not in (None, ids[0])]
                return equal, wrong[0] if len(wrong) == 1 else None, True
        keys = count(one.partition.topic) if one.partition.topic == other.partition.topic else 0
        if keys and one.partition.topic in (GROUPS, TRANSACTIONS, SHARES):
            numbers = _numbers(one, keys)
            wrong = [each for each in (one, other) if each.partition.partition not in numbers]
            return (equal, wrong[0], True) if numbers and len(wrong) == 1 else None
        if _has_same_times(one.directory, other.directory):
            wrong = [each for each in (one, other) if _was_copied(each)]
            return equal, wrong[0] if len(wrong) == 1 else None, True
    except (OSError, KcliError):  # the checks of the partition that cannot be read report this error
        return None
    if one.partition.topic != other.partition.topic:
        return None
    is_several = len({each.max_timestamp for each in equal if each.records}) >= LEAST_TIMESTAMPS
    return (equal, None, False) if is_several else None


def _has_blocks_of_others(stored: StoredLog) -> bool:
    """Whether the first .log file has blocks of another partition, which the check of the log reports. Raises
    UnreadableInput."""
    log = stored.logs[min(stored.logs)]
    return bool(runs_of_others(stored.directory, log.name, Content((FileRange(log, 0, log.stat().st_size),))))


def _equal_batches(one: StoredLog, other: StoredLog) -> list[Header]:
    """Return the batches that are equal at the beginning of both logs, BATCHES_COMPARED at most. Raises
    UnreadableInput."""
    equal = []
    for mine, its in islice(zip(_batches(one), _batches(other), strict=False), BATCHES_COMPARED):
        if mine != its:
            break
        equal.append(mine)
    return equal


def _batches(stored: StoredLog) -> Iterator[Header]:
    for base in sorted(stored.logs):
        yield from headers(stored.logs[base])


def _numbers(stored: StoredLog, count: int) -> set[int]:
    """Return the numbers of the partitions to which the keys of the first KEYS_COMPARED records in a coordinator's log
    belong.

    count: the number of partitions of the topic.
    """
    topic = stored.partition.topic
    records = (record for _, record in read_records(stored.directory, lambda _: None))
    keys = {_hashed(topic, record.key) for record in islice(records, KEYS_COMPARED) if record.key is not None}
    return {partition_of(key, count) for key in keys if key is not None}


def _hashed(topic: str, key: bytes) -> str | None:
    """Return the text whose hash chooses the partition of a coordinator's record: the group, the transactional id, or
    <group>:<topic id>:<partition> in __share_group_state; None if the key has another form. A key begins with its
    type (int16) and the group or transactional id (length as int16)."""
    end = 4 + int.from_bytes(key[2:4], signed=True)
    try:
        name = key[4:end].decode()
    except UnicodeDecodeError:
        return None
    if not 4 < end <= len(key):
        return None
    if topic != SHARES:
        return name
    rest = key[end:]  # topic id, int32 partition
    if len(rest) != 20:
        return None
    share_topic = urlsafe_b64encode(rest[:16]).decode().rstrip("=")
    return f"{name}:{share_topic}:{int.from_bytes(rest[16:], signed=True)}"


def _has_same_times(one: Path, other: Path) -> bool:
    """Whether both directories have files of the same names, and each file has the same modification time, in ns, as
    the file of its name in the other directory; partition.metadata does not count. By chance two .log files may have
    been written in one tick of the clock, but not all files beside them."""
    mine, its = (
        {each.name: each.stat().st_mtime_ns for each in path.iterdir() if each.name != FileKind.PARTITION_METADATA}
        for path in (one, other)
    )
    return len(mine) >= LEAST_FILES and mine == its and any(time % 1_000_000_000 for time in mine.values())


def _was_copied(stored: StoredLog) -> bool:
    """Whether the inode of the last .log file was changed (ctime) more than TIME_SLACK_NS after its content (mtime), as
    by a copy that keeps the times of files."""
    stat = stored.logs[max(stored.logs)].stat()
    return stat.st_ctime_ns - stat.st_mtime_ns > TIME_SLACK_NS


def _finding(
    one: StoredLog, other: StoredLog, equal: list[Header], copy: StoredLog | None, is_certain: bool
) -> CopiedPartition:
    twin = one if copy is None or copy is other else other
    here = other if copy is None else copy
    name, twin_name = here.directory.name, twin.directory.name
    batches = f"{len(equal):,} batch{'es' if len(equal) > 1 else ''}"
    if copy is not None:
        found = f"a copy of {twin_name}, another partition's log: the records of {name} are not here"
        action = f"stop the broker, and look for the own directory of {name}, also in backups and on other brokers"
    else:
        found = f"the first {batches} of {twin_name}, with their timestamps and producers: one of the two is a copy, "
        found += "and the records of that partition are not here"
        action = "stop the broker, and look for the own directories of both, also in backups and on other brokers"
        if not is_certain:
            found += ", unless a producer wrote the same records to both"
    searched = [name] if copy is not None else [twin_name, name]
    command = "; ".join(next_steps.search(here.directory.absolute().parent.parent, each) for each in searched)
    base = min(here.logs)
    finding = Finding(
        path=str(here.logs[base]),
        kind="log-foreign",
        severity="error" if is_certain else "warning",
        position=0,
        offset=here.first.first,
        expected=f"the batches of {name} from offset {base:,} on",
        found=found,
        lost_first_offset=base if copy is not None else None,
        action=action,
        command=command,
    )
    if copy is None:
        return CopiedPartition(finding, {name, twin_name})
    files, is_whole = _contained(here, twin)
    return CopiedPartition(finding, {name}, name, dict.fromkeys(files, f"a copy of {twin_name}'s"), is_whole)


def _contained(copy: StoredLog, twin: StoredLog) -> tuple[list[str], bool]:
    """Return the names of the files of a copied log whose batches its twin has: .log files that are, or begin, those of
    the twin, with their indexes; and whether these are all .log files, in which case the producer snapshots and the
    leader epochs are the twin's, too. No file counts if one cannot be read, which other checks report."""
    try:
        bases = {base for base, log in copy.logs.items() if base in twin.logs and _begins(log, twin.logs[base])}
        is_whole = bases == copy.logs.keys()
        named = [(each.name, parse(each.name)) for each in sorted(copy.directory.iterdir())]
    except (OSError, UnreadableInput):
        return [], False
    kinds = (FileKind.PRODUCER_SNAPSHOT, FileKind.LEADER_EPOCHS) if is_whole else ()
    names = [
        file
        for file, name in named
        if name is not None
        and not name.state
        and (name.kind in kinds or (name.kind in (FileKind.LOG, *INDEX_KINDS) and name.base_offset in bases))
    ]
    return names, is_whole


def _begins(log: Path, other: Path) -> bool:
    return log.stat().st_size == 0 or ends_with(log, 0, other)
