"""Brokers and the active controller together, on simulated time: registration, sessions, shutdown, deaths, elections.

Controller 1 has its metadata in memory; brokers 2 and 3 reach its handlers through no network, and read the same image.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from inspect import isawaitable
from random import Random
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from kcli.broker.broker import Broker
from kcli.broker.config import BrokerConfig
from kcli.broker.controller.active import ActiveController
from kcli.broker.controller.lifecycle import BrokerLifecycle, NotRegistered
from kcli.broker.controller.requests import ControllerRequests
from kcli.broker.dispatch.handlers import handler
from kcli.broker.network.peers import Unanswered, api_named, new_request
from kcli.broker.wire.call import Call
from kcli.broker.wire.messages import RequestHeader, messages
from kcli.metadata.image import Record
from kcli.metadata.partition import Partition, from_uuid
from kcli.metadata.registration import Broker as BrokerState
from kcli.metadata.registration_control import NO_EPOCH
from kcli.metadata.snapshot import partition_record
from tests.metadata.node import HOST, PORT, node, started
from tests.sim.loop import SimulatedLoop

TOPIC = UUID(int=0xA0A0)
SESSION_S, INTERVAL_S = 9.0, 2.0
PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@localhost:9093",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
}
BROKER = {
    "process.roles": "broker",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@localhost:9093",
    "listeners": "PLAINTEXT://127.0.0.1:9092",
}


class Remote:
    """A broker's channel to the active controller. calls: the requests that were sent."""

    def __init__(self, controller: Broker) -> None:
        self._controller = controller
        self.is_cut = False
        self.calls = Counter[str]()

    async def call(self, api: str, version: int | None, /, *, timeout_s: float, **fields: Any) -> Any:
        known = api_named(api)
        kind = messages(known.key, known.most if version is None else version)
        request = new_request(kind, fields)
        if self.is_cut:
            await asyncio.sleep(timeout_s)
            raise Unanswered("cut off")
        self.calls[api] += 1
        asked = Call(kind, RequestHeader(known.key, kind.version, 0, "", 0), request, 0)
        answer = handler(known.key)(self._controller, asked)
        return await answer if isawaitable(answer) else answer


class Member:
    """A broker's process."""

    def __init__(self, cluster: Cluster, node_id: int, number: int) -> None:
        self.cluster, self.id = cluster, node_id
        self.image = cluster.metadata.image
        self.remote = Remote(cluster.controller)
        self.directory, self.spare = UUID(int=0xD00 + node_id), UUID(int=0xE00 + node_id)
        self.cordoned: set[UUID] = set()
        self.reasons: list[str] = []
        online = [SimpleNamespace(id=self.directory), SimpleNamespace(id=self.spare)]
        dirs = SimpleNamespace(online=online)
        logs: Any = SimpleNamespace(dirs=dirs, is_cordoned=lambda each: each.id in self.cordoned)
        elsewhere: Any = SimpleNamespace(is_leader=False)
        self.life = BrokerLifecycle(
            BrokerConfig({**BROKER, "node.id": str(node_id)}),
            self.image,
            logs,
            ControllerRequests("cluster", elsewhere, None, self.remote),
            {"PLAINTEXT": (HOST, PORT)},
            is_alone=False,
            must_stop=self.reasons.append,
            new_id=lambda: UUID(int=0xF0000 + 256 * node_id + number),
        )

    async def start(self, previous_epoch: int = NO_EPOCH) -> Member:
        await self.life.start(previous_epoch)
        return self

    @property
    def state(self) -> BrokerState:
        return self.cluster.metadata.image.brokers[self.id]


class Cluster:
    """The active controller and its brokers on the running loop."""

    def __init__(self) -> None:
        self.metadata = started()
        self.controller = node(PROPERTIES, self.metadata)
        own = self.metadata.image.brokers[1]
        self.own_epoch = own.epoch
        self.active = self.controller.active = ActiveController(
            self.controller.config, self.controller.metadata, lambda: self.own_epoch
        )
        self.active.start()
        self.count = 0

    def member(self, node_id: int) -> Member:
        self.count += 1
        return Member(self, node_id, self.count)

    def lead(self, *, leads: bool) -> None:
        self.metadata.is_leader = leads
        for listener in self.metadata.on_leadership:
            listener()

    def topic(self, *replicas: int, **state: Any) -> None:
        self.metadata.apply([("TopicRecord", 0, {"name": "a", "topicId": from_uuid(TOPIC)})])
        known = self.metadata.image.brokers
        directories = tuple(known[each].directories[0] if each in known else UUID(int=7) for each in replicas)
        usual: dict[str, Any] = {"replicas": replicas, "directories": directories, "isr": replicas}
        partition = Partition(**{**usual, "leader": replicas[0], **state})
        topic = self.metadata.image.topics["a"]
        self.metadata.apply([partition_record(topic, 0, partition, 30, has_elr=True)])

    @property
    def partition(self) -> Partition:
        found = self.metadata.image.partition(TOPIC, 0)
        assert found is not None
        return found

    def written(self) -> list[Record]:
        return [each for each in self.metadata.written if each[0] != "NoOpRecord"]


