"""kcli streams: a program that runs until it is stopped, its stores, and its reset."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kcli.client.connection import Connection
from kcli.client.groups import Groups
from kcli.client.processing import delete_before
from kcli.protocol.topic_partition import TopicPartition
from kcli.testing.kafka import Kafka
from tests.streams.applications import START_MS, Input, consumed, produce, wait_until

PROGRAM = """
from kcli.streams import LONG, STRING, SessionWindows, StreamsBuilder, TimeWindows

builder = StreamsBuilder(key_serde=STRING, value_serde=STRING)
stream = builder.stream("a")
counts = stream.group_by(lambda _, word: word).count(store_name="counts")
counts.to_stream().to("out", value_serde=LONG)
stream.group_by_key().windowed_by(TimeWindows(size_ms=1000)).count(store_name="windows")
stream.group_by_key().windowed_by(SessionWindows(inactivity_gap_ms=1000)).count(store_name="sessions")
topology = builder.build()
"""

pytestmark = pytest.mark.kafka_broker(config={"group.initial.rebalance.delay.ms": "0"})


def kcli(*arguments: str, kafka: Kafka | None = None) -> subprocess.CompletedProcess[str]:
    more = {} if kafka is None else {"KCLI_BOOTSTRAP_SERVER": kafka.bootstrap_servers}
    command = [sys.executable, "-m", "kcli", "streams", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **more})


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return str(path)


@pytest.mark.timeout(400)
def test_run_on_spark(kafka: Kafka, program: str, tmp_path: Path) -> None:
    kafka.seed({"a": 1, "out": 1})
    produce(kafka.bootstrap_servers, [Input("a", "k", value, START_MS + i) for i, value in enumerate("xyxx")])
    arguments = [program, "--application-id", "app", "--runner", "spark", "-b", kafka.bootstrap_servers]
    on_spark = ["--checkpoint", str(tmp_path / "checkpoint"), "--master", "local[1]"]
    with subprocess.Popen([sys.executable, "-m", "kcli", "streams", "run", *arguments, *on_spark]) as process:
        wait_until(lambda: len(consumed(kafka.bootstrap_servers, "out", 1)) == 4, 240)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    shown = kcli("store", "app", "counts", "--value-serde", "long", "--format", "jsonl", kafka=kafka)
    assert {row["key"]: row["value"] for row in map(json.loads, shown.stdout.splitlines())} == {"x": 3, "y": 1}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--runner", "flink"], "--runner 'flink' is none of local, spark"),
        (["--runner", "spark"], "--runner spark needs --checkpoint, a directory"),
        (["--checkpoint", "c"], "--checkpoint: only with --runner spark"),
        (
            ["--runner", "spark", "--checkpoint", "c", "--config", "num.standby.replicas=1"],
            "num.standby.replicas: Spark's workers have no standbys: the local runner has",
        ),
        (
            ["--runner", "spark", "--instance-id", "one", "--processing-guarantee", "at_least_once"],
            "--instance-id, --processing-guarantee: only with --runner local",
        ),
    ],
)
def test_options_of_runners(program: str, arguments: list[str], reason: str) -> None:
    ran = kcli("run", program, "--application-id", "app", *arguments)
    assert (ran.returncode, ran.stderr) == (2, f"kcli: {reason}\n")


def test_run_store_and_reset(kafka: Kafka, program: str) -> None:
    kafka.seed({"a": 1, "out": 1})
    start = START_MS // 1000 * 1000
    produce(kafka.bootstrap_servers, [Input("a", "k", value, start + 10 * i) for i, value in enumerate("xyxx")])
    arguments = [program, "--application-id", "app", "--instance-id", "one", "-b", kafka.bootstrap_servers]
    with subprocess.Popen([sys.executable, "-m", "kcli", "streams", "run", *arguments]) as process:
        wait_until(lambda: len(consumed(kafka.bootstrap_servers, "out", 1)) == 4)
        running = kcli("reset", "app", kafka=kafka)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert (running.returncode, running.stderr) == (
        1,
        "kcli: app is reset while none of its instances runs: its group is Stable\n",
    )

    shown = kcli("store", "app", "counts", "--value-serde", "long", "--format", "jsonl", kafka=kafka)
    rows = [json.loads(line) for line in shown.stdout.splitlines()]
    assert [(row["key"], row["value"], row["timestamp"] - start) for row in rows] == [("y", 1, 10), ("x", 3, 30)] or [
        (row["key"], row["value"], row["timestamp"] - start) for row in rows
    ] == [("x", 3, 30), ("y", 1, 10)]
    directory = str(kafka.data_dir)
    of_disk = kcli("store", "app", "counts", "--value-serde", "long", "--format", "jsonl", "--data-dir", directory)
    assert of_disk.stdout == shown.stdout
    arguments = ["--value-serde", "long", "--format", "jsonl", "--at", str(start + 25)]
    earlier = kcli("store", "app", "counts", *arguments, kafka=kafka)
    assert sorted((row["key"], row["value"]) for row in map(json.loads, earlier.stdout.splitlines())) == [
        ("x", 2),
        ("y", 1),
    ]
    assert kcli("store", "app", "counts", *arguments, "--data-dir", directory).stdout == earlier.stdout
    one = kcli("store", "app", "counts", "--value-serde", "long", "--key", "x", kafka=kafka)
    assert one.stdout.split()[:5] == ["PARTITION", "OFFSET", "TIMESTAMP", "KEY", "VALUE"]
    assert one.stdout.split()[-2:] == ["x", "3"]
    for windows, store, more in (
        ("time", "windows", {"start": start}),
        ("session", "sessions", {"start": start, "end": start + 30}),
    ):
        found = kcli(
            "store", "app", store, "--windows", windows, "--value-serde", "long", "--format", "jsonl", kafka=kafka
        )
        (row,) = map(json.loads, found.stdout.splitlines())
        assert row.items() >= {"key": "k", "value": 4, **more}.items()

    explained = kcli("store", "app", "counts", "--key", "x", "--explain", program, "--format", "jsonl", kafka=kafka)
    assert (explained.returncode, explained.stderr) == (0, "")
    assert [json.loads(line) for line in explained.stdout.splitlines()] == [
        {
            "topic": "a",
            "partition": 0,
            "offset": offset,
            "timestamp": start + 10 * offset,
            "key": "k",
            "value": "x",
            "result": result,
        }
        for offset, result in ((0, 1), (2, 2), (3, 3))
    ]
    explained = kcli("store", "app", "sessions", "--key", "k", "--explain", program, kafka=kafka)
    last = explained.stdout.splitlines()[-1].split()
    assert last == [str(start), str(start + 30), "a", "0", "3", str(start + 30), "k", "x", "4"]
    unknown = kcli("store", "app", "more", "--key", "k", "--explain", program, kafka=kafka)
    assert (unknown.returncode, unknown.stderr) == (
        1,
        "kcli: the program has no store more; it has counts, sessions, windows\n",
    )
    client = Connection(kafka.bootstrap_servers).admin()
    delete_before(client, {TopicPartition("a", 0): 1})
    groups = Groups(Connection(kafka.bootstrap_servers))
    wait_until(lambda: groups.starts([TopicPartition("a", 0)])[TopicPartition("a", 0)] == 1)
    lossy = kcli("store", "app", "counts", "--key", "x", "--explain", program, kafka=kafka)
    assert lossy.stderr == (
        "kcli: a, partition 0 begins at offset 1: earlier records are gone\n"
        "kcli: partition 0, key x: the changelog has another value than these records make\n"
    )

    wanted = kcli("reset", "app", "--input-topic", "a", kafka=kafka)
    assert wanted.stderr == "kcli: 6 changes shown, none made: --execute makes them\n"
    assert wanted.stdout.splitlines()[1].split() == ["a-0", "offset", "1"]
    assert "app-counts-changelog" in kafka.topics()
    done = kcli("reset", "app", "--input-topic", "a", "--execute", kafka=kafka)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", wanted.stdout)
    assert not [name for name in kafka.topics() if name.startswith("app-")]


NOW = "--explain asks a cluster for what is there now: without --data-dir and --at"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "--explain needs --key"),
        (["--key", "k", "--at", "5"], NOW),
        (["--key", "k", "--data-dir", "."], NOW),
    ],
)
def test_what_explain_needs(program: str, arguments: list[str], reason: str) -> None:
    ran = kcli("store", "app", "counts", "--explain", program, *arguments)
    assert (ran.returncode, ran.stderr) == (2, f"kcli: {reason}\n")


def test_a_versioned_store_has_the_latest_value_last(kafka: Kafka) -> None:
    kafka.create_topic("app-rows-changelog", 1)
    puts = [Input("app-rows-changelog", "k", value, START_MS + time) for value, time in (("x", 5), ("y", 9), ("z", 7))]
    produce(kafka.bootstrap_servers, puts)

    def shown(*arguments: str) -> list[str]:
        found = kcli("store", "app", "rows", "--format", "jsonl", *arguments, kafka=kafka)
        return [json.loads(line)["value"] for line in found.stdout.splitlines()]

    assert shown() == ["z"]
    assert shown("--versioned") == ["y"]
    assert shown("--versioned", "--at", str(START_MS + 8)) == ["z"]
    assert shown("--versioned", "--at", str(START_MS + 6)) == ["x"]


def test_describe(program: str) -> None:
    described = kcli("describe", program)
    assert described.stdout.startswith("Topologies:\n   Sub-topology: 0\n    Source: KSTREAM-SOURCE-0000000000")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1 / 0", "{}: line 1: ZeroDivisionError: division by zero"),
        ("x = 1", "{}: the file must set topology to a Topology, as StreamsBuilder.build returns it"),
        ("\ndef", "{}: line 2: SyntaxError: invalid syntax (bad.py, line 2)"),
        (
            "from kcli.streams import *\nStreamsBuilder().stream('a')\ntopology = StreamsBuilder().stream()",
            "{}: a stream needs a topic",
        ),
    ],
)
def test_programs_that_are_none(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.py"
    path.write_text(text)
    found = kcli("describe", str(path))
    assert (found.returncode, found.stderr) == (1, f"kcli: {message.format(path)}\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["describe", "nowhere.py"], "nowhere.py: no such file"),
        (["store", "app", "s", "--windows", "x"], "--windows 'x' is none of none, time, session"),
        (
            ["store", "app", "s", "--key-serde", "x"],
            "--key-serde 'x' is none of bytes, string, integer, long, double, json",
        ),
        (["reset", "app", "--to-latest", "--to-earliest"], "give one of --to-earliest, --to-latest"),
        (
            ["run", "x.py", "--application-id", "a", "--processing-guarantee", "x"],
            "--processing-guarantee 'x' is none of exactly_once_v2, at_least_once",
        ),
    ],
)
def test_wrong_usage(arguments: list[str], message: str) -> None:
    found = kcli(*arguments)
    assert found.returncode == 2
    assert found.stderr.startswith(f"kcli: {message}")


def test_a_store_of_another_kind(kafka: Kafka) -> None:
    kafka.seed({"app-s-changelog": 1})
    produce(kafka.bootstrap_servers, [Input("app-s-changelog", "k", "x", START_MS)])
    found = kcli("store", "app", "s", "--windows", "time", kafka=kafka)
    assert (found.returncode, found.stderr) == (1, "kcli: a key of 1 bytes has no window: see --windows\n")
    found = kcli("store", "app", "s", "--value-serde", "long", kafka=kafka)
    assert found.returncode == 1
    assert found.stderr.startswith("kcli: 1 bytes are no LONG: ")
    assert kcli("store", "app", "none", kafka=kafka).stderr == "kcli: there is no topic app-none-changelog\n"
