"""Which sessions make room for new ones."""

from __future__ import annotations

from kcli.broker.fetch_sessions import FetchSessions, Key, Wanted

EVICTION_MS = 120_000


def partitions(count: int) -> dict[Key, Wanted]:
    return {("t", i): Wanted("t", i, 0, 0) for i in range(count)}


def test_room_is_limited() -> None:
    sessions = FetchSessions(2, EVICTION_MS)
    first = sessions.begin(partitions(1), 0, with_ids=False)
    second = sessions.begin(partitions(1), 0, with_ids=False)
    assert first is not None
    assert second is not None
    assert sessions.begin(partitions(9), 1000, with_ids=False) is None, "both are new"
    sessions.used(first, 100_000)
    third = sessions.begin(partitions(1), EVICTION_MS + 1, with_ids=False)
    assert third is not None
    assert sessions.find(second.id) is None, "the one not used for longest went"
    assert sessions.find(first.id) is first


def test_a_larger_session_takes_the_place_of_an_old_small_one() -> None:
    sessions = FetchSessions(2, EVICTION_MS)
    small = sessions.begin(partitions(2), 0, with_ids=False)
    large = sessions.begin(partitions(9), 0, with_ids=False)
    assert small is not None
    assert large is not None
    for session in (small, large):
        sessions.used(session, EVICTION_MS)
    assert sessions.begin(partitions(2), EVICTION_MS + 1, with_ids=False) is None
    assert sessions.begin(partitions(3), EVICTION_MS + 1, with_ids=False) is not None
    assert sessions.find(small.id) is None


def test_no_slots() -> None:
    assert FetchSessions(0, EVICTION_MS).begin(partitions(1), 0, with_ids=False) is None


def test_epochs_count_on_from_one() -> None:
    sessions = FetchSessions(1, EVICTION_MS)
    session = sessions.begin(partitions(1), 0, with_ids=False)
    assert session is not None
    session.epoch = 2**31 - 1
    sessions.used(session, 1)
    assert session.epoch == 1


def test_what_had_records_goes_to_the_end() -> None:
    sessions = FetchSessions(1, EVICTION_MS)
    session = sessions.begin(partitions(3), 0, with_ids=False)
    assert session is not None
    session.to_end(session.partitions["t", 0])
    assert [index for _, index in session.partitions] == [1, 2, 0]


def test_news() -> None:
    wanted = Wanted("t", 0, 0, 0)
    assert wanted.is_news(0, 5, 0, has_records=False)
    assert not wanted.is_news(0, 5, 0, has_records=False)
    assert wanted.is_news(0, 5, 1, has_records=False)
    assert wanted.is_news(0, 5, 1, has_records=True)
    assert wanted.is_news(6, 5, 1, has_records=False)
    assert wanted.is_news(0, 5, 1, has_records=False), "after an error all is news"
