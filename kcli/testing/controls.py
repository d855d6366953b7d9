"""What a test can have a broker do. All of it runs on the broker's own event loop, in whichever process that is.

Arguments and results are plain, or of this package's dataclasses: they go through a pipe where the broker is a child
process.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from inspect import isawaitable
from pathlib import Path
from typing import Any

from kcli.broker.api import APIS, handler
from kcli.broker.logs.partitions import Partition
from kcli.broker.network.connection import Laid
from kcli.broker.network.messages import Call, Entity, ErrorCode, Messages, RequestHeader, entity_reader, messages
from kcli.broker.network.outgoing import read_region
from kcli.broker.node import Node
from kcli.broker.single_node import single_node_config
from kcli.errors import KcliError, UsageError
from kcli.log.disk import Disk, DiskFile
from kcli.log.live_segments import FileRegion
from kcli.log.validator import AppendRefused
from kcli.testing import records, snapshot
from kcli.testing.faults import Fault, Faults
from kcli.testing.moving import MovingClock, MovingLoop
from kcli.testing.records import Record
from kcli.testing.requests import Request, RequestLog, plain_name
from kcli.testing.seed import SeedRecord, SeedTopic
from kcli.testing.wire import message, plain

CLIENT_ID = "kcli-testing"
LISTENER = "PLAINTEXT"
BATCH_BYTES, BATCH_RECORDS = 256 << 10, 1_000
TIMEOUT_MS = 30_000
DEFAULTS = {
    "connections.max.idle.ms": "-1",  # or moving the clock would cut off the clients
    "group.initial.rebalance.delay.ms": "0",  # as in Kafka's own image for Docker
    "metadata.max.idle.interval.ms": "0",  # no record every half second that nobody needs
    "num.recovery.threads.per.data.dir": "1",  # a few small logs: threads are more work than they are
    "offsets.topic.num.partitions": "1",  # not 50 directories for a test's one group
    "transaction.state.log.num.partitions": "1",
}


class Refused(KcliError):
    """The broker's answer to something a test wanted of it."""


class _File(DiskFile):
    def sync(self) -> None:
        """A test's broker may die, the machine does not."""


class UnsyncedDisk(Disk):
    """The file system, without waiting for the device: what a process has written outlives it."""

    waits = False

    def open(self, path: Path, *, create: bool = False, truncate: bool = False, read_only: bool = False) -> DiskFile:
        """As Disk's."""
        opened = super().open(path, create=create, truncate=truncate, read_only=read_only)
        return _File(opened.path, opened.fd)

    def sync_directory(self, path: Path) -> None:
        """Nothing."""


