"""TLS and SASL listeners: which clients they accept, with which principal, and how they refuse others."""

from __future__ import annotations

import base64
import json
import os
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from kcli.broker.config.served import CannotServe
from kcli.security.authorizer import CLASS_NAME
from kcli.security.sasl import generic_failure
from kcli.security.scram import MECHANISMS, new_nonce
from kcli.security.scram_client import converse
from kcli.tls.certificates import make_authority
from tests.broker.running import Client, Closed, RunningNode
from tests.broker.security.sasl_cases import ALICE, ANSWERS, CASES, ask
from tests.broker.security.secured import NOW, Secured, listeners, secured_node
from tests.security.tokens import forged

AUTHORIZED = {"authorizer.class.name": CLASS_NAME, "super.users": "User:ANONYMOUS;User:alice"}
EXPECTED: dict[str, Any] = json.loads(ANSWERS.read_text())


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_node(tmp_path_factory.mktemp("node"), AUTHORIZED) as node:
        with node.connect("PLAINTEXT") as admin:
            for mechanism in MECHANISMS.values():
                for name in ("alice", "carol", "a=b,c"):
                    salted = mechanism.salted("pw", b"salt", 4096)
                    credential = {"name": name, "mechanism": mechanism.code, "iterations": 4096, "salt": b"salt"}
                    request = [credential | {"salted_password": salted}]
                    answer = admin.call("alter_user_scram_credentials", 0, deletions=[], upsertions=request)
                    assert answer["results"][0]["error_code"] == 0
            admin.create_topic("t", 1)
        yield node


@pytest.mark.parametrize("name", CASES)
def test_an_exchange_is_kafkas(name: str, secured: Secured) -> None:
    """A response that Kafka delays is late; the duration of others depends on the machine."""
    found = list(ask(("127.0.0.1", secured.port("SASL")), CASES[name]))
    expected = EXPECTED[name]
    assert [each[0] for each in found] == [each[0] for each in expected]
    assert all("late" in ours for ours, theirs in zip(found, expected, strict=True) if "late" in theirs)


def principals(secured: Secured, listener: str) -> set[str]:
    """Who is connected through a listener."""
    server = secured.node.node.server

    def find() -> set[str]:
        return {each.principal for each in server.connections if each.listener == listener}

    return secured.node.run(find)


def log_in(client: Client, mechanism: str, *messages: bytes) -> dict[str, Any]:
    assert client.call("sasl_handshake", 1, mechanism=mechanism)["error_code"] == 0
    answer: dict[str, Any] = {}
    for each in messages:
        answer = client.call("sasl_authenticate", 2, auth_bytes=each)
    return answer


def scram(client: Client, mechanism: str, name: str, password: str) -> dict[str, Any]:
    """Log in by SCRAM. Returns the last answer."""
    assert client.call("sasl_handshake", 1, mechanism=mechanism)["error_code"] == 0
    conversation = converse(MECHANISMS[mechanism], name, password, new_nonce())
    message = next(conversation)
    while True:
        answer = client.call("sasl_authenticate", 2, auth_bytes=message)
        if answer["error_code"]:
            return answer
        try:
            message = conversation.send(base64.b64decode(answer["auth_bytes"]))
        except StopIteration:
            return answer


