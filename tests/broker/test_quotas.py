"""Client quotas: which quota applies to a client, how long it is throttled, and that the broker enforces this."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, cast

import pytest

from kcli.broker.quotas.client import Quotas
from kcli.broker.quotas.rates import Rate, TokenBucket
from kcli.broker.wire.call import Call
from kcli.broker.wire.messages import RequestHeader
from kcli.security.principals import ANONYMOUS
from tests.broker.api.test_produce_fetch import create, fetch, partition_of, produce
from tests.broker.running import Client, running_node
from tests.broker.security import user_quotas
from tests.log.batches import batch

USER, CLIENT = "user", "client-id"


def call(client_id: str, now_ms: int, size_bytes: int = 0, principal: str = ANONYMOUS) -> Call:
    header = RequestHeader(0, 0, 0, client_id, 0)
    return Call(cast("Any", None), header, None, now_ms, principal=principal, size_bytes=size_bytes)


def test_rate_is_over_all_windows() -> None:
    rate = Rate(11, 1000)
    rate.add(10_000, 0)
    assert rate.throttle_ms(1000, 0) == 0, "10,000 in 10 s"
    rate.add(10_000, 0)
    assert rate.throttle_ms(1000, 0) == 10_000, "20,000 bytes are 1,000 a second over 20 s"
    assert rate.throttle_ms(1000, 10_999) > 0
    assert rate.throttle_ms(1000, 11_000) == 0, "after all windows it is forgotten"


def test_token_bucket() -> None:
    bucket = TokenBucket(10, 0, 2)
    bucket.take(20, 2, 0)
    assert bucket.throttle_ms(2, 0) == 0
    bucket.take(10, 2, 0)
    assert bucket.throttle_ms(2, 0) == 5000
    assert bucket.throttle_ms(2, 5000) == 0


@pytest.mark.parametrize(
    ("entity", "matches"),
    [
        (((USER, "ANONYMOUS"), (CLIENT, "a")), True),
        (((USER, "ANONYMOUS"), (CLIENT, None)), True),
        (((USER, "ANONYMOUS"),), True),
        (((USER, None), (CLIENT, "a")), True),
        (((USER, None), (CLIENT, None)), True),
        (((USER, None),), True),
        (((CLIENT, "a"),), True),
        (((CLIENT, None),), True),
        (((USER, "bob"),), False),
        (((CLIENT, "b"),), False),
        ((("ip", "127.0.0.1"),), False),
    ],
)
def test_entities(entity: tuple[tuple[str, str | None], ...], matches: bool) -> None:
    quotas = Quotas()
    quotas.update({entity: {"producer_byte_rate": 10.0}})
    assert (quotas.produce_throttle_ms(call("a", 0, 10_000)) > 0) is matches
    assert quotas.fetch_throttle_ms(call("a", 0), 10_000) == 0


@pytest.mark.parametrize("case", range(len(user_quotas.ENTITIES)))
def test_users_wait_as_long_as_with_kafka(case: int) -> None:
    """Compares which quota applies and which clients share it. Kafka's later requests came some ms later."""
    quotas = Quotas()
    quotas.update({tuple(of.items()): {"producer_byte_rate": rate} for of, rate in user_quotas.quotas(case)})
    found = []
    for user, client_id in user_quotas.clients(case):
        size = user_quotas.REQUEST_BYTES + len(client_id)
        found.append(quotas.produce_throttle_ms(call(client_id, 0, size, f"User:{user}")))
    assert found == pytest.approx(json.loads(user_quotas.THROTTLES.read_text())[case], abs=60)


def test_the_most_specific_quota_counts() -> None:
    quotas = Quotas()
    quotas.update({((CLIENT, "a"),): {"producer_byte_rate": 1.0}, ((USER, None),): {"producer_byte_rate": 1e9}})
    assert quotas.produce_throttle_ms(call("a", 0, 10_000)) == 0


def test_clients_of_a_default_are_counted_each_by_itself() -> None:
    quotas = Quotas()
    quotas.update({((CLIENT, None),): {"producer_byte_rate": 100.0}})
    assert quotas.produce_throttle_ms(call("a", 0, 1500)) == 5000
    assert quotas.produce_throttle_ms(call("b", 0, 100)) == 0


def test_request_time_throttles_for_a_window_at_most() -> None:
    quotas = Quotas()
    quotas.update({((CLIENT, "a"),): {"request_percentage": 0.1}})
    assert quotas.request_throttle_ms(call("a", 0), 10**9) == 1000


def test_mutations() -> None:
    quotas = Quotas(mutation_windows=10)
    quotas.update({((CLIENT, "a"),): {"controller_mutation_rate": 1.0}})
    assert quotas.mutation_throttle_ms(call("a", 0), 12, is_strict=True) == 0, "it may go into debt once"
    assert quotas.mutation_throttle_ms(call("a", 0), 1, is_strict=True) == 2000
    assert quotas.mutation_throttle_ms(call("a", 0), 1, is_strict=False) == 3000, "the second call was not counted"
    assert quotas.mutation_throttle_ms(call("a", 3000), 1, is_strict=True) == 0


def set_quota(client: Client, name: str, value: float | None) -> None:
    entry = {
        "entity": [{"entity_type": CLIENT, "entity_name": "slow"}],
        "ops": [{"key": name, "value": value or 0.0, "remove": value is None}],
    }
    answer = client.call("alter_client_quotas", 1, entries=[entry], validate_only=False)
    assert answer["entries"][0]["error_code"] == 0


def test_enforced(tmp_path: Path) -> None:
    with running_node(tmp_path) as node, node.client() as admin, node.client("slow") as slow:
        create(node, "t")
        set_quota(admin, "producer_byte_rate", 10_000)
        began = time.monotonic()
        sent = batch(b"x" * 105_000)
        slow.socket.sendall(slow.frame("produce", 9, _request(sent)))
        throttled = slow.answer("produce", 9)["throttle_time"]
        assert 400 <= throttled <= 1000
        assert time.monotonic() - began < throttled / 1000, "the answer itself comes at once"
        assert slow.call("api_versions", 0)["error_code"] == 0
        assert time.monotonic() - began > throttled / 1000 - 0.05, "then the connection is deaf"
        set_quota(admin, "producer_byte_rate", None)
        assert produce(slow, 9, "t", sent)["error_code"] == 0
        set_quota(admin, "consumer_byte_rate", 20_000)
        first = fetch(slow, 11, "t", 0)
        if not first["throttle_time"]:  # 210 kB in 10 s is just above the quota
            first = fetch(slow, 11, "t", 0)
        assert first["throttle_time"] > 0
        assert first["responses"] == [], "who is throttled gets nothing yet"
        set_quota(admin, "consumer_byte_rate", None)
        assert partition_of(fetch(slow, 11, "t", 0))["high_watermark"] == 2


def _request(data: bytearray) -> dict[str, Any]:
    partition = {"index": 0, "records": bytes(data)}
    return {"acks": -1, "timeout": 1000, "topic_data": [{"name": "t", "partition_data": [partition]}]}
