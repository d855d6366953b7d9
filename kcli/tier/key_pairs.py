"""The RSA key pairs that wrap the data keys of encrypted segments, and the keys that they unwrap.

    data key   RSA-OAEP with SHA3-512, MGF1 with SHA3-512, no label (RFC 8017, 7.1)
    chunk      nonce (12 bytes) | AES-256-GCM ciphertext | tag, with the segment's additional data

The plugin has this OAEP from Bouncy Castle. `cryptography` has neither OAEP with SHA3 nor RSA without padding: it reads
the private key and decrypts the chunks, and this module decrypts the data key. Against timing attacks, RSA is computed
of a blinded number, and every wrong padding gives the same error.

A key pair is given as ID=PRIVATE.pem. No message shows a key.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from formats.errors import BadLength, BadValue
from formats.segment_manifest import NONCE_BYTES, SEAL_BYTES, Encryption
from kcli.errors import UnreadableInput, UsageError
from kcli.log.source import read_whole
from kcli.tier.store import StoreFailed

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateNumbers

VARIABLE: Final = "KCLI_TIER_KEY_PAIRS"
"""The environment variable with key pairs, separated by commas."""
OPTION: Final = "--key-pair"
KEY_BYTES: Final = 32
PEM_BYTES_MAX: Final = 64 << 10
RSA_BITS_MAX: Final = 16_384
_HASH_BYTES = 64


class KeyPairs:
    """Private keys by the id of their key pair. paths: the PEM files (PKCS #8, without a password); each is read when a
    segment needs it. options: the command-line options that gave the key pairs; empty if the environment gave them."""

    def __init__(self, paths: Mapping[str, Path] | None = None, options: Sequence[str] = ()) -> None:
        self._paths = {} if paths is None else dict(paths)
        self.options = options
        self._read: dict[str, RSAPrivateNumbers] = {}

    @classmethod
    def given(cls, texts: Iterable[str] | None) -> KeyPairs:
        """Return the key pairs that the command line gives as `texts` (ID=PATH); without any, those that the
        environment variable VARIABLE gives. Raises UsageError."""
        if texts:
            given = list(texts)
            return cls(_paths(given, OPTION), [part for each in given for part in (OPTION, each)])
        found = os.environ.get(VARIABLE, "")
        return cls(_paths((each for each in found.split(",") if each), VARIABLE))

    def __contains__(self, key_pair: str) -> bool:
        return key_pair in self._paths

    def unwrap(self, encryption: Encryption) -> bytes:
        """Return the data key of a segment, whose key pair must be among these.

        Raises StoreFailed if the private key cannot be read, BadValue or BadLength if it does not decrypt the data key.
        """
        whose = encryption.key_pair
        if whose not in self._read:
            self._read[whose] = _private_numbers(self._paths[whose])
        return unwrap(self._read[whose], encryption.wrapped_key)


def _paths(texts: Iterable[str], where: str) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for text in texts:
        key_pair, equals, path = text.partition("=")
        if not equals or not key_pair.strip() or not path:
            raise UsageError(f"{where}: a key pair is ID=PRIVATE.pem")
        if found.setdefault(key_pair, Path(path)) != Path(path):
            raise UsageError(f"{where}: key pair {key_pair!r} has two files")
    return found


def _private_numbers(path: Path) -> RSAPrivateNumbers:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        data = read_whole(path, limit_bytes=PEM_BYTES_MAX)
    except UnreadableInput as error:
        raise StoreFailed(error.path, error.reason, error.errno) from None
    try:
        key = load_pem_private_key(data, None)
    except TypeError:
        raise StoreFailed(str(path), "the private key has a password; the plugin takes none either") from None
    except (ValueError, UnsupportedAlgorithm):  # their texts may quote the key
        raise StoreFailed(str(path), "no private key in PEM") from None
    if not isinstance(key, RSAPrivateKey):
        raise StoreFailed(str(path), "no RSA key")
    if key.key_size > RSA_BITS_MAX:
        raise StoreFailed(str(path), f"an RSA key of {key.key_size:,} bits")
    return key.private_numbers()


def unwrap(numbers: RSAPrivateNumbers, wrapped: bytes) -> bytes:
    """Return the data key that `wrapped` holds, encrypted by the public key. Raises BadLength, BadValue."""
    size = (numbers.public_numbers.n.bit_length() + 7) // 8
    if len(wrapped) != size or size < 2 * _HASH_BYTES + 2:
        raise BadLength(f"a data key of {len(wrapped):,} bytes, wrapped with an RSA key of {size:,}")
    key = _unpadded(_power(numbers, int.from_bytes(wrapped)).to_bytes(size))
    if key is None:
        raise BadValue("the data key is not wrapped with this key pair, or is damaged")
    if len(key) != KEY_BYTES:
        raise BadLength(f"a data key of {len(key):,} bytes in place of {KEY_BYTES}")
    return key


def _power(numbers: RSAPrivateNumbers, cipher: int) -> int:
    """Return a number raised to the RSA private exponent modulo n; blinded against timing attacks."""
    n, e = numbers.public_numbers.n, numbers.public_numbers.e
    factor = secrets.randbelow(n - 2) + 2
    blinded = cipher % n * pow(factor, e, n) % n
    first, second = pow(blinded, numbers.dmp1, numbers.p), pow(blinded, numbers.dmq1, numbers.q)
    power = second + numbers.iqmp * (first - second) % numbers.p * numbers.q
    return power * pow(factor, -1, n) % n


def _unpadded(padded: bytes) -> bytes | None:
    """Return the message without its OAEP padding; None if the padding is wrong."""
    masked_seed, masked = padded[1 : 1 + _HASH_BYTES], padded[1 + _HASH_BYTES :]
    seed = _xor(masked_seed, _mask(masked, _HASH_BYTES))
    block = _xor(masked, _mask(seed, len(masked)))
    label, rest = block[:_HASH_BYTES], block[_HASH_BYTES:]
    zeros, one, key = rest.partition(b"\x01")
    is_sound = secrets.compare_digest(label, hashlib.sha3_512().digest()) & (padded[0] == 0) & (one != b"")
    return key if is_sound and not any(zeros) else None


def _mask(seed: bytes, length: int) -> bytes:
    """MGF1 (RFC 8017, B.2.1)."""
    blocks = (hashlib.sha3_512(seed + counter.to_bytes(4)).digest() for counter in range(-(-length // _HASH_BYTES)))
    return b"".join(blocks)[:length]


def _xor(one: bytes, other: bytes) -> bytes:
    return (int.from_bytes(one) ^ int.from_bytes(other)).to_bytes(len(one))


class Seal:
    """The encryption of one segment's chunks and indexes. key: the data key."""

    def __init__(self, key: bytes, aad: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._cipher = AESGCM(key)
        self._aad = aad

    def opened(self, chunk: bytes | memoryview) -> bytes:
        """Return the decrypted bytes of an encrypted chunk. Raises BadLength, BadValue."""
        from cryptography.exceptions import InvalidTag

        if len(chunk) < SEAL_BYTES:
            raise BadLength(f"{len(chunk)} bytes are too few for an encrypted chunk")
        view = memoryview(chunk)
        try:
            return self._cipher.decrypt(view[:NONCE_BYTES], view[NONCE_BYTES:], self._aad)
        except InvalidTag:
            raise BadValue(
                "the AES-GCM tag is not that of these bytes: they are damaged, or have another key"
            ) from None
