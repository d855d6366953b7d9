"""Resolves the names of types and extensions: a name in a .proto file is relative to the message or package around it.

`Money` in message `shop.Order` is the first that exists of shop.Order.Money, shop.Money and Money; `.shop.Money` means
only that type. As in Confluent's registry, a file can use all types of its references, imported or not, and those of
the built-in files. Source: protobuf.dev, "Packages and Name Resolution".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from kcli.schemas.protobuf import elements as el
from kcli.schemas.protobuf.known import FILES
from kcli.schemas.protobuf.parser import parse_file
from kcli.schemas.schema import InvalidSchema

PACKAGE_PARTS_MAX = 100
_KNOWN_ROOTS = ("google", "confluent")


@dataclass(frozen=True, slots=True, eq=False)
class Type:
    """A message or enum that a file declares.

    file: the name of the file; None for the schema itself. map_type: `map<K, V>` if the message is the entry of a map.
    """

    element: el.Message | el.Enum
    package: str
    file: str | None
    map_type: str | None


class Scope:
    """A package, message, enum or extension: a place in the tree of names."""

    __slots__ = ("children", "extension", "file", "name", "parent", "type")

    def __init__(self, parent: Scope | None, name: str) -> None:
        self.parent = parent
        self.name = name
        self.children: dict[str, Scope] = {}
        self.type: Type | None = None
        self.extension: el.Field | None = None
        self.file: str | None = None

    @property
    def full_name(self) -> str:
        """The name with its packages and messages, such as shop.Order.Money."""
        return ".".join(self.parts())

    def parts(self) -> list[str]:
        parts = [scope.name for scope in self.outwards() if scope.parent]
        return parts[::-1]

    def outwards(self) -> Iterator[Scope]:
        """Yield the scope and the scopes around it, from the innermost to the root."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def child(self, name: str) -> Scope:
        """Return the scope of a name within this scope; create it if it does not exist."""
        scope = self
        for part in name.split("."):
            inner = scope.children.get(part)
            if inner is None:
                inner = scope.children[part] = Scope(scope, part)
            scope = inner
        return scope

    def descend(self, parts: Sequence[str]) -> Scope | None:
        scope: Scope | None = self
        for part in parts:
            if scope is None:
                return None
            scope = scope.children.get(part)
        return scope


class Names:
    """The names of a schema, of its references, and of the built-in files.

    Raises InvalidSchema if a package has too many parts.
    """

    def __init__(self, file: el.File, references: Mapping[str, el.File]) -> None:
        self._root = Scope(None, "")
        self._replaced = frozenset(references)
        self._found: dict[tuple[Scope, str, bool], Scope | None] = {}
        for name, each in references.items():
            _declare(self._root, each, name)
        self.package = _declare(self._root, file, None)

    def type(self, scope: Scope, name: str) -> Scope | None:
        """Return the scope of the type to which a name in `scope` refers, or None."""
        return self._find(scope, name, is_extension=False)

    def extension(self, scope: Scope, name: str) -> Scope | None:
        """Return the scope of the extension to which a name in `scope` refers, or None."""
        return self._find(scope, name, is_extension=True)

    def extension_field(self, full_name: str) -> el.Field | None:
        """Return the field of an extension with a full name, or None."""
        found = self._find(self._root, full_name.removeprefix("."), is_extension=True)
        return found.extension if found else None

    def _find(self, scope: Scope, name: str, *, is_extension: bool) -> Scope | None:
        key = scope, name, is_extension
        if key not in self._found:
            self._found[key] = self._search(scope, name, is_extension=is_extension)
        return self._found[key]

    def _search(self, scope: Scope, name: str, *, is_extension: bool) -> Scope | None:
        parts = name.split(".")
        if not parts[0]:
            scope, parts = self._root, parts[1:]
        for each in scope.outwards():
            for found in (each.descend(parts), self._known(each, parts)):
                if found is not None and (found.extension if is_extension else found.type):
                    return found
        return None

    def _known(self, scope: Scope, parts: Sequence[str]) -> Scope | None:
        """Return the scope of a name that a built-in file declares, unless a reference replaces that file."""
        path = [*scope.parts(), *parts] if scope.parent else parts
        if path[0] not in _KNOWN_ROOTS:
            return None
        found = known_names().descend(path)
        return None if found is None or found.file in self._replaced else found


@cache
def known_files() -> Mapping[str, el.File]:
    """Return the built-in files by their names."""
    return {name: parse_file(text) for name, text in FILES.items()}


@cache
def known_names() -> Scope:
    """Return the names of the built-in files."""
    root = Scope(None, "")
    for name, file in known_files().items():
        _declare(root, file, name)
    return root


def is_map_entry(element: el.Message | el.Enum) -> bool:
    """Return whether a message is the entry of a map."""
    return isinstance(element, el.Message) and _map_type(element) is not None


def _map_type(message: el.Message) -> str | None:
    flags = [str(option.value) for option in message.options if option.name.removeprefix(".") == "map_entry"]
    if not flags or flags[-1].lower() != "true":
        return None
    types = {field.name: field.type for field in reversed(message.fields) if field.name in ("key", "value")}
    return f"map<{types['key']}, {types['value']}>" if len(types) == 2 else None


def _declare(root: Scope, file: el.File, name: str | None) -> Scope:
    """Add the names of a file below the root; return the scope of its package."""
    package = file.package or ""
    if package.count(".") >= PACKAGE_PARTS_MAX:
        raise InvalidSchema(f"the package has more than {PACKAGE_PARTS_MAX} parts")
    scope = root.child(package) if package else root
    _declare_extensions(scope, file.extends, name)
    for each in file.types:
        _declare_type(scope, each, package, name)
    return scope


def _declare_type(scope: Scope, element: el.Message | el.Enum, package: str, file: str | None) -> None:
    inner = scope.child(element.name)
    inner.file = file
    if isinstance(element, el.Enum):
        inner.type = Type(element, package, file, None)
        return
    inner.type = Type(element, package, file, _map_type(element))
    _declare_extensions(inner, element.extends, file)
    for each in element.types:
        _declare_type(inner, each, package, file)


def _declare_extensions(scope: Scope, extends: Sequence[el.Extend], file: str | None) -> None:
    for extend in extends:
        for field in extend.fields:
            inner = scope.child(field.name)
            inner.extension = field
            inner.file = file
