"""Assignments of partitions. tests/interop compares many more groups with Kafka than are kept here."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from kcli.group.consumer.assignors import ASSIGNORS, Assignment, MemberSubscription, assign_range, assign_uniform
from tests.group.consumer.assignments import Members, Topics, answer, complete, samples

TOPIC_IDS = [UUID(int=number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % (1 << 128)) for number in range(1, 6)]


def test_as_kafka() -> None:
    """Assignments equal Kafka's member for member, with topics in the order of Kafka's maps."""
    for sample in samples():
        assert answer(sample["question"]) == complete(sample["question"], sample["answer"])


def member(*topics: UUID, instance_id: str | None = None, **assigned: set[int]) -> MemberSubscription:
    """A member that reads topics; assigned: t0={...} of the first of TOPIC_IDS and so on."""
    has = {TOPIC_IDS[int(name[1:])]: frozenset(partitions) for name, partitions in assigned.items()}
    return MemberSubscription(None, instance_id, frozenset(topics), has)


def test_nobody_and_nothing() -> None:
    for assign in ASSIGNORS.values():
        assert assign({}, {}) == {}
        assert assign({}, {TOPIC_IDS[0]: 3}) == {}
        assert assign({"m": member()}, {}) == {"m": {}}
        assert assign({"m": member(t0={1})}, {TOPIC_IDS[0]: 3}) == {"m": {}}


def test_range_is_the_same_run_of_every_topic() -> None:
    a, b, c, *_ = TOPIC_IDS
    members = {name: member(a, b, c) for name in ("y", "z", "x")}
    assert assign_range(members, {a: 4, b: 4, c: 1}) == {
        "x": {a: {0, 1}, b: {0, 1}, c: {0}},
        "y": {a: {2}, b: {2}},
        "z": {a: {3}, b: {3}},
    }


def test_range_keeps_the_place_of_static_members() -> None:
    topic = TOPIC_IDS[0]
    members = {"dynamic": member(topic), "old": member(topic, instance_id="b"), "other": member(topic, instance_id="a")}
    topics = {topic: 3}
    before = assign_range(members, topics)
    members["back"] = members.pop("old")
    after = assign_range(members, topics)
    assert before["old"] == after["back"] == {topic: {1}}
    assert before["other"] == after["other"] == {topic: {0}}
    assert before["dynamic"] == after["dynamic"] == {topic: {2}}


def test_uniform_moves_no_more_than_it_must() -> None:
    topic = TOPIC_IDS[0]
    members = {"a": member(topic, t0={0, 1, 2}), "b": member(topic, t0={3, 4, 5}), "c": member(topic)}
    given = assign_uniform(members, {topic: 6})
    assert given["a"][topic] < {0, 1, 2}
    assert given["b"][topic] < {3, 4, 5}
    assert sorted(map(len, (given[name][topic] for name in members))) == [2, 2, 2]


def held(members: Members, given: Assignment) -> Members:
    return {
        name: replace(each, assigned={topic: frozenset(has) for topic, has in given[name].items()})
        for name, each in members.items()
    }


topic_sets = st.frozensets(st.sampled_from(TOPIC_IDS))
groups = st.dictionaries(st.text(min_size=1, max_size=4), topic_sets, min_size=1, max_size=7)
cluster = st.lists(st.integers(1, 9), min_size=len(TOPIC_IDS), max_size=len(TOPIC_IDS))


@given(groups, groups, cluster, st.sampled_from(sorted(ASSIGNORS)))
def test_every_partition_has_one_owner_who_reads_it(
    before: dict[str, frozenset[UUID]], after: dict[str, frozenset[UUID]], counts: list[int], name: str
) -> None:
    """This holds in a new group and in the group that follows from it; and a second assignment moves nothing."""
    topics: Topics = dict(zip(TOPIC_IDS, counts, strict=True))
    assign = ASSIGNORS[name]
    members = {member_id: member(*read) for member_id, read in before.items()}
    check(members, topics, first := assign(members, topics))
    stayed = held(members, first)
    members = {member_id: replace(stayed.get(member_id, member()), topic_ids=read) for member_id, read in after.items()}
    check(members, topics, second := assign(members, topics))
    assert assign(held(members, second), topics) == second


def check(members: Members, topics: Topics, given: Assignment) -> None:
    assert given.keys() == members.keys()
    assert all(has.keys() <= members[member_id].topic_ids for member_id, has in given.items())
    assert all(partitions for has in given.values() for partitions in has.values())
    owned = Counter((topic, each) for has in given.values() for topic in has for each in has[topic])
    read = set().union(*(each.topic_ids for each in members.values()))
    assert owned == Counter((topic, each) for topic in read for each in range(topics[topic]))


@given(groups, cluster)
def test_uniform_is_even_where_all_read_the_same(before: dict[str, frozenset[UUID]], counts: list[int]) -> None:
    topics: Topics = dict(zip(TOPIC_IDS, counts, strict=True))
    members = {member_id: member(*read) for member_id, read in before.items()}
    members = {
        member_id: replace(each, topic_ids=frozenset(TOPIC_IDS))
        for member_id, each in held(members, assign_uniform(members, topics)).items()
    }
    loads = [sum(map(len, has.values())) for has in assign_uniform(members, topics).values()]
    assert max(loads) - min(loads) <= 1
