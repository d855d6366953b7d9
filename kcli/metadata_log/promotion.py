"""Future logs that Kafka's start puts in the place of current logs.

A move between two log directories of a broker (AlterReplicaLogDirs) copies the current log to a future log,
<topic>-<partition>.<unique>-future. The controller then places the partition in the log directory of the future log,
and the broker puts the future log in the place of the current log. If the broker stops before that, its next start does
so, whichever of the two logs has more records:

    the metadata log places the partition in        Kafka's start
    the log directory of the future log
      no current log                                renames the future log to the partition's name
      current log in another log directory          renames the future log to the partition's name, and the current log
                                                    to -delete
      current log in the same log directory         fails: the partition's name is taken (Directory not empty)
    another log directory                           resumes the move: it appends to the future log the current log's
                                                    records from the future log's end on, and then puts the future log
                                                    in the place of the current log

Source: LogManager.recoverAbandonedFutureLogs and replaceCurrentWithFutureLog (KAFKA-16082); tried with Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from formats.file_name import DirectoryName, FileKind, build_directory
from kcli.errors import KcliError
from kcli.log.config import LogConfig
from kcli.log.log_directory import LogDirectory
from kcli.log.recovery.loader import LoadOptions
from kcli.log.recovery.node_directories import same_path
from kcli.log.recovery.offset_ranges import OffsetRanges
from kcli.log.recovery.partition_copies import Ranges, count, lacking, sound_offsets
from kcli.log.recovery.plan import plan
from kcli.log.recovery.run import no_configs
from kcli.protocol.topic_partition import TopicPartition

REACHED = FileKind.RECOVERY_POINTS, FileKind.REPLICATION_OFFSETS
"""The kinds of checkpoints that have, for each partition, an offset that its log end offset had reached."""


@dataclass(frozen=True, slots=True)
class Promotion:
    """A future log that Kafka puts in the place of the current log: at its start, or, if is_resumed, at the end of the
    move that the start resumes. current: None if the known log directories of the node have no current log."""

    partition: TopicPartition
    future: Path
    current: Path | None
    is_resumed: bool = False

    @property
    def name(self) -> str:
        """The name of the partition's directory."""
        return build_directory(DirectoryName(*self.partition))

    @property
    def is_refused(self) -> bool:
        """Whether Kafka's start fails, because the current log is in the log directory of the future log."""
        return self.current is not None and same_path(self.current.parent, self.future.parent)


@dataclass(frozen=True, slots=True)
class Compared:
    """The two logs of a promotion.

    start, end: the log start and log end offset of the future log after Kafka's start. current_end: the offset after
    the last sound batch of the current log; 0 if there is no current log.

    lost: ranges (first, last) of the offsets that Kafka loses: sound batches of the current log have them, and the
    future log after the start does not. If the move is resumed, the ranges end below `end`, as Kafka copies the later
    offsets. If there is no current log, the range goes from `end` to below the future log's offset in the checkpoints.

    only_current: the number of offsets that, before the start, are in sound batches of the current log but not of the
    future log; if the move is resumed, only offsets below the end of the future log are counted. only_future: the
    number of offsets that are in sound batches of the future log but not of the current log.
    """

    promotion: Promotion
    start: int
    end: int
    current_end: int
    lost: Ranges
    only_current: int
    only_future: int

    @property
    def lost_offsets(self) -> int:
        """The number of offsets in `lost`."""
        return count(self.lost)

    @property
    def is_current_better(self) -> bool:
        """Whether more offsets are only in the current log than are only in the future log. If equally many are, and
        both logs are in one log directory, the current log counts as better: Kafka need not rename it."""
        if self.promotion.is_refused:
            return self.only_current >= self.only_future
        return self.only_current > self.only_future

    @property
    def set_aside(self) -> Path | None:
        """The directory that salvage renames to -stray so that Kafka serves the better log: that of the future log if
        the current log is better, otherwise that of the current log. None if there is no current log. If the current
        log is not better, also None if Kafka's start resumes the move, or if Kafka starts and the current log has no
        offset that the future log lacks."""
        promotion = self.promotion
        if promotion.current is None:
            return None
        if self.is_current_better:
            return promotion.future
        if promotion.is_resumed:  # the future log is not complete: the start copies the rest from the current log
            return None
        return promotion.current if self.only_current or promotion.is_refused else None


