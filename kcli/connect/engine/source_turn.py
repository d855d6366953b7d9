"""A turn of a source task: poll -> transform and convert -> send -> commit with the offsets.

boundary  a commit has the records of whole polls. In transactions: of one poll, or with transaction.boundary=interval
          of that time, for which the turn then lasts. Otherwise of COMMIT_S, or of RECORDS_MAX, or until poll returns
          nothing
offsets   of each source partition that of its last record. Read from the topic if they may have changed since the
          last turn; a task of an exactly-once worker has fenced its other instances by then
errors    what was sent since the last commit is aborted; the offsets stay where they were
again     a record that is tried again when the turn is stopped is the next turn's, with its whole poll. A poll whose
          error passes is the next turn's, too
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from kcli.connect.data.records import SourceRecord
from kcli.connect.engine.clients import connection_to
from kcli.connect.engine.offsets import partition_key, read_topic
from kcli.connect.engine.passing import is_passing
from kcli.connect.engine.records import Chain
from kcli.connect.engine.sending import Sending
from kcli.connect.engine.tasks import Columns, SourceContext, SourceTask, nothing
from kcli.connect.engine.turn import TURN_S, Clock, Interrupted, Outcome, Turn, interruption_line
from kcli.connect.plugins import Offset, Partition

COMMIT_S = 0.2
RECORDS_MAX = 100_000
TRANSACTIONAL_ID = "transactional.id"


def run(turn: Turn, outcome: Outcome, *, is_repeated: bool) -> None:
    """Run a turn; fill its outcome. is_repeated: whether an earlier attempt may have committed something, or still
    may."""
    if is_repeated and TRANSACTIONAL_ID in turn.start.producer:
        raise Interrupted("an earlier attempt was lost")  # the engine fences it
    sending = Sending(turn.cluster, turn.start)
    outcome.stored = sending.has_transactions and turn.offsets_topic is not None
    try:
        outcome.producer = sending.begin(turn.producer)
        offsets, source = turn.offsets, _Source(turn, outcome, sending)
        if turn.offsets_topic is not None and (offsets is None or is_repeated):
            offsets = outcome.known = read_topic(
                connection_to(turn.cluster), turn.offsets_topic, turn.start.id.connector, source.clock.check
            )
        source.run({**turn.begun, **(offsets or {})})
    except BaseException:
        sending.abort()
        raise
    finally:
        sending.close()


class _Source:
    def __init__(self, turn: Turn, outcome: Outcome, sending: Sending) -> None:
        self._turn, self._outcome, self._sending = turn, outcome, sending
        self._boundary_s = _boundary_s(turn)
        self._is_plain = TRANSACTIONAL_ID not in turn.start.producer
        self.clock = Clock(turn.stop_file, turn.start.limits.flush_s if self._is_plain else TURN_S)
        self._chain = Chain(turn.start.id, turn.start.connector, turn.plugins, lambda: not self.clock.is_stopped())
        self._offsets: dict[str, tuple[Partition, Offset]] = {}
        self._unsaved = 0
        self._bytes = 0
        self._since = 0.0
        self._topics: set[str] = set()

    def run(self, offsets: Mapping[str, Offset]) -> None:
        """Run the task."""
        turn = self._turn
        task: SourceTask = turn.plugin.load().TASK()
        context = SourceContext(offsets, self._chain.plain, self._outcome.begun, turn.waits, self._tell)
        try:
            task.start(turn.config, context)
            self.clock.begin()
            try:
                self._poll_all(task)
                self._outcome.rest = task.rest()
            except Interrupted as error:
                self._outcome.interruption = str(error) or None
            self._commit(task)
        finally:
            self._outcome.waits = context.interruption
            task.stop()

    def _tell(self, reason: str) -> None:
        self._outcome.lines.append(interruption_line(self._turn.start.id, reason))

    def _poll_all(self, task: SourceTask) -> None:
        """Send what there is, until there is no more or the turn ends. Raises Interrupted."""
        clock = self.clock
        while clock.has_time() or ((task.is_midway() or self._holds_back()) and not clock.is_stopped()):
            polled = _polled(task)
            if not nothing(polled):
                clock.note_work()
                self._send(polled)
                if self._is_due():
                    self._commit(task)
                continue
            if not self._holds_back():
                self._commit(task)
            if clock.has_rested() and not self._unsaved:
                break

    def _is_due(self) -> bool:
        """Return whether what was sent is to be committed."""
        is_full = self._is_plain and self._unsaved >= RECORDS_MAX
        return is_full or time.monotonic() - self._since >= self._boundary_s

    def _holds_back(self) -> bool:
        """Return whether a transaction is open that is not to end yet."""
        return not self._is_plain and self._unsaved > 0 and not self._is_due()

    def _send(self, polled: Sequence[SourceRecord] | Columns) -> None:
        if not self._unsaved:
            self._since = time.monotonic()
        if isinstance(polled, Columns):
            tables = self._chain.sent(polled.table)
            count = polled.table.num_rows
            self._offsets[partition_key(polled.partition)] = polled.partition, polled.offset
        else:
            count = len(polled)
            tables = self._chain.tables(polled)
            for each in polled:
                if each.source_partition is not None and each.source_offset is not None:
                    self._offsets[partition_key(each.source_partition)] = each.source_partition, each.source_offset
        self._sending.send(tables)
        self._unsaved += count
        for table in tables:
            self._bytes += table.nbytes
            self._topics.update(table.column("topic").unique().to_pylist())

    def _commit(self, task: SourceTask) -> None:
        if not self._unsaved:
            return
        outcome, turn = self._outcome, self._turn
        self._sending.commit(turn.start.id.connector, turn.offsets_topic, self._offsets)
        outcome.records += self._unsaved
        outcome.bytes += self._bytes
        outcome.topics |= self._topics
        outcome.offsets |= self._offsets
        self._offsets, self._unsaved, self._bytes, self._topics = {}, 0, 0, set()
        task.commit(self._sending.written())


def _polled(task: SourceTask) -> Sequence[SourceRecord] | Columns:
    try:
        return task.poll()
    except Exception as error:
        if is_passing(error):
            raise Interrupted(str(error)) from error
        raise


def _boundary_s(turn: Turn) -> float:
    """Return how long a commit may wait for further records."""
    config = turn.start.connector
    if TRANSACTIONAL_ID not in turn.start.producer:
        return COMMIT_S
    if config.get("transaction.boundary", "poll").strip().lower() != "interval":
        return 0.0
    interval_ms = config.get("transaction.boundary.interval.ms")
    return turn.start.limits.flush_s if interval_ms is None else int(interval_ms) / 1000
