"""Makes an authority and the certificates that it signs, for `kcli serve --secure` and for tests.

Keys are of P-256: such a key signs a handshake in a tenth of the time that an RSA key takes, and every Kafka client
supports it. The certificate of a server is valid for a client as well, as nodes connect to each other. Source: RFC
5280.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kcli.errors import UsageError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate, ExtensionType, GeneralName, Name

EARLIER = dt.timedelta(hours=1)
"""A certificate is valid from this long before it was made, because the clocks of machines differ."""
YEARS_10 = dt.timedelta(days=3_652)


@dataclass(frozen=True, slots=True)
class Identity:
    """A private key and its certificate chain: the key's own certificate first, the authority's left out."""

    key: EllipticCurvePrivateKey
    chain: tuple[Certificate, ...]

    @property
    def key_pem(self) -> bytes:
        """The private key in PEM (PKCS #8), not encrypted."""
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    @property
    def chain_pem(self) -> bytes:
        """The certificates in PEM."""
        from cryptography.hazmat.primitives.serialization import Encoding

        return b"".join(each.public_bytes(Encoding.PEM) for each in self.chain)

    @property
    def pem(self) -> bytes:
        """Key and certificates in PEM: the content of a file for ssl.keystore.location with type PEM."""
        return self.key_pem + self.chain_pem


@dataclass(frozen=True, slots=True)
class Authority:
    """A key that signs certificates, and the key's own certificate (identity.chain[0]), which clients trust.

    valid: how long the certificates that it signs are valid.
    """

    identity: Identity
    valid: dt.timedelta

    @property
    def certificate_pem(self) -> bytes:
        """The certificate of the authority in PEM: the content of a file for ssl.truststore.location with type PEM."""
        return self.identity.chain_pem

    def server(self, hosts: Sequence[str], now: dt.datetime) -> Identity:
        """Return a certificate for host names and addresses ("localhost", "127.0.0.1"), the first one of which is its
        common name. now: the present time, with a time zone. Raises UsageError for a host that no certificate can
        have."""
        from cryptography.x509 import SubjectAlternativeName
        from cryptography.x509.oid import ExtendedKeyUsageOID

        if not hosts:
            raise UsageError("a certificate of a server needs a host")
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        names = SubjectAlternativeName(_host_name(each) for each in hosts)
        return self._signed(_common_name(hosts[0]), usages, now, names)

    def client(self, subject: str, now: dt.datetime) -> Identity:
        """Return a certificate for a client. subject: its distinguished name, as "CN=alice,O=Acme" (RFC 4514), whose
        text is the name of its principal. now: the present time, with a time zone. Raises UsageError for a text that is
        no such name."""
        from cryptography.x509 import Name
        from cryptography.x509.oid import ExtendedKeyUsageOID

        try:
            name = Name.from_rfc4514_string(subject)
        except (ValueError, TypeError) as error:
            raise UsageError(f"{subject!r} is no distinguished name: {error}") from None
        return self._signed(name, [ExtendedKeyUsageOID.CLIENT_AUTH], now)

    def _signed(self, subject: Name, usages: Iterable[object], now: dt.datetime, *more: ExtensionType) -> Identity:
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509 import AuthorityKeyIdentifier, BasicConstraints, ExtendedKeyUsage

        key = ec.generate_private_key(ec.SECP256R1())
        own, signer = self.identity.chain[0], self.identity.key
        extensions = [
            (BasicConstraints(ca=False, path_length=None), True),
            (_key_usage(signs_certificates=False), True),
            (ExtendedKeyUsage(usages), False),  # type: ignore[arg-type]
            (AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), False),
            *((each, False) for each in more),
        ]
        until = min(now + self.valid, own.not_valid_after_utc)
        return Identity(key, (_certificate(subject, own.subject, (key, signer), (now - EARLIER, until), extensions),))


