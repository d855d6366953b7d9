"""A quorum of three processes under hostile frames: requests that once harmed a whole cluster, and random ones.

`make soak` sends 100,000 frames and prints the longest wait; `python -m tests.broker.quorum_fuzz --seed N` replays one
seed.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli.broker.metadata.raft_requests import Wire
from kcli.broker.process.unattended import begin
from tests.broker.cluster import running_cluster
from tests.broker.quorum_fuzz import METADATA_ID, METADATA_TOPIC, NODES, WAIT_MAX_MS, Victims, run, send, vote
from tests.broker.running import Client, Closed

SEED, FRAMES = 15, 1024
LAST = 2**31 - 1
INVALID_REQUEST = 42


@pytest.fixture(scope="module")
def victims(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victims]:
    found = Victims(tmp_path_factory.mktemp("quorum"))
    try:
        yield found
    finally:
        found.stop()


HOSTILE = {
    "largest epoch": vote(replica_epoch=LAST),
    "largest epoch, of a node itself": vote(replica_epoch=LAST, replica_id=1),
    "a vote of a node itself": vote(replica_epoch=500, replica_id=1),
    "largest of all": vote(replica_epoch=LAST - 1, last_offset=2**63 - 1, last_offset_epoch=LAST - 2),
    "largest epoch, pre-vote": vote(version=2, replica_epoch=LAST, pre_vote=True),
    "least of all": vote(replica_epoch=-(2**31), last_offset=-(2**63), last_offset_epoch=-(2**31)),
    "a vote of another node": vote(replica_epoch=1000, replica_id=2),
    "leader of the largest epoch": vote("begin_quorum_epoch", leader_id=99, leader_epoch=LAST),
    "end of the largest epoch": vote(
        "end_quorum_epoch", leader_id=2, leader_epoch=LAST, preferred_successors=[LAST] * 9
    ),
    **{f"{each} leads": vote("begin_quorum_epoch", leader_id=each, leader_epoch=2000 + each) for each in NODES},
    **{
        f"{each} resigns": vote("end_quorum_epoch", leader_id=each, leader_epoch=3000 + each, preferred_successors=[])
        for each in NODES
    },
}


@pytest.mark.parametrize("request_", HOSTILE.values(), ids=HOSTILE)
def test_one_frame_does_not_end_a_cluster(victims: Victims, request_: bytes) -> None:
    """To every controller."""
    for port in victims.cluster.controller_ports.values():
        send(("127.0.0.1", port), [request_])
    victims.check()


def test_it_restarts_after_that(victims: Victims) -> None:
    victims.restart()


@pytest.mark.parametrize("version", [0, 1, 2])
def test_controllers_describe_the_cluster(victims: Victims, version: int) -> None:
    """Version 2 has the field that says whether a broker is fenced; controllers are never fenced."""
    newer = {"endpoint_type": 2} if version else {}
    newer |= {"include_fenced_brokers": True} if version > 1 else {}
    with Client(("127.0.0.1", victims.cluster.controller_ports[1])) as client:
        found = client.call("describe_cluster", version, include_cluster_authorized_operations=False, **newer)
    if version:
        assert sorted(each["broker_id"] for each in found["brokers"]) == list(NODES)
        assert not any(each.get("is_fenced") for each in found["brokers"])


@pytest.mark.parametrize("version", [4, 8, 12, 18])
def test_a_fetch_of_an_old_version_is_answered(victims: Victims, version: int) -> None:
    """The request has no leader epoch before version 9, and no last fetched epoch before version 12."""
    named = {"topic_id": METADATA_ID} if version > 12 else {"topic": METADATA_TOPIC}
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
    since = {5: {"log_start_offset": -1}, 9: {"current_leader_epoch": -1}, 12: {"last_fetched_epoch": -1}}
    partition |= {name: each for least, fields in since.items() if version >= least for name, each in fields.items()}
    session = {"session_id": 0, "session_epoch": -1, "forgotten_topics_data": []} if version > 6 else {}
    session |= {"rack_id": ""} if version > 10 else {}
    session |= {"replica_id": -1} if version < 15 else {}
    body = {
        "max_wait": 0,
        "min_bytes": 0,
        "max_bytes": -1,
        "isolation_level": 0,
        "topics": [{**named, "partitions": [partition]}],
    }
    with Client(("127.0.0.1", victims.cluster.controller_ports[1])) as client:
        found = client.call("fetch", version, **body, **session)
    codes = {each["error_code"] for topic in found["responses"] for each in topic["partitions"]} | {
        found.get("error_code", 0)
    }
    assert codes <= {0, INVALID_REQUEST}


def test_a_forwarded_request_closes_nobody_elses_connection(victims: Victims) -> None:
    """All clients of a broker share its connection to the active controller. An ACL of an unknown kind, to which the
    controller answers by closing the connection, was forwarded again and again for a minute."""
    leader = victims.cluster.leader()
    follower = next(each for each in NODES if each != leader)
    unknown = {"resource_type": 0, "resource_name": "", "resource_pattern_type": 0}
    unknown |= {"principal": "", "host": "", "operation": 0, "permission_type": 0}
    for _ in range(20):
        with victims.cluster.client(follower) as client:
            began = time.monotonic()
            with pytest.raises(Closed):
                client.call("create_acls", 3, creations=[unknown])
            assert victims.cluster.quorum(follower)["leader_id"] == leader
            assert time.monotonic() - began < WAIT_MAX_MS / 1000


def test_hostile_frames(tmp_path: Path) -> None:
    """A fixed sample."""
    (victims,) = run(tmp_path, SEED, FRAMES, group=FRAMES, restart_every=1)
    assert (victims.frames, victims.restarts) == (FRAMES, 1)
    print(victims)


def test_an_exchange_takes_every_exception(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception counts as a missing response, and raft sends the request again: the quorum goes on."""
    failures = 40

    def answer(self: Wire) -> object:
        nonlocal failures
        failures -= 1
        if failures > 0:
            raise ArithmeticError("a bug")
        return tuple.__getitem__(self, 3)

    monkeypatch.setattr(Wire, "answer", property(answer))
    with running_cluster(tmp_path) as cluster:
        assert cluster.leader() in NODES
        assert failures <= 0


def test_a_background_task_ends_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ArithmeticError("a bug")

    async def scenario() -> None:
        never = begin(fail(), "other work")
        never.cancel()
        await asyncio.wait([begin(fail(), "that work"), never])

    asyncio.run(scenario())
    gc.collect()
    assert [each.getMessage() for each in caplog.records] == ["that work: a bug"]
