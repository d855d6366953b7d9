"""What is configured and not honoured ends the start; every name that is accepted is read, refused, or harmless."""

from __future__ import annotations

import ast
import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from kcli.broker.addresses import CannotServe
from kcli.broker.config import BrokerConfig
from kcli.broker.config.broker_keys import BROKER_KEYS, QUOTA_KEYS
from kcli.broker.config.group_config import GROUP_KEYS, broker_synonym
from kcli.broker.config.keys import ConfigType, Required, to_text
from kcli.broker.config.served import HARMLESS, REFUSED, unserved
from kcli.log.config import SYNONYMS, TOPIC_CONFIGS
from kcli.metadata.quota_control import CLIENT_QUOTAS, IP_QUOTAS
from tests.broker.metadata_dirs import config as topic_config
from tests.broker.metadata_dirs import open_metadata
from tests.broker.running import RunningNode, running_node
from tests.cli.run import kcli

KCLI = Path(__file__).parents[2] / "kcli"
NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL",
    "log.dirs": "/data",
}
SAY_WHAT_THERE_IS = (
    "broker/config/broker_keys.py",
    "broker/config/checks.py",
    "broker/config/describe.py",
    "broker/config/documentation.py",
    "broker/config/dynamic.py",
    "broker/config/group_config.py",
    "broker/config/names.py",
    "broker/config/served.py",
    "broker/single_node.py",
    "launcher/plan.py",
)
"""Files that name configurations and do not act on them."""
ROOMS = ("broker", "metadata", "log", "group", "txn", "raft", "launcher")
OF_GROUPS = re.compile(
    r"group\.consumer\.(min\.|max\.)?(session\.timeout|heartbeat\.interval|assignment\.interval)\.ms"
)
"""The defaults and limits of what a consumer group has for itself; group_config.py."""
OF_INTERNAL_TOPICS = re.compile(
    r"offsets\.topic\.(segment\.bytes|num\.partitions|replication\.factor)|"
    r"transaction\.state\.log\.(segment\.bytes|num\.partitions|replication\.factor|min\.isr)"
)
"""internal_topics.py puts prefix and name together."""
NOT_READ_OF_TOPICS = {
    **dict.fromkeys(
        (
            "local.retention.bytes",
            "local.retention.ms",
            "remote.log.copy.disable",
            "remote.log.delete.on.disable",
            "remote.storage.enable",
        ),
        "says nothing without remote.log.storage.system.enable, and a topic that has it true ends the start",
    ),
}
NOT_READ_OF_GROUPS = ("share.", "streams.")
"""There are no such groups yet."""
NOT_KEPT_QUOTAS = {"connection_creation_rate"}
"""Stored for nodes that keep it; max.connection.creation.rate is refused for the same reason."""


def read_by_the_code() -> set[str]:
    """Names that occur as strings, and those of `config.an_attribute`."""
    found: set[str] = set()
    for room in ROOMS:
        for path in (KCLI / room).rglob("*.py"):
            if str(path.relative_to(KCLI)) not in SAY_WHAT_THERE_IS:
                for each in ast.walk(ast.parse(path.read_text())):
                    if isinstance(each, ast.Constant) and isinstance(each.value, str):
                        found.add(each.value)
                    elif isinstance(each, ast.Attribute) and "config" in ast.unparse(each.value):
                        found.add(each.attr.replace("_", "."))
    return found


def test_every_broker_configuration_is_read_refused_or_harmless() -> None:
    found = read_by_the_code()
    known = BROKER_KEYS.keys() | QUOTA_KEYS.keys()
    read = {each for each in known if each in found or OF_GROUPS.fullmatch(each) or OF_INTERNAL_TOPICS.fullmatch(each)}
    assert sorted(known - read - HARMLESS.keys() - REFUSED.keys()) == []
    assert sorted(HARMLESS.keys() & REFUSED.keys()) == []
    assert sorted(HARMLESS.keys() & read) == ["log.local.retention.bytes", "log.local.retention.ms"], "of tiered topics"
    assert known >= HARMLESS.keys()
    assert all(HARMLESS.values()), "each has its reason"


