"""Compaction of a log directory, or of one partition in it. The cleaned segments are written

    nowhere              the records that would stay and those that would be removed are only counted
    in place             .lock is held; a partition's entry in cleaner-offset-checkpoint is written when it is cleaned
    to a new directory   all other files are copied, too; the directory gets its name when it is complete

As in Kafka, a partition that cannot be cleaned does not keep other partitions from being cleaned. The metadata log is
never cleaned: controllers replace its records by snapshots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from formats.file_name import METADATA_TOPIC, FileKind, parse, parse_directory
from kcli.errors import KcliError, StartRefused
from kcli.log.cleaner.cleaner import Cleaning, PartitionCleaner
from kcli.log.cleaner.partition import SEGMENT_FILES, CleanerLog, read_log
from kcli.log.cleaner.progress import Progress, silent
from kcli.log.config import CleanerConfig, LogConfig
from kcli.log.disk import Disk
from kcli.log.log_directory import DirectoryLock, LogDirectory, holds_segments, is_log_directory
from kcli.log.new_directory import new_directory
from kcli.protocol.topic_partition import TopicPartition

ConfigOf = Callable[[str], LogConfig]


@dataclass(frozen=True, slots=True)
class PartitionOutcome:
    """The outcome for one partition: `cleaning`, or the error by which it failed; both None if cleanup.policy does
    not compact the topic."""

    directory: Path
    topic: str
    partition: int
    cleaning: Cleaning | None = None
    error: KcliError | None = None


class LogCleaner:
    """Cleans the partitions in `directory`, or the one partition whose directory it is.

    config_of: the configuration of a topic's log, by the topic's name. now_ms: the time. Raises StartRefused if a
    checkpoint cannot be read, UnreadableInput.
    """

    def __init__(
        self,
        directory: Path,
        config_of: ConfigOf,
        broker: CleanerConfig,
        *,
        now_ms: int,
        disk: Disk,
        progress: Progress = silent,
    ) -> None:
        self.directory = directory
        self.single = holds_segments(directory)
        self.log_directory = LogDirectory(directory.absolute().parent if self.single else directory)
        self._config_of = config_of
        self._broker = broker
        self._now_ms = now_ms
        self._disk = disk
        self._progress = progress
        self._cleaned = self.log_directory.offsets(FileKind.CLEANER_OFFSETS)
        self._log_starts = self.log_directory.offsets(FileKind.LOG_START_OFFSETS)
        try:
            self._high_watermarks = self.log_directory.offsets(FileKind.REPLICATION_OFFSETS)
        except StartRefused:
            self._high_watermarks = {}  # Kafka, too, starts with a damaged replication-offset-checkpoint

    def partitions(self) -> list[tuple[Path, str, int]]:
        """Return directory, topic and number of every partition in `directory`. If `directory` is itself the directory
        of one partition, return that one; its topic is the directory's name, and its number 0, if the name is not that
        of a partition. Raises UnreadableInput."""
        if not self.single:
            found = self.log_directory.expected_partitions()
            return [(each.path, *each.partition) for each in found if not each.name.state]
        name = parse_directory(self.directory.absolute().name)
        if name is None or name.state:
            return [(self.directory, self.directory.absolute().name, 0)]
        return [(self.directory, name.topic, name.partition)]

    def open(self, path: Path, topic: str, partition: int) -> tuple[CleanerLog, int | None]:
        """Return a partition's log as it is on disk, and its entry in cleaner-offset-checkpoint (None: it has none).
        Raises UnreadableInput, Uncleanable."""
        key = TopicPartition(topic, partition)
        log = read_log(
            path,
            now_ms=self._now_ms,
            producer_expiration_ms=self._broker.producer_expiration_ms,
            log_start_offset=self._log_starts.get(key, 0),
            high_watermark=self._high_watermarks.get(key),
        )
        return log, self._cleaned.get(key)

    def dry_run(self) -> Iterator[PartitionOutcome]:
        """Yield the outcome that a cleaning would have for each partition; nothing is written. Raises
        UnreadableInput."""
        for path, topic, partition in self.partitions():
            yield self._clean(path, topic, partition, None)

    def in_place(self) -> Iterator[PartitionOutcome]:
        """Clean the logs in their own directories, and yield the outcome of each. Raises DirectoryLocked,
        UnreadableInput, OSError."""
        with self._locked():
            for path, topic, partition in self.partitions():
                outcome = self._clean(path, topic, partition, path)
                if outcome.cleaning is not None and outcome.cleaning.checkpoint is not None:
                    self._write_checkpoint(
                        self.log_directory, TopicPartition(topic, partition), outcome.cleaning.checkpoint
                    )
                yield outcome

    def into(self, target: Path) -> Iterator[PartitionOutcome]:
        """Clean the logs that need it into a new directory, and copy all other logs to it. Yield the outcome of each
        partition. Raises TargetExists, UnreadableInput, OSError."""
        with new_directory(self._disk, target) as partial:
            yield from self._into(partial)

    def _into(self, target: Path) -> Iterator[PartitionOutcome]:
        places = {path: (topic, number) for path, topic, number in self.partitions()}
        offsets: dict[TopicPartition, int] = {}
        for path, (topic, partition) in places.items():
            place = target if self.single else target / path.name
            self._disk.make_directory(place)
            outcome = self._clean(path, topic, partition, place)
            if outcome.cleaning is not None and outcome.cleaning.checkpoint is not None:
                offsets[TopicPartition(topic, partition)] = outcome.cleaning.checkpoint
            yield outcome
        if not self.single:
            copy_rest(self._disk, self.directory, target, skip={path.name for path in places} | {FileKind.LOCK})
            for key, offset in offsets.items():
                self._write_checkpoint(LogDirectory(target), key, offset)
        sync_tree(self._disk, target)

    def _clean(self, path: Path, topic: str, partition: int, target: Path | None) -> PartitionOutcome:
        log: CleanerLog | None = None
        cleaning: Cleaning | None = None
        error: KcliError | None = None
        try:
            config = self._config_of(topic)
            if config.compact and topic != METADATA_TOPIC:
                log, checkpoint = self.open(path, topic, partition)
                cleaner = PartitionCleaner(
                    log,
                    config,
                    self._broker,
                    now_ms=self._now_ms,
                    disk=self._disk,
                    target=target,
                    progress=self._progress,
                )
                cleaning = cleaner.clean(checkpoint)
        except KcliError as refused:
            error = refused
        if target not in (None, path):
            copy_partition(self._disk, path, target, log)
        return PartitionOutcome(path, topic, partition, cleaning, error)

    def _locked(self) -> AbstractContextManager[object]:
        if not is_log_directory(self.log_directory.path):
            return nullcontext()  # not a log directory: no broker can use its partitions, so there is nothing to lock
        return DirectoryLock(self._disk, self.log_directory.path)

    def _write_checkpoint(self, directory: LogDirectory, partition: TopicPartition, offset: int) -> None:
        """Set the entry of one partition in cleaner-offset-checkpoint. As in Kafka, entries of partitions that are not
        in the directory are dropped."""
        if not is_log_directory(directory.path):
            return
        partitions = {each.partition for each in directory.partitions() if not each.name.state}
        offsets = directory.offsets(FileKind.CLEANER_OFFSETS)
        offsets = {key: value for key, value in offsets.items() if key in partitions} | {partition: offset}
        directory.write_offsets(self._disk, FileKind.CLEANER_OFFSETS, offsets)


def copy_partition(disk: Disk, source: Path, target: Path, log: CleanerLog | None) -> None:
    """Copy to `target` the files of a partition that the cleaning has not written there, except those that Kafka would
    delete after the cleaning. log: the cleaned log, None if the partition was not cleaned. Raises OSError."""
    for path in sorted(source.iterdir()):
        name = parse(path.name)
        if not path.is_file() or (name is not None and name.state) or (target / path.name).exists():
            continue
        if log is not None and name is not None and name.base_offset is not None:
            kept = {segment.base_offset for segment in log.segments if segment.directory == source}
            if name.kind in SEGMENT_FILES and name.base_offset not in kept:
                continue
            if name.kind is FileKind.PRODUCER_SNAPSHOT and name.base_offset in log.merged:
                continue
        copy_file(disk, path, target / path.name)


def copy_rest(disk: Disk, source: Path, target: Path, *, skip: set[str]) -> None:
    """Copy a directory with its subdirectories, but not its entries whose names are in `skip`. Raises OSError."""
    for path in sorted(source.iterdir()):
        if path.name in skip:
            continue
        if path.is_dir():
            disk.make_directory(target / path.name)
            copy_rest(disk, path, target / path.name, skip=set())
        elif path.is_file():
            copy_file(disk, path, target / path.name)


def copy_file(disk: Disk, source: Path, target: Path) -> None:
    """Copy a file, and give the copy the modification time of `source`."""
    disk.copy(source, target)
    disk.set_modified(target, source.stat().st_mtime_ns // 1_000_000)


def sync_tree(disk: Disk, directory: Path) -> None:
    """Make the files under a directory, and their names, durable. Raises OSError."""
    for path in directory.iterdir():
        if path.is_dir():
            sync_tree(disk, path)
        else:
            with disk.open(path, read_only=True) as file:
                file.sync()
    disk.sync_directory(directory)
