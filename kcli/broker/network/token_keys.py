"""The keys that verify OAUTHBEARER tokens: a JWKS in the file, or at the HTTP endpoint, of
sasl.oauthbearer.jwks.endpoint.url.

    file:///PATH    read at the start, and again when the file has changed
    https://...     fetched at the start, every sasl.oauthbearer.jwks.endpoint.refresh.ms, and when a token names an
                    unknown key (once in MISSING_S for each key name). A failed fetch is repeated after
                    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms, then after twice that time and so on, for
                    sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms; then the keys stay as they are, and the reason
                    is logged.
    http://...      fetched in the same way, but without TLS: others on the network can exchange the keys, so a
                    warning is logged at the start

As Kafka does, the node fetches only URLs that a system property of Java lists, set in the environment variable
KAFKA_OPTS: "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=https://issuer/keys". Trusted certificates are the
system's, or those of the options ssl.truststore.* of the listener's login module. A node that cannot read or fetch the
keys at its start does not start.

Fetches run on threads of their own, and a stop does not wait for them. Source: VerificationKeyResolverFactory,
RefreshingHttpsJwks, Retry, ConfigurationUtils; KIP-768, KIP-1139.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import os
import ssl
import stat
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import unquote, urlsplit

from kcli.broker.config.security import JWKS, ListenerSecurity
from kcli.broker.config.served import CannotServe
from kcli.broker.process.unattended import begin
from kcli.errors import KcliError, error_text
from kcli.java.options import system_property
from kcli.security import oauth
from kcli.tls.contexts import client_context
from kcli.tls.failures import failure_text
from kcli.tls.settings import InvalidTlsSetting

if TYPE_CHECKING:
    from urllib.request import OpenerDirector

    from kcli.security.jwt import JwtKeys

log = logging.getLogger("kcli.broker")
ALLOWED: Final = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
"""The system property of Kafka's JVM with the URLs that may be fetched."""
TIMEOUT_S: Final = 20.0
"""The timeout, in seconds, of connecting, of each read, and of reading the whole response."""
DOCUMENT_MAX: Final = 512 << 10
"""The size of the largest JWKS document that is accepted, in bytes."""
READ_BYTES: Final = 64 << 10
TRIES_AT_START: Final = 4
MISSING_S: Final = 60.0
MISSING_MAX: Final = 16
KEY_ID_MAX: Final = 1000
"""The longest name of an unknown key, in characters, for which the keys are fetched again."""
PAUSE_S: Final = 1.0
"""The shortest time, in seconds, between two fetches that tokens cause, as anyone may send tokens with invented key
names."""


Hide = Callable[[str], str]
"""A function that removes the secrets of config providers from a text that people read."""


class TokenKeys(Protocol):
    """The keys that verify tokens; they may be replaced while they are used."""

    def claims(self, token: str) -> dict[str, Any]:
        """Verify the signature of a token with these keys, and return the token's claims. Raises InvalidToken."""


class KeysUnavailable(KcliError):
    """The keys cannot be read or fetched; the message has the reason."""


def token_keys(security: ListenerSecurity, now: dt.datetime, hide: Hide = str) -> KeyFile | KeyEndpoint:
    """Return the keys for a listener's tokens: a KeyFile if the URL begins with file:, else a KeyEndpoint, which has no
    keys until its `fetch_first` has returned. now: the current time, with a time zone. hide: removes secrets from the
    text of an error or log line. Raises InvalidConfig if the file has no keys, if the URL must not be fetched, or if
    the options for its TLS are invalid."""
    url = security.of_mechanism(oauth.MECHANISM, JWKS)
    assert url is not None, "checked with the configuration"
    name = f"{oauth.MECHANISM.lower()}.{JWKS}"
    if urlsplit(url).scheme == "file":
        try:
            return KeyFile(Path(unquote(urlsplit(url).path)), hide)
        except KeysUnavailable as error:
            raise security.wrong(name, str(error)) from None
    if url not in allowed_urls(os.environ.get("KAFKA_OPTS", "")):
        reason = f'{url} may not be fetched: as for Kafka, set the environment variable KAFKA_OPTS="-D{ALLOWED}={url}"'
        raise security.wrong(name, reason)
    if urlsplit(url).scheme == "http":
        log.warning("%s: %s: keys of tokens come over an unsecured connection", name, url)
    options = security.login(oauth.MECHANISM).options
    try:
        context = client_context({key: text for key, text in options.items() if key.startswith("ssl.")}, now).context
    except InvalidTlsSetting as error:
        raise security.wrong(f"{oauth.MECHANISM.lower()}.sasl.jaas.config", f"option {error}") from None
    refresh_ms, backoff_ms, backoff_max_ms = security.jwks_times_ms()
    return KeyEndpoint(url, context, refresh_ms / 1000, backoff_ms / 1000, backoff_max_ms / 1000, hide)


