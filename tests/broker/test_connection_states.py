"""The states of a connection: every transition of the table, what delays the next request, and the order of
responses."""

from __future__ import annotations

import asyncio
import logging
import random
import re
import socket
import struct
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from kcli.broker.network import connection as module
from kcli.broker.network.connection import LATE_MAX, PLAIN_TURNS, TRANSITIONS, TURN_NS, Connection, Event, State
from kcli.broker.network.data_plane import Returned
from kcli.broker.network.request_memory import RequestMemory, Reserved
from kcli.broker.network.server import Rooms
from kcli.broker.wire.answers import Encoded, HangUp, Laid, Later
from kcli.broker.wire.call import Call
from kcli.broker.wire.messages import API_VERSIONS, PRODUCE, messages
from kcli.protocol.error_code import ErrorCode
from tests.conftest import examples

FETCH = 1
BODIES = {
    API_VERSIONS: (0, b""),
    PRODUCE: (7, struct.pack(">hhii", -1, -1, 1000, 0)),  # no transactional id, acks=all, no topics
    FETCH: (4, struct.pack(">iiiibi", -1, 1000, 1, 1000, 0, 0)),  # no topics
}
"""The version and the body of a request, by API key."""
SEND_BUFFER_BYTES = 16 << 10
MEMORY_BYTES = 1 << 20
MANY_BYTES = 200_000
"""More bytes than the socket accepts at once, and fewer than a turn's."""
THROTTLE_MS = 30
PATIENCE_S = 10.0
HOUR_NS = 3_600_000_000_000

Handler = Callable[[Call], Any]
Transition = tuple[State, Event, State]


class Recorded(Connection):
    """A connection that notes its transitions, and the events that change nothing."""

    __slots__ = ("taken",)

    def __init__(self, *arguments: Any) -> None:
        self.taken: list[Transition] = []
        super().__init__(*arguments)

    @property
    def state(self) -> State:
        return self._state

    def _enter(self, event: Event) -> None:
        before = self._state
        super()._enter(event)
        self.taken.append((before, event, self._state))


class Client:
    """The client's end of a connection, and the handler of its requests. The handler follows a request's plan, or
    answers at once; each response is the correlation id of its request."""

    def __init__(
        self,
        connection: Recorded,
        sock: socket.socket,
        plans: dict[int, Handler],
        handled: list[int],
        memory: RequestMemory,
    ) -> None:
        self.connection, self.socket, self._plans = connection, sock, plans
        self.handled, self.memory = handled, memory
        self.promise = Promise()
        self.is_plain = False  # whether compiled code answers all requests
        self._sent = 0
        self._received = bytearray()

    def frame(self, plan: Handler | None = None, api_key: int = API_VERSIONS) -> bytes:
        """Return a request together with its plan for the handler."""
        self._sent += 1
        if plan is not None:
            self._plans[self._sent] = plan
        version, body = BODIES[api_key]
        data = struct.pack(">hhih", api_key, version, self._sent, -1) + body
        return struct.pack(">i", len(data)) + data

    def send(self, *frames: bytes) -> None:
        """Send requests, and let the broker's end read them now."""
        self.socket.sendall(b"".join(frames))
        self.connection.poll()

    def answers(self) -> list[int]:
        """Return the correlation ids of the responses since the last call."""
        found = []
        try:
            while data := self.socket.recv(1 << 20):
                self._received += data
        except BlockingIOError:
            pass
        while len(self._received) >= 4:
            size = int.from_bytes(self._received[:4])
            if len(self._received) < 4 + size:
                break
            found.append(int.from_bytes(self._received[4:8]))
            del self._received[: 4 + size]
        return found

    async def until(self, state: State, *, reads: bool = True) -> None:
        """Wait until the connection is in that state; meanwhile read and drop responses."""
        async with asyncio.timeout(PATIENCE_S):
            while self.connection.state is not state:
                if reads:
                    self.answers()
                await asyncio.sleep(0.001)

    async def received(self, count: int) -> list[int]:
        """The next so many answers."""
        found: list[int] = []
        async with asyncio.timeout(PATIENCE_S):
            while len(found) < count:
                found += self.answers()
                await asyncio.sleep(0)
        return found


