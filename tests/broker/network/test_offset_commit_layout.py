"""OffsetCommit's response, which kcli lays out by hand, has the bytes that kio writes, at every version."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from kcli.broker.wire.apis import APIS
from kcli.broker.wire.messages import messages
from kcli.broker.wire.offset_commit_layout import Answered, lay_out
from kcli.protocol.error_code import ErrorCode

OFFSET_COMMIT = APIS[8]
CORRELATION_ID = 77


@pytest.mark.parametrize("version", range(OFFSET_COMMIT.least, OFFSET_COMMIT.most + 1))
@pytest.mark.parametrize("throttle_ms", [0, 1234])
@pytest.mark.parametrize("counts", [(), (0,), (1,), (3, 200)])
def test_bytes(version: int, throttle_ms: int, counts: tuple[int, ...]) -> None:
    kind = messages(OFFSET_COMMIT.key, version)
    names: list[Any] = [UUID(int=5), None] if version >= 10 else ["topic", "é" * 90]
    topics: list[Answered] = [
        (name, tuple((number, (0, 3, -1)[number % 3]) for number in range(count)))
        for name, count in zip(names, counts, strict=False)
    ]
    frame = lay_out(kind, CORRELATION_ID, topics)
    frame.set_throttle(throttle_ms)
    response = kind.new(
        "OffsetCommitResponse",
        {
            "throttle_time": timedelta(milliseconds=throttle_ms),
            "topics": tuple(
                kind.new(
                    "OffsetCommitResponseTopic",
                    {
                        "topic_id" if version >= 10 else "name": name,
                        "partitions": tuple(
                            kind.new(
                                "OffsetCommitResponsePartition",
                                {"partition_index": number, "error_code": ErrorCode(code)},
                            )
                            for number, code in partitions
                        ),
                    },
                )
                for name, partitions in topics
            ),
        },
    )
    assert b"".join(frame) == kind.encode(CORRELATION_ID, response)  # type: ignore[arg-type]
