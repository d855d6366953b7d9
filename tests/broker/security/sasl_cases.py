"""What clients do on a listener of SASL, and what each step leads to.

    python -m tests.broker.security.sasl_cases HOST:PORT

asks a node of real Kafka, which has the configuration SASL, and keeps what it did in sasl_answers.json.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.broker.running import Address, Client, Closed

ANSWERS = Path(__file__).with_name("sasl_answers.json")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
LOGINS = {
    "PLAIN": 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret" user_bob="bobs";',
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
}
SASL = {
    "connection.failed.authentication.delay.ms": "250",
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "listener.name.sasl.plain.connections.max.reauth.ms": "3000",
    **{f"listener.name.sasl.{name.lower()}.sasl.jaas.config": text for name, text in LOGINS.items()},
}
"""The configuration of the listener SASL; nodes use another one, PLAINTEXT."""
DELAY_S = 0.25
"""connection.failed.authentication.delay.ms."""
LATE_S = 0.8 * DELAY_S
"""Tolerance, since the event loop counts a delay from the begin of its round."""
Step = tuple[str, int, dict[str, Any]] | bytes | float
"""A request; bytes that are sent as they are and answered with a frame; or a pause in seconds."""

ALICE = b"\0alice\0secret"
VERSIONS: Step = ("api_versions", 3, {"client_software_name": "x", "client_software_version": "1"})
UNNAMED: Step = ("api_versions", 3, {"client_software_name": "", "client_software_version": "1"})
METADATA: Step = ("metadata", 1, {"topics": []})


def handshake(mechanism: str, version: int = 1) -> Step:
    return "sasl_handshake", version, {"mechanism": mechanism}


def message(data: bytes, version: int = 1) -> Step:
    return "sasl_authenticate", version, {"auth_bytes": data}


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(4) + data


BEGIN = handshake("PLAIN")
LOGGED_IN = (BEGIN, message(ALICE))
CASES: dict[str, tuple[Step, ...]] = {
    "bare messages": (handshake("PLAIN", 0), framed(ALICE), METADATA),
    "a bare message of another form": (handshake("PLAIN", 0), framed(b"\0a\0")),
    "SaslAuthenticate again": (VERSIONS, BEGIN, message(ALICE, 2), METADATA, VERSIONS, message(ALICE, 2)),
    "again, and once more at once": (*LOGGED_IN, METADATA, 1.2, *LOGGED_IN, METADATA, BEGIN, METADATA),
    "again at once": (*LOGGED_IN, BEGIN, message(ALICE, 0), BEGIN, METADATA),
    "again as another user": (*LOGGED_IN, BEGIN, message(b"\0bob\0bobs")),
    "again with a wrong password": (*LOGGED_IN, BEGIN, message(b"\0alice\0x")),
    "again with another mechanism": (*LOGGED_IN, handshake("SCRAM-SHA-256"), message(b"\0bob\0bobs")),
    "again, and then not": (*LOGGED_IN, BEGIN, METADATA),
    "the session has ended": (*LOGGED_IN, METADATA, 3.2, METADATA),
    "the session has ended, and goes on": (*LOGGED_IN, 3.2, *LOGGED_IN, METADATA),
    "a wrong password": (BEGIN, message(b"\0alice\0wrong")),
    "another authorization id": (BEGIN, message(b"bob\0alice\0secret")),
    "a mechanism that is not enabled": (handshake("GSSAPI"), METADATA),
    "a mechanism that is not enabled, version 0": (handshake("GSSAPI", 0), METADATA),
    "Metadata first": (METADATA,),
    "SaslAuthenticate first": (message(ALICE),),
    "Metadata after ApiVersions": (VERSIONS, METADATA),
    "SaslAuthenticate after ApiVersions": (VERSIONS, message(ALICE)),
    "ApiVersions twice": (VERSIONS, VERSIONS),
    "ApiVersions with an error first": (UNNAMED, VERSIONS, BEGIN),
    "the handshake twice": (BEGIN, BEGIN),
    "Metadata after the handshake": (BEGIN, METADATA),
    "ApiVersions after the handshake": (BEGIN, VERSIONS),
    "no request": (framed(b"abcd"),),
    "a long request": ((600_000).to_bytes(4) + bytes(100),),
    "a request of a negative size": (b"\xff\xff\xff\xff",),
    "SCRAM of another form": (handshake("SCRAM-SHA-256"), message(b"x")),
    "SCRAM without its first message": (handshake("SCRAM-SHA-512"), message(b"c=biws,r=abc,p=AAAA")),
    "a token that is none": (
        handshake("OAUTHBEARER"),
        message(b"n,,\x01auth=Bearer abc\x01\x01"),
        message(b"\x01"),
    ),
    "PLAIN of another form": (BEGIN, message(b"x")),
}


def ask(address: Address, steps: tuple[Step, ...]) -> Iterator[Any]:
    """Return the result of each step: a response, or "closed"; with "late" where it took LATE_S."""
    with Client(address) as client:
        for step in steps:
            began = time.monotonic()
            if isinstance(step, float):
                time.sleep(step)
                continue
            try:
                found = _told(client, step)
            except (Closed, BrokenPipeError, ConnectionResetError):
                found = "closed"
            yield [found, "late"] if time.monotonic() - began >= LATE_S else [found]
            if found == "closed":
                return


def _told(client: Client, step: tuple[str, int, dict[str, Any]] | bytes) -> Any:
    if isinstance(step, bytes):
        client.socket.sendall(step)
        return client.read_frame().hex()
    api, version, request = step
    answer = client.call(api, version, **request)
    if api == "api_versions":
        return {"error_code": answer["error_code"], "is_empty": not answer["api_keys"]}
    return {"error_code": answer.get("error_code")} if api == "metadata" and answer["brokers"] else answer


if __name__ == "__main__":
    host, _, port = sys.argv[1].rpartition(":")
    with Client((host, int(port))) as first:
        for each in (*LOGGED_IN, METADATA):
            _told(first, each)  # type: ignore[arg-type]
    answers = {name: list(ask((host, int(port)), steps)) for name, steps in CASES.items()}
    ANSWERS.write_text(json.dumps(answers, indent=1) + "\n")
