"""CreateAcls, DeleteAcls and DescribeAcls return what real Kafka returned, and write its records; record.py has
recorded them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kcli.broker.broker import Broker
from kcli.metadata import acl_control
from kcli.metadata.acl_control import create_acls, find_acls
from kcli.metadata.image import MetadataImage
from kcli.metadata.result import NO_ERROR, Error
from kcli.metadata.snapshot import snapshot
from kcli.security.acl_filter import AclFilter
from kcli.security.acls import AclFields
from kcli.security.authorizer import Authorizer, AuthorizerConfig
from kcli.testing.wire import plain
from tests.broker.security.acl_cases import RECORDS, acl, cases, create, delete, describe, filter_of
from tests.broker.security.record import record_values
from tests.conftest import read_jsonl
from tests.metadata.node import Metadata, answer, call, node, started
from tests.metadata.test_answers import PROPERTIES
from tests.metadata.wire import whole

FOLDER = Path(__file__).parent
ANSWERS = list(read_jsonl(FOLDER / "acl_answers.jsonl.gz"))
POLICY_VIOLATION, INVALID_REQUEST = 44, 42


def comparable(found: Any) -> Any:
    """Return a response with sorted resources and ACLs, since Kafka's order differs from run to run."""
    for each in (*found.get("filter_results", ()), *found.get("resources", ())):
        comparable(each)
    for name in ("resources", "acls", "matching_acls"):
        if name in found:
            found[name].sort(key=json.dumps)
    return found


def authorized(metadata: Metadata) -> Broker:
    """A broker with an authorizer."""
    return node(PROPERTIES, metadata, Authorizer(AuthorizerConfig(super_users=frozenset({"User:ANONYMOUS"}))))


async def ask_all(broker: Broker) -> list[Any]:
    return [plain(await answer(broker, call(*each))) for each in cases()]


def ask(broker: Broker, case: Any) -> Any:
    return plain(asyncio.run(answer(broker, call(*case))))


@pytest.fixture(scope="module")
def ours() -> tuple[list[Any], Metadata]:
    """Return kcli's responses to all cases, and the metadata after them."""
    metadata = started()
    return asyncio.run(ask_all(authorized(metadata))), metadata


def test_the_recorded_questions_are_the_cases() -> None:
    asked = json.loads(json.dumps(list(cases())))
    assert [[each["api_key"], each["version"], each["request"]] for each in ANSWERS] == asked


@pytest.mark.parametrize("number", range(len(ANSWERS)))
def test_the_answer_is_kafkas(number: int, ours: tuple[list[Any], Metadata]) -> None:
    assert comparable(ours[0][number]) == comparable(ANSWERS[number]["answer"])


def test_the_records_are_kafkas(ours: tuple[list[Any], Metadata]) -> None:
    written = [(name, whole(name, version, value)) for name, version, value in ours[1].written if name in RECORDS]
    expected = [json.loads(line) for line in (FOLDER / "acl_records.jsonl").read_text().splitlines()]
    assert [record_values(*each) for each in written] == expected


def test_an_image_from_a_snapshot_has_the_same_acls() -> None:
    metadata, again = started(), MetadataImage()
    broker = authorized(metadata)
    ask(broker, create(acl("t"), acl("u", resource_pattern_type=4)))
    ask(broker, delete(filter_of("t")))
    for offset, (name, version, value) in enumerate(snapshot(metadata.image)):
        again.apply(name, whole(name, version, value), offset)
    for image in (again, again.copy()):
        assert (image.acls, image.acl_ids) == (metadata.image.acls, metadata.image.acl_ids)
    assert [each.resource_name for each in again.acl_ids] == ["u"]
    other = MetadataImage()
    other.become(again)
    assert other.acl_ids == metadata.image.acl_ids
    assert other.take_changes().acls == again.acls.keys()


def test_more_than_one_request_may_create(monkeypatch: pytest.MonkeyPatch) -> None:
    broker, most = authorized(started()), 20
    monkeypatch.setattr(acl_control, "RECORDS_PER_REQUEST_MAX", most)
    results = ask(broker, create(*(acl(f"t{each}") for each in range(most + 1)), acl("")))["results"]
    assert [results[0]["error_code"], results[-1]["error_code"]] == [POLICY_VIOLATION, INVALID_REQUEST]
    assert not broker.image.acls
    results = ask(broker, create(*(acl("same") for _ in range(most + 1))))["results"]
    assert {each["error_code"] for each in results} == {0}
    results = ask(broker, create(*(acl(f"t{each}") for each in range(most)), acl("same")))["results"]
    assert {each["error_code"] for each in results} == {0}
    assert len(broker.image.acls) == most + 1
    results = ask(broker, create(*(acl(f"u{each}") for each in range(3 * most)), acl("same")))["results"]
    assert {each["error_code"] for each in results} == {POLICY_VIOLATION}
    results = ask(broker, delete(filter_of("same"), filter_of()))["filter_results"]
    assert [(each["error_code"], each["matching_acls"]) for each in results] == [(INVALID_REQUEST, [])] * 2
    assert ask(broker, delete(filter_of("t1"), filter_of("t2")))["filter_results"][-1]["matching_acls"]
    assert len(ask(broker, describe())["resources"]) == most - 1


def test_filters_that_overlap_cannot_answer_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_control, "MATCHES_MAX", 100)
    acls = [AclFields(2, f"t{each}", 3, "User:a", "*", 3, 3) for each in range(50)]
    wanted = [AclFilter(1, None, 1, None, host, 1, 1) for host in (None, "*")]
    assert not any(isinstance(each, Error) for each in find_acls(acls, wanted * 9).values())
    wanted.append(AclFilter(2, "t7", 1, None, None, 1, 1))
    assert all(isinstance(each, Error) for each in find_acls(acls, wanted).values())


def test_ids_are_new_and_no_options() -> None:
    image, dash = MetadataImage(), UUID(int=0xF8 << 120)
    ids = iter([dash, UUID(int=1), UUID(int=1), UUID(int=2)])
    two = {AclFields(2, name, 3, "User:a", "*", 3, 3): NO_ERROR for name in "ab"}
    records = create_acls(image, two, lambda: next(ids)).records
    assert [value["id"] for _, _, value in records] == ["AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"]
