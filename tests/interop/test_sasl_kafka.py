"""SASL between kcli's classes and Kafka's, in both directions, and the messages that each accepts."""

from __future__ import annotations

import base64
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kcli.security.delegation_tokens import DelegationTokens, may_describe
from kcli.security.plain import PlainServer
from kcli.security.sasl import AuthenticationFailed, Login, NotTrusted
from kcli.security.scram import MECHANISMS, ScramCredential, ScramServer, ScramUsers, TokenCredential, new_nonce
from kcli.security.scram_client import converse
from tests.conftest import is_soak
from tests.interop.kit import Oracle
from tests.security import oracle

NAMES = ["alice", "a=b,c", "=2C=3D", ",", "with space", "C=US,O=x"]
PASSWORDS = ["secret", "=,;", "ü€\U0001f600", " ", "x" * 300, "C=US,O=x"]
FIRST_PIECES = [
    *(
        "n,",
        "n,",
        "y,",
        "p=x,",
        ",",
        "a=alice,",
        "a=bob,",
        "m=x,",
        "n=alice",
        "n=alice",
        "n=a=2Cb",
        "n=a=b",
        "n=",
        ",r=abc",
    ),
    *(
        ",r=abc",
        ",r=",
        ",r=a b",
        ",tokenauth=true",
        ",tokenauth=",
        ",x=y",
        ",1=2",
        ",",
        "=",
        "é",
        "\0",
        "\n",
        "\x7f",
        "N,",
    ),
]
STRANGER = re.compile("Invalid user credentials|Invalid tokenId")
LOGINS = [(mechanism, *login) for mechanism in MECHANISMS for login in zip(NAMES, PASSWORDS, strict=True)]


@pytest.fixture(scope="module")
def kafka(kafka_jars: Path) -> Iterator[Oracle]:
    started = oracle.start(kafka_jars)
    yield started
    started.close()


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def begin(kafka: Oracle, mechanism: str, name: str, password: str, *, token: bool = False) -> ScramUsers:
    """Begin an exchange with Kafka's classes. Returns what the server knows."""
    iterations = 4096
    asked = {"mechanism": mechanism, "name": name, "password": password, "iterations": iterations, "token": token}
    salt, stored_key, server_key = map(base64.b64decode, kafka.ask("sasl-begin", **asked))
    credential = ScramCredential(salt, stored_key, server_key, iterations)
    assert credential == ScramCredential.of_password(MECHANISMS[mechanism], password, salt, iterations)
    users = {} if token else {name: credential}
    tokens = {name: TokenCredential(owner="owner", credential=credential, expires_ms=7)} if token else {}
    return ScramUsers(
        mechanism=MECHANISMS[mechanism],
        of_user=users.get,
        of_token=tokens.get,
        decoy_key=b"",
    )


def client(kafka: Oracle, message: bytes) -> Any:
    """Return the next message of Kafka's client, and whether it has finished."""
    return kafka.ask("sasl-client", message=encoded(message))


def server(kafka: Oracle, message: bytes, *, anew: bool = False) -> Any:
    """Return the answer of Kafka's server, or of a new one, and the user who has logged in; or the failure."""
    return kafka.ask("sasl-server", message=encoded(message), anew=anew)


@pytest.mark.parametrize("token", [False, True])
def test_scram_clients_of_kafkas(kafka: Oracle, *, token: bool) -> None:
    for mechanism, name, password in LOGINS:
        served = ScramServer(begin(kafka, mechanism, name, password, token=token), new_nonce())
        message, _ = client(kafka, b"")
        message, _ = client(kafka, served.step(base64.b64decode(message)))
        assert client(kafka, served.step(base64.b64decode(message))) == ["", True]
        who = "owner" if token else name
        assert served.login == Login(name=who, with_token=token, expires_ms=7 if token else None)


