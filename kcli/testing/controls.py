"""The operations of a test on its broker. They run on the broker's event loop, in its thread or child process.

Arguments and results are plain values or dataclasses of this package, since they are pickled if the broker is a child
process.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial
from inspect import isawaitable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kcli.broker.config.single_node import single_node_config
from kcli.broker.dispatch.handlers import handler
from kcli.broker.network.outgoing import read_region
from kcli.broker.node import Node
from kcli.broker.partition.partitions import Partition
from kcli.broker.wire.answers import Laid
from kcli.broker.wire.apis import APIS
from kcli.broker.wire.call import OWN, Call
from kcli.broker.wire.messages import Message, Messages, RequestHeader, entity_reader, messages
from kcli.errors import KcliError, UsageError
from kcli.log.disk import Disk, DiskFile
from kcli.log.live.segments import FileRegion
from kcli.log.live.validator import AppendRefused
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Acl
from kcli.security.scram import SCRAM_SHA_512, new_nonce
from kcli.testing import records, snapshot
from kcli.testing.faults import Fault, Faults
from kcli.testing.moving import MovingClock, MovingLoop
from kcli.testing.records import Record
from kcli.testing.requests import Request, RequestLog, plain_name
from kcli.testing.seed import SeedRecord, SeedTopic
from kcli.testing.wire import message, plain

if TYPE_CHECKING:
    from kcli.broker.wire.types.create_topics import CreateTopicsResponse
    from kcli.registry.server import RegistryServer

CLIENT_ID = "kcli-testing"
BATCH_BYTES, BATCH_RECORDS = 256 << 10, 1_000
TIMEOUT_MS = 30_000
DEFAULTS = {
    "connections.max.idle.ms": "-1",  # otherwise moving the clock would close the clients' connections
    "group.initial.rebalance.delay.ms": "0",  # as in Kafka's own image for Docker
    "group.min.session.timeout.ms": "100",  # a test need not wait for six seconds after it has killed a consumer
    "metadata.max.idle.interval.ms": "0",  # no NoOpRecord every half second
    "num.recovery.threads.per.data.dir": "1",  # a few small logs load faster than threads start
    "offsets.topic.num.partitions": "1",  # one directory, not 50, for a test's few groups
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",  # the same for producers
    "transaction.state.log.num.partitions": "1",
}


class Refused(KcliError):
    """The broker refuses an operation of a test. The message has Kafka's error, if there is one."""


class _File(DiskFile):
    def sync(self) -> None:
        """Do nothing: the data must survive the end of the broker's process, but not of the machine."""


class UnsyncedDisk(Disk):
    """The file system without fsync: data that the process has written survives the end of the process."""

    waits = False

    def open(self, path: Path, *, create: bool = False, truncate: bool = False, read_only: bool = False) -> DiskFile:
        """Open a file as Disk does; its `sync` does nothing."""
        opened = super().open(path, create=create, truncate=truncate, read_only=read_only)
        return _File(opened.path, opened.fd)

    def sync_directory(self, path: Path) -> None:
        """Do nothing."""


