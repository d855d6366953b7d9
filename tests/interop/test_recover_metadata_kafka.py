"""Real Kafka on a damaged metadata log does what kcli recover predicts, and starts on what --salvage makes of it."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.cli.run import kcli
from tests.interop.kit import kafka
from tests.metadata_damage import LOG, byte_of, copied, flip, partitions, strays

NODE = f"kcli-metadata-{os.getpid()}"
DAMAGED_TOPIC = "java-zstd"


def started(directory: Path) -> tuple[set[str], set[str]]:
    """Start Kafka on a copy; return the strays and the topics."""
    address = kafka("open", str(directory), NODE).strip()
    try:
        topics = set(kafka("topics", "--bootstrap-server", address, "--list").split())
        found = strays(Path(kafka("dir", NODE).strip()))
    finally:
        kafka("stop", NODE)
        kafka("rm", NODE)
    return found, topics


def test_cut_metadata_log(kafka_jars: Path, tmp_path: Path) -> None:
    directory = copied(tmp_path)
    topics = {name.rpartition("-")[0] for name in partitions(directory)}
    flip(directory / LOG, byte_of(directory, "TopicRecord", DAMAGED_TOPIC))
    told = [json.loads(line) for line in kcli("recover", "--format", "jsonl", directory).stdout.splitlines()]
    predicted = {row["partition"] for row in told if row["kind"] == "stray"}
    forgotten = {row["name"] for row in told if row["kind"] == "metadata-lost" and row["what"] == "topic"}
    found, known = started(directory)
    assert predicted
    assert found == predicted
    assert not known & forgotten
    assert kcli("recover", "--salvage", "--out", tmp_path / "new", directory).status == 0
    found, known = started(tmp_path / "new")
    assert found == set()
    assert known >= topics
