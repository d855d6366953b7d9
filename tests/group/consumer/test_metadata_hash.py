"""Hashes of topics and groups, as Kafka's own classes computed them (tests/interop asks them again)."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from itertools import chain, combinations
from uuid import UUID

import pytest

from formats.internal_topic import decode
from kcli.broker.coordinators.log import read_segment
from kcli.group.consumer.metadata_hash import group_hash, topic_hash
from tests.conftest import GOLDEN
from tests.group.consumer.hashes import GROUPS, TOPICS, Topic

DESCRIBED = re.compile(r"Topic: (\S+)\tTopicId: (\S+)\tPartitionCount: (\d+)")


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: repr(topic.name))
def test_topic(topic: Topic) -> None:
    assert topic_hash(topic.name, UUID(int=topic.id), topic.partitions) == topic.hash


@pytest.mark.parametrize(("hashes", "expected"), GROUPS)
def test_group(hashes: dict[str, int], expected: int) -> None:
    assert group_hash(hashes) == expected
    assert group_hash(dict(reversed(hashes.items()))) == expected


def test_racks_come_in_any_order() -> None:
    there, back = ({0: racks} for racks in (["b", "a", "a"], ["a", "b", "a"]))
    assert topic_hash("t", UUID(int=1), there) == topic_hash("t", UUID(int=1), back)
    assert topic_hash("t", UUID(int=1), {0: ["b", "a"]}) != topic_hash("t", UUID(int=1), there)


def test_golden() -> None:
    """Every hash that Kafka wrote for its groups is one of some of its topics."""
    hashes = {
        name: topic_hash(name, UUID(bytes=urlsafe_b64decode(uuid + "==")), dict.fromkeys(range(int(count)), ()))
        for name, uuid, count in DESCRIBED.findall((GOLDEN / "groups/expected/topics-describe.txt").read_text())
    }
    subscriptions = chain.from_iterable(combinations(hashes, count) for count in range(len(hashes) + 1))
    possible = {group_hash({name: hashes[name] for name in names}): set(names) for names in subscriptions}
    found = {
        value["metadataHash"]
        for log in sorted((GOLDEN / "groups/data").glob("__consumer_offsets-*/*.log"))
        for batch in read_segment(log)
        for _, (key, value_bytes) in batch.records
        if (value := decode("__consumer_offsets", key, value_bytes).value) and "metadataHash" in value
    }
    assert all(value in possible for value in found)
    assert {"g-a", "g-b"} in [possible[value] for value in found]
