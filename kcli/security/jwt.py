"""Signed tokens: the signature of a JWT, checked with the keys of a JWKS.

A token is checked by the algorithm that its header names, but only with a key that is made for that algorithm; a token
with any other algorithm, such as `none`, is refused. Keys and addresses of keys in a token's header (jku, x5u, jwk) are
ignored. Signatures are checked by joserfc, on cryptography. Source: BrokerJwtValidator,
JwksFileVerificationKeyResolver; RFC 7515, 7517, 7519, 8725.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from kcli.errors import KcliError
from kcli.security.oauth import InvalidToken

if TYPE_CHECKING:
    from joserfc.jwk import Key

_ALGORITHMS: Final[Mapping[str, tuple[str, str | None]]] = {
    **{f"{family}{bits}": ("RSA", None) for family in ("RS", "PS") for bits in (256, 384, 512)},
    **{f"HS{bits}": ("oct", None) for bits in (256, 384, 512)},
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", None),
}
"""A token's `alg` -> the `kty` of the keys for that algorithm, and their curve if the algorithm has only one."""
_NESTED: Final = frozenset({"jwt", "application/jwt"})
"""The values of `cty`, in lower case, of a token whose payload is another token."""
_PARTS: Final = 3
_TOKEN_MAX: Final = 1 << 17
"""The maximum length of a token, in characters; a longer token is refused before it is parsed."""
_RSA_BITS_MIN: Final = 2048


class InvalidKeys(KcliError):
    """A text that is no JWKS, or a JWKS without a key for signatures."""


class UnknownKey(InvalidToken):
    """No key of the JWKS fits the token. The issuer may have new keys, so the caller may fetch the JWKS again. key_id:
    the token's `kid`, None without one."""

    def __init__(self, key_id: str | None) -> None:
        super().__init__("no key is there for the token")
        self.key_id = key_id


class JwtKeys:
    """The keys of a JWKS document. Keys that cannot be used are left out: keys for encryption, keys of an unknown type,
    and keys that are too short.

    Raises InvalidKeys if the document is no JWKS, or has no key that can be used.
    """

    def __init__(self, document: str | bytes) -> None:
        try:
            listed = json.loads(document)["keys"]
            fields = [each for each in listed if isinstance(each, dict)]
        except (ValueError, TypeError, KeyError, RecursionError):
            raise InvalidKeys("no JWKS: a JSON object with a list of keys") from None
        self._keys = [(each, key) for each in fields if (key := _key(each)) is not None]
        if not self._keys:
            raise InvalidKeys("a JWKS without a key for signatures")

    def claims(self, token: str) -> dict[str, Any]:
        """Return the claims of a token whose signature is valid. Raises InvalidToken, UnknownKey."""
        from joserfc import jws
        from joserfc.errors import JoseError

        if len(token) > _TOKEN_MAX or token.count(".") != _PARTS - 1:
            raise InvalidToken("no JWT: not three parts, or too long")
        header = json_part(token.partition(".")[0])
        algorithm = header.get("alg")
        if not isinstance(algorithm, str) or algorithm not in _ALGORITHMS:
            raise InvalidToken("no JWT of an algorithm for signatures")
        if "crit" in header or "b64" in header:
            raise InvalidToken("a JWT with extensions that are not known")
        if str(header.get("cty")).lower() in _NESTED:
            raise InvalidToken("a JWT within a JWT")
        try:
            jws.deserialize_compact(token, self._choose(algorithm, header.get("kid")), algorithms=[algorithm])
        except (JoseError, ValueError, TypeError) as error:
            raise InvalidToken(f"the signature is not valid: {type(error).__name__}") from None
        return json_part(token.split(".")[1])

    def _choose(self, algorithm: str, key_id: object) -> Key:
        """Return the first key that is for this algorithm and, if the token names a key, has that id. Raises
        UnknownKey."""
        kind, curve = _ALGORITHMS[algorithm]
        for fields, key in self._keys:
            if (
                fields["kty"] == kind
                and (curve is None or fields.get("crv") == curve)
                and fields.get("alg", algorithm) == algorithm
                and (key_id is None or fields.get("kid") == key_id)
                and (kind != "oct" or len(base64.urlsafe_b64decode(f"{fields['k']}==")) * 8 >= int(algorithm[2:]))
            ):
                return key
        raise UnknownKey(key_id if isinstance(key_id, str) else None)


def _key(fields: dict[str, Any]) -> Key | None:
    """Return the key of a JWK; None for a JWK with which no token can be verified."""
    from joserfc.errors import JoseError
    from joserfc.jwk import import_key

    if fields.get("use", "sig") != "sig" or fields.get("kty") not in {kind for kind, _ in _ALGORITHMS.values()}:
        return None
    public = {name: value for name, value in fields.items() if name not in ("use", "key_ops", "alg")}
    try:
        if fields["kty"] == "RSA" and _bits(fields["n"]) < _RSA_BITS_MIN:
            return None
        return import_key(public)
    except (JoseError, ValueError, TypeError, KeyError):
        return None


def _bits(number: str) -> int:
    """Return the number of bits, without leading zeros, of a number in a JWK (base64url). Raises ValueError,
    TypeError."""
    return int.from_bytes(base64.urlsafe_b64decode(number + "==")).bit_length()


def _once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of a JSON object as a dict. Raises ValueError if a name occurs twice, as jose4j does:
    parsers disagree which of the values is valid."""
    found = dict(members)
    if len(found) != len(members):
        raise ValueError("a name twice")
    return found


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")  # NaN and Infinity, which Python's parser accepts


def json_part(part: str) -> dict[str, Any]:
    """Return the JSON object of one part of a token. Raises InvalidToken."""
    try:
        text = base64.b64decode(part + "=" * (-len(part) % 4), b"-_", validate=True).decode()
        value = json.loads(text, object_pairs_hook=_once, parse_constant=_refuse)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise InvalidToken("no JWT: a part is no JSON object")
    return value
