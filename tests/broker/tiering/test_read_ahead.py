"""Reading ahead gives the same bytes as reading, in fewer waits."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli.broker.tiering.read_ahead import AHEAD_BYTES, STREAMS, THREADS, WINDOW_BYTES, ReadAhead
from kcli.errors import UnreadableInput
from kcli.tier.local import LocalStore

SIZE = 4 * WINDOW_BYTES + 1_000
CONTENT = random.Random(1).randbytes(SIZE)
ONE, TWO = "t-0-id/1.log", "t-0-id/2.log"


class Remote(LocalStore):
    """A store whose reads are counted, as if they went over the network. failing: how many of them fail next."""

    is_remote = True

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.reads: list[tuple[str, int, int]] = []
        self.failing = 0
        self._lock = threading.Lock()

    def read(self, name: str, start: int, stop: int) -> memoryview:
        with self._lock:
            self.reads.append((name, start, stop))
            self.failing -= 1
            if self.failing >= 0:
                raise UnreadableInput(name, "the network fails")
        return super().read(name, start, stop)


@pytest.fixture
def store(tmp_path: Path) -> Remote:
    for name in (ONE, TWO):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(CONTENT)
    return Remote(tmp_path)


@pytest.fixture
def ahead(store: Remote) -> Iterator[ReadAhead]:
    made = ReadAhead(store)
    yield made
    made.close()


def read_all(ahead: ReadAhead, name: str, step: int = 300_000) -> None:
    for start in range(0, SIZE, step):
        begin = max(0, start - 1_000)  # the index names a batch before the one that is asked for
        stop = min(start + step, SIZE)
        assert bytes(ahead.read(name, begin, stop, SIZE)) == CONTENT[begin:stop]


def test_a_reader_in_order(store: Remote, ahead: ReadAhead) -> None:
    """After its first read all is read once, in windows."""
    read_all(ahead, ONE)
    first, *rest = store.reads
    assert first == (ONE, 0, 300_000)
    assert sorted(start for _, start, _ in rest) == list(range(299_000, SIZE, WINDOW_BYTES))


def test_a_reader_that_jumps_reads_nothing_ahead(store: Remote, ahead: ReadAhead) -> None:
    for start in (5_000_000, 100, 2_000_000):
        assert bytes(ahead.read(ONE, start, start + 10, SIZE)) == CONTENT[start : start + 10]
    assert len(store.reads) == 3


def test_readers_beside_each_other(ahead: ReadAhead) -> None:
    """Several consumers of one object, and of another."""
    threads = [
        threading.Thread(target=read_all, args=(ahead, name, step)) for name in (ONE, TWO) for step in (10**5, 10**6)
    ]
    failed: list[object] = []
    threading.excepthook, before = failed.append, threading.excepthook
    try:
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    finally:
        threading.excepthook = before
    assert not failed


def test_a_window_that_fails_is_read_again(store: Remote, ahead: ReadAhead) -> None:
    ahead.read(ONE, 0, 1_000, SIZE)
    store.failing = 1
    assert bytes(ahead.read(ONE, 1_000, 2_000, SIZE)) == CONTENT[1_000:2_000]
    read_all(ahead, ONE)


def test_a_store_that_fails_is_an_error(store: Remote, ahead: ReadAhead) -> None:
    ahead.read(ONE, 0, 1_000, SIZE)
    store.failing = 100
    with pytest.raises(UnreadableInput):
        ahead.read(ONE, 1_000, 2_000, SIZE)


def test_bytes_that_were_wrong_are_read_anew(store: Remote, ahead: ReadAhead, tmp_path: Path) -> None:
    ahead.read(ONE, 0, 1_000, SIZE)
    ahead.read(ONE, 1_000, 2_000, SIZE)
    (tmp_path / ONE).write_bytes(bytes(SIZE))
    assert bytes(ahead.read(ONE, 1_000, 2_000, SIZE)) == CONTENT[1_000:2_000]
    ahead.forget(ONE)
    assert bytes(ahead.read(ONE, 1_000, 2_000, SIZE)) == bytes(1_000)


def test_an_object_that_is_shorter_than_its_metadata_say(ahead: ReadAhead) -> None:
    ahead.read(ONE, 0, 1_000, 2 * SIZE)
    begin = SIZE - 500
    ahead.read(ONE, begin - 1_000, begin, 2 * SIZE)
    assert bytes(ahead.read(ONE, begin, begin + 1_000, 2 * SIZE)) == CONTENT[begin:]


def test_memory_is_bounded(store: Remote, ahead: ReadAhead, tmp_path: Path) -> None:
    """Of the objects that were read, only the last few have windows."""
    for number in range(3 * STREAMS):
        name = f"t-0-id/{number:03}.log"
        (tmp_path / name).write_bytes(CONTENT)
        ahead.read(name, 0, 1_000, SIZE)
        ahead.read(name, 1_000, 2_000, SIZE)
    held = [stream for stream in ahead._streams if stream.windows]
    assert len(held) <= STREAMS
    assert (
        max(sum(each.stop - each.start for each in stream.windows) for stream in held) <= AHEAD_BYTES + 2 * WINDOW_BYTES
    )
    assert len(ahead._threads) == THREADS


def test_a_directory_is_read_as_it_is_asked_for(tmp_path: Path, store: Remote) -> None:
    ahead = ReadAhead(LocalStore(tmp_path))
    read_all(ahead, ONE)
    assert not ahead._threads
