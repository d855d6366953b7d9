"""Retention: the old segments that are deleted, from the first on, as long as each in turn meets the condition.

    log start offset   the next segment begins at or below it     every log
    retention.bytes    the log is larger by at least that segment  cleanup.policy with delete
    retention.ms       its youngest record is older                cleanup.policy with delete

No segment is deleted that reaches above the high watermark, nor an active segment without batches. Where all would be
deleted, Kafka rolls an empty segment first. Source: UnifiedLog.deleteOldSegments, deletableSegments.
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
        """The offset in its name."""

    @property
    def size(self) -> int:
        """Bytes of the log."""

    @property
    def age_timestamp(self) -> int:
        """The time that its age counts from: its largest timestamp, else its last change; ms since 1970."""


AnySegment = TypeVar("AnySegment", bound=AgedSegment)
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
    """The segments that retention removes now, the oldest first. The last of `segments` is the active one."""
    conditions: list[Callable[[Sequence[AgedSegment]], Condition]] = [partial(_below_start, log_start_offset)]
    if config.delete:
        conditions += [partial(_too_much, config.retention_bytes), partial(_too_old, now_ms, config.retention_ms)]
    expired = 0
    for condition_for in conditions:
        rest = segments[expired:]
        condition = condition_for(rest)
        for segment, behind in zip(rest, [*rest[1:], None], strict=False):  # `rest` may be empty
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
