"""The range of offsets to read of a partition.

    start   beginning | end | N | -N (the last N)     for all partitions, or PARTITION:START for one
    times   FROM:TO, each epoch milliseconds, ISO 8601 or relative to now (-2h); either may be missing

Offsets are found when reading begins: `end` is the high watermark, under read_committed the last stable offset. A range
of times begins at the first record of FROM or later, and ends before the first record of TO or later (ListOffsets). If
there is no such record, it begins, or ends, at the end that the partition has when reading begins.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from confluent_kafka import Consumer, KafkaException, TopicPartition

from kcli.client.connection import NOBODY, Connection, Refused, kafka_error
from kcli.errors import KcliError, UsageError

Answer = TypeVar("Answer")


class Start(NamedTuple):
    """The first offset to read. offset: 0 or more; a negative number is counted back from the partition's end; None is
    the beginning, or with `at_end` the end."""

    offset: int | None
    at_end: bool = False


BEGINNING = Start(None)
END = Start(None, at_end=True)


class Range(NamedTuple):
    """The offsets to read of a partition: from `start` up to, not including, `stop`. stop: None for no end, so that
    records still to be written are read too."""

    partition: int
    start: int
    stop: int | None


class Times(NamedTuple):
    """A range of timestamps, in epoch ms: from `first` up to, not including, `stop`. None: no bound on that side."""

    first: int | None
    stop: int | None


def parse_start(text: str) -> tuple[int | None, Start]:
    """Parse the argument of -o. Returns the partition (None: all) and the start. Raises UsageError."""
    found = re.fullmatch(r"(?:(\d{1,10}):)?(?:(beginning|earliest)|(end|latest)|(-?\d{1,18}))", text)
    if found is None:
        raise UsageError(f"-o {text!r} is no offset: give beginning, end, N, -N, or PARTITION:OFFSET")
    partition, beginning, end, number = found.groups()
    start = BEGINNING if beginning else END if end or number == "-0" else Start(int(number))
    return (None if partition is None else int(partition)), start


def parse_times(text: str, time_ms: Callable[[str], int]) -> Times:
    """Parse FROM:TO. As times may contain colons, the text is split at the first colon that leaves on each side a time
    or nothing, and FROM not after TO. time_ms(text): returns epoch ms, and raises UsageError for a text that is no
    time. Raises UsageError if there is no such colon."""
    found: list[Times] = []
    for colon in re.finditer(":", text):
        sides = text[: colon.start()], text[colon.end() :]
        try:
            first, stop = (time_ms(side) if side else None for side in sides)
        except UsageError:
            continue
        if first is None or stop is None or first <= stop:
            found.append(Times(first, stop))
    if not found:
        raise UsageError(
            f"--time {text!r} is no range: give FROM:TO, such as -2h:-1h or 2026-11-20T22:00Z: (either may be missing)"
        )
    return found[0]


class Offsets:
    """The offsets of a topic, by ListOffsets."""

    def __init__(self, connection: Connection, consumer: Consumer, topic: str) -> None:
        self._connection = connection
        self._consumer = consumer
        self._topic = topic

    def partitions(self) -> list[int]:
        """Return the numbers of the topic's partitions. Raises Unreachable, Refused."""
        found = self._connection.metadata(self._consumer, self._topic).topics[self._topic]
        if found.error is not None:
            raise Refused(self._topic, found.error)
        return sorted(found.partitions)

    def ranges(
        self, partitions: Iterable[int], starts: dict[int | None, Start], times: Times | None, *, to_end: bool
    ) -> list[Range]:
        """Return the range of each partition. starts: by partition, None for all others; times: used instead of
        `starts`; to_end: stop at the partition's present end. Raises Refused, KcliError, UsageError."""
        chosen = list(partitions)
        named = {partition for partition in starts if partition is not None}
        if missing := named - set(chosen):
            raise UsageError(f"-o {min(missing)}:...: that partition is not read")
        everywhere = starts.get(None, BEGINNING)
        bounds = {number: self._watermarks(number) for number in chosen}
        if times is not None:
            firsts = self._at(times.first, bounds) if times.first is not None else {}
            stops = self._at(times.stop, bounds) if times.stop is not None else {}
            ends = {number: high for number, (_, high) in bounds.items()} if to_end else {}
            return [
                Range(number, firsts.get(number, low), stops.get(number, ends.get(number)))
                for number, (low, _) in bounds.items()
            ]
        return [
            Range(number, self._begin(number, starts.get(number, everywhere), low, high), high if to_end else None)
            for number, (low, high) in bounds.items()
        ]

    def _begin(self, partition: int, start: Start, low: int, high: int) -> int:
        if start.offset is None:
            return high if start.at_end else low
        if start.offset < 0:
            return max(low, high + start.offset)
        if not low <= start.offset <= high:
            raise KcliError(f"{self._topic}-{partition}: no offset {start.offset:,}: it has {low:,} up to {high:,}")
        return start.offset

    def _watermarks(self, partition: int) -> tuple[int, int]:
        place = TopicPartition(self._topic, partition)
        return self._result(lambda wait_s: self._consumer.get_watermark_offsets(place, wait_s, cached=False), partition)

    def _at(self, time_ms: int, bounds: dict[int, tuple[int, int]]) -> dict[int, int]:
        """Return for each partition in `bounds` the first offset with a timestamp of `time_ms` (epoch ms) or later; the
        partition's end if there is none. bounds: each partition's first offset and end. Raises Refused."""
        places = [TopicPartition(self._topic, number, time_ms) for number in bounds]
        found = self._result(lambda wait_s: self._consumer.offsets_for_times(places, wait_s), None)
        for place in found:
            if place.error is not None:
                raise Refused(f"{self._topic}-{place.partition}", place.error)
        return {place.partition: place.offset if place.offset >= 0 else bounds[place.partition][1] for place in found}

    def _result(self, send: Callable[[float], Answer], partition: int | None) -> Answer:
        subject = self._topic if partition is None else f"{self._topic}-{partition}"
        deadline = time.monotonic() + self._connection.timeout_s
        while True:
            try:
                return send(max(0.1, deadline - time.monotonic()))
            except KafkaException as error:
                found = kafka_error(error)
                if time.monotonic() >= deadline:
                    raise (
                        self._connection.unreachable() if found.code() in NOBODY else Refused(subject, found)
                    ) from None
                if not found.retriable() and found.code() not in NOBODY:
                    raise Refused(subject, found) from None
                time.sleep(0.1)
