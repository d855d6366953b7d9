"""Records of `_schemas`: keys and values in JSON, byte for byte as Confluent's registry writes them.

    key      SCHEMA           keytype, subject, version, magic 1
             CONFIG, MODE     keytype, subject (not for the level above all subjects), magic 0
             CONTEXT          keytype, tenant, context, magic 0
             DELETE_SUBJECT   keytype, subject, magic 0
             CLEAR_SUBJECT    keytype, subject (not for all), magic 0
             NOOP             keytype, magic 0; no value
    value    SCHEMA           subject, version, id, schemaType, references, metadata, ruleSet, schema, deleted
             CONFIG           subject, alias, ..., compatibilityLevel, ..., overrideRuleSet
             MODE             subject, mode
             CONTEXT          tenant, context
             DELETE_SUBJECT   subject, version: the last one that is deleted
             CLEAR_SUBJECT    subject

A value of None undoes earlier records with its key; Karapace writes an empty value instead. Older registries and
Karapace leave out `schemaType` for AVRO, and Karapace writes `subject` as null; unknown fields are skipped. A damaged
key or value raises BadRecord. Source: the topic `_schemas` of Confluent's Schema Registry 8 and of Karapace.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as BadBase64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import md5
from typing import Any, NamedTuple

from kcli.errors import KcliError
from kcli.registry.errors import RestError
from kcli.registry.fields import INT_MAX
from kcli.registry.metadata import Metadata, RuleSet, metadata_bytes, metadata_of, rule_set_bytes, rule_set_of
from kcli.registry.names import TENANT
from kcli.schemas.compatibility import Level
from kcli.schemas.schema import Reference
from kcli.service.json_text import BadJson, Json, dumps, loads, pruned

CONFIG_FIELDS = (
    "alias",
    "aliasForDeks",
    "normalize",
    "validateFields",
    "validateNewSchemas",
    "validateRules",
    "compatibilityLevel",
    "compatibilityPolicy",
    "compatibilityGroup",
    "defaultMetadata",
    "overrideMetadata",
    "defaultRuleSet",
    "overrideRuleSet",
)
LEVELS = frozenset(Level)
POLICIES = ("STRICT", "LENIENT", "LOGICAL")
MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD")

Config = Mapping[str, Any]
"""The fields of a configuration: some of CONFIG_FIELDS."""
Record = tuple[bytes, bytes | None]


class BadRecord(KcliError):
    """A record that a registry does not understand. The message is one line."""


class Key(NamedTuple):
    """The key of a record. type: the keytype. subject: None if the key has none. version: 0 if the key has none."""

    type: str
    subject: str | None = None
    version: int = 0
    context: str | None = None


@dataclass(frozen=True, slots=True)
class StoredSchema:
    """A version of a subject, with the fields of its record.

    type: the schema's: AVRO, PROTOBUF, JSON, or one that kcli does not know. timestamp_ms: the record's. digest: the
    MD5 of text, references, metadata and rules, which is also the guid.
    """

    subject: str
    version: int
    id: int
    type: str
    text: str
    references: Sequence[Reference]
    metadata: Metadata | None
    rule_set: RuleSet | None
    deleted: bool
    timestamp_ms: int
    digest: bytes

    @property
    def guid(self) -> str:
        """The guid as text."""
        return guid_of(self.digest)


def digest_of(text: str, references: Sequence[Reference], metadata: Metadata | None, rule_set: RuleSet | None) -> bytes:
    """Return the MD5 by which equal schemas share an id."""
    hashed = md5(text.encode("utf-8", "replace"), usedforsecurity=False)
    for name, subject, version in references:
        hashed.update(name.encode("utf-8", "replace"))
        hashed.update(subject.encode("utf-8", "replace"))
        hashed.update((version & 0xFFFFFFFF).to_bytes(4, "big"))
    if metadata is not None:
        hashed.update(metadata_bytes(metadata))
    if rule_set is not None:
        hashed.update(rule_set_bytes(rule_set))
    return hashed.digest()


def guid_of(digest: bytes) -> str:
    """Return a digest as a guid."""
    text = digest.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


# --- Keys


def schema_key(subject: str, version: int) -> bytes:
    """Return the key of a version."""
    return dumps({"keytype": "SCHEMA", **pruned({"subject": subject}), "version": version, "magic": 1})


def subject_key(keytype: str, subject: str | None) -> bytes:
    """Return a key of CONFIG, MODE, DELETE_SUBJECT or CLEAR_SUBJECT. subject: None for the global one."""
    return dumps({"keytype": keytype, **pruned({"subject": subject}), "magic": 0})


def context_key(context: str) -> bytes:
    """Return the key of a context."""
    return dumps({"keytype": "CONTEXT", "tenant": TENANT, "context": context, "magic": 0})


def noop_key() -> bytes:
    """Return the key of a record without content, which a leader writes to find the end of the log."""
    return dumps({"keytype": "NOOP", "magic": 0})


def parse_key(data: bytes) -> Key:
    """Parse the key of a record. Raises BadRecord."""
    fields = _object(data, "key")
    keytype = fields.get("keytype")
    if not isinstance(keytype, str):
        raise BadRecord("the key has no keytype")
    version = fields.get("version", 0)
    if keytype == "SCHEMA" and not _is_version(version):
        raise BadRecord(f"the key's version is {version!r}")
    context = fields.get("context")
    subject = fields.get("subject")
    if subject is not None and not isinstance(subject, str):
        raise BadRecord("the key's subject is no text")
    return Key(
        keytype, subject, version if isinstance(version, int) else 0, context if isinstance(context, str) else None
    )


def _object(data: bytes, what: str) -> dict[str, Json]:
    try:
        fields = loads(data)
    except BadJson as error:
        raise BadRecord(f"the {what} is no JSON: {error}") from None
    if not isinstance(fields, dict):
        raise BadRecord(f"the {what} is no JSON object")
    return fields


def _is_version(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= INT_MAX


# --- Values


def schema_value(schema: StoredSchema) -> bytes:
    """Return the value of a version."""
    return dumps(
        {
            **pruned({"subject": schema.subject}),
            "version": schema.version,
            "id": schema.id,
            "schemaType": schema.type,
            **pruned(
                {
                    "references": references_json(schema.references),
                    "metadata": schema.metadata,
                    "ruleSet": schema.rule_set,
                    "schema": schema.text,
                }
            ),
            "deleted": schema.deleted,
        }
    )


def references_json(references: Sequence[Reference]) -> list[dict[str, object]]:
    """Return references as JSON has them."""
    return [{**pruned({"name": each.name, "subject": each.subject}), "version": each.version} for each in references]


def config_value(subject: str | None, config: Config) -> bytes:
    """Return the value of a CONFIG."""
    return dumps(pruned({"subject": subject, **{name: config.get(name) for name in CONFIG_FIELDS}}))


def mode_value(subject: str | None, mode: str) -> bytes:
    """Return the value of a MODE."""
    return dumps(pruned({"subject": subject, "mode": mode}))


def context_value(context: str) -> bytes:
    """Return the value of a CONTEXT."""
    return dumps({"tenant": TENANT, "context": context})


def delete_subject_value(subject: str, version: int) -> bytes:
    """Return the value of a DELETE_SUBJECT, which deletes all versions up to one."""
    return dumps({**pruned({"subject": subject}), "version": version})


def clear_subject_value(subject: str | None) -> bytes:
    """Return the value of a CLEAR_SUBJECT, which removes what is deleted."""
    return dumps(pruned({"subject": subject}))


def parse_schema(key: Key, data: bytes, timestamp_ms: int) -> StoredSchema:
    """Parse the value of a SCHEMA record. Raises BadRecord."""
    fields = _object(data, "schema")
    schema_id, text, schema_type = fields.get("id"), fields.get("schema"), fields.get("schemaType")
    if not isinstance(schema_id, int) or isinstance(schema_id, bool) or not 0 <= schema_id <= INT_MAX:
        raise BadRecord(f"the schema's id is {schema_id!r}")
    if not isinstance(text, str):
        raise BadRecord("the schema has no text")
    if schema_type is not None and not isinstance(schema_type, str):
        raise BadRecord("the schema's type is no text")
    references = _references(fields.get("references"))
    metadata, rule_set = _data_contract(fields)
    return StoredSchema(
        key.subject or "",
        key.version,
        schema_id,
        schema_type or "AVRO",
        text,
        references,
        metadata,
        rule_set,
        fields.get("deleted") is True,
        timestamp_ms,
        _stored_digest(fields.get("md5")) or digest_of(text, references, metadata, rule_set),
    )


def _data_contract(fields: Mapping[str, Json]) -> tuple[Metadata | None, RuleSet | None]:
    try:
        return metadata_of(fields.get("metadata")), rule_set_of(fields.get("ruleSet"))
    except RestError as error:
        raise BadRecord(f"the schema's metadata or rules: {error.message}") from None


def _stored_digest(value: Json) -> bytes | None:
    """Return the digest in a record. A registry writes one if it changes the hashed fields, for example by encrypting
    sensitive properties."""
    if not isinstance(value, str):
        return None
    try:
        digest = b64decode(value, validate=True)
    except (BadBase64, ValueError):
        return None
    return digest if len(digest) == 16 else None


def _references(value: Json) -> tuple[Reference, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise BadRecord("the schema's references are no list")
    return tuple(_reference(each) for each in value)


def _reference(value: Json) -> Reference:
    if isinstance(value, dict):
        name, subject, version = value.get("name"), value.get("subject"), value.get("version")
        if isinstance(name, str) and isinstance(subject, str) and isinstance(version, int):
            return Reference(name, subject, version)
    raise BadRecord("a reference of the schema has no name, subject or version")


def parse_config(data: bytes) -> Config:
    """Parse the value of a CONFIG record. Raises BadRecord."""
    fields = _object(data, "config")
    config: dict[str, Any] = {}
    for name in CONFIG_FIELDS:
        value = fields.get(name)
        if value is not None:
            config[name] = _config_field(name, value)
    return config


def _config_field(name: str, value: Json) -> object:
    if name in ("defaultMetadata", "overrideMetadata", "defaultRuleSet", "overrideRuleSet"):
        try:
            return metadata_of(value) if name.endswith("Metadata") else rule_set_of(value)
        except RestError as error:
            raise BadRecord(f"the config's {name}: {error.message}") from None
    if name in ("normalize", "validateFields", "validateNewSchemas", "validateRules"):
        is_right = isinstance(value, bool)
    elif name == "compatibilityLevel":
        is_right = isinstance(value, str) and value in LEVELS
    elif name == "compatibilityPolicy":
        is_right = value in POLICIES
    else:
        is_right = isinstance(value, str)
    if not is_right:
        raise BadRecord(f"the config's {name} is {value!r}")
    return value


def parse_mode(data: bytes) -> str:
    """Parse the value of a MODE record. Raises BadRecord."""
    mode = _object(data, "mode").get("mode")
    if not isinstance(mode, str) or mode not in MODES:
        raise BadRecord(f"the mode is {mode!r}")
    return mode


def parse_delete_subject(data: bytes) -> int:
    """Return the last version that a DELETE_SUBJECT deletes. Raises BadRecord."""
    version = _object(data, "value").get("version")
    if not isinstance(version, int) or isinstance(version, bool):
        raise BadRecord(f"the deleted version is {version!r}")
    return version
