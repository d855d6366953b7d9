"""What the transcript cannot show: limits, damaged requests, rule sets, and what a server asks before `handle`."""

from __future__ import annotations

import base64
import json

import pytest

from kcli.registry.api import (
    Answer,
    Change,
    Identity,
    Image,
    Limits,
    Operation,
    Request,
    handle,
    operation_of,
    subject_of,
)
from kcli.schemas.json_schema import comparison
from tests.registry.registry import Registry

RULES = {
    "domainRules": [{"name": "r", "kind": "CONDITION", "type": "CEL", "mode": "WRITE", "tags": ["b", "a"], "expr": "1"}]
}
STORED_RULES = {
    "domainRules": [
        {
            "name": "r",
            "kind": "CONDITION",
            "mode": "WRITE",
            "type": "CEL",
            "tags": ["a", "b"],
            "expr": "1",
            "disabled": False,
        }
    ]
}


def request(line: str) -> Request:
    """Return a request without a body."""
    method, path = line.split(" ", 1)
    path, _, query = path.partition("?")
    return Request(method, path, query, {}, b"")


TOUCHED = [
    ("GET /subjects", None, Operation.READ),
    ("POST /subjects/s/versions", "s", Operation.WRITE),
    ("POST /subjects/a%2Fb/versions", "a/b", Operation.WRITE),
    ("POST /contexts/.c/subjects/s/versions", ":.c:s", Operation.WRITE),
    ("POST /subjects/:.:s/versions", "s", Operation.WRITE),
    ("POST /subjects/s", "s", Operation.READ),
    ("DELETE /subjects/s", "s", Operation.DELETE),
    ("DELETE /subjects/s/versions/1", "s", Operation.DELETE),
    ("POST /compatibility/subjects/s/versions/1", "s", Operation.READ),
    ("GET /config", None, Operation.COMPATIBILITY_READ),
    ("PUT /config/s", "s", Operation.COMPATIBILITY_WRITE),
    ("PUT /contexts/.c/config", ":.c:", Operation.COMPATIBILITY_WRITE),
    ("PUT /config/:.:", None, Operation.COMPATIBILITY_WRITE),
    ("PUT /mode", None, Operation.MODE_WRITE),
    ("GET /mode/s", "s", Operation.MODE_READ),
    ("GET /schemas/ids/1", None, Operation.READ),
    ("GET /schemas/ids/1?subject=s", "s", Operation.READ),
    ("GET /contexts/.c/schemas/ids/1", ":.c:", Operation.READ),
    ("DELETE /contexts/.c", ":.c:", Operation.DELETE),
    ("GET /schemas/types", None, Operation.DESCRIBE),
    ("GET /nope", None, Operation.DESCRIBE),
]


@pytest.mark.parametrize(("line", "subject", "operation"), TOUCHED)
def test_what_a_request_touches(line: str, subject: str | None, operation: Operation) -> None:
    assert (subject_of(request(line)), operation_of(request(line))) == (subject, operation)


def test_an_alias_touches_the_subject_that_it_stands_for() -> None:
    registry = Registry()
    registry.ask("PUT /config/al", {"alias": "s"})
    asked = request("POST /subjects/al/versions")
    assert (subject_of(asked), subject_of(asked, registry.image)) == ("al", "s")


def test_a_large_body_is_refused_before_it_is_read() -> None:
    registry = Registry(Limits(body_size_max=10))
    assert registry.ask("POST /subjects/s/versions", b"x" * 11).status == 413


@pytest.mark.parametrize(
    "body",
    [
        *(b"[" * 100_000, b'{"a":' * 100_000, b"\xff", b'{"schema":"\\ud800"}', b"{", b"nul", b"1e"),
        *(b"NaN", b'{"schema":-Infinity}', b'{"schema":%s}' % (b"9" * 1001)),
    ],
)
@pytest.mark.parametrize("line", ["POST /subjects/s/versions", "PUT /config/s", "PUT /mode", "POST /subjects/s"])
def test_a_damaged_body_is_refused_with_one_line(line: str, body: bytes) -> None:
    answer = Registry().ask(line, body)
    assert answer.status == 400
    assert "\n" not in json.loads(answer.body)["message"]


@pytest.mark.parametrize(
    "body",
    [
        {"schema": []},
        {"version": {}},
        {"version": True},
        {"version": 1 << 40},
        {"version": "x"},
        {"id": 1e400},
        {"references": "x"},
        {"references": [5]},
        {"references": [{"name": []}]},
        {"metadata": 5},
        {"metadata": {"properties": []}},
        {"metadata": {"properties": {"a": None}}},
        {"metadata": {"tags": {"a": "x"}}},
        {"ruleSet": {"domainRules": [None]}},
        {"ruleSet": {"domainRules": [{"kind": "x"}]}},
        [],
        5,
        "x",
        1.5,
        True,
    ],
)
def test_fields_of_another_kind_are_refused(body: object) -> None:
    assert Registry().code("POST /subjects/s/versions", body) == 400


