"""A broker for tests: in this process on a thread of its own, or as a child process; and a client of frames."""

from __future__ import annotations

import asyncio
import os
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, Self, TypeVar

import uvloop

from kcli.broker.config import BrokerConfig
from kcli.broker.config.single_node import single_node_config
from kcli.broker.node import Node
from kcli.broker.wire.apis import APIS, is_flexible
from kcli.broker.wire.messages import entity_reader, entity_writer, messages
from kcli.log.disk import Disk
from kcli.testing.wire import message, plain
from tests.cli.warm import Forked, warm_kcli

T = TypeVar("T")
TIMEOUT_S = 30.0
Address = tuple[str, int]


class Closed(Exception):
    """The broker closed the connection."""


def api_key(name: str) -> int:
    """The key of an API, by its handler's name."""
    return next(each.key for each in APIS.values() if each.name == name)


def readable(sockets: Sequence[socket.socket], timeout_s: float) -> list[socket.socket]:
    """Return the sockets that become readable, or are closed, within a time. Descriptors may be above 1,023."""
    poll = select.poll()
    by_fd = {each.fileno(): each for each in sockets}
    for fd in by_fd:
        poll.register(fd, select.POLLIN)
    return [by_fd[fd] for fd, _ in poll.poll(timeout_s * 1000)]


