"""Delegation tokens: kcli returns what real Kafka returned (token_cases.py), and their owners log in with them."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kcli.broker.api.create_delegation_token import RENEWERS_MAX
from kcli.broker.api.describe_delegation_token import may_know
from kcli.metadata.image import MetadataImage
from kcli.metadata.metadata_version import DELEGATION_TOKENS
from kcli.metadata.result import Refused
from kcli.metadata.token_control import SWEPT_MAX, NewToken, TokenTimes, create_token, sweep_tokens
from kcli.protocol.error_code import ErrorCode
from kcli.security.authorizer import CLASS_NAME
from kcli.security.scram import MECHANISMS, new_nonce
from kcli.security.scram_client import converse
from tests.broker.running import Client
from tests.broker.security.blind import Blind, Check, checks
from tests.broker.security.secured import Secured, secured_node
from tests.broker.security.token_cases import ANSWERS, CREATE, DESCRIBE, EXPIRE, RENEW, USERS, acls, ask, cases, created

PASSWORDS = "".join(f' user_{name}="p"' for name in USERS)
OPTIONS = {
    "authorizer.class.name": CLASS_NAME,
    "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": "secret",
    "delegation.token.expiry.check.interval.ms": "200",
    "listener.name.sasl.plain.sasl.jaas.config": (
        f"org.apache.kafka.common.security.plain.PlainLoginModule required{PASSWORDS};"
    ),
}
TOO_LARGE = ErrorCode.RECORD_LIST_TOO_LARGE
NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
NOBODYS = {CREATE: created(), RENEW: {"hmac": b"x", "renew_period": -1}, DESCRIBE: {"owners": None}}
NOBODYS[EXPIRE] = {"hmac": b"x", "expiry_time_period": -1}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_node(tmp_path_factory.mktemp("node"), OPTIONS) as node:
        yield node


def connect(secured: Secured, user: str) -> Client:
    """Return a connection of a user who has logged in with PLAIN; without login for ""."""
    client = secured.connect("SASL" if user else "PLAINTEXT")
    if user:
        assert client.call("sasl_handshake", 1, mechanism="PLAIN")["error_code"] == 0
        assert client.call("sasl_authenticate", 0, auth_bytes=f"\0{user}\0p".encode())["error_code"] == 0
    return client


def token(secured: Secured, life_ms: int = -1) -> tuple[str, str]:
    """Create a token for alice; return its id, and its HMAC in base64."""
    with connect(secured, "alice") as client:
        made = client.call(CREATE, 3, **created(life_ms=life_ms))
    return made["token_id"], made["hmac"]


def log_in(client: Client, mechanism: str, name: str, password: str, *, with_token: bool = True) -> dict[str, Any]:
    """Log in by SCRAM with a token. Returns the last response."""
    assert client.call("sasl_handshake", 1, mechanism=mechanism)["error_code"] == 0
    conversation = converse(MECHANISMS[mechanism], name, password, new_nonce(), with_token=with_token)
    message = next(conversation)
    while True:
        answer = client.call("sasl_authenticate", 2, auth_bytes=message)
        if answer["error_code"]:
            return answer
        try:
            message = conversation.send(base64.b64decode(answer["auth_bytes"]))
        except StopIteration:
            return answer


def test_the_answers_are_kafkas(tmp_path: Path) -> None:
    with secured_node(tmp_path, OPTIONS | {"delegation.token.expiry.check.interval.ms": "3600000"}) as node:
        with node.connect("PLAINTEXT") as admin:
            admin.call("create_acls", 3, creations=acls())
        found = ask(lambda user: connect(node, user))
    expected = json.loads(ANSWERS.read_text())
    different = [
        f"{case}\n  Kafka {theirs}\n  kcli  {ours}"
        for case, theirs, ours in zip(cases(), expected, found, strict=True)
        if theirs != ours
    ]
    assert not different, "\n".join(different)


@pytest.mark.parametrize("check", [each for each in checks() if each.apis[0] in (CREATE, DESCRIBE)], ids=str)
def test_no_check_is_missed(check: Check, tmp_path: Path) -> None:
    """Without any one of the checks some response differs."""
    with secured_node(tmp_path, OPTIONS) as node:
        with node.connect("PLAINTEXT") as admin:
            admin.call("create_acls", 3, creations=acls())
        broker = node.node.node.broker
        broker.access = access = Blind(broker.authorizer)
        access.without = check
        assert ask(lambda user: connect(node, user)) != json.loads(ANSWERS.read_text())


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_token_logs_its_owner_in(mechanism: str, secured: Secured) -> None:
    token_id, hmac = token(secured)
    with secured.connect("SASL") as client:
        answer = log_in(client, mechanism, token_id, hmac)
        assert answer["error_code"] == 0
        assert 0 < answer["session_lifetime"] <= 86_400_000, "the session ends with the token"
        server = secured.node.node.server
        who = secured.node.run(lambda: {each.principal for each in server.connections if each.listener == "SASL"})
        assert who == {"User:alice"}
        for api, request in NOBODYS.items():
            version = 3 if api in (CREATE, DESCRIBE) else 2
            client.socket.sendall(client.frame(api, version, request))
            frame = client.read_frame()
            assert NOT_ALLOWED.to_bytes(2) in frame[5:11], "a token makes no tokens"


def test_who_has_no_token_is_not_let_in(secured: Secured) -> None:
    token_id, hmac = token(secured)
    with secured.connect("SASL") as client:
        assert log_in(client, "SCRAM-SHA-256", token_id, "wrong")["error_code"] == 58
    with secured.connect("SASL") as client:
        assert log_in(client, "SCRAM-SHA-256", token_id, hmac, with_token=False)["error_code"] == 58
    with connect(secured, "alice") as client:
        removed = client.call(EXPIRE, 2, hmac=base64.b64decode(hmac), expiry_time_period=-1)
        assert removed["error_code"] == 0
    with secured.connect("SASL") as client:
        assert log_in(client, "SCRAM-SHA-256", token_id, hmac)["error_code"] == 58


def test_a_token_that_has_expired_is_removed(secured: Secured) -> None:
    token_id, _ = token(secured, life_ms=300)
    image = secured.node.node.broker.image
    assert secured.node.run(lambda: token_id in image.delegation_tokens)
    until = time.monotonic() + 30
    while secured.node.run(lambda: token_id in image.delegation_tokens):
        assert time.monotonic() < until, "it is still there"
        time.sleep(0.05)


def test_without_a_secret_key_there_are_no_tokens(tmp_path: Path) -> None:
    with secured_node(tmp_path, OPTIONS | {"delegation.token.secret.key": ""}) as node:
        with connect(node, "alice") as client:
            assert client.call(DESCRIBE, 3, owners=None)["error_code"] == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        with node.connect("SASL") as client:
            assert log_in(client, "SCRAM-SHA-256", "x", "y")["error_code"] == 58


def test_a_token_may_be_for_ever(tmp_path: Path) -> None:
    ever = dict.fromkeys(("delegation.token.max.lifetime.ms", "delegation.token.expiry.time.ms"), str(2**63 - 1))
    with secured_node(tmp_path, OPTIONS | ever) as node:
        token_id, hmac = token(node)
        with node.connect("SASL") as client:
            assert log_in(client, "SCRAM-SHA-512", token_id, hmac)["error_code"] == 0
        with connect(node, "alice") as client:
            (described,) = client.call(DESCRIBE, 3, owners=None)["tokens"]
            assert described["max_timestamp"] == described["expiry_timestamp"] == 2**63 - 1


def test_a_sweep_is_bounded() -> None:
    image = MetadataImage()
    new, times = NewToken("t", "User:a", "User:a", (), -1), TokenTimes(10, 5)
    with pytest.raises(Refused) as raised:
        create_token(image, new, times, 0)
    assert raised.value.error.code == ErrorCode.UNSUPPORTED_VERSION
    image.apply("FeatureLevelRecord", {"name": "metadata.version", "featureLevel": DELEGATION_TOKENS}, 0)
    for number in range(SWEPT_MAX + 5):
        (record,), _ = create_token(image, new._replace(token_id=str(number)), times, 0)
        image.apply(record[0], record[2], number)
    assert sweep_tokens(image, 5) == []
    for left in (5, 0):
        for name, _, fields in sweep_tokens(image, 6):
            image.apply(name, fields, 0)
        assert len(image.delegation_tokens) == left


def test_more_renewers_than_a_token_may_have(secured: Secured) -> None:
    """Each record of the metadata log must fit into a batch: one that does not would end the node."""
    with connect(secured, "alice") as client:
        few, many = (created(None, *(f"r{i}" for i in range(count))) for count in (RENEWERS_MAX, RENEWERS_MAX + 1))
        long = created(None, *(f"{i}{'x' * 30_000}" for i in range(300)))
        for asked, code in ((few, 0), (many, TOO_LARGE), (long, TOO_LARGE), (created(), 0)):
            client.socket.sendall(client.frame(CREATE, 3, asked))
            assert int.from_bytes(client.read_frame()[5:7]) == code


def test_the_owners_of_a_long_request_are_not_walked_through(secured: Secured) -> None:
    """To go through a long list of owners for each token would block the event loop for seconds."""

    class Owners(set[str]):
        def __iter__(self) -> Iterator[str]:
            pytest.fail("each owner is looked at")

    token_id, _ = token(secured)
    record = secured.node.node.broker.image.delegation_tokens[token_id]
    call: Any = SimpleNamespace(principal=record["owner"])
    broker: Any = SimpleNamespace(access=None)
    assert may_know(broker, call, Owners({record["owner"], "User:x"}), record)
    assert not may_know(broker, call, Owners({"User:x", "User:y"}), record)
