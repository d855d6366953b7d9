"""The state of a registry, built only by replay of the records of `_schemas`.

A version is found by subject and version, by context and id, or by context and digest (MD5 of text, references,
metadata and rules), each without a search. The effect of a record depends only on records with the same key and on
records that delete it, so that a compacted log gives the same image. Only the highest id that was ever given is lost if
compaction removes its record.

A record is skipped if it is damaged, its key is unknown, or its id belongs to another text already. `skipped` has the
last such records with the reasons.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeVar

from kcli.java.hashing import java_hash, java_order
from kcli.registry import names
from kcli.registry.parsed_cache import ParsedCache
from kcli.registry.records import (
    BadRecord,
    Config,
    Key,
    StoredSchema,
    parse_config,
    parse_delete_subject,
    parse_key,
    parse_mode,
    parse_schema,
)

SKIPPED_MAX = 100
ORDERED_MAX = 1000
"""The greatest number of subjects of an id that are listed in Java's order; more subjects are listed in the order of
their registrations."""
_CONCURRENT_MAP_SIZE = 16
V = TypeVar("V")


class Skipped(NamedTuple):
    """A record that was skipped. offset: its offset in `_schemas`."""

    offset: int
    reason: str


class ContextId(NamedTuple):
    """A schema's id, and the context in which the id is unique."""

    context: str
    id: int


