"""kcli transactions, against clusters and log directories."""

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from kcli.client.connection import Connection
from kcli.client.transactions import Transactions
from kcli.views.transactions import Listing, Transaction, TransactionFilter
from tests.broker.transactional import NONE, OPEN, Transactional, produce
from tests.cli.run import Ended, kcli
from tests.client.clusters import Cluster
from tests.conftest import GOLDEN
from tests.log.batches import batch

DATA = GOLDEN / "txn" / "data"
LONG_AGO_MS = 1_600_000_000_000
NONE_HANGS = ("", "kcli: no transaction hangs\n", 0)
VERIFICATION = "transaction.partition.verification.enable"


class Producers:
    """Transactions of every kind, in a topic of two partitions: complete, open in 0, and one that hangs in 1."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.topic = cluster.topic("--partitions", "2")
        host, _, port = cluster.address.rpartition(":")
        self.address = host, int(port)
        self.prefix = f"p{os.getpid()}-"
        for name in ("done", "open"):
            self.open(name)
        self.producer("empty")
        with self._unverified():
            hanging = self.producer("hanging", modern=False)
            data = batch(
                b"x", producer=(hanging.id, hanging.epoch), sequence=0, transactional=True, timestamp_ms=LONG_AGO_MS
            )
            assert produce(hanging.client, 9, hanging.name, self.topic, 1, data)["error_code"] == NONE
        self.hanging = hanging.id

    def producer(self, name: str, *, modern: bool = True) -> Transactional:
        """A producer with a transactional id."""
        producer = Transactional(self.address, self.prefix + name, modern=modern)
        assert producer.init() == NONE
        return producer

    def open(self, name: str) -> Transactional:
        """Yield a producer with an open transaction in partition 0; that of "done" is committed."""
        producer = self.producer(name)
        assert producer.send(self.topic, b"x") == NONE
        if name == "done":
            assert producer.end() == NONE
        return producer

    def _unverified(self) -> "Verification":
        return Verification(AdminClient({"bootstrap.servers": self.cluster.address}))

    def run(self, *arguments: str) -> Ended:
        """Run `kcli transactions`."""
        return self.cluster.run("transactions", *arguments)

    def rows(self, *arguments: str) -> list[dict[str, Any]]:
        """Its answer, as JSON."""
        ended = self.run(*arguments, "--format", "jsonl")
        assert bool(ended.stderr) == (not ended.stdout), "only what was not found is told"
        return [json.loads(line) for line in ended.stdout.splitlines()]

    def client(self) -> Transactions:
        """The client that the commands use, which is faster than a process for each command."""
        return Transactions(Connection(self.cluster.address))

    def state(self, name: str) -> str:
        """Return the state of a transactional id once it is complete."""
        client, deadline = self.client(), time.monotonic() + 10
        while True:
            (found,) = client.describe([self.prefix + name])
            assert isinstance(found, Transaction)
            if not found.state.startswith("Prepare") or time.monotonic() > deadline:
                return found.state

    def find_hanging(self) -> list[tuple[str, int, int]]:
        """Topic, partition, producer."""
        rows = self.rows("find-hanging", "--topic", self.topic)
        return [(row["topic"], row["partition"], row["producer_id"]) for row in rows]


class Verification:
    """Verification is off, as before KIP-890: a producer that tells no coordinator writes the hanging transaction."""

    def __init__(self, admin: AdminClient) -> None:
        self.admin = admin

    def __enter__(self) -> None:
        self._set("false")

    def __exit__(self, *_: object) -> None:
        self._set("true")

    def _set(self, value: str) -> None:
        entry = ConfigEntry(VERIFICATION, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
        self.admin.incremental_alter_configs([resource])[resource].result()
        deadline = time.monotonic() + 10
        asked = ConfigResource(ResourceType.BROKER, "1")
        while self.admin.describe_configs([asked])[asked].result()[VERIFICATION].value != value:
            assert time.monotonic() < deadline


@pytest.fixture(scope="module")
def producers(cluster: Cluster) -> Iterator[Producers]:
    yield Producers(cluster)
    while OPEN:
        OPEN.pop().socket.close()


def test_filters(producers: Producers) -> None:
    states = {"done": "CompleteCommit", "open": "Ongoing", "empty": "Empty", "hanging": "Empty"}
    assert producers.state("done") == "CompleteCommit"
    client, prefix = producers.client(), producers.prefix

    def listed(wanted: TransactionFilter) -> dict[str, str]:
        found = [each for each in client.all(wanted) if isinstance(each, Listing)]
        return {
            each.transactional_id.removeprefix(prefix): each.state
            for each in found
            if each.transactional_id.startswith(prefix)
        }

    assert listed(TransactionFilter()) == states
    some = TransactionFilter(states=frozenset(["Ongoing", "CompleteCommit"]))
    assert listed(some) == {"done": "CompleteCommit", "open": "Ongoing"}
    assert listed(TransactionFilter(producer_ids=frozenset([producers.hanging]))) == {"hanging": "Empty"}
    assert listed(TransactionFilter(longer_than_ms=3_600_000, states=frozenset(["Ongoing"]))) == {}
    assert listed(TransactionFilter(longer_than_ms=0, states=frozenset(["Ongoing"]))) == {"open": "Ongoing"}


def test_list(producers: Producers) -> None:
    head, *rows = (line.split() for line in producers.run("list").stdout.splitlines())
    assert head == ["TRANSACTIONAL-ID", "COORDINATOR", "PRODUCER-ID", "STATE"]
    assert [f"{producers.prefix}hanging", "1", str(producers.hanging), "Empty"] in rows
    name, producer = f"{producers.prefix}hanging", str(producers.hanging)
    filters = ("--state", "empty,ongoing", "--producer-id", producer, "--duration-filter", "-1")
    (row,) = producers.rows("list", *filters, "--transactional-id-pattern", f"{producers.prefix}.*g")
    assert row == {
        "transactional_id": name, "coordinator": 1, "producer_id": producers.hanging, "state": "Empty"
    }  # fmt: skip
    assert producers.rows("list", *filters, "--transactional-id-pattern", f"{producers.prefix}.*n") == []


def test_describe(producers: Producers) -> None:
    (row,) = producers.rows("describe", f"{producers.prefix}open")
    assert (row["coordinator"], row["state"], row["timeout_ms"]) == (1, "Ongoing", 60_000)
    assert row["partitions"] == [[producers.topic, 0]]
    assert abs(time.time() * 1000 - row["start_ms"]) < 600_000
    (empty,) = producers.rows("describe", "--transactional-id", f"{producers.prefix}empty")
    assert (empty["state"], empty["start_ms"], empty["partitions"]) == ("Empty", None, [])
    ended = producers.run("describe", "nobody", f"{producers.prefix}open")
    assert (ended.status, ended.complaint) == (
        1, "kcli: nobody: TRANSACTIONAL_ID_NOT_FOUND: there is no such transactional id"
    )  # fmt: skip
    assert ended.stdout.splitlines()[1].split()[-1] == f"{producers.topic}:0"
    names = [row["transactional_id"] for row in producers.rows("describe")]
    assert names == sorted(names)
    assert f"{producers.prefix}done" in names


def test_describe_producers(producers: Producers) -> None:
    place = ("--topic", producers.topic, "--partition", "1")
    for arguments in (place, (*place, "--broker-id", "1")):
        (row,) = producers.rows("describe-producers", *arguments)
        assert row == {
            "producer_id": producers.hanging,
            "producer_epoch": 0,
            "coordinator_epoch": None,
            "last_sequence": 0,
            "last_timestamp_ms": LONG_AGO_MS,
            "start_offset": 0,
        }
    shown = producers.run("describe-producers", *place).stdout.splitlines()[1]
    assert shown.split() == [str(producers.hanging), "0", "-", "0", "2020-09-13T12:26:40.000Z", "0"]


def test_what_hangs_is_found_and_aborted(producers: Producers) -> None:
    place = (producers.topic, 1, producers.hanging)
    assert producers.find_hanging() == [place]
    everywhere = producers.run("find-hanging", "--broker-id", "1")
    assert everywhere.status == 1
    assert [place[0], "1", str(place[2])] in [line.split()[:3] for line in everywhere.stdout.splitlines()]
    assert producers.run("find-hanging", "--topic", place[0], "--partition", "0") == NONE_HANGS
    assert producers.run("find-hanging", "--topic", place[0], "--max-transaction-timeout", "99999999") == NONE_HANGS
    at = ("abort", "--topic", place[0], "--partition", "1", "--start-offset", "0")
    dry = producers.run(*at)
    assert (dry.complaint, dry.status) == ("kcli: nothing is changed without --execute", 0)
    assert dry.stdout.splitlines()[1].split()[:3] == [place[0], "1", str(place[2])]
    assert producers.find_hanging() == [place]
    done = producers.run(*at, "--execute")
    assert (done.stdout, done.stderr, done.status) == (dry.stdout, "", 0)
    assert producers.run("find-hanging", "--topic", place[0]) == NONE_HANGS
    again = producers.run(*at, "--execute")
    assert (again.stdout, again.status) == ("", 1)
    assert again.complaint == f"kcli: {place[0]}-1: no transaction is open that begins at offset 0"


def test_an_open_transaction_is_told_from_one_that_hangs(producers: Producers) -> None:
    """Kafka's tool aborts an open transaction without a warning; kcli aborts it with one."""
    producer = producers.open("warned")
    (row,) = producers.rows("describe", producer.name)
    assert row["state"] == "Ongoing"
    where = ("abort", "--topic", producers.topic, "--partition", "0")
    whose = ("--producer-id", str(producer.id), "--producer-epoch", "0", "--coordinator-epoch", "-1")
    dry = producers.run(*where, *whose)
    first, last = dry.stderr.splitlines()
    assert (first, last, dry.status) == (
        "kcli: it does not hang: a coordinator has it in a transaction, and will end it",
        "kcli: nothing is changed without --execute",
        0,
    )
    assert producers.run(*where, *whose, "--execute").status == 0
    rows = producers.rows("describe-producers", *where[1:])
    assert [row["start_offset"] for row in rows if row["producer_id"] == producer.id] == [None]
    assert producers.state("warned") == "Ongoing"
    unknown = ("--producer-id", "987654", "--producer-epoch", "0", "--coordinator-epoch", "0")
    assert "no transaction of this producer is open there" in producers.run(*where, *unknown).stderr


