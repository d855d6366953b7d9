"""Snapshots have the records of Kafka's own, and give the same image again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.inspector.cluster_metadata import read_image
from kcli.metadata.image import MetadataImage, Record
from kcli.metadata.partition_creation import MorePartitions, create_partitions
from kcli.metadata.producer_ids import next_block
from kcli.metadata.registration_control import (
    NO_EPOCH,
    begin_controlled_shutdown,
    fence_broker,
    register_broker,
    unfence_broker,
)
from kcli.metadata.snapshot import snapshot
from kcli.metadata.topic_control import NewTopic, TopicContext, create_topics
from kcli.metadata.topic_deletion import delete_topics
from kcli.metadata_log.replay import read_records
from tests.conftest import GOLDEN
from tests.metadata.node import NODE_ID, Metadata, registration, started
from tests.metadata.wire import whole

LOGS = sorted(path.parent for path in GOLDEN.glob("*/*/__cluster_metadata-0/quorum-state"))
SNAPSHOTS = sorted(GOLDEN.glob("kraft/*/__cluster_metadata-0/*.checkpoint"))
UNORDERED = ("endPoints", "features", "entity")  # lists whose order a Java HashMap makes


def text(name: str, value: dict[str, Any]) -> str:
    plain = dict(value)
    for field in UNORDERED:
        if field in plain:
            plain[field] = sorted(plain[field], key=str)
    return f"{name} {json.dumps(plain, sort_keys=True, default=bytes.hex)}"


def replayed(records: Iterable[Record]) -> MetadataImage:
    image = MetadataImage()
    for offset, (name, version, value) in enumerate(records):
        image.apply(name, whole(name, version, value), offset)
    return image


def state(image: MetadataImage) -> dict[str, Any]:
    """Everything but offsets and what counts changes."""
    return {
        name: value
        for name, value in {**vars(image), "configured": image.configured}.items()
        if not name.startswith("_") and name not in ("offset", "registered_at", "version")
    }


def replay_until(directory: Path, end: int) -> MetadataImage | None:
    """The log of a directory before offset `end`, from its first segment or, where that is gone, an earlier snapshot;
    None where the snapshot at `end` is the first thing there is."""
    image = MetadataImage()
    begin = 0
    logs = sorted(directory.glob("*.log"))
    if int(logs[0].stem):
        first = min(directory.glob("*.checkpoint"))
        begin = int(first.stem.split("-")[0])
        if begin >= end:
            return None
        for _, name, value in read_records(first):
            image.apply(name, value, begin - 1)
    for log in logs:
        for offset, name, value in read_records(log):
            if begin <= offset < end:
                image.apply(name, value, offset)
    return image


@pytest.mark.parametrize("path", SNAPSHOTS, ids=lambda path: f"{path.parents[1].name}/{path.name}")
def test_the_records_are_those_of_kafkas_own_snapshot(path: Path) -> None:
    image = replay_until(path.parent, int(path.stem.split("-")[0]))
    if image is None:
        image = MetadataImage()
        for offset, name, value in read_records(path):
            image.apply(name, value, offset)
    ours = Counter(text(name, whole(name, version, value)) for name, version, value in snapshot(image))
    kafkas = Counter(text(name, value) for _, name, value in read_records(path))
    assert ours == kafkas


def test_a_log_in_the_golden_data_reaches_every_snapshot_from_an_earlier_state() -> None:
    """Otherwise the test above would compare some snapshots only with themselves."""
    alone = [path for path in SNAPSHOTS if replay_until(path.parent, int(path.stem.split("-")[0])) is None]
    assert len(alone) < len(SNAPSHOTS) / 4


@pytest.mark.parametrize("directory", LOGS, ids=lambda path: "/".join(path.parts[-3:-1]))
def test_a_snapshot_makes_the_image_again(directory: Path) -> None:
    image = read_image(directory.parent)
    assert image is not None
    again = replayed(snapshot(image))
    assert state(again) == state(image)
    assert list(snapshot(again)) == list(snapshot(image))


NAMES = st.sampled_from(["a", "b.c", "b_c", "d"])
ACTIONS = st.one_of(
    st.tuples(st.just("create"), NAMES, st.integers(1, 3)),
    st.tuples(st.just("delete"), NAMES, st.just(0)),
    st.tuples(st.just("grow"), NAMES, st.integers(1, 6)),
    st.tuples(st.just("restart"), NAMES, st.integers(0, 1)),
    st.tuples(st.just("block"), NAMES, st.just(0)),
)


@given(st.lists(ACTIONS, max_size=20), st.integers())
def test_whatever_happens_a_snapshot_makes_the_image_again(actions: list[tuple[str, str, int]], seed: int) -> None:
    metadata = started()
    image = metadata.image
    random = Random(seed)
    context = TopicContext(random=random, new_id=lambda: UUID(int=random.getrandbits(128)))
    for action, name, number in actions:
        match action:
            case "create":
                topic = NewTopic(name=name, num_partitions=number, configs=[("retention.ms", str(number))])
                metadata.apply(create_topics(image, [topic], context).records)
            case "delete":
                metadata.apply(delete_topics(image, [(name, None)], context).records)
            case "grow":
                metadata.apply(create_partitions(image, [MorePartitions(name=name, count=number)], context).records)
            case "restart":
                restart(metadata, was_clean=bool(number))
            case _:
                metadata.apply(next_block(image, NODE_ID, 1).records)
        assert all(each.leader == NODE_ID for topic in image.topics.values() for each in topic.partitions.values())
        names = [each.replace(".", "_") for each in image.topics]
        assert len(set(names)) == len(names)
    assert state(replayed(snapshot(image))) == state(image)
    assert state(replayed(metadata.written)) == state(image)


def restart(metadata: Metadata, *, was_clean: bool) -> None:
    """Down and up again."""
    image = metadata.image
    epoch = image.brokers[NODE_ID].epoch
    if was_clean:
        metadata.apply(begin_controlled_shutdown(image, NODE_ID, {}))
        metadata.apply(fence_broker(image, NODE_ID, {}))
    broker = registration(metadata.next_offset)
    metadata.apply(register_broker(image, broker, epoch if was_clean else NO_EPOCH, {}))
    metadata.apply(unfence_broker(image, NODE_ID, {}))
