"""The text of a certificate's subject: Java's answers, recorded, and bytes that are no certificate."""

from __future__ import annotations

import datetime as dt

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding

from kcli.security.distinguished_name import InvalidCertificate, name_text, subject_name
from tests.security import name_cases, oracle


def certificate(name: x509.Name) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    now = dt.datetime.now(dt.UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(x509.Name([])).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now).not_valid_after(now + dt.timedelta(1))
    return made.sign(key, SHA256()).public_bytes(Encoding.DER)


LONE_HALVES = ("1e03dcce5c", "1e0647b18dead987")
"""BMPStrings with half of a surrogate pair, which recorded names have."""


def test_answers_of_java() -> None:
    alike = [name_cases.compared(*each) for each in oracle.recorded("names")]
    assert sum(alike) > 850
    halves = [each for each, _ in oracle.recorded("names") if any(half in each["name"] for half in LONE_HALVES)]
    assert len(halves) == len(LONE_HALVES)
    assert all(name_cases.answer(each) is not None for each in halves)


BMP_STRINGS = {
    "0041": "A",
    "65e5672c": "日本",
    "002c0020": "\\,\\ ",
    "d83d0041": "\ufffd",
    "d83dd83dde00": "\ufffd\ufffd",
    "d83dd83d0041": "\ufffdA",
    "de000041": "\ufffdA",
    "0041d83d": "A\ufffd",
    "0041d83dde": "A\ufffd",
    "004100": "A\ufffd",
    "00": "\ufffd",
    "": "",
    "d83dde00": None,
    "de00d83dde00": None,
}
"""By content of a BMPString in a common name: the text that Java 25 reads; None where it refuses the certificate."""


@pytest.mark.parametrize("content", BMP_STRINGS)
def test_a_common_name_of_two_bytes_a_character(content: str) -> None:
    expected = BMP_STRINGS[content]
    question = name_cases.of_common_name(0x1E, bytes.fromhex(content))
    assert name_cases.answer(question) == (None if expected is None else f"CN={expected}")


MALFORMED = {
    "eda439": "\ufffd9",
    "eda4b9": "\ufffd",
    "f468": "\ufffdh",
    "b9eda4": "\ufffd\ufffd",
    "e282": "\ufffd",
}
"""By content of a UTF8String in a common name that is no UTF-8: the text that Java reads."""


@pytest.mark.parametrize("content", MALFORMED)
def test_a_common_name_of_malformed_utf_8(content: str) -> None:
    question = name_cases.of_common_name(0x0C, bytes.fromhex(content))
    assert name_cases.answer(question) == f"CN={MALFORMED[content]}"


def test_the_subject_of_a_certificate() -> None:
    subject = x509.Name.from_rfc4514_string("CN=alice\\, of Acme,OU=Sales,O=Acme,C=CH")
    assert subject_name(certificate(subject)) == "CN=alice\\, of Acme,OU=Sales,O=Acme,C=CH"
    assert subject_name(certificate(x509.Name([]))) == ""


def test_damaged_certificates_are_refused() -> None:
    """Each byte is changed, and each truncation is tried: the result is a name or InvalidCertificate."""
    sound = certificate(x509.Name.from_rfc4514_string("CN=alice,O=Acme"))
    for at in range(len(sound)):
        with pytest.raises(InvalidCertificate):
            subject_name(sound[:at])
        for value in (0x00, 0x30, 0x80, 0xFF):
            try:
                subject_name(sound[:at] + bytes([value]) + sound[at + 1 :])
            except InvalidCertificate:
                continue


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("3080", "length of 0 bytes"),
        ("308100", "longer than needed"),
        ("30820001ff", "longer than needed"),
        ("3003310101", "byte 0"),
        ("300b3109300706035504031f00", "above 30"),
        ("300d310b3009060355048a0c0261", "content"),
        ("300f310d300b0603550403 1e04d83dde00", "basic plane"),
        ("3000ff", "not one element"),
        ("", "without a length"),
    ],
)
def test_what_is_no_name(name: str, reason: str) -> None:
    with pytest.raises(InvalidCertificate, match=reason):
        name_text(bytes.fromhex(name))
