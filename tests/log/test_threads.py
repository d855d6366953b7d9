"""Work of several threads: results in order, few parts ahead, and no wait for parts that are no longer wanted."""

import threading
from collections.abc import Iterator

import pytest

from kcli.log.threads import in_order


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("ahead", [1, 4])
def test_results_are_in_order_and_few_parts_are_taken_ahead(threads: int, ahead: int) -> None:
    taken: list[int] = []

    def parts() -> Iterator[int]:
        for part in range(30):
            taken.append(part)
            yield part

    for got, result in enumerate(in_order(lambda part: part * 2, parts(), threads, ahead=ahead)):
        assert result == 2 * got
        assert len(taken) <= got + threads + ahead


@pytest.mark.parametrize("fails", [False, True])
def test_work_that_is_not_wanted_any_more_is_not_waited_for(fails: bool) -> None:
    """The caller stops, or an error comes, while threads work on a window; parts that wait are never begun."""
    go_on, begun = threading.Event(), []

    def work(part: int) -> int:
        begun.append(part)
        if part:
            assert go_on.wait(60)
        elif fails:
            raise KeyError(part)
        return part

    results = in_order(work, range(100), 2, ahead=8)
    try:
        if fails:
            with pytest.raises(KeyError):
                next(results)
        else:
            assert next(results) == 0
            results.close()  # type: ignore[attr-defined]
        assert not go_on.is_set()
    finally:
        go_on.set()
    assert len(begun) <= 3
