"""The same requests to real Kafka's controller and to kcli's raft, each the only voter, get the same responses.

The voters are static, or dynamic. Log end offsets differ and are left out, since Kafka goes on appending.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kcli.broker.metadata.raft_requests import WIRES
from kcli.broker.wire.messages import entity_reader, messages
from kcli.protocol.error_code import ErrorCode
from kcli.raft.messages import (
    AddRaftVoter,
    Answer,
    BeginQuorumEpoch,
    EndQuorumEpoch,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    OffsetAndEpoch,
    RemoveRaftVoter,
    Request,
    UpdateRaftVoter,
    Vote,
)
from kcli.raft.voters import Endpoint, ReplicaKey, VoterNode, VoterSet
from tests.broker.running import Client, api_key
from tests.interop.kit import SCRIPT, kit_dir
from tests.raft.driver import Driven, config
from tests.raft.memory import Disk, with_voters

pytestmark = pytest.mark.kafka
HOST, FIRST_PORT = "127.0.0.1", 22_450
ELSEWHERE = Endpoint("EXTERNAL", HOST, 2)
FAR = 1 << 40
OTHER, THIRD = "BBBBBBBBBBBBBBBBBBBBBA", "CCCCCCCCCCCCCCCCCCCCCA"
TWO = ReplicaKey(2, OTHER)


class Kafka:
    """Real Kafka's controller, asked in raft's words."""

    def __init__(self, directory: Path) -> None:
        lines = (directory / "server.properties").read_text().splitlines()
        meta = (directory / "data/meta.properties").read_text().splitlines()
        found = dict(line.split("=", 1) for line in lines + meta if "=" in line)
        self.cluster_id = found["cluster.id"]
        self.key = ReplicaKey(1, found["directory.id"])
        port = int(found["listeners"].rsplit(":", 1)[1])
        self.endpoint = Endpoint("CONTROLLER", HOST, port)
        self.client = Client((HOST, port))

    def answer_to(self, request: Request) -> Answer:
        """What it answers."""
        wire = WIRES[type(request)]
        key = api_key(wire.api)
        kind = messages(key, wire.version)
        self.client.socket.sendall(self.client.frame(wire.api, wire.version, wire.fields(request)))
        frame = self.client.read_frame()
        response, _ = entity_reader(kind.response_type)(frame, 4 + kind.header_is_flexible)
        return wire.answer(response, "CONTROLLER")


Pair = tuple[Kafka, Driven]


@pytest.fixture(scope="module", params=["static", "dynamic"])
def both(request: pytest.FixtureRequest, kafka_jars: Path) -> Iterator[Pair]:
    """Yield Kafka, and a leader of the same quorum in kcli's raft."""
    is_dynamic = request.param == "dynamic"
    name = f"raft-{request.param}-{os.getpid()}"
    options = ["controller.quorum.voters=", f"controller.quorum.bootstrap.servers={HOST}:1"] if is_dynamic else []
    environment = {**os.environ, "KAFKA_KIT_PORT": str(FIRST_PORT)}
    if is_dynamic:
        environment["KAFKA_FORMAT_ARGS"] = "--standalone"
    subprocess.run([SCRIPT, "start", name, *options], check=True, env=environment, capture_output=True)
    kafka = Kafka(kit_dir() / "nodes" / name)
    try:
        fields: dict[str, Any] = {
            "directory_id": kafka.key.directory_id,
            "cluster_id": kafka.cluster_id,
            "endpoints": (kafka.endpoint,),
        }
        if is_dynamic:
            disk = with_voters(1, VoterSet.of([VoterNode(kafka.key, (kafka.endpoint,), 0, 1)]))
            driven = Driven(config(static=(), **fields), disk)
        else:
            driven = Driven(config(static=(1,), **fields), Disk())
        yield kafka, driven
    finally:
        kafka.client.socket.close()
        subprocess.run([SCRIPT, "stop", name], check=False, capture_output=True)
        subprocess.run([SCRIPT, "rm", name], check=False, capture_output=True)


def without_log(answer: Answer) -> Answer:
    """Without what the log has."""
    if isinstance(answer, FetchAnswer):
        diverging = answer.diverging
        if diverging is not None and diverging.offset:
            diverging = OffsetAndEpoch(FAR, diverging.epoch)
        known = 0 if answer.high_watermark >= 0 else -1
        return replace(answer, high_watermark=known, log_start_offset=0, diverging=diverging, records=b"")
    return answer


def vote(epoch: int, last: tuple[int, int] = (FAR, 0), **changes: Any) -> Vote:
    fields = {"voter": ReplicaKey(1), "replica": TWO, "epoch": epoch, "last": OffsetAndEpoch(*last)}
    return Vote(**{**fields, **changes})


def fetch(epoch: int = 1, offset: int = 1, last: int = 1, **changes: Any) -> Fetch:
    fields = {"replica": TWO, "epoch": epoch, "offset": offset, "last_fetched_epoch": last}
    return Fetch(**{**fields, **changes})


