"""The security state of a node: SCRAM users, ACLs, delegation tokens, client quotas. It is made, and checked later.

It is made in legs. Each leg adds something of every kind, and changes and removes what the leg before has made. Nodes
of kcli and of real Kafka run the legs, in one cluster or one after the other.
"""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import pytest

from kcli.protocol.error_code import ErrorCode
from kcli.security.scram import MECHANISMS
from tests.broker.cluster import wait_for
from tests.broker.running import TIMEOUT_S, Address, Client, readable
from tests.broker.security import user_quotas
from tests.broker.security.test_tokens import log_in
from tests.broker.security.token_cases import CREATE, DESCRIBE, EXPIRE, RENEW, created
from tests.interop.test_serve_handover_kafka import produce
from tests.log.batches import batch

SHA_256, SHA_512 = MECHANISMS
HOST, DENIED_HOST, SLOW_HOST = "127.0.0.1", "127.0.0.9", "127.0.0.7"
"""Addresses of clients, all of this machine."""
SLOW_RATE, KNOCKS = 1.0, 30
FORMER = "former"
"""A user whose credential is removed. Its name matters: as Kafka 4.3 loads a metadata log, it loses all users of a
mechanism if the first one of the log's names, in the order of a HashMap, is that of a removed user (ScramDelta.apply).
"""
TOPIC = 2
LITERAL, PREFIXED = 3, 4
WRITE = 4
DENY, ALLOW = 2, 3
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
DESCRIBED: tuple[tuple[str, int, dict[str, Any]], ...] = (
    ("describe_user_scram_credentials", 0, {"users": None}),
    ("describe_client_quotas", 1, {"components": [], "strict": False}),
    (DESCRIBE, 3, {"owners": None}),
    (
        "describe_acls",
        3,
        {
            "resource_type_filter": 1,
            "resource_name_filter": None,
            "pattern_type_filter": 1,
            "principal_filter": None,
            "host_filter": None,
            "operation": 1,
            "permission_type": 1,
        },
    ),
)


class Door(Protocol):
    """One node's listener of SASL."""

    @property
    def listener(self) -> Address:
        """Where it listens."""

    def client(self) -> Client:
        """A connection of the super user."""

    def connect(self, host: str = HOST, client_id: str = "test") -> Client:
        """Return a connection without login from one of this machine's addresses."""


class Login(NamedTuple):
    """By SCRAM."""

    mechanism: str
    name: str
    password: str
    with_token: bool = False


