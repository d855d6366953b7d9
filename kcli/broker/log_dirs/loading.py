"""Loads one log directory when the node starts: several threads open its logs.

    prepare   read and remove the clean-shutdown marker, so that a later crash is not taken for a clean shutdown; read
              the checkpoints
    work      in each thread: take the next partition directory until none is left, and treat it by its name or state
                -delete   its files are to be removed
                -stray    left alone
                unknown   if the metadata lacks its topic id, or this replica: renamed to -stray
                aside     if its topic id is that of a topic with another name: left alone
                -future   a log that is being moved to this directory: opened, not served
                else      opened; before that recovered, if the shutdown was not clean

A file that cannot be read takes the directory offline; a directory whose name is no partition's prevents the start.
Source: LogManager.loadLogs, loadLog, isStrayReplica; KIP-112.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from formats.file_name import METADATA_TOPIC, FileKind
from kcli.broker.log_dirs.directories import LogDir, LogDirsRefused
from kcli.errors import KcliError, StartRefused
from kcli.log.config import LogConfig
from kcli.log.disk import Disk
from kcli.log.live.partition_log import OpenOptions, PartitionLog
from kcli.log.log_directory import PartitionDirectory
from kcli.log.partition_directory import rename_for_end, topic_id_of
from kcli.protocol.topic_partition import TopicPartition

log = logging.getLogger("kcli.broker")

CHECKPOINTS = (FileKind.RECOVERY_POINTS, FileKind.LOG_START_OFFSETS, FileKind.CLEANER_OFFSETS)


@dataclass(frozen=True, slots=True)
class LoadRules:
    """The parameters of loading logs.

    config_of(topic): the configuration of a topic's logs.
    is_stray(partition number, topic id or None): whether the metadata has no such replica on this broker.
    is_aside(partition by the directory's name, topic id or None): whether the metadata has such a replica, but the
    topic of that id has another name than the directory.
    may_be_tiered(topic): whether its logs have tiered storage if their configuration says so.
    """

    disk: Disk
    now_ms: int
    config_of: Callable[[str], LogConfig]
    is_stray: Callable[[int, str | None], bool]
    is_aside: Callable[[TopicPartition, str | None], bool]
    may_be_tiered: Callable[[str], bool]
    producer_expiration_ms: int


def jitter(most: int) -> int:
    """Return a random number below `most`: the time, in ms, by which a segment is rolled early (segment.jitter.ms)."""
    return random.randrange(most)  # noqa: S311  (the number is no secret)


@dataclass
class DirectoryLoading:
    """The loading of one log directory.

    logs, futures: the opened logs, and the opened future logs (-future). deleted: the paths of partition directories
    that end in -delete. cleaned: the contents of cleaner-offset-checkpoint. error: the reason why the directory could
    not be loaded.
    """

    directory: LogDir
    rules: LoadRules
    logs: dict[TopicPartition, PartitionLog] = field(default_factory=dict)
    futures: dict[TopicPartition, PartitionLog] = field(default_factory=dict)
    deleted: list[Path] = field(default_factory=list)
    cleaned: dict[TopicPartition, int] = field(default_factory=dict)
    error: Exception | None = None

    def prepare(self) -> None:
        """Read and remove the clean-shutdown marker; read the checkpoints and the list of partition directories. Raises
        LogDirsRefused; sets `error` for any other error."""
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
            files.remove_marker(disk)
        if refusals:
            raise refusals[0]
        self._recovery_points, self._log_starts, self.cleaned = (files.offsets(kind) for kind in CHECKPOINTS)
        try:
            self._high_watermarks = files.offsets(FileKind.REPLICATION_OFFSETS)
        except StartRefused as refused:
            if refused.file not in {each.file for each in files.passed_over()}:
                raise
            log.warning("%s: %s: high watermarks are taken from the logs", files.path, refused)
            self._high_watermarks = {}

    def work(self) -> None:
        """Open logs until there are no more, or until an error, which is then stored in `error`. Runs in several
        threads."""
        while self.error is None:
            with self._guard:
                each = next(self._todo, None)
            if each is None:
                return
            try:
                self._load(each)
            except (OSError, KcliError) as error:
                log.error("%s: %s", each.path, error)  # noqa: TRY400  (the message names the file and the reason)
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
        topic_id = topic_id_of(each.path)
        if self.rules.is_aside(each.partition, topic_id):
            log.warning("log in %s has the id of another topic: left alone", each.path)
            return
        if self.rules.is_stray(number, topic_id):
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
                may_be_tiered=self.rules.may_be_tiered(topic),
            ),
        )
        if state == "future":
            log.info("loaded future log: %s", each.path)
            self.futures[each.partition] = found
        else:
            self.logs[each.partition] = found
