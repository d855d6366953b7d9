"""Transactions on `kcli serve` and on real Kafka: the same responses, request by request, and the same logs.

One script of requests runs on both. Producer ids are numbered by first appearance, and times are left out.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from formats.internal_topic import decode
from formats.record_batch import parse_batch
from kcli.broker.coordinators.local_markers import LocalMarkers
from kcli.protocol.error_code import ErrorCode
from tests.broker.api.test_transactions import committed as seen_by_readers
from tests.broker.running import Address, Client, ServedNode, running_node
from tests.broker.transactional import NONE, OPEN, WAIT_S, Transactional, find_coordinator, produce, until_ready
from tests.interop.kit import SCRIPT, ToolServer, tool_server
from tests.log.batches import batch

NODE = f"kcli-transactions-{os.getpid()}"
OPTIONS = (
    "auto.create.topics.enable=false",
    "offsets.topic.num.partitions=1",
    "transaction.state.log.num.partitions=1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=100",
)
STATE_LOG, OFFSETS_LOG = "__transaction_state-0", "__consumer_offsets-0"
CONTROL = 32
HEADER_BYTES = 12
NEWEST = 2
SAFE_DOWNGRADE = 2
RECORDS = 3_000


def kafka(*arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [SCRIPT, *arguments], capture_output=True, text=True, timeout=180, check=False, env=os.environ | environment
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def address_of(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host, int(port)


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop().socket.close()
    if re.search(rf"^{NODE} .* running", kafka("ls"), re.MULTILINE):
        kafka("kill", NODE)
    kafka("rm", NODE)


@dataclass
class Script:
    """The requests, and the broker's responses."""

    address: Address
    version: int
    said: list[tuple[Any, ...]] = field(default_factory=list)
    ids: dict[int, int] = field(default_factory=dict)

    def say(self, *values: Any) -> None:
        self.said.append(values)

    def id(self, producer_id: int) -> int:
        """Return the number of a producer id, which is the same on both brokers."""
        return producer_id if producer_id < 0 else self.ids.setdefault(producer_id, len(self.ids))

    def client(self) -> Client:
        client = Client(self.address)
        OPEN.append(client)
        return client

    def create(self, name: str, partitions: int) -> None:
        client = self.client()
        client.create_topic(name, partitions)
        deadline = time.monotonic() + WAIT_S
        for number in range(partitions):
            while leader_of(client, name, number) != 1:
                assert time.monotonic() < deadline
                time.sleep(0.05)

    def producer(self, name: str, *, modern: bool | None = None, timeout_ms: int = 60_000) -> Teller:
        """Return a new producer. modern: whether it speaks transaction version 2; None: as the cluster does."""
        return Teller(self, name, modern=self.version == NEWEST if modern is None else modern, timeout_ms=timeout_ms)

    def described(self, name: str) -> dict[str, Any]:
        """Decode the response by hand, since kio does not read a time before 1970."""
        client = self.client()
        client.socket.sendall(client.frame("describe_transactions", 0, {"transactional_ids": [name]}))
        frame = client.read_frame()[10:]
        (code,) = struct.unpack_from(">h", frame)
        label_at = 3 + len(name) + 1
        label = frame[label_at : label_at + frame[label_at - 1] - 1].decode()
        rest = frame[label_at + len(label) :]
        timeout_ms, start_ms, producer_id, epoch = struct.unpack_from(">iqqh", rest)
        return {
            "code": ErrorCode(code).name,
            "state": label,
            "timeout": timeout_ms,
            "began": start_ms if start_ms <= 0 else 1,
            "id": self.id(producer_id) if code == 0 else 0,
            "epoch": epoch,
            "topics": rest[struct.calcsize(">iqqh") :],
        }

    def settle(self, name: str) -> None:
        """Wait until the markers are written."""
        deadline = time.monotonic() + WAIT_S
        while self.described(name)["state"].startswith("Prepare"):
            assert time.monotonic() < deadline
            time.sleep(0.02)