def allowed_urls(java_options: str) -> frozenset[str]:
    """Return the URLs that the JVM options in `java_options` allow to be fetched: those in the system property ALLOWED.
    Empty if the options do not set that property."""
    text = system_property(java_options, ALLOWED) or ""
    return frozenset(each.strip() for each in text.split(",")) - {""}


class KeyFile:
    """The public keys (JWKS) in a file that verify OAUTHBEARER tokens. The constructor raises KeysUnavailable if the
    file has no keys."""

    def __init__(self, path: Path, hide: Hide = str) -> None:
        self._path, self._hide = path, hide
        self._changed_ns = 0
        self._keys = self._read()

    def _read(self) -> JwtKeys:
        """Read the file. Return the keys in it. Raises KeysUnavailable."""
        try:
            found = self._path.stat()
            self._changed_ns = found.st_mtime_ns
            _check_file(found)
            return _keys_of(self._path.read_bytes())
        except OSError as error:
            raise KeysUnavailable(self._hide(f"{self._path}: {error.strerror or error}")) from None
        except KeysUnavailable as error:
            raise KeysUnavailable(self._hide(f"{self._path}: {error}")) from None

    def claims(self, token: str) -> dict[str, Any]:
        """Verify the signature of a token with the keys in the file, and return the token's claims. The file is read
        first if it has changed; if it cannot be read, the old keys stay in use. Raises InvalidToken."""
        try:
            if self._path.stat().st_mtime_ns != self._changed_ns:
                self._keys = self._read()
        except OSError as error:
            reason = self._hide(f"{self._path}: {error.strerror or error}")
            log.warning("the keys of tokens stay as they are: %s", reason)
        except KeysUnavailable as error:
            log.warning("the keys of tokens stay as they are: %s", error)
        return self._keys.claims(token)


