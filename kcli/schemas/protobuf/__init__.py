"""Protobuf schemas: a .proto file, or the base64 text of a serialized FileDescriptorProto.

reader, parser  parse a text into elements
elements        what a file declares
names           resolve names to types; known: the built-in files
printer         print elements as the canonical and the normalized text; options, numbers: parts of the latter
differences     compare two schemas: which data of a writer a reader cannot read
descriptors     convert a FileDescriptorProto to elements and back, with the package protobuf, imported at first use

The parser is kcli's own: it takes 1 ms for 2 KB, needs no process and no other files, and accepts and refuses the same
texts as Confluent's registry, which differ from those of protoc.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import Self, cast

from kcli.errors import NotInstalled
from kcli.schemas.parsed import Incompatibility
from kcli.schemas.protobuf import elements as el
from kcli.schemas.protobuf.differences import Difference, compare
from kcli.schemas.protobuf.names import Names
from kcli.schemas.protobuf.parser import parse_file
from kcli.schemas.protobuf.printer import canonical_text, normalized_text
from kcli.schemas.protobuf.reader import BadSyntax
from kcli.schemas.schema import InvalidSchema

_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


class ProtobufSchema:
    """A .proto file and the files that it imports (kcli.schemas.parsed.ParsedSchema).

    canonical: the text, if it is known. Raises InvalidSchema if the canonical text is too large.
    """

    def __init__(self, file: el.File, references: Mapping[str, el.File], canonical: str | None = None) -> None:
        self.file = file
        self._references = references
        self._canonical = canonical_text(file) if canonical is None else canonical

    @property
    def canonical(self) -> str:
        """The canonical text."""
        return self._canonical

    @cached_property
    def names(self) -> Names:
        """The names that declarations of the file can use. Raises InvalidSchema."""
        return Names(self.file, self._references)

    def normalized(self) -> Self:
        """Return the normalized schema; schemas with the same meaning have the same normalized text.

        Raises InvalidSchema if a type is not found.
        """
        text = normalized_text(self.file, self.names)
        return type(self)(_parsed(text), self._references, text)

    def formatted(self, form: str) -> str:
        """Return the text in a form: "serialized" (base64 of a FileDescriptorProto), "ignore_extensions", or the
        canonical one. Raises InvalidSchema if the form cannot be made."""
        if form == "serialized":
            return cast("str", _descriptors().serialized(self.file, self.names, self._references))
        if form == "ignore_extensions":
            return canonical_text(self.file, has_extensions=False)
        return self.canonical

    def differences(self, writer: Self) -> list[Difference]:
        """Return the differences between the writer's schema and this one, compatible ones included."""
        return compare(writer.file, writer.names, self.file, self.names)

    def incompatibilities(self, writer: Self) -> list[Incompatibility]:
        """Return why this schema cannot read data of the writer's schema; an empty list if it can."""
        return [
            Incompatibility(each.kind, each.path, each.text)
            for each in self.differences(writer)
            if not each.kind.is_compatible
        ]

    def validate_new(self) -> None:
        """Check that all types are found. Raises InvalidSchema."""
        self.normalized()


def parse(text: str, references: Mapping[str, str]) -> ProtobufSchema:
    """Return the parsed schema. references: the name of each imported file with its text. Raises InvalidSchema."""
    return ProtobufSchema(_parsed(text), {name: _parsed(each) for name, each in references.items()})


def _parsed(text: str) -> el.File:
    try:
        return parse_file(text)
    except BadSyntax as error:
        if _BASE64.fullmatch(text):
            try:
                return cast("el.File", _descriptors().file_of(text))
            except InvalidSchema:
                pass
        raise InvalidSchema(f"Could not parse Protobuf - {error}") from None


def _descriptors() -> ModuleType:
    """Return the module of descriptors. Raises NotInstalled if the package protobuf is missing."""
    try:
        return import_module("kcli.schemas.protobuf.descriptors")
    except ModuleNotFoundError:
        raise NotInstalled("protobuf", "registry", "a Protobuf descriptor") from None
