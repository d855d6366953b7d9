"""Real Kafka answers requests about configurations, and judges server.properties, as tests/broker/config has recorded.

`KAFKA_RECORD=1 pytest tests/interop/test_configs_kafka.py` writes its responses down anew.
"""

import gzip
import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from itertools import chain, islice, repeat
from pathlib import Path

import pytest

from tests.broker.config.oracle import ANSWERS, BROKER, CASES, PROPERTIES, TOPICS, Case, ask, create
from tests.broker.config.server_properties import CROSS, JUDGE, VERDICTS, sweep, with_base
from tests.conftest import read_jsonl
from tests.interop import kit
from tests.interop.kit import SCRIPT

NODE = f"kcli-configs-{os.getpid()}"
SETTLES_S = 10.0


def kafka(*arguments: str) -> str:
    done = subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


@pytest.fixture
def broker(kafka_jars: Path) -> Iterator[socket.socket]:
    kafka("start", NODE, *(f"{name}={value}" for name, value in PROPERTIES.items()))
    host, port = kafka("bootstrap", NODE).split(":")
    try:
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            yield connection
    finally:
        kafka("kill", NODE)
        kafka("rm", NODE)


def server_properties() -> dict[str, str]:
    lines = (kit.kit_dir() / "nodes" / NODE / "server.properties").read_text().splitlines()
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def without_places(text: str, properties: dict[str, str]) -> str:
    """Return the response without addresses, ports and directories."""
    own, controllers = (each.rpartition(":")[2] for each in properties["listeners"].split(","))
    return (
        text.replace(properties["log.dirs"], "/kafka/data")
        .replace(f":{own}", ":9092")
        .replace(f":{controllers}", ":9093")
    )


def exchange(connection: socket.socket, case: Case, properties: dict[str, str]) -> str:
    """A request and its answer."""
    line = {"api": case.api, "version": case.version, "request": case.request, "answer": ask(connection, case)}
    return without_places(json.dumps(line), properties)


def conversation(connection: socket.socket, properties: dict[str, str]) -> Iterator[str]:
    """Send each request. A description is repeated until the broker shows what was recorded."""
    changed = False
    written = chain(read_jsonl(ANSWERS), repeat(None)) if not os.environ.get("KAFKA_RECORD") else repeat(None)
    for case, expected in zip(CASES, islice(written, 1, None), strict=False):
        alters = case.api.endswith("alter_configs")
        if changed and (not alters or any(each["resource_type"] == BROKER for each in case.request["resources"])):
            time.sleep(0.15)  # until the broker has applied the controller's records
        changed = alters
        line = exchange(connection, case, properties)
        until = time.monotonic() + SETTLES_S
        while not alters and expected not in (None, json.loads(line)) and time.monotonic() < until:
            time.sleep(0.1)
            line = exchange(connection, case, properties)
        yield line


def write_down(path: Path, lines: Sequence[str]) -> None:
    if os.environ.get("KAFKA_RECORD"):
        path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0))


def test_kafka_answers_as_written_down(broker: socket.socket) -> None:
    properties = server_properties()
    assert ask(broker, create(*TOPICS))["topics"]
    time.sleep(1)
    found = [without_places(json.dumps({"properties": properties}), properties), *conversation(broker, properties)]
    write_down(ANSWERS, found)
    for line, expected in zip(found, read_jsonl(ANSWERS), strict=True):
        assert json.loads(line) == expected


def test_kafka_judges_as_written_down(kafka_jars: Path, tmp_path: Path) -> None:
    cases = [*sweep(), *CROSS]
    lines = []
    for changes in cases:
        words = [next(iter(changes), ""), *chain(*with_base(changes).items())]
        lines.append("\t".join(words) + "\n")
    program, verdicts = tmp_path / "Judge.java", tmp_path / "verdicts"
    program.write_text(JUDGE)
    command = [
        "java",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-cp",
        f"{kafka_jars}/*",
        str(program),
        str(verdicts),
    ]
    subprocess.run(command, input="".join(lines), text=True, check=True, stderr=subprocess.DEVNULL, timeout=180)
    judged = [line.split("\t", 1) for line in verdicts.read_text().splitlines()]
    found = [json.dumps([changes, *verdict]) for changes, verdict in zip(cases, judged, strict=True)]
    write_down(VERDICTS, found)
    assert [json.loads(line) for line in found] == list(read_jsonl(VERDICTS))
