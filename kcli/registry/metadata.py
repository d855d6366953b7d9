"""Metadata and rule sets of a schema: reads them from JSON, with every set and map in Java's order; merges, hashes and
checks them.

    metadata  tags        path -> set of tags
              properties  name -> text; `confluent:version` is the version under which the schema is registered
              sensitive   set of names of properties
    rule set  migrationRules, domainRules, encodingRules: lists of rules; enableAt

A rule set without rules differs from None: they have different hashes. Source: the documentation of data contracts in
Confluent's Schema Registry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kcli.java.hashing import java_order
from kcli.registry.errors import RestError, bad_request, invalid_rule_set
from kcli.registry.fields import as_boolean, as_enum, as_list, as_object, as_text
from kcli.service.json_text import Json

Metadata = Mapping[str, Any]
RuleSet = Mapping[str, Any]

VERSION_PROPERTY = "confluent:version"
PHASES = ("migrationRules", "domainRules", "encodingRules")
KINDS = ("TRANSFORM", "CONDITION")
MIGRATION_MODES = ("UPGRADE", "DOWNGRADE", "UPDOWN")
MODES = (*MIGRATION_MODES, "WRITE", "READ", "WRITEREAD")
ENVIRONMENTS = ("ALL", "CLIENT", "GATEWAY", "SERVER", "NONE")
NAME_LENGTH_MAX = 256
_QUOTED: Mapping[str, object] = {
    "type": None,
    "tags": [],
    "params": {},
    "expr": None,
    "onSuccess": None,
    "onFailure": None,
    "disabled": False,
}
"""Fields of a rule that refusals show in quotes, each with the value that they show if the rule lacks it."""


def metadata_of(value: Json) -> Metadata | None:
    """Return the metadata of a request or record. Raises RestError."""
    fields = as_object(value, "Metadata")
    if fields is None:
        return None
    tags = as_object(fields.get("tags"), "LinkedHashMap") or {}
    properties = as_object(fields.get("properties"), "LinkedHashMap") or {}
    sensitive = _set_of(fields.get("sensitive"))
    return _metadata(
        {name: _set_of(each) for name, each in tags.items()},
        {name: _present(each) for name, each in properties.items()},
        sensitive,
    )


def _metadata(tags: Mapping[str, list[str]], properties: Mapping[str, str], sensitive: Iterable[str]) -> Metadata:
    fields: dict[str, Any] = {}
    if tags:
        fields["tags"] = {name: tags[name] for name in sorted(tags, key=java_order)}
    if properties:
        fields["properties"] = {name: properties[name] for name in sorted(properties, key=java_order)}
    names = sorted(set(sensitive), key=java_order)
    if names:
        fields["sensitive"] = names
    return fields


def _set_of(value: Json) -> list[str]:
    return sorted(set(as_list(value, "HashSet", _present) or []), key=java_order)


def _present(value: Json) -> str:
    text = as_text(value)
    if text is None:
        raise bad_request("null is no text of metadata or of a rule")
    return text


def rule_set_of(value: Json) -> RuleSet | None:
    """Return the rule set of a request or record. Raises RestError."""
    fields = as_object(value, "RuleSet")
    if fields is None:
        return None
    rules: dict[str, Any] = {}
    for phase in PHASES:
        listed = as_list(fields.get(phase), "ArrayList", _rule)
        if listed:
            rules[phase] = listed
    enable_at = as_enum(fields.get("enableAt"), "ExecutionEnvironment", ENVIRONMENTS)
    if enable_at is not None:
        rules["enableAt"] = enable_at
    return rules


def _rule(value: Json) -> dict[str, Any]:
    fields = as_object(value, "Rule")
    if fields is None:
        raise bad_request("null is no rule")
    params = as_object(fields.get("params"), "LinkedHashMap") or {}
    rule: dict[str, Any] = {
        "name": as_text(fields.get("name")),
        "doc": as_text(fields.get("doc")),
        "kind": as_enum(fields.get("kind"), "RuleKind", KINDS) or "TRANSFORM",
        "mode": as_enum(fields.get("mode"), "RuleMode", MODES) or "WRITEREAD",
        "type": as_text(fields.get("type")),
        "tags": _set_of(fields.get("tags")) or None,
        "params": {name: _present(params[name]) for name in sorted(params, key=java_order)} or None,
        "expr": as_text(fields.get("expr")),
        "onSuccess": as_text(fields.get("onSuccess")),
        "onFailure": as_text(fields.get("onFailure")),
        "disabled": as_boolean(fields.get("disabled")) or False,
    }
    return {name: each for name, each in rule.items() if each is not None and (each != "" or name == "name")}


def check_rule_set(rule_set: RuleSet | None) -> None:
    """Check names, types and modes of the rules of a request. Raises RestError: 42210."""
    if rule_set is None:
        return
    names: set[str] = set()
    for phase in PHASES:
        for rule in rule_set.get(phase, ()):
            name = rule.get("name")
            if name is not None and name in names:
                raise invalid_rule_set(f"Found rule with duplicate name '{name}'")
            _check_rule(rule)
            names.add(rule["name"])
            if (rule["mode"] in MIGRATION_MODES) != (phase == "migrationRules"):
                raise _misplaced(phase)


def _misplaced(phase: str) -> RestError:
    if phase == "migrationRules":
        return invalid_rule_set("Migration rules can only be UPGRADE, DOWNGRADE, UPDOWN")
    return invalid_rule_set(f"{phase.removesuffix('Rules').capitalize()} rules can only be WRITE, READ, WRITEREAD")


def _check_rule(rule: Mapping[str, Any]) -> None:
    _check_rule_name(rule.get("name"))
    if rule.get("type") is None:
        raise invalid_rule_set("Missing rule type")
    if rule["mode"] not in ("WRITEREAD", "UPDOWN"):
        for action in (rule.get("onSuccess"), rule.get("onFailure")):
            if action is not None and "," in action:
                raise invalid_rule_set("Multiple actions only valid with WRITEREAD and UPDOWN")


def _check_rule_name(name: str | None) -> None:
    if name is None:
        raise invalid_rule_set("Missing rule name")
    if not name:
        raise invalid_rule_set("Empty rule name")
    if len(name) > NAME_LENGTH_MAX:
        raise invalid_rule_set("Rule name too long")
    if not (name[0].isalpha() or name[0] == "_"):
        raise invalid_rule_set(f"Illegal initial character in rule name: {name}")
    if not all(char.isalnum() or char in "_-" for char in name[1:]):
        raise invalid_rule_set(f"Illegal character in rule name: {name}")


def merged_metadata(old: Metadata | None, new: Metadata | None) -> Metadata | None:
    """Merge two metadata; for an entry that both have, the new one counts."""
    if old is None or new is None:
        return old if new is None else new
    return _metadata(
        {**old.get("tags", {}), **new.get("tags", {})},
        {**old.get("properties", {}), **new.get("properties", {})},
        [*old.get("sensitive", ()), *new.get("sensitive", ())],
    )


def merged_rule_set(old: RuleSet | None, new: RuleSet | None) -> RuleSet | None:
    """Merge two rule sets; a new rule replaces an old one with the same name."""
    if old is None or new is None:
        return old if new is None else new
    rules: dict[str, Any] = {}
    for phase in PHASES:
        added = new.get(phase, ())
        names = {rule.get("name") for rule in added}
        listed = [rule for rule in old.get(phase, ()) if not added or rule.get("name") not in names] + list(added)
        if listed:
            rules[phase] = listed
    enable_at = new.get("enableAt", old.get("enableAt"))
    if enable_at is not None:
        rules["enableAt"] = enable_at
    return rules


def property_of(metadata: Metadata | None, name: str) -> str | None:
    """Return a property; None if there is none."""
    value: str | None = (metadata or {}).get("properties", {}).get(name)
    return value


def with_version(metadata: Metadata | None, version: int) -> Metadata:
    """Return the metadata with `confluent:version` set to this version."""
    fields = metadata or {}
    properties = {**fields.get("properties", {}), VERSION_PROPERTY: str(version)}
    return _metadata(fields.get("tags", {}), properties, fields.get("sensitive", ()))


def without_version(metadata: Metadata | None) -> Metadata | None:
    """Return the metadata without `confluent:version`."""
    if metadata is None:
        return None
    properties = {name: each for name, each in metadata.get("properties", {}).items() if name != VERSION_PROPERTY}
    return _metadata(metadata.get("tags", {}), properties, metadata.get("sensitive", ()))


def version_in(metadata: Metadata | None) -> int | None:
    """Return the number in `confluent:version`; None if there is none."""
    text = property_of(metadata, VERSION_PROPERTY)
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None


def metadata_bytes(metadata: Metadata | None) -> bytes:
    """Return the bytes of metadata that go into the hash of a schema."""
    if metadata is None:
        return b""
    parts = ["\x01"]
    for name, tags in metadata.get("tags", {}).items():
        parts += [name, *tags]
    for name, value in metadata.get("properties", {}).items():
        parts += [name, value]
    parts += metadata.get("sensitive", ())
    return "".join(parts).encode("utf-8", "replace")


def rule_set_bytes(rule_set: RuleSet | None) -> bytes:
    """Return the bytes of a rule set that go into the hash of a schema."""
    if rule_set is None:
        return b""
    parts = ["\x01"]
    for phase in PHASES:
        for rule in rule_set.get(phase, ()):
            parts += [rule[name] for name in ("name", "doc", "kind", "mode", "type") if name in rule]
            parts += rule.get("tags", ())
            for name, value in rule.get("params", {}).items():
                parts += [name, value]
            parts += [rule[name] for name in ("expr", "onSuccess", "onFailure") if name in rule]
            parts += ["\x01"] if rule["disabled"] else []
    parts += [rule_set["enableAt"]] if "enableAt" in rule_set else []
    return "".join(parts).encode("utf-8", "replace")


def has_rule_of_type(rule_set: RuleSet | None, rule_type: str) -> bool:
    """Whether a rule set has a rule of a type."""
    return any(rule.get("type") == rule_type for phase in PHASES for rule in (rule_set or {}).get(phase, ()))


def shown_metadata(metadata: Metadata | None) -> str:
    """Return metadata as it is shown in refusals of Confluent's registry: as Java prints an object."""
    if metadata is None:
        return "null"
    fields = [f"{name}={_shown(metadata.get(name, {}))}" for name in ("tags", "properties")]
    return f"Metadata{{{', '.join(fields)}, sensitive={_shown(metadata.get('sensitive', []))}}}"


def shown_rule_set(rule_set: RuleSet | None) -> str:
    """Return a rule set as it is shown in refusals of Confluent's registry: as Java prints an object."""
    if rule_set is None:
        return "null"
    phases = [f"{phase}=[{', '.join(map(_shown_rule, rule_set.get(phase, ())))}]" for phase in PHASES]
    return f"Rules{{{', '.join(phases)}, enableAt={rule_set.get('enableAt', 'null')}}}"


def _shown_rule(rule: Mapping[str, Any]) -> str:
    bare = ", ".join(f"{name}={_shown(rule.get(name))}" for name in ("name", "doc", "kind", "mode"))
    quoted = ", ".join(f"{name}='{_shown(rule.get(name, each))}'" for name, each in _QUOTED.items())
    return f"Rule{{{bare}, {quoted}}}"


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name}={_shown(each)}' for name, each in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)
