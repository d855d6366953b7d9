"""Schema registries: over HTTP, with Confluent's API (also of Karapace, Apicurio and Redpanda), or a dump in files.

A dump is one file, or a directory with files of these kinds at any depth:

    *.json   the output of `curl REGISTRY/schemas`: an array of {"id", "subject", "version", "schemaType", "references",
             "schema"}, of which "id" and "schema" are needed; references are found by subject and version
             or the output of `curl REGISTRY/subjects/S/versions/V`: one such object
             or 17.json, the output of `curl REGISTRY/schemas/ids/17`: one such object whose id is the file's name
    17.avsc, 17.proto, 17.json   a schema's text, with its id as the file's name
    other *.avsc, *.proto        schemas to which other schemas refer by this path in the dump

Source: the reference of Confluent's Schema Registry API. A schema without a schemaType is AVRO.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from kcli.errors import UnreadableInput
from kcli.schema_client.client import Version, version_of
from kcli.schema_client.errors import RegistryError, SchemaError
from kcli.schema_client.http import DEFAULT, Access, HttpTransport, Transport
from kcli.schema_client.sources import (
    Reference,
    RegisteredSchema,
    Registry,
    UnknownSchema,
    registered_schema,
    schema_text,
)

FILE_MAX = 256 * 1024 * 1024
KEPT_MAX = 1000
"""The number of schemas of a registry that are kept in memory."""

SUFFIXES = {".avsc": "AVRO", ".proto": "PROTOBUF", ".json": "JSON"}
"""The schema type of a file by its suffix."""


def is_log_directory(place: str) -> bool:
    """Whether a place is a broker's log directory with the topic `_schemas`, which kcli.registry.files reads."""
    return "://" not in place and Path(place, "_schemas-0").is_dir()


def open_registry(place: str, access: Access = DEFAULT) -> Registry:
    """Return the registry at a URL, or the dump at a path. Raises UsageError, UnreadableInput, SchemaError."""
    return HttpRegistry(place, access) if "://" in place else DumpedRegistry(place)


class TransportRegistry:
    """A registry whose schemas are fetched with a transport. The KEPT_MAX schemas that were fetched last are kept in
    memory."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.name = transport.name
        self._found: dict[str, RegisteredSchema] = {}

    def schema(self, schema_id: int) -> RegisteredSchema:
        """Return the schema with this id. Raises UnknownSchema, RegistryError."""
        return self._schema(f"/schemas/ids/{schema_id}", f"schema {schema_id}")

    def schema_of_guid(self, guid: str) -> RegisteredSchema:
        """Return the schema with this GUID. Raises UnknownSchema, RegistryError."""
        return self._schema(f"/schemas/guids/{quote(guid, safe='')}", f"schema {guid}")

    def referred(self, reference: Reference) -> RegisteredSchema:
        """Return the schema at a reference's subject and version. Raises UnknownSchema, RegistryError."""
        path = f"/subjects/{quote(reference.subject, safe='')}/versions/{reference.version}"
        return self._schema(path, f"version {reference.version} of {reference.subject}")

    def _schema(self, path: str, name: str) -> RegisteredSchema:
        if path not in self._found:
            try:
                registered = registered_schema(self._transport.request("GET", path))
            except RegistryError as error:
                if error.status == 404:
                    raise UnknownSchema(f"{self.name} has no {name}") from error
                raise
            except ValueError as error:
                raise RegistryError(f"{self.name}{path} does not answer with a schema: {error}") from error
            while len(self._found) >= KEPT_MAX:
                del self._found[next(iter(self._found))]
            self._found[path] = registered
        return self._found[path]


class HttpRegistry(TransportRegistry):
    """A registry over HTTP or HTTPS. The URL may contain user and password. It can be pickled."""

    def __init__(self, url: str, access: Access = DEFAULT) -> None:
        """Make no request yet. Raises UsageError for an invalid URL, UnreadableInput for the file of authorities."""
        super().__init__(HttpTransport(url, access))


