"""A full disk at every moment of a broker's life: the broker logs one line with path and reason and ends with status 1,
and a start with free space recovers everything. Kafka also halts without a log directory."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from kcli.broker.config.single_node import single_node_config
from kcli.broker.node import Node, NotInOrder
from kcli.broker.startup.serve import stop
from kcli.errors import KcliError, error_text
from kcli.log.disk import Disk
from kcli.log.log_directory import DirectoryLock
from tests.broker.cluster import wait_for
from tests.broker.full_disk import FullDisk
from tests.broker.running import Address, Client, Closed, RunningNode
from tests.conftest import TESTS
from tests.log.batches import batch

FULL = "No space left on device"
TIMEOUT_S = 20.0


def produce_to(client: Client, topic: str, value: bytes) -> int:
    """Produce to partition 0. Returns the error's code."""
    data = [{"name": topic, "partition_data": [{"index": 0, "records": bytes(batch(value))}]}]
    answer = client.call("produce", 9, transactional_id=None, acks=-1, timeout=1000, topic_data=data)
    code: int = answer["responses"][0]["partition_responses"][0]["error_code"]
    return code


class Broker:
    """`kcli serve` on a disk that `fill` makes full."""

    def __init__(self, data_dir: Path, *options: str) -> None:
        self._sign = data_dir.with_name("full")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.broker.full_disk", str(self._sign), str(data_dir), *options],
            cwd=TESTS.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None, "piped"
        host, _, port = self.process.stdout.readline().split()[2].rpartition(":")
        self.client = Client((host, int(port)))

    def fill(self, pattern: str = "*") -> None:
        """From now on, for such paths."""
        self._sign.with_suffix(".new").write_text(pattern)
        self._sign.with_suffix(".new").rename(self._sign)

    def empty(self) -> None:
        """There is room again."""
        self._sign.unlink()

    def produce(self, topic: str, value: bytes = b"x" * 2000) -> int:
        """Returns the error's code."""
        return produce_to(self.client, topic, value)

    def ended(self) -> list[str]:
        """Wait for the broker's end. Returns its output."""
        _, said = self.process.communicate(timeout=TIMEOUT_S)
        assert self.process.returncode == 1, said
        assert "Traceback" not in said
        lines: list[str] = said.splitlines()
        assert [line for line in lines if line.startswith("kcli: ")] == lines[-1:], said
        return lines


@contextmanager
def serving(data_dir: Path, *options: str) -> Iterator[Broker]:
    """A broker, gone at the end."""
    broker = Broker(data_dir, *options)
    try:
        yield broker
    finally:
        broker.client.socket.close()
        broker.process.kill()
        broker.process.communicate()


def produce(broker: Broker) -> None:
    for _ in range(100):
        broker.produce("there")


def create_topic(broker: Broker) -> None:
    broker.client.create_topic("more", 3)


def wait(broker: Broker) -> None:
    broker.process.wait(TIMEOUT_S)


def request(broker: Broker) -> None:
    """One that writes to the metadata log."""
    values = [{"name": "retention.ms", "config_operation": 0, "value": "1000"}]
    resources = [{"resource_type": 2, "resource_name": "there", "configs": values}]
    broker.client.call("incremental_alter_configs", 1, resources=resources, validate_only=False)


@pytest.mark.parametrize(
    ("work", "option"),
    [
        (produce, "log.segment.bytes=1048576"),
        (create_topic, "num.partitions=1"),
        (request, "num.partitions=1"),
        (wait, "replica.high.watermark.checkpoint.interval.ms=100"),
        (wait, "metadata.max.idle.interval.ms=100"),
    ],
    ids=["produce", "create-topic", "configure", "checkpoint", "metadata"],
)
def test_while_it_runs(tmp_path: Path, work: Callable[[Broker], None], option: str) -> None:
    data_dir = tmp_path / "data"
    with serving(data_dir, option) as broker:
        broker.client.create_topic("there", 1)
        assert broker.produce("there", b"kept") == 0
        broker.fill()
        with suppress(Closed, ConnectionError):  # the broker's end
            work(broker)
        last = broker.ended()[-1]
        assert str(data_dir) in last
        assert last.endswith(FULL)
        broker.empty()
    with serving(data_dir) as broker:
        assert broker.produce("there", b"more") == 0


