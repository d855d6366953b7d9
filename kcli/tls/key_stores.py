"""Private keys with their certificates, and trusted certificates, from stores of type PEM, PKCS12 and JKS.

    PEM      one private key (PKCS #8, encrypted with ssl.key.password if that is set) and its certificates, the
             key's own first; or the trusted certificates
    PKCS12   a private key, encrypted with ssl.keystore.password, and its certificates; or the trusted certificates
    JKS      private keys, encrypted with ssl.key.password or, if that is not set, with ssl.keystore.password, and their
             certificates; or the trusted certificates

A file of type PKCS12 may be a JKS file, and the other way round, as in Java. As in Java a key that is in a JKS trust
store makes its own certificate trusted, but not those that signed it. In a PKCS12 trust store with a key, kcli cannot
tell the key's certificates from the others, and refuses the store. Source: DefaultSslEngineFactory (PemStore,
FileBasedStore); Java's KeyStore.
"""

from __future__ import annotations

import base64
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from formats.der import INTEGER, SEQUENCE, InvalidDer, only, parts
from formats.errors import FormatError
from formats.java_key_store import MAGIC, WrongPassword, read_java_key_store
from kcli.errors import error_text
from kcli.tls.settings import InvalidTlsSetting, Store, TlsSettings

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
    from cryptography.x509 import Certificate

_FILE_BYTES_MAX: Final = 16 << 20
_ENTRY: Final = (
    r"-+BEGIN[^\n-]*\b{kind}[^-]*-+\s+(?:[^\r\n]*:[^\r\n]*[\r\n]+)*([a-zA-Z0-9/+=\s]*)-+END[^\n-]*\b{kind}[^-]*-+"
)
_CERTIFICATES: Final = re.compile(_ENTRY.format(kind="CERTIFICATE"))
_PRIVATE_KEYS: Final = re.compile(_ENTRY.format(kind=r"PRIVATE\s+KEY"))


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """A private key and its certificate chain, the key's own certificate first. alias: the key's name in the store, for
    messages."""

    alias: str
    key: PrivateKeyTypes
    chain: tuple[Certificate, ...]


class _Unusable(Exception):
    """A store cannot be used; the text is the reason. setting: the name of the setting at fault; None for the setting
    that names the store."""

    def __init__(self, reason: str, setting: str | None = None) -> None:
        super().__init__(reason)
        self.setting = setting


def key_entries(settings: TlsSettings) -> list[KeyEntry]:
    """Return the private keys, each with a certificate that belongs to it; none if no store is configured.

    Raises InvalidTlsSetting.
    """
    store = settings.keys
    if not settings.has_keys:
        return []
    try:
        return _key_entries(settings)
    except _Unusable as error:
        raise _invalid(error, store, "ssl.keystore.key" if store.path is None else "ssl.keystore.location") from None


def trusted_certificates(settings: TlsSettings) -> list[Certificate]:
    """Return the trusted certificates; none if no store is configured. Raises InvalidTlsSetting."""
    store = settings.trust
    if not settings.has_trust:
        return []
    try:
        return _trusted_certificates(settings)
    except _Unusable as error:
        named = "ssl.truststore.certificates" if store.path is None else "ssl.truststore.location"
        raise _invalid(error, store, named) from None


def _key_entries(settings: TlsSettings) -> list[KeyEntry]:
    store, password = settings.keys, settings.key_password
    if store.path is None:
        found = [_pem_entry(settings.key_pem or "", settings.chain_pem or "", password)]
    elif store.kind == "PEM":
        text = _read(store.path).decode("utf-8", "replace")
        found = [_pem_entry(text, text, password)]
    else:
        found = _file_entries(store, _read(store.path), password)
    if not found:
        raise _Unusable("no private key is in it")
    for entry in found:
        _check_match(entry)
    return found


