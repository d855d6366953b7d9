"""A broker copies its closed segments to the tier, reads them from there, and deletes them when they have expired."""

from __future__ import annotations

import asyncio
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from formats.checkpoint import EpochEntry
from kcli.broker.tiering.manager import Tiering
from kcli.inspector.tier.orphans import Orphans
from kcli.tier.expiry import Expired, LogState
from kcli.tier.local import LocalStore
from kcli.tier.metadata import RemoteLogMetadata
from kcli.tier.segment import PartitionDeleteState, TieredPartition
from kcli.tier.tier import Tier
from tests.broker.running import Client, ServedNode, served_node
from tests.tier.records import started, updated, uuid

TIMEOUT_S = 60.0
RECORDS = 600
SETTINGS = {
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
    "remote.log.metadata.manager.listener.name": "PLAINTEXT",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
    "rlmm.config.remote.log.metadata.topic.min.isr": "1",
    "remote.log.manager.task.interval.ms": "100",
    "remote.log.manager.task.retry.backoff.ms": "50",
    "log.retention.check.interval.ms": "100",
    "log.initial.task.delay.ms": "100",
}
CONFIGS = {"remote.storage.enable": "true", "internal.segment.bytes": "4096", "local.retention.bytes": "4096"}


@contextmanager
def tiered_node(home: Path, **more: str) -> Iterator[ServedNode]:
    """A broker whose tier is a directory."""
    options = (
        SETTINGS
        | {"rsm.config.dir": str(home / "remote")}
        | {key.replace("_", "."): each for key, each in more.items()}
    )
    with served_node(home / "data", *[word for each in options.items() for word in ("-o", "=".join(each))]) as node:
        yield node


def bootstrap(node: ServedNode) -> str:
    return node.bootstrap


def produce(node: ServedNode, topic: str, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap(node), "linger.ms": 0, "batch.num.messages": 5})
    for i in range(first, first + count):
        producer.produce(topic, f"value {i:06}".encode() * 5, partition=0)
        if i % 5 == 4:
            producer.flush()
    producer.flush()


def consumed(node: ServedNode, topic: str, first: int, count: int) -> list[str]:
    """The values of `count` records from an offset on."""
    consumer = Consumer({"bootstrap.servers": bootstrap(node), "group.id": "g", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, first)])
    found: list[str] = []
    until = time.monotonic() + TIMEOUT_S
    try:
        while len(found) < count and time.monotonic() < until:
            for message in consumer.consume(count - len(found), 1):
                assert message.error() is None, message.error()
                value = message.value()
                assert value is not None
                found.append(value.decode()[:12])
    finally:
        consumer.close()
    return found


def offsets(node: ServedNode, topic: str) -> dict[str, int]:
    """Log start, local log start and last tiered offset of partition 0."""
    found = {}
    with Client(node.address) as client:
        for name, timestamp in (("start", -2), ("local", -4), ("tiered", -5)):
            _, found[name] = client.list_offset(topic, timestamp)
    return found


def wait_until(condition: Callable[[], bool], what: Callable[[], object]) -> None:
    until = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < until, what()
        time.sleep(0.05)


def orphans(home: Path) -> list[str]:
    """What the metadata do not name. (A copy that the end of the broker has broken off may have no objects yet.)"""
    findings = Orphans(Tier.read(LocalStore(home / "remote"), home / "data")).findings()
    return [str(each) for each in findings if each.kind == "tier-orphan"]


def objects(home: Path) -> list[str]:
    return [each.name for each in LocalStore(home / "remote").list_objects()]


