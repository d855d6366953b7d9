"""Real Kafka answers requests about configurations as tests/broker/configs says it does.

`KAFKA_RECORD=1 pytest tests/interop/test_configs_kafka.py` writes its answers down anew."""

import gzip
import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.configs.oracle import ANSWERS, BROKER, CASES, PROPERTIES, TOPICS, Plain, ask, create
from tests.conftest import read_jsonl
from tests.interop import kit
from tests.interop.kit import SCRIPT

NODE = "kcli-configs"


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
    """The same wherever the node is, and on whatever ports."""
    own, controllers = (each.rpartition(":")[2] for each in properties["listeners"].split(","))
    return (
        text.replace(properties["log.dirs"], "/kafka/data")
        .replace(f":{own}", ":9092")
        .replace(f":{controllers}", ":9093")
    )


def conversation(connection: socket.socket) -> Iterator[Plain]:
    changed = False
    for case in CASES:
        alters = case.api.endswith("alter_configs")
        if changed and (not alters or any(each["resource_type"] == BROKER for each in case.request["resources"])):
            time.sleep(0.15)  # until the broker has taken in what the controller wrote
        changed = alters
        yield {"api": case.api, "version": case.version, "request": case.request, "answer": ask(connection, case)}


def test_kafka_answers_as_written_down(broker: socket.socket) -> None:
    properties = server_properties()
    assert ask(broker, create(*TOPICS))["topics"]
    time.sleep(1)
    lines = [{"properties": properties}, *conversation(broker)]
    found = [without_places(json.dumps(line), properties) for line in lines]
    if os.environ.get("KAFKA_RECORD"):
        ANSWERS.write_bytes(gzip.compress("".join(f"{line}\n" for line in found).encode(), mtime=0))
    for line, expected in zip(found, read_jsonl(ANSWERS), strict=True):
        assert json.loads(line) == expected
