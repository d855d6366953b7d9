"""Ctrl-C at any moment, from the first on: nothing on stderr, status 130."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from formats.compression import ZSTD
from tests.cli.run import KCLI
from tests.conftest import SAMPLES
from tests.log.batches import batch

LAUNCH = """
import os, signal, sys, threading
import kcli.cli
threading.Timer(float(sys.argv.pop(1)), os.kill, (os.getpid(), signal.SIGINT)).start()
kcli.cli.main()
"""
COMMANDS = {
    "help": ["--help"],
    "verify": ["verify", "good", "broken"],
    "serve": ["serve", "--listen", "127.0.0.1:0"],
}


@pytest.mark.parametrize("delay_ms", [6, 12, 25, 50, 80, 120])
@pytest.mark.parametrize("name", COMMANDS)
def test_while_it_is_loaded(name: str, delay_ms: int) -> None:
    """The interrupt comes at any time from the first instruction on; a command that has ended by then is not
    interrupted."""
    child = [sys.executable, "-c", LAUNCH, str(delay_ms / 1000), *COMMANDS[name]]
    done = subprocess.run(child, cwd=SAMPLES, capture_output=True, check=False, timeout=60)
    assert b"Traceback" not in done.stderr, done.stderr
    assert b"Exception ignored" not in done.stderr, done.stderr
    assert done.returncode in {"help": (130, 0), "verify": (130, 1), "serve": (130, 0)}[name]


def test_where_it_is_ignored() -> None:
    """As in the background of a shell."""
    child = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh", sys.executable, "-m", "kcli", "verify", "good"]
    with subprocess.Popen(child, cwd=SAMPLES, stdout=subprocess.DEVNULL) as process:
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a partition that takes a minute to decompress: 3 MB of batches, each of which holds a record of 60 MB."""
    directory = tmp_path_factory.mktemp("slow") / "slow-0"
    directory.mkdir()
    one = batch(bytes(60_000_000), codec=ZSTD)
    count = 3_000_000 // len(one)
    with (directory / f"{0:020}.log").open("wb") as file:
        file.writelines(i.to_bytes(8) + one[8:] for i in range(count))
    (directory / f"{count:020}.log").write_bytes(count.to_bytes(8) + one[8:])
    return directory


@pytest.mark.parametrize(
    "command",
    [
        ["verify"],
        ["recover", "--unclean", "--salvage", "--dry-run"],
        ["compact", "-o", "cleanup.policy=compact"],
        ["dump-segment", "--key", "none"],
        ["dump-segment", "--format", "jsonl", "--key", "none"],
        ["dump-segment", "--format", "kafka", "--deep-iteration", "--print-data-log", "--key", "none"],
    ],
    ids=" ".join,
)
def test_while_threads_decompress(command: list[str], slow: Path) -> None:
    """The command ends at once: it does not wait for the windows that its threads work on."""
    child = [*KCLI, *command, str(slow)]
    with subprocess.Popen(child, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        time.sleep(2)
        assert process.poll() is None, process.stderr.read()
        process.send_signal(signal.SIGINT)
        asked = time.monotonic()
        try:
            assert process.wait(20) == 130
        finally:
            process.kill()
        assert time.monotonic() - asked < 5
        assert process.stderr.read() == b""
