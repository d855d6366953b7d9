"""SASL PLAIN. Kafka's words: tests/interop/test_sasl_kafka.py."""

from __future__ import annotations

import pytest

from kcli.security.jaas import login_module
from kcli.security.plain import LOGIN_MODULE, PlainServer, passwords_of
from kcli.security.sasl import AuthenticationFailed, Login

PASSWORDS = {"alice": "secret", "bob": "", "a=,": "ü"}


def test_passwords_of_a_listener() -> None:
    module = login_module(f'{LOGIN_MODULE} required username="admin" password="x" user_al="1" user_="e" user_a_b="2";')
    assert passwords_of(module) == {"al": "1", "": "e", "a_b": "2"}
    assert passwords_of(login_module('other.Module required user_al="1";')) == {}


@pytest.mark.parametrize("message", ["\0alice\0secret", "alice\0alice\0secret", "\0a=,\0ü"])
def test_logins(message: str) -> None:
    served = PlainServer(PASSWORDS)
    assert served.login is None
    assert served.step(message.encode()) == b""
    assert served.login == Login(name=message.split("\0")[1])
    with pytest.raises(AuthenticationFailed):
        served.step(message.encode())


@pytest.mark.parametrize(
    ("message", "error_message"),
    [
        (b"", "expected 3 tokens, got 1"),
        (b"alice\0secret", "got 2"),
        (b"\0alice\0secret\0", "got 4"),
        (b"\0alice\0secret\0\0\0", "got 4"),
        (b"\0\0secret", "username not specified"),
        (b"\0alice\0", "password not specified"),
        (b"\0alice\0wrong", "Invalid username or password"),
        (b"\0nobody\0secret", "Invalid username or password"),
        (b"\0bob\0x", "Invalid username or password"),
        (b"\0alic\xff\0secret", "Invalid username or password"),
        (b"bob\0alice\0secret", "different from username"),
    ],
)
def test_failures(message: bytes, error_message: str) -> None:
    served = PlainServer(PASSWORDS)
    with pytest.raises(AuthenticationFailed, match=error_message) as raised:
        served.step(message)
    assert raised.value.error_message == str(raised.value)
    assert served.login is None
    with pytest.raises(AuthenticationFailed):
        served.step(b"\0alice\0secret")
    assert served.login is None
