"""Queries with bootstrapFrom, without Spark: from a copy of the disk to the brokers, each record once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from formats.properties import PartitionMetadata, build_partition_metadata
from kcli.errors import UnreadableInput, UsageError
from kcli.export.corruption import CorruptLog
from kcli.export.splits import DataLoss
from kcli.pipelines.stream import ON_DISK
from kcli.testing.kafka import Kafka
from tests.export.micro_batches import Crashed, Query
from tests.pipelines.queries import live, offsets_of
from tests.pipelines.test_live_batch import delete_records, delete_topic
from tests.pipelines.test_live_stream import add_partitions

EARLIEST = {"startingOffsets": "earliest"}
OTHER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def copied(kafka: Kafka, to: Path) -> str:
    """Copy the disk of the broker, with its high watermarks."""
    kafka.restart()
    shutil.copytree(kafka.data_dir, to)
    return str(to)


def numbered(kafka: Kafka, *numbers: int) -> None:
    """Produce the numbers to t, each with its time in s."""
    kafka.produce("t", *({"value": f"{i}", "timestamp_ms": 1_000 * i} for i in numbers))


def history(kafka: Kafka, to: Path) -> str:
    """A disk with 0 to 9 of t, and brokers with 6 to 14."""
    numbered(kafka, *range(10))
    disk = copied(kafka, to)
    delete_records(kafka, "t", 6)
    numbered(kafka, *range(10, 15))
    return disk


@contextmanager
def stream(kafka: Kafka, disk: str | None, **options: str) -> Iterator[Query]:
    given = {"kafka.bootstrap.servers": kafka.bootstrap_servers, **EARLIEST, **options}
    query = Query(None, **given, **({} if disk is None else {"bootstrapFrom": disk}))
    try:
        yield query
    finally:
        query.reader.stop()


@pytest.mark.parametrize("more", [{}, {"minPartitions": "4"}, {"maxRecordsPerPartition": "2"}])
def test_a_batch_query(kafka: Kafka, tmp_path: Path, more: dict[str, str]) -> None:
    disk = history(kafka, tmp_path / "disk")
    table = live(kafka.bootstrap_servers, bootstrapFrom=disk, columns="offset,topic,partition,value,segment", **more)
    assert offsets_of(table) == [*range(15)]
    assert [int(value) for value in table.column("value").to_pylist()] == [*range(15)]
    assert [name is not None for name in table.column("segment").to_pylist()] == [True] * 10 + [False] * 5
    assert offsets_of(live(kafka.bootstrap_servers)) == [*range(6, 15)]


def test_offsets_and_times(kafka: Kafka, tmp_path: Path) -> None:
    disk = history(kafka, tmp_path / "disk")

    def read(**options: str) -> list[int]:
        return offsets_of(live(kafka.bootstrap_servers, bootstrapFrom=disk, subscribe="t", **options))

    assert read(startingOffsets='{"t": {"0": 3}}', endingOffsets='{"t": {"0": 12}}') == [*range(3, 12)]
    assert read(startingOffsets='{"t": {"0": 11}}') == [*range(11, 15)]
    assert read(startingTimestamp="2000", endingTimestamp="4000") == [2, 3]
    assert read(startingTimestamp="12000") == [12, 13, 14]
    assert read(endingOffsets='{"t": {"0": 2}}') == [0, 1]
    with pytest.raises(UsageError, match="t-0: no record at or after the starting time 99000"):
        read(startingTimestamp="99000")


def test_a_stream(kafka: Kafka, tmp_path: Path) -> None:
    """Each batch is planned by a process that dies. The disk goes once it is not needed any more."""
    disk = history(kafka, tmp_path / "disk")
    with stream(kafka, disk, maxOffsetsPerTrigger="4") as query:
        for wanted in ({"t": {"0": 4}}, {"t": {"0": 8}}, {"t": {"0": 12}}):
            with pytest.raises(Crashed):
                query.run(dies=True)
            query.reader.stop()
            query.start()
            assert query.run() == 4
            assert query.at() == {**wanted, ON_DISK: {"t": {"0": [0, 10]}}}
        shutil.rmtree(disk)
        query.reader.stop()
        query.start()
        assert query.drain() == 3
        assert query.at() == {"t": {"0": 15}}
        numbered(kafka, 15)
        assert query.drain() == 1
        assert query.offsets() == [*range(16)]


def test_the_switch_offset_stays(kafka: Kafka, tmp_path: Path) -> None:
    """The disk of the running broker grows, and a batch that is planned again is the same."""
    numbered(kafka, *range(10))
    kafka.restart()
    with stream(kafka, str(kafka.data_dir)) as query:
        with pytest.raises(Crashed):
            query.run(dies=True)
        numbered(kafka, *range(10, 20))
        kafka.restart()
        query.reader.stop()
        query.start()
        assert query.run() == 10
        assert query.at() == {"t": {"0": 10}, ON_DISK: {"t": {"0": [0, 10]}}}
        assert query.run() == 10
        assert query.run() == 0
        assert query.at() == {"t": {"0": 20}}
        assert query.offsets() == [*range(20)]


def test_available_now_and_later_partitions(kafka: Kafka, tmp_path: Path) -> None:
    disk = history(kafka, tmp_path / "disk")
    with stream(kafka, disk, maxOffsetsPerTrigger="7") as query:
        query.reader.stop()
        assert query.available_now() == 15
        add_partitions(kafka, "t", 2)
        kafka.produce("t", {"value": "later", "partition": 1})
        query.reader.stop()
        assert query.available_now() == 1
        assert query.offsets("t", 1) == [0]


def test_from_the_latest_needs_no_disk(kafka: Kafka, tmp_path: Path) -> None:
    disk = history(kafka, tmp_path / "disk")
    with stream(kafka, disk, startingOffsets="latest") as query:
        assert query.drain() == 0
        assert query.at() == {"t": {"0": 15}}


def test_a_disk_that_begins_later(kafka: Kafka, tmp_path: Path) -> None:
    """What is before its first offset comes from the brokers."""
    numbered(kafka, *range(10))
    (tmp_path / "disk").mkdir()
    disk = copied(kafka, tmp_path / "disk" / "data")
    (tmp_path / "disk/data/log-start-offset-checkpoint").write_text("0\n1\nt 0 4\n")
    numbered(kafka, *range(10, 12))
    table = live(kafka.bootstrap_servers, bootstrapFrom=disk, columns="offset,topic,partition,segment")
    assert offsets_of(table) == [*range(12)]
    assert [name is not None for name in table.column("segment").to_pylist()] == [False] * 4 + [True] * 6 + [False] * 2
    with stream(kafka, disk) as query:
        query.drain()
        assert sorted(query.offsets()) == [*range(12)]
    delete_records(kafka, "t", 2)
    with pytest.raises(DataLoss, match="t-0: offset 1 is gone, the log starts at 2"):
        live(kafka.bootstrap_servers, bootstrapFrom=disk, startingOffsets='{"t": {"0": 1}}')


def test_a_gap_between_disk_and_brokers(kafka: Kafka, tmp_path: Path) -> None:
    disk = history(kafka, tmp_path / "disk")
    delete_records(kafka, "t", 12)
    message = "t-0: offset 10 is gone, the log starts at 12"
    with pytest.raises(DataLoss, match=message):
        live(kafka.bootstrap_servers, bootstrapFrom=disk)
    with stream(kafka, disk, maxOffsetsPerTrigger="2") as query, pytest.raises(DataLoss, match=message):
        query.run()
    left = [*range(10), 12, 13, 14]
    assert offsets_of(live(kafka.bootstrap_servers, bootstrapFrom=disk, failOnDataLoss="false")) == left
    with stream(kafka, disk, failOnDataLoss="false", maxOffsetsPerTrigger="3") as query:
        query.drain()
        assert query.offsets() == left


def test_only_what_is_decided(kafka: Kafka, tmp_path: Path) -> None:
    """With read_committed the switch offset is the last stable offset of the disk; both transactions end later."""
    kafka.create_topic("t")
    producers = [Producer({**kafka.client_config("confluent"), "transactional.id": name}) for name in "ab"]
    for i, producer in enumerate(producers):
        producer.init_transactions()
        kafka.produce("t", f"plain-{i}")
        producer.begin_transaction()
        producer.produce("t", f"open-{i}")
        producer.flush()
    disk = copied(kafka, tmp_path / "disk")
    producers[0].commit_transaction()
    producers[1].abort_transaction()
    options = {"isolation": "read_committed", "subscribe": "t"}
    table = live(kafka.bootstrap_servers, bootstrapFrom=disk, columns="offset,topic,partition,value,segment", **options)
    assert table.column("value").to_pylist() == [b"plain-0", b"open-0", b"plain-1"]
    assert [name is not None for name in table.column("segment").to_pylist()] == [True, False, False]
    with stream(kafka, disk, **options) as query:
        query.drain()
        assert [value for *_, value in query.rows] == [b"plain-0", b"open-0", b"plain-1"]


def test_an_abort_behind_the_switch_offset(kafka: Kafka, tmp_path: Path) -> None:
    """Its record is before the switch offset, its marker on the disk, and behind it."""
    kafka.create_topic("t")
    producers = [Producer({**kafka.client_config("confluent"), "transactional.id": name}) for name in "ab"]
    for producer in producers:
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce("t", "undecided")
        producer.flush()
        kafka.produce("t", "plain")
    producers[0].abort_transaction()
    disk = copied(kafka, tmp_path / "disk")
    producers[1].commit_transaction()
    table = live(
        kafka.bootstrap_servers,
        bootstrapFrom=disk,
        isolation="read_committed",
        columns="offset,topic,partition,segment",
    )
    assert offsets_of(table) == [1, 2, 3]
    assert table.column("segment").null_count == 2
    with stream(kafka, disk, isolation="read_committed", subscribe="t") as query:
        query.drain()
        assert query.offsets() == [1, 2, 3]


def test_the_high_watermark_bounds_the_disk(kafka: Kafka, tmp_path: Path) -> None:
    """What is behind it may not be on the leader."""
    disk = history(kafka, tmp_path / "disk")
    (tmp_path / "disk/replication-offset-checkpoint").write_text("0\n1\nt 0 8\n")
    table = live(kafka.bootstrap_servers, bootstrapFrom=disk, columns="offset,topic,partition,segment")
    assert offsets_of(table) == [*range(15)]
    assert table.column("segment").null_count == 7


def test_another_topic_of_the_name(kafka: Kafka, tmp_path: Path) -> None:
    disk = history(kafka, tmp_path / "disk")
    delete_topic(kafka, "t")
    kafka.produce("t", "new")
    with pytest.raises(
        UsageError, match=r"disk/t-0: the topic has the id \S+, and that of the brokers \S+: it is anot"
    ):
        live(kafka.bootstrap_servers, bootstrapFrom=disk)
    with stream(kafka, disk) as query, pytest.raises(UsageError, match="another topic of the same name"):
        query.run()


def test_a_disk_that_is_exchanged_meanwhile(kafka: Kafka, tmp_path: Path) -> None:
    """A query that starts again looks whether the topics are still the same."""
    disk = history(kafka, tmp_path / "disk")
    with stream(kafka, disk, maxOffsetsPerTrigger="3") as query:
        query.run()
        metadata = build_partition_metadata(PartitionMetadata(0, OTHER_ID))
        (tmp_path / "disk/t-0/partition.metadata").write_bytes(metadata)
        query.reader.stop()
        query.start()
        with pytest.raises(UsageError, match=f"the topic has the id {OTHER_ID}"):
            query.run()


def test_another_cluster(kafka: Kafka, tmp_path: Path) -> None:
    disk = history(kafka, tmp_path / "disk")
    path = tmp_path / "disk/meta.properties"
    path.write_text("\n".join(["cluster.id=other" if "cluster.id" in x else x for x in path.read_text().splitlines()]))
    with pytest.raises(UsageError, match=r"disk is of the cluster other, the brokers are of the cluster \S+"):
        live(kafka.bootstrap_servers, bootstrapFrom=disk)


def test_the_id_from_the_metadata_log(kafka: Kafka, tmp_path: Path) -> None:
    disk = history(kafka, tmp_path / "disk")
    (tmp_path / "disk/t-0/partition.metadata").unlink()
    assert offsets_of(live(kafka.bootstrap_servers, bootstrapFrom=disk)) == [*range(15)]
    shutil.rmtree(tmp_path / "disk/__cluster_metadata-0")
    with pytest.raises(UsageError, match=r"no partition.metadata and no metadata log tells the topic's id"):
        live(kafka.bootstrap_servers, bootstrapFrom=disk)
    (tmp_path / "disk/t-0/partition.metadata").write_text("version: 0\n")
    with pytest.raises(UnreadableInput, match=r"partition\.metadata"):
        live(kafka.bootstrap_servers, bootstrapFrom=disk)


def test_damage(kafka: Kafka, tmp_path: Path) -> None:
    for i in range(10):
        numbered(kafka, i)
    disk = copied(kafka, tmp_path / "disk")
    log = tmp_path / "disk/t-0/00000000000000000000.log"
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    with pytest.raises(CorruptLog):
        live(kafka.bootstrap_servers, bootstrapFrom=disk)
    numbered(kafka, 10)
    found = offsets_of(live(kafka.bootstrap_servers, bootstrapFrom=disk, onCorruption="skip"))
    assert len(found) == 10
    assert {0, 9, 10} <= {*found}
    report = {"onCorruption": "report", "corruptionReport": str(tmp_path / "report")}
    assert offsets_of(live(kafka.bootstrap_servers, bootstrapFrom=disk, **report)) == found
    assert any((tmp_path / "report").iterdir())


def test_a_checkpoint_needs_its_disk(kafka: Kafka, tmp_path: Path) -> None:
    disk = history(kafka, tmp_path / "disk")
    with stream(kafka, disk, maxOffsetsPerTrigger="3") as query:
        query.run()
        del query.options["bootstrapFrom"]
        query.reader.stop()
        query.start()
        with pytest.raises(UsageError, match="the checkpoint reads t-0 from a disk up to 6: give bootstrapFrom"):
            query.run()
        begin = {"t": {"0": 3}, ON_DISK: {"t": {"0": 3}}}
        with pytest.raises(UsageError, match="the checkpoint is not of a kafka-log stream"):
            query.reader.partitions(begin, {"t": {"0": 6}})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bootstrapFrom": ""}, "bootstrapFrom, the path of a log directory, goes with kafka.bootstrap.servers"),
        ({"bootstrapFrom": "x", "path": "y"}, "and no other path"),
        ({"bootstrapFrom": "x", "beyondHighWatermark": "true"}, "beyondHighWatermark: brokers show no consumer"),
        ({"bootstrapFrom": "/nowhere"}, "/nowhere: no such file or directory"),
    ],
)
def test_bad_options(kafka: Kafka, options: dict[str, str], message: str) -> None:
    kafka.produce("t", "x")
    with pytest.raises((UsageError, UnreadableInput), match=message):
        live(kafka.bootstrap_servers, **options)


def test_nothing_of_it_on_the_disk(kafka: Kafka, tmp_path: Path) -> None:
    disk = history(kafka, tmp_path / "disk")
    kafka.produce("u", "x")
    with pytest.raises(UsageError, match=f"none of the partitions to be read is in {disk}"):
        live(kafka.bootstrap_servers, bootstrapFrom=disk, subscribe="u")
    assert live(kafka.bootstrap_servers, bootstrapFrom=disk, subscribe="t,u").num_rows == 16
