"""The network between nodes, and between clients and nodes: kcli's Network without sockets. Request and response are
passed as objects; what handlers lay out by hand is passed as bytes.

    order       requests on one connection arrive, and are answered, in order; connections have no order between them
    delay       each message takes a little, sometimes much
    cut         messages between two nodes wait and arrive late, as with TCP, or the connection is given up meanwhile;
                even then they arrive sometimes
    loss        a connection is lost, and with it a request or a response
    repetition  some requests arrive a second time on a connection of their own, at once or much later; that response
                is dropped

A client gives up a request when its timeout is over, and the connection with it. A process that dies loses its
connections: their peers learn of it if they can be reached.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from inspect import isawaitable
from random import Random
from typing import Any

from kcli.broker.config import BrokerConfig
from kcli.broker.network.outgoing import read_region
from kcli.broker.network.peers import Unanswered, api_named, new_request, read_response
from kcli.broker.network.server import Requests, Server
from kcli.broker.wire.answers import HangUp, Laid, Later
from kcli.broker.wire.apis import BROKER_APIS, CONTROLLER_APIS
from kcli.broker.wire.call import Call
from kcli.broker.wire.messages import Message, Messages, RequestHeader, messages
from kcli.log.live.segments import FileRegion
from tests.log.crash_disk import Crash
from tests.sim.cluster.lanes import Lane, Time

CLIENT = 0
PRODUCE = 0
RECONNECT_BACKOFF_S = 0.05
REPEATABLE = {
    "produce",
    "vote",
    "begin_quorum_epoch",
    "end_quorum_epoch",
    "alter_partition",
    "broker_heartbeat",
    "write_txn_markers",
    "heartbeat",
}
Address = tuple[str, int]


@dataclass(slots=True)
class Faults:
    """The probabilities that a connection is lost together with a request, that a request is repeated, and that a
    message is late. delay_ms: the longest delay of any other message."""

    lost: float = 0.0
    repeated: float = 0.0
    late: float = 0.0
    delay_ms: int = 2


class Asked:
    """A request on its way to a node."""

    __slots__ = ("answer", "begun", "kind", "name", "request")

    def __init__(self, name: str, kind: Messages, request: Any, answer: asyncio.Future[Any] | None) -> None:
        self.name, self.kind, self.request, self.answer = name, kind, request, answer
        self.begun = 0


class SimulatedNetwork:
    """The network of all nodes and clients. asking, told: called with each request when a node begins to handle it, and
    with its response; failed: called where a handler raised an unexpected error. prompt: the APIs whose requests no
    node handles once the client has given them up."""

    def __init__(self, time: Time, random: Random) -> None:
        self.time, self.random = time, random
        self.faults = Faults()
        self.listening: dict[Address, tuple[SimulatedServer, str]] = {}
        self.cut: set[tuple[int, int]] = set()
        self.wires: dict[Wire, None] = {}
        self.failed: Callable[[int, str, Exception], None] = lambda *_: None
        self.asking: Callable[[Asked], None] = lambda _: None
        self.told: Callable[[Asked, Any], None] = lambda *_: None
        self.asked = 0
        self.prompt: frozenset[str] = frozenset()

    def host(self, node_id: int, lane: Lane) -> Host:
        """Return the network as one process uses it."""
        return Host(self, node_id, lane)

    def delay_s(self) -> float:
        """Return a random delay of a message, one way."""
        faults, random = self.faults, self.random
        delay_s = random.random() * faults.delay_ms / 1000
        if faults.late and random.random() < faults.late:
            delay_s += random.choice((0.02, 0.1, 0.5, 2.0)) * random.random()
        return delay_s

    def is_cut(self, one: int, other: int) -> bool:
        """Return whether messages from one node to the other are held up."""
        return (one, other) in self.cut

    def heal(self, between: Collection[tuple[int, int]]) -> None:
        """Deliver the messages that were held up."""
        self.cut.difference_update(between)
        for wire in list(self.wires):
            wire.healed()

    def died(self, node_id: int) -> None:
        """Close the connections of a process that has died."""
        for address in [each for each, (server, _) in self.listening.items() if server.node_id == node_id]:
            del self.listening[address]
        for wire in list(self.wires):
            if wire.to == node_id:
                wire.server_gone()
            elif wire.host.node_id == node_id:
                wire.client_gone()


class Host:
    """The network as one process uses it."""

    def __init__(self, network: SimulatedNetwork, node_id: int, lane: Lane) -> None:
        self.network, self.node_id, self.lane = network, node_id, lane

    def channel(self, host: str, port: int, client_id: str) -> SimulatedChannel:
        """Return a new channel, which the caller does not share."""
        return SimulatedChannel(self, (host, port), client_id)


class SimulatedChannel:
    """A channel to one address. It opens a new connection after one is lost."""

    def __init__(self, host: Host, address: Address, client_id: str) -> None:
        self._host, self._address, self.client_id = host, address, client_id
        self._wire: Wire | None = None
        self._is_closed = False
        self._last_attempt_s = -1.0

    async def call(self, api: str, version: int | None, /, *, timeout_s: float, **fields: Any) -> Message:
        """Send a request and return the response. Raises Unanswered."""
        known, lane = api_named(api), self._host.lane
        if self._is_closed:
            raise Unanswered(f"{self._address}: closed")
        wire = self._wire
        if wire is None or wire.is_closed:
            wire = self._wire = self._connect()
        kind = messages(known.key, known.most if version is None else version)
        request = fields["request"] if api == "produce" else new_request(kind, fields)
        asked = Asked(api, kind, request, lane.create_future())
        timer = lane.call_later(timeout_s, wire.close, f"no answer to {api} in time")
        wire.send(asked)
        try:
            answer: Message = await asked.answer  # type: ignore[misc]
            return answer
        finally:
            timer.cancel()

    def _connect(self) -> Wire:
        now_s = self._host.network.time.now_s
        ready_s = max(now_s, self._last_attempt_s + RECONNECT_BACKOFF_S)
        self._last_attempt_s = ready_s
        return Wire(self._host, self._address, self.client_id, ready_s)

    def close(self) -> None:
        """Close the channel; requests without a response raise Unanswered."""
        self._is_closed = True
        if self._wire is not None:
            self._wire.close("closed")


class Wire:
    """A connection, with the client's side and the server's. `going` and `coming` hold messages while the network is
    cut."""

    def __init__(self, host: Host, address: Address, client_id: str, ready_s: float) -> None:
        self.host, self.network, self.address = host, host.network, address
        self.to = int(address[0][1:])
        self.client_id = client_id
        self.is_closed = False
        self._unanswered: dict[Asked, None] = {}
        self._going: deque[Asked] = deque()
        self._coming: deque[tuple[Asked, Any]] = deque()
        self._last_going_s = self._last_coming_s = ready_s
        self._server: SimulatedServer | None = None
        self._waiting: deque[Asked] = deque()
        self._late: deque[list[Any]] = deque()
        self._serving: asyncio.Future[Any] | None = None
        self._is_over = False
        self.network.wires[self] = None

    # the client's half

    def send(self, asked: Asked) -> None:
        """Send a request."""
        self._unanswered[asked] = None
        network = self.network
        network.asked += 1
        faults, random = network.faults, network.random
        if faults.repeated and asked.name in REPEATABLE - network.prompt and random.random() < faults.repeated:
            self._repeat(asked)
        if faults.lost and random.random() < faults.lost:
            delay_s = network.delay_s() + random.choice((0.001, 0.3))
            self.host.lane.call_later(delay_s, self.close, "the connection was lost")
            return
        self._go(asked)

    def _go(self, asked: Asked) -> None:
        if self.network.is_cut(self.host.node_id, self.to):
            self._going.append(asked)
            return
        network = self.network
        when_s = self._last_going_s = max(self._last_going_s, network.time.now_s) + network.delay_s()
        self._at_server(when_s, self._arrive, asked)

    def _at_server(self, when_s: float, callback: Callable[..., None], *args: Any) -> None:
        """Call `callback` on the other node's lane; refuse the connection where that node does not listen."""
        found = self.network.listening.get(self.address)
        lane = self.host.lane if found is None else found[0].lane
        lane.call_later(when_s - self.network.time.now_s, callback, *args)

    def _repeat(self, asked: Asked) -> None:
        request = copy_of_produce(asked.request) if asked.name == "produce" else asked.request
        again = Asked(asked.name, asked.kind, request, None)
        wire = Wire(self.host, self.address, self.client_id, self.network.time.now_s)
        wire._unanswered[again] = None
        delay_s = self.network.random.choice((0.01, 1.0, 5.0)) * self.network.random.random()
        self.host.lane.call_later(delay_s, wire._go, again)

    def close(self, reason: str) -> None:
        """Close the connection from the client's side: waiting requests raise Unanswered."""
        if self.is_closed:
            return
        self.is_closed = True
        self._fail(reason)
        if self.network.random.random() < 0.5:
            self._going.clear()
        if not self._going:
            self._gone_soon()

    def _gone_soon(self) -> None:
        """Let the server learn of the closed connection, if it can be reached."""
        if self.network.is_cut(self.host.node_id, self.to):
            self._end()
            return
        self._at_server(self._last_going_s + self.network.delay_s() + 0.001, self._end)

    def _fail(self, reason: str) -> None:
        waiting, self._unanswered = self._unanswered, {}
        for asked in waiting:
            if asked.answer is not None and not asked.answer.done():
                asked.answer.set_exception(Unanswered(f"{self.address[0]}: {reason}"))

    def _answered(self, asked: Asked, response: Any) -> None:
        self._unanswered.pop(asked, None)
        if asked.answer is not None and not (asked.answer.done() or self.is_closed):
            asked.answer.set_result(response)

    def client_gone(self) -> None:
        """The client's process died."""
        self.is_closed = True
        self._unanswered.clear()
        self._going.clear()
        self._gone_soon()

    # the way

    def healed(self) -> None:
        """Deliver the messages that waited, unless the way is cut again."""
        network = self.network
        if self._going and not network.is_cut(self.host.node_id, self.to):
            going, self._going = self._going, deque()
            for asked in going:
                self._go(asked)
            if self.is_closed:
                self._gone_soon()
        if self._coming and not network.is_cut(self.to, self.host.node_id):
            coming, self._coming = self._coming, deque()
            for asked, response in coming:
                self._come(asked, response)

    def _come(self, asked: Asked, response: Any) -> None:
        network = self.network
        if network.is_cut(self.to, self.host.node_id):
            self._coming.append((asked, response))
            return
        faults = network.faults
        if faults.lost and network.random.random() < faults.lost:
            self.host.lane.call_later(network.random.choice((0.001, 0.3)), self.close, "the connection was lost")
            return
        now_s = network.time.now_s
        when_s = self._last_coming_s = max(self._last_coming_s, now_s) + network.delay_s()
        self.host.lane.call_later(when_s - now_s, self._answered, asked, response)

    # the server's half

    def _arrive(self, asked: Asked) -> None:
        found = self.network.listening.get(self.address)
        if self._is_over:
            self._refuse()
            return
        if found is None or (self._server is not None and self._server is not found[0]):
            self._refuse()
            return
        if found[0].lane is not asyncio.get_running_loop():  # it listens only now
            found[0].lane.call_soon(self._arrive, asked)
            return
        self._server = found[0]
        self._server.open[self] = found[1]
        self._waiting.append(asked)
        self._serve()

    def _refuse(self) -> None:
        """Refuse the connection; the client learns of it if it can be reached."""
        if self.network.is_cut(self.to, self.host.node_id):
            return
        self.host.lane.call_later(self.network.delay_s() + 0.001, self.close, "refused")

    def _serve(self) -> None:
        """Handle the requests that have arrived, in order. While a batch waits for followers, only further Produce
        requests are handled."""
        while self._waiting and self._serving is None and not self._is_over:
            if self._late and self._waiting[0].kind.api_key != PRODUCE:
                return
            self._serve_one(self._waiting.popleft())

    def _serve_one(self, asked: Asked) -> None:
        server = self._server
        assert server is not None, "something has arrived"
        if self.is_closed and asked.name in self.network.prompt:
            return
        listener = server.open[self]
        apis = CONTROLLER_APIS if listener in server.config.controller_listener_names else BROKER_APIS
        api = apis[asked.kind.api_key]
        header = RequestHeader(api.key, asked.kind.version, 1, self.client_id, 0)
        now_ms = server.requests.now_ms()
        self.network.asking(asked)
        call = Call(asked.kind, header, asked.request, now_ms, "127.0.0.1", listener)
        try:
            answer = server.handle(api, call)
        except Exception as error:  # noqa: BLE001  (whatever a handler's bug is)
            self._handler_failed(asked, error)
            return
        if isinstance(answer, Later):
            self._wait_later(asked, answer)
        elif isawaitable(answer):
            self._serving = server.lane.create_task(self._wait(asked, answer))
        else:
            self._done(asked, answer)

    def _wait_later(self, asked: Asked, later: Later) -> None:
        if asked.kind.api_key == PRODUCE:
            self._late.append([asked, later, None])
            later.future.add_done_callback(self._look_at_late)
            return
        self._serving = later.future

        def done(_: object) -> None:
            self._serving = None
            if not self._is_over:
                self._finish(asked, later)
                self._serve()

        later.future.add_done_callback(done)

    def _look_at_late(self, _: object) -> None:
        while self._late and not self._is_over:
            asked, later, response = self._late[0]
            if later is not None and not later.future.done():
                return
            self._late.popleft()
            if later is None:
                self._out(asked, response)
            else:
                self._finish(asked, later)
        self._serve()

    def _finish(self, asked: Asked, later: Later) -> None:
        try:
            response = later.finish(later.future)
        except Exception as error:  # noqa: BLE001  (as above)
            self._handler_failed(asked, error)
            return
        self._out(asked, response)

    async def _wait(self, asked: Asked, answer: Any) -> None:
        try:
            response = await answer
        except asyncio.CancelledError:
            return
        except Exception as error:  # noqa: BLE001  (as above)
            self._serving = None
            self._handler_failed(asked, error)
            return
        self._serving = None
        self._done(asked, response)
        self._serve()

    def _done(self, asked: Asked, response: Any) -> None:
        """Send the response, after those of earlier requests on this connection."""
        if self._late:
            self._late.append([asked, None, response])
        else:
            self._out(asked, response)

    def _out(self, asked: Asked, response: Any) -> None:
        if self._is_over or response is None:
            return
        if isinstance(response, Laid):
            parts = [bytes(read_region(each) if isinstance(each, FileRegion) else each) for each in response]
            response = read_response(asked.kind, memoryview(b"".join(parts))[4:])
        self.network.told(asked, response)
        self._come(asked, response)

    def _handler_failed(self, asked: Asked, error: Exception) -> None:
        is_gone = self._server is None or self._server.lane.is_killed
        if not is_gone and not isinstance(error, HangUp | Crash):
            self.network.failed(self.to, asked.name, error)
        self.hang_up()

    def hang_up(self) -> None:
        """Close the connection from the server's side."""
        if not self._is_over:
            self._end()
            self._refuse()

    def _end(self) -> None:
        """End the server's side of the connection."""
        if self._is_over:
            return
        self._is_over = True
        self._waiting.clear()
        serving, self._serving = self._serving, None
        if serving is not None:
            serving.cancel()
        late, self._late = self._late, deque()
        for _, later, _ in late:
            if later is not None:
                later.future.cancel()
        if self._server is not None:
            self._server.open.pop(self, None)
        if self.is_closed:
            self.network.wires.pop(self, None)

    def server_gone(self) -> None:
        """Close the connection because the server's process has died."""
        self._is_over = True
        self._waiting.clear()
        self._late.clear()
        self._serving = None
        self._coming.clear()
        self._refuse()
        if self.is_closed:
            self.network.wires.pop(self, None)


