"""A cache of encoded responses, as many clients send the same requests. A response is cached until the state of the
node on which it depends changes.

The function `inputs` in a handler's module returns what its responses depend on: fields of the request, and a state of
the node, such as the version of the metadata image. The fields are the key of a cached response; if the state has
changed, the response is made again. Making a response about many partitions takes milliseconds; such a response takes
turns with other long work, and is made once for all requests that wait for it.

A client repeats a request with the same bytes, apart from the correlation id. If an API's responses depend only on
these bytes and on the state that `kept_state` of the handler's module returns, a cached response is found by the bytes,
and the request is not decoded. The client id is not among these bytes, as no cached response depends on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final

from kcli.broker.dispatch.handlers import inputs_of, state_of
from kcli.broker.process.turns import apart_if, has_long_list
from kcli.broker.wire.answers import Answer, Laid

if TYPE_CHECKING:
    from kcli.broker.broker import Broker
    from kcli.broker.dispatch.inputs import Inputs
    from kcli.broker.wire.apis import Api
    from kcli.broker.wire.call import Call, Client

    Handle = Callable[[Api, Call], Answer | Awaitable[Answer]]

KEPT_BYTES: Final = 32 << 20
"""The largest size, in bytes, of all cached responses of a node, with ENTRY_BYTES for the key of each response."""
ENTRY_BYTES: Final = 16 << 10
"""The bytes that are counted for the key of each cached response: more than a request with TOPICS_MAX topics takes,
whose names have 249 characters at most."""
SIZE_BYTES: Final = 4
HEAD_BYTES: Final = 8  # size of the frame's length and correlation id, in bytes
THROTTLE_BYTES: Final = 4
CLIENT_ID_AT: Final = 8  # position of the client id's length in a request: behind API key, version and correlation id
CLIENT_ID_LENGTH_BYTES: Final = 2
REQUEST_BYTES: Final = 4 << 10
"""The largest request, in bytes, whose response is looked up by the request's bytes."""
FORMS_MAX: Final = 8
"""The greatest number of requests with different bytes under which one cached response can be looked up."""


Form = tuple[str, tuple[str, str] | None, bytes, bytes]
"""The bytes of a request as a key: the listener, the client (None without an authorizer), API key and version, and the
bytes behind the client id."""


class Kept:
    """A cached response. size: the length field of its frame. body: the bytes of the frame behind the correlation id.
    state: the state of the node when the response was made. throttle_at: the position of the throttle time in the body,
    None if the version has no throttle time. forms: the keys, each made of the bytes of a request, under which the
    response can be looked up."""

    __slots__ = ("body", "forms", "size", "state", "throttle_at")

    def __init__(self, frame: bytes, state: Hashable, throttle_at: int | None) -> None:
        self.size = frame[:SIZE_BYTES]
        self.body = memoryview(frame)[HEAD_BYTES:]
        self.state = state
        self.forms: list[Form] = []
        self.throttle_at = None if throttle_at is None else throttle_at - HEAD_BYTES

    def to(self, correlation_id: int) -> KeptAnswer:
        """Return the response to the request with that correlation id."""
        answer = KeptAnswer((self.size + correlation_id.to_bytes(4, signed=True), self.body))
        answer.kept = self
        return answer


class KeptAnswer(Laid):
    """The frame of a cached response, whose body other frames share."""

    kept: Kept

    def set_throttle(self, throttle_ms: int) -> None:
        """Write the throttle time, in ms, into this frame: the body, which other frames share, is not changed."""
        at, body = self.kept.throttle_at, self.kept.body
        if at is not None:
            self[1:] = body[:at], throttle_ms.to_bytes(THROTTLE_BYTES), body[at + THROTTLE_BYTES :]


