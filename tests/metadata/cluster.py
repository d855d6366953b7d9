"""A cluster of several brokers for the controller's decisions: an image, to which the decided records are applied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from kcli.metadata.image import TOPIC_RESOURCE, MetadataImage, Record
from kcli.metadata.partition import Partition, from_uuid
from tests.metadata.node import registration
from tests.metadata.test_image import ID_A, A, partition, topic
from tests.metadata.wire import whole

__all__ = ["DIRECTORIES", "A", "Cluster"]

DIRECTORIES = {each: UUID(int=0xD1000 + each) for each in range(1, 10)}
"""One of each broker."""


class Cluster:
    """Topic a on some of brokers 1 to N, which are not fenced. offset: of the last record."""

    def __init__(self, brokers: int = 3, *, elr: bool = True, min_isr: int = 1, **state: Any) -> None:
        self.image, self.offset = MetadataImage(), 100
        self.image.features = {"metadata.version": 30, **({"eligible.leader.replicas.version": 1} if elr else {})}
        for node_id in range(1, brokers + 1):
            self.add_broker(node_id)
        self.image.apply(*topic("a", ID_A), 0)
        self.config("min.insync.replicas", str(min_isr))
        self.add_partition(0, **state)

    def add_broker(self, node_id: int, **fields: Any) -> None:
        known = {"fenced": False, "directories": (DIRECTORIES[node_id],)}
        self.image.brokers[node_id] = registration(10 + node_id, node_id, **{**known, **fields})
        self.image.registered_at[node_id] = 10 + node_id

    def add_partition(self, number: int, **state: Any) -> None:
        replicas = state.get("replicas", [1, 2, 3])
        directories = [from_uuid(DIRECTORIES[each]) for each in replicas]
        usual = {"replicas": replicas, "isr": replicas, "leader": replicas[0], "directories": directories}
        self.image.apply(*partition(ID_A, number, **{**usual, **state}), 1)

    def config(self, name: str, value: str) -> None:
        record = {"resourceType": TOPIC_RESOURCE, "resourceName": "a", "name": name, "value": value}
        self.image.apply("ConfigRecord", record, 2)

    def commit(self, records: Sequence[Record]) -> Partition:
        """The first partition behind them."""
        for name, version, value in records:
            self.offset += 1
            self.image.apply(name, whole(name, version, value), self.offset)
        return self.partition()

    def partition(self, number: int = 0) -> Partition:
        found = self.image.partition(A, number)
        assert found is not None
        return found