class SimulatedServer(Server):
    """A node's server, which accepts simulated connections."""

    def __init__(self, config: BrokerConfig, lane: Lane, network: SimulatedNetwork, node_id: int) -> None:
        super().__init__(config, lane)
        self.lane, self.network, self.node_id = lane, network, node_id
        self.open: dict[Wire, str] = {}
        self._bound: dict[str, Address] = {}

    def renew_scratch(self) -> None:
        self.scratch = memoryview(b"")

    def bind(self, host: str, port: int, listener: str) -> Address:
        self._bound[listener] = (host, port)
        return host, port

    def serve(self, requests: Requests, listeners: Collection[str] | None = None) -> None:
        self._requests, self.handle = requests, requests.handle
        for listener, address in self._bound.items():
            if listeners is None or listener in listeners:
                self.network.listening[address] = (self, listener)

    def stop_listening(self) -> None:
        for address in self._bound.values():
            if self.network.listening.get(address, (None, ""))[0] is self:
                del self.network.listening[address]

    def close_listeners(self, listeners: Collection[str]) -> None:
        for listener in listeners:
            address = self._bound.get(listener)
            if address is not None and self.network.listening.get(address, (None, ""))[0] is self:
                del self.network.listening[address]
        for wire in [each for each, through in self.open.items() if through in listeners]:
            wire.hang_up()

    def close(self) -> None:
        self.stop_listening()
        for wire in list(self.open):
            wire.hang_up()


def copy_of_produce(request: Any) -> Any:
    """Return a copy of a Produce request, since brokers write offsets into its batches."""
    topics = tuple(
        replace(
            topic,
            partition_data=tuple(
                replace(each, records=memoryview(bytearray(each.records))) for each in topic.partition_data
            ),
        )
        for topic in request.topic_data
    )
    return replace(request, topic_data=topics)
