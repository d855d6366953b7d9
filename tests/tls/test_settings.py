"""What Kafka's settings ssl.* become, and the line that each invalid or unsupported one ends with."""

from __future__ import annotations

import datetime as dt
import os
import re
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from kcli.tls.certificates import make_authority
from kcli.tls.cipher_suites import TLS_1_3, openssl_name
from kcli.tls.contexts import check_among_nodes, client_context, listener_context
from kcli.tls.failures import failure_text
from kcli.tls.settings import InvalidTlsSetting
from tests.tls.handshakes import shaken

NOW = dt.datetime.now(dt.UTC)
STORES = Path(__file__).with_name("stores")
JKS = {
    "ssl.keystore.location": str(STORES / "two-kinds.jks"),
    "ssl.keystore.password": "secret",
    "ssl.key.password": "otherpass",
}
P12 = {
    "ssl.keystore.type": "PKCS12",
    "ssl.keystore.location": str(STORES / "key.p12"),
    "ssl.keystore.password": "sp ace,;1",
}
TRUST = {"ssl.truststore.location": str(STORES / "trust.jks"), "ssl.truststore.password": "secret"}
PBES2 = {
    "ssl.keystore.type": "PEM",
    "ssl.keystore.key": (STORES / "pbes2.pem").read_text(),
    "ssl.key.password": "secret",
}
PLAIN_CHAIN = {"ssl.keystore.certificate.chain": (STORES / "plain-certificate.pem").read_text()}


def p12(name: str, password: str = "secret") -> dict[str, str]:
    return P12 | {"ssl.keystore.location": str(STORES / name), "ssl.keystore.password": password}


@pytest.mark.parametrize(
    "keys",
    [
        JKS,
        JKS | {"ssl.keystore.type": "PKCS12"},
        P12,
        P12 | {"ssl.keystore.type": "JKS"},
        p12("legacy.p12"),
        p12("openssl.p12"),
        PBES2 | PLAIN_CHAIN,
        PBES2 | PLAIN_CHAIN | {"ssl.keystore.key": (STORES / "pbe.pem").read_text()},
    ],
    ids=["jks", "jks-as-pkcs12", "pkcs12", "pkcs12-as-jks", "java-8", "openssl", "pbes2", "pbe"],
)
def test_stores_of_keytool_and_openssl_serve(keys: dict[str, str]) -> None:
    listener = listener_context(keys, NOW)
    assert listener.warnings == ()
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    shaken(listener.context, client)


@pytest.mark.parametrize("auth", ["RSA", "ECDSA"])
def test_a_store_with_two_kinds_of_keys_serves_clients_of_both(auth: str) -> None:
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    client.set_ciphers(f"ECDHE-{auth}-AES128-GCM-SHA256")
    _, theirs = shaken(listener_context(JKS, NOW).context, client)
    cipher = theirs.cipher()
    assert cipher is not None
    assert auth in cipher[0]


