"""A configuration that kcli does not honour ends the start; each accepted name is read by the code, refused, or
harmless."""

from __future__ import annotations

import ast
import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from kcli.broker.config import BrokerConfig
from kcli.broker.config.broker_keys import BROKER_KEYS, QUOTA_KEYS
from kcli.broker.config.group_config import GROUP_KEYS, broker_synonym
from kcli.broker.config.keys import ConfigType, Required, to_text
from kcli.broker.config.security import LOGINS, SIGNED_TOKENS
from kcli.broker.config.served import HARMLESS, REFUSED, CannotServe, unserved
from kcli.log.config import SYNONYMS, TOPIC_CONFIGS
from kcli.metadata.quota_control import CLIENT_QUOTAS, IP_QUOTAS
from kcli.protocol.error_code import ErrorCode
from kcli.security.authorizer import CLASS_NAME
from tests.broker.metadata_dirs import config as topic_config
from tests.broker.metadata_dirs import open_metadata
from tests.broker.running import RunningNode, running_node
from tests.cli.run import kcli

KCLI = Path(__file__).parents[3] / "kcli"
NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL",
    "log.dirs": "/data",
}
SASL = {"listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"}
ENABLED = "listener.name.plaintext.sasl.enabled.mechanisms"
JWKS = "sasl.oauthbearer.jwks.endpoint.url"
CALLBACKS = "listener.name.plaintext.oauthbearer.sasl.server.callback.handler.class"


def enabled(mechanism: str) -> dict[str, str]:
    """One mechanism, for nodes and clients."""
    return {ENABLED: mechanism, "sasl.mechanism.inter.broker.protocol": mechanism}


def login(mechanism: str, text: str) -> dict[str, str]:
    """The login module of a mechanism."""
    return {f"listener.name.plaintext.{mechanism.lower()}.sasl.jaas.config": text}


OAUTH = {
    **SASL,
    **login("OAUTHBEARER", f"{LOGINS['OAUTHBEARER']} required;"),
    **enabled("OAUTHBEARER"),
    JWKS: "file:///keys.json",
    CALLBACKS: SIGNED_TOKENS,
}
SAY_WHAT_THERE_IS = (
    "broker/config/broker_keys.py",
    "broker/config/checks.py",
    "broker/config/describe.py",
    "broker/config/documentation.py",
    "broker/config/dynamic.py",
    "broker/config/dynamic_names.py",
    "broker/config/group_config.py",
    "broker/config/names.py",
    "broker/config/served.py",
    "broker/config/single_node.py",
    "broker/startup/secure.py",
    "launcher/plan.py",
)
"""Files that name configurations without reading them."""
ROOMS = ("broker", "metadata", "log", "group", "txn", "raft", "launcher")
OF_GROUPS = re.compile(
    r"group\.consumer\.(min\.|max\.)?(session\.timeout|heartbeat\.interval|assignment\.interval)\.ms"
)
"""The defaults and limits of the configurations that a consumer group may override; see group_config.py."""
OF_INTERNAL_TOPICS = re.compile(
    r"offsets\.topic\.(segment\.bytes|num\.partitions|replication\.factor)|"
    r"transaction\.state\.log\.(segment\.bytes|num\.partitions|replication\.factor|min\.isr)"
)
"""internal_topics.py puts prefix and name together."""
NOT_READ_OF_GROUPS = ("share.", "streams.")
"""There are no such groups yet."""
NOT_KEPT_QUOTAS: set[str] = set()
"""Stored for nodes that keep it."""


def read_by_the_code() -> set[str]:
    """Return the names that occur in the code as strings or as `config.an_attribute`."""
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
    assert sorted(HARMLESS.keys() & read) == []
    assert known >= HARMLESS.keys()
    assert all(HARMLESS.values()), "each has its reason"