def answer(call: Call, extra_bytes: int = 0) -> Laid:
    """The answer's frame: the correlation id, and more bytes."""
    frame = (4 + extra_bytes).to_bytes(4) + call.header.correlation_id.to_bytes(4) + bytes(extra_bytes)
    return Encoded([frame])


@asynccontextmanager
async def connected() -> AsyncIterator[Client]:
    """Return a connection of a broker whose handler follows the plans."""
    for api_key, (version, _) in BODIES.items():
        messages(api_key, version)
    plans: dict[int, Handler] = {}
    handled: list[int] = []

    def handle(_: object, call: Call) -> Any:
        handled.append(call.header.correlation_id)
        return plans.get(call.header.correlation_id, answer)(call)

    def serve_plain(_fd: int, buffer: memoryview, kept_bytes: int, *_: object) -> tuple[int, int, bytes] | None:
        if not client.is_plain:
            return None
        count = ours.recv_into(buffer[kept_bytes:])
        return count, kept_bytes + count, b""

    requests = SimpleNamespace(quotas=SimpleNamespace(is_active=False), now_ms=lambda: 0, load=lambda _: None)
    server = SimpleNamespace(
        loop=asyncio.get_running_loop(),
        config=SimpleNamespace(socket_request_max_bytes=1 << 20, controller_listener_names=()),
        requests=requests,
        handle=handle,
        at_once=lambda *_: None,
        serve_plain=serve_plain,
        data_plane=SimpleNamespace(lend=lambda *_: True, recall=lambda _: None),
        rooms=Rooms(),
        scratch=memoryview(bytearray(1 << 18)),
        renew_scratch=lambda: None,
        forget=lambda _: None,
        yielding=0,
        memory=RequestMemory(MEMORY_BYTES),
        login_memory=RequestMemory(-1),
        decoding=lambda *_: Reserved(None, 0),
    )
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
    ours.settimeout(0)
    theirs.settimeout(0)
    connection = Recorded(cast("Any", server), ours, ("client", 1), "PLAINTEXT")
    client = Client(connection, theirs, plans, handled, server.memory)
    try:
        yield client
    finally:
        connection.close()
        theirs.close()


def run(scenario: Callable[[Client], Awaitable[None]], turn_ns: int = HOUR_NS) -> list[Transition]:
    """Play a scenario on a new connection. Its turn lasts long, so that a busy machine does not end it. Returns the
    transitions, and the events without a transition."""

    async def main() -> list[Transition]:
        async with connected() as client:
            await scenario(client)
            return client.connection.taken

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "TURN_NS", turn_ns)
        return uvloop.run(main())


# answers


class Promise:
    """A plan: answer once `keep` is called; throttled if throttle_ms is given."""

    def __init__(self, throttle_ms: int = 0) -> None:
        self._throttle_ms = throttle_ms
        self._future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def __call__(self, call: Call) -> Later:
        call.throttle_ms = self._throttle_ms

        def finish(future: asyncio.Future[None]) -> Laid:
            future.result()
            return answer(call)

        return Later(self._future, finish)

    def keep(self) -> None:
        """It is time."""
        self._future.set_result(None)

    def cancel(self) -> None:
        """It never will be."""
        self._future.cancel()


def throttled(call: Call) -> Laid:
    """Answer at once, and throttle the client."""
    call.throttle_ms = THROTTLE_MS
    return answer(call)


def large(call: Call) -> Laid:
    """A plan: a response that the socket does not accept at once."""
    return answer(call, MANY_BYTES)


async def soon(call: Call) -> Laid:
    """A plan: a response in the next round of the loop."""
    await asyncio.sleep(0)
    return answer(call)


def long_list(call: Call) -> Any:
    """An answer that a thread encodes."""
    key = call.new("ApiVersion", api_key=0, min_version=0, max_version=0)
    return call.respond(error_code=ErrorCode.NONE, api_keys=(key,) * 500)


# every transition of the table

Step = Callable[[Client, pytest.MonkeyPatch], Awaitable[None]]


async def nothing(_client: Client, _patch: pytest.MonkeyPatch) -> None:
    """A connection begins like that."""


async def take_a_turn(client: Client, patch: pytest.MonkeyPatch) -> None:
    """Use up the turn with the first response."""
    patch.setattr(module, "TURN_BYTES", 4)
    client.send(client.frame(), client.frame())


