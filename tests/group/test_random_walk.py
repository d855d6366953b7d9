"""Members join, commit, restart, fall silent and come back in any order, and the coordinator crashes.

Every few steps a machine is loaded from the log: it must have the same offsets, and the same members and assignments of
stable groups; no two leaders assign partitions in one generation. At the end the living members get time: no request
waits, the group is stable with exactly these members, and every committed offset is there. The failing test's name has
the seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import pytest

from kcli.group.requests import DeleteGroup
from kcli.protocol.error_code import ErrorCode
from tests.group.group_log import RANGE, REBALANCE_MS, SESSION_MS, Running

STEPS = 150
OTHER = (("range", RANGE[0][1] + b"\0"),)
FORGET = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)


@dataclass
class Client:
    """A consumer's knowledge of its group. leads: the members to which it has to assign; is_silent: it sends nothing
    for a while."""

    instance_id: str | None
    member_id: str = ""
    generation: int = -1
    joining: int | None = None
    syncing: int | None = None
    leads: tuple[str, ...] = ()
    assignment: bytes = b""
    is_silent: bool = False

    @property
    def is_idle(self) -> bool:
        return self.joining is None and self.syncing is None

    def forget(self) -> None:
        self.member_id, self.generation, self.joining, self.syncing, self.assignment = "", -1, None, None, b""


class Walk:
    """One seed's."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.running = Running()
        static = self.random.randrange(3)
        self.clients = [Client(f"i{number}" if number < static else None) for number in range(4)]
        self.committed: dict[tuple[str, int], int] = {}
        self.assigned: dict[int, str] = {}
        self.next_offset = 0

    # what clients do

    def join(self, client: Client) -> None:
        client.assignment = b""
        client.joining = self.running.join(
            client.member_id,
            instance_id=client.instance_id,
            protocols=OTHER if self.random.random() < 0.2 else RANGE,
            session_timeout_ms=SESSION_MS if client.instance_id is None else 5 * REBALANCE_MS,
        )
        self.hear(client)

    def sync(self, client: Client) -> None:
        assignments = {member_id: f"{client.generation} {member_id}".encode() for member_id in client.leads}
        client.syncing = self.running.sync(
            client.member_id, client.generation, assignments, instance_id=client.instance_id
        )
        self.hear(client)

    def hear(self, client: Client) -> None:
        """Answers that have come."""
        answers = self.running.answers
        if client.joining in answers:
            joined = self.running.joined(client.joining)
            client.joining = None
            if joined.error == ErrorCode.MEMBER_ID_REQUIRED:
                client.member_id = joined.member_id
                self.join(client)
            elif joined.error in FORGET:
                client.forget()
            elif joined.error == ErrorCode.NONE:
                client.member_id, client.generation = joined.member_id, joined.generation
                leads = joined.leader == joined.member_id and not joined.skip_assignment
                client.leads = tuple(each.member_id for each in joined.members) if leads else ()
                assert client.generation not in self.assigned or not leads or not client.leads
                self.sync(client)
        elif client.syncing in answers:
            synced = self.running.synced(client.syncing)
            client.syncing = None
            if synced.error in FORGET:
                client.forget()
            elif synced.error == ErrorCode.NONE:
                client.assignment = synced.assignment
                if client.leads:
                    assert self.assigned.setdefault(client.generation, client.member_id) == client.member_id
                    client.leads = ()

    def work(self, client: Client) -> None:
        """A heartbeat, or a commit."""
        if self.random.random() < 0.5:
            code = self.running.heartbeat(client.member_id, client.generation, client.instance_id)
        else:
            self.next_offset += 1
            answer = self.running.commit(
                self.next_offset, client.member_id, client.generation, instance_id=client.instance_id
            )
            code = answer.error
            if code == ErrorCode.NONE:
                assert client.generation == self.generation(), "of this generation"
                self.committed["t", 0] = self.next_offset
        if code in FORGET:
            client.forget()
        elif code != ErrorCode.NONE:
            client.assignment = b""

    def generation(self) -> int:
        groups = self.running.machine._shard.groups
        return groups["g"].generation if "g" in groups else -1  # type: ignore[attr-defined]

    def act(self, client: Client) -> None:
        """Let the client send its next request."""
        self.hear(client)
        if client.is_idle:
            if client.assignment:
                self.work(client)
            else:
                self.join(client)

    def step(self) -> None:
        client = self.random.choice(self.clients)
        match self.random.randrange(20):
            case 0:
                client.is_silent = not client.is_silent
            case 1:  # it restarts
                client.forget()
            case 2 if client.member_id:
                self.running.leave((client.member_id, client.instance_id))
                client.forget()
            case 3:
                self.crash()
            case 4 | 5:
                self.running.pass_time(self.random.choice([100, 3000, SESSION_MS, REBALANCE_MS]))
            case 6 if not client.is_idle and client.joining is not None:  # its request was lost: once more
                self.join(client)
            case 7:
                if self.running.ask(DeleteGroup(group_id="g")) == ErrorCode.NONE:
                    self.committed, self.assigned = {}, {}
                    for each in self.clients:
                        each.forget()
            case _ if not client.is_silent:
                self.act(client)
        for each in self.clients:
            self.hear(each)

    def crash(self) -> None:
        """Crash the coordinator: waiting requests are not answered; generations above the last written one are used
        again."""
        self.running.restart()
        written = self.generation()
        self.assigned = {number: leader for number, leader in self.assigned.items() if number <= written}
        for client in self.clients:
            client.joining = client.syncing = None
            client.leads = ()

    def check(self) -> None:
        again = Running()
        again.now_ms, again.log = self.running.now_ms, list(self.running.log)
        again.restart()
        assert again.committed() == self.running.committed() == self.committed
        ours, theirs = self.running.state(), again.state()
        if ours.state == "Stable":
            assert theirs == ours
        assert self.running.machine.deadline_ms() is not None

    def settle(self) -> None:
        """All live, and do what they should."""
        for client in self.clients:
            client.is_silent = False
        for _ in range(400):
            self.running.pass_time(1000)
            for client in self.clients:
                self.act(client)
        assert all(client.is_idle and client.assignment for client in self.clients)
        state = self.running.state()
        assert state.state == "Stable"
        assert {each.member_id for each in state.members} == {client.member_id for client in self.clients}
        expected = {client.member_id: client.assignment for client in self.clients}
        assert {each.member_id: each.assignment for each in state.members} == expected
        self.check()


@pytest.mark.parametrize("seed", range(40))
def test_random_walk(seed: int) -> None:
    walk = Walk(seed)
    for number in range(STEPS):
        walk.step()
        if number % 5 == 0:
            walk.check()
    walk.settle()
