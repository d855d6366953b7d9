"""What the recorded answers lack: quotas, switches, fenced brokers, producer ids."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from kcli.broker.broker import Broker
from kcli.broker.coordinators.producer_ids import ProducerIds
from kcli.broker.wire.messages import Message
from kcli.metadata.changes import QuotaEntity
from kcli.metadata.producer_ids import BLOCK_SIZE, LONG_MAX, next_block
from kcli.metadata.registration_control import begin_controlled_shutdown, fence_broker
from kcli.metadata.result import Refused
from kcli.protocol.error_code import ErrorCode
from kcli.testing.wire import plain
from tests.metadata.answer_cases import DELETE, INIT_PRODUCER_ID, METADATA, PARTITIONS, create, new_topic
from tests.metadata.node import NODE_ID, Metadata, answer, call, node, started
from tests.metadata.test_answers import PROPERTIES


def fresh(**properties: str) -> Broker:
    own = {name.replace("_", "."): value for name, value in properties.items()}
    return node({**PROPERTIES, **own}, started())


def ask(broker: Broker, api_key: int, version: int, body: dict[str, Any]) -> dict[str, Any]:
    """Return the response as plain JSON, with `throttle` set as the dispatcher does."""

    async def run() -> tuple[Message, int]:
        asked = call(api_key, version, body)
        return await answer(broker, asked), asked.throttle_ms

    response, throttle_ms = asyncio.run(run())
    found: dict[str, Any] = {**plain(response), "throttle": throttle_ms}
    return found


def codes(response: dict[str, Any], field: str = "topics") -> list[int]:
    return [each["error_code"] for each in response[field]]


def limited() -> Broker:
    """A node on which clients may change one partition a second, and eleven at once."""
    broker = fresh()
    quotas: dict[QuotaEntity, dict[str, float]] = {(("client-id", None),): {"controller_mutation_rate": 1.0}}
    broker.quotas.update(quotas)
    return broker


def test_partitions_beyond_the_quota_are_refused() -> None:
    broker = limited()
    assert codes(ask(broker, *create(new_topic("a", 15), new_topic("b")))) == [0, 89]
    more = {"topics": [{"name": "a", "count": 16, "assignments": None}], "timeout": 1, "validate_only": False}
    found = ask(broker, PARTITIONS, 3, more)
    assert (codes(found, "results"), found["results"][0]["error_message"]) == ([89], None)
    assert found["throttle"] == 4000
    found = ask(broker, DELETE, 6, {"topics": [{"name": "a", "topic_id": None}], "timeout": 1})
    assert (codes(found, "responses"), found["throttle"]) == ([89], 4000)
    assert set(broker.image.topics) == {"a"}


def test_old_clients_are_only_throttled() -> None:
    broker = limited()
    found = ask(broker, *create(new_topic("a", 15), new_topic("b"), version=5))
    assert (codes(found), found["throttle"]) == ([0, 0], 5000)


def test_deletion_can_be_switched_off() -> None:
    broker = fresh(delete_topic_enable="false")
    assert codes(ask(broker, DELETE, 1, {"topic_names": ["a"], "timeout": 1}), "responses") == [42]
    assert codes(ask(broker, DELETE, 5, {"topic_names": ["a"], "timeout": 1}), "responses") == [73]


def named(*names: str, create: bool = True) -> dict[str, Any]:
    return {"topics": [{"name": name, "topic_id": None} for name in names], "allow_auto_topic_creation": create}


def test_topics_are_created_for_those_who_ask_and_may() -> None:
    broker = fresh(num_partitions="3")
    for version, body in ((13, named("a", create=False)), (13, named("..", "b/c"))):
        ask(broker, METADATA, version, body)
        assert not broker.image.topics
    assert codes(ask(broker, METADATA, 13, named("a", "__consumer_offsets"))) == [3, 3]
    assert len(broker.image.topics["a"].partitions) == 3
    assert len(broker.image.topics["__consumer_offsets"].partitions) == 5
    assert broker.image.topic_configs("__consumer_offsets")["cleanup.policy"] == "compact"
    assert codes(ask(broker, METADATA, 13, named("a", "__consumer_offsets"))) == [0, 0]
    assert [each["is_internal"] for each in ask(broker, METADATA, 13, {"topics": None})["topics"]] == [False, True]


def test_no_topics_by_asking_where_it_is_switched_off_or_nothing_is_written() -> None:
    broker = fresh(auto_create_topics_enable="false")
    assert codes(ask(broker, METADATA, 13, named("a"))) == [3]
    broker = fresh()
    broker.is_read_only = True
    assert codes(ask(broker, METADATA, 13, named("a"))) == [3]
    assert not broker.image.topics


def test_too_few_brokers_for_a_topic_that_was_asked_for() -> None:
    broker = fresh(default_replication_factor="3")
    assert codes(ask(broker, METADATA, 13, named("a"))) == [3]
    assert not broker.image.topics


def test_a_partition_without_a_leader() -> None:
    broker = fresh()
    ask(broker, *create(new_topic("a")))
    metadata = broker.metadata
    assert isinstance(metadata, Metadata)
    metadata.apply(begin_controlled_shutdown(broker.image, NODE_ID, {}))
    metadata.apply(fence_broker(broker.image, NODE_ID, {}))
    found = ask(broker, METADATA, 13, named("a"))
    [partition] = found["topics"][0]["partitions"]
    assert (found["brokers"], found["controller_id"]) == ([], -1)
    assert (partition["error_code"], partition["leader_id"]) == (5, -1)
    assert (partition["replica_nodes"], partition["isr_nodes"], partition["offline_replicas"]) == ([1], [], [1])
    [partition] = ask(broker, METADATA, 0, {"topics": [{"name": "a"}]})["topics"][0]["partitions"]
    assert (partition["error_code"], partition["replica_nodes"]) == (5, [])


def test_a_broker_without_the_clients_listener() -> None:
    broker = fresh()
    ask(broker, *create(new_topic("a")))
    broker.advertised = {}

    async def run(version: int, body: dict[str, Any]) -> dict[str, Any]:
        asked = call(METADATA, version, body)
        asked.listener = "OTHER"
        found: dict[str, Any] = plain(await answer(broker, asked))
        return found

    for version, body, code in ((13, named("a", create=False), 72), (5, {"topics": [{"name": "a"}]}, 5)):
        [partition] = asyncio.run(run(version, body))["topics"][0]["partitions"]
        assert (partition["error_code"], partition["leader_id"]) == (code, -1)


def test_every_producer_gets_an_id_of_its_own() -> None:
    broker = fresh()
    metadata = broker.metadata

    async def take(count: int) -> list[int]:
        ids = ProducerIds(broker.groups.context, broker.controller)
        return await asyncio.gather(*(ids.next() for _ in range(count)))

    first = asyncio.run(take(2 * BLOCK_SIZE + 1))
    assert first == list(range(2 * BLOCK_SIZE + 1))
    assert metadata.image.next_producer_id == 3 * BLOCK_SIZE
    assert asyncio.run(take(1)) == [3 * BLOCK_SIZE]


def test_no_producer_ids_are_left() -> None:
    broker = fresh()
    metadata = broker.metadata
    assert isinstance(metadata, Metadata)
    metadata.apply([("ProducerIdsRecord", 0, {"brokerId": 1, "brokerEpoch": 1, "nextProducerId": LONG_MAX - 999})])
    found = ask(broker, INIT_PRODUCER_ID, 5, {"transactional_id": None, "transaction_timeout": 1})
    assert found["error_code"] == ErrorCode.UNKNOWN_SERVER_ERROR.value
    with pytest.raises(Refused, match="Exhausted all producerIds"):
        next_block(broker.image, 1, 1)


def test_a_transactional_producer_has_no_coordinator_yet() -> None:
    found = ask(fresh(), INIT_PRODUCER_ID, 5, {"transactional_id": "t", "transaction_timeout": 1})
    assert (found["error_code"], found["producer_id"]) == (ErrorCode.NOT_COORDINATOR.value, -1)


def test_topics_created_at_once_do_not_get_in_each_others_way() -> None:
    broker = fresh()

    async def run() -> list[Any]:
        asked = [call(*create(new_topic("same"))) for _ in range(3)]
        return [plain(each) for each in await asyncio.gather(*(answer(broker, each) for each in asked))]

    assert sorted(codes(each)[0] for each in asyncio.run(run())) == [0, 36, 36]
    assert all(isinstance(each.id, UUID) for each in broker.image.topics.values())