def test_every_configuration_of_topics_groups_and_quotas_is_read() -> None:
    found = read_by_the_code()
    assert sorted(TOPIC_CONFIGS.keys() - found) == []
    assert SYNONYMS.keys() <= TOPIC_CONFIGS.keys()
    assert [name for name in GROUP_KEYS if name not in found and not name.startswith(NOT_READ_OF_GROUPS)] == []
    assert {broker_synonym(name) for name in GROUP_KEYS} - {None} <= BROKER_KEYS.keys()
    assert sorted((CLIENT_QUOTAS.keys() | IP_QUOTAS.keys()) - NOT_KEPT_QUOTAS - found) == []


def another_value(name: str) -> str:
    """One that is not the default."""
    special = {"ssl.client.auth": "required", "sasl.oauthbearer.assertion.algorithm": "ES256"}
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
        (
            {"listeners": "SSL://:9092,CONTROLLER://:9093", "inter.broker.listener.name": "SSL"},
            "listener SSL: ssl.keyst",
        ),
        (
            {"listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"},
            "listener.name.plaintext.sasl.enabled.mechanisms: GSSAPI is none of kcli's: PLAIN, SCRAM",
        ),
        (
            {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SSL"},
            "listener CONTROLLER: ssl.keystore.location: a listener of SSL needs a key",
        ),
        (
            {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SSL", "ssl.truststore.location": ""},
            "listener.name.controller.ssl.truststore.location: names no file",
        ),
        ({**SASL, **enabled("PLAIN")}, "listener.name.plaintext.plain.sasl.jaas.config: PLAIN is en"),
        ({**SASL, **enabled("DIGEST")}, "listener.name.plaintext.sasl.enabled.mechanisms: DIGEST is"),
        (
            {
                "listeners": "PLAINTEXT://:9092,SASL://:9094,CONTROLLER://:9093",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
                "listener.name.sasl.sasl.enabled.mechanisms": "",
            },
            "listener.name.sasl.sasl.enabled.mechanisms: no mechanism",
        ),
        ({**SASL, **login("PLAIN", "x"), **enabled("PLAIN")}, "listener.name.plaintext.plain.sasl.jaa"),
        (
            {**SASL, **login("PLAIN", "org.example.Login required;"), **enabled("PLAIN")},
            "listener.name.plaintext.plain.sasl.jaas.config: the login module of PLAIN is org.apache",
        ),
        (
            {**OAUTH, "sasl.oauthbearer.scope.claim.name": ""},
            "listener.name.plaintext.oauthbearer.sasl.oauthbearer.scope.claim.name: ",
        ),
        ({**OAUTH, CALLBACKS: ""}, f"{CALLBACKS}: only org.apache.kafka.common.security.oauthbearer.OAuthBearerVal"),
        ({**OAUTH, CALLBACKS: "org.example.Handler"}, f"{CALLBACKS}: only org.apache"),
        (
            {**OAUTH, JWKS: "ftp://example.com/keys"},
            f"listener.name.plaintext.oauthbearer.{JWKS}: must be the URL of",
        ),
        ({"sasl.jaas.config": "x required;"}, "sasl.jaas.config: belongs behind listener.name."),
        (
            {"listener.name.plaintext.sasl.jaas.config": "x required;"},
            "listener.name.plaintext.sasl.jaas.config: belon",
        ),
        ({**SASL, "listener.name.plaintext.sasl.kerberos.service.name": "x"}, "listener.name.plaintext.sasl.kerberos."),
        (
            {"authorizer.class.name": "org.example.Any"},
            "authorizer.class.name=org.example.Any: that class is not there",
        ),
        ({"listener.name.plaintext.ssl.keystore.location": "/x"}, "listener.name.plaintext.ssl.keystore.location"),
        ({"listener.name.controller.sasl.enabled.mechanisms": "PLAIN"}, "listener.name.controller.sasl.enabled"),
        (
            {"listener.name.plaintext.plain.sasl.jaas.config": "x required;"},
            "listener.name.plaintext.plain.sasl.jaas.config",
        ),
        ({"super.users": "User:admin"}, "super.users"),
        ({"allow.everyone.if.no.acl.found": "true"}, "allow.everyone.if.no.acl.found"),
        ({"replica.selector.class": "org.example.Nearest"}, "replica.selector.class=org.example.Nearest"),
    ],
)
def test_what_would_open_what_is_meant_to_be_closed(properties: dict[str, str], named: str) -> None:
    reason = unserved(BrokerConfig({**NODE, "sasl.mechanism.inter.broker.protocol": "GSSAPI", **properties}))
    assert reason is not None
    assert reason.startswith(named)


