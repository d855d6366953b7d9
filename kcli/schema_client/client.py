"""The requests of Confluent's REST API that `kcli schemas` makes, as methods. Source: Confluent, "Schema Registry API".

Every method raises RegistryError; `Missing` if the registry does not have the requested subject, version or schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote

from kcli.schema_client.errors import RegistryError
from kcli.schema_client.http import Transport
from kcli.schema_client.sources import Reference, RegisteredSchema, registered_schema

PAGE = 500
"""The number of schemas that one request for a page asks for."""
VERSIONS_MAX = 1_000_000
"""The greatest number of versions that a listing may have."""
MESSAGE_MAX = 4000
"""The number of characters of a message that are read."""

_FINDING = re.compile(
    r"""errorType:\s*['"]?(?P<kind>\w+)['"]?,\s*description:\s*['"](?P<text>.*?)['"],?\s*(?:additionalInfo:.*)?\}?$"""
)
_AT = re.compile(r"path '([^']*)'")
_OLD_VERSION = re.compile(r"\{?oldSchemaVersion:\s*(\d+)\}?")
_BESIDE = re.compile(r"\{?(oldSchema|validateFields|compatibility):", re.DOTALL)


class Missing(RegistryError):
    """The registry has no such subject, version, schema or configuration."""

    exit_status = 1


class Incompatible(RegistryError):
    """The registry refuses a schema, as it is not compatible with older versions of its subject."""

    exit_status = 1


class Version(NamedTuple):
    """A version of a subject. deleted: whether it is softly deleted, so that the registry returns it only by its id.
    guid: None if the registry has none."""

    subject: str
    version: int
    id: int
    schema: RegisteredSchema
    deleted: bool = False
    guid: str | None = None
    metadata: Mapping[str, Any] | None = None
    rule_set: Mapping[str, Any] | None = None

    def answer(self) -> dict[str, Any]:
        """Return the version as the JSON of a registry's answer."""
        found: dict[str, Any] = {"subject": self.subject, "version": self.version, "id": self.id}
        if self.guid is not None:
            found["guid"] = self.guid
        found |= _body(self.schema, self.metadata, self.rule_set)
        found["schemaType"] = self.schema.language
        return found | ({"deleted": True} if self.deleted else {})


@dataclass(frozen=True, slots=True)
class Subject:
    """A subject with its versions, in their order. deleted: whether all of them are."""

    name: str
    versions: Sequence[Version]

    @property
    def latest(self) -> Version:
        """The last version that is not deleted; the last version if all are deleted."""
        return next((each for each in reversed(self.versions) if not each.deleted), self.versions[-1])

    @property
    def deleted(self) -> bool:
        """Whether all versions are softly deleted."""
        return all(each.deleted for each in self.versions)


class Finding(NamedTuple):
    """An incompatibility of a schema. kind: its name, such as READER_FIELD_MISSING_DEFAULT_VALUE; "" if the message has
    none. path: its place in the schema; "" if the message has none."""

    kind: str
    path: str
    text: str