async def wait(client: Client, _patch: pytest.MonkeyPatch) -> None:
    """A request whose answer is not there."""
    client.send(client.frame(client.promise), client.frame())


async def throttle(client: Client, _patch: pytest.MonkeyPatch) -> None:
    client.send(client.frame(throttled), client.frame())


async def lend(client: Client, _patch: pytest.MonkeyPatch) -> None:
    """Send plain Produce requests only."""
    client.is_plain = True
    for _ in range(PLAIN_TURNS):
        client.send(client.frame(api_key=PRODUCE))


async def give_back(client: Client, _patch: pytest.MonkeyPatch) -> None:
    """Send something else."""
    client.connection.returned(Returned(bytearray(client.frame())))
    assert client.handled, "the request is handled"


async def starve(client: Client, _patch: pytest.MonkeyPatch) -> None:
    """Let others use all memory of requests after a part of a request has arrived."""
    assert client.memory.take(MEMORY_BYTES)
    client.send(client.frame()[:-1])


async def feed(client: Client, _patch: pytest.MonkeyPatch) -> None:
    client.memory.give(MEMORY_BYTES)


async def leave_unread(client: Client, _patch: pytest.MonkeyPatch) -> None:
    client.send(client.frame(large))


async def drain(client: Client, _patch: pytest.MonkeyPatch) -> None:
    client.connection.drain()


async def close(client: Client, _patch: pytest.MonkeyPatch) -> None:
    client.connection.close()


async def keep_the_promise(client: Client, _patch: pytest.MonkeyPatch) -> None:
    client.promise.keep()
    await client.until(State.READING)


async def go_on(client: Client, _patch: pytest.MonkeyPatch) -> None:
    """Give other connections their turns, let time pass, and read as the client."""
    await client.until(State.READING)


REACHED_BY: dict[State, Step] = {
    State.READING: nothing,
    State.YIELDING: take_a_turn,
    State.WAITING: wait,
    State.MUTED: throttle,
    State.LENT: lend,
    State.STARVED: starve,
    State.SENDING: leave_unread,
    State.DRAINING: drain,
    State.CLOSED: close,
}
CAUSED_BY: dict[Event, Step] = {
    Event.TURN_OVER: take_a_turn,
    Event.NEXT_TURN: go_on,
    Event.HELD_UP: wait,
    Event.ANSWERED: keep_the_promise,
    Event.THROTTLED: throttle,
    Event.UNMUTED: go_on,
    Event.LEND: lend,
    Event.RETURNED: give_back,
    Event.NO_MEMORY: starve,
    Event.FREED: feed,
    Event.UNSENT: leave_unread,
    Event.SENT: go_on,
    Event.DRAIN: drain,
    Event.CLOSE: close,
}


