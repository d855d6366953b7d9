"""/subjects: subjects and their versions.

GET     /subjects                                      their names
POST    /subjects/{subject}                            the version that a schema has
GET     /subjects/{subject}/metadata                   the latest version with properties
DELETE  /subjects/{subject}                            all versions: softly, then permanently
GET     /subjects/{subject}/versions                   their numbers
GET     /subjects/{subject}/versions/{version}         one, or only its text, or the ids of schemas that refer to it
DELETE  /subjects/{subject}/versions/{version}         one
"""

from __future__ import annotations

from dataclasses import replace

from kcli.registry import errors, lookups, names, settings
from kcli.registry.calls import Call, version_id
from kcli.registry.drafts import schema_json, stored
from kcli.registry.image import Image
from kcli.registry.messages import Change
from kcli.registry.records import (
    Record,
    StoredSchema,
    delete_subject_value,
    schema_key,
    schema_value,
    subject_key,
)
from kcli.registry.views import formatted, requested, with_qualified_references
from kcli.service.messages import Answer


def list_subjects(call: Call) -> Answer:
    """Return the names of subjects that begin with `subjectPrefix`."""
    found = call.image.subjects(call.text("subjectPrefix", names.WILDCARD))
    if call.flag("deletedOnly"):
        found = [each for each in found if not call.image.is_live(each)]
    elif not call.flag("deleted"):
        found = [each for each in found if call.image.is_live(each)]
    return call.answer(call.page(found))


def look_up_schema(call: Call, subject: str) -> Answer:
    """Return the version that a schema has. Errors: 40401, 40403, 42201."""
    draft = requested(call, subject, "lookUpSchemaUnderSubject.request")
    default_level = call.limits.default_compatibility
    config = settings.config_in_scope(call.image, draft.subject, default_level)
    normalize = call.flag("normalize") or bool(config.get("normalize"))
    deleted = call.flag("deleted")
    found = lookups.look_up_anywhere(call.image, draft, default_level, normalize=normalize, deleted=deleted)
    if found is None:
        raise _missing(call.image, draft.subject, errors.schema_not_found(), deleted=deleted)
    return call.answer(schema_json(formatted(call, found), found.guid))


def _missing(image: Image, subject: str, if_subject_exists: errors.RestError, *, deleted: bool) -> errors.RestError:
    return if_subject_exists if image.has_subjects(subject, deleted=deleted) else errors.subject_not_found(subject)


def latest_with_metadata(call: Call, subject: str) -> Answer:
    """Return the latest version whose metadata has properties. Errors: 40401, 40403."""
    subject = names.normalize(subject)
    wanted = dict(zip(call.query.get("key", ()), call.query.get("value", ()), strict=False)).items()
    deleted = call.flag("deleted")
    for each in reversed(call.image.versions(subject)):
        properties = (each.metadata or {}).get("properties", {}).items()
        if (deleted or not each.deleted) and each.metadata is not None and wanted <= properties:
            return call.answer(schema_json(formatted(call, stored(each)), each.guid))
    raise _missing(call.image, subject, errors.schema_not_found(), deleted=deleted)


def list_versions(call: Call, subject: str) -> Answer:
    """Return the versions of a subject. Errors: 40401."""
    subject = names.normalize(subject)
    deleted, deleted_only = call.flag("deleted"), call.flag("deletedOnly")
    if not call.image.has_subjects(subject, deleted=deleted or deleted_only):
        raise errors.subject_not_found(subject)
    versions = call.image.versions(subject)
    if call.flag("deletedAsNegative"):
        numbers = [-each.version if each.deleted else each.version for each in versions]
    elif deleted_only:
        numbers = [each.version for each in versions if each.deleted]
    else:
        numbers = [each.version for each in versions if deleted or not each.deleted]
    return call.answer(call.page(numbers))


def version_anywhere(call: Call, subject: str, version: str, *, deleted: bool) -> StoredSchema:
    """Return a version of a subject, or of the subject with the same name in another context. Errors: 40401, 40402,
    42202."""
    subject = names.normalize(subject)
    number = version_id(version)
    image = call.image
    found = image.schema(subject, number, deleted=deleted)
    name = names.parse(subject)
    if found is None and name.context == names.DEFAULT_CONTEXT:
        for context in image.contexts():
            found = image.schema(names.Name(context, name.subject).qualified, number, deleted=deleted)
            if found is not None:
                break
    if found is None:
        raise _missing(image, subject, errors.version_not_found(number), deleted=deleted)
    return found


