"""Nodes with clocks, disks and a network; one seed decides all that happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Final

from formats.control_record import ControlType
from kcli.raft.config import RaftConfig
from kcli.raft.controls import in_records
from kcli.raft.messages import Answer, ApiVersions, ApiVersionsAnswer, Outcome, Request, Send
from kcli.raft.raft import Raft
from kcli.raft.voters import SUPPORTED_KRAFT_VERSIONS, Endpoint, ReplicaKey, VoterNode, VoterSet
from tests.raft.memory import Disk, MemoryLog, MemoryStore
from tests.raft.sim.checks import Checks

LISTENER: Final = "CONTROLLER"
CLUSTER: Final = "c" * 22
BEGIN_MS: Final = 1_795_000_000_000
LOST_MS: Final = 2000
"""The time after which the sender of a request knows that no answer comes."""


@dataclass(slots=True)
class Node:
    """A machine. raft: None while its process does not run; life: the number of its starts."""

    config: RaftConfig
    disk: Disk
    rate: float = 1.0
    life: int = 0
    raft: Raft | None = None
    log: MemoryLog | None = None
    is_flushing: bool = False
    tick_at: float = -1.0

    @property
    def id(self) -> int:
        """node.id."""
        return self.config.node_id


@dataclass(slots=True)
class Weather:
    """How bad the network and the disks are."""

    loss: float = 0.0
    duplication: float = 0.0
    delay_ms: float = 2.0
    flush_ms: float = 5.0
    cut: set[tuple[int, int]] = field(default_factory=set)


class World:
    """The simulated nodes and their network. trace: the events, newest last; wiped: a node has lost its disk, and may
    stop because of that."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now = 0.0
        self.weather = Weather()
        self.nodes: dict[int, Node] = {}
        self.checks = Checks()
        self.trace: list[str] = []
        self.wiped = False
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order: Iterator[int] = count()
        self._tokens: Iterator[int] = count()
        self._asked: dict[int, Callable[[Answer], None]] = {}

    # time

    def at(self, delay_ms: float, do: Callable[[], None]) -> None:
        """Call `do` after the delay."""
        heappush(self._events, (self.now + delay_ms, next(self._order), do))

    def run(self, until: float) -> None:
        """Run the events up to that time."""
        while self._events and self._events[0][0] <= until:
            self.now, _, do = heappop(self._events)
            do()
        self.now = until

    def say(self, text: str) -> None:
        """Add a line to the trace."""
        self.trace.append(f"{self.now / 1000:9.3f}  {text}")

    def clock_ms(self, node: Node) -> int:
        """Return the time of the node's clock."""
        return BEGIN_MS + node.id * 1000 + int(self.now * node.rate)

    # nodes

    def start(self, node: Node) -> None:
        """Start the node's process."""
        assert node.raft is None, "it is not running"
        node.life += 1
        node.is_flushing, node.tick_at = False, -1.0
        node.log = MemoryLog(node.disk)
        node.log.on_append = self.checks.appended
        store = MemoryStore(node.disk)
        raft = Raft(node.config, node.log, store, Random(self.random.random()))
        store.on_save = lambda state: self.checks.saved(raft.key, state)
        node.disk.flushed_offset = node.log.end_offset
        node.raft = raft
        self.say(f"{node.id} starts, log to {node.log.end_offset} in epoch {node.log.last_epoch}")
        self.do(node, raft.start(self.clock_ms(node)))

    def is_changing(self, leader: Node) -> bool:
        """Return whether the leader's log has other voters than the committed ones, of which it already needs the
        votes."""
        raft, log = leader.raft, leader.log
        assert raft is not None, "it is running"
        assert log is not None, "with its log"
        return any(
            batch.end_offset > raft.committed_offset or log.chain_at(batch.end_offset) != batch.chain
            for node in self.nodes.values()
            for batch in node.disk.batches
            if any(record.type is ControlType.KRAFT_VOTERS for _, record in in_records(batch.data))
        )

    def crash(self, node: Node) -> None:
        """Kill its process, and lose what its disk has not written."""
        self.say(f"{node.id} crashes, its disk has the log to {node.disk.flushed_offset}")
        node.raft = node.log = None
        node.life += 1
        node.disk.crash()

    def call(self, node: Node, do: Callable[[Raft, int], Outcome]) -> None:
        """Call `do` with the raft of a running node, and carry out its outcome."""
        assert node.raft is not None, "it is running"
        self.do(node, do(node.raft, self.clock_ms(node)))

    def do(self, node: Node, outcome: Outcome) -> None:
        """Carry out what the node wants: appends, requests, answers."""
        raft, log = node.raft, node.log
        assert raft is not None, "it is running"
        assert log is not None, "with its log"
        self.checks.look(raft, log)
        for token, answer in outcome.answers:
            self._asked.pop(token)(answer)
        for send in outcome.messages:
            self._send(node, send)
        if not node.is_flushing and raft.flushed_offset < log.end_offset:
            self._flush(node, raft, log)
        self._wake(node, raft)

    def _wake(self, node: Node, raft: Raft) -> None:
        deadline_ms = raft.deadline_ms()
        if deadline_ms is None:
            return
        at = (deadline_ms - BEGIN_MS - node.id * 1000) / node.rate + 1
        if node.tick_at <= self.now or at < node.tick_at:
            node.tick_at, life = at, node.life

            def tick() -> None:
                if node.life == life and node.tick_at == at:
                    node.tick_at = -1.0
                    self.call(node, Raft.tick)

            self.at(max(0.0, at - self.now), tick)

    def _flush(self, node: Node, raft: Raft, log: MemoryLog) -> None:
        node.is_flushing, life = True, node.life
        offset, truncations = log.end_offset, log.truncations

        def flushed() -> None:
            if node.life == life:
                node.is_flushing = False
                if truncations == log.truncations:
                    node.disk.flushed_offset = max(node.disk.flushed_offset, offset)
                self.do(node, raft.flushed(offset, self.clock_ms(node)))

        self.at(self.random.uniform(0, self.weather.flush_ms), flushed)

    # network

    def _arrives(self, source: int, target: int, do: Callable[[], None]) -> None:
        """Deliver a message after a while, or never, or twice."""
        chance = self.random.random
        if (source, target) in self.weather.cut or chance() < self.weather.loss:
            return
        for _ in range(2 if chance() < self.weather.duplication else 1):
            slow = 20 if chance() < 0.02 else 1
            self.at(self.random.uniform(0.1, self.weather.delay_ms * slow), do)

    def _send(self, node: Node, send: Send) -> None:
        life, target = node.life, self.nodes.get(send.to.port)

        def answered(answer: Answer | None) -> None:
            if node.life == life:
                self.call(node, lambda raft, now_ms: raft.answered(send, answer, now_ms))

        def came() -> None:
            if target is None or target.raft is None:
                self._arrives(send.to.port, node.id, lambda: answered(None))
                return
            if isinstance(send.request, ApiVersions):
                versions = ApiVersionsAnswer(kraft_versions=SUPPORTED_KRAFT_VERSIONS)
                self._arrives(target.id, node.id, lambda: answered(versions))
                return
            self.ask(target, send.request, lambda answer: self._arrives(target.id, node.id, lambda: answered(answer)))

        self._arrives(node.id, send.to.port, came)
        self.at(LOST_MS, lambda: answered(None))

    def ask(self, node: Node, request: Request, answered: Callable[[Answer], None]) -> None:
        """Give a request to a running node."""
        token = next(self._tokens)
        self._asked[token] = answered
        self.call(node, lambda raft, now_ms: raft.handle(token, request, now_ms))

    # what there is

    @property
    def running(self) -> list[Node]:
        """Return the nodes whose processes run."""
        return [each for each in self.nodes.values() if each.raft is not None]

    @property
    def leader(self) -> Node | None:
        """Return the leader of the highest epoch."""
        leaders = [each for each in self.running if each.raft is not None and each.raft.is_leader]
        return max(leaders, key=lambda each: each.raft.epoch if each.raft is not None else -1, default=None)

    def report(self) -> str:
        """Return the state of each node as text."""
        lines = []
        for node in self.nodes.values():
            if node.raft is None or node.log is None:
                lines.append(f"{node.id}: not running")
                continue
            raft = node.raft
            lines.append(
                f"{node.id}: {type(raft.state).__name__} of epoch {raft.epoch}, leader {raft.leader_id}, "
                f"log {node.log.start_offset}..{node.log.end_offset}, committed {raft.committed_offset}, "
                f"voters {raft.voters.ids}"
            )
        return "\n".join(lines)


def directory(node_id: int, number: int = 0) -> str:
    """The id of a node's log directory."""
    return f"{node_id}-{number}".ljust(21, "x") + "A"


def endpoint(node_id: int) -> Endpoint:
    """Return the endpoint of a node: its port is its id."""
    return Endpoint(LISTENER, "host", node_id)


def voter_set(ids: list[int]) -> VoterSet:
    """Dynamic voters, as formatting writes them."""
    keys = [ReplicaKey(each, directory(each)) for each in ids]
    return VoterSet.of(VoterNode(key, (endpoint(key.id),), *SUPPORTED_KRAFT_VERSIONS) for key in keys)