def snapshot(epoch: int = 1, at: tuple[int, int] = (99, 1), position: int = 0) -> FetchSnapshot:
    return FetchSnapshot(replica=TWO, epoch=epoch, snapshot=OffsetAndEpoch(*at), position=position)


def update(epoch: int = 1, voter: ReplicaKey = TWO, **changes: Any) -> UpdateRaftVoter:
    fields = {"endpoints": (Endpoint("CONTROLLER", HOST, 3),), "min_version": 0, "max_version": 1}
    return UpdateRaftVoter(**{"epoch": epoch, "voter": voter, **fields, **changes})


QUESTIONS: list[Request] = [
    vote(0, (0, 0)),
    vote(1),
    vote(1, (0, 1)),
    vote(1, (0, 1), pre_vote=True),
    vote(1, (FAR, 1), pre_vote=True),
    vote(1, (FAR, 2), pre_vote=True),
    vote(1, (-1, 0)),
    vote(1, replica=ReplicaKey(-1)),
    vote(1, voter=ReplicaKey(7)),
    vote(1, voter=ReplicaKey(1, THIRD)),
    vote(1, voter=None),
    vote(1, cluster_id="another"),
    BeginQuorumEpoch(voter=ReplicaKey(1), leader_id=2, epoch=0),
    BeginQuorumEpoch(voter=ReplicaKey(1), leader_id=-1, epoch=1),
    BeginQuorumEpoch(voter=ReplicaKey(7), leader_id=1, epoch=1),
    BeginQuorumEpoch(voter=ReplicaKey(1), leader_id=2, epoch=5, cluster_id="another"),
    EndQuorumEpoch(leader_id=2, epoch=0),
    EndQuorumEpoch(leader_id=-1, epoch=1),
    EndQuorumEpoch(leader_id=2, epoch=5, cluster_id="another"),
    fetch(),
    fetch(epoch=0, last=0),
    fetch(epoch=2),
    fetch(offset=-1),
    fetch(last=-1),
    fetch(last=2),
    fetch(offset=0, last=0),
    fetch(offset=5, last=0),
    fetch(offset=FAR),
    fetch(epoch=2, last=2),
    fetch(max_wait_ms=-1),
    fetch(cluster_id="another"),
    fetch(replica=ReplicaKey(1, THIRD)),
    fetch(replica=ReplicaKey(-1)),
    AddRaftVoter(voter=ReplicaKey(2), endpoints=(ELSEWHERE,)),
    AddRaftVoter(voter=TWO, endpoints=(ELSEWHERE,)),
    AddRaftVoter(voter=TWO, endpoints=(), cluster_id="another"),
    AddRaftVoter(voter=ReplicaKey(1, THIRD), endpoints=(Endpoint("CONTROLLER", HOST, 3),)),
    RemoveRaftVoter(voter=ReplicaKey(2)),
    RemoveRaftVoter(voter=TWO),
    RemoveRaftVoter(voter=TWO, cluster_id="another"),
    update(epoch=0),
    update(epoch=2),
    update(),
    update(voter=ReplicaKey(2)),
    update(endpoints=(ELSEWHERE,)),
    update(min_version=2),
    update(min_version=-1),
    update(min_version=1),
    update(max_version=0),
    update(cluster_id="another"),
]


@pytest.mark.parametrize("question", range(len(QUESTIONS)))
def test_a_leader_answers_as_kafkas_does(both: Pair, question: int) -> None:
    kafka, driven = both
    request = QUESTIONS[question]
    assert without_log(driven.answer_to(request)) == without_log(kafka.answer_to(request)), request


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (snapshot(), ErrorCode.SNAPSHOT_NOT_FOUND),
        (snapshot(epoch=0), ErrorCode.FENCED_LEADER_EPOCH),
        (snapshot(epoch=2), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (snapshot(at=(0, 0)), ErrorCode.SNAPSHOT_NOT_FOUND),
    ],
)
def test_kafka_cannot_say_why_a_snapshot_is_refused(both: Pair, request_: Request, error: ErrorCode) -> None:
    """The meaning is the same, but Kafka 4.3.0 fails to write a response without records (NullPointerException)."""
    kafka, driven = both
    assert driven.answer_to(request_).error is error
    assert kafka.answer_to(request_).top_error == ErrorCode.UNKNOWN_SERVER_ERROR


def test_the_last_voter_is_not_removed(both: Pair) -> None:
    kafka, driven = both
    request = RemoveRaftVoter(voter=kafka.key)
    assert driven.answer_to(request) == kafka.answer_to(request)


def test_a_higher_epoch_is_taken_up(both: Pair) -> None:
    """It is the last request, since it ends the leadership of both; each is elected again soon."""
    kafka, driven = both
    request = vote(5, (0, 0))
    assert driven.answer_to(request) == kafka.answer_to(request)
    driven.wait(2000)
    assert driven.raft.epoch == 6
    late = vote(4, (0, 0))
    assert driven.answer_to(late).error == kafka.answer_to(late).error
