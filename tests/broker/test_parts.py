"""Long requests are answered in parts, with other requests in between; the response is the same as without parts."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kcli.broker.controller.topic_creation import TopicCreation
from kcli.broker.dispatch.parts import PARTS, Merged, Parts, split
from kcli.broker.process.turns import Turns
from kcli.broker.wire.apis import APIS
from kcli.broker.wire.call import Call
from kcli.broker.wire.messages import messages
from kcli.protocol.error_code import ErrorCode
from kcli.testing.wire import message, plain
from tests.broker.api.test_groups import coordinator
from tests.broker.rounds import rounds_of
from tests.broker.running import RunningNode, running_node

COUNT = 5_000
TURNS_MIN = 5


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with running_node(tmp_path_factory.mktemp("node") / "data", auto_create_topics_enable="false") as found:
        with found.client() as client:
            topic = {"name": "orders", "num_partitions": 3, "replication_factor": 1, "assignments": [], "configs": []}
            client.call("create_topics", 7, topics=[topic], timeout=10_000, validate_only=False)
            for key_type in (0, 1):
                client.call("find_coordinator", 4, key_type=key_type, coordinator_keys=["a"])
        yield found


def names(count: int = COUNT) -> list[str]:
    return [f"n{i}" for i in range(count)]


DESCRIBED = {"configuration_keys": None}
LONG: dict[str, tuple[int, dict[str, Any]]] = {
    "produce": (9, {"acks": 1, "timeout": 1000, "transactional_id": None, "topic_data": [
        {"name": each, "partition_data": [{"index": 0, "records": None}]} for each in names()]}),
    "list_offsets": (6, {"replica_id": -1, "isolation_level": 0, "topics": [{"name": "orders", "partitions": [
        {"partition_index": i, "current_leader_epoch": -1, "timestamp": -1} for i in range(COUNT)]}]}),
    "metadata": (9, {"topics": [{"name": each} for each in names()], "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": False, "include_topic_authorized_operations": False}),
    "offset_fetch": (8, {"require_stable": False, "groups": [{"group_id": "g", "topics": [
        {"name": each, "partition_indexes": [0, 1]} for each in names(COUNT // 2)]}]}),
    "find_coordinator": (4, {"key_type": 0, "coordinator_keys": names()}),
    "describe_groups": (5, {"groups": names(COUNT), "include_authorized_operations": False}),
    "delete_groups": (2, {"groups_names": names(COUNT)}),
    "leave_group": (5, {"group_id": "g", "members": [
        {"member_id": each, "group_instance_id": None, "reason": None} for each in names()]}),
    "describe_configs": (4, {"include_synonyms": True, "include_documentation": False, "resources": [
        {"resource_type": 32, "resource_name": each, **DESCRIBED} for each in names(300)]}),
    "incremental_alter_configs": (1, {"validate_only": True, "resources": [
        {"resource_type": 2, "resource_name": each, "configs": [
            {"name": "retention.ms", "config_operation": 0, "value": "1"}]} for each in names(2000)]}),
    "create_topics": (7, {"timeout": 1000, "validate_only": True, "topics": [
        {"name": each, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        for each in names(3000)]}),
    "delete_topics": (5, {"timeout": 1000, "topic_names": names()}),
    "describe_transactions": (0, {"transactional_ids": names()}),
    "offset_for_leader_epoch": (4, {"replica_id": -1, "topics": [{"topic": each, "partitions": [
        {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]} for each in names()]}),
    "fetch": (12, {"replica_id": -1, "max_wait": 0, "min_bytes": 0, "max_bytes": 1 << 20, "isolation_level": 0,
        "session_id": 0, "session_epoch": 0, "forgotten_topics_data": [], "rack_id": "", "topics": [
        {"topic": each, "partitions": [{"partition": 0, "current_leader_epoch": -1, "fetch_offset": 0,
            "last_fetched_epoch": -1, "log_start_offset": -1, "partition_max_bytes": 1}]} for each in names()]}),
    "alter_client_quotas": (1, {"validate_only": False, "entries": [
        {"entity": [{"entity_type": "user", "entity_name": each}], "ops": [
            {"key": "producer_byte_rate", "value": 1e9, "remove": False}]} for each in names(2000)]}),
    "write_txn_markers": (1, {"markers": [
        {"producer_id": i, "producer_epoch": 0, "transaction_result": False, "coordinator_epoch": 0, "topics": [
            {"name": "orders", "partition_indexes": [0]}]} for i in range(1000)]}),
}  # fmt: skip


@pytest.mark.parametrize("api", LONG)
def test_no_round_of_the_loop_is_long(node: RunningNode, api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = 0
    wait = Turns.next

    async def counted(turns: Turns) -> None:
        nonlocal taken
        taken += 1
        await wait(turns)

    monkeypatch.setattr(Turns, "next", counted)
    version, request = LONG[api]
    with node.client() as client, rounds_of(node) as rounds:
        answer = client.call(api, version, **request)
    assert answer
    assert taken >= TURNS_MIN
    assert rounds.are_even, rounds


def test_what_is_asked_for_again_and_again_is_answered_once(node: RunningNode) -> None:
    """A request of 90 KB was once answered in 14 s, with 177 MB for its response."""
    resource = {"resource_type": 2, "resource_name": "orders", "configuration_keys": None}
    broker = resource | {"resource_type": 4, "resource_name": "1"}
    with node.client() as client:
        answer = client.call(
            "describe_configs",
            4,
            resources=[resource] * 10_000 + [broker] * 200,
            include_synonyms=True,
            include_documentation=True,
        )
        assert [each["resource_name"] for each in answer["results"]] == ["orders", "1"]
        found = client.call("describe_groups", 5, groups=["g"] * 50_000, include_authorized_operations=False)
        assert [each["group_id"] for each in found["groups"]] == ["g"]
        few = client.call("describe_groups", 5, groups=["g"] * 3, include_authorized_operations=False)
        assert len(few["groups"]) == 3  # as Kafka answers


def test_others_are_served_meanwhile(node: RunningNode) -> None:
    """A second connection gets many responses while the first one waits for its own."""
    served = 0
    done = threading.Event()

    def ask() -> None:
        with node.client() as client:
            client.call("find_coordinator", 4, key_type=0, coordinator_keys=names(30_000))
        done.set()

    thread = threading.Thread(target=ask)
    with node.client() as other:
        thread.start()
        while not done.is_set():
            other.call("api_versions", 0)
            served += 1
        thread.join()
    assert served > 10


def test_the_first_and_the_last_of_the_same_count(node: RunningNode) -> None:
    partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
    asked = [{"name": "orders", "partitions": [partition] * 1000 + [partition | {"partition_index": 1}]}]
    with node.client() as client:
        answer = client.call("list_offsets", 6, replica_id=-1, isolation_level=0, topics=asked)
    (topic,) = answer["topics"]
    assert {each["partition_index"]: each["error_code"] for each in topic["partitions"]} == {0: 42, 1: 0}


def _request(api: str, version: int, value: dict[str, Any]) -> Any:
    key = next(each.key for each in APIS.values() if each.name == api)
    return message(messages(key, version).request_type, value)


def test_splits_and_merges_at_every_depth() -> None:
    """Requests are split at one list, or at a list in lists; the merged parts are the whole, in its order."""
    value = {"require_stable": False, "groups": [
        {"group_id": f"g{i}", "topics": None if i == 1 else [
            {"name": f"t{j}", "partition_indexes": list(range(5))} for j in range(3)]} for i in range(3)]}  # fmt: skip
    request = _request("offset_fetch", 8, value)
    path, _ = PARTS["offset_fetch"].forms[0]
    for size in (1, 2, 3, 7, 100):
        parts = list(split(request, path, Parts(PARTS["offset_fetch"].forms, at_once=size, once=True)))
        assert len(parts) == -(-31 // size)
        merged = Merged(parts[0], path)
        for each in parts[1:]:
            merged.add(each)
        whole = plain(merged.whole())
        for group in whole["groups"]:
            group["topics"] = group["topics"] or None
        assert whole == plain(request) | value


def test_metadata_creates_no_more_topics_than_a_request_for_them(tmp_path: Path) -> None:
    """Kafka's broker asks its controller for all of them at once."""
    with running_node(tmp_path / "data") as node, node.client() as client:

        def ask(asked: list[dict[str, Any]] | None) -> int:
            """How many topics the answer knows."""
            topics = client.call("metadata", 12, topics=asked)["topics"]
            return sum(each["error_code"] == 0 for each in topics)

        for count in (5_001, 60):
            assert ask([{"name": each, "topic_id": None} for each in names(count)]) == 0
        deadline = time.monotonic() + 30
        while ask(None) < 60:
            assert time.monotonic() < deadline
        assert ask(None) == 60