def test_a_registration_without_a_free_id_is_refused() -> None:
    registry = Registry()
    registry.ask("PUT /mode/imported?force=true", {"mode": "IMPORT"})
    highest = {"schema": '"bytes"', "id": 2**31 - 1, "version": 1}
    assert registry.ask("POST /subjects/imported/versions", highest).status == 200
    refused = registry.ask("POST /subjects/s/versions", {"schema": '"int"'})
    assert refused.status == 422
    assert "No schema id is left in context .: 2147483647 is the highest, of subject imported" in refused.body.decode()
    assert registry.json("POST /subjects/s/versions", {"schema": '"bytes"'}) is not None, "which has an id"


def test_a_descriptor_without_content_is_no_schema() -> None:
    registry = Registry()
    body = {"schemaType": "PROTOBUF", "schema": base64.b64encode(b"\n\x07a.proto").decode()}
    assert registry.code("POST /subjects/s/versions", body) == 42201
    assert registry.log == []


def test_schemas_with_too_much_to_compare_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "COMPARISONS_MAX", 10)
    registry = Registry()

    def body(type_: str) -> dict[str, str]:
        parts = [{"type": "object", "properties": {f"p{i}": {"type": type_}}} for i in range(10)]
        return {"schemaType": "JSON", "schema": json.dumps({"oneOf": parts})}

    assert registry.ask("POST /subjects/s/versions", body("string")).status == 200
    for line in ("POST /subjects/s/versions", "POST /compatibility/subjects/s/versions"):
        refused = registry.ask(line, body("integer"))
        assert refused.status == 422
        assert b"more than 10 pairs of schemas would have to be compared" in refused.body


def test_references_in_a_circle_end() -> None:
    """Nobody can register them, but a log can have them."""
    registry = Registry()
    for subject, other in (("a", "b"), ("b", "a")):
        key = f'{{"keytype":"SCHEMA","subject":"{subject}","version":1,"magic":1}}'
        value = {
            "id": ord(subject),
            "schema": f'{{"type":"record","name":"{subject}","fields":[]}}',
            "references": [{"name": other, "subject": other, "version": 1}],
        }
        registry.image.replay(key.encode(), json.dumps(value).encode(), 0)
    schema = '{"type":"record","name":"c","fields":[]}'
    body = {"schema": schema, "references": [{"name": "a", "subject": "a", "version": 1}]}
    assert registry.ask("POST /subjects/c/versions", body).status in (200, 422)


def test_a_long_chain_of_references_does_not_recurse() -> None:
    registry = Registry()
    for number in range(3000):
        key = f'{{"keytype":"SCHEMA","subject":"s{number}","version":1,"magic":1}}'
        before = [{"name": f"N{number - 1}", "subject": f"s{number - 1}", "version": 1}] if number else []
        schema = f'{{"type":"enum","name":"N{number}","symbols":[]}}'
        value = json.dumps({"id": number + 1, "schema": schema, "references": before})
        registry.image.replay(key.encode(), value.encode(), number)
    body = {"schema": '"N2999"', "references": [{"name": "N2999", "subject": "s2999", "version": 1}]}
    assert registry.ask("POST /subjects/last/versions", body).status in (200, 422)


def test_rule_sets_are_stored_compared_and_returned() -> None:
    """The open edition of the original drops them; that of its Enterprise keeps them."""
    registry = Registry()
    registry.ask("POST /subjects/s/versions", {"schema": '"int"'})
    registered = registry.json("POST /subjects/s/versions", {"schema": '"int"', "ruleSet": RULES})
    assert isinstance(registered, dict)
    assert (registered["version"], registered["ruleSet"]) == (2, STORED_RULES)
    found = registry.json("GET /subjects/s/versions/2")
    assert isinstance(found, dict)
    assert (found["ruleSet"], found["guid"]) == (STORED_RULES, registered["guid"])
    assert registry.json("GET /schemas?ruleType=CEL") == [found]
    assert registry.json("GET /schemas?ruleType=other") == []
    again = registry.json("POST /subjects/s/versions", {"schema": '"int"', "ruleSet": RULES})
    assert again == registered


def test_rules_of_the_configuration_are_added() -> None:
    registry = Registry()
    registry.ask("PUT /config/s", {"defaultRuleSet": RULES})
    registered = registry.json("POST /subjects/s/versions", {"schema": '"int"'})
    assert isinstance(registered, dict)
    assert registered["ruleSet"] == STORED_RULES


