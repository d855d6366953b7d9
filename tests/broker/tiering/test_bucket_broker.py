"""A broker whose tier is a bucket of S3: it copies, reads, expires and deletes there as in a directory."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kcli.inspector.tier import Orphans, TierVerification
from kcli.protocol.error_code import ErrorCode
from kcli.tier.opening import open_store
from kcli.tier.tier import Tier
from tests.broker.running import Client, served_node
from tests.broker.tiering.test_fetch import answers, fetch
from tests.broker.tiering.test_manager import CONFIGS, RECORDS, SETTINGS, consumed, offsets, produce, wait_until
from tests.tier.conftest import proxy, s3, s3_endpoint
from tests.tier.s3 import Fault, Proxy, client, new_bucket, pass_on, s3_error

__all__ = ["proxy", "s3", "s3_endpoint"]

CLASS = {"remote.log.storage.manager.class.name": "kcli.tier.ObjectStorage"}
ANSWER_S = 10.0
"""More than any answer to a Fetch may take, and less than the store is tried."""


def test_a_bucket(s3: str, tmp_path: Path) -> None:
    bucket = new_bucket(s3)

    def keys() -> list[str]:
        return [each["Key"] for each in client(s3).list_objects_v2(Bucket=bucket).get("Contents", [])]

    settings = SETTINGS | CLASS | {"rsm.config.url": f"s3://{bucket}/a/tier"}
    arguments = [word for each in settings.items() for word in ("-o", "=".join(each))]
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


def flipped(request: bytes, answer: Callable[[], bytes]) -> Iterator[bytes]:
    """Each .log object comes with a wrong byte in its first batch."""
    data = bytearray(answer())
    if request.startswith(b"GET") and b".log " in request.split(b"\r\n")[0]:
        data[data.index(b"\r\n\r\n") + 80] ^= 1
    yield bytes(data)


FAILED, LATE = "UNKNOWN_SERVER_ERROR", "no records yet"
FAULTS: dict[str, tuple[Fault, set[str]]] = {
    "slow": (lambda _, answer: [0.2, answer()], {"records"}),
    "overloaded": (lambda *_: [s3_error("503 Slow Down", "SlowDown")], {LATE, FAILED}),
    "cut in the head": (lambda _, answer: [answer()[:20]], {LATE, FAILED}),
    "cut in the body": (lambda _, answer: [answer()[:-1]], {LATE, FAILED}),
    "silent": (lambda *_: [3.0], {LATE}),
    "loses an upload": (
        lambda request, answer: (
            [s3_error("404 Not Found", "NoSuchUpload")] if request.startswith((b"PUT", b"POST")) else [answer()]
        ),
        {"records"},
    ),
    "wrong bytes": (flipped, {FAILED}),
}
"""Faults of a server, and what a Fetch from the tier gets meanwhile, each from a segment that no other one has read."""


def fetched(asking: Client, offset: int) -> dict[str, Any]:
    """What a Fetch answers for the partition."""
    return answers(fetch(asking, {("orders", 0): offset}))["orders", 0]


def test_a_server_that_fails_in_every_way(proxy: Proxy, s3: str, tmp_path: Path) -> None:
    """The tail is produced and read on; a read of the tier gets an answer in time, never wrong records; and once the
    server serves again, what was not copied is copied."""
    url, count = f"s3://{new_bucket(s3)}/tier", 600
    settings = SETTINGS | CLASS | {"rsm.config.url": url, "remote.fetch.max.wait.ms": "2000"}
    arguments = [word for each in settings.items() for word in ("-o", "=".join(each))]
    with served_node(tmp_path / "data", *arguments, warm=False) as node:
        with Client(node.address) as asking:
            asking.create_topic("orders", 1, CONFIGS)
            produce(node, "orders", 0, count)
            wait_until(lambda: offsets(node, "orders")["local"] > count - 150, lambda: offsets(node, "orders"))
            end = count
            for number, (name, (fault, expected)) in enumerate(FAULTS.items()):
                proxy.fault = fault
                produce(node, "orders", end, 40)
                end += 40
                tail = fetched(asking, end - 1)
                assert (tail["error_code"], tail["high_watermark"]) == (0, end), name
                assert tail["records"], name
                begun = time.monotonic()
                tiered = fetched(asking, number * 60)
                assert time.monotonic() - begun < ANSWER_S, name
                found = "records" if tiered["records"] else LATE
                assert (found if not tiered["error_code"] else ErrorCode(tiered["error_code"]).name) in expected, name
            proxy.fault = pass_on
        wait_until(lambda: offsets(node, "orders")["local"] > end - 150, lambda: offsets(node, "orders"))
        assert consumed(node, "orders", 0, end) == [f"value {i:06}" for i in range(end)]
    proxy.fault = lambda *_: [4.0]
    with served_node(tmp_path / "data", *arguments, warm=False) as node:  # the store is away when the broker starts
        produce(node, "orders", end, 40)
        end += 40
        proxy.fault = pass_on
        wait_until(lambda: offsets(node, "orders")["local"] > end - 150, lambda: offsets(node, "orders"))
        assert consumed(node, "orders", 0, end) == [f"value {i:06}" for i in range(end)]
        code, log = node.signal(signal.SIGTERM)
    assert code == 0
    assert "no answer in 3 s; copies, deletions and reads from the tier are tried again" in log
    tier = Tier.read(open_store(url), tmp_path / "data")
    assert [each for each in TierVerification(tier).findings() if each.severity != "info"] == []
    assert [each for each in Orphans(tier).findings() if each.kind == "tier-orphan"] == []
