"""Java's own key store (JKS): private keys with their certificates, and trusted certificates.

    header   12 bytes, big endian
      magic    uint32   0xFEEDFEED
      version  uint32   1 or 2
      entries  uint32   number of entries
    entry
      kind     uint32   1: a private key, 2: a trusted certificate
      alias    text     uint16 length, modified UTF-8
      date     int64    ms since 1970
      key      bytes    of a private key: uint32 length, and an EncryptedPrivateKeyInfo (DER), see `_unlocked`
      chain    uint32   of a private key: number of certificates, the key's own one first
      certificate       its type (text, "X.509"; since version 2), uint32 length, DER
    digest   20 bytes   SHA-1 of the store's password (UTF-16BE), "Mighty Aphrodite" and all bytes above

Source: sun.security.provider.JavaKeyStore and KeyProtector.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import Final

from formats.der import OBJECT_IDENTIFIER, OCTET_STRING, SEQUENCE, object_identifier, only, parts
from formats.errors import BadChecksum, BadMagic, BadValue, Truncated, UnknownType, UnknownVersion

MAGIC: Final = b"\xfe\xed\xfe\xed"
_VERSIONS: Final = (1, 2)
_PRIVATE_KEY, _TRUSTED = 1, 2
_DIGEST_BYTES: Final = 20
_WHITENER: Final = b"Mighty Aphrodite"
_KEY_PROTECTOR: Final = "1.3.6.1.4.1.42.2.17.1.1"
_X509: Final = "X.509"


class WrongPassword(BadChecksum):
    """The digest computed with the password differs from the stored one: the password is wrong, or the bytes are
    damaged."""


@dataclass(frozen=True, slots=True)
class LockedKey:
    """A private key. locked: the key as an EncryptedPrivateKeyInfo (DER); chain: the key's certificates (DER), the one
    for the key itself first."""

    alias: str
    locked: bytes
    chain: tuple[bytes, ...]

    def unlock(self, password: str) -> bytes:
        """Return the private key, a PrivateKeyInfo (DER, PKCS #8). Raises WrongPassword, FormatError."""
        algorithm, encrypted = parts(only(self.locked, SEQUENCE), SEQUENCE, OCTET_STRING)[:2]
        name = object_identifier(parts(algorithm, OBJECT_IDENTIFIER)[0].content)
        if name != _KEY_PROTECTOR:
            raise BadValue(f"a private key locked by algorithm {name}")
        return _unlocked(encrypted.content, password)


@dataclass(frozen=True, slots=True)
class JavaKeyStore:
    """The entries of a key store, in the order of the file. keys: the private keys, each locked by a password. trusted:
    the alias and certificate (DER) of each trusted certificate."""

    keys: tuple[LockedKey, ...]
    trusted: tuple[tuple[str, bytes], ...]


def read_java_key_store(data: bytes, password: str | None) -> JavaKeyStore:
    """Return the keys and certificates of a key store. password: that of the store; None: the store's digest is not
    checked. Private keys stay encrypted. Raises WrongPassword, FormatError."""
    reader = _Reader(data)
    if reader.take(4) != MAGIC:
        raise BadMagic("no Java key store", 0)
    version = reader.number(4)
    if version not in _VERSIONS:
        raise UnknownVersion(f"a Java key store of version {version}", 4)
    keys: list[LockedKey] = []
    trusted: list[tuple[str, bytes]] = []
    for _ in range(reader.number(4)):
        at = reader.at
        kind, alias, _ = reader.number(4), reader.text(), reader.take(8)
        if kind == _PRIVATE_KEY:
            locked = reader.take(reader.number(4))
            keys.append(LockedKey(alias, locked, tuple(reader.certificate(version) for _ in range(reader.number(4)))))
        elif kind == _TRUSTED:
            trusted.append((alias, reader.certificate(version)))
        else:
            raise UnknownType(f"an entry of kind {kind}", at)
    body = data[: reader.at]
    digest = reader.take(_DIGEST_BYTES)
    if password is not None:
        expected = hashlib.sha1(password.encode("utf-16-be", "surrogatepass") + _WHITENER + body).digest()  # noqa: S324
        if not hmac.compare_digest(digest, expected):
            raise WrongPassword("the password is wrong, or the file is damaged")
    return JavaKeyStore(tuple(keys), tuple(trusted))


def _unlocked(locked: bytes, password: str) -> bytes:
    """Return a private key, decrypted. Raises Truncated, WrongPassword.

    locked: 20 bytes of salt, then the key xor a stream, then the SHA-1 of the password (UTF-16BE) and the key. The
    stream is made in blocks of 20 bytes: the first is the SHA-1 of the password and the salt, each later one that of
    the password and the block before it.
    """
    if len(locked) < 2 * _DIGEST_BYTES:
        raise Truncated("a private key without salt and check")
    secret = password.encode("utf-16-be", "surrogatepass")
    block, encrypted, check = locked[:_DIGEST_BYTES], locked[_DIGEST_BYTES:-_DIGEST_BYTES], locked[-_DIGEST_BYTES:]
    stream = bytearray()
    while len(stream) < len(encrypted):
        block = hashlib.sha1(secret + block).digest()  # noqa: S324
        stream += block
    size = len(encrypted)
    key = (int.from_bytes(encrypted) ^ int.from_bytes(stream[:size])).to_bytes(size)
    if not hmac.compare_digest(check, hashlib.sha1(secret + key).digest()):  # noqa: S324
        raise WrongPassword("the password of the key is wrong, or the file is damaged")
    return key


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        begin, self.at = self.at, self.at + count
        if self.at > len(self.data):
            raise Truncated(f"{count:,} bytes, of which {max(0, len(self.data) - begin):,} are there", begin)
        return self.data[begin : self.at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size))

    def text(self) -> str:
        return self.take(self.number(2)).decode("utf-8", "replace")

    def certificate(self, version: int) -> bytes:
        begin = self.at
        if version > 1 and (kind := self.text()) != _X509:
            raise UnknownType(f"a certificate of type {kind!r}", begin)
        return self.take(self.number(4))
