"""Attacks on a secured node: none gets access, or more rights than its user has, or disturbs other clients.

Renegotiation and abandoned handshakes are in tests/broker/network/test_tls_socket.py; test_listeners.py compares SASL
exchanges with real Kafka's.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import logging
import re
import socket
import ssl
import struct
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from cryptography.x509 import Name, NameAttribute
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from formats.varint import uvarint
from kcli.broker.network.authentication import Authentication, Step
from kcli.broker.process.descriptors import limit, raise_limit
from kcli.broker.process.turns import LONG_BYTES
from kcli.broker.wire.apis import APIS, BROKER_APIS, Api
from kcli.broker.wire.call import Call
from kcli.broker.wire.failures import empty
from kcli.broker.wire.messages import messages
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType
from kcli.security.authorizer import CLASS_NAME
from kcli.security.oauth import MECHANISM as OAUTHBEARER
from kcli.security.plain import LOGIN_MODULE
from kcli.security.scram import MECHANISMS, ScramMechanism
from kcli.security.scram_client import converse
from kcli.testing.wire import plain
from kcli.tls.certificates import Authority, Identity, make_authority
from kcli.tls.contexts import client_context
from tests.broker.rounds import SHORT_MS, rounds_of
from tests.broker.running import Client, Closed, served_node
from tests.broker.security.sasl_cases import ALICE, LOGINS
from tests.broker.security.secured import NOW, Secured, SecuredBroker, secured_node, unused_port
from tests.log.batches import batch
from tests.security.tokens import Issuer, forged, part
from tests.tls.handshakes import shaken

ISSUER = "https://issuer.example"
DENIED = ErrorCode.SASL_AUTHENTICATION_FAILED
ILLEGAL = ErrorCode.ILLEGAL_SASL_STATE
DENIED_TOPIC, UNKNOWN_ID = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_ID
PASSWORDS = {"alice": "pw", "carol": "carols", "a=b,c": "pw", "a": "short"}
OPTIONS = {
    "authorizer.class.name": CLASS_NAME,
    "super.users": "User:ANONYMOUS",
    "connection.failed.authentication.delay.ms": "0",
    "sasl.oauthbearer.expected.issuer": ISSUER,
    "listener.name.sasl.plain.connections.max.reauth.ms": "60000",
    "listener.name.sasl.plain.sasl.jaas.config": f'{LOGIN_MODULE} required user_alice="secret" '
    'user_jos\u00e9="accent";',
}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """User:ANONYMOUS, through the listener PLAINTEXT, is its only super user."""
    with secured_node(tmp_path_factory.mktemp("node"), OPTIONS) as node:
        add_users(node)
        yield node


def add_users(secured: SecuredBroker) -> None:
    """Add SCRAM credentials for the users of PASSWORDS."""
    with secured.connect("PLAINTEXT") as admin:
        for mechanism in MECHANISMS.values():
            for name, password in PASSWORDS.items():
                salted = mechanism.salted(password, name.encode(), 4096)
                credential = {"name": name, "mechanism": mechanism.code, "iterations": 4096, "salt": name.encode()}
                request = [credential | {"salted_password": salted}]
                answer = admin.call("alter_user_scram_credentials", 0, deletions=[], upsertions=request)
                assert answer["results"][0]["error_code"] == 0


@pytest.fixture
def handled(secured: Secured) -> Iterator[list[tuple[str, str]]]:
    """The requests that reach a handler: API and principal."""
    server, found = secured.node.node.server, list[tuple[str, str]]()
    handle = server.handle

    def note(api: Api, call: Call) -> Any:
        found.append((api.name, call.principal))
        return handle(api, call)

    server.handle = note
    try:
        yield found
    finally:
        server.handle = handle


def begin(client: Client, mechanism: str) -> None:
    assert client.call("sasl_handshake", 1, mechanism=mechanism)["error_code"] == 0


def say(client: Client, message: bytes) -> dict[str, Any]:
    return client.call("sasl_authenticate", 2, auth_bytes=message)


def log_in(client: Client, mechanism: str, *said: bytes) -> int:
    """Return the error of the last response; DENIED where the connection is closed instead."""
    begin(client, mechanism)
    try:
        code: int = [say(client, each)["error_code"] for each in said][-1]
    except (Closed, ConnectionError):  # the latter where the connection is closed while the client still sends
        return DENIED
    return code


def is_in(client: Client) -> bool:
    """Whether the connection takes requests."""
    try:
        client.call("metadata", 1, topics=[])
    except (Closed, OSError):
        return False
    return True


def principal(secured: Secured, client: Client) -> str:
    """Return the principal that the node has for the client's connection."""
    server, port = secured.node.node.server, client.socket.getsockname()[1]
    (found,) = secured.node.run(lambda: [x.principal for x in server.connections if x.peer.endswith(f":{port}")])
    return found


# SCRAM


def first_answer(client: Client, mechanism: str, first: bytes) -> str:
    begin(client, mechanism)
    return base64.b64decode(say(client, first)["auth_bytes"]).decode()


def proven(mechanism: ScramMechanism, name: str, password: str, nonce: str, answer: str) -> bytes:
    """Return the final message that answers a server's first message, whatever that has."""
    conversation = converse(mechanism, name, password, nonce)
    next(conversation)
    return conversation.send(answer.encode())


