"""The tokens with which kcli's clients log in by OAUTHBEARER: from a file, or from an endpoint for client credentials.

A token is reused until it expires; only then is the file read, or the endpoint requested, again. Source:
OAuthBearerLoginCallbackHandler, FileJwtRetriever, ClientCredentialsJwtRetriever.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from kcli.errors import KcliError, UsageError, error_text
from kcli.security.oauth import MECHANISM, InvalidToken
from kcli.security.oauth_client import ClientToken, client_token, converse, token_in, token_request

if TYPE_CHECKING:
    import ssl

    from kcli.security.client_login import ClientLogin

_SETTING: Final = "sasl.oauthbearer.token.endpoint.url"
"""Kafka's name, and librdkafka's, for the URL of an endpoint."""
SCHEMES: Final = ("file", "http", "https")
_TOKEN_BYTES_MAX: Final = 128 << 10
_TIMEOUT_S: Final = 10.0
_EARLIER_MS: Final = 10_000
"""A token is replaced if it expires within this time, in ms."""
_DONE: Final = (200, 201)


class NoToken(KcliError):
    """There is no token to log in with. The message names the endpoint, without user, password and query."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The place from which tokens are read.

    url: a file:, http: or https: URL. client_id, client_secret, scope: the client credentials and the scope in the
    request to an http or https URL. tls: the TLS context for https; None to trust the system's certificate authorities.
    """

    url: str
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    tls: ssl.SSLContext | None = None


class Tokens:
    """The tokens of an endpoint. extensions: the SASL extensions that each login sends."""

    def __init__(self, endpoint: Endpoint, extensions: Mapping[str, str]) -> None:
        """Raises UsageError for a URL that cannot be a token endpoint."""
        self._endpoint, self._extensions = endpoint, dict(extensions)
        try:
            self._url = urlsplit(endpoint.url)
            self._port = self._url.port
        except ValueError:
            raise UsageError(f"{_SETTING}: no URL") from None
        if self._url.scheme not in SCHEMES or not (self._url.path if self.is_file else self._url.hostname):
            raise UsageError(f"{_SETTING}: no URL of {', '.join(SCHEMES)}")
        self._token: ClientToken | None = None

    @property
    def is_file(self) -> bool:
        """Whether the endpoint is a file with a token."""
        return self._url.scheme == "file"

    def token(self) -> ClientToken:
        """Return a token that is valid now. Raises NoToken."""
        now_ms = int(time.time() * 1000)
        if self._token is None or self._token.expires_ms - _EARLIER_MS < now_ms:
            try:
                text = self._read() if self.is_file else self._ask()
                self._token = found = client_token(text.strip())
            except (OSError, InvalidToken, UnicodeDecodeError) as error:
                raise NoToken(f"{_SETTING}: {self._shown()}: {error_text(error)}") from None
            if found.expires_ms <= now_ms:
                raise NoToken(f"{_SETTING}: {self._shown()}: the token has expired")
        return self._token

    def login(self) -> ClientLogin:
        """Return the login of kcli's own connections. The token is read or requested only in the first step of that
        login, which raises NoToken."""
        from kcli.security.client_login import ClientLogin

        return ClientLogin(MECHANISM, lambda: converse(self.token().text, self._extensions))

    def for_librdkafka(self, _: object) -> tuple[str, float, str, dict[str, str]]:
        """Return a token in the form that librdkafka's callback oauth_cb has to return: the token, the time at which it
        expires (s since 1970), the name in it, and the SASL extensions. Raises NoToken."""
        found = self.token()
        return found.text, found.expires_ms / 1000, found.name, self._extensions

    def _shown(self) -> str:
        return f"{self._url.scheme}://{self._url.netloc.rpartition('@')[2]}{self._url.path}"

    def _read(self) -> str:
        with Path(unquote(self._url.path)).open("rb") as file:
            return _bounded(file.read(_TOKEN_BYTES_MAX + 1)).decode("ascii")

    def _ask(self) -> str:
        # imported here as it takes 30 ms, together with `email`, which it imports
        from http.client import HTTPConnection, HTTPException, HTTPSConnection

        url, endpoint = self._url, self._endpoint
        assert url.hostname is not None, "checked at the beginning"
        if url.scheme == "https":
            import ssl

            tls = endpoint.tls or ssl.create_default_context()
            connection: HTTPConnection = HTTPSConnection(url.hostname, self._port, timeout=_TIMEOUT_S, context=tls)
        else:
            connection = HTTPConnection(url.hostname, self._port, timeout=_TIMEOUT_S)
        headers, body = token_request(endpoint.client_id, endpoint.client_secret, endpoint.scope)
        try:
            connection.request("POST", (url.path or "/") + (f"?{url.query}" if url.query else ""), body, headers)
            answer = connection.getresponse()
            if answer.status not in _DONE:
                raise InvalidToken(f"HTTP {answer.status} {answer.reason}".strip())
            return token_in(_bounded(answer.read(_TOKEN_BYTES_MAX + 1)))
        except HTTPException as error:
            raise InvalidToken(f"no answer of HTTP: {type(error).__name__}") from None
        finally:
            connection.close()


def _bounded(data: bytes) -> bytes:
    if len(data) > _TOKEN_BYTES_MAX:
        raise InvalidToken("too long for a token")
    return data