@pytest.mark.parametrize("listener", ["SASL", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_scram(mechanism: str, listener: str, secured: Secured) -> None:
    for name in ("carol", "a=b,c"):
        with secured.connect(listener) as client:
            assert scram(client, mechanism, name, "pw")["error_code"] == 0
            assert f"User:{name}" in principals(secured, listener)
    for name, password in (("carol", "wrong"), ("nobody", "pw")):
        with secured.connect(listener) as client:
            expected = generic_failure(mechanism)
            assert scram(client, mechanism, name, password)["error_message"] == expected
            assert client.is_closed()


def test_a_name_without_a_credential_keeps_its_salt(secured: Secured) -> None:
    salts = set()
    for _ in range(2):
        with secured.connect("SASL") as client:
            answer = log_in(client, "SCRAM-SHA-256", b"n,,n=nobody,r=abc")
            salts.add(base64.b64decode(answer["auth_bytes"]).split(b",")[1])
    assert len(salts) == 1


def test_a_certificate_is_its_owner(secured: Secured) -> None:
    with secured.connect("SSL", "alice") as client:
        client.call("metadata", 1, topics=[])
        assert principals(secured, "SSL") == {"User:alice"}


def test_who_shows_no_certificate_of_ours_is_refused(secured: Secured) -> None:
    (secured.folder / "mallory.pem").write_bytes(make_authority("another", NOW).client("CN=alice,O=Acme", NOW).pem)
    for user in (None, "mallory"):
        with pytest.raises((Closed, ssl.SSLError, ConnectionError)), secured.connect("SSL", user) as client:
            client.call("metadata", 1, topics=[])


def test_plain_bytes_are_no_handshake(secured: Secured) -> None:
    with Client(("127.0.0.1", secured.port("SSL"))) as client:
        client.socket.sendall(client.frame("metadata", 1, {"topics": []}))
        while client.socket.recv(4096):
            pass


@pytest.mark.parametrize("listener", ["SASL", "SASL_SSL"])
def test_tokens(listener: str, secured: Secured) -> None:
    now_s = int(time.time())
    claims = {"sub": "olga", "iat": now_s, "exp": now_s + 60, "aud": "kafka"}

    def message(token: str) -> bytes:
        return f"n,,\x01auth=Bearer {token}\x01\x01".encode()

    with secured.connect(listener) as client:
        answer = log_in(client, "OAUTHBEARER", message(secured.issuer.token(claims)))
        assert (answer["error_code"], answer["auth_bytes"]) == (0, "")
        assert 55_000 < answer["session_lifetime"] <= 60_000, "the session ends with the token"
        assert "User:olga" in principals(secured, listener)
    bad = {**forged(secured.issuer, claims), "audience": secured.issuer.token({**claims, "aud": "other"})}
    for what, token in bad.items():
        with secured.connect(listener) as client:
            try:
                answer = log_in(client, "OAUTHBEARER", message(token), b"\x01")
            except Closed:
                continue
            assert answer["error_code"] == 58, what


def test_the_keys_of_tokens_are_read_again(secured: Secured) -> None:
    now_s = int(time.time())
    message = (
        b"n,,\x01auth=Bearer "
        + secured.issuer.token({"sub": "x", "iat": now_s, "exp": now_s + 60, "aud": "kafka"}).encode()
    )
    path = secured.folder / "jwks.json"
    before = path.read_text()
    try:
        keys = [each for each in json.loads(before)["keys"] if each["kid"] != "rsa"]
        path.write_text(json.dumps({"keys": keys}))
        os.utime(path, (1, 1))
        with secured.connect("SASL") as client:
            assert log_in(client, "OAUTHBEARER", message + b"\x01\x01", b"\x01")["error_code"] == 58
        path.write_text("nonsense")
        with secured.connect("SASL") as client:
            assert log_in(client, "OAUTHBEARER", message + b"\x01\x01", b"\x01")["error_code"] == 58, "as before"
    finally:
        path.write_text(before)
        os.utime(path, (2, 2))
    with secured.connect("SASL") as client:
        assert log_in(client, "OAUTHBEARER", message + b"\x01\x01")["error_code"] == 0


def clients(secured: Secured) -> dict[str, dict[str, Any]]:
    """Return librdkafka's settings for alice, by the way in which she logs in."""
    trust = {"ssl.ca.location": str(secured.folder / "ca.pem")}
    pem = str(secured.folder / "alice.pem")
    keys = {"ssl.certificate.location": pem, "ssl.key.location": pem}
    found: dict[str, dict[str, Any]] = {"SSL": {"security.protocol": "SSL", **trust, **keys}}
    for protocol, listener in (("SASL_PLAINTEXT", "SASL"), ("SASL_SSL", "SASL_SSL")):
        for mechanism, password in (("PLAIN", "secret"), *((name, "pw") for name in MECHANISMS)):
            login = {"sasl.mechanism": mechanism, "sasl.username": "alice", "sasl.password": password}
            found[f"{listener} {mechanism}"] = {"security.protocol": protocol, **login, **trust}
    for name, settings in found.items():
        settings["bootstrap.servers"] = f"127.0.0.1:{secured.port(name.partition(' ')[0])}"
    return found


def test_librdkafka(secured: Secured) -> None:
    """Batches that are longer than a TLS record are produced and consumed whole, with every way to log in."""
    sent: list[bytes] = []
    for settings in clients(secured).values():
        producer = Producer({**settings, "linger.ms": 20})
        values = [os.urandom(70_000) for _ in range(20)]
        for value in values:
            producer.produce("t", value)
        assert producer.flush(20) == 0
        sent += values
    for settings in clients(secured).values():
        consumer = Consumer({**settings, "group.id": "g", "max.partition.fetch.bytes": 20 << 20})
        consumer.assign([TopicPartition("t", 0, 0)])
        found: list[bytes] = []
        until = time.monotonic() + 20
        while len(found) < len(sent) and time.monotonic() < until:
            found += [each.value() for each in consumer.consume(100, 1) if each.error() is None]  # type: ignore[misc]
        consumer.close()
        assert found == sent


def test_the_registration_tells_how_to_connect(secured: Secured) -> None:
    known = secured.node.node.broker.image.brokers[1].endpoints
    protocols = {name: each.security_protocol for name, each in known.items()}
    assert protocols == {"PLAINTEXT": 0, "SSL": 1, "SASL": 2, "SASL_SSL": 3}


def test_no_secret_is_described(secured: Secured) -> None:
    with secured.connect("PLAINTEXT") as client:
        resources = [{"resource_type": 4, "resource_name": "1", "configuration_keys": None}]
        options = {"include_synonyms": True, "include_documentation": False}
        (found,) = client.call("describe_configs", 4, resources=resources, **options)["results"]
    modules = {each["name"]: each for each in found["configs"] if each["name"].endswith("sasl.jaas.config")}
    assert len(modules) > len(MECHANISMS), "those of the listeners"
    for each in modules.values():
        assert (each["value"], each["is_sensitive"]) == (None, True)
        assert [one["value"] for one in each["synonyms"] if one["value"] is not None] == []


def test_whoever_has_no_rights_is_told_so(secured: Secured) -> None:
    settings = {**clients(secured)["SASL_SSL SCRAM-SHA-256"], "sasl.username": "carol"}
    errors: list[Any] = []
    producer = Producer(settings)
    try:
        producer.produce("t", b"x", on_delivery=lambda error, _: errors.append(error))
        producer.flush(20)
    except KafkaException as error:
        errors.append(error.args[0])
    assert [each.name() for each in errors] == ["TOPIC_AUTHORIZATION_FAILED"]


def test_a_log_line_is_short_whatever_a_client_names(secured: Secured, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "kcli.broker")
    with secured.connect("SASL") as client:
        client.call("sasl_handshake", 1, mechanism="x" * 30_000)
        assert client.is_closed()
    assert max(len(each.getMessage()) for each in caplog.records) < 400


def test_requests_after_the_login_come_with_it(secured: Secured) -> None:
    """The client sends the end of the handshake, the login and a request in one piece."""
    with secured.connect("SASL") as client:
        frames = [
            client.frame("sasl_handshake", 1, {"mechanism": "PLAIN"}),
            client.frame("sasl_authenticate", 2, {"auth_bytes": ALICE}),
            client.frame("metadata", 1, {"topics": []}),
        ]
        client.socket.sendall(b"".join(frames))
        client.correlation_id = 1
        assert client.answer("sasl_handshake", 1)["error_code"] == 0
        client.correlation_id = 2
        assert client.answer("sasl_authenticate", 2)["error_code"] == 0
        client.correlation_id = 3
        assert client.answer("metadata", 1)["brokers"]


def test_requests_come_with_the_end_of_the_tls_handshake(secured: Secured) -> None:
    """The bytes arrive in pieces of any size, while the event loop sees no further readable socket."""
    with secured.connect("SSL", "alice") as client:
        request = client.frame("metadata", 1, {"topics": [{"name": f"topic-{number:05}"} for number in range(3_000)]})
        client.socket.sendall(request * 30)
        assert len(client.answer("metadata", 1)["topics"]) == 3_000
        for _ in range(29):  # not all parsed, which takes long; their errors change while the topics are created
            assert client.read_frame().count(b"topic-") == 3_000


def test_handshakes_that_do_not_end_count_and_end_with_the_node(tmp_path: Path) -> None:
    with secured_node(tmp_path, {"max.connections": "4"}) as node:
        idle = [socket.create_connection(("127.0.0.1", node.port("SSL"))) for _ in range(4)]
        with node.connect("SASL") as client:
            client.socket.sendall(client.frame("api_versions", 0, {}))
            idle.pop().close()
            assert client.answer("api_versions", 0)["error_code"] == 0, "it has waited for room"
        with node.connect("SASL") as waiting, node.connect("PLAINTEXT") as client:
            assert client.call("metadata", 1, topics=[])["brokers"], "other nodes have their place"
            assert waiting.is_closed(), "which is that of a client"
    for each in idle:
        with each:
            assert each.recv(1) == b"", "closed with the node"


def test_those_who_never_authenticate_cost_little(secured: Secured) -> None:
    idle = [socket.create_connection(("127.0.0.1", secured.port("SASL"))) for _ in range(300)]
    try:
        with secured.connect("SASL") as client:
            assert log_in(client, "PLAIN", ALICE)["error_code"] == 0
        for each in idle:
            each.sendall((524_288).to_bytes(4) + bytes(1000))

        def kept() -> int:
            return sum(each._rest_bytes for each in secured.node.node.server.connections)

        assert secured.node.run(kept) <= 300 * 2000
    finally:
        for each in idle:
            each.close()


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"ssl.keystore.location": "/nowhere.pem"}, "listener SSL: ssl.keystore.location: "),
        ({"ssl.keystore.type": "PKCS12", "ssl.keystore.password": "x"}, "listener SSL: ssl.keystore.type: "),
        ({"ssl.provider": "SunJSSE"}, "listener SSL: ssl.provider: "),
        ({"sasl.oauthbearer.jwks.endpoint.url": "file:///nowhere.json"}, "listener.name.sasl.oauthbearer.sasl.oauthb"),
        ({"sasl.enabled.mechanisms": "PLAIN,GSSAPI"}, "listener.name.sasl.sasl.enabled.mechanisms: GSSAPI"),
        ({"listener.name.ssl.ssl.principal.mapping.rules": "RULE:("}, "Invalid rule"),
        ({"super.users": "alice", "authorizer.class.name": CLASS_NAME}, "super.users: "),
    ],
    ids=str,
)
def test_what_cannot_be_kept_ends_the_start(tmp_path: Path, change: dict[str, str], line: str) -> None:
    (tmp_path / "jwks.json").write_text('{"keys": [{"kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQ"}]}')
    options = {**listeners(tmp_path, make_authority("kcli test", NOW)), **change}
    with pytest.raises(CannotServe) as refused:
        RunningNode(tmp_path / "data", options)
    assert str(refused.value).startswith(line)
    assert "\n" not in str(refused.value)
    assert "secret" not in str(refused.value)
