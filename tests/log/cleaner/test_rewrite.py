"""The kernels, compared with Kafka's rules in plain Python on logs made from seeds."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from formats.txn_index import parse as parse_txn_index
from kcli.log.cleaner.cleaner import PartitionCleaner
from kcli.log.cleaner.partition import Uncleanable, read_log
from kcli.log.config import CleanerConfig, LogConfig
from kcli.log.disk import Disk
from tests.conftest import examples
from tests.log.cleaner.random_log import RandomLog
from tests.log.cleaner.reference import ReferenceCleaner

RETENTION_MS = 5000
CONFIG = LogConfig(
    {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "delete.retention.ms": str(RETENTION_MS)}
)


def compare(made: RandomLog, directory: Path) -> None:
    """Clean a log and compare every byte; the closed segments become one, since they are small."""
    made.write_to(directory)
    log = read_log(directory, now_ms=made.now_ms, producer_expiration_ms=86_400_000)
    cleaner = PartitionCleaner(log, CONFIG, CleanerConfig(), now_ms=made.now_ms, disk=Disk(), target=directory)
    producers = dict(log.producers)
    try:
        done = cleaner.clean(None)
    except Uncleanable as error:
        assert "Kafka has no empty batch" in error.reason  # noqa: PT017 (only then)
        return
    if not done.passes:
        return
    stop = done.selection.first_uncleanable_offset
    closed = [segment for segment in made.segments if segment.base_offset < stop]
    reference = ReferenceCleaner(
        now_ms=made.now_ms,
        retention_ms=RETENTION_MS,
        end_offset=stop,
        producers=producers,
        aborted=[each for segment in made.segments for each in segment.aborted],
    )
    reference.fill(closed)
    expected = reference.clean(closed)
    assert log.segments[0].path().read_bytes() == b"".join(expected)
    index = log.segments[0].path().with_suffix(".txnindex")
    assert list(parse_txn_index(index.read_bytes()) if index.exists() else ()) == reference.index
    counts = done.counts
    dropped = sum(records for records, _ in counts.dropped.values())
    assert counts.records_read == counts.records_kept + dropped
    assert counts.bytes_written == sum(map(len, expected))
    assert done.checkpoint == stop


@examples(20, soak=500)
@given(st.integers(0, 2**32 - 1))
def test_every_batch_is_kafkas(seed: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        compare(RandomLog(seed, batches=40), Path(directory) / "made-0")


@examples(20, soak=500)
@given(st.integers(0, 2**32 - 1))
def test_legacy_messages_become_batches(seed: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        compare(RandomLog(seed, batches=30, legacy=True), Path(directory) / "made-0")
