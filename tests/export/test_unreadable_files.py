"""A log that cannot be read is named. It ends only a query that selects its partition and fails at damage."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kcli.errors import UnreadableInput
from kcli.export.options import OnCorruption, SourceOptions
from kcli.export.splits import plan
from tests.conftest import GOLDEN

LOG = "00000000000000000000.log"


def circle(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    path.symlink_to(path.name)


def pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def planned(directory: Path, *topics: str, on_corruption: OnCorruption = OnCorruption.FAIL) -> set[Path]:
    """The logs that a query reads."""
    options = SourceOptions((str(directory),), subscribe=frozenset(topics) or None, on_corruption=on_corruption)
    return {Path(each.segment) for each in plan(options)}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    copy = tmp_path / "logs"
    shutil.copytree(GOLDEN / "codecs/data", copy)
    return copy


@pytest.mark.parametrize(
    ("name", "damage"), [(f"java-lz4-0/{LOG}", circle), (f"java-lz4-0/{LOG}", pipe), ("java-lz4-0", circle)]
)
def test_a_log_that_cannot_be_read(
    directory: Path, name: str, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    whole = planned(directory)
    damage(directory / name)
    with pytest.raises(UnreadableInput) as error:
        planned(directory)
    assert error.value.path == str(directory / name)
    assert planned(directory, "java-zstd") == {each for each in whole if each.parent.name == "java-zstd-0"}
    assert planned(directory, on_corruption=OnCorruption.SKIP) == {
        each for each in whole if directory / name not in (each, each.parent)
    }
    assert f"{directory / name} is left out: " in caplog.text


def test_what_is_no_log_does_not_matter(directory: Path) -> None:
    whole = planned(directory)
    circle(directory / "notes")
    circle(directory / "java-lz4-0/notes")
    circle(directory / "java-lz4-0/partition.metadata")
    assert planned(directory) == whole
