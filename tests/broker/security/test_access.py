"""Every handler refuses what real Kafka refused, and returns what Kafka returned; access.py has recorded Kafka's
responses."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kcli.broker.dispatch.handlers import answer
from kcli.broker.wire.answers import HangUp
from kcli.broker.wire.apis import APIS, CONTROLLER_APIS, Api
from kcli.broker.wire.call import Call
from kcli.broker.wire.failures import empty, failed
from kcli.broker.wire.messages import Message, Messages, RequestHeader, messages
from kcli.errors import KcliError
from kcli.metadata.result import Refused
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType
from kcli.security.authorizer import CLASS_NAME
from kcli.testing.wire import message, plain
from tests.broker.running import RunningNode, api_key, running_node
from tests.broker.security.access import ANSWERS, Answer, ask_all, ask_one, grant
from tests.broker.security.access_cases import ADMIN, CLIENT, Question, Rights, questions, rights
from tests.broker.security.blind import Blind, unnoticed
from tests.conftest import read_jsonl

CLUSTER_AUTHORIZATION_FAILED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
QUESTIONS = list(questions())
SETS = list(rights())
AUTHORIZED: dict[str, Any] = {
    "authorizer_class_name": CLASS_NAME,
    "super_users": ADMIN,
    "group_consumer_assignment_interval_ms": "0",
    "offsets_topic_num_partitions": "1",
    "transaction_state_log_num_partitions": "1",
}

CONTROLLERS = (
    "allocate_producer_ids",
    "alter_partition",
    "assign_replicas_to_dirs",
    "begin_quorum_epoch",
    "broker_heartbeat",
    "broker_registration",
    "controller_registration",
    "describe_cluster",
    "end_quorum_epoch",
    "envelope",
    "fetch_snapshot",
    "update_raft_voter",
    "vote",
)
"""APIs with checks that only controllers' listeners have, which the questions do not reach."""
OF_TOKENS = ("create_delegation_token", "describe_delegation_token")
"""APIs that PLAINTEXT listeners do not have; test_tokens.py tests them."""


NO_QUESTION = ("join_group.py", "broker.access.among(call, Operation.DESCRIBE, ResourceType.TOPIC)")
"""File and text of a check whose effect shows only in later responses: it concerns the regular expressions of other
members, where a classic member joins a consumer group."""


def named(granted: Rights) -> str:
    """Return the name of a set of rights in test ids."""
    return "+".join(f"{kind.name}.{operation.name}" for kind, operation in granted) or "nothing"


class Asked:
    """The node under test: its client, and its administrator's requests, which go directly to the handlers."""

    def __init__(self, node: RunningNode) -> None:
        self._node = node

    def admin(self, api: str, version: int, request: Answer) -> Answer:
        kind = messages(api_key(api), version)
        return self.direct(kind, message(kind.request_type, request), "PLAINTEXT", ADMIN)

    def direct(self, kind: Messages, request: Message, listener: str, principal: str) -> Answer:
        """Return the response to a request that bypasses the sockets."""
        header = RequestHeader(kind.api_key, kind.version, 0, "direct", 0)
        asked = Call(kind, header, request, 0, "127.0.0.1", listener, principal=principal)

        async def run() -> Any:
            found: Any = answer(self._node.node.broker, asked)
            return await found if asyncio.iscoroutine(found) else found

        found: Answer = plain(asyncio.run_coroutine_threadsafe(run(), self._node.loop).result(30))
        return found

    def grant(self, granted: Rights) -> dict[str, str]:
        return grant(self.admin, granted)

    def answer(self, question: Question, ids: dict[str, str]) -> Any:
        return ask_one(self.ask, question, ids)

    def without_checks(self) -> Blind:
        """Replace the node's Authorization by a Blind one."""
        broker = self._node.node.broker
        broker.access = access = Blind(broker.authorizer)
        broker.__dict__.pop("config_admin", None)
        return access

    def fetch_metadata(self) -> Answer:
        """Return the response to the client's Fetch at the controller's listener."""
        kind = messages(api_key("fetch"), 17)
        header = RequestHeader(kind.api_key, kind.version, 0, "direct", 0)
        request = kind.request_type(**empty(kind.request_type))
        asked = Call(kind, header, request, 0, "127.0.0.1", "CONTROLLER", principal=CLIENT)

        async def run() -> Any:
            found: Any = self._node.node.router.route(CONTROLLER_APIS[kind.api_key], asked)
            return await found

        found: Answer = plain(asyncio.run_coroutine_threadsafe(run(), self._node.loop).result(30))
        return found

    def ask(self, api: str, version: int, request: Answer) -> Answer:
        with self._node.client() as client:
            return client.call(api, version, **request)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """Our node."""
    directory: Path = tmp_path_factory.mktemp("node")
    with running_node(directory / "d", None, **AUTHORIZED) as running:
        yield Asked(running)


