"""Versions of plug-ins as a configuration asks for them: `connector.plugin.version=[4.0,5)`. KIP-891.

    4.3.0           this one; 4.3 and 4.3.0-ga are the same version
    [4.3.0]         the same
    [4.0,5), (,9)   from one to another, with [ or without ( the bound itself
    (,1],[1.2,)     any of several ranges, in their order
    latest          any

Versions are compared as Maven's: numbers by value, `alpha` < `beta` < `milestone` < `rc` < `snapshot` < none < `sp` <
other words. Source: PluginUtils.connectorVersionRequirement, Maven's VersionRange and ComparableVersion.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from kcli.connect.config.config_def import ConfigError

LATEST: Final = "latest"
QUALIFIERS: Final = ("alpha", "beta", "milestone", "rc", "snapshot", "", "sp")
ALIASES: Final = {"ga": "", "final": "", "release": "", "cr": "rc"}
SHORT: Final = {"a": "alpha", "b": "beta", "m": "milestone"}
"""What a letter directly before a number stands for."""
_TOKEN: Final = re.compile(r"([.-]?)([0-9]+|[^0-9.-]+|)")
_Part = tuple[int, int, str]
"""Kinds of parts in the order in which they follow each other, then the number or the rank, then an unknown word."""
_NONE: Final[_Part] = (1, QUALIFIERS.index(""), "")


def _parts(version: str) -> list[_Part]:
    """Return the parts of a version, without those at the end, or before a word, that say nothing."""
    found: list[_Part] = []
    tokens = [match.groups() for match in _TOKEN.finditer(version.lower()) if match[0]]
    for at, (separator, token) in enumerate(tokens):
        if token.isdigit():
            follows_word = bool(found) and found[-1][0] == 1
            number = int(token)
            found.append((2 if separator == "-" or (follows_word and separator != ".") else 3, number, ""))
            continue
        is_short = at + 1 < len(tokens) and tokens[at + 1][0] == "" and tokens[at + 1][1].isdigit()
        word = SHORT.get(token, token) if is_short else token
        word = ALIASES.get(word, word)
        found = _trimmed(found)
        found.append((1, QUALIFIERS.index(word), "") if word in QUALIFIERS else (1, len(QUALIFIERS), word))
    return _trimmed(found)


def _trimmed(parts: list[_Part]) -> list[_Part]:
    while parts and (parts[-1] == _NONE or (parts[-1][0] > 1 and not parts[-1][1])):
        parts.pop()
    return parts


def compared(one: str, other: str) -> int:
    """Return a number below, of or above 0, as a version is older than another, the same or newer."""
    first, second = _parts(one), _parts(other)
    for at in range(max(len(first), len(second))):
        left = first[at] if at < len(first) else _missing(second[at])
        right = second[at] if at < len(second) else _missing(first[at])
        if left != right:
            return -1 if left < right else 1
    return 0


def _missing(part: _Part) -> _Part:
    return _NONE if part[0] == 1 else (part[0], 0, "")


class Range(NamedTuple):
    """Versions between two bounds; None for one that is not there."""

    lower: str | None
    upper: str | None
    has_lower: bool
    has_upper: bool

    def __contains__(self, version: object) -> bool:
        below = -1 if self.lower is None else compared(self.lower, str(version))
        above = 1 if self.upper is None else compared(self.upper, str(version))
        return (below < 0 or (below == 0 and self.has_lower)) and (above > 0 or (above == 0 and self.has_upper))

    def __str__(self) -> str:
        return f"{'(['[self.has_lower]}{self.lower or ''},{self.upper or ''}{')]'[self.has_upper]}"


class Ranges(NamedTuple):
    """The versions that a configuration asks for."""

    ranges: Sequence[Range]

    def refusal(self, plugin: str, versions: Iterable[str]) -> str | None:
        """Return what is wrong where a plug-in has none of these versions."""
        known = list(versions)
        if any(version in each for version in known for each in self.ranges):
            return None
        asked = ",".join(map(str, self.ranges))
        listed = ", ".join(known)
        return f"Plugin {plugin} not found that matches the version range {asked}, available versions: [{listed}]"


def required(text: str | None) -> Ranges | None:
    """Return the versions that a text asks for; None for any. Raises ConfigError."""
    if text is None or text == LATEST:
        return None
    text = text.strip()
    return _ranges(text if text.startswith(("[", "(")) else f"[{text}]")


def _ranges(text: str) -> Ranges:
    found: list[Range] = []
    rest = text
    while rest.startswith(("[", "(")):
        end = min((at for mark in ")]" if (at := rest.find(mark)) >= 0), default=-1)
        if end < 0:
            raise ConfigError(f"Unbounded range: {text}")
        each = _range(rest[: end + 1])
        before = found[-1].upper if found else None
        if before is not None and (each.lower is None or compared(each.lower, before) < 0):
            raise ConfigError(f"Ranges overlap: {text}")
        found.append(each)
        rest = rest[end + 1 :].strip().removeprefix(",").strip()
    if rest:
        raise ConfigError(f"Only fully-qualified sets allowed in multiple set scenario: {text}")
    return Ranges(found)


def _range(text: str) -> Range:
    has_lower, has_upper = text.startswith("["), text.endswith("]")
    first, comma, second = (each.strip() for each in text[1:-1].partition(","))
    if not comma:
        if not (has_lower and has_upper):
            raise ConfigError(f"Single version must be surrounded by []: {text}")
        return Range(first, first, has_lower, has_upper)
    if first and second:
        order = compared(second, first)
        if order < 0 or (order == 0 and not (has_lower and has_upper)):
            raise ConfigError(f"Range defies version ordering: {text}")
    return Range(first or None, second or None, has_lower, has_upper)
