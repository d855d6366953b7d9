"""The argument of a handler: the request's parameters and body, and the image. It also makes the handler's answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar
from urllib.parse import parse_qsl

from kcli.registry.errors import bad_request, invalid_version, missing_body, not_found
from kcli.registry.fields import INT_MAX
from kcli.registry.image import Image
from kcli.registry.messages import Change, Identity, Limits
from kcli.registry.records import Record
from kcli.service.json_text import BadJson, Json, dumps, loads
from kcli.service.messages import Answer

T = TypeVar("T")
Query = Mapping[str, Sequence[str]]
LATEST = -1


def parse_query(query: str) -> dict[str, list[str]]:
    """Return the values of each parameter of a query. Raises RestError."""
    parameters: dict[str, list[str]] = {}
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=1000)
    except ValueError:
        raise bad_request("The query has too many parameters") from None
    for name, value in pairs:
        parameters.setdefault(name, []).append(value)
    return parameters


class Call(NamedTuple):
    """A request, and what a handler needs to answer it. media_type: the media type of the answer. may_read: returns
    whether the user may read a subject."""

    image: Image
    limits: Limits
    identity: Identity
    query: Query
    body: bytes
    media_type: str
    may_read: Callable[[str], bool]

    def text(self, name: str, default: str = "") -> str:
        """Return a parameter of the query."""
        values = self.query.get(name)
        return values[0] if values else default

    def optional(self, name: str) -> str | None:
        """Return a parameter of the query; None if it is not given."""
        values = self.query.get(name)
        return values[0] if values else None

    def flag(self, name: str) -> bool:
        """Whether a parameter of the query is "true"."""
        return self.text(name).lower() == "true"

    def number(self, name: str, default: int) -> int:
        """Return a parameter of the query that is an integer. Raises RestError: 404, as JAX-RS answers."""
        text = self.optional(name)
        if text is None or text == "":
            return default
        return integer(text)

    def page(self, results: Sequence[T], limit_max: int = INT_MAX) -> Sequence[T]:
        """Return the page of results that the query's `offset` and `limit` select."""
        offset, limit = max(self.number("offset", 0), 0), self.number("limit", -1)
        return results[offset : offset + (limit if 0 < limit <= limit_max else limit_max)]

    def json(self, parameter: str) -> Json:
        """Parse the body as JSON. parameter: the name of the body's parameter in Confluent's registry, for the message.
        Raises RestError."""
        if not self.body.strip():
            raise missing_body(parameter)
        try:
            return loads(self.body)
        except BadJson as error:
            raise bad_request(str(error)) from None

    def answer(self, value: object) -> Answer:
        """Return an answer with a JSON value."""
        return Answer(200, dumps(value), self.media_type)

    def text_answer(self, text: str) -> Answer:
        """Return an answer with a text as it is."""
        return Answer(200, text.encode("utf-8", "replace"), self.media_type)

    def change(self, records: Iterable[Record], value: object) -> Change:
        """Return a change: its records, and the JSON value of the answer once they are replayed."""
        return Change(list(records), self.answer(value))


def integer(text: str) -> int:
    """Parse an integer in a path or query. Raises RestError: 404, as JAX-RS answers."""
    try:
        number = int(text) if text.isascii() and "_" not in text and text == text.strip() else None
    except ValueError:
        number = None
    if number is None or not -INT_MAX - 1 <= number <= INT_MAX:
        raise not_found()
    return number


def version_id(text: str) -> int:
    """Return the version in a path; LATEST for "latest". Raises RestError: 42202."""
    text = text.strip()
    if text.lower() == "latest":
        return LATEST
    try:
        number = int(text) if text.isascii() and "_" not in text else 0
    except ValueError:
        raise invalid_version(text) from None
    if number > INT_MAX or (number <= 0 and number != LATEST):
        raise invalid_version(text)
    return number
