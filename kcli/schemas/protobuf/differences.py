"""Compares two schemas: finds their differences, and those that keep a reader from reading a writer's data.

Fields are compared by their numbers, messages and enums by their names. A field's type may change within a group whose
encodings agree:

    int32, int64, uint32, uint64, bool, enum | sint32, sint64 | string, bytes | fixed32, sfixed32 | fixed64, sfixed64

A message of another file is compared when a field has it as its type. Fields of groups are not compared. Paths are
`#/Message/Inner/field number`, with the oneof before its field's number. Source: protobuf.dev, "Updating A Message
Type"; the kinds, paths and messages are those of SchemaDiff in Confluent's registry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias, TypeVar

from kcli.java.hashing import hash_map_order, hash_order, java_hash, map_size, set_size
from kcli.schemas.protobuf import elements as el
from kcli.schemas.protobuf.elements import SCALARS, map_of
from kcli.schemas.protobuf.names import Names, Scope, is_map_entry

_T = TypeVar("_T")
DIFFERENCES_MAX = 10_000
"""The greatest number of differences that are listed, and of messages that are compared for the list."""
PATHS_SIZE_MAX = 8 << 20


class DifferenceKind(StrEnum):
    """The kind of a difference."""

    PACKAGE_CHANGED = "PACKAGE_CHANGED"
    MESSAGE_ADDED = "MESSAGE_ADDED"
    MESSAGE_REMOVED = "MESSAGE_REMOVED"
    MESSAGE_MOVED = "MESSAGE_MOVED"
    ENUM_ADDED = "ENUM_ADDED"
    ENUM_REMOVED = "ENUM_REMOVED"
    ENUM_CONST_ADDED = "ENUM_CONST_ADDED"
    ENUM_CONST_CHANGED = "ENUM_CONST_CHANGED"
    ENUM_CONST_REMOVED = "ENUM_CONST_REMOVED"
    FIELD_ADDED = "FIELD_ADDED"
    FIELD_REMOVED = "FIELD_REMOVED"
    FIELD_NAME_CHANGED = "FIELD_NAME_CHANGED"
    FIELD_KIND_CHANGED = "FIELD_KIND_CHANGED"
    FIELD_SCALAR_KIND_CHANGED = "FIELD_SCALAR_KIND_CHANGED"
    FIELD_NAMED_TYPE_CHANGED = "FIELD_NAMED_TYPE_CHANGED"
    FIELD_NUMERIC_LABEL_CHANGED = "FIELD_NUMERIC_LABEL_CHANGED"
    FIELD_STRING_OR_BYTES_LABEL_CHANGED = "FIELD_STRING_OR_BYTES_LABEL_CHANGED"
    REQUIRED_FIELD_ADDED = "REQUIRED_FIELD_ADDED"
    REQUIRED_FIELD_REMOVED = "REQUIRED_FIELD_REMOVED"
    ONEOF_ADDED = "ONEOF_ADDED"
    ONEOF_REMOVED = "ONEOF_REMOVED"
    ONEOF_FIELD_ADDED = "ONEOF_FIELD_ADDED"
    ONEOF_FIELD_REMOVED = "ONEOF_FIELD_REMOVED"
    ONEOF_FIELD_MOVED_TO_TOP_LEVEL = "ONEOF_FIELD_MOVED_TO_TOP_LEVEL"
    MULTIPLE_FIELDS_MOVED_TO_ONEOF = "MULTIPLE_FIELDS_MOVED_TO_ONEOF"
    FIELD_MOVED_TO_EXISTING_ONEOF = "FIELD_MOVED_TO_EXISTING_ONEOF"

    @property
    def is_compatible(self) -> bool:
        """Whether a reader with the changed schema can read data that was written before the change."""
        return self not in _DESCRIPTIONS


# The message of each incompatible kind; %s stands for a schema, whose name the registry puts in.
_K = DifferenceKind
_DESCRIPTIONS = {
    _K.PACKAGE_CHANGED: "The package at '{}' in the %s schema does not match the package in the %s schema",
    _K.MESSAGE_REMOVED: "The %s schema is missing a MESSAGE type at path '{}' in the %s schema",
    _K.FIELD_KIND_CHANGED: "The type of a field at path '{}' in the %s schema does not match the %s schema",
    _K.FIELD_SCALAR_KIND_CHANGED: "The kind of a SCALAR field at path '{}' in the %s schema does not match its kind in"
    " the %s schema",
    _K.FIELD_NAMED_TYPE_CHANGED: "The type of a MESSAGE field at path '{}' in the %s schema does not match its type in"
    " the %s schema",
    _K.FIELD_NUMERIC_LABEL_CHANGED: "The label for a NUMERIC field at path '{}' in the %s schema does not match its"
    " label in the %s schema",
    _K.REQUIRED_FIELD_ADDED: "A required field  at path '{}' in the %s schema is missing in the %s schema",
    _K.REQUIRED_FIELD_REMOVED: "The %s schema is missing a required field at path: '{}' in the %s schema",
    _K.ONEOF_FIELD_REMOVED: "The %s schema is missing a oneof field at path '{}' in the %s schema",
    _K.MULTIPLE_FIELDS_MOVED_TO_ONEOF: "Multiple fields in the oneof at path '{}' in the %s schema are outside a oneof"
    " in the %s schema",
    _K.FIELD_MOVED_TO_EXISTING_ONEOF: "A field in the oneof at path '{}' in the %s schema is outside an existing oneof"
    " in the %s schema",
}


class Difference(NamedTuple):
    """A difference between a writer's and a reader's schema."""

    kind: DifferenceKind
    path: str

    @property
    def text(self) -> str:
        """The message of Confluent's registry for an incompatible difference, with `%s` for the names of the
        schemas."""
        description = _DESCRIPTIONS.get(self.kind, "").format(self.path)
        return f'{{errorType:"{self.kind}", description:"{description}"}}'


class _Pair(NamedTuple):
    """A message of the writer's schema, and the message of the reader's schema with the same name."""

    old: el.Message
    new: el.Message
    old_scope: Scope
    new_scope: Scope


class _Change(NamedTuple):
    """A difference without its whole path, which begins with the path of the writer's or the reader's message of a
    scope."""

    kind: DifferenceKind
    scope: Scope
    tail: tuple[str | int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class _Inner:
    """A pair of messages within a message: one declared in it, or the type of a field.

    change: the change of the field, which is incompatible if the messages are; None for a declared message.
    """

    pair: _Pair
    change: _Change | None


_Found: TypeAlias = _Change | _Inner


@dataclass(frozen=True, slots=True, eq=False)
class _Compared:
    """The result of comparing a pair of messages: the differences of their fields, and of the types that they
    declare."""

    fields: list[_Found]
    types: list[_Found]


def compare(old: el.File, old_names: Names, new: el.File, new_names: Names) -> list[Difference]:
    """Return the differences between the writer's file (old) and the reader's (new), in the order of Confluent's
    registry.

    Returns at most DIFFERENCES_MAX compatible differences, and as many incompatible ones. On a path, a message that
    contains itself is compared once.
    """
    return _Comparison(old_names, new_names).files(old, new)


class _Comparison:
    def __init__(self, old_names: Names, new_names: Names) -> None:
        self._old = old_names
        self._new = new_names
        self._compared: dict[tuple[int, int], _Compared] = {}
        self._same: dict[tuple[Scope, Scope], bool] = {}
        self._root = Scope(None, "")

    def files(self, old: el.File, new: el.File) -> list[Difference]:
        found: list[_Found] = []
        if old.package != new.package:
            found.append(_Change(_K.PACKAGE_CHANGED, self._root))
        found += self._types(old.types, new.types, self._old.package, self._new.package)
        result = _List()
        if not self._listed(found, result) and not result.incompatible:
            change = self._first_incompatible(found)
            if change:
                result.add(change)
        return result.differences

    def _listed(self, found: Sequence[_Found], result: _List) -> bool:
        """List the changes in order, with the changes of inner pairs of messages in the places of these pairs; return
        whether all are listed.

        Each frame of the stack is a pair that is being listed: its remaining changes, the change of the field that led
        to it, the number of incompatible changes before it, and the writer's message whose fields are listed.
        """
        open_messages: set[int] = set()
        stack: list[tuple[Iterator[_Found], _Change | None, int, int | None]] = [(iter(found), None, 0, None)]
        visits = 0
        while stack:
            rest, change, before, message = stack[-1]
            each = next(rest, None)
            if each is None:
                stack.pop()
                if message is not None:
                    open_messages.discard(message)
                if change is not None and result.incompatible > before:
                    result.add(change)
            elif isinstance(each, _Change):
                result.add(each)
            elif visits == DIFFERENCES_MAX:
                return False
            else:
                visits += 1
                compared = self._pair(each.pair)
                own = id(each.pair.old)
                is_open = own in open_messages
                inner = compared.types if is_open else [*compared.fields, *compared.types]
                open_messages.add(own)
                stack.append((iter(inner), each.change, result.incompatible, None if is_open else own))
        return True

    def _first_incompatible(self, found: Sequence[_Found]) -> _Change | None:
        """Return the first incompatible change among these changes and those of their inner pairs; None if all are
        compatible."""
        todo, seen = list(found), set[tuple[int, int]]()
        while todo:
            each = todo.pop()
            if isinstance(each, _Change):
                if not each.kind.is_compatible:
                    return each
            elif (key := (id(each.pair.old), id(each.pair.new))) not in seen:
                seen.add(key)
                compared = self._pair(each.pair)
                todo += [*compared.fields, *compared.types]
        return None

    def _pair(self, pair: _Pair) -> _Compared:
        key = id(pair.old), id(pair.new)
        if key not in self._compared:
            types = self._types(pair.old.types, pair.new.types, pair.old_scope, pair.new_scope)
            self._compared[key] = _Compared(list(self._message(pair)), list(types))
        return self._compared[key]

    def _types(
        self,
        old: Sequence[el.Message | el.Enum],
        new: Sequence[el.Message | el.Enum],
        old_scope: Scope,
        new_scope: Scope,
    ) -> Iterator[_Found]:
        """Yield the differences of the types that two files or messages declare."""
        old_messages = {each.name: (i, each) for i, each in enumerate(_messages(old))}
        new_messages = {each.name: (i, each) for i, each in enumerate(_messages(new))}
        for name in _name_order(old_messages, new_messages):
            before, after = old_messages.get(name), new_messages.get(name)
            if before and after:
                scope = old_scope.child(name)
                yield _Inner(_Pair(before[1], after[1], scope, new_scope.child(name)), None)
                if before[0] != after[0]:
                    yield _Change(_K.MESSAGE_MOVED, scope)
            elif before and not is_map_entry(before[1]):
                yield _Change(_K.MESSAGE_REMOVED, old_scope.child(name))
            elif after and not is_map_entry(after[1]):
                yield _Change(_K.MESSAGE_ADDED, new_scope.child(name))
        old_enums, new_enums = _enums(old), _enums(new)
        for name in _name_order(old_enums, new_enums):
            if name not in new_enums:
                yield _Change(_K.ENUM_REMOVED, old_scope.child(name))
            elif name not in old_enums:
                yield _Change(_K.ENUM_ADDED, new_scope.child(name))
            else:
                yield from _enum(old_enums[name], new_enums[name], old_scope.child(name))

    def _message(self, pair: _Pair) -> Iterator[_Found]:
        """Yield the differences of the fields of two messages."""
        scope = pair.old_scope
        old, new = _Fields(pair.old), _Fields(pair.new)
        yield from _oneofs(old, new, scope)
        gone = {
            name
            for name, oneof in old.oneofs.items()
            if name not in new.oneofs and not any(field.number in new.by_number for field in oneof.fields)
        }
        for number in sorted(old.by_number.keys() | new.by_number.keys()):
            before, after = old.by_number.get(number), new.by_number.get(number)
            old_oneof, new_oneof = old.oneof_of.get(number), new.oneof_of.get(number)
            if before and after:
                if old_oneof is not None and new_oneof is None:
                    yield _Change(_K.ONEOF_FIELD_MOVED_TO_TOP_LEVEL, scope, (number,))
                here = (number,) if new_oneof is None else (new_oneof, number)
                if before.name != after.name:
                    yield _Change(_K.FIELD_NAME_CHANGED, scope, here)
                yield from self._type(before.type, after.type, (before.label, after.label), pair, here)
            elif before and old_oneof is None:
                kind = _K.REQUIRED_FIELD_REMOVED if before.label == "required" else _K.FIELD_REMOVED
                yield _Change(kind, scope, (number,))
            elif before and old_oneof not in gone:
                yield _Change(_K.ONEOF_FIELD_REMOVED, scope, (str(old_oneof), number))
            elif after and new_oneof is None:
                kind = _K.REQUIRED_FIELD_ADDED if after.label == "required" else _K.FIELD_ADDED
                yield _Change(kind, scope, (number,))
            elif after and new_oneof is not None:
                yield _Change(_K.ONEOF_FIELD_ADDED, scope, (new_oneof, number))

    def _type(
        self, old: str, new: str, labels: tuple[str | None, str | None], pair: _Pair, field: tuple[str | int, ...]
    ) -> Iterator[_Found]:
        """Yield the differences of the types of a field, or of the keys or values of a map."""
        before, after = _resolved(self._old, old, pair.old_scope), _resolved(self._new, new, pair.new_scope)
        scope = pair.old_scope
        if before.kind != after.kind:
            yield _Change(_K.FIELD_KIND_CHANGED, scope, field)
        elif before.kind == _SCALAR:
            yield from _scalar(before.group, after.group, labels, _Change(_K.FIELD_SCALAR_KIND_CHANGED, scope, field))
        elif before.kind == _MAP:
            for old_part, new_part in zip(map_of(before.name) or (), map_of(after.name) or (), strict=True):
                yield from self._type(old_part, new_part, (None, None), pair, field)
        else:
            yield from self._named(before, after, _Change(_K.FIELD_NAMED_TYPE_CHANGED, scope, field))

    def _named(self, old: _FieldType, new: _FieldType, change: _Change) -> Iterator[_Found]:
        """Yield the differences of two messages that are the types of a field."""
        if old.scope is None or new.scope is None or old.scope.type is None or new.scope.type is None:
            if old.name != new.name:
                yield change
            return
        before, after = old.scope.type, new.scope.type
        if not self._is_same_name(old.scope, new.scope):
            yield change
            return
        # messages that both files declare are compared as declarations of the files
        is_elsewhere = before.file is not None or after.file is not None
        if is_elsewhere and isinstance(before.element, el.Message) and isinstance(after.element, el.Message):
            yield _Inner(_Pair(before.element, after.element, old.scope, new.scope), change)

    def _is_same_name(self, old: Scope, new: Scope) -> bool:
        """Return whether two types have the same name within their packages."""
        if (old, new) not in self._same:
            self._same[old, new] = _local_parts(old) == _local_parts(new)
        return self._same[old, new]


_SCALAR, _MAP, _MESSAGE = "scalar", "map", "message"
_NUMBER, _TEXT = "number", "text"
_GROUPS = (
    dict.fromkeys(("int32", "int64", "uint32", "uint64", "bool"), _NUMBER)
    | dict.fromkeys(("sint32", "sint64"), "signed")
    | dict.fromkeys(("string", "bytes"), _TEXT)
    | dict.fromkeys(("fixed32", "sfixed32"), "fixed32")
    | dict.fromkeys(("fixed64", "sfixed64"), "fixed64")
    | {"float": "float", "double": "double"}
)
"""The group of each scalar type: types of one group can read each other's encodings."""


