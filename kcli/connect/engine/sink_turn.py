"""A turn of a sink task: fetch -> convert and transform -> put -> flush. The engine commits the group's offsets then.

partitions  those of the topics that fall to the task, as Kafka's RangeAssignor deals them out to members in the
            order of their numbers; new ones are found at each turn
start       where the last turn has ended; for other partitions where the group has committed, or as auto.offset.reset
            says, and the end of `latest` is committed at once; the task may rewind (SinkContext.offset)
puts        at most max.poll.records, if the consumer has that
end         the high watermark, with isolation.level=read_committed the last stable offset
no leader   a partition without one is left out, and the next turn is soon
again       put raises RetriableError: the same records after the context's retry_s, as long as the turn lasts, and in
            the next one; so are records whose conversion is tried without end. An error of the brokers that passes ends
            the turn; what was put before is flushed
errors      what was put since the last flush is put again
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING

from kcli.client.groups import Groups
from kcli.client.log_reading import EARLIEST, LATEST, LogReader
from kcli.connect.config.config_def import words
from kcli.connect.data.errors import ConnectError, RetriableError
from kcli.connect.engine.clients import committed_offsets, connection_to
from kcli.connect.engine.dead_letters import DeadLetters
from kcli.connect.engine.passing import is_passing
from kcli.connect.engine.records import ROW_COLUMNS, Chain
from kcli.connect.engine.tasks import ColumnSinkTask, SinkContext, SinkTask
from kcli.connect.engine.turn import AGAIN_S, POLL_S, Clock, Interrupted, Outcome, Turn
from kcli.connect.processing.failures import ToleranceExceeded
from kcli.export.options import Isolation, SourceOptions
from kcli.java.regex import JavaRegex
from kcli.pipelines.fetching import read
from kcli.pipelines.planning import FetchRange
from kcli.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from uuid import UUID

    import pyarrow as pa

RANGE_MAX = 200_000
"""How many offsets of a partition are read before the others have their turn."""
FLUSH_S = 2.0
INTERNAL = frozenset({"__consumer_offsets", "__share_group_state", "__transaction_state"})
"""Topics that no regular expression chooses."""


def run(turn: Turn, outcome: Outcome, *, is_repeated: bool) -> None:  # noqa: ARG001 (a sink's offsets are the driver's)
    """Run a turn; fill its outcome."""
    topics = Topics.of(turn.start.connector)
    with turn.cluster.reader(topics.named) as reader:
        sink = _Sink(turn, outcome, reader)
        try:
            sink.run(topics)
        finally:
            sink.close()


class Topics:
    """The topics that a sink reads. named: those that its configuration lists; None with topics.regex."""

    def __init__(self, named: frozenset[str] | None, regex: str) -> None:
        self.named = named
        self._pattern = JavaRegex(regex) if named is None else None

    @staticmethod
    def of(config: Mapping[str, str]) -> Topics:
        """Return the topics of a configuration that has been validated."""
        named = frozenset(words(config.get("topics", "")))
        return Topics(named or None, config.get("topics.regex", ""))

    def partitions(self, known: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions of the sink's topics."""
        if self._pattern is None:
            return sorted(known)
        matching = {each for each in {place.topic for place in known} - INTERNAL if self._pattern.matches(each)}
        return sorted(place for place in known if place.topic in matching)


def share_of(places: Sequence[TopicPartition], number: int, tasks: int) -> list[TopicPartition]:
    """Return the partitions that fall to a task, as RangeAssignor deals them out topic by topic."""
    found: list[TopicPartition] = []
    for topic in sorted({place.topic for place in places}):
        of_topic = [place for place in places if place.topic == topic]
        each, more = divmod(len(of_topic), tasks)
        start = each * number + min(number, more)
        found += of_topic[start : start + each + (number < more)]
    return found


