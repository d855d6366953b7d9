"""Message schemas: Kafka's field tables, and the layout of each version.

    file     schemas/*.json, each a list of messages: name, type, apiKey, validVersions, flexibleVersions, fields
    field    name, type, versions, nullableVersions, taggedVersions, tag, default, fields of its struct
    type     bool, int8 .. int64, uint16, uint32, float64, uuid, string, bytes, a struct's name; [] before it: array
    versions "0", "1-3", "2+" or "none", both ends included

`schema` loads a message, `MessageSchema.layout` describes one version of it in bytes: the fields in their order, which
are tagged, which are nullable, and their length prefixes. The readers, the Construct definition and the JSON
form are all made from that layout. Kafka's generator has the same rules: `MessageDataGenerator` (KIP-482 for tags).
"""

import json
import pkgutil
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Self

from formats.errors import BadCount, BadLength, BadValue, BadVarint, Truncated, UnknownType, UnknownVersion

UNKNOWN_TAGS: Final = "_unknownTaggedFields"
"""The key under which a value keeps tagged fields that its schema does not know: a list of (tag, bytes)."""

FIXED: Final = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "uint32": ("I", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
    "uuid": ("16s", 16),
}
"""Types of fixed size: their format character in the struct module and their size in bytes."""

_ZEROS: Final = {"bool": False, "float64": 0.0, "uuid": "A" * 22, "string": "", "bytes": b""}
_MAX_VERSION: Final = 32767
_FILES: Final = (
    "consumer_offsets",
    "transaction_state",
    "share_group_state",
    "remote_log_metadata",
    "cluster_metadata",
    "control_records",
    "producer_snapshot",
    "quorum_state",
)


