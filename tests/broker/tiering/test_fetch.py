"""Clients of a broker with tiered storage, whose log directory is golden/tiered: the records are those that Kafka's
consumer has read, most of them from the tier alone."""

from __future__ import annotations

import base64
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from formats.txn_index import AbortedTxn
from kcli.broker.tiering.reading import TierReading
from kcli.log.source import Source
from kcli.protocol.error_code import ErrorCode
from kcli.tier.local import LocalStore
from kcli.tier.store import StoreFailed
from tests.broker.running import Client, RunningNode, running_node
from tests.broker.tiering.tier_reader import Known, Quota, committed, next_offset, records_of
from tests.conftest import truth
from tests.tier.stores import Copy

READ_COMMITTED = 1


class Hanging(LocalStore):
    """A store that hangs while `gate` is not set, and fails while `error` is set."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.gate = threading.Event()
        self.gate.set()
        self.error: Exception | None = None
        self.count = 0

    def open(self, name: str) -> Source:
        self._wait()
        return super().open(name)

    def read(self, name: str, start: int, stop: int) -> memoryview:
        self._wait()
        return super().read(name, start, stop)

    def _wait(self) -> None:
        self.count += 1
        assert self.gate.wait(30)
        if self.error is not None:
            raise self.error


class Tiered:
    """A broker with tiered storage."""

    def __init__(self, node: RunningNode, copy: Copy, store: Hanging) -> None:
        self.node, self.copy, self.store = node, copy, store
        self.quota = Quota()
        self.partitions = [each for each in copy.tier().partitions if each.local is not None]
        node.run(self._begin)

    def _begin(self) -> None:
        broker = self.node.node.broker
        segments = Known({each.partition: each.cache for each in self.partitions})
        self.reading = TierReading(broker.config, self.store, segments, self.quota)
        self.reading.indexes.load()
        broker.tier = self.reading.reader

    def close(self) -> None:
        self.store.gate.set()
        self.node.run(self.reading.stop)


@contextmanager
def tiered(home: Path, **options: str) -> Iterator[Tiered]:
    copy = Copy.of_golden(home)
    store = Hanging(copy.remote)
    settings = {
        "remote_log_storage_system_enable": "true",
        "remote_log_storage_manager_class_name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
        "rsm_config_dir": str(copy.remote),
        "remote_log_metadata_manager_listener_name": "PLAINTEXT",
        "log_retention_ms": "-1",
        "log_local_retention_ms": "-2",
    }
    with running_node(copy.data, None, **settings | options) as node:
        broker = Tiered(node, copy, store)
        try:
            yield broker
        finally:
            broker.close()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Tiered]:
    with tiered(tmp_path) as made:
        yield made


def expected(topic: str, *, is_committed: bool = False) -> dict[int, list[tuple[Any, ...]]]:
    """The records that Kafka's consumer has read, by partition."""
    found = defaultdict(list)
    for each in truth(f"tiered/expected/truth/{topic}{'.read_committed' if is_committed else ''}.jsonl.gz"):
        key, value = (None if each[name] is None else base64.b64decode(each[name]) for name in ("key", "value"))
        found[each["partition"]].append((each["offset"], each["timestamp"], key, value))
    return found


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("max_bytes", [1_000, 1 << 20])
def test_a_consumer_reads_all(broker: Tiered, isolation: str, max_bytes: int) -> None:
    for topic in ("r-short", "r-keep"):
        wanted = expected(topic, is_committed=isolation == "read_committed")
        settings = {
            "bootstrap.servers": broker.node.bootstrap,
            "group.id": "g",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "max.partition.fetch.bytes": max_bytes,
            "message.max.bytes": 1_000,
            "fetch.max.bytes": max(2_000, max_bytes),
        }
        consumer = Consumer(settings)
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in wanted])
        found = defaultdict(list)
        ended: set[int] = set()
        deadline = time.monotonic() + 30
        while len(ended) < len(wanted):
            assert time.monotonic() < deadline
            message = consumer.poll(1)
            if message is None:
                continue
            number, error = message.partition(), message.error()
            assert number is not None
            if error is not None:
                assert error.name() == "_PARTITION_EOF", error
                ended.add(number)
                continue
            found[number].append((message.offset(), message.timestamp()[1], message.key(), message.value()))
        consumer.close()
        assert found == wanted
    assert broker.store.count > 10, "the tier was read"


SHORT = "r-short"
NO_SESSION = (0, -1)


