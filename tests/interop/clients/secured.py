"""A user's job on a secured listener (README.md), whatever the client, and the programs that do it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

VALUES = ("one", "two", "three")
KEPT, LOST = "committed", "aborted"
"""The values of a transaction that commits, and of one that aborts."""
WAIT_S = 30.0


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a user does and how it logs in.

    name: of its topic, group and transactional id. forbidden: a topic that it may not create. mechanism: of SASL, ""
    for a certificate. secret: its password, or its OAuth token. wrong: a secret that is not its own. keys: the file of
    its certificate and key, in PEM; "" for none. delegation: it does all else with a delegation token that it makes."""

    bootstrap: str
    ca: str
    name: str
    forbidden: str
    mechanism: str = ""
    user: str = ""
    secret: str = ""
    wrong: str = ""
    keys: str = ""
    delegation: bool = False
    values: Sequence[str] = VALUES
    kept: str = KEPT
    lost: str = LOST


class Program:
    """A program that does one job after the other: it reads a JSON line for each, and writes a JSON line with the
    report."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def do(self, job: Job) -> dict[str, Any]:
        """Do a job and return the report. Raises AssertionError with the program's complaint if it ends; it is started
        again for the next job."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(job)) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            complaint = self._process.communicate()[1]
            self._process = self._start()
            raise AssertionError(complaint[-5000:])
        report: dict[str, Any] = json.loads(line)
        return report

    def close(self) -> None:
        """Close the program's standard input, at which it ends."""
        try:
            self._process.communicate(timeout=WAIT_S)
        finally:
            self._process.kill()
