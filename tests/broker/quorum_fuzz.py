"""Hostile frames against a live quorum: three nodes of kcli, each broker and controller, each a process of its own.

    frames   every API of both listeners at every version. A request is plausible (this cluster's id, its topics, nodes,
             epochs) but for a few fields with extreme values; or an absurd count, length or null at some byte of it; or
             mutated
    group    some hundreds of frames from one seed, sent to all nodes; then the quorum elects, makes a topic, appends
             and reads, and its memory is looked at
    restart  all nodes are killed and started on what they have on disk

Meanwhile another process asks all brokers and measures how long it waits (pings.py). A group's seed tells its frames
again, but for what only this cluster has: `python -m tests.broker.quorum_fuzz --seed N --frames N`.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import socket
import struct
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

from formats.file_name import METADATA_DIRECTORY
from kcli.broker.wire.apis import APIS, BROKER_APIS, CONTROLLER_APIS, is_flexible
from kcli.errors import UnreadableInput
from kcli.metadata.partition import to_uuid
from kcli.metadata_log.records import read_batches
from tests.broker.cluster import CLUSTER_ID, Cluster, ProcessNode
from tests.broker.hostile import Values, mutated, whole_request
from tests.broker.pings import Pings, Waits
from tests.broker.running import Address, Client, Closed, readable
from tests.log.batches import batch

METADATA_TOPIC, METADATA_ID = "__cluster_metadata", UUID(int=1)
TOPIC = "known"
NODES = (1, 2, 3)
BROKER_HEARTBEAT, UNREGISTER_BROKER = 63, 64
TURN, AT_ONCE = 256, 8
"""Frames sent to one listener of one node, and how many of them may wait for a response at a time."""
ANSWER_S = 0.15
HEALTH_S = 30.0
MIB = 1 << 20
RSS_MAX = 400 * MIB
"""The limit for each node; kcli itself takes a quarter of it."""
WAIT_MAX_MS = 2_000
"""The longest allowed wait of another connection on a busy machine; the measured wait is printed."""
COMPLAINTS = re.compile(r"Traceback|never retrieved|never awaited|Exception in callback|(?<!Decompression) failed: ")
"""What a node must not log; the lz4 library says "Decompression failed" of a bad batch, which is refused."""


@dataclasses.dataclass(frozen=True)
class Known:
    """What an attacker can learn about the cluster."""

    epoch: int
    topic_id: UUID
    directories: Sequence[UUID]
    broker_epochs: Sequence[int]


def extremes(bits: int) -> list[int]:
    """Of an integer with so many bits."""
    most = 2 ** (bits - 1) - 1
    found = {-most - 1, -most, -2, -1, 0, 1, 2, most - 1, most, most // 2}
    found |= {each for each in (2**15 - 1, 2**15, 2**16, 2**24, 2**31 - 2, 2**31 - 1, 2**31, 2**32) if each <= most}
    return sorted(found)


class Plausible(Values):
    """Values that nodes and clients would send, except for one field in `rarity`, which is extreme."""

    def __init__(self, known: Known, rarity: int) -> None:
        super().__init__()
        self._known, self._rarity = known, rarity

    def _is_extreme(self, random: Random) -> bool:
        return random.randrange(self._rarity) == 0

    def integer(self, random: Random, bits: int, name: str) -> int:
        if self._is_extreme(random):
            return random.choice(extremes(bits))
        found = self._plausible(random, name)
        most = 2 ** (bits - 1) - 1
        return found if -most - 1 <= found <= most else 0

    def _plausible(self, random: Random, name: str) -> int:
        epoch = self._known.epoch
        if name == "broker_id" or name.endswith(("leader_id", "replica_id", "voter_id", "candidate_id", "node_id")):
            return random.choice((*NODES, -1, 99))
        if name in ("preferred_successors", "replicas", "broker_ids", "new_isr", "isr"):
            return random.choice(NODES)
        if "broker_epoch" in name or (name == "replica_epoch" and random.random() < 0.3):
            return random.choice((-1, *self._known.broker_epochs))
        if "epoch" in name:
            return random.choice((epoch, epoch, epoch, epoch + 1, epoch - 1, 0, -1))
        if name in ("resource_type", "pattern_type"):
            return 2
        if name in ("num_partitions", "count"):
            return random.choice((1, 2, -1))
        if name == "replication_factor":
            return random.choice((1, 3, -1))
        if "max_bytes" in name or name == "min_bytes":
            return random.choice((1, 4096, MIB))
        if "offset" in name or "position" in name:
            return random.choice((0, 1, 5, 50))
        return random.choice((0, 0, 0, 1, -1))

    def milliseconds(self, random: Random, bits: int, name: str) -> int:  # noqa: ARG002  (the signature of Values)
        if self._is_extreme(random):
            return random.choice(extremes(32)) if bits == 32 else random.choice(extremes(44))
        return random.choice((0, 0, 10, 1000))

    def string(self, random: Random, name: str) -> str:
        if self._is_extreme(random):
            return super().string(random, name)
        if name == "cluster_id":
            return CLUSTER_ID
        if name == "entity_name":
            return "stranger"
        if name == "host":
            return random.choice(("127.0.0.1", "localhost", "", "x" * 300, "a..b", "\0"))
        if name in ("topic_name", "topic", "name", "resource_name"):
            return random.choice((TOPIC, METADATA_TOPIC, METADATA_TOPIC, "CONTROLLER", "metadata.version"))
        return random.choice(("known", "1", "g", ""))

    def uuid(self, random: Random, name: str) -> UUID:
        if self._is_extreme(random):
            return super().uuid(random, name)
        if "topic" in name:
            return random.choice((METADATA_ID, self._known.topic_id))
        return random.choice((*self._known.directories, UUID(int=2**128 - 1)))

    def data(self, random: Random, name: str) -> bytes:
        if name == "request_data" and random.random() < 0.9:
            api = random.choice([each for each in APIS.values() if each.forwards and each.key != UNREGISTER_BROKER])
            return whole_request(random, api.key, random.randint(api.least, api.most), self)
        if name == "client_host_address" and random.random() < 0.9:
            return bytes((127, 0, 0, 1))
        return super().data(random, name)

    def is_null(self, random: Random, name: str) -> bool:
        if name == "entity_name":  # a quota of all users and clients would throttle the other clients
            return False
        return random.random() < (0.4 if name == "cluster_id" else 0.1)

    def count(self, random: Random, name: str) -> int:  # noqa: ARG002  (the signature of Values)
        return 1 if random.random() < 0.85 else random.choice((0, 2, 3))


ABSURD = (
    b"\x7f\xff\xff\xff",
    b"\x80\0\0\0",
    b"\xff\xff\xff\xff",
    b"\x7f\xff",
    b"\xff\xff",
    b"\0",
    b"\xff\xff\xff\xff\x07",
)
"""Counts and lengths of 2^31 - 1 and -2^31, and null, as fixed numbers and as varints."""


def absurd(random: Random, body: bytes, begin: int) -> bytes:
    """Return the frame with an absurd count at some byte, often as its end."""
    at, what = random.randrange(begin, len(body) + 1), random.choice(ABSURD)
    if random.random() < 0.5:
        return body[:at] + what
    taken = 1 if is_flexible(*struct.unpack_from(">hh", body)) else len(what)
    return body[:at] + what + body[at + taken :]


def frame(random: Random, known: Known, *, controller: bool) -> bytes:
    """One, with its size in front."""
    apis = CONTROLLER_APIS if controller else BROKER_APIS
    api = random.choice(list(apis.values()))
    version = random.randint(api.least, api.most)
    if api.key == BROKER_HEARTBEAT:  # with its epoch a broker's heartbeat could announce its shutdown
        known = dataclasses.replace(known, broker_epochs=())
    values = Plausible(known, random.choice((3, 8, 30)))
    body = whole_request(random, api.key, version, values)
    if api.key == UNREGISTER_BROKER:  # the request would remove one of these nodes for ever
        body = body[:-5] + struct.pack(">i", random.choice((99, -1, 2**31 - 1, -(2**31)))) + b"\0"
    else:
        choice = random.random()
        if choice < 0.25:
            body = absurd(random, body, 14)
        elif choice < 0.3:
            body = body[:14] + mutated(random, body[14:])
    return struct.pack(">i", len(body)) + body


def vote(api: str = "vote", version: int = 0, **fields: Any) -> bytes:
    """Return a Vote, BeginQuorumEpoch or EndQuorumEpoch with another cluster's id. A Vote of 68 bytes once ended a node
    for good."""
    client = Client.__new__(Client)
    client.client_id, client.correlation_id = None, 0
    ours: dict[str, Any] = {"replica_id": 99, "last_offset_epoch": 0, "last_offset": 0} if api == "vote" else {}
    if api == "vote" and version:
        ours |= {"replica_directory_id": None, "voter_directory_id": None}
    topics = [{"topic_name": METADATA_TOPIC, "partitions": [{"partition_index": 0, **ours, **fields}]}]
    return client.frame(api, version, {"cluster_id": None, "topics": topics} | ({"voter_id": -1} if version else {}))


class Slot:
    """A connection that sends the next frame after a response, and reconnects where it was closed."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self.socket: socket.socket | None = None
        self._left: int | None = None  # bytes of an answer
        self.deadline = 0.0

    def send(self, data: bytes) -> None:
        """Something else."""
        if self.socket is None:
            self.socket = socket.create_connection(self._address, HEALTH_S)
        self._left, self.deadline = None, time.monotonic() + ANSWER_S
        with suppress(ConnectionError):
            self.socket.sendall(data)

    def is_done(self) -> bool:
        """Read what has arrived; return whether the response is complete or the connection closed."""
        assert self.socket is not None, "it has sent"
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionError:
            data = b""
        if not data:
            self.close()
            return True
        if self._left is None:
            self._left = 4 + int.from_bytes(data[:4])
        self._left -= len(data)
        return self._left <= 0

    def close(self) -> None:
        """Wait no longer."""
        if self.socket is not None:
            self.socket.close()
            self.socket = None


