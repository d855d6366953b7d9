"""Members of classic groups over plain sockets, so that the client is not what is measured.

A member joins, is told its id, joins again, takes its assignment, and comes back at once when there is a rebalance: it
asks with heartbeats every 10 ms as long as the group is not steady. Messages are those before the flexible versions:
FindCoordinator 1, JoinGroup 5, SyncGroup 3, Heartbeat 3, OffsetCommit 7, LeaveGroup 1.
"""

from __future__ import annotations

import selectors
import socket
import struct
import time
from collections.abc import Callable, Sequence
from heapq import heappop, heappush

from tests.bench.measure import BenchError

OFFSET_COMMIT, FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP = 8, 10, 11, 12, 13, 14
VERSIONS = {OFFSET_COMMIT: 7, FIND_COORDINATOR: 1, JOIN_GROUP: 5, HEARTBEAT: 3, LEAVE_GROUP: 1, SYNC_GROUP: 3}
NONE, LOADING, NOT_AVAILABLE, NOT_COORDINATOR = 0, 14, 15, 16
ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS, MEMBER_ID_REQUIRED = 22, 27, 79
SESSION_TIMEOUT_MS, REBALANCE_TIMEOUT_MS = 45_000, 300_000
HEARTBEAT_S, COMMIT_S = 3.0, 5.0
"""The defaults of heartbeat.interval.ms and auto.commit.interval.ms."""
LOOK_S, PATIENCE_S = 0.01, 60.0
METADATA = struct.pack(">hih", 0, 1, 5) + b"bench" + struct.pack(">i", -1)
ASSIGNMENT = struct.pack(">hih", 0, 1, 5) + b"bench" + struct.pack(">iii", 1, 0, -1)


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def _bytes(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


NULL = struct.pack(">h", -1)


class Member:
    """One connection, one request at a time."""

    def __init__(self, address: tuple[str, int], group: str) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.group = group
        self.id = self.leader = ""
        self.generation = -1
        self.count = 0
        """How many members the leader was told of."""
        self.is_stable = False
        self.asked: int | None = None
        self.again_at = 0.0
        self._received = bytearray()

    @property
    def is_leader(self) -> bool:
        """Does it assign?"""
        return self.id == self.leader

    def send(self, key: int, body: bytes) -> None:
        """Ask."""
        assert self.asked is None, "one request at a time"
        head = struct.pack(">hhihi", key, VERSIONS[key], 1, -1, 0)[:10]
        self.socket.sendall(_bytes(head + body))
        self.asked = key

    def receive(self) -> tuple[int, memoryview] | None:
        """Return the API key and the body of the next response, behind its correlation id; None until it has arrived
        whole."""
        data = self.socket.recv(1 << 16)
        if not data:
            raise BenchError("the broker has hung up")
        self._received += data
        if len(self._received) < 4 or len(self._received) < 4 + int.from_bytes(self._received[:4]):
            return None
        assert self.asked is not None, "asked"
        key, self.asked = self.asked, None
        answer, self._received = memoryview(bytes(self._received))[8:], bytearray()
        return key, answer

    def join(self) -> None:
        """Come, or come back."""
        self.is_stable = False
        timeouts = struct.pack(">ii", SESSION_TIMEOUT_MS, REBALANCE_TIMEOUT_MS)
        protocols = struct.pack(">i", 1) + _text("range") + _bytes(METADATA)
        self.send(JOIN_GROUP, _text(self.group) + timeouts + _text(self.id) + NULL + _text("consumer") + protocols)

    def heartbeat(self) -> None:
        """Live."""
        self.send(HEARTBEAT, self._generation() + NULL)

    def commit(self, offset: int) -> None:
        """Commit one partition's offset."""
        partition = struct.pack(">iiqih", 1, 0, offset, -1, 0)
        self.send(OFFSET_COMMIT, self._generation() + NULL + struct.pack(">i", 1) + _text("bench") + partition)

    def leave(self) -> None:
        """Go."""
        self.send(LEAVE_GROUP, _text(self.group) + _text(self.id))

    def _generation(self) -> bytes:
        return _text(self.group) + struct.pack(">i", self.generation) + _text(self.id)

    def take(self, key: int, answer: memoryview) -> None:
        """Send the request that follows from a response, while the group is not steady."""
        if key == JOIN_GROUP:
            self._joined(answer)
            return
        (code,) = struct.unpack_from(">h", answer, 4)
        if code == NONE and key == SYNC_GROUP:
            self.is_stable = True
        elif code in (REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION):
            self.join()
        elif code != NONE:
            raise BenchError(f"API {key} answers error {code}")

    def _joined(self, answer: memoryview) -> None:
        code, generation = struct.unpack_from(">hi", answer, 4)
        _, position = _take_text(answer, 10)
        leader, position = _take_text(answer, position)
        self.id, position = _take_text(answer, position)
        if code in (MEMBER_ID_REQUIRED, LOADING):  # Kafka answers a Heartbeat while it loads, a JoinGroup not
            self.join()
            return
        if code != NONE:
            raise BenchError(f"JoinGroup answers error {code}")
        self.leader, self.generation = leader, generation
        assignments = b""
        (self.count,) = struct.unpack_from(">i", answer, position)
        position += 4
        for _ in range(self.count):
            member_id, position = _take_text(answer, position)
            _, position = _take_text(answer, position)
            position += 4 + int.from_bytes(answer[position : position + 4])
            assignments += _text(member_id) + _bytes(ASSIGNMENT)
        self.send(SYNC_GROUP, self._generation() + NULL + struct.pack(">i", self.count) + assignments)

    def close(self) -> None:
        """Hang up."""
        self.socket.close()


def _take_text(data: memoryview, position: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", data, position)
    position += 2
    if length < 0:
        return "", position
    return str(data[position : position + length], "utf-8"), position + length


def find_coordinator(address: tuple[str, int], group: str) -> None:
    """Wait until the broker coordinates the group, for which it creates and loads __consumer_offsets."""
    until = time.perf_counter() + PATIENCE_S
    for key, body, where in (
        (FIND_COORDINATOR, _text(group) + b"\0", 4),
        (HEARTBEAT, _text(group) + struct.pack(">i", 0) + _text("") + NULL, 4),
    ):
        while True:
            member = Member(address, group)
            member.send(key, body)
            while (answer := member.receive()) is None:
                pass
            member.close()
            (code,) = struct.unpack_from(">h", answer[1], where)
            if code not in (LOADING, NOT_AVAILABLE, NOT_COORDINATOR):
                break
            if time.perf_counter() > until:
                raise BenchError(f"no coordinator: error {code}")
            time.sleep(0.05)


def join_group(address: tuple[str, int], group: str, count: int) -> tuple[float, list[Member]]:
    """Let members join a new group at the same time, until all have an assignment of the same generation. Returns the
    seconds, and the members."""
    members = [Member(address, group) for _ in range(count)]
    with selectors.DefaultSelector() as selector:
        for member in members:
            selector.register(member.socket, selectors.EVENT_READ, member)
        began = time.perf_counter()
        for member in members:
            member.join()
        while not _is_steady(members):
            now = time.perf_counter()
            if now > began + PATIENCE_S:
                raise BenchError(f"group {group} is not steady")
            for ready, _ in selector.select(LOOK_S):
                member = ready.data
                answer = member.receive()
                if answer is not None:
                    member.take(*answer)
                    member.again_at = now + LOOK_S
            for member in members:
                if member.is_stable and member.asked is None and now >= member.again_at:
                    member.heartbeat()
        seconds = time.perf_counter() - began
        for member in members:
            while member.asked is not None:
                member.receive()
    return seconds, members


def _is_steady(members: Sequence[Member]) -> bool:
    first = members[0]
    return all(
        each.is_stable
        and each.generation == first.generation
        and (not each.is_leader or each.count == len(members))
        for each in members
    )  # fmt: skip


def leave_group(members: Sequence[Member]) -> None:
    """Have them leave, and hang up."""
    for member in members:
        member.leave()
        while member.asked is not None:
            member.receive()
        member.close()


def live(members: Sequence[Member], seconds: float, during: Callable[[], None]) -> int:
    """Let members of steady groups send a heartbeat every 3 s and a commit every 5 s, spread evenly. during: called
    once every member has committed. Returns the number of requests answered after that."""
    due: list[tuple[float, int, bool]] = []
    began = time.perf_counter()
    for i in range(len(members)):
        heappush(due, (began + i / len(members) * HEARTBEAT_S, i, False))
        heappush(due, (began + i / len(members) * COMMIT_S, i, True))
    answered, warm = 0, False
    with selectors.DefaultSelector() as selector:
        for member in members:
            selector.register(member.socket, selectors.EVENT_READ, member)
        while (now := time.perf_counter()) < began + COMMIT_S + seconds:
            if not warm and now > began + COMMIT_S:
                during()
                answered, warm = 0, True
            for ready, _ in selector.select(max(0.0, min(due[0][0] - now, LOOK_S))):
                answer = ready.data.receive()
                if answer is None:
                    continue
                answered += 1
                key, body = answer
                (code,) = struct.unpack_from(">h", body, 4 if key == HEARTBEAT else len(body) - 2)
                if code != NONE:
                    raise BenchError(f"API {key} answers error {code} to a member of a steady group")
            while due[0][0] <= now:
                at, i, is_commit = heappop(due)
                member = members[i]
                if member.asked is not None:
                    heappush(due, (now + LOOK_S, i, is_commit))
                    continue
                if is_commit:
                    member.commit(round(at))
                else:
                    member.heartbeat()
                heappush(due, (at + (COMMIT_S if is_commit else HEARTBEAT_S), i, is_commit))
    return answered
