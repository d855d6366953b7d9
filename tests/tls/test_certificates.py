"""The authority of `kcli serve --secure` and of the tests: what it signs is accepted, and by nobody else's name."""

from __future__ import annotations

import datetime as dt
import ssl
import stat
from pathlib import Path

import pytest

from kcli.errors import UsageError
from kcli.security.distinguished_name import subject_name
from kcli.tls.certificates import make_authority, read_authority, write_secret
from kcli.tls.contexts import client_context, listener_context
from tests.tls.handshakes import shaken

NOW = dt.datetime.now(dt.UTC)
AUTHORITY = make_authority("kcli test", NOW)
INLINE = {"ssl.keystore.type": "PEM", "ssl.truststore.type": "PEM"}


def inline(identity_pem: tuple[bytes, bytes], **more: str) -> dict[str, str]:
    key, chain = identity_pem
    trusted = AUTHORITY.certificate_pem.decode()
    return INLINE | {
        "ssl.keystore.key": key.decode(),
        "ssl.keystore.certificate.chain": chain.decode(),
        "ssl.truststore.certificates": trusted,
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def contexts(hosts: list[str], subject: str = "CN=alice") -> tuple[ssl.SSLContext, ssl.SSLContext]:
    server, client = AUTHORITY.server(hosts, NOW), AUTHORITY.client(subject, NOW)
    listener = listener_context(inline((server.key_pem, server.chain_pem), ssl_client_auth="required"), NOW)
    other = client_context(inline((client.key_pem, client.chain_pem)), NOW)
    assert not listener.warnings
    assert not other.warnings
    return listener.context, other.context


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1", "büro.example", "*.example.com"])
def test_server_and_client_know_each_other(host: str) -> None:
    server, client = contexts([host, "other"], "CN=alice,OU=Sales,O=Acme")
    ours, theirs = shaken(server, client, host.replace("*", "kafka"))
    certificate = ours.getpeercert(binary_form=True)
    assert certificate is not None
    assert subject_name(certificate) == "CN=alice,OU=Sales,O=Acme"
    assert theirs.version() == "TLSv1.3"


def test_another_host_is_refused() -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="not valid for 'elsewhere'"):
        shaken(*contexts(["localhost"]), host="elsewhere")


def test_another_authority_is_refused() -> None:
    other = make_authority("kcli test", NOW).server(["localhost"], NOW)
    _, client = contexts(["localhost"])
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken(listener_context(inline((other.key_pem, other.chain_pem)), NOW).context, client)


def test_a_client_is_no_server() -> None:
    alice = AUTHORITY.client("CN=localhost", NOW)
    _, client = contexts(["localhost"])
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken(listener_context(inline((alice.key_pem, alice.chain_pem)), NOW).context, client)


def test_a_certificate_outlives_no_authority() -> None:
    brief = make_authority("brief", NOW, dt.timedelta(days=1))
    signed = brief.server(["localhost"], NOW + dt.timedelta(hours=20)).chain[0]
    assert signed.not_valid_after_utc == brief.identity.chain[0].not_valid_after_utc


def test_an_authority_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    write_secret(path, AUTHORITY.identity.pem)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = read_authority(path.read_bytes())
    server = again.server(["localhost"], NOW)
    shaken(listener_context(inline((server.key_pem, server.chain_pem)), NOW).context, contexts(["x"])[1])
    with pytest.raises(FileExistsError):
        write_secret(path, b"other")
    link = tmp_path / "link.pem"
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        write_secret(link, b"secret")
    with pytest.raises(UsageError, match="no authority"):
        read_authority(AUTHORITY.certificate_pem)


@pytest.mark.parametrize("host", ["", "a" * 70 + ".example", "a..b"])
def test_hosts_that_no_certificate_has(host: str) -> None:
    with pytest.raises(UsageError):
        AUTHORITY.server([host] if host else [], NOW)


def test_a_subject_that_is_none() -> None:
    with pytest.raises(UsageError, match="no distinguished name"):
        AUTHORITY.client("alice", NOW)
