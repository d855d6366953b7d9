"""Batches of topics whose records must have registered schemas."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from formats.compression import GZIP, LZ4, NONE, ZSTD
from formats.record_batch import TRANSACTIONAL, BatchHeader, Record, RecordBatch, build_batch
from kcli.log.config import KEY_SCHEMAS, VALUE_SCHEMAS, InvalidConfig, LogConfig, validate_topic_configs
from kcli.log.disk import Disk
from kcli.log.live.partition_log import PartitionLog
from kcli.log.live.schema_rules import SchemaRules
from kcli.log.live.validator import AppendRefused, Origin, UnregisteredSchema
from kcli.protocol.error_code import ErrorCode
from tests.log.batches import NOW_MS, marker

VALUES = LogConfig({VALUE_SCHEMAS: "true"})
BOTH = LogConfig({KEY_SCHEMAS: "true", VALUE_SCHEMAS: "true"})
LARGEST = 2**31 - 1


class Ids:
    """A registry with one subject for values and one for keys; counts the look-ups."""

    is_ready = True

    def __init__(self) -> None:
        self.ids = {"orders-value": {1, 7, LARGEST}, "orders-key": {2}}
        self.asked = 0

    def knows(self, subject: str, schema_id: int) -> bool:
        self.asked += 1
        return schema_id in self.ids[subject]


def payload(schema_id: int, rest: bytes = b"x") -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + rest


def batch(records: Sequence[tuple[bytes | None, bytes | None]], codec: int = NONE, producer_id: int = -1) -> bytearray:
    """A batch of keys and values; transactional if it has a producer."""
    last, producer = len(records) - 1, (producer_id, 0, 0) if producer_id >= 0 else (-1, -1, -1)
    attributes = codec | (TRANSACTIONAL if producer_id >= 0 else 0)
    header = BatchHeader(0, 0, -1, 2, 0, attributes, last, NOW_MS, NOW_MS, *producer, len(records))
    return bytearray(build_batch(RecordBatch(header, tuple(Record(0, 0, i, *each) for i, each in enumerate(records)))))


def opened(path: Path, config: LogConfig, known: Ids | None) -> PartitionLog:
    log = PartitionLog(path, Disk(), config, NOW_MS)
    log.set_schemas(SchemaRules.of("orders", config, known))
    log.start_epoch(0)
    return log


def refusal(log: PartitionLog, data: bytearray) -> str:
    end = log.log_end_offset
    with pytest.raises(UnregisteredSchema) as refused:
        log.append_as_leader(data, 0, NOW_MS)
    assert refused.value.error is ErrorCode.INVALID_RECORD
    assert log.log_end_offset == end
    return refused.value.reason


@pytest.mark.parametrize("codec", [NONE, GZIP, LZ4, ZSTD])
def test_registered_ids_are_appended(tmp_path: Path, codec: int) -> None:
    known = Ids()
    log = opened(tmp_path, VALUES, known)
    records = [
        (b"any key", payload(1, b"")),
        (None, payload(7)),
        (None, payload(7)),
        (b"k", None),
        (None, payload(LARGEST)),
    ]
    for _ in range(3):
        log.append_as_leader(batch(records, codec), 0, NOW_MS)
    assert log.log_end_offset == 15
    assert known.asked == 9, "once for each change of the id"


@pytest.mark.parametrize("codec", [NONE, ZSTD])
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "no schema id before it"),
        (b"\0\0\0\0", "no schema id before it"),
        (b"\1\0\0\0\1", "no schema id before it"),
        (payload(1)[1:5], "no schema id before it"),
        (b"\0\xff\xff\xff\xff\0", "no schema id before it"),
        (payload(2), "the schema id 2"),
        (payload(1 << 30), "the schema id 1073741824"),
    ],
)
def test_others_are_refused(tmp_path: Path, codec: int, value: bytes, reason: str) -> None:
    log = opened(tmp_path, VALUES, Ids())
    records = [(None, payload(1))] * 2000 + [(None, value)] + [(None, payload(1))]
    told = refusal(log, batch(records, codec))
    assert told == f"the value of record 2000 has {reason}: it must have one that is registered under orders-value"
    log.append_as_leader(batch(records[:5], codec), 0, NOW_MS)


def test_keys_have_schemas_of_their_own(tmp_path: Path) -> None:
    log = opened(tmp_path, BOTH, Ids())
    log.append_as_leader(batch([(payload(2), payload(1)), (None, payload(1))]), 0, NOW_MS)
    assert refusal(log, batch([(payload(1), payload(1))])).startswith("the key of record 0 has the schema id 1: ")
    assert refusal(log, batch([(b"plain", payload(1))])).startswith("the key of record 0 has no schema id")


def test_markers_and_other_topics_need_no_schema(tmp_path: Path) -> None:
    log = opened(tmp_path, BOTH, Ids())
    log.append_as_leader(batch([(None, payload(1))], producer_id=4), 0, NOW_MS)
    log.append_as_leader(marker((4, 0), commit=True), 0, NOW_MS, origin=Origin.COORDINATOR)
    log.set_schemas(SchemaRules.of("orders", LogConfig({}), Ids()))
    log.append_as_leader(batch([(None, b"plain")]), 0, NOW_MS)


@pytest.mark.parametrize("is_there", [False, True])
def test_without_a_registry_the_producer_tries_again(tmp_path: Path, *, is_there: bool) -> None:
    known = Ids() if is_there else None
    if known is not None:
        known.is_ready = False
    log = opened(tmp_path, VALUES, known)
    with pytest.raises(AppendRefused) as refused:
        log.append_as_leader(batch([(None, payload(1))]), 0, NOW_MS)
    assert refused.value.error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_only_brokers_with_a_registry_have_the_configuration() -> None:
    with pytest.raises(InvalidConfig, match=f"^Unknown topic config name: {VALUE_SCHEMAS}$"):
        validate_topic_configs({VALUE_SCHEMAS: "true"})
    assert validate_topic_configs({VALUE_SCHEMAS: "true"}, schemas=True)[VALUE_SCHEMAS] is True
    kept = validate_topic_configs({VALUE_SCHEMAS: "true", "retention.ms": "5"}, existing={VALUE_SCHEMAS: "true"})
    assert kept["retention.ms"] == 5
