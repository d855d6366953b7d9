"""Brokers that are killed while partitions are created and deleted: the next start finds the acknowledged records and
no others."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from kcli.log.live.partition_log import Isolation
from kcli.metadata.partition import from_uuid
from tests.broker.log_dirs import Node, make_node, run
from tests.log.batches import NOW_MS, batch

STEPS, LIVES = 60, 4
SETTINGS = {"log_segment_delete_delay_ms": "20", "log_cleaner_backoff_ms": "10", "log_initial_task_delay_ms": "5"}
INTERVALS = {
    "log_retention_check_interval_ms": "15",
    "log_flush_offset_checkpoint_interval_ms": "7",
    "log_flush_start_offset_checkpoint_interval_ms": "7",
    "replica_high_watermark_checkpoint_interval_ms": "7",
}


@dataclass
class Life:
    """Topics that are created and deleted on two directories. `ends`: the acknowledged log end offsets, by
    partition."""

    random: Random
    ends: dict[tuple[str, int], int] = field(default_factory=dict)
    starts: dict[tuple[str, int], int] = field(default_factory=dict)
    topics: int = 0

    async def go_on(self, node: Node) -> None:
        for _ in range(STEPS):
            chance = self.random.random()
            if chance < 0.1 or not self.ends:
                self.create(node)
            elif chance < 0.15:
                self.remove(node)
            elif chance < 0.25:
                self.delete_records(node)
            else:
                self.append(node)
            if self.random.random() < 0.2:
                await asyncio.sleep(self.random.random() / 100)

    def create(self, node: Node) -> None:
        self.topics += 1
        name, partitions = f"t{self.topics % 5}", self.random.randrange(1, 4)
        if node.image.topic(name) is not None:
            return
        node.create_topic(name, partitions, UUID(int=self.topics << 64))
        node.configure("internal.segment.bytes", "600", name)
        if self.random.random() < 0.4:
            node.configure("cleanup.policy", "compact", name)
        for number in range(partitions):
            self.ends[name, number] = self.starts[name, number] = 0

    def remove(self, node: Node) -> None:
        name = self.random.choice(sorted(node.image.topics))
        node.apply("RemoveTopicRecord", topicId=from_uuid(node.image.topics[name].id))
        for keys in (self.ends, self.starts):
            for key in [key for key in keys if key[0] == name]:
                del keys[key]

    def delete_records(self, node: Node) -> None:
        topic, number = self.random.choice(sorted(self.ends))
        partition = node.partition(topic, number)
        self.starts[topic, number] = partition.delete_records(self.random.randrange(self.ends[topic, number] + 1))

    def append(self, node: Node) -> None:
        topic, number = self.random.choice(sorted(self.ends))
        appended = node.partition(topic, number).append_as_leader(batch(bytes(self.random.randrange(200))), NOW_MS)
        assert appended.first_offset == self.ends[topic, number]
        self.ends[topic, number] = appended.last_offset + 1

    async def check(self, node: Node) -> None:
        assert {each.key for each in node.logs.partitions} == set(self.ends)
        for each in node.logs.partitions:
            assert each.log.log_end_offset == each.log.high_watermark == self.ends[each.key]
            assert each.log.log_start_offset <= max(self.starts[each.key], each.log.first_base_offset)
            offset, last = each.log.log_start_offset, -1
            while (region := each.log.read(offset, 1, Isolation.LOG_END).region) is not None:
                with region.path.open("rb") as file:
                    file.seek(region.position)
                    head = file.read(61)
                base, offset = int.from_bytes(head[:8]), int.from_bytes(head[:8]) + int.from_bytes(head[23:27]) + 1
                assert base > last
                last = base
            assert offset == self.ends[each.key]


@pytest.mark.parametrize("seed", range(3))
def test_a_broker_is_killed_and_started_again(tmp_path: Path, seed: int) -> None:
    life = Life(Random(seed))
    paths = [tmp_path / "a", tmp_path / "b"]
    node = make_node(paths, None, None, **SETTINGS, **INTERVALS)
    for number in range(LIVES):
        run(node, life.go_on, stop=number % 3 == 2)
        node = make_node(paths, node.image, None, **SETTINGS, **INTERVALS)
        run(node, life.check, stop=False)
        assert not node.heard.failed
        node = make_node(paths, node.image, None, **SETTINGS, **INTERVALS)
    node.dirs.unlock()