def test_a_missing_coordinators_topic_is_created_once_for_many_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot be created here. Each key once made its own attempt: 6 s for 100,000 keys."""
    create, attempts = TopicCreation.create_missing, 0

    def counted(creation: TopicCreation, call: Call, names: Iterable[str]) -> None:
        nonlocal attempts
        attempts += 1
        create(creation, call, names)

    monkeypatch.setattr(TopicCreation, "create_missing", counted)
    with running_node(tmp_path / "data", None, offsets_topic_replication_factor="3") as node, node.client() as client:
        found = client.call("find_coordinator", 4, key_type=0, coordinator_keys=names(1_000))["coordinators"]
        assert {each["error_code"] for each in found} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
        assert attempts == 1_000 / PARTS["find_coordinator"].at_once


def test_members_of_many_protocols_join_in_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = 0
    wait = Turns.next

    async def counted(turns: Turns) -> None:
        nonlocal taken
        taken += 1
        await wait(turns)

    monkeypatch.setattr(Turns, "next", counted)
    request: dict[str, Any] = {"group_id": "many", "session_timeout": 6000, "rebalance_timeout": 500, "member_id": ""}
    request |= {"protocol_type": "consumer", "protocols": [{"name": each, "metadata": b""} for each in names(50_000)]}
    with running_node(tmp_path / "data", None, group_initial_rebalance_delay_ms="0") as node, ExitStack() as stack:
        clients = [stack.enter_context(node.client()) for _ in range(4)]
        coordinator(clients[0])
        with rounds_of(node) as rounds:
            for each in clients:
                each.socket.sendall(each.frame("join_group", 2, request))
            for each in clients:
                assert each.read_frame()
    assert taken >= len(clients)
    assert rounds.are_even, rounds


def test_a_slow_expression_does_not_hold_the_loop(tmp_path: Path) -> None:
    """The expression is matched in slices, and its topics are found in the end."""
    topics = [f"{'a' * 200}-{i}" for i in range(500)]
    beat: dict[str, Any] = {"group_id": "g", "member_id": "m", "member_epoch": 0, "instance_id": None}
    beat |= {"rack_id": None, "rebalance_timeout": 60_000, "subscribed_topic_names": None}
    beat |= {"subscribed_topic_regex": "(.?){1000}", "server_assignor": None, "topic_partitions": []}
    with running_node(tmp_path / "data") as node, node.client() as client:
        new = {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        asked = [{"name": each, **new} for each in topics]
        client.call("create_topics", 7, topics=asked, timeout=10_000, validate_only=False)
        deadline = time.monotonic() + 60
        while client.call("find_coordinator", 4, key_type=0, coordinator_keys=["g"])["coordinators"][0]["error_code"]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        with rounds_of(node) as rounds:
            answer: dict[str, Any] = {"error_code": ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "assignment": None}
            while not (answer["assignment"] or {}).get("topic_partitions"):
                assert answer["error_code"] in (0, 14, 15, 16), answer
                assert time.monotonic() < deadline
                answer = client.call("consumer_group_heartbeat", 1, **beat)
                if answer["error_code"] == 0:
                    beat |= {"member_epoch": answer["member_epoch"], "topic_partitions": None}
                time.sleep(0.02)
        assert len(answer["assignment"]["topic_partitions"]) >= len(topics)
    assert rounds.are_even, rounds


def test_every_batch_counts() -> None:
    """No batch of a Produce request is left out."""
    parts = PARTS["produce"]
    data = {"name": "t", "partition_data": [{"index": 0, "records": None}] * 50}
    request = _request("produce", 9, {"acks": 1, "timeout": 1, "transactional_id": None, "topic_data": [data, data]})
    found = list(split(request, parts.forms[0][0], replace(parts, at_once=30)))
    assert [sum(len(topic.partition_data) for topic in each.topic_data) for each in found] == [30, 30, 30, 10]


def test_a_turn_is_one_round() -> None:
    """Two long requests have their turns in different rounds of the loop."""

    async def run() -> list[tuple[str, int]]:
        turns, log, rounds = Turns(), [], 0

        async def count() -> None:
            nonlocal rounds
            while True:
                rounds += 1
                await asyncio.sleep(0)

        async def work(name: str) -> None:
            for _ in range(3):
                await turns.next()
                log.append((name, rounds))

        counting = asyncio.ensure_future(count())
        await asyncio.gather(work("a"), work("b"), work("c"))
        counting.cancel()
        return log

    log = asyncio.run(run())
    assert len({at for _, at in log}) == len(log) == 9
    assert {name for name, _ in log[:3]} == {"a", "b", "c"}


def test_too_much_is_refused(node: RunningNode) -> None:
    """Kafka's limits for a whole request, which parts must not loosen, and two limits of kcli's."""
    topic = {"num_partitions": 2, "replication_factor": 1, "assignments": [], "configs": []}
    with node.client() as client:
        for count, reason in ((5001, "partitions per request."), (3400, "large batch operation.")):
            asked = [topic | {"name": each} for each in names(count)]
            answer = client.call("create_topics", 7, topics=asked, timeout=1000, validate_only=False)
            assert len(answer["topics"]) == count
            assert {each["error_code"] for each in answer["topics"]} == {44}
            assert all(each["error_message"].endswith(reason) for each in answer["topics"])
        more = [{"name": "orders", "count": 10_004, "assignments": None}]
        more += [{"name": each, "count": 3, "assignments": None} for each in names(200)]
        answer = client.call("create_partitions", 3, topics=more, timeout=1000, validate_only=True)
        assert {each["name"]: each["error_code"] for each in answer["results"]}["orders"] == -1
        configs = [{"name": each, "config_operation": 0, "value": "1"} for each in names(10_001)]
        resources = [{"resource_type": 2, "resource_name": "orders", "configs": configs}]
        answer = client.call("incremental_alter_configs", 1, resources=resources, validate_only=True)
        assert [each["error_code"] for each in answer["responses"]] == [44]
        beat = {"group_id": "w", "member_id": "m", "member_epoch": 0, "instance_id": None, "rack_id": None}
        beat |= {"rebalance_timeout": 60_000, "subscribed_topic_names": []}
        beat |= {"server_assignor": None, "topic_partitions": []}
        answer = client.call("consumer_group_heartbeat", 1, **beat, subscribed_topic_regex="(a*)" * 8_000)
        assert answer["error_code"] == ErrorCode.INVALID_REGULAR_EXPRESSION
        beat["subscribed_topic_names"] = names(20_001)
        answer = client.call("consumer_group_heartbeat", 1, **beat, subscribed_topic_regex=None)
        assert (answer["error_code"], answer["error_message"]) == (
            42,
            "SubscribedTopicNames are 20,001, 20,000 are allowed.",
        )


LONGEST = "x" * 32_767
QUOTA = {"entity": [{"entity_type": LONGEST, "entity_name": "a"}], "ops": []}
NAMED: list[tuple[str, int, dict[str, Any]]] = [
    ("alter_client_quotas", 0, {"validate_only": False, "entries": [QUOTA]}),
    ("alter_client_quotas", 1, {"validate_only": False, "entries": [QUOTA]}),
    ("describe_client_quotas", 0, {"strict": False, "components": [
        {"entity_type": LONGEST, "match_type": 0, "match": "a"}]}),
    ("elect_leaders", 1, {"election_type": 0, "timeout": 1000, "topic_partitions": [
        {"topic": LONGEST, "partitions": [0]}]}),
    ("alter_configs", 1, {"validate_only": True, "resources": [
        {"resource_type": 2, "resource_name": "orders", "configs": [{"name": LONGEST, "value": "1"}]}]}),
    ("produce", 8, {"acks": 1, "timeout": 1000, "transactional_id": None, "topic_data": [
        {"name": LONGEST, "partition_data": [{"index": 0, "records": None}]}]}),
]  # fmt: skip


@pytest.mark.parametrize(("api", "version", "request_"), NAMED)
def test_a_name_of_the_longest_string_is_answered(
    api: str, version: int, request_: dict[str, Any], node: RunningNode
) -> None:
    """An error message quotes it, and was too long for a string: the connection was closed."""
    with node.client() as client:
        assert client.call(api, version, **request_)


def test_a_long_request_that_is_none(node: RunningNode) -> None:
    """A thread reads it, and refuses it as a short one is refused: only this connection is closed."""
    with node.client() as bad, node.client() as good:
        frame = bytearray(bad.frame("describe_groups", 4, {"groups": names(), "include_authorized_operations": False}))
        frame[18:22] = b"\x7f\xff\xff\xff"  # so many groups
        bad.socket.sendall(frame)
        assert bad.is_closed()
        assert good.call("api_versions", 0)["error_code"] == 0


def test_answers_come_in_order(node: RunningNode) -> None:
    """A short request behind a long one is answered after it."""
    with node.client() as client:
        client.socket.sendall(client.frame("find_coordinator", 4, {"key_type": 0, "coordinator_keys": names()}))
        client.socket.sendall(client.frame("api_versions", 0, {}))
        client.correlation_id -= 1
        assert len(client.answer("find_coordinator", 4)["coordinators"]) == COUNT
        client.correlation_id += 1
        assert client.answer("api_versions", 0)["error_code"] == 0
