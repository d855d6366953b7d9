"""ConsumerGroupHeartbeat and ConsumerGroupDescribe on a broker: requests that are refused before the group is looked
up, versions, configurations. tests/group/consumer has the groups' own behaviour, tests/interop compares it with
Kafka's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kcli.protocol.error_code import ErrorCode
from tests.broker.api.test_groups import QUICK, coordinator, create_topic
from tests.broker.running import RunningNode, running_node

JOINS: dict[str, Any] = {
    "group_id": "g",
    "member_id": "m",
    "member_epoch": 0,
    "rebalance_timeout": 60_000,
    "subscribed_topic_names": ("t",),
    "topic_partitions": (),
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with running_node(tmp_path_factory.mktemp("consumer-groups") / "d", None, **QUICK) as running:
        create_topic(running, "t")
        with running.client() as client:
            coordinator(client)
        yield running


def beat(node: RunningNode, version: int = 1, **request: Any) -> dict[str, Any]:
    with node.client() as client:
        return client.call("consumer_group_heartbeat", version, **JOINS | request)


def describe(node: RunningNode, *groups: str, version: int = 1) -> list[dict[str, Any]]:
    with node.client() as client:
        request = {"group_ids": groups, "include_authorized_operations": True}
        found: list[dict[str, Any]] = client.call("consumer_group_describe", version, **request)["groups"]
    return found


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"group_id": " "}, "GroupId can't be empty."),
        ({"instance_id": ""}, "InstanceId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"rebalance_timeout": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"topic_partitions": None}, "TopicPartitions must be empty when (re-)joining."),
        (
            {"subscribed_topic_names": None},
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        ({"member_epoch": -2}, "InstanceId can't be null."),
        ({"member_epoch": -3}, "MemberEpoch is invalid."),
    ],
)
def test_invalid(node: RunningNode, request_: dict[str, Any], message: str) -> None:
    answer = beat(node, **request_)
    assert (answer["error_code"], answer["error_message"]) == (ErrorCode.INVALID_REQUEST, message)


def test_unknown_assignor(node: RunningNode) -> None:
    answer = beat(node, server_assignor="mine")
    message = "ServerAssignor mine is not supported. Supported assignors: uniform, range."
    assert (answer["error_code"], answer["error_message"]) == (ErrorCode.UNSUPPORTED_ASSIGNOR, message)


def test_versions(node: RunningNode) -> None:
    """Before version 1 the coordinator may give a member its id."""
    first = beat(node, 0, group_id="old", member_id="")
    assert (first["error_code"], len(first["member_id"]), first["member_epoch"]) == (0, 22, 2)
    again = beat(node, 0, group_id="old", member_id=first["member_id"], member_epoch=2, topic_partitions=None)
    assert (again["error_code"], again["member_epoch"], again["assignment"]) == (0, 2, None)
    for version in (0, 1):
        (group,) = describe(node, "old", version=version)
        assert (group["error_code"], group["group_state"], group["group_epoch"]) == (0, "Stable", 2)
        (member,) = group["members"]
        assert member["assignment"] == member["target_assignment"]
        assert member.get("member_type", 1) == 1
        assert group["authorized_operations"] > 0


def test_described_as_they_were_asked_for(node: RunningNode) -> None:
    codes = [(each["group_id"], each["error_code"], each["error_message"]) for each in describe(node, "", "nobody")]
    not_found = ErrorCode.GROUP_ID_NOT_FOUND, "Group nobody not found."
    assert codes == [("", ErrorCode.INVALID_GROUP_ID, None), ("nobody", *not_found)]


def test_groups_settings(node: RunningNode) -> None:
    entries = ({"name": "consumer.heartbeat.interval.ms", "config_operation": 0, "value": "7000"},)
    resource = {"resource_type": 32, "resource_name": "slow", "configs": entries}
    with node.client() as client:
        client.call("incremental_alter_configs", 1, resources=(resource,), validate_only=False)
    assert beat(node, group_id="slow")["heartbeat_interval"] == 7000
    assert beat(node, group_id="other")["heartbeat_interval"] == 5000


def test_protocol_is_off(tmp_path_factory: pytest.TempPathFactory) -> None:
    options = QUICK | {"group_coordinator_rebalance_protocols": "classic"}
    with running_node(tmp_path_factory.mktemp("classic-only") / "d", None, **options) as node:
        assert beat(node)["error_code"] == ErrorCode.UNSUPPORTED_VERSION
        (group,) = describe(node, "g")
        assert group["error_code"] == ErrorCode.UNSUPPORTED_VERSION
