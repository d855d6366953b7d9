"""Groups of real clients, unmodified, on `kcli serve`; Java's with both protocols.

Each client plays the same scenes: members come and go and share the partitions; commits are where the next one goes on;
static members restart without a rebalance; members die (kill -9) and others take over what they had not committed; who
finds no commit begins where its reset policy says. See clients/README.md.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

with warnings.catch_warnings():  # kafka-python reads its own version in a deprecated way
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka

from tests.broker.api.test_groups import coordinator, create_topic
from tests.broker.running import RunningNode, running_node
from tests.interop.clients import toolchains
from tests.interop.clients.members import ENOUGH_S, HEARTBEAT_MS, PROTOCOLS, Host, Member, NoOffset, Options
from tests.interop.clients.python.members import LIBRARIES

PARTITIONS = 4
SHARED, LIFE = "shared", "life"
OLD = [f"old-{number:02}" for number in range(40)]
"""Values that are there from the beginning."""
MORTAL_SESSION_MS = 2000


@dataclass(frozen=True)
class Client:
    """A client: the command of a program with its members, and what it cannot do. in_process: it needs no program."""

    name: str
    program: Callable[[], list[str]]
    protocol: str = "classic"
    in_process: bool = False
    has_static_members: bool = True
    has_reset_none: bool = True
    marks: tuple[pytest.MarkDecorator, ...] = ()


def library(name: str) -> Client:
    """A client of Python."""
    return Client(name, lambda: [*toolchains.python("members")(), name], in_process=True)


CLIENTS = [
    *map(library, LIBRARIES),
    Client("java", lambda: toolchains.java("JavaMembers"), marks=(pytest.mark.kafka,)),
    Client("java-kip-848", lambda: toolchains.java("JavaMembers"), protocol="consumer", marks=(pytest.mark.kafka,)),
    Client("franz-go", toolchains.go),
    Client("kafkajs", lambda: toolchains.node("members"), has_static_members=False, has_reset_none=False),
]


class Stage:
    """A node, and one client's members on it: in this process if possible, in a program, and in one that will be
    killed."""

    def __init__(self, client: Client, node: RunningNode, program: list[str], stack: ExitStack) -> None:
        self.client, self.node = client, node
        self.members: list[Member] = []
        self.mortals = Host(program, node.bootstrap)
        stack.callback(self.mortals.close)
        self._host: Host | None = None
        if not client.in_process:
            self._host = Host(program, node.bootstrap)
            stack.callback(self._host.close)

    def join(self, options: Options, host: Host | None = None) -> Member:
        """A new member. It speaks the client's protocol."""
        if not options.protocol:
            options = replace(options, protocol=self.client.protocol)
        host = host or self._host
        member = host.open(options) if host else LIBRARIES[self.client.name](self.node.bootstrap, options)
        self.members.append(member)
        return member

    def leave(self, member: Member) -> None:
        """It closes."""
        self.members.remove(member)
        member.close()

    def until(self, is_so: Callable[[], bool]) -> list[bytes]:
        """Poll all members until the condition holds, and return their values."""
        values: list[bytes] = []
        end = time.monotonic() + ENOUGH_S
        while not is_so():
            assert time.monotonic() < end, [each.assignment() for each in self.members]
            for member in self.members:
                values += member.poll()
        return values

    def read(self, count: int) -> list[bytes]:
        """So many values, in order."""
        values: list[bytes] = []
        end = time.monotonic() + ENOUGH_S
        while len(values) < count:
            assert time.monotonic() < end, values
            for member in self.members:
                values += member.poll()
        return sorted(values)

    def send(self, topic: str, *values: str) -> None:
        """Produce the values to the partitions in turn."""
        producer = kafka.KafkaProducer(bootstrap_servers=self.node.bootstrap)
        for i, value in enumerate(values):
            producer.send(topic, value.encode(), partition=i % PARTITIONS)
        producer.close()

    def send_to_all(self, groups: int, *values: str) -> None:
        """Check that each of the groups reads the values, each value once."""
        self.send(LIFE, *values)
        assert self.read(groups * len(values)) == sorted(value.encode() for value in values * groups)

    def described(self, group: str) -> tuple[str, int]:
        """Return the group's state, and the number of its members."""
        if self.client.protocol == "classic":
            api, version, request = "describe_groups", 6, {"groups": (group,)}
        else:
            api, version, request = "consumer_group_describe", 1, {"group_ids": (group,)}
        with self.node.client() as client:
            answer = client.call(api, version, **request)["groups"][0]
        return answer["group_state"], len(answer["members"])

    def generation(self, group: str) -> int:
        """Return the generation, or the epoch, of a stable group."""

        def ask() -> int:
            groups = self.node.node.broker.groups
            machine: Any = groups._shards[groups.partition_of(group)].machine
            found = machine._shard.groups[group]
            generation: int = found.generation if self.client.protocol == "classic" else found.epoch
            return generation

        return self.node.run(ask)


