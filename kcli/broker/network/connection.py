"""One client's connection: frames in, one request at a time, answers out in order.

    reading   the next request is looked at when the answer to the last one is sent, or waits with others in the socket
              as long as the client takes what it gets: that is the back-pressure, and why memory stays bounded
    waiting   a request that waits (a fetch for data) holds up only its own connection. Behind a batch that waits for
              followers others are appended, and answered in order: so one fetch of a follower gets them all
    throttled the answer goes out at once, the connection is deaf for as long as it says

No task and no future is made for a request that is answered at once. Source: SocketServer's Processor, which mutes a
channel in the same way; KIP-219 (throttling).
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from functools import partial
from inspect import isawaitable, iscoroutine
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from kcli.broker.api import APIS, BROKER_APIS, CONTROLLER_APIS, CONTROLLERS, LOOKED_AT_FIRST, Api, handler, is_flexible
from kcli.broker.network.messages import (
    API_VERSIONS,
    PRODUCE,
    BadRequest,
    Call,
    Entity,
    HangUp,
    Messages,
    RequestHeader,
    messages,
    read_header,
    read_request,
    with_throttle,
)
from kcli.broker.network.outgoing import Outgoing, Part
from kcli.broker.turns import LONG_BYTES, apart, has_long_list
from kcli.broker.unattended import report

if TYPE_CHECKING:
    from kcli.broker.network.server import Server

log = logging.getLogger("kcli.broker")
SIZE_BYTES = 4
TURN_NS, TURN_BYTES = 5_000_000, 256 << 10
"""After so much time, or bytes of answers, other connections have their turn."""
LATE_MAX = 32
"""So many batches of one connection may wait for followers."""


class Laid(list[Part]):
    """A whole frame that its handler has laid out itself: Fetch's. throttle_at: where in its first part, a bytearray,
    the throttle time is."""

    throttle_at = 0

    def set_throttle(self, throttle_ms: int) -> None:
        """Tell the client for how long it is throttled."""
        head = self[0]
        assert isinstance(head, bytearray), "the first part is ours"
        head[self.throttle_at : self.throttle_at + 4] = throttle_ms.to_bytes(4)


class Encoded(Laid):
    """An answer that tells the client already for how long it is throttled, or has no place for it."""

    def set_throttle(self, throttle_ms: int) -> None:
        """Nothing to be done."""


class Later:
    """An answer that is made of a future's outcome, by `finish`, once the future is done: no task waits for it."""

    __slots__ = ("finish", "future")

    def __init__(self, future: asyncio.Future[Any], finish: Callable[[asyncio.Future[Any]], Any]) -> None:
        self.future, self.finish = future, finish

    def __await__(self) -> Generator[Any, None, Any]:
        with suppress(Exception):
            yield from self.future
        return self.finish(self.future)


class _Late:
    """An answer to a batch: when its future is done, or with none where it only waits for those in front of it."""

    __slots__ = ("answer", "began", "call", "response")

    def __init__(self, call: Call, began: int, answer: Later | None, response: Entity | None) -> None:
        self.call, self.began, self.answer, self.response = call, began, answer, response


