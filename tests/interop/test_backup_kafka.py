"""A backup of a real Kafka that writes, rebalances, cleans and runs transactions; real Kafka on what is restored of it:
every topic record for record as the log was at the time, the committed offsets of all groups, transactions whole or not
there."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cli.run import kcli
from tests.interop.backup_load import (
    KEYS,
    OUT,
    PARTITIONS,
    PLAIN,
    REVOKES_S,
    TABLE,
    TIMEOUT_MS,
    Load,
    Sent,
    SpreadLoad,
    new_topics,
)
from tests.interop.kit import kafka
from tests.interop.test_restore_kafka import consumed

pytestmark = [pytest.mark.kafka]
NODE = f"kcli-backup-{os.getpid()}"
COPY = f"kcli-restored-{os.getpid()}"
GROUPS = {"readers", "members", "simple", "eos"}
COORDINATED = ("__consumer_offsets", "__transaction_state")
RUNS_MIN, RUNS_MAX = 4, 30
BETWEEN_S, REVOKES_S_MAX = 1.0, 4.0
AUTHORIZER = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",
)
QUICK = (
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=300",
    "group.initial.rebalance.delay.ms=0",
    "group.consumer.min.session.timeout.ms=6000",
    "group.consumer.session.timeout.ms=6000",
    "group.consumer.min.heartbeat.interval.ms=1000",
    "group.consumer.heartbeat.interval.ms=1000",
)
"""What a restored node need not wait for, members that the backup has among it."""
Run = dict[str, Any]
Offsets = dict[tuple[str, int], int]


@pytest.fixture
def source(kafka_jars: Path) -> Iterator[str]:
    options = ["log.cleaner.backoff.ms=200", "file.delete.delay.ms=100", "group.initial.rebalance.delay.ms=0"]
    yield kafka("start", NODE, *options, *AUTHORIZER).strip().splitlines()[-1]
    kafka("kill", NODE)
    kafka("rm", NODE)


@pytest.fixture
def opened() -> Iterator[Callable[..., str]]:
    def start(directory: Path, *more: str) -> str:
        return kafka("open", str(directory), COPY, *QUICK, *AUTHORIZER, *more).strip().splitlines()[-1]

    yield start
    with suppress(AssertionError):  # it is stopped already
        kafka("kill", COPY)
    kafka("rm", COPY)


def topics_of(address: str) -> dict[str, int]:
    found = AdminClient({"bootstrap.servers": address}).list_topics(timeout=30).topics
    return {name: len(each.partitions) for name, each in found.items() if not name.startswith("__")}


def administered(address: str) -> dict[str, str]:
    """What Kafka's tools tell of configurations, users and ACLs."""
    server = ["--bootstrap-server", address]
    return {
        "topic": kafka("configs", *server, "--describe", "--entity-type", "topics", "--entity-name", TABLE),
        "users": kafka("configs", *server, "--describe", "--entity-type", "users"),
        "acls": kafka("acls", *server, "--list"),
    }


def administer(address: str) -> None:
    server = ["--bootstrap-server", address]
    kafka("acls", *server, "--add", "--allow-principal", "User:alice", "--operation", "Read", "--topic", PLAIN)
    user = ["--alter", "--add-config", "SCRAM-SHA-256=[password=secret]", "--entity-type", "users"]
    kafka("configs", *server, *user, "--entity-name", "bob")


def committed(address: str, group: str) -> Offsets:
    consumer = Consumer({"bootstrap.servers": address, "group.id": group})
    asked = [TopicPartition(topic, number) for topic, count in PARTITIONS.items() for number in range(count)]
    deadline = time.monotonic() + 30
    try:
        while True:  # offsets of an open transaction keep the others waiting
            with suppress(KafkaException):
                found = consumer.committed(asked, timeout=10)
                return {(each.topic, each.partition): each.offset for each in found if each.offset >= 0}
            assert time.monotonic() < deadline
    finally:
        consumer.close()


