"""A member of a classic group, as clients implement it: it joins, gets its assignment, sends heartbeats, commits,
leaves.

A leader assigns partitions to the members in turn. The checks see each response when the broker sends it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from formats.message import reader
from formats.message_writer import write
from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.group.consumer.embedded import VERSION_BYTES, version_of
from kcli.group.requests import (
    ZERO_ID,
    CommitAnswer,
    CommitOffsets,
    DescribedGroup,
    FetchAnswer,
    FetchOffsets,
    FetchTopic,
    Heartbeat,
    JoinAnswer,
    JoinGroup,
    LeaveAnswer,
    LeaveGroup,
    Leaver,
    OffsetToCommit,
    SyncAnswer,
    SyncGroup,
)
from kcli.protocol.error_code import ErrorCode
from tests.sim.network import Lost
from tests.sim.node import INPUT, INPUTS

if TYPE_CHECKING:
    from tests.sim.node import Node
    from tests.sim.world import World

SESSION_MS, STATIC_SESSION_MS, REBALANCE_MS = 6_000, 12_000, 8_000
JOIN_PATIENCE_MS = REBALANCE_MS + 5_000
SUBSCRIPTION: dict[str, Any] = {"topics": [INPUT], "userData": None}
RANGE, OTHER = (
    (("range", version.to_bytes(VERSION_BYTES) + write("ConsumerProtocolSubscription", version, subscription)),)
    for version, subscription in enumerate((SUBSCRIPTION, SUBSCRIPTION | {"ownedPartitions": []}))
)
"""The protocols that members support, and the same with another metadata."""
AGAIN = 0.15
FORGET = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)


class Rejoin(Exception):
    """Another generation has begun or will begin."""


class Fenced(Exception):
    """Another member has taken this one's instance id: this one ends."""


class Member:
    """A member of a classic group. who: its name, and the instance id of a static member."""

    def __init__(self, world: World, who: str, group: str, *, is_static: bool) -> None:
        self.world, self.who, self.group = world, who, group
        self.instance_id = who if is_static else None
        self.session_timeout_ms = STATIC_SESSION_MS if is_static else SESSION_MS
        self.member_id = ""
        self.generation = -1
        self.assignment: list[int] | None = None
        self.protocols = RANGE

    @property
    def owner(self) -> str:
        """Return the name under which the checks know it."""
        return self.instance_id or self.member_id

    def forget(self) -> None:
        """Give up the membership."""
        self.member_id, self.generation, self.assignment = "", -1, None

    async def _ask(self, request: Any) -> Any:
        async def run(node: Node) -> Any:
            return await node.broker.groups.handle(self.group, request)

        return await self.world.network.ask(self.who, type(request).__name__, run)

    def heed(self, code: ErrorCode) -> None:
        """Raise Fenced or Rejoin where the error asks for it."""
        if code == ErrorCode.FENCED_INSTANCE_ID:
            raise Fenced
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.forget()
        if code != ErrorCode.NONE:
            raise Rejoin

    # joining

    async def join(self) -> list[int]:
        """Become a member, and be assigned partitions. Raises Rejoin, Lost, CoordinatorError, Fenced."""
        self.assignment = None
        joined = await self._join()
        if joined.error == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
            joined = await self._join()
        self.heed(joined.error)
        self.member_id, self.generation = joined.member_id, joined.generation
        leads = joined.leader == joined.member_id and not joined.skip_assignment
        shares = _share([each.member_id for each in joined.members], INPUTS) if leads else {}
        self.assignment = await self._sync(shares)
        return self.assignment

    async def _join(self) -> JoinAnswer:
        if not self.world.is_calm and self.world.random.random() < 0.1:
            self.protocols = OTHER if self.protocols is RANGE else RANGE
        request = JoinGroup(
            group_id=self.group,
            member_id=self.member_id,
            instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=self.protocols,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=REBALANCE_MS,
            client_id=self.who,
            client_host="/127.0.0.1",
            requires_known_member_id=True,
            can_skip_assignment=True,
        )

        async def run(node: Node) -> JoinAnswer:
            self.world.owners.said(self.group, request.member_id, set())
            try:
                answer: JoinAnswer = await node.broker.groups.handle(self.group, request)
            finally:
                self.world.owners.said(self.group, request.member_id, set())
            if answer.error == ErrorCode.NONE and self.world.is_classic(self.group):
                self.world.generations.joined(self.group, answer.generation)
            return answer

        answer: JoinAnswer = await self.world.network.ask(self.who, "JoinGroup", run, patience_ms=JOIN_PATIENCE_MS)
        return answer

    async def _sync(self, shares: dict[str, bytes]) -> list[int]:
        request = SyncGroup(
            group_id=self.group,
            member_id=self.member_id,
            instance_id=self.instance_id,
            generation=self.generation,
            protocol_type=None,
            protocol=None,
            assignments=shares,
        )
        owner, generation = self.owner, self.generation

        async def run(node: Node) -> SyncAnswer:
            answer: SyncAnswer = await node.broker.groups.handle(self.group, request)
            if answer.error == ErrorCode.NONE and node.is_alive:
                self._note_assigned(node, request.member_id, owner, generation, answer)
            return answer

        what = f"SyncGroup {generation}"
        try:
            answer: SyncAnswer = await self.world.network.ask(self.who, what, run, again_ms=self._again_ms())
        except Lost:
            answer = await self.world.network.ask(self.who, what, run, patience_ms=JOIN_PATIENCE_MS)
        self.heed(answer.error)
        return numbers_of(answer.assignment)

    def _again_ms(self) -> int:
        """Return when a request with a generation is repeated, if at all; the generation may be over by then."""
        random = self.world.random
        return random.choice([500, 2_000, 8_000]) if not self.world.is_calm and random.random() < AGAIN else 0

    def _note_assigned(self, node: Node, member_id: str, owner: str, generation: int, answer: SyncAnswer) -> None:
        numbers = numbers_of(answer.assignment)
        if self.world.is_classic(self.group):
            self.world.generations.assigned(self.group, generation, owner, numbers)
        else:
            members = epochs(node, self.group, generation, answer)
            self.world.owners.told(self.group, member_id, generation, set(numbers), members)

    # being a member

    async def heartbeat(self) -> None:
        """Send a heartbeat. Raises Rejoin, Lost, CoordinatorError, Fenced."""
        request = Heartbeat(
            group_id=self.group, member_id=self.member_id, instance_id=self.instance_id, generation=self.generation
        )
        self.heed(await self._ask(request))

    async def commit(self, number: int, offset: int) -> None:
        """Commit an offset outside of a transaction. Raises Rejoin, Lost, CoordinatorError, Fenced."""
        request = self.commit_request([(number, offset)])
        place, owner = (self.group, number), self.owner
        commits = self.world.commits

        async def run(node: Node) -> CommitAnswer:
            begun = commits.begins(place, offset)
            answer: CommitAnswer = await node.broker.groups.handle(self.group, request)
            if node.is_alive and answer.error == ErrorCode.NONE:
                commits.acknowledged(place, begun)
                self._note_commit(node, number, owner, request, answer)
            elif node.is_alive:
                commits.refused(place, begun)
            return answer

        what = f"OffsetCommit {number}: {offset}"
        answer = await self.world.network.ask(self.who, what, run, again_ms=self._again_ms())
        self.heed(answer.error)

    def _note_commit(self, node: Node, number: int, owner: str, request: CommitOffsets, answer: CommitAnswer) -> None:
        if self.world.is_classic(self.group):
            self.world.generations.committed(self.group, request.generation, owner)
        else:
            members = epochs(node, self.group, request.generation, answer)
            self.world.owners.committed(self.group, request.member_id, number, members)

    def commit_request(self, offsets: Sequence[tuple[int, int]]) -> CommitOffsets:
        """Return an OffsetCommit request."""
        return CommitOffsets(
            group_id=self.group,
            member_id=self.member_id,
            instance_id=self.instance_id,
            generation=self.generation,
            offsets=tuple(
                OffsetToCommit(
                    topic=INPUT, topic_id=ZERO_ID, partition=number, offset=offset, leader_epoch=-1, metadata=None
                )
                for number, offset in offsets
            ),
            version=9,
        )

    async def leave(self) -> None:
        """Leave the group. Raises Lost, CoordinatorError."""
        leaver = Leaver(member_id=self.member_id, instance_id=self.instance_id)
        answer: LeaveAnswer = await self._ask(LeaveGroup(group_id=self.group, members=(leaver,)))
        assert answer.error == ErrorCode.NONE
        self.forget()


