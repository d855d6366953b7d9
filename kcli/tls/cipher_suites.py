"""ssl.cipher.suites: translates Java's names of cipher suites, which are IANA's, to OpenSSL's.

    TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256     ECDHE-RSA-AES128-GCM-SHA256
    TLS_RSA_WITH_AES_256_CBC_SHA256           AES256-SHA256
    TLS_AES_128_GCM_SHA256                    the same: a suite of TLS 1.3, which has no key exchange in its name

Suites without encryption or without a certificate, suites with ciphers that Java has disabled, and suites that OpenSSL
does not have are refused. Source: RFC 5246, 5289, 7905, 8446; `openssl ciphers -stdname`.
"""

from __future__ import annotations

import re
from typing import Final

from kcli.tls.settings import InvalidTlsSetting

TLS_1_3: Final = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
"""The suites of TLS 1.3 that OpenSSL offers, the one that it prefers first."""
_NAME: Final = re.compile(r"TLS_(RSA|DHE_RSA|DHE_DSS|ECDHE_RSA|ECDHE_ECDSA)_WITH_(AES_\w+|CHACHA20_POLY1305_SHA256)")
_SIGNAL: Final = "TLS_EMPTY_RENEGOTIATION_INFO_SCSV"
_SETTING: Final = "ssl.cipher.suites"


def openssl_name(suite: str) -> str | None:
    """Return OpenSSL's name of a suite of TLS 1.2. None for a text that is no suite's name, or that names a suite which
    Java has disabled, or which has no encryption or no certificate."""
    found = _NAME.fullmatch(suite)
    if found is None:
        return None
    cipher = found[2].replace("AES_", "AES").replace("_CBC", "").replace("CCM_8", "CCM8")
    cipher = cipher.replace("POLY1305_SHA256", "POLY1305").replace("_", "-")
    return cipher if found[1] == "RSA" else f"{found[1].replace('_', '-')}-{cipher}"


def older_suites(suites: tuple[str, ...]) -> str | None:
    """Return OpenSSL's list of the suites of TLS 1.2 among those that ssl.cipher.suites names; None if there are none.

    Raises InvalidTlsSetting for a text that is not the name of a suite.
    """
    names = []
    for suite in suites:
        if suite in TLS_1_3 or suite == _SIGNAL:
            continue
        name = openssl_name(suite)
        if name is None:
            raise InvalidTlsSetting(_SETTING, f"no cipher suite {suite!r}")
        names.append(name)
    return ":".join(names) or None


def newer_suites(suites: tuple[str, ...]) -> frozenset[str]:
    """Return the suites of TLS 1.3 among those that ssl.cipher.suites names.

    Python cannot disable single suites of TLS 1.3 in OpenSSL, so kcli closes a connection that has agreed on a suite
    that the setting does not name. To keep the connections of all clients that support a named suite, the suite that
    OpenSSL prefers must be among the named ones. Raises InvalidTlsSetting if other suites of TLS 1.3 are named, but not
    the preferred one.
    """
    named = frozenset(suites) & frozenset(TLS_1_3)
    if named and TLS_1_3[0] not in named:
        raise InvalidTlsSetting(_SETTING, f"with suites of TLS 1.3, {TLS_1_3[0]} must be among them")
    return named