def fetch(
    client: Client,
    offsets: dict[tuple[str, int], int],
    *,
    session: tuple[int, int] = NO_SESSION,
    isolation: int = 0,
    partition_bytes: int = 1 << 20,
    max_bytes: int = 50 << 20,
    min_bytes: int = 1,
    max_wait: int = 100,
) -> dict[str, Any]:
    """The response to a Fetch of partitions from offsets on."""
    by_topic = defaultdict(list)
    for (topic, number), offset in offsets.items():
        by_topic[topic].append(
            {
                "partition": number,
                "fetch_offset": offset,
                "partition_max_bytes": partition_bytes,
                "current_leader_epoch": -1,
                "log_start_offset": -1,
            }
        )
    return client.call(
        "fetch",
        11,
        replica_id=-1,
        rack_id="",
        isolation_level=isolation,
        session_id=session[0],
        session_epoch=session[1],
        max_wait=max_wait,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=[{"topic": topic, "partitions": each} for topic, each in by_topic.items()],
        forgotten_topics_data=[],
    )


def answers(response: dict[str, Any]) -> dict[tuple[str, int], dict[str, Any]]:
    """The partitions of a response, with their records as bytes."""
    return {
        (topic["topic"], each["partition_index"]): each | {"records": base64.b64decode(each["records"] or "")}
        for topic in response["responses"]
        for each in topic["partitions"]
    }


def offsets_of(answer: dict[str, Any]) -> list[int]:
    return [each[0] for each in records_of(memoryview(answer["records"]))[0]]


def elapsed_s(began: float) -> float:
    return time.monotonic() - began