def test_every_configuration_of_topics_groups_and_quotas_is_read() -> None:
    found = read_by_the_code()
    assert sorted(TOPIC_CONFIGS.keys() - found - NOT_READ_OF_TOPICS.keys()) == []
    assert SYNONYMS.keys() <= TOPIC_CONFIGS.keys()
    assert [name for name in GROUP_KEYS if name not in found and not name.startswith(NOT_READ_OF_GROUPS)] == []
    assert {broker_synonym(name) for name in GROUP_KEYS} - {None} <= BROKER_KEYS.keys()
    assert sorted((CLIENT_QUOTAS.keys() | IP_QUOTAS.keys()) - NOT_KEPT_QUOTAS - found) == []


def another_value(name: str) -> str:
    """One that is not the default."""
    special = {"ssl.client.auth": "required", "sasl.oauthbearer.assertion.algorithm": "ES256"}
    special |= {"early.start.listeners": "CONTROLLER", "queued.max.request.bytes": str(1 << 40)}
    key = BROKER_KEYS.get(name)
    if name in special or key is None:
        return special.get(name, "User:admin")
    default = key.default
    assert not isinstance(default, Required)
    match key.type:
        case ConfigType.BOOLEAN:
            return str(not default).lower()
        case ConfigType.INT | ConfigType.LONG | ConfigType.SHORT:
            assert default is None or isinstance(default, int)
            return str(1 if default is None else default - 1 if default > 1000 else default + 1)
        case ConfigType.DOUBLE:
            return "0.11"
    return "org.example.Other"


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_configuration_is_named(name: str) -> None:
    reason = unserved(BrokerConfig({**NODE, name: another_value(name)}))
    assert reason is not None
    assert re.fullmatch(rf"{re.escape(name)}(=org.example.Other)?: [^\n]+; kcli starts only without it", reason)


@pytest.mark.parametrize("name", BROKER_KEYS)
def test_the_default_is_always_taken(name: str) -> None:
    text = to_text(BROKER_KEYS[name].default)
    if text is not None and name not in NODE:
        same = {"broker.id": "1"} if name == "broker.id" else {name: text}
        assert unserved(BrokerConfig({**NODE, **same})) is None


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        ({"listeners": "SSL://:9092,CONTROLLER://:9093", "inter.broker.listener.name": "SSL"}, "listeners"),
        ({"listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"}, "listeners"),
        ({"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SSL"}, "listeners"),
        ({"listener.name.plaintext.ssl.keystore.location": "/x"}, "listener.name.plaintext.ssl.keystore.location"),
        ({"listener.name.controller.sasl.enabled.mechanisms": "PLAIN"}, "listener.name.controller.sasl.enabled"),
        (
            {"listener.name.plaintext.plain.sasl.jaas.config": "x required;"},
            "listener.name.plaintext.plain.sasl.jaas.config",
        ),
        ({"listener.name.plaintext.max.connection.creation.rate": "5"}, "listener.name.plaintext.max.connection"),
        ({"super.users": "User:admin"}, "super.users"),
        ({"allow.everyone.if.no.acl.found": "true"}, "allow.everyone.if.no.acl.found"),
        ({"replica.selector.class": "org.example.Nearest"}, "replica.selector.class=org.example.Nearest"),
    ],
)
def test_what_would_open_what_is_meant_to_be_closed(properties: dict[str, str], named: str) -> None:
    reason = unserved(BrokerConfig({**NODE, "sasl.mechanism.inter.broker.protocol": "GSSAPI", **properties}))
    assert reason is not None
    assert reason.startswith(named)


def test_a_controller_that_is_reached_by_tls_is_not_asked_in_the_clear() -> None:
    broker = {**NODE, "process.roles": "broker", "listeners": "PLAINTEXT://:9092", "node.id": "2"}
    config = BrokerConfig({**broker, "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SSL"})
    reason = unserved(config)
    assert reason == "controller.listener.names: listener CONTROLLER is SSL, and only PLAINTEXT is served yet"