class KeptAnswers:
    """The cached responses of one node. size_bytes: the size of all of them together, with ENTRY_BYTES for the key of
    each."""

    def __init__(self, broker: Broker, handle: Handle) -> None:
        """handle: the function that makes the response to a request."""
        self._broker = broker
        self._handle = handle
        self._kept: dict[Hashable, Kept] = {}  # in order of use, the least recently used first
        self._forms: dict[Form, Kept] = {}
        self._making: dict[Hashable, asyncio.Task[Kept]] = {}
        self.size_bytes = 0

    def at_once(self, frame: memoryview, client: Client) -> KeptAnswer | None:
        """Return the cached response to the request in `frame`, found by the request's bytes; None if no response is
        found, or if the state of the node on which the response depends has changed since."""
        form = self._form(frame, client)
        kept = None if form is None else self._forms.get(form)
        if kept is None:
            return None
        find = state_of(int.from_bytes(frame[:2]))
        if find is None or find(self._broker, client.listener) != kept.state:
            return None
        return kept.to(int.from_bytes(frame[4:CLIENT_ID_AT], signed=True))

    def _form(self, frame: memoryview, client: Client) -> Form | None:
        """Return the Form under which the response to a request with these bytes is cached; None if the request is
        longer than REQUEST_BYTES, or its header is incomplete."""
        behind = CLIENT_ID_AT + CLIENT_ID_LENGTH_BYTES
        length = int.from_bytes(frame[CLIENT_ID_AT:behind], signed=True)
        if not -1 <= length <= len(frame) - behind or len(frame) > REQUEST_BYTES:
            return None
        who = None if self._broker.authorizer is None else (client.principal, client.client_host)
        return client.listener, who, bytes(frame[:4]), bytes(frame[behind + max(length, 0) :])

    def _note_form(self, call: Call, kept: Kept) -> None:
        """Let `at_once` find the cached response by the bytes of this request, too. Do nothing if FORMS_MAX requests
        lead to the response already, or if the responses of the API cannot be found by the request's bytes."""
        if call.frame is None or len(kept.forms) == FORMS_MAX or state_of(call.messages.api_key) is None:
            return
        form = self._form(memoryview(call.frame), call)
        if form is not None and self._forms.get(form) is not kept:
            self._forms[form] = kept
            kept.forms.append(form)
            self.size_bytes += len(form[-1])

    def answer(self, api: Api, call: Call) -> Answer | Awaitable[Answer]:
        """Return the cached response to a request. If there is none, or what it depends on has changed, return a new
        response or an awaitable of it."""
        find = inputs_of(api.key)
        if find is None:
            return self._handle(api, call)
        inputs = find(self._broker, call)
        if inputs.fields is None:
            return self._in_turn(api, call) if inputs.is_long else self._handle(api, call)
        client = None if self._broker.authorizer is None else (call.principal, call.client_host)
        key = call.messages, call.listener, client, inputs.fields
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._kept[key] = kept
            if kept.state == inputs.state:
                self._note_form(call, kept)
                return kept.to(call.header.correlation_id)
        return self._shared(api, call, key, inputs)

    async def _in_turn(self, api: Api, call: Call) -> Answer:
        await self._broker.turns.next()
        found = self._handle(api, call)
        return await found if isawaitable(found) else found

    async def _shared(self, api: Api, call: Call, key: Hashable, inputs: Inputs) -> Answer:
        """Return the response that one task makes for all requests with these inputs."""
        place = key, inputs.state
        making = self._making.get(place)
        if making is None:
            making = self._making[place] = asyncio.get_running_loop().create_task(self._make(api, call, key, inputs))
            making.add_done_callback(lambda task: task.cancelled() or task.exception())
        return (await asyncio.shield(making)).to(call.header.correlation_id)

    async def _make(self, api: Api, call: Call, key: Hashable, inputs: Inputs) -> Kept:
        """Make a response, and cache it unless the state of the node has changed meanwhile, or the request wrote to the
        audit log: each such request must write its own lines."""
        try:
            found: Any = self._in_turn(api, call) if inputs.is_long else self._handle(api, call)
            response = await found if isawaitable(found) else found
            frame, throttle_at = await apart_if(
                has_long_list(response), call.messages.encode_with_throttle_at, response
            )
            kept = Kept(frame, inputs.state, throttle_at)
            again = inputs_of(api.key)
            if not call.is_audited and again is not None and again(self._broker, call)[:2] == inputs[:2]:
                self._keep(key, kept)
            return kept
        finally:
            del self._making[key, inputs.state]

    def _keep(self, key: Hashable, kept: Kept) -> None:
        self._drop(key)
        size_bytes = len(kept.body) + ENTRY_BYTES
        if size_bytes > KEPT_BYTES:
            return
        while self.size_bytes + size_bytes > KEPT_BYTES:
            self._drop(next(iter(self._kept)))
        self._kept[key] = kept
        self.size_bytes += size_bytes

    def _drop(self, key: Hashable) -> None:
        dropped = self._kept.pop(key, None)
        if dropped is None:
            return
        self.size_bytes -= len(dropped.body) + ENTRY_BYTES
        for form in dropped.forms:
            self.size_bytes -= len(form[-1])
            if self._forms.get(form) is dropped:
                del self._forms[form]