class Connection:
    """See above; closed by either side, or by `close`."""

    __slots__ = (
        "_answer_task",
        "_apis",
        "_fd",
        "_held",
        "_is_draining",
        "_is_reading",
        "_is_writing",
        "_late",
        "_loop",
        "_max_bytes",
        "_out",
        "_rest",
        "_server",
        "_socket",
        "_timer",
        "_unbegun",
        "_waits_for_late",
        "_wanted",
        "client_host",
        "is_closed",
        "last_active",
        "listener",
        "peer",
    )

    def __init__(self, server: Server, sock: socket.socket, peer: tuple[str, int], listener: str) -> None:
        self._server = server
        self._loop = server.loop
        self._socket = sock
        self._fd = sock.fileno()
        self._max_bytes: int = server.config.socket_request_max_bytes
        self.client_host = peer[0]
        self.peer = f"{peer[0]}:{peer[1]}"
        self.listener = listener
        self._apis = CONTROLLER_APIS if listener in server.config.controller_listener_names else BROKER_APIS
        self.last_active = server.loop.time()
        self.is_closed = False
        self._rest = bytearray()  # bytes of requests not yet looked at
        self._wanted = SIZE_BYTES  # of them, for the next request
        self._held = False  # no request is looked at: one is being answered, or the client throttled
        self._late: deque[_Late] = deque()
        self._waits_for_late = False
        self._is_draining = False  # nothing is looked at any more
        self._out = Outgoing(sock)
        self._answer_task: asyncio.Future[Any] | None = None
        self._unbegun: Awaitable[Entity] | None = None  # an answer that its task has not come to yet
        self._timer: asyncio.TimerHandle | None = None
        self._is_reading = self._is_writing = False
        self._listen()

    def close(self, reason: str = "", *, level: int = logging.DEBUG) -> None:
        """End the connection, at once."""
        if self.is_closed:
            return
        self.is_closed = True
        if reason:
            log.log(level, "connection from %s closed: %s", self.peer, reason)
        self._pause()
        self._stop_writing()
        if self._answer_task is not None:
            self._answer_task.cancel()
            if iscoroutine(self._unbegun):
                self._unbegun.close()
        late, self._late = self._late, deque()
        for each in late:
            if each.answer is not None:
                each.answer.future.cancel()
        if self._timer is not None:
            self._timer.cancel()
        self._out.close()
        self._socket.close()
        self._server.forget(self)

    def drain(self) -> None:
        """Look at no request any more. Answers to those before still go out."""
        self._is_draining = True
        self._pause()

    @property
    def is_busy(self) -> bool:
        """Is a request being answered, or an answer on its way?"""
        return self._answer_task is not None or bool(self._late) or bool(self._out)

    # reading

    def _listen(self) -> None:
        if not self._is_reading:
            self._loop.add_reader(self._fd, self._readable)
            self._is_reading = True

    def _pause(self) -> None:
        if self._is_reading:
            self._loop.remove_reader(self._fd)
            self._is_reading = False

    def look(self) -> None:
        """Notice where the client is gone: of a reset that comes with the last bytes uvloop tells only the bytes."""
        if self._is_reading:
            self._readable()

    def _readable(self) -> None:
        if self._held or self._out:
            self._look_whether_gone()
            return
        scratch = self._server.scratch
        try:
            count = self._socket.recv_into(scratch)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.close(str(error))
            return
        if count == 0:
            self.close("by the client")
            return
        self.last_active = self._loop.time()
        self._take(scratch[:count])

    def _look_whether_gone(self) -> None:
        """The client sends more while it is held up: leave that in the socket, but notice where it has gone."""
        try:
            if self._socket.recv(1, socket.MSG_PEEK):
                self._pause()
            else:
                self.close("by the client")
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.close(str(error))

    def _take(self, data: memoryview) -> None:
        """Answer the requests in what came, and keep what is left."""
        if self._rest:
            self._rest += data
            if len(self._rest) < self._wanted:
                return
            rest, self._rest = self._rest, bytearray()
            data = memoryview(rest)
        position, size, until = 0, len(data), perf_counter_ns() + TURN_NS
        while not self._held:
            if self._out.size_bytes > TURN_BYTES or perf_counter_ns() > until:
                self._held = True
                self._loop.call_soon(self._next_turn)
                break
            behind = position + SIZE_BYTES
            if behind > size:
                self._wanted = SIZE_BYTES
                break
            length = int.from_bytes(data[position:behind], signed=True)
            if not 0 <= length <= self._max_bytes:
                reason = f"a request of {length:,} bytes, socket.request.max.bytes is {self._max_bytes:,}"
                self.close(reason, level=logging.WARNING)
                return
            if behind + length > size:
                self._wanted = SIZE_BYTES + length
                break
            if self._late and not self._may_go_on(data, behind):
                self._held = self._waits_for_late = True
                break
            position = behind + length
            try:
                self._request(data[behind:position])
            except BadRequest as error:
                self.close(f"not a request: {error}", level=logging.WARNING)
            if self.is_closed:
                return
        if position < size:
            self._rest += data[position:]
        self._flush()

    def _may_go_on(self, data: memoryview, behind: int) -> bool:
        """May the next request be looked at, while batches in front of it wait? Only one with batches."""
        return len(self._late) < LATE_MAX and int.from_bytes(data[behind : behind + 2]) == PRODUCE

    def _next_turn(self) -> None:
        self._held = False
        self._resume()

    def _resume(self) -> None:
        """Nothing holds the client up any more: look at what it has sent meanwhile, then listen again."""
        if self._waits:
            return
        if len(self._rest) >= min(self._wanted, SIZE_BYTES):
            rest, self._rest = self._rest, bytearray()
            self._take(memoryview(rest))
        if not self._waits:
            self._listen()

    @property
    def _waits(self) -> bool:
        return self.is_closed or self._is_draining or self._held or bool(self._out)

    # answering

    def _request(self, frame: memoryview) -> None:
        header = read_header(frame, is_flexible)
        api = self._apis.get(header.api_key)
        if api is None or not api.least <= header.version <= api.most:
            if header.api_key != API_VERSIONS:
                raise BadRequest(f"API key {header.api_key} version {header.version}, which this broker does not speak")
            header = header._replace(version=0)
            self._dispatch(APIS[API_VERSIONS], messages(API_VERSIONS, 0), header, None)
            return
        kind = messages(header.api_key, header.version)
        if len(frame) > LONG_BYTES and header.api_key != PRODUCE:
            self._held = True
            self._answer_task = self._loop.create_task(self._read_apart(api, kind, header, bytes(frame)))
            return
        self._dispatch(api, kind, header, read_request(kind, frame, header.position))

    async def _read_apart(self, api: Api, kind: Messages, header: RequestHeader, frame: bytes) -> None:
        try:
            request = await apart(read_request, kind, memoryview(frame), header.position)
            self._answer_task = None
            self._held = False
            self._dispatch(api, kind, header, request)
        except BadRequest as error:
            self.close(f"not a request: {error}", level=logging.WARNING)
            return
        except Exception as error:  # noqa: BLE001  (as below)
            self._failed(api, error)
            return
        self._flush()
        self._resume()

    def _dispatch(self, api: Api, kind: Messages, header: RequestHeader, request: Entity | None) -> None:
        """request None: ApiVersions of a version that there is not yet, answered in version 0."""
        broker = self._server.broker
        call = Call(broker, kind, header, request, broker.clock.now_ms(), self.client_host, self.listener)
        began = perf_counter_ns()
        try:
            answer = self._server.handle(api, call)
            if isinstance(answer, Laid):
                self._in_order(call, answer, began)
            elif isinstance(answer, Later) and api.key == PRODUCE:
                self._late.append(_Late(call, began, answer, None))
                answer.future.add_done_callback(self._late_is_there)
            elif isinstance(answer, Later):
                self._held = True
                self._answer_task = answer.future
                answer.future.add_done_callback(partial(self._is_there, call, answer, began))
            elif isawaitable(answer):
                self._held = True
                if api.key == PRODUCE:  # its batches are views of the frame
                    self._server.renew_scratch()
                self._unbegun = answer
                self._answer_task = self._loop.create_task(self._wait_for(call, answer, began))
            elif has_long_list(answer):
                self._held = True
                self._answer_task = self._loop.create_task(self._encode_apart(call, answer, began))
            else:
                self._in_order(call, answer, began)
        except BadRequest:
            raise
        except HangUp as reason:
            self.close(str(reason), level=logging.INFO)
        except Exception as error:  # noqa: BLE001  (whatever a handler's bug is, it ends its connection, not the broker)
            self._failed(api, error)

    def _in_order(self, call: Call, response: Entity | Laid | None, began: int) -> None:
        """Answer behind those that wait."""
        if self._late:
            self._late.append(_Late(call, began, None, response))
        else:
            self._answer(call, response, began)

    def _late_is_there(self, _: object) -> None:
        """Batches have reached their followers: answer as many as are in front."""
        late = self._late
        if not late:
            return
        call = late[0].call
        try:
            while late:
                first = late[0]
                if first.answer is None:
                    response = first.response
                elif first.answer.future.done():
                    response = first.answer.finish(first.answer.future)
                else:
                    break
                late.popleft()
                call = first.call
                self._answer(call, response, first.began)
        except Exception as error:  # noqa: BLE001  (as above)
            self._end_with(call, error)
            return
        self._flush()
        if not late and self._waits_for_late:
            self._waits_for_late = self._held = False
            self._resume()

    async def _wait_for(self, call: Call, answer: Awaitable[Entity], began: int) -> None:
        self._unbegun = None
        try:
            response = await answer
            if not isinstance(response, Laid) and has_long_list(response):
                response = await self._encoded(call, response, began)
        except Exception as error:  # noqa: BLE001  (as above)
            self._end_with(call, error)
        else:
            self._answer_late(call, response, began)

    async def _encode_apart(self, call: Call, response: Entity, began: int) -> None:
        try:
            encoded = await self._encoded(call, response, began)
        except Exception as error:  # noqa: BLE001  (as above)
            self._end_with(call, error)
        else:
            self._answer_late(call, encoded, began)

    async def _encoded(self, call: Call, response: Entity, began: int) -> Laid:
        """A long answer's frame, by a thread."""
        call.throttle_ms = self._throttle_ms(call, began)
        call.is_exempt = True  # it has been counted
        response = with_throttle(response, call.throttle_ms)
        return Encoded([await apart(call.messages.encode, call.header.correlation_id, response)])

    def _is_there(self, call: Call, later: Later, began: int, _: object) -> None:
        if self.is_closed:
            return
        try:
            response = later.finish(later.future)
        except Exception as error:  # noqa: BLE001  (as above)
            self._end_with(call, error)
        else:
            self._answer_late(call, response, began)

    def _answer_late(self, call: Call, response: Entity | Laid | None, began: int) -> None:
        """What was waited for is there: answer, and go on."""
        self._answer_task = None
        self._held = False
        if self.is_closed:
            return
        try:
            self._in_order(call, response, began)
            self._flush()
            self._resume()
        except Exception as error:  # noqa: BLE001  (as above)
            self._end_with(call, error)

    def _end_with(self, call: Call, error: Exception) -> None:
        self._answer_task = None
        if isinstance(error, BadRequest):
            self.close(f"not a request: {error}", level=logging.WARNING)
        elif isinstance(error, HangUp):
            self.close(str(error), level=logging.INFO)
        else:
            self._failed(APIS[call.header.api_key], error)

    def _failed(self, api: Api, error: Exception) -> None:
        report(f"{api.name} from {self.peer} failed", error)
        self._answer_task = None
        self.close(f"{api.name} failed")

    def _answer(self, call: Call, response: Entity | Laid | None, began: int) -> None:
        throttle_ms = self._throttle_ms(call, began)
        if isinstance(response, Laid):
            if throttle_ms:
                response.set_throttle(throttle_ms)
            self._out.add(response)
        elif response is not None:
            self._out.add([call.messages.encode(call.header.correlation_id, with_throttle(response, throttle_ms))])
        if throttle_ms:
            self._held = True
            self._timer = self._loop.call_later(throttle_ms / 1000, self._end_throttle)

    def _throttle_ms(self, call: Call, began: int) -> int:
        quotas = self._server.broker.quotas
        if not quotas.is_active or call.is_exempt:
            return call.throttle_ms
        return max(call.throttle_ms, quotas.request_throttle_ms(call, perf_counter_ns() - began))

    def _end_throttle(self) -> None:
        self._timer = None
        self._next_turn()

    # writing

    def _flush(self) -> None:
        if not self._out or self.is_closed:
            return
        try:
            if self._out.send():
                return
        except OSError as error:
            self.close(str(error))
            return
        if not self._is_writing:
            self._loop.add_writer(self._fd, self._writable)
            self._is_writing = True

    def _writable(self) -> None:
        try:
            if not self._out.send():
                return
        except OSError as error:
            self.close(str(error))
            return
        self.last_active = self._loop.time()
        self._stop_writing()
        self._resume()

    def _stop_writing(self) -> None:
        if self._is_writing:
            self._loop.remove_writer(self._fd)
            self._is_writing = False


def handle(api: Api, call: Call) -> Entity | Awaitable[Entity]:
    """Give a request to its handler, or to the active controller. See Server.handle."""
    broker = call.broker
    if broker.is_read_only:
        from kcli.broker.read_only.requests import answer

        return answer(api, call)
    if api.on is CONTROLLERS:
        return broker.controller.answer(call)
    if api.forwards and not broker.is_alone and api.key not in LOOKED_AT_FIRST:
        return broker.controller.forward(call)
    return handler(api.key)(call)
