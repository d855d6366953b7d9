"""Makes an `ssl.SSLContext` of the settings ssl.*: for a listener, or for the connections to other nodes.

A key reaches OpenSSL through a file that has no name (memfd_create) if the system has such files, otherwise through
one that only this user can read and that is removed at once. Renegotiation is switched off. A listener sends no TLS 1.3
tickets, for two reasons. Without tickets, the client must prove its certificate again in every connection. And if a
client sends data and closes at once, tickets that it has not read would make its system reset the connection, and data
on the way would be lost. Trusted certificates are trusted at any place in a chain, as in Java. Source:
DefaultSslEngineFactory, SslFactory.
"""

from __future__ import annotations

import datetime as dt
import os
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kcli.tls.cipher_suites import TLS_1_3, newer_suites, older_suites
from kcli.tls.failures import failure_text
from kcli.tls.key_stores import KeyEntry, key_entries, trusted_certificates
from kcli.tls.settings import InvalidTlsSetting, TlsSettings, read_listener_settings, read_settings

_VERIFY: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_KEY_STORE: Final = "ssl.keystore.location"


@dataclass(frozen=True, slots=True)
class TlsContext:
    """A context, and what was found when it was made.

    refused_suites: the suites of TLS 1.3 that ssl.cipher.suites leaves out; a connection that has agreed on one of them
    must be closed. entries: the private keys. warnings: one line for each certificate that has expired or is not valid
    yet.
    """

    context: ssl.SSLContext
    settings: TlsSettings
    refused_suites: frozenset[str]
    entries: tuple[KeyEntry, ...]
    warnings: tuple[str, ...]


def listener_context(settings: Mapping[str, str], now: dt.datetime) -> TlsContext:
    """Return the context of a listener. settings: those of server.properties, without the prefix of a listener; now:
    the present time, with a time zone. Raises InvalidTlsSetting, also if there is no key, or if clients are asked for
    certificates but none are trusted."""
    read = read_listener_settings(settings)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    refused, (entries, warnings) = _choose_suites(context, read), _equip(context, read, now)
    context.verify_mode = _VERIFY[read.client_auth]
    context.num_tickets = 0
    return TlsContext(context, read, refused, entries, warnings)


def client_context(settings: Mapping[str, str], now: dt.datetime) -> TlsContext:
    """Return the context of connections to other nodes, which shows a certificate if there is a key. Without a trust
    store the system's authorities are trusted. settings, now: as for `listener_context`. Raises InvalidTlsSetting."""
    read = read_settings(settings)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = read.checks_host
    refused, (entries, warnings) = _choose_suites(context, read), _equip(context, read, now)
    if not read.has_trust:
        context.load_default_certs()
    return TlsContext(context, read, refused, entries, warnings)


def check_among_nodes(settings: Mapping[str, str], now: dt.datetime) -> None:
    """Perform a handshake in memory between a listener and a client that have the same settings, as the nodes of a
    cluster have.

    Host names are not checked. settings, now: as for `listener_context`. Raises InvalidTlsSetting if the listener's
    certificate, or the client's, is not accepted: it has expired, or the trust store has no authority for it. Source:
    SslFactory, which does so for the listener between brokers.
    """
    without_host = {**settings, "ssl.endpoint.identification.algorithm": ""}
    listener, client = listener_context(settings, now), client_context(without_host, now)
    to_listener, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.context.wrap_bio(to_client, to_listener),
        listener.context.wrap_bio(to_listener, to_client, server_side=True),
    ]
    while sides:
        side = sides.pop(0)
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            sides.append(side)
        except ssl.SSLError as error:
            reason = f"a node with these settings cannot connect to another one: {failure_text(error)}"
            raise InvalidTlsSetting(
                _KEY_STORE if listener.settings.key_pem is None else "ssl.keystore.key", reason
            ) from None


