"""A request, an answer, and what a request changes: the values between the registry's server and what decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

V1_JSON = "application/vnd.schemaregistry.v1+json"
"""The media type of answers if the client does not prefer another one."""


class Request(NamedTuple):
    """A request of HTTP. path: still percent-encoded, without the query. query: what stands behind the `?`, encoded.
    headers: their names in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes


class Answer(NamedTuple):
    """An answer of HTTP. headers: those beside Content-Type and Content-Length."""

    status: int
    body: bytes
    content_type: str = V1_JSON
    headers: Mapping[str, str] = {}


class Change(NamedTuple):
    """What a request changes: records (key, value) of `_schemas`, in their order, and the answer, which is given once
    they are replayed. value: None is a tombstone."""

    records: Sequence[tuple[bytes, bytes | None]]
    answer: Answer


class Limits(NamedTuple):
    """What one request may take, and what an operator sets for all of them.

    body_size_max: bytes of a request's body. results_max: entries of one answer of a listing, which
    `schema.search.max.limit` and its like are to Confluent's registry; also the default. default_compatibility: the
    level where nothing is configured. mode_mutability: whether modes can be set.
    """

    body_size_max: int = 16 << 20
    results_max: int = 1000
    default_compatibility: str = "BACKWARD"
    mode_mutability: bool = True


class Identity(NamedTuple):
    """Who answers: for /v1/metadata."""

    kafka_cluster_id: str = ""
    group_id: str = "schema-registry"
    version: str = "8.3.1"
    commit_id: str = ""


class Operation(StrEnum):
    """What a request does to a subject, or to all of them. COMPATIBILITY: the configuration."""

    READ = "READ"
    WRITE = "WRITE"
    DELETE = "DELETE"
    COMPATIBILITY_READ = "COMPATIBILITY_READ"
    COMPATIBILITY_WRITE = "COMPATIBILITY_WRITE"
    MODE_READ = "MODE_READ"
    MODE_WRITE = "MODE_WRITE"
    DESCRIBE = "DESCRIBE"
    """Of the registry alone: its types, its version, the root."""