def make_authority(name: str, now: dt.datetime, valid: dt.timedelta = YEARS_10) -> Authority:
    """Make an authority with a new key. name: its common name, up to 64 characters. now: the present time, with a time
    zone. valid: how long its own certificate and those that it signs are valid. Raises UsageError."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509 import BasicConstraints

    key = ec.generate_private_key(ec.SECP256R1())
    subject = _common_name(name)
    extensions = [(BasicConstraints(ca=True, path_length=0), True), (_key_usage(signs_certificates=True), True)]
    own = _certificate(subject, subject, (key, key), (now - EARLIER, now + valid), extensions)
    return Authority(Identity(key, (own,)), valid)


def read_authority(pem: bytes, valid: dt.timedelta = YEARS_10) -> Authority:
    """Return the certificate authority whose private key and certificate are in a PEM text (written by Identity.pem).
    valid: how long the certificates that the authority signs are valid. Raises UsageError."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from cryptography.x509 import load_pem_x509_certificate

    try:
        key, certificate = load_pem_private_key(pem, None), load_pem_x509_certificate(pem)
    except (ValueError, TypeError):
        raise UsageError("no authority: a private key and a certificate in PEM") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise UsageError("no authority that kcli has made: its key is no EC key, or not that of its certificate")
    return Authority(Identity(key, (certificate,)), valid)


def hosts_of(pem: bytes, now: dt.datetime) -> list[str]:
    """Return the host names and addresses of the first certificate in the PEM text. Return no names if the text has no
    certificate, or if the certificate has expired at `now` or has no subject alternative names, which only the
    certificate of a server has."""
    from cryptography.x509 import (
        DNSName,
        ExtensionNotFound,
        IPAddress,
        SubjectAlternativeName,
        load_pem_x509_certificate,
    )

    try:
        certificate = load_pem_x509_certificate(pem)
        names = certificate.extensions.get_extension_for_class(SubjectAlternativeName).value
    except (ValueError, ExtensionNotFound):
        return []
    if now >= certificate.not_valid_after_utc:
        return []
    addresses = names.get_values_for_type(IPAddress)
    return [*names.get_values_for_type(DNSName), *map(str, addresses)]


def write_secret(path: Path, data: bytes) -> None:
    """Write a new file that only its owner may read (0600), and sync it to disk. Raises OSError, also if the file
    exists."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(fd)


def _certificate(
    subject: Name,
    issuer: Name,
    keys: tuple[EllipticCurvePrivateKey, EllipticCurvePrivateKey],
    times: tuple[dt.datetime, dt.datetime],
    extensions: Iterable[tuple[ExtensionType, bool]],
) -> Certificate:
    """Return a certificate. keys: the certificate's own key and the key that signs it; times: the first and the last
    time at which it is valid; extensions: each with whether it is critical."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.x509 import CertificateBuilder, SubjectKeyIdentifier, random_serial_number

    own, signer = keys
    builder = CertificateBuilder(issuer, subject, own.public_key(), random_serial_number(), *times)
    builder = builder.add_extension(SubjectKeyIdentifier.from_public_key(own.public_key()), critical=False)
    for extension, is_critical in extensions:
        builder = builder.add_extension(extension, critical=is_critical)
    return builder.sign(signer, SHA256())


def _key_usage(*, signs_certificates: bool) -> ExtensionType:
    from cryptography.x509 import KeyUsage

    return KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _common_name(text: str) -> Name:
    from cryptography.x509 import Name, NameAttribute
    from cryptography.x509.oid import NameOID

    try:
        return Name([NameAttribute(NameOID.COMMON_NAME, text[:64])])
    except ValueError as error:
        raise UsageError(f"{text!r} is no common name: {error}") from None


def _host_name(host: str) -> GeneralName:
    from cryptography.x509 import DNSName, IPAddress

    try:
        return IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return DNSName(host.encode("idna").decode("ascii"))
    except ValueError as error:
        raise UsageError(f"{host!r} is no host name: {error}") from None
