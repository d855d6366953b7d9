"""kio reads Fetch's responses, which kcli lays out by hand, at every version."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.txn_index import AbortedTxn
from kcli.broker.network.outgoing import read_region
from kcli.broker.wire.answers import Laid
from kcli.broker.wire.apis import APIS
from kcli.broker.wire.fetch_layout import FetchFrame, PartitionAnswer
from kcli.broker.wire.messages import entity_reader, messages
from kcli.log.live.segments import FileRegion
from tests.conftest import examples

FETCH = APIS[1]
VERSIONS = range(FETCH.least, FETCH.most + 1)
INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
LENGTH = 300_000


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    path = tmp_path_factory.mktemp("log") / "00000000000000000000.log"
    path.write_bytes(bytes(range(256)) * (LENGTH // 256 + 1))
    return path, os.open(path, os.O_RDONLY)


def frame_of(laid: Laid) -> bytes:
    return b"".join(map(content, laid))


def content(part: FileRegion | bytes | bytearray | memoryview | None) -> bytes:
    """The bytes of a part of a response."""
    return read_region(part) if isinstance(part, FileRegion) else bytes(part or b"")


answers = st.lists(
    st.tuples(
        st.tuples(INT32, st.integers(-1, 100), INT64, INT64, INT64),
        st.none() | st.lists(st.tuples(INT64, INT64), max_size=3),
        st.none() | st.tuples(st.integers(0, LENGTH - 1), st.integers(1, LENGTH)),
        st.none() | st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1)),
    ),
    min_size=1,
    max_size=3,
)


@pytest.mark.parametrize("version", VERSIONS)
@examples(25, soak=1000)
@given(
    topics=st.lists(
        st.tuples(st.text(max_size=249), st.uuids(), answers),
        max_size=3,
        unique_by=(lambda each: each[0], lambda each: each[1]),
    ),
    numbers=st.tuples(INT32, INT32),
)
def test_read_by_kio(
    version: int,
    log: tuple[Path, int],
    topics: list[tuple[str, UUID, list[tuple[tuple[int, ...], list[tuple[int, int]] | None, object, object]]]],
    numbers: tuple[int, int],
) -> None:
    path, fd = log
    laid_topics = []
    for name, topic_id, partitions in topics:
        laid_partitions = []
        for (index, error, high, stable, start), aborted, region, diverging in partitions:
            where: FileRegion | memoryview | None = None
            if isinstance(region, tuple):
                where = FileRegion(path, fd, region[0], min(region[1], LENGTH - region[0]))
                if region[0] % 2:
                    where = memoryview(read_region(where))  # as from tiered storage
            transactions = None if aborted is None else tuple(AbortedTxn(0, *pair, 0, 0) for pair in aborted)
            laid_partitions.append(
                PartitionAnswer(index, error, high, stable, start, transactions, where, diverging)  # type: ignore[arg-type]
            )
        laid_topics.append((topic_id if version >= 13 else name, laid_partitions))
    correlation_id, session_id = numbers
    kind = messages(FETCH.key, version)
    frame_being_made = FetchFrame(kind)
    for key, answers_of_topic in laid_topics:
        for each in answers_of_topic:
            frame_being_made.add(key.bytes if isinstance(key, UUID) else key, each)
    laid = frame_being_made.whole(correlation_id, session_id, error_code=70, throttle_ms=12)
    laid.set_throttle(345)
    frame = frame_of(laid)
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    assert int.from_bytes(frame[4:8], signed=True) == correlation_id
    begin = 8 + kind.header_is_flexible
    response, size = entity_reader(kind.response_type)(frame, begin)
    assert begin + size == len(frame)
    assert response.throttle_time.total_seconds() == 0.345
    if version >= 7:
        assert (response.error_code.value, response.session_id) == (70, session_id)
    assert len(response.responses) == len(laid_topics)
    for found, (key, wanted) in zip(response.responses, laid_topics, strict=True):
        name_or_id = (found.topic_id or UUID(int=0)) if version >= 13 else found.topic
        assert name_or_id == key
        assert len(found.partitions) == len(wanted)
        for partition, answer in zip(found.partitions, wanted, strict=True):
            assert partition.partition_index == answer.index
            assert partition.error_code.value == answer.error_code
            assert partition.high_watermark == answer.high_watermark
            assert partition.last_stable_offset == answer.last_stable_offset
            if version >= 5:
                assert partition.log_start_offset == answer.log_start_offset
            read = partition.aborted_transactions
            assert (read is None) == (answer.aborted is None)
            pairs = [(each.producer_id, each.first_offset) for each in answer.aborted or ()]
            assert [(each.producer_id, each.first_offset) for each in read or ()] == pairs
            assert (partition.records or b"") == content(answer.region)
            if version >= 12 and answer.diverging is not None:
                assert (partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset) == answer.diverging