class _FieldType(NamedTuple):
    """A field's type. kind: scalar (or enum), map or message. group: the group of a scalar type. scope: the scope of a
    message or enum, if its name is resolved."""

    kind: str
    name: str
    scope: Scope | None
    group: str | None


def _resolved(names: Names, name: str, scope: Scope) -> _FieldType:
    if name in SCALARS:
        return _FieldType(_SCALAR, name, None, _GROUPS[name])
    if name.startswith("map<"):
        return _FieldType(_MAP, name, None, None)
    found = names.type(scope, name)
    declared = found.type if found else None
    if declared and isinstance(declared.element, el.Enum):
        return _FieldType(_SCALAR, name, found, _NUMBER)
    if declared and declared.map_type:
        return _FieldType(_MAP, declared.map_type, None, None)
    return _FieldType(_MESSAGE, name, found, None)


class _Fields:
    """The fields of a message by number, including those of oneofs; and the oneof of each field."""

    def __init__(self, message: el.Message) -> None:
        self.by_number = {field.number: field for field in message.fields}
        self.oneofs = {oneof.name: oneof for oneof in message.oneofs}
        self.order = message.oneofs
        self.oneof_of: dict[int, str] = {}
        for oneof in message.oneofs:
            for field in oneof.fields:
                self.by_number[field.number] = field
                self.oneof_of[field.number] = oneof.name