OF_OTHER_LENGTHS = [",p=", ",p=AAAA"]
"""Kafka throws an exception at such proofs, and closes the connection without a response."""
PROOFS = ["", *OF_OTHER_LENGTHS, "zeros", "the stored key"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("proof", PROOFS)
def test_scram_without_proof(mechanism: str, proof: str, secured: Secured) -> None:
    with secured.connect("SASL") as client:
        answer = first_answer(client, mechanism, b"n,,n=alice,r=abc")
        final = without_proof(mechanism, proof, answer)
        if proof in OF_OTHER_LENGTHS:
            with pytest.raises(Closed):
                say(client, final)
        else:
            assert say(client, final)["error_code"] == DENIED
        assert not is_in(client)


def without_proof(mechanism: str, proof: str, answer: str) -> bytes:
    """Return a final message with one of PROOFS in place of the right one."""
    size = 32 if mechanism.endswith("256") else 64
    known = {"zeros": bytes(size), "the stored key": b"\xff" * size}.get(proof)
    shown = proof if known is None else f",p={base64.b64encode(known).decode()}"
    return f"c=biws,{answer.split(',', 1)[0]}{shown}".encode()


def test_scram_without_its_final_message(secured: Secured, handled: list[tuple[str, str]]) -> None:
    with secured.connect("SASL") as client:
        first_answer(client, "SCRAM-SHA-256", b"n,,n=alice,r=abc")
        client.socket.sendall(client.frame("metadata", 1, {"topics": []}))
        client.read_frame()
        assert client.is_closed()
    assert handled == []


def test_scram_with_other_nonces(secured: Secured) -> None:
    mechanism = MECHANISMS["SCRAM-SHA-256"]
    for other in ("", "x"):
        with secured.connect("SASL") as client:
            answer = first_answer(client, mechanism.name, b"n,,n=alice,r=abc")
            both, rest = answer.split(",", 1)
            final = proven(mechanism, "alice", "pw", "abc", f"{both[: -1 if not other else None]}{other},{rest}")
            assert say(client, final)["error_code"] == DENIED


def test_scram_with_the_proof_of_another_user(secured: Secured) -> None:
    mechanism = MECHANISMS["SCRAM-SHA-256"]
    with secured.connect("SASL") as client:
        answer = first_answer(client, mechanism.name, b"n,,n=alice,r=abc")
        assert say(client, proven(mechanism, "alice", PASSWORDS["carol"], "abc", answer))["error_code"] == DENIED
    with secured.connect("SASL") as client:
        answer = first_answer(client, mechanism.name, b"n,,n=alice,r=abc")
        assert say(client, proven(mechanism, "carol", "pw", "abc", answer))["error_code"] == DENIED
    for first in (b"n,a=alice,n=carol,r=abc", b"n,a=carol,n=alice,r=abc"):
        with secured.connect("SASL") as client:
            assert log_in(client, mechanism.name, first) == DENIED


def test_scrams_final_message_twice(secured: Secured) -> None:
    mechanism = MECHANISMS["SCRAM-SHA-256"]
    with secured.connect("SASL") as client:
        answer = first_answer(client, mechanism.name, b"n,,n=carol,r=abc")
        final = proven(mechanism, "carol", PASSWORDS["carol"], "abc", answer)
        assert say(client, final)["error_code"] == 0
        assert say(client, final)["error_code"] == ILLEGAL
        assert principal(secured, client) == "User:carol"


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=lambda each: each.name)
def test_an_exchange_of_scram_is_good_once(mechanism: ScramMechanism, secured: Secured) -> None:
    with secured.connect("SASL") as client:
        answer = first_answer(client, mechanism.name, b"n,,n=alice,r=abc")
        final = proven(mechanism, "alice", "pw", "abc", answer)
        assert say(client, final)["error_code"] == 0
    nonces = {answer.split(",")[0]}
    for _ in range(20):
        with secured.connect("SASL") as client:
            nonces.add(first_answer(client, mechanism.name, b"n,,n=alice,r=abc").split(",")[0])
            assert say(client, final)["error_code"] == DENIED
            assert not is_in(client)
    assert len(nonces) == 21


def test_a_credential_of_few_iterations_is_refused(secured: Secured) -> None:
    credential = {"name": "weak", "mechanism": 1, "iterations": 4095, "salt": b"s", "salted_password": bytes(32)}
    with secured.connect("PLAINTEXT") as admin:
        answer = admin.call("alter_user_scram_credentials", 0, deletions=[], upsertions=[credential])
    assert answer["results"][0]["error_code"] == ErrorCode.UNACCEPTABLE_CREDENTIAL


# mechanisms


def token(secured: SecuredBroker, **claims: Any) -> bytes:
    now_s = int(time.time())
    said = {"sub": "olga", "iat": now_s, "exp": now_s + 60, "aud": "kafka", "iss": ISSUER, **claims}
    return bearer(secured.issuer.token({name: value for name, value in said.items() if value is not None}))


def bearer(text: str) -> bytes:
    return f"n,,\x01auth=Bearer {text}\x01\x01".encode()


def test_a_message_of_another_mechanism(secured: Secured) -> None:
    said = {"PLAIN": ALICE, "SCRAM-SHA-256": b"n,,n=alice,r=abc", OAUTHBEARER: token(secured)}
    for asked in ("PLAIN", *MECHANISMS, OAUTHBEARER):
        for mechanism, message in said.items():
            if mechanism[:5] == asked[:5]:
                continue
            with secured.connect("SASL") as client:
                assert log_in(client, asked, message) == DENIED, (asked, mechanism)
                assert not is_in(client)


def test_the_proof_of_another_mechanism(secured: Secured) -> None:
    strong, weak = MECHANISMS["SCRAM-SHA-512"], MECHANISMS["SCRAM-SHA-256"]
    with secured.connect("SASL") as client:
        answer = first_answer(client, strong.name, b"n,,n=alice,r=abc")
        with pytest.raises(Closed):  # as by any proof of another length
            say(client, proven(weak, "alice", "pw", "abc", answer))


NOT_ENABLED = ["GSSAPI", "ANONYMOUS", "EXTERNAL", "", "plain", "PLAIN ", "PLAIN\0", "CRAM-MD5"]


@pytest.mark.parametrize("mechanism", NOT_ENABLED)
def test_a_mechanism_that_is_not_enabled(mechanism: str, secured: Secured, handled: list[tuple[str, str]]) -> None:
    for version in (0, 1):
        with secured.connect("SASL") as client:
            answer = client.call("sasl_handshake", version, mechanism=mechanism)
            assert answer["error_code"] == ErrorCode.UNSUPPORTED_SASL_MECHANISM
            assert not is_in(client)
    assert handled == []


# tokens


def test_tokens_that_nobody_has_issued(secured: Secured) -> None:
    now_s = int(time.time())
    claims = {"sub": "olga", "iat": now_s, "exp": now_s + 60, "aud": "kafka", "iss": ISSUER}
    for what, text in forged(secured.issuer, claims).items():
        with secured.connect("SASL") as client:
            assert log_in(client, OAUTHBEARER, bearer(text), b"\x01") == DENIED, what
            assert not is_in(client)


def claims_of_attacks() -> dict[str, dict[str, Any]]:
    now_s = int(time.time())
    return {
        "expired": {"iat": now_s - 200, "exp": now_s - 100},
        "not valid yet": {"nbf": now_s + 100, "exp": now_s + 200},
        "without an end": {"exp": None},
        "without a begin": {"iat": None},
        "an end that is a text": {"exp": str(now_s + 60)},
        "another audience": {"aud": "others"},
        "an audience that is like ours": {"aud": ["kafka2", "KAFKA"]},
        "no audience": {"aud": None},
        "another issuer": {"iss": "https://attacker.example"},
        "an issuer that begins like ours": {"iss": ISSUER + ".attacker.example"},
        "no issuer": {"iss": None},
        "nobody": {"sub": None},
        "an empty name": {"sub": " "},
        "a name that is a list": {"sub": ["alice"]},
    }


@pytest.mark.parametrize("what", claims_of_attacks())
def test_tokens_for_others(what: str, secured: Secured) -> None:
    with secured.connect("SASL") as client:
        assert log_in(client, OAUTHBEARER, token(secured)) == 0, "a good one"
    with secured.connect("SASL") as client:
        assert log_in(client, OAUTHBEARER, token(secured, **claims_of_attacks()[what]), b"\x01") == DENIED
        assert not is_in(client)


