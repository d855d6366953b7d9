"""The topic `__remote_log_metadata` on running brokers: created, appended to, replayed, read from other brokers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from formats.batch_writer import write_batch
from formats.checkpoint import EpochEntry
from kcli.broker.broker import Broker
from kcli.broker.tiering.config import MetadataConfig
from kcli.broker.tiering.metadata_topic import MetadataFailed, MetadataTopic, NotReady
from kcli.tier.metadata import TOPIC, metadata_partition
from kcli.tier.records import (
    PARTITION_DELETE,
    SEGMENT,
    SEGMENT_UPDATE,
    partition_delete_value,
    record_bytes,
    segment_value,
    update_value,
)
from kcli.tier.segment import PartitionDeleteState, RemoteSegment, SegmentState, TieredPartition
from tests.broker.cluster import Cluster, ClusterNode, running_cluster, wait_for
from tests.broker.running import RunningNode, running_node
from tests.tier.records import uuid

T = TypeVar("T")
TIMEOUT_S = 30.0
COUNT = 3
SETTINGS = MetadataConfig(
    partitions=COUNT,
    replication_factor=1,
    min_isr=2,
    retention_ms=-1,
    consume_wait_ms=20_000,
    init_retry_ms_max=120_000,
    init_retry_interval_ms=100,
)
A, B = (TieredPartition("orders", number, uuid(9)) for number in (0, 1))
FINISHED = SegmentState.COPY_SEGMENT_FINISHED


def segment(number: int, partition: TieredPartition = A) -> RemoteSegment:
    """A segment of ten offsets."""
    return RemoteSegment(
        partition=partition,
        id=uuid(number + 1000 * (partition.partition + 1)),
        start_offset=number * 10,
        end_offset=number * 10 + 9,
        size=100,
        leader_epochs=(EpochEntry(0, number * 10),),
        has_txn_index=False,
        state=SegmentState.COPY_SEGMENT_STARTED,
        max_timestamp_ms=1,
        event_timestamp_ms=1,
        broker_id=1,
    )


def numbers_in(partitions: int, wanted: int) -> TieredPartition:
    """A partition whose records are in that partition of the topic."""
    each = (TieredPartition("spread", number, uuid(77)) for number in range(10_000))
    return next(one for one in each if metadata_partition(one, partitions) == wanted)


class OnNode:
    """The topic as one node sees it."""

    def __init__(self, node: RunningNode, settings: MetadataConfig = SETTINGS, delivery_s: float = 20) -> None:
        self.node = node

        def make() -> MetadataTopic:
            broker = node.node.broker
            made = MetadataTopic(broker.groups.context, broker.controller, settings, delivery_s=delivery_s)
            made.start()
            return made

        self.topic = node.run(make)

    @property
    def broker(self) -> Broker:
        return self.node.node.broker

    def do(self, work: Callable[[], T]) -> T:
        return self.node.run(work)

    def wait(self, work: Callable[[], Coroutine[Any, Any, T]], timeout_s: float = TIMEOUT_S) -> T:
        return asyncio.run_coroutine_threadsafe(work(), self.node.loop).result(timeout_s)

    def follow(self, *partitions: TieredPartition) -> None:
        """And wait until all are ready."""
        for each in partitions:
            self.do(lambda each=each: self.topic.follow(each))  # type: ignore[misc]
        for each in partitions:
            self.wait(lambda each=each: self.topic.ready(each))  # type: ignore[misc]

    def copy(self, each: RemoteSegment) -> None:
        """Append both records of a copy."""
        self.wait(lambda: self.topic.append(each.partition, segment_value(each), SEGMENT))
        update = update_value(each, FINISHED, 1, 2)
        self.wait(lambda: self.topic.append(each.partition, update, SEGMENT_UPDATE))

    def ids(self, partition: TieredPartition = A) -> list[str]:
        """The copied segments."""
        found = self.do(lambda: self.topic.cache(partition).segments())
        return [each.id for each in found if each.state is FINISHED]

    def produce(self, number: int, values: list[bytes | None]) -> None:
        """Append records past the topic, as one batch."""

        def append() -> None:
            partition = self.broker.partitions.get(TOPIC, number)
            assert partition is not None
            partition.append_as_leader(write_batch([(None, each) for each in values], 1), 1)

        self.do(append)


@contextmanager
def topic_on(node: RunningNode, settings: MetadataConfig = SETTINGS, delivery_s: float = 20) -> Iterator[OnNode]:
    on = OnNode(node, settings, delivery_s)
    try:
        yield on
    finally:
        on.do(on.topic.stop)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RunningNode]:
    with running_node(tmp_path / "data") as running:
        yield running


def test_the_topic_is_made_as_kafka_makes_it(node: RunningNode) -> None:
    with topic_on(node) as on:
        wait_for(lambda: TOPIC in on.broker.image.topics, "the topic")
        assert len(on.broker.image.topics[TOPIC].partitions) == COUNT
        assert on.broker.image.topic_configs(TOPIC) == {
            "cleanup.policy": "delete",
            "min.insync.replicas": "2",
            "remote.storage.enable": "false",
            "retention.ms": "-1",
        }
        on.follow(A)
        assert on.ids() == []


def test_what_is_appended_is_seen_at_once_and_after_a_restart(tmp_path: Path) -> None:
    with running_node(tmp_path / "data") as node, topic_on(node) as on:
        on.follow(A, B)
        for number in range(5):
            on.copy(segment(number))
            on.copy(segment(number, B))
            assert on.ids() == [segment(each).id for each in range(number + 1)]
        expected = on.ids(), on.ids(B)
    with running_node(tmp_path / "data") as node, topic_on(node) as on:
        with pytest.raises(NotReady):
            on.do(lambda: on.topic.cache(A))
        on.follow(A)
        assert on.ids() == expected[0]
        with pytest.raises(NotReady):
            on.do(lambda: on.topic.cache(B))
        on.follow(B)  # its records are before the position: they are read from the start
        assert (on.ids(), on.ids(B)) == expected
        assert on.do(lambda: on.topic.cache(A).segment_at(0, 44)) is not None


def test_a_partition_is_forgotten(node: RunningNode) -> None:
    with topic_on(node) as on:
        on.follow(A)
        on.copy(segment(0))
        on.do(lambda: on.topic.forget(A))
        assert not on.do(lambda: on.topic.is_ready(A))
        with pytest.raises(NotReady):
            on.wait(lambda: on.topic.ready(A))
        with pytest.raises(MetadataFailed, match="not followed"):
            on.wait(lambda: on.topic.append(A, segment_value(segment(1)), SEGMENT))
        on.follow(A)
        assert on.ids() == [segment(0).id]


def test_a_wait_ends_when_the_partition_is_forgotten(node: RunningNode) -> None:
    settings = replace(SETTINGS, replication_factor=3)  # which one broker cannot make
    with topic_on(node, settings) as on:
        on.do(lambda: on.topic.follow(A))
        waiting = asyncio.run_coroutine_threadsafe(on.topic.ready(A), node.loop)
        time.sleep(0.3)
        assert not waiting.done()
        on.do(lambda: on.topic.forget(A))
        with pytest.raises(NotReady, match="not followed any more"):
            waiting.result(TIMEOUT_S)


def test_no_record_is_appended_in_time(node: RunningNode, caplog: pytest.LogCaptureFixture) -> None:
    with topic_on(node, replace(SETTINGS, replication_factor=3), delivery_s=0.5) as on:
        on.do(lambda: on.topic.follow(A))
        with pytest.raises(MetadataFailed, match="has no leader"):
            on.wait(lambda: on.topic.append(A, segment_value(segment(0)), SEGMENT))
    lines = [each.getMessage() for each in caplog.records if "is not created" in each.getMessage()]
    assert len(lines) == 1, "the same reason is logged once"


def test_a_topic_with_another_number_of_partitions_is_not_used(
    node: RunningNode, caplog: pytest.LogCaptureFixture
) -> None:
    with node.client() as client:
        client.create_topic(TOPIC, COUNT + 1)
    with topic_on(node) as on:
        on.do(lambda: on.topic.follow(A))
        with pytest.raises(MetadataFailed, match="has 4 partitions, not the 3"):
            on.wait(lambda: on.topic.append(A, segment_value(segment(0)), SEGMENT))
        time.sleep(0.2)
        assert not on.do(lambda: on.topic.is_ready(A))
    assert "has 4 partitions, not the 3" in caplog.text


def test_a_record_that_the_topic_does_not_take_fails_at_once(node: RunningNode) -> None:
    with topic_on(node) as on:
        on.follow(A)
        large = replace(segment(0), custom_metadata=bytes(2 << 20))
        begun = time.monotonic()
        with pytest.raises(MetadataFailed, match="orders-0"):
            on.wait(lambda: on.topic.append(A, segment_value(large), SEGMENT))
        assert time.monotonic() - begun < 5, "not tried again"
        on.copy(segment(0))
        assert on.ids() == [segment(0).id]


def test_records_that_say_nothing_are_passed_over(node: RunningNode, caplog: pytest.LogCaptureFixture) -> None:
    number = metadata_partition(A, COUNT)
    whole = record_bytes(SEGMENT, segment_value(segment(7)))
    with topic_on(node) as on:
        on.follow(A)
        on.copy(segment(0))
        with caplog.at_level(logging.WARNING, "kcli.broker"):
            bad = [None, b"", b"\1", b"what", whole[:-1], whole[:20], whole + b"!", b"\1\7\0", b"\1\3\0" + whole[3:]]
            on.produce(number, bad)
            on.produce(number, [record_bytes(SEGMENT_UPDATE, update_value(segment(5), FINISHED, 1, 1))])
            on.copy(segment(1))
        assert on.ids() == [segment(0).id, segment(1).id]
        assert "passed over" in caplog.text
        assert "no earlier record" in caplog.text
        assert len(caplog.records) <= 3, "a line for each read, not for each record"


def test_a_deletion_is_seen(node: RunningNode) -> None:
    with topic_on(node) as on:
        on.follow(A, B)
        on.copy(segment(0))
        on.copy(segment(0, B))
        assert on.do(lambda: on.topic.deletion(A)) is None
        for state in PartitionDeleteState:
            value = partition_delete_value(A, state, 1, 1)
            on.wait(lambda value=value: on.topic.append(A, value, PARTITION_DELETE))  # type: ignore[misc]
            assert on.do(lambda: on.topic.deletion(A)) is state
        assert (on.ids(), on.ids(B)) == ([], [segment(0, B).id])


def test_records_below_the_log_start_are_not_needed(node: RunningNode) -> None:
    number = metadata_partition(A, COUNT)
    with topic_on(node) as on:
        on.follow(A)
        for each in range(4):
            on.copy(segment(each))
        on.do(lambda: on.topic.forget(A))
        with node.client() as client:
            whole = {"partition_index": number, "offset": 4}
            client.call("delete_records", 2, topics=[{"name": TOPIC, "partitions": [whole]}], timeout=5_000)
        on.follow(A)
        assert on.ids() == [segment(2).id, segment(3).id]
        with node.client() as client:
            whole["offset"] = 8
            client.call("delete_records", 2, topics=[{"name": TOPIC, "partitions": [whole]}], timeout=5_000)
        on.do(lambda: on.topic.forget(A))
        on.follow(A)
        assert on.ids() == []


def test_the_topic_is_deleted_and_made_again(node: RunningNode) -> None:
    with topic_on(node) as on:
        on.follow(A)
        on.copy(segment(0))
        with node.client() as client:
            client.call("delete_topics", 6, topics=[{"name": TOPIC, "topic_id": None}], timeout=5_000)
        wait_for(lambda: not on.do(lambda: on.topic.is_ready(A)) or not on.ids(), "a new beginning")
        on.wait(lambda: on.topic.ready(A))
        on.copy(segment(1))
        assert on.ids() == [segment(1).id]


def test_ten_thousand_segments_are_read_within_two_seconds(node: RunningNode) -> None:
    number = metadata_partition(A, COUNT)
    with topic_on(node) as on:
        on.follow(A)
        on.do(lambda: on.topic.forget(A))
        for begin in range(0, 10_000, 500):
            records: list[bytes | None] = []
            for each in map(segment, range(begin, begin + 500)):
                records.append(record_bytes(SEGMENT, segment_value(each)))
                records.append(record_bytes(SEGMENT_UPDATE, update_value(each, FINISHED, 1, 2)))
            on.produce(number, records)
        gaps: list[float] = []

        async def watch_the_loop() -> None:
            while True:
                begun = time.monotonic()
                await asyncio.sleep(0)
                gaps.append(time.monotonic() - begun)

        watching = asyncio.run_coroutine_threadsafe(watch_the_loop(), node.loop)
        begun = time.monotonic()
        on.follow(A)
        took = time.monotonic() - begun
        watching.cancel()
        assert len(on.ids()) == 10_000
        assert took < 10, took  # 1 s on a machine that does nothing else; two cores may run other tests
        assert sorted(gaps)[-len(gaps) // 100 - 2] < 0.1, "the loop is not held"


# a cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("tiering")) as running:
        yield running


def running(cluster: Cluster, node_id: int) -> ClusterNode:
    found = cluster.nodes[node_id]
    assert isinstance(found, ClusterNode)
    return found


SPREAD = replace(SETTINGS, partitions=6, replication_factor=3)


def test_brokers_see_what_any_of_them_appends(cluster: Cluster) -> None:
    ids = list(cluster.nodes)
    partitions = [numbers_in(6, number) for number in range(6)]
    topics = {each: OnNode(running(cluster, each), SPREAD) for each in ids}
    try:
        for on in topics.values():
            on.follow(*partitions)
        leaders = {each.leader for each in topics[ids[0]].broker.image.topics[TOPIC].partitions.values()}
        assert leaders == set(ids), "each broker leads some"
        for i, partition in enumerate(partitions * 2):
            on = topics[ids[i % 2]]
            on.copy(segment(i, partition))
            assert segment(i, partition).id in on.ids(partition)
        for on in topics.values():
            for i, partition in enumerate(partitions):
                expected = [segment(i, partition).id, segment(i + 6, partition).id]
                wait_for(lambda on=on, at=partition, ids=expected: on.ids(at) == ids, "the records")  # type: ignore[misc]
        late = OnNode(running(cluster, ids[2]), SPREAD)
        topics[0] = late
        late.follow(partitions[0])
        late.follow(*partitions)
        assert [late.ids(each) for each in partitions] == [topics[ids[0]].ids(each) for each in partitions]
    finally:
        for on in topics.values():
            on.do(on.topic.stop)


def test_another_broker_has_removed_records(cluster: Cluster) -> None:
    ids = list(cluster.nodes)
    topics = {each: OnNode(running(cluster, each), SPREAD) for each in ids}
    partition = TieredPartition("trimmed", 0, uuid(78))
    number = metadata_partition(partition, 6)
    try:
        first = topics[ids[0]]
        first.follow(partition)
        for each in range(4):
            first.copy(segment(each, partition))
        leader = first.broker.image.topics[TOPIC].partitions[number].leader
        end = topics[leader].do(lambda: topics[leader].broker.partitions.find(TOPIC, number).log.log_end_offset)
        with cluster.client(leader) as client:
            trimmed = {"partition_index": number, "offset": end - 4}
            answer = client.call("delete_records", 2, topics=[{"name": TOPIC, "partitions": [trimmed]}], timeout=5_000)
        assert answer["topics"][0]["partitions"][0]["error_code"] == 0
        for node_id in ids:
            on = OnNode(running(cluster, node_id), SPREAD)
            on.follow(partition)
            assert on.ids(partition) == [segment(2, partition).id, segment(3, partition).id], node_id == leader
            on.copy(segment(10 + node_id, partition))
            on.do(on.topic.stop)
            trimmed_ids = [segment(each, partition).id for each in range(4)]
            assert first.ids(partition)[:4] == trimmed_ids, "who has read them keeps them"
            for state in (SegmentState.DELETE_SEGMENT_STARTED, SegmentState.DELETE_SEGMENT_FINISHED):
                value = update_value(segment(10 + node_id, partition), state, 1, 3)
                first.wait(lambda value=value: first.topic.append(partition, value, SEGMENT_UPDATE))  # type: ignore[misc]
    finally:
        for on in topics.values():
            on.do(on.topic.stop)


def test_leaders_stop_and_come_back(cluster: Cluster) -> None:
    ids = list(cluster.nodes)
    partitions = [numbers_in(6, number) for number in range(6)]
    on = OnNode(running(cluster, ids[0]), SPREAD)
    try:
        on.follow(*partitions)
        before = {each: on.ids(each) for each in partitions}
        for stopped in ids[1:]:
            cluster.stop(stopped)
            for number, partition in enumerate(partitions):
                on.copy(segment(100 * stopped + number, partition))
                before[partition].append(segment(100 * stopped + number, partition).id)
            cluster.start(stopped)
        assert {each: on.ids(each) for each in partitions} == before
        other = OnNode(running(cluster, ids[1]), SPREAD)
        try:
            other.follow(*partitions)
            assert {each: other.ids(each) for each in partitions} == before
        finally:
            other.do(other.topic.stop)
    finally:
        on.do(on.topic.stop)
