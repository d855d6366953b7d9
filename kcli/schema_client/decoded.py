"""A decoded key or value as text, or the reason why it does not decode."""

from __future__ import annotations

import json
from typing import NamedTuple

from kcli.printable import printable_json, shown


class Decoded(NamedTuple):
    """A key or value. text: its JSON on one line, without hidden characters; None if it does not decode. schema: the
    schema id or GUID in its bytes or header, None if there is none. reason: why it does not decode; None if it does, or
    is null."""

    text: str | None
    schema: int | str | None
    reason: str | None

    def as_key(self) -> Decoded:
        """Return this key without the reason if its bytes have no schema id: most keys are plain text."""
        return self._replace(reason=None) if self.schema is None else self


NULL = Decoded(None, None, None)


def decoded_json(key: Decoded, value: Decoded) -> str:
    """Return key and value as the text of a JSON object: {"key": ..., "key_schema": id, "value": ..., ...}; a key or
    value that does not decode is null, and "key_error" or "value_error" has the reason."""
    parts = []
    for name, found in (("key", key), ("value", value)):
        parts.append(f'"{name}":{"null" if found.text is None else found.text}')
        if found.schema is not None:
            parts.append(f'"{name}_schema":{json.dumps(found.schema)}')
        if found.reason is not None:
            parts.append(f'"{name}_error":{printable_json(json.dumps(found.reason, ensure_ascii=False))}')
    return "{" + ",".join(parts) + "}"


def text_of(data: bytes | None, found: Decoded, fold: int) -> str:
    """Return the text of a key or value in a table: its JSON, or its bytes and the reason why they do not decode. fold:
    the maximum number of bytes or characters, -1 for all."""
    if found.text is not None:
        return _folded(found.text, fold)
    plain = shown(data, fold)
    return plain if found.reason is None else f"{plain} ({found.reason})"


def _folded(text: str, fold: int) -> str:
    """Return JSON text for a terminal. fold: the maximum number of characters shown, -1 for all."""
    return text if fold < 0 or len(text) <= fold else f"{text[:fold]}... ({len(text.encode()):,} B)"
