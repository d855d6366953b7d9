"""The runtime of coordinators: it sends an answer only after the machine's records are in the log, and replays them
into a new machine."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from formats.batch_writer import write_batch
from formats.errors import BadValue
from kcli.broker.coordinators.log import read_log
from kcli.broker.coordinators.runtime import Coordinator, CoordinatorError, Work
from kcli.coordinator.machine import Batch, Outcome, Pair, Token
from kcli.java.hashing import partition_of
from kcli.log.live.validator import TRANSACTIONAL, Origin
from kcli.metadata.changes import Changes
from kcli.protocol.error_code import ErrorCode
from tests.broker.running import TIMEOUT_S, RunningNode, running_node
from tests.conftest import GOLDEN

TOPIC = "machines"
WAIT_MS = 60


class Notes:
    """A machine that keeps notes. Its requests are a note to write, or a name in the table below."""

    def __init__(self, refuses: bool = False, on_replay: Callable[[], object] | None = None) -> None:
        self.refuses, self.on_replay = refuses, on_replay
        self.notes: list[bytes] = []
        self.pending: dict[int, list[bytes]] = {}
        self.due: tuple[int, Token] | None = None
        self.is_loaded = False

    def handle(self, token: Token, request: Any, now_ms: int) -> Outcome:
        outcome = Outcome()
        match request:
            case "read":
                outcome.answer(token, list(self.notes))
            case "wait":
                self.due = now_ms + WAIT_MS, token
            case "break":
                raise ValueError(request)
            case "too large":
                outcome.append((b"k", bytes(2 << 20)))
                outcome.answer(token, "written")
            case "tell":
                outcome.messages.append("told")
                outcome.answer(token, None)
            case (producer_id, note):
                outcome.batches.append(Batch([(b"k", note)], producer_id, 0))
                outcome.answer(token, list(self.notes))
            case note:
                outcome.append((b"k", note))
                outcome.answer(token, list(self.notes))
        return outcome

    def tick(self, now_ms: int) -> Outcome:
        outcome = Outcome()
        if self.due is not None and self.due[0] <= now_ms:
            outcome.append((b"k", b"tick"))
            outcome.answer(self.due[1], now_ms)
            self.due = None
        return outcome

    def deadline_ms(self) -> int | None:
        return None if self.due is None else self.due[0]

    def replay(self, record: Pair, offset: int, producer_id: int, producer_epoch: int) -> None:  # noqa: ARG002  (the signature of a shard)
        assert record[1] is not None
        if self.refuses:
            raise BadValue("a note")
        if self.on_replay is not None:
            self.on_replay()
        notes = self.notes if producer_id < 0 else self.pending.setdefault(producer_id, [])
        notes.append(record[1])

    def replay_marker(self, producer_id: int, producer_epoch: int, *, commit: bool) -> None:  # noqa: ARG002  (the signature of a shard)
        notes = self.pending.pop(producer_id, [])
        if commit:
            self.notes += notes

    def loaded(self, now_ms: int) -> Outcome:  # noqa: ARG002  (the signature of a shard)
        assert not self.is_loaded
        self.is_loaded = True
        return Outcome()


class Runtime:
    """A coordinator on a node's thread."""

    def __init__(self, node: RunningNode) -> None:
        self.node = node
        self.machines: list[Notes] = []
        self.told: list[tuple[Any, int]] = []
        self.refuses = self.loads_in_part = False
        self.on_replay: Callable[[], object] | None = None  # for the next machine
        self.coordinator = Coordinator(
            node.node.broker.groups.context,
            TOPIC,
            lambda _: Work(
                self._make,
                lambda message, number: self.told.append((message, number)),
                loads_in_part=self.loads_in_part,
            ),
        )

    def _make(self, _: int) -> Notes:
        self.machines.append(Notes(self.refuses, self.on_replay))
        return self.machines[-1]

    def start(self) -> None:
        self.node.run(self.coordinator.start)
        until = time.monotonic() + TIMEOUT_S
        while not all(map(self.coordinator.is_loaded, self.coordinator.led())):
            assert time.monotonic() < until
            time.sleep(0.002)

    def ask(self, request: Any, key: str = "a") -> Any:
        future = asyncio.run_coroutine_threadsafe(self.coordinator.handle(key, request), self.node.loop)
        return future.result(TIMEOUT_S)

    def refused(self, request: Any, key: str = "a") -> ErrorCode:
        with pytest.raises(CoordinatorError) as refused:
            self.ask(request, key)
        return refused.value.code


