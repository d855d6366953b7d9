"""The leader-epoch cache: it drops contradicting epochs, follows the log's ends, and answers OffsetsForLeaderEpoch."""

import pytest

from formats.checkpoint import EpochEntry, parse_leader_epochs
from kcli.log.leader_epochs import LeaderEpochCache


def cache(*entries: tuple[int, int]) -> LeaderEpochCache:
    return LeaderEpochCache(EpochEntry(*entry) for entry in entries)


@pytest.mark.parametrize(
    ("entries", "kept"),
    [
        ([], []),
        ([(0, 0), (1, 5), (3, 9)], [(0, 0), (1, 5), (3, 9)]),
        ([(0, 0), (5, 4), (2, 6)], [(0, 0), (2, 6)]),  # the later line is believed
        ([(0, 0), (1, 8), (2, 3)], [(0, 0), (2, 3)]),
        ([(1, 5), (1, 7)], [(1, 5)]),  # an epoch begins once
        ([(1, 5), (1, 3)], [(1, 3)]),
    ],
)
def test_assign(entries: list[tuple[int, int]], kept: list[tuple[int, int]]) -> None:
    epochs = cache(*entries)
    assert list(epochs.entries) == kept
    assert epochs.changed is (kept != entries)
    assert list(parse_leader_epochs(epochs.to_bytes())) == kept


@pytest.mark.parametrize("entry", [(-1, 0), (0, -1)])
def test_negative_numbers(entry: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="is none"):
        cache(entry)


def test_truncation() -> None:
    epochs = cache((0, 0), (1, 5), (3, 9))
    epochs.truncate_from_end(10)
    assert not epochs.changed
    epochs.truncate_from_end(9)
    assert (list(epochs.entries), epochs.changed) == ([(0, 0), (1, 5)], True)
    epochs.truncate_from_start(7)
    assert list(epochs.entries) == [(1, 7)]
    epochs.truncate_from_start(3)
    assert list(epochs.entries) == [(1, 7)]
    epochs.clear()
    assert (epochs.entries, epochs.latest_epoch) == ((), None)


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [(-1, (-1, -1)), (0, (0, 2)), (1, (1, 5)), (2, (2, 9)), (3, (2, 9)), (4, (4, 100)), (5, (-1, -1))],
)
def test_end_offset_for(epoch: int, answer: tuple[int, int]) -> None:
    assert cache((1, 2), (2, 5), (4, 9)).end_offset_for(epoch, 100) == answer
