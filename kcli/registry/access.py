"""Who may use a registry: logins by HTTP's Basic scheme, and ACLs of subjects in a file.

    users file   NAME: PASSWORD, one a line, as Jetty's property files for Confluent's registry; roles behind a comma
                 are accepted and have no meaning; passwords in Jetty's OBF, MD5 and CRYPT forms are refused
    SCRAM store  the broker's users, with the passwords by which they log in to the broker
    ACL file     USER OPERATION[,OPERATION...] SUBJECT, one a line; USER and SUBJECT may be *, SUBJECT also PREFIX*;
                 the operations are READ, WRITE, DELETE, COMPATIBILITY_READ, COMPATIBILITY_WRITE, MODE_READ,
                 MODE_WRITE, or ALL; what no line allows is denied, except to super users and except what tells of the
                 registry alone. An operation on all subjects needs the subject *; a schema's id may be read by those
                 who may READ one of its subjects

A password that was right is kept as a keyed hash until the user's credential changes, because checking it by SCRAM
takes thousands of hashes. Source: RFC 7617.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from kcli.errors import UnreadableInput
from kcli.registry.messages import Operation, error_answer
from kcli.security.scram import MECHANISMS, ScramCredential
from kcli.service.messages import Answer

REALM: Final = "SchemaRegistry"
REMEMBERED_MAX: Final = 1000
FILE_BYTES_MAX: Final = 4 << 20
JETTY_FORMS: Final = ("OBF:", "MD5:", "CRYPT:")
ALL: Final = "ALL"
EVERYTHING: Final = "*"


class Users(Protocol):
    """Users with passwords."""

    def credential(self, name: str) -> object:
        """Return the value with which the user's password is checked; it is equal to earlier ones as long as the
        password is the same. None for an unknown user."""

    def is_right(self, credential: object, password: str) -> bool:
        """Whether the password is that of the credential. Checking it takes some time."""


class FileUsers:
    """The users of a file. Raises UnreadableInput."""

    def __init__(self, path: Path) -> None:
        self._passwords: dict[str, str] = {}
        for number, line in _lines(path):
            name, colon, rest = line.partition(":")
            password = rest.strip().split(",")[0].strip()
            if not colon or not name.strip():
                raise UnreadableInput(str(path), f"line {number}: NAME: PASSWORD is expected")
            if password.startswith(JETTY_FORMS):
                form = password.partition(":")[0]
                raise UnreadableInput(str(path), f"line {number}: a password in Jetty's form {form} is not supported")
            self._passwords[name.strip()] = password

    def credential(self, name: str) -> object:
        """Return the user's password; None for an unknown user."""
        return self._passwords.get(name)

    def is_right(self, credential: object, password: str) -> bool:
        """Whether `password` is the password of the user with this credential."""
        return isinstance(credential, str) and hmac.compare_digest(credential.encode(), password.encode())


class ScramStoreUsers:
    """The SCRAM users of a cluster. records: returns the UserScramCredentialRecords by (code of mechanism, name)."""

    def __init__(self, records: Callable[[], Mapping[tuple[int, str], Mapping[str, Any]]]) -> None:
        self._records = records

    def credential(self, name: str) -> object:
        """Return the user's credential of the strongest mechanism; None for an unknown user."""
        records = self._records()
        for mechanism in sorted(MECHANISMS.values(), key=lambda each: -each.code):
            if (record := records.get((mechanism.code, name))) is not None:
                return mechanism, ScramCredential.of(record)
        return None

    def is_right(self, credential: object, password: str) -> bool:
        """Whether `password` is the password of the user with this credential."""
        if not isinstance(credential, tuple):
            return False
        mechanism, known = credential
        salted = mechanism.salted(password, known.salt, known.iterations)
        made = ScramCredential.of_salted(mechanism, known.salt, salted, known.iterations)
        return hmac.compare_digest(made.stored_key, known.stored_key)


class Rule(NamedTuple):
    """A line of an ACL file. operations: None for all."""

    user: str
    operations: frozenset[Operation] | None
    subject: str

    def allows(self, user: str, operation: Operation, subject: str | None) -> bool:
        """Whether the rule allows an operation. subject: None if the operation concerns all subjects or none."""
        if self.user not in (EVERYTHING, user) or not (self.operations is None or operation in self.operations):
            return False
        if self.subject.endswith(EVERYTHING):
            return self.subject == EVERYTHING or (subject is not None and subject.startswith(self.subject[:-1]))
        return self.subject == subject


