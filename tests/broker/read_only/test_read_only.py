"""`kcli serve --read-only`: every sound record of any directory is served, and nothing in it changes."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formats.kernels.batches import BatchTable
from formats.kernels.scan import scan
from kcli.broker.wire.apis import APIS
from kcli.log.config import LogConfig
from kcli.log.live.partition_log import Isolation
from kcli.log.read_only.log import ReadOnlyLog
from kcli.protocol.error_code import ErrorCode
from tests.broker.read_only_node import (
    fetch,
    list_offset,
    read_all,
    read_only_node,
    records_of,
    sound_batches,
    state_of,
)
from tests.broker.test_serve import refused
from tests.conftest import GOLDEN, Json, truth
from tests.inspector.jsonl import as_truth

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
READ_COMMITTED = 1
POLICY_VIOLATION, CLUSTER_AUTHORIZATION_FAILED, OFFSET_OUT_OF_RANGE = 44, 31, 1

# Each directory with the topics' expected records, where they are known; `{}` stands for the topic.
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
    """Clients receive the records that the inspector reads from the files, and that a consumer read from Kafka."""
    root = GOLDEN / directory
    before = state_of(root)
    compared = 0
    with read_only_node(root) as node, node.client() as client:
        for partition in node.node.broker.partitions:
            topic, number = partition.key
            served, there = read_all(client, topic, number), sound_batches(partition.log.directory)
            start = list_offset(client, topic, number, EARLIEST)["offset"]
            if served != there:  # some records lie below the log start offset, or out of order
                found, wanted = records_of(served, topic, number), records_of(there, topic, number)
                assert content(found) <= content(wanted)
                assert content(found) >= content([each for each in wanted if each["offset"] >= start]), partition
            path = DIRECTORIES[directory].format(topic)
            if path and (GOLDEN / path).exists():
                known = [each for each in truth(path) if each["partition"] == number and each["offset"] >= start]
                records = [each for each in records_of(served, topic, number) if each["offset"] >= start]
                read = [as_truth(each) for each in records if not each["is_control"]]
                names = read[0].keys() & known[0].keys() if read and known else set()
                assert content([{name: each[name] for name in names} for each in read]) == content(
                    [{name: each[name] for name in names} for each in known]
                )
                compared += len(read)
        assert len(node.node.broker.partitions)
    assert compared or not DIRECTORIES[directory]
    assert state_of(root) == before


@pytest.mark.parametrize("directory", OFFSETS)
def test_offsets_are_kafkas(directory: str) -> None:
    """ListOffsets answers what Kafka's did."""
    root = GOLDEN / directory
    before = state_of(root)
    expected: dict[str, Json] = json.loads((GOLDEN / OFFSETS[directory]).read_text())
    names = {
        "log_start": (EARLIEST, 0),
        "high_watermark": (LATEST, 0),
        "last_stable_offset": (LATEST, READ_COMMITTED),
        "earliest_read_uncommitted": (EARLIEST, 0),
        "earliest_read_committed": (EARLIEST, READ_COMMITTED),
        "latest_read_uncommitted": (LATEST, 0),
        "latest_read_committed": (LATEST, READ_COMMITTED),
    }
    compared = 0
    with read_only_node(root) as node, node.client() as client:
        for topic, offsets in expected.items():
            for name in offsets.keys() & names.keys():
                timestamp, isolation = names[name]
                numbers = range(len(offsets[name]))
                found = [list_offset(client, topic, number, timestamp, isolation)["offset"] for number in numbers]
                assert found == offsets[name], (topic, name)
                compared += 1
            for number, (offset, timestamp) in enumerate(offsets.get("max_timestamp", ())):
                answer = list_offset(client, topic, number, MAX_TIMESTAMP)
                assert (answer["offset"], answer["timestamp"]) == (offset, timestamp), topic
            for key, asked in offsets.get("for_time", {}).items():
                for timestamp, *wanted in asked:
                    answer = list_offset(client, topic, int(key), timestamp)
                    assert [answer["offset"], answer["timestamp"]] == wanted, (topic, key, timestamp)
                    compared += 1
    assert compared
    assert state_of(root) == before


