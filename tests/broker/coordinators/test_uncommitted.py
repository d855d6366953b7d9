"""Coordinators with a follower: an answer leaves the broker only after all records on which it depends are
committed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kcli.broker.coordinators.runtime import RETRY_S, Coordinator, CoordinatorError, Work
from kcli.protocol.error_code import ErrorCode
from tests.broker.coordinators.test_coordinators import Notes
from tests.broker.one_partition import OTHER, OWN, OnePartition, refused

TIMEOUT_MS = 5_000


class Told(Notes):
    """A machine that sends a message when it is loaded, and with each note."""

    def handle(self, token: int, request: Any, now_ms: int) -> Any:
        outcome = super().handle(token, request, now_ms)
        if isinstance(request, bytes):
            outcome.messages.append(request)
        return outcome

    def loaded(self, now_ms: int) -> Any:
        outcome = super().loaded(now_ms)
        outcome.messages += [b"loaded", *self.notes]
        return outcome


class Fixture:
    """The coordinator of one partition, and the messages of its machines."""

    def __init__(self, directory: Path, *, changes_nothing: bool = False) -> None:
        self.host = OnePartition(directory, "machines")
        self.told: list[bytes] = []
        self.machines: list[Told] = []
        self.changes_nothing = changes_nothing
        self.coordinator = self.host.coordinate(self._work)

    def _work(self) -> Work:
        return Work(
            self._make,
            act=lambda message, _: self.told.append(message),
            commit_timeout_ms=TIMEOUT_MS,
            changes_nothing=lambda _: self.changes_nothing,
        )

    def _make(self, _: int) -> Told:
        self.machines.append(Told())
        return self.machines[-1]

    def send(self, request: Any) -> asyncio.Future[Any]:
        return self.coordinator.send("a", request)


@pytest.fixture
def fixture(tmp_path: Path) -> Iterator[Fixture]:
    made = Fixture(tmp_path)
    yield made
    made.host.close()


@pytest.fixture
def following(tmp_path: Path) -> Iterator[Fixture]:
    """Its machine changes by its records only."""
    made = Fixture(tmp_path, changes_nothing=True)
    yield made
    made.host.close()


def test_answers_wait_for_the_follower_in_order(fixture: Fixture) -> None:
    async def run() -> None:
        before = fixture.send("read")
        assert before.done(), "nothing is uncommitted"
        one, read, two = fixture.send(b"one"), fixture.send("read"), fixture.send(b"two")
        await asyncio.sleep(1)
        assert not one.done()
        assert fixture.told == [b"loaded"]
        fixture.host.copy(1)
        assert await one == []
        assert await read == [b"one"], "what its own client has just written"
        assert not two.done(), "the second is in one replica only"
        assert fixture.told == [b"loaded", b"one"]
        fixture.host.copy()
        assert await two == [b"one"]
        assert fixture.told == [b"loaded", b"one", b"two"]
        assert fixture.send("read").done()

    fixture.host.run(run())


def test_alone_in_sync_nothing_waits(fixture: Fixture) -> None:
    async def run() -> None:
        fixture.host.change(fixture.coordinator, replicas=[OWN], isr=[OWN], directories=["A" * 22])
        one = fixture.send(b"one")
        assert one.done()
        assert fixture.told == [b"loaded", b"one"]

    fixture.host.run(run())


def test_what_is_lost_with_the_lead_was_told_to_nobody(fixture: Fixture) -> None:
    async def run() -> None:
        host, coordinator = fixture.host, fixture.coordinator
        one = fixture.send(b"one")
        host.copy()
        await one
        lost, read = fixture.send(b"lost"), fixture.send("read")
        host.change(coordinator, leader=OTHER)
        assert [await refused(each) for each in (lost, read)] == [ErrorCode.NOT_COORDINATOR] * 2
        with pytest.raises(CoordinatorError, match="NOT_COORDINATOR"):
            _ = fixture.send("read")
        host.partition.truncate_to(1, host.clock.now_ms())
        host.change(coordinator, leader=OWN)
        with pytest.raises(CoordinatorError, match="COORDINATOR_LOAD_IN_PROGRESS"):
            _ = fixture.send("read")
        await asyncio.sleep(1)
        host.copy()
        assert await fixture.send("read") == [b"one"]
        assert fixture.told == [b"loaded", b"one", b"loaded", b"one"]

    fixture.host.run(run())


def test_what_is_loaded_waits_too(fixture: Fixture) -> None:
    """A new leader does not know yet which of its records are committed, so its first messages wait too."""

    async def run() -> None:
        host = fixture.host
        _ = fixture.send(b"one")
        host.change(fixture.coordinator, leader=OTHER)
        host.change(fixture.coordinator, leader=OWN)
        await asyncio.sleep(1)
        read = fixture.send("read")
        assert not read.done()
        assert fixture.told == [b"loaded"], "of the first one"
        host.copy()
        assert await read == [b"one"]
        assert fixture.told == [b"loaded", b"loaded", b"one"]

    fixture.host.run(run())


def test_a_later_epoch_of_its_own_changes_nothing(fixture: Fixture) -> None:
    async def run() -> None:
        one = fixture.send(b"one")
        fixture.host.change(fixture.coordinator, leader=OWN)
        assert not one.done()
        fixture.host.copy()
        assert await one == []
        assert len(fixture.machines) == 1

    fixture.host.run(run())


def test_who_waits_for_too_long(fixture: Fixture) -> None:
    """A request that waits for too long gets a retriable error; the machine's message is sent when the record is
    committed."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        begin = loop.time()
        one = fixture.send(b"one")
        await asyncio.sleep(1)
        two = fixture.send(b"two")
        assert await refused(one) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert loop.time() - begin == pytest.approx(TIMEOUT_MS / 1000)
        assert not two.done()
        assert await refused(two) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert loop.time() - begin == pytest.approx(TIMEOUT_MS / 1000 + 1)
        assert fixture.told == [b"loaded"]
        fixture.host.copy()
        await asyncio.sleep(0.1)
        assert fixture.told == [b"loaded", b"one", b"two"]
        assert await fixture.send("read") == [b"one", b"two"]

    fixture.host.run(run())


