"""kcli pipe as a process: plans, complaints, and pipes of each kind, killed and interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from kcli.testing.kafka import Kafka
from tests.cli.run import KCLI, Ended, kcli
from tests.pipelines.test_bootstrap import history
from tests.pipelines.test_live_batch import batches, delete_records, delete_topic, flip
from tests.pipelines.test_sink import consumed

SPARK = ("--master", "local[2]", "--format", "jsonl")
TIMEOUT_S = 600


def topic(kafka: Kafka, name: str) -> str:
    return f"kafka://{kafka.bootstrap_servers}/{name}"


def pipe(*arguments: str | Path, timeout: float = 60) -> Ended:
    return kcli("pipe", *arguments, timeout=timeout)


def lines(ended: Ended) -> list[dict[str, Any]]:
    assert ended.status == 0, ended
    return [json.loads(line) for line in ended.stdout.splitlines()]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Any]:
    """Start pipes, whose temporary files are the test's, and which end with it."""
    running: list[subprocess.Popen[str]] = []

    def start(*arguments: str | Path) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*KCLI, "pipe", *arguments, *SPARK],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        )
        running.append(process)
        return process

    yield start
    for process in running:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def progress_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    """The next line of its progress."""
    assert process.stdout is not None
    found: dict[str, Any] = json.loads(process.stdout.readline())
    assert found["type"] == "progress"
    return found


def test_a_pipe_that_is_killed(kafka: Kafka, tmp_path: Path, started: Any) -> None:
    kafka.seed({"t": 2, "u": 2})
    kafka.produce(
        "t", *({"key": str(i), "value": str(i), "partition": i % 2, "headers": {"h": str(i)}} for i in range(2_000))
    )
    ends = topic(kafka, "t"), topic(kafka, "u"), "--checkpoint", tmp_path / "checkpoint"
    more = "--max-offsets", "300", "--keep-partitions", "--compression-type", "zstd"
    process = started(*ends, *more)
    first = progress_of(process)
    assert (first["batches"], first["records"], first["lag"]) == (1, 300, 1_700)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()  # until then it has the lock of the checkpoint
    plan = lines(pipe(*ends, "--dry-run", "--format", "jsonl"))[-1]
    assert (plan["type"], plan["new"]) == ("plan", False)
    assert 0 < plan["unread"] <= 2_000
    summary = lines(pipe(*ends, *more, *SPARK, timeout=TIMEOUT_S))[-1]
    assert summary["type"] == "summary"
    assert summary["lag"] == 0
    found = consumed(kafka, "u", 2)
    assert sorted(int(each.value()) for each in found) == [*range(2_000)]
    assert all(each.partition() == int(each.key()) % 2 for each in found)
    assert all(each.headers() == [("h", each.value())] for each in found)
    assert pipe(*ends).stdout.startswith(f"{topic(kafka, 'u')}  nothing new")


def test_from_a_topic_to_a_table_and_back(kafka: Kafka, tmp_path: Path) -> None:
    kafka.seed({"t": 2, "u": 1})
    kafka.produce("t", *({"key": str(i), "value": str(i)} for i in range(100)))
    out = tmp_path / "lake"
    summary = lines(pipe(topic(kafka, "t"), f"delta:{out}", *SPARK, "--value-format", "string", timeout=TIMEOUT_S))[-1]
    assert (summary["records"], summary["undecoded"]) == (100, 0)
    table = DeltaTable(str(out)).to_pyarrow_table()
    assert sorted(map(int, table["value"].to_pylist())) == [*range(100)]
    back = f"delta:{out}", topic(kafka, "u"), "--checkpoint", tmp_path / "checkpoint"
    plan = pipe(*back, "--dry-run")
    assert plan.status == 0
    assert "100 rows to read" in plan.stdout
    assert lines(pipe(*back, *SPARK, timeout=TIMEOUT_S))[-1]["records"] == 100
    assert sorted(int(each.value()) for each in consumed(kafka, "u")) == [*range(100)]
    assert "nothing new" in pipe(*back).stdout
    DeltaTable(str(out)).delete('"offset" = 0')
    changed = pipe(*back)
    assert changed.status == 1
    assert changed.complaint.endswith("a topic takes nothing back: another --checkpoint pipes all rows")


