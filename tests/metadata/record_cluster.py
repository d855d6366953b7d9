"""Record what the controllers of three real Kafka nodes write, into three_nodes/:

    python -m tests.metadata.record_cluster DIRECTORY

The nodes work in DIRECTORY and die at the end. Brokers are killed, stopped, started again and unregistered; partitions
are moved, moves are taken back; leaders are elected, on demand and to balance them.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.interop.clusters import Partition
from tests.interop.real_cluster import RealCluster

HERE = Path(__file__).parent / "three_nodes"
OPTIONS = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "leader.imbalance.check.interval.seconds": "20",
    "metadata.max.idle.interval.ms": "0",
}
ASSIGNED = {"three": [[1, 2, 3], [2, 3, 1], [3, 1, 2]], "pair": [[3, 2], [2, 3]], "solo": [[3], [1]]}
WAIT_S = 60.0


class Recorder(RealCluster):
    """The nodes, and the events that are recorded."""

    def ask(self, node: int, api: str, version: int, **request: Any) -> dict[str, Any]:
        with self.client(node) as client:
            return client.call(api, version, **request)

    def create(self) -> None:
        topics = [
            {
                "name": name,
                "num_partitions": -1,
                "replication_factor": -1,
                "assignments": [{"partition_index": i, "broker_ids": each} for i, each in enumerate(brokers)],
                "configs": [],
            }
            for name, brokers in ASSIGNED.items()
        ]
        answer = self.ask(1, "create_topics", 7, topics=topics, timeout=30_000, validate_only=False)
        assert not any(each["error_code"] for each in answer["topics"]), answer

    def move(self, topic: str, number: int, replicas: list[int] | None) -> None:
        partitions = [{"partition_index": number, "replicas": replicas}]
        wanted = [{"name": topic, "partitions": partitions}]
        answer = self.ask(
            1, "alter_partition_reassignments", 1, timeout=30_000, allow_replication_factor_change=True, topics=wanted
        )
        print(topic, number, replicas, answer["responses"][0]["partitions"][0])

    def elect_preferred(self) -> None:
        self.ask(1, "elect_leaders", 2, election_type=0, topic_partitions=None, timeout=30_000)

    def until(self, what: Callable[[dict[tuple[str, int], Partition]], bool]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not what({(each.topic, each.index): each for each in self.partitions(1)}):
            assert time.monotonic() < deadline, self.partitions(1)
            time.sleep(0.1)

    def until_out(self, node: int) -> None:
        self.until(lambda found: all(node not in each.isr or each.isr == (node,) for each in found.values()))


def run(directory: Path) -> None:
    with Recorder(directory, OPTIONS) as cluster:
        cluster.format()
        cluster.start()
        cluster.wait_ready()
        cluster.create()
        cluster.wait_in_sync()
        cluster.kill(3)
        cluster.until_out(3)
        cluster.move("three", 1, [2, 3])  # the node that shuts down is in the ISR, other nodes are not: it waits
        cluster.move("pair", 1, [1, 3])  # 3 is down: it waits
        cluster.start(3)
        cluster.wait_ready()
        cluster.until(lambda found: set(found["pair", 1].isr) == {1, 3} and set(found["three", 1].isr) == {2, 3})
        cluster.wait_in_sync()
        cluster.elect_preferred()
        cluster.stop(3)
        cluster.until_out(3)
        cluster.move("pair", 0, [1, 3])
        cluster.move("pair", 1, [2, 3])
        cluster.move("pair", 1, None)
        cluster.move("three", 0, [3, 2, 1])
        cluster.move("three", 2, [2, 1])
        cluster.start(3)
        cluster.wait_ready()
        cluster.wait_in_sync()
        time.sleep(22)  # preferred leaders
        cluster.move("three", 1, [1, 2, 3])
        cluster.move("three", 0, [2])
        cluster.wait_in_sync()
        cluster.stop(2)
        cluster.ask(1, "unregister_broker", 0, broker_id=2)
        # partitions that only this node has in sync stay without a leader, since it may have lost records
        cluster.start(2)
        cluster.wait_ready()
        time.sleep(5)
        source = cluster.data(cluster.controller() or 1) / "__cluster_metadata-0"
        target = HERE / "__cluster_metadata-0"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        shutil.copy(source / "00000000000000000000.log", target)


if __name__ == "__main__":
    run(Path(sys.argv[1]))
