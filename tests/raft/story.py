"""A quorum in memory, of which a transcript tells one event after another (tests/raft/transcripts/*.txt).

    > quorum 1 2 3             start these nodes, the static voters of a new quorum
    > dynamic-quorum 1 2 3     the same with voters in the log (kraft.version 1, KIP-853)
    > quorum 1 2 3 led by 1    the same, and node 1 is elected before the story begins; likewise dynamic-quorum
    > observe 4                start one more node, which is no voter
    > wait 1 2000              2,000 ms pass for node 1 alone: each node has a clock of its own
    > deliver [1->2]           deliver the messages on their way and all that follow, until none is left; with 1->2 only
                               those from 1 to 2 that are on their way now
    > lose [1->2]              lose them instead
    > settle                   deliver everything; show neither messages nor quorum-state, but the nodes' other changes
    > cut 3, heal 3            from now on lose, or deliver again, every message from and to node 3
    > append 1 2               the application on node 1 appends a batch of two records
    > crash 3, start 3         kill a node's process, start it again on the same disk
    > shut-down 1              node 1 begins a controlled shutdown
    > add-voter 4 at 1         a client asks node 1 to make node 4 a voter
    > remove-voter 3 at 1
    > show [1]                 the state of each node, or of one

A message is shown as it arrives, and below it what it changed at its receiver. A disk flushes at once. The sender of a
lost request gives it up at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Final

from formats.quorum_state import QuorumState
from kcli.protocol.error_code import ErrorCode
from kcli.raft.messages import (
    AddRaftVoter,
    Answer,
    ApiVersions,
    ApiVersionsAnswer,
    BeginQuorumEpoch,
    EndQuorumEpoch,
    Fetch,
    FetchAnswer,
    OffsetAndEpoch,
    Outcome,
    RemoveRaftVoter,
    Request,
    Send,
    Vote,
    VoteAnswer,
    VoterAnswer,
)
from kcli.raft.raft import Raft
from kcli.raft.voters import SUPPORTED_KRAFT_VERSIONS, VoterNode, VoterSet
from tests.raft.driver import NOW, batch, config, endpoint, key
from tests.raft.memory import Batch, Disk, MemoryLog, MemoryStore, with_voters

QUORUM_STATE: Final = "quorum-state"
ELECTION_MS_MAX: Final = 2000
"""The longest election timeout: election.timeout.ms, and a random time of the same length at most."""
MESSAGES_MAX: Final = 500
"""The largest number of deliveries of a story: two nodes that answer each other for ever are a bug."""


class Node:
    """A node with its disk and its clock. raft: None while its process does not run."""

    def __init__(self, node_id: int, disk: Disk, static: Sequence[int]) -> None:
        self.id, self.disk, self.static = node_id, disk, static
        self.now_ms = NOW
        self.raft: Raft | None = None
        self.log = MemoryLog(disk)
        self.events: list[str] = []
        self._seen: dict[str, object] = {}

    def start(self) -> Outcome:
        """Start the process."""
        self.log = MemoryLog(self.disk)
        self.log.on_append = self._appended
        store = MemoryStore(self.disk)
        store.on_save = self._saved
        # dynamic nodes and observers find the quorum through their bootstrap servers
        self.raft = Raft(config(self.id, static=self.static), self.log, store, Random(self.id))
        self._seen = {}
        return self.raft.start(self.now_ms)

    def stop(self) -> None:
        """The process dies."""
        self.raft = None
        self.disk.crash()

    @property
    def running(self) -> Raft:
        """Its raft; it must be running."""
        assert self.raft is not None, f"node {self.id} is running"
        return self.raft

    def _appended(self, new: Batch) -> None:
        kind = "raft's own records" if new.is_control else "records"
        self.events.append(f"appends {kind} {new.base_offset}..{new.end_offset - 1} of epoch {new.epoch}")

    def _saved(self, state: QuorumState) -> None:
        voted = f", voted for {state.voted_id}" if state.voted_id >= 0 else ""
        leader = f", leader {state.leader_id}" if state.leader_id >= 0 else ""
        self.events.append(f"writes {QUORUM_STATE}: epoch {state.leader_epoch}{voted}{leader}")

    def changes(self) -> Iterator[str]:
        """Return what has happened at the node since the last call."""
        raft = self.running
        yield from self.events
        self.events.clear()
        leader = "no leader known" if raft.leader_id is None else f"leader {raft.leader_id}"
        seen = {
            "truncated": self.log.truncations,
            "state": f"is {type(raft.state).__name__} in epoch {raft.epoch}, {leader}",
            "watermark": f"has high watermark {raft.high_watermark}" if raft.high_watermark else None,
            "voters": f"has voters {_ids(raft.voters)}",
        }
        if seen["truncated"] != self._seen.get("truncated", seen["truncated"]):
            yield f"truncates its log to {self.log.end_offset}"
        for what in ("state", "watermark", "voters"):
            is_first_look = what == "voters" and what not in self._seen
            if seen[what] not in (None, self._seen.get(what)) and not is_first_look:
                yield str(seen[what])
        self._seen = seen

    def __str__(self) -> str:
        if self.raft is None:
            return "not running"
        ends = {batch.epoch: batch.end_offset for batch in self.disk.batches}
        epochs = [f"epoch {epoch} to {end}" if len(ends) > 1 else f"epoch {epoch}" for epoch, end in ends.items()]
        log = f"log ends at {self.log.end_offset} ({', '.join(epochs)})" if epochs else "log empty"
        return "; ".join(
            [
                f"{type(self.raft.state).__name__} in epoch {self.raft.epoch}",
                "no leader known" if self.raft.leader_id is None else f"leader {self.raft.leader_id}",
                log,
                f"high watermark {self.raft.high_watermark or 'not known'}",
                f"voters {_ids(self.raft.voters)}",
            ]
        )


@dataclass(frozen=True, slots=True)
class Message:
    """A request on its way (answer is None), or the answer to `send` on its way back."""

    source: int
    target: int
    send: Send
    answer: Answer | None = None

    @property
    def requester(self) -> int:
        """Who has sent the request."""
        return self.source if self.answer is None else self.target

    def __str__(self) -> str:
        return f"{self.source} -> {self.target}  {described(self.send.request, self.answer)}"


@dataclass
class Quorum:
    """The quorum of a story. asked: by token, the function that receives the answer."""

    nodes: dict[int, Node] = field(default_factory=dict)
    on_their_way: list[Message] = field(default_factory=list)
    cut: set[int] = field(default_factory=set)
    asked: dict[int, Callable[[Answer], str | None]] = field(default_factory=dict)
    held: dict[int, Message] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._tokens = count()
        self._static: tuple[int, ...] = ()

    def play(self, words: list[str]) -> list[str]:
        """Run one command of the table on top of this module."""
        name, *arguments = words
        lines: Iterator[str] = getattr(self, f"_{name.replace('-', '_')}")(*arguments)
        return list(lines)

    # commands

    def _quorum(self, *words: str) -> Iterator[str]:
        ids, leader_id = _ids_and_leader(words)
        self._static = ids
        yield from self._begin([Node(each, Disk(), ids) for each in ids], leader_id)

    def _dynamic_quorum(self, *words: str) -> Iterator[str]:
        ids, leader_id = _ids_and_leader(words)
        first = VoterSet.of(VoterNode(key(each), (endpoint(each),), *SUPPORTED_KRAFT_VERSIONS) for each in ids)
        yield from self._begin([Node(each, with_voters(1, first), ()) for each in ids], leader_id)

    def _begin(self, nodes: list[Node], leader_id: str | None) -> Iterator[str]:
        started = [line for each in nodes for line in self._boot(each)]
        if leader_id is None:
            yield from started
        else:
            for steps in (self._settle(), self._wait(leader_id, str(ELECTION_MS_MAX)), self._settle()):
                list(steps)
            yield from self._show()

    def _observe(self, node_id: str) -> Iterator[str]:
        yield from self._boot(Node(int(node_id), Disk(), self._static))

    def _start(self, node_id: str) -> Iterator[str]:
        yield from self._boot(self.nodes[int(node_id)])

    def _boot(self, node: Node) -> Iterator[str]:
        self.nodes[node.id] = node
        yield from self._do(node, node.start())

    def _crash(self, node_id: str) -> Iterator[str]:
        node = self.nodes[int(node_id)]
        node.stop()
        yield _of_node(node.id, "is not running")
        # its connections close: neither its own messages nor those to it arrive
        self.on_their_way = [each for each in self.on_their_way if each.source != node.id]
        for token, message in list(self.held.items()):
            if message.target == node.id:
                del self.held[token], self.asked[token]
                yield from self._give_up(message)

    def _wait(self, node_id: str, duration_ms: str) -> Iterator[str]:
        node = self.nodes[int(node_id)]
        until_ms = node.now_ms + int(duration_ms)
        while (due_ms := node.running.deadline_ms()) is not None and due_ms <= until_ms:
            node.now_ms = max(node.now_ms, due_ms)
            yield from self._do(node, node.running.tick(node.now_ms))
        node.now_ms = until_ms

    def _append(self, node_id: str, records: str) -> Iterator[str]:
        node = self.nodes[int(node_id)]
        yield from self._do(node, node.running.append([batch(int(records))], node.now_ms))

    def _shut_down(self, node_id: str) -> Iterator[str]:
        node = self.nodes[int(node_id)]
        yield from self._do(node, node.running.shutdown(node.now_ms, 5000))

    def _add_voter(self, new_id: str, _at: str, node_id: str) -> Iterator[str]:
        new = int(new_id)
        yield from self._client(int(node_id), AddRaftVoter(voter=key(new), endpoints=(endpoint(new),)))

    def _remove_voter(self, old_id: str, _at: str, node_id: str) -> Iterator[str]:
        yield from self._client(int(node_id), RemoveRaftVoter(voter=key(int(old_id))))

    def _client(self, node_id: int, request: Request) -> Iterator[str]:
        node, token = self.nodes[node_id], next(self._tokens)
        self.asked[token] = lambda answer: f"{node_id} -> client  {described(request, answer)}"
        yield from self._do(node, node.running.handle(token, request, node.now_ms))

    def _cut(self, node_id: str) -> Iterator[str]:
        self.cut.add(int(node_id))
        yield from ()

    def _heal(self, node_id: str) -> Iterator[str]:
        self.cut.discard(int(node_id))
        yield from ()

    def _show(self, node_id: str | None = None) -> Iterator[str]:
        for node in self.nodes.values():
            if node_id in (None, str(node.id)):
                yield _of_node(node.id, str(node))

    def _lose(self, way: str | None = None) -> Iterator[str]:
        for message in self._take(way):
            yield f"{message}  (lost)"
            yield from self._give_up(message)

    def _deliver(self, way: str | None = None) -> Iterator[str]:
        if way is not None:
            for message in self._take(way):
                yield from self._arrive(message)
            return
        for _ in range(MESSAGES_MAX):
            if not self.on_their_way:
                return
            yield from self._arrive(self.on_their_way.pop(0))
        raise AssertionError("messages without end")

    def _settle(self) -> Iterator[str]:
        for line in self._deliver():
            if (" -> " not in line and QUORUM_STATE not in line) or "client" in line:
                yield line

    # messages

    def _take(self, way: str | None) -> list[Message]:
        """Remove and return the messages on their way, or those of one direction ("1->2")."""
        taken = [each for each in self.on_their_way if way in (None, f"{each.source}->{each.target}")]
        self.on_their_way = [each for each in self.on_their_way if each not in taken]
        return taken

    def _arrive(self, message: Message) -> Iterator[str]:
        target = self.nodes.get(message.target)
        if target is None or target.raft is None or self.cut & {message.source, message.target}:
            yield f"{message}  (lost)"
            yield from self._give_up(message)
            return
        yield str(message)
        if message.answer is not None:
            yield from self._do(target, target.raft.answered(message.send, message.answer, target.now_ms))
        elif isinstance(message.send.request, ApiVersions):
            self._back(message, ApiVersionsAnswer(kraft_versions=SUPPORTED_KRAFT_VERSIONS))
        else:
            token = next(self._tokens)
            self.held[token] = message
            self.asked[token] = lambda answer: self._back(self.held.pop(token), answer)
            yield from self._do(target, target.raft.handle(token, message.send.request, target.now_ms))

    def _back(self, request: Message, answer: Answer) -> None:
        self.on_their_way.append(Message(request.target, request.source, request.send, answer))

    def _give_up(self, message: Message) -> Iterator[str]:
        """Tell the sender of that request that no answer comes."""
        node = self.nodes[message.requester]
        if node.raft is not None:
            yield from self._do(node, node.raft.answered(message.send, None, node.now_ms))

    def _do(self, node: Node, outcome: Outcome) -> Iterator[str]:
        """Carry out what a node wants, its disk first; return what has changed at the node."""
        raft = node.running
        to_clients = [line for token, answer in outcome.answers if (line := self.asked.pop(token)(answer)) is not None]
        self.on_their_way += [Message(node.id, _node_id(each), each) for each in outcome.messages]
        yield from (_of_node(node.id, each) for each in node.changes())
        yield from (_of_node(node.id, f"doubts: {each}") for each in outcome.doubts)
        yield from to_clients
        if raft.flushed_offset < node.log.end_offset:
            node.disk.flushed_offset = node.log.end_offset
            yield from self._do(node, raft.flushed(node.log.end_offset, node.now_ms))


def _ids_and_leader(words: Sequence[str]) -> tuple[tuple[int, ...], str | None]:
    """Parse "1 2 3 led by 1": the ids, and the leader's if there is one."""
    if "led" not in words:
        return tuple(map(int, words)), None
    end = words.index("led")
    return tuple(map(int, words[:end])), words[end + 2]