ILLEGAL_RULES = [
    ({}, "Missing rule name"),
    ({"name": ""}, "Empty rule name"),
    ({"name": "1"}, "Illegal initial character in rule name: 1"),
    ({"name": "a b"}, "Illegal character in rule name: a b"),
    ({"name": "a" * 257}, "Rule name too long"),
    ({"name": "a"}, "Missing rule type"),
    ({"name": "a", "type": "X", "mode": "UPGRADE"}, "Domain rules can only be WRITE, READ, WRITEREAD"),
    (
        {"name": "a", "type": "X", "mode": "READ", "onFailure": "a,b"},
        "Multiple actions only valid with WRITEREAD and UPDOWN",
    ),
]


@pytest.mark.parametrize(("rule", "message"), ILLEGAL_RULES)
def test_illegal_rules(rule: dict[str, str], message: str) -> None:
    body = {"schema": '"int"', "ruleSet": {"domainRules": [rule]}}
    assert Registry().json("POST /subjects/s/versions", body) == {"error_code": 42210, "message": message}


def test_modes_can_be_made_immutable() -> None:
    registry = Registry(Limits(mode_mutability=False))
    assert registry.code("PUT /mode", {"mode": "READONLY"}) == 42205
    assert registry.code("DELETE /mode") == 42205


def test_listings_of_schemas_are_bounded() -> None:
    registry = Registry(Limits(results_max=2))
    for number in range(4):
        registry.ask(f"POST /subjects/s{number}/versions", {"schema": '"int"'})
    for query, count in (("", 2), ("?limit=1", 1), ("?limit=3", 2), ("?offset=3", 1), ("?offset=-1", 2)):
        found = registry.json(f"GET /schemas{query}")
        assert isinstance(found, list)
        assert len(found) == count


def test_a_change_is_answered_only_once_it_is_replayed() -> None:
    """`handle` changes nothing by itself: the same request again is the same change."""
    image = Image()
    asked = Request("PUT", "/config", "", {}, b'{"compatibility":"FULL"}')
    first, second = (handle(image, asked, Limits()) for _ in range(2))
    assert isinstance(first, Change)
    assert first == second
    assert image.configs == {}


def test_the_level_where_nothing_is_configured() -> None:
    registry = Registry(Limits(default_compatibility="FULL"))
    assert registry.json("GET /config") == {"compatibilityLevel": "FULL"}


@pytest.mark.parametrize("subject", ["%", "%zz/versions", "%ff/versions", "%C3%28"])
def test_paths_that_are_not_utf_8_are_refused(subject: str) -> None:
    assert [Registry().ask(f"{method} /subjects/{subject}").status for method in ("GET", "POST")] == [400, 400]


def test_a_path_of_many_segments_is_answered() -> None:
    assert Registry().ask("GET /" + "a/" * 5000).status == 404


def test_head_is_get() -> None:
    assert Registry().ask("HEAD /subjects").status == 200


def test_a_query_of_too_many_parameters_is_refused() -> None:
    assert Registry().ask("GET /subjects?" + "a=b&" * 2000).status == 400


@pytest.mark.parametrize("name", ["schemaTagsToAdd", "schemaTagsToRemove"])
def test_tags_inside_schemas_are_refused(name: str) -> None:
    body = {"schema": '"int"', name: [{"schemaEntity": {"entityPath": "a", "entityType": "sr_field"}, "tags": ["b"]}]}
    refusal = {"error_code": 42205, "message": "Tags inside schemas are not part of this registry"}
    assert Registry().json("POST /subjects/s/versions", body) == refusal


@pytest.mark.parametrize("path", ["/exporters", "/dek-registry/v1/keks", "/associations/resources/r", "/catalog/v1/x"])
def test_what_the_registry_has_not_is_named(path: str) -> None:
    answer = Registry().ask(f"GET {path}")
    assert answer.status == 404
    assert json.loads(answer.body)["message"].endswith("are not part of this registry")


def test_the_registry_tells_who_it_is() -> None:
    asked = request("GET /v1/metadata/id")
    answer = handle(Image(), asked, Limits(), Identity(kafka_cluster_id="k", group_id="g"))
    assert isinstance(answer, Answer)
    clusters = {"kafka-cluster": "k", "schema-registry-cluster": "g"}
    assert json.loads(answer.body) == {"scope": {"path": [], "clusters": clusters}}
    assert Registry().json("GET /v1/metadata/version") == {"version": "8.3.1"}
    assert Registry().json("GET /v1/metadata/deployment") == {"attributes": []}


def test_properties_in_another_order_are_the_same_schema() -> None:
    registry = Registry()
    ids = []
    for properties in ('"x":1,"y":2', '"y":2,"x":1', '"x":1,"y":3'):
        text = f'{{"type":"record","name":"A","fields":[{{"name":"a","type":"int",{properties}}}]}}'
        answer = registry.json("POST /subjects/s/versions", {"schema": text})
        assert isinstance(answer, dict)
        ids.append(answer["id"])
    assert ids == [1, 1, 2]