def consume(bootstrap: str, topic: str, numbers: list[int]) -> set[tuple[int, int]]:
    """Return partition and offset of each record that librdkafka reads; it reads committed records only, by default."""
    from confluent_kafka import Consumer, TopicPartition

    settings = {"bootstrap.servers": bootstrap, "group.id": "g", "enable.auto.commit": False}
    consumer = Consumer({**settings, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, each, 0) for each in numbers])
    found: set[tuple[int, int]] = set()
    left = set(numbers)
    while left:
        message = consumer.poll(10)
        assert message is not None, f"{topic}: no end of {left} within 10 s"
        number, offset, error = message.partition(), message.offset(), message.error()
        assert number is not None
        assert offset is not None
        if error is None:
            found.add((number, offset))
        else:
            assert error.name() == "_PARTITION_EOF"
            left.discard(number)
    consumer.close()
    return found


@pytest.mark.parametrize("directory", ["txn/data", "txn/data-tv0"])
@pytest.mark.parametrize("is_bare", [False, True], ids=["whole", "logs alone"])
def test_a_client_reads_what_was_committed(directory: str, is_bare: bool, tmp_path: Path) -> None:
    """librdkafka reads what the Java client read from Kafka, also where only the logs are left."""
    expected = GOLDEN / "txn" / "expected" / Path(directory).name
    root = GOLDEN / directory
    if is_bare:
        root = tmp_path / "data"
        shutil.copytree(GOLDEN / directory, root, ignore=shutil.ignore_patterns("*index", "*checkpoint", "*.snapshot"))
    before = state_of(root)
    with read_only_node(root) as node:
        for path in sorted(expected.glob("*.read_committed.jsonl.gz")):
            topic = path.name.removesuffix(".read_committed.jsonl.gz")
            wanted = {(each["partition"], each["offset"]) for each in truth(str(path.relative_to(GOLDEN)))}
            assert consume(node.bootstrap, topic, list(node.node.broker.image.topics[topic].partitions)) == wanted, (
                topic
            )
    assert state_of(root) == before


REQUESTS: dict[str, tuple[int, dict[str, Any]]] = {
    "create_topics": (
        5,
        {
            "topics": [{"name": "n", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}],
            "timeout": 1000,
            "validate_only": False,
        },
    ),
    "delete_topics": (4, {"topic_names": ["t-txn"], "timeout": 1000}),
    "delete_records": (
        1,
        {"topics": [{"name": "t-txn", "partitions": [{"partition_index": 0, "offset": 5}]}], "timeout": 1000},
    ),
    "init_producer_id": (
        3,
        {"transactional_id": None, "transaction_timeout": 1000, "producer_id": -1, "producer_epoch": -1},
    ),
    "alter_configs": (
        1,
        {"resources": [{"resource_type": 2, "resource_name": "t-txn", "configs": []}], "validate_only": False},
    ),
    "create_partitions": (
        1,
        {"topics": [{"name": "t-txn", "count": 9, "assignments": None}], "timeout": 1000, "validate_only": False},
    ),
    "elect_leaders": (
        1,
        {"election_type": 0, "topic_partitions": [{"topic": "t-txn", "partitions": [0]}], "timeout": 1000},
    ),
    "incremental_alter_configs": (
        1,
        {"resources": [{"resource_type": 2, "resource_name": "t-txn", "configs": []}], "validate_only": False},
    ),
    "alter_client_quotas": (
        0,
        {"entries": [{"entity": [{"entity_type": "user", "entity_name": "u"}], "ops": []}], "validate_only": False},
    ),
    "update_features": (
        1,
        {
            "timeout": 1000,
            "feature_updates": [{"feature": "metadata.version", "max_version_level": 29, "upgrade_type": 1}],
            "validate_only": False,
        },
    ),
    "join_group": (
        9,
        {
            "group_id": "g",
            "session_timeout": 1000,
            "rebalance_timeout": 1000,
            "member_id": "",
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
            "reason": None,
        },
    ),
    "sync_group": (
        5,
        {
            "group_id": "g",
            "generation_id": 1,
            "member_id": "m",
            "group_instance_id": None,
            "protocol_type": None,
            "protocol_name": None,
            "assignments": [],
        },
    ),
    "heartbeat": (4, {"group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": None}),
    "leave_group": (5, {"group_id": "g", "members": [{"member_id": "m", "group_instance_id": None, "reason": None}]}),
    "consumer_group_heartbeat": (
        1,
        {
            "group_id": "g",
            "member_id": "m",
            "member_epoch": 0,
            "instance_id": None,
            "rack_id": None,
            "rebalance_timeout": 1000,
            "subscribed_topic_names": ["t-txn"],
            "subscribed_topic_regex": None,
            "server_assignor": None,
            "topic_partitions": [],
        },
    ),
    "offset_commit": (
        8,
        {
            "group_id": "g",
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": [
                {
                    "name": "t-txn",
                    "partitions": [
                        {
                            "partition_index": 0,
                            "committed_offset": 1,
                            "committed_leader_epoch": -1,
                            "committed_metadata": "",
                        }
                    ],
                }
            ],
        },
    ),
    "offset_delete": (0, {"group_id": "g", "topics": [{"name": "t-txn", "partitions": [{"partition_index": 0}]}]}),
    "delete_groups": (2, {"groups_names": ["g"]}),
    "write_txn_markers": (
        1,
        {
            "markers": [
                {
                    "producer_id": 9,
                    "producer_epoch": 0,
                    "transaction_result": False,
                    "topics": [{"name": "t-txn", "partition_indexes": [0]}],
                    "coordinator_epoch": 0,
                }
            ]
        },
    ),
    "produce": (
        8,
        {
            "transactional_id": None,
            "acks": 1,
            "timeout": 1000,
            "topic_data": [{"name": "t-txn", "partition_data": [{"index": 0, "records": b"\0" * 70}]}],
        },
    ),
}


