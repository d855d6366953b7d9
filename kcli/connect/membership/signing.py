"""Signatures of requests between workers: an HMAC of the body with the session key that the leader distributes.

    X-Connect-Authorization                the signature, in base64
    X-Connect-Request-Signature-Algorithm  HmacSHA256

Source: InternalRequestSignature, KIP-507.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

ALGORITHM: Final = "HmacSHA256"
HASHES: Final = {"HmacSHA256": hashlib.sha256, "HmacSHA384": hashlib.sha384, "HmacSHA512": hashlib.sha512}
KEY_BYTES: Final = 32
SIGNATURE: Final = "X-Connect-Authorization"
SIGNATURE_ALGORITHM: Final = "X-Connect-Request-Signature-Algorithm"


def signed(body: bytes, key: bytes) -> dict[str, str]:
    """Return the headers of a signed request."""
    signature = hmac.new(key, body, HASHES[ALGORITHM]).digest()
    return {SIGNATURE: base64.b64encode(signature).decode(), SIGNATURE_ALGORITHM: ALGORITHM}


def signature_of(headers: Mapping[str, str]) -> tuple[bytes, str] | None:
    """Return a request's signature and its algorithm; None if it has none. headers: their names in lower case. Raises
    ValueError if they cannot be used."""
    text, algorithm = headers.get(SIGNATURE.lower()), headers.get(SIGNATURE_ALGORITHM.lower())
    if text is None or algorithm is None:
        return None
    if algorithm not in HASHES:
        raise ValueError(algorithm)
    try:
        return base64.b64decode(text, validate=True), algorithm
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def is_valid(body: bytes, signature: bytes, algorithm: str, key: bytes) -> bool:
    """Return whether the signature of a body was made with the key."""
    return hmac.compare_digest(hmac.new(key, body, HASHES[algorithm]).digest(), signature)
