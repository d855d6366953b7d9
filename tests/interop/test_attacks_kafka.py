"""The attacks of tests/broker/security/test_attacks.py on real Kafka and on kcli: the same frames get the same
responses, and end the connection alike."""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from kcli.broker.wire.apis import APIS, BROKER_APIS
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType
from kcli.security.oauth import MECHANISM as OAUTHBEARER
from kcli.security.scram import MECHANISMS
from tests.broker.running import Client, Closed
from tests.broker.security.sasl_cases import ALICE
from tests.broker.security.secured import NOW, SecuredBroker, secured_node
from tests.broker.security.test_attacks import (
    DOWNGRADES,
    NOT_ENABLED,
    OPTIONS,
    OTHERS,
    PASSWORDS,
    PLAIN_NAMES,
    PROOFS,
    SCRAM_NAMES,
    SUBJECTS,
    UNKNOWN_TOPIC_ID,
    add_users,
    alice,
    anything,
    asked_of,
    bearer,
    begin,
    certificates,
    claims_of_attacks,
    connect,
    first_answer,
    is_in,
    lax,
    named,
    produce,
    proven,
    say,
    token,
    without_proof,
)
from tests.interop.clusters import free_ports
from tests.interop.real_cluster import QUICK, RealCluster
from tests.security.tokens import forged

ONE_NODE = {
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
}
UNLIKE = ("describe_acls", "create_delegation_token")
"""APIs whose responses during a login differ: Kafka treats an empty filter as no request, and names the owner of the
token."""
SECURE = ("SASL", "SSL", "SASL_SSL")
PLACE = re.compile(r'"port": \d+|"cluster_id": "[^"]+"')
"""What differs between two clusters."""
Outcome = dict[str, Any]


class OneNode(RealCluster):
    """One node of real Kafka with the listeners of a secured one of kcli's."""

    def __init__(self, directory: Path, options: dict[str, str], jwks: str) -> None:
        urls = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={jwks}"
        escaped = {
            name: re.sub(r"[^\0-\x7f]", lambda found: f"\\u{ord(found[0]):04x}", text) for name, text in options.items()
        }
        super().__init__(directory, {**ONE_NODE, **escaped}, nodes=1, java=(*QUICK, urls))
        self.ports = dict(zip(SECURE, free_ports(len(SECURE)), strict=True))

    def properties(self, node: int) -> dict[str, str]:
        found, place = super().properties(node), self.places[node]
        clients = ",".join(
            f"{name}://{place.host}:{port}" for name, port in {"PLAINTEXT": place.port, **self.ports}.items()
        )
        controller = f"CONTROLLER://{place.host}:{place.controller_port}"
        return found | {"listeners": f"{clients},{controller}", "advertised.listeners": clients}


@dataclass
class SecuredKafka(SecuredBroker):
    """Real Kafka."""

    cluster: OneNode

    def port(self, listener: str) -> int:
        return self.cluster.ports.get(listener) or self.cluster.places[1].port


@dataclass
class Both:
    """Kafka and kcli. ids: of the topics `hidden` and `shown` on each."""

    kafka: SecuredBroker
    kcli: SecuredBroker
    ids: dict[str, dict[str, str]]

    def compare(self, attack: Callable[[SecuredBroker], Outcome]) -> Outcome:
        """Attack both, assert that the results are equal, and return one."""
        theirs, ours = attack(self.kafka), attack(self.kcli)
        different = [f"{name}: {ours[name]}, Kafka: {each}" for name, each in theirs.items() if ours[name] != each]
        assert not different, "\n".join(different)
        return ours


