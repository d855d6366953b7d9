"""The cached indexes: Kafka's own directory is taken over; what is damaged, missing or too much is fetched anew."""

from __future__ import annotations

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kcli.broker.tiering.index_cache import DIRECTORY, BadIndex, IndexCache
from kcli.errors import UnreadableInput
from kcli.log.index_entries import OffsetIndexReader
from kcli.log.source import Source
from kcli.tier.local import LocalStore
from kcli.tier.segment import RemoteSegment
from tests.tier.stores import TIERED, Copy

SUFFIXES = ".index", ".timeindex", ".txnindex"


class Counting(LocalStore):
    """A store that counts what is opened. gate: an open waits until it is set."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.opened: list[str] = []
        self.gate = threading.Event()
        self.gate.set()

    def open(self, name: str) -> Source:
        self.opened.append(name.rpartition("/")[2])
        assert self.gate.wait(10)
        return super().open(name)


@pytest.fixture
def golden(tmp_path: Path) -> Copy:
    return Copy.of_golden(tmp_path)


def segments(copy: Copy) -> list[RemoteSegment]:
    return [each for partition in copy.tier().partitions for each in partition.copied()]


def cache(copy: Copy, store: LocalStore, size_max_bytes: int = 1 << 30) -> IndexCache:
    made = IndexCache(copy.data, store, lambda: size_max_bytes)
    made.load()
    return made


def names(copy: Copy) -> set[str]:
    return {each.name for each in (copy.data / DIRECTORY).iterdir()}


def name(segment: RemoteSegment) -> str:
    return f"{segment.start_offset}_{segment.id}"


def test_the_directory_of_kafka_is_taken_over(golden: Copy) -> None:
    before = names(golden)
    store = Counting(golden.remote)
    made = cache(golden, store)
    assert names(golden) == before
    assert made.size == sum(each.stat().st_size for each in (TIERED / "data" / DIRECTORY).iterdir())
    cached = [each for each in segments(golden) if f"{name(each)}.index" in before]
    assert len(cached) > 5
    for segment in cached:
        with made.open(segment) as indexes:
            assert indexes.position_of(segment.start_offset) == 0
    assert store.opened == []


def test_kafka_takes_the_files_for_its_own(golden: Copy) -> None:
    """What is fetched has the names and bytes that Kafka's cache has."""
    shutil.rmtree(golden.data / DIRECTORY)
    made = cache(golden, LocalStore(golden.remote))
    expected = TIERED / "data" / DIRECTORY
    for segment in segments(golden):
        with made.open(segment):
            pass
    compared = 0
    for path in (golden.data / DIRECTORY).iterdir():
        if (expected / path.name).exists():
            assert path.read_bytes() == (expected / path.name).read_bytes()
            compared += 1
    assert compared > 15


def test_positions_are_those_of_kafkas_search(golden: Copy) -> None:
    made = cache(golden, LocalStore(golden.remote))
    for segment in segments(golden):
        with made.open(segment) as indexes:
            path = golden.data / DIRECTORY / f"{name(segment)}.index"
            reader = OffsetIndexReader(path.read_bytes(), segment.start_offset)
            for offset in range(segment.start_offset, segment.end_offset + 1):
                assert indexes.position_of(offset) == reader.position_of(offset)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("how", ["cut", "gone", "below", "after the start"])
def test_a_bad_file_is_fetched_anew(golden: Copy, suffix: str, how: str) -> None:
    segment = next(
        each
        for each in segments(golden)
        if all((golden.data / DIRECTORY / f"{name(each)}{end}").exists() for end in SUFFIXES)
        and all((golden.data / DIRECTORY / f"{name(each)}{end}").stat().st_size for end in SUFFIXES)
    )
    path = golden.data / DIRECTORY / f"{name(segment)}{suffix}"
    sound = path.read_bytes()
    store = Counting(golden.remote)
    if how == "after the start":
        made = cache(golden, store)
        path.unlink()
    else:
        if how == "cut":
            path.write_bytes(sound[:-1])
        elif how == "gone":
            path.unlink()
        else:
            bad = {".index": b"\xff" * 8, ".timeindex": sound[:12] + b"\0" * 12, ".txnindex": b"\0" * 34}
            path.write_bytes(bad[suffix])
        made = cache(golden, store)
        assert not path.exists()
    with made.open(segment) as indexes:
        indexes.check()
    assert path.read_bytes() == sound
    assert len(store.opened) == 3


