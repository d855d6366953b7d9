"""Backups over the network of a kcli node: what is restored has the same batches, topics and settings. That real Kafka
has them, too, while clients work, is shown in tests/interop/test_backup_kafka.py."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import AdminClient

from formats.checkpoint import parse_offsets
from formats.txn_index import parse as parse_txn_index
from kcli.backup import manifest as manifests
from kcli.backup.manifest import Manifest, Tail
from kcli.inspector.cluster_metadata import read_image
from kcli.log.source import read_whole
from tests.broker.running import Client, ServedNode, served_node
from tests.cli.run import Ended, kcli
from tests.log.batches import batch

QUICK = ("-o", "offsets.topic.num.partitions=1", "-o", "transaction.state.log.num.partitions=1")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ServedNode]:
    with served_node(tmp_path / "data", *QUICK) as node:
        yield node


def back_up(node: ServedNode, store: Path) -> dict[str, Any]:
    ended = kcli("backup", "--bootstrap-server", node.bootstrap, "--to", store, "--format", "jsonl")
    assert (ended.stderr, ended.status) == ("", 0)
    run: dict[str, Any] = json.loads(ended.stdout)
    return run


def restore(store: Path, new: Path) -> Path:
    ended = kcli("restore", store, "--out", new)
    assert (ended.stderr, ended.status) == ("", 0)
    assert kcli("verify", new).status == 0
    return new


def produce(
    node: ServedNode, topic: str, *values: bytes, number: int = 0, producer: tuple[int, int] = (-1, -1)
) -> None:
    with Client(node.address) as client:
        for value in values:
            data = batch(value) if producer == (-1, -1) else batch(value, producer=producer, sequence=0)
            answer = client.call(
                "produce",
                9,
                transactional_id=None,
                acks=-1,
                timeout=1000,
                topic_data=[{"name": topic, "partition_data": [{"index": number, "records": bytes(data)}]}],
            )
            assert answer["responses"][0]["partition_responses"][0]["error_code"] == 0


def create(node: ServedNode, topic: str, partitions: int = 1, **configs: str) -> None:
    with Client(node.address) as client:
        client.create_topic(topic, partitions, {name.replace("_", "."): value for name, value in configs.items()})


def log_bytes(directory: Path) -> bytes:
    return b"".join(each.read_bytes() for each in sorted(directory.glob("*.log")))


def last_manifest(store: Path) -> tuple[Path, Manifest]:
    path = max((store / "manifests").iterdir())
    return path, manifests.parse(f"manifests/{path.name}", path.read_bytes(), str(path))


def test_each_run_has_what_was_appended_since(node: ServedNode, tmp_path: Path) -> None:
    store = tmp_path / "store"
    create(node, "orders", 3)
    for number in range(3):
        produce(node, "orders", b"one in %d" % number, b"two in %d" % number, number=number)
    first = back_up(node, store)
    assert first["new_objects"] == 4, "a log each, and the metadata log"
    assert back_up(node, store)["new_objects"] == 1, "of the metadata log"
    produce(node, "orders", b"three", number=1)
    assert back_up(node, store)["new_objects"] == 2
    new = restore(store, tmp_path / "new")
    for number in range(3):
        mine, theirs = (each / f"orders-{number}" for each in (new, tmp_path / "data"))
        assert log_bytes(mine) == log_bytes(theirs) != b""
        for name in ("leader-epoch-checkpoint", "partition.metadata"):
            assert (mine / name).read_bytes() == (theirs / name).read_bytes()
    with served_node(new) as restored, Client(restored.address) as client:
        assert log_bytes(new / "orders-1") == log_bytes(tmp_path / "data" / "orders-1")
        client.create_topic("more", 1)


def test_transactions_and_groups_come_with_it(node: ServedNode, tmp_path: Path) -> None:
    create(node, "pay")
    producer = Producer({"bootstrap.servers": node.bootstrap, "transactional.id": "tx"})
    producer.init_transactions(30)
    for number in range(10):
        producer.begin_transaction()
        producer.produce("pay", f"{number}")
        producer.flush(10)
        (producer.abort_transaction if number % 3 == 1 else producer.commit_transaction)(30)
    back_up(node, tmp_path / "store")
    new = restore(tmp_path / "store", tmp_path / "new")
    index = f"pay-0/{0:020}.txnindex"
    assert (new / index).read_bytes() == (tmp_path / "data" / index).read_bytes() != b""
    for name in ("pay-0", "__transaction_state-0"):
        assert log_bytes(new / name) == log_bytes(tmp_path / "data" / name) != b""
    with served_node(new) as restored:
        ended = kcli("consume", "pay", "-b", restored.bootstrap, "-e", "--format", "jsonl")
    assert [json.loads(line)["value"] for line in ended.stdout.splitlines()] == ["0", "2", "3", "5", "6", "8", "9"]


def test_the_transaction_index_is_the_one_of_the_broker(node: ServedNode, tmp_path: Path) -> None:
    create(node, "pay")
    producers = [Producer({"bootstrap.servers": node.bootstrap, "transactional.id": f"tx-{n}"}) for n in range(3)]
    for each in producers:
        each.init_transactions(30)
    begun = producers[2]  # its transaction begins between others, and is open behind their markers
    for number in range(6):
        producer = producers[number % 2]
        producer.begin_transaction()
        producer.produce("pay", b"aborted")
        producer.flush(10)
        if number == 3:
            begun.begin_transaction()
            begun.produce("pay", b"open for long")
            begun.flush(10)
        producer.abort_transaction(30)
        produce(node, "pay", b"without a transaction")
    begun.abort_transaction(30)
    back_up(node, tmp_path / "store")
    new = restore(tmp_path / "store", tmp_path / "new")
    index = f"pay-0/{0:020}.txnindex"
    entries = parse_txn_index((tmp_path / "data" / index).read_bytes())
    assert [each.last_stable_offset for each in entries] == [2, 5, 8, 10, 10, 10, 20]
    assert parse_txn_index((new / index).read_bytes()) == entries


def test_the_settings_are_those_of_the_cluster(node: ServedNode, tmp_path: Path) -> None:
    create(node, "orders", 2, retention_ms="12345678", segment_bytes="1048576")
    with Client(node.address) as client:
        values = [{"name": "log.cleaner.threads", "config_operation": 0, "value": "2"}]
        everywhere = {"resource_type": 4, "resource_name": "", "configs": values}
        answer = client.call("incremental_alter_configs", 1, resources=[everywhere], validate_only=False)
        assert answer["responses"][0]["error_code"] == 0, answer
        entity = [{"entity_type": "user", "entity_name": "alice"}, {"entity_type": "client-id", "entity_name": None}]
        ops = [{"key": "producer_byte_rate", "value": 1000.0, "remove": False}]
        answer = client.call("alter_client_quotas", 1, entries=[{"entity": entity, "ops": ops}], validate_only=False)
        assert answer["entries"][0]["error_code"] == 0
    back_up(node, tmp_path / "store")
    theirs = read_image(tmp_path / "data")
    mine = read_image(restore(tmp_path / "store", tmp_path / "new"))
    assert mine is not None
    assert theirs is not None
    assert mine.configured == theirs.configured
    assert mine.client_quotas == theirs.client_quotas != {}
    assert mine.features == theirs.features
    assert {name: topic.id for name, topic in mine.topics.items()} == {
        name: topic.id for name, topic in theirs.topics.items()
    }


def test_what_was_restored_uses_no_tier(tmp_path: Path) -> None:
    """A second cluster with the same topic ids and records would delete the first one's segments in the store."""
    manager = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
    options = {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": manager,
        "rsm.config.dir": str(tmp_path / "tier"),
        "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
    }
    given = [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
    (tmp_path / "tier").mkdir()
    with served_node(tmp_path / "data", *QUICK, *given) as node:
        create(node, "orders", remote_storage_enable="true", local_retention_ms="1000", retention_ms="100000")
        produce(node, "orders", b"1", b"2")
        run = back_up(node, tmp_path / "store")
    assert "remote.storage.enable of orders: the backup has what is in tiered storage" in run["left_out"]
    image = read_image(restore(tmp_path / "store", tmp_path / "new"))
    assert image is not None
    assert "__remote_log_metadata" not in image.topics
    (values,) = (values for (_, name), values in image.configured.items() if name == "orders")
    assert values == {"local.retention.ms": "1000", "retention.ms": "100000"}
    with served_node(tmp_path / "new", *QUICK) as node, Client(node.address) as client:
        assert client.list_offset("orders", -1) == (0, 2)


def test_segments_begin_at_segment_bytes_and_end_with_retention(node: ServedNode, tmp_path: Path) -> None:
    store = tmp_path / "store"
    create(node, "small", segment_bytes="1048576")
    produce(node, "small", *(b"x" * 400_000 for _ in range(6)))
    back_up(node, store)
    (partition,) = (each for each in last_manifest(store)[1].partitions if each.partition.topic == "small")
    assert [(each.base, each.last) for each in partition.segments] == [(0, 1), (2, 3), (4, 5)]
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    for future in admin.delete_records([Partition("small", 0, 3)]).values():
        future.result(30)
    back_up(node, store)
    (partition,) = (each for each in last_manifest(store)[1].partitions if each.partition.topic == "small")
    assert [(each.base, each.last) for each in partition.segments] == [(2, 3), (4, 5)]
    new = restore(store, tmp_path / "new")
    starts = parse_offsets(read_whole(new / "log-start-offset-checkpoint"))
    assert [(each.topic, each.partition, each.offset) for each in starts] == [("small", 0, 3)]
    with served_node(new) as restored, Client(restored.address) as client:
        wanted = [{"name": "small", "partitions": [{"partition_index": 0, "timestamp": -2}]}]
        answer = client.call("list_offsets", 7, replica_id=-1, isolation_level=0, topics=wanted)
        assert answer["topics"][0]["partitions"][0]["offset"] == 3


def test_a_log_without_the_last_batch_is_copied_anew(node: ServedNode, tmp_path: Path) -> None:
    """The leader's log was truncated, or the topic made again."""
    store = tmp_path / "store"
    create(node, "orders")
    produce(node, "orders", b"one", b"two")
    back_up(node, store)
    path, manifest = last_manifest(store)
    path.unlink()
    (orders,) = (each for each in manifest.partitions if each.partition.topic == "orders")
    (segment,) = orders.segments
    assert segment.tail is not None
    header = bytearray.fromhex(segment.tail.header)
    header[17] ^= 1  # of the CRC
    other = Tail(segment.tail.position, header.hex())
    changed = [
        each if each is not orders else manifests.BackedPartition(
            each.partition, each.topic_id, each.epochs, each.settled,
            (manifests.BackedSegment(segment.base, segment.last, segment.parts, other),),
        )
        for each in manifest.partitions
    ]  # fmt: skip
    name, data = manifests.build(
        Manifest(manifest.started_ms, manifest.at_ms, manifest.directories, tuple(changed), manifest.cluster)
    )
    (store / name).write_bytes(data)
    produce(node, "orders", b"three")
    back_up(node, store)
    (orders,) = (each for each in last_manifest(store)[1].partitions if each.partition.topic == "orders")
    assert [(each.base, each.last, len(each.parts)) for each in orders.segments] == [(0, 2, 1)]
    with Client(node.address) as client:
        client.call("delete_topics", 6, topics=[{"name": "orders", "topic_id": None}], timeout=1000)
    create(node, "orders")
    produce(node, "orders", b"new")
    back_up(node, store)
    new = restore(store, tmp_path / "new")
    assert log_bytes(new / "orders-0") == log_bytes(tmp_path / "data" / "orders-0")


def test_a_compacted_topic_is_copied_anew_when_tombstones_may_be_gone(node: ServedNode, tmp_path: Path) -> None:
    store = tmp_path / "store"
    create(node, "old", cleanup_policy="compact", delete_retention_ms="0")
    create(node, "young", cleanup_policy="compact")
    for topic in ("old", "young"):
        produce(node, topic, b"one")
    back_up(node, store)
    for topic in ("old", "young"):
        produce(node, topic, b"two")
    back_up(node, store)
    parts = {
        each.partition.topic: len(each.segments[0].parts)
        for each in last_manifest(store)[1].partitions
        if each.partition.topic in ("old", "young")
    }
    assert parts == {"old": 1, "young": 2}


def refused(*arguments: str | Path) -> Ended:
    ended = kcli("backup", *arguments)
    assert (ended.stdout, ended.status) == ("", 2)
    return ended


def test_the_last_producer_id_of_all(node: ServedNode, tmp_path: Path) -> None:
    """A client may use any. The next run reads the manifest, and the restored node starts."""
    create(node, "orders")
    produce(node, "orders", b"one", producer=(2**63 - 1, 0))
    for _ in range(2):
        back_up(node, tmp_path / "store")
    with served_node(restore(tmp_path / "store", tmp_path / "new")):
        pass


def test_a_store_of_something_else(node: ServedNode, tmp_path: Path) -> None:
    store, of_directory = tmp_path / "store", tmp_path / "of-directory"
    back_up(node, store)
    assert kcli("backup", tmp_path / "data", "--to", of_directory).status == 0
    before = {each: each.read_bytes() for each in (*store.rglob("*.*"), *of_directory.rglob("*.*")) if each.is_file()}
    network = ("--bootstrap-server", node.bootstrap)
    assert "has a backup over the network" in refused(tmp_path / "data", "--to", store).stderr
    assert "has the backup of log directories" in refused(*network, "--to", of_directory).stderr
    assert "one of them" in refused(tmp_path / "data", *network, "--to", store).stderr
    assert "asks the store alone" in refused(*network, "--to", store, "--check").stderr
    with served_node(tmp_path / "other") as other:
        ended = refused("--bootstrap-server", other.bootstrap, "--to", store)
    assert "has the backup of cluster" in ended.stderr
    assert before == {each: each.read_bytes() for each in before}


def test_nobody_answers(tmp_path: Path) -> None:
    ended = kcli("backup", "--bootstrap-server", "127.0.0.1:1", "--timeout", "1", "--to", tmp_path / "store")
    assert ended.status != 0
    assert "no broker answers (Connection refused)" in ended.stderr
    assert not list((tmp_path / "store").glob("*"))
