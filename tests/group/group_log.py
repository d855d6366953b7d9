"""A group machine with its log, as a broker runs it: its records are replayed, then its answers are sent."""

from __future__ import annotations

from itertools import count
from typing import Any

from kcli.coordinator.machine import Outcome, Pair
from kcli.group import requests
from kcli.group.config import GroupConfig
from kcli.group.machine import GroupMachine
from kcli.group.metadata import Metadata
from kcli.group.records import Record, parse
from kcli.group.requests import (
    CommitAnswer,
    CommitOffsets,
    FetchAnswer,
    FetchedOffset,
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

GROUP = "g"
SESSION_MS, REBALANCE_MS = 10_000, 60_000
RANGE = (("range", b"\x00\x01\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff\x00\x00\x00\x00"),)
"""The assignor, and a subscription to the topic t."""


class Running:
    """A running group machine. Its time stands still except in `pass_time`."""

    metadata: Metadata | None = None

    def __init__(self, **config: Any) -> None:
        self.config = GroupConfig(**config)
        self.now_ms = 1_000_000
        self.log: list[tuple[Pair, int, int]] = []
        self.answers: dict[int, Any] = {}
        self._tokens = count(1)
        self._ids = count(1)
        self.restart()

    def restart(self) -> None:
        """A new machine from the log."""
        self.machine = GroupMachine(self.config, lambda: f"id{next(self._ids)}", self.metadata)
        for offset, ((key, value), producer_id, epoch) in enumerate(self.log):
            if key is None:
                self.machine.replay_marker(producer_id, epoch, commit=value == b"commit")
            else:
                self.machine.replay((key, value), offset, producer_id, epoch)
        self._do(self.machine.loaded(self.now_ms))

    def _do(self, outcome: Outcome) -> None:
        for batch in outcome.batches:
            for record in batch.records:
                self.log.append((record, batch.producer_id, batch.producer_epoch))
                self.machine.replay(record, len(self.log) - 1, batch.producer_id, batch.producer_epoch)
        for token, answer in outcome.answers:
            assert token not in self.answers, "answered once"
            self.answers[token] = answer

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """A marker."""
        self.log.append(((None, b"commit" if commit else b"abort"), producer_id, 0))
        self.machine.replay_marker(producer_id, 0, commit=commit)

    def pass_time(self, ms: int) -> None:
        """Let time pass, with a tick at each deadline."""
        end_ms = self.now_ms + ms
        while (deadline_ms := self.machine.deadline_ms()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self._do(self.machine.tick(self.now_ms))
        self.now_ms = end_ms

    def send(self, request: Any) -> int:
        """Give the machine a request; its answer is stored under the token."""
        token = next(self._tokens)
        self._do(self.machine.handle(token, request, self.now_ms))
        return token

    def ask(self, request: Any) -> Any:
        """Return the answer to a request that does not wait."""
        return self.answers[self.send(request)]

    def records(self) -> list[Record]:
        """What the log has, read."""
        return [record for pair, _, _ in self.log if pair[0] is not None and (record := parse(pair)) is not None]

    # requests of members

    def join(self, member_id: str = "", **values: Any) -> int:
        """JoinGroup, as version 9 says it."""
        request = {
            "group_id": GROUP,
            "member_id": member_id,
            "instance_id": None,
            "protocol_type": "consumer",
            "protocols": RANGE,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "client_id": "client",
            "client_host": "/127.0.0.1",
            "requires_known_member_id": True,
            "can_skip_assignment": True,
        } | values
        return self.send(JoinGroup(**request))

    def joined(self, token: int) -> JoinAnswer:
        """The answer to a JoinGroup."""
        answer: JoinAnswer = self.answers[token]
        return answer

    def join_new(self, **values: Any) -> tuple[str, int]:
        """Let a new dynamic member get its id and join with it; return the id and the token of the waiting
        JoinGroup."""
        refused = self.joined(self.join(**values))
        assert refused.error == ErrorCode.MEMBER_ID_REQUIRED
        return refused.member_id, self.join(refused.member_id, **values)

    def sync(self, member_id: str, generation: int, assignments: dict[str, bytes] | None = None, **values: Any) -> int:
        """SyncGroup; with assignments, as the leader."""
        request = {
            "group_id": GROUP,
            "member_id": member_id,
            "instance_id": None,
            "generation": generation,
            "protocol_type": None,
            "protocol": None,
            "assignments": assignments or {},
        } | values
        return self.send(SyncGroup(**request))

    def synced(self, token: int) -> SyncAnswer:
        """The answer to a SyncGroup."""
        answer: SyncAnswer = self.answers[token]
        return answer

    def heartbeat(self, member_id: str, generation: int, instance_id: str | None = None) -> ErrorCode:
        """Heartbeat."""
        request = Heartbeat(group_id=GROUP, member_id=member_id, instance_id=instance_id, generation=generation)
        code: ErrorCode = self.ask(request)
        return code

    def leave(self, *members: tuple[str, str | None]) -> list[ErrorCode]:
        """LeaveGroup: an error for each."""
        leavers = tuple(Leaver(member_id=member_id, instance_id=instance) for member_id, instance in members)
        answer: LeaveAnswer = self.ask(LeaveGroup(group_id=GROUP, members=leavers))
        assert answer.error == ErrorCode.NONE
        return [each.error for each in answer.members]

    def stable(self, count: int, **values: Any) -> list[str]:
        """Make a group with that many dynamic members, in its first generation, the leader first."""
        waiting = dict(self.join_new(**values) for _ in range(count))
        self.pass_time(self.config.classic_initial_rebalance_delay_ms * 2)
        leader = self.joined(next(iter(waiting.values()))).leader
        self.assign(leader, [member_id for member_id in waiting if member_id != leader], 1)
        return [leader, *(member_id for member_id in waiting if member_id != leader)]

    def assign(self, leader: str, others: list[str], generation: int) -> None:
        """Let all members send SyncGroup, the leader last: each is assigned its own id."""
        tokens = {each: self.sync(each, generation) for each in others}
        assignments = {each: each.encode() for each in (leader, *others)}
        tokens[leader] = self.sync(leader, generation, assignments)
        assert all(self.synced(token).assignment == each.encode() for each, token in tokens.items())

    def state(self, group_id: str = GROUP) -> requests.DescribedGroup:
        """DescribeGroups."""
        described: requests.DescribedGroup = self.ask(requests.DescribeGroup(group_id=group_id))
        return described

    # offsets

    def commit(
        self,
        offset: int,
        member_id: str = "",
        generation: int = -1,
        *,
        topic: str = "t",
        partition: int = 0,
        **values: Any,
    ) -> CommitAnswer:
        """OffsetCommit of one partition."""
        metadata = values.pop("metadata", "m")
        each = OffsetToCommit(
            topic=topic,
            topic_id=values.pop("topic_id", requests.ZERO_ID),
            partition=partition,
            offset=offset,
            leader_epoch=-1,
            metadata=metadata,
        )
        request = {
            "group_id": GROUP,
            "member_id": member_id,
            "instance_id": None,
            "generation": generation,
            "offsets": (each,),
            "version": 9,
        } | values
        answer: CommitAnswer = self.ask(CommitOffsets(**request))
        return answer

    def fetch(
        self, *, topic: str = "t", partition: int = 0, topic_id: str = requests.ZERO_ID, require_stable: bool = False
    ) -> FetchedOffset:
        """OffsetFetch of one partition."""
        topics = (FetchTopic(name=topic, topic_id=topic_id, partitions=(partition,)),)
        answer: FetchAnswer = self.ask(FetchOffsets(group_id=GROUP, topics=topics, require_stable=require_stable))
        return answer.topics[0][1][0]

    def committed(self) -> dict[tuple[str, int], int]:
        """All offsets of the group."""
        answer: FetchAnswer = self.ask(FetchOffsets(group_id=GROUP, topics=None, require_stable=False))
        return {(topic.name, each.partition): each.offset for topic, offsets in answer.topics for each in offsets}