def logged_offsets(directory: Path) -> dict[str, Offsets]:
    """What __consumer_offsets says in the order of its records, as Kafka's dump tool decodes them: by group, the last
    offset of each partition. Offsets of transactions are not told from others."""
    found: dict[str, Offsets] = {}
    for log in sorted(directory.glob(f"{COORDINATED[0]}-*/*.log")):
        for line in kafka("dump", "--offsets-decoder", "--files", str(log)).splitlines():
            key, payload = (re.search(rf" {word}: (\{{.*?\}}\}})(?= |$)", line) for word in ("key", "payload"))
            if key is None or (parsed := json.loads(key[1]))["type"] not in ("0", "1"):
                continue
            data = parsed["data"]
            of_group = found.setdefault(data["group"], {})
            if payload is None:
                of_group.pop((data["topic"], data["partition"]), None)
            else:
                of_group[data["topic"], data["partition"]] = json.loads(payload[1])["data"]["offset"]
    return found


def check_files(source: Path, restored: Path) -> None:
    """The coordinators' partitions are those of the source up to some byte: what the log held, and nothing else. They
    are never cleaned here, as no segment of them is closed."""
    checked = 0
    for topic in COORDINATED:
        for directory in restored.glob(f"{topic}-*"):
            (log,) = directory.glob("*.log")
            of_source = source / directory.name / log.name
            assert of_source.read_bytes().startswith(log.read_bytes()), log
            checked += log.stat().st_size
    assert checked > 10_000


def check_end(of_partition: dict[int, Sent], end: int, run: Run) -> None:
    """All that was acknowledged before the run began is below the end, and nothing that was sent behind its time."""
    acked = [offset for offset, each in of_partition.items() if each.after_ms < run["started"]]
    assert max(acked, default=-1) < end
    assert all(offset >= end for offset, each in of_partition.items() if each.before_ms > run["at"])


def check_records(load: Load, address: str, run: Run) -> None:
    """Every record of every topic: offset, key, value, headers, timestamp."""
    topics = topics_of(address)
    late = topics.keys() - PARTITIONS.keys()
    assert {name: topics[name] for name in PARTITIONS} == PARTITIONS
    assert {name: topics[name] for name in late} == dict.fromkeys(late, 2)
    assert late <= load.created.keys()
    assert late, "a topic that is created during the load is in each run"
    found = consumed(address, topics, "read_uncommitted")
    for topic, count in topics.items():
        for number in range(count):
            rows = [each for each in found[topic] if each["partition"] == number]
            sent = load.sent[topic, number]
            end = rows[-1]["offset"] + 1 if rows else 0
            if topic in OUT:  # markers are not consumed, and a run may end with one
                end = max([end, *(offset for offset in sent if sent[offset].after_ms < run["started"])])
            expected = [sent[offset].row for offset in sorted(sent) if offset < end]
            if topic == TABLE:  # cleaned: the last record of each key is there, others may be
                newest = {each["key"]: each["offset"] for each in expected}
                assert len(newest) == KEYS
                kept = {each["offset"] for each in rows}
                assert set(newest.values()) <= kept
                expected = [each for each in expected if each["offset"] in kept]
            assert rows == expected, f"{topic}-{number}"
            check_end(sent, end, run)
    assert len(found[PLAIN]) > 1000
    assert len(found[OUT[0]]) > 5


def check_groups(load: Load, address: str, restored: Path, run: Run) -> None:
    """The offsets of all groups are those that the log held, none is ahead of its partition, and the groups go on."""
    logged = logged_offsets(restored)
    assert logged.keys() == GROUPS
    admin = AdminClient({"bootstrap.servers": address})
    listed = admin.list_consumer_groups(request_timeout=30).result()
    assert {each.group_id for each in listed.valid} == GROUPS
    reader = Consumer({"bootstrap.servers": address, "group.id": "ends"})
    for group in GROUPS - {"eos"}:
        offsets = committed(address, group)
        assert offsets == logged[group]
        assert len(offsets) == 5 or group != "simple"
        assert offsets
        for (topic, number), offset in offsets.items():
            if group != "simple":  # which commits what it likes
                assert offset <= reader.get_watermark_offsets(TopicPartition(topic, number), 30)[1]
            commits = load.commits[group, topic, number]
            least = max((each.offset for each in commits if each.after_ms < run["started"]), default=0)
            most = max((each.offset for each in commits if each.before_ms <= run["at"]), default=0)
            assert least <= offset <= most
    reader.close()
    for group in ("readers", "members"):
        goes_on(address, group)


