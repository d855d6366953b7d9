"""A node with tiered storage goes from kcli to real Kafka and back, and Kafka's to kcli: each copies, reads, expires
and deletes behind the other."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli.inspector.tier import Orphans, TierVerification
from kcli.tier.local import LocalStore
from kcli.tier.tier import PartitionTier, Tier
from tests.broker.running import Client, ServedNode
from tests.broker.tiering.test_manager import (
    CONFIGS,
    SETTINGS,
    consumed,
    objects,
    offsets,
    produce,
    tiered_node,
    wait_until,
)
from tests.interop.complaints import complaints
from tests.interop.kit import kafka
from tests.interop.test_restore_kafka import consumed as consumed_whole
from tests.interop.test_tier_live_kafka import tiered_storage
from tests.tier.stores import Copy

__all__ = ["tiered_storage"]

NODE = f"kcli-tier-handover-{os.getpid()}"
TOPIC = "orders"
COUNT = 300
EXPECTED = (
    "already in the remote storage will not be deleted|disconnected|could not be established"
    "|RemoteLogReader - Error occurred while reading"
)
"""What Kafka says of any tier that is not empty, of clients of its own when it stops, and to consumers before it has
replayed the metadata."""


@pytest.fixture(autouse=True)
def _no_node_left(tiered_storage: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("KAFKA_CLASSPATH", tiered_storage)
    yield
    if re.search(rf"^{NODE} .* running", kafka("ls"), re.MULTILINE):
        kafka("kill", NODE)
    kafka("rm", NODE)


def values(first: int, count: int) -> list[str]:
    return [f"value {i:06}" for i in range(first, first + count)]


def read(home: Path, data: Path | None = None) -> PartitionTier:
    tier = Tier.read(LocalStore(home / "remote"), data or home / "data")
    (found,) = [each for each in tier.partitions if each.partition.topic == TOPIC]
    return found


def check(home: Path, data: Path | None = None) -> None:
    """`kcli tier verify` and `kcli tier orphans` find nothing."""
    tier = Tier.read(LocalStore(home / "remote"), data or home / "data")
    verification = TierVerification(tier)
    assert [each for each in verification.findings() if each.severity != "info"] == []
    assert verification.unreadable == []
    assert [each for each in Orphans(tier).findings() if each.severity != "info"] == []


def stop(node: ServedNode) -> None:
    code, log = node.signal(signal.SIGTERM)
    assert code == 0, log
    assert "Traceback" not in log
    assert "not stopped in order" not in log


def is_copied(node: ServedNode, end: int) -> bool:
    """Whether all is in the tier but the last few records, and the local log has little more."""
    found = offsets(node, TOPIC)
    return end - 60 < found["tiered"] and end - 120 < found["local"]


def create(node: ServedNode, **more: str) -> None:
    with Client(node.address) as client:
        client.create_topic(TOPIC, 1, CONFIGS | more)


def test_kafka_goes_on_with_a_tier_of_kcli_and_kcli_with_that(tmp_path: Path) -> None:
    with tiered_node(tmp_path) as node:
        create(node)
        produce(node, TOPIC, 0, COUNT)
        wait_until(lambda: is_copied(node, COUNT), lambda: offsets(node, TOPIC))
        stop(node)
    check(tmp_path)
    copied = [each.id for each in read(tmp_path).copied()]
    assert len(copied) > 3

    settings = SETTINGS | {"rsm.config.dir": str(tmp_path / "remote")}
    address = kafka("open", str(tmp_path / "data"), NODE, *("=".join(each) for each in settings.items())).strip()
    assert consumed_by_kafka(address) == values(0, COUNT)
    produce_to(address, COUNT, COUNT)
    data = Path(kafka("dir", NODE).strip())

    def last() -> int:
        return max(each.end_offset for each in read(tmp_path, data).copied())

    wait_until(lambda: last() > 2 * COUNT - 60, lambda: (last(), kafka("log", NODE)[-3000:]))
    kafka("stop", NODE)
    errors = complaints(kafka("log", NODE), also=EXPECTED)
    assert errors == [], errors
    check(tmp_path, data)
    assert copied == [each.id for each in read(tmp_path, data).copied()][: len(copied)]

    shutil.rmtree(tmp_path / "data")
    shutil.copytree(data, tmp_path / "data")
    with tiered_node(tmp_path) as node:
        assert consumed(node, TOPIC, 0, 2 * COUNT) == values(0, 2 * COUNT)
        produce(node, TOPIC, 2 * COUNT, COUNT)
        wait_until(lambda: is_copied(node, 3 * COUNT), lambda: offsets(node, TOPIC))
        assert consumed(node, TOPIC, 0, 3 * COUNT) == values(0, 3 * COUNT)
        with Client(node.address) as client:
            client.alter_topic(TOPIC, {"retention.bytes": "16384"})
        wait_until(lambda: offsets(node, TOPIC)["start"] > 2 * COUNT, lambda: offsets(node, TOPIC))
        wait_until(lambda: len(objects(tmp_path)) < 40, lambda: objects(tmp_path))
        stop(node)
    check(tmp_path)
    with tiered_node(tmp_path) as node:
        with Client(node.address) as client:
            client.call("delete_topics", 6, topics=[{"name": TOPIC, "topic_id": None}], timeout=10_000)
        wait_until(lambda: not objects(tmp_path), lambda: objects(tmp_path))
        stop(node)


def consumed_by_kafka(address: str) -> list[str]:
    """The values of all records. A Fetch fails until Kafka has replayed the metadata."""
    found: list[str] = []

    def is_read() -> bool:
        try:
            found[:] = [
                each["value"].decode()[:12] for each in consumed_whole(address, [TOPIC], "read_uncommitted")[TOPIC]
            ]
        except AssertionError:
            return False
        return True

    wait_until(is_read, lambda: kafka("log", NODE)[-3000:])
    return found


def produce_to(address: str, first: int, count: int) -> None:
    class At:
        bootstrap = address

    produce(At(), TOPIC, first, count)  # type: ignore[arg-type]


def test_kcli_goes_on_with_a_tier_of_kafka(tmp_path: Path) -> None:
    """Topics of golden/tiered, with many leader epochs and transactions."""
    copy = Copy.of_golden(tmp_path)
    before = {each.partition: [one.id for one in each.copied()] for each in copy.tier().partitions}
    more = {"rlmm.config.remote.log.metadata.topic.num.partitions": "2", "log.retention.ms": "-1"}
    with tiered_node(tmp_path, **more) as node:
        known = consumed_whole(node.bootstrap, ["r-keep", "r-short"], "read_uncommitted")
        end = 1 + max(each["offset"] for each in known["r-keep"])
        produce(node, "r-keep", end, COUNT)

        def last() -> int:
            (found,) = [each for each in copy.tier().partitions if each.partition.topic == "r-keep"]
            return max(each.end_offset for each in found.copied())

        wait_until(lambda: last() >= end, last)
        assert len(consumed_whole(node.bootstrap, ["r-keep"], "read_uncommitted")["r-keep"]) == COUNT + len(
            known["r-keep"]
        )
        stop(node)
    for each in copy.tier().partitions:
        if each.partition in before:
            assert set(before[each.partition]) <= {one.id for one in each.copied()}
    check(tmp_path)