@pytest.mark.parametrize(
    "trust",
    [
        TRUST,
        {"ssl.truststore.location": str(STORES / "trust.jks")},
        TRUST | {"ssl.truststore.type": "PKCS12", "ssl.truststore.location": str(STORES / "trust.p12")},
        {"ssl.truststore.type": "PKCS12", "ssl.truststore.location": str(STORES / "open.p12")},
        {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(STORES / "certificate.pem")},
        {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": (STORES / "certificate.pem").read_text()},
    ],
    ids=["jks", "jks-unchecked", "pkcs12", "pkcs12-without-password", "pem", "inline"],
)
def test_trust_stores_of_keytool(trust: dict[str, str]) -> None:
    """The node shows its certificate, and the client trusts it, and no other."""
    client = client_context(trust, NOW).context
    shaken(listener_context(P12, NOW).context, client)
    with pytest.raises(ssl.SSLCertVerificationError, match="self-signed") as refused:
        shaken(listener_context(p12("openssl.p12"), NOW).context, client)
    assert failure_text(refused.value) == "the peer's certificate is not accepted: self-signed certificate"


def test_host_names_are_checked_unless_switched_off() -> None:
    listener = listener_context(P12, NOW).context
    with pytest.raises(ssl.SSLCertVerificationError, match="elsewhere"):
        shaken(listener, client_context(TRUST, NOW).context, "elsewhere")
    shaken(listener, client_context(TRUST | {"ssl.endpoint.identification.algorithm": ""}, NOW).context, "elsewhere")


@pytest.mark.parametrize(
    ("client_auth", "has_key", "reason"),
    [
        ("none", False, None),
        ("requested", False, None),
        ("requested", True, None),
        ("required", True, None),
        ("required", False, "shows no certificate"),
    ],
)
def test_client_auth(client_auth: str, has_key: bool, reason: str | None) -> None:
    listener = listener_context(P12 | TRUST | {"ssl.client.auth": client_auth}, NOW).context
    client = client_context(TRUST | (P12 if has_key else {}), NOW).context
    if reason is None:
        ours, _ = shaken(listener, client)
        assert (ours.getpeercert(binary_form=True) is not None) == (has_key and client_auth != "none")
        return
    with pytest.raises(ssl.SSLError) as refused:
        shaken(listener, client)
    assert reason in failure_text(refused.value)


def test_a_certificate_of_nobody_is_refused_where_it_is_only_requested() -> None:
    listener = listener_context(P12 | TRUST | {"ssl.client.auth": "requested"}, NOW).context
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken(listener, client_context(TRUST | p12("openssl.p12"), NOW).context)


@pytest.mark.parametrize(
    ("enabled", "suites", "version", "cipher"),
    [
        ("", "", "TLSv1.3", None),
        ("TLSv1.2", "", "TLSv1.2", None),
        ("TLSv1.2,TLSv1.1,TLSv1", "", "TLSv1.2", None),
        ("", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLSv1.2", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        ("", ",".join(TLS_1_3), "TLSv1.3", None),
        ("TLSv1.2", ",".join((*TLS_1_3, "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384")), "TLSv1.2", "AES256-SHA384"),
    ],
)
def test_protocols_and_suites(enabled: str, suites: str, version: str, cipher: str | None) -> None:
    settings = {"ssl.enabled.protocols": enabled, "ssl.cipher.suites": suites}
    _, theirs = shaken(listener_context(P12 | settings, NOW).context, client_context(TRUST, NOW).context)
    assert theirs.version() == version
    agreed = theirs.cipher()
    assert agreed is not None
    assert cipher is None or cipher in agreed[0]


def test_suites_of_tls_1_3_that_are_left_out_are_refused() -> None:
    suites = "TLS_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384"
    assert listener_context(P12 | {"ssl.cipher.suites": suites}, NOW).refused_suites == {"TLS_CHACHA20_POLY1305_SHA256"}
    assert listener_context(P12, NOW).refused_suites == frozenset()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl on the PATH")
def test_names_of_suites_are_those_of_openssl() -> None:
    listed = subprocess.run(
        ["openssl", "ciphers", "-stdname", "ALL"], capture_output=True, text=True, check=True
    ).stdout
    known = {
        standard: name for standard, name, *_ in (line.split() for line in listed.replace(" - ", " ").splitlines())
    }
    read = {standard: name for standard in known if (name := openssl_name(standard)) is not None}
    assert len(read) > 40
    assert {standard: known[standard] for standard in read} == read


REFUSED = [
    ({}, "ssl.keystore.location: a listener of SSL needs a key"),
    (P12 | {"ssl.client.auth": "required"}, "ssl.truststore.location: must be there where ssl.client.auth is required"),
    (P12 | {"ssl.client.auth": "maybe"}, "ssl.client.auth: 'maybe' is none of"),
    (P12 | {"ssl.provider": "BCFIPS"}, "ssl.provider: BCFIPS is not there in kcli"),
    (P12 | {"ssl.secure.random.implementation": "SHA1PRNG"}, "ssl.secure.random.implementation: SHA1PRNG"),
    (P12 | {"ssl.engine.factory.class": "com.acme.Engine"}, "ssl.engine.factory.class: com.acme.Engine"),
    (P12 | {"ssl.keymanager.algorithm": "NewSunX509"}, "ssl.keymanager.algorithm: NewSunX509"),
    (P12 | {"ssl.trustmanager.algorithm": "SunX509"}, "ssl.trustmanager.algorithm: SunX509"),
    (P12 | {"ssl.protocol": "TLSv1.4"}, "ssl.protocol: no protocol 'TLSv1.4'"),
    (P12 | {"ssl.enabled.protocols": "TLSv1.2,TLS"}, "ssl.enabled.protocols: no protocol 'TLS'"),
    (P12 | {"ssl.enabled.protocols": "TLSv1.1"}, "ssl.enabled.protocols: neither TLSv1.3 nor TLSv1.2"),
    (P12 | {"ssl.endpoint.identification.algorithm": "LDAPS"}, "ssl.endpoint.identification.algorithm: no algorithm"),
    (
        P12 | {"ssl.cipher.suites": "TLS_DH_anon_WITH_AES_128_GCM_SHA256"},
        "ssl.cipher.suites: no cipher suite 'TLS_DH_anon",
    ),
    (P12 | {"ssl.cipher.suites": "TLS_RSA_WITH_NULL_SHA"}, "ssl.cipher.suites: no cipher suite 'TLS_RSA_WITH_NULL"),
    (P12 | {"ssl.cipher.suites": "ALL:@SECLEVEL=0"}, "ssl.cipher.suites: no cipher suite 'ALL:@SECLEVEL=0'"),
    (P12 | {"ssl.cipher.suites": "TLS_RSA_WITH_AES_512_GCM_SHA256"}, "ssl.cipher.suites: this OpenSSL has no TLS_RSA"),
    (
        P12 | {"ssl.cipher.suites": TLS_1_3[2]},
        "ssl.cipher.suites: with suites of TLS 1.3, TLS_AES_256_GCM_SHA384 must be",
    ),
    (P12 | {"ssl.cipher.suites": ",".join(TLS_1_3), "ssl.enabled.protocols": "TLSv1.2"}, "ssl.cipher.suites: none of"),
    (P12 | {"ssl.keystore.type": "JCEKS"}, "ssl.keystore.type: JCEKS is not there in kcli: JKS, PKCS12 or PEM"),
    (P12 | {"ssl.keystore.type": "pem"}, "ssl.keystore.type: pem is not there in kcli"),
    (P12 | {"ssl.truststore.type": "BKS"}, "ssl.truststore.type: BKS"),
    (
        P12 | {"ssl.keystore.type": "PEM"},
        "ssl.keystore.password: a store of type PEM has no password; the password of a key",
    ),
    ({"ssl.keystore.password": "secret"}, "ssl.keystore.location: must be there where ssl.keystore.password is"),
    ({"ssl.keystore.location": "x"}, "ssl.keystore.password: must be there where ssl.keystore.location is"),
    (PBES2, "ssl.keystore.certificate.chain: must be there where ssl.keystore.key is"),
    (PLAIN_CHAIN, "ssl.keystore.key: must be there where ssl.keystore.certificate.chain is"),
    (PBES2 | PLAIN_CHAIN | {"ssl.keystore.type": "JKS"}, "ssl.keystore.type: must be PEM where ssl.keystore.key is"),
    (PBES2 | PLAIN_CHAIN | {"ssl.keystore.location": "x"}, "ssl.keystore.location: may not be there"),
    (PBES2 | PLAIN_CHAIN | {"ssl.key.password": "wrong"}, "ssl.key.password: the password of the private key is wrong"),
    (PBES2 | PLAIN_CHAIN | {"ssl.keystore.key": "none"}, "ssl.keystore.key: no private key in PEM"),
    (
        PBES2 | PLAIN_CHAIN | {"ssl.keystore.certificate.chain": "x"},
        "ssl.keystore.certificate.chain: no certificate in PEM",
    ),
    (
        PBES2 | PLAIN_CHAIN | {"ssl.keystore.key": (STORES / "plain.pem").read_text()},
        "ssl.key.password: a password is there, but the private key is not encrypted",
    ),
    (
        PBES2 | PLAIN_CHAIN | {"ssl.keystore.key": (STORES / "pkcs1.pem").read_text()},
        "ssl.keystore.key: a private key that is not PKCS #8; convert it with: openssl pkcs8 -topk8",
    ),
    (
        PBES2 | {"ssl.keystore.certificate.chain": (STORES / "certificate.pem").read_text()},
        "ssl.keystore.key: the private key and the certificate of CN=localhost,O=Acme do not belong together",
    ),
    (p12("no-such.p12"), "no-such.p12: No such file or directory"),
    (p12(""), "stores: Is a directory"),
    (p12("key.p12", "wrong"), "ssl.keystore.password: {}/key.p12: the password is wrong, or the file is damaged"),
    (p12("trust.p12"), "ssl.keystore.location: {}/trust.p12: no private key is in it"),
    (p12("certificate.pem"), "ssl.keystore.type: {}/certificate.pem: is PEM, and not PKCS12"),
    (p12("make_stores"), "make_stores: neither a PKCS #12 file nor a Java key store"),
    (JKS | {"ssl.keystore.password": "wrong"}, "ssl.keystore.password: {}/two-kinds.jks: the password is wrong"),
    (
        JKS | {"ssl.key.password": "wrong"},
        "ssl.key.password: {}/two-kinds.jks: key 'ec': the password of the key is wrong",
    ),
    (
        JKS | {"ssl.key.password": "secret", "ssl.keystore.location": str(STORES / "two-of-a-kind.jks")},
        "ssl.keystore.location: 'two' and 'one' are both keys of kind EC",
    ),
    (
        P12 | TRUST | {"ssl.truststore.password": "wrong"},
        "ssl.truststore.password: {}/trust.jks: the password is wrong",
    ),
    (
        P12 | {"ssl.truststore.location": str(STORES / "trust.p12")},
        "ssl.truststore.password: {}/trust.p12: is encrypted, and no password is there",
    ),
    (
        P12 | TRUST | {"ssl.truststore.location": str(STORES / "legacy.p12")},
        "ssl.truststore.location: {}/legacy.p12: has a private key, too",
    ),
    (
        P12 | {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": "-----BEGIN CERTIFICATE-----\n&\n"},
        "ssl.truststore.certificates: no certificate in PEM",
    ),
]


@pytest.mark.parametrize(("settings", "line"), REFUSED, ids=[line[:60] for _, line in REFUSED])
def test_one_line_that_names_the_setting(settings: dict[str, str], line: str) -> None:
    with pytest.raises(InvalidTlsSetting) as refused:
        listener_context(settings, NOW)
    text = str(refused.value)
    assert line.replace("{}", str(STORES)) in text
    assert text.startswith("ssl.")
    assert "\n" not in text
    assert not {"sp ace", "wrong;", "otherpass"} & set(text.split())


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidTlsSetting, match=r"ssl\.keystore\.location: .*pipe: is no regular file"):
        listener_context(P12 | {"ssl.keystore.location": str(tmp_path / "pipe")}, NOW)


def test_nothing_shows_a_secret() -> None:
    shown = repr(listener_context(PBES2 | PLAIN_CHAIN | TRUST, NOW)) + repr(listener_context(JKS, NOW))
    assert "PRIVATE KEY" not in shown
    assert not {"secret", "otherpass"} & set(re.split(r"\W+", shown))


def test_certificates_out_of_date_are_told() -> None:
    begun = NOW - dt.timedelta(days=30)
    authority = make_authority("old", begun, dt.timedelta(days=10))
    server = authority.server(["localhost"], begun)
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": server.key_pem.decode(),
        "ssl.keystore.certificate.chain": server.chain_pem.decode(),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority.certificate_pem.decode(),
    }
    listener, client = listener_context(settings, NOW), client_context(settings, NOW)
    assert [each.split(" at ")[0] for each in listener.warnings] == [
        "ssl.keystore: the certificate of CN=localhost expired",
        "ssl.truststore: the certificate of CN=old expired",
    ]
    assert "is valid from" in listener_context(settings, begun - dt.timedelta(days=1)).warnings[0]
    with pytest.raises(ssl.SSLCertVerificationError) as refused:
        shaken(listener.context, client.context)
    assert failure_text(refused.value) == "the peer's certificate is not accepted: certificate has expired"


@pytest.mark.parametrize("client_auth", ["none", "requested", "required"])
def test_nodes_must_accept_each_other(client_auth: str) -> None:
    check_among_nodes(P12 | TRUST | {"ssl.client.auth": client_auth}, NOW)
    check_among_nodes(P12 | TRUST | {"ssl.client.auth": client_auth, "ssl.enabled.protocols": "TLSv1.2"}, NOW)
    with pytest.raises(InvalidTlsSetting, match=r"ssl\.keystore\.location: a node .* self-signed certificate"):
        check_among_nodes(p12("openssl.p12") | TRUST | {"ssl.client.auth": client_auth}, NOW)


def test_nodes_with_a_certificate_for_clients_alone_are_refused() -> None:
    authority = make_authority("kcli test", NOW)
    alice = authority.client("CN=localhost", NOW)
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": alice.key_pem.decode(),
        "ssl.keystore.certificate.chain": alice.chain_pem.decode(),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority.certificate_pem.decode(),
    }
    with pytest.raises(InvalidTlsSetting, match=r"ssl\.keystore\.key: .*unsuitable certificate purpose"):
        check_among_nodes(settings, NOW)