GROUP_AUTHORIZATION_FAILED = 30
MEMBERS = ("join_group", "sync_group", "heartbeat", "leave_group", "consumer_group_heartbeat")
CODES = {"init_producer_id": CLUSTER_AUTHORIZATION_FAILED, **dict.fromkeys(MEMBERS, GROUP_AUTHORIZATION_FAILED)}


def error_codes(answer: Any) -> set[int]:
    """Every error code in an answer."""
    if isinstance(answer, list):
        return set().union(*map(error_codes, answer))
    if not isinstance(answer, dict):
        return set()
    found = {int(each) for name, each in answer.items() if name == "error_code"}
    return found.union(*map(error_codes, answer.values()))


def test_what_would_write_is_refused() -> None:
    """The response has an error that says so, where the clients of each API look for it."""
    root = GOLDEN / "txn" / "data"
    before = state_of(root)
    with read_only_node(root) as node, node.client() as client:
        offered = {each["api_key"] for each in client.call("api_versions", 0)["api_keys"]}
        assert REQUESTS.keys() == {APIS[key].name for key in offered if APIS[key].writes}
        for name, (version, request) in REQUESTS.items():
            assert error_codes(client.call(name, version, **request)) == {CODES.get(name, POLICY_VIOLATION)}, name
        asked = {"topics": [{"name": "new"}], "allow_auto_topic_creation": True}
        assert client.call("metadata", 4, **asked)["topics"][0]["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        answer, _ = fetch(client, "t-txn", 0, 10_000)
        assert answer["error_code"] == OFFSET_OUT_OF_RANGE
    assert state_of(root) == before


def test_metadata_is_that_of_the_directory() -> None:
    """Ids and configurations come from the metadata log, this node leads all partitions, and sizes are those of the
    directory."""
    root = GOLDEN / "kraft" / "broker-2"
    with read_only_node(root) as node, node.client() as client:
        expected = json.loads((GOLDEN / "kraft" / "expected" / "topics.json").read_text())
        topics = {each["name"]: each for each in client.call("metadata", 12, topics=None)["topics"]}
        for name, known in expected.items():
            if name in topics:
                assert topics[name]["topic_id"] == known["topic_id"]
                highest = [
                    list_offset(client, name, each, LATEST)["offset"] for each in range(len(known["high_watermark"]))
                ]
                there = {each.number for each in node.node.broker.partitions if each.topic == name}
                assert [highest[each] for each in there] == [known["high_watermark"][each] for each in there]
        assert {"k-0", "k-1", "k-2"} <= expected.keys() & topics.keys()
        for topic in topics.values():
            here = {each.number for each in node.node.broker.partitions if each.topic == topic["name"]}
            led = {each["partition_index"] for each in topic["partitions"] if each["leader_id"] == 2}
            assert led == here
        described = client.call("describe_log_dirs", 4, topics=None)["results"]
        sizes = {each["name"]: each["partitions"] for result in described for each in result["topics"]}
        path = root / "k-0-0"
        assert sizes["k-0"][0]["partition_size"] == sum(each.stat().st_size for each in path.glob("*.log"))
        cluster = client.call("describe_cluster", 0)
        assert cluster["cluster_id"] == (GOLDEN / "kraft" / "expected" / "cluster-id.txt").read_text().split()[-1]
        assert [each["broker_id"] for each in cluster["brokers"]] == [2]


@pytest.mark.parametrize("case", sorted(each.name for each in (GOLDEN / "corrupt" / "cases-dir").iterdir()))
def test_broken_files_of_the_directory_are_passed_over(case: str, tmp_path: Path) -> None:
    """All records are there all the same."""
    root = tmp_path / "data"
    shutil.copytree(GOLDEN / "legacy" / "data", root)
    shutil.copytree(GOLDEN / "corrupt" / "cases-dir" / case, root, dirs_exist_ok=True)
    before = state_of(root)
    with read_only_node(root) as node, node.client() as client:
        records = records_of(read_all(client, "v0-v1-v2-mixed", 0), "v0-v1-v2-mixed", 0)
        known = truth("legacy/expected/truth/v0-v1-v2-mixed.jsonl.gz")
        assert {each["offset"] for each in records} == {each["offset"] for each in known}
    assert state_of(root) == before


@pytest.mark.parametrize("broken", ["metadata log", "snapshot", "partition.metadata"])
def test_broken_metadata_is_passed_over(broken: str, tmp_path: Path) -> None:
    """The readable records of the metadata log are used; each topic gets an id."""
    root = tmp_path / "data"
    shutil.copytree(GOLDEN / "kraft" / "broker-1", root)
    metadata = root / "__cluster_metadata-0"
    names = {"metadata log": "*.log", "snapshot": "*.checkpoint", "partition.metadata": "partition.metadata"}
    paths = list((root if broken == "partition.metadata" else metadata).rglob(names[broken]))
    assert paths
    for path in paths:
        path.chmod(0o644)
        data = bytearray(path.read_bytes())
        data[len(data) // 2 : len(data) // 2 + 40] = b"\xff" * 40
        path.write_bytes(data)
    before = state_of(root)
    with read_only_node(root) as node, node.client() as client:
        topics = client.call("metadata", 12, topics=None)["topics"]
        assert {"k-0", "k-1", "k-2"} <= {each["name"] for each in topics}
        assert len({each["topic_id"] for each in topics}) == len(topics)
        assert read_all(client, "k-1", 1)
    assert state_of(root) == before


def test_what_is_no_partition_is_left_out(tmp_path: Path) -> None:
    """Directories that Kafka is about to delete or has renamed to strays are left out, and other files."""
    known = GOLDEN / "legacy" / "data" / "v1-none-0"
    names = [
        "t-0",
        "an odd name",
        f"t-1.{'0' * 32}-delete",
        f"t-2.{'0' * 32}-stray",
        f"t-3.{'0' * 32}-future",
        "t-4-AAAAAAAAAAAAAAAAAAAAAQ",
    ]
    for name in names:
        shutil.copytree(known, tmp_path / name)
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "node-1" / "data").mkdir(parents=True)
    (tmp_path / "node-1" / "notes.txt").write_text("none")
    (tmp_path / "empty-7").mkdir()
    before = state_of(tmp_path)
    with read_only_node(tmp_path) as node, node.client() as client:
        assert {each.key for each in node.node.broker.partitions} == {("t", 0), ("an_odd_name", 0), ("empty", 7)}
        assert read_all(client, "an_odd_name", 0) == read_all(client, "t", 0) == sound_batches(known)
        assert read_all(client, "empty", 7) == b""
    assert state_of(tmp_path) == before


def test_a_missing_directory_ends_the_start(tmp_path: Path) -> None:
    said = refused("--read-only", "--data-dir", str(tmp_path / "none"), "--listen", "127.0.0.1:0", status=2)
    assert f"{tmp_path / 'none'}: no such directory" in said


@pytest.mark.parametrize("files", [(), ("meta.properties",), ("notes.txt", "logs/orders-0/00000000000000000000.log")])
def test_nothing_to_serve_ends_the_start(files: tuple[str, ...], tmp_path: Path) -> None:
    """The error is the same where the parent of a log directory is named."""
    for each in files:
        (tmp_path / each).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / each).touch()
    said = refused("--read-only", "--data-dir", str(tmp_path), "--listen", "127.0.0.1:0", status=2)
    assert f"{tmp_path}: nothing to serve: no directory of a partition" in said


