"""The client's side of OAUTHBEARER: the request for a token, the token in the answer, and the login with it.

    request    POST, grant_type=client_credentials and the scope as a form; Basic authorization: client id and secret
    answer     a JSON object with access_token or id_token
    login      n,,^A auth=Bearer TOKEN ^A NAME=VALUE ... ^A ^A; the names and values are extensions

Source: ClientCredentialsRequestFormatter, HttpJwtRetriever, JwtResponseParser, ClientJwtValidator,
OAuthBearerSaslClient; RFC 6749 section 4.4, RFC 7628.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kcli.java.values import java_trim
from kcli.security.jwt import json_part
from kcli.security.oauth import InvalidToken, is_extension
from kcli.security.sasl import Conversation, NotTrusted

_SEPARATOR: Final = "\x01"
_PARTS: Final = 3
_SHOWN_MAX: Final = 200
_AUTH: Final = "auth"


@dataclass(frozen=True, slots=True)
class ClientToken:
    """A token that a client logs in with. text: the token, a secret that `repr` omits. name: its subject. expires_ms:
    in ms since 1970."""

    text: str = field(repr=False)
    name: str
    expires_ms: int


def token_request(client_id: str, client_secret: str, scope: str) -> tuple[dict[str, str], bytes]:
    """Return the headers and the body of a request for a token. scope: "" for none.

    Id, secret and scope are sent as they are given. With sasl.oauthbearer.header.urlencode=true,
    kcli.client.command_config has URL-encoded them before, as Kafka does.
    """
    login = base64.b64encode(f"{client_id}:{client_secret}".encode()).decode()
    headers = {
        "Accept": "application/json",
        "Authorization": f"Basic {login}",
        "Cache-Control": "no-cache",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    body = "grant_type=client_credentials" + (f"&scope={scope}" if scope else "")
    return headers, body.encode()


def token_in(answer: bytes) -> str:
    """Return the token in the answer to a `token_request`. Raises InvalidToken."""
    try:
        fields = json.loads(answer)
    except (ValueError, RecursionError):
        fields = None
    if isinstance(fields, dict):
        for name in ("access_token", "id_token"):
            if isinstance(token := fields.get(name), str) and token.strip():
                return token.strip()
    raise InvalidToken("the answer is no JSON object with an access_token")


def client_token(text: str) -> ClientToken:
    """Return a token with its subject and its expiry; only the broker checks its signature. Raises InvalidToken."""
    parts = text.split(".")
    if len(parts) != _PARTS:
        raise InvalidToken("no JWT: not three parts")
    claims = json_part(parts[1])
    name, expires_s = claims.get("sub"), claims.get("exp")
    if not isinstance(name, str) or not java_trim(name):
        raise InvalidToken("sub is missing or empty")
    if isinstance(expires_s, bool) or not isinstance(expires_s, int | float) or not 0 <= expires_s < 2**53:
        raise InvalidToken("exp is missing, or no time")
    return ClientToken(text, java_trim(name), int(expires_s * 1000))


def check_extension(name: str, value: str) -> None:
    """Raise InvalidToken if a SASL extension is not valid: its name is `auth` or not of letters, or its value is not
    printable ASCII."""
    if name == _AUTH or not is_extension(name, value):
        raise InvalidToken(f"extension {name!r} is none: letters but `auth`, and a value of printable ASCII")


def converse(token: str, extensions: Mapping[str, str]) -> Conversation:
    """The client's side of a login with a token, as a Conversation (see kcli.security.sasl). extensions: the SASL
    extensions, value by name. The Conversation raises NotTrusted if the broker refuses the token."""
    pairs = "".join(f"{_SEPARATOR}{name}={value}" for name, value in extensions.items())
    refused = yield f"n,,{_SEPARATOR}{_AUTH}=Bearer {token}{pairs}{_SEPARATOR}{_SEPARATOR}".encode()
    if refused:
        yield _SEPARATOR.encode()
        raise NotTrusted(f"SASL: {refused.decode(errors='replace')[:_SHOWN_MAX]}")
