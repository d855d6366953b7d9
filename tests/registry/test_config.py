"""Configurations by Confluent's names: what they mean, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.errors import KcliError, UsageError
from kcli.registry.access import FileUsers, read_rules
from kcli.registry.config import Listener, registry_config


def test_a_file_of_confluents_is_understood() -> None:
    config = registry_config(
        {
            "listeners": "http://0.0.0.0:8081, https://sr.test:8443",
            "host.name": "sr.test",
            "kafkastore.bootstrap.servers": "PLAINTEXT://kafka:9092",
            "kafkastore.topic": "_other",
            "kafkastore.topic.config.min.insync.replicas": "2",
            "kafkastore.security.protocol": "SSL",
            "kafkastore.ssl.truststore.location": "/ca.pem",
            "schema.registry.group.id": "other",
            "schema.compatibility.level": "full",
            "master.eligibility": "false",
            "kafkastore.timeout.ms": "500",
            "ssl.keystore.location": "/server.pem",
        }
    )
    assert config.listeners == (Listener("http", "", 8081), Listener("https", "sr.test", 8443))
    assert (config.log.topic, config.log.transactional_id, config.log.timeout_s) == ("_other", "other", 0.5)
    assert config.log.topic_config == {"min.insync.replicas": "2"}
    assert config.client == {"security.protocol": "SSL", "ssl.truststore.location": "/ca.pem"}
    assert config.tls == {"ssl.keystore.location": "/server.pem"}
    assert (config.is_eligible, config.limits.default_compatibility, config.group.group_id) == (False, "FULL", "other")


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"metadata.encoder.secret": "x"}, "metadata.encoder.secret: no configuration of kcli registry"),
        ({"listeners": "ftp://h:1"}, "listeners: 'ftp://h:1' is not http://HOST:PORT"),
        ({"listeners": "http://h:99999"}, "listeners: 'http://h:99999'"),
        ({"listeners": ""}, "listeners: there is none"),
        ({"schema.compatibility.level": "SOME"}, "schema.compatibility.level: SOME is none of"),
        ({"leader.eligibility": "yes"}, "leader.eligibility: 'yes' is neither true nor false"),
        ({"kafkastore.timeout.ms": "-1"}, "kafkastore.timeout.ms: '-1' is no number"),
        ({"authentication.method": "BEARER"}, "authentication.method: BEARER is none of NONE, BASIC"),
        ({"authentication.method": "BASIC"}, "authentication.method=BASIC goes with"),
        ({"authentication.users.file": "u"}, "authentication.method=BASIC goes with"),
        ({"authorization.acl.file": "a"}, "authorization.acl.file and super.users need authentication.method=BASIC"),
    ],
)
def test_what_is_not_honoured_is_refused(properties: dict[str, str], reason: str) -> None:
    with pytest.raises(UsageError) as refused:
        registry_config(properties)
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"alice READ\n", "line 1: USER OPERATION[,OPERATION...] SUBJECT is expected"),
        (b"# one\n\nalice NONE s\n", "line 3: 'NONE' is no operation: ALL, READ"),
        (b"alice READ a*b\n", "line 1: * may stand only at the end of a subject"),
        (b"\xff", "byte 0: not UTF-8"),
    ],
)
def test_an_acl_file_says_where_it_is_wrong(tmp_path: Path, text: bytes, reason: str) -> None:
    path = tmp_path / "acls"
    path.write_bytes(text)
    with pytest.raises(KcliError) as refused:
        read_rules(path)
    assert str(path) in str(refused.value)
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [("alice\n", "line 1: NAME: PASSWORD is expected"), ("a: MD5:1b2a\n", "line 1: a password in Jetty's form MD5")],
)
def test_a_users_file_says_where_it_is_wrong(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "users"
    path.write_text(text)
    with pytest.raises(KcliError) as refused:
        FileUsers(path)
    assert reason in str(refused.value)