def test_all_of_a_transactional_id_is_aborted(producers: Producers) -> None:
    producer = producers.open("stopped")
    dry = producers.run("abort", "--transactional-id", producer.name)
    assert (dry.complaint, dry.status) == ("kcli: nothing is changed without --execute", 0)
    assert producers.state("stopped") == "Ongoing"
    assert producers.run("abort", "--transactional-id", producer.name, "--execute") == (dry.stdout, "", 0)
    assert producers.state("stopped") == "Empty"
    assert producer.end() != NONE
    nobody = producers.run("abort", "--transactional-id", "nobody", "--execute")
    assert (nobody.stdout, nobody.status) == ("", 1)
    assert "TRANSACTIONAL_ID_NOT_FOUND" in nobody.complaint
    assert "nobody" not in [row["transactional_id"] for row in producers.rows("list", "--state", "Empty")]


def test_failures_are_one_line(producers: Producers) -> None:
    for arguments, reason in (
        (["describe-producers", "--topic", "no-such-topic", "--partition", "0"], "no-such-topic-0: UNKNOWN_TOPIC"),
        (["describe-producers", "--topic", producers.topic, "--partition", "9"], f"{producers.topic}-9: UNKNOWN_TOPIC"),
        (["find-hanging", "--topic", "no-such-topic"], "no-such-topic: UNKNOWN_TOPIC"),
        (["find-hanging", "--broker-id", "77"], "there is no broker 77"),
        (
            ["abort", "--topic", producers.topic, "--partition", "0", "--start-offset", "999"],
            f"{producers.topic}-0: no",
        ),
    ):
        ended = producers.run(*arguments)
        assert (ended.stdout, ended.status) == ("", 1)
        assert ended.complaint.startswith(f"kcli: {reason}")


