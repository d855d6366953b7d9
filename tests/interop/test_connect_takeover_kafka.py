"""A real Connect worker and kcli's engine take over from each other, with the offsets that the other has written."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kcli.client.connection import Connection
from kcli.client.groups import Groups
from kcli.connect.connectors.mirror.source import MirrorSource
from kcli.connect.engine.clients import committed_offsets
from kcli.protocol.topic_partition import TopicPartition
from kcli.testing.kafka import Kafka
from tests.connect.calls import call
from tests.connect.record import real_worker
from tests.connect.replaying import Worker
from tests.connect.test_mirror import config_of
from tests.connect.turns import OFFSETS_TOPIC, STRINGS, consumed, turn
from tests.interop.clusters import free_ports
from tests.interop.kit import SCRIPT

PACKAGE = "org.apache.kafka.connect.file"


def put(worker: Worker, config: Mapping[str, str]) -> None:
    answer = worker.send(call("PUT", f"/connectors/{config['name']}/config", dict(config)))
    assert answer["status"] in (200, 201), answer


def wait_for(is_true: Any, seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < until, "it did not come true"
        time.sleep(0.1)


@pytest.mark.kafka
def test_file_and_mirror(kafka_jars: Path, kafka: Kafka, tmp_path: Path) -> None:
    """Real first, then kcli, then real again: FileStream source and sink; and MirrorMaker's source."""
    lines, out = tmp_path / "in", tmp_path / "out"
    source = {"name": "in", "connector.class": f"{PACKAGE}.FileStreamSourceConnector", "file": str(lines), "topic": "l"}
    sink = {"name": "out", "connector.class": f"{PACKAGE}.FileStreamSinkConnector", "file": str(out), "topics": "l"}
    groups = Groups(Connection(kafka.bootstrap_servers))
    kafka.seed({"l": 1})

    def committed() -> int | None:
        found = committed_offsets(groups, "connect-out").get(TopicPartition("l", 0))
        return None if found is None else found.offset

    def written() -> list[str]:
        return out.read_text().splitlines() if out.exists() else []

    with Kafka.started() as other:
        other.create_topic("orders", 1)
        other.produce("orders", *({"value": f"a{i}"} for i in range(50)))
        mirror = config_of("Source", other, kafka, topics="orders")
        settings = {"exactly__once__source__support": "enabled"}
        lines.write_text("one\ntwo\n")
        with real_worker(str(SCRIPT), kafka.bootstrap_servers, free_ports(1)[0], tmp_path, **settings) as worker:
            for each in (source, sink, mirror):
                put(worker, each)
            wait_for(lambda: written() == ["one", "two"])
            wait_for(lambda: committed() == 2)
            assert len(consumed(kafka, "A.orders", 50)) == 50
        with lines.open("a") as file:
            file.write("three\nfour\n")
        other.produce("orders", *({"value": f"b{i}"} for i in range(50)))
        found = turn(kafka, {**STRINGS, **source}, exactly_once=True, offsets_topic=OFFSETS_TOPIC)
        assert (found.trace, found.records) == (None, 2), (found, written())
        task = MirrorSource(mirror).task_configs(1)[0]
        mirrored = turn(kafka, mirror, exactly_once=True, offsets_topic=OFFSETS_TOPIC, task=task)
        assert (mirrored.trace, mirrored.records) == (None, 50)
        place = TopicPartition("l", 0)
        taken = turn(kafka, sink, positions={place: committed() or 0})
        assert (taken.trace, taken.records, written()) == (None, 2, ["one", "two", "three", "four"])
        assert list(groups.commit("connect-out", taken.positions)) == [place]
        with lines.open("a") as file:
            file.write("five\n")
        other.produce("orders", *({"value": f"c{i}"} for i in range(50)))
        with real_worker(str(SCRIPT), kafka.bootstrap_servers, free_ports(1)[0], tmp_path, **settings):
            wait_for(lambda: len(written()) >= 5)
            assert written() == ["one", "two", "three", "four", "five"]
            values = [each.value().decode() for each in consumed(kafka, "A.orders", 150)]
            assert values == [f"{letter}{i}" for letter in "abc" for i in range(50)]
