"""Requests of brokers and tools to the active controller, through its handlers, in every version."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from kcli.broker.broker import Broker
from kcli.broker.controller.active import ActiveController
from kcli.broker.metadata.errors import NotController
from kcli.broker.wire.apis import APIS
from kcli.metadata.features import SUPPORTED_FEATURES
from kcli.metadata.partition import from_uuid
from kcli.protocol.error_code import ErrorCode
from kcli.testing.wire import plain
from tests.metadata.answer_cases import create
from tests.metadata.node import DIRECTORY, NODE_ID, Metadata, answer, call, node, started
from tests.metadata.test_answers import PROPERTIES

KEYS = {api.name: api.key for api in APIS.values()}
INCARNATION = from_uuid(UUID(int=0xFEED0000))
HOME = from_uuid(UUID(int=0xD0D0))


def fresh() -> Broker:
    """Return a controller with broker 1, and topic a of one partition on it."""
    broker = node(PROPERTIES, started())
    topic = {"name": "a", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    key, version, body = create(topic)
    ask(broker, next(each.name for each in APIS.values() if each.key == key), version, **body)
    return broker


def ask(broker: Broker, api: str, version: int, **body: Any) -> dict[str, Any]:
    async def run() -> dict[str, Any]:
        broker.active = ActiveController(broker.config, broker.metadata, lambda: None)
        broker.active.start()
        try:
            found: dict[str, Any] = plain(await answer(broker, call(KEYS[api], version, body)))
        finally:
            broker.active.stop()
        return found

    return asyncio.run(run())


def registration(version: int, **fields: Any) -> dict[str, Any]:
    features = [
        {"name": name, "min_supported_version": least, "max_supported_version": most}
        for name, (least, most) in SUPPORTED_FEATURES.items()
    ]
    listener = {"name": "PLAINTEXT", "host": "h", "port": 9, "security_protocol": 0}
    known = {"broker_id": 2, "cluster_id": "cluster", "incarnation_id": INCARNATION, "rack": "r"}
    since: dict[int, dict[str, Any]] = {2: {"log_dirs": [HOME]}, 3: {"previous_broker_epoch": -1}}
    newer = {name: each for least, added in since.items() if version >= least for name, each in added.items()}
    return {**known, "listeners": [listener], "features": features, **newer, **fields}


@pytest.mark.parametrize("version", [2, 3, 4])
def test_a_broker_registers(version: int) -> None:
    broker = fresh()
    found = ask(broker, "broker_registration", version, **registration(version))
    state = broker.image.brokers[2]
    assert (found["error_code"], found["broker_epoch"]) == (0, state.epoch)
    assert (state.rack, state.fenced, state.endpoints["PLAINTEXT"].port) == ("r", True, 9)
    beat = {"broker_id": 2, "broker_epoch": state.epoch, "current_metadata_offset": broker.image.offset}
    for older in (0, 1, 2):
        found = ask(broker, "broker_heartbeat", older, **beat, want_fence=older < 2, want_shut_down=False)
        assert found == {
            "throttle_time": 0,
            "error_code": 0,
            "is_caught_up": True,
            "is_fenced": older < 2,
            "should_shut_down": False,
        }


def test_registrations_that_are_refused() -> None:
    broker = fresh()
    cases: list[tuple[dict[str, Any], ErrorCode]] = [
        ({"cluster_id": "other"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"is_migrating_zk_broker": True}, ErrorCode.BROKER_ID_NOT_REGISTERED),
        ({"log_dirs": [from_uuid(DIRECTORY)]}, ErrorCode.INVALID_REGISTRATION),
        ({"features": []}, ErrorCode.INVALID_REGISTRATION),
    ]
    for fields, code in cases:
        found = ask(broker, "broker_registration", 4, **registration(4, **fields))
        assert (found["error_code"], found["broker_epoch"]) == (code, -1)
    assert ask(broker, "broker_registration", 0, **registration(0))["error_code"] == ErrorCode.INVALID_REGISTRATION


@pytest.mark.parametrize("protocol", [-(2**15), -1, 4, 77, 2**15 - 1])
def test_a_security_protocol_that_there_is_not(protocol: int) -> None:
    """Kafka's controller also refuses it, since no node of Kafka could read the record."""
    broker = fresh()
    listeners = [{"name": "PLAINTEXT", "host": "h", "port": 9, "security_protocol": protocol}]
    found = ask(broker, "broker_registration", 4, **registration(4, listeners=listeners))
    assert (found["error_code"], found["broker_epoch"]) == (-1, -1)
    body = {"controller_id": 5, "incarnation_id": INCARNATION, "zk_migration_ready": False, "features": []}
    found = ask(broker, "controller_registration", 0, **body, listeners=listeners)
    assert found["error_code"] == ErrorCode.UNKNOWN_SERVER_ERROR
    assert found["error_message"] == f"Unknown security protocol {protocol} in listener PLAINTEXT"
    assert 5 not in broker.image.controllers


