"""--command-config: the librdkafka properties for Kafka's client properties, and the properties that are refused."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from kcli.client.command_config import librdkafka_properties, read_command_config
from kcli.client.connection import Connection, check_properties
from kcli.client.security import security_of
from kcli.errors import UsageError
from kcli.tls.certificates import make_authority

NOW = dt.datetime.now(dt.UTC)
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"}
LOGIN = f'{SCRAM} required username="alice" password="a;b\\"c";'


def test_a_login() -> None:
    given = {**SASL, "sasl.jaas.config": LOGIN, "acks": "all", "key.serializer": "x", "client.id": "me"}
    assert librdkafka_properties(given) == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": 'a;b"c',
        "client.id": "me",
    }
    assert librdkafka_properties({"acks": "all"}) == {}
    kerberos = {"sasl.kerberos.service.name": "kafka"}
    assert librdkafka_properties(given | kerberos) == librdkafka_properties(given), "only GSSAPI reads it"


def test_cipher_suites() -> None:
    suites = "TLS_AES_256_GCM_SHA384, TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,TLS_RSA_WITH_AES_128_CBC_SHA"
    found = librdkafka_properties({"security.protocol": "SSL", "ssl.cipher.suites": suites})
    assert found["ssl.cipher.suites"] == "ECDHE-RSA-AES256-GCM-SHA384:AES128-SHA"
    tls = security_of(found).tls
    assert tls is not None
    older = [each["name"] for each in tls.get_ciphers() if each["protocol"] != "TLSv1.3"]
    assert older == ["ECDHE-RSA-AES256-GCM-SHA384", "AES128-SHA"]
    Connection("127.0.0.1:1", found).admin()


def test_properties_of_librdkafka() -> None:
    check_properties({"security.protocol": "ssl", "acks": "all", "group.id": "", "sasl.tokenauth": "true"})
    for name, value, reason in [
        ("security.protocl", "SASL_SSL", 'No such configuration property: "security.protocl"'),
        ("security.protocol", "SASL_SLL", 'Invalid value "SASL_SLL"'),
        ("error_cb", "x", '"error_cb" cannot be a text'),
    ]:
        with pytest.raises(UsageError, match=reason):
            check_properties({"client.id": "me", name: value})


def test_certificates(tmp_path: Path) -> None:
    authority = make_authority("test", NOW)
    (tmp_path / "ca.pem").write_bytes(authority.certificate_pem)
    (tmp_path / "alice.pem").write_bytes(authority.client("CN=alice", NOW).pem)
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SSL\nssl.endpoint.identification.algorithm=\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={tmp_path / 'ca.pem'}\n"
        f"ssl.keystore.type=PEM\nssl.keystore.location={tmp_path / 'alice.pem'}\n"
    )
    found = read_command_config(file)
    assert found["ssl.endpoint.identification.algorithm"] == "none"
    assert found["ssl.ca.pem"].encode() == authority.certificate_pem
    assert sorted(found) == [
        "security.protocol",
        "ssl.ca.pem",
        "ssl.certificate.pem",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.pem",
    ]
    tls = security_of(found).tls
    assert tls is not None
    assert (len(tls.get_ca_certs()), tls.check_hostname) == (1, False)
    Connection("127.0.0.1:1", found).admin()  # librdkafka takes them too


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"ssl.enabled.protocols": "TLSv1.3"}, "ssl.enabled.protocols: not honoured"),
        ({"sasl.login.class": "x"}, "sasl.login.class: not honoured"),
        ({"sasl.mechansim": "PLAIN"}, "sasl.mechansim: Kafka's clients have no setting of this name"),
        ({"security.protocol": "SASL_SLL"}, "security.protocol: SASL_SLL is none of PLAINTEXT, SSL, SASL_PLAINTEXT,"),
        ({"security.protocol": "SSL", "ssl.cipher.suites": "TLS_AES"}, "ssl.cipher.suites: no cipher suite 'TLS_AES'"),
        ({"security.protocol": "SSL", "ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"}, "suites of TLS 1.3 alone"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism: GSSAPI is not honoured"),
        (SASL, "sasl.jaas.config: must be there"),
        (SASL | {"sasl.jaas.config": LOGIN.replace(SCRAM, PLAIN)}, "not that of SCRAM-SHA-512"),
        (SASL | {"sasl.jaas.config": LOGIN[:-1]}, "not terminated"),
        (SASL | {"sasl.jaas.config": f"{SCRAM} required username=alice;"}, "no password"),
        (SASL | {"sasl.jaas.config": LOGIN[:-1] + " debug=true;"}, "option debug is not honoured"),
        (SASL | {"sasl.jaas.config": LOGIN, "sasl.oauthbearer.scope": "x"}, "sasl.oauthbearer.scope: only of"),
        ({"security.protocol": "SSL", "ssl.truststore.location": "/nope.jks"}, "ssl.truststore.location: "),
    ],
)  # fmt: skip
def test_what_is_refused(given: dict[str, str], reason: str) -> None:
    with pytest.raises(UsageError) as refused:
        librdkafka_properties(given)
    assert reason in str(refused.value)
    assert 'a;b"c' not in str(refused.value)


def test_a_delegation_token() -> None:
    found = librdkafka_properties({**SASL, "sasl.jaas.config": LOGIN[:-1] + " tokenauth=TRUE;"})
    sasl = security_of(found).sasl
    assert sasl is not None
    assert next(sasl.begin()).endswith(b",tokenauth=true")
    with pytest.raises(UsageError, match="librdkafka logs in with none"):
        Connection("127.0.0.1:1", found).admin()
    found = librdkafka_properties({**SASL, "sasl.jaas.config": LOGIN[:-1] + " tokenauth=false;"})
    Connection("127.0.0.1:1", found).admin()


def test_values_that_providers_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka's classes read a password from a file, a directory or the environment; no error message has it."""
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "user").write_text("alice")
    (tmp_path / "a.properties").write_text("password=hush\n")
    monkeypatch.setenv("KCLI_TEST_MECHANISM", "SCRAM-SHA-512")
    package = "org.apache.kafka.common.config.provider."
    given = {
        "config.providers": "file,directory,env",
        "config.providers.file.class": f"{package}FileConfigProvider",
        "config.providers.directory.class": f"{package}DirectoryConfigProvider",
        "config.providers.env.class": f"{package}EnvVarConfigProvider",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "${env:KCLI_TEST_MECHANISM}",
        "sasl.jaas.config": f'{SCRAM} required username="${{directory:{tmp_path}/secrets:user}}" '
        f'password="${{file:{tmp_path}/a.properties:password}}";',
    }
    file = tmp_path / "client.properties"

    def read(**changes: str) -> dict[str, str]:
        file.write_text("".join(f"{name}={text}\n" for name, text in {**given, **changes}.items()))
        return read_command_config(file)

    found = read()
    assert found["sasl.mechanism"] == "SCRAM-SHA-512"
    assert (found["sasl.username"], found["sasl.password"]) == ("alice", "hush")
    for changes, reason in [
        ({"sasl.mechanism": "${vault:x}"}, "sasl.mechanism: config.providers names no provider 'vault'"),
        ({"sasl.mechanism": "${env:KCLI_NOT_THERE}"}, "sasl.mechanism: the provider 'env' has no key"),
        ({"config.providers.file.class": "my.Provider"}, "config.providers.file.class: only"),
        ({"security.protocol": f"${{file:{tmp_path}/a.properties:password}}", "ssl.protocol": "x"}, "ssl.protocol"),
        ({"sasl.mechanism": f"${{file:{tmp_path}/a.properties:password}}"}, "sasl.mechanism: [hidden] is not honoured"),
    ]:
        with pytest.raises(UsageError) as refused:
            read(**changes)
        assert reason in str(refused.value)
        assert "hush" not in str(refused.value)
