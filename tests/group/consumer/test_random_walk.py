"""Members of both protocols join, commit, fall silent, lose answers, leave and come back in any order; topics are
created, grow and are deleted; and the coordinator crashes.

After every step no partition has two owners, and no member that is not fenced owns a partition that was not assigned to
it. Now and then a machine is loaded from the log and must have the same group. At the end the living members get time:
the group must be stable with exactly these members, and every subscribed partition have one owner. The failing test's
name has the seed.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any
from uuid import UUID

import pytest

from formats.message import parse
from formats.message_writer import write
from kcli.group.consumer.group import ConsumerGroup
from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicIdPartition
from tests.group.consumer.fixture import TIMEOUT_MS, Cluster
from tests.group.group_log import GROUP, SESSION_MS

STEPS = 120
TOPICS = ("a", "b", "ab")
Held = set[TopicIdPartition]


class Modern:
    """A member of the new protocol."""

    def __init__(self, cluster: Cluster, random: Random, name: str, instance_id: str | None) -> None:
        self.cluster, self.random, self.name, self.instance_id = cluster, random, name, instance_id
        self.lives = 0
        self.reset()
        self.subscribe()

    def reset(self) -> None:
        self.lives += 1
        self.id, self.epoch = f"{self.name}-{self.lives}", 0
        self.held: Held = set()

    def subscribe(self) -> None:
        self.regex = self.random.choice([None, "a.*", "b|ab"])
        self.topics = frozenset(self.random.sample(TOPICS, self.random.randint(self.regex is None, 2)))
        self.has_news = True

    def act(self, *, loses_answer: bool = False) -> None:
        values: dict[str, Any] = {"instance_id": self.instance_id, "owned": by_topic(self.held)}
        if self.has_news or not self.epoch:
            values |= {"topics": self.topics, "regex": self.regex or "", "rebalance_timeout_ms": TIMEOUT_MS}
            values["assignor"] = self.random.choice([None, "range", "uniform"])
        answer = self.cluster.beat(self.id, self.epoch, **values)
        if loses_answer and self.epoch:
            return
        if answer.error in (ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.UNKNOWN_SERVER_ERROR):
            return  # Kafka gives this error where a classic group has not had its first generation yet
        if answer.error:
            assert answer.error in (
                *(ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID),
                ErrorCode.GROUP_ID_NOT_FOUND,
            )
            self.reset()
            return
        self.has_news = False
        self.epoch = answer.epoch
        if answer.assignment is not None:
            self.held = {(topic_id, number) for topic_id, numbers in answer.assignment.items() for number in numbers}

    def leave(self) -> None:
        for_good = self.instance_id is None or self.random.random() < 0.3
        self.cluster.beat(self.id, -1 if for_good else -2, instance_id=self.instance_id)
        self.reset()


class Classic:
    """A member of the classic protocol, with eager rebalances."""

    instance_id = None

    def __init__(self, cluster: Cluster, random: Random) -> None:
        self.cluster, self.random = cluster, random
        self.reset()

    def reset(self) -> None:
        self.id, self.generation, self.has_synced = "", -1, False
        self.waiting: int | None = None
        self.held: Held = set()

    def subscribe(self) -> None:
        """It always reads the same."""

    def act(self, *, loses_answer: bool = False) -> None:
        if self.waiting is not None:
            self.hear()
        elif self.generation < 0:
            self.join()
        elif not self.has_synced:
            self.sync()
        else:
            code = self.cluster.heartbeat(self.id, self.generation)
            if loses_answer:
                return
            if code == ErrorCode.REBALANCE_IN_PROGRESS:
                self.held, self.generation = set(), -1
            elif code:
                self.reset()

    def join(self) -> None:
        value = {"topics": ["a"], "userData": None, "ownedPartitions": []}
        metadata = b"\0\1" + write("ConsumerProtocolSubscription", 1, value)
        self.waiting = self.cluster.join(self.id, protocols=(("range", metadata),))
        self.hear()

    def hear(self) -> None:
        assert self.waiting is not None
        if self.waiting not in self.cluster.answers:
            return
        joined = self.cluster.joined(self.waiting)
        self.waiting = None
        if joined.error == ErrorCode.MEMBER_ID_REQUIRED:
            self.id = joined.member_id
        elif joined.error == ErrorCode.UNKNOWN_MEMBER_ID:
            self.reset()
        elif not joined.error:
            self.id, self.generation, self.has_synced = joined.member_id, joined.generation, False
            self.members = [each.member_id for each in joined.members] if joined.leader == self.id else []

    def sync(self) -> None:
        cluster = self.cluster
        topic_id = cluster.topics.topic_id("a")
        count = 0 if topic_id is None else cluster.topics.partition_count(topic_id)
        assignments = {}
        for rank, member_id in enumerate(self.members):
            numbers = list(range(rank, count, len(self.members)))
            value = {"assignedPartitions": [{"topic": "a", "partitions": numbers}], "userData": None}
            assignments[member_id] = b"\0\1" + write("ConsumerProtocolAssignment", 1, value)
        token = cluster.sync(self.id, self.generation, assignments)
        if token not in cluster.answers:
            return
        synced = cluster.synced(token)
        if synced.error == ErrorCode.REBALANCE_IN_PROGRESS:
            self.generation = -1
        elif synced.error:
            self.reset()
        else:
            self.has_synced = True
            topics = parse("ConsumerProtocolAssignment", 1, synced.assignment[2:])["assignedPartitions"]
            self.held = {
                (topic_id, number)
                for topic in topics
                if (topic_id := cluster.topics.topic_id(topic["topic"])) is not None
                for number in topic["partitions"]
            }

    def leave(self) -> None:
        if self.id:
            self.cluster.leave((self.id, None))
        self.reset()


def by_topic(held: Held) -> dict[UUID, tuple[int, ...]]:
    found: dict[UUID, tuple[int, ...]] = {}
    for topic_id, number in sorted(held):
        found[topic_id] = (*found.get(topic_id, ()), number)
    return found


class Walk:
    """One seed's."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.cluster = Cluster(assignment_interval_ms=random.choice([0, 1000]))
        self.cluster.create("a", 4)
        static = random.randrange(3)
        self.members: list[Modern | Classic] = [
            Modern(self.cluster, random, f"m{number}", f"i{number}" if number < static else None) for number in range(3)
        ]
        self.members += [Classic(self.cluster, random) for _ in range(random.randrange(3))]
        self.silent: set[int] = set()

    def step(self) -> None:
        number = self.random.randrange(len(self.members))
        member = self.members[number]
        match self.random.randrange(24):
            case 0:
                self.silent ^= {number}
            case 1:
                member.leave()
            case 2:  # it restarts without a word
                member.reset()
            case 3:
                self.crash()
            case 4:
                self.change_topics()
            case 5:
                member.subscribe()
            case 6 | 7:
                self.cluster.pass_time(self.random.choice([100, 1000, 11_000, SESSION_MS, 46_000, TIMEOUT_MS]))
            case 8 | 9:
                member.act(loses_answer=True)
            case _ if number not in self.silent:
                member.act()
        self.cluster.pass_time(0)

    def change_topics(self) -> None:
        name = self.random.choice(TOPICS)
        topic_id = self.cluster.topics.topic_id(name)
        if topic_id is None:
            self.cluster.create(name, self.random.randint(1, 5))
        elif self.random.random() < 0.3:
            self.cluster.delete(name)
        else:
            self.cluster.grow(name, self.cluster.topics.partition_count(topic_id) + 1)

    def crash(self) -> None:
        self.cluster.restart()
        for member in self.members:
            if isinstance(member, Classic) and member.waiting is not None:
                member.waiting = None

    @property
    def group(self) -> ConsumerGroup | None:
        return self.cluster.machine._shard.consumer(GROUP)

    def check(self) -> None:
        group = self.group
        if group is None:
            return
        owners = Counter(
            (topic_id, number)
            for member in group.members.values()
            for epochs in (member.assigned, member.revoking)
            for topic_id, numbers in epochs.items()
            for number in numbers
        )
        assert all(count == 1 for count in owners.values())
        for each in self.members:
            known = group.members.get(each.id)
            if isinstance(each, Modern) and known is not None and each.epoch == known.epoch > 0:
                has = {(topic_id, number) for topic_id, numbers in known.assigned.items() for number in numbers}
                has |= {(topic_id, number) for topic_id, numbers in known.revoking.items() for number in numbers}
                assert each.held <= has

    def check_replay(self) -> None:
        again = Cluster()
        again.topics, again.metadata, again.now_ms = self.cluster.topics, self.cluster.topics, self.cluster.now_ms
        again.log = list(self.cluster.log)
        again.restart()
        assert state(again.machine._shard.consumer(GROUP)) == state(self.group)

    def settle(self) -> None:
        """All live, and do what they should."""
        for _ in range(150):
            self.cluster.pass_time(1000)
            for member in self.members:
                member.act()
        group = self.group
        assert group is not None
        assert self.cluster.phase == "Stable"
        assert set(group.members) == {member.id for member in self.members}
        held = Counter(partition for member in self.members for partition in member.held)
        assert all(count == 1 for count in held.values())
        topics = self.cluster.topics
        read = {topic_id for name in group.subscriptions.topics() if (topic_id := topics.topic_id(name)) is not None}
        assert set(held) == {(topic_id, n) for topic_id in read for n in range(topics.partition_count(topic_id))}
        self.check()
        self.check_replay()


def state(group: ConsumerGroup | None) -> dict[str, Any]:
    """All that must survive."""
    return {} if group is None else {k: v for k, v in vars(group).items() if not k.startswith("_refresh")}


@pytest.mark.parametrize("seed", range(25))
def test_random_walk(seed: int) -> None:
    walk = Walk(seed)
    for number in range(STEPS):
        walk.step()
        walk.check()
        if number % 5 == 0:
            walk.check_replay()
    walk.settle()
