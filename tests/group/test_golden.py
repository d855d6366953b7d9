"""The groups that real Kafka wrote, as its tools described them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from formats.message import parse
from kcli.broker.coordinators.log import read_segment
from kcli.broker.coordinators.runtime import _replay
from kcli.group.config import GroupConfig
from kcli.group.machine import GroupMachine
from kcli.group.requests import DescribedGroup, DescribeGroup, FetchAnswer, FetchOffsets, ListedGroup, ListGroups
from kcli.java.hashing import partition_of
from kcli.protocol.error_code import ErrorCode
from tests.conftest import GOLDEN

NOW_MS = 1_800_000_000_000
GROUPS: dict[str, dict[str, Any]] = json.loads((GOLDEN / "groups/expected/groups.json").read_text())
CLASSIC = [name for name, group in GROUPS.items() if group.get("type") == "Classic"]


@pytest.fixture(scope="module")
def machines() -> list[GroupMachine]:
    made = []
    for number in range(4):
        machine = GroupMachine(GroupConfig(), lambda: "id")
        for batch in read_segment(GOLDEN / f"groups/data/__consumer_offsets-{number}/00000000000000000000.log"):
            _replay(machine, batch)
        machine.loaded(NOW_MS)
        made.append(machine)
    return made


def ask(machines: list[GroupMachine], group_id: str, request: Any) -> Any:
    outcome = machines[partition_of(group_id, 4)].handle(1, request, NOW_MS)
    assert outcome.batches == []
    return outcome.answers[0][1]


def assigned(assignment: bytes) -> list[str]:
    if not assignment:
        return []
    version = int.from_bytes(assignment[:2])
    value = parse("ConsumerProtocolAssignment", version, assignment[2:])
    topics = value["assignedPartitions"]
    return sorted(f"{topic['topic']}-{number}" for topic in topics for number in topic["partitions"])


@pytest.mark.parametrize("name", CLASSIC)
def test_classic_groups(machines: list[GroupMachine], name: str) -> None:
    expected = GROUPS[name]
    group: DescribedGroup = ask(machines, name, DescribeGroup(group_id=name))
    assert (group.state, group.protocol) == (expected["state"], expected["assignor"])
    members = [
        {
            "member_id": each.member_id,
            "client_id": each.client_id,
            "host": each.client_host,
            "instance_id": each.instance_id,
            "assignment": assigned(each.assignment),
        }
        for each in group.members
    ]
    theirs = [{**each, "assignment": sorted(each["assignment"])} for each in expected["members"]]
    assert {str(each["member_id"]): each for each in members} == {each["member_id"]: each for each in theirs}


@pytest.mark.parametrize("name", GROUPS)
def test_offsets(machines: list[GroupMachine], name: str) -> None:
    answer: FetchAnswer = ask(machines, name, FetchOffsets(group_id=name, topics=None, require_stable=False))
    found = [
        [topic.name, each.partition, each.offset, each.metadata, None if each.leader_epoch < 0 else each.leader_epoch]
        for topic, offsets in answer.topics
        for each in offsets
    ]
    assert sorted(found) == sorted(GROUPS[name]["offsets"])


def test_groups_of_other_kinds(machines: list[GroupMachine]) -> None:
    listed: list[ListedGroup] = [
        each for machine in machines for each in machine.handle(1, ListGroups(), NOW_MS).answers[0][1]
    ]
    lines = (GOLDEN / "groups/expected/all-groups-list.txt").read_text().splitlines()[1:]
    expected = sorted((*line.split()[:2], "".join(line.split()[2:])) for line in lines)
    assert sorted((each.group_id, each.type.capitalize(), each.protocol_type) for each in listed) == expected
    consumers = {each.group_id: each.state for each in listed if each.type == "consumer"}
    assert consumers == {name: group["state"] for name, group in GROUPS.items() if group.get("type") == "Consumer"}
    assert ask(machines, "cg-deleted", DescribeGroup(group_id="cg-deleted")).error == ErrorCode.GROUP_ID_NOT_FOUND
    message = ask(machines, "ng-range", DescribeGroup(group_id="ng-range")).error_message
    assert message == "Group ng-range is not a classic group."
