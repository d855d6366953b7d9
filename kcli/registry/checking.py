"""Whether a schema may follow those of its subject, by the configuration that holds for it."""

from __future__ import annotations

from collections.abc import Sequence

from kcli.registry import lookups
from kcli.registry.drafts import Draft
from kcli.registry.image import Image
from kcli.registry.metadata import Metadata, property_of
from kcli.registry.records import Config, StoredSchema
from kcli.schemas.compatibility import Level, check
from kcli.schemas.parsed import ParsedSchema

RESERVED = "confluent:reserved"


def incompatibilities(
    image: Image, config: Config, draft: Draft, parsed: ParsedSchema, versions: Sequence[StoredSchema]
) -> list[str]:
    """Return why a schema may not follow versions, in ascending order; empty if it may. Raises RestError: 42201."""
    validate_fields = bool(config.get("validateFields"))
    removed = _removed_reservations(draft.metadata, versions[-1].metadata if versions else None)
    level = Level(config["compatibilityLevel"])
    group = config.get("compatibilityGroup")
    if group is not None:
        value = property_of(draft.metadata, group)
        versions = [each for each in versions if property_of(each.metadata, group) == value]
    compared = versions if level.is_transitive else versions[-1:] if level != Level.NONE else []
    return check(
        level,
        parsed,
        [(each.version, lookups.parse_stored(image, each)) for each in compared],
        validate_fields=validate_fields,
        messages=removed if validate_fields else (),
    )


def _removed_reservations(new: Metadata | None, old: Metadata | None) -> list[str]:
    return [
        f"The new schema has reserved field {name} removed from its metadata "
        "which is present in the old schema's metadata."
        for name in sorted(_reservations(old) - _reservations(new))
    ]


def _reservations(metadata: Metadata | None) -> set[str]:
    return {name.strip() for name in (property_of(metadata, RESERVED) or "").split(",") if name.strip()}
