"""`kcli serve --read-only` describes the groups and transactions of any directory, and does not change a byte of it."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import Consumer, KafkaException

from kcli.broker.read_only.coordinators import _replay
from kcli.client.connection import Connection
from kcli.client.groups import Groups
from kcli.client.transactions import Transactions
from kcli.errors import KcliError
from kcli.group.config import GroupConfig
from kcli.group.machine import GroupMachine
from kcli.group.requests import DescribeConsumerGroup, DescribeGroup, FetchOffsets, ListGroups
from kcli.inspector.transactions import TransactionFiles
from kcli.java.hashing import partition_of
from kcli.protocol.topic_partition import TopicPartition
from kcli.views.groups import Group, Listing
from kcli.views.transactions import Transaction, TransactionFilter
from tests.broker.read_only_node import ReadOnlyRunning, read_only_node, state_of
from tests.conftest import GOLDEN

GROUPS, TXN = GOLDEN / "groups" / "data", GOLDEN / "txn"
TOLD: dict[str, dict[str, Any]] = json.loads((GOLDEN / "groups" / "expected" / "groups.json").read_text())
ALIVE = {name: told for name, told in TOLD.items() if "error" not in told}
GROUP_AUTHORIZATION_FAILED, POLICY_VIOLATION, TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 30, 44, 53
PARTITIONS = 4


@pytest.fixture(scope="module")
def node() -> Iterator[ReadOnlyRunning]:
    before = state_of(GROUPS)
    with read_only_node(GROUPS) as running:
        yield running
    assert state_of(GROUPS) == before


def consumer(node: ReadOnlyRunning, group: str) -> Consumer:
    return Consumer(
        {"bootstrap.servers": node.bootstrap, "group.id": group, "enable.auto.commit": False, "log_level": 0}
    )


def test_groups_are_those_of_kafka(node: ReadOnlyRunning) -> None:
    """librdkafka gets the groups that Java's Admin described before the broker was shut down."""
    groups = Groups(Connection(node.bootstrap))
    listed = [each for each in groups.all() if isinstance(each, Listing)]
    assert {each.group: (each.type, each.state) for each in listed if each.group in TOLD} == {
        name: (told["type"], told["state"]) for name, told in ALIVE.items()
    }
    for name, told in ALIVE.items():
        group = groups.group(name)
        assert (group.state, group.assignor or "") == (told["state"], told["assignor"]), name
        members = {each.id: sorted(f"{topic}-{n}" for topic, n in each.assignment) for each in group.members}
        assert members == {each["member_id"]: each["assignment"] for each in told["members"]}, name
        offsets = sorted(groups.committed(name).items())
        expected = [[topic, number, offset, epoch] for topic, number, offset, _, epoch in told["offsets"]]
        assert [[*place, each.offset, each.leader_epoch] for place, each in offsets] == expected
    (missing,) = groups.describe(["cg-deleted"])
    assert isinstance(missing, KcliError)
    assert groups.committed("cg-deleted") == {}


def test_metadata_of_offsets(node: ReadOnlyRunning) -> None:
    """librdkafka for Python may add to the metadata of offsets, so the test sends a request of its own."""
    with node.client() as client:
        for name, told in ALIVE.items():
            asked = {"groups": [{"group_id": name, "topics": None}], "require_stable": False}
            (group,) = client.call("offset_fetch", 8, **asked)["groups"]
            found = sorted(
                [topic["name"], each["partition_index"], each["committed_offset"], each["metadata"]]
                for topic in group["topics"]
                for each in topic["partitions"]
            )
            assert (group["error_code"], found) == (0, [each[:4] for each in told["offsets"]])


@pytest.mark.parametrize("directory", ["data", "data-tv0"])
def test_transactions_are_those_of_the_files(directory: str) -> None:
    """Which tests/inspector/test_transactions.py holds against Kafka's tool."""
    root = TXN / directory
    before = state_of(root)
    with read_only_node(root) as node:
        told, files = Transactions(Connection(node.bootstrap)), TransactionFiles([root], int(time.time() * 1000))
        broker = node.node.config.node_id
        for wanted in (
            TransactionFilter(),
            TransactionFilter(states=frozenset(["Ongoing"])),
            TransactionFilter(producer_ids=frozenset([0])),
            TransactionFilter(longer_than_ms=0),
        ):
            assert list(told.all(wanted)) == [each._replace(coordinator=broker) for each in files.all(wanted)]
        names = [each.transactional_id for each in files.all(TransactionFilter())]
        expected = [
            each._replace(coordinator=broker) for each in files.describe(names) if isinstance(each, Transaction)
        ]
        assert len(expected) == len(names) > 5
        assert list(told.describe(names)) == expected
        (error,) = told.describe(["nobody"])
        assert isinstance(error, KcliError)
        with pytest.raises(KcliError, match="POLICY_VIOLATION"):
            told.abort(TopicPartition("t-hang", 0), 8, 0, 0)
        with pytest.raises(KcliError, match="CLUSTER_AUTHORIZATION_FAILED"):
            told.fence("hang-1")
    assert state_of(root) == before


