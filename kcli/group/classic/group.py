"""A classic group: its members, its generation, and which of these states it is in.

    state                from                                       what happens
    Empty                PreparingRebalance                         no members; offsets may be committed by anyone
    PreparingRebalance   Empty, CompletingRebalance, Stable         members join, those of the last generation again
    CompletingRebalance  PreparingRebalance                         all have joined; the leader assigns
    Stable               CompletingRebalance                        members work, and send heartbeats

Kafka's fifth state, Dead, is what a group is called that is not there. Nothing here waits, writes or answers: that is
what the modules beside this one do. Source: ClassicGroup, ClassicGroupState.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum
from typing import Final

from kcli.group.classic.member import Member
from kcli.group.classic.subscription import subscribed_topics
from kcli.group.committed import CommittedOffset
from kcli.group.errors import ErrorCode, GroupError
from kcli.group.requests import CommitOffsets, JoinedMember, Protocols
from kcli.java import hash_map_order

CONSUMER: Final = "consumer"
"""The protocol type of consumers."""


class State(Enum):
    """See above."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


_FROM: Final = {
    State.EMPTY: {State.PREPARING_REBALANCE},
    State.PREPARING_REBALANCE: {State.STABLE, State.COMPLETING_REBALANCE, State.EMPTY},
    State.COMPLETING_REBALANCE: {State.PREPARING_REBALANCE},
    State.STABLE: {State.COMPLETING_REBALANCE},
}


