"""Schema registries: over HTTP as Confluent's (Karapace, Apicurio and Redpanda speak the same), or dumped into files.

A dump is a file or a directory of them, of any of these, at any depth:

    *.json   what `curl REGISTRY/schemas` gives: an array of {"id", "subject", "version", "schemaType", "references",
             "schema"}, of which "id" and "schema" are needed; references are found by subject and version
             or what `curl REGISTRY/subjects/S/versions/V` gives: one such object
             or 17.json, what `curl REGISTRY/schemas/ids/17` gives: one such object whose id is the file's name
    17.avsc, 17.proto, 17.json   a schema itself, its id as the name
    other *.avsc, *.proto        schemas that others refer to by this path in the dump

Source: the reference of Confluent's Schema Registry API. schemaType is AVRO where none is said.
"""

from __future__ import annotations

import base64
import http.client
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import Request, urlopen

from kcli.errors import UnreadableInput, UsageError
from kcli.export.decoding.errors import RegistryError, SchemaError
from kcli.export.decoding.sources import Reference, RegisteredSchema, Registry, UnknownSchema, schema_text

MEDIA_TYPES = "application/vnd.schemaregistry.v1+json, application/json"
TIMEOUT_S = 10.0
TRIES = 3
PAUSE_S = 0.2
RESPONSE_MAX = 16 * 1024 * 1024
FILE_MAX = 256 * 1024 * 1024

_SUFFIXES = {".avsc": "AVRO", ".proto": "PROTOBUF", ".json": "JSON"}


def open_registry(place: str) -> Registry:
    """The registry at a URL, or the dump at a path. Raises UsageError, UnreadableInput, SchemaError."""
    return HttpRegistry(place) if "://" in place else DumpedRegistry(place)


class HttpRegistry:
    """A registry over HTTP or HTTPS; each schema is asked for once. User and password may be part of the URL."""

    def __init__(self, url: str, timeout_s: float = TIMEOUT_S) -> None:
        """Raises UsageError for a URL that is none. Nothing is asked yet."""
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname, parts.port
        except ValueError as error:
            raise UsageError(f"not a registry's URL: {error}") from error
        if parts.scheme not in {"http", "https"} or not host:
            raise UsageError(f"not a registry's URL: {parts.scheme}://{host or ''}: http or https, and a host")
        self._login = None
        if parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._login = "Basic " + base64.b64encode(login.encode()).decode()
        place = parts.netloc.rpartition("@")[2]
        self.name = urlunsplit((parts.scheme, place, parts.path.rstrip("/"), "", ""))
        self.timeout_s = timeout_s
        self._found: dict[str, RegisteredSchema] = {}

    def schema(self, schema_id: int) -> RegisteredSchema:
        """Ask for the schema with this id. Raises UnknownSchema, RegistryError."""
        return self._schema(f"/schemas/ids/{schema_id}", f"schema {schema_id}")

    def referred(self, reference: Reference) -> RegisteredSchema:
        """Ask for this version of a subject. Raises UnknownSchema, RegistryError."""
        path = f"/subjects/{quote(reference.subject, safe='')}/versions/{reference.version}"
        return self._schema(path, f"version {reference.version} of {reference.subject}")

    def _schema(self, path: str, what: str) -> RegisteredSchema:
        if path not in self._found:
            try:
                answer = json.loads(self._get(path))
                registered = _registered(answer)
            except RegistryError as error:
                if error.status == 404:
                    raise UnknownSchema(f"{self.name} has no {what}") from error
                raise
            except (ValueError, RecursionError) as error:
                raise RegistryError(f"{self.name}{path} does not answer with a schema: {error}") from error
            self._found[path] = registered
        return self._found[path]

    def _get(self, path: str) -> bytes:
        request = Request(self.name + path, headers={"Accept": MEDIA_TYPES})  # noqa: S310
        if self._login:
            request.add_unredirected_header("Authorization", self._login)
        for attempt in range(1, TRIES + 1):
            try:
                return self._try(request)
            except RegistryError as error:
                passing = error.status is None or error.status >= 500 or error.status == 429
                if not passing or attempt == TRIES:
                    raise
                time.sleep(PAUSE_S * attempt)
        raise AssertionError

    def _try(self, request: Request) -> bytes:
        try:
            with urlopen(request, timeout=self.timeout_s) as response:  # noqa: S310
                body: bytes = response.read(RESPONSE_MAX + 1)
        except HTTPError as error:
            with error:
                said = _message(error.read(4096))
            raise RegistryError(
                f"{request.full_url} answers {error.code} {said or error.reason}", error.code
            ) from error
        except (URLError, http.client.HTTPException, OSError) as error:
            reason = error.reason if isinstance(error, URLError) else error
            raise RegistryError(f"the schema registry {self.name} does not answer: {reason}") from error
        if len(body) > RESPONSE_MAX:
            raise RegistryError(f"{request.full_url} answers with more than {RESPONSE_MAX:,} bytes", 200)
        return body


