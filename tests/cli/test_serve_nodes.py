"""`kcli serve --nodes`: three real nodes; topics made, one killed and restarted, all stopped, started again."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kcli.client.cluster_status import StatusClient
from kcli.client.security import PLAIN_TEXT
from kcli.client.wire import NobodyAnswers
from kcli.launcher.control_client import ask
from kcli.tls.certificates import make_authority
from tests.broker.security.secured import NOW
from tests.broker.security.secured_cluster import librdkafka, secured_properties, write_certificates
from tests.cli.run import KCLI, Ended, kcli
from tests.launcher.test_launch import eventually, is_gone

ROOT = Path(__file__).parents[2]
READY_S = 30.0


class Nodes:
    """A running `kcli serve --nodes`."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self.directory = directory
        self.log = directory.parent / f"{directory.name}.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*KCLI, "serve", "--data-dir", str(directory), *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self.process.stdout is not None, "piped"
        self.ready_line = self.process.stdout.readline()
        assert self.ready_line, self.log.read_text()
        self.bootstrap = self.ready_line.split()[2]

    def run(self, *arguments: str, **options: Any) -> Ended:
        """Run a command on the cluster, by its brokers."""
        ended = kcli(*arguments, "-b", self.bootstrap, **options)
        assert ended.status == 0, ended.stderr
        return ended

    def cluster(self, *arguments: str) -> Ended:
        """`kcli cluster` on its directory."""
        return kcli("cluster", *arguments, "--data-dir", self.directory)

    def status(self) -> dict[str, Any]:
        """How it is."""
        found: dict[str, Any] = json.loads(self.cluster("status", "--format", "jsonl").stdout)
        return found

    def node(self, number: int) -> dict[str, Any]:
        """What the launcher knows of a node."""
        found: dict[str, Any] = next(each for each in ask(self.directory, "status")["nodes"] if each["id"] == number)
        return found

    def is_healthy(self) -> bool:
        """Return whether all nodes run, and all replicas of every partition are in the ISR."""
        told = ask(self.directory, "status")
        try:
            state = StatusClient(told["bootstrap"], 5.0, PLAIN_TEXT).state()
        except NobodyAnswers:
            return False
        return state.is_healthy and all(each["state"] == "running" for each in told["nodes"])

    def produce(self, topic: str, numbers: range) -> None:
        """A record a number."""
        self.run("produce", topic, input="".join(f"{each}\n" for each in numbers).encode())

    def consumed(self, topic: str) -> list[int]:
        """All there is, in order of value."""
        return sorted(map(int, self.run("consume", topic, "--exit", "--template", "%s\\n").stdout.split()))

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Signal the launcher. Returns its exit status."""
        self.process.send_signal(number)
        return self.process.wait(READY_S)


@contextmanager
def serving(directory: Path, *arguments: str) -> Iterator[Nodes]:
    """A cluster, stopped at the end."""
    nodes = Nodes(directory, *arguments)
    try:
        yield nodes
    finally:
        if nodes.process.poll() is None:
            nodes.process.terminate()
        try:
            nodes.process.communicate(timeout=READY_S)
        except subprocess.TimeoutExpired:
            nodes.process.kill()
            nodes.process.communicate()


def test_three_nodes(tmp_path: Path) -> None:
    directory = tmp_path / "cluster"
    with serving(directory, "--nodes", "3", "--listen", "127.0.0.1:0") as nodes:
        words = nodes.ready_line.split()
        assert words[:2] == ["kcli", "ready"]
        assert words[3:5] == ["nodes", "1,2,3"]
        assert len(nodes.bootstrap.split(",")) == 3
        found = nodes.status()
        assert found["healthy"], found
        assert found["id"] == words[6]
        assert sorted(each["quorum"] for each in found["nodes"]) == ["follower", "follower", "leader"]
        shape = ("--partitions", "6", "--replication-factor", "3", "--config", "min.insync.replicas=2")
        nodes.run("topics", "create", "orders", *shape)
        nodes.produce("orders", range(100))

        victim = found["quorum"]["leader"]
        pid = nodes.node(victim)["pid"]
        began = time.monotonic()
        assert nodes.cluster("kill", str(victim), "--stay-down").stdout == f"node {victim} killed\n"
        nodes.produce("orders", range(100, 200))
        assert time.monotonic() - began < 10
        assert is_gone(pid)
        ended = nodes.cluster("status")
        assert ended.status == 1
        assert "under-replicated  orders-0" in ended.stdout
        row = next(line for line in ended.stdout.splitlines() if line.startswith(f"{victim} "))
        assert "dead" in row

        assert nodes.cluster("start", str(victim)).status == 0
        eventually(nodes.is_healthy)
        os.kill(nodes.node(victim)["pid"], signal.SIGKILL)
        eventually(lambda: nodes.node(victim)["restarts"] == 1)
        eventually(nodes.is_healthy)
        assert nodes.consumed("orders") == list(range(200))
        assert nodes.cluster("stop").stdout == "cluster stopped\n"
        assert nodes.process.wait(READY_S) == 0

    with serving(directory) as again:
        assert again.bootstrap == nodes.bootstrap
        eventually(again.is_healthy)
        assert again.consumed("orders") == list(range(200))
        ended = again.cluster("restart")
        assert ended.status == 0, ended.stderr
        assert re.findall(r"node (\d) restarted", ended.stdout) == ["1", "2", "3"]
        eventually(again.is_healthy)
        assert again.consumed("orders") == list(range(200))
        assert again.end() == 0
    for node in (1, 2, 3):
        assert (directory / f"node-{node}" / "data" / ".kafka_cleanshutdown").exists()
    log = nodes.log.read_text()
    assert "Traceback" not in log
    assert {line[:3] for line in log.splitlines() if line.startswith("[")} >= {"[1]", "[2]", "[3]"}


def test_separate_controllers(tmp_path: Path) -> None:
    with serving(tmp_path / "c", "--nodes", "2", "--controllers", "1", "--listen", "127.0.0.1:0") as nodes:
        found = nodes.status()
        assert [(each["id"], each["roles"], each["state"]) for each in found["nodes"]] == [
            (1, ["broker"], "running"),
            (2, ["broker"], "running"),
            (3001, ["controller"], "running"),
        ]
        assert found["quorum"]["leader"] == 3001
        nodes.run("topics", "create", "t", "--replication-factor", "2")
        nodes.produce("t", range(10))
        assert nodes.consumed("t") == list(range(10))
        assert nodes.end() == 0


def test_the_security_of_a_file(tmp_path: Path) -> None:
    """Every listener is SASL_SSL: no command line has a password, and a client without one is refused everywhere."""
    write_certificates(tmp_path, make_authority("kcli test", NOW))
    config = tmp_path / "server.properties"
    own = {"listeners": "SECURE://:9092,CONTROLLER://:9093", "controller.listener.names": "CONTROLLER"}
    lines = {**secured_properties(tmp_path), **own}
    config.write_text("".join(f"{name}={text}\n" for name, text in lines.items()))
    with serving(tmp_path / "c", "--nodes", "2", "--listen", "127.0.0.1:0", "--config", str(config)) as nodes:
        settings = librdkafka(nodes.bootstrap, tmp_path, "admin")
        del settings["bootstrap.servers"]
        options = [word for name, text in settings.items() for word in ("-X", f"{name}={text}")]
        nodes.run("topics", "create", "orders", "--replication-factor", "2", *options)
        nodes.run("produce", "orders", *options, input=b"1\n2\n")
        found = nodes.run("consume", "orders", "--exit", "--template", "%s\n", *options).stdout.split()
        assert sorted(found) == ["1", "2"]
        eventually(lambda: json.loads(nodes.cluster("status", "--format", "jsonl", *options).stdout)["healthy"])
        ended = nodes.cluster("restart", *options)
        assert (ended.status, ended.stdout) == (0, "node 1 restarted\nnode 2 restarted\n")
        wrong = [each.replace("sasl.password=admins", "sasl.password=wrong") for each in options]
        assert kcli("topics", "list", "-b", nodes.bootstrap, "--timeout", "3", *wrong).status != 0
        assert kcli("topics", "list", "-b", nodes.bootstrap, "--timeout", "3").status != 0


def test_temporary_directory_goes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kcli", "serve", "--nodes", "2", "--listen", "127.0.0.1:0"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        ready = process.stdout.readline().split()
        directory = Path(ready[ready.index("data") + 1])
        assert directory.parent == tmp_path
        process.send_signal(signal.SIGTERM)
        assert process.wait(READY_S) == 0
    assert not directory.exists()


def test_the_example_of_the_page(tmp_path: Path) -> None:
    """The block of commands in kcli-cluster(1); between the first two, the cluster comes up."""
    page = (ROOT / "man/kcli-cluster.1").read_text()
    block = re.search(r"^\.Bd.*?\n(.*?)^\.Ed", page, re.MULTILINE | re.DOTALL)
    assert block is not None
    start, *others = block[1].splitlines()
    start = start.replace("kcli serve", "kcli serve --listen 127.0.0.1:0")
    script = "\n".join(
        ["set -e", f"coproc {start.removesuffix(' &')}", "read -r ready <&${COPROC[0]}", *others, "wait"]
    )
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    script = script.replace("kcli cluster status", "! kcli cluster status")
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("cluster stopped\n")
    assert "node 2 killed" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--nodes", "3", "--read-only"], "of one node"),
        (["--nodes", "3", "--advertise", "a:1"], "of one node"),
        (["--controllers", "3"], "only with --nodes"),
        (["--no-restart"], "only with --nodes"),
        (["--nodes", "3", "-o", "node.id=4"], "each node has its own"),
    ],
)
def test_refused(tmp_path: Path, arguments: list[str], complaint: str) -> None:
    ended = kcli("serve", "--data-dir", tmp_path / "c", *arguments)
    assert (ended.stdout, ended.status) == ("", 2)
    assert complaint in ended.complaint
    assert not (tmp_path / "c").exists()