def _trusted_certificates(settings: TlsSettings) -> list[Certificate]:
    store = settings.trust
    if store.path is None:
        return _pem_certificates(settings.trusted_pem or "")
    if store.kind == "PEM":
        return _pem_certificates(_read(store.path).decode("utf-8", "replace"))
    found = _file_certificates(store, _read(store.path))
    if not found:
        raise _Unusable("no trusted certificate is in it")
    return found


def _invalid(error: _Unusable, store: Store, named: str) -> InvalidTlsSetting:
    where = "" if store.path is None else f"{store.path}: "
    return InvalidTlsSetting(error.setting or named, f"{where}{error}")


def _read(path: Path) -> bytes:
    try:
        if not stat.S_ISREG(mode := path.stat().st_mode) and not stat.S_ISDIR(mode):
            raise _Unusable("is no regular file")  # a pipe may never end, and can be read only once
        with path.open("rb") as file:
            data = file.read(_FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error_text(error)
        raise _Unusable(reason) from None
    if len(data) > _FILE_BYTES_MAX:
        raise _Unusable(f"larger than {_FILE_BYTES_MAX:,} bytes")
    return data


# PEM


def _pem_entry(key_text: str, chain_text: str, password: str | None) -> KeyEntry:
    keys = [_decoded(each) for each in _PRIVATE_KEYS.findall(key_text)]
    if len(keys) != 1:
        raise _Unusable(
            f"one private key in PEM is expected, {len(keys)} are there" if keys else "no private key in PEM"
        )
    chain = _pem_certificates(chain_text, "ssl.keystore.certificate.chain" if key_text is not chain_text else None)
    return KeyEntry("kafka", _pem_key(keys[0], password), tuple(chain))


def _pem_key(der: bytes, password: str | None) -> PrivateKeyTypes:
    try:
        fields = parts(only(der, SEQUENCE))
        is_encrypted = [each.tag for each in fields[:1]] == [SEQUENCE]
        is_pkcs8 = is_encrypted or [each.tag for each in fields[:2]] == [INTEGER, SEQUENCE]
    except InvalidDer as error:
        raise _Unusable(f"a private key that is damaged: {error}") from None
    if not is_pkcs8:
        raise _Unusable("a private key that is not PKCS #8; convert it with: openssl pkcs8 -topk8")
    if is_encrypted and password is None:
        raise _Unusable("the private key is encrypted, and no password is there", "ssl.key.password")
    if password is not None and not is_encrypted:
        raise _Unusable("a password is there, but the private key is not encrypted", "ssl.key.password")
    return _loaded_key(der, password)


def _pem_certificates(text: str, setting: str | None = None) -> list[Certificate]:
    found = [_loaded_certificate(_decoded(each)) for each in _CERTIFICATES.findall(text)]
    if not found:
        raise _Unusable("no certificate in PEM", setting)
    return found


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except ValueError:
        raise _Unusable("PEM whose base64 is damaged") from None


# files of type JKS and PKCS12


def _file_entries(store: Store, data: bytes, key_password: str | None) -> list[KeyEntry]:
    password = store.password or ""
    if not data.startswith(MAGIC):
        key, chain, _ = _pkcs12(store, data)
        if key_password is not None and key_password != store.password:
            reason = "differs from ssl.keystore.password, which kcli cannot have with a PKCS12 file"
            raise _Unusable(reason, "ssl.key.password")
        return [] if key is None else [KeyEntry("the key", key, chain)]
    try:
        locked = read_java_key_store(data, password).keys
    except WrongPassword as error:
        raise _Unusable(error.reason, "ssl.keystore.password") from None
    except FormatError as error:
        raise _Unusable(f"damaged: {error}") from None
    found = []
    for each in locked:
        try:
            unlocked = each.unlock(password if key_password is None else key_password)
        except WrongPassword as error:
            raise _Unusable(f"key {each.alias!r}: {error.reason}", "ssl.key.password") from None
        except FormatError as error:
            raise _Unusable(f"key {each.alias!r}: damaged: {error}") from None
        chain = tuple(_loaded_certificate(certificate) for certificate in each.chain)
        found.append(KeyEntry(each.alias, _loaded_key(unlocked, None), chain))
    return found


def _file_certificates(store: Store, data: bytes) -> list[Certificate]:
    if not data.startswith(MAGIC):
        key, _, others = _pkcs12(store, data)
        if key is not None:
            reason = "has a private key, too; trusted certificates must be in a store of their own: keytool -importcert"
            raise _Unusable(reason)
        return list(others)
    try:
        found = read_java_key_store(data, store.password)
    except WrongPassword as error:
        raise _Unusable(error.reason, "ssl.truststore.password") from None
    except FormatError as error:
        raise _Unusable(f"damaged: {error}") from None
    own = [each.chain[0] for each in found.keys if each.chain]
    return [_loaded_certificate(each) for each in [*(each for _, each in found.trusted), *own]]


def _pkcs12(
    store: Store, data: bytes
) -> tuple[PrivateKeyTypes | None, tuple[Certificate, ...], tuple[Certificate, ...]]:
    """Return the key of a PKCS #12 store (None if it has none), the key's certificates, its own first, and the other
    certificates."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    password = None if store.password is None else store.password.encode()
    setting = f"{store.prefix}.password"
    try:
        only(data, SEQUENCE)
    except InvalidDer:
        if b"-----BEGIN " in data:
            raise _Unusable(f"is PEM, and not {store.kind}", f"{store.prefix}.type") from None
        raise _Unusable("neither a PKCS #12 file nor a Java key store") from None
    try:
        found = load_pkcs12(data, password)
    except (ValueError, TypeError):
        if password is None:
            raise _Unusable("is encrypted, and no password is there", setting) from None
        raise _Unusable("the password is wrong, or the file is damaged", setting) from None
    except UnsupportedAlgorithm as error:
        raise _Unusable(f"encrypted in a way that is not supported: {error}") from None
    others = [each.certificate for each in found.additional_certs]
    if found.cert is None:
        if found.key is not None:
            raise _Unusable("a private key without a certificate")
        return None, (), tuple(others)
    if found.key is None:
        return None, (), (found.cert.certificate, *others)
    chain = [found.cert.certificate]
    while len(chain) <= len(others):
        signer = next((each for each in others if each.subject == chain[-1].issuer and each not in chain), None)
        if signer is None:
            break
        chain.append(signer)
    return found.key, tuple(chain), tuple(each for each in others if each not in chain)


# keys and certificates


def _loaded_key(der: bytes, password: str | None) -> PrivateKeyTypes:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_der_private_key

    try:
        return load_der_private_key(der, None if password is None else password.encode())
    except UnsupportedAlgorithm as error:
        raise _Unusable(f"a private key of a kind that is not supported: {error}") from None
    except (ValueError, TypeError):
        if password is None:
            raise _Unusable("a private key that is damaged") from None
        raise _Unusable("the password of the private key is wrong, or the key is damaged", "ssl.key.password") from None


def _loaded_certificate(der: bytes) -> Certificate:
    from cryptography.x509 import load_der_x509_certificate

    try:
        return load_der_x509_certificate(der)
    except ValueError as error:
        raise _Unusable(f"a certificate that is damaged: {str(error).splitlines()[0]}") from None


def _check_match(entry: KeyEntry) -> None:
    from cryptography.exceptions import UnsupportedAlgorithm

    if not entry.chain:
        raise _Unusable("a private key without a certificate")
    try:
        is_own = entry.chain[0].public_key() == entry.key.public_key()
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _Unusable(f"a certificate whose key is not supported: {error}") from None
    if not is_own:
        subject = entry.chain[0].subject.rfc4514_string()
        raise _Unusable(f"the private key and the certificate of {subject} do not belong together")
