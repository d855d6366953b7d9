"""Metadata logs and quorum-states that real Kafka wrote: raft loads them, and writes the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from formats.control_record import ControlType
from formats.quorum_state import build, parse
from formats.record_batch import parse_batch
from kcli.raft import controls
from kcli.raft.election import Election, parse_election
from kcli.raft.raft import Raft
from kcli.raft.voters import parse_voters
from tests.conftest import GOLDEN
from tests.raft.driver import config
from tests.raft.memory import Batch, Disk
from tests.raft.sim.world import CLUSTER, LISTENER, Node, World, endpoint

KRAFT: Final = GOLDEN / "kraft"
LOG: Final = "__cluster_metadata-0"
CONTROLLERS: Final = (100, 101, 102)


def batches(directory: Path) -> list[bytes]:
    """The batches of a log."""
    found = []
    for path in sorted(directory.glob("*.log")):
        data, position = path.read_bytes(), 0
        while position < len(data):
            size = 12 + int.from_bytes(data[position + 8 : position + 12])
            found.append(data[position : position + size])
            position += size
    return found


def disk_of(directory: Path) -> Disk:
    """Return the log in memory, without its snapshots."""
    disk, chain = Disk(), 0
    for data in batches(directory):
        chain = hash((chain, data)) & (1 << 63) - 1
        disk.batches.append(Batch(int.from_bytes(data[:8]), int.from_bytes(data[12:16]), data, chain))
    disk.flushed_offset = disk.batches[-1].end_offset
    disk.state = (directory / "quorum-state").read_bytes()
    return disk


DIRECTORIES = [each.parent for each in sorted(KRAFT.glob(f"*/{LOG}/quorum-state"))]


@pytest.mark.parametrize("directory", DIRECTORIES, ids=lambda each: each.parent.name)
def test_quorum_state_is_written_as_it_was(directory: Path) -> None:
    data = (directory / "quorum-state").read_bytes()
    state = parse(data)
    election = parse_election(state)
    assert election.epoch > 0
    assert build(election.state(state.data_version, state.current_voters or ())) == data


@pytest.mark.parametrize("directory", DIRECTORIES, ids=lambda each: each.parent.name)
def test_control_records_are_written_as_they_were(directory: Path) -> None:
    kinds = set()
    for data in batches(directory):
        if not data[22] & controls.CONTROL:
            assert not list(controls.in_records(data))
            continue
        stored = parse_batch(data).records
        read = list(controls.in_records(data))
        assert [offset for offset, _ in read] == [int.from_bytes(data[:8]) + each.offset_delta for each in stored]
        for record, (_, control) in zip(stored, read, strict=True):
            kinds.add(control.type)
            value = control.value
            if control.type is ControlType.LEADER_CHANGE:
                ids = [[each["voterId"] for each in value[name]] for name in ("voters", "grantingVoters")]
                written = controls.leader_change(value["leaderId"], *ids)
            elif control.type is ControlType.KRAFT_VERSION:
                written = controls.kraft_version(value["kRaftVersion"])
            else:
                written = controls.kraft_voters(parse_voters(value))
            assert written == (record.key, record.value)
    assert ControlType.LEADER_CHANGE in kinds
    assert (ControlType.KRAFT_VOTERS in kinds) == (directory.parent.name == "dynamic-quorum")


def test_a_batch_of_control_records_is_laid_out_as_it_was() -> None:
    directory = next(each for each in DIRECTORIES if each.parent.name == "dynamic-quorum")
    data = next(each for each in batches(directory) if each[22] & controls.CONTROL)
    stored = parse_batch(data)
    records = [(each.key, each.value) for each in stored.records]
    made = controls.batch(records, stored.header.base_timestamp)
    made[12:16] = data[12:16]
    assert bytes(made) == data


def test_kafkas_three_controllers_go_on_here() -> None:
    """Three nodes of this project's raft start with the logs and quorum-states of Kafka's controllers: they elect a
    leader, and agree."""
    world = World(1)
    voters = {each: ("host", each) for each in CONTROLLERS}
    for each in CONTROLLERS:
        disk = disk_of(KRAFT / f"controller-{each}" / LOG)
        fields: dict[str, Any] = {"cluster_id": CLUSTER, "listener": LISTENER, "voters": voters}
        world.nodes[each] = Node(config(each, endpoints=(endpoint(each),), **fields), disk)
    saved = {each: parse_election(parse(node.disk.state or b"")) for each, node in world.nodes.items()}
    assert set(saved.values()) >= {Election(3, 100)}
    ends = {len(node.disk.batches) for node in world.nodes.values()}
    world.checks.committed[0] = 0
    for node in world.nodes.values():
        world.start(node)
    world.run(6000)
    rafts = [node.raft for node in world.running if isinstance(node.raft, Raft)]
    assert len(rafts) == len(CONTROLLERS)
    [leader] = {raft.leader_id for raft in rafts}
    [epoch] = {raft.epoch for raft in rafts}
    [committed] = {raft.committed_offset for raft in rafts}
    assert leader in CONTROLLERS
    assert epoch > 3
    assert {node.log.end_offset for node in world.running if node.log is not None} == {committed}
    assert min(ends) < len(world.nodes[100].disk.batches)
