"""Names that any client or any disk can hold, with terminal escapes and line ends: no command prints them raw.

Every command that shows such names runs with stdout and stderr in a terminal, and in a pipe.
"""

import os
import pty
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kcli.client.connection import Connection
from kcli.client.groups import Groups
from kcli.printable import has_hidden
from kcli.protocol.topic_partition import TopicPartition
from tests.cli.run import kcli
from tests.cli.warm import warm_kcli
from tests.client.clusters import Cluster, kcli_serve
from tests.client.groups import until
from tests.conftest import SAMPLES

HOSTILE = "\x1b[31mRED\x1b]0;pwned\x07\x9b1m\x85\u2028\u202e\u2066\x7f\r\nFORGED  Classic  Stable"
COLOUR = re.compile(r"\x1b\[[0-9;]*[HJKm]|\r\x1b\[K|\r")


def in_a_pipe(arguments: list[str]) -> tuple[str, int]:
    """Run kcli; return its output, stderr included, and its status."""
    ours, theirs = os.pipe()
    process = warm_kcli().start(arguments, stdout=theirs, stderr=theirs)
    os.close(theirs)
    with os.fdopen(ours, "rb") as pipe:
        return pipe.read().decode(errors="surrogateescape"), process.wait(60)


def in_a_terminal(arguments: list[str]) -> tuple[str, int]:
    """Run kcli in a terminal; return its output without the colours that kcli itself sets (none of them is red)."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
    environment.pop("NO_COLOR", None)
    process = warm_kcli().start(arguments, env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    printed = b""
    try:
        while chunk := os.read(ours, 65536):
            printed += chunk
    except OSError:  # Linux raises this where no process holds the other end any more
        pass
    os.close(ours)
    status = process.wait(60)
    text = printed.decode(errors="surrogateescape").replace("\r\n", "\n")
    assert "\x1b[31mRED" not in text
    return COLOUR.sub("", text), status


RUNNERS = [pytest.param(in_a_pipe, id="pipe"), pytest.param(in_a_terminal, id="terminal")]
Run = Callable[[list[str]], tuple[str, int]]


def check(run: Run, *arguments: str | Path, names: str | None = "RED", statuses: tuple[int, ...] = (0, 1, 2)) -> str:
    """Run kcli: its output names what is hostile, escaped, and on lines that kcli made."""
    text, status = run([str(each) for each in arguments])
    assert status in statuses, text
    assert "Traceback" not in text
    lines = text.split("\n")
    assert [line for line in lines if has_hidden(line)] == []
    assert [line for line in lines if line.startswith("FORGED")] == []
    if names is not None:
        assert names in text
    return text


# what a cluster tells


@pytest.fixture(scope="module")
def planted() -> Iterator[Cluster]:
    """Yield a cluster with a group and a transactional id of such a name."""
    with kcli_serve() as address:
        cluster = Cluster(address)
        topic = cluster.topic()
        groups = Groups(Connection(address))
        until(lambda: list(groups.commit(f"g{HOSTILE}", {TopicPartition(topic, 0): 1})) == [(topic, 0)])
        producer = Producer({"bootstrap.servers": address, "transactional.id": f"t{HOSTILE}"})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(topic, f"v{HOSTILE}".encode(), f"k{HOSTILE}".encode(), headers=[(f"h{HOSTILE}", b"\x1b[0m")])
        producer.commit_transaction(30)
        yield cluster


GROUP, ID = f"g{HOSTILE}", f"t{HOSTILE}"
OF_CLUSTERS: dict[str, list[str]] = {
    "groups-list": ["groups", "list"],
    "groups-all": ["groups", "describe", "--all-groups"],
    "groups-describe": ["groups", "describe", GROUP],
    "groups-describe-jsonl": ["groups", "describe", GROUP, "--format", "jsonl"],
    "groups-none": ["groups", "describe", f"none{HOSTILE}"],
    "groups-members": ["groups", "members", GROUP],
    "groups-reset": ["groups", "reset", GROUP, "--all-topics", "--to-latest"],
    "groups-reset-jsonl": ["groups", "reset", GROUP, "--all-topics", "--to-latest", "--format", "jsonl"],
    "groups-reset-csv": ["groups", "reset", "--all-groups", "--all-topics", "--to-latest", "--format", "csv"],
    "groups-delete": ["groups", "delete", f"none{HOSTILE}"],
    "transactions-list": ["transactions", "list"],
    "transactions-list-jsonl": ["transactions", "list", "--format", "jsonl"],
    "transactions-describe": ["transactions", "describe", ID],
    "transactions-all": ["transactions", "describe"],
    "transactions-none": ["transactions", "describe", f"none{HOSTILE}"],
    "transactions-abort": ["transactions", "abort", "--transactional-id", ID],
    "topics-create": ["topics", "create", HOSTILE],
    "topics-describe": ["topics", "describe", HOSTILE],
    "topics-delete": ["topics", "delete", HOSTILE],
    "topics-alter": ["topics", "alter", HOSTILE, "--config", f"a{HOSTILE}=b"],
    "produce": ["produce", HOSTILE, "/dev/null"],
    "consume-none": ["consume", HOSTILE, "-e"],
}


@pytest.mark.parametrize("run", RUNNERS)
@pytest.mark.parametrize("arguments", OF_CLUSTERS.values(), ids=list(OF_CLUSTERS))
def test_what_a_cluster_tells(planted: Cluster, run: Run, arguments: list[str]) -> None:
    named = None if arguments[0] == "produce" else "RED"
    check(run, *arguments, "-b", planted.address, names=named)


@pytest.mark.parametrize("run", RUNNERS)
@pytest.mark.parametrize("output", ["table", "jsonl"])
def test_records_that_are_consumed(planted: Cluster, run: Run, output: str) -> None:
    topic = planted.run("topics", "list", "--exclude-internal").stdout.split()[0]
    check(run, "consume", topic, "-e", "--format", output, "-b", planted.address, statuses=(0,))


def test_a_name_that_csv_cannot_carry(planted: Cluster) -> None:
    ended = planted.run("groups", "reset", GROUP, "--all-topics", "--to-latest", "--format", "csv")
    assert (ended.stdout, ended.status) == ("", 1)
    assert ended.complaint.endswith("a name with control characters is not for CSV: give --format jsonl")


# what a disk holds


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log directory whose partitions have such names, each with a damaged log end."""
    home = tmp_path_factory.mktemp("disk")
    for name in (b"\x1b[31mRED-0", b"a\nFORGED-0", b"a\rRED-0", "\x9b31mRED-0".encode(), b"\xff\x9b\x1b[31mRED-0"):
        target = home / os.fsdecode(name)
        shutil.copytree(SAMPLES / "good" / "java-zstd-0", target)
        with (target / "00000000000000000000.log").open("ab") as log:
            log.write(b"junk" * 50)
        (target / "\x1b[31mRED\nFORGED.log").write_bytes(b"x")
    return home


