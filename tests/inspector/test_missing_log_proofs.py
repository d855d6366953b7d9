"""The time index and the producer snapshot of a segment know its .log file, also a damaged one, and no other."""

from pathlib import Path

import pytest

from kcli.inspector.verify.missing_log_proofs import fits_snapshot, fits_time_index
from tests.conftest import GOLDEN

DATA = GOLDEN / "codecs" / "data"
LOG, NEXT = DATA / "java-zstd-0" / f"{101:020}.log", DATA / "java-zstd-0" / f"{166:020}.snapshot"
OTHERS = [DATA / name for name in (f"java-zstd-0/{52:020}.log", f"java-none-0/{108:020}.log", f"mixed-0/{137:020}.log")]


@pytest.fixture(params=[None, "begin", "middle"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    data = bytearray(LOG.read_bytes())
    if request.param is not None:
        at = 0 if request.param == "begin" else len(data) // 1024 * 512
        data[at : at + 512] = bytes(512)
    log = tmp_path / LOG.name
    log.write_bytes(data)
    return log


def test_a_producer_snapshot_knows_the_last_batch_below_it(log: Path) -> None:
    assert fits_snapshot(log, 101, NEXT)
    assert not fits_snapshot(log, 101, NEXT.with_name(f"{250:020}.snapshot"))
    assert not any(fits_snapshot(each, 101, NEXT) for each in OTHERS)


def test_a_time_index_knows_its_batches(log: Path) -> None:
    assert fits_time_index(log, 101, LOG.with_suffix(".timeindex"))
    assert not any(fits_time_index(each, 101, LOG.with_suffix(".timeindex")) for each in OTHERS)


def test_a_snapshot_that_cannot_be_read_is_no_proof(tmp_path: Path) -> None:
    bad = tmp_path / NEXT.name
    bad.write_bytes(b"no snapshot")
    assert not fits_snapshot(LOG, 101, bad)
    assert not fits_snapshot(LOG, 101, tmp_path / "none")
