"""A classic group: its members, its generation, and its state.

    state                from                                       meaning
    Empty                PreparingRebalance                         no members; clients without membership may commit
    PreparingRebalance   Empty, CompletingRebalance, Stable         waits for all members to join or join again
    CompletingRebalance  PreparingRebalance                         all have joined; waits for the leader's assignment
    Stable               CompletingRebalance                        members have assignments and send heartbeats

Kafka's fifth state, Dead, is the state that describes a group which does not exist. This module sets no timers, appends
no records and answers no requests: join, sync, leave and rebalance do. Source: ClassicGroup, ClassicGroupState.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum
from typing import Final

from kcli.group.classic.member import Member
from kcli.group.classic.subscription import subscribed_topics
from kcli.group.committed import CommittedOffset
from kcli.group.errors import GroupError
from kcli.group.requests import CommitOffsets, JoinedMember, Protocols
from kcli.java.hashing import hash_map_order
from kcli.protocol.error_code import ErrorCode

CONSUMER: Final = "consumer"
"""The protocol type of consumers' groups."""


class State(Enum):
    """The states of a classic group, by their names in Kafka."""

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
    """A classic group.

    leader: id of the member that computes assignments. static: member ids by instance id.
    pending: member ids that were returned with MEMBER_ID_REQUIRED and with which no member has joined yet.
    pending_sync: ids of the members of this generation that have not sent SyncGroup.
    topics: the topics that the members subscribe to, None if they are unknown.
    new_member_added: whether a member has joined during the current initial rebalance delay.
    state_timestamp_ms: when the group entered its state, in ms since 1970; None if the log does not say so.
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
        self._common: frozenset[str] | None = frozenset()  # what `candidates` returns; None: not computed yet

    # the interface of all types of groups: kcli.group.group.Group

    @property
    def state_name(self) -> str:
        """The group's state in ListGroups."""
        return self.state.value

    @property
    def listed_protocol_type(self) -> str:
        """The group's protocol type in ListGroups, "" for none."""
        return self.protocol_type or ""

    @property
    def is_empty(self) -> bool:
        """Whether the group is in state Empty."""
        return self.state is State.EMPTY

    @property
    def is_simple(self) -> bool:
        """Whether the group is only an id for committed offsets: no members, no pending member ids, no protocol
        type."""
        return self.is_empty and self.protocol_type is None and not self.pending

    def check_commit(self, request: CommitOffsets) -> None:
        """Raises GroupError if the request may not commit offsets to the group now.

        A member commits in its current generation, and not while the group is in CompletingRebalance; a client without
        membership commits to an empty group only. A transactional commit need not name a member, and is also valid in
        CompletingRebalance (KIP-447).
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
        """Raises GroupError NON_EMPTY_GROUP if the group has members whose protocol type is not "consumer", as it is
        not known which topics such members read."""
        if not self.is_empty and self.protocol_type != CONSUMER:
            raise GroupError(ErrorCode.NON_EMPTY_GROUP)

    def check_delete(self) -> None:
        """Raises GroupError NON_EMPTY_GROUP if the group has members."""
        if not self.is_empty:
            raise GroupError(ErrorCode.NON_EMPTY_GROUP)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member subscribes to the topic. If it is not known which topics the members subscribe to: True in a
        group of consumers, False in any other group."""
        return self.protocol_type == CONSUMER if self.topics is None else topic in self.topics

    def retention_begins_ms(self, offset: CommittedOffset) -> int | None:
        """Return the time from which the offset's retention is counted, in ms since 1970; None while the offset must
        not expire (KIP-211).

        In a group that never had members it is the time of the commit; in an empty group, the time when the group
        became empty, or that of the commit if the former is not known. In a Stable group of consumers whose
        subscriptions are known it is the time of the commit: the caller keeps the offsets of subscribed topics, so only
        those of other topics expire. In any other group with members it is None.
        """
        if self.protocol_type is None:
            return offset.commit_timestamp_ms
        if self.is_empty:
            return offset.commit_timestamp_ms if self.state_timestamp_ms is None else self.state_timestamp_ms
        if self.protocol_type == CONSUMER and self.topics is not None and self.state is State.STABLE:
            return offset.commit_timestamp_ms
        return None

    # the members of the group

    def add(self, member: Member) -> None:
        """Add a member, whose protocols `supports` has accepted."""
        assert member.id not in self.members, "a member once"
        if member.instance_id is not None:
            assert member.instance_id not in self.static, "a static member once"
            self.static[member.instance_id] = member.id
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader is None:
            self.leader = member.id
        if self._common is not None:
            self._common = self._common & member.names if self.members else member.names
        self.members[member.id] = member
        self._joining += member.join_token is not None
        self.pending.discard(member.id)

    def remove(self, member_id: str) -> None:
        """Remove a member or a pending member id. If that member was the leader, the first of the other members becomes
        the leader; without other members, the group has no leader."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._common = None
            self._joining -= member.join_token is not None
            if member.instance_id is not None:
                self.static.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending.discard(member_id)
        self.pending_sync.discard(member_id)

    def rename(self, member: Member, member_id: str) -> None:
        """Give a static member its new member id, after it has joined again."""
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
        """Replace a member's protocols and timeouts (ms) by those of its new JoinGroup."""
        member.support(protocols)
        self._common = None
        member.rebalance_timeout_ms, member.session_timeout_ms = rebalance_timeout_ms, session_timeout_ms

    def await_join(self, member: Member, token: int | None) -> None:
        """Note that the JoinGroup with this token is pending for the member, and is answered at the end of the
        rebalance. token: None to note that the member has no pending JoinGroup any more."""
        self._joining += (token is not None) - (member.join_token is not None)
        member.join_token = token

    @property
    def joining(self) -> int:
        """The number of members with a pending JoinGroup."""
        return self._joining

    @property
    def has_all_joined(self) -> bool:
        """Whether all members have a pending JoinGroup, and no member id is pending."""
        return self._joining == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """The largest rebalance timeout of the members, in milliseconds; 0 without members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def check_member(self, member_id: str, instance_id: str | None) -> None:
        """Raises GroupError UNKNOWN_MEMBER_ID if there is no such member, FENCED_INSTANCE_ID if the instance id
        now belongs to another member id."""
        if instance_id is not None:
            known = self.static.get(instance_id)
            if known is not None and known != member_id:
                raise GroupError(ErrorCode.FENCED_INSTANCE_ID)
            if known is None:
                raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
        if member_id not in self.members:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)

    def check_generation(self, generation: int) -> None:
        """Raises GroupError ILLEGAL_GENERATION for any but the current generation."""
        if generation != self.generation:
            raise GroupError(ErrorCode.ILLEGAL_GENERATION)

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """The group's members with their metadata under the chosen protocol, for the leader's JoinGroup answer."""
        assert self.protocol is not None, "chosen"
        return tuple(
            JoinedMember(member_id=member.id, instance_id=member.instance_id, metadata=member.metadata(self.protocol))
            for member in self.members.values()
        )

    # the protocols that the members support

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Return whether a member with these protocols can join: its protocol type is the group's, and all members
        support one of its protocols. An empty group accepts every protocol type but "", with at least one protocol."""
        if self.is_empty:
            return bool(protocol_type) and any(True for _ in names)
        if protocol_type != self.protocol_type:
            return False
        return not self.candidates().isdisjoint(names) if self.members else any(True for _ in names)

    def candidates(self) -> frozenset[str]:
        """Return the protocols that all members support. The set is computed here, on demand, and not updated for
        each member: updates for many leaving members with tens of thousands of protocols each would block the event
        loop."""
        if self._common is None:
            fewest, *others = sorted((each.names for each in self.members.values()), key=len) or [frozenset[str]()]
            self._common = fewest.intersection(*others)
        return self._common

    def choose_protocol(self) -> str:
        """Return the protocol with the most votes among those that all members support. Of several with equal votes,
        the first in the order of Java's HashMap wins, as in Kafka."""
        candidates = self.candidates()
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return max(hash_map_order(votes), key=votes.__getitem__)

    def find_topics(self) -> frozenset[str] | None:
        """Return the topics that the members subscribe to; None if they are not consumers, or their metadata is
        unreadable."""
        if self.protocol_type != CONSUMER:
            return None
        if not self.members:
            return frozenset()
        if self.protocol is None:
            return None
        return subscribed_topics(member.metadata(self.protocol) for member in self.members.values())

    # changes of the group's state

    def load(self) -> None:
        """Set `state` and `topics` of a group whose members were read from the log: Stable with members, else Empty."""
        self.state = State.STABLE if self.members else State.EMPTY
        self.topics = self.find_topics()

    @property
    def can_rebalance(self) -> bool:
        """Whether a rebalance can begin: not in state PreparingRebalance."""
        return self.state in _FROM[State.PREPARING_REBALANCE]

    def move(self, state: State, now_ms: int) -> None:
        """Enter another state, which must be one that the module docstring's table allows. now_ms: in ms since 1970."""
        assert self.state in _FROM[state], f"{self.id} from {self.state} to {state}"
        self.previous_state, self.state = self.state, state
        self.state_timestamp_ms = now_ms

    def elect(self) -> bool:
        """Return whether a member has joined the rebalance. If the leader has not joined it, the first member that has
        joined it becomes the new leader."""
        if self.leader is None:
            return False
        if self.members[self.leader].join_token is None:
            joined = next((member.id for member in self.members.values() if member.join_token is not None), None)
            if joined is None:
                return False
            self.leader = joined
        return True

    def begin_generation(self, now_ms: int) -> None:
        """Begin the next generation with the group's members, and enter CompletingRebalance; without members, enter
        Empty."""
        self.generation += 1
        self.protocol = self.choose_protocol() if self.members else None
        self.topics = self.find_topics()
        self.move(State.COMPLETING_REBALANCE if self.members else State.EMPTY, now_ms)
        self.pending_sync.clear()