class ClassicGroup:
    """See above.

    pending: ids given to members that have not come with them yet. pending_sync: members of this generation that have
    not asked for their assignment. new_member_added: in the first rebalance, one more came during the delay.
    """

    type_name = "classic"

    def __init__(self, group_id: str, now_ms: int | None) -> None:
        self.id = group_id
        self.state = State.EMPTY
        self.previous_state: State | None = None
        self.state_timestamp_ms = now_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static: dict[str, str] = {}
        self.pending: set[str] = set()
        self.pending_sync: set[str] = set()
        self.topics: frozenset[str] | None = None
        self.new_member_added = False
        self._joining = 0
        self._supported: Counter[str] = Counter()

    # as other kinds of groups

    @property
    def state_name(self) -> str:
        """As lists show it."""
        return self.state.value

    @property
    def listed_protocol_type(self) -> str:
        """As lists show it."""
        return self.protocol_type or ""

    @property
    def is_empty(self) -> bool:
        """Has it no members?"""
        return self.state is State.EMPTY

    @property
    def is_simple(self) -> bool:
        """Is it but a name under which offsets are committed?"""
        return self.is_empty and self.protocol_type is None and not self.pending

    def check_commit(self, request: CommitOffsets) -> None:
        """Members commit in their generation and outside of rebalances; anyone commits to an empty group.

        In a transaction the producer was checked, so one that names no member may commit as well (KIP-447).
        """
        is_transactional = request.producer_id >= 0
        if request.generation < 0 and self.is_empty:
            return
        if request.generation < 0 and not request.member_id and request.instance_id is None:
            if not is_transactional:
                raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
        else:
            self.check_member(request.member_id, request.instance_id)
            self.check_generation(request.generation)
        if not is_transactional and self.state is State.COMPLETING_REBALANCE:
            raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)

    def check_delete_offsets(self) -> None:
        """Of consumers it is known which topics they read; other members might read any."""
        if not self.is_empty and self.protocol_type != CONSUMER:
            raise GroupError(ErrorCode.NON_EMPTY_GROUP)

    def check_delete(self) -> None:
        """Only without members."""
        if not self.is_empty:
            raise GroupError(ErrorCode.NON_EMPTY_GROUP)

    def is_subscribed_to(self, topic: str) -> bool:
        """Does a member read that topic, or may it?"""
        return self.protocol_type == CONSUMER if self.topics is None else topic in self.topics

    def retention_begins_ms(self, offset: CommittedOffset) -> int | None:
        """Since the last member left; since the commit in a group that never had any, and for topics that no member
        reads any more (KIP-211)."""
        if self.protocol_type is None:
            return offset.commit_timestamp_ms
        if self.is_empty:
            return offset.commit_timestamp_ms if self.state_timestamp_ms is None else self.state_timestamp_ms
        if self.protocol_type == CONSUMER and self.topics is not None and self.state is State.STABLE:
            return offset.commit_timestamp_ms
        return None

    # members

    def add(self, member: Member) -> None:
        """One more member, whose protocols are supported."""
        assert member.id not in self.members, "a member once"
        if member.instance_id is not None:
            assert member.instance_id not in self.static, "a static member once"
            self.static[member.instance_id] = member.id
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader is None:
            self.leader = member.id
        self.members[member.id] = member
        self._supported.update(name for name, _ in member.protocols)
        self._joining += member.join_token is not None
        self.pending.discard(member.id)

    def remove(self, member_id: str) -> None:
        """A member goes, if it is one, or is not expected any more; another one leads where it did."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._supported.subtract(name for name, _ in member.protocols)
            self._joining -= member.join_token is not None
            if member.instance_id is not None:
                self.static.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending.discard(member_id)
        self.pending_sync.discard(member_id)

    def rename(self, member: Member, member_id: str) -> None:
        """A static member has come back under a new id."""
        assert member.instance_id is not None, "static"
        assert member.join_token is None, "answered"
        del self.members[member.id]
        if self.leader == member.id:
            self.leader = member_id
        member.id = member_id
        member.is_new = False
        self.members[member_id] = member
        self.static[member.instance_id] = member_id

    def update(self, member: Member, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int) -> None:
        """A member has come again, and says what it can do now."""
        self._supported.subtract(name for name, _ in member.protocols)
        self._supported.update(name for name, _ in protocols)
        member.protocols = protocols
        member.rebalance_timeout_ms, member.session_timeout_ms = rebalance_timeout_ms, session_timeout_ms

    def await_join(self, member: Member, token: int | None) -> None:
        """The member waits for the rebalance's end; None: not any more."""
        self._joining += (token is not None) - (member.join_token is not None)
        member.join_token = token

    @property
    def joining(self) -> int:
        """How many members wait for the rebalance's end."""
        return self._joining

    @property
    def has_all_joined(self) -> bool:
        """Is nobody missing?"""
        return self._joining == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long the slowest member may take to join again."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def check_member(self, member_id: str, instance_id: str | None) -> None:
        """Is it one? Raises GroupError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID where its instance has come back."""
        if instance_id is not None:
            known = self.static.get(instance_id)
            if known is not None and known != member_id:
                raise GroupError(ErrorCode.FENCED_INSTANCE_ID)
            if known is None:
                raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
        if member_id not in self.members:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)

    def check_generation(self, generation: int) -> None:
        """Is it this one? Raises GroupError."""
        if generation != self.generation:
            raise GroupError(ErrorCode.ILLEGAL_GENERATION)

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """What the leader is told."""
        assert self.protocol is not None, "chosen"
        return tuple(
            JoinedMember(member_id=member.id, instance_id=member.instance_id, metadata=member.metadata(self.protocol))
            for member in self.members.values()
        )

    # protocols

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Has such a member a protocol with all others in common?"""
        if self.is_empty:
            return bool(protocol_type) and any(True for _ in names)
        return protocol_type == self.protocol_type and any(self._supported[name] == len(self.members) for name in names)

    def choose_protocol(self) -> str:
        """The one with most votes of those that all members have; among equals Java's hash map decides."""
        candidates = {name for name, count in self._supported.items() if count == len(self.members)}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return max(hash_map_order(votes), key=votes.__getitem__)

    def find_topics(self) -> frozenset[str] | None:
        """The topics that consumers read; None where that is not known."""
        if self.protocol_type != CONSUMER:
            return None
        if not self.members:
            return frozenset()
        if self.protocol is None:
            return None
        return subscribed_topics(member.metadata(self.protocol) for member in self.members.values())

    # states

    def load(self) -> None:
        """The group is as the log has it."""
        self.state = State.STABLE if self.members else State.EMPTY
        self.topics = self.find_topics()

    @property
    def can_rebalance(self) -> bool:
        """Can a rebalance begin? Not while one is prepared."""
        return self.state in _FROM[State.PREPARING_REBALANCE]

    def move(self, state: State, now_ms: int) -> None:
        """Into another state."""
        assert self.state in _FROM[state], f"{self.id} from {self.state} to {state}"
        self.previous_state, self.state = self.state, state
        self.state_timestamp_ms = now_ms

    def elect(self) -> bool:
        """Is the leader among those who have joined, or another one of them in its place? False: nobody has joined."""
        if self.leader is None:
            return False
        if self.members[self.leader].join_token is None:
            joined = next((member.id for member in self.members.values() if member.join_token is not None), None)
            if joined is None:
                return False
            self.leader = joined
        return True

    def begin_generation(self, now_ms: int) -> None:
        """All have joined, or all have gone."""
        self.generation += 1
        self.protocol = self.choose_protocol() if self.members else None
        self.topics = self.find_topics()
        self.move(State.COMPLETING_REBALANCE if self.members else State.EMPTY, now_ms)
        self.pending_sync.clear()