def send(address: Address, frames: Iterable[bytes]) -> None:
    """Send all frames, some at a time, with a bounded wait for each response."""
    waiting = iter(frames)
    busy: list[Slot] = []
    idle = [Slot(address) for _ in range(AT_ONCE)]
    while True:
        while idle and (data := next(waiting, None)) is not None:
            idle[-1].send(data)
            busy.append(idle.pop())
        if not busy:
            break
        left_s = max(0.0, min(each.deadline for each in busy) - time.monotonic())
        ready = readable([each.socket for each in busy if each.socket], left_s)
        now = time.monotonic()
        for each in list(busy):
            if each.socket in ready and each.is_done():
                idle.append(each)
                busy.remove(each)
            elif each.socket not in ready and now >= each.deadline:
                each.close()
                idle.append(each)
                busy.remove(each)
    for each in idle:
        each.close()


class Victims:
    """The cluster under attack. longest_ms: the longest wait of any other client; late_ms: the machine's own delay;
    frames: the number of frames sent."""

    def __init__(self, directory: Path) -> None:
        self.cluster = Cluster(
            directory, processes=True, auto_create_topics_enable="false", log_index_size_max_bytes="65536"
        )
        self.cluster.start()
        self.frames = self.restarts = self.topics = 0
        self.longest_ms = self.late_ms = 0.0
        self.rss_max = 0
        self._read = dict.fromkeys(NODES, 0)
        self._make(TOPIC, 2)
        self._pings = self._begin_pings()

    def _begin_pings(self) -> Pings:
        return Pings([("127.0.0.1", port) for port in self.cluster.client_ports.values()])

    def _add(self, waits: Waits) -> None:
        self.longest_ms, self.late_ms = max(self.longest_ms, waits.longest_ms), max(self.late_ms, waits.late_ms)

    def node(self, node_id: int) -> ProcessNode:
        found = self.cluster.nodes[node_id]
        assert isinstance(found, ProcessNode), "a process"
        return found

    def known(self) -> Known:
        """What there is to be known."""
        with self.cluster.client(1) as client:
            asked = [{"name": TOPIC, "topic_id": None}]
            (topic,) = client.call("metadata", 12, topics=asked, allow_auto_topic_creation=False)["topics"]
        if topic["error_code"]:  # one of the frames has deleted the topic, which is allowed
            self._make(TOPIC, 2)
            time.sleep(0.1)
            return self.known()
        found = []
        for each in NODES:
            text = (self.cluster.node_directory(each) / "meta.properties").read_text()
            found.append(to_uuid(re.search(r"directory\.id=(.*)", text)[1].strip()))  # type: ignore[index]
        return Known(self._epoch(), to_uuid(topic["topic_id"]), found, self._broker_epochs())

    def _broker_epochs(self) -> list[int]:
        """Return the broker epochs in the first node's metadata log."""
        found: dict[int, int] = {}
        for path in sorted((self.cluster.node_directory(1) / METADATA_DIRECTORY).glob("*.log")):
            with suppress(UnreadableInput):  # its end is being written
                for each in read_batches(path):
                    found |= {
                        value["brokerId"]: value["brokerEpoch"]
                        for name, _, value in each.records
                        if name == "RegisterBrokerRecord" and value["brokerId"] in NODES
                    }
        return list(found.values())

    def _epoch(self) -> int:
        """Return the leader epoch once all nodes know the leader."""
        self.cluster.leader()
        epoch: int = self.cluster.quorum(1)["leader_epoch"]
        return epoch

    def group(self, seed: int, count: int) -> None:
        """Send a group of frames, then check the cluster. Raises AssertionError with the seed."""
        try:
            self._send(Random(seed), count)
            self.check()
        except (AssertionError, Closed, OSError) as error:
            error.add_note(f"seed {seed}, {count} frames")
            raise

    def _send(self, random: Random, count: int) -> None:
        for sent in range(0, count, TURN):
            known = self.known()
            node, controller = random.choice(NODES), random.random() < 0.6
            ports = self.cluster.controller_ports if controller else self.cluster.client_ports
            size = min(TURN, count - sent)
            send(("127.0.0.1", ports[node]), (frame(random, known, controller=controller) for _ in range(size)))
            self.frames += size
            for each in NODES:
                assert self.node(each).process.poll() is None, f"node {each} has ended\n{self._log(each)[-4000:]}"

    def check(self) -> None:
        """Check that the cluster elects a leader, appends and reads, that no client waited too long, that memory is
        bounded, and that no node logged a complaint."""
        self._append()
        self._add(waits := self._pings.waits())
        assert waits.answers, "others were answered"
        assert waits.longest_ms < WAIT_MAX_MS, f"another connection waited for {waits.longest_ms:.0f} ms"
        for each in NODES:
            self.rss_max = max(self.rss_max, rss := self._rss(each))
            assert rss < RSS_MAX, f"node {each} has {rss / MIB:.0f} MiB"
            log = self._log(each)[self._read[each] :]
            self._read[each] += len(log)
            found = COMPLAINTS.search(log)
            assert found is None, log[max(0, found.start() - 500) : found.end() + 3000]

    def _append(self) -> None:
        self.cluster.leader()
        self._drop_strangers()
        name = f"topic-{self.topics}"
        self.topics += 1
        self._make(name, 3)
        deadline = time.monotonic() + HEALTH_S
        while (problem := self._roundtrip(name)) is not None:
            assert time.monotonic() < deadline, problem
            time.sleep(0.05)

    def _roundtrip(self, name: str) -> str | None:
        """Append a record and read it. Returns the reason if that is not possible yet."""
        with self.cluster.client(1) as client:
            asked = [{"name": name, "topic_id": None}]
            (topic,) = client.call("metadata", 12, topics=asked, allow_auto_topic_creation=False)["topics"]
        leaders = [each["leader_id"] for each in topic["partitions"]]
        if not leaders or leaders[0] < 0:
            return f"{name} has no leader: {topic}"
        with self.cluster.client(leaders[0]) as client:
            sent = {"name": name, "partition_data": [{"index": 0, "records": bytes(batch(b"value"))}]}
            (answer,) = client.call("produce", 9, acks=-1, timeout=10_000, topic_data=[sent])["responses"]
            if answer["partition_responses"][0]["error_code"]:
                return f"produce: {answer}"
            wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": MIB}
            body = {"replica_id": -1, "max_wait": 5000, "min_bytes": 1, "max_bytes": MIB, "isolation_level": 0}
            session = {"session_id": 0, "session_epoch": -1, "forgotten_topics_data": [], "rack_id": ""}
            topics = [{"topic": name, "partitions": [wanted]}]
            (read,) = client.call("fetch", 11, **body, **session, topics=topics)["responses"]
            return None if read["partitions"][0]["records"] else f"fetch: {read}"

    def _make(self, name: str, factor: int) -> None:
        deadline = time.monotonic() + HEALTH_S
        topic = {"name": name, "num_partitions": 1, "replication_factor": factor, "assignments": [], "configs": []}
        while True:
            with self.cluster.client(1 + self.topics % 3) as client:
                made = client.call("create_topics", 7, topics=[topic], timeout=10_000, validate_only=False)["topics"][0]
            if made["error_code"] in (0, 36):
                return
            assert time.monotonic() < deadline, f"{name} is not made: {made}"
            time.sleep(0.1)

    def _drop_strangers(self) -> None:
        with self.cluster.client(1) as client:
            known = client.call("metadata", 12, topics=None, allow_auto_topic_creation=False)["topics"]
            strange = [{"name": each["name"], "topic_id": None} for each in known if each["name"] != TOPIC]
            client.call("delete_topics", 6, topics=strange, timeout=1000)
            asked = client.call("describe_client_quotas", 1, components=[], strict=False)["entries"] or []
            gone = [
                {
                    "entity": each["entity"],
                    "ops": [{"key": one["key"], "value": 0.0, "remove": True} for one in each["values"]],
                }
                for each in asked
            ]
            client.call("alter_client_quotas", 1, entries=gone, validate_only=False)

    def _log(self, node_id: int) -> str:
        return self.node(node_id).log.read_text(errors="replace")

    def _rss(self, node_id: int) -> int:
        text = Path(f"/proc/{self.node(node_id).process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", text)[1]) << 10  # type: ignore[index]

    def restart(self) -> None:
        """Kill all nodes at once and start them again. Raises AssertionError."""
        self._add(self._pings.stop())
        for each in NODES:
            self.cluster.kill(each)
        self.cluster.start()
        self.restarts += 1
        self._pings = self._begin_pings()
        self.check()

    def stop(self) -> None:
        """The end."""
        self._pings.end()
        for each in list(self.cluster.nodes):
            self.cluster.kill(each)

    def __str__(self) -> str:
        return (
            f"{self.frames:,} frames, {self.restarts} restarts: longest wait of another connection "
            f"{self.longest_ms:.1f} ms (the machine itself was late by {self.late_ms:.1f} ms), "
            f"{self.rss_max / MIB:.0f} MiB at most in a node"
        )


def run(directory: Path, seed: int, frames: int, *, group: int, restart_every: int) -> Iterator[Victims]:
    """The cluster after each group."""
    victims = Victims(directory)
    try:
        for number, begin in enumerate(range(0, frames, group), 1):
            victims.group(seed + number - 1, min(group, frames - begin))
            if number % restart_every == 0 or begin + group >= frames:
                victims.restart()
            yield victims
    finally:
        victims.stop()


def main() -> None:
    """From the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--group", type=int, default=4096)
    parser.add_argument("--restart-every", type=int, default=3, help="groups")
    parser.add_argument(
        "--directory", type=Path, help="where the nodes have their data and logs, to be looked at later"
    )
    given = parser.parse_args()
    with ExitStack() as stack:
        directory = given.directory or stack.enter_context(tempfile.TemporaryDirectory())
        begun = time.monotonic()
        for seed, victims in enumerate(
            run(Path(directory), given.seed, given.frames, group=given.group, restart_every=given.restart_every),
            given.seed,
        ):
            print(f"seed {seed}: {victims}, {time.monotonic() - begun:.0f} s", flush=True)


if __name__ == "__main__":
    main()
