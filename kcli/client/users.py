"""The SCRAM users of a cluster: DescribeUserScramCredentials and AlterUserScramCredentials, sent to any broker.

A request that adds a user has the salted password, from which a broker makes the keys that it keeps; the password
itself is sent nowhere. Source: KIP-554.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kcli.client.wire import AnyBroker, ErrorAnswer, NobodyAnswers, call
from kcli.errors import KcliError
from kcli.protocol.error_code import ErrorCode
from kcli.security.scram import MECHANISMS, ScramMechanism, new_nonce

# isort: split
from kio.schema.alter_user_scram_credentials.v0.request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kio.schema.alter_user_scram_credentials.v0.response import AlterUserScramCredentialsResponse
from kio.schema.describe_user_scram_credentials.v0.request import DescribeUserScramCredentialsRequest, UserName
from kio.schema.describe_user_scram_credentials.v0.response import DescribeUserScramCredentialsResponse
from kio.static.primitive import i8, i32

_UNANSWERED = "Kafka 4.3 leaves a client without an answer that asks for all users and may not DESCRIBE the cluster"
_NAMES = {each.code: each.name for each in MECHANISMS.values()}


class ScramUser(NamedTuple):
    """One SCRAM credential of a user. mechanism: its name in Kafka, such as SCRAM-SHA-256; its code if it is
    unknown."""

    user: str
    mechanism: str
    iterations: int


class Users:
    """The SCRAM users of a cluster."""

    def __init__(self, brokers: AnyBroker) -> None:
        self._brokers = brokers

    def described(self, names: Sequence[str]) -> list[ScramUser | KcliError]:
        """Return the credentials of users, sorted, and a KcliError for each user that has none. names: empty for all
        users. Raises KcliError: NobodyAnswers, ErrorAnswer."""
        users = tuple(UserName(name=name) for name in names) or None
        request = DescribeUserScramCredentialsRequest(users=users)
        try:
            answer = self._brokers.ask(lambda server: call(server, request, DescribeUserScramCredentialsResponse))
        except NobodyAnswers as error:
            if users is None and isinstance(error.error, TimeoutError):
                raise KcliError(f"{error}: {_UNANSWERED}") from None
            raise
        if answer.error_code != ErrorCode.NONE:
            raise ErrorAnswer("", answer.error_code, answer.error_message)
        found: list[ScramUser | KcliError] = []
        for each in sorted(answer.results, key=lambda result: result.user):
            if each.error_code != ErrorCode.NONE:
                found.append(ErrorAnswer(each.user, each.error_code, each.error_message))
            found += sorted(
                ScramUser(each.user, _NAMES.get(info.mechanism, str(info.mechanism)), info.iterations)
                for info in each.credential_infos
            )
        return found

    def add(self, name: str, password: str, mechanism: ScramMechanism, iterations: int) -> None:
        """Give a user a credential, in place of the one that the user has for the mechanism. Raises NobodyAnswers,
        ErrorAnswer."""
        salt = new_nonce().encode()
        upsertion = ScramCredentialUpsertion(
            name=name,
            mechanism=i8(mechanism.code),
            iterations=i32(iterations),
            salt=salt,
            salted_password=mechanism.salted(password, salt, iterations),
        )
        self._alter(AlterUserScramCredentialsRequest(deletions=(), upsertions=(upsertion,)))

    def remove(self, name: str, mechanism: ScramMechanism) -> None:
        """Delete a user's credential for a mechanism. Raises NobodyAnswers, ErrorAnswer."""
        deletion = ScramCredentialDeletion(name=name, mechanism=i8(mechanism.code))
        self._alter(AlterUserScramCredentialsRequest(deletions=(deletion,), upsertions=()))

    def _alter(self, request: AlterUserScramCredentialsRequest) -> None:
        answer = self._brokers.ask(lambda server: call(server, request, AlterUserScramCredentialsResponse))
        for each in answer.results:
            if each.error_code != ErrorCode.NONE:
                raise ErrorAnswer(each.user, each.error_code, each.error_message)
