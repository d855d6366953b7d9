"""To whom a request may be sent now: one at a time to each node, and none for a while after a failure.

    ready       -> awaiting      a request is sent
    awaiting    -> ready         its answer was of use, or controller.quorum.request.timeout.ms are over
                -> backing off   it was not: for controller.quorum.retry.backoff.ms

An answer to a request that is not awaited any more is ignored. Source: RequestManager.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from kcli.raft.messages import Node


@dataclass(slots=True)
class _Connection:
    """awaits: the correlation of the request that is not answered; None while backing off. until_ms: of either."""

    awaits: int | None
    until_ms: int


class Connections:
    """See above. A node that is not in it is ready."""

    def __init__(
        self, bootstrap: Sequence[Node], request_timeout_ms: int, retry_backoff_ms: int, chance: random.Random
    ) -> None:
        self.bootstrap = bootstrap
        self._request_timeout_ms = request_timeout_ms
        self._retry_backoff_ms = retry_backoff_ms
        self._random = chance
        self._connections: dict[int, _Connection] = {}

    def reset(self) -> None:
        """Forget all that is awaited."""
        self._connections.clear()

    def forget(self, node_id: int) -> None:
        """Forget what is awaited of one."""
        self._connections.pop(node_id, None)

    def sent(self, node_id: int, correlation: int, now_ms: int) -> None:
        """A request is on its way."""
        self._connections[node_id] = _Connection(correlation, now_ms + self._request_timeout_ms)

    def expects(self, node_id: int, correlation: int) -> bool:
        """Is that answer awaited?"""
        connection = self._connections.get(node_id)
        return connection is not None and connection.awaits == correlation

    def answered(self, node_id: int, correlation: int, now_ms: int, *, success: bool) -> None:
        """An answer was taken in."""
        if not self.expects(node_id, correlation):
            return
        if success:
            self.forget(node_id)
        else:
            self._connections[node_id] = _Connection(None, now_ms + self._retry_backoff_ms)

    def is_ready(self, node_id: int, now_ms: int) -> bool:
        """May a request be sent?"""
        connection = self._connections.get(node_id)
        return connection is None or now_ms >= connection.until_ms

    def is_backing_off(self, node_id: int, now_ms: int) -> bool:
        """Did the last one fail just now?"""
        connection = self._connections.get(node_id)
        return connection is not None and connection.awaits is None and now_ms < connection.until_ms

    def has_timed_out(self, node_id: int, now_ms: int) -> bool:
        """Is the answer overdue?"""
        connection = self._connections.get(node_id)
        return connection is not None and connection.awaits is not None and now_ms >= connection.until_ms

    def wait_ms(self, node_id: int, now_ms: int) -> int:
        """Until one may be sent."""
        connection = self._connections.get(node_id)
        return 0 if connection is None else max(0, connection.until_ms - now_ms)

    def has_any_in_flight(self, now_ms: int) -> bool:
        """Is an answer awaited, of whomever?"""
        return any(each.awaits is not None and now_ms < each.until_ms for each in self._connections.values())

    def ready_bootstrap(self, now_ms: int) -> Node | None:
        """One of controller.quorum.bootstrap.servers, by chance, to which a request may be sent; none is in flight."""
        if self.has_any_in_flight(now_ms) or not self.bootstrap:
            return None
        first = self._random.randrange(len(self.bootstrap))
        order = [*self.bootstrap[first:], *self.bootstrap[:first]]
        return next((each for each in order if self.is_ready(each.id, now_ms)), None)

    def bootstrap_wait_ms(self, now_ms: int) -> int:
        """Until `ready_bootstrap` may be asked again."""
        wait_ms = self._retry_backoff_ms
        for each in self._connections.values():
            if now_ms >= each.until_ms:
                continue
            if each.awaits is not None:
                return each.until_ms - now_ms
            wait_ms = min(wait_ms, each.until_ms - now_ms)
        return 0 if any(self.is_ready(each.id, now_ms) for each in self.bootstrap) else wait_ms
