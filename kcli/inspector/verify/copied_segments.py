"""Segments whose .log file is, byte for byte, or begins that of another partition, in logs that have other batches
before it. Or both begin alike and go on with other batches, which Kafka has appended to the copy since.

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
from itertools import combinations, takewhile
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
    """Two .log files that are equal, or of which one begins the other, or that begin alike. end: the offset after the
    last batch that both have. is_known: whether all of `copy` is known to be a copy, and not `twin`."""

    copy: StoredSegment
    twin: StoredSegment
    end: int
    is_known: bool


def copied_segments(stored: Iterable[StoredSegment], count: Callable[[str], int]) -> Iterator[CopiedSegment]:
    """Yield the pairs of .log files of two partitions that are equal, or begin alike; each file is the copy in one of
    them at most. count: returns a topic's number of partitions; 0 if it is not known. Raises
    OSError, UnreadableInput."""
    alike: dict[tuple[int, Header], list[StoredSegment]] = defaultdict(list)
    for each in stored:
        alike[each.base, each.header].append(each)
    told: set[Path] = set()
    for _, group in sorted(alike.items(), key=lambda each: each[0][0]):
        for one, other in combinations(group, 2):
            alike_until = _alike_until(one, other, told) if told.isdisjoint({one.log, other.log}) else None
            if alike_until is not None:
                found = _compared(one, other, alike_until, count)
                told |= {found.copy.log} if found.is_known else {one.log, other.log}
                yield found


def equal_logs(found: CopiedSegment) -> Finding:
    """Return the finding of two .log files that begin alike, of which it is not known which one is the copy."""
    here, twin = found.copy, found.twin
    name, other = here.log.parent.name, twin.log.parent.name
    home, until = here.log.parent.absolute().parent.parent, found.end - 1
    alike = f"{_range(found)}, byte for byte, where the logs before differ: one of the two is a copy"
    return Finding(
        path=str(here.log),
        kind="log-foreign",
        severity="error",
        position=0,
        offset=here.header.first,
        expected=f"the batches of {name} from offset {here.base:,} on",
        found=f"the batches of {other}/{twin.log.name}{alike}, and the records of {name} or of {other} at offsets "
        f"{here.base:,}..{until:,} are not here",
        action="stop the broker, and look for the own logs of both, also in backups and on other brokers",
        command="; ".join(next_steps.search(home, each) for each in (other, name)),
    )


def _range(found: CopiedSegment) -> str:
    """Return the text which says up to which offset two .log files are alike; "" if one has no batches behind."""
    return "" if found.end >= min(found.copy.end, found.twin.end) else f" up to offset {found.end - 1:,}"


def _alike_until(one: StoredSegment, other: StoredSegment, told: set[Path]) -> int | None:
    """Return the offset after the last batch that two .log files have alike from their begin on, where one ends or both
    go on with other batches; None unless these have LEAST_TIMESTAMPS timestamps, or the one is the begin of the other
    and of a coordinator, and the logs before end with different batches, or are themselves a copy. A damaged copy has
    other findings. Symbolic links, and copies of a directory of which the name tells, have
    findings of their own."""
    pair = one.log.parent, other.log.parent
    if one.log.resolve() == other.log.resolve() or is_named_copy(*pair) or is_named_copy(*reversed(pair)):
        return None
    if told.isdisjoint({one.before, other.before}) and _last(one.before) == _last(other.before):
        return None
    both = list(zip(headers(one.log), headers(other.log), strict=False))
    alike = [header for header, its in takewhile(lambda each: each[0] == each[1], both)]
    appended = both[len(alike) :]
    short, long = sorted((one.log, other.log), key=lambda log: log.stat().st_size)
    is_whole, is_coordinators = ends_with(short, 0, long), _topic(one) in KEYS_OF
    is_several = len({each.max_timestamp for each in alike if each.records}) >= LEAST_TIMESTAMPS
    if is_whole and (is_several or is_coordinators):
        return min(one.end, other.end)
    goes_on = bool(appended) and not any(header == its for header, its in appended)
    return alike[-1].last + 1 if is_several and goes_on and not is_coordinators else None


def _last(log: Path) -> Header | None:
    return next(iter(deque(headers(log), maxlen=1)), None)


def _compared(one: StoredSegment, other: StoredSegment, end: int, count: Callable[[str], int]) -> CopiedSegment:
    if end < min(one.end, other.end):
        return CopiedSegment(other, one, end, is_known=False)
    wrong = [each for each in (one, other) if _has_other_keys(each, count)]
    if len(wrong) != 1:
        wrong = [each for each in (one, other) if not _goes_on(each)]
    copy = wrong[0] if len(wrong) == 1 else other
    return CopiedSegment(copy, other if copy is one else one, end, len(wrong) == 1)


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
