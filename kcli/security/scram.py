"""SCRAM-SHA-256 and SCRAM-SHA-512: the client proves that it knows the password, and the server that it has the
credential, and neither sends its secret.

    client first   n,[a=AUTHZID],n=NAME,r=CLIENT NONCE[,tokenauth=true]
    server first   r=CLIENT NONCE SERVER NONCE,s=SALT,i=ITERATIONS
    client final   c=CHANNEL BINDING,r=BOTH NONCES,p=PROOF
    server final   v=SERVER SIGNATURE

    salted password = PBKDF2(password, salt, iterations)     client key = HMAC(salted password, "Client Key")
    stored key = H(client key)                               server key = HMAC(salted password, "Server Key")
    auth message = client first without its header, server first, client final without its proof
    proof = client key XOR HMAC(stored key, auth message)    server signature = HMAC(server key, auth message)

"=" and "," in a name are "=3D" and "=2C"; salts, proofs and signatures are base64. With tokenauth=true the name is the
id of a delegation token. Channel binding is not offered: c is the header "n,," again, in base64.

A name that has no credential gets a server first message like any other, and its login fails at the proof: the same
messages, after the same work, as with a wrong password. Source: ScramSaslServer, ScramFormatter, ScramMessages; RFC
5802, RFC 7677, KIP-84.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from string import ascii_letters, ascii_lowercase, digits
from typing import Any, Final, Self

from kcli.security.sasl import AuthenticationFailed, Login, Unanswered

EXTENSION: Final = "tokenauth"
"""The SCRAM extension that a client sends if it logs in with a delegation token."""
_BASE36: Final = digits + ascii_lowercase
_BASE36_PAIRS: Final = [one + other for one in _BASE36 for other in _BASE36]
_MESSAGE_MAX: Final = 64 << 10
"""The maximum length of a client's message, in bytes, as a client sends messages before it is authenticated. Kafka does
not answer a message with 10 KB of extensions."""
_NONCE_BITS: Final = 130
_RANDOM_BYTES: Final = 17
_NONCE_CHARACTERS: Final = 26
_CHARACTERS: Final = (_BASE36 * 8)[:256].encode()
"""A translation table of bytes: each random byte to a letter or a digit."""
_BASE64: Final = frozenset(ascii_letters + digits + "+/")


@dataclass(frozen=True, slots=True)
class ScramMechanism:
    """A mechanism. code: its number in records and requests. algorithm: the hash, as hashlib names it."""

    name: str
    code: int
    algorithm: str
    iterations_min: int = 4096
    iterations_max: int = 16_384

    @property
    def digest_bytes(self) -> int:
        """The size of a hash, in bytes."""
        return self.code * 32

    def hash(self, data: bytes) -> bytes:
        """Return the hash of `data` by the mechanism's algorithm: H(str) of RFC 5802."""
        return hashlib.new(self.algorithm, data).digest()

    def hmac(self, key: bytes, data: bytes) -> bytes:
        """Return HMAC(key, data)."""
        return hmac.digest(key, data, self.algorithm)

    def salted(self, password: str, salt: bytes, iterations: int) -> bytes:
        """Return the salted password."""
        return hashlib.pbkdf2_hmac(self.algorithm, password.encode(), salt, iterations)


