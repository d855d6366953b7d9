"""Finds out whether a schema is registered already: compares its canonical form, with references resolved, with the
schemas of a subject."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kcli.registry import names, settings
from kcli.registry.drafts import Draft, invalid_schema, stored
from kcli.registry.errors import InvalidSchemaRefused
from kcli.registry.image import Image
from kcli.registry.metadata import (
    VERSION_PROPERTY,
    Metadata,
    merged_metadata,
    merged_rule_set,
    property_of,
    version_in,
    with_version,
    without_version,
)
from kcli.registry.parsed_cache import hash_of
from kcli.registry.records import Config, StoredSchema
from kcli.schemas.parsed import ParsedSchema, equivalent, shared_text
from kcli.schemas.schema import InvalidSchema, Reference

LATEST = -1


def resolve(image: Image, subject: str, references: Sequence[Reference], *, deleted: bool) -> dict[str, str]:
    """Return the names of all references, direct or not, with their texts, each after those to which it refers itself.

    deleted: whether references to soft-deleted versions are allowed. Raises InvalidSchema.
    """
    texts: dict[str, str] = {}
    visited: set[str] = set()
    stack: list[tuple[str, Reference, StoredSchema | None]] = [(subject, each, None) for each in reversed(references)]
    while stack:
        parent, reference, found = stack.pop()
        if found is not None:
            texts[reference.name] = found.text
            continue
        target = names.qualify(parent, reference.subject)
        schema = image.schema(target, reference.version, deleted=deleted)
        if schema is None:
            raise InvalidSchema(f'No schema reference found for subject "{target}" and version {reference.version}')
        if reference.name in visited:
            continue
        visited.add(reference.name)
        stack.append((parent, reference, schema))
        stack.extend((schema.subject, each, None) for each in reversed(schema.references))
    return texts


def parse(image: Image, draft: Draft, *, is_new: bool) -> ParsedSchema:
    """Return the parsed schema. is_new: whether to refuse references to deleted versions, and to apply the rules for
    new schemas. Raises RestError: 42201."""
    try:
        texts = resolve(image, draft.subject, draft.references, deleted=not is_new)
        parsed = image.parsed.parse(draft.type, draft.text or "", texts)
        if is_new:
            parsed.validate_new()
    except InvalidSchema as error:
        raise invalid_schema(draft, str(error)) from None
    return parsed


def parse_stored(image: Image, schema: StoredSchema) -> ParsedSchema:
    """Parse a registered schema. Raises RestError: 42201."""
    return parse(image, stored(schema), is_new=False)


def canonical(image: Image, draft: Draft, *, is_new: bool, normalize: bool) -> tuple[Draft, ParsedSchema | None]:
    """Return a schema in canonical form, and the parsed schema; None in its place if it has no text.

    normalize: whether to use the normalized form, which all schemas with the same meaning share. Raises RestError:
    42201.
    """
    if draft.is_empty:
        return draft, None
    if draft.id >= 0 and settings.mode_in_scope(image, draft.subject) != "IMPORT":
        draft = draft._replace(id=-1)
    draft = draft._replace(references=tuple(_with_latest(image, draft.subject, each) for each in draft.references))
    parsed = parse(image, draft, is_new=is_new)
    if normalize and not settings.is_importing(image, draft.subject):
        parsed = parsed.normalized()
    return draft._replace(text=parsed.canonical), parsed


def _with_latest(image: Image, subject: str, reference: Reference) -> Reference:
    if reference.version != LATEST:
        return reference
    latest = image.latest(names.qualify(subject, reference.subject))
    return reference if latest is None else reference._replace(version=latest.version)


def registered_as(
    image: Image, draft: Draft, parsed: ParsedSchema, versions: Iterable[StoredSchema]
) -> StoredSchema | None:
    """Return the first of these registered schemas that equals a schema, even if one of the two has references inlined
    or no `confluent:version`; None if none is equal."""
    shared: bytes | None = None
    for other in versions:
        if not _has_same_setting(draft, other):
            continue
        if other.text == parsed.canonical:
            return other
        try:
            shared = hash_of(shared_text(parsed)) if shared is None else shared
        except InvalidSchema:
            continue
        if _is_equivalent(image, parsed, shared, other):
            return other
    return None


def _has_same_setting(draft: Draft, other: StoredSchema) -> bool:
    """Whether a schema has the same type, references, metadata and rules as a registered one."""
    if draft.type != other.type:
        return False
    if tuple(draft.references) != tuple(other.references) and (draft.references or not other.references):
        return False
    metadata, registered = _comparable_metadata(draft.metadata, other)
    return metadata == registered and draft.rule_set == other.rule_set


def _is_equivalent(image: Image, parsed: ParsedSchema, shared: bytes, other: StoredSchema) -> bool:
    """Whether a schema means the same as a registered one. shared: the hash of the schema's `shared_text`."""
    try:
        texts = resolve(image, other.subject, other.references, deleted=True)
        if image.parsed.shared_hash(other, texts) != shared:
            return False
        return equivalent(parsed, image.parsed.parse(other.type, other.text, texts))
    except InvalidSchema:
        return False


