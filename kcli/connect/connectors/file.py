"""FileStreamSource and FileStreamSink: the lines of a file, to a topic and back.

Source: the lines that have an end, which is \\n, \\r\\n or \\r; a \\r at the end of the file waits for what follows.

    record     value: the line without its end, a string; no key; timestamp: now
    partition  {"filename": PATH}
    offset     {"position": N}: the byte behind the line's end. Kafka's own task counts UTF-16 units there, but goes on
               from it as a number of bytes: the same for ASCII, and for other text lines are read twice there, not here
    file       absent: wait for it. Cut to below the position, or another file under its name: wait until it is longer
               than the position, as Kafka's task does from its next start on

Sink: appends Java's text of each value and \\n. A line can be there twice after a failure.

The standard input and output are not offered: tasks are not in the worker's process. Source: FileStreamSourceTask,
FileStreamSinkTask.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc

from kcli.connect.config import validators
from kcli.connect.config.config_def import REQUIRED, ConfigDef, ConfigKey, ConfigValue, Importance, Type
from kcli.connect.connectors.sink import SinkConnector
from kcli.connect.data import schema
from kcli.connect.data.errors import ConnectError
from kcli.connect.data.records import SinkRecord, SourceRecord
from kcli.connect.data.schema import STRING
from kcli.connect.data.texts import java_text
from kcli.connect.engine.tasks import (
    Columns,
    ColumnSinkTask,
    FileMark,
    Rest,
    SinkContext,
    SourceContext,
    SourceTask,
    config_int,
)
from kcli.connect.engine.watching import mark_of
from kcli.connect.plugins import KAFKA_VERSION, Offset, Partition, PluginType
from kcli.java.values import LONG_MAX
from kcli.pipelines.encoding import TIMESTAMP_MS

if TYPE_CHECKING:
    from kcli.protocol.topic_partition import TopicPartition

FILE: Final = "file"
FILENAME, POSITION = "filename", "position"
CHUNK_BYTES: Final = 4 << 20
LINE_MAX: Final = 64 << 20
"""The longest line, in bytes: no topic takes a longer one."""
LINE_END: Final = re.compile(rb"\r\n|\n|\r")
NO_STREAM: Final = "is not configured, and a task on Spark has no standard {} of its own"


class FileStreamSource:
    """The connector that reads a file."""

    CLASS = "org.apache.kafka.connect.file.FileStreamSourceConnector"
    TASK_CLASS = "org.apache.kafka.connect.file.FileStreamSourceTask"
    TYPE = PluginType.SOURCE
    VERSION = KAFKA_VERSION

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties

    @classmethod
    def config(cls) -> ConfigDef:
        """Return the connector's options."""
        return ConfigDef(
            ConfigKey(FILE, Type.STRING, None, Importance.HIGH, "The file to read."),
            ConfigKey("topic", Type.STRING, REQUIRED, Importance.HIGH, "The topic to write.", validators.non_empty),
            ConfigKey("batch.size", Type.INT, 2000, Importance.LOW, "How many lines are read at once."),
        )

    @classmethod
    def check(cls, properties: Mapping[str, str | None], values: Mapping[str, ConfigValue]) -> None:
        """There are no rules for several options."""

    @classmethod
    def exactly_once(cls, properties: Mapping[str, str]) -> bool:
        """Return whether a task with this configuration gives each record exactly once."""
        return bool(properties.get(FILE))

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:  # noqa: ARG002 (a file has one reader)
        """Return the configuration of the one task."""
        return [dict(self._properties)]

    def alter_offsets(self, offsets: Sequence[tuple[Partition, Offset | None]]) -> bool:
        """Check offsets that a user has given. Raises ConnectError for one that no task of this connector has."""
        if not self._properties.get(FILE):
            raise ConnectError(
                "Offsets cannot be modified if the 'file' configuration is unspecified. This is because stdin is used "
                "for input and offsets are not tracked."
            )
        for partition, offset in offsets:
            if offset is None:
                continue
            if POSITION not in offset:
                raise ConnectError("Offset objects should either be null or contain the key 'position'")
            if type(offset[POSITION]) is not int:
                raise ConnectError("The value for the 'position' key in the offset is expected to be a Long value")
            if offset[POSITION] < 0:
                raise ConnectError("The value for the 'position' key in the offset should be a non-negative value")
            if partition is None:
                raise ConnectError("Partition objects cannot be null")
            if FILENAME not in partition:
                raise ConnectError("Partition objects should contain the key 'filename'")
        return True

    class TASK(SourceTask):
        """Reads the file."""

        def start(self, config: Mapping[str, str], context: SourceContext) -> None:
            """Find where to go on. Raises ConnectError."""
            self._path, self._topic = config.get(FILE, ""), config["topic"]
            if not self._path:
                raise ConnectError(f"file {NO_STREAM.format('input')}")
            self._batch_size = config_int(config, "batch.size", 2000)
            self._is_columnar = context.plain is schema.Type.STRING
            offset = context.offset(self._partition)
            position = 0 if offset is None else offset.get(POSITION, 0)
            if type(position) is not int or position > LONG_MAX:
                raise ConnectError("Offset position is the incorrect type")
            self._position = position
            self._mark: FileMark | None = None
            self._has_read = False

        @property
        def _partition(self) -> Partition:
            return {FILENAME: self._path}

        def poll(self) -> Sequence[SourceRecord] | Columns:
            """Return the next lines that have an end. Raises ConnectError for a file that cannot be read."""
            self._mark, self._has_read = mark_of(self._path), False
            if self._mark is None or self._mark.size <= self._position:
                return []
            data = self._read()
            self._has_read = bool(data)
            if not self._is_columnar:
                return self._records(data)
            lines = _columns(data)
            if not len(lines):
                return []
            self._position += len(data)
            table = {"topic": _repeated(self._topic, len(lines)), "value": lines, TIMESTAMP_MS: _now(len(lines))}
            return Columns(pa.table(table), self._partition, {POSITION: self._position})

        def rest(self) -> Rest:
            """Wait until the file looks otherwise than before it was read last; not where it was read, as there may be
            more."""
            return Rest() if self._has_read else Rest(files={self._path: self._mark})

        def _read(self) -> bytes:
            """Return whole lines from the position on; b"" if there is none."""
            size = CHUNK_BYTES
            try:
                with Path(self._path).open("rb") as file:
                    while True:
                        file.seek(self._position)
                        data = file.read(size)
                        end = max(data.rfind(b"\n"), data.rfind(b"\r", 0, -1)) + 1
                        if end or len(data) < size:
                            return data[:end]
                        if size >= LINE_MAX:
                            raise ConnectError(
                                f"{self._path}: the line at byte {self._position} has no end within {LINE_MAX:,} bytes"
                            )
                        size *= 2
            except OSError as error:
                raise ConnectError(f"{self._path}: {error.strerror or error}") from error

        def _records(self, data: bytes) -> list[SourceRecord]:
            found: list[SourceRecord] = []
            start = 0
            now_ms = time.time_ns() // 1_000_000
            for end in LINE_END.finditer(data):
                found.append(
                    SourceRecord(
                        topic=self._topic,
                        value_schema=STRING,
                        value=data[start : end.start()].decode(errors="replace"),
                        timestamp=now_ms,
                        source_partition=self._partition,
                        source_offset={POSITION: self._position + end.end()},
                    )
                )
                start = end.end()
                if len(found) == self._batch_size:
                    break
            self._position += start
            return found


