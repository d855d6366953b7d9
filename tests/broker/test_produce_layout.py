"""Produce's answers, laid out by hand, are the bytes that kio writes at every version."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.broker.api import APIS
from kcli.broker.network.messages import EPOCH, ErrorCode, messages
from kcli.broker.network.produce_layout import PartitionAnswer, lay_out
from kcli.log.validator import RecordError
from tests.conftest import examples

PRODUCE = APIS[0]
INT32, INT64 = st.integers(0, 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
MANY_MS = 253_000_000_000_000

answers = st.builds(
    PartitionAnswer,
    st.integers(-(2**31), 2**31 - 1),
    st.sampled_from(ErrorCode).map(lambda error: error.value),
    INT64,
    st.integers(-1, MANY_MS),
    INT64,
    st.lists(st.builds(RecordError, INT32, st.text(max_size=200)), max_size=3).map(tuple),
    st.none() | st.text(max_size=200),
)


def date(timestamp_ms: int) -> datetime | None:
    """A timestamp as kio has it; None for -1."""
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
                                            {"batch_index": one.index, "batch_index_error_message": one.reason},
                                        )
                                        for one in each.record_errors
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
