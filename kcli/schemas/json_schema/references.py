"""Where a `$ref` leads: JSON pointers within a document."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, TypeAlias

from kcli.schemas.json_schema.text import Json, refuse
from kcli.schemas.json_schema.uris import parse_uri, resolve

JsonObject: TypeAlias = "dict[str, Json]"

_BUCKETS: Final = ("definitions", "$defs")
_PERCENT: Final = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_INDEX: Final = re.compile(r"[+]?\d{1,9}\Z", re.ASCII)


def with_definitions(document: Json) -> Json:
    """Return the document with its `definitions` copied to `$defs`, so that a reference may name either. Existing
    entries of `$defs` are kept."""
    if not isinstance(document, dict):
        return document
    definitions, defs = (document.get(key) for key in _BUCKETS)
    if not isinstance(definitions, dict) or not definitions or ("$defs" in document and not isinstance(defs, dict)):
        return document
    return {**document, "$defs": {**definitions, **(defs if isinstance(defs, dict) else {})}}


def tokens_of(pointer: str, *, keep_empty_end: bool) -> list[str]:
    """Return the keys of a fragment that is a JSON pointer, such as "#/a/b". Raises InvalidSchema.

    keep_empty_end: whether an empty key at the end counts, as in "#/a/"; Java's split drops it.
    """
    parts = pointer.split("/")
    while len(parts) > 1 and not parts[-1] and not keep_empty_end:
        parts.pop()
    return [_unescaped(each) for each in parts[1:]]


def follow(
    document: Json, tokens: Sequence[str], base: str | None, id_keyword: str, where: str
) -> tuple[Json, str | None]:
    """Return the value that the keys of a pointer lead to, and its base URI.

    base: the document's base URI, its own id included. Raises InvalidSchema.
    """
    value = document
    for token in tokens:
        if isinstance(value, dict) and token in value:
            value = value[token]
        elif isinstance(value, list) and _INDEX.match(token) and int(token) < len(value):
            value = value[int(token)]
        else:
            refuse(where, f"the $ref leads to {token!r}, which is not in the schema")
        base = base_of(value, base, id_keyword, where)
    return value, base


def base_of(value: Json, base: str | None, id_keyword: str, where: str) -> str | None:
    """Return the base URI within a value: its id, resolved. Raises InvalidSchema."""
    own = value.get(id_keyword) if isinstance(value, dict) else None
    return resolved(base, own, where) if isinstance(own, str) else base


def resolved(base: str | None, reference: str, where: str) -> str:
    """Return the URI of a reference, resolved against `base`. Raises InvalidSchema."""
    try:
        uri = resolve(base, reference)
        parse_uri(uri)
    except ValueError as error:
        refuse(where, str(error))
    return uri


def _unescaped(token: str) -> str:
    text = _PERCENT.sub(
        lambda match: bytes.fromhex(match[0].replace("%", "")).decode("utf-8", "replace"), token.replace("+", " ")
    )
    return text.replace("~1", "/").replace("~0", "~")