def test_what_is_lost_and_what_is_damaged(kafka: Kafka, tmp_path: Path) -> None:
    """Each is told once, wherever in Spark it was found, with the options of the command line."""
    kafka.seed({"t": 1, "u": 1})
    segment = batches(kafka, 6)
    ends = topic(kafka, "t"), topic(kafka, "u"), "--checkpoint", tmp_path / "checkpoint"
    more = "--allow-data-loss", "--on-corruption", "skip"
    assert lines(pipe(*ends, *SPARK, timeout=TIMEOUT_S))[-1]["records"] == 6
    batches(kafka, 6)
    delete_records(kafka, "t", 8)
    flip(segment, b"value-4", last=True)
    lost = "kcli: t-0: offset 6 is gone, the log starts at 8"
    for options in ((), ("--dry-run",)):
        refused = pipe(*ends, *options)
        assert (refused.status, refused.stdout) == (1, "")
        assert refused.stderr == f"{lost}; --allow-data-loss goes on with what there is\n"
    done = pipe(*ends, *more, *SPARK, timeout=TIMEOUT_S)
    assert lines(done)[-1]["records"] == 3
    damaged, gone = sorted(done.stderr.splitlines())
    assert gone == lost
    assert damaged.startswith("kcli: t-0 at offset 10: CRC is ")
    assert damaged.endswith("; passed over")
    assert [each.value() for each in consumed(kafka, "u")][6:] == [b"value-2", b"value-3", b"value-5"]


def test_from_a_directory_until_interrupted(kafka: Kafka, tmp_path: Path, started: Any) -> None:
    kafka.seed({"t": 1, "u": 1})
    kafka.produce("t", *({"key": str(i), "value": str(i)} for i in range(10)))
    kafka.restart()
    ends = f"log:{kafka.data_dir}/t", topic(kafka, "u"), "--checkpoint", tmp_path / "checkpoint"
    process = started(*ends, "--follow", "--beyond-high-watermark")
    assert progress_of(process)["records"] == 10
    kafka.produce("t", "late")
    assert progress_of(process)["records"] == 11
    process.send_signal(signal.SIGINT)
    out, complaint = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130
    assert json.loads(out)["records"] == 11
    assert complaint == "kcli: interrupted: the same command goes on\n"
    assert len(consumed(kafka, "u")) == 11


def test_plans(kafka: Kafka, tmp_path: Path) -> None:
    """They write nothing, and need no Spark."""
    disk = history(kafka, tmp_path / "disk")
    kafka.create_topic("u")
    checkpoint = tmp_path / "checkpoint"
    ends = topic(kafka, "t"), topic(kafka, "u"), "--checkpoint", checkpoint, "--dry-run"
    shown = pipe(*ends, "--bootstrap-from", disk)
    assert (shown.status, shown.stderr) == (0, "")
    assert shown.stdout == (
        f"FROM        {topic(kafka, 't')}\nTO          {topic(kafka, 'u')}\nCHECKPOINT  {checkpoint}, new\n\n"
        "OFFSETS OF  START  END  UNREAD\nt-0         0      15   15\n15 offsets to read\n"
    )
    assert lines(pipe(*ends, "--format", "jsonl")) == [
        {"type": "part", "name": "t-0", "start": 6, "end": 15, "unread": 9},
        {
            "type": "plan",
            "source": topic(kafka, "t"),
            "target": topic(kafka, "u"),
            "checkpoint": str(checkpoint),
            "new": True,
            "unit": "offset",
            "unread": 9,
        },
    ]
    into = lines(pipe(topic(kafka, "t"), f"iceberg:{tmp_path}/lake", "--dry-run", "--format", "jsonl"))
    assert (into[-1]["checkpoint"], into[-1]["unread"]) == (None, 9)
    of_disk = lines(pipe(f"log:{disk}/t", f"delta:{tmp_path}/lake", "--dry-run", "--format", "jsonl"))
    assert of_disk[-1]["unread"] == 10
    assert not checkpoint.exists()
    assert not (tmp_path / "lake").exists()


