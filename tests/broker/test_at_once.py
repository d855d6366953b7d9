"""A broker that answers plain requests from their bytes, and repeats commits, equals one that decodes every request:
random streams of group requests get the same responses, and write the same records with the same timestamps."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest

from formats.message import uuid_text
from kcli.broker.coordinators import groups as coordinator
from kcli.broker.process.clock import Clock
from kcli.broker.wire.answers import Laid, Later
from kcli.broker.wire.call import Client as PeerClient
from kcli.coordinator.machine import Repetition
from kcli.group import offsets
from tests.broker.running import Client, RunningNode, running_node

OPTIONS: dict[str, Any] = {
    "offsets_topic_num_partitions": "2",
    "offsets_topic_replication_factor": "1",
    "group_initial_rebalance_delay_ms": "0",
    "offset_metadata_max_bytes": "20",
}
LOGS = [f"__consumer_offsets-{number}/{0:020}.log" for number in range(2)]
GROUPS = "group", "gruppe-é", "simple"
TOPICS = "orders", "paid"
PARTITIONS = 3
BEGIN_MS = Clock().now_ms()
STEPS = 300
NO_TOPIC = uuid_text(b"\1" * 16)
LOADING, NOT_COORDINATOR = 14, 16


class Frozen(Clock):
    """A clock that only the test moves."""

    time_ms = BEGIN_MS

    def now_ms(self) -> int:
        return self.time_ms


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Make the directory of a broker with the topics; return it and their ids."""
    data_dir = tmp_path_factory.mktemp("at-once") / "new"
    with running_node(data_dir, **OPTIONS) as node, node.client() as client:
        ids = {name: str(client.create_topic(name, PARTITIONS)["topic_id"]) for name in TOPICS}
        client.call("find_coordinator", 4, key_type=0, coordinator_keys=[GROUPS[0]])
        client.wait_for_leaders("__consumer_offsets")
    return data_dir, ids


@contextmanager
def begun(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[RunningNode, Frozen]]:
    """Start a broker whose clock stands still, and whose member ids are counted."""
    numbers = count(1)
    monkeypatch.setattr(coordinator, "uuid4", lambda: UUID(int=next(numbers)))
    clock = Frozen()
    with running_node(data_dir, **OPTIONS) as node:
        groups = node.node.broker.groups
        with node.client() as client:
            for group in GROUPS:
                while _heartbeat_code(client, group) in (LOADING, NOT_COORDINATOR):
                    pass
        node.run(lambda: setattr(groups, "context", replace(groups.context, clock=clock)))
        yield node, clock


def _heartbeat_code(client: Client, group: str) -> int:
    code: int = client.call("offset_fetch", 6, group_id=group, topics=None)["error_code"]
    return code


class Stream:
    """Random requests of some clients to one broker, which depend on the seed and on the responses only."""

    def __init__(self, client: Client, clock: Frozen, ids: dict[str, str], seed: int) -> None:
        self._client, self._clock, self._ids = client, clock, ids
        self._random = Random(seed)
        self._members: dict[str, tuple[str, int]] = {}
        self._commits: dict[str, list[tuple[int, dict[str, Any]]]] = {}
        self.answers: list[bytes] = []

    def ask(self, api: str, version: int, **request: Any) -> None:
        self._client.socket.sendall(self._client.frame(api, version, request))
        port = self._client.socket.getpeername()[1]
        self.answers.append(self._client.read_frame().replace(port.to_bytes(4), b"port"))

    def join(self, group: str) -> None:
        known = self._members.get(group, ("", -1))[0]
        asked = {
            "group_id": group,
            "session_timeout": 10_000,
            "rebalance_timeout": 60_000,
            "member_id": known,
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"\0\0\0\0\0\1\0\6orders\xff\xff\xff\xff"}],
        }
        answer = self._client.call("join_group", 7, **asked)
        if answer["error_code"] == 79:  # MEMBER_ID_REQUIRED
            answer = self._client.call("join_group", 7, **{**asked, "member_id": answer["member_id"]})
        self.answers.append(repr(answer).encode())
        if not answer["error_code"]:
            self._members[group] = answer["member_id"], answer["generation_id"]

    def sync(self, group: str) -> None:
        member_id, generation = self._members.get(group, ("nobody", 1))
        assignment = [{"member_id": member_id, "assignment": b"all"}]
        self.ask(
            "sync_group",
            3,
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=None,
            assignments=assignment,
        )

    def _member(self, group: str) -> tuple[str, int]:
        choice = self._random.random()
        if choice < 0.1:
            return "", -1
        member_id, generation = self._members.get(group, ("", -1))
        if choice < 0.15:
            return "nobody", generation
        return member_id, generation + (choice > 0.95)

    def heartbeat(self, group: str) -> None:
        member_id, generation = self._member(group)
        version = self._random.randrange(0, 5)
        instance = {"group_instance_id": None} if version >= 3 else {}
        self.ask("heartbeat", version, group_id=group, generation_id=generation, member_id=member_id, **instance)

    def commit(self, group: str) -> None:
        random, version = self._random, self._random.randrange(2, 11)
        member_id, generation = self._member(group)
        topics = []
        for name in random.sample((*TOPICS, "unknown"), random.choice((1, 1, 1, 2))):
            if name == "unknown" and random.random() < 0.7:
                continue
            partitions = [
                {
                    "partition_index": random.choice((0, 1, 2, 0, 1, 2, 0, 1, 2, 3)),
                    "committed_offset": random.choice((0, 5, 2**40, -1)),
                    "committed_metadata": random.choice(
                        (None, "", "noted", "é", "x" * 20, "y" * random.choice((3, 21)))
                    ),
                    **({"committed_leader_epoch": random.choice((-1, 0, 7))} if version >= 6 else {}),
                }
                for _ in range(random.choice((0, 1, 1, 2, 3)))
            ]
            topic = {"name": name} if version < 10 else {"topic_id": self._ids.get(name, NO_TOPIC)}
            topics.append(topic | {"partitions": partitions})
        retention = {"retention_time": random.choice((-1, 60_000))} if 2 <= version <= 4 else {}
        instance = {"group_instance_id": None} if version >= 7 else {}
        named = {"group_id": group, "generation_id_or_member_epoch": generation, "member_id": member_id}
        request = {**named, **retention, **instance, "topics": topics}
        self._commits.setdefault(group, []).append((version, request))
        self.ask("offset_commit", version, **request)

    def commit_again(self, group: str) -> None:
        """Send one of the last commits again, some times, with other offsets and leader epochs."""
        random = self._random
        if group not in self._commits:
            return
        version, request = random.choice(self._commits[group][-3:])
        for _ in range(random.choice((1, 2, 5))):
            for topic in request["topics"]:
                for partition in topic["partitions"]:
                    partition["committed_offset"] = random.choice((0, 6, 2**62, -1))
                    if version >= 6:
                        partition["committed_leader_epoch"] = random.choice((-1, 0, 2**31 - 1))
            self.ask("offset_commit", version, **request)
            self._clock.time_ms += random.choice((0, 1, 20))

    def fetch(self, group: str) -> None:
        self.ask("offset_fetch", 7, group_id=group, topics=None, require_stable=True)

    def small(self, _: str) -> None:
        random = self._random
        name = random.choice(TOPICS)
        self.ask("metadata", 12, topics=random.choice((None, [{"name": name, "topic_id": None}])))
        self.ask("api_versions", random.choice((0, 2)))
        self.ask("describe_cluster", 1, endpoint_type=1)

    def leave(self, group: str) -> None:
        member_id, _ = self._members.pop(group, ("nobody", 1))
        self.ask("leave_group", 3, group_id=group, members=[{"member_id": member_id, "group_instance_id": None}])

    def run(self) -> None:
        for group in GROUPS[:2]:
            self.join(group)
            self.sync(group)
        others = self.join, self.sync, self.leave, self.small, self.fetch
        often = self.commit, self.commit_again, self.commit_again, self.heartbeat
        for _ in range(STEPS):
            step = self._random.choice((*often, self._random.choice(others)))
            step(self._random.choice(GROUPS))
            self._clock.time_ms += self._random.choice((0, 1, 20))


