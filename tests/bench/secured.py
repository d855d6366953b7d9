"""kcli serve with TLS beside a warm Kafka with the same certificates: python -m tests.bench.secured.

    produce, consume   batches of 16 KB with records of 1 KB to and from 6 partitions through a listener SSL, TLS 1.3,
                       by one client on OpenSSL (secured_clients.py), the same for both brokers
    handshakes         connections through the listener SSL, each with one request answered; no session is resumed:
                       kcli gives no tickets of TLS 1.3, and Kafka resumes none of TLS 1.2 for this client
    logins             by SCRAM-SHA-512 through a listener SASL_PLAINTEXT
    ready              kcli alone: from the command to the ready line in a new directory, with that configuration
    ACLs               kcli alone: the CPU time of the event loop for produce and fetch (no TLS, a user of SCRAM) with
                       StandardAuthorizer and 10,000 ACLs, beside a node without an authorizer

Kafka runs in Java with its defaults for TLS, as in serve.py. Both brokers are up and take each load in turn; the first
runs warm up. A figure is the median of the measured runs, that of ACLs the median over pairs of new nodes of what their
runs differ by in the median; a line below the table has the noise: how far the farthest run is from the median. A load
that fails is tried again twice, and each run is shown on stderr. With --scale below 1, or --only, nothing is written.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

from kcli.security.acls import Operation, ResourceType
from kcli.security.authorizer import CLASS_NAME
from kcli.security.scram import SCRAM_SHA_512
from kcli.tls.certificates import make_authority
from tests.bench.free_memory import use_free_memory
from tests.bench.measure import BenchError
from tests.bench.report import ServeFigure, machine, serve_table
from tests.bench.secured_clients import (
    PARTITIONS,
    REQUEST_BYTES,
    connected,
    consume,
    handshakes,
    log_in,
    logins,
    produce,
)
from tests.bench.serve import WORK, BrokerProcess, kafka, kcli
from tests.broker.running import Address, Client, Closed
from tests.interop import kit

RESULTS: Final = Path(__file__).with_name("SECURED.md")
USER: Final = ("alice", "alice-secret")
ITERATIONS: Final = 4096
SIDE_BY_SIDE: Final = 8
ACLS: Final = 10_000
ACL_SLICES: Final = 8
"""Loads that measure the cost of ACLs are this much shorter and run this many times as often: that cost is smaller than
the difference between two long runs."""
PRODUCED_BYTES: Final = 400_000_000
HANDSHAKES: Final = 2_000
LOGINS: Final = 1_600
TRIES: Final = 3
BESIDE_KAFKA: Final = ("produce", "consume", "handshakes", "logins")
PARTS: Final = (*BESIDE_KAFKA, "ready", "acls")
LISTENERS: Final = ("PLAINTEXT", "CONTROLLER", "SSL", "SASL")


def say(text: str) -> None:
    """Tell how far the bench is."""
    print(f"  {text}", file=sys.stderr, flush=True)


# brokers


def unused_ports(count: int) -> int:
    """Return the first of `count` successive ports that no process listens on."""
    for first in range(20_100, 32_000, count):
        try:
            for port in range(first, first + count):
                socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return first
    raise BenchError("no free ports")


def write_certificates(folder: Path) -> None:
    """Write server.pem and ca.pem: keys of P-256."""
    now = dt.datetime.now(dt.UTC)
    authority = make_authority("kcli bench", now)
    (folder / "ca.pem").write_bytes(authority.certificate_pem)
    (folder / "server.pem").write_bytes(authority.server(["127.0.0.1"], now).pem)


def properties(folder: Path, port: int, more: Mapping[str, str]) -> list[str]:
    """Return the security configurations, which both brokers share. folder: has server.pem; port: that of PLAINTEXT;
    the listeners of LISTENERS have the next ports."""
    addresses = ",".join(f"{name}://127.0.0.1:{port + i}" for i, name in enumerate(LISTENERS))
    found = {
        "listeners": addresses,
        "advertised.listeners": ",".join(each for each in addresses.split(",") if not each.startswith("CONTROLLER")),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL,SASL:SASL_PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "server.pem"),
        "sasl.enabled.mechanisms": SCRAM_SHA_512.name,
        f"listener.name.sasl.{SCRAM_SHA_512.name.lower()}.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        **more,
    }
    return [f"{name}={value}" for name, value in found.items()]


def run_kcli(stack: ExitStack, folder: Path, more: Mapping[str, str] | None = None) -> Secured:
    """Start kcli serve with a new directory."""
    port = unused_ports(len(LISTENERS))
    options = [part for each in properties(folder, port, more or {}) for part in ("-o", each)]
    data = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=WORK)))
    return Secured(stack.enter_context(kcli(data / "new", *options, listen=())), port)


def run_kafka(stack: ExitStack, folder: Path) -> Secured:
    """Start real Kafka."""
    port = unused_ports(len(LISTENERS))
    return Secured(stack.enter_context(kafka(*properties(folder, port, {}), port=port)), port)


@dataclass
class Secured:
    """A running broker and its measurements: the runs of each figure, without the warm-up."""

    broker: BrokerProcess
    port: int
    runs: dict[str, list[float]] = field(default_factory=dict)

    def loop_cpu_s(self) -> float:
        """Return the CPU seconds of the process's first thread, which runs kcli's event loop, from Linux's nanosecond
        counter."""
        return int(Path(f"/proc/{self.broker.pid}/schedstat").read_text().split()[0]) / 1e9

    @property
    def name(self) -> str:
        """kcli or Kafka."""
        return self.broker.name

    def address(self, listener: str) -> Address:
        """Where a listener is."""
        return "127.0.0.1", self.port + LISTENERS.index(listener)

    def admin(self) -> Client:
        """A connection through PLAINTEXT."""
        return Client(self.address("PLAINTEXT"))

    def add_user(self) -> None:
        """Let USER log in by SCRAM-SHA-512."""
        salt = b"0123456789abcdef0123456789abcdef"
        credential = {"name": USER[0], "mechanism": SCRAM_SHA_512.code, "iterations": ITERATIONS, "salt": salt}
        request = credential | {"salted_password": SCRAM_SHA_512.salted(USER[1], salt, ITERATIONS)}
        with self.admin() as admin:
            answer = admin.call("alter_user_scram_credentials", 0, deletions=[], upsertions=[request])
        if answer["results"][0]["error_code"]:
            raise BenchError(f"{self.name} takes no user: {answer}")

    def new_topic(self, name: str) -> None:
        """Make a topic."""
        with self.admin() as admin:
            admin.create_topic(name, PARTITIONS)

    def delete_topic(self, name: str) -> None:
        """Delete a topic, so that the disk does not fill."""
        with self.admin() as admin:
            topic = [{"name": name, "topic_id": None}]
            admin.call("delete_topics", 6, topics=topic, timeout=30_000)

    def middle(self, figure: str) -> float:
        """The median of a figure's runs."""
        return median(self.runs[figure])

    def noise(self, figure: str) -> float:
        """The greatest distance of a run of a figure from the median, as a share of that."""
        middle = self.middle(figure)
        return max(abs(each - middle) for each in self.runs[figure]) / middle


