"""One client's connection. It reads requests, passes them to their handlers and sends the responses in the order of the
requests.

To take a request means to decode it and to call its handler. The state of a connection says whether the next request is
taken, and if not, what it waits for:

    READING   requests are taken: from the bytes received, then from the socket
    YIELDING  the connection has used up its turn (TURN_NS, TURN_BYTES): the event loop serves other connections first
    WAITING   the next request waits for a response: to a request that a thread decodes, to a request whose response
              takes time (a Fetch without data, a JoinGroup), or to all the Produce requests in front of it
    MUTED     the client is throttled: its response is sent, but until the throttle time is over no request is taken
    LENT      a data-plane thread answers the client's requests (data_plane.py), until it gives the connection back
    STARVED   no memory for the next request is left (request_memory.py): the rest of that request stays in the socket
              until the responses to other requests are sent
    SENDING   the client reads its responses more slowly than they are made: no request is taken until all are sent
    DRAINING  the broker stops: no request is taken any more, the responses to earlier requests are still sent
    CLOSED    the client or the broker has closed the connection, or it has failed

TRANSITIONS has every change of state: the state and an event give the next state. An event that is not listed for a
state leaves the state as it is. Each transition back to READING is followed by a check for another obstacle, whose
event is then applied: a connection that was WAITING when its client was throttled becomes MUTED once the response is
complete (`_go_on`).

The bytes of requests that are not taken stay in the socket. This slows down the client, and bounds the broker's memory.

Responses that cannot be sent yet are in one queue, `_pending`, in the order of their requests. Produce requests join
the queue behind Produce requests whose batches wait for followers (LATE_MAX at most), so that one Fetch of a follower
reads all those batches; any other request waits until the queue is empty. A request whose response is made at once
needs no task, no future and no place in the queue.

On a SASL listener the requests go through the connection's Authentication (authentication.py) first. A failed
authentication leaves the connection DRAINING until connection.failed.authentication.delay.ms is over. Over TLS the
event loop does not see bytes that OpenSSL has received already, so the connection reads them without waiting for the
socket (`_read_on`).

Source: SocketServer's Processor, which mutes a channel until the response to its request is sent; KIP-219 (a throttled
client gets its response at once).
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Callable, Coroutine
from enum import StrEnum
from inspect import CORO_CREATED, getcoroutinestate, isawaitable, iscoroutine
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

from kcli.broker.network.authentication import Authentication, Step
from kcli.broker.network.data_plane import Returned
from kcli.broker.network.outgoing import Outgoing
from kcli.broker.network.tls_socket import TlsSocket
from kcli.broker.process.turns import LONG_BYTES, apart, has_long_list
from kcli.broker.process.unattended import report
from kcli.broker.wire.answers import Answer, Encoded, HangUp, Laid, Later, Served, with_throttle
from kcli.broker.wire.apis import APIS, BROKER_APIS, CONTROLLER_APIS, Api
from kcli.broker.wire.call import Call
from kcli.broker.wire.messages import (
    API_VERSIONS,
    PRODUCE,
    BadRequest,
    Message,
    Messages,
    RequestHeader,
    imported,
    messages,
    read_body,
    read_header,
    read_short_produce,
)
from kcli.security.principals import ANONYMOUS

if TYPE_CHECKING:
    from kcli.broker.network.server import Server

log = logging.getLogger("kcli.broker")
SIZE_BYTES: Final = 4
API_KEY_AT: Final = 5
"""Where the lower byte of a request's API key is, behind its size."""
EMPTY: Final = bytearray()
TURN_NS: Final = 2_000_000
TURN_BYTES: Final = 256 << 10
"""A connection's turn ends after TURN_NS nanoseconds, divided by the number of connections whose turns ended before all
their requests were handled, or after TURN_BYTES bytes of unsent responses. At least one request is handled in each
turn."""
WAITING_APIS: Final = frozenset(api.key for api in APIS.values() if api.name in {"fetch", "join_group", "sync_group"})
"""The APIs whose requests may wait for data or for other clients, up to a time that the client sets."""
UNDECODED: Final = -1
ROOM_BYTES: Final = 1 << 20
"""The room, in bytes, for a request that arrives in pieces, before its client has sent a quarter of so much."""
PLAIN_TURNS: Final = 64
"""How often in a row compiled code must have answered all received bytes before the connection is lent to a data-plane
thread."""
LATE_MAX: Final = 32
"""The greatest number of Produce requests of one connection that may wait for their responses at a time."""