@pytest.mark.parametrize("token", [False, True])
def test_scram_servers_of_kafkas(kafka: Oracle, *, token: bool) -> None:
    for mechanism, name, password in LOGINS:
        begin(kafka, mechanism, name, password, token=token)
        conversation = converse(MECHANISMS[mechanism], name, password, new_nonce(), with_token=token)
        answer, _ = server(kafka, next(conversation), anew=True)
        answer, who = server(kafka, conversation.send(base64.b64decode(answer)))
        assert who == ("owner" if token else name)
        with pytest.raises(StopIteration):
            conversation.send(base64.b64decode(answer))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_wrong_passwords(kafka: Oracle, mechanism: str) -> None:
    begin(kafka, mechanism, "alice", "secret")
    conversation = converse(MECHANISMS[mechanism], "alice", "wrong", new_nonce())
    answer, _ = server(kafka, next(conversation), anew=True)
    assert server(kafka, conversation.send(base64.b64decode(answer))) == {"failed": "Invalid client credentials"}
    users = begin(kafka, mechanism, "alice", "secret")
    other = ScramCredential.of_password(MECHANISMS[mechanism], "wrong", b"salt", 4096)
    changed = ScramUsers(mechanism=users.mechanism, of_user=lambda _: other, of_token=lambda _: None, decoy_key=b"")
    served = ScramServer(changed, new_nonce())
    message, _ = client(kafka, b"")
    message, _ = client(kafka, served.step(base64.b64decode(message)))
    with pytest.raises(AuthenticationFailed, match="Invalid client credentials"):
        served.step(base64.b64decode(message))
    conversation = converse(MECHANISMS[mechanism], "alice", "secret", "x")
    next(conversation)
    with pytest.raises(NotTrusted):
        conversation.send(b"r=xy,s=c2FsdA==,i=4095")


def refusal(served: ScramServer | PlainServer, message: str) -> AuthenticationFailed | None:
    """Return the reason for which a server refuses the first message; None where it accepts it."""
    try:
        served.step(message.encode())
    except AuthenticationFailed as failed:
        return failed
    return None


@pytest.mark.hypothesis
def test_first_messages(kafka: Oracle) -> None:
    """Both servers accept the same first messages of a known user."""
    chance, taken, rounds = random.Random(1), 0, 20_000 if is_soak() else 3_000
    users = begin(kafka, "SCRAM-SHA-256", "alice", "secret")
    for _ in range(rounds):
        pieces = chance.choices(FIRST_PIECES, k=chance.randint(0, 5))
        if chance.random() < 0.5:
            pieces = ["n,", chance.choice([",", ",", "a=alice,", "a=bob,", *pieces]), "n=alice,r=abc", *pieces[:2]]
        message = "".join(pieces)
        theirs = server(kafka, message.encode(), anew=True)
        refused = refusal(ScramServer(users, "x"), message)
        if isinstance(theirs, dict) and STRANGER.search(theirs.get("failed", "")):
            assert refused is None or refused.error_message, (
                "kcli fails whom it does not know with the proof, as all others"
            )
        elif refused is not None:
            assert isinstance(theirs, dict), message
            assert theirs.get("error_message") == refused.error_message, message
        else:
            assert isinstance(theirs, list), message
            taken += 1
    assert taken > rounds // 20


@pytest.mark.hypothesis
def test_plain(kafka: Oracle) -> None:
    chance, refusals = random.Random(1), set()
    kafka.ask("sasl-begin", mechanism="PLAIN", name="al=ice", password="pä\U0001f600")
    pieces = ["\0", "\0", "\0", "al=ice", "al=ice", "pä\U0001f600", "pä\U0001f600", "", "x"]
    for _ in range(10_000 if is_soak() else 2_000):
        message = "".join(chance.choices(pieces, k=chance.randint(0, 6)))
        refused = refusal(PlainServer({"al=ice": "pä\U0001f600"}), message)
        theirs = server(kafka, message.encode(), anew=True)
        assert theirs == (["", "al=ice"] if refused is None else {"error_message": refused.error_message}), message
        refusals.add(None if refused is None else refused.error_message)
    assert len(refusals) >= 7, refusals


def test_tokens(kafka: Oracle) -> None:
    principals = ["User:al:ice", "User:admin", "User:bob", "User:x", "Group:bob"]
    for token_id, key in (("dG9rZW4", "secret"), ("ü", "\U0001f600" * 100)):
        record = {"owner": principals[0], "requester": principals[1], "renewers": [principals[2]]}
        ours = encoded(DelegationTokens(key, dict).hmac(token_id)), [may_describe(record, each) for each in principals]
        assert kafka.ask("token", token=token_id, key=key, principals=principals) == list(ours)