def test_a_token_of_an_unknown_key(secured: Secured) -> None:
    now_s = int(time.time())
    claims = {"sub": "olga", "iat": now_s, "exp": now_s + 60, "aud": "kafka", "iss": ISSUER}
    for kid in ("unknown", "ec", "../../etc/passwd", "' or 1=1", 7, None, ["rsa"]):
        header = {"alg": "RS256", "kid": kid}
        signature = Issuer().token(claims).split(".")[2]
        with secured.connect("SASL") as client:
            text = f"{part(header)}.{part(claims)}.{signature}"
            assert log_in(client, OAUTHBEARER, bearer(text), b"\x01") == DENIED


def test_a_huge_token(secured: Secured) -> None:
    for size in (400_000, 600_000):  # below and above sasl.server.max.receive.size
        with secured.connect("SASL") as client:
            assert log_in(client, OAUTHBEARER, token(secured, more="a" * size), b"\x01") == DENIED
            assert not is_in(client)


def test_long_messages_of_scram(secured: Secured) -> None:
    """Whoever can connect may send them: each takes less than a millisecond."""
    for count, is_taken in ((16_000, True), (17_000, False)):
        with secured.connect("SASL") as client:
            begin(client, "SCRAM-SHA-256")
            answer = say(client, b"n,,n=alice,r=abc" + b",x=y" * count)
            assert (answer["error_code"] == 0) == is_taken


def test_long_messages_of_oauthbearer_take_milliseconds(secured: Secured) -> None:
    """A token may be long. Quantifiers that give back what they have taken took 40 ms for as many extensions."""
    whole = bearer("a.b.c").replace(b"\x01auth", b"\x01a=b" * 120_000 + b"\x01auth")
    with secured.connect("SASL") as client:
        assert log_in(client, OAUTHBEARER, whole, b"\x01") == DENIED