class FileStreamSink(SinkConnector):
    """The connector that writes a file."""

    CLASS = "org.apache.kafka.connect.file.FileStreamSinkConnector"
    TASK_CLASS = "org.apache.kafka.connect.file.FileStreamSinkTask"
    VERSION = KAFKA_VERSION

    @classmethod
    def config(cls) -> ConfigDef:
        """Return the connector's options."""
        return ConfigDef(ConfigKey(FILE, Type.STRING, None, Importance.HIGH, "The file to append to."))

    class TASK(ColumnSinkTask):
        """Appends to the file. Several tasks append whole blocks of lines."""

        PLAIN = schema.Type.STRING

        def start(self, config: Mapping[str, str], context: SinkContext) -> None:  # noqa: ARG002
            """Open the file. Raises ConnectError."""
            self._file: BinaryIO | None = None
            path = config.get(FILE, "")
            if not path:
                raise ConnectError(f"file {NO_STREAM.format('output')}")
            try:
                self._file = Path(path).open("ab", buffering=CHUNK_BYTES)  # noqa: SIM115 (closed by stop)
            except OSError as error:
                raise ConnectError(f"Couldn't find or create file '{path}' for FileStreamSinkTask") from error

        def put(self, records: Sequence[SinkRecord]) -> None:
            """Write a line for each record."""
            self._write("".join(f"{java_text(each.value, each.value_schema)}\n" for each in records).encode())

        def put_columns(self, rows: pa.RecordBatch) -> None:
            """Write a line for each row."""
            values = rows.column("value").fill_null(b"null")
            try:
                values.cast(pa.string())
            except pa.ArrowInvalid:
                values = pa.array([each.decode(errors="replace").encode() for each in values.to_pylist()], pa.binary())
            joined = pc.binary_join(pa.ListArray.from_arrays([0, len(values)], values), b"\n")
            self._write(joined[0].as_py() + b"\n")

        def flush(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
            """Write what is buffered."""
            assert self._file is not None, "start has opened it"
            self._file.flush()
            return offsets

        def stop(self) -> None:
            """Close the file."""
            file: BinaryIO | None = getattr(self, "_file", None)
            if file is not None:
                file.close()

        def _write(self, data: bytes) -> None:
            assert self._file is not None, "start has opened it"
            self._file.write(data)


def _columns(data: bytes) -> pa.Array:
    """Return the lines of a text that ends with an end of a line, as columns. What is not UTF-8 becomes U+FFFD."""
    text = data.decode(errors="replace").encode() if not _is_utf8(data) else data
    if not text:
        return pa.array([], pa.binary())
    lines = text.split(b"\n") if b"\r" not in text else LINE_END.split(text)
    lines.pop()
    return pa.array(lines, pa.binary())


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _repeated(text: str, count: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int8()), [text]).cast(pa.string())


def _now(count: int) -> pa.Array:
    return pa.array([time.time_ns() // 1_000_000] * count, pa.int64())
