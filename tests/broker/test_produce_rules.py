"""The rules of Produce, in Kafka's order: the first rule that a request breaks decides its error. The error codes are
those that Kafka 4.3 gave to the same bytes."""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from formats.compression import compress
from formats.crc32c import crc32c
from formats.varint import uvarint
from kcli.broker.api import produce
from kcli.inspector.verify import Verification
from kcli.protocol.error_code import ErrorCode
from tests.broker.running import Client, Closed, RunningNode, running_node
from tests.conftest import TESTS
from tests.log.batches import batch as batch_at

NOW_MS = int(time.time() * 1000)
TOPIC, UNKNOWN, INTERNAL = "orders", "unknown", "__consumer_offsets"
VERSION, BEFORE_ZSTD = 9, 6
ZSTD = 4
NOT_ENOUGH_REPLICAS = ErrorCode.NOT_ENOUGH_REPLICAS.value
LENGTH, MAGIC = slice(8, 12), 16
TWO_PRODUCERS = "Transactional records contained more than one producer ID"

Batch = tuple[str, int, bytes]
"""Topic, partition, records."""


def batch(value: bytes = b"a", **more: Any) -> bytearray:
    return batch_at(value, timestamp_ms=NOW_MS, **more)


def of_magic(magic: int, data: bytes) -> bytes:
    return data[:MAGIC] + bytes([magic]) + data[MAGIC + 1 :]


def of_length(length: int, data: bytes) -> bytes:
    return data[: LENGTH.start] + length.to_bytes(4, signed=True) + data[LENGTH.stop :]


