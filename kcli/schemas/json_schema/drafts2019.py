"""Schemas of drafts 2019-09 and 2020-12: JSON to nodes, as json-sKema's loader and Confluent's translation do it.

Each keyword becomes a node of its type; the nodes of a schema are joined one after the other:

    two nodes of arrays, numbers, objects, texts   one node with the keywords of both
    several types, and a node of one of them       the node of this type has the keywords, too
    others                                         an allOf of them, whose nodes of one type are one

The keywords are joined in the order in which a HashMap iterates over them, properties last; into which nodes they are
joined may depend on this order. Keywords beside `$ref` are not ignored. Source: JSON Schema 2019-09 and 2020-12.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Final, NamedTuple

from kcli.java.hashing import hash_map_order
from kcli.schemas.json_schema import model
from kcli.schemas.json_schema.drafts4to7 import COPIES_MAX
from kcli.schemas.json_schema.loading import (
    Places,
    a_boolean,
    a_number,
    a_pattern,
    a_string,
    an_array,
    an_object,
    is_number,
    kind_of,
    strings,
    wrong,
)
from kcli.schemas.json_schema.model import TYPES, Node
from kcli.schemas.json_schema.references import JsonObject, follow, resolved, tokens_of, with_definitions
from kcli.schemas.json_schema.text import Json, parse_json, refuse
from kcli.schemas.json_schema.uris import without_fragment

ROOT_URI: Final = "UNKNOWN"
"""The base URI of a schema without an id."""
_MAPS: Final = frozenset(("$defs", "allOf", "anyOf", "oneOf", "properties", "patternProperties"))
_KEYWORDS: Final = _MAPS | frozenset((
    "$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$ref", "$schema", "$vocabulary", "minLength", "maxLength",
    "additionalProperties", "title", "description", "readOnly", "writeOnly", "deprecated", "default", "enum", "const",
    "false", "true", "type", "not", "required", "maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum",
    "multipleOf", "uniqueItems", "items", "prefixItems", "contains", "minContains", "maxContains", "if", "then",
    "else", "dependentSchemas", "dependentRequired", "unevaluatedItems", "unevaluatedProperties", "minItems",
    "maxItems", "minProperties", "maxProperties", "propertyNames", "pattern", "format",
))  # fmt: skip
_ANNOTATIONS: Final = frozenset(
    ("title", "description", "$dynamicAnchor", "format", "deprecated", "readOnly", "writeOnly")
)
_NOTES: Final = frozenset(("title", "description", "default"))
_IF: Final = frozenset(("if", "then", "else"))
_UNEVALUATED: Final = frozenset(("unevaluatedItems", "unevaluatedProperties"))
_PLACES: Final = Places(
    frozenset(("not", "items", "contains", "additionalProperties", "propertyNames")) | _IF | _UNEVALUATED,
    frozenset(("allOf", "anyOf", "oneOf", "prefixItems")),
    frozenset(("properties", "patternProperties", "dependentSchemas", "$defs")),
)
_PLACES_WITHOUT_IF: Final = _PLACES._replace(single=_PLACES.single - {"then", "else"})
_MERGED: Final = (model.Array, model.Number, model.Object, model.Text)


class _Scope(NamedTuple):
    """The surroundings of a schema. base: the base URI around it. is_root: whether it is in the root document, not in a
    reference."""

    base: str
    is_root: bool


def load(root: JsonObject, references: Mapping[str, str], other: Callable[[str], str | None]) -> Node:
    """Return the node of a schema.

    references: texts by name. other: the text of a well-known schema by its URI. Raises InvalidSchema.
    """
    return _Loader(references, other).load_all(with_definitions(root))


@dataclass(eq=False)
class _Loader:
    references: Mapping[str, str]
    other: Callable[[str], str | None]
    nodes: dict[tuple[int, str, str], Node] = field(default_factory=dict)
    """The node of each JSON value that was loaded, with its base URI, and `within`."""
    within: str = ""
    """The URI of the schema that is being loaded for a `$ref`. Its nodes are copies, not shared with the schema around
    it."""
    anchors: dict[str, tuple[Json, _Scope]] = field(default_factory=dict)
    """The schemas that have an id or an anchor, and documents, by URI."""
    waiting: deque[model.Reference] = field(default_factory=deque)
    """The references without a target."""
    targets: dict[str, Node] = field(default_factory=dict)
    """The nodes that references lead to, by URI."""
    documents: dict[str, str] = field(default_factory=dict)
    """The text of each reference by URI."""

    def load_all(self, root: Json) -> Node:
        """Load the root, the schemas with an id or an anchor, and all schemas to which any of these refer."""
        for name, text in self.references.items():
            self.documents[resolved(None, name, name)] = text
            if ":" not in name and not name.startswith("."):
                self.documents["./" + name] = text
        scope = _Scope(ROOT_URI, is_root=True)
        self._find_anchors(root, scope)
        uri = _plain(self._base(root, ROOT_URI))
        if self.anchors.setdefault(uri, (root, scope))[0] is not root:
            refuse("$anchor", f"there are two schemas {uri[:200]!r}")
        node = self.targets[uri] = self._loaded(root, scope)
        self._settle()
        loaded = {uri}
        while len(loaded) < len(self.anchors):
            for uri in [each for each in self.anchors if each not in loaded]:
                self._loaded(*self.anchors[uri])
                loaded.add(uri)
            self._settle()
        return node

    def _settle(self) -> None:
        """Give each reference its target. The first reference to a schema gets the schema's node, later ones a copy;
        references that are found before all targets within the node are set share one copy."""
        frames: list[tuple[dict[str, Node], model.Reference | None]] = [({}, None)]
        while frames:
            copies, first = frames[-1]
            if not self.waiting:
                if first is not None:
                    first.target = self.targets[first.uri]
                frames.pop()
                continue
            reference = self.waiting.popleft()
            uri = reference.uri
            if uri in self.targets:
                node = self.targets[uri]
                reference.target = copies.setdefault(uri, node if isinstance(node, model.Reference) else copy(node))
                continue
            raw, scope = self._target(uri)
            self.within = uri if len(self.nodes) < COPIES_MAX else ""
            self.targets[uri] = self._loaded(raw, scope)
            frames.append(({}, reference))

    def node(self, raw: Json, scope: _Scope) -> Node:
        """Return the node of a schema within another one."""
        if isinstance(raw, dict) and "$schema" in raw:
            url = a_string(raw["$schema"], "$schema")
            if self.other(url) is None and url not in self.documents:
                refuse("$schema", f"there is no schema {url[:200]!r}, and nothing is fetched")
        return self._loaded(raw, scope)

    def _loaded(self, raw: Json, scope: _Scope) -> Node:
        """Return the node of a schema."""
        if isinstance(raw, bool):
            return model.Anything(is_true=True) if raw else model.Nothing()
        if not isinstance(raw, dict):
            refuse("#", f"a schema is an object or a boolean, not {kind_of(raw)}")
        inner = self._inner(raw, scope)
        stack = [(raw, inner)]
        while stack:
            each, within = stack[-1]
            if self._key(each, within) in self.nodes:
                stack.pop()
                continue
            places = _PLACES if "if" in each else _PLACES_WITHOUT_IF
            children = [(child, self._inner(child, within)) for child in places.within(each)]
            missing = [child for child in children if self._key(*child) not in self.nodes]
            if not missing:
                self.nodes[self._key(each, within)] = self._object(each, within)
            stack += missing
        return self.nodes[self._key(raw, inner)]

    def _inner(self, raw: JsonObject, scope: _Scope) -> _Scope:
        """Return the scope within a schema."""
        return scope._replace(base=self._base(raw, scope.base))

    def _key(self, raw: JsonObject, scope: _Scope) -> tuple[int, str, str]:
        return id(raw), without_fragment(scope.base), self.within

    def _object(self, raw: JsonObject, scope: _Scope) -> Node:
        product: Node | None = None
        for keyword in hash_map_order(raw) if scope.is_root else raw:
            part = self._keyword(keyword, raw[keyword], raw, scope)
            if part is not None:
                product = part if product is None else _joined(product, part)
        product = model.Combined(is_generated=True) if product is None else product
        for part in self._properties(raw, scope):
            product = _joined(product, part)
        if isinstance(product, model.Combined) and product.is_generated and product.criterion == "allOf":
            if not product.parts:
                product = model.Anything()
            elif len(product.parts) == 1:
                product = product.parts[0]
        definitions = an_object(raw.get("$defs", {}), "$defs")
        for each in definitions.values():
            self.node(each, scope)
        unknown = {keyword: each for keyword, each in raw.items() if keyword not in _KEYWORDS}
        product.has_default = raw.get("default") is not None and not isinstance(product, model.Reference)
        noted = _NOTES | {"$defs"} if definitions else _NOTES
        product.notes = unknown | {keyword: raw[keyword] for keyword in noted & raw.keys()}
        if unknown or definitions:
            _forget(product)
        if "$dynamicRef" in raw:
            return _joined(self._reference(raw["$dynamicRef"], "$dynamicRef", scope), product)
        return product

    def _keyword(self, keyword: str, value: Json, raw: JsonObject, scope: _Scope) -> Node | None:
        """Return the node of one keyword; None if it makes none. Raises InvalidSchema."""
        if keyword in _ANNOTATIONS:
            return _annotation(keyword, value)
        match keyword:
            case "$ref":
                return self._reference(value, keyword, scope)
            case "type":
                return _typed(value)
            case "enum":
                return model.Enumeration(values=an_array(value, keyword))
            case "const":
                return model.Constant(value=value)
            case "not":
                return model.Negation(negated=self.node(value, scope))
            case "if":
                then, other = (self.node(raw[key], scope) if key in raw else None for key in ("then", "else"))
                return model.Conditional(self.node(value, scope), then, other)
            case "allOf" | "anyOf" | "oneOf":
                nodes = [self.node(each, scope) for each in an_array(value, keyword)]
                return model.Combined(criterion=keyword, parts=[part for each in nodes for part in _flat(each)])
            case "minLength" | "maxLength" | "pattern":
                return _text(keyword, value)
            case "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf":
                return _number(keyword, a_number(value, keyword))
            case "items" | "prefixItems" | "contains" | "minItems" | "maxItems" | "uniqueItems":
                return self._array(keyword, value, raw, scope)
            case (
                "additionalProperties"
                | "required"
                | "minProperties"
                | "maxProperties"
                | "propertyNames"
                | "dependentRequired"
                | "dependentSchemas"
            ):
                return self._object_keyword(keyword, value, scope)
        return None

    def _array(self, keyword: str, value: Json, raw: JsonObject, scope: _Scope) -> Node:
        match keyword:
            case "items":
                node = self.node(value, scope)
                prefix = raw.get("prefixItems")
                if isinstance(node, model.Nothing):
                    return model.Array(allows_additional=False)
                if isinstance(node, model.Anything) and node.is_true:
                    return model.Array()
                return model.Array(additional=node) if isinstance(prefix, list) and prefix else model.Array(items=node)
            case "prefixItems":
                return model.Array(tuple_items=[self.node(each, scope) for each in an_array(value, keyword)])
            case "contains":
                least, most = raw.get("minContains"), raw.get("maxContains")
                return model.Array(
                    contains=self.node(value, scope),
                    min_contains=a_number(least, keyword) if is_number(least) else 1,
                    max_contains=a_number(most, keyword) if is_number(most) else None,
                )
            case "uniqueItems":
                return model.Array(is_unique=a_boolean(value, keyword))
        limit = _int32(a_number(value, keyword))
        return model.Array(min_items=limit) if keyword == "minItems" else model.Array(max_items=limit)

    def _object_keyword(self, keyword: str, value: Json, scope: _Scope) -> Node:
        match keyword:
            case "additionalProperties":
                node = self.node(value, scope)
                if isinstance(node, model.Nothing):
                    return model.Object(allows_additional=False)
                if isinstance(node, model.Anything) and node.is_true:
                    return model.Object()
                return model.Object(additional=node)
            case "required":
                return model.Object(required=strings(value, keyword))
            case "propertyNames":
                return model.Object(names=self.node(value, scope))
            case "dependentRequired":
                needs = {name: frozenset(strings(each, keyword)) for name, each in an_object(value, keyword).items()}
                return model.Object(needs={name: each for name, each in needs.items() if each})
            case "dependentSchemas":
                return model.Object(
                    dependents={name: self.node(each, scope) for name, each in an_object(value, keyword).items()}
                )
        limit = _int32(a_number(value, keyword))
        return model.Object(min_properties=limit) if keyword == "minProperties" else model.Object(max_properties=limit)

    def _properties(self, raw: JsonObject, scope: _Scope) -> Iterable[Node]:
        """Return the nodes of the keywords that are joined last."""
        properties = an_object(raw.get("properties", {}), "properties")
        if properties:
            yield model.Object(properties={name: self.node(each, scope) for name, each in properties.items()})
        patterns = an_object(raw.get("patternProperties", {}), "patternProperties")
        if patterns:
            yield model.Object(
                patterns={a_pattern(each, "patternProperties"): self.node(patterns[each], scope) for each in patterns}
            )
        if "unevaluatedItems" in raw:
            yield model.Array(unevaluated=self.node(raw["unevaluatedItems"], scope))
        if "unevaluatedProperties" in raw:
            yield model.Object(unevaluated=self.node(raw["unevaluatedProperties"], scope))

    def _reference(self, value: Json, keyword: str, scope: _Scope) -> model.Reference:
        text = a_string(value, keyword)
        plain = without_fragment(text)
        known = plain in self.documents or self.other(plain) is not None
        uri = _plain(text if known and plain else _resolved(scope.base, text, keyword))
        node = model.Reference(uri=uri)
        self.waiting.append(node)
        return node

    def _target(self, uri: str) -> tuple[Json, _Scope]:
        """Return the schema with a URI. Raises InvalidSchema."""
        if uri in self.anchors:
            return self.anchors[uri]
        plain = without_fragment(uri)
        if plain not in self.anchors:
            text = self.documents.get(plain, self.other(plain))
            if text is None:
                refuse("$ref", f"there is no reference {plain[:200]!r}, and nothing is fetched")
            root = with_definitions(parse_json(text))
            self.anchors[plain] = root, _Scope(plain, is_root=False)
            self._find_anchors(root, _Scope(plain, is_root=False))
        if uri in self.anchors:
            return self.anchors[uri]
        root, scope = self.anchors[plain]
        fragment = uri[len(plain) :]
        if not fragment:
            return root, scope
        if not fragment.startswith("#/"):
            refuse("$ref", f"there is no {uri[:200]!r} in the schema")
        if isinstance(root, dict):
            a_string(root.get("$id", ""), "$id")
        tokens = tokens_of(fragment, keep_empty_end=True)
        raw, base = follow(root, tokens, self._base(root, scope.base), "$id", "$ref")
        return raw, _Scope(base or scope.base, scope.is_root)

    def _base(self, raw: Json, base: str) -> str:
        """Return the base URI within a value. base: the base URI around the value."""
        own = raw.get("$id") if isinstance(raw, dict) else None
        return base if not isinstance(own, str) or base.endswith(own) else _resolved(base, own, "$id")

    def _find_anchors(self, root: Json, scope: _Scope) -> None:
        """Add the schemas that have an id or an anchor. In a referenced document, the values of unknown keywords are
        not searched. Raises InvalidSchema if two schemas have the same id or anchor."""
        values: list[tuple[Json, str, str, str]] = [(root, scope.base, "$defs", "")]
        for value, outer, before, last in values:
            if not scope.is_root and last and last not in _KEYWORDS and before not in _MAPS:
                continue
            children: Iterable[tuple[str, Json]] = ()
            base = self._base(value, outer)
            if isinstance(value, dict):
                uris = [base] if isinstance(value.get("$id"), str) else []
                if isinstance(anchor := value.get("$anchor"), str):
                    uris.append(_resolved(base, "#" + anchor, "$anchor"))
                for uri in dict.fromkeys(map(_plain, uris)):
                    if uri in self.anchors and not (value is root and self.anchors[uri][0] is root):
                        refuse("$id", f"there are two schemas {uri[:200]!r}")
                    self.anchors[uri] = value, scope._replace(base=outer)
                if isinstance(anchor := value.get("$dynamicAnchor"), str):
                    self.anchors[_plain(_resolved(base, "#" + anchor, "$dynamicAnchor"))] = (
                        value,
                        scope._replace(base=outer),
                    )
                children = [(key, each) for key, each in value.items() if key not in ("enum", "const")]
            elif isinstance(value, list):
                children = [(str(index), each) for index, each in enumerate(value)]
            values += [(each, base, last, key) for key, each in children if isinstance(each, dict | list)]


def _plain(uri: str) -> str:
    """Return the URI without an empty fragment."""
    return uri.removesuffix("#")


def _resolved(base: str, reference: str, where: str) -> str:
    if base.startswith(("urn:", "tag:")):
        return resolved(None, base + reference, where)
    return resolved(base, reference, where)


def _annotation(keyword: str, value: Json) -> Node | None:
    """Return the node of a keyword that does not restrict the value. json-sKema makes nodes of some such keywords; they
    are joined as a schema without keywords."""
    if keyword in ("title", "description", "$dynamicAnchor", "format"):
        a_string(value, keyword)
        return model.Combined(is_generated=True) if keyword == "format" else None
    return model.Combined(is_generated=True) if a_boolean(value, keyword) and keyword != "deprecated" else None


def _typed(value: Json) -> Node:
    if isinstance(value, str):
        return _of_type(value)
    if not isinstance(value, list):
        wrong("type", "a string or an array", value)
    parts = [_of_type(each) for each in strings(value, "type")]
    return model.Combined(criterion="anyOf", parts=parts, is_generated=True)


def _of_type(name: str) -> Node:
    if name not in TYPES:
        refuse("type", f"there is no type {name[:200]!r}")
    node = TYPES[name]()
    if isinstance(node, model.Text | model.Number | model.Array | model.Object):
        node.is_required = True
    if isinstance(node, model.Number):
        node.is_integer = name == "integer"
    return node


def _text(keyword: str, value: Json) -> Node:
    if keyword == "pattern":
        return model.Text(pattern=a_pattern(value, keyword))
    limit = _int32(a_number(value, keyword))
    return model.Text(min_length=limit) if keyword == "minLength" else model.Text(max_length=limit)


def _number(keyword: str, value: model.Limit) -> Node:
    match keyword:
        case "minimum":
            return model.Number(minimum=value)
        case "maximum":
            return model.Number(maximum=value)
        case "exclusiveMinimum":
            return model.Number(exclusive_minimum=value)
        case "exclusiveMaximum":
            return model.Number(exclusive_maximum=value)
    return model.Number(multiple_of=value)


def _int32(number: model.Limit) -> int:
    """Return the number as Java's intValue does: without its fraction, and of 32 bits."""
    if isinstance(number, Decimal) and number.adjusted() > 1000:
        return 0
    return (int(number) + 2**31) % 2**32 - 2**31


