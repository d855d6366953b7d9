"""Real, unmodified clients on `kcli serve`: they create topics, produce with every codec, and consume assigned
partitions.

See clients/README.md. Every client has the same job and must give the same report.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from formats.compression import CODEC_NAMES
from formats.record_batch import BatchHeader, parse_header
from kcli.broker.wire.apis import APIS
from tests.broker.running import served_node
from tests.interop.clients import job as jobs
from tests.interop.clients import toolchains
from tests.interop.clients.job import CODECS, Json

TIMEOUT_S = 120.0
TAIL_MS = 5000.0  # a record ends the wait, although the broker may wait four times as long
METADATA_VERSION = 30  # 4.3-IV0
FIND_COORDINATOR = 10
DETAILS = frozenset({"max_timestamp", "producers", "log_size_bytes", "metadata_version", "quorum_leader", "quota"})


@dataclass(frozen=True)
class Client:
    """A client: how it is started, the keys of the report that it cannot fill, and whether it sends null as a header
    value."""

    name: str
    command: Callable[[], list[str]]
    lacks: frozenset[str]
    null_headers: bool = True
    marks: tuple[pytest.MarkDecorator, ...] = ()


CLIENTS = [
    Client("kafka-python", toolchains.python("kafka_python"), frozenset({"quota"}), null_headers=False),
    Client("aiokafka", toolchains.python("aio_kafka"), DETAILS),
    Client("confluent-kafka", toolchains.python("confluent"), DETAILS - {"max_timestamp"}),
    Client("java", toolchains.java, frozenset(), marks=(pytest.mark.kafka,)),
    Client("franz-go", toolchains.go, frozenset()),
    Client("kafkajs", toolchains.node, DETAILS | {"low_watermark"}, null_headers=False),
]


def headers_of(path: Path) -> list[BatchHeader]:
    """The headers of all batches of a log file."""
    data = path.read_bytes()
    found: list[BatchHeader] = []
    position = 0
    while position < len(data):
        found.append(parse_header(data, position))
        position += found[-1].size
    return found


def codec_on_disk(client: Client, codec: str) -> str:
    """Return the codec with which a client compresses when it is configured for another one."""
    # librdkafka infers from FindCoordinator's version that a broker knows lz4 (its feature map); without it, it sends
    # plain batches
    return "none" if (client.name, codec) == ("confluent-kafka", "lz4") and FIND_COORDINATOR not in APIS else codec


def check_log(client: Client, data_dir: Path, run: Json) -> None:
    """Check that the batches of a run are compressed, where that saves bytes, and whether they have a producer id."""
    codec = codec_on_disk(client, run["codec"])
    for partition in range(run["partitions"]):
        headers = headers_of(data_dir / f"{run['topic']}-{partition}" / f"{0:020}.log")
        assert {CODEC_NAMES[header.codec] for header in headers} - {"none"} == {codec} - {"none"}
        assert all((header.producer_id >= 0) == run["idempotent"] for header in headers)


@pytest.mark.parametrize("client", [pytest.param(each, id=each.name, marks=each.marks) for each in CLIENTS])
def test_client(client: Client, tmp_path: Path) -> None:
    try:
        command = client.command()
    except toolchains.ToolchainMissing as missing:
        pytest.skip(f"{client.name}: {missing}")
    job = jobs.job(CODECS, null_headers=client.null_headers)
    (tmp_path / "job.json").write_text(json.dumps(job), encoding="utf-8")
    data_dir = tmp_path / "data"
    with served_node(data_dir, "-o", "log.retention.ms=-1") as node:
        program = [*command, node.bootstrap, str(tmp_path / "job.json")]
        done = subprocess.run(program, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert done.returncode == 0, done.stderr[-5000:]
        log_size_bytes = (data_dir / "idempotent-none-0" / f"{0:020}.log").stat().st_size
        for run in job["runs"]:
            check_log(client, data_dir, run)
    report = json.loads(done.stdout.splitlines()[-1])
    assert report.pop("client").startswith(client.name)
    assert report.pop("tail_ms") < TAIL_MS
    properties = dict(line.split("=", 1) for line in (data_dir / "meta.properties").read_text().split() if "=" in line)
    node_id = int(properties["node.id"])
    expected = jobs.report(job) | {
        "cluster": {"id": properties["cluster.id"], "controller": node_id, "nodes": [node_id]},
        "log_size_bytes": log_size_bytes,
        "metadata_version": METADATA_VERSION,
        "quorum_leader": node_id,
    }
    for rows in report["read"].values():
        rows.sort(key=lambda row: row[:2])
    assert set(report) == set(expected) - client.lacks
    for key, value in report.items():
        assert value == expected[key], key