def test_no_secret_is_told() -> None:
    for text in ('x required password="hidden"', 'x required password="hidden"; y required;', "hidden"):
        reason = unserved(BrokerConfig({**NODE, **SASL, **enabled("PLAIN"), **login("PLAIN", text)}))
        assert reason is not None
        assert "hidden" not in reason


BROKER = {**NODE, "process.roles": "broker", "listeners": "PLAINTEXT://:9092", "node.id": "2"}
"""Of a cluster with another controller."""
PROTOCOLS = "listener.security.protocol.map"
TO_SASL = {PROTOCOLS: "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT"}
TO_CONTROLLERS = "sasl.mechanism.controller.protocol"
CONTROLLERS_JAAS = "listener.name.controller.plain.sasl.jaas.config"


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        (
            TO_SASL,
            f"{TO_CONTROLLERS}: GSSAPI is none of those by which nodes log in: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512",
        ),
        ({**TO_SASL, TO_CONTROLLERS: "OAUTHBEARER"}, f"{TO_CONTROLLERS}: OAUTHBEARER is none of those"),
        ({**TO_SASL, TO_CONTROLLERS: "PLAIN"}, f"{CONTROLLERS_JAAS}: PLAIN is enabled and has no login module"),
        (
            {**TO_SASL, TO_CONTROLLERS: "PLAIN", CONTROLLERS_JAAS: f'{LOGINS["PLAIN"]} required user_x="y";'},
            f"{CONTROLLERS_JAAS}: this node has no username to log in to others with",
        ),
        (
            {**TO_SASL, TO_CONTROLLERS: "PLAIN", CONTROLLERS_JAAS: f'{LOGINS["PLAIN"]} required username="x";'},
            f"{CONTROLLERS_JAAS}: this node has no password",
        ),
        (
            {PROTOCOLS: "PLAINTEXT:PLAINTEXT,CONTROLLER:SSL", "ssl.endpoint.identification.algorithm": "none"},
            "listener CONTROLLER: ssl.endpoint.identification.algorithm: no algorithm 'none'",
        ),
    ],
)
def test_a_node_that_could_not_connect_to_others_does_not_start(properties: dict[str, str], named: str) -> None:
    reason = unserved(BrokerConfig({**BROKER, **properties}))
    assert reason is not None
    assert reason.startswith(named)


@pytest.mark.parametrize(
    "properties",
    [
        {PROTOCOLS: "PLAINTEXT:PLAINTEXT,CONTROLLER:SSL"},
        {
            **TO_SASL,
            TO_CONTROLLERS: "PLAIN",
            CONTROLLERS_JAAS: f'{LOGINS["PLAIN"]} required username="x" password="y";',
        },
        {"authorizer.class.name": CLASS_NAME, "super.users": "User:ANONYMOUS", "early.start.listeners": "CONTROLLER"},
    ],
)
def test_a_broker_reaches_a_secured_controller(properties: dict[str, str]) -> None:
    assert unserved(BrokerConfig({**BROKER, **properties})) is None