def are_shared(*members: Member) -> bool:
    """Return whether each partition has one owner, and each member an equal share."""
    assigned = [each.assignment() for each in members]
    size = PARTITIONS // len(members)
    return set().union(*assigned) == set(range(PARTITIONS)) and all(len(each) == size for each in assigned)


@pytest.fixture
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    client: Client = request.param
    try:
        program = client.program()
    except toolchains.ToolchainMissing as missing:
        pytest.skip(f"{client.name}: {missing}")
    quick = {
        "group_initial_rebalance_delay_ms": "0",
        "group_min_session_timeout_ms": str(MORTAL_SESSION_MS),
        "group_consumer_min_session_timeout_ms": str(MORTAL_SESSION_MS),
        "group_consumer_session_timeout_ms": str(MORTAL_SESSION_MS),
        "group_consumer_min_heartbeat_interval_ms": str(HEARTBEAT_MS),
        "group_consumer_heartbeat_interval_ms": str(HEARTBEAT_MS),
        "group_consumer_assignment_interval_ms": "0",
        "offsets_topic_num_partitions": "5",
    }
    with running_node(tmp_path / "data", None, **quick) as node, ExitStack() as stack:
        with node.client() as asking:
            coordinator(asking)
        stage = Stage(client, node, program, stack)
        create_topic(node, SHARED, PARTITIONS)
        stage.send(SHARED, *OLD)
        yield stage
        for member in list(stage.members):
            stage.leave(member)


@pytest.mark.parametrize(
    "stage", [pytest.param(each, id=each.name, marks=each.marks) for each in CLIENTS], indirect=True
)
def test_group(stage: Stage) -> None:
    members_share_and_go_on(stage)
    if stage.client.has_static_members:
        a_static_member_restarts(stage)
    if stage.client.protocol == "consumer":
        members_of_both_protocols_share(stage)
        the_broker_matches_a_regular_expression(stage)
    members_begin_where_their_policy_says(stage)
    members_die(stage)


def members_share_and_go_on(stage: Stage) -> None:
    group = Options(topic=SHARED, group="shared")
    first = stage.join(group)
    assert stage.read(len(OLD)) == [value.encode() for value in OLD]
    first.commit()
    second = stage.join(group)
    assert stage.until(lambda: are_shared(first, second)) == []
    assert stage.described("shared") == ("Stable", 2)
    stage.leave(second)
    assert stage.until(lambda: are_shared(first)) == []
    stage.leave(first)
    assert stage.described("shared") == ("Empty", 0)
    again = stage.join(group)
    assert stage.until(lambda: are_shared(again)) == []
    stage.leave(again)


def a_static_member_restarts(stage: Stage) -> None:
    one, two = (Options(topic=SHARED, group="static", reset="latest", instance=each) for each in ("one", "two"))
    first = stage.join(one)
    stage.until(lambda: are_shared(first))  # the member leads: a leader that restarts may cause a rebalance
    second = stage.join(two)
    stage.until(lambda: are_shared(first, second))
    assigned, generation = second.assignment(), stage.generation("static")
    stage.leave(second)
    again = stage.join(two)
    stage.until(lambda: bool(again.assignment()))
    assert again.assignment() == assigned
    assert stage.generation("static") == generation
    stage.leave(first)
    stage.leave(again)


