"""Consumer groups on a broker: every version of every API, and clients as people use them."""

from __future__ import annotations

import asyncio
import time
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kcli.broker.coordinators.groups import when_answered
from kcli.broker.wire.apis import BROKER_APIS as APIS
from kcli.protocol.error_code import ErrorCode
from tests.broker.running import Client, RunningNode, api_key, running_node

TOPIC = "t"
ZERO = "A" * 22
PARTITIONS = 3
RANGE = {"name": "range", "metadata": b"\0\1\0\0\0\1\0\1t\xff\xff\xff\xff\0\0\0\0"}
SESSION, MANY = 10_000, 60_000
QUICK = {"group_initial_rebalance_delay_ms": "0", "offsets_topic_num_partitions": "5"}


def versions(*names: str) -> list[tuple[str, int]]:
    apis = [APIS[api_key(name)] for name in names]
    return [(api.name, version) for api in apis for version in range(api.least, api.most + 1)]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with running_node(tmp_path_factory.mktemp("groups") / "d", None, **QUICK) as running:
        create_topic(running, TOPIC)
        with running.client() as client:
            coordinator(client)
        yield running


def create_topic(node: RunningNode, name: str, partitions: int = PARTITIONS) -> None:
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": (), "configs": ()}
    with node.client() as client:
        assert client.call("create_topics", 7, topics=(topic,), timeout=1000)["topics"][0]["error_code"] == 0


def topic_id(node: RunningNode, name: str = TOPIC) -> str:
    with node.client() as client:
        topic: str = client.call("metadata", 13, topics=({"topic_id": ZERO, "name": name},))["topics"][0]["topic_id"]
        return topic


