"""Windows rendered by several threads: the text in order, memory bounded, errors passed on."""

import threading
import time

import pytest

from formats.kernels.buffer import TextBuffer
from kcli.inspector.ordered import FLUSH_BYTES, Flush, render_in_order


def render(part: int, out: TextBuffer, flush: Flush) -> int:
    """A render function that is slow for some parts and makes much text of others."""
    time.sleep(0.002 * (part % 3 == 0))
    for piece in range(part % 4):
        out.write(b"%d.%d " % (part, piece) + b"x" * (FLUSH_BYTES if part % 7 == 0 else 0))
        flush()
    return part * 2


@pytest.mark.parametrize("threads", [1, 2, 4, None])
def test_text_and_results_are_in_order(threads: int | None) -> None:
    written: list[bytes] = []
    parts = range(60)
    results = list(render_in_order(parts, render, lambda text: written.append(bytes(text)), threads=threads))
    assert results == [part * 2 for part in parts]
    words = b"".join(written).replace(b"x", b"").split()
    assert words == [b"%d.%d" % (part, piece) for part in parts for piece in range(part % 4)]


def test_few_parts_are_taken_ahead() -> None:
    """While the first part is not done, only a few more are begun."""
    taken: list[int] = []
    go_on = threading.Event()

    def parts() -> range:
        return range(100)

    def slow(part: int, _out: TextBuffer, _flush: Flush) -> int:
        taken.append(part)
        go_on.wait(5)
        return part

    results = render_in_order(parts(), slow, lambda _: None, threads=2)
    release = threading.Timer(0.2, go_on.set)
    release.start()
    first = next(results)
    assert first == 0
    assert len(taken) < 8
    assert list(results) == list(range(1, 100))


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("at", [0, 3, 19])
def test_an_error_of_a_renderer_comes_through(threads: int, at: int) -> None:
    written: list[bytes] = []

    def failing(part: int, out: TextBuffer, _flush: Flush) -> int:
        if part == at:
            raise KeyError(part)
        out.write(b"%d " % part)
        return part

    found: list[int] = []
    with pytest.raises(KeyError):
        found.extend(render_in_order(range(40), failing, lambda text: written.append(bytes(text)), threads=threads))
    assert b"".join(written).split() == [b"%d" % part for part in range(len(b"".join(written).split()))]
    assert len(b"".join(written).split()) <= at


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_an_error_of_writing_comes_through(threads: int) -> None:
    class Full(Exception):
        pass

    def write(_: memoryview) -> None:
        raise Full

    with pytest.raises(Full):
        list(render_in_order(range(40), render, write, threads=threads))


@pytest.mark.parametrize("threads", [1, 2])
def test_one_may_stop_asking(threads: int) -> None:
    before = threading.active_count()
    results = render_in_order(range(1000), render, lambda _: None, threads=threads)
    assert next(results) == 0
    assert next(results) == 2
    results.close()  # type: ignore[attr-defined]
    assert threading.active_count() < before + 10
