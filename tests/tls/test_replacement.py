"""Which certificates a running listener may change to."""

from __future__ import annotations

import datetime as dt

import pytest
from cryptography.x509 import Name

from kcli.tls.certificates import Identity, make_authority
from kcli.tls.contexts import TlsContext, client_context, listener_context
from kcli.tls.replacement import check_replacement
from kcli.tls.settings import InvalidTlsSetting

NOW = dt.datetime.now(dt.UTC)
AUTHORITY = make_authority("kcli test", NOW)
TRUST = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": AUTHORITY.certificate_pem.decode()}


def context(identity: Identity, *, has_trust: bool = True) -> TlsContext:
    keys = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": identity.key_pem.decode(),
        "ssl.keystore.certificate.chain": identity.chain_pem.decode(),
    }
    return listener_context(keys | (TRUST if has_trust else {}), NOW)


def server(*hosts: str) -> TlsContext:
    return context(AUTHORITY.server(hosts, NOW))


@pytest.mark.parametrize(
    ("new", "names", "hosts", "line"),
    [
        (["kafka", "127.0.0.1"], False, False, None),
        (["KAFKA", "127.0.0.1", "kafka", "more"], False, False, None),
        (
            ["other", "kafka", "127.0.0.1"],
            False,
            False,
            "ssl.allow.dn.changes: must be true: the certificate of CN=kafka",
        ),
        (["other", "kafka", "127.0.0.1"], True, False, None),
        (
            ["kafka"],
            False,
            False,
            "ssl.allow.san.changes: must be true: the new certificate of CN=kafka lacks IPAddress 127",
        ),
        (["kafka"], False, True, None),
        (["other"], True, True, None),
    ],
)
def test_subjects_and_hosts(new: list[str], names: bool, hosts: bool, line: str | None) -> None:
    old, made = server("kafka", "127.0.0.1"), server(*new)
    if line is None:
        check_replacement(old, made, allows_names=names, allows_hosts=hosts)
        return
    with pytest.raises(InvalidTlsSetting) as refused:
        check_replacement(old, made, allows_names=names, allows_hosts=hosts)
    assert str(refused.value).startswith(line)


def test_stores_are_neither_added_nor_taken_away() -> None:
    identity = AUTHORITY.server(["kafka"], NOW)
    both, keys, neither = context(identity), context(identity, has_trust=False), client_context({}, NOW)
    for old, new, line in (
        (keys, both, "ssl.truststore.location: a trust store cannot be added"),
        (both, neither, "ssl.keystore.location: a key store cannot be taken away"),
        (neither, keys, "ssl.keystore.location: a key store cannot be added"),
    ):
        with pytest.raises(InvalidTlsSetting, match=line):
            check_replacement(old, new, allows_names=True, allows_hosts=True)
    check_replacement(both, keys, allows_names=False, allows_hosts=False)


def test_a_certificate_without_hosts() -> None:
    alice = context(AUTHORITY.client("CN=kafka", NOW))
    assert alice.entries[0].chain[0].subject == Name.from_rfc4514_string("CN=kafka")
    check_replacement(alice, server("kafka"), allows_names=False, allows_hosts=False)
