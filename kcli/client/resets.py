"""New committed offsets of a group's partitions, as kafka-consumer-groups --reset-offsets computes them.

    earliest, latest    the log start offset, the high watermark
    current             the committed offset; without one the latest
    offset N            N
    shift N             the committed offset plus N, which may be negative
    time T              the first offset with a timestamp of T (epoch ms) or later; without one the latest
    given               from a CSV file: topic,partition,offset or group,topic,partition,offset in each line

A new offset below the log start offset becomes the log start offset, one above the high watermark the high watermark;
either change is reported.

Source: ConsumerGroupCommand, OffsetsUtils in Kafka's tools.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from kcli.client.groups import Groups
from kcli.errors import KcliError, UsageError
from kcli.protocol.topic_partition import TopicPartition
from kcli.views.groups import Committed

Report = Callable[[str], None]
RESETTABLE = ("Empty", "Dead")


class Kind(Enum):
    """The ways to reset offsets; the module's docstring explains them."""

    EARLIEST = auto()
    LATEST = auto()
    CURRENT = auto()
    OFFSET = auto()
    SHIFT = auto()
    TIME = auto()
    GIVEN = auto()


@dataclass(frozen=True)
class Reset:
    """A reset. number: the N or T of OFFSET, SHIFT and TIME; given: the offsets of GIVEN, by group and partition."""

    kind: Kind
    number: int = 0
    given: Mapping[str, Mapping[TopicPartition, int]] = field(default_factory=dict)


def parse_places(text: str) -> tuple[str, tuple[int, ...]]:
    """Parse TOPIC or TOPIC:0,1. Returns the topic and the partitions (empty for TOPIC alone). Raises UsageError."""
    topic, colon, numbers = text.partition(":")
    try:
        found = tuple(int(number) for number in numbers.split(",")) if colon else ()
    except ValueError:
        raise UsageError(f"--topic {text!r} is neither TOPIC nor TOPIC:PARTITION,...") from None
    if not topic or any(number < 0 for number in found):
        raise UsageError(f"--topic {text!r} is neither TOPIC nor TOPIC:PARTITION,...")
    return topic, found


def parse_csv(lines: Iterable[str], name: str, groups: list[str]) -> dict[str, dict[TopicPartition, int]]:
    """Parse a CSV file's lines; return offsets by group. name: the file's name, for errors; groups: the groups of the
    command. A line without a group is for the command's group, of which there must be only one. Raises UsageError."""
    found: dict[str, dict[TopicPartition, int]] = {}
    for number, row in enumerate(csv.reader(lines), 1):
        if not row:
            continue
        group = groups[0] if len(row) == 3 and len(groups) == 1 else row[0] if len(row) == 4 else None
        try:
            topic, partition, offset = row[-3], int(row[-2]), int(row[-1])
        except (ValueError, IndexError):
            group = None
        if group is None:
            raise UsageError(f"{name}: line {number} is not [GROUP,]TOPIC,PARTITION,OFFSET")
        found.setdefault(group, {})[TopicPartition(topic, partition)] = offset
    return found


def scope(groups: Groups, committed: Mapping[TopicPartition, Committed], topics: Iterable[str]) -> list[TopicPartition]:
    """Return the partitions of `topics` (each TOPIC or TOPIC:0,1); without topics, all partitions with a committed
    offset. Raises UsageError, Refused, Unreachable."""
    named = [parse_places(text) for text in topics]
    if not named:
        return sorted(committed)
    return [
        place
        for topic, numbers in named
        for place in ([TopicPartition(topic, number) for number in numbers] if numbers else groups.partitions(topic))
    ]


def new_offsets(
    groups: Groups, group: str, reset: Reset, topics: Iterable[str], report: Report
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, Committed]]:
    """Return the offset to which the reset sets each partition, and the group's present committed offsets. report:
    called with a text for each offset that is changed because it lies outside the log. Raises KcliError if the group
    has members, or a partition does not exist or has no leader."""
    state = groups.group(group).state
    if state not in RESETTABLE:
        raise KcliError(f"{group}: offsets can only be reset while the group has no members: it is {state}")
    committed = groups.committed(group)
    places = sorted(reset.given.get(group, {})) if reset.kind is Kind.GIVEN else scope(groups, committed, topics)
    starts, ends = groups.starts(places), groups.ends(places)
    for topic, number in places:
        if (topic, number) not in starts or (topic, number) not in ends:
            raise KcliError(f"{group}: there is no partition {topic}-{number}, or it has no leader")
    unbounded = _unbounded_offsets(groups, group, reset, places, committed, starts, ends)
    return {
        place: _within(offset, starts[place], ends[place], place, report) for place, offset in unbounded.items()
    }, committed


def _unbounded_offsets(
    groups: Groups,
    group: str,
    reset: Reset,
    places: list[TopicPartition],
    committed: Mapping[TopicPartition, Committed],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> Mapping[TopicPartition, int]:
    match reset.kind:
        case Kind.EARLIEST:
            return starts
        case Kind.LATEST:
            return ends
        case Kind.OFFSET:
            return dict.fromkeys(places, reset.number)
        case Kind.GIVEN:
            return reset.given.get(group, {})
        case Kind.CURRENT:
            return {place: committed[place].offset if place in committed else ends[place] for place in places}
        case Kind.SHIFT:
            for topic, number in places:
                if (topic, number) not in committed:
                    raise KcliError(f"{group}: {topic}-{number} has no committed offset to shift")
            return {place: committed[place].offset + reset.number for place in places}
        case Kind.TIME:
            found = groups.at(places, reset.number)
            return {place: found[place] if found.get(place, -1) >= 0 else ends[place] for place in places}


def _within(offset: int, start: int, end: int, place: TopicPartition, report: Report) -> int:
    moved = min(max(offset, start), end)
    if moved != offset:
        report(f"{place}: there is no offset {offset:,}: it becomes {moved:,}")
    return moved