# loads

Load = Callable[[Secured, int], dict[str, float]]


def tried(load: Load, broker: Secured, run: int) -> dict[str, float]:
    """Run a load, again where it fails, and return its outcome. Raises BenchError."""
    for left in reversed(range(TRIES)):
        try:
            return load(broker, run)
        except (OSError, Closed, BenchError, AssertionError) as failed:
            say(f"{broker.name}: {type(failed).__name__}: {failed}" + (", again" if left else ""))
            time.sleep(1)
    raise BenchError(f"{broker.name}: a load failed {TRIES} times")


def in_turn(brokers: Sequence[Secured], load: Load, runs: int, warm_up: int = 1) -> None:
    """Run a load on the brokers in turn, and keep the outcomes of all runs except for the first ones."""
    for run in range(warm_up + runs):
        for broker in brokers if run % 2 else reversed(brokers):
            use_free_memory(WORK)
            outcome = tried(load, broker, run)
            say(f"{broker.name}: " + ", ".join(f"{name} {value:,.3f}" for name, value in outcome.items()))
            if run >= warm_up:
                for name, value in outcome.items():
                    broker.runs.setdefault(name, []).append(value)


def moved(broker: Secured, name: str, size_bytes: int, move: Callable[[], float]) -> dict[str, float]:
    """Measure a transfer of bytes. move: transfers them and returns the seconds."""
    before, loop_before = broker.broker.cpu_s(), broker.loop_cpu_s()
    seconds = move()
    cpu_s, loop_s = broker.broker.cpu_s() - before, broker.loop_cpu_s() - loop_before
    size_gb = size_bytes / 1e9
    return {f"{name} MB/s": size_gb * 1000 / seconds, f"{name} CPU": cpu_s / size_gb, f"{name} loop": loop_s / size_gb}


