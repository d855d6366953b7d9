"""Real clients, unmodified, on a listener of `kcli serve` with TLS, in each way to log in.

Each client does the same job as alice, who may only do what ACLs allow her: see clients/README.md.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import pytest

from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, PatternType, Permission, ResourceType
from kcli.security.authorizer import CLASS_NAME
from kcli.security.scram import MECHANISMS
from tests.broker.security.secured import Secured, secured_node
from tests.interop.clients import toolchains
from tests.interop.clients.python.secured import Library, Report
from tests.interop.clients.secured import KEPT, VALUES, Job, Program
from tests.security.tokens import Issuer

CERTIFICATE, TOKEN, OAUTH = "certificate", "delegation token", "OAUTHBEARER"
WAYS = ("PLAIN", *MECHANISMS, OAUTH, CERTIFICATE, TOKEN)
TURNED_AWAY = "(?i)authentication failed|invalid_token"
ATTEMPTS = itertools.count()
"""A job's topic is new each time."""
PREFIX = "alice-"
OPTIONS = {
    "authorizer.class.name": CLASS_NAME,
    "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": "secret",
    "connection.failed.authentication.delay.ms": "100",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


class Doer(Protocol):
    """What does jobs with a client."""

    def do(self, job: Job) -> Report: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Client:
    """A client: how it is started, the login mechanisms that it lacks, and its message for a wrong secret."""

    name: str
    start: Callable[[], Doer]
    lacks: frozenset[str] = frozenset()
    turned_away: str = TURNED_AWAY
    marks: tuple[pytest.MarkDecorator, ...] = ()


def library(name: str, more_words: str = "") -> Client:
    """Return a Python client. more_words: further messages for a wrong secret."""
    words = f"{TURNED_AWAY}|{more_words}" if more_words else TURNED_AWAY
    return Client(name, lambda: Library(name), lacks=frozenset({TOKEN}), turned_away=words)


CLIENTS = [
    library("kafka-python", "socket disconnected"),  # where that reaches it before it has read the answer, by Kafka too
    # it takes the response to a bad token for a login, and then has no broker
    library("aiokafka", "No broker metadata"),
    library("confluent-kafka"),
    Client("java", lambda: Program(toolchains.java("JavaSecured")), marks=(pytest.mark.kafka,)),
    Client("franz-go", lambda: Program(toolchains.go()), turned_away=f"{TURNED_AWAY}|unexpected data in oauth"),
    Client(
        "kafkajs",
        lambda: Program(toolchains.node("secured")),
        lacks=frozenset({TOKEN}),
        turned_away=f"{TURNED_AWAY}|No brokers",  # as aiokafka
    ),
]
CASES = [
    pytest.param(client, way, id=f"{client.name}-{way}", marks=client.marks)
    for client in CLIENTS
    for way in WAYS
    if way not in client.lacks
]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Start a node on which alice has all rights on resources that begin with PREFIX, and may create tokens."""
    with secured_node(tmp_path_factory.mktemp("node"), OPTIONS) as node:
        with node.connect("PLAINTEXT") as admin:
            for each in MECHANISMS.values():
                credential = {"name": "alice", "mechanism": each.code, "iterations": 4096, "salt": b"salt"}
                credential["salted_password"] = each.salted("pw", b"salt", 4096)
                answer = admin.call("alter_user_scram_credentials", 0, deletions=[], upsertions=[credential])
                assert answer["results"][0]["error_code"] == 0
            kinds = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
            rule: dict[str, Any] = {"principal": "User:alice", "host": "*", "operation": Operation.ALL}
            rule |= {"permission_type": Permission.ALLOW, "resource_pattern_type": PatternType.PREFIXED}
            rules = [{**rule, "resource_type": each, "resource_name": PREFIX} for each in kinds]
            answer = admin.call("create_acls", 3, creations=rules)
            assert not any(each["error_code"] for each in answer["results"])
        yield node


@pytest.fixture(scope="module")
def doers() -> Iterator[Callable[[Client], Doer]]:
    """Return what does the jobs of a client, started once."""
    started: dict[str, Doer] = {}

    def of(client: Client) -> Doer:
        try:
            return started.setdefault(client.name, started.get(client.name) or client.start())
        except toolchains.ToolchainMissing as missing:
            pytest.skip(f"{client.name}: {missing}")

    yield of
    for each in started.values():
        each.close()


def job(secured: Secured, client: Client, way: str) -> Job:
    """alice's job in one of the WAYS."""
    listener = "SSL" if way == CERTIFICATE else "SASL_SSL"
    name = f"{PREFIX}{client.name}-{way}-{next(ATTEMPTS)}".replace(" ", "-").lower()
    found: dict[str, Any] = {
        "bootstrap": f"127.0.0.1:{secured.port(listener)}",
        "ca": str(secured.folder / "ca.pem"),
        "name": name,
        "forbidden": name.removeprefix(PREFIX),
    }
    if way == CERTIFICATE:
        return Job(**found, keys=str(secured.folder / "alice.pem"))
    if way == OAUTH:
        now_s = int(time.time())
        claims = {"sub": "alice", "iat": now_s, "exp": now_s + 600, "aud": "kafka"}
        secret, wrong = (each.token(claims) for each in (secured.issuer, Issuer()))
        return Job(**found, mechanism=way, secret=secret, wrong=wrong)
    secret = "secret" if way == "PLAIN" else "pw"
    mechanism = "SCRAM-SHA-256" if way == TOKEN else way
    return Job(**found, mechanism=mechanism, user="alice", secret=secret, wrong="wrong", delegation=way == TOKEN)


@pytest.mark.parametrize(("client", "way"), CASES)
def test_alice(client: Client, way: str, secured: Secured, doers: Callable[[Client], Doer]) -> None:
    todo = job(secured, client, way)
    report = doers(client).do(todo)
    assert report["refused"] == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert todo.name in report["topics"]
    assert all(each.startswith(PREFIX) for each in report["topics"])
    assert sorted(report["read"]) == sorted([*VALUES, KEPT])
    if todo.delegation:
        assert report["token"] == {"owner": "User:alice", "renewers": ["User:renata"], "renewed": True}
        assert report["token_of_token"] == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    if todo.wrong:
        assert re.search(client.turned_away, report["turned_away"]), report
