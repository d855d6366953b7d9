"""Produce and Fetch at every version: responses, errors, and the time that requests wait."""

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
from kcli.broker.wire import messages as network_messages
from kcli.broker.wire.apis import APIS
from kcli.protocol.error_code import ErrorCode
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
    """Send a batch. Returns the partition's part of the response."""
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


@pytest.mark.parametrize("version", [3, 9, 12])
def test_a_first_request_of_its_version_for_a_log_that_is_appended_to(
    node: RunningNode, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread decodes the first request of a version, as kio's classes are imported then. The append writes offsets
    into the bytes that the thread hands over."""
    topic = f"first-{version}"
    create(node, topic)
    with node.client() as client:
        assert produce(client, version, topic, batch(b"one"))["base_offset"] == 0
        frame = client.frame("produce", version, request(version, topic, batch(b"two"), "", 0, -1))
        monkeypatch.setattr(network_messages, "_IMPORTED", {})
        client.socket.sendall(frame)
        answer = client.answer("produce", version)
    assert answer["responses"][0]["partition_responses"][0]["base_offset"] == 1


def stored(data: Bytes, base_offset: int) -> str:
    """Return the batch as the log has it, with its offset and the leader epoch."""
    return b64encode(base_offset.to_bytes(8) + data[8:12] + bytes(4) + data[16:]).decode()


@contextmanager
def soon(call: Callable[[], object]) -> Iterator[None]:
    """Call a function in a moment, while another call waits."""
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
        assert (found["error_code"], found["high_watermark"]) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        assert found["aborted_transactions"] is None
        found = partition_of(fetch(client, version, "unknown", 4, topic_id="B" * 22))
        assert found["error_code"] in (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        assert found["aborted_transactions"] == []
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
        assert error == (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE if codec == ZSTD else 0), (
            "zstd is only for clients that know it"
        )


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
        assert found["error_code"] == ErrorCode.UNKNOWN_TOPIC_ID
        assert produce(client, 13, "", good, topic_id=topic_id)["error_code"] == 0


def test_errors_of_records(node: RunningNode) -> None:
    """A compacted topic requires keys: the response lists the records without one."""
    from formats.record_batch import BatchHeader, Record, RecordBatch, build_batch

    create(node, "compacted", cleanup_policy="compact")
    now_ms = int(time.time() * 1000)
    records = Record(0, 0, 0, b"k", b"v"), Record(0, 0, 1, None, b"v")
    data = build_batch(RecordBatch(BatchHeader(0, 0, -1, 2, 0, 0, 1, now_ms, now_ms, -1, -1, -1, 2), records))
    with node.client() as client:
        found = produce(client, 9, "compacted", data)
    assert found["error_code"] == ErrorCode.INVALID_RECORD
    assert [each["batch_index"] for each in found["record_errors"]] == [1]
    reason = "Compacted topic cannot accept message without key in topic partition compacted-0"
    assert found["record_errors"][0]["batch_index_error_message"] == reason
    assert found["error_message"] == (
        "One or more records have been rejected due to 1 record errors in total, and only showing the first three "
        f"errors at most: [RecordError(batchIndex=1, message='{reason}')]"
    )


def test_no_acks(node: RunningNode) -> None:
    """The broker does not answer acks=0; after an error it closes the connection."""
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
        assert produce(client, 9, "idempotent", gap)["error_code"] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
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
        assert found["error_code"] in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)


@pytest.mark.parametrize("version", [v for v in FETCH_VERSIONS if v >= SESSIONS])
def test_sessions(node: RunningNode, version: int) -> None:
    """An incremental Fetch returns only partitions that have changed. The session ends when the client asks for
    that."""
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
        assert (
            fetch(client, version, "", 0, session=(session_id, 3))["error_code"]
            == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        )
        assert (
            fetch(client, version, "", 0, session=(session_id + 1, 1))["error_code"]
            == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        )
        ended = fetch(client, version, topic, 1, topic_id=topic_id, session=(session_id, -1))
        assert (ended["error_code"], ended["session_id"]) == (0, 0)
        assert (
            fetch(client, version, "", 0, session=(session_id, 4))["error_code"] == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        )


@pytest.mark.parametrize("count", [20, 300])
def test_a_session_of_many_partitions_loses_nothing(node: RunningNode, count: int) -> None:
    """The broker reads the partitions in parts. Each is answered once, whatever is appended, deleted or fenced
    meanwhile."""
    topic = f"many-{count}"
    create(node, topic, partitions=count)

    def told(answer: dict[str, Any]) -> dict[int, tuple[int, bool]]:
        """Return by partition its high watermark, and whether the response has records of it."""
        (found,) = answer["responses"] or [{"partitions": []}]
        return {
            each["partition_index"]: (each["high_watermark"], bool(each["records"])) for each in found["partitions"]
        }

    def ask(client: Client, session: tuple[int, int], offsets: dict[int, int], max_wait: int = 0) -> dict[str, Any]:
        asked = [
            {"partition": each, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
            for each, offset in offsets.items()
        ]
        return client.call(
            "fetch",
            11,
            max_wait=max_wait,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=0,
            topics=[{"topic": topic, "partitions": asked}] if asked else [],
            replica_id=-1,
            session_id=session[0],
            session_epoch=session[1],
            forgotten_topics_data=[],
            rack_id="",
        )

    with node.client() as client, node.client() as other:
        client.wait_for_leaders(topic)
        first = ask(client, (0, 0), dict.fromkeys(range(count), 0))
        session = first["session_id"]
        assert told(first) == dict.fromkeys(range(count), (0, False))
        assert told(ask(client, (session, 1), {})) == {}
        full = {0, 7, count - 1}
        for each in full:
            produce(other, 9, topic, batch(b"a"), partition=each)
        assert told(ask(client, (session, 2), {}, 5000)) == dict.fromkeys(full, (1, True))
        assert told(ask(client, (session, 3), {})) == dict.fromkeys(full, (1, True)), "not acknowledged yet"
        assert told(ask(client, (session, 4), dict.fromkeys(full, 1))) == {}
        for each in range(count):
            produce(other, 9, topic, batch(b"b"), partition=each)
        found = told(ask(client, (session, 5), {}))
        assert found == {each: (2 if each in full else 1, True) for each in range(count)}
        ended = {each: offset for each, (offset, _) in found.items()}
        assert told(ask(client, (session, 6), ended)) == {}
        with soon(lambda: produce(other, 9, topic, batch(b"c"), partition=3)):
            began = time.monotonic()
            assert told(ask(client, (session, 7), {}, 10_000)) == {3: (ended[3] + 1, True)}
            assert time.monotonic() - began < 5
        assert told(ask(client, (session, 8), {3: ended[3] + 1})) == {}
        trimmed = {"name": topic, "partitions": [{"partition_index": 5, "offset": 1}]}
        other.call("delete_records", 2, topics=[trimmed], timeout=5000)
        answer = ask(client, (session, 9), {})
        assert told(answer) == {5: (1, False)}
        assert partition_of(answer)["log_start_offset"] == 1
        other.call("delete_topics", 5, topic_names=[topic], timeout=5000)
        errors = {each["error_code"] for each in ask(client, (session, 10), {}, 5000)["responses"][0]["partitions"]}
        assert errors <= {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER}
        assert errors


def test_session_is_of_ids_or_of_names(node: RunningNode) -> None:
    create(node, "mixed")
    with node.client() as client:
        session_id = fetch(client, 12, "mixed", 0, session=(0, 0))["session_id"]
        assert fetch(client, 13, "", 0, session=(session_id, 1))["error_code"] == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_large_answers_are_whole(node: RunningNode, tmp_path: Path) -> None:
    """A response from files that is larger than the socket's buffer arrives with every byte in its place."""
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


def test_of_records_for_one_partition_the_last_are_appended(node: RunningNode) -> None:
    """As by Kafka, which also answers nothing for a topic without partitions."""
    create(node, "twice", 2)
    first, second, other = (bytes(batch(value)) for value in (b"first", b"second", b"other"))
    named: list[list[tuple[int, bytes]]] = [[(0, first), (0, second)], [], [(1, other), (0, second)]]
    topics = [
        {"name": "twice", "partition_data": [{"index": index, "records": records} for index, records in each]}
        for each in named
    ]
    with node.client() as client:
        fields = {"transactional_id": None, "acks": 1, "timeout": 1000, "topic_data": topics}
        client.socket.sendall(client.frame("produce", 9, fields))
        (answer,) = client.answer("produce", 9)["responses"]
    found = {each["index"]: (each["error_code"], each["base_offset"]) for each in answer["partition_responses"]}
    assert found == {0: (0, 0), 1: (0, 0)}


def test_api_versions_of_an_unknown_version_tells_its_own(node: RunningNode) -> None:
    with node.client() as client:
        client.socket.sendall(bytes.fromhex("0000000a 0012 0063 00000007 ffff"))
        answer = client.socket.recv(4, 0x100) + client.socket.recv(16)
    assert answer == bytes.fromhex("00000010 00000007 0023 00000001 0012 0000 0004")
