"""Segments whose .log file is, byte for byte, or begins that of another partition, in logs that have other batches
before it.

Each partition has batches of its own, which differ in timestamps, producers and CRCs. A producer may have written the
same records to two partitions all the time, but not from the begin of one segment on. One of these shows which of two
equal .log files is the copy:

    keys        in a coordinator's topic, the hash of the keys is the number of one of the two partitions
    the log     leader epochs go back, or a producer's sequences do not go on, from the segment before only one of them
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from formats.file_name import parse_directory
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.copied_partitions import LEAST_TIMESTAMPS
from kcli.inspector.verify.findings import Finding
from kcli.inspector.verify.segment_names import Header, ends_with, headers
from kcli.log.recovery.coordinator_keys import KEYS_OF
from kcli.log.recovery.misdirected import Home, has_only_others
from kcli.log.recovery.readable import SEQUENCES
from kcli.log.recovery.stray_copies import is_named_copy
from kcli.log.source import FileSource

PRODUCER_ID_BYTES = 8
PRODUCER_BYTES = 10
"""The size of the id, and of id and epoch, at the beginning of `Header.producer`; the base sequence follows."""


@dataclass(frozen=True, slots=True)
class StoredSegment:
    """A segment's .log file with the header of its first batch. before: the .log file of the segment before it. end:
    the offset after its last one."""

    log: Path
    base: int
    end: int
    header: Header
    before: Path


class CopiedSegment(NamedTuple):
    """Two .log files that are equal, or of which one begins the other. is_known: whether `copy` is known to be the
    copy, and not `twin`."""

    copy: StoredSegment
    twin: StoredSegment
    is_known: bool


def copied_segments(stored: Iterable[StoredSegment], count: Callable[[str], int]) -> Iterator[CopiedSegment]:
    """Yield the pairs of .log files of two partitions that are equal, or of which one begins the other; each file is
    the copy in one of them at most. count: returns a topic's number of partitions; 0 if it is not known. Raises
    OSError, UnreadableInput."""
    alike: dict[tuple[int, Header], list[StoredSegment]] = defaultdict(list)
    for each in stored:
        alike[each.base, each.header].append(each)
    told: set[Path] = set()
    for _, group in sorted(alike.items(), key=lambda each: each[0][0]):
        for one, other in combinations(group, 2):
            if told.isdisjoint({one.log, other.log}) and _are_alike(one, other, told):
                found = _compared(one, other, count)
                told |= {found.copy.log} if found.is_known else {one.log, other.log}
                yield found


def equal_logs(found: CopiedSegment) -> Finding:
    """Return the finding of two equal .log files of which it is not known which one is the copy."""
    here, twin = found.copy, found.twin
    name, other = here.log.parent.name, twin.log.parent.name
    home, end = here.log.parent.absolute().parent.parent, min(here.end, twin.end)
    return Finding(
        path=str(here.log),
        kind="log-foreign",
        severity="error",
        position=0,
        offset=here.header.first,
        expected=f"the batches of {name} from offset {here.base:,} on",
        found=f"the batches of {other}/{twin.log.name}, byte for byte, where the logs before differ: one of the two is "
        f"a copy, and the records of {name} or of {other} at offsets {here.base:,}..{end - 1:,} are not here",
        action="stop the broker, and look for the own logs of both, also in backups and on other brokers",
        command="; ".join(next_steps.search(home, each) for each in (other, name)),
    )


def _are_alike(one: StoredSegment, other: StoredSegment, told: set[Path]) -> bool:
    """Whether a .log file is the begin of another one, with LEAST_TIMESTAMPS timestamps or records of a coordinator,
    and the logs before end with different batches, or are themselves a copy. Symbolic links, and copies of a directory
    of which the name tells, have findings of their own."""
    pair = one.log.parent, other.log.parent
    if one.log.resolve() == other.log.resolve() or is_named_copy(*pair) or is_named_copy(*reversed(pair)):
        return False
    short, long = sorted((one.log, other.log), key=lambda log: log.stat().st_size)
    is_behind_others = not told.isdisjoint({one.before, other.before}) or _last(one.before) != _last(other.before)
    timestamps = {each.max_timestamp for each in headers(short) if each.records}
    is_several = len(timestamps) >= LEAST_TIMESTAMPS or _topic(one) in KEYS_OF
    return is_behind_others and is_several and ends_with(short, 0, long)


def _last(log: Path) -> Header | None:
    return next(iter(deque(headers(log), maxlen=1)), None)


def _compared(one: StoredSegment, other: StoredSegment, count: Callable[[str], int]) -> CopiedSegment:
    wrong = [each for each in (one, other) if _has_other_keys(each, count)]
    if len(wrong) != 1:
        wrong = [each for each in (one, other) if not _goes_on(each)]
    copy = wrong[0] if len(wrong) == 1 else other
    return CopiedSegment(copy, other if copy is one else one, len(wrong) == 1)


def _topic(segment: StoredSegment) -> str:
    name = parse_directory(segment.log.parent.name)
    return "" if name is None else name.topic


def _has_other_keys(segment: StoredSegment, count: Callable[[str], int]) -> bool:
    """Whether the keys in a coordinator's .log file all belong to other partitions."""
    name = parse_directory(segment.log.parent.name)
    if name is None or name.topic not in KEYS_OF:
        return False
    home = Home(name.topic, name.partition, count(name.topic))
    if not home.has_keys:
        return False
    with closing(FileSource(segment.log)) as source:
        return has_only_others(source, home)


def _goes_on(segment: StoredSegment) -> bool:
    """Whether leader epochs and the sequences of each producer go on from the segment before, as far as that has
    batches of the producer."""
    epoch, ends = -1, dict[bytes, int]()
    for each in headers(segment.before):
        epoch = max(epoch, each.leader_epoch)
        ends |= _sequence_end(each)
    begins: Mapping[bytes, int] = {}
    for each in headers(segment.log):
        if epoch > each.leader_epoch >= 0:
            return False
        begins = {**_sequence(each), **begins}
    return all(ends.get(producer, begin) == begin for producer, begin in begins.items())


def _sequence(header: Header) -> dict[bytes, int]:
    """Return the first sequence of a batch by its producer's id and epoch; empty if it has none."""
    producer, sequence = header.producer[:PRODUCER_BYTES], header.producer[PRODUCER_BYTES:]
    has_id = int.from_bytes(producer[:PRODUCER_ID_BYTES], signed=True) >= 0
    begin = int.from_bytes(sequence, signed=True)
    return {producer: begin} if has_id and begin >= 0 and header.records else {}


def _sequence_end(header: Header) -> dict[bytes, int]:
    """Return the sequence after a batch by its producer's id and epoch; empty if it has none."""
    return {producer: (begin + header.records) % SEQUENCES for producer, begin in _sequence(header).items()}
