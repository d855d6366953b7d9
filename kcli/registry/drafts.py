"""A schema in a request, and in answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kcli.registry.errors import InvalidSchemaRefused, not_permitted
from kcli.registry.fields import as_integer, as_list, as_object, as_text
from kcli.registry.metadata import Metadata, RuleSet, metadata_of, rule_set_of, shown_metadata, shown_rule_set
from kcli.registry.records import StoredSchema, digest_of, guid_of, references_json
from kcli.schemas.schema import Reference
from kcli.service.json_text import Json, pruned

TAGS = ("schemaTagsToAdd", "schemaTagsToRemove", "propagateSchemaTags")
"""Fields of a request that would change a schema's text."""
SHOWN_MAX = 10_000
"""The greatest length, in characters, of a schema's text, and of its other fields, in a refusal."""


class Draft(NamedTuple):
    """A schema of a request, or a registered schema in the same form.

    version: 0 if the request has none, -1 for the latest. id: -1 if the request has none. text: None if the request has
    none. timestamp_ms, deleted: None unless the schema is registered.
    """

    subject: str
    version: int
    id: int
    type: str
    text: str | None
    references: Sequence[Reference] = ()
    metadata: Metadata | None = None
    rule_set: RuleSet | None = None
    timestamp_ms: int | None = None
    deleted: bool | None = None

    @property
    def digest(self) -> bytes:
        """The MD5 of text, references, metadata and rules: schemas with the same digest are equal."""
        return digest_of(self.text or "", self.references, self.metadata, self.rule_set)

    @property
    def guid(self) -> str | None:
        """The digest as text."""
        return None if self.text is None else guid_of(self.digest)

    @property
    def is_empty(self) -> bool:
        """Whether the schema has no text."""
        return self.text is None or not self.text.strip()

    def __str__(self) -> str:
        """The schema as refusals show it."""
        references = ", ".join(map(shown_reference, self.references))
        return (
            f"{{subject={self.subject},version={_shown(self.version or None)},"
            f"id={_shown(None if self.id < 0 else self.id)},guid={_shown(self.guid)},schemaType={self.type},"
            f"references=[{_cut(references)}],metadata={_cut(shown_metadata(self.metadata))},"
            f"ruleSet={_cut(shown_rule_set(self.rule_set))},schema={_cut(_shown(self.text))},"
            "schemaTags=null,ts=null,deleted=null}"
        )


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."


def _shown(value: object) -> str:
    return "null" if value is None else str(value)


def shown_reference(reference: Reference) -> str:
    """Return a reference as refusals show it."""
    return f"{{name='{reference.name}', subject='{reference.subject}', version={reference.version}}}"


def invalid_schema(draft: Draft, reason: str) -> InvalidSchemaRefused:
    """Return the refusal of an invalid schema. reason: one line."""
    if reason == f"Invalid schema type {draft.type}":
        return InvalidSchemaRefused(reason)
    if draft.type == "AVRO":
        listed = _cut(", ".join(map(shown_reference, draft.references)))
        bare = draft._replace(version=0, id=-1)
        reason = f"Invalid schema {bare} with refs [{listed}] of type {draft.type}, details: {reason}"
    else:
        reason = f"Invalid schema of type {draft.type}, details: {reason}"
    return InvalidSchemaRefused(f"Invalid schema of type {draft.type}, details: {reason}")


def draft_of(subject: str, body: Json) -> Draft | None:
    """Return the schema of a request's body; None for null. Raises RestError."""
    fields = as_object(body, "RegisterSchemaRequest")
    if fields is None:
        return None
    if any(fields.get(name) for name in TAGS):
        raise not_permitted("Tags inside schemas are not part of this registry")
    version, schema_id = as_integer(fields.get("version")), as_integer(fields.get("id"))
    schema_type = as_text(fields.get("schemaType"))
    references = as_list(fields.get("references"), "SchemaReference>", _reference) or []
    draft = Draft(
        subject,
        0 if version is None else version,
        -1 if schema_id is None else schema_id,
        "AVRO" if schema_type is None else schema_type,
        as_text(fields.get("schema")),
        tuple(reference for reference, _ in references),
        metadata_of(fields.get("metadata")),
        rule_set_of(fields.get("ruleSet")),
    )
    for reference, is_complete in references:
        if not is_complete:
            raise invalid_schema(draft, f"Invalid reference: {shown_reference(reference)}")
    return draft


def _reference(value: Json) -> tuple[Reference, bool]:
    """Return a reference, with "null" and 0 for missing fields, and whether no field is missing."""
    fields = as_object(value, "SchemaReference") or {}
    name, subject = as_text(fields.get("name")), as_text(fields.get("subject"))
    version = as_integer(fields.get("version"))
    is_complete = name is not None and subject is not None and version is not None
    return Reference(_shown(name), _shown(subject), version or 0), is_complete


def stored(schema: StoredSchema) -> Draft:
    """Return a registered schema as a Draft."""
    return Draft(
        schema.subject,
        schema.version,
        schema.id,
        schema.type,
        schema.text,
        schema.references,
        schema.metadata,
        schema.rule_set,
        schema.timestamp_ms,
        schema.deleted,
    )


def schema_json(draft: Draft, guid: str | None, aliases: Sequence[str] = ()) -> dict[str, object]:
    """Return the JSON of a schema in answers of /subjects and /schemas. guid: the guid of the text before it was
    formatted."""
    return pruned(
        {
            "subject": draft.subject,
            "version": draft.version,
            "id": draft.id,
            "guid": guid,
            "schemaType": draft.type,
            "references": references_json(draft.references),
            "metadata": draft.metadata,
            "schema": draft.text,
            "ts": draft.timestamp_ms,
            "deleted": draft.deleted,
            "aliases": list(aliases),
            "ruleSet": draft.rule_set,
        }
    )


def text_json(
    draft: Draft, guid: str | None, *, with_subject: bool = True, max_id: int | None = None
) -> dict[str, object]:
    """Return the JSON of a schema in answers of /schemas/ids and /schemas/guids."""
    return pruned(
        {
            "subject": draft.subject if with_subject else None,
            "version": draft.version if with_subject else None,
            "guid": guid,
            "schemaType": draft.type,
            "schema": draft.text,
            "references": references_json(draft.references),
            "metadata": draft.metadata,
            "ruleSet": draft.rule_set,
            "maxId": max_id,
            "ts": draft.timestamp_ms,
            "deleted": draft.deleted,
        }
    )


def registered_json(draft: Draft, guid: str | None) -> dict[str, object]:
    """Return the JSON of a schema in the answer to its registration."""
    return pruned(
        {
            "id": draft.id,
            "version": draft.version if draft.version > 0 else None,
            "guid": guid,
            "schemaType": draft.type,
            "references": references_json(draft.references),
            "metadata": draft.metadata,
            "ruleSet": draft.rule_set,
            "schema": draft.text,
            "ts": draft.timestamp_ms,
            "deleted": draft.deleted,
        }
    )
