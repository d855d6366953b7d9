"""Some brokers in one process, with real logs. Requests are encoded, but no socket carries them; the controller grants
every request, or acts as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from kcli.broker.broker import Broker
from kcli.broker.config import BrokerConfig
from kcli.broker.dispatch.handlers import handler
from kcli.broker.fetching.sessions import FetchSessions
from kcli.broker.log_dirs.directories import open_log_dirs
from kcli.broker.logs.manager import LogManager
from kcli.broker.network.outgoing import read_region
from kcli.broker.network.peers import Unanswered, api_named, new_request, read_response, request_frame
from kcli.broker.partition.partitions import Partition
from kcli.broker.process.clock import Clock
from kcli.broker.quotas.client import Quotas
from kcli.broker.wire.answers import Laid
from kcli.broker.wire.call import Call
from kcli.broker.wire.messages import messages, read_body, read_header
from kcli.log.disk import Disk
from kcli.log.live.segments import FileRegion
from kcli.metadata.image import MetadataImage
from kcli.metadata.partition import from_uuid
from kcli.protocol.error_code import ErrorCode
from tests.broker.log_dirs import QUICK, TOPIC_ID
from tests.log.batches import batch

LISTENER = "PLAINTEXT"


class WireChannel:
    """A channel to one broker's handlers; it raises Unanswered where the broker is down or cut off."""

    def __init__(self, cluster: Brokers, node_id: int) -> None:
        self._cluster, self._to = cluster, node_id
        self._asked: set[asyncio.Task[Any]] = set()

    async def call(self, api: str, version: int | None, /, *, timeout_s: float, **fields: Any) -> Any:
        task = asyncio.get_running_loop().create_task(self._call(api, version, fields))
        self._asked.add(task)
        self._cluster.tasks.add(task)
        try:
            async with asyncio.timeout(timeout_s):
                return await task
        except (TimeoutError, asyncio.CancelledError):
            if asyncio.current_task().cancelling():  # type: ignore[union-attr]
                raise
            raise Unanswered("no answer") from None
        finally:
            self._asked.discard(task)
            self._cluster.tasks.discard(task)

    async def _call(self, api: str, version: int | None, fields: dict[str, Any]) -> Any:
        await asyncio.sleep(0.0005)
        if self._to not in self._cluster.nodes or self._to in self._cluster.cut_off:
            raise Unanswered(f"broker {self._to} is down")
        known = api_named(api)
        kind = messages(known.key, known.most if version is None else version)
        frame = memoryview(bytearray(request_frame(kind, "test", 1, new_request(kind, fields))))[4:]
        broker = self._cluster.nodes[self._to]
        answered = await answer(broker, frame)
        if self._to in self._cluster.cut_off:
            raise Unanswered(f"broker {self._to} is cut off")
        return read_response(kind, memoryview(answered)[4:])

    def close(self) -> None:
        for task in self._asked:
            task.cancel()


async def answer(broker: Broker, frame: memoryview) -> bytes:
    """A broker's answer to a frame without its size, as a frame."""
    header = read_header(frame)
    kind = messages(header.api_key, header.version)
    call = Call(kind, header, read_body(kind, frame, header), broker.clock.now_ms(), "test", LISTENER)
    found: Any = handler(header.api_key)(broker, call)
    if isawaitable(found):
        found = await found
    if isinstance(found, Laid):
        return b"".join(bytes(read_region(each) if isinstance(each, FileRegion) else each) for each in found)
    return kind.encode(header.correlation_id, found)


class Controller:
    """A broker's channel to the controller, which grants AlterPartition unless a test refuses it."""

    def __init__(self, cluster: Brokers) -> None:
        self._cluster = cluster

    async def call(self, api: str, version: int, /, *, timeout_s: float, **fields: Any) -> Any:
        assert (api, version) == ("alter_partition", 3)
        assert timeout_s > 1
        await asyncio.sleep(0.001)
        if self._cluster.refusal is not None:
            raise Unanswered("no controller")
        kind = messages(56, 3)
        topics = []
        for topic in fields["topics"]:
            partitions = [self._cluster.alter(topic["topic_id"], each) for each in topic["partitions"]]
            told = [
                kind.new(
                    "PartitionData",
                    {
                        "partition_index": number,
                        "error_code": code,
                        "leader_id": state.leader,
                        "leader_epoch": state.leader_epoch,
                        "isr": state.isr,
                        "leader_recovery_state": 0,
                        "partition_epoch": state.partition_epoch,
                    },
                )
                for number, code, state in partitions
            ]
            topics.append(kind.new("TopicData", {"topic_id": topic["topic_id"], "partitions": tuple(told)}))
        return kind.new(kind.response_name, {"error_code": ErrorCode.NONE, "topics": tuple(topics)})