SCRAM_SHA_256: Final = ScramMechanism("SCRAM-SHA-256", 1, "sha256")
SCRAM_SHA_512: Final = ScramMechanism("SCRAM-SHA-512", 2, "sha512")
MECHANISMS: Final = {each.name: each for each in (SCRAM_SHA_256, SCRAM_SHA_512)}


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """The values that a server stores in place of a password; `repr` omits all but the iterations."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """Return the credential of a UserScramCredentialRecord."""
        return cls(record["salt"], record["storedKey"], record["serverKey"], record["iterations"])

    @classmethod
    def of_salted(cls, mechanism: ScramMechanism, salt: bytes, salted: bytes, iterations: int) -> Self:
        """Return the credential of a salted password, which a client sends in AlterUserScramCredentials."""
        stored_key = mechanism.hash(mechanism.hmac(salted, b"Client Key"))
        return cls(salt, stored_key, mechanism.hmac(salted, b"Server Key"), iterations)

    @classmethod
    def of_password(cls, mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> Self:
        """Return the credential of a password."""
        return cls.of_salted(mechanism, salt, mechanism.salted(password, salt, iterations), iterations)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCredential:
    """The credential of a delegation token. owner: the name of the user that a login with the token authenticates."""

    owner: str
    credential: ScramCredential
    expires_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramUsers:
    """The users that may log in with one mechanism.

    of_user: name -> credential. of_token: token id -> credential; None if there is none. decoy_key: a secret from
    which the salts of names without a credential are derived; the same on all nodes of a cluster and after a restart,
    so that such a name always gets the same salt. usual_iterations: returns the iterations of most users, which a name
    without a credential gets too; None: the mechanism's minimum.
    """

    mechanism: ScramMechanism
    of_user: Callable[[str], ScramCredential | None]
    of_token: Callable[[str], TokenCredential | None]
    decoy_key: bytes = field(repr=False)
    usual_iterations: Callable[[], int] | None = None

    def decoy(self, name: str) -> ScramCredential:
        """Return a credential for a name that has none; no password matches it."""
        bits = hmac.digest(self.decoy_key, name.encode("utf-8", "surrogatepass"), "sha256")
        salt, nothing = base36(bits).encode(), bytes(self.mechanism.digest_bytes)
        usual = self.mechanism.iterations_min if self.usual_iterations is None else self.usual_iterations()
        return ScramCredential(salt, nothing, nothing, usual)


def base36(random_bytes: bytes) -> str:
    """Return the lowest 130 bits of the bytes (as a big-endian number) in base 36, the form in which Kafka writes
    nonces and salts: up to 26 letters and digits."""
    number = int.from_bytes(random_bytes) & ((1 << _NONCE_BITS) - 1)
    pairs: list[str] = []
    while number:
        number, pair = divmod(number, len(_BASE36_PAIRS))
        pairs.append(_BASE36_PAIRS[pair])
    return "".join(reversed(pairs)).lstrip("0") or "0"


def new_nonce() -> str:
    """Return a new nonce, or salt, of 130 random bits."""
    import secrets

    return base36(secrets.token_bytes(_RANDOM_BYTES))


def server_nonce() -> str:
    """Return a server's part of a nonce, at a tenth of the cost of `new_nonce`: 26 letters and digits, each of five
    random bits or more."""
    import secrets

    return secrets.token_bytes(_NONCE_CHARACTERS).translate(_CHARACTERS).decode()


def sasl_name(name: str) -> str:
    """Return a user's name as messages have it: with "=" and "," escaped."""
    return name.replace("=", "=3D").replace(",", "=2C")


_CLIENT_FIRST: Final = re.compile(
    r"(n,(?:a=([^,\0]++))?,)((?:m=[^,\0]++,)?n=([^,\0]++),r=([\x21-\x2b\x2d-\x7e]++)((?:,[A-Za-z]++=[^,\0]++)*+))"
)
"""Groups, of a text in ASCII: header, authorization id, the message without its header, name, nonce, extensions. All
quantifiers are possessive, which makes matching ten times as fast."""
_EXTENSIONS: Final = re.compile(r"(?:,[A-Za-z]++=[^,\0]++)*+")


class _State(Enum):
    """The states of an exchange. FIRST --client first--> FINAL --client final--> COMPLETE; an unexpected message leads
    from each to FAILED."""

    FIRST = auto()
    FINAL = auto()
    COMPLETE = auto()
    FAILED = auto()


@dataclass(frozen=True, slots=True)
class _ClientFirst:
    header: str
    bare: str
    authorization_id: str
    name: str
    nonce: str
    with_token: bool