def members_begin_where_their_policy_says(stage: Stage) -> None:
    earliest = stage.join(Options(topic=SHARED, group="resets", reset="earliest"))
    assert stage.read(len(OLD)) == [value.encode() for value in OLD]
    stage.leave(earliest)
    if stage.client.has_reset_none:
        none = stage.join(Options(topic=SHARED, group="resets", reset="none"))
        with pytest.raises(NoOffset):
            stage.until(lambda: False)
        stage.leave(none)
    latest = stage.join(Options(topic=SHARED, group="resets", reset="latest"))
    values = stage.until(lambda: are_shared(latest))
    end = time.monotonic() + ENOUGH_S
    while not values:  # records may arrive before the member has looked up the log end
        assert time.monotonic() < end
        stage.send(SHARED, *["new"] * PARTITIONS)
        values += latest.poll()
    assert set(values) == {b"new"}
    stage.leave(latest)


def members_of_both_protocols_share(stage: Stage) -> None:
    """A group changes its type with its members, and back."""
    classic, consumer = (Options(topic=SHARED, group="both", reset="none", protocol=each) for each in PROTOCOLS)
    first = stage.join(replace(classic, reset="earliest"))
    stage.read(len(OLD))
    first.commit()
    second = stage.join(consumer)
    assert stage.until(lambda: are_shared(first, second)) == []
    third = stage.join(classic)
    fourth = stage.join(consumer)
    assert stage.until(lambda: are_shared(first, second, third, fourth)) == []
    for member in (first, fourth, second):
        stage.leave(member)
    assert stage.until(lambda: are_shared(third)) == []
    stage.leave(third)


def the_broker_matches_a_regular_expression(stage: Stage) -> None:
    member = stage.join(Options(topic=f"{SHARED[:2]}.+{SHARED[-1]}|nothing", group="regex", regex=True))
    assert stage.read(len(OLD)) == [value.encode() for value in OLD]
    stage.leave(member)


def members_die(stage: Stage) -> None:
    """A member of a group dies, and others wait for its session to expire; in another group a static member dies and
    comes back at once.

    With KIP-848 it cannot come back before its session has expired.
    """
    with_static = stage.client.has_static_members and stage.client.protocol == "classic"
    create_topic(stage.node, LIFE, PARTITIONS)
    dynamic = Options(topic=LIFE, group="dynamic", session_ms=MORTAL_SESSION_MS)
    other, mortal = (Options(topic=LIFE, group="deathless", instance=each) for each in ("other", "mortal"))
    survivors = [stage.join(dynamic)]
    if with_static:
        survivors.append(stage.join(other))
    groups = len(survivors)
    stage.until(lambda: all(map(are_shared, survivors)))
    dying = [stage.join(each, stage.mortals) for each in (dynamic, mortal)[:groups]]
    stage.until(lambda: all(map(are_shared, survivors, dying)))
    stage.send_to_all(groups, "a0", "a1", "a2", "a3")
    for member in survivors + dying:
        member.commit()
    stage.send_to_all(groups, "b0", "b1", "b2", "b3")
    for member in survivors:
        member.commit()
    not_committed = sorted(f"b{partition}".encode() for member in dying for partition in member.assignment())
    stage.mortals.kill()
    for member in dying:
        stage.members.remove(member)
    again: list[bytes] = []
    if with_static:
        generation = stage.generation("deathless")
        back = stage.join(mortal)
        again += stage.until(lambda: back.assignment() == dying[1].assignment())
        assert stage.generation("deathless") == generation
    again += stage.until(lambda: are_shared(survivors[0]))
    again += stage.read(len(not_committed) - len(again))
    assert sorted(again) == not_committed
    stage.send_to_all(groups, "c0", "c1", "c2", "c3")
