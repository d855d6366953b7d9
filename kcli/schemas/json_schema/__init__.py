"""JSON Schema, drafts 4 to 2020-12, as Confluent's Schema Registry handles it.

text         parses JSON, and writes the canonical text
model        a schema as a tree of nodes
drafts4to7, drafts2019   make nodes of JSON. They use loading and references for the checks of Confluent's loaders,
             patterns for Java's regular expressions, uris for Java's URIs
comparison   compares two schemas; shapes finds parts with the same text, matching pairs the parts of two schemas
differences  the kinds of differences, and their messages

A schema without `$schema`, or with an unknown one, is of draft 7.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from kcli.errors import NotInstalled
from kcli.schemas.jackson import json_text
from kcli.schemas.json_schema import drafts4to7, drafts2019, model
from kcli.schemas.json_schema.comparison import compare
from kcli.schemas.json_schema.loading import kind_of
from kcli.schemas.json_schema.model import Node
from kcli.schemas.json_schema.text import Json, parse_json, sorted_keys
from kcli.schemas.parsed import Incompatibility
from kcli.schemas.schema import InvalidSchema

_RECENT: Final = tuple(
    f"{scheme}://json-schema.org/draft/{draft}/schema"
    for scheme in ("http", "https")
    for draft in ("2019-09", "2020-12")
)
_RESERVED: Final = "$$"
_META_LENGTH_MAX: Final = 80


@dataclass(frozen=True)
class JsonSchema:
    """A parsed schema. value: its JSON. node: the tree of nodes by which schemas are compared."""

    value: Json
    node: Node
    canonical: str

    def normalized(self) -> JsonSchema:
        """Return the schema with the keys of all its objects sorted."""
        value = sorted_keys(self.value)
        return JsonSchema(value, self.node, json_text(value))

    def formatted(self, form: str) -> str:  # noqa: ARG002
        """Return the canonical text, whatever the form: JSON Schema has no other."""
        return self.canonical

    def incompatibilities(self, writer: JsonSchema, *, is_lenient: bool = False) -> list[Incompatibility]:
        """Return why this schema does not allow all data that the writer's schema allows, by Confluent's rules.

        is_lenient: whether the compatibility policy is LENIENT. Raises InvalidSchema if too many pairs of schemas would
        have to be compared.
        """
        return compare(writer.node, self.node, is_lenient=is_lenient).incompatibilities()

    def validate_new(self) -> None:
        """Refuse names of properties that begin with $$, which Confluent's registry reserves. It does so only where
        the configuration's validateFields is true. Raises InvalidSchema."""
        if isinstance(self.node, model.Object):
            for name in self.node.properties:
                if name.startswith(_RESERVED):
                    raise InvalidSchema(f"#/properties/{name}: Field names cannot start with $$ prefix")


def parse(text: str, references: Mapping[str, str]) -> JsonSchema:
    """Return the parsed schema.

    references: the text of each reference, direct or not, by its name: the text of a `$ref`, or the URI to which it
    resolves against the schema's id. No URL is fetched. Raises InvalidSchema.
    """
    value = parse_json(text)
    if isinstance(value, bool):
        node: Node = model.Anything(is_true=True) if value else model.Nothing()
    elif isinstance(value, dict):
        url = value.get("$schema")
        is_recent = isinstance(url, str) and url.removesuffix("#") in _RECENT
        node = (drafts2019 if is_recent else drafts4to7).load(value, references, _meta_schema)
    else:
        raise InvalidSchema(f"a schema is an object or a boolean, not {kind_of(value)}")
    return JsonSchema(value, node, json_text(value))


def _meta_schema(uri: str) -> str | None:
    """Return the text of one of JSON Schema's own schemas; None for other URIs."""
    plain = uri.removesuffix("#")
    return _known(plain) if len(plain) <= _META_LENGTH_MAX and "://json-schema.org/draft" in plain else None


@lru_cache(64)
def _known(plain: str) -> str | None:
    try:
        from jsonschema_specifications import REGISTRY
    except ImportError:
        raise InvalidSchema(str(NotInstalled("jsonschema-specifications", "registry", f"the $ref {plain}"))) from None
    for known in (plain, plain + "#", plain.replace("https:", "http:") + "#", plain.replace("http:", "https:")):
        if known in REGISTRY:
            return json_text(REGISTRY.contents(known))
    return None
