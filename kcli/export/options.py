"""The options of the data source: names and values as Spark's Kafka source has them, and our own.

    which topics   subscribe, subscribePattern, assign; none of them: all but internal ones
    from, to       startingOffsets, startingOffsetsByTimestamp, startingTimestamp, and endingOffsets and its like
    how many       minPartitions, maxRecordsPerPartition, maxOffsetsPerTrigger
    which columns  columns, includeHeaders, includeControl
    what counts    isolation, onCorruption, corruptionReport, failOnDataLoss, beyondHighWatermark

Names are case-insensitive, as all options of Spark. Options of Spark's source that only concern a connection to
a broker (`kafka.…` and the like) are taken and mean nothing, so that jobs move over; kafka.isolation.level means
`isolation`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeVar

from kcli.errors import UsageError
from kcli.export import columns

EARLIEST, LATEST = -2, -1
NAMED_OFFSETS = {"earliest": EARLIEST, "latest": LATEST}
Partition = tuple[str, int]
Enum = TypeVar("Enum", bound=StrEnum)


class Isolation(StrEnum):
    """Which transactions' records are read: all, or only those of committed ones, up to the last stable offset."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


class OnCorruption(StrEnum):
    """What happens at damaged bytes: an error, reading on behind them, or that and a table of what was passed over."""

    FAIL = "fail"
    SKIP = "skip"
    REPORT = "report"


@dataclass(frozen=True, slots=True)
class Bound:
    """Where partitions begin or end: a time (epoch ms) for all, times or offsets for some, else `default`.

    Offsets may be EARLIEST and LATEST.
    """

    default: int
    offsets: Mapping[Partition, int] = field(default_factory=dict)
    times_ms: Mapping[Partition, int] = field(default_factory=dict)
    time_ms: int | None = None

    def time_of(self, partition: Partition) -> int | None:
        """The time that was given for a partition, in epoch ms."""
        return self.times_ms.get(partition) if self.time_ms is None else self.time_ms

    def offset_of(self, partition: Partition) -> int:
        """The offset that was given for a partition, or EARLIEST or LATEST."""
        return self.offsets.get(partition, self.default)


@dataclass(frozen=True, slots=True)
class Narrowed:
    """What filters of a query leave: topics and partitions (None: all), offsets from inclusive to exclusive, times."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    from_offset: int = 0
    to_offset: int = (1 << 63) - 1
    from_time_ms: int | None = None

    def wants(self, topic: str, partition: int) -> bool:
        """Can the partition hold what is left?"""
        return (self.topics is None or topic in self.topics) and (
            self.partitions is None or partition in self.partitions
        )


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What to read. See the module's text; `parse` makes it from Spark's strings."""

    paths: tuple[str, ...]
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

    @staticmethod
    def parse(options: Mapping[str, str], *, stream: bool = False) -> SourceOptions:
        """The options as Spark gives them: strings. A stream begins at the latest offsets if not told otherwise, and
        goes beyond the high watermark of the checkpoint, which is old on a live broker.

        Raises UsageError: an unknown option, a value that makes no sense, no path.
        """
        given = _Given({name.lower(): value for name, value in options.items()})
        paths = given.paths()
        subscribe = given.names("subscribe")
        pattern = given.text("subscribePattern", _pattern)
        assign = given.text("assign", _assign)
        if sum(each is not None for each in (subscribe, pattern, assign)) > 1:
            raise UsageError("give one of subscribe, subscribePattern and assign")
        isolation = given.choice("kafka.isolation.level", Isolation, Isolation.READ_UNCOMMITTED)
        parsed = SourceOptions(
            paths=paths,
            subscribe=subscribe,
            subscribe_pattern=pattern,
            assign=assign,
            start=given.bound("starting", LATEST if stream else EARLIEST),
            end=given.bound("ending", LATEST),
            latest_without_time=given.word("startingOffsetsByTimestampStrategy", ("error", "latest")) == "latest",
            columns=columns.resolve(given.text("columns", str), include_headers=given.flag("includeHeaders")),
            include_control=given.flag("includeControl"),
            include_internal=given.flag("includeInternalTopics"),
            isolation=given.choice("isolation", Isolation, isolation),
            on_corruption=given.choice("onCorruption", OnCorruption, OnCorruption.FAIL),
            corruption_report=given.text("corruptionReport", str),
            fail_on_data_loss=given.flag("failOnDataLoss", default=True),
            beyond_high_watermark=given.flag("beyondHighWatermark", default=stream),
            push_filters=given.flag("pushFilters"),
            min_partitions=given.text("minPartitions", _positive),
            max_records_per_partition=given.text("maxRecordsPerPartition", _positive),
            max_offsets_per_trigger=given.text("maxOffsetsPerTrigger", _positive),
        )
        given.refuse_others()
        if EARLIEST in parsed.end.offsets.values() or parsed.end.default == EARLIEST:
            raise UsageError("endingOffsets cannot be the earliest")
        if (parsed.on_corruption is OnCorruption.REPORT) != (parsed.corruption_report is not None):
            raise UsageError("onCorruption=report and corruptionReport, the directory of its table, go together")
        return parsed

    def wants(self, topic: str, partition: int) -> bool:
        """Is the partition asked for? Internal topics are, unless by name, only with includeInternalTopics."""
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
    r"kafka\..*|groupidprefix|kafkaconsumer\.polltimeoutms|fetchoffset\..*|minoffsetspertrigger|maxtriggerdelay"
    r"|__.*|recursivefilelookup"
)