class _List:
    """The list of differences, which takes no more when it is full."""

    def __init__(self) -> None:
        self.differences: list[Difference] = []
        self.incompatible = 0
        self._size = 0

    def add(self, change: _Change) -> None:
        is_compatible = change.kind.is_compatible
        count = len(self.differences) - self.incompatible if is_compatible else self.incompatible
        if count >= DIFFERENCES_MAX or (count and self._size > PATHS_SIZE_MAX):
            return
        path = "#/" + "/".join([*_local_parts(change.scope), *map(str, change.tail)])
        self._size += len(path)
        self.differences.append(Difference(change.kind, path))
        self.incompatible += not is_compatible


def _oneofs(old: _Fields, new: _Fields, scope: Scope) -> Iterator[_Change]:
    """Yield the oneofs that were added or removed, and those that now exclude fields that could be set together
    before."""
    for oneof in new.order:
        known = [field.number for field in oneof.fields if field.number in old.by_number]
        alone = [number for number in known if number not in old.oneof_of]
        together = {old.oneof_of[number] for number in known if number in old.oneof_of}
        if len(set(alone)) + len(together) > 1:
            kind = _K.MULTIPLE_FIELDS_MOVED_TO_ONEOF if len(alone) > 1 else _K.FIELD_MOVED_TO_EXISTING_ONEOF
            yield _Change(kind, scope, (oneof.name,))
    for name in sorted(old.oneofs.keys() | new.oneofs.keys()):
        if name not in new.oneofs:
            yield _Change(_K.ONEOF_REMOVED, scope, (name,))
        elif name not in old.oneofs:
            yield _Change(_K.ONEOF_ADDED, scope, (name,))