def test_segments_are_copied_deleted_here_and_read_from_the_tier(tmp_path: Path) -> None:
    with tiered_node(tmp_path) as node:
        with Client(node.address) as client:
            client.create_topic("orders", 1, CONFIGS)
        produce(node, "orders", 0, RECORDS)
        wait_until(lambda: offsets(node, "orders")["local"] > RECORDS - 150, lambda: offsets(node, "orders"))
        found = offsets(node, "orders")
        assert found["start"] == 0
        assert found["local"] <= found["tiered"] + 1
        assert consumed(node, "orders", 0, RECORDS) == [f"value {i:06}" for i in range(RECORDS)]
    tier = Tier.read(LocalStore(tmp_path / "remote"), tmp_path / "data")
    (partition,) = tier.partitions
    assert not partition.plan().gaps
    assert not orphans(tmp_path)


def test_what_has_expired_goes_in_both_tiers(tmp_path: Path) -> None:
    with tiered_node(tmp_path) as node:
        with Client(node.address) as client:
            client.create_topic("orders", 1, CONFIGS | {"retention.bytes": "16384"})
        produce(node, "orders", 0, RECORDS)
        wait_until(lambda: offsets(node, "orders")["start"] > RECORDS // 2, lambda: offsets(node, "orders"))
        start = offsets(node, "orders")["start"]
        assert consumed(node, "orders", start, RECORDS - start) == [f"value {i:06}" for i in range(start, RECORDS)]
        with Client(node.address) as client:
            client.call("delete_topics", 6, topics=[{"name": "orders", "topic_id": None}], timeout=10_000)
        wait_until(lambda: not objects(tmp_path), lambda: objects(tmp_path))


def test_a_broker_that_is_killed_while_it_copies(tmp_path: Path) -> None:
    with tiered_node(tmp_path) as node:
        with Client(node.address) as client:
            client.create_topic("orders", 1, CONFIGS)
        produce(node, "orders", 0, RECORDS // 2)
        wait_until(lambda: len(objects(tmp_path)) > 5, lambda: objects(tmp_path))
        node.process.kill()
        node.process.communicate()
    with tiered_node(tmp_path) as node:
        produce(node, "orders", RECORDS // 2, RECORDS // 2)
        wait_until(lambda: offsets(node, "orders")["local"] > RECORDS - 150, lambda: offsets(node, "orders"))
        values = consumed(node, "orders", 0, RECORDS)
        assert values == [f"value {i:06}" for i in range(RECORDS)]
    assert not orphans(tmp_path)


def test_a_broker_that_is_killed_while_it_deletes_a_topic(tmp_path: Path) -> None:
    """Its successor goes on with the deletion, although no broker has the topic any more."""
    with tiered_node(tmp_path) as node:
        with Client(node.address) as client:
            client.create_topic("orders", 1, CONFIGS)
        produce(node, "orders", 0, RECORDS)
        wait_until(lambda: offsets(node, "orders")["local"] > RECORDS - 150, lambda: offsets(node, "orders"))
        before = len(objects(tmp_path))
        with Client(node.address) as client:
            client.call("delete_topics", 6, topics=[{"name": "orders", "topic_id": None}], timeout=10_000)
        while len(objects(tmp_path)) == before:
            time.sleep(0.001)
        node.process.kill()
        node.process.communicate()
    assert objects(tmp_path)
    with tiered_node(tmp_path) as node:
        wait_until(lambda: not objects(tmp_path), lambda: objects(tmp_path))
        code, log = node.signal(signal.SIGTERM)
    assert code == 0
    assert "Traceback" not in log
    assert not list((tmp_path / "remote/kafka-tiered-storage").iterdir())


def test_records_that_were_deleted_before_a_crash_do_not_come_back(tmp_path: Path) -> None:
    """The log start offset is in leader-epoch-checkpoint alone, and the segments below it are still there: they have no
    leader epoch any more, without which they cannot be copied, nor those behind them."""
    kept = {"remote.log.copy.disable": "true", "local.retention.bytes": "-2"}
    waits = {"log_retention_check_interval_ms": "3600000", "log_initial_task_delay_ms": "3600000"}
    with tiered_node(tmp_path, **waits) as node:
        with Client(node.address) as client:
            client.create_topic("orders", 1, CONFIGS | kept)
            produce(node, "orders", 0, 200)
            topics = [{"name": "orders", "partitions": [{"partition_index": 0, "offset": 157}]}]
            client.call("delete_records", 2, topics=topics, timeout=10_000)
            produce(node, "orders", 200, 100)  # a segment is rolled, and flushed with the leader epochs
        epochs = tmp_path / "data/orders-0/leader-epoch-checkpoint"
        wait_until(lambda: "157" in epochs.read_text(), epochs.read_text)
        node.process.kill()
        node.process.communicate()
    assert (tmp_path / "data/orders-0" / f"{0:020}.log").exists()
    with tiered_node(tmp_path, **waits) as node:
        wait_until(lambda: offsets(node, "orders")["start"] == 157, lambda: offsets(node, "orders"))
        alter(node, "orders", remote_log_copy_disable="false")
        wait_until(lambda: offsets(node, "orders")["tiered"] > 200, lambda: offsets(node, "orders"))
        assert consumed(node, "orders", 157, 143) == [f"value {i:06}" for i in range(157, 300)]


def test_a_segment_that_was_copied_just_now_counts_once() -> None:
    """Its record is replayed a little before the task that copies knows of it."""
    whose = TieredPartition("orders", 0, uuid(9))
    metadata = RemoteLogMetadata()
    for number in range(3):
        start = number * 10
        metadata.replay(started(uuid(number), start, start + 9, size=100, partition=whose))
        metadata.replay(updated(uuid(number), 1, partition=whose))
    sizes = {20: 100, 30: 50}  # the local log

    class Log(SimpleNamespace):
        highest_tiered_offset = 19

        def update_highest_tiered(self, offset: int) -> None:
            self.highest_tiered_offset = max(self.highest_tiered_offset, offset)

        @property
        def untiered_bytes(self) -> int:
            return sum(size for base, size in sizes.items() if base >= self.highest_tiered_offset)

    opened = Log(
        leader_epochs=(EpochEntry(0, 0),),
        log_start_offset=0,
        log_end_offset=35,
        config=SimpleNamespace(retention_ms=-1, retention_bytes=300),
    )
    limits: list[LogState] = []

    async def run(work: Callable[[], Expired]) -> Expired:
        limits.append(work.args[1])  # type: ignore[attr-defined]
        return work()

    tiering = Tiering.__new__(Tiering)
    tiering._metadata = SimpleNamespace(cache=metadata.caches.__getitem__)  # type: ignore[assignment]
    tiering._deleters = SimpleNamespace(run=run)  # type: ignore[assignment]
    tiering._segments = SimpleNamespace(being_copied=set(), unsettled=set())  # type: ignore[assignment]
    tiering._context = SimpleNamespace(node_id=1)  # type: ignore[assignment]
    tiering._now_ms = lambda: 0
    tracked = SimpleNamespace(whose=whose, opened=opened, partition="orders-0")
    asyncio.run(tiering._expire(tracked))  # type: ignore[arg-type]
    assert [each.local_bytes for each in limits] == [50]


def test_the_deletion_of_a_topic_is_told_before_anything_is_waited_for() -> None:
    """After a crash before its first record nobody goes on with it."""
    told: list[object] = []

    async def tell(_: object, state: object = None, **__: object) -> None:
        told.append(state)

    async def ended(_: object) -> None:
        told.append("copies have ended")

    async def ready(_: object) -> None:
        return

    cache = SimpleNamespace(segments=list)
    tiering = Tiering.__new__(Tiering)
    tiering._segments = SimpleNamespace(delete_partition=tell, copies_ended=ended)  # type: ignore[assignment]
    tiering._metadata = SimpleNamespace(  # type: ignore[assignment]
        ready=ready, deletion=lambda _: None, cache=lambda _: cache, forget=lambda _: None
    )
    tiering._tracked = {}
    asyncio.run(tiering._delete_all(TieredPartition("orders", 0, uuid(9)), is_topic_gone=True))
    assert told == [
        PartitionDeleteState.DELETE_PARTITION_MARKED,
        PartitionDeleteState.DELETE_PARTITION_STARTED,
        "copies have ended",
        PartitionDeleteState.DELETE_PARTITION_FINISHED,
    ]


def alter(node: ServedNode, topic: str, **configs: str) -> None:
    with Client(node.address) as client:
        client.alter_topic(topic, {name.replace("_", "."): each for name, each in configs.items()})


def test_tiered_storage_is_switched_off_and_on_again(tmp_path: Path) -> None:
    """What was deleted there is not taken for copied: nothing is lost here."""
    with tiered_node(tmp_path) as node:
        with Client(node.address) as client:
            client.create_topic("orders", 1, CONFIGS)
        produce(node, "orders", 0, RECORDS // 2)
        wait_until(lambda: offsets(node, "orders")["local"] > RECORDS // 2 - 150, lambda: offsets(node, "orders"))
        alter(node, "orders", remote_storage_enable="false", remote_log_delete_on_disable="true")
        wait_until(lambda: not objects(tmp_path), lambda: objects(tmp_path))
        start = offsets(node, "orders")["start"]
        assert start > RECORDS // 2 - 150
        produce(node, "orders", RECORDS // 2, RECORDS // 2)
        alter(node, "orders", remote_storage_enable="true", remote_log_delete_on_disable="false")
        wait_until(lambda: offsets(node, "orders")["local"] > RECORDS - 150, lambda: offsets(node, "orders"))
        assert offsets(node, "orders")["start"] == start
        assert consumed(node, "orders", start, RECORDS - start) == [f"value {i:06}" for i in range(start, RECORDS)]


def test_without_copies_the_tier_keeps_what_it_has(tmp_path: Path) -> None:
    with tiered_node(tmp_path) as node:
        with Client(node.address) as client:
            client.create_topic("orders", 1, CONFIGS)
        produce(node, "orders", 0, RECORDS // 2)
        wait_until(lambda: offsets(node, "orders")["local"] > RECORDS // 2 - 150, lambda: offsets(node, "orders"))
        alter(node, "orders", remote_log_copy_disable="true", local_retention_bytes="-2", local_retention_ms="-2")
        time.sleep(0.5)
        before = objects(tmp_path)
        produce(node, "orders", RECORDS // 2, RECORDS // 2)
        time.sleep(0.5)
        assert objects(tmp_path) == before
        assert consumed(node, "orders", 0, RECORDS) == [f"value {i:06}" for i in range(RECORDS)]
        alter(node, "orders", remote_log_copy_disable="false", local_retention_bytes="4096")
        wait_until(lambda: offsets(node, "orders")["local"] > RECORDS - 150, lambda: offsets(node, "orders"))
        assert consumed(node, "orders", 0, RECORDS) == [f"value {i:06}" for i in range(RECORDS)]


def test_a_store_that_fails_delays_all_and_loses_nothing(tmp_path: Path) -> None:
    store, away = tmp_path / "remote", tmp_path / "away"
    with tiered_node(tmp_path) as node:
        with Client(node.address) as client:
            client.create_topic("orders", 1, CONFIGS)
        produce(node, "orders", 0, RECORDS // 2)
        wait_until(lambda: offsets(node, "orders")["local"] > RECORDS // 2 - 150, lambda: offsets(node, "orders"))
        store.rename(away)
        store.write_text("no directory")
        produce(node, "orders", RECORDS // 2, RECORDS // 2)
        time.sleep(1)
        found = offsets(node, "orders")
        assert found["tiered"] < RECORDS // 2
        assert found["local"] <= found["tiered"] + 1
        store.unlink()
        away.rename(store)
        wait_until(lambda: offsets(node, "orders")["local"] > RECORDS - 150, lambda: offsets(node, "orders"))
        assert consumed(node, "orders", 0, RECORDS) == [f"value {i:06}" for i in range(RECORDS)]
        code, log = node.signal(signal.SIGTERM)
    assert code == 0
    assert "copy in the tier" in log
    assert "Traceback" not in log
    assert not orphans(tmp_path)


@pytest.mark.parametrize("is_bare", [True, False])
def test_a_broker_that_starts_without_the_disk_of_its_store_waits_for_it(tmp_path: Path, *, is_bare: bool) -> None:
    """is_bare: there is nothing in the mount point; otherwise an empty directory with the name of the store."""
    store, away = tmp_path / "remote", tmp_path / "away"
    with tiered_node(tmp_path) as node:
        with Client(node.address) as client:
            client.create_topic("orders", 1, CONFIGS)
        produce(node, "orders", 0, RECORDS // 2)
        wait_until(lambda: offsets(node, "orders")["local"] > RECORDS // 2 - 150, lambda: offsets(node, "orders"))
        local = offsets(node, "orders")["local"]
    store.rename(away)
    store.mkdir()
    if not is_bare:
        (store / "kafka-tiered-storage").mkdir()
    with tiered_node(tmp_path) as node:
        with Client(node.address) as client:
            client.create_topic("new", 1, CONFIGS)
        produce(node, "orders", RECORDS // 2, RECORDS // 2)
        produce(node, "new", 0, RECORDS // 2)
        time.sleep(1)
        assert [each.name for each in store.rglob("*")] == ([] if is_bare else ["kafka-tiered-storage"])
        assert offsets(node, "orders")["local"] == local
        assert offsets(node, "new")["local"] == 0
        for each in store.iterdir():
            each.rmdir()
        store.rmdir()
        away.rename(store)
        wait_until(lambda: offsets(node, "orders")["local"] > RECORDS - 150, lambda: offsets(node, "orders"))
        wait_until(lambda: offsets(node, "new")["local"] > RECORDS // 2 - 150, lambda: offsets(node, "new"))
        assert consumed(node, "orders", 0, RECORDS) == [f"value {i:06}" for i in range(RECORDS)]
        code, log = node.signal(signal.SIGTERM)
    assert code == 0
    what = "there is no such directory" if is_bare else "the directory has none"
    (line,) = [each for each in log.splitlines() if "ERROR" in each]
    assert f"{store}/kafka-tiered-storage: __remote_log_metadata names" in line
    assert what in line
    assert "Mount the disk" in line
    assert not orphans(tmp_path)


def test_the_segments_of_a_store_that_is_lost_can_be_forgotten(tmp_path: Path) -> None:
    with tiered_node(tmp_path) as node:
        with Client(node.address) as client:
            client.create_topic("orders", 1, CONFIGS)
        produce(node, "orders", 0, RECORDS // 2)
        wait_until(lambda: offsets(node, "orders")["local"] > RECORDS // 2 - 150, lambda: offsets(node, "orders"))
    shutil.rmtree(tmp_path / "remote")
    with tiered_node(tmp_path) as node:
        time.sleep(0.5)
        assert not (tmp_path / "remote").exists()
        (tmp_path / "remote/kafka-tiered-storage").mkdir(parents=True)
        alter(node, "orders", remote_storage_enable="false", remote_log_delete_on_disable="true")
        wait_until(lambda: offsets(node, "orders")["start"] > RECORDS // 2 - 150, lambda: offsets(node, "orders"))
        alter(node, "orders", remote_storage_enable="true", remote_log_delete_on_disable="false")
        produce(node, "orders", RECORDS // 2, RECORDS // 2)
        wait_until(lambda: offsets(node, "orders")["local"] > RECORDS - 150, lambda: offsets(node, "orders"))
    assert objects(tmp_path)
