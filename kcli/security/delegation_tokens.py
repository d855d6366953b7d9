"""Delegation tokens: their HMACs, and the credentials against which logins with them are checked.

    token id    random; in the metadata log, with owner, renewers and times (DelegationTokenRecord)
    HMAC        HMAC-SHA512(delegation.token.secret.key, token id); not stored, as every broker has the secret key
    login       SCRAM with the token id as the name, the HMAC in base64 as the password, and tokenauth=true

Source: DelegationTokenManager, DelegationTokenControlManager, TokenInformation; KIP-48, KIP-373.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable, Mapping
from typing import Any, Final

from kcli.security.scram import ScramCredential, ScramMechanism, TokenCredential

Record = Mapping[str, Any]
"""A DelegationTokenRecord."""

_KEPT_MAX: Final = 10_000


class DelegationTokens:
    """The tokens of a cluster. secret_key: delegation.token.secret.key. records: returns the DelegationTokenRecords of
    the metadata image, by token id."""

    def __init__(self, secret_key: str, records: Callable[[], Mapping[str, Record]]) -> None:
        self._secret_key = secret_key.encode()
        self._records = records
        self._credentials: dict[tuple[str, str], ScramCredential] = {}
        self._ids: dict[bytes, str] = {}  # HMAC -> token id
        self._known: set[str] = set()  # the token ids that are in _ids

    def hmac(self, token_id: str) -> bytes:
        """Return the HMAC of a token."""
        return hmac.digest(self._secret_key, token_id.encode(), "sha512")

    def id_of(self, given: bytes) -> str | None:
        """Return the id of the delegation token whose HMAC is `given`; None if no token has it."""
        records = self._records()
        if self._known != records.keys():
            self._ids = {each: token_id for each, token_id in self._ids.items() if token_id in records}
            self._ids |= {self.hmac(token_id): token_id for token_id in records if token_id not in self._known}
            self._known = set(records)
        return self._ids.get(given)

    def credential(self, token_id: str, mechanism: ScramMechanism, now_ms: int) -> TokenCredential | None:
        """Return the credential against which a login with the token is checked; None for a token that does not exist
        or has expired. now_ms: the time, in ms since 1970."""
        record = self._records().get(token_id)
        if record is None or has_expired(record, now_ms):
            return None
        key = token_id, mechanism.name
        credential = self._credentials.get(key)
        if credential is None:
            password = base64.b64encode(self.hmac(token_id)).decode()
            salt = hmac.digest(self._secret_key, f"salt of {token_id}".encode(), "sha256")
            credential = ScramCredential.of_password(mechanism, password, salt, mechanism.iterations_min)
            if len(self._credentials) >= _KEPT_MAX:
                self._credentials.clear()
            self._credentials[key] = credential
        _, _, owner = record["owner"].partition(":")
        return TokenCredential(owner=owner, credential=credential, expires_ms=record["expirationTimestamp"])


def has_expired(record: Record, now_ms: int) -> bool:
    """Return whether a token has passed its expiry timestamp or its max timestamp."""
    return bool(record["maxTimestamp"] < now_ms or record["expirationTimestamp"] < now_ms)


def may_renew(record: Record, principal: str) -> bool:
    """Return whether the principal may renew and expire the token: whether it is the owner or a renewer of the
    token."""
    return principal == record["owner"] or principal in record["renewers"]


def may_describe(record: Record, principal: str) -> bool:
    """Return whether the principal may describe the token without an ACL: its owner, its renewers and its requester
    may."""
    return may_renew(record, principal) or principal == record["requester"]