def create(node: RunningNode, partitions: int = 2) -> None:
    topic = {"name": TOPIC, "num_partitions": partitions, "replication_factor": 1, "assignments": (), "configs": ()}
    with node.client() as client:
        answer = client.call("create_topics", 7, topics=(topic,), timeout=1000)
    assert answer["topics"][0]["error_code"] == 0


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    with running_node(tmp_path / "d") as node:
        create(node)
        started = Runtime(node)
        started.start()
        yield started
        node.run(started.coordinator.stop)


def test_keys_have_kafkas_partitions() -> None:
    """Each golden group is in the partition that the hash of its name gives, and in no other."""
    logs = [GOLDEN / f"groups/data/__consumer_offsets-{number}/00000000000000000000.log" for number in range(4)]
    data = [path.read_bytes() for path in logs]
    groups = json.loads((GOLDEN / "groups/expected/groups.json").read_text())
    assert len(groups) > 10
    for group in groups:
        key = len(group).to_bytes(2) + group.encode()
        assert [key in each for each in data] == [number == partition_of(group, 4) for number in range(4)]
    assert partition_of("polygenelubricants", 50) == 0, "of the least of all hashes"


def test_answers_come_after_the_record(runtime: Runtime) -> None:
    assert runtime.ask(b"one") == []
    assert runtime.ask("read") == [b"one"]
    partition = runtime.node.node.broker.partitions.find(TOPIC, partition_of("a", 2))
    assert [pair for batch in read_log(partition.log) for _, pair in batch.records] == [(b"k", b"one")]
    assert partition.log.high_watermark == 1
    assert runtime.ask("read", key="b") == []


def test_a_new_machine_from_the_log(runtime: Runtime) -> None:
    for i in range(500):
        runtime.ask(str(i).encode())
    runtime.ask((7, b"pending"))
    again = Runtime(runtime.node)
    again.start()
    assert again.ask("read") == [str(i).encode() for i in range(500)]
    number = partition_of("a", 2)
    runtime.node.run(lambda: again.coordinator.marker_written(number, 7, 0, commit=True))
    assert again.ask("read")[-1] == b"pending"
    runtime.node.run(again.coordinator.stop)


def test_time(runtime: Runtime) -> None:
    begin = time.monotonic()
    assert isinstance(runtime.ask("wait"), int)
    assert time.monotonic() - begin >= WAIT_MS / 1000
    assert runtime.ask("read") == [b"tick"]


def test_it_sleeps_before_its_start_and_after_its_stop(runtime: Runtime) -> None:
    """The runtime ignores metadata before its start and after its stop, since an earlier life of the broker may still
    count as the leader."""
    other = Runtime(runtime.node)
    (topic,) = (each for each in runtime.node.node.broker.image.topics.values() if each.name == TOPIC)
    changes = Changes(partitions={(topic.id, number) for number in topic.partitions})
    runtime.node.run(lambda: other.coordinator.apply(changes))
    assert (other.coordinator.led(), other.machines) == ([], [])
    other.start()
    assert other.coordinator.led() == [0, 1]
    runtime.node.run(other.coordinator.stop)
    runtime.node.run(lambda: other.coordinator.apply(changes))
    assert other.coordinator.led() == []


def test_messages(runtime: Runtime) -> None:
    runtime.ask("tell")
    assert runtime.told == [("told", partition_of("a", 2))]


@pytest.mark.parametrize("request_", ["break", "too large"])
def test_a_machine_that_fails_is_made_anew(runtime: Runtime, request_: str) -> None:
    """Waiting requests get a retriable error. The new machine has exactly the records of the log."""
    runtime.ask(b"one")
    waits = asyncio.run_coroutine_threadsafe(runtime.coordinator.handle("a", "wait"), runtime.node.loop)
    assert runtime.refused(request_) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    with pytest.raises(CoordinatorError):
        waits.result(TIMEOUT_S)
    answer = eventually(lambda: runtime.ask("read"))
    assert answer == [b"one"]
    assert len(runtime.machines) == 3


