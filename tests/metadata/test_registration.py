"""Brokers that come and go, decided as real Kafka's controller decided.

Three logs of real controllers are replayed batch by batch: of a single node (topics, a clean shutdown, kill -9), of one
with two log directories of which one fails, and of the golden cluster. Wherever a batch says that a broker registered,
was fenced or unfenced, began to shut down or lost a directory, our decision on the image before it must be that batch.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kcli.metadata.directory_control import assign_replicas
from kcli.metadata.image import MetadataImage, Record
from kcli.metadata.partition import to_uuid
from kcli.metadata.registration import Broker
from kcli.metadata.registration_control import (
    NO_EPOCH,
    begin_controlled_shutdown,
    cordon_directories,
    directories_offline,
    fence_broker,
    register_broker,
    unfence_broker,
)
from kcli.metadata_log.records import read_batches
from tests.conftest import GOLDEN
from tests.metadata.wire import whole

HERE = Path(__file__).parent
NONE: Mapping[str, str] = {}
LOGS = [
    HERE / "single_node/__cluster_metadata-0/00000000000000000000.log",
    HERE / "two_directories/__cluster_metadata-0/00000000000000000000.log",
    GOLDEN / "kraft/controller-101/__cluster_metadata-0",
]


def batches(log: Path) -> Iterator[list[Record]]:
    for path in sorted(log.glob("*.log")) if log.is_dir() else [log]:
        for batch in read_batches(path):
            if batch.records:
                yield [each for each in batch.records if each[0] != "NoOpRecord"]


def read(records: Sequence[Record]) -> list[Record]:
    return [(name, version, whole(name, version, value)) for name, version, value in records]


def normal(records: Sequence[Record]) -> Counter[str]:
    """Return records sorted, without the order of Kafka's hash tables."""

    def ordered(value: dict[str, Any]) -> dict[str, Any]:
        unordered = ("features", "endPoints", "logDirs")
        return {key: sorted(each, key=str) if key in unordered and each else each for key, each in value.items()}

    return Counter(f"{name} {version} {json.dumps(ordered(value), sort_keys=True)}" for name, version, value in records)


def decisions(image: MetadataImage, batch: Sequence[Record]) -> list[list[Record]]:
    """Return the records that kcli would have written, given the events of the batch; several where the events are not
    certain."""
    ours: list[Record] = []
    moved: dict[int, dict[tuple[Any, int], Any]] = {}
    for name, _, value in batch:
        if name == "RegisterBrokerRecord":
            broker = Broker.of(value)
            known = image.brokers.get(broker.id)
            epochs = {NO_EPOCH, NO_EPOCH if known is None else known.epoch}
            return [register_broker(image, broker, epoch, {}) for epoch in epochs]
        if name == "BrokerRegistrationChangeRecord":
            ours += changes(image, value)
        elif name == "PartitionChangeRecord" and set(given(value)) == {"topicId", "partitionId", "directories"}:
            partition = to_uuid(value["topicId"]), value["partitionId"]
            state = image.partition(*partition)
            assert state is not None
            for broker_id, text in zip(state.replicas, value["directories"], strict=True):
                if state.directory(broker_id) != to_uuid(text):
                    moved.setdefault(broker_id, {})[partition] = to_uuid(text)
    for broker_id, directories in moved.items():
        assignments = [(home, [(topic_id, [number])]) for (topic_id, number), home in directories.items()]
        ours += assign_replicas(image, broker_id, image.brokers[broker_id].epoch, assignments, {}).records
    return [ours] if ours else []


def given(value: dict[str, Any]) -> dict[str, Any]:
    return {key: each for key, each in value.items() if each is not None and each not in (-1, -2)}


def changes(image: MetadataImage, value: dict[str, Any], properties: Mapping[str, str] = NONE) -> list[Record]:
    """Return the records that kcli would have written for such a change of a broker's registration."""
    broker_id = value["brokerId"]
    if value["fenced"]:
        return (fence_broker if value["fenced"] > 0 else unfence_broker)(image, broker_id, properties)
    if value.get("inControlledShutdown"):
        return begin_controlled_shutdown(image, broker_id, properties)
    if value.get("logDirs"):
        online = {to_uuid(each) for each in value["logDirs"]}
        return directories_offline(image, broker_id, set(image.brokers[broker_id].directories) - online, properties)
    return cordon_directories(image, broker_id, [to_uuid(each) for each in value["cordonedLogDirs"]])


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.relative_to(path.parents[2]).parts[0])
def test_what_a_real_controller_wrote(log: Path) -> None:
    image, offset, compared = MetadataImage(), 0, 0
    for batch in batches(log):
        expected = decisions(image, batch)
        if expected:
            compared += 1
            assert normal(batch) in [normal(read(records)) for records in expected], offset
        for name, _, value in batch:
            image.apply(name, value, offset)
            offset += 1
    assert compared >= 8
