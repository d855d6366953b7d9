"""Delegation tokens. HMACs are Kafka's: tests/interop/test_sasl_kafka.py."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from kcli.security.delegation_tokens import DelegationTokens, may_describe, may_renew
from kcli.security.sasl import AuthenticationFailed, Login
from kcli.security.scram import MECHANISMS, SCRAM_SHA_256, ScramServer, ScramUsers, TokenCredential, new_nonce
from kcli.security.scram_client import converse

RECORD = {
    "owner": "User:al:ice",
    "requester": "User:admin",
    "renewers": ["User:bob"],
    "issueTimestamp": 0,
    "maxTimestamp": 1_000,
    "expirationTimestamp": 500,
    "tokenId": "dG9rZW4",
}
RECORDS: dict[str, dict[str, Any]] = {"dG9rZW4": RECORD}


@pytest.mark.parametrize("mechanism", MECHANISMS.values())
def test_a_login(mechanism: Any) -> None:
    tokens = DelegationTokens("secret", lambda: RECORDS)

    def of_token(token_id: str) -> TokenCredential | None:
        return tokens.credential(token_id, mechanism, 500)

    password = base64.b64encode(tokens.hmac("dG9rZW4")).decode()
    users = ScramUsers(mechanism=mechanism, of_user=lambda _: None, of_token=of_token, decoy_key=b"")
    for with_token in (True, False):
        served = ScramServer(users, new_nonce())
        conversation = converse(mechanism, "dG9rZW4", password, new_nonce(), with_token=with_token)
        proof = conversation.send(served.step(next(conversation)))
        if with_token:
            served.step(proof)
            assert served.login == Login(name="al:ice", with_token=True, expires_ms=500)
        else:
            with pytest.raises(AuthenticationFailed):
                served.step(proof)


def test_tokens_that_are_not_there() -> None:
    records = dict(RECORDS)
    tokens = DelegationTokens("secret", lambda: records)
    assert tokens.credential("another", SCRAM_SHA_256, 0) is None
    assert tokens.credential("dG9rZW4", SCRAM_SHA_256, 501) is None
    first = tokens.credential("dG9rZW4", SCRAM_SHA_256, 500)
    assert first == tokens.credential("dG9rZW4", SCRAM_SHA_256, 0)
    assert first == DelegationTokens("secret", lambda: RECORDS).credential("dG9rZW4", SCRAM_SHA_256, 0)
    assert first != DelegationTokens("other", lambda: RECORDS).credential("dG9rZW4", SCRAM_SHA_256, 0)
    assert tokens.id_of(tokens.hmac("dG9rZW4")) == "dG9rZW4"
    assert tokens.id_of(tokens.hmac("another")) is None
    records.clear()
    assert tokens.credential("dG9rZW4", SCRAM_SHA_256, 0) is None
    assert tokens.id_of(tokens.hmac("dG9rZW4")) is None


def test_who_may() -> None:
    assert [may_renew(RECORD, each) for each in ("User:al:ice", "User:bob", "User:admin", "al:ice")] == [1, 1, 0, 0]
    assert [may_describe(RECORD, each) for each in ("User:al:ice", "User:bob", "User:admin", "User:x")] == [1, 1, 1, 0]
