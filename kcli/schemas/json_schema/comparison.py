"""Which differences of two schemas make data of the old one invalid for the new one, by Confluent's rules.

Two schemas of one type are compared keyword by keyword; two of different types are incompatible, unless the old one is
false or the new one {} or true. Whether a property may be added or removed depends on the properties that are allowed
beside the named ones; the same holds for items:

    content model    additionalProperties, unevaluatedProperties         a property may be
    open             true, or neither given                              removed; added only as {} or true
    closed           false                                               added; removed only if it was false
    partially open   a schema, or patternProperties                      as the schema for it allows

The schemas of an anyOf, oneOf or allOf are matched: each one of the smaller side needs a compatible one of its own on
the other side. A `$ref` is followed once: if both lead to another `$ref`, they count as equal.

Schemas refer to themselves, and to one another, so pairs of schemas are compared once. A pair within itself counts as
compatible; if it turns out that it is not, all is compared again with this known, until nothing new is learned.
The comparison keeps its own stack. Source: JSON Schema; Confluent's documentation of compatibility for JSON Schema.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from decimal import Context, Decimal
from typing import Final, TypeAlias

from kcli.java.hashing import hash_map_order, hash_order, java_hash, map_size, set_size
from kcli.schemas.json_schema import model
from kcli.schemas.json_schema.differences import LENIENT, Differences
from kcli.schemas.json_schema.loading import as_double
from kcli.schemas.json_schema.matching import largest_matching
from kcli.schemas.json_schema.model import Node, value_key
from kcli.schemas.json_schema.patterns import found_in
from kcli.schemas.json_schema.shapes import Shapes
from kcli.schemas.schema import InvalidSchema

COMPARISONS_MAX: Final = 100_000
"""The greatest number of comparisons of pairs of schemas, including repeated ones."""

_Pair: TypeAlias = "tuple[int, int]"
_Steps: TypeAlias = "Generator[tuple[Node, Node], Differences, Differences]"
_Part: TypeAlias = "Generator[tuple[Node, Node], Differences, None]"
_Container: TypeAlias = "model.Object | model.Array"
_LEAVES: Final = frozenset(
    (
        model.Text,
        model.Number,
        model.Boolean,
        model.Null,
        model.Constant,
        model.Enumeration,
        model.Anything,
        model.Nothing,
    )
)
"""The nodes without schemas within them."""
_NONE: Final = Differences()
_DIVISION: Final = Context(prec=2000, traps=[])


def compare(old: Node, new: Node, *, is_lenient: bool = False) -> Differences:
    """Return the incompatible differences of a new schema, the reader's, to an old one, the writer's.

    is_lenient: whether the compatibility policy is LENIENT. Raises InvalidSchema if they have too many pairs of schemas
    to compare.
    """
    return _Comparison(is_lenient).run(old, new)


class _Comparison:
    def __init__(self, is_lenient: bool) -> None:
        self.ignored = LENIENT if is_lenient else frozenset()
        self.shapes = Shapes()
        self.count = 0

    def run(self, old: Node, new: Node) -> Differences:
        """Compare the schemas again and again, until no pair within itself was wrongly taken for compatible."""
        incompatible: dict[_Pair, Differences] = {}
        while True:
            known, assumed = self._pass(old, new, incompatible)
            found = {pair: differences for pair, differences in known.items() if differences}
            if not assumed or found.keys() == incompatible.keys():
                return known[_pair(_referred(old), _referred(new))]
            incompatible = found

    def _pass(
        self, old: Node, new: Node, incompatible: Mapping[_Pair, Differences]
    ) -> tuple[dict[_Pair, Differences], bool]:
        """Compare two schemas and all within them. Return the differences of each pair, and whether a pair within
        itself was wrongly taken for compatible."""
        known: dict[_Pair, Differences] = {}
        assumed = False
        old, new = _referred(old), _referred(new)
        pair = _pair(old, new)
        stack = [(pair, self._steps(old, new))]
        active = {pair}
        answer: Differences | None = None
        while stack:
            pair, steps = stack[-1]
            try:
                old, new = next(steps) if answer is None else steps.send(answer)
            except StopIteration as stop:
                answer = known[pair] = stop.value
                active.remove(pair)
                stack.pop()
                continue
            old, new = _referred(old), _referred(new)
            pair = _pair(old, new)
            answer = known.get(pair)
            if answer is None and pair in active:
                answer = incompatible.get(pair)
                if answer is None:
                    answer = Differences()
                    assumed = True
            if answer is None and type(old) in _LEAVES and (type(old) is type(new) or type(new) in _LEAVES):
                answer = self._leaves(old, new)
                if answer:
                    known[pair] = answer
            if answer is None:
                active.add(pair)
                stack.append((pair, self._steps(old, new)))
        return known, assumed

    def _count(self) -> None:
        self.count += 1
        if self.count > COMPARISONS_MAX:
            raise InvalidSchema(f"more than {COMPARISONS_MAX:,} pairs of schemas would have to be compared")

    def _leaves(self, old: Node, new: Node) -> Differences:
        """Compare two schemas that contain no schemas."""
        self._count()
        if type(old) is type(new) and not isinstance(
            old, model.Text | model.Number | model.Constant | model.Enumeration
        ):
            return _NONE
        found = Differences()
        if type(old) is not type(new):
            if not _allows_other_types(old, new):
                found.add("", "TYPE_CHANGED")
            return found
        match old, new:
            case model.Text(), model.Text():
                _texts(old, new, found)
            case model.Number(), model.Number():
                _numbers(old, new, found)
            case model.Constant(), model.Constant():
                _constants(old, new, found)
            case model.Enumeration(), model.Enumeration():
                _enumerations(old, new, found)
        return found

    def _steps(self, old: Node, new: Node) -> _Steps:
        """Compare two schemas. This generator yields each pair of schemas within them, is sent the differences of the
        pair, and returns the differences of the two."""
        self._count()
        found = Differences()
        if isinstance(new, model.Combined) != isinstance(old, model.Combined) and (yield from _is_part(old, new)):
            return found
        if type(old) is not type(new) or type(old) in _LEAVES:
            return self._leaves(old, new)
        match old, new:
            case model.Combined(), model.Combined():
                yield from self._combined(old, new, found)
            case model.Negation(), model.Negation():
                if (yield new.negated, old.negated):
                    found.add("not", "NOT_TYPE_EXTENDED")
            case model.Object(), model.Object():
                yield from self._objects(old, new, found)
            case model.Array(), model.Array():
                yield from self._arrays(old, new, found)
        return found

    def _add(self, found: Differences, path: str, kind: str) -> None:
        if kind not in self.ignored:
            found.add(path, kind)

    def _combined(self, old: model.Combined, new: model.Combined, found: Differences) -> _Part:
        if not _widens(old, new):
            found.add("", "COMBINED_TYPE_CHANGED")
            return
        before, after = self.shapes.distinct(old.parts), self.shapes.distinct(new.parts)
        if len(before) < len(after) and new.criterion == "allOf":
            found.add("", "PRODUCT_TYPE_EXTENDED")
        elif len(before) > len(after) and old.criterion != "allOf":
            found.add("", "SUM_TYPE_NARROWED")
        edges: list[list[int]] = []
        for each in before:
            partners: list[int] = []
            for index, other in enumerate(after):
                if not (yield each, other):
                    partners.append(index)
            edges.append(partners)
        if largest_matching(edges, len(after)) < min(len(before), len(after)):
            found.add("", "COMBINED_TYPE_SUBSCHEMAS_CHANGED")

    def _objects(self, old: model.Object, new: model.Object, found: Differences) -> _Part:
        required_before, required = set(old.required), set(new.required)
        added = [
            name
            for name in required - required_before
            if name in old.properties and name in new.properties and not new.properties[name].has_default
        ]
        for name in _in_order(added, old.properties):
            found.add(f"required/{name}", "REQUIRED_ATTRIBUTE_ADDED")
        yield from self._properties(old, new, found)
        yield from self._dependencies(old, new, found)
        yield from self._others("additionalProperties", "ADDITIONAL_PROPERTIES", old, new, found)
        yield from self._unevaluated("unevaluatedProperties", "UNEVALUATED_PROPERTIES", old, new, found)
        _most("maxProperties", "MAX_PROPERTIES", old.max_properties, new.max_properties, found)
        _least("minProperties", "MIN_PROPERTIES", old.min_properties, new.min_properties, found)

    def _properties(self, old: model.Object, new: model.Object, found: Differences) -> _Part:
        required = set(new.required)
        by_name: dict[str, Differences] = {}
        for name in {**old.properties, **new.properties}:
            differences = Differences()
            if name not in new.properties:
                yield from self._removed_property(name, old.properties[name], new, differences)
            elif name not in old.properties:
                yield from self._added_property(name, new.properties[name], old, name in required, differences)
            else:
                differences = yield old.properties[name], new.properties[name]
            if differences:
                by_name[name] = differences
        for name in _in_order(by_name, old.properties, new.properties):
            found.add(f"properties/{name}", by_name[name])

    def _removed_property(self, name: str, node: Node, new: model.Object, found: Differences) -> _Part:
        if _is_open(new):
            return
        covering = _covering(new, name)
        if covering is None:
            if not isinstance(node, model.Nothing):
                self._add(found, "", "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL")
        elif differences := (yield node, covering):
            found.add("", differences)
            self._add(found, "", "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL")

    def _added_property(self, name: str, node: Node, old: model.Object, required: bool, found: Differences) -> _Part:
        if _is_open(old):
            if isinstance(node, model.Anything):
                return
            if not required:
                self._add(found, "", "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL")
            elif node.has_default:
                self._add(found, "", "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL")
            else:
                self._add(found, "", "REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL")
            return
        covering = _covering(old, name)
        if covering is not None and (differences := (yield covering, node)):
            found.add("", differences)
            self._add(found, "", "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL")
        if required and not node.has_default:
            self._add(found, "", "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL")

    def _dependencies(self, old: model.Object, new: model.Object, found: Differences) -> _Part:
        for name in _in_order(new.needs, old.needs, new.needs):
            before, after = old.needs.get(name), new.needs[name]
            if before is None:
                found.add(f"dependencies/{name}", "DEPENDENCY_ARRAY_ADDED")
            elif before < after:
                found.add(f"dependencies/{name}", "DEPENDENCY_ARRAY_EXTENDED")
            elif not after <= before:
                found.add(f"dependencies/{name}", "DEPENDENCY_ARRAY_CHANGED")
        for name in _in_order(new.dependents, old.dependents, new.dependents):
            if name in old.dependents:
                found.add(f"dependencies/{name}", (yield old.dependents[name], new.dependents[name]))
            else:
                found.add(f"dependencies/{name}", "DEPENDENCY_SCHEMA_ADDED")

    def _others(self, path: str, kind: str, old: _Container, new: _Container, found: Differences) -> _Part:
        """Compare the schemas for properties or items that are not named."""
        if old.allows_additional != new.allows_additional:
            if old.allows_additional:
                self._add(found, path, f"{kind}_REMOVED")
        elif new.additional is not None and old.additional is None:
            self._add(found, path, f"{kind}_NARROWED")
        elif new.additional is not None and old.additional is not None:
            found.add(path, (yield old.additional, new.additional))

    def _unevaluated(self, path: str, kind: str, old: _Container, new: _Container, found: Differences) -> _Part:
        before, after = old.unevaluated, new.unevaluated
        if after is None or (isinstance(before, model.Nothing) and not isinstance(after, model.Nothing)):
            return
        if isinstance(after, model.Nothing) and not isinstance(before, model.Nothing):
            self._add(found, path, f"{kind}_REMOVED")
        elif before is None or (isinstance(before, model.Anything) and not isinstance(after, model.Anything)):
            self._add(found, path, f"{kind}_NARROWED")
        elif not isinstance(after, model.Anything):
            found.add(path, (yield before, after))

    def _arrays(self, old: model.Array, new: model.Array, found: Differences) -> _Part:
        if new.items is not None:
            found.add("items", "SCHEMA_ADDED" if old.items is None else (yield old.items, new.items))
        yield from self._tuples(old, new, found)
        yield from self._others("additionalItems", "ADDITIONAL_ITEMS", old, new, found)
        yield from self._unevaluated("unevaluatedItems", "UNEVALUATED_ITEMS", old, new, found)
        _most("maxItems", "MAX_ITEMS", old.max_items, new.max_items, found)
        _least("minItems", "MIN_ITEMS", old.min_items, new.min_items, found)
        if new.is_unique and not old.is_unique:
            found.add("uniqueItems", "UNIQUE_ITEMS_ADDED")
        _most("maxContains", "MAX_CONTAINS", _count(old.max_contains), _count(new.max_contains), found)
        _least("minContains", "MIN_CONTAINS", _count(old.min_contains), _count(new.min_contains), found)

    def _tuples(self, old: model.Array, new: model.Array, found: Differences) -> _Part:
        both = min(len(old.tuple_items), len(new.tuple_items))
        for index in range(both):
            found.add(f"items/{index}", (yield old.tuple_items[index], new.tuple_items[index]))
        for index in range(both, len(old.tuple_items) if not _is_open(new) else both):
            covering = _covering(new, None)
            if covering is None:
                if not isinstance(old.tuple_items[index], model.Nothing):
                    found.add(f"items/{index}", "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL")
            elif differences := (yield old.tuple_items[index], covering):
                found.add(f"items/{index}", differences)
                found.add(f"items/{index}", "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL")
        for index in range(both, len(new.tuple_items)):
            node, covering = new.tuple_items[index], _covering(old, None)
            if _is_open(old):
                if not isinstance(node, model.Anything):
                    found.add(f"items/{index}", "ITEM_ADDED_TO_OPEN_CONTENT_MODEL")
            elif covering is not None and (differences := (yield covering, node)):
                found.add(f"items/{index}", differences)
                found.add(f"items/{index}", "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL")


def _texts(old: model.Text, new: model.Text, found: Differences) -> None:
    _most("maxLength", "MAX_LENGTH", old.max_length, new.max_length, found)
    _least("minLength", "MIN_LENGTH", old.min_length, new.min_length, found)
    if new.pattern is not None and new.pattern != old.pattern:
        found.add("pattern", "PATTERN_ADDED" if old.pattern is None else "PATTERN_CHANGED")


def _numbers(old: model.Number, new: model.Number, found: Differences) -> None:
    _most("maximum", "MAXIMUM", old.maximum, new.maximum, found)
    _least("minimum", "MINIMUM", old.minimum, new.minimum, found)
    _most("exclusiveMaximum", "EXCLUSIVE_MAXIMUM", old.exclusive_maximum, new.exclusive_maximum, found)
    _least("exclusiveMinimum", "EXCLUSIVE_MINIMUM", old.exclusive_minimum, new.exclusive_minimum, found)
    if new.multiple_of is not None:
        if old.multiple_of is None:
            found.add("multipleOf", "MULTIPLE_OF_ADDED")
        elif old.multiple_of != new.multiple_of:
            if _divides(old.multiple_of, new.multiple_of):
                found.add("multipleOf", "MULTIPLE_OF_EXPANDED")
            elif not _divides(new.multiple_of, old.multiple_of):
                found.add("multipleOf", "MULTIPLE_OF_CHANGED")
    if new.is_integer and not old.is_integer:
        found.add("", "TYPE_NARROWED")


def _enumerations(old: model.Enumeration, new: model.Enumeration, found: Differences) -> None:
    before, after = set(map(value_key, old.values)), set(map(value_key, new.values))
    if not before <= after:
        found.add("enum", "ENUM_ARRAY_NARROWED" if after <= before else "ENUM_ARRAY_CHANGED")


def _constants(old: model.Constant, new: model.Constant, found: Differences) -> None:
    if value_key(old.value) != value_key(new.value):
        found.add("const", "ENUM_ARRAY_CHANGED")


def _is_part(old: Node, new: Node) -> Generator[tuple[Node, Node], Differences, bool]:
    """Return whether one schema of an anyOf or oneOf (`new`) allows the data of the old schema, or whether the new
    schema allows the data of one schema of an allOf (`old`). Only one of the two schemas is combined."""
    if isinstance(new, model.Combined):
        for part in new.parts if new.criterion != "allOf" or len(new.parts) == 1 else ():
            if not (yield old, part):
                return True
    if isinstance(old, model.Combined):
        for part in old.parts if old.criterion == "allOf" or len(old.parts) == 1 else ():
            if not (yield part, new):
                return True
    return False


def _allows_other_types(old: Node, new: Node) -> bool:
    """Return whether schemas of different types are compatible."""
    return (
        isinstance(old, model.Nothing)
        or isinstance(new, model.Anything)
        or (old.is_connect_bytes and new.is_connect_bytes)
    )


def _widens(old: model.Combined, new: model.Combined) -> bool:
    """Return whether the keyword that combines schemas may change from the old one's to the new one's."""
    was_single, is_single = len(old.parts) == 1, len(new.parts) == 1
    return (
        new.criterion in (old.criterion, "anyOf")
        or (was_single and (is_single or new.criterion == "oneOf"))
        or (is_single and old.criterion == "allOf")
    )


def _is_open(node: _Container) -> bool:
    """Return whether an object or array allows any property or item beside the named ones."""
    return (
        node.allows_additional
        and node.additional is None
        and not (isinstance(node, model.Object) and node.patterns)
        and (node.unevaluated is None or isinstance(node.unevaluated, model.Anything))
    )


def _covering(node: _Container, name: str | None) -> Node | None:
    """Return the schema that applies to a property or item without a schema of its own; None if there is none. name:
    the name of the property."""
    if isinstance(node, model.Object) and name is not None:
        for pattern in hash_map_order(node.patterns):
            if found_in(pattern, name):
                return node.patterns[pattern]
    if node.additional is not None or not node.allows_additional:
        return node.additional
    unevaluated = node.unevaluated
    return None if isinstance(unevaluated, model.Nothing | model.Anything) else unevaluated


def _most(path: str, kind: str, old: model.Limit | None, new: model.Limit | None, found: Differences) -> None:
    """Compare two upper limits."""
    if new is not None and old is None:
        found.add(path, f"{kind}_ADDED")
    elif new is not None and old is not None and as_double(new) < as_double(old):
        found.add(path, f"{kind}_DECREASED")


def _least(path: str, kind: str, old: model.Limit | None, new: model.Limit | None, found: Differences) -> None:
    """Compare two lower limits."""
    if new is not None and old is None:
        found.add(path, f"{kind}_ADDED")
    elif new is not None and old is not None and as_double(new) > as_double(old):
        found.add(path, f"{kind}_INCREASED")


def _divides(divisor: model.Limit, number: model.Limit) -> bool:
    """Return whether a number is a multiple of a divisor; False if their magnitudes are too far apart to decide."""
    if not divisor:
        return False
    return _DIVISION.remainder(Decimal(number), Decimal(divisor)) == 0


def _count(limit: model.Limit | None) -> int | None:
    return None if limit is None else int(as_double(limit)) if abs(as_double(limit)) < 2**31 else 2**31 - 1


def _in_order(names: Iterable[str], *maps: Mapping[str, Node] | Mapping[str, frozenset[str]]) -> list[str]:
    """Return names in the order in which Java iterates over the keys of one map, or over a set of the keys of several
    maps."""
    chosen = list(names)
    if len(chosen) < 2:
        return chosen
    keys = list(dict.fromkeys(key for each in maps for key in hash_map_order(each)))
    size = map_size(len(keys), set_size(len(maps[0])) if len(maps) > 1 else map_size(0))
    wanted = set(chosen)
    return [key for key in hash_order(keys, java_hash, size) if key in wanted]


def _referred(node: Node) -> Node:
    return node.target if isinstance(node, model.Reference) else node


def _pair(old: Node, new: Node) -> _Pair:
    return id(old), id(new)
