"""Encodes the responses to members of classic groups without kio, to save time: a rebalance needs two responses for
every member, and each member sends a Heartbeat every three seconds.

    JoinGroup   throttle_time_ms int32 (2+) | error int16, generation int32, protocol type (7+), protocol, leader,
                skip assignment bool (9+), member id | members | tagged fields (6+)
    member      id, instance id (5+), metadata bytes | tagged fields (6+)
    SyncGroup   throttle_time_ms int32 (1+) | error int16, protocol type and name (5+), assignment bytes |
                tagged fields (4+)
    Heartbeat   throttle_time_ms int32 (1+) | error int16 | tagged fields (4+)

Source: JoinGroupResponse.json, SyncGroupResponse.json, HeartbeatResponse.json.
"""

from __future__ import annotations

import struct

from kcli.broker.wire.answers import Laid
from kcli.broker.wire.layout import NO_TAGS, framed, length, string
from kcli.broker.wire.messages import Messages
from kcli.group.requests import JoinAnswer, JoinedMember, SyncAnswer

JOIN_THROTTLE, INSTANCES, PROTOCOL_TYPE, SKIP_ASSIGNMENT = 2, 5, 7, 9
SYNC_THROTTLE, SYNC_PROTOCOL = 1, 5
HEARTBEAT_THROTTLE = 1
_JOINED = struct.Struct(">hi")


def join_group(kind: Messages, correlation_id: int, code: int, answer: JoinAnswer) -> Laid:
    """Return the frame of a JoinGroup response. code: the response's error code. answer: its other fields."""
    version, flexible = kind.version, kind.flexible
    parts = [_JOINED.pack(code, answer.generation)]
    if version >= PROTOCOL_TYPE:
        parts += string(answer.protocol_type, flexible=flexible), string(answer.protocol or None, flexible=flexible)
    else:
        parts.append(string(answer.protocol or "", flexible=flexible))
    parts.append(string(answer.leader, flexible=flexible))
    if version >= SKIP_ASSIGNMENT:
        parts.append(b"\1" if answer.skip_assignment else b"\0")
    parts += string(answer.member_id, flexible=flexible), length(len(answer.members), flexible=flexible)
    parts += [_member(each, version, flexible=flexible) for each in answer.members]
    return framed(kind, correlation_id, parts, throttle_since=JOIN_THROTTLE)


def _member(member: JoinedMember, version: int, *, flexible: bool) -> bytes:
    instance = string(member.instance_id, flexible=flexible) if version >= INSTANCES else b""
    metadata = length(len(member.metadata), flexible=flexible) + member.metadata
    return string(member.member_id, flexible=flexible) + instance + metadata + (NO_TAGS if flexible else b"")


def sync_group(kind: Messages, correlation_id: int, code: int, answer: SyncAnswer) -> Laid:
    """Return the frame of a SyncGroup response. code: the response's error code. answer: its other fields."""
    flexible = kind.flexible
    parts = [code.to_bytes(2, signed=True)]
    if kind.version >= SYNC_PROTOCOL:
        parts += string(answer.protocol_type, flexible=flexible), string(answer.protocol, flexible=flexible)
    parts += length(len(answer.assignment), flexible=flexible), answer.assignment
    return framed(kind, correlation_id, parts, throttle_since=SYNC_THROTTLE)


def heartbeat(kind: Messages, correlation_id: int, code: int) -> Laid:
    """Return the frame of a Heartbeat response. code: the response's error code."""
    return framed(kind, correlation_id, [code.to_bytes(2, signed=True)], throttle_since=HEARTBEAT_THROTTLE)
