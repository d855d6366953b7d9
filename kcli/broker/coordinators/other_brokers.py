"""Channels from a coordinator to other brokers, at the addresses of their inter-broker listeners.

Source: InterBrokerSendThread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kcli.broker.coordinators.context import CoordinatorContext
    from kcli.broker.network.peers import Channel


class OtherBrokers:
    """Channels to other brokers for one coordinator or another single purpose. client_id: the client id in the
    requests."""

    def __init__(self, context: CoordinatorContext, client_id: str) -> None:
        self._context = context
        self._client_id = client_id
        self._channels: dict[int, tuple[str, int, Channel]] = {}

    def channel(self, node_id: int) -> Channel | None:
        """Return the channel to that broker; None if the broker is fenced or not registered, or has no inter-broker
        listener. Raises Unanswered if this node is the only one of its cluster."""
        known = self._context.image.brokers.get(node_id)
        if known is None or known.fenced:
            return None
        endpoint = known.endpoints.get(self._context.config.inter_broker_listener)
        if endpoint is None:
            return None
        host, port, channel = self._channels.get(node_id, ("", -1, None))
        if channel is None or (host, port) != (endpoint.host, endpoint.port):
            if channel is not None:
                channel.close()
            channel = self._context.network.channel(endpoint.host, endpoint.port, self._client_id)
            self._channels[node_id] = endpoint.host, endpoint.port, channel
        return channel