def goes_on(address: str, group: str) -> None:
    """A new member reads on where the group was."""
    offsets = committed(address, group)
    protocol = {"group.protocol": "consumer"} if group == "members" else {}
    consumer = Consumer({"bootstrap.servers": address, "group.id": group, "enable.auto.commit": False, **protocol})
    ends = {number: consumer.get_watermark_offsets(TopicPartition(PLAIN, number), 30)[1] for number in range(3)}
    wanted = {number: offset for (_, number), offset in offsets.items() if offset < ends[number]}
    consumer.subscribe([PLAIN])
    first: dict[int, int] = {}
    deadline = time.monotonic() + 60  # members that the backup has must time out
    while first.keys() != wanted.keys() and time.monotonic() < deadline:
        for each in consumer.consume(500, 0.2):
            if each.error() is None:
                partition, offset = each.partition(), each.offset()
                assert partition is not None
                assert offset is not None
                first.setdefault(partition, offset)
    consumer.close()
    assert first == wanted


def check_transactions(load: Load, address: str, run: Run) -> None:
    """Those that had committed are whole, with their offsets; of the others nothing is read."""
    time.sleep(TIMEOUT_MS / 1000 + 2)
    outputs = consumed(address, OUT, "read_committed")
    done = [[int(each["value"]) for each in outputs[topic]] for topic in OUT]
    assert done[0] == done[1]
    assert done[0] == [each.number for each in load.transactions][: len(done[0])]
    for topic in OUT:
        by_number = {int(each.row["value"]): each.row for each in load.sent[topic, 0].values()}
        assert outputs[topic] == [by_number[number] for number in done[0]]
    assert sum(1 for each in load.transactions if each.after_ms < run["started"]) <= len(done[0])
    assert len(done[0]) <= sum(1 for each in load.transactions if each.before_ms <= run["at"])
    expected = load.transactions[len(done[0]) - 1].offsets if done[0] else {}
    assert committed(address, "eos") == {(PLAIN, number): offset for number, offset in expected.items()}


def test_a_node_with_two_log_directories(kafka_jars: Path, opened: Callable[..., str], tmp_path: Path) -> None:
    """A replica is moved from one to the other while backups are made; real Kafka goes on with both that come back."""
    disks, name = [tmp_path / "disk1", tmp_path / "disk2"], f"{NODE}-disks"
    address = kafka("start", name, f"log.dirs={disks[0]},{disks[1]}").strip().splitlines()[-1]
    try:
        admin = AdminClient({"bootstrap.servers": address})
        for future in admin.create_topics([NewTopic("spread", 6, 1, config={"segment.bytes": "1048576"})]).values():
            future.result(30)
        load = SpreadLoad(address, "spread", 6)
        try:
            load.wait_for(200)  # all partitions have directories then
            runs = [back_up_disks(disks, tmp_path / "store")]
            moved = next(disks[0].glob("spread-*")).name
            load.wait_for(2000)
            place = {"topic": "spread", "partition": int(moved[7:]), "replicas": [1], "log_dirs": [str(disks[1])]}
            plan = tmp_path / "plan.json"
            plan.write_text(json.dumps({"version": 1, "partitions": [place]}))
            kafka("reassign", "--bootstrap-server", address, "--execute", "--reassignment-json-file", str(plan))
            while (disks[0] / moved).exists() or len(runs) < 3:
                runs.append(back_up_disks(disks, tmp_path / "store"))
            runs.append(back_up_disks(disks, tmp_path / "store"))
        finally:
            load.end()
    finally:
        kafka("kill", name)
        kafka("rm", name)
    assert (disks[1] / moved).exists()
    new = [tmp_path / "new1", tmp_path / "new2"]
    ended = kcli("restore", tmp_path / "store", "--out", new[0], "--out", new[1])
    assert (ended.stderr, ended.status) == ("", 0)
    assert all(list(each.glob("spread-*")) for each in new)
    assert (new[1] / moved).exists()
    address = opened(new[0], f"log.dirs={kafka('dir', COPY).strip()},{new[1]}")
    found = consumed(address, ["spread"], "read_uncommitted")["spread"]
    for number in range(6):
        rows = [each for each in found if each["partition"] == number]
        sent = load.sent[number]
        assert [(each["offset"], each["value"]) for each in rows] == [
            (i, sent[i].row["value"]) for i in range(len(rows))
        ]
        check_end(sent, len(rows), runs[-1])
    assert len(found) > 2000
    assert not list(new[1].glob("*-stray")), "Kafka knows all its partitions"