def test_long_logins_of_many_clients_take_turns(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    """They have come all before the event loop goes on: it takes one of them in each of its rounds."""
    loop, turn, turns = secured.node.loop, 0, list[int]()
    take = Authentication.take

    def count() -> None:
        nonlocal turn
        turn += 1
        if len(turns) < len(clients):
            loop.call_soon(count)

    def note(self: Authentication, frame: memoryview, now_s: float, now_ms: int) -> Step | None:
        turns.append(turn)
        return take(self, frame, now_s, now_ms)

    message = bearer("a.b.c").replace(b"\x01auth", b"\x01a=b" * LONG_BYTES + b"\x01auth")
    with ExitStack() as stack:
        clients = [stack.enter_context(secured.connect("SASL")) for _ in range(10)]
        for each in clients:
            begin(each, OAUTHBEARER)
            each.correlation_id += 1
        monkeypatch.setattr(Authentication, "take", note)
        loop.call_soon_threadsafe(count)
        loop.call_soon_threadsafe(time.sleep, 0.5)
        for each in clients:
            each.socket.sendall(each.frame("sasl_authenticate", 2, {"auth_bytes": message}))
        for each in clients:
            assert each.answer("sasl_authenticate", 2)["auth_bytes"], "the reason for the refusal"
    assert len(set(turns)) == len(clients), turns


def test_a_long_request_before_the_login(secured: Secured) -> None:
    """Its tagged fields would take a tenth of a second."""
    with secured.connect("SASL") as client:
        frame = (
            struct.pack(">hhihx", 18, 3, 1, -1)
            + b"\x02a\x02b"
            + b"\xe8\x07"
            + b"".join(uvarint(number) + uvarint(20) + bytes(20) for number in range(1000))
        )
        client.socket.sendall(len(frame).to_bytes(4) + frame)
        assert client.is_closed()


def test_a_refused_token_is_logged(secured: Secured, caplog: pytest.LogCaptureFixture) -> None:
    """Also where the client hangs up on the answer."""
    caplog.set_level(logging.INFO, "kcli.broker")
    with secured.connect("SASL") as client:
        begin(client, OAUTHBEARER)
        assert say(client, token(secured, aud="another"))["auth_bytes"]
    line = "authentication failed: aud has none of the expected audiences"
    until = time.monotonic() + 10
    while line not in caplog.text and time.monotonic() < until:
        time.sleep(0.02)
    assert line in caplog.text


# requests before and during authentication


def anything(client: Client, api: Api, version: int) -> bytes:
    """A request of an API whose fields are all empty."""
    kind = messages(api.key, version)
    values = plain(kind.request_type(**empty(kind.request_type)))
    return client.frame(api.name, version, values | ({"hmac": b""} if "hmac" in values else {}))


OTHERS = [each for each in APIS.values() if each.name not in ("sasl_handshake", "sasl_authenticate", "api_versions")]


@pytest.mark.parametrize("api", OTHERS, ids=lambda api: api.name)
def test_requests_before_and_during_authentication(api: Api, secured: Secured, handled: list[tuple[str, str]]) -> None:
    for version in (api.least, api.most):
        with secured.connect("SASL") as client:
            client.socket.sendall(anything(client, api, version) + client.frame("metadata", 1, {"topics": []}))
            assert client.is_closed(), "no answer"
        with secured.connect("SASL") as client:
            begin(client, "PLAIN")
            request = anything(client, api, version)
            client.socket.sendall(request + client.frame("sasl_authenticate", 2, {"auth_bytes": ALICE}))
            if api.name != "produce":  # with acks=0
                frame = client.read_frame()
                assert ILLEGAL.to_bytes(2) in frame[4:] or len(frame) < 40, "an answer without an error has no content"
            assert client.is_closed(), "the login behind it is not taken"
    assert handled == []


def test_sasl_authenticate_before_its_handshake(secured: Secured, handled: list[tuple[str, str]]) -> None:
    for before in ((), ("api_versions",)):
        with secured.connect("SASL") as client:
            for _ in before:
                client.call("api_versions", 3, client_software_name="x", client_software_version="1")
            client.socket.sendall(client.frame("sasl_authenticate", 2, {"auth_bytes": ALICE}))
            assert client.is_closed()
    assert {name for name, _ in handled} == {"api_versions"}


@pytest.mark.parametrize("version", [-32_768, -1, 99])
def test_unknown_versions_of_api_versions(version: int, secured: Secured) -> None:
    """The node answers them in version 0, and the client may ask again."""
    for listener in ("SASL", "PLAINTEXT"):
        with secured.connect(listener) as client:
            client.socket.settimeout(10)
            for _ in range(2):
                client.socket.sendall(struct.pack(">ihhih", 11, 18, version, 5, 1) + b"c")
                assert client.read_frame()[:6] == struct.pack(">ih", 5, ErrorCode.UNSUPPORTED_VERSION)
            client.call("api_versions", 0)


def test_an_answer_in_front_of_an_illegal_request_is_sent(secured: Secured) -> None:
    """Both requests arrive at the same time, and the second one ends the connection."""
    software = {"client_software_name": "x", "client_software_version": "1"}
    for _ in range(3):  # a task makes the first response; later ones are kept and made at once
        with secured.connect("SASL") as client:
            versions, metadata = client.frame("api_versions", 3, software), client.frame("metadata", 1, {"topics": []})
            client.socket.sendall(versions + metadata)
            assert client.read_frame()
            assert client.is_closed()


@pytest.mark.parametrize("behind", [False, True])
def test_tagged_fields_of_a_login(behind: bool, secured: Secured) -> None:
    """The node skips the tagged fields that fit into sasl.server.max.receive.size within a moment."""
    tags = uvarint(120_000) + b"".join(uvarint(100 + i) + b"\0" for i in range(120_000))
    message = uvarint(len(ALICE) + 1) + ALICE
    header = struct.pack(">hhih", 36, 2, 5, 1) + b"c"
    frame = header + (b"\0" + message + tags if behind else tags + message + b"\0")
    with secured.connect("SASL") as client:
        begin(client, "PLAIN")
        with rounds_of(secured.node) as rounds:
            client.socket.sendall(struct.pack(">i", len(frame)) + frame)
            assert client.read_frame()[:7] == struct.pack(">ixh", 5, 0)
        assert rounds.longest_ms < SHORT_MS, rounds
        assert is_in(client)


@pytest.mark.parametrize("version", range(3))
def test_malformed_logins(version: int, secured: Secured, handled: list[tuple[str, str]]) -> None:
    """A wrong length closes the connection."""
    with secured.connect("SASL") as client:
        whole = client.frame("sasl_authenticate", version, {"auth_bytes": ALICE})[4:]
    for broken in (*(whole[:size] for size in range(10, len(whole))), whole[:14] + b"\xff" * 9):
        with secured.connect("SASL") as client:
            begin(client, "PLAIN")
            client.socket.sendall(struct.pack(">i", len(broken)) + broken)
            assert client.is_closed()
    assert handled == []


def test_requests_behind_a_failing_login(secured: Secured, handled: list[tuple[str, str]]) -> None:
    topic = {"name": "attacker", "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}
    with secured.connect("SASL") as client:
        hello = client.frame("sasl_handshake", 1, {"mechanism": "PLAIN"})
        login = client.frame("sasl_authenticate", 2, {"auth_bytes": b"\0alice\0wrong"})
        right = client.frame("sasl_authenticate", 2, {"auth_bytes": ALICE})
        create = client.frame("create_topics", 7, {"topics": [topic], "timeout": 1000, "validate_only": False})
        client.socket.sendall(hello + login + right + create)
        client.correlation_id = 1
        assert client.answer("sasl_handshake", 1)["error_code"] == 0
        client.correlation_id = 2
        assert client.answer("sasl_authenticate", 2)["error_code"] == DENIED
        assert client.is_closed()
    assert handled == []


def test_requests_behind_a_login_are_the_users_own(secured: Secured, handled: list[tuple[str, str]]) -> None:
    with secured.connect("SASL") as client:
        steps: list[tuple[str, int, dict[str, Any]]]
        steps = [("sasl_handshake", 1, {"mechanism": "PLAIN"}), ("sasl_authenticate", 2, {"auth_bytes": ALICE})]
        steps.append(("metadata", 1, {"topics": []}))
        client.socket.sendall(b"".join(client.frame(*each) for each in steps))
        for number, (api, version, _) in enumerate(steps, 1):
            client.correlation_id = number
            client.answer(api, version)
    assert handled == [("metadata", "User:alice")]


def test_a_long_request_during_authentication_is_not_decoded(secured: Secured) -> None:
    """Decoding it would block the event loop for a tenth of a second and more."""
    kind = messages(APIS[3].key, 1)
    reads, read = list[int](), kind.read

    def note(*place: Any) -> Any:
        reads.append(1)
        return read(*place)

    object.__setattr__(kind, "read", note)
    try:
        for count, expected in ((10, 1), (LONG_BYTES, 0)):
            del reads[:]
            with secured.connect("SASL") as client:
                begin(client, "PLAIN")
                client.socket.sendall(client.frame("metadata", 1, {"topics": [{"name": ""}] * count}))
                if expected:
                    assert client.read_frame()
                assert client.is_closed()
            assert len(reads) == expected
    finally:
        object.__setattr__(kind, "read", read)


# rights


def allow(secured: SecuredBroker, *granted: tuple[ResourceType, str, Operation]) -> None:
    """Let alice do this, and nothing else."""
    every: dict[str, Any] = {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1}
    every |= {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}
    each = {"resource_pattern_type": 3, "principal": "User:alice", "host": "*", "permission_type": 3}
    wanted = [
        each | {"resource_type": int(kind), "resource_name": name, "operation": int(operation)}
        for kind, name, operation in granted
    ]
    with secured.connect("PLAINTEXT") as admin:
        admin.call("delete_acls", 3, filters=[every])
        admin.call("create_acls", 3, creations=wanted)


@contextmanager
def alice(secured: SecuredBroker, *granted: tuple[ResourceType, str, Operation]) -> Iterator[Client]:
    """A connection of alice. granted: her only rights."""
    allow(secured, *granted)
    with secured.connect("SASL") as client:
        assert log_in(client, "PLAIN", ALICE) == 0
        yield client


@pytest.fixture(scope="module")
def ids(secured: Secured) -> dict[str, str]:
    """The ids of two topics with a record each: hidden, and shown."""
    found = {}
    with secured.connect("PLAINTEXT") as admin:
        for name in ("hidden", "shown"):
            found[name] = admin.create_topic(name, 1)["topic_id"]
            produce(admin, name)
    return found


def produce(admin: Client, topic: str) -> None:
    sent = [{"name": topic, "partition_data": [{"index": 0, "records": bytes(batch(b"v"))}]}]
    answer = admin.call("produce", 9, transactional_id=None, acks=1, timeout=5000, topic_data=sent)
    assert answer["responses"][0]["partition_responses"][0]["error_code"] == 0


JOIN: dict[str, Any] = {
    "member_id": "A" * 22,
    "member_epoch": 0,
    "instance_id": None,
    "rack_id": None,
    "server_assignor": None,
    "rebalance_timeout": 10_000,
    "subscribed_topic_names": None,
    "topic_partitions": [],
}
READ_GROUPS = [(ResourceType.GROUP, name, Operation.READ) for name in ("g1", "g2")]


def many(count: int, **fields: Any) -> list[dict[str, Any]]:
    """Return `count` items, each with a name of its own where a field is "#"."""
    return [{key: f"n{i}" if value == "#" else value for key, value in fields.items()} for i in range(count)]


MANY: dict[str, tuple[int, Callable[[], dict[str, Any]]]] = {
    "create_acls": (3, lambda: {"creations": many(20_000, resource_type=2, resource_name="#", resource_pattern_type=3,
        principal="User:alice", host="*", operation=3, permission_type=3)}),
    "delete_acls": (3, lambda: {"filters": many(20_000, resource_type_filter=2, resource_name_filter="#",
        pattern_type_filter=3, principal_filter=None, host_filter=None, operation=1, permission_type=1)}),
    "offset_fetch": (8, lambda: {"require_stable": False, "groups": [
        {"group_id": "g", "topics": many(50_000, name="#", partition_indexes=[0])}]}),
    "add_partitions_to_txn": (3, lambda: {"v3_and_below_transactional_id": "t", "v3_and_below_producer_id": 1,
        "v3_and_below_producer_epoch": 0, "v3_and_below_topics": many(50_000, name="#", partitions=[0])}),
    "txn_offset_commit": (3, lambda: {"transactional_id": "t", "group_id": "g", "producer_id": 1, "producer_epoch": 0,
        "generation_id": -1, "member_id": "", "group_instance_id": None, "topics": many(20_000,
        name="#", partitions=[{"partition_index": 0, "committed_offset": 0, "committed_leader_epoch": -1,
        "committed_metadata": ""}])}),
    "describe_topic_partitions": (0, lambda: {"topics": many(50_000, name="#"), "response_partition_limit": 2000,
        "cursor": None}),
    "consumer_group_heartbeat": (1, lambda: {"group_id": "g", **JOIN,
        "subscribed_topic_names": [f"n{i}" for i in range(100_000)], "subscribed_topic_regex": None}),
    "alter_user_scram_credentials": (0, lambda: {"deletions": many(50_000, name="#", mechanism=1), "upsertions": []}),
    "elect_leaders": (2, lambda: {"election_type": 0, "timeout": 1000,
        "topic_partitions": many(50_000, topic="#", partitions=[0])}),
    "alter_partition_reassignments": (0, lambda: {"timeout": 1000, "topics": many(30_000, name="#",
        partitions=[{"partition_index": 0, "replicas": None}])}),
    "describe_log_dirs": (4, lambda: {"topics": many(50_000, topic="#", partitions=[0])}),
    "alter_replica_log_dirs": (2, lambda: {"dirs": [{"path": "/x", "topics": many(50_000, name="#", partitions=[0])}]}),
    "delete_groups": (2, lambda: {"groups_names": [f"n{i}" for i in range(50_000)]}),
    "describe_user_scram_credentials": (0, lambda: {"users": many(50_000, name="#")}),
    "sync_group": (5, lambda: {"group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": None,
        "protocol_type": "consumer", "protocol_name": "range", "assignments": many(50_000, member_id="#",
        assignment=b"")}),
    "join_group": (9, lambda: {"group_id": "g", "session_timeout": 6000, "rebalance_timeout": 6000, "member_id": "",
        "group_instance_id": None, "protocol_type": "consumer", "reason": None, "protocols": many(50_000, name="#",
        metadata=b"")}),
    "list_transactions": (1, lambda: {"state_filters": [], "producer_id_filters": list(range(100_000)),
        "duration_filter": -1}),
    "list_groups": (5, lambda: {"states_filter": [f"n{i}" for i in range(100_000)], "types_filter": []}),
    "alter_client_quotas": (1, lambda: {"validate_only": False, "entries": [
        {"entity": [{"entity_type": "user", "entity_name": f"n{i}"}], "ops": []} for i in range(30_000)]}),
    "describe_client_quotas": (1, lambda: {"components": many(50_000, entity_type="#", match_type=0, match="x"),
        "strict": False}),
}  # fmt: skip


@pytest.mark.parametrize("api", MANY)
def test_a_denied_request_for_many_things_holds_nobody_up(api: str, secured: Secured) -> None:
    version, request = MANY[api]
    with secured.connect("SASL") as client:
        frame = client.frame(api, version, request())
    with alice(secured) as client, rounds_of(secured.node) as rounds:
        client.socket.sendall(frame)
        assert client.read_frame()
    assert rounds.are_even, rounds


@pytest.mark.parametrize(("count", "code"), [(20_000, ErrorCode.NONE), (90_000, ErrorCode.INVALID_REQUEST)])
def test_a_subscription_to_many_topics_holds_nobody_up(count: int, code: ErrorCode, secured: Secured) -> None:
    """Up to the limit names are authorized in turns, above it not at all. 90,000 names once held the loop for 1.2 s."""
    with secured.connect("PLAINTEXT") as admin:
        coordinator(admin, 0, "many")
    join = JOIN | {"subscribed_topic_names": [f"n{i}" for i in range(count)], "subscribed_topic_regex": None}
    granted = (ResourceType.GROUP, "many", Operation.READ), (ResourceType.TOPIC, "*", Operation.DESCRIBE)
    with alice(secured, *granted) as client, rounds_of(secured.node) as rounds:
        assert client.call("consumer_group_heartbeat", 1, group_id="many", **join)["error_code"] == code
    assert rounds.are_even, rounds


@pytest.mark.parametrize("may", [False, True])
def test_a_regular_expression_finds_no_hidden_topic(may: bool, secured: Secured, ids: dict[str, str]) -> None:
    """Source: GroupMetadataManager.filterTopicDescribeAuthorizedTopics."""
    granted = [*READ_GROUPS, (ResourceType.TOPIC, "shown", Operation.DESCRIBE)]
    if may:
        granted.append((ResourceType.TOPIC, "hidden", Operation.DESCRIBE))
    group = {"group_id": "g2" if may else "g1"}
    with secured.connect("PLAINTEXT") as admin:
        coordinator(admin, 0, group["group_id"])
    with alice(secured, *granted) as client:
        found = client.call("consumer_group_heartbeat", 1, **group, **JOIN, subscribed_topic_regex="hid.*|sho.*")
        assert found["error_code"] == 0
        until = time.monotonic() + 20
        while not found["assignment"] or not found["assignment"]["topic_partitions"]:
            assert time.monotonic() < until, "no assignment"
            time.sleep(0.05)
            known = {**JOIN, "member_epoch": found["member_epoch"], "rebalance_timeout": -1, "topic_partitions": None}
            found = client.call("consumer_group_heartbeat", 1, **group, **known, subscribed_topic_regex=None)
        topics = {each["topic_id"] for each in found["assignment"]["topic_partitions"]}
        assert topics == set(ids.values()) if may else topics == {ids["shown"]}


def fetch(
    client: Client, topics: list[dict[str, Any]], session_id: int, epoch: int, wait_ms: int = 0
) -> dict[str, Any]:
    limits = {"max_wait": wait_ms, "min_bytes": 1, "max_bytes": 1 << 20, "isolation_level": 0, "rack_id": ""}
    session = {"session_id": session_id, "session_epoch": epoch, "forgotten_topics_data": []}
    return client.call("fetch", 12, replica_id=-1, **limits, **session, topics=topics)


def wanted(topic: str, offset: int) -> list[dict[str, Any]]:
    each = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1000, "current_leader_epoch": -1}
    return [{"topic": topic, "partitions": [each | {"last_fetched_epoch": -1, "log_start_offset": -1}]}]


def test_a_fetch_session_ends_with_the_right_to_read(secured: Secured, ids: dict[str, str]) -> None:
    assert ids
    right = ResourceType.TOPIC, "shown", Operation.READ
    with alice(secured, right) as client:
        first = fetch(client, wanted("shown", 0), 0, 0)
        assert first["responses"][0]["partitions"][0]["records"]
        session_id, end = first["session_id"], first["responses"][0]["partitions"][0]["high_watermark"]
        assert fetch(client, wanted("shown", end), session_id, 1)["responses"] == []
        allow(secured)
        with secured.connect("PLAINTEXT") as admin:
            produce(admin, "shown")
        (found,) = fetch(client, [], session_id, 2, 1000)["responses"]
        assert found["partitions"][0]["error_code"] == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert not found["partitions"][0]["records"]
        assert found["partitions"][0]["high_watermark"] == -1


def test_a_fetch_session_at_rest_is_told_that_the_right_is_gone(secured: Secured, ids: dict[str, str]) -> None:
    assert ids
    right = ResourceType.TOPIC, "shown", Operation.READ
    with alice(secured, right) as client:
        first = fetch(client, wanted("shown", 0), 0, 0)
        session_id, end = first["session_id"], first["responses"][0]["partitions"][0]["high_watermark"]
        assert fetch(client, wanted("shown", end), session_id, 1)["responses"] == []
        allow(secured)
        (found,) = fetch(client, [], session_id, 2)["responses"]
        assert found["partitions"][0]["error_code"] == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        allow(secured, right)
        (found,) = fetch(client, [], session_id, 3)["responses"]
        assert found["partitions"][0]["error_code"] == 0
        assert fetch(client, [], session_id, 4)["responses"] == []


def test_the_session_of_another_user_shows_nothing(secured: Secured, ids: dict[str, str]) -> None:
    assert ids
    with secured.connect("PLAINTEXT") as admin:
        session_id = fetch(admin, wanted("hidden", 0), 0, 0)["session_id"]
        with alice(secured, (ResourceType.TOPIC, "shown", Operation.READ)) as client:
            (found,) = fetch(client, wanted("hidden", 0), session_id, 1)["responses"]
            assert found["partitions"][0]["error_code"] == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            assert not found["partitions"][0]["records"]


def asked_of(client: Client, name: str, topic_id: str) -> str:
    """Return what responses reveal about a topic, in JSON, without its name and id."""
    latest = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
    epoch = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
    named = {"name": name, "topic_id": None}
    cursor = {"response_partition_limit": 2000, "cursor": None}
    found = [
        client.call("metadata", 12, topics=[named], allow_auto_topic_creation=True),
        client.call("metadata", 12, topics=[named], allow_auto_topic_creation=False),
        client.call("describe_topic_partitions", 0, topics=[{"name": name}], **cursor),
        client.call("delete_topics", 6, topics=[named], timeout=1000),
        client.call(
            "list_offsets", 7, replica_id=-1, isolation_level=0, topics=[{"name": name, "partitions": [latest]}]
        ),
        client.call("offset_for_leader_epoch", 4, replica_id=-2, topics=[{"topic": name, "partitions": [epoch]}]),
        client.call("describe_producers", 0, topics=[{"name": name, "partition_indexes": [0]}]),
        client.call("delete_records", 2, timeout=1000, topics=[{"name": name, "partitions": []}]),
        client.call("elect_leaders", 2, election_type=0, timeout=1000, topic_partitions=None),
    ]
    text = json.dumps(found)
    return text.replace(name, "NAME").replace(topic_id, "ID")


UNKNOWN_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def test_hidden_and_missing_topics_are_told_alike(secured: Secured, ids: dict[str, str]) -> None:
    """The responses about a name are the same. For an id Kafka reveals that a topic has it, but not which."""
    unknown = UNKNOWN_TOPIC_ID
    with alice(secured) as client:
        assert asked_of(client, "hidden", ids["hidden"]) == asked_of(client, "absent", unknown)
        codes = []
        for topic_id in (ids["hidden"], unknown):
            by_id = {"name": None, "topic_id": topic_id}
            (deleted,) = client.call("delete_topics", 6, topics=[by_id], timeout=1000)["responses"]
            (described,) = client.call("metadata", 12, topics=[by_id])["topics"]
            assert deleted["name"] in (None, "")
            assert described["name"] in (None, "")
            assert described["partitions"] == []
            codes.append((deleted["error_code"], described["error_code"]))
        assert codes == [(DENIED_TOPIC, DENIED_TOPIC), (UNKNOWN_ID, UNKNOWN_ID)], "Kafka calls an id no secret"
    with secured.connect("PLAINTEXT") as admin:
        names = {each["name"] for each in admin.call("metadata", 12, topics=None)["topics"]}
        assert {"hidden", "shown"} <= names
        assert "absent" not in names, "auto.create.topics.enable"


def test_ids_of_other_groups_and_transactions(secured: Secured, ids: dict[str, str]) -> None:
    assert ids
    mine = [(ResourceType.GROUP, "own", Operation.DESCRIBE), (ResourceType.TRANSACTIONAL_ID, "own", Operation.DESCRIBE)]
    with secured.connect("PLAINTEXT") as admin:
        for name in ("own", "others"):
            offset = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1}
            topics = [{"name": "shown", "partitions": [offset | {"committed_metadata": ""}]}]
            member = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
            coordinator(admin, 0, name)
            coordinator(admin, 1, name)
            assert admin.call("offset_commit", 8, group_id=name, **member, topics=topics)
            asked = {"transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
            until = time.monotonic() + 20
            while admin.call("init_producer_id", 4, transactional_id=name, **asked)["error_code"]:
                assert time.monotonic() < until
                time.sleep(0.05)
        everything: dict[str, list[Any]] = {"state_filters": [], "producer_id_filters": []}
        while admin.call("list_transactions", 0, **everything)["error_code"]:  # some partitions are not loaded yet
            assert time.monotonic() < until
            time.sleep(0.05)
    with alice(secured, *mine) as client:
        groups = client.call("list_groups", 4, states_filter=[])["groups"]
        assert {each["group_id"] for each in groups} <= {"own"}
        for states in ([], ["Empty"]):
            listed = client.call("list_transactions", 0, state_filters=states, producer_id_filters=[])
            listed = listed["transaction_states"]
            assert {each["transactional_id"] for each in listed} == {"own"}
        listed = client.call("list_transactions", 0, state_filters=[], producer_id_filters=[0, 1, 2, 3])
        assert {each["transactional_id"] for each in listed["transaction_states"]} <= {"own"}
        (found,) = client.call("describe_transactions", 0, transactional_ids=["others"])["transaction_states"]
        assert found["error_code"] == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert found["producer_id"] in (0, -1)
        (found,) = client.call("describe_groups", 5, groups=["others"])["groups"]
        assert (found["error_code"], found["members"]) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, [])