class Comparison:
    """Compares the two logs of promotions, and reads each checkpoint once. now_ms: the time of Kafka's start. clean:
    whether the broker was shut down cleanly; None: the clean-shutdown marker decides. config: returns the
    configuration of a topic."""

    def __init__(
        self, now_ms: int, *, clean: bool | None = None, config: Callable[[str], LogConfig] = no_configs
    ) -> None:
        self._now_ms, self._clean, self._config = now_ms, clean, config
        self._checkpoints: dict[tuple[Path, FileKind], Mapping[TopicPartition, int]] = {}
        self._marked: dict[Path, bool] = {}

    def compare(self, promotion: Promotion) -> Compared:
        """Read both logs of a promotion, and return how they differ. Raises UnreadableInput."""
        start, end = self._after_start(promotion)
        if promotion.current is None:
            home = promotion.future.parent
            reached = max(self._offset(promotion, home, kind) for kind in REACHED)
            return Compared(promotion, start, end, 0, [(end, reached - 1)] if reached > end else [], 0, 0)
        future, current = sound_offsets(promotion.future), sound_offsets(promotion.current)
        log_start = self._offset(promotion, promotion.current.parent, FileKind.LOG_START_OFFSETS)
        kept = OffsetRanges(_below([*future], end))
        current_end = max((last + 1 for _, last in current), default=0)
        lost = lacking(kept, current, log_start)
        only_current, only_future = lacking(future, current, log_start), lacking(current, future, log_start)
        if promotion.is_resumed:
            lost = _below(lost, end)
            only_current = _below(only_current, max((last + 1 for _, last in future), default=0))
        return Compared(promotion, start, end, current_end, lost, count(only_current), count(only_future))

    def _after_start(self, promotion: Promotion) -> tuple[int, int]:
        """Return the log start and log end offset of the future log after Kafka's start; 0 and 0 if it has no .log
        file, or if Kafka does not start with it. Raises UnreadableInput."""
        directory, home = promotion.future, promotion.future.parent
        if not any(directory.glob(f"*{FileKind.LOG}")):
            return 0, 0
        if home not in self._marked:
            self._marked[home] = LogDirectory(home).was_shut_down_cleanly
        config = self._config(promotion.partition.topic)
        options = LoadOptions(
            self._now_ms,
            clean=self._marked[home] if self._clean is None else self._clean,
            recovery_point=self._offset(promotion, home, FileKind.RECOVERY_POINTS),
            log_start_offset=self._offset(promotion, home, FileKind.LOG_START_OFFSETS),
            index_interval_bytes=config.index_interval_bytes,
            max_index_bytes=config.max_index_bytes,
            is_compacted=config.compact,
        )
        planned = plan(directory, options)
        return (0, 0) if planned.offsets is None else (planned.offsets.log_start_offset, planned.offsets.log_end_offset)

    def _offset(self, promotion: Promotion, home: Path, kind: FileKind) -> int:
        """The offset of the partition in a checkpoint of a log directory; 0 if the checkpoint has none."""
        if (home, kind) not in self._checkpoints:
            self._checkpoints[home, kind] = {}
            with suppress(KcliError):  # other checks report this error
                self._checkpoints[home, kind] = LogDirectory(home).offsets(kind)
        return self._checkpoints[home, kind].get(promotion.partition, 0)


def _below(ranges: Ranges, end: int) -> list[tuple[int, int]]:
    """Return the offsets in `ranges` below `end`."""
    return [(first, min(last, end - 1)) for first, last in ranges if first < end]
