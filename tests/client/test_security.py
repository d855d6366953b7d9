"""What secures connections past librdkafka; against real Kafka in tests/interop/test_security_kafka.py."""

from __future__ import annotations

import ssl

import pytest

from kcli.client.security import NotTrusted, scram, security_of
from kcli.errors import KcliError, UsageError

# RFC 7677, section 3
NONCE = "rOprNGfwEbeRWgbNEkqO"
FIRST = f"n,,n=user,r={NONCE}"
ASKED = f"r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
PROOF = f"c=biws,r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
ANSWERED = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_scram() -> None:
    conversation = scram("sha256", "user", "pencil", NONCE)
    assert next(conversation).decode() == FIRST
    assert conversation.send(ASKED.encode()).decode() == PROOF
    with pytest.raises(StopIteration):
        conversation.send(ANSWERED.encode())


def test_a_name_with_signs_that_separate() -> None:
    assert next(scram("sha512", "a=b,c", "p", "x")).decode() == "n,,n=a=3Db=2Cc,r=x"


@pytest.mark.parametrize(
    "said",
    [
        "",
        "e=unknown-user",
        ASKED.replace(NONCE, "another"),
        ASKED.replace("i=4096", "i=0"),
        ASKED.replace("i=4096", "i=-1"),
        ASKED.replace("i=4096", "i=99999999999"),
        ASKED.replace("s=W22", "s=W2"),
        "\0\xff,=,r",
    ],
)
def test_a_challenge_that_is_none(said: str) -> None:
    conversation = scram("sha256", "user", "pencil", NONCE)
    next(conversation)
    with pytest.raises(NotTrusted):
        conversation.send(said.encode())


@pytest.mark.parametrize("said", ["", "v=", "v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "e=other-error", "v=é"])
def test_a_broker_that_does_not_know_the_password(said: str) -> None:
    conversation = scram("sha256", "user", "pencil", NONCE)
    next(conversation)
    conversation.send(ASKED.encode())
    with pytest.raises(NotTrusted):
        conversation.send(said.encode())


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