@pytest.mark.parametrize(
    ("state", "event"),
    [(state, event) for state, row in TRANSITIONS.items() for event in row],
    ids=lambda each: each.name,
)
def test_every_transition(state: State, event: Event, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(client: Client) -> None:
        await REACHED_BY[state](client, monkeypatch)
        assert client.connection.state is state
        await CAUSED_BY[event](client, monkeypatch)

    taken = run(scenario)
    assert (state, event, TRANSITIONS[state][event]) in taken
    assert_in_table(taken)


def assert_in_table(taken: list[Transition]) -> None:
    """Each transition is in the table; an event that the table does not list changes nothing."""
    assert [TRANSITIONS[before].get(event, before) for before, event, _ in taken] == [after for _, _, after in taken]


def test_the_table_is_whole() -> None:
    """Every state has a row, a way in, and a way back or an end; every event has an effect; the docstring explains
    each."""
    assert list(TRANSITIONS) == list(State)
    assert {event for row in TRANSITIONS.values() for event in row} == set(Event)
    assert {after for row in TRANSITIONS.values() for after in row.values()} == set(State)
    for state in set(State) - {State.DRAINING, State.CLOSED}:
        assert TRANSITIONS[state].items() >= {(Event.DRAIN, State.DRAINING), (Event.CLOSE, State.CLOSED)}
        assert state is State.READING or State.READING in TRANSITIONS[state].values()
    assert re.findall(r"^    ([A-Z]+) ", module.__doc__ or "", re.MULTILINE) == [each.name for each in State]


# what delays the next request


@pytest.mark.parametrize("plan", [soon, long_list, None])
def test_the_next_request_waits_for_an_answer_that_takes_long(
    plan: Handler | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The response may come from a handler that waits or a thread that encodes; or a thread still reads the request."""

    async def scenario(client: Client) -> None:
        if plan is None:
            monkeypatch.setattr(module, "imported", lambda *_: None)
        client.send(client.frame(plan), client.frame())
        assert client.connection.state is State.WAITING
        assert client.handled == ([] if plan is None else [1])
        assert await client.received(2) == [1, 2]
        await client.until(State.READING)

    assert_in_table(run(scenario))


def test_produce_requests_join_those_that_wait() -> None:
    """Up to LATE_MAX Produce requests wait together, and then the next once all are answered. Another request waits for
    all of them. The responses are in order."""

    async def scenario(client: Client) -> None:
        promises = [Promise() for _ in range(LATE_MAX)]
        client.send(*[client.frame(each, PRODUCE) for each in promises], client.frame(None, PRODUCE), client.frame())
        assert client.handled == list(range(1, LATE_MAX + 1))
        assert client.connection.state is State.WAITING
        for each in reversed(promises[1:]):
            each.keep()
        await asyncio.sleep(0.01)
        assert client.answers() == []
        assert client.connection.is_busy
        promises[0].keep()
        assert await client.received(LATE_MAX + 2) == list(range(1, LATE_MAX + 3))
        await client.until(State.READING)
        assert not client.connection.is_busy

    assert_in_table(run(scenario))


def test_an_answer_that_is_there_waits_for_those_in_front() -> None:
    async def scenario(client: Client) -> None:
        promise = Promise()
        client.send(client.frame(promise, PRODUCE), client.frame(None, PRODUCE), client.frame(soon, PRODUCE))
        assert client.connection.state is State.WAITING
        await client.until(State.READING)
        client.send(client.frame(None, PRODUCE))
        assert client.handled == [1, 2, 3, 4]
        assert client.answers() == []
        promise.keep()
        assert await client.received(4) == [1, 2, 3, 4]

    assert_in_table(run(scenario))


def test_a_client_that_is_throttled_while_its_request_waits_is_muted_then() -> None:
    """The next request is read only when the throttle time of the last response in front of it is over."""

    async def scenario(client: Client) -> None:
        promise = Promise(THROTTLE_MS)
        client.send(client.frame(promise, PRODUCE), client.frame())
        assert client.connection.state is State.WAITING
        promise.keep()
        assert await client.received(1) == [1]
        await client.until(State.MUTED)
        assert client.handled == [1]
        assert await client.received(1) == [2]

    taken = run(scenario)
    assert taken[1:4] == [
        (State.WAITING, Event.THROTTLED, State.WAITING),
        (State.WAITING, Event.ANSWERED, State.READING),
        (State.READING, Event.THROTTLED, State.MUTED),
    ]


def test_of_two_throttle_times_the_longer_one_counts() -> None:
    async def scenario(client: Client) -> None:
        loop = asyncio.get_running_loop()
        promises = [Promise(10 * THROTTLE_MS), Promise(THROTTLE_MS)]
        client.send(*[client.frame(each, PRODUCE) for each in promises])
        began_s = loop.time()
        for each in promises:
            each.keep()
        assert await client.received(2) == [1, 2]
        client.send(client.frame())
        await client.until(State.READING)
        assert loop.time() - began_s >= 10 * THROTTLE_MS / 1000 - 0.005

    assert_in_table(run(scenario))


def test_a_client_that_is_throttled_and_does_not_read_has_to_read_first() -> None:
    async def scenario(client: Client) -> None:
        def throttled_and_large(call: Call) -> Laid:
            call.throttle_ms = THROTTLE_MS
            return large(call)

        client.send(client.frame(throttled_and_large), client.frame())
        assert client.connection.state is State.MUTED
        await client.until(State.SENDING, reads=False)
        assert client.handled == [1]
        assert await client.received(2) == [1, 2]

    assert_in_table(run(scenario))


def test_a_draining_connection_answers_what_it_has_taken() -> None:
    async def scenario(client: Client) -> None:
        promise = Promise()
        client.send(client.frame(), client.frame(promise), client.frame())
        client.connection.drain()
        promise.keep()
        assert await client.received(2) == [1, 2]
        await asyncio.sleep(0.01)
        assert client.handled == [1, 2]
        assert client.connection.state is State.DRAINING
        assert not client.connection.is_busy

    assert_in_table(run(scenario))


def test_a_request_that_is_cut_in_its_size() -> None:
    """Three bytes of the next request's size follow a request that came in pieces and is not answered yet."""

    async def scenario(client: Client) -> None:
        promise = Promise()
        first, second = client.frame(promise), client.frame()
        first = first[:12] + struct.pack(">h", 1000) + bytes([65]) * 1000  # a client id that makes it long
        first = (len(first) - 4).to_bytes(4) + first[4:]
        client.send(first[:500])
        client.send(first[500:], second[:3])
        promise.keep()
        assert await client.received(1) == [1]
        client.send(second[3:])
        assert await client.received(1) == [2]

    assert_in_table(run(scenario))


# the ends of a connection


async def hang_up(_: Call) -> None:
    """The handler wants the connection closed."""
    raise HangUp("no")


async def go_wrong(_: Call) -> None:
    """A bug."""
    raise KeyError("bug")


@pytest.mark.parametrize(("plan", "levels"), [(hang_up, []), (go_wrong, [logging.ERROR])])
def test_a_handler_that_fails_ends_the_connection(
    plan: Handler, levels: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    """Pending responses are cancelled, and the failure is reported once."""

    async def scenario(client: Client) -> None:
        promise = Promise()
        client.send(client.frame(promise, PRODUCE), client.frame(plan, PRODUCE))
        await client.until(State.CLOSED)
        with pytest.raises(asyncio.InvalidStateError):
            promise.keep()
        assert not client.connection.is_busy

    assert_in_table(run(scenario))
    assert [each.levelno for each in caplog.records] == levels


@pytest.mark.parametrize("api_key", [PRODUCE, API_VERSIONS])
def test_an_answer_that_is_given_up_ends_the_connection(api_key: int) -> None:
    """No later answer takes its place."""

    async def scenario(client: Client) -> None:
        promise = Promise()
        client.send(client.frame(promise, api_key), client.frame())
        promise.cancel()
        await client.until(State.CLOSED)

    assert_in_table(run(scenario))


def test_a_client_that_goes_while_its_fetch_waits() -> None:
    async def scenario(client: Client) -> None:
        client.send(client.frame(Promise(), FETCH))
        client.socket.close()
        client.connection.poll()
        assert client.connection.is_closed

    taken = run(scenario)
    assert (State.WAITING, Event.CLOSE, State.CLOSED) in taken
    assert_in_table(taken)


def half_closed(client: Client, *frames: bytes) -> None:
    """Send requests, close the client's end for writing, and let the broker's end read."""
    client.send(*frames)
    client.socket.shutdown(socket.SHUT_WR)
    client.connection.poll()


@pytest.mark.parametrize("state", [State.WAITING, State.MUTED, State.SENDING])
def test_requests_of_a_client_that_has_closed_its_end_are_answered(state: State) -> None:
    """Records sent with acks=0 right before a close are appended, as by Kafka; the connection ends after the last
    answer."""

    async def scenario(client: Client) -> None:
        promise = Promise()
        plans: dict[State, Handler] = {State.WAITING: promise, State.MUTED: throttled, State.SENDING: large}
        half_closed(client, client.frame(plans[state]), client.frame(), client.frame(api_key=PRODUCE))
        assert client.connection.state is state
        if state is State.WAITING:
            promise.keep()
        assert await client.received(3) == [1, 2, 3]
        await client.until(State.CLOSED)
        assert client.handled == [1, 2, 3]

    assert_in_table(run(scenario))


def test_a_turn_over_does_not_lose_the_requests_behind_it() -> None:
    """The client closes its end while other connections have their turns."""

    async def scenario(client: Client) -> None:
        half_closed(client, *(client.frame() for _ in range(20)))
        assert client.connection.state is State.YIELDING
        assert await client.received(20) == list(range(1, 21))
        await client.until(State.CLOSED)

    assert_in_table(run(scenario, turn_ns=0))


# whatever happens


@examples(40, soak=2000)
@given(st.integers(0, 2**32))
def test_answers_are_in_order_whatever_happens(seed: int) -> None:
    """Requests of all kinds are cut anywhere, answered at any time and in any order, and the client reads now and then:
    every request is answered, in order, and every event is in the table."""

    async def scenario(client: Client) -> None:
        draw = random.Random(seed)
        kept: deque[Promise] = deque()

        def promised(call: Call) -> Later:
            kept.append(Promise(draw.choice((0, 0, 0, 1))))
            return kept[-1](call)

        plans: list[Handler | None] = [None, None, promised, promised, promised, soon, throttled_a_little, half_large]
        count = draw.randint(5, 120)
        stream = bytearray()
        for _ in range(count):
            stream += client.frame(draw.choice(plans), draw.choice((PRODUCE, PRODUCE, API_VERSIONS)))
        found: list[int] = []
        async with asyncio.timeout(PATIENCE_S):
            while len(found) < count:
                size = draw.choice((1, 3, 30, 1000))
                client.socket.send(stream[:size])
                del stream[:size]
                if draw.random() < 0.5:
                    await asyncio.sleep(0)
                if kept and draw.random() < 0.7:
                    each = kept[draw.randrange(len(kept))]
                    kept.remove(each)
                    each.keep()
                if draw.random() < 0.3:
                    found += client.answers()
        assert found == client.handled == list(range(1, count + 1))
        await client.until(State.READING)
        assert not client.connection.is_busy

    assert_in_table(run(scenario, TURN_NS))


def test_the_memory_of_a_request_is_free_again_once_it_is_answered() -> None:
    """The response may come at once, late, or never because the connection is closed."""

    async def scenario(client: Client) -> None:
        def in_two(frame: bytes) -> None:
            client.send(frame[:-1])
            assert client.memory.free_bytes == MEMORY_BYTES - len(frame)
            client.send(frame[-1:])

        in_two(client.frame())
        assert client.memory.free_bytes == MEMORY_BYTES
        in_two(client.frame(client.promise))
        assert client.memory.free_bytes is not None
        assert client.memory.free_bytes < MEMORY_BYTES, "it waits"
        client.promise.keep()
        await client.until(State.READING)
        assert client.memory.free_bytes == MEMORY_BYTES
        in_two(client.frame(long_list))
        await client.until(State.READING)
        assert client.memory.free_bytes == MEMORY_BYTES
        client.promise = Promise()
        in_two(client.frame(client.promise))
        client.connection.close()
        assert client.memory.free_bytes == MEMORY_BYTES

    run(scenario)


def test_a_connection_without_memory_goes_on_where_it_was() -> None:
    async def scenario(client: Client) -> None:
        assert client.memory.take(MEMORY_BYTES)
        frames = [client.frame(), client.frame()]
        client.send(frames[0] + frames[1][:-1])
        assert client.connection.state is State.STARVED
        client.send(frames[1][-1:])
        await asyncio.sleep(0.01)
        assert client.handled == [1]
        client.memory.give(MEMORY_BYTES)
        assert await client.received(2) == [1, 2]
        assert client.memory.free_bytes == MEMORY_BYTES

    run(scenario)


@pytest.mark.parametrize("others", [0, 1 << 40])
def test_a_turn_is_shared_with_the_connections_that_wait_for_theirs(others: int) -> None:
    """However many connections wait, a turn takes one request."""

    async def scenario(client: Client) -> None:
        server: Any = client.connection._server
        server.yielding = others
        client.send(*(client.frame() for _ in range(5)))
        assert client.handled == ([1] if others else [1, 2, 3, 4, 5])
        assert server.yielding == others + bool(others)
        assert await client.received(5) == [1, 2, 3, 4, 5]
        assert server.yielding == others

    run(scenario, 10**9)


def throttled_a_little(call: Call) -> Laid:
    """Throttled for the shortest time."""
    call.throttle_ms = 1
    return answer(call)


def half_large(call: Call) -> Laid:
    """A response; some of these fill the socket, or a turn."""
    return answer(call, 100_000)