def noted(
    at_once: Callable[[memoryview, PeerClient], Laid | Later | None], found: list[bool]
) -> Callable[[memoryview, PeerClient], Laid | Later | None]:
    """Record for each request whether it is answered at once."""

    def answer(frame: memoryview, client: PeerClient) -> Laid | Later | None:
        given = at_once(frame, client)
        found.append(given is not None)
        return given

    return answer


REPETITION = offsets.repetition


def counted(counts: dict[str, int], way: str) -> Callable[..., Repetition]:
    """Count the commits that compiled code repeats."""

    def repetition(*of: Any) -> Repetition:
        apply = REPETITION(*of)

        def count_and_apply(now_ms: int, record_offset: int, numbers: Sequence[tuple[int, int]]) -> None:
            counts[way] += 1
            apply(now_ms, record_offset, numbers)

        return count_and_apply

    return repetition


@pytest.mark.parametrize("seed", range(4))
def test_both_ways_are_equal(
    new: tuple[Path, dict[str, str]], seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, ids = new
    answers, logs = [], []
    found: list[bool] = []
    repeated: dict[str, int] = {}
    for way in ("served", "at once", "decoded"):
        repeated[way] = 0
        monkeypatch.setattr(offsets, "repetition", counted(repeated, way))
        data_dir = tmp_path / way
        shutil.copytree(directory, data_dir)
        with begun(data_dir, monkeypatch) as (node, clock), node.client() as client:
            server = node.node.server
            if way == "decoded":
                server.handle = server.handle  # none is answered at once
            elif way == "at once":
                server.at_once, server.serve_plain = noted(server.at_once, found), lambda *_: None
            stream = Stream(client, clock, ids, seed)
            stream.run()
            answers.append(stream.answers)
        logs.append([(data_dir / name).read_bytes() for name in LOGS])
    assert answers[0] == answers[1] == answers[2]
    assert logs[0] == logs[1] == logs[2]
    assert sum(found) > STEPS // 8, "many requests are plain"
    assert repeated["served"] == repeated["at once"] > STEPS // 20, "many commits are repetitions"
    assert not repeated["decoded"]


def test_a_plain_request_waits_for_the_answers_before_it(tmp_path: Path) -> None:
    """A connection's responses are in the order of its requests, also where a plain request follows a Fetch that waits
    for records."""
    with running_node(tmp_path / "data", **OPTIONS) as node, node.client() as client:
        client.create_topic("orders", 1)
        for _ in range(3):
            client.call("api_versions", 0)
        found: list[bool] = []
        node.node.server.at_once = noted(node.node.server.at_once, found)
        partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        fetch = {"replica_id": -1, "max_wait": 300, "min_bytes": 1, "max_bytes": 1 << 20, "isolation_level": 0}
        waiting = client.frame("fetch", 4, fetch | {"topics": [{"topic": "orders", "partitions": [partition]}]})
        began = client.correlation_id
        client.socket.sendall(waiting + client.frame("api_versions", 0, {}) + client.frame("api_versions", 0, {}))
        order = [int.from_bytes(client.read_frame()[:4]) - began for _ in range(3)]
    assert order == [0, 1, 2]
    assert found[-2:] == [True, True]