def _equip(
    context: ssl.SSLContext, settings: TlsSettings, now: dt.datetime
) -> tuple[tuple[KeyEntry, ...], tuple[str, ...]]:
    """Load keys and trusted certificates into the context. Return the keys, and the warnings about certificates that
    are not valid now. Raises InvalidTlsSetting."""
    from cryptography.hazmat.primitives.serialization import Encoding

    context.options |= ssl.OP_NO_RENEGOTIATION
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    entries = key_entries(settings)
    _check_one_of_a_kind(entries)
    for entry in entries:
        _load(context, entry)
    trusted = trusted_certificates(settings)
    if trusted:
        context.load_verify_locations(cadata=b"".join(each.public_bytes(Encoding.DER) for each in trusted))
    shown = [("ssl.keystore", entry.chain[0]) for entry in entries] + [("ssl.truststore", each) for each in trusted]
    warnings = []
    for store, certificate in shown:
        subject = certificate.subject.rfc4514_string()
        if now > certificate.not_valid_after_utc:
            warnings.append(f"{store}: the certificate of {subject} expired at {certificate.not_valid_after_utc}")
        elif now < certificate.not_valid_before_utc:
            warnings.append(f"{store}: the certificate of {subject} is valid from {certificate.not_valid_before_utc}")
    return tuple(entries), tuple(warnings)


def _choose_suites(context: ssl.SSLContext, settings: TlsSettings) -> frozenset[str]:
    """Set the protocols and cipher suites of the context. If ssl.cipher.suites names suites of TLS 1.3, return the
    suites of TLS 1.3 that it does not name; otherwise return none. Raises InvalidTlsSetting."""
    lowest, highest = settings.protocols
    refused: frozenset[str] = frozenset()
    if settings.cipher_suites:
        older, newer = older_suites(settings.cipher_suites), newer_suites(settings.cipher_suites)
        if newer:
            refused = frozenset(TLS_1_3) - newer
        else:
            highest = min(highest, ssl.TLSVersion.TLSv1_2)
        if older is None:
            lowest = max(lowest, ssl.TLSVersion.TLSv1_3)
        else:
            _set_older(context, settings.cipher_suites, older)
        if lowest > highest:
            raise InvalidTlsSetting("ssl.cipher.suites", "none of the suites is of a protocol in ssl.enabled.protocols")
    context.minimum_version, context.maximum_version = lowest, highest
    return refused


def _set_older(context: ssl.SSLContext, suites: tuple[str, ...], names: str) -> None:
    for suite in suites:
        if (name := older_suites((suite,))) is not None:
            try:
                context.set_ciphers(name)
            except ssl.SSLError:
                raise InvalidTlsSetting("ssl.cipher.suites", f"this OpenSSL has no {suite}") from None
    context.set_ciphers(names)


def _check_one_of_a_kind(entries: list[KeyEntry]) -> None:
    """Raise InvalidTlsSetting if two keys are of one kind (such as RSA): which of them Java uses depends on its hash
    tables."""
    kinds: dict[str, str] = {}
    for entry in entries:
        kind = type(entry.key).__name__.removesuffix("PrivateKey")
        if kind in kinds:
            reason = f"{kinds[kind]!r} and {entry.alias!r} are both keys of kind {kind}: keep one of them in the store"
            raise InvalidTlsSetting(_KEY_STORE, reason)
        kinds[kind] = entry.alias


def _load(context: ssl.SSLContext, entry: KeyEntry) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = entry.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain = b"".join(each.public_bytes(Encoding.PEM) for each in entry.chain)
    try:
        with as_file(key + chain) as path:
            context.load_cert_chain(path)
    except ssl.SSLError as error:
        reason = (error.reason or str(error)).replace("_", " ").lower()
        raise InvalidTlsSetting(_KEY_STORE, f"OpenSSL does not take the certificate: {reason}") from None


@contextmanager
def as_file(data: bytes) -> Iterator[Path]:
    """Yield the path of a file with the data, which no other user can open. The file is removed at the end of the
    block."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("key", os.MFD_CLOEXEC)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            yield Path(f"/proc/self/fd/{fd}")
        return
    with tempfile.NamedTemporaryFile() as named:
        named.write(data)
        named.flush()
        yield Path(named.name)