def producing(listener: str, context: ssl.SSLContext | None, requests: int) -> Load:
    """Return the load that produces to a new topic, and deletes the topic afterwards."""

    def load(broker: Secured, run: int) -> dict[str, float]:
        topic = f"produced-{listener.lower()}-{run}-{time.monotonic_ns()}"
        broker.new_topic(topic)
        os.sync()  # sync first, so that the disk does not write earlier data during the load
        with connected(broker.address(listener), context) as client:
            if listener == "SASL":
                log_in(client, SCRAM_SHA_512, USER)
            produce(client, topic, 2)
            found = moved(broker, "produce", requests * REQUEST_BYTES, lambda: produce(client, topic, requests))
        broker.delete_topic(topic)
        return found

    return load


def consuming(listener: str, context: ssl.SSLContext | None, requests: int) -> Load:
    """Return the load that consumes what `requests` Produce requests have written."""

    def load(broker: Secured, run: int) -> dict[str, float]:
        with connected(broker.address(listener), context) as client:
            if listener == "SASL":
                log_in(client, SCRAM_SHA_512, USER)
            size_bytes = requests * REQUEST_BYTES
            return moved(broker, "consume", size_bytes, lambda: consume(client, "consumed", requests))

    return load


def fill(broker: Secured, requests: int) -> None:
    """Write what is consumed."""
    broker.new_topic("consumed")
    with broker.admin() as client:
        produce(client, "consumed", requests)


def shaking(context: ssl.SSLContext, count: int) -> Load:
    """The load of handshakes."""

    def load(broker: Secured, run: int) -> dict[str, float]:
        before = broker.broker.cpu_s()
        seconds = handshakes(broker.address("SSL"), context, count, SIDE_BY_SIDE)
        return {"handshakes /s": count / seconds, "handshakes CPU": (broker.broker.cpu_s() - before) / count * 1000}

    return load


