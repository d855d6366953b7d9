"""Names of topics: which are legal, which are taken, which are Kafka's own.

A partition's directory is named after its topic, so a name is at most 249 of `a-z A-Z 0-9 . _ -`, and neither `.` nor
`..`. Metrics turn `.` into `_`, so names that differ only there collide. Source: Topic, ReplicationControlManager.
"""

from __future__ import annotations

import string
from collections.abc import Iterable
from typing import Final

CLUSTER_METADATA: Final = "__cluster_metadata"
LENGTH_MAX: Final = 249
LEGAL: Final = frozenset(string.ascii_letters + string.digits + "._-")
"""The characters of a name."""


def fault(name: str) -> str | None:
    """What is wrong with a name, as Kafka says it; None for a legal one."""
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
    """As Java counts characters."""
    return len(text) + sum(character > "\uffff" for character in text)


def colliding(name: str, names: Iterable[str]) -> str | None:
    """One of `names` that differs from this name only by `.` against `_`, or not at all."""
    if "." not in name and "_" not in name:
        return None
    unified = name.replace(".", "_")
    length = len(name)
    return next((each for each in names if len(each) == length and each.replace(".", "_") == unified), None)