class State(StrEnum):
    """Whether the next request of the connection is handled now; if not, the event that it waits for."""

    READING = "reading"
    YIELDING = "yielding"
    WAITING = "waiting"
    MUTED = "muted"
    LENT = "lent"
    STARVED = "starved"
    SENDING = "sending"
    DRAINING = "draining"
    CLOSED = "closed"


class Event(StrEnum):
    """The events that change the state of a connection."""

    TURN_OVER = "the connection has had its time, or its bytes of answers"
    NEXT_TURN = "the other connections have had their turns"
    HELD_UP = "the next request has to wait for an answer"
    ANSWERED = "the answer that the next request has waited for is there"
    THROTTLED = "an answer tells the client to send nothing for a time"
    UNMUTED = "that time is over"
    LEND = "all requests have been plain for a while"
    RETURNED = "the client has sent something else, or is to be closed"
    NO_MEMORY = "the requests of all connections take up all memory that they may"
    FREED = "some of that memory is free"
    UNSENT = "the socket does not take all answers"
    SENT = "the socket has taken all answers"
    DRAIN = "the broker is about to stop"
    CLOSE = "the client or the broker ends the connection"


READING, YIELDING, WAITING, MUTED, LENT, STARVED, SENDING, DRAINING, CLOSED = State
(
    TURN_OVER,
    NEXT_TURN,
    HELD_UP,
    ANSWERED,
    THROTTLED,
    UNMUTED,
    LEND,
    RETURNED,
    NO_MEMORY,
    FREED,
    UNSENT,
    SENT,
    DRAIN,
    CLOSE,
) = Event

_ENDS: Final = {DRAIN: DRAINING, CLOSE: CLOSED}
TRANSITIONS: Final[dict[State, dict[Event, State]]] = {
    READING: {
        TURN_OVER: YIELDING,
        HELD_UP: WAITING,
        THROTTLED: MUTED,
        LEND: LENT,
        NO_MEMORY: STARVED,
        UNSENT: SENDING,
        **_ENDS,
    },
    YIELDING: {NEXT_TURN: READING, **_ENDS},
    WAITING: {ANSWERED: READING, **_ENDS},
    MUTED: {UNMUTED: READING, **_ENDS},
    LENT: {RETURNED: READING, **_ENDS},
    STARVED: {FREED: READING, **_ENDS},
    SENDING: {SENT: READING, **_ENDS},
    DRAINING: {CLOSE: CLOSED},
    CLOSED: {},
}
"""State and event -> the next state. An event that is not listed for a state leaves the state as it is."""


