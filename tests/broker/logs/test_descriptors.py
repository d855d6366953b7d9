"""With too few file descriptors the broker prefers files to connections, and does not take a log directory offline."""

from __future__ import annotations

import errno
import os
import re
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from kcli.broker.process.descriptors import for_upkeep, is_shortage, may_connect
from kcli.errors import UnreadableInput
from tests.broker.running import Client, Closed
from tests.broker.test_disk_full import produce_to
from tests.cli.run import KCLI

TIMEOUT_S = 20.0
LIMIT = 64
CHECKPOINTS = ("replica.high.watermark.checkpoint.interval.ms=100", "log.flush.offset.checkpoint.interval.ms=100")


class Broker:
    """`kcli serve` with a limit of descriptors; its log goes to a file."""

    def __init__(self, data_dir: Path, soft: int, hard: int, options: Sequence[str]) -> None:
        self.log = data_dir.with_name("log")
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    "sh",
                    "-c",
                    f'ulimit -Sn {soft}; ulimit -Hn {hard}; exec "$@"',
                    "sh",
                    *KCLI,
                    "serve",
                    "--data-dir",
                    data_dir,
                    "--listen",
                    "127.0.0.1:0",
                    *options,
                ],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self.process.stdout is not None, "piped"
        ready = self.process.stdout.readline().split()
        host, _, port = ready[2].rpartition(":") if ready else ("", "", "0")
        self.address = host, int(port)

    def said(self) -> str:
        """All of its log until now."""
        return self.log.read_text()

    def end(self) -> int:
        """Its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(TIMEOUT_S)

    @property
    def descriptors(self) -> int:
        """How many it has."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    @property
    def cpu_s(self) -> float:
        """How long it has computed."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(data_dir: Path, *options: str, soft: int = LIMIT, hard: int = LIMIT) -> Iterator[Broker]:
    """A broker, gone at the end."""
    flat = [part for option in options for part in ("-o", option)]
    broker = Broker(data_dir, soft, hard, flat)
    try:
        yield broker
    finally:
        broker.process.kill()
        broker.process.communicate()


def is_open(connection: socket.socket) -> bool:
    """Return whether the broker has not closed the connection yet."""
    connection.settimeout(0)
    try:
        return bool(connection.recv(1))
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def wait_for(broker: Broker, pattern: str) -> None:
    """Until the log has it."""
    deadline = time.monotonic() + TIMEOUT_S
    while not re.search(pattern, broker.said()):
        assert time.monotonic() < deadline, broker.said()
        time.sleep(0.05)


def test_silent_connections(tmp_path: Path) -> None:
    with serving(tmp_path / "data", *CHECKPOINTS) as broker, ExitStack() as closing:
        client = closing.enter_context(Client(broker.address))
        client.create_topic("there", 2)
        assert produce_to(client, "there", b"before") == 0
        silent = [closing.enter_context(socket.create_connection(broker.address)) for _ in range(70)]
        wait_for(broker, "connections are refused: .* of 64 open files .ulimit -n.")
        busy_s = broker.cpu_s
        time.sleep(1)  # checkpoints are written
        assert broker.cpu_s - busy_s < 0.5, "it does not spin"
        assert 5 < sum(map(is_open, silent)) < 40
        assert broker.descriptors < LIMIT - for_upkeep(LIMIT)
        client.create_topic("more", 1)
        assert [produce_to(client, topic, b"meanwhile") for topic in ("there", "more")] == [0, 0]
        with pytest.raises((Closed, ConnectionError)), Client(broker.address) as refused:
            refused.call("api_versions", 0)
        for each in silent:
            each.close()
        deadline = time.monotonic() + TIMEOUT_S
        while broker.descriptors > LIMIT // 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        with Client(broker.address) as again:
            assert produce_to(again, "there", b"after") == 0
        assert broker.end() == 0
        assert broker.said().count("connections are refused") == 2, "once in a while, the rest at the end"
        assert "stopping serving logs" not in broker.said()
        assert "Traceback" not in broker.said()


def test_more_partitions_than_files(tmp_path: Path) -> None:
    """Partitions whose files cannot be opened are refused for a while; no log directory fails."""
    with serving(tmp_path / "data", *CHECKPOINTS) as broker:
        with Client(broker.address) as client:
            for number in range(30):
                client.create_topic(f"t{number}", 1)
            codes = [produce_to(client, f"t{number}", b"value") for number in range(30)]
            assert codes[:5] == [0] * 5
            assert set(codes) == {0, 56}, "KAFKA_STORAGE_ERROR, which clients try again on"
            wait_for(broker, "Too many open files: raise the limit of open files .ulimit -n., 64")
            assert produce_to(client, "t0", b"again") == 0
        assert "stopping serving logs" not in broker.said()
        broker.end()
        assert "Traceback" not in broker.said()
    with serving(tmp_path / "data", soft=LIMIT, hard=1024) as broker:
        with Client(broker.address) as client:
            assert [produce_to(client, f"t{number}", b"value") for number in range(30)] == [0] * 30
        assert broker.end() == 0


def test_the_start_tells_of_a_low_limit(tmp_path: Path) -> None:
    with serving(tmp_path / "data", soft=LIMIT, hard=1024) as broker:
        with Client(broker.address) as client:
            client.create_topic("there", 30)
        assert broker.end() == 0
        assert "ulimit" not in broker.said(), "the soft limit is not the last word"
    with serving(tmp_path / "data") as broker:
        wait_for(broker, r"30 partitions may need 1[01]\d open files, and the limit .ulimit -n. is 64: raise it")
        assert broker.end() == 0


@pytest.mark.parametrize("few", [8, 13, 15])
def test_hardly_any(tmp_path: Path, few: int) -> None:
    """Wherever the start meets the limit."""
    with serving(tmp_path / "data", soft=few, hard=few) as broker:
        assert broker.process.wait(TIMEOUT_S) in (1, 2)
        assert "Traceback" not in broker.said()
        assert "Too many open files" in broker.said().splitlines()[-1]


def test_what_is_a_shortage() -> None:
    lacking = OSError(errno.EMFILE, "Too many open files", "a")
    assert is_shortage(lacking)
    wrapped = UnreadableInput("a", "Too many open files")
    wrapped.__cause__ = lacking
    assert is_shortage(wrapped)
    assert not is_shortage(OSError(errno.ENOSPC, "No space left on device", "a"))
    assert not is_shortage(UnreadableInput("a", "no"))
    assert not is_shortage(None)


def test_who_may_connect() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1000, hard))
    try:
        assert may_connect(499, lambda: 10_000), "half of them is for connections"
        assert not may_connect(500, lambda: 10_000)
        assert may_connect(935, lambda: 0)
        assert not may_connect(936, lambda: 0)
        assert not may_connect(930, lambda: 6)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