class KnownRegistry:
    """A registry whose schemas are all in memory."""

    def __init__(self, name: str, answers: Iterable[Mapping[str, Any]] = ()) -> None:
        """answers: answers of a registry, each with its id, as in the response to GET /schemas. Raises ValueError."""
        self.name = name
        self._by_id: dict[int, RegisteredSchema] = {}
        self._in_context: dict[int, RegisteredSchema] = {}
        self._by_guid: dict[str, RegisteredSchema] = {}
        self._by_version: dict[tuple[str, int], RegisteredSchema] = {}
        self._by_path: dict[str, RegisteredSchema] = {}
        for answer in answers:
            self._add(answer)

    def schema(self, schema_id: int) -> RegisteredSchema:
        """Return the schema with this id in the default context, or else in another context. Raises UnknownSchema."""
        found = self._by_id.get(schema_id) or self._in_context.get(schema_id)
        if found is None:
            raise UnknownSchema(f"{self.name} has no schema {schema_id}")
        return found

    def schema_of_guid(self, guid: str) -> RegisteredSchema:
        """Return the schema with this GUID. Raises UnknownSchema."""
        try:
            return self._by_guid[guid]
        except KeyError:
            raise UnknownSchema(f"{self.name} has no schema {guid}") from None

    def referred(self, reference: Reference) -> RegisteredSchema:
        """Return the schema at a reference's subject and version. If there is none, return the schema whose path in the
        dump is the reference's name. Raises UnknownSchema."""
        found = self._by_version.get((reference.subject, reference.version)) or self._by_path.get(reference.name)
        if found is None:
            raise UnknownSchema(f"{self.name} has no version {reference.version} of {reference.subject}")
        return found

    def _add(self, answer: Mapping[str, Any]) -> None:
        registered = registered_schema(answer)
        subject, version, guid = answer.get("subject"), answer.get("version"), answer.get("guid")
        if isinstance(subject, str) and isinstance(version, int):
            self._by_version[subject, version] = registered
        if isinstance(guid, str):
            self._by_guid.setdefault(guid, registered)
        if isinstance(subject, str) and subject.startswith(":."):  # its id is not one of the default context
            self._in_context.setdefault(answer["id"], registered)
        else:
            self._by_id.setdefault(answer["id"], registered)


class DumpedRegistry(KnownRegistry):
    """A registry's schemas, read from a dump in files; the module docstring lists the kinds of files."""

    def __init__(self, place: str) -> None:
        """Read the whole dump. Raises UnreadableInput, SchemaError."""
        super().__init__(place)
        for file in _dump_files(place):
            try:
                for answer in file.answers:
                    self._add(answer)
            except ValueError as error:
                raise SchemaError(f"{file.path}: not a dump of schemas: {error}") from error
            if not file.answers:
                registered = RegisteredSchema(SUFFIXES[file.path.suffix], file.text)
                self._by_path[file.place] = registered
                if file.own_id is not None:
                    self._by_id.setdefault(file.own_id, registered)
        if not self._by_id and not self._in_context:
            raise SchemaError(f"{place}: no schema with an id in this dump")


def dumped_versions(place: str) -> list[Version]:
    """Return the versions of subjects in a dump. Raises UnreadableInput, and SchemaError for a dump without any."""
    found: list[Version] = []
    for file in _dump_files(place):
        try:
            found += [version_of(each, registered_schema(each)) for each in file.answers if "subject" in each]
        except ValueError as error:
            raise SchemaError(f"{file.path}: not a dump of schemas: {error}") from error
    if not found:
        raise SchemaError(f"{place}: no version of a subject in this dump")
    return found


class _DumpFile(NamedTuple):
    """A file of a dump. place: its path in the dump. own_id: the id in its name, None if it has none. answers: the
    registry's answers in the file; none if the file's text is a schema."""

    path: Path
    place: str
    own_id: int | None
    text: str
    answers: list[Mapping[str, Any]]


def _dump_files(place: str) -> Iterator[_DumpFile]:
    """Yield the files of a dump. Raises UnreadableInput, SchemaError."""
    root = Path(place)
    try:
        for path in [root] if root.is_file() else sorted(root.rglob("*")):
            if path.suffix in SUFFIXES and path.is_file():
                if path.stat().st_size > FILE_MAX:
                    raise SchemaError(f"{path}: more than {FILE_MAX:,} bytes are no dump of schemas")
                yield _dump_file(path, path.relative_to(root).as_posix())
        root.stat()
    except OSError as error:
        raise UnreadableInput.of(error.filename or place, error) from error


def _dump_file(path: Path, place: str) -> _DumpFile:
    text = schema_text(path.read_bytes(), str(path))
    own_id = int(path.stem) if path.stem.isdecimal() else None
    answers: list[Mapping[str, Any]] = []
    if path.suffix == ".json":
        try:
            answers = list(_answers(json.loads(text), own_id))
        except (ValueError, RecursionError) as error:
            raise SchemaError(f"{path}: not a dump of schemas: {error}") from error
    return _DumpFile(path, place, own_id, text, answers)


def _answers(value: Any, own_id: int | None) -> Iterator[Mapping[str, Any]]:
    """Yield the registry's answers in a JSON file of a dump, each with its id; none if the file is a JSON schema.

    own_id: the id in the file's name, None if the name has none. Raises ValueError.
    """
    if isinstance(value, dict):
        if not isinstance(value.get("schema"), str):
            return
        value = [value if "id" in value or own_id is None else {**value, "id": own_id}]
    if not isinstance(value, list):
        return
    for answer in value:
        if not isinstance(answer, Mapping) or not isinstance(answer.get("id"), int):
            raise ValueError("a schema without an id")  # noqa: TRY004 (a bad answer, not a bad argument)
        yield answer
