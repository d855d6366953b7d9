"""`kcli serve` as a process: its output, its end, and the starts that it refuses."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from kcli.broker.metadata.format import format_directories
from tests.broker.cluster import free_ports
from tests.broker.running import Client, Closed, served_node

REFUSED = 1
ASKING = 8
SSL_LISTENER = (
    "-o",
    "listeners=SSL://127.0.0.1:0,CONTROLLER://localhost:9093",
    "-o",
    "listener.security.protocol.map=SSL:SSL,CONTROLLER:PLAINTEXT",
)


def refused(*arguments: str, status: int = REFUSED) -> str:
    """Return what `kcli serve` prints when it refuses to start."""
    done = subprocess.run(
        [sys.executable, "-m", "kcli", "serve", *arguments], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout) == (status, ""), done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1]


def test_ready_line_and_end(tmp_path: Path) -> None:
    with served_node(tmp_path / "data", warm=False) as node:
        words = node.ready_line.split()
        assert words[:2] == ["kcli", "ready"]
        assert words[3:5] == ["node", "1"]
        with socket.create_connection(node.address):
            status, errors = node.signal(signal.SIGTERM)
    assert status == 0
    assert "shutting down" in errors
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_no_metadata_without_a_broker_while_it_stops(tmp_path: Path) -> None:
    """A client that learns of no broker at all forgets the brokers that it knows (librdkafka from 2.10 on), and does
    not reconnect."""
    with served_node(tmp_path, warm=False) as node, ThreadPoolExecutor(ASKING) as pool:
        asking = threading.Semaphore(0)

        def ask() -> set[int]:
            """Return the number of brokers in the responses, until the connection ends."""
            found: set[int] = set()
            with Client(node.address) as client, suppress(Closed, OSError):
                found.add(len(client.call("metadata", 12, topics=())["brokers"]))
                asking.release()
                while True:
                    found.add(len(client.call("metadata", 12, topics=())["brokers"]))
            return found

        answers = [pool.submit(ask) for _ in range(ASKING)]
        for _ in answers:
            assert asking.acquire(timeout=30)
        assert node.signal(signal.SIGTERM)[0] == 0
        assert [each.result(30) for each in answers] == [{1}] * ASKING


def test_the_cluster_is_the_same_after_a_restart(tmp_path: Path) -> None:
    with served_node(tmp_path, warm=False) as node:
        first = node.ready_line.split()[6]
        node.signal(signal.SIGINT)
    with served_node(tmp_path, warm=False) as node:
        assert node.ready_line.split()[6] == first


def test_a_killed_node_need_not_wait_until_its_session_is_over(tmp_path: Path) -> None:
    with served_node(tmp_path, warm=False) as node:
        node.signal(signal.SIGKILL)
    with served_node(tmp_path, warm=False) as node:
        _, errors = node.signal(signal.SIGTERM)
    assert "not registered" not in errors


def test_temporary_directory_goes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kcli", "serve", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={"TMPDIR": str(tmp_path)}
    ) as process:
        assert process.stdout is not None
        ready = process.stdout.readline().split()
        directory = Path(ready[ready.index("data") + 1])
        assert directory.parent == tmp_path
        assert directory.exists()
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert not directory.exists()


def test_json_log(tmp_path: Path) -> None:
    with served_node(tmp_path, "--log-format", "json", "-o", "no.such.name=1", warm=False) as node:
        _, errors = node.signal(signal.SIGTERM)
    lines = [json.loads(line) for line in errors.splitlines()]
    assert all(set(line) >= {"time", "level", "logger", "message"} for line in lines)
    assert any(line["level"] == "warning" and "no.such.name" in line["message"] for line in lines)


def test_advertised_address(tmp_path: Path) -> None:
    with served_node(tmp_path, "--advertise", "kafka.test:9999", warm=False) as node:
        assert node.bootstrap == "kafka.test:9999"


def test_server_properties(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    file = tmp_path / "server.properties"
    file.write_text(
        f"process.roles=broker,controller\nnode.id=7\ncontroller.quorum.voters=7@localhost:{port}\n"
        f"listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://localhost:{port}\ncontroller.listener.names=CONTROLLER\n"
        f"log.dirs={tmp_path / 'one'},{tmp_path / 'two'}\n"
    )
    command = [sys.executable, "-m", "kcli", "serve", "--config", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        assert "  node 7  " in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert (tmp_path / "two" / "meta.properties").exists()


@contextmanager
def served_file(file: Path) -> Iterator[str]:
    """Start `kcli serve --config`, yield its ready line, and end it in order."""
    command = [sys.executable, "-m", "kcli", "serve", "--config", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ready = process.stdout.readline()
        try:
            assert ready, process.communicate()[1]
            yield ready
        finally:
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=20)
        assert process.returncode == 0
        assert "Traceback" not in errors


def test_a_controller_alone_and_a_broker_that_joins_it(tmp_path: Path) -> None:
    """The controller formats its own directory; the broker's is formatted with the id of that cluster."""
    client_port, port = free_ports(2)
    quorum = f"controller.quorum.voters=7@127.0.0.1:{port}\ncontroller.listener.names=CONTROLLER\n"
    controller = tmp_path / "controller.properties"
    controller.write_text(
        f"process.roles=controller\nnode.id=7\nlisteners=CONTROLLER://:{port}\n{quorum}log.dirs={tmp_path / 'c'}\n"
    )
    broker = tmp_path / "broker.properties"
    broker.write_text(
        f"process.roles=broker\nnode.id=8\nlisteners=PLAINTEXT://127.0.0.1:{client_port}\n{quorum}"
        f"log.dirs={tmp_path / 'b'}\n"
    )
    with served_file(controller) as ready:
        found = re.fullmatch(rf"kcli ready \S+:{port}  node 7  cluster (\S+)  data {tmp_path / 'c'}  .*\n", ready)
        assert found is not None, ready
        format_directories([tmp_path / "b"], now_ms=0, node_id=8, cluster_id=found[1])
        with served_file(broker), Client(("127.0.0.1", client_port)) as client:
            client.create_topic("made", 1)
            with Client(("127.0.0.1", port)) as other:
                asked = {"include_cluster_authorized_operations": False, "include_fenced_brokers": False}
                told = other.call("describe_cluster", 2, endpoint_type=2, **asked)
    assert [(each["broker_id"], each["port"]) for each in told["brokers"]] == [(7, port)]


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    with served_node(tmp_path, warm=False) as node:
        node.process.send_signal(signal.SIGINT)
        began = time.monotonic()
        status, _ = node.signal(signal.SIGINT)
    assert status in (0, 130), "the first one may have been enough"
    assert time.monotonic() - began < 10


