"""Logins in the file of java.security.auth.login.config, which KAFKA_OPTS names."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.broker.config import BrokerConfig
from kcli.broker.config.security import LOGINS, listener_security, to_controllers
from kcli.broker.config.served import unserved
from kcli.broker.config.static_jaas import BYTES_MAX, LOGIN_CONFIG
from kcli.protocol.error_code import ErrorCode
from tests.broker.config.test_served import BROKER, NODE, SASL, TO_CONTROLLERS, TO_SASL, enabled, login
from tests.broker.running import RunningNode
from tests.broker.security.sasl_cases import BEGIN, LOGGED_IN, ask, message
from tests.broker.security.secured import unused_port

PLAIN, SCRAM = LOGINS["PLAIN"], LOGINS["SCRAM-SHA-256"]
FILE = f"""
// of all listeners
KafkaServer {{
  {PLAIN} required username="n" password="hidden" user_alice="hidden";
  {SCRAM} required
    username="s";
  {PLAIN} required username="other" user_bob="hidden";
}};
other.KafkaServer {{ {SCRAM} required username="o"; }};
"""


@pytest.fixture
def jaas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file; it has FILE in it."""
    file = tmp_path / "jaas.conf"
    file.write_text(FILE)
    monkeypatch.setenv("KAFKA_OPTS", f"-Xmx1G -D{LOGIN_CONFIG}={file}")
    return file


def reason(mechanism: str = "PLAIN") -> str | None:
    return unserved(BrokerConfig({**NODE, **SASL, **enabled(mechanism)}))


def options(listener: str, mechanism: str, **properties: str) -> dict[str, str]:
    config = BrokerConfig({**NODE, **SASL, **enabled(mechanism), **properties})
    return dict(listener_security(config, listener).login(mechanism).options)


@pytest.mark.usefixtures("jaas")
def test_whose_entry_it_is() -> None:
    """The listener's own section has its entries alone; of entries of one class the first counts, option by option."""
    assert reason() is None
    users = {"user_alice": "hidden", "user_bob": "hidden"}
    assert options("PLAINTEXT", "PLAIN") == {"username": "n", "password": "hidden", **users}
    assert options("PLAINTEXT", "SCRAM-SHA-256") == {"username": "s"}
    assert options("OTHER", "SCRAM-SHA-512") == {"username": "o"}
    assert options("PLAINTEXT", "PLAIN", **login("PLAIN", f"{PLAIN} required a=b;")) == {"a": "b"}


@pytest.mark.parametrize("form", ["={}", "file:{}", "file://{}"])
def test_the_forms_of_the_property(jaas: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    monkeypatch.setenv("KAFKA_OPTS", f"-D{LOGIN_CONFIG}=/nowhere -D{LOGIN_CONFIG}={form.format(jaas)}")
    assert options("PLAINTEXT", "SCRAM-SHA-256") == {"username": "s"}


@pytest.mark.usefixtures("jaas")
def test_a_node_logs_in_to_others_by_it() -> None:
    config = BrokerConfig({**BROKER, **TO_SASL, TO_CONTROLLERS: "PLAIN"})
    assert unserved(config) is None
    assert to_controllers(config).login() is not None


def test_a_file_that_cannot_be_used_ends_the_start(jaas: Path) -> None:
    where = f"KAFKA_OPTS: {LOGIN_CONFIG}={jaas}"
    name = "listener.name.plaintext.plain.sasl.jaas.config: PLAIN is enabled and has no login module, here or in"
    jndi = "com.sun.security.auth.module.JndiLoginModule"
    for text, expected in (
        ("KafkaServer { hidden", f"{where}: expected a control flag at the end of the file"),
        ("KafkaServer {\n x required password=1hidden; };", f"{where}: line 2: expected the value of an option"),
        ("Kafka { x required; };", f"{name} {where}"),
        (f"plaintext.KafkaServer {{ {SCRAM} required; }};" + FILE, f"{name} {where}"),
        (f"KafkaServer {{ {PLAIN} required; {jndi} required; }};", f"{where}: login module {jndi} is not allowed"),
        ("/" * (BYTES_MAX + 1), f"{where}: more than 1,048,576 bytes"),
    ):
        jaas.write_text(text)
        assert reason() == expected
    jaas.unlink()
    assert reason() == f"{where}: No such file or directory"
    assert reason("SCRAM-SHA-256") == f"{where}: No such file or directory"


def test_a_user_of_the_file_logs_in(jaas: Path, tmp_path: Path) -> None:
    jaas.write_text(f'sasl.KafkaServer {{ {PLAIN} required user_alice="secret"; }};\n')
    configured = {
        "listeners": f"PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0,CONTROLLER://127.0.0.1:{unused_port()}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
    }
    node = RunningNode(tmp_path / "data", configured)
    try:
        address = node.node.addresses["SASL"]
        assert [each["error_code"] for (each,) in ask(address, LOGGED_IN)] == [0, 0]
        (_, refused) = ask(address, (BEGIN, message(b"\0alice\0hidden")))
        assert refused[0]["error_code"] == ErrorCode.SASL_AUTHENTICATION_FAILED
    finally:
        node.stop()
