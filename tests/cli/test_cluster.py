"""kcli cluster; what all client commands say where nobody answers; their pages."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kcli.cli.app import COMMANDS
from kcli.cli.cluster_status import _found, _text
from kcli.client import wire
from kcli.client.admin import Admin
from kcli.client.cluster_status import BrokerState, ClusterState, QuorumState
from kcli.client.connection import Connection
from tests.cli.run import kcli
from tests.client.clusters import Cluster

ROOT = Path(__file__).parents[2]
CLIENT_COMMANDS = ["topics", "produce", "consume", "cluster"]
ASKING = [["topics", "list"], ["produce", "t"], ["consume", "t"], ["cluster"], ["cluster", "status"]]


def test_cluster(cluster: Cluster) -> None:
    host, port = cluster.address.split(":")
    ended = cluster.run("cluster")
    assert (ended.stderr, ended.status) == ("", 0)
    row = json.loads(cluster.run("cluster", "--format", "jsonl").stdout)
    assert re.fullmatch(r"[A-Za-z0-9_-]{22}", row["id"])
    assert row["controller"] == 1
    assert row["brokers"] == [{"id": 1, "host": host, "port": int(port), "rack": None}]
    lines = ended.stdout.splitlines()
    assert lines[:2] == [f"cluster {row['id']}  controller 1  1 broker", f"  1  {cluster.address}"]
    quorum, features = row["quorum"], {each["name"]: each for each in row["features"]}
    assert (quorum["leader"], [each["node"] for each in quorum["voters"]], quorum["observers"]) == (1, [1], [])
    assert 0 < quorum["high_watermark"] <= quorum["voters"][0]["log_end_offset"]
    assert lines[2].startswith(f"quorum  leader 1  epoch {quorum['leader_epoch']}  high watermark ")
    assert lines[3].startswith("  voter 1  log end ")
    assert features["metadata.version"] == {
        "name": "metadata.version",
        "level": 30,
        "supported_min": 7,
        "supported_max": 30,
    }
    assert features["transaction.version"]["supported_max"] == 2
    assert "  metadata.version                  4.3-IV0  of 3.3-IV3..4.3-IV0" in lines


def test_status(cluster: Cluster) -> None:
    cluster.run("topics", "create", "enough", "--partitions", "2")
    ended = cluster.run("cluster", "status")
    assert (ended.stderr, ended.status) == ("", 0)
    head, row = ended.stdout.splitlines()[1:3]
    assert head.split() == ["NODE", "ROLES", "ADDRESS", "STATE", "QUORUM", "LAG"]
    assert row.split()[:5] == ["1", "broker,controller", cluster.address, "answers", "leader"]
    cluster.run("topics", "create", "lacking", "--config", "min.insync.replicas=2")
    ended = cluster.run("cluster", "status")
    assert ended.status == 1
    assert ended.stdout.splitlines()[-1] == ("  under-min-isr  lacking-0  leader 1  replicas 1  isr 1  min isr 2")
    found = json.loads(cluster.run("cluster", "status", "--format", "jsonl").stdout)
    assert not found["healthy"]
    assert found["quorum"]["leader"] == 1
    assert found["nodes"][0] == found["nodes"][0] | {"id": 1, "fenced": False, "quorum": "leader", "lag": 0}
    lacking = {"topic": "lacking", "partition": 0, "leader": 1, "replicas": [1], "isr": [1], "min_isr": 2}
    assert found["partitions"]["under_min_isr"] == [lacking]
    assert not found["partitions"]["under_replicated"]
    cluster.run("topics", "delete", "lacking", "enough")


def test_status_of_a_broker_that_was_unregistered() -> None:
    """Its process runs, and DescribeCluster does not know it."""
    nodes = [{"id": number, "roles": ["broker"], "state": "running"} for number in (1, 2)]
    launcher = {"nodes": nodes, "cluster": "c", "data": "d", "bootstrap": "b:1", "launcher": 7}
    quorum = QuorumState(1, 1, 1, ())
    state = ClusterState("c", (BrokerState(1, "b", 1, None, is_fenced=False),), quorum, None, 0, 0, (), (), ())
    found = _found(launcher, state)
    assert not found["healthy"]
    assert [each.get("registered", True) for each in found["nodes"]] == [True, False]
    assert [row.split()[-1] for row in _text(found).splitlines()[2:4]] == ["running", "unregistered"]
    assert _found(launcher | {"nodes": nodes[:1]}, state)["healthy"]


def test_status_over_and_over(cluster: Cluster) -> None:
    command = [sys.executable, "-m", "kcli", "cluster", "status", "-b", cluster.address]
    with subprocess.Popen(
        [*command, "--watch", "--interval", "0.1", "--format", "jsonl"], stdout=subprocess.PIPE, text=True
    ) as watching:
        assert watching.stdout is not None
        first, second = (json.loads(watching.stdout.readline()) for _ in range(2))
        assert first["id"] == second["id"]
        watching.send_signal(signal.SIGINT)
        watching.communicate(timeout=20)
        assert watching.returncode == 130


def test_options_in_front_of_a_command_are_no_options_of_it() -> None:
    ended = kcli("cluster", "-b", "127.0.0.1:1", "status")
    assert (ended.complaint, ended.status) == ("kcli: options go behind status", 2)


def test_a_directory_without_a_cluster(tmp_path: Path) -> None:
    for command in (["status"], ["stop"], ["kill", "1"], ["restart"]):
        ended = kcli("cluster", *command, "--data-dir", tmp_path)
        assert (ended.complaint, ended.status) == (f"kcli: {tmp_path}: no cluster of `kcli serve --nodes`", 1)


def test_details_that_are_not_known(cluster: Cluster) -> None:
    """The broker that answers does not know the requests for these details."""
    connection = Connection(cluster.address, {"security.protocol": "PLAINTEXT"})
    assert Admin(connection).cluster().details.features
    for answer in (b"", b"\0\0\0\5\0\0\0\0\0", b"\x7f\0\0\0", b"\0\0\0\x06\0\0\0\0\0\x23", b"HTTP/1.1 400"):
        with server(answer) as address:
            host, port = address.split(":")
            assert wire.details(wire.Server(host, int(port), 0.3)) == wire.Details(None, None)
    assert wire.details(wire.Server("127.0.0.1", free_port(), 0.3)) == wire.Details(None, None)


def free_port() -> int:
    """A port where nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@pytest.mark.parametrize("arguments", ASKING, ids=" ".join)
