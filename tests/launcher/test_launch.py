"""The launcher: it starts, watches, informs and stops processes. The nodes are stubs, see stub.py."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kcli.launcher import supervisor
from kcli.launcher.control_client import LauncherRefused, NoLauncher, ask
from kcli.launcher.paths import CONTROL_SOCKET
from tests.launcher.stub import FAILED

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 20.0


class Launcher:
    """`stub.py` as a process."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self.directory = directory
        self.log = directory.parent / f"{directory.name}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.launcher.stub", str(directory), *arguments],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        assert self.process.stdout is not None, "piped"
        self.ready_line = self.process.stdout.readline()

    @property
    def logged(self) -> list[str]:
        """Lines on stderr until now."""
        return self.log.read_text().splitlines()

    def nodes(self) -> dict[int, dict[str, Any]]:
        """Each node's status."""
        return {each["id"]: each for each in ask(self.directory, "status")["nodes"]}

    def end(self, number: signal.Signals) -> int:
        """Signal the launcher. Returns its exit status."""
        self.process.send_signal(number)
        return self.process.wait(TIMEOUT_S)


@contextmanager
def launched(directory: Path, *arguments: str) -> Iterator[Launcher]:
    """Yield a launcher; kill it at the end if it still runs."""
    launcher = Launcher(directory, *arguments)
    try:
        yield launcher
    finally:
        if launcher.process.poll() is None:
            launcher.process.kill()
        launcher.process.communicate()


def eventually(is_so: Callable[[], object]) -> None:
    """Wait until it is."""
    deadline = time.monotonic() + TIMEOUT_S
    while not is_so():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.02)


def is_gone(pid: int) -> bool:
    """Has the process ended?"""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_start_status_and_stop(tmp_path: Path) -> None:
    with launched(tmp_path / "c") as launcher:
        bootstrap = launcher.ready_line.split()[1]
        told = ask(launcher.directory, "status")
        assert (told["bootstrap"], told["cluster"]) == (bootstrap, launcher.ready_line.split()[2])
        assert [each["state"] for each in told["nodes"]] == ["running"] * 3
        assert len({each["pid"] for each in told["nodes"]}) == 3
        assert all(each["memory"] > 0 for each in told["nodes"] if Path("/proc/self/smaps_rollup").exists())
        mode = (launcher.directory / CONTROL_SOCKET).stat().st_mode
        assert stat.S_IMODE(mode) == 0o600
        assert launcher.end(signal.SIGTERM) == 0
    assert all(is_gone(each["pid"]) for each in told["nodes"])
    assert not (launcher.directory / CONTROL_SOCKET).exists()
    assert sum("told" in line and '"stop": "broker"' in line for line in launcher.logged) == 3
    assert {f'[2] told {{"died": {other}}}' for other in (1, 3)} <= set(launcher.logged), "who leads goes last"


def test_the_same_again(tmp_path: Path) -> None:
    with launched(tmp_path / "c") as launcher:
        first = launcher.ready_line
        launcher.end(signal.SIGINT)
    with launched(tmp_path / "c") as launcher:
        assert launcher.ready_line == first


def test_a_dead_node_is_told_of_and_started_again(tmp_path: Path) -> None:
    with launched(tmp_path / "c") as launcher:
        pid = launcher.nodes()[2]["pid"]
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: launcher.nodes()[2]["restarts"] == 1)
        eventually(lambda: launcher.nodes()[2]["state"] == "running")
        found = launcher.nodes()[2]
        assert found["pid"] != pid
        assert found["last_exit"] == -9
        for other in (1, 3):
            assert f'[{other}] told {{"died": 2}}' in launcher.logged
        eventually(lambda: [f'[{other}] told {{"started": 2}}' in launcher.logged for other in (1, 3)] == [True, True])
        assert any(
            "node 2" in line and "killed by SIGKILL; it is started again in 0.5 s" in line for line in launcher.logged
        )


def test_no_restart(tmp_path: Path) -> None:
    with launched(tmp_path / "c", "--no-restart") as launcher:
        ask(launcher.directory, "kill", node=3)
        assert launcher.nodes()[3]["state"] == "dead"
        ask(launcher.directory, "start", node=3)
        eventually(lambda: launcher.nodes()[3]["state"] == "running")
        for node in (1, 2):
            ask(launcher.directory, "kill", node=node)
        os.kill(launcher.nodes()[3]["pid"], signal.SIGKILL)
        assert launcher.process.wait(TIMEOUT_S) == 1
    assert "all nodes have ended" in launcher.log.read_text()


def test_what_is_asked_of_nodes(tmp_path: Path) -> None:
    with launched(tmp_path / "c") as launcher:
        directory = launcher.directory
        pids = {number: each["pid"] for number, each in launcher.nodes().items()}
        ask(directory, "pause", node=1)
        assert launcher.nodes()[1]["state"] == "paused"
        ask(directory, "resume", node=1)
        shown = launcher.nodes()[1]
        assert (shown["state"], shown["pid"]) == ("running", pids[1])
        ask(directory, "stop", node=2)
        shown = launcher.nodes()[2]
        assert (shown["state"], shown["pid"], shown["last_exit"]) == ("stopped", None, 0)
        with pytest.raises(LauncherRefused, match="node 2 is stopped: it has no process"):
            ask(directory, "pause", node=2)
        ask(directory, "start", node=2)
        with pytest.raises(LauncherRefused, match="node 2 is running"):
            ask(directory, "start", node=2)
        ask(directory, "restart", node=3)
        eventually(lambda: launcher.nodes()[3]["state"] == "running")
        assert launcher.nodes()[3]["pid"] != pids[3]
        ask(directory, "kill", node=3, stays_down=True)
        time.sleep(2 * supervisor.FIRST_BACKOFF_S)
        assert launcher.nodes()[3]["state"] == "dead"
        with pytest.raises(LauncherRefused, match="no node 9: there are 1, 2, 3"):
            ask(directory, "kill", node=9)
        with pytest.raises(LauncherRefused, match="which node"):
            ask(directory, "kill")
        with pytest.raises(LauncherRefused, match="no such command"):
            ask(directory, "explode", node=1)
        ask(directory, "pause", node=1)
        ask(directory, "stop")
        assert launcher.process.wait(TIMEOUT_S) == 0


