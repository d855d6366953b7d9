"""A member of a consumer group of KIP-848: it sends ConsumerGroupHeartbeat, and the coordinator assigns partitions.

The member has an assigned partition at once, and revokes a partition before its next heartbeat.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.group.requests import ConsumerHeartbeat, ConsumerHeartbeatAnswer
from kcli.protocol.error_code import ErrorCode
from tests.sim.member import REBALANCE_MS, Fenced, Member, Rejoin, epochs
from tests.sim.node import INPUT, INPUT_ID

if TYPE_CHECKING:
    from tests.sim.node import Node

JOINING, LEAVING, LEAVING_STATIC = 0, -1, -2
FORGET = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)


class ConsumerMember(Member):
    """A member of a consumer group. generation: its member epoch; assignment: the partitions that it has."""

    async def join(self) -> list[int]:
        if self.generation <= JOINING:
            self.member_id = self.member_id or f"{self.who}-{self.world.next_commit()}"
            self.generation, self.assignment = JOINING, []
        if await self._beat(self.generation):
            # this heartbeat tells the coordinator which partitions the member has revoked
            await self._beat(self.generation)
        return list(self.assignment or [])

    async def heartbeat(self) -> None:
        if await self._beat(self.generation):
            raise Rejoin

    async def leave(self) -> None:
        await self._send(LEAVING)
        self.forget()

    def heed(self, code: ErrorCode) -> None:
        if code == ErrorCode.FENCED_INSTANCE_ID:
            raise Fenced
        if code in FORGET:
            self.generation, self.assignment = -1, None
        if code != ErrorCode.NONE:
            raise Rejoin

    async def _beat(self, epoch: int) -> bool:
        """Send one heartbeat. Returns whether the assignment has changed. Raises Rejoin, Lost, CoordinatorError,
        Fenced."""
        answer = await self._send(epoch)
        self.heed(answer.error)
        self.generation = answer.epoch
        if answer.assignment is None:
            return False
        before, self.assignment = self.assignment, sorted(answer.assignment.get(INPUT_ID, ()))
        return before != self.assignment

    async def _send(self, epoch: int) -> ConsumerHeartbeatAnswer:
        member_id, group = self.member_id, self.group
        owned = tuple(self.assignment or ())
        request = ConsumerHeartbeat(
            group_id=group,
            member_id=member_id,
            epoch=epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=REBALANCE_MS,
            topics=frozenset({INPUT}),
            owned={INPUT_ID: owned} if owned else {},
            client_id=self.who,
            client_host="/127.0.0.1",
        )

        async def run(node: Node) -> ConsumerHeartbeatAnswer:
            self.world.owners.said(group, member_id, set(owned))
            try:
                answer: ConsumerHeartbeatAnswer = await node.broker.groups.handle(group, request)
            finally:
                self.world.owners.said(group, member_id, set(owned))
            if answer.error == ErrorCode.NONE and node.is_alive:
                partitions = set((answer.assignment or {}).get(INPUT_ID, ()))
                members = epochs(node, group, answer.epoch, answer)
                self.world.owners.told(group, member_id, answer.epoch, partitions, members)
            return answer

        answer: ConsumerHeartbeatAnswer = await self.world.network.ask(self.who, f"Heartbeat {epoch} {owned}", run)
        return answer
