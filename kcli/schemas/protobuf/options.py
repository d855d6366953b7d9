"""The options of a declaration as one normalized list: sorted by name, and each option that may be set only once as one
map.

    (shop.money).min = 1, (shop.money).max = 9    ->    (shop.money) = {max: 9, min: 1}

Source: protobuf.dev, "Custom Options"; normalize of Confluent's ProtobufSchema.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from kcli.schemas.protobuf import elements as el
from kcli.schemas.protobuf.elements import WORDS, Kind, Option, Value, Word
from kcli.schemas.protobuf.names import Names, Scope


def normalized_options(options: Sequence[Option], names: Names, scope: Scope) -> list[Option]:
    """Return the options of a declaration in a scope."""
    resolved = [_resolved(option, names, scope) for option in options]
    groups: dict[str, list[Option]] = {}
    for option in sorted(resolved, key=lambda each: each.name):
        groups.setdefault(option.name, []).append(option)
    result: list[Option] = []
    for name, group in groups.items():
        field = names.extension_field(name)
        is_merged = len(group) > 1 and field is not None and field.label != "repeated"
        result += [_merged(field, group, names, scope)] if is_merged and field else group
    return result


def _resolved(option: Option, names: Names, scope: Scope) -> Option:
    found = names.extension(scope, option.name) if option.is_extension else None
    return option if found is None else as_map(option._replace(name=found.full_name))


def as_map(option: Option) -> Option:
    """Return an option `a.b.c = value` as `a = {b: {c: value}}`; return any other option as it is."""
    if not isinstance(option.value, Option):
        return option
    path: list[Option] = []
    inner: Value = option.value
    while isinstance(inner, Option):
        path.append(inner)
        inner = inner.value
    last = path[-1]
    value: Value = Word(last.kind, inner) if last.kind in WORDS and isinstance(inner, str) else inner
    for each in reversed(path):
        value = {each.name: value}
    return Option(option.name, Kind.MAP, value, option.is_extension)


def merged(options: Sequence[Option]) -> Option:
    """Merge several settings of one option: the last counts; of maps all entries count, and an entry that is set
    several times becomes a list."""
    return _merged(None, [as_map(option) for option in options], None, None)


def _merged(field: el.Field | None, options: Sequence[Option], names: Names | None, scope: Scope | None) -> Option:
    """Merge several settings of an extension's field into one option: the last counts, or of maps all entries."""
    merge = _Merge(names, scope)
    result = options[0]
    for option in map(as_map, options[1:]):
        if isinstance(result.value, dict) and isinstance(option.value, dict):
            entries = merge.maps(field, merge.owned_map(result.value), option.value)
            result = Option(option.name, Kind.MAP, entries, option.is_extension)
        else:
            result = option
    return result


class _Merge:
    """Merges maps into copies that it owns, in place: each entry is copied once, however many settings there are."""

    def __init__(self, names: Names | None, scope: Scope | None) -> None:
        self._names = names
        self._scope = scope
        self._maps: dict[int, dict[str, Value]] = {}
        self._lists: dict[int, tuple[list[Value], set[Hashable]]] = {}
        self._fields: dict[int, dict[str, el.Field]] = {}

    def owned_map(self, entries: dict[str, Value]) -> dict[str, Value]:
        """Return the merge's copy of a map, or the map if it is a copy already."""
        if id(entries) not in self._maps:
            entries = dict(entries)
            self._maps[id(entries)] = entries
        return entries

    def maps(self, field: el.Field | None, target: dict[str, Value], entries: dict[str, Value]) -> dict[str, Value]:
        """Merge entries into `target`, a map for the message of `field`; return the target."""
        fields = self._fields_of(self._message(field))
        for key, value in entries.items():
            if key in target:
                target[key] = self._both(fields.get(key), target[key], value)
            else:
                target[key] = value
        return target

    def _both(self, field: el.Field | None, first: Value, second: Value) -> Value:
        if field is not None and field.label != "repeated":
            if isinstance(first, dict) and isinstance(second, dict) and self._message(field):
                return self.maps(field, self.owned_map(first), second)
            return second
        known = self._lists.get(id(first))
        if known is None:
            known = [], set()
            self._lists[id(known[0])] = known
            _add_new(known, first)
        _add_new(known, second)
        return known[0]

    def _message(self, field: el.Field | None) -> el.Message | None:
        if field is None or self._names is None or self._scope is None:
            return None
        found = self._names.type(self._scope, field.type)
        element = found.type.element if found and found.type else None
        return element if isinstance(element, el.Message) else None

    def _fields_of(self, message: el.Message | None) -> dict[str, el.Field]:
        if message is None:
            return {}
        if id(message) not in self._fields:
            fields = [*message.fields, *(field for oneof in message.oneofs for field in oneof.fields)]
            self._fields[id(message)] = {field.name: field for field in reversed(fields)}
        return self._fields[id(message)]


def _add_new(known: tuple[list[Value], set[Hashable]], value: Value) -> None:
    values, seen = known
    for each in value if isinstance(value, list) else [value]:
        key = _hashable(each)
        if key not in seen:
            seen.add(key)
            values.append(each)


def _hashable(value: Value) -> Hashable:
    if isinstance(value, dict):
        return frozenset((key, _hashable(each)) for key, each in value.items())
    if isinstance(value, list):
        return tuple(_hashable(each) for each in value)
    return (type(value).__name__, value) if isinstance(value, str) else value
