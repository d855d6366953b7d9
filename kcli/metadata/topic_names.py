"""Validation of topic names, and collisions between them.

A partition's directory is named after its topic, so a name has at most 249 characters of `a-z A-Z 0-9 . _ -`, and is
neither `.` nor `..`. Metrics replace `.` by `_`, so names that differ only in these collide. Source: Topic,
ReplicationControlManager.
"""

from __future__ import annotations

import string
from collections.abc import Iterable
from typing import Final

CLUSTER_METADATA: Final = "__cluster_metadata"
LENGTH_MAX: Final = 249
LEGAL: Final = frozenset(string.ascii_letters + string.digits + "._-")
"""The characters that a topic name may have."""


def fault(name: str) -> str | None:
    """Return why a topic name is invalid, in Kafka's words; None for a valid one."""
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif utf16_length(name) > LENGTH_MAX:
        reason = f"the length of '{name}' is longer than the max allowed length {LENGTH_MAX}"
    elif not LEGAL.issuperset(name):
        reason = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return None
    return f"Topic name is invalid: {reason}"


def utf16_length(text: str) -> int:
    """Return the length of the text as Java's String.length counts it: in UTF-16 code units."""
    return len(text) + sum(character > "\uffff" for character in text)


def colliding(name: str, names: Iterable[str]) -> str | None:
    """Return one of `names` that equals `name` once `.` is replaced by `_` in both. Returns None if there is none, or
    if `name` has neither character."""
    if "." not in name and "_" not in name:
        return None
    unified = name.replace(".", "_")
    length = len(name)
    return next((each for each in names if len(each) == length and each.replace(".", "_") == unified), None)