class Controls:
    """A broker that can be stopped and started. The request log, the fault rules and the clock stay while it is
    stopped."""

    def __init__(self, loop: MovingLoop) -> None:
        self._loop = loop
        self._clock = MovingClock()
        self._requests = RequestLog()
        self._faults = Faults(self._requests)
        self._node: Node | None = None
        self._listener = ""
        self._registry: RegistryServer | None = None
        self._registry_port = 0

    @property
    def node(self) -> Node:
        """The running node. Raises Refused if the broker is stopped."""
        if self._node is None:
            raise Refused("the broker is stopped")
        return self._node

    # start and stop

    async def start(self, data_dir: Path, port: int, config: Mapping[str, str], protocol: str) -> tuple[str, int]:
        """Start a node in a new or used directory and return its address. port: 0 for a free one. protocol: the
        security protocol of the listener, which is also its name.

        Raises KcliError, OSError.
        """
        if self._node is not None:
            raise UsageError("the broker is running")
        configured = single_node_config(data_dir, ("127.0.0.1", port), None, None, {**DEFAULTS, **config}, protocol)
        node = Node(configured, disk=UnsyncedDisk(), clock=self._clock)
        await node.start()
        node.server.handle = partial(self._faults.handle, node.router)
        self._node = node
        self._listener = protocol
        return node.addresses[protocol]

    async def stop(self) -> None:
        """Stop the broker by an orderly shutdown, if it runs."""
        registry, self._registry = self._registry, None
        if registry is not None:
            await registry.stop()
        node, self._node = self._node, None
        if node is not None:
            await node.stop()

    async def start_registry(self, client: Mapping[str, str]) -> str:
        """Start the broker's schema registry, if it does not run, and return its URL. After a restart of the broker it
        has the same port. client: librdkafka's properties with which it connects to the broker.

        Raises KcliError, OSError.
        """
        if self._registry is None:
            from kcli.client.security import security_of
            from kcli.registry.config import registry_config
            from kcli.registry.in_broker import start_beside
            from kcli.service.outbound import outbound_of

            listener = f"http://127.0.0.1:{self._registry_port}"
            config = registry_config({"listeners": listener, "kafkastore.topic.replication.factor": "1"})
            self._registry = await start_beside(self.node, config, outbound_of(security_of(client)))
            self._registry_port = int(self._registry.urls[0].rpartition(":")[2])
        return self._registry.urls[0]

    async def reset(self) -> None:
        """Clear request log and fault rules, and reset the clock to the system's; the broker must be stopped."""
        assert self._node is None, "a running broker has read the clock"
        self._registry_port = 0
        self._requests.clear()
        self._faults.clear()
        self._clock.ahead_ms = 0.0

    async def copy_to(self, target: Path) -> None:
        """Copy the log directories of the running broker to directories 0, 1, ... in `target`. A broker that starts on
        the copy recovers the logs as after kill -9."""
        await self._loop.settle()
        for i, path in enumerate(self.node.config.log_dirs):
            snapshot.copy_tree(Path(path), target / str(i))

    # topics and records

    async def topics(self) -> list[str]:
        """The names of all topics."""
        return sorted(each.name for each in self.node.broker.image.topics.values())

    async def seed(self, topics: Sequence[SeedTopic]) -> None:
        """Create the topics that do not exist, and append the records of all topics. Raises Refused."""
        image = self.node.broker.image
        new = [each for each in topics if image.topic(each.name) is None]
        await self._create(new)
        for topic in topics:
            for number in range(topic.partitions):
                self._append(topic.name, number, [each for each in topic.records if each.partition == number])

    async def _create(self, topics: Sequence[SeedTopic]) -> None:
        if not topics:
            return
        new_topics = [
            {
                "name": each.name,
                "num_partitions": each.partitions,
                "replication_factor": 1,
                "assignments": [],
                "configs": [{"name": name, "value": value} for name, value in each.config.items()],
            }
            for each in topics
        ]
        answer: CreateTopicsResponse = await self._call(
            "create_topics", 7, {"topics": new_topics, "timeout": TIMEOUT_MS, "validate_only": False}
        )
        for each in answer.topics:
            if each.error_code != ErrorCode.NONE:
                code = ErrorCode(each.error_code).name
                raise Refused(f"topic {each.name}: {code}: {each.error_message or 'not made'}")

    def _append(self, topic: str, number: int, new_records: Sequence[SeedRecord]) -> None:
        if not new_records:
            return
        partition = self._partition(topic, number)
        now_ms = self._clock.now_ms()
        part: list[SeedRecord] = []
        size = 0
        for each in new_records:
            part.append(each)
            size += len(each.key or b"") + len(each.value or b"")
            if size >= BATCH_BYTES or len(part) == BATCH_RECORDS:
                _append(partition, part, now_ms)
                part, size = [], 0
        if part:
            _append(partition, part, now_ms)

    async def records(self, topic: str, partition: int | None) -> list[Record]:
        """Return the records of a topic below the high watermark, sorted by partition and offset. partition: None for
        all. Raises Refused."""
        known = self.node.broker.image.topic(topic)
        if known is None:
            raise Refused(f"no topic {topic}")
        numbers = sorted(known.partitions) if partition is None else [partition]
        return [each for number in numbers for each in records.read(self._partition(topic, number))]

    def _partition(self, topic: str, number: int) -> Partition:
        found = self.node.broker.partitions.get(topic, number)
        if found is None:
            raise Refused(f"no partition {topic}-{number}")
        return found

    # users and what they may do

    async def add_user(self, name: str, password: str) -> None:
        """Give a user a SCRAM credential. Raises Refused."""
        salt, iterations = new_nonce().encode(), SCRAM_SHA_512.iterations_min
        upsertion = {
            "name": name,
            "mechanism": SCRAM_SHA_512.code,
            "iterations": iterations,
            "salt": salt,
            "salted_password": SCRAM_SHA_512.salted(password, salt, iterations),
        }
        request = {"deletions": [], "upsertions": [upsertion]}
        answer: Any = await self._call("alter_user_scram_credentials", 0, request)
        _check(f"user {name}", answer.results)

    async def add_acls(self, acls: Sequence[Acl]) -> None:
        """Add ACLs. Raises Refused."""
        creations = [
            {
                "resource_type": each.resource_type,
                "resource_name": each.resource_name,
                "resource_pattern_type": each.pattern_type,
                "principal": each.principal,
                "host": each.host,
                "operation": each.operation,
                "permission_type": each.permission,
            }
            for each in acls
        ]
        answer: Any = await self._call("create_acls", 3, {"creations": creations})
        _check("acls", answer.results)

    # requests

    async def call(self, api: str, version: int | None, fields: Mapping[str, Any]) -> Any:
        """Handle a request given as plain values, without a connection, and return the response.

        version: None for the newest. Raises Refused for an API, version or field that does not exist.
        """
        key = next((each for each in APIS.values() if plain_name(each.name) == plain_name(api)), None)
        if key is None:
            raise Refused(f"no API {api}")
        chosen: Any = key.most if version is None else version
        if not isinstance(chosen, int) or not key.least <= chosen <= key.most:
            raise Refused(f"{api} has versions {key.least} to {key.most}, not {version!r}")
        known = {field.name for field in dataclasses.fields(messages(key.key, chosen).request_type)}
        if unknown := set(fields) - known:
            raise Refused(f"{api} v{chosen} has no {', '.join(sorted(unknown))}: it has {', '.join(sorted(known))}")
        try:
            request = message(messages(key.key, chosen).request_type, dict(fields))
        except (TypeError, ValueError, KeyError, AttributeError) as error:  # a missing field, or one of another type
            raise Refused(f"{api} v{chosen}: {error}") from None
        return plain(await self._answer(key.key, chosen, request))

    async def _call(self, name: str, version: int, fields: Mapping[str, Any]) -> Any:
        key = next(each.key for each in APIS.values() if each.name == name)
        return await self._answer(key, version, message(messages(key, version).request_type, dict(fields)))

    async def _answer(self, key: int, version: int, request: Message) -> Any:
        kind = messages(key, version)
        broker = self.node.broker
        header = RequestHeader(key, version, 0, CLIENT_ID, 0)
        call = Call(kind, header, request, broker.clock.now_ms(), "127.0.0.1", self._listener, principal=OWN)
        answer = handler(key)(broker, call)
        answer = await answer if isawaitable(answer) else answer
        return _read(kind, answer) if isinstance(answer, Laid) else answer

    async def requests(self, api: str | None, topic: str | None, client_id: str | None) -> list[Request]:
        """Return the requests in the log that match; None matches any."""
        return self._requests.find(api, topic, client_id)

    async def clear_requests(self) -> None:
        """Clear the request log."""
        self._requests.clear()

    # faults

    async def add_fault(self, fault: Fault) -> Fault:
        """Add a fault rule and return it with its id. Raises ValueError."""
        return self._faults.add(fault)

    async def faults(self) -> list[Fault]:
        """Return all fault rules."""
        return self._faults.all()

    async def remove_fault(self, fault_id: int) -> None:
        """Remove a fault rule, if it exists."""
        self._faults.remove(fault_id)

    async def clear_faults(self) -> None:
        """Remove all fault rules."""
        self._faults.clear()

    # time

    async def now_ms(self) -> int:
        """Return the broker's time in milliseconds since 1970."""
        return self._clock.now_ms()

    async def advance(self, delta_ms: float) -> None:
        """Move the clock forward by `delta_ms`; return when all timers that fell due have run (see MovingLoop)."""
        await self._loop.advance(self._clock, delta_ms)

    async def settle(self) -> None:
        """Wait until the broker's event loop and its threads are idle, but at most 5 s."""
        await self._loop.settle()


def _check(subject: str, results: Sequence[Any]) -> None:
    for each in results:
        if each.error_code != ErrorCode.NONE:
            raise Refused(f"{subject}: {ErrorCode(each.error_code).name}: {each.error_message or 'refused'}")


def _read(kind: Messages, frame: Laid) -> Any:
    """Return the response in a frame that a handler has already encoded for the network. kind: the message types of the
    request's version."""
    data = b"".join(read_region(part) if isinstance(part, FileRegion) else part for part in frame)
    response, _ = entity_reader(kind.response_type)(data, 4 + len(kind.response_header(0)))
    return response


def _append(partition: Partition, part: Sequence[SeedRecord], now_ms: int) -> None:
    try:
        records.append(partition, part, now_ms)
    except AppendRefused as refused:
        found = refused.records
        reasons = [] if found is None else [f"record {found.index(i)}: {found.reason(i)}" for i in range(len(found))]
        raise Refused(f"{partition}: {refused.error.name}: {'; '.join(reasons) or refused.reason}") from None
