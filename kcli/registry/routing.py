"""Finds the handler of a request: removes the context from the path, replaces aliases, and chooses the media type.

    /contexts/{context}/subjects/{subject}...     is  /subjects/:.context:{subject}...
    /contexts/{context}/config, /mode             is  /config/:.context:
    /contexts/{context}/schemas/ids/{id}          is  /schemas/ids/{id}?subject=:.context:
    /contexts/{context}/subjects, /schemas        is  ...?subjectPrefix=:.context:

A subject whose configuration has an alias is replaced by the subject that the alias names. Source: schema contexts and
subject aliases in the documentation of Confluent's Schema Registry.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from kcli.registry import about, compatibilities, configs, errors, modes, names, registering, schemas, subjects
from kcli.registry.calls import parse_query
from kcli.registry.image import Image
from kcli.registry.messages import V1_JSON, Change, Operation
from kcli.service.messages import Answer, Request

MEDIA_TYPES = {V1_JSON: 1.0, "application/vnd.schemaregistry+json": 1.0, "application/json": 0.5}
"""The media types of answers, each with the registry's preference."""
BODY_TYPES = (*MEDIA_TYPES, "application/octet-stream")
BAD_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")
ACCEPTS_KEPT = 100
"""The number of Accept headers whose result is cached, as a client sends the same header each time."""
_ABSENT = {
    "exporters": "exporters",
    "dek-registry": "encryption keys",
    "catalog": "catalogs",
    "associations": "associations",
}


class Route(NamedTuple):
    """A method and a path with its handler. path: the segments; those in braces are parameters."""

    method: str
    path: tuple[str, ...]
    handler: Callable[..., Answer | Change]
    operation: Operation


def _route(line: str, handler: Callable[..., Answer | Change], operation: Operation) -> Route:
    method, path = line.split()
    return Route(method, tuple(path.strip("/").split("/")) if path != "/" else (), handler, operation)


ROUTES = (
    _route("GET /", about.root, Operation.DESCRIBE),
    _route("POST /", about.root, Operation.DESCRIBE),
    _route("GET /subjects", subjects.list_subjects, Operation.READ),
    _route("POST /subjects/{subject}", subjects.look_up_schema, Operation.READ),
    _route("DELETE /subjects/{subject}", subjects.delete_subject, Operation.DELETE),
    _route("GET /subjects/{subject}/metadata", subjects.latest_with_metadata, Operation.READ),
    _route("GET /subjects/{subject}/versions", subjects.list_versions, Operation.READ),
    _route("POST /subjects/{subject}/versions", registering.register, Operation.WRITE),
    _route("GET /subjects/{subject}/versions/{version}", subjects.get_version, Operation.READ),
    _route("DELETE /subjects/{subject}/versions/{version}", subjects.delete_version, Operation.DELETE),
    _route("GET /subjects/{subject}/versions/{version}/schema", subjects.get_version_text, Operation.READ),
    _route("GET /subjects/{subject}/versions/{version}/referencedby", subjects.referenced_by, Operation.READ),
    _route("POST /compatibility/subjects/{subject}/versions", compatibilities.check_subject, Operation.READ),
    _route("POST /compatibility/subjects/{subject}/versions/{version}", compatibilities.check_version, Operation.READ),
    _route("GET /schemas", schemas.list_schemas, Operation.READ),
    _route("GET /schemas/types", schemas.list_types, Operation.DESCRIBE),
    _route("GET /schemas/ids/{id}", schemas.get_schema, Operation.READ),
    _route("GET /schemas/ids/{id}/schema", schemas.get_schema_text, Operation.READ),
    _route("GET /schemas/ids/{id}/subjects", schemas.list_subjects_of_id, Operation.READ),
    _route("GET /schemas/ids/{id}/versions", schemas.list_versions_of_id, Operation.READ),
    _route("GET /schemas/guids/{guid}", schemas.get_schema_by_guid, Operation.READ),
    _route("GET /schemas/guids/{guid}/ids", schemas.list_ids_of_guid, Operation.READ),
    _route("GET /config", configs.get_config, Operation.COMPATIBILITY_READ),
    _route("PUT /config", configs.put_config, Operation.COMPATIBILITY_WRITE),
    _route("DELETE /config", configs.delete_config, Operation.COMPATIBILITY_WRITE),
    _route("GET /config/{subject}", configs.get_config, Operation.COMPATIBILITY_READ),
    _route("PUT /config/{subject}", configs.put_config, Operation.COMPATIBILITY_WRITE),
    _route("DELETE /config/{subject}", configs.delete_config, Operation.COMPATIBILITY_WRITE),
    _route("GET /mode", modes.get_mode, Operation.MODE_READ),
    _route("PUT /mode", modes.put_mode, Operation.MODE_WRITE),
    _route("DELETE /mode", modes.delete_mode, Operation.MODE_WRITE),
    _route("GET /mode/{subject}", modes.get_mode, Operation.MODE_READ),
    _route("PUT /mode/{subject}", modes.put_mode, Operation.MODE_WRITE),
    _route("DELETE /mode/{subject}", modes.delete_mode, Operation.MODE_WRITE),
    _route("GET /contexts", about.list_contexts, Operation.READ),
    _route("DELETE /contexts/{context}", about.delete_context, Operation.DELETE),
    _route("GET /v1/metadata/id", about.cluster_id, Operation.DESCRIBE),
    _route("GET /v1/metadata/version", about.version, Operation.DESCRIBE),
    _route("GET /v1/metadata/deployment", about.deployment, Operation.DESCRIBE),
)


