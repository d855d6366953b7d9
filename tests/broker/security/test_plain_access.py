"""Plain requests are answered from their bytes only for clients with the right to send them."""

from __future__ import annotations

import ast
import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kcli.broker import authorization
from kcli.broker.audit import LOGGER
from kcli.broker.wire.answers import Laid, Later, Served
from kcli.broker.wire.call import Client as Peer
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType
from kcli.security.authorizer import CLASS_NAME, AuthorizerNotReady
from tests.broker.cluster import wait_for
from tests.broker.running import Client, RunningNode, running_node
from tests.broker.security.access import COORDINATOR_LOADS
from tests.broker.security.access_cases import ADMIN, CLIENT
from tests.broker.security.blind import ROOT
from tests.broker.security.test_access import Asked
from tests.log.batches import batch

OPTIONS: dict[str, Any] = {
    "authorizer_class_name": CLASS_NAME,
    "super_users": ADMIN,
    "offsets_topic_num_partitions": "1",
    "group_initial_rebalance_delay_ms": "0",
}
TOPIC, GROUP = "orders", "group"
WRITE, READ_TOPIC, READ_GROUP = (
    (ResourceType.TOPIC, TOPIC, Operation.WRITE),
    (ResourceType.TOPIC, TOPIC, Operation.READ),
    (ResourceType.GROUP, GROUP, Operation.READ),
)
Right = tuple[ResourceType, str, Operation]
ALLOWED = int(ErrorCode.NONE)
TOPIC_DENIED = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
GROUP_DENIED = int(ErrorCode.GROUP_AUTHORIZATION_FAILED)


@dataclass
class Member:
    """A client that writes to the topic and is a member of the group. plain: whether each request was answered from its
    bytes."""

    node: RunningNode
    client: Client
    member_id: str
    generation: int
    plain: list[bool]

    def produce(self) -> int:
        data = [{"name": TOPIC, "partition_data": [{"index": 0, "records": bytes(batch(b"value"))}]}]
        answer = self.client.call("produce", 9, acks=1, timeout=1000, transactional_id=None, topic_data=data)
        code: int = answer["responses"][0]["partition_responses"][0]["error_code"]
        return code

    def heartbeat(self) -> int:
        named = {"group_id": GROUP, "generation_id": self.generation, "member_id": self.member_id}
        code: int = self.client.call("heartbeat", 4, **named, group_instance_id=None)["error_code"]
        return code

    def commit(self) -> int:
        named = {"group_id": GROUP, "generation_id_or_member_epoch": self.generation, "member_id": self.member_id}
        offset = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
        topics = [{"name": TOPIC, "partitions": [offset]}]
        answer = self.client.call("offset_commit", 8, **named, group_instance_id=None, topics=topics)
        code: int = answer["topics"][0]["partitions"][0]["error_code"]
        return code


REQUESTS: dict[str, tuple[Callable[[Member], int], Right, int]] = {
    "Produce": (Member.produce, WRITE, TOPIC_DENIED),
    "Heartbeat": (Member.heartbeat, READ_GROUP, GROUP_DENIED),
    "OffsetCommit of a group": (Member.commit, READ_GROUP, GROUP_DENIED),
    "OffsetCommit of a topic": (Member.commit, READ_TOPIC, TOPIC_DENIED),
}
"""A request, the right without which it is denied, and the error."""


def permit(node: RunningNode, *rights: Right) -> None:
    """Give the client these rights and no others."""
    asked = Asked(node)
    every = {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, "operation": 1}
    every |= {"principal_filter": None, "host_filter": None, "permission_type": 1}
    asked.admin("delete_acls", 3, {"filters": [every]})
    allowed = {"resource_pattern_type": 3, "principal": CLIENT, "host": "*", "permission_type": 3}
    creations = [
        {"resource_type": int(kind), "resource_name": name, "operation": int(operation), **allowed}
        for kind, name, operation in rights
    ]
    asked.admin("create_acls", 3, {"creations": creations})


def join(client: Client) -> tuple[str, int]:
    """Become the group's only member; return the member id and the generation."""
    protocols = [{"name": "range", "metadata": b"\0\0\0\0\0\0\xff\xff\xff\xff"}]
    named: dict[str, Any] = {"group_id": GROUP, "group_instance_id": None}
    asked = named | {"session_timeout": 30_000, "rebalance_timeout": 30_000, "protocol_type": "consumer"}
    member_id = client.call("join_group", 5, **asked, member_id="", protocols=protocols)["member_id"]
    joined = client.call("join_group", 5, **asked, member_id=member_id, protocols=protocols)
    assignments = [{"member_id": member_id, "assignment": b""}]
    generation: int = joined["generation_id"]
    client.call("sync_group", 3, **named, generation_id=generation, member_id=member_id, assignments=assignments)
    return member_id, generation


