"""The requests of kcli schemas, to registries of several makes."""
# ruff: noqa: ARG002 (methods have the signature of Transport)

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from kcli.errors import KcliError
from kcli.schema_client import client as module
from kcli.schema_client.changes import Import, import_versions
from kcli.schema_client.client import Finding, Missing, RegistryClient, Version, findings_of, grouped, parse_subject
from kcli.schema_client.errors import RegistryError
from kcli.schema_client.sources import RegisteredSchema


def answer(subject: str, version: int, **more: Any) -> dict[str, Any]:
    return {"subject": subject, "version": version, "id": version, "schema": '"int"', **more}


class Make:
    """A registry of some make: how it lists schemas."""

    name = "R"

    def __init__(self, make: str, count: int = 1200) -> None:
        self.make = make
        self.rows = [answer(f"s{i:04}", 1) for i in range(count)]
        self.asked: list[str] = []

    def request(self, method: str, path: str, body: Any = None) -> Any:
        self.asked.append(path)
        where, _, query = path.partition("?")
        values = {name: each[0] for name, each in parse_qs(query).items()}
        if where == "/schemas":
            return self._schemas(values)
        if where == "/subjects":
            return [each["subject"] for each in self.rows]
        subject = where.split("/")[2]
        found = [each for each in self.rows if each["subject"] == subject]
        if where.endswith("/versions"):
            return [each["version"] for each in found]
        return found[0]

    def _schemas(self, values: dict[str, str]) -> Any:
        if self.make == "without listing":
            raise RegistryError("no such resource", 404)
        if self.make == "without contexts" and values.get("subjectPrefix"):
            return []
        if self.make == "without pages":
            return self.rows
        start = int(values["offset"])
        if self.make == "endless":
            return [answer(f"s{i}", 1) for i in range(start, start + int(values["limit"]))]
        return self.rows[start : start + int(values["limit"])]


@pytest.mark.parametrize("make", ["Confluent's", "without contexts", "without pages", "without listing"])
def test_all_versions_of_a_registry(make: str) -> None:
    found = RegistryClient(Make(make)).all_versions()
    assert sorted(each.subject for each in found) == [f"s{i:04}" for i in range(1200)]
    assert [each.name for each in grouped(found)] == [f"s{i:04}" for i in range(1200)]


def test_a_listing_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "VERSIONS_MAX", 2000)
    with pytest.raises(RegistryError, match="R lists more than 2,000 versions"):
        RegistryClient(Make("endless")).all_versions()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "answers with an object, not with an array"),
        (None, "answers with a value, not with an array"),
        ([1], "does not answer with a version of a subject: no text under 'schema'"),
        ([{"schema": "x"}], "does not answer with a version of a subject: no subject, version and id"),
        ([answer("s", 1, references=[1])], "a reference that is no object"),
    ],
)
def test_a_listing_that_is_none(value: Any, message: str) -> None:
    class Wrong(Make):
        def request(self, method: str, path: str, body: Any = None) -> Any:
            return value

    with pytest.raises(RegistryError, match=message):
        RegistryClient(Wrong("")).all_versions()


def test_a_registry_that_compares_with_one_version_only() -> None:
    class OneVersion(Make):
        def request(self, method: str, path: str, body: Any = None) -> Any:
            self.asked.append(path)
            if path.startswith("/compatibility/subjects/s/versions?"):
                raise RegistryError("Not Found", 404)
            return {"is_compatible": False, "messages": ["a"]}

    made = OneVersion("")
    schema = RegisteredSchema("AVRO", '"int"')
    assert RegistryClient(made).findings("s", schema) == [Finding("", "", "a")]
    assert made.asked[-1] == "/compatibility/subjects/s/versions/latest?verbose=true"


def test_an_import_into_a_registry_without_modes() -> None:
    class WithoutModes(Make):
        def request(self, method: str, path: str, body: Any = None) -> Any:
            raise RegistryError("Method Not Allowed", 404 if method == "GET" else 405)

    plan = [Import(Version("s", 1, 1, RegisteredSchema("AVRO", '"int"')), "register")]
    with pytest.raises(KcliError, match=r"^R has no mode IMPORT for subjects: it imports with --new-ids$"):
        list(import_versions(RegistryClient(WithoutModes("")), Path("none"), plan, new_ids=False))


def test_what_is_not_there_is_a_failure_of_its_own() -> None:
    class Nothing(Make):
        def request(self, method: str, path: str, body: Any = None) -> Any:
            raise RegistryError("none", 404, 40401, "Subject 's' not found.")

    client = RegistryClient(Nothing(""))
    with pytest.raises(Missing) as raised:
        client.versions("s")
    assert (raised.value.exit_status, raised.value.code) == (1, 40401)
    assert client.config("s") is None
    assert client.mode("s") is None
    assert client.compatibility("s") == ""


@pytest.mark.parametrize(
    ("text", "subject", "version"),
    [
        ("orders-value", "orders-value", None),
        ("orders-value:2", "orders-value", 2),
        ("orders:latest", "orders", "latest"),
        ("a:b", "a:b", None),
        ("a:b:3", "a:b", 3),
        (":.ctx:orders", ":.ctx:orders", None),
        (":.ctx:orders:7", ":.ctx:orders", 7),
        (":.ctx:7", ":.ctx:7", None),
        (":1", "", 1),
        ("", "", None),
    ],
)
def test_a_subject_and_its_version(text: str, subject: str, version: int | str | None) -> None:
    assert parse_subject(text) == (subject, version)


def test_messages_of_registries() -> None:
    assert findings_of(
        [
            (
                "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'x' at path '/fields/1' in the"
                " new schema has no default value and is missing in the old schema', additionalInfo:'x'}"
            ),
            '{errorType:"FIELD_KIND_CHANGED", description:"The kind of a field at path \'#/A/1\' in the new schema"}',
            "{errorType:\"PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL\", description:\"The new schema at path '#/p' adds'}",
            "{oldSchemaVersion: 1}",
            '{oldSchema: \'{"type": "int"}\'}',
            "{validateFields: 'false', compatibility: 'BACKWARD'}",
            "something\nelse",
        ]
    ) == [
        Finding(
            "READER_FIELD_MISSING_DEFAULT_VALUE",
            "/fields/1",
            "The field 'x' at path '/fields/1' in the new schema has no default value and is missing in the old schema",
        ),
        Finding("FIELD_KIND_CHANGED", "#/A/1", "The kind of a field at path '#/A/1' in the new schema"),
        Finding("PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", "#/p", "The new schema at path '#/p' adds"),
        Finding("", "", "something else"),
    ]
    long = "{errorType:'A', description:'" + "'," * 100_000
    assert len(findings_of([long])) == 1
