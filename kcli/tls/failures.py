"""Why a TLS handshake has failed, in one line that names the cause. Source: OpenSSL's reasons; RFC 8446, section 6."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Final

_REASONS: Final[Mapping[str, str]] = {
    "HTTP_REQUEST": "the peer speaks HTTP, not TLS",
    "WRONG_VERSION_NUMBER": "the peer does not speak TLS: its listener or its security.protocol is another one",
    "UNSUPPORTED_PROTOCOL": "the peer has none of the protocols of ssl.enabled.protocols",
    "NO_PROTOCOLS_AVAILABLE": "the peer has none of the protocols of ssl.enabled.protocols",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the peer refuses the protocols of ssl.enabled.protocols",
    "NO_SHARED_CIPHER": "no cipher suite is known to both sides",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "the peer finds no cipher suite or certificate that it accepts",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the peer shows no certificate, which ssl.client.auth=required asks for",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the peer asks for a certificate, and ssl.keystore has none",
    "TLSV1_ALERT_UNKNOWN_CA": "the peer does not trust the authority of this side's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the peer does not accept this side's certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the peer does not accept this side's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the peer says that this side's certificate has expired",
    "UNEXPECTED_EOF_WHILE_READING": "the peer has closed the connection",
}
_INVALID_PURPOSE: Final = 26  # X509_V_ERR_INVALID_PURPOSE
_WRONG_PURPOSE: Final = "its extended key usage lacks clientAuth (serverAuth), or its key usage digitalSignature"


def failure_text(error: OSError) -> str:
    """Return the cause of a failed handshake, without the peer's address. error: an ssl.SSLError, or the socket's
    error."""
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = error.verify_message
        if error.verify_code == _INVALID_PURPOSE:
            reason += f": {_WRONG_PURPOSE}"
        return f"the peer's certificate is not accepted: {reason}"
    if isinstance(error, ssl.SSLError):
        reason = error.reason or ""
        return _REASONS.get(reason) or f"TLS: {reason.replace('_', ' ').lower() or error}"
    return error.strerror or str(error)