_DIFFERENT: tuple[Metadata | None, Metadata | None] = ({}, None)


def _comparable_metadata(new: Metadata | None, other: StoredSchema) -> tuple[Metadata | None, Metadata | None]:
    new_version, old_version = version_in(new), version_in(other.metadata)
    if new_version is None and old_version is not None:
        return new or {}, without_version(other.metadata)
    if new_version is not None and old_version is None:
        if new_version != other.version:
            return _DIFFERENT
        return without_version(new), other.metadata or {}
    return new, other.metadata


def look_up(image: Image, draft: Draft, *, normalize: bool, deleted: bool, latest_only: bool = False) -> Draft | None:
    """Return the registered version that equals a schema, in the schema's subject; None if there is none. Raises
    RestError: 42201.

    deleted: whether soft-deleted versions count. latest_only: whether only the latest version counts.
    """
    new, parsed = canonical(image, draft, is_new=False, normalize=normalize)
    if parsed is None:
        return None
    subject = draft.subject
    if latest_only:
        latest = image.latest(subject)
        found = None if latest is None else registered_as(image, new, parsed, [latest])
        return None if found is None else stored(found)
    context = names.context_of(subject)
    schema_id = image.id_of(context, new.digest)
    if schema_id is not None:
        version = image.version_of(context, schema_id, subject)
        if version is not None and image.schema(subject, version, deleted=deleted) is not None:
            return new._replace(version=version, id=schema_id)
    versions = (each for each in reversed(image.versions(subject)) if deleted or not each.deleted)
    found = registered_as(image, new, parsed, versions)
    return None if found is None else stored(found)


def look_up_as_registered(
    image: Image, draft: Draft, config: Config, *, normalize: bool, deleted: bool
) -> Draft | None:
    """Return the registered version that equals a schema in the schema's subject; if there is none, that which equals
    the schema with the metadata and rules that a registration would add."""
    found = look_up(image, draft, normalize=normalize, deleted=deleted)
    latest = image.latest(draft.subject)
    if found is not None or latest is None:
        return found
    completed = with_data_contract(config, draft, latest, None)
    return None if completed == draft else look_up(image, completed, normalize=normalize, deleted=deleted)


def look_up_anywhere(image: Image, draft: Draft, default_level: str, *, normalize: bool, deleted: bool) -> Draft | None:
    """Return the registered version that equals a schema, in its subject or in the subject of the same name in another
    context."""

    def under(subject: str) -> Draft | None:
        config = settings.config_in_scope(image, subject, default_level)
        named = draft._replace(subject=subject)
        return look_up_as_registered(image, named, config, normalize=normalize, deleted=deleted)

    found = under(draft.subject)
    name = names.parse(draft.subject)
    if found is not None or name.context != names.DEFAULT_CONTEXT:
        return found
    for context in image.contexts():
        try:
            found = under(names.Name(context, name.subject).qualified)
        except InvalidSchemaRefused:
            continue
        if found is not None:
            return found
    return None


def with_data_contract(config: Config, draft: Draft, latest: StoredSchema | None, version: int | None) -> Draft:
    """Return a schema with the metadata and rules that the configuration and the latest version add.

    version: the version as which it will be registered; None if it is only looked up.
    """
    own = draft.metadata if draft.metadata is not None or latest is None else latest.metadata
    metadata = merged_metadata(merged_metadata(config.get("defaultMetadata"), own), config.get("overrideMetadata"))
    own_rules = draft.rule_set if draft.rule_set is not None or latest is None else latest.rule_set
    rules = merged_rule_set(merged_rule_set(config.get("defaultRuleSet"), own_rules), config.get("overrideRuleSet"))
    if version is not None and (draft.version != 0 or property_of(metadata, VERSION_PROPERTY) is not None):
        metadata = with_version(metadata, version)
    if metadata is None and rules is None:
        return draft
    return draft._replace(metadata=metadata, rule_set=rules)