def _by_shape() -> dict[tuple[int, str], dict[tuple[str, ...], dict[str, Route]]]:
    found: dict[tuple[int, str], dict[tuple[str, ...], dict[str, Route]]] = {}
    for route in ROUTES:
        shape = (len(route.path), route.path[0] if route.path else "")
        found.setdefault(shape, {}).setdefault(route.path, {})[route.method] = route
    return found


_SHAPES = _by_shape()


class Target(NamedTuple):
    """The handler of a request. parameters: the parameters of the path."""

    route: Route
    parameters: tuple[str, ...]
    query: Mapping[str, Sequence[str]]

    @property
    def subject(self) -> str | None:
        """The subject in the path, with its context; None for all subjects."""
        for name, value in zip((each for each in self.route.path if each[0] == "{"), self.parameters, strict=True):
            if name in ("{subject}", "{context}"):
                return None if names.is_default_context(value) else names.normalize(value)
        given = self.query.get("subject") or [""]
        return names.normalize(given[0]) or None


def find(request: Request, image: Image | None) -> Target:
    """Find the handler of a request. image: has the aliases; None to leave aliases as they are. Raises RestError: 404,
    405."""
    if "//" in request.path:
        raise errors.bad_request("Ambiguous URI empty segment")
    if BAD_ESCAPE.search(request.path):
        raise errors.bad_request("The path has a % without two hexadecimal digits")
    try:
        segments = [unquote(each, errors="strict") for each in request.path.split("/") if each]
    except UnicodeDecodeError:
        raise errors.bad_request("The path is not UTF-8") from None
    query = parse_query(request.query) if request.query else {}
    if segments and segments[0] == "contexts" and (len(segments) > 1 or request.path.endswith("/")):
        segments = _without_context(segments, query)
    if image is not None:
        _replace_aliases(segments, query, image)
    return _match(request.method, segments, query)


def _match(method: str, segments: Sequence[str], query: Mapping[str, Sequence[str]]) -> Target:
    for path, methods in _SHAPES.get((len(segments), segments[0] if segments else ""), {}).items():
        if all(wanted[0] == "{" or wanted == segment for wanted, segment in zip(path, segments, strict=True)):
            route = methods.get("GET" if method == "HEAD" else method)
            if route is None:
                raise errors.method_not_allowed()
            given = tuple(each for wanted, each in zip(path, segments, strict=True) if wanted[0] == "{")
            return Target(route, given, query)
    if segments and segments[0] in _ABSENT:
        raise errors.not_supported(_ABSENT[segments[0]])
    raise errors.not_found()


def _has_context(name: str) -> bool:
    return name.startswith((":.", names.WILDCARD))


def _without_context(segments: Sequence[str], query: dict[str, list[str]]) -> list[str]:
    """Return the segments of a path without the context, which is moved into the subject or into the query's
    parameters.

    Raises RestError: 400 for an illegal context.
    """
    try:
        prefix = names.normalize_context(segments[1]) if len(segments) > 1 else ""
    except ValueError as error:
        raise errors.bad_request(str(error)) from None
    rest = list(segments[2:])
    if len(segments) == 1:
        return ["contexts"]
    if not rest:
        return ["contexts", prefix] if prefix else []
    is_settings = rest[0] in ("config", "mode")
    at = 1 if is_settings else next((i + 1 for i, each in enumerate(rest) if each == "subjects"), len(rest) + 1)
    if at < len(rest):
        rest[at] = rest[at] if _has_context(rest[at]) else prefix + rest[at]
    elif is_settings and prefix:
        rest.append(prefix)
    _set_context_in_query(rest, prefix, query)
    return rest


def _set_context_in_query(rest: Sequence[str], prefix: str, query: dict[str, list[str]]) -> None:
    if rest[:2] == ["schemas", "ids"]:
        name = "subject"
    elif rest in (["schemas"], ["subjects"]):
        name = "subjectPrefix"
    else:
        return
    given = query.get(name) or [""]
    query[name] = [each if _has_context(each) else prefix + each for each in given]


def _replace_aliases(segments: list[str], query: dict[str, list[str]], image: Image) -> None:
    if not image.configs:
        return
    for i, each in enumerate(segments[:-1]):
        if each == "subjects":
            segments[i + 1] = _alias(image, segments[i + 1])
            break
    if segments[:2] == ["schemas", "ids"] and query.get("subject"):
        query["subject"] = [_alias(image, query["subject"][0])]


def _alias(image: Image, subject: str) -> str:
    alias = image.configs.get(names.normalize(subject), {}).get("alias") if subject else None
    return names.qualify(subject, alias) if alias else subject


@lru_cache(maxsize=ACCEPTS_KEPT)
def media_type(accept: str) -> str:
    """Return the media type of the answer to a request with an Accept header. Raises RestError: 406."""
    if not accept.strip():
        return V1_JSON
    best, weight = "", (0.0, 0.0)
    for each in accept.split(","):
        name, *parameters = (part.strip().lower() for part in each.split(";"))
        quality = _quality(parameters)
        for media, liked in MEDIA_TYPES.items():
            if name in ("*/*", "*", "application/*", media) and quality > 0 and (quality, liked) > weight:
                best, weight = media, (quality, liked)
    if not best:
        raise errors.not_acceptable()
    return best


def _quality(parameters: Sequence[str]) -> float:
    for each in parameters:
        if each.startswith("q="):
            try:
                return float(each[2:])
            except ValueError:
                return 0.0
    return 1.0


def check_body_type(content_type: str) -> None:
    """Check the Content-Type of a body. Raises RestError: 415."""
    name = content_type.partition(";")[0].strip().lower()
    if name and name not in BODY_TYPES and name not in ("application/*", "*/*"):
        raise errors.unsupported_media_type()