class _Sink:
    def __init__(self, turn: Turn, outcome: Outcome, reader: LogReader) -> None:
        self._turn, self._outcome, self._reader = turn, outcome, reader
        self._clock = Clock(turn.stop_file, turn.start.limits.flush_s)
        config = turn.start.connector
        self._chain = Chain(turn.start.id, config, turn.plugins, self._may_wait)
        self._dead = DeadLetters(turn.start, self._chain.handling)
        self.task: SinkTask = turn.plugin.load().TASK()
        self._is_columnar = isinstance(self.task, ColumnSinkTask) and self._chain.plain is self.task.PLAIN
        consumer = turn.start.consumer
        self._context = SinkContext(turn.start.id.connector, consumer["group.id"], state=turn.state)
        self._context.retries = turn.retries
        self._committed = consumer.get("isolation.level") == "read_committed"
        self._reset = consumer.get("auto.offset.reset", "earliest").strip().lower()
        self._poll_max = int(consumer.get("max.poll.records", RANGE_MAX))
        self._options = SourceOptions(
            paths=(),
            columns=ROW_COLUMNS,
            isolation=Isolation.READ_COMMITTED if self._committed else Isolation.READ_UNCOMMITTED,
        )
        self._put: dict[TopicPartition, int] = {}
        self._records = self._bytes = 0
        self._flushed_s = time.monotonic()

    def run(self, topics: Topics) -> None:
        """Run the task."""
        turn = self._turn
        described = self._reader.describe_patiently()
        places = share_of(topics.partitions(described.leaders), turn.start.id.task, turn.start.count)
        self._context.topic_ids = {topic: str(each) for topic, each in described.topic_ids.items()}
        self.task.start(turn.config, self._context)
        self.task.open(places)
        at = self._starts(places)
        self._clock.begin()
        again_s = AGAIN_S if len(at) < len(places) else None
        try:
            self._read_all(at, described.topic_ids)
        except Exception as error:
            if not (isinstance(error, Interrupted) or is_passing(error)):
                raise
            self._outcome.interruption = str(error) or None
            again_s = self._context.retry_s if self._context.retries else AGAIN_S
        self._outcome.retries = self._context.retries
        self._context.is_ending = True
        self._flush()
        rest = replace(self.task.rest(at), cluster=turn.cluster)
        if again_s is not None:
            rest = replace(rest, until_s=min(time.time() + again_s, rest.until_s or float("inf")))
        self._outcome.rest, self._outcome.state = rest, self._context.state

    def _read_all(self, at: dict[TopicPartition, int], topic_ids: Mapping[str, UUID]) -> None:
        """Put what there is behind `at`, which moves, until there is no more or the turn ends. Raises Interrupted."""
        clock = self._clock
        while self._goes_on():
            news = {place: end for place, end in self._ends([*at]).items() if at[place] < end}
            for place, end in news.items():
                to = min(end, at[place] + RANGE_MAX)
                at[place] = self._read(FetchRange(place, topic_ids[place.topic], at[place], to))
                if not self._goes_on():
                    break
            if news:
                clock.note_work()
            else:
                self._flush()
                if clock.has_rested():
                    break

    def _goes_on(self) -> bool:
        return self._clock.has_time() or (self.task.is_midway() and not self._clock.is_stopped())

    def _ends(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return self._reader.offsets(places, LATEST, committed=self._committed)

    def _starts(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where each partition is read on."""
        known = {**self._positions(places), **self._context.rewound}
        firsts, lasts = self._reader.offsets(places, EARLIEST), self._ends(places)
        there = [each for each in places if each in firsts and each in lasts]
        lost = [each for each in there if not firsts[each] <= known.get(each, -1) <= lasts[each]]
        if lost and self._reset == "none":
            raise ConnectError(f"no offset in the log, and auto.offset.reset=none: {', '.join(map(str, lost))}")
        new = lasts if self._reset == "latest" else firsts
        starts = {
            place: known[place] if firsts[place] <= known.get(place, -1) <= lasts[place] else new[place]
            for place in places
            if place in firsts and place in lasts
        }
        self._outcome.starts = dict(starts)
        if self._reset == "latest":  # another end would be the start of whoever reads the partition next
            self._outcome.positions |= {place: at for place, at in starts.items() if known.get(place) != at}
        return starts

    def _positions(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the positions of the last turn, and the group's of partitions that the task did not have then."""
        turn = self._turn
        if turn.positions.keys() >= set(places):
            return turn.positions
        groups, group = Groups(connection_to(turn.cluster)), turn.start.consumer["group.id"]
        committed = {place: each.offset for place, each in committed_offsets(groups, group).items()}
        return {**committed, **turn.positions}

    def _read(self, part: FetchRange) -> int:
        """Put the records of a range; return the offset up to which it was put."""
        place = part.partition
        self._outcome.topics.add(place.topic)
        for batch in _batches(part, self._options, self._turn, self._poll_max):
            self._put_all(batch)
            at: int = batch.column("offset")[-1].as_py() + 1
            self._put[place] = at
            self._records += batch.num_rows
            self._bytes += batch.nbytes
            if time.monotonic() - self._flushed_s >= FLUSH_S:
                self._flush()
            if not self._goes_on():
                return at
        self._put[place] = part.end
        return part.end

    def _put_all(self, batch: pa.RecordBatch) -> None:
        rows = self._chain.put(batch) if self._is_columnar else None
        try:
            records = None if rows is not None else self._chain.records(batch)
        except ToleranceExceeded:
            self._dead.send(self._chain.dead)
            raise
        while True:
            try:
                if rows is not None:
                    assert isinstance(self.task, ColumnSinkTask), "a columnar sink"
                    if rows.num_rows:
                        self.task.put_columns(rows)
                elif records:
                    self.task.put(records)
            except RetriableError as error:
                self._context.retries += 1
                self._wait(error)
            else:
                self._context.retries = 0
                return

    def _may_wait(self) -> bool:
        """Whether a record that cannot be converted may be tried again in this turn: for as long as the turn lasts, if
        it is tried without end, so that the connector's other tasks go on."""
        is_endless = self._chain.handling.retry_timeout_ms < 0
        return self._goes_on() if is_endless else not self._clock.is_stopped()

    def _wait(self, error: RetriableError) -> None:
        """Wait for the next try. Raises Interrupted if it is the next turn's."""
        until = time.monotonic() + self._context.retry_s
        while (left := until - time.monotonic()) > 0 and self._goes_on():
            time.sleep(min(left, POLL_S))
        if not self._goes_on():
            raise Interrupted(str(error))

    def close(self) -> None:
        """Stop the task, and close the connections."""
        try:
            self.task.stop()
        finally:
            self._dead.close()

    def _flush(self) -> None:
        self._flushed_s = time.monotonic()
        dead, self._chain.dead = self._chain.dead, []
        self._dead.send(dead)
        self._outcome.positions |= self.task.flush(self._put)
        self._outcome.records += self._records
        self._outcome.bytes += self._bytes
        self._outcome.state = deepcopy(self._context.state)  # that of the positions, should the turn be interrupted
        self._put, self._records, self._bytes = {}, 0, 0


def _batches(part: FetchRange, options: SourceOptions, turn: Turn, most: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a range, at most `most` in a batch."""
    rows = read(part, ROW_COLUMNS, options, turn.cluster)
    try:
        for batch in rows:
            yield from (batch.slice(at, most) for at in range(0, batch.num_rows, most))
    finally:
        with suppress(AttributeError):
            rows.close()  # type: ignore[attr-defined]  # a generator, whose connection is closed now