class Controls:
    """A broker that comes and goes, and what outlives it: requests seen, fault rules, the clock."""

    def __init__(self, loop: MovingLoop) -> None:
        self._loop = loop
        self._clock = MovingClock()
        self._requests = RequestLog()
        self._faults = Faults(self._requests)
        self._node: Node | None = None

    @property
    def node(self) -> Node:
        """The running node."""
        if self._node is None:
            raise Refused("the broker is stopped")
        return self._node

    # life

    async def start(self, data_dir: Path, port: int, config: Mapping[str, str]) -> tuple[str, int]:
        """Start a node in a directory, new or used; port 0 takes a free one. Returns the address.

        Raises KcliError, OSError.
        """
        if self._node is not None:
            raise UsageError("the broker is running")
        configured = single_node_config(data_dir, ("127.0.0.1", port), None, None, {**DEFAULTS, **config})
        node = Node(configured, disk=UnsyncedDisk(), clock=self._clock)
        await node.start()
        node.server.handle = self._faults.handle
        self._node = node
        return node.addresses[LISTENER]

    async def stop(self) -> None:
        """Stop it in order, if it runs."""
        node, self._node = self._node, None
        if node is not None:
            await node.stop()

    async def reset(self) -> None:
        """Forget requests and rules; the clock is the system's again. For a broker that is stopped."""
        assert self._node is None, "what runs has seen the time"
        self._requests.clear()
        self._faults.clear()
        self._clock.ahead_ms = 0.0

    async def copy_to(self, target: Path) -> None:
        """Copy the log directories as they are now; as after kill -9, recovery makes them a log again."""
        await self._loop.settle()
        for i, path in enumerate(self.node.config.log_dirs):
            snapshot.copy_tree(Path(path), target / str(i))

    # topics and records

    async def topics(self) -> list[str]:
        """The names of all topics."""
        return sorted(each.name for each in self.node.broker.image.topics.values())

    async def seed(self, topics: Sequence[SeedTopic]) -> None:
        """Make the topics that are not there, and append their records. Raises Refused."""
        image = self.node.broker.image
        new = [each for each in topics if image.topic(each.name) is None]
        await self._create(new)
        for topic in topics:
            for number in range(topic.partitions):
                self._append(topic.name, number, [each for each in topic.records if each.partition == number])

    async def _create(self, topics: Sequence[SeedTopic]) -> None:
        if not topics:
            return
        wanted = [
            {
                "name": each.name,
                "num_partitions": each.partitions,
                "replication_factor": 1,
                "assignments": [],
                "configs": [{"name": name, "value": value} for name, value in each.config.items()],
            }
            for each in topics
        ]
        answer = await self._call("create_topics", 7, {"topics": wanted, "timeout": TIMEOUT_MS, "validate_only": False})
        for each in answer.topics:
            if each.error_code is not ErrorCode.none:
                code = each.error_code.name.upper()
                raise Refused(f"topic {each.name}: {code}: {each.error_message or 'not made'}")

    def _append(self, topic: str, number: int, wanted: Sequence[SeedRecord]) -> None:
        if not wanted:
            return
        partition = self._partition(topic, number)
        now_ms = self._clock.now_ms()
        part: list[SeedRecord] = []
        size = 0
        for each in wanted:
            part.append(each)
            size += len(each.key or b"") + len(each.value or b"")
            if size >= BATCH_BYTES or len(part) == BATCH_RECORDS:
                _append(partition, part, now_ms)
                part, size = [], 0
        if part:
            _append(partition, part, now_ms)

    async def records(self, topic: str, partition: int | None) -> list[Record]:
        """The committed records of a topic, partition by partition, or of one. Raises Refused."""
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

    # requests

    async def call(self, api: str, version: int | None, fields: Mapping[str, Any]) -> Any:
        """Have a handler answer a request of plain values, without the network; the newest version if not said."""
        key = next((each for each in APIS.values() if plain_name(each.name) == plain_name(api)), None)
        if key is None:
            raise Refused(f"no API {api}")
        wanted: Any = key.most if version is None else version
        if not isinstance(wanted, int) or not key.least <= wanted <= key.most:
            raise Refused(f"{api} has versions {key.least} to {key.most}, not {version!r}")
        known = {field.name for field in dataclasses.fields(messages(key.key, wanted).request_type)}
        if unknown := set(fields) - known:
            raise Refused(f"{api} v{wanted} has no {', '.join(sorted(unknown))}: it has {', '.join(sorted(known))}")
        try:
            request = message(messages(key.key, wanted).request_type, dict(fields))
        except (TypeError, ValueError, KeyError, AttributeError) as error:  # what is missing, or of another type
            raise Refused(f"{api} v{wanted}: {error}") from None
        return plain(await self._answer(key.key, wanted, request))

    async def _call(self, name: str, version: int, fields: Mapping[str, Any]) -> Entity:
        key = next(each.key for each in APIS.values() if each.name == name)
        return await self._answer(key, version, message(messages(key, version).request_type, dict(fields)))

    async def _answer(self, key: int, version: int, request: Entity) -> Entity:
        kind = messages(key, version)
        broker = self.node.broker
        header = RequestHeader(key, version, 0, CLIENT_ID, 0)
        call = Call(broker, kind, header, request, broker.clock.now_ms(), "127.0.0.1", LISTENER)
        answer = handler(key)(call)
        answer = await answer if isawaitable(answer) else answer
        return _read(kind, answer) if isinstance(answer, Laid) else answer

    async def requests(self, api: str | None, topic: str | None, client_id: str | None) -> list[Request]:
        """The requests so far that fit."""
        return self._requests.find(api, topic, client_id)

    async def clear_requests(self) -> None:
        """Forget the requests so far."""
        self._requests.clear()

    # faults

    async def add_fault(self, fault: Fault) -> Fault:
        """One more rule. Raises ValueError."""
        return self._faults.add(fault)

    async def faults(self) -> list[Fault]:
        """All rules."""
        return self._faults.all()

    async def remove_fault(self, fault_id: int) -> None:
        """Take a rule away."""
        self._faults.remove(fault_id)

    async def clear_faults(self) -> None:
        """Take all away."""
        self._faults.clear()

    # time

    async def now_ms(self) -> int:
        """The broker's time, milliseconds since 1970."""
        return self._clock.now_ms()

    async def advance(self, delta_ms: float) -> None:
        """Move the clock forward, see moving.py."""
        await self._loop.advance(self._clock, delta_ms)

    async def settle(self) -> None:
        """Wait until the broker has nothing left to do now."""
        await self._loop.settle()


def _read(kind: Messages, frame: Laid) -> Entity:
    """An answer that its handler has laid out for the network."""
    data = b"".join(read_region(part) if isinstance(part, FileRegion) else part for part in frame)
    response, _ = entity_reader(kind.response_type)(data, 4 + len(kind.response_header(0)))
    return response


def _append(partition: Partition, part: Sequence[SeedRecord], now_ms: int) -> None:
    try:
        records.append(partition, part, now_ms)
    except AppendRefused as refused:
        told = [f"record {each.index}: {each.reason}" for each in refused.records]
        raise Refused(f"{partition}: {refused.error.name}: {'; '.join(told) or refused.reason}") from None