def test_a_fetch_of_many_partitions_is_prepared_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment is surveyed once, however often the request names its partition. There are no sessions, since each
    Fetch looks at the files."""
    shutil.copytree(GOLDEN / "codecs" / "data" / "java-zstd-0", tmp_path / "t-0")
    prepared: list[object] = []
    prepare = ReadOnlyLog.prepare

    def counted(log: ReadOnlyLog, *arguments: Any) -> None:
        prepared.append(log)
        prepare(log, *arguments)

    monkeypatch.setattr(ReadOnlyLog, "prepare", counted)
    each = {"fetch_offset": 0, "partition_max_bytes": 1 << 20, "current_leader_epoch": -1, "log_start_offset": -1}
    body = {"replica_id": -1, "max_wait": 0, "min_bytes": 0, "max_bytes": 1 << 20, "isolation_level": 0, "rack_id": ""}
    topics = [{"topic": "t", "partitions": [{"partition": 0, **each}] * 1000}]
    with read_only_node(tmp_path) as node, node.client() as client:
        answer = client.call(
            "fetch", 11, topics=topics, session_id=0, session_epoch=0, forgotten_topics_data=[], **body
        )
    assert (answer["error_code"], answer["session_id"]) == (0, 0)
    (found,) = answer["responses"][0]["partitions"]
    assert found["records"]
    assert len(prepared) == 1


def test_one_partition_alone() -> None:
    """Its directory is all that there is."""
    root = GOLDEN / "codecs" / "data" / "java-zstd-0"
    before = state_of(root)
    with read_only_node(root) as node, node.client() as client:
        known = [each for each in truth("codecs/expected/truth/java-zstd.jsonl.gz") if each["partition"] == 0]
        records = records_of(read_all(client, "java-zstd", 0), "java-zstd", 0)
        assert content([as_truth(each) for each in records]) == content(known)
    assert state_of(root) == before


def test_a_log_that_grows_rolls_and_is_cut(tmp_path: Path) -> None:
    """The log changes as under a running Kafka: a waiting Fetch returns new records; segments are rolled and
    deleted."""
    source = GOLDEN / "codecs" / "data" / "java-none-0"
    segments = sorted(source.glob("*.log"))
    assert len(segments) > 2
    root = tmp_path / "java-none-0"
    root.mkdir()
    first, second, *_ = segments
    data = first.read_bytes()
    half = len(data) // 2
    (root / first.name).write_bytes(data[:half])
    with read_only_node(root) as node, node.client() as client:

        def offsets() -> list[int]:
            return [each["offset"] for each in records_of(read_all(client, "java-none", 0), "java-none", 0)]

        before = offsets()
        end = list_offset(client, "java-none", 0, LATEST)["offset"]
        assert before == list(range(end))
        waiting = node.client()
        asked = {"max_wait": 10_000, "bytes": 1 << 20}
        node.run(lambda: node.loop.call_later(0.3, (root / first.name).write_bytes, data))
        answer, records = fetch(waiting, "java-none", 0, end, **asked)
        assert answer["error_code"] == 0
        assert records
        assert data.endswith(records)
        node.run(lambda: node.loop.call_later(0.3, shutil.copy, second, root / second.name))
        behind = int(second.stem)
        answer, records = fetch(waiting, "java-none", 0, behind, **asked)
        assert records == second.read_bytes()[: len(records)]
        after = offsets()
        assert after[: len(before)] == before
        assert len(after) > behind
        (root / first.name).rename(root / f"{first.name}.deleted")
        assert list_offset(client, "java-none", 0, EARLIEST)["offset"] == behind
        assert offsets() == [each for each in after if each >= behind]
        (root / second.name).write_bytes(second.read_bytes()[:200])
        assert fetch(client, "java-none", 0, after[-1])[0]["error_code"] == OFFSET_OUT_OF_RANGE
        waiting.socket.close()


SMALL = ["codecs/data/java-none-0", "codecs/data/mixed-0", "txn/data/t-txn-1", "legacy/data/v0-v1-v2-mixed-0"]


@given(
    st.sampled_from(SMALL),
    st.lists(st.tuples(st.integers(0, 1 << 40), st.binary(min_size=1, max_size=30), st.booleans()), max_size=6),
)
@settings(max_examples=40)
def test_whatever_is_damaged_the_sound_rest_is_served(directory: str, changes: list[tuple[int, bytes, bool]]) -> None:
    """Bytes are overwritten or inserted anywhere in logs and other files: the broker fails nowhere, and serves all
    sound batches."""
    with TemporaryDirectory() as temporary:
        root = Path(temporary) / "t-0"
        shutil.copytree(GOLDEN / directory, root)
        for path in sorted(root.iterdir()):
            data = bytearray(path.read_bytes())
            for place, new, is_between in changes:
                at = place % (len(data) + 1)
                data[at : at if is_between else at + len(new)] = new
            path.write_bytes(data)
        log = ReadOnlyLog(root, LogConfig())
        offset, end = log.log_start_offset, log.log_end_offset
        assert log.log_start_offset <= log.last_stable_offset <= end
        served = bytearray()
        while offset < end:
            region = log.read(offset, 5000).region
            assert region is not None, f"nothing at {offset} of {end}"
            data = bytearray(os.pread(region.fd, region.length, region.position))
            table = BatchTable()
            scan(data, 0, len(data), 0, table)
            offset = 1 + max(table.row(i)[4] for i in range(table.count))
            served += data
        there = sound_batches(root)
        assert batches(bytes(served)) >= {each for each in batches(there) if each[1] >= log.log_start_offset}
        log.read(log.log_start_offset, 1 << 20, Isolation.TXN_COMMITTED)
        log.offset_for_timestamp(MAX_TIMESTAMP)
        log.offset_for_timestamp(0)
        log.offset_for_leader_epoch(1)
        assert log.producers.table.entries() is not None
        log.release_handles()


def batches(data: bytes) -> set[tuple[bytes, int]]:
    """Each batch, and its last offset."""
    table = BatchTable()
    scan(data, 0, len(data), 0, table)
    rows = [table.row(i) for i in range(table.count)]
    return {(data[row[1] : row[1] + row[2]], row[4]) for row in rows}


@pytest.mark.parametrize("directory", ["txn/data", "txn/data-tv0"])
def test_producers_are_kafkas(directory: str) -> None:
    """DescribeProducers returns what Kafka's tool printed, without producers that expire."""
    root = GOLDEN / directory
    before = state_of(root)
    with read_only_node(root) as node, node.client() as client:
        paths = sorted((GOLDEN / "txn" / "expected" / Path(directory).name).glob("describe-producers-*.txt"))
        assert paths
        for path in paths:
            topic, _, number = path.stem.removeprefix("describe-producers-").rpartition("-")
            asked = [{"name": topic, "partition_indexes": [int(number)]}]
            answer = client.call("describe_producers", 0, topics=asked)["topics"][0]["partitions"][0]
            found = {
                (
                    each["producer_id"],
                    each["producer_epoch"],
                    each["coordinator_epoch"],
                    each["last_sequence"],
                    each["last_timestamp"],
                    -1 if each["current_txn_start_offset"] is None else each["current_txn_start_offset"],
                )
                for each in answer["active_producers"]
            }
            lines = [line.split() for line in path.read_text().splitlines()[1:]]
            wanted = {tuple(-1 if each == "None" else int(each) for each in line) for line in lines}
            assert found >= wanted, path.name
    assert state_of(root) == before


