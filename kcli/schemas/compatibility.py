"""The levels of compatibility: which versions a new schema is compared with, and in which direction.

    NONE                 with none
    BACKWARD             the new schema reads what the latest version has written
    FORWARD              the latest version reads what the new schema writes
    FULL                 both
    ..._TRANSITIVE       with all versions, from the latest on, until one is incompatible

Source: the levels and the messages of Confluent's Schema Registry, which its clients show.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final

from kcli.schemas.parsed import ParsedSchema

SHOWN_MAX: Final = 10 * 1024
"""The greatest length of an older version's text in a message, in UTF-16 code units."""
_SIDE: Final = re.compile("%s")
_OLD: Final = "old"
_NEW: Final = "new"


class Level(StrEnum):
    """A compatibility level of a subject."""

    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"
    NONE = "NONE"

    @property
    def is_transitive(self) -> bool:
        """Whether a new schema is compared with all versions, not only with the latest."""
        return self.endswith("_TRANSITIVE")

    @property
    def is_backward(self) -> bool:
        """Whether the new schema must be able to read data of older ones."""
        return self.startswith(("BACKWARD", "FULL"))

    @property
    def is_forward(self) -> bool:
        """Whether older schemas must be able to read data of the new one."""
        return self.startswith(("FORWARD", "FULL"))


def check(
    level: Level,
    new: ParsedSchema,
    versions: Sequence[tuple[int | None, ParsedSchema]],
    *,
    validate_fields: bool = False,
    messages: Sequence[str] = (),
) -> list[str]:
    """Return why a schema is incompatible with versions of its subject, as messages of Confluent's registry; an empty
    list if it is compatible.

    versions: the older schemas, oldest first, with their version numbers; None for a number that messages must not
    show. validate_fields: whether the subject's configuration has `validateFields`. messages: the findings of that
    check, which come first in the result.
    """
    found = [*messages, *differences(level, new, versions)]
    if found:
        found.append(f"{{validateFields: '{str(validate_fields).lower()}', compatibility: '{level}'}}")
    return found


def differences(level: Level, new: ParsedSchema, versions: Sequence[tuple[int | None, ParsedSchema]]) -> list[str]:
    """Return the messages of `check` about differences, without the last line."""
    if level is Level.NONE:
        return []
    for number, old in reversed(versions if level.is_transitive else versions[-1:]):
        found = list(_between(level, new, number, old))
        if found:
            return found
    return []


def _between(level: Level, new: ParsedSchema, number: int | None, old: ParsedSchema) -> Iterator[str]:
    if type(new) is not type(old):
        yield "Incompatible because of different schema type"
        return
    if not level.is_forward:
        yield from _described(_reads(new, old, _NEW, _OLD), number, old)
    elif not level.is_backward:
        yield from _described(_reads(old, new, _OLD, _NEW), number, old)
    else:
        yield from _reads(old, new, _OLD, _NEW)
        yield from _described(_reads(new, old, _NEW, _OLD), number, old)


def _reads(reader: ParsedSchema, writer: ParsedSchema, *sides: str) -> list[str]:
    """Return why a reader cannot read a writer's data. sides: the names of the reader's and the writer's schema in
    messages."""
    return [_with_sides(each.text, *sides) for each in reader.incompatibilities(writer)]


def _with_sides(text: str, *sides: str) -> str:
    """Return a message with the names of the sides in place of its first two `%s`. Later ones are left, as a name in
    the message may contain `%s`."""
    names = iter(sides)
    return _SIDE.sub(lambda _: next(names), text, count=len(sides))


def _described(messages: Sequence[str], number: int | None, old: ParsedSchema) -> Iterator[str]:
    """Yield the messages and, if there are any, a line that describes the older schema."""
    yield from messages
    if not messages:
        return
    if number is not None:
        yield f"{{oldSchemaVersion: {number}}}"
    text = old.canonical
    start = text.encode("utf-16-le")[: 2 * SHOWN_MAX].decode("utf-16-le", "ignore")
    yield f"{{oldSchema: '{text}'}}" if start == text else f"{{oldSchema: <truncated> '{start}...'}}"
