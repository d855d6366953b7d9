"""Changes, limits and ids: the values that the registry's server and the API's handlers exchange."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from kcli.service.messages import Answer
from kcli.service.messages import error_answer as plain_error

V1_JSON = "application/vnd.schemaregistry.v1+json"
"""The media type of answers if the client does not prefer another one."""


def error_answer(code: int, message: str, status: int | None = None) -> Answer:
    """Return the answer for an error. code, status: see kcli.service.messages."""
    return plain_error(code, message, status, V1_JSON)


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