class _Given:
    """Options by lower-case name, each to be asked for once."""

    def __init__(self, options: dict[str, str]) -> None:
        self._left = options

    def text(self, name: str, convert: Callable[[str], Any]) -> Any:
        value = self._left.pop(name.lower(), None)
        if value is None:
            return None
        try:
            return convert(value)
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise UsageError(f"{name}={value!r}: {error}") from None

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

    def paths(self) -> tuple[str, ...]:
        several: list[str] = self.text("paths", _strings) or []
        one: str | None = self.text("path", str)
        paths = tuple(filter(None, [*([one] if one else []), *several]))
        if not paths:
            raise UsageError("give the path of a log directory: .load(path) or option path")
        return paths

    def bound(self, name: str, default: int) -> Bound:
        offsets = self.text(f"{name}Offsets", _offsets)
        times = self.text(f"{name}OffsetsByTimestamp", _by_partition)
        time = self.text(f"{name}Timestamp", _time)
        if isinstance(offsets, int):
            default, offsets = offsets, None
        return Bound(default, offsets or {}, times or {}, time)

    def refuse_others(self) -> None:
        unknown = [name for name in self._left if not _MEANINGLESS.fullmatch(name)]
        if unknown:
            raise UsageError(f"kafka-log has no option {', '.join(sorted(unknown))}")


def _names(text: str) -> frozenset[str]:
    return frozenset(filter(None, map(str.strip, text.split(","))))


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("not true or false")
    return text.lower() == "true"


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError("not above 0")
    return value


def _time(text: str) -> int:
    value = int(text)
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
    """{"topic": [0, 1], ...}"""
    found = json.loads(text)
    if not isinstance(found, dict) or not found:
        raise ValueError('not of the form {"topic": [0, 1]}')
    for numbers in found.values():
        if not isinstance(numbers, list) or not all(type(each) is int and each >= 0 for each in numbers):
            raise ValueError('not of the form {"topic": [0, 1]}')
    return {topic: frozenset(numbers) for topic, numbers in found.items()}


def _offsets(text: str) -> int | dict[Partition, int]:
    if text.strip().lower() in NAMED_OFFSETS:
        return NAMED_OFFSETS[text.strip().lower()]
    found = _by_partition(text)
    if any(offset < EARLIEST for offset in found.values()):
        raise ValueError("an offset below -2, the earliest")
    return found


def _by_partition(text: str) -> dict[Partition, int]:
    """{"topic": {"0": 23, "1": -1}, ...}"""
    try:
        found = json.loads(text)
    except ValueError:
        raise ValueError('neither a name nor of the form {"topic": {"0": 23}}') from None
    result: dict[Partition, int] = {}
    for topic, numbers in found.items():
        for partition, number in numbers.items():
            if type(number) is not int or not -(1 << 63) <= number < 1 << 63:
                raise ValueError(f"{number!r} is no int64")
            result[topic, int(partition)] = number
    return result