def _message(body: bytes) -> str:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    return str(answer.get("message", ""))[:200] if isinstance(answer, dict) else ""


def _registered(answer: Any) -> RegisteredSchema:
    """A schema as the registry tells it. Raises ValueError."""
    if not isinstance(answer, dict) or not isinstance(answer.get("schema"), str):
        raise ValueError("no text under 'schema'")  # noqa: TRY004
    language = answer.get("schemaType") or "AVRO"
    references = []
    for reference in answer.get("references") or []:
        if not isinstance(reference, dict):
            raise ValueError("a reference that is no object")  # noqa: TRY004
        name, subject, version = (reference.get(key) for key in ("name", "subject", "version"))
        if not (isinstance(name, str) and isinstance(subject, str) and isinstance(version, int)):
            raise ValueError("a reference without name, subject and version")  # noqa: TRY004
        references.append(Reference(name, subject, version))
    return RegisteredSchema(str(language), answer["schema"], tuple(references))


class DumpedRegistry:
    """A registry's schemas from files. See the module for what they are."""

    def __init__(self, place: str) -> None:
        """Read the whole dump. Raises UnreadableInput, SchemaError."""
        self.name = place
        self._by_id: dict[int, RegisteredSchema] = {}
        self._by_version: dict[tuple[str, int], RegisteredSchema] = {}
        self._by_path: dict[str, RegisteredSchema] = {}
        root = Path(place)
        try:
            for path in [root] if root.is_file() else sorted(root.rglob("*")):
                if path.suffix in _SUFFIXES and path.is_file():
                    if path.stat().st_size > FILE_MAX:
                        raise SchemaError(f"{path}: more than {FILE_MAX:,} bytes are no dump of schemas")
                    self._add_file(path, path.relative_to(root).as_posix())
        except OSError as error:
            raise UnreadableInput(str(error.filename or place), error.strerror or str(error)) from error
        if not self._by_id:
            raise SchemaError(f"{place}: no schema with an id in this dump")

    def schema(self, schema_id: int) -> RegisteredSchema:
        """The schema with this id. Raises UnknownSchema."""
        try:
            return self._by_id[schema_id]
        except KeyError:
            raise UnknownSchema(f"{self.name} has no schema {schema_id}") from None

    def referred(self, reference: Reference) -> RegisteredSchema:
        """The schema that a reference names. Raises UnknownSchema."""
        found = self._by_version.get((reference.subject, reference.version)) or self._by_path.get(reference.name)
        if found is None:
            raise UnknownSchema(f"{self.name} has no version {reference.version} of {reference.subject}")
        return found

    def _add_file(self, path: Path, place: str) -> None:
        text = schema_text(path.read_bytes(), str(path))
        own_id = int(path.stem) if path.stem.isdecimal() else None
        if path.suffix == ".json":
            try:
                answers = list(_answers(json.loads(text), own_id))
                for answer in answers:
                    self._add(answer)
            except (ValueError, RecursionError) as error:
                raise SchemaError(f"{path}: not a dump of schemas: {error}") from error
            if answers:
                return
        registered = RegisteredSchema(_SUFFIXES[path.suffix], text)
        self._by_path[place] = registered
        if own_id is not None:
            self._by_id.setdefault(own_id, registered)

    def _add(self, answer: dict[str, Any]) -> None:
        registered = _registered(answer)
        subject, version = answer.get("subject"), answer.get("version")
        if isinstance(subject, str) and isinstance(version, int):
            self._by_version[subject, version] = registered
        self._by_id.setdefault(answer["id"], registered)


def _answers(value: Any, own_id: int | None) -> Iterator[dict[str, Any]]:
    """What a registry said of schemas, each with its id; nothing for a JSON schema itself."""
    if isinstance(value, dict):
        if not isinstance(value.get("schema"), str):
            return
        value = [value if "id" in value or own_id is None else {**value, "id": own_id}]
    if not isinstance(value, list):
        return
    for answer in value:
        if not isinstance(answer, dict) or not isinstance(answer.get("id"), int):
            raise ValueError("a schema without an id")  # noqa: TRY004
        yield answer