def test_a_producer_that_its_log_refuses(runtime: Runtime) -> None:
    """It is told why; nobody else notices."""
    waits = asyncio.run_coroutine_threadsafe(runtime.coordinator.handle("a", "wait"), runtime.node.loop)
    runtime.ask((7, b"pending"))
    partition = runtime.node.node.broker.partitions.find(TOPIC, partition_of("a", 2))
    newer = write_batch([(b"k", b"newer")], 0, attributes=TRANSACTIONAL, producer_id=7, producer_epoch=1)
    runtime.node.run(partial(partition.append_as_leader, newer, 0, origin=Origin.COORDINATOR))
    assert runtime.refused((7, b"fenced")) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert isinstance(waits.result(TIMEOUT_S), int)
    assert len(runtime.machines) == 2


def eventually(call: Callable[[], Any]) -> Any:
    """The answer once the machine is loaded."""
    until = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return call()
        except CoordinatorError as error:
            if error.code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS or time.monotonic() > until:
                raise
            time.sleep(0.002)


def test_a_marker_that_comes_while_the_log_is_loaded(runtime: Runtime) -> None:
    """The machine that is being loaded misses the marker, so another one is loaded."""
    runtime.ask((7, b"pending"))
    partition = runtime.node.node.broker.partitions.find(TOPIC, partition_of("a", 2))
    again = Runtime(runtime.node)

    def append() -> None:
        again.on_replay = None
        for each in again.machines:
            each.on_replay = None
        data = write_batch([(b"k", b"late")], 0, attributes=TRANSACTIONAL, producer_id=7, producer_epoch=0)
        partition.append_as_leader(data, 0, origin=Origin.COORDINATOR)

    again.on_replay = append
    again.start()
    assert len(again.machines) == 3
    assert again.ask("read") == []
    number = partition_of("a", 2)
    runtime.node.run(lambda: again.coordinator.marker_written(number, 7, 0, commit=True))
    assert again.ask("read") == [b"pending", b"late"]
    runtime.node.run(again.coordinator.stop)


def test_a_log_that_cannot_be_loaded(runtime: Runtime) -> None:
    runtime.ask(b"one")
    again = Runtime(runtime.node)
    again.refuses = True
    runtime.node.run(again.coordinator.start)
    with pytest.raises(CoordinatorError) as refused:
        eventually(lambda: again.ask("read"))
    assert refused.value.code == ErrorCode.NOT_COORDINATOR
    assert again.ask("read", key="b") == []
    runtime.node.run(again.coordinator.stop)


def test_a_log_that_is_loaded_up_to_a_bad_record(runtime: Runtime) -> None:
    """Transactional ids behind the bad record are lost, those before it are loaded, as by Kafka's transaction
    coordinator."""
    runtime.ask(b"one")
    runtime.ask(b"two")
    again = Runtime(runtime.node)
    again.loads_in_part = True

    def refuse_what_follows() -> None:
        for each in again.machines:
            each.refuses = True

    again.on_replay = refuse_what_follows
    again.start()
    assert again.ask("read") == [b"one"]
    runtime.node.run(again.coordinator.stop)


def test_everyone_is_told(runtime: Runtime) -> None:
    runtime.node.run(lambda: runtime.coordinator.pass_to_all(b"all"))
    assert runtime.ask("read") == runtime.ask("read", key="b") == [b"all"]
    assert runtime.node.run(runtime.coordinator.led) == [0, 1]


def test_topics_come_and_go(tmp_path: Path) -> None:
    with running_node(tmp_path / "d") as node:
        runtime = Runtime(node)
        runtime.start()
        assert runtime.refused("read") == ErrorCode.NOT_COORDINATOR
        create(node)
        assert runtime.refused("read") == ErrorCode.NOT_COORDINATOR
        runtime.start()
        assert runtime.ask("read") == []
        with node.client() as client:
            client.call("delete_topics", 6, topics=({"name": TOPIC, "topic_id": "A" * 22},), timeout=1000)
        node.run(runtime.coordinator.start)
        assert runtime.refused("read") == ErrorCode.NOT_COORDINATOR
        node.run(runtime.coordinator.stop)