def test_a_taken_port(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        reason = refused("--data-dir", str(tmp_path / "data"), "--listen", f"127.0.0.1:{port}")
    assert reason == f"kcli: cannot listen on 127.0.0.1:{port}: Address already in use"
    assert not (tmp_path / "data").exists(), "found out before anything is made"


def test_a_directory_in_use(tmp_path: Path) -> None:
    with served_node(tmp_path, warm=False):
        reason = refused("--data-dir", str(tmp_path), "--listen", "127.0.0.1:0")
    assert "in use by a running Kafka or kcli" in reason


def test_a_node_of_a_cluster_must_be_formatted(tmp_path: Path) -> None:
    voters = "controller.quorum.voters=1@127.0.0.1:1,2@127.0.0.1:2"
    reason = refused("--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0", "-o", voters)
    assert "is not formatted" in reason


@pytest.mark.parametrize(
    ("arguments", "status", "reason"),
    [
        (["-o", "num.partitions=many"], 2, "num.partitions"),
        (["-o", "nonsense"], 2, "NAME=VALUE"),
        (["--listen", "nowhere"], 2, "HOST:PORT"),
        (["--listen", "127.0.0.1:99999"], 2, "HOST:PORT"),
        (["-o", "process.roles=broker"], 2, "process.roles"),
        (
            [*SSL_LISTENER, "-o", "inter.broker.listener.name=SSL"],
            1,
            "listener SSL: ssl.keystore.location: a listener of SSL needs a key",
        ),
        (["-o", "node.id=9"], 1, "node"),
    ],
)
def test_refusals(tmp_path: Path, arguments: list[str], status: int, reason: str) -> None:
    data = tmp_path / "data"
    with served_node(data, warm=False) as node:
        node.signal(signal.SIGTERM)
    listen = [] if "--listen" in arguments else ["--listen", "127.0.0.1:0"]
    assert reason in refused("--data-dir", str(data), *listen, *arguments, status=status)