class ScramServer:
    """The server's side of one exchange. nonce: the server's part of the nonce, never used before. refusal: always
    None, see SaslServer."""

    refusal: str | None = None

    def __init__(self, users: ScramUsers, nonce: str) -> None:
        self.login: Login | None = None
        self._users = users
        self._nonce = nonce
        self._state = _State.FIRST
        self._expected: Login | None = None
        self._credential: ScramCredential | None = None
        self._header = ""
        self._both_nonces = ""
        self._auth_message = ""

    def step(self, message: bytes) -> bytes:
        """Return the answer to the client's next message. Raises AuthenticationFailed."""
        state, self._state = self._state, _State.FAILED
        if len(message) > _MESSAGE_MAX:
            raise AuthenticationFailed(f"a SCRAM message of {len(message):,} bytes")
        if state is _State.FIRST:
            answer = self._first(_ascii(message))
            self._state = _State.FINAL
        elif state is _State.FINAL:
            answer = self._final(_ascii(message))
            self._state = _State.COMPLETE
        else:
            self.login = None
            raise AuthenticationFailed("a message after the end of the exchange")
        return answer.encode()

    def _first(self, message: str) -> str:
        first = _client_first(message)
        if first.authorization_id not in ("", first.name):
            error_message = (
                "Authentication failed: Client requested an authorization id that is different from username"
            )
            raise AuthenticationFailed(error_message, error_message)
        # Made for every name, so that the time of an answer does not show whether the name has a credential.
        decoy = self._users.decoy(first.name)
        found: ScramCredential | None
        if first.with_token:
            token = self._users.of_token(first.name)
            found = None if token is None else token.credential
            if token is not None:
                self._expected = Login(name=token.owner, with_token=True, expires_ms=token.expires_ms)
        else:
            found = self._users.of_user(first.name)
            self._expected = Login(name=first.name)
        if found is None or found.iterations < self._users.mechanism.iterations_min:
            self._expected, found = None, decoy
        self._credential = found
        self._header, self._both_nonces = first.header, first.nonce + self._nonce
        answer = f"r={self._both_nonces},s={base64.b64encode(found.salt).decode()},i={found.iterations}"
        self._auth_message = f"{first.bare},{answer}"
        return answer

    def _final(self, message: str) -> str:
        without_proof, _, proof_text = message.rpartition(",p=")
        channel, _, rest = without_proof.partition(",")
        nonce, comma, extensions = rest.partition(",")
        if channel[:2] != "c=" or nonce[:2] != "r=" or not _EXTENSIONS.fullmatch(comma + extensions):
            raise AuthenticationFailed("SCRAM client final message of an invalid format")
        if _decoded(channel[2:]) != self._header.encode():
            raise AuthenticationFailed("SCRAM client final message with another header than the first one")
        if not hmac.compare_digest(nonce[2:], self._both_nonces):
            raise AuthenticationFailed("SCRAM client final message with an invalid nonce")
        mechanism, credential = self._users.mechanism, self._credential
        assert credential is not None
        auth_message = f"{self._auth_message},{without_proof}".encode()
        signature = mechanism.hmac(credential.stored_key, auth_message)
        proof = _decoded(proof_text)
        if len(proof) != len(signature):
            raise Unanswered("SCRAM client final message with a proof of an invalid length")
        client_key = (int.from_bytes(proof) ^ int.from_bytes(signature)).to_bytes(len(proof))
        proven = hmac.compare_digest(mechanism.hash(client_key), credential.stored_key)
        if not proven or self._expected is None:
            raise AuthenticationFailed("Invalid client credentials")
        self.login = self._expected
        return f"v={base64.b64encode(mechanism.hmac(credential.server_key, auth_message)).decode()}"


def _ascii(message: bytes) -> str:
    try:
        return message.decode("ascii")
    except UnicodeDecodeError:
        raise AuthenticationFailed("SCRAM message of an invalid format") from None


def _client_first(message: str) -> _ClientFirst:
    """Parse a client first message, which is ASCII. Raises AuthenticationFailed."""
    found = _CLIENT_FIRST.fullmatch(message)
    if found is None:
        raise AuthenticationFailed("SCRAM client first message of an invalid format")
    header, authorization_id, bare, name, nonce, extensions = found.groups("")
    if not (is_sasl_name(name) and (not authorization_id or is_sasl_name(authorization_id))):
        raise AuthenticationFailed("SCRAM client first message of an invalid format")
    return _ClientFirst(
        header=header,
        bare=bare,
        authorization_id=authorization_id,
        name=name.replace("=2C", ",").replace("=3D", "="),
        nonce=nonce,
        with_token=_last_value(extensions, EXTENSION).lower() == "true",
    )


def is_sasl_name(text: str) -> bool:
    """Return whether an ASCII text without "," is a valid name in a message: it is not empty, and "=" occurs only in
    "=2C" and "=3D"."""
    return bool(text) and "=" not in text.replace("=2C", ",").replace("=3D", ",")


def _last_value(extensions: str, name: str) -> str:
    """Return the value of the last extension of that name, "" if there is none. extensions: the text of all of them,
    each written as ",NAME=VALUE"."""
    return f"{extensions},".rpartition(f",{name}=")[2].partition(",")[0] if f",{name}=" in extensions else ""


def _decoded(text: str) -> bytes:
    """Return the bytes of a text in base64. Raises AuthenticationFailed."""
    if len(text) % 4 or not _BASE64.issuperset(text.removesuffix("=").removesuffix("=")):
        raise AuthenticationFailed("SCRAM message of an invalid format")
    return base64.b64decode(text)
