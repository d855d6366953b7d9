"""Checks whether a new schema is compatible with the versions of its subject, by the configuration of the subject."""

from __future__ import annotations

from collections.abc import Sequence

from kcli.registry import lookups
from kcli.registry.drafts import Draft, invalid_schema
from kcli.registry.image import Image
from kcli.registry.metadata import Metadata, property_of
from kcli.registry.records import Config, StoredSchema
from kcli.schemas.compatibility import Level, check
from kcli.schemas.parsed import ParsedSchema
from kcli.schemas.schema import InvalidSchema
from kcli.service.json_text import loads

RESERVED = "confluent:reserved"


def incompatibilities(
    image: Image, config: Config, draft: Draft, parsed: ParsedSchema, versions: Sequence[StoredSchema]
) -> list[str]:
    """Return why a schema is not compatible with the versions of its subject, as messages; an empty list if it is
    compatible. config: has the level. versions: in ascending order. Raises RestError: 42201."""
    validate_fields = bool(config.get("validateFields"))
    reserved = _reservation_messages(draft, versions[-1].metadata if versions else None) if validate_fields else []
    level = Level(config["compatibilityLevel"])
    group = config.get("compatibilityGroup")
    if group is not None:
        value = property_of(draft.metadata, group)
        versions = [each for each in versions if property_of(each.metadata, group) == value]
    compared = versions if level.is_transitive else versions[-1:] if level != Level.NONE else []
    older = [(each.version, lookups.parse_stored(image, each)) for each in compared]
    try:
        return check(level, parsed, older, validate_fields=validate_fields, messages=reserved)
    except InvalidSchema as error:  # the schemas are too large to compare
        raise invalid_schema(draft, str(error)) from None


def _reservation_messages(draft: Draft, old: Metadata | None) -> list[str]:
    """Return messages for reserved names, those of `confluent:reserved` in the metadata: names that the new schema no
    longer reserves, and names of its fields that are reserved."""
    reserved = _reservations(draft.metadata)
    removed = [
        f"The new schema has reserved field {name} removed from its metadata "
        "which is present in the old schema's metadata."
        for name in sorted(_reservations(old) - reserved)
    ]
    used = reserved & _fields(draft) if reserved else set()
    return removed + [
        f"The new schema has field that conflicts with the reserved field {name}." for name in sorted(used)
    ]


def _fields(draft: Draft) -> set[str]:
    """Return the names of the fields of a record, or of the properties of an object; none for Protobuf."""
    schema = loads((draft.text or "").encode()) if draft.type in ("AVRO", "JSON") else None
    if not isinstance(schema, dict):
        return set()
    if draft.type == "JSON":
        properties = schema.get("properties")
        return set(properties) if isinstance(properties, dict) else set()
    fields = schema.get("fields")
    listed = fields if isinstance(fields, list) else []
    return {str(each["name"]) for each in listed if isinstance(each, dict) and "name" in each}


def _reservations(metadata: Metadata | None) -> set[str]:
    return {name.strip() for name in (property_of(metadata, RESERVED) or "").split(",") if name.strip()}