def coordinator(client: Client, key_type: int, key: str) -> None:
    """Wait until the coordinator of a group (0) or of a transactional id (1) is loaded."""
    until = time.monotonic() + 20
    while client.call("find_coordinator", 3, key_type=key_type, key=key)["error_code"] or (
        key_type == 0 and client.call("describe_groups", 5, groups=[key])["groups"][0]["error_code"] in (14, 16)
    ):
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.parametrize("api", [each for each in APIS.values() if each.key not in BROKER_APIS], ids=lambda x: x.name)
def test_controllers_apis_at_a_brokers_listener(api: Api, secured: Secured, handled: list[tuple[str, str]]) -> None:
    """They include Envelope, which carries another user's principal; not even a super user gets a response."""
    for listener in ("PLAINTEXT", "SASL"):
        with secured.connect(listener) as client:
            if listener == "SASL":
                assert log_in(client, "PLAIN", ALICE) == 0
            client.socket.sendall(anything(client, api, api.most))
            assert client.is_closed()
    assert handled == []


# names


PLAIN_NAMES: list[Any] = [
    (b"\0alice\0secret", "User:alice"),
    ("\0jos\u00e9\0accent".encode(), "User:jos\u00e9"),
    ("\0jose\u0301\0accent".encode(), None),  # it looks the same, but Kafka normalizes no names
    ("\0\uff41\uff4c\uff49\uff43\uff45\0secret".encode(), None),
    ("\0al\u00adice\0secret".encode(), None),
    (b"\0ALICE\0secret", None),
    (b"\0alice \0secret", None),
    (b"\0alice\0secret\0more", None),
    (b"\0alice\0", None),
    (b"\0\0secret", None),
    (b"\0alice\0secret\xff", None),
    (b"ANONYMOUS\0alice\0secret", None),
]
"""The message that a client sends in PLAIN, and the user whom it logs in."""


