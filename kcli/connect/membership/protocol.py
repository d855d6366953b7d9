"""Metadata and assignments of the group protocol of Connect's workers. Protocol type: connect.

    protocol     version  the member's metadata                              the assignment
    default      0        version, url, config-offset                        version, error, leader, leader-url,
                                                                             config-offset, assigned
    compatible   1        the same, current assignment (bytes, null: none)   the same, revoked, delay
    sessioned    2        the same                                           the same; internal requests are signed

    version        int16
    url, leader    int16 length and UTF-8; the leader is a member id
    config-offset  int64   up to which connect-configs is replayed
    error          int16   0, or 1: the leader lacks configurations that a member has; all join again
    assigned       int32 count of (connector: string, tasks: int32 count of int32); task -1 is the connector itself
    revoked        the same; the member stops these, and joins again
    delay          int32   in ms, until the next rebalance is due

Source: ConnectProtocol, IncrementalCooperativeConnectProtocol; KIP-415, KIP-507.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kcli.connect.plugins import TaskId

PROTOCOL_TYPE: Final = "connect"
EAGER, COMPATIBLE, SESSIONED = "default", "compatible", "sessioned"
VERSIONS: Final = {EAGER: 0, COMPATIBLE: 1, SESSIONED: 2}
CONFIG_MISMATCH: Final = 1
CONNECTOR: Final = -1
"""The number that stands for the connector among the tasks of an assignment."""


class BadProtocol(ValueError):
    """Bytes that are no metadata or assignment."""


class Share(NamedTuple):
    """Connectors and tasks."""

    connectors: frozenset[str] = frozenset()
    tasks: frozenset[TaskId] = frozenset()

    def __sub__(self, other: Share) -> Share:
        """Return what the other does not have."""
        return Share(self.connectors - other.connectors, self.tasks - other.tasks)

    def __or__(self, other: Share) -> Share:
        """Return what either has."""
        return Share(self.connectors | other.connectors, self.tasks | other.tasks)

    def __and__(self, other: Share) -> Share:
        """Return what both have."""
        return Share(self.connectors & other.connectors, self.tasks & other.tasks)

    def __bool__(self) -> bool:
        return bool(self.connectors or self.tasks)


class Assignment(NamedTuple):
    """What a member gets. delay_ms: until the next rebalance; 0 if none is due."""

    leader: str
    leader_url: str
    config_offset: int
    assigned: Share = Share()
    revoked: Share = Share()
    delay_ms: int = 0
    error: int = 0


class WorkerState(NamedTuple):
    """What a member tells. assignment: what it has; None for nothing yet."""

    url: str
    config_offset: int
    assignment: Assignment | None = None

    @property
    def share(self) -> Share:
        """What the member has."""
        return Share() if self.assignment is None else self.assignment.assigned


def metadata(state: WorkerState, version: int) -> bytes:
    """Return the bytes of a member's metadata."""
    head = struct.pack(">h", version) + _string(state.url) + struct.pack(">q", state.config_offset)
    if not version:
        return head
    current = b"" if state.assignment is None else assignment_bytes(state.assignment, version)
    return head + struct.pack(">i", len(current) if current else -1) + current


def assignment_bytes(assignment: Assignment, version: int) -> bytes:
    """Return the bytes of an assignment."""
    parts = [
        struct.pack(">hh", version, assignment.error),
        _string(assignment.leader),
        _string(assignment.leader_url),
        struct.pack(">q", assignment.config_offset),
        _share(assignment.assigned),
    ]
    if version:
        parts += [_share(assignment.revoked), struct.pack(">i", assignment.delay_ms)]
    return b"".join(parts)


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _share(share: Share) -> bytes:
    tasks: dict[str, list[int]] = {name: [CONNECTOR] for name in sorted(share.connectors)}
    for task in sorted(share.tasks):
        tasks.setdefault(task.connector, []).append(task.task)
    parts = [struct.pack(">i", len(tasks))]
    for name, numbers in tasks.items():
        parts += [_string(name), struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)]
    return b"".join(parts)


def read_metadata(data: bytes) -> WorkerState:
    """Return a member's metadata. Raises BadProtocol."""
    reader = _Reader(data)
    version = reader.number(">h")
    url, offset = reader.string(), reader.number(">q")
    if version < 1 or reader.is_at_end:
        return WorkerState(url, offset)
    size = reader.number(">i")
    return WorkerState(url, offset, None if size < 0 else read_assignment(reader.take(size)))


def read_assignment(data: bytes) -> Assignment:
    """Return an assignment. Raises BadProtocol."""
    reader = _Reader(data)
    version, error = reader.number(">h"), reader.number(">h")
    leader, url, offset = reader.string(), reader.string(), reader.number(">q")
    assigned = reader.share()
    if version < 1:
        return Assignment(leader, url, offset, assigned, error=error)
    revoked = Share() if reader.is_at_end else reader.share()
    delay_ms = 0 if reader.is_at_end else reader.number(">i")
    return Assignment(leader, url, offset, assigned, revoked, delay_ms, error)


class _Reader:
    """Reads fields from bytes."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def is_at_end(self) -> bool:
        return self._at == len(self._data)

    def take(self, size: int) -> bytes:
        if size < 0 or self._at + size > len(self._data):
            raise BadProtocol(f"byte {self._at}: {size} bytes are not there")
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self, form: str) -> int:
        (value,) = struct.unpack(form, self.take(struct.calcsize(form)))
        assert isinstance(value, int), value
        return value

    def string(self) -> str:
        try:
            return self.take(self.number(">h")).decode()
        except UnicodeDecodeError:
            raise BadProtocol(f"byte {self._at}: a text that is not UTF-8") from None

    def share(self) -> Share:
        connectors, tasks = set(), set()
        for _ in range(self.number(">i")):
            name = self.string()
            for _ in range(self.number(">i")):
                number = self.number(">i")
                if number == CONNECTOR:
                    connectors.add(name)
                else:
                    tasks.add(TaskId(name, number))
        return Share(frozenset(connectors), frozenset(tasks))


def union(shares: Iterable[Share]) -> Share:
    """Return what any has."""
    found = Share()
    for each in shares:
        found |= each
    return found


Shares = Mapping[str, Share]
"""Member id -> what the member has."""