def test_partitions_of_both_kinds_in_one_response(broker: Tiered) -> None:
    with broker.node.client() as client:
        found = answers(fetch(client, {(SHORT, 0): 10, (SHORT, 1): 283, ("r-keep", 0): 5, ("none", 0): 0}))
    assert found["none", 0]["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for key, first in ((SHORT, 0), 10), ((SHORT, 1), 283), (("r-keep", 0), 5):
        assert found[key]["error_code"] == 0
        assert offsets_of(found[key])[0] <= first < offsets_of(found[key])[-1]
    assert [found[key]["high_watermark"] for key in ((SHORT, 0), (SHORT, 1))] == [296, 290]
    assert [found[key]["log_start_offset"] for key in ((SHORT, 0), (SHORT, 1))] == [0, 0]


def test_limits_of_bytes(broker: Tiered) -> None:
    """A response has no more than max_bytes, except for one batch in its first partition."""
    whole = {(SHORT, 0): 0, (SHORT, 1): 0, ("r-keep", 0): 0}
    with broker.node.client() as client:
        for max_bytes in (1, 500, 1_000, 3_000, 20_000):
            for order in (list(whole), list(whole)[::-1]):
                found = answers(fetch(client, {key: whole[key] for key in order}, max_bytes=max_bytes))
                sizes = [len(each["records"]) for each in found.values()]
                one_batch = sum(bool(size) for size in sizes) == 1
                assert sum(sizes) <= max_bytes or one_batch, (max_bytes, sizes)
                assert sum(sizes) > 0
        found = answers(fetch(client, whole, partition_bytes=1))
        assert [bool(each["records"]) for each in found.values()] == [True, False, False]


def test_a_session_reads_on(broker: Tiered) -> None:
    """Within a session each partition is read from the tier, then from the local log, to its end."""
    wanted = expected(SHORT)
    found: dict[int, list[int]] = {0: [], 1: []}
    with broker.node.client() as client:
        response = fetch(client, {(SHORT, 0): 0, (SHORT, 1): 0}, session=(0, 0), partition_bytes=3_000)
        session, epoch = response["session_id"], 1
        assert session
        for _ in range(200):
            moved = {}
            for (_, number), each in answers(response).items():
                assert each["error_code"] == 0
                if not each["records"]:
                    continue
                records, table = records_of(memoryview(each["records"]))
                found[number] += [one[0] for one in records]
                moved[SHORT, number] = table.row(table.count - 1)[4] + 1
            if found[0][-1:] == [wanted[0][-1][0]] and found[1][-1:] == [wanted[1][-1][0]]:
                break
            response = fetch(client, moved, session=(session, epoch), partition_bytes=3_000)
            assert response["error_code"] == 0
            epoch += 1
    assert found == {number: [each[0] for each in wanted[number]] for number in (0, 1)}


def test_a_store_that_hangs_delays_nobody(tmp_path: Path) -> None:
    with tiered(
        tmp_path, remote_fetch_max_wait_ms="700", remote_log_reader_threads="4", remote_log_reader_max_pending_tasks="2"
    ) as broker:
        with broker.node.client() as warm:
            assert offsets_of(answers(fetch(warm, {(SHORT, 0): 0}))[SHORT, 0])
        broker.store.gate.clear()
        with broker.node.client() as waiting, broker.node.client() as other:
            began = time.monotonic()
            waiting.socket.sendall(fetch_frame(waiting, {(SHORT, 0): 0}))
            slowest = 0.0
            while elapsed_s(began) < 0.5:
                one = time.monotonic()
                tail = answers(fetch(other, {(SHORT, 0): 290}))[SHORT, 0]
                assert offsets_of(tail)
                other.call("metadata", 12, topics=None)
                slowest = max(slowest, elapsed_s(one))
            assert slowest < 0.2, "the tail of the same partition is read at once"
            late = answers(waiting.answer("fetch", 11))[SHORT, 0]
            assert 0.6 < elapsed_s(began) < 3
            assert (late["error_code"], late["records"], late["high_watermark"]) == (0, b"", 296)
            both = answers(fetch(other, {(SHORT, 0): 0, (SHORT, 1): 285}))
            assert both[SHORT, 0]["error_code"] == 0
            assert not both[SHORT, 0]["records"]
            assert offsets_of(both[SHORT, 1]), "what is here comes along"
            # four reads hold the threads, two wait, and no more are taken
            with ExitStack() as stack:
                clients = [stack.enter_context(broker.node.client()) for _ in range(7)]
                for each in clients:
                    each.socket.sendall(fetch_frame(each, {(SHORT, 0): 0}))
                codes = [answers(each.answer("fetch", 11))[SHORT, 0]["error_code"] for each in clients]
            assert 0 < codes.count(ErrorCode.UNKNOWN_SERVER_ERROR) < 7
        broker.store.gate.set()
        with broker.node.client() as again:
            assert offsets_of(answers(fetch(again, {(SHORT, 0): 0}))[SHORT, 0])[0] == 0


def fetch_frame(client: Client, offsets: dict[tuple[str, int], int]) -> bytes:
    """The frame of a Fetch, which the client does not wait for."""
    sent: list[bytes] = []

    class Recorder:
        def call(self, api: str, version: int, /, **request: Any) -> dict[str, Any]:
            sent.append(client.frame(api, version, request))
            return {}

    fetch(Recorder(), offsets)  # type: ignore[arg-type]
    return sent[0]


def test_a_store_that_fails(broker: Tiered) -> None:
    broker.store.error = StoreFailed("s3://bucket", "no answer")
    with broker.node.client() as client:
        found = answers(fetch(client, {(SHORT, 0): 0, (SHORT, 1): 285}))
        assert found[SHORT, 0]["error_code"] == ErrorCode.UNKNOWN_SERVER_ERROR
        assert offsets_of(found[SHORT, 1])
        broker.store.error = None
        assert offsets_of(answers(fetch(client, {(SHORT, 0): 0}))[SHORT, 0])[0] == 0
        (path,) = broker.copy.remote.glob("*/r-short-1-*/00000000000000000000-*.log")
        path.write_bytes(b"\0" * path.stat().st_size)
        found = answers(fetch(client, {(SHORT, 0): 0, (SHORT, 1): 0}))
        assert found[SHORT, 1]["error_code"] == ErrorCode.UNKNOWN_SERVER_ERROR
        assert offsets_of(found[SHORT, 0])


def test_a_quota_that_is_used_up(broker: Tiered) -> None:
    """Nothing is read from the tier, and the Fetch waits for other partitions as if there were nothing to read."""
    broker.quota.used_up = True
    with broker.node.client() as client:
        began = time.monotonic()
        nothing = answers(fetch(client, {(SHORT, 0): 0}, max_wait=300))[SHORT, 0]
        assert (nothing["error_code"], nothing["records"]) == (0, b"")
        assert elapsed_s(began) >= 0.29
        found = answers(fetch(client, {(SHORT, 0): 0, (SHORT, 1): 285}, max_wait=10_000))
        assert offsets_of(found[SHORT, 1])
        assert not found[SHORT, 0]["records"]
        assert broker.store.count == 0
        broker.quota.used_up = False
        assert offsets_of(answers(fetch(client, {(SHORT, 0): 0}))[SHORT, 0])[0] == 0
    assert broker.quota.size > 0


def test_an_offset_that_nobody_has(broker: Tiered) -> None:
    def forget() -> None:
        for partition in broker.partitions:
            for segment in partition.copied():
                if segment.start_offset == 0:
                    epochs = partition.cache._epochs[0]
                    epochs.deletion_started(0, segment.id)

    broker.node.run(forget)
    with broker.node.client() as client:
        found = answers(fetch(client, {(SHORT, 0): 0, (SHORT, 1): 285}))
        assert found[SHORT, 0]["error_code"] == ErrorCode.OFFSET_OUT_OF_RANGE
        assert offsets_of(found[SHORT, 1])


def test_read_committed_across_both(broker: Tiered) -> None:
    wanted = expected(SHORT, is_committed=True)
    with broker.node.client() as client:
        for number in (0, 1):
            at, found = 0, []
            while at < 290:
                one = answers(fetch(client, {(SHORT, number): at}, isolation=READ_COMMITTED, partition_bytes=2_000))
                answer = one[SHORT, number]
                if not answer["records"]:
                    break
                data = memoryview(answer["records"])
                aborted = tuple(
                    AbortedTxn(0, each["producer_id"], each["first_offset"], 0, 0)
                    for each in answer["aborted_transactions"]
                )
                found += [each[0] for each in committed(data, aborted) if each[0] >= at]
                at = next_offset(records_of(data)[1])
            assert found == [each[0] for each in wanted[number]]


def list_offsets(client: Client, timestamp: int, version: int = 7, **fields: Any) -> dict[int, tuple[int, int, int]]:
    """Error, timestamp and offset of each partition of r-short."""
    asked = [{"partition_index": number, "current_leader_epoch": -1, "timestamp": timestamp} for number in (0, 1)]
    topics = [{"name": SHORT, "partitions": asked}]
    response = client.call("list_offsets", version, replica_id=-1, isolation_level=0, topics=topics, **fields)
    return {
        each["partition_index"]: (each["error_code"], each["timestamp"], each["offset"])
        for each in response["topics"][0]["partitions"]
    }


def stored(copy: Copy, number: int) -> list[tuple[int, int]]:
    """Timestamp and offset of each record of a partition, in the tier or here, markers included; by offset."""
    paths = [*copy.remote.glob(f"*/{SHORT}-{number}-*/*.log"), *(copy.data / f"{SHORT}-{number}").glob("*.log")]
    found: dict[int, int] = {}
    for path in paths:
        records, _ = records_of(memoryview(path.read_bytes()), with_markers=True)
        found |= {each[0]: each[2] for each in records}
    return [(found[offset], offset) for offset in sorted(found)]


def test_offsets_for_times(broker: Tiered) -> None:
    """Each offset found is that of the first record with the timestamp or a later one, be it in the tier or here."""
    wanted = {number: stored(broker.copy, number) for number in (0, 1)}
    assert len(wanted[0]) > 280
    times = sorted({time_ms for each in wanted.values() for time_ms, _ in each})
    with broker.node.client() as client:
        for timestamp in [0, *times[::5], *(each + 1 for each in times[::7]), times[-1]]:
            first = {
                number: (0, *next((each for each in wanted[number] if each[0] >= timestamp), (-1, -1)))
                for number in (0, 1)
            }
            assert list_offsets(client, timestamp) == first
        assert list_offsets(client, 1 << 50) == {0: (0, -1, -1), 1: (0, -1, -1)}


def test_times_while_the_store_hangs(tmp_path: Path) -> None:
    with tiered(tmp_path, remote_list_offsets_request_timeout_ms="400") as broker, broker.node.client() as client:
        broker.store.gate.clear()
        began = time.monotonic()
        timed_out = dict.fromkeys((0, 1), (ErrorCode.REQUEST_TIMED_OUT, -1, -1))
        assert list_offsets(client, 0) == timed_out
        assert 0.39 < elapsed_s(began) < 3
        began = time.monotonic()
        assert list_offsets(client, 0, 10, timeout=100) == timed_out
        assert elapsed_s(began) < 0.35
        began = time.monotonic()
        assert list_offsets(client, -1) == {0: (0, -1, 296), 1: (0, -1, 290)}
        assert list_offsets(client, -2) == {0: (0, -1, 0), 1: (0, -1, 0)}
        assert elapsed_s(began) < 0.2
        broker.store.gate.set()
        assert list_offsets(client, 0)[0][2] == 0
        broker.store.error = StoreFailed("s3://bucket", "no answer")
        assert list_offsets(client, 1_700_000_000_000)[0] == (ErrorCode.UNKNOWN_SERVER_ERROR, -1, -1)
