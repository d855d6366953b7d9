"""Which names of types, fields and symbols are allowed.

In a new schema, all names, namespaces and aliases of types consist of ASCII letters, digits and `_`. In a stored
schema, names may have any letters and digits of Unicode, and namespaces and aliases any text.

Source: Avro specification 1.12, "Names"; the names that Confluent's registry refuses.
"""

from __future__ import annotations

import re
from typing import Final
from unicodedata import category

from kcli.schemas.avro.json_text import refused
from kcli.schemas.avro.types import Array, Enum, Fixed, Map, Record, Schema, Union
from kcli.schemas.schema import InvalidSchema

_STRICT_INITIAL: Final = re.compile(r"[A-Za-z_]")


def check_strict(name: str | None) -> None:
    """Check a name of a new schema. Raises InvalidSchema."""
    if name is None or not _is_strict(name):
        raise refused(_reason(name, is_initial=bool(name and _STRICT_INITIAL.match(name))))


def check_part(part: str, kind: str) -> None:
    """Check a part of a full name of a new schema. kind: the word for the part in the error's message. Raises
    InvalidSchema."""
    try:
        check_strict(part)
    except InvalidSchema as error:
        raise refused(f'{kind} "{part}" is invalid: {error}') from None


def check_reachable(schema: Schema) -> None:
    """Check the names, fields and symbols of all types that a schema contains. Raises InvalidSchema."""
    stack = [schema]
    seen: set[int] = set()
    while stack:
        each = stack.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        match each:
            case Record():
                _check(each.name.simple)
                for name in each.fields:
                    _check(name)
                stack += [field.schema for field in reversed(each.fields.values())]
            case Enum():
                _check(each.name.simple)
                for symbol in each.symbols:
                    _check(symbol)
            case Fixed():
                _check(each.name.simple)
            case Array():
                stack.append(each.items)
            case Map():
                stack.append(each.values)
            case Union():
                stack += reversed(each.branches)


def _check(name: str | None) -> None:
    if name is not None and _is_strict(name):
        return
    is_initial = bool(name and _is_letter(name[0]))
    if name is None or not is_initial or not all(_is_letter(c) or _is_digit(c) for c in name[1:]):
        raise refused(_reason(name, is_initial=is_initial))


def _is_strict(name: str) -> bool:
    return name.isascii() and name.isidentifier()


def _is_letter(character: str) -> bool:
    """Return whether a character is a letter for Java, which knows only letters of the Basic Multilingual Plane
    here."""
    return character == "_" or (character <= "\uffff" and category(character)[0] == "L")


def _is_digit(character: str) -> bool:
    return character <= "\uffff" and category(character) == "Nd"


def _reason(name: str | None, *, is_initial: bool) -> str:
    if name is None:
        return "Null name"
    if not name:
        return "Empty name"
    return f"Illegal character in: {name}" if is_initial else f"Illegal initial character: {name}"