def lose_replica(fixture: Fixture, *, back: bool = False) -> None:
    fixture.host.change(fixture.coordinator, isr=[OWN, OTHER] if back else [OWN])


def test_too_few_in_sync_for_a_machine_that_went_ahead(fixture: Fixture) -> None:
    """It is made anew after a while."""

    async def run() -> None:
        waits = fixture.send("wait")
        lose_replica(fixture)
        assert fixture.send("read").done()
        await asyncio.sleep(1)
        assert not waits.done(), "what time brings can wait"
        write = fixture.send(b"one")
        assert await refused(write) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await refused(waits) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        lose_replica(fixture, back=True)
        fixture.host.copy()
        await asyncio.sleep(RETRY_S + 0.3)
        assert await fixture.send("read") == []
        assert len(fixture.machines) == 2

    fixture.host.run(run())


def test_too_few_in_sync_for_a_machine_that_follows_its_records(following: Fixture) -> None:
    """With too few replicas in the ISR the machine goes on, and so do all requests that wait for it."""

    async def run() -> None:
        waits = following.send("wait")
        lose_replica(following)
        assert await refused(following.send(b"one")) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert following.told == [b"loaded"]
        lose_replica(following, back=True)
        await asyncio.sleep(1)
        following.host.copy()
        assert isinstance(await waits, int)
        assert await following.send("read") == [b"tick"]
        assert len(following.machines) == 1

    following.host.run(run())


def test_a_topic_of_the_same_name(fixture: Fixture) -> None:
    """A new topic of the same name has a new machine; its log has no record of the old topic."""
    shards: Any = fixture.coordinator

    async def run() -> None:
        shards._shards[0].topic_id = None
        fixture.host.change(fixture.coordinator, leader=OWN)
        with pytest.raises(CoordinatorError, match="COORDINATOR_LOAD_IN_PROGRESS"):
            _ = fixture.send("read")

    fixture.host.run(run())


def test_a_coordinator_that_stops(fixture: Fixture) -> None:
    async def run(coordinator: Coordinator) -> None:
        one = fixture.send(b"one")
        coordinator.stop()
        assert await refused(one) == ErrorCode.NOT_COORDINATOR
        fixture.host.copy()
        await asyncio.sleep(0.1)
        assert fixture.told == [b"loaded"]

    fixture.host.run(run(fixture.coordinator))
