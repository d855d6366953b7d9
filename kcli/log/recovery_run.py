"""Recovery of all that a directory holds: one partition's directory, or a broker's log directory with its checkpoints.

    recovery = Recovery(directory, now_ms=...)
    recovery.plans()              what a start would do; writes nothing
    recovery.write_to(target)     the same in a copy, which must not be there yet
    recovery.in_place(name)       the same in place: under Kafka's lock, with a backup of what goes

Partitions are read by several threads, as Kafka's recovery threads do. Afterwards the recovery points are where the
logs end, for all is on disk. The clean-shutdown marker is not set: the controller must hear that records may be gone
(KIP-966). High watermarks are left alone, but for those beyond the end of a log.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from formats.file_name import INTERNAL_TOPICS, METADATA_TOPIC, DirectoryName, FileKind, parse_directory
from kcli.errors import UnreadableInput
from kcli.log.config import LogConfig
from kcli.log.disk import Disk
from kcli.log.loader import LoadOptions
from kcli.log.log_directory import (
    DirectoryLock,
    LogDirectory,
    Partition,
    PartitionDirectory,
    holds_segments,
    is_log_directory,
)
from kcli.log.new_directory import TargetExists, new_directory
from kcli.log.partition_directory import name_for_end, rename_for_end
from kcli.log.producer_state import DEFAULT_EXPIRATION_MS
from kcli.log.recovery import PartitionPlan, apply_in_place, back_up, plan, write_copy
from kcli.log.recovery_backup import Backup
from kcli.log.recovery_view import FileRange, StartRefused

MAX_THREADS = 8
FOREVER_MS = 2**31 - 1
KEPT_BY_THE_NEXT_START = (FileKind.LOCK, FileKind.CLEAN_SHUTDOWN)
NEVER_TIERED = (METADATA_TOPIC, "__remote_log_metadata", *INTERNAL_TOPICS)
CHECKPOINTS = (FileKind.RECOVERY_POINTS, FileKind.LOG_START_OFFSETS, FileKind.REPLICATION_OFFSETS)
MENDED = (*CHECKPOINTS, FileKind.CLEANER_OFFSETS)


def no_configs(_: str) -> LogConfig:
    """Kafka's defaults for every topic."""
    return LogConfig()