@pytest.mark.parametrize(
    "properties",
    [
        {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL"},
        {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"},
        {"metric.reporters": "", "authorizer.class.name": "", "ssl.endpoint.identification.algorithm": ""},
        {"listener.name.other.ssl.keystore.location": "/x"},
        {"listener.name.plaintext.max.connections": "5", "listener.name.plaintext.num.network.threads": "4"},
        {"queued.max.requests": "1000", "num.io.threads": "16", "group.share.max.size": "100"},
    ],
)
def test_what_asks_for_nothing_is_taken(properties: dict[str, str]) -> None:
    assert unserved(BrokerConfig({**NODE, **properties})) is None


@pytest.mark.parametrize("arguments", [[], ["--nodes", "2"]], ids=["one node", "nodes"])
def test_one_line_ends_the_start(tmp_path: Path, arguments: list[str]) -> None:
    command = ["serve", "--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0", *arguments]
    ended = kcli(*command, "-o", "super.users=User:admin")
    reason = "kcli: super.users: authorizers are not there yet; kcli starts only without it"
    assert (ended.status, ended.stdout, ended.complaint) == (1, "", reason)
    assert not (tmp_path / "data").exists()


def test_a_server_properties_with_an_authorizer(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    lines = {**NODE, "log.dirs": str(tmp_path / "data"), "authorizer.class.name": "org.example.Authorizer"}
    file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    for more in ([], ["--read-only"]):
        ended = kcli("serve", "--config", file, *more)
        reason = "kcli: authorizer.class.name: authorizers are not there yet; kcli starts only without it"
        assert (ended.status, ended.complaint) == (1, reason)


def alter(node: RunningNode, resource: str, name: str, value: str) -> dict[str, Any]:
    configs = [{"name": name, "config_operation": 0, "value": value}]
    resources = [{"resource_type": 4, "resource_name": resource, "configs": configs}]
    with node.client() as client:
        answer = client.call("incremental_alter_configs", 1, resources=resources, validate_only=False)
    found: dict[str, Any] = answer["responses"][0]
    return found


def test_a_running_node_refuses_what_it_would_not_honour(tmp_path: Path) -> None:
    with running_node(tmp_path) as node:
        for resource in ("", "1"):
            found = alter(node, resource, "max.connection.creation.rate", "5")
            reason = "max.connection.creation.rate: that limit is not kept yet; kcli starts only without it"
            assert (found["error_code"], found["error_message"]) == (42, reason)
        found = alter(node, "1", "listener.name.plaintext.ssl.keystore.location", "/x")
        assert found["error_code"] == 42
        assert alter(node, "", "max.connections", "50")["error_code"] == 0
        assert node.node.config.max_connections == 50


def test_a_listener_takes_so_many_connections(tmp_path: Path) -> None:
    options: dict[str, Any] = {"listener.name.plaintext.max.connections": "2"}
    with running_node(tmp_path, **options) as node:
        first, second, third = (node.client() for _ in range(3))
        assert third.is_closed()
        first.socket.close()
        second.call("api_versions", 3, client_software_name="test", client_software_version="1")
        for each in (second, third):
            each.socket.close()


@pytest.mark.parametrize(
    ("record", "named"),
    [
        (("ConfigRecord", 0, {"resourceType": 4, "resourceName": "", "name": "max.connection.creation.rate"}), "max."),
        (
            (
                "ConfigRecord",
                0,
                {"resourceType": 4, "resourceName": "1", "name": "listener.name.plaintext.ssl.keystore.location"},
            ),
            "listener.name.plaintext.ssl",
        ),
        (topic_config("remote.storage.enable", "true", "tiered"), "topic tiered has remote.storage.enable=true"),
    ],
    ids=["a limit", "a key store", "tiered"],
)
def test_a_directory_whose_metadata_want_more_is_not_served(tmp_path: Path, record: Any, named: str) -> None:
    async def write() -> None:
        log = open_metadata(tmp_path)
        name, version, value = record
        await log.append([(name, version, {"value": "5", **value})])
        await log.close()

    asyncio.run(write())
    with pytest.raises(CannotServe, match=named):
        RunningNode(tmp_path, {})
