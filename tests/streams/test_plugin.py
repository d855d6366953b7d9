"""kafka.streams of the pytest plugin, and kcli streams lag."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kcli.streams import ProcessingError, Topology
from kcli.testing.kafka import Kafka
from tests.streams.applications import PROGRAMS, new_builder


def lag(kafka: Kafka, program: Path) -> list[dict[str, object]]:
    arguments = ["lag", str(program), "--application-id", "app", "-b", kafka.bootstrap_servers, "--format", "jsonl"]
    command = [sys.executable, "-m", "kcli", "streams", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_program_in_a_test(kafka: Kafka, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("from tests.streams.applications import count\ntopology = count()\n")
    with kafka.streams(PROGRAMS["count"](), partitions=2) as app:
        kafka.produce("a", {"key": "k", "value": "x y x"})
        app.wait_processed()
        assert sorted(record.value or b"" for record in kafka.records("out")) == [b"count 1", b"count 1", b"count 2"]
        assert app.running_tasks == ["0_0", "0_1", "1_0", "1_1"]
        rows = lag(kafka, program)
    assert [(row["task"], row["topic"], row["partition"], row["lag"]) for row in rows] == [
        ("0_0", "a", 0, 0),
        ("0_1", "a", 1, 0),
        ("1_0", "app-counts-repartition", 0, 0),
        ("1_1", "app-counts-repartition", 1, 0),
    ]
    assert len({row["member"] for row in rows}) == 1
    kafka.produce("a", *({"key": "k", "value": "x"} for _ in range(3)))
    assert [(row["lag"], row["member"]) for row in lag(kafka, program) if row["topic"] == "a"].count((3, None)) == 1


def failing() -> Topology:
    builder = new_builder()
    builder.stream("a").map_values(lambda value: value.missing).to("out")
    return builder.build()


def test_what_a_program_raises_is_raised_in_the_test(kafka: Kafka) -> None:
    with kafka.streams(failing()) as app:
        kafka.produce("a", {"value": "x"})
        with pytest.raises(ProcessingError, match="AttributeError: 'str' object has no attribute 'missing'"):
            app.wait_processed()


def test_a_program_that_is_not_done(kafka: Kafka) -> None:
    with kafka.streams(PROGRAMS["count"]()) as app:
        app.wait_processed()
        app.app.close()
        kafka.produce("a", {"value": "x"})
        with pytest.raises(TimeoutError, match="app has not processed all in 0 s: a-0 by 1"):
            app.wait_processed(0)
