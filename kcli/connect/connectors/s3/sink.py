"""S3SinkConnector: records to objects of a bucket.

    key      topics.dir/TOPIC/DIRECTORY/TOPIC+PARTITION+OFFSET.json: the offset of the file's first record
    closed   all files of a partition together: when flush.size records are in them; when a record's time is
             rotate.interval.ms behind that of the first, or its directory is another (with rotate.interval.ms only); at
             the multiples of rotate.schedule.interval.ms; before a record with another schema than its file
    commit   once its files are in the bucket: the offset behind their last record. What is open is read again

Where the records and their times decide, the same offsets become the same objects, written over after a failure: each
record is in the bucket once. With rotate.schedule.interval.ms, or the time of the clock in directories, a file may come
again under another name: at least once. Such a file's time is kept from turn to turn, and with it up to where it was
read, so that it has all of these records. Source: Confluent's S3SinkTask, TopicPartitionWriter.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from kcli.connect.config.config_def import ConfigDef, ConfigValue
from kcli.connect.connectors.s3 import options
from kcli.connect.connectors.s3.formats import FILES, File
from kcli.connect.connectors.s3.partitioning import encoder, extractor
from kcli.connect.connectors.sink import SinkConnector, place_of
from kcli.connect.data.errors import ConnectError, DataError, RetriableError
from kcli.connect.data.records import SinkRecord
from kcli.connect.data.schema import Schema
from kcli.connect.engine.tasks import RETRY_S, Rest, SinkContext, SinkTask, config_int
from kcli.errors import KcliError
from kcli.protocol.topic_partition import TopicPartition
from kcli.tier.address import Bucket
from kcli.tier.bucket import PART_BYTES, Access, BucketStore, Limits
from kcli.tier.store import FilePart, StoreAway

VERSION: Final = "10.6.0"
HELD: Final = "held"
MIDWAY: Final = 100_000
"""How many records of an open file are too many to be read again."""


class S3Sink(SinkConnector):
    """The connector, under Confluent's class name."""

    CLASS = "io.confluent.connect.s3.S3SinkConnector"
    TASK_CLASS = "io.confluent.connect.s3.S3SinkTask"
    VERSION = VERSION
    CLASSES = options.CLASSES

    @classmethod
    def config(cls) -> ConfigDef:
        """Return the connector's options."""
        return options.OPTIONS

    @classmethod
    def check(cls, properties: Mapping[str, str | None], values: Mapping[str, ConfigValue]) -> None:
        """Refuse a partitioner without its options, and what is for another partitioner or format."""

        def refuse(name: str, reason: str) -> None:
            values[name].errors.append(reason)

        kind = options.PARTITIONERS.get(str(values["partitioner.class"].value), "Default")
        if kind == "Field" and not values["partition.field.name"].value:
            refuse("partition.field.name", "FieldPartitioner needs the fields' names")
        if kind in options.TIMED and not values["timezone"].value:
            refuse("timezone", f"{kind}Partitioner needs a time zone")
        if kind == "TimeBased":
            if not values["path.format"].value:
                refuse("path.format", "TimeBasedPartitioner needs a format")
            if int(str(values["partition.duration.ms"].value or 0)) <= 0:
                refuse("partition.duration.ms", "TimeBasedPartitioner needs a duration above 0")
        if kind not in options.TIMED and int(str(values["rotate.interval.ms"].value or 0)) > 0:
            refuse("rotate.interval.ms", f"needs a partitioner by time: {kind}Partitioner does not look at it")
        is_framed = options.FORMATS.get(str(values["format.class"].value)) in ("AvroFormat", "ParquetFormat")
        if is_framed and values["s3.compression.type"].value == "gzip":
            refuse("s3.compression.type", "gzip is for JSON and bytes: Avro has avro.codec, Parquet parquet.codec")
        if bool(properties.get("aws.access.key.id")) != bool(properties.get("aws.secret.access.key")):
            refuse("aws.secret.access.key", "aws.access.key.id and aws.secret.access.key go together")

    class TASK(SinkTask):
        """Writes objects."""

        def start(self, config: Mapping[str, str], context: SinkContext) -> None:
            """Make the bucket's client, which makes no request yet. Raises ConnectError."""
            self._scratch = TemporaryDirectory(prefix="kcli-s3-")
            self._context = context
            context.retry_s = config_int(config, "s3.retry.backoff.ms", 200) / 1000
            self._settings = _Settings(config, Path(self._scratch.name))
            self._writers: dict[TopicPartition, _Writer] = {}
            self._held: Mapping[TopicPartition, _Held] = context.state.get(HELD, {})
            access = Access(
                config.get("s3.region", "us-west-2"),
                config.get("store.url") or None,
                config.get("aws.access.key.id") or None,
                config.get("aws.secret.access.key") or None,
            )
            limits = Limits(attempts=config_int(config, "s3.part.retries", 3))
            bucket = Bucket("s3", config["s3.bucket.name"], "")
            try:
                self._store = BucketStore(bucket, limits, look_inside=False, may_be_away=True, access=access)
            except KcliError as error:
                raise ConnectError(str(error)) from error

        def put(self, records: Sequence[SinkRecord]) -> None:
            """Write records to files; upload those that are closed. Raises RetriableError, ConnectError."""
            self._upload()
            for record in records:
                place = place_of(record)
                writer = self._writers.get(place)
                if writer is None:
                    writer = self._writers[place] = _Writer(self._settings, self._held.get(place))
                writer.take(record)
                if writer.closed:
                    self._upload()

        def flush(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
            """Close files whose time has come. Return the offsets up to which all is in the bucket."""
            for writer in self._writers.values():
                writer.close_due(_now_ms(), is_last=self._context.is_ending)
            with suppress(RetriableError):  # the group commits what is in the bucket
                self._upload()
            positions = {place: writer.position for place, writer in self._writers.items()}
            return {**offsets, **{place: at for place, at in positions.items() if at is not None}}

        def is_midway(self) -> bool:
            """Whether a file is open with more than is easily read again."""
            return any(each.count >= MIDWAY and not each.has_uploaded for each in self._writers.values())

        def rest(self, ends: Mapping[TopicPartition, int]) -> Rest:
            """Wait for as many records as close a file, or for its time."""
            ends, times = dict(ends), []
            held: dict[TopicPartition, _Held] = {}
            for place, writer in self._writers.items():
                if writer.closed:
                    times.append(time.time() + RETRY_S)
                if not writer.count:
                    continue
                held[place] = writer.held
                until_ms = writer.until_ms
                if until_ms is not None and until_ms > _now_ms():
                    times.append(until_ms / 1000)
                if until_ms is None or until_ms > _now_ms():
                    ends[place] += self._settings.flush_size - writer.count - 1
            self._context.state = {HELD: held}
            return Rest(until_s=min(times, default=None), ends=ends)

        def stop(self) -> None:
            """Drop what is open."""
            for writer in getattr(self, "_writers", {}).values():
                writer.drop()
            scratch: TemporaryDirectory[str] | None = getattr(self, "_scratch", None)
            if scratch is not None:
                scratch.cleanup()

        def _upload(self) -> None:
            for writer in self._writers.values():
                while writer.closed:
                    key, path = writer.closed[0]
                    self._write(key, path)
                    path.unlink()
                    writer.uploaded()

        def _write(self, key: str, path: Path) -> None:
            size = path.stat().st_size
            with path.open("rb") as file:
                parts = (
                    FilePart(file.fileno(), start, min(PART_BYTES, size - start))
                    for start in range(0, size, PART_BYTES)
                )
                try:
                    self._store.write_key(key, parts)
                except StoreAway as error:
                    raise RetriableError(str(error)) from error
                except KcliError as error:
                    raise ConnectError(str(error)) from error


class _Held(NamedTuple):
    """A file that was open at the end of a turn. start: its first offset. end: up to where it was read. due_ms: when it
    is closed by the clock."""

    start: int
    end: int
    due_ms: int | None


class _Open(NamedTuple):
    """A file that is open. key: of its object. path: where it is on this machine."""

    key: str
    path: Path
    file: File
    schema: Schema | None


class _Settings:
    """A configuration as writers need it, and the directory of their files.

    interval_ms, clock_ms, schedule_ms: how long a file is open, by the times of its records, by the clock, and up to
    the next multiple of a time; 0 without it.
    """

    def __init__(self, config: Mapping[str, str], scratch: Path) -> None:
        self.config, self.scratch = config, scratch
        self.file = FILES[options.FORMATS[config["format.class"]]]
        self.flush_size = int(config["flush.size"])
        self.ignores_null = config.get("behavior.on.null.values", "fail").lower() == "ignore"
        kind = options.PARTITIONERS.get(config.get("partitioner.class", ""), "Default")
        self.encode = encoder(kind, config)
        is_timed = kind in options.TIMED
        field = config.get("timestamp.field", "timestamp")
        self.extract = extractor(config.get("timestamp.extractor", "Wallclock"), field) if is_timed else None
        interval_ms = max(config_int(config, "rotate.interval.ms", -1), 0) if is_timed else 0
        self.interval_ms, self.clock_ms = (0, interval_ms) if self.extract is None else (interval_ms, 0)
        self.schedule_ms = max(config_int(config, "rotate.schedule.interval.ms", -1), 0)
        self.zone = ZoneInfo(config.get("timezone") or "UTC")

    def key(self, record: SinkRecord, directory: str) -> str:
        """Return the key of an object that begins with a record."""
        config, delim = self.config, self.config.get("file.delim", "+")
        width = config_int(config, "filename.offset.zero.pad.width", 10)
        name = delim.join((record.topic or "", str(record.partition), str(record.offset).zfill(width)))
        parts = (config.get("topics.dir", "topics"), record.topic, directory, name + self.file.ending(config))
        return "/".join(each for each in parts if each)

    def due_ms(self, now_ms: int) -> int | None:
        """Return when a file that is opened now is closed by the clock; None for never."""
        found = []
        if self.clock_ms:
            found.append(now_ms + self.clock_ms)
        if self.schedule_ms:
            now = datetime.fromtimestamp(now_ms / 1000, self.zone)
            midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
            passed_ms = (now - midnight) // timedelta(milliseconds=1)
            found.append(now_ms - passed_ms % self.schedule_ms + self.schedule_ms)
        return min(found, default=None)


class _Writer:
    """The files of a partition. held: what was open when the last turn ended.

    count: how many records are in open files. closed: keys and paths of files that are not in the bucket yet.
    has_uploaded: whether files have come into the bucket in this turn.
    """

    def __init__(self, settings: _Settings, held: _Held | None) -> None:
        self._settings, self._last = settings, held
        self._files: dict[tuple[str | None, str], _Open] = {}
        self._next = -1
        self._start: int | None = None
        self._closed_start: int | None = None
        self._base_ms = 0
        self._due_ms: int | None = None
        self._reread_end = -1
        self._directory = ""
        self._number = 0
        self.count = 0
        self.closed: list[tuple[str, Path]] = []
        self.has_uploaded = False

    @property
    def position(self) -> int | None:
        """The first offset that is not in the bucket; None if no record is left."""
        return self._start if self._closed_start is None else self._closed_start

    @property
    def held(self) -> _Held:
        """What the next turn is to know of the open files."""
        assert self._start is not None, "a file is open"
        return _Held(self._start, self._next, self._due_ms)

    @property
    def until_ms(self) -> int | None:
        """When the clock, or the time of a record that comes now, closes the open files; None for never."""
        by_record = self._base_ms + self._settings.interval_ms if self._settings.interval_ms else None
        return min((each for each in (self._due_ms, by_record) if each is not None), default=None)

    def take(self, record: SinkRecord) -> None:
        """Write a record. One that was taken before is passed over: a batch comes again after a RetriableError."""
        settings = self._settings
        if record.offset < self._next:
            return
        if record.value is None:
            if not settings.ignores_null:
                raise ConnectError(
                    f"{_place(record)}: Null valued records are not writeable with current behavior.on.null.values "
                    "'fail'."
                )
            return
        now_ms = _now_ms()
        try:
            time_ms = now_ms if settings.extract is None else settings.extract(record)
            directory = settings.encode(record, time_ms)
            if self.count and self._is_over(record, directory, time_ms, now_ms):
                self._close()
            self._append(record, directory, time_ms, now_ms)
        except DataError as error:
            raise DataError(f"{_place(record)}: {error}") from error
        self._next = record.offset + 1
        if self.count >= settings.flush_size:
            self._close()

    def close_due(self, now_ms: int, *, is_last: bool) -> None:
        """Close the open files if the clock says so, and all is read again that was in them; is_last: in any case."""
        is_due = self._due_ms is not None and now_ms >= self._due_ms
        if self.count and is_due and (is_last or self._next >= self._reread_end):
            self._close()

    def uploaded(self) -> None:
        """The first closed file is in the bucket."""
        del self.closed[0]
        if not self.closed:
            self._closed_start, self.has_uploaded = None, True

    def drop(self) -> None:
        """Close the open files without an upload."""
        for each in self._files.values():
            with suppress(Exception):  # the file is of no use any more
                each.file.close()
        self._files = {}

    def _is_over(self, record: SinkRecord, directory: str, time_ms: int, now_ms: int) -> bool:
        known = self._files.get((record.topic, directory))
        if known is not None and record.value_schema is not known.schema and record.value_schema != known.schema:
            return True
        settings = self._settings
        if settings.interval_ms:
            if time_ms - self._base_ms >= settings.interval_ms or directory != self._directory:
                return True
        elif record.offset < self._reread_end:
            return False
        elif settings.clock_ms and directory != self._directory:
            return True
        return self._due_ms is not None and now_ms >= self._due_ms and record.offset >= self._reread_end

    def _append(self, record: SinkRecord, directory: str, time_ms: int, now_ms: int) -> None:
        settings = self._settings
        if not self.count:
            self._start, self._base_ms = record.offset, time_ms
            last, self._last = self._last, None
            if last is not None and last.start == record.offset:
                self._due_ms, self._reread_end = last.due_ms, last.end
            else:
                self._due_ms = settings.due_ms(now_ms)
        self._directory = directory
        where = record.topic, directory
        if where not in self._files:
            self._number += 1
            path = settings.scratch / f"{record.original_topic}-{record.original_partition}-{self._number}"
            file = settings.file(path, record, settings.config)
            self._files[where] = _Open(settings.key(record, directory), path, file, record.value_schema)
        self._files[where].file.write(record)
        self.count += 1

    def _close(self) -> None:
        files, self._files = self._files, {}
        for each in files.values():
            try:
                each.file.close()
            except DataError as error:
                raise DataError(f"{each.key}: {error}") from error
            self.closed.append((each.key, each.path))
        if self._closed_start is None:
            self._closed_start = self._start
        self._start, self.count = None, 0


def _place(record: SinkRecord) -> str:
    return f"{record.original_topic}-{record.original_partition}, offset {record.offset}"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