class Client:
    """A connection whose requests and responses are plain values, or any bytes. from_host: the local address of the
    connection, where it matters."""

    def __init__(self, address: Address, client_id: str | None = "test", from_host: str = "") -> None:
        self.socket = socket.create_connection(address, TIMEOUT_S, (from_host, 0) if from_host else None)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as Kafka's clients do
        self.client_id = client_id
        self.correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def frame(self, api: str, version: int, request: Mapping[str, Any]) -> bytes:
        """A request's frame, its size in front."""
        key = api_key(api)
        request_type = messages(key, version).request_type
        body = BytesIO()
        entity_writer(request_type)(body, message(request_type, dict(request)))
        self.correlation_id += 1
        name = b"" if self.client_id is None else self.client_id.encode()
        header = struct.pack(">hhih", key, version, self.correlation_id, -1 if self.client_id is None else len(name))
        header += name + (b"\0" if is_flexible(key, version) else b"")
        return struct.pack(">i", len(header) + len(body.getvalue())) + header + body.getvalue()

    def call(self, api: str, version: int, /, **request: Any) -> dict[str, Any]:
        """Send a request and wait for its answer."""
        self.socket.sendall(self.frame(api, version, request))
        return self.answer(api, version)

    def create_topic(self, name: str, partitions: int, configs: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Create a topic of one replica and wait until all its partitions have leaders, since Kafka's controller
        answers before its broker has them. Returns the response."""
        values = [{"name": key, "value": value} for key, value in (configs or {}).items()]
        topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": ()}
        made = self.call("create_topics", 7, topics=[topic | {"configs": values}], timeout=10_000, validate_only=False)
        found: dict[str, Any] = made["topics"][0]
        assert found["error_code"] == 0, found
        self.wait_for_leaders(name)
        return found

    def alter_topic(self, topic: str, configs: Mapping[str, str]) -> None:
        """Set configurations of a topic."""
        changes = [{"name": name, "config_operation": 0, "value": value} for name, value in configs.items()]
        resource = {"resource_type": 2, "resource_name": topic, "configs": changes}
        answer = self.call("incremental_alter_configs", 1, resources=[resource], validate_only=False)
        assert answer["responses"][0]["error_code"] == 0, answer

    def list_offset(self, topic: str, timestamp: int) -> tuple[int, int]:
        """Return the error code and the offset that ListOffsets answers for partition 0 of a topic. timestamp: of the
        record, or one of the special ones: -1 to -5."""
        asked = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}
        topics = [{"name": topic, "partitions": [asked]}]
        answer = self.call("list_offsets", 9, replica_id=-1, isolation_level=0, topics=topics)
        found = answer["topics"][0]["partitions"][0]
        return found["error_code"], found["offset"]

    def wait_for_leaders(self, topic: str) -> None:
        """Wait until the broker answers for each partition of a new topic."""
        deadline = time.monotonic() + TIMEOUT_S
        while not self._is_led(topic):
            assert time.monotonic() < deadline, f"{topic} has no leaders"
            time.sleep(0.02)

    def _is_led(self, topic: str) -> bool:
        (known,) = self.call("metadata", 12, topics=[{"name": topic, "topic_id": None}])["topics"]
        if known["error_code"] or not known["partitions"]:
            return False
        latest = {"current_leader_epoch": -1, "timestamp": -1}
        asked = [latest | {"partition_index": each["partition_index"]} for each in known["partitions"]]
        topics = [{"name": topic, "partitions": asked}]
        answer = self.call("list_offsets", 7, replica_id=-1, isolation_level=0, topics=topics)
        return not any(each["error_code"] for each in answer["topics"][0]["partitions"])

    def answer(self, api: str, version: int) -> dict[str, Any]:
        """The next answer. Raises Closed."""
        kind = messages(api_key(api), version)
        frame = self.read_frame()
        assert int.from_bytes(frame[:4]) == self.correlation_id, "answers come in order"
        begin = 4 + kind.header_is_flexible
        response, size = entity_reader(kind.response_type)(frame, begin)
        assert begin + size == len(frame), "the answer is as long as it says"
        value: dict[str, Any] = plain(response)
        return value

    def read_frame(self) -> bytes:
        """Return the bytes of the next response, behind their size. Raises Closed."""
        return self._read(int.from_bytes(self._read(4)))

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                part = self.socket.recv(min(size - len(data), 1 << 20))
            except ConnectionError as error:
                raise Closed from error
            if not part:
                raise Closed
            data += part
        return bytes(data)

    def is_closed(self) -> bool:
        """Wait for the broker to close the connection; return whether it did."""
        try:
            return not self.socket.recv(1)
        except ConnectionError:
            return True


class RunningNode:
    """A node on a thread of its own."""

    def __init__(self, data_dir: Path, options: Mapping[str, str], disk: Disk | None = None) -> None:
        self._data_dir, self._options, self._disk = data_dir, options, disk
        self._begin()
        self.wait_until_up()

    def _begin(self) -> None:
        self._up = threading.Event()
        self._error: BaseException | None = None
        self._clients: list[Client] = []
        self._thread = threading.Thread(target=lambda: uvloop.run(self._run()), daemon=True)
        self._thread.start()

    def wait_until_up(self) -> None:
        """Wait until the node runs. Raises the exception of its start."""
        assert self._up.wait(TIMEOUT_S), "the node does not come up"
        if self._error is not None:
            raise self._error

    def config(self) -> BrokerConfig:
        """What it runs with."""
        return single_node_config(self._data_dir, ("127.0.0.1", 0), None, None, self._options)

    async def _run(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        try:
            self.node = Node(self.config(), disk=self._disk)
            self._starting = asyncio.ensure_future(self.node.start())
            await self._starting
        except BaseException as error:  # noqa: BLE001  (raised by wait_until_up)
            self._error = error
            self._up.set()
            return
        self._up.set()
        await self._stop.wait()
        await self.node.stop()

    @property
    def address(self) -> Address:
        """Where it listens."""
        return self.node.addresses["PLAINTEXT"]

    @property
    def bootstrap(self) -> str:
        """The address as clients take it."""
        return "{}:{}".format(*self.address)

    def client(self, client_id: str | None = "test") -> Client:
        """A new connection."""
        client = Client(self.address, client_id)
        self._clients.append(client)
        return client

    def close_clients(self) -> None:
        """Close all connections that this node gave out, so that those of a failed test do not disturb the next one."""
        for each in self._clients:
            each.socket.close()

    def run(self, call: Callable[[], T]) -> T:
        """Call something on the node's thread."""

        async def inner() -> T:
            return call()

        return asyncio.run_coroutine_threadsafe(inner(), self.loop).result(TIMEOUT_S)

    def stop(self) -> None:
        """Stop it in order."""
        self.begin_stop()
        self.wait_until_down()

    def begin_stop(self) -> None:
        """Tell it to stop."""
        if self._thread.is_alive() and self._error is None:
            self.loop.call_soon_threadsafe(self._stop.set)

    def wait_until_down(self) -> None:
        """Until it has stopped."""
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive(), "the node does not stop"


@contextmanager
def running_node(data_dir: Path, disk: Disk | None = None, **options: str) -> Iterator[RunningNode]:
    """Yield a node on a thread. options: configurations, with _ for the dots."""
    node = RunningNode(data_dir, {name.replace("_", "."): value for name, value in options.items()}, disk)
    try:
        yield node
    except BaseException:
        node.close_clients()
        raise
    finally:
        node.stop()


class ServedNode:
    """`kcli serve` as a process, forked from one that has imported it. warm: False for tests of the process itself, as
    of its start: an interpreter of its own."""

    def __init__(self, data_dir: Path, *arguments: str, listen: str = "127.0.0.1:0", warm: bool = True) -> None:
        command = ["serve", "--data-dir", str(data_dir), "--listen", listen, *arguments]
        self.process: subprocess.Popen[str] | Forked
        if warm:
            self.process = warm_kcli().start(command)
        else:
            python = [sys.executable, "-m", "kcli"]
            self.process = subprocess.Popen(
                [*python, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
        assert self.process.stdout is not None, "piped"
        self.ready_line = self.process.stdout.readline()
        if not self.ready_line:
            _, errors = self.process.communicate()
            raise AssertionError(errors)
        self.bootstrap = self.ready_line.split()[2]

    @property
    def address(self) -> Address:
        """Where it listens."""
        host, _, port = self.bootstrap.rpartition(":")
        return host, int(port)

    def signal(self, number: int) -> tuple[int, str]:
        """Send a signal and wait for the end. Returns the exit status and the log."""
        os.kill(self.process.pid, number)
        _, errors = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.wait(), errors


@contextmanager
def served_node(data_dir: Path, *arguments: str, warm: bool = True) -> Iterator[ServedNode]:
    """`kcli serve` as a process (see ServedNode), killed at the end if it still runs."""
    node = ServedNode(data_dir, *arguments, warm=warm)
    try:
        yield node
    finally:
        if node.process.poll() is None:
            node.process.kill()
            node.process.communicate()