class Brokers:
    """The brokers. records: those of the metadata log; cut_off: brokers that do not respond; refusal: the error of the
    controller, if any."""

    def __init__(self, directory: Path, **config: str) -> None:
        self.directory = directory
        self.config = config
        self.nodes: dict[int, Broker] = {}
        self.records: list[tuple[str, dict[str, Any]]] = []
        self.cut_off: set[int] = set()
        self.refusal: str | None = None
        self.altered: list[tuple[int, ...]] = []
        self.tasks: set[asyncio.Task[Any]] = set()
        self.image = MetadataImage()

    # the metadata

    def apply(self, *records: tuple[str, dict[str, Any]], but: tuple[int, ...] = ()) -> None:
        """Apply metadata records on all brokers except for some."""
        for name, value in records:
            self.records.append((name, value))
            self.image.apply(name, dict(value), self.image.offset + 1)
        for node_id, broker in self.nodes.items():
            if node_id not in but:
                for name, value in records:
                    broker.image.apply(name, dict(value), broker.image.offset + 1)
                changes = broker.image.take_changes()
                broker.logs.apply(changes)
                broker.replicas.apply(changes)

    def create_topic(
        self, name: str = "t", partitions: int = 1, topic_id: UUID = TOPIC_ID, replicas: tuple[int, ...] = (1, 2, 3)
    ) -> None:
        """Create a topic led by the first of `replicas`, with all of them in the ISR."""
        records: list[tuple[str, dict[str, Any]]] = [("TopicRecord", {"name": name, "topicId": from_uuid(topic_id)})]
        for number in range(partitions):
            record = {
                "partitionId": number,
                "topicId": from_uuid(topic_id),
                "replicas": list(replicas),
                "isr": list(replicas),
                "leader": replicas[0],
                "leaderEpoch": 0,
                "partitionEpoch": 0,
                "directories": [from_uuid(UUID(int=1))] * len(replicas),
            }
            records.append(("PartitionRecord", record))
        self.apply(*records)

    def change(self, number: int = 0, but: tuple[int, ...] = (), **value: Any) -> None:
        """Change a partition of topic t."""
        self.apply(("PartitionChangeRecord", {"partitionId": number, "topicId": from_uuid(TOPIC_ID), **value}), but=but)

    def configure(self, name: str, value: str, topic: str = "t") -> None:
        """A topic's configuration."""
        self.apply(("ConfigRecord", {"resourceType": 2, "resourceName": topic, "name": name, "value": value}))

    def alter(self, topic_id: UUID, asked: dict[str, Any]) -> tuple[int, ErrorCode, Any]:
        """AlterPartition of one partition."""
        number = asked["partition_index"]
        state = self.image.partition(topic_id, number)
        assert state is not None
        isr = tuple(each["broker_id"] for each in asked["new_isr_with_epochs"])
        if asked["leader_epoch"] != state.leader_epoch:
            return number, ErrorCode.FENCED_LEADER_EPOCH, state
        if asked["partition_epoch"] != state.partition_epoch:
            return number, ErrorCode.INVALID_UPDATE_VERSION, state
        if any(broker_id not in self.nodes for broker_id in isr):
            return number, ErrorCode.INELIGIBLE_REPLICA, state
        self.altered.append(isr)
        record = {"partitionId": number, "topicId": from_uuid(topic_id), "isr": list(isr)}
        self.apply(("PartitionChangeRecord", record))
        return number, ErrorCode.NONE, self.image.partition(topic_id, number)

    # brokers

    async def start(self, *node_ids: int, rack: str | None = None) -> None:
        """Start brokers, or start them again."""
        for node_id in node_ids:
            self.apply(("RegisterBrokerRecord", _registration(node_id, len(self.records) + 1, rack)))
            self.nodes[node_id] = await self._start(node_id)
        for node_id in node_ids:
            self.nodes[node_id].replicas.start()

    async def _start(self, node_id: int) -> Broker:
        paths = [self.directory / f"{node_id}"]
        config = BrokerConfig(
            {
                "node.id": str(node_id),
                "process.roles": "broker",
                "controller.listener.names": "CONTROLLER",
                "listeners": "PLAINTEXT://localhost:9092",
                "controller.quorum.voters": "9@localhost:9093",
                "log.dirs": str(paths[0]),
                "replica.fetch.wait.max.ms": "300",
                **QUICK,
                **{name.replace("_", "."): value for name, value in self.config.items()},
            }
        )
        image, disk, clock = MetadataImage(), Disk(), Clock()
        for name, value in self.records:
            image.apply(name, dict(value), image.offset + 1)
        image.take_changes()
        dirs = open_log_dirs(paths, paths[0], node_id, disk, clock)
        logs = LogManager(config, dirs, image, disk, clock)
        broker = Broker(
            controller=Controller(self),  # type: ignore[arg-type]
            config=config,
            clock=clock,
            broker_epoch=lambda: image.brokers[node_id].epoch,
            cluster_id=dirs.cluster_id,
            image=image,
            metadata=SimpleNamespace(on_leadership=[], is_leader=False, leader_id=9, kraft_version=0),  # type: ignore[arg-type]
            logs=logs,
            partitions=logs.partitions,
            sessions=FetchSessions(1000, 120_000),
            quotas=Quotas(),
            advertised={LISTENER: ("localhost", node_id)},
            network=SimpleNamespace(channel=lambda _, port, __: WireChannel(self, port)),
            is_alone=False,
        )
        logs.host = broker.replicas
        await logs.start()
        return broker

    def fence(self, node_id: int) -> None:
        """The controller misses a broker."""
        epoch = self.image.brokers[node_id].epoch
        self.apply(("BrokerRegistrationChangeRecord", {"brokerId": node_id, "brokerEpoch": epoch, "fenced": 1}))

    async def kill(self, node_id: int) -> None:
        """Kill a broker; its files stay."""
        broker = self.nodes.pop(node_id)
        broker.replicas.stop()
        for session in list(broker.sessions._sessions):
            broker.sessions.end(session)
        await broker.logs.background.stop()
        broker.logs.dirs.unlock()

    async def stop(self, node_id: int) -> None:
        """End a broker in order."""
        broker = self.nodes.pop(node_id)
        broker.replicas.stop()
        await broker.logs.stop(7)

    def partition(self, node_id: int, number: int = 0, topic: str = "t") -> Partition:
        """A replica."""
        found = self.nodes[node_id].partitions.get(topic, number)
        assert found is not None
        return found

    async def ask(self, node_id: int, api: str, version: int, **fields: Any) -> Any:
        """A client's request to one broker."""
        kind = messages(api_named(api).key, version)
        frame = bytearray(request_frame(kind, "client", 1, new_request(kind, fields)))
        answered = await answer(self.nodes[node_id], memoryview(frame)[4:])
        return read_response(kind, memoryview(answered)[4:])

    async def produce(
        self, node_id: int, *values: bytes, acks: int = -1, number: int = 0, timeout_ms: int = 3000, **more: Any
    ) -> tuple[ErrorCode, int]:
        """Send one batch. Returns the error and the base offset."""
        records = bytes(batch(*values, **more))
        response = await self.ask(
            node_id,
            "produce",
            9,
            acks=acks,
            timeout=timeout_ms,
            topic_data=[{"name": "t", "partition_data": [{"index": number, "records": records}]}],
        )
        found = response.responses[0].partition_responses[0]
        return found.error_code, found.base_offset

    async def fetch(self, node_id: int, offset: int = 0, *, number: int = 0, wait_ms: int = 0, rack: str = "") -> Any:
        """Fetch as a consumer from one broker; return the partition's part of the response."""
        asked = {"partition": number, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
        response = await self.ask(
            node_id,
            "fetch",
            13,
            max_wait=wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            rack_id=rack,
            topics=[{"topic_id": TOPIC_ID, "partitions": [asked]}],
        )
        return response.responses[0].partitions[0]


def _registration(node_id: int, epoch: int, rack: str | None) -> dict[str, Any]:
    return {
        "brokerId": node_id,
        "brokerEpoch": epoch,
        "incarnationId": from_uuid(UUID(int=epoch + 1000)),
        "endPoints": [{"name": LISTENER, "host": "localhost", "port": node_id, "securityProtocol": 0}],
        "features": [],
        "rack": rack,
        "fenced": False,
        "inControlledShutdown": False,
        "logDirs": [],
    }


async def until(condition: Callable[[], object], timeout_s: float = 60.0) -> None:
    """Wait until something is so."""
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout_s
    while not condition():
        assert loop.time() < end, "it never came to that"
        await asyncio.sleep(0.002)


def run(directory: Path, test: Callable[[Brokers], Awaitable[None]], **config: str) -> None:
    """Run a test with brokers in a directory, then stop the brokers that still run."""

    async def whole() -> None:
        cluster = Brokers(directory, **config)
        try:
            await test(cluster)
        finally:
            for node_id in list(cluster.nodes):
                await cluster.stop(node_id)
            for task in list(cluster.tasks):
                task.cancel()

    asyncio.run(whole())