def _joined(one: Node, other: Node) -> Node:
    """Return a node with the keywords of two nodes."""
    if type(one) is type(other) and isinstance(one, _MERGED):
        return _merged(one, other)
    for several, single in ((one, other), (other, one)):
        if (
            isinstance(several, model.Combined)
            and several.is_generated
            and several.criterion == "anyOf"
            and any(type(part) is type(single) for part in several.parts)
        ):
            return replace(several, parts=_collected([*several.parts, single], len(several.parts)))
    return model.Combined(parts=_collected([*_flat(one), *_flat(other)], 0), is_generated=True)


def _flat(node: Node) -> Sequence[Node]:
    """Return the parts of a node that was generated for the keywords of one schema; for any other node, only the node
    itself."""
    is_generated = isinstance(node, model.Combined) and node.is_generated and node.criterion == "allOf"
    return node.parts if is_generated and isinstance(node, model.Combined) else [node]


def _collected(nodes: Sequence[Node], begin: int) -> list[Node]:
    """Return the nodes, with nodes of one type merged where possible. begin: nodes before this index stay as they
    are."""
    collected = list(nodes[:begin])
    for node in nodes[begin:]:
        for index, each in enumerate(collected):
            if type(each) is type(node) and isinstance(each, _MERGED):
                collected[index] = _merged(each, node)
                break
        else:
            collected.append(node)
    return collected


def _merged(one: Node, other: Node) -> Node:
    """Return a node with the keywords of two nodes of one type; for a keyword that both have, the second counts."""
    empty = type(one)()
    changes: dict[str, object] = {}
    for name, default in vars(empty).items():
        mine, theirs = getattr(one, name), getattr(other, name)
        if isinstance(default, dict):
            changes[name] = {**mine, **theirs} if mine and theirs else mine or theirs
        elif isinstance(default, tuple) and name in ("required", "tuple_items"):
            changes[name] = [*mine, *theirs] if mine and theirs else mine or theirs
        else:
            changes[name] = mine if theirs == default else theirs
    return replace(one, **changes)  # type: ignore[arg-type]


def _forget(node: Node) -> None:
    """Clear the keywords of a node that Confluent's translation loses: unknown keywords and `$defs` replace them
    there."""
    if isinstance(node, model.Array):
        node.min_contains = node.max_contains = node.unevaluated = None
    elif isinstance(node, model.Object):
        node.unevaluated = None