class KeyEndpoint:
    """The keys (JWKS) at an HTTPS or HTTP URL, with which tokens are verified. Call `fetch_first`, then `start`, on the
    event loop. Times are in seconds."""

    def __init__(
        self,
        url: str,
        context: ssl.SSLContext,
        refresh_s: float,
        backoff_s: float,
        backoff_max_s: float,
        hide: Hide = str,
    ) -> None:
        self.url, self._hide = url, hide
        self._opener = _opener(context)
        self._refresh_s, self._backoff_s, self._backoff_max_s = refresh_s, backoff_s, backoff_max_s
        self._keys: JwtKeys | None = None
        # name of an unknown key -> earliest time, by time.monotonic, of the next fetch that a token with that key
        # causes
        self._missing: OrderedDict[str, float] = OrderedDict()
        self._is_wanted = asyncio.Event()
        self._refreshing: asyncio.Task[None] | None = None

    async def fetch_first(self) -> None:
        """Fetch the keys, with at most TRIES_AT_START attempts. Raises CannotServe."""
        for number in range(TRIES_AT_START):
            try:
                self._keys = await self._fetched()
            except KeysUnavailable as error:
                if number == TRIES_AT_START - 1:
                    raise CannotServe(f"{JWKS}: {error}") from None
                await asyncio.sleep(self._backoff_s * 2**number)
            else:
                return

    def start(self) -> None:
        """Start a task that fetches the keys every refresh_s seconds, and when a token names an unknown key."""
        self._refreshing = begin(self._refresh_on(), self._hide(f"{self.url} is not asked for keys of tokens any more"))

    def stop(self) -> None:
        """Stop fetching the keys."""
        if self._refreshing is not None:
            self._refreshing.cancel()

    def claims(self, token: str) -> dict[str, Any]:
        """Verify the signature of a token with these keys, and return the token's claims. Raises InvalidToken. If the
        token's key is unknown, the keys are fetched again, so that a later token with that key is accepted."""
        from kcli.security.jwt import UnknownKey

        assert self._keys is not None, "fetched at the start"
        try:
            return self._keys.claims(token)
        except UnknownKey as error:
            self._miss(error.key_id)
            raise

    def _miss(self, key_id: str | None) -> None:
        if key_id is None or len(key_id) > KEY_ID_MAX:
            return
        now_s = time.monotonic()
        if self._missing.get(key_id, now_s) > now_s:
            return
        self._missing[key_id] = now_s + MISSING_S
        self._missing.move_to_end(key_id)
        if len(self._missing) > MISSING_MAX:
            self._missing.popitem(last=False)
        self._is_wanted.set()

    async def _refresh_on(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._refresh_s):
                    await self._is_wanted.wait()
            self._is_wanted.clear()
            await self._refresh()
            await asyncio.sleep(PAUSE_S)

    async def _refresh(self) -> None:
        began_s = time.monotonic()
        wait_s = self._backoff_s
        while True:
            try:
                self._keys = await self._fetched()
            except KeysUnavailable as error:
                left_s = began_s + self._backoff_max_s - time.monotonic()
                if left_s <= 0:
                    log.warning("the keys of tokens stay as they are: %s", error)
                    return
                await asyncio.sleep(min(wait_s, left_s))
                wait_s *= 2
            else:
                return

    async def _fetched(self) -> JwtKeys:
        """Fetch the keys in a new thread. Raises KeysUnavailable."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[JwtKeys] = loop.create_future()

        def take(found: JwtKeys | None, error: Exception | None) -> None:
            if answer.done():
                return
            if found is not None:
                answer.set_result(found)
            else:
                answer.set_exception(error or KeysUnavailable(self._hide(self.url)))

        def fetch() -> None:
            found, failed = None, None
            try:
                found = self._fetch()
            except Exception as error:  # noqa: BLE001  (`await answer` raises it)
                failed = error
            with suppress(RuntimeError):  # raised if the event loop has ended
                loop.call_soon_threadsafe(take, found, failed)

        threading.Thread(target=fetch, name="keys of tokens", daemon=True).start()
        return await answer

    def _fetch(self) -> JwtKeys:
        """Fetch the keys, in a thread. Raises KeysUnavailable."""
        from http.client import HTTPException
        from urllib.error import HTTPError

        document = bytearray()
        try:
            with self._opener.open(self.url, timeout=TIMEOUT_S) as response:
                until_s = time.monotonic() + TIMEOUT_S
                while part := response.read1(READ_BYTES):
                    document += part
                    _check_length(document, until_s)
            return _keys_of(bytes(document))
        except KeysUnavailable as error:
            reason = str(error)
        except HTTPError as error:
            error.close()
            reason = f"HTTP status {error.code}"
        except (OSError, HTTPException) as error:
            reason = _reason(error)
        raise KeysUnavailable(self._hide(f"{self.url}: {reason}"))


def _check_file(found: os.stat_result) -> None:
    """Raise KeysUnavailable for a file that is too long, or not a regular file, as reading it might not end."""
    if not stat.S_ISREG(found.st_mode):
        raise KeysUnavailable("is no regular file")
    if found.st_size > DOCUMENT_MAX:
        raise KeysUnavailable(f"more than {DOCUMENT_MAX:,} bytes")


def _check_length(document: bytearray, until_s: float) -> None:
    """Check the part of a document that has been fetched so far. until_s: the deadline for the whole document, by
    time.monotonic. Raises KeysUnavailable if the deadline is over, or the document is too long."""
    if len(document) > DOCUMENT_MAX:
        raise KeysUnavailable(f"more than {DOCUMENT_MAX:,} bytes")
    if time.monotonic() > until_s:
        raise KeysUnavailable(f"no whole answer within {TIMEOUT_S:g} s")


def _keys_of(document: bytes) -> JwtKeys:
    """Return the keys of a JWKS document. Raises KeysUnavailable."""
    from kcli.security.jwt import InvalidKeys, JwtKeys

    try:
        return JwtKeys(document)
    except InvalidKeys as error:
        raise KeysUnavailable(str(error)) from None


def _reason(error: Exception) -> str:
    """Return the reason why a fetch has failed, in one line. error: an OSError (a URLError contains another error), or
    an exception of http.client."""
    cause = getattr(error, "reason", error)
    if isinstance(cause, ssl.SSLError):
        return failure_text(cause)
    if isinstance(cause, TimeoutError):
        return f"no answer within {TIMEOUT_S:g} s"
    return error_text(cause)


def _opener(context: ssl.SSLContext) -> OpenerDirector:
    """Return the object that fetches a JWKS document. Like Kafka's client for this, Java's HttpURLConnection, it uses
    no proxy, and follows a redirect only to a URL with the same scheme (http or https)."""
    from urllib.request import HTTPRedirectHandler, HTTPSHandler, ProxyHandler, build_opener

    class SameProtocol(HTTPRedirectHandler):
        def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
            is_same = urlsplit(newurl).scheme == req.type
            return super().redirect_request(req, fp, code, msg, headers, newurl) if is_same else None

    return build_opener(ProxyHandler({}), HTTPSHandler(context=context), SameProtocol())
