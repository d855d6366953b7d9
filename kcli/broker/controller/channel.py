"""The channel to the active controller, which may be this node and may change at any time.

    call      sends requests of this node: heartbeats, AlterPartition, ...
    forward   sends requests of clients that only the active controller handles, in an Envelope (KIP-590)

If the active controller is unknown, does not respond, or has resigned, `call` and `forward` retry with the next one
until their timeout. A new active controller ends the requests that wait for the former one. Source:
NodeToControllerChannelManager, ForwardingManager, EnvelopeUtils.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from kcli.broker.metadata.errors import NotController
from kcli.broker.network.peers import (
    Channel,
    Unanswered,
    api_named,
    error_of,
    new_request,
    read_response,
    request_frame,
)
from kcli.broker.process.turns import LONG_BYTES, apart_if, has_long_list
from kcli.broker.wire.answers import Answer, HangUp
from kcli.broker.wire.call import OWN, Call
from kcli.broker.wire.failures import failed
from kcli.broker.wire.messages import RequestHeader, messages
from kcli.broker.wire.principal import principal_bytes
from kcli.protocol.error_code import ErrorCode

if TYPE_CHECKING:
    from kcli.broker.network.peers import Network
    from kcli.broker.process.clock import Clock
    from kcli.broker.wire.types.envelope import EnvelopeResponse

T = TypeVar("T")

PURPOSES: Final = {"broker_registration": "lifecycle", "broker_heartbeat": "lifecycle"}
"""API -> the name of the channel on which its requests are sent. Each API that is missing here has its own channel, so
that no request waits for a request of another API."""
RETRY_S: Final = 0.05
TIMEOUT_S: Final = 60.0
"""The timeout of a forwarded request, in seconds, as in Kafka."""


class Leadership(Protocol):
    """The active controller, as the metadata log knows it."""

    @property
    def is_leader(self) -> bool:
        """Whether this node is the active controller."""

    @property
    def leader_address(self) -> tuple[str, int] | None:
        """The host and port of the active controller; None if unknown."""


class ControllerChannel:
    """One node's channel to the active controller. metadata: knows which node is the active controller. answer: the
    function that handles a request on this node, while this node is the active controller."""

    def __init__(
        self,
        node_id: int,
        clock: Clock,
        metadata: Leadership,
        network: Network,
        answer: Callable[[Call], Answer | Awaitable[Answer]],
    ) -> None:
        self._node_id, self._clock = node_id, clock
        self._metadata, self._network = metadata, network
        self._answer = answer
        self._channels: dict[str, Channel] = {}
        self._address: tuple[str, int] | None = None

    async def call(
        self, api: str, version: int | None = None, /, *, timeout_s: float = TIMEOUT_S, **fields: Any
    ) -> Any:
        """Send a request to the active controller, and return the response (typed Any: the caller annotates its type).
        api: the API's name, such as "broker_heartbeat". version: None for the newest version that both nodes speak.
        fields: the fields of the request.

        After NOT_CONTROLLER the request is sent again. Raises Unanswered.
        """
        known = api_named(api)

        async def here() -> Any:
            kind = messages(known.key, known.most if version is None else version)
            header = RequestHeader(known.key, kind.version, 0, str(self._node_id), 0)
            request = new_request(kind, fields)
            answer = self._answer(Call(kind, header, request, self._clock.now_ms(), principal=OWN))
            return await answer if isawaitable(answer) else answer

        async def there(channel: Channel, left_s: float) -> Any:
            response = await channel.call(api, version, timeout_s=left_s, **fields)
            if error_of(response) == ErrorCode.NOT_CONTROLLER:
                raise NotController("not the active controller")
            return response

        return await self._call_leader(api, PURPOSES.get(api, api), here, there, timeout_s)

    async def forward(self, call: Call) -> Answer:
        """Return the active controller's response to a client's request, or an error response: REQUEST_TIMED_OUT
        without a response in time, UNKNOWN_SERVER_ERROR if the response to the Envelope is an error. Raises HangUp,
        which closes the client's connection, if that error is INVALID_REQUEST."""

        is_long = has_long_list(call.request)

        async def here() -> Answer:
            answer = self._answer(call)
            return await answer if isawaitable(answer) else answer

        async def there(channel: Channel, left_s: float) -> Any:
            correlation_id, request = call.header.correlation_id, call.request
            frame = await apart_if(is_long, request_frame, call.messages, call.client_id, correlation_id, request)
            client = _packed(call.client_host)
            principal = principal_bytes(call.principal)
            envelope = {"request_data": frame[4:], "request_principal": principal, "client_host_address": client}
            found: EnvelopeResponse = await channel.call("envelope", 0, timeout_s=left_s, **envelope)
            code = error_of(found)
            if code == ErrorCode.NOT_CONTROLLER:
                raise NotController("not the active controller")
            if code == ErrorCode.INVALID_REQUEST:
                raise HangUp("the active controller refuses it")
            if code != ErrorCode.NONE:
                return failed(call, ErrorCode.UNKNOWN_SERVER_ERROR)
            data = memoryview(found.response_data or b"")
            response = await apart_if(len(data) > LONG_BYTES, read_response, call.messages, data)
            if "throttle_time" in response.__dataclass_fields__:
                call.throttle_ms = round(response.throttle_time.total_seconds() * 1000)
            return response

        try:
            return await self._call_leader(call.messages.request_type.__name__, "forward", here, there, TIMEOUT_S)
        except Unanswered:
            return failed(call, ErrorCode.REQUEST_TIMED_OUT)

    async def _call_leader(
        self,
        what: str,
        purpose: str,
        here: Callable[[], Awaitable[T]],
        there: Callable[[Channel, float], Awaitable[T]],
        timeout_s: float,
    ) -> T:
        loop, metadata = asyncio.get_running_loop(), self._metadata
        deadline = loop.time() + timeout_s
        while True:
            try:
                if metadata.is_leader:
                    return await here()
                return await there(self._to_leader(purpose), deadline - loop.time())
            except (Unanswered, NotController) as error:
                reason = error
            if deadline - loop.time() <= RETRY_S:
                raise Unanswered(f"{what}: no answer of the active controller: {reason}") from reason
            await asyncio.sleep(RETRY_S)

    def _to_leader(self, purpose: str) -> Channel:
        address = self._metadata.leader_address
        if address != self._address:
            self.leader_changed()
            self._address = address
        if address is None:
            raise Unanswered("none is known")
        channel = self._channels.get(purpose)
        if channel is None:
            channel = self._channels[purpose] = self._network.channel(*address, str(self._node_id))
        return channel

    def leader_changed(self) -> None:
        """Close the connections to the former active controller. `call` and `forward` then send the requests that have
        no response yet again, to the new active controller."""
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()
        self._address = None


def _packed(host: str) -> bytes:
    address = host.partition("%")[0]  # a link-local IPv6 address without its zone id
    try:
        return socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)
    except OSError:
        return bytes(4)