@dataclass
class Security:
    """The state that was made, and that every node with this directory must have and enforce."""

    logins: list[Login] = field(default_factory=list)
    """Those that let somebody in."""
    ended: list[Login] = field(default_factory=list)
    """Those that have done so."""
    produced: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """The error code by user, host and topic."""
    hmacs: list[bytes] = field(default_factory=list)
    """Of the tokens."""
    described: dict[str, Any] = field(default_factory=dict)
    """API -> answer, since the last leg."""
    cases: list[int] = field(default_factory=list)
    """Of user_quotas.py."""

    # what is done

    def add(self, door: Door, leg: int) -> None:
        """Add something of every kind, and change what the leg before has made."""
        for step in (self._create_topics, self._set_users, self._set_acls, self._set_quotas, self._change):
            with door.client() as admin:  # each step has a connection of its own, since sessions may be short
                step(admin, leg)
        for each in self.logins:
            wait_for(lambda: self.is_let_in(door, each), f"login of {each}")  # noqa: B023  (called at once)
        self._make_tokens(door, leg)
        if leg:
            self._change_tokens(door, leg - 1)
        self.described = {}

    def _create_topics(self, admin: Client, leg: int) -> None:
        named = [f"t-{leg}"] if leg else ["t", "t-0"]
        sizes = {"num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}
        topics = [{"name": name, **sizes} for name in named]
        answer = admin.call("create_topics", 7, topics=topics, timeout=10_000, validate_only=False)
        assert not any(each["error_code"] for each in answer["topics"]), answer

    def _set_users(self, admin: Client, leg: int) -> None:
        names = [f"alice-{leg}", f"b=o,b-{leg}", f"renewer-{leg}", f"{FORMER}-{leg}", f"u{leg}", f"v{leg}"]
        self._set_passwords(admin, [Login(SHA_256, name, f"pw of {name}") for name in names])
        self._set_passwords(admin, [Login(SHA_512, names[0], "another one")])

    def _set_passwords(self, admin: Client, logins: Sequence[Login]) -> None:
        upsertions = []
        for each in logins:
            mechanism = MECHANISMS[each.mechanism]
            salt, iterations = f"salt of {each.name}".encode(), 4096 + len(self.logins)
            salted = mechanism.salted(each.password, salt, iterations)
            fields = {"name": each.name, "mechanism": mechanism.code, "iterations": iterations, "salt": salt}
            upsertions.append(fields | {"salted_password": salted})
        answer = admin.call("alter_user_scram_credentials", 0, deletions=[], upsertions=upsertions)
        assert not any(each["error_code"] for each in answer["results"]), answer
        self.logins += logins

    def _set_acls(self, admin: Client, leg: int) -> None:
        alice, topic = f"User:alice-{leg}", f"t-{leg}"
        acls = [
            ("User:*", "t", LITERAL, "*", WRITE, ALLOW),
            (alice, topic, LITERAL, "*", WRITE, ALLOW),
            (alice, topic, LITERAL, DENIED_HOST, WRITE, DENY),
            (f"User:b=o,b-{leg}", "t-", PREFIXED, HOST, WRITE, ALLOW),
            (f"User:{FORMER}-{leg}", topic, LITERAL, "*", WRITE, ALLOW),
        ]
        creations = [
            {
                "resource_type": TOPIC,
                "resource_name": name,
                "resource_pattern_type": pattern,
                "principal": who,
                "host": host,
                "operation": operation,
                "permission_type": permission,
            }
            for who, name, pattern, host, operation, permission in acls
        ]
        answer = admin.call("create_acls", 3, creations=creations)
        assert not any(each["error_code"] for each in answer["results"]), answer
        for host in (HOST, DENIED_HOST):
            is_denied = host == DENIED_HOST
            self.produced |= {
                (f"alice-{leg}", host, topic): DENIED if is_denied else 0,
                (f"b=o,b-{leg}", host, topic): DENIED if is_denied else 0,
                (f"{FORMER}-{leg}", host, topic): 0,
                (f"renewer-{leg}", host, topic): DENIED,
                (f"renewer-{leg}", host, "t"): 0,
            }
            for earlier in range(leg):
                self.produced[f"b=o,b-{leg}", host, f"t-{earlier}"] = DENIED if is_denied else 0
                self.produced[f"b=o,b-{earlier}", host, topic] = DENIED  # as is changed below

    def _set_quotas(self, admin: Client, leg: int) -> None:
        def ask(api: str, version: int, request: dict[str, Any]) -> Any:
            return admin.call(api, version, **request)

        user_quotas.alter(ask, leg, is_set=True)
        self.cases.append(leg)
        set_quota(admin, {"ip": SLOW_HOST}, "connection_creation_rate", SLOW_RATE)
        set_quota(admin, {"ip": None}, "connection_creation_rate", 1000.0 + leg)
        set_quota(admin, {"user": f"{FORMER}-{leg}"}, "consumer_byte_rate", 1e9 + leg)
        set_quota(admin, {"user": None}, "request_percentage", 2000.0 + leg)
        set_quota(admin, {"user": "admin", "client-id": None}, "controller_mutation_rate", 1e6 + leg)

    def _make_tokens(self, door: Door, leg: int) -> None:
        owner = Login(SHA_256, f"alice-{leg}", f"pw of alice-{leg}")
        made = []
        with self.logged_in(door, owner) as client:
            for _ in range(2):
                answer = client.call(CREATE, 3, **created(None, f"renewer-{leg}", "renewer-0"))
                assert answer["error_code"] == 0, answer
                made.append(answer)
        self.hmacs += [base64.b64decode(each["hmac"]) for each in made]
        self.logins += [
            Login(mechanism, each["token_id"], each["hmac"], with_token=True)
            for each, mechanism in zip(made, MECHANISMS, strict=True)
        ]

    def _change(self, admin: Client, leg: int) -> None:
        """Remove a user, an ACL and a quota of the leg before, and change a password."""
        if not leg:
            return
        leg -= 1
        gone = f"{FORMER}-{leg}"
        deletions = [{"name": gone, "mechanism": MECHANISMS[SHA_256].code}]
        answer = admin.call("alter_user_scram_credentials", 0, deletions=deletions, upsertions=[])
        assert not any(each["error_code"] for each in answer["results"]), answer
        changed = Login(SHA_256, f"b=o,b-{leg}", f"pw of b=o,b-{leg}")
        self._end(gone, changed.name)
        self._set_passwords(admin, [changed._replace(password="changed")])
        every = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
        names = {"resource_name_filter": None, "host_filter": None}
        by_host = every | names | {"principal_filter": f"User:b=o,b-{leg}"}
        by_user = every | names | {"principal_filter": f"User:{gone}"}
        answer = admin.call("delete_acls", 3, filters=[by_user, by_host])
        assert [len(each["matching_acls"]) for each in answer["filter_results"]] == [1, 1]
        for user, host, topic in list(self.produced):
            if user == gone:
                del self.produced[user, host, topic]
            elif user == changed.name:
                self.produced[user, host, topic] = DENIED
        set_quota(admin, {"user": gone}, "consumer_byte_rate", None)

    def _change_tokens(self, door: Door, leg: int) -> None:
        """Let a renewer renew the first token of an earlier leg, and its owner expire the second one."""
        renewer = Login(SHA_256, "renewer-0", "pw of renewer-0")
        with self.logged_in(door, renewer) as client:
            assert client.call(RENEW, 2, hmac=self.hmacs[2 * leg], renew_period=3_600_000)["error_code"] == 0
        with self.logged_in(door, Login(SHA_256, f"alice-{leg}", f"pw of alice-{leg}")) as client:
            assert client.call(EXPIRE, 2, hmac=self.hmacs[2 * leg + 1], expiry_time_period=-1)["error_code"] == 0
        token = base64.b64encode(self.hmacs[2 * leg + 1]).decode()
        self._end(next(each.name for each in self.logins if each.password == token))

    def _end(self, *names: str) -> None:
        self.ended += [each for each in self.logins if each.name in names]
        self.logins = [each for each in self.logins if each.name not in names]

    # what is there

    def is_let_in(self, door: Door, login: Login) -> bool:
        with door.connect() as client:
            return not log_in(client, *login[:3], with_token=login.with_token)["error_code"]

    def logged_in(self, door: Door, login: Login, host: str = HOST, client_id: str = "test") -> Client:
        client = door.connect(host, client_id)
        answer = log_in(client, *login[:3], with_token=login.with_token)
        assert answer["error_code"] == 0, (login, answer)
        return client

    def of(self, user: str) -> Login:
        return next(each for each in self.logins if (each.name, each.mechanism) == (user, SHA_256))

    def check(self, door: Door) -> None:
        """Check everything except for the quotas, whose windows reach back in time."""
        found = describe(door)
        for api, answer in self.described.items():
            assert found[api] == answer, api
        for each in self.logins:
            assert self.is_let_in(door, each), each
        for each in self.ended:
            assert not self.is_let_in(door, each), each
        produced = {}
        for user, host, topic in self.produced:
            with self.logged_in(door, self.of(user), host) as client:
                code = -min(0, produce(client, topic, 0, bytes(batch(b"x"))))
                produced[user, host, topic] = 0 if code == ErrorCode.NOT_LEADER_OR_FOLLOWER else code
        assert produced == self.produced

    def keep(self, door: Door) -> None:
        """Keep the present description: all nodes must give the same until more is added."""
        self.described = describe(door)

    def check_quotas(self, door: Door, cases: Sequence[int]) -> None:
        """Check the quotas of a node that has just started, or has just learnt of them."""
        kafkas = json.loads(user_quotas.THROTTLES.read_text())
        for case in cases:
            found = []
            for user, client_id in user_quotas.clients(case):
                with self.logged_in(door, self.of(user), client_id=client_id) as client:
                    found.append(client.call("produce", 8, **user_quotas.request())["throttle_time"])
            assert found == pytest.approx(kafkas[case], abs=60), case

    def check_slow_host(self, door: Door) -> None:
        """Connect beyond the rate: ten windows of a second admit a burst, and a few more connections while this
        runs."""
        with ExitStack() as stack:
            knocking = [stack.enter_context(from_host(door.listener, SLOW_HOST)) for _ in range(KNOCKS)]
            wait_for(lambda: len(readable(knocking, 0)) >= KNOCKS - 15 * SLOW_RATE, "refusals")
            assert len(readable(knocking, 0)) <= KNOCKS - 10 * SLOW_RATE


def from_host(address: Address, host: str) -> socket.socket:
    """Return a connection from one of this machine's addresses."""
    return socket.create_connection(address, TIMEOUT_S, (host, 0))


def set_quota(admin: Client, entity: dict[str, str | None], key: str, value: float | None) -> None:
    """None takes it away."""
    of = [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()]
    ops = [{"key": key, "value": value or 0.0, "remove": value is None}]
    answer = admin.call("alter_client_quotas", 1, entries=[{"entity": of, "ops": ops}], validate_only=False)
    assert answer["entries"][0]["error_code"] == 0, answer


def describe(door: Door) -> dict[str, Any]:
    """Describe the whole state, sorted."""

    def in_order(value: Any) -> Any:
        match value:
            case dict():
                return {key: in_order(each) for key, each in value.items()}
            case list() | tuple():
                return sorted(map(in_order, value), key=json.dumps)
        return value

    with door.client() as admin:
        return {api: in_order(admin.call(api, version, **request)) for api, version, request in DESCRIBED}
