"""New certificates of a running node: from changed files and changed configurations; unsound ones change nothing."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.x509 import load_der_x509_certificate

from kcli.broker.network import certificates
from kcli.tls.certificates import make_authority
from tests.broker.running import Closed
from tests.broker.security.secured import NOW, Secured, secured_node

HOSTS = ("localhost", "127.0.0.1")


@pytest.fixture
def secured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Secured]:
    monkeypatch.setattr(certificates, "LOOK_S", 0.05)
    with secured_node(tmp_path) as node:
        yield node


def shown(secured: Secured) -> int:
    """The serial number of the certificate that the listener SSL shows."""
    with secured.connect("SSL", "alice") as client:
        der = client.socket.getpeercert(binary_form=True)  # type: ignore[attr-defined]
        assert client.call("api_versions", 0)["error_code"] == 0
    return load_der_x509_certificate(der).serial_number


def new(secured: Secured, *hosts: str) -> bytes:
    """Another certificate and key of the node."""
    return secured.authority.server(hosts or HOSTS, NOW).pem


def wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < until, "nothing has changed"
        time.sleep(0.02)


def write(path: Path, data: bytes) -> None:
    """Replace a file, as whole."""
    other = path.with_suffix(".new")
    other.write_bytes(data)
    other.replace(path)


def alter(secured: Secured, **values: str | None) -> dict[str, Any]:
    """Change ssl.* of the listener SSL, with _ for the dots; None to take a value away."""
    configs = [
        {
            "name": f"listener.name.ssl.ssl.{name.replace('_', '.')}",
            "config_operation": int(value is None),
            "value": value,
        }
        for name, value in values.items()
    ]
    resource = {"resource_type": 4, "resource_name": "1", "configs": configs}
    with secured.connect("PLAINTEXT") as client:
        found: dict[str, Any] = client.call("incremental_alter_configs", 1, resources=[resource], validate_only=False)[
            "responses"
        ][0]
    return found


def test_a_changed_file_is_taken_over(secured: Secured) -> None:
    before = shown(secured)
    with secured.connect("SSL", "alice") as old:
        write(secured.folder / "server.pem", new(secured))
        wait_until(lambda: shown(secured) != before)
        assert old.call("api_versions", 0)["error_code"] == 0, "connections go on"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no private key in PEM"),
        (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", ""),
        (None, "ssl.allow.dn.changes: must be true"),
    ],
)
def test_an_unsound_file_changes_nothing(
    data: bytes | None, reason: str, secured: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    before, path = shown(secured), secured.folder / "server.pem"
    with caplog.at_level(logging.WARNING, "kcli.broker"):
        write(path, new(secured, "other", *HOSTS) if data is None else data)
        kept = "keeps its keys and trusted certificates"
        wait_until(lambda: sum("listener SSL keeps" in each.message for each in caplog.records) == 1)
        time.sleep(0.3)
    lines = [each for each in caplog.records if kept in each.message and "listener SSL " in each.message]
    assert len(lines) == 1, "one line for one change"
    assert reason in lines[0].message
    assert lines[0].exc_info is None
    assert shown(secured) == before
    write(path, new(secured))
    wait_until(lambda: shown(secured) != before)


def test_trusted_certificates_are_taken_over(secured: Secured) -> None:
    other = make_authority("another", NOW)
    (secured.folder / "mallory.pem").write_bytes(other.client("CN=mallory", NOW).pem)
    write(secured.folder / "both.pem", secured.authority.certificate_pem + other.certificate_pem)
    with pytest.raises((OSError, Closed)), secured.connect("SSL", "mallory") as client:
        client.call("api_versions", 0)
    assert alter(secured, truststore_location=str(secured.folder / "both.pem"))["error_code"] == 0
    wait_until(lambda: _is_let_in(secured, "mallory"))


def _is_let_in(secured: Secured, user: str) -> bool:
    try:
        with secured.connect("SSL", user) as client:
            return bool(client.call("api_versions", 0)["error_code"] == 0)
    except (OSError, Closed):
        return False


def test_a_dynamic_configuration_is_taken_over(secured: Secured) -> None:
    before = shown(secured)
    path = secured.folder / "other.pem"
    path.write_bytes(new(secured))
    assert alter(secured, keystore_location=str(path))["error_code"] == 0
    wait_until(lambda: shown(secured) != before)
    after = shown(secured)
    assert alter(secured, keystore_location=None)["error_code"] == 0
    wait_until(lambda: shown(secured) == before)
    assert before != after


def test_an_unsound_configuration_is_refused(secured: Secured) -> None:
    before = shown(secured)
    path = secured.folder / "other.pem"
    path.write_bytes(new(secured, "other", *HOSTS))
    for location, reason in ((secured.folder / "none.pem", "No such file"), (path, "ssl.allow.dn.changes")):
        found = alter(secured, keystore_location=str(location))
        assert found["error_code"] == 42
        assert reason in found["error_message"]
    assert alter(secured, keystore_password="hush")["error_code"] == 42
    assert shown(secured) == before
