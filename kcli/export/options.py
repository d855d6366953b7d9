"""The options of the data source `kafka-log`: those of Spark's Kafka source, by the same names, and further ones.

    topics         subscribe, subscribePattern, assign; with none of them all topics but internal ones
    offsets        startingOffsets, startingOffsetsByTimestamp, startingTimestamp; the same three with `ending`
    tasks          minPartitions, maxRecordsPerPartition
    streams        maxOffsetsPerTrigger, minOffsetsPerTrigger, maxTriggerDelay
    columns        columns, includeHeaders, includeControl
    records        isolation, onCorruption, corruptionReport, failOnDataLoss, beyondHighWatermark
    tier           tier: a directory or the URL of a bucket, with the segments of topics in tiered storage

Names are case-insensitive, as all options of Spark. Options of Spark's Kafka source that only concern a connection to
a broker (`kafka.…`, groupIdPrefix, fetchOffset.…) are accepted without effect, so that existing jobs run unchanged;
kafka.isolation.level means `isolation`.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeVar

from kcli.errors import UsageError
from kcli.export import columns
from kcli.protocol.topic_partition import TopicPartition
from kcli.tier.address import parse_address

EARLIEST, LATEST = -2, -1
TRIGGER_DELAY_MS: Final = 900_000
TASKS_MAX: Final = 100_000
"""How many tasks options can ask for; the driver keeps each of them."""
NAMED_OFFSETS = {"earliest": EARLIEST, "latest": LATEST}
UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
Enum = TypeVar("Enum", bound=StrEnum)


class Isolation(StrEnum):
    """isolation.level: READ_COMMITTED leaves out aborted transactions, and records from the last stable offset on."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


class OnCorruption(StrEnum):
    """What to do at damaged bytes. FAIL: raise CorruptLog. SKIP: read on after them. REPORT: read on after them, and
    write them to a damage table."""

    FAIL = "fail"
    SKIP = "skip"
    REPORT = "report"


@dataclass(frozen=True, slots=True)
class Bound:
    """The start, or the exclusive end, of each partition in a query. Instead of an offset there may be EARLIEST or
    LATEST.

    time_ms: a timestamp (epoch ms) that bounds all partitions; None if the other attributes bound them. times_ms,
    offsets: a timestamp or an offset by partition; if a partition has both, the timestamp counts. default: the offset
    of partitions without an entry. option: the option that gives these entries, which must then be those of all
    partitions that are read; None if partitions may have no entry.
    """

    default: int
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    times_ms: Mapping[TopicPartition, int] = field(default_factory=dict)
    time_ms: int | None = None
    option: str | None = None

    def time_of(self, partition: TopicPartition) -> int | None:
        """Return the timestamp that bounds a partition, in epoch ms; None if an offset bounds it."""
        return self.times_ms.get(partition) if self.time_ms is None else self.time_ms

    def offset_of(self, partition: TopicPartition) -> int:
        """Return the offset that bounds a partition; EARLIEST or LATEST if the option names no number. Call this only
        if `time_of` returns None."""
        return self.offsets.get(partition, self.default)