def test_a_metadata_snapshot_that_has_no_room(tmp_path: Path) -> None:
    """No snapshot is written, one line says so, and the log goes on."""
    with serving(tmp_path / "data", "metadata.log.max.record.bytes.between.snapshots=1") as broker:
        broker.fill("*.checkpoint.part")
        broker.client.create_topic("there", 1)
        assert broker.produce("there") == 0
        broker.process.send_signal(signal.SIGTERM)
        _, said = broker.process.communicate(timeout=TIMEOUT_S)
        assert broker.process.returncode == 0, said
        failures = [line for line in said.splitlines() if " ERROR " in line]
        assert failures
        assert all("is not written: " in line and line.endswith(f".checkpoint.part: {FULL}") for line in failures), said
        assert "Traceback" not in said


def test_in_order(tmp_path: Path) -> None:
    """The shutdown does each step that it can, and logs each step that failed."""
    data_dir = tmp_path / "data"
    with serving(data_dir, "controlled.shutdown.enable=false") as broker:
        broker.client.create_topic("there", 3)
        assert broker.produce("there") == 0
        epochs = data_dir / "there-0/leader-epoch-checkpoint"  # a thread writes it, behind the first batch of an epoch
        wait_for(lambda: epochs.exists() and len(epochs.read_text().splitlines()) == 3, "the leader epoch is written")
        broker.fill()
        broker.process.send_signal(signal.SIGTERM)
        lines = broker.ended()
        failures = [line.split(" ERROR ")[1] for line in lines if " ERROR " in line]
        assert [each.split(":")[0] for each in failures] == [
            "the metadata log is not closed",
            f"no checkpoints in {data_dir}",
            f"{data_dir} is not marked as closed cleanly",
            "logs are not closed",
        ]
        assert all(str(data_dir) in each and each.endswith(FULL) for each in failures[:3])
        assert lines[-1] == "kcli: not stopped in order: the next start recovers what is on the disk"
        broker.empty()
    with serving(data_dir) as broker:
        assert broker.produce("there") == 0


@pytest.mark.parametrize("is_controlled", ["true", "false"])
def test_nothing_is_held_after_a_stop(tmp_path: Path, is_controlled: str) -> None:
    """In a controlled shutdown the metadata log fails first, and the broker with it."""
    sign, data_dir = tmp_path / "full", tmp_path / "data"
    options = {"controlled.shutdown.enable": is_controlled}
    config = single_node_config(data_dir, ("127.0.0.1", 0), None, None, options)

    def use(address: Address) -> None:
        with Client(address) as client:
            client.create_topic("there", 1)
            assert produce_to(client, "there", b"value") == 0

    async def run() -> None:
        node = Node(config, disk=FullDisk(sign))
        await node.start()
        await asyncio.to_thread(use, node.addresses["PLAINTEXT"])
        sign.write_text("*")
        with suppress(NotInOrder):
            await node.stop()

    asyncio.run(run())
    held = [str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.exists()]
    assert not [each for each in held if each.startswith(str(data_dir))]
    DirectoryLock(Disk(), data_dir).release()


def test_at_every_operation_of_a_start(tmp_path: Path) -> None:
    """The disk is full from each operation of a start or stop on, each time with the directory that the last attempt
    left."""

    def start(full_at: int) -> KcliError | OSError | None:
        """Start and stop. Returns why that failed."""
        disk = FullDisk(tmp_path / "full", full_at)
        config = single_node_config(tmp_path / "cut", ("127.0.0.1", 0), None, None, {})

        async def run() -> None:
            node = Node(config, disk=disk)
            await node.start()
            await stop(node)

        try:
            asyncio.run(run())
        except (KcliError, OSError) as error:
            return error
        return None

    number = 1
    while (error := start(number)) is not None:
        if not isinstance(error, NotInOrder):
            assert str(tmp_path / "cut") in error_text(error)
            assert error_text(error).endswith(FULL), number
        number += 1
    assert number > 15
    node = RunningNode(tmp_path / "cut", {})
    with node.client() as client:
        client.create_topic("there", 1)
    node.stop()