@dataclass(frozen=True, slots=True)
class Versions:
    """A range of versions, both ends included; it is empty if `low` is above `high`."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the range that a schema writes as "none", "3", "0-4" or "2+"."""
        if text == "none":
            return cls(0, -1)
        if text.endswith("+"):
            return cls(int(text[:-1]), _MAX_VERSION)
        low, _, high = text.partition("-")
        return cls(int(low), int(high or low))

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high

    def __and__(self, other: "Versions") -> "Versions":
        return Versions(max(self.low, other.low), min(self.high, other.high))

    def nearest(self, version: int) -> int:
        """Return the version of this range that is nearest to `version`."""
        return min(max(version, self.low), self.high)

    def __str__(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a schema, over all versions. `name` begins with a small letter, as in Kafka's JSON. `tag`: None for
    a field that no version tags. `flexible`: the field's own flexible versions; None: those of the message. `struct`:
    the struct, if the type is a struct or an array of structs; else None."""

    name: str
    type: str
    versions: Versions
    nullable: Versions
    tagged: Versions
    tag: int | None
    flexible: Versions | None
    default: object
    struct: "Struct | None"

    @property
    def is_array(self) -> bool:
        """Whether the type is an array."""
        return self.type.startswith("[]")


@dataclass(frozen=True, slots=True)
class Struct:
    """A struct of a schema.

    `parent`: the range of versions of the message or struct that contains this one (for a common struct: its own
    range); Kafka's generated class for this struct has that range, too. The class reads a version below the range as
    the lowest one, and a version above it as the highest one; if `limited`, it refuses a version above the range.
    """

    name: str
    parent: Versions
    limited: bool
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Slot:
    """One field in one version. `flexible`: lengths are unsigned varints plus one. `tag`: None for an untagged field.
    `element`: the struct's layout, if the type is a struct or an array of structs; else None.
    """

    name: str
    type: str
    is_array: bool
    nullable: bool
    flexible: bool
    tag: int | None
    default: Any
    element: "Layout | None"


@dataclass(frozen=True, slots=True)
class Layout:
    """A struct in one version. `slots`: the untagged fields, in the order of the bytes; `tagged`: the tagged fields, by
    tag; `names`: the names of all fields, in the order of the schema. `refused_tags`: tags that the schema has only in
    other versions. `readable`: False if Kafka's class refuses to read this version of the struct.
    """

    name: str
    version: int
    readable: bool
    flexible: bool
    slots: tuple[Slot, ...]
    tagged: tuple[Slot, ...]
    names: tuple[str, ...]
    refused_tags: tuple[int, ...]

    def default(self) -> dict[str, Any]:
        """Return the value in which every field has its default."""
        by_name = {slot.name: slot.default for slot in (*self.slots, *self.tagged)}
        return {name: deepcopy(by_name[name]) for name in self.names}


@dataclass(frozen=True, slots=True)
class MessageSchema:
    """A message over all its versions. `api_key`: the type id, if the message is the key or the value of a record; None
    for other messages (data, headers)."""

    name: str
    type: str
    api_key: int | None
    versions: Versions
    flexible: Versions
    root: Struct
    _layouts: dict[int, Layout] = field(default_factory=dict, repr=False, compare=False)

    def check(self, version: int) -> None:
        """Check that the message has that version. Raises UnknownVersion if it does not."""
        if version not in self.versions:
            raise UnknownVersion(f"{self.name} has no version {version}, only {self.versions}", 0)

    def layout(self, version: int) -> Layout:
        """Return the layout of the message in a version.

        All versions below the message's lowest have one layout, all above its highest another. Kafka's generated
        classes read such a version as the nearest one that they have, but the classes of nested structs refuse a
        version above their range.
        """
        version = min(max(version, self.versions.low - 1), self.versions.high + 1)
        found = self._layouts.get(version)
        if found is None:
            found = self._layouts[version] = _layout(self.root, version, self.flexible)
        return found


def schema(name: str) -> MessageSchema:
    """Return the schema of that name ("OffsetCommitValue"). Only the file that contains it is parsed.

    Raises UnknownType.
    """
    found = _by_name(name)
    if found is None:
        raise UnknownType(f"no message is called {name}")
    return found


@cache
def schemas(file: str) -> tuple[MessageSchema, ...]:
    """Return all messages of one schema file ("consumer_offsets"), in its order."""
    return tuple(_message(entry) for entry in json.loads(_text(file)))


def schema_files() -> tuple[str, ...]:
    """Return the names of the schema files, without .json."""
    return _FILES


@cache
def _by_name(name: str) -> MessageSchema | None:
    for file in _FILES:
        if f'"name": "{name}"' in _text(file):
            for message in schemas(file):
                if message.name == name:
                    return message
    return None


@cache
def _text(file: str) -> str:
    data = pkgutil.get_data("formats", f"schemas/{file}.json")
    assert data is not None, "the package's own loader has its data"
    return data.decode("utf-8")


def _message(entry: dict[str, Any]) -> MessageSchema:
    versions = Versions.parse(entry["validVersions"])
    common = {each["name"]: each for each in entry.get("commonStructs", ())}

    def struct(entry: dict[str, Any], parent: Versions) -> Struct | None:
        name = entry["type"].removeprefix("[]")
        if not name[0].isupper():
            return None
        if name in common:
            parent = Versions.parse(common[name]["versions"])
            return Struct(name, parent, limited=False, fields=fields(common[name]["fields"], parent))
        own = Versions.parse(entry["versions"] if "versions" in entry else entry["taggedVersions"])
        return Struct(name, parent, limited=own.high > parent.high, fields=fields(entry["fields"], parent & own))

    def fields(entries: list[dict[str, Any]], parent: Versions) -> tuple[Field, ...]:
        return tuple(_field(each, struct(each, parent)) for each in entries)

    root = Struct(entry["name"], versions, limited=False, fields=fields(entry["fields"], versions))
    flexible = Versions.parse(entry["flexibleVersions"])
    return MessageSchema(entry["name"], entry["type"], entry.get("apiKey"), versions, flexible, root)


def _field(entry: dict[str, Any], struct: Struct | None) -> Field:
    tagged = Versions.parse(entry.get("taggedVersions", "none"))
    flexible = entry.get("flexibleVersions")
    return Field(
        name=entry["name"][0].lower() + entry["name"][1:],
        type=entry["type"],
        versions=Versions.parse(entry["versions"]) if "versions" in entry else tagged,
        nullable=Versions.parse(entry.get("nullableVersions", "none")),
        tagged=tagged,
        tag=entry.get("tag"),
        flexible=None if flexible is None else Versions.parse(flexible),
        default=_default(entry["type"], entry.get("default")),
        struct=struct,
    )


def _default(type_: str, text: object) -> object:
    """Return a field's default. text: the schema's `default`: the string "null" if the default is null; None if the
    schema has no `default`."""
    if text == "null":
        return None
    if type_.startswith("[]"):
        return []
    if type_[0].isupper():
        return {}
    if text is None:
        return _ZEROS.get(type_, 0)
    if type_ == "bool":
        return text in (True, "true")
    return text if type_ in ("string", "bytes", "uuid") else int(str(text), 0)


def _layout(struct: Struct, version: int, flexible: Versions) -> Layout:
    near = struct.parent.nearest(version)
    slots: list[Slot] = []
    tagged: list[Slot] = []
    names: list[str] = []
    refused: list[int] = []
    for each in struct.fields:
        is_tagged = near in (each.tagged & each.versions)
        if each.tag is not None and not is_tagged:
            refused.append(each.tag)
        if near not in each.versions:
            continue
        element = None if each.struct is None else _layout(each.struct, version, flexible)
        slot = Slot(
            name=each.name,
            type=each.type.removeprefix("[]"),
            is_array=each.is_array,
            nullable=near in each.nullable,
            flexible=near in (flexible if each.flexible is None else each.flexible),
            tag=each.tag if is_tagged else None,
            default=element.default() if element is not None and each.default == {} else each.default,
            element=element,
        )
        (tagged if is_tagged else slots).append(slot)
        names.append(each.name)
    tagged.sort(key=lambda slot: slot.tag or 0)
    return Layout(
        name=struct.name,
        version=version,
        readable=not (struct.limited and version > struct.parent.high),
        flexible=near in flexible,
        slots=tuple(slots),
        tagged=tuple(tagged),
        names=tuple(names),
        refused_tags=tuple(refused),
    )


# The errors of a message. All texts but that of `cut` are Kafka's: kcli must print what Kafka's dump tool prints.


def cut(name: str, position: int) -> Truncated:
    """Return the error for bytes that end inside the fixed-size field, length or count that begins at `position`."""
    return Truncated(f"the bytes end inside {name}", position)


def is_null(name: str, position: int) -> BadValue:
    """Return the error for a null in a field that is not nullable."""
    return BadValue(f"non-nullable field {name} was serialized as null", position)


def long_string(name: str, length: int, position: int) -> BadLength:
    """Return the error for a string of more than 32,767 bytes."""
    return BadLength(f"string field {name} had invalid length {length}", position)


def short_bytes(length: int, rest: int, position: int) -> BadLength:
    """Return the error for a length that is negative, or that exceeds the `rest` bytes that remain."""
    if length < 0:
        return BadLength(str(length), position)
    return BadLength(f"Error reading byte array of {length} byte(s): only {rest} byte(s) available", position)


def long_array(count: int, rest: int, position: int) -> BadCount:
    """Return the error for an array whose count exceeds the `rest` bytes that remain."""
    return BadCount(
        f"Tried to allocate a collection of size {count}, but there are only {rest} bytes remaining.", position
    )


def long_varint(value: int, position: int) -> BadVarint:
    """Return the error for a varint of more than five bytes."""
    return BadVarint(
        f"Varint is too long, the most significant bit in the 5th byte is set, converted value: {value & 0xFFFFFFFF:x}",
        position,
    )


def refused_version(layout: Layout, position: int) -> UnknownVersion:
    """Return the error for a struct in a version that it does not have."""
    return UnknownVersion(f"Can't read version {layout.version} of {layout.name}", position)


def refused_tag(tag: int, version: int, position: int) -> BadValue:
    """Return the error for a tag that the schema has, but not in this version."""
    return BadValue(f"Tag {tag} is not valid for version {version}", position)
