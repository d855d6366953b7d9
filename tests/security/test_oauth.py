"""SASL OAUTHBEARER, and the claims of tokens. Kafka's answers: tests/interop/test_oauth_kafka.py."""

from __future__ import annotations

import contextlib
import time

import pytest

from kcli.security.oauth import InvalidToken, OAuthConfig, OAuthServer, OAuthToken, check_claims
from kcli.security.sasl import AuthenticationFailed, Login
from tests.security.claims import Claims, good_claims

NOW_S = 1_800_000_000
CLAIMS = good_claims(NOW_S)
GOOD, FORGED = "a.b.c", "a.b."


CONFIG = OAuthConfig(audiences=frozenset({"kafka", "other"}), issuer="https://issuer")
EXPECTED = {"aud": "kafka", "iss": "https://issuer"}


def test_claims() -> None:
    token = check_claims({**CLAIMS, **EXPECTED, "scope": ["b", "a"]}, CONFIG, NOW_S * 1_000)
    assert token == OAuthToken(name="alice", expires_ms=(NOW_S + 600) * 1_000, scopes=frozenset({"a", "b"}))
    named = OAuthConfig(sub_claim="client")
    assert check_claims({**CLAIMS, "client": "app"}, named, NOW_S * 1_000).name == "app"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"exp": NOW_S - 30}, "has expired"),
        ({"nbf": NOW_S + 31}, "not valid yet"),
        ({"exp": None}, "missing"),
        ({"iat": None}, "missing"),
        ({"exp": "2000000000"}, "no time"),
        ({"exp": True}, "no time"),
        ({"exp": float("inf")}, "no time"),
        ({"exp": float("nan")}, "no time"),
        ({"iat": NOW_S + 601}, "before it begins"),
        ({"aud": "kafka2"}, "audience"),
        ({"aud": None}, "audience"),
        ({"aud": [["kafka"]]}, "aud is no"),
        ({"iss": "https://issuer2"}, "issuer"),
        ({"iss": None}, "issuer"),
        ({"sub": " "}, "sub is missing"),
        ({"sub": None}, "sub is missing"),
        ({"scope": ["a", "a"]}, "duplicates"),
    ],
)
def test_claims_that_let_nobody_in(changed: Claims, reason: str) -> None:
    with pytest.raises(InvalidToken, match=reason):
        check_claims({**CLAIMS, **EXPECTED, **changed}, CONFIG, NOW_S * 1_000)


def test_the_clock_may_be_off() -> None:
    for changed in ({"exp": NOW_S - 29}, {"nbf": NOW_S + 30}):
        check_claims({**CLAIMS, **EXPECTED, **changed}, CONFIG, NOW_S * 1_000)


def test_an_audience_that_nobody_expects() -> None:
    with pytest.raises(InvalidToken, match="no audience is expected"):
        check_claims({**CLAIMS, "aud": "kafka"}, OAuthConfig(), NOW_S * 1_000)


def validate(token: str) -> OAuthToken:
    """Let one token in."""
    if token != GOOD:
        raise InvalidToken("forged")
    return check_claims(CLAIMS, OAuthConfig(), NOW_S * 1_000)


def server() -> OAuthServer:
    return OAuthServer(validate)


def message(token: str, header: str = "n,,", more: str = "") -> bytes:
    return f"{header}\x01auth=Bearer {token}\x01{more}\x01".encode()


def test_a_login() -> None:
    served = server()
    assert served.step(message(GOOD, more="logicalCluster=x\x01")) == b""
    assert served.login == Login(name="alice", expires_ms=(NOW_S + 600) * 1_000)
    with pytest.raises(AuthenticationFailed):
        served.step(message(GOOD))
    assert served.login is None
    assert server().step(message(GOOD, "n,a=alice,")) == b""


def test_another_name_than_the_tokens() -> None:
    with pytest.raises(AuthenticationFailed, match=r"\(admin\) that is different") as raised:
        server().step(message(GOOD, "n,a=admin,"))
    assert raised.value.error_message == str(raised.value)


@pytest.mark.parametrize("answer", [b"\x01", b"", b"again"])
def test_an_invalid_token(answer: bytes) -> None:
    served = server()
    assert served.step(message(FORGED)) == b'{"status":"invalid_token"}'
    assert served.login is None
    with pytest.raises(AuthenticationFailed) as raised:
        served.step(message(GOOD) if answer == b"again" else answer)
    assert raised.value.error_message == ('{"status":"invalid_token"}' if answer == b"\x01" else None)
    assert served.login is None
    with pytest.raises(AuthenticationFailed):
        served.step(message(GOOD))


@pytest.mark.parametrize(
    "message",
    [
        b"n,," + b"\x01" * 500_000,
        b"n,,\x01" + b"a=b\x01" * 120_000 + b"auth=Bearer x.y.z\x01\x01",
        b"n,a=" + b"=2C" * 160_000 + b",\x01auth=Bearer x.y.z\x01\x01",
        b"n,,\x01auth=Bearer " + b"x" * 500_000 + b"=!\x01\x01",
    ],
    ids=lambda message: repr(message[:8]),
)
def test_the_longest_messages_are_read_in_a_moment(message: bytes) -> None:
    """Such messages came from clients that had not logged in, and blocked the event loop for 500 ms."""
    took_s = min(_cpu_s(message) for _ in range(3))
    assert took_s < 0.06


def _cpu_s(message: bytes) -> float:
    def refuse(_: str) -> OAuthToken:
        raise InvalidToken("no token")

    served, began_s = OAuthServer(refuse), time.thread_time()
    with contextlib.suppress(AuthenticationFailed):
        served.step(message)
    return time.thread_time() - began_s
