"""A broker goes on whatever clients write to `__remote_log_metadata`: it copies and reads as before, keeps what is in
the store of a topic that exists, and touches nothing outside of the store."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from formats.compression import GZIP
from kcli.broker.process.turns import at_once
from kcli.broker.tiering.followed import MetadataPartition
from kcli.tier.metadata import TOPIC, metadata_partition
from kcli.tier.segment import TieredPartition
from tests.broker.running import Client, ServedNode
from tests.broker.tiering.test_manager import (
    CONFIGS,
    RECORDS,
    SETTINGS,
    bootstrap,
    consumed,
    objects,
    offsets,
    orphans,
    produce,
    tiered_node,
    wait_until,
)
from tests.damage import mended
from tests.log.batches import batch, keyed
from tests.tier.hostile import ID, NAMES, flipped, kinds
from tests.tier.records import PARTITION, deleted, started, updated, uuid

COUNT = int(SETTINGS["rlmm.config.remote.log.metadata.topic.num.partitions"])
WHOLE = [f"value {i:06}" for i in range(RECORDS)]


def write(node: ServedNode, values: list[bytes | None], **settings: str) -> None:
    """Append records to each partition of the metadata topic, as any client can."""
    producer = Producer({"bootstrap.servers": bootstrap(node), **settings})
    for number in range(COUNT):
        for each in values:
            producer.produce(TOPIC, each, partition=number)
        assert producer.flush(60) == 0


def end_offsets(node: ServedNode) -> list[int]:
    """The ends of the metadata topic's partitions."""
    asked = [{"partition_index": each, "current_leader_epoch": -1, "timestamp": -1} for each in range(COUNT)]
    with Client(node.address) as client:
        topics = [{"name": TOPIC, "partitions": asked}]
        answer = client.call("list_offsets", 9, replica_id=-1, isolation_level=0, topics=topics)
    return [each["offset"] for each in answer["topics"][0]["partitions"]]


def is_quiet(node: ServedNode) -> bool:
    """Whether the broker appends nothing to the metadata topic for a while, as nothing is to be done."""
    before = end_offsets(node)
    time.sleep(1)
    return end_offsets(node) == before


def test_a_broker_goes_on(tmp_path: Path) -> None:
    with tiered_node(tmp_path) as node:
        with Client(node.address) as client:
            client.create_topic("orders", 1, CONFIGS)
            found = client.call(
                "metadata", 12, topics=[{"topic_id": None, "name": "orders"}], allow_auto_topic_creation=False
            )
        whose = TieredPartition("orders", 0, found["topics"][0]["topic_id"])
        outside = tmp_path / f"etc/passwd-0-{whose.topic_id}/{0:020}-{ID}.log"
        outside.parent.mkdir(parents=True)
        outside.touch()
        assert NAMES["traversal"] == "../../etc/passwd"
        produce(node, "orders", 0, RECORDS // 2)
        wait_until(lambda: offsets(node, "orders")["local"] > RECORDS // 2 - 150, lambda: offsets(node, "orders"))
        before = objects(tmp_path)
        hostile = kinds(whose)
        write(node, [each for kind in hostile.values() for each in kind])
        small = [each for kind in hostile.values() for each in kind if each is None or len(each) < 1_000]
        write(node, small, **{"compression.type": "zstd", "linger.ms": "100"})
        produce(node, "orders", RECORDS // 2, RECORDS // 2)
        wait_until(lambda: offsets(node, "orders")["local"] > RECORDS - 150, lambda: offsets(node, "orders"))
        assert offsets(node, "orders")["start"] == 0
        assert consumed(node, "orders", 0, RECORDS) == WHOLE
        wait_until(lambda: is_quiet(node), lambda: end_offsets(node))
        code, log = node.signal(signal.SIGTERM)
    assert (code, outside.exists()) == (0, True)
    assert set(before) <= set(objects(tmp_path))
    warnings = [line for line in log.splitlines() if "passed over" in line]
    assert warnings
    assert all(f"{TOPIC}-" in line and "offset " in line for line in warnings)
    assert len(warnings) < 2 * len(hostile), "a line for each read, not for each record"
    assert "Traceback" not in log
    with tiered_node(tmp_path) as node:  # which replays them all
        assert consumed(node, "orders", 0, RECORDS) == WHOLE
        code, log = node.signal(signal.SIGTERM)
    assert code == 0
    assert "Traceback" not in log
    assert orphans(tmp_path) == []


class Replayed:
    """A partition of the topic with PARTITION followed, and the deletions kept, that reads batches."""

    def __init__(self) -> None:
        names = {PARTITION.topic_id: PARTITION.topic}
        self.place = MetadataPartition(metadata_partition(PARTITION, COUNT), COUNT, names.get)
        self.followed = self.place.follow(PARTITION)
        self.place.keep_deletions(is_leader=True)

    def read(self, *batches: bytes) -> None:
        at_once(self.place.replay(b"".join(batches), self.place.round))
        self.place.ends_at(self.place.position)


async def begun() -> Replayed:
    """On an event loop, as futures are made."""
    return Replayed()


GOOD = [started(uuid(1), 0, 9), updated(uuid(1), 1)]


def test_a_batch_that_cannot_be_decoded_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    """Its CRC is right: other bytes will not be there later."""
    replayed = asyncio.run(begun())
    bad = batch(*GOOD, codec=GZIP, base_offset=0)
    bad[70:90] = bytes(20)
    with caplog.at_level(logging.WARNING, "kcli.broker"):
        replayed.read(mended(bad))
    assert replayed.place.position == 2
    assert replayed.followed.is_ready
    assert [each.getMessage() for each in caplog.records] == [
        f"{replayed.place}: a record is passed over: offset 0: a damaged batch"
    ]
    replayed.read(bytes(batch(*GOOD, base_offset=2)))
    assert len(replayed.followed.cache.segments()) == 1


def test_a_deletion_in_another_partition_of_the_topic_is_none() -> None:
    """It would go on for ever: the record that it is finished is in the partition where brokers look for it."""
    replayed = asyncio.run(begun())
    others = [PARTITION._replace(topic_id=uuid(number)) for number in range(2, 20)]
    states = [deleted(state, partition=each) for each in others for state in (0, 77)]
    replayed.read(*(keyed(None, each, base_offset=i) for i, each in enumerate(states)))
    expected = [each for each in others if metadata_partition(each, COUNT) == replayed.place.number]
    assert [each.partition for each in replayed.place.unfinished()] == expected
    assert 0 < len(expected) < len(others)


def test_any_records_are_passed_over() -> None:
    for seed in range(60):
        replayed = asyncio.run(begun())
        values = [*GOOD, *flipped(seed), started(uuid(2), 10, 19), updated(uuid(2), 1)]
        replayed.read(*(keyed(None, each, base_offset=i) for i, each in enumerate(values)))
        assert replayed.place.position == len(values), seed
        known = replayed.followed.cache
        assert None not in (known.segment(uuid(1)), known.segment(uuid(2))), seed
