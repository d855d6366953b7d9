"""A leader's changes to batches, compared with those of a real broker to the same bytes."""

from __future__ import annotations

import base64
import struct

import pytest

from formats.compression import GZIP, NONE, ZSTD, compress, decompress
from formats.kernels.batches import BatchTable
from formats.kernels.columns import BatchRow
from formats.kernels.crc import crc32c
from formats.kernels.scan import scan
from kcli.log.live.validator import AppendRefused, AppendRules, Origin, validate
from kcli.protocol.error_code import ErrorCode
from tests.conftest import GOLDEN, read_jsonl

CODECS = GOLDEN / "codecs"
ANY_TIME = AppendRules(after_max_ms=2**63 - 1, max_message_bytes=4_000_000)
NOW_MS = 1_795_260_701_791


def stored_batches(partition: str) -> dict[int, bytes]:
    """Return the batches of a partition as the broker wrote them, by base offset."""
    found = {}
    for path in sorted((CODECS / "data" / partition).glob("*.log")):
        data = path.read_bytes()
        table = BatchTable()
        scan(data, 0, len(data), 0, table)
        for i in range(table.count):
            row = BatchRow._make(table.row(i))
            found[row.base_offset] = data[row.position : row.position + row.size]
    return found


def sealed(data: bytes | bytearray) -> bytearray:
    """Return the batch with length and CRC that fit its bytes."""
    batch = bytearray(data)
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
    return batch


def as_sent(stored: bytes, codec: int) -> bytearray:
    """Return the batch as a producer might have sent it: base offset 0, the same records with another codec."""
    batch = bytearray(stored[:61])
    attributes = int.from_bytes(batch[21:23])
    payload = decompress(attributes & 7, stored[61:])
    struct.pack_into(">q", batch, 0, 0)
    struct.pack_into(">i", batch, 12, -1)
    struct.pack_into(">h", batch, 21, attributes & ~7 | codec)
    return sealed(batch + compress(codec, payload))


def epoch_of(stored: bytes) -> int:
    return int.from_bytes(stored[12:16], signed=True)


@pytest.mark.parametrize("case", list(read_jsonl(CODECS / "expected" / "crafted.jsonl")), ids=lambda case: case["name"])
def test_crafted_batches_as_a_real_broker_took_them(case: dict[str, object]) -> None:
    sent = bytearray(base64.b64decode(str(case["sent_base64"])))
    offset = int(str(case["offset"]))
    if case["error"]:
        with pytest.raises(AppendRefused) as refused:
            validate(sent, 0, 0, NOW_MS, ANY_TIME)
        assert refused.value.error == case["error"]
        return
    stored = stored_batches("crafted-0")[offset]
    assert bytes(validate(sent, offset, epoch_of(stored), NOW_MS, ANY_TIME).data) == stored


@pytest.mark.parametrize("codec", [GZIP, ZSTD])
def test_written_anew_without_compression_as_kafka_writes_it(codec: int) -> None:
    rules = AppendRules(after_max_ms=2**63 - 1, max_message_bytes=4_000_000, codec=NONE)
    compared = 0
    for offset, stored in stored_batches("recompress-none-0").items():
        valid = validate(as_sent(stored, codec), offset, epoch_of(stored), NOW_MS, rules)
        assert bytes(valid.data) == stored
        compared += 1
    print(f"{compared} batches equal")
    assert compared > 20


def test_log_append_time_as_kafka_writes_it() -> None:
    rules = AppendRules(log_append_time=True, max_message_bytes=4_000_000)
    compared = 0
    for offset, stored in stored_batches("append-time-0").items():
        sent = bytearray(stored)
        attributes = int.from_bytes(sent[21:23]) & ~8
        struct.pack_into(">q", sent, 0, 0)
        struct.pack_into(">h", sent, 21, attributes)
        append_time = int.from_bytes(stored[35:43])
        valid = validate(sealed(sent), offset, epoch_of(stored), append_time, rules)
        assert bytes(valid.data) == stored
        assert valid.max_timestamp == append_time
        compared += 1
    assert compared > 20


def test_null_keys_are_refused_on_compacted_topics() -> None:
    batches = stored_batches("java-none-0")
    rules = AppendRules(compacted=True, after_max_ms=2**63 - 1, max_message_bytes=4_000_000)
    refused: list[AppendRefused] = []
    for stored in batches.values():
        try:
            validate(as_sent(stored, NONE), 7, 0, NOW_MS, rules)
        except AppendRefused as error:
            refused.append(error)
    assert refused
    assert all(each.error == ErrorCode.INVALID_RECORD and each.records for each in refused)


def test_timestamps_out_of_range_are_refused_record_by_record() -> None:
    stored = next(batch for batch in stored_batches("java-none-0").values() if int.from_bytes(batch[57:61]) > 3)
    newest = int.from_bytes(stored[35:43])
    rules = AppendRules(before_max_ms=0, after_max_ms=0, max_message_bytes=4_000_000)
    with pytest.raises(AppendRefused) as refused:
        validate(as_sent(stored, NONE), 0, 0, newest, rules)
    assert refused.value.error == ErrorCode.INVALID_TIMESTAMP
    records = refused.value.records
    assert records is not None
    assert len(records) == records.total == int.from_bytes(stored[57:61]) - 1
    first = records.index(0)
    reason = f"of message with offset {first} is out of range. The timestamp should be within [{newest}, {newest}]"
    assert records.reason(0).endswith(reason)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda b: struct.pack_into(">q", b, 0, 5), ErrorCode.INVALID_RECORD),
        (lambda b: b.__setitem__(16, 1), ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
        (lambda b: b.__setitem__(70, b[70] ^ 1), ErrorCode.CORRUPT_MESSAGE),
        (lambda b: b.extend(b"\0" * 5), ErrorCode.INVALID_RECORD),
        (lambda b: b.extend(bytes(b)), ErrorCode.INVALID_RECORD),
    ],
    ids=["base offset", "magic", "bit flip", "bytes behind", "second batch"],
)
def test_refused(change: object, error: ErrorCode) -> None:
    batch = as_sent(next(iter(stored_batches("java-none-0").values())), NONE)
    change(batch)  # type: ignore[operator]
    before = bytes(batch)
    with pytest.raises(AppendRefused) as refused:
        validate(batch, 3, 0, NOW_MS, ANY_TIME)
    assert refused.value.error is error
    assert bytes(batch) == before