@dataclass(frozen=True, slots=True)
class Narrowed:
    """The records that the query's filters select: those of `topics` and `partitions` (None: all), with offsets in
    [from_offset, to_offset), from the first record that has a timestamp of from_time_ms (epoch ms) or later."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    from_offset: int = 0
    to_offset: int = (1 << 63) - 1
    from_time_ms: int | None = None

    def wants(self, topic: str, partition: int) -> bool:
        """Whether the filters select the partition."""
        return (self.topics is None or topic in self.topics) and (
            self.partitions is None or partition in self.partitions
        )


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of a query as values; `parse` reads them from Spark's strings, the module docstring lists them.

    An attribute is None if its option is not given. latest_without_time: if no record has the starting timestamp or a
    later one, begin at the log end offset; false: raise UsageError. narrowed: the records that the query's filters
    select.
    """

    paths: tuple[str, ...]
    tier: str | None = None
    subscribe: frozenset[str] | None = None
    subscribe_pattern: str | None = None
    assign: Mapping[str, frozenset[int]] | None = None
    start: Bound = Bound(EARLIEST)
    end: Bound = Bound(LATEST)
    latest_without_time: bool = False
    columns: tuple[str, ...] = columns.STANDARD
    include_control: bool = False
    include_internal: bool = False
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    on_corruption: OnCorruption = OnCorruption.FAIL
    corruption_report: str | None = None
    fail_on_data_loss: bool = True
    beyond_high_watermark: bool = False
    push_filters: bool = False
    narrowed: Narrowed = Narrowed()
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = TRIGGER_DELAY_MS

    @staticmethod
    def parse(options: Mapping[str, str], *, stream: bool = False, live: bool = False) -> SourceOptions:
        """Return the options of a query from Spark's option strings by name.

        stream: whether the query is a streaming query, in which startingOffsets is `latest` by default, and
        beyondHighWatermark true, because the high watermark in the checkpoint of a running broker is some seconds old.
        live: whether brokers are read, without a path or a tier; `options` then has none of their options, and no
        `kafka.…` but kafka.isolation.level.

        Raises UsageError for an unknown option, an invalid value, options that exclude each other, and if neither a
        path nor a tier is given and `live` is false.
        """
        given = _RemainingOptions({name.lower(): value for name, value in options.items()})
        tier = given.text("tier", _tier)
        paths = given.paths(is_needed=tier is None and not live)
        subscribe = given.names("subscribe")
        pattern = given.text("subscribePattern", _pattern)
        assign = given.text("assign", _assign)
        if sum(each is not None for each in (subscribe, pattern, assign)) > 1:
            raise UsageError("give one of subscribe, subscribePattern and assign")
        parsed = SourceOptions(
            paths=paths,
            tier=tier,
            subscribe=subscribe,
            subscribe_pattern=pattern,
            assign=assign,
            start=given.bound("starting", LATEST if stream else EARLIEST),
            end=given.bound("ending", LATEST),
            latest_without_time=given.word("startingOffsetsByTimestampStrategy", ("error", "latest")) == "latest",
            columns=columns.resolve(given.text("columns", str), include_headers=given.flag("includeHeaders")),
            include_control=given.flag("includeControl"),
            include_internal=given.flag("includeInternalTopics"),
            isolation=given.isolation(),
            on_corruption=given.choice("onCorruption", OnCorruption, OnCorruption.FAIL),
            corruption_report=given.text("corruptionReport", str),
            fail_on_data_loss=given.flag("failOnDataLoss", default=True),
            beyond_high_watermark=given.flag("beyondHighWatermark", default=stream),
            push_filters=given.flag("pushFilters"),
            min_partitions=given.text("minPartitions", _tasks),
            max_records_per_partition=given.text("maxRecordsPerPartition", _positive),
            max_offsets_per_trigger=given.text("maxOffsetsPerTrigger", _positive),
            min_offsets_per_trigger=given.text("minOffsetsPerTrigger", _positive),
            max_trigger_delay_ms=given.text("maxTriggerDelay", _duration_ms) or TRIGGER_DELAY_MS,
        )
        given.refuse_others(_MEANINGLESS_LIVE if live else _MEANINGLESS)
        if EARLIEST in parsed.end.offsets.values() or parsed.end.default == EARLIEST:
            raise UsageError("endingOffsets cannot be the earliest")
        for partition, start in parsed.start.offsets.items():
            if 0 <= (end := parsed.end.offsets.get(partition, start)) < start:
                raise UsageError(f"{partition}: startingOffsets has {start:,}, and endingOffsets {end:,}")
        if (parsed.min_offsets_per_trigger or 0) > (parsed.max_offsets_per_trigger or math.inf):
            raise UsageError("minOffsetsPerTrigger is above maxOffsetsPerTrigger")
        if (parsed.on_corruption is OnCorruption.REPORT) != (parsed.corruption_report is not None):
            raise UsageError("onCorruption=report and corruptionReport, the directory of its table, go together")
        return parsed

    def wants(self, topic: str, partition: int) -> bool:
        """Whether the options select the partition. Internal topics need includeInternalTopics or their full name."""
        if not self.narrowed.wants(topic, partition):
            return False
        if self.subscribe is not None:
            return topic in self.subscribe
        if self.assign is not None:
            return partition in self.assign.get(topic, ())
        if not self.include_internal and topic.startswith("__"):
            return False
        return self.subscribe_pattern is None or re.fullmatch(self.subscribe_pattern, topic) is not None


