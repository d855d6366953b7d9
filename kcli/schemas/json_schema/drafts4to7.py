"""Schemas of drafts 4, 6 and 7: JSON to nodes, as everit's loader does it.

A schema's keywords fall into parts: enum; each of allOf, anyOf, oneOf; not; const; one for `type`, which takes all
keywords of its types; then one for each group of keywords that are left (of arrays, objects, numbers, texts, and if).
One part is the schema; several are an allOf. Keywords beside `$ref` are ignored.

    draft 4   no const, contains, propertyNames; its id keyword is id; items and dependencies are no booleans
    draft 6   no if
    draft 7   also schemas without `$schema`, or with an unknown one

A `$ref` is resolved against the ids around it. Its target is searched among the ids of its document; after #, by a
pointer into its document; otherwise among the references, by name. Source: JSON Schema drafts 4 to 7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from kcli.schemas.json_schema import model
from kcli.schemas.json_schema.loading import (
    Places,
    a_boolean,
    a_number,
    a_pattern,
    a_string,
    an_array,
    an_integer,
    an_object,
    as_double,
    is_number,
    kind_of,
    strings,
    wrong,
)
from kcli.schemas.json_schema.model import TYPES, Node
from kcli.schemas.json_schema.references import JsonObject, base_of, follow, resolved, tokens_of, with_definitions
from kcli.schemas.json_schema.text import Json, parse_json, refuse
from kcli.schemas.json_schema.uris import without_fragment

_URLS: Final = {
    4: ("json-schema.org/draft-04/schema", "json-schema.org/schema"),
    6: ("json-schema.org/draft-06/schema",),
    7: ("json-schema.org/draft-07/schema",),
}
COPIES_MAX: Final = 100_000
"""Once so many nodes exist, a `$ref` gets the node of its target instead of a copy. This changes at how many paths a
difference is reported, but not whether it is found."""
_ARRAY: Final = ("items", "additionalItems", "minItems", "maxItems", "uniqueItems")
_OBJECT: Final = (
    "properties",
    "required",
    "minProperties",
    "maxProperties",
    "dependencies",
    "patternProperties",
    "additionalProperties",
)
_NUMBER: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_TEXT: Final = ("minLength", "maxLength", "pattern", "format")
_IF: Final = ("if", "then", "else")
_PLACES_4: Final = Places(
    frozenset(("not", "items", "additionalItems", "additionalProperties")),
    frozenset(("allOf", "anyOf", "oneOf", "items")),
    frozenset(("properties", "patternProperties", "dependencies")),
)
_PLACES_6: Final = _PLACES_4._replace(single=_PLACES_4.single | {"contains", "propertyNames"})
_PLACES: Final = {4: _PLACES_4, 6: _PLACES_6, 7: _PLACES_6._replace(single=_PLACES_6.single | frozenset(_IF))}
_FORMATS_4: Final = frozenset(("date-time", "uri", "email", "ipv4", "ipv6", "hostname"))
_FORMATS_6: Final = _FORMATS_4 | {"json-pointer", "uri-reference", "uri-template"}
_FORMATS_7: Final = _FORMATS_6 | {"date", "time", "regex", "relative-json-pointer"}


@dataclass(eq=False)
class _Document:
    """A schema's whole JSON. base: its base URI, its own id included. ids: the objects with an id, by the text of the
    id, each with the base URI within it; None before the first `$ref`."""

    root: Json
    draft: int
    base: str | None
    ids: dict[str, tuple[JsonObject, str | None]] | None = None

    @property
    def id_keyword(self) -> str:
        return "id" if self.draft == 4 else "$id"

    def by_id(self, uri: str) -> tuple[JsonObject, str | None] | None:
        """Return the object whose id has the text `uri`, and its base URI. Raises InvalidSchema."""
        if self.ids is None:
            self.ids = {}
            values: list[tuple[Json, str | None]] = [(self.root, self.base)]
            for value, base in values:
                children: Iterable[Json] = ()
                if isinstance(value, dict):
                    own = value.get(self.id_keyword)
                    if isinstance(own, str):
                        self.ids[own] = value, base
                    children = value.values()
                elif isinstance(value, list):
                    children = value
                values += [
                    (each, base_of(each, base, self.id_keyword, "#"))
                    for each in children
                    if isinstance(each, dict | list)
                ]
        return self.ids.get(uri)


@dataclass(frozen=True)
class _Scope:
    """The surroundings of a schema. base: the base URI within it, its own id included."""

    document: _Document
    base: str | None

    def within(self, raw: JsonObject) -> _Scope:
        base = base_of(raw, self.base, self.document.id_keyword, "#")
        return self if base == self.base else _Scope(self.document, base)


def load(root: JsonObject, references: Mapping[str, str], other: Callable[[str], str | None]) -> Node:
    """Return the node of a schema.

    references: texts by name. other: the text of a well-known schema by its URI. Raises InvalidSchema.
    """
    loader = _Loader(root, references, other)
    return loader.load_all()


@dataclass(eq=False)
class _Loader:
    root: JsonObject
    references: Mapping[str, str]
    other: Callable[[str], str | None]
    nodes: dict[tuple[int, str | None, str], Node] = field(default_factory=dict)
    """The node of each JSON value that was loaded, with its base URI, and `within`."""
    within: str = ""
    """The URI of the schema that is being loaded for a `$ref`. Its nodes are copies, not shared with the schema around
    it."""
    waiting: dict[str, list[model.Reference]] = field(default_factory=dict)
    targets: dict[str, tuple[Json, _Scope]] = field(default_factory=dict)
    documents: dict[str, _Document] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    """The name of each reference by its URI."""

    def load_all(self) -> Node:
        """Load the root, then the schemas to which it refers, then those to which these refer, and so on."""
        draft = _draft(self.root)
        main = _Document(with_definitions(self.root), draft, None)
        main.base = base_of(main.root, None, main.id_keyword, "#")
        self.names = {resolved(main.base, name, name): name for name in self.references}
        for name, text in self.references.items():
            if not text.lstrip().startswith("{"):
                refuse(name, "a reference is an object")
        node = self._inner(main.root, _Scope(main, main.base))
        while self.waiting:
            uri, references = self.waiting.popitem()
            raw, scope = self.targets[uri]
            self.within = uri if len(self.nodes) < COPIES_MAX else ""
            target = self._inner(raw, scope)
            for each in references:
                each.target = target
        return node

    def node(self, raw: Json, scope: _Scope) -> Node:
        """Return the node of a schema. scope: the scope of the schema around it."""
        if isinstance(raw, bool):
            return model.Anything(is_true=True) if raw else model.Nothing()
        if not isinstance(raw, dict):
            refuse("#", f"a schema is an object or a boolean, not {kind_of(raw)}")
        return self._inner(raw, scope.within(raw))

    def _inner(self, raw: Json, scope: _Scope) -> Node:
        """Return the node of a schema. scope: the scope within it."""
        if not isinstance(raw, dict):
            return self.node(raw, scope)
        stack = [(raw, scope)]
        while stack:
            each, inner = stack[-1]
            key = id(each), inner.base, self.within
            if key in self.nodes:
                stack.pop()
                continue
            children = [(child, inner.within(child)) for child in self._children(each, inner)]
            missing = [child for child in children if (id(child[0]), child[1].base, self.within) not in self.nodes]
            if not missing:
                self.nodes[key] = self._object(each, inner)
            stack += missing
        return self.nodes[id(raw), scope.base, self.within]

    def _children(self, raw: JsonObject, scope: _Scope) -> Iterable[JsonObject]:
        """Return the schemas within a schema. They are loaded before it, so that loading needs no deep recursion."""
        return () if "$ref" in raw else _PLACES[scope.document.draft].within(raw)

    def _object(self, raw: JsonObject, scope: _Scope) -> Node:
        used: set[str] = set()
        parts = (
            [self._reference(a_string(raw["$ref"], "$ref"), scope)] if "$ref" in raw else self._parts(raw, scope, used)
        )
        used.add("$ref")
        node = parts[0] if len(parts) == 1 else model.Combined(parts=parts) if parts else model.Anything()
        for keyword in (scope.document.id_keyword, "title", "description"):
            if keyword in raw and keyword not in used:
                a_string(raw[keyword], keyword)
        if scope.document.draft == 7:
            for keyword in ("readOnly", "writeOnly"):
                if keyword in raw:
                    a_boolean(raw[keyword], keyword)
        node.has_default = "default" in raw and (not isinstance(node, model.Reference) or node.uri == self.within)
        node.notes = {keyword: value for keyword, value in raw.items() if keyword not in used}
        if isinstance(node, model.Array):
            node.min_contains, node.max_contains = (_a_limit(raw.get(key)) for key in ("minContains", "maxContains"))
        return node

    def _parts(self, raw: JsonObject, scope: _Scope, used: set[str]) -> list[Node]:
        """Return the nodes that the keywords of a schema become, and add the keywords to `used`."""
        draft = scope.document.draft
        parts: list[Node] = []
        if "enum" in raw:
            parts.append(model.Enumeration(values=an_array(raw["enum"], "enum")))
        for criterion in ("allOf", "anyOf", "oneOf"):
            if criterion in raw:
                nodes = [self.node(each, scope) for each in an_array(raw[criterion], criterion)]
                parts.append(model.Combined(criterion=criterion, parts=nodes))
        if "not" in raw:
            parts.append(model.Negation(negated=self.node(raw["not"], scope)))
        if "const" in raw and draft > 4:
            parts.append(model.Constant(value=raw["const"]))
            used.add("const")
        used.update(("enum", "allOf", "anyOf", "oneOf", "not", "type"))
        if "type" in raw:
            parts.append(self._typed(raw, scope, used))
        groups: tuple[tuple[tuple[str, ...], type[Node]], ...] = (
            (_ARRAY if draft == 4 else (*_ARRAY, "contains"), model.Array),
            (_OBJECT if draft == 4 else (*_OBJECT, "propertyNames"), model.Object),
            (_NUMBER, model.Number),
            (_TEXT, model.Text),
        )
        for keywords, node_type in groups:
            if any(keyword in raw and keyword not in used for keyword in keywords):
                parts.append(self._group(node_type, raw, scope, used))
        if draft == 7 and any(keyword in raw for keyword in _IF):
            parts.append(model.Conditional(*[self.node(raw[key], scope) if key in raw else None for key in _IF]))
            used.update(_IF)
        return parts

    def _typed(self, raw: JsonObject, scope: _Scope, used: set[str]) -> Node:
        names = raw["type"]
        if isinstance(names, str):
            return self._of_type(names, raw, scope, used)
        if not isinstance(names, list):
            wrong("type", "a string or an array", names)
        nodes: dict[str, Node] = {}
        for name in strings(names, "type"):
            if name not in nodes:
                nodes[name] = self._of_type(name, raw, scope, used)
        return model.Combined(criterion="anyOf", parts=[nodes[name] for name in strings(names, "type")])

    def _of_type(self, name: str, raw: JsonObject, scope: _Scope, used: set[str]) -> Node:
        if name not in TYPES:
            refuse("type", f"there is no type {name[:200]!r}")
        node = self._group(TYPES[name], raw, scope, used)
        if isinstance(node, model.Text | model.Number | model.Array | model.Object):
            node.is_required = True
        if isinstance(node, model.Number):
            node.is_integer = name == "integer"
        return node

    def _group(self, node_type: type[Node], raw: JsonObject, scope: _Scope, used: set[str]) -> Node:
        """Return the node of a type, made of all keywords of this type, and add them to `used`."""
        draft = scope.document.draft
        if node_type is model.Text:
            used.update(_TEXT)
            return _text(raw, draft)
        if node_type is model.Number:
            used.update(_NUMBER)
            return _number(raw, draft)
        if node_type is model.Array:
            used.update(_ARRAY if draft == 4 else (*_ARRAY, "contains"))
            return self._array(raw, scope)
        if node_type is model.Object:
            used.update(_OBJECT if draft == 4 else (*_OBJECT, "propertyNames"))
            return self._properties(raw, scope)
        return node_type()

    def _array(self, raw: JsonObject, scope: _Scope) -> Node:
        array = model.Array(
            min_items=_integer_of(raw, "minItems"),
            max_items=_integer_of(raw, "maxItems"),
            is_unique="uniqueItems" in raw and a_boolean(raw["uniqueItems"], "uniqueItems"),
        )
        items = raw.get("items")
        if isinstance(items, list):
            array.tuple_items = [self.node(each, scope) for each in items]
        elif "items" in raw:
            if not _is_schema(items, scope):
                wrong("items", "a schema or an array", items)
            array.items = self.node(items, scope)
        additional = raw.get("additionalItems", True)
        if isinstance(additional, bool):
            array.allows_additional = additional or array.items is not None
        else:
            array.additional = self.node(an_object(additional, "additionalItems"), scope)
        if "contains" in raw and scope.document.draft > 4:
            array.contains = self.node(raw["contains"], scope)
        return array

    def _properties(self, raw: JsonObject, scope: _Scope) -> Node:
        id_keyword = scope.document.id_keyword
        node = model.Object(
            min_properties=_integer_of(raw, "minProperties"),
            max_properties=_integer_of(raw, "maxProperties"),
            properties={
                name: self.node(each, scope)
                for name, each in an_object(raw.get("properties", {}), "properties").items()
                if name != id_keyword or isinstance(each, dict)
            },
            required=strings(raw.get("required", []), "required"),
            patterns={
                a_pattern(pattern, "patternProperties"): self.node(each, scope)
                for pattern, each in an_object(raw.get("patternProperties", {}), "patternProperties").items()
            },
        )
        additional = raw.get("additionalProperties", True)
        if isinstance(additional, bool):
            node.allows_additional = additional
        else:
            node.additional = self.node(an_object(additional, "additionalProperties"), scope)
        needs: dict[str, frozenset[str]] = {}
        dependents: dict[str, Node] = {}
        for name, each in an_object(raw.get("dependencies", {}), "dependencies").items():
            if _is_schema(each, scope):
                dependents[name] = self.node(each, scope)
            elif names := strings(each, "dependencies"):
                needs[name] = frozenset(names)
        node.needs, node.dependents = needs, dependents
        if "propertyNames" in raw and scope.document.draft > 4:
            node.names = self.node(raw["propertyNames"], scope)
        return node

    def _reference(self, text: str, scope: _Scope) -> Node:
        uri = resolved(scope.base, text, "$ref")
        if uri not in self.targets:
            self.targets[uri] = self._target(text, uri, scope)
        node = model.Reference(uri=uri)
        self.waiting.setdefault(uri, []).append(node)
        return node

    def _target(self, text: str, uri: str, scope: _Scope) -> tuple[Json, _Scope]:
        """Return the target of a `$ref` and its scope. text: the text of the `$ref`. uri: the URI to which it
        resolves."""
        document = scope.document
        if (found := document.by_id(uri)) is not None:
            return found[0], _Scope(document, found[1])
        if text.startswith("#"):
            return _within(document, text)
        plain = without_fragment(uri)
        if self._knows(uri):
            raw = _within(self._document(uri), "#")[0]
            return raw, _scope_of(raw, self._document(uri), plain)
        if not self._knows(plain):
            refuse("$ref", f"there is no reference {text[:200]!r}, and nothing is fetched")
        document = self._document(plain)
        fragment = uri[len(plain) :]
        raw = _within(document, fragment)[0] if fragment else document.root
        return raw, _scope_of(raw, document, plain)

    def _knows(self, uri: str) -> bool:
        return uri in self.names or self.other(uri) is not None

    def _document(self, uri: str) -> _Document:
        """Return a known document. Raises InvalidSchema."""
        if uri not in self.documents:
            content = self.references[self.names[uri]] if uri in self.names else self.other(uri)
            root = with_definitions(parse_json(content or ""))
            if not isinstance(root, dict):
                refuse(uri, "a reference is an object")
            document = _Document(root, _draft(root), uri)
            document.base = base_of(root, uri, document.id_keyword, uri)
            self.documents[uri] = document
        return self.documents[uri]


def _within(document: _Document, fragment: str) -> tuple[Json, _Scope]:
    found = document.by_id(fragment)
    if found is not None:
        return found[0], _Scope(document, found[1])
    tokens = tokens_of(fragment, keep_empty_end=False)
    raw, base = follow(document.root, tokens, document.base, document.id_keyword, fragment)
    return raw, _Scope(document, base)


def _scope_of(raw: Json, document: _Document, base: str) -> _Scope:
    """Return the scope within a schema of another document, whose own URI is `base`."""
    return _Scope(document, base_of(raw, base, document.id_keyword, base))


def _text(raw: JsonObject, draft: int) -> model.Text:
    formats = {4: _FORMATS_4, 6: _FORMATS_6, 7: _FORMATS_7}[draft]
    name = a_string(raw["format"], "format") if "format" in raw else None
    return model.Text(
        min_length=_integer_of(raw, "minLength"),
        max_length=_integer_of(raw, "maxLength"),
        pattern=a_pattern(raw["pattern"], "pattern") if "pattern" in raw else None,
        format=name if name in formats else None,
    )


def _number(raw: JsonObject, draft: int) -> model.Number:
    number = model.Number()
    number.minimum, number.maximum, number.multiple_of = (
        a_number(raw[keyword], keyword) if keyword in raw else None for keyword in ("minimum", "maximum", "multipleOf")
    )
    if number.multiple_of is not None and (divisor := as_double(number.multiple_of)) in (
        0.0,
        float("inf"),
        -float("inf"),
    ):
        refuse("multipleOf", f"{divisor} is no divisor")
    if draft == 4:
        minimum, maximum = (
            keyword in raw and a_boolean(raw[keyword], keyword) for keyword in ("exclusiveMinimum", "exclusiveMaximum")
        )
        number.exclusive = minimum, maximum
    else:
        number.exclusive_minimum, number.exclusive_maximum = (
            a_number(raw[keyword], keyword) if keyword in raw else None
            for keyword in ("exclusiveMinimum", "exclusiveMaximum")
        )
    return number


def _integer_of(raw: JsonObject, keyword: str) -> int | None:
    return an_integer(raw[keyword], keyword) if keyword in raw else None


def _a_limit(value: Json) -> model.Limit | None:
    return a_number(value, "") if is_number(value) else None


def _is_schema(value: Json, scope: _Scope) -> bool:
    return isinstance(value, dict) or (isinstance(value, bool) and scope.document.draft > 4)


def _draft(root: JsonObject) -> int:
    """Return the draft of a document. Raises InvalidSchema."""
    if "$schema" not in root:
        return 7
    url = a_string(root["$schema"], "$schema")
    name = url.removeprefix("https://").removeprefix("http://")
    return next((draft for draft, urls in _URLS.items() if name != url and name.startswith(urls)), 7)