class Teller(Transactional):
    """A producer whose answers are written down."""

    def __init__(self, script: Script, name: str, *, modern: bool, timeout_ms: int) -> None:
        super().__init__(script.address, name, modern=modern, timeout_ms=timeout_ms)
        self.script = script

    def _tell(self, what: str, code: ErrorCode, *more: Any) -> ErrorCode:
        self.script.say(self.name, what, code.name, self.script.id(self.id), self.epoch, *more)
        return code

    def init(self, wait_s: float = WAIT_S) -> ErrorCode:
        return self._tell("init", super().init(wait_s))

    def add(self, topic: str, number: int = 0) -> ErrorCode:
        return self._tell("add", super().add(topic, number), topic, number)

    def send(self, topic: str, *values: bytes, number: int = 0, version: int | None = None) -> ErrorCode:
        return self._tell("send", super().send(topic, *values, number=number, version=version), topic, number, version)

    def end(self, *, commit: bool = True) -> ErrorCode:
        code = super().end(commit=commit)
        self.script.settle(self.name)
        self._tell("end", code, commit)
        self.script.say(self.script.described(self.name))
        return code

    def at(self, epoch: int, producer_id: int | None = None) -> Teller:
        """The same with another epoch, or id."""
        other = Teller(self.script, self.name, modern=self.modern, timeout_ms=self.timeout_ms)
        other.id = self.id if producer_id is None else producer_id
        other.epoch, other.sequences = epoch, dict(self.sequences)
        return other


