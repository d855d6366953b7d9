"""Encodes Fetch's response without kio, around regions of log files, so that records go from the page cache to the
socket. A kernel writes the bytes (formats/kernels/fetch_response.pyx).

    throttle_time_ms int32 | error_code int16, session_id int32 (7+) | topics | tagged fields (12+)
    topic      name (4-12) or id (13+) | partitions | tagged fields (12+)
    partition  index int32, error int16, high watermark int64, last stable offset int64, log start offset int64 (5+),
               aborted transactions (nullable; producer id int64, first offset int64), preferred replica int32 (11+),
               records (nullable bytes) | tagged fields (12+): 0 diverging epoch, 1 current leader

Lengths are int32, compact (length + 1 as a varint) from version 12 on. Source: FetchResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from formats.kernels.fetch_response import lay_out as lay_out_parts
from formats.txn_index import AbortedTxn
from kcli.broker.wire.answers import Laid
from kcli.broker.wire.layout import NO_TAGS
from kcli.broker.wire.messages import Messages
from kcli.log.live.segments import FileRegion

UNKNOWN = -1


@dataclass(slots=True)
class PartitionAnswer:
    """One partition's part of the response. An offset is -1 if unknown. region: the records, None for none; those of
    tiered storage are in memory. aborted: the aborted transactions among the records; None, for a null array, with
    read_uncommitted.

    diverging: the point at which the follower's log diverges from this log: this log's largest leader epoch that is at
    most the follower's last fetched epoch, and the end offset of that epoch; None if the logs do not diverge. leader:
    the encoded field `current_leader`, see client_view/current_leader.py.
    """

    index: int
    error_code: int = 0
    high_watermark: int = UNKNOWN
    last_stable_offset: int = UNKNOWN
    log_start_offset: int = UNKNOWN
    aborted: tuple[AbortedTxn, ...] | None = None
    region: FileRegion | memoryview | None = None
    diverging: tuple[int, int] | None = None
    preferred_replica: int = UNKNOWN
    leader: bytes = b""

    @property
    def size(self) -> int:
        """The size of the records, in bytes."""
        region = self.region
        if region is None:
            return 0
        return region.length if isinstance(region, FileRegion) else len(region)


class FetchFrame:
    """The frame of a response, to which partitions are added one after another. Consecutive partitions of the same
    topic become one topic of the response."""

    def __init__(self, kind: Messages) -> None:
        self._version = kind.version
        self._answers: list[tuple[str | bytes, PartitionAnswer]] = []

    def add(self, topic: str | bytes, answer: PartitionAnswer) -> None:
        """Add a partition to the response. topic: the topic's name, or from version 13 on the bytes of the topic's
        id."""
        self._answers.append((topic, answer))

    def whole(
        self,
        correlation_id: int,
        session_id: int,
        *,
        error_code: int = 0,
        throttle_ms: int = 0,
        endpoints: bytes = NO_TAGS,
    ) -> Laid:
        """Return the frame, in parts, with all partitions that were added. endpoints: the encoded tagged fields at the
        end of the response (12+), with the endpoints of the leaders; see client_view/current_leader.py."""
        throttle_at, parts = lay_out_parts(
            self._version,
            correlation_id,
            session_id,
            self._answers,
            endpoints,
            error_code=error_code,
            throttle_ms=throttle_ms,
        )
        laid = Laid(parts)
        laid.throttle_at = throttle_at
        return laid


def lay_out(kind: Messages, correlation_id: int, session_id: int, *, error_code: int = 0, throttle_ms: int = 0) -> Laid:
    """Return the frame of a response without partitions."""
    return FetchFrame(kind).whole(correlation_id, session_id, error_code=error_code, throttle_ms=throttle_ms)
