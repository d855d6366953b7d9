"""Which segments of the tier are deleted, and where the log then begins.

    of each leader epoch, the earliest first, segment by segment until one stays:
    deletion begun     a segment whose deletion has failed before
    below the start    ends below the log start offset, and has no epoch after the log's first one
    retention.ms       its greatest timestamp is older
    retention.bytes    the tier and the local log without the segment are not smaller than this; segments below the
                       start do not count (in Kafka they do: it deletes as many bytes more)
    not of the log     a segment outside of the lineage stays, until its epochs lie below the log's first one

    dangling           the copy of a segment that will never be complete: this broker began it before a restart or a
                       failure, or any broker began it DANGLING_MS ago or earlier. Kafka leaves these to retention
    unreferenced       all epochs of the segment lie below the log's first epoch

The local log counts from the first segment on that the tier does not have yet. Source:
RemoteLogManager.cleanupExpiredRemoteLogSegments, isRemoteSegmentWithinLeaderEpochs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from formats.checkpoint import EpochEntry
from kcli.tier.segment import RemoteSegment, SegmentState

DANGLING_MS: Final = 3_600_000
"""The time in ms after which a copy has failed: no task of a former leader lasts as long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogState:
    """The facts about the leader's log that decide what expires. local_bytes: the size of the local segments that the
    tier does not have. lineage: its leader epochs. retention_ms, retention_bytes: -1 for no limit."""

    lineage: Sequence[EpochEntry]
    log_start_offset: int
    log_end_offset: int
    local_bytes: int
    retention_ms: int
    retention_bytes: int


@dataclass(slots=True)
class Expired:
    """The segments to delete, in this order. log_start_offset: the new one, set before they are deleted; None if it
    does not change."""

    segments: list[RemoteSegment] = field(default_factory=list)
    log_start_offset: int | None = None


def expired(
    segments: Sequence[RemoteSegment],
    log: LogState,
    now_ms: int,
    *,
    broker_id: int,
    being_copied: Collection[str] = (),
    unsettled: Collection[str] = (),
) -> Expired:
    """Return what is deleted now. segments: all of the partition. broker_id: the id of this broker, the leader.
    being_copied: the ids of the segments that it is copying. unsettled: the ids of segments of which it does not know
    whether its copy succeeded."""
    found = Expired()
    lineage = with_records(log.lineage)
    if not lineage:
        return found
    chosen: dict[str, RemoteSegment] = {}
    place = {epoch: i for i, epoch in enumerate(lineage)}
    excess = _excess_bytes(segments, log, lineage)
    own = {*being_copied, *unsettled}
    for segment in segments:
        if _is_dangling(segment, broker_id, now_ms) and segment.id not in own:
            chosen[segment.id] = segment
    for segment in _in_turn(segments, place):
        if segment.id in being_copied:
            break
        if segment.id in chosen:
            continue
        if _is_below_start(segment, log.log_start_offset, lineage):
            chosen[segment.id] = segment
            continue
        if not is_of_lineage(segment, lineage, log.log_end_offset):
            continue
        if _is_too_old(segment, log.retention_ms, now_ms):
            excess = max(0, excess - segment.size)
        elif 0 < excess >= segment.size:
            excess -= segment.size
        else:
            break
        chosen[segment.id] = segment
        found.log_start_offset = max(found.log_start_offset or 0, segment.end_offset + 1)
    earliest = log.lineage[0].epoch
    for segment in segments:
        if segment.leader_epochs[-1].epoch < earliest and segment.id not in being_copied:
            chosen.setdefault(segment.id, segment)
    found.segments = sorted(chosen.values(), key=lambda each: (each.start_offset, each.end_offset))
    return found


def _in_turn(segments: Sequence[RemoteSegment], place: Mapping[int, int]) -> list[RemoteSegment]:
    """Return the segments, sorted by the first of their epochs that is in the lineage, then by start offset. Segments
    without such an epoch are left out. place: the index of each epoch in the lineage."""
    found = []
    for segment in segments:
        first = next((place[epoch] for epoch, _ in segment.leader_epochs if epoch in place), None)
        if first is not None:
            found.append((first, segment.start_offset, segment.end_offset, segment.id, segment))
    return [each[-1] for each in sorted(found)]  # all ids differ, so `sorted` compares no segments


def with_records(lineage: Sequence[EpochEntry]) -> dict[int, int]:
    """Return epoch -> start offset, without the epochs that have no records, because the next epoch begins at the same
    offset."""
    return {
        each.epoch: each.start_offset
        for i, each in enumerate(lineage)
        if i + 1 == len(lineage) or lineage[i + 1].start_offset != each.start_offset
    }


def _excess_bytes(segments: Sequence[RemoteSegment], log: LogState, lineage: Mapping[int, int]) -> int:
    """Return by how many bytes the tier and the local log together are above retention.bytes."""
    if log.retention_bytes < 0:
        return 0
    copied = [
        each
        for each in segments
        if each.state is SegmentState.COPY_SEGMENT_FINISHED and not _is_below_start(each, log.log_start_offset, lineage)
    ]
    if log.local_bytes + sum(each.size for each in copied) <= log.retention_bytes:
        return 0
    tiered = sum(each.size for each in copied if is_of_lineage(each, lineage, log.log_end_offset))
    return max(0, log.local_bytes + tiered - log.retention_bytes)


def _is_too_old(segment: RemoteSegment, retention_ms: int, now_ms: int) -> bool:
    until = now_ms - retention_ms
    return retention_ms >= 0 and until >= 0 and (segment.max_timestamp_ms or 0) < until


def _is_below_start(segment: RemoteSegment, log_start_offset: int, lineage: Mapping[int, int]) -> bool:
    first = next(iter(lineage))
    return segment.end_offset < log_start_offset and all(epoch <= first for epoch, _ in segment.leader_epochs)


def _is_dangling(segment: RemoteSegment, broker_id: int, now_ms: int) -> bool:
    if segment.state is SegmentState.DELETE_SEGMENT_STARTED:
        return True
    if segment.state is not SegmentState.COPY_SEGMENT_STARTED:
        return False
    return segment.broker_id == broker_id or now_ms - (segment.event_timestamp_ms or 0) > DANGLING_MS


def is_of_lineage(segment: RemoteSegment, lineage: Mapping[int, int], log_end_offset: int) -> bool:
    """Whether the offsets of a segment have the same leader epochs in the segment as in the log. The first epochs of
    the segment may be missing from the lineage, if they are below the log start. lineage: see `with_records`."""
    epochs = with_records(segment.leader_epochs)
    order, own = list(lineage), list(epochs)
    first, last = next(iter(order)), own[-1]
    if not first <= last <= order[-1] or segment.end_offset >= log_end_offset:
        return False
    own = [epoch for epoch in own if epoch >= first]
    if any(epoch not in lineage for epoch in own):
        return False
    if own[0] != first and epochs[own[0]] < lineage[own[0]]:
        return False
    for i, epoch in enumerate(own):
        place = order.index(epoch)
        behind = order[place + 1] if place + 1 < len(order) else None
        if epoch == last:
            if behind is not None and segment.end_offset >= lineage[behind]:
                return False
        elif behind != own[i + 1] or lineage[behind] != epochs[behind]:
            return False
    return True