def test_a_client_goes_on_where_its_group_was(node: ReadOnlyRunning) -> None:
    """The client assigns partitions itself. It starts at the group's committed offsets, and cannot commit."""
    reader = consumer(node, "cg-empty")
    (committed,) = reader.committed([confluent_kafka.TopicPartition("g-a", 0)], timeout=10)
    assert committed.offset == 3
    reader.assign([confluent_kafka.TopicPartition("g-a", 0)])  # from the committed offset on
    message = reader.poll(10)
    assert message is not None
    assert (message.error(), message.offset()) == (None, 3)
    began = time.monotonic()
    with pytest.raises(KafkaException) as refused:
        reader.commit(offsets=[confluent_kafka.TopicPartition("g-a", 0, 4)], asynchronous=False)
    assert refused.value.args[0].code() == POLICY_VIOLATION
    assert time.monotonic() - began < 5
    reader.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_nobody_becomes_a_member(node: ReadOnlyRunning, protocol: str) -> None:
    """The client gets an error at once."""
    config = {"bootstrap.servers": node.bootstrap, "group.id": "cg-empty", "log_level": 0, "group.protocol": protocol}
    reader = Consumer(config)
    reader.subscribe(["g-a"])
    message = reader.poll(10)
    assert message is not None
    error = message.error()
    assert error is not None
    assert "Group authorization failed" in error.str()
    reader.close()


def test_where_there_are_no_groups_nobody_is_disturbed(tmp_path: Path) -> None:
    shutil.copytree(GROUPS / "g-a-0", tmp_path / "g-a-0")
    with read_only_node(tmp_path) as node, node.client() as client:
        for key_type in (0, 1):
            found = client.call("find_coordinator", 3, key="x", key_type=key_type)
            assert (found["error_code"], found["node_id"]) == (0, node.node.config.node_id)
        assert client.call("list_groups", 4, states_filter=[])["groups"] == []
        reader = consumer(node, "cg-empty")
        (committed,) = reader.committed([confluent_kafka.TopicPartition("g-a", 0)], timeout=10)
        assert committed.offset < 0
        reader.close()


def test_what_other_partitions_know_is_not_made_up(tmp_path: Path) -> None:
    """Offsets of a group whose partition is on another broker are unknown, and the broker returns none."""
    shutil.copytree(GROUPS, tmp_path, dirs_exist_ok=True)
    shutil.rmtree(tmp_path / "__consumer_offsets-1")
    shutil.rmtree(tmp_path / "__transaction_state-0")
    with read_only_node(tmp_path) as node, node.client() as client:
        for key_type, count, lost, code in (
            (0, PARTITIONS, 1, GROUP_AUTHORIZATION_FAILED),
            (1, 3, 0, TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ):
            for number in range(20):
                found = client.call("find_coordinator", 3, key=str(number), key_type=key_type)
                assert found["error_code"] == (code if partition_of(str(number), count) == lost else 0)


def test_files_without_metadata(tmp_path: Path) -> None:
    """The number of partitions then comes from the configuration; groups of both protocols are described."""
    for number in range(1, PARTITIONS):
        shutil.copytree(GROUPS / f"__consumer_offsets-{number}", tmp_path / f"__consumer_offsets-{number}")
    before = state_of(tmp_path)
    with read_only_node(tmp_path, offsets_topic_num_partitions=str(PARTITIONS)) as node:
        groups = Groups(Connection(node.bootstrap))
        names = [each.group for each in groups.all() if isinstance(each, Listing) and each.group in ALIVE]
        assert {ALIVE[name]["type"] for name in names} == {"Classic", "Consumer"}
        for name in names:
            assert isinstance(group := groups.group(name), Group)
            assert (group.state, len(group.members)) == (ALIVE[name]["state"], len(ALIVE[name]["members"]))
            offsets = sorted(groups.committed(name).items())
            assert [[*place, each.offset] for place, each in offsets] == [each[:3] for each in ALIVE[name]["offsets"]]
    assert state_of(tmp_path) == before


def test_what_a_running_kafka_writes_shows(tmp_path: Path) -> None:
    """A running Kafka appends records and replaces files; the broker shows the new state."""
    shutil.copytree(GROUPS, tmp_path, dirs_exist_ok=True)
    logs = sorted(tmp_path.glob("__consumer_offsets-*/*.log"))
    whole = {path: path.read_bytes() for path in logs}
    for path in logs:
        path.write_bytes(b"")
    with read_only_node(tmp_path) as node:
        groups = Groups(Connection(node.bootstrap))
        assert list(groups.all()) == []
        for path, data in whole.items():
            path.write_bytes(data)
        groups.group("cg-range")
        offsets = sorted(groups.committed("cg-range").items())
        assert [[*place, each.offset] for place, each in offsets] == [each[:3] for each in ALIVE["cg-range"]["offsets"]]
        for path in logs:
            empty = path.with_name("new")
            empty.write_bytes(b"")
            empty.rename(path)
        assert list(groups.all()) == []


@pytest.mark.parametrize("seed", range(40))
def test_damage_is_passed_over(tmp_path: Path, seed: int) -> None:
    """Bytes are overwritten, lost or doubled: the broker describes what it can read, and fails nowhere."""
    rng = random.Random(seed)
    source = GROUPS / f"__consumer_offsets-{seed % PARTITIONS}"
    directory = tmp_path / source.name
    shutil.copytree(source, directory)
    (path,) = directory.glob("*.log")
    data = bytearray(path.read_bytes())
    for _ in range(rng.randint(1, 8)):
        at, length = rng.randrange(len(data)), rng.randint(1, 400)
        match rng.randrange(3):
            case 0:
                data[at : at + length] = rng.randbytes(length)
            case 1:
                del data[at : at + length]
            case 2:
                data[at:at] = data[at : at + length]
    path.write_bytes(data)
    machine = GroupMachine(GroupConfig(), lambda: "new")
    _replay(machine, directory)
    requests: list[Any] = [ListGroups(states=(), types=())]
    for name in TOLD:
        requests += [
            FetchOffsets(group_id=name, topics=None, require_stable=False),
            DescribeGroup(group_id=name),
            DescribeConsumerGroup(group_id=name),
        ]
    for request in requests:
        outcome = machine.handle(1, request, 0)
        assert len(outcome.answers) == 1
        assert not outcome.batches
