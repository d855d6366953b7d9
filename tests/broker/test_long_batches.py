"""Batches that take long to check are checked on a thread beside the event loop: those that decompress to gigabytes, or
must be compressed again. Responses and appends are as for any other batch."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator, Sequence

import pytest

from formats.compression import DEFAULT_LIMIT, UNBOUNDED, compress, most_bytes
from formats.kernels.append import RefusedRecords
from formats.kernels.crc import crc32c
from kcli.broker.partition.long_batches import AT_ONCE_BYTES, REQUEST_LIMIT, check_apart, long_batches
from kcli.broker.wire.produce_layout import RECORD_ERRORS_MAX
from kcli.log.config import LogConfig
from kcli.log.live.validator import AppendRefused, AppendRules, append_rules
from tests.broker.rounds import rounds_of
from tests.broker.running import Client, RunningNode, running_node
from tests.log.batches import NOW_MS, batch

PARTITIONS = 20
INVALID_RECORD = 87
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
ZSTD_BLOCK = 128 << 10
PRODUCER: AppendRules = append_rules(LogConfig({}))


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with running_node(tmp_path_factory.mktemp("node") / "data") as found:
        with found.client() as client:
            client.create_topic("many", PARTITIONS)
            client.create_topic("gzip", 1, {"compression.type": "gzip"})
        yield found


def zstd_zeros(size: int) -> bytes:
    """Return a zstd frame of blocks that repeat one byte: four bytes for each 128 KiB."""
    blocks, kind = size // ZSTD_BLOCK, 1
    block = (kind << 1 | ZSTD_BLOCK << 3).to_bytes(3, "little") + b"\0"
    last = (1 | kind << 1 | ZSTD_BLOCK << 3).to_bytes(3, "little") + b"\0"
    return bytes.fromhex("28b52ffd0038") + block * (blocks - 1) + last


def with_payload(payload: bytes, codec: int) -> bytes:
    """Return a batch that claims one record, with this payload."""
    data = bytearray(batch(b"value")[:61] + payload)
    data[8:12] = (len(data) - 12).to_bytes(4)
    data[21:23] = codec.to_bytes(2)
    data[17:21] = crc32c(memoryview(data)[21:]).to_bytes(4)
    return bytes(data)


BOMB = with_payload(zstd_zeros(8 << 30), ZSTD)


def produce(client: Client, topic: str, batches: Sequence[bytes]) -> list[tuple[int, int]]:
    """Error code and base offset of each."""
    data = [{"name": topic, "partition_data": [{"index": i, "records": each} for i, each in enumerate(batches)]}]
    answer = client.call("produce", 9, acks=-1, timeout=30_000, transactional_id=None, topic_data=data)
    return [(each["error_code"], each["base_offset"]) for each in answer["responses"][0]["partition_responses"]]


def test_bombs_do_not_hold_the_loop(node: RunningNode) -> None:
    with node.client() as client, rounds_of(node) as rounds:
        assert {code for code, _ in produce(client, "many", [BOMB] * PARTITIONS)} == {INVALID_RECORD}
    assert rounds.are_even, rounds


def refusals() -> int:
    """Return the number of refusals of batches that this process holds."""
    return sum(isinstance(each, AppendRefused | RefusedRecords) for each in gc.get_objects())


@pytest.mark.parametrize("count", [100_000, 1_000_000])
def test_batches_of_many_invalid_records(node: RunningNode, count: int) -> None:
    """The check does not block the loop, the response names a bounded number of records, and no memory of them is
    kept."""
    keyless = bytes.fromhex("0c000000010100")
    data = bytearray(with_payload(compress(ZSTD, keyless * count), ZSTD))
    data[23:27], data[57:61] = (count - 1).to_bytes(4), count.to_bytes(4)
    data[17:21] = crc32c(memoryview(data)[21:]).to_bytes(4)
    topic = {"name": "compacted", "partition_data": [{"index": i, "records": bytes(data)} for i in range(2)]}
    request = {"acks": -1, "timeout": 30_000, "transactional_id": None, "topic_data": [topic]}
    with node.client() as client:
        if count == 100_000:
            client.create_topic("compacted", 2, {"cleanup.policy": "compact"})
        with rounds_of(node) as rounds:
            client.socket.sendall(client.frame("produce", 9, request))
            answer = bytes(client.read_frame())
            until = time.monotonic() + 10  # the threads that answered may not have returned yet
            while (kept := refusals()) and time.monotonic() < until:
                time.sleep(0.01)
    assert rounds.are_even, rounds
    assert answer.count(b"without key in topic partition compacted-0") == RECORD_ERRORS_MAX + 3
    assert answer.count(b"without key in topic partition compacted-1") == 3, "of the message alone"
    assert f"due to {count} record errors in total".encode() in answer
    assert not kept, "objects"


def test_compressing_anew_does_not_hold_the_loop(node: RunningNode) -> None:
    text = b"".join(i.to_bytes(4) for i in range(200_000))
    with node.client() as client, rounds_of(node) as rounds:
        assert [produce(client, "gzip", [bytes(batch(text))]) for _ in range(3)] == [[(0, i)] for i in range(3)]
    assert rounds.are_even, rounds
    assert long_batches({(0, 0): (memoryview(batch(text)), append_rules(LogConfig({"compression.type": "gzip"})))})


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_long_and_short_batches_of_one_connection_are_in_order(node: RunningNode, codec: int) -> None:
    """A batch that is sent behind a long one, before its response, is behind it in the log."""
    topic = f"order-{codec}"
    long, short = bytes(batch(b"", bytes(12 << 20), codec=codec)), bytes(batch(b"a", codec=codec))
    with node.client() as client:
        client.create_topic(topic, 1, {"max.message.bytes": str(20 << 20)})
        frames = b""
        for each in (short, long, short, long, short):
            data = [{"name": topic, "partition_data": [{"index": 0, "records": each}]}]
            request = {"acks": -1, "timeout": 30_000, "transactional_id": None, "topic_data": data}
            frames += client.frame("produce", 9, request)
            client.correlation_id -= 1
        client.correlation_id += 1
        client.socket.sendall(frames)
        answers = [client.answer("produce", 9)["responses"][0]["partition_responses"][0] for _ in range(5)]
    assert [(each["error_code"], each["base_offset"]) for each in answers] == [(0, 0), (0, 1), (0, 3), (0, 4), (0, 6)]


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_no_payload_is_larger_than_its_bound(codec: int) -> None:
    for data in (b"", b"a", bytes(10_000_000), bytes(range(256)) * 300, b"ab" * 500_000):
        assert len(data) <= most_bytes(codec, compress(codec, data)) <= UNBOUNDED


def test_what_is_long() -> None:
    def is_long(*batches: bytes | bytearray) -> bool:
        return bool(long_batches({(0, i): (memoryview(each), PRODUCER) for i, each in enumerate(batches)}))

    usual = b"".join(b'{"id": %d, "name": "some name"}' % i for i in range(500))
    assert not any(is_long(batch(usual, codec=codec)) for codec in (GZIP, SNAPPY, LZ4, ZSTD))
    assert is_long(*[with_payload(zstd_zeros(AT_ONCE_BYTES // 2), ZSTD)] * 3)
    assert is_long(with_payload(zstd_zeros(ZSTD_BLOCK) * 2, ZSTD)), "of a second frame nothing is known yet"
    assert not is_long(b"", b"a" * 22, bytes(61))


def test_a_request_has_a_bound() -> None:
    """Behind a certain number of bytes no batch of the request is checked, not even a sound one."""
    bombs = {(0, i): (memoryview(BOMB), PRODUCER) for i in range(REQUEST_LIMIT // DEFAULT_LIMIT)}
    sound = memoryview(batch(b"value", codec=ZSTD))
    outcome = asyncio.run(check_apart({**bombs, (1, 0): (sound, PRODUCER)}, NOW_MS))
    reasons = [each.reason for each in outcome.values() if isinstance(each, AppendRefused)]
    assert len(reasons) == len(outcome)
    assert reasons[-1].startswith("the batches of one request decompress to more than")
    assert all("limit of" in each for each in reasons[:-1])
