"""A batch whose header has a wrong last offset, with a CRC that is right for it: verify names the batch as the one
cause, and its next step puts the last offset right."""

from pathlib import Path

import pytest

from kcli.inspector.verify import Finding, Verification
from tests.cli.test_recover_renamed_logs import rows
from tests.inspector.test_verify_causes import PARTITION, directory, logs, loud
from tests.log.recovery.test_wrong_last_offsets import INT_MAX, INT_MIN, log_of, set_delta, sparse

__all__ = ["directory"]  # a fixture

MARKER = ".kafka_cleanshutdown"


@pytest.mark.parametrize(
    ("segment", "number", "delta", "is_clean"),
    [
        *((0, 0, -1, True), (0, 1, 100, True), (0, -1, -1, False), (0, -1, 5, True)),
        *((-1, 1, 0, False), (-1, 1, INT_MAX, True), (-1, -1, 20, False), (-1, -1, INT_MIN, True)),
    ],
)
def test_it_is_the_one_cause(
    directory: Path, tmp_path: Path, segment: int, number: int, delta: int, *, is_clean: bool
) -> None:
    if is_clean:
        assert (directory / MARKER).exists()
    else:
        (directory / MARKER).unlink()
    log = logs(directory)[segment]
    whole = log.read_bytes()
    wrong = set_delta(log, number, delta)
    (finding,) = loud(directory)
    assert (finding.kind, finding.severity, finding.path) == ("last-offset", "error", str(log))
    assert (finding.position, finding.offset) == (wrong.position, wrong.base_offset)
    assert str(finding.found).startswith(f"last offset {wrong.before:,}")
    assert str(finding.expected).startswith(f"{wrong.last_offset:,},")
    assert str(finding.command).startswith("kcli recover --unclean --salvage --dry-run")
    saved = [row for row in rows(directory, "--out", tmp_path / "new") if row["kind"] in ("last-offset", "gap")]
    assert [(row["kind"], row["position"], row["before"], row["last_offset"]) for row in saved] == [
        ("last-offset", wrong.position, wrong.before, wrong.last_offset)
    ]
    assert (tmp_path / "new" / PARTITION / log.name).read_bytes() == whole
    assert loud(tmp_path / "new") == []


def test_kafka_does_not_start_with_a_first_batch_that_ends_before_it_begins(directory: Path) -> None:
    (directory / MARKER).unlink()
    (directory / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    log = logs(directory)[0]
    set_delta(log, 0, -1)
    (finding,) = loud(directory)
    assert finding.refuses_start
    assert finding.action.startswith("Kafka does not start with it: last offset -1 is not within an int32 above")


def of_file(log: Path) -> list[Finding]:
    return [each for each in Verification([log]).findings() if each.severity != "info"]


def test_in_a_file_alone(tmp_path: Path) -> None:
    log = log_of(tmp_path / "p-0", sparse(0, (0, 1), 1), sparse(2, (0, 1), -1), sparse(4, (0, 1), 1))
    (finding,) = of_file(log)
    assert (finding.kind, finding.severity, finding.offset) == ("last-offset", "error", 2)


def test_what_no_leader_appends_is_not_called_sound(tmp_path: Path) -> None:
    """The records' offsets do not tell the last offset."""
    log = log_of(tmp_path / "p-0", sparse(0, (0, 1), 1), sparse(2, (1, 0), 0), sparse(4, (0, 1), 1))
    (finding,) = of_file(log)
    assert (finding.kind, finding.severity) == ("record-offsets", "error")
    assert "appends" not in finding.action


@pytest.mark.parametrize("deltas", [(0, 0), (5, 6), (-3, -2), (1, 0)])
def test_what_a_leader_appends_is_a_warning(tmp_path: Path, deltas: tuple[int, ...]) -> None:
    log = log_of(tmp_path / "p-0", sparse(0, (0, 1), 1), sparse(2, deltas, 1), sparse(4, (0, 1), 1))
    (finding,) = of_file(log)
    assert (finding.kind, finding.severity) == ("record-offsets", "warning")


@pytest.mark.parametrize("following", [(), (sparse(5, (0,), 0),), (sparse(7, (0, 1), 1),)])
def test_a_cleaned_batch_is_sound(tmp_path: Path, following: tuple[bytes, ...]) -> None:
    assert of_file(log_of(tmp_path / "p-0", sparse(0, (0, 1), 4), *following)) == []
