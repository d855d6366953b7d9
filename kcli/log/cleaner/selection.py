"""The offsets from which and to which a log may be cleaned, and whether it is dirty enough to be cleaned.

    first dirty offset        the cleaner's checkpoint, below which the log has been cleaned; or the log start
    first uncleanable offset  the least of: base of the active segment, last stable offset, base of the first segment
                              with a record younger than min.compaction.lag.ms; rounded down to a segment's base
    dirty ratio               bytes of the segments between the two offsets, over bytes of all up to the second one
    due                       a dirty record is older than max.compaction.lag.ms: the log is cleaned at any ratio

Source: LogCleanerManager.cleanableOffsets, calculateCleanableBytes, maxCompactionDelay; LogToClean.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kcli.log.cleaner.partition import CleanerLog
from kcli.log.config import LogConfig


class Bound(StrEnum):
    """The reason why the cleanable part of a log ends where it does."""

    ACTIVE = "active segment"
    TRANSACTION = "open transaction"
    HIGH_WATERMARK = "high watermark"
    LAG = "min.compaction.lag.ms"


@dataclass(frozen=True, slots=True)
class Selection:
    """The part of a log to clean: from first_dirty_offset to below first_uncleanable_offset. bound, bound_offset: what
    ends the part, and at which offset; the part ends at the base offset of the segment that contains this offset
    (or first_dirty_offset, if that is higher). clean_bytes, cleanable_bytes: the sizes of the segments before the part
    and in it."""

    first_dirty_offset: int
    bound: Bound
    bound_offset: int
    bound_until_ms: int | None  # when min.compaction.lag.ms is over, ms since 1970; None if another bound ends the part
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    due_for_ms: int  # how long beyond max.compaction.lag.ms the oldest dirty segment has waited; 0: not beyond it
    min_ratio: float
    reset: bool  # whether the cleaner's checkpoint lay outside the log

    @property
    def ratio(self) -> float:
        """The dirty ratio; 0 for an empty log."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    @property
    def worth_it(self) -> bool:
        """Whether Kafka would clean the log now: a dirty record is older than max.compaction.lag.ms, or the dirty ratio
        is high enough."""
        if self.clean_bytes + self.cleanable_bytes == 0:
            return False
        return (self.due_for_ms > 0 and self.cleanable_bytes > 0) or self.ratio > self.min_ratio


def select(log: CleanerLog, config: LogConfig, checkpoint: int | None, now_ms: int) -> Selection:
    """Return the part of `log` that may be cleaned now. checkpoint: the log's entry in cleaner-offset-checkpoint; None
    if it has none."""
    first_dirty, reset = log.log_start_offset if checkpoint is None else checkpoint, False
    if not log.log_start_offset <= first_dirty <= log.log_end_offset:
        first_dirty, reset = log.log_start_offset, True
    bounds: list[tuple[int, Bound, int | None]] = [(log.active.base_offset, Bound.ACTIVE, None)]
    if log.first_unstable_offset is not None and log.first_unstable_offset < log.high_watermark:
        bounds.append((log.first_unstable_offset, Bound.TRANSACTION, None))
    else:
        bounds.append((log.high_watermark, Bound.HIGH_WATERMARK, None))
    if config.min_compaction_lag_ms > 0:
        for segment in log.closed_from(first_dirty):
            until = segment.age_timestamp + config.min_compaction_lag_ms
            if until > now_ms:
                bounds.append((segment.base_offset, Bound.LAG, until))
                break
    bound_offset, bound, until_ms = min(bounds, key=lambda each: each[0])
    upper = max(first_dirty, bound_offset)
    first_uncleanable = next((each.base_offset for each in log.closed_from(upper)), log.active.base_offset)
    dirty = log.between(min(first_dirty, first_uncleanable), first_uncleanable)
    return Selection(
        first_dirty_offset=first_dirty,
        bound=bound,
        bound_offset=bound_offset,
        bound_until_ms=until_ms,
        first_uncleanable_offset=first_uncleanable,
        clean_bytes=sum(each.size for each in log.segments if each.base_offset < first_dirty),
        cleanable_bytes=sum(each.size for each in dirty),
        due_for_ms=_due_for_ms(log, config, first_dirty, now_ms),
        min_ratio=config.min_cleanable_dirty_ratio,
        reset=reset,
    )


def _due_for_ms(log: CleanerLog, config: LogConfig, first_dirty: int, now_ms: int) -> int:
    """Return how long, in ms, the oldest dirty segment has waited beyond max.compaction.lag.ms; 0 if it has not."""
    clean_until = now_ms - config.max_compaction_lag_ms
    if clean_until <= 0:
        return 0
    firsts = [segment.first_batch() for segment in log.closed_from(first_dirty)]
    stamps = [first.max_timestamp for first in firsts if first is not None and first.max_timestamp > 0]
    return max(0, clean_until - min(stamps)) if stamps else 0