@pytest.mark.parametrize("name", ["two-kinds.jks", "key.p12", "trust.jks", "trust.p12", "pbes2.pem", "openssl.p12"])
def test_damaged_stores_end_in_one_line(name: str, tmp_path: Path) -> None:
    """A byte changed, and the file truncated, at many places."""
    sound = (STORES / name).read_bytes()
    path = tmp_path / "store"
    prefix = "truststore" if name.startswith("trust") else "keystore"
    kind = {"jks": "JKS", "p12": "PKCS12", "pem": "PEM"}[name[-3:]]
    settings = {f"ssl.{prefix}.type": kind, f"ssl.{prefix}.location": str(path)}
    if kind != "PEM":
        settings[f"ssl.{prefix}.password"] = P12["ssl.keystore.password"] if name == "key.p12" else "secret"
    if prefix == "keystore":
        settings["ssl.key.password"] = "otherpass" if kind == "JKS" else "secret"
    refused = 0
    for at in range(0, len(sound), max(1, len(sound) // 60)):
        for data in (sound[:at], sound[:at] + bytes([sound[at] ^ 0xFF]) + sound[at + 1 :]):
            path.write_bytes(data)
            try:
                client_context(settings, NOW)
            except InvalidTlsSetting:
                refused += 1
    assert refused > 100
