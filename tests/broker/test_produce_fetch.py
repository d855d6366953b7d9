"""Produce and Fetch at every version: what is answered, what is refused, who waits for how long."""

from __future__ import annotations

import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from formats.compression import GZIP, LZ4, SNAPPY, ZSTD
from formats.message import uuid_text
from kcli.broker.api import APIS
from tests.broker.running import Client, Closed, RunningNode, running_node
from tests.log.batches import batch

PRODUCE, FETCH = APIS[0], APIS[1]
PRODUCE_VERSIONS = range(PRODUCE.least, PRODUCE.most + 1)
FETCH_VERSIONS = range(FETCH.least, FETCH.most + 1)
IDS_PRODUCE, IDS_FETCH, SESSIONS = 13, 13, 7
Bytes = bytes | bytearray


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with running_node(tmp_path_factory.mktemp("data"), auto_create_topics_enable="false") as running:
        yield running


def create(node: RunningNode, name: str, partitions: int = 1, **configs: str) -> str:
    """Make a topic. Returns its id."""
    with node.client() as client:
        answer = client.call(
            "create_topics",
            7,
            topics=[
                {
                    "name": name,
                    "num_partitions": partitions,
                    "replication_factor": 1,
                    "assignments": [],
                    "configs": [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()],
                }
            ],
            timeout=10_000,
            validate_only=False,
        )
    assert answer["topics"][0]["error_code"] == 0, answer
    topic_id: str = answer["topics"][0]["topic_id"]
    return topic_id


def produce(
    client: Client, version: int, topic: str, data: Bytes, *, topic_id: str = "", partition: int = 0, acks: int = -1
) -> dict[str, Any]:
    """Send a batch. Returns what is said of the partition."""
    client.socket.sendall(client.frame("produce", version, request(version, topic, data, topic_id, partition, acks)))
    answer = client.answer("produce", version)
    found: dict[str, Any] = answer["responses"][0]["partition_responses"][0]
    return found


def request(version: int, topic: str, data: Bytes, topic_id: str, partition: int, acks: int) -> dict[str, Any]:
    name = {"topic_id": topic_id} if version >= IDS_PRODUCE else {"name": topic}
    partitions = [{"index": partition, "records": bytes(data)}]
    return {"acks": acks, "timeout": 1000, "topic_data": [{**name, "partition_data": partitions}]}


def fetch(
    client: Client,
    version: int,
    topic: str,
    offset: int,
    *,
    topic_id: str = "",
    partition: int = 0,
    max_wait: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    isolation: int = 0,
    session: tuple[int, int] = (0, -1),
) -> dict[str, Any]:
    """Fetch from a partition. Returns the answer."""
    wanted: dict[str, Any] = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": max_bytes}
    name = {"topic_id": topic_id} if version >= IDS_FETCH else {"topic": topic}
    body: dict[str, Any] = {
        "max_wait": max_wait,
        "min_bytes": min_bytes,
        "max_bytes": 1 << 20,
        "isolation_level": isolation,
        "topics": [{**name, "partitions": [wanted]}] if topic else [],
    }
    if version <= 14:
        body["replica_id"] = -1
    if version >= 7:
        body |= {"session_id": session[0], "session_epoch": session[1], "forgotten_topics_data": []}
    if version >= 11:
        body["rack_id"] = ""
    return client.call("fetch", version, **body)


