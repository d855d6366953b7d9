"""The changes of `kcli schemas`: deletions, exports and imports. Each is planned before it is carried out.

An export is a directory with two files:

    schemas.json   an array of versions as GET /schemas answers with them, one a line: a dump, which `--schemas` reads
    levels.json    {"configs": {SUBJECT: the response to GET /config/SUBJECT}}, of subjects with a level of their own
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from kcli.errors import KcliError, UnreadableInput, UsageError
from kcli.schema_client.client import Missing, RegistryClient, Version, references_first
from kcli.schema_client.errors import RegistryError
from kcli.schema_client.registry import dumped_versions
from kcli.schema_client.sources import RegisteredSchema, read_schema_file

SCHEMAS, LEVELS = "schemas.json", "levels.json"
IMPORT_MODE = "IMPORT"


class InTheWay(KcliError):
    """The registry already has another schema under the id or version of a schema to import."""


# deletions


class Deletion(NamedTuple):
    """A version that is to be deleted. action: soft or permanent deletion, in words. referenced_by: ids of the schemas
    that refer to it: the registry then refuses to delete it."""

    subject: str
    version: int
    id: int
    action: str
    referenced_by: list[int]


class DeletionPlan(NamedTuple):
    """The deletion of a version or a subject by one or two requests. version: None for the whole subject. steps: for
    each request, whether it deletes permanently."""

    subject: str
    version: int | None
    steps: tuple[bool, ...]
    rows: list[Deletion]


def deletions(
    client: RegistryClient, named: Iterable[tuple[str, int | str | None]], *, permanent: bool
) -> Iterator[DeletionPlan | KcliError]:
    """Yield a plan for each subject or version to delete; an error if it does not exist, or is deleted already. named:
    subject and version; None for all versions. permanent: delete permanently, after a soft deletion if there was none
    yet."""
    for subject, version in named:
        try:
            yield _deletion(client, subject, version, permanent=permanent)
        except KcliError as error:
            yield error


def _deletion(client: RegistryClient, subject: str, version: int | str | None, *, permanent: bool) -> DeletionPlan:
    try:
        kept = client.versions(subject)
    except Missing:
        kept = []
    if version is not None:
        found = client.version(subject, version, deleted=permanent).version
        numbers, chosen = [found], found
    else:
        numbers, chosen = (client.versions(subject, deleted=True) if permanent else kept), None
        if not numbers:
            raise Missing(f"{client.name} has no subject {subject} that is not deleted")
    soft = any(each in kept for each in numbers)
    rows = []
    for number in numbers:
        each = client.version(subject, number, deleted=True)
        action = "for ever" if permanent else "softly"
        rows.append(Deletion(subject, number, each.id, action, _referring(client, subject, number)))
    steps = ((False, True) if soft else (True,)) if permanent else (False,)
    return DeletionPlan(subject, chosen, steps, rows)


def _referring(client: RegistryClient, subject: str, version: int) -> list[int]:
    try:
        return sorted(client.referenced_by(subject, version))
    except Missing:
        return []  # softly deleted


def delete(client: RegistryClient, plan: DeletionPlan) -> int | KcliError:
    """Carry out a plan; return the number of deleted versions, or the error."""
    try:
        for permanent in plan.steps:
            client.delete(plan.subject, plan.version, permanent=permanent)
    except KcliError as error:
        return error
    return len(plan.rows)


# export


class Exported(NamedTuple):
    """Counts of an export."""

    subjects: int
    versions: int


def export(client: RegistryClient, directory: Path, *, prefix: str | None, deleted: bool) -> Exported:
    """Write the versions of all subjects, and the compatibility levels that are set for single subjects, to a new or
    empty directory.

    Raises UsageError if the directory has files, UnreadableInput, RegistryError, OSError.
    """
    try:
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise UsageError(f"{directory}: is there, and is no empty directory")
    except OSError as error:
        raise UnreadableInput.of(directory, error) from None
    versions = sorted(client.all_versions(deleted=deleted, prefix=prefix), key=lambda each: (each.id, each[:2]))
    names = sorted({each.subject for each in versions})
    configs = {name: config for name in names if (config := client.config(name)) is not None}
    directory.mkdir(parents=True, exist_ok=True)
    _write(directory / LEVELS, json.dumps({"configs": configs}, indent=1, ensure_ascii=False) + "\n")
    lines = ",\n".join(json.dumps(each.answer(), ensure_ascii=False) for each in versions)
    _write(directory / SCHEMAS, f"[\n{lines}\n]\n")
    return Exported(len(names), len(versions))


def _write(path: Path, text: str) -> None:
    """Write a file atomically: it has the whole text, or does not exist."""
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8", errors="surrogatepass")
    part.replace(path)


# import


@dataclass(frozen=True, slots=True)
class Import:
    """A version of the dump, as an import treats it. action: what the import does with the version, or why it cannot
    import it."""

    version: Version
    action: str
    is_conflict: bool = False
    is_done: bool = False

    def row(self) -> dict[str, Any]:
        """Return this step as a row of the plan."""
        version = self.version
        return {"subject": version.subject, "version": version.version, "id": version.id, "action": self.action}


def imports(client: RegistryClient, directory: Path, *, new_ids: bool) -> list[Import]:
    """Return the plan of a dump's import, in the order of its steps: referenced schemas come first. new_ids: whether
    the registry assigns new ids and versions. Raises UnreadableInput, SchemaError, RegistryError."""
    wanted = references_first(dumped_versions(str(directory)))
    if new_ids:
        return [Import(each, "register") for each in wanted if not each.deleted]
    there = {(each.subject, each.version): each for each in client.all_versions(deleted=True)}
    by_id = {(_context(each.subject), each.id): each for each in there.values()}
    return [_import(each, there.get((each.subject, each.version)), by_id) for each in wanted]


def _import(version: Version, there: Version | None, by_id: dict[tuple[str, int], Version]) -> Import:
    if there is not None:
        if there.id == version.id and _same(there.schema, version.schema):
            if there.deleted and not version.deleted:
                return Import(version, "register again: it is softly deleted")
            return Import(version, "is there", is_done=True)
        return Import(version, f"in the way: version {there.version} is schema {there.id}", is_conflict=True)
    other = by_id.get((_context(version.subject), version.id))
    if other is not None and not _same(other.schema, version.schema):
        text = f"in the way: id {version.id} is {other.subject}:{other.version}"
        return Import(version, text, is_conflict=True)
    return Import(version, "register, then delete softly" if version.deleted else "register")


def _same(one: RegisteredSchema, other: RegisteredSchema) -> bool:
    """Whether two schemas are the same. The order of members in JSON does not count, as registries write them in
    different orders."""
    if one.language != other.language or one.references != other.references:
        return False
    if one.text == other.text or one.language == "PROTOBUF":
        return one.text == other.text
    try:
        return bool(json.loads(one.text) == json.loads(other.text))
    except (ValueError, RecursionError):
        return False


def _context(subject: str) -> str:
    """Return the context of a subject, within which ids are unique."""
    return subject[: subject.index(":", 1) + 1] if subject.startswith(":.") and ":" in subject[1:] else ""


def import_versions(
    client: RegistryClient, directory: Path, plan: Sequence[Import], *, new_ids: bool
) -> Iterator[Version | KcliError]:
    """Carry out the plan of an import; yield each registered version, or the error that kept it from being registered.

    A subject gets the mode IMPORT during the import, and its previous mode afterwards. The dump's compatibility levels
    are set for subjects that have none.
    """
    due = [each.version for each in plan if not each.is_conflict and not each.is_done]
    if new_ids:
        yield from _anew(client, due)
    else:
        yield from _with_ids(client, due)
    yield from _levels(client, directory, {each.subject for each in due})


def _with_ids(client: RegistryClient, due: Sequence[Version]) -> Iterator[Version | KcliError]:
    modes: dict[str, str | None] = {}
    try:
        for each in due:
            try:
                if each.subject not in modes:
                    modes[each.subject] = _into_import_mode(client, each.subject)
                client.register(each.subject, each.schema, id=each.id, version=each.version, **_more(each))
                if each.deleted:
                    client.delete(each.subject, each.version, permanent=False)
            except RegistryError as error:
                yield _of(each, error)
            else:
                yield each
    finally:
        for subject, own in modes.items():
            client.set_mode(subject, own)


def _into_import_mode(client: RegistryClient, subject: str) -> str | None:
    """Set the mode of a subject to IMPORT; return the mode that was set for the subject before, None if none was.
    Raises RegistryError, and KcliError if the registry has no modes for subjects."""
    own = client.mode(subject)
    try:
        client.set_mode(subject, IMPORT_MODE)
    except RegistryError as error:
        if error.status in {404, 405}:
            raise KcliError(
                f"{client.name} has no mode {IMPORT_MODE} for subjects: it imports with --new-ids"
            ) from None
        raise
    return own


def _anew(client: RegistryClient, due: Sequence[Version]) -> Iterator[Version | KcliError]:
    numbers: dict[tuple[str, int], int] = {}
    for each in due:
        references = tuple(
            replace(of, version=numbers.get((of.subject, of.version), of.version)) for of in each.schema.references
        )
        schema = replace(each.schema, references=references)
        try:
            client.register(each.subject, schema, **_more(each))
            numbers[each.subject, each.version] = client.look_up(each.subject, schema).version
        except RegistryError as error:
            yield _of(each, error)
        else:
            yield each


def _more(version: Version) -> dict[str, Any]:
    return {"metadata": version.metadata, "ruleSet": version.rule_set}


def _of(version: Version, error: RegistryError) -> KcliError:
    return KcliError(f"{version.subject}:{version.version}: {error.reason or error}")


def _levels(client: RegistryClient, directory: Path, subjects: set[str]) -> Iterator[KcliError]:
    path = directory / LEVELS
    if not path.is_file():
        return
    try:
        configs = json.loads(read_schema_file(str(path)))["configs"]
        wanted = {name: config for name, config in configs.items() if name in subjects and isinstance(config, dict)}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        yield UnreadableInput(str(path), "not the levels of subjects")
        return
    for name, config in wanted.items():
        level = config.get("compatibilityLevel") or config.get("compatibility")
        rest = {key: value for key, value in config.items() if key not in {"compatibilityLevel", "compatibility"}}
        try:
            if client.config(name) is None:
                client.set_config(name, {"compatibility": level, **rest})
        except RegistryError as error:
            yield KcliError(f"{name}: its level {level}: {error.reason or error}")
