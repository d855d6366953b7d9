"""What a controller is asked by brokers and tools, sound and unsound, one after the other; and real Kafka's answers:

    python -m tests.metadata.controller_cases DIRECTORY

starts one real node in DIRECTORY, asks it at its controller's listener, and writes controller_answers.jsonl.

Broker 1 is the node's own, and has topic a of one partition; broker 2 registers in the course of it. What differs from
one cluster to the next is named: (cluster id, epochs of both brokers, topic id, directory, incarnation) of a Side.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from kcli.metadata.features import SUPPORTED_FEATURES
from kcli.metadata.partition import from_uuid
from kcli.metadata_log.records import read_batches
from tests.broker.running import Client
from tests.interop.real_cluster import RealCluster

ANSWERS = Path(__file__).parent / "controller_answers.jsonl"
INCARNATION, OTHER = from_uuid(UUID(int=0xFEED0000)), from_uuid(UUID(int=0xFEED0001))
HOME = from_uuid(UUID(int=0xD0D0))
ALONE = {
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
Request = dict[str, Any]


@dataclass
class Side:
    """The ids and epochs on one of the two sides, kcli or Kafka. epochs: of brokers 1 and 2."""

    cluster_id: str
    topic_id: str
    directory: str
    epochs: dict[int, int]

    def known(self, api: str, answer: Request) -> Request:
        """Return a response without what differs; keep the epoch of a registration."""
        if api == "broker_registration" and answer["broker_epoch"] >= 0:
            self.epochs[2] = answer["broker_epoch"]
            answer["broker_epoch"] = "new"
        text = json.dumps(answer).replace(self.topic_id, "topic").replace(self.directory, "directory")
        found: Request = json.loads(text)
        return found


Case = Callable[[Side], tuple[str, int, Request]]


def register(version: int = 4, **fields: Any) -> Case:
    features = [
        {"name": name, "min_supported_version": least, "max_supported_version": most}
        for name, (least, most) in SUPPORTED_FEATURES.items()
    ]
    listener = {"name": "PLAINTEXT", "host": "h", "port": 9, "security_protocol": 0}
    known = {"broker_id": 2, "incarnation_id": INCARNATION, "rack": "r", "listeners": [listener], "features": features}
    newer = {"log_dirs": [HOME]} if version > 1 else {}
    if version > 2:
        newer["previous_broker_epoch"] = -1  # type: ignore[assignment]

    def case(side: Side) -> tuple[str, int, Request]:
        own = {"log_dirs": [side.directory]} if fields.get("log_dirs") == "own" else {}
        return "broker_registration", version, {**known, "cluster_id": side.cluster_id, **newer, **fields, **own}

    return case


def beat(version: int = 2, broker_id: int = 2, offset: int = 1_000_000, epoch: int = -1, **fields: Any) -> Case:
    def case(side: Side) -> tuple[str, int, Request]:
        known = {"broker_epoch": side.epochs.get(broker_id, 0) if epoch < 0 else epoch, "broker_id": broker_id}
        wants = {"want_fence": False, "want_shut_down": False, "current_metadata_offset": offset}
        return "broker_heartbeat", version, {**known, **wants, **fields}

    return case


def alter(epoch: int = -1, topic_id: str = "", **fields: Any) -> Case:
    isr = [{"broker_id": each, "broker_epoch": -1} for each in fields.pop("isr", [1])]
    known = {"partition_index": 0, "leader_epoch": 0, "partition_epoch": 0, "leader_recovery_state": 0}

    def case(side: Side) -> tuple[str, int, Request]:
        partition = {**known, "new_isr_with_epochs": isr, **fields}
        topics = [{"topic_id": topic_id or side.topic_id, "partitions": [partition]}]
        broker_epoch = side.epochs[1] if epoch < 0 else epoch
        return "alter_partition", 3, {"broker_id": 1, "broker_epoch": broker_epoch, "topics": topics}

    return case


def move(
    replicas: list[int] | None, topic: str = "a", number: int = 0, version: int = 1, *, may_change: bool = True
) -> Case:
    topics = [{"name": topic, "partitions": [{"partition_index": number, "replicas": replicas}]}]
    newer = {"allow_replication_factor_change": may_change} if version else {}
    return lambda _: ("alter_partition_reassignments", version, {"timeout": 10_000, **newer, "topics": topics})


def assign(broker_id: int, epoch: int = -1, home: str = "") -> Case:
    def case(side: Side) -> tuple[str, int, Request]:
        topics = [
            {"topic_id": side.topic_id, "partitions": [{"partition_index": each} for each in (0, 3)]},
            {"topic_id": HOME, "partitions": [{"partition_index": 0}]},
        ]
        known = {"broker_id": broker_id, "broker_epoch": side.epochs[broker_id] if epoch < 0 else epoch}
        directories = [{"id_": home or side.directory, "topics": topics}]
        return "assign_replicas_to_dirs", 0, {**known, "directories": directories}

    return case


def plainly(api: str, version: int, **request: Any) -> Case:
    return lambda _: (api, version, request)


CASES: list[Case] = [
    register(cluster_id="other"), register(0), register(2), register(log_dirs="own"), register(log_dirs=[]),
    register(log_dirs=[from_uuid(UUID(int=5))]), register(log_dirs=[HOME, HOME]), register(features=[]),
    register(is_migrating_zk_broker=True), register(broker_id=1), register(),
    beat(offset=1), beat(offset=1, want_fence=True), beat(want_fence=True), beat(), beat(), beat(epoch=3),
    beat(broker_id=9), register(incarnation_id=OTHER), register(rack="z"), beat(0, want_fence=True), beat(1),
    alter(), alter(leader_epoch=1), alter(partition_epoch=5), alter(leader_epoch=-1), alter(partition_epoch=-1),
    alter(isr=[2]), alter(isr=[1, 1]), alter(isr=[1, 2]), alter(leader_recovery_state=1), alter(partition_index=7),
    alter(topic_id=HOME), alter(epoch=4), plainly("alter_partition", 3, broker_id=1, broker_epoch=4, topics=[]),
    move([]), move([9]), move([2, 2]), move([1], "b"), move([1], number=4), move(None),
    move([1, 2], may_change=False), move([1]), move([2], version=0),
    plainly("list_partition_reassignments", 0, timeout=1000, topics=None), move(None, version=0), move(None),
    plainly("alter_partition_reassignments", 1, timeout=1, allow_replication_factor_change=False, topics=[]),
    plainly("list_partition_reassignments", 0, timeout=1000, topics=None),
    plainly("elect_leaders", 2, election_type=0, topic_partitions=[{"topic": "a", "partitions": [0, 5]}], timeout=1000),
    plainly("elect_leaders", 2, election_type=9, topic_partitions=None, timeout=1000),
    plainly("allocate_producer_ids", 0, broker_id=1, broker_epoch=0),
    plainly("allocate_producer_ids", 0, broker_id=8, broker_epoch=0),
    assign(1), assign(1, 5), assign(2, home=HOME), plainly("unregister_broker", 0, broker_id=44),
    beat(want_shut_down=True), plainly("unregister_broker", 0, broker_id=2), beat(),
    plainly("controller_registration", 0, controller_id=1, incarnation_id=INCARNATION, listeners=[], features=[]),
]  # fmt: skip


def record(directory: Path) -> None:
    with RealCluster(directory, ALONE, nodes=1) as cluster:
        cluster.format(cluster_id := "4L6g3nShTeMCtKoAAX86sw")
        cluster.start()
        cluster.wait_ready()
        with cluster.client(1) as client:
            client.create_topic("a", 1)
            (topic,) = client.call("metadata", 12, topics=[{"name": "a", "topic_id": None}])["topics"]
        log = cluster.data(1) / "__cluster_metadata-0/00000000000000000000.log"
        registered = [
            value for batch in read_batches(log) for name, _, value in batch.records if name == "RegisterBrokerRecord"
        ][-1]
        side = Side(cluster_id, topic["topic_id"], registered["logDirs"][0], {1: registered["brokerEpoch"]})
        lines = []
        for case in CASES:
            api, version, request = case(side)
            with Client((cluster.places[1].host, cluster.places[1].controller_port)) as client:
                lines.append(json.dumps(side.known(api, client.call(api, version, **request))) + "\n")
        ANSWERS.write_text("".join(lines))


if __name__ == "__main__":
    record(Path(sys.argv[1]))