def read_rules(path: Path) -> list[Rule]:
    """Return the rules of an ACL file. Raises UnreadableInput."""
    rules = []
    for number, line in _lines(path):
        words = line.split()
        if len(words) != 3:
            raise UnreadableInput(str(path), f"line {number}: USER OPERATION[,OPERATION...] SUBJECT is expected")
        user, operations, subject = words
        names = [each.upper() for each in operations.split(",")]
        unknown = [each for each in names if each != ALL and each not in Operation.__members__]
        if unknown:
            known = ", ".join([ALL, *Operation.__members__])
            raise UnreadableInput(str(path), f"line {number}: {unknown[0]!r} is no operation: {known}")
        if EVERYTHING in subject[:-1]:
            raise UnreadableInput(str(path), f"line {number}: * may stand only at the end of a subject")
        rules.append(Rule(user, None if ALL in names else frozenset(Operation[each] for each in names), subject))
    return rules


def _lines(path: Path) -> Iterable[tuple[int, str]]:
    """Yield the lines of a file that are neither empty nor comments, with their numbers. Raises UnreadableInput."""
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
        text = data.decode()
    except OSError as error:
        raise UnreadableInput.of(str(path), error) from error
    except UnicodeDecodeError as error:
        raise UnreadableInput(str(path), f"byte {error.start:,}: not UTF-8") from None
    if len(data) > FILE_BYTES_MAX:
        raise UnreadableInput(str(path), f"more than {FILE_BYTES_MAX:,} bytes")
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith(("#", "!")):
            yield number, line.strip()


class Access:
    """Authenticates and authorizes requests. users: None if everybody may use the registry. rules: None if every user
    may do everything."""

    def __init__(
        self, users: Sequence[Users] | None = None, rules: Sequence[Rule] | None = None, super_users: Iterable[str] = ()
    ) -> None:
        self._users, self._rules, self._super_users = users, rules, frozenset(super_users)
        self._key = os.urandom(32)
        self._remembered: dict[bytes, tuple[str, Users, object]] = {}
        self._checking: asyncio.Lock | None = None

    @property
    def is_open(self) -> bool:
        """Whether everybody may do everything."""
        return self._users is None and self._rules is None

    def known_user(self, authorization: str) -> str | None:
        """Return the user of an Authorization header whose password was checked before; None if it must be checked now.
        Return the empty name if the registry has no users."""
        if self._users is None:
            return ""
        found = self._remembered.get(self._hash(authorization))
        if found is None or found[1].credential(found[0]) != found[2]:
            return None
        return found[0]

    async def user(self, authorization: str) -> str | None:
        """Return the user of an Authorization header; None without a header, or if the password is wrong."""
        known = self.known_user(authorization)
        login = parse_basic(authorization)
        if known is not None or login is None:
            return known
        name, password = login
        if self._checking is None:
            self._checking = asyncio.Lock()
        async with self._checking:  # one password at a time, so that guesses do not occupy all threads
            for users in self._users or ():
                credential = users.credential(name)
                if credential is not None and await asyncio.to_thread(users.is_right, credential, password):
                    while len(self._remembered) >= REMEMBERED_MAX:
                        del self._remembered[next(iter(self._remembered))]
                    self._remembered[self._hash(authorization)] = name, users, credential
                    return name
        return None

    def allows(self, user: str, operation: Operation, subject: str | None) -> bool:
        """Whether a user may do an operation."""
        if self._rules is None or user in self._super_users:
            return True
        return any(each.allows(user, operation, subject) for each in self._rules)

    @property
    def asks_for_subjects(self) -> bool:
        """Whether the access depends on the subject of a request."""
        return self._rules is not None

    def _hash(self, authorization: str) -> bytes:
        return hashlib.blake2b(authorization.encode("latin-1", "replace"), key=self._key).digest()


def parse_basic(authorization: str) -> tuple[str, str] | None:
    """Return the name and the password of an Authorization header; None if it has none."""
    scheme, _, rest = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(rest.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None
    return (name, password) if colon else None


def unauthorized() -> Answer:
    """Return the answer to a request without a login, or with a wrong one."""
    return error_answer(401, "Unauthorized")._replace(headers={"WWW-Authenticate": f'Basic realm="{REALM}"'})