def test_nobody_there(arguments: list[str]) -> None:
    address = f"127.0.0.1:{free_port()}"
    began = time.monotonic()
    ended = kcli(*arguments, "-b", address, input=b"x\n")
    assert time.monotonic() - began < 8
    assert (ended.stdout, ended.status) == ("", 1)
    assert ended.complaint.startswith(f"kcli: {address}: no broker answers (")
    assert "Connection refused" in ended.complaint


@contextmanager
def server(answer: bytes) -> Iterator[str]:
    """Run a server that is no broker: it accepts connections, answers anything with the same bytes, and keeps the
    connections open."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        kept = []

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                kept.append(connection)
                if answer and connection.recv(1000):
                    connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
        for connection in kept:
            connection.close()


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"], ids=["silence", "http"])
@pytest.mark.parametrize("arguments", [["produce", "t"], ["cluster"]], ids=" ".join)
def test_somebody_else_there(arguments: list[str], answer: bytes) -> None:
    with server(answer) as address:
        began = time.monotonic()
        ended = kcli(*arguments, "-b", address, "--timeout", "1", input=b"x\n")
        assert time.monotonic() - began < 8
    assert (ended.stdout, ended.status) == ("", 1)
    assert ended.complaint.startswith(f"kcli: {address}: no broker answers (")


def test_users_of_a_silent_broker() -> None:
    """Kafka's broker fails at the refusal of a request for all users, and says nothing."""
    with server(b"") as address:
        for names, is_told in (([], True), (["alice"], False)):
            ended = kcli("users", "list", *names, "-b", address, "--timeout", "0.5")
            assert ended.complaint.startswith(f"kcli: {address}: no broker answers (timed out)")
            assert ("asks for all users and may not DESCRIBE the cluster" in ended.complaint) is is_told


def test_verbose_shows_what_the_library_says() -> None:
    ended = kcli("cluster", "-v", "-b", f"127.0.0.1:{free_port()}")
    assert "|FAIL|" in ended.stderr
    assert [line for line in ended.stderr.splitlines() if line.startswith("kcli: ")]


def test_help_loads_no_client() -> None:
    program = (
        "import sys\n"
        "sys.argv[1:] = ['--help']\n"
        "from kcli.cli import app\n"
        "try:\n    app.app()\nexcept SystemExit:\n    pass\n"
        "print([name for name in sys.modules if name.startswith(('confluent_kafka', 'kcli.client', 'kcli.cli.p'))])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] in ("[]", "['kcli.cli.progress']")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_commands_say_of_themselves(name: str) -> None:
    shown = " ".join(kcli(name, "--help").stdout.split())
    assert COMMANDS[name].help
    assert f"{COMMANDS[name].help.strip()} " in shown


def test_examples_of_the_pages(cluster: Cluster, tmp_path: Path) -> None:
    """Lines `.Dl kcli ...`: they need a cluster, and run one after the other."""
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "KCLI_BOOTSTRAP_SERVER": cluster.address,
    }
    (tmp_path / "samples").symlink_to(ROOT / "samples")
    for name in CLIENT_COMMANDS:
        page = (ROOT / f"man/kcli-{name}.1").read_text()
        examples = re.findall(r"^\.Dl ((?:echo .*|seq .*|printf .*)?kcli .*)$", page, re.MULTILINE)
        assert len(examples) >= 2
        for example in examples:
            command = example.replace("\\&", "").replace("\\e", "\\").replace("\\(dq", '"').replace("\\(aq", "'")
            done = subprocess.run(
                ["bash", "-o", "pipefail", "-c", command],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert done.returncode == 0, f"{name}: {command}: {done.stderr}"
