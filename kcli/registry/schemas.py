"""/schemas: schemas by id and guid, and listed.

GET  /schemas                          versions whose subjects begin with `subjectPrefix`
GET  /schemas/ids/{id}                 the schema, or only its text, its subjects, its versions
GET  /schemas/guids/{guid}             the schema, or its ids
GET  /schemas/types                    the formats
"""

from __future__ import annotations

from uuid import UUID

from kcli.registry import errors, names
from kcli.registry.calls import Call, integer
from kcli.registry.drafts import schema_json, stored, text_json
from kcli.registry.image import Image
from kcli.registry.metadata import has_rule_of_type
from kcli.registry.records import StoredSchema
from kcli.registry.views import formatted, with_qualified_references
from kcli.service.messages import Answer

TYPES = ["JSON", "PROTOBUF", "AVRO"]


def list_schemas(call: Call) -> Answer:
    """Return versions, by subject and version."""
    prefix = call.text("subjectPrefix")
    aliases = _aliases(call.image, prefix) if call.flag("aliases") else {}
    subjects = call.image.subjects(prefix)
    subjects = sorted({*subjects, *(each for each in aliases if call.image.versions(each))})
    found = [schema for subject in subjects for schema in _listed(call, subject)]
    return call.answer(
        [
            schema_json(stored(each), each.guid, aliases.get(each.subject, ()))
            for each in call.page(found, call.limits.results_max)
        ]
    )


def _listed(call: Call, subject: str) -> list[StoredSchema]:
    deleted = call.flag("deleted")
    versions = [each for each in call.image.versions(subject) if deleted or not each.deleted]
    if call.flag("latestOnly"):
        versions = versions[-1:]
    rule_type = call.text("ruleType")
    return [each for each in versions if not rule_type or has_rule_of_type(each.rule_set, rule_type)]


def _aliases(image: Image, prefix: str) -> dict[str, list[str]]:
    """Return the subjects for which aliases with a prefix stand, each with its aliases."""
    aliases: dict[str, list[str]] = {}
    name = names.parse(prefix)
    subjects = sorted((each for each in image.configs if each is not None), key=lambda each: names.parse(each).order)
    for subject in subjects:
        alias = image.configs[subject].get("alias")
        if not alias:
            continue
        own = names.parse(subject)
        if own.subject.startswith(name.subject) and name.context in (own.context, "*"):
            aliases.setdefault(names.qualify(subject, alias), []).append(subject)
    return aliases


def _found(call: Call, schema_id: str) -> StoredSchema:
    number = integer(schema_id)
    found = call.image.of_id_anywhere(number, call.text("subject"))
    if found is None:
        raise errors.schema_not_found(number)
    return found


def get_schema(call: Call, schema_id: str) -> Answer:
    """Return the schema with an id. Errors: 40403."""
    found = _found(call, schema_id)
    max_id = None
    if call.flag("fetchMaxId"):
        max_id = call.image.max_id(names.context_of(found.subject))
    shown = with_qualified_references(call, formatted(call, stored(found)))
    return call.answer(text_json(shown, found.guid, max_id=max_id))


def get_schema_text(call: Call, schema_id: str) -> Answer:
    """Return the text of the schema with an id. Errors: 40403."""
    return call.text_answer(formatted(call, stored(_found(call, schema_id))).text or "")


def _versions_of(call: Call, schema_id: str) -> list[tuple[str, int]]:
    found = call.image.of_id_anywhere(integer(schema_id), call.text("subject"))
    if found is None:
        raise errors.schema_not_found()
    deleted = call.flag("deleted")
    return [
        (subject, version)
        for subject, version in call.image.holders(names.context_of(found.subject), found.id)
        if call.image.schema(subject, version, deleted=deleted) is not None
    ]


def list_subjects_of_id(call: Call, schema_id: str) -> Answer:
    """Return the subjects that an id is registered under. Errors: 40403."""
    return call.answer(call.page([subject for subject, _ in _versions_of(call, schema_id)]))


def list_versions_of_id(call: Call, schema_id: str) -> Answer:
    """Return the subjects and versions that an id is registered under. Errors: 40403."""
    found = call.page(_versions_of(call, schema_id))
    return call.answer([{"subject": subject, "version": version} for subject, version in found])


def _ids_of_guid(image: Image, guid: str) -> list[tuple[str, int]]:
    try:
        digest = UUID(guid).bytes
    except ValueError:
        return []
    found = ((context, image.id_of(context, digest)) for context in (names.DEFAULT_CONTEXT, *image.contexts()))
    return [(context, number) for context, number in found if number is not None]


def get_schema_by_guid(call: Call, guid: str) -> Answer:
    """Return the schema with a guid. Errors: 40403."""
    ids = _ids_of_guid(call.image, guid)
    found = call.image.of_id(ids[0][1], names.qualified_context(ids[0][0])) if ids else None
    if found is None:
        raise errors.schema_not_found(guid)
    return call.answer(text_json(formatted(call, stored(found)), found.guid, with_subject=False))


def list_ids_of_guid(call: Call, guid: str) -> Answer:
    """Return the contexts and ids of a guid."""
    ids = sorted(_ids_of_guid(call.image, guid))
    return call.answer([{"context": context, "id": number} for context, number in ids])


def list_types(call: Call) -> Answer:
    """Return the formats."""
    return call.answer(TYPES)
