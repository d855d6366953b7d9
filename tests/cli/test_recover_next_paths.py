"""The next step of recover works when it is pasted, also where the log directory's name begins with a dash, and where
the working directory is the log directory or a partition's directory in it."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.cli.run import kcli
from tests.inspector.test_verify_causes import PARTITION, directory, flip, logs

__all__ = ["directory"]  # a fixture


def damage(home: Path) -> None:
    (home / ".kafka_cleanshutdown").unlink(missing_ok=True)
    log = logs(home)[-1]
    flip(log, log.stat().st_size // 2)


def step(cwd: Path, *arguments: str) -> list[str]:
    (text,) = re.findall("^next +(.*)$", kcli("recover", *arguments, cwd=cwd).stdout, re.MULTILINE)
    return shlex.split(text)[1:]


def test_a_name_that_begins_with_a_dash(directory: Path, tmp_path: Path) -> None:
    damage(directory)
    directory.rename(tmp_path / "-data")
    words = step(tmp_path, "--", "-data")
    assert words == ["recover", "--salvage", "--out", "NEW", "./-data"]
    assert kcli(*words, cwd=tmp_path).status == 0
    assert (tmp_path / "NEW" / PARTITION).is_dir()


def test_without_a_metadata_log_that_can_be_read(directory: Path, tmp_path: Path) -> None:
    for log in logs(directory, "__cluster_metadata-0"):
        log.write_bytes(b"")
    home = directory.rename(tmp_path / "-data")
    assert step(tmp_path, "--", home.name)[-1] == "./-data"
    words = step(home, ".")
    assert words == ["recover", "--salvage", "--out", "../NEW", "."]
    assert kcli(*words, cwd=home).status == 0


def test_where_only_verify_helps(directory: Path, tmp_path: Path) -> None:
    home = directory.rename(tmp_path / "-data")
    shutil.rmtree(home / PARTITION)
    (home / PARTITION).symlink_to(tmp_path / "nowhere")
    assert "kcli verify ./-data" in kcli("recover", "--", "-data", cwd=tmp_path).stdout


@pytest.mark.parametrize(
    ("cwd", "path", "new"),
    [("", ".", "../NEW"), ("", PARTITION, f"../NEW-{PARTITION}"), (PARTITION, ".", f"../../NEW-{PARTITION}")],
)
def test_the_copy_is_made_beside_the_log_directory(directory: Path, cwd: str, path: str, new: str) -> None:
    damage(directory)
    words = step(directory / cwd, path)
    assert words[words.index("--out") :] == ["--out", new, path]
    before = sorted(each.name for each in directory.iterdir())
    assert kcli(*words, cwd=directory / cwd).status == 0
    assert sorted(each.name for each in directory.iterdir()) == before
    assert (directory.parent / Path(new).name).is_dir()