def corrupt(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


GOOD = bytes(batch())
OLD = of_magic(1, GOOD)
LONG = bytes(batch(b"x" * 1_100_000))
SHIFTED = bytes(batch(base_offset=5))
OPEN = bytes(batch(producer=(777, 0), sequence=0, transactional=True))
OTHER = bytes(batch(producer=(778, 0), sequence=0, transactional=True))
ANY, LEADER = 7, 1
"""acks: a number that does not exist, and that of the leader alone."""

ONE_BATCH: dict[str, tuple[int, Batch, str]] = {
    "nothing but a partition that there is not": (ANY, (UNKNOWN, 0, OLD), "UNKNOWN_TOPIC_OR_PARTITION"),
    "an internal topic has so many partitions": (LEADER, (INTERNAL, 99, GOOD), "UNKNOWN_TOPIC_OR_PARTITION"),
    "no batch": (ANY, (TOPIC, 0, b""), "INVALID_RECORD"),
    "a piece of a batch": (ANY, (TOPIC, 0, GOOD[:-1]), "INVALID_RECORD"),
    "a piece of a header": (LEADER, (TOPIC, 0, GOOD[:16]), "INVALID_RECORD"),
    "an old magic": (ANY, (TOPIC, 0, OLD), "INVALID_RECORD"),
    "an old magic for an internal topic": (LEADER, (INTERNAL, 0, OLD), "INVALID_RECORD"),
    "a magic that there is not": (ANY, (TOPIC, 0, of_magic(3, GOOD)), "CORRUPT_MESSAGE"),
    "a negative magic": (LEADER, (TOPIC, 0, of_magic(255, GOOD)), "CORRUPT_MESSAGE"),
    "a length that there is not": (LEADER, (TOPIC, 0, of_length(5, GOOD)), "CORRUPT_MESSAGE"),
    "a negative length": (LEADER, (TOPIC, 0, of_length(-5, GOOD)), "CORRUPT_MESSAGE"),
    "two batches": (LEADER, (TOPIC, 0, GOOD + GOOD), "INVALID_RECORD"),
    "two batches, the first corrupt": (LEADER, (TOPIC, 0, corrupt(GOOD) + GOOD), "INVALID_RECORD"),
    "two batches, the first too long": (LEADER, (TOPIC, 0, LONG + GOOD), "INVALID_RECORD"),
    "zeros behind the batch": (LEADER, (TOPIC, 0, GOOD + bytes(20)), "CORRUPT_MESSAGE"),
    "another magic behind the batch": (LEADER, (TOPIC, 0, GOOD + of_magic(9, GOOD)), "CORRUPT_MESSAGE"),
    "a torn batch behind the batch": (LEADER, (TOPIC, 0, GOOD + GOOD[:30]), "NONE"),
    "a few bytes behind the batch": (LEADER, (TOPIC, 0, GOOD + GOOD[:5]), "NONE"),
    "acks": (ANY, (TOPIC, 0, GOOD), "INVALID_REQUIRED_ACKS"),
    "acks, for a corrupt batch": (ANY, (TOPIC, 0, corrupt(GOOD)), "INVALID_REQUIRED_ACKS"),
    "acks, for an internal topic": (ANY, (INTERNAL, 0, GOOD), "INVALID_REQUIRED_ACKS"),
    "an internal topic": (LEADER, (INTERNAL, 0, corrupt(GOOD)), "INVALID_TOPIC_EXCEPTION"),
    "a base offset of a batch too long": (LEADER, (TOPIC, 0, bytes(batch(LONG, base_offset=5))), "INVALID_RECORD"),
    "a base offset of a corrupt batch": (LEADER, (TOPIC, 0, corrupt(SHIFTED)), "INVALID_RECORD"),
    "a corrupt batch that is too long": (LEADER, (TOPIC, 0, corrupt(LONG)), "MESSAGE_TOO_LARGE"),
    "a corrupt batch": (LEADER, (TOPIC, 0, corrupt(GOOD)), "CORRUPT_MESSAGE"),
    "a corrupt batch without its sequence": (
        LEADER,
        (TOPIC, 0, corrupt(bytes(batch(producer=(9, 0))))),
        "CORRUPT_MESSAGE",
    ),
}
"""acks, one batch, what becomes of it."""


def short(length: int, magic: int = 2, base_offset: int = 0) -> bytes:
    """Return a batch whose length field says `length`, and which has that many bytes."""
    whole = of_magic(magic % 256, of_length(length, bytes(batch(b"x" * 70, base_offset=base_offset))))
    return whole[: LENGTH.stop + length]


HEADS: dict[str, tuple[Sequence[Batch], Sequence[str]]] = {
    **{f"length {length}": ([(TOPIC, 0, short(length))], ["CORRUPT_MESSAGE"]) for length in (0, 1, 5, 10, 11, 12, 13)},
    **{f"length {length}": ([(TOPIC, 0, short(length))], ["UNKNOWN_SERVER_ERROR"]) for length in (14, 20, 37, 38)},
    **{f"length {length}": ([(TOPIC, 0, short(length))], ["CORRUPT_MESSAGE"]) for length in (39, 44, 48, 49, 61)},
    **{
        f"magic {magic} length {length}": ([(TOPIC, 0, short(length, magic))], [code])
        for magic in (0, 1, 3, -1, 127)
        for length in (13, 14, 30, 49, 61)
        for code in ["INVALID_RECORD" if magic in (0, 1) and length >= 14 else "CORRUPT_MESSAGE"]
    },
    "no header, base offset": ([(TOPIC, 0, short(45, base_offset=5))], ["INVALID_RECORD"]),
    "no producer id, base offset": ([(TOPIC, 0, short(20, base_offset=5))], ["UNKNOWN_SERVER_ERROR"]),
    "a size above int32": (
        [(TOPIC, 0, GOOD), (TOPIC, 1, of_length(2**31 - 12, GOOD))],
        ["UNKNOWN_SERVER_ERROR", "UNKNOWN_SERVER_ERROR"],
    ),
    "a size above int32, of a second batch": (
        [(TOPIC, 0, GOOD + of_length(2**31 - 12, GOOD)), (TOPIC, 1, GOOD)],
        ["UNKNOWN_SERVER_ERROR", "UNKNOWN_SERVER_ERROR"],
    ),
    "a magic beside a good one": (
        [(TOPIC, 0, GOOD), (TOPIC, 1, of_magic(3, GOOD))],
        ["CORRUPT_MESSAGE", "CORRUPT_MESSAGE"],
    ),
    "a magic of a torn batch": (
        [(TOPIC, 0, GOOD), (TOPIC, 1, of_magic(3, GOOD)[:17])],
        ["CORRUPT_MESSAGE", "CORRUPT_MESSAGE"],
    ),
    "a magic for a partition that there is not": (
        [(UNKNOWN, 0, of_magic(3, GOOD)), (TOPIC, 0, GOOD)],
        ["CORRUPT_MESSAGE", "CORRUPT_MESSAGE"],
    ),
    "no producer id beside a good one": (
        [(TOPIC, 0, GOOD), (TOPIC, 1, short(20))],
        ["UNKNOWN_SERVER_ERROR", "UNKNOWN_SERVER_ERROR"],
    ),
    "no producer id, for a partition that there is not": (
        [(UNKNOWN, 0, short(20)), (TOPIC, 0, GOOD)],
        ["UNKNOWN_TOPIC_OR_PARTITION", "NONE"],
    ),
    "no producer id before a second batch": (
        [(TOPIC, 0, short(20) + GOOD), (TOPIC, 1, GOOD)],
        ["INVALID_RECORD", "NONE"],
    ),
    "no header beside a good one": ([(TOPIC, 0, GOOD), (TOPIC, 1, short(45))], ["NONE", "CORRUPT_MESSAGE"]),
    "a magic of the second batch": (
        [(TOPIC, 0, GOOD + of_magic(3, GOOD)), (TOPIC, 1, GOOD)],
        ["CORRUPT_MESSAGE", "NONE"],
    ),
    "transactional without a producer": (
        [(TOPIC, 0, GOOD), (TOPIC, 1, bytes(batch(transactional=True)))],
        ["TRANSACTIONAL_ID_AUTHORIZATION_FAILED"] * 2,
    ),
    "transactional before a magic": (
        [(TOPIC, 0, OPEN), (TOPIC, 1, of_magic(3, GOOD))],
        ["TRANSACTIONAL_ID_AUTHORIZATION_FAILED"] * 2,
    ),
    "a magic before transactional": (
        [(TOPIC, 0, of_magic(3, GOOD)), (TOPIC, 1, OPEN)],
        ["CORRUPT_MESSAGE", "CORRUPT_MESSAGE"],
    ),
    "a negative producer id": ([(TOPIC, 0, bytes(batch(producer=(-5, -1))))], ["NONE"]),
}
"""Batches whose headers no producer writes, without a transactional id, and their errors."""


def varint(value: int, more_bytes: int = 0) -> bytes:
    """Return a number as a zigzag varint, with `more_bytes` bytes more than it needs."""
    least = uvarint((value << 1) ^ (value >> 63))
    if more_bytes:
        least = least[:-1] + bytes([least[-1] | 0x80]) + b"\x80" * (more_bytes - 1) + b"\0"
    return least


def record(
    delta: int = 0, *, longer_length: int = 0, longer_key: int = 0, headers: Sequence[tuple[bytes, bytes]] = ()
) -> bytes:
    """Return a record with key k, value v and these headers. The longer_ arguments add bytes to its varints."""
    body = b"\0\0" + varint(delta) + varint(1, longer_key) + b"k" + varint(1) + b"v" + varint(len(headers))
    body += b"".join(varint(len(part)) + part for header in headers for part in header)
    return varint(len(body), longer_length) + body


def of_records(*records: bytes, codec: int = 0, behind: bytes = b"", cut: int = 0) -> bytes:
    """Return a batch with these records. behind: bytes after the end of the compressed stream; cut: bytes cut from its
    end."""
    stream = compress(codec, b"".join(records))
    payload = stream[: len(stream) - cut] + behind
    count = len(records)
    body = struct.pack(">hiqqqhii", codec, count - 1, NOW_MS, NOW_MS, -1, -1, -1, count) + payload
    return struct.pack(">qiibI", 0, len(body) + 9, -1, 2, crc32c(body)) + body


TWO = (record(0), record(1))
RECORDS: dict[str, tuple[bytes, str]] = {
    **{
        f"codec {codec}, varints of 5 bytes": (
            of_records(record(0), record(1, longer_length=4, longer_key=4), codec=codec),
            "NONE",
        )
        for codec in range(5)
    },
    "a length of 6 bytes": (of_records(record(0), record(1, longer_length=5)), "UNKNOWN_SERVER_ERROR"),
    **{
        f"codec {codec}, a length of 6 bytes": (
            of_records(record(0), record(1, longer_length=5), codec=codec),
            "INVALID_RECORD",
        )
        for codec in range(1, 5)
    },
    **{
        f"codec {codec}, a key's length of 6 bytes": (
            of_records(record(0), record(1, longer_key=5), codec=codec),
            "INVALID_RECORD",
        )
        for codec in range(5)
    },
    **{
        f"codec {codec}, offset deltas {deltas}": (
            of_records(*map(record, deltas), codec=codec),
            "UNKNOWN_SERVER_ERROR" if codec else "NONE",
        )
        for codec in range(5)
        for deltas in ((0, 2), (1, 0), (5, 6), (0, 0), (-1, 0))
    },
    **{
        f"codec {codec}, {len(behind)} bytes behind the stream": (of_records(*TWO, codec=codec, behind=behind), code)
        for codec, behind, code in [
            (1, b"x", "NONE"),
            (1, b"garbage", "NONE"),
            (1, bytes(1000), "NONE"),
            (1, compress(1, b""), "NONE"),
            (1, compress(1, b"abc"), "INVALID_RECORD"),
            (2, b"x", "NONE"),
            (2, b"garbage", "UNKNOWN_SERVER_ERROR"),
            (3, b"x", "NONE"),
            (3, compress(3, b"abc"), "NONE"),
            (3, bytes(1000), "NONE"),
            (ZSTD, b"x", "UNKNOWN_SERVER_ERROR"),
            (ZSTD, b"garbage", "UNKNOWN_SERVER_ERROR"),
            (ZSTD, bytes(1000), "UNKNOWN_SERVER_ERROR"),
        ]
    },
}
"""Records and compressed streams that no producer writes, and their errors."""

TRANSACTIONS: dict[str, tuple[str | None, Sequence[Batch], Sequence[str]]] = {
    "no transactional id": (
        None,
        [(TOPIC, 0, OPEN), (TOPIC, 1, GOOD), (UNKNOWN, 0, GOOD)],
        ["TRANSACTIONAL_ID_AUTHORIZATION_FAILED"] * 3,
    ),
    "two producers": (
        "x",
        [(TOPIC, 0, OPEN), (TOPIC, 1, OTHER), (UNKNOWN, 0, GOOD)],
        ["INVALID_PRODUCER_ID_MAPPING"] * 3,
    ),
    "two producers, one of a topic that there is not": (
        "x",
        [(TOPIC, 0, OPEN), (UNKNOWN, 0, OTHER)],
        ["INVALID_PRODUCER_ID_MAPPING", "UNKNOWN_TOPIC_OR_PARTITION"],
    ),
    "two producers, one of an old magic": (
        "x",
        [(TOPIC, 0, OPEN), (TOPIC, 1, of_magic(1, OTHER))],
        ["INVALID_PRODUCER_ID_MAPPING", "INVALID_RECORD"],
    ),
    "a transaction that nobody began": ("x", [(TOPIC, 0, corrupt(OPEN))], ["INVALID_PRODUCER_ID_MAPPING"]),
    "a transaction that nobody began, old magic": ("x", [(TOPIC, 0, of_magic(1, OPEN))], ["INVALID_RECORD"]),
    "a transaction that nobody began, internal": ("x", [(INTERNAL, 0, OPEN)], ["INVALID_PRODUCER_ID_MAPPING"]),
}
"""Transactional id, batches, what becomes of each."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with running_node(tmp_path_factory.mktemp("node") / "data") as found:
        with found.client() as client:
            client.create_topic(TOPIC, 2)
            deadline = time.monotonic() + 30
            for key_type in (0, 1):  # makes the internal topics
                client.call("find_coordinator", 4, key_type=key_type, coordinator_keys=["x"])
            client.wait_for_leaders(INTERNAL)
            while answers(client, request(LEADER, [(TOPIC, 0, OPEN)], "x"))[0]["error_code"] == NOT_ENOUGH_REPLICAS:
                assert time.monotonic() < deadline, "the coordinator does not load"
                time.sleep(0.02)
        yield found


def request(acks: int, batches: Sequence[Batch], transactional_id: str | None = None) -> dict[str, Any]:
    topics: dict[str, list[dict[str, Any]]] = {}
    for topic, index, records in batches:
        topics.setdefault(topic, []).append({"index": index, "records": records})
    data = [{"name": topic, "partition_data": partitions} for topic, partitions in topics.items()]
    return {"acks": acks, "timeout": 1000, "transactional_id": transactional_id, "topic_data": data}


def answers(client: Client, asked: dict[str, Any], version: int = VERSION) -> list[dict[str, Any]]:
    found = client.call("produce", version, **asked)
    return [each for topic in found["responses"] for each in topic["partition_responses"]]


@pytest.mark.parametrize("case", ONE_BATCH)
def test_the_first_rule_that_is_broken_refuses_a_batch(node: RunningNode, case: str) -> None:
    acks, found, code = ONE_BATCH[case]
    with node.client() as client:
        (answer,) = answers(client, request(acks, [found]))
    assert ErrorCode(answer["error_code"]).name == code


@pytest.mark.parametrize("case", RECORDS)
def test_records_that_no_producer_writes(node: RunningNode, case: str) -> None:
    data, code = RECORDS[case]
    with node.client() as client:
        (answer,) = answers(client, request(LEADER, [(TOPIC, 0, data)]))
    assert ErrorCode(answer["error_code"]).name == code


def test_what_a_leader_appends_is_no_damage(node: RunningNode) -> None:
    """Verify warns of batches that no producer of Kafka's writes; Kafka 4.3 appends them nevertheless."""
    topic = {"name": TOPIC, "partition_indexes": (0,)}
    marker = {"producer_id": -(2**63), "producer_epoch": -5, "transaction_result": True, "coordinator_epoch": 0}
    odd = [
        of_records(record(0), record(0)),
        of_records(record(5), record(6)),
        of_records(*TWO, codec=1, behind=b"garbage"),
        of_records(record(headers=((b"\xff\xfe", b"v"),)), codec=1),
        bytes(batch(transactional=True)),
        *(bytes(batch(producer=(999, -1), sequence=each)) for each in (5, 5, 0, 2**31 - 1)),
    ]
    with node.client() as client:
        for data in odd:
            (answer,) = answers(client, request(LEADER, [(TOPIC, 0, data)], "x"))
            assert answer["error_code"] == 0
        found = client.call("write_txn_markers", 1, markers=[marker | {"topics": [topic]}])
    assert found["markers"][0]["topics"][0]["partitions"][0]["error_code"] == 0
    log = Path(node.config().log_dirs[0]) / f"{TOPIC}-0"
    loud = {(each.kind, each.severity) for each in Verification([log]).findings() if each.severity != "info"}
    kinds = ("record-offsets", "header-key", "decompression", "transactional-without-producer")
    assert loud == {(kind, "warning") for kind in kinds}


LOGGED: dict[str, tuple[bytes, list[str]]] = {
    "a damaged stream": (of_records(*TWO, codec=1, cut=3), ["UNKNOWN_SERVER_ERROR"]),
    "a good batch": (GOOD, []),
    "offsets of a compressed batch": (of_records(record(1), record(0), codec=1), ["UNKNOWN_SERVER_ERROR"]),
    "a size above int32": (of_length(2**31 - 1, GOOD), ["UNKNOWN_SERVER_ERROR"]),
    "a length that there is not": (of_length(5, GOOD), ["CORRUPT_MESSAGE"]),
    "a base offset": (SHIFTED, ["INVALID_RECORD"]),
    "a CRC": (corrupt(GOOD), []),
    "too long": (LONG, []),
}
"""Records, and the errors that are logged: Kafka logs neither a wrong CRC nor a batch that is too large."""


@pytest.mark.parametrize("case", LOGGED)
def test_a_refusal_is_one_line_in_the_log(node: RunningNode, case: str, caplog: pytest.LogCaptureFixture) -> None:
    data, codes = LOGGED[case]
    with node.client() as client:
        answers(client, request(LEADER, [(TOPIC, 0, data)]))
    lines = [each.getMessage() for each in caplog.records if "client test" in each.getMessage()]
    assert [code for line in lines for code in re.findall("refused.*: ([A-Z_]+): .", line)] == codes


@pytest.mark.parametrize("case", TRANSACTIONS)
def test_transactions(node: RunningNode, case: str) -> None:
    transactional_id, batches, codes = TRANSACTIONS[case]
    with node.client() as client:
        found = answers(client, request(LEADER, batches, transactional_id))
    assert [ErrorCode(each["error_code"]).name for each in found] == codes
    if case == "two producers":
        assert {each["error_message"] for each in found} == {TWO_PRODUCERS}


@pytest.mark.parametrize("case", HEADS)
def test_heads_that_no_producer_writes(node: RunningNode, case: str) -> None:
    batches, codes = HEADS[case]
    with node.client() as client:
        found = answers(client, request(LEADER, batches))
    assert [ErrorCode(each["error_code"]).name for each in found] == codes


def test_a_refused_head_is_told_in_words(node: RunningNode) -> None:
    with node.client() as client:
        (magic,) = answers(client, request(LEADER, [(TOPIC, 0, of_magic(3, GOOD))]))
        (length,) = answers(client, request(LEADER, [(TOPIC, 0, of_length(5, GOOD))]))
    assert magic["error_message"] == "Invalid magic found in record: 3"
    assert length["error_message"] == "Record size 5 is less than the minimum record overhead (14)"


def test_zstd_is_for_clients_that_know_it(node: RunningNode) -> None:
    """The broker checks zstd before it looks at acks, and before it refuses a second batch."""
    data = bytes(batch(codec=ZSTD))
    with node.client() as client:
        for records in (data, data + data):
            (answer,) = answers(client, request(ANY, [(TOPIC, 0, records)]), BEFORE_ZSTD)
            assert ErrorCode(answer["error_code"]) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize(
    ("transactional_id", "batches"), [(None, [(TOPIC, 0, OPEN)]), ("x", TRANSACTIONS["two producers"][1])]
)
def test_without_acks_a_request_that_is_refused_as_a_whole_ends_the_connection(
    node: RunningNode, transactional_id: str | None, batches: Sequence[Batch]
) -> None:
    with node.client() as client:
        client.socket.sendall(client.frame("produce", VERSION, request(0, batches, transactional_id)))
        with pytest.raises(Closed):
            client.read_frame()


def test_the_walk_names_what_there_is() -> None:
    """The docstring of `produce` numbers the rules without a gap, and every function that it names is defined."""
    walk = produce.__doc__ or ""
    assert [int(each) for each in re.findall(r"^ +(\d+)  [A-Za-z]", walk, re.MULTILINE)] == list(range(1, 19))
    code = "\n".join(
        path.read_text()
        for room in ("kcli", "formats")
        for path in (TESTS.parent / room).rglob("*.py*")
        if path.suffix in (".py", ".pyi")
    )
    defined = set(re.findall(r"^ *(?:async )?def (\w+)", code, re.MULTILINE))
    assert set(re.findall(r"`(\w+)`", walk)) <= defined
