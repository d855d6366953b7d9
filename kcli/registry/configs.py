"""/config: compatibility levels and other configurations, of all subjects, the subjects of a context, or one subject.

A PUT changes the fields that it has; null removes a field. Source: the documentation of Confluent's Schema Registry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kcli.registry import errors, names, settings
from kcli.registry.calls import Call
from kcli.registry.fields import as_boolean, as_object, as_text
from kcli.registry.messages import Change
from kcli.registry.metadata import check_rule_set, metadata_of, rule_set_of
from kcli.registry.records import CONFIG_FIELDS, LEVELS, POLICIES, config_value, subject_key
from kcli.service.json_text import Json, pruned
from kcli.service.messages import Answer

LEVEL_IN_REQUESTS = "compatibility"
"""The name of the compatibility level in PUT requests and their answers."""

_READERS: Mapping[str, Callable[[Json], object]] = {
    "alias": as_text,
    "aliasForDeks": as_text,
    "normalize": as_boolean,
    "validateFields": as_boolean,
    "validateNewSchemas": as_boolean,
    "validateRules": as_boolean,
    "compatibilityLevel": as_text,
    "compatibilityPolicy": as_text,
    "compatibilityGroup": as_text,
    "defaultMetadata": metadata_of,
    "overrideMetadata": metadata_of,
    "defaultRuleSet": rule_set_of,
    "overrideRuleSet": rule_set_of,
}


def get_config(call: Call, subject: str | None = None) -> Answer:
    """Return a configuration. Errors: 40408."""
    name = _subject(subject)
    default_level = call.limits.default_compatibility
    if call.flag("defaultToGlobal"):
        config = settings.config_in_scope(call.image, name, default_level)
    else:
        own = settings.own_config(call.image, name, default_level)
        if own is None:
            raise errors.config_not_set(name or "")
        config = own
    return call.answer(_shown(config))


def _subject(subject: str | None) -> str | None:
    """Return the subject whose configuration a request names; None for the global configuration."""
    return None if subject is None or names.is_default_context(subject) else names.normalize(subject)


def _shown(config: Mapping[str, Any]) -> dict[str, object]:
    return pruned({name: config.get(name) for name in CONFIG_FIELDS})


def put_config(call: Call, subject: str | None = None) -> Change:
    """Change a configuration. Errors: 42203, 42205, 42208, 42210."""
    name = _subject(subject)
    changes = _changes(
        call.json("updateTopLevelConfig.request" if name is None else "updateSubjectLevelConfig.request")
    )
    if name is not None and not names.is_valid(subject or "", for_settings=True):
        raise errors.invalid_subject(subject or "")
    _check_writable(call, name)
    config = {**call.image.configs.get(name, {}), **changes}
    config = {field: config[field] for field in CONFIG_FIELDS if config.get(field) is not None}
    shown = {LEVEL_IN_REQUESTS if field == "compatibilityLevel" else field: each for field, each in config.items()}
    return call.change([(subject_key("CONFIG", name), config_value(name, config))], shown)


def _changes(body: Json) -> dict[str, object]:
    """Return the fields that a request changes, with None for fields that it removes. Raises RestError."""
    fields = as_object(body, "ConfigUpdateRequest")
    if fields is None:
        raise errors.missing_body("updateTopLevelConfig.request")
    changes: dict[str, Any] = {}
    for field, read in _READERS.items():
        name = LEVEL_IN_REQUESTS if field == "compatibilityLevel" else field
        if name in fields:
            changes[field] = read(fields[name])
    level = changes.get("compatibilityLevel")
    if level is not None:
        changes["compatibilityLevel"] = _level(level)
    policy = changes.get("compatibilityPolicy")
    if policy is not None:
        changes["compatibilityPolicy"] = policy.upper() if policy.upper() in POLICIES else None
    check_rule_set(changes.get("defaultRuleSet"))
    check_rule_set(changes.get("overrideRuleSet"))
    return changes


def _level(text: str) -> str:
    if text.upper() not in LEVELS:
        raise errors.invalid_level()
    return text.upper()


def _check_writable(call: Call, name: str | None) -> None:
    if settings.is_read_only(call.image, name):
        raise errors.read_only(name, names.context_prefix(name))


def delete_config(call: Call, subject: str | None = None) -> Change:
    """Remove a configuration; the answer has its former values. Errors: 40401, 42205."""
    name = _subject(subject)
    config = settings.own_config(call.image, name, call.limits.default_compatibility)
    if config is None:
        raise errors.subject_not_found(name)
    _check_writable(call, name)
    return call.change([(subject_key("CONFIG", name), None)], _shown(config))
