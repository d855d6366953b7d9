"""The group "g" on its coordinator, of which a transcript tells event after event (tests/group/transcripts/*.txt).

Members of the classic protocol:

    > join a                     JoinGroup of client a, with the member id that it was given, or with none
    > join a as i1               the same of a static member; also: session MS, timeout MS (of a rebalance)
    > sync a                     SyncGroup of a follower
    > sync a a=0,1 b=2,3         SyncGroup of the leader, with everybody's assignment (bytes to the coordinator)
    > heartbeat a [generation 1] Heartbeat
    > leave a                    LeaveGroup
    > forget a                   client a is restarted, and knows neither member id nor generation

Members of the consumer protocol (KIP-848), whose ids are their own:

    > subscribe b orders [as i1] ConsumerGroupHeartbeat with epoch 0: b joins; /REGEX/ subscribes by regular expression
    > beat b [epoch 3]           ConsumerGroupHeartbeat: b says which partitions it owns, and takes what it is given;
                                 with "owns orders=0,1" it says that instead
    > leave b [to return]        ConsumerGroupHeartbeat with epoch -1; with -2 of a static member that will be back

And for all:

    > topic orders 4             create a topic, or give it that many partitions
    > commit b orders 0 17       OffsetCommit: offset 17 of partition 0, in b's generation or epoch, or in "epoch 2"
    > wait 3000                  3,000 ms pass
    > reload                     another broker becomes coordinator: it loads the log, and nothing else
    > show                       the members

What comes of it, in this order: records that are appended to __consumer_offsets, answers, the state of the group where
that has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from uuid import UUID

from formats.message import uuid_text
from kcli.coordinator.machine import Outcome, Pair
from kcli.group.consumer.member import LEAVING, LEAVING_STATIC, MemberState
from kcli.group.records import Record, parse
from kcli.group.requests import (
    CommitAnswer,
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswer,
    DescribedGroup,
    Heartbeat,
    JoinAnswer,
    LeaveAnswer,
    LeaveGroup,
    Leaver,
    SyncAnswer,
)
from kcli.protocol.error_code import ErrorCode
from tests.group.consumer.fixture import Cluster
from tests.group.group_log import GROUP, REBALANCE_MS, SESSION_MS


@dataclass
class Member:
    """A client's state of its membership. id: "" until the coordinator gives one. epoch and owned: of the consumer
    protocol."""

    name: str
    id: str = ""
    instance_id: str | None = None
    generation: int = -1
    epoch: int | None = None
    owned: dict[UUID, tuple[int, ...]] = field(default_factory=dict)

    @property
    def is_consumer(self) -> bool:
        """Does it speak the consumer protocol?"""
        return self.epoch is not None


class Story(Cluster):
    """The group of a transcript. waiting: by token, the client whose request is not answered yet."""

    def __init__(self, **config: Any) -> None:
        self.members: dict[str, Member] = {}
        self.waiting: dict[int, Member] = {}
        self.lines: list[str] = []
        self.is_telling = False
        super().__init__(**config)
        self._tokens = count(1)
        self.state_told = ""

    def play(self, words: list[str]) -> list[str]:
        """Run one command of the tables on top of this module."""
        name, *arguments = words
        self.lines = []
        getattr(self, f"_{name}")(*arguments)
        self._tell_state()
        return self.lines

    # commands

    def _topic(self, name: str, partitions: str) -> None:
        (self.create if self.topics.topic_id(name) is None else self.grow)(name, int(partitions))

    def _join(self, name: str, *words: str) -> None:
        member = self._member(name)
        options = _options(words)
        member.instance_id = options.get("as", member.instance_id)
        timeouts = {
            "session_timeout_ms": int(options.get("session", SESSION_MS)),
            "rebalance_timeout_ms": int(options.get("timeout", REBALANCE_MS)),
        }
        self._by(member, lambda: self.join(member.id, instance_id=member.instance_id, client_id=name, **timeouts))

    def _sync(self, name: str, *assigned: str) -> None:
        member = self._member(name)
        pairs = (each.split("=") for each in assigned)
        assignments = {self._member(of).id: partitions.encode() for of, partitions in pairs}
        values = {"instance_id": member.instance_id}
        self._by(member, lambda: self.sync(member.id, member.generation, assignments, **values))

    def _heartbeat(self, name: str, *words: str) -> None:
        member = self._member(name)
        generation = int(_options(words).get("generation", member.generation))
        request = Heartbeat(group_id=GROUP, member_id=member.id, instance_id=member.instance_id, generation=generation)
        self._by(member, lambda: self.send(request))

    def _leave(self, name: str, *words: str) -> None:
        member = self._member(name)
        if member.is_consumer:
            self._consumer(member, LEAVING_STATIC if words else LEAVING)
        else:
            leaver = Leaver(member_id=member.id, instance_id=member.instance_id)
            self._by(member, lambda: self.send(LeaveGroup(group_id=GROUP, members=(leaver,))))

    def _forget(self, name: str) -> None:
        member = self._member(name)
        member.id, member.generation = "", -1

    def _subscribe(self, name: str, *words: str) -> None:
        topics = words[: words.index("as") if "as" in words else None]
        member = self._member(name)
        member.id, member.owned = name, {}
        member.instance_id = _options(words[len(topics) :]).get("as")
        if topics[0].startswith("/"):
            wanted: dict[str, Any] = {"regex": topics[0].strip("/"), "topics": frozenset()}
        else:
            wanted = {"topics": frozenset(topics)}
        self._consumer(member, 0, owned={}, rebalance_timeout_ms=REBALANCE_MS, **wanted)

    def _beat(self, name: str, *words: str) -> None:
        member = self._member(name)
        assert member.epoch is not None, "it has subscribed"
        options = _options(words)
        if "owns" in options:
            topic, _, numbers = options["owns"].partition("=")
            topic_id = self.topics.topic_id(topic)
            assert topic_id is not None, "there is such a topic"
            member.owned = {topic_id: tuple(map(int, numbers.split(",")))}
        self._consumer(member, int(options.get("epoch", member.epoch)), owned=member.owned)

    def _consumer(self, member: Member, epoch: int, **values: Any) -> None:
        request = ConsumerHeartbeat(
            group_id=GROUP,
            member_id=member.id,
            epoch=epoch,
            instance_id=member.instance_id,
            client_id=member.name,
            client_host="/127.0.0.1",
            **values,
        )
        self._by(member, lambda: self.send(request))

    def _commit(self, name: str, topic: str, partition: str, offset: str, *words: str) -> None:
        member = self._member(name)
        epoch = int(_options(words).get("epoch", member.generation if member.epoch is None else member.epoch))
        self._by(
            member,
            lambda: self.commit(
                int(offset), member.id, epoch, topic=topic, partition=int(partition), instance_id=member.instance_id
            ),
        )

    def _wait(self, duration_ms: str) -> None:
        begun_ms, told = self.now_ms, 0
        until_ms = begun_ms + int(duration_ms)
        while (due_ms := self.machine.deadline_ms()) is not None and due_ms <= until_ms:
            self.pass_time(max(0, due_ms - self.now_ms))
            self._tell_state()
            if len(self.lines) > told:
                self.lines.insert(told, f"after {self.now_ms - begun_ms:,} ms")
                told = len(self.lines)
        self.now_ms = until_ms

    def _reload(self) -> None:
        self.waiting.clear()
        self.restart()

    def _show(self) -> None:
        described = self.state()
        if described.error:
            self.lines += self._shown_consumer()
        else:
            self.lines += _shown_classic(described)

    def _shown_consumer(self) -> Iterator[str]:
        group = self.describe()
        yield f"{group.state}, group epoch {group.epoch}, target assignment of epoch {group.assignment_epoch}"
        for each in group.members:
            instance = f" ({each.instance_id})" if each.instance_id else ""
            epoch = "will be back" if each.epoch == LEAVING_STATIC else f"epoch {each.epoch}"
            owned, target = self._partitions(each.assignment), self._partitions(each.target)
            yield f"{each.member_id}{instance}  {epoch}, has {owned}, shall have {target}"

    # what comes of a command

    def _member(self, name: str) -> Member:
        return self.members.setdefault(name, Member(name))

    def _by(self, member: Member, send: Callable[[], object]) -> None:
        """Send a request of that client, and report its result."""
        self.sender = member
        self.is_telling = True
        try:
            send()
        finally:
            self.is_telling = False

    def send(self, request: Any) -> int:
        """The next token is the request's."""
        token = next(self._tokens)
        if self.is_telling:
            self.waiting[token] = self.sender
        self._do(self.machine.handle(token, request, self.now_ms))
        return token

    def _do(self, outcome: Outcome) -> None:
        for appended in outcome.batches:
            self.lines += [f"appends {line}" for each in appended.records if (line := self._record(each))]
        super()._do(outcome)
        for token, answer in outcome.answers:
            member = self.waiting.pop(token, None)
            if member is not None:
                self.lines.append(f"{member.name} <- {self._answer(member, answer)}")

    def _tell_state(self) -> None:
        """Report the group's state if it has changed."""
        groups = self.machine._shard.groups
        state = f"{groups[GROUP].type_name} group, {groups[GROUP].state_name}" if GROUP in groups else "no group"
        if state not in (self.state_told, self.state_told or "no group"):
            self.lines.append(state)
        self.state_told = state

    def _answer(self, member: Member, answer: Any) -> str:
        match answer:
            case JoinAnswer():
                return _joined(member, answer)
            case SyncAnswer() if not answer.error:
                return f"SyncGroup: assignment {answer.assignment.decode() or 'empty'}"
            case SyncAnswer():
                return f"SyncGroup: {answer.error.name}"
            case LeaveAnswer():
                return f"LeaveGroup: {answer.members[0].error.name}"
            case CommitAnswer():
                errors = [answer.error, *answer.errors.values()]
                return f"OffsetCommit: {max(errors).name}"
            case ConsumerHeartbeatAnswer() if answer.error:
                return f"{answer.error.name}: {answer.error_message}"
            case ConsumerHeartbeatAnswer():
                member.epoch = answer.epoch
                if answer.epoch < 0:
                    return f"epoch {answer.epoch}"
                if answer.assignment is None:
                    return f"epoch {answer.epoch}, assignment as before"
                member.owned = {topic_id: numbers for topic_id, numbers in answer.assignment.items() if numbers}
                return f"epoch {answer.epoch}, assignment {self._partitions(answer.assignment)}"
            case ErrorCode():
                return f"Heartbeat: {answer.name}"
            case _:
                raise AssertionError(f"{answer} is no answer to a member")

    def _record(self, pair: Pair) -> str | None:
        """Describe a record of __consumer_offsets; None for a kind that transcripts leave out."""
        record = parse(pair)
        if record is None:
            return None
        name = record.key_name.removesuffix("Key")
        of = record.key.get("memberId") or record.key.get("regularExpression")
        who = f"{name} of {of}" if of else name
        return f"{who}: tombstone" if record.value is None else f"{who}: {self._value(record, record.value)}"

    def _value(self, record: Record, value: Mapping[str, Any]) -> str:
        match record.key_name.removesuffix("Key"):
            case "GroupMetadata":
                members = [
                    f"{each['memberId']} = {each['assignment'].decode() or 'empty'}" for each in value["members"]
                ]
                leader = f"leader {value['leader']}" if members else "no members"
                return ", ".join([f"generation {value['generation']}", leader, *members])
            case "OffsetCommit":
                return f"{record.key['topic']} {record.key['partition']} at offset {value['offset']}"
            case "ConsumerGroupMetadata":
                return f"group epoch {value['epoch']}"
            case "ConsumerGroupMemberMetadata":
                regex = value["subscribedTopicRegex"]
                topics = f"/{regex}/" if regex else ", ".join(value["subscribedTopicNames"])
                instance = f", instance {value['instanceId']}" if value["instanceId"] else ""
                return f"subscribes to {topics}{instance}"
            case "ConsumerGroupTargetAssignmentMetadata":
                return f"target assignment of epoch {value['assignmentEpoch']}"
            case "ConsumerGroupTargetAssignmentMember":
                return f"shall have {self._topics(value['topicPartitions'])}"
            case "ConsumerGroupCurrentMemberAssignment":
                revoking = value["partitionsPendingRevocation"]
                must_revoke = f", must give away {self._topics(revoking)}" if revoking else ""
                state = MemberState(value["state"]).name
                has = self._topics(value["assignedPartitions"])
                return f"epoch {value['memberEpoch']}, {state}, has {has}{must_revoke}"
            case "ConsumerGroupRegularExpression":
                return f"matches {', '.join(value['topics']) or 'no topic'}"
            case _:
                return ""

    def _topics(self, topics: Iterable[Mapping[str, Any]]) -> str:
        """Partitions as records have them."""
        ids = {uuid_text(topic_id.bytes): topic_id for topic_id in self.topics.ids()}
        return self._partitions({ids[each["topicId"]]: each["partitions"] for each in topics})

    def _partitions(self, partitions: Mapping[UUID, Sequence[int]]) -> str:
        """ "orders 0, 1; payments 0": by topic."""
        topics = [
            f"{self.topics.topic_name(topic_id)} {', '.join(map(str, numbers))}"
            for topic_id, numbers in partitions.items()
            if numbers
        ]
        return "; ".join(sorted(topics)) or "nothing"


def _options(words: Sequence[str]) -> dict[str, str]:
    """Words two by two."""
    return dict(zip(words[::2], words[1::2], strict=True))


def _joined(member: Member, answer: JoinAnswer) -> str:
    if answer.member_id:
        member.id = answer.member_id
    if answer.error:
        given = f", member id {answer.member_id}" if answer.error == ErrorCode.MEMBER_ID_REQUIRED else ""
        return f"JoinGroup: {answer.error.name}{given}"
    member.generation = answer.generation
    said = f"JoinGroup: generation {answer.generation}, member id {answer.member_id}, leader {answer.leader}"
    if answer.members:
        said += f", members {', '.join(each.member_id for each in answer.members)}"
    return said + (", assignment to be skipped" if answer.skip_assignment else "")


def _shown_classic(described: DescribedGroup) -> Iterator[str]:
    yield f"{described.state}, protocol {described.protocol or 'none'}"
    for each in described.members:
        instance = f" ({each.instance_id})" if each.instance_id else ""
        yield f"{each.member_id}{instance}  assignment {each.assignment.decode() or 'none'}"
