"""Real Kafka opens logs that were imported from an export, repairs nothing, and a consumer reads the expected
records."""

from __future__ import annotations

import os
from base64 import b64decode
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, KafkaError, TopicPartition

from formats.file_name import FileKind
from kcli.log.log_directory import read_properties
from tests.cli.run import kcli
from tests.conftest import GOLDEN, truth
from tests.export.parquet_logs import export_table, write_parquet
from tests.interop.kit import kafka
from tests.interop.test_recover_kafka import REPAIRS

NODE = f"kcli-restore-{os.getpid()}"
CASES = [
    ("codecs/data", "codecs/expected/truth", ""),
    ("compact/after", "compact/expected/truth/after", ""),
    ("legacy/data", "legacy/expected/truth", ""),
    ("txn/data", "txn/expected/data", ".read_uncommitted"),
    ("txn/data", "txn/expected/data", ".read_committed"),
]


@contextmanager
def opened(directory: Path) -> Iterator[str]:
    """Start Kafka on a copy of the directory; yield its address."""
    address = kafka("open", str(directory), NODE, "log.cleaner.enable=false").strip()
    try:
        yield address
    finally:
        kafka("stop", NODE)
        log = kafka("log", NODE)
        kafka("rm", NODE)
    assert not REPAIRS.findall(log)


def consumed(address: str, topics: Collection[str], isolation: str) -> dict[str, list[dict[str, Any]]]:
    """All records of the topics, by partition."""
    settings = {"bootstrap.servers": address, "group.id": "restore", "isolation.level": isolation}
    reading = {"enable.auto.commit": False, "auto.offset.reset": "earliest", "enable.partition.eof": True}
    consumer = Consumer({**settings, **reading})
    known = consumer.list_topics(timeout=30).topics
    open_ones = {(topic, number) for topic in topics for number in known[topic].partitions}
    consumer.assign([TopicPartition(topic, number, 0) for topic, number in open_ones])
    found: dict[str, list[dict[str, Any]]] = {topic: [] for topic in topics}
    while open_ones:
        message = consumer.poll(30)
        assert message is not None, "nothing for 30 s"
        topic, number = message.topic(), message.partition()
        assert topic is not None
        if (error := message.error()) is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            open_ones.discard((topic, number))
            continue
        kind, timestamp = message.timestamp()
        record = {
            "partition": number,
            "offset": message.offset(),
            "timestamp": timestamp,
            "is_append_time": kind == TIMESTAMP_LOG_APPEND_TIME,
            "key": message.key(),
            "value": message.value(),
            "headers": message.headers() or [],
        }
        found[topic].append(record)
    consumer.close()
    return {topic: sorted(records, key=_place) for topic, records in found.items()}


def _place(record: dict[str, Any]) -> tuple[int, int]:
    return record["partition"], record["offset"]


def wanted(path: Path) -> list[dict[str, Any]]:
    """The truth, in the same words."""

    def data(text: str | None) -> bytes | None:
        return None if text is None else b64decode(text)

    found = [
        {
            "partition": each["partition"],
            "offset": each["offset"],
            "timestamp": each["timestamp"],
            "is_append_time": each["timestamp_type"] == "LogAppendTime",
            "key": data(each["key"]),
            "value": data(each["value"]),
            "headers": [(name, data(value)) for name, value in each["headers"]],
        }
        for each in truth(str(path.relative_to(GOLDEN)))
    ]
    return sorted(found, key=_place)


@pytest.mark.parametrize("name", sorted({case[0] for case in CASES}))
def test_kafka_reads_what_came_back(kafka_jars: Path, name: str, tmp_path: Path) -> None:
    original, logs = GOLDEN / name, tmp_path / "logs"
    parquet = write_parquet(export_table(original), tmp_path / "parquet")
    cluster = read_properties(original / FileKind.META_PROPERTIES)["cluster.id"]
    done = kcli("import-from-parquet", parquet, "--out", logs, "--cluster-id", cluster)
    assert done.status == 0, done.stderr
    with opened(logs) as address:
        for _, folder, isolation in (case for case in CASES if case[0] == name):
            paths = {path.name.removesuffix(f"{isolation}.jsonl.gz"): path for path in folder_files(folder, isolation)}
            found = consumed(address, paths, isolation.removeprefix(".") or "read_uncommitted")
            for topic, path in paths.items():
                assert found[topic] == wanted(path), path


def folder_files(folder: str, isolation: str) -> list[Path]:
    """The truth files of topics."""
    return [path for path in sorted((GOLDEN / folder).glob(f"*{isolation}.jsonl.gz")) if "produced" not in path.name]