@pytest.fixture(scope="module")
def ours(node: Asked) -> list[list[Any]]:
    """What our answers tell."""
    logging.root.manager.loggerDict.pop("kafka", None)  # these are kafka-python's own, which the node does not know
    return ask_all(node.admin, node.ask, SETS)


@pytest.mark.parametrize("number", range(len(SETS)), ids=map(named, SETS))
def test_access_is_kafkas(number: int, ours: list[list[Any]]) -> None:
    theirs = list(read_jsonl(ANSWERS))[number]
    assert len(theirs) == len(QUESTIONS)
    different = [
        f"{api} {version} {json.dumps(request)}\n  Kafka {json.dumps(expected)}\n  kcli  {json.dumps(found)}"
        for (api, version, request), expected, found in zip(QUESTIONS, theirs, ours[number], strict=True)
        if expected != found
    ]
    assert not different, "\n".join(different)


@pytest.mark.parametrize("api", CONTROLLERS)
def test_controllers_refuse_whom_they_do_not_know(api: str, node: Asked, ours: list[list[Any]]) -> None:
    assert ours, "asked before"
    kind = messages(api_key(api), APIS[api_key(api)].most)
    request = kind.request_type(**empty(kind.request_type))
    node.grant(())
    assert node.direct(kind, request, "CONTROLLER", CLIENT)["error_code"] == CLUSTER_AUTHORIZATION_FAILED
    allowed = Operation.ALTER if api == "describe_cluster" else Operation.CLUSTER_ACTION
    node.grant(((ResourceType.CLUSTER, allowed),))
    try:
        found = node.direct(kind, request, "CONTROLLER", CLIENT)
    except (HangUp, KcliError, Refused):
        return  # beyond the check
    assert found["error_code"] != CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_a_refusal_can_be_sent(api: Api) -> None:
    for version in range(api.least, api.most + 1):
        kind = messages(api.key, version)
        request = kind.request_type(**empty(kind.request_type))
        call = Call(kind, RequestHeader(api.key, version, 1, "", 0), request, 0)
        assert len(kind.encode(1, failed(call, CLUSTER_AUTHORIZATION_FAILED))) > 4


def test_the_metadata_log_is_for_nodes_alone(node: Asked, ours: list[list[Any]]) -> None:
    assert ours, "asked before"
    node.grant(())
    assert node.fetch_metadata()["error_code"] == CLUSTER_AUTHORIZATION_FAILED
    node.grant(((ResourceType.CLUSTER, Operation.CLUSTER_ACTION),))
    assert node.fetch_metadata()["error_code"] != CLUSTER_AUTHORIZATION_FAILED


def test_no_check_is_missed(node: Asked, ours: list[list[Any]]) -> None:
    """Without any one of the checks some response differs."""
    assert ours, "asked before the checks are taken away"
    expected = read_jsonl(ANSWERS)
    cases = (
        (granted, list(zip(QUESTIONS, answers, strict=True))) for granted, answers in zip(SETS, expected, strict=True)
    )
    missed = unnoticed(node, node.without_checks(), cases)
    elsewhere = {*CONTROLLERS, *OF_TOKENS}
    left = [each for each in missed if (each.path.name, each.text) != NO_QUESTION]
    unnoticed_checks = [str(each) for each in left if not elsewhere.intersection(each.apis)]
    assert not unnoticed_checks, "\n".join(unnoticed_checks)