class Image:
    """The registered and deleted schemas, and the configurations and modes.

    configs, modes: by subject, with None for the global ones; callers must not change them. parsed: the cache of parsed
    schemas. next_offset: the offset after the last replayed record.
    """

    def __init__(self) -> None:
        self.configs: dict[str | None, Config] = {}
        self.modes: dict[str | None, str] = {}
        self.parsed = ParsedCache()
        self.next_offset = 0
        self.skipped: deque[Skipped] = deque(maxlen=SKIPPED_MAX)
        self.skipped_count = 0
        self._subjects: dict[str, dict[int, StoredSchema]] = {}
        self._ids: dict[ContextId, dict[str, tuple[int, ...]]] = {}
        self._first: dict[ContextId, str] = {}
        self._digests: dict[tuple[str, bytes], tuple[int, ...]] = {}
        self._referrers: dict[tuple[str, int], set[tuple[str, int]]] = {}
        self._contexts: set[str] = set()
        self._max_ids: dict[str, int] = {}
        self._sorted: list[str] | None = None

    # --- Replay

    def replay(self, key: bytes, value: bytes | None, offset: int, timestamp_ms: int = 0) -> None:
        """Apply one record. value: None or empty for a tombstone. A record that cannot be understood is skipped."""
        try:
            self._replay(parse_key(key), value or None, timestamp_ms)
        except BadRecord as error:
            self.skipped.append(Skipped(offset, str(error)))
            self.skipped_count += 1
        self.next_offset = offset + 1

    def _replay(self, key: Key, value: bytes | None, timestamp_ms: int) -> None:
        if key.type == "SCHEMA":
            self._replay_schema(key._replace(subject=names.normalize(key.subject or "")), value, timestamp_ms)
        elif key.type == "CONFIG":
            _set(self.configs, key.subject, None if value is None else parse_config(value))
        elif key.type == "MODE":
            _set(self.modes, key.subject, None if value is None else parse_mode(value))
        elif key.type == "CONTEXT":
            self._replay_context(key, value)
        elif key.type == "DELETE_SUBJECT":
            if value is not None:
                self._delete_subject(names.normalize(key.subject or ""), parse_delete_subject(value))
        elif key.type == "CLEAR_SUBJECT":
            if value is not None:
                self._clear_subject(key.subject)
        elif key.type != "NOOP":
            raise BadRecord(f"the keytype is {key.type!r}")

    def _replay_context(self, key: Key, value: bytes | None) -> None:
        if key.context is None:
            raise BadRecord("the key's context is missing")
        if value is None:
            self._contexts.discard(key.context)
        else:
            self._contexts.add(key.context)

    def _replay_schema(self, key: Key, value: bytes | None, timestamp_ms: int) -> None:
        subject = key.subject or ""
        old = self._subjects.get(subject, {}).get(key.version)
        if value is None:
            if old is not None:
                self._forget(old)
            return
        schema = parse_schema(key, value, timestamp_ms)
        known = self._any_of_id(ContextId(names.context_of(subject), schema.id))
        if known is not None and known is not old and known.text != schema.text:
            raise BadRecord(
                f"the id {schema.id} belongs to {known.subject!r}, version {known.version}, with another text"
            )
        if old is not None:
            self._forget(old)
        self._keep(schema)

    def _keep(self, schema: StoredSchema) -> None:
        versions = self._subjects.get(schema.subject)
        if versions is None:
            versions = self._subjects[schema.subject] = {}
            self._sorted = None
        versions[schema.version] = schema
        context = names.context_of(schema.subject)
        holders = self._ids.setdefault(ContextId(context, schema.id), {})
        self._first.pop(ContextId(context, schema.id), None)
        holders[schema.subject] = _added(holders.get(schema.subject, ()), schema.version)
        digest = (context, schema.digest)
        self._digests[digest] = _added(self._digests.get(digest, ()), schema.id)
        self._max_ids[context] = max(self._max_ids.get(context, 1), schema.id)
        for target in _targets(schema):
            self._referrers.setdefault(target, set()).add((schema.subject, schema.version))

    def _forget(self, schema: StoredSchema) -> None:
        versions = self._subjects[schema.subject]
        del versions[schema.version]
        if not versions:
            del self._subjects[schema.subject]
            self._sorted = None
        context = names.context_of(schema.subject)
        context_id = ContextId(context, schema.id)
        holders = self._ids[context_id]
        self._first.pop(context_id, None)
        left = tuple(each for each in holders[schema.subject] if each != schema.version)
        if left:
            holders[schema.subject] = left
        else:
            del holders[schema.subject]
        if not holders:
            del self._ids[context_id]
            self._forget_digest((context, schema.digest), schema.id)
        for target in _targets(schema):
            referrers = self._referrers.get(target, set())
            referrers.discard((schema.subject, schema.version))
            if not referrers:
                self._referrers.pop(target, None)

    def _forget_digest(self, digest: tuple[str, bytes], schema_id: int) -> None:
        left = tuple(each for each in self._digests.get(digest, ()) if each != schema_id)
        if left:
            self._digests[digest] = left
        else:
            self._digests.pop(digest, None)

    def _delete_subject(self, subject: str, last: int) -> None:
        versions = self._subjects.get(subject, {})
        for version, schema in versions.items():
            if version <= last and not schema.deleted:
                versions[version] = replace(schema, deleted=True)

    def _clear_subject(self, subject: str | None) -> None:
        gone = [
            schema
            for each, versions in self._subjects.items()
            if names.covers(subject, each)
            for schema in versions.values()
            if schema.deleted
        ]
        for schema in gone:
            self._forget(schema)

    # --- Look-ups

    def schema(self, subject: str, version: int, *, deleted: bool = False) -> StoredSchema | None:
        """Return a version of a subject; None if there is none. version: -1 for the latest. deleted: whether a
        soft-deleted version may be returned."""
        if version == -1:
            return self.latest(subject)
        found = self._subjects.get(subject, {}).get(version)
        return found if found is not None and (deleted or not found.deleted) else None

    def latest(self, subject: str) -> StoredSchema | None:
        """Return the highest version of a subject that is not deleted."""
        versions = self._subjects.get(subject, {})
        live = [version for version, schema in versions.items() if not schema.deleted]
        return versions[max(live)] if live else None

    def versions(self, subject: str) -> list[StoredSchema]:
        """Return all versions of a subject, soft-deleted ones too, in ascending order."""
        versions = self._subjects.get(subject, {})
        return [versions[version] for version in sorted(versions)]

    def of_id(self, schema_id: int, subject: str | None) -> StoredSchema | None:
        """Return a version with this schema id. subject: the version's subject; a context alone means any subject in
        it."""
        name = names.parse(subject or "")
        context_id = ContextId(name.context, schema_id)
        holders = self._ids.get(context_id)
        if not holders:
            return None
        if name.subject:
            versions = holders.get(name.qualified)
            return self._subjects[name.qualified][versions[-1]] if versions else None
        first = self._first.get(context_id)
        if first is None:
            first = self._first[context_id] = concurrent_order(holders)[0]
        return self._subjects[first][holders[first][-1]]

    def _any_of_id(self, context_id: ContextId) -> StoredSchema | None:
        holders = self._ids.get(context_id)
        if not holders:
            return None
        subject, versions = next(iter(holders.items()))
        return self._subjects[subject][versions[-1]]

    def of_id_anywhere(self, schema_id: int, subject: str | None) -> StoredSchema | None:
        """Return a version with this schema id. The search begins in `subject`, goes on in the subjects of this name in
        all contexts, then in all subjects of its context."""
        found = self.of_id(schema_id, subject)
        name = names.parse(subject or "")
        if found is not None or subject is None or not name.subject or name.context != names.DEFAULT_CONTEXT:
            return found
        for context in self.contexts():
            found = self.of_id(schema_id, names.Name(context, name.subject).qualified)
            if found is not None:
                return found
        return self.of_id(schema_id, names.qualified_context(name.context))

    def holders(self, context: str, schema_id: int) -> list[tuple[str, int]]:
        """Return each subject that has a schema with this id, and the highest such version, including soft-deleted
        ones."""
        holders = self._ids.get(ContextId(context, schema_id), {})
        return [(subject, holders[subject][-1]) for subject in concurrent_order(holders)]

    def version_of(self, context: str, schema_id: int, subject: str) -> int | None:
        """Return the highest version of a subject that has this schema id."""
        versions = self._ids.get(ContextId(context, schema_id), {}).get(subject)
        return versions[-1] if versions else None

    def id_of(self, context: str, digest: bytes) -> int | None:
        """Return the id of the schema with this digest."""
        ids = self._digests.get((context, digest))
        return ids[-1] if ids else None

    def max_id(self, context: str) -> int | None:
        """Return the highest id of a context, at least 1; None if no schema was ever registered in it."""
        return self._max_ids.get(context)

    def referrers(self, subject: str, version: int, *, deleted: bool) -> list[StoredSchema]:
        """Return the versions that refer to a version. deleted: whether to include soft-deleted ones."""
        found = (self._subjects[each][number] for each, number in self._referrers.get((subject, version), ()))
        return [schema for schema in found if deleted or not schema.deleted]

    def contexts(self) -> list[str]:
        """Return the names of all contexts but the default one, sorted."""
        return sorted(self._contexts, key=java_order)

    def has_context(self, context: str) -> bool:
        """Whether a context other than the default one exists."""
        return context in self._contexts

    def is_live(self, subject: str) -> bool:
        """Whether a subject has a version that is not deleted."""
        return any(not schema.deleted for schema in self._subjects.get(subject, {}).values())

    def has_subjects(self, subject: str | None, *, deleted: bool) -> bool:
        """Whether a subject, or any subject of a context, has versions. deleted: whether soft-deleted versions
        count."""
        return any(True for _ in self._having_versions(subject, deleted=deleted))

    def subjects_in(self, subject: str | None, *, deleted: bool) -> list[str]:
        """Return the subjects that a name covers and that have versions, sorted by context and subject."""
        return sorted(self._having_versions(subject, deleted=deleted), key=lambda each: names.parse(each).order)

    def _having_versions(self, subject: str | None, *, deleted: bool) -> Iterator[str]:
        is_one = subject is not None and names.parse(subject).subject
        for each in [subject] if subject is not None and is_one else self._subjects:
            versions = self._subjects.get(each, {})
            if any(deleted or not schema.deleted for schema in versions.values()) and names.covers(subject, each):
                yield each

    def subjects(self, prefix: str) -> list[str]:
        """Return the subjects whose names begin with a prefix, sorted. prefix: begins with `:*:` for all contexts, or
        with a context other than the default one."""
        if self._sorted is None:
            self._sorted = sorted(self._subjects, key=java_order)
        if prefix == names.WILDCARD:
            return list(self._sorted)
        name = names.parse(prefix)
        is_open = prefix.startswith(":.") and ":" not in prefix[1:]
        known = {names.DEFAULT_CONTEXT, *self._contexts} if name.context == "*" else {name.context}
        return [each for each in self._sorted if _begins(names.parse(each), name, known, is_open=is_open)]


