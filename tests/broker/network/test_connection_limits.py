"""Limits of connections: which clients wait or are refused, and which are not affected by the limits of others."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from kcli.broker.config import BrokerConfig
from kcli.broker.config.served import CannotServe
from kcli.broker.network.connection_limits import ConnectionLimits
from kcli.metadata.changes import QuotaEntity
from tests.broker.config.test_served import NODE
from tests.broker.running import RunningNode, running_node

HOST = "10.0.0.1"
TWO = {
    "listeners": "PLAINTEXT://:9092,CLIENTS://:9094,CONTROLLER://:9093",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
}


def limits(**options: str) -> ConnectionLimits:
    """Return the limits of a node with two listeners for clients. options: configurations, with _ for the dots."""
    return ConnectionLimits(
        BrokerConfig({**NODE, **TWO, **{name.replace("_", "."): text for name, text in options.items()}})
    )


def rates(*values: tuple[str | None, float]) -> dict[QuotaEntity, dict[str, float]]:
    return {(("ip", name),): {"connection_creation_rate": rate} for name, rate in values}


def test_a_rate_is_that_of_ten_windows_and_the_wait_one_of_them() -> None:
    """Source: Rate, QuotaUtils.boundedThrottleTime."""
    found = limits(max_connection_creation_rate="2")
    waits = [found.wait_ms("CLIENTS", 0) for _ in range(24)]
    assert waits == [0] * 20 + [500, 1000, 1000, 1000]
    assert found.wait_ms("CLIENTS", 11_000) == 0, "after all windows they are forgotten"
    assert found.wait_ms("PLAINTEXT", 0) == 0, "the limit of the node is not that of its inter-broker listener"
    assert found.wait_ms("CONTROLLER", 0) == 0, "controllers have a count of their own"


def test_a_listener_has_a_rate_of_its_own() -> None:
    found = limits(listener_name_plaintext_max_connection_creation_rate="1")
    assert [found.wait_ms("PLAINTEXT", 0) for _ in range(11)] == [0] * 10 + [1000]
    assert found.wait_ms("CLIENTS", 0) == 0


def test_an_address_has_a_rate_of_its_own_or_the_default() -> None:
    found = limits()
    found.update(rates((HOST, 1), (None, 2)))
    assert [found.refusal_ms(HOST, 0) for _ in range(12)] == [0] * 10 + [1000, 1000]
    assert [found.refusal_ms("10.0.0.2", 0) for _ in range(21)] == [0] * 20 + [500]
    found.update(rates((None, 5)))
    assert found.refusal_ms(HOST, 0) == 0
    found.update({})
    assert found.refusal_ms("10.0.0.2", 0) == 0


def test_a_host_may_have_a_name_or_another_form() -> None:
    found = limits(max_connections_per_ip_overrides="::1:0,client:1")
    found.update(rates(("quick", 0), ("::2", 0)))
    assert not found.may_have("0:0:0:0:0:0:0:1")
    assert found.refusal_ms("0:0:0:0:0:0:0:2", 0) == 1000
    assert found.unresolved() == {"quick", "client"}
    found.resolved("client", {HOST})
    found.resolved("quick", {"10.0.0.2"})
    assert found.unresolved() == set()
    assert found.may_have(HOST)
    found.add("CLIENTS", HOST)
    assert not found.may_have(HOST)
    assert found.refusal_ms("10.0.0.2", 0) == 1000


def test_room() -> None:
    found = limits(max_connections="2", listener_name_plaintext_max_connections="2")
    assert [found.add("CLIENTS", HOST) for _ in range(2)] == [False, False]
    assert not found.has_room("CLIENTS")
    assert found.has_room("PLAINTEXT"), "the inter-broker listener takes the place of a client"
    assert found.add("PLAINTEXT", HOST)
    assert found.has_room("CONTROLLER")
    found.add("PLAINTEXT", HOST)
    assert not found.has_room("PLAINTEXT"), "its own limit counts"
    for _ in range(2):
        found.remove("CLIENTS", HOST)
        found.remove("PLAINTEXT", HOST)
    assert found.has_room("CLIENTS")


def served(node: RunningNode) -> int:
    """How many connections the node serves."""
    return node.run(lambda: len(node.node.server.connections))


@pytest.mark.parametrize("name", ["max.connections", "listener.name.plaintext.max.connections"])
def test_a_connection_waits_for_room(name: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {name: "2"}
    with running_node(tmp_path, **options) as node:
        first, second, third = (node.client() for _ in range(3))
        third.socket.sendall(third.frame("api_versions", 0, {}))
        assert second.call("api_versions", 0)["error_code"] == 0
        assert served(node) == 2
        first.socket.close()
        assert third.answer("api_versions", 0)["error_code"] == 0
        for each in (second, third):
            each.socket.close()


def test_a_rate_makes_connections_wait(tmp_path: Path) -> None:
    """Ten windows admit ten connections; the eleventh waits for the next window and is then served."""
    with running_node(tmp_path, max_connection_creation_rate="1") as node:
        begin = time.monotonic()
        clients = [node.client() for _ in range(12)]
        for each in clients:
            each.socket.sendall(each.frame("api_versions", 0, {}))
        assert clients[9].answer("api_versions", 0)["error_code"] == 0
        assert clients[11].answer("api_versions", 0)["error_code"] == 0
        assert time.monotonic() - begin > 0.9
        for each in clients:
            each.socket.close()


class EarlyTimers:
    """A loop whose timers fire before their time by its own clock, as those of uvloop may by less than 1 ms."""

    def __init__(self, loop: Any) -> None:
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def call_later(self, _: float, call: Any) -> Any:
        return self._loop.call_soon(call)

    call_at = call_later


def test_a_timer_that_is_early_serves_whom_it_was_set_for(tmp_path: Path) -> None:
    with running_node(tmp_path, max_connection_creation_rate="1") as node:
        server: Any = node.node.server
        server.loop = EarlyTimers(server.loop)
        clients = [node.client() for _ in range(12)]
        assert [each.call("api_versions", 0)["error_code"] for each in clients] == [0] * 12
        for each in clients:
            each.socket.close()


def test_the_quota_of_an_address_closes_its_connections(tmp_path: Path) -> None:
    with running_node(tmp_path) as node, node.client() as admin:
        entity = [{"entity_type": "ip", "entity_name": "localhost"}]
        ops = [{"key": "connection_creation_rate", "value": 1.0, "remove": False}]
        admin.call("alter_client_quotas", 1, entries=[{"entity": entity, "ops": ops}], validate_only=False)
        until = time.monotonic() + 30
        while not node.run(lambda: node.node.server.limits.refusal_ms("127.0.0.1", 0)):
            assert time.monotonic() < until, "the quota is not taken over"
            time.sleep(0.01)
        clients = [node.client() for _ in range(12)]
        assert clients[-1].is_closed()
        assert admin.call("api_versions", 0)["error_code"] == 0
        for each in clients:
            each.socket.close()


def test_a_stop_closes_those_that_wait(tmp_path: Path) -> None:
    with running_node(tmp_path, max_connections="1") as node:
        clients = [node.client() for _ in range(3)]
        assert clients[0].call("api_versions", 0)["error_code"] == 0
    for each in clients:
        assert each.is_closed()
        each.socket.close()


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a..b"])
def test_a_host_that_is_not_found_ends_the_start(host: str, tmp_path: Path) -> None:
    """As in Kafka, which passes over none of these limits (ConnectionQuotas)."""
    with (
        pytest.raises(CannotServe, match=rf"^max.connections.per.ip.overrides: {re.escape(host)}: "),
        running_node(tmp_path, max_connections_per_ip_overrides=f"{host}:5"),
    ):
        pass