def _of_node(node_id: int, change: str) -> str:
    """Indent what a message has changed at its receiver, below the line of the message."""
    return f"     {node_id}  {change}"


def _node_id(send: Send) -> int:
    """Return the node at that host; a bootstrap server is known by its host alone."""
    return int(send.to.host.removeprefix("host"))


def _ids(voters: VoterSet) -> str:
    return ", ".join(map(str, voters.ids))


def _end(end: OffsetAndEpoch) -> str:
    return f"{end.offset} of epoch {end.epoch}"


def described(request: Request, answer: Answer | None) -> str:
    """A request in words, or its answer."""
    name = type(request).__name__
    return f"{name} {_request(request)}".rstrip() if answer is None else f"{name} answer: {_answer(answer)}"


def _request(request: Request) -> str:
    match request:
        case Vote():
            pre_vote = " (pre-vote)" if request.pre_vote else ""
            log = f"whose log ends at {_end(request.last)}"
            return f"for {request.replica.id} in epoch {request.epoch}{pre_vote}, {log}"
        case BeginQuorumEpoch():
            return f"leader {request.leader_id}, epoch {request.epoch}"
        case EndQuorumEpoch():
            successors = ", ".join(str(each.id) for each in request.preferred_successors)
            return f"leader {request.leader_id}, epoch {request.epoch}, preferred successors {successors or 'none'}"
        case Fetch():
            last = f"last fetched epoch {request.last_fetched_epoch}"
            return f"at {request.offset}, {last}, in epoch {request.epoch}"
        case AddRaftVoter() | RemoveRaftVoter():
            return f"{request.voter.id}"
        case _:
            return ""


