"""The start of one log directory: what lies in it, and the logs opened by several threads.

    prepare   the clean-shutdown marker is read and removed, so that a crash from now on is one; checkpoints are read
    work      in each thread: take the next partition's directory until there is none
                -delete   to be removed
                -stray    left alone
                unknown   its topic id is not in the metadata, or the partition not this broker's: it becomes -stray
                -future   a log that was on its way to this directory: opened, told of, not served
                else      opened; recovered first, where the shutdown was not clean

What cannot be read takes the directory offline; a name that is no partition's keeps the broker from starting. Source:
LogManager.loadLogs, loadLog, isStrayReplica; KIP-112.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from formats.file_name import METADATA_TOPIC, FileKind
from kcli.broker.logs.directories import LogDir, LogDirsRefused
from kcli.errors import KcliError
from kcli.log.config import LogConfig
from kcli.log.disk import Disk
from kcli.log.log_directory import PartitionDirectory
from kcli.log.partition_directory import rename_for_end, topic_id_of
from kcli.log.partition_log import OpenOptions, PartitionLog
from kcli.log.recovery_view import StartRefused

log = logging.getLogger("kcli.broker")

Key = tuple[str, int]
CHECKPOINTS = (FileKind.RECOVERY_POINTS, FileKind.LOG_START_OFFSETS, FileKind.CLEANER_OFFSETS)


@dataclass(frozen=True, slots=True)
class LoadRules:
    """What a start needs to know. is_stray(number, topic id or None): is such a log not this broker's?"""

    disk: Disk
    now_ms: int
    config_of: Callable[[str], LogConfig]
    is_stray: Callable[[int, str | None], bool]
    producer_expiration_ms: int


def jitter(most: int) -> int:
    """A number below `most`: how much earlier a segment is rolled."""
    return random.randrange(most)  # noqa: S311  (nobody is kept from guessing it)


@dataclass
class DirectoryLoading:
    """See above; `logs`, `futures`, `deleted` and `cleaned` (up to where the cleaner has been) are what was found."""

    directory: LogDir
    rules: LoadRules
    logs: dict[Key, PartitionLog] = field(default_factory=dict)
    futures: dict[Key, PartitionLog] = field(default_factory=dict)
    deleted: list[Path] = field(default_factory=list)
    cleaned: dict[Key, int] = field(default_factory=dict)
    error: Exception | None = None

    def prepare(self) -> None:
        """Read what is said of the whole directory. Raises LogDirsRefused; other errors are in `error`."""
        try:
            self._prepare()
        except (OSError, KcliError) as error:
            if isinstance(error, LogDirsRefused):
                raise
            self.error = error
            self._todo: Iterator[PartitionDirectory] = iter(())

    def _prepare(self) -> None:
        files, disk = self.directory.files, self.rules.disk
        refusals = files.refusals()
        for refused in refusals:
            if refused.file not in (*CHECKPOINTS, FileKind.META_PROPERTIES):
                raise LogDirsRefused(f"found directory {files.path / refused.file}: {refused.reason}")
        self._todo = iter(
            [each for each in files.partitions() if each.name.topic != METADATA_TOPIC or each.name.partition]
        )
        self._guard = Lock()
        self.directory.was_clean = files.was_shut_down_cleanly
        if self.directory.was_clean:
            disk.remove(files.path / FileKind.CLEAN_SHUTDOWN)
            disk.sync_directory(files.path)
        if refusals:
            raise refusals[0]
        self._recovery_points, self._log_starts, self.cleaned = (files.offsets(kind) for kind in CHECKPOINTS)
        try:
            self._high_watermarks = files.offsets(FileKind.REPLICATION_OFFSETS)
        except StartRefused as refused:
            log.warning("%s: %s: high watermarks are taken from the logs", files.path, refused)
            self._high_watermarks = {}

    def work(self) -> None:
        """Open logs until there are no more, or something is wrong: then that is in `error`."""
        while self.error is None:
            with self._guard:
                each = next(self._todo, None)
            if each is None:
                return
            try:
                self._load(each)
            except (OSError, KcliError) as error:
                log.error("%s: %s", each.path, error)  # noqa: TRY400
                self.error = error

    def _load(self, each: PartitionDirectory) -> None:
        topic, number = each.partition
        state = each.name.state
        if state == "delete":
            self.deleted.append(each.path)
            return
        if state == "stray":
            log.warning("loaded stray log: %s", each.path)
            return
        if self.rules.is_stray(number, topic_id_of(each.path)):
            renamed = rename_for_end(self.rules.disk, each.path, topic, number, "stray")
            log.warning("log in %s marked stray and renamed to %s", each.path, renamed)
            return
        found = PartitionLog(
            each.path,
            self.rules.disk,
            self.rules.config_of(topic),
            self.rules.now_ms,
            OpenOptions(
                clean=self.directory.was_clean,
                recovery_point=self._recovery_points.get(each.partition, 0),
                log_start_offset=self._log_starts.get(each.partition, 0),
                high_watermark=self._high_watermarks.get(each.partition, 0),
                producer_expiration_ms=self.rules.producer_expiration_ms,
                jitter=jitter,
            ),
        )
        if state == "future":
            log.info("loaded future log: %s", each.path)
            self.futures[each.partition] = found
        else:
            self.logs[each.partition] = found
