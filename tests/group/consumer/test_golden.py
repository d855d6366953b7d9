"""Consumer groups that real Kafka wrote are described as by its tools, and their members continue."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

import pytest

from kcli.broker.coordinators.log import read_segment
from kcli.group.config import GroupConfig
from kcli.group.machine import GroupMachine
from kcli.group.metadata import ConsumerSettings
from kcli.group.requests import (
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswer,
    DescribeConsumerGroup,
    DescribedConsumerGroup,
)
from kcli.inspector.cluster_metadata import read_image
from kcli.java.hashing import partition_of
from tests.conftest import GOLDEN

NOW_MS = 1_800_000_000_000
DATA = GOLDEN / "groups" / "data"
GROUPS: dict[str, dict[str, Any]] = {
    name: group
    for name, group in json.loads((GOLDEN / "groups/expected/groups.json").read_text()).items()
    if group.get("type") == "Consumer"
}
PARTITIONS = 4


class Image:
    """The topics of the golden cluster, without racks."""

    version = 1_000

    def __init__(self) -> None:
        image = read_image(DATA)
        assert image is not None
        self.topics = {topic.name: topic for topic in image.topics.values()}
        self.names = {topic.id: topic.name for topic in self.topics.values()}

    def topic_names(self) -> Iterable[str]:
        return self.topics

    def topic_id(self, name: str) -> UUID | None:
        return self.topics[name].id if name in self.topics else None

    def topic_name(self, topic_id: UUID) -> str | None:
        return self.names.get(topic_id)

    def partition_count(self, topic_id: UUID) -> int:
        return len(self.topics[self.names[topic_id]].partitions)

    def racks(self, topic_id: UUID) -> Mapping[int, Sequence[str]]:
        return dict.fromkeys(range(self.partition_count(topic_id)), ())

    def settings(self, group_id: str) -> ConsumerSettings:  # noqa: ARG002 (the signature of what it stands for)
        return ConsumerSettings()


@pytest.fixture
def machine(request: pytest.FixtureRequest) -> GroupMachine:
    machine = GroupMachine(GroupConfig(), lambda: "id", Image())
    number = partition_of(request.node.callspec.params["name"], PARTITIONS)
    for batch in read_segment(DATA / f"__consumer_offsets-{number}/00000000000000000000.log"):
        for offset, record in batch.records:
            machine.replay(record, offset, -1, -1)
    machine.loaded(NOW_MS)
    return machine


@pytest.mark.parametrize("name", GROUPS)
def test_described(machine: GroupMachine, name: str) -> None:
    expected = GROUPS[name]
    group: DescribedConsumerGroup = machine.handle(1, DescribeConsumerGroup(group_id=name), NOW_MS).answers[0][1]
    assert (group.state, group.assignor) == (expected["state"], expected["assignor"])
    assert (group.epoch, group.assignment_epoch) == (expected["group_epoch"], expected["target_assignment_epoch"])
    names = Image().names
    found = {
        each.member_id: {
            "member_id": each.member_id,
            "client_id": each.client_id,
            "host": each.client_host,
            "instance_id": each.instance_id,
            "member_epoch": each.epoch,
            "assignment": sorted(
                f"{names[topic_id]}-{number}" for topic_id, numbers in each.assignment.items() for number in numbers
            ),
        }
        for each in group.members
    }
    assert found == {
        each["member_id"]: {**each, "assignment": sorted(each["assignment"])} for each in expected["members"]
    }


@pytest.mark.parametrize("name", GROUPS)
def test_members_go_on(machine: GroupMachine, name: str) -> None:
    """The hash of the metadata is the one that Kafka computed, so nothing is written."""
    for member in GROUPS[name]["members"]:
        request = ConsumerHeartbeat(
            group_id=name,
            member_id=member["member_id"],
            epoch=member["member_epoch"],
            instance_id=member["instance_id"],
            client_id=member["client_id"],
            client_host=member["host"],
        )
        outcome = machine.handle(1, request, NOW_MS)
        answer: ConsumerHeartbeatAnswer = outcome.answers[0][1]
        assert (answer.error, answer.epoch, outcome.batches) == (0, member["member_epoch"], [])
