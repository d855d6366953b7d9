"""Signatures of tokens, and tokens that an attacker would make."""

from __future__ import annotations

import json

import pytest
from joserfc.jwk import OctKey, RSAKey

from kcli.security.jwt import InvalidKeys, JwtKeys, UnknownKey
from kcli.security.oauth import InvalidToken
from tests.security.claims import good_claims
from tests.security.tokens import Issuer, forged, signed

CLAIMS = good_claims(1_800_000_000)
ISSUER = Issuer()
KEYS = JwtKeys(ISSUER.jwks())
PUBLIC = json.loads(ISSUER.jwks())["keys"][0]
FORGED = forged(ISSUER, CLAIMS)


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS512", "ES256"])
def test_signatures(algorithm: str) -> None:
    assert KEYS.claims(ISSUER.token(CLAIMS, algorithm)) == CLAIMS


def test_a_token_without_a_key_id() -> None:
    assert KEYS.claims(signed({"alg": "RS256"}, CLAIMS, ISSUER.rsa)) == CLAIMS


def test_a_shared_secret_only_where_the_keys_have_one() -> None:
    secret = OctKey.import_key("0123456789abcdef0123456789abcdef", {"kid": "shared"})
    token = signed({"alg": "HS256", "kid": "shared"}, CLAIMS, secret)
    with pytest.raises(UnknownKey):
        KEYS.claims(token)
    assert JwtKeys(json.dumps({"keys": [secret.as_dict(private=True)]})).claims(token) == CLAIMS


@pytest.mark.parametrize("kind", FORGED)
def test_forged_tokens(kind: str) -> None:
    with pytest.raises(InvalidToken) as raised:
        KEYS.claims(FORGED[kind])
    assert "alice" not in str(raised.value)


def test_a_new_key_of_the_issuer() -> None:
    rotated = RSAKey.generate_key(2048, {"kid": "new"})
    with pytest.raises(UnknownKey):
        KEYS.claims(signed({"alg": "RS256", "kid": "new"}, CLAIMS, rotated))


@pytest.mark.parametrize(
    "document",
    [
        "",
        "[]",
        "{}",
        '{"keys": 1}',
        '{"keys": []}',
        '{"keys": [1, {}, {"kty": "RSA"}, {"kty": "x"}]}',
        json.dumps({"keys": [{**PUBLIC, "use": "enc"}]}),
        json.dumps({"keys": [{**PUBLIC, "n": PUBLIC["n"][:170]}]}),
        '{"keys": ' + "[" * 100_000,
    ],
)
def test_keys_that_are_none(document: str) -> None:
    with pytest.raises(InvalidKeys):
        JwtKeys(document)