def test_complaints(kafka: Kafka, tmp_path: Path) -> None:
    kafka.seed({"t": 1, "u": 1, "w": 1})
    kafka.produce("t", "x")
    t, u, w = topic(kafka, "t"), topic(kafka, "u"), topic(kafka, "w")
    kafka.produce("w", {"value": b"\0\0\0\0\1x"})
    c, avro = ("--checkpoint", tmp_path / "c"), "avro:http://127.0.0.1:1"
    write_deltalake(tmp_path / "numbers", pa.table({"value": [1]}))
    config = tmp_path / "client.properties"
    config.write_text("group.id=x\n")
    for status, message, *arguments in (
        (2, "'mysql://x/y' is no end of a pipe: kafka://HOST:PORT/TOPIC, log:", "mysql://x/y", u),
        (2, "a log directory is only read", t, "log:/x/y"),
        (2, "a pipe into a topic needs --checkpoint DIR", t, u),
        (2, "a pipe from a table goes into a topic", "delta:a", "delta:b"),
        (2, "--checkpoint goes with a topic as TO", t, "delta:b", *c),
        (2, "--key-format, --value-format", t, u, *c, "--value-format", "string"),
        (2, "--bootstrap-from goes with a topic as FROM", "delta:a", u, *c, "--bootstrap-from", "x"),
        (2, "--beyond-high-watermark goes with a log directory as FROM", t, u, *c, "--beyond-high-watermark"),
        (2, "--keep-partitions goes with a topic or a log", "delta:a", u, *c, "--keep-partitions"),
        (2, "--keep-partitions goes with a topic as TO", t, "delta:b", "--keep-partitions"),
        (2, "--max-offsets goes with a topic as TO", t, "delta:b", "--max-offsets", "7"),
        (2, "--max-offsets goes with a topic or a log", "delta:a", u, *c, "--max-offsets", "7"),
        (2, "--isolation-level goes with a topic or a log", "delta:a", u, *c, "--isolation-level", "read_uncommitted"),
        (2, "--on-corruption goes with a topic or a log", "delta:a", u, *c, "--on-corruption", "skip"),
        (2, "--allow-data-loss goes with a topic or a log", "delta:a", u, *c, "--allow-data-loss"),
        (2, "--catalog goes with an Iceberg table as FROM or TO", t, u, *c, "--catalog", "x"),
        (2, "--interval goes with --follow", t, u, *c, "--interval", "5"),
        (2, "--on-corruption report: fail or skip it", t, "delta:b", "--on-corruption", "report"),
        (2, "/proc/x: no table can be written there, as no directory can be made in /proc", t, "delta:/proc/x"),
        (2, "the schema registry http://127.0.0.1:1 does not answer", w, "delta:b", "--value-format", avro),
        (2, "the schema registry http://127.0.0.1:1", w, "delta:b", "--value-format", avro, "--dry-run"),
        (2, "--catalog and --table-name go together", t, "iceberg:b", "--catalog", "x"),
        (2, "isolation='x'", t, u, *c, "--isolation-level", "x"),
        (2, "kafka.compression.type='x'", t, u, *c, "--compression-type", "x"),
        (2, "are one topic", t, t, *c),
        (2, "no topic 'v' in", topic(kafka, "v"), u, *c),
        (2, "no topic 'v' in", t, topic(kafka, "v"), *c),
        (2, "no topic 'v' in", f"log:{kafka.data_dir}/v", u, *c),
        (2, "/nowhere: no such file or directory", "log:/nowhere/t", u, *c),
        (2, "nowhere is no Delta table", f"delta:{tmp_path}/nowhere", u, *c),
        (2, "there is no Iceberg table", f"iceberg:{tmp_path}/nowhere", u, *c),
        (2, "column value is int64: only bytes and text", f"delta:{tmp_path}/numbers", u, *c),
        (2, "/nowhere: no such file or directory", t, u, *c, "--bootstrap-from", "/nowhere"),
        (1, "127.0.0.1:1: no broker answers (Connection refused)", "kafka://127.0.0.1:1/t", u, *c),
        (1, "127.0.0.1:1: no broker answers (Connection refused)", t, "kafka://127.0.0.1:1/u", *c),
        (2, "kafka.group.id", t, u, *c, "--target-config", config),
        (2, "client properties are for kafka://", f"log:{kafka.data_dir}/t", u, *c, "--source-config", config),
        (2, "--master 'x' is no master that Spark knows", t, u, *c, "--master", "x"),
    ):
        ended = pipe(*arguments)
        assert (ended.status, ended.stdout) == (status, ""), ended
        assert message in ended.complaint


def test_a_topic_that_was_made_anew(kafka: Kafka, tmp_path: Path) -> None:
    kafka.seed({"t": 1, "u": 1})
    kafka.produce("t", "x")
    ends = topic(kafka, "t"), topic(kafka, "u"), "--checkpoint", tmp_path / "c"
    assert "no master that Spark knows" in pipe(*ends, "--master", "x").complaint
    assert (tmp_path / "c/pipe.json").exists()
    delete_topic(kafka, "u")
    kafka.create_topic("u")
    ended = pipe(*ends)
    assert ended.status == 2
    assert "c is the checkpoint of another pipe: its target is kafka:" in ended.complaint
    assert "the topic was made anew since; --checkpoint with a new directory begins anew" in ended.complaint