@pytest.mark.parametrize(
    ("login", "expected"),
    PLAIN_NAMES,
)
def test_names_of_plain(login: bytes, expected: str | None, secured: Secured) -> None:
    with secured.connect("SASL") as client:
        assert log_in(client, "PLAIN", login) == (DENIED if expected is None else 0)
        if expected is not None:
            assert principal(secured, client) == expected


SCRAM_NAMES: list[Any] = [
    ("n=a=3Db=2Cc,r=abc", "User:a=b,c"),
    ("n=a,r=abc,n=alice", "User:a"),  # an extension named like a field of the message
    ("n=a=b=2Cc,r=abc", None),
    ("n=a=3db=2cc,r=abc", None),
    ("n=a=3Db,c,r=abc", None),
    ("n=a,n=alice,r=abc", None),
    ("n=,r=abc", None),
    ("n=\u00e1,r=abc", None),
    ("n=a\0,r=abc", None),
]
"""The first message that a client sends in SCRAM, and the user whom it logs in."""


@pytest.mark.parametrize(
    ("field", "expected"),
    SCRAM_NAMES,
)
def test_names_of_scram(field: str, expected: str | None, secured: Secured) -> None:
    """The client proves the password of the user whose name the server reads."""
    mechanism = MECHANISMS["SCRAM-SHA-256"]
    with secured.connect("SASL") as client:
        begin(client, mechanism.name)
        answer = say(client, f"n,,{field}".encode())
        if expected is None:
            assert answer["error_code"] == DENIED
            return
        said = base64.b64decode(answer["auth_bytes"]).decode()
        name = expected.removeprefix("User:")
        salted = mechanism.salted(PASSWORDS[name], name.encode(), 4096)
        final = f"c=biws,{said.split(',')[0]}"
        client_key = mechanism.hmac(salted, b"Client Key")
        signature = mechanism.hmac(mechanism.hash(client_key), f"{field},{said},{final}".encode())
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        assert say(client, f"{final},p={base64.b64encode(proof).decode()}".encode())["error_code"] == 0
        assert principal(secured, client) == expected


