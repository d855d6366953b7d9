"""Requests, answers and changes: the values that the registry's server and the API's handlers exchange."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

V1_JSON = "application/vnd.schemaregistry.v1+json"
"""The media type of answers if the client does not prefer another one."""


class Request(NamedTuple):
    """An HTTP request. path: still percent-encoded, without the query. query: the text after the `?`, still encoded.
    headers: their names in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes


class Answer(NamedTuple):
    """An HTTP response. headers: the headers other than Content-Type and Content-Length."""

    status: int
    body: bytes
    content_type: str = V1_JSON
    headers: Mapping[str, str] = {}


class Change(NamedTuple):
    """The change that a request makes: the records (key, value) to append to `_schemas`, and the answer, which is sent
    once they are replayed. A value of None is a tombstone."""

    records: Sequence[tuple[bytes, bytes | None]]
    answer: Answer


class Limits(NamedTuple):
    """Limits of a request, and settings of the registry.

    body_size_max: the size of a request's body in bytes. results_max: the number of entries in one answer of a listing,
    also by default; Confluent's registry has `schema.search.max.limit` and others for it. default_compatibility: the
    compatibility level if none is configured. mode_mutability: whether modes can be set.
    """

    body_size_max: int = 16 << 20
    results_max: int = 1000
    default_compatibility: str = "BACKWARD"
    mode_mutability: bool = True


class Identity(NamedTuple):
    """The ids with which the registry answers /v1/metadata."""

    kafka_cluster_id: str = ""
    group_id: str = "schema-registry"
    version: str = "8.3.1"
    commit_id: str = ""


class Operation(StrEnum):
    """The kind of access that a request needs to a subject, or to all subjects. COMPATIBILITY stands for
    configurations."""

    READ = "READ"
    WRITE = "WRITE"
    DELETE = "DELETE"
    COMPATIBILITY_READ = "COMPATIBILITY_READ"
    COMPATIBILITY_WRITE = "COMPATIBILITY_WRITE"
    MODE_READ = "MODE_READ"
    MODE_WRITE = "MODE_WRITE"
    DESCRIBE = "DESCRIBE"
    """Reads only facts about the registry: its types, its version, the root."""
