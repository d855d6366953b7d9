"""POST /subjects/{subject}/versions: a schema gets a version and an id.

If the schema is registered already, the answer has its version and id. Otherwise the subject's mode must allow
registrations; the configuration and the latest version complete the schema; it must be compatible; then it gets the id
of an equal schema in its context, or a new one.
"""

from __future__ import annotations

from kcli.registry import errors, lookups, names, settings
from kcli.registry.calls import Call
from kcli.registry.checking import incompatibilities
from kcli.registry.drafts import Draft, registered_json, stored
from kcli.registry.errors import InvalidSchemaRefused
from kcli.registry.fields import INT_MAX
from kcli.registry.image import Image
from kcli.registry.messages import Change
from kcli.registry.metadata import check_rule_set
from kcli.registry.records import (
    Config,
    Record,
    StoredSchema,
    context_key,
    context_value,
    schema_key,
    schema_value,
)
from kcli.registry.views import formatted, requested
from kcli.schemas.parsed import ParsedSchema
from kcli.service.messages import Answer


def register(call: Call, subject: str) -> Answer | Change:
    """Register a schema. Errors: 42201 no schema, 40901 incompatible, 42205 by its mode, 42207, 42208, 42210."""
    draft = requested(call, subject, "register.request")
    check_rule_set(draft.rule_set)
    if not names.is_valid(subject):
        raise errors.invalid_subject(subject)
    image = call.image
    config = settings.config_in_scope(image, draft.subject, call.limits.default_compatibility)
    normalize = call.flag("normalize") or bool(config.get("normalize"))
    found = _registered(image, draft, config, normalize=normalize)
    if found is not None:
        return call.answer(_answered(call, found))
    records, result = _register(image, draft, config, normalize=normalize)
    if not records:
        return call.answer(_answered(call, result))
    return call.change(records, _answered(call, result))


def _answered(call: Call, result: Draft) -> dict[str, object]:
    guid = result.guid
    return registered_json(formatted(call, result), guid)


def _registered(image: Image, draft: Draft, config: Config, *, normalize: bool) -> Draft | None:
    """Return the registered version that equals the schema, unless the request names another id or version."""
    if any(name in config for name in ("defaultMetadata", "overrideMetadata", "defaultRuleSet", "overrideRuleSet")):
        return None
    latest_only = draft.version == lookups.LATEST
    found = lookups.look_up(image, draft, normalize=normalize, deleted=False, latest_only=latest_only)
    if found is None:
        return None
    if draft.version == 0 or latest_only:
        return found if draft.id < 0 or draft.id == found.id else None
    if draft.id != found.id:
        return None
    if draft.version == found.version:
        return found
    other = image.schema(draft.subject, draft.version)
    return stored(other) if other is not None and other.id == found.id and other.digest == found.digest else None


def _register(image: Image, draft: Draft, config: Config, *, normalize: bool) -> tuple[list[Record], Draft]:
    _check_mode(image, draft)
    subject = draft.subject
    versions = image.versions(subject)
    live = [each for each in versions if not each.deleted]
    next_version = versions[-1].version + 1 if versions else 1
    is_importing = settings.is_importing(image, subject)
    if not is_importing:
        draft = _completed(draft, config, live, next_version)
    is_new = draft.id < 0 and config.get("validateNewSchemas") is not False
    wanted_id = draft.id
    draft, parsed = lookups.canonical(image, draft, is_new=is_new, normalize=normalize)
    if parsed is None or draft.is_empty:  # a FileDescriptorProto without content has an empty text
        raise InvalidSchemaRefused("Empty schema")
    draft = draft._replace(id=wanted_id)
    known_id = image.id_of(names.context_of(subject), draft.digest)
    if known_id is not None and draft.id in (-1, known_id):
        version = image.version_of(names.context_of(subject), known_id, subject)
        if draft.version == 0 and version is not None and image.schema(subject, version) is not None:
            return [], draft._replace(version=version, id=known_id)
        draft = draft._replace(id=known_id)
    same = _same_version(image, draft, parsed, live)
    if same is not None:
        return [], draft._replace(version=same.version, id=same.id)
    if not is_importing:
        messages = incompatibilities(image, config, draft, parsed, live)
        if messages:
            raise errors.incompatible(subject, messages)
    draft = _numbered(image, draft, next_version, is_importing=is_importing)
    return _records(image, draft, versions), draft