def test_size_limit_and_control_records() -> None:
    batch = as_sent(next(iter(stored_batches("java-none-0").values())), NONE)
    with pytest.raises(AppendRefused) as refused:
        validate(batch, 0, 0, NOW_MS, AppendRules(max_message_bytes=len(batch) - 1))
    assert refused.value.error == ErrorCode.MESSAGE_TOO_LARGE
    struct.pack_into(">h", batch, 21, 32)
    with pytest.raises(AppendRefused) as refused:
        validate(sealed(batch), 0, 0, NOW_MS, ANY_TIME)
    assert refused.value.error == ErrorCode.INVALID_RECORD
    with pytest.raises(AppendRefused):
        validate(bytearray(), 0, 0, NOW_MS, ANY_TIME)


def test_a_coordinator_may_append_control_records() -> None:
    marker = None
    for path in sorted((GOLDEN / "txn" / "data" / "t-txn-0").glob("*.log")):
        data = path.read_bytes()
        table = BatchTable()
        scan(data, 0, len(data), 0, table)
        rows = [BatchRow._make(table.row(i)) for i in range(table.count)]
        marker = next((row for row in rows if row.is_control), None)
        if marker is not None:
            break
    assert marker is not None
    stored = data[marker.position : marker.position + marker.size]
    valid = validate(
        bytearray(stored), marker.base_offset, marker.leader_epoch, NOW_MS, ANY_TIME, origin=Origin.COORDINATOR
    )
    assert bytes(valid.data) == stored


@pytest.mark.parametrize("codec", [NONE, ZSTD])
def test_headers_are_written_anew_with_the_varints_that_they_need(codec: int) -> None:
    """For a topic with another codec Kafka decodes the headers, and encodes them again."""
    long, short = b"\x82\x80\x00h\x82\x00w", b"\x02h\x02w"
    rules = AppendRules(codec=GZIP if codec else ZSTD)
    written = []
    for header in (long, short):
        body = b"\0\0\0\x02k\x02v\x02" + header
        payload = compress(codec, bytes([2 * len(body)]) + body)
        batch = bytearray(struct.pack(">hiqqqhii", codec, 0, NOW_MS, NOW_MS, -1, -1, -1, 1) + payload)
        batch[:0] = struct.pack(">qiibI", 0, len(batch) + 9, -1, 2, crc32c(batch))
        written.append(bytes(validate(batch, 0, 0, NOW_MS, rules).data))
    assert written[0] == written[1]
    assert short in decompress(GZIP if codec else ZSTD, written[0][61:])


@pytest.mark.parametrize("codec", [NONE, ZSTD])
@pytest.mark.parametrize("is_anew", [False, True])
def test_lengths_below_minus_one_are_null(codec: int, is_anew: bool) -> None:
    """Kafka appends such batches, since any negative length of a key, value or header value means null."""
    rules = AppendRules(codec=GZIP) if is_anew else ANY_TIME
    written = []
    for null in (b"\x01", b"\x03", b"\xff\xff\xff\xff\x0f"):
        body = b"\0\0\0" + null + null + b"\x02" + b"\x02h" + null
        payload = compress(codec, bytes([2 * len(body)]) + body)
        batch = bytearray(struct.pack(">hiqqqhii", codec, 0, NOW_MS, NOW_MS, -1, -1, -1, 1) + payload)
        batch[:0] = struct.pack(">qiibI", 0, len(batch) + 9, -1, 2, crc32c(batch))
        sent = bytes(batch)
        written.append(bytes(validate(batch, 0, -1, NOW_MS, rules).data))
        assert is_anew or written[-1] == sent
    assert not is_anew or len(set(written)) == 1


@pytest.mark.parametrize("codec", [NONE, ZSTD])
@pytest.mark.parametrize(
    ("time_ms", "producer", "is_refused"),
    [(NOW_MS, (5, -1), True), (-2, (-1, -1), True), (-1, (-1, -1), False), (NOW_MS, (5, 0), False)],
)
def test_kafkas_builder_takes_no_negative_epoch_or_timestamp(
    codec: int, time_ms: int, producer: tuple[int, int], *, is_refused: bool
) -> None:
    """A batch that keeps its codec passes; asked of Kafka 4.3, as is the error."""
    body = b"\0\0\0\x01\x02v\0"
    payload = compress(codec, bytes([2 * len(body)]) + body)
    fields = codec, 0, time_ms, time_ms, *producer, 0 if producer[0] >= 0 else -1, 1
    sent = sealed(b"\0" * 16 + b"\x02\0\0\0\0" + struct.pack(">hiqqqhii", *fields) + payload)
    validate(bytearray(sent), 0, -1, NOW_MS, ANY_TIME)
    if not is_refused:
        validate(sent, 0, -1, NOW_MS, AppendRules(codec=GZIP))
        return
    with pytest.raises(AppendRefused) as refused:
        validate(sent, 0, -1, NOW_MS, AppendRules(codec=GZIP))
    assert refused.value.error is ErrorCode.UNKNOWN_SERVER_ERROR
