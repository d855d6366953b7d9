"""AlterUserScramCredentials and DescribeUserScramCredentials: who may log in with SCRAM, and with which mechanism.

    change       fields                             valid if
    deletion     (name, mechanism)                  the user has a credential for that mechanism
    upsertion    (name, mechanism, credential)      the credential has 4,096 to 16,384 iterations

A request may name a user only once. If it names a user again, all its changes of that user are refused: with the error
of an earlier change of that user if there is one, else with DUPLICATE_RESOURCE. The salted password of a request is not
written to the metadata log: a record has the stored key and the server key, which are derived from it. Source:
ScramControlManager, ScramImage; KIP-554, KIP-900.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kcli.java.hashing import hash_map_order
from kcli.metadata.image import MetadataImage, Record
from kcli.metadata.metadata_version import SCRAM
from kcli.metadata.result import NO_ERROR, Error, Result
from kcli.protocol.error_code import ErrorCode
from kcli.security.scram import MECHANISMS, ScramCredential

MECHANISM_OF_CODE: Final = {each.code: each for each in MECHANISMS.values()}
_TWICE: Final = Error(ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
_TOO_OLD: Final = Error(ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM")


class Deletion(NamedTuple):
    """The credential to delete. mechanism: its code."""

    name: str
    mechanism: int


class Upsertion(NamedTuple):
    """The credential that a user is to have. mechanism: its code. credential: an Error if the request has no valid
    one."""

    name: str
    mechanism: int
    credential: ScramCredential | Error


class UserCredentials(NamedTuple):
    """The credentials of a user as the response describes them. mechanisms: the mechanism's code and the iterations of
    each credential; empty with an error."""

    name: str
    error: Error
    mechanisms: Sequence[tuple[int, int]] = ()


def upsertion(name: str, mechanism: int, salt: bytes, salted_password: bytes, iterations: int) -> Upsertion:
    """Return the Upsertion of a request's fields. This computes three HMACs, and does not read the image. If the fields
    are invalid, its `credential` is an Error."""
    error = _unacceptable(name, mechanism)
    if error is not None:
        return Upsertion(name, mechanism, error)
    known = MECHANISM_OF_CODE[mechanism]
    if iterations < known.iterations_min:
        return Upsertion(name, mechanism, Error(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"))
    if iterations > known.iterations_max:
        return Upsertion(name, mechanism, Error(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"))
    if not salted_password:  # Java has no HMAC with an empty key
        return Upsertion(name, mechanism, Error(ErrorCode.UNKNOWN_SERVER_ERROR))
    return Upsertion(name, mechanism, ScramCredential.of_salted(known, salt, salted_password, iterations))


def alter_user_scram_credentials(
    image: MetadataImage, deletions: Iterable[Deletion], upsertions: Iterable[Upsertion]
) -> Result[list[tuple[str, Error]]]:
    """Delete and set credentials, each user's independently of other users. Return users with their errors, in Kafka's
    order: deletions, upsertions, refusals.

    Errors: DUPLICATE_RESOURCE, UNSUPPORTED_VERSION, UNACCEPTABLE_CREDENTIAL, UNSUPPORTED_SASL_MECHANISM,
    RESOURCE_NOT_FOUND, UNKNOWN_SERVER_ERROR.
    """
    is_supported = image.metadata_version >= SCRAM
    errors: dict[str, Error] = {}
    deleted: dict[str, Deletion] = {}
    upserted: dict[str, Upsertion] = {}
    for deletion in deletions:
        if deletion.name in errors:
            continue
        if deleted.pop(deletion.name, None) is not None:
            errors[deletion.name] = _TWICE
        elif (error := _refusal(image, deletion) if is_supported else _TOO_OLD) is not None:
            errors[deletion.name] = error
        else:
            deleted[deletion.name] = deletion
    for each in upsertions:
        if each.name in errors:
            continue
        if deleted.pop(each.name, None) is not None or upserted.pop(each.name, None) is not None:
            errors[each.name] = _TWICE
        elif not is_supported:
            errors[each.name] = _TOO_OLD
        elif isinstance(each.credential, Error):
            errors[each.name] = each.credential
        else:
            upserted[each.name] = each
    records: list[Record] = [
        ("RemoveUserScramCredentialRecord", 0, {"name": name, "mechanism": deleted[name].mechanism})
        for name in hash_map_order(deleted)
    ]
    records += [_record(upserted[name]) for name in hash_map_order(upserted)]
    done = [(value["name"], NO_ERROR) for _, _, value in records]
    return Result(records, done + [(name, errors[name]) for name in hash_map_order(errors)])


def _refusal(image: MetadataImage, deletion: Deletion) -> Error | None:
    error = _unacceptable(deletion.name, deletion.mechanism)
    if error is None and (deletion.mechanism, deletion.name) not in image.scram_credentials:
        return Error(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
    return error


def _unacceptable(name: str, mechanism: int) -> Error | None:
    if not name:
        return Error(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if mechanism not in MECHANISM_OF_CODE:
        return Error(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    return None


def _record(each: Upsertion) -> Record:
    assert isinstance(each.credential, ScramCredential), "it was not refused"
    return credential_record(each.name, each.mechanism, each.credential)


def credential_record(name: str, mechanism: int, credential: ScramCredential) -> Record:
    """Return the record that gives a user a credential. mechanism: its code."""
    value = {
        "name": name,
        "mechanism": mechanism,
        "salt": credential.salt,
        "storedKey": credential.stored_key,
        "serverKey": credential.server_key,
        "iterations": credential.iterations,
    }
    return "UserScramCredentialRecord", 0, value


def describe_user_scram_credentials(
    credentials: Mapping[tuple[int, str], Mapping[str, Any]], names: Sequence[str]
) -> list[UserCredentials]:
    """Return the credentials of these users, in Kafka's order. credentials: those of the metadata image. names: empty
    for all users.

    Errors: DUPLICATE_RESOURCE for a name that the request has twice, RESOURCE_NOT_FOUND for a user without a
    credential.
    """
    times = Counter(names) if names else dict.fromkeys((name for _, name in credentials), 1)
    return [_described(credentials, name, times[name]) for name in hash_map_order(times)]


def _described(credentials: Mapping[tuple[int, str], Mapping[str, Any]], name: str, times: int) -> UserCredentials:
    if times > 1:
        reason = "Cannot describe SCRAM credentials for the same user twice in a single request: "
        return UserCredentials(name, Error(ErrorCode.DUPLICATE_RESOURCE, reason + name))
    found = [(code, credentials[code, name]["iterations"]) for code in MECHANISM_OF_CODE if (code, name) in credentials]
    if not found:
        reason = "Attempt to describe a user credential that does not exist: "
        return UserCredentials(name, Error(ErrorCode.RESOURCE_NOT_FOUND, reason + name))
    return UserCredentials(name, NO_ERROR, found)
