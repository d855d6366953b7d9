"""Values of the topics' records, read with care: anyone may write to a topic."""

from __future__ import annotations

from typing import Any

from kcli.service.json_text import BadJson, dumps, loads

Record = tuple[bytes, bytes | None]
"""A key and a value; None for a tombstone."""


def record(key: str, value: object) -> Record:
    """Return the record of a key; a value of None is a tombstone."""
    return key.encode(), None if value is None else dumps(value)


def object_of(value: bytes | None) -> dict[str, Any] | None:
    """Return the JSON object of a value; None if it is something else."""
    if value is None:
        return None
    try:
        found = loads(value)
    except BadJson:
        return None
    return found if isinstance(found, dict) else None


def texts_of(found: object) -> dict[str, str | None] | None:
    """Return a map of texts; None if it is something else, such as a map with lists. A number stands as its text."""
    if not isinstance(found, dict) or any(isinstance(each, dict | list) for each in found.values()):
        return None
    return {name: value if value is None else _text(value) for name, value in found.items()}


def _text(value: object) -> str:
    return value if isinstance(value, str) else dumps(value).decode()
