"""Where replicas of new partitions go, in clusters of several brokers and racks.

placements.jsonl has what Kafka's StripedReplicaPlacer did with brokers (id, rack, fenced), a replication factor, and in
place of chance a number, of which it takes the remainder wherever it would draw.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import MutableSequence
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.metadata.image import MetadataImage
from kcli.metadata.partition import LOST, MIGRATING, UNASSIGNED
from kcli.metadata.placement import default_directory, is_online, new_partition, place
from kcli.metadata.result import Refused
from kcli.protocol.error_code import ErrorCode
from tests.metadata.node import registration

ONE, TWO = UUID(int=1001), UUID(int=1002)


def cluster(*racks: str | None, fenced: tuple[int, ...] = (), stopping: tuple[int, ...] = ()) -> MetadataImage:
    """A broker for each rack given, with ids from 1."""
    image = MetadataImage()
    for node_id, rack in enumerate(racks, 1):
        image.brokers[node_id] = registration(
            node_id, node_id, rack=rack, fenced=node_id in fenced, in_controlled_shutdown=node_id in stopping
        )
    return image


@given(st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=1, max_size=8), st.integers(1, 40), st.data())
def test_leaders_and_replicas_spread(racks: list[str | None], partitions: int, data: st.DataObject) -> None:
    factor = data.draw(st.integers(1, len(racks)))
    placed = place(cluster(*racks), partitions, factor, Random(data.draw(st.integers())))
    assert len(placed) == partitions
    for replicas in placed:
        assert len(set(replicas)) == len(replicas) == factor
        per_rack = Counter(racks[each - 1] for each in replicas)
        assert len(per_rack) == min(factor, len(set(racks)))
    if len(set(racks)) == 1:
        leaders = Counter(replicas[0] for replicas in placed)
        most, least = max(leaders.values()), min(leaders.get(each, 0) for each in range(1, len(racks) + 1))
        assert most - least <= 1


@given(st.integers(2, 6), st.integers(1, 20), st.integers())
def test_a_fenced_broker_never_comes_first(brokers: int, partitions: int, seed: int) -> None:
    fenced = tuple(range(2, brokers + 1))
    for replicas in place(cluster(*[None] * brokers, fenced=fenced), partitions, brokers, Random(seed)):
        assert replicas[0] == 1


class Remainders(Random):
    """Draws remainders of one number, and shuffles as Java does."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        assert stop is None
        assert step == 1
        return self.number % start

    def shuffle(self, x: MutableSequence[Any]) -> None:
        for i in range(len(x), 1, -1):
            other = self.number % i
            x[i - 1], x[other] = x[other], x[i - 1]


def test_placed_as_kafka_places() -> None:
    for line in (Path(__file__).parent / "placements.jsonl").read_text().splitlines():
        case = json.loads(line)
        image = MetadataImage()
        for node_id, rack, fenced in case["brokers"]:
            image.brokers[node_id] = registration(node_id, node_id, rack=rack, fenced=fenced)
        placed = place(image, len(case["placed"]), case["factor"], Remainders(case["seed"]))
        assert placed == case["placed"], line


def refusal(image: MetadataImage, factor: int) -> str:
    with pytest.raises(Refused) as caught:
        place(image, 1, factor, Random(0))
    assert caught.value.error.code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert caught.value.error.message is not None
    return caught.value.error.message


def test_no_place() -> None:
    assert "must be positive" in refusal(cluster(None), 0)
    assert "only 1 broker(s)" in refusal(cluster(None), 2)
    assert "All brokers are currently fenced" in refusal(cluster(None, None, fenced=(1, 2)), 1)
    assert "All brokers are currently fenced" in refusal(cluster(None, stopping=(1,)), 1)
    cordoned = MetadataImage()
    cordoned.brokers[1] = registration(1, fenced=False, directories=(ONE,), cordoned=(ONE,))
    assert "all their log directories cordoned" in refusal(cordoned, 1)


def test_directories() -> None:
    image = cluster(None, None, None)
    image.brokers[2] = registration(2, 2, directories=(ONE, TWO))
    image.brokers[3] = registration(3, 3, directories=())
    found = [default_directory(image, each) for each in (1, 2, 3, 4)]
    assert found == [image.brokers[1].directories[0], UNASSIGNED, MIGRATING, UNASSIGNED]
    online = {ONE: True, TWO: True, UNASSIGNED: True, MIGRATING: True, LOST: False, UUID(int=5): False}
    assert {each: is_online(image, 2, each) for each in online} == online
    assert not is_online(image, 4, ONE)


def test_only_active_brokers_are_in_sync() -> None:
    image = cluster(None, None, None, fenced=(1,), stopping=(2,))
    partition = new_partition(image, [1, 2, 3])
    assert partition is not None
    assert (partition.replicas, partition.isr, partition.leader) == ((1, 2, 3), (3,), 3)
    assert new_partition(image, [1, 2]) is None
