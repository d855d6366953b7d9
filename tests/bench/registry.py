"""kcli registry beside Karapace, each on a broker of its own: python -m tests.bench.registry [--karapace COMMAND].

Karapace is not on PyPI. COMMAND is a program that starts it: it gets the broker's address and a port, waits until the
registry answers, and prints its process id. Without it kcli is measured alone.

    lookups         GET /schemas/ids/1 by 16 connections (registry_client.py)
    registrations   new subjects by 8 connections, each with a schema of its own; versions of one subject by one
    loaded          `kcli registry` with 10,000 subjects in its topic, from the command to the first answer
    start, memory   what --registry adds to `kcli serve`: until the line of the registry, and resident then

The registries take each load in turn; the first run of each warms up and does not count. Figures are medians.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from pathlib import Path
from statistics import median
from typing import Final

from tests.bench.measure import BenchError
from tests.bench.report import ServeFigure, machine, serve_table
from tests.broker.cluster import free_ports
from tests.broker.running import served_node
from tests.registry.running import Process, ask, register

RESULTS: Final = Path(__file__).with_name("REGISTRY.md")
LOOKUP_S: Final = 3.0
SUBJECTS: Final = 1000
VERSIONS: Final = 100
LOADED: Final = 10_000
STARTS: Final = 11
PATIENCE_S: Final = 30.0


class Loads:
    """One registry, and what is registered there already."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.subjects = self.versions = 0

    def register_first(self) -> None:
        """Register the schema of the lookups, once the registry has elected itself."""
        until = time.monotonic() + PATIENCE_S
        schema = {"type": "record", "name": "First", "fields": []}
        while (answer := register(f"http://127.0.0.1:{self.port}", "first-value", schema)).status != HTTPStatus.OK:
            if time.monotonic() > until:
                raise BenchError(f"the registry at port {self.port} registers nothing: {answer.json}")
            time.sleep(0.1)
        if answer.json["id"] != 1:
            raise BenchError(f"the registry at port {self.port} is not new: its next id was {answer.json['id']}")

    def lookups(self, scale: float) -> float:
        """Return the lookups a second."""
        return self._run("lookups", 16, LOOKUP_S * scale)

    def registrations(self, scale: float) -> float:
        """Return the subjects registered in a second."""
        first, count = self.subjects, round(SUBJECTS * scale)
        self.subjects += count
        return self._run("subjects", 8, count, first)

    def evolutions(self, scale: float) -> float:
        """Return the versions of one subject registered in a second."""
        first, count = self.versions, round(VERSIONS * scale)
        self.versions += count
        return self._run("versions", count, first)

    def _run(self, what: str, *numbers: float) -> float:
        command = [sys.executable, "-m", "tests.bench.registry_client", what, "127.0.0.1", str(self.port)]
        done = subprocess.run([*command, *map(str, numbers)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise BenchError(f"{what}: {done.stderr[-500:]}")
        return float(json.loads(done.stdout))


def figures(karapace: str | None, runs: int, scale: float) -> Iterator[ServeFigure]:
    """Yield the lines of the loads."""
    with ExitStack() as stack:
        bootstrap = stack.enter_context(_broker())
        ours = Process(bootstrap)
        stack.callback(ours.end)
        sides = [Loads(int(ours.url.rpartition(":")[2]))]
        if karapace is not None:
            sides.append(Loads(stack.enter_context(_started(karapace, stack.enter_context(_broker())))))
        for side in sides:
            side.register_first()
        loads = (
            ("lookups by id, 16 connections", Loads.lookups, "/s", 5.0),
            ("new subjects, 8 connections", Loads.registrations, "/s", 2.0),
            ("new versions of one subject", Loads.evolutions, "/s", 2.0),
        )
        for name, load, unit, goal in loads:
            found: list[list[float]] = [[] for _ in sides]
            for _ in range(runs + 1):
                for side, into in zip(sides, found, strict=True):
                    into.append(load(side, scale))
            medians = [median(each[1:]) for each in found]
            yield ServeFigure(name, medians[0], medians[1] if len(sides) > 1 else None, unit, least_ratio=goal)
        left = round(LOADED * scale) - sides[0].subjects
        if left > 0:
            sides[0].registrations(left / SUBJECTS)
        took = []
        for _ in range(3):
            began = time.monotonic()
            again = Process(bootstrap)
            try:
                count = len(ask(again.url, "GET", "/subjects").json)
                took.append(time.monotonic() - began)
            finally:
                again.end()
        yield ServeFigure(f"{count:,} subjects loaded", median(took), None, "s", most=2)


@contextmanager
def _broker() -> Iterator[str]:
    """Yield the address of a broker that serves one registry."""
    with tempfile.TemporaryDirectory() as directory, served_node(Path(directory) / "data", warm=False) as node:
        yield node.bootstrap


@contextmanager
def _started(command: str, bootstrap: str) -> Iterator[int]:
    """Yield the port of another registry."""
    (port,) = free_ports(1)
    done = subprocess.run([*shlex.split(command), bootstrap, str(port)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"{command}: {done.stderr[-500:]}")
    try:
        yield port
    finally:
        os.kill(int(done.stdout.split()[-1]), signal.SIGTERM)


def start_figures(starts: int) -> Iterator[ServeFigure]:
    """Yield what --registry adds to a broker."""
    plain: list[tuple[float, float]] = []
    beside: list[tuple[float, float]] = []
    for _ in range(starts):
        for arguments, into in (((), plain), (("--registry", "127.0.0.1:0"), beside)):
            with tempfile.TemporaryDirectory() as directory:
                began = time.monotonic()
                with served_node(Path(directory) / "data", *arguments, warm=False) as node:
                    if arguments:
                        assert node.process.stdout is not None
                        node.process.stdout.readline()
                    took = time.monotonic() - began
                    time.sleep(1)  # modules that are imported in the background
                    into.append((took, _resident_mb(node.process.pid)))
                    node.signal(signal.SIGTERM)
    seconds, megabytes = (median(each[i] for each in beside) - median(each[i] for each in plain) for i in (0, 1))
    yield ServeFigure("--registry adds to the start of a broker", seconds, None, "s", most=0.15)
    yield ServeFigure("--registry adds to its memory", megabytes, None, "MB", most=25)


def _resident_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    line = next(each for each in status.splitlines() if each.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024 / 1e6


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.registry", description="Time a schema registry.")
    parser.add_argument("--karapace", metavar="COMMAND", help="starts Karapace: COMMAND BOOTSTRAP PORT")
    parser.add_argument("--runs", type=int, default=5, help="measured runs of each load (default: 5)")
    parser.add_argument("--scale", type=float, default=1.0, help="of the loads; below 1 nothing is written")
    options = parser.parse_args()
    try:
        rows = list(figures(options.karapace, options.runs, options.scale))
        rows += start_figures(STARTS if options.scale >= 1 else 1)
    except (BenchError, OSError) as failed:
        print(f"bench: {failed}", file=sys.stderr)
        return 1
    text = serve_table(rows, "Karapace")
    print(text)
    if options.scale == 1.0:
        beside = "beside Karapace" if options.karapace else "alone"
        RESULTS.write_text(f"# kcli registry {beside}\n\n{options.runs} runs. {machine()}.\n\n{text}\n")
    return 1 if any(row.reached is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
