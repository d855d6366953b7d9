"""Produce's answers, laid out by hand, are the bytes that kio writes at every version."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.kernels.append import RefusedRecords
from kcli.broker.wire.apis import APIS
from kcli.broker.wire.messages import EPOCH, messages
from kcli.broker.wire.produce_layout import PartitionAnswer, lay_out
from kcli.log.live.validator import AppendRefused, AppendRules, validate
from kcli.protocol.error_code import ErrorCode
from tests.conftest import examples
from tests.log.batches import batch

PRODUCE = APIS[0]
INT32, INT64 = st.integers(0, 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
MANY_MS = 253_000_000_000_000


def refused_records(count: int, no_key: str) -> RefusedRecords:
    """Return the invalid records of a batch whose timestamps are out of range."""
    with pytest.raises(AppendRefused) as refused:
        validate(batch(*[b"value"] * count), 0, 0, 0, AppendRules(after_max_ms=0))
    assert refused.value.records is not None
    refused.value.records.no_key = no_key
    return refused.value.records


def listed(records: RefusedRecords | None) -> list[tuple[int, str]]:
    """Index and reason of each invalid record."""
    return [] if records is None else [(records.index(i), records.reason(i)) for i in range(len(records))]


numbers_of = st.integers(-(2**31), 2**31 - 1), st.sampled_from(ErrorCode).map(lambda error: error.value)
fields = *numbers_of, INT64, st.integers(-1, MANY_MS), INT64
reasons = st.builds(refused_records, st.integers(1, 3), st.text(max_size=200))
answers = st.builds(PartitionAnswer, *fields, st.none(), st.none() | st.text(max_size=200)) | st.builds(
    PartitionAnswer, *fields, reasons, st.text(max_size=200)
)


def date(timestamp_ms: int) -> datetime | None:
    """Return a timestamp as kio represents it; None for -1."""
    return EPOCH + timedelta(milliseconds=timestamp_ms) if timestamp_ms >= 0 else None


topics = st.lists(st.tuples(st.text(max_size=249), st.uuids(), st.lists(answers, max_size=3)), max_size=3)


@pytest.mark.parametrize("version", range(PRODUCE.least, PRODUCE.most + 1))
@examples(25, soak=1000)
@given(found=topics, numbers=st.tuples(st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**31 - 1)))
def test_as_kio_writes_it(
    version: int, found: list[tuple[str, UUID, list[PartitionAnswer]]], numbers: tuple[int, int]
) -> None:
    kind = messages(PRODUCE.key, version)
    correlation_id, throttle_ms = numbers
    with_ids = version >= 13
    laid = lay_out(kind, correlation_id, [(topic_id if with_ids else name, each) for name, topic_id, each in found])
    laid.set_throttle(throttle_ms)
    (frame,) = laid
    response = kind.new(
        kind.response_name,
        {
            "throttle_time": timedelta(milliseconds=throttle_ms),
            "responses": tuple(
                kind.new(
                    "TopicProduceResponse",
                    {
                        "name": name,
                        "topic_id": topic_id,
                        "partition_responses": tuple(
                            kind.new(
                                "PartitionProduceResponse",
                                {
                                    "index": each.index,
                                    "error_code": ErrorCode(each.error_code),
                                    "base_offset": each.base_offset,
                                    "log_append_time": date(each.log_append_time),
                                    "log_start_offset": each.log_start_offset,
                                    "record_errors": tuple(
                                        kind.new(
                                            "BatchIndexAndErrorMessage",
                                            {"batch_index": index, "batch_index_error_message": reason},
                                        )
                                        for index, reason in listed(each.record_errors)
                                    ),
                                    "error_message": each.error_message,
                                },
                            )
                            for each in partitions
                        ),
                    },
                )
                for name, topic_id, partitions in found
            ),
        },
    )
    assert frame == kind.encode(correlation_id, response)
