"""The tier with Kafka's own words: the segments by its RemoteLogMetadataCache, compared with kcli's; and Kafka, which
opens what `kcli tier fetch` made, repairs nothing, and serves the same records."""

from __future__ import annotations

import os
import shutil
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from formats.errors import FormatError
from formats.file_name import FileKind
from kcli.tier.cache import Implausible, Refused, SegmentCache
from kcli.tier.metadata import RemoteLogMetadata, metadata_partition
from kcli.tier.records import PARTITION_DELETE, SEGMENT, SEGMENT_UPDATE, record_bytes
from kcli.tier.segment import RemoteSegment, SegmentState, TieredPartition
from tests.conftest import is_soak
from tests.interop.kit import Oracle, kafka
from tests.interop.test_restore_kafka import consumed, opened, wanted
from tests.tier.hostile import flipped, kinds
from tests.tier.records import PARTITION, life, started, updated, uuid
from tests.tier.stores import TIERED, Copy
from tests.tier.test_records import segments, values

LIVES, SOAK_LIVES = 400, 20_000
ORACLE = Path(__file__).with_name("TierOracle.java")
EPOCHS = range(45)


@pytest.fixture(scope="module")
def oracle(kafka_jars: Path) -> Iterator[Oracle]:
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
def test_segments_of_a_partition(oracle: Oracle) -> None:
    held = 0
    for seed in range(SOAK_LIVES if is_soak() else LIVES):
        records = life(seed)
        offsets = [(epoch, offset) for epoch in range(8) for offset in range(0, 400, 7)]
        texts = [b64encode(each).decode() for each in records]
        theirs = oracle.ask("cache", records=texts, epochs=list(EPOCHS), offsets=offsets)
        assert answer(records, offsets) == theirs, seed
        held += sum(each != "" for each in theirs["offsets"])
    assert held > 10 * LIVES, "the lives have segments that are read"


@pytest.mark.hypothesis
def test_partition_of_the_records(oracle: Oracle) -> None:
    for number in range(200):
        topic_id = uuid(number * 0x9E3779B97F4A7C15F39CC0605CEDC834 % 2**128)
        for partition, count in ((0, 50), (number, 50), (number * 7919, 3), (2**31 - 1, 1_000)):
            theirs = oracle.ask("partition", topic_id=topic_id, partition=partition, count=count)
            assert metadata_partition(TieredPartition("any", partition, topic_id), count) == theirs


@pytest.mark.hypothesis
def test_bytes_of_the_records(oracle: Oracle) -> None:
    """Kafka's serde writes the same bytes for what it reads from ours."""
    kinds = {
        SEGMENT: "RemoteLogSegmentMetadata",
        SEGMENT_UPDATE: "RemoteLogSegmentMetadataUpdate",
        PARTITION_DELETE: "RemotePartitionDeleteMetadata",
    }

    @settings(max_examples=2_000 if is_soak() else 300, deadline=None)
    @given(segments())
    def hold(segment: RemoteSegment) -> None:
        ours = [(kinds[kind], b64encode(record_bytes(kind, value)).decode()) for kind, value in values(segment)]
        theirs = oracle.ask("written", records=[data for _, data in ours])
        assert [tuple(each) for each in theirs] == ours

    hold()


def test_records_that_no_broker_writes(oracle: Oracle) -> None:
    """Kafka's reader of the topic ends with what kcli refuses, or drops it; what it takes, kcli takes too, but for the
    records that are Implausible: with the deletion of a partition Kafka forgets the segments of a topic in use."""
    sound = [started(uuid(1), 0, 9), updated(uuid(1), 1)]
    forgotten = {"deletion 2", "deletion whole"}
    differ = set()
    lives: dict[str, list[bytes | None]] = {f"flipped {seed}": [*flipped(seed)] for seed in range(100)}
    for kind, hostile in (kinds() | lives).items():
        records = [*sound, *hostile]
        texts = [None if each is None else b64encode(each).decode() for each in records]
        theirs = oracle.ask("store", **PARTITION._asdict(), records=texts)
        metadata = RemoteLogMetadata({PARTITION.topic_id: PARTITION.topic}.get)
        for each, answer in zip(records, theirs["answers"], strict=True):
            try:
                metadata.replay(each)
            except Implausible:
                differ.add(kind)
            except (Refused, FormatError):
                pass
            else:
                assert not answer or kind in differ, (kind, answer)
        ours = {each.id: SegmentState(each.state or 0).name for each in metadata.caches[PARTITION].segments()}
        if kind not in differ:
            assert ours == theirs["segments"], kind
        assert ours[uuid(1)] == "COPY_SEGMENT_FINISHED"
        assert ("none" in theirs["segments"]) == (kind in forgotten) or kind.startswith("flipped"), kind
    assert {each for each in differ if not each.startswith("flipped")} == forgotten | {
        "deletion 0", "deletion 1", "epochs go back", "epochs outside", "many epochs", "negative epoch",
        "partition 2^31-1", "size negative",
    }  # fmt: skip


TOPICS = {"r-short": 2, "r-keep": 1}
NODE = f"kcli-tier-{os.getpid()}"


@pytest.fixture(scope="module")
def topics(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log directory of a broker on which the topics are new, plain and empty."""
    directory = tmp_path_factory.mktemp("node") / "data"
    try:
        address = kafka("start", NODE).strip().splitlines()[-1]
        for topic, partitions in TOPICS.items():
            where = ["--bootstrap-server", address, "--create", "--topic", topic]
            kafka("topics", *where, "--partitions", str(partitions), "--replication-factor", "1")
        kafka("stop", NODE)
        shutil.copytree(kafka("dir", NODE).strip(), directory)
    finally:
        kafka("rm", NODE)
    return directory


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("is_alone", [False, True])
def test_kafka_serves_what_was_fetched(topics: Path, tmp_path: Path, *, is_alone: bool, is_clean: bool) -> None:
    """is_alone: from the objects alone. is_clean: Kafka takes indexes and snapshots as they are; else it makes them."""
    for topic in TOPICS:
        Copy(TIERED / "data", TIERED / "remote").fetched(tmp_path / topic, topic, is_alone=is_alone)
    shutil.copytree(topics, tmp_path / "data")
    if not is_clean:
        (tmp_path / "data" / FileKind.CLEAN_SHUTDOWN).unlink()
    for topic, partitions in TOPICS.items():
        for number in range(partitions):
            directory = tmp_path / f"data/{topic}-{number}"
            metadata = (directory / FileKind.PARTITION_METADATA).read_bytes()
            shutil.rmtree(directory)
            shutil.copytree(tmp_path / topic / directory.name, directory)
            (directory / FileKind.PARTITION_METADATA).write_bytes(metadata)
    ends = {("r-short", 0): 254, ("r-short", 1): 282, ("r-keep", 0): 224}
    with opened(tmp_path / "data") as address:
        for isolation, suffix in (("read_uncommitted", ""), ("read_committed", ".read_committed")):
            for topic, theirs in consumed(address, TOPICS, isolation).items():
                whole = wanted(TIERED / f"expected/truth/{topic}{suffix}.jsonl.gz")
                if not is_alone:
                    assert theirs == whole
                elif not suffix:
                    assert theirs == [each for each in whole if each["offset"] < ends[topic, each["partition"]]]
                else:  # transactions that end behind the tier are open in it
                    assert len(theirs) > len(whole) // 2
                    assert [each for each in theirs if each not in whole] == []