def get_version(call: Call, subject: str, version: str) -> Answer:
    """Return a version. Errors: 40401, 40402, 42202."""
    found = version_anywhere(call, subject, version, deleted=call.flag("deleted"))
    shown = formatted(call, stored(found))
    qualified = with_qualified_references(call, shown)
    return call.answer(schema_json(qualified, found.guid if qualified is shown else qualified.guid))


def get_version_text(call: Call, subject: str, version: str) -> Answer:
    """Return the text of a version. Errors: 40401, 40402, 42202."""
    found = version_anywhere(call, subject, version, deleted=call.flag("deleted"))
    return call.text_answer(formatted(call, stored(found)).text or "")


def referenced_by(call: Call, subject: str, version: str) -> Answer:
    """Return the ids of the schemas that refer to a version. Errors: 40401, 40402, 42202."""
    found = version_anywhere(call, subject, version, deleted=True)
    referrers = call.image.referrers(found.subject, found.version, deleted=call.flag("deleted"))
    ids = sorted({(names.context_of(each.subject), each.id) for each in referrers})
    return call.answer([number for _, number in call.page(ids, call.limits.results_max)])


def delete_subject(call: Call, subject: str) -> Change:
    """Delete all versions of a subject. The parameter `permanent` deletes soft-deleted versions for good.

    Errors: 40401, 40404, 40405, 42205, 42206.
    """
    subject = names.normalize(subject)
    image, permanent = call.image, call.flag("permanent")
    if not image.has_subjects(subject, deleted=True):
        raise errors.subject_not_found(subject)
    if not permanent and not image.has_subjects(subject, deleted=False):
        raise errors.subject_soft_deleted(subject)
    _check_writable(image, subject)
    versions = [each for each in image.versions(subject) if permanent or not each.deleted]
    for each in versions:
        if any(other.subject != subject for other in image.referrers(subject, each.version, deleted=permanent)):
            raise errors.reference_exists(subject, each.version)
        if permanent and not each.deleted:
            raise errors.subject_not_soft_deleted(subject)
    numbers = [each.version for each in versions]
    if permanent:
        records: list[Record] = [(schema_key(subject, number), None) for number in reversed(numbers)]
        return call.change(records + _settings_removed(image, subject), numbers)
    last = numbers[-1] if numbers else 0
    return call.change([(subject_key("DELETE_SUBJECT", subject), delete_subject_value(subject, last))], numbers)


def _check_writable(image: Image, subject: str) -> None:
    if settings.is_read_only(image, subject):
        raise errors.read_only(subject, names.context_prefix(subject))


def _settings_removed(image: Image, subject: str) -> list[Record]:
    """Return tombstones for the mode and the configuration of a subject."""
    records: list[Record] = []
    if subject in image.modes:
        records.append((subject_key("MODE", subject), None))
    if subject in image.configs:
        records.append((subject_key("CONFIG", subject), None))
    return records


def delete_version(call: Call, subject: str, version: str) -> Change:
    """Delete a version; with the parameter `permanent`, delete a soft-deleted version for good. Errors: 40401, 40402,
    40406, 40407, 42202, 42205, 42206."""
    subject = names.normalize(subject)
    number, image, permanent = version_id(version), call.image, call.flag("permanent")
    found = image.schema(subject, number, deleted=True)
    if found is None:
        raise _missing(image, subject, errors.version_not_found(number), deleted=True)
    if found.deleted and not permanent:
        raise errors.version_soft_deleted(subject, number)
    _check_writable(image, subject)
    if image.referrers(subject, found.version, deleted=permanent):
        raise errors.reference_exists(subject, found.version)
    if permanent and not found.deleted:
        raise errors.version_not_soft_deleted(subject, found.version)
    key = schema_key(subject, found.version)
    if not permanent:
        return call.change([(key, schema_value(_as_deleted(found)))], found.version)
    records: list[Record] = [(key, None)]
    if len(image.versions(subject)) == 1:
        records += _settings_removed(image, subject)
    return call.change(records, found.version)


def _as_deleted(schema: StoredSchema) -> StoredSchema:
    return replace(schema, deleted=True)
