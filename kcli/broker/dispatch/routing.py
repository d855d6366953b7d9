"""Routes a request to its handler on this node, or to the active controller. Responds at once to plain requests, which
can be handled without decoding."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import TYPE_CHECKING, Final, cast

from kcli.broker.authorization import Denied
from kcli.broker.broker import Broker
from kcli.broker.dispatch.handlers import answer, handler, plain_of, state_of
from kcli.broker.dispatch.kept import KeptAnswers
from kcli.broker.dispatch.parts import PARTS
from kcli.broker.metadata.errors import NotController
from kcli.broker.wire.answers import REFUSED_WITHOUT_ACKS, Answer, HangUp, Laid, Later, Served
from kcli.broker.wire.apis import CONTROLLERS, LOOKED_AT_FIRST, Api
from kcli.broker.wire.call import Call, Client
from kcli.broker.wire.failures import failed
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType
from kcli.security.authorizer import AuthorizerNotReady

if TYPE_CHECKING:
    from formats.kernels.produce import ProduceLanes
    from kcli.broker.partition.partitions import Partition
    from kcli.broker.wire.types.fetch import FetchCall

FETCH: Final = 1
DESCRIBE_QUORUM: Final = 55
NOT_TOLD_WHO_IS_ACTIVE: Final = frozenset((20, 49, 70))
"""The API keys of DeleteTopics, AlterClientQuotas and ControllerRegistration. Their responses with NOT_CONTROLLER have
no message or a general one, and do not name the active controller."""


class Router:
    """Handles the requests that come through a node's listeners: the `Requests` of its Server (network/server.py)."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.quotas = broker.quotas
        self.now_ms = broker.clock.now_ms
        self.kept = KeptAnswers(broker, self.route)
        self._controllers = frozenset(broker.config.controller_listener_names)
        self._at_once: dict[int, Callable[[memoryview, Client], Laid | Later | None] | None] = {}

    def is_split(self, api: Api) -> bool:
        """Whether the long requests of an API are handled in parts."""
        return api.name in PARTS

    def at_once(self, frame: memoryview, client: Client) -> Laid | Later | None:
        """Return the response to a plain request, that is, one that can be handled from its bytes without decoding.
        Return None, and change nothing, for a request that has to be decoded: also for every request on a controller
        listener, and while there are client quotas, which count the time of each request."""
        if self._decodes_all(client):
            return None
        find = self._at_once.get(int.from_bytes(frame[:2]))
        return None if find is None else find(frame, client)

    def _decodes_all(self, client: Client) -> bool:
        """Whether no request of a client is answered from its bytes (see `at_once`)."""
        return self.quotas.is_active or client.listener in self._controllers

    def serve(
        self,
        fd: int,
        buffer: memoryview,
        kept_bytes: int,
        client: Client,
        request_max_bytes: int,
        turn_ns: int,
        *,
        lanes: ProduceLanes[Partition] | None = None,
    ) -> Served | None:
        """Receive from a client's socket, and answer the plain Produce requests and the repeated OffsetCommits at the
        front of the received bytes (see ProduceLanes.serve). Return None, with nothing received, if there is no
        partition for such requests, and in all cases in which `at_once` returns None. lanes: those of a data-plane
        thread, which repeats no commits; None for the event loop's. Raises HangUp, OSError."""
        broker = self.broker
        if broker.is_read_only or self._decodes_all(client):
            return None
        commits = None
        if lanes is None:
            lanes = broker.lanes
            commits = broker.groups.kept_commits() if broker.access.allows_all else None
        if not (lanes or commits):
            return None
        may_write = broker.access.writes_unaudited(client)
        served = lanes.serve(fd, buffer, kept_bytes, request_max_bytes, turn_ns, self.now_ms(), may_write, commits)
        if lanes.hangs_up:
            raise HangUp(REFUSED_WITHOUT_ACKS)
        return served

    def lanes_beside(self) -> ProduceLanes[Partition]:
        """Return lanes with which a data-plane thread may call `serve`."""
        return self.broker.lanes.beside()

    def _finder(self, api_key: int) -> Callable[[memoryview, Client], Laid | Later | None] | None:
        """Return the function that handles an API's plain requests; None for an API that has no plain requests. This
        method is called at the first request that `handle` gets for the API: by then the API's modules are imported."""
        if state_of(api_key) is not None:
            return self.kept.at_once
        broker, answer_plain = self.broker, plain_of(api_key)
        if broker.is_read_only:
            return None
        if answer_plain is None:
            return None
        return lambda frame, client: answer_plain(broker, frame, client, self.now_ms())

    def handle(self, api: Api, call: Call) -> Answer | Awaitable[Answer]:
        """Return the cached response to the request, or else what `route` returns."""
        if api.key not in self._at_once:
            self._at_once[api.key] = self._finder(api.key)
        return self.kept.answer(api, call)

    def route(self, api: Api, call: Call) -> Answer | Awaitable[Answer]:
        """Return the response of this node's handler, or that of the active controller's handler if only the active
        controller handles such requests."""
        broker = self.broker
        if api.on is CONTROLLERS:
            return self._answer_as_controller(call)
        if api.forwards and not broker.is_alone and api.key not in LOOKED_AT_FIRST:
            return broker.controller.forward(call)
        return answer(broker, call)

    async def _answer_as_controller(self, call: Call) -> Answer:
        """Return the response to a request that came through a controller listener. If this node is not the active
        controller, the response to DescribeQuorum has the error NOT_LEADER_OR_FOLLOWER, and that to any other request
        that only the active controller handles has NOT_CONTROLLER."""
        broker = self.broker
        try:
            if call.messages.api_key == FETCH:
                from kcli.broker.metadata.answers import fetch_metadata

                broker.access.require(call, Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
                return await fetch_metadata(broker.metadata, broker.cluster_id, cast("FetchCall", call))
            found = answer(broker, call)
            return await found if isawaitable(found) else found
        except Denied as denied:
            return failed(call, denied.code)
        except AuthorizerNotReady:
            return failed(call, ErrorCode.UNKNOWN_SERVER_ERROR)
        except NotController:
            if call.messages.api_key == DESCRIBE_QUORUM:
                return failed(call, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            is_told = call.messages.api_key not in NOT_TOLD_WHO_IS_ACTIVE
            return failed(call, ErrorCode.NOT_CONTROLLER, self._who_is_active() if is_told else None)

    def _who_is_active(self) -> str:
        """Return the error message for NOT_CONTROLLER. Source: ControllerExceptions.newWrongControllerException."""
        leader_id = self.broker.metadata.leader_id
        if leader_id is None:
            return "No controller appears to be active."
        return f"The active controller appears to be node {leader_id}."

    def load(self, api_key: int) -> None:
        """Import an API's handler, which takes milliseconds. Called in a thread."""
        handler(api_key)
