"""What threads beside each other give plain Produce requests: python -m tests.bench.lanes.

kcli serve answers all requests in one thread. This bench runs its compiled way (ProduceLanes.serve) in one thread and
in two, without the broker around it: each thread has a socket pair, whose buffer holds all requests beforehand, and
partitions of its own, whose files are on the disk of the temporary directory. From the ratio of both follows, by
Amdahl's law, which part of a request only one thread at a time can do, and what more cores would give at most.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from formats.kernels.append import LogState
from formats.kernels.produce import ProduceLanes
from tests.bench.report import machine
from tests.log.batches import NOW_MS, batch
from tests.runways import bare_runway

RESULTS = Path(__file__).with_name("LANES.md")
HEAD = """# One thread and two that answer plain Produce requests

Written by `python -m tests.bench.lanes`, which says how it is measured. kcli serve has one such thread. {machine}.

| Records | Requests | One thread | Two threads | Ratio | Alone | 16 cores at most |
|---|---|---|---|---|---|---|
"""
TOPIC, PARTITIONS = b"topic", 6
RECORD_BYTES = 1000
LOADS = {2: 120, 16: 600, 64: 600, 1000: 600}
"""The records of a batch -> the MB of requests for a thread."""
RUNS, CORES = 5, 16
BUFFER_BYTES = 8 << 20
SOCKET_BYTES = 1 << 30
SO_SNDBUFFORCE = 32
UNLIMITED = 1 << 30


class Led(LogState):
    """A partition's log, which has only a .log file."""

    lacks_replicas = False

    def __init__(self, path: Path, stack: ExitStack) -> None:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        stack.callback(os.close, fd)
        self.runway = bare_runway(self, fd=fd, offset_slots=UNLIMITED, time_slots=UNLIMITED)

    def plain_appended(self) -> int:
        """Return the log start offset."""
        return self.log_start_offset

    def failed(self, error: Exception) -> None:
        """Raise the error of a write."""
        raise error


def request(records: int) -> bytes:
    """Return a Produce request, version 3, with a batch for each partition."""
    data = bytes(batch(*[bytes(RECORD_BYTES)] * records, timestamp_ms=NOW_MS))
    parts = b"".join(index.to_bytes(4) + len(data).to_bytes(4) + data for index in range(PARTITIONS))
    topic = len(TOPIC).to_bytes(2) + TOPIC + PARTITIONS.to_bytes(4) + parts
    head = bytes.fromhex("0000 0003 00000001 ffff ffff 0001 000003e8 00000001")
    return (len(head) + len(topic)).to_bytes(4) + head + topic


class Side:
    """What one thread has: the partitions, and a socket from which it can read all requests."""

    def __init__(self, directory: Path, number: int, frame: bytes, count: int, stack: ExitStack) -> None:
        self.lanes: ProduceLanes[Led] = ProduceLanes(1 << 20)
        self.logs = [Led(directory / f"{number}-{index}.log", stack) for index in range(PARTITIONS)]
        for index, log in enumerate(self.logs):
            self.lanes.add(TOPIC, bytes(16), index, log, log, alone=True, watchers=({}, {}))
        client, self._server = (stack.enter_context(each) for each in socket.socketpair())
        client.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, SOCKET_BYTES)
        self._server.settimeout(0)
        client.sendall(frame * count)

    def run(self, start: threading.Barrier) -> None:
        """Answer all requests."""
        buffer, kept, fd = memoryview(bytearray(BUFFER_BYTES)), 0, self._server.fileno()
        start.wait()
        while True:
            try:
                received, answered, _ = self.lanes.serve(fd, buffer, kept, UNLIMITED, UNLIMITED, NOW_MS)
            except BlockingIOError:
                return
            rest = bytes(buffer[answered : kept + received])
            buffer[: len(rest)] = rest
            kept = len(rest)


def mb_per_s(threads: int, records: int, mb: float) -> float:
    """Return how many MB of requests so many threads answer in a second."""
    frame = request(records)
    count = max(1, round(mb * 1e6 / len(frame)))
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        sides = [Side(directory, number, frame, count, stack) for number in range(threads)]
        start = threading.Barrier(threads + 1)
        running = [threading.Thread(target=side.run, args=(start,)) for side in sides]
        for thread in running:
            thread.start()
        start.wait()
        began = time.perf_counter()
        for thread in running:
            thread.join()
        seconds = time.perf_counter() - began
        ends = {log.log_end_offset for side in sides for log in side.logs}
        assert ends == {count * records}, f"log end offsets {ends}"
    return threads * count * len(frame) / seconds / 1e6


def line(records: int, mb: float, runs: int) -> str:
    """Return a row of the table."""
    found: Sequence[tuple[float, float]] = [(mb_per_s(1, records, mb), mb_per_s(2, records, mb)) for _ in range(runs)]
    one, two = (median(side) for side in zip(*found, strict=True))
    alone = min(1.0, max(0.0, 2 * one / two - 1))
    most = 1 / (alone + (1 - alone) / CORES)
    cells = f"{records} of {RECORD_BYTES:,} B", f"{len(request(records)) / 1000:,.0f} KB", f"{one:,.0f} MB/s"
    return f"| {' | '.join(cells)} | {two:,.0f} MB/s | {two / one:.2f} | {alone:.0%} | {most:.1f} |"


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.lanes", description="Time one thread and two.")
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each load (default: 5)")
    parser.add_argument("--scale", type=float, default=1.0, help="of the loads; below 1 nothing is written")
    options = parser.parse_args()
    try:
        rows = "\n".join(line(records, mb * options.scale, options.runs) for records, mb in LOADS.items())
    except OSError as failed:
        print(f"bench: {failed}", file=sys.stderr)
        return 1
    text = f"{HEAD.format(machine=machine())}{rows}\n"
    print(text)
    if options.scale == 1.0:
        RESULTS.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
