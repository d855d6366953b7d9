"""OAUTHBEARER: Kafka's classes decide about the claims and signatures of tokens, and about clients' first messages."""

from __future__ import annotations

import random
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kcli.security.jwt import JwtKeys
from kcli.security.oauth import InvalidToken, OAuthConfig, OAuthServer, OAuthToken, check_claims
from kcli.security.sasl import AuthenticationFailed
from tests.broker.security.secured import secured_node
from tests.cli.run import kcli
from tests.client.endpoint import as_file, client_properties, token_endpoint
from tests.conftest import is_soak
from tests.interop.kit import Oracle
from tests.security import oracle
from tests.security.claims import good_claims, random_claims
from tests.security.tokens import Issuer, forged

CONFIGS = [
    OAuthConfig(),
    OAuthConfig(audiences=frozenset({"kafka", "more"})),
    OAuthConfig(issuer="https://issuer"),
    OAuthConfig(sub_claim="client"),
]
PIECES = [
    *(
        "n,",
        "n,",
        "y,",
        ",",
        ",",
        "a=al,",
        "a=b=2C,",
        "a=b=c,",
        "\x01",
        "\x01",
        "\x01",
        "auth=",
        "auth=Bearer t",
        "\x01\x01",
    ),
    *(
        "auth=bEARER  a.b-_~+/c==\x01",
        "auth=Basic t\x01",
        "auth=Bearer=t\x01",
        "auth=Bearer t t\x01",
        "x=y z\x01",
        "x=\x01",
    ),
    *("1=y\x01", "x=a=b\x01", "x=\t\x01", "=", "é", "auth=Bearer t\x01", "auth=Bearer \x01", "auth=Bearer =\x01", "\0"),
]


@pytest.fixture(scope="module")
def kafka(kafka_jars: Path) -> Iterator[Oracle]:
    started = oracle.start(kafka_jars)
    yield started
    started.close()


def ask(kafka: Oracle, issuer: Issuer, config: OAuthConfig, token: str) -> Any:
    configs = {"audiences": sorted(config.audiences), "issuer": config.issuer, "sub_claim": config.sub_claim}
    return kafka.ask("jwt", jwks=issuer.jwks(), token=token, **configs)


def valid(keys: JwtKeys, token: str, config: OAuthConfig, now_ms: int) -> list[object] | None:
    """Return what kcli reads in a token in the oracle's form; None for a token that is refused."""
    try:
        ours = check_claims(keys.claims(token), config, now_ms)
    except InvalidToken:
        return None
    return [ours.name, ours.expires_ms, sorted(ours.scopes)]


@pytest.mark.hypothesis
def test_claims(kafka: Oracle) -> None:
    chance, issuer, outcomes = random.Random(1), Issuer(), Counter[bool]()
    keys = JwtKeys(issuer.jwks())
    for _ in range(20_000 if is_soak() else 2_000):
        now_s = int(time.time())
        claims, config = random_claims(chance, now_s), chance.choice(CONFIGS)
        token = issuer.token(claims, chance.choice(["RS256", "PS256", "ES256"]))
        theirs = ask(kafka, issuer, config, token)
        ours = valid(keys, token, config, now_s * 1_000)
        assert ours == (None if isinstance(theirs, str) else theirs), (claims, config, theirs)
        outcomes[isinstance(theirs, str)] += 1
    assert min(outcomes.values()) > 150, outcomes


def test_forged_tokens(kafka: Oracle) -> None:
    issuer, claims = Issuer(), good_claims(int(time.time()))
    assert ask(kafka, issuer, OAuthConfig(), issuer.token(claims))[0] == "alice"
    for kind, token in forged(issuer, claims).items():
        assert isinstance(ask(kafka, issuer, OAuthConfig(), token), str), kind


def token_of(message: str) -> str | None:
    """Return the token of a client's first message; None for a message that is refused."""
    found: list[str] = []

    def validate(token: str) -> OAuthToken:
        found.append(token)
        raise InvalidToken("seen")

    try:
        OAuthServer(validate).step(message.encode())
    except AuthenticationFailed:
        return None
    return found[0]


@pytest.mark.hypothesis
def test_first_messages(kafka: Oracle) -> None:
    chance, taken, rounds = random.Random(1), 0, 50_000 if is_soak() else 5_000
    for _ in range(rounds):
        pieces = chance.choices(PIECES, k=chance.randint(0, 7))
        if chance.random() < 0.7:
            pieces = ["n,", chance.choice([",", "a=al,"]), "\x01", *pieces[:3], "auth=Bearer t\x01", "\x01"]
        message = "".join(pieces)
        theirs = kafka.ask("oauth-message", message=message)
        ours = token_of(message)
        assert ours == (None if isinstance(theirs, str) else theirs[1]), message
        taken += ours is not None
    assert taken > rounds // 20


def test_clients_ask_for_tokens_as_kafkas(kafka_jars: Path, tmp_path: Path) -> None:
    """With the same client properties both send the same request to the token endpoint, and log in."""
    properties = tmp_path / "client.properties"
    with secured_node(tmp_path) as node, token_endpoint(node.issuer) as endpoint:
        address = f"127.0.0.1:{node.port('SASL')}"
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={endpoint.url}"
        tool = ["java", allowed, "-cp", f"{kafka_jars}/*", "org.apache.kafka.tools.TopicCommand", "--list"]
        for encoded in ("false", "true"):
            changes = {"sasl.oauthbearer.header.urlencode": encoded, "sasl.oauthbearer.scope": "a b/c"}
            properties.write_text(as_file(client_properties(endpoint.url, **changes)))
            endpoint.requests.clear()
            given = ["--bootstrap-server", address, "--command-config", str(properties)]
            theirs = subprocess.run([*tool, *given], capture_output=True, text=True, check=False, timeout=60)
            assert theirs.returncode == 0, theirs.stderr
            assert kcli("users", "list", "-b", address, "--command-config", properties) == ("", "", 0)
            (kafkas, body), *_, (ours, our_body) = endpoint.requests
            assert body == our_body
            for name in ("Accept", "Authorization", "Cache-Control", "Content-Type"):
                assert kafkas[name] == ours[name]