READS: dict[str, tuple[int, dict[str, Any]]] = {
    "api_versions": (3, {"client_software_name": "test", "client_software_version": "1"}),
    "describe_client_quotas": (1, {"components": [], "strict": False}),
    "describe_cluster": (1, {"include_cluster_authorized_operations": False, "endpoint_type": 1}),
    "describe_configs": (
        4,
        {
            "resources": [{"resource_type": 2, "resource_name": "k-0", "configuration_keys": None}],
            "include_synonyms": True,
            "include_documentation": True,
        },
    ),
    "describe_quorum": (
        2,
        {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]},
    ),
    "describe_topic_partitions": (0, {"topics": [], "response_partition_limit": 100, "cursor": None}),
    "list_config_resources": (1, {"resource_types": []}),
    "offset_for_leader_epoch": (
        4,
        {
            "replica_id": -1,
            "topics": [
                {"topic": "k-0", "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]}
            ],
        },
    ),
}


@pytest.mark.parametrize("directory", ["kraft/broker-1", "kraft/broker-2/k-0-0"])
def test_all_that_reads_is_answered(directory: str) -> None:
    """With metadata and without."""
    root = GOLDEN / directory
    before = state_of(root)
    with read_only_node(root) as node, node.client() as client:
        for name, (version, request) in READS.items():
            assert error_codes(client.call(name, version, **request)) <= {0}, name
    assert state_of(root) == before