OF_DISKS: dict[str, list[str]] = {
    "dump": ["dump-segment"],
    "dump-jsonl": ["dump-segment", "--format", "jsonl"],
    "dump-index": ["dump-segment", "--type", "index"],
    "verify": ["verify"],
    "verify-info": ["verify", "--severity", "info"],
    "verify-jsonl": ["verify", "--format", "jsonl"],
    "recover": ["recover", "--unclean"],
    "recover-jsonl": ["recover", "--unclean", "--format", "jsonl"],
    "compact": ["compact", "-o", "cleanup.policy=compact"],
    "compact-why": ["compact", "-o", "cleanup.policy=compact", "--why", "key"],
    "groups": ["groups", "list", "--data-dir"],
    "transactions": ["transactions", "list", "--data-dir"],
}


@pytest.mark.parametrize("run", RUNNERS)
@pytest.mark.parametrize("arguments", OF_DISKS.values(), ids=list(OF_DISKS))
def test_what_a_disk_holds(disk: Path, run: Run, arguments: list[str]) -> None:
    named = None if arguments[0] in {"groups", "transactions"} else "RED"
    check(run, *arguments, disk, names=named)


@pytest.mark.parametrize("run", RUNNERS)
@pytest.mark.parametrize("command", ["dump-segment", "verify", "recover", "compact"])
@pytest.mark.parametrize("name", ["\x1b[31mRED-0/\x1b[31mRED\nFORGED.log", "\x1b[31mRED\nFORGED"])
def test_a_path_that_is_named(disk: Path, run: Run, command: str, name: str) -> None:
    check(run, command, disk / name)


def test_the_notes_on_kafka_s_format(disk: Path) -> None:
    """`--format kafka` prints Kafka's lines unchanged; this checks the notes on stderr."""
    paths = [disk, disk / "\x1b[31mRED\nFORGED.log"]
    complaints = kcli("dump-segment", "--format", "kafka", *paths).stderr
    assert "RED" in complaints
    assert not any(map(has_hidden, complaints.split("\n")))
