"""OffsetCommit's response, laid out by hand: consumers commit often, and kio's objects and writer would take a third of
the time of the whole request.

    throttle_time_ms int32 (3+) | topics | tagged fields (8+)
    topic      name (2-9) or id (10+) | partitions | tagged fields (8+)
    partition  index int32, error int16 | tagged fields (8+)

Source: OffsetCommitResponse.json.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from uuid import UUID

from kcli.broker.network.connection import Laid
from kcli.broker.network.layout import NO_TAGS, length, string
from kcli.broker.network.messages import Messages

THROTTLE, FLEXIBLE = 3, 8
_PARTITION = struct.Struct(">ih")


Answered = tuple[str | UUID | None, Sequence[tuple[int, int]]]
"""A topic's name or id, and each partition's index and error code."""


class _NoThrottle(Laid):
    """An answer of a version that has no place for a throttle time."""

    def set_throttle(self, throttle_ms: int) -> None:
        """The client is not told."""


def lay_out(kind: Messages, correlation_id: int, topics: Sequence[Answered]) -> Laid:
    """The answer's frame, in one part."""
    flexible = kind.version >= FLEXIBLE
    tags = NO_TAGS if flexible else b""
    frame = bytearray(4) + kind.response_header(correlation_id)
    throttle_at = len(frame)
    if kind.version >= THROTTLE:
        frame += b"\0\0\0\0"
    frame += length(len(topics), flexible=flexible)
    for topic, partitions in topics:
        frame += string(topic, flexible=flexible) if isinstance(topic, str) else (topic or UUID(int=0)).bytes
        frame += length(len(partitions), flexible=flexible)
        for index, code in partitions:
            frame += _PARTITION.pack(index, code) + tags
        frame += tags
    frame += tags
    struct.pack_into(">i", frame, 0, len(frame) - 4)
    answer = (Laid if kind.version >= THROTTLE else _NoThrottle)([frame])
    answer.throttle_at = throttle_at
    return answer
