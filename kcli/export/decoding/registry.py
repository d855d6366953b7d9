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
    """Return the registry at a URL, or the dump at a path. Raises UsageError, UnreadableInput, SchemaError."""
    return HttpRegistry(place) if "://" in place else DumpedRegistry(place)


class HttpRegistry:
    """A registry over HTTP or HTTPS, with a cache of its schemas. The URL may contain user and password."""

    def __init__(self, url: str, timeout_s: float = TIMEOUT_S) -> None:
        """Make no request yet. Raises UsageError for an invalid URL."""
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
        """Return the schema with this id. Raises UnknownSchema, RegistryError."""
        return self._schema(f"/schemas/ids/{schema_id}", f"schema {schema_id}")

    def referred(self, reference: Reference) -> RegisteredSchema:
        """Return the schema at a reference's subject and version. Raises UnknownSchema, RegistryError."""
        path = f"/subjects/{quote(reference.subject, safe='')}/versions/{reference.version}"
        return self._schema(path, f"version {reference.version} of {reference.subject}")

    def _schema(self, path: str, name: str) -> RegisteredSchema:
        if path not in self._found:
            try:
                answer = json.loads(self._get(path))
                registered = _registered(answer)
            except RegistryError as error:
                if error.status == 404:
                    raise UnknownSchema(f"{self.name} has no {name}") from error
                raise
            except (ValueError, RecursionError) as error:
                raise RegistryError(f"{self.name}{path} does not answer with a schema: {error}") from error
            self._found[path] = registered
        return self._found[path]

    def _get(self, path: str) -> bytes:
        request = Request(self.name + path, headers={"Accept": MEDIA_TYPES})  # noqa: S310 (http or https, as __init__ checks)
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
            with urlopen(request, timeout=self.timeout_s) as response:  # noqa: S310 (http or https, as __init__ checks)
                body: bytes = response.read(RESPONSE_MAX + 1)
        except HTTPError as error:
            with error:
                message = _message(error.read(4096))
            raise RegistryError(
                f"{request.full_url} answers {error.code} {message or error.reason}", error.code
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
    """Return the schema in a JSON answer of a registry. Raises ValueError."""
    if not isinstance(answer, dict) or not isinstance(answer.get("schema"), str):
        raise ValueError("no text under 'schema'")  # noqa: TRY004 (a bad answer, not a bad argument)
    language = answer.get("schemaType") or "AVRO"
    references = []
    for reference in answer.get("references") or []:
        if not isinstance(reference, dict):
            raise ValueError("a reference that is no object")  # noqa: TRY004 (a bad answer, not a bad argument)
        name, subject, version = (reference.get(key) for key in ("name", "subject", "version"))
        if not (isinstance(name, str) and isinstance(subject, str) and isinstance(version, int)):
            raise ValueError("a reference without name, subject and version")  # noqa: TRY004 (a bad answer, not a bad argument)
        references.append(Reference(name, subject, version))
    return RegisteredSchema(str(language), answer["schema"], tuple(references))


class DumpedRegistry:
    """A registry's schemas, read from a dump in files; the module docstring lists the kinds of files."""

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
            raise UnreadableInput.of(error.filename or place, error) from error
        if not self._by_id:
            raise SchemaError(f"{place}: no schema with an id in this dump")

    def schema(self, schema_id: int) -> RegisteredSchema:
        """Return the schema with this id. Raises UnknownSchema."""
        try:
            return self._by_id[schema_id]
        except KeyError:
            raise UnknownSchema(f"{self.name} has no schema {schema_id}") from None

    def referred(self, reference: Reference) -> RegisteredSchema:
        """Return the schema at a reference's subject and version. If the dump has none there, return the schema whose
        path in the dump is the reference's name. Raises UnknownSchema."""
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
        if not isinstance(answer, dict) or not isinstance(answer.get("id"), int):
            raise ValueError("a schema without an id")  # noqa: TRY004 (a bad answer, not a bad argument)
        yield answer
