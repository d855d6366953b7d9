"""Records of a task, as rows of Kafka: kcli.connect.processing, on batches.

    source  SourceRecord -> transforms, converters -> columns of kcli.pipelines.encoding
    sink    rows of kcli.pipelines.fetching -> converters, transforms -> SinkRecord; and dead letters

Where no converter and no transform changes a value, rows stay columns (Chain.plain), and transforms are applied to
these (kcli.connect.transforms.columns), but where one fails for a record. A record that fails, and is passed over, has
a line in the log if errors.log.enable says so.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from kcli.connect.converters.plain import ByteArrayConverter
from kcli.connect.converters.strings import StringConverter
from kcli.connect.data.records import SinkRecord, SourceRecord
from kcli.connect.data.schema import Type
from kcli.connect.engine.turn import Interrupted
from kcli.connect.plugins import Plugins, TaskId
from kcli.connect.processing.failures import Failure, Message, ToleranceExceeded, Waiting, dead_letter, log_line
from kcli.connect.processing.processor import NO_TIMESTAMP, Processor
from kcli.connect.transforms.columns import NeedsRecords, columnar
from kcli.connect.transforms.headers import InsertHeader
from kcli.export.columns import HEADERS
from kcli.pipelines.encoding import TIMESTAMP_MS

log = logging.getLogger("kcli.connect")
TIMESTAMP_TYPES: Final = {0: "CreateTime", 1: "LogAppendTime"}
ROW_COLUMNS: Final = ("topic", "partition", "offset", "timestampMs", "timestampType", "key", "value", "headers")
WAIT_S: Final = 0.1


class Chain:
    """What happens to each record of a task. may_wait: whether the task may wait for another try.

    plain: the type of all values if records may be columns: STRING if the value's converter takes strings as they are,
    BYTES if all converters take bytes as they are; None otherwise, and if a transform looks into values. dead: the
    messages for the dead letter queue since they were taken last. Raises ConfigError.
    """

    def __init__(
        self, task: TaskId, config: Mapping[str, str], plugins: Plugins, may_wait: Callable[[], bool] = lambda: True
    ) -> None:
        self._task, self._may_wait = task, may_wait
        self._processor = processor = Processor(config, plugins, Waiting(_now_ms, self._wait_ms, random.randrange))
        self.handling = processor.handling
        self.dead: list[Message] = []
        self.plain: Type | None = None
        key, value, header = processor.key, processor.value, processor.header
        self._of_source, self._of_sink = (
            columnar(processor.chain, name, self._header_bytes) for name in (TIMESTAMP_MS, "timestampMs")
        )
        if self._of_source is None:
            return
        if all(isinstance(each, ByteArrayConverter) for each in (key, value, header)):
            self.plain = Type.BYTES
        elif isinstance(value, StringConverter) and isinstance(key, StringConverter | ByteArrayConverter):
            is_utf8 = config.get("value.converter.encoding", "UTF-8").upper() in ("UTF-8", "UTF8")
            self.plain = Type.STRING if is_utf8 else None

    def sent(self, table: pa.Table) -> list[pa.Table]:
        """Return columns of a source as they are sent. Raises ToleranceExceeded, Interrupted."""
        assert self._of_source is not None, "plain"
        try:
            return [self._of_source.apply(table)]
        except NeedsRecords:
            return self.tables([self._processor.as_record(each) for each in _sent_messages(table)])

    def put(self, rows: pa.RecordBatch) -> pa.RecordBatch | None:
        """Return rows as a sink takes them as columns; None if it needs records."""
        assert self._of_sink is not None, "plain"
        try:
            made = self._of_sink.apply(pa.Table.from_batches([rows]))
        except NeedsRecords:
            return None
        return next(iter(made.combine_chunks().to_batches()), rows.slice(0, 0))

    def tables(self, records: Sequence[SourceRecord]) -> list[pa.Table]:
        """Return records of a source as columns of kcli.pipelines.encoding. Raises ToleranceExceeded,
        Interrupted."""
        messages = [each for each in map(self._message, records) if each is not None]
        return [table_of(messages)] if messages else []

    def records(self, rows: pa.RecordBatch) -> list[SinkRecord]:
        """Return the records that a sink is given for rows with ROW_COLUMNS. Raises ToleranceExceeded,
        Interrupted."""
        return [each for each in map(self._record, _messages(rows)) if each is not None]

    def _header_bytes(self, transform: InsertHeader) -> bytes | None:
        key, value, schema = transform.header
        return self._processor.header.from_connect_header("", key, schema, value)

    def _message(self, record: SourceRecord) -> Message | None:
        try:
            made = self._processor.from_source(record)
        except ToleranceExceeded as error:
            self._report(error.failure, record)
            raise
        if isinstance(made, Failure):
            self._report(made, record)
            return None
        return made

    def _record(self, message: Message) -> SinkRecord | None:
        try:
            made = self._processor.to_sink(message)
        except ToleranceExceeded as error:
            self._bury(message, error.failure)
            raise
        if isinstance(made, Failure):
            self._bury(message, made)
            return None
        return made

    def _bury(self, message: Message, failure: Failure) -> None:
        self._report(failure, message)
        if self.handling.dead_letter_topic:
            self.dead.append(dead_letter(self.handling, *self._task, message, failure))

    def _report(self, failure: Failure, record: Message | SourceRecord) -> None:
        if self.handling.logs:
            log.error(log_line(str(self._task), failure, record if self.handling.logs_records else None))

    def _wait_ms(self, delay_ms: int) -> None:
        deadline = time.monotonic() + delay_ms / 1000
        while self._may_wait() and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, WAIT_S))
        if not self._may_wait():
            raise Interrupted


def table_of(messages: Sequence[Message]) -> pa.Table:
    """Return messages as columns of kcli.pipelines.encoding. One without a timestamp gets the present time."""
    now_ms = _now_ms()
    times = (now_ms if each.timestamp is None else each.timestamp for each in messages)
    columns: dict[str, Any] = {
        "topic": pa.array((each.topic for each in messages), pa.string()),
        "partition": pa.array((each.partition for each in messages), pa.int32()),
        TIMESTAMP_MS: pa.array(times, pa.int64()),
        "key": pa.array((each.key for each in messages), pa.binary()),
        "value": pa.array((each.value for each in messages), pa.binary()),
    }
    if any(each.headers for each in messages):
        columns["headers"] = pa.array(map(_shown, messages), HEADERS)
    return pa.table(columns)


def _messages(rows: pa.RecordBatch) -> Iterator[Message]:
    columns = (rows.column(name).to_pylist() for name in ROW_COLUMNS)
    for topic, partition, offset, timestamp, kind, key, value, headers in zip(*columns, strict=True):
        yield Message(
            topic,
            key,
            value,
            partition,
            None if timestamp == NO_TIMESTAMP else timestamp,
            _headers(headers or ()),
            offset,
            TIMESTAMP_TYPES.get(kind, "NoTimestampType"),
        )


def _sent_messages(table: pa.Table) -> Iterator[Message]:
    """Yield the messages of columns of kcli.pipelines.encoding, which need not have all of them."""
    names = ("topic", "partition", TIMESTAMP_MS, "key", "value", "headers")
    none = [None] * table.num_rows
    columns = (table.column(name).to_pylist() if name in table.column_names else none for name in names)
    for topic, partition, timestamp, key, value, headers in zip(*columns, strict=True):
        yield Message(topic, key, value, partition, timestamp, _headers(headers or ()))


def _headers(shown: Iterable[Mapping[str, Any]]) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((each["key"], each["value"]) for each in shown)


def _shown(message: Message) -> list[dict[str, object]] | None:
    return [{"key": name, "value": value} for name, value in message.headers] or None


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