def test_a_heartbeat_of_nobody() -> None:
    beat = {"broker_id": 7, "broker_epoch": 1, "current_metadata_offset": 1}
    found = ask(fresh(), "broker_heartbeat", 2, **beat, want_fence=False, want_shut_down=False)
    assert (found["error_code"], found["is_fenced"]) == (ErrorCode.STALE_BROKER_EPOCH, True)


def test_a_controller_registers() -> None:
    broker = fresh()
    listener = {"name": "CONTROLLER", "host": "h", "port": 9, "security_protocol": 0}
    body = {"controller_id": 5, "incarnation_id": INCARNATION, "zk_migration_ready": False, "features": []}
    assert ask(broker, "controller_registration", 0, **body, listeners=[listener])["error_code"] == 0
    assert broker.image.controllers[5].endpoints["CONTROLLER"].host == "h"
    broker.image.features["metadata.version"] = 14
    assert (
        ask(broker, "controller_registration", 0, **body, listeners=[listener])["error_code"]
        == ErrorCode.UNSUPPORTED_VERSION
    )


def test_a_broker_is_unregistered() -> None:
    broker = fresh()
    assert ask(broker, "unregister_broker", 0, broker_id=2)["error_code"] == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert ask(broker, "unregister_broker", 0, broker_id=NODE_ID)["error_code"] == 0
    assert not broker.image.brokers


def epoch_of(broker: Broker) -> int:
    return broker.image.brokers[NODE_ID].epoch


