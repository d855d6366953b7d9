"""The differences that a comparison finds, and the messages of Confluent's registry for them.

A difference is stored with its path within the two schemas that were compared. The differences of two inner schemas are
stored once, however many references lead to them. So all differences are a graph, from which the messages are written
at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from kcli.schemas.parsed import Incompatibility

REPORTED_MAX: Final = 10_000
"""How many incompatibilities are reported at most."""
REPORTED_LENGTH_MAX: Final = 4 << 20
"""The greatest total length of the paths of reported incompatibilities, in characters."""

_Entry: TypeAlias = "tuple[str, str | Differences]"


@dataclass(eq=False)
class Differences:
    """The incompatible differences of two schemas. An entry has a path within them, and a kind, or the Differences of
    the schemas at that path."""

    entries: list[_Entry] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.entries)

    def add(self, path: str, found: str | Differences) -> None:
        """Add a kind, or the Differences of the schemas at a path unless they are empty."""
        if found:
            self.entries.append((path, found))

    def incompatibilities(self) -> list[Incompatibility]:
        """Return the differences with their paths from the root, at most REPORTED_MAX."""
        reported: list[Incompatibility] = []
        length = 0
        stack = [iter(self.entries)]
        segments = [""]
        while stack and len(reported) < REPORTED_MAX and length < REPORTED_LENGTH_MAX:
            entry = next(stack[-1], None)
            if entry is None:
                stack.pop()
                segments.pop()
                continue
            segment, found = entry
            if isinstance(found, Differences):
                stack.append(iter(found.entries))
                segments.append(segment)
            else:
                path = "#/" + "/".join(filter(None, [*segments, segment]))
                reported.append(_incompatibility(found, path))
                length += len(path)
        return reported


_KEYWORD: Final = "The keyword at path '{}' in the %s schema is not present in the %s schema"
_MORE: Final = "The value at path '{}' in the %s schema is more than its value in the %s schema"
_LESS: Final = "The value at path '{}' in the %s schema is less than its value in the %s schema"
_VALUE: Final = "The value at path '{}' is different between the %s and %s schema"
_FEWER_ELEMENTS: Final = "An array or combined type at path '{}' has fewer elements in the %s schema than the %s schema"
_MORE_ELEMENTS: Final = "An array or combined type at path '{}' has more elements in the %s schema than the %s schema"
_TYPE: Final = "A type at path '{}' is different between the %s schema and the %s schema"
_OPEN: Final = (
    "The %s schema has an open content model and has a property or item at path '{}' which is missing in the %s schema"
)
_CLOSED: Final = (
    "The %s has a closed content model and is missing a property or item present at path '{}' in the %s schema"
)
_REMOVED: Final = (
    "A property or item is missing in the %s schema but present at path '{}' in the %s schema and is not covered by "
    "its partially open content model"
)
_ADDED: Final = (
    "The %s schema has a property or item at path '{}' which is missing in the %s schema and is not covered by its "
    "partially open content model"
)
_UNOPEN: Final = (
    "The %s schema has an unopen content model and has a required property at path '{}' which is missing in the %s "
    "schema"
)

KINDS: Final = {
    "SCHEMA_ADDED": "",
    "TYPE_CHANGED": _TYPE,
    "TYPE_NARROWED": _TYPE,
    "MAX_LENGTH_ADDED": _KEYWORD,
    "MAX_LENGTH_DECREASED": _LESS,
    "MIN_LENGTH_ADDED": _KEYWORD,
    "MIN_LENGTH_INCREASED": _MORE,
    "PATTERN_ADDED": _KEYWORD,
    "PATTERN_CHANGED": _VALUE,
    "MAXIMUM_ADDED": _KEYWORD,
    "MAXIMUM_DECREASED": _LESS,
    "MINIMUM_ADDED": _KEYWORD,
    "MINIMUM_INCREASED": _MORE,
    "EXCLUSIVE_MAXIMUM_ADDED": _KEYWORD,
    "EXCLUSIVE_MAXIMUM_DECREASED": _LESS,
    "EXCLUSIVE_MINIMUM_ADDED": _KEYWORD,
    "EXCLUSIVE_MINIMUM_INCREASED": _MORE,
    "MULTIPLE_OF_ADDED": _KEYWORD,
    "MULTIPLE_OF_EXPANDED": _MORE,
    "MULTIPLE_OF_CHANGED": _VALUE,
    "REQUIRED_ATTRIBUTE_ADDED": _KEYWORD,
    "MAX_PROPERTIES_ADDED": _KEYWORD,
    "MAX_PROPERTIES_DECREASED": _LESS,
    "MIN_PROPERTIES_ADDED": _KEYWORD,
    "MIN_PROPERTIES_INCREASED": _MORE,
    "ADDITIONAL_PROPERTIES_REMOVED": _KEYWORD,
    "ADDITIONAL_PROPERTIES_NARROWED": _FEWER_ELEMENTS,
    "UNEVALUATED_PROPERTIES_REMOVED": _KEYWORD,
    "UNEVALUATED_PROPERTIES_NARROWED": _FEWER_ELEMENTS,
    "DEPENDENCY_ARRAY_ADDED": _KEYWORD,
    "DEPENDENCY_ARRAY_EXTENDED": _MORE_ELEMENTS,
    "DEPENDENCY_ARRAY_CHANGED": _VALUE,
    "DEPENDENCY_SCHEMA_ADDED": _KEYWORD,
    "REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL": _OPEN,
    "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL": _OPEN,
    "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL": _OPEN,
    "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL": _UNOPEN,
    "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL": _CLOSED,
    "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _REMOVED,
    "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _ADDED,
    "MAX_ITEMS_ADDED": _KEYWORD,
    "MAX_ITEMS_DECREASED": _LESS,
    "MIN_ITEMS_ADDED": _KEYWORD,
    "MIN_ITEMS_INCREASED": _MORE,
    "MAX_CONTAINS_ADDED": _KEYWORD,
    "MAX_CONTAINS_DECREASED": _LESS,
    "MIN_CONTAINS_ADDED": _KEYWORD,
    "MIN_CONTAINS_INCREASED": _MORE,
    "UNIQUE_ITEMS_ADDED": _KEYWORD,
    "ADDITIONAL_ITEMS_REMOVED": _KEYWORD,
    "ADDITIONAL_ITEMS_NARROWED": _FEWER_ELEMENTS,
    "UNEVALUATED_ITEMS_REMOVED": _KEYWORD,
    "UNEVALUATED_ITEMS_NARROWED": _FEWER_ELEMENTS,
    "ITEM_ADDED_TO_OPEN_CONTENT_MODEL": _OPEN,
    "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL": _CLOSED,
    "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _REMOVED,
    "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _ADDED,
    "ENUM_ARRAY_NARROWED": _FEWER_ELEMENTS,
    "ENUM_ARRAY_CHANGED": _TYPE,
    "COMBINED_TYPE_CHANGED": _TYPE,
    "COMBINED_TYPE_SUBSCHEMAS_CHANGED": _TYPE,
    "PRODUCT_TYPE_EXTENDED": _MORE_ELEMENTS,
    "SUM_TYPE_NARROWED": _FEWER_ELEMENTS,
    "NOT_TYPE_EXTENDED": _MORE_ELEMENTS,
}
"""The kinds of incompatible differences, each with its message: {} is the path, the first %s the reader ("new"), the
second the writer."""

LENIENT: Final = frozenset(
    (
        "ADDITIONAL_PROPERTIES_NARROWED",
        "ADDITIONAL_PROPERTIES_REMOVED",
        "UNEVALUATED_PROPERTIES_NARROWED",
        "UNEVALUATED_PROPERTIES_REMOVED",
        "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL",
        "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",
        "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL",
        "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    )
)
"""The kinds of differences that the lenient policy accepts."""


def _incompatibility(kind: str, path: str) -> Incompatibility:
    text = KINDS[kind].replace("{}", path)
    return Incompatibility(kind, path, f'{{errorType:"{kind}", description:"{text}\'}}')
