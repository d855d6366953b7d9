"""A client's address is written as Java writes it, also for an IPv4 client of a listener at ::."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli.protocol.error_code import ErrorCode
from kcli.security.authorizer import CLASS_NAME
from tests.broker.cluster import wait_for
from tests.broker.running import Client, RunningNode
from tests.broker.security.secured import unused_port

IPV4, OTHER, IPV6 = "127.0.0.1", "127.0.0.2", "0:0:0:0:0:0:0:1"
GROUP = 3

pytestmark = pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6 here")


@pytest.fixture(params=["[::]", ""])
def node(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[RunningNode]:
    """A node on which every client has only the rights that ACLs give."""
    options = {
        "listeners": f"PLAINTEXT://{request.param}:0,CONTROLLER://127.0.0.1:{unused_port()}",
        "advertised.listeners": "PLAINTEXT://localhost:9092",
        "authorizer.class.name": CLASS_NAME,
        "allow.everyone.if.no.acl.found": "true",
        "max.connections.per.ip.overrides": f"{OTHER}:1",
        "group.initial.rebalance.delay.ms": "0",
    }
    running = RunningNode(tmp_path, options)
    yield running
    running.stop()


def client(node: RunningNode, host: str, from_host: str = "") -> Client:
    ((sock, _),) = node.node.server._listening
    return Client((host, sock.getsockname()[1]), from_host=from_host)


def test_limits_acls_and_members_know_clients_by_their_own_addresses(node: RunningNode) -> None:
    with client(node, "::1") as admin:
        (kept,) = node.run(lambda: [each.client_host for each in node.node.server.connections])
        assert kept == IPV6
        fields = {"resource_pattern_type": 3, "principal": "User:*", "operation": 2}
        allowed = {**fields, "resource_type": GROUP, "resource_name": "g", "host": "*", "permission_type": 3}
        denied = allowed | {"host": IPV4, "permission_type": 2}
        admin.call("create_acls", 3, creations=[allowed, denied])
        entity = [{"entity_type": "ip", "entity_name": IPV4}]
        ops = [{"key": "connection_creation_rate", "value": 1.0, "remove": False}]
        admin.call("alter_client_quotas", 1, entries=[{"entity": entity, "ops": ops}], validate_only=False)
        admin.call("find_coordinator", 3, key="g", key_type=0)
        wait_for(lambda: asked(admin) == ErrorCode.NONE, "coordinator")
        times = {"session_timeout": 10_000, "rebalance_timeout": 1000}
        member = {"member_id": "", "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}]}
        assert admin.call("join_group", 3, group_id="g", **times, **member)["error_code"] == ErrorCode.NONE
        (group,) = admin.call("describe_groups", 3, groups=["g"])["groups"]
        assert [each["client_host"] for each in group["members"]] == [f"/{IPV6}"]
    with client(node, IPV4, OTHER) as first, client(node, IPV4, OTHER) as second:
        assert asked(first) == ErrorCode.NONE
        assert second.is_closed(), "one connection alone"
    with client(node, IPV4) as third:
        assert asked(third) == ErrorCode.GROUP_AUTHORIZATION_FAILED
        peers = node.run(lambda: {each.peer.rpartition(":")[0] for each in node.node.server.connections})
        assert IPV4 in peers
    limits = node.node.server.limits
    wait_for(lambda: node.run(lambda: limits.refusal_ms(IPV4, 0)) > 0, "quota")
    assert node.run(lambda: limits.refusal_ms(OTHER, 0)) == 0


def asked(client: Client) -> int:
    """Return the error code of a request about the group."""
    (group,) = client.call("describe_groups", 3, groups=["g"])["groups"]
    code: int = group["error_code"]
    return code