def _scalar(
    old: str | None, new: str | None, labels: tuple[str | None, str | None], change: _Change
) -> Iterator[_Change]:
    if old != new:
        yield change
    elif labels[0] is not None and labels[1] is not None and labels[0] != labels[1]:
        is_text = old == _TEXT
        kind = _K.FIELD_STRING_OR_BYTES_LABEL_CHANGED if is_text else _K.FIELD_NUMERIC_LABEL_CHANGED
        yield change._replace(kind=kind)


def _enum(old: el.Enum, new: el.Enum, scope: Scope) -> Iterator[_Change]:
    before = {constant.number: constant.name for constant in old.constants}
    after = {constant.number: constant.name for constant in new.constants}
    for number in _set_order(before, after, int):
        if number not in after:
            yield _Change(_K.ENUM_CONST_REMOVED, scope, (number,))
        elif number not in before:
            yield _Change(_K.ENUM_CONST_ADDED, scope, (number,))
        elif before[number] != after[number]:
            yield _Change(_K.ENUM_CONST_CHANGED, scope, (number,))


def _messages(types: Iterable[el.Message | el.Enum]) -> list[el.Message]:
    return [each for each in types if isinstance(each, el.Message)]


def _enums(types: Iterable[el.Message | el.Enum]) -> dict[str, el.Enum]:
    return {each.name: each for each in types if isinstance(each, el.Enum)}


def _local_parts(scope: Scope) -> list[str]:
    """Return the parts of a type's name within its package; an empty list for a package."""
    if scope.type is None:
        return []
    package = scope.type.package
    return scope.parts()[package.count(".") + 1 if package else 0 :]


def _name_order(old: Iterable[str], new: Iterable[str]) -> list[str]:
    """Return the names of both schemas in the order of Confluent's registry."""
    return _set_order(hash_map_order(old), hash_map_order(new), java_hash)


def _set_order(old: Iterable[_T], new: Iterable[_T], hash_code: Callable[[_T], int]) -> list[_T]:
    """Return the distinct keys in the order of a Java HashSet made of `old`, to which `new` is added."""
    first = list(old)
    keys = list(dict.fromkeys([*first, *new]))
    return hash_order(keys, hash_code, map_size(len(keys), set_size(len(first))))
