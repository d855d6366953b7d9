"""A broker whose tier is a bucket of S3: it copies, reads, expires and deletes there as in a directory."""

from __future__ import annotations

from pathlib import Path

from tests.broker.running import Client, served_node
from tests.broker.tiering.test_manager import CONFIGS, RECORDS, SETTINGS, consumed, offsets, produce, wait_until
from tests.tier.conftest import s3, s3_endpoint
from tests.tier.s3 import client

__all__ = ["s3", "s3_endpoint"]

BUCKET = "broker"
STORE = {
    "remote.log.storage.manager.class.name": "kcli.tier.ObjectStorage",
    "rsm.config.url": f"s3://{BUCKET}/a/tier",
}


def test_a_bucket(s3: str, tmp_path: Path) -> None:
    bucket = client(s3)
    bucket.create_bucket(Bucket=BUCKET)

    def keys() -> list[str]:
        return [each["Key"] for each in bucket.list_objects_v2(Bucket=BUCKET).get("Contents", [])]

    arguments = [word for each in (SETTINGS | STORE).items() for word in ("-o", "=".join(each))]
    with served_node(tmp_path / "data", *arguments, warm=False) as node:
        with Client(node.address) as asking:
            asking.create_topic("orders", 1, CONFIGS)
        produce(node, "orders", 0, RECORDS)
        wait_until(lambda: offsets(node, "orders")["local"] > RECORDS - 150, lambda: offsets(node, "orders"))
        assert all(each.startswith("a/tier/orders-0-") for each in keys())
        assert consumed(node, "orders", 0, RECORDS) == [f"value {i:06}" for i in range(RECORDS)]
        with Client(node.address) as asking:
            asking.call("delete_topics", 6, topics=[{"name": "orders", "topic_id": None}], timeout=10_000)
        wait_until(lambda: not keys(), keys)
