"""kcli produce, against a cluster; kcli consume checks the records."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.run import KCLI, Ended, kcli
from tests.client.clusters import Cluster


def consumed(cluster: Cluster, topic: str, template: str = "%p %k=%s\\n") -> list[str]:
    """Lines of all records of a topic."""
    ended = cluster.run("consume", topic, "-e", "-Z", "-f", template)
    assert (ended.stderr, ended.status) == ("", 0)
    return ended.stdout.splitlines()


def delivered(ended: Ended, count: str) -> None:
    """Check that all records were delivered, and that the summary says so."""
    assert (ended.stdout, ended.status) == ("", 0), ended
    assert ended.complaint.startswith(f"{count} delivered  ")


def test_lines_keys_and_headers(cluster: Cluster, tmp_path: Path) -> None:
    topic = cluster.topic()
    delivered(
        cluster.run("produce", topic, "-K", "::", "-H", "a=1=2", "-H", "null", "-H", "a=", text="k::v\nw\n"),
        "2 records",
    )
    assert consumed(cluster, topic, "%k=%s|%h\\n") == ["k=v|a=1=2,null=NULL,a=", "NULL=w|a=1=2,null=NULL,a="]
    first, second = tmp_path / "one", tmp_path / "two"
    first.write_bytes(b"a|b")
    second.write_bytes(b"\xff\x00|")
    topic = cluster.topic()
    delivered(
        cluster.run("produce", topic, str(first), "-", str(second), "-D", "|", "-k", "0x01ff", text="c|"), "4 records"
    )
    rows = cluster.run("consume", topic, "-e", "--format", "jsonl").stdout.splitlines()
    assert [json.loads(row)["value"] for row in rows] == ["a", "b", "c", {"base64": "/wA="}]
    assert {json.loads(row)["key"]["base64"] for row in rows} == {"Af8="}


def test_empty_and_null(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.run("produce", topic, "-K", ":", text=":\nk:\n\n")
    cluster.run("produce", topic, "-K", ":", "-Z", text=":\nk:\n\n")
    assert consumed(cluster, topic, "%K %S\\n") == ["0 0", "1 0", "-1 0", "-1 -1", "1 -1", "-1 -1"]


def test_a_summary_of_nothing(cluster: Cluster) -> None:
    delivered(cluster.run("produce", cluster.topic(), text=""), "0 records")


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_codecs(cluster: Cluster, codec: str) -> None:
    topic = cluster.topic()
    lines = [f"line {number} {'x' * 100}" for number in range(500)]
    options = ["-z", codec, "--linger-ms", "50", "--batch-size", "20000"]
    delivered(cluster.run("produce", topic, *options, text="\n".join(lines)), "500 records")
    assert consumed(cluster, topic, "%s\\n") == lines


@pytest.mark.parametrize(
    "options", [["--acks", "1"], ["--acks", "0"], ["--acks", "all", "--no-idempotence"], ["--idempotence"]]
)
def test_acks_and_idempotence(cluster: Cluster, options: list[str]) -> None:
    topic = cluster.topic()
    delivered(cluster.run("produce", topic, *options, text="a\nb\n"), "2 records")
    assert consumed(cluster, topic, "%s\\n") == ["a", "b"]


def test_partitioners(cluster: Cluster) -> None:
    topic = cluster.topic("--partitions", "3")
    delivered(cluster.run("produce", topic, "--partitioner", "round-robin", "-k", "same", text="x\n" * 9), "9 records")
    assert sorted(consumed(cluster, topic, "%p\\n")) == ["0"] * 3 + ["1"] * 3 + ["2"] * 3
    topic = cluster.topic("--partitions", "3")
    delivered(cluster.run("produce", topic, "--partitioner", "sticky", text="x\n" * 9), "9 records")
    assert len(set(consumed(cluster, topic, "%p\\n"))) == 1
    topic = cluster.topic("--partitions", "3")
    delivered(cluster.run("produce", topic, "-p", "2", text="x\n" * 9), "9 records")
    assert set(consumed(cluster, topic, "%p\\n")) == {"2"}
    ended = cluster.run("produce", topic, "-p", "3", text="x\n")
    assert ended.status == 1
    assert f"kcli: {topic} has no partition 3: it has 3" in ended.stderr


def test_what_consume_prints_makes_the_same_topic(cluster: Cluster) -> None:
    """Text, other bytes, null and empty keys, values and headers, doubled headers, times, partitions."""
    row = '{{"partition":{},"timestamp":{},"key":{},"value":{},"headers":{}}}'
    rows = [
        row.format(0, 1700000000001, '"k"', '"vé"', "[]"),
        row.format(1, 1600000000000, "null", "null", '[["a",null],["a",""],["b","é"],["b",{"base64":"/w=="}]]'),
        row.format(1, 1750000000000, '""', '""', "[]"),
        row.format(0, 1700000000000, '{"base64":"gIE="}', '{"base64":"AP8="}', '[["",""]]'),
    ]
    first, second = cluster.topic("--partitions", "2"), cluster.topic("--partitions", "2")
    options = ["--format", "jsonl", "--partitioner", "input"]
    delivered(cluster.run("produce", first, *options, text="\n".join(rows)), "4 records")
    printed = cluster.run("consume", first, "-e", "--format", "jsonl").stdout
    delivered(cluster.run("produce", second, *options, text=printed), "4 records")
    again = cluster.run("consume", second, "-e", "--format", "jsonl").stdout
    assert sorted(again.splitlines()) == sorted(printed.replace(first, second).splitlines())
    told = ("partition", "timestamp", "key", "value", "headers")
    found = [{name: json.loads(line)[name] for name in told} for line in printed.splitlines()]
    assert all(json.loads(line) in found for line in rows)
    assert len(found) == len(rows)
    # the lines also name the topics
    delivered(cluster.run("produce", "-", "--format", "jsonl", text=printed), "4 records")
    assert len(consumed(cluster, first)) == 8


def test_a_segment_from_disk_into_a_cluster(cluster: Cluster) -> None:
    """All fields are equal but the timestamp 0, which librdkafka treats as none."""
    dumped = kcli("dump-segment", "--format", "jsonl", "good/java-zstd-0").stdout
    topic = cluster.topic()
    ended = cluster.run("produce", topic, "--format", "jsonl", text=dumped.encode("utf-8", "surrogateescape"))
    assert (ended.stdout, ended.status) == ("", 0)
    printed = cluster.run("consume", topic, "-e", "--format", "jsonl").stdout
    pairs = zip(*(map(json.loads, text.splitlines()) for text in (dumped, printed)), strict=True)
    for before, after in pairs:
        assert all(before[name] == after[name] for name in ("key", "value", "headers"))
        assert before["timestamp"] in (after["timestamp"], 0)


def test_what_is_not_delivered_is_told(cluster: Cluster) -> None:
    topic = cluster.topic("--config", "max.message.bytes=2000")
    ended = cluster.run("produce", topic, "--batch-size", "500", text=f"small\n{'x' * 5000}\nsmall\n{'y' * 5000}\n")
    assert ended.status == 1
    first, summary = ended.stderr.splitlines()
    assert first.startswith(f"kcli: {topic}-0: MESSAGE_TOO_LARGE: ")
    assert first.endswith("(2 records)")
    assert summary.startswith("2 records delivered, 2 records not  ")
    assert consumed(cluster, topic, "%s\\n") == ["small", "small"]


def test_bad_input_ends_behind_what_was_good(cluster: Cluster) -> None:
    topic = cluster.topic()
    ended = cluster.run("produce", topic, "--format", "jsonl", text='{"value":"good"}\n{"value":7}\n{"value":"x"}\n')
    assert ended.status == 2
    summary, complaint = ended.stderr.splitlines()
    assert summary.startswith("1 record delivered  ")
    assert complaint.startswith('kcli: standard input: line 2 has for "value" neither null')
    assert consumed(cluster, topic, "%s\\n") == ["good"]


def test_records_go_as_they_come(cluster: Cluster) -> None:
    """A line of an open pipe is produced at once; an interrupt ends the command after the lines so far."""
    topic = cluster.topic()
    environment = os.environ | {"KCLI_BOOTSTRAP_SERVER": cluster.address}
    with subprocess.Popen(
        [*KCLI, "produce", topic], env=environment, stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"one\ntw")
        process.stdin.flush()
        assert cluster.run("consume", topic, "-c", "1", "-f", "%s").stdout == "one"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert process.stderr.read().startswith(b"1 record delivered  ")
        assert process.wait(30) == 130


def test_a_topic_that_is_not_there(cluster: Cluster) -> None:
    """The first record creates the topic, where the cluster allows that, as Kafka does by default."""
    topic = f"{cluster.topic()}-auto"
    delivered(cluster.run("produce", topic, text="x\n"), "1 record")
    assert consumed(cluster, topic, "%s\\n") == ["x"]
    ended = cluster.run("produce", "bad/name", text="x\n")
    assert ended.status == 1
    assert ended.complaint.startswith("kcli: bad/name: INVALID_TOPIC_EXCEPTION: ")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["-"], "only --format jsonl"),
        (["t", "--partitioner", "input"], "only --format jsonl"),
        (["t", "--format", "jsonl", "-K", ":"], "are for --format text"),
        (["t", "-p", "1", "--partitioner", "sticky"], "exclude each other"),
        (["t", "-D", ""], "--delimiter is empty"),
        (["t", "-K", ""], "--key-separator is empty"),
        (["t", "-H", "=x"], "has no name"),
        (["t", "--acks", "1", "--idempotence"], "needs --acks all"),
        (["t", "-X", "no.such=1"], "No such configuration property"),
    ],
)
def test_usage(arguments: list[str], reason: str) -> None:
    ended = kcli("produce", *arguments, input=b"")
    assert ended.status == 2
    assert reason in ended.complaint


def test_a_file_that_is_not_there(cluster: Cluster) -> None:
    ended = cluster.run("produce", cluster.topic(), "no-such-file")
    assert ended.status == 2
    assert ended.stderr.splitlines()[1] == "kcli: no-such-file: No such file or directory"
