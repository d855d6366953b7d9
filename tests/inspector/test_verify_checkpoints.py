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


@pytest.mark.parametrize("kind", KINDS)
def test_the_advice_for_a_checkpoint_of_zeros_is_what_recovery_does(tmp_path: Path, kind: str) -> None:
    directory = Path(shutil.copytree(GOLDEN / "codecs/data", tmp_path / "data", copy_function=shutil.copyfile))
    path = directory / f"{kind}-checkpoint"
    path.write_bytes(bytes(40))
    (finding,) = (each for each in Verification([directory]).findings() if each.path == str(path))
    assert ("recovery removes the file" in finding.action) == (kind == "cleaner-offset")
    kcli("recover", "--in-place", directory)
    assert path.exists() == (kind != "cleaner-offset")
