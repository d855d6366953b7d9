"""The settings ssl.* of a listener, or of the connections to other nodes, as Kafka names them.

A setting that kcli cannot apply as Kafka does keeps kcli from starting, with one line that names the setting: kcli
accepts no provider, key manager, trust manager, random number generator or engine but Java's default one. TLSv1 and
TLSv1.1 may be named, but no connection uses them, as in Kafka on a Java whose jdk.tls.disabledAlgorithms has them.
Source: SslConfigs, BrokerSecurityConfigs, DefaultSslEngineFactory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from ssl import TLSVersion
from typing import Final

from kcli.errors import KcliError

_PROTOCOLS: Final = {"TLSv1.2": TLSVersion.TLSv1_2, "TLSv1.3": TLSVersion.TLSv1_3}
_DISABLED_PROTOCOLS: Final = frozenset({"TLSv1", "TLSv1.1", "SSLv3", "SSLv2Hello"})
_CONTEXT_PROTOCOLS: Final = frozenset({"TLS", "TLSv1.3", "TLSv1.2", "TLSv1.1", "TLSv1", "SSL"})
_ONLY: Final[Mapping[str, frozenset[str]]] = {
    "ssl.provider": frozenset(),
    "ssl.secure.random.implementation": frozenset(),
    "ssl.engine.factory.class": frozenset(),
    "ssl.keymanager.algorithm": frozenset({"SunX509"}),
    "ssl.trustmanager.algorithm": frozenset({"PKIX", "SunPKIX", "X509", "X.509"}),
}
"""Settings that choose a part of Java's TLS -> the values that kcli accepts, because they name what kcli does in any
case."""
CLIENT_AUTH: Final = frozenset({"required", "requested", "none"})


class InvalidTlsSetting(KcliError):
    """A setting is invalid, is not supported by kcli, or names a file that cannot be used. setting: its name."""

    exit_status = 2

    def __init__(self, setting: str, reason: str) -> None:
        super().__init__(f"{setting}: {reason}")
        self.setting = setting
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Store:
    """A file of keys or of trusted certificates. prefix: "ssl.keystore" or "ssl.truststore"; kind: "JKS", "PKCS12" or
    "PEM"; path: None if no file is configured, or the PEM text is in the settings themselves; password: None if none is
    configured."""

    prefix: str
    kind: str
    path: Path | None
    password: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """The settings ssl.*, checked one by one and against each other; no file is read yet. `repr` has no secret.

    key_password: ssl.key.password. key_pem, chain_pem, trusted_pem: the PEM texts in the settings. Each of these four
    is None if it is not configured. protocols: the lowest and the highest version. cipher_suites: Java's names, empty
    for the default suites. checks_host: whether the certificate of a node that kcli connects to must be for the node's
    host name.
    """

    keys: Store
    key_password: str | None = field(repr=False)
    key_pem: str | None = field(repr=False)
    chain_pem: str | None
    trust: Store
    trusted_pem: str | None
    client_auth: str
    protocols: tuple[TLSVersion, TLSVersion]
    cipher_suites: tuple[str, ...]
    checks_host: bool

    @property
    def has_keys(self) -> bool:
        """Whether a key store is configured."""
        return self.keys.path is not None or self.key_pem is not None

    @property
    def has_trust(self) -> bool:
        """Whether a trust store is configured."""
        return self.trust.path is not None or self.trusted_pem is not None

    @property
    def files(self) -> tuple[Path, ...]:
        """The files from which the SSLContext is made: when one of them changes, a new context must be made."""
        return tuple(store.path for store in (self.keys, self.trust) if store.path is not None)


def read_settings(settings: Mapping[str, str]) -> TlsSettings:
    """Check the settings. settings: as in server.properties, without the prefix of a listener; settings other than
    ssl.* are ignored. Raises InvalidTlsSetting."""
    for name, values in _ONLY.items():
        if (value := settings.get(name) or None) is not None and value not in values:
            instead = f"only {', '.join(sorted(values))}" if values else "remove the setting"
            raise InvalidTlsSetting(name, f"{value} is not there in kcli, which uses OpenSSL: {instead}")
    protocol = settings.get("ssl.protocol", "TLSv1.3")
    if protocol not in _CONTEXT_PROTOCOLS:
        raise InvalidTlsSetting("ssl.protocol", f"no protocol {protocol!r}: TLSv1.3 or TLSv1.2")
    identification = settings.get("ssl.endpoint.identification.algorithm", "https")
    if identification.lower() not in ("https", ""):
        reason = f"no algorithm {identification!r}: https, or nothing for no check of host names"
        raise InvalidTlsSetting("ssl.endpoint.identification.algorithm", reason)
    client_auth = settings.get("ssl.client.auth", "none").lower()
    if client_auth not in CLIENT_AUTH:
        raise InvalidTlsSetting("ssl.client.auth", f"{client_auth!r} is none of required, requested, none")
    return TlsSettings(
        keys=_key_store(settings),
        key_password=settings.get("ssl.key.password"),
        key_pem=settings.get("ssl.keystore.key"),
        chain_pem=settings.get("ssl.keystore.certificate.chain"),
        trust=_trust_store(settings),
        trusted_pem=settings.get("ssl.truststore.certificates"),
        client_auth=client_auth,
        protocols=_protocols(_names(settings.get("ssl.enabled.protocols", ""))),
        cipher_suites=_names(settings.get("ssl.cipher.suites", "")),
        checks_host=bool(identification),
    )


def read_listener_settings(settings: Mapping[str, str]) -> TlsSettings:
    """Check the settings of a listener, which must have a key, and trusted certificates if it asks clients for theirs.

    settings: as for `read_settings`. Raises InvalidTlsSetting.
    """
    read = read_settings(settings)
    if not read.has_keys:
        raise InvalidTlsSetting("ssl.keystore.location", "a listener of SSL needs a key: this, or ssl.keystore.key")
    if read.client_auth != "none" and not read.has_trust:
        raise InvalidTlsSetting("ssl.truststore.location", f"must be there where ssl.client.auth is {read.client_auth}")
    return read


def _names(value: str) -> tuple[str, ...]:
    return tuple(name for each in value.split(",") if (name := each.strip()))


def _protocols(names: tuple[str, ...]) -> tuple[TLSVersion, TLSVersion]:
    for name in names:
        if name not in _PROTOCOLS and name not in _DISABLED_PROTOCOLS:
            raise InvalidTlsSetting("ssl.enabled.protocols", f"no protocol {name!r}: TLSv1.3, TLSv1.2")
    versions = [_PROTOCOLS[name] for name in names or _PROTOCOLS if name in _PROTOCOLS]
    if not versions:
        raise InvalidTlsSetting("ssl.enabled.protocols", f"neither TLSv1.3 nor TLSv1.2 is in {', '.join(names)}")
    return min(versions), max(versions)


def _key_store(settings: Mapping[str, str]) -> Store:
    store = _store(settings, "ssl.keystore")
    has_key, has_chain = ("ssl.keystore.key" in settings), ("ssl.keystore.certificate.chain" in settings)
    if has_key and not has_chain:
        raise InvalidTlsSetting("ssl.keystore.certificate.chain", "must be there where ssl.keystore.key is")
    if has_chain and not has_key:
        raise InvalidTlsSetting("ssl.keystore.key", "must be there where ssl.keystore.certificate.chain is")
    if has_key:
        _check_inline(store, "ssl.keystore.key")
    elif store.path is not None and store.kind != "PEM" and store.password is None:
        raise InvalidTlsSetting("ssl.keystore.password", "must be there where ssl.keystore.location is")
    return store


def _trust_store(settings: Mapping[str, str]) -> Store:
    store = _store(settings, "ssl.truststore")
    if "ssl.truststore.certificates" in settings:
        _check_inline(store, "ssl.truststore.certificates")
    return store


def _store(settings: Mapping[str, str], prefix: str) -> Store:
    kind = settings.get(f"{prefix}.type", "JKS")
    location, password = settings.get(f"{prefix}.location"), settings.get(f"{prefix}.password")
    if kind != "PEM" and kind.upper() not in ("JKS", "PKCS12"):
        raise InvalidTlsSetting(f"{prefix}.type", f"{kind} is not there in kcli: JKS, PKCS12 or PEM")
    if kind == "PEM" and password is not None:
        at_all = "; the password of a key is ssl.key.password" if prefix == "ssl.keystore" else ""
        raise InvalidTlsSetting(f"{prefix}.password", f"a store of type PEM has no password{at_all}")
    if location is None and password is not None:
        raise InvalidTlsSetting(f"{prefix}.location", f"must be there where {prefix}.password is")
    return Store(prefix, kind.upper(), None if location is None else Path(location), password)


def _check_inline(store: Store, setting: str) -> None:
    if store.kind != "PEM":
        raise InvalidTlsSetting(f"{store.prefix}.type", f"must be PEM where {setting} is, not {store.kind}")
    if store.path is not None:
        raise InvalidTlsSetting(f"{store.prefix}.location", f"may not be there where {setting} is")
