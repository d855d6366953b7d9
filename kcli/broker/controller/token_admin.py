"""A node's part of the requests about delegation tokens: which connections may send them, and which node decides them.

A broker refuses a request that comes through a PLAINTEXT connection, an SSL connection without a client certificate, or
a connection that was authenticated by a token, and a request whose principal may not create tokens for the requested
owner. All other checks are the active controller's. Without delegation.token.secret.key there are no tokens. Source:
KafkaApis, ControllerApis.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from kcli.broker.config.security import PLAINTEXT
from kcli.metadata.token_control import TokenTimes
from kcli.security.principals import ANONYMOUS

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig
    from kcli.broker.controller.channel import ControllerChannel
    from kcli.broker.wire.call import Call
    from kcli.security.delegation_tokens import DelegationTokens

EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
NO_TIME_MS: Final = -1
_TIME_MS_MAX: Final = 253_402_300_799_999  # the end of the year 9999, the latest that a datetime can be


class TokenAdmin:
    """Checks on one node who may send requests about delegation tokens, and forwards these requests to the active
    controller. tokens: None without a secret key. controller: the channel to the active controller.
    is_alone: whether this node is the only node of its cluster."""

    def __init__(
        self, config: BrokerConfig, controller: ControllerChannel, tokens: DelegationTokens | None, *, is_alone: bool
    ) -> None:
        self._config, self._controller, self._is_alone = config, controller, is_alone
        self.tokens = tokens
        self.times = TokenTimes(
            config.number("delegation.token.max.lifetime.ms"), config.number("delegation.token.expiry.time.ms")
        )

    def may_ask(self, call: Call) -> bool:
        """Whether the connection may send requests about tokens. Always True for a request on a controller listener:
        the broker that forwarded it has checked the client's connection."""
        if self._is_controllers(call):
            return True
        protocol = self._config.protocols.get(call.listener, PLAINTEXT)
        is_anonymous = protocol == "SSL" and call.principal == ANONYMOUS
        return not (call.with_token or protocol == PLAINTEXT or is_anonymous)

    def is_elsewhere(self, call: Call) -> bool:
        """Whether the request must be forwarded to the active controller."""
        return not (self._is_alone or self._is_controllers(call))

    async def forward(self, call: Call) -> Any:
        """Forward the request to the active controller, and return the response."""
        return await self._controller.forward(replace(call, listener=self._config.controller_listener_names[0]))

    def _is_controllers(self, call: Call) -> bool:
        return call.listener in self._config.controller_listener_names


def time_of(ms: int) -> dt.datetime:
    """Return a time in ms since 1970 as the datetime in a response, at most the end of the year 9999."""
    return EPOCH + dt.timedelta(milliseconds=min(ms, _TIME_MS_MAX))