def _set(settings: dict[str | None, V], subject: str | None, value: V | None) -> None:
    if value is None:
        settings.pop(subject, None)
    else:
        settings[subject] = value


def _begins(name: names.Name, prefix: names.Name, contexts: set[str], *, is_open: bool) -> bool:
    if is_open:
        return name.context.startswith(prefix.context)
    return name.context in contexts and name.subject.startswith(prefix.subject)


def _added(numbers: tuple[int, ...], number: int) -> tuple[int, ...]:
    return (number,) if not numbers else tuple(sorted({*numbers, number}))


def _targets(schema: StoredSchema) -> list[tuple[str, int]]:
    return [(names.qualify(schema.subject, each.subject), each.version) for each in schema.references]


def concurrent_order(keys: Mapping[str, object]) -> list[str]:
    """Return keys in the order in which Java's ConcurrentHashMap lists them: Confluent's registry answers in this
    order."""
    if not 1 < len(keys) <= ORDERED_MAX:
        return list(keys)
    size = _CONCURRENT_MAP_SIZE
    while len(keys) >= size * 3 // 4:
        size *= 2
    return sorted(keys, key=lambda key: _bucket(key, size))


def _bucket(key: str, size: int) -> int:
    value = java_hash(key) & 0xFFFFFFFF
    return (value ^ value >> 16) & 0x7FFFFFFF & (size - 1)