@pytest.mark.parametrize(
    "properties",
    [
        {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL"},
        {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"},
        {"metric.reporters": "", "authorizer.class.name": "", "ssl.endpoint.identification.algorithm": ""},
        {"listener.name.other.ssl.keystore.location": "/x"},
        {"listener.name.plaintext.max.connections": "5", "listener.name.plaintext.num.network.threads": "4"},
        OAUTH,
        {"authorizer.class.name": CLASS_NAME, "super.users": "User:admin", "allow.everyone.if.no.acl.found": "true"},
        {"ssl.keystore.location": "/x", "ssl.client.auth": "required", "sasl.enabled.mechanisms": "PLAIN"},
        {"queued.max.requests": "1000", "num.io.threads": "16", "group.share.max.size": "100"},
        {"sasl.kerberos.kinit.cmd": "/bin/kinit", "sasl.kerberos.ticket.renew.jitter": "0.1"},
    ],
)
def test_what_asks_for_nothing_is_taken(properties: dict[str, str]) -> None:
    assert unserved(BrokerConfig({**NODE, **properties})) is None


@pytest.mark.parametrize("arguments", [[], ["--nodes", "2"]], ids=["one node", "nodes"])
def test_one_line_ends_the_start(tmp_path: Path, arguments: list[str]) -> None:
    command = ["serve", "--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0", *arguments]
    ended = kcli(*command, "-o", "super.users=User:admin")
    reason = "kcli: super.users: says nothing without authorizer.class.name; kcli starts only without it"
    assert (ended.status, ended.stdout, ended.complaint) == (1, "", reason)
    assert not (tmp_path / "data").exists()


def test_a_server_properties_with_an_authorizer(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    lines = {**NODE, "log.dirs": str(tmp_path / "data"), "authorizer.class.name": "org.example.Authorizer"}
    file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    for more in ([], ["--read-only"]):
        ended = kcli("serve", "--config", file, *more)
        reason = (
            "kcli: authorizer.class.name=org.example.Authorizer: that class is not there; kcli starts only without it"
        )
        assert (ended.status, ended.complaint) == (1, reason)


def test_a_read_only_node_is_not_open_where_the_node_was_secured(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    command = ["serve", "--read-only", "--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0"]
    authorizer = ["-o", f"authorizer.class.name={CLASS_NAME}"]
    sasl = {**SASL, **enabled("PLAIN"), **login("PLAIN", f"{LOGINS['PLAIN']} required;")}
    for options in (authorizer, [word for name, text in sasl.items() for word in ("-o", f"{name}={text}")]):
        ended = kcli(*command, *options)
        assert ended.status == 1
        assert "a read-only node has" in ended.complaint


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
            found = alter(node, resource, "metric.reporters", "acme.Reporter")
            assert (found["error_code"], "metric.reporters" in found["error_message"]) == (42, True)
        found = alter(node, "1", "sasl.mechanism.inter.broker.protocol", "PLAIN")
        assert found["error_code"] == ErrorCode.INVALID_REQUEST
        found = alter(node, "1", "listener.name.plaintext.ssl.keystore.location", "/x")
        assert found["error_code"] == ErrorCode.INVALID_REQUEST
        assert alter(node, "1", "sasl.kerberos.min.time.before.relogin", "58000")["error_code"] == 0
        assert alter(node, "", "max.connections", "50")["error_code"] == 0
        assert node.node.config.max_connections == 50


@pytest.mark.parametrize(
    ("record", "named"),
    [
        (("ConfigRecord", 0, {"resourceType": 4, "resourceName": "", "name": "metric.reporters"}), "metric.reporters"),
        (
            (
                "ConfigRecord",
                0,
                {"resourceType": 4, "resourceName": "1", "name": "listener.name.plaintext.ssl.keystore.location"},
            ),
            "listener.name.plaintext.ssl",
        ),
        (topic_config("remote.storage.enable", "true", "tiered"), "You have to delete all topics.*tiered"),
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


def test_a_listener_that_is_not_there_is_warned_of() -> None:
    """A mistyped one would leave the real one open."""
    security = {
        "listener.name.plaintext.ssl.client.auth": "required",
        "listener.name.controller.ssl.client.auth": "required",
        "listener.name.ssl.ssl.client.auth": "required",
    }
    assert not BrokerConfig(NODE | security).warnings, "SSL has a protocol, though no address"
    mistyped = "listener.name.plaintxt.ssl.client.auth"
    names = "controller, plaintext, sasl_ssl, ssl"
    assert BrokerConfig(NODE | {mistyped: "required"}).warnings == [f"{mistyped}: no listener has this name: {names}"]