def leader_of(client: Client, topic: str, number: int) -> int:
    answer = client.call(
        "metadata",
        12,
        topics=[{"name": topic, "topic_id": None}],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    (found,) = answer["topics"]
    leaders = {each["partition_index"]: each["leader_id"] for each in found["partitions"]}
    leader: int = leaders.get(number, -1)
    return leader


# the script


def commit_and_abort(script: Script, *, modern: bool) -> None:
    producer = script.producer(f"rounds-{modern}", modern=modern)
    producer.init()
    for commit in (True, False, True):
        for number in (0, 1):
            if not modern:
                producer.add("a", number)
            producer.send("a", b"x", b"y", number=number)
            producer.send("a", b"z", number=number)
        before = producer.at(producer.epoch)
        producer.end(commit=commit)
        for again in (True, False):
            before.at(before.epoch).end(commit=again)
    for commit in (True, False):
        producer.at(producer.epoch).end(commit=commit)
    script.say(script.described(producer.name))


def wrong_producers(script: Script, *, modern: bool) -> None:
    producer = script.producer(f"wrong-{modern}", modern=modern)
    producer.init()
    producer.at(producer.epoch).end(commit=True)
    others = [producer.at(producer.epoch + 1), producer.at(producer.epoch - 1), producer.at(producer.epoch, 9999)]
    for other in others:
        for version in (9, 11, 12):
            other.send("a", b"x", version=version)
        other.add("a")
        other.at(other.epoch, other.id).end()
    for version in (9, 11):
        producer.send("b", b"x", version=version)
    producer.add("b")
    for version in (9, 11, 12):
        producer.send("b", b"x", version=version)
    for other in others:
        other.send("b", b"x", version=9)
        other.send("b", b"x", version=12)
        other.at(other.epoch, other.id).end(commit=False)
    producer.sequences["b", 0] += 7
    producer.send("b", b"gap")
    producer.end()


def fencing(script: Script, *, modern: bool) -> None:
    old, new = (script.producer(f"fence-{modern}", modern=modern) for _ in range(2))
    old.init()
    if not modern:
        old.add("a")
    old.send("a", b"old")
    new.init()
    old.send("a", b"late")
    old.add("a")
    old.at(old.epoch).end()
    known = new.at(new.epoch)
    known.init()
    new.init()
    new.at(new.epoch - 1).init()
    new.at(new.epoch, 4242).init()
    new.at(new.epoch + 5).init()
    script.say(script.described(new.name))


def sequences(script: Script) -> None:
    for version in (9, 12):
        producer = script.producer(f"sequence-{version}")
        producer.init()
        producer.add("b")
        producer.sequences["b", 0] = 3
        producer.send("b", b"x", version=version)
        producer.sequences["b", 0] = 0
        producer.send("b", b"x", version=version)
        producer.at(producer.epoch).end(commit=False)


def plain_and_transactional(script: Script) -> None:
    producer = script.producer("mixed")
    producer.init()
    identity = producer.id, producer.epoch
    for transactional_id in (None, "", "nobody", "mixed"):
        for version in (9, 12) if script.version == NEWEST else (9,):  # else Kafka gets stuck with version 12
            data = batch(b"x", producer=identity, sequence=0, transactional=True)
            found = produce(producer.client, version, transactional_id, "b", 1, data)
            script.say("mixed", transactional_id, version, found["error_code"], found["base_offset"])
            script.say(found["error_message"])
    found = produce(producer.client, 12, "mixed", "b", 1, batch(b"x", producer=identity, sequence=1))
    script.say("mixed", found["error_code"], found["base_offset"])
    producer.end()


def adding(script: Script) -> None:
    producer = script.producer("adds", modern=False)
    producer.init()
    for version in range(6):
        for topics in ([("a", [0])], [("a", [0, 7])], [("nowhere", [0]), ("b", [1])], []):
            for verify in (False, True) if version >= 4 else (False,):
                asked = [{"name": name, "partitions": numbers} for name, numbers in topics]
                script.say("adds", version, verify, add_partitions(producer, version, asked, verify=verify))
    for version in range(5):
        for epoch in (producer.epoch, producer.epoch + 1):
            asked_offsets = {"transactional_id": "adds", "producer_id": producer.id, "group_id": "g"}
            answer = producer.client.call("add_offsets_to_txn", version, **asked_offsets, producer_epoch=epoch)
            script.say("offsets", version, ErrorCode(answer["error_code"]).name)
    script.say(script.described("adds"))
    producer.end()


def add_partitions(producer: Teller, version: int, topics: list[dict[str, Any]], *, verify: bool) -> Any:
    if version >= 4:
        each = {"transactional_id": producer.name, "producer_id": producer.id, "producer_epoch": producer.epoch}
        transactions = [{**each, "verify_only": verify, "topics": topics}]
        answer = producer.client.call("add_partitions_to_txn", version, transactions=transactions)
        found = [result for each in answer["results_by_transaction"] for result in each["topic_results"]]
    else:
        answer = producer.client.call(
            "add_partitions_to_txn",
            version,
            v3_and_below_transactional_id=producer.name,
            v3_and_below_producer_id=producer.id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=topics,
        )
        found = answer["results_by_topic_v3_and_below"]
    return sorted(
        (each["name"], result["partition_index"], ErrorCode(result["partition_error_code"]).name)
        for each in found
        for result in each["results_by_partition"]
    )


def beginnings(script: Script) -> None:
    client = script.client()
    for version in range(6):
        for transactional_id, timeout_ms in (("", 1000), ("begins", 0), ("begins", -5), ("begins", 900_001)):
            script.say("init", version, init(client, script, version, transactional_id, timeout_ms))
        script.say("init", version, init(client, script, version, f"begins-{version}", 900_000))
        if version >= 3:
            for known in ((-1, 0), (0, -1), (77, 5), (77, 0)):
                script.say("init", version, known, init(client, script, version, f"begins-{version}", 1, known))
                script.say("init", version, known, init(client, script, version, f"new-{version}-{known}", 1, known))


def init(
    client: Client,
    script: Script,
    version: int,
    transactional_id: str,
    timeout_ms: int,
    known: tuple[int, int] = (-1, -1),
) -> tuple[Any, ...]:
    more = {"producer_id": known[0], "producer_epoch": known[1]} if version >= 3 else {}
    answer = until_ready(
        lambda: client.call(
            "init_producer_id",
            version,
            transactional_id=transactional_id,
            transaction_timeout=timeout_ms,
            **more,
        )
    )
    return ErrorCode(answer["error_code"]).name, script.id(answer["producer_id"]), answer["producer_epoch"]


def time_outs(script: Script, *, modern: bool) -> None:
    producer = script.producer(f"late-{modern}", modern=modern, timeout_ms=300)
    producer.init()
    if not modern:
        producer.add("b", 1)
    producer.send("b", b"x", number=1)
    deadline = time.monotonic() + WAIT_S
    while script.described(producer.name)["state"] != "CompleteAbort":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    script.say(script.described(producer.name))
    producer.send("b", b"y", number=1)
    for commit in (True, False):
        producer.at(producer.epoch).end(commit=commit)
    producer.init()


def markers(script: Script) -> None:
    producer = script.producer("marked")
    producer.init()
    for version, transaction_version in ((1, 0), (2, 0), (2, 2)):
        producer.send("a", b"x")
        epoch = producer.epoch
        for topic, number, marker_epoch in (
            ("nowhere", 0, epoch),
            ("a", 9, epoch),
            ("a", 0, epoch - 1),
            ("a", 0, epoch),
            ("a", 0, epoch + 1),
            ("a", 0, epoch + 1),
        ):
            marker = {
                "producer_id": producer.id,
                "producer_epoch": marker_epoch,
                "transaction_result": False,
                "topics": [{"name": topic, "partition_indexes": [number]}],
                "coordinator_epoch": 0,
            }
            more = {"transaction_version": transaction_version} if version >= 2 else {}
            answer = producer.client.call("write_txn_markers", version, markers=[marker | more])
            (told,) = (each["partitions"][0] for each in answer["markers"][0]["topics"])
            script.say("marker", version, transaction_version, topic, number, ErrorCode(told["error_code"]).name)
        producer.end()
        producer.init()


def listings(script: Script) -> None:
    client = script.client()
    filters: list[dict[str, Any]] = [
        {},
        {"state_filters": ["Ongoing"]},
        {"state_filters": ["CompleteCommit", "Empty"]},
        {"state_filters": ["Nonsense", "Dead", "PrepareEpochFence", "completecommit"]},
        {"producer_id_filters": [10**12]},
        {"duration_filter": 0},
        {"duration_filter": 3_600_000},
        {"transactional_id_pattern": "f.*e"},
        {"transactional_id_pattern": "rounds-.*"},
        {"transactional_id_pattern": ""},
        {"transactional_id_pattern": "("},
    ]
    everything = {"state_filters": [], "producer_id_filters": [], "duration_filter": -1}
    for each in filters:
        asked = {**everything, "transactional_id_pattern": None, **each}
        answer = client.call("list_transactions", 2, **asked)
        found = sorted(
            (state["transactional_id"], script.id(state["producer_id"]), state["transaction_state"])
            for state in answer["transaction_states"]
        )
        script.say(each, answer["error_code"], sorted(answer["unknown_state_filters"]), found)
    for name in ("nobody", ""):
        script.say(script.described(name)["code"])


def group_offsets(script: Script) -> None:
    """Commit offsets of a group in transactions that commit or abort."""
    for version in range(6 if script.version == NEWEST else 5):  # else Kafka gets stuck with version 5
        for commit in (True, False):
            producer = script.producer(f"offsets-{version}-{commit}", modern=False)
            producer.init()
            group = f"group-{version}"
            script.say(version, commit_offsets(producer, version, group, 10))
            add_offsets(producer, group)
            wrong: list[tuple[str, int, dict[str, Any]]] = [
                (group, 20 + commit, {}),
                ("", 1, {}),
                (group, 1, {"producer_epoch": producer.epoch + 1}),
                (group, 1, {"producer_id": 9999}),
                (group, 1, {"transactional_id": "nobody"}),
                (group, 1, {"transactional_id": ""}),
            ]
            for name, offset, more in wrong:
                script.say(version, name, more, commit_offsets(producer, version, name, offset, **more))
            if version >= 3:
                for member in ({"generation_id": 1}, {"generation_id": 1, "member_id": "m"}, {"member_id": "m"}):
                    script.say(version, member, commit_offsets(producer, version, group, 30, **member))
            script.say(fetched_offsets(script, group))
            producer.end(commit=commit)
            script.say(fetched_offsets(script, group))


def add_offsets(producer: Teller, group: str) -> None:
    asked = {"transactional_id": producer.name, "producer_id": producer.id, "producer_epoch": producer.epoch}
    answer = producer.client.call("add_offsets_to_txn", 3, **asked, group_id=group)
    producer.script.say("add offsets", ErrorCode(answer["error_code"]).name)


def commit_offsets(producer: Teller, version: int, group: str, offset: int, **more: Any) -> Any:
    """Commit offsets of a partition, of an unknown one, and with metadata that is too long."""
    epoch = {"committed_leader_epoch": 0} if version >= 2 else {}
    member = {"generation_id": -1, "member_id": "", "group_instance_id": None} if version >= 3 else {}

    def partition(number: int, metadata: str | None) -> dict[str, Any]:
        return {"partition_index": number, "committed_offset": offset, "committed_metadata": metadata, **epoch}

    request = {
        "transactional_id": producer.name,
        "group_id": group,
        "producer_id": producer.id,
        "producer_epoch": producer.epoch,
        "topics": [
            {"name": "a", "partitions": [partition(0, "note"), partition(1, "x" * 5000), partition(9, None)]},
            {"name": "nowhere", "partitions": [partition(0, "")]},
        ],
        **member,
        **more,
    }
    answer = producer.client.call("txn_offset_commit", version, **request)
    return sorted(
        (topic["name"], each["partition_index"], ErrorCode(each["error_code"]).name)
        for topic in answer["topics"]
        for each in topic["partitions"]
    )


def fetched_offsets(script: Script, group: str) -> Any:
    """Return the committed offsets, and which of them are stable."""
    client, found = script.client(), []
    for stable in (False, True):
        deadline = time.monotonic() + WAIT_S
        while True:
            answer = client.call(
                "offset_fetch",
                8,
                groups=[{"group_id": group, "topics": [{"name": "a", "partition_indexes": [0, 1]}]}],
                require_stable=stable,
            )["groups"][0]
            if answer["error_code"] == 0 or time.monotonic() > deadline:
                break
        (topic,) = answer["topics"]
        found += [
            (each["partition_index"], each["committed_offset"], each["metadata"], ErrorCode(each["error_code"]).name)
            for each in topic["partitions"]
        ]
    return found


STEPS: list[Callable[[Script], None]] = [
    beginnings,
    *(
        partial(step, modern=modern)
        for step in (commit_and_abort, wrong_producers, fencing)
        for modern in (True, False)
    ),
    sequences,
    plain_and_transactional,
    adding,
    group_offsets,
    *(partial(time_outs, modern=modern) for modern in (True, False)),
    markers,
    listings,
]


def run(address: Address, version: int) -> Script:
    """version: transaction.version, 2 where nobody says otherwise."""
    script = Script(address, version)
    if version < NEWEST:
        set_transaction_version(script.client(), version)
    script.create("a", 2)
    script.create("b", 2)
    client = script.client()
    find_coordinator(client, 1, "x")
    find_coordinator(client, 0, "g")
    for step in STEPS:
        if version == NEWEST or not (isinstance(step, partial) and step.keywords["modern"]):
            step(script)
    return script


def set_transaction_version(client: Client, version: int) -> None:
    update = {"feature": "transaction.version", "max_version_level": version, "upgrade_type": SAFE_DOWNGRADE}
    answer = client.call("update_features", 1, timeout=10_000, feature_updates=[update], validate_only=False)
    assert answer["error_code"] == 0, answer
    deadline = time.monotonic() + WAIT_S
    software = {"client_software_name": "test", "client_software_version": "1"}
    while True:
        features = client.call("api_versions", 3, **software)["finalized_features"]
        if {each["name"]: each["max_version_level"] for each in features}.get("transaction.version", 0) == version:
            return
        assert time.monotonic() < deadline
        time.sleep(0.05)


def batches(log: Path) -> Iterator[Any]:
    data = log.read_bytes()
    while data and int.from_bytes(data[8:12]):
        yield parse_batch(data)
        data = data[HEADER_BYTES + int.from_bytes(data[8:12]) :]


def state_records(script: Script, directory: Path) -> list[Any]:
    """The records of __transaction_state, without times."""
    found = []
    for each in batches(directory / STATE_LOG / f"{0:020d}.log"):
        for record in each.records:
            decoded = decode("__transaction_state", record.key, record.value)
            value = dict(decoded.value or {})
            for name in ("transactionLastUpdateTimestampMs", "transactionStartTimestampMs"):
                value[name] = min(value[name], 1)
            for name in {"producerId", "previousProducerId", "nextProducerId"} & value.keys():
                value[name] = script.id(value[name])
            if value["transactionPartitions"] is not None:
                value["transactionPartitions"] = sorted(
                    (topic["topic"], *sorted(topic["partitionIds"])) for topic in value["transactionPartitions"]
                )
            found.append((decoded.key, decoded.value_version, value))
    return found


def offset_records(script: Script, directory: Path) -> list[Any]:
    """The batches of __consumer_offsets, without times."""
    found: list[Any] = []
    for each in batches(directory / OFFSETS_LOG / f"{0:020d}.log"):
        records: list[Any] = [(record.key, record.value) for record in each.records]
        if not each.header.attributes & CONTROL:
            decoded = [decode("__consumer_offsets", *record) for record in records]
            records = [(one.key, {**(one.value or {}), "commitTimestamp": 0}) for one in decoded]
        header = each.header
        found.append((header.attributes, script.id(header.producer_id), header.producer_epoch, records))
    return found


def log_batches(script: Script, directory: Path, partition: str) -> list[Any]:
    """Return the batches of a partition: producers and order; markers with their keys and values."""
    return [
        (
            each.header.base_offset,
            each.header.attributes,
            script.id(each.header.producer_id),
            each.header.producer_epoch,
            each.header.base_sequence,
            [(record.key, record.value) for record in each.records],
        )
        for each in batches(directory / partition / f"{0:020d}.log")
    ]


@pytest.mark.parametrize("version", [2, 0])
def test_answers_and_logs_are_those_of_kafka(kafka_jars: Path, tmp_path: Path, version: int) -> None:
    theirs = run(address_of(kafka("start", NODE, *OPTIONS)), version)
    kafka("stop", NODE)
    node = ServedNode(tmp_path / "data", *(word for option in OPTIONS for word in ("-o", option)))
    try:
        ours = run(node.address, version)
    finally:
        status, _ = node.signal(signal.SIGTERM)
    assert status == 0
    assert ours.said == theirs.said
    directories = tmp_path / "data", Path(kafka("dir", NODE))
    assert state_records(ours, directories[0]) == state_records(theirs, directories[1])
    assert offset_records(ours, directories[0]) == offset_records(theirs, directories[1])
    for partition in ("a-0", "a-1", "b-0", "b-1"):
        assert log_batches(ours, directories[0], partition) == log_batches(theirs, directories[1], partition)


# Kafka's own tool

TOOL = "org.apache.kafka.tools.TransactionsCommand"
VARIES = re.compile(r"Time|Duration|LastUpdate")
TERMINATION = ("forceTerminateTransaction --transactionalId", "describe --transactional-id")
COMMANDS = [
    "list",
    "list --duration-filter 3600000",
    "list --transactional-id-pattern op.*",
    "list --transactional-id-pattern (",
    "describe --transactional-id open",
    "describe --transactional-id done",
    "describe --transactional-id aborted",
    "describe --transactional-id nobody",
    "describe-producers --topic a --partition 0",
    "describe-producers --topic a --partition 1 --broker-id 1",
    "find-hanging --broker-id 1",
    "find-hanging --broker-id 1 --topic a --partition 1",
    "find-hanging --topic a",
    "find-hanging --topic b --partition 0",
    "find-hanging --broker-id 1 --max-transaction-timeout 1000000",
    "find-hanging",
    "find-hanging --broker-id 1 --partition 0",
    "abort --topic a --partition 0",
    "abort --topic a --partition 0 --producer-id 0",
    "abort --topic a --partition 1 --start-offset 3",
    "abort --topic b --partition 0 --start-offset 0",
    "abort --topic b --partition 0 --start-offset 0",
    "find-hanging --broker-id 1",
    "abort --topic a --partition 1 --start-offset 1",
    "find-hanging --broker-id 1",
    "abort --topic a --partition 1 --producer-id 0 --producer-epoch 0 --coordinator-epoch -1",
    "abort --topic a --partition 0 --producer-id 0 --producer-epoch 1 --coordinator-epoch 0",
    "describe-producers --topic a --partition 0",
    "describe-producers --topic b --partition 0",
    "describe --transactional-id open",
    *(f"{verb} {name}" for name in ("open", "done", "nobody") for verb in TERMINATION),
    "list",
]
HANGING = "find-hanging --broker-id 1"


def what_tools_see(script: Script) -> None:
    """Run transactions that are complete, aborted, open, and unknown to any coordinator."""
    for name, commit in (("done", True), ("aborted", False)):
        producer = script.producer(name)
        producer.init()
        producer.send("a", b"x")
        producer.end(commit=commit)
    producer = script.producer("open")
    producer.init()
    producer.send("a", b"x")
    producer.send("a", b"x", number=1)
    hanging = script.producer("hanging", modern=False)
    hanging.init()
    hanging.send("b", b"x")
    hanging.send("a", b"y", number=1)


def printed(tools: ToolServer, address: Address, command: str) -> str:
    """What the tool prints, without times."""
    server = ["--bootstrap-server", "{}:{}".format(*address)]
    output = tools.run(TOOL, [*server, *command.split()])
    lines = []
    varying: list[int] = []
    for line in output.stdout.splitlines():
        cells = [cell.strip() for cell in line.split("\t")]
        if any(VARIES.search(cell) for cell in cells):
            varying = [i for i, cell in enumerate(cells) if VARIES.search(cell)]
        elif len(cells) > 1:
            cells = ["TIME" if i in varying and cell.isdigit() else cell for i, cell in enumerate(cells)]
        lines.append(cells)
    errors = re.sub(r"(adminclient-|deadlineMs=|tries=|nextAllowedTryMs=|ToolServer.java:)\d+", r"\1N", output.stderr)
    shown = sorted(map(str, lines)) if command.startswith(("list", "find")) else map(str, lines)
    return "\n".join([f"$ {command}", *shown, errors, str(output.exit)])


def test_kafkas_tool_prints_the_same(kafka_jars: Path, tmp_path: Path) -> None:
    options = (*OPTIONS, "transaction.partition.verification.enable=false")
    theirs = Script(address_of(kafka("start", NODE, *options)), NEWEST)
    node = ServedNode(tmp_path / "data", *(word for option in options for word in ("-o", option)))
    tools = tool_server()
    try:
        ours = Script(node.address, NEWEST)
        for script in (theirs, ours):
            script.create("a", 2)
            script.create("b", 1)
            what_tools_see(script)
        assert ours.said == theirs.said
        found = []
        for command in COMMANDS:
            expected = printed(tools, theirs.address, command)
            assert printed(tools, ours.address, command) == expected
            if command == HANGING:
                found.append([place for place in ("a', '1", "b', '0") if place in expected])
        assert found == [["a', '1", "b', '0"], ["a', '1"], []], "what hangs is found, and gone once it is aborted"
    finally:
        node.process.kill()
        node.process.communicate()


# handover


def not_yet(*_: object) -> ErrorCode:
    """As where a partition has no leader."""
    return ErrorCode.NOT_LEADER_OR_FOLLOWER


def leave(script: Script) -> dict[str, Teller]:
    """Leave transactions in all states, except for those whose markers are being written."""
    for name in ("a", "b"):
        script.create(name, 2)
    producers = {name: script.producer(name) for name in ("commit", "abort", "open", "empty")}
    for name, producer in producers.items():
        producer.init()
        if name != "empty":
            producer.send("a", name.encode())
            producer.send("a", name.encode(), number=1)
    producers["commit"].end()
    producers["abort"].end(commit=False)
    return producers


def prepare(script: Script, name: str, *, commit: bool) -> Teller:
    """Begin a transaction and decide it, without waiting for its markers."""
    producer = script.producer(name)
    producer.init()
    producer.send("b", name.encode())
    producer.send("b", name.encode(), number=1)
    Transactional.end(producer, commit=commit)
    assert script.described(name)["state"] == ("PrepareCommit" if commit else "PrepareAbort")
    return producer


def go_on(script: Script, producers: dict[str, Teller], states: dict[str, str]) -> None:
    """Continue the producers on another broker, with the same ids, epochs and sequences."""
    find_coordinator(script.client(), 1, "open")
    deadline = time.monotonic() + WAIT_S
    while {name: script.described(name)["state"] for name in states} != states:
        assert time.monotonic() < deadline, {name: script.described(name)["state"] for name in states}
        time.sleep(0.05)
    for name in ("commit", "open", "empty"):
        old = producers[name]
        producer = script.producer(name)
        producer.id, producer.epoch, producer.sequences = old.id, old.epoch, dict(old.sequences)
        assert producer.send("a", b"later") == NONE
        assert producer.end(commit=name != "empty") == NONE
        producers[name] = producer


def committed(tools: ToolServer, address: Address, topic: str) -> list[str]:
    """Return what Kafka's own consumer reads with read_committed."""
    arguments = f"--topic {topic} --from-beginning --timeout-ms 4000 --isolation-level read_committed"
    server = ["--bootstrap-server", "{}:{}".format(*address)]
    output = tools.run("org.apache.kafka.tools.consumer.ConsoleConsumer", [*server, *arguments.split()])
    return sorted(output.stdout.split())


def test_transactions_of_every_state_are_handed_over(
    kafka_jars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {option.partition("=")[0].replace(".", "_"): option.partition("=")[2] for option in OPTIONS}
    tools = tool_server()
    with running_node(tmp_path / "data", None, **options) as node:
        script = Script(node.address, NEWEST)
        producers = leave(script)
        monkeypatch.setattr(LocalMarkers, "write", not_yet)
        for name, commit in (("decided", True), ("dropped", False)):
            prepare(script, name, commit=commit)
    monkeypatch.undo()
    states = {"commit": "CompleteCommit", "abort": "CompleteAbort", "open": "Ongoing", "empty": "Empty"}
    decided = {"decided": "CompleteCommit", "dropped": "CompleteAbort"}
    theirs = Script(address_of(kafka("open", str(tmp_path / "data"), NODE, *OPTIONS)), NEWEST)
    go_on(theirs, producers, states | decided)
    assert committed(tools, theirs.address, "a") == sorted(["commit", "open"] * 2 + ["later"] * 2)
    assert committed(tools, theirs.address, "b") == ["decided"] * 2

    again = {name: producers[name] for name in ("commit", "open", "empty")}
    assert again["open"].send("a", b"back") == NONE
    kafka("stop", NODE)
    shutil.copytree(kafka("dir", NODE), tmp_path / "back")
    states = {"commit": "CompleteCommit", "open": "Ongoing", "empty": "CompleteAbort"}
    with running_node(tmp_path / "back", None, **options) as node:
        ours = Script(node.address, NEWEST)
        go_on(ours, again, states | decided)
        expected = sorted(["commit", "open"] * 2 + ["later"] * 4 + ["back"])
        assert committed(tools, ours.address, "a") == expected
        assert committed(tools, ours.address, "b") == ["decided"] * 2


def test_javas_producer_commits_again_and_again(kafka_jars: Path, tmp_path: Path) -> None:
    options = {option.partition("=")[0].replace(".", "_"): option.partition("=")[2] for option in OPTIONS}
    tools = tool_server()
    with running_node(tmp_path / "data", None, **options) as node:
        script = Script(node.address, NEWEST)
        script.create("a", 2)
        load = f"--topic a --num-records {RECORDS} --record-size 50 --throughput {2 * RECORDS} --transactional-id load"
        properties = f"--transaction-duration-ms 5 --producer-props bootstrap.servers={node.bootstrap}"
        output = tools.run("org.apache.kafka.tools.ProducerPerformance", [*load.split(), *properties.split()])
        assert output.exit == 0, output.stderr
        script.settle("load")
        assert script.described("load")["state"] == "CompleteCommit"
        assert sum(len(seen_by_readers(node, "a", number)) for number in (0, 1)) == RECORDS
        partition = node.node.broker.partitions.get("__transaction_state", 0)
        assert partition is not None
        assert partition.log.log_end_offset > 1 + 3 * 5, "transactions, not one"