class _Pending:
    """A place in the queue of responses. api_key: the API key of the request, UNDECODED while a thread decodes it.
    call: the request; None for UNDECODED, and for a request that is answered without decoding. answer: the response, a
    Later, or an awaitable. task: the task that awaits or encodes the response; None if there is none or it is done.
    began_ns: when the handler was called. size_bytes: the bytes of request memory (request_memory.py) that the request
    occupies until its response is sent."""

    __slots__ = ("answer", "api_key", "began_ns", "call", "size_bytes", "task")

    def __init__(self, api_key: int, call: Call | None, answer: Any, began_ns: int) -> None:
        self.api_key, self.call, self.answer, self.began_ns = api_key, call, answer, began_ns
        self.size_bytes = 0
        self.task: asyncio.Task[None] | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the response can be sent as soon as all responses in front of it are sent."""
        return self.task is None and (not isinstance(self.answer, Later) or self.answer.future.done())

    @property
    def holds_up_all(self) -> bool:
        """Whether no further request is handled before this response is sent, not even a Produce request."""
        return self.task is not None or self.api_key != PRODUCE

    def give_up(self) -> None:
        """Cancel the task or the future that makes the response."""
        if self.task is not None:
            self.task.cancel()
            if iscoroutine(self.answer) and getcoroutinestate(self.answer) == CORO_CREATED:
                self.answer.close()  # the task never awaited the coroutine: keep Python from warning of that
        elif isinstance(self.answer, Later):
            self.answer.future.cancel()


class Connection:
    """A client's socket, with its state, its pending responses and its unsent responses. Only the event loop's thread
    uses this object.

    client_host, peer: the client's address as Java writes it, without and with its port. listener: the name of its
    listener. principal: the client's principal. last_active: when bytes were last received or sent, in seconds of the
    event loop's clock.
    """

    __slots__ = (
        "_apis",
        "_authentication",
        "_fd",
        "_is_reading",
        "_is_writing",
        "_loop",
        "_max_bytes",
        "_memory",
        "_needed_bytes",
        "_out",
        "_pending",
        "_plain_turns",
        "_rest_bytes",
        "_room",
        "_server",
        "_socket",
        "_state",
        "_taken_bytes",
        "_timer",
        "_tls",
        "_with_token",
        "client_host",
        "last_active",
        "listener",
        "peer",
        "principal",
    )

    def __init__(
        self,
        server: Server,
        sock: socket.socket | TlsSocket,
        peer: tuple[str, int],
        listener: str,
        *,
        principal: str = ANONYMOUS,
        authentication: Authentication | None = None,
    ) -> None:
        """authentication: the Authentication of a client that has to log in by SASL; None for other clients."""
        self._server = server
        self._loop = server.loop
        self._socket = sock
        self._tls = sock if isinstance(sock, TlsSocket) else None
        self._fd = sock.fileno()
        self._authentication = authentication
        self.principal = principal
        self._with_token = False
        self._max_bytes = self._request_max_bytes()
        self._memory = server.memory if authentication is None else server.login_memory
        self.client_host = peer[0]
        self.peer = f"{peer[0]}:{peer[1]}"
        self.listener = listener
        self._apis = CONTROLLER_APIS if listener in server.config.controller_listener_names else BROKER_APIS
        self.last_active = server.loop.time()
        self._state = READING
        self._room = EMPTY  # its first _rest_bytes bytes: the received bytes of requests that are not handled yet
        self._rest_bytes = 0
        self._needed_bytes = SIZE_BYTES  # how many of these bytes the whole next request, or its length, needs
        self._taken_bytes = 0  # the request memory that the next request occupies
        self._plain_turns = 0
        self._pending: deque[_Pending] = deque()
        self._out = Outgoing(sock)
        self._timer: asyncio.TimerHandle | None = None  # fires when the client's throttle time ends
        self._is_reading = self._is_writing = False  # whether the socket is registered for reads, for writes
        self._listen()

    def close(self, reason: str = "", *, level: int = logging.DEBUG) -> None:
        """Close the connection at once, and drop its responses. reason: the reason to log at `level`; "" for no log
        line."""
        if self.is_closed:
            return
        if self._state is LENT:
            self._server.data_plane.recall(self)
        self._enter(CLOSE)
        refusal = None if self._authentication is None else self._authentication.refusal
        if refusal is not None:
            reason, level = f"{refusal}; {reason}", logging.INFO
        if reason:
            log.log(level, "connection from %s closed: %s", self.peer, reason)
        self._pause()
        self._stop_writing()
        pending, self._pending = self._pending, deque()
        self._memory.forget(self._freed)
        for each in pending:
            each.give_up()
            self._taken_bytes += each.size_bytes
        if self._taken_bytes:
            self._memory.give(self._taken_bytes)
        if self._timer is not None:
            self._timer.cancel()
        self._out.close()
        self._socket.close()
        self._server.forget(self)

    def drain(self) -> None:
        """Handle no further request. The responses to earlier requests are still sent."""
        if self._state is LENT:
            self._server.data_plane.recall(self)
        self._enter(DRAIN)
        self._pause()

    @property
    def is_closed(self) -> bool:
        """Whether either side has closed the connection."""
        return self._state is CLOSED

    @property
    def is_busy(self) -> bool:
        """Whether any request is still without a sent response."""
        return bool(self._pending) or bool(self._out)

    # the state

    def _enter(self, event: Event) -> None:
        """Change the state as TRANSITIONS says for this event. An event that is not listed for the state changes
        nothing."""
        self._state = TRANSITIONS[self._state].get(event, self._state)

    def _go_on(self, event: Event) -> None:
        """Apply an event that may lead back to READING. If it does, and nothing else delays the next request, handle
        the requests that were received meanwhile, then wait for further bytes on the socket."""
        if self._state is READING:
            return
        self._enter(event)
        if self._state is not READING:
            return
        if self._pending and self._pending[-1].holds_up_all:
            self._enter(HELD_UP)
        elif self._timer is not None:
            self._enter(THROTTLED)
        elif self._out:
            self._enter(UNSENT)
        else:
            if self._rest_bytes >= self._needed_bytes:
                self._take_rest()
            if self._state is READING:
                self._take_memory()
            if self._state is READING:
                self._listen()

    # reading

    def _listen(self) -> None:
        if not self._is_reading:
            self._loop.add_reader(self._fd, self._readable)
            self._is_reading = True
            if self._tls is not None:
                self._read_on()

    def _pause(self) -> None:
        if self._is_reading:
            self._loop.remove_reader(self._fd)
            self._is_reading = False

    def _read_on(self) -> None:
        """Read again in the next iteration of the event loop if OpenSSL has bytes that the event loop does not see on
        the socket."""
        if self._tls is not None and self._tls.has_unread and self._is_reading:
            self._loop.call_soon(self.poll)

    def poll(self) -> None:
        """Read the socket if it is registered for reads, to notice a reset that uvloop has not reported: if a reset
        arrives together with the client's last bytes, uvloop reports only the bytes."""
        if self._is_reading:
            self._readable()

    def _readable(self) -> None:
        if self._state is not READING:
            self._check_peer_closed()
            return
        buffer, kept_bytes = self._receive_buffer()
        try:
            count, answered, unsent = self._receive(buffer, kept_bytes)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.close(str(error))
            return
        except Exception as error:  # noqa: BLE001  (HangUp; else as in _handle)
            self._fail(APIS[PRODUCE], error)
            return
        if count == 0:
            self.close("by the client")
            return
        self.last_active = self._loop.time()
        if unsent:
            self._out.add([unsent])
        if answered < kept_bytes + count:
            if not answered:
                self._plain_turns = 0
            self._received(buffer, kept_bytes, answered, count)
        else:
            is_produce = buffer[API_KEY_AT] == PRODUCE  # the first request: threads answer no others
            self._plain_turns = self._plain_turns + 1 if is_produce else 0
            if kept_bytes:
                del buffer
                self._served_rest()
        if unsent and self._state is READING:
            self._flush()
        if self._plain_turns >= PLAIN_TURNS and not self._rest_bytes and self._state is READING:
            self._lend()
        if self._tls is not None:
            self._read_on()

    def _lend(self) -> None:
        """Let a data-plane thread answer the requests that come next, if there are such threads."""
        self._plain_turns = 0
        self._pause()
        if self._server.data_plane.lend(self, self._fd):
            self._enter(LEND)
        else:
            self._listen()

    def recall(self) -> None:
        """Take the connection back from its data-plane thread, if one has it."""
        if self._state is LENT:
            returned = self._server.data_plane.recall(self)
            if returned is not None:
                self.returned(returned)

    def returned(self, returned: Returned) -> None:
        """Go on after a data-plane thread has given the connection back."""
        if self.is_closed:
            return
        self.last_active = self._loop.time()
        if returned.unsent:
            self._out.add([returned.unsent])
            self._flush()
        if returned.is_ended:
            self.close("by the client")
        elif isinstance(returned.error, OSError):
            self.close(str(returned.error))
        elif returned.error is not None:
            self._fail(APIS[PRODUCE], returned.error)
        else:
            self._needed_bytes = SIZE_BYTES
            if returned.rest:
                self._keep(memoryview(returned.rest))
            self._go_on(RETURNED)

    def _receive_buffer(self) -> tuple[memoryview, int]:
        """Return the buffer to receive into, and how many of its first bytes are those of an incomplete request. With
        these, the buffer has room for no byte of a later request."""
        if self._rest_bytes:
            return memoryview(self._room)[: self._needed_bytes], self._rest_bytes
        return self._server.scratch[:LONG_BYTES] if self._is_sparing else self._server.scratch, 0

    def _receive(self, buffer: memoryview, kept_bytes: int) -> Served:
        """Receive from the socket, into the buffer behind the kept_bytes. Compiled code does this and answers the plain
        requests at once, unless the connection is encrypted or authenticated by SASL, or an earlier request is still
        without a sent response. Raises HangUp, OSError."""
        if self._tls is None and self._authentication is None and not (self._pending or self._out):
            server = self._server
            turn_ns = TURN_NS // (1 + server.yielding)
            served = server.serve_plain(self._fd, buffer, kept_bytes, self, self._max_bytes, turn_ns)
            if served is not None:
                return served
        return self._socket.recv_into(buffer[kept_bytes:]), 0, b""

    def _received(self, buffer: memoryview, kept_bytes: int, answered: int, count: int) -> None:
        """Handle the bytes that were received into the buffer, behind the kept_bytes; the first `answered` bytes of the
        buffer are answered requests."""
        if not kept_bytes:
            self._take(buffer[answered:count])
            return
        self._rest_bytes += count
        if self._rest_bytes == self._needed_bytes:
            self._take_rest()
        elif self._rest_bytes == len(buffer):
            self._keep(buffer)

    def _served_rest(self) -> None:
        """Note that compiled code has answered the request in `_room`, and keeps no view of it."""
        self._server.rooms.give(self._room)
        self._room, self._rest_bytes, self._needed_bytes = EMPTY, 0, SIZE_BYTES
        taken_bytes, self._taken_bytes = self._taken_bytes, 0
        self._pass_on(taken_bytes)

    @property
    def _is_sparing(self) -> bool:
        """Whether to receive so few bytes at a time that they need no request memory: True if the client has not logged
        in, and no memory is reserved for its next request yet."""
        return self._memory is self._server.login_memory and not self._taken_bytes

    def _check_peer_closed(self) -> None:
        """Called when the socket is readable while requests wait for their responses. If the client has closed its end,
        and the last request only waits for data or for other clients, close the connection. Otherwise, stop
        reading from the socket until the responses are sent, so that the bytes of later requests stay in it."""
        try:
            if self._socket.recv(1, socket.MSG_PEEK) or not self._only_waits:
                self._pause()
            else:
                self.close("by the client")
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.close(str(error))

    @property
    def _only_waits(self) -> bool:
        """Whether all requests received are handled, and the last one waits for data or for other clients."""
        last = self._pending[-1] if self._pending else None
        return not self._rest_bytes and last is not None and last.api_key in WAITING_APIS

    def _take_rest(self) -> None:
        """Handle the requests in the bytes kept earlier, as long as the state is READING, and keep the remaining
        bytes."""
        rest = memoryview(self._room)[: self._rest_bytes]
        self._room, self._rest_bytes = EMPTY, 0
        self._take(rest)

    def _take(self, data: memoryview) -> None:
        """Handle the requests in `data` as long as the state is READING, and keep the remaining bytes. No bytes were
        kept earlier."""
        self._needed_bytes = SIZE_BYTES
        position, size = 0, len(data)
        until = perf_counter_ns() + TURN_NS // (1 + self._server.yielding)
        while self._state is READING:
            if position and (self._out.size_bytes > TURN_BYTES or perf_counter_ns() > until):
                self._enter(TURN_OVER)
                self._server.yielding += 1
                self._loop.call_soon(self._next_turn)
                break
            behind = position + SIZE_BYTES
            if behind > size:
                break
            length = int.from_bytes(data[position:behind], signed=True)
            if not 0 <= length <= self._max_bytes:
                self._refuse_size(length)
                break
            if behind + length > size:
                self._needed_bytes = SIZE_BYTES + length
                break
            if self._pending and not self._may_join(data, behind):
                self._enter(HELD_UP)
                break
            position = behind + length
            taken_bytes, self._taken_bytes = self._taken_bytes, 0
            try:
                self._request(data[behind:position])
            except (BadRequest, HangUp) as error:
                self._flush()  # send the responses to the requests in front of the refused one
                self._fail(None, error)
            except Exception as error:  # noqa: BLE001  (as in _handle: else the client would wait for ever)
                self._fail(None, error)
            self._pass_on(taken_bytes)
        if self.is_closed:
            return
        if position < size:
            self._keep(data[position:])
        self._flush()
        if self._state is READING:
            self._take_memory()

    def _keep(self, data: memoryview) -> None:
        """Keep the bytes of requests that are not handled yet, with room for more of the next request: for all of it,
        unless that is ROOM_BYTES or more, and also four times the bytes received."""
        size = len(data)
        self._room = self._server.rooms.take(max(size, min(self._needed_bytes, max(ROOM_BYTES, 4 * size))))
        self._room[:size] = data
        self._rest_bytes = size

    def _take_memory(self) -> None:
        """Reserve request memory for the next request, if its size is known. If no memory is free, change to
        STARVED."""
        if self._taken_bytes or self._needed_bytes == SIZE_BYTES:
            return
        if self._memory is self._server.login_memory and self._needed_bytes <= LONG_BYTES:
            return
        if self._memory.take(self._needed_bytes):
            self._taken_bytes = self._needed_bytes
        else:
            self._memory.wait(self._freed)
            self._enter(NO_MEMORY)

    def _freed(self) -> None:
        self._go_on(FREED)

    def _pass_on(self, taken_bytes: int) -> None:
        """Free the request memory (taken_bytes) of the request that was just handled; if its response is pending, leave
        the memory reserved until the response is sent. Once the client has logged in, its later requests use the memory
        that logged-in clients share."""
        if taken_bytes and self._pending:
            self._pending[-1].size_bytes += taken_bytes
        elif taken_bytes:
            self._memory.give(taken_bytes)
        if self._memory is self._server.login_memory and not self._pending:
            authentication = self._authentication
            if authentication is None or authentication.is_done:
                self._memory = self._server.memory

    def _next_turn(self) -> None:
        self._server.yielding -= 1
        self._go_on(NEXT_TURN)

    def _may_join(self, data: memoryview, behind: int) -> bool:
        """Whether the request at byte `behind` of the data may be handled while responses are pending: only a Produce
        request may, and only if fewer than LATE_MAX responses are pending."""
        return len(self._pending) < LATE_MAX and int.from_bytes(data[behind : behind + 2]) == PRODUCE

    # answering

    def _request(self, frame: memoryview) -> None:
        """Handle one request. On a SASL listener the connection's Authentication handles it if it belongs to a login or
        a re-authentication. Any other request is answered from its bytes, without decoding, if that is possible
        (`_answer_at_once`); else it is decoded, in a thread if that takes long, and its handler is called. frame: the
        request without its length. Raises BadRequest, HangUp."""
        authentication = self._authentication
        if authentication is not None:
            if len(frame) > LONG_BYTES and not authentication.is_done:
                self._hold_up(self._log_in_later(authentication, bytes(frame)))
                return
            step = self._log_in(authentication, frame)
            if step is not None:
                self._authenticate(step)
                return
        if self._answer_at_once(frame):
            return
        header = read_header(frame)
        api = self._apis.get(header.api_key)
        if api is None or not api.least <= header.version <= api.most:
            if header.api_key != API_VERSIONS:
                raise BadRequest(f"API key {header.api_key} version {header.version}, which this broker does not speak")
            header = header._replace(version=0)
            self._handle(APIS[API_VERSIONS], messages(API_VERSIONS, 0), header, None, frame)
            return
        kind = imported(header.api_key, header.version)
        request = None if kind is None else _read_at_once(kind, header, frame)
        if kind is None or request is None:
            self._hold_up(self._read_apart(api, header, bytearray(frame)))
            return
        self._handle(api, kind, header, request, frame)

    def _hold_up(self, reading: Coroutine[Any, Any, None]) -> None:
        """Start a task that handles the current request, since to decode it at once would block the event loop. No
        further request is handled until the task has handled this one. Until then, the last entry of `_pending`, with
        the api key UNDECODED, stands for this request. reading: the task's coroutine, which removes that entry, then
        handles the request."""
        place = _Pending(UNDECODED, None, None, 0)
        place.task = self._loop.create_task(reading)
        self._pending.append(place)
        self._enter(HELD_UP)

    def _answer_at_once(self, frame: memoryview) -> bool:
        """Queue the response to a plain request, which can be handled from its bytes without decoding. While responses
        are pending, this can only be a Produce request (`_may_join`). Return False, without having done anything, for a
        request that has to be decoded. Raises HangUp."""
        try:
            answer = self._server.at_once(frame, self)
        except HangUp:
            raise
        except Exception as error:  # noqa: BLE001  (as in _handle)
            self._fail(APIS[int.from_bytes(frame[:2])], error)
            return True
        if answer is None:
            return False
        if self._pending or isinstance(answer, Later):
            pending = _Pending(int.from_bytes(frame[:2]), None, answer, 0)
            self._pending.append(pending)
            if isinstance(answer, Later):
                answer.future.add_done_callback(self._answer_pending)
                if pending.holds_up_all:
                    self._enter(HELD_UP)
        else:
            self._out.add(answer)
        return True

    def _request_max_bytes(self) -> int:
        """The size, in bytes, of the largest request that is accepted now; it is smaller before the client has logged
        in."""
        if self._authentication is None or self._authentication.is_done:
            return self._server.config.socket_request_max_bytes
        return self._authentication.receive_max_bytes

    def _refuse_size(self, length: int) -> None:
        """Close the connection because a request is too large: at once or, if the client is not authenticated, after
        the delay of a failed authentication. length: the length of the request, in bytes."""
        if self._authentication is None or self._authentication.is_done:
            reason = f"a request of {length:,} bytes, socket.request.max.bytes is {self._max_bytes:,}"
            self.close(reason, level=logging.WARNING)
        else:
            reason = f"a request of {length:,} bytes, sasl.server.max.receive.size is {self._max_bytes:,}"
            self._authenticate(Step(b"", f"authentication failed: {reason}"))

    def _log_in(self, authentication: Authentication, frame: memoryview | bytes) -> Step | None:
        return authentication.take(memoryview(frame), self._loop.time(), self._server.requests.now_ms())

    async def _log_in_later(self, authentication: Authentication, frame: bytes) -> None:
        """Handle a long SASL request, which takes up to 10 ms, in a turn (Server.login_turns), so that the requests of
        many clients together do not block the event loop."""
        await self._server.login_turns.next()
        place = self._pending.pop()
        try:
            step = self._log_in(authentication, frame)
            assert step is not None, "a client that is not authenticated sends nothing else that is long"
            self._authenticate(step)
        except Exception as error:  # noqa: BLE001  (as in _handle)
            self._fail(None, error)
        self._pass_on(place.size_bytes)
        self._flush()
        self._go_on(ANSWERED)

    def _authenticate(self, step: Step) -> None:
        """Send the response to a SASL request. After a failure, send it only after a delay, and close the
        connection."""
        assert self._authentication is not None, "it has made the step"
        if step.failure is None:
            self._out.add([step.answer])
            self.principal, self._with_token = self._authentication.principal, self._authentication.with_token
            self._max_bytes = self._request_max_bytes()
            return
        self.drain()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(self._authentication.delay_s, self._tell_failure, step.answer, step.failure)

    def _tell_failure(self, answer: bytes, reason: str) -> None:
        self._out.add([answer])
        self._flush()
        self.close(reason, level=logging.INFO)

    async def _read_apart(self, api: Api, header: RequestHeader, frame: bytearray) -> None:
        """Decode a request in a thread, then handle it. This is done for a long request, and for the first one of an
        API's version: the thread then first imports the classes and the handler, which takes up to 60 ms. A long one
        waits until few others of its API are decoded."""
        async with self._server.decoding(api, len(frame)) as decoding:
            try:
                kind, request = await apart(_import_and_read, self._server.requests.load, header, frame)
            except Exception as error:  # noqa: BLE001  (as in _handle)
                self._fail(api, error)
                return
            decoded = self._pending.pop()  # remove the place of the decoded request, the last in the queue
            before = len(self._pending)
            self._handle(api, kind, header, request, frame)
            if len(self._pending) > before:
                decoding.goes_on_with(self._pending[-1].task)
        self._pass_on(decoded.size_bytes)
        self._flush()
        self._go_on(ANSWERED)

    def _handle(
        self,
        api: Api,
        kind: Messages,
        header: RequestHeader,
        request: Message | None,
        frame: memoryview | bytearray,
    ) -> None:
        """Call the handler of a request, then send its response, or queue it behind the pending responses. request:
        None for an ApiVersions request above the newest known version, whose response has version 0. frame: the bytes
        of the request."""
        now_ms = self._server.requests.now_ms()
        call = Call(
            kind,
            header,
            request,
            now_ms,
            self.client_host,
            self.listener,
            principal=self.principal,
            with_token=self._with_token,
            size_bytes=len(frame),
            frame=frame,
        )
        began_ns = perf_counter_ns()
        try:
            answer = self._server.handle(api, call)
            call.frame = None
            if isinstance(answer, Later):
                self._pending.append(_Pending(api.key, call, answer, began_ns))
                answer.future.add_done_callback(self._answer_pending)
                if api.key != PRODUCE:
                    self._enter(HELD_UP)
            elif not isinstance(answer, Laid) and (isawaitable(answer) or has_long_list(answer)):
                if api.key == PRODUCE:  # the request's batches may be views of the scratch buffer
                    self._server.renew_scratch()
                pending = _Pending(api.key, call, answer, began_ns)
                pending.task = self._loop.create_task(self._complete(pending, call))
                self._pending.append(pending)
                self._enter(HELD_UP)
            elif self._pending:
                self._pending.append(_Pending(api.key, call, answer, began_ns))
            else:
                self._answer(call, answer, began_ns)
        except Exception as error:  # noqa: BLE001  (a bug of a handler ends the connection, not the broker)
            self._fail(api, error)

    async def _complete(self, pending: _Pending, call: Call) -> None:
        """Wait for a response, encode a long response in a thread, then send it. The next request may be handled after
        that."""
        answer = pending.answer
        try:
            response = await answer if isawaitable(answer) else answer
            if not isinstance(response, Laid) and has_long_list(response):
                call.throttle_ms = self._throttle_ms(call, pending.began_ns)
                call.is_exempt = True  # the quotas have counted this request already
                response = with_throttle(response, call.throttle_ms)
                response = Encoded([await apart(call.messages.encode, call.header.correlation_id, response)])
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  (as in _handle)
            self._fail(APIS[call.header.api_key], error)
            return
        pending.answer, pending.task = response, None
        self._answer_pending()
        self._go_on(ANSWERED)

    def _answer_pending(self, _: object = None) -> None:
        """Send the complete responses at the front of the queue, up to the first one that is not complete."""
        pending = self._pending
        while pending and pending[0].is_complete:
            first = pending.popleft()
            answer, call = first.answer, first.call
            try:
                response = answer.finish(answer.future) if isinstance(answer, Later) else answer
                if call is None:
                    self._out.add(response)
                else:
                    self._answer(call, response, first.began_ns)
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  (as in _handle)
                self._fail(APIS[first.api_key], error)
                return
            finally:
                if first.size_bytes:
                    self._memory.give(first.size_bytes)
        self._flush()
        if not pending:
            self._go_on(ANSWERED)

    def _answer(self, call: Call, response: Answer, began_ns: int) -> None:
        """Queue a response to be sent, and mute the client if it is throttled. response: None for a Produce request
        with acks=0, which has no response."""
        throttle_ms = self._throttle_ms(call, began_ns)
        if isinstance(response, Laid):
            if throttle_ms:
                response.set_throttle(throttle_ms)
            self._out.add(response)
        elif response is not None:
            self._out.add([call.messages.encode(call.header.correlation_id, with_throttle(response, throttle_ms))])
        if throttle_ms:
            self._mute(throttle_ms)

    def _fail(self, api: Api | None, error: BaseException) -> None:
        """Close the connection, and log the reason: the bytes are no request (BadRequest), or the handler has raised
        HangUp, was cancelled, or has failed. api: None if the request could not be decoded."""
        name = "a request" if api is None else api.name
        if isinstance(error, BadRequest):
            self.close(f"not a request: {error}", level=logging.WARNING)
        elif isinstance(error, HangUp):
            self.close(str(error), level=logging.INFO)
        elif isinstance(error, asyncio.CancelledError):
            self.close(f"{name} was given up")
        else:
            report(f"{name} from {self.peer} failed", error)
            self.close(f"{name} failed")

    # throttling

    def _throttle_ms(self, call: Call, began_ns: int) -> int:
        quotas = self._server.requests.quotas
        if not quotas.is_active or call.is_exempt:
            return call.throttle_ms
        return max(call.throttle_ms, quotas.request_throttle_ms(call, perf_counter_ns() - began_ns))

    def _mute(self, throttle_ms: int) -> None:
        """Handle no request until the throttle time is over. If an earlier throttle time ends later, handle none until
        that time is over."""
        delay_s = throttle_ms / 1000
        if self._timer is not None:
            delay_s = max(delay_s, self._timer.when() - self._loop.time())
            self._timer.cancel()
        self._timer = self._loop.call_later(delay_s, self._unmute)
        self._enter(THROTTLED)

    def _unmute(self) -> None:
        self._timer = None
        self._go_on(UNMUTED)

    # writing

    def _flush(self) -> None:
        """Send as much of the queued responses as the socket takes. The remaining bytes are sent when the socket is
        writable."""
        if not self._out or self.is_closed:
            return
        try:
            if self._out.send():
                return
        except OSError as error:
            self.close(str(error))
            return
        self._enter(UNSENT)
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
        self._go_on(SENT)

    def _stop_writing(self) -> None:
        if self._is_writing:
            self._loop.remove_writer(self._fd)
            self._is_writing = False


def _read_at_once(kind: Messages, header: RequestHeader, frame: memoryview) -> Message | None:
    """Return the decoded request; None, with nothing decoded, if that takes long. Raises BadRequest."""
    if len(frame) <= LONG_BYTES:
        request: Message = read_body(kind, frame, header)
        return request
    return read_short_produce(kind, frame, header) if header.api_key == PRODUCE else None


def _import_and_read(load: Callable[[int], None], header: RequestHeader, frame: bytearray) -> tuple[Messages, Message]:
    """Return the message classes of a request's API and version, and the decoded request. load: imports the API's
    handler. frame: must be writable, as the request's batches are views of it, and an append writes offsets into them.
    Raises BadRequest."""
    kind = messages(header.api_key, header.version)
    load(header.api_key)
    return kind, read_body(kind, memoryview(frame), header)
