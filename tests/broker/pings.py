"""The longest wait of other clients: a process that sends ApiVersions and Metadata to brokers, one after another.

    python -m tests.broker.pings HOST:PORT...

For each line of its input it prints a line about the time since the last one: {"longest_ms", "answers", "late_ms"}.
late_ms is the delay that the machine itself caused, measured with a sleep of a millisecond and an idle server.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

from tests.broker.running import Address, Client

EVERY_S = 0.005
PATIENCE_S = 30.0


class Waits(NamedTuple):
    """What a line of the process's output has."""

    longest_ms: float
    answers: int
    late_ms: float


class Pings:
    """The process, as its parent uses it."""

    def __init__(self, addresses: Sequence[Address]) -> None:
        """Start the process, which begins to send requests."""
        command = [sys.executable, "-m", "tests.broker.pings", *(f"{host}:{port}" for host, port in addresses)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.waits()

    def waits(self) -> Waits:
        """Return the longest wait since the last call."""
        assert self._process.stdin is not None, "piped"
        assert self._process.stdout is not None, "piped"
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "a broker has closed the connection of one that only asks"
        return Waits(**json.loads(line))

    def stop(self) -> Waits:
        """Stop the process; return its last line."""
        found = self.waits()
        self.end()
        return found

    def end(self) -> None:
        """End the process in any case."""
        self._process.kill()
        self._process.communicate()


def main(addresses: Sequence[str]) -> None:
    """Run the process's loop."""
    waits, lock = Waits(0, 0, 0), threading.Lock()

    def ask() -> None:
        nonlocal waits
        clients = [Client((host, int(port))) for host, _, port in (each.rpartition(":") for each in addresses)]
        frames = [("api_versions", 0, {}), ("metadata", 12, {"topics": [], "allow_auto_topic_creation": False})]
        number = 0
        while True:
            began = time.monotonic()
            time.sleep(EVERY_S)
            late_s = time.monotonic() - began - EVERY_S
            number += 1
            api, version, request = frames[number // len(clients) % 2]
            began = time.monotonic()
            clients[number % len(clients)].call(api, version, **request)
            took_s = time.monotonic() - began
            with lock:
                waits = Waits(
                    max(waits.longest_ms, took_s * 1000), waits.answers + 1, max(waits.late_ms, late_s * 1000)
                )

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    for _ in sys.stdin:
        if not asking.is_alive():
            return
        with lock:
            print(json.dumps(waits._asdict()), flush=True)
            waits = Waits(0, 0, 0)


if __name__ == "__main__":
    main(sys.argv[1:])
