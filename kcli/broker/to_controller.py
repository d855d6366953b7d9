"""The way to the active controller, which may be this node and may change at any time.

    call      what this node asks it: heartbeats, AlterPartition, ...
    forward   what a client asks any broker, and only the active controller answers: in an Envelope (KIP-590)
    answer    what comes to this node's controller listener: NOT_CONTROLLER where it is not the active one (raft's own
              word for it where it is raft that is asked)

Where the active controller is not known, does not answer, or is it no more, `call` and `forward` look for the next one,
until their time is over. A new leader ends what waits for the old one. Source: NodeToControllerChannelManager,
ForwardingManager, EnvelopeUtils.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final

from kcli.broker.api import handler
from kcli.broker.metadata.errors import NotController
from kcli.broker.network.failures import failed
from kcli.broker.network.messages import Call, Entity, ErrorCode, HangUp, RequestHeader, messages
from kcli.broker.network.peers import (
    FETCH,
    Channel,
    Unanswered,
    api_named,
    error_of,
    new_request,
    read_response,
    request_frame,
)
from kcli.broker.turns import LONG_BYTES, apart_if, has_long_list

if TYPE_CHECKING:
    from kcli.broker.broker import Broker

PURPOSES: Final = {"broker_registration": "lifecycle", "broker_heartbeat": "lifecycle"}
"""What shares a channel; all else has one of its own, so that what waits holds up nothing else."""
DESCRIBE_QUORUM: Final = 55
RETRY_S: Final = 0.05
TIMEOUT_S: Final = 60.0
"""How long a forwarded request may take, as Kafka has it."""
ANONYMOUS: Final = b"\0\0" + b"\x05User" + b"\x0aANONYMOUS" + b"\0" + b"\0"
"""The principal of all clients: DefaultPrincipalData version 0."""


class ToController:
    """See above."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._channels: dict[str, Channel] = {}
        self._address: tuple[str, int] | None = None

    async def call(
        self, api: str, version: int | None = None, /, *, timeout_s: float = TIMEOUT_S, **fields: Any
    ) -> Entity:
        """Ask the active controller. version None: the newest that it speaks.

        NOT_CONTROLLER is not answered. Raises Unanswered.
        """
        known = api_named(api)

        async def here() -> Entity:
            kind = messages(known.key, known.most if version is None else version)
            header = RequestHeader(known.key, kind.version, 0, str(self._broker.node_id), 0)
            now_ms = self._broker.clock.now_ms()
            answer = handler(known.key)(Call(self._broker, kind, header, new_request(kind, fields), now_ms))
            return await answer if isawaitable(answer) else answer

        async def there(channel: Channel, left_s: float) -> Entity:
            response = await channel.call(api, version, timeout_s=left_s, **fields)
            if error_of(response) is ErrorCode.not_controller:
                raise NotController("not the active controller")
            return response

        return await self._ask(api, PURPOSES.get(api, api), here, there, timeout_s)

    async def forward(self, call: Call) -> Entity:
        """The active controller's answer to a client's request, or its error where there is none in time. Raises HangUp
        where the client is to be told by a closed connection."""

        is_long = has_long_list(call.request)

        async def here() -> Entity:
            answer = handler(call.messages.api_key)(call)
            return await answer if isawaitable(answer) else answer

        async def there(channel: Channel, left_s: float) -> Entity:
            correlation_id, request = call.header.correlation_id, call.request
            frame = await apart_if(is_long, request_frame, call.messages, call.client_id, correlation_id, request)
            client = _packed(call.client_host)
            envelope = {"request_data": frame[4:], "request_principal": ANONYMOUS, "client_host_address": client}
            found = await channel.call("envelope", 0, timeout_s=left_s, **envelope)
            code = error_of(found)
            if code is ErrorCode.not_controller:
                raise NotController("not the active controller")
            if code is ErrorCode.invalid_request:
                raise HangUp("the active controller refuses it")
            if code is not ErrorCode.none:
                return failed(call, ErrorCode.unknown_server_error)
            data = memoryview(found.response_data)
            response = await apart_if(len(data) > LONG_BYTES, read_response, call.messages, data)
            if "throttle_time" in response.__slots__:
                call.throttle_ms = round(response.throttle_time.total_seconds() * 1000)
            return response

        try:
            return await self._ask(call.messages.request_type.__name__, "forward", here, there, TIMEOUT_S)
        except Unanswered:
            return failed(call, ErrorCode.request_timed_out)

    async def _ask(
        self,
        what: str,
        purpose: str,
        here: Callable[[], Awaitable[Entity]],
        there: Callable[[Channel, float], Awaitable[Entity]],
        timeout_s: float,
    ) -> Entity:
        loop, metadata = asyncio.get_running_loop(), self._broker.metadata
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
        address = self._broker.metadata.leader_address
        if address != self._address:
            self.leader_changed()
            self._address = address
        if address is None:
            raise Unanswered("none is known")
        channel = self._channels.get(purpose)
        if channel is None:
            name = str(self._broker.node_id)
            channel = self._channels[purpose] = self._broker.network.channel(*address, name)
        return channel

    def leader_changed(self) -> None:
        """What waits for the old one looks for the new one."""
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()
        self._address = None

    async def answer(self, call: Call) -> Entity:
        """The answer to what came to this controller's own listener."""
        try:
            if call.messages.api_key == FETCH:
                from kcli.broker.metadata.answers import fetch_metadata

                return await fetch_metadata(call)
            answer = handler(call.messages.api_key)(call)
            return await answer if isawaitable(answer) else answer
        except NotController:
            is_of_raft = call.messages.api_key == DESCRIBE_QUORUM
            return failed(call, ErrorCode.not_leader_or_follower if is_of_raft else ErrorCode.not_controller)


def _packed(host: str) -> bytes:
    try:
        return socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)
    except OSError:
        return bytes(4)
