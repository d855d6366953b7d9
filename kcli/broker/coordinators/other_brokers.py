"""The other brokers, as a coordinator asks them: a channel to each, for one purpose.

They are found by the address that they registered for the listener among brokers. Source: InterBrokerSendThread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kcli.broker.broker import Broker
    from kcli.broker.network.peers import Channel


class OtherBrokers:
    """See above. client_id: what they know this broker by."""

    def __init__(self, broker: Broker, client_id: str) -> None:
        self._broker = broker
        self._client_id = client_id
        self._channels: dict[int, tuple[str, int, Channel]] = {}

    def channel(self, node_id: int) -> Channel | None:
        """To that broker; None where it is not there now, or has no address. Raises Unanswered."""
        known = self._broker.image.brokers.get(node_id)
        if known is None or known.fenced:
            return None
        endpoint = known.endpoints.get(self._broker.config.inter_broker_listener)
        if endpoint is None:
            return None
        host, port, channel = self._channels.get(node_id, ("", -1, None))
        if channel is None or (host, port) != (endpoint.host, endpoint.port):
            if channel is not None:
                channel.close()
            channel = self._broker.network.channel(endpoint.host, endpoint.port, self._client_id)
            self._channels[node_id] = endpoint.host, endpoint.port, channel
        return channel