class RegistryClient:
    """Reads from a registry, and changes it."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.name = transport.name

    def subjects(self, *, deleted: bool = False, prefix: str | None = None) -> list[str]:
        """Return the names of subjects. deleted: whether to include softly deleted subjects. prefix: only names that
        begin with it; None for the subjects of all contexts."""
        found: list[Any] = []
        for asked in _prefixes(prefix):
            found = found or self._get(f"/subjects{_query(deleted=deleted or None, subjectPrefix=asked)}", list)
        return sorted({str(each) for each in found if prefix is None or str(each).startswith(prefix)})

    def all_versions(self, *, deleted: bool = False, prefix: str | None = None) -> list[Version]:
        """Return the versions of all subjects, in no order. deleted, prefix: as for `subjects`. If the registry cannot
        list schemas, each version is requested separately."""
        found: dict[tuple[str, int], Version] = {}
        try:
            for asked in _prefixes(prefix):
                if not found:
                    self._add_pages(found, asked, deleted=deleted)
        except Missing:
            found = {(each.subject, each.version): each for each in self._one_by_one(deleted=deleted, prefix=prefix)}
        return [each for each in found.values() if prefix is None or each.subject.startswith(prefix)]

    def _add_pages(self, found: dict[tuple[str, int], Version], prefix: str | None, *, deleted: bool) -> None:
        asked = 0
        while True:
            query = _query(deleted=deleted or None, subjectPrefix=prefix, offset=asked, limit=PAGE)
            page = self._get(f"/schemas{query}", list)
            before = len(found)
            for each in page:
                version = _version(each, self.name)
                found[version.subject, version.version] = version
            asked += len(page)
            if len(page) < PAGE or len(found) == before:
                return
            if len(found) > VERSIONS_MAX:
                raise RegistryError(f"{self.name} lists more than {VERSIONS_MAX:,} versions", 200)

    def _one_by_one(self, *, deleted: bool, prefix: str | None) -> Iterator[Version]:
        for subject in self.subjects(deleted=deleted, prefix=prefix):
            kept = set(self.versions(subject)) if not deleted else self._kept(subject)
            for number in self.versions(subject, deleted=deleted):
                yield self.version(subject, number, deleted=deleted)._replace(deleted=number not in kept)

    def _kept(self, subject: str) -> set[int]:
        try:
            return set(self.versions(subject))
        except Missing:
            return set()

    def versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        """Return the numbers of a subject's versions. deleted: whether to include softly deleted versions."""
        found = self._get(f"/subjects/{_part(subject)}/versions{_query(deleted=deleted or None)}", list)
        return sorted(each for each in found if isinstance(each, int))

    def version(self, subject: str, version: int | str, *, deleted: bool = False) -> Version:
        """Return a version of a subject. version: its number, or "latest"."""
        path = f"/subjects/{_part(subject)}/versions/{version}{_query(deleted=deleted or None)}"
        return _version(self._get(path, dict), self.name)

    def by_id(self, schema_id: int) -> dict[str, Any]:
        """Return the answer to GET /schemas/ids/ID."""
        return dict(self._get(f"/schemas/ids/{schema_id}", dict))

    def places(self, schema_id: int) -> list[tuple[str, int]]:
        """Return the subjects and versions under which a schema is registered, including softly deleted ones."""
        found = self._get(f"/schemas/ids/{schema_id}/versions?deleted=true", list)
        return [(str(each["subject"]), each["version"]) for each in found if isinstance(each, dict) and len(each) > 1]

    def referenced_by(self, subject: str, version: int) -> list[int]:
        """Return the ids of the schemas that refer to a version."""
        found = self._get(f"/subjects/{_part(subject)}/versions/{version}/referencedby", list)
        return [each for each in found if isinstance(each, int)]

    def compatibility(self, subject: str | None = None) -> str:
        """Return the compatibility level of a subject, or the global level if the subject is None or has no level. ""
        if the registry does not return a level."""
        path = "/config" if subject is None else f"/config/{_part(subject)}?defaultToGlobal=true"
        try:
            found = self._get(path, dict)
        except Missing:
            return ""
        return str(found.get("compatibilityLevel") or found.get("compatibility") or "")

    def config(self, subject: str | None) -> dict[str, Any] | None:
        """Return the configuration that is set for a subject, None if none is; for None the global configuration."""
        try:
            return dict(self._get("/config" if subject is None else f"/config/{_part(subject)}", dict))
        except Missing:
            return None

    def set_config(self, subject: str | None, config: Mapping[str, Any]) -> None:
        """Set the configuration of a subject, or the global one for None."""
        self._ask("PUT", "/config" if subject is None else f"/config/{_part(subject)}", config)

    def mode(self, subject: str) -> str | None:
        """Return the mode that is set for a subject; None if none is."""
        try:
            return str(self._get(f"/mode/{_part(subject)}", dict).get("mode"))
        except Missing:
            return None

    def set_mode(self, subject: str, mode: str | None) -> None:
        """Set the mode of a subject; None removes it, so that the global mode holds."""
        if mode is None:
            self._ask("DELETE", f"/mode/{_part(subject)}")
        else:
            self._ask("PUT", f"/mode/{_part(subject)}?force=true", {"mode": mode})

    def register(self, subject: str, schema: RegisteredSchema, *, normalize: bool = False, **more: Any) -> int:
        """Register a schema; return its id. normalize: whether the registry normalizes the schema first. more: further
        members of the request, such as `id` and `version` in the mode IMPORT. Raises Incompatible."""
        path = f"/subjects/{_part(subject)}/versions{_query(normalize=normalize or None)}"
        given = {name: value for name, value in more.items() if value is not None}
        answer = self._ask("POST", path, _body(schema) | given)
        found = answer.get("id") if isinstance(answer, dict) else None
        if not isinstance(found, int):
            raise RegistryError(f"{self.name}{path} does not answer with an id", 200)
        return found

    def look_up(self, subject: str, schema: RegisteredSchema, *, normalize: bool = False) -> Version:
        """Return the version of a subject that has this schema."""
        path = f"/subjects/{_part(subject)}{_query(normalize=normalize or None)}"
        return _version(self._ask("POST", path, _body(schema)), self.name)

    def findings(
        self, subject: str, schema: RegisteredSchema, version: int | str | None = None
    ) -> list[Finding] | None:
        """Return why a schema is not compatible with a subject, by the subject's level; None if it is compatible.
        version: one version to compare with, None for those that the level names."""
        at = f"/compatibility/subjects/{_part(subject)}/versions{'' if version is None else f'/{version}'}?verbose=true"
        try:
            answer = self._ask("POST", at, _body(schema))
        except Missing as error:
            if version is not None or error.code:
                raise
            return self.findings(subject, schema, "latest")  # Karapace compares with one version only
        if not isinstance(answer, dict) or not isinstance(answer.get("is_compatible"), bool):
            raise RegistryError(f"{self.name}{at} does not answer with is_compatible", 200)
        if answer["is_compatible"]:
            return None
        messages = answer.get("messages") or []
        return findings_of(str(each) for each in messages)

    def delete(self, subject: str, version: int | str | None, *, permanent: bool) -> None:
        """Delete a version of a subject, or for None the subject. permanent: delete permanently a version or subject
        that is softly deleted; otherwise delete it softly."""
        at = f"/subjects/{_part(subject)}{'' if version is None else f'/versions/{version}'}"
        self._ask("DELETE", at + _query(permanent=permanent or None))

    def _get(self, path: str, kind: type[Any]) -> Any:
        answer = self._ask("GET", path)
        if not isinstance(answer, kind):
            raise RegistryError(f"{self.name}{path} answers with {_kind(answer)}, not with {_NAMES[kind]}", 200)
        return answer

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        try:
            return self._transport.request(method, path, body)
        except RegistryError as error:
            kind = {404: Missing, 409: Incompatible}.get(error.status or 0)
            if kind is None:
                raise
            raise kind(str(error), error.status, error.code, error.reason) from None


