"""Signatures of tokens, and tokens that an attacker would make."""

from __future__ import annotations

import base64
import hmac
import json

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from joserfc.jwk import OctKey, RSAKey

from kcli.security.jwt import InvalidKeys, JwtKeys, UnknownKey
from kcli.security.oauth import InvalidToken
from tests.security.claims import good_claims
from tests.security.tokens import Issuer, forged, part, signed

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


def signed_text(payload: bytes, header: bytes = b'{"alg":"RS256","kid":"rsa"}') -> str:
    """Return a token with a valid signature of exactly this text."""
    unsigned = b".".join(base64.urlsafe_b64encode(each).rstrip(b"=") for each in (header, payload))
    private_key = ISSUER.rsa.private_key
    assert private_key is not None
    signature = private_key.sign(unsigned, PKCS1v15(), SHA256())
    return f"{unsigned.decode()}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


@pytest.mark.parametrize(
    "payload",
    [
        b'{"sub":"alice","sub":"bob","iat":1,"exp":2}',
        b'{"sub":"alice","iat":1,"exp":2,"x":{"a":1,"a":2}}',
        b'{"sub":"alice","iat":1,"exp":NaN}',
        b'{"sub":"alice","iat":1,"exp":Infinity}',
        '{"sub":"alice","iat":1,"exp":2}'.encode("utf-16"),
        b'\xef\xbb\xbf{"sub":"alice","iat":1,"exp":2}',
    ],
)
def test_signed_claims_that_can_be_read_in_two_ways(payload: bytes) -> None:
    """jose4j, Kafka's reader of tokens, refuses them."""
    assert KEYS.claims(signed_text(b'{"sub":"alice"}')) == {"sub": "alice"}
    with pytest.raises(InvalidToken):
        KEYS.claims(signed_text(payload))


def test_a_header_that_can_be_read_in_two_ways() -> None:
    with pytest.raises(InvalidToken):
        KEYS.claims(signed_text(b'{"sub":"alice"}', b'{"alg":"none","alg":"RS256","kid":"rsa"}'))


def test_weak_keys() -> None:
    """The keys are a secret shorter than its hash, and an RSA key whose modulus is long only by leading zeros. Source:
    RFC 7518, 3.2."""
    short = OctKey.import_key("x" * 16, {"kid": "short"})
    keys = JwtKeys(json.dumps({"keys": [short.as_dict(private=True)]}))
    unsigned = f"{part({'alg': 'HS256', 'kid': 'short'})}.{part(CLAIMS)}"
    signature = base64.urlsafe_b64encode(hmac.digest(b"x" * 16, unsigned.encode(), "sha256")).decode().rstrip("=")
    with pytest.raises(InvalidToken):
        keys.claims(f"{unsigned}.{signature}")
    modulus = rsa.generate_private_key(65537, 1024).public_key().public_numbers().n
    padded = base64.urlsafe_b64encode(modulus.to_bytes(256)).decode().rstrip("=")
    with pytest.raises(InvalidKeys):
        JwtKeys(json.dumps({"keys": [{"kty": "RSA", "e": "AQAB", "n": padded}]}))