def back_up_disks(disks: list[Path], store: Path) -> Run:
    ended = kcli("backup", *disks, "--to", store, "--format", "jsonl")
    assert (ended.stderr, ended.status) == ("", 0)
    run: Run = json.loads(ended.stdout)
    assert run["partitions"] >= 6
    return run


def is_amid_rebalance(load: Load, run: Run) -> bool:
    """Whether the group `readers` was rebalancing all the time in which the run looked at the log directory."""
    return any(each.revoked_ms < run["started"] and run["at"] < each.assigned_ms for each in load.rebalances)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("is_network", [False, True], ids=["directory", "network"])
def test_each_run_is_the_log_as_it_was(
    source: str, opened: Callable[[Path], str], tmp_path: Path, *, is_network: bool
) -> None:
    admin = AdminClient({"bootstrap.servers": source})
    for future in admin.create_topics(new_topics()).values():
        future.result(30)
    administer(source)
    data, store = Path(kafka("dir", NODE).strip()), tmp_path / "store"
    load = Load(source)
    found: list[Run] = []
    try:
        until = time.monotonic() + 120
        while (
            len(load.transactions) < 10
            or sum(len(load.sent[PLAIN, each]) for each in range(PARTITIONS[PLAIN])) < 2000
            or not {"readers", "members", "simple"} <= {group for group, _, _ in list(load.commits)}
        ):
            assert time.monotonic() < until, "the load does not come up"
            time.sleep(0.1)
        while len(found) < RUNS_MIN or not any(is_amid_rebalance(load, each) for each in found):
            assert len(found) < RUNS_MAX, "no run while the group rebalanced"
            load.revokes_s = min((1 + len(found)) * REVOKES_S, REVOKES_S_MAX)  # a machine may need long for a run
            time.sleep(BETWEEN_S)
            what = ["--bootstrap-server", source] if is_network else [data]
            ended = kcli("backup", *what, "--to", store, "--format", "jsonl")
            assert (ended.stderr, ended.status) == ("", 0)
            found.append(json.loads(ended.stdout))
            assert found[-1].get("left_out") == (["the passwords of SCRAM users: bob"] if is_network else None)
        time.sleep(0.5)
    finally:
        load.end()
    amid = next(each for each in found if is_amid_rebalance(load, each))
    assert len(load.transactions) > 5
    expected = administered(source)
    assert "cleanup.policy=compact" in expected["topic"]
    assert "bob" in expected["users"]
    if is_network:  # nobody is told what a broker keeps of a password
        expected["users"] = ""
    assert "alice" in expected["acls"]
    ended = kcli("backup", "--to", store, "--orphans", "--format", "jsonl")
    orphans = [json.loads(line)["object"] for line in ended.stdout.splitlines()]
    assert all(each.startswith(("table-0-", "late-")) for each in orphans), "cleaned or deleted while it was copied"
    for run in (amid, found[0] if amid is found[-1] else found[-1]):
        out = tmp_path / f"restored-{run['at']}"
        ended = kcli("restore", store, "--at", str(run["at"]), "--out", out)
        assert (ended.stderr, ended.status) == ("", 0)
        check_files(data, out)
        address = opened(out)
        try:
            check_records(load, address, run)
            assert administered(address) == expected
            check_groups(load, address, out, run)
            check_transactions(load, address, run)
        finally:
            kafka("kill", COPY)