# files


def test_a_log_directory() -> None:
    """tests/inspector/test_transactions.py compares golden data with Kafka's output; this test checks how kcli shows
    it."""
    head, *rows = kcli("transactions", "describe", "hang-2", "--data-dir", DATA).stdout.splitlines()
    assert head.split()[-3:] == ["TIMEOUT-MS", "START", "PARTITIONS"]
    assert [row.split() for row in rows] == [
        ["hang-2", "-", "9", "0", "Ongoing", "900000", "2026-11-21T11:14:39.729Z", "t-hang:0;t-txn:0,1"]
    ]
    place = ("--topic", "t-hang", "--partition", "0")
    ended = kcli("transactions", "describe-producers", *place, "--data-dir", DATA, "--format", "jsonl")
    assert [json.loads(line)["producer_id"] for line in ended.stdout.splitlines()] == [1, 4, 8, 9]


def test_files_tell_what_hangs(tmp_path: Path) -> None:
    """Coordinators know all open transactions of the golden data; without their records the transactions hang."""
    assert kcli("transactions", "find-hanging", "--data-dir", DATA) == NONE_HANGS
    shutil.copytree(DATA, tmp_path, dirs_exist_ok=True)
    for path in tmp_path.glob("__transaction_state-*/*.log"):
        path.write_bytes(b"")
    ended = kcli("transactions", "find-hanging", "--data-dir", tmp_path, "--topic", "t-txn", "--format", "jsonl")
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [(row["partition"], row["producer_id"], row["start_offset"]) for row in rows] == [(0, 9, 153), (1, 9, 152)]
    assert (ended.stderr, ended.status) == ("", 1)
    shutil.rmtree(tmp_path / "__transaction_state-1")
    partly = kcli("transactions", "list", "--data-dir", tmp_path)
    assert (partly.complaint, partly.status) == ("kcli: only 2 of 3 partitions of __transaction_state are there", 1)


