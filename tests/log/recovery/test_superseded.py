"""Which records of .deleted logs a compacted topic still needs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from formats.txn_index import parse as parse_txn_index
from kcli.log.partition_view import Content, FileRange
from kcli.log.recovery import superseded
from kcli.log.recovery.superseded import needed_records
from tests.conftest import GOLDEN
from tests.log.batches import batch, keyed, marker
from tests.log.cleaner.test_golden import CASES, ROUNDS, records

PRODUCER = (7, 0)


def needed(live: dict[int, list[bytes]], logs: dict[int, list[bytes]]) -> dict[int, list[int]]:
    """Return the offsets of the needed records of each of `logs`, by base offset. live, logs: the batches by base
    offset."""
    files = {f"{base}.log": Content((b"".join(batches),)) for base, batches in live.items()}
    files |= {f"{base}.deleted": Content((b"".join(batches),)) for base, batches in logs.items()}
    return offsets_of(files, {base: f"{base}.log" for base in live}, {base: f"{base}.deleted" for base in logs})


def offsets_of(files: dict[str, Content], live: dict[int, str], logs: dict[int, str]) -> dict[int, list[int]]:
    found = {}
    for base, each in needed_records(files, live, logs).items():
        found[base] = [offset for first, last in each.offsets for offset in range(first, last + 1)]
        assert each.records == len(found[base])
        assert (each.first_offset, each.last_offset) == ((found[base][0], found[base][-1]) if found[base] else (-1, -1))
    return found


def one(key: str, offset: int, value: bytes | None = b"v") -> bytes:
    return keyed(key.encode(), value, base_offset=offset)


def in_transaction(offset: int) -> bytes:
    """A record with the key "key" in a transaction."""
    return bytes(batch(b"v", producer=PRODUCER, sequence=0, transactional=True, base_offset=offset))


def end(offset: int, *, commit: bool) -> bytes:
    return bytes(marker(PRODUCER, commit=commit, base_offset=offset))


def test_later_records_of_the_keys() -> None:
    logs = {0: [one("a", 0), one("b", 1)], 2: [one("b", 2), one("c", 3)]}
    assert needed({4: [one("a", 4), one("b", 5), one("c", 6)]}, logs) == {0: [], 2: []}
    assert needed({4: [one("a", 4), one("c", 6)]}, logs) == {0: [], 2: [2]}
    assert needed({4: [one("d", 4)]}, logs) == {0: [0], 2: [2, 3]}
    assert needed({0: [one("a", 0)]}, {1: [one("a", 1)]}) == {1: [1]}


def test_tombstones() -> None:
    """A tombstone is needed if an older record of its key would else be the latest."""
    assert needed({0: [one("a", 0)], 9: [one("b", 9)]}, {1: [one("a", 1, None)]}) == {1: [1]}
    assert needed({0: [one("c", 0)], 9: [one("b", 9)]}, {1: [one("a", 1, None)]}) == {1: []}
    older = [one("a", 1), one("d", 2)]
    assert needed({9: [one("b", 9)]}, {1: older, 3: [one("a", 3, None)]}) == {1: [2], 3: [3]}
    assert needed({9: [one("d", 9)]}, {1: older, 3: [one("a", 3, None)]}) == {1: [], 3: []}


def test_records_without_a_key_are_needed() -> None:
    assert needed({9: [one("a", 9)]}, {1: [keyed(None, b"v", base_offset=1), one("a", 2)]}) == {1: [1]}


def test_transactions() -> None:
    """Only a committed record supersedes, and a record of an aborted transaction is not needed."""
    log = {0: [one("key", 0)]}
    assert needed({1: [in_transaction(1), end(2, commit=True)]}, log) == {0: []}
    assert needed({1: [in_transaction(1), end(2, commit=False)]}, log) == {0: [0]}
    assert needed({1: [in_transaction(1)]}, log) == {0: [0]}
    assert needed({3: [one("a", 3)]}, {0: [in_transaction(0), end(1, commit=False)]}) == {0: []}
    assert needed({3: [one("a", 3)]}, {0: [in_transaction(0), end(1, commit=True)]}) == {0: [0]}


@pytest.mark.parametrize("commit", [False, True])
def test_the_marker_of_records_in_another_log(commit: bool) -> None:
    assert needed({0: [in_transaction(0)], 9: [one("a", 9)]}, {1: [end(1, commit=commit)]}) == {1: [1]}
    assert needed({0: [one("b", 0)], 9: [one("a", 9)]}, {1: [end(1, commit=commit)]}) == {1: []}


def content(path: Path) -> Content:
    return Content((FileRange(path, 0, path.stat().st_size),))


def replaced(before: str, name: str) -> Iterator[tuple[Path, list[Path], list[Path]]]:
    """Yield each segment that Kafka's cleaner made, with the segments that it replaced, and the other segments."""
    logs = sorted((GOLDEN / "compact" / ROUNDS[before] / name).glob("*.log"))
    old = sorted((GOLDEN / "compact" / before / name).glob("*.log"))
    for log, following in pairwise(logs):
        found = [each for each in old if log.stem <= each.stem < following.stem]
        if found and found[0].stem == log.stem:
            yield log, found, [each for each in logs if each != log]


@pytest.mark.parametrize("map_bytes", [superseded.MAP_BYTES, 24 * 8])
@pytest.mark.parametrize(("before", "name"), CASES, ids=[f"{before}-{name}" for before, name in CASES])
def test_what_the_cleaner_of_kafka_kept(
    before: str, name: str, map_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the segments that the cleaner replaced, no record is needed that it removed, except those without a key. It
    kept more only of keys with later records and of aborted transactions, behind the part that it cleaned."""
    monkeypatch.setattr(superseded, "MAP_BYTES", map_bytes)
    indexes = (GOLDEN / "compact" / ROUNDS[before] / name).glob("*.txnindex")
    aborted = [each for path in indexes for each in parse_txn_index(path.read_bytes())]
    for log, old, others in replaced(before, name):
        files = {each.name: content(each) for each in others} | {f"{each.name}.deleted": content(each) for each in old}
        live = {int(each.stem): each.name for each in others}
        logs = {int(each.stem): f"{each.name}.deleted" for each in old}
        found = {offset for each in offsets_of(files, live, logs).values() for offset in each}
        keyless = {each[0] for path in old for each in records(path) if each[2] is None}
        kept = {each[0]: each for each in records(log)}
        assert found - keyless <= kept.keys()
        latest = {each[2]: each[0] for path in sorted([log, *others]) for each in records(path)}
        for offset, _, key, value, _, is_control in (kept[offset] for offset in kept.keys() - found):
            is_aborted = any(each.first_offset <= offset <= each.last_offset for each in aborted)
            assert is_control or value is None or latest[key] > offset or is_aborted
