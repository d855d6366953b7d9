"""What data-plane threads beside each other give plain Produce requests: python -m tests.bench.lanes.

The data-plane threads of kcli serve (kcli/broker/network/data_plane.py) get two connections, each a socket pair whose
buffer holds all requests beforehand, without the event loop and the rest of the broker around them; once one thread
answers both, once two threads answer one each. Each connection has partitions of its own, whose files are on the disk
of the temporary directory. From the ratio of both follows, by Amdahl's law, which part of a request only one thread at
a time can do, and what more cores would give at most.
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
from types import SimpleNamespace
from typing import Any, cast

import pytest

from formats.kernels.append import LogState
from formats.kernels.produce import ProduceLanes
from kcli.broker.network import data_plane as module
from kcli.broker.network.data_plane import DataPlane, Returned
from tests.bench.report import machine
from tests.log.batches import NOW_MS, batch
from tests.runways import bare_runway

RESULTS = Path(__file__).with_name("LANES.md")
HEAD = """# One data-plane thread and two

Written by `python -m tests.bench.lanes`, which says how it is measured. {machine}.

| Records | Requests | One thread | Two threads | Ratio | Alone | 16 cores at most |
|---|---|---|---|---|---|---|
"""
PARTITIONS, CONNECTIONS = 6, 2
RECORD_BYTES = 1000
LOADS = {2: 120, 16: 600, 64: 600, 300: 600}
"""The records of a batch -> the MB of requests for a connection."""
RUNS, CORES = 5, 16
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

    def appended_aside(self) -> None:
        """Do nothing: nobody waits."""

    def failed(self, error: Exception) -> None:
        """Raise the error of a write."""
        raise error


def topic_name(number: int) -> bytes:
    """Return the name of a connection's topic."""
    return b"topic-%d" % number


def request(number: int, records: int) -> bytes:
    """Return a Produce request, version 3, with a batch for each partition of a connection's topic."""
    data = bytes(batch(*[bytes(RECORD_BYTES)] * records, timestamp_ms=NOW_MS))
    parts = b"".join(index.to_bytes(4) + len(data).to_bytes(4) + data for index in range(PARTITIONS))
    name = topic_name(number)
    topic = len(name).to_bytes(2) + name + PARTITIONS.to_bytes(4) + parts
    head = bytes.fromhex("0000 0003 00000001 ffff ffff 0001 000003e8 00000001")
    return (len(head) + len(topic)).to_bytes(4) + head + topic


class Lent:
    """A connection, from whose socket all requests can be read. ended: set when a thread has read them."""

    listener = "PLAINTEXT"
    last_active = 0.0

    def __init__(self, lanes: ProduceLanes[Led], directory: Path, number: int, stack: ExitStack) -> None:
        self.logs = [Led(directory / f"{number}-{index}.log", stack) for index in range(PARTITIONS)]
        for index, log in enumerate(self.logs):
            lanes.add(topic_name(number), bytes([number] * 16), index, log, log, alone=True, watchers=({}, {}))
        self._client, self.socket = (stack.enter_context(each) for each in socket.socketpair())
        for end in (self._client, self.socket):
            end.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, SOCKET_BYTES)
        self.socket.settimeout(0)
        self.ended = threading.Event()
        self.returned_with: Returned | None = None

    def fill(self, frame: bytes, count: int) -> None:
        """Send all requests, and close this end for more."""
        self._client.sendall(frame * count)
        self._client.shutdown(socket.SHUT_WR)

    def returned(self, returned: Returned) -> None:
        """The thread has given the connection back."""
        self.returned_with = returned
        self.ended.set()


def data_plane(threads: int, lanes: ProduceLanes[Led]) -> DataPlane:
    """Return so many threads without a broker."""

    def serve(fd: int, buffer: memoryview, kept: int, _: object, size_max: int, turn_ns: int, *, lanes: Any) -> Any:
        return lanes.serve(fd, buffer, kept, size_max, turn_ns, NOW_MS)

    config = SimpleNamespace(
        queued_max_request_bytes=-1, network_threads_of=lambda _: threads, socket_request_max_bytes=UNLIMITED
    )
    loop = SimpleNamespace(call_soon_threadsafe=lambda function, *arguments: function(*arguments))
    requests = SimpleNamespace(serve=serve, lanes_beside=lanes.beside)
    return DataPlane(cast("Any", config), cast("Any", loop), cast("Any", requests))


def mb_per_s(threads: int, records: int, mb: float) -> float:
    """Return how many MB of requests on two connections so many threads answer in a second."""
    frames = [request(number, records) for number in range(CONNECTIONS)]
    count = max(1, round(mb * 1e6 / len(frames[0])))
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        lanes: ProduceLanes[Led] = ProduceLanes(1 << 20)
        lent = [Lent(lanes, directory, number, stack) for number in range(CONNECTIONS)]
        for each, frame in zip(lent, frames, strict=True):
            each.fill(frame, count)
        plane = data_plane(threads, lanes)
        began = time.perf_counter()
        for each in lent:
            assert plane.lend(cast("Any", each), each.socket.fileno())
        for each in lent:
            each.ended.wait()
        seconds = time.perf_counter() - began
        plane.close()
        assert all(each.returned_with == Returned(bytearray(), is_ended=True) for each in lent), "all are answered"
        ends = {log.log_end_offset for each in lent for log in each.logs}
        assert ends == {count * records}, f"log end offsets {ends}"
    return CONNECTIONS * count * len(frames[0]) / seconds / 1e6


def line(records: int, mb: float, runs: int) -> str:
    """Return a row of the table."""
    found: Sequence[tuple[float, float]] = [(mb_per_s(1, records, mb), mb_per_s(2, records, mb)) for _ in range(runs)]
    one, two = (median(side) for side in zip(*found, strict=True))
    alone = min(1.0, max(0.0, 2 * one / two - 1))
    most = 1 / (alone + (1 - alone) / CORES)
    cells = f"{records} of {RECORD_BYTES:,} B", f"{len(request(0, records)) / 1000:,.0f} KB", f"{one:,.0f} MB/s"
    return f"| {' | '.join(cells)} | {two:,.0f} MB/s | {two / one:.2f} | {alone:.0%} | {most:.1f} |"


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.lanes", description="Time one thread and two.")
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each load (default: 5)")
    parser.add_argument("--scale", type=float, default=1.0, help="of the loads; below 1 nothing is written")
    options = parser.parse_args()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "KEPT_PROCESSORS", 0)  # nothing else runs here
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