@pytest.fixture(scope="module")
def member(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Member]:
    plain: list[bool] = []
    with running_node(tmp_path_factory.mktemp("node") / "d", None, **OPTIONS) as node, node.client() as client:
        made = {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        wanted = {"topics": [{"name": TOPIC, **made}], "timeout": 5000, "validate_only": False}
        Asked(node).admin("create_topics", 7, wanted)
        permit(node, WRITE, READ_TOPIC, READ_GROUP)
        client.wait_for_leaders(TOPIC)
        client.call("find_coordinator", 4, key_type=0, coordinator_keys=[GROUP])
        while client.call("offset_fetch", 6, group_id=GROUP, topics=None)["error_code"] in COORDINATOR_LOADS:
            pass
        member = Member(node, client, *join(client), plain)
        for request, _, _ in REQUESTS.values():
            assert request(member) == ALLOWED  # the first request opens lanes and imports what the next ones need
        at_once, serve = node.node.server.at_once, node.node.server.serve_plain

        def noted(frame: memoryview, peer: Peer) -> Laid | Later | None:
            answer = at_once(frame, peer)
            plain.append(answer is not None)
            return answer

        def served(*arguments: Any) -> Served | None:
            found = serve(*arguments)
            if found is not None and found[1]:
                plain.append(True)
            return found

        node.node.server.at_once, node.node.server.serve_plain = noted, served
        yield member


@pytest.fixture(autouse=True)
def _permitted(member: Member) -> Iterator[None]:
    """Each test begins with all rights."""
    permit(member.node, WRITE, READ_TOPIC, READ_GROUP)
    member.plain.clear()
    yield
    LOGGER.setLevel(logging.INFO)


@pytest.mark.parametrize("name", REQUESTS)
def test_a_client_that_may_is_answered_from_the_bytes(name: str, member: Member) -> None:
    request, _, _ = REQUESTS[name]
    assert request(member) == ALLOWED
    wait_for(lambda: bool(member.plain), "it is noted")  # once the call that sends the response has returned
    assert member.plain == [True]


@pytest.mark.parametrize("name", REQUESTS)
def test_a_client_that_may_not_is_denied(name: str, member: Member, caplog: pytest.LogCaptureFixture) -> None:
    request, right, denied = REQUESTS[name]
    permit(member.node, *{WRITE, READ_TOPIC, READ_GROUP} - {right})
    with caplog.at_level(logging.INFO, LOGGER.name):
        assert request(member) == denied
    assert member.plain == [False]
    assert sum("is Denied" in message for message in caplog.messages) == 1
    permit(member.node, WRITE, READ_TOPIC, READ_GROUP)
    assert request(member) == ALLOWED


@pytest.mark.parametrize("name", REQUESTS)
def test_what_is_allowed_is_audited(name: str, member: Member, caplog: pytest.LogCaptureFixture) -> None:
    request, _, _ = REQUESTS[name]
    with caplog.at_level(logging.DEBUG, LOGGER.name):
        assert request(member) == ALLOWED
    assert member.plain == [False]
    assert any("is Allowed" in message for message in caplog.messages)


@pytest.mark.parametrize("name", REQUESTS)
def test_before_the_acls_are_loaded(name: str, member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    def not_ready(_: Any) -> bool:
        raise AuthorizerNotReady("not loaded")

    request, _, _ = REQUESTS[name]
    monkeypatch.setattr(member.node.node.broker.authorizer, "authorize", not_ready)
    assert request(member) == ALLOWED, "the request was decoded, and its handler asks for the rule"
    assert member.plain == [False]


def calls(path: Path) -> list[tuple[Path, int]]:
    """Return the places where a module checks whether the client may send a plain request."""
    asks = {"allows_unaudited", "writes_unaudited"}
    text = path.read_text()
    if not any(each in text for each in asks):
        return []
    return [
        (path, node.lineno)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in asks
    ]


CHECKS = [found for path in sorted(ROOT.rglob("*.py")) if path != Path(authorization.__file__) for found in calls(path)]


def test_there_are_checks() -> None:
    assert {path.stem for path, _ in CHECKS} == {"fetch", "heartbeat", "offset_commit", "produce", "routing"}


OF_CLIENTS = [each for each in CHECKS if each[0].stem != "fetch"]
"""Without the check of a follower's Fetch, which tests/broker/test_plain_fetch.py tries."""


@pytest.mark.parametrize(("path", "line"), OF_CLIENTS, ids=[f"{path.stem}-{line}" for path, line in OF_CLIENTS])
def test_no_check_is_missed(path: Path, line: int, member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any one of the checks a denied request is answered from its bytes."""
    access = member.node.node.broker.access
    monkeypatch.setattr(member.node.node.broker, "access", Blind(access, path, line))
    allowed = []
    for name, (request, right, _) in REQUESTS.items():
        permit(member.node, *{WRITE, READ_TOPIC, READ_GROUP} - {right})
        if request(member) == ALLOWED:
            allowed.append(name)
    assert len(allowed) == 1


class Blind:
    """An Authorization that allows everything at one check."""

    def __init__(self, access: authorization.Authorization, path: Path, line: int) -> None:
        self._access, self._path, self._line = access, path, line

    def __getattr__(self, name: str) -> Any:
        return getattr(self._access, name)

    def _is_blind(self) -> bool:
        frame = sys._getframe(2)
        return frame.f_code.co_filename == str(self._path) and frame.f_lineno == self._line

    def allows_unaudited(self, *asked: Any) -> bool:
        return self._is_blind() or self._access.allows_unaudited(*asked)

    def writes_unaudited(self, client: Peer) -> Callable[[str], bool] | None:
        return None if self._is_blind() else self._access.writes_unaudited(client)
