"""kill -9 of exports to tables at any time: no record is in the table twice, and in the end each is there."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from kcli.export.export_options import ExportOptions
from kcli.export.table_writer import TableFormat
from kcli.log.disk import Disk
from kcli.pipelines.tables.job import TableJob
from kcli.pipelines.tables.staging import TableStaging
from tests.conftest import examples
from tests.export.in_process import InProcess
from tests.export.logs import append
from tests.pipelines.tables.places import Place, source

KILLS = examples(3, soak=50).max_examples


@pytest.mark.hypothesis  # for make soak
@pytest.mark.parametrize("kind", ["delta", "sql"])
def test_kill_at_any_moment(kind: str, tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    logs = [tmp_path / "logs" / f"t-{number}" for number in range(2)]
    for log in logs:
        log.mkdir(parents=True)
    place = Place(kind, tmp_path / "out", f"sqlite:///{tmp_path}/catalog.db" if kind == "sql" else None)
    arguments = [kind, str(tmp_path / "logs"), str(place.out), *([place.catalog] if place.catalog else [])]
    written = 0
    took_s = 0.5
    for _ in range(KILLS):
        for log in logs:
            append(log, list(range(written, written + 50)))
        written += 50
        command = [sys.executable, "-m", "tests.pipelines.tables.exporting", *arguments]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdin is not None
            assert process.stdout.readline() == "ready\n"
            began = time.monotonic()
            process.stdin.write("\n")
            process.stdin.flush()
            try:
                process.wait(draw.uniform(0, took_s))
            except subprocess.TimeoutExpired:
                process.kill()
            else:
                took_s = 1.2 * (time.monotonic() - began)
        seen = partition_offsets(place)
        assert len(set(seen)) == len(seen), "no record twice, at any moment"
    place.export(source(tmp_path / "logs"), ("partition",))
    assert partition_offsets(place) == [(partition, offset) for partition in range(2) for offset in range(written)]
    left = {str(each.resolve()) for each in place.out.rglob("*.parquet")}
    assert left == set(place.files()), "no file that the table does not name"
    assert not list(tmp_path.glob(".*.kcli"))


def partition_offsets(place: Place) -> list[tuple[int, int]]:
    """Partition and offset of each row, if there is a table."""
    if not place.exists():
        return []
    rows = place.read()
    return sorted(zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True))


class Killed(BaseException):
    """Where the process would have ended."""


class DyingDisk(Disk):
    """A disk that ends the process at the n-th change of names or files."""

    def __init__(self, left: int) -> None:
        self.left = left

    def _step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Killed

    def rename(self, source: Path, target: Path) -> None:
        self._step()
        super().rename(source, target)
        self._step()

    def remove(self, path: Path) -> None:
        self._step()
        super().remove(path)

    def write_file(self, path: Path, data: bytes) -> None:
        self._step()
        super().write_file(path, data)
        self._step()

    def sync_directory(self, path: Path) -> None:
        self._step()
        super().sync_directory(path)


@pytest.mark.parametrize("steps", range(0, 24, 2))
def test_each_step_of_a_commit(steps: int, plain_place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill before the table's commit leaves no file, a later one all rows; the next export adds the rest."""
    log = tmp_path / "t-0"
    log.mkdir()
    append(log, [0, 1])
    plain_place.export(source(log))
    append(log, [2, 3])
    commit_to = TableStaging.commit_to

    def dying(staging: TableStaging, *arguments: Any, **options: Any) -> None:
        staging._disk = DyingDisk(steps)
        monkeypatch.setattr(TableStaging, "_leave", lambda each: os.close(each._lock))
        commit_to(staging, *arguments, **options)

    monkeypatch.setattr(TableStaging, "commit_to", dying)
    with suppress(Killed):
        plain_place.export(source(log))
    monkeypatch.undo()
    stood = plain_place.offsets()
    assert stood in ([(0, 0), (0, 1)], [(0, offset) for offset in range(4)])
    plain_place.export(source(log))
    assert plain_place.offsets() == [(0, offset) for offset in range(4)]
    assert {str(each) for each in plain_place.out.rglob("*.parquet")} == set(plain_place.files())
    assert not list(tmp_path.glob(".*.kcli"))


def test_the_first_metadata_has_reached_no_catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill between the first file of metadata and the catalog's row leaves a directory that the next run takes."""
    log = tmp_path / "t-0"
    log.mkdir()
    append(log, [0, 1])
    place = Place("sql", tmp_path / "out", f"sqlite:///{tmp_path}/catalog.db")
    write = SqlCatalog._write_metadata

    def dying(*arguments: Any, **options: Any) -> None:
        write(*arguments, **options)
        raise Killed

    monkeypatch.setattr(SqlCatalog, "_write_metadata", staticmethod(dying))
    monkeypatch.setattr(TableStaging, "_leave", lambda each: os.close(each._lock))
    with pytest.raises(Killed):
        place.export(source(log))
    monkeypatch.undo()
    assert [*place.out.glob("metadata/*.json")]
    assert not place.exists()
    place.export(source(log))
    assert place.offsets() == [(0, 0), (0, 1)]
    assert {str(each) for each in place.out.rglob("*.parquet")} == set(place.files())


@pytest.mark.parametrize("steps", range(12))
def test_each_step_of_joining_files(steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill leaves the rows in small files or in joined ones, and the next run no file that no snapshot names."""
    place = Place("directory", tmp_path / "out")
    log = tmp_path / "t-0"
    log.mkdir()
    for offset in range(3):
        append(log, [offset])
        place.export(source(log))
    append(log, [3])
    commit_to = TableStaging.commit_to

    def dying(staging: TableStaging, *arguments: Any, **options: Any) -> None:
        if "run" in options:  # not of rows
            staging._disk = DyingDisk(steps)
            monkeypatch.setattr(TableStaging, "_leave", lambda each: os.close(each._lock))
        commit_to(staging, *arguments, **options)

    monkeypatch.setattr(TableStaging, "commit_to", dying)
    given = ExportOptions(source(log), place.out, TableFormat((), is_whole=True))
    with suppress(Killed):
        TableJob(given, place.table(), InProcess(), compacts=True).run()  # type: ignore[arg-type]
    monkeypatch.undo()
    assert len(place.files()) in (1, 4)
    assert place.offsets() == [(0, offset) for offset in range(4)]
    is_joined = len(place.files()) == 1
    place.export(source(log))
    assert (len(place.files()) == 1) == is_joined
    assert place.offsets() == [(0, offset) for offset in range(4)]
    assert len([*place.out.rglob("*.parquet")]) == 4 + is_joined, (
        "older snapshots have their files, and nobody has more"
    )
    assert not list(tmp_path.glob(".*.kcli"))
