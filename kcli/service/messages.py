"""Requests and answers of HTTP, as a service's handlers exchange them with its server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kcli.service.json_text import dumps

JSON = "application/json"
ERROR_STATUS: Final = 400
"""The least HTTP status of an error."""


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
    content_type: str = JSON
    headers: Mapping[str, str] = {}


def error_answer(code: int, message: str, status: int | None = None, content_type: str = JSON) -> Answer:
    """Return the answer for an error, as Kafka Connect and Confluent's registry write it. code: the error code. status:
    the HTTP status; None for the first three digits of the code."""
    body = dumps({"error_code": code, "message": message})
    return Answer(status or int(str(code)[:3]), body, content_type)
