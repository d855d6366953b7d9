"""A log that is compacted or deleted while a stream reads it, at any moment: each record that stays comes once."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kcli.export import live, reading, record_batches
from kcli.export.splits import DataLoss
from kcli.log.source import FileSource
from tests.export.logs import append
from tests.export.micro_batches import Query

Step = Callable[[], object]
SEGMENTS = (0, 10, 20, 30)
STRIDE = 3
"""The number of possible moments, of which chance picks the one that is tried."""


class Meanwhile:
    """Steps that happen while files are listed, opened and read: from the `first` such call on, one at each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        self._first = -1
        self._steps: Iterator[Step] = iter(())
        self._at_once = False
        for owner, name in ((os, "scandir"), (FileSource, "__init__"), (FileSource, "read_at")):
            monkeypatch.setattr(owner, name, self._counted(getattr(owner, name)))
        monkeypatch.setattr(live, "PAUSES_S", (0.0, 0.0))

    def _counted(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            self.calls += 1
            if self.calls > self._first >= 0:
                for step in self._steps:
                    step()
                    if not self._at_once:
                        break
            return original(*arguments, **named)

        return counted

    def take(self, steps: list[Step], first: int, *, at_once: bool) -> None:
        """Begin to count."""
        self._steps, self._first, self._at_once, self.calls = iter(steps), first, at_once, 0

    def finish(self) -> None:
        """Take the steps that are left."""
        for step in self._steps:
            step()


def built(template: Path, kept: list[int], into: tuple[int, ...]) -> Path:
    """A partition with four segments, and compacted ones, which hold the offsets that are kept, beside the first."""
    log = template / "t-0"
    log.mkdir(parents=True)
    for base, behind in pairwise((*into, 30)):
        for offset in kept:
            if base <= offset < behind:
                append(log, [offset], segment=base)
        name(log, base).rename(name(log, base, ".cleaned"))
    for segment in SEGMENTS:
        for first in range(segment, segment + 10, 2):
            append(log, range(first, first + 2), segment=segment)
    return template


def name(log: Path, base: int, state: str = "") -> Path:
    return log / f"{base:020}.log{state}"


def compaction(log: Path, into: tuple[int, ...]) -> list[Step]:
    """Replace segments 0 to 20 by those of `into`, with the renames of LocalLog."""
    moves = [
        *((name(log, base, ".cleaned"), name(log, base, ".swap")) for base in into[::-1]),
        *((name(log, base), name(log, base, ".deleted")) for base in SEGMENTS[:-1]),
        *((name(log, base, ".swap"), name(log, base)) for base in into),
    ]
    return [
        *(partial(Path.rename, old, new) for old, new in moves),
        *(partial(Path.unlink, name(log, base, ".deleted")) for base in SEGMENTS[:-1]),
    ]


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("into", [(0,), (0, 15)])
@pytest.mark.parametrize("kept", [list(range(30)), [3, 12, 17, 28, 29]], ids=["all", "some"])
def test_compaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: bool, into: tuple[int, ...], kept: list[int]
) -> None:
    template = built(tmp_path / "template", kept, into)
    monkeypatch.setattr(record_batches, "BATCH_RECORDS", 3)
    meanwhile = Meanwhile(monkeypatch)
    first, calls = random.randrange(STRIDE), STRIDE
    while first <= calls:
        log = Path(shutil.copytree(template, tmp_path / str(first))) / "t-0"
        query = Query(log.parent, startingOffsets='{"t": {"0": 4}}')
        meanwhile.take(compaction(log, into), first, at_once=at_once)
        query.run()
        calls = meanwhile.calls
        found = query.offsets()
        assert found == sorted(set(found)), f"each once, in order; from call {first} on"
        assert set(found) >= {*filter(lambda offset: offset >= 4, kept), *range(30, 40)}
        assert all(row[3] == b"v%d" % row[2] for row in query.rows)
        meanwhile.finish()
        first += STRIDE
    assert calls > 20


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("strict", [True, False])
def test_deletion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: bool, strict: bool) -> None:
    """A file that was open is read to its end; one that was not is an error, or is skipped."""
    template = built(tmp_path / "template", [], ())
    monkeypatch.setattr(record_batches, "BATCH_RECORDS", 3)
    meanwhile = Meanwhile(monkeypatch)
    first, calls, losses = random.randrange(STRIDE), STRIDE, 0
    while first <= calls:
        log = Path(shutil.copytree(template, tmp_path / str(first))) / "t-0"
        query = Query(log.parent, startingOffsets='{"t": {"0": 4}}', failOnDataLoss=str(strict))
        steps: list[Step] = [
            partial(Path.rename, name(log, base), name(log, base, ".deleted")) for base in SEGMENTS[:-1]
        ]
        meanwhile.take(steps, first, at_once=at_once)
        try:
            query.run()
        except DataLoss:
            assert strict
            losses += 1
        else:
            found = query.offsets()
            assert found == sorted(set(found))
            assert set(found) >= set(range(30, 40))
            if strict:
                assert found == list(range(4, 40))
            calls = meanwhile.calls
        meanwhile.finish()
        first += STRIDE
    assert bool(losses) == strict


@pytest.mark.parametrize("on_corruption", ["fail", "skip"])
def test_another_file_where_the_index_led(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_corruption: str) -> None:
    """The index's position belongs to another file than the one that has the name when it is opened."""
    log, cleaned = tmp_path / "logs/t-0", tmp_path / "cleaned"
    for directory in (log, cleaned):
        directory.mkdir(parents=True)
    for offset in range(30):
        if offset == 19:
            place = name(log, 0).stat().st_size
        append(log, [offset])
    name(log, 0).with_suffix(".index").write_bytes((19).to_bytes(4) + place.to_bytes(4))
    append(log, range(30, 40), segment=30)
    append(cleaned, range(30))
    assert name(cleaned, 0).stat().st_size < place

    def late(*arguments: Any, **named: Any) -> Any:
        if name(cleaned, 0).exists():
            name(log, 0).with_suffix(".index").unlink()
            name(cleaned, 0).replace(name(log, 0))
        return reading.read(*arguments, **named)

    monkeypatch.setattr(live, "read", late)
    query = Query(log.parent, startingOffsets='{"t": {"0": 22}}', onCorruption=on_corruption)
    query.run()
    assert not name(cleaned, 0).exists()
    assert query.offsets() == list(range(22, 40))