@pytest.mark.parametrize("version", [2, 3])
def test_a_leader_alters_its_partition(version: int) -> None:
    broker = fresh()
    isr = {"new_isr": [1]} if version == 2 else {"new_isr_with_epochs": [{"broker_id": 1, "broker_epoch": -1}]}
    partition = {"partition_index": 0, "leader_epoch": 0, "partition_epoch": 0, "leader_recovery_state": 0, **isr}
    topic_id = from_uuid(broker.image.topics["a"].id)
    topics = [
        {"topic_id": topic_id, "partitions": [partition, {**partition, "partition_index": 1}]},
        {"topic_id": HOME, "partitions": [partition]},
    ]
    found = ask(broker, "alter_partition", version, broker_id=1, broker_epoch=epoch_of(broker), topics=topics)
    state = {"leader_id": 1, "leader_epoch": 0, "isr": [1], "leader_recovery_state": 0, "partition_epoch": 0}
    nothing = {"leader_id": 0, "leader_epoch": 0, "isr": [], "leader_recovery_state": 0, "partition_epoch": 0}
    assert found["error_code"] == 0
    assert found["topics"] == [
        {
            "topic_id": topic_id,
            "partitions": [
                {"partition_index": 0, "error_code": 0, **state},
                {"partition_index": 1, "error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, **nothing},
            ],
        },
        {
            "topic_id": HOME,
            "partitions": [{"partition_index": 0, "error_code": ErrorCode.UNKNOWN_TOPIC_ID, **nothing}],
        },
    ]
    found = ask(broker, "alter_partition", version, broker_id=1, broker_epoch=3, topics=topics)
    assert (found["error_code"], found["topics"]) == (ErrorCode.STALE_BROKER_EPOCH, [])


def test_reassignments() -> None:
    broker = fresh()
    ask(broker, "broker_registration", 4, **registration(4))
    topics = [{"name": "a", "partitions": [{"partition_index": 0, "replicas": [2]}]}]
    found = ask(broker, "alter_partition_reassignments", 0, timeout=1, topics=topics)
    assert (found["error_code"], found["error_message"]) == (0, None)
    assert found["responses"] == [
        {"name": "a", "partitions": [{"partition_index": 0, "error_code": 0, "error_message": None}]}
    ]
    moving = ask(broker, "list_partition_reassignments", 0, timeout=1, topics=None)
    assert moving["topics"] == [
        {
            "name": "a",
            "partitions": [
                {"partition_index": 0, "replicas": [2, 1], "adding_replicas": [2], "removing_replicas": [1]}
            ],
        }
    ]
    more = [{"name": "a", "partitions": [{"partition_index": 0, "replicas": [1, 2]}]}]
    found = ask(
        broker,
        "alter_partition_reassignments",
        1,
        timeout=1,
        allow_replication_factor_change=False,
        topics=more,
    )
    assert found["allow_replication_factor_change"] is False
    assert found["responses"][0]["partitions"][0]["error_code"] == ErrorCode.INVALID_REPLICATION_FACTOR
    back = [{"name": "a", "partitions": [{"partition_index": 0, "replicas": None}]}]
    ask(broker, "alter_partition_reassignments", 1, timeout=1, topics=back)
    assert ask(broker, "list_partition_reassignments", 0, timeout=1, topics=None)["topics"] == []


def test_blocks_of_producer_ids() -> None:
    broker = fresh()
    found = ask(broker, "allocate_producer_ids", 0, broker_id=1, broker_epoch=epoch_of(broker))
    assert (found["error_code"], found["producer_id_start"], found["producer_id_len"]) == (0, 0, 1000)
    found = ask(broker, "allocate_producer_ids", 0, broker_id=1, broker_epoch=77)
    assert found["error_code"] == ErrorCode.STALE_BROKER_EPOCH


def test_replicas_are_assigned_to_directories() -> None:
    broker = fresh()
    topic_id = from_uuid(broker.image.topics["a"].id)
    partitions = [{"partition_index": each} for each in (0, 1)]
    topics = [{"topic_id": topic_id, "partitions": partitions}, {"topic_id": HOME, "partitions": partitions[:1]}]
    known = {"broker_id": 1, "broker_epoch": epoch_of(broker)}
    found = ask(broker, "assign_replicas_to_dirs", 0, **known, directories=[{"id_": HOME, "topics": topics}])
    assert found["error_code"] == 0
    ((first, second),) = [each["topics"] for each in found["directories"]]
    assert [each["error_code"] for each in first["partitions"]] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert [each["error_code"] for each in second["partitions"]] == [ErrorCode.UNKNOWN_TOPIC_ID]
    state = broker.image.topics["a"].partitions[0]
    assert [from_uuid(each) for each in state.directories] == [HOME]
    assert (state.leader, state.isr) == (-1, ()), "no such directory is online"
    found = ask(broker, "assign_replicas_to_dirs", 0, **{**known, "broker_epoch": 3}, directories=[])
    assert found["error_code"] == ErrorCode.STALE_BROKER_EPOCH


def test_a_controller_that_is_not_active_says_so() -> None:
    broker = fresh()
    assert isinstance(broker.metadata, Metadata)
    broker.metadata.is_leader = False
    with pytest.raises(NotController):
        ask(broker, "broker_registration", 4, **registration(4))


def test_topics_over_several_racks() -> None:
    broker = fresh()
    for node_id, rack in ((2, "a"), (3, "b"), (4, "b")):
        fields = {"broker_id": node_id, "rack": rack, "log_dirs": [from_uuid(UUID(int=0xD0D0 + node_id))]}
        ask(
            broker,
            "broker_registration",
            4,
            **registration(4, **fields, incarnation_id=from_uuid(UUID(int=999 + node_id))),
        )
        beat = {"broker_epoch": broker.image.brokers[node_id].epoch, "current_metadata_offset": broker.image.offset}
        ask(broker, "broker_heartbeat", 2, broker_id=node_id, **beat, want_fence=False, want_shut_down=False)
    ask(broker, "unregister_broker", 0, broker_id=1)
    new = {"name": "racks", "num_partitions": 6, "replication_factor": 2, "assignments": [], "configs": []}
    found = ask(broker, "create_topics", 7, topics=[new], timeout=1, validate_only=False)["topics"][0]
    assert (found["error_code"], found["num_partitions"], found["replication_factor"]) == (0, 6, 2)
    more = {"name": "racks", "count": 8, "assignments": [{"broker_ids": [3, 2]}, {"broker_ids": [2, 4]}]}
    assert not ask(broker, "create_partitions", 3, topics=[more], timeout=1, validate_only=False)["results"][0][
        "error_code"
    ]
    partitions = broker.image.topics["racks"].partitions
    assert (partitions[6].replicas, partitions[7].leader) == ((3, 2), 2)
    for each in partitions.values():
        assert {broker.image.brokers[replica].rack for replica in each.replicas} == {"a", "b"}
        assert each.isr == each.replicas
    one = [{"topic": "racks", "partitions": [0, 7]}]
    found = ask(broker, "elect_leaders", 2, election_type=0, topic_partitions=one, timeout=1)
    results = found["replica_election_results"][0]["partition_result"]
    assert [each["error_code"] for each in results] == [ErrorCode.ELECTION_NOT_NEEDED] * 2