@dataclass
class Recovery:
    """One run. `clean` None: as the clean-shutdown marker tells. config: a topic's configuration by its name.

    advance(size) hears of so many more bytes that were checked, from any thread. metadata(plan) takes the plan of the
    metadata log's start, before anything is changed, and returns the one to carry out, salvaged where that is asked
    for. passed_over: checkpoints that a start takes, but not as it should. `unreadable` is complete when the plans have
    been taken: the rest is not held up. Raises UnreadableInput where the directory is neither a partition's nor a
    broker's.
    """

    directory: Path
    now_ms: int
    clean: bool | None = None
    salvage: bool = False
    producer_expiration_ms: int = DEFAULT_EXPIRATION_MS
    config: Callable[[str], LogConfig] = no_configs
    advance: Callable[[int], None] = lambda _: None
    disk: Disk = field(default_factory=Disk)
    threads: int | None = None
    metadata: Callable[[PartitionPlan], PartitionPlan] = lambda planned: planned
    refusals: list[StartRefused] = field(default_factory=list)
    passed_over: list[StartRefused] = field(default_factory=list)
    unreadable: list[UnreadableInput] = field(default_factory=list)
    backup: Path | None = None

    def __post_init__(self) -> None:
        if not self.directory.is_dir():
            raise UnreadableInput(str(self.directory), "no such directory")
        self.is_partition = holds_segments(self.directory)
        holder = self.directory.absolute().parent if self.is_partition else self.directory
        self._has_holder = is_log_directory(holder)
        self._holder = LogDirectory(holder)
        if self.is_partition:
            name = parse_directory(self.directory.absolute().name) or DirectoryName(self.directory.absolute().name, -1)
            self.partitions = [PartitionDirectory(self.directory, name)]
        else:
            self.partitions = self._holder.expected_partitions()
            self.unreadable = self._holder.unreadable()
        if self._has_holder or not self.is_partition:
            self.refusals = self._holder.refusals()
        if self._has_holder and any(each.name.topic != METADATA_TOPIC for each in self.partitions):
            self.passed_over = self._holder.passed_over()
            try:
                self._holder.offsets(FileKind.REPLICATION_OFFSETS)
            except StartRefused as refused:  # a start without a log does not read it
                if refused.file not in {each.file for each in self.passed_over}:
                    self.refusals.append(refused)
        if self._has_holder and not (holder / FileKind.META_PROPERTIES).exists():
            reason = "is missing: nothing says whose log directory this is"
            self.refusals.insert(0, StartRefused(FileKind.META_PROPERTIES, reason))
        is_clean = self._has_holder and self._holder.was_shut_down_cleanly
        is_broker = any(each.name.topic != METADATA_TOPIC for each in self.partitions)  # controllers leave no marker
        self.lacks_marker = self.clean is None and self._has_holder and is_broker and not is_clean
        """Was the broker not shut down in order?"""
        if self.clean is None:
            self.clean = is_clean
        second = [] if self.is_partition else [each.path for each, _ in self._holder.duplicates()]
        self._set_aside = {path for path in second if self.salvage}
        """Directories of partitions that have another one: Kafka does not start with them, but as strays it does."""
        self._recovery_points = self._offsets(FileKind.RECOVERY_POINTS)
        self._log_starts = self._offsets(FileKind.LOG_START_OFFSETS)

    def _offsets(self, kind: FileKind) -> dict[Partition, int]:
        try:
            return self._holder.offsets(kind) if self._has_holder else {}
        except StartRefused:  # among the refusals; Kafka goes on without it until its directory is offline
            return {}

    def plans(self) -> Iterator[PartitionPlan]:
        """What a start does to each partition that can be read, by topic and number."""
        return (planned for _, planned in self._plans())

    def _plans(self) -> Iterator[tuple[PartitionDirectory, PartitionPlan]]:
        threads = min(MAX_THREADS, os.cpu_count() or 1) if self.threads is None else self.threads
        pending: deque[tuple[PartitionDirectory, Future[PartitionPlan]]] = deque()
        with ThreadPoolExecutor(threads) as pool:
            try:
                for each in self.partitions:
                    pending.append((each, pool.submit(self._plan, each)))
                    if len(pending) > 2 * threads:
                        yield from self._readable(*pending.popleft())
                while pending:
                    yield from self._readable(*pending.popleft())
            finally:
                for _, future in pending:
                    future.cancel()

    def _readable(
        self, directory: PartitionDirectory, planned: Future[PartitionPlan]
    ) -> Iterator[tuple[PartitionDirectory, PartitionPlan]]:
        try:
            yield directory, planned.result()
        except UnreadableInput as error:
            self.unreadable.append(error)

    def _plan(self, directory: PartitionDirectory) -> PartitionPlan:
        is_metadata = directory.name.topic == METADATA_TOPIC
        config = self.config(directory.name.topic)
        options = LoadOptions(
            now_ms=self.now_ms,
            clean=bool(self.clean) and not is_metadata,
            recovery_point=0 if is_metadata else self._recovery_points.get(directory.partition, 0),
            log_start_offset=0 if is_metadata else self._log_starts.get(directory.partition, 0),
            index_interval_bytes=config.index_interval_bytes,
            max_index_bytes=config.max_index_bytes,
            producer_expiration_ms=FOREVER_MS if is_metadata else self.producer_expiration_ms,
            is_metadata=is_metadata,
            is_tiered=config.remote_storage and not config.compact and directory.name.topic not in NEVER_TIERED,
        )
        if is_metadata:
            return self.metadata(plan(directory.path, options, advance=self.advance))
        return plan(directory.path, options, with_salvage=self.salvage, advance=self.advance)

    def write_to(self, target: Path) -> Iterator[PartitionPlan]:
        """Write a recovered copy to `target`; nothing of it stays where that fails.

        Raises TargetExists, UnreadableInput, OSError.
        """
        home = self._holder.path.absolute() if self._has_holder else self.directory
        if not target.exists() and target.absolute().is_relative_to(home):
            raise TargetExists(f"{target}: a directory in there would keep Kafka from starting")
        with new_directory(self.disk, target) as partial:
            yield from self._write_to(partial)

    def _write_to(self, target: Path) -> Iterator[PartitionPlan]:
        ends = _Ends()
        for each, done in self._plans():
            write_copy(done, self.disk, target if self.is_partition else target / self._name_of(each))
            if each.path not in self._set_aside:
                ends.add(each, done)
            yield done
        if not self.is_partition:
            self._copy_files(target)
            self._write_checkpoints(LogDirectory(target), ends)
            self.disk.sync_directory(target)

    def _name_of(self, directory: PartitionDirectory) -> str:
        return name_for_end(*directory.partition, "stray") if directory.path in self._set_aside else directory.path.name

    def mends(self, refused: StartRefused) -> bool:
        """Is what keeps Kafka from starting no longer there once the recovery is written?"""
        return refused.file in MENDED or self._holder.path / refused.file in self._set_aside

    def _copy_files(self, target: Path) -> None:
        refused = {each.file for each in (*self.refusals, *self.passed_over)}
        for path in sorted(self.directory.iterdir()):
            known = path.name in KEPT_BY_THE_NEXT_START or (path.name in CHECKPOINTS and path.name in refused)
            if path.is_file() and not known and not (path.name == FileKind.CLEANER_OFFSETS and path.name in refused):
                self.disk.copy(path, target / path.name)

    def in_place(self, backup_name: str) -> Iterator[PartitionPlan]:
        """Recover in place; what goes is kept in `<backup_name>.tar`. Raises DirectoryLocked, UnreadableInput, OSError.

        Nothing is changed before every partition is looked at and the backup is on disk.
        """
        if self._has_holder:
            with DirectoryLock(self.disk, self._holder.path):
                yield from self._in_place(backup_name)
        else:
            yield from self._in_place(backup_name)

    def _in_place(self, backup_name: str) -> Iterator[PartitionPlan]:
        backup = Backup(self.disk, self._holder.path, backup_name)
        ends = _Ends()
        unchanged, changed = [], []
        for each, done in self._plans():
            if each.path not in self._set_aside:
                ends.add(each, done)
            if done.refused is None and (done.is_changed() or not self.clean):
                back_up(done, backup)
                changed.append(done)
            else:
                unchanged.append(done)
        bad = [each.file for each in (*self.refusals, *self.passed_over) if each.file in MENDED]
        for name in bad:
            path = self._holder.path / name
            backup.add(name, FileRange(path, 0, path.stat().st_size))
        backup.close()
        self.backup = backup.path
        if changed and self._has_holder and self._holder.was_shut_down_cleanly:
            self.disk.remove(self._holder.path / FileKind.CLEAN_SHUTDOWN)
            self.disk.sync_directory(self._holder.path)
        for done in changed:
            apply_in_place(done, self.disk)
        for each in self.partitions:
            if each.path in self._set_aside:
                rename_for_end(self.disk, each.path, *each.partition, "stray")
        if self._has_holder and (changed or bad):
            if FileKind.CLEANER_OFFSETS in bad:
                self.disk.remove(self._holder.path / FileKind.CLEANER_OFFSETS)
            self._write_checkpoints(self._holder, ends)
        yield from sorted([*changed, *unchanged], key=lambda done: done.name)

    def _write_checkpoints(self, holder: LogDirectory, ends: _Ends) -> None:
        """Recovery points and log start offsets as a shutdown writes them; high watermarks no further than the logs."""
        points, starts = dict(self._recovery_points), dict(self._log_starts)
        for partition, end in ends.log_ends.items():
            points[partition] = end
            starts.pop(partition, None)
        starts.update(ends.log_starts)
        self._write_if_other(holder, FileKind.RECOVERY_POINTS, points)
        self._write_if_other(holder, FileKind.LOG_START_OFFSETS, starts)
        try:
            high = holder.offsets(FileKind.REPLICATION_OFFSETS)
        except StartRefused:
            return
        high = {partition: min(offset, ends.log_ends.get(partition, offset)) for partition, offset in high.items()}
        self._write_if_other(holder, FileKind.REPLICATION_OFFSETS, high)

    def _write_if_other(self, holder: LogDirectory, kind: FileKind, offsets: dict[Partition, int]) -> None:
        try:
            if holder.offsets(kind) == offsets:
                return
        except StartRefused:
            pass
        holder.write_offsets(self.disk, kind, offsets)


class _Ends:
    """What the checkpoints of a log directory say of its partitions: log ends, and log starts within a segment."""

    def __init__(self) -> None:
        self.log_ends: dict[Partition, int] = {}
        self.log_starts: dict[Partition, int] = {}

    def add(self, directory: PartitionDirectory, done: PartitionPlan) -> None:
        """A partition that was loaded; not the metadata log, nor one that goes, is being moved here, or has no topic's
        name."""
        if done.offsets is None or directory.name.topic == METADATA_TOPIC or directory.name.state:
            return
        if parse_directory(directory.path.name) is None:
            return
        self.log_ends[directory.partition] = done.offsets.log_end_offset
        if done.options.is_tiered or done.offsets.log_start_offset > done.first_base_offset:
            self.log_starts[directory.partition] = done.offsets.log_start_offset
