"""Logs of a topic with tiered storage that have lost a part, as real Kafka starts with them: where the log then ends,
and which offsets consumers get, is what `kcli recover --tier` says before; and all of them, after its salvage."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from kcli.log.recovery.offset_ranges import OffsetRanges
from tests.conftest import truth
from tests.interop.kit import kafka
from tests.interop.test_tier_live_kafka import tiered_storage as tiered_storage  # noqa: PLC0414  (a fixture)
from tests.tier.stores import Copy
from tests.tier.test_recover import HARMS, about_tier, partition_of, recover, rows
from tests.tier.test_recover import copy as copy  # noqa: PLC0414  (a fixture)

NODE = f"kcli-recover-tier-{os.getpid()}"
WAIT_S = 30.0
SETTINGS = {
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
    "rlmm.config.remote.log.metadata.topic.min.isr": "1",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
    "remote.log.metadata.manager.listener.name": "PLAINTEXT",
    "remote.log.manager.task.interval.ms": "300000",
    "log.retention.check.interval.ms": "300000",
    "log.initial.task.delay.ms": "300000",
}


def consumed(directory: Path, store: Path, topic: str) -> tuple[list[int], int]:
    """Start Kafka on a copy of a log directory, with a copy of a store. Return the offsets of the records that a
    consumer of partition 0 gets from the log start offset on, and the log end offset."""
    home = store.parent / f"store-of-{directory.name}"
    shutil.copytree(store, home)
    settings = SETTINGS | {"rsm.config.dir": str(home)}
    kafka("open", str(directory), NODE, *(f"{name}={value}" for name, value in settings.items()))
    consumer = Consumer(
        {
            "bootstrap.servers": kafka("bootstrap", NODE).strip(),
            "group.id": "x",
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_uncommitted",
        }
    )
    try:
        start, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=WAIT_S)
        consumer.assign([TopicPartition(topic, 0, start)])
        found = []
        while (message := consumer.poll(WAIT_S)) is not None:
            error = message.error()
            if error is None:
                found.append(message.offset() or 0)
            elif error.code() == KafkaError._PARTITION_EOF:
                break  # other errors pass, once the broker has read the metadata of its tier
        return found, end
    finally:
        consumer.close()
        kafka("kill", NODE)
        kafka("rm", NODE)


@pytest.mark.parametrize("name", HARMS)
def test_a_start_and_salvage(copy: Copy, name: str, tiered_storage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_CLASSPATH", tiered_storage)
    partition = partition_of(name)
    topic = partition.removesuffix("-0")
    whole = [each["offset"] for each in truth(f"tiered/expected/truth/{topic}.jsonl.gz") if each["partition"] == 0]
    HARMS[name][0](copy)
    ended = recover(copy, "--format", "jsonl")
    foretold = rows(ended, partition, "partition")[0]["log_end_offset"]
    lacking = OffsetRanges(about_tier(ended, partition).get("in-tier", []))
    got, end = consumed(copy.data, copy.remote, topic)
    assert end == foretold
    assert got == [offset for offset in whole if offset < end and not lacking.has(offset)]

    new = copy.data.parent / "new"
    ended = recover(copy, "--salvage", "--out", new, "--format", "jsonl")
    foretold = rows(ended, partition, "partition")[0]["log_end_offset"]
    got, end = consumed(new, copy.remote, topic)
    assert end == foretold
    assert got == [offset for offset in whole if offset < end]