_NAMES: dict[Any, str] = {dict: "an object", list: "an array"}


def _kind(value: Any) -> str:
    return _NAMES.get(type(value), "a value")


def findings_of(messages: Iterable[str]) -> list[Finding]:
    """Parse a registry's messages about an incompatible schema. Messages that only repeat the request are left out."""
    found = []
    for message in messages:
        text = " ".join(message[:MESSAGE_MAX].split())
        if _BESIDE.match(text) or _OLD_VERSION.fullmatch(text):
            continue
        parts = _FINDING.search(text)
        if parts is None:
            found.append(Finding("", "", text))
            continue
        at = _AT.search(parts["text"])
        found.append(Finding(parts["kind"], at[1] if at else "", parts["text"]))
    return found


def _body(
    schema: RegisteredSchema, metadata: Mapping[str, Any] | None = None, rule_set: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    body: dict[str, Any] = {"schema": schema.text}
    if schema.language != "AVRO":
        body["schemaType"] = schema.language
    if schema.references:
        body["references"] = [
            {"name": each.name, "subject": each.subject, "version": each.version} for each in schema.references
        ]
    if metadata is not None:
        body["metadata"] = metadata
    if rule_set is not None:
        body["ruleSet"] = rule_set
    return body


def _version(answer: Any, name: str) -> Version:
    try:
        schema = registered_schema(answer)
        return version_of(answer, schema)
    except ValueError as error:
        raise RegistryError(f"{name} does not answer with a version of a subject: {error}", 200) from None


def version_of(answer: Mapping[str, Any], schema: RegisteredSchema) -> Version:
    """Return the version in a registry's answer. Raises ValueError."""
    subject, version, schema_id = answer.get("subject"), answer.get("version"), answer.get("id")
    if not isinstance(subject, str) or not isinstance(version, int) or not isinstance(schema_id, int):
        raise ValueError("no subject, version and id")  # noqa: TRY004 (a bad answer, not a bad argument)
    guid, metadata, rules = answer.get("guid"), answer.get("metadata"), answer.get("ruleSet", answer.get("ruleset"))
    return Version(
        subject,
        version,
        schema_id,
        schema,
        answer.get("deleted") is True,
        guid if isinstance(guid, str) else None,
        metadata if isinstance(metadata, dict) else None,
        rules if isinstance(rules, dict) else None,
    )


def grouped(versions: Iterable[Version]) -> list[Subject]:
    """Group versions into subjects, which are sorted by name."""
    by_name: dict[str, list[Version]] = {}
    for each in versions:
        by_name.setdefault(each.subject, []).append(each)
    return [Subject(name, sorted(of, key=lambda each: each.version)) for name, of in sorted(by_name.items())]


def references_first(versions: Iterable[Version]) -> list[Version]:
    """Sort versions so that they can be registered in this order: by id, but each after the versions that it refers
    to."""
    by_place = {(each.subject, each.version): each for each in versions}
    done: dict[tuple[str, int], Version] = {}
    for start in sorted(by_place.values(), key=lambda each: (each.id, each.subject, each.version)):
        stack = [start]
        opened: set[tuple[str, int]] = set()
        while stack:
            each = stack[-1]
            place = each.subject, each.version
            missing = [
                by_place[reference.subject, reference.version]
                for reference in each.schema.references
                if (reference.subject, reference.version) in by_place
                and (reference.subject, reference.version) not in done
                and (reference.subject, reference.version) not in opened
            ]
            opened.add(place)
            if missing:
                stack += missing
            else:
                done.setdefault(place, each)
                stack.pop()
    return list(done.values())


def _prefixes(prefix: str | None) -> tuple[str | None, ...]:
    """Return the prefixes with which to request a listing, the second only if the first has brought no schemas. `:*:`
    stands for all contexts, in registries that have contexts."""
    return (":*:", None) if prefix is None else (prefix,)


def _part(name: str) -> str:
    return quote(name, safe="")


def _query(**values: str | int | bool | None) -> str:
    given = {name: str(value).lower() if isinstance(value, bool) else value for name, value in values.items()}
    parts = [f"{name}={quote(str(value), safe='')}" for name, value in given.items() if value is not None]
    return "?" + "&".join(parts) if parts else ""


def parse_references(texts: Iterable[str]) -> list[tuple[str, str]]:
    """Parse references of the form NAME=TARGET. Return name and target of each. Raises ValueError."""
    found = []
    for text in texts:
        name, equals, target = text.rpartition("=")
        if not equals or not name or not target:
            raise ValueError(f"{text!r} is not NAME=SUBJECT:VERSION")
        found.append((name, target))
    return found


_SUBJECT = re.compile(r"(?P<subject>(?::\.[^:]*:)?.*?)(?::(?P<version>\d{1,10}|latest))?", re.DOTALL)


def parse_subject(text: str) -> tuple[str, int | str | None]:
    """Parse SUBJECT[:VERSION]. Return the subject and the version: a number, "latest", or None if the text has no
    version. A subject may begin with its context, as in `:.context:subject`."""
    found = _SUBJECT.fullmatch(text)
    assert found is not None
    version = found["version"]
    return found["subject"], int(version) if version is not None and version.isdecimal() else version


def reference(name: str, target: str) -> Reference:
    """Return the reference to SUBJECT:VERSION. Raises ValueError."""
    subject, version = parse_subject(target)
    if not isinstance(version, int) or not subject:
        raise ValueError(f"{target!r} is not SUBJECT:VERSION")
    return Reference(name, subject, version)