def _answer(answer: Answer) -> str:
    error = answer.top_error or answer.error
    said: list[str] = []
    match answer:
        case VoteAnswer() if not error:
            said.append("granted" if answer.granted else "refused")
        case FetchAnswer() if answer.diverging is not None:
            said.append(f"logs diverge, the leader's ends at {_end(answer.diverging)}")
        case FetchAnswer() if answer.records:
            first, count_of = int.from_bytes(answer.records[:8]), int.from_bytes(answer.records[57:61])
            said.append(f"records from {first} on, {count_of} in the first batch")
        case FetchAnswer() if not error:
            said.append("no records")
        case VoterAnswer():
            said.append(answer.message or ErrorCode(error).name)
        case ApiVersionsAnswer() if answer.kraft_versions is not None:
            said.append("kraft.version {} to {}".format(*answer.kraft_versions))
    if error and not isinstance(answer, VoterAnswer):
        said.append(ErrorCode(error).name)
    if isinstance(answer, FetchAnswer) and answer.high_watermark >= 0:
        said.append(f"high watermark {answer.high_watermark}")
    if answer.epoch >= 0:
        said.append(f"epoch {answer.epoch}, " + ("no leader" if answer.leader_id < 0 else f"leader {answer.leader_id}"))
    return ", ".join(said) or "ok"