def _check_mode(image: Image, draft: Draft) -> None:
    subject, context = draft.subject, names.context_prefix(draft.subject)
    mode = settings.mode_in_scope(image, subject)
    if settings.is_read_only(image, subject):
        raise errors.read_only(subject, context)
    if draft.id >= 0:
        if not settings.is_importing(image, subject):
            raise errors.not_permitted(f"Subject {subject} in context {context} is not in import mode")
    elif mode != settings.READWRITE:
        raise errors.not_permitted(f"Subject {subject} in context {context} is not in read-write mode")


def _completed(draft: Draft, config: Config, live: list[StoredSchema], version: int) -> Draft:
    latest = live[-1] if live else None
    if draft.is_empty:
        if latest is None:
            raise InvalidSchemaRefused("Empty schema")
        draft = draft._replace(text=latest.text, type=latest.type, references=latest.references)
    return lookups.with_data_contract(config, draft, latest, version)


def _same_version(image: Image, draft: Draft, parsed: ParsedSchema, live: list[StoredSchema]) -> StoredSchema | None:
    if draft.version != 0:
        return None
    versions = (each for each in reversed(live) if draft.id in (-1, each.id))
    return lookups.registered_as(image, draft, parsed, versions)


def _numbered(image: Image, draft: Draft, next_version: int, *, is_importing: bool) -> Draft:
    """Return the schema with its new version and id. Raises RestError if the version or id that the request names
    cannot be given."""
    if draft.version <= 0:
        draft = draft._replace(version=next_version)
    elif draft.version != next_version and not is_importing:
        raise InvalidSchemaRefused("Version is not one more than previous version")
    context = names.context_of(draft.subject)
    if draft.id < 0:
        return draft._replace(id=_next_id(image, context))
    existing = image.of_id(draft.id, names.qualified_context(context))
    if existing is not None and _content(stored(existing)) != _content(draft):
        where = names.qualified_context(context)
        raise errors.not_permitted(f"Overwrite new schema with id {draft.id} in context {where} is not permitted.")
    return draft


def _next_id(image: Image, context: str) -> int:
    """Return the id of a new schema. Raises RestError if the highest possible id is taken; Confluent's registry would
    go on with negative ids."""
    highest = image.max_id(context) or 0
    if highest >= INT_MAX:
        holder = next(iter(image.holders(context, highest)), None)
        where = "" if holder is None else f", of subject {holder[0]}, version {holder[1]}"
        raise errors.not_permitted(f"No schema id is left in context {context}: {highest} is the highest{where}")
    return highest + 1


def _content(draft: Draft) -> tuple[object, ...]:
    return draft.type, tuple(draft.references), draft.metadata, draft.rule_set, draft.text


def _records(image: Image, draft: Draft, versions: list[StoredSchema]) -> list[Record]:
    """Return the records of a registration: the context if it is new, tombstones for deleted versions with the same id
    to which no schema refers, and the schema."""
    records: list[Record] = []
    context = names.context_of(draft.subject)
    if context != names.DEFAULT_CONTEXT and not image.has_context(context):
        records.append((context_key(context), context_value(context)))
    records += [
        (schema_key(each.subject, each.version), None)
        for each in reversed(versions)
        if each.deleted
        and each.id == draft.id
        and each.version < draft.version
        and not image.referrers(each.subject, each.version, deleted=True)
    ]
    schema = StoredSchema(
        draft.subject,
        draft.version,
        draft.id,
        draft.type,
        draft.text or "",
        draft.references,
        draft.metadata,
        draft.rule_set,
        deleted=False,
        timestamp_ms=0,
        digest=b"",
    )
    records.append((schema_key(schema.subject, schema.version), schema_value(schema)))
    return records