def test_bad_requests(tmp_path: Path) -> None:
    with launched(tmp_path / "c") as launcher, socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(launcher.directory / CONTROL_SOCKET))
        answers = connection.makefile("r")
        deep = b"[" * 30_000 + b"]" * 30_000
        for line in (
            b"nonsense",
            b"[]",
            b"{}",
            b"\xff",
            deep,
            b'{"command": %s}' % deep,
            b'{"command": "kill", "node": 1e999}',
        ):
            connection.sendall(line + b"\n")
            assert "error" in json.loads(answers.readline())
        nested = b'{"command": %s, "node": 1}\n' % (b"[" * 900 + b"]" * 900)
        connection.sendall(nested)
        assert json.loads(answers.readline()) == {"error": "a request has a command"}
        connection.sendall(b"x" * 100_000 + b"\n")
        assert answers.readline() == "", "too long to be a request"
        assert launcher.nodes()
        assert "Traceback" not in launcher.log.read_text()


@pytest.mark.parametrize("answer", [b"hello\n", b"[]\n", b"[" * 100_000 + b"\n"])
def test_another_program_listens_there(tmp_path: Path, answer: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / CONTROL_SOCKET))
        listening.listen()

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(answer)

        server = threading.Thread(target=serve)
        server.start()
        with pytest.raises(NoLauncher, match="no launcher answers there"):
            ask(tmp_path, "status")
        server.join()


def test_a_node_that_cannot_be_started_is_tried_again(tmp_path: Path) -> None:
    async def run() -> None:
        class Forks:
            """Refuses the second start."""

            starts = 0

            async def start(self, *_: object) -> int:
                self.starts += 1
                if self.starts == 2:
                    raise OSError(24, "Too many open files")
                return 1 << 30

        class Output:
            writing_end = -1

            def close(self) -> None:
                """There is nothing to close."""

        forks: Any = Forks()
        plan: Any = SimpleNamespace(id=1, is_controller=True)
        output: Any = Output()
        watched = supervisor.Supervisor([plan], lambda _: tmp_path, forks, lambda _: output, restart=True)
        await watched.start_all()
        child = watched.children[1]
        watched._start_again(child)
        await asyncio.sleep(0.05)
        assert child.state == supervisor.State.DEAD
        assert child.timer is not None, "it is tried again later"
        child.timer.cancel()
        assert forks.starts == 2

    asyncio.run(run())


def test_nobody_is_there(tmp_path: Path) -> None:
    with pytest.raises(NoLauncher, match="no cluster of"):
        ask(tmp_path, "status")
    with launched(tmp_path / "c") as launcher:
        launcher.end(signal.SIGTERM)
    with pytest.raises(NoLauncher, match="the cluster is not running"):
        ask(tmp_path / "c", "status")


def test_a_node_that_does_not_come_up_ends_all(tmp_path: Path) -> None:
    with launched(tmp_path / "c", "stub.fails=2") as launcher:
        assert launcher.ready_line == ""
        assert launcher.process.wait(TIMEOUT_S) == 1
    assert f"node 2 has ended before it was ready: exit status {FAILED}" in launcher.log.read_text()
    assert not (launcher.directory / CONTROL_SOCKET).exists()


def test_one_launcher_at_a_time(tmp_path: Path) -> None:
    with launched(tmp_path / "c"), launched(tmp_path / "c") as second:
        assert second.process.wait(TIMEOUT_S) == 1
        assert "in use by a running Kafka or kcli" in second.log.read_text()


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    with launched(tmp_path / "c", "stub.deaf=1") as launcher:
        pids = [each["pid"] for each in launcher.nodes().values()]
        launcher.process.send_signal(signal.SIGINT)
        eventually(lambda: is_gone(pids[2]))
        assert launcher.end(signal.SIGINT) == 130
        eventually(lambda: all(map(is_gone, pids)))


def test_nodes_end_with_a_launcher_that_is_killed(tmp_path: Path) -> None:
    with launched(tmp_path / "c") as launcher:
        pids = [each["pid"] for each in launcher.nodes().values()]
        launcher.process.kill()
        eventually(lambda: all(map(is_gone, pids)))
    with launched(tmp_path / "c") as launcher:
        assert launcher.ready_line, "the socket that was left is no obstacle"


def test_output_with_the_node_in_front(tmp_path: Path) -> None:
    with launched(tmp_path / "c", "stub.says=hello") as launcher:
        eventually(lambda: {f"[{node}] node {node} says hello" for node in (1, 2, 3)} <= set(launcher.logged))


def test_output_as_json(tmp_path: Path) -> None:
    with launched(tmp_path / "c", "--json", "stub.says=hello") as launcher:
        launcher.end(signal.SIGTERM)
        lines = [json.loads(line) for line in launcher.logged]
    assert {"node": 2, "message": "node 2 says hello"} in lines
    assert any(line["message"] == "SIGTERM: stopping the cluster" for line in lines)


def test_a_directory_whose_name_is_longer_than_a_sockets(tmp_path: Path) -> None:
    with launched(tmp_path / ("d" * 120)) as launcher:
        assert len(launcher.nodes()) == 3