# TLS


def connect(secured: SecuredBroker, identity: Identity, listener: str = "SSL") -> Client:
    """A connection that shows this certificate."""
    path = secured.folder / "shown.pem"
    path.write_bytes(identity.pem)
    return secured.connect(listener, "shown")


def named(common_name: str, *more: str) -> Name:
    names = [NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in more]
    return Name([*reversed(names), NameAttribute(NameOID.COMMON_NAME, common_name)])


def certificates(secured: SecuredBroker) -> dict[str, Identity]:
    """Return certificates that must not log in alice, by what is wrong with them."""
    authority, subject = secured.authority, "CN=alice,O=Acme"
    server = authority._signed(named("alice", "Acme"), [ExtendedKeyUsageOID.SERVER_AUTH], NOW)
    own = authority.client(subject, NOW)
    return {
        "another authority": make_authority("kcli test", NOW).client(subject, NOW),
        "expired": authority.client(subject, NOW - dt.timedelta(days=4000)),
        "not valid yet": authority.client(subject, NOW + dt.timedelta(days=365)),
        "self-signed": make_authority("alice", NOW).identity,
        "not for clients": server,
        "signed by one who may not sign": Authority(own, authority.valid).client(subject, NOW),
    }


def test_certificates_that_are_not_alices(secured: Secured) -> None:
    with connect(secured, secured.authority.client("CN=alice,O=Acme", NOW)) as client:
        assert is_in(client), "a good one"
    for what, identity in certificates(secured).items():
        try:
            with connect(secured, identity) as client:
                assert not is_in(client), what
        except OSError:
            continue  # refused within the handshake


SUBJECTS: list[Any] = [
    (("alice", "Acme"), "User:alice"),
    (("alice,O=Acme", "Evil"), "User:alice\\"),
    (("Evil,CN=alice", "Acme"), "User:Evil\\"),
    (("alice\0.evil", "Acme"), "User:alice\\00.evil"),
    (("alice\n", "Acme"), None),
    (("alice+CN=bob", "Acme"), "User:alice\\+CN\\=bob"),
    (("\u202ealice", "Acme"), "User:\u202ealice"),
    ((" alice ", "Acme"), "User:\\ alice\\ "),
    (("User:alice", "Acme"), "User:User:alice"),
    (("*", "Acme"), "User:*"),
]
"""Names in certificates, and the principals that they give."""


@pytest.mark.parametrize(
    ("subject", "expected"),
    SUBJECTS,
)
def test_hostile_subjects(subject: tuple[str, ...], expected: str | None, secured: Secured) -> None:
    """None of these subjects is alice's under the listener's rule RULE:^CN=(.*?),.*$/$1/. Expected None: any principal
    other than alice."""
    identity = secured.authority._signed(named(*subject), [ExtendedKeyUsageOID.CLIENT_AUTH], NOW)
    with connect(secured, identity) as client:
        assert is_in(client)
        found = principal(secured, client)
    assert found == expected if expected is not None else found != "User:alice"
    assert (found == "User:alice") == (subject == ("alice", "Acme"))