def test_what_a_crash_left_is_removed(golden: Copy) -> None:
    directory = golden.data / DIRECTORY
    before = names(golden)
    some = next(iter(before))
    (directory / f"{some}.tmp").write_bytes(b"half")
    (directory / f"{some}.deleted").write_bytes(b"old")
    (directory / "notes").write_bytes(b"not ours")
    cache(golden, LocalStore(golden.remote))
    assert names(golden) == before | {"notes"}


def test_the_size_is_bounded(golden: Copy) -> None:
    limit = 1_000
    made = cache(golden, LocalStore(golden.remote), limit)
    assert made.size <= limit
    first, second, *_, last = segments(golden)
    for segment in segments(golden):
        with made.open(first), made.open(segment) as indexes, made.open(second):
            indexes.position_of(segment.end_offset)  # readable although its files may be gone
        held = sum(each.stat().st_size for each in (golden.data / DIRECTORY).iterdir())
        assert held == made.size <= limit
    assert f"{name(first)}.index" in names(golden), "it was used all the time"
    made.remove([(first.start_offset, first.id)])
    assert f"{name(first)}.index" not in names(golden)
    with made.open(last):
        assert made.size <= limit


def test_what_is_not_used_expires(golden: Copy) -> None:
    now_ms = [0.0]
    store = Counting(golden.remote)
    made = IndexCache(golden.data, store, lambda: 1 << 30, ttl_ms=lambda: 1000, now_ms=lambda: now_ms[0])
    made.load()
    first, second, third = segments(golden)[:3]
    for at_ms, segment in ((0, first), (600, second), (999, first)):
        now_ms[0] = at_ms
        with made.open(segment):
            pass
    fetched = len(store.opened)
    now_ms[0] = 1700
    with made.open(third):
        held = {f"{name(each)}.index" for each in (first, third)}
        assert {each for each in names(golden) if each.endswith(".index")} == held
    now_ms[0] = 1999
    with made.open(second):
        assert f"{name(first)}.index" not in names(golden)
    assert len(store.opened) > fetched


def test_two_reads_fetch_once(golden: Copy) -> None:
    shutil.rmtree(golden.data / DIRECTORY)
    store = Counting(golden.remote)
    made = cache(golden, store)
    segment = next(each for each in segments(golden) if each.has_txn_index)

    def read() -> int:
        with made.open(segment) as indexes:
            return len(indexes.aborted())

    store.gate.clear()
    with ThreadPoolExecutor(4) as threads:
        reads = [threads.submit(read) for _ in range(4)]
        store.gate.set()
        assert len({each.result() for each in reads}) == 1
    assert len(store.opened) == 3


def test_an_object_that_is_no_index(golden: Copy) -> None:
    shutil.rmtree(golden.data / DIRECTORY)
    made = cache(golden, LocalStore(golden.remote))
    segment = segments(golden)[0]
    (path,) = golden.remote.rglob(f"*{segment.id}.timeindex")
    sound = path.read_bytes()
    path.write_bytes(sound + b"\0")
    for _ in range(2):
        with pytest.raises(BadIndex, match="an entry is cut"), made.open(segment):
            pass
    path.unlink()
    with pytest.raises((UnreadableInput, Exception), match="no such object"), made.open(segment):
        pass
    assert names(golden) == {f"{name(segment)}.timeindex.tmp", f"{name(segment)}.index"}
    path.write_bytes(sound)
    with made.open(segment) as indexes:
        indexes.check()
