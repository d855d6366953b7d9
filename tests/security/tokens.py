"""An issuer of signed tokens, for tests: its keys, and tokens with good and bad claims and signatures."""

from __future__ import annotations

import base64
import hmac
import json
from dataclasses import dataclass, field
from typing import Any

from joserfc import jws
from joserfc.jwk import ECKey, KeySet, OctKey, RSAKey

from tests.security.claims import Claims


@dataclass
class Issuer:
    """An issuer with one key of each kind."""

    rsa: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "rsa"}))
    ec: ECKey = field(default_factory=lambda: ECKey.generate_key("P-256", {"kid": "ec"}))

    def jwks(self) -> str:
        """Its public keys."""
        return json.dumps(KeySet([self.rsa, self.ec]).as_dict(private=False))

    def token(self, claims: Claims, algorithm: str = "RS256", **header: Any) -> str:
        """A token with a valid signature."""
        key = self.ec if algorithm.startswith("ES") else self.rsa
        return signed({"alg": algorithm, "kid": key.kid, **header}, claims, key)


def signed(header: Claims, claims: Claims, key: RSAKey | ECKey | OctKey) -> str:
    return jws.serialize_compact(header, json.dumps(claims).encode(), key, algorithms=[header["alg"]])


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def with_secret(unsigned: str, issuer: Issuer) -> str:
    """A token signed with the issuer's public key, as if it were a shared secret."""
    signature = hmac.digest(issuer.rsa.as_pem(private=False), unsigned.encode(), "sha256")
    return f"{unsigned}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


def forged(issuer: Issuer, claims: Claims) -> dict[str, str]:
    """Tokens that an attacker would make of a good one, by what is wrong with them."""
    good = issuer.token(claims)
    header, payload, signature = good.split(".")
    other = Issuer()
    return {
        "none": f"{part({'alg': 'none'})}.{payload}.",
        "None": f"{part({'alg': 'None', 'kid': 'rsa'})}.{payload}.{signature}",
        "no algorithm": f"{part({'kid': 'rsa'})}.{payload}.{signature}",
        "the public key as a secret": with_secret(f"{part({'alg': 'HS256', 'kid': 'rsa'})}.{payload}", issuer),
        "the public key as a secret, no id": with_secret(f"{part({'alg': 'HS256'})}.{payload}", issuer),
        "another issuer's key": other.token(claims),
        "a key of the token's own": other.token(claims, jwk=other.rsa.as_dict(private=False)),
        "keys from elsewhere": other.token(claims, jku="https://attacker/keys"),
        "swapped keys": signed({"alg": "RS256", "kid": "ec"}, claims, issuer.rsa),
        "another algorithm": f"{part({'alg': 'RS512', 'kid': 'rsa'})}.{payload}.{signature}",
        "other claims": f"{header}.{part({**claims, 'sub': 'admin'})}.{signature}",
        "no signature": f"{header}.{payload}.",
        "an extension": f"{part({'alg': 'RS256', 'kid': 'rsa', 'crit': ['x'], 'x': 1})}.{payload}.{signature}",
        "a token within a token": issuer.token(claims, cty="JWT"),
        "another token within a token": issuer.token(claims, cty="application/jwt"),
        "five parts": f"{good}.a.b",
        "two parts": f"{header}.{payload}",
        "a header that is a list": f"{part([])}.{payload}.{signature}",
        "deep": f"{part({'alg': 'RS256'})[:-1]}.{payload}.{signature}",
        "long": "a" * 200_000 + f".{payload}.{signature}",
        "nothing": "..",
    }
