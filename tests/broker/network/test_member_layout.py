"""The responses to members of classic groups, which kcli lays out by hand, have the bytes that kio writes, at every
version."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kcli.broker.wire import member_layout
from kcli.broker.wire.answers import Laid
from kcli.broker.wire.apis import APIS
from kcli.broker.wire.messages import Messages, messages
from kcli.group.requests import JoinAnswer, JoinedMember, SyncAnswer
from kcli.protocol.error_code import ErrorCode

CORRELATION_ID = 77
JOIN_GROUP, HEARTBEAT, SYNC_GROUP = 11, 12, 14
ERRORS = [ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.MEMBER_ID_REQUIRED]
THROTTLES_MS = [0, 1234]


def versions(key: int) -> range:
    """All of an API."""
    return range(APIS[key].least, APIS[key].most + 1)


def check(kind: Messages, frame: Laid, throttle_ms: int, values: dict[str, Any]) -> None:
    """The frame against kio's."""
    frame.set_throttle(throttle_ms)
    throttle = {"throttle_time": timedelta(milliseconds=throttle_ms)}
    assert b"".join(frame) == kind.encode(  # type: ignore[arg-type]
        CORRELATION_ID, kind.new(kind.response_name, throttle | values)
    )


@pytest.mark.parametrize("version", versions(JOIN_GROUP))
@pytest.mark.parametrize("throttle_ms", THROTTLES_MS)
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize(
    "answer",
    [
        JoinAnswer(),
        JoinAnswer(member_id="é" * 90, generation=3, protocol_type="consumer", protocol="range", leader="other"),
        JoinAnswer(
            member_id="a",
            generation=2**31 - 1,
            protocol_type="consumer",
            protocol="range",
            leader="a",
            skip_assignment=True,
            members=(
                JoinedMember(member_id="a", instance_id=None, metadata=b"x" * 200),
                JoinedMember(member_id="b", instance_id="instance", metadata=b""),
            ),
        ),
    ],
)
def test_join_group(version: int, throttle_ms: int, error: ErrorCode, answer: JoinAnswer) -> None:
    kind = messages(JOIN_GROUP, version)
    members = tuple(
        kind.new(
            "JoinGroupResponseMember",
            {"member_id": each.member_id, "group_instance_id": each.instance_id, "metadata": each.metadata},
        )
        for each in answer.members
    )
    values = {
        "error_code": error,
        "generation_id": answer.generation,
        "protocol_type": answer.protocol_type,
        "protocol_name": answer.protocol or (None if version >= 7 else ""),
        "leader": answer.leader,
        "skip_assignment": answer.skip_assignment,
        "member_id": answer.member_id,
        "members": members,
    }
    check(kind, member_layout.join_group(kind, CORRELATION_ID, error, answer), throttle_ms, values)


@pytest.mark.parametrize("version", versions(SYNC_GROUP))
@pytest.mark.parametrize("throttle_ms", THROTTLES_MS)
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize(
    "answer", [SyncAnswer(), SyncAnswer(protocol_type="consumer", protocol="range", assignment=b"x" * 300)]
)
def test_sync_group(version: int, throttle_ms: int, error: ErrorCode, answer: SyncAnswer) -> None:
    kind = messages(SYNC_GROUP, version)
    values = {
        "error_code": error,
        "protocol_type": answer.protocol_type,
        "protocol_name": answer.protocol,
        "assignment": answer.assignment,
    }
    check(kind, member_layout.sync_group(kind, CORRELATION_ID, error, answer), throttle_ms, values)


@pytest.mark.parametrize("version", versions(HEARTBEAT))
@pytest.mark.parametrize("throttle_ms", THROTTLES_MS)
@pytest.mark.parametrize("error", ERRORS)
def test_heartbeat(version: int, throttle_ms: int, error: ErrorCode) -> None:
    kind = messages(HEARTBEAT, version)
    frame = member_layout.heartbeat(kind, CORRELATION_ID, error)
    check(kind, frame, throttle_ms, {"error_code": error})