def simulated(test: Callable[[Cluster], Awaitable[None]]) -> Callable[[], None]:
    """A test on simulated time."""

    async def run() -> None:
        cluster = Cluster()
        await test(cluster)
        cluster.active.stop()

    def outer() -> None:
        loop = SimulatedLoop(Random(0))
        try:
            loop.run_until_complete(run())
        finally:
            loop.close()
        assert not loop.errors

    outer.__name__, outer.__doc__ = test.__name__, test.__doc__
    return outer


@contextmanager
def logged() -> Iterator[list[str]]:
    """What brokers and controllers log meanwhile."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("kcli.broker")
    logger.addHandler(handler)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)


def now() -> float:
    return asyncio.get_running_loop().time()


@simulated
async def test_it_registers_and_lives(cluster: Cluster) -> None:
    member = await cluster.member(2).start()
    assert now() < 0.1
    assert not member.state.fenced
    assert member.state.epoch == member.life.epoch
    assert member.state.cordoned == ()
    assert member.state.directories == (member.directory, member.spare)
    before = len(cluster.written())
    member.remote.calls.clear()
    await asyncio.sleep(10 * INTERVAL_S + 0.5)
    assert member.remote.calls == {"broker_heartbeat": 10}
    assert len(cluster.written()) == before
    member.life.stop()


@simulated
async def test_silent_too_long_and_back(cluster: Cluster) -> None:
    member = await cluster.member(2).start()
    cluster.topic(2, 1)
    member.remote.is_cut = True
    await asyncio.sleep(SESSION_S - INTERVAL_S)
    assert not member.state.fenced
    await asyncio.sleep(INTERVAL_S + 0.1)
    assert member.state.fenced
    assert (cluster.partition.leader, cluster.partition.isr) == (1, (1,))
    member.remote.is_cut = False
    await asyncio.sleep(INTERVAL_S + 5)
    assert not member.state.fenced
    member.life.stop()


@simulated
async def test_a_second_process_waits_until_the_first_is_silent(cluster: Cluster) -> None:
    first = await cluster.member(2).start()
    first.life.stop()
    began = now()
    with logged() as lines:
        second = await cluster.member(2).start()
    line = "broker 2 is not registered: another process has this node id, or had it a moment ago"
    assert lines.count(f"{line} (DUPLICATE_BROKER_REGISTRATION)") == 1
    assert SESSION_S - 0.1 < now() - began < SESSION_S + 0.6
    assert second.life.epoch > first.life.epoch
    second.life.stop()


@simulated
async def test_without_a_controller_it_gives_up(cluster: Cluster) -> None:
    member = cluster.member(2)
    member.remote.is_cut = True
    with pytest.raises(NotRegistered, match=r"broker 2 was not registered in time: .*cut off"):
        await member.start()
    assert 59 < now() < 61


@simulated
async def test_it_hands_over_before_it_goes(cluster: Cluster) -> None:
    members = [await cluster.member(each).start() for each in (2, 3)]
    cluster.topic(2, 3)
    cluster.controller.metadata.image.brokers.pop(1)
    began = now()
    await members[0].life.shut_down()
    assert INTERVAL_S - 0.5 < now() - began < INTERVAL_S + 0.2
    assert (members[0].state.fenced, members[0].state.in_controlled_shutdown) == (True, True)
    assert (cluster.partition.leader, cluster.partition.isr) == (3, (3,))
    began = now()
    await members[1].life.shut_down()
    assert now() - began < 0.2, "nobody is left to wait for"
    assert cluster.partition.leader == -1
    for each in members:
        each.life.stop()


@simulated
async def test_others_tell_at_once_that_they_know_of_it(cluster: Cluster) -> None:
    members = [await cluster.member(each).start() for each in (2, 3)]
    cluster.topic(2, 3)
    cluster.controller.metadata.image.brokers.pop(1)
    asyncio.get_running_loop().call_later(0.01, lambda: members[1].life.brokers_changed({2}))
    began = now()
    await members[0].life.shut_down()
    assert now() - began < 0.2
    for each in members:
        each.life.stop()


@simulated
async def test_it_goes_where_no_controller_answers(cluster: Cluster) -> None:
    member = await cluster.member(2).start()
    member.remote.is_cut = True
    await member.life.shut_down()
    assert now() < 20
    member.life.stop()


@simulated
async def test_a_process_that_somebody_saw_die(cluster: Cluster) -> None:
    member = await cluster.member(2).start()
    cluster.topic(2, 1)
    member.life.stop()
    cluster.active.report_death(2)
    assert member.state.fenced
    assert cluster.partition.leader == 1
    cluster.active.report_start(2)
    began = now()
    again = await cluster.member(2).start()
    assert now() - began < 0.1
    again.life.stop()


@simulated
async def test_a_controller_that_becomes_active_knows_who_died(cluster: Cluster) -> None:
    members = [await cluster.member(each).start() for each in (2, 3)]
    cluster.lead(leads=False)
    for each in members:
        each.life.stop()
        cluster.active.report_death(each.id)
    cluster.active.report_start(2)
    assert not any(each.state.fenced for each in members)
    cluster.lead(leads=True)
    assert all(each.state.fenced for each in members)
    cluster.lead(leads=False)
    again = cluster.member(2)
    cluster.lead(leads=True)
    await again.start()
    cluster.lead(leads=False)
    cluster.lead(leads=True)
    assert (again.state.fenced, members[1].state.fenced) == (False, True)
    again.life.stop()


@simulated
async def test_directories(cluster: Cluster) -> None:
    member = await cluster.member(2).start()
    cluster.topic(2, 1)
    member.cordoned = {member.spare}
    member.life.configured()
    await asyncio.sleep(0.01)
    assert member.state.cordoned == (member.spare,)
    member.life.assigned(TOPIC, 0, member.spare)
    await asyncio.sleep(0.01)
    assert cluster.partition.directory(2) == member.spare
    member.life.directory_failed(member.spare)
    await asyncio.sleep(0.01)
    assert member.state.directories == (member.directory,)
    assert (cluster.partition.leader, cluster.partition.isr) == (1, (1,))
    await asyncio.sleep(60)
    assert not member.reasons
    member.remote.is_cut = True
    member.life.directory_failed(member.directory)
    await asyncio.sleep(60)
    assert member.reasons == ["the controller could not be informed of a failed log directory"]
    member.life.stop()


@simulated
async def test_it_tells_again_where_replicas_lie(cluster: Cluster) -> None:
    member = await cluster.member(2).start()
    cluster.topic(2, 1)
    member.remote.is_cut = True
    member.life.assigned(TOPIC, 0, member.spare)
    await asyncio.sleep(1)
    assert cluster.partition.directory(2) == member.directory
    member.remote.is_cut = False
    await asyncio.sleep(10)
    assert cluster.partition.directory(2) == member.spare
    member.life.stop()


@simulated
async def test_preferred_leaders_now_and_then(cluster: Cluster) -> None:
    member = await cluster.member(2).start()
    cluster.topic(2, 1, leader=1)
    await asyncio.sleep(299)
    assert cluster.partition.leader == 1
    await asyncio.sleep(2)
    assert cluster.partition.leader == 2
    member.life.stop()


@simulated
async def test_unclean_leaders_now_and_then_where_they_are_allowed(cluster: Cluster) -> None:
    member = await cluster.member(2).start()
    cluster.topic(3, 2, leader=-1, isr=())
    await asyncio.sleep(301)
    assert cluster.partition.leader == -1
    config = {"resourceType": 2, "resourceName": "a", "name": "unclean.leader.election.enable", "value": "true"}
    cluster.metadata.apply([("ConfigRecord", 0, config)])
    await asyncio.sleep(301)
    assert (cluster.partition.leader, cluster.partition.isr) == (2, (2,))
    member.life.stop()


@simulated
async def test_no_sessions_without_the_lead(cluster: Cluster) -> None:
    member = await cluster.member(2).start()
    member.life.stop()
    cluster.lead(leads=False)
    await asyncio.sleep(3 * SESSION_S)
    assert not member.state.fenced
    cluster.lead(leads=True)
    await asyncio.sleep(SESSION_S - 1)
    assert not member.state.fenced, "heard of when the lead began"
    await asyncio.sleep(2)
    assert member.state.fenced


@simulated
async def test_the_broker_before_the_controllers_own_is_fenced(cluster: Cluster) -> None:
    own = cluster.metadata.image.brokers
    await asyncio.sleep(2 * SESSION_S)
    assert not own[1].fenced
    cluster.lead(leads=False)
    cluster.own_epoch = NO_EPOCH
    cluster.lead(leads=True)
    await asyncio.sleep(SESSION_S - 1)
    assert not own[1].fenced
    await asyncio.sleep(2)
    assert own[1].fenced


@simulated
async def test_a_controller_that_stood_still_looks_at_heartbeats_first(cluster: Cluster) -> None:
    member = await cluster.member(2).start()
    member.life.stop()
    await asyncio.sleep(1)
    loop = cast("SimulatedLoop", asyncio.get_running_loop())
    loop._seconds += 3 * SESSION_S
    await asyncio.sleep(0.4)
    assert not member.state.fenced
    await asyncio.sleep(0.2)
    assert member.state.fenced
