"""Requests about delegation tokens, in this order, of a fresh node; kcli's answers, or real Kafka's, which are kept:

    python -m tests.broker.security.token_cases DIRECTORY PORT

starts one real node in DIRECTORY, with listeners at PORT and at the two ports behind it. alice may make tokens for bob,
and describe the tokens of dave; carol may describe bob's; nobody else has any right.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kcli.broker.wire.messages import entity_reader, messages
from kcli.testing.wire import plain
from tests.broker.running import Client, api_key
from tests.broker.security.access import AdminClient, real_node

ANSWERS = Path(__file__).with_name("token_answers.json")
KEY = "delegation.token.secret.key=secret"
USERS = ("alice", "bob", "carol", "dave")
CREATE, RENEW, EXPIRE, DESCRIBE = (f"{each}_delegation_token" for each in ("create", "renew", "expire", "describe"))
Connect = Callable[[str], Client]
"""Returns a connection of the user with a name, without login for ""."""
ACLS = (
    {"resource_type": 7, "resource_name": "User:bob", "principal": "User:alice", "operation": 13},
    {"resource_type": 7, "resource_name": "User:dave", "principal": "User:alice", "operation": 14},
    {"resource_type": 7, "resource_name": "User:bob", "principal": "User:carol", "operation": 14},
)
DAY_MS = 86_400_000
INSTEAD_MS = 1


def acls() -> list[dict[str, Any]]:
    """The rights of alice and carol."""
    return [{"resource_pattern_type": 3, "host": "*", "permission_type": 3, **each} for each in ACLS]


def principals(*names: str, kind: str = "User") -> list[dict[str, str]]:
    return [{"principal_type": kind, "principal_name": name} for name in names]


def created(owner: str | None = None, *renewers: str, life_ms: int = -1, kind: str = "User") -> dict[str, Any]:
    named = {"owner_principal_type": None if owner is None else "User", "owner_principal_name": owner}
    return {**named, "renewers": principals(*renewers, kind=kind), "max_lifetime": life_ms}


def cases() -> Iterator[tuple[str, str, int, dict[str, Any]]]:
    """User, API, version and request. An hmac is the number of the token that a request has made."""
    for user in ("", "alice"):
        yield user, CREATE, 3, created()
    yield "", RENEW, 2, {"hmac": 0, "renew_period": -1}
    yield "", EXPIRE, 2, {"hmac": 0, "expiry_time_period": -1}
    yield "", DESCRIBE, 3, {"owners": None}
    for_oneself = created(None, "carol", "dave", life_ms=DAY_MS)
    yield "alice", CREATE, 2, {name: value for name, value in for_oneself.items() if "owner" not in name}
    yield "alice", CREATE, 3, created("bob", life_ms=100 * DAY_MS)
    yield "bob", CREATE, 3, created("alice")
    yield "bob", CREATE, 3, created("")
    yield "bob", CREATE, 3, created(None, "x", kind="Group")
    yield "dave", CREATE, 3, created(None, "carol", life_ms=1000)
    for user in USERS:
        for owners in (None, [], principals("alice"), principals("bob", "carol"), principals("x", kind="Group")):
            yield user, DESCRIBE, 3, {"owners": owners}
    yield "carol", DESCRIBE, 1, {"owners": None}
    for user in USERS:
        for token in (0, 1, 2):
            yield user, RENEW, 2, {"hmac": token, "renew_period": 3_600_000}
    yield "alice", RENEW, 1, {"hmac": 0, "renew_period": -1}
    yield "alice", RENEW, 1, {"hmac": 0, "renew_period": 0}
    yield "alice", RENEW, 2, {"hmac": 0, "renew_period": 100 * DAY_MS}
    yield "alice", RENEW, 2, {"hmac": -1, "renew_period": -1}
    yield "alice", EXPIRE, 2, {"hmac": -1, "expiry_time_period": -1}
    for user in ("bob", "carol"):
        yield user, EXPIRE, 2, {"hmac": 0, "expiry_time_period": 7_200_000}
    yield "alice", EXPIRE, 1, {"hmac": 0, "expiry_time_period": 100 * DAY_MS}
    yield "dave", RENEW, 2, {"hmac": 4, "renew_period": -1}
    yield "dave", EXPIRE, 2, {"hmac": 4, "expiry_time_period": 1}
    yield "dave", DESCRIBE, 3, {"owners": None}
    yield "dave", EXPIRE, 2, {"hmac": 4, "expiry_time_period": -1}
    yield "carol", EXPIRE, 2, {"hmac": 0, "expiry_time_period": -1}
    yield "alice", EXPIRE, 2, {"hmac": 0, "expiry_time_period": -1}
    for user in USERS:
        yield user, DESCRIBE, 3, {"owners": None}


def ask(connect: Connect, pause_s: float = 0.0) -> list[Any]:
    """Return the responses, with numbers in place of tokens, and hours since the beginning in place of times.

    pause_s: the time until the node has applied a request's change.
    """
    hmacs: list[bytes] = []
    texts: list[str] = []
    ids: list[str] = []
    answers = []
    began_ms = time.time() * 1000

    def comparable(value: Any, name: str = "") -> Any:
        match value:
            case dict():
                return {key: comparable(each, key) for key, each in value.items() if key != "throttle_time"}
            case list() if name == "tokens":
                return sorted((comparable(each) for each in value), key=lambda each: str(each["token_id"]))
            case list() | tuple():
                return [comparable(each) for each in value]
            case str() if name == "hmac":
                return texts.index(value) if value else -1
            case str() if name == "token_id":
                return ids.index(value) if value else -1
            case int() if name.endswith("_timestamp") and value == INSTEAD_MS:
                return -1
            case int() if name.endswith("_timestamp") and value > 0:
                return round((value - began_ms) / 3_600_000, 1)
        return value

    for user, api, version, asked in cases():
        request = dict(asked)
        if "hmac" in request:
            number = request["hmac"]
            if number == 4:  # the token of a second
                time.sleep(1.1)
            request["hmac"] = b"x" if number < 0 or not hmacs else hmacs[number]
        with connect(user) as client:
            client.socket.sendall(client.frame(api, version, request))
            answer, hmac = _answer(client, api, version)
        if api == CREATE and not answer["error_code"]:
            hmacs.append(hmac)
            texts.append(answer["hmac"])
            ids.append(answer["token_id"])
        answers.append(comparable(answer))
        if api != DESCRIBE:
            time.sleep(pause_s)
    return answers


def _answer(client: Client, api: str, version: int) -> tuple[dict[str, Any], bytes]:
    """The next answer, and the HMAC in it. kio cannot read a time of -1."""
    kind = messages(api_key(api), version)
    frame = client.read_frame().replace(b"\xff" * 8, INSTEAD_MS.to_bytes(8))
    found = entity_reader(kind.response_type)(frame, 4 + kind.header_is_flexible)[0]
    return plain(found), getattr(found, "hmac", b"")


def record(directory: Path, port: int) -> None:
    with real_node(directory, port, users=(), passwords=USERS, more=KEY) as admin:
        admin.call("create_acls", 3, creations=acls())

        def connect(user: str) -> Client:
            client = AdminClient(("127.0.0.1", port + 1 if user else port))
            if user:
                client.login(user, "p")
            return client

        time.sleep(1)
        answers = ask(connect, 0.5)
    ANSWERS.write_text("[\n" + ",\n".join(json.dumps(each) for each in answers) + "\n]\n")


if __name__ == "__main__":
    record(Path(sys.argv[1]), int(sys.argv[2]))
