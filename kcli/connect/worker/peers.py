"""Requests to the REST API of other workers, which may be https."""

from __future__ import annotations

import datetime as dt
import ssl
from collections.abc import Mapping

from kcli.service.http_client import ask
from kcli.service.messages import Answer, Request
from kcli.tls.contexts import client_context


class Peers:
    """The other workers. tls: the settings ssl.* for those with https."""

    def __init__(self, tls: Mapping[str, str]) -> None:
        self._settings = tls
        self._context: ssl.SSLContext | None = None

    async def ask(self, url: str, request: Request, timeout_s: float) -> Answer:
        """Return the answer of the worker at a URL. Raises NoAnswer, InvalidTlsSetting."""
        return await ask(url, request, self._tls() if url.startswith("https:") else None, timeout_s)

    def _tls(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = client_context(self._settings, dt.datetime.now(dt.UTC)).context
        return self._context