def epochs(node: Node, group: str, generation: int, answer: Any) -> dict[str, int]:
    """Return the group's members, each with the epoch that the coordinator had at that answer; in a classic group, with
    the generation of the answer."""
    described = node.groups.noted(answer, group)
    if isinstance(described, DescribedGroup):
        return dict.fromkeys((each.member_id for each in described.members), generation)
    return {each.member_id: each.epoch for each in described.members}


def _share(members: list[str], inputs: int) -> dict[str, bytes]:
    return {member_id: _assignment(list(range(i, inputs, len(members)))) for i, member_id in enumerate(sorted(members))}


def _assignment(numbers: list[int]) -> bytes:
    value = {"assignedPartitions": [{"topic": INPUT, "partitions": numbers}], "userData": None}
    return bytes(VERSION_BYTES) + write("ConsumerProtocolAssignment", 0, value)


def numbers_of(assignment: bytes) -> list[int]:
    """The partitions of an assignment."""
    if not assignment:
        return []
    value, _ = reader("ConsumerProtocolAssignment", version_of(assignment))(assignment, VERSION_BYTES)
    return [number for topic in value["assignedPartitions"] for number in topic["partitions"]]


async def fetch_offset(world: World, who: str, group: str, number: int) -> int | None:
    """Return the committed offset of the group, -1 for none; None where an open transaction may change it. Raises Lost,
    CoordinatorError."""
    topics = (FetchTopic(name=INPUT, topic_id=ZERO_ID, partitions=(number,)),)
    request = FetchOffsets(group_id=group, topics=topics, require_stable=True)

    async def run(node: Node) -> int | None:
        begun = world.commits.now()
        answer: FetchAnswer = await node.broker.groups.handle(group, request)
        (found,) = answer.topics[0][1]
        if found.error == ErrorCode.UNSTABLE_OFFSET_COMMIT:
            return None
        if node.is_alive:
            world.offset_read((group, number), found.offset, begun)
        return found.offset

    offset: int | None = await world.network.ask(who, f"OffsetFetch {group} {number}", run)
    return offset


async def until_fetched(world: World, who: str, group: str, number: int) -> int:
    """Repeat `fetch_offset` until it gives an offset. Raises Lost after a while."""
    for _ in range(40):
        try:
            offset = await fetch_offset(world, who, group, number)
        except (Lost, CoordinatorError):
            offset = None
        if offset is not None:
            return max(offset, 0)
        await world.sleep_ms(500)
    raise Lost
