"""What real Kafka answers to a Fetch and to ListOffsets of a topic most of which is in its tier alone, kcli answers on
the same log directory and the same store."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from formats.kernels.batches import BatchTable
from formats.kernels.scan import scan
from tests.broker.running import Client
from tests.broker.tiering.test_fetch import answers, fetch, tiered_node
from tests.interop.kit import kafka
from tests.interop.test_tier_live_kafka import NODE, TOPIC, Live, tiered_storage
from tests.tier.stores import Copy

__all__ = ["tiered_storage"]
PARTITION = (TOPIC, 0)
Answer = tuple[Any, ...]


@pytest.fixture
def live(tiered_storage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    """A running Kafka with a tier, which the test stops."""
    monkeypatch.setenv("KAFKA_CLASSPATH", tiered_storage)
    (tmp_path / "store").mkdir()
    node = Live(tmp_path / "store")
    try:
        node.start()
        yield node
    finally:
        with suppress(AssertionError):  # it has stopped
            kafka("kill", NODE)
        kafka("rm", NODE)


def whole(records: bytes) -> bytes:
    """The whole batches; Kafka also sends a part of the next one."""
    return records[: scan(records, 0, len(records), 0, BatchTable(), check_crc=False)[0]]


def fetched(client: Client, end: int) -> Iterator[tuple[tuple[int, ...], Answer]]:
    """Each Fetch, and what is answered: error, high watermark, last stable offset, log start offset, records, aborted
    transactions."""
    for isolation in (0, 1):
        for partition_bytes in (1, 900, 5_000, 1 << 20):
            for offset in [*range(0, end, 23), *range(end - 3, end + 2)]:
                response = fetch(
                    client, {PARTITION: offset}, max_wait=0, isolation=isolation, partition_bytes=partition_bytes
                )
                found = answers(response)[PARTITION]
                aborted = found["aborted_transactions"]
                yield (
                    (isolation, partition_bytes, offset),
                    (
                        found["error_code"],
                        found["high_watermark"],
                        found["last_stable_offset"],
                        found["log_start_offset"],
                        whole(found["records"]),
                        None if aborted is None else {(each["producer_id"], each["first_offset"]) for each in aborted},
                    ),
                )


def found_by_time(client: Client, times: list[int]) -> Iterator[tuple[int, Answer]]:
    """Each ListOffsets, and what is answered: error, timestamp, offset."""
    for timestamp in times:
        asked = [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}]
        topics = [{"name": TOPIC, "partitions": asked}]
        response = client.call("list_offsets", 8, replica_id=-1, isolation_level=0, topics=topics)
        (each,) = response["topics"][0]["partitions"]
        yield timestamp, (each["error_code"], each["timestamp"], each["offset"])


def test_answers_are_those_of_kafka(live: Live, tmp_path: Path) -> None:
    configs = ("remote.storage.enable=true", "internal.segment.bytes=8000", "local.retention.ms=500")
    create = ["--bootstrap-server", live.address, "--create", "--topic", TOPIC, "--partitions", "1"]
    kafka("topics", *create, *(word for each in configs for word in ("--config", each)))
    live.produce(0)
    kafka("stop", NODE)
    live.start()  # another leader epoch
    live.produce(400)
    live.wait(lambda: live.is_tiered() and len(live.epochs()) > 1)
    host, _, port = live.address.rpartition(":")
    with Client((host, int(port))) as client:
        (latest,) = (found for _, found in found_by_time(client, [-1]))
        end = latest[2]
        assert end > 800
        _, (_, begin_ms, _) = next(found_by_time(client, [0]))
        last_ms = int(time.time() * 1000)
        times = [-1, -2, *range(begin_ms - 1, last_ms + 2, max(1, (last_ms - begin_ms) // 60)), last_ms]
        theirs = dict(fetched(client, end))
        their_times = dict(found_by_time(client, times))
    kafka("stop", NODE)
    copy = Copy(shutil.copytree(live.data, tmp_path / "data"), live.store)
    with tiered_node(copy) as broker, broker.node.client() as client:
        ours = dict(fetched(client, end))
        our_times = dict(found_by_time(client, times))
        assert broker.store.count > 100, "it has read the tier"
    assert our_times == their_times
    different = {asked: (ours[asked][:4], found[:4]) for asked, found in theirs.items() if ours[asked] != found}
    assert different == {}
    assert {found[0] for found in theirs.values()} == {0, 1}
    assert sum(bool(found[5]) for found in theirs.values()) > 20, "aborted transactions"
