"""Where a group shall go on: new offsets for its partitions, as kafka-consumer-groups --reset-offsets finds them.

    earliest, latest    the first offset, the one behind the last
    current             what is committed, moved to where there is something; without a commit the latest
    offset N            N
    shift N             what is committed and N; negative: back
    time T              the first record of T (epoch ms) or later; without one the latest
    given               what a CSV file says: topic,partition,offset or group,topic,partition,offset in each line

Nothing lies before the first offset or behind the last: what would is moved there, and told.
Source: ConsumerGroupCommand, OffsetsUtils in Kafka's tools.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from kcli.client.groups import Groups
from kcli.errors import KcliError, UsageError
from kcli.group_view import Committed, Place

Told = Callable[[str], None]
RESETTABLE = ("Empty", "Dead")


class Kind(Enum):
    """See above."""

    EARLIEST = auto()
    LATEST = auto()
    CURRENT = auto()
    OFFSET = auto()
    SHIFT = auto()
    TIME = auto()
    GIVEN = auto()


@dataclass(frozen=True)
class Reset:
    """A way to find offsets. number: of OFFSET, SHIFT and TIME; given: of GIVEN, by group."""

    kind: Kind
    number: int = 0
    given: Mapping[str, Mapping[Place, int]] = field(default_factory=dict)


def parse_places(text: str) -> tuple[str, tuple[int, ...]]:
    """A topic, or of TOPIC:0,1 the topic and its partitions (else none). Raises UsageError."""
    topic, colon, numbers = text.partition(":")
    try:
        found = tuple(int(number) for number in numbers.split(",")) if colon else ()
    except ValueError:
        raise UsageError(f"--topic {text!r} is neither TOPIC nor TOPIC:PARTITION,...") from None
    if not topic or any(number < 0 for number in found):
        raise UsageError(f"--topic {text!r} is neither TOPIC nor TOPIC:PARTITION,...")
    return topic, found


def parse_csv(lines: Iterable[str], name: str, groups: list[str]) -> dict[str, dict[Place, int]]:
    """Offsets by group, of a file of that name. Raises UsageError."""
    found: dict[str, dict[Place, int]] = {}
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
        found.setdefault(group, {})[topic, partition] = offset
    return found


def scope(groups: Groups, committed: Mapping[Place, Committed], topics: Iterable[str]) -> list[Place]:
    """The partitions of these topics (TOPIC or TOPIC:0,1), or where none is named, all with an offset. Raises
    UsageError, Refused, Unreachable."""
    named = [parse_places(text) for text in topics]
    if not named:
        return sorted(committed)
    return [
        place
        for topic, numbers in named
        for place in ([(topic, number) for number in numbers] if numbers else groups.partitions(topic))
    ]


def new_offsets(
    groups: Groups, group: str, reset: Reset, topics: Iterable[str], told: Told
) -> tuple[dict[Place, int], dict[Place, Committed]]:
    """Offsets that a group without members would get, and what it has. Raises KcliError: it has members."""
    state = groups.group(group).state
    if state not in RESETTABLE:
        raise KcliError(f"{group}: offsets can only be reset while the group has no members: it is {state}")
    committed = groups.committed(group)
    places = sorted(reset.given.get(group, {})) if reset.kind is Kind.GIVEN else scope(groups, committed, topics)
    starts, ends = groups.starts(places), groups.ends(places)
    for topic, number in places:
        if (topic, number) not in starts or (topic, number) not in ends:
            raise KcliError(f"{group}: there is no partition {topic}-{number}, or nobody leads it")
    wanted = _wanted(groups, group, reset, places, committed, starts, ends)
    return {
        place: _within(offset, starts[place], ends[place], place, told) for place, offset in wanted.items()
    }, committed


def _wanted(
    groups: Groups,
    group: str,
    reset: Reset,
    places: list[Place],
    committed: Mapping[Place, Committed],
    starts: Mapping[Place, int],
    ends: Mapping[Place, int],
) -> Mapping[Place, int]:
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


def _within(offset: int, start: int, end: int, place: Place, told: Told) -> int:
    moved = min(max(offset, start), end)
    if moved != offset:
        told(f"{place[0]}-{place[1]}: there is no offset {offset:,}: it becomes {moved:,}")
    return moved
