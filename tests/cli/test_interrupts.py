"""Ctrl-C at any moment, from the first on: nothing on stderr, status 130."""

import signal
import subprocess
import sys
import time

import pytest

from tests.conftest import SAMPLES

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
    """From its first instruction on; what ends sooner than that is not interrupted."""
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