def lax(secured: SecuredBroker, ciphers: str, most: ssl.TLSVersion) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return a server and a client that accept weak ciphers and old versions; skip where this OpenSSL has none."""
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    server.load_cert_chain(secured.folder / "server.pem")
    client.load_cert_chain(secured.folder / "alice.pem")
    client.load_verify_locations(secured.folder / "ca.pem")
    for each in (server, client):
        try:
            each.set_ciphers(f"{ciphers}:@SECLEVEL=0")
        except ssl.SSLError:
            pytest.skip(f"this OpenSSL has no {ciphers}")
        with warnings.catch_warnings(action="ignore"):
            each.minimum_version, each.maximum_version = ssl.TLSVersion.TLSv1, most
    return server, client


DOWNGRADES: list[Any] = [
    ("ALL", ssl.TLSVersion.TLSv1),
    ("ALL", ssl.TLSVersion.TLSv1_1),
    *((each, ssl.TLSVersion.TLSv1_2) for each in ("eNULL", "aNULL", "3DES")),
]
"""Ciphers and the newest TLS version that an attacker leaves in a client's handshake."""


@pytest.mark.parametrize("listener", ["SSL", "SASL_SSL"])
@pytest.mark.parametrize(
    ("ciphers", "most"),
    DOWNGRADES,
)
def test_downgrades_of_tls(ciphers: str, most: ssl.TLSVersion, listener: str, secured: Secured) -> None:
    server, client = lax(secured, ciphers, most)
    shaken(server, client, "127.0.0.1")  # the client can use them with a server that does
    with Client(("127.0.0.1", secured.port(listener))) as plain_client, pytest.raises((ssl.SSLError, ConnectionError)):
        client.wrap_socket(plain_client.socket, server_hostname="127.0.0.1")


def test_no_early_data(secured: Secured) -> None:
    """Early data needs a ticket of TLS 1.3."""
    with secured.connect("SSL", "alice") as client:
        assert is_in(client)
        assert isinstance(client.socket, ssl.SSLSocket)
        assert client.socket.version() == "TLSv1.3"
        assert client.socket.session is None or not client.socket.session.has_ticket


def test_a_slow_handshake(secured: Secured) -> None:
    """The client sends the handshake byte by byte: it completes, and others are served meanwhile."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = client_context(secured.trust(), NOW).context
    session = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with Client(("127.0.0.1", secured.port("SASL_SSL"))) as slow, secured.connect("SASL_SSL") as other:
        done = False
        while not done:
            try:
                session.do_handshake()
                done = True
            except ssl.SSLWantReadError:
                pass
            for byte in outgoing.read():
                slow.socket.sendall(bytes((byte,)))
                if byte < 8:
                    assert is_served(other)
            if not done:
                incoming.write(slow.socket.recv(1 << 16))
        session.write(slow.frame("api_versions", 0, {}))
        slow.socket.sendall(outgoing.read())
        incoming.write(slow.socket.recv(1 << 16))
        assert session.read(8)


def is_served(client: Client) -> bool:
    """Return whether a client that has not logged in is answered: it may send ApiVersions with an error as often as it
    likes."""
    request = {"client_software_name": "", "client_software_version": "1"}
    code: int = client.call("api_versions", 3, **request)["error_code"]
    return code == ErrorCode.INVALID_REQUEST


def test_handshakes_that_never_end(secured: Secured) -> None:
    outgoing = ssl.MemoryBIO()
    context = client_context(secured.trust(), NOW).context
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="127.0.0.1").do_handshake()
    hello = outgoing.read()
    begun = [Client(("127.0.0.1", secured.port("SSL"))) for _ in range(300)]
    try:
        for number, each in enumerate(begun):
            each.socket.sendall(hello[: number % len(hello)] if number % 2 else hello)
        with secured.connect("SSL", "alice") as client:
            assert is_in(client)
    finally:
        for each in begun:
            each.socket.close()


@pytest.mark.parametrize("listener", ["PLAINTEXT", "SASL"])
def test_tls_to_a_listener_without(listener: str, secured: Secured) -> None:
    with (
        Client(("127.0.0.1", secured.port(listener))) as client,
        pytest.raises((ssl.SSLError, ConnectionError)),
    ):
        client_context(secured.trust(), NOW).context.wrap_socket(client.socket, server_hostname="127.0.0.1")


@pytest.mark.parametrize("listener", ["SSL", "SASL_SSL"])
def test_plain_requests_to_tls(listener: str, secured: Secured, handled: list[tuple[str, str]]) -> None:
    with Client(("127.0.0.1", secured.port(listener))) as client:
        client.socket.sendall(client.frame("metadata", 1, {"topics": []}))
        received = b""
        while data := client.socket.recv(4096):
            received += data
        assert len(received) <= 7, "an alert at most"
    assert handled == []


# floods


MIB = 1 << 20
IN_BACKLOG = 40
"""Fewer than socket.listen.backlog.size (50): a client that finds the backlog full tries again only after a second,
with kcli as with Kafka."""


def resident_bytes(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) << 10


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc")
@pytest.mark.parametrize(
    ("begun", "most", "growth_max"),
    [(b"", 10_000, 120 * MIB), (b"\0\7\xd0\0" + bytes(250_000), 1_000, 120 * MIB)],
    ids=["silent", "half a long request"],
)
def test_connections_that_never_authenticate(begun: bytes, most: int, growth_max: int, tmp_path: Path) -> None:
    """The test opens 10,000 connections, or as many as descriptors allow: their memory is bounded, and other clients
    log in."""
    raise_limit()
    count = min(most, (limit() or most + 2000) - 2000)
    port = unused_port()
    options = {
        "listeners": f"PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:{port},CONTROLLER://127.0.0.1:{unused_port()}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": LOGINS["PLAIN"],
    }
    arguments = [each for name, value in options.items() for each in ("-o", f"{name}={value}")]
    with served_node(tmp_path / "d", *arguments) as node, ExitStack() as silent:
        with Client(("127.0.0.1", port)) as client:
            assert log_in(client, "PLAIN", ALICE) == 0
        before = resident_bytes(node.process.pid)
        for number in range(count):
            if number % IN_BACKLOG == 0:
                with Client(("127.0.0.1", port)) as client:  # is accepted behind all before it
                    assert log_in(client, "PLAIN", ALICE) == 0
            each = silent.enter_context(socket.create_connection(("127.0.0.1", port), 30))
            each.settimeout(0)
            if begun:
                with suppress(BlockingIOError):
                    each.send(begun)
        for _ in range(3):
            with Client(("127.0.0.1", port)) as client:
                assert log_in(client, "PLAIN", ALICE) == 0
                assert is_in(client)
        assert resident_bytes(node.process.pid) - before < growth_max
