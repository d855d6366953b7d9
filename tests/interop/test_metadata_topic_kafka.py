"""A kcli broker's MetadataTopic beside real Kafka: it reads the records that Kafka's brokers wrote, and appends to a
partition of the topic that Kafka leads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from kcli.broker.config import BrokerConfig
from kcli.broker.coordinators.context import CoordinatorContext
from kcli.broker.network.client import SocketNetwork
from kcli.broker.network.outbound import IN_THE_CLEAR
from kcli.broker.partition.partitions import Partitions
from kcli.broker.process.clock import Clock
from kcli.broker.process.turns import Turns
from kcli.broker.tiering.metadata_topic import MetadataTopic
from kcli.log.partition_view import PartitionView
from kcli.metadata_log.replay import refuse, replay
from kcli.tier.records import SEGMENT, SEGMENT_UPDATE, segment_value, update_value
from kcli.tier.segment import SegmentState
from kcli.tier.tier import PartitionTier
from tests.broker.tiering.test_metadata_topic import SETTINGS
from tests.interop.kit import kafka
from tests.interop.test_tier_live_kafka import TOPIC, Live, live, tiered_storage
from tests.tier.records import uuid

__all__ = ["live", "tiered_storage"]


def context_of(directory: Path, path: Path) -> CoordinatorContext:
    """What a broker with another id knows of the cluster, by the metadata log of the running node."""
    metadata = directory / "__cluster_metadata-0"
    image = replay(metadata, PartitionView(metadata).original, refuse, around_damage=False)
    config = BrokerConfig(
        {
            "process.roles": "broker",
            "node.id": "77",
            "log.dirs": str(path),
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": "1@127.0.0.1:1",
        }
    )
    network = SocketNetwork(asyncio.get_running_loop(), IN_THE_CLEAR)
    return CoordinatorContext(config, Clock(), image, Partitions(image), network, Turns())


async def follow_and_append(directory: Path, path: Path, read: Callable[[], PartitionTier]) -> None:
    """read: the same from the files."""
    context = context_of(directory, path)
    none: Any = None  # the topic is there: nothing is asked of a controller
    topic = MetadataTopic(context, none, replace(SETTINGS, partitions=3))
    topic.start()
    try:
        partition = read().partition
        topic.follow(partition)
        await asyncio.wait_for(topic.ready(partition), 30)
        async with asyncio.timeout(30):  # Kafka may be copying
            while topic.cache(partition).segments() != read().cache.segments():  # noqa: ASYNC110  (files tell of no change)
                await asyncio.sleep(0.2)
        last = topic.cache(partition).segments()[-1]
        ours = replace(last, id=uuid(1234), state=SegmentState.COPY_SEGMENT_STARTED)
        await topic.append(partition, segment_value(ours), SEGMENT)
        assert topic.cache(partition).segment(uuid(1234)) == ours
        gone = update_value(ours, SegmentState.DELETE_SEGMENT_STARTED, 77, 5)
        await topic.append(partition, gone, SEGMENT_UPDATE)
        found = topic.cache(partition).segment(uuid(1234))
        assert found is not None
        assert found.state is SegmentState.DELETE_SEGMENT_STARTED
    finally:
        topic.stop()
        network: Any = context.network
        network.close()


def test_records_of_a_running_kafka(live: Live, tmp_path: Path) -> None:
    configs = ("remote.storage.enable=true", "internal.segment.bytes=8000", "local.retention.ms=500")
    create = ["--bootstrap-server", live.address, "--create", "--topic", TOPIC, "--partitions", "1"]
    kafka("topics", *create, *(word for each in configs for word in ("--config", each)))
    live.produce(0)
    live.wait(live.is_tiered)
    asyncio.run(follow_and_append(live.data, tmp_path / "own", live.partition))
    states = {each.id: each.state for each in live.partition().cache.segments()}
    assert states[uuid(1234)] is SegmentState.DELETE_SEGMENT_STARTED
