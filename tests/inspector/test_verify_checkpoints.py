"""Offset checkpoints that were cut or edited, though Kafka reads them without an error."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kcli.inspector.verify.verification import Verification
from tests.cli.run import kcli
from tests.conftest import GOLDEN

KINDS = ("recovery-point-offset", "replication-offset", "log-start-offset", "cleaner-offset")


@pytest.mark.parametrize("name", [f"{kind}-checkpoint" for kind in KINDS])
@pytest.mark.parametrize("text", ["0", "0\n"])
def test_a_checkpoint_that_ends_after_its_version(tmp_path: Path, name: str, text: str) -> None:
    """Kafka 4.3 starts with each of these, and logs nothing about it."""
    directory = Path(shutil.copytree(GOLDEN / "codecs/data", tmp_path / "data", copy_function=shutil.copyfile))
    path = directory / name
    for whole, kinds in ((False, ["checkpoint-count"]), (True, [])):
        path.write_text("0\n0\n" if whole else text)
        found = [each for each in Verification([directory]).findings() if each.path == str(path)]
        loud = [each for each in found if each.severity != "info"]
        assert [each.kind for each in loud] == kinds
        assert all(each.severity == "warning" and "the version alone" in str(each.found) for each in loud)
    path.write_text(text)
    assert f"passed-over      {name}" in kcli("recover", directory).stdout
    kcli("recover", "--in-place", directory)
    assert path.exists() == (name != "cleaner-offset-checkpoint")
    assert not path.exists() or len(path.read_text().splitlines()) >= 2


@pytest.mark.parametrize("kind", KINDS)
def test_the_advice_for_a_checkpoint_of_zeros_is_what_recovery_does(tmp_path: Path, kind: str) -> None:
    directory = Path(shutil.copytree(GOLDEN / "codecs/data", tmp_path / "data", copy_function=shutil.copyfile))
    path = directory / f"{kind}-checkpoint"
    path.write_bytes(bytes(40))
    (finding,) = (each for each in Verification([directory]).findings() if each.path == str(path))
    assert ("recovery removes the file" in finding.action) == (kind == "cleaner-offset")
    kcli("recover", "--in-place", directory)
    assert path.exists() == (kind != "cleaner-offset")


OTHERS = {
    "recovery-point-offset": "java-lz4 0 3",
    "replication-offset": "java-lz4 0 3",
    "cleaner-offset": "java-lz4 0 0",
}
"""An entry that some checkpoints have beside the odd ones, and that recovery keeps where it keeps the file."""


def with_entries(directory: Path, kind: str, *entries: str) -> Path:
    """Write a checkpoint with these entries, and one more. Returns its path."""
    lines = [*entries, *([OTHERS[kind]] if kind in OTHERS else [])]
    path = directory / f"{kind}-checkpoint"
    path.write_text("".join(f"{line}\n" for line in ("0", len(lines), *lines)))
    return path


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("entries", "found", "name"),
    [
        (("mixed 0 90000", "mixed 0 1"), "90,000 in line 3, 1 in line 4; Kafka takes the last, 1", "duplicate"),
        (("mixed 0 2", "mixed 0 2"), "2 in line 3, 2 in line 4; Kafka takes the last, 2", "duplicate"),
        (("mixed 0 -3",), "mixed-0: -3: ", "negative"),
    ],
)
def test_recovery_writes_a_checkpoint_with_odd_entries_anew(
    tmp_path: Path, kind: str, entries: tuple[str, ...], found: str, name: str
) -> None:
    """Kafka 4.3 starts with each of these, takes the last entry of a partition, and writes the file anew. Recovery
    follows the advice, in place and in a copy, also where no log changes."""
    directory = Path(shutil.copytree(GOLDEN / "codecs/data", tmp_path / "data", copy_function=shutil.copyfile))
    kcli("recover", "--in-place", directory)
    path = with_entries(directory, kind, *entries)
    loud = [each for each in Verification([directory]).findings() if each.path == str(path)]
    (finding,) = [each for each in loud if each.kind == f"checkpoint-{name}"]
    assert found in str(finding.found)
    assert ("recovery removes the file" in finding.action) == (kind == "cleaner-offset")
    assert not [each for each in loud if "90,000" in str(each.found) and each is not finding]  # Kafka does not take it
    dry = kcli("recover", directory)
    assert f"passed-over      {path.name}" in dry.stdout
    assert found in dry.stdout
    new = tmp_path / "new"
    assert kcli("recover", "--out", new, directory).status == 0
    assert kcli("recover", "--in-place", directory).status == 0
    assert path.exists() == (kind != "cleaner-offset")
    lines = path.read_text().splitlines() if path.exists() else []
    assert len([line for line in lines if line.startswith("mixed 0 ")]) <= 1
    assert "mixed 0 -3" not in lines
    if kind == "replication-offset":
        assert (new / path.name).read_text() == path.read_text()
        assert OTHERS[kind] in lines
    for each in (directory, new):
        kinds = {each.kind for each in Verification([each]).findings()}
        assert not kinds & {"checkpoint-duplicate", "checkpoint-negative"}


def test_recovery_writes_missing_recovery_points(tmp_path: Path) -> None:
    """Also where no log changes; the dry run says it."""
    directory = Path(shutil.copytree(GOLDEN / "codecs/data", tmp_path / "data", copy_function=shutil.copyfile))
    kcli("recover", "--in-place", directory)
    path = directory / "recovery-point-offset-checkpoint"
    path.unlink()
    (finding,) = [each for each in Verification([directory]).findings() if each.path == str(path)]
    assert finding.command == f"kcli recover --dry-run {directory}"
    dry = kcli("recover", directory)
    assert dry.status == 0
    assert f"checkpoint-missing {path.name}" in dry.stdout
    kcli("recover", "--in-place", directory)
    assert path.exists()


def test_kafka_writes_missing_high_watermarks(tmp_path: Path) -> None:
    directory = Path(shutil.copytree(GOLDEN / "codecs/data", tmp_path / "data", copy_function=shutil.copyfile))
    path = directory / "replication-offset-checkpoint"
    path.unlink()
    (finding,) = [each for each in Verification([directory]).findings() if each.path == str(path)]
    assert (finding.kind, finding.command) == ("checkpoint-missing", None)
    assert finding.action == "nothing to do: Kafka writes the file anew while it runs"


def test_recovery_writes_log_start_offsets_with_text_for_a_number_anew(tmp_path: Path) -> None:
    directory = Path(shutil.copytree(GOLDEN / "codecs/data", tmp_path / "data", copy_function=shutil.copyfile))
    path = with_entries(directory, "log-start-offset", "mixed 0 x7")
    kcli("recover", "--in-place", directory)
    assert path.read_text() == "0\n0\n"
