"""The segments of the tier by Kafka's own RemoteLogMetadataCache, compared with kcli's."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kcli.tier.cache import Refused, SegmentCache
from kcli.tier.metadata import RemoteLogMetadata, metadata_partition
from kcli.tier.segment import SegmentState, TieredPartition
from tests.conftest import is_soak
from tests.interop.kit import Oracle
from tests.tier.records import PARTITION, life, uuid

LIVES, SOAK_LIVES = 400, 20_000
ORACLE = Path(__file__).with_name("TierOracle.java")
EPOCHS = range(45)


@pytest.fixture(scope="module")
def kafka(kafka_jars: Path) -> Iterator[Oracle]:
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
    started = Oracle(kafka_jars, ORACLE, quiet, "-Dlog4j2.level=OFF")
    yield started
    started.close()


def answer(records: list[bytes], offsets: list[tuple[int, int]]) -> dict[str, Any]:
    """What kcli makes of the records, as the oracle answers."""
    metadata = RemoteLogMetadata()
    for each in records:
        try:
            metadata.replay(each)
        except Refused:
            continue
    cache = metadata.caches.get(PARTITION, SegmentCache())
    held = [cache.segment_at(epoch, offset) for epoch, offset in offsets]
    highest = {epoch: cache.highest_offset(epoch) for epoch in EPOCHS}
    return {
        "segments": {
            each.id: [SegmentState(each.state or 0).name, each.event_timestamp_ms, each.broker_id]
            for each in cache.segments()
        },
        "epochs": [
            [sorted(each.id for each in cache.segments_of(epoch)), -1 if highest[epoch] is None else highest[epoch]]
            for epoch in EPOCHS
        ],
        "offsets": ["" if each is None else each.id for each in held],
    }


@pytest.mark.hypothesis
def test_segments_of_a_partition(kafka: Oracle) -> None:
    held = 0
    for seed in range(SOAK_LIVES if is_soak() else LIVES):
        records = life(seed)
        offsets = [(epoch, offset) for epoch in range(8) for offset in range(0, 400, 7)]
        texts = [b64encode(each).decode() for each in records]
        theirs = kafka.ask("cache", records=texts, epochs=list(EPOCHS), offsets=offsets)
        assert answer(records, offsets) == theirs, seed
        held += sum(each != "" for each in theirs["offsets"])
    assert held > 10 * LIVES, "the lives have segments that are read"


@pytest.mark.hypothesis
def test_partition_of_the_records(kafka: Oracle) -> None:
    for number in range(200):
        topic_id = uuid(number * 0x9E3779B97F4A7C15F39CC0605CEDC834 % 2**128)
        for partition, count in ((0, 50), (number, 50), (number * 7919, 3), (2**31 - 1, 1_000)):
            theirs = kafka.ask("partition", topic_id=topic_id, partition=partition, count=count)
            assert metadata_partition(TieredPartition("any", partition, topic_id), count) == theirs
