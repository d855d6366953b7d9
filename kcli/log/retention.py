"""Retention: segments are deleted from the first one on, until one meets none of these conditions.

    log start offset   the next segment begins at or below it                   every log
    retention.bytes    the log without the segment is not below this size       cleanup.policy with delete
    retention.ms       the segment's youngest record is older                   cleanup.policy with delete

No segment is deleted that reaches above the high watermark, nor an active segment without batches. If all segments
would be deleted, Kafka rolls an empty one first.

With tiered storage the conditions are local.retention.bytes and local.retention.ms, also if cleanup.policy is empty,
and the local log start offset. A segment must also be in remote storage, or lie below the log start offset; an active
segment that meets a condition is rolled, so that it can be copied. With remote.log.copy.disable the conditions are
those of a log without tiered storage. Source: UnifiedLog.deleteOldSegments, deletableSegments; KIP-405, KIP-950.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, NamedTuple, Protocol, TypeVar

from kcli.log.config import LogConfig


class AgedSegment(Protocol):
    """The facts about a segment that decide whether retention deletes it."""

    @property
    def base_offset(self) -> int:
        """The offset in the name of its .log file."""

    @property
    def size(self) -> int:
        """Bytes of its .log file."""

    @property
    def age_timestamp(self) -> int:
        """The time from which the segment's age counts, in ms since 1970: its largest timestamp, else the last change
        of its .log file."""


AnySegment = TypeVar("AnySegment", bound=AgedSegment)
# Whether a segment is to be deleted; it is called with the segment and the next one (None: the segment is active).
Condition = Callable[[AgedSegment, AgedSegment | None], bool]


class Tier(NamedTuple):
    """The facts about a log with tiered storage that retention uses. highest_tiered_offset: the last offset that is in
    remote storage, -1 for none."""

    local_log_start_offset: int
    highest_tiered_offset: int


class Due(NamedTuple, Generic[AnySegment]):
    """segments: those that retention deletes now, the oldest first. rolls: whether the active segment, which has
    batches, is rolled first, even if it is not deleted now."""

    segments: list[AnySegment]
    rolls: bool = False


def find_due(
    segments: Sequence[AnySegment],
    config: LogConfig,
    now_ms: int,
    *,
    log_start_offset: int,
    high_watermark: int,
    log_end_offset: int,
    tier: Tier | None = None,
) -> Due[AnySegment]:
    """Return the segments that retention deletes now. segments: all of the log, in order; the last is the active one.
    tier: None without tiered storage."""
    copied = tier if config.remote_copy else None
    most_bytes, most_ms = config.retention_bytes, config.retention_ms
    if copied is not None:
        most_bytes, most_ms = config.local_retention_bytes, config.local_retention_ms
    begins_at = log_start_offset if tier is None else tier.local_log_start_offset
    conditions: list[Callable[[Sequence[AgedSegment]], Condition]] = [partial(_below_start, begins_at)]
    if config.delete or (copied is not None and not config.compact):
        conditions += [partial(_too_much, most_bytes), partial(_too_old, now_ms, most_ms)]
    expired, rolls = 0, False
    for condition_for in conditions:
        rest = segments[expired:]
        condition = condition_for(rest)
        for segment, behind in zip(rest, [*rest[1:], None], strict=False):  # if `rest` is empty, there is no pair
            upper = log_end_offset if behind is None else behind.base_offset
            if high_watermark < upper or not condition(segment, behind) or (behind is None and not segment.size):
                break
            rolls = rolls or (tier is not None and behind is None)
            is_below_start = behind is not None and log_start_offset >= behind.base_offset
            if copied is not None and not is_below_start and not 0 < upper <= copied.highest_tiered_offset + 1:
                break
            expired += 1
    return Due(list(segments[:expired]), rolls)


def _below_start(log_start_offset: int, _rest: Sequence[AgedSegment]) -> Condition:
    return lambda _segment, behind: behind is not None and behind.base_offset <= log_start_offset


def _too_much(retention_bytes: int, rest: Sequence[AgedSegment]) -> Condition:
    left = sum(segment.size for segment in rest) - retention_bytes if retention_bytes >= 0 else -1

    def check(segment: AgedSegment, _behind: AgedSegment | None) -> bool:
        nonlocal left
        left -= segment.size
        return left >= 0

    return check


def _too_old(now_ms: int, retention_ms: int, _rest: Sequence[AgedSegment]) -> Condition:
    return lambda segment, _behind: 0 <= retention_ms < now_ms - segment.age_timestamp
