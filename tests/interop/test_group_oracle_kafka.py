"""The decisions of Kafka's group coordinator, computed by its own classes: assignments, hashes, regular expressions."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from kcli.group.consumer.assignors import ASSIGNORS, MemberSubscription
from kcli.group.consumer.metadata_hash import group_hash, topic_hash
from tests.group.consumer import hashes, regexes
from tests.group.consumer.assignments import (
    Json,
    Members,
    Topics,
    answer,
    complete,
    kafka_id,
    our_id,
    question,
    samples,
)
from tests.interop.kit import Oracle

ORACLE = Path(__file__).with_name("GroupOracle.java")
GROUPS, LARGE_GROUPS = 400, 8
ROUNDS = 4
NAME_UNITS = ["a", "b", "Z", "0", ".", "ä", "\uffff", "\U0001f600"]


@pytest.fixture(scope="module")
def oracle(kafka_jars: Path) -> Iterator[Oracle]:
    oracle = Oracle(kafka_jars, ORACLE)
    yield oracle
    oracle.close()


def new_id(chance: random.Random) -> UUID:
    return UUID(int=chance.getrandbits(128))


def new_name(chance: random.Random) -> str:
    """Return a member or instance id: mostly one as clients make them, sometimes one that Java and Python sort
    differently."""
    return kafka_id(new_id(chance)) if chance.random() < 0.8 else "".join(chance.choices(NAME_UNITS, k=12))


def new_member(chance: random.Random, topics: Topics, *, same: bool) -> MemberSubscription:
    read = list(topics) if same else chance.sample(list(topics), chance.randint(0, len(topics)))
    return MemberSubscription(None, new_name(chance) if chance.random() < 0.3 else None, frozenset(read), {})


def changed(chance: random.Random, members: Members, topics: Topics, given: Json, *, same: bool) -> Members:
    """Return the group some time later: members have left, joined, or changed their topics."""
    after = {
        member_id: replace(member, assigned={our_id(topic): frozenset(has) for topic, has in given[member_id]})
        for member_id, member in members.items()
        if chance.random() < 0.8
    }
    if not same:
        for member_id in [each for each in after if chance.random() < 0.2]:
            after[member_id] = replace(after[member_id], topic_ids=new_member(chance, topics, same=False).topic_ids)
    for _ in range(chance.randint(0, 3)):
        after[new_name(chance)] = new_member(chance, topics, same=same)
    return after


def compare(oracle: Oracle, name: str, seed: int, members_max: int, topics_max: int, partitions_max: int) -> int:
    """Let both assign at each step of a group's life. Returns the number of steps."""
    chance = random.Random(seed)
    same = chance.random() < 0.5
    topics = {new_id(chance): chance.randint(1, partitions_max) for _ in range(chance.randint(0, topics_max))}
    members = {new_name(chance): new_member(chance, topics, same=same) for _ in range(chance.randint(1, members_max))}
    for turn in range(ROUNDS):
        homogeneous = len({member.topic_ids for member in members.values()}) == 1 and chance.random() < 0.7
        asked = question(name, members, topics, homogeneous=homogeneous)
        ours = answer(asked)
        assert ours == complete(asked, oracle.ask("assign", **asked)), (seed, turn)
        members = changed(chance, members, topics, ours, same=same)
        for topic in topics:  # topics grow
            topics[topic] += chance.randint(0, 2) if chance.random() < 0.2 else 0
        if not members:
            return turn + 1
    return ROUNDS


def test_samples(oracle: Oracle) -> None:
    """Kafka still answers as it did."""
    for sample in samples():
        assert oracle.ask("assign", **sample["question"]) == sample["answer"]


@pytest.mark.parametrize("name", ASSIGNORS)
def test_assignments(name: str, oracle: Oracle) -> None:
    assert sum(compare(oracle, name, seed, 8, 6, 12) for seed in range(GROUPS)) > GROUPS
    assert sum(compare(oracle, name, seed, 150, 20, 60) for seed in range(LARGE_GROUPS)) > LARGE_GROUPS


def test_hashes(oracle: Oracle) -> None:
    for topic in hashes.TOPICS:
        uuid = UUID(int=topic.id)
        racks = [topic.partitions[partition] for partition in range(len(topic.partitions))]
        theirs = oracle.ask("topic", name=topic.name, id=kafka_id(uuid), racks=racks)
        assert topic_hash(topic.name, uuid, topic.partitions) == theirs == topic.hash
    for given, expected in hashes.GROUPS:
        assert group_hash(given) == oracle.ask("group", hashes=given) == expected


def test_regular_expressions(oracle: Oracle) -> None:
    ours = regexes.matching(regexes.TOPICS, regexes.VALID)
    for pattern in regexes.VALID:
        assert ours[pattern] == set(oracle.ask("regex", regex=pattern, topics=regexes.TOPICS)), pattern
    for pattern, reason in regexes.INVALID.items():
        message = f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {reason}."
        assert oracle.ask("regex", regex=pattern, topics=[]) == message
