"""The connections to other nodes: each has at most one request in flight, and backs off after a failure.

    ready       -> awaiting      a request is sent
    awaiting    -> ready         the request had a usable answer, or controller.quorum.request.timeout.ms have passed
                -> backing off   the answer was not usable; ends after controller.quorum.retry.backoff.ms

An answer is usable if the caller could handle it (see `answered`). The answer to a request that is no longer in flight
is ignored. Source: RequestManager.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from kcli.raft.messages import Node


@dataclass(slots=True)
class _Connection:
    """The connection to a node that is not ready. awaits: the correlation id of the request in flight; None while the
    connection backs off. until_ms: when the wait for the answer, or the backoff, ends."""

    awaits: int | None
    until_ms: int


class Connections:
    """The connections by node id; a node without an entry is ready. bootstrap: the servers from which to learn the
    leader."""

    def __init__(
        self, bootstrap: Sequence[Node], request_timeout_ms: int, retry_backoff_ms: int, chance: random.Random
    ) -> None:
        self.bootstrap = bootstrap
        self._request_timeout_ms = request_timeout_ms
        self._retry_backoff_ms = retry_backoff_ms
        self._random = chance
        self._connections: dict[int, _Connection] = {}

    def reset(self) -> None:
        """Make all nodes ready: forget the requests in flight, whose answers will be ignored, and the backoffs."""
        self._connections.clear()

    def forget(self, node_id: int) -> None:
        """Make one node ready: forget the request in flight to it, whose answer will be ignored, or its backoff."""
        self._connections.pop(node_id, None)

    def sent(self, node_id: int, correlation: int, now_ms: int) -> None:
        """Record that a request was sent to the node: it is in flight from now on. correlation: its correlation id."""
        self._connections[node_id] = _Connection(correlation, now_ms + self._request_timeout_ms)

    def expects(self, node_id: int, correlation: int) -> bool:
        """Whether an answer of the node with this correlation id belongs to the request in flight to the node."""
        connection = self._connections.get(node_id)
        return connection is not None and connection.awaits == correlation

    def answered(self, node_id: int, correlation: int, now_ms: int, *, success: bool) -> None:
        """End a request. success: whether its answer was usable; if not, or if there was none, the connection to the
        node backs off. Does nothing if that request is not in flight."""
        if not self.expects(node_id, correlation):
            return
        if success:
            self.forget(node_id)
        else:
            self._connections[node_id] = _Connection(None, now_ms + self._retry_backoff_ms)

    def is_ready(self, node_id: int, now_ms: int) -> bool:
        """Whether the node may be sent a request: no request to the node is in flight, or the one in flight has timed
        out, and the backoff after a failure is over."""
        connection = self._connections.get(node_id)
        return connection is None or now_ms >= connection.until_ms

    def is_backing_off(self, node_id: int, now_ms: int) -> bool:
        """Whether requests to the node wait until its backoff is over."""
        connection = self._connections.get(node_id)
        return connection is not None and connection.awaits is None and now_ms < connection.until_ms

    def has_timed_out(self, node_id: int, now_ms: int) -> bool:
        """Whether the request in flight is older than controller.quorum.request.timeout.ms."""
        connection = self._connections.get(node_id)
        return connection is not None and connection.awaits is not None and now_ms >= connection.until_ms

    def wait_ms(self, node_id: int, now_ms: int) -> int:
        """Return the time in ms until the node may be sent a request; 0: now."""
        connection = self._connections.get(node_id)
        return 0 if connection is None else max(0, connection.until_ms - now_ms)

    def has_any_in_flight(self, now_ms: int) -> bool:
        """Whether a request to any node is in flight."""
        return any(each.awaits is not None and now_ms < each.until_ms for each in self._connections.values())

    def ready_bootstrap(self, now_ms: int) -> Node | None:
        """Return a bootstrap server that is ready, chosen at random; None if there is none, or a request to any node
        is in flight."""
        if self.has_any_in_flight(now_ms) or not self.bootstrap:
            return None
        first = self._random.randrange(len(self.bootstrap))
        order = [*self.bootstrap[first:], *self.bootstrap[:first]]
        return next((each for each in order if self.is_ready(each.id, now_ms)), None)

    def bootstrap_wait_ms(self, now_ms: int) -> int:
        """Return the time in ms until `ready_bootstrap` may return a server."""
        wait_ms = self._retry_backoff_ms
        for each in self._connections.values():
            if now_ms >= each.until_ms:
                continue
            if each.awaits is not None:
                return each.until_ms - now_ms
            wait_ms = min(wait_ms, each.until_ms - now_ms)
        return 0 if any(self.is_ready(each.id, now_ms) for each in self.bootstrap) else wait_ms
