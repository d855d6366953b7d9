"""Of the findings in one log, a run of batches out of order comes before the torn batches at its edges."""

from kcli.cli.verify import _around
from kcli.inspector.verify.findings import Finding, rank


def _finding(kind: str, **more: object) -> Finding:
    return Finding(path="t-0/0.log", kind=kind, severity="error", position=4096, action="", **more)  # type: ignore[arg-type]


def test_a_run_ranks_before_its_edges() -> None:
    """Several batches out of order rank before a torn batch, a single one behind it."""
    run = _finding("offsets-order", consequences={"offsets-order": 7})
    assert rank(run) < rank(_finding("batch-crc")) < rank(_finding("offsets-order"))


def test_no_sound_batch_and_yet_a_next_one() -> None:
    """Where the batches behind damage are copies, none of them is called sound."""
    around = _around(_finding("batch-crc", valid_batches_before=9, valid_batches_behind=0, next_valid_position=4096))
    assert around.endswith("none behind it in the order of offsets, the next batch at byte 4,096")