@pytest.fixture(scope="module")
def both(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    assert kafka_jars.is_dir()
    folder, kafkas = tmp_path_factory.mktemp("kcli"), tmp_path_factory.mktemp("kafka")
    with secured_node(folder, OPTIONS) as kcli:
        jwks = kcli.options["sasl.oauthbearer.jwks.endpoint.url"]
        with OneNode(kafkas, dict(kcli.options), jwks) as cluster:
            cluster.format()
            cluster.start()
            cluster.wait_ready()
            kafka = SecuredKafka(folder, kcli.authority, kcli.issuer, kcli.options, cluster)
            ids: dict[str, dict[str, str]] = {}
            for name, broker in (("kafka", kafka), ("kcli", kcli)):
                add_users(broker)
                with broker.connect("PLAINTEXT") as admin:
                    ids[name] = {topic: admin.create_topic(topic, 1)["topic_id"] for topic in ("hidden", "shown")}
                    produce(admin, "hidden")
            yield Both(kafka, kcli, ids)
            cluster.stop()


def said(client: Client, message: bytes) -> Any:
    """Return the response to a SASL message, without the parts that are new in each exchange."""
    try:
        answer = say(client, message)
    except Closed:
        return "closed"
    data = "" if answer["error_code"] == 0 and answer["auth_bytes"] else answer["auth_bytes"]
    return [answer["error_code"], answer["error_message"] or "", data, answer["session_lifetime"] > 0]


def login(broker: SecuredBroker, mechanism: str, *messages_said: bytes) -> Any:
    """Return the responses to a login, and whether the connection then accepts requests."""
    with broker.connect("SASL") as client:
        begin(client, mechanism)
        return [*(said(client, each) for each in messages_said), is_in(client)]


def rest(client: Client) -> list[str]:
    """Return the remaining frames of the broker, and how the connection ends."""
    found: list[str] = []
    try:
        while True:
            found.append(client.read_frame().hex())
    except (Closed, ConnectionError):
        return [*found, "closed"]
    except TimeoutError:
        return [*found, "open"]


# SASL


def test_scram(both: Both) -> None:
    """The attacker sends no proof, other nonces, the proof of another user or mechanism, or a proof twice."""

    def attack(broker: SecuredBroker) -> Outcome:
        found: Outcome = {}
        for name, mechanism in MECHANISMS.items():
            for proof in PROOFS:
                with broker.connect("SASL") as client:
                    answer = first_answer(client, name, b"n,,n=alice,r=abc")
                    found[f"{name} {proof}"] = [said(client, without_proof(name, proof, answer)), is_in(client)]
            for user, other, password in (
                ("alice", "alice", "wrong"),
                ("alice", "carol", "pw"),
                ("carol", "carol", ""),
            ):
                with broker.connect("SASL") as client:
                    answer = first_answer(client, name, f"n,,n={user},r=abc".encode())
                    final = proven(mechanism, other, password or PASSWORDS["carol"], "abc", answer)
                    found[f"{name} {user} {other}"] = [said(client, final), said(client, final), is_in(client)]
            for cut in (0, 1):
                with broker.connect("SASL") as client:
                    both_nonces, behind = first_answer(client, name, b"n,,n=alice,r=abc").split(",", 1)
                    changed = both_nonces[:-1] if cut else both_nonces + "x"
                    final = proven(mechanism, "alice", "pw", "abc", f"{changed},{behind}")
                    found[f"{name} nonce {cut}"] = [said(client, final), is_in(client)]
        strong, weak = MECHANISMS["SCRAM-SHA-512"], MECHANISMS["SCRAM-SHA-256"]
        with broker.connect("SASL") as client:
            answer = first_answer(client, strong.name, b"n,,n=alice,r=abc")
            found["weaker"] = [said(client, proven(weak, "alice", "pw", "abc", answer)), is_in(client)]
        return found

    found = both.compare(attack)
    assert not any(each[-1] for name, each in found.items() if "carol carol" not in name)


def test_mechanisms(both: Both) -> None:
    """The attacker uses mechanisms that are not enabled, and one mechanism's message after another one's handshake."""

    def attack(broker: SecuredBroker) -> Outcome:
        found: Outcome = {}
        for mechanism in NOT_ENABLED:
            for version in (0, 1):
                with broker.connect("SASL") as client:
                    answer = client.call("sasl_handshake", version, mechanism=mechanism)
                    answer["mechanisms"] = sorted(answer["mechanisms"])
                    found[f"{mechanism} {version}"] = [answer, is_in(client)]
        first = {"PLAIN": ALICE, "SCRAM-SHA-256": b"n,,n=alice,r=abc", OAUTHBEARER: token(broker)}
        for asked in ("PLAIN", *MECHANISMS, OAUTHBEARER):
            for mechanism, message in first.items():
                if mechanism[:5] != asked[:5]:
                    found[f"{asked} {mechanism}"] = login(broker, asked, message)
        return found

    assert not any(each[-1] for each in both.compare(attack).values())


def test_tokens(both: Both) -> None:
    def attack(broker: SecuredBroker) -> Outcome:
        found: Outcome = {"good": login(broker, OAUTHBEARER, token(broker))}
        for what, text in forged(broker.issuer, {**CLAIMS, **times()}).items():
            found[what] = login(broker, OAUTHBEARER, bearer(text), b"\x01")
        for what, claims in claims_of_attacks().items():
            found[what] = login(broker, OAUTHBEARER, token(broker, **claims), b"\x01")
        return found

    found = both.compare(attack)
    assert found.pop("good")[-1]
    assert not any(each[-1] for each in found.values())


CLAIMS = {"sub": "olga", "aud": "kafka", "iss": OPTIONS["sasl.oauthbearer.expected.issuer"]}


def times() -> dict[str, int]:
    return {"iat": int(time.time()), "exp": int(time.time()) + 60}


def test_names(both: Both) -> None:
    def attack(broker: SecuredBroker) -> Outcome:
        found: Outcome = {}
        for message, _ in PLAIN_NAMES:
            found[message.hex()] = login(broker, "PLAIN", message)
        for field, _ in SCRAM_NAMES:
            with broker.connect("SASL") as client:
                begin(client, "SCRAM-SHA-256")
                found[field] = said(client, f"n,,{field}".encode())
        return found

    both.compare(attack)


@pytest.mark.parametrize("state", ["before", "during"])
def test_requests_before_and_during_authentication(state: str, both: Both) -> None:
    """The attacker sends each API in its oldest and its newest version, with a login behind it."""

    def attack(broker: SecuredBroker) -> Outcome:
        found: Outcome = {}
        for api in (each for each in OTHERS if each.name not in UNLIKE):
            for version in (api.least, api.most):
                with broker.connect("SASL") as client:
                    if state == "during":
                        begin(client, "PLAIN")
                    request = anything(client, api, version)
                    client.socket.sendall(request + client.frame("sasl_authenticate", 2, {"auth_bytes": ALICE}))
                    found[f"{api.name} {version}"] = rest(client)
        return found

    found = both.compare(attack)
    assert all(each[-1] == "closed" for each in found.values())


def test_logins_out_of_order(both: Both) -> None:
    wrong = ("sasl_authenticate", 2, {"auth_bytes": b"\0alice\0wrong"})
    right = ("sasl_authenticate", 2, {"auth_bytes": ALICE})
    hello = ("sasl_handshake", 1, {"mechanism": "PLAIN"})
    metadata: tuple[str, int, dict[str, Any]] = ("metadata", 1, {"topics": []})
    software = {"client_software_name": "x", "client_software_version": "1"}
    versions = ("api_versions", 3, software)
    cases: dict[str, list[tuple[str, int, dict[str, Any]]]] = {
        "no handshake": [right, metadata],
        "versions, no handshake": [versions, right, metadata],
        "a failing login": [hello, wrong, right, metadata],
        "two handshakes": [hello, hello, right],
        "versions during a login": [hello, versions, right],
        "versions twice": [versions, versions, hello],
    }

    def attack(broker: SecuredBroker) -> Outcome:
        found: Outcome = {}
        for what, steps in cases.items():
            with broker.connect("SASL") as client:
                client.socket.sendall(b"".join(client.frame(*each) for each in steps))
                frames = rest(client)
                if steps[0] is versions:  # the APIs are not all the same
                    frames[0] = frames[0][:12]
                if steps[0] is hello:
                    frames[0] = frames[0][:12]  # the mechanisms in the order of a HashMap
                found[what] = frames
        return found

    assert all(each[-1] == "closed" for each in both.compare(attack).values())


# rights


def test_controllers_apis_at_a_brokers_listener(both: Both) -> None:
    def attack(broker: SecuredBroker) -> Outcome:
        found: Outcome = {}
        for api in (each for each in APIS.values() if each.key not in BROKER_APIS):
            for listener in ("PLAINTEXT", "SASL"):
                with broker.connect(listener) as client:
                    if listener == "SASL":
                        begin(client, "PLAIN")
                        assert say(client, ALICE)["error_code"] == 0
                    client.socket.sendall(anything(client, api, api.most))
                    found[f"{listener} {api.name}"] = rest(client)
        return found

    assert all(each == ["closed"] for each in both.compare(attack).values())


def test_hidden_and_missing_topics(both: Both) -> None:
    shown = (ResourceType.TOPIC, "shown", Operation.DESCRIBE)

    def attack(broker: SecuredBroker) -> Outcome:
        ids = both.ids["kafka" if broker is both.kafka else "kcli"]
        found: Outcome = {}
        with alice(broker, shown) as client:
            for name in ("hidden", "absent"):
                text = asked_of(client, name, ids.get(name, UNKNOWN_TOPIC_ID))
                found[name] = PLACE.sub("", text)
            for name, topic_id in (("hidden", ids["hidden"]), ("absent", UNKNOWN_TOPIC_ID)):
                by_id = {"name": None, "topic_id": topic_id}
                (deleted,) = client.call("delete_topics", 6, topics=[by_id], timeout=1000)["responses"]
                (described,) = client.call("metadata", 12, topics=[by_id])["topics"]
                found[f"{name} by id"] = [
                    {key: value for key, value in each.items() if key != "topic_id"} for each in (deleted, described)
                ]
        return found

    found = both.compare(attack)
    assert found["hidden"] == found["absent"]
    assert found["hidden by id"][0]["error_code"] == ErrorCode.TOPIC_AUTHORIZATION_FAILED


# TLS


def test_certificates(both: Both) -> None:
    """The certificates are not alice's, or have hostile subjects."""
    authority = both.kcli.authority
    shown = {"alice's": authority.client("CN=alice,O=Acme", NOW), **certificates(both.kcli)}
    for subject, _ in SUBJECTS:
        shown[repr(subject)] = authority._signed(named(*subject), [ExtendedKeyUsageOID.CLIENT_AUTH], NOW)

    def attack(broker: SecuredBroker) -> Outcome:
        found: Outcome = dict.fromkeys(shown, False)
        for what, identity in shown.items():
            with suppress(OSError), connect(broker, identity) as client:
                found[what] = is_in(client)
        return found

    assert both.compare(attack)["alice's"]


def test_downgrades(both: Both) -> None:
    def attack(broker: SecuredBroker) -> Outcome:
        found: Outcome = {}
        for ciphers, most in (each for each in DOWNGRADES if each[0] != "3DES"):  # not every OpenSSL has it
            for listener in ("SSL", "SASL_SSL"):
                _, context = lax(broker, ciphers, most)
                with Client(("127.0.0.1", broker.port(listener))) as client:
                    try:
                        client.socket = context.wrap_socket(client.socket, server_hostname="127.0.0.1")
                        found[f"{listener} {ciphers} {most}"] = "done"
                    except (ssl.SSLError, ConnectionError):
                        found[f"{listener} {ciphers} {most}"] = "refused"
        return found

    assert set(both.compare(attack).values()) == {"refused"}


def test_tls_where_there_is_none_and_the_reverse(both: Both) -> None:
    def attack(broker: SecuredBroker) -> Outcome:
        found: Outcome = {}
        for listener in ("PLAINTEXT", "SASL"):
            with Client(("127.0.0.1", broker.port(listener))) as client:
                client.socket.sendall(bytes.fromhex("1603010200010001fc0303") + bytes(506))
                found[listener] = rest(client)
        for listener in ("SSL", "SASL_SSL"):
            with Client(("127.0.0.1", broker.port(listener))) as client:
                client.socket.sendall(client.frame("metadata", 1, {"topics": []}))
                received = b""
                with suppress(ConnectionError):
                    while data := client.socket.recv(4096):
                        received += data
                found[listener] = len(received) <= 7
        return found

    both.compare(attack)


def test_long_requests_before_a_login(both: Both) -> None:
    """sasl.server.max.receive.size, and a size below nothing."""

    def attack(broker: SecuredBroker) -> Outcome:
        found: Outcome = {}
        for size in (-1, -(1 << 31), 524_289, (1 << 31) - 1):
            with broker.connect("SASL") as client:
                client.socket.sendall(size.to_bytes(4, signed=True) + bytes(100))
                found[str(size)] = rest(client)
        return found

    assert set(map(str, both.compare(attack).values())) == {"['closed']"}