_MEANINGLESS: Final = re.compile(
    r"kafka\..*|groupidprefix|kafkaconsumer\.polltimeoutms|fetchoffset\..*|__.*|recursivefilelookup"
)
SHOWN_CHARACTERS: Final = 200
_MEANINGLESS_LIVE: Final = re.compile(r"groupidprefix|__.*|recursivefilelookup")


class _RemainingOptions:
    """Option strings by lower-case name. Each method removes the option that it returns; options that are left at the
    end are unknown."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options
        self._known: list[str] = []

    def text(self, name: str, convert: Callable[[str], Any]) -> Any:
        self._known.append(name)
        value = self._options.pop(name.lower(), None)
        if value is None:
            return None
        try:
            return convert(value)
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise UsageError(f"{name}={shown(value)}: {error}") from None

    def names(self, name: str) -> frozenset[str] | None:
        found: frozenset[str] | None = self.text(name, _names)
        if found is not None and not found:
            raise UsageError(f"{name}: names no topic")
        return found

    def flag(self, name: str, *, default: bool = False) -> bool:
        value: bool | None = self.text(name, _boolean)
        return default if value is None else value

    def word(self, name: str, words: tuple[str, ...]) -> str:
        value: str | None = self.text(name, str.lower)
        if value is not None and value not in words:
            raise UsageError(f"{name}={value!r}: not one of {', '.join(words)}")
        return value or words[0]

    def choice(self, name: str, kind: type[Enum], default: Enum) -> Enum:
        words = (str(default), *(str(each) for each in kind if each is not default))
        return kind(self.word(name, words))

    def isolation(self) -> Isolation:
        """Return the isolation level, for which there are two names. Raises UsageError if they have two values."""
        names = "isolation", "kafka.isolation.level"
        given = {
            name: self.choice(name, Isolation, Isolation.READ_UNCOMMITTED) for name in names if name in self._options
        }
        if len(set(given.values())) > 1:
            raise UsageError(
                " and ".join(f"{name}={value}" for name, value in given.items()) + " contradict each other"
            )
        return Isolation(next(iter(given.values()), Isolation.READ_UNCOMMITTED))

    def paths(self, *, is_needed: bool) -> tuple[str, ...]:
        several: list[str] = self.text("paths", _strings) or []
        one: str | None = self.text("path", str)
        paths = tuple(filter(None, [*([one] if one else []), *several]))
        if not paths and is_needed:
            raise UsageError(
                "give the path of a log directory: .load(path) or option path; or a tier: option tier; or brokers: "
                "option kafka.bootstrap.servers"
            )
        return paths

    def bound(self, name: str, default: int) -> Bound:
        offsets = self.text(f"{name}Offsets", _offsets)
        times = self.text(f"{name}OffsetsByTimestamp", _by_partition)
        time = self.text(f"{name}Timestamp", _time)
        if isinstance(offsets, int):
            default, offsets = offsets, None
        options = {f"{name}OffsetsByTimestamp": times, f"{name}Offsets": offsets}
        option = next((option for option, given in options.items() if given), None) if time is None else None
        return Bound(default, offsets or {}, times or {}, time, option)

    def refuse_others(self, meaningless: re.Pattern[str]) -> None:
        refuse_options("kafka-log", [name for name in self._options if not meaningless.fullmatch(name)], self._known)


def refuse_options(owner: str, unknown: Collection[str], known: Collection[str]) -> None:
    """Raise UsageError if there are unknown options. owner: what does not have them, for the error. unknown: their
    names in lower case. known: the options that it has; the error names those that are like unknown ones."""
    if not unknown:
        return
    names = {each.lower(): each for each in known}
    alike = [names[each] for name in sorted(unknown) for each in get_close_matches(name, names, 1)]
    hint = f"; there is {', '.join(dict.fromkeys(alike))}" if alike else ""
    raise UsageError(f"{owner} has no option {', '.join(sorted(unknown))}{hint}")


def _tier(text: str) -> str:
    """Return the address of a store, with an absolute path if it is a directory. Raises UsageError."""
    parsed = parse_address(text, "tier")
    return str(Path(parsed).absolute()) if isinstance(parsed, str) else str(parsed)


def _names(text: str) -> frozenset[str]:
    return frozenset(filter(None, map(str.strip, text.split(","))))


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("not true or false")
    return text.lower() == "true"


def shown(value: str) -> str:
    """Return the value of an option for a message; a long one is cut."""
    return repr(value) if len(value) <= SHOWN_CHARACTERS else f"{value[:SHOWN_CHARACTERS]!r}..."


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("not a whole number") from None


def _positive(text: str) -> int:
    value = _integer(text)
    if value < 1:
        raise ValueError("not above 0")
    return value


def _tasks(text: str) -> int:
    value = _positive(text)
    if value > TASKS_MAX:
        raise ValueError(f"above {TASKS_MAX:,}, the tasks that a query can have")
    return value


def _duration_ms(text: str) -> int:
    """Return a time as Spark writes it (15m, 30s, 500) in ms; without a unit it is in ms."""
    found = re.fullmatch(r"(\d{1,12})\s*(ms|s|m|min|h|d)?", text.strip().lower())
    if found is None or not int(found[1]):
        raise ValueError("not a time such as 15m, 30s or 500ms")
    return int(found[1]) * UNITS_MS[found[2] or "ms"]


def _time(text: str) -> int:
    value = _integer(text)
    if not 0 <= value < 1 << 63:
        raise ValueError("not a time in ms since 1970")
    return value


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"no regular expression: {error}") from None
    return text


def _strings(text: str) -> list[str]:
    found = json.loads(text)
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise ValueError("no JSON list of strings")
    return found


def _assign(text: str) -> dict[str, frozenset[int]]:
    """Return partitions by topic from JSON: {"topic": [0, 1], ...}."""
    found = json.loads(text, object_pairs_hook=_Members)
    if not isinstance(found, _Members) or not found:
        raise ValueError('not of the form {"topic": [0, 1]}')
    found.refuse_repeated()
    for numbers in found.values():
        if not isinstance(numbers, list) or not all(type(each) is int and each >= 0 for each in numbers):
            raise ValueError('not of the form {"topic": [0, 1]}')
    return {topic: frozenset(numbers) for topic, numbers in found.items()}


def _offsets(text: str) -> int | dict[TopicPartition, int]:
    if text.strip().lower() in NAMED_OFFSETS:
        return NAMED_OFFSETS[text.strip().lower()]
    found = _by_partition(text)
    if any(offset < EARLIEST for offset in found.values()):
        raise ValueError("an offset below -2, the earliest")
    return found


class _Repeated(ValueError):
    """An option names a topic or a partition twice."""


class _Members(dict[str, Any]):
    """A JSON object whose names are topics, or the partitions of one. Of a name that is there twice, Spark's Kafka
    source keeps the last value, and so does not read the records that the first one asks for."""

    def __init__(self, members: list[tuple[str, Any]]) -> None:
        super().__init__(members)
        self._counts = Counter(name for name, _ in members)

    def refuse_repeated(self, prefix: str = "") -> None:
        """Raise _Repeated if a name is there twice. prefix: stands before it in the error."""
        name, count = max(self._counts.items(), key=lambda each: each[1], default=("", 0))
        if count > 1:
            raise _Repeated(f"{prefix}{name} is there twice")


def _by_partition(text: str) -> dict[TopicPartition, int]:
    """Return numbers by partition from JSON: {"topic": {"0": 23, "1": -1}, ...}."""
    try:
        numbers = _each_once(json.loads(text, object_pairs_hook=_Members))
    except _Repeated:
        raise
    except (ValueError, AttributeError):
        raise ValueError('neither a name nor of the form {"topic": {"0": 23}}') from None
    for number in numbers.values():
        if type(number) is not int or not -(1 << 63) <= number < 1 << 63:
            raise ValueError(f"{number!r} is no int64")
    return numbers


def _each_once(found: _Members) -> dict[TopicPartition, int]:
    """Return the values of partitions by topic. Raises _Repeated, ValueError, AttributeError."""
    found.refuse_repeated()
    numbers: dict[TopicPartition, int] = {}
    for topic, each in found.items():
        each.refuse_repeated(f"{topic}-")
        for name, number in each.items():
            partition = TopicPartition(topic, int(name))
            if partition in numbers:  # under another name, such as 00
                raise _Repeated(f"{partition} is there twice")
            numbers[partition] = number
    return numbers