def logging_in(count: int) -> Load:
    """Measure logins, one after another and SIDE_BY_SIDE at a time."""

    def load(broker: Secured, run: int) -> dict[str, float]:
        address = broker.address("SASL")
        alone_s = logins(address, SCRAM_SHA_512, USER, count // 4, 1)
        before, rounds = broker.broker.cpu_s(), count // SIDE_BY_SIDE
        seconds = logins(address, SCRAM_SHA_512, USER, rounds, SIDE_BY_SIDE)
        cpu_s = (broker.broker.cpu_s() - before) / (rounds * SIDE_BY_SIDE)
        return {"login ms": alone_s * 1000, "logins /s": SIDE_BY_SIDE / seconds, "login CPU": cpu_s * 1000}

    return load


# ACLs


def acls(count: int) -> Iterator[dict[str, Any]]:
    """Return the CreateAcls entries: one allows USER everything on the bench's topics; a few of each other kind concern
    these topics but not USER; most concern other topics and users."""
    topic, literal, prefixed, allow = ResourceType.TOPIC, 3, 4, 3

    def acl(name: str, pattern: int, user: str, operation: int) -> dict[str, Any]:
        return {
            "resource_type": int(topic),
            "resource_name": name,
            "resource_pattern_type": pattern,
            "principal": f"User:{user}",
            "host": "*",
            "operation": operation,
            "permission_type": allow,
        }

    yield acl("*", literal, USER[0], int(Operation.ALL))
    for i in range(1, count):
        operation = int(Operation.READ if i % 2 else Operation.WRITE)
        if i % 10 == 0:
            yield acl(f"prefix-{i}-", prefixed, f"user-{i % 500}", operation)
        elif i % 100 == 1:
            yield acl("produced", prefixed, f"user-{i}", operation)
        elif i % 100 == 2:
            yield acl("consumed", literal, f"user-{i}", operation)
        else:
            yield acl(f"topic-{i}", literal, f"user-{i % 500}", operation)


def add_acls(broker: Secured, count: int) -> None:
    """Create ACLs."""
    creations = list(acls(count))
    with broker.admin() as admin:
        for at in range(0, count, 1000):
            answer = admin.call("create_acls", 2, creations=creations[at : at + 1000])
            if any(each["error_code"] for each in answer["results"]):
                raise BenchError(f"CreateAcls answers {answer['results'][0]}")


def acl_figures(folder: Path, runs: int, scale: float) -> Iterator[ServeFigure]:
    """What ACLs cost kcli. Each of `runs` pairs of nodes is new: two processes with the same work differ by more than
    their runs do."""
    requests = round(PRODUCED_BYTES * scale / REQUEST_BYTES / ACL_SLICES)
    ratios: dict[str, list[float]] = {"produce": [], "consume": []}
    for _ in range(runs):
        with ExitStack() as stack:
            authorized = {"authorizer.class.name": CLASS_NAME, "super.users": "User:ANONYMOUS"}
            with_acls, without = run_kcli(stack, folder, authorized), run_kcli(stack, folder)
            for broker in (with_acls, without):
                broker.add_user()
                fill(broker, requests)
            add_acls(with_acls, ACLS)
            pair = (with_acls, without)
            in_turn(pair, producing("SASL", None, requests), 3 * ACL_SLICES)
            in_turn(pair, consuming("SASL", None, requests), 3 * ACL_SLICES)
        for name, found in ratios.items():
            loops = zip(with_acls.runs[f"{name} loop"], without.runs[f"{name} loop"], strict=True)
            found.append(median(one / other for one, other in loops))
            say(f"{name}: CPU that {ACLS:,} ACLs cost: {(found[-1] - 1) * 100:.2f} %")
    for name, found in ratios.items():
        yield ServeFigure(f"{name}: CPU that {ACLS:,} ACLs cost", (median(found) - 1) * 100, None, "%", most=3)


def ready_seconds(folder: Path, runs: int) -> list[float]:
    """Return the seconds from the command to the ready line, with TLS."""
    found = []
    for _ in range(runs + 1):
        with ExitStack() as stack:
            began = time.perf_counter()
            run_kcli(stack, folder)
            found.append(time.perf_counter() - began)
    return found[1:]


# figures


def measure(brokers: Sequence[Secured], folder: Path, runs: int, scale: float, only: str | None) -> None:
    """Run all loads on the brokers, or only one load."""
    requests = max(20, round(PRODUCED_BYTES * scale / REQUEST_BYTES))
    count = max(SIDE_BY_SIDE, round(HANDSHAKES * scale / SIDE_BY_SIDE) * SIDE_BY_SIDE)
    newest = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    newest.minimum_version = ssl.TLSVersion.TLSv1_3
    for broker in brokers:
        broker.add_user()
    if only in (None, "produce"):
        in_turn(brokers, producing("SSL", newest, requests), runs, 2)
    if only in (None, "consume"):
        for broker in brokers:
            fill(broker, requests)
        in_turn(brokers, consuming("SSL", newest, requests), runs, 2)
    if only in (None, "handshakes"):
        in_turn(brokers, shaking(newest, count), runs, 2)
    if only in (None, "logins"):
        in_turn(brokers, logging_in(max(SIDE_BY_SIDE, round(LOGINS * scale))), runs, 3)


def figures(ours: Secured, theirs: Secured) -> Iterator[tuple[ServeFigure, str]]:
    """Return the lines of both brokers, each with the names of its runs."""
    lines: list[tuple[str, str, str, dict[str, float]]] = [
        ("produce 1 KB, 6 partitions, acks=all", "produce MB/s", "MB/s", {"least_ratio": 1.3}),
        ("consume 1 KB, 6 partitions", "consume MB/s", "MB/s", {"least_ratio": 1.5}),
        ("broker CPU per GB produced", "produce CPU", "s", {"most_ratio": 0.6}),
        ("broker CPU per GB consumed", "consume CPU", "s", {"most_ratio": 0.6}),
        ("TLS 1.3 handshakes", "handshakes /s", "/s", {"least_ratio": 1.0}),
        ("broker CPU for a handshake", "handshakes CPU", "ms", {}),
        ("SCRAM-SHA-512 logins", "logins /s", "/s", {"least_ratio": 1.0}),
        ("a SCRAM-SHA-512 login", "login ms", "ms", {"most_ratio": 1.0}),
        ("broker CPU for a login", "login CPU", "ms", {}),
    ]
    for name, key, unit, goal in lines:
        if key in ours.runs:
            yield ServeFigure(name, ours.middle(key), theirs.middle(key), unit, **goal), key


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.secured", description="Time TLS beside Kafka.")
    parser.add_argument("--runs", type=int, default=5, help="measured runs of each load (default: 5)")
    parser.add_argument("--scale", type=float, default=1.0, help="of the loads; below 1 nothing is written")
    parser.add_argument("--only", choices=PARTS, help="that part alone; nothing is written")
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # a node that compiles its modules at every start would be slower
    WORK.mkdir(parents=True, exist_ok=True)
    try:
        kit.set_up()
    except kit.KafkaUnavailableError as unavailable:
        print(f"bench: there is no Kafka to compare with: {unavailable}", file=sys.stderr)
        return 1
    rows: list[ServeFigure] = []
    noise: list[str] = []
    try:
        with tempfile.TemporaryDirectory(dir=WORK) as name:
            folder = Path(name)
            write_certificates(folder)
            if options.only in (None, *BESIDE_KAFKA):
                with ExitStack() as stack:
                    ours, theirs = run_kcli(stack, folder), run_kafka(stack, folder)
                    measure((ours, theirs), folder, options.runs, options.scale, options.only)
                for row, key in figures(ours, theirs):
                    rows.append(row)
                    noise.append(f"{row.name} {ours.noise(key):.0%} and {theirs.noise(key):.0%}")
            if options.only in (None, "ready"):
                seconds = median(ready_seconds(folder, options.runs))
                rows.append(ServeFigure("ready with TLS in a new directory", seconds, None, "s", most=0.5))
            if options.only in (None, "acls"):
                rows += acl_figures(folder, options.runs, options.scale)
    except (BenchError, OSError, subprocess.CalledProcessError) as failed:
        print(f"bench: {failed}", file=sys.stderr)
        return 1
    told = f"Farthest run from the median, kcli and Kafka: {'; '.join(noise)}." if noise else ""
    text = serve_table(rows)
    print(f"{text}\n\n{told}")
    if options.scale >= 1.0 and options.only is None:
        heading = "# TLS and SASL of kcli serve beside Kafka 4.3"
        RESULTS.write_text(f"{heading}\n\nMedians of {options.runs} runs. {machine()}.\n\n{text}\n\n{told}\n")
    return 1 if any(row.reached is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
