"""Retention: segments are deleted from the first one on, until one meets none of these conditions.

    log start offset   the next segment begins at or below it                   every log
    retention.bytes    the log without the segment is not below this size       cleanup.policy with delete
    retention.ms       the segment's youngest record is older                   cleanup.policy with delete

No segment is deleted that reaches above the high watermark, nor an active segment without batches. If all segments
would be deleted, Kafka rolls an empty one first. Source: UnifiedLog.deleteOldSegments, deletableSegments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

from kcli.log.config import LogConfig


class AgedSegment(Protocol):
    """What retention needs to know of a segment."""

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


def deletable(
    segments: Sequence[AnySegment],
    config: LogConfig,
    now_ms: int,
    *,
    log_start_offset: int,
    high_watermark: int,
    log_end_offset: int,
) -> list[AnySegment]:
    """Return the segments that retention deletes now, the oldest first. segments: all of the log, in order; the last is
    the active one."""
    conditions: list[Callable[[Sequence[AgedSegment]], Condition]] = [partial(_below_start, log_start_offset)]
    if config.delete:
        conditions += [partial(_too_much, config.retention_bytes), partial(_too_old, now_ms, config.retention_ms)]
    expired = 0
    for condition_for in conditions:
        rest = segments[expired:]
        condition = condition_for(rest)
        for segment, behind in zip(rest, [*rest[1:], None], strict=False):  # if `rest` is empty, there is no pair
            upper = log_end_offset if behind is None else behind.base_offset
            if high_watermark < upper or not condition(segment, behind) or (behind is None and not segment.size):
                break
            expired += 1
    return list(segments[:expired])


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
