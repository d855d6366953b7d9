"""The group protocol of Connect's workers: bytes, and who gets what."""

from __future__ import annotations

import random

import pytest

from kcli.connect.membership import signing
from kcli.connect.membership.assignor import CooperativeAssignor, assign_eagerly
from kcli.connect.membership.protocol import (
    Assignment,
    BadProtocol,
    Share,
    WorkerState,
    assignment_bytes,
    metadata,
    read_assignment,
    read_metadata,
    union,
)
from kcli.connect.plugins import TaskId


def share(*names: str) -> Share:
    """Return connectors, and tasks as connector:number."""
    tasks = [each.partition(":") for each in names if ":" in each]
    return Share(
        frozenset(each for each in names if ":" not in each),
        frozenset(TaskId(name, int(number)) for name, _, number in tasks),
    )


def test_bytes() -> None:
    assigned = Assignment("m", "http://h:1/", 7, share("c", "c:0", "d:1"), share("x"), 5)
    data = assignment_bytes(assigned, 2)
    assert data.hex() == (
        "000200000001" + b"m".hex() + "000b" + b"http://h:1/".hex() + "0000000000000007"
        "0000000200016300000002ffffffff000000000001640000000100000001"
        "0000000100017800000001ffffffff00000005"
    )  # fmt: skip
    assert read_assignment(data) == assigned
    state = WorkerState("http://h:1/", 7, assigned)
    assert read_metadata(metadata(state, 2)) == state
    assert metadata(WorkerState("u", 1), 1).hex() == "0001000175" + "0000000000000001" + "ffffffff"
    assert read_metadata(metadata(state, 0)) == WorkerState("http://h:1/", 7)
    assert read_assignment(assignment_bytes(assigned, 0)) == assigned._replace(revoked=Share(), delay_ms=0)


def test_truncated_bytes_are_refused() -> None:
    data = assignment_bytes(Assignment("m", "u", 7, share("c", "c:0"), share("x"), 5), 1)
    for size in range(len(data)):
        try:
            read_assignment(data[:size])
        except BadProtocol:
            continue
        assert size in (len(data) - 4, data.index(b"\0\0\0\1\0\1x"))


def test_eager_deals_in_turn() -> None:
    assert assign_eagerly(share("a", "b", "a:0", "b:0", "b:1"), ["m2", "m1"]) == {
        "m1": share("a", "a:0", "b:1"),
        "m2": share("b", "b:0"),
    }


class Workers:
    """Members that do what the leader says."""

    def __init__(self, delay_ms_max: int = 1000) -> None:
        self.assignor = CooperativeAssignor(delay_ms_max)
        self.held: dict[str, Share] = {}
        self.generation, self.now_ms, self.delay_ms = 0, 0, 0

    def rebalance(self, configured: Share) -> bool:
        """Make a rebalance; returns whether another one follows at once."""
        decision = self.assignor.assign(configured, self.held, self.generation + 1, self.generation, self.now_ms)
        self.generation += 1
        self.delay_ms = decision.delay_ms
        for member, had in self.held.items():
            self.held[member] = (had - decision.revoked[member]) | decision.assigned[member]
            assert self.held[member] == decision.held[member]
        return any(decision.revoked.values())

    def settle(self, configured: Share) -> None:
        """Make rebalances until nothing changes any more."""
        for _ in range(20):
            if not self.rebalance(configured) and not self.delay_ms:
                return
            self.now_ms += self.delay_ms
        raise AssertionError("the group does not come to rest")


def test_new_work_goes_to_those_with_the_least() -> None:
    workers = Workers()
    workers.held = {"m1": Share(), "m2": Share()}
    assert not workers.rebalance(share("a", "b", "c", "a:0"))
    assert workers.held == {"m1": share("a", "c", "a:0"), "m2": share("b")}


def test_a_new_member_gets_its_share_by_two_rebalances() -> None:
    workers = Workers()
    workers.held = {"m1": Share()}
    workers.settle(share("a", "b", "a:0", "b:0"))
    workers.held["m2"] = Share()
    assert workers.rebalance(share("a", "b", "a:0", "b:0"))
    assert workers.held == {"m1": share("b", "b:0"), "m2": Share()}
    assert not workers.rebalance(share("a", "b", "a:0", "b:0"))
    assert workers.held == {"m1": share("b", "b:0"), "m2": share("a", "a:0")}


def test_the_work_of_a_member_that_has_gone_waits_for_it() -> None:
    workers = Workers(1000)
    workers.held = {"m1": Share(), "m2": Share()}
    workers.settle(share("a", "b"))
    gone = workers.held.pop("m2")
    workers.rebalance(share("a", "b"))
    assert (workers.delay_ms, workers.held) == (1000, {"m1": share("a")})
    workers.now_ms += 400
    workers.held["m3"] = Share()
    workers.rebalance(share("a", "b"))
    assert (workers.delay_ms, workers.held["m3"]) == (600, Share())
    workers.now_ms += 600
    workers.rebalance(share("a", "b"))
    assert (workers.delay_ms, workers.held["m3"]) == (0, gone)


def test_the_work_of_a_member_goes_out_at_once_without_a_delay() -> None:
    workers = Workers(0)
    workers.held = {"m1": Share(), "m2": Share()}
    workers.settle(share("a", "b", "c"))
    del workers.held["m2"]
    workers.rebalance(share("a", "b", "c"))
    assert workers.held == {"m1": share("a", "b", "c")}


@pytest.mark.parametrize("seed", range(60))
def test_every_connector_and_task_is_with_one_member(seed: int) -> None:
    chance = random.Random(seed)
    workers = Workers(chance.choice([0, 50, 1000]))
    workers.held = {"m0": Share()}
    configured = Share()
    for step in range(30):
        match chance.randrange(5):
            case 0:
                workers.held[f"m{step}"] = Share()
            case 1 if len(workers.held) > 1:
                del workers.held[chance.choice(sorted(workers.held))]
            case 2 if configured.connectors:
                gone = chance.choice(sorted(configured.connectors))
                configured -= share(gone, *(f"{gone}:{number}" for number in range(4)))
            case _:
                name = f"c{step}"
                configured |= share(name, *(f"{name}:{number}" for number in range(chance.randrange(4))))
        if chance.random() < 0.7:
            workers.rebalance(configured)
            for member, one in workers.held.items():
                others = union(each for other, each in workers.held.items() if other != member)
                assert not one & others
        workers.now_ms += chance.randrange(300)
    workers.settle(configured)
    workers.now_ms += 2000
    workers.settle(configured)
    assert union(workers.held.values()) == configured
    for count in (
        [len(each.connectors) for each in workers.held.values()],
        [len(each.tasks) for each in workers.held.values()],
    ):
        assert max(count) - min(count) <= 1


def test_signatures() -> None:
    headers = {name.lower(): text for name, text in signing.signed(b"[]", b"key").items()}
    found = signing.signature_of(headers)
    assert found is not None
    assert signing.is_valid(b"[]", *found, b"key")
    assert not signing.is_valid(b"[{}]", *found, b"key")
    assert signing.signature_of({}) is None
    with pytest.raises(ValueError, match="HmacMD5"):
        signing.signature_of({**headers, "x-connect-request-signature-algorithm": "HmacMD5"})