def coordinator(client: Client, version: int = 6) -> dict[str, Any]:
    """Send FindCoordinator until a coordinator exists and has loaded its partitions."""
    until = time.monotonic() + 10
    while True:
        if version >= 4:
            (found,) = client.call("find_coordinator", version, key_type=0, coordinator_keys=("g",))["coordinators"]
        else:
            found = client.call("find_coordinator", version, key="g")
        loaded = client.call("list_groups", 5)["error_code"] == 0
        if found["error_code"] == 0 and loaded:
            return dict(found)
        assert found["error_code"] in (0, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        assert time.monotonic() < until
        time.sleep(0.01)


def join(client: Client, version: int, group: str, member_id: str = "", **more: Any) -> dict[str, Any]:
    request: dict[str, Any] = {
        "group_id": group,
        "session_timeout": SESSION,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": (RANGE,),
    }
    if version >= 1:
        request["rebalance_timeout"] = MANY
    return client.call("join_group", version, **request, **more)


def join_new(client: Client, group: str) -> dict[str, Any]:
    """Return the response to a new dynamic member's second JoinGroup."""
    refused = join(client, 9, group)
    assert refused["error_code"] == ErrorCode.MEMBER_ID_REQUIRED
    return join(client, 9, group, refused["member_id"])


def sync(
    client: Client, version: int, group: str, joined: dict[str, Any], assignment: bytes = b"all"
) -> dict[str, Any]:
    member_id = joined["member_id"]
    request: dict[str, Any] = {"group_id": group, "generation_id": joined["generation_id"], "member_id": member_id}
    if version >= 5:
        request |= {"protocol_type": "consumer", "protocol_name": "range"}
    return client.call(
        "sync_group", version, **request, assignments=({"member_id": member_id, "assignment": assignment},)
    )


def commit(client: Client, version: int, group: str, offset: int, **more: Any) -> list[int]:
    """Commit offsets of partition 0 and of a partition that does not exist; return both errors."""
    partitions = tuple(
        {"partition_index": number, "committed_offset": offset, "committed_metadata": "m"} for number in (0, 99)
    )
    named = {"topic_id": more.pop("topic")} if version >= 10 else {"name": TOPIC}
    request = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": ""} | more
    answer = client.call("offset_commit", version, **request, topics=({**named, "partitions": partitions},))
    answered = [each for topic in answer["topics"] for each in topic["partitions"]]
    return [each["error_code"] for each in sorted(answered, key=lambda each: int(each["partition_index"]))]


def fetch(
    client: Client, version: int, group: str, topic: str, *, all_topics: bool = False
) -> list[tuple[int, int, str]]:
    """Send OffsetFetch for two partitions, or for all partitions of the group."""
    named = {"topic_id": topic} if version >= 10 else {"name": TOPIC}
    topics = None if all_topics else ({**named, "partition_indexes": (0, 1)},)
    if version >= 8:
        (answer,) = client.call("offset_fetch", version, groups=({"group_id": group, "topics": topics},))["groups"]
    else:
        answer = client.call("offset_fetch", version, group_id=group, topics=topics)
    assert answer.get("error_code", 0) == 0
    return [
        (each["partition_index"], each["committed_offset"], each["metadata"])
        for found in answer["topics"]
        for each in found["partitions"]
    ]


# every version


@pytest.mark.parametrize("version", range(7))
def test_find_coordinator(node: RunningNode, version: int) -> None:
    with node.client() as client:
        found = coordinator(client, version)
    assert (found["node_id"], found["host"], found["port"]) == (1, *node.address)
    if version:
        assert found["error_message"] == ("" if version >= 4 else "NONE")


def test_find_coordinators(node: RunningNode) -> None:
    with node.client() as client:
        many = client.call("find_coordinator", 4, key_type=0, coordinator_keys=("a", "b"))["coordinators"]
        assert [(each["key"], each["error_code"], each["node_id"]) for each in many] == [("a", 0, 1), ("b", 0, 1)]
        (share,) = client.call("find_coordinator", 6, key_type=2, coordinator_keys=("a",))["coordinators"]
        assert (share["error_code"], share["node_id"], share["host"]) == (ErrorCode.INVALID_REQUEST, -1, "")
        odd = client.call("find_coordinator", 3, key_type=9, key="a")
        assert (odd["error_code"], odd["port"]) == (ErrorCode.INVALID_REQUEST, -1), "as Kafka 4.3 answers"


@pytest.mark.parametrize(("_", "version"), versions("join_group"))
def test_a_member_at_every_version(node: RunningNode, _: str, version: int) -> None:
    group = f"join-{version}"
    with node.client() as client:
        joined = join(client, version, group)
        if version >= 4:
            assert joined["error_code"] == ErrorCode.MEMBER_ID_REQUIRED
            joined = join(client, version, group, joined["member_id"])
        assert (joined["error_code"], joined["generation_id"], joined["protocol_name"]) == (0, 1, "range")
        assert joined["leader"] == joined["member_id"] == joined["members"][0]["member_id"]
        assert b64decode(joined["members"][0]["metadata"]) == RANGE["metadata"]
        synced = sync(client, min(version, 5), group, joined)
        assert (synced["error_code"], b64decode(synced["assignment"])) == (0, b"all")
        beat = {"group_id": group, "generation_id": 1, "member_id": joined["member_id"]}
        assert client.call("heartbeat", min(version, 4), **beat)["error_code"] == 0
        leaver = {"member_id": joined["member_id"], "group_instance_id": None}
        leave_version = min(version, 5)
        who = {"members": (leaver,)} if leave_version >= 3 else {"member_id": joined["member_id"]}
        left = client.call("leave_group", leave_version, group_id=group, **who)
        assert left["error_code"] == 0
        assert client.call("heartbeat", min(version, 4), **beat)["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID
        left = client.call("leave_group", leave_version, group_id=group, **who)
        error = left["members"][0]["error_code"] if leave_version >= 3 else left["error_code"]
        assert error == ErrorCode.UNKNOWN_MEMBER_ID


def test_null_protocols(node: RunningNode) -> None:
    with node.client() as client:
        assert join(client, 6, "null", "nobody")["protocol_name"] == ""
        refused = join(client, 7, "null", "nobody")
        assert (refused["protocol_name"], refused["protocol_type"]) == (None, None)
        request = {"group_id": "null", "generation_id": 1, "member_id": "nobody", "assignments": ()}
        assert client.call("sync_group", 5, **request)["error_code"] == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert client.call("sync_group", 4, **request)["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID


def test_no_group_id(node: RunningNode) -> None:
    invalid = ErrorCode.INVALID_GROUP_ID
    with node.client() as client:
        assert join(client, 9, "", "m") | {"error_code": invalid, "member_id": "m"} == join(client, 9, "", "m")
        assert sync(client, 5, "", {"member_id": "m", "generation_id": 1})["error_code"] == invalid
        beat = {"group_id": "", "generation_id": 1, "member_id": "m"}
        assert client.call("heartbeat", 4, **beat)["error_code"] == invalid
        assert client.call("leave_group", 5, group_id="", members=())["error_code"] == invalid
        assert client.call("offset_delete", 0, group_id="", topics=())["error_code"] == invalid


@pytest.mark.parametrize("session_timeout", [5999, 1_800_001])
def test_session_timeouts(node: RunningNode, session_timeout: int) -> None:
    with node.client() as client:
        request = {"group_id": "s", "member_id": "", "protocol_type": "consumer", "protocols": (RANGE,)}
        answer = client.call("join_group", 9, **request, session_timeout=session_timeout, rebalance_timeout=MANY)
    assert answer["error_code"] == ErrorCode.INVALID_SESSION_TIMEOUT


@pytest.mark.parametrize(("_", "version"), versions("offset_commit"))
def test_commit_at_every_version(node: RunningNode, _: str, version: int) -> None:
    unknown, group, topic = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"commit-{version}", topic_id(node)
    more: dict[str, Any] = {"topic": topic} if version >= 10 else {}
    with node.client() as client:
        assert commit(client, version, group, 5, **more) == [0, unknown]
        more["generation_id_or_member_epoch"] = 3
        code = ErrorCode.UNKNOWN_MEMBER_ID
        assert commit(client, version, group, 6, member_id="m", **more) == [code, unknown]
        code = ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION
        assert commit(client, version, f"not-{group}", 6, member_id="m", **more) == [code, unknown]
        assert fetch(client, 9, group, topic) == [(0, 5, "m"), (1, -1, "")]


@pytest.mark.parametrize("is_split", [False, True])
@pytest.mark.parametrize("lengths", [(5000, 1), (1, 5000), (1, 1)])
def test_a_partition_that_is_committed_twice(node: RunningNode, lengths: tuple[int, int], *, is_split: bool) -> None:
    """Each has the error of its own metadata; the last one without an error stays."""
    group = f"twice-{lengths}-{is_split}"
    partitions = [
        {"partition_index": 0, "committed_offset": 10 + number, "committed_metadata": "x" * length}
        for number, length in enumerate(lengths)
    ]
    parts = [(each,) for each in partitions] if is_split else [tuple(partitions)]
    request = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": ""}
    with node.client() as client:
        answer = client.call(
            "offset_commit", 8, **request, topics=tuple({"name": TOPIC, "partitions": each} for each in parts)
        )
        codes = [each["error_code"] for topic in answer["topics"] for each in topic["partitions"]]
        assert codes == [ErrorCode.OFFSET_METADATA_TOO_LARGE if length > 4096 else 0 for length in lengths]
        kept = max(number for number, code in enumerate(codes) if not code)
        assert fetch(client, 9, group, topic_id(node))[0] == (0, 10 + kept, "x")


def test_commit_of_a_topic_that_is_not_there(node: RunningNode) -> None:
    with node.client() as client:
        assert commit(client, 10, "nothing", 5, topic="B" * 21 + "A") == [ErrorCode.UNKNOWN_TOPIC_ID] * 2


@pytest.mark.parametrize(("_", "version"), versions("offset_fetch"))
def test_fetch_at_every_version(node: RunningNode, _: str, version: int) -> None:
    topic = topic_id(node)
    with node.client() as client:
        commit(client, 9, "fetch", 7)
        assert fetch(client, version, "fetch", topic) == [(0, 7, "m"), (1, -1, "")]
        if version >= 2:
            assert fetch(client, version, "fetch", topic, all_topics=True) == [(0, 7, "m")]
        assert fetch(client, version, "never", topic) == [(0, -1, ""), (1, -1, "")]


def test_fetch_of_ids_that_are_not_there(node: RunningNode) -> None:
    with node.client() as client:
        topics = tuple({"topic_id": each, "partition_indexes": (0,)} for each in ("B" * 21 + "A", topic_id(node)))
        (answer,) = client.call("offset_fetch", 10, groups=({"group_id": "g", "topics": topics},))["groups"]
    codes = [topic["partitions"][0]["error_code"] for topic in answer["topics"]]
    assert codes == [0, ErrorCode.UNKNOWN_TOPIC_ID]


@pytest.mark.parametrize(("_", "version"), versions("describe_groups"))
def test_describe_at_every_version(node: RunningNode, _: str, version: int) -> None:
    with node.client("it") as client:
        joined = join_new(client, f"describe-{version}")
        sync(client, 5, f"describe-{version}", joined)
        more = {"include_authorized_operations": True} if version >= 3 else {}
        known, unknown = client.call("describe_groups", version, groups=(f"describe-{version}", "nobody"), **more)[
            "groups"
        ]
        (member,) = known.pop("members")
    assert member["member_id"].startswith("it-")
    assert (member["client_id"], member["client_host"]) == ("it", "/127.0.0.1")
    assert (b64decode(member["member_metadata"]), b64decode(member["member_assignment"])) == (RANGE["metadata"], b"all")
    assert (known["group_state"], known["protocol_type"], known["protocol_data"]) == ("Stable", "consumer", "range")
    if version >= 3:
        assert known["authorized_operations"] == 3400
    code, message = (ErrorCode.GROUP_ID_NOT_FOUND, "Group nobody not found.") if version >= 6 else (0, None)
    assert (unknown["group_state"], unknown["error_code"], unknown.get("error_message")) == ("Dead", code, message)


@pytest.mark.parametrize(("_", "version"), versions("list_groups"))
def test_list_at_every_version(node: RunningNode, _: str, version: int) -> None:
    with node.client() as client:
        commit(client, 9, "listed", 5)
        sync(client, 5, f"list-{version}", join_new(client, f"list-{version}"))
        listed = {each["group_id"]: each for each in client.call("list_groups", version)["groups"]}
        assert (listed["listed"]["protocol_type"], listed[f"list-{version}"]["protocol_type"]) == ("", "consumer")
        if version >= 4:
            found = client.call("list_groups", version, states_filter=("Stable",))["groups"]
            assert {each["group_state"] for each in found} == {"Stable"}
        if version >= 5:
            assert listed["listed"]["group_type"] == "classic"
            assert client.call("list_groups", version, types_filter=("consumer",))["groups"] == []


@pytest.mark.parametrize(("_", "version"), versions("delete_groups"))
def test_delete_at_every_version(node: RunningNode, _: str, version: int) -> None:
    with node.client() as client:
        commit(client, 9, "deleted", 5)
        join_new(client, f"kept-{version}")
        names = ("deleted", f"kept-{version}", "nobody", "deleted")
        results = client.call("delete_groups", version, groups_names=names)["results"]
        assert [(each["group_id"], each["error_code"]) for each in results] == [
            ("deleted", 0),
            (f"kept-{version}", ErrorCode.NON_EMPTY_GROUP),
            ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
        ]


def test_offset_delete(node: RunningNode) -> None:
    with node.client() as client:
        commit(client, 9, "forget", 5)
        topics = ({"name": TOPIC, "partitions": ({"partition_index": 0}, {"partition_index": 99})},)
        answer = client.call("offset_delete", 0, group_id="forget", topics=topics)
        errors = [each["error_code"] for each in answer["topics"][0]["partitions"]]
        assert (answer["error_code"], errors) == (0, [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0])
        assert fetch(client, 9, "forget", ZERO)[0][1] == -1
        answer = client.call("offset_delete", 0, group_id="nobody", topics=topics)
        assert (answer["error_code"], answer["topics"]) == (ErrorCode.GROUP_ID_NOT_FOUND, [])


def test_offsets_go_with_their_topic(node: RunningNode) -> None:
    create_topic(node, "gone")
    topics = (
        {"name": "gone", "partitions": ({"partition_index": 0, "committed_offset": 1, "committed_metadata": ""},)},
    )
    with node.client() as client:
        request = {"group_id": "gone", "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}
        client.call("offset_commit", 9, **request)
        assert fetch(client, 9, "gone", ZERO, all_topics=True) == [(0, 1, "")]
        client.call("delete_topics", 6, topics=({"name": "gone", "topic_id": ZERO},), timeout=1000)
        assert fetch(client, 9, "gone", ZERO, all_topics=True) == []


def test_a_client_that_waits_and_goes(node: RunningNode) -> None:
    """The member of a client that disconnects during JoinGroup stays until its session expires. Its closed connection
    does not hold up other clients."""
    with node.client() as first, node.client() as other:
        sync(first, 5, "waits", join_new(first, "waits"))
        member_id = join(other, 9, "waits")["member_id"]
        request = {"group_id": "waits", "session_timeout": SESSION, "member_id": member_id, "protocol_type": "consumer"}
        other.socket.sendall(
            other.frame("join_group", 9, {**request, "protocols": (RANGE,), "rebalance_timeout": MANY})
        )
    with node.client() as client:
        state = client.call("describe_groups", 6, groups=("waits",))["groups"][0]
        assert state["group_state"] in ("PreparingRebalance", "Stable")


def test_restart(tmp_path: Path) -> None:
    """Members continue after a restart of the broker."""
    with running_node(tmp_path / "d", None, **QUICK) as running:
        create_topic(running, TOPIC)
        with running.client() as client:
            coordinator(client)
            joined = join_new(client, "g")
            sync(client, 5, "g", joined)
            more = {"generation_id_or_member_epoch": 1, "member_id": joined["member_id"]}
            assert commit(client, 9, "g", 42, **more)[0] == 0
    with running_node(tmp_path / "d", None, **QUICK) as running, running.client() as client:
        coordinator(client)
        beat = {"group_id": "g", "generation_id": 1, "member_id": joined["member_id"]}
        assert client.call("heartbeat", 4, **beat)["error_code"] == 0
        assert b64decode(sync(client, 5, "g", joined, b"")["assignment"]) == b"all"
        assert fetch(client, 9, "g", ZERO)[0] == (0, 42, "m")


def test_answers_that_come_later() -> None:
    async def wait() -> list[int]:
        now, later = (asyncio.get_running_loop().create_future() for _ in range(2))
        now.set_result(1)
        asyncio.get_running_loop().call_soon(later.set_result, 2)
        first, second = (when_answered(each, lambda each: int(each.result())) for each in (now, later))
        assert isinstance(first, int)
        assert not isinstance(second, int)
        return [first, await second]

    assert asyncio.run(wait()) == [1, 2]
