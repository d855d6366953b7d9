"""TLS and SASL of kcli's own connections; tests/interop/test_security_kafka.py runs them against real Kafka."""

from __future__ import annotations

import ssl

import pytest

from kcli.client.security import security_of
from kcli.errors import KcliError, UsageError


def test_properties() -> None:
    assert security_of({}) == security_of({"security.protocol": "PLAINTEXT"})
    tls = security_of({"security.protocol": "SSL"}).tls
    assert tls is not None
    assert (tls.check_hostname, tls.verify_mode) == (True, ssl.CERT_REQUIRED)
    tls = security_of({"security.protocol": "ssl", "ssl.endpoint.identification.algorithm": "none"}).tls
    assert tls is not None
    assert (tls.check_hostname, tls.verify_mode) == (False, ssl.CERT_REQUIRED)
    tls = security_of({"security.protocol": "ssl", "enable.ssl.certificate.verification": "false"}).tls
    assert tls is not None
    assert (tls.check_hostname, tls.verify_mode) == (False, ssl.CERT_NONE)
    both = {"security.protocol": "sasl_ssl", "sasl.username": "u", "sasl.password": "p"}
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "scram-sha-512"):
        for name in ("sasl.mechanism", "sasl.mechanisms"):
            found = security_of(both | {name: mechanism})
            assert found.tls is not None
            assert found.sasl is not None
            assert found.sasl.mechanism == mechanism.upper()
    plain = security_of(both | {"sasl.mechanism": "PLAIN"}).sasl
    assert plain is not None
    assert list(plain.begin()) == [b"\0u\0p"]


def test_what_is_not_spoken() -> None:
    with pytest.raises(UsageError):
        security_of({"security.protocol": "carrier-pigeon"})
    for properties in ({"security.protocol": "sasl_ssl"}, {"security.protocol": "ssl", "ssl.crl.location": "x"}):
        with pytest.raises(KcliError):
            security_of(properties)