def test_damaged_files_are_told(tmp_path: Path) -> None:
    shutil.copytree(DATA, tmp_path, dirs_exist_ok=True)
    path = max(tmp_path.glob("__transaction_state-*/*.log"), key=lambda each: each.stat().st_size)
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    ended = kcli("transactions", "list", "--data-dir", tmp_path)
    assert "CRC is" in ended.complaint
    assert ended.status == 1
    assert len(ended.stdout.splitlines()) >= 8


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["list", "--state", "asleep"], "--state 'asleep' is none of Empty, Ongoing, "),
        (["list", "--transactional-id-pattern", "("], "--transactional-id-pattern '(': missing )"),
        (["list", "--data-dir", "no-such-directory"], "no-such-directory: No such file or directory"),
        (["list", "--data-dir", "."], "no partition of __transaction_state in it"),
        (["describe-producers", "--topic", "t", "--partition", "0", "--data-dir", "."], ".: no partition of t-0 in it"),
        (["find-hanging", "--partition", "0"], "--partition wants --topic"),
        (["find-hanging", "--broker-id", "1", "--data-dir", "."], "--broker-id asks a broker: it excludes --data-dir"),
        (["abort"], "give --topic and --partition, or --transactional-id"),
        (["abort", "--topic", "t", "--partition", "0"], "give --start-offset, or --producer-id, "),
        (
            ["abort", "--topic", "t", "--partition", "0", "--producer-id", "1"],
            "give --start-offset, or --producer-id, ",
        ),
        (
            ["abort", "--topic", "t", "--partition", "0", "--start-offset", "1", "--producer-id", "1"],
            "--start-offset excludes --producer-id and epochs",
        ),
        (["abort", "--topic", "t", "--transactional-id", "x"], "--transactional-id excludes --topic"),
        (
            ["abort", "--topic", "t", "--partition", "0", "--start-offset", "1", "--data-dir", "."],
            "abort needs a broker: what is in --data-dir is only read",
        ),
    ],
)
def test_usage(arguments: list[str], reason: str) -> None:
    ended = kcli("transactions", *arguments)
    assert ended.stdout == ""
    assert reason in ended.complaint
    assert ended.status == (1 if "t-0" in reason else 2)


def test_transport_that_cannot_be_spoken() -> None:
    for properties, reason in (
        (["security.protocol=smoke"], 'Invalid value "smoke" for configuration property "security.protocol"'),
        (["security.protocol=sasl_plaintext"], "SASL mechanism GSSAPI: not spoken by"),
        (["security.protocol=ssl", "ssl.keystore.location=k"], "ssl.keystore.location: not spoken by"),
        (["security.protocol=ssl", "ssl.ca.location=no-such-file"], "ssl.*: No such file"),
    ):
        options = [word for each in properties for word in ("-X", each)]
        ended = kcli("transactions", "list", "-b", "127.0.0.1:1", *options)
        assert ended.stdout == ""
        assert reason in ended.complaint


def test_completion() -> None:
    words = {"_KCLI_COMPLETE": "complete_bash", "COMP_WORDS": "kcli transactions find-hanging --max", "COMP_CWORD": "3"}
    assert kcli(env=os.environ | words).stdout == "--max-transaction-timeout\n"
