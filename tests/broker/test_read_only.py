"""`kcli serve --read-only`: every sound record of any directory is served, and nothing in it changes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kcli.broker.api import APIS
from tests.broker.read_only_node import (
    fetch,
    list_offset,
    read_all,
    read_only_node,
    records_of,
    sound_batches,
    state_of,
)
from tests.conftest import GOLDEN, Json, truth
from tests.inspector.jsonl import as_truth

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
READ_COMMITTED = 1
POLICY_VIOLATION, CLUSTER_AUTHORIZATION_FAILED, OFFSET_OUT_OF_RANGE = 44, 31, 1

# Each with the truth of its topics, as far as there is one: `{}` is the topic.
DIRECTORIES = {
    "codecs/data": "codecs/expected/truth/{}.jsonl.gz",
    "compact/after": "compact/expected/truth/after/{}.jsonl.gz",
    "compact/after2": "compact/expected/truth/after2/{}.jsonl.gz",
    "compact/before": "compact/expected/truth/before/{}.jsonl.gz",
    "compact/before2": "compact/expected/truth/before2/{}.jsonl.gz",
    "groups/data": "groups/expected/truth/{}.jsonl.gz",
    "kraft/broker-1": "kraft/expected/truth/{}.jsonl.gz",
    "kraft/broker-2": "kraft/expected/truth/{}.jsonl.gz",
    "kraft/broker-3": "kraft/expected/truth/{}.jsonl.gz",
    "kraft/controller-100": "",
    "kraft/controller-101": "",
    "kraft/controller-102": "",
    "kraft/dynamic-quorum": "",
    "legacy/data": "legacy/expected/truth/{}.jsonl.gz",
    "tiered/data": "tiered/expected/truth/{}.jsonl.gz",
    "txn/data": "txn/expected/data/{}.read_uncommitted.jsonl.gz",
    "txn/data-tv0": "txn/expected/data-tv0/{}.read_uncommitted.jsonl.gz",
    "unclean/crashed": "unclean/expected/truth/{}.jsonl.gz",
    "unclean/recovered": "unclean/expected/truth/{}.jsonl.gz",
    "corrupt/cases": "",
}
OFFSETS = {
    "codecs/data": "codecs/expected/offsets.json",
    "groups/data": "groups/expected/offsets.json",
    "legacy/data": "legacy/expected/offsets.json",
    "txn/data": "txn/expected/data/offsets.json",
    "txn/data-tv0": "txn/expected/data-tv0/offsets.json",
    "unclean/crashed": "unclean/expected/offsets.json",
    "unclean/recovered": "unclean/expected/offsets.json",
    **{f"compact/{each}": f"compact/expected/offsets-{each}.json" for each in ("before", "after", "before2", "after2")},
}


def content(records: list[Json]) -> set[str]:
    """Records as a set, wherever they lie."""
    return {json.dumps({**each, "position": None}, sort_keys=True) for each in records}


@pytest.mark.parametrize("directory", DIRECTORIES)
def test_every_sound_record_is_served(directory: str) -> None:
    """Through the wire comes what the inspector reads from the files, and what a consumer read from Kafka."""
    root = GOLDEN / directory
    before = state_of(root)
    with read_only_node(root) as node, node.client() as client:
        served: dict[str, list[Json]] = {}
        starts: dict[tuple[str, int], int] = {}
        for partition in node.node.broker.partitions:
            topic, number = partition.key
            records = records_of(read_all(client, topic, number), topic, number)
            start = list_offset(client, topic, number, EARLIEST)["offset"]
            there = records_of(sound_batches(partition.log.directory), topic, number)
            wanted = content([each for each in there if each["offset"] >= start])
            assert content(records) >= wanted, partition.log.directory
            assert content(records) <= content(there)
            served.setdefault(topic, []).extend(each for each in records if each["offset"] >= start)
            starts[topic, number] = start
        assert served
        for topic, records in served.items():
            path = DIRECTORIES[directory].format(topic)
            if path and (GOLDEN / path).exists():
                known = [each for each in truth(path) if starts.get((topic, each["partition"]), 1 << 62) <= each["offset"]]
                assert known, f"{path} has something of what is here"
                read = [as_truth(each) for each in records if not each["is_control"]]
                both = [name for name in known[0] if name in read[0]]
                assert content([{name: each[name] for name in both} for each in read]) == content(
                    [{name: each[name] for name in both} for each in known]
                )
    assert state_of(root) == before
