"""The audit log: its lines are real Kafka's, which audit.py has recorded; a line whose level is off is not made."""

from __future__ import annotations

import json
import logging
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kcli.broker import audit
from kcli.broker.authorization import Authorization
from kcli.broker.config.loggers import LEVELS
from kcli.broker.process.log_lines import JsonLines
from kcli.broker.wire.call import Call
from kcli.broker.wire.messages import messages, read_header
from kcli.security.acls import Operation, ResourceType
from kcli.security.audit import Decision
from kcli.security.authorizer import Access, Authorizer, AuthorizerConfig, Rule
from tests.broker.running import running_node
from tests.broker.security.access import Answer, ask_all
from tests.broker.security.access_cases import questions
from tests.broker.security.audit import LINES, OURS, SETS
from tests.broker.security.test_access import AUTHORIZED, Asked, named
from tests.conftest import read_jsonl

QUESTIONS = list(questions())
UNNAMED = "on resource = Topic:LITERAL: for request"
"""Kafka's line for an unknown topic id, about which kcli makes no decision."""
NAMES = {number: name for name, number in LEVELS.items()}
METADATA = {"topics": [{"name": "n", "topic_id": None}], "allow_auto_topic_creation": False}


class Lines(logging.Handler):
    """Collects the lines about the client."""

    def __init__(self) -> None:
        super().__init__(0)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage().startswith(OURS):
            self.records.append(record)

    def take(self) -> list[str]:
        """Return the lines since the last call: level and message, sorted."""
        found, self.records = self.records, []
        return sorted(f"{NAMES[each.levelno]} {each.getMessage()}" for each in found)


@pytest.fixture
def lines() -> Iterator[Lines]:
    handler = Lines()
    audit.LOGGER.addHandler(handler)
    yield handler
    audit.LOGGER.removeHandler(handler)
    audit.LOGGER.setLevel(logging.INFO)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    directory: Path = tmp_path_factory.mktemp("node")
    with running_node(directory / "d", None, **AUTHORIZED) as running:
        yield Asked(running)


def test_the_lines_are_kafkas(node: Asked, lines: Lines) -> None:
    audit.LOGGER.setLevel(LEVELS["TRACE"])
    found: list[list[str]] = []

    def ask(api: str, version: int, request: dict[str, Any]) -> Answer:
        lines.take()
        try:
            return node.ask(api, version, request)
        finally:
            found.append(lines.take())

    ask_all(node.admin, ask, SETS)
    different = []
    recorded: Any = read_jsonl(LINES)
    expected = [[line for line in each if UNNAMED not in line] for one_set in recorded for each in one_set]
    for number, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        if ours != theirs:
            rights, (api, version, request) = SETS[number // len(QUESTIONS)], QUESTIONS[number % len(QUESTIONS)]
            missing, excess = (list((one - other).elements()) for one, other in _both(Counter(theirs), Counter(ours)))
            difference = "\n".join(["  Kafka only", *missing, "  kcli only", *excess])
            different.append(f"{named(rights)} {api} {version} {request}\n{difference}")
    assert not different, f"{len(different)}\n" + "\n".join(different)


def _both(one: Counter[str], other: Counter[str]) -> tuple[tuple[Counter[str], Counter[str]], ...]:
    return (one, other), (other, one)


def test_a_level_that_is_off_makes_no_line(node: Asked, lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Decision] = []

    def make(*values: Any) -> Decision:
        made.append(Decision(*values))
        return made[-1]

    monkeypatch.setattr(audit, "Decision", make)
    node.grant(((ResourceType.TOPIC, Operation.DESCRIBE),))
    lines.take()
    node.ask("metadata", 12, METADATA | {"topics": [{"name": "t", "topic_id": None}]})
    assert (made, lines.take()) == ([], [])
    audit.LOGGER.setLevel(logging.ERROR)
    node.ask("metadata", 12, METADATA | {"topics": [{"name": "u", "topic_id": None}]})
    assert (made, lines.take()) == ([], [])


def test_a_name_is_decided_once_for_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """The request names many partitions of one topic."""
    authorizer, decided = Authorizer(AuthorizerConfig()), list[str]()
    authorizer.loaded = True
    rule = authorizer.rule

    def note(access: Access) -> Rule:
        decided.append(access.resource_name)
        return rule(access)

    monkeypatch.setattr(authorizer, "rule", note)
    call = Call(messages(0, 9), read_header(memoryview(struct.pack(">hhih", 0, 9, 1, -1))), None, 0, "127.0.0.1")
    readable = Authorization(authorizer).among(call, Operation.READ, ResourceType.TOPIC)
    assert not any(name in readable for name in ("a", "b", "a", "a"))
    assert decided == ["a", "b"]


def test_each_denied_request_has_its_line(node: Asked, lines: Lines) -> None:
    """The response to Metadata is kept, and yet the second request is audited."""
    node.grant(())
    for _ in range(3):
        lines.take()
        node.ask("metadata", 12, METADATA | {"topics": [{"name": "t", "topic_id": None}]})
        assert len(lines.take()) == 1


def test_a_client_may_change_the_level(node: Asked, lines: Lines) -> None:
    changed = [{"name": "kafka.authorizer.logger", "config_operation": 0, "value": "DEBUG"}]
    resource = {"resource_type": 8, "resource_name": "1", "configs": changed}
    node.admin("incremental_alter_configs", 1, {"resources": [resource], "validate_only": False})
    node.grant(((ResourceType.TOPIC, Operation.DESCRIBE),))
    lines.take()
    node.ask("metadata", 12, METADATA | {"topics": [{"name": "t", "topic_id": None}]})
    assert [each.split()[0] for each in lines.take()] == ["DEBUG"]


def test_a_line_as_json(node: Asked, lines: Lines) -> None:
    node.grant(((ResourceType.TOPIC, Operation.DESCRIBE),))
    lines.take()
    audit.LOGGER.setLevel(logging.DEBUG)
    for name in ("t", "u"):
        node.ask("metadata", 12, METADATA | {"topics": [{"name": name, "topic_id": None}]})
    allowed, denied = (json.loads(JsonLines().format(each)) for each in lines.records)
    acl = {"resourceType": "TOPIC", "resourceName": "t", "patternType": "LITERAL", "principal": "User:ANONYMOUS"}
    same: dict[str, Any] = {
        "principal": "User:ANONYMOUS",
        "operation": "DESCRIBE",
        "host": "127.0.0.1",
        "resourceType": "TOPIC",
    }
    same |= {"request": "Metadata", "resourceRefCount": 1, "logger": "kafka.authorizer.logger"}
    for line, own in (
        (
            allowed,
            {
                "level": "debug",
                "allowed": True,
                "resourceName": "t",
                "rule": "MatchingAcl",
                "acl": acl | {"host": "*", "operation": "DESCRIBE", "permissionType": "ALLOW"},
            },
        ),
        (denied, {"level": "info", "allowed": False, "resourceName": "u", "rule": "DefaultDeny", "acl": None}),
    ):
        assert line == same | own | {"time": line["time"], "message": line["message"]}
        assert line["message"].startswith(OURS)