def partition_of(answer: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = answer["responses"][0]["partitions"][0]
    return found


def stored(data: Bytes, base_offset: int) -> str:
    """The batch as the log has it: its offset, and the leader's epoch."""
    return b64encode(base_offset.to_bytes(8) + data[8:12] + bytes(4) + data[16:]).decode()


@contextmanager
def soon(call: Callable[[], object]) -> Iterator[None]:
    """Do something in a moment, while something else waits."""
    timer = threading.Timer(0.3, call)
    timer.start()
    yield
    timer.join()


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_produce(node: RunningNode, version: int) -> None:
    topic = f"produce-{version}"
    topic_id = create(node, topic)
    with node.client() as client:
        for offset in (0, 2):
            found = produce(client, version, topic, batch(b"a", b"b"), topic_id=topic_id)
            assert (found["error_code"], found["base_offset"], found["log_append_time"]) == (0, offset, None)
            assert found.get("log_start_offset", 0) == 0
            assert found.get("error_message") is None


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_fetch(node: RunningNode, version: int) -> None:
    topic = f"fetch-{version}"
    topic_id = create(node, topic)
    sent = batch(b"a" * 50_000, b"b"), batch(b"c")
    with node.client() as client:
        for each in sent:
            produce(client, 9, topic, each)
        answer = fetch(client, version, topic, 0, topic_id=topic_id)
        found = partition_of(answer)
        assert found["error_code"] == 0
        assert (found["high_watermark"], found["last_stable_offset"]) == (3, 3)
        assert found.get("log_start_offset", 0) == 0
        assert found["aborted_transactions"] is None
        assert b64decode(found["records"]) == b"".join(
            b64decode(stored(each, base)) for each, base in zip(sent, (0, 2), strict=True)
        )
        found = partition_of(fetch(client, version, topic, 2, topic_id=topic_id, isolation=1))
        assert found["records"] == stored(sent[1], 2)
        assert found["aborted_transactions"] == []
        found = partition_of(fetch(client, version, topic, 1, topic_id=topic_id, max_bytes=10))
        assert found["records"] == stored(sent[0], 0), "the first batch comes whole, whatever its size"
        found = partition_of(fetch(client, version, topic, 4, topic_id=topic_id))
        assert (found["error_code"], found["high_watermark"]) == (1, -1)
        found = partition_of(fetch(client, version, topic, 3, topic_id=topic_id))
        assert (found["error_code"], found["high_watermark"], found["records"] or "") == (0, 3, "")


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_codecs(node: RunningNode, codec: int) -> None:
    topic = f"codec-{codec}"
    create(node, topic)
    data = batch(*[b"value %d" % i for i in range(100)], codec=codec)
    with node.client() as client:
        assert produce(client, 9, topic, data)["error_code"] == 0
        assert partition_of(fetch(client, 11, topic, 0))["records"] == stored(data, 0)
        error = produce(client, 6, topic, data)["error_code"]
        assert error == (76 if codec == ZSTD else 0), "zstd is only for clients that know it"


def test_refusals(node: RunningNode) -> None:
    topic_id = create(node, "refuse")
    create(node, "keyed", cleanup_policy="compact")
    good = batch(b"a")
    two, old, torn = good + good, bytearray(good), good[:-1]
    old[16] = 1
    flipped = bytearray(good)
    flipped[-1] ^= 1
    bomb = batch(b"\0" * 900_000, codec=ZSTD)
    cases = [
        ("unknown", good, {}, 3),
        ("refuse", good, {"partition": 7}, 3),
        ("refuse", good, {"acks": 2}, 21),
        ("refuse", two, {}, 87),
        ("refuse", old, {}, 87),
        ("refuse", torn, {}, 87),
        ("refuse", b"", {}, 87),
        ("refuse", flipped, {}, 2),
        ("refuse", batch(b"x" * 1_100_000), {}, 10),
        ("refuse", bomb, {}, 0),
        ("refuse", batch(b"a", timestamp_ms=int(time.time() * 1000) + 7_200_000), {}, 32),
        ("__consumer_offsets", good, {}, 3),
    ]
    with node.client() as client:
        for topic, data, options, error in cases:
            found = produce(client, 9, topic, data, **options)  # type: ignore[arg-type]
            assert found["error_code"] == error, (topic, options, found)
        found = produce(client, 13, "", good, topic_id=uuid_text(bytes(15) + b"\7"))
        assert found["error_code"] == 100
        assert produce(client, 13, "", good, topic_id=topic_id)["error_code"] == 0


def test_errors_of_records(node: RunningNode) -> None:
    """A compacted topic wants keys: the answer says which record has none."""
    from formats.record_batch import BatchHeader, Record, RecordBatch, build_batch

    create(node, "compacted", cleanup_policy="compact")
    now_ms = int(time.time() * 1000)
    records = Record(0, 0, 0, b"k", b"v"), Record(0, 0, 1, None, b"v")
    data = build_batch(RecordBatch(BatchHeader(0, 0, -1, 2, 0, 0, 1, now_ms, now_ms, -1, -1, -1, 2), records))
    with node.client() as client:
        found = produce(client, 9, "compacted", data)
    assert found["error_code"] == 87
    assert [each["batch_index"] for each in found["record_errors"]] == [1]
    assert "Compacted topic cannot accept message without key" in found["record_errors"][0]["batch_index_error_message"]
    assert found["error_message"] is not None


def test_no_acks(node: RunningNode) -> None:
    """acks=0 is not answered; where it fails the connection ends."""
    create(node, "no-acks")
    with node.client() as client:
        client.socket.sendall(client.frame("produce", 9, request(9, "no-acks", batch(b"a"), "", 0, 0)))
        assert partition_of(fetch(client, 11, "no-acks", 0, max_wait=5000))["high_watermark"] == 1
        client.socket.sendall(client.frame("produce", 9, request(9, "no-acks", b"nothing", "", 0, 0)))
        with pytest.raises(Closed):
            client.read_frame()


def test_idempotence(node: RunningNode) -> None:
    create(node, "idempotent")
    with node.client() as client:
        made = client.call("init_producer_id", 4, transactional_id=None, transaction_timeout=1000)
        assert made["error_code"] == 0
        producer = made["producer_id"], made["producer_epoch"]
        first, second = batch(b"a", b"b", producer=producer, sequence=0), batch(b"c", producer=producer, sequence=2)
        assert produce(client, 9, "idempotent", first)["base_offset"] == 0
        assert produce(client, 9, "idempotent", second)["base_offset"] == 2
        again = produce(client, 9, "idempotent", first)
        assert (again["error_code"], again["base_offset"]) == (0, 0), "a duplicate is acknowledged, and not stored"
        gap = batch(b"d", producer=producer, sequence=7)
        assert produce(client, 9, "idempotent", gap)["error_code"] == 45
        assert partition_of(fetch(client, 11, "idempotent", 0))["high_watermark"] == 3


def test_fetch_waits_for_an_append(node: RunningNode) -> None:
    create(node, "wait")
    with node.client() as reader, node.client() as writer:
        with soon(lambda: produce(writer, 9, "wait", batch(b"a"))):
            began = time.monotonic()
            found = partition_of(fetch(reader, 11, "wait", 0, max_wait=10_000))
        assert 0.2 < time.monotonic() - began < 5
        assert found["high_watermark"] == 1
        began = time.monotonic()
        found = partition_of(fetch(reader, 11, "wait", 1, max_wait=200))
        assert 0.15 < time.monotonic() - began < 5, "without data it takes max_wait"


def test_fetch_waits_for_min_bytes(node: RunningNode) -> None:
    create(node, "enough")
    with node.client() as reader, node.client() as writer:
        produce(writer, 9, "enough", batch(b"a"))
        with soon(lambda: produce(writer, 9, "enough", batch(b"b" * 5000))):
            began = time.monotonic()
            found = partition_of(fetch(reader, 11, "enough", 0, max_wait=10_000, min_bytes=3000))
        assert 0.2 < time.monotonic() - began < 5
        assert found["high_watermark"] == 2


def test_a_waiting_fetch_learns_that_its_topic_is_gone(node: RunningNode) -> None:
    create(node, "going")
    with node.client() as reader, node.client() as other:
        names = {"topic_names": ["going"], "timeout": 1000}
        with soon(lambda: other.call("delete_topics", 5, **names)):
            began = time.monotonic()
            found = partition_of(fetch(reader, 11, "going", 0, max_wait=10_000))
        assert time.monotonic() - began < 5
        assert found["error_code"] in (3, 6)


@pytest.mark.parametrize("version", [v for v in FETCH_VERSIONS if v >= SESSIONS])
def test_sessions(node: RunningNode, version: int) -> None:
    """A session tells only what is new, and ends as it was begun."""
    topic = f"session-{version}"
    topic_id = create(node, topic)
    with node.client() as client:
        first = fetch(client, version, topic, 0, topic_id=topic_id, session=(0, 0))
        session_id = first["session_id"]
        assert session_id > 0
        assert partition_of(first)["error_code"] == 0
        assert fetch(client, version, "", 0, session=(session_id, 1))["responses"] == [], "nothing new"
        produce(client, 9, topic, batch(b"a"))
        found = partition_of(fetch(client, version, "", 0, session=(session_id, 2)))
        assert found["high_watermark"] == 1
        assert found["records"]
        moved = fetch(client, version, topic, 1, topic_id=topic_id, session=(session_id, 3))
        assert moved["responses"] == []
        assert fetch(client, version, "", 0, session=(session_id, 3))["error_code"] == 71
        assert fetch(client, version, "", 0, session=(session_id + 1, 1))["error_code"] == 70
        ended = fetch(client, version, topic, 1, topic_id=topic_id, session=(session_id, -1))
        assert (ended["error_code"], ended["session_id"]) == (0, 0)
        assert fetch(client, version, "", 0, session=(session_id, 4))["error_code"] == 70


def test_session_is_of_ids_or_of_names(node: RunningNode) -> None:
    create(node, "mixed")
    with node.client() as client:
        session_id = fetch(client, 12, "mixed", 0, session=(0, 0))["session_id"]
        assert fetch(client, 13, "", 0, session=(session_id, 1))["error_code"] == 106


def test_large_answers_are_whole(node: RunningNode, tmp_path: Path) -> None:
    """More than a socket takes at once, from files: every byte in its place."""
    create(node, "large", segment_bytes="2000000")
    sent = [batch(bytes([i % 251]) * 400_000, bytes([i % 241]) * 100_000) for i in range(12)]
    with node.client() as client:
        for each in sent:
            assert produce(client, 9, "large", each)["error_code"] == 0
        offset, seen = 0, b""
        while offset < 24:
            records = b64decode(partition_of(fetch(client, 11, "large", offset))["records"])
            seen += records
            while records:
                offset = int.from_bytes(records[:8]) + int.from_bytes(records[23:27]) + 1
                records = records[12 + int.from_bytes(records[8:12]) :]
        assert seen == b"".join(b64decode(stored(each, 2 * i)) for i, each in enumerate(sent))
