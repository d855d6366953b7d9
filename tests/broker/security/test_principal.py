"""The principal in an Envelope."""

from __future__ import annotations

import pytest

from kcli.broker.wire.principal import BadPrincipal, principal_bytes, principal_of


def test_the_bytes_are_kafkas() -> None:
    assert principal_bytes("User:ANONYMOUS") == b"\0\0\x05User\x0aANONYMOUS\0\0"


@pytest.mark.parametrize("principal", ["User:alice", "User:", ":", "Group:a:b", "User:" + "ü" * 300])
def test_a_principal_comes_back(principal: str) -> None:
    assert principal_of(principal_bytes(principal)) == principal


def test_what_is_no_principal() -> None:
    whole = principal_bytes("User:alice")
    for length in range(len(whole) - 1):
        with pytest.raises(BadPrincipal):
            principal_of(whole[:length])
    for data in (b"\0\1" + whole[2:], b"\0\0\0\0\0\0", b"\0\0\xff\xff\xff\xff\xff\xff", b"\0\0\x03\xff\xff\x01\0\0"):
        with pytest.raises(BadPrincipal):
            principal_of(data)
