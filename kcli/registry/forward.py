"""Forwards a client's request to the leader of the registries.

The request is sent unchanged, with the client's login, and with `X-Forward: true`: a registry that gets this header and
does not lead answers with an error, so that requests never go round in circles. Each request has a connection of its
own, as writes are rare.
"""

from __future__ import annotations

import ssl
from typing import Final

from kcli.registry.leader import Identity
from kcli.service.http_client import ask
from kcli.service.messages import Answer, Request

HEADER: Final = "x-forward"
NOT_PASSED: Final = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "http2-settings",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        HEADER,
    }
)
"""Headers that are not forwarded: they concern one connection, or are written again."""
NOT_RETURNED: Final = NOT_PASSED | {"content-type", "date", "server"}


def is_forwarded(request: Request) -> bool:
    """Whether another registry has forwarded the request."""
    return request.headers.get(HEADER, "").lower() == "true"


async def forward(request: Request, leader: Identity, tls: ssl.SSLContext | None, timeout_s: float) -> Answer:
    """Return the leader's answer. tls: for a leader with https. Raises NoAnswer."""
    headers = {name: value for name, value in request.headers.items() if name not in NOT_PASSED}
    target = request.path + ("?" + request.query if request.query else "")
    answer = await ask(
        leader.url,
        Request(request.method, target, "", {**headers, "X-Forward": "true"}, request.body),
        tls if leader.scheme == "https" else None,
        timeout_s,
    )
    return answer._replace(headers={name: value for name, value in answer.headers.items() if name not in NOT_RETURNED})
